// SPDX-License-Identifier: GPL-2.0 OR MIT
//! From what is written to what is meant; every mistake is found that can be.

use super::file::{Connections, File, FilePort, FileRma, Nodes, ParamTable, ParamValue};
use super::hosts::{self, Host, Wrong};
use super::{
    of_connections, param, Encap, Fabric, Link, Mistake, Node, OnBroken, Params, Port, Settings,
};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::ops::Range;
use superp_control::RmaSpace;
use superp_proto::{Config, Param, PARAMS};
use superp_units::quantity;
use toml::Spanned;

/// The smallest page of a host. One with larger pages refuses what does not suit it.
const RMA_PAGE: u64 = 4096;

pub(super) struct Checker {
    pub(super) fabric: Fabric,
    pub(super) mistakes: Vec<Mistake>,
}

pub(super) fn check(file: &File) -> Result<Fabric, Vec<Mistake>> {
    let mut checker = Checker {
        fabric: Fabric {
            name: file.fabric.get_ref().clone(),
            broken: OnBroken::default(),
            params: Params::new(),
            nodes: BTreeMap::new(),
            links: Vec::new(),
        },
        mistakes: Vec::new(),
    };
    checker.file(file);
    if checker.mistakes.is_empty() {
        Ok(checker.fabric)
    } else {
        checker.mistakes.sort_by_key(|mistake| mistake.span.start);
        Err(checker.mistakes)
    }
}

impl Checker {
    fn wrong(&mut self, span: Range<usize>, cause: impl Into<String>, remedy: impl Into<String>) {
        self.mistakes.push(Mistake {
            span,
            cause: cause.into(),
            remedy: remedy.into(),
        });
    }

    pub(super) fn ok<T>(&mut self, span: Range<usize>, result: Result<T, Wrong>) -> Option<T> {
        result
            .map_err(|(cause, remedy)| self.wrong(span, cause, remedy))
            .ok()
    }

    fn file(&mut self, file: &File) {
        if self.fabric.name.trim().is_empty() {
            self.wrong(
                file.fabric.span(),
                "the fabric has no name",
                "give it one, as in fabric = \"lab\"",
            );
        }
        if let Some(broken) = &file.broken {
            match broken.get_ref().as_str() {
                "restart" => self.fabric.broken = OnBroken::Restart,
                "stop" => self.fabric.broken = OnBroken::Stop,
                "shutdown" => self.fabric.broken = OnBroken::Shutdown,
                other => self.wrong(
                    broken.span(),
                    format!("broken = \"{other}\" means nothing"),
                    "write \"restart\", \"stop\" or \"shutdown\"",
                ),
            }
        }
        self.fabric.params = self.params(&file.parameters, false);
        if file.nodes.is_empty() {
            self.wrong(
                file.fabric.span(),
                "the fabric has no nodes",
                "add a table [[nodes]] with hosts, agent, address and ports",
            );
        }
        for nodes in &file.nodes {
            self.nodes(nodes);
        }
        self.sunh_addresses(file);
        for connections in &file.connections {
            self.connections(connections);
        }
        self.counts(file.connections.last().map_or(0..0, Spanned::span));
    }

    /// Parameters with known names and values in their ranges.
    fn params(&mut self, table: &ParamTable, of_connection: bool) -> Params {
        let mut params = Params::new();
        for (name, value) in table {
            let Some(known) = Param::find(name.get_ref()) else {
                let remedy = match nearest(name.get_ref()) {
                    Some(near) => format!("did you mean {near}? \"superp param show\" lists them"),
                    None => "\"superp param show\" lists them".into(),
                };
                self.wrong(
                    name.span(),
                    format!("there is no parameter {}", name.get_ref()),
                    remedy,
                );
                continue;
            };
            if of_connection && !of_connections(known.name) {
                let cause = format!("{} is a parameter of nodes, not of connections", known.name);
                self.wrong(
                    name.span(),
                    cause,
                    "set it in the table [parameters] of the fabric",
                );
                continue;
            }
            let number = match value.get_ref() {
                ParamValue::Number(number) => Ok(*number),
                ParamValue::Text(text) => quantity(known.name, text, known.unit),
            };
            let checked = number.and_then(|number| match known.check(number) {
                Ok(()) => Ok(number),
                Err(error) => Err(error.to_string()),
            });
            match checked {
                Ok(number) => _ = params.insert(known.name.into(), number),
                Err(cause) => self.wrong(value.span(), cause, range(known)),
            }
        }
        params
    }

