// SPDX-License-Identifier: GPL-2.0

//! Work requests: what a queue pair asked for, until it completes.

use kernel::{
    list::{impl_list_arc_safe, impl_list_item, ListArc, ListLinks},
    prelude::*,
    sync::{
        atomic::{Atomic, Relaxed},
        Arc, UniqueArc,
    },
};

use super::{endpoint, queue, Region};
use crate::{
    kapi::{map::hash, pages::Pages, skb::SkBuff, uapi},
    proto::{
        wire::{AtomicKind, OPS_MAX},
        Code,
    },
};

/// What is asked for.
#[derive(Copy, Clone, PartialEq, Eq)]
pub(crate) enum WorkOp {
    /// A message to the queue pair `dest`, with immediate data if there is any.
    Send { imm: Option<u32> },
    /// A message to the peer's receive context `key`, at this offset.
    SendKeyed { key: u32, offset: u32 },
    /// Local memory to the peer's, at this RMA address. With immediate data the queue pair `dest` is
    /// told when all of it is there.
    Write { remote: u64, imm: Option<u32> },
    /// The peer's memory, at this RMA address, to local memory.
    Read { remote: u64 },
    /// A change of 64 bits of the peer's memory, at this RMA address; what they were goes to local
    /// memory.
    Atomic {
        remote: u64,
        kind: AtomicKind,
        operand: u64,
        compare: u64,
    },
}

impl WorkOp {
    /// The peer's memory that it accesses; 0 for a message.
    fn remote(&self) -> u64 {
        match *self {
            Self::Send { .. } | Self::SendKeyed { .. } => 0,
            Self::Write { remote, .. } | Self::Read { remote } | Self::Atomic { remote, .. } => {
                remote
            }
        }
    }

    /// Whether the peer's queue pair takes a message in, which it may refuse for want of a buffer.
    pub(crate) fn is_message(&self) -> bool {
        matches!(
            self,
            Self::Send { .. } | Self::SendKeyed { .. } | Self::Write { imm: Some(_), .. }
        )
    }
}

/// What completes a work, exactly once: dropping it does, if nothing did before.
pub(crate) enum Ticket {
    Socket(endpoint::Ticket),
    Ring(queue::Ticket),
}

impl Ticket {
    /// The work is accepted: from now on it completes. Any context.
    pub(crate) fn arm(&self) {
        match self {
            Self::Socket(ticket) => ticket.arm(),
            // Taking an entry from a ring was that.
            Self::Ring(_) => {}
        }
    }

    /// Completes the work; a second time does nothing. Any context up to softirq, a connection's
    /// lock may be held.
    pub(crate) fn complete(&self, outcome: Result<(), Code>) {
        match self {
            Self::Socket(ticket) => ticket.complete(outcome),
            Self::Ring(ticket) => ticket.complete(outcome),
        }
    }

    /// Tells its socket or queue pair from others that have something under way. Any context.
    pub(crate) fn source(&self) -> usize {
        match self {
            Self::Socket(ticket) => ticket.source(),
            Self::Ring(ticket) => ticket.source(),
        }
    }

    /// Whether requests of the other may share packets with those of this one. A queue pair ends with its first
    /// failure, so that those behind what is refused need not go again; sockets have no order among requests.
    pub(crate) fn shares(&self, other: &Ticket) -> bool {
        match (self, other) {
            (Self::Ring(_), Self::Ring(_)) => self.source() == other.source(),
            (Self::Socket(_), Self::Socket(_)) => true,
            _ => false,
        }
    }

    /// Whether a message that finds no buffer goes again. Any context.
    pub(crate) fn retry_policy(&self) -> RetryPolicy {
        match self {
            Self::Socket(ticket) => ticket.retry_policy(),
            Self::Ring(ticket) => ticket.retry_policy(),
        }
    }
}

