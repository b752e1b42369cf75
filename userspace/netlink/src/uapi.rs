// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Numbers of the netlink family, generated from `Documentation/netlink/specs/superp.yaml` by
//! `Documentation/netlink/regenerate`: do not edit.

/// An attribute of a set.
pub struct Attr {
    /// Its number.
    pub number: u16,
    /// Its name in the specification.
    pub name: &'static str,
    /// The attributes inside, of a nested one.
    pub nested: Option<&'static [Attr]>,
}

/// Name of the family.
pub const FAMILY: &str = "superp";
/// Name of the multicast group `events`.
pub const GROUP_EVENTS: &str = "events";

/// `uapi-version`.
pub const UAPI_VERSION: u32 = 2;

/// How packets of a connection are carried.
pub mod encap {
    /// Directly on Ethernet, behind the 8-byte SUNH header.
    pub const SUNH: u32 = 0;
    /// In UDP over IPv4.
    pub const UDP4: u32 = 1;
    /// In UDP over IPv6.
    pub const UDP6: u32 = 2;
    /// Every value with its name.
    pub const NAMES: &[(u32, &str)] = &[(SUNH, "sunh"), (UDP4, "udp4"), (UDP6, "udp6")];
}

/// What a port receives.
pub mod port_encap {
    /// Frames of the SUNH EtherType.
    pub const SUNH: u32 = 1;
    /// UDP datagrams of the SUPERp port, over IPv4 and IPv6.
    pub const UDP: u32 = 2;
    /// Every value with its name.
    pub const NAMES: &[(u32, &str)] = &[(SUNH, "sunh"), (UDP, "udp")];
}

/// Whether a connection uses the extension opcodes.
pub mod extensions {
    /// No.
    pub const OFF: u32 = 0;
    /// Yes. The peer must be configured alike.
    pub const ON: u32 = 1;
    /// If the peer has them. Requests wait until it has said so.
    pub const AUTO: u32 = 2;
    /// Every value with its name.
    pub const NAMES: &[(u32, &str)] = &[(OFF, "off"), (ON, "on"), (AUTO, "auto")];
}

/// Values of `port-state`.
pub mod port_state {
    /// `down`.
    pub const DOWN: u32 = 0;
    /// `up`.
    pub const UP: u32 = 1;
    /// Every value with its name.
    pub const NAMES: &[(u32, &str)] = &[(DOWN, "down"), (UP, "up")];
}

/// States of a connection.
pub mod conn_state {
    /// Configured; answers the peer, takes no requests of its own node.
    pub const CREATED: u32 = 0;
    /// Started.
    pub const ESTABLISHED: u32 = 1;
    /// Completes what was begun; later requests wait.
    pub const DRAINING: u32 = 2;
    /// Ended in order at both ends, or being removed.
    pub const STOPPED: u32 = 3;
    /// Ended because the peer could not be reached or broke the protocol; the attribute
    /// cause says why.
    pub const BROKEN: u32 = 4;
    /// Every value with its name.
    pub const NAMES: &[(u32, &str)] = &[
        (CREATED, "created"),
        (ESTABLISHED, "established"),
        (DRAINING, "draining"),
        (STOPPED, "stopped"),
        (BROKEN, "broken"),
    ];
}

/// What an event tells.
pub mod event_kind {
    /// A connection was created or changed its state.
    pub const CONN_STATE: u32 = 0;
    /// `conn-deleted`.
    pub const CONN_DELETED: u32 = 1;
    /// A port was created, came up or went down.
    pub const PORT_STATE: u32 = 2;
    /// `port-deleted`.
    pub const PORT_DELETED: u32 = 3;
    /// Something that the protocol reports to the connection manager: a peer broke a rule,
    /// or a connection broke.
    pub const REPORT: u32 = 4;
    /// A remote access was refused.
    pub const ACCESS_VIOLATION: u32 = 5;
    /// Every value with its name.
    pub const NAMES: &[(u32, &str)] = &[
        (CONN_STATE, "conn-state"),
        (CONN_DELETED, "conn-deleted"),
        (PORT_STATE, "port-state"),
        (PORT_DELETED, "port-deleted"),
        (REPORT, "report"),
        (ACCESS_VIOLATION, "access-violation"),
    ];
}

