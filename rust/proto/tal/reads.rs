// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Reads of the peer that wait for their reply.

use super::super::slab::Slabs;
use super::layout::Limits;

/// No read.
pub(super) const NIL: u16 = u16::MAX;

/// One read operation.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Read {
    pub(super) address: u64,
    pub(super) length: u32,
    /// Next read of the transaction, or of the free list.
    next: u16,
    /// Seqno of the request packet, below 4096, and in the lower four bits the position in it.
    place: u16,
}

impl Read {
    /// Seqno of the request packet.
    pub(super) fn seqno(&self) -> u16 {
        self.place >> 4
    }

    /// Position in the request packet.
    pub(super) fn opnum(&self) -> u8 {
        (self.place & 0xf) as u8
    }
}

/// Reads of all transactions, in one pool: a list for each transaction and one of the free entries.
pub(super) struct Reads<A: Slabs> {
    pool: A::Slab<Read>,
    free: u16,
}

/// The reads of one transaction, in order of arrival.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReadList {
    pub(super) head: u16,
    tail: u16,
}

impl Default for ReadList {
    fn default() -> Self {
        Self {
            head: NIL,
            tail: NIL,
        }
    }
}

impl<A: Slabs> Reads<A> {
    /// A pool of `size` reads, below 65535.
    pub(super) fn new(size: usize) -> Option<Self> {
        let mut pool = A::slab::<Read>(size)?;
        let mut free = NIL;
        for (index, read) in pool.iter_mut().enumerate().rev() {
            read.next = free;
            free = u16::try_from(index).ok()?;
        }
        Some(Self { pool, free })
    }

    pub(super) fn get(&self, index: u16) -> Option<&Read> {
        self.pool.get(usize::from(index))
    }

    /// The read after `index` in its transaction, `NIL` at the end.
    pub(super) fn next(&self, index: u16) -> u16 {
        self.get(index).map_or(NIL, |read| read.next)
    }

    /// Appends a read of a packet with a Seqno below 4096; whether there was room.
    pub(super) fn push(
        &mut self,
        list: &mut ReadList,
        address: u64,
        length: u32,
        seqno: u16,
        opnum: u8,
    ) -> bool {
        let index = self.free;
        let Some(read) = self.pool.get_mut(usize::from(index)) else {
            return false;
        };
        self.free = read.next;
        *read = Read {
            address,
            length,
            next: NIL,
            place: (seqno << 4) | u16::from(opnum & 0xf),
        };
        match self.pool.get_mut(usize::from(list.tail)) {
            Some(tail) => tail.next = index,
            None => list.head = index,
        }
        list.tail = index;
        true
    }

    /// Returns all reads of a transaction to the pool.
    pub(super) fn release(&mut self, list: &mut ReadList) {
        if let Some(tail) = self.pool.get_mut(usize::from(list.tail)) {
            tail.next = self.free;
            self.free = list.head;
        }
        *list = ReadList::default();
    }

    /// The reads, from `read` at `offset` on, that the next reply packet answers: how many of them,
    /// the data bytes for each, and where the packet after it goes on.
    pub(super) fn reply_step(
        &self,
        limits: &Limits,
        read: u16,
        offset: u32,
    ) -> Option<(u8, u32, u16, u32)> {
        let first = self.get(read)?;
        let (len, max_ops) = limits.reply_block(first.length, offset);
        let end = offset.saturating_add(len);
        if end < first.length {
            return Some((1, len, read, end));
        }
        let (mut count, mut next) = (1u8, self.next(read));
        while u32::from(count) < max_ops {
            match self.get(next) {
                Some(other) if other.length == len && offset == 0 => {
                    count = count.wrapping_add(1);
                    next = self.next(next);
                }
                _ => break,
            }
        }
        Some((count, len, next, 0))
    }

    /// Packets that answer the reads from `read` on; `None` when there are too many.
    pub(super) fn reply_packets(&self, limits: &Limits, read: u16) -> Option<u16> {
        let (mut read, mut packets) = (read, 0u32);
        while let Some(first) = self.get(read) {
            let alone = limits.reply_packets(first.length);
            packets = packets.saturating_add(alone);
            if packets > limits.max_packets {
                return None;
            }
            read = match alone {
                1 => self.reply_step(limits, read, 0)?.2,
                _ => self.next(read),
            };
        }
        u16::try_from(packets).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::slab::test::Heap;
    use super::*;

    #[test]
    fn pool_is_shared_and_comes_back_whole() {
        let mut reads = Reads::<Heap>::new(5).unwrap();
        for _ in 0..3 {
            let (mut a, mut b) = (ReadList::default(), ReadList::default());
            for i in 0..5u32 {
                let list = if i % 2 == 0 { &mut a } else { &mut b };
                assert!(reads.push(list, i.into(), i, 4095, 14));
            }
            assert!(!reads.push(&mut a, 9, 9, 0, 0));
            let mut lengths = alloc::vec::Vec::new();
            let mut at = a.head;
            while at != NIL {
                let read = reads.get(at).unwrap();
                assert_eq!((read.seqno(), read.opnum()), (4095, 14));
                lengths.push(read.length);
                at = reads.next(at);
            }
            assert_eq!(lengths, [0, 2, 4]);
            reads.release(&mut a);
            assert!(reads.push(&mut b, 9, 9, 0, 0));
            reads.release(&mut b);
            reads.release(&mut b);
        }
    }
}
