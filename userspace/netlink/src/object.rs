// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Objects of the family: what the kernel tells of them, and what is asked of it.

use crate::codec::{Attr, Attrs};
use crate::uapi::{self, counter, node, param, port, qp, region, route};
use crate::{Error, Result};
use serde::ser::{Serialize, SerializeMap, Serializer};
use std::{fmt, net::IpAddr, str::FromStr};

/// Attributes of one object, by number.
#[derive(Clone, Copy)]
pub(crate) struct Object<'a>(pub(crate) Attrs<'a>);

impl Object<'_> {
    /// What must be there.
    pub(crate) fn need<T>(self, what: Option<T>, name: &'static str) -> Result<T> {
        what.ok_or(Error::Answer(name))
    }

    pub(crate) fn int<T: TryFrom<u64>>(self, number: u16) -> Option<T> {
        T::try_from(self.0.get(number)?.integer()?).ok()
    }

    pub(crate) fn text(self, number: u16) -> Option<String> {
        self.0.get(number).map(Attr::text)
    }

    pub(crate) fn flag(self, number: u16) -> bool {
        self.0.get(number).is_some()
    }

    pub(crate) fn addr(self, number: u16) -> Option<IpAddr> {
        address(self.0.get(number)?)
    }

    pub(crate) fn mac(self, number: u16) -> Option<Mac> {
        Some(Mac(self.0.get(number)?.data.try_into().ok()?))
    }

    fn addrs(self, number: u16) -> Vec<IpAddr> {
        let of_number = self.0.filter(|attr| attr.number == number);
        of_number.filter_map(address).collect()
    }
}

fn address(attr: Attr<'_>) -> Option<IpAddr> {
    let bytes: [u8; 16] = attr.data.try_into().ok()?;
    Some(IpAddr::from(bytes).to_canonical())
}

/// An address as the family carries it: IPv4 mapped into IPv6.
pub(crate) fn octets(addr: IpAddr) -> [u8; 16] {
    match addr {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    }
}

/// Enumerations of the specification, with its names.
macro_rules! enumeration {
    ($(#[doc = $doc:literal])* $name:ident: $module:ident { $($(#[doc = $vdoc:literal])* $variant:ident = $number:ident,)* }) => {
        $(#[doc = $doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name { $($(#[doc = $vdoc])* $variant,)* }

        impl $name {
            /// The one with this number.
            pub(crate) fn from_number(number: u32) -> Option<Self> {
                match number {
                    $(uapi::$module::$number => Some(Self::$variant),)*
                    _ => None,
                }
            }

            /// Its number.
            #[allow(dead_code)] // Some are only received.
            pub(crate) fn number(self) -> u32 {
                match self {
                    $(Self::$variant => uapi::$module::$number,)*
                }
            }

            /// The name in the specification.
            pub fn name(self) -> &'static str {
                let named = uapi::$module::NAMES.iter().find(|entry| entry.0 == self.number());
                named.map_or("?", |entry| entry.1)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.name())
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.serialize_str(self.name())
            }
        }
    };
}
pub(crate) use enumeration;

enumeration! {
    /// How packets of a connection are carried.
    Encap: encap {
        /// Directly on Ethernet.
        Sunh = SUNH,
        /// In UDP over IPv4.
        Udp4 = UDP4,
        /// In UDP over IPv6.
        Udp6 = UDP6,
    }
}

enumeration! {
    /// Whether a port can send and receive.
    PortState: port_state {
        /// It cannot.
        Down = DOWN,
        /// It can.
        Up = UP,
    }
}

enumeration! {
    /// State of a connection.
    ConnState: conn_state {
        /// Configured, not started.
        Created = CREATED,
        /// Started.
        Established = ESTABLISHED,
        /// Finishing.
        Draining = DRAINING,
        /// Ended in order.
        Stopped = STOPPED,
        /// Ended by failure.
        Broken = BROKEN,
    }
}

/// What a port receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortEncap {
    /// Frames of the SUNH EtherType.
    pub sunh: bool,
    /// Datagrams of the UDP port.
    pub udp: bool,
}

