// SPDX-License-Identifier: GPL-2.0

//! Memory that is shared with a program, rings in it, and the sockets that map it: safe Rust over
//! `ring.c`.
//!
//! The program may write any byte of this memory at any time. What is read here is read once, by
//! accesses that the compiler neither repeats nor splits, into memory that is the kernel's own.

use core::{marker::PhantomData, mem, ptr, ptr::NonNull};

use kernel::{
    error::to_result,
    ffi::c_void,
    prelude::*,
    sync::{
        atomic::{Acquire, Atomic, Full, Relaxed, Release},
        Arc,
    },
    transmute::{AsBytes, FromBytes},
};

use super::{
    bindings as c,
    sock::{Sock, SockState},
    uapi,
};

pub(crate) use c::{
    superp_cq_create as CqCreate, superp_cq_eventfd as CqEventfd, superp_cqe as Cqe,
    superp_ring as Layout, superp_ring_destroy as RingDestroy, superp_rqe as Rqe,
    superp_rqp_connect as RqpConnect, superp_rqp_create as RqpCreate,
    superp_rqp_modify as RqpModify, superp_segment as Segment, superp_serve as Serve,
    superp_sqe as Sqe, superp_srq_create as SrqCreate, superp_srq_eventfd as SrqEventfd,
};

/// Numbers of the ioctl commands.
pub(crate) mod ioctl {
    pub(crate) use super::c::{
        SUPERP_RING_IOC_CQ_CREATE as CQ_CREATE, SUPERP_RING_IOC_CQ_DESTROY as CQ_DESTROY,
        SUPERP_RING_IOC_CQ_EVENTFD as CQ_EVENTFD, SUPERP_RING_IOC_RQP_CONNECT as RQP_CONNECT,
        SUPERP_RING_IOC_RQP_CREATE as RQP_CREATE, SUPERP_RING_IOC_RQP_DESTROY as RQP_DESTROY,
        SUPERP_RING_IOC_RQP_MODIFY as RQP_MODIFY, SUPERP_RING_IOC_SERVE as SERVE,
        SUPERP_RING_IOC_SRQ_CREATE as SRQ_CREATE, SUPERP_RING_IOC_SRQ_DESTROY as SRQ_DESTROY,
        SUPERP_RING_IOC_SRQ_EVENTFD as SRQ_EVENTFD,
    };
}

macro_rules! bytes {
    ($($name:ident: $size:literal,)*) => {
        $(
            // SAFETY: Integers and arrays of them, without padding; the size is the sum of the fields.
            unsafe impl FromBytes for $name {}
            // SAFETY: As above.
            unsafe impl AsBytes for $name {}
            const _: () = assert!(mem::size_of::<$name>() == $size);
        )*
    };
}

bytes! {
    CqCreate: 48,
    CqEventfd: 8,
    Cqe: 32,
    RingDestroy: 8,
    Rqe: 32,
    RqpConnect: 48,
    RqpCreate: 104,
    RqpModify: 8,
    Segment: 16,
    Serve: 8,
    Sqe: 64,
    SrqCreate: 56,
    SrqEventfd: 8,
}

/// The part of a submission entry that inline data take the place of.
pub(crate) struct Operands {
    pub(crate) local_addr: u64,
    pub(crate) operand: u64,
    pub(crate) compare: u64,
    pub(crate) rsvd: u64,
}

impl Sqe {
    /// The entry without inline data.
    pub(crate) fn operands(&self) -> Operands {
        // SAFETY: Any bytes are integers.
        let tail = unsafe { self.__bindgen_anon_1.__bindgen_anon_1 };
        Operands {
            local_addr: tail.local_addr,
            operand: tail.operand,
            compare: tail.compare,
            rsvd: tail.rsvd2,
        }
    }

    /// The inline data.
    pub(crate) fn data(&self) -> [u8; c::SUPERP_MAX_INLINE as usize] {
        // SAFETY: Any bytes are bytes.
        unsafe { self.__bindgen_anon_1.data }
    }
}

/// Bytes of a cache line, as far as the interface goes.
const LINE: usize = 64;

/// Zeroed memory of the kernel that programs may map.
///
/// # Invariants
///
/// `memory` is owned by this; `base` is its address, a multiple of the page size, and the `size`
/// bytes there are valid until it is freed.
pub(crate) struct Shared {
    memory: NonNull<c::superp_shared>,
    base: NonNull<u8>,
    size: usize,
}

