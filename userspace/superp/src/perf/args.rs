// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The command line of `superp perf`.

use crate::words::Size;
use clap::{Args, Subcommand, ValueEnum};
use std::net::IpAddr;

#[derive(Subcommand)]
pub(crate) enum Perf {
    /// Offer memory to those who measure, until SIGINT or SIGTERM.
    Serve(PerfServe),
    /// Measure remote writes.
    Write {
        #[command(flatten)]
        run: Run,
    },
    /// Measure remote reads.
    Read {
        #[command(flatten)]
        run: Run,
    },
    /// Measure messages, which "superp perf serve" receives.
    Send {
        #[command(flatten)]
        run: Run,
    },
    /// Measure additions to a number at the peer.
    Atomic {
        #[command(flatten)]
        run: Run,
    },
}

#[derive(Args)]
pub(crate) struct PerfServe {
    /// Bytes of memory: size and depth of a run, multiplied, must fit.
    #[arg(long, default_value = "16M")]
    pub(crate) size: Size,
    /// Queue pair that those who measure ask; 5001 if left out.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=0xff_ffff))]
    pub(crate) qpn: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Measure {
    /// Bytes for each second.
    Bw,
    /// Time from posting a request to its completion, one request at a time.
    Lat,
    /// Requests for each second, small ones.
    Rate,
}

#[derive(Args)]
pub(crate) struct Run {
    /// What to measure.
    #[arg(value_enum)]
    pub(crate) measure: Measure,
    /// Address or host name of the peer.
    #[arg(value_name = "PEER", value_parser = crate::host::peer)]
    pub(crate) addr: IpAddr,
    /// RMA address at the peer, as perf serve prints it; perf serve is asked if left out.
    #[arg(long, value_parser = superp_units::number)]
    pub(crate) remote: Option<u64>,
    /// Queue pair that perf serve listens at; 5001 if left out.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=0xff_ffff))]
    pub(crate) qpn: Option<u32>,
    /// Local id of the connection to use; if left out the lowest to the peer, in the partition
    /// SUPERP_PARTITION if that is in the environment.
    #[arg(long)]
    pub(crate) cid: Option<u16>,
    /// Connections to spread the queue pairs over, in turn: those with the lowest ids to the peer.
    #[arg(long, default_value_t = 1, conflicts_with = "cid", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) connections: u32,
    /// Bytes of a request: 64K for bw, 8 for lat, 64 for rate if left out; always 8 for atomic.
    #[arg(long)]
    pub(crate) size: Option<Size>,
    /// Queue pairs, in turn; of lat always 1.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) qps: u32,
    /// Move as much the other way at the same time: for each queue pair that writes another one reads, or
    /// the other way round. Of write and read, bw and rate.
    #[arg(long)]
    pub(crate) bidirectional: bool,
    /// Requests of a queue pair under way at once; 64 if left out, and as many as 16M hold. Of lat
    /// always 1.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=8192))]
    pub(crate) depth: Option<u32>,
    /// Requests posted at once, with one doorbell and one completion; a quarter of the depth if left
    /// out.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=8192))]
    pub(crate) batch: Option<u32>,
    /// End after this time: seconds, or a time such as 500ms.
    #[arg(long, default_value_t = 2.0, value_parser = superp_units::seconds)]
    pub(crate) duration: f64,
    /// End after so many requests instead.
    #[arg(long, conflicts_with = "duration", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) count: Option<u64>,
    /// Sleep until a completion comes, instead of polling for it.
    #[arg(long)]
    pub(crate) events: bool,
    /// Have another thread take requests in as they come, which never sleeps, instead of ringing doorbells.
    #[arg(long)]
    pub(crate) poller: bool,
    /// Compare all bytes that were moved.
    #[arg(long)]
    pub(crate) verify: bool,
    /// Give up when nothing completes for this long: seconds, or a time such as 500ms.
    #[arg(long, default_value_t = 30.0, value_parser = superp_units::seconds)]
    pub(crate) timeout: f64,
}
