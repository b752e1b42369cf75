// SPDX-License-Identifier: GPL-2.0

//! The SUPERp instance of one network namespace: its tables, ports, parameters and counters.

use kernel::{
    prelude::*,
    sync::{
        atomic::{Atomic, Relaxed},
        new_mutex, Arc, Mutex,
    },
};

use crate::{
    conn::{Conn, ConnParams, ConnState, Identity},
    kapi::{
        errno::eaddrnotavail,
        map::RcuMap,
        net::{self, DeviceEvent, DeviceEventKind, Net},
        path::{Encap, Path, PathConfig},
        rx::UdpPort,
        skb::SkBuff,
    },
    netlink::{self, Event, ReportLimit},
    params::{self, ParamId},
    proto::{
        wire::{PdlHeader, Sunh, FIXED_LEN},
        Config, DropReason,
    },
    qp::Qp,
    region::Region,
};

/// A refused request: the errno, and a sentence for the person who made it.
pub(crate) struct Refusal {
    pub(crate) errno: Error,
    pub(crate) msg: &'static CStr,
}

impl Refusal {
    pub(crate) fn new(errno: Error, msg: &'static CStr) -> Refusal {
        Refusal { errno, msg }
    }
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Error {
        refusal.errno
    }
}

const DROPS: usize = DropReason::ALL.len();

/// A device that carries SUPERp.
struct Port {
    ifindex: u32,
    sunh: bool,
    udp: bool,
}

/// What a port is made of.
pub(crate) struct PortParams {
    pub(crate) ifindex: u32,
    pub(crate) sunh: bool,
    pub(crate) udp: bool,
}

/// What there is to tell of a port.
pub(crate) struct PortInfo {
    pub(crate) ifindex: u32,
    pub(crate) sunh: bool,
    pub(crate) udp: bool,
    pub(crate) up: bool,
    /// Of the device, bytes.
    pub(crate) mtu: u32,
    /// Connections over it.
    pub(crate) conns: u32,
}

/// How many objects a node has.
#[derive(Default)]
pub(crate) struct NodeInfo {
    pub(crate) ports: u32,
    pub(crate) conns: u32,
    pub(crate) qps: u32,
    pub(crate) regions: u32,
}

/// What changes by configuration, under the node's mutex.
pub(crate) struct Settings {
    ports: KVec<Port>,
    udp: Option<UdpPort>,
    cm_address: [u8; 16],
    /// The namespace is going away.
    gone: bool,
}

/// See the module.
#[pin_data]
pub(crate) struct Node {
    net: Net,
    #[pin]
    config: Mutex<Settings>,
    #[pin]
    conns: RcuMap<Conn>,
    #[pin]
    regions: RcuMap<Region>,
    #[pin]
    qps: RcuMap<Qp>,
    params: params::Values,
    drops: [Atomic<u64>; DROPS],
    #[pin]
    report_limit: ReportLimit,
}

/// Largest packet, PDL header and up: what 16 page fragments hold at any alignment.
const MTU_MAX: u32 = 15 * 4096;

/// First port of the dynamic range: entropy of UDP encapsulation [proto 2.7].
const DYNAMIC_PORTS: u16 = 0xc000;

/// Whether the address is IPv4, mapped.
fn is_v4(addr: &[u8; 16]) -> bool {
    addr.starts_with(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff])
}

/// The SUNH address of an IP address: the low bits of its host part.
fn sunh_of(addr: &[u8; 16], bits: u64) -> u16 {
    let low = u16::from_be_bytes([addr[14], addr[15]]);
    (u32::from(low) & ((1u32 << bits.min(16)) - 1)) as u16
}

/// Spreads connections over paths and queues: any mixing does.
fn entropy(local_cid: u16, remote_cid: u16) -> u32 {
    (u32::from(local_cid) << 16 | u32::from(remote_cid)).wrapping_mul(0x9e37_79b1) >> 12
}