/// How often a message that the peer has no buffer for goes again.
#[derive(Copy, Clone)]
pub(crate) enum RetryPolicy {
    /// As often as it takes.
    Unlimited,
    /// For a while: its socket or queue pair has ended.
    Limited,
    /// Never: its queue pair is in the error state.
    Never,
}

/// Bytes of a submission entry that may be data.
pub(crate) const INLINE_MAX: usize = uapi::SUPERP_MAX_INLINE as usize;

/// Where a work goes, as far as the order of works is concerned: to a queue pair, or without one,
/// to the memory that one socket accesses.
#[derive(Copy, Clone, PartialEq, Eq)]
pub(crate) struct FlowId {
    qpn: u32,
    /// [`Ticket::source`] where there is no queue pair.
    source: usize,
}

impl FlowId {
    /// A keyed hash, the same for equal ones: who chooses queue pairs of a peer cannot choose these.
    pub(crate) fn hash(&self) -> u32 {
        hash(self.source as u64, self.qpn.into())
    }
}

/// What requests that share a packet have in common [proto 4.18].
#[derive(Copy, Clone, PartialEq, Eq)]
pub(crate) struct PackKey {
    /// Otherwise a write.
    pub(crate) read: bool,
    /// Bytes of each; of a write up to [`COPY_MAX`].
    pub(crate) len: u32,
}

impl PackKey {
    /// Whether there may be several. Data of writes is copied then; a read has none in its packet.
    fn new(op: WorkOp, len: u32) -> Option<PackKey> {
        let (read, max_len) = match op {
            WorkOp::Write { imm: None, .. } => (false, COPY_MAX),
            WorkOp::Read { .. } => (true, u32::MAX),
            _ => return None,
        };
        (1..=max_len)
            .contains(&len)
            .then_some(PackKey { read, len })
    }
}

/// Requests that can be one work.
const REQUESTS_MAX: usize = OPS_MAX as usize;

/// Where the local bytes are.
pub(crate) enum Local {
    /// No bytes.
    None,
    /// In the request itself, from its first byte.
    Inline([u8; INLINE_MAX]),
    /// A kernel copy of a message, from its first byte.
    Buffer(Pages),
    /// A region of the caller, from this offset on; of several requests the offset is the first one's. The
    /// region stays pinned until the work ends.
    Region(Arc<Region>, u64),
    /// Pieces of regions, one behind the other.
    List(KVec<Piece>),
}

/// Bytes of a region of the caller, from `offset` of it on. The region stays pinned until the work ends.
pub(crate) struct Piece {
    pub(crate) region: Arc<Region>,
    pub(crate) offset: u64,
    /// Bytes, at least 1.
    pub(crate) len: u32,
}

/// What a work is asked to do; see [`Work`].
pub(crate) struct Request {
    pub(crate) dest: u32,
    pub(crate) op: WorkOp,
    pub(crate) len: u32,
    pub(crate) local: Local,
    pub(crate) fence: bool,
    pub(crate) solicited: bool,
}

impl Request {
    /// What other requests must have in common with it to be one work with it, all in one packet, if there
    /// may be any.
    pub(crate) fn pack_key(&self) -> Option<PackKey> {
        let mergeable = !self.fence && matches!(self.local, Local::Region(..));
        PackKey::new(self.op, self.len).filter(|_| mergeable)
    }
}

