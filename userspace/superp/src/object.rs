// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Objects that are only shown: the node, memory regions, queue pairs, counters.

use crate::failure::Failure;
use crate::out::{self, Out, Table};
use crate::words::{address_or_none, switch, OptionalAddr};
use clap::{ArgAction, Subcommand};
use serde_json::json;
use std::net::IpAddr;
use superp_netlink::{Client, Node, Qp, Region};
use superp_sys::uapi;
use superp_units::number;

#[derive(Subcommand)]
pub(crate) enum NodeVerb {
    /// Show the node.
    Show,
    /// Change the node.
    #[command(subcommand)]
    Set(NodeSetting),
}

#[derive(Subcommand)]
pub(crate) enum NodeSetting {
    /// Address of the connection manager, kept for the programs that talk to it.
    CmAddress {
        /// The address or host name, or none.
        #[arg(value_parser = address_or_none)]
        addr: OptionalAddr,
    },
    /// Whether packets are forwarded, SUNH frames between ports and between SUNH and UDP: on or off.
    Forwarding {
        /// on or off.
        #[arg(value_parser = |text: &str| switch("forwarding", text), action = ArgAction::Set)]
        on: bool,
    },
    /// The node's part of a global RMA address space: new regions get the first free addresses there.
    RmaBase {
        /// First address, a multiple of the page size; 0 for none, then each region gets a key.
        #[arg(value_parser = number)]
        base: u64,
        /// How many bytes, a multiple of the page size; 0 for all that follow.
        #[arg(default_value = "0", value_parser = number)]
        size: u64,
    },
}

/// `superp node`.
pub(crate) fn node(verb: Option<NodeVerb>, out: &mut Out) -> Result<(), Failure> {
    let mut client = Client::open()?;
    match verb {
        Some(NodeVerb::Set(NodeSetting::CmAddress { addr })) => {
            client.set_cm_address(addr.0)?;
            return out.done(&json!({ "cm-address": addr.0 }));
        }
        Some(NodeVerb::Set(NodeSetting::Forwarding { on })) => {
            client.set_forwarding(on)?;
            return out.done(&json!({ "forwarding": on }));
        }
        Some(NodeVerb::Set(NodeSetting::RmaBase { base, size })) => {
            client.set_rma_space(base, size)?;
            return out.done(&json!({ "rma-base": base, "rma-size": size }));
        }
        None | Some(NodeVerb::Show) => {}
    }
    let node = client.node()?;
    out.either(&node, |out| print_node(&node, out))
}

fn print_node(node: &Node, out: &mut Out) -> Result<(), Failure> {
    let list = |addrs: &[IpAddr]| match addrs {
        [] => "none".to_owned(),
        addrs => addrs
            .iter()
            .map(IpAddr::to_string)
            .collect::<Vec<_>>()
            .join(" "),
    };
    for (name, value) in [
        ("addresses", list(&node.addresses)),
        ("ports", node.ports.to_string()),
        ("connections", node.conns.to_string()),
        ("queue pairs", node.qps.to_string()),
        ("regions", node.regions.to_string()),
        ("family", node.family.to_string()),
        ("ethertype", format!("{:#06x}", node.ethertype)),
        ("next header", node.next_header.to_string()),
        ("UDP port", node.udp_port.to_string()),
        ("address bits", node.caddr_bits.to_string()),
        ("manager", list(node.cm_address.as_slice())),
        (
            "forwarding",
            match node.forwarding {
                true => format!("on, {} frames", node.forwarded),
                false => "off".to_owned(),
            },
        ),
        (
            "RMA addresses",
            match (node.rma_base, node.rma_size) {
                (0, _) => "by key".to_owned(),
                (base, 0) => format!("global, from {base:#x}"),
                (base, size) => format!("global, {size:#x} bytes from {base:#x}"),
            },
        ),
        (
            "version",
            format!("{} (interface {})", node.module_version, node.uapi_version),
        ),
    ] {
        out.line(format_args!("{name:13} {value}"))?;
    }
    Ok(())
}

/// The rights of a region: remote read, remote write, local write, atomic, send.
fn access(bits: u32) -> String {
    let letter = |bit, letter| if bits & bit != 0 { letter } else { '-' };
    String::from_iter([
        letter(uapi::SUPERP_ACCESS_REMOTE_READ, 'r'),
        letter(uapi::SUPERP_ACCESS_REMOTE_WRITE, 'w'),
        letter(uapi::SUPERP_ACCESS_LOCAL_WRITE, 'l'),
        letter(uapi::SUPERP_ACCESS_REMOTE_ATOMIC, 'a'),
        letter(uapi::SUPERP_ACCESS_RECEIVE, 's'),
    ])
}

fn or_dash<T: ToString>(value: Option<T>) -> String {
    value.map_or("-".into(), |value| value.to_string())
}

/// `superp mr`.
pub(crate) fn regions(out: &mut Out) -> Result<(), Failure> {
    let regions = Client::open()?.regions()?;
    out.either(&regions, |out| {
        let mut table = Table::new(&[
            "KEY",
            "RMA-ADDRESS",
            ">LENGTH",
            "ACCESS",
            ">PARTITION",
            ">QPN",
            ">PID",
            "COMMAND",
            ">READ",
            ">WRITTEN",
        ]);
        for region in &regions {
            let Region {
                key,
                rma_addr,
                length,
                partition,
                qpn,
                ..
            } = region;
            table.row([
                format!("{key:#08x}"),
                format!("{rma_addr:#018x}"),
                out::bytes(*length),
                access(region.access),
                partition.to_string(),
                or_dash((*qpn != 0).then_some(qpn)),
                or_dash(region.pid),
                or_dash(region.command.as_ref()),
                out::bytes(region.remote_reads),
                out::bytes(region.remote_writes),
            ]);
        }
        table.print(out, "no memory regions")
    })
}

/// `superp qp`.
pub(crate) fn qps(out: &mut Out) -> Result<(), Failure> {
    let qps = Client::open()?.qps()?;
    out.either(&qps, |out| {
        let mut table = Table::new(&[
            ">QPN",
            ">CID",
            "PEER",
            ">PEER-QPN",
            ">PID",
            "COMMAND",
            ">SENT",
            ">RECEIVED",
            ">QUEUED",
            ">PENDING",
        ]);
        for qp in &qps {
            let Qp { qpn, pending, .. } = qp;
            table.row([
                qpn.to_string(),
                or_dash(qp.local_cid),
                or_dash(qp.remote_addr),
                or_dash(qp.remote_qpn.filter(|qpn| *qpn != 0)),
                or_dash(qp.pid),
                or_dash(qp.command.as_ref()),
                out::count(qp.tx_messages),
                out::count(qp.rx_messages),
                out::bytes(qp.rx_queued),
                pending.to_string(),
            ]);
        }
        table.print(out, "no queue pairs")
    })
}

/// `superp stats`.
pub(crate) fn stats(all: bool, out: &mut Out) -> Result<(), Failure> {
    let counters = Client::open()?.stats()?;
    out.either(&json!({ "drops": counters }), |out| {
        let mut table = Table::new(&["DROPPED", ">PACKETS"]);
        let shown = counters.0.iter().filter(|(_, value)| all || *value != 0);
        for (name, value) in shown {
            table.row([name.clone(), out::count(*value)]);
        }
        table.print(out, "no packets dropped")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rights_are_letters() {
        assert_eq!(access(0), "-----");
        assert_eq!(access(uapi::SUPERP_ACCESS_REMOTE_WRITE), "-w---");
        assert_eq!(access(31), "rwlas");
    }
}
