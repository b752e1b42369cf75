// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Reads of the peer, stored until their reply is acknowledged.

use super::super::slab::Slabs;
use super::layout::Limits;

/// Index that stands for no read.
pub(super) const NIL: u16 = u16::MAX;

/// A read operation of the peer.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Read {
    /// RMA address of the first byte.
    pub(super) address: u64,
    /// Length in bytes.
    pub(super) length: u32,
    /// Index of the next read of the transaction, or of the free list; `NIL` at the end.
    next: u16,
    /// Upper 12 bits: Seqno of the request packet. Lower 4 bits: position in that packet.
    seqno_opnum: u16,
}

impl Read {
    /// Seqno of the request packet.
    pub(super) fn seqno(&self) -> u16 {
        self.seqno_opnum >> 4
    }

    /// Position in the request packet.
    pub(super) fn opnum(&self) -> u8 {
        (self.seqno_opnum & 0xf) as u8
    }
}

/// Pool of the reads of all transactions. Each transaction has a list, and so have the free
/// entries.
pub(super) struct Reads<A: Slabs> {
    pool: A::Slab<Read>,
    /// Head of the free list.
    free: u16,
}

/// List of the reads of one transaction, in the order of arrival.
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
    /// Allocates a pool of `size` reads, fewer than 65535.
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

    /// Index of the read after `index` in its transaction; `NIL` at the end.
    pub(super) fn next(&self, index: u16) -> u16 {
        self.get(index).map_or(NIL, |read| read.next)
    }

    /// Appends a read to `list`. `seqno` must be below 4096. Returns false if the pool is used up.
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
            seqno_opnum: (seqno << 4) | u16::from(opnum & 0xf),
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

    /// Chooses the content of the next reply packet, from byte `offset` of read `read` on. Returns
    /// the number of reads that it answers, the bytes of data for each, and read and offset at
    /// which the packet after it continues.
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

    /// Number of packets of the reply to the reads from `read` on. `None` if they exceed
    /// `limits.max_packets`.
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