/// One work request, or several of one ring that are alike and follow each other.
///
/// Those are under way together. When the peer refuses one, nothing becomes of those behind it.
#[pin_data]
pub(crate) struct Work {
    #[pin]
    links: ListLinks,
    /// What completes it, exactly once.
    pub(crate) ticket: Ticket,
    /// Queue pair of the peer: of a message its destination, of a remote access the one that the
    /// socket is connected to, or 0. Works of the same flow start in the order of posting.
    pub(crate) dest: u32,
    /// Of the first request.
    op: WorkOp,
    /// Bytes, of each request.
    pub(crate) len: u32,
    local: Local,
    /// Of several requests, which are in the same region: the RMA address of each, and its offset there.
    remotes: [u64; REQUESTS_MAX],
    offsets: [u64; REQUESTS_MAX],
    /// Requests in all.
    count: u16,
    /// How many of them are carried out, where the one behind those was refused.
    refused_at: Atomic<u32>,
    /// With which code that one was, or a message for want of a buffer; 0 for none.
    refusal_code: Atomic<u32>,
    /// It starts when all before it in its flow are complete.
    pub(crate) fence: bool,
    /// A message, or what tells of a write, wakes the receiver who waits for such ones alone.
    pub(crate) solicited: bool,
    /// Place in the order of its flow; written when the work leaves the queue.
    flow_order: Atomic<u64>,
    /// How often the peer refused it for want of a buffer when its socket was closed.
    refusal_count: Atomic<u32>,
    /// Index of its flow, while it is under way together with others.
    flow_slot: Atomic<u32>,
    /// It was in a packet with what was refused, and goes again.
    repeated: Atomic<bool>,
    /// The life of the peer in which all bytes of a write have come there, so that what is left to do is
    /// to tell so; 0 for none.
    placed_in_life: Atomic<u32>,
}

/// A completed work of a ring, whose memory and ticket are for another one of the same ring.
pub(crate) type Recycled = Pin<UniqueArc<Work>>;

/// A work that is not posted yet.
pub(crate) struct UnpostedWork(Pin<UniqueArc<Work>>);

impl UnpostedWork {
    /// A new request. Process context.
    pub(crate) fn new(ticket: Ticket, request: Request) -> Result<UnpostedWork> {
        let Request {
            dest,
            op,
            len,
            local,
            fence,
            solicited,
        } = request;
        let work = UniqueArc::pin_init(
            try_pin_init!(Work {
                links <- ListLinks::new(),
                ticket,
                dest,
                op,
                len,
                local,
                remotes: [0; REQUESTS_MAX],
                offsets: [0; REQUESTS_MAX],
                count: 1,
                refused_at: Atomic::new(u32::MAX),
                refusal_code: Atomic::new(0),
                fence,
                solicited,
                flow_order: Atomic::new(0),
                refusal_count: Atomic::new(0),
                flow_slot: Atomic::new(0),
                repeated: Atomic::new(false),
                placed_in_life: Atomic::new(0),
            }),
            GFP_KERNEL_ACCOUNT,
        );
        work.map(UnpostedWork)
    }

    /// As [`UnpostedWork::new`], in the memory of a [`Recycled`] one, for entry `index` of the same ring.
    pub(crate) fn reuse(mut recycled: Recycled, index: u32, request: Request) -> UnpostedWork {
        let this = recycled.as_mut().project();
        if let Ticket::Ring(ticket) = this.ticket {
            ticket.reset(index);
        }
        *this.dest = request.dest;
        *this.op = request.op;
        *this.len = request.len;
        *this.local = request.local;
        *this.count = 1;
        *this.fence = request.fence;
        *this.solicited = request.solicited;
        this.refused_at.store(u32::MAX, Relaxed);
        this.refusal_count.store(0, Relaxed);
        this.repeated.store(false, Relaxed);
        this.refusal_code.store(0, Relaxed);
        this.placed_in_life.store(0, Relaxed);
        UnpostedWork(recycled)
    }

    /// Adds the next entry of the ring, a request that is like the others [`Request::like`]: of the RMA
    /// address `remote`, and the same region from `offset` on. False: there is no room.
    pub(crate) fn merge(&mut self, remote: u64, offset: u64) -> bool {
        let this = self.0.as_mut().project();
        let Ticket::Ring(ticket) = this.ticket else {
            return false;
        };
        let index = usize::from(*this.count);
        if let (1, Local::Region(_, offset)) = (index, &*this.local) {
            (this.remotes[0], this.offsets[0]) = (this.op.remote(), *offset);
        }
        let (Some(remotes), Some(offsets)) =
            (this.remotes.get_mut(index), this.offsets.get_mut(index))
        else {
            return false;
        };
        (*remotes, *offsets) = (remote, offset);
        *this.count = this.count.saturating_add(1);
        ticket.extend();
        true
    }
}

