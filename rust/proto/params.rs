// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Table of the protocol's parameters: names, ranges, defaults [proto 8].
//!
//! The default times suit software [proto 3.13]. With the 500 ns of the specification every delayed
//! ACK would cause a retransmission. A receiver on a busy host may not run for some milliseconds,
//! and the defaults allow for that.
//!
//! Two bounds hold whatever is configured. A retransmission timeout is at least 1 ms longer than
//! the round trip (`RTO_FLOOR` in pdl/rtt.rs). An ACK is delayed by at most a quarter of the
//! configured timeout, taken to be at least `RTO_FLOOR`.

use core::fmt;

/// A parameter of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Param {
    /// Name in the specification.
    pub name: &'static str,
    /// Smallest legal value.
    pub min: u64,
    /// Largest legal value.
    pub max: u64,
    /// Default value.
    pub default: u64,
    /// Unit of the value; empty for plain numbers.
    pub unit: &'static str,
    /// Description for users.
    pub doc: &'static str,
}

impl Param {
    /// Checks that `value` is in the range.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] if `value` is less than `min` or greater than `max`.
    pub const fn check(&self, value: u64) -> Result<(), ConfigError> {
        if value < self.min || value > self.max {
            return Err(ConfigError {
                name: self.name,
                value,
                min: self.min,
                max: self.max,
            });
        }
        Ok(())
    }

    /// Looks up a parameter by its name in the specification.
    pub fn find(name: &str) -> Option<&'static Self> {
        PARAMS.iter().find(|param| param.name == name)
    }
}

/// A value is outside the range of its parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// Name of the parameter.
    pub name: &'static str,
    /// The refused value.
    pub value: u64,
    /// Smallest legal value.
    pub min: u64,
    /// Largest legal value.
    pub max: u64,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            name,
            value,
            min,
            max,
        } = self;
        write!(f, "{name} {value} is outside {min}..{max}")
    }
}

macro_rules! params {
    ($($konst:ident, $name:literal, $min:expr, $max:expr, $default:expr, $unit:literal, $doc:literal;)+) => {
        $(
            #[doc = $doc]
            pub const $konst: Param = Param {
                name: $name,
                min: $min,
                max: $max,
                default: $default,
                unit: $unit,
                doc: $doc,
            };
        )+

        /// All parameters, in the order of the specification.
        pub const PARAMS: &[Param] = &[$($konst),+];
    };
}

