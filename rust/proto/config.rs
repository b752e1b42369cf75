// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Configuration of a connection.

use super::params::{self, ConfigError, Param};
use super::tuning::CongestionTuning;

/// Smallest time between two uses of a PSN, in ns. We assume that no packet lives longer.
pub(crate) const REUSE_TIME: u64 = 2_000_000_000;

/// Limit of the timeout's back-off, in ns. A timeout that exceeds it without back-off stays as it
/// is.
pub(crate) const RTO_MAX: u64 = 200_000_000;

/// Range of a packet's size. The minimum holds the largest header and some blocks. The maximum is
/// the largest 16-bit length, which is what an encapsulation can carry.
pub(super) const MTU: Param = Param {
    name: "mtu",
    min: 128,
    max: 65_535,
    default: 1484,
    unit: "bytes",
    doc: "Bytes from the Packet Delivery header to the end of a packet",
};

/// Range of `tal_transaction_timeout` for SUPERp-lite. It excludes 0 (no limit), because only the
/// timer of a transaction detects that a packet of a lite connection was lost [proto 6].
const LITE_TIMEOUT: Param = Param {
    min: 1,
    ..params::TAL_TRANSACTION_TIMEOUT
};

/// Use of the extension opcodes [proto 7].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extensions {
    /// The connection neither sends nor accepts them: it speaks version 0.4 only.
    Off,
    /// The connection sends and accepts them, whatever the peer announces.
    On,
    /// The connection accepts them. It sends them if the peer's first packet announces them.
    /// Requests wait for that packet.
    Auto,
}

impl From<bool> for Extensions {
    fn from(on: bool) -> Self {
        match on {
            true => Self::On,
            false => Self::Off,
        }
    }
}

/// Configuration of one connection. Fields without a comment are parameters of the specification,
/// see [`params`]. Both ends of a connection should have the same values.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // params.rs documents the parameters of the specification.
pub struct Config {
    /// The peer's connection identifier: the DCID of every packet sent.
    pub remote_cid: u16,
    /// Bytes from the first SUPERp header to the end of the largest packet sent, 128..=65535.
    pub mtu: u32,
    /// SUPERp-lite: no Packet Delivery Layer, over a path that loses nothing and keeps order
    /// [proto 6]. `tal_transaction_timeout` must not be 0 then.
    pub lite: bool,
    /// The peer delivers the packets of this end in the order of their PSNs.
    pub ordered_tx: bool,
    /// This end delivers received packets in the order of their PSNs.
    pub ordered_rx: bool,
    /// Use of the extension opcodes [proto 7]. SUPERp-lite cannot ask its peer, so `Auto` means
    /// `Off` there.
    pub ext: Extensions,
    /// First PSN of both directions. Both ends must have the same. After a reset it must be outside
    /// the range that packets of the previous life can have [proto 3.19].
    pub start_psn: u32,
    /// First XID of both directions. Both ends must have the same.
    pub start_xid: u16,
    pub pdl_retrans_time_out: u64,
    pub pdl_rtx_time_win: u64,
    pub pdl_rtx_max_pkts: u32,
    pub pdl_max_rtx: u32,
    pub pdl_dead_time: u64,
    pub pdl_delayed_ack_time: u64,
    pub pdl_ack_every: u32,
    pub pdl_window_size: u32,
    pub pdl_receive_win: u32,
    /// 1: the packets in flight are limited by the delay that they meet; 0: by the windows alone.
    pub pdl_congestion: u32,
    /// Constants of `pdl_congestion`.
    pub congestion_tuning: CongestionTuning,
    pub tal_trans_window: u32,
    pub tal_max_pkt_per_trans: u32,
    pub tal_max_ops_per_pkt: u32,
    /// In units of 10 ns; 0 for no limit.
    pub tal_transaction_timeout: u64,
    /// Refusals that answer guesses, in a second; 0 for no limit.
    pub tal_refusal_rate: u32,
    /// Refusals that answer guesses, after which the owner breaks the connection; 0 for no limit.
    pub tal_max_refusals: u32,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            remote_cid: 0,
            mtu: MTU.default as u32,
            lite: false,
            ordered_tx: true,
            ordered_rx: true,
            ext: Extensions::Off,
            start_psn: 0,
            start_xid: 0,
            pdl_retrans_time_out: params::PDL_RETRANS_TIME_OUT.default,
            pdl_rtx_time_win: params::PDL_RTX_TIME_WIN.default,
            pdl_rtx_max_pkts: params::PDL_RTX_MAX_PKTS.default as u32,
            pdl_max_rtx: params::PDL_MAX_RTX.default as u32,
            pdl_dead_time: params::PDL_DEAD_TIME.default,
            pdl_delayed_ack_time: params::PDL_DELAYED_ACK_TIME.default,
            pdl_ack_every: params::PDL_ACK_EVERY.default as u32,
            pdl_window_size: params::PDL_WINDOW_SIZE.default as u32,
            pdl_receive_win: params::PDL_RECEIVE_WIN.default as u32,
            pdl_congestion: params::PDL_CONGESTION.default as u32,
            congestion_tuning: CongestionTuning::DEFAULT,
            tal_trans_window: params::TAL_TRANS_WINDOW.default as u32,
            tal_max_pkt_per_trans: params::TAL_MAX_PKT_PER_TRANS.default as u32,
            tal_max_ops_per_pkt: params::TAL_MAX_OPS_PER_PKT.default as u32,
            tal_transaction_timeout: params::TAL_TRANSACTION_TIMEOUT.default,
            tal_refusal_rate: params::TAL_REFUSAL_RATE.default as u32,
            tal_max_refusals: params::TAL_MAX_REFUSALS.default as u32,
        }
    }
}

