// SPDX-License-Identifier: GPL-2.0

//! Memory that the kernel shares with a program, the rings in it, and the sockets that map it. Safe
//! Rust over `ring.c`.
//!
//! The program may write any byte of this memory at any time. Therefore each word is read once, by
//! an access that the compiler neither repeats nor splits, and only the kernel's copy counts.

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
            // SAFETY: The type consists of integers and arrays of them, so all bytes are valid. Its
            // size is the sum of its fields (asserted below), so there is no padding.
            unsafe impl FromBytes for $name {}
            // SAFETY: The type has no padding, for the same reason.
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

/// The fields of a submission entry whose place inline data take.
pub(crate) struct Operands {
    pub(crate) local_addr: u64,
    pub(crate) operand: u64,
    pub(crate) compare: u64,
    pub(crate) rsvd: u64,
}

impl Sqe {
    /// The fields of an entry without inline data.
    pub(crate) fn operands(&self) -> Operands {
        // SAFETY: The fields are integers, for which all bytes are valid.
        let tail = unsafe { self.__bindgen_anon_1.__bindgen_anon_1 };
        Operands {
            local_addr: tail.local_addr,
            operand: tail.operand,
            compare: tail.compare,
            rsvd: tail.rsvd2,
        }
    }

    /// The inline data of an entry.
    pub(crate) fn data(&self) -> [u8; c::SUPERP_MAX_INLINE as usize] {
        // SAFETY: The field is an array of bytes, for which all bytes are valid.
        unsafe { self.__bindgen_anon_1.data }
    }
}

/// Size of a cache line in the ABI, in bytes.
const LINE: usize = 64;

/// Zeroed kernel memory that programs may map.
///
/// # Invariants
///
/// This type owns a reference to `memory`. `base` is the address of the memory, a multiple of the
/// page size; the `size` bytes there are valid until the memory is freed.
pub(crate) struct Shared {
    memory: NonNull<c::superp_shared>,
    base: NonNull<u8>,
    size: usize,
}

// SAFETY: The memory is not bound to a thread.
unsafe impl Send for Shared {}
// SAFETY: The kernel accesses the memory by atomic and volatile operations only, which tolerate
// concurrent writes by programs.
unsafe impl Sync for Shared {}

impl Shared {
    /// Allocates `size` bytes, charged to the user's RLIMIT_MEMLOCK. Process context; sleeps.
    ///
    /// # Errors
    ///
    /// `ENOMEM`
    pub(crate) fn new(size: usize) -> Result<Arc<Shared>> {
        let mut err = 0;
        // SAFETY: `err` is valid for writes.
        let memory = NonNull::new(unsafe { c::superp_shared_alloc(size, &mut err) })
            .ok_or_else(|| Error::from_errno(err))?;
        // SAFETY: `superp_shared_alloc()` has returned `memory`.
        let base = unsafe { c::superp_shared_address(memory.as_ptr()) };
        let Some(base) = NonNull::new(base.cast()) else {
            // SAFETY: This function owns `memory`, and nobody uses it afterwards.
            unsafe { c::superp_shared_free(memory.as_ptr()) };
            return Err(ENOMEM);
        };
        // INVARIANT: `superp_shared_alloc()` passed the reference to the caller, and allocated at
        // least `size` bytes.
        Ok(Arc::new(Shared { memory, base, size }, GFP_KERNEL_ACCOUNT)?)
    }

    /// Size in bytes.
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// Maps the memory, from its first byte on, into the program that calls mmap(). Process
    /// context.
    ///
    /// # Errors
    ///
    /// - `EINVAL`: the mapping is not shared, or too long.
    /// - `ENOMEM`
    pub(crate) fn map(&self, request: &MapRequest) -> Result {
        // SAFETY: By the invariants of both types the memory and the mapping are valid, and the
        // mmap_lock is held for writing.
        to_result(unsafe { c::superp_shared_map(self.memory.as_ptr(), request.vma.as_ptr()) })
    }

