// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The command line.

use crate::conn::SETTINGS;
use crate::words::{Size, Words};
use clap::{Args, Parser, Subcommand, ValueEnum};
use std::ffi::OsString;
use std::net::IpAddr;
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

#[derive(Subcommand)]
pub(crate) enum NodeVerb {
    /// Show the node.
    Show,
    /// Change the node.
    #[command(subcommand)]
    Set(NodeSetting),
}

#[derive(Subcommand)]
pub(crate) enum NodeSetting {
    /// Address of the connection manager, kept for the programs that talk to it.
    CmAddress {
        /// The address or host name, or none.
        #[arg(value_parser = crate::words::address_or_none)]
        addr: crate::words::OptionalAddr,
    },
    /// Whether packets are forwarded, SUNH frames between ports and between SUNH and UDP: on or off.
    Forwarding {
        /// on or off.
        #[arg(value_parser = |text: &str| crate::words::switch("forwarding", text), action = clap::ArgAction::Set)]
        on: bool,
    },
    /// The node's part of a global RMA address space: new regions get the first free addresses there.
    RmaBase {
        /// First address, a multiple of the page size; 0 for none, then each region gets a key.
        #[arg(value_parser = crate::words::number)]
        base: u64,
        /// How many bytes, a multiple of the page size; 0 for all that follow.
        #[arg(default_value = "0", value_parser = crate::words::number)]
        size: u64,
    },
}

#[derive(Subcommand)]
pub(crate) enum RouteVerb {
    /// Show routes.
    #[command(alias = "list")]
    Show,
    /// Add a next hop: superp route add ADDRESS dev DEV via IP-ADDRESS, or lladdr MAC, or prefix PREFIX
    ///
    /// Several next hops of an address share its flows. With a prefix the address is that of a node
    /// beyond SUNH: packets go to its IP address over UDP, and its datagrams to the IP addresses of
    /// SUNH nodes, once IP has brought them here ("ip route add local"), go on in SUNH.
    Add {
        /// The SUNH address: a number, or an IP address whose low bits it is.
        address: String,
        /// dev DEV, then via IP-ADDRESS, lladdr MAC or prefix IP-ADDRESS/BITS.
        #[arg(required = true, value_name = "KEY VALUE", value_parser = Words(crate::route::SETTINGS), hide_possible_values = true)]
        settings: Vec<String>,
    },
    /// Remove the next hops of an address: superp route del ADDRESS [dev DEV]
    #[command(alias = "delete")]
    Del {
        /// The SUNH address.
        address: String,
        /// dev DEV: only those on this device.
        #[arg(value_name = "KEY VALUE", value_parser = Words(crate::route::DEL_SETTINGS), hide_possible_values = true)]
        settings: Vec<String>,
    },
}

#[derive(Subcommand)]
pub(crate) enum DevVerb {
    /// Show ports.
    #[command(alias = "list")]
    Show {
        /// Only this device.
        dev: Option<String>,
    },
    /// Let SUPERp use a device: superp dev add DEV [encap sunh,udp]
    Add {
        /// The device.
        dev: String,
        /// encap sunh, encap udp or encap sunh,udp (which is the default).
        #[arg(value_name = "KEY VALUE", value_parser = Words(crate::dev::SETTINGS), hide_possible_values = true)]
        settings: Vec<String>,
    },
    /// Take a device from SUPERp; no connection may use it.
    #[command(alias = "delete")]
    Del {
        /// The device.
        dev: String,
    },
}

#[derive(Subcommand)]
pub(crate) enum ConnVerb {
    /// Show connections.
    #[command(alias = "list")]
    Show {
        /// Only this one, with everything there is to tell.
        cid: Option<u16>,
        /// Also counters.
        #[arg(short, long)]
        stats: bool,
    },
    /// Create a connection: superp conn add [CID] KEY VALUE...
    ///
    /// For example: superp conn add 64 peer 10.23.0.1 peer-cid 47 encap sunh dev veth0 local
    /// 10.23.0.2 window 256. The peer needs the mirror image. It answers the peer at once;
    /// "superp conn start" opens it for the programs of this node.
    ///
    /// "ext auto", the default, uses the extensions (messages of any length, atomics, immediate data)
    /// if the peer has them; "ext off" speaks nothing but version 0.4 of the protocol.
    ///
    /// Over several devices: superp conn add 64 peer 10.23.0.1 peer-cid 47 path veth0 path veth1. With
    /// "ordered off spray on" every path that is up carries packets, else one of them does.
    #[command(after_help = crate::conn::settings_help())]
    Add {
        /// Local id of the connection (if left out, the smallest that is free and was not in use lately), then settings.
        #[arg(required = true, value_name = "CID|KEY VALUE", value_parser = Words(SETTINGS), hide_possible_values = true)]
        settings: Vec<String>,
    },
    /// Delete a connection; what is under way fails.
    #[command(alias = "delete")]
    Del {
        /// Local id.
        #[arg(required = true)]
        cid: Vec<u16>,
    },
    /// Open a connection for the programs of this node.
    Start {
        /// Local id.
        #[arg(required = true)]
        cid: Vec<u16>,
    },
    /// Shut a connection down softly: what was begun is completed, later requests wait.
    ///
    /// Do it at both ends. The state is "draining" until both have completed, then "stopped"; a reset
    /// and a start at both ends then go on with the requests that wait.
    Stop {
        /// Local id.
        #[arg(required = true)]
        cid: Vec<u16>,
    },
    /// Return a connection to the state it was created in; what is under way fails.
    ///
    /// A new life of a connection must not take late packets of the one before for its own. With a
    /// start-psn that is far from every packet sequence number in use, at both ends, it cannot, and the
    /// order in which the ends are reset and started does not matter: 2^30 beyond the old start-psn and
    /// the tx-packets of either end is far. Without, reset both ends before either is started, no sooner
    /// than 2 seconds after both have stopped.
    #[command(after_help = crate::conn::reset_help())]
    Reset {
        /// Local ids of connections, then settings.
        #[arg(required = true, value_name = "CID|KEY VALUE", value_parser = Words(crate::conn::RESET_SETTINGS), hide_possible_values = true)]
        words: Vec<String>,
    },
}

