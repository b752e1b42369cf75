// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The network devices and the memory of this node.

use nix::ifaddrs::getifaddrs;
use rustix::process::{getrlimit, Resource};
use std::collections::HashMap;
use std::net::IpAddr;
use std::{fs, io};
use superp_control::{Device, LinkState, Memory, PortEncap};
use superp_netlink::Port;

const DEVICES: &str = "/sys/class/net";

/// The devices of the network namespace, loopback aside unless it is a port, in the order of their
/// indices.
pub(crate) fn devices(ports: &[Port]) -> io::Result<Vec<Device>> {
    let mut addresses: HashMap<String, Vec<IpAddr>> = HashMap::new();
    for interface in getifaddrs()? {
        let Some(address) = interface.address else {
            continue;
        };
        let v4 = address.as_sockaddr_in().map(|v4| IpAddr::from(v4.ip()));
        let v6 = address.as_sockaddr_in6().map(|v6| IpAddr::from(v6.ip()));
        let of_device = addresses.entry(interface.interface_name).or_default();
        of_device.extend(v4.or(v6));
    }
    let mut devices = Vec::new();
    for entry in fs::read_dir(DEVICES)? {
        let Ok(name) = entry?.file_name().into_string() else {
            continue;
        };
        // One that goes away meanwhile is none.
        let Some(device) = device(&name, ports) else {
            continue;
        };
        devices.push(Device {
            addresses: addresses.remove(&name).unwrap_or_default(),
            ..device
        });
    }
    devices.retain(|device| device.device != "lo" || !device.port.is_empty());
    devices.sort_by_key(|device| device.index);
    Ok(devices)
}

fn device(name: &str, ports: &[Port]) -> Option<Device> {
    let read = |what: &str| {
        let text = fs::read_to_string(format!("{DEVICES}/{name}/{what}")).ok()?;
        Some(text.trim().to_owned())
    };
    let index: u32 = read("ifindex")?.parse().ok()?;
    let mac = read("address").filter(|mac| mac.len() == 17 && mac != "00:00:00:00:00:00");
    let state = match read("carrier").as_deref() {
        Some("1") => LinkState::Up,
        _ => LinkState::Down,
    };
    let port = ports.iter().find(|port| port.ifindex == index);
    Some(Device {
        device: name.to_owned(),
        index,
        mac,
        mtu: read("mtu")?.parse().ok()?,
        state,
        addresses: Vec::new(),
        port: port.map_or_else(Vec::new, encaps),
    })
}

/// What a port receives.
pub(crate) fn encaps(port: &Port) -> Vec<PortEncap> {
    let sunh = port.encap.sunh.then_some(PortEncap::Sunh);
    let udp = port.encap.udp.then_some(PortEncap::Udp);
    sunh.into_iter().chain(udp).collect()
}

/// Index of a device.
pub(crate) fn index(name: &str) -> Option<u32> {
    // A name with a slash would be another file.
    let text = fs::read_to_string(format!("{DEVICES}/{name}/ifindex"));
    text.ok()
        .filter(|_| !name.contains('/'))?
        .trim()
        .parse()
        .ok()
}

/// Name of a device.
pub(crate) fn name(index: u32) -> Option<String> {
    let entries = fs::read_dir(DEVICES).ok()?;
    let mut names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names.find(|name| self::index(name) == Some(index))
}

/// Memory that programs can give to RMA.
pub(crate) fn memory() -> io::Result<Memory> {
    let text = fs::read_to_string("/proc/meminfo")?;
    Ok(Memory {
        total: meminfo(&text, "MemTotal:"),
        available: meminfo(&text, "MemAvailable:"),
        memlock: getrlimit(Resource::Memlock).current,
    })
}

/// A line of /proc/meminfo in bytes; 0 where there is none.
fn meminfo(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let kib = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse().ok());
    kib.unwrap_or(0u64).saturating_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn meminfo_is_in_bytes() {
        let text = "MemTotal:       24689764 kB\nMemFree: 5 kB\nMemAvailable:   23000000 kB\n";
        assert_eq!(meminfo(text, "MemTotal:"), 24_689_764 * 1024);
        assert_eq!(meminfo(text, "MemAvailable:"), 23_000_000 * 1024);
        assert_eq!(meminfo(text, "Other:"), 0);
    }

    #[test]
    fn device_with_a_path_for_a_name_is_none() {
        assert_eq!(index("../net/lo"), None);
    }
}
