// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Checks, plans and what becomes of them, against a kernel that is a few maps and refuses at will.

use super::*;
use crate::check::faults;
use crate::kernel::Snapshot;
use crate::plan::{differences, plan};
use serde_json::json;
use std::collections::BTreeMap;
use std::net::IpAddr;
use superp_control::{Configuration, Device, Extensions, LinkState, RmaSpace};
use superp_netlink::{
    Conn, ConnSpec, ConnState, Counters, Node, Param, Path, Port, PortEncap, PortState, Refusal,
};

const PARAMS: [(&str, u64, u64, u64, bool); 6] = [
    ("nh_hop_limit", 1, 15, 8, false),
    ("nh_num_caddr_bits", 8, 16, 16, false),
    ("nh_udp_port", 1, 65_535, 7777, false),
    ("pdl_conns_per_xpu", 1, 65_536, 4, false),
    ("pdl_window_size", 16, 1024, 32, true),
    ("tal_transaction_timeout", 0, 1 << 40, 0, true),
];

/// A kernel, which refuses its `refuses`th change.
#[derive(Clone, Debug, Default)]
struct Fake {
    params: BTreeMap<String, u64>,
    manager: Option<IpAddr>,
    /// Base and size, as the kernel tells them.
    rma: (u64, u64),
    ports: BTreeMap<u32, PortEncap>,
    conns: BTreeMap<u16, ConnSpec>,
    changes: usize,
    refuses: Option<usize>,
    /// Whether peers turned out to have the extensions.
    peer_ext: bool,
}

impl Fake {
    fn change(&mut self) -> Result<(), Error> {
        self.changes += 1;
        match self.refuses == Some(self.changes) {
            false => Ok(()),
            true => Err(Error::Refused(Refusal {
                errno: 12,
                message: Some("no memory".into()),
                attribute: None,
                missing: None,
                range: None,
            })),
        }
    }

    fn param(&self, name: &str) -> u64 {
        let default = PARAMS
            .iter()
            .find(|param| param.0 == name)
            .map_or(0, |param| param.3);
        self.params.get(name).copied().unwrap_or(default)
    }

    fn snapshot(&self) -> Snapshot {
        let params = PARAMS.map(|(name, min, max, default, per_conn)| Param {
            name: name.into(),
            value: self.param(name),
            min,
            max,
            default,
            unit: String::new(),
            per_conn,
            doc: String::new(),
        });
        let port = |(ifindex, encap): (&u32, &PortEncap)| Port {
            ifindex: *ifindex,
            name: format!("eth{ifindex}"),
            encap: *encap,
            state: PortState::Up,
            mtu: 9000,
            conns: 0,
            addresses: Vec::new(),
        };
        let device = |index| Device {
            device: format!("eth{index}"),
            index,
            mac: None,
            mtu: 9000,
            state: LinkState::Up,
            addresses: Vec::new(),
            port: Vec::new(),
        };
        Snapshot {
            node: Node {
                family: 45,
                uapi_version: 2,
                module_version: String::new(),
                ethertype: 0,
                next_header: 0,
                udp_port: 0,
                caddr_bits: 16,
                ports: 0,
                conns: 0,
                qps: 0,
                regions: 0,
                addresses: Vec::new(),
                cm_address: self.manager,
                forwarding: false,
                forwarded: 0,
                rma_base: self.rma.0,
                rma_size: self.rma.1,
            },
            params: params.into(),
            ports: self.ports.iter().map(port).collect(),
            conns: self.conns.values().map(|spec| self.conn(spec)).collect(),
            devices: vec![device(1), device(2)],
        }
    }

