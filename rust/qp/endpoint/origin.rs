// SPDX-License-Identifier: GPL-2.0

//! What a socket keeps with a message until the program receives it.

use crate::kapi::sock::{Key, Meta};

const HAS_IMM: u32 = 1 << 0;
const HAS_PLACED: u32 = 1 << 1;

/// Where a message comes from, and what the program learns of it beside its bytes.
pub(crate) struct Origin {
    /// Address of the peer, v4-mapped or IPv6.
    pub(crate) addr: [u8; 16],
    /// Local id of the connection.
    pub(crate) cid: u32,
    /// Immediate data.
    pub(crate) imm: Option<u32>,
    /// Where the bytes have been written, if the message does not carry them.
    pub(crate) placed: Option<Key>,
}

impl Origin {
    /// The words that a socket keeps.
    pub(super) fn to_meta(&self) -> Meta {
        let addr = u128::from_ne_bytes(self.addr);
        let placed = self.placed.unwrap_or_default();
        let has_imm = self.imm.map_or(0, |_| HAS_IMM);
        let has_placed = self.placed.map_or(0, |_| HAS_PLACED);
        Meta {
            words: [
                // CAST: The words of the address.
                addr as u32,
                (addr >> 32) as u32,
                (addr >> 64) as u32,
                (addr >> 96) as u32,
                self.cid,
                self.imm.unwrap_or_default(),
                placed.key,
                placed.offset,
                placed.length,
                has_imm | has_placed,
                0,
            ],
        }
    }

    /// The reverse of [`Self::to_meta`].
    pub(crate) fn of(meta: &Meta) -> Self {
        let [a, b, c, d, cid, imm, key, offset, length, has, _] = meta.words;
        let word = |value: u32, shift: u32| u128::from(value) << shift;
        let placed = Key {
            key,
            offset,
            length,
            rsvd: 0,
        };
        Self {
            addr: (word(a, 0) | word(b, 32) | word(c, 64) | word(d, 96)).to_ne_bytes(),
            cid,
            imm: (has & HAS_IMM != 0).then_some(imm),
            placed: (has & HAS_PLACED != 0).then_some(placed),
        }
    }
}