impl PortEncap {
    pub(crate) fn bits(self) -> u32 {
        let sunh = if self.sunh { uapi::port_encap::SUNH } else { 0 };
        let udp = if self.udp { uapi::port_encap::UDP } else { 0 };
        sunh | udp
    }

    fn from_bits(bits: u32) -> Self {
        Self {
            sunh: bits & uapi::port_encap::SUNH != 0,
            udp: bits & uapi::port_encap::UDP != 0,
        }
    }

    /// The names of what is set.
    pub fn names(self) -> Vec<&'static str> {
        let names = uapi::port_encap::NAMES.iter();
        let set = names.filter(|(bit, _)| self.bits() & bit != 0);
        set.map(|(_, name)| *name).collect()
    }
}

impl Serialize for PortEncap {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(self.names())
    }
}

/// An Ethernet address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mac(pub [u8; 6]);

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl FromStr for Mac {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const WRONG: &str = "not an Ethernet address: six pairs of hexadecimal digits with colons";
        let mut mac = [0; 6];
        let mut parts = text.split(':');
        for byte in &mut mac {
            let part = parts.next().filter(|part| (1..=2).contains(&part.len()));
            let part = part.filter(|part| part.bytes().all(|digit| digit.is_ascii_hexdigit()));
            *byte = u8::from_str_radix(part.ok_or(WRONG)?, 16).map_err(|_| WRONG)?;
        }
        match parts.next() {
            None => Ok(Self(mac)),
            Some(_) => Err(WRONG),
        }
    }
}

impl Serialize for Mac {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

/// The prefix of a subnet: an IP address and a number of bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix {
    /// The address, with a host part of 0.
    pub addr: IpAddr,
    /// Bits before the host part.
    pub len: u8,
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.addr, self.len)
    }
}

impl FromStr for Prefix {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const WRONG: &str = "not a prefix: an IP address, a slash, and a number of bits";
        let (addr, len) = text.split_once('/').ok_or(WRONG)?;
        let digits = len.bytes().all(|digit| digit.is_ascii_digit());
        Ok(Self {
            addr: addr.parse().map_err(|_| WRONG)?,
            len: len.parse().ok().filter(|_| digits).ok_or(WRONG)?,
        })
    }
}

impl Serialize for Prefix {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

/// Named numbers in the kernel's order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters(pub Vec<(String, u64)>);

impl Counters {
    /// The value of the name; 0 if the kernel does not have it.
    pub fn get(&self, name: &str) -> u64 {
        let named = self.0.iter().find(|counter| counter.0 == name);
        named.map_or(0, |counter| counter.1)
    }

    /// Counters that come as attributes of a set.
    pub(crate) fn from_set(attrs: Attrs<'_>, set: &[uapi::Attr]) -> Self {
        let named = attrs.filter_map(|attr| {
            let known = set.iter().find(|known| known.number == attr.number)?;
            Some((known.name.to_owned(), attr.integer()?))
        });
        Self(named.collect())
    }

    /// Pairs of name and value, each nested in an attribute `nest`.
    pub(crate) fn from_nests(attrs: Attrs<'_>, nest: u16, name: u16, value: u16) -> Self {
        let pairs = attrs.filter(|attr| attr.number == nest).filter_map(|attr| {
            let inner = Object(attr.nested());
            Some((inner.text(name)?, inner.int(value)?))
        });
        Self(pairs.collect())
    }

