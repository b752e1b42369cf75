// SPDX-License-Identifier: GPL-2.0

//! Runs: the packets of a long request or response in one sk_buff. All headers are in front of all
//! data; `kapi/fastpath/run.c` describes the layout.

use crate::{
    kapi::{fastpath::run::headers_len, skb::SkBuff},
    proto::{
        wire::{self, Packet, ONE_OP_MAX},
        DropReason,
    },
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

/// What the core processes at once: a received packet, or all packets of a run. To the core a run
/// is the headers of its first packet, followed by the data of all.
#[derive(Clone, Copy)]
pub(crate) struct Part<'a> {
    skb: &'a SkBuff,
    /// Offset of the data in `skb` minus its offset in the packet, in bytes.
    data_shift: usize,
}

impl<'a> Part<'a> {
    /// The packet of an sk_buff that is not a run.
    pub(crate) fn packet(skb: &'a SkBuff) -> Self {
        Self { skb, data_shift: 0 }
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

    /// All packets of a received run, which begins with its first SUPERp header. `None`: they do
    /// not continue each other, and must be received one by one.
    pub(crate) fn run(&self) -> Option<(Part<'_>, wire::Run<'_>)> {
        let layout = self.run_noted();
        let (count, headers) = (layout.count as usize, layout.headers as usize);
        let size = layout.size as usize;
        let front = headers.checked_mul(count)?;
        let data = self.len().checked_sub(front)?;
        let run = wire::Run::parse(self.head().get(..front)?, count, size, data)?;
        let first = Part {
            skb: self,
            data_shift: front.checked_sub(headers)?,
        };
        Some((first, run))
    }

    /// The packets of a received run, each in an sk_buff of its own, which shares the data. Each
    /// begins with the first `common` bytes of the run.
    pub(crate) fn split_run(
        &self,
        common: usize,
    ) -> impl Iterator<Item = Result<SkBuff, DropReason>> + '_ {
        let part = move |i| self.run_part(common, i);
        (0..self.packets()).map(move |i| part(i).ok_or(DropReason::NoMemory))
    }
}

headers_len!(Packet::headers_len);
