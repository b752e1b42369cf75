// SPDX-License-Identifier: GPL-2.0 OR MIT
//! `superp route`: routes of SUNH.

use crate::dev::index;
use crate::failure::Failure;
use crate::out::{Out, Table};
use crate::words::{once, pairs, value, Setting, Words};
use clap::Subcommand;
use serde_json::json;
use std::net::IpAddr;
use superp_netlink::{Client, Mac, Prefix, Via};
use superp_units::number;

/// Keys of `route add`.
const SETTINGS: &[Setting] = &[
    ("dev", "device, a port that serves SUNH; with prefix, UDP"),
    ("via", "IP address of the next hop"),
    ("lladdr", "Ethernet address of the next hop, instead of via"),
    (
        "prefix",
        "of the subnet, as 10.23.0.0/16 or fd23::/112: the node is reached over UDP at its IP address",
    ),
];

/// Keys of `route del`.
const DEL_SETTINGS: &[Setting] = &[("dev", "only next hops on this device")];

#[derive(Subcommand)]
pub(crate) enum RouteVerb {
    /// Show routes.
    #[command(alias = "list")]
    Show,
    /// Add a next hop: superp route add ADDRESS dev DEV via IP-ADDRESS, or lladdr MAC, or prefix PREFIX
    ///
    /// Several next hops of an address share its flows. With a prefix the address is that of a node
    /// beyond SUNH: packets go to its IP address over UDP, and its datagrams to the IP addresses of
    /// SUNH nodes, once IP has brought them here ("ip route add local"), go on in SUNH.
    Add {
        /// The SUNH address: a number, or an IP address whose low bits it is.
        address: String,
        /// dev DEV, then via IP-ADDRESS, lladdr MAC or prefix IP-ADDRESS/BITS.
        #[arg(required = true, value_name = "KEY VALUE", value_parser = Words(SETTINGS), hide_possible_values = true)]
        settings: Vec<String>,
    },
    /// Remove the next hops of an address: superp route del ADDRESS [dev DEV]
    #[command(alias = "delete")]
    Del {
        /// The SUNH address.
        address: String,
        /// dev DEV: only those on this device.
        #[arg(value_name = "KEY VALUE", value_parser = Words(DEL_SETTINGS), hide_possible_values = true)]
        settings: Vec<String>,
    },
}

pub(crate) fn run(verb: Option<RouteVerb>, out: &mut Out) -> Result<(), Failure> {
    let mut client = Client::open()?;
    match verb {
        None | Some(RouteVerb::Show) => show(&mut client, out),
        Some(RouteVerb::Add { address, settings }) => {
            let bits = client.node()?.caddr_bits;
            let address = sunh_address(&address, bits)?;
            let (dev, via) = hop(&settings)?;
            let ifindex = index(&dev.ok_or_else(|| Failure::new("dev is missing"))?)?;
            let via = via.ok_or_else(|| Failure::new("via, lladdr or prefix is missing"))?;
            let added = client.add_route(address, ifindex, via);
            added.map_err(of(address))?;
            out.done(&json!({ "address": address }))
        }
        Some(RouteVerb::Del { address, settings }) => {
            let bits = client.node()?.caddr_bits;
            let address = sunh_address(&address, bits)?;
            let dev = hop(&settings)?.0.map(|dev| index(&dev)).transpose()?;
            client.del_route(address, dev).map_err(of(address))?;
            out.done(&json!({ "address": address }))
        }
    }
}

/// A failure that says of which route it tells.
fn of(address: u16) -> impl FnOnce(superp_netlink::Error) -> Failure {
    move |error| Failure::from(error).at(format_args!("route to {address}"))
}

