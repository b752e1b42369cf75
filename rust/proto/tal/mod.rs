// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Transaction Layer: initiator and target windows, requests and replies [proto 4].

mod initiator;
mod layout;
mod reads;
mod reception;
mod target;

pub(super) use initiator::Initiator;
pub(super) use target::Target;

/// What the delivery of a packet to the Transaction Layer came to, when it was no protocol error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Part of a transaction that goes on.
    Partial,
    /// The last part of a transaction.
    Complete,
    /// The transaction has failed with this packet, at the target.
    Refused(super::DropReason),
    /// Rest of a transaction that had failed before.
    Swallowed,
}
