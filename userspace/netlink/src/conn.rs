// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Connections: what the kernel tells of one, and what is asked for.

use crate::codec::Writer;
use crate::object::{octets, ConnState, Counters, Encap, Mac, Object, PortState};
use crate::uapi::{conn, conn_param, conn_path, conn_stats, extensions};
use crate::Result;
use std::net::IpAddr;

/// A path of a connection.
#[derive(Clone, Debug, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Path {
    /// Device, unless the packets are routed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ifindex: Option<u32>,
    /// Its name, while there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ifname: Option<String>,
    /// Own address.
    pub local_addr: IpAddr,
    /// The peer's address.
    pub remote_addr: IpAddr,
    /// The peer's Ethernet address, if it is not found by the neighbour table.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lladdr: Option<Mac>,
    /// Whether packets can leave by it.
    pub state: PortState,
    /// Packets sent by it.
    pub tx_packets: u64,
    /// Packets received by it.
    pub rx_packets: u64,
}

impl Path {
    fn read(o: Object<'_>) -> Result<Self> {
        let state = o.int(conn_path::STATE).and_then(PortState::from_number);
        Ok(Self {
            ifindex: o.int(conn_path::IFINDEX),
            ifname: o.text(conn_path::IFNAME),
            local_addr: o.need(o.addr(conn_path::LOCAL_ADDR), "path without local-addr")?,
            remote_addr: o.need(o.addr(conn_path::REMOTE_ADDR), "path without remote-addr")?,
            lladdr: o.mac(conn_path::LLADDR),
            state: o.need(state, "path of unknown state")?,
            tx_packets: o.int(conn_path::TX_PACKETS).unwrap_or(0),
            rx_packets: o.int(conn_path::RX_PACKETS).unwrap_or(0),
        })
    }
}

/// A connection.
#[derive(Clone, Debug, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Conn {
    /// Its id here.
    pub local_cid: u16,
    /// Its id at the peer.
    pub remote_cid: u16,
    /// How packets are carried.
    pub encap: Encap,
    /// Device of the first path, unless the packets are routed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ifindex: Option<u32>,
    /// Its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ifname: Option<String>,
    /// Own address.
    pub local_addr: IpAddr,
    /// The peer's address.
    pub remote_addr: IpAddr,
    /// The peer's Ethernet address, if it is not found by the neighbour table.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lladdr: Option<Mac>,
    /// Our packets are delivered in order.
    pub ordered_tx: bool,
    /// Every packet that we send takes another path and is another flow to the network.
    pub spray: bool,
    /// The peer's packets are delivered in order.
    pub ordered_rx: bool,
    /// The extension opcodes are in use.
    pub ext: bool,
    /// They are if the peer has them; until it has said so, they are not.
    pub ext_auto: bool,
    /// SUPERp-lite: without the packet delivery layer.
    pub lite: bool,
    /// Partition, 0 for any.
    pub partition: u32,
    /// Traffic Class.
    pub tclass: u8,
    /// Hop Limit.
    pub hop_limit: u8,
    /// Flow Label.
    pub flow_label: u32,
    /// Largest packet, bytes from the packet delivery header.
    pub mtu: u32,
    /// First packet sequence number. Only administrators of the network namespace are told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_psn: Option<u32>,
    /// First transaction id. Only administrators of the network namespace are told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_xid: Option<u16>,
    /// Its parameters.
    pub params: Counters,
    /// Its state.
    pub state: ConnState,
    /// Why it is in that state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// A packet of the peer has been accepted since it was created or reset.
    pub heard: bool,
    /// Largest packet that is made now, bytes from the packet delivery header: less than `mtu` when the path takes
    /// less.
    pub path_mtu: u32,
    /// Its paths.
    pub paths: Vec<Path>,
    /// Its counters, if they were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stats: Option<Counters>,
}

impl Conn {
    /// Started, and waiting for the peer's first packet.
    pub fn connecting(&self) -> bool {
        self.state == ConnState::Established && !self.heard
    }