impl Node {
    /// A node without ports. Process context.
    pub(crate) fn new(net: Net) -> Result<Arc<Node>> {
        Arc::pin_init(
            try_pin_init!(Node {
                net,
                config <- new_mutex!(Settings {
                    ports: KVec::new(),
                    udp: None,
                    cm_address: [0; 16],
                    gone: false,
                }, "superp_node"),
                conns <- RcuMap::new(),
                regions <- RcuMap::new(),
                qps <- RcuMap::new(),
                params: params::Values::new(),
                drops: core::array::from_fn(|_| Atomic::new(0)),
                report_limit <- ReportLimit::new(),
            }),
            GFP_KERNEL,
        )
    }

    /// Ends everything: the namespace goes away, or the module. Process context.
    pub(crate) fn exit(&self) {
        let (udp, ports) = {
            let mut config = self.config.lock();
            config.gone = true;
            (config.udp.take(), core::mem::take(&mut config.ports))
        };
        drop(udp);
        drop(ports);
        let mut from = 0;
        while let Some((cid, conn)) = self.conns.next(from) {
            // Without a fresh life there is nothing to allocate, hence nothing to fail.
            let _ = conn.reset(false);
            from = cid + 1;
        }
        self.conns.clear();
        self.regions.clear();
        self.qps.clear();
    }

    pub(crate) fn net(&self) -> Net {
        self.net
    }

    pub(crate) fn config(&self) -> &Mutex<Settings> {
        &self.config
    }

    pub(crate) fn regions(&self) -> &RcuMap<Region> {
        &self.regions
    }

    pub(crate) fn qps(&self) -> &RcuMap<Qp> {
        &self.qps
    }

    pub(crate) fn report_limit(&self) -> &ReportLimit {
        &self.report_limit
    }

    /// The region with the lowest key from `from` on.
    pub(crate) fn region_next(&self, from: u32) -> Option<(u32, Arc<Region>)> {
        self.regions.next(from)
    }

    /// Counts the node's objects.
    pub(crate) fn info(&self) -> NodeInfo {
        fn count<T: Send + Sync>(map: &RcuMap<T>) -> u32 {
            let (mut n, mut from) = (0, 0);
            while let Some((key, _)) = map.next(from) {
                n += 1;
                from = key + 1;
            }
            n
        }
        NodeInfo {
            ports: self.config.lock().ports.len() as u32,
            conns: count(&self.conns),
            qps: count(&self.qps),
            regions: count(&self.regions),
        }
    }

    /// Address of the connection manager; `::` for none.
    pub(crate) fn cm_address(&self) -> [u8; 16] {
        self.config.lock().cm_address
    }

    pub(crate) fn set_cm_address(&self, addr: [u8; 16]) {
        self.config.lock().cm_address = addr;
    }

    pub(crate) fn param_get(&self, id: ParamId) -> u64 {
        self.params.get(id)
    }

    /// Sets a parameter, whose range the caller has checked.
    pub(crate) fn param_set(&self, id: ParamId, value: u64) -> Result<(), Refusal> {
        let config = self.config.lock();
        if id == params::UDP_PORT && config.udp.is_some() {
            return Err(Refusal::new(
                EBUSY,
                c"nh_udp_port is in use: remove the ports that serve UDP first",
            ));
        }
        if id == params::NUM_CADDR_BITS && self.conns.next(0).is_some() {
            return Err(Refusal::new(
                EBUSY,
                c"nh_num_caddr_bits is in use: remove the connections first",
            ));
        }
        self.params.set(id, value);
        Ok(())
    }

    /// Configuration that a new connection starts from.
    pub(crate) fn conn_defaults(&self) -> Config {
        self.params.config()
    }

    // ---- counters -------------------------------------------------------------------------

    /// Counts a packet that was thrown away. Any context.
    pub(crate) fn count_drop(&self, reason: DropReason) {
        if let Some(counter) = self.drops.get(reason as usize) {
            counter.fetch_add(1, Relaxed);
        }
    }

    /// The `i`th drop counter with its name.
    pub(crate) fn drop_nth(&self, i: usize) -> Option<(&'static str, u64)> {
        Some((DropReason::ALL.get(i)?.name(), self.drops.get(i)?.load(Relaxed)))
    }

    // ---- ports ----------------------------------------------------------------------------