    fn nodes(&mut self, table: &Spanned<Nodes>) {
        let nodes = table.get_ref();
        let Some(hosts) = self.ok(nodes.hosts.span(), hosts::expand(nodes.hosts.get_ref())) else {
            return;
        };
        let before = self.mistakes.len();
        let ports = self.ports(&nodes.ports);
        let rma = nodes.rma.as_ref();
        if let Some(rma) = rma {
            self.rma_table(rma.get_ref());
        }
        if self.mistakes.len() > before {
            // What would be told of their connections comes from that.
            return;
        }
        for host in &hosts {
            let agent = self.ok(nodes.agent.span(), agent(nodes.agent.get_ref(), host));
            let address = self.ok(nodes.address.span(), address(nodes.address.get_ref(), host));
            let space = rma.map(|rma| {
                self.ok(rma.span(), rma_space(rma.get_ref(), host))
                    .filter(|space| self.rma_free(rma, host, space))
            });
            let (Some(agent), Some(address), None | Some(Some(_))) = (agent, address, space) else {
                // The other hosts of the list would say the same.
                return;
            };
            if self.fabric.nodes.contains_key(&host.name) {
                let cause = format!("{} is described twice", host.name);
                self.wrong(
                    nodes.hosts.span(),
                    cause,
                    "name each host in one table [[nodes]]",
                );
                return;
            }
            let same = |node: &&Node| node.address == address;
            if let Some(other) = self.named(same) {
                let cause = format!("{other} and {} have the same address {address}", host.name);
                let remedy = "give each node its own, for example with {n}, the number of the host";
                self.wrong(nodes.address.span(), cause, remedy);
                return;
            }
            if let Some(other) = self.named(|node| node.agent == agent) {
                let cause = format!("{other} and {} have the same agent {agent}", host.name);
                let remedy = "give each node its own, for example with {n}, the number of the host";
                self.wrong(nodes.agent.span(), cause, remedy);
                return;
            }
            let node = Node {
                agent,
                address,
                ports: ports.clone(),
                rma: space.flatten(),
            };
            self.fabric.nodes.insert(host.name.clone(), node);
        }
    }

    /// The numbers of a table of RMA addresses, as they are for every node.
    fn rma_table(&mut self, rma: &FileRma) {
        if *rma.size.get_ref() == 0 {
            let cause = "a range of RMA addresses of 0 bytes is none";
            let remedy = "write its size, or leave rma out for addresses that begin with keys";
            self.wrong(rma.size.span(), cause, remedy);
        }
        for (what, number) in [("base", &rma.base), ("size", &rma.size)] {
            let value = *number.get_ref();
            if value % RMA_PAGE != 0 {
                let cause = format!("the {what} {value:#x} is not a multiple of the page size");
                let below = value - value % RMA_PAGE;
                let remedy = match below.checked_add(RMA_PAGE) {
                    Some(above) => format!("write {below:#x} or {above:#x}"),
                    None => format!("write {below:#x}"),
                };
                self.wrong(number.span(), cause, remedy);
            }
        }
    }

    /// Whether no other node has one of these addresses.
    fn rma_free(&mut self, rma: &Spanned<FileRma>, host: &Host, space: &RmaSpace) -> bool {
        let overlaps = |node: &&Node| {
            let other = node.rma.map(|other| (other.base, other.last()));
            other.is_some_and(|(base, last)| Some(base) <= space.last() && Some(space.base) <= last)
        };
        let Some(other) = self.named(overlaps) else {
            return true;
        };
        let cause = format!("the RMA addresses of {other} and {} overlap", host.name);
        let remedy = "let the tables have ranges base + {n} * size that are apart, {n} being the numbers of their hosts";
        self.wrong(rma.span(), cause, remedy);
        false
    }

    fn named(&self, test: impl Fn(&&Node) -> bool) -> Option<String> {
        let found = self.fabric.nodes.iter().find(|(_, node)| test(node));
        found.map(|(name, _)| name.clone())
    }

