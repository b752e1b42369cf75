// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Why a received packet, or its content, was dropped. Counters and reports use this list.

use super::wire::Malformed;

macro_rules! reasons {
    ($($(#[doc = $doc:literal])+ $variant:ident = $value:literal, $name:literal;)+) => {
        /// Reason of a drop. The values are stable, because they index counter tables. "Counted by
        /// the owner" marks reasons that the core never returns.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum DropReason {
            $($(#[doc = $doc])+ $variant = $value,)+
        }

        impl DropReason {
            /// Every reason, in the order of its value.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// Name of the counter, in lower case with underscores.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }
        }
    };
}

reasons! {
    /// The packet is shorter than its headers.
    TooShort = 0, "too_short";
    /// The opcode cannot have this number of operations.
    NumOps = 1, "num_ops";
    /// The data does not divide into equal blocks.
    UnevenBlocks = 2, "uneven_blocks";
    /// A data block has less than 16 bytes. The transaction is refused.
    ShortBlock = 3, "short_block";
    /// No connection has this DCID. Counted by the owner of the connection table.
    NoConnection = 4, "no_connection";
    /// The source address is not the connection's remote address. At a gateway: the gateway has no
    /// way back to the source. Counted by the owner.
    WrongSource = 5, "wrong_source";
    /// The connection has not been started. Counted by the owner.
    NotStarted = 6, "not_started";
    /// The connection is stopped or broken.
    NotRunning = 7, "not_running";
    /// The PSN is beyond the receive window.
    OutOfWindow = 8, "psn_out_of_window";
    /// The ACK PSN is that of a packet never sent, or is older than a delayed packet can have it
    /// [proto 3.2].
    AckOutOfWindow = 9, "ack_psn_out_of_window";
    /// The ACK XID is that of a transaction never started.
    AckXidOutOfWindow = 10, "ack_xid_out_of_window";
    /// The XID is outside the window.
    XidOutOfWindow = 11, "xid_out_of_window";
    /// The transaction is complete.
    XidCompleted = 12, "xid_completed";
    /// The opcode differs from that of earlier packets of the transaction.
    OpcodeChanged = 13, "opcode_changed";
    /// A packet of the transaction with this Seqno arrived before.
    SeqnoDuplicate = 14, "seqno_duplicate";
    /// A second packet of the transaction has `eom`.
    EomDuplicate = 15, "eom_duplicate";
    /// The Seqno is beyond that of `eom`, or the packet has `eom` and is before another packet.
    SeqnoBeyondEom = 16, "seqno_beyond_eom";
    /// The Seqno is at or above `tal_max_pkt_per_trans`.
    SeqnoTooLarge = 17, "seqno_too_large";
    /// An answer arrived before the whole request was sent.
    EarlyReply = 18, "early_reply";
    /// An answer does not match its request.
    ReplyMismatch = 19, "reply_mismatch";
    /// The opcode is unknown, or an extension that is not enabled.
    UnknownOpcode = 20, "unknown_opcode";
    /// The packet failed its transaction, or the transaction had failed before.
    TransactionFailed = 21, "transaction_failed";
    /// Not a drop: this end used a PSN again in less than two seconds [proto 3.16].
    PsnReused = 22, "psn_reused";
    /// The Next Header is not that of SUPERp. Counted by the owner.
    NextHeader = 23, "foreign_next_header";
    /// The destination address is not the connection's local address. Counted by the owner.
    NotOurs = 24, "wrong_destination";
    /// The encapsulation or the port is not the connection's. Counted by the owner.
    WrongPath = 25, "wrong_path";
    /// The Hop Limit of a frame to be forwarded is used up. Counted by the owner.
    HopLimit = 26, "hop_limit";
    /// A packet could not be forwarded, because no next hop was up and accepted it. Counted by the
    /// owner.
    NotForwarded = 27, "not_forwarded";
    /// A packet to be forwarded is longer than the MTU towards the next hop. Counted by the owner.
    TooLong = 28, "too_long";
    /// There was no memory to hold the packet until its turn. Counted by the owner.
    NoMemory = 29, "no_memory";
    /// The packet was held until its turn, and the life of the connection ended before. Counted by
    /// the owner.
    HeldAtEnd = 30, "held_at_end";
}

impl From<Malformed> for DropReason {
    fn from(malformed: Malformed) -> Self {
        match malformed {
            Malformed::TooShort => Self::TooShort,
            Malformed::NumOps => Self::NumOps,
            Malformed::UnevenBlocks => Self::UnevenBlocks,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_numbered_without_gaps_and_named_apart() {
        for (index, reason) in DropReason::ALL.iter().enumerate() {
            assert_eq!(*reason as usize, index);
            let same = DropReason::ALL
                .iter()
                .filter(|other| other.name() == reason.name());
            assert_eq!(same.count(), 1);
        }
    }
}
