// SPDX-License-Identifier: GPL-2.0

//! Netlink operations on connections.

use super::{param, report_refusal};
use crate::{
    conn::{Conn, ConnParams, ConnStats, PathEnds, PathParams, Start, PATHS_MAX},
    event::port_state,
    kapi::{
        errno::Refusal,
        net::Net,
        nl::{self, numbers::*, Attr, Dump, Message, Request},
        path::Encap,
    },
    node::Node,
    params,
    proto::Extensions,
};
use kernel::prelude::*;

/// Largest Hop Limit and Flow Label of a SUNH header [proto 2.1].
const SUNH_HOP_LIMIT_MAX: u8 = 15;
const SUNH_FLOW_LABEL_MAX: u32 = 0xfff;

/// The netlink number of an encapsulation.
fn encap(encap: Encap) -> u32 {
    match encap {
        Encap::Ether => SUPERP_ENCAP_SUNH,
        Encap::Udp4 => SUPERP_ENCAP_UDP4,
        Encap::Udp6 => SUPERP_ENCAP_UDP6,
    }
}

/// Attribute numbers of the ends of a path. They are on the connection itself and in each nested
/// path.
struct EndsAttrs {
    ifindex: u32,
    ifname: u32,
    local: u32,
    remote: u32,
    lladdr: u32,
}

const CONN_ATTRS: EndsAttrs = EndsAttrs {
    ifindex: SUPERP_A_CONN_IFINDEX,
    ifname: SUPERP_A_CONN_IFNAME,
    local: SUPERP_A_CONN_LOCAL_ADDR,
    remote: SUPERP_A_CONN_REMOTE_ADDR,
    lladdr: SUPERP_A_CONN_LLADDR,
};

const PATH_ATTRS: EndsAttrs = EndsAttrs {
    ifindex: SUPERP_A_CONN_PATH_IFINDEX,
    ifname: SUPERP_A_CONN_PATH_IFNAME,
    local: SUPERP_A_CONN_PATH_LOCAL_ADDR,
    remote: SUPERP_A_CONN_PATH_REMOTE_ADDR,
    lladdr: SUPERP_A_CONN_PATH_LLADDR,
};

/// Puts the ends of a path into `msg`.
fn put_ends(msg: &mut Message<'_>, net: &Net, ends: &PathEnds, attrs: &EndsAttrs) -> Result {
    if ends.port.is_some() {
        msg.put_u32(attrs.ifindex, ends.ifindex())?;
        nl::with_device_name(net, ends.ifindex(), |name| msg.put_text(attrs.ifname, name))
            .transpose()?;
    }
    msg.put(attrs.local, &ends.local)?;
    msg.put(attrs.remote, &ends.remote)?;
    ends.mac.map_or(Ok(()), |mac| msg.put(attrs.lladdr, &mac))
}