    /// The `T` at `offset`, or `None` if it is not aligned or not inside of the memory.
    fn at<T>(&self, offset: usize) -> Option<NonNull<T>> {
        let end = offset.checked_add(mem::size_of::<T>())?;
        if end > self.size || offset % mem::align_of::<T>() != 0 {
            return None;
        }
        // SAFETY: `offset + size_of::<T>() <= self.size`, so the pointer is inside of the memory.
        Some(unsafe { self.base.add(offset) }.cast())
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: By the type invariant this type owns a reference, which nobody uses afterwards.
        unsafe { c::superp_shared_free(self.memory.as_ptr()) }
    }
}

/// The context page: bitmaps of queue pairs whose doorbell was rung and of completion queues with
/// an event.
pub(crate) struct CtxPage {
    shared: Arc<Shared>,
    /// Number of words of `bell` that have bits of existing queue pairs.
    bell_words: Atomic<u32>,
}

/// Words of a bitmap.
const WORDS: usize = c::SUPERP_MAX_RING_QPS as usize / 64;

impl CtxPage {
    /// A page with all bits clear. Process context; sleeps.
    ///
    /// # Errors
    ///
    /// `ENOMEM`
    pub(crate) fn new() -> Result<CtxPage> {
        Ok(CtxPage {
            shared: Shared::new(mem::size_of::<c::superp_ctx_page>())?,
            bell_words: Atomic::new(0),
        })
    }

    /// Makes [`CtxPage::take_bells`] look at the bit of queue pair `qp`. Process context; the
    /// caller serialises calls.
    pub(crate) fn cover(&self, qp: u32) {
        let words = (qp / 64).saturating_add(1);
        self.bell_words
            .store(words.max(self.bell_words.load(Relaxed)), Relaxed);
    }

    /// The memory of the page.
    pub(crate) fn memory(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Clears the bits of queue pairs whose doorbell was rung, a word at a time. Returns for each
    /// word that had bits the number of its first queue pair, and the bits.
    pub(crate) fn take_bells(&self) -> impl Iterator<Item = (u32, u64)> + '_ {
        let words = self.words(mem::offset_of!(c::superp_ctx_page, bell));
        (0..self.bell_words.load(Relaxed))
            .zip(words.into_iter().flatten())
            .filter(|(_, word)| word.load(Relaxed) != 0)
            .map(|(i, word)| (i.wrapping_mul(64), word.xchg(0, Full)))
    }

    /// Rings the doorbell of queue pair `qp`, so that it is served again.
    pub(crate) fn set_bell(&self, qp: u32) {
        self.set_bit(mem::offset_of!(c::superp_ctx_page, bell), qp);
    }

    /// Reports an event of completion queue `cq` to the program.
    pub(crate) fn set_event(&self, cq: u32) {
        self.set_bit(mem::offset_of!(c::superp_ctx_page, events), cq);
    }

    /// Whether any completion queue has an event that the program has not cleared.
    pub(crate) fn any_event(&self) -> bool {
        self.words(mem::offset_of!(c::superp_ctx_page, events))
            .is_some_and(|words| words.iter().any(|word| word.load(Relaxed) != 0))
    }

    fn set_bit(&self, offset: usize, bit: u32) {
        if bit >= c::SUPERP_MAX_RING_QPS {
            return;
        }
        if let Some(words) = self.shared.at::<[u64; WORDS]>(offset) {
            // SAFETY: `bit < WORDS * 64`, so its word is one of `words`, which are in the memory.
            unsafe { c::superp_shared_set_bit(words.as_ptr().cast(), bit) }
        }
    }

    /// The bitmap at `offset`.
    fn words(&self, offset: usize) -> Option<&[Atomic<u64>; WORDS]> {
        let words = self.shared.at::<[Atomic<u64>; WORDS]>(offset)?;
        // SAFETY: `Shared::at()` has checked bounds and alignment. `self.shared` keeps the memory.
        // Kernel and programs access the words atomically.
        Some(unsafe { words.as_ref() })
    }
}