macro_rules! fields {
    ($($konst:ident = $field:ident: $ty:ty;)+) => {
        impl Config {
            /// Checks that every value is in its range.
            ///
            /// # Errors
            ///
            /// [`ConfigError`] names the first value that is not.
            pub fn validate(&self) -> Result<(), ConfigError> {
                MTU.check(self.mtu.into())?;
                if self.lite {
                    LITE_TIMEOUT.check(self.tal_transaction_timeout)?;
                }
                $(params::$konst.check(self.$field.into())?;)+
                Ok(())
            }

            /// Returns the value of `PARAMS[index]`, or `None` if connections do not have that
            /// parameter.
            pub fn param(&self, index: usize) -> Option<u64> {
                let name = params::PARAMS.get(index)?.name;
                $(if name == params::$konst.name {
                    return Some(self.$field.into());
                })+
                None
            }

            /// Sets `PARAMS[index]`. [`Self::validate`] checks the range, not this function.
            /// Returns false if connections do not have the parameter, or if its type cannot hold
            /// `value`.
            pub fn set_param(&mut self, index: usize, value: u64) -> bool {
                let Some(param) = params::PARAMS.get(index) else {
                    return false;
                };
                $(if param.name == params::$konst.name {
                    return <$ty>::try_from(value).map(|value| self.$field = value).is_ok();
                })+
                false
            }
        }
    };
}

fields! {
    PDL_RETRANS_TIME_OUT = pdl_retrans_time_out: u64;
    PDL_RTX_TIME_WIN = pdl_rtx_time_win: u64;
    PDL_RTX_MAX_PKTS = pdl_rtx_max_pkts: u32;
    PDL_MAX_RTX = pdl_max_rtx: u32;
    PDL_DEAD_TIME = pdl_dead_time: u64;
    PDL_DELAYED_ACK_TIME = pdl_delayed_ack_time: u64;
    PDL_ACK_EVERY = pdl_ack_every: u32;
    PDL_WINDOW_SIZE = pdl_window_size: u32;
    PDL_RECEIVE_WIN = pdl_receive_win: u32;
    PDL_CONGESTION = pdl_congestion: u32;
    TAL_TRANS_WINDOW = tal_trans_window: u32;
    TAL_MAX_PKT_PER_TRANS = tal_max_pkt_per_trans: u32;
    TAL_MAX_OPS_PER_PKT = tal_max_ops_per_pkt: u32;
    TAL_TRANSACTION_TIMEOUT = tal_transaction_timeout: u64;
    TAL_REFUSAL_RATE = tal_refusal_rate: u32;
    TAL_MAX_REFUSALS = tal_max_refusals: u32;
}

impl Config {
    /// Time in ns for which the identifier of this connection is not chosen again after its removal
    /// [proto 3.20]. The last packet of this end may reach the peer one packet life later. Then the
    /// peer retransmits until it gives up, and its last packet lives for one packet life.
    pub fn quarantine_time(&self) -> u64 {
        let timeouts = u64::from(self.pdl_max_rtx).saturating_add(1);
        let timeout = self.pdl_retrans_time_out.max(RTO_MAX);
        REUSE_TIME
            .saturating_mul(2)
            .saturating_add(self.pdl_dead_time)
            .saturating_add(timeouts.saturating_mul(timeout))
    }

    /// Receive window to advertise, in packets: at most what the window can store.
    pub(super) fn receive_window(&self) -> u32 {
        self.pdl_receive_win.min(self.pdl_window_size)
    }
}