    /// What the kernel makes of a request, with its own choice for what is left open.
    fn conn(&self, spec: &ConnSpec) -> Conn {
        let own = |name: &str| {
            spec.params
                .iter()
                .find(|param| param.0 == name)
                .map(|param| param.1)
        };
        let params = PARAMS.iter().filter(|param| param.4);
        let params = params.map(|param| {
            (
                param.0.to_owned(),
                own(param.0).unwrap_or(self.param(param.0)),
            )
        });
        let local = IpAddr::from([10, 23, 0, 1]);
        Conn {
            local_cid: spec.local_cid.unwrap(),
            remote_cid: spec.remote_cid,
            encap: spec.encap,
            ifindex: Some(1),
            ifname: Some("eth1".into()),
            local_addr: spec.local_addr.unwrap_or(local),
            remote_addr: spec.remote_addr.unwrap(),
            lladdr: spec.lladdr,
            ordered_tx: spec.ordered_tx.unwrap(),
            spray: spec.spray.unwrap(),
            ordered_rx: spec.ordered_rx.unwrap(),
            ext: spec.ext.unwrap_or(self.peer_ext),
            ext_auto: spec.ext.is_none(),
            lite: spec.lite.unwrap(),
            partition: spec.partition.unwrap(),
            tclass: spec.tclass.unwrap(),
            hop_limit: spec.hop_limit.unwrap_or(self.param("nh_hop_limit") as u8),
            flow_label: spec.flow_label.unwrap_or(0x123),
            mtu: spec.mtu.unwrap_or(8984),
            start_psn: spec.start_psn,
            start_xid: spec.start_xid,
            params: Counters(params.collect()),
            state: ConnState::Created,
            cause: None,
            heard: false,
            path_mtu: 8984,
            paths: vec![Path {
                ifindex: Some(1),
                ifname: Some("eth1".into()),
                local_addr: spec.local_addr.unwrap_or(local),
                remote_addr: spec.remote_addr.unwrap(),
                lladdr: spec.lladdr,
                state: PortState::Up,
                tx_packets: 0,
                rx_packets: 0,
            }],
            stats: None,
        }
    }

    /// Everything in it, to compare.
    fn text(&self) -> String {
        let params: Vec<_> = PARAMS.iter().map(|param| self.param(param.0)).collect();
        format!(
            "{params:?} {:?} {:x?} {:?} {:?}",
            self.manager, self.rma, self.ports, self.conns
        )
    }
}

impl Kernel for Fake {
    fn set_param(&mut self, name: &str, value: u64) -> Result<(), Error> {
        self.change()?;
        self.params.insert(name.into(), value);
        Ok(())
    }

    fn set_manager(&mut self, addr: Option<IpAddr>) -> Result<(), Error> {
        self.change()?;
        self.manager = addr;
        Ok(())
    }

    fn set_rma_space(&mut self, space: Option<RmaSpace>) -> Result<(), Error> {
        self.change()?;
        // To the end of all addresses is told as a size of 0.
        self.rma = space.map_or((0, 0), |space| match space.last() {
            Some(u64::MAX) => (space.base, 0),
            _ => (space.base, space.size),
        });
        Ok(())
    }

    fn add_port(&mut self, ifindex: u32, encap: PortEncap) -> Result<(), Error> {
        self.change()?;
        assert!(self.ports.insert(ifindex, encap).is_none());
        Ok(())
    }

    fn del_port(&mut self, ifindex: u32) -> Result<(), Error> {
        self.change()?;
        assert!(self.ports.remove(&ifindex).is_some());
        Ok(())
    }

    fn add_conn(&mut self, spec: &ConnSpec) -> Result<(), Error> {
        self.change()?;
        assert!(self
            .conns
            .insert(spec.local_cid.unwrap(), spec.clone())
            .is_none());
        Ok(())
    }

    fn del_conn(&mut self, cid: u16) -> Result<(), Error> {
        self.change()?;
        assert!(self.conns.remove(&cid).is_some());
        Ok(())
    }
}

fn conn(cid: u16) -> serde_json::Value {
    json!({ "cid": cid, "peer": "10.23.0.2", "peer_cid": cid })
}

fn configuration(connections: &[serde_json::Value]) -> Configuration {
    let text = json!({ "fabric": "lab", "generation": 1, "ports": [{ "device": "eth1" }],
        "connections": connections });
    serde_json::from_value(text).unwrap()
}

/// Configures a kernel.
fn configured(configuration: &Configuration) -> Fake {
    let mut kernel = Fake::default();
    assert_eq!(faults(configuration, &kernel.snapshot()), []);
    let first = plan(configuration, None, &kernel.snapshot());
    apply(&mut kernel, first).unwrap();
    assert!(differences(configuration, &kernel.snapshot()).is_empty());
    kernel
}

fn actions(outcomes: &[Outcome]) -> Vec<(String, Action)> {
    outcomes
        .iter()
        .map(|outcome| (outcome.object.to_string(), outcome.action))
        .collect()
}

