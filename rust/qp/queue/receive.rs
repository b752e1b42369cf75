// SPDX-License-Identifier: GPL-2.0

//! The receive half of queue pairs of contexts.

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

/// State of the receive half, which the lock `Queue::receiving` protects.
pub(super) struct RqState {
    /// Index of the next receive entry. The consumer word of the ring is a copy.
    consumer: u32,
    /// A [`Claim`] has the next entry.
    claimed: bool,
    /// The queue pair is in the error state.
    failed: bool,
    /// [`Queue::close`] was called.
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

    /// From now on refuses all messages.
    pub(super) fn close(&mut self) {
        self.closed = true;
    }
}

/// `len` bytes at `offset` of an sk_buff.
#[derive(Copy, Clone)]
pub(crate) struct Bytes<'a> {
    skb: &'a SkBuff,
    offset: usize,
    len: usize,
}

impl<'a> Bytes<'a> {
    /// The range is not checked here: a copy from outside of `skb` fails.
    pub(crate) fn new(skb: &'a SkBuff, offset: usize, len: usize) -> Self {
        Bytes { skb, offset, len }
    }

    /// All bytes of `skb`.
    pub(crate) fn all(skb: &'a SkBuff) -> Self {
        Bytes::new(skb, 0, skb.len())
    }
}

/// Where a queue pair takes its receive entries from.
pub(super) enum RqeSource {
    Own(Ring<Rqe>),
    Shared(Arc<Srq>),
}

impl RqeSource {
    /// The receive ring of the queue pair, or `None` if it uses a shared receive queue.
    pub(super) fn own_ring(&self) -> Option<&Ring<Rqe>> {
        match self {
            RqeSource::Own(ring) => Some(ring),
            RqeSource::Shared(_) => None,
        }
    }

    /// Whether the producer index is out of bounds. `consumer` is that of the own ring.
    fn has_bad_producer(&self, consumer: u32) -> bool {
        match self {
            RqeSource::Own(ring) => ring.producer().wrapping_sub(consumer) > ring.entries(),
            RqeSource::Shared(srq) => srq.has_bad_producer(),
        }
    }
}

/// The fixed part of the receive half. [`RqState`] is the rest.
pub(super) struct ReceiveQueue {
    pub(super) source: RqeSource,
    pub(super) cq: Arc<Cq>,
}

impl ReceiveQueue {
    /// Counts one more queue pair as user of the queues.
    pub(super) fn join(&self) {
        self.cq.users.join();
        if let RqeSource::Shared(srq) = &self.source {
            srq.users.join();
        }
    }

    /// Counts one queue pair less as user of the queues.
    pub(super) fn leave(&self) {
        self.cq.users.leave();
        if let RqeSource::Shared(srq) = &self.source {
            srq.users.leave();
        }
    }
}