/// Attributes of the set `node`. One network namespace as a SUPERp node.
pub mod node {
    /// Number of the socket address family in force. (u16)
    pub const FAMILY: u16 = 1;
    /// Version of the user interface, socket and netlink. It grows when something is added;
    /// nothing is ever changed or removed. (u32)
    pub const UAPI_VERSION: u16 = 2;
    /// Version of the module, for people. (string)
    pub const MODULE_VERSION: u16 = 3;
    /// EtherType of SUNH frames, host byte order. (u16)
    pub const ETHERTYPE: u16 = 4;
    /// Next Header value of SUPERp in the SUNH header. (u8)
    pub const NEXT_HEADER: u16 = 5;
    /// UDP destination port, host byte order. (u16)
    pub const UDP_PORT: u16 = 6;
    /// Number of low bits of an address that a SUNH header carries. (u8)
    pub const CADDR_BITS: u16 = 7;
    /// Number of ports. (u32)
    pub const PORTS: u16 = 8;
    /// Number of connections. (u32)
    pub const CONNS: u16 = 9;
    /// Number of queue pairs. (u32)
    pub const QPS: u16 = 10;
    /// Number of memory regions. (u32)
    pub const REGIONS: u16 = 11;
    /// An address of one of the ports' devices; IPv4 is mapped into IPv6. (binary)
    pub const ADDRESS: u16 = 12;
    /// Address of the connection manager, kept for the programs that talk to it; the
    /// unspecified address is none. IPv4 is mapped into IPv6. (binary)
    pub const CM_ADDRESS: u16 = 13;
    /// 1 if packets to addresses with a route are forwarded: SUNH frames between ports, and
    /// to and from nodes that are reached over UDP. (u8)
    pub const FORWARDING: u16 = 14;
    /// Number of SUNH frames forwarded. (uint)
    pub const FORWARDED: u16 = 15;
    /// First RMA address of the node's part of a global address space, a multiple of the
    /// page size: regions that are registered from now on get the first free place from
    /// there on. 0 for none: each new region gets a random key as the upper 24 bits of its
    /// addresses. Regions that there are keep theirs. (uint)
    pub const RMA_BASE: u16 = 16;
    /// Bytes of that part, a multiple of the page size; 0, or left out when rma-base is
    /// set, for all that follows. (uint)
    pub const RMA_SIZE: u16 = 17;
    /// Every attribute of the set.
    pub const ATTRS: &[super::Attr] = &[
        super::Attr {
            number: FAMILY,
            name: "family",
            nested: None,
        },
        super::Attr {
            number: UAPI_VERSION,
            name: "uapi-version",
            nested: None,
        },
        super::Attr {
            number: MODULE_VERSION,
            name: "module-version",
            nested: None,
        },
        super::Attr {
            number: ETHERTYPE,
            name: "ethertype",
            nested: None,
        },
        super::Attr {
            number: NEXT_HEADER,
            name: "next-header",
            nested: None,
        },
        super::Attr {
            number: UDP_PORT,
            name: "udp-port",
            nested: None,
        },
        super::Attr {
            number: CADDR_BITS,
            name: "caddr-bits",
            nested: None,
        },
        super::Attr {
            number: PORTS,
            name: "ports",
            nested: None,
        },
        super::Attr {
            number: CONNS,
            name: "conns",
            nested: None,
        },
        super::Attr {
            number: QPS,
            name: "qps",
            nested: None,
        },
        super::Attr {
            number: REGIONS,
            name: "regions",
            nested: None,
        },
        super::Attr {
            number: ADDRESS,
            name: "address",
            nested: None,
        },
        super::Attr {
            number: CM_ADDRESS,
            name: "cm-address",
            nested: None,
        },
        super::Attr {
            number: FORWARDING,
            name: "forwarding",
            nested: None,
        },
        super::Attr {
            number: FORWARDED,
            name: "forwarded",
            nested: None,
        },
        super::Attr {
            number: RMA_BASE,
            name: "rma-base",
            nested: None,
        },
        super::Attr {
            number: RMA_SIZE,
            name: "rma-size",
            nested: None,
        },
    ];
}

/// Attributes of the set `route`. A next hop of a SUNH address. An address with several is
/// reached over all of them, by flow label.
pub mod route {
    /// The SUNH address. (u16)
    pub const ADDRESS: u16 = 1;
    /// Index of the device, which is a port that serves SUNH, with prefix UDP. (u32)
    pub const IFINDEX: u16 = 2;
    /// Name of the device. (string)
    pub const IFNAME: u16 = 3;
    /// IP address of the next hop, whose Ethernet address the neighbour table has. IPv4 is
    /// mapped into IPv6. (binary)
    pub const VIA: u16 = 4;
    /// Ethernet address of the next hop, instead of via. (binary)
    pub const LLADDR: u16 = 5;
    /// Number of frames sent to this next hop. (uint)
    pub const PACKETS: u16 = 6;
    /// Instead of via: the address is that of a node beyond SUNH, reached over UDP at the
    /// IP address which begins with these bits and ends with the SUNH address. IPv4 is
    /// mapped into IPv6. (binary)
    pub const PREFIX: u16 = 7;
    /// Number of bits of the prefix, of 32 of an IPv4 address, of 128 of an IPv6 address.
    /// It leaves nh_num_caddr_bits to 16 bits. (u8)
    pub const PREFIX_LEN: u16 = 8;
    /// Every attribute of the set.
    pub const ATTRS: &[super::Attr] = &[
        super::Attr {
            number: ADDRESS,
            name: "address",
            nested: None,
        },
        super::Attr {
            number: IFINDEX,
            name: "ifindex",
            nested: None,
        },
        super::Attr {
            number: IFNAME,
            name: "ifname",
            nested: None,
        },
        super::Attr {
            number: VIA,
            name: "via",
            nested: None,
        },
        super::Attr {
            number: LLADDR,
            name: "lladdr",
            nested: None,
        },
        super::Attr {
            number: PACKETS,
            name: "packets",
            nested: None,
        },
        super::Attr {
            number: PREFIX,
            name: "prefix",
            nested: None,
        },
        super::Attr {
            number: PREFIX_LEN,
            name: "prefix-len",
            nested: None,
        },
    ];
}

