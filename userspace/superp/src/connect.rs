// SPDX-License-Identifier: GPL-2.0 OR MIT
//! `superp connect`: two nodes make a connection with each other.
//!
//! The command runs at both ends. They meet over TCP, tell each other what they can and which identifiers they
//! have, and make what follows from both. Nothing of it is secret or proven: who may speak from the peer's
//! address is who may be connected to.

mod args;
mod meet;

pub(crate) use args::Connect;

use crate::failure::Failure;
use crate::out::{self, Out};
use crate::xfer::{self, Stop};
use args::Kind;
use meet::{Existing, Hello, Peer, Said};
use nix::ifaddrs::getifaddrs;
use serde_json::json;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};
use superp_netlink::{Client, Conn, ConnSpec, ConnState, Encap, PortEncap};

/// For the first round trip; its packet is sent again many times meanwhile.
const PATIENCE: Duration = Duration::from_secs(10);
/// The discard service: nothing is sent there, the kernel is only asked for the way.
const DISCARD: u16 = 9;

/// How the peer is reached.
#[derive(Debug)]
struct Way {
    device: String,
    ifindex: u32,
    local: IpAddr,
    /// Without a router.
    direct: bool,
}

pub(crate) fn run(args: &Connect, out: &mut Out) -> Result<(), Failure> {
    let stop = Stop::on_signals()?;
    let mut client = Client::open()?;
    let way = way(args)?;
    if way.local == args.peer {
        let text = format!("{} is an address of this node", args.peer);
        return Err(Failure::new(text)
            .hint("for connections of a node with itself see \"One host alone\" in Documentation/connections.md"));
    }
    let mut peer = meet::meet(args, way.local, way.ifindex, &stop)?;
    // Not before: the wait may have been long.
    let conns = client.conns(false)?;
    let ours: Vec<Conn> = conns
        .iter()
        .filter(|conn| conn.remote_addr == args.peer && conn.local_addr == way.local)
        .cloned()
        .collect();
    let hello = Hello {
        version: meet::VERSION,
        cid: free(&conns)?,
        kinds: kinds(args, &way),
        ext: true,
        // Most likely far from what packets of an earlier life have [proto 3.19].
        start_psn: RandomState::new().hash_one(args.peer) as u32,
        conns: ours.iter().map(existing).collect(),
    };
    let theirs = peer.greet(&hello)?;
    let made = make(&mut client, args, &way, &hello, &theirs, &ours, &mut peer);
    let (conn, removed) = made.inspect_err(|failure| peer.fail(failure.text()))?;
    let rtt = round_trip(args.peer, conn.local_cid)?;
    let new = !hello.conns.contains(&existing(&conn));
    tell(&conn, new, &removed, rtt, out)
}

fn existing(conn: &Conn) -> Existing {
    Existing {
        kind: match conn.encap {
            Encap::Sunh => Kind::Sunh,
            Encap::Udp4 | Encap::Udp6 => Kind::Udp,
        },
        plain: conn.state == ConnState::Established && conn.partition == 0 && !conn.lite,
        cid: conn.local_cid,
        peer_cid: conn.remote_cid,
        // Who may make connections is told.
        start_psn: conn.start_psn.unwrap_or_default(),
    }
}

/// The lowest id that no connection has.
fn free(conns: &[Conn]) -> Result<u16, Failure> {
    let taken = |cid: &u16| conns.iter().any(|conn| conn.local_cid == *cid);
    let free = (1..=u16::MAX).find(|cid| !taken(cid));
    free.ok_or_else(|| Failure::new("all connection ids of this node are in use"))
}

/// What packets may be carried in, the best first.
fn kinds(args: &Connect, way: &Way) -> Vec<Kind> {
    match args.encap {
        Some(kind) => vec![kind],
        None if way.direct => vec![Kind::Sunh, Kind::Udp],
        None => vec![Kind::Udp],
    }
}

/// Makes this end, and has the peer make its own. The connection, and what was removed for it.
fn make(
    client: &mut Client,
    args: &Connect,
    way: &Way,
    mine: &Hello,
    theirs: &Hello,
    ours: &[Conn],
    peer: &mut Peer,
) -> Result<(Conn, Vec<u16>), Failure> {
    // The peer has no end of these any more: they would only stand in the way.
    let is_lost = |end: &Existing| end.plain && !theirs.conns.iter().any(|other| other.fits(end));
    let lost = mine.conns.iter().filter(|end| is_lost(end));
    let removed: Vec<u16> = lost.map(|end| end.cid).collect();
    for cid in &removed {
        client.del_conn(*cid)?;
    }
    if let Some(conn) = ours
        .iter()
        .find(|conn| meet::serves(&existing(conn), mine, theirs))
    {
        peer.say(&Said::Started)?;
        peer.hear_started()?;
        return Ok((client.conn(conn.local_cid, false)?, removed));
    }
    let agreed = meet::agree(mine, theirs, peer.listens())?;
    open_port(client, way, agreed.kind)?;
    let mut spec = spec(args, way, mine, theirs, &agreed);
    let cid = client.add_conn(&spec)?;
    let started = start(client, &mut spec, cid, peer);
    if started.is_err() {
        // Its failure is what matters.
        let _ = client.del_conn(cid);
    }
    Ok((started?, removed))
}

