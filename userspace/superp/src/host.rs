// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Peers by their addresses, or by names that the system's resolver knows.

use std::net::{IpAddr, ToSocketAddrs};
use superp_netlink::{Client, ConnState};

/// All addresses of a host, in the order in which the resolver prefers them; at least one.
pub(crate) fn addresses(text: &str) -> Result<Vec<IpAddr>, String> {
    if let Ok(addr) = text.parse() {
        return Ok(vec![addr]);
    }
    if !is_name(text) {
        return Err(format!("{text}: neither an IP address nor a host name"));
    }
    let found = (text, 0u16).to_socket_addrs().map_err(|error| {
        let reason = error.to_string();
        let reason = reason.rsplit(": ").next().unwrap_or_default();
        format!("{text}: no IP address, and as a host name: {reason}")
    })?;
    let mut addrs: Vec<IpAddr> = Vec::new();
    for addr in found.map(|found| found.ip()) {
        if !addrs.contains(&addr) {
            addrs.push(addr);
        }
    }
    match addrs.is_empty() {
        true => Err(format!("{text}: the host has no address")),
        false => Ok(addrs),
    }
}

/// Whether it may be a name: the resolver takes "10.23" for 10.0.0.23.
fn is_name(text: &str) -> bool {
    let labels: Vec<&str> = text.strip_suffix('.').unwrap_or(text).split('.').collect();
    let is_part = |c: char| c.is_alphanumeric() || c == '-' || c == '_';
    let is_number = |label: &&str| label.starts_with(|c: char| c.is_ascii_digit());
    let fits = |label: &&str| !label.is_empty() && !label.starts_with('-');
    labels
        .iter()
        .all(|label| fits(label) && label.chars().all(is_part))
        && !labels.last().is_some_and(is_number)
}

/// An address of a host.
pub(crate) fn any(text: &str) -> Result<IpAddr, String> {
    let addrs = addresses(text)?;
    Ok(addrs[0])
}

/// The address of a peer. Of several it is one that an established connection leads to.
pub(crate) fn peer(text: &str) -> Result<IpAddr, String> {
    let addrs = addresses(text)?;
    Ok(match addrs.len() {
        1 => addrs[0],
        _ => among(&addrs, &connected()),
    })
}

fn among(addrs: &[IpAddr], connected: &[IpAddr]) -> IpAddr {
    let found = addrs.iter().find(|addr| connected.contains(addr));
    *found.unwrap_or(&addrs[0])
}

/// Peers of the established connections, as far as they can be known.
fn connected() -> Vec<IpAddr> {
    let conns = Client::open().and_then(|mut client| client.conns(false));
    let conns = conns.into_iter().flatten();
    conns
        .filter(|conn| conn.state == ConnState::Established)
        .map(|conn| conn.remote_addr)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_not_looked_up() {
        assert_eq!(any("10.23.0.1"), Ok("10.23.0.1".parse().unwrap()));
        assert_eq!(peer("fd23::2"), Ok("fd23::2".parse().unwrap()));
    }

    #[test]
    fn names_are_told_from_addresses_with_a_mistake() {
        for name in ["localhost", "xpu03", "3com.example.org.", "a_b-c.example"] {
            assert!(is_name(name), "{name}");
        }
        for wrong in [
            "",
            ".",
            "10.23",
            "10.23.0.256",
            "1",
            "a..b",
            "fd23::g",
            "fe80::1%eth0",
            "-a",
            "a b",
            "x.0x7f",
        ] {
            assert!(!is_name(wrong), "{wrong}");
            assert!(any(wrong).unwrap_err().contains("neither"), "{wrong}");
        }
    }

    #[test]
    fn of_several_addresses_the_connected_one_is_taken() {
        let addrs: Vec<IpAddr> = ["::1", "127.0.0.1"].map(|a| a.parse().unwrap()).to_vec();
        assert_eq!(among(&addrs, &[]), addrs[0]);
        assert_eq!(among(&addrs, &addrs[1..]), addrs[1]);
        assert_eq!(among(&addrs, &addrs), addrs[0]);
    }
}
