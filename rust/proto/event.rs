// SPDX-License-Identifier: GPL-2.0 OR MIT
//! What the owner of a connection is told.

use super::code::Code;
use super::drop_reason::DropReason;

/// Something that happened to a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A submitted transaction is over; told once for each. Its XID may be used again from now on.
    Completed {
        /// What `submit` returned.
        xid: u16,
        /// What was given to `submit`.
        token: u64,
        /// Success, or why not.
        result: Result<(), Code>,
        /// Of an atomic that succeeded: what was in memory before.
        original: Option<u64>,
        /// Which operation the peer refused, of a request with several.
        failed_op: Option<u32>,
    },
    /// `submit` refused for lack of room, and there is room now.
    Writable,
    /// An error of the peer that the connection manager must hear of.
    Report(Report),
    /// The connection is broken; transactions under way complete with an error.
    Broken(BrokenCause),
    /// Last NULL has been acknowledged both ways: nothing is under way any more.
    Drained,
}

/// An offending value of the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// What is wrong.
    pub reason: DropReason,
    /// The offending value: PSN, ACK PSN, XID, Seqno or opcode, as the reason says.
    pub value: u32,
    /// First value that would have been in order.
    pub low: u32,
    /// First value after `low` that would not have been.
    pub high: u32,
}

/// Why a connection broke.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BrokenCause {
    /// The peer does not acknowledge this PSN [proto 3.14].
    PeerDead {
        /// The packet.
        psn: u32,
    },
    /// This transaction took longer than tal_transaction_timeout.
    TransactionTimeout {
        /// The transaction.
        xid: u16,
    },
}

/// What became of a received packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// Delivered to the transaction layer.
    Delivered,
    /// In the window above a hole of an ordered connection: the owner keeps the packet in slot
    /// `slot` (PSN modulo `psn_slots()`) until `next_release()` names it.
    Held {
        /// Index into the owner's table.
        slot: usize,
    },
    /// An old packet, or one that had come before. Its acknowledgements counted.
    Duplicate,
    /// Nothing but acknowledgements.
    AckOnly,
    /// Thrown away, at either layer.
    Dropped(DropReason),
}

/// State of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Takes new transactions.
    Open,
    /// Last NULL has been submitted: finishes what is under way.
    ShuttingDown,
    /// Given up because of the peer.
    Broken,
    /// Ended by `stop()`.
    Stopped,
}