/// Puts a connection into `msg` for `request`, with its counters if `stats` is set.
fn put(msg: &mut Message<'_>, request: Request<'_>, conn: &Conn, stats: bool) -> Result {
    let net = request.net();
    let info = conn.info();
    let id = conn.identity();
    msg.put_u16(SUPERP_A_CONN_LOCAL_CID, id.cid)?;
    msg.put_u16(SUPERP_A_CONN_REMOTE_CID, id.config.remote_cid)?;
    msg.put_u32(SUPERP_A_CONN_ENCAP, encap(id.encap))?;
    if let Some(ends) = id.paths.first() {
        put_ends(msg, net, ends, &CONN_ATTRS)?;
    }
    for (i, ends) in (0..PATHS_MAX).zip(&id.paths) {
        msg.nest(SUPERP_A_CONN_PATH, |msg| {
            put_ends(msg, net, ends, &PATH_ATTRS)?;
            let Some(path) = conn.path_info(i) else {
                return Ok(());
            };
            msg.put_u32(SUPERP_A_CONN_PATH_STATE, port_state(path.up))?;
            msg.put_uint(SUPERP_A_CONN_PATH_TX_PACKETS, path.tx_packets)?;
            msg.put_uint(SUPERP_A_CONN_PATH_RX_PACKETS, path.rx_packets)
        })?;
    }
    msg.put_u8(SUPERP_A_CONN_SPRAY, id.spray.into())?;
    msg.put_u8(SUPERP_A_CONN_ORDERED_TX, id.config.ordered_tx.into())?;
    msg.put_u8(SUPERP_A_CONN_ORDERED_RX, id.config.ordered_rx.into())?;
    let ext = match id.config.ext {
        Extensions::Off => SUPERP_EXTENSIONS_OFF,
        Extensions::On => SUPERP_EXTENSIONS_ON,
        Extensions::Auto => SUPERP_EXTENSIONS_AUTO,
    };
    // CAST: The values are 0 to 2.
    msg.put_u8(SUPERP_A_CONN_EXT, ext as u8)?;
    msg.put_u8(SUPERP_A_CONN_LITE, id.config.lite.into())?;
    msg.put_u32(SUPERP_A_CONN_PARTITION, id.partition)?;
    msg.put_u8(SUPERP_A_CONN_TCLASS, id.tclass)?;
    msg.put_u8(SUPERP_A_CONN_HOP_LIMIT, id.hop_limit)?;
    msg.put_u32(SUPERP_A_CONN_FLOW_LABEL, id.flow_label)?;
    msg.put_u32(SUPERP_A_CONN_MTU, id.config.mtu)?;
    // Who knows them can forge packets.
    if request.may_administer() {
        msg.put_u32(SUPERP_A_CONN_START_PSN, info.config.start_psn)?;
        msg.put_u16(SUPERP_A_CONN_START_XID, info.config.start_xid)?;
    }
    for param in (0..).map_while(params::nth) {
        if let Some(value) = params::config_get(&id.config, param) {
            msg.nest(SUPERP_A_CONN_PARAM, |msg| {
                msg.put_text(SUPERP_A_CONN_PARAM_NAME, param.spec().name)?;
                msg.put_uint(SUPERP_A_CONN_PARAM_VALUE, value)
            })?;
        }
    }
    msg.put_u32(SUPERP_A_CONN_STATE, info.state.number())?;
    if !info.cause.is_empty() {
        msg.put_text(SUPERP_A_CONN_CAUSE, info.cause)?;
    }
    msg.put_u8(SUPERP_A_CONN_HEARD, info.heard.into())?;
    msg.put_u32(SUPERP_A_CONN_PATH_MTU, info.mtu)?;
    if let Some(ext) = info.ext {
        msg.put_u8(SUPERP_A_CONN_EXT_USED, ext.into())?;
    }
    if stats {
        msg.nest(SUPERP_A_CONN_STATS, |msg| put_stats(msg, &conn.stats()))?;
    }
    Ok(())
}

