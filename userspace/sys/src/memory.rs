// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Memory that others may change at any time.

use std::io::{self, Error, ErrorKind, Read, Write};
use std::ptr::{self, NonNull};

/// Bytes copied at once between memory and a stream.
const CHUNK: usize = 256 << 10;
/// Bytes of a huge page, or a part of it.
const HUGE: usize = 2 << 20;

/// Page-aligned, zeroed memory of its own. Peers may read and write it while it is registered, so
/// that it is reached by copies only, never by a reference. From 2 MiB on it is of huge pages where the
/// system has them: a packet then has few pieces of it.
///
/// # Invariants
///
/// `start` is a private anonymous mapping of `mapped` bytes, at least `len`, that nothing else unmaps.
#[derive(Debug)]
pub struct Memory {
    start: NonNull<u8>,
    len: usize,
    mapped: usize,
}

// SAFETY: The mapping belongs to the process, not to a thread.
unsafe impl Send for Memory {}
// SAFETY: Access is by copies of raw memory. Concurrent ones may tear, as those of a peer do, and
// no reference to the memory exists that they could invalidate.
unsafe impl Sync for Memory {}

impl Memory {
    /// Memory of `len` bytes, all zero.
    ///
    /// # Errors
    ///
    /// `InvalidInput`: `len` is 0. What mmap(2) says.
    pub fn new(len: usize) -> io::Result<Self> {
        if len == 0 {
            return Err(Error::new(ErrorKind::InvalidInput, "memory of 0 bytes"));
        }
        // What is a multiple of huge pages the kernel aligns to them.
        let mapped = match len {
            0..HUGE => Some(len),
            _ => len.checked_next_multiple_of(HUGE),
        };
        let mapped = mapped.ok_or(ErrorKind::OutOfMemory)?;
        // SAFETY: A new mapping at an address of the kernel's choice.
        let start = unsafe {
            libc::mmap(
                ptr::null_mut(),
                mapped,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(Error::last_os_error());
        }
        if mapped >= HUGE {
            // SAFETY: The mapping is new, and its content stays as it is. Without huge pages others do.
            unsafe { libc::madvise(start, mapped, libc::MADV_HUGEPAGE) };
        }
        let start = NonNull::new(start.cast()).ok_or(ErrorKind::OutOfMemory)?;
        Ok(Self { start, len, mapped })
    }

    /// Bytes.
    #[allow(clippy::len_without_is_empty)] // It never is.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Address of the first byte.
    pub(crate) fn addr(&self) -> u64 {
        self.start.as_ptr() as u64
    }

    /// The start of `len` bytes at `offset`.
    fn at(&self, offset: usize, len: usize) -> io::Result<*mut u8> {
        if offset > self.len || len > self.len - offset {
            return Err(Error::new(ErrorKind::InvalidInput, "outside of the memory"));
        }
        // SAFETY: It is inside the mapping.
        Ok(unsafe { self.start.as_ptr().add(offset) })
    }

    /// Copies bytes in at `offset`.
    ///
    /// # Errors
    ///
    /// `InvalidInput`: they do not fit.
    pub fn write(&self, offset: usize, bytes: &[u8]) -> io::Result<()> {
        let to = self.at(offset, bytes.len())?;
        // SAFETY: The memory is mapped and writable; `bytes` is a Rust object, hence elsewhere.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
        Ok(())
    }

    /// Copies bytes out from `offset`.
    ///
    /// # Errors
    ///
    /// `InvalidInput`: there are fewer.
    pub fn read(&self, offset: usize, bytes: &mut [u8]) -> io::Result<()> {
        let from = self.at(offset, bytes.len())?;
        // SAFETY: The memory is mapped and readable; `bytes` is a Rust object, hence elsewhere.
        unsafe { ptr::copy_nonoverlapping(from, bytes.as_mut_ptr(), bytes.len()) };
        Ok(())
    }

    /// Fills the memory from its start with what `from` gives; returns how much that was.
    ///
    /// # Errors
    ///
    /// What reading says.
    pub fn fill(&self, from: &mut impl Read) -> io::Result<usize> {
        let mut chunk = vec![0; CHUNK.min(self.len)];
        let mut done = 0;
        while done < self.len {
            let most = chunk.len().min(self.len - done);
            match from.read(&mut chunk[..most]) {
                Ok(0) => break,
                Ok(n) => {
                    self.write(done, &chunk[..n])?;
                    done += n;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    /// Writes `len` bytes from `offset` to a stream.
    ///
    /// # Errors
    ///
    /// `InvalidInput`: there are fewer. What writing says.
    pub fn drain(&self, offset: usize, len: usize, to: &mut impl Write) -> io::Result<()> {
        self.at(offset, len)?;
        let mut chunk = vec![0; CHUNK.min(len)];
        let mut done = 0;
        while done < len {
            let n = chunk.len().min(len - done);
            self.read(offset + done, &mut chunk[..n])?;
            to.write_all(&chunk[..n])?;
            done += n;
        }
        Ok(())
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: By the type invariant. Pages that the kernel has pinned for a request under way
        // stay until that is over, whoever unmaps them.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.mapped) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_zero_and_keeps_what_is_written() {
        let memory = Memory::new(5000).unwrap();
        let mut bytes = [1; 5000];
        memory.read(0, &mut bytes).unwrap();
        assert_eq!(bytes, [0; 5000]);
        memory.write(4990, &[7; 10]).unwrap();
        memory.read(4980, &mut bytes[..20]).unwrap();
        assert_eq!(bytes[..10], [0; 10]);
        assert_eq!(bytes[10..20], [7; 10]);
    }

    #[test]
    fn memory_refuses_what_is_outside() {
        let memory = Memory::new(16).unwrap();
        assert!(memory.write(16, &[]).is_ok());
        assert!(memory.write(17, &[]).is_err());
        assert!(memory.write(10, &[0; 7]).is_err());
        assert!(memory.read(usize::MAX, &mut [0; 1]).is_err());
        assert!(memory.drain(1, 16, &mut Vec::new()).is_err());
        assert!(Memory::new(0).is_err());
    }

    #[test]
    fn memory_is_filled_and_drained_in_chunks() {
        let len = 2 * CHUNK + 3;
        let bytes: Vec<u8> = (0..len).map(|i| (i % 251) as u8).collect();
        let memory = Memory::new(len).unwrap();
        assert_eq!(memory.fill(&mut &bytes[..]).unwrap(), len);
        let mut out = Vec::new();
        memory.drain(5, len - 5, &mut out).unwrap();
        assert_eq!(out, bytes[5..]);
        assert_eq!(memory.fill(&mut &bytes[..9]).unwrap(), 9);
    }
}
