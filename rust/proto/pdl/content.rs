// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Content of packets, as the send window stores it.

/// Reference to what a packet carries, from which the packet can be rebuilt. A packet with content
/// asks for an acknowledgement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Content {
    /// No content: a pure ACK, or a packet whose transaction is over.
    #[default]
    None,
    /// Packet of a local request.
    Request { xid: u16, seqno: u16 },
    /// Packet of a reply to the peer: data for `count` reads from pool index `read` on, from
    /// `offset` bytes in each.
    Reply {
        xid: u16,
        seqno: u16,
        read: u16,
        count: u8,
        offset: u32,
    },
    /// Response to an atomic of the peer.
    AtomicResponse { xid: u16 },
    /// Transaction Error for a request of the peer.
    Error { xid: u16 },
}