    fn ports(&mut self, ports: &Spanned<Vec<FilePort>>) -> Vec<Port> {
        let mut list: Vec<Port> = Vec::new();
        if ports.get_ref().is_empty() {
            self.wrong(
                ports.span(),
                "the nodes have no port",
                "name a device, as in ports = [{ dev = \"eth0\" }]",
            );
        }
        for port in ports.get_ref() {
            let dev = port.dev.get_ref();
            let fits = |c: char| c.is_ascii_graphic() && c != '/' && c != ':';
            if dev.is_empty() || dev.len() > 15 || !dev.chars().all(fits) {
                let cause = format!("\"{dev}\" is not the name of a device");
                self.wrong(
                    port.dev.span(),
                    cause,
                    "a name is 1 to 15 characters, as \"ip link\" shows it",
                );
                continue;
            }
            if list.iter().any(|other| other.dev == *dev) {
                self.wrong(
                    port.dev.span(),
                    format!("the port {dev} is named twice"),
                    "name it once",
                );
                continue;
            }
            let all = port.encap.is_none();
            let (mut sunh, mut udp) = (all, all);
            for encap in port.encap.iter().flatten() {
                match encap.get_ref().as_str() {
                    "sunh" => sunh = true,
                    "udp" => udp = true,
                    other => self.wrong(
                        encap.span(),
                        format!("a port cannot receive \"{other}\""),
                        "write \"sunh\", \"udp\" or both",
                    ),
                }
            }
            if !sunh && !udp && port.encap.as_ref().is_some_and(Vec::is_empty) {
                let cause = format!("the port {dev} receives nothing");
                self.wrong(
                    port.dev.span(),
                    cause,
                    "write encap = [\"sunh\", \"udp\"], or leave it out for both",
                );
            }
            list.push(Port {
                dev: dev.clone(),
                sunh,
                udp,
            });
        }
        list
    }

    /// The low bits of the addresses are those of SUNH: they must differ too.
    fn sunh_addresses(&mut self, file: &File) {
        let bits = param(&self.fabric.params, "nh_num_caddr_bits");
        let mut seen: BTreeMap<u128, &str> = BTreeMap::new();
        let mut twice = None;
        for (name, node) in &self.fabric.nodes {
            if !node.ports.iter().any(|port| port.sunh) {
                continue;
            }
            let sunh = bits_of(node.address) & ((1 << bits) - 1);
            if let Some(other) = seen.insert(sunh, name) {
                twice = Some((other.to_owned(), name.clone(), sunh));
                break;
            }
        }
        if let Some((one, other, sunh)) = twice {
            let cause = format!("{one} and {other} have the same SUNH address {sunh}, the low {bits} bits of their addresses");
            let remedy = "choose addresses that differ there, a larger nh_num_caddr_bits, or ports with encap = [\"udp\"]";
            let places = file.nodes.iter().map(Spanned::get_ref);
            let place = places.filter(|nodes| {
                hosts::expand(nodes.hosts.get_ref())
                    .is_ok_and(|hosts| hosts.iter().any(|host| host.name == other))
            });
            let span = place.last().map_or(0..0, |nodes| nodes.address.span());
            self.wrong(span, cause, remedy);
        }
    }

    fn connections(&mut self, table: &Spanned<Connections>) {
        let pairs = self.pairs(table);
        self.links(table, pairs);
    }

