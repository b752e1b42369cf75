// SPDX-License-Identifier: GPL-2.0

//! Work requests, from the system call or the ring entry until they complete.

use kernel::{
    list::{impl_list_arc_safe, impl_list_item, ListArc, ListLinks},
    prelude::*,
    sync::{
        atomic::{Atomic, Relaxed},
        Arc, UniqueArc,
    },
};

use super::{endpoint, queue, Region, RetryPolicy};
use crate::{
    kapi::{
        lock::{new_spinlock_bh, SpinLockBh},
        map::hash,
        pages::Pages,
        skb::SkBuff,
        uapi,
    },
    proto::{
        wire::{AtomicKind, OPS_MAX},
        Code,
    },
};

/// The operation of a request.
#[derive(Copy, Clone, PartialEq, Eq)]
pub(crate) enum WorkOp {
    /// A message to the queue pair `dest`, with optional immediate data.
    Send { imm: Option<u32> },
    /// A message to `offset` of the peer's receive context `key` [proto 4.9].
    SendKeyed { key: u32, offset: u32 },
    /// Copies local memory to the peer's memory at RMA address `remote`. With immediate data, the
    /// queue pair `dest` gets a completion when all bytes are in place [proto 7].
    Write { remote: u64, imm: Option<u32> },
    /// Copies the peer's memory at RMA address `remote` to local memory.
    Read { remote: u64 },
    /// Changes 64 bits of the peer's memory at RMA address `remote`. The old value goes to local
    /// memory.
    Atomic {
        remote: u64,
        kind: AtomicKind,
        operand: u64,
        compare: u64,
    },
}

impl WorkOp {
    /// RMA address that the operation accesses, or 0 for a message.
    fn remote(&self) -> u64 {
        match *self {
            Self::Send { .. } | Self::SendKeyed { .. } => 0,
            Self::Write { remote, .. } | Self::Read { remote } | Self::Atomic { remote, .. } => {
                remote
            }
        }
    }

    /// Whether the operation uses a receive buffer of the peer's queue pair, which can refuse it
    /// for want of one.
    pub(crate) fn is_message(&self) -> bool {
        matches!(
            self,
            Self::Send { .. } | Self::SendKeyed { .. } | Self::Write { imm: Some(_), .. }
        )
    }
}

/// Completes a work exactly once. A drop without [`Ticket::complete`] completes it as aborted.
pub(crate) enum Ticket {
    Socket(endpoint::Ticket),
    /// With the works of its queue pair for reuse.
    Ring(queue::Ticket, Arc<Pool>),
}

impl Ticket {
    /// The connection has accepted the work, which completes from now on. Any context.
    pub(crate) fn arm(&self) {
        match self {
            Self::Socket(ticket) => ticket.arm(),
            // A ring's ticket is armed from the start, because its entry was taken from the ring.
            Self::Ring(..) => {}
        }
    }

    /// Completes the work. A second call does nothing. Any context up to softirq. A connection's
    /// lock may be held.
    pub(crate) fn complete(&self, outcome: Result<(), Code>) {
        match self {
            Self::Socket(ticket) => ticket.complete(outcome),
            Self::Ring(ticket, _) => ticket.complete(outcome),
        }
    }

    /// A value that identifies the socket or the queue pair while it has works under way. Any
    /// context.
    pub(crate) fn source(&self) -> usize {
        match self {
            Self::Socket(ticket) => ticket.source(),
            Self::Ring(ticket, _) => ticket.source(),
        }
    }

    /// Whether requests of the two tickets may share a packet [proto 4.18].
    ///
    /// If the peer refuses one request of a packet, those behind it are not executed. A ring queue
    /// pair enters the error state then, so they are flushed. Requests of sockets have no order, so
    /// they are sent again.
    pub(crate) fn shares(&self, other: &Ticket) -> bool {
        match (self, other) {
            (Self::Ring(..), Self::Ring(..)) => self.source() == other.source(),
            (Self::Socket(_), Self::Socket(_)) => true,
            _ => false,
        }
    }

