// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The command line of `superp conn`.

use crate::words::{Setting, Words};
use clap::Subcommand;

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
    #[command(after_help = settings_help())]
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
    #[command(after_help = reset_help())]
    Reset {
        /// Local ids of connections, then settings.
        #[arg(required = true, value_name = "CID|KEY VALUE", value_parser = Words(RESET_SETTINGS), hide_possible_values = true)]
        words: Vec<String>,
    },
}

/// Keys of `conn add`.
pub(super) const SETTINGS: &[Setting] = &[
    ("peer", "address or host name of the peer (needed)"),
    ("peer-cid", "id of the connection at the peer (needed)"),
    (
        "encap",
        "sunh (the default), udp4, udp6, or udp: as the peer's address is",
    ),
    (
        "dev",
        "device; SUNH: a port, the only one if left out; UDP: by route if left out",
    ),
    (
        "local",
        "own address; the one that suits the device or the route if left out",
    ),
    (
        "lladdr",
        "Ethernet address of the peer; from the neighbour table if left out",
    ),
    (
        "path",
        "device of a path, for each of 2 to 4: peer, local and lladdr behind it are its own",
    ),
    (
        "ext",
        "on or off (the default): extension opcodes; both sides alike",
    ),
    (
        "lite",
        "on or off (the default): SUPERp-lite, no packet delivery layer; SUNH only, both sides alike",
    ),
    (
        "ordered",
        "on (the default) or off: deliver in order, both ways",
    ),
    (
        "ordered-tx",
        "on or off: the peer delivers our packets in order",
    ),
    (
        "ordered-rx",
        "on or off: we deliver the peer's packets in order",
    ),
    (
        "spray",
        "on or off: every packet takes another path and is another flow; needs ordered-tx off",
    ),
    ("partition", "partition, 0 (the default) for any"),
    ("tclass", "Traffic Class, 0 to 255"),
    ("hop-limit", "Hop Limit, 1 to 15 for SUNH, else 1 to 255"),
    ("flow-label", "Flow Label, 12 bits for SUNH, else 20 bits"),
    (
        "mtu",
        "largest packet, bytes from the packet delivery header; needed where the ends have other MTUs",
    ),
    ("window", "the same as pdl_window_size"),
    (
        "start-psn",
        "first packet sequence number; both sides alike",
    ),
    ("start-xid", "first transaction id; both sides alike"),
];

/// Keys of `conn reset`.
const RESET_SETTINGS: &[Setting] = &[
    (
        "start-psn",
        "first packet sequence number of the new life, the last one if left out; both sides alike",
    ),
    (
        "start-xid",
        "first transaction id of the new life, the last one if left out; both sides alike",
    ),
];

/// The keys, for the end of the help.
fn settings_help() -> String {
    help(SETTINGS)
        + "  pdl_*, tal_* any parameter of a connection, see superp param show; times as 2s or 500us"
}

/// The keys of `conn reset`, likewise.
fn reset_help() -> String {
    help(RESET_SETTINGS)
}

fn help(settings: &[Setting]) -> String {
    let mut text = String::from("Settings:\n");
    for (key, help) in settings {
        text += &format!("  {key:<12} {help}\n");
    }
    text
}