    /// Lets a device carry SUPERp. Process context.
    pub(crate) fn port_new(&self, params: &PortParams) -> Result<(), Refusal> {
        if !params.sunh && !params.udp {
            return Err(Refusal::new(EINVAL, c"a port serves sunh, udp or both"));
        }
        if net::device_mtu(self.net, params.ifindex).is_none() {
            return Err(Refusal::new(ENODEV, c"no such device in this network namespace"));
        }
        let no_memory = |_| Refusal::new(ENOMEM, c"no memory for the port");
        let mut config = self.config.lock();
        if config.gone {
            return Err(Refusal::new(ENODEV, c"the network namespace is going away"));
        }
        if config.ports.iter().any(|p| p.ifindex == params.ifindex) {
            return Err(Refusal::new(EEXIST, c"the device is a port already"));
        }
        config.ports.reserve(1, GFP_KERNEL).map_err(no_memory)?;
        if params.udp && config.udp.is_none() {
            let number = self.params.get(params::UDP_PORT) as u16;
            config.udp = Some(UdpPort::open(self.net, number).map_err(|e| {
                Refusal::new(e, c"the UDP port of SUPERp cannot be opened (parameter nh_udp_port)")
            })?);
        }
        config
            .ports
            .push(
                Port {
                    ifindex: params.ifindex,
                    sunh: params.sunh,
                    udp: params.udp,
                },
                GFP_KERNEL,
            )
            .map_err(no_memory)?;
        drop(config);
        let up = net::device_up(self.net, params.ifindex).unwrap_or(false);
        netlink::notify(self, Event::Port { ifindex: params.ifindex, up });
        Ok(())
    }

    /// The device carries SUPERp no longer. Process context.
    pub(crate) fn port_del(&self, ifindex: u32) -> Result<(), Refusal> {
        let mut config = self.config.lock();
        let index = config
            .ports
            .iter()
            .position(|p| p.ifindex == ifindex)
            .ok_or_else(|| Refusal::new(ENOENT, c"the device is not a port"))?;
        if self.conns_over(ifindex) > 0 {
            return Err(Refusal::new(
                EBUSY,
                c"connections use the port: remove them first",
            ));
        }
        let udp = self.take_port(&mut config, index);
        drop(config);
        drop(udp);
        netlink::notify(self, Event::PortDeleted { ifindex });
        Ok(())
    }

    /// Removes a port; gives the UDP socket when no port serves UDP any more, to be closed without
    /// the mutex.
    fn take_port(&self, config: &mut Settings, index: usize) -> Option<UdpPort> {
        let _ = config.ports.remove(index);
        if config.ports.iter().any(|p| p.udp) {
            None
        } else {
            config.udp.take()
        }
    }

    /// The port with the lowest ifindex from `from` on.
    pub(crate) fn port_next(&self, from: u32) -> Option<PortInfo> {
        let mut info = {
            let config = self.config.lock();
            let port = config
                .ports
                .iter()
                .filter(|p| p.ifindex >= from)
                .min_by_key(|p| p.ifindex)?;
            PortInfo {
                ifindex: port.ifindex,
                sunh: port.sunh,
                udp: port.udp,
                up: false,
                mtu: 0,
                conns: 0,
            }
        };
        info.up = net::device_up(self.net, info.ifindex).unwrap_or(false);
        info.mtu = net::device_mtu(self.net, info.ifindex).unwrap_or(0);
        info.conns = self.conns_over(info.ifindex);
        Some(info)
    }

    fn conns_over(&self, ifindex: u32) -> u32 {
        let mut n = 0;
        self.each_conn(|conn| n += u32::from(conn.identity().ifindex == ifindex));
        n
    }

    fn each_conn(&self, mut f: impl FnMut(&Arc<Conn>)) {
        let mut from = 0;
        while let Some((cid, conn)) = self.conns.next(from) {
            f(&conn);
            from = cid + 1;
        }
    }

