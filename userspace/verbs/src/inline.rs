// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Inline data that do not fit into an entry.

use crate::{Access, Error, Memory, MemoryRegion, Part, Result};
use superp_sys::uapi::SUPERP_MAX_INLINE;
use superp_sys::ContextSocket;

/// Most bytes of inline data that a queue pair can be made for
/// ([`QueuePairOptions::inline`](crate::QueuePairOptions::inline)).
pub const MAX_INLINE: u32 = 1024;

/// Processors hand memory to each other in lines of so many bytes.
const LINE: usize = 64;

/// Registered memory with room for the bytes of one request for each entry of a ring. An entry keeps its
/// place until its request is complete, so what is there is needed no more when the entry is free.
#[derive(Debug)]
pub(crate) struct Copies {
    region: MemoryRegion,
    room: u32,
}

impl Copies {
    /// For requests of `room` bytes at most; `None` where they fit into the entries.
    pub(crate) fn new(socket: &ContextSocket, entries: u32, room: u32) -> Result<Option<Self>> {
        if room > MAX_INLINE {
            return Err(Error::Invalid(
                "more than 1024 bytes of inline data, which a queue pair cannot have",
            ));
        }
        if room <= SUPERP_MAX_INLINE {
            return Ok(None);
        }
        let room = room.next_multiple_of(LINE as u32);
        let memory = Memory::new(entries as usize * room as usize)?;
        // No peer reaches it.
        let region = MemoryRegion(socket.register(memory, Access::NONE, 0)?);
        Ok(Some(Self { region, room }))
    }

    /// Bytes that a request may have.
    pub(crate) fn room(&self) -> u32 {
        self.room
    }

    /// Copies the bytes of the request that gets entry `slot`, which is free.
    pub(crate) fn put(&self, slot: u32, bytes: &[u8]) -> Result<Part> {
        if bytes.len() > self.room as usize {
            return Err(Error::InlineTooLong);
        }
        let offset = slot as usize * self.room as usize;
        self.region.memory().write(offset, bytes)?;
        self.region.part(offset, bytes.len() as u32)
    }
}