impl From<UnpostedWork> for ListArc<Work> {
    fn from(work: UnpostedWork) -> Self {
        ListArc::from(work.0)
    }
}

impl_list_arc_safe! {
    impl ListArcSafe<0> for Work { untracked; }
}
impl_list_item! {
    impl ListItem<0> for Work { using ListLinks { self.links }; }
}

impl Work {
    /// Gives back the memory that a completed work is about. `None`: its own, too. Any context.
    pub(crate) fn recycle(work: ListArc<Work>) -> Option<Recycled> {
        let mut work = Arc::into_unique_or_drop(work.into_arc())?;
        *work.as_mut().project().local = Local::None;
        Some(work)
    }

    /// Completes a work, together with others; a second time does nothing. Any context up to softirq, a
    /// connection's lock may be held.
    pub(crate) fn complete_with(
        work: ListArc<Work>,
        batch: &mut queue::CompletionBatch,
        outcome: Result<(), Code>,
    ) {
        match &work.ticket {
            Ticket::Ring(_) if work.cut_code().is_none() => batch.add(work, outcome),
            _ => work.complete(outcome),
        }
    }

    /// Completes a work that was done, as [`Work::complete_with`].
    pub(crate) fn complete_done(work: ListArc<Work>) {
        match &work.ticket {
            Ticket::Ring(_) if work.cut_code().is_none() => {
                queue::CompletionBatch::complete_one(work, Ok(()))
            }
            _ => work.complete(Ok(())),
        }
    }

    /// The flow that it is part of.
    pub(crate) fn flow(&self) -> FlowId {
        FlowId {
            qpn: self.dest,
            source: match self.dest {
                0 => self.ticket.source(),
                _ => 0,
            },
        }
    }

    /// Whether it may share a packet with its like. Of a socket, only once.
    pub(crate) fn like(&self) -> Option<PackKey> {
        let sent_alone = self.repeated.load(Relaxed) && matches!(self.ticket, Ticket::Socket(_));
        PackKey::new(self.op, self.len).filter(|_| !sent_alone)
    }

    /// Requests of it that are carried out, together.
    pub(crate) fn count(&self) -> u16 {
        // CAST: No more than there are.
        u32::from(self.count).min(self.refused_at.load(Relaxed)) as u16
    }

    fn refusal_code(&self) -> Option<Code> {
        let code = self.refusal_code.load(Relaxed);
        (code != 0).then_some(Code {
            major: (code >> 16) as u16,
            minor: code as u16,
        })
    }

    /// With what the request behind those that are carried out was refused.
    fn cut_code(&self) -> Option<Code> {
        self.refusal_code()
            .filter(|_| self.refused_at.load(Relaxed) != u32::MAX)
    }

    /// The peer refused it, or a request of it, so.
    pub(crate) fn set_refused(&self, code: Code) {
        let packed = u32::from(code.major) << 16 | u32::from(code.minor);
        self.refusal_code.store(packed, Relaxed);
    }

    /// Request `n` was refused so: those behind it are not carried out.
    pub(crate) fn cut(&self, n: u16, code: Code) {
        self.set_refused(code);
        self.refused_at.store(n.into(), Relaxed);
        if let Ticket::Ring(ticket) = &self.ticket {
            ticket.flush_after(n.into());
        }
    }

    /// What the first of its requests asks for.
    pub(crate) fn op(&self) -> WorkOp {
        let remote = self.remote(0);
        match self.op {
            WorkOp::Write { imm, .. } => WorkOp::Write { remote, imm },
            WorkOp::Read { .. } => WorkOp::Read { remote },
            op => op,
        }
    }