    /// A device of the namespace changed. Process context, RTNL held.
    pub(crate) fn device_event(&self, event: DeviceEvent) {
        let ifindex = event.ifindex;
        let is_port = |config: &Settings| config.ports.iter().position(|p| p.ifindex == ifindex);
        match event.kind {
            DeviceEventKind::Unregister => {
                self.each_conn(|conn| {
                    if conn.identity().ifindex == ifindex {
                        conn.break_off("the device was removed");
                    }
                });
                let udp = {
                    let mut config = self.config.lock();
                    let Some(index) = is_port(&config) else { return };
                    self.take_port(&mut config, index)
                };
                drop(udp);
                netlink::notify(self, Event::PortDeleted { ifindex });
            }
            DeviceEventKind::Up | DeviceEventKind::Down => {
                if is_port(&self.config.lock()).is_some() {
                    let up = matches!(event.kind, DeviceEventKind::Up);
                    netlink::notify(self, Event::Port { ifindex, up });
                }
            }
            DeviceEventKind::MtuChange => self.each_conn(|conn| {
                if conn.identity().ifindex == ifindex {
                    conn.check_mtu();
                }
            }),
            DeviceEventKind::AddrChange => {}
        }
    }

    // ---- connections ----------------------------------------------------------------------

    /// The connection with this local id. Any context.
    pub(crate) fn conn(&self, cid: u32) -> Option<Arc<Conn>> {
        self.conns.get(cid)
    }

    /// The connection with the lowest local id from `from` on.
    pub(crate) fn conns(&self, from: u32) -> Option<(u32, Arc<Conn>)> {
        self.conns.next(from)
    }

    /// The started connection to `remote` (and from `local`, where given): the one with this local
    /// id, or with `CID_ANY` the one with the lowest.
    pub(crate) fn conn_for(
        &self,
        local: Option<&[u8; 16]>,
        remote: &[u8; 16],
        cid: u32,
    ) -> Option<Arc<Conn>> {
        let fits = |conn: &Conn| {
            let id = conn.identity();
            conn.established() && id.remote == *remote && local.is_none_or(|l| id.local == *l)
        };
        if cid != crate::CID_ANY {
            return self.conns.get(cid).filter(|conn| fits(conn));
        }
        let mut from = 0;
        while let Some((cid, conn)) = self.conns.next(from) {
            if fits(&conn) {
                return Some(conn);
            }
            from = cid + 1;
        }
        None
    }

    /// Whether `addr` is an address of this node.
    pub(crate) fn has_addr(&self, addr: &[u8; 16]) -> bool {
        let mut found = false;
        self.each_conn(|conn| found |= conn.identity().local == *addr);
        found || net::is_local_address(self.net, addr)
    }

    /// Makes a connection in state `Created`. Process context.
    pub(crate) fn conn_new(self: &Arc<Self>, params: &ConnParams) -> Result<Arc<Conn>, Refusal> {
        let config = self.config.lock();
        if config.gone {
            return Err(Refusal::new(ENODEV, c"the network namespace is going away"));
        }
        let identity = self.identity(&config, params)?;
        let path = Path::new(self.net, &self.path_config(&identity)).map_err(|e| {
            Refusal::new(e, c"no path to the peer: check device, addresses and routes")
        })?;
        let mut identity = identity;
        let most = path.mtu().min(MTU_MAX);
        identity.config.mtu = match params.mtu {
            None => most,
            Some(mtu) if mtu <= most => mtu,
            Some(_) => {
                return Err(Refusal::new(
                    EINVAL,
                    c"mtu is larger than the path carries (device MTU less network headers)",
                ))
            }
        };
        if identity.config.validate().is_err() {
            return Err(Refusal::new(
                EINVAL,
                c"a parameter of the connection is out of range, or its mtu too small",
            ));
        }
        let conn = Conn::new(self.clone(), identity, path)?;
        self.conns.insert(conn.cid(), conn.clone()).map_err(|e| {
            if e == EBUSY {
                Refusal::new(EEXIST, c"a connection with this local-cid exists")
            } else {
                Refusal::new(e, c"no memory for the connection")
            }
        })?;
        drop(config);
        conn.tell_created();
        Ok(conn)
    }