/// Two configurations, of which the second changes everything that can be changed in place.
fn old_and_new() -> (Configuration, Configuration) {
    let old = configuration(&[conn(1), conn(2), conn(3)]);
    let mut replaced = conn(2);
    replaced["partition"] = json!(7);
    let mut new = configuration(&[conn(1), replaced, conn(4)]);
    new.generation = 2;
    new.node.partitions = vec![7];
    new.node
        .parameters
        .insert("tal_transaction_timeout".into(), 0);
    new.node.parameters.insert("pdl_conns_per_xpu".into(), 9);
    new.node.manager = Some(IpAddr::from([10, 0, 0, 1]));
    new.node.rma = Some(RmaSpace {
        base: 1 << 40,
        size: 1 << 30,
    });
    new.ports
        .push(serde_json::from_value(json!({ "device": "eth2" })).unwrap());
    for connection in &mut new.connections {
        connection.device = Some("eth1".into());
    }
    let mut old = old;
    for connection in &mut old.connections {
        connection.device = Some("eth1".into());
    }
    (old, new)
}

#[test]
fn configuration_in_force_leaves_nothing_to_do() {
    let (old, _) = old_and_new();
    let kernel = configured(&old);
    let again = plan(&old, Some(&old), &kernel.snapshot());
    assert!(again.steps.is_empty(), "{:?}", again.steps);
    assert!(again
        .outcomes
        .iter()
        .all(|outcome| outcome.action == Action::Unchanged));
}

#[test]
fn difference_is_what_is_done_and_told() {
    let (old, new) = old_and_new();
    let mut kernel = configured(&old);
    kernel.changes = 0;
    assert_eq!(faults(&new, &kernel.snapshot()), []);
    let plan = plan(&new, Some(&old), &kernel.snapshot());
    let outcomes = apply(&mut kernel, plan).unwrap();
    let expected = [
        ("port eth1", Action::Unchanged),
        ("port eth2", Action::Created),
        ("parameter pdl_conns_per_xpu", Action::Set),
        ("address of the manager", Action::Set),
        ("space of RMA addresses", Action::Set),
        ("connection 1", Action::Unchanged),
        ("connection 2", Action::Replaced),
        ("connection 4", Action::Created),
        ("connection 3", Action::Removed),
    ];
    assert_eq!(
        actions(&outcomes),
        expected.map(|(object, action)| (object.to_owned(), action))
    );
    assert_eq!(
        outcomes[4].detail.as_deref(),
        Some("by key -> 0x40000000 bytes from 0x10000000000")
    );
    assert_eq!(outcomes[6].detail.as_deref(), Some("partition differs"));
    // Four that set or add, one new connection, two removed, one of these created again.
    assert_eq!(kernel.changes, 8);
    assert!(differences(&new, &kernel.snapshot()).is_empty());
}

/// Whichever request the kernel refuses: either nothing is changed, or what is told is what is, and
/// the same again goes on.
#[test]
fn refusal_at_every_step_is_undone_or_told_and_resumed() {
    let (old, new) = old_and_new();
    let before = configured(&old);
    let mut partial = 0;
    for refuses in 1..=8 {
        let mut kernel = Fake {
            changes: 0,
            refuses: Some(refuses),
            ..before.clone()
        };
        let first = plan(&new, Some(&old), &kernel.snapshot());
        let failure = apply(&mut kernel, first).unwrap_err();
        assert_eq!(failure.error.to_string(), "no memory");
        let failed = actions(&failure.outcomes);
        let failed: Vec<_> = failed
            .iter()
            .filter(|outcome| outcome.1 == Action::Failed)
            .collect();
        assert_eq!(failed.len(), 1, "{refuses}");
        assert_eq!(failed[0].0, failure.object.to_string());
        if failure.partial {
            partial += 1;
            for outcome in &failure.outcomes {
                let Object::Connection(cid) = outcome.object else {
                    continue;
                };
                let is = kernel.conns.contains_key(&cid);
                let told = match outcome.action {
                    Action::Created | Action::Replaced | Action::Unchanged => Some(true),
                    Action::Removed => Some(false),
                    _ => None,
                };
                assert!(told.is_none_or(|told| told == is), "{refuses}: {outcome:?}");
            }
        } else {
            assert_eq!(kernel.text(), before.text(), "{refuses}");
        }
        kernel.refuses = None;
        let rest = plan(&new, Some(&new), &kernel.snapshot());
        apply(&mut kernel, rest).unwrap();
        assert!(
            differences(&new, &kernel.snapshot()).is_empty(),
            "{refuses}"
        );
    }
    // Only what comes after the first removal.
    assert_eq!(partial, 2);
}