// SAFETY: Not bound to a thread.
unsafe impl Send for Shared {}
// SAFETY: Accessed by atomic and volatile operations only; programs do whatever they do.
unsafe impl Sync for Shared {}

impl Shared {
    /// `size` bytes, charged to the user's RLIMIT_MEMLOCK. Process context; sleeps.
    ///
    /// Errors: `ENOMEM`.
    pub(crate) fn new(size: usize) -> Result<Arc<Shared>> {
        let mut err = 0;
        // SAFETY: `err` is valid for the call.
        let memory = NonNull::new(unsafe { c::superp_shared_alloc(size, &mut err) })
            .ok_or_else(|| Error::from_errno(err))?;
        // SAFETY: It was just made.
        let base = unsafe { c::superp_shared_address(memory.as_ptr()) };
        let Some(base) = NonNull::new(base.cast()) else {
            // SAFETY: As above; it is not used afterwards.
            unsafe { c::superp_shared_free(memory.as_ptr()) };
            return Err(ENOMEM);
        };
        // INVARIANT: It is at least as large as was asked for.
        Ok(Arc::new(Shared { memory, base, size }, GFP_KERNEL)?)
    }

    /// Bytes.
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// Maps it, from its first byte on, into the program that asks for that. Process context.
    ///
    /// Errors: `EINVAL` (not a shared mapping, or too long), `ENOMEM`.
    pub(crate) fn map(&self, request: &MapRequest) -> Result {
        // SAFETY: By the invariants of both types.
        to_result(unsafe { c::superp_shared_map(self.memory.as_ptr(), request.vma.as_ptr()) })
    }

    /// The `T` at `offset`, for as long as the memory lives.
    fn at<T>(&self, offset: usize) -> Option<NonNull<T>> {
        let end = offset.checked_add(mem::size_of::<T>())?;
        if end > self.size || offset % mem::align_of::<T>() != 0 {
            return None;
        }
        // SAFETY: Inside the memory.
        Some(unsafe { self.base.add(offset) }.cast())
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: By the type invariant; it is not used afterwards.
        unsafe { c::superp_shared_free(self.memory.as_ptr()) }
    }
}

/// The page of a context: bits of queues.
pub(crate) struct CtxPage {
    shared: Arc<Shared>,
    /// Words of `bell` that have bits of queue pairs.
    bells: Atomic<u32>,
}

/// Words of a set of bits.
const WORDS: usize = c::SUPERP_MAX_RING_QPS as usize / 64;

impl CtxPage {
    /// With no bit set. Process context.
    pub(crate) fn new() -> Result<CtxPage> {
        Ok(CtxPage {
            shared: Shared::new(mem::size_of::<c::superp_ctx_page>())?,
            bells: Atomic::new(0),
        })
    }

    /// There is a queue pair `qp`. Process context; the caller serialises.
    pub(crate) fn cover(&self, qp: u32) {
        let words = (qp / 64).saturating_add(1);
        self.bells
            .store(words.max(self.bells.load(Relaxed)), Relaxed);
    }

    /// The memory.
    pub(crate) fn memory(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Takes the bits of queue pairs whose doorbell was rung, 64 at a time: the number of the first of
    /// the 64, and their bits. Leaves out those of which there are none.
    pub(crate) fn take_bells(&self) -> impl Iterator<Item = (u32, u64)> + '_ {
        let words = self.words(mem::offset_of!(c::superp_ctx_page, bell));
        (0..self.bells.load(Relaxed))
            .zip(words.into_iter().flatten())
            .filter(|(_, word)| word.load(Relaxed) != 0)
            .map(|(i, word)| (i.wrapping_mul(64), word.xchg(0, Full)))
    }

    /// Queue pair `qp` has to be looked at again.
    pub(crate) fn set_bell(&self, qp: u32) {
        self.set_bit(mem::offset_of!(c::superp_ctx_page, bell), qp);
    }

    /// Completion queue `cq` has something for who waits.
    pub(crate) fn set_event(&self, cq: u32) {
        self.set_bit(mem::offset_of!(c::superp_ctx_page, events), cq);
    }

    /// Whether any completion queue has something for who waits.
    pub(crate) fn any_event(&self) -> bool {
        self.words(mem::offset_of!(c::superp_ctx_page, events))
            .is_some_and(|words| words.iter().any(|word| word.load(Relaxed) != 0))
    }

