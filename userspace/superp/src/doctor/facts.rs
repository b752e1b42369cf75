// SPDX-License-Identifier: GPL-2.0 OR MIT
//! What the system says: the kernel by netlink, devices by sysfs, peers by answering or not.

use super::judge::{Ask, Facts, Link, Reach, Trip};
use crate::failure::{errno_name, Failure};
use crate::memlock;
use crate::xfer::connect;
use nix::ifaddrs::{getifaddrs, InterfaceAddress};
use nix::net::if_::InterfaceFlags;
use socket2::{Domain, Socket, Type};
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};
use superp_netlink::{Client, Conn, Error, Path};

const DEVICES: &str = "/sys/class/net";
/// `ARPHRD_ETHER`, the type of a device in sysfs.
const ETHERNET: &str = "1";
/// `IFF_UP` of the flags of a device.
const UP: u64 = 1;
/// `IFF_NOARP` and `IFF_MASTER`.
const NOARP: u64 = 0x80;
const MASTER: u64 = 0x400;
/// The discard service: whether it is there does not matter, a refusal is an answer too.
const DISCARD: u16 = 9;
/// How long a refusal may take. A kernel sends a peer one in a second, once six have gone.
const REFUSAL: Duration = Duration::from_secs(1);
/// How often a long packet is sent: others may be lost.
const TRIES: usize = 5;
/// The kernel asks three times for a neighbour's address, once a second.
const PATIENCE: Duration = Duration::from_secs(5);

/// Everything that can be known without asking a peer; `None`: the module is not loaded.
pub(super) fn gather(peer: Option<IpAddr>) -> Result<Option<Facts>, Failure> {
    let mut client = match Client::open() {
        Err(Error::NotLoaded) => return Ok(None),
        client => client?,
    };
    let ports = client.ports()?;
    let links = ports.iter().map(|port| link(&port.name, port.ifindex));
    Ok(Some(Facts {
        peer,
        node: client.node()?,
        links: links.collect(),
        conns: client.conns(true)?,
        params: client.params()?,
        qps: client.qps()?,
        regions: match client.regions() {
            Err(error) if error.errno() == Some(libc::EPERM) => None,
            regions => Some(regions?),
        },
        drops: client.stats()?,
        proxies: ports.iter().flat_map(|port| proxies(&port.name)).collect(),
        candidates: candidates(),
        memlock: memlock::limit(),
        ports,
    }))
}

fn attribute(device: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(format!("{DEVICES}/{device}/{name}")).ok()?;
    Some(text.trim().to_owned())
}

fn flags(device: &str) -> Option<u64> {
    let flags = attribute(device, "flags")?;
    u64::from_str_radix(flags.trim_start_matches("0x"), 16).ok()
}

/// The link of a device, unless sysfs is that of another network namespace.
fn link(device: &str, ifindex: u32) -> Option<Link> {
    if attribute(device, "ifindex")?.parse() != Ok(ifindex) {
        return None;
    }
    Some(Link {
        up: flags(device)? & UP != 0,
        // Of a device that is down it cannot be read.
        carrier: attribute(device, "carrier").as_deref() == Some("1"),
        master: master(device).filter(|name| !is_vrf(name)),
        closed_vrf: master(device).filter(|name| is_vrf(name) && !accepted()),
    })
}

/// The device of which this one is a part.
fn master(device: &str) -> Option<String> {
    let link = fs::read_link(format!("{DEVICES}/{device}/master")).ok()?;
    Some(link.file_name()?.to_str()?.to_owned())
}

/// A VRF leaves its devices what they receive. Of the devices that have parts only VRFs resolve no
/// addresses.
fn is_vrf(device: &str) -> bool {
    flags(device).is_some_and(|flags| flags & (MASTER | NOARP) == MASTER | NOARP)
}

/// Whether UDP hands what comes in by a VRF to sockets that are bound to no device. A kernel without
/// VRFs has no such setting.
fn accepted() -> bool {
    fs::read_to_string("/proc/sys/net/ipv4/udp_l3mdev_accept").is_ok_and(|text| text.trim() == "1")
}

/// The port and another device, where that one answers ARP for the port's addresses.
fn proxies(port: &str) -> Vec<(String, String)> {
    let Ok(all) = getifaddrs() else {
        return Vec::new();
    };
    let ipv4 = |address: &InterfaceAddress| {
        let ip = address.address?.as_sockaddr_in()?.ip();
        let mask = address.netmask?.as_sockaddr_in()?.ip();
        Some((ip, mask))
    };
    let all: Vec<InterfaceAddress> = all.collect();
    let own: Vec<_> = all
        .iter()
        .filter(|address| address.interface_name == port)
        .filter_map(ipv4)
        .collect();
    // One network contains the other.
    let near = |(ip, mask): (Ipv4Addr, Ipv4Addr)| {
        own.iter()
            .any(|(own, own_mask)| ip & mask & *own_mask == *own & mask & *own_mask)
    };
    let answers = |address: &&InterfaceAddress| {
        let flags = address.flags;
        flags.contains(InterfaceFlags::IFF_UP)
            && !flags.intersects(InterfaceFlags::IFF_NOARP | InterfaceFlags::IFF_LOOPBACK)
            && address.interface_name != port
            && ipv4(address).is_some_and(near)
            && master(&address.interface_name) == master(port)
            && answers_for_others(&address.interface_name)
    };
    let mut found: Vec<String> = all
        .iter()
        .filter(answers)
        .map(|address| address.interface_name.clone())
        .collect();
    found.sort();
    found.dedup();
    found
        .into_iter()
        .map(|other| (port.to_owned(), other))
        .collect()
}

