// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The command line of `superp xfer`.

use crate::words::Size;
use crate::{host, words};
use clap::{Args, Subcommand, ValueEnum};
use std::net::IpAddr;
use std::path::PathBuf;

#[derive(Subcommand)]
pub(crate) enum Xfer {
    /// Offer a memory region to peers and receive messages, until SIGINT or SIGTERM.
    #[command(alias = "listen")]
    Serve(Serve),
    /// Write a file or a pattern into a peer's region.
    Write {
        #[command(flatten)]
        peer: Peer,
        /// RMA address at the peer, as xfer serve prints it.
        #[arg(long, value_parser = superp_units::number)]
        remote: u64,
        #[command(flatten)]
        source: Source,
        #[command(flatten)]
        cut: Cut,
        #[command(flatten)]
        notice: Notice,
        /// Read everything back and compare.
        #[arg(long)]
        verify: bool,
    },
    /// Read from a peer's region into a file.
    Read {
        #[command(flatten)]
        peer: Peer,
        /// RMA address at the peer, as xfer serve prints it.
        #[arg(long, value_parser = superp_units::number)]
        remote: u64,
        /// How many bytes.
        #[arg(long)]
        length: Size,
        /// Where to put them; only read and counted if left out.
        #[arg(long)]
        out: Option<PathBuf>,
        #[command(flatten)]
        cut: Cut,
    },
    /// Send a file or a pattern as messages of mixed sizes.
    Send {
        #[command(flatten)]
        peer: Peer,
        #[command(flatten)]
        to: Target,
        #[command(flatten)]
        source: Source,
        /// How many messages.
        #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
        count: u64,
        /// Immediate data of every message.
        #[arg(long, conflicts_with = "key", value_parser = words::immediate)]
        imm: Option<u32>,
    },
}

/// A peer, and how to reach it.
#[derive(Args)]
pub(crate) struct Peer {
    /// Address or host name of the peer.
    #[arg(value_name = "PEER", value_parser = host::peer)]
    pub(crate) addr: IpAddr,
    /// Local id of the connection to use; if left out the lowest to the peer, in the partition
    /// SUPERP_PARTITION if that is in the environment.
    #[arg(long)]
    pub(crate) cid: Option<u16>,
    /// Give up when nothing moves for this long: seconds, or a time such as 500ms.
    #[arg(long, default_value_t = 30.0, value_parser = superp_units::seconds)]
    pub(crate) timeout: f64,
}

/// Bytes to send: a file, or a pattern.
#[derive(Args)]
pub(crate) struct Source {
    /// Send the bytes of this file.
    #[arg(long, required_unless_present = "length", conflicts_with = "length")]
    pub(crate) file: Option<PathBuf>,
    /// Send so many bytes of a pattern: a number, or one with K, M or G (powers of 1024).
    #[arg(long)]
    pub(crate) length: Option<Size>,
    /// Seed of the pattern, and of the sizes of messages.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
}

/// How requests are cut and queued.
#[derive(Args)]
pub(crate) struct Cut {
    /// Bytes of one request; the largest possible if left out.
    #[arg(long)]
    pub(crate) chunk: Option<Size>,
    /// Most requests under way at once.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) depth: u32,
}

/// Whom to tell that a write is done.
#[derive(Args)]
pub(crate) struct Notice {
    /// Tell a queue pair of the peer, by a message with this immediate, when all bytes are there.
    #[arg(long, requires = "qpn", value_parser = words::immediate)]
    pub(crate) imm: Option<u32>,
    /// The queue pair, as xfer serve prints it.
    #[arg(long, requires = "imm", value_parser = clap::value_parser!(u32).range(1..=0xff_ffff))]
    pub(crate) qpn: Option<u32>,
}

/// Where messages go.
#[derive(Args)]
pub(crate) struct Target {
    /// Queue pair of the peer, as xfer serve prints it.
    #[arg(long, required_unless_present = "key", value_parser = clap::value_parser!(u32).range(1..=0xff_ffff))]
    pub(crate) qpn: Option<u32>,
    /// Receive context of the peer, as xfer serve --receive prints it: the messages are put there one
    /// behind the other.
    #[arg(long, conflicts_with = "qpn", value_parser = words::immediate)]
    pub(crate) key: Option<u32>,
    /// Where in the receive context the first one goes.
    #[arg(long, requires = "key", default_value_t = 0)]
    pub(crate) offset: u32,
}

#[derive(Args)]
pub(crate) struct Serve {
    /// Queue pair number; the kernel chooses one if left out.
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=0xff_ffff))]
    pub(crate) qpn: u32,
    /// Own address, or host name, to receive at; any if left out.
    #[arg(long, value_parser = host::any)]
    pub(crate) bind: Option<IpAddr>,
    /// Bytes of the region.
    #[arg(long, default_value = "16M", conflicts_with = "file")]
    pub(crate) size: Size,
    /// Fill the region with this file, and make it as long.
    #[arg(long)]
    pub(crate) file: Option<PathBuf>,
    /// What peers may do with the region.
    #[arg(long, value_enum, default_value_t = ServeAccess::Rw)]
    pub(crate) access: ServeAccess,
    /// Peers may also send messages into the region, by its key.
    #[arg(long)]
    pub(crate) receive: bool,
    /// Partition of the region, 0 for any; if left out the partition SUPERP_PARTITION if that is in the
    /// environment.
    #[arg(long)]
    pub(crate) partition: Option<u32>,
    /// Write the region to this file at the end.
    #[arg(long)]
    pub(crate) out: Option<PathBuf>,
    /// End after so many messages.
    #[arg(long, value_parser = words::times)]
    pub(crate) messages: Option<u64>,
    /// Append received messages to this file, one behind the other.
    #[arg(long)]
    pub(crate) messages_out: Option<PathBuf>,
    /// End after this time, seconds or one such as 500ms; a failure if messages are still missing.
    #[arg(long, value_parser = superp_units::seconds)]
    pub(crate) timeout: Option<f64>,
}

#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum ServeAccess {
    /// Read and write.
    Rw,
    /// Read.
    R,
    /// Write.
    W,
}
