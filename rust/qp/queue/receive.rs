// SPDX-License-Identifier: GPL-2.0

//! The receiving half of queue pairs with rings.

use kernel::{
    prelude::*,
    sync::{atomic::Relaxed, Arc},
};

use super::{
    super::{Ancillary, Cq, MsgAttrs, MsgMeta, RecvError, Srq, MAX_MESSAGE},
    Queue,
};
use crate::{
    kapi::{
        compat::smp_mb,
        lock::GuardBh,
        ring::{Cqe, Ring, Rqe, Segment},
        skb::SkBuff,
        uapi,
    },
    proto::Code,
};

/// Its state, under a lock.
pub(super) struct RqState {
    /// The next entry; what the program sees is a copy.
    consumer: u32,
    /// A message is being put into the next entry's buffer: there is a [`Claim`].
    claimed: bool,
    failed: bool,
    closed: bool,
}

impl RqState {
    pub(super) fn new() -> Self {
        RqState {
            consumer: 0,
            claimed: false,
            failed: false,
            closed: false,
        }
    }

    /// No message is taken in any more.
    pub(super) fn close(&mut self) {
        self.closed = true;
    }
}

/// Bytes of a packet.
#[derive(Copy, Clone)]
pub(crate) struct Bytes<'a> {
    skb: &'a SkBuff,
    offset: usize,
    len: usize,
}

impl<'a> Bytes<'a> {
    /// `len` of them, from `at` on. What is not there cannot be copied.
    pub(crate) fn new(skb: &'a SkBuff, offset: usize, len: usize) -> Self {
        Bytes { skb, offset, len }
    }

    /// All of them.
    pub(crate) fn all(skb: &'a SkBuff) -> Self {
        Bytes::new(skb, 0, skb.len())
    }
}

/// Where receive entries come from.
pub(super) enum RqeSource {
    Own(Ring<Rqe>),
    Shared(Arc<Srq>),
}

impl RqeSource {
    /// The ring that nobody else takes entries from.
    pub(super) fn own_ring(&self) -> Option<&Ring<Rqe>> {
        match self {
            RqeSource::Own(ring) => Some(ring),
            RqeSource::Shared(_) => None,
        }
    }

    /// Whether the producer index is one that it cannot be.
    fn has_bad_producer(&self, consumer: u32) -> bool {
        match self {
            RqeSource::Own(ring) => ring.producer().wrapping_sub(consumer) > ring.entries(),
            RqeSource::Shared(srq) => srq.has_bad_producer(),
        }
    }
}

/// The receiving half; its state is apart.
pub(super) struct ReceiveQueue {
    pub(super) source: RqeSource,
    pub(super) cq: Arc<Cq>,
}

impl ReceiveQueue {
    /// A queue pair receives here from now on.
    pub(super) fn join(&self) {
        self.cq.users.join();
        if let RqeSource::Shared(srq) = &self.source {
            srq.users.join();
        }
    }

    /// It does not any more.
    pub(super) fn leave(&self) {
        self.cq.users.leave();
        if let RqeSource::Shared(srq) = &self.source {
            srq.users.leave();
        }
    }
}

impl Queue {
    /// Ends all receive entries, as far as there is room for their completions; `false` if some are
    /// left.
    pub(crate) fn flush_receives(&self) -> bool {
        let Some(rq) = &self.rq else { return true };
        let mut receiving = self.receiving.lock();
        receiving.failed = true;
        if receiving.closed {
            return true;
        }
        // Those of a shared queue are for others.
        let Some(ring) = rq.source.own_ring() else {
            return true;
        };
        // The program stores the producer, then looks at the flags; here it is the other way round.
        smp_mb();
        let ready = ring.producer().wrapping_sub(receiving.consumer);
        if ready > ring.entries() {
            return true;
        }
        for _ in 0..ready {
            // For the one that is claimed there is a promise.
            if !receiving.claimed && rq.cq.reserve(1) == 0 {
                return false;
            }
            let token = ring.read(receiving.consumer).token;
            self.complete_receive(
                rq,
                &mut receiving,
                token,
                Err(Code::ABORTED),
                Ancillary::MsgAttrs(MsgAttrs::default()),
            );
        }
        true
    }