    /// Whether a message that the peer refused for want of a buffer is sent again. Any context.
    pub(crate) fn retry_policy(&self) -> RetryPolicy {
        match self {
            Self::Socket(ticket) => ticket.retry_policy(),
            Self::Ring(ticket, _) => ticket.retry_policy(),
        }
    }
}

/// Largest inline data of a submission entry, in bytes.
pub(crate) const INLINE_MAX: usize = uapi::SUPERP_MAX_INLINE as usize;

/// Identifies a flow, the works of a connection that start in the order of posting. Works to one
/// queue pair of the peer form a flow. Without a queue pair, the works of one socket or ring form
/// one.
#[derive(Copy, Clone, PartialEq, Eq)]
pub(crate) struct FlowId {
    qpn: u32,
    /// [`Ticket::source`] if `qpn` is 0, else 0.
    source: usize,
}

impl FlowId {
    /// A keyed hash. A program that chooses queue pair numbers cannot choose its values.
    pub(crate) fn hash(&self) -> u32 {
        hash(self.source as u64, self.qpn.into())
    }
}

/// The properties that requests in one packet share [proto 4.18].
#[derive(Copy, Clone, PartialEq, Eq)]
pub(crate) struct PackKey {
    /// `true` for reads, `false` for writes.
    pub(crate) read: bool,
    /// Bytes of each request. Of a write at most [`COPY_MAX`].
    pub(crate) len: u32,
}

impl PackKey {
    /// Returns `None` if a packet cannot have several such requests. Data of packed writes is
    /// copied, so it must be short. A read request carries no data.
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

/// Largest number of requests in one work.
const REQUESTS_MAX: usize = OPS_MAX as usize;

/// The local memory of a request.
pub(crate) enum Local {
    /// The request has no bytes.
    None,
    /// The bytes are in the work. The data starts at the first one.
    Inline([u8; INLINE_MAX]),
    /// A kernel copy of a message. The data starts at the first byte.
    Buffer(Pages),
    /// A region of the caller, and the offset of the first byte in it. If the work has several
    /// requests, this is the offset of the first one. The region stays pinned until the work
    /// completes.
    Region(Arc<Region>, u64),
    /// Pieces of regions, in the order of the data.
    List(KVec<Piece>),
}

/// `len` bytes from `offset` of a region of the caller. The region stays pinned until the work
/// completes.
pub(crate) struct Piece {
    pub(crate) region: Arc<Region>,
    pub(crate) offset: u64,
    /// At least 1.
    pub(crate) len: u32,
}

/// The parameters of a new [`Work`].
pub(crate) struct Request {
    pub(crate) dest: u32,
    pub(crate) op: WorkOp,
    pub(crate) len: u32,
    pub(crate) local: Local,
    pub(crate) fence: bool,
    pub(crate) solicited: bool,
}

impl Request {
    /// Key of the requests that can be merged with this one into one work. `None` if it must be a
    /// work of its own.
    pub(crate) fn pack_key(&self) -> Option<PackKey> {
        let mergeable = !self.fence && matches!(self.local, Local::Region(..));
        PackKey::new(self.op, self.len).filter(|_| mergeable)
    }
}

/// One work request, or several requests of consecutive entries of one submission ring that have
/// the same [`PackKey`] and the same region.
///
/// The requests of one work are in one packet. If the peer refuses one of them, the ones behind it
/// are not executed and complete as aborted.
#[pin_data]
pub(crate) struct Work {
    #[pin]
    links: ListLinks,
    /// Completes the work exactly once.
    pub(crate) ticket: Ticket,
    /// Queue pair of the peer: the destination of a message, or of a remote access the queue pair
    /// that the socket or ring is connected to. 0 if there is none. See [`FlowId`].
    pub(crate) dest: u32,
    /// Operation of the first request.
    op: WorkOp,
    /// Bytes of each request.
    pub(crate) len: u32,
    local: Local,
    /// RMA address and offset in the local region of each request. Valid only if `count` is above
    /// 1.
    remotes: [u64; REQUESTS_MAX],
    offsets: [u64; REQUESTS_MAX],
    /// Number of requests.
    count: u16,
    /// Index of the request that the peer refused: only the requests before it are executed.
    /// `u32::MAX` if none was refused.
    refused_at: Atomic<u32>,
    /// Code of that refusal, or of the last refusal of a message for want of a buffer. `major` is
    /// in the upper half, `minor` in the lower half, 0 for none.
    refusal_code: Atomic<u32>,
    /// The work starts when all earlier works of its flow have completed.
    pub(crate) fence: bool,
    /// The message, or the completion of a write with immediate data, wakes a receiver that waits
    /// for solicited completions only.
    pub(crate) solicited: bool,
    /// Position in its flow. It is set when the work starts.
    flow_order: Atomic<u64>,
    /// How often the peer refused the message for want of a buffer after its socket or queue pair
    /// had been closed.
    refusal_count: Atomic<u32>,
    /// Index of its flow in the connection, set while the work shares a packet with others.
    flow_slot: Atomic<u32>,
    /// The work was in a packet with a refused request and is sent again.
    repeated: Atomic<bool>,
    /// Value of the connection's life counter when all bytes of a write were in the peer's memory,
    /// so that only the immediate data is still to be sent. 0 if they are not.
    placed_in_life: Atomic<u32>,
}

/// A completed work of a ring. Its memory and its ticket are reused for another entry of the same
/// ring, which saves an allocation and a reference count per work.
pub(crate) type Recycled = Pin<UniqueArc<Work>>;

/// Completed works of one queue pair, for reuse until the queue pair is closed. The works hold the
/// queue pair and this.
#[pin_data]
pub(crate) struct Pool {
    /// `None`: the queue pair is closed.
    #[pin]
    works: SpinLockBh<Option<KVVec<Recycled>>>,
}

impl Pool {
    /// A pool for `capacity` works. Process context.
    pub(crate) fn new(capacity: usize) -> Result<Arc<Pool>> {
        let works = KVVec::with_capacity(capacity, GFP_KERNEL_ACCOUNT)?;
        Arc::pin_init(
            pin_init!(Pool { works <- new_spinlock_bh!(Some(works), "superp_ring_pool") }),
            GFP_KERNEL_ACCOUNT,
        )
    }

