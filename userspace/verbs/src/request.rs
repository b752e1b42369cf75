// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Work requests.

use crate::{Atomic, Error, Part, Parts, Result};
use std::borrow::Cow;
use superp_sys::uapi::{self, superp_rqe, superp_sqe};

/// What a queue pair is to do: a [`write`](Self::write), a [`read`](Self::read), an
/// [`atomic`](Self::atomic) operation or a message to [`send`](Self::send). It has a completion also
/// if it succeeds, unless it is [`unsignaled`](Self::unsignaled). Its local bytes are one [`Part`], or
/// a list of them:
///
/// ```
/// # use superp_verbs::{Part, WorkRequest};
/// # let (header, body) = (Part::NONE, Part::NONE);
/// let one = WorkRequest::send(body);
/// let several = WorkRequest::send(&[header, body]);
/// ```
#[derive(Clone, Debug)]
pub struct WorkRequest<'a> {
    pub(crate) entry: superp_sqe,
    pub(crate) list: &'a [Part],
    /// Inline data that the entry has no room for.
    pub(crate) data: Cow<'a, [u8]>,
}

impl<'a> WorkRequest<'a> {
    #[inline]
    fn new(opcode: u8, parts: Parts<'a>, remote_addr: u64) -> Self {
        let entry = superp_sqe {
            opcode,
            flags: uapi::SUPERP_SQE_SIGNALED,
            remote_addr,
            ..Default::default()
        };
        Self::from_entry(entry).local(parts)
    }

    fn in_entry(opcode: u8, data: &[u8], remote_addr: u64) -> Result<Self> {
        let mut request = Self::new(opcode, Part::NONE.into(), remote_addr);
        match request.put_into_entry(data) {
            true => Ok(request),
            false => Err(Error::InlineTooLong),
        }
    }

    /// Puts data into the entry. `false`: there are too many.
    fn put_into_entry(&mut self, data: &[u8]) -> bool {
        let mut bytes = [0; uapi::SUPERP_MAX_INLINE as usize];
        let Some(place) = bytes.get_mut(..data.len()) else {
            return false;
        };
        place.copy_from_slice(data);
        let mut words = bytes.chunks_exact(8).map(|word| {
            let word = word.try_into().unwrap_or_default();
            u64::from_ne_bytes(word)
        });
        let mut word = || words.next().unwrap_or(0);
        let entry = &mut self.entry;
        entry.flags |= uapi::SUPERP_SQE_INLINE;
        entry.length = data.len() as u32;
        // The place of the data.
        (entry.local_addr, entry.operand) = (word(), word());
        (entry.compare, entry.rsvd2) = (word(), word());
        true
    }

    /// Writes to the peer's memory.
    #[inline]
    pub fn write(from: impl Into<Parts<'a>>, remote_addr: u64) -> Self {
        Self::new(uapi::SUPERP_OP_WRITE, from.into(), remote_addr)
    }

    /// Writes these bytes, which are copied now, to the peer's memory.
    ///
    /// # Errors
    ///
    /// [`Error::InlineTooLong`]: more than 32.
    pub fn write_inline(data: &[u8], remote_addr: u64) -> Result<Self> {
        Self::in_entry(uapi::SUPERP_OP_WRITE, data, remote_addr)
    }

    /// Reads the peer's memory.
    #[inline]
    pub fn read(to: impl Into<Parts<'a>>, remote_addr: u64) -> Self {
        Self::new(uapi::SUPERP_OP_READ, to.into(), remote_addr)
    }

    /// Changes 8 bytes of the peer's memory, once and atomically. What they were is put into `old`,
    /// which has 8 bytes.
    #[inline]
    pub fn atomic(old: Part, remote_addr: u64, change: Atomic) -> Self {
        let (opcode, operand, compare) = match change {
            Atomic::FetchAdd(operand) => (uapi::SUPERP_OP_FETCH_ADD, operand, 0),
            Atomic::CompareSwap { compare, swap } => (uapi::SUPERP_OP_COMPARE_SWAP, swap, compare),
            Atomic::Swap(operand) => (uapi::SUPERP_OP_SWAP, operand, 0),
        };
        let mut request = Self::new(opcode, old.into(), remote_addr);
        request.entry.operand = operand;
        request.entry.compare = compare;
        request
    }

