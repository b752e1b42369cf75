// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Transaction Layer: initiator and target windows, requests and replies [proto 4].
//!
//! A *request* is what the initiator sends in a transaction. An *answer* is what the target sends
//! back: a *reply*, which is the Read responses of the transaction, an Atomic response, or a
//! Transaction Error. Other transactions have no answer; ACK XID completes them.

mod initiator;
mod layout;
mod reads;
mod reception;
mod refusals;
mod target;

pub(super) use initiator::Initiator;
pub(super) use target::Target;

/// What the Transaction Layer did with a packet that broke no rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The packet was delivered, and its transaction continues.
    Partial,
    /// The packet completed its transaction.
    Complete,
    /// The target failed the transaction because of this packet.
    Refused(super::DropReason),
    /// The packet belongs to a transaction that failed before, and was discarded.
    Discarded,
}