/// A ring of entries `E`, each of which may have segments.
///
/// # Invariants
///
/// - The three index and flag words, `entries` entries from `array` on, and `entries * per_entry`
///   segments from `segments` on are inside of `memory` and aligned.
/// - `entries` is a power of two. The size of `E` is a multiple of 8.
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

// SAFETY: The pointers refer to `memory`, which is `Send` and `Sync`.
unsafe impl<E> Send for Ring<E> {}
// SAFETY: The pointers refer to `memory`, which is `Send` and `Sync`.
unsafe impl<E> Sync for Ring<E> {}

/// Copies the `T` at `from` to `to`. Each word is read once; the program may write between two of
/// them.
///
/// # Safety
///
/// The size of `T` is a multiple of 8. `from` is aligned and valid for reads of a `T`. `to` is
/// valid for writes.
unsafe fn copy_words<T: FromBytes>(from: NonNull<u64>, to: *mut T) {
    for i in 0..mem::size_of::<T>() / 8 {
        // SAFETY: `i` is less than the number of words of `T`, so by this function's contract both
        // accesses are in bounds. `to` need not be aligned.
        unsafe {
            let word = ptr::read_volatile(from.add(i).as_ptr());
            to.cast::<u64>().add(i).write_unaligned(word);
        }
    }
}

impl<E: FromBytes + AsBytes> Ring<E> {
    const WORDS: usize = mem::size_of::<E>() / 8;
    const WHOLE_WORDS: () = assert!(mem::size_of::<E>() % 8 == 0);

    /// Offset of the segments in a ring, in bytes. A multiple of 64.
    const fn segments_offset(entries: u32) -> usize {
        // Producer, consumer and flags have different writers, so each has a cache line.
        (entries as usize)
            .saturating_mul(mem::size_of::<E>())
            .saturating_add(3 * LINE + LINE - 1)
            & !(LINE - 1)
    }

    /// Size of a ring of `entries` entries with `per_entry` segments each, in bytes. A multiple of
    /// 64.
    pub(crate) const fn size(entries: u32, per_entry: u32) -> usize {
        (entries as usize)
            .saturating_mul(per_entry as usize)
            .saturating_mul(mem::size_of::<Segment>())
            .saturating_add(Self::segments_offset(entries))
            .saturating_add(LINE - 1)
            & !(LINE - 1)
    }