    /// Completes a receive entry, of the own ring the oldest; there is room for that.
    fn complete_receive(
        &self,
        rq: &ReceiveQueue,
        receiving: &mut GuardBh<'_, RqState>,
        token: u64,
        outcome: Result<u32, Code>,
        ancillary: Ancillary,
    ) {
        if let Some(ring) = rq.source.own_ring() {
            receiving.consumer = receiving.consumer.wrapping_add(1);
            receiving.claimed = false;
            ring.set_consumer(receiving.consumer);
        }
        let message = outcome.unwrap_or(0);
        let (opcode, len, attrs) = match ancillary {
            Ancillary::Written {
                imm,
                solicited,
                len,
            } => {
                let imm = Some(imm);
                (uapi::SUPERP_OP_RECV_WRITE, len, MsgAttrs { imm, solicited })
            }
            Ancillary::MsgAttrs(attrs) => (uapi::SUPERP_OP_RECV, message, attrs),
            Ancillary::Placed { .. } => (uapi::SUPERP_OP_RECV, message, MsgAttrs::default()),
        };
        // CAST: The number of an opcode.
        let cqe = self.cqe(token, len, opcode as u8, outcome.err());
        let mut cq = rq.cq.writer();
        let cqe = Cqe {
            imm: attrs.imm.unwrap_or(0),
            // CAST: A bit of few.
            flags: attrs.imm.map_or(0, |_| uapi::SUPERP_CQE_IMM as u8),
            ..cqe
        };
        cq.post(&cqe, attrs.solicited);
        cq.finish();
    }

    /// A connected queue pair hears only its peer; before, nobody.
    fn check_peer(&self, from: &MsgMeta) -> Result<&ReceiveQueue, RecvError> {
        let rq = self.rq.as_ref().ok_or(RecvError::NoQp)?;
        let peer = *self.peer.lock();
        match peer {
            Some(peer) if peer.addr == from.remote => Ok(rq),
            Some(_) => Err(RecvError::NoQp),
            None if self.receiving.lock().failed => Err(RecvError::NoQp),
            None => Err(RecvError::NoBuffer),
        }
    }

    /// Whether there is a receive entry, and room for its completion.
    fn check_ready(&self, rq: &ReceiveQueue, receiving: &RqState) -> Result<(), RecvError> {
        if receiving.failed || receiving.closed {
            return Err(RecvError::NoQp);
        }
        let empty = match &rq.source {
            RqeSource::Own(ring) => receiving.claimed || ring.producer() == receiving.consumer,
            RqeSource::Shared(srq) => srq.is_empty(),
        };
        if empty {
            return Err(RecvError::NoBuffer);
        }
        Ok(())
    }

    /// As [`crate::qp::Qp::room`].
    pub(crate) fn can_receive(&self, from: &MsgMeta) -> Result<(), RecvError> {
        let rq = self.check_peer(from)?;
        self.check_ready(rq, &self.receiving.lock())?;
        rq.cq
            .has_free_entry()
            .then_some(())
            .ok_or(RecvError::NoBuffer)
    }

    /// The receiving half, when there is a receive entry; room is promised for its completion.
    fn reserve_receive(
        &self,
        from: &MsgMeta,
    ) -> Result<(&ReceiveQueue, GuardBh<'_, RqState>), RecvError> {
        let rq = self.check_peer(from)?;
        let receiving = self.receiving.lock();
        self.check_ready(rq, &receiving)?;
        if rq.source.has_bad_producer(receiving.consumer) {
            drop(receiving);
            self.fail();
            return Err(RecvError::NoQp);
        }
        match rq.cq.reserve(1) {
            0 => Err(RecvError::NoBuffer),
            _ => Ok((rq, receiving)),
        }
    }

    /// The receiving half of a queue pair of which there is a [`Claim`], unless it has failed or ended.
    fn lock_claimed(&self) -> Result<(&ReceiveQueue, GuardBh<'_, RqState>), RecvError> {
        let rq = self.rq.as_ref().ok_or(RecvError::NoQp)?;
        let receiving = self.receiving.lock();
        if receiving.failed || receiving.closed {
            return Err(RecvError::NoQp);
        }
        Ok((rq, receiving))
    }