/// Attributes of the set `port`. A network device that SUPERp uses.
pub mod port {
    /// Index of the device. (u32)
    pub const IFINDEX: u16 = 1;
    /// Name of the device. (string)
    pub const NAME: u16 = 2;
    /// What the port receives; all of it when absent from a request. (u32)
    pub const ENCAP: u16 = 3;
    /// Up when the device is up and has a carrier. (u32)
    pub const STATE: u16 = 4;
    /// MTU of the device, bytes. (u32)
    pub const MTU: u16 = 5;
    /// Number of connections that use the device. (u32)
    pub const CONNS: u16 = 6;
    /// An address of the device; IPv4 is mapped into IPv6. (binary)
    pub const ADDRESS: u16 = 7;
    /// Every attribute of the set.
    pub const ATTRS: &[super::Attr] = &[
        super::Attr {
            number: IFINDEX,
            name: "ifindex",
            nested: None,
        },
        super::Attr {
            number: NAME,
            name: "name",
            nested: None,
        },
        super::Attr {
            number: ENCAP,
            name: "encap",
            nested: None,
        },
        super::Attr {
            number: STATE,
            name: "state",
            nested: None,
        },
        super::Attr {
            number: MTU,
            name: "mtu",
            nested: None,
        },
        super::Attr {
            number: CONNS,
            name: "conns",
            nested: None,
        },
        super::Attr {
            number: ADDRESS,
            name: "address",
            nested: None,
        },
    ];
}

/// Attributes of the set `param`. A parameter, known by its name.
pub mod param {
    /// Name as the protocol's specification gives it. (string)
    pub const NAME: u16 = 1;
    /// `value` (uint).
    pub const VALUE: u16 = 2;
    /// Smallest value taken. (uint)
    pub const MIN_VALUE: u16 = 3;
    /// Largest value taken. (uint)
    pub const MAX_VALUE: u16 = 4;
    /// Value when nothing was set. (uint)
    pub const DEFAULT: u16 = 5;
    /// Unit of value, min-value, max-value and default; empty for a plain number. (string)
    pub const UNIT: u16 = 6;
    /// The parameter is the default of new connections and may be given for one connection;
    /// otherwise it is the node's alone. (flag)
    pub const PER_CONN: u16 = 7;
    /// What the parameter does, in a sentence. (string)
    pub const DOC: u16 = 8;
    /// Every attribute of the set.
    pub const ATTRS: &[super::Attr] = &[
        super::Attr {
            number: NAME,
            name: "name",
            nested: None,
        },
        super::Attr {
            number: VALUE,
            name: "value",
            nested: None,
        },
        super::Attr {
            number: MIN_VALUE,
            name: "min-value",
            nested: None,
        },
        super::Attr {
            number: MAX_VALUE,
            name: "max-value",
            nested: None,
        },
        super::Attr {
            number: DEFAULT,
            name: "default",
            nested: None,
        },
        super::Attr {
            number: UNIT,
            name: "unit",
            nested: None,
        },
        super::Attr {
            number: PER_CONN,
            name: "per-conn",
            nested: None,
        },
        super::Attr {
            number: DOC,
            name: "doc",
            nested: None,
        },
    ];
}

