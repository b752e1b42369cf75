// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Fabric files, right and wrong.

use super::*;
use superp_control::Extensions;

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
rma = { base = 0x100_0000_0000, size = 0x40_0000_0000 }

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
parameters = { tal_trans_window = 64, pdl_dead_time = "1s" }
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
    let rma = node.rma.unwrap();
    assert_eq!((rma.base, rma.size), (0x1c0_0000_0000, 0x40_0000_0000));
    // A mesh of four, a ring of four, and one pair.
    assert_eq!(fabric.links.len(), 6 + 4 + 1);
    let mesh = &fabric.links[0].settings;
    assert_eq!(
        (mesh.encap, mesh.ext, mesh.ordered),
        (Encap::Sunh, Extensions::On, true)
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
    let long = quarantine_ms(&fabric.links[0].settings);
    let short = quarantine_ms(&fabric.links[10].settings);
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
            "f.toml:19:10: window 7 is outside 16..1024",
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
            "write 1000000 or more (ns), or a time such as \"2s\"",
        ),
        (
            "pdl_dead_time = 2_000_000_000",
            "pdl_dead_time = \"2 weeks\"",
            "f.toml:6:17: pdl_dead_time 2 weeks is not a number of 64 bits (decimal, or 0x and hexadecimal)",
            "write 1000000 or more (ns), or a time such as \"2s\"",
        ),
        (
            "pdl_dead_time = 2_000_000_000",
            "pdl_window_size = \"2s\"",
            "f.toml:6:19: pdl_window_size 2s: the value is a number of packets",
            "write 16 to 1024 packets",
        ),
        (
            "pdl_dead_time = 2_000_000_000",
            "pdl_dead_time = -1",
            "f.toml:6:17: invalid value: integer `-1`, expected a number, or a time such as \"2s\"",
            "write a value of the kind that is expected",
        ),
        (
            "pdl_dead_time = 2_000_000_000",
            "pdl_dead_time = 1.5",
            "f.toml:6:17: invalid type: floating point `1.5`, expected a number, or a time such as \"2s\"",
            "write a value of the kind that is expected",
        ),
        (
            "pdl_dead_time = 2_000_000_000",
            "pdl_conns_per_xpu = 4",
            "f.toml:28:1: xpu01 has 6 connections, and pdl_conns_per_xpu allows 4",
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
            "size = 0x40_0000_0000",
            "size = 0",
            "f.toml:13:40: a range of RMA addresses of 0 bytes is none",
            "write its size, or leave rma out for addresses that begin with keys",
        ),
        (
            "size = 0x40_0000_0000",
            "size = 0x40_0000_0800",
            "f.toml:13:40: the size 0x4000000800 is not a multiple of the page size",
            "write 0x4000000000 or 0x4000001000",
        ),
        (
            "base = 0x100_0000_0000",
            "base = 0x100_0000_0001",
            "f.toml:13:16: the base 0x10000000001 is not a multiple of the page size",
            "write 0x10000000000 or 0x10000001000",
        ),
        (
            "size = 0x40_0000_0000",
            "size = 0x4000_0000_0000_0000",
            "f.toml:13:7: the RMA addresses of xpu03, 0x4000000000000000 bytes from base + 3 * size on, go beyond 2^64",
            "write a smaller size, or a lower base",
        ),
        (
            "size = 0x40_0000_0000",
            "size = 0x8000_0000_0000_0000",
            "f.toml:13:7: the RMA addresses of xpu01, 0x8000000000000000 bytes from base + 1 * size on, go beyond 2^64",
            "write a smaller size, or a lower base",
        ),
        (
            "size = 0x40_0000_0000",
            "lenght = 1",
            "f.toml:13:33: unknown field `lenght`, expected `base` or `size`",
            "use one of the names above, or leave it out",
        ),
        (
            "base = 0x100_0000_0000, ",
            "",
            "f.toml:13:7: missing field `base`",
            "add it to this table",
        ),
        (
            "mesh = \"xpu[01-04]\"",
            "mesh = \"xpu[01-05]\"",
            "f.toml:16:8: there is no node xpu05",
            "describe it in a table [[nodes]], or leave it out here",
        ),
        (
            "mesh = \"xpu[01-04]\"",
            "mesh = \"xpu01\"",
            "f.toml:16:8: one node alone has nobody to be connected to",
            "name two nodes or more",
        ),
        (
            "encap = \"sunh\"",
            "encap = \"roce\"",
            "f.toml:17:9: encap = \"roce\" means nothing",
            "write \"sunh\", \"udp\", \"udp4\" or \"udp6\"",
        ),
        (
            "encap = \"sunh\"",
            "encap = \"udp6\"",
            "f.toml:17:9: xpu01 has the address 10.23.0.1, which udp6 cannot reach here",
            "write encap = \"udp\" and addresses of one family, or \"sunh\"",
        ),
        (
            "dev = \"eth0\"",
            "dev = \"eth0\", encap = [\"udp\"]",
            "f.toml:17:9: no port of xpu01 receives sunh",
            "add it to encap of the port, or choose another encap",
        ),
        (
            "ext = true",
            "ext = \"yes\"",
            "f.toml:18:7: invalid value: string \"yes\", expected true, false or \"auto\"",
            "write a value of the kind that is expected",
        ),
        (
            "order = \"unordered\"",
            "order = \"ordered\"",
            "f.toml:25:9: packets that are sprayed do not arrive in order",
            "add order = \"unordered\", or leave spray out",
        ),
        (
            "order = \"unordered\"",
            "order = \"random\"",
            "f.toml:24:9: order = \"random\" means nothing",
            "write \"ordered\" or \"unordered\"",
        ),
        (
            "ring = \"xpu[01-04]\"",
            "ring = \"xpu[01-04]\"\nmesh = \"xpu[01-04]\"",
            "f.toml:21:1: connections are a mesh, a ring, or pairs",
            "write one of mesh = \"xpu[01-04]\", ring = \"xpu[01-04]\" and pairs = [[\"xpu01\", \"xpu02\"]]",
        ),
        (
            "[[\"xpu04\", \"xpu01\"]]",
            "[[\"xpu04\", \"xpu04\"]]",
            "f.toml:29:10: xpu04 cannot be connected to itself",
            "name two different nodes",
        ),
        (
            "[[\"xpu04\", \"xpu01\"]]",
            "[[\"xpu04\", \"xpu01\", \"xpu02\"]]",
            "f.toml:29:10: a pair has two nodes, not 3",
            "write [\"xpu01\", \"xpu02\"]",
        ),
        (
            "[[\"xpu04\", \"xpu01\"]]",
            "[[\"xpu04\", \"xpu01\"], [\"xpu01\", \"xpu04\"]]",
            "f.toml:29:30: xpu01 and xpu04 are connected twice in the same way",
            "leave one out, or let them differ, for example by partition",
        ),
        (
            "tclass = 8",
            "tclass = 256",
            "f.toml:31:10: invalid value: integer `256`, expected u8",
            "write a value of the kind that is expected",
        ),
        (
            "tclass = 8",
            "hop_limit = 0",
            "f.toml:31:13: hop_limit 0 is outside 1..255 for udp",
            "write 1 to 255, or leave it out",
        ),
        (
            "tclass = 8",
            "mtu = 100",
            "f.toml:31:7: mtu 100 is outside 128..65535",
            "write 128 to 65535 bytes",
        ),
        (
            "tal_trans_window = 64",
            "nh_udp_port = 64",
            "f.toml:32:16: nh_udp_port is a parameter of nodes, not of connections",
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

/// A file of two tables of nodes with these ranges of RMA addresses.
fn two_tables(one: &str, other: &str) -> String {
    let table = |hosts: &str, net: u8, rma: &str| {
        format!(
            "[[nodes]]\nhosts = \"{hosts}\"\nagent = \"{{host}}:7779\"\naddress = \"10.23.{net}.{{n}}\"\n\
             ports = [{{ dev = \"eth0\", encap = [\"udp\"] }}]\n{rma}\n"
        )
    };
    format!(
        "fabric = \"lab\"\n{}{}",
        table("cpu[1-2]", 1, one),
        table("xpu[1-4]", 2, other)
    )
}

#[test]
fn ranges_of_rma_addresses_are_apart_whatever_their_sizes() {
    let file = two_tables(
        "rma = { base = 0x10_0000, size = 0x1000 }",
        "rma = { base = 0x10_0000, size = 0x10_0000 }",
    );
    let nodes = read(&file).unwrap().nodes;
    let mut ranges: Vec<_> = nodes.values().map(|node| node.rma.unwrap()).collect();
    ranges.sort_by_key(|range| range.base);
    assert_eq!(ranges.len(), 6);
    assert_eq!((ranges[0].base, ranges[1].base), (0x10_1000, 0x10_2000));
    for pair in ranges.windows(2) {
        assert!(pair[0].last().unwrap() < pair[1].base, "{pair:?}");
    }
    // The number of a host decides, so the others stay where they are when one is left out.
    let fewer = read(&file.replace("xpu[1-4]", "xpu[1,3-4]")).unwrap().nodes;
    assert_eq!(fewer["xpu4"].rma, nodes["xpu4"].rma);
    // Some of the nodes may have none.
    let file = two_tables("", "rma = { base = 0x1000, size = 0x1000 }");
    let nodes = read(&file).unwrap().nodes;
    assert_eq!(nodes["cpu1"].rma, None);
    assert_eq!(nodes["xpu1"].rma.unwrap().base, 0x2000);
    // One whose number is 0, or who has none, has what the table says.
    let head = file
        .replace("xpu[1-4]", "head")
        .replace("10.23.2.{n}", "10.23.2.9");
    assert_eq!(read(&head).unwrap().nodes["head"].rma.unwrap().base, 0x1000);
}

#[test]
fn ranges_of_rma_addresses_that_overlap_or_begin_at_0_are_told() {
    for (one, other, cause) in [
        (
            "{ base = 0x1_0000, size = 0x1000 }",
            "{ base = 0x1000, size = 0x8000 }",
            "f.toml:13:7: the RMA addresses of cpu1 and xpu2 overlap",
        ),
        // The last page of one is the first of the other.
        (
            "{ base = 0x1000, size = 0x3000 }",
            "{ base = 0x8000, size = 0x1000 }",
            "f.toml:13:7: the RMA addresses of cpu2 and xpu1 overlap",
        ),
        // One lies within the other.
        (
            "{ base = 0x1000, size = 0x100_0000 }",
            "{ base = 0x180_0000, size = 0x1000 }",
            "f.toml:13:7: the RMA addresses of cpu1 and xpu1 overlap",
        ),
    ] {
        let text = told(&two_tables(
            &format!("rma = {one}"),
            &format!("rma = {other}"),
        ));
        assert_eq!(text.lines().next(), Some(cause), "{text}");
        assert_eq!(text.matches("f.toml").count(), 1, "{text}");
    }
    let text = two_tables("", "rma = { base = 0, size = 0x1000 }").replace("xpu[1-4]", "xpu[0-3]");
    let text = told(&text);
    let cause = "f.toml:13:7: the RMA addresses of xpu0 begin at 0, which stands for none";
    assert_eq!(text.lines().next(), Some(cause), "{text}");
}
