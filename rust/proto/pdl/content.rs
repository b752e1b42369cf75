// SPDX-License-Identifier: GPL-2.0 OR MIT
//! What packets carry, as the Packet Delivery Layer keeps it.

/// What a PSN carries: enough to build the packet again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Content {
    /// Nothing: a pure ACK, or what is left of a transaction that is over.
    #[default]
    None,
    /// Packet of a request of this end.
    Request { xid: u16, seqno: u16 },
    /// Data for a read of the peer: `count` reads from `read` on, from `offset`.
    Reply {
        xid: u16,
        seqno: u16,
        read: u16,
        count: u8,
        offset: u32,
    },
    /// Original value for an atomic of the peer.
    AtomicResponse { xid: u16 },
    /// Transaction Error for a request of the peer.
    Error { xid: u16 },
}