/// Attributes of the set `conn`. A connection.
pub mod conn {
    /// Connection id of this side, what the peer puts into DCID. When it is absent from a
    /// request to create, the smallest one is taken that is free and of no connection that
    /// was deleted lately. One that is given is taken even then: the start values must
    /// suit. (u16)
    pub const LOCAL_CID: u16 = 1;
    /// Connection id of the peer's side. (u16)
    pub const REMOTE_CID: u16 = 2;
    /// `encap` (u32).
    pub const ENCAP: u16 = 3;
    /// Device that the packets leave by. SUNH needs a port: when absent, the only one there
    /// is. UDP is routed when it is absent. In a reply this, the addresses and lladdr are
    /// those of the first path. (u32)
    pub const IFINDEX: u16 = 4;
    /// Name of that device. (string)
    pub const IFNAME: u16 = 5;
    /// Own address; IPv4 is mapped into IPv6. When absent, the one that suits the device or
    /// the route. (binary)
    pub const LOCAL_ADDR: u16 = 6;
    /// Address of the peer; IPv4 is mapped into IPv6. (binary)
    pub const REMOTE_ADDR: u16 = 7;
    /// Ethernet address of the peer or of the next hop, SUNH only. When absent the
    /// neighbour table resolves remote-addr. (binary)
    pub const LLADDR: u16 = 8;
    /// The peer delivers our packets in order; 1 when absent. (u8)
    pub const ORDERED_TX: u16 = 9;
    /// Packets of the peer are delivered in order; 1 when absent. (u8)
    pub const ORDERED_RX: u16 = 10;
    /// The extension opcodes: transfers under 16 bytes, messages longer than a transaction,
    /// atomics, immediate data. Auto when absent. (u8)
    pub const EXT: u16 = 11;
    /// Partition of the connection, 0 for any. A region is accessible only to connections
    /// of its own partition. (u32)
    pub const PARTITION: u16 = 12;
    /// Traffic Class, DSCP in bits 7 to 2; 0 when absent. (u8)
    pub const TCLASS: u16 = 13;
    /// Hop Limit or TTL; SUNH takes 1 to 15. When absent, the parameter nh_hop_limit. (u8)
    pub const HOP_LIMIT: u16 = 14;
    /// Flow Label; SUNH takes the low 12 bits. When absent, one is chosen when the
    /// connection is created. (u32)
    pub const FLOW_LABEL: u16 = 15;
    /// Largest packet, bytes from the packet delivery header to the end of the packet. When
    /// absent from a request, what the path allows. (u32)
    pub const MTU: u16 = 16;
    /// First packet sequence number of both directions; when absent, 0 for a new connection
    /// and the last one for a reset. Both sides must be configured alike, and a successor
    /// so that no packet of its predecessor can be taken for its own ("Start of life" in
    /// Documentation/protocol.md). Only who has CAP_NET_ADMIN is told. (u32)
    pub const START_PSN: u16 = 17;
    /// First transaction id of both directions, absent or not as start-psn, and told to the
    /// same. Both sides must be configured alike. (u16)
    pub const START_XID: u16 = 18;
    /// A parameter of this connection. (nest)
    pub const PARAM: u16 = 19;
    /// `state` (u32).
    pub const STATE: u16 = 20;
    /// Why the connection is broken or stopped. (string)
    pub const CAUSE: u16 = 21;
    /// In a request to get, asks for the attribute stats. (flag)
    pub const WANT_STATS: u16 = 22;
    /// `stats` (nest).
    pub const STATS: u16 = 23;
    /// 1 if every packet that this node sends takes another path and is another flow to the
    /// network, by flow label or source port; needs ordered-tx 0. (u8)
    pub const SPRAY: u16 = 24;
    /// 1 for SUPERp-lite: without the packet delivery layer, over a SUNH path that loses
    /// nothing and keeps order. Needs the parameter tal_transaction_timeout. There can be
    /// one with a node, both ends alike, and packets carry no remote-cid. (u8)
    pub const LITE: u16 = 25;
    /// A path of the connection, of 4 at most. In a request to create they stand in place
    /// of ifindex and lladdr, and what addresses a path leaves out are those of the
    /// connection. The first path's addresses are those by which sockets know the
    /// connection. (nest)
    pub const PATH: u16 = 26;
    /// In a reply, 1 when a packet of the peer has been accepted since the connection was
    /// created or reset. Until then an established connection is still connecting: it waits
    /// for the peer as long as it takes, and does not break. (u8)
    pub const HEARD: u16 = 27;
    /// In a reply, bytes from the packet delivery header to the end of the largest packet
    /// made now. It is less than mtu when a path over UDP has turned out to take less.
    /// (u32)
    pub const PATH_MTU: u16 = 28;
    /// In a reply, 1 when the extensions are used, 0 when they are not; absent until the
    /// peer has said whether it has them. (u8)
    pub const EXT_USED: u16 = 29;
    /// Every attribute of the set.
    pub const ATTRS: &[super::Attr] = &[
        super::Attr {
            number: LOCAL_CID,
            name: "local-cid",
            nested: None,
        },
        super::Attr {
            number: REMOTE_CID,
            name: "remote-cid",
            nested: None,
        },
        super::Attr {
            number: ENCAP,
            name: "encap",
            nested: None,
        },
        super::Attr {
            number: IFINDEX,
            name: "ifindex",
            nested: None,
        },
        super::Attr {
            number: IFNAME,
            name: "ifname",
            nested: None,
        },
        super::Attr {
            number: LOCAL_ADDR,
            name: "local-addr",
            nested: None,
        },
        super::Attr {
            number: REMOTE_ADDR,
            name: "remote-addr",
            nested: None,
        },
        super::Attr {
            number: LLADDR,
            name: "lladdr",
            nested: None,
        },
        super::Attr {
            number: ORDERED_TX,
            name: "ordered-tx",
            nested: None,
        },
        super::Attr {
            number: ORDERED_RX,
            name: "ordered-rx",
            nested: None,
        },
        super::Attr {
            number: EXT,
            name: "ext",
            nested: None,
        },
        super::Attr {
            number: PARTITION,
            name: "partition",
            nested: None,
        },
        super::Attr {
            number: TCLASS,
            name: "tclass",
            nested: None,
        },
        super::Attr {
            number: HOP_LIMIT,
            name: "hop-limit",
            nested: None,
        },
        super::Attr {
            number: FLOW_LABEL,
            name: "flow-label",
            nested: None,
        },
        super::Attr {
            number: MTU,
            name: "mtu",
            nested: None,
        },
        super::Attr {
            number: START_PSN,
            name: "start-psn",
            nested: None,
        },
        super::Attr {
            number: START_XID,
            name: "start-xid",
            nested: None,
        },
        super::Attr {
            number: PARAM,
            name: "param",
            nested: Some(super::conn_param::ATTRS),
        },
        super::Attr {
            number: STATE,
            name: "state",
            nested: None,
        },
        super::Attr {
            number: CAUSE,
            name: "cause",
            nested: None,
        },
        super::Attr {
            number: WANT_STATS,
            name: "want-stats",
            nested: None,
        },
        super::Attr {
            number: STATS,
            name: "stats",
            nested: Some(super::conn_stats::ATTRS),
        },
        super::Attr {
            number: SPRAY,
            name: "spray",
            nested: None,
        },
        super::Attr {
            number: LITE,
            name: "lite",
            nested: None,
        },
        super::Attr {
            number: PATH,
            name: "path",
            nested: Some(super::conn_path::ATTRS),
        },
        super::Attr {
            number: HEARD,
            name: "heard",
            nested: None,
        },
        super::Attr {
            number: PATH_MTU,
            name: "path-mtu",
            nested: None,
        },
        super::Attr {
            number: EXT_USED,
            name: "ext-used",
            nested: None,
        },
    ];
}