    /// Takes works over, as far as there is capacity. The others stay. Any context up to softirq.
    /// A connection's lock may be held.
    pub(crate) fn put(&self, works: &mut [Option<Recycled>]) {
        let mut pool = self.works.lock();
        let Some(pool) = &mut *pool else { return };
        for work in works {
            if pool.len() == pool.capacity() {
                return;
            }
            if let Some(work) = work.take() {
                // There is capacity.
                let _ = pool.push_within_capacity(work);
            }
        }
    }

    /// Exchanges the works for those of `works`, which has the same capacity. Any context.
    pub(crate) fn exchange(&self, works: &mut KVVec<Recycled>) {
        if let Some(pool) = &mut *self.works.lock() {
            core::mem::swap(pool, works);
        }
    }

    /// Frees the works, and takes no more. Process context.
    pub(crate) fn close(&self) {
        let works = self.works.lock().take();
        drop(works);
    }
}

/// A work that is not posted yet. Its requests can still be changed.
pub(crate) struct UnpostedWork(Pin<UniqueArc<Work>>);

impl UnpostedWork {
    /// Returns a work with one request. Process context.
    ///
    /// # Errors
    ///
    /// `ENOMEM`: the ticket is dropped, which completes a ring entry as aborted.
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

    /// Like [`UnpostedWork::new`], but reuses the memory and the ticket of `recycled`, for entry
    /// `index` of the same ring. Any context.
    pub(crate) fn reuse(mut recycled: Recycled, index: u32, request: Request) -> UnpostedWork {
        let this = recycled.as_mut().project();
        if let Ticket::Ring(ticket, _) = this.ticket {
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

    /// Adds the request of the next ring entry, which has the same [`Request::pack_key`] and
    /// region. It accesses the RMA address `remote` and the local bytes from `offset` of the
    /// region. Returns `false` and adds nothing if the work is full or is not one of a ring.
    pub(crate) fn merge(&mut self, remote: u64, offset: u64) -> bool {
        let this = self.0.as_mut().project();
        let Ticket::Ring(ticket, _) = this.ticket else {
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
    /// Prepares a completed work for reuse, and releases its local memory. Returns `None`, and
    /// drops the work, if somebody else holds a reference. Any context.
    pub(crate) fn recycle(work: ListArc<Work>) -> Option<Recycled> {
        let mut work = Arc::into_unique_or_drop(work.into_arc())?;
        *work.as_mut().project().local = Local::None;
        Some(work)
    }

    /// The flow that the work belongs to.
    pub(crate) fn flow(&self) -> FlowId {
        FlowId {
            qpn: self.dest,
            source: match self.dest {
                0 => self.ticket.source(),
                _ => 0,
            },
        }
    }

    /// Key of the works that may share a packet with this one. `None` if the work needs a packet of
    /// its own. That includes a work of a socket that is sent again, so that another refused
    /// request cannot make it repeat for ever.
    pub(crate) fn like(&self) -> Option<PackKey> {
        let sent_alone = self.repeated.load(Relaxed) && matches!(self.ticket, Ticket::Socket(_));
        PackKey::new(self.op, self.len).filter(|_| !sent_alone)
    }

    /// Number of requests that are executed.
    pub(crate) fn count(&self) -> u16 {
        // CAST: At most `self.count`, which has 16 bits.
        u32::from(self.count).min(self.refused_at.load(Relaxed)) as u16
    }

    /// The last code of [`Work::set_refused`].
    fn refusal_code(&self) -> Option<Code> {
        let code = self.refusal_code.load(Relaxed);
        (code != 0).then_some(Code {
            major: (code >> 16) as u16,
            minor: code as u16,
        })
    }

    /// Code of the refused request behind those that are executed, if there is one.
    pub(super) fn cut_code(&self) -> Option<Code> {
        self.refusal_code()
            .filter(|_| self.refused_at.load(Relaxed) != u32::MAX)
    }

    /// Stores the code with which the peer refused the work or one of its requests.
    pub(crate) fn set_refused(&self, code: Code) {
        let packed = u32::from(code.major) << 16 | u32::from(code.minor);
        self.refusal_code.store(packed, Relaxed);
    }

    /// The peer refused request `n` with `code`. The requests behind it are not executed, and later
    /// submissions of the queue pair are flushed.
    pub(crate) fn cut(&self, n: u16, code: Code) {
        self.set_refused(code);
        self.refused_at.store(n.into(), Relaxed);
        if let Ticket::Ring(ticket, _) = &self.ticket {
            ticket.flush_after(n.into());
        }
    }

    /// Operation of the first request.
    pub(crate) fn op(&self) -> WorkOp {
        let remote = self.remote(0);
        match self.op {
            WorkOp::Write { imm, .. } => WorkOp::Write { remote, imm },
            WorkOp::Read { .. } => WorkOp::Read { remote },
            op => op,
        }
    }

    /// RMA address that request `n` accesses, or 0 for a message.
    pub(crate) fn remote(&self, n: u16) -> u64 {
        if self.count > 1 {
            return self.remotes.get(usize::from(n)).copied().unwrap_or(0);
        }
        self.op.remote()
    }

    /// Completes the work. `outcome` is that of the executed requests. A refused request completes
    /// with its code, and those behind it as aborted. A second call does nothing. Any context up to
    /// softirq. A connection's lock may be held.
    pub(crate) fn complete(&self, outcome: Result<(), Code>) {
        let Some(code) = self.cut_code() else {
            return self.ticket.complete(outcome);
        };
        if let Ticket::Ring(ticket, _) = &self.ticket {
            ticket.complete_first(self.count().into(), outcome);
            ticket.complete_first(1, Err(code));
            return ticket.complete(Err(Code::ABORTED));
        }
        self.ticket.complete(Err(code));
    }

    /// The work is sent again, because it was in a packet with a refused request.
    pub(crate) fn set_again(&self) {
        self.repeated.store(true, Relaxed);
    }

    /// Whether the work must not start, because an earlier submission of its queue pair has failed.
    /// A work that is sent again has started before, and is finished. Any context.
    pub(crate) fn is_flushed(&self) -> bool {
        match &self.ticket {
            Ticket::Ring(ticket, _) => !self.repeated.load(Relaxed) && ticket.is_flushed(),
            Ticket::Socket(_) => false,
        }
    }

    /// Completes a work that must not start, with the code of its last refusal or as aborted. Any
    /// context up to softirq. A connection's lock may be held.
    pub(crate) fn flush(&self) {
        let code = self.refusal_code().unwrap_or(Code::ABORTED);
        self.ticket.complete(Err(code));
    }

    pub(crate) fn set_slot(&self, slot: u32) {
        self.flow_slot.store(slot, Relaxed);
    }

    /// Index of its flow in the connection, as set by [`Work::set_slot`].
    pub(crate) fn slot(&self) -> u32 {
        self.flow_slot.load(Relaxed)
    }

    pub(crate) fn set_order(&self, order: u64) {
        self.flow_order.store(order, Relaxed);
    }

    /// Stores the life of the connection in which all bytes of a write are in the peer's memory.
    /// The peer says so by refusing the immediate data [proto 7]. 0: they are not.
    pub(crate) fn set_placed(&self, life: u32) {
        self.placed_in_life.store(life, Relaxed);
    }

    /// Whether no bytes of a write are left to send: it has none, or they are in place since the
    /// life `life` of the connection.
    pub(crate) fn is_placed(&self, life: u32) -> bool {
        self.len == 0 || self.placed_in_life.load(Relaxed) == life
    }

    /// Counts a refusal for want of a buffer and returns the number of earlier ones.
    pub(crate) fn count_refusal(&self) -> u32 {
        self.refusal_count.fetch_add(1, Relaxed)
    }

    pub(crate) fn order(&self) -> u64 {
        self.flow_order.load(Relaxed)
    }

    /// Calls `each` for every piece of memory of the `len` bytes from `offset` of request `number`,
    /// in order. The arguments are its pages, the offset in them, and its length in bytes.
    ///
    /// # Errors
    ///
    /// `EINVAL`: the request has fewer bytes, or they are not in pages. Others are those of `each`.
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

    /// Whether a packet gets a copy of `len` bytes from `offset` of the work behind its headers.
    /// Otherwise it shares the pages. `count`: number of blocks of this length in the packet.
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

    /// Attaches `len` bytes from `offset` of each request to `skb`, each with `pad` zero bytes
    /// behind it: as a copy if `copied` is set, else as page fragments. Any context.
    pub(crate) fn attach(
        &self,
        offset: u64,
        len: usize,
        pad: u8,
        copied: bool,
        skb: &mut SkBuff,
    ) -> Result {
        match &self.local {
            // Packed writes are short, so that each request starts at its first byte: `offset` is
            // 0.
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

    /// Copies `len` bytes of a Read response, which are at `skb_offset` of `skb`, to `offset` of
    /// request `number`. Softirq.
    ///
    /// # Errors
    ///
    /// `ABORTED`: the request has fewer bytes.
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

    /// Stores the old value of an atomic operation in local memory. Softirq.
    pub(crate) fn place_original(&self, value: u64) -> Result<(), Code> {
        let bytes = value.to_ne_bytes();
        self.for_each_piece(0, 0, bytes.len(), |pages, at, _| pages.copy_in(at, &bytes))
            .map_err(|_| Code::ABORTED)
    }
}

/// Blocks of up to this many bytes are copied behind the headers. A copy is cheaper than a page
/// reference, and a short block needs linear memory for its padding.
const COPY_MAX: u32 = 192;

/// Whether a packet with `count` blocks of `len` bytes gets copies of them behind its headers.
/// Otherwise it shares their pages.
pub(crate) fn are_copied(count: u8, len: u32) -> bool {
    let frags = || u32::from(count).saturating_mul(Pages::most_frags(len));
    len <= COPY_MAX || !Pages::fit(frags())
}

/// Attaches `len` bytes from `offset` of `pages` to `skb`: as a copy if `copied` is set, for which
/// the linear part must be large enough, else as page fragments. Any context.
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
