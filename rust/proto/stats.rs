// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Counters of one connection.

/// Counters since the connection was created, and the round-trip estimate.
///
/// Packets count every packet passed to the link, or taken from it and accepted by the Packet
/// Delivery Layer as new. Bytes are data bytes without padding; retransmitted ones count once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Packets sent, everything included.
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
    /// Pure ACKs received, those with an old PSN too.
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
    /// Packets sent to ask for an acknowledgement, with an old PSN and nothing in them.
    pub probes: u64,
    /// Packets received a second time, and probes of the peer.
    pub duplicates: u64,
    /// Packets received above a hole.
    pub out_of_order: u64,
    /// Packets dropped for a PSN, ACK PSN, XID or ACK XID outside its window.
    pub out_of_window: u64,
    /// Packets dropped by the transaction layer for other reasons.
    pub protocol_errors: u64,
    /// Time during which there was something to send and no room in the send window, in ns.
    pub window_full_ns: u64,
    /// Transactions submitted.
    pub transactions: u64,
    /// Of these, completed with success.
    pub completed: u64,
    /// Of these, completed with an error.
    pub failed: u64,
    /// Transactions of the peer that were refused with a Transaction Error.
    pub refused: u64,
    /// Reports that were lost because the owner did not fetch them in time.
    pub reports_lost: u64,
    /// Smoothed round-trip time in ns; 0 before the first measurement.
    pub srtt: u64,
    /// Its mean deviation in ns.
    pub rttvar: u64,
    /// Retransmission timeout in use, in ns, back-off included.
    pub rto: u64,
}