    fn set_bit(&self, offset: usize, bit: u32) {
        if bit >= c::SUPERP_MAX_RING_QPS {
            return;
        }
        if let Some(words) = self.shared.at::<[u64; WORDS]>(offset) {
            // SAFETY: The word of the bit is inside of the memory.
            unsafe { c::superp_shared_set_bit(words.as_ptr().cast(), bit) }
        }
    }

    /// The set of bits at `offset`.
    fn words(&self, offset: usize) -> Option<&[Atomic<u64>; WORDS]> {
        let words = self.shared.at::<[Atomic<u64>; WORDS]>(offset)?;
        // SAFETY: Valid and aligned; kernel and program access it atomically.
        Some(unsafe { words.as_ref() })
    }
}

/// A ring of entries `E`, each of which may have segments.
///
/// # Invariants
///
/// The words, `entries` entries from `array` on, and `per_entry` times as many segments from `segments`
/// on, are inside of `memory` and aligned; `entries` is a power of two. The size of `E` is a multiple of
/// 8.
pub(crate) struct Ring<E> {
    memory: Arc<Shared>,
    offset: usize,
    producer: NonNull<u32>,
    consumer: NonNull<u32>,
    flags: NonNull<u32>,
    array: NonNull<u64>,
    segments: NonNull<u64>,
    entries: u32,
    per_entry: u32,
    _entries: PhantomData<E>,
}

// SAFETY: The pointers are into `memory`, which is `Send` and `Sync`.
unsafe impl<E> Send for Ring<E> {}
// SAFETY: As above.
unsafe impl<E> Sync for Ring<E> {}

/// Puts a private copy of what is at `from` into `to`, as it was at one moment for each of its words.
///
/// # Safety
///
/// The words of a `T`, whose size is a multiple of 8, are there, and valid for reads. `to` is valid for writes.
unsafe fn copy<T: FromBytes>(from: NonNull<u64>, to: *mut T) {
    for i in 0..mem::size_of::<T>() / 8 {
        // SAFETY: By the requirements; `to` is written without need of alignment. A volatile read happens once.
        unsafe {
            let word = ptr::read_volatile(from.add(i).as_ptr());
            to.cast::<u64>().add(i).write_unaligned(word);
        }
    }
}

impl<E: FromBytes + AsBytes> Ring<E> {
    const WORDS: usize = mem::size_of::<E>() / 8;
    const WHOLE_WORDS: () = assert!(mem::size_of::<E>() % 8 == 0);

    /// Bytes up to the segments, a multiple of 64.
    const fn base(entries: u32) -> usize {
        // Words of different owners on lines of their own: producer, consumer, flags.
        (entries as usize)
            .saturating_mul(mem::size_of::<E>())
            .saturating_add(3 * LINE + LINE - 1)
            & !(LINE - 1)
    }

    /// Bytes of a ring of `entries` entries with `per_entry` segments each, a multiple of 64.
    pub(crate) const fn size(entries: u32, per_entry: u32) -> usize {
        (entries as usize)
            .saturating_mul(per_entry as usize)
            .saturating_mul(mem::size_of::<Segment>())
            .saturating_add(Self::base(entries))
            .saturating_add(LINE - 1)
            & !(LINE - 1)
    }

    /// A ring of `entries` entries with `per_entry` segments each at `offset` of the memory, which is
    /// all zero.
    ///
    /// Errors: `EINVAL`: not a power of two, or not inside of the memory.
    pub(crate) fn new(
        memory: &Arc<Shared>,
        offset: usize,
        entries: u32,
        per_entry: u32,
    ) -> Result<Ring<E>> {
        let () = Self::WHOLE_WORDS;
        let size = Self::size(entries, per_entry);
        let end = offset.checked_add(size).ok_or(EINVAL)?;
        if !entries.is_power_of_two() || offset % LINE != 0 || end > memory.size() {
            return Err(EINVAL);
        }
        let at = |line: usize| memory.at::<u32>(offset.wrapping_add(line.wrapping_mul(LINE)));
        let array = at(3).ok_or(EINVAL)?.cast();
        let segments = match per_entry {
            0 => array,
            _ => memory
                .at(offset.wrapping_add(Self::base(entries)))
                .ok_or(EINVAL)?,
        };
        // INVARIANT: The end is inside.
        Ok(Ring {
            offset,
            producer: at(0).ok_or(EINVAL)?,
            consumer: at(1).ok_or(EINVAL)?,
            flags: at(2).ok_or(EINVAL)?,
            array,
            segments,
            memory: memory.clone(),
            entries,
            per_entry,
            _entries: PhantomData,
        })
    }