    /// Connects pairs of nodes, as a table says.
    pub(super) fn links(
        &mut self,
        table: &Spanned<Connections>,
        pairs: Vec<(String, String, Range<usize>)>,
    ) {
        let connections = table.get_ref();
        let order = connections.order.as_ref();
        let ordered = match order.map_or("ordered", |order| order.get_ref()) {
            "ordered" => true,
            "unordered" => false,
            other => {
                let span = order.map_or(0..0, Spanned::span);
                self.wrong(
                    span,
                    format!("order = \"{other}\" means nothing"),
                    "write \"ordered\" or \"unordered\"",
                );
                false
            }
        };
        let spray = connections.spray.as_ref();
        if let Some(spray) = spray.filter(|spray| *spray.get_ref() && ordered) {
            let remedy = "add order = \"unordered\", or leave spray out";
            self.wrong(
                spray.span(),
                "packets that are sprayed do not arrive in order",
                remedy,
            );
        }
        if let Some(mtu) = &connections.mtu {
            let config = Config {
                mtu: *mtu.get_ref(),
                ..Config::default()
            };
            if let Err(error) = config.validate() {
                let remedy = format!("write {} to {} bytes", error.min, error.max);
                self.wrong(mtu.span(), error.to_string(), remedy);
            }
        }
        let mut params = self.fabric.params.clone();
        params.retain(|name, _| of_connections(name));
        params.extend(self.params(&connections.parameters, true));
        if let Some(window) = &connections.window {
            if connections
                .parameters
                .keys()
                .any(|name| name.get_ref() == "pdl_window_size")
            {
                let cause = "window and pdl_window_size are the same";
                self.wrong(window.span(), cause, "leave one of the two out");
            }
            let range =
                Param::find("pdl_window_size").filter(|p| p.check(*window.get_ref()).is_err());
            if let Some(range) = range {
                let cause = format!(
                    "window {} is outside {}..{}",
                    window.get_ref(),
                    range.min,
                    range.max
                );
                self.wrong(
                    window.span(),
                    cause,
                    format!("write {} to {} packets", range.min, range.max),
                );
            }
            params.insert("pdl_window_size".into(), *window.get_ref());
        }
        let encap = connections.encap.as_ref();
        let text = encap.map_or("sunh", |encap| encap.get_ref());
        let span = encap.map_or(table.span(), Spanned::span);
        if !["sunh", "udp", "udp4", "udp6"].contains(&text) {
            self.wrong(
                span,
                format!("encap = \"{text}\" means nothing"),
                "write \"sunh\", \"udp\", \"udp4\" or \"udp6\"",
            );
            return;
        }
        if let Some(hops) = &connections.hop_limit {
            let most = if text == "sunh" { 15 } else { 255 };
            if !(1..=most).contains(hops.get_ref()) {
                let cause = format!(
                    "hop_limit {} is outside 1..{most} for {text}",
                    hops.get_ref()
                );
                self.wrong(
                    hops.span(),
                    cause,
                    format!("write 1 to {most}, or leave it out"),
                );
            }
        }
        let mut seen: BTreeSet<_> = self.fabric.links.iter().cloned().collect();
        for (from, to, at) in pairs {
            let (a, b) = if from < to { (from, to) } else { (to, from) };
            let Some(encap) = self.encap(text, [&a, &b], &span) else {
                return;
            };
            let link = Link {
                settings: Settings {
                    encap,
                    ordered,
                    spray: spray.is_some_and(|spray| *spray.get_ref()),
                    ext: connections.ext,
                    partition: connections.partition,
                    tclass: connections.tclass,
                    hop_limit: connections.hop_limit.as_ref().map(|hops| *hops.get_ref()),
                    mtu: connections.mtu.as_ref().map(|mtu| *mtu.get_ref()),
                    params: params.clone(),
                },
                a,
                b,
            };
            if !seen.insert(link.clone()) {
                let cause = format!(
                    "{} and {} are connected twice in the same way",
                    link.a, link.b
                );
                self.wrong(
                    at,
                    cause,
                    "leave one out, or let them differ, for example by partition",
                );
                return;
            }
            self.fabric.links.push(link);
        }
    }

    /// The encapsulation, if both ends can do it.
    fn encap(&mut self, text: &str, ends: [&str; 2], span: &Range<usize>) -> Option<Encap> {
        let ends = ends.map(|name| {
            self.fabric
                .nodes
                .get(name)
                .map(|node| (name.to_owned(), node.clone()))
        });
        let [Some(one), Some(other)] = ends else {
            return None;
        };
        let encap = match (text, one.1.address) {
            ("sunh", _) => Encap::Sunh,
            ("udp4", _) | ("udp", IpAddr::V4(_)) => Encap::Udp4,
            _ => Encap::Udp6,
        };
        for (name, node) in [one, other] {
            let family = match encap {
                Encap::Sunh => true,
                Encap::Udp4 => node.address.is_ipv4(),
                Encap::Udp6 => node.address.is_ipv6(),
            };
            if !family {
                let cause = format!(
                    "{name} has the address {}, which {text} cannot reach here",
                    node.address
                );
                self.wrong(
                    span.clone(),
                    cause,
                    "write encap = \"udp\" and addresses of one family, or \"sunh\"",
                );
                return None;
            }
            let port = |port: &Port| {
                if encap == Encap::Sunh {
                    port.sunh
                } else {
                    port.udp
                }
            };
            if !node.ports.iter().any(port) {
                let cause = format!("no port of {name} receives {text}");
                self.wrong(
                    span.clone(),
                    cause,
                    "add it to encap of the port, or choose another encap",
                );
                return None;
            }
        }
        Some(encap)
    }