/// Attributes of the set `conn-path`. A way between the ends of a connection: a device and
/// a pair of addresses. Packets are received by any path, and only so.
pub mod conn_path {
    /// Device, a port; absent in a reply when UDP is routed. (u32)
    pub const IFINDEX: u16 = 1;
    /// Name of that device, while there is one. (string)
    pub const IFNAME: u16 = 2;
    /// Own address; IPv4 is mapped into IPv6. (binary)
    pub const LOCAL_ADDR: u16 = 3;
    /// Address of the peer; IPv4 is mapped into IPv6. (binary)
    pub const REMOTE_ADDR: u16 = 4;
    /// Ethernet address of the peer or of the next hop, SUNH only. (binary)
    pub const LLADDR: u16 = 5;
    /// Up when the device is up, has a carrier, and takes the connection's longest packet.
    /// (u32)
    pub const STATE: u16 = 6;
    /// Packets sent by this path since the connection was created. (uint)
    pub const TX_PACKETS: u16 = 7;
    /// Packets received by this path since then. (uint)
    pub const RX_PACKETS: u16 = 8;
    /// Every attribute of the set.
    pub const ATTRS: &[super::Attr] = &[
        super::Attr {
            number: IFINDEX,
            name: "ifindex",
            nested: None,
        },
        super::Attr {
            number: IFNAME,
            name: "ifname",
            nested: None,
        },
        super::Attr {
            number: LOCAL_ADDR,
            name: "local-addr",
            nested: None,
        },
        super::Attr {
            number: REMOTE_ADDR,
            name: "remote-addr",
            nested: None,
        },
        super::Attr {
            number: LLADDR,
            name: "lladdr",
            nested: None,
        },
        super::Attr {
            number: STATE,
            name: "state",
            nested: None,
        },
        super::Attr {
            number: TX_PACKETS,
            name: "tx-packets",
            nested: None,
        },
        super::Attr {
            number: RX_PACKETS,
            name: "rx-packets",
            nested: None,
        },
    ];
}

/// Attributes of the set `conn-param`. A parameter of one connection.
pub mod conn_param {
    /// `name` (string).
    pub const NAME: u16 = 1;
    /// `value` (uint).
    pub const VALUE: u16 = 2;
    /// Every attribute of the set.
    pub const ATTRS: &[super::Attr] = &[
        super::Attr {
            number: NAME,
            name: "name",
            nested: None,
        },
        super::Attr {
            number: VALUE,
            name: "value",
            nested: None,
        },
    ];
}