/// Puts the counters of a connection into `msg`.
fn put_stats(msg: &mut Message<'_>, stats: &ConnStats) -> Result {
    let proto = &stats.proto;
    let counters = [
        (SUPERP_A_CONN_STATS_TX_PACKETS, proto.tx_packets),
        (SUPERP_A_CONN_STATS_RX_PACKETS, proto.rx_packets),
        (SUPERP_A_CONN_STATS_TX_BYTES, proto.tx_bytes),
        (SUPERP_A_CONN_STATS_RX_BYTES, proto.rx_bytes),
        (SUPERP_A_CONN_STATS_TX_OPS, proto.tx_operations),
        (SUPERP_A_CONN_STATS_RX_OPS, proto.rx_operations),
        (SUPERP_A_CONN_STATS_TX_ACKS, proto.tx_acks),
        (SUPERP_A_CONN_STATS_RX_ACKS, proto.rx_acks),
        (SUPERP_A_CONN_STATS_RX_NACKS, proto.rx_nacks),
        (SUPERP_A_CONN_STATS_RETRANS_FAST, proto.retransmits_fast),
        (SUPERP_A_CONN_STATS_RETRANS_RTO, proto.retransmits_timeout),
        (
            SUPERP_A_CONN_STATS_RETRANS_FULL,
            proto.retransmits_full_window,
        ),
        (SUPERP_A_CONN_STATS_TIMEOUTS, proto.timeouts),
        (SUPERP_A_CONN_STATS_PROBES, proto.probes),
        (SUPERP_A_CONN_STATS_RX_DUPLICATES, proto.duplicates),
        (SUPERP_A_CONN_STATS_RX_OUT_OF_ORDER, proto.out_of_order),
        (SUPERP_A_CONN_STATS_RX_OUT_OF_WINDOW, proto.out_of_window),
        (
            SUPERP_A_CONN_STATS_RX_PROTOCOL_ERRORS,
            proto.protocol_errors,
        ),
        (SUPERP_A_CONN_STATS_WINDOW_FULL_NS, proto.window_full_ns),
        (SUPERP_A_CONN_STATS_SRTT_NS, proto.srtt),
        (SUPERP_A_CONN_STATS_RTTVAR_NS, proto.rttvar),
        (SUPERP_A_CONN_STATS_RTO_NS, proto.rto),
        (SUPERP_A_CONN_STATS_TRANSACTIONS, proto.transactions),
        (SUPERP_A_CONN_STATS_COMPLETED, proto.completed),
        (SUPERP_A_CONN_STATS_FAILED, proto.failed),
        (SUPERP_A_CONN_STATS_REFUSED, proto.refused),
        (SUPERP_A_CONN_STATS_REPORTS_LOST, proto.reports_lost),
        (SUPERP_A_CONN_STATS_TX_MESSAGES, stats.tx_messages),
        (SUPERP_A_CONN_STATS_RX_MESSAGES, stats.rx_messages),
        (SUPERP_A_CONN_STATS_TX_WRITES, stats.tx_writes),
        (SUPERP_A_CONN_STATS_TX_READS, stats.tx_reads),
        (SUPERP_A_CONN_STATS_RX_WRITE_BYTES, stats.rx_write_bytes),
        (SUPERP_A_CONN_STATS_RX_READ_BYTES, stats.rx_read_bytes),
        (
            SUPERP_A_CONN_STATS_ACCESS_VIOLATIONS,
            stats.access_violations,
        ),
        (SUPERP_A_CONN_STATS_RX_NO_BUFFER, stats.rx_no_buffer),
        (SUPERP_A_CONN_STATS_TX_NO_BUFFER, stats.tx_no_buffer),
        (SUPERP_A_CONN_STATS_TX_PATH_ERRORS, stats.tx_path_errors),
        (SUPERP_A_CONN_STATS_TX_NO_MEMORY, stats.tx_no_memory),
        (SUPERP_A_CONN_STATS_TX_NACKS, proto.tx_nacks),
        (SUPERP_A_CONN_STATS_RX_WINDOW, stats.rx_window),
        (SUPERP_A_CONN_STATS_TX_ATOMICS, stats.tx_atomics),
        (SUPERP_A_CONN_STATS_RX_ATOMICS, stats.rx_atomics),
    ];
    for (attr, value) in counters {
        msg.put_uint(attr, value)?;
    }
    Ok(())
}

/// The local connection id of a request, with its attribute.
fn parse_cid(request: Request<'_>) -> Result<(Attr<'_>, u16)> {
    let attr = request
        .attr(SUPERP_A_CONN_LOCAL_CID)
        .ok_or_else(|| request.missing(SUPERP_A_CONN_LOCAL_CID, c"local-cid is missing"))?;
    Ok((attr, u16::from_ne_bytes(attr.array()?)))
}

/// conn-get of one connection.
pub(crate) fn get(request: Request<'_>) -> Result {
    let node = request.node()?;
    let (at, cid) = parse_cid(request)?;
    let stats = request.attr(SUPERP_A_CONN_WANT_STATS).is_some();
    let conn = node
        .conn(cid.into())
        .ok_or_else(|| request.refuse(Some(at), ENOENT, c"no connection with this local-cid"))?;
    request.reply(|msg| put(msg, request, &conn, stats))
}

/// conn-get of all connections.
pub(crate) fn dump(dump: Dump<'_>) -> Result {
    let request = dump.request();
    let node = request.node()?;
    let stats = request.attr(SUPERP_A_CONN_WANT_STATS).is_some();
    dump.each(
        |from| {
            let (cid, conn) = node.conns(u32::try_from(from).ok()?)?;
            Some((cid.into(), conn))
        },
        |msg, conn| put(msg, request, conn, stats),
    )
}

/// conn-new.
pub(crate) fn new(request: Request<'_>) -> Result {
    let node = request.node()?;
    let conn = node
        .conn_new(&parse_params(request, &node)?)
        .map_err(|refusal| report_refusal(request, None, refusal))?;
    let cid = conn.identity().cid;
    let reply = request.reply(|msg| msg.put_u16(SUPERP_A_CONN_LOCAL_CID, cid));
    if reply.is_err() {
        // The caller does not know the id, so nobody would delete the connection.
        let _ = node.conn_del(cid);
    }
    reply
}

