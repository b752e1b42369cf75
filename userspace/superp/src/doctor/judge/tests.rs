// SPDX-License-Identifier: GPL-2.0 OR MIT

use super::*;
use crate::doctor::Verdict;
use superp_netlink::{Mac, PortEncap};

const OWN: &str = "10.23.0.1";
const PEER: &str = "10.23.0.2";

fn addr(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn path(ifindex: u32) -> Path {
    Path {
        ifindex: Some(ifindex),
        ifname: Some(format!("eth{ifindex}")),
        local_addr: addr(OWN),
        remote_addr: addr(PEER),
        lladdr: None,
        state: PortState::Up,
        tx_packets: 0,
        rx_packets: 0,
    }
}

fn conn() -> Conn {
    Conn {
        local_cid: 1,
        remote_cid: 7,
        encap: Encap::Sunh,
        ifindex: Some(0),
        ifname: Some("eth0".into()),
        local_addr: addr(OWN),
        remote_addr: addr(PEER),
        lladdr: None,
        ordered_tx: true,
        spray: false,
        ordered_rx: true,
        ext: true,
        ext_auto: false,
        lite: false,
        partition: 0,
        tclass: 0,
        hop_limit: 15,
        flow_label: 5,
        mtu: 8992,
        start_psn: Some(100),
        start_xid: Some(0),
        params: Counters::default(),
        state: ConnState::Established,
        cause: None,
        heard: true,
        path_mtu: 8992,
        paths: vec![path(0)],
        stats: Some(Counters::default()),
    }
}

fn port(ifindex: u32) -> Port {
    Port {
        ifindex,
        name: format!("eth{ifindex}"),
        encap: PortEncap {
            sunh: true,
            udp: true,
        },
        state: PortState::Up,
        mtu: 9000,
        conns: 1,
        addresses: vec![addr(OWN)],
    }
}

/// A node that works: one port, one connection.
fn facts() -> Facts {
    Facts {
        peer: None,
        node: Node {
            family: 22,
            uapi_version: UAPI_VERSION,
            module_version: "0.1".into(),
            ethertype: 0x88b5,
            next_header: 253,
            udp_port: 7777,
            caddr_bits: 16,
            ports: 1,
            conns: 1,
            qps: 0,
            regions: 0,
            addresses: vec![addr(OWN)],
            cm_address: None,
            forwarding: false,
            forwarded: 0,
            rma_base: 0,
            rma_size: 0,
        },
        ports: vec![port(0)],
        links: vec![Some(Link {
            up: true,
            carrier: true,
            master: None,
            closed_vrf: None,
        })],
        conns: vec![conn()],
        params: Vec::new(),
        qps: Vec::new(),
        regions: Some(Vec::new()),
        drops: Counters(vec![("no_connection".into(), 0)]),
        proxies: Vec::new(),
        candidates: vec!["eth0".into()],
        memlock: None,
    }
}

/// What is answered, and how often it was asked.
struct Answers {
    trip: Trip,
    reach: Reach,
    own: bool,
    /// The longest IP packet that arrives; `None`: IP gives no answer.
    longest: Option<u32>,
    trips: usize,
    reaches: usize,
}

impl Ask for Answers {
    fn trip(&mut self, _: &Conn) -> Trip {
        self.trips += 1;
        self.trip.clone()
    }

    fn reach(&mut self, _: &Path) -> Reach {
        self.reaches += 1;
        self.reach
    }

    fn arrives(&mut self, _: &Path, len: u32) -> Option<bool> {
        self.longest.map(|longest| len <= longest)
    }

    fn is_own(&mut self, _: &Path) -> bool {
        self.own
    }
}

fn fine() -> Answers {
    Answers {
        trip: Trip::Answered(1000),
        reach: Reach::Answers,
        own: true,
        longest: Some(65_535),
        trips: 0,
        reaches: 0,
    }
}

fn silent(reach: Reach) -> Answers {
    Answers {
        trip: Trip::Silent,
        reach,
        ..fine()
    }
}

fn wrong(facts: &Facts, mut ask: Answers) -> Vec<Finding> {
    let mut findings = judge(facts, &mut ask);
    findings.retain(|finding| finding.verdict == Verdict::Wrong);
    findings
}

/// The only fault.
#[track_caller]
fn fault(facts: &Facts, ask: Answers) -> Finding {
    let findings = wrong(facts, ask);
    assert_eq!(findings.len(), 1, "{findings:?}");
    findings[0].clone()
}

#[track_caller]
fn is(finding: &Finding, check: &str, object: &str, remedy: Option<&str>) {
    assert_eq!((finding.check, finding.object.as_str()), (check, object));
    assert_eq!(finding.remedy.as_deref(), remedy);
    // What is wrong has something that helps.
    let help = [&finding.remedy, &finding.peer_remedy, &finding.advice];
    assert!(help.iter().any(|help| help.is_some()), "{finding:?}");
}

fn notes(facts: &Facts) -> Vec<String> {
    let findings = judge(facts, &mut fine());
    let notes = findings
        .into_iter()
        .filter(|finding| finding.verdict == Verdict::Note);
    notes.map(|finding| finding.text).collect()
}

#[test]
fn another_device_that_answers_arp_for_the_port_is_named_where_packets_get_lost() {
    let mut facts = facts();
    facts.proxies = vec![("eth0".into(), "eth1".into())];
    assert!(wrong(&facts, fine()).is_empty());
    let sysctl = "sysctl net.ipv4.conf.all.arp_ignore=1 net.ipv4.conf.all.arp_announce=2";
    let finding = fault(&facts, silent(Reach::Answers));
    is(&finding, "neighbour", "eth0", Some(sysctl));
    assert!(finding.text.contains("eth1"), "{}", finding.text);
    // Nor does a reset help before.
    facts.conns[0].state = ConnState::Broken;
    is(&fault(&facts, fine()), "neighbour", "eth0", Some(sysctl));
    facts.proxies = vec![("eth2".into(), "eth1".into())];
    facts.conns[0].state = ConnState::Established;
    is(&fault(&facts, silent(Reach::Answers)), "answer", "1", None);
}

#[test]
fn long_packets_that_do_not_arrive_are_told_where_there_is_a_symptom() {
    let mut facts = facts();
    let narrow = |longest| Answers {
        longest: Some(longest),
        ..fine()
    };
    assert!(wrong(&facts, narrow(1500)).is_empty());
    // It was asked about, or packets were sent again.
    facts.peer = Some(addr(PEER));
    let again = "superp conn del 1 && superp conn add 1 peer-cid 7 encap sunh ext on dev eth0 \
                 peer 10.23.0.2 local 10.23.0.1 partition 0 tclass 0 hop-limit 15 flow-label 5 mtu 1492 \
                 start-psn 2147483748 && superp conn start 1";
    let finding = fault(&facts, narrow(1500));
    is(&finding, "mtu", "1", Some(again));
    assert!(
        finding.text.contains("packets of 9000 bytes"),
        "{finding:?}"
    );
    assert_eq!(finding.peer_remedy.unwrap(), reset_there(&facts.conns[0]));
    assert!(finding.advice.unwrap().contains("ip link set DEV mtu 9000"));
    facts.peer = None;
    facts.conns[0].stats = Some(Counters(vec![("retrans-rto".into(), 1)]));
    is(&fault(&facts, narrow(1500)), "mtu", "1", Some(again));
    // What is shorter than on Ethernet is not guessed.
    is(&fault(&facts, narrow(1400)), "mtu", "1", None);
    assert!(wrong(&facts, narrow(9000)).is_empty());
    let mute = Answers {
        longest: None,
        ..fine()
    };
    assert!(wrong(&facts, mute).is_empty());
    // A reset alone does not help.
    facts.conns[0].state = ConnState::Broken;
    is(&fault(&facts, narrow(1500)), "mtu", "1", Some(again));
    facts.conns[0].state = ConnState::Established;
    let stuck = Answers {
        trip: Trip::Silent,
        ..narrow(1500)
    };
    is(&fault(&facts, stuck), "mtu", "1", Some(again));
    // Headers of IPv4 and UDP count over UDP, and what the path is known to take.
    facts.conns[0].encap = Encap::Udp4;
    facts.conns[0].path_mtu = 1472;
    assert!(wrong(&facts, narrow(1500)).is_empty());
    facts.conns[0].path_mtu = 8972;
    facts.conns[0].mtu = 8972;
    let finding = fault(&facts, narrow(1500));
    assert!(finding.remedy.unwrap().contains(" mtu 1472 "));
}

/// A second device, eth1.
fn add_device_that_is_off(facts: &mut Facts) {
    facts.ports.push(port(1));
    facts.links.push(Some(Link {
        up: false,
        carrier: false,
        master: None,
        closed_vrf: None,
    }));
}

fn is_off(facts: &Facts) {
    let finding = fault(facts, fine());
    is(&finding, "link", "eth1", Some("ip link set eth1 up"));
}

#[test]
fn node_that_works_has_no_fault() {
    let mut ask = fine();
    let findings = judge(&facts(), &mut ask);
    assert!(findings
        .iter()
        .all(|finding| finding.verdict != Verdict::Wrong));
    // Who answers is not asked why not.
    assert_eq!((ask.trips, ask.reaches), (1, 0));
}

#[test]
fn missing_module_and_port_have_a_command() {
    is(&not_loaded(), "module", "superp", Some("modprobe superp"));
    let mut facts = facts();
    facts.ports.clear();
    facts.links.clear();
    is(
        &fault(&facts, fine()),
        "port",
        "node",
        Some("superp dev add eth0"),
    );
    facts.candidates.push("eth1".into());
    let finding = fault(&facts, fine());
    is(&finding, "port", "node", None);
    assert!(finding.advice.unwrap().contains("eth0, eth1"));
}

#[test]
fn older_module_is_a_fault_and_a_newer_one_a_note() {
    let mut facts = facts();
    facts.node.uapi_version = UAPI_VERSION - 1;
    is(&fault(&facts, fine()), "module", "superp", None);
    facts.node.uapi_version = UAPI_VERSION + 1;
    assert!(wrong(&facts, fine()).is_empty());
    assert!(notes(&facts)[0].contains("newer"));
}

#[test]
fn device_that_is_off_hides_what_follows() {
    let mut facts = facts();
    facts.ports[0].state = PortState::Down;
    facts.ports[0].addresses.clear();
    facts.conns[0].paths[0].state = PortState::Down;
    facts.links[0] = Some(Link {
        up: false,
        carrier: false,
        master: None,
        closed_vrf: None,
    });
    let mut ask = silent(Reach::NoNeighbour);
    ask.own = false;
    is(
        &fault(&facts, ask),
        "link",
        "eth0",
        Some("ip link set eth0 up"),
    );
    facts.links[0] = Some(Link {
        up: true,
        carrier: false,
        master: None,
        closed_vrf: None,
    });
    is(&fault(&facts, fine()), "link", "eth0", None);
    // Where sysfs is that of another namespace.
    facts.links[0] = None;
    is(&fault(&facts, fine()), "link", "eth0", None);
}

#[test]
fn mtu_is_that_of_the_connection_and_its_header_unless_packets_become_shorter() {
    let mut facts = facts();
    facts.ports[0].mtu = 9000;
    assert!(wrong(&facts, fine()).is_empty());
    facts.ports[0].mtu = 8999;
    let command = "ip link set eth0 mtu 9000";
    is(&fault(&facts, fine()), "mtu", "eth0", Some(command));
    facts.conns[0].encap = Encap::Udp4;
    assert!(wrong(&facts, fine()).is_empty());
}

#[test]
fn device_that_became_part_of_another_is_told() {
    let mut facts = facts();
    facts.links[0] = Some(Link {
        up: true,
        carrier: true,
        master: Some("br0".into()),
        closed_vrf: None,
    });
    let finding = fault(&facts, fine());
    is(&finding, "link", "eth0", Some("ip link set eth0 nomaster"));
    assert!(finding.text.contains("part of br0"));
}

#[test]
fn udp_in_a_vrf_needs_the_setting() {
    let mut facts = facts();
    facts.links[0] = Some(Link {
        up: true,
        carrier: true,
        master: None,
        closed_vrf: Some("blue".into()),
    });
    assert!(wrong(&facts, fine()).is_empty());
    facts.conns[0].encap = Encap::Udp4;
    let finding = fault(&facts, fine());
    let remedy = "sysctl net.ipv4.udp_l3mdev_accept=1";
    is(&finding, "link", "eth0", Some(remedy));
    assert!(finding.text.contains("VRF blue"));
}

#[test]
fn missing_address_is_named_once() {
    let mut facts = facts();
    facts.ports[0].addresses = vec![addr("fe80::1")];
    let without = || Answers {
        own: false,
        ..fine()
    };
    is(
        &fault(&facts, without()),
        "address",
        "eth0",
        Some("ip address add 10.23.0.1/16 dev eth0"),
    );
    // Another address is there, but not this connection's.
    facts.ports[0].addresses = vec![addr("10.23.0.9")];
    is(
        &fault(&facts, without()),
        "address",
        "1",
        Some("ip address add 10.23.0.1/16 dev eth0"),
    );
    // The length of a prefix of a UDP network is not known.
    facts.conns[0].encap = Encap::Udp4;
    facts.conns[0].mtu = 1000;
    is(&fault(&facts, without()), "address", "1", None);
    // SUNH to a configured Ethernet address does without.
    facts.conns[0].encap = Encap::Sunh;
    facts.conns[0].paths[0].lladdr = Some(Mac([2, 0, 0, 0, 0, 7]));
    assert!(wrong(&facts, without()).is_empty());
}

#[test]
fn switch_needs_no_address() {
    let mut facts = facts();
    facts.conns.clear();
    facts.ports[0].addresses.clear();
    is(&fault(&facts, fine()), "address", "eth0", None);
    facts.node.forwarding = true;
    assert!(wrong(&facts, fine()).is_empty());
}

#[test]
fn peer_without_a_connection_is_a_fault_only_if_asked_for() {
    let mut facts = facts();
    facts.peer = Some(addr("10.23.0.9"));
    is(&fault(&facts, fine()), "connection", "10.23.0.9", None);
    facts.peer = None;
    facts.conns.clear();
    assert!(wrong(&facts, fine()).is_empty());
}

#[test]
fn what_does_not_concern_the_peer_is_left_out() {
    let mut facts = facts();
    add_device_that_is_off(&mut facts);
    let mut other = conn();
    other.local_cid = 2;
    other.remote_addr = addr("10.23.0.9");
    other.state = ConnState::Created;
    other.paths = vec![path(1)];
    other.paths[0].remote_addr = other.remote_addr;
    facts.conns.push(other);
    facts.peer = Some(addr(PEER));
    assert!(wrong(&facts, fine()).is_empty());
    facts.peer = Some(addr("10.23.0.9"));
    is_off(&facts);
}

#[test]
fn states_have_their_commands() {
    let mut facts = facts();
    let renew = "superp conn reset 1 start-psn 2147483748 && superp conn start 1";
    let peer_renew = "superp conn reset 7 start-psn 2147483748 && superp conn start 7";
    for (state, remedy, at_peer) in [
        (ConnState::Created, Some("superp conn start 1"), None),
        (ConnState::Draining, None, Some("superp conn stop 7")),
        (ConnState::Stopped, Some(renew), Some(peer_renew)),
        (ConnState::Broken, Some(renew), Some(peer_renew)),
    ] {
        facts.conns[0].state = state;
        let finding = fault(&facts, fine());
        is(&finding, "connection", "1", remedy);
        assert_eq!(finding.peer_remedy.as_deref(), at_peer);
    }
}

#[test]
fn broken_connection_tells_its_cause_unless_the_peer_is_out_of_reach() {
    let mut facts = facts();
    facts.conns[0].state = ConnState::Broken;
    facts.conns[0].cause = Some("the peer does not answer".into());
    for reach in [Reach::Answers, Reach::Silent] {
        let finding = fault(&facts, silent(reach));
        assert!(finding.text.ends_with("broken: the peer does not answer"));
    }
    is(
        &fault(&facts, silent(Reach::NoNeighbour)),
        "neighbour",
        PEER,
        None,
    );
}

#[test]
fn connection_that_let_go_of_its_device_is_created_again_as_it_was() {
    let mut facts = facts();
    facts.conns[0].state = ConnState::Broken;
    facts.conns[0].paths[0].state = PortState::Down;
    facts.conns[0].params = Counters(vec![("a_x".into(), 1), ("b_y".into(), 2)]);
    let param = |name: &str| Param {
        name: name.into(),
        value: 1,
        min: 0,
        max: 9,
        default: 1,
        unit: String::new(),
        per_conn: true,
        doc: String::new(),
    };
    facts.params = vec![param("a_x"), param("b_y")];
    is(
        &fault(&facts, fine()),
        "connection",
        "1",
        Some(
            "superp conn del 1 && superp conn add 1 peer-cid 7 encap sunh ext on dev eth0 peer 10.23.0.2 \
             local 10.23.0.1 partition 0 tclass 0 hop-limit 15 flow-label 5 mtu 8992 \
             start-psn 2147483748 b_y 2 && superp conn start 1",
        ),
    );
}

#[test]
fn connection_that_never_heard_its_peer_is_said_to_wait() {
    let mut facts = facts();
    facts.conns[0].heard = false;
    let finding = fault(&facts, silent(Reach::Answers));
    assert_eq!(
        finding.text,
        "connection 1 to 10.23.0.2 waits for its peer, which does not answer yet; \
         its IP does, so what is wrong is SUPERp there"
    );
}

#[test]
fn removed_device_is_told() {
    let mut facts = facts();
    facts.conns[0].paths[0].ifname = None;
    facts.conns[0].paths[0].state = PortState::Down;
    is(&fault(&facts, fine()), "connection", "1", None);
}

#[test]
fn silence_is_followed_to_its_cause() {
    for (encap, reach, check, object) in [
        (Encap::Sunh, Reach::Answers, "answer", "1"),
        (Encap::Sunh, Reach::Silent, "answer", "1"),
        (Encap::Sunh, Reach::NoNeighbour, "neighbour", PEER),
        (Encap::Udp4, Reach::NoRoute, "route", PEER),
        // SUNH is not routed.
        (Encap::Sunh, Reach::NoRoute, "answer", "1"),
    ] {
        let mut facts = facts();
        facts.conns[0].encap = encap;
        facts.conns[0].mtu = 1000;
        is(&fault(&facts, silent(reach)), check, object, None);
        let failed = Answers {
            trip: Trip::Failed("ECONNABORTED".into()),
            ..silent(reach)
        };
        is(&fault(&facts, failed), check, object, None);
    }
    // Of a configured Ethernet address the neighbour table knows nothing.
    let mut facts = facts();
    facts.conns[0].paths[0].lladdr = Some(Mac([2, 0, 0, 0, 0, 7]));
    let finding = fault(&facts, silent(Reach::NoNeighbour));
    is(&finding, "answer", "1", None);
    assert_eq!(
        finding.peer_remedy.as_deref(),
        Some("superp doctor 10.23.0.1")
    );
}

#[test]
fn path_that_is_down_beside_another_is_told_as_its_device() {
    let mut facts = facts();
    add_device_that_is_off(&mut facts);
    facts.conns[0].paths.push(path(1));
    facts.conns[0].paths[1].state = PortState::Down;
    is_off(&facts);
}

#[test]
fn counters_queues_and_limits_are_notes() {
    let mut facts = facts();
    facts.drops = Counters(vec![("no_connection".into(), 5), ("num_ops".into(), 2)]);
    facts.conns[0].stats = Some(Counters(vec![
        ("retrans-fast".into(), 2),
        ("retrans-rto".into(), 1),
        ("rx-no-buffer".into(), 4),
    ]));
    facts.qps.push(Qp {
        qpn: 9,
        local_cid: None,
        remote_addr: None,
        remote_qpn: None,
        pid: Some(4711),
        tx_messages: 0,
        rx_messages: 1,
        rx_queued: 2048,
        pending: 0,
        command: Some("server".into()),
        inode: None,
    });
    facts.regions = None;
    facts.memlock = Some(8 << 20);
    assert!(wrong(&facts, fine()).is_empty());
    let notes = notes(&facts).join("\n");
    for part in [
        "3 packets of connection 1 were sent again",
        "4 messages of the peer were put off",
        "5 packets were dropped that name a connection id that is not here",
        "2 packets were dropped for num_ops",
        "2 KiB wait in queue pair 9 for server, process 4711",
        "8 MiB of memory",
        "needs CAP_NET_ADMIN",
    ] {
        assert!(notes.contains(part), "{part}: {notes}");
    }
    facts.memlock = Some(MEMLOCK_ENOUGH);
    assert!(!self::notes(&facts).join("\n").contains("RLIMIT_MEMLOCK"));
}

#[test]
fn every_reason_with_a_sentence_is_one_of_the_protocol() {
    for (name, _) in DROPS {
        let mut all = superp_proto::DropReason::ALL.iter();
        assert!(all.any(|reason| reason.name() == *name), "{name}");
    }
}
