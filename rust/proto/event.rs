// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Events, results and states of a connection.

use super::code::Code;
use super::drop_reason::DropReason;

/// An event of a connection, from [`super::Connection::poll_event`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A submitted transaction is over. Each transaction has exactly one such event. Afterwards its
    /// XID may be used again.
    Completed {
        /// The XID that `submit` returned.
        xid: u16,
        /// The token of the request.
        token: u64,
        /// Success, or why the transaction failed.
        result: Result<(), Code>,
        /// Value in memory before an atomic that succeeded; `None` for all other transactions.
        original: Option<u64>,
        /// Index of the operation that the peer refused. `None` unless the request has several.
        failed_op: Option<u32>,
    },
    /// `submit` refused a request with `WindowFull`, and may succeed now.
    Writable,
    /// The peer broke a rule, and the connection manager must know it.
    Report(Report),
    /// The connection is broken. Transactions under way complete with an error.
    Broken(BrokenCause),
    /// Both ends acknowledged the other's Last NULL: no transaction is under way.
    Drained,
}

/// A value of a received packet that is against the rules, and the range of valid values.
///
/// `XidCompleted`, `EarlyReply` and `ReplyMismatch` report an XID inside the range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// The rule that was broken.
    pub reason: DropReason,
    /// The value: a PSN, ACK PSN, XID, ACK XID, Seqno or opcode, or the bytes of a short block,
    /// depending on `reason`.
    pub value: u32,
    /// First valid value. `low` and `high` are 0 for `PsnReused`.
    pub low: u32,
    /// First value beyond the valid ones.
    pub high: u32,
}

/// Why a connection broke.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BrokenCause {
    /// The peer does not acknowledge a packet [proto 3.14].
    PeerDead {
        /// PSN of the packet.
        psn: u32,
    },
    /// A transaction took longer than `tal_transaction_timeout`.
    TransactionTimeout {
        /// XID of the transaction.
        xid: u16,
    },
}

/// What a connection did with a received packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// Delivered to the transaction layer.
    Delivered,
    /// The packet is above a hole of an ordered connection. The owner stores it in slot `slot` of
    /// its table until `next_release()` returns that slot.
    Held {
        /// PSN modulo `psn_slots()`.
        slot: usize,
    },
    /// The packet is old, or arrived before. Only its acknowledgement fields were used.
    Duplicate,
    /// The packet has acknowledgements only, or is old and may be forged [proto 3.2].
    AckOnly,
    /// The Packet Delivery Layer or the Transaction Layer dropped the packet.
    Dropped(DropReason),
}

/// State of a connection. `Broken` and `Stopped` are final: nothing is sent or accepted any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The connection accepts requests. `submit` of a Last NULL moves it to `ShuttingDown`.
    Open,
    /// A Last NULL has been submitted. Requests are refused, and transactions under way go on.
    ShuttingDown,
    /// The connection ended with `Event::Broken`, from `Open` or `ShuttingDown`.
    Broken,
    /// `stop()` ended the connection, from `Open` or `ShuttingDown`.
    Stopped,
}
