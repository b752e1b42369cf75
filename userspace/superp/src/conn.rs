// SPDX-License-Identifier: GPL-2.0 OR MIT
//! `superp conn`.

mod args;

pub(crate) use args::ConnVerb;

use crate::dev;
use crate::doctor;
use crate::failure::Failure;
use crate::host;
use crate::out::{self, Out, Table};
use crate::words::{once, pairs, small, switch, value};
use serde_json::json;
use std::net::IpAddr;
use superp_netlink::{
    Client, Conn, ConnSpec, ConnState, Counters, Encap, Mac, Path, PathSpec, PortState,
};
use superp_units::quantity;

pub(crate) fn run(verb: Option<ConnVerb>, out: &mut Out) -> Result<(), Failure> {
    let mut client = Client::open()?;
    let all = ConnVerb::Show {
        cid: None,
        stats: false,
    };
    match verb.unwrap_or(all) {
        ConnVerb::Show {
            cid: Some(cid),
            stats,
        } => {
            let conn = client.conn(cid, stats).map_err(of(cid))?;
            out.either(&[&conn], |out| one(&conn, out))
        }
        ConnVerb::Show { cid: None, stats } => {
            let conns = client.conns(stats)?;
            out.either(&conns, |out| table(&conns, out))
        }
        ConnVerb::Add { settings } => {
            let spec = spec(&settings, |name| Ok(client.param(name)?.unit))?;
            let added = client.add_conn(&spec).map_err(Failure::from);
            let cid = added.map_err(|failure| match spec.local_cid {
                Some(cid) => failure.at(format_args!("connection {cid}")),
                None => failure,
            })?;
            out.either(&json!({ "local-cid": cid }), |out| match spec.local_cid {
                Some(_) => Ok(()),
                None => out.line(cid),
            })
        }
        ConnVerb::Del { cid } => each(&cid, out, |cid| client.del_conn(cid).map_err(of(cid))),
        ConnVerb::Start { cid } => each(&cid, out, |cid| start(&mut client, cid)),
        ConnVerb::Stop { cid } => each(&cid, out, |cid| client.stop_conn(cid).map_err(of(cid))),
        ConnVerb::Reset { words } => {
            let reset = reset(&words)?;
            each(&reset.cids, out, |cid| {
                let reset = client.reset_conn(cid, reset.psn, reset.xid);
                reset.map_err(of(cid))
            })
        }
    }
}

/// A failure that says of which connection it tells.
fn of(cid: u16) -> impl FnOnce(superp_netlink::Error) -> Failure {
    move |error| Failure::from(error).at(format_args!("connection {cid}"))
}

fn start(client: &mut Client, cid: u16) -> Result<(), Failure> {
    let Err(error) = client.start_conn(cid) else {
        return Ok(());
    };
    let failure = of(cid)(error);
    Err(match client.conn(cid, false) {
        Ok(conn) if matches!(conn.state, ConnState::Broken | ConnState::Stopped) => {
            failure.hint(doctor::again(&conn))
        }
        _ => failure,
    })
}

fn each(
    cids: &[u16],
    out: &mut Out,
    mut act: impl FnMut(u16) -> Result<(), Failure>,
) -> Result<(), Failure> {
    for cid in cids {
        act(*cid)?;
    }
    out.done(&json!({ "local-cid": cids }))
}

/// A reset of connections, and their start values.
#[derive(Debug, PartialEq)]
struct Reset {
    cids: Vec<u16>,
    psn: Option<u32>,
    xid: Option<u16>,
}