    pub(crate) fn from_stats(attrs: Attrs<'_>) -> Self {
        Self::from_nests(attrs, uapi::stats::DROP, counter::NAME, counter::VALUE)
    }
}

impl Serialize for Counters {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(Some(self.0.len()))?;
        for (name, value) in &self.0 {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

/// The node: one network namespace.
#[derive(Clone, Debug, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Node {
    /// Number of the socket address family.
    pub family: u16,
    /// Version of the user interface.
    pub uapi_version: u32,
    /// Version of the module.
    pub module_version: String,
    /// EtherType of SUNH.
    pub ethertype: u16,
    /// Next Header of SUPERp.
    pub next_header: u8,
    /// UDP destination port.
    pub udp_port: u16,
    /// Bits of an address in a SUNH header.
    pub caddr_bits: u8,
    /// Number of ports.
    pub ports: u32,
    /// Number of connections.
    pub conns: u32,
    /// Number of queue pairs.
    pub qps: u32,
    /// Number of memory regions.
    pub regions: u32,
    /// Addresses of the ports' devices.
    pub addresses: Vec<IpAddr>,
    /// Address of the connection manager.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cm_address: Option<IpAddr>,
    /// Whether packets are forwarded.
    pub forwarding: bool,
    /// Packets forwarded so far.
    pub forwarded: u64,
    /// First address of new regions in a global address space; 0: they get keys.
    pub rma_base: u64,
    /// Bytes from there on, 0 for all.
    pub rma_size: u64,
}

impl Node {
    pub(crate) fn read(o: Object<'_>) -> Result<Self> {
        Ok(Self {
            family: o.need(o.int(node::FAMILY), "node without family")?,
            uapi_version: o.need(o.int(node::UAPI_VERSION), "node without uapi-version")?,
            module_version: o.text(node::MODULE_VERSION).unwrap_or_default(),
            ethertype: o.need(o.int(node::ETHERTYPE), "node without ethertype")?,
            next_header: o.need(o.int(node::NEXT_HEADER), "node without next-header")?,
            udp_port: o.need(o.int(node::UDP_PORT), "node without udp-port")?,
            caddr_bits: o.need(o.int(node::CADDR_BITS), "node without caddr-bits")?,
            ports: o.int(node::PORTS).unwrap_or(0),
            conns: o.int(node::CONNS).unwrap_or(0),
            qps: o.int(node::QPS).unwrap_or(0),
            regions: o.int(node::REGIONS).unwrap_or(0),
            addresses: o.addrs(node::ADDRESS),
            cm_address: o.addr(node::CM_ADDRESS).filter(|a| !a.is_unspecified()),
            forwarding: o.int(node::FORWARDING) == Some(1u8),
            forwarded: o.int(node::FORWARDED).unwrap_or(0),
            rma_base: o.int(node::RMA_BASE).unwrap_or(0),
            rma_size: o.int(node::RMA_SIZE).unwrap_or(0),
        })
    }
}

/// Where the next hop of a route is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Via {
    /// Its IP address, for the neighbour table.
    Via(IpAddr),
    /// Its Ethernet address.
    Lladdr(Mac),
    /// There is none: UDP reaches the node at its IP address, which has this prefix.
    Prefix(Prefix),
}

/// A next hop of a SUNH address.
#[derive(Clone, Debug, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Route {
    /// The SUNH address.
    pub address: u16,
    /// Index of the device.
    pub ifindex: u32,
    /// Its name.
    pub ifname: String,
    /// The next hop.
    #[serde(flatten)]
    pub via: Via,
    /// Frames sent to it.
    pub packets: u64,
}

impl Route {
    pub(crate) fn read(o: Object<'_>) -> Result<Self> {
        let via = o.addr(route::VIA).map(Via::Via);
        let mac = o.mac(route::LLADDR).map(Via::Lladdr);
        let prefix = o.addr(route::PREFIX).zip(o.int(route::PREFIX_LEN));
        let prefix = prefix.map(|(addr, len)| Via::Prefix(Prefix { addr, len }));
        Ok(Self {
            address: o.need(o.int(route::ADDRESS), "route without address")?,
            ifindex: o.need(o.int(route::IFINDEX), "route without ifindex")?,
            ifname: o.text(route::IFNAME).unwrap_or_default(),
            via: o.need(via.or(mac).or(prefix), "route without next hop")?,
            packets: o.int(route::PACKETS).unwrap_or(0),
        })
    }
}

/// A device that SUPERp uses.
#[derive(Clone, Debug, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Port {
    /// Index of the device.
    pub ifindex: u32,
    /// Its name.
    pub name: String,
    /// What is received there.
    pub encap: PortEncap,
    /// Whether it works.
    pub state: PortState,
    /// Bytes.
    pub mtu: u32,
    /// Connections that use it.
    pub conns: u32,
    /// Its addresses.
    pub addresses: Vec<IpAddr>,
}