    /// Decides what `params` left open and checks it against the node.
    fn identity(&self, config: &Settings, params: &ConnParams) -> Result<Identity, Refusal> {
        let limit = self.params.get(params::CONNS_PER_XPU);
        let (mut n, mut free) = (0u64, 1u32);
        self.each_conn(|conn| {
            n += 1;
            // They come in rising order.
            if conn.cid() == free {
                free += 1;
            }
        });
        if n >= limit {
            return Err(Refusal::new(
                ENOSPC,
                c"as many connections as pdl_conns_per_xpu allows exist already",
            ));
        }
        let cid = match params.local_cid {
            Some(cid) => cid,
            None => u16::try_from(free)
                .map_err(|_| Refusal::new(ENOSPC, c"no free connection id"))?,
        };
        let v4 = is_v4(&params.remote);
        if v4 && params.encap == Encap::Udp6 || !v4 && params.encap == Encap::Udp4 {
            return Err(Refusal::new(
                EINVAL,
                c"remote-addr is not of the family of the encapsulation",
            ));
        }
        let ifindex = self.port_for(config, params)?;
        let local = match params.local {
            Some(local) => local,
            None => net::local_address(self.net, ifindex, &params.remote).ok_or_else(|| {
                Refusal::new(
                    eaddrnotavail(),
                    c"no local address towards the peer: give local-addr",
                )
            })?,
        };
        if is_v4(&local) != v4 {
            return Err(Refusal::new(
                EINVAL,
                c"local-addr and remote-addr are of different families",
            ));
        }
        let bits = self.params.get(params::NUM_CADDR_BITS);
        let flow_label = params
            .flow_label
            .unwrap_or_else(|| entropy(cid, params.config.remote_cid));
        Ok(Identity {
            cid,
            encap: params.encap,
            ifindex,
            local,
            remote: params.remote,
            local_sunh: sunh_of(&local, bits),
            remote_sunh: sunh_of(&params.remote, bits),
            mac: params.mac,
            partition: params.partition,
            tclass: params.tclass,
            hop_limit: params
                .hop_limit
                .unwrap_or(self.params.get(params::HOP_LIMIT) as u8),
            flow_label: flow_label & 0xf_ffff,
            config: params.config.clone(),
        })
    }

    /// The device of a new connection; 0: by route.
    fn port_for(&self, config: &Settings, params: &ConnParams) -> Result<u32, Refusal> {
        let sunh = params.encap == Encap::Sunh;
        let serves = |port: &&Port| if sunh { port.sunh } else { port.udp };
        let no_port = || {
            Refusal::new(
                ENODEV,
                c"no port serves this encapsulation: make the device a port first",
            )
        };
        if params.ifindex != 0 {
            return config
                .ports
                .iter()
                .filter(serves)
                .find(|p| p.ifindex == params.ifindex)
                .map(|p| p.ifindex)
                .ok_or_else(no_port);
        }
        let mut ports = config.ports.iter().filter(serves);
        let first = ports.next().ok_or_else(no_port)?;
        if !sunh {
            return Ok(0);
        }
        match ports.next() {
            None => Ok(first.ifindex),
            Some(_) => Err(Refusal::new(
                EINVAL,
                c"several ports serve SUNH: name the device",
            )),
        }
    }

    fn path_config(&self, id: &Identity) -> PathConfig {
        let header = Sunh {
            traffic_class: id.tclass,
            next_header: crate::next_header(),
            hop_limit: id.hop_limit,
            flow_label: (id.flow_label & 0xfff) as u16,
            source: id.local_sunh,
            destination: id.remote_sunh,
        };
        PathConfig {
            encap: id.encap,
            ifindex: id.ifindex,
            local: id.local,
            remote: id.remote,
            sunh: header.bytes(),
            mac: id.mac,
            tclass: id.tclass,
            hop_limit: id.hop_limit,
            flow_label: id.flow_label,
            sport: DYNAMIC_PORTS | (id.flow_label & 0x3fff) as u16,
            dport: self.params.get(params::UDP_PORT) as u16,
            ethertype: crate::ethertype(),
        }
    }

    fn existing(&self, cid: u16) -> Result<Arc<Conn>, Refusal> {
        self.conn(cid.into())
            .ok_or_else(|| Refusal::new(ENOENT, c"no connection with this local-cid"))
    }

    /// Starts local requests on a connection.
    pub(crate) fn conn_start(&self, cid: u16) -> Result<(), Refusal> {
        self.existing(cid)?.start()
    }

    /// Gives a connection a fresh life in state `Created`.
    pub(crate) fn conn_reset(&self, cid: u16) -> Result<(), Refusal> {
        self.existing(cid)?.reset(true)
    }

