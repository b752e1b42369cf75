// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Connections: what the kernel tells of one, and what is asked for.

use crate::codec::Writer;
use crate::object::{octets, ConnState, Counters, Encap, Mac, Object};
use crate::uapi::{conn, conn_param, conn_stats};
use crate::Result;
use std::net::IpAddr;

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
    /// Device, unless the packets are routed.
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
    /// Every packet that we send is another flow to the network.
    pub spray: bool,
    /// The peer's packets are delivered in order.
    pub ordered_rx: bool,
    /// The extension opcodes are in use.
    pub ext: bool,
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
    /// First packet sequence number.
    pub start_psn: u32,
    /// First transaction id.
    pub start_xid: u16,
    /// Its parameters.
    pub params: Counters,
    /// Its state.
    pub state: ConnState,
    /// Why it is in that state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// Its counters, if they were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stats: Option<Counters>,
}

impl Conn {
    pub(crate) fn read(o: Object<'_>) -> Result<Self> {
        let encap = o.int(conn::ENCAP).and_then(Encap::from_number);
        let state = o.int(conn::STATE).and_then(ConnState::from_number);
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
            ext: o.int(conn::EXT) == Some(1u8),
            lite: o.int(conn::LITE) == Some(1u8),
            partition: o.int(conn::PARTITION).unwrap_or(0),
            tclass: o.int(conn::TCLASS).unwrap_or(0),
            hop_limit: o.int(conn::HOP_LIMIT).unwrap_or(0),
            flow_label: o.int(conn::FLOW_LABEL).unwrap_or(0),
            mtu: o.int(conn::MTU).unwrap_or(0),
            start_psn: o.int(conn::START_PSN).unwrap_or(0),
            start_xid: o.int(conn::START_XID).unwrap_or(0),
            params: Counters::from_nests(o.0, conn::PARAM, conn_param::NAME, conn_param::VALUE),
            state: o.need(state, "connection of unknown state")?,
            cause: o.text(conn::CAUSE),
            stats: o
                .0
                .get(conn::STATS)
                .map(|stats| Counters::from_set(stats.nested(), conn_stats::ATTRS)),
        })
    }
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
    /// Device.
    pub ifindex: Option<u32>,
    /// Own address.
    pub local_addr: Option<IpAddr>,
    /// The peer's address.
    pub remote_addr: IpAddr,
    /// The peer's Ethernet address.
    pub lladdr: Option<Mac>,
    /// Our packets are delivered in order.
    pub ordered_tx: Option<bool>,
    /// Every packet is another flow to the network; needs `ordered_tx` off.
    pub spray: Option<bool>,
    /// The peer's packets are delivered in order.
    pub ordered_rx: Option<bool>,
    /// Use the extension opcodes.
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
        if let Some(addr) = self.local_addr {
            to.put(conn::LOCAL_ADDR, &octets(addr));
        }
        to.put(conn::REMOTE_ADDR, &octets(self.remote_addr));
        if let Some(mac) = self.lladdr {
            to.put(conn::LLADDR, &mac.0);
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
            remote_addr: "2001:db8::1".parse().unwrap(),
            lladdr: Some(Mac([2, 0, 0, 0, 0, 1])),
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
        assert!(conn.ordered_tx && !conn.ordered_rx && conn.ext);
        assert_eq!((conn.partition, conn.tclass, conn.hop_limit), (7, 0x2b, 15));
        assert_eq!((conn.flow_label, conn.mtu), (0xabc, 1484));
        assert_eq!((conn.start_psn, conn.start_xid), (u32::MAX, u16::MAX));
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
