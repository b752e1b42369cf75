// SPDX-License-Identifier: GPL-2.0 OR MIT
//! From what the system says to what is wrong. What follows from a cause that is named already is not
//! told as another fault.

use super::Finding;
use crate::out;
use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::net::IpAddr;
use superp_netlink::uapi::UAPI_VERSION;
use superp_netlink::{
    Conn, ConnState, Counters, Encap, Node, Param, Path, Port, PortState, Qp, Region,
};

/// What can be known without asking a peer.
pub(super) struct Facts {
    /// The peer that is asked about.
    pub(super) peer: Option<IpAddr>,
    pub(super) node: Node,
    pub(super) ports: Vec<Port>,
    /// The links of the ports, in their order, where they are known.
    pub(super) links: Vec<Option<Link>>,
    /// With their counters.
    pub(super) conns: Vec<Conn>,
    pub(super) params: Vec<Param>,
    pub(super) qps: Vec<Qp>,
    /// `None`: it is not permitted to see them.
    pub(super) regions: Option<Vec<Region>>,
    pub(super) drops: Counters,
    /// Pairs of devices in one IPv4 network: a port, and one that answers ARP for the port's
    /// addresses as well.
    pub(super) proxies: Vec<(String, String)>,
    /// Devices that could be ports.
    pub(super) candidates: Vec<String>,
    /// Bytes that a program of this user may register, if they are limited.
    pub(super) memlock: Option<u64>,
}

/// The link of a device.
#[derive(Clone)]
pub(super) struct Link {
    /// Set up by the administrator.
    pub(super) up: bool,
    pub(super) carrier: bool,
    /// The bridge, bond or team that takes all that it receives.
    pub(super) master: Option<String>,
    /// The VRF that it is in, where UDP's sockets that are bound to no device get nothing of it.
    pub(super) closed_vrf: Option<String>,
}

/// What became of a round trip over a connection.
#[derive(Clone)]
pub(super) enum Trip {
    /// After so many nanoseconds.
    Answered(u64),
    Silent,
    /// The connection refused it, or broke.
    Failed(String),
}

/// What became of an IP packet to a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    Answers,
    NoRoute,
    /// The peer's Ethernet address is not found.
    NoNeighbour,
    /// Nothing came back.
    Silent,
}

/// What is asked when it matters.
pub(super) trait Ask {
    /// A round trip over an established connection.
    fn trip(&mut self, conn: &Conn) -> Trip;
    /// Whether IP reaches the peer's end of a path.
    fn reach(&mut self, path: &Path) -> Reach;
    /// Whether an IP packet of `len` bytes arrives at the peer's end of a path. `None`: IP gives no answer to
    /// short ones either.
    fn arrives(&mut self, path: &Path, len: u32) -> Option<bool>;
    /// Whether the node has the own address of a path.
    fn is_own(&mut self, path: &Path) -> bool;
}

/// Below this limit of locked memory programs are expected to meet it, bytes.
const MEMLOCK_ENOUGH: u64 = 64 << 20;

pub(super) fn not_loaded() -> Finding {
    Finding::wrong("module", "superp", "the module superp is not loaded")
        .remedy("modprobe superp")
        .advice("where it was built and not installed: insmod superp.ko")
}

/// Everything that there is to say, in the order of the walk.
pub(super) fn judge(facts: &Facts, ask: &mut impl Ask) -> Vec<Finding> {
    let mut walk = Walk {
        facts,
        sick: BTreeSet::new(),
        findings: Vec::new(),
    };
    walk.module();
    walk.ports();
    // Without a port there is nothing that could work, and one remedy.
    if !facts.ports.is_empty() {
        walk.conns(ask);
    }
    walk.drops();
    walk.qps();
    walk.regions();
    walk.findings
}

struct Walk<'a> {
    facts: &'a Facts,
    /// Devices that are known not to work.
    sick: BTreeSet<u32>,
    findings: Vec<Finding>,
}

/// Bytes of SUNH, which count towards the MTU of a device.
const SUNH_LEN: u32 = 8;

/// The MTU of Ethernet, which every device of a network takes unless it was made lower there.
const ETHERNET_MTU: u32 = 1500;

