// SPDX-License-Identifier: GPL-2.0

//! Packets from the links to their connections. Everything here runs in softirq.

use kernel::{prelude::*, sync::Arc};

use super::Node;
use crate::{
    conn::Conn,
    kapi::{path::Encap, skb::SkBuff},
    proto::{
        wire::{PdlHeader, Sunh, TalHeader, UdpIp, FIXED_LEN},
        DropReason,
    },
};

fn sunh_header(skb: &mut SkBuff) -> Result<Sunh, DropReason> {
    if !skb.may_pull(Sunh::LEN) {
        return Err(DropReason::TooShort);
    }
    let header = skb.head().first_chunk().ok_or(DropReason::TooShort)?;
    Ok(Sunh::parse(header))
}

impl Node {
    /// A SUNH frame, data at the SUNH header; `lite`: of the EtherType of SUPERp-lite. Softirq.
    pub(crate) fn rx_sunh(&self, ifindex: u32, lite: bool, mut skb: SkBuff) {
        let result = sunh_header(&mut skb).and_then(|header| {
            if let Some(route) = self.route_of(ifindex, &header) {
                return self.forward(ifindex, lite, &route, &header, skb);
            }
            let (conn, path) = self.sunh_to_conn(ifindex, lite, &header, &mut skb)?;
            conn.receive(path, skb);
            Ok(())
        });
        if let Err(reason) = result {
            self.count_drop(reason);
        }
    }

    fn sunh_to_conn(
        &self,
        ifindex: u32,
        lite: bool,
        header: &Sunh,
        skb: &mut SkBuff,
    ) -> Result<(Arc<Conn>, usize), DropReason> {
        if header.next_header != crate::kapi::params::next_header() {
            return Err(DropReason::NextHeader);
        }
        if !skb.pull(Sunh::LEN) {
            return Err(DropReason::TooShort);
        }
        let conn = match lite {
            true => self.lite_conn_of(header.source, skb)?,
            false => self.conn_of(skb)?,
        };
        if conn.identity().encap != Encap::Sunh {
            return Err(DropReason::WrongPath);
        }
        let path = conn.path_of(
            ifindex,
            |ends| header.destination == ends.local_sunh,
            |ends| header.source == ends.remote_sunh,
        )?;
        Ok((conn, path))
    }

    /// The connection with the SUPERp-lite node of this address; the Transaction header is linear
    /// then.
    fn lite_conn_of(&self, source: u16, skb: &mut SkBuff) -> Result<Arc<Conn>, DropReason> {
        if !skb.may_pull(TalHeader::LEN) {
            return Err(DropReason::TooShort);
        }
        self.lite.get(source.into()).ok_or(DropReason::NoConnection)
    }

    /// A datagram on our UDP port, data at the PDL header. Softirq.
    pub(crate) fn rx_udp(&self, ifindex: u32, header: &UdpIp, mut skb: SkBuff) {
        if let Some(to) = self.compress(ifindex, header) {
            if let Err(reason) = self.pass_on(&to, skb) {
                self.count_drop(reason);
            }
            return;
        }
        let (src, dst) = (header.source, header.destination);
        let found = self.conn_of(&mut skb).and_then(|conn| {
            if conn.identity().encap == Encap::Sunh {
                return Err(DropReason::WrongPath);
            }
            let path =
                conn.path_of(ifindex, |ends| ends.local == dst, |ends| ends.remote == src)?;
            Ok((conn, path))
        });
        match found {
            Ok((conn, path)) => conn.receive(path, skb),
            Err(reason) => self.count_drop(reason),
        }
    }

    /// The connection that the PDL header at the front of `skb` names; the fixed headers are
    /// linear then.
    fn conn_of(&self, skb: &mut SkBuff) -> Result<Arc<Conn>, DropReason> {
        if !skb.may_pull(FIXED_LEN) {
            return Err(DropReason::TooShort);
        }
        let header = skb.head().first_chunk().ok_or(DropReason::TooShort)?;
        let conn = self.conn(PdlHeader::parse(header).dcid.into());
        conn.filter(|conn| !conn.identity().config.lite)
            .ok_or(DropReason::NoConnection)
    }
}