/// Starts the connection that was added, with packets that both ends can carry.
fn start(
    client: &mut Client,
    spec: &mut ConnSpec,
    cid: u16,
    peer: &mut Peer,
) -> Result<Conn, Failure> {
    let mtu = client.conn(cid, false)?.mtu;
    peer.say(&Said::Made { mtu })?;
    let theirs = peer.hear_mtu()?;
    if theirs < mtu {
        client.del_conn(cid)?;
        spec.mtu = Some(theirs);
        client.add_conn(spec)?;
    }
    client.start_conn(cid)?;
    peer.say(&Said::Started)?;
    peer.hear_started()?;
    Ok(client.conn(cid, false)?)
}

fn spec(
    args: &Connect,
    way: &Way,
    mine: &Hello,
    theirs: &Hello,
    agreed: &meet::Agreed,
) -> ConnSpec {
    ConnSpec {
        local_cid: Some(mine.cid),
        remote_cid: theirs.cid,
        encap: match (agreed.kind, args.peer) {
            (Kind::Sunh, _) => Encap::Sunh,
            (Kind::Udp, IpAddr::V4(_)) => Encap::Udp4,
            (Kind::Udp, IpAddr::V6(_)) => Encap::Udp6,
        },
        // Over UDP by whatever device IP takes: with two in one subnet a peer may answer to either.
        ifindex: (agreed.kind == Kind::Sunh || args.dev.is_some()).then_some(way.ifindex),
        local_addr: Some(way.local),
        remote_addr: Some(args.peer),
        lladdr: None,
        paths: Vec::new(),
        ordered_tx: None,
        spray: None,
        ordered_rx: None,
        ext: Some(agreed.ext),
        lite: None,
        partition: None,
        tclass: None,
        hop_limit: None,
        flow_label: None,
        mtu: None,
        start_psn: Some(agreed.start_psn),
        start_xid: None,
        params: Vec::new(),
    }
}

/// Lets SUPERp use the device, unless it does.
fn open_port(client: &mut Client, way: &Way, kind: Kind) -> Result<(), Failure> {
    let Some(port) = client
        .ports()?
        .into_iter()
        .find(|port| port.ifindex == way.ifindex)
    else {
        let both = PortEncap {
            sunh: way.device != "lo",
            udp: true,
        };
        return Ok(client.add_port(way.ifindex, both)?);
    };
    let takes = match kind {
        Kind::Sunh => port.encap.sunh,
        Kind::Udp => port.encap.udp,
    };
    match takes {
        true => Ok(()),
        false => Err(Failure::new(format!(
            "{} is a port that does not take {kind}",
            way.device
        ))
        .hint("superp dev del DEV and superp dev add DEV let it take both; --encap asks for the other")),
    }
}

/// The device and the own address by which the kernel reaches the peer, or those that were asked for.
fn way(args: &Connect) -> Result<Way, Failure> {
    let peer = args.peer;
    let failed = |error: io::Error| Failure::io(format_args!("the way to {peer}"), &error);
    let interfaces: Vec<Interface> = getifaddrs()
        .map_err(|errno| failed(errno.into()))?
        .filter_map(|found| Interface::read(&found))
        .collect();
    let wanted = |one: &&Interface| {
        args.dev.as_ref().is_none_or(|dev| one.device == *dev)
            && one.address.is_ipv4() == peer.is_ipv4()
    };
    let local = match (args.local, &args.dev) {
        (Some(local), _) => local,
        (None, None) => route(peer).map_err(failed)?,
        (None, Some(dev)) => {
            let all = || interfaces.iter().filter(wanted);
            let near = all().find(|one| one.reaches(peer)).or_else(|| all().next());
            near.ok_or_else(|| {
                Failure::new(format!("{dev} has no address of the kind of {peer}"))
                    .hint("ip address shows the devices and their addresses")
            })?
            .address
        }
    };
    let found = interfaces
        .iter()
        .filter(wanted)
        .find(|one| one.address == local);
    let found = found.ok_or_else(|| {
        Failure::new(format!("no device has the own address {local}"))
            .hint("ip address shows the devices and their addresses; --dev and --local choose")
    })?;
    Ok(Way {
        device: found.device.clone(),
        ifindex: crate::dev::index(&found.device)?,
        local,
        direct: found.reaches(peer) && found.device != "lo",
    })
}