    /// Who is connected to whom.
    fn pairs(&mut self, table: &Spanned<Connections>) -> Vec<(String, String, Range<usize>)> {
        let Connections {
            mesh, ring, pairs, ..
        } = table.get_ref();
        match (mesh, ring, pairs) {
            (Some(mesh), None, None) => self.mesh(mesh),
            (None, Some(ring), None) => self.ring(ring),
            (None, None, Some(pairs)) => self.list(pairs),
            _ => {
                let remedy = "write one of mesh = \"xpu[01-04]\", ring = \"xpu[01-04]\" and pairs = [[\"xpu01\", \"xpu02\"]]";
                self.wrong(
                    table.span(),
                    "connections are a mesh, a ring, or pairs",
                    remedy,
                );
                Vec::new()
            }
        }
    }

    /// The nodes of a list, at least two.
    fn known(&mut self, list: &Spanned<String>) -> Vec<String> {
        let Some(hosts) = self.ok(list.span(), hosts::expand(list.get_ref())) else {
            return Vec::new();
        };
        for host in &hosts {
            if !self.known_one(&host.name, &list.span()) {
                return Vec::new();
            }
        }
        if hosts.len() < 2 {
            self.wrong(
                list.span(),
                "one node alone has nobody to be connected to",
                "name two nodes or more",
            );
            return Vec::new();
        }
        hosts.into_iter().map(|host| host.name).collect()
    }

    pub(super) fn known_one(&mut self, name: &str, span: &Range<usize>) -> bool {
        let known = self.fabric.nodes.contains_key(name);
        // With a mistake in the nodes the fabric does not have them all.
        if !known && self.mistakes.is_empty() {
            let cause = format!("there is no node {name}");
            self.wrong(
                span.clone(),
                cause,
                "describe it in a table [[nodes]], or leave it out here",
            );
        }
        known
    }

    fn mesh(&mut self, list: &Spanned<String>) -> Vec<(String, String, Range<usize>)> {
        all_to_all(&self.known(list), &list.span())
    }

    fn ring(&mut self, list: &Spanned<String>) -> Vec<(String, String, Range<usize>)> {
        let names = self.known(list);
        // Two nodes have one connection: to the right is to the left.
        let count = if names.len() == 2 { 1 } else { names.len() };
        let next = names.iter().cycle().skip(1);
        let pairs = names.iter().zip(next).take(count);
        pairs
            .map(|(one, other)| (one.clone(), other.clone(), list.span()))
            .collect()
    }

    fn list(
        &mut self,
        list: &Spanned<Vec<Spanned<Vec<String>>>>,
    ) -> Vec<(String, String, Range<usize>)> {
        let mut pairs = Vec::new();
        if list.get_ref().is_empty() {
            self.wrong(
                list.span(),
                "pairs is empty",
                "name two nodes, as in pairs = [[\"xpu01\", \"xpu02\"]]",
            );
        }
        for pair in list.get_ref() {
            let [one, other] = pair.get_ref().as_slice() else {
                let cause = format!("a pair has two nodes, not {}", pair.get_ref().len());
                self.wrong(pair.span(), cause, "write [\"xpu01\", \"xpu02\"]");
                continue;
            };
            if one == other {
                let cause = format!("{one} cannot be connected to itself");
                self.wrong(pair.span(), cause, "name two different nodes");
                continue;
            }
            if self.known_one(one, &pair.span()) && self.known_one(other, &pair.span()) {
                pairs.push((one.clone(), other.clone(), pair.span()));
            }
        }
        pairs
    }

    /// No node has more connections than it may, and the parameters fit together.
    pub(super) fn counts(&mut self, span: Range<usize>) {
        let most = param(&self.fabric.params, "pdl_conns_per_xpu");
        let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
        for link in &self.fabric.links {
            *counts.entry(&link.a).or_default() += 1;
            *counts.entry(&link.b).or_default() += 1;
        }
        let full = counts.iter().find(|(_, count)| **count > most);
        if let Some((name, count)) = full {
            let cause =
                format!("{name} has {count} connections, and pdl_conns_per_xpu allows {most}");
            let remedy = match *count {
                0..=4096 => format!(
                    "add pdl_conns_per_xpu = {count} to the table [parameters] of the fabric"
                ),
                _ => "4096 is the most that a node can have: connect fewer nodes".into(),
            };
            self.wrong(span, cause, remedy);
        }
    }
}

