// SPDX-License-Identifier: GPL-2.0

//! Received packets go to their connections. Everything here runs in softirq.

use kernel::{prelude::*, sync::Arc};

use super::Node;
use crate::{
    conn::Conn,
    kapi::{
        path::Encap,
        skb::{Burst, SkBuff},
    },
    proto::{
        wire::{PdlHeader, Sunh, TalHeader, UdpIp, FIXED_LEN},
        DropReason,
    },
};

/// A packet, its connection, and the index of the path that it arrived on.
type Demuxed = (Arc<Conn>, usize, SkBuff);

fn sunh_header(skb: &mut SkBuff) -> Result<Sunh, DropReason> {
    if !skb.may_pull(Sunh::LEN) {
        return Err(DropReason::TooShort);
    }
    let header = skb.head().first_chunk().ok_or(DropReason::TooShort)?;
    Ok(Sunh::parse(header))
}

impl Node {
    /// Receives SUNH frames that arrived together. Each begins with its SUNH header. `lite`: they
    /// have the EtherType of SUPERp-lite. Softirq.
    pub(crate) fn rx_sunh(&self, ifindex: u32, lite: bool, frames: Burst) {
        self.demux(frames, |skb, last| self.rx_frame(ifindex, lite, skb, last));
    }

    /// Gives packets to their connections. `demux_one` finds connection and path of a packet, given
    /// the connection of the packet before. It returns `Ok(None)` for a packet that it has
    /// forwarded.
    fn demux(
        &self,
        mut frames: Burst,
        demux_one: impl Fn(SkBuff, Option<&Arc<Conn>>) -> Result<Option<Demuxed>, DropReason>,
    ) {
        // Usually all packets are of one connection, which takes its lock once for them.
        let mut to: Option<(Arc<Conn>, usize)> = None;
        let mut packets = Burst::new();
        while let Some(skb) = frames.pop() {
            match demux_one(skb, to.as_ref().map(|(conn, _)| conn)) {
                Ok(None) => {}
                Ok(Some((conn, path, skb))) => {
                    let same =
                        |(other, by): &(Arc<Conn>, usize)| Arc::ptr_eq(other, &conn) && *by == path;
                    if !to.as_ref().is_some_and(same) {
                        let packets = core::mem::replace(&mut packets, Burst::new());
                        if let Some((conn, path)) = to.replace((conn, path)) {
                            conn.receive(path, packets);
                        }
                    }
                    packets.push(skb);
                }
                Err(reason) => self.count_drop(reason),
            }
        }
        if let Some((conn, path)) = to {
            conn.receive(path, packets);
        }
    }

    /// Forwards a packet, or each packet of a run. The first `common` bytes of a run belong to each
    /// of its packets.
    fn forward_each(
        &self,
        skb: SkBuff,
        common: usize,
        forward_one: impl Fn(SkBuff) -> Result<(), DropReason>,
    ) {
        let forward = |packet: Result<SkBuff, DropReason>| {
            if let Err(reason) = packet.and_then(&forward_one) {
                self.count_drop(reason);
            }
        };
        if skb.packets() == 1 {
            return forward(Ok(skb));
        }
        skb.split_run(common).for_each(forward);
        skb.consume();
    }

    /// A SUNH frame for a connection. `Ok(None)`: it was forwarded.
    fn rx_frame(
        &self,
        ifindex: u32,
        lite: bool,
        mut skb: SkBuff,
        last: Option<&Arc<Conn>>,
    ) -> Result<Option<Demuxed>, DropReason> {
        let header = sunh_header(&mut skb)?;
        if let Some(route) = self.route_of(ifindex, &header) {
            self.forward_each(skb, Sunh::LEN, |skb| {
                self.forward(ifindex, lite, &route, &header, skb)
            });
            return Ok(None);
        }
        let (conn, path) = self.sunh_to_conn(ifindex, lite, &header, &mut skb, last)?;
        Ok(Some((conn, path, skb)))
    }

    fn sunh_to_conn(
        &self,
        ifindex: u32,
        lite: bool,
        header: &Sunh,
        skb: &mut SkBuff,
        last: Option<&Arc<Conn>>,
    ) -> Result<(Arc<Conn>, usize), DropReason> {
        if header.next_header != crate::kapi::params::next_header() {
            return Err(DropReason::NextHeader);
        }
        if !skb.pull(Sunh::LEN) {
            return Err(DropReason::TooShort);
        }
        let conn = match lite {
            true => self.lite_conn_of(header.source, skb)?,
            false => self.conn_of(skb, last)?,
        };
        if conn.identity().encap != Encap::Ether {
            return Err(DropReason::WrongPath);
        }
        let path = conn.path_of(
            ifindex,
            |ends| header.destination == ends.local_sunh,
            |ends| header.source == ends.remote_sunh,
        )?;
        Ok((conn, path))
    }

    /// The SUPERp-lite connection with the node of SUNH address `source`. Makes the Transaction
    /// header linear.
    fn lite_conn_of(&self, source: u16, skb: &mut SkBuff) -> Result<Arc<Conn>, DropReason> {
        if !skb.may_pull(TalHeader::LEN) {
            return Err(DropReason::TooShort);
        }
        self.lite.get(source.into()).ok_or(DropReason::NoConnection)
    }

    /// Receives datagrams that arrived together at the UDP port, all with these headers. Each
    /// begins with its PDL header. Softirq.
    pub(crate) fn rx_udp(&self, ifindex: u32, header: &UdpIp, datagrams: Burst) {
        self.demux(datagrams, |skb, last| {
            self.rx_datagram(ifindex, header, skb, last)
        });
    }

    /// A datagram for a connection. `Ok(None)`: it was forwarded.
    fn rx_datagram(
        &self,
        ifindex: u32,
        header: &UdpIp,
        mut skb: SkBuff,
        last: Option<&Arc<Conn>>,
    ) -> Result<Option<Demuxed>, DropReason> {
        if let Some(to) = self.compress(ifindex, header) {
            self.forward_each(skb, 0, |skb| self.forward_compressed(&to, skb));
            return Ok(None);
        }
        let conn = self.conn_of(&mut skb, last)?;
        if conn.identity().encap == Encap::Ether {
            return Err(DropReason::WrongPath);
        }
        let path = conn.path_of(
            ifindex,
            |ends| ends.local == header.destination,
            |ends| ends.remote == header.source,
        )?;
        Ok(Some((conn, path, skb)))
    }

    /// The connection that the PDL header at the front of `skb` names, which usually is the `last`
    /// one. Makes the fixed headers linear.
    fn conn_of(&self, skb: &mut SkBuff, last: Option<&Arc<Conn>>) -> Result<Arc<Conn>, DropReason> {
        if !skb.may_pull(FIXED_LEN) {
            return Err(DropReason::TooShort);
        }
        let header = skb.head().first_chunk().ok_or(DropReason::TooShort)?;
        let cid = PdlHeader::parse(header).dcid.into();
        let conn = match last {
            Some(last) if last.cid() == cid => Some(last.clone()),
            _ => self.conn(cid),
        };
        conn.filter(|conn| !conn.identity().config.lite)
            .ok_or(DropReason::NoConnection)
    }
}
