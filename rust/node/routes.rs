// SPDX-License-Identifier: GPL-2.0

//! Routes to other nodes. A node that forwards is a SUNH switch, and with routes to nodes beyond
//! SUNH a gateway.

use kernel::{
    prelude::*,
    sync::{
        atomic::{Atomic, Relaxed},
        Arc,
    },
};

use super::{
    frame::{ethertype_of, net_header},
    Node,
};
use crate::{
    conn::Port,
    kapi::{
        defer,
        errno::Refusal,
        map::mixed,
        net,
        path::{Encap, Path, PathConfig},
        skb::SkBuff,
    },
    params,
    proto::{
        wire::{Prefix, Sunh},
        DropReason,
    },
};

/// Most next hops of an address.
pub(crate) const HOPS_MAX: usize = 8;
/// Addresses that are looked at between two calls of `resched()`.
const ROUTES_PER_RESCHED: usize = 128;

/// How to reach a next hop.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Via {
    /// Its IP address, IPv6 or v4-mapped. The neighbour table has its Ethernet address.
    Ip([u8; 16]),
    /// Its Ethernet address.
    Mac([u8; 6]),
    /// No next hop: the node is beyond SUNH. Its IP address, to which UDP goes, is this prefix with
    /// the SUNH address as host part.
    Udp(Prefix),
}

/// A next hop of an address.
pub(crate) struct Hop {
    pub(crate) port: Arc<Port>,
    pub(crate) via: Via,
    pub(super) path: Path,
    packets: Atomic<u64>,
}

impl Hop {
    /// Frames sent so far.
    pub(crate) fn packets(&self) -> u64 {
        self.packets.load(Relaxed)
    }
}

/// The next hops of an address, at least one.
pub(crate) struct Route {
    hops: KVec<Arc<Hop>>,
}

impl Route {
    /// The next hop at index `i`.
    pub(crate) fn hop(&self, i: usize) -> Option<&Arc<Hop>> {
        self.hops.get(i)
    }

    /// How to reach the next hops over one device.
    pub(super) fn vias(&self, ifindex: u32) -> impl Iterator<Item = &Via> {
        let over = move |hop: &&Arc<Hop>| hop.port.is_over(ifindex);
        self.hops.iter().filter(over).map(|hop| &hop.via)
    }

    /// Selects the next hop of a flow. A hash of the flow selects it, so that frames of one flow
    /// keep their order. If that hop is down, the next one that is up takes its place.
    pub(super) fn select_hop(&self, header: &Sunh) -> Option<&Hop> {
        let ends = u32::from(header.source) << 16 | u32::from(header.destination);
        let hash = mixed(mixed(header.flow_label.into()) ^ ends);
        // The 32-bit hash scaled to 0..len.
        let first = (u64::from(hash).wrapping_mul(self.hops.len() as u64) >> 32) as usize;
        let (before, from) = (self.hops.get(..first)?, self.hops.get(first..)?);
        let up = |hop: &&Arc<Hop>| hop.path.up(0);
        let hop = from.iter().find(up).or_else(|| before.iter().find(up));
        hop.map(|hop| &**hop)
    }
}

impl Node {
    /// Whether the node forwards, and the number of packets that it has forwarded. Any context.
    pub(crate) fn forwarding(&self) -> (bool, u64) {
        (self.forwarding.load(Relaxed), self.forwarded.load(Relaxed))
    }

    /// Switches forwarding on or off. Any context.
    pub(crate) fn set_forwarding(&self, on: bool) {
        self.forwarding.store(on, Relaxed);
    }

    /// The route of a frame that arrived on a device. `None`: the frame is for this node. Softirq.
    pub(super) fn route_of(&self, ifindex: u32, header: &Sunh) -> Option<Arc<Route>> {
        if !self.forwarding.load(Relaxed) || !self.serves(ifindex, |port| port.sunh) {
            return None;
        }
        self.routes.get(header.destination.into())
    }