/// Attributes of the set `conn-stats`. Counters of a connection since it was created or
/// reset, and what its round trip estimator says now.
pub mod conn_stats {
    /// Packets sent, retransmissions included. (uint)
    pub const TX_PACKETS: u16 = 1;
    /// Packets received and taken. (uint)
    pub const RX_PACKETS: u16 = 2;
    /// Bytes of data blocks sent, retransmissions not included. (uint)
    pub const TX_BYTES: u16 = 3;
    /// Bytes of data blocks received and delivered. (uint)
    pub const RX_BYTES: u16 = 4;
    /// Operations sent, retransmissions not included. (uint)
    pub const TX_OPS: u16 = 5;
    /// Operations received and delivered. (uint)
    pub const RX_OPS: u16 = 6;
    /// Packets sent for their acknowledgement alone. (uint)
    pub const TX_ACKS: u16 = 7;
    /// Packets received that only acknowledged. (uint)
    pub const RX_ACKS: u16 = 8;
    /// Negative acknowledgements received. (uint)
    pub const RX_NACKS: u16 = 9;
    /// Packets sent again because a SACK showed a hole. (uint)
    pub const RETRANS_FAST: u16 = 10;
    /// Packets sent again because the retransmission timer expired. (uint)
    pub const RETRANS_RTO: u16 = 11;
    /// Packets sent again to carry an ACK through a full window. (uint)
    pub const RETRANS_FULL: u16 = 12;
    /// Expiries of the retransmission timer. (uint)
    pub const TIMEOUTS: u16 = 13;
    /// Packets sent to ask for an acknowledgement alone. (uint)
    pub const PROBES: u16 = 14;
    /// Packets received again. (uint)
    pub const RX_DUPLICATES: u16 = 15;
    /// Packets received above a hole. (uint)
    pub const RX_OUT_OF_ORDER: u16 = 16;
    /// Packets dropped for a number outside its window. (uint)
    pub const RX_OUT_OF_WINDOW: u16 = 17;
    /// Packets dropped by the transaction layer for other reasons. (uint)
    pub const RX_PROTOCOL_ERRORS: u16 = 18;
    /// Time spent with data to send and a full window, ns. (uint)
    pub const WINDOW_FULL_NS: u16 = 19;
    /// Smoothed round trip time, ns; 0 when nothing was measured. (uint)
    pub const SRTT_NS: u16 = 20;
    /// Round trip time variation, ns. (uint)
    pub const RTTVAR_NS: u16 = 21;
    /// Retransmission time-out in force, ns. (uint)
    pub const RTO_NS: u16 = 22;
    /// Transactions submitted. (uint)
    pub const TRANSACTIONS: u16 = 23;
    /// Transactions completed with success. (uint)
    pub const COMPLETED: u16 = 24;
    /// Transactions completed with an error. (uint)
    pub const FAILED: u16 = 25;
    /// Transactions of the peer refused with a Transaction Error. (uint)
    pub const REFUSED: u16 = 26;
    /// Reports lost because too many came at once. (uint)
    pub const REPORTS_LOST: u16 = 27;
    /// Messages submitted. (uint)
    pub const TX_MESSAGES: u16 = 28;
    /// Messages handed to queue pairs. (uint)
    pub const RX_MESSAGES: u16 = 29;
    /// Remote writes submitted here. (uint)
    pub const TX_WRITES: u16 = 30;
    /// Remote reads submitted here. (uint)
    pub const TX_READS: u16 = 31;
    /// Bytes that the peer wrote into regions of this node. (uint)
    pub const RX_WRITE_BYTES: u16 = 32;
    /// Bytes that the peer read from regions of this node. (uint)
    pub const RX_READ_BYTES: u16 = 33;
    /// Operations of the peer refused by key, bounds, rights or partition. (uint)
    pub const ACCESS_VIOLATIONS: u16 = 34;
    /// Messages refused because the queue pair's buffer was full. (uint)
    pub const RX_NO_BUFFER: u16 = 35;
    /// Messages that the peer refused so; they are sent again later. (uint)
    pub const TX_NO_BUFFER: u16 = 36;
    /// Packets that the network refused to take. (uint)
    pub const TX_PATH_ERRORS: u16 = 37;
    /// Packets not sent for want of memory; they are sent again later. (uint)
    pub const TX_NO_MEMORY: u16 = 38;
    /// Negative acknowledgements sent. (uint)
    pub const TX_NACKS: u16 = 39;
    /// Receive window advertised last, packets: what pdl_receive_budget leaves of
    /// pdl_receive_win. (uint)
    pub const RX_WINDOW: u16 = 40;
    /// Atomic operations asked for. (uint)
    pub const TX_ATOMICS: u16 = 41;
    /// Atomic operations carried out for the peer. (uint)
    pub const RX_ATOMICS: u16 = 42;
    /// Every attribute of the set.
    pub const ATTRS: &[super::Attr] = &[
        super::Attr {
            number: TX_PACKETS,
            name: "tx-packets",
            nested: None,
        },
        super::Attr {
            number: RX_PACKETS,
            name: "rx-packets",
            nested: None,
        },
        super::Attr {
            number: TX_BYTES,
            name: "tx-bytes",
            nested: None,
        },
        super::Attr {
            number: RX_BYTES,
            name: "rx-bytes",
            nested: None,
        },
        super::Attr {
            number: TX_OPS,
            name: "tx-ops",
            nested: None,
        },
        super::Attr {
            number: RX_OPS,
            name: "rx-ops",
            nested: None,
        },
        super::Attr {
            number: TX_ACKS,
            name: "tx-acks",
            nested: None,
        },
        super::Attr {
            number: RX_ACKS,
            name: "rx-acks",
            nested: None,
        },
        super::Attr {
            number: RX_NACKS,
            name: "rx-nacks",
            nested: None,
        },
        super::Attr {
            number: RETRANS_FAST,
            name: "retrans-fast",
            nested: None,
        },
        super::Attr {
            number: RETRANS_RTO,
            name: "retrans-rto",
            nested: None,
        },
        super::Attr {
            number: RETRANS_FULL,
            name: "retrans-full",
            nested: None,
        },
        super::Attr {
            number: TIMEOUTS,
            name: "timeouts",
            nested: None,
        },
        super::Attr {
            number: PROBES,
            name: "probes",
            nested: None,
        },
        super::Attr {
            number: RX_DUPLICATES,
            name: "rx-duplicates",
            nested: None,
        },
        super::Attr {
            number: RX_OUT_OF_ORDER,
            name: "rx-out-of-order",
            nested: None,
        },
        super::Attr {
            number: RX_OUT_OF_WINDOW,
            name: "rx-out-of-window",
            nested: None,
        },
        super::Attr {
            number: RX_PROTOCOL_ERRORS,
            name: "rx-protocol-errors",
            nested: None,
        },
        super::Attr {
            number: WINDOW_FULL_NS,
            name: "window-full-ns",
            nested: None,
        },
        super::Attr {
            number: SRTT_NS,
            name: "srtt-ns",
            nested: None,
        },
        super::Attr {
            number: RTTVAR_NS,
            name: "rttvar-ns",
            nested: None,
        },
        super::Attr {
            number: RTO_NS,
            name: "rto-ns",
            nested: None,
        },
        super::Attr {
            number: TRANSACTIONS,
            name: "transactions",
            nested: None,
        },
        super::Attr {
            number: COMPLETED,
            name: "completed",
            nested: None,
        },
        super::Attr {
            number: FAILED,
            name: "failed",
            nested: None,
        },
        super::Attr {
            number: REFUSED,
            name: "refused",
            nested: None,
        },
        super::Attr {
            number: REPORTS_LOST,
            name: "reports-lost",
            nested: None,
        },
        super::Attr {
            number: TX_MESSAGES,
            name: "tx-messages",
            nested: None,
        },
        super::Attr {
            number: RX_MESSAGES,
            name: "rx-messages",
            nested: None,
        },
        super::Attr {
            number: TX_WRITES,
            name: "tx-writes",
            nested: None,
        },
        super::Attr {
            number: TX_READS,
            name: "tx-reads",
            nested: None,
        },
        super::Attr {
            number: RX_WRITE_BYTES,
            name: "rx-write-bytes",
            nested: None,
        },
        super::Attr {
            number: RX_READ_BYTES,
            name: "rx-read-bytes",
            nested: None,
        },
        super::Attr {
            number: ACCESS_VIOLATIONS,
            name: "access-violations",
            nested: None,
        },
        super::Attr {
            number: RX_NO_BUFFER,
            name: "rx-no-buffer",
            nested: None,
        },
        super::Attr {
            number: TX_NO_BUFFER,
            name: "tx-no-buffer",
            nested: None,
        },
        super::Attr {
            number: TX_PATH_ERRORS,
            name: "tx-path-errors",
            nested: None,
        },
        super::Attr {
            number: TX_NO_MEMORY,
            name: "tx-no-memory",
            nested: None,
        },
        super::Attr {
            number: TX_NACKS,
            name: "tx-nacks",
            nested: None,
        },
        super::Attr {
            number: RX_WINDOW,
            name: "rx-window",
            nested: None,
        },
        super::Attr {
            number: TX_ATOMICS,
            name: "tx-atomics",
            nested: None,
        },
        super::Attr {
            number: RX_ATOMICS,
            name: "rx-atomics",
            nested: None,
        },
    ];
}