/// A number, or the low `bits` of an IP address.
fn sunh_address(text: &str, bits: u8) -> Result<u16, Failure> {
    let low = |a: u8, b: u8| u16::from_be_bytes([a, b]) & (u16::MAX >> (16 - bits.min(16)));
    match text.parse() {
        Ok(IpAddr::V4(addr)) => {
            let [.., a, b] = addr.octets();
            Ok(low(a, b))
        }
        Ok(IpAddr::V6(addr)) => {
            let [.., a, b] = addr.octets();
            Ok(low(a, b))
        }
        Err(_) => {
            let number = number(text).ok().and_then(|n| u16::try_from(n).ok());
            let wrong =
                || Failure::new(format!("{text}: neither a SUNH address nor an IP address"));
            number.ok_or_else(wrong)
        }
    }
}

fn hop(settings: &[String]) -> Result<(Option<String>, Option<Via>), Failure> {
    let (mut dev, mut via) = (None, None);
    let settings = pairs(settings)?;
    once(&settings, "", &[])?;
    for (key, text) in settings {
        let hop = match key {
            "dev" => {
                dev = Some(text.to_owned());
                continue;
            }
            "via" => Via::Via(value::<IpAddr>(key, text, "an IP address")?),
            "lladdr" => Via::Lladdr(value::<Mac>(key, text, "an Ethernet address")?),
            "prefix" => Via::Prefix(value::<Prefix>(key, text, "a prefix, as 10.23.0.0/16")?),
            _ => {
                let text = format!("{key}: not a setting of a route (dev, via, lladdr, prefix)");
                return Err(Failure::new(text));
            }
        };
        if via.replace(hop).is_some() {
            return Err(Failure::new("a next hop has one of via, lladdr and prefix"));
        }
    }
    Ok((dev, via))
}

fn show(client: &mut Client, out: &mut Out) -> Result<(), Failure> {
    let routes = client.routes()?;
    let forwarding = client.node()?.forwarding;
    out.either(&routes, |out| {
        let mut table = Table::new(&[">ADDRESS", "DEV", "NEXT HOP", ">FRAMES"]);
        for route in &routes {
            table.row([
                route.address.to_string(),
                route.ifname.clone(),
                match route.via {
                    Via::Via(addr) => format!("via {addr}"),
                    Via::Lladdr(mac) => format!("lladdr {mac}"),
                    Via::Prefix(prefix) => format!("udp, prefix {prefix}"),
                },
                route.packets.to_string(),
            ]);
        }
        table.print(out, "no routes")?;
        if !forwarding && !routes.is_empty() {
            out.line("forwarding is off: superp node set forwarding on")?;
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_is_a_number_or_the_low_bits_of_an_ip_address() {
        for (text, bits, expected) in [
            ("5", 12, 5),
            ("10.23.18.5", 12, 0x205),
            ("10.23.18.5", 16, 0x1205),
            ("fd23::1:0:207", 8, 7),
        ] {
            assert_eq!(sunh_address(text, bits).unwrap(), expected, "{text}");
        }
        for wrong in ["", "65536", "-1", "10.23", "eth0"] {
            assert!(sunh_address(wrong, 12).is_err(), "{wrong}");
        }
    }

    #[test]
    fn next_hop_is_one_address() {
        let words = |text: &str| text.split(' ').map(String::from).collect::<Vec<_>>();
        let (dev, via) = hop(&words("dev eth0 via 10.0.0.1")).unwrap();
        assert_eq!(dev.as_deref(), Some("eth0"));
        assert_eq!(via, Some(Via::Via("10.0.0.1".parse().unwrap())));
        let (_, via) = hop(&words("dev eth0 prefix fd23::/112")).unwrap();
        let prefix = Prefix {
            addr: "fd23::".parse().unwrap(),
            len: 112,
        };
        assert_eq!(via, Some(Via::Prefix(prefix)));
        for wrong in [
            "via 10.0.0.1 lladdr 02:00:00:00:00:01",
            "via 10.0.0.1 prefix 10.0.0.0/16",
            "via eth0",
            "prefix 10.0.0.0",
            "prefix 10.0.0.0/+16",
            "prefix 10.0.0.0/256",
            "mtu 3",
            "dev eth0 dev eth1",
            "via 10.0.0.1 via 10.0.0.2",
        ] {
            assert!(hop(&words(wrong)).is_err(), "{wrong}");
        }
    }
}