    /// Sends a message to the peer's queue pair.
    #[inline]
    pub fn send(message: impl Into<Parts<'a>>) -> Self {
        Self::new(uapi::SUPERP_OP_SEND, message.into(), 0)
    }

    /// Sends a message of these bytes, which are copied now.
    ///
    /// # Errors
    ///
    /// [`Error::InlineTooLong`]: more than 32.
    pub fn send_inline(message: &[u8]) -> Result<Self> {
        Self::in_entry(uapi::SUPERP_OP_SEND, message, 0)
    }

    /// With immediate data, of a message or a write: after all bytes of the write are there, the number
    /// takes a receive buffer of the peer's queue pair.
    #[inline]
    pub fn immediate(mut self, number: u32) -> Self {
        self.entry.flags |= uapi::SUPERP_SQE_IMM;
        self.entry.imm = number;
        self
    }

    /// Of a message, or a write with immediate data: wakes the receiver also if it waits for such ones
    /// alone.
    pub fn solicited(mut self) -> Self {
        self.entry.flags |= uapi::SUPERP_SQE_SOLICITED;
        self
    }

    /// Starts when everything before it on the queue pair is complete, whether that succeeded or not;
    /// what comes after it starts after it. So a flag that is written with a fence is never seen before
    /// the data in front of it, on unordered connections too. Costs a round trip.
    pub fn fenced(mut self) -> Self {
        self.entry.flags |= uapi::SUPERP_SQE_FENCE;
        self
    }

    /// The number that its completion carries.
    #[inline]
    pub fn token(mut self, token: u64) -> Self {
        self.entry.token = token;
        self
    }

    /// Without a completion if it succeeds. That it has completed is known from a later one: those of a
    /// queue pair complete in the order in which they were posted.
    #[inline]
    pub fn unsignaled(mut self) -> Self {
        self.entry.flags &= !uapi::SUPERP_SQE_SIGNALED;
        self
    }

    /// With these local bytes in place of those that it has.
    #[inline]
    pub fn local(mut self, parts: impl Into<Parts<'a>>) -> Self {
        let parts = parts.into();
        if self.entry.flags & uapi::SUPERP_SQE_INLINE != 0 {
            (self.entry.operand, self.entry.compare, self.entry.rsvd2) = (0, 0, 0);
        }
        self.list = parts.list;
        self.entry.length = parts.length();
        self.entry.local_addr = parts.one.addr;
        self.entry.local_key = parts.one.key;
        self.entry.flags &= !(uapi::SUPERP_SQE_LIST | uapi::SUPERP_SQE_INLINE);
        self.data = Cow::Borrowed(&[]);
        if !parts.list.is_empty() {
            self.entry.flags |= uapi::SUPERP_SQE_LIST;
            // Of more than the kernel takes, none is posted.
            self.entry.local_key = parts.list.len() as u32;
        }
        self
    }

    /// Of a write or message: with these bytes in place of the local ones that it has. They are copied when
    /// it is posted, as many as the queue pair was made for
    /// ([`QueuePairOptions::inline`](crate::QueuePairOptions::inline)).
    pub fn inline(self, data: impl Into<Cow<'a, [u8]>>) -> Self {
        let data = data.into();
        let mut request = self.local(Part::NONE);
        if !request.put_into_entry(&data) {
            // Of more than that, none is posted.
            request.entry.length = data.len() as u32;
            request.data = data;
        }
        request
    }

    /// As [`inline`](Self::inline), of bytes that are in pieces.
    pub fn inline_pieces(self, pieces: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let mut pieces = pieces.into_iter().filter(|piece| !piece.is_empty());
        let first = pieces.next().unwrap_or_default();
        match pieces.next() {
            None => self.inline(first),
            Some(second) => {
                let all: Vec<&[u8]> = [first, second].into_iter().chain(pieces).collect();
                self.inline(all.concat())
            }
        }
    }

    /// A request from its entry as the kernel has it, which checks it.
    #[inline]
    pub fn from_entry(entry: superp_sqe) -> Self {
        Self {
            entry,
            list: &[],
            data: Cow::Borrowed(&[]),
        }
    }
}

/// A buffer for a message.
#[derive(Clone, Copy, Debug)]
pub struct ReceiveRequest<'a> {
    pub(crate) entry: superp_rqe,
    pub(crate) list: &'a [Part],
}