    /// A ring of `entries` entries with `per_entry` segments each, at `offset` of the memory, which
    /// is zeroed.
    ///
    /// # Errors
    ///
    /// `EINVAL`: `entries` is no power of two, or the ring is not inside of the memory.
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
                .at(offset.wrapping_add(Self::segments_offset(entries)))
                .ok_or(EINVAL)?,
        };
        // INVARIANT: `offset + size` is inside of the memory, and `offset` is a multiple of 64.
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

    /// The offsets that the program needs to use the ring; with that of the flags if `flags`.
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
                // CAST: A ring is smaller than 4 GiB.
                _ => self
                    .offset
                    .wrapping_add(Self::segments_offset(self.entries)) as u32,
            },
        }
    }

    /// The memory that the ring is in.
    pub(crate) fn memory(&self) -> &Arc<Shared> {
        &self.memory
    }

    /// Number of entries.
    pub(crate) fn entries(&self) -> u32 {
        self.entries
    }

    fn atomic(&self, word: NonNull<u32>) -> &Atomic<u32> {
        // SAFETY: By the type invariant `word`, which is one of the three words, is valid and
        // aligned. Kernel and programs access it atomically.
        unsafe { Atomic::from_ptr(word.as_ptr()) }
    }

    /// The producer index of a ring that the program fills. The entries before it can be read.
    pub(crate) fn producer(&self) -> u32 {
        self.atomic(self.producer).load(Acquire)
    }

    /// Publishes the entries before `index` to the program.
    pub(crate) fn set_producer(&self, index: u32) {
        self.atomic(self.producer).store(index, Release);
    }

    /// The consumer index of a ring that the kernel fills. The slots before it can be written.
    pub(crate) fn consumer(&self) -> u32 {
        self.atomic(self.consumer).load(Acquire)
    }

    /// Returns the slots before `index` to the program.
    pub(crate) fn set_consumer(&self, index: u32) {
        self.atomic(self.consumer).store(index, Release);
    }

    /// Sets the flags word.
    pub(crate) fn set_flags(&self, flags: u32) {
        self.atomic(self.flags).store(flags, Relaxed);
    }

    /// Clears the arm word of a completion queue, and returns true, if it asks for an event for a
    /// completion that is (`solicited`) or is not solicited.
    pub(crate) fn disarm(&self, solicited: bool) -> bool {
        let arm = self.atomic(self.flags);
        match arm.load(Relaxed) {
            0 => false,
            uapi::SUPERP_CQ_ARMED_SOLICITED if !solicited => false,
            _ => arm.xchg(0, Full) != 0,
        }
    }

    /// Clears the limit word of a receive ring, and returns true, if fewer entries than the limit
    /// are available from `consumer` on.
    pub(crate) fn take_limit(&self, consumer: u32) -> bool {
        let limit = self.atomic(self.flags);
        let available = self.producer().wrapping_sub(consumer);
        limit.load(Relaxed) > available && limit.xchg(0, Full) != 0
    }

    fn slot(&self, index: u32) -> NonNull<u64> {
        let slot = (index & self.entries.wrapping_sub(1)) as usize;
        // SAFETY: `slot < entries`, so by the type invariant the entry is inside of the array.
        unsafe { self.array.add(slot.wrapping_mul(Self::WORDS)) }
    }

    /// Copies the entry at `index`. Each word is read once; the program may write between two of
    /// them.
    pub(crate) fn read(&self, index: u32) -> E {
        let mut entry = mem::MaybeUninit::uninit();
        // SAFETY: `slot()` is an entry of the array; the size of `E` is a multiple of 8.
        unsafe { copy_words(self.slot(index), entry.as_mut_ptr()) };
        // SAFETY: `copy_words()` has written all bytes, and `E: FromBytes`.
        unsafe { entry.assume_init() }
    }

    /// Copies the entry at `index` to `to`, as [`Ring::read`] does.
    pub(crate) fn read_into(&self, index: u32, to: &mut E) {
        // SAFETY: `slot()` is an entry of the array; the size of `E` is a multiple of 8.
        unsafe { copy_words(self.slot(index), to) }
    }

    /// Copies segment `number` of the entry at `index`. `None` if entries have fewer segments.
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
        // SAFETY: `slot < entries` and `number < per_entry`, so by the type invariant the segment
        // is inside of the array. The size of a segment is a multiple of 8.
        unsafe { copy_words(self.segments.add(words), &mut segment) };
        Some(segment)
    }

    /// Writes the entry at `index`.
    pub(crate) fn write(&self, index: u32, entry: &E) {
        let to = self.slot(index);
        let from: *const E = entry;
        for i in 0..Self::WORDS {
            // SAFETY: `i < WORDS`, so both words are inside of their entries. By the type invariant
            // `to` is aligned; `from` need not be.
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
/// `vma` is a valid `vm_area_struct`, and its mmap_lock is held for writing.
pub(crate) struct MapRequest {
    vma: NonNull<c_void>,
    offset: u64,
}

impl MapRequest {
    /// Offset of the mapping, in bytes. It selects the memory to map.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }
}

impl Sock {
    /// Wakes the waiters of poll(). Any context up to softirq.
    pub(crate) fn wake(&self) {
        // SAFETY: `self` is a valid socket.
        unsafe { c::superp_ring_wake(self.as_ptr()) }
    }
}

/// Operations of sockets whose programs map rings. [`ring_ops`] registers the type that implements
/// this trait. Process context, unless a method says otherwise.
pub(crate) trait RingOps: SockState {
    /// Whether poll() reports `EPOLLIN`. Any context.
    fn readable(&self) -> bool;

    /// Serves all queues whose doorbell was rung. `more`: the program has more entries to post, and
    /// does not ring for them (`MSG_MORE`).
    ///
    /// # Errors
    ///
    /// - `ENOBUFS`: there is no space for a completion.
    /// - `EINTR`: a signal is pending.
    fn doorbell(&self, more: bool) -> Result;

    /// Handles mmap(). The mmap_lock is held for writing.
    ///
    /// # Errors
    ///
    /// - `EINVAL`: there is no memory at this offset, or too little.
    /// - `ENOMEM`
    fn mmap(&self, request: &MapRequest) -> Result;
}

/// Calls [`RingOps::mmap`] for the C half.
///
/// # Safety
///
/// The requirements are those of [`super::sock::borrow`]. mmap() is called for `vma`.
pub(crate) unsafe fn mmap<T: RingOps>(
    state: *const c_void,
    vma: *mut c_void,
    offset: u64,
) -> Result {
    let vma = NonNull::new(vma).ok_or(EINVAL)?;
    // INVARIANT: mmap() holds the mmap_lock of `vma` for writing.
    let request = MapRequest { vma, offset };
    // SAFETY: The caller meets the requirements of `borrow`.
    unsafe { super::sock::borrow::<T>(state) }.mmap(&request)
}

/// Registers a type that implements [`RingOps`] as the Rust half of the family's SOCK_RDM sockets.
/// Used once in a module.
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
                /// The requirements are those of [`sock::create`].
                fn superp_rust_ring_create(
                    sk: *mut bindings::sock,
                    net: *mut bindings::net,
                ) -> *mut c_void {
                    // SAFETY: The caller meets the requirements of `sock::create`.
                    unsafe { sock::create::<$state>(sk, net) }
                }

                /// # Safety
                ///
                /// The requirements are those of [`sock::release`].
                fn superp_rust_ring_release(state: *mut c_void) {
                    // SAFETY: The caller meets the requirements of `sock::release`.
                    unsafe { sock::release::<$state>(state) }
                }

                /// # Safety
                ///
                /// The requirements are those of [`sock::borrow`].
                fn superp_rust_ring_readable(state: *const c_void) -> bool {
                    // SAFETY: The caller meets the requirements of `sock::borrow`.
                    unsafe { sock::borrow::<$state>(state) }.readable()
                }

                /// # Safety
                ///
                /// The requirements are those of [`sock::borrow`].
                fn superp_rust_ring_doorbell(state: *const c_void, more: bool) -> c_int {
                    // SAFETY: The caller meets the requirements of `sock::borrow`.
                    errno(unsafe { sock::borrow::<$state>(state) }.doorbell(more))
                }

                /// # Safety
                ///
                /// The requirements are those of [`sock::borrow`].
                fn superp_rust_ring_ioctl(
                    state: *const c_void,
                    cmd: c_uint,
                    arg: c_ulong,
                ) -> c_int {
                    // SAFETY: The caller meets the requirements of `sock::borrow`. `c_ulong` is
                    // `usize` in the kernel.
                    errno(unsafe { sock::borrow::<$state>(state) }.ioctl(cmd, arg))
                }

                /// # Safety
                ///
                /// The requirements are those of [`ring::mmap`].
                fn superp_rust_ring_mmap(
                    state: *const c_void,
                    vma: *mut c_void,
                    offset: u64,
                ) -> c_int {
                    // SAFETY: The caller meets the requirements of `ring::mmap`.
                    errno(unsafe { ring::mmap::<$state>(state, vma, offset) })
                }
            }
        };
    };
}

pub(crate) use ring_ops;