/// Whether a device answers ARP for addresses of other devices: the larger of two settings counts.
fn answers_for_others(device: &str) -> bool {
    ["all", device].iter().all(|name| {
        let path = format!("/proc/sys/net/ipv4/conf/{name}/arp_ignore");
        fs::read_to_string(path).is_ok_and(|text| text.trim() == "0")
    })
}

/// Ethernet devices, in the order of their names.
fn candidates() -> Vec<String> {
    let entries = fs::read_dir(DEVICES).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let is_ethernet = |name: &String| attribute(name, "type").as_deref() == Some(ETHERNET);
    let mut names: Vec<String> = names.filter(is_ethernet).collect();
    names.sort();
    names
}

/// Asks peers and the network stack.
pub(super) struct System {
    timeout: Duration,
}

impl System {
    /// `timeout`: how long a peer may take for a round trip, seconds.
    pub(super) fn new(timeout: f64) -> Self {
        let timeout = Duration::from_secs_f64(timeout);
        Self { timeout }
    }

    fn round_trip(&self, conn: &Conn) -> Result<Trip, Failure> {
        let socket = connect(conn.remote_addr, Some(conn.local_cid), 0)?;
        let start = Instant::now();
        let failed = |error| Failure::io("round trip", &error);
        socket.round_trip(0).map_err(failed)?;
        let done = socket.wait_completion(Some(self.timeout)).map_err(failed)?;
        let ns = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        Ok(match done {
            None => Trip::Silent,
            Some(done) if done.errno == 0 => Trip::Answered(ns),
            Some(done) => Trip::Failed(errno_name(done.errno)),
        })
    }

    /// Whether the peer refuses a datagram of so many bytes, which is an answer.
    fn refuses(&self, path: &Path, bytes: usize) -> io::Result<bool> {
        let own = whole(path, path.local_addr, 0);
        let socket = Socket::new(Domain::for_address(own), Type::DGRAM, None)?;
        if let (Some(device), IpAddr::V4(_)) = (&path.ifname, path.remote_addr) {
            socket.bind_device(Some(device.as_bytes()))?;
        }
        socket.bind(&own.into())?;
        socket.connect(&whole(path, path.remote_addr, DISCARD).into())?;
        socket.set_read_timeout(Some(REFUSAL))?;
        let socket = UdpSocket::from(socket);
        socket.send(&vec![0; bytes])?;
        let refused = |error: io::Error| error.raw_os_error() == Some(libc::ECONNREFUSED);
        Ok(socket.recv(&mut [0]).is_err_and(refused))
    }

    fn connect_tcp(&self, path: &Path) -> io::Result<()> {
        let own = whole(path, path.local_addr, 0);
        let socket = Socket::new(Domain::for_address(own), Type::STREAM, None)?;
        // A neighbour that is not found is told by ICMPv6 over the loopback device, which a socket that is
        // bound to another one does not hear; ICMP it hears.
        if let (Some(device), IpAddr::V4(_)) = (&path.ifname, path.remote_addr) {
            socket.bind_device(Some(device.as_bytes()))?;
        }
        socket.bind(&own.into())?;
        let peer = whole(path, path.remote_addr, DISCARD);
        socket.connect_timeout(&peer.into(), PATIENCE.max(self.timeout))
    }
}

/// An address of a path, with the device that a link-local one needs.
fn whole(path: &Path, addr: IpAddr, port: u16) -> SocketAddr {
    let mut whole = SocketAddr::new(addr, port);
    if let (SocketAddr::V6(v6), Some(ifindex)) = (&mut whole, path.ifindex) {
        if v6.ip().is_unicast_link_local() {
            v6.set_scope_id(ifindex);
        }
    }
    whole
}

impl Ask for System {
    fn trip(&mut self, conn: &Conn) -> Trip {
        let trip = self.round_trip(conn);
        trip.unwrap_or_else(|failure| Trip::Failed(failure.text().to_owned()))
    }

    fn reach(&mut self, path: &Path) -> Reach {
        match self.connect_tcp(path) {
            Ok(()) => Reach::Answers,
            Err(error) => match error.raw_os_error() {
                Some(libc::ECONNREFUSED | libc::ECONNRESET) => Reach::Answers,
                Some(libc::ENETUNREACH) => Reach::NoRoute,
                Some(libc::EHOSTUNREACH) => Reach::NoNeighbour,
                _ => Reach::Silent,
            },
        }
    }

    fn arrives(&mut self, path: &Path, len: u32) -> Option<bool> {
        let headers = match path.remote_addr {
            IpAddr::V4(_) => 28,
            IpAddr::V6(_) => 48,
        };
        let bytes = usize::try_from(len.checked_sub(headers)?).ok()?;
        let answered = |bytes| self.refuses(path, bytes).unwrap_or(false);
        if !answered(1) {
            return None;
        }
        if (0..TRIES).any(|_| answered(bytes)) {
            return Some(true);
        }
        // The peer refuses still.
        answered(1).then_some(false)
    }

    fn is_own(&mut self, path: &Path) -> bool {
        match UdpSocket::bind(whole(path, path.local_addr, 0)) {
            Err(error) => error.kind() != io::ErrorKind::AddrNotAvailable,
            Ok(_) => true,
        }
    }
}