/// Packets of a connection that were sent again.
fn sent_again(conn: &Conn) -> u64 {
    let names = ["retrans-fast", "retrans-rto", "retrans-full"];
    let stats = conn.stats.iter();
    stats
        .flat_map(|stats| names.map(|name| stats.get(name)))
        .sum()
}

fn leads_to(conn: &Conn, peer: IpAddr) -> bool {
    conn.remote_addr == peer || conn.paths.iter().any(|path| path.remote_addr == peer)
}

impl<'a> Walk<'a> {
    fn tell(&mut self, finding: Finding) {
        self.findings.push(finding);
    }

    /// The connections in question.
    fn of_interest(&self) -> impl Iterator<Item = &'a Conn> {
        let peer = self.facts.peer;
        let conns = self.facts.conns.iter();
        conns.filter(move |conn| peer.is_none_or(|peer| leads_to(conn, peer)))
    }

    fn module(&mut self) {
        let node = &self.facts.node;
        let version = node.uapi_version;
        let name = "superp";
        self.tell(match version.cmp(&UAPI_VERSION) {
            Ordering::Less => {
                let text = format!("the module is older than this command: version {version} of the interface, the command needs {UAPI_VERSION}");
                Finding::wrong("module", name, text)
                    .advice("install the module that came with this command: rmmod superp && modprobe superp then loads it")
            }
            Ordering::Equal => {
                let text = format!("module {} (interface {version})", node.module_version);
                Finding::ok("module", name, text)
            }
            Ordering::Greater => {
                let text = format!("the module is newer than this command: version {version} of the interface, the command knows {UAPI_VERSION}");
                Finding::note("module", name, text)
            }
        });
    }

    fn ports(&mut self) {
        if self.facts.ports.is_empty() {
            let finding = Finding::wrong("port", "node", "no device here carries SUPERp");
            return self.tell(match self.facts.candidates.as_slice() {
                [only] => finding.remedy(format!("superp dev add {}", word(only))),
                [] => finding.advice("superp dev add DEV, but there is no Ethernet device here"),
                several => {
                    let several = several.join(", ");
                    finding.advice(format!("superp dev add DEV, where DEV is one of {several}"))
                }
            });
        }
        let paths: Vec<&Path> = self.of_interest().flat_map(|conn| &conn.paths).collect();
        // A routed path may take any of them.
        let all = self.facts.peer.is_none()
            || paths.is_empty()
            || paths.iter().any(|path| path.ifindex.is_none());
        for (port, link) in self.facts.ports.iter().zip(&self.facts.links) {
            let uses = |path: &&&Path| path.ifindex == Some(port.ifindex);
            if all || paths.iter().any(|path| uses(&path)) {
                let finding = self.port(port, link.as_ref());
                if finding.verdict == super::Verdict::Wrong {
                    self.sick.insert(port.ifindex);
                }
                self.tell(finding);
            }
        }
    }

    fn port(&self, port: &Port, link: Option<&Link>) -> Finding {
        let name = &port.name;
        if let Some(master) = link.and_then(|link| link.master.as_ref()) {
            let text =
                format!("{name} has become part of {master}, which takes all that it receives");
            return Finding::wrong("link", name, text)
                .remedy(format!("ip link set {} nomaster", word(name)))
                .advice(format!(
                    "or use {master} as the port: superp dev add {}",
                    word(master)
                ));
        }
        if link.is_some_and(|link| !link.up) {
            return Finding::wrong("link", name, format!("{name} is switched off"))
                .remedy(format!("ip link set {} up", word(name)));
        }
        if port.state == PortState::Down || link.is_some_and(|link| !link.carrier) {
            let text = format!("{name} has no carrier: the cable, or the device at its other end");
            return Finding::wrong("link", name, text).advice(
                "plug the cable in, or switch the device at the other end on: ip link set DEV up",
            );
        }
        let over = |path: &Path| path.ifindex == Some(port.ifindex);
        let users = self.facts.conns.iter();
        let users = users.filter(|conn| conn.paths.iter().any(over));
        if let Some(vrf) = link.and_then(|link| link.closed_vrf.as_ref()) {
            if users.clone().any(|conn| conn.encap != Encap::Sunh) {
                let text = format!(
                    "{name} is in the VRF {vrf}, and UDP does not hand on what comes in there"
                );
                return Finding::wrong("link", name, text)
                    .remedy("sysctl net.ipv4.udp_l3mdev_accept=1");
            }
        }
        // Over UDP packets become shorter where they must.
        let rigid = users.clone().filter(|conn| conn.encap == Encap::Sunh);
        if let Some(conn) = rigid.max_by_key(|conn| conn.mtu) {
            let (cid, needed) = (conn.local_cid, conn.mtu.saturating_add(SUNH_LEN));
            if port.mtu < needed {
                let mtu = port.mtu;
                let text =
                    format!("the MTU of {name} is {mtu}, connection {cid} was made for {needed}");
                return Finding::wrong("mtu", name, text)
                    .remedy(format!("ip link set {} mtu {needed}", word(name)));
            }
        }
        let usable = |addr: &&IpAddr| match addr {
            IpAddr::V4(_) => true,
            IpAddr::V6(v6) => !v6.is_unicast_link_local(),
        };
        let addresses: Vec<String> = port
            .addresses
            .iter()
            .filter(usable)
            .map(IpAddr::to_string)
            .collect();
        // What only forwards needs none.
        if addresses.is_empty() && !self.facts.node.forwarding {
            let text = format!("{name} has no address that a connection could use");
            let finding = Finding::wrong("address", name, text);
            let paths = users.flat_map(|conn| conn.paths.iter().map(move |path| (conn, path)));
            return match paths.into_iter().find(|(_, path)| over(path)) {
                Some((conn, path)) => self.give_address(finding, conn, path),
                None => finding.advice(format!("ip address add ADDRESS/LENGTH dev {}", word(name))),
            };
        }
        let text = format!("{name} is up, MTU {}, {}", port.mtu, addresses.join(" "));
        Finding::ok("port", name, text.trim_end_matches([',', ' ']))
    }

    /// What gives the node the own address of a path.
    fn give_address(&self, finding: Finding, conn: &Conn, path: &Path) -> Finding {
        let local = path.local_addr;
        let dev = word(path.ifname.as_deref().unwrap_or("DEV"));
        // The nodes of a SUNH network differ in the last bits of their addresses.
        let bits = u32::from(self.facts.node.caddr_bits);
        match (conn.encap, local) {
            (Encap::Sunh, IpAddr::V4(_)) => finding.remedy(format!(
                "ip address add {local}/{} dev {dev}",
                32u32.saturating_sub(bits)
            )),
            (Encap::Sunh, IpAddr::V6(_)) => {
                finding.remedy(format!("ip address add {local}/64 dev {dev}"))
            }
            _ => finding.advice(format!(
                "ip address add {local}/LENGTH dev {dev}, with the LENGTH of the network's prefix"
            )),
        }
    }

    fn conns(&mut self, ask: &mut impl Ask) {
        let mut conns: Vec<&Conn> = self.of_interest().collect();
        conns.sort_by_key(|conn| conn.local_cid);
        if conns.is_empty() {
            let finding = match self.facts.peer {
                Some(peer) => {
                    Finding::wrong("connection", peer, format!("no connection leads to {peer}"))
                        .advice(format!(
                    "superp connect {peer}, and at the peer the same with the address of this node"
                ))
                }
                None => Finding::note("connection", "node", "there is no connection"),
            };
            return self.tell(finding);
        }
        for conn in conns {
            let finding = self.conn(conn, ask);
            self.tell(finding);
            self.story(conn);
        }
    }

    fn conn(&self, conn: &Conn, ask: &mut impl Ask) -> Finding {
        let cid = conn.local_cid;
        let name = format!("connection {cid} to {}", conn.remote_addr);
        let is_sick = |path: &&Path| path.ifindex.is_some_and(|index| self.sick.contains(&index));
        let healthy: Vec<&Path> = conn.paths.iter().filter(|path| !is_sick(path)).collect();
        if healthy.is_empty() {
            let text = format!("{name} was not examined: its device does not work");
            return Finding::note("connection", cid, text);
        }
        // The name is told while there is a device.
        let is_gone = |path: &&&Path| path.ifindex.is_some() && path.ifname.is_none();
        if let Some(path) = healthy.iter().find(is_gone) {
            let index = path.ifindex.unwrap_or(0);
            let text =
                format!("a device of {name} was removed: the one that had the index {index}");
            return Finding::wrong("connection", cid, text).advice(format!(
                "superp conn del {cid}, then create it again over devices that there are: superp conn add --help"
            ));
        }
        // SUNH to a configured Ethernet address needs nobody to find ours by.
        let needs_own = |path: &Path| conn.encap != Encap::Sunh || path.lladdr.is_none();
        for path in &healthy {
            if needs_own(path) && !ask.is_own(path) {
                let text = format!(
                    "{name} is made for the own address {}, which this node does not have",
                    path.local_addr
                );
                let finding = Finding::wrong("address", cid, text);
                return self.give_address(finding, conn, path);
            }
        }
        match conn.state {
            ConnState::Created => {
                let text = format!("{name} is not started: programs here cannot use it");
                Finding::wrong("connection", cid, text).remedy(format!("superp conn start {cid}"))
            }
            ConnState::Draining => {
                let text =
                    format!("{name} was shut down here and waits for the peer to do the same");
                Finding::wrong("connection", cid, text)
                    .at_peer(format!("superp conn stop {}", conn.remote_cid))
            }
            ConnState::Stopped => {
                let text = format!("{name} was shut down");
                renewed(Finding::wrong("connection", cid, text), conn)
            }
            ConnState::Broken => self.broken(conn, &name, &healthy, ask),
            ConnState::Established => match ask.trip(conn) {
                Trip::Answered(ns) => {
                    // Of many connections only those are asked about that have a symptom.
                    let suspect = self.facts.peer.is_some() || sent_again(conn) != 0;
                    let cause = suspect.then(|| self.lost_long(conn, &healthy, ask));
                    let time = out::time(ns);
                    let text = format!("{name} ({}) answers in {time}", conn.encap);
                    let finding = Finding::ok("connection", cid, text);
                    cause.flatten().unwrap_or(finding)
                }
                Trip::Silent => self.unanswered(conn, &name, "", &healthy, ask),
                Trip::Failed(why) => {
                    self.unanswered(conn, &name, &format!(" ({why})"), &healthy, ask)
                }
            },
        }
    }

    fn broken(&self, conn: &Conn, name: &str, healthy: &[&Path], ask: &mut impl Ask) -> Finding {
        let cid = conn.local_cid;
        let cause = conn.cause.as_deref().unwrap_or("no cause is known");
        let text = format!("{name} is broken: {cause}");
        let finding = Finding::wrong("connection", cid, text);
        // It has let go of its devices, and cannot be reset.
        if conn.paths.iter().all(|path| path.state == PortState::Down) {
            let again = recreate(conn, &self.facts.params);
            return finding.remedy(again).at_peer(reset_there(conn));
        }
        // As long as the peer cannot be reached it would break again.
        match reach(conn, healthy, ask) {
            Some((Reach::NoRoute | Reach::NoNeighbour, finding)) => finding,
            _ => self
                .proxied(name, healthy)
                .or_else(|| self.lost_long(conn, healthy, ask))
                .unwrap_or_else(|| renewed(finding, conn)),
        }
    }

    /// Devices of one network must have one MTU. One with a lower MTU drops what is longer, and tells nobody.
    fn lost_long(&self, conn: &Conn, paths: &[&Path], ask: &mut impl Ask) -> Option<Finding> {
        let headers = |path: &Path| match (conn.encap, path.remote_addr) {
            (Encap::Sunh, _) => SUNH_LEN,
            (_, IpAddr::V4(_)) => 28,
            (_, IpAddr::V6(_)) => 48,
        };
        let longest = |path: &Path| conn.path_mtu.min(conn.mtu).saturating_add(headers(path));
        let path = paths
            .iter()
            .find(|path| ask.arrives(path, longest(path)) == Some(false))?;
        let (cid, remote, len) = (conn.local_cid, path.remote_addr, longest(path));
        let text = format!(
            "packets of {len} bytes of connection {cid} do not arrive at {remote}, short ones do: \
             its device, or one on the way, has a lower MTU"
        );
        let finding = Finding::wrong("mtu", cid, text);
        let raise =
            format!("give the device there the MTU of the one here: ip link set DEV mtu {len}");
        if len <= ETHERNET_MTU || ask.arrives(path, ETHERNET_MTU) != Some(true) {
            return Some(finding.advice(raise));
        }
        let shorter = Conn {
            mtu: ETHERNET_MTU - headers(path),
            ..conn.clone()
        };
        Some(
            finding
                .remedy(recreate(&shorter, &self.facts.params))
                .at_peer(reset_there(conn))
                .advice(format!("or {raise}")),
        )
    }

    /// Linux answers ARP for an address of a node by every device in the same network. A path takes
    /// packets by its own device only.
    fn proxied(&self, name: &str, paths: &[&Path]) -> Option<Finding> {
        let of_device = paths.iter().filter(|path| path.local_addr.is_ipv4());
        let mut devices = of_device.filter_map(|path| path.ifname.as_ref());
        let (port, other) =
            devices.find_map(|dev| self.facts.proxies.iter().find(|(port, _)| port == dev))?;
        let text = format!(
            "{name} takes packets by {port} only; {other} is in the same network and answers ARP for {port}'s address, so the peer may send them there"
        );
        Some(
            Finding::wrong("neighbour", port, text)
                .remedy("sysctl net.ipv4.conf.all.arp_ignore=1 net.ipv4.conf.all.arp_announce=2")
                .advice("the peer learns the right Ethernet address within half a minute, or by \"ip neighbour flush to ADDRESS\" there"),
        )
    }

    /// Why the peer does not answer.
    fn unanswered(
        &self,
        conn: &Conn,
        name: &str,
        why: &str,
        healthy: &[&Path],
        ask: &mut impl Ask,
    ) -> Finding {
        let cid = conn.local_cid;
        let reached = reach(conn, healthy, ask);
        if let Some((Reach::NoRoute | Reach::NoNeighbour, finding)) = reached {
            return finding;
        }
        let cause = self.proxied(name, healthy);
        if let Some(finding) = cause.or_else(|| self.lost_long(conn, healthy, ask)) {
            return finding;
        }
        let (how, hint) = match reached {
            Some((Reach::Answers, _)) => (
                "its IP does, so what is wrong is SUPERp there",
                "there: is it a port, has it the connection with these ids, is that not broken",
            ),
            _ => (
                "neither does its IP",
                "is the peer running, and is nothing between that filters; \"ip neighbour\" tells the Ethernet address that its packets go to",
            ),
        };
        let text = match conn.connecting() {
            true => format!("{name} waits for its peer, which does not answer yet{why}; {how}"),
            false => format!("the peer of {name} does not answer{why}; {how}"),
        };
        let local = healthy
            .first()
            .map_or(conn.local_addr, |path| path.local_addr);
        Finding::wrong("answer", cid, text)
            .at_peer(format!("superp doctor {local}"))
            .advice(hint)
    }

    /// What the counters of a connection tell.
    fn story(&mut self, conn: &Conn) {
        let Some(stats) = &conn.stats else { return };
        let cid = conn.local_cid;
        let sum = |names: &[&str]| names.iter().map(|name| stats.get(name)).sum::<u64>();
        for (number, text) in [
            (
                sent_again(conn),
                "were sent again: packets are lost on the way, or late",
            ),
            (
                sum(&["tx-path-errors"]),
                "were not taken by the network: a route or a neighbour was missing",
            ),
            (sum(&["tx-no-memory"]), "were not sent for want of memory"),
            (
                sum(&["rx-protocol-errors"]),
                "broke a rule of the protocol: do both ends agree on \"ext\"?",
            ),
        ] {
            if number != 0 {
                let text = format!("{} packets of connection {cid} {text}", out::count(number));
                self.tell(Finding::note("connection", cid, text));
            }
        }
        for (number, text) in [
            (
                sum(&["access-violations"]),
                "accesses of the peer were refused: key, bounds, rights or partition",
            ),
            (
                sum(&["rx-no-buffer"]),
                "messages of the peer were put off: a program here does not read its queue pair",
            ),
            (
                sum(&["tx-no-buffer"]),
                "messages were put off by the peer: a program there does not read its queue pair",
            ),
        ] {
            if number != 0 {
                let text = format!("connection {cid}: {} {text}", out::count(number));
                self.tell(Finding::note("connection", cid, text));
            }
        }
    }

    fn drops(&mut self) {
        for (reason, packets) in &self.facts.drops.0 {
            if *packets != 0 {
                let packets = out::count(*packets);
                let text = match DROPS.iter().find(|(name, _)| name == reason) {
                    Some((_, text)) => format!("{packets} packets were dropped that {text}"),
                    None => format!("{packets} packets were dropped for {reason}"),
                };
                self.findings.push(Finding::note("drops", reason, text));
            }
        }
    }

    fn qps(&mut self) {
        let qps = &self.facts.qps;
        if qps.is_empty() {
            let text = "no program has a queue pair";
            return self.tell(Finding::note("queue-pair", "node", text));
        }
        for qp in qps.iter().filter(|qp| qp.rx_queued != 0) {
            let owner = match (&qp.command, qp.pid) {
                (Some(command), Some(pid)) => format!("{command}, process {pid}"),
                _ => "its program".to_owned(),
            };
            let queued = out::bytes(qp.rx_queued);
            let text = format!(
                "{queued} wait in queue pair {} for {owner} to read them",
                qp.qpn
            );
            self.tell(Finding::note("queue-pair", qp.qpn, text));
        }
        let text = match qps.len() {
            1 => "1 queue pair".to_owned(),
            n => format!("{n} queue pairs"),
        };
        self.tell(Finding::ok("queue-pair", "node", text));
    }

    fn regions(&mut self) {
        if let Some(limit) = self.facts.memlock.filter(|limit| *limit < MEMLOCK_ENOUGH) {
            let limit = out::bytes(limit);
            let text = format!(
                "programs that are started here may register {limit} of memory (RLIMIT_MEMLOCK)"
            );
            let finding = Finding::note("region", "limit", text);
            self.tell(
                finding.advice("ulimit -l unlimited, or LimitMEMLOCK= of a service, gives more"),
            );
        }
        self.tell(match self.facts.regions.as_deref() {
            None => {
                let text = "memory regions were not looked at: this needs CAP_NET_ADMIN";
                Finding::note("region", "node", text)
            }
            Some([]) => Finding::note("region", "node", "no program has registered memory"),
            Some([_]) => Finding::ok("region", "node", "1 memory region"),
            Some(regions) => Finding::ok(
                "region",
                "node",
                format!("{} memory regions", regions.len()),
            ),
        });
    }
}