#[test]
fn undoing_that_fails_is_a_part_changed() {
    let (old, new) = old_and_new();
    let mut kernel = Fake {
        changes: 0,
        ..configured(&old)
    };
    /// Refuses from the second change on.
    struct Dead(Fake);
    impl Kernel for Dead {
        fn set_param(&mut self, name: &str, value: u64) -> Result<(), Error> {
            self.0.refuses = (self.0.changes > 0).then_some(self.0.changes + 1);
            self.0.set_param(name, value)
        }
        fn set_manager(&mut self, _: Option<IpAddr>) -> Result<(), Error> {
            self.0.refuses = Some(self.0.changes + 1);
            self.0.change()
        }
        fn set_rma_space(&mut self, _: Option<RmaSpace>) -> Result<(), Error> {
            unreachable!()
        }
        fn add_port(&mut self, _: u32, _: PortEncap) -> Result<(), Error> {
            unreachable!()
        }
        fn del_port(&mut self, _: u32) -> Result<(), Error> {
            unreachable!()
        }
        fn add_conn(&mut self, _: &ConnSpec) -> Result<(), Error> {
            unreachable!()
        }
        fn del_conn(&mut self, _: u16) -> Result<(), Error> {
            unreachable!()
        }
    }
    let steps = plan(&new, Some(&old), &kernel.snapshot());
    let mut dead = Dead(kernel.clone());
    let failure = apply(&mut dead, steps).unwrap_err();
    assert!(failure.partial);
    assert_eq!(failure.object, Object::Manager);
    kernel = dead.0;
    assert_eq!(kernel.param("pdl_conns_per_xpu"), 9);
}

#[test]
fn what_ends_found_out_about_extensions_is_no_difference() {
    let choices = [Extensions::Off, Extensions::On, Extensions::Auto];
    for (given, wanted) in choices.iter().flat_map(|a| choices.map(|b| (*a, b))) {
        let with = |ext: Extensions| {
            let mut conn = conn(1);
            conn["ext"] = json!(ext);
            configuration(&[conn])
        };
        for peer_ext in [false, true] {
            let kernel = Fake {
                peer_ext,
                ..configured(&with(given))
            };
            let told = differences(&with(wanted), &kernel.snapshot());
            let differs = ["connection 1 is not as configured: ext differs"];
            let expected = &differs[..usize::from(given != wanted)];
            assert_eq!(told, expected, "{given:?}, {wanted:?}, {peer_ext}");
        }
    }
}

#[test]
fn running_connections_follow_the_parameters_of_the_node() {
    let old = configuration(&[conn(1)]);
    let kernel = configured(&old);
    let mut new = old.clone();
    new.node.parameters.insert("pdl_window_size".into(), 64);
    let told = differences(&new, &kernel.snapshot());
    let expected = [
        "parameter pdl_window_size is not as configured: 32 -> 64",
        "connection 1 is not as configured: pdl_window_size 32 -> 64",
    ];
    assert_eq!(told, expected);
}

#[test]
fn what_only_changes_while_unused_makes_everything_anew() {
    let old = configuration(&[conn(1)]);
    let mut kernel = configured(&old);
    let mut new = old.clone();
    new.node.parameters.insert("nh_udp_port".into(), 8888);
    let plan = plan(&new, Some(&old), &kernel.snapshot());
    let outcomes = apply(&mut kernel, plan).unwrap();
    let replaced = outcomes
        .iter()
        .filter(|outcome| outcome.action == Action::Replaced)
        .count();
    assert_eq!(replaced, 2, "{outcomes:?}");
    assert!(differences(&new, &kernel.snapshot()).is_empty());
}

#[test]
fn kernel_that_was_started_anew_is_configured_again() {
    let old = configuration(&[conn(1)]);
    let mut kernel = Fake::default();
    let told = differences(&old, &kernel.snapshot());
    assert_eq!(told, ["port eth1 is missing", "connection 1 is missing"]);
    let plan = plan(&old, Some(&old), &kernel.snapshot());
    apply(&mut kernel, plan).unwrap();
    assert!(differences(&old, &kernel.snapshot()).is_empty());
}