params! {
    PDL_RETRANS_TIME_OUT, "pdl_retrans_time_out", 100, u64::MAX, 10_000_000, "ns",
        "Least time from a packet, or the last sign of progress, to its retransmission; the measured round trip is added";
    PDL_RTX_TIME_WIN, "pdl_rtx_time_win", 0, u64::MAX, 0, "ns",
        "At a timeout, packets sent within this time of the expired one are retransmitted with it";
    PDL_RTX_MAX_PKTS, "pdl_rtx_max_pkts", 0, 64, 8, "packets",
        "Most packets retransmitted on one acknowledgement or timeout, besides the expired one";
    PDL_MAX_RTX, "pdl_max_rtx", 1, 8, 4, "",
        "Retransmissions of one packet that a connection survives whatever the time they took";
    PDL_DELAYED_ACK_TIME, "pdl_delayed_ack_time", 100, u64::MAX, 500_000, "ns",
        "Longest wait of an acknowledgement for a packet to travel in; at most a quarter of pdl_retrans_time_out is used";
    PDL_WINDOW_SIZE, "pdl_window_size", 16, 1024, 32, "packets",
        "Packets in the send window and in the receive window";
    PDL_CONNS_PER_XPU, "pdl_conns_per_xpu", 1, 4096, 64, "connections",
        "Connections of a node";
    PDL_RECEIVE_WIN, "pdl_receive_win", 1, 1024, 32, "packets",
        "Receive window that is advertised; at most pdl_window_size is used";
    PDL_CONGESTION, "pdl_congestion", 0, 1, 0, "",
        "1: the delay that packets meet limits how many are in flight; 0: the windows alone do";
    PDL_ACK_EVERY, "pdl_ack_every", 1, 1024, 8, "packets",
        "Packets received without sending that cause an acknowledgement; at most a quarter of the window is used";
    PDL_DEAD_TIME, "pdl_dead_time", 1_000_000, u64::MAX, 5_000_000_000, "ns",
        "Time without progress after which a packet retransmitted more than pdl_max_rtx times breaks the connection";
    PDL_RECEIVE_BUDGET, "pdl_receive_budget", 0, 1_048_576, 0, "packets",
        "Packets that all peers together may send to the node at a time, which the advertised windows share; 0 for no limit";
    PDL_BUDGET_STATIC, "pdl_budget_static", 0, 1, 0, "",
        "1: every connection has an equal part of pdl_receive_budget; 0: the active ones share it";
    NH_UDP_PORT, "nh_udp_port", 0, 65_535, 7777, "",
        "UDP destination port";
    NH_NUM_CADDR_BITS, "nh_num_caddr_bits", 8, 16, 12, "bits",
        "Bits in a SUNH address";
    NH_HOP_LIMIT, "nh_hop_limit", 1, 15, 15, "hops",
        "Hop limit of sent packets";
    TAL_TRANS_WINDOW, "tal_trans_window", 1, 1024, 32, "transactions",
        "Transactions in the initiator window and in the target window";
    TAL_MAX_PKT_PER_TRANS, "tal_max_pkt_per_trans", 1, 4096, 32, "packets",
        "Packets of a request or of a reply";
    TAL_MAX_OPS_PER_PKT, "tal_max_ops_per_pkt", 1, 15, 8, "operations",
        "Operations put into one packet";
    TAL_TRANSACTION_TIMEOUT, "tal_transaction_timeout", 0, u64::MAX, 0, "10 ns",
        "Longest life of a transaction before the connection is given up; 0 for no limit";
    TAL_SNDBUF_PER_USER, "tal_sndbuf_per_user", 65_536, 1_099_511_627_776, 268_435_456, "bytes",
        "Memory of the messages that the sockets of one user, closed ones included, may have waiting";
    TAL_RCVBUF_PER_CONN, "tal_rcvbuf_per_conn", 65_536, 1_073_741_824, 268_435_456, "bytes",
        "Memory of the messages of a connection of which only parts have arrived";
    TAL_REFUSAL_RATE, "tal_refusal_rate", 0, 1_000_000, 1000, "a second",
        "Refusals of a key or queue pair that are sent to a peer, after the first thousand; 0: no limit";
    TAL_MAX_REFUSALS, "tal_max_refusals", 0, 1_000_000_000, 0, "refusals",
        "Refusals of a key or queue pair after which the connection is broken; 0 for no limit";
    TAL_ERROR_DETAIL, "tal_error_detail", 0, 1, 0, "",
        "1: a refusal of a remote access tells the peer what was wrong; 0: all of them look the same";
    CM_PORT, "cm_port", 0, 65_535, 7778, "",
        "Port of the connection manager";
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::Config;

    #[test]
    fn table_is_consistent() {
        for param in PARAMS {
            assert_eq!(param.check(param.default), Ok(()), "{}", param.name);
            assert_eq!(Param::find(param.name), Some(param));
            assert!(!param.doc.is_empty());
        }
        assert_eq!(Param::find("pdl_no_such"), None);
    }

    #[test]
    fn ranges_and_defaults_are_those_of_the_specification() {
        const NO_LIMIT: u64 = u64::MAX;
        // The default times are ours, not those of the specification [proto 3.13].
        let specified = [
            ("pdl_retrans_time_out", 100, NO_LIMIT, 10_000_000),
            ("pdl_rtx_time_win", 0, NO_LIMIT, 0),
            ("pdl_rtx_max_pkts", 0, 64, 8),
            ("pdl_max_rtx", 1, 8, 4),
            ("pdl_delayed_ack_time", 100, NO_LIMIT, 500_000),
            ("pdl_window_size", 16, 1024, 32),
            ("pdl_conns_per_xpu", 1, 4096, 64),
            ("pdl_receive_win", 1, 1024, 32),
            ("nh_udp_port", 0, 65_535, 7777),
            ("nh_num_caddr_bits", 8, 16, 12),
            ("nh_hop_limit", 1, 15, 15),
            ("tal_trans_window", 1, 1024, 32),
            ("tal_max_pkt_per_trans", 1, 4096, 32),
            ("tal_max_ops_per_pkt", 1, 15, 8),
            ("tal_transaction_timeout", 0, NO_LIMIT, 0),
            ("cm_port", 0, 65_535, 7778),
        ];
        for (name, min, max, default) in specified {
            let param = Param::find(name).unwrap();
            assert_eq!((param.min, param.max), (min, max), "{name}");
            assert_eq!(param.default, default, "{name}");
        }
    }

    #[test]
    fn error_names_parameter_value_and_range() {
        let error = PDL_WINDOW_SIZE.check(2000).unwrap_err();
        let text = alloc::format!("{error}");
        assert_eq!(text, "pdl_window_size 2000 is outside 16..1024");
    }

    #[test]
    fn every_parameter_of_a_connection_is_checked() {
        let mut checked = 0;
        for (index, param) in PARAMS.iter().enumerate() {
            let mut config = Config::default();
            assert_eq!(config.validate(), Ok(()));
            if config.param(index).is_none() {
                assert!(!config.set_param(index, param.default));
                continue;
            }
            checked += 1;
            assert_eq!(config.param(index), Some(param.default));
            for bad in [param.min.checked_sub(1), param.max.checked_add(1)] {
                let Some(bad) = bad else { continue };
                assert!(config.set_param(index, bad));
                let error = config.validate().unwrap_err();
                assert_eq!((error.name, error.value), (param.name, bad));
            }
            for good in [param.min, param.max] {
                assert!(config.set_param(index, good));
                assert_eq!(config.validate(), Ok(()));
                assert_eq!(config.param(index), Some(good));
            }
        }
        assert_eq!(checked, 16);
    }
}