    /// A message could not be put into the next entry, which completes, and the queue pair fails.
    fn fail_receive(
        &self,
        rq: &ReceiveQueue,
        mut receiving: GuardBh<'_, RqState>,
        entry: &Rqe,
        code: Code,
    ) -> RecvError {
        self.complete_receive(
            rq,
            &mut receiving,
            entry.token,
            Err(code),
            Ancillary::MsgAttrs(MsgAttrs::default()),
        );
        drop(receiving);
        self.fail();
        match code {
            Code::RECEIVE_BUFFER_TOO_SHORT => RecvError::TooLong,
            _ => RecvError::NoQp,
        }
    }

    /// Puts a message where the program wants it, as [`crate::qp::Qp::deliver`].
    pub(crate) fn deliver(
        &self,
        from: &MsgMeta,
        message: Bytes<'_>,
        ancillary: Ancillary,
    ) -> Result<(), RecvError> {
        // Its regions have not the right to receive.
        if matches!(ancillary, Ancillary::Placed { .. }) {
            return Err(RecvError::NoQp);
        }
        let (rq, receiving) = self.reserve_receive(from)?;
        match &rq.source {
            RqeSource::Own(ring) => {
                let index = receiving.consumer;
                let segment = |number| ring.segment(index, number);
                self.fill(
                    rq,
                    receiving,
                    &ring.read(index),
                    segment,
                    message,
                    ancillary,
                )
            }
            RqeSource::Shared(srq) => {
                let taken = srq.take().inspect_err(|_| rq.cq.writer().release())?;
                let segment = |number| taken.segment(number);
                self.fill(rq, receiving, &taken.entry, segment, message, ancillary)
            }
        }
    }

    /// Puts a whole message into the buffer of a receive entry, of which `entry` is a private copy, and
    /// completes it.
    fn fill(
        &self,
        rq: &ReceiveQueue,
        mut receiving: GuardBh<'_, RqState>,
        entry: &Rqe,
        segment: impl Fn(u32) -> Option<Segment>,
        message: Bytes<'_>,
        ancillary: Ancillary,
    ) -> Result<(), RecvError> {
        let copied = check_rqe(entry, message.len as u64).and_then(|len| {
            self.copy_to_buffer(entry, segment, 0, message)
                .map(|()| len)
        });
        match copied {
            Ok(len) => {
                self.complete_receive(rq, &mut receiving, entry.token, Ok(len), ancillary);
                drop(receiving);
                self.rx_messages.add(1, Relaxed);
                Ok(())
            }
            Err(code) => Err(self.fail_receive(rq, receiving, entry, code)),
        }
    }

    /// As [`crate::qp::Qp::claim`]. An entry of a shared queue is not claimed: it is for the message
    /// that is whole first.
    pub(crate) fn claim(
        self: &Arc<Self>,
        from: &MsgMeta,
        len: u32,
    ) -> Result<Option<Claim>, RecvError> {
        if self.uses_srq() {
            return Ok(None);
        }
        let (rq, mut receiving) = self.reserve_receive(from)?;
        let ring = rq.source.own_ring().ok_or(RecvError::NoQp)?;
        let index = receiving.consumer;
        let entry = ring.read(index);
        match check_rqe(&entry, len.into()) {
            Ok(len) => {
                receiving.claimed = true;
                let queue = self.clone();
                Ok(Some(Claim {
                    queue,
                    index,
                    entry,
                    len,
                    completed: false,
                }))
            }
            Err(code) => Err(self.fail_receive(rq, receiving, &entry, code)),
        }
    }

    /// Whether it receives from a shared queue.
    fn uses_srq(&self) -> bool {
        self.rq
            .as_ref()
            .is_some_and(|rq| rq.source.own_ring().is_none())
    }

    /// As [`crate::qp::Qp::max_message`].
    pub(crate) fn max_message(&self) -> u32 {
        match self.uses_srq() {
            // The kernel keeps it until it is whole.
            true => MAX_MESSAGE,
            false => uapi::SUPERP_MAX_RING_MESSAGE,
        }
    }

