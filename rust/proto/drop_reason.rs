// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Why a received packet, or its content, was thrown away: the one list, for counters and reports.

use super::wire::Malformed;

macro_rules! reasons {
    ($($(#[doc = $doc:literal])+ $variant:ident = $value:literal, $name:literal;)+) => {
        /// Cause of a drop. Values are stable: they index counter tables.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum DropReason {
            $($(#[doc = $doc])+ $variant = $value,)+
        }

        impl DropReason {
            /// Every reason, in the order of its value.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// Name for counters: lower case, underscores.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }
        }
    };
}

reasons! {
    /// Shorter than its headers.
    TooShort = 0, "too_short";
    /// Number of operations impossible for the opcode.
    NumOps = 1, "num_ops";
    /// Data not divisible into equal blocks.
    UnevenBlocks = 2, "uneven_blocks";
    /// Data block under 16 bytes: the transaction is refused.
    ShortBlock = 3, "short_block";
    /// No connection has this DCID. Counted by the owner of the connection table.
    NoConnection = 4, "no_connection";
    /// The source address is not the connection's remote address, or none that a gateway could
    /// answer. Counted by the owner.
    WrongSource = 5, "wrong_source";
    /// The connection has not been started. Counted by the owner.
    NotStarted = 6, "not_started";
    /// The connection is stopped or broken.
    NotRunning = 7, "not_running";
    /// PSN beyond the receive window.
    OutOfWindow = 8, "psn_out_of_window";
    /// ACK PSN of a packet never sent.
    AckOutOfWindow = 9, "ack_psn_out_of_window";
    /// ACK XID of a transaction never started.
    AckXidOutOfWindow = 10, "ack_xid_out_of_window";
    /// XID outside the window.
    XidOutOfWindow = 11, "xid_out_of_window";
    /// XID of a transaction that is complete.
    XidCompleted = 12, "xid_completed";
    /// Opcode differs from that of the transaction's earlier packets.
    OpcodeChanged = 13, "opcode_changed";
    /// Seqno already seen.
    SeqnoDuplicate = 14, "seqno_duplicate";
    /// Second end-of-message.
    EomDuplicate = 15, "eom_duplicate";
    /// Seqno beyond, or end-of-message before, what was already seen.
    SeqnoBeyondEom = 16, "seqno_beyond_eom";
    /// Seqno at or above tal_max_pkt_per_trans.
    SeqnoTooLarge = 17, "seqno_too_large";
    /// Answer before the request was fully sent.
    EarlyReply = 18, "early_reply";
    /// Answer that does not match its request.
    ReplyMismatch = 19, "reply_mismatch";
    /// Opcode unknown, or an extension that is not enabled.
    UnknownOpcode = 20, "unknown_opcode";
    /// Rest of a transaction that has already failed.
    TransactionFailed = 21, "transaction_failed";
    /// Not a drop: a PSN came round again in less than two seconds [proto 3.16].
    PsnReused = 22, "psn_reused";
    /// Next Header of another protocol than SUPERp. Counted by the owner.
    NextHeader = 23, "foreign_next_header";
    /// The destination address is not the connection's local address. Counted by the owner.
    NotOurs = 24, "wrong_destination";
    /// Another encapsulation or port than the connection's. Counted by the owner.
    WrongPath = 25, "wrong_path";
    /// A frame to be forwarded whose Hop Limit is used up. Counted by the owner.
    HopLimit = 26, "hop_limit";
    /// A packet that could not be forwarded: no next hop that is up and takes it. Counted by the
    /// owner.
    NotForwarded = 27, "not_forwarded";
    /// A packet to be forwarded that is longer than the way to the next hop carries. Counted by the
    /// owner.
    TooLong = 28, "too_long";
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