/// What the words of `conn reset` ask for.
fn reset(words: &[String]) -> Result<Reset, Failure> {
    let is_cid = |word: &String| word.starts_with(|c: char| c.is_ascii_digit());
    let count = words.iter().take_while(|word| is_cid(word)).count();
    let (cids, settings) = words.split_at(count);
    let cids = cids.iter().map(|cid| small("connection id", cid));
    let cids: Vec<u16> = cids.collect::<Result<_, _>>()?;
    let (mut psn, mut xid) = (None, None);
    let settings = pairs(settings)?;
    once(&settings, "", &[])?;
    for (key, text) in settings {
        match key {
            "start-psn" => psn = Some(small(key, text)?),
            "start-xid" => xid = Some(small(key, text)?),
            _ => {
                let text = format!("{key}: not a setting of a reset");
                return Err(Failure::new(text).hint("superp conn reset --help lists them"));
            }
        }
    }
    if cids.is_empty() {
        return Err(Failure::new("the connection id is missing"));
    }
    Ok(Reset { cids, psn, xid })
}

/// Settings of a path, behind "path" its own.
const OF_PATH: [&str; 3] = ["peer", "local", "lladdr"];

/// Whether the addresses of a connection are those of IPv6, where its settings say so.
fn is_v6(settings: &[(&str, &str)]) -> Option<bool> {
    let said = |(key, text): &(&str, &str)| match (*key, *text) {
        ("encap", "udp4") => Some(false),
        ("encap", "udp6") => Some(true),
        ("peer" | "local", text) => text.parse().ok().map(|addr: IpAddr| addr.is_ipv6()),
        _ => None,
    };
    settings.iter().find_map(said)
}

/// The address of a host that suits.
fn address(key: &str, text: &str, v6: Option<bool>) -> Result<IpAddr, Failure> {
    let found = host::addresses(text).map_err(|error| format!("{key} {error}"))?;
    let suits = |addr: &&IpAddr| v6.is_none_or(|v6| addr.is_ipv6() == v6);
    // The kernel tells what it has against another one.
    Ok(*found.iter().find(suits).unwrap_or(&found[0]))
}

/// Gives the connection a parameter.
fn set(spec: &mut ConnSpec, name: &str, value: u64) -> Result<(), Failure> {
    if spec.params.iter().any(|(other, _)| other == name) {
        let text = format!("{name} is given twice: once as window");
        return Err(Failure::new(text));
    }
    spec.params.push((name.into(), value));
    Ok(())
}