/// The parameters of the connection that a conn-new request creates.
fn parse_params(request: Request<'_>, node: &Node) -> Result<ConnParams> {
    let u8_attr = |attr: u32| -> Result<Option<u8>> {
        let bytes = request.attr(attr).map(|attr| attr.array()).transpose()?;
        Ok(bytes.map(u8::from_ne_bytes))
    };
    let u16_attr = |attr: u32| -> Result<Option<u16>> {
        let bytes = request.attr(attr).map(|attr| attr.array()).transpose()?;
        Ok(bytes.map(u16::from_ne_bytes))
    };
    let u32_attr = |attr: u32| -> Result<Option<u32>> {
        let bytes = request.attr(attr).map(|attr| attr.array()).transpose()?;
        Ok(bytes.map(u32::from_ne_bytes))
    };

    let encap = match u32_attr(SUPERP_A_CONN_ENCAP)? {
        Some(SUPERP_ENCAP_SUNH) => Encap::Ether,
        Some(SUPERP_ENCAP_UDP4) => Encap::Udp4,
        Some(SUPERP_ENCAP_UDP6) => Encap::Udp6,
        _ => {
            return Err(
                request.missing(SUPERP_A_CONN_ENCAP, c"encap is missing: sunh, udp4 or udp6")
            )
        }
    };
    let mut config = node.conn_defaults();
    config.lite = parse_lite(request, encap)?;
    config.remote_cid = match u16_attr(SUPERP_A_CONN_REMOTE_CID)? {
        None if config.lite => 0,
        Some(cid) if cid != 0 && config.lite => {
            let attr = request.attr(SUPERP_A_CONN_REMOTE_CID);
            let text = c"packets of a lite connection carry no id: leave remote-cid out";
            return Err(request.refuse(attr, EINVAL, text));
        }
        Some(cid) => cid,
        None => return Err(request.missing(SUPERP_A_CONN_REMOTE_CID, c"remote-cid is missing")),
    };
    config.ordered_tx = u8_attr(SUPERP_A_CONN_ORDERED_TX)? != Some(0);
    config.ordered_rx = u8_attr(SUPERP_A_CONN_ORDERED_RX)? != Some(0);
    config.ext = match u8_attr(SUPERP_A_CONN_EXT)?.map(u32::from) {
        Some(SUPERP_EXTENSIONS_OFF) => Extensions::Off,
        Some(SUPERP_EXTENSIONS_ON) => Extensions::On,
        _ => Extensions::Auto,
    };
    config.start_psn = u32_attr(SUPERP_A_CONN_START_PSN)?.unwrap_or(0);
    config.start_xid = u16_attr(SUPERP_A_CONN_START_XID)?.unwrap_or(0);
    for nest in request.attrs(SUPERP_A_CONN_PARAM) {
        let (name, value) = nest
            .nested(SUPERP_A_CONN_PARAM_NAME)
            .zip(nest.nested(SUPERP_A_CONN_PARAM_VALUE))
            .ok_or_else(|| {
                request.refuse(Some(nest), EINVAL, c"a parameter needs a name and a value")
            })?;
        let id = param::from_name(request, name)?;
        let value = param::parse_value(request, value, id)?;
        if !params::config_set(&mut config, id, value) {
            return Err(request.refuse_fmt(
                Some(name),
                EINVAL,
                fmt!(
                    "{} is the node's: it cannot be set for a connection",
                    id.spec().name
                ),
            ));
        }
    }

    Ok(ConnParams {
        local_cid: u16_attr(SUPERP_A_CONN_LOCAL_CID)?,
        encap,
        paths: parse_paths(request, encap)?,
        partition: u32_attr(SUPERP_A_CONN_PARTITION)?.unwrap_or(0),
        tclass: u8_attr(SUPERP_A_CONN_TCLASS)?.unwrap_or(0),
        hop_limit: parse_hop_limit(request, encap)?,
        flow_label: parse_flow_label(request, encap)?,
        spray: parse_spray(request, &config)?,
        mtu: u32_attr(SUPERP_A_CONN_MTU)?,
        config,
    })
}