    /// Removes a connection; everything pending completes as aborted.
    pub(crate) fn conn_del(&self, cid: u16) -> Result<(), Refusal> {
        let config = self.config.lock();
        let conn = self.existing(cid)?;
        self.conns.remove(cid.into());
        drop(config);
        conn.reset(false)?;
        netlink::notify(
            self,
            Event::ConnDeleted { local_cid: cid, remote: conn.remote() },
        );
        Ok(())
    }

    // ---- packets --------------------------------------------------------------------------

    /// A SUNH frame, data at the SUNH header. Softirq.
    pub(crate) fn rx_sunh(&self, ifindex: u32, mut skb: SkBuff) {
        if let Err(reason) = self.sunh_to_conn(ifindex, &mut skb).map(|conn| conn.receive(skb)) {
            self.count_drop(reason);
        }
    }

    fn sunh_to_conn(&self, ifindex: u32, skb: &mut SkBuff) -> Result<Arc<Conn>, DropReason> {
        if !skb.may_pull(Sunh::LEN) {
            return Err(DropReason::TooShort);
        }
        let header = skb.head().first_chunk().ok_or(DropReason::TooShort)?;
        let header = Sunh::parse(header);
        if header.next_header != crate::next_header() {
            return Err(DropReason::NextHeader);
        }
        if !skb.pull(Sunh::LEN) {
            return Err(DropReason::TooShort);
        }
        let conn = self.conn_of(skb)?;
        let id = conn.identity();
        if id.encap != Encap::Sunh || id.ifindex != ifindex {
            return Err(DropReason::WrongPath);
        }
        if header.destination != id.local_sunh {
            return Err(DropReason::NotOurs);
        }
        if header.source != id.remote_sunh {
            return Err(DropReason::WrongSource);
        }
        Ok(conn)
    }

    /// A datagram on our UDP port, data at the PDL header. Softirq.
    pub(crate) fn rx_udp(&self, src: [u8; 16], dst: [u8; 16], _ifindex: u32, mut skb: SkBuff) {
        let found = self.conn_of(&mut skb).and_then(|conn| {
            let id = conn.identity();
            if id.encap == Encap::Sunh {
                Err(DropReason::WrongPath)
            } else if id.remote != src {
                Err(DropReason::WrongSource)
            } else if id.local != dst {
                Err(DropReason::NotOurs)
            } else {
                Ok(conn)
            }
        });
        match found {
            Ok(conn) => conn.receive(skb),
            Err(reason) => self.count_drop(reason),
        }
    }

    /// The connection that the PDL header at the front of `skb` names; the fixed headers are
    /// linear then.
    fn conn_of(&self, skb: &mut SkBuff) -> Result<Arc<Conn>, DropReason> {
        if !skb.may_pull(FIXED_LEN) {
            return Err(DropReason::TooShort);
        }
        let header = skb.head().first_chunk().ok_or(DropReason::TooShort)?;
        self.conn(PdlHeader::parse(header).dcid.into())
            .ok_or(DropReason::NoConnection)
    }
}

/// A network namespace begins. Process context.
pub(crate) fn net_init(net: Net) -> Result<Arc<Node>> {
    Node::new(net)
}

/// A network namespace ends, or the module goes. Process context.
pub(crate) fn net_exit(node: &Node) {
    node.exit();
}

/// See [`Node::device_event`].
pub(crate) fn device_event(node: &Node, event: DeviceEvent) {
    node.device_event(event);
}

/// See [`Node::rx_sunh`].
pub(crate) fn rx_sunh(node: &Node, ifindex: u32, skb: SkBuff) {
    node.rx_sunh(ifindex, skb);
}

/// See [`Node::rx_udp`].
pub(crate) fn rx_udp(node: &Node, src: [u8; 16], dst: [u8; 16], ifindex: u32, skb: SkBuff) {
    node.rx_udp(src, dst, ifindex, skb);
}

/// State names, for people.
impl ConnState {
    pub(crate) fn name(self) -> &'static str {
        match self {
            ConnState::Created => "created",
            ConnState::Established => "established",
            ConnState::Stopped => "stopped",
            ConnState::Broken => "broken",
        }
    }
}