/// What the words of `conn add` ask for; `unit` tells in which unit a parameter is counted.
fn spec(
    words: &[String],
    mut unit: impl FnMut(&str) -> Result<String, Failure>,
) -> Result<ConnSpec, Failure> {
    let (local_cid, settings) = match words.split_first() {
        Some((first, rest)) if first.starts_with(|c: char| c.is_ascii_digit()) => {
            (Some(small("connection id", first)?), rest)
        }
        _ => (None, words),
    };
    let (mut peer_cid, mut encap) = (None, "sunh");
    let mut spec = ConnSpec {
        local_cid,
        remote_cid: 0,
        encap: Encap::Sunh,
        ifindex: None,
        local_addr: None,
        remote_addr: None,
        lladdr: None,
        paths: Vec::new(),
        ordered_tx: None,
        spray: None,
        ordered_rx: None,
        ext: None,
        lite: None,
        partition: None,
        tclass: None,
        hop_limit: None,
        flow_label: None,
        mtu: None,
        start_psn: None,
        start_xid: None,
        params: Vec::new(),
    };
    let settings = pairs(settings)?;
    once(&settings, "path", &OF_PATH)?;
    let v6 = is_v6(&settings);
    for (key, text) in settings {
        match key {
            "peer" | "local" => {
                let addr = Some(address(key, text, v6)?);
                let (local, peer) = match spec.paths.last_mut() {
                    Some(path) => (&mut path.local_addr, &mut path.remote_addr),
                    None => (&mut spec.local_addr, &mut spec.remote_addr),
                };
                *(if key == "peer" { peer } else { local }) = addr;
            }
            "peer-cid" => peer_cid = Some(small(key, text)?),
            "encap" => encap = text,
            "dev" => spec.ifindex = Some(dev::index(text)?),
            "lladdr" => {
                let mac = Some(value::<Mac>(key, text, "an Ethernet address")?);
                match spec.paths.last_mut() {
                    Some(path) => path.lladdr = mac,
                    None => spec.lladdr = mac,
                }
            }
            "path" => spec.paths.push(PathSpec {
                ifindex: dev::index(text)?,
                local_addr: None,
                remote_addr: None,
                lladdr: None,
            }),
            "ext" if text == "auto" => spec.ext = None,
            "ext" => {
                spec.ext = Some(
                    switch(key, text).map_err(|_| format!("{key} {text}: not on, off or auto"))?,
                )
            }
            "lite" => spec.lite = Some(switch(key, text)?),
            "ordered" => {
                spec.ordered_tx = Some(switch(key, text)?);
                spec.ordered_rx = spec.ordered_tx;
            }
            "spray" => spec.spray = Some(switch(key, text)?),
            "ordered-tx" => spec.ordered_tx = Some(switch(key, text)?),
            "ordered-rx" => spec.ordered_rx = Some(switch(key, text)?),
            "partition" => spec.partition = Some(small(key, text)?),
            "tclass" => spec.tclass = Some(small(key, text)?),
            "hop-limit" => spec.hop_limit = Some(small(key, text)?),
            "flow-label" => spec.flow_label = Some(small(key, text)?),
            "mtu" => spec.mtu = Some(small(key, text)?),
            "start-psn" => spec.start_psn = Some(small(key, text)?),
            "start-xid" => spec.start_xid = Some(small(key, text)?),
            "window" => set(&mut spec, "pdl_window_size", small(key, text)?)?,
            name if name.contains('_') => {
                let value = quantity(name, text, &unit(name)?)?;
                set(&mut spec, name, value)?;
            }
            _ => {
                let text = format!("{key}: not a setting of a connection");
                return Err(Failure::new(text).hint("superp conn add --help lists them"));
            }
        }
    }
    if !spec.paths.is_empty() && (spec.ifindex.is_some() || spec.lladdr.is_some()) {
        let text = "dev and lladdr before path: each path has its own";
        return Err(Failure::new(text).hint("path DEV [peer ADDRESS] [local ADDRESS] [lladdr MAC]"));
    }
    let of_first = spec.paths.first().and_then(|path| path.remote_addr);
    let peer = of_first.or(spec.remote_addr);
    let peer = peer.ok_or_else(|| Failure::new("peer ADDRESS is missing"))?;
    spec.remote_cid = match peer_cid {
        None if spec.lite == Some(true) => 0,
        cid => cid.ok_or_else(|| Failure::new("peer-cid ID is missing"))?,
    };
    spec.encap = match (encap, peer) {
        ("sunh", _) => Encap::Sunh,
        ("udp4", _) | ("udp", IpAddr::V4(_)) => Encap::Udp4,
        ("udp6", _) | ("udp", IpAddr::V6(_)) => Encap::Udp6,
        _ => {
            let text = format!("encap {encap}: not sunh, udp, udp4 or udp6");
            return Err(Failure::new(text));
        }
    };
    Ok(spec)
}

fn table(conns: &[Conn], out: &mut Out) -> Result<(), Failure> {
    let mut table = Table::new(&[
        ">CID",
        "STATE",
        "ENCAP",
        "DEV",
        "LOCAL",
        "PEER",
        ">PEER-CID",
        ">MTU",
        "FLAGS",
    ]);
    for conn in conns {
        table.row([
            conn.local_cid.to_string(),
            state(conn),
            conn.encap.to_string(),
            devices(&conn.paths),
            conn.local_addr.to_string(),
            conn.remote_addr.to_string(),
            conn.remote_cid.to_string(),
            conn.mtu.to_string(),
            flags(conn),
        ]);
    }
    table.print(out, "no connections")?;
    for conn in conns {
        if let Some(stats) = &conn.stats {
            out.line(format_args!("\nconnection {}", conn.local_cid))?;
            let counted = stats.0.iter().filter(|(_, value)| *value != 0);
            counters(&Counters(counted.cloned().collect()), out)?;
        }
    }
    Ok(())
}