/// The paths of a new connection: those that the request lists, or the one that its own attributes
/// describe.
fn parse_paths(request: Request<'_>, encap: Encap) -> Result<KVec<PathParams>> {
    let conn_ends = parse_ends(request, encap, &CONN_ATTRS, |attr| request.attr(attr))?;
    let no_remote = || request.missing(SUPERP_A_CONN_REMOTE_ADDR, c"remote-addr is missing");
    let mut paths = KVec::with_capacity(PATHS_MAX, GFP_KERNEL_ACCOUNT)?;
    for nest in request.attrs(SUPERP_A_CONN_PATH) {
        let refuse = |text| Err(request.refuse(Some(nest), EINVAL, text));
        if conn_ends.ifindex.is_some() || conn_ends.mac.is_some() {
            return refuse(c"ifindex and lladdr are of the only path: give them in each path");
        }
        let read_only = [
            SUPERP_A_CONN_PATH_IFNAME,
            SUPERP_A_CONN_PATH_STATE,
            SUPERP_A_CONN_PATH_TX_PACKETS,
            SUPERP_A_CONN_PATH_RX_PACKETS,
        ];
        if read_only.iter().any(|attr| nest.nested(*attr).is_some()) {
            return refuse(c"ifname, state and counters of a path are only told");
        }
        let path_ends = parse_ends(request, encap, &PATH_ATTRS, |attr| nest.nested(attr))?;
        let Some(ifindex) = path_ends.ifindex else {
            return refuse(c"a path needs its ifindex");
        };
        let path = PathParams {
            ifindex,
            local: path_ends.local.or(conn_ends.local),
            remote: path_ends
                .remote
                .or(conn_ends.remote)
                .ok_or_else(no_remote)?,
            mac: path_ends.mac,
        };
        if paths.push_within_capacity(path).is_err() {
            return refuse(c"a connection has 4 paths at most");
        }
    }
    if paths.is_empty() {
        let path = PathParams {
            ifindex: conn_ends.ifindex.unwrap_or(0),
            local: conn_ends.local,
            remote: conn_ends.remote.ok_or_else(no_remote)?,
            mac: conn_ends.mac,
        };
        paths.push_within_capacity(path).map_err(|_| ENOMEM)?;
    }
    Ok(paths)
}

/// The ends of a path in a request. `None`: the request does not have the attribute.
struct EndsRequest {
    ifindex: Option<u32>,
    local: Option<[u8; 16]>,
    remote: Option<[u8; 16]>,
    mac: Option<[u8; 6]>,
}

/// Reads the ends of a path. `find` returns the attribute of a number.
fn parse_ends<'a>(
    request: Request<'a>,
    encap: Encap,
    attrs: &EndsAttrs,
    find: impl Fn(u32) -> Option<Attr<'a>>,
) -> Result<EndsRequest> {
    let addr = |attr| -> Result<_> {
        let attr = find(attr);
        attr.map(|attr| parse_host_address(request, attr))
            .transpose()
    };
    let ifindex = find(attrs.ifindex).map(|attr| attr.array()).transpose()?;
    let lladdr = find(attrs.lladdr);
    if lladdr.is_some() && encap != Encap::Ether {
        return Err(request.refuse(lladdr, EINVAL, c"lladdr is for encap sunh only"));
    }
    Ok(EndsRequest {
        ifindex: ifindex.map(u32::from_ne_bytes),
        local: addr(attrs.local)?,
        remote: addr(attrs.remote)?,
        mac: lladdr
            .map(|attr| parse_station_address(request, attr))
            .transpose()?,
    })
}

/// A unicast IPv6 or v4-mapped address, or `None` if the request does not have the attribute.
pub(super) fn parse_address(request: Request<'_>, attr: u32) -> Result<Option<[u8; 16]>> {
    request
        .attr(attr)
        .map(|attr| parse_host_address(request, attr))
        .transpose()
}

fn parse_host_address(request: Request<'_>, attr: Attr<'_>) -> Result<[u8; 16]> {
    let addr: [u8; 16] = attr.array()?;
    let not_unicast = match addr {
        [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, first, ..] => first == 0 || first >= 224,
        [first, ..] => first == 0xff || addr == [0; 16],
    };
    if not_unicast {
        return Err(request.refuse(
            Some(attr),
            EINVAL,
            c"not an address of one host: unspecified, multicast or broadcast",
        ));
    }
    Ok(addr)
}