/// Important reasons of drops, after "packets were dropped that".
const DROPS: &[(&str, &str)] = &[
    ("no_connection", "name a connection id that is not here: is the peer-cid of a peer our local id?"),
    ("wrong_source", "come from another address than their connection's peer has: do \"peer\" here and \"local\" there agree?"),
    ("wrong_destination", "are for another address than their connection's own: do \"local\" here and \"peer\" there agree?"),
    ("wrong_path", "came by another encapsulation or device than their connection's: do both ends agree on it?"),
    ("not_started", "came for a connection that had not been started"),
    ("not_running", "came for a connection that is stopped or broken: reset both ends, not one"),
    ("psn_out_of_window", "have a number far from what is expected: reset both ends with the same start-psn"),
    ("unknown_opcode", "have an opcode that is unknown or an extension: is \"ext\" alike at both ends?"),
    ("foreign_next_header", "carry another protocol than SUPERp"),
    ("hop_limit", "were to be forwarded and had used up their hop limit: is there a loop of routes?"),
    ("not_forwarded", "were for another node and had no next hop: see \"superp route\" and \"superp node set forwarding on\""),
    ("no_memory", "had to wait for packets before them, and there was no memory to keep them"),
    ("too_long", "were to be forwarded and do not fit the MTU of the next hop"),
];

