// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Counters of one connection.

/// Counters since the connection was created, and the round-trip estimate.
///
/// A sent packet counts when the owner fetches it; a received one when the Packet Delivery Layer
/// accepts it as new. Bytes are data bytes without padding. Retransmitted bytes count once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Packets sent, retransmissions and pure ACKs included.
    pub tx_packets: u64,
    /// Data bytes of first transmissions.
    pub tx_bytes: u64,
    /// Operations of first transmissions.
    pub tx_operations: u64,
    /// Pure ACKs sent.
    pub tx_acks: u64,
    /// New packets received.
    pub rx_packets: u64,
    /// Data bytes delivered.
    pub rx_bytes: u64,
    /// Operations delivered.
    pub rx_operations: u64,
    /// Pure ACKs received, including those with an old PSN.
    pub rx_acks: u64,
    /// Negative acknowledgements received.
    pub rx_nacks: u64,
    /// Negative acknowledgements sent.
    pub tx_nacks: u64,
    /// Retransmissions because later packets were acknowledged.
    pub retransmits_fast: u64,
    /// Retransmissions because the timer expired.
    pub retransmits_timeout: u64,
    /// Retransmissions that carried an ACK while the send window was full [proto 3.11].
    pub retransmits_full_window: u64,
    /// Expiries of the retransmission timer.
    pub timeouts: u64,
    /// Probes sent: No-ops with an old PSN that ask for an acknowledgement [proto 3.8].
    pub probes: u64,
    /// Packets received again, and probes of the peer.
    pub duplicates: u64,
    /// Packets received above a hole.
    pub out_of_order: u64,
    /// Packets dropped for a PSN, ACK PSN, XID or ACK XID outside its window.
    pub out_of_window: u64,
    /// Packets dropped by the transaction layer for other reasons.
    pub protocol_errors: u64,
    /// Time during which packets waited for a full send window, in ns.
    pub window_full_ns: u64,
    /// Transactions submitted.
    pub transactions: u64,
    /// Transactions completed with success.
    pub completed: u64,
    /// Transactions completed with an error.
    pub failed: u64,
    /// Transactions of the peer that this end refused with a Transaction Error.
    pub refused: u64,
    /// Reports dropped because the owner did not fetch earlier ones in time.
    pub reports_lost: u64,
    /// Smoothed round-trip time in ns; 0 before the first measurement.
    pub srtt: u64,
    /// Mean deviation of the round-trip time in ns.
    pub rttvar: u64,
    /// Current retransmission timeout in ns, back-off included.
    pub rto: u64,
}