/// The devices of the paths, those that are down in brackets.
fn devices(paths: &[Path]) -> String {
    let name = |path: &Path| {
        let name = match (&path.ifname, path.ifindex) {
            (Some(name), _) => name.clone(),
            (None, Some(index)) => index.to_string(),
            (None, None) => "-".into(),
        };
        match path.state {
            PortState::Up => name,
            PortState::Down => format!("({name})"),
        }
    };
    paths.iter().map(name).collect::<Vec<_>>().join(",")
}

/// What packets are like.
fn packets(conn: &Conn) -> String {
    let text = format!("{}, mtu {}", conn.encap, conn.mtu);
    match conn.path_mtu < conn.mtu {
        true => format!("{text}, {} by the path", conn.path_mtu),
        false => text,
    }
}

/// The state, in which a connection that waits for its peer's first packet is told from one that has one.
fn state(conn: &Conn) -> String {
    match conn.connecting() {
        true => "connecting".into(),
        false => conn.state.to_string(),
    }
}

fn flags(conn: &Conn) -> String {
    let ordered = match (conn.ordered_tx, conn.ordered_rx) {
        (true, true) => "ordered",
        (true, false) => "ordered-tx",
        (false, true) => "ordered-rx",
        (false, false) => "unordered",
    };
    let mut flags = vec![ordered];
    if conn.spray {
        flags.push("spray");
    }
    if conn.ext {
        flags.push("ext");
    }
    if conn.lite {
        flags.push("lite");
    }
    flags.join(",")
}

/// The first numbers of its life, which only administrators are told.
fn first_numbers(conn: &Conn) -> String {
    match (conn.start_psn, conn.start_xid) {
        (Some(psn), Some(xid)) => format!("psn {psn} xid {xid}"),
        _ => "shown to administrators".to_owned(),
    }
}

fn one(conn: &Conn, out: &mut Out) -> Result<(), Failure> {
    let cause = conn
        .cause
        .as_deref()
        .map_or(String::new(), |cause| format!(": {cause}"));
    for (name, value) in [
        ("connection", conn.local_cid.to_string()),
        ("state", format!("{}{cause}", state(conn))),
        (
            "peer",
            format!("{} cid {}", conn.remote_addr, conn.remote_cid),
        ),
        ("local", conn.local_addr.to_string()),
        ("packets", packets(conn)),
        ("flags", flags(conn)),
        (
            "header",
            format!(
                "tclass {} hop-limit {} flow-label {:#x}",
                conn.tclass, conn.hop_limit, conn.flow_label
            ),
        ),
        ("partition", conn.partition.to_string()),
        ("start", first_numbers(conn)),
    ] {
        out.line(format_args!("{name:11} {value}"))?;
    }
    out.line("paths")?;
    for path in &conn.paths {
        let dev = match (&path.ifname, path.ifindex) {
            (Some(name), _) => name.clone(),
            (None, Some(index)) => format!("{index} (gone)"),
            (None, None) => "by route".into(),
        };
        let mac = path
            .lladdr
            .map_or(String::new(), |mac| format!(" at {mac}"));
        out.line(format_args!(
            "  dev {dev} {}: {} to {}{mac}, {} packets sent, {} received",
            path.state,
            path.local_addr,
            path.remote_addr,
            out::count(path.tx_packets),
            out::count(path.rx_packets)
        ))?;
    }
    out.line("parameters")?;
    for (name, value) in &conn.params.0 {
        out.line(format_args!("  {name:24} {value}"))?;
    }
    match &conn.stats {
        Some(stats) => {
            out.line("counters")?;
            counters(stats, out)
        }
        None => Ok(()),
    }
}