/// Attributes of the set `region`. A registered memory region.
pub mod region {
    /// The 24-bit key. (u32)
    pub const KEY: u16 = 1;
    /// First byte in the owner's address space. (uint)
    pub const ADDR: u16 = 2;
    /// Bytes. (uint)
    pub const LENGTH: u16 = 3;
    /// RMA address of the first byte. (uint)
    pub const RMA_ADDR: u16 = 4;
    /// Bits SUPERP_ACCESS_* of linux/superp.h. (u32)
    pub const ACCESS: u16 = 5;
    /// Partition, 0 for any. (u32)
    pub const PARTITION: u16 = 6;
    /// Queue pair that owns the region; 0 when it is not bound. (u32)
    pub const QPN: u16 = 7;
    /// Process that registered the region, as the reader's pid namespace knows it; absent
    /// when it does not, or when the process has ended. (u32)
    pub const PID: u16 = 8;
    /// Bytes that peers have read. (uint)
    pub const REMOTE_READS: u16 = 9;
    /// Bytes that peers have written. (uint)
    pub const REMOTE_WRITES: u16 = 10;
    /// Name of the command that the process executes; goes with pid. (string)
    pub const COMMAND: u16 = 11;
    /// Every attribute of the set.
    pub const ATTRS: &[super::Attr] = &[
        super::Attr {
            number: KEY,
            name: "key",
            nested: None,
        },
        super::Attr {
            number: ADDR,
            name: "addr",
            nested: None,
        },
        super::Attr {
            number: LENGTH,
            name: "length",
            nested: None,
        },
        super::Attr {
            number: RMA_ADDR,
            name: "rma-addr",
            nested: None,
        },
        super::Attr {
            number: ACCESS,
            name: "access",
            nested: None,
        },
        super::Attr {
            number: PARTITION,
            name: "partition",
            nested: None,
        },
        super::Attr {
            number: QPN,
            name: "qpn",
            nested: None,
        },
        super::Attr {
            number: PID,
            name: "pid",
            nested: None,
        },
        super::Attr {
            number: REMOTE_READS,
            name: "remote-reads",
            nested: None,
        },
        super::Attr {
            number: REMOTE_WRITES,
            name: "remote-writes",
            nested: None,
        },
        super::Attr {
            number: COMMAND,
            name: "command",
            nested: None,
        },
    ];
}

/// Attributes of the set `qp`. A queue pair, that is a socket.
pub mod qp {
    /// Its number. (u32)
    pub const QPN: u16 = 1;
    /// Connection in use; absent when the queue pair is not connected. (u16)
    pub const LOCAL_CID: u16 = 2;
    /// Address of the peer. (binary)
    pub const REMOTE_ADDR: u16 = 3;
    /// Queue pair of the peer. (u32)
    pub const REMOTE_QPN: u16 = 4;
    /// Process that made the socket, as the reader's pid namespace knows it; absent when it
    /// does not, or when the process has ended. (u32)
    pub const PID: u16 = 5;
    /// Messages sent. (uint)
    pub const TX_MESSAGES: u16 = 6;
    /// Messages received. (uint)
    pub const RX_MESSAGES: u16 = 7;
    /// Bytes received and not yet read. (uint)
    pub const RX_QUEUED: u16 = 8;
    /// Operations submitted and not yet complete. (u32)
    pub const PENDING: u16 = 9;
    /// Name of the command that the process executes; goes with pid. (string)
    pub const COMMAND: u16 = 10;
    /// Inode number of the socket. Links socket:[NUMBER] in /proc/PID/fd name the processes
    /// that have it, whoever made it. (uint)
    pub const INODE: u16 = 11;
    /// Every attribute of the set.
    pub const ATTRS: &[super::Attr] = &[
        super::Attr {
            number: QPN,
            name: "qpn",
            nested: None,
        },
        super::Attr {
            number: LOCAL_CID,
            name: "local-cid",
            nested: None,
        },
        super::Attr {
            number: REMOTE_ADDR,
            name: "remote-addr",
            nested: None,
        },
        super::Attr {
            number: REMOTE_QPN,
            name: "remote-qpn",
            nested: None,
        },
        super::Attr {
            number: PID,
            name: "pid",
            nested: None,
        },
        super::Attr {
            number: TX_MESSAGES,
            name: "tx-messages",
            nested: None,
        },
        super::Attr {
            number: RX_MESSAGES,
            name: "rx-messages",
            nested: None,
        },
        super::Attr {
            number: RX_QUEUED,
            name: "rx-queued",
            nested: None,
        },
        super::Attr {
            number: PENDING,
            name: "pending",
            nested: None,
        },
        super::Attr {
            number: COMMAND,
            name: "command",
            nested: None,
        },
        super::Attr {
            number: INODE,
            name: "inode",
            nested: None,
        },
    ];
}

/// Attributes of the set `counter`.
pub mod counter {
    /// `name` (string).
    pub const NAME: u16 = 1;
    /// `value` (uint).
    pub const VALUE: u16 = 2;
    /// Every attribute of the set.
    pub const ATTRS: &[super::Attr] = &[
        super::Attr {
            number: NAME,
            name: "name",
            nested: None,
        },
        super::Attr {
            number: VALUE,
            name: "value",
            nested: None,
        },
    ];
}