/// The own address that packets to the peer have.
fn route(peer: IpAddr) -> io::Result<IpAddr> {
    let any: IpAddr = match peer {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind(SocketAddr::new(any, 0))?;
    socket.connect(SocketAddr::new(peer, DISCARD))?;
    Ok(socket.local_addr()?.ip())
}

/// An address of a device.
#[derive(Debug)]
struct Interface {
    device: String,
    address: IpAddr,
    mask: IpAddr,
}

impl Interface {
    fn read(found: &nix::ifaddrs::InterfaceAddress) -> Option<Self> {
        let ip = |storage: &nix::sys::socket::SockaddrStorage| {
            let v4 = storage.as_sockaddr_in().map(|addr| IpAddr::from(addr.ip()));
            v4.or_else(|| {
                storage
                    .as_sockaddr_in6()
                    .map(|addr| IpAddr::from(addr.ip()))
            })
        };
        Some(Self {
            device: found.interface_name.clone(),
            address: ip(found.address.as_ref()?)?,
            mask: ip(found.netmask.as_ref()?)?,
        })
    }

    /// Whether an address is in the subnet of this one.
    fn reaches(&self, peer: IpAddr) -> bool {
        match (self.address, self.mask, peer) {
            (IpAddr::V4(own), IpAddr::V4(mask), IpAddr::V4(peer)) => {
                own.to_bits() & mask.to_bits() == peer.to_bits() & mask.to_bits()
            }
            (IpAddr::V6(own), IpAddr::V6(mask), IpAddr::V6(peer)) => {
                own.to_bits() & mask.to_bits() == peer.to_bits() & mask.to_bits()
            }
            _ => false,
        }
    }
}

/// Time of the first round trip, ns.
fn round_trip(peer: IpAddr, cid: u16) -> Result<u64, Failure> {
    let socket = xfer::connect(peer, Some(cid), 0)?;
    let failed = |error| Failure::io(format_args!("round trip to {peer}"), &error);
    let silent = || {
        let text = format!("connection {cid} was made, but {peer} does not answer over it");
        Failure::new(text).hint("superp doctor tells why")
    };
    let mut best = None;
    // The first waits for the neighbour's address, too.
    for token in 0..3 {
        let start = Instant::now();
        socket.round_trip(token).map_err(failed)?;
        let done = socket.wait_completion(Some(PATIENCE)).map_err(failed)?;
        done.filter(|done| done.errno == 0).ok_or_else(silent)?;
        let ns = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        best = Some(best.map_or(ns, |best: u64| best.min(ns)));
    }
    best.ok_or_else(silent)
}

fn tell(conn: &Conn, new: bool, removed: &[u16], rtt: u64, out: &mut Out) -> Result<(), Failure> {
    let object = json!({
        "peer": conn.remote_addr, "local-cid": conn.local_cid, "remote-cid": conn.remote_cid, "encap": conn.encap,
        "ifname": conn.ifname, "mtu": conn.mtu, "ext": conn.ext, "new": new, "removed": removed, "rtt-ns": rtt,
    });
    out.either(&object, |out| {
        for cid in removed {
            let peer = conn.remote_addr;
            out.line(format_args!("connection {cid} removed: {peer} has no end of it"))?;
        }
        out.line(format_args!(
            "{} to {}: connection {} ({} there), {} over {}, mtu {}, extensions {}; it answers in {}",
            if new { "connected" } else { "connected already" },
            conn.remote_addr,
            conn.local_cid,
            conn.remote_cid,
            conn.encap,
            conn.ifname.as_deref().unwrap_or("any device"),
            conn.mtu,
            if conn.ext { "on" } else { "off" },
            out::time(rtt),
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subnet_tells_who_is_reached_without_a_router() {
        let interface = |address: &str, mask: &str| Interface {
            device: "eth0".into(),
            address: address.parse().unwrap(),
            mask: mask.parse().unwrap(),
        };
        let four = interface("10.23.0.1", "255.255.0.0");
        assert!(four.reaches("10.23.9.9".parse().unwrap()));
        assert!(!four.reaches("10.24.0.1".parse().unwrap()));
        assert!(!four.reaches("fd23::1".parse().unwrap()));
        let six = interface("fd23::1", "ffff:ffff:ffff:ffff::");
        assert!(six.reaches("fd23::2".parse().unwrap()));
        assert!(!six.reaches("fd24::2".parse().unwrap()));
    }
}