#[derive(Subcommand)]
pub(crate) enum ParamVerb {
    /// Show parameters with their ranges.
    #[command(alias = "list")]
    Show {
        /// Only this one, with what it does.
        name: Option<String>,
    },
    /// Set a parameter. Connections that exist keep their values.
    Set {
        /// Its name.
        name: String,
        /// The value, or default. Times have units: 2s, 500us.
        value: String,
    },
}

#[derive(Args)]
pub(crate) struct Connect {
    /// Address or host name of the peer.
    #[arg(value_parser = crate::host::any)]
    pub(crate) peer: IpAddr,
    /// What packets are carried in: sunh or udp. If left out, what suits.
    #[arg(long, value_enum, hide_possible_values = true)]
    pub(crate) encap: Option<crate::connect::Kind>,
    /// The device; by route if left out.
    #[arg(long)]
    pub(crate) dev: Option<String>,
    /// The own address; the one that suits the device or the route if left out.
    #[arg(long, value_parser = crate::host::any)]
    pub(crate) local: Option<IpAddr>,
    /// How long to wait for the peer: seconds, or a time such as 2m; until interrupted if left out.
    #[arg(short = 'W', long, value_parser = crate::words::seconds)]
    pub(crate) timeout: Option<f64>,
    /// The TCP port where the ends meet, at both alike.
    #[arg(long, default_value_t = 7777)]
    pub(crate) port: u16,
}

#[derive(Args)]
pub(crate) struct Run {
    /// Give each device that the program opens a thread that takes requests in as they come, and never sleeps,
    /// instead of ringing doorbells.
    #[arg(long)]
    pub(crate) poller: bool,
    /// The program and its arguments.
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "PROGRAM"
    )]
    pub(crate) program: Vec<OsString>,
}

#[derive(Args)]
pub(crate) struct Doctor {
    /// Only what concerns the peer with this address or host name.
    #[arg(value_parser = crate::host::peer)]
    pub(crate) peer: Option<IpAddr>,
    /// How long to wait for a peer's answer: seconds, or a time such as 500ms.
    #[arg(short = 'W', long, default_value_t = 1.0, value_parser = crate::words::seconds)]
    pub(crate) timeout: f64,
}

#[derive(Args)]
pub(crate) struct Ping {
    /// Address or host name of the peer.
    #[arg(value_parser = crate::host::peer)]
    pub(crate) peer: IpAddr,
    /// Probes to send; without end if left out.
    #[arg(short, long, value_parser = crate::words::times)]
    pub(crate) count: Option<u64>,
    /// Time from one probe to the next: seconds, or a time such as 500us.
    #[arg(short, long, default_value_t = 1.0, value_parser = crate::words::seconds)]
    pub(crate) interval: f64,
    /// How long to wait for an answer: seconds, or a time such as 500ms.
    #[arg(short = 'W', long, default_value_t = 2.0, value_parser = crate::words::seconds)]
    pub(crate) timeout: f64,
    /// Local id of the connection to use; if left out the lowest to the peer, in the partition
    /// SUPERP_PARTITION if that is in the environment.
    #[arg(long)]
    pub(crate) cid: Option<u16>,
    /// Print only the summary.
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

/// A peer, and how to reach it.
#[derive(Args)]
pub(crate) struct Peer {
    /// Address or host name of the peer.
    #[arg(value_name = "PEER", value_parser = crate::host::peer)]
    pub(crate) addr: IpAddr,
    /// Local id of the connection to use; if left out the lowest to the peer, in the partition
    /// SUPERP_PARTITION if that is in the environment.
    #[arg(long)]
    pub(crate) cid: Option<u16>,
    /// Give up when nothing moves for this long: seconds, or a time such as 500ms.
    #[arg(long, default_value_t = 30.0, value_parser = crate::words::seconds)]
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
    #[arg(long, requires = "qpn", value_parser = crate::words::immediate)]
    pub(crate) imm: Option<u32>,
    /// The queue pair, as xfer serve prints it.
    #[arg(long, requires = "imm", value_parser = clap::value_parser!(u32).range(1..=0xff_ffff))]
    pub(crate) qpn: Option<u32>,
}

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
        #[arg(long, value_parser = crate::words::number)]
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
        #[arg(long, value_parser = crate::words::number)]
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
        #[arg(long, conflicts_with = "key", value_parser = crate::words::immediate)]
        imm: Option<u32>,
    },
}

/// Where messages go.
#[derive(Args)]
pub(crate) struct Target {
    /// Queue pair of the peer, as xfer serve prints it.
    #[arg(long, required_unless_present = "key", value_parser = clap::value_parser!(u32).range(1..=0xff_ffff))]
    pub(crate) qpn: Option<u32>,
    /// Receive context of the peer, as xfer serve --receive prints it: the messages are put there one
    /// behind the other.
    #[arg(long, conflicts_with = "qpn", value_parser = crate::words::immediate)]
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
    #[arg(long, value_parser = crate::host::any)]
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
    #[arg(long, value_parser = crate::words::times)]
    pub(crate) messages: Option<u64>,
    /// Append received messages to this file, one behind the other.
    #[arg(long)]
    pub(crate) messages_out: Option<PathBuf>,
    /// End after this time, seconds or one such as 500ms; a failure if messages are still missing.
    #[arg(long, value_parser = crate::words::seconds)]
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
