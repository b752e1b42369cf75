// SPDX-License-Identifier: GPL-2.0

//! Runs: the packets of a long request or answer as one sk_buff.

use crate::{
    kapi::{run::headers_len, skb::SkBuff},
    proto::wire::{self, Packet, ONE_OP_MAX},
};
use kernel::prelude::*;

/// A packet to which those after it are added, once, which continue it.
pub(crate) struct Run {
    skb: SkBuff,
    /// Headers of the packet that others are added to.
    headers: [u8; ONE_OP_MAX],
    headers_len: usize,
    /// Bytes of its data.
    data_len: usize,
    /// Nothing is added any more.
    extended: bool,
}

impl Run {
    /// `skb` is a packet from its PDL header on: `headers_len` bytes of headers, at most `ONE_OP_MAX`, and the data, all
    /// of that in pages.
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

    /// Adds packets that continue the first one, at most `count`, and none a second time. `last` are the headers of
    /// the last of them, and its bytes of data; the others have as many as the first. `attach` appends so many bytes
    /// of data as pages, or as many of them as there is room for and an error. Gives how many packets were added. Any
    /// context.
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
        // Without room for all of them those that are whole.
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

    /// Puts the headers of the next packet behind those that are there: these, or what continues the last ones.
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

    /// The packet that they are now.
    pub(crate) fn into_packet(self) -> SkBuff {
        self.skb
    }
}

/// One packet from its first SUPERp header on, in an sk_buff of its own or in a run.
#[derive(Clone, Copy)]
pub(crate) struct Part<'a> {
    skb: &'a SkBuff,
    /// As much of the beginning as can be read in place.
    pub(crate) head: &'a [u8],
    /// Bytes in all.
    pub(crate) len: usize,
    /// What the place of its data in `skb` is more than in the packet, bytes.
    data_shift: usize,
}

impl<'a> Part<'a> {
    /// A packet by itself.
    pub(crate) fn whole(skb: &'a SkBuff) -> Self {
        Self {
            skb,
            head: skb.head(),
            len: skb.len(),
            data_shift: 0,
        }
    }

    /// What the bytes at `offset`, behind the headers, are in, and where.
    pub(crate) fn at(&self, offset: usize) -> (&'a SkBuff, usize) {
        (self.skb, offset.saturating_add(self.data_shift))
    }
}

impl SkBuff {
    /// How many packets a received one is, at least 1.
    pub(crate) fn packets(&self) -> u32 {
        self.run_noted().count.max(1)
    }

    /// The `i`th packet of a received run whose data is at its first SUPERp header.
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

    /// A received run as one: the first packet with the data of all, and what they are. `None` if each is to be
    /// looked at by itself.
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
