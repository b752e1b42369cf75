// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The command line.

use crate::conn::ConnVerb;
use crate::connect::Connect;
use crate::dev::DevVerb;
use crate::doctor::Doctor;
use crate::object::NodeVerb;
use crate::param::ParamVerb;
use crate::ping::Ping;
use crate::route::RouteVerb;
use crate::run::Run;
use crate::xfer::Xfer;
use clap::{Args, Parser, Subcommand};
use std::path::PathBuf;

/// Show and change SUPERp in the current network namespace, and move data with it.
///
/// SUPERp is a reliable transport for messages and remote memory access over Ethernet and UDP. A
/// node is a network namespace: it has ports (devices), connections to other nodes, and the queue
/// pairs and memory regions of programs. Verbs may be shortened as long as they are unique; without
/// a verb an object is shown.
#[derive(Parser)]
#[command(name = "superp", version, infer_subcommands = true)]
pub(crate) struct Cli {
    /// Print JSON.
    #[arg(short, long, global = true)]
    pub(crate) json: bool,

    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// The node itself: numbers in force, addresses, how many objects there are.
    Node {
        #[command(subcommand)]
        verb: Option<NodeVerb>,
    },
    /// Devices that carry SUPERp (ports).
    #[command(alias = "port")]
    Dev {
        #[command(subcommand)]
        verb: Option<DevVerb>,
    },
    /// Connections.
    #[command(alias = "c")]
    Conn {
        #[command(subcommand)]
        verb: Option<ConnVerb>,
    },
    /// Connect this node with a peer, on which the same command runs.
    ///
    /// Each end names the other one; it does not matter which is first, and the first one waits. They agree
    /// by TCP on ids, start values, the encapsulation (SUNH without a router between them, else UDP), the length of
    /// packets and the extensions; then there is a connection, and a round trip over it has shown that it works.
    /// A connection that was made so before is kept if both ends have it.
    Connect(Connect),
    /// Routes of SUNH: where packets to other nodes are forwarded, once "superp node set forwarding on".
    Route {
        #[command(subcommand)]
        verb: Option<RouteVerb>,
    },
    /// Parameters of the node: defaults of new connections, and its own.
    Param {
        #[command(subcommand)]
        verb: Option<ParamVerb>,
    },
    /// Memory regions that programs have registered. Needs CAP_NET_ADMIN.
    Mr {
        #[command(subcommand)]
        verb: Option<ShowVerb>,
    },
    /// Queue pairs, that is sockets.
    Qp {
        #[command(subcommand)]
        verb: Option<ShowVerb>,
    },
    /// Received packets that were dropped, by reason.
    Stats {
        /// Also reasons that never occurred.
        #[arg(short, long)]
        all: bool,
    },
    /// Print events as they happen: states of connections and ports, reports, access violations. Needs
    /// CAP_NET_ADMIN.
    Events {
        /// Stop after this many.
        #[arg(short, long, value_parser = crate::words::times)]
        count: Option<u64>,
    },
    /// The fabric: all nodes and their connections, as the connection manager (superp-cm) has them.
    ///
    /// The manager may be on another host, and this host need not be a node. "superp fabric apply FILE"
    /// makes a fabric out of a file; without a verb it is shown how far it is.
    #[cfg(feature = "fabric")]
    Fabric(crate::fabric::Fabric),
    /// The fabric: not in this build.
    #[cfg(not(feature = "fabric"))]
    Fabric {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
        words: Vec<String>,
    },
    /// Find out what is wrong, and what would fix it.
    ///
    /// It goes from the module to devices, links, MTU, addresses, connections, neighbours, peers, queue pairs
    /// and regions, and tells the cause only, not what follows from it. Commands that it gives as a hint can be
    /// pasted. It changes no setting; each established connection is asked for one round trip, as "superp ping"
    /// does. The exit status is 0 if nothing is wrong; notes are not faults.
    Doctor(Doctor),
    /// Measure the round trip to a peer.
    ///
    /// Each probe is a transaction that touches no memory (No-op): it takes the way of every request
    /// through the peer's kernel, and is answered there.
    Ping(Ping),
    /// Move data between nodes: remote writes, remote reads, messages.
    Xfer {
        #[command(subcommand)]
        what: Xfer,
    },
    /// Measure bandwidth, latency or rate of requests that are posted by rings in shared memory.
    ///
    /// At the peer "superp perf serve" offers the memory and receives the messages.
    Perf {
        #[command(subcommand)]
        what: crate::perf::Perf,
    },
    /// Carry out the commands of a file, one a line.
    ///
    /// A line is what would follow "superp" on a command line, with quotes as in a shell; what begins with #
    /// is a comment. It ends at the first command that fails, and says in which line that was.
    Batch(Batch),
    /// Run a program that is written for libibverbs, with SUPERp as its RDMA device.
    ///
    /// The program finds the node as the device "superp" with one port, whose GIDs are the addresses of the
    /// node, and reaches the peers to which connections are established. It and the programs that it starts
    /// get a library by LD_PRELOAD that stands before libibverbs; other devices stay what they are. RDMA CM
    /// (librdmacm) is there, too, for this device alone. Their memory and connections are in the partition
    /// SUPERP_PARTITION if that is in the environment.
    Run(Run),
    /// Write manual pages or shell completions into a folder.
    #[command(hide = true)]
    Generate(superp_pages::Generate),
}