    /// Forwards a frame, which begins with its SUNH header. `lite`: the frame is of SUPERp-lite.
    /// Softirq.
    pub(super) fn forward(
        &self,
        ifindex: u32,
        lite: bool,
        route: &Route,
        header: &Sunh,
        mut skb: SkBuff,
    ) -> Result<(), DropReason> {
        let header = header.forwarded().ok_or(DropReason::HopLimit)?;
        let hop = route.select_hop(&header).ok_or(DropReason::NotForwarded)?;
        if !skb.pull(Sunh::LEN) {
            return Err(DropReason::TooShort);
        }
        let sent = match &hop.via {
            // SUPERp-lite has no UDP port.
            Via::Udp(_) if lite => return Err(DropReason::NotForwarded),
            Via::Udp(prefix) => {
                let header = self.expand(ifindex, &header, prefix, &skb)?;
                hop.path.forward_udp(skb, &(&header).into())
            }
            Via::Ip(_) | Via::Mac(_) => forward_frame(hop, skb, lite, &header),
        };
        self.count_forwarded(hop, sent)
    }

    /// Counts a packet that was sent to its next hop, or turns the error into a reason to drop it.
    pub(super) fn count_forwarded(&self, hop: &Hop, result: Result) -> Result<(), DropReason> {
        result.map_err(|e| match e == EMSGSIZE {
            true => DropReason::TooLong,
            false => DropReason::NotForwarded,
        })?;
        hop.packets.fetch_add(1, Relaxed);
        self.forwarded.fetch_add(1, Relaxed);
        Ok(())
    }

    fn serves(&self, ifindex: u32, serves: impl FnOnce(&Port) -> bool) -> bool {
        self.ports.get(ifindex).is_some_and(|port| serves(&port))
    }

    /// Adds a next hop to an address. Process context.
    ///
    /// # Errors
    ///
    /// The text of the refusal says why.
    pub(crate) fn route_new(&self, address: u16, ifindex: u32, via: Via) -> Result<(), Refusal> {
        let no_memory = |_| Refusal::new(ENOMEM, c"no memory for the route");
        let config = self.config.lock();
        if config.exiting {
            return Err(Refusal::new(ENODEV, c"the network namespace is going away"));
        }
        let port = self.ports.get(ifindex);
        let (port, not_served) = match via {
            Via::Udp(_) => (
                port.filter(|port| port.udp),
                c"the device is not a port that serves UDP",
            ),
            Via::Ip(_) | Via::Mac(_) => (
                port.filter(|port| port.sunh),
                c"the device is not a port that serves SUNH",
            ),
        };
        let port = port.ok_or_else(|| Refusal::new(ENODEV, not_served))?;
        if let Some(why) = self.loops_back(ifindex, via) {
            return Err(Refusal::new(EINVAL, why));
        }
        let mut hops = KVec::with_capacity(HOPS_MAX, GFP_KERNEL_ACCOUNT).map_err(no_memory)?;
        let old = self.routes.get(address.into());
        for hop in old.iter().flat_map(|route| route.hops.iter()) {
            if hop.port.is_over(ifindex) && hop.via == via {
                return Err(Refusal::new(EEXIST, c"the address has this next hop"));
            }
            let _ = hops.push_within_capacity(hop.clone());
        }
        let path = self.hop_path(address, ifindex, via)?;
        path.resolve();
        let hop = Hop {
            port,
            via,
            path,
            packets: Atomic::new(0),
        };
        let hop = Arc::new(hop, GFP_KERNEL_ACCOUNT).map_err(no_memory)?;
        if hops.push_within_capacity(hop).is_err() {
            return Err(Refusal::new(ENOSPC, c"the address has 8 next hops already"));
        }
        let route = Arc::new(Route { hops }, GFP_KERNEL_ACCOUNT).map_err(no_memory)?;
        self.routes
            .store(address.into(), route)
            .map_err(|e| Refusal::new(e, c"no memory for the route"))
    }