    /// Puts bytes at `offset` of the buffer of a receive entry, of which `entry` is a private copy.
    fn copy_to_buffer(
        &self,
        entry: &Rqe,
        segment: impl Fn(u32) -> Option<Segment>,
        offset: u64,
        bytes: Bytes<'_>,
    ) -> Result<(), Code> {
        let len = bytes.len;
        if entry.segments == 0 {
            let whole = Segment {
                addr: entry.addr,
                key: entry.key,
                length: entry.length,
            };
            return self.copy_to_segment(whole, offset, bytes, 0, len);
        }
        let (mut skip, mut done) = (offset, 0);
        for number in 0..entry.segments {
            let Some(remaining @ 1..) = len.checked_sub(done) else {
                break;
            };
            let segment = segment(number).ok_or(Code::MALFORMED)?;
            let Some(available @ 1..) = u64::from(segment.length).checked_sub(skip) else {
                skip = skip.saturating_sub(segment.length.into());
                continue;
            };
            let n = remaining.min(usize::try_from(available).unwrap_or(remaining));
            self.copy_to_segment(segment, skip, bytes, done, n)?;
            (skip, done) = (0, done.saturating_add(n));
        }
        match done == len {
            true => Ok(()),
            // It is shorter than its entry says.
            false => Err(Code::MALFORMED_LENGTH),
        }
    }

    /// Puts `len` bytes of a message, from `first` on, at `offset` of a piece of memory.
    fn copy_to_segment(
        &self,
        segment: Segment,
        offset: u64,
        bytes: Bytes<'_>,
        first: usize,
        len: usize,
    ) -> Result<(), Code> {
        if segment.length == 0 {
            return Ok(());
        }
        let (region, start) =
            self.regions
                .lookup()
                .find(segment.key, segment.addr, segment.length, true)?;
        let offset = start.checked_add(offset).ok_or(Code::MALFORMED)?;
        region
            .pages()
            .copy_from_skb(offset, bytes.skb, bytes.offset.saturating_add(first), len)
            .map_err(|_| Code::RESOURCES)
    }
}

/// Whether the buffer of a receive entry is long enough for a message; gives its length.
fn check_rqe(entry: &Rqe, message_len: u64) -> Result<u32, Code> {
    let list = entry.segments != 0;
    if entry.rsvd != 0 || list && (entry.addr != 0 || entry.key != 0) {
        return Err(Code::MALFORMED);
    }
    u32::try_from(message_len)
        .ok()
        .filter(|len| *len <= entry.length)
        .ok_or(Code::RECEIVE_BUFFER_TOO_SHORT)
}

/// The next receive entry of a queue pair, into whose buffer the parts of a long message go as they
/// come. Other messages find no entry meanwhile. Dropped before it has ended, the entry is there for
/// another message.
pub(crate) struct Claim {
    queue: Arc<Queue>,
    /// The entry, and a private copy of it.
    index: u32,
    entry: Rqe,
    /// Bytes of the message; the buffer has as many.
    len: u32,
    completed: bool,
}

impl Claim {
    /// Puts bytes of the message, from its byte `first` on, into the buffer. Any context up to
    /// softirq, a connection's lock may be held.
    ///
    /// # Errors
    ///
    /// `NoQp`: they are not inside of the message; or the memory is not the program's any more, and
    /// the queue pair fails; or it has failed or ended before.
    pub(crate) fn put(&mut self, first: u64, bytes: &SkBuff) -> Result<(), RecvError> {
        let end = first.checked_add(bytes.len() as u64);
        if end.is_none_or(|end| end > self.len.into()) {
            return Err(RecvError::NoQp);
        }
        let (rq, receiving) = self.queue.lock_claimed()?;
        let ring = rq.source.own_ring().ok_or(RecvError::NoQp)?;
        let segment = |number| ring.segment(self.index, number);
        let copied = self
            .queue
            .copy_to_buffer(&self.entry, segment, first, Bytes::all(bytes));
        copied.map_err(|code| {
            self.completed = true;
            self.queue.fail_receive(rq, receiving, &self.entry, code)
        })
    }

    /// The message is whole: completes the entry. As [`Claim::put`].
    pub(crate) fn finish(mut self, ancillary: Ancillary) -> Result<(), RecvError> {
        let (rq, mut receiving) = self.queue.lock_claimed()?;
        self.completed = true;
        self.queue.complete_receive(
            rq,
            &mut receiving,
            self.entry.token,
            Ok(self.len),
            ancillary,
        );
        drop(receiving);
        self.queue.rx_messages.add(1, Relaxed);
        Ok(())
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if self.completed {
            return;
        }
        let claimed = core::mem::take(&mut self.queue.receiving.lock().claimed);
        // Otherwise the entry has been flushed.
        if let (true, Some(rq)) = (claimed, &self.queue.rq) {
            rq.cq.writer().release();
        }
    }
}