/// Everybody connected to everybody else.
pub(super) fn all_to_all(
    names: &[String],
    span: &Range<usize>,
) -> Vec<(String, String, Range<usize>)> {
    let mut pairs = Vec::new();
    for (place, one) in names.iter().enumerate() {
        for other in &names[place + 1..] {
            pairs.push((one.clone(), other.clone(), span.clone()));
        }
    }
    pairs
}

fn agent(pattern: &str, host: &Host) -> Result<String, Wrong> {
    let agent = hosts::fill(pattern, host)?;
    let cut = agent.rsplit_once(':');
    let right = cut.is_some_and(|(name, port)| {
        let name = name
            .strip_prefix('[')
            .and_then(|name| name.strip_suffix(']'))
            .map_or_else(
                || {
                    !name.is_empty()
                        && name
                            .chars()
                            .all(|c| c.is_ascii_alphanumeric() || "-._".contains(c))
                },
                |inner| inner.parse::<std::net::Ipv6Addr>().is_ok(),
            );
        name && port.parse::<u16>().is_ok_and(|port| port > 0)
    });
    match right {
        true => Ok(agent),
        false => Err((
            format!("\"{agent}\" is not the place of an agent"),
            "write host and port, as in 10.0.0.{n}:7779 or [fd00::{n}]:7779".into(),
        )),
    }
}

/// The range of one host.
fn rma_space(rma: &FileRma, host: &Host) -> Result<RmaSpace, Wrong> {
    let (base, size) = (*rma.base.get_ref(), *rma.size.get_ref());
    let number = host.number.unwrap_or(0);
    let base = size
        .checked_mul(number.into())
        .and_then(|offset| base.checked_add(offset));
    let space = base.map(|base| RmaSpace { base, size });
    match space.filter(|space| space.last().is_some()) {
        Some(RmaSpace { base: 0, .. }) => Err((
            format!("the RMA addresses of {} begin at 0, which stands for none", host.name),
            "write a base above 0".into(),
        )),
        Some(space) => Ok(space),
        None => Err((
            format!(
                "the RMA addresses of {}, {size:#x} bytes from base + {number} * size on, go beyond 2^64",
                host.name
            ),
            "write a smaller size, or a lower base".into(),
        )),
    }
}

fn address(pattern: &str, host: &Host) -> Result<IpAddr, Wrong> {
    let text = hosts::fill(pattern, host)?;
    let Ok(address) = text.parse::<IpAddr>() else {
        return Err((
            format!("\"{text}\" is not an IP address"),
            "write one, as in 10.23.0.{n} or fd23::{n}; numbers of IPv4 end at 255".into(),
        ));
    };
    if address.is_unspecified() || address.is_multicast() || address.is_loopback() {
        return Err((
            format!("{address} is not the address of a node in a network"),
            "write the address that the node's port has".into(),
        ));
    }
    Ok(address)
}

fn bits_of(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => v4.to_bits().into(),
        IpAddr::V6(v6) => v6.to_bits(),
    }
}

/// What to write as the value of a parameter.
fn range(param: &Param) -> String {
    let Param { min, max, unit, .. } = param;
    let numbers = match *max {
        u64::MAX => format!("write {min} or more ({unit})"),
        max => format!("write {min} to {max} {unit}").trim_end().to_owned(),
    };
    match *unit {
        "ns" | "10 ns" => numbers + ", or a time such as \"2s\"",
        _ => numbers,
    }
}

/// The parameter whose name is most like this one, if one is.
fn nearest(name: &str) -> Option<&'static str> {
    let by_distance = PARAMS
        .iter()
        .map(|param| (distance(name, param.name), param.name));
    by_distance
        .filter(|(far, _)| *far <= 4)
        .min()
        .map(|(_, name)| name)
}

/// Letters to add, drop or change to get from one to the other.
fn distance(one: &str, other: &str) -> usize {
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (i, a) in one.bytes().enumerate() {
        let mut corner = row[0];
        row[0] = i + 1;
        for (j, b) in other.bytes().enumerate() {
            let change = corner + usize::from(a != b);
            corner = row[j + 1];
            row[j + 1] = change.min(corner + 1).min(row[j] + 1);
        }
    }
    row[other.len()]
}