/// The path among the healthy ones whose peer is not reached by IP, or else what became of the first.
fn reach(conn: &Conn, healthy: &[&Path], ask: &mut impl Ask) -> Option<(Reach, Finding)> {
    let mut first = None;
    for path in healthy {
        let remote = path.remote_addr;
        let (reach, finding) = match ask.reach(path) {
            // SUNH has no use for routes, nor for neighbours where the Ethernet address is configured.
            Reach::NoRoute if conn.encap != Encap::Sunh => {
                let text = format!("there is no route to {remote}");
                let finding = Finding::wrong("route", remote, text).advice(format!(
                    "ip route add {remote} via GATEWAY, or dev DEV; \"ip route get {remote}\" tells whether it is there"
                ));
                (Reach::NoRoute, finding)
            }
            Reach::NoNeighbour if path.lladdr.is_none() => {
                let by = match remote {
                    IpAddr::V4(_) => "ARP",
                    IpAddr::V6(_) => "neighbour discovery",
                };
                let over = path
                    .ifname
                    .as_ref()
                    .map_or(String::new(), |dev| format!(" over {dev}"));
                let text = format!(
                    "nobody answers to {by} for {remote}{over}: its Ethernet address is not known"
                );
                let finding = Finding::wrong("neighbour", remote, text).advice(format!(
                    "is the peer up, on this network, and has it the address {remote}; \"ip neighbour show {remote}\" tells what is known"
                ));
                (Reach::NoNeighbour, finding)
            }
            Reach::Answers => (
                Reach::Answers,
                Finding::ok("answer", remote, format!("{remote} answers by IP")),
            ),
            _ => (
                Reach::Silent,
                Finding::note("answer", remote, format!("{remote} does not answer by IP")),
            ),
        };
        if matches!(reach, Reach::NoRoute | Reach::NoNeighbour) {
            return Some((reach, finding));
        }
        first = first.or(Some((reach, finding)));
    }
    first
}

