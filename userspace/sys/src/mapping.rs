// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Memory that is shared with the kernel.

use std::io::{Error, ErrorKind, Result};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, AtomicU64};

/// What may lie in shared memory.
///
/// # Safety
///
/// Any bytes are a valid value: a struct of integers, without padding.
pub(crate) unsafe trait Plain: Copy {}

/// A shared mapping of a file.
///
/// # Invariants
///
/// `start` is a mapping of `len` bytes, readable and writable, that nothing else unmaps.
#[derive(Debug)]
pub(crate) struct Mapping {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: The mapping belongs to the process, not to a thread.
unsafe impl Send for Mapping {}
// SAFETY: Words are reached as atomics. Entries are copied, and whoever copies one has it for himself by
// the indices of its ring; a copy that breaks that rule gives bytes without meaning, which any bytes
// are allowed to be.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `len` bytes of `fd` from `offset`.
    ///
    /// # Errors
    ///
    /// What mmap(2) says.
    pub(crate) fn new(fd: BorrowedFd<'_>, offset: u64, len: u64) -> Result<Self> {
        let too_large = |_| Error::from(ErrorKind::OutOfMemory);
        let len = usize::try_from(len).map_err(too_large)?;
        let offset = offset.try_into().map_err(|_| ErrorKind::InvalidInput)?;
        // SAFETY: A new mapping at an address of the kernel's choice.
        let start = unsafe {
            libc::mmap(
                ptr::null_mut(),
                len,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                fd.as_raw_fd(),
                offset,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or(ErrorKind::OutOfMemory)?;
        Ok(Self { start, len })
    }

    /// The place of `count` values of type `T` at `offset`, if they are inside and aligned.
    #[inline]
    fn place<T>(&self, offset: usize, count: usize) -> Option<NonNull<T>> {
        let end = count.checked_mul(size_of::<T>())?.checked_add(offset)?;
        if end > self.len || offset % align_of::<T>() != 0 {
            return None;
        }
        // SAFETY: It is inside the mapping, which starts at a page.
        Some(unsafe { self.start.add(offset) }.cast())
    }

    /// A word. `None`: there is none at this offset.
    #[inline]
    pub(crate) fn word(&self, offset: usize) -> Option<&AtomicU32> {
        let place = self.place(offset, 1)?;
        // SAFETY: Inside the mapping and aligned. No other access to words is made but atomic ones.
        Some(unsafe { AtomicU32::from_ptr(place.as_ptr()) })
    }

    /// A word of 64 bits. `None`: there is none at this offset.
    pub(crate) fn long(&self, offset: usize) -> Option<&AtomicU64> {
        let place = self.place(offset, 1)?;
        // SAFETY: As in `word`.
        Some(unsafe { AtomicU64::from_ptr(place.as_ptr()) })
    }

    /// Whether `count` entries are at `offset`.
    pub(crate) fn holds<T: Plain>(&self, offset: usize, count: usize) -> bool {
        self.place::<T>(offset, count).is_some()
    }

    /// Copies an entry out. `None`: there is none at this offset.
    pub(crate) fn read<T: Plain>(&self, offset: usize) -> Option<T> {
        let place = self.place::<T>(offset, 1)?;
        // SAFETY: Inside the mapping and aligned; any bytes are a value. Volatile: once, and now.
        Some(unsafe { place.read_volatile() })
    }

    /// Copies an entry in; nothing if there is no place for it.
    #[inline]
    pub(crate) fn write<T: Plain>(&self, offset: usize, entry: T) {
        if let Some(place) = self.place::<T>(offset, 1) {
            // SAFETY: As in `read`.
            unsafe { place.write_volatile(entry) };
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: By the type invariant; words are borrowed from the mapping.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
    }
}

// SAFETY: Structs of integers; tests/layout.rs compares the sizes with the sums of the fields' places.
unsafe impl Plain for crate::uapi::superp_sqe {}
// SAFETY: As above.
unsafe impl Plain for crate::uapi::superp_rqe {}
// SAFETY: As above.
unsafe impl Plain for crate::uapi::superp_cqe {}
// SAFETY: As above.
unsafe impl Plain for crate::uapi::superp_segment {}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::os::fd::{AsFd, FromRawFd, OwnedFd};

    /// A file in memory of `len` bytes, and two mappings of it.
    pub(crate) fn pair(len: u64) -> (Mapping, Mapping) {
        // SAFETY: The name is a C string.
        let fd = unsafe { libc::memfd_create(c"ring".as_ptr(), libc::MFD_CLOEXEC) };
        assert!(fd >= 0);
        // SAFETY: It was made just now and is nobody else's.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        let file = std::fs::File::from(fd);
        file.set_len(len).unwrap();
        let map = || Mapping::new(file.as_fd(), 0, len).unwrap();
        (map(), map())
    }

    #[test]
    fn nothing_outside_of_the_mapping_is_reached() {
        let (mapping, _) = pair(4096);
        assert!(mapping.word(4092).is_some());
        assert!(mapping.word(4093).is_none());
        assert!(mapping.word(4096).is_none());
        assert!(mapping.word(2).is_none());
        assert!(mapping.long(4092).is_none());
        assert!(mapping.word(usize::MAX - 3).is_none());
        assert!(mapping.holds::<crate::uapi::superp_sqe>(64, 63));
        assert!(!mapping.holds::<crate::uapi::superp_sqe>(64, 64));
        assert!(!mapping.holds::<crate::uapi::superp_sqe>(0, usize::MAX));
        assert!(mapping.read::<crate::uapi::superp_cqe>(4096).is_none());
    }
}