/// A unicast Ethernet address, or `None` if the request does not have the attribute.
pub(super) fn parse_mac(request: Request<'_>, attr: u32) -> Result<Option<[u8; 6]>> {
    request
        .attr(attr)
        .map(|attr| parse_station_address(request, attr))
        .transpose()
}

fn parse_station_address(request: Request<'_>, attr: Attr<'_>) -> Result<[u8; 6]> {
    let mac: [u8; 6] = attr.array()?;
    let [first, ..] = mac;
    if first & 1 != 0 || mac == [0; 6] {
        return Err(request.refuse(
            Some(attr),
            EINVAL,
            c"lladdr is not an address of one station: all zero, multicast or broadcast",
        ));
    }
    Ok(mac)
}

fn parse_lite(request: Request<'_>, encap: Encap) -> Result<bool> {
    let attr = request.attr(SUPERP_A_CONN_LITE);
    let lite = attr.map(|attr| attr.array()).transpose()? == Some([1]);
    if lite && encap != Encap::Ether {
        return Err(request.refuse(attr, EINVAL, c"lite is for encap sunh only"));
    }
    Ok(lite)
}

fn parse_spray(request: Request<'_>, config: &crate::proto::Config) -> Result<bool> {
    let attr = request.attr(SUPERP_A_CONN_SPRAY);
    let spray = attr.map(|attr| attr.array()).transpose()? == Some([1]);
    if spray && config.lite {
        return Err(request.refuse(
            attr,
            EINVAL,
            c"a lite connection cannot restore the order of its packets: spray is not for it",
        ));
    }
    if spray && config.ordered_tx {
        return Err(request.refuse(
            attr,
            EINVAL,
            c"packets of an ordered connection keep one path: spray needs ordered-tx off",
        ));
    }
    Ok(spray)
}

fn parse_hop_limit(request: Request<'_>, encap: Encap) -> Result<Option<u8>> {
    let Some(attr) = request.attr(SUPERP_A_CONN_HOP_LIMIT) else {
        return Ok(None);
    };
    let [value] = attr.array()?;
    if encap == Encap::Ether && value > SUNH_HOP_LIMIT_MAX {
        return Err(request.refuse_fmt(
            Some(attr),
            ERANGE,
            fmt!("hop-limit {value} is out of range 1..{SUNH_HOP_LIMIT_MAX} of sunh"),
        ));
    }
    Ok(Some(value))
}

fn parse_flow_label(request: Request<'_>, encap: Encap) -> Result<Option<u32>> {
    let Some(attr) = request.attr(SUPERP_A_CONN_FLOW_LABEL) else {
        return Ok(None);
    };
    let value = u32::from_ne_bytes(attr.array()?);
    if encap == Encap::Ether && value > SUNH_FLOW_LABEL_MAX {
        return Err(request.refuse_fmt(
            Some(attr),
            ERANGE,
            fmt!("flow-label {value} is out of range 0..{SUNH_FLOW_LABEL_MAX} of sunh"),
        ));
    }
    Ok(Some(value))
}

/// Calls `act` with the node and the local connection id of a request, and reports its refusal.
fn with_cid(request: Request<'_>, act: impl FnOnce(&Node, u16) -> Result<(), Refusal>) -> Result {
    let node = request.node()?;
    let (at, cid) = parse_cid(request)?;
    act(&node, cid).map_err(|refusal| report_refusal(request, Some(at), refusal))
}

/// conn-del.
pub(crate) fn del(request: Request<'_>) -> Result {
    with_cid(request, Node::conn_del)
}

/// conn-start.
pub(crate) fn start(request: Request<'_>) -> Result {
    with_cid(request, Node::conn_start)
}

/// conn-reset.
pub(crate) fn reset(request: Request<'_>) -> Result {
    let psn = request.attr(SUPERP_A_CONN_START_PSN).map(|a| a.array());
    let xid = request.attr(SUPERP_A_CONN_START_XID).map(|a| a.array());
    let start = Start {
        psn: psn.transpose()?.map(u32::from_ne_bytes),
        xid: xid.transpose()?.map(u16::from_ne_bytes),
    };
    with_cid(request, |node, cid| node.conn_reset(cid, start))
}

/// conn-stop.
pub(crate) fn stop(request: Request<'_>) -> Result {
    with_cid(request, Node::conn_stop)
}