    /// The peer's memory that request `n` accesses; 0 for a message.
    pub(crate) fn remote(&self, n: u16) -> u64 {
        if self.count > 1 {
            return self.remotes.get(usize::from(n)).copied().unwrap_or(0);
        }
        self.op.remote()
    }

    /// What is under way has ended so, and with it the work. As [`Ticket::complete`].
    pub(crate) fn complete(&self, outcome: Result<(), Code>) {
        let Some(code) = self.cut_code() else {
            return self.ticket.complete(outcome);
        };
        if let Ticket::Ring(ticket) = &self.ticket {
            ticket.complete_first(self.count().into(), outcome);
            ticket.complete_first(1, Err(code));
            return ticket.complete(Err(Code::ABORTED));
        }
        self.ticket.complete(Err(code));
    }

    /// It goes again.
    pub(crate) fn set_again(&self) {
        self.repeated.store(true, Relaxed);
    }

    /// Whether it must not begin, as one before it has failed, and its queue pair with that. Any context.
    pub(crate) fn is_flushed(&self) -> bool {
        match &self.ticket {
            Ticket::Ring(ticket) => !self.repeated.load(Relaxed) && ticket.is_flushed(),
            Ticket::Socket(_) => false,
        }
    }

    /// Completes what must not begin, as [`Ticket::complete`].
    pub(crate) fn flush(&self) {
        let code = self.refusal_code().unwrap_or(Code::ABORTED);
        self.ticket.complete(Err(code));
    }

    pub(crate) fn set_slot(&self, slot: u32) {
        self.flow_slot.store(slot, Relaxed);
    }

    /// Index of its flow.
    pub(crate) fn slot(&self) -> u32 {
        self.flow_slot.load(Relaxed)
    }

    pub(crate) fn set_order(&self, order: u64) {
        self.flow_order.store(order, Relaxed);
    }

    /// In which life of the peer all bytes of a write have come there, as a refusal of its immediate
    /// says [proto 7]; 0: in none.
    pub(crate) fn set_placed(&self, life: u32) {
        self.placed_in_life.store(life, Relaxed);
    }

    /// Whether a write has no bytes to send in this life of the peer, or none any more.
    pub(crate) fn is_placed(&self, life: u32) -> bool {
        self.len == 0 || self.placed_in_life.load(Relaxed) == life
    }

    /// Counts a refusal, and gives how many there were before.
    pub(crate) fn count_refusal(&self) -> u32 {
        self.refusal_count.fetch_add(1, Relaxed)
    }

    pub(crate) fn order(&self) -> u64 {
        self.flow_order.load(Relaxed)
    }

    /// Says where `len` bytes from `offset` of request `number` are: calls `each` for each piece, in their
    /// order, with its pages, the offset in them, and its bytes.
    fn for_each_piece(
        &self,
        number: u16,
        offset: u64,
        len: usize,
        mut each: impl FnMut(&Pages, u64, usize) -> Result,
    ) -> Result {
        match &self.local {
            Local::None | Local::Inline(_) => Err(EINVAL),
            Local::Buffer(pages) => each(pages, offset, len),
            Local::Region(region, first) => {
                let base = match self.count > 1 {
                    true => *self.offsets.get(usize::from(number)).ok_or(EINVAL)?,
                    false => *first,
                };
                each(region.pages(), base.checked_add(offset).ok_or(EINVAL)?, len)
            }
            Local::List(pieces) => {
                let (mut skip, mut remaining) = (offset, len);
                for piece in pieces {
                    let Some(available @ 1..) = u64::from(piece.len).checked_sub(skip) else {
                        skip = skip.saturating_sub(piece.len.into());
                        continue;
                    };
                    let n = remaining.min(usize::try_from(available)?);
                    let at = piece.offset.checked_add(skip).ok_or(EINVAL)?;
                    each(piece.region.pages(), at, n)?;
                    (skip, remaining) = (0, remaining.saturating_sub(n));
                    if remaining == 0 {
                        return Ok(());
                    }
                }
                Err(EINVAL)
            }
        }
    }