    /// What a program has to know; `flags`: whether it has to know those.
    pub(crate) fn layout(&self, flags: bool) -> Layout {
        // CAST: A ring is smaller than 4 GiB.
        let at = |line: usize| self.offset.wrapping_add(line.wrapping_mul(LINE)) as u32;
        Layout {
            entries: self.entries,
            producer: at(0),
            consumer: at(1),
            flags: if flags { at(2) } else { 0 },
            array: at(3),
            segments: match self.per_entry {
                0 => 0,
                // CAST: As above.
                _ => self.offset.wrapping_add(Self::base(self.entries)) as u32,
            },
        }
    }

    /// The memory that it is in.
    pub(crate) fn memory(&self) -> &Arc<Shared> {
        &self.memory
    }

    /// How many entries.
    pub(crate) fn entries(&self) -> u32 {
        self.entries
    }

    fn atomic(&self, word: NonNull<u32>) -> &Atomic<u32> {
        // SAFETY: By the type invariant; the kernel accesses it atomically.
        unsafe { Atomic::from_ptr(word.as_ptr()) }
    }

    /// The producer index of a ring that the program fills; entries before it can be read.
    pub(crate) fn producer(&self) -> u32 {
        self.atomic(self.producer).load(Acquire)
    }

    /// Gives the entries before `index` to the program.
    pub(crate) fn set_producer(&self, index: u32) {
        self.atomic(self.producer).store(index, Release);
    }

    /// The consumer index of a ring that the kernel fills; slots before it can be written.
    pub(crate) fn consumer(&self) -> u32 {
        self.atomic(self.consumer).load(Acquire)
    }

    /// Gives the slots before `index` to the program.
    pub(crate) fn set_consumer(&self, index: u32) {
        self.atomic(self.consumer).store(index, Release);
    }

    /// Sets the flags.
    pub(crate) fn set_flags(&self, flags: u32) {
        self.atomic(self.flags).store(flags, Relaxed);
    }

    /// Takes the arm word, if it is set for completions that are solicited or not.
    pub(crate) fn disarm(&self, solicited: bool) -> bool {
        let arm = self.atomic(self.flags);
        match arm.load(Relaxed) {
            0 => false,
            uapi::SUPERP_CQ_ARMED_SOLICITED if !solicited => false,
            _ => arm.xchg(0, Full) != 0,
        }
    }

    /// Takes the limit word, if fewer entries than it says are left from `consumer` on.
    pub(crate) fn take_limit(&self, consumer: u32) -> bool {
        let limit = self.atomic(self.flags);
        let left = self.producer().wrapping_sub(consumer);
        limit.load(Relaxed) > left && limit.xchg(0, Full) != 0
    }

    fn slot(&self, index: u32) -> NonNull<u64> {
        let slot = (index & self.entries.wrapping_sub(1)) as usize;
        // SAFETY: The slot is one of the array's, by the type invariant.
        unsafe { self.array.add(slot.wrapping_mul(Self::WORDS)) }
    }

    /// A private copy of the entry in the slot of `index`, as it was at one moment for each of its
    /// words.
    pub(crate) fn read(&self, index: u32) -> E {
        let mut entry = mem::MaybeUninit::uninit();
        // SAFETY: The words of an entry, by the type invariant.
        unsafe { copy(self.slot(index), entry.as_mut_ptr()) };
        // SAFETY: All bytes are written, and any are an entry.
        unsafe { entry.assume_init() }
    }

    /// As [`Ring::read`], into `to`.
    pub(crate) fn read_into(&self, index: u32, to: &mut E) {
        // SAFETY: The words of an entry, by the type invariant.
        unsafe { copy(self.slot(index), to) }
    }

    /// A private copy of segment `number` of the slot of `index`; `None` if it has not so many.
    pub(crate) fn segment(&self, index: u32, number: u32) -> Option<Segment> {
        if number >= self.per_entry {
            return None;
        }
        let slot = (index & self.entries.wrapping_sub(1)) as usize;
        let place = slot
            .wrapping_mul(self.per_entry as usize)
            .wrapping_add(number as usize);
        let words = place.wrapping_mul(mem::size_of::<Segment>() / 8);
        let mut segment = Segment::default();
        // SAFETY: One of the segments, by the type invariant.
        unsafe { copy(self.segments.add(words), &mut segment) };
        Some(segment)
    }