impl Queue {
    /// Sets the error state of the receive half, and completes all entries of the own ring as
    /// aborted. Returns `false` if the completion queue is full and entries are left. Any context
    /// up to softirq. A connection's lock may be held.
    pub(crate) fn flush_receives(&self) -> bool {
        let Some(rq) = &self.rq else { return true };
        let mut receiving = self.receiving.lock();
        receiving.failed = true;
        if receiving.closed {
            return true;
        }
        // Entries of a shared receive queue stay for the other queue pairs.
        let Some(ring) = rq.source.own_ring() else {
            return true;
        };
        // The program stores the producer index and then loads the flags. The error flag was stored
        // before: either the program sees it, or this loads the new producer index.
        smp_mb();
        let ready = ring.producer().wrapping_sub(receiving.consumer);
        if ready > ring.entries() {
            return true;
        }
        for _ in 0..ready {
            // For a claimed entry a completion entry is reserved already.
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

    /// Writes the completion of a receive entry, for which an entry of the completion queue is
    /// reserved. From the own ring it takes the oldest entry.
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
        // CAST: Opcodes have 8 bits.
        let cqe = self.cqe(token, len, opcode as u8, outcome.err());
        let mut cq = rq.cq.writer();
        let cqe = Cqe {
            imm: attrs.imm.unwrap_or(0),
            // CAST: The flag is bit 0.
            flags: attrs.imm.map_or(0, |_| uapi::SUPERP_CQE_IMM as u8),
            ..cqe
        };
        cq.post(&cqe, attrs.solicited);
        cq.finish();
    }

    /// Checks the sender of a message. A connected queue pair receives from its peer only. Before
    /// it is connected, messages are refused for want of a buffer, so that the sender repeats them.
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

    /// Whether there is a receive entry. Free completion entries are not checked.
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

    /// See [`crate::qp::Qp::can_receive`]. Any context up to softirq.
    pub(crate) fn can_receive(&self, from: &MsgMeta) -> Result<(), RecvError> {
        let rq = self.check_peer(from)?;
        self.check_ready(rq, &self.receiving.lock())?;
        rq.cq
            .has_free_entry()
            .then_some(())
            .ok_or(RecvError::NoBuffer)
    }

    /// Locks the receive half for a message of `from`. There is a receive entry, and a completion
    /// entry is reserved.
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

    /// Locks the receive half for the owner of a [`Claim`]. Fails if the queue pair is in the error
    /// state or closed.
    fn lock_claimed(&self) -> Result<(&ReceiveQueue, GuardBh<'_, RqState>), RecvError> {
        let rq = self.rq.as_ref().ok_or(RecvError::NoQp)?;
        let receiving = self.receiving.lock();
        if receiving.failed || receiving.closed {
            return Err(RecvError::NoQp);
        }
        Ok((rq, receiving))
    }

    /// The buffer of a receive entry cannot be used. Completes the entry with `code` and enters the
    /// error state. Returns the error for the sender.
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

    /// See [`crate::qp::Qp::deliver`]; the bytes are copied to a receive entry. Any context up to
    /// softirq.
    pub(crate) fn deliver(
        &self,
        from: &MsgMeta,
        message: Bytes<'_>,
        ancillary: Ancillary,
    ) -> Result<(), RecvError> {
        // Regions of a context cannot be receive contexts, see `Table::register`.
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

    /// Copies a message to the buffer of a receive entry and completes that. `entry` is a private
    /// copy of the entry, and `segment` returns private copies of its segments.
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

    /// See [`crate::qp::Qp::claim`]. An entry of a shared receive queue is not claimed: a sender
    /// that stops in the middle of a message would take it away from all queue pairs.
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

    /// Whether the queue pair takes its receive entries from a shared receive queue.
    fn uses_srq(&self) -> bool {
        self.rq
            .as_ref()
            .is_some_and(|rq| rq.source.own_ring().is_none())
    }

    /// See [`crate::qp::Qp::max_message`].
    pub(crate) fn max_message(&self) -> u32 {
        match self.uses_srq() {
            // The kernel buffers the message until all of it has arrived.
            true => MAX_MESSAGE,
            false => uapi::SUPERP_MAX_RING_MESSAGE,
        }
    }

    /// Copies bytes to `offset` of the buffer of a receive entry. `entry` is a private copy of the
    /// entry, and `segment` returns private copies of its segments. All are checked here, because
    /// the program can change the ring at any time.
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
            // The segments are shorter than the length of the entry.
            false => Err(Code::MALFORMED_LENGTH),
        }
    }

    /// Copies `len` bytes from offset `first` of `bytes` to `offset` of a segment.
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

/// Checks a receive entry and that its buffer is long enough. Returns the length of the message.
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

/// The next receive entry of a queue pair, which takes a message of several transactions. They are
/// copied to its buffer as they arrive. Other messages are refused for want of a buffer meanwhile.
/// If the claim is dropped before it completes, the entry takes the next message.
pub(crate) struct Claim {
    queue: Arc<Queue>,
    /// Index of the entry, and a private copy of it.
    index: u32,
    entry: Rqe,
    /// Bytes of the message, at most the length of the buffer.
    len: u32,
    /// The receive entry has completed.
    completed: bool,
}

impl Claim {
    /// Copies bytes of the message to the buffer. They start at byte `first` of the message. Any
    /// context up to softirq. The connection's lock may be held.
    ///
    /// # Errors
    ///
    /// `NoQp`: the bytes are outside of the message; the queue pair is in the error state or
    /// closed; or the buffer cannot be used, which puts the queue pair into the error state.
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

    /// Completes the receive entry: all bytes are in place. Any context up to softirq. The
    /// connection's lock may be held.
    ///
    /// # Errors
    ///
    /// `NoQp`: the queue pair is in the error state or closed.
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
        // If the entry was flushed, `claimed` is false and the reservation is used up.
        if let (true, Some(rq)) = (claimed, &self.queue.rq) {
            rq.cq.writer().release();
        }
    }
}
