// SPDX-License-Identifier: GPL-2.0

//! Runs: the packets of a long request or response in one sk_buff. All headers are in front of all
//! data; `kapi/fastpath/run.c` describes the layout.

use crate::{
    kapi::{fastpath::run::headers_len, skb::SkBuff},
    proto::wire::{self, Packet, ONE_OP_MAX},
};
use kernel::prelude::*;

/// A packet that is being sent, to which the packets that continue it are added once.
pub(crate) struct Run {
    skb: SkBuff,
    /// Headers of the last packet that was added. They start with those of the first packet.
    headers: [u8; ONE_OP_MAX],
    /// Bytes of headers of each packet.
    headers_len: usize,
    /// Bytes of data of each packet but the last.
    data_len: usize,
    /// [`Run::extend`] was called.
    extended: bool,
}

impl Run {
    /// Starts a run with a packet, which begins with its PDL header. `headers_len`: bytes of its
    /// headers, at most `ONE_OP_MAX`. The rest of the packet is data, all in page fragments.
    pub(crate) fn new(skb: SkBuff, headers_len: usize) -> Self {
        let mut headers = [0; ONE_OP_MAX];
        for (to, from) in headers.iter_mut().zip(skb.head()) {
            *to = *from;
        }
        Self {
            data_len: skb.len().saturating_sub(headers_len),
            headers_len,
            headers,
            skb,
            extended: false,
        }
    }

    /// Adds up to `count` packets that continue the first one, and returns how many. A second call
    /// adds none. `last`: headers and bytes of data of the last of the `count` packets. The others
    /// have as many bytes of data as the first one.
    ///
    /// `attach` appends a number of bytes to the sk_buff as page fragments. If it fails, it may
    /// have appended fewer. Any context.
    pub(crate) fn extend(
        &mut self,
        count: u16,
        last: (&[u8], usize),
        attach: impl FnOnce(&mut SkBuff, usize) -> Result,
    ) -> u16 {
        let (last_headers, last_len) = last;
        let others = self.data_len.saturating_mul(count.saturating_sub(1).into());
        let fits =
            last_headers.len() == self.headers_len && (1..=self.data_len).contains(&last_len);
        if self.extended || !fits || count == 0 {
            return 0;
        }
        self.extended = true;
        let before = self.skb.len();
        let attached = attach(&mut self.skb, others.saturating_add(last_len));
        let added = self.skb.len().saturating_sub(before);
        // If not all data was attached, only the packets that have all of theirs are added.
        let whole = match attached {
            Ok(()) => count,
            Err(_) => added
                .checked_div(self.data_len)
                .unwrap_or(0)
                .min(usize::from(count)) as u16,
        };
        let mut linked = 0;
        while linked < whole {
            let is_last = linked.saturating_add(1) == count;
            if self.add_headers(is_last.then_some(last_headers)).is_err() {
                break;
            }
            linked = linked.saturating_add(1);
        }
        if linked < count {
            let data = self.data_len.saturating_mul(linked.into());
            let keep = before
                .saturating_add(data)
                .saturating_add(self.headers_len.saturating_mul(linked.into()));
            self.skb.run_trim(keep);
        }
        linked
    }

    /// Adds the headers of the next packet behind the others. `None`: they follow from the last
    /// ones.
    fn add_headers(&mut self, headers: Option<&[u8]>) -> Result {
        let own = self.headers.get_mut(..self.headers_len).ok_or(EINVAL)?;
        let headers = match headers {
            Some(headers) => headers,
            None => {
                wire::Run::advance(own, self.data_len).ok_or(EINVAL)?;
                own
            }
        };
        self.skb
            .run_add(headers, self.headers_len.saturating_add(self.data_len))
    }

    /// The sk_buff with all packets.
    pub(crate) fn into_packet(self) -> SkBuff {
        self.skb
    }
}

/// One received packet, from its first SUPERp header. It has an sk_buff of its own or is part of a
/// run.
#[derive(Clone, Copy)]
pub(crate) struct Part<'a> {
    skb: &'a SkBuff,
    /// The linear part of the packet: at least the headers, of a run exactly the headers.
    pub(crate) head: &'a [u8],
    /// Length of the packet, in bytes.
    pub(crate) len: usize,
    /// Offset of the data in `skb` minus its offset in the packet, in bytes.
    data_shift: usize,
}

impl<'a> Part<'a> {
    /// The packet of an sk_buff that is not a run.
    pub(crate) fn whole(skb: &'a SkBuff) -> Self {
        Self {
            skb,
            head: skb.head(),
            len: skb.len(),
            data_shift: 0,
        }
    }

    /// The sk_buff and the offset in it of the data at `offset` of the packet.
    pub(crate) fn at(&self, offset: usize) -> (&'a SkBuff, usize) {
        (self.skb, offset.saturating_add(self.data_shift))
    }
}

impl SkBuff {
    /// Number of packets in a received sk_buff, at least 1.
    pub(crate) fn packets(&self) -> u32 {
        self.run_noted().count.max(1)
    }

    /// Packet `i` of a received run. The sk_buff begins with the first SUPERp header.
    pub(crate) fn part(&self, i: u32) -> Option<Part<'_>> {
        let run = self.run_noted();
        let (headers, size) = (run.headers as usize, run.size as usize);
        let front = headers.checked_mul(run.count as usize)?;
        let data = size.checked_mul(i as usize)?.checked_add(front)?;
        let start = headers.checked_mul(i as usize)?;
        let head = self.head().get(start..start.checked_add(headers)?)?;
        if i >= run.count {
            return None;
        }
        let len = self.len().checked_sub(data)?.min(size);
        Some(Part {
            skb: self,
            head,
            len: headers.checked_add(len)?,
            data_shift: data.checked_sub(headers)?,
        })
    }

    /// All packets of a received run as one: the first packet, followed by all data, and their
    /// headers. `None`: they do not continue each other, and must be received one by one.
    pub(crate) fn whole(&self) -> Option<(Part<'_>, wire::Run<'_>)> {
        let first = self.part(0)?;
        let headers = first.head.len();
        let (_, front) = first.at(headers);
        let data = self.len().checked_sub(front)?;
        let (count, size) = (self.packets() as usize, first.len.checked_sub(headers)?);
        let run = wire::Run::parse(self.head().get(..front)?, count, size, data)?;
        Some((first, run))
    }
}

headers_len!(Packet::headers_len);