impl Port {
    pub(crate) fn read(o: Object<'_>) -> Result<Self> {
        let state = o.int(port::STATE).and_then(PortState::from_number);
        Ok(Self {
            ifindex: o.need(o.int(port::IFINDEX), "port without ifindex")?,
            name: o.text(port::NAME).unwrap_or_default(),
            encap: PortEncap::from_bits(o.int(port::ENCAP).unwrap_or(0)),
            state: o.need(state, "port of unknown state")?,
            mtu: o.int(port::MTU).unwrap_or(0),
            conns: o.int(port::CONNS).unwrap_or(0),
            addresses: o.addrs(port::ADDRESS),
        })
    }
}

/// A parameter of the node.
#[derive(Clone, Debug, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Param {
    /// Its name.
    pub name: String,
    /// Value in force.
    pub value: u64,
    /// Smallest value.
    pub min: u64,
    /// Largest value.
    pub max: u64,
    /// Value when nothing was set.
    pub default: u64,
    /// Unit of the values; empty for plain numbers.
    pub unit: String,
    /// It may be given for one connection.
    pub per_conn: bool,
    /// What it does.
    pub doc: String,
}

impl Param {
    pub(crate) fn read(o: Object<'_>) -> Result<Self> {
        Ok(Self {
            name: o.need(o.text(param::NAME), "parameter without name")?,
            value: o.need(o.int(param::VALUE), "parameter without value")?,
            min: o.int(param::MIN_VALUE).unwrap_or(0),
            max: o.int(param::MAX_VALUE).unwrap_or(u64::MAX),
            default: o.int(param::DEFAULT).unwrap_or(0),
            unit: o.text(param::UNIT).unwrap_or_default(),
            per_conn: o.flag(param::PER_CONN),
            doc: o.text(param::DOC).unwrap_or_default(),
        })
    }
}

/// A registered memory region.
#[derive(Clone, Debug, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Region {
    /// Its 24-bit key.
    pub key: u32,
    /// First byte in its owner's address space.
    pub addr: u64,
    /// Bytes.
    pub length: u64,
    /// RMA address of the first byte.
    pub rma_addr: u64,
    /// `SUPERP_ACCESS_*` bits.
    pub access: u32,
    /// Partition, 0 for any.
    pub partition: u32,
    /// Queue pair that owns it, 0 while that is not bound.
    pub qpn: u32,
    /// Process that registered it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// Bytes that peers have read.
    pub remote_reads: u64,
    /// Bytes that peers have written.
    pub remote_writes: u64,
    /// What that process executes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
}

impl Region {
    pub(crate) fn read(o: Object<'_>) -> Result<Self> {
        Ok(Self {
            key: o.need(o.int(region::KEY), "region without key")?,
            addr: o.int(region::ADDR).unwrap_or(0),
            length: o.int(region::LENGTH).unwrap_or(0),
            rma_addr: o.int(region::RMA_ADDR).unwrap_or(0),
            access: o.int(region::ACCESS).unwrap_or(0),
            partition: o.int(region::PARTITION).unwrap_or(0),
            qpn: o.int(region::QPN).unwrap_or(0),
            pid: o.int(region::PID),
            remote_reads: o.int(region::REMOTE_READS).unwrap_or(0),
            remote_writes: o.int(region::REMOTE_WRITES).unwrap_or(0),
            command: o.text(region::COMMAND),
        })
    }
}

/// A queue pair.
#[derive(Clone, Debug, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Qp {
    /// Its number.
    pub qpn: u32,
    /// Connection in use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub local_cid: Option<u16>,
    /// The peer's address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remote_addr: Option<IpAddr>,
    /// The peer's queue pair.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remote_qpn: Option<u32>,
    /// Process that made it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// Messages sent.
    pub tx_messages: u64,
    /// Messages received.
    pub rx_messages: u64,
    /// Bytes that wait to be read.
    pub rx_queued: u64,
    /// Operations that are not complete.
    pub pending: u32,
    /// What the process that made it executes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Inode number of the socket: the processes with a link `socket:[NUMBER]` in `/proc/PID/fd` have it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inode: Option<u64>,
}