impl<'a> ReceiveRequest<'a> {
    /// Receives a message into these bytes: one [`Part`], or a list of them.
    pub fn new(into: impl Into<Parts<'a>>) -> Self {
        let into = into.into();
        let entry = superp_rqe {
            addr: into.one.addr,
            key: into.one.key,
            length: into.length(),
            // Of more than the kernel takes, none is posted.
            segments: into.list.len() as u32,
            ..Default::default()
        };
        Self {
            entry,
            list: into.list,
        }
    }

    /// The number that its completion carries.
    pub fn token(mut self, token: u64) -> Self {
        self.entry.token = token;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PART: Part = Part {
        key: 7,
        addr: 0x1000,
        length: 64,
    };

    #[test]
    fn requests_become_entries() {
        let entry = WorkRequest::write(PART, 99).immediate(5).token(3).entry;
        assert_eq!((entry.opcode, entry.length, entry.token), (1, 64, 3));
        assert_eq!(
            (entry.local_key, entry.local_addr, entry.remote_addr),
            (7, 0x1000, 99)
        );
        assert_eq!((entry.imm, entry.flags), (5, 0b101));
        assert_eq!(WorkRequest::read(PART, 99).unsignaled().entry.flags, 0);
        assert_eq!(WorkRequest::read(PART, 99).fenced().entry.flags, 0b1001);
        let (compare, swap) = (1, 2);
        let change = Atomic::CompareSwap { compare, swap };
        let entry = WorkRequest::atomic(PART, 8, change).entry;
        assert_eq!((entry.opcode, entry.operand, entry.compare), (4, 2, 1));
        let entry = ReceiveRequest::new(PART).token(9).entry;
        assert_eq!(
            (entry.key, entry.addr, entry.length, entry.token),
            (7, 0x1000, 64, 9)
        );
    }

    #[test]
    fn lists_of_parts_become_segments_and_one_part_none() {
        let list = [PART, Part { key: 8, ..PART }];
        let request = WorkRequest::write(&list, 99);
        let entry = request.entry;
        assert_eq!(
            (entry.flags, entry.local_key, entry.length),
            (0b10001, 2, 128)
        );
        assert_eq!((entry.local_addr, request.list), (0, &list[..]));
        let one = WorkRequest::write(&list[..1], 99);
        assert_eq!(one.entry, WorkRequest::write(PART, 99).entry);
        assert!(one.list.is_empty());
        let request = ReceiveRequest::new(&list);
        let entry = request.entry;
        assert_eq!((entry.segments, entry.length), (2, 128));
        assert_eq!((entry.addr, entry.key, request.list), (0, 0, &list[..]));
        assert_eq!(ReceiveRequest::new(&[]).entry.segments, 0);
    }

    #[test]
    fn inline_data_are_in_the_entry_up_to_its_room() {
        let data: Vec<u8> = (1..=32).collect();
        let entry = WorkRequest::write_inline(&data, 99).unwrap().entry;
        let words = [entry.local_addr, entry.operand, entry.compare, entry.rsvd2];
        assert_eq!(words.map(u64::to_ne_bytes).concat(), data);
        assert_eq!((entry.local_key, entry.flags, entry.length), (0, 0b11, 32));
        let entry = WorkRequest::send_inline(&data[..3]).unwrap().entry;
        assert_eq!(entry.local_addr.to_ne_bytes(), [1, 2, 3, 0, 0, 0, 0, 0]);
        assert_eq!((entry.operand, entry.length), (0, 3));
        assert!(WorkRequest::send_inline(&[0; 33]).is_err());
    }

    #[test]
    fn inline_data_that_the_entry_has_no_room_for_wait_for_a_copy() {
        let data = [7; 33];
        let request = WorkRequest::write(PART, 99).inline(&data[..]);
        let entry = request.entry;
        assert_eq!((entry.length, entry.flags, entry.local_key), (33, 1, 0));
        assert_eq!((entry.local_addr, &*request.data), (0, &data[..]));
        let pieces = [&data[..20], &[], &data[20..]];
        assert_eq!(*request.clone().inline_pieces(pieces).data, data);
        let request = request.inline_pieces([&data[..30], &data[..2]]);
        let short = WorkRequest::write_inline(&data[..32], 99).unwrap();
        assert_eq!((request.entry, request.data.len()), (short.entry, 0));
        assert_eq!(
            request.local(PART).entry,
            WorkRequest::write(PART, 99).entry
        );
    }
}