    pub(crate) fn read(o: Object<'_>) -> Result<Self> {
        let encap = o.int(conn::ENCAP).and_then(Encap::from_number);
        let state = o.int(conn::STATE).and_then(ConnState::from_number);
        let paths = o.0.filter(|attr| attr.number == conn::PATH);
        let paths = paths.map(|attr| Path::read(Object(attr.nested())));
        Ok(Self {
            local_cid: o.need(o.int(conn::LOCAL_CID), "connection without local-cid")?,
            remote_cid: o.need(o.int(conn::REMOTE_CID), "connection without remote-cid")?,
            encap: o.need(encap, "connection of unknown encapsulation")?,
            ifindex: o.int(conn::IFINDEX),
            ifname: o.text(conn::IFNAME),
            local_addr: o.need(o.addr(conn::LOCAL_ADDR), "connection without local-addr")?,
            remote_addr: o.need(o.addr(conn::REMOTE_ADDR), "connection without remote-addr")?,
            lladdr: o.mac(conn::LLADDR),
            ordered_tx: o.int(conn::ORDERED_TX) == Some(1u8),
            spray: o.int(conn::SPRAY) == Some(1u8),
            ordered_rx: o.int(conn::ORDERED_RX) == Some(1u8),
            ext: o.int(conn::EXT_USED) == Some(1u8),
            ext_auto: o.int(conn::EXT).map(u8::into) == Some(extensions::AUTO),
            lite: o.int(conn::LITE) == Some(1u8),
            partition: o.int(conn::PARTITION).unwrap_or(0),
            tclass: o.int(conn::TCLASS).unwrap_or(0),
            hop_limit: o.int(conn::HOP_LIMIT).unwrap_or(0),
            flow_label: o.int(conn::FLOW_LABEL).unwrap_or(0),
            mtu: o.int(conn::MTU).unwrap_or(0),
            start_psn: o.int(conn::START_PSN),
            start_xid: o.int(conn::START_XID),
            params: Counters::from_nests(o.0, conn::PARAM, conn_param::NAME, conn_param::VALUE),
            state: o.need(state, "connection of unknown state")?,
            cause: o.text(conn::CAUSE),
            heard: o.int(conn::HEARD) == Some(1u8),
            path_mtu: o.int(conn::PATH_MTU).unwrap_or(0),
            paths: paths.collect::<Result<_>>()?,
            stats: o
                .0
                .get(conn::STATS)
                .map(|stats| Counters::from_set(stats.nested(), conn_stats::ATTRS)),
        })
    }
}

/// A path of a connection to be created.
#[derive(Clone, Debug)]
pub struct PathSpec {
    /// Device.
    pub ifindex: u32,
    /// Own address; `None` for the connection's.
    pub local_addr: Option<IpAddr>,
    /// The peer's address; `None` for the connection's.
    pub remote_addr: Option<IpAddr>,
    /// The peer's Ethernet address.
    pub lladdr: Option<Mac>,
}

/// A connection to be created. What is `None` is left to the kernel.
#[derive(Clone, Debug)]
pub struct ConnSpec {
    /// Its id here; `None` for the smallest free one.
    pub local_cid: Option<u16>,
    /// Its id at the peer.
    pub remote_cid: u16,
    /// How packets are carried.
    pub encap: Encap,
    /// Device of the only path.
    pub ifindex: Option<u32>,
    /// Own address.
    pub local_addr: Option<IpAddr>,
    /// The peer's address; needed unless every path has one.
    pub remote_addr: Option<IpAddr>,
    /// The peer's Ethernet address, of the only path.
    pub lladdr: Option<Mac>,
    /// The paths, when there are several: 4 at most.
    pub paths: Vec<PathSpec>,
    /// Our packets are delivered in order.
    pub ordered_tx: Option<bool>,
    /// Every packet takes another path and is another flow to the network; needs `ordered_tx` off.
    pub spray: Option<bool>,
    /// The peer's packets are delivered in order.
    pub ordered_rx: Option<bool>,
    /// Use the extension opcodes; if the peer has them, when it is left out.
    pub ext: Option<bool>,
    /// SUPERp-lite: `remote_cid` must be 0 then.
    pub lite: Option<bool>,
    /// Partition, 0 for any.
    pub partition: Option<u32>,
    /// Traffic Class.
    pub tclass: Option<u8>,
    /// Hop Limit, 1 to 15 over SUNH.
    pub hop_limit: Option<u8>,
    /// Flow Label, 12 bits over SUNH, else 20.
    pub flow_label: Option<u32>,
    /// Largest packet, bytes.
    pub mtu: Option<u32>,
    /// First packet sequence number.
    pub start_psn: Option<u32>,
    /// First transaction id.
    pub start_xid: Option<u16>,
    /// Parameters that differ from the node's, by name.
    pub params: Vec<(String, u64)>,
}