/// Attributes of the set `stats`. Counters of the node.
pub mod stats {
    /// Packets received and dropped, by reason. (nest)
    pub const DROP: u16 = 1;
    /// Every attribute of the set.
    pub const ATTRS: &[super::Attr] = &[super::Attr {
        number: DROP,
        name: "drop",
        nested: Some(super::counter::ATTRS),
    }];
}

/// Attributes of the set `event`.
pub mod event {
    /// `kind` (u32).
    pub const KIND: u16 = 1;
    /// CLOCK_MONOTONIC, ns. (uint)
    pub const TIME: u16 = 2;
    /// `local-cid` (u16).
    pub const LOCAL_CID: u16 = 3;
    /// `remote-cid` (u16).
    pub const REMOTE_CID: u16 = 4;
    /// `remote-addr` (binary).
    pub const REMOTE_ADDR: u16 = 5;
    /// `conn-state` (u32).
    pub const CONN_STATE: u16 = 6;
    /// `ifindex` (u32).
    pub const IFINDEX: u16 = 7;
    /// `port-state` (u32).
    pub const PORT_STATE: u16 = 8;
    /// What happened. (string)
    pub const CAUSE: u16 = 9;
    /// The offending value. (uint)
    pub const VALUE: u16 = 10;
    /// First value that would have been in order. (uint)
    pub const LOW: u16 = 11;
    /// First value after low that would not have been. (uint)
    pub const HIGH: u16 = 12;
    /// RMA address of a refused access; of a Send, key << 32 | offset. (uint)
    pub const ADDRESS: u16 = 13;
    /// Bytes of a refused access. (u32)
    pub const LENGTH: u16 = 14;
    /// Number of reports and access violations that were not sent since the last one that
    /// was, because there were too many in a second. (u32)
    pub const SUPPRESSED: u16 = 15;
    /// Every attribute of the set.
    pub const ATTRS: &[super::Attr] = &[
        super::Attr {
            number: KIND,
            name: "kind",
            nested: None,
        },
        super::Attr {
            number: TIME,
            name: "time",
            nested: None,
        },
        super::Attr {
            number: LOCAL_CID,
            name: "local-cid",
            nested: None,
        },
        super::Attr {
            number: REMOTE_CID,
            name: "remote-cid",
            nested: None,
        },
        super::Attr {
            number: REMOTE_ADDR,
            name: "remote-addr",
            nested: None,
        },
        super::Attr {
            number: CONN_STATE,
            name: "conn-state",
            nested: None,
        },
        super::Attr {
            number: IFINDEX,
            name: "ifindex",
            nested: None,
        },
        super::Attr {
            number: PORT_STATE,
            name: "port-state",
            nested: None,
        },
        super::Attr {
            number: CAUSE,
            name: "cause",
            nested: None,
        },
        super::Attr {
            number: VALUE,
            name: "value",
            nested: None,
        },
        super::Attr {
            number: LOW,
            name: "low",
            nested: None,
        },
        super::Attr {
            number: HIGH,
            name: "high",
            nested: None,
        },
        super::Attr {
            number: ADDRESS,
            name: "address",
            nested: None,
        },
        super::Attr {
            number: LENGTH,
            name: "length",
            nested: None,
        },
        super::Attr {
            number: SUPPRESSED,
            name: "suppressed",
            nested: None,
        },
    ];
}

/// Commands.
pub mod cmd {
    /// Get the node.
    pub const NODE_GET: u8 = 1;
    /// Change the node.
    pub const NODE_SET: u8 = 2;
    /// Get one port, or dump all.
    pub const PORT_GET: u8 = 3;
    /// Let SUPERp use a device.
    pub const PORT_NEW: u8 = 4;
    /// Take a device from SUPERp; refused while connections use it.
    pub const PORT_DEL: u8 = 5;
    /// Get one connection, or dump all.
    pub const CONN_GET: u8 = 6;
    /// Create a connection; the reply holds its local-cid. It answers the peer at once, and
    /// takes requests of this node when it is started.
    pub const CONN_NEW: u8 = 7;
    /// Delete a connection; operations under way complete with an error.
    pub const CONN_DEL: u8 = 8;
    /// Start a connection that was created.
    pub const CONN_START: u8 = 9;
    /// Return a connection to the state created; operations under way complete with an
    /// error and the counters start again at 0. The new life has other start values if they
    /// are given.
    pub const CONN_RESET: u8 = 10;
    /// Get one parameter of the node by name, or dump all.
    pub const PARAM_GET: u8 = 11;
    /// Set a parameter of the node. Connections that exist keep the values they were
    /// created with.
    pub const PARAM_SET: u8 = 12;
    /// Dump the memory regions. Their keys are what protects them, so that this needs
    /// CAP_NET_ADMIN as well.
    pub const REGION_GET: u8 = 13;
    /// Dump the queue pairs.
    pub const QP_GET: u8 = 14;
    /// Get the node's counters.
    pub const STATS_GET: u8 = 15;
    /// Something happened.
    pub const EVENT_NTF: u8 = 16;
    /// Shut a connection down softly: operations begun are completed, later ones wait, and
    /// Last NULL is exchanged with the peer, which has to be told to stop as well. In the
    /// state stopped a conn-reset keeps what waits.
    pub const CONN_STOP: u8 = 17;
    /// Dump the routes.
    pub const ROUTE_GET: u8 = 18;
    /// Add a next hop to a SUNH address.
    pub const ROUTE_NEW: u8 = 19;
    /// Remove the next hops of a SUNH address, or only those on the given device.
    pub const ROUTE_DEL: u8 = 20;
}
