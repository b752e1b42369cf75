// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Fabric files, right and wrong.

use super::*;

const GOOD: &str = r#"
fabric = "lab"
broken = "restart"

[parameters]
pdl_dead_time = 2_000_000_000

[[nodes]]
hosts = "xpu[01-04]"
agent = "10.0.0.{n}:7779"
address = "10.23.0.{n}"
ports = [{ dev = "eth0" }, { dev = "eth1", encap = ["udp"] }]

[[connections]]
mesh = "xpu[01-04]"
encap = "sunh"
ext = true
window = 256

[[connections]]
ring = "xpu[01-04]"
encap = "udp"
order = "unordered"
spray = true
partition = 7

[[connections]]
pairs = [["xpu04", "xpu01"]]
encap = "udp"
tclass = 8
parameters = { tal_trans_window = 64, pdl_dead_time = 1_000_000_000 }
"#;

fn told(text: &str) -> String {
    match read(text) {
        Ok(_) => "no mistake".into(),
        Err(mistakes) => show("f.toml", text, &mistakes),
    }
}

/// The file with one text in place of another, and what is told of it.
fn changed(from: &str, to: &str) -> String {
    assert_eq!(GOOD.matches(from).count(), 1, "{from}");
    told(&GOOD.replace(from, to))
}

#[test]
fn file_without_mistakes_is_the_fabric() {
    let fabric = read(GOOD).unwrap();
    assert_eq!(
        (fabric.name.as_str(), fabric.broken),
        ("lab", OnBroken::Restart)
    );
    assert_eq!(fabric.nodes.len(), 4);
    let node = &fabric.nodes["xpu03"];
    assert_eq!(node.agent, "10.0.0.3:7779");
    assert_eq!(node.address.to_string(), "10.23.0.3");
    assert!(node.ports[0].sunh && node.ports[0].udp && !node.ports[1].sunh);
    // A mesh of four, a ring of four, and one pair.
    assert_eq!(fabric.links.len(), 6 + 4 + 1);
    let mesh = &fabric.links[0].settings;
    assert_eq!(
        (mesh.encap, mesh.ext, mesh.ordered),
        (Encap::Sunh, true, true)
    );
    assert_eq!(mesh.params["pdl_window_size"], 256);
    assert_eq!(mesh.params["pdl_dead_time"], 2_000_000_000);
    let ring = &fabric.links[9];
    assert_eq!((ring.a.as_str(), ring.b.as_str()), ("xpu01", "xpu04"));
    assert_eq!((ring.settings.partition, ring.settings.spray), (7, true));
    let pair = &fabric.links[10];
    assert_eq!((pair.a.as_str(), pair.b.as_str()), ("xpu01", "xpu04"));
    assert_eq!(pair.settings.params["pdl_dead_time"], 1_000_000_000);
    assert_eq!(pair.settings.encap, Encap::Udp4);
}

#[test]
fn ring_of_two_is_one_connection() {
    let text = GOOD.replace("ring = \"xpu[01-04]\"", "ring = \"xpu01,xpu02\"");
    assert_eq!(read(&text).unwrap().links.len(), 6 + 1 + 1);
}

#[test]
fn quarantine_is_that_of_the_protocol() {
    let fabric = read(GOOD).unwrap();
    let long = fabric.links[0].settings.quarantine_ms();
    let short = fabric.links[10].settings.quarantine_ms();
    assert_eq!(long - short, 1000, "the dead times differ by a second");
}

#[test]
fn mistake_is_told_with_place_line_and_remedy() {
    assert_eq!(
        changed("hosts = \"xpu[01-04]\"", "hosts = \"xpu[01-04\""),
        r#"f.toml:9:9: "xpu[01-04" has a "[" without a "]"
  9 | hosts = "xpu[01-04"
    |         ^^^^^^^^^^^
    = write a range as xpu[01-64]
"#
    );
}