    /// Why frames to a next hop would come back to this node, which would forward them again and
    /// again. `None`: they do not.
    fn loops_back(&self, ifindex: u32, via: Via) -> Option<&'static CStr> {
        match via {
            // A node beyond SUNH may be a program on this machine.
            Via::Udp(_) => None,
            _ if self
                .net()
                .with(|net| net::device_loopback(net, ifindex))
                .unwrap_or(false) =>
            {
                Some(c"frames over a loopback device come back to this node")
            }
            Via::Ip(_) | Via::Mac(_) => None,
        }
    }

    fn hop_path(&self, address: u16, ifindex: u32, via: Via) -> Result<Path, Refusal> {
        let (encap, remote, mac) = match via {
            Via::Ip(addr) => (Encap::Ether, addr, None),
            Via::Mac(mac) => (Encap::Ether, [0; 16], Some(mac)),
            Via::Udp(prefix) => {
                let addr = prefix.address(address).ok_or_else(|| {
                    Refusal::new(
                        ERANGE,
                        c"the address has bits beyond those of the host part",
                    )
                })?;
                match prefix.is_v4() {
                    true => (Encap::Udp4, addr, None),
                    false => (Encap::Udp6, addr, None),
                }
            }
        };
        let config = PathConfig {
            encap,
            ifindex,
            local: [0; 16],
            remote,
            header: net_header(&Sunh::default()),
            mac,
            tclass: 0,
            hop_limit: 0,
            flow_label: 0,
            sport: 0,
            dport: self.param_get(params::UDP_PORT) as u16,
            ethertype: ethertype_of(false),
        };
        Path::new(&*self.live_net()?, &config)
            .map_err(|e| Refusal::new(e, c"there is no way to the next hop"))
    }

    /// Removes the next hops of an address, or only those over one device. Process context.
    ///
    /// # Errors
    ///
    /// `ENOENT`: there is no such next hop. `ENOMEM`: the others could not be copied.
    pub(crate) fn route_del(&self, address: u16, ifindex: Option<u32>) -> Result<(), Refusal> {
        let _config = self.config.lock();
        let none = || Refusal::new(ENOENT, c"the address has no such route");
        let route = self.routes.get(address.into()).ok_or_else(none)?;
        let over = |hop: &Arc<Hop>| ifindex.is_none_or(|ifindex| hop.port.is_over(ifindex));
        if !route.hops.iter().any(over) {
            return Err(none());
        }
        self.remove_hops(address, &route, over)
            .map_err(|e| Refusal::new(e, c"no memory for the other next hops"))
    }

    /// Removes the next hops for which `over` is true. Without memory for a copy of the others it
    /// removes none.
    fn remove_hops(&self, address: u16, route: &Route, over: impl Fn(&Arc<Hop>) -> bool) -> Result {
        let mut hops = KVec::with_capacity(HOPS_MAX, GFP_KERNEL_ACCOUNT)?;
        for hop in route.hops.iter().filter(|hop| !over(hop)) {
            let _ = hops.push_within_capacity(hop.clone());
        }
        if hops.is_empty() {
            self.routes.remove_later(address.into());
            return Ok(());
        }
        let route = Arc::new(Route { hops }, GFP_KERNEL_ACCOUNT)?;
        self.routes.store(address.into(), route)
    }

    /// Whether a route uses the device.
    pub(super) fn routes_over(&self, ifindex: u32) -> bool {
        let over = |hop: &Arc<Hop>| hop.port.is_over(ifindex);
        self.routes
            .iter()
            .any(|(_, route)| route.hops.iter().any(over))
    }

    /// Removes the next hops over devices that are gone. Process context; reschedules now and then.
    pub(super) fn routes_leave_devices(&self) {
        let gone = |hop: &Arc<Hop>| hop.port.gone.load(Relaxed);
        let has_gone = |route: &Arc<Route>| route.hops.iter().any(gone);
        let mut visited = 0usize;
        for (address, route) in self.routes.iter() {
            if has_gone(&route) {
                // Held for one address only, because others wait for it.
                let _config = self.config.lock();
                if let Some(route) = self.routes.get(address).filter(has_gone) {
                    // Without memory the other next hops are removed as well: the kernel waits for
                    // those that are gone.
                    if self.remove_hops(address as u16, &route, gone).is_err() {
                        self.routes.remove_later(address);
                    }
                }
            }
            visited = visited.wrapping_add(1);
            if visited % ROUTES_PER_RESCHED == 0 {
                defer::resched();
            }
        }
    }

    /// The route with the lowest address from `from` on, and that address. Any context.
    pub(crate) fn route_next(&self, from: u32) -> Option<(u32, Arc<Route>)> {
        self.routes.next(from)
    }
}

/// Sends a frame to its next hop, behind `header`. Softirq.
pub(super) fn forward_frame(hop: &Hop, skb: SkBuff, lite: bool, header: &Sunh) -> Result {
    let (ethertype, tclass) = (ethertype_of(lite), header.traffic_class);
    hop.path
        .forward(skb, ethertype, tclass, &net_header(header))
}