#[test]
fn space_of_rma_addresses_is_set_moved_and_taken_back() {
    let mut old = configuration(&[conn(1)]);
    let end = RmaSpace {
        base: u64::MAX << 40,
        size: 1 << 40,
    };
    let mut kernel = Fake::default();
    let spaces = [(1 << 40, 1 << 30), (1 << 41, 1 << 30), (1 << 41, 1 << 12)];
    let spaces = spaces.map(|(base, size)| Some(RmaSpace { base, size }));
    for rma in spaces.into_iter().chain([Some(end), None, None]) {
        let mut new = old.clone();
        new.node.rma = rma;
        assert_eq!(faults(&new, &kernel.snapshot()), []);
        let plan = plan(&new, Some(&old), &kernel.snapshot());
        apply(&mut kernel, plan).unwrap();
        assert_eq!(kernel.snapshot().rma_space(), rma);
        assert_eq!(differences(&new, &kernel.snapshot()), [""; 0]);
        old = new;
    }
    // Somebody else has set it: a new configuration, and the same again, take it back.
    kernel.rma = (1 << 40, 0);
    let told = differences(&old, &kernel.snapshot());
    let expected = "space of RMA addresses is not as configured: 0xffffff0000000000 bytes from \
                    0x10000000000 -> by key";
    assert_eq!(told, [expected]);
}

#[test]
fn space_of_rma_addresses_that_cannot_be_is_told_with_its_place() {
    let page = rustix::param::page_size() as u64;
    let kernel = Fake::default().snapshot();
    for (base, size, places) in [
        (page, page, &[][..]),
        (0, page, &["base"]),
        (page, 0, &["size"]),
        (page + 8, page, &["base"]),
        (page, page - 1, &["size"]),
        (page / 2, page / 2, &["base", "size"]),
        (u64::MAX - page + 1, page, &[]),
        (u64::MAX - page + 1, 2 * page, &["size"]),
    ] {
        let mut config = configuration(&[]);
        config.node.rma = Some(RmaSpace { base, size });
        let found = faults(&config, &kernel);
        let found: Vec<_> = found
            .iter()
            .map(|fault| &fault.pointer["/configuration/node/rma/".len()..])
            .collect();
        assert_eq!(found, places, "{base:#x} {size:#x}");
    }
}

#[test]
fn every_mistake_is_told_with_its_place() {
    let with = |member: &str, value: serde_json::Value| {
        let mut wrong = conn(1);
        wrong[member] = value;
        configuration(&[wrong])
    };
    let cases = [
        ("encap", json!("udp6"), "peer"),
        ("peer", json!("0.0.0.0"), "peer"),
        ("local", json!("fd23::1"), "local"),
        ("device", json!("eth2"), "device"),
        ("lladdr", json!("zz"), "lladdr"),
        ("spray", json!(true), "spray"),
        ("partition", json!(9), "partition"),
        ("hop_limit", json!(16), "hop_limit"),
        ("flow_label", json!(0x1000), "flow_label"),
        ("mtu", json!(100), "mtu"),
        (
            "parameters",
            json!({ "pdl_window_size": 8 }),
            "parameters/pdl_window_size",
        ),
        (
            "parameters",
            json!({ "nh_udp_port": 8 }),
            "parameters/nh_udp_port",
        ),
        (
            "parameters",
            json!({ "nh_udp_prot": 8 }),
            "parameters/nh_udp_prot",
        ),
    ];
    let kernel = Fake::default().snapshot();
    for (member, value, place) in cases {
        let found = faults(&with(member, value), &kernel);
        let places: Vec<_> = found.iter().map(|fault| fault.pointer.as_str()).collect();
        assert_eq!(
            places,
            [format!("/configuration/connections/0/{place}")],
            "{member}"
        );
    }
    let found = faults(&with("lite", json!(true)), &kernel);
    assert_eq!(found.len(), 2, "{found:?}");

    let five: Vec<_> = (1..=5).map(conn).collect();
    let found = faults(&configuration(&five), &kernel);
    assert!(found[0].detail.contains("pdl_conns_per_xpu"), "{found:?}");
    let mut twice = configuration(&[conn(1), conn(1)]);
    twice.ports.push(twice.ports[0].clone());
    twice.generation = 0;
    twice.fabric.clear();
    let found = faults(&twice, &kernel);
    let places: Vec<_> = found
        .iter()
        .map(|fault| &fault.pointer["/configuration/".len()..])
        .collect();
    let expected = [
        "fabric",
        "generation",
        "ports/1/device",
        "connections/1/cid",
        "connections/1/peer_cid",
        "connections/0/device",
        "connections/1/device",
    ];
    for place in expected {
        assert!(places.contains(&place), "{place} of {places:?}");
    }
    assert_eq!(places.len(), expected.len());

    // As large as the document says: int64.
    for (generation, count) in [(1 << 63, 1), ((1 << 63) - 1, 0)] {
        let mut large = configuration(&[conn(1)]);
        large.generation = generation;
        let found = faults(&large, &kernel);
        assert_eq!(found.len(), count, "{generation}: {found:?}");
    }
}