#[test]
fn every_mistake_is_told_and_nothing_is_used() {
    let text = GOOD
        .replace("pdl_dead_time = 2_000_000_000", "pdl_ded_time = 5")
        .replace(
            "\"eth1\", encap = [\"udp\"]",
            "\"eth1\", encap = [\"roce\"]",
        )
        .replace("window = 256", "window = 7");
    let text = told(&text);
    let places: Vec<_> = text
        .lines()
        .filter(|line| line.starts_with("f.toml"))
        .collect();
    assert_eq!(
        places,
        [
            "f.toml:6:1: there is no parameter pdl_ded_time",
            "f.toml:12:53: a port cannot receive \"roce\"",
            "f.toml:18:10: window 7 is outside 16..1024",
        ]
    );
    assert!(text.contains("= did you mean pdl_dead_time?"), "{text}");
}

#[test]
fn each_mistake_has_its_message() {
    for (from, to, place_and_cause, remedy) in [
        (
            "fabric = \"lab\"",
            "fabric = \"\"",
            "f.toml:2:10: the fabric has no name",
            "give it one, as in fabric = \"lab\"",
        ),
        (
            "fabric = \"lab\"",
            "fabrik = \"lab\"",
            "f.toml:2:1: unknown field `fabrik`, expected one of `fabric`, `broken`, `parameters`, `nodes`, `connections`",
            "use one of the names above, or leave it out",
        ),
        (
            "fabric = \"lab\"",
            "fabric = \"lab",
            "f.toml:2:14: invalid basic string, expected `\"`",
            "the file is TOML, see https://toml.io; texts stand in double quotes",
        ),
        (
            "fabric = \"lab\"",
            "fabric = 7",
            "f.toml:2:10: invalid type: integer `7`, expected a string",
            "write a value of the kind that is expected",
        ),
        (
            "broken = \"restart\"",
            "broken = \"reboot\"",
            "f.toml:3:10: broken = \"reboot\" means nothing",
            "write \"restart\", \"stop\" or \"shutdown\"",
        ),
        (
            "pdl_dead_time = 2_000_000_000",
            "pdl_dead_time = 7",
            "f.toml:6:17: pdl_dead_time 7 is outside 1000000..18446744073709551615",
            "write 1000000 or more (ns)",
        ),
        (
            "pdl_dead_time = 2_000_000_000",
            "pdl_conns_per_xpu = 4",
            "f.toml:27:1: xpu01 has 6 connections, and pdl_conns_per_xpu allows 4",
            "add pdl_conns_per_xpu = 6 to the table [parameters] of the fabric",
        ),
        (
            "agent = \"10.0.0.{n}:7779\"",
            "agent = \"10.0.0.{n}\"",
            "f.toml:10:9: \"10.0.0.1\" is not the place of an agent",
            "write host and port, as in 10.0.0.{n}:7779 or [fd00::{n}]:7779",
        ),
        (
            "agent = \"10.0.0.{n}:7779\"",
            "agent = \"10.0.0.1:7779\"",
            "f.toml:10:9: xpu01 and xpu02 have the same agent 10.0.0.1:7779",
            "give each node its own, for example with {n}, the number of the host",
        ),
        (
            "address = \"10.23.0.{n}\"",
            "address = \"10.23.0.9\"",
            "f.toml:11:11: xpu01 and xpu02 have the same address 10.23.0.9",
            "give each node its own, for example with {n}, the number of the host",
        ),
        (
            "address = \"10.23.0.{n}\"",
            "address = \"10.23.0.{n+254}\"",
            "f.toml:11:11: \"10.23.0.256\" is not an IP address",
            "write one, as in 10.23.0.{n} or fd23::{n}; numbers of IPv4 end at 255",
        ),
        (
            "address = \"10.23.0.{n}\"",
            "address = \"10.{n}.0.1\"",
            "f.toml:11:11: xpu01 and xpu02 have the same SUNH address 1, the low 12 bits of their addresses",
            "choose addresses that differ there, a larger nh_num_caddr_bits, or ports with encap = [\"udp\"]",
        ),
        (
            "ports = [{ dev = \"eth0\" }, { dev = \"eth1\", encap = [\"udp\"] }]",
            "ports = []",
            "f.toml:12:9: the nodes have no port",
            "name a device, as in ports = [{ dev = \"eth0\" }]",
        ),
        (
            "dev = \"eth1\"",
            "dev = \"eth0\"",
            "f.toml:12:36: the port eth0 is named twice",
            "name it once",
        ),
        (
            "dev = \"eth1\"",
            "dev = \"a/b\"",
            "f.toml:12:36: \"a/b\" is not the name of a device",
            "a name is 1 to 15 characters, as \"ip link\" shows it",
        ),
        (
            "mesh = \"xpu[01-04]\"",
            "mesh = \"xpu[01-05]\"",
            "f.toml:15:8: there is no node xpu05",
            "describe it in a table [[nodes]], or leave it out here",
        ),
        (
            "mesh = \"xpu[01-04]\"",
            "mesh = \"xpu01\"",
            "f.toml:15:8: one node alone has nobody to be connected to",
            "name two nodes or more",
        ),
        (
            "encap = \"sunh\"",
            "encap = \"roce\"",
            "f.toml:16:9: encap = \"roce\" means nothing",
            "write \"sunh\", \"udp\", \"udp4\" or \"udp6\"",
        ),
        (
            "encap = \"sunh\"",
            "encap = \"udp6\"",
            "f.toml:16:9: xpu01 has the address 10.23.0.1, which udp6 cannot reach here",
            "write encap = \"udp\" and addresses of one family, or \"sunh\"",
        ),
        (
            "dev = \"eth0\"",
            "dev = \"eth0\", encap = [\"udp\"]",
            "f.toml:16:9: no port of xpu01 receives sunh",
            "add it to encap of the port, or choose another encap",
        ),
        (
            "ext = true",
            "ext = \"yes\"",
            "f.toml:17:7: invalid type: string \"yes\", expected a boolean",
            "write a value of the kind that is expected",
        ),
        (
            "order = \"unordered\"",
            "order = \"ordered\"",
            "f.toml:24:9: packets that are sprayed do not arrive in order",
            "add order = \"unordered\", or leave spray out",
        ),
        (
            "order = \"unordered\"",
            "order = \"random\"",
            "f.toml:23:9: order = \"random\" means nothing",
            "write \"ordered\" or \"unordered\"",
        ),
        (
            "ring = \"xpu[01-04]\"",
            "ring = \"xpu[01-04]\"\nmesh = \"xpu[01-04]\"",
            "f.toml:20:1: connections are a mesh, a ring, or pairs",
            "write one of mesh = \"xpu[01-04]\", ring = \"xpu[01-04]\" and pairs = [[\"xpu01\", \"xpu02\"]]",
        ),
        (
            "[[\"xpu04\", \"xpu01\"]]",
            "[[\"xpu04\", \"xpu04\"]]",
            "f.toml:28:10: xpu04 cannot be connected to itself",
            "name two different nodes",
        ),
        (
            "[[\"xpu04\", \"xpu01\"]]",
            "[[\"xpu04\", \"xpu01\", \"xpu02\"]]",
            "f.toml:28:10: a pair has two nodes, not 3",
            "write [\"xpu01\", \"xpu02\"]",
        ),
        (
            "[[\"xpu04\", \"xpu01\"]]",
            "[[\"xpu04\", \"xpu01\"], [\"xpu01\", \"xpu04\"]]",
            "f.toml:28:30: xpu01 and xpu04 are connected twice in the same way",
            "leave one out, or let them differ, for example by partition",
        ),
        (
            "tclass = 8",
            "tclass = 256",
            "f.toml:30:10: invalid value: integer `256`, expected u8",
            "write a value of the kind that is expected",
        ),
        (
            "tclass = 8",
            "hop_limit = 0",
            "f.toml:30:13: hop_limit 0 is outside 1..255 for udp",
            "write 1 to 255, or leave it out",
        ),
        (
            "tclass = 8",
            "mtu = 100",
            "f.toml:30:7: mtu 100 is outside 128..65535",
            "write 128 to 65535 bytes",
        ),
        (
            "tal_trans_window = 64",
            "nh_udp_port = 64",
            "f.toml:31:16: nh_udp_port is a parameter of nodes, not of connections",
            "set it in the table [parameters] of the fabric",
        ),
    ] {
        let text = changed(from, to);
        let mut lines = text.lines();
        assert_eq!(lines.next().unwrap_or(""), place_and_cause);
        let last = lines.last().unwrap_or("");
        assert_eq!(last.split_once("= ").map_or("", |(_, text)| text), remedy, "{text}");
    }
}