/// The first packet sequence number of a new life, as far as possible from those of the last one, so
/// that the order in which the ends are reset does not matter.
fn far_psn(conn: &Conn) -> u32 {
    // Users are not told the last one, and cannot reset. Most that were made by hand began at 0.
    conn.start_psn.unwrap_or(0).wrapping_add(1 << 31)
}

fn reset(cid: u16, psn: u32) -> String {
    format!("superp conn reset {cid} start-psn {psn} && superp conn start {cid}")
}

pub(super) fn reset_here(conn: &Conn) -> String {
    reset(conn.local_cid, far_psn(conn))
}

pub(super) fn reset_there(conn: &Conn) -> String {
    reset(conn.remote_cid, far_psn(conn))
}

/// A new life for a connection, at both ends.
fn renewed(finding: Finding, conn: &Conn) -> Finding {
    finding.remedy(reset_here(conn)).at_peer(reset_there(conn))
}

/// A name as a word of a command that may be pasted into a shell.
fn word(name: &str) -> Cow<'_, str> {
    // Only a zero byte has no quotes, and no name has one.
    shlex::try_quote(name).unwrap_or_default()
}

/// Commands that remove a connection, create it as it was, with another first number, and start it.
fn recreate(conn: &Conn, params: &[Param]) -> String {
    let switch = |on| if on { "on" } else { "off" };
    let Conn {
        local_cid: cid,
        remote_cid,
        encap,
        ..
    } = conn;
    let mut words = format!(
        "superp conn del {cid} && superp conn add {cid} peer-cid {remote_cid} encap {encap}"
    );
    let several = conn.paths.len() > 1;
    let ends = |path: &Path| {
        let mac = path
            .lladdr
            .map_or(String::new(), |mac| format!(" lladdr {mac}"));
        format!(" peer {} local {}{mac}", path.remote_addr, path.local_addr)
    };
    if !conn.ext_auto {
        words += &format!(" ext {}", switch(conn.ext));
    }
    // The settings of a path follow it, those of the connection do not mind.
    for path in &conn.paths {
        if let Some(dev) = &path.ifname {
            let key = if several { "path" } else { "dev" };
            words += &format!(" {key} {}", word(dev));
        }
        words += &ends(path);
    }
    for (name, on, default) in [
        ("lite", conn.lite, false),
        ("ordered-tx", conn.ordered_tx, true),
        ("ordered-rx", conn.ordered_rx, true),
        ("spray", conn.spray, false),
    ] {
        if on != default {
            words += &format!(" {name} {}", switch(on));
        }
    }
    // What the kernel chose may be longer than SUNH carries.
    let label = match encap {
        Encap::Sunh => conn.flow_label & 0xfff,
        Encap::Udp4 | Encap::Udp6 => conn.flow_label,
    };
    words += &format!(
        " partition {} tclass {} hop-limit {} flow-label {} mtu {} start-psn {}",
        conn.partition,
        conn.tclass,
        conn.hop_limit,
        label,
        conn.mtu,
        far_psn(conn)
    );
    for (name, value) in &conn.params.0 {
        let of_node = params.iter().find(|param| param.name == *name);
        if of_node.is_some_and(|param| param.value != *value) {
            words += &format!(" {name} {value}");
        }
    }
    format!("{words} && superp conn start {cid}")
}

#[cfg(test)]
mod tests;