    /// Writes the entry in the slot of `index`.
    pub(crate) fn write(&self, index: u32, entry: &E) {
        let to = self.slot(index);
        let from: *const E = entry;
        for i in 0..Self::WORDS {
            // SAFETY: Both are inside of their entries; `to` is aligned.
            unsafe {
                let word = from.cast::<u64>().add(i).read_unaligned();
                ptr::write_volatile(to.add(i).as_ptr(), word);
            }
        }
    }
}

/// A call of mmap().
///
/// # Invariants
///
/// `vma` is valid, and its mmap_lock is held for writing.
pub(crate) struct MapRequest {
    vma: NonNull<c_void>,
    offset: u64,
}

impl MapRequest {
    /// Which memory, in bytes.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }
}

impl Sock {
    /// Wakes who polls. Any context up to softirq.
    pub(crate) fn wake(&self) {
        // SAFETY: `self` is a valid socket.
        unsafe { c::superp_ring_wake(self.as_ptr()) }
    }
}

/// What a socket does whose program maps rings; [`ring_ops`] registers the type. Process context
/// unless told.
pub(crate) trait RingOps: SockState {
    /// Whether poll() has something to tell. Any context.
    fn readable(&self) -> bool;

    /// Serves every queue whose doorbell was rung. `more`: for what follows the program need not
    /// ring.
    ///
    /// # Errors
    ///
    /// `ENOBUFS`: there is no room for a completion. `EINTR`: a signal waits.
    fn doorbell(&self, more: bool) -> Result;

    /// mmap(), with mmap_lock held.
    ///
    /// # Errors
    ///
    /// `EINVAL`: there is nothing at this offset, or less. `ENOMEM`.
    fn mmap(&self, request: &MapRequest) -> Result;
}

/// mmap() for the C half.
///
/// # Safety
///
/// As [`super::sock::borrow`]; `vma` is being mapped.
pub(crate) unsafe fn mmap<T: RingOps>(
    state: *const c_void,
    vma: *mut c_void,
    offset: u64,
) -> Result {
    let vma = NonNull::new(vma).ok_or(EINVAL)?;
    // INVARIANT: mmap() holds the lock.
    let request = MapRequest { vma, offset };
    // SAFETY: By the requirement.
    unsafe { super::sock::borrow::<T>(state) }.mmap(&request)
}

/// Makes a type that implements [`RingOps`] the Rust half of the family's sockets for rings. Once in
/// a module.
macro_rules! ring_ops {
    ($state:ty) => {
        const _: () = {
            use kernel::ffi::{c_int, c_uint, c_ulong, c_void};
            use $crate::kapi::{
                bindings,
                export::errno,
                ring::{self, RingOps},
                sock::{self, SockState},
            };

            $crate::kapi::exported! {
                /// # Safety
                ///
                /// As [`sock::create`].
                fn superp_rust_ring_create(
                    sk: *mut bindings::sock,
                    net: *mut bindings::net,
                ) -> *mut c_void {
                    // SAFETY: By the requirement.
                    unsafe { sock::create::<$state>(sk, net) }
                }

                /// # Safety
                ///
                /// As [`sock::release`].
                fn superp_rust_ring_release(state: *mut c_void) {
                    // SAFETY: By the requirement.
                    unsafe { sock::release::<$state>(state) }
                }

                /// # Safety
                ///
                /// As [`sock::borrow`].
                fn superp_rust_ring_readable(state: *const c_void) -> bool {
                    // SAFETY: By the requirement.
                    unsafe { sock::borrow::<$state>(state) }.readable()
                }

                /// # Safety
                ///
                /// As [`sock::borrow`].
                fn superp_rust_ring_doorbell(state: *const c_void, more: bool) -> c_int {
                    // SAFETY: By the requirement.
                    errno(unsafe { sock::borrow::<$state>(state) }.doorbell(more))
                }

                /// # Safety
                ///
                /// As [`sock::borrow`].
                fn superp_rust_ring_ioctl(
                    state: *const c_void,
                    cmd: c_uint,
                    arg: c_ulong,
                ) -> c_int {
                    // SAFETY: By the requirement. `c_ulong` is `usize` in the kernel.
                    errno(unsafe { sock::borrow::<$state>(state) }.ioctl(cmd, arg))
                }

                /// # Safety
                ///
                /// As [`ring::mmap`].
                fn superp_rust_ring_mmap(
                    state: *const c_void,
                    vma: *mut c_void,
                    offset: u64,
                ) -> c_int {
                    // SAFETY: By the requirement.
                    errno(unsafe { ring::mmap::<$state>(state, vma, offset) })
                }
            }
        };
    };
}

pub(crate) use ring_ops;