impl Qp {
    pub(crate) fn read(o: Object<'_>) -> Result<Self> {
        Ok(Self {
            qpn: o.need(o.int(qp::QPN), "queue pair without number")?,
            local_cid: o.int(qp::LOCAL_CID),
            remote_addr: o.addr(qp::REMOTE_ADDR),
            remote_qpn: o.int(qp::REMOTE_QPN),
            pid: o.int(qp::PID),
            tx_messages: o.int(qp::TX_MESSAGES).unwrap_or(0),
            rx_messages: o.int(qp::RX_MESSAGES).unwrap_or(0),
            rx_queued: o.int(qp::RX_QUEUED).unwrap_or(0),
            pending: o.int(qp::PENDING).unwrap_or(0),
            command: o.text(qp::COMMAND),
            inode: o.int(qp::INODE),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::{Writer, GENERIC_HEADER, HEADER};

    fn attrs(fill: impl FnOnce(&mut Writer)) -> Vec<u8> {
        let mut writer = Writer::new(0, 0, 0, 0);
        fill(&mut writer);
        writer.finish().unwrap()[HEADER + GENERIC_HEADER..].to_vec()
    }

    #[test]
    fn addresses_of_ipv4_are_mapped_and_unmapped() {
        let v4: IpAddr = "10.23.0.1".parse().unwrap();
        assert_eq!(
            octets(v4),
            [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 23, 0, 1]
        );
        let bytes = attrs(|to| {
            to.put(port::ADDRESS, &octets(v4));
            to.put(port::ADDRESS, &octets("fd00::1".parse().unwrap()));
            to.put(port::ADDRESS, &[1, 2, 3]);
        });
        let addrs = Object(Attrs(&bytes)).addrs(port::ADDRESS);
        assert_eq!(addrs, [v4, "fd00::1".parse().unwrap()]);
    }

    #[test]
    fn a_route_without_next_hop_has_a_prefix() {
        let addr: IpAddr = "10.23.0.0".parse().unwrap();
        let read = |with_len: bool| {
            let bytes = attrs(|to| {
                to.put_u16(route::ADDRESS, 2);
                to.put_u32(route::IFINDEX, 3);
                to.put(route::PREFIX, &octets(addr));
                if with_len {
                    to.put_u8(route::PREFIX_LEN, 16);
                }
            });
            Route::read(Object(Attrs(&bytes)))
        };
        let prefix = Prefix { addr, len: 16 };
        assert_eq!(read(true).unwrap().via, Via::Prefix(prefix));
        assert!(read(false).is_err());
    }

    #[test]
    fn objects_without_what_they_need_are_errors() {
        let empty = Object(Attrs(&[]));
        assert!(Node::read(empty).is_err());
        assert!(Port::read(empty).is_err());
        assert!(Param::read(empty).is_err());
        assert!(Region::read(empty).is_err());
        assert!(Qp::read(empty).is_err());
    }

    #[test]
    fn counters_of_the_node_keep_their_order() {
        let bytes = attrs(|to| {
            for (name, value) in [("unknown_dcid", 3), ("malformed", 1 << 40)] {
                to.nest(uapi::stats::DROP, |nest| {
                    nest.put_text(counter::NAME, name);
                    nest.put_uint(counter::VALUE, value);
                });
            }
        });
        let counters = Counters::from_stats(Attrs(&bytes));
        assert_eq!(
            counters.0,
            [("unknown_dcid".into(), 3), ("malformed".into(), 1 << 40)]
        );
        assert_eq!(counters.get("absent"), 0);
    }

    #[test]
    fn ethernet_addresses_parse_or_are_refused() {
        assert_eq!(
            "2:0:0:a:0b:ff".parse::<Mac>(),
            Ok(Mac([2, 0, 0, 10, 11, 255]))
        );
        for wrong in [
            "",
            "1:2:3:4:5",
            "1:2:3:4:5:6:7",
            "1:2:3:4:5:100",
            "1:2:3:4:5:+6",
            "1:2:3:4:5:g",
        ] {
            assert!(wrong.parse::<Mac>().is_err(), "{wrong}");
        }
    }
}