    /// Whether `len` bytes from `offset` of the work are copied behind the headers of a packet that has
    /// them `count` times, from different works.
    pub(crate) fn is_copied(&self, count: u8, offset: u64, len: u32) -> bool {
        if !matches!(self.local, Local::List(_)) {
            return are_copied(count, len);
        }
        let mut frags = 0u32;
        let counted = self.for_each_piece(0, offset, len as usize, |_, _, n| {
            frags = frags.saturating_add(Pages::most_frags(u32::try_from(n)?));
            Ok(())
        });
        len <= COPY_MAX || counted.is_err() || !Pages::fit(frags)
    }

    /// Attaches `len` bytes from `offset` of each request to `skb`, with `pad` zero bytes behind: copied when
    /// short, else as page fragments.
    pub(crate) fn attach(
        &self,
        offset: u64,
        len: usize,
        pad: u8,
        copied: bool,
        skb: &mut SkBuff,
    ) -> Result {
        match &self.local {
            // Several writes are small, so that each is in a packet from its first byte on.
            Local::Region(region, _) if copied && self.count() > 1 => {
                let offsets = self.offsets.get(..usize::from(self.count()));
                let offsets = offsets.ok_or(EINVAL)?;
                return region.pages().append(offsets, len, pad, skb);
            }
            Local::Inline(data) => {
                let offset = usize::try_from(offset)?;
                let end = offset.checked_add(len).ok_or(EINVAL)?;
                skb.put(data.get(offset..end).ok_or(EINVAL)?)?;
            }
            _ if len == 0 => {}
            _ => self.for_each_piece(0, offset, len, |pages, at, n| {
                attach(pages, at, n, copied, skb)
            })?,
        }
        skb.put_zero(pad.into())
    }

    /// Places `len` bytes of a Read response from `skb` at `offset` of request `number`.
    pub(crate) fn place(
        &self,
        number: u16,
        offset: u64,
        skb: &SkBuff,
        skb_offset: usize,
        len: usize,
    ) -> Result<(), Code> {
        let mut from = skb_offset;
        self.for_each_piece(number, offset, len, |pages, at, n| {
            pages.copy_from_skb(at, skb, from, n)?;
            from = from.saturating_add(n);
            Ok(())
        })
        .map_err(|_| Code::ABORTED)
    }

    /// Places what an atomic operation has replaced.
    pub(crate) fn place_original(&self, value: u64) -> Result<(), Code> {
        let bytes = value.to_ne_bytes();
        self.for_each_piece(0, 0, bytes.len(), |pages, at, _| pages.copy_in(at, &bytes))
            .map_err(|_| Code::ABORTED)
    }
}

/// Blocks up to this many bytes are copied behind the headers: cheaper than a page reference,
/// and a short block needs room for its padding.
const COPY_MAX: u32 = 192;

/// Whether the blocks of a packet, `count` of `len` bytes, are copied behind its headers. Otherwise
/// the packet shares their pages.
pub(crate) fn are_copied(count: u8, len: u32) -> bool {
    let frags = || u32::from(count).saturating_mul(Pages::most_frags(len));
    len <= COPY_MAX || !Pages::fit(frags())
}

/// Attaches bytes of `pages` to `skb`, after its headers, which has room for them if they are `copied`.
pub(crate) fn attach(
    pages: &Pages,
    offset: u64,
    len: usize,
    copied: bool,
    skb: &mut SkBuff,
) -> Result {
    if copied {
        pages.append(&[offset], len, 0, skb)
    } else {
        pages.add_frags(offset, len, skb)
    }
}
