// SPDX-License-Identifier: GPL-2.0 OR MIT
//! What a connection is created with.

use super::params::{self, ConfigError, Param};
use super::pdl::{REUSE_TIME, RTO_MAX};

/// Packet size limits: the least holds the largest header and some blocks, the most is what the
/// length arithmetic of an encapsulation can carry.
pub(super) const MTU: Param = Param {
    name: "mtu",
    min: 128,
    max: 65_535,
    default: 1484,
    unit: "bytes",
    doc: "Bytes from the Packet Delivery header to the end of a packet",
};

/// Nothing but a transaction's timer finds out that a lite connection has lost something.
const LITE_TIMEOUT: Param = Param {
    min: 1,
    ..params::TAL_TRANSACTION_TIMEOUT
};

/// Whether the extension opcodes may be sent and are accepted [proto 7].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extensions {
    /// Neither. Nothing but version 0.4 of the protocol goes over the wire.
    Off,
    /// Both, whatever the peer says.
    On,
    /// Both if the peer's packets say that it has them, else neither. Requests wait for the first.
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

/// Configuration of one connection. The parameters named after the spec's have its meaning, see
/// [`params`]; both ends of a connection should be given the same values.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // The spec's parameters are documented in params.rs, once.
pub struct Config {
    /// The peer's connection identifier: DCID of every packet sent.
    pub remote_cid: u16,
    /// Bytes from the first SUPERp header to the end of the largest packet sent, 128..=65535.
    pub mtu: u32,
    /// SUPERp-lite: no Packet Delivery Layer, over a path that loses nothing and keeps order
    /// [proto 6]. `tal_transaction_timeout` must not be 0 then.
    pub lite: bool,
    /// Packets sent are delivered by the peer in the order of their PSN.
    pub ordered_tx: bool,
    /// Packets received are delivered in the order of their PSN.
    pub ordered_rx: bool,
    /// The extension opcodes [proto 7]. `Auto` is `Off` for SUPERp-lite, which cannot ask its peer.
    pub ext: Extensions,
    /// First PSN, of both directions. Both ends must agree; a successor's lies where no packet of its
    /// predecessor can [proto 3.19].
    pub start_psn: u32,
    /// First XID, of both directions. Both ends must agree.
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
    pub tal_trans_window: u32,
    pub tal_max_pkt_per_trans: u32,
    pub tal_max_ops_per_pkt: u32,
    /// In units of 10 ns; 0 for none.
    pub tal_transaction_timeout: u64,
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
            tal_trans_window: params::TAL_TRANS_WINDOW.default as u32,
            tal_max_pkt_per_trans: params::TAL_MAX_PKT_PER_TRANS.default as u32,
            tal_max_ops_per_pkt: params::TAL_MAX_OPS_PER_PKT.default as u32,
            tal_transaction_timeout: params::TAL_TRANSACTION_TIMEOUT.default,
        }
    }
}

macro_rules! fields {
    ($($konst:ident = $field:ident: $ty:ty;)+) => {
        impl Config {
            /// Checks every value against its range; names the first that is outside.
            pub fn validate(&self) -> Result<(), ConfigError> {
                MTU.check(self.mtu.into())?;
                if self.lite {
                    LITE_TIMEOUT.check(self.tal_transaction_timeout)?;
                }
                $(params::$konst.check(self.$field.into())?;)+
                Ok(())
            }

            /// The value of `PARAMS[index]`; `None` for one that is not a connection's.
            pub fn param(&self, index: usize) -> Option<u64> {
                let name = params::PARAMS.get(index)?.name;
                $(if name == params::$konst.name {
                    return Some(self.$field.into());
                })+
                None
            }

            /// Sets `PARAMS[index]` without checking the range, which [`Self::validate`] does; false
            /// for one that is not a connection's, or a value that its type cannot hold.
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
    TAL_TRANS_WINDOW = tal_trans_window: u32;
    TAL_MAX_PKT_PER_TRANS = tal_max_pkt_per_trans: u32;
    TAL_MAX_OPS_PER_PKT = tal_max_ops_per_pkt: u32;
    TAL_TRANSACTION_TIMEOUT = tal_transaction_timeout: u64;
}

impl Config {
    /// Time in ns for which the identifier of this connection is kept back when it is removed
    /// [proto 3.20]: the life of the last packet that the peer hears of, the time for which it then
    /// sends again, and the life of the last of those packets.
    pub fn quarantine_time(&self) -> u64 {
        let timeouts = u64::from(self.pdl_max_rtx).saturating_add(1);
        let timeout = self.pdl_retrans_time_out.max(RTO_MAX);
        REUSE_TIME
            .saturating_mul(2)
            .saturating_add(self.pdl_dead_time)
            .saturating_add(timeouts.saturating_mul(timeout))
    }

    /// The receive window that is advertised: never more than is stored.
    pub(super) fn receive_window(&self) -> u32 {
        self.pdl_receive_win.min(self.pdl_window_size)
    }
}