impl ConnSpec {
    pub(crate) fn write(&self, to: &mut Writer) {
        let byte = |to: &mut Writer, attr, value: Option<u8>| {
            value.into_iter().for_each(|value| to.put_u8(attr, value));
        };
        let short = |to: &mut Writer, attr, value: Option<u16>| {
            value.into_iter().for_each(|value| to.put_u16(attr, value));
        };
        let word = |to: &mut Writer, attr, value: Option<u32>| {
            value.into_iter().for_each(|value| to.put_u32(attr, value));
        };
        short(to, conn::LOCAL_CID, self.local_cid);
        to.put_u16(conn::REMOTE_CID, self.remote_cid);
        to.put_u32(conn::ENCAP, self.encap.number());
        word(to, conn::IFINDEX, self.ifindex);
        let addr = |to: &mut Writer, attr, addr: Option<IpAddr>| {
            addr.into_iter()
                .for_each(|addr| to.put(attr, &octets(addr)));
        };
        let mac = |to: &mut Writer, attr, mac: Option<Mac>| {
            mac.into_iter().for_each(|mac| to.put(attr, &mac.0));
        };
        addr(to, conn::LOCAL_ADDR, self.local_addr);
        addr(to, conn::REMOTE_ADDR, self.remote_addr);
        mac(to, conn::LLADDR, self.lladdr);
        for path in &self.paths {
            to.nest(conn::PATH, |nest| {
                nest.put_u32(conn_path::IFINDEX, path.ifindex);
                addr(nest, conn_path::LOCAL_ADDR, path.local_addr);
                addr(nest, conn_path::REMOTE_ADDR, path.remote_addr);
                mac(nest, conn_path::LLADDR, path.lladdr);
            });
        }
        byte(to, conn::SPRAY, self.spray.map(u8::from));
        byte(to, conn::ORDERED_TX, self.ordered_tx.map(u8::from));
        byte(to, conn::ORDERED_RX, self.ordered_rx.map(u8::from));
        byte(to, conn::EXT, self.ext.map(u8::from));
        byte(to, conn::LITE, self.lite.map(u8::from));
        word(to, conn::PARTITION, self.partition);
        byte(to, conn::TCLASS, self.tclass);
        byte(to, conn::HOP_LIMIT, self.hop_limit);
        word(to, conn::FLOW_LABEL, self.flow_label);
        word(to, conn::MTU, self.mtu);
        word(to, conn::START_PSN, self.start_psn);
        short(to, conn::START_XID, self.start_xid);
        for (name, value) in &self.params {
            to.nest(conn::PARAM, |nest| {
                nest.put_text(conn_param::NAME, name);
                nest.put_uint(conn_param::VALUE, *value);
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::{Attrs, Messages, GENERIC_HEADER, HEADER};
    use crate::uapi::{cmd, conn_state};

    fn attrs(fill: impl FnOnce(&mut Writer)) -> Vec<u8> {
        let mut writer = Writer::new(0, 0, 0, 0);
        fill(&mut writer);
        writer.finish().unwrap()[HEADER + GENERIC_HEADER..].to_vec()
    }

    fn spec() -> ConnSpec {
        ConnSpec {
            local_cid: Some(64),
            remote_cid: 47,
            encap: Encap::Udp6,
            ifindex: Some(3),
            local_addr: Some("2001:db8::2".parse().unwrap()),
            remote_addr: Some("2001:db8::1".parse().unwrap()),
            lladdr: Some(Mac([2, 0, 0, 0, 0, 1])),
            paths: Vec::new(),
            ordered_tx: Some(true),
            spray: None,
            ordered_rx: Some(false),
            ext: Some(true),
            lite: None,
            partition: Some(7),
            tclass: Some(0x2b),
            hop_limit: Some(15),
            flow_label: Some(0xabc),
            mtu: Some(1484),
            start_psn: Some(u32::MAX),
            start_xid: Some(u16::MAX),
            params: vec![
                ("pdl_window_size".into(), 64),
                ("pdl_dead_time".into(), 5_000_000_000),
            ],
        }
    }

    #[test]
    fn connection_asked_for_reads_back_as_the_connection_told() {
        let bytes = attrs(|to| {
            spec().write(to);
            to.put_u8(conn::EXT_USED, 1);
            to.put_u32(conn::STATE, conn_state::BROKEN);
            to.put_text(conn::CAUSE, "peer does not answer");
            to.nest(conn::STATS, |stats| {
                stats.put_uint(conn_stats::TX_PACKETS, 5);
                stats.put_uint(conn_stats::TX_BYTES, 1 << 33);
                // One that this version does not know.
                stats.put_uint(999, 1);
            });
        });
        let conn = Conn::read(Object(Attrs(&bytes))).unwrap();
        assert_eq!((conn.local_cid, conn.remote_cid), (64, 47));
        assert_eq!(conn.encap, Encap::Udp6);
        assert_eq!(conn.ifindex, Some(3));
        assert_eq!(conn.remote_addr.to_string(), "2001:db8::1");
        assert_eq!(conn.lladdr.unwrap().to_string(), "02:00:00:00:00:01");
        assert!(conn.ordered_tx && !conn.ordered_rx && conn.ext && !conn.ext_auto);
        assert_eq!((conn.partition, conn.tclass, conn.hop_limit), (7, 0x2b, 15));
        assert_eq!((conn.flow_label, conn.mtu), (0xabc, 1484));
        assert_eq!(
            (conn.start_psn, conn.start_xid),
            (Some(u32::MAX), Some(u16::MAX))
        );
        assert_eq!(conn.params.get("pdl_window_size"), 64);
        assert_eq!(conn.params.get("pdl_dead_time"), 5_000_000_000);
        assert_eq!(conn.state.to_string(), "broken");
        assert_eq!(conn.cause.as_deref(), Some("peer does not answer"));
        let stats = conn.stats.unwrap();
        assert_eq!(stats.get("tx-packets"), 5);
        assert_eq!(stats.get("tx-bytes"), 1 << 33);
        assert_eq!(stats.0.len(), 2);
    }

    #[test]
    fn connection_asked_for_with_nothing_optional_leaves_it_out() {
        let least = ConnSpec {
            local_cid: None,
            ifindex: None,
            local_addr: None,
            lladdr: None,
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
            ..spec()
        };
        let bytes = attrs(|to| least.write(to));
        let numbers: Vec<_> = Attrs(&bytes).map(|attr| attr.number).collect();
        assert_eq!(numbers, [conn::REMOTE_CID, conn::ENCAP, conn::REMOTE_ADDR]);
    }

    #[test]
    fn paths_asked_for_read_back_as_those_told() {
        let path = |ifindex, last| PathSpec {
            ifindex,
            local_addr: None,
            remote_addr: Some(IpAddr::from([10, 23, ifindex as u8, 1])),
            lladdr: Some(Mac([2, 0, 0, 0, 0, last])),
        };
        let bytes = attrs(|to| {
            let spec = ConnSpec {
                paths: vec![path(3, 1), path(4, 2)],
                ..spec()
            };
            spec.write(to);
            to.put_u32(conn::STATE, conn_state::ESTABLISHED);
        });
        // What the kernel adds to each.
        let told = attrs(|to| {
            for attr in Attrs(&bytes) {
                match attr.number {
                    conn::PATH => to.nest(conn::PATH, |nest| {
                        for inner in attr.nested() {
                            nest.put(inner.number, inner.data);
                        }
                        nest.put(conn_path::LOCAL_ADDR, &[1; 16]);
                        nest.put_u32(conn_path::STATE, 1);
                        nest.put_uint(conn_path::TX_PACKETS, 7);
                    }),
                    number => to.put(number, attr.data),
                }
            }
        });
        // Without the state of a path it is nothing that can be told.
        assert!(Conn::read(Object(Attrs(&bytes))).is_err());
        let conn = Conn::read(Object(Attrs(&told))).unwrap();
        let found: Vec<_> = conn.paths.iter().map(|path| path.ifindex).collect();
        assert_eq!(found, [Some(3), Some(4)]);
        assert_eq!(conn.paths[1].remote_addr.to_string(), "10.23.4.1");
        assert_eq!(conn.paths[1].lladdr, Some(Mac([2, 0, 0, 0, 0, 2])));
        assert_eq!(conn.paths[0].state.to_string(), "up");
        assert_eq!((conn.paths[0].tx_packets, conn.paths[0].rx_packets), (7, 0));
    }

    #[test]
    fn request_is_one_message() {
        let mut writer = Writer::new(30, 5, 9, cmd::CONN_NEW);
        spec().write(&mut writer);
        let bytes = writer.finish().unwrap();
        assert_eq!(Messages(&bytes).count(), 1);
        assert_eq!(bytes.len() % 4, 0);
    }

    #[test]
    fn connection_without_what_it_needs_is_an_error() {
        assert!(Conn::read(Object(Attrs(&[]))).is_err());
        let bytes = attrs(|to| {
            spec().write(to);
            to.put_u32(conn::STATE, 99);
        });
        assert!(Conn::read(Object(Attrs(&bytes))).is_err());
    }
}