/// Counters, each in the unit that its name says.
fn counters(stats: &Counters, out: &mut Out) -> Result<(), Failure> {
    for (name, value) in &stats.0 {
        let value = if name.ends_with("-ns") {
            out::time(*value)
        } else if name.ends_with("-bytes") {
            format!("{} ({})", out::count(*value), out::bytes(*value))
        } else {
            out::count(*value)
        };
        let name = name.strip_suffix("-ns").unwrap_or(name);
        out.line(format_args!("  {name:24} {value}"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(words: &str) -> Result<ConnSpec, Failure> {
        let words: Vec<String> = words.split_whitespace().map(String::from).collect();
        spec(&words, |name| match name {
            "pdl_dead_time" => Ok("ns".into()),
            "tal_transaction_timeout" => Ok("10 ns".into()),
            _ => Ok("packets".into()),
        })
    }

    #[test]
    fn parameters_that_are_times_take_units() {
        let words = "peer 10.23.0.1 peer-cid 1 pdl_dead_time 2s tal_transaction_timeout 500us";
        assert_eq!(
            parsed(words).unwrap().params,
            [
                ("pdl_dead_time".into(), 2_000_000_000),
                ("tal_transaction_timeout".into(), 50_000)
            ]
        );
    }

    #[test]
    fn addresses_are_of_the_family_that_was_said() {
        let wanted = |words: &str| {
            let words: Vec<String> = words.split(' ').map(String::from).collect();
            is_v6(&pairs(&words).unwrap())
        };
        assert_eq!(wanted("peer host encap udp4"), Some(false));
        assert_eq!(wanted("encap udp peer host local fd00::1"), Some(true));
        assert_eq!(wanted("peer host dev lo encap udp"), None);
    }

    #[test]
    fn connection_with_every_setting() {
        let spec = parsed(
            "64 peer 10.23.0.1 peer-cid 47 encap udp dev lo local 10.23.0.2 ext on ordered off \
             partition 7 tclass 0x2b hop-limit 15 flow-label 0xabc mtu 1484 window 256 start-psn \
             0xffffffff start-xid 65535 pdl_max_rtx 8",
        )
        .unwrap();
        assert_eq!((spec.local_cid, spec.remote_cid), (Some(64), 47));
        assert_eq!(spec.encap, Encap::Udp4);
        assert!(spec.ifindex.is_some());
        assert_eq!(
            (spec.ordered_tx, spec.ordered_rx),
            (Some(false), Some(false))
        );
        assert_eq!(spec.ext, Some(true));
        assert_eq!(spec.tclass, Some(0x2b));
        assert_eq!(spec.flow_label, Some(0xabc));
        assert_eq!(spec.start_psn, Some(u32::MAX));
        assert_eq!(
            spec.params,
            [("pdl_window_size".into(), 256), ("pdl_max_rtx".into(), 8)]
        );
    }

    #[test]
    fn reset_with_and_without_start_values() {
        let parsed = |words: &str| {
            let words: Vec<String> = words.split_whitespace().map(String::from).collect();
            reset(&words).map_err(|failure| format!("{failure:?}"))
        };
        let reset = |cids: &[u16], psn, xid| {
            let cids = cids.to_vec();
            Ok(Reset { cids, psn, xid })
        };
        assert_eq!(parsed("64 65"), reset(&[64, 65], None, None));
        let start = "64 start-psn 0x40000000 start-xid 7";
        assert_eq!(parsed(start), reset(&[64], Some(1 << 30), Some(7)));
        let start = "1 start-xid 65535";
        assert_eq!(parsed(start), reset(&[1], None, Some(u16::MAX)));
        for (words, part) in [
            ("start-psn 1", "id is missing"),
            ("64 start-psn", "start-psn needs a value"),
            ("64 start-psn 4294967296", "4294967296"),
            ("64 start-xid 65536", "65536"),
            ("64 peer 10.23.0.1", "not a setting of a reset"),
            (
                "64 start-psn 1 start-psn 2",
                "start-psn is given twice: 1 and 2",
            ),
        ] {
            let failure = parsed(words).expect_err(words);
            assert!(failure.contains(part), "{words}: {failure}");
        }
    }

    #[test]
    fn connection_with_only_what_is_needed() {
        let spec = parsed("peer fd00::1 peer-cid 1").unwrap();
        assert_eq!(spec.local_cid, None);
        assert_eq!(spec.encap, Encap::Sunh);
        assert_eq!(
            parsed("peer fd00::1 peer-cid 1 encap udp").unwrap().encap,
            Encap::Udp6
        );
    }

    #[test]
    fn words_behind_a_path_are_its_own() {
        let spec = parsed(
            "peer 10.23.0.1 peer-cid 1 local 10.23.0.2 path lo path lo peer 10.24.0.1 \
             local 10.24.0.2 lladdr 02:00:00:00:00:01 ext on",
        )
        .unwrap();
        assert_eq!(spec.remote_addr, "10.23.0.1".parse().ok());
        assert_eq!(spec.ext, Some(true));
        let [first, second] = &spec.paths[..] else {
            panic!("{:?}", spec.paths)
        };
        assert_eq!((first.local_addr, first.remote_addr), (None, None));
        assert_eq!(second.local_addr, "10.24.0.2".parse().ok());
        assert_eq!(second.remote_addr, "10.24.0.1".parse().ok());
        assert!(first.lladdr.is_none() && second.lladdr.is_some());
        let each =
            parsed("peer-cid 1 encap udp path lo peer fd00::1 path lo peer fd01::1").unwrap();
        assert_eq!((each.encap, each.remote_addr), (Encap::Udp6, None));
    }

    #[test]
    fn wrong_words_are_named() {
        for (words, part) in [
            ("64 peer 10.23.0.1", "peer-cid"),
            ("64 peer-cid 3", "peer ADDRESS"),
            ("65536 peer 10.23.0.1 peer-cid 1", "65536"),
            ("peer 10.23 peer-cid 1", "peer 10.23: neither"),
            ("peer 10.23.0.1 peer-cid 1 dev lo path lo", "before path"),
            ("peer-cid 1 path lo", "peer ADDRESS"),
            ("peer 10.23.0.1 peer-cid 1 colour red", "colour"),
            ("peer 10.23.0.1 peer-cid 1 ext maybe", "ext maybe"),
            ("peer 10.23.0.1 peer-cid 1 encap tcp", "encap tcp"),
            ("peer 10.23.0.1 peer-cid 1 hop-limit 256", "hop-limit 256"),
            ("peer 10.23.0.1 peer-cid 1 window many", "many"),
            (
                "peer 10.23.0.1 peer-cid 1 dev lo dev lo",
                "dev is given twice",
            ),
            (
                "peer 10.23.0.1 peer-cid 1 window 16 pdl_window_size 16",
                "given twice",
            ),
            (
                "peer 10.23.0.1 peer-cid 1 pdl_max_rtx 2s",
                "a number of packets",
            ),
            (
                "peer 10.23.0.1 peer-cid 1 dev no-such-device",
                "no-such-device",
            ),
            ("peer 10.23.0.1 peer-cid", "peer-cid needs a value"),
        ] {
            let failure = parsed(words).err().unwrap_or_else(|| panic!("{words}"));
            assert!(
                format!("{failure:?}").contains(part),
                "{words}: {failure:?}"
            );
        }
    }

    #[test]
    fn every_key_is_understood() {
        for (key, _) in args::SETTINGS {
            let words = format!("peer 10.23.0.1 peer-cid 1 {key} ?");
            let failure = format!("{:?}", parsed(&words).unwrap_err());
            assert!(!failure.contains("not a setting"), "{failure}");
        }
    }
}