#[derive(Args)]
pub(crate) struct Batch {
    /// The file; - for standard input.
    #[arg(default_value = "-")]
    pub(crate) file: PathBuf,
    /// Go on after a command that fails; the exit status tells that one did.
    #[arg(short, long)]
    pub(crate) force: bool,
}

#[derive(Subcommand)]
pub(crate) enum ShowVerb {
    /// Show them.
    #[command(alias = "list")]
    Show,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn verbs_may_be_shortened_and_left_out() {
        for line in [
            "superp conn",
            "superp c sh",
            "superp -j conn sh -s",
            "superp conn show 64 --json",
            "superp dev add veth0 encap sunh",
            "superp port list",
            "superp conn add peer 10.23.0.1 peer-cid 47 dev veth0",
            "superp ping 10.23.0.1 -c 3",
            "superp fabric",
            "superp -j f st --manager http://10.0.0.9:7778",
            "superp fabric --manager http://10.0.0.9:7778 nodes xpu03",
            "superp fabric apply lab.toml --wait 60",
            "superp fabric drain 1@10.23.0.1-2@10.23.0.2 --wait 5",
            "superp fabric restart --all",
            "superp fabric job create j xpu[1-2] --ext --wait 5 --parameter pdl_dead_time=2_000",
            "superp fabric job token j --wait 5",
            "superp fabric job remove j --ignore-not-found",
            "superp fabric events -f --after 7 -c 3 -j",
            "superp ping 10.23.0.1 -c 1 -i 500us -W 2s",
            "superp doctor",
            "superp -j doctor fd23::2 -W 0.2",
            "superp xfer listen --size 4M -j",
            "superp xfer write 10.23.0.1 --remote 0x123 --file x --verify",
            "superp perf write bw 10.23.0.1 --remote 0x123 --size 1M --depth 16 --verify -j",
            "superp perf read lat 10.23.0.1 --remote 0x123 --count 10",
            "superp perf send rate 10.23.0.1 --qpn 77 --qps 16",
        ] {
            if let Err(error) = Cli::try_parse_from(line.split(' ')) {
                panic!("{line}: {error}");
            }
        }
    }

    #[test]
    fn nonsense_is_refused() {
        for line in [
            "superp",
            "superp conn add",
            "superp conn start",
            "superp conn start 65536",
            "superp ping 10.23.0",
            "superp ping no..host",
            "superp ping ::1 -c 0",
            "superp events -c 0",
            "superp xfer serve --messages 0",
            "superp ping ::1 -i -1",
            "superp doctor eth0:1",
            "superp fabric apply",
            "superp fabric job create j",
            "superp fabric job create j a,b --parameter pdl_dead_time",
            "superp fabric drain",
            "superp fabric drain xpu03 xpu04",
            "superp fabric drain xpu03 --all",
            "superp fabric reset --all",
            "superp fabric events --count 3",
            "superp xfer write 10.23.0.1 --remote 0x123",
            "superp xfer write 10.23.0.1 --remote 0x123 --file x --length 3",
            "superp xfer send 10.23.0.1 --qpn 0 --file x",
            "superp xfer serve --size 4 --file x",
            "superp perf write 10.23.0.1 --remote 0x123",
            "superp perf write bw 10.23.0.1 --remote 0x123 --count 0",
            "superp perf send bw 10.23.0.1 --qps 0",
        ] {
            // Without its feature it takes any words, and says that it is not there.
            if cfg!(not(feature = "fabric")) && line.starts_with("superp fabric") {
                continue;
            }
            assert!(Cli::try_parse_from(line.split(' ')).is_err(), "{line}");
        }
    }
}
