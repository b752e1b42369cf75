// SPDX-License-Identifier: GPL-2.0 OR MIT
//! A slot of the send window.

use super::content::Content;
use super::list::{Link, Linked, Membership};

/// State of one PSN in flight. Times are in ns.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SendSlot {
    pub(super) first_sent: u64,
    pub(super) last_sent: u64,
    pub(super) content: Content,
    /// Number of the last transmission.
    pub(super) transmission: u32,
    /// ACK PSN that the last transmission carried.
    pub(super) ack_psn: u32,
    pub(super) link: Link,
    pub(super) member: Membership,
    /// Lane of the last transmission.
    pub(super) lane: u8,
    pub(super) retransmits: u8,
    /// The peer acknowledges the last transmission without delay.
    pub(super) prompt: bool,
    /// The timer declared the packet lost, not evidence.
    pub(super) expired: bool,
}

impl Linked for SendSlot {
    fn link(&mut self) -> &mut Link {
        &mut self.link
    }
}
