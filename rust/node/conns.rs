// SPDX-License-Identifier: GPL-2.0

//! The connections of a node: creation, lookup and removal.

use kernel::{prelude::*, sync::Arc};

use super::{
    count,
    frame::{ethertype_of, net_header},
    Node, Settings,
};
use crate::{
    conn::{Conn, ConnParams, Identity, PathEnds, PathParams, Port, Start},
    event::Event,
    kapi::{
        errno::{eaddrnotavail, ehostunreach, Refusal},
        net,
        path::{Encap, Path, PathConfig},
        timer, uapi,
    },
    params,
    proto::wire::{Sunh, DYNAMIC_PORTS},
};

/// Longest packet, in bytes from the PDL header on: what 16 fragments of 4096 bytes hold at any
/// alignment.
const MTU_MAX: u32 = 15 * 4096;

/// Whether the address is v4-mapped.
fn is_v4(addr: &[u8; 16]) -> bool {
    addr.starts_with(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff])
}

/// SUNH address of an IP address: its low `bits` bits, 8 to 16 [proto 2.1].
pub(super) fn sunh_of(addr: &[u8; 16], bits: u64) -> u16 {
    let [.., high, low] = *addr;
    let unused = u64::from(u16::BITS).saturating_sub(bits);
    u16::from_be_bytes([high, low]) & (u16::MAX >> unused.min(8))
}

/// Flow label, 20 bits, of a connection for which none is configured. Any mixing spreads
/// connections over paths and queues.
fn entropy(local_cid: u16, remote_cid: u16) -> u32 {
    (u32::from(local_cid) << 16 | u32::from(remote_cid)).wrapping_mul(0x9e37_79b1) >> 12
}

impl Node {
    /// The connection with this local id. Any context.
    pub(crate) fn conn(&self, cid: u32) -> Option<Arc<Conn>> {
        self.conns.get(cid)
    }

    /// The connection with the lowest local id from `from` on, and that id. Any context.
    pub(crate) fn conns(&self, from: u32) -> Option<(u32, Arc<Conn>)> {
        self.conns.next(from)
    }

    /// The established connection with id `cid` to `remote`, and from `local` if that is given.
    /// With `CID_ANY` it is the one with the lowest id. Any context.
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
        if cid != uapi::SUPERP_CID_ANY {
            return self.conns.get(cid).filter(|conn| fits(conn));
        }
        self.conns
            .iter()
            .map(|(_, conn)| conn)
            .find(|conn| fits(conn))
    }

    /// Whether `addr` is an address of the namespace, or the local one of a connection. Any
    /// context.
    pub(crate) fn has_addr(&self, addr: &[u8; 16]) -> bool {
        let of_conn = |(_, conn): (u32, Arc<Conn>)| conn.identity().local == *addr;
        self.conns.iter().any(of_conn)
            || self
                .net()
                .with(|net| net::is_local_address(net, addr))
                .unwrap_or(false)
    }

    /// Creates a connection in state `Created`. Process context.
    ///
    /// # Errors
    ///
    /// The text of the refusal says why. `EAGAIN` has the time after which to try again.
    pub(crate) fn conn_new(self: &Arc<Self>, params: &ConnParams) -> Result<Arc<Conn>, Refusal> {
        let mut config = self.config.lock();
        if config.exiting {
            return Err(Refusal::new(ENODEV, c"the network namespace is going away"));
        }
        let mut identity = self.identity(params, &mut config)?;
        if identity.config.lite && self.lite.get(identity.remote_sunh().into()).is_some() {
            return Err(Refusal::new(
                EEXIST,
                c"a lite connection with this node exists: there can be one",
            ));
        }
        if identity.config.lite && identity.paths.len() > 1 {
            return Err(Refusal::new(EINVAL, c"a lite connection has one path"));
        }
        let paths = self.open_paths(&identity)?;
        let mtus = paths.iter().map(Path::mtu);
        let max_mtu = mtus.fold(MTU_MAX, u32::min);
        // A path over UDP without a route carries packets of no length.
        if max_mtu == 0 {
            return Err(Refusal::new(
                ehostunreach(),
                c"no route to the peer from local-addr: does this node have that address",
            ));
        }
        identity.config.mtu = match params.mtu {
            None => max_mtu,
            Some(mtu) if mtu <= max_mtu => mtu,
            Some(_) => {
                return Err(Refusal::new(
                    EINVAL,
                    c"mtu is larger than the path carries (device MTU less network headers)",
                ))
            }
        };
        if identity.config.lite && identity.config.tal_transaction_timeout == 0 {
            return Err(Refusal::new(
                EINVAL,
                c"lite needs tal_transaction_timeout: nothing else finds out that a packet is lost",
            ));
        }
        if identity.config.validate().is_err() {
            return Err(Refusal::new(
                EINVAL,
                c"a parameter of the connection is out of range, or its mtu too small",
            ));
        }
        let conn = Conn::new(self.resources.clone(), identity, paths)?;
        self.conns.insert(conn.cid(), conn.clone()).map_err(|e| {
            if e == EBUSY {
                Refusal::new(EEXIST, c"a connection with this local-cid exists")
            } else {
                Refusal::new(e, c"no memory for the connection")
            }
        })?;
        if conn.identity().config.lite {
            let peer = conn.identity().remote_sunh();
            if let Err(e) = self.lite.insert(peer.into(), conn.clone()) {
                self.conns.remove_later(conn.cid());
                return Err(Refusal::new(e, c"no memory for the connection"));
            }
        }
        self.join_budget();
        drop(config);
        conn.tell_created();
        Ok(conn)
    }

    /// Resolves what `params` leaves open, and checks it against the node.
    fn identity(&self, params: &ConnParams, config: &mut Settings) -> Result<Identity, Refusal> {
        let limit = self.param_get(params::CONNS_PER_XPU);
        let n = count(self.conns.iter());
        if u64::from(n) >= limit {
            return Err(Refusal::new(
                ENOSPC,
                c"as many connections as pdl_conns_per_xpu allows exist already",
            ));
        }
        // Space for the ids of all connections, so that a removal needs no memory.
        let (now, conns) = (timer::now(), n.saturating_add(1) as usize);
        if config.quarantine.make_room(now, conns).is_none() {
            return Err(Refusal::new(ENOMEM, c"no memory for the connection ids"));
        }
        let cid = match params.local_cid {
            Some(cid) => cid,
            None => self.choose_cid(config, now)?,
        };
        let paths = self.ends(params)?;
        let first = paths.first().map(|ends| (ends.local, ends.remote));
        let (local, remote) = first.ok_or_else(|| Refusal::new(EINVAL, c"no path"))?;
        let flow_label = params
            .flow_label
            .unwrap_or_else(|| entropy(cid, params.config.remote_cid));
        Ok(Identity {
            cid,
            encap: params.encap,
            local,
            remote,
            paths,
            partition: params.partition,
            tclass: params.tclass,
            hop_limit: params
                .hop_limit
                .unwrap_or(self.param_get(params::HOP_LIMIT) as u8),
            flow_label: flow_label & 0xf_ffff,
            spray: params.spray,
            config: params.config.clone(),
        })
    }

    /// The ends of a new connection's paths, all different.
    fn ends(&self, params: &ConnParams) -> Result<KVec<PathEnds>, Refusal> {
        let no_memory = |_| Refusal::new(ENOMEM, c"no memory for the connection's paths");
        let mut paths: KVec<PathEnds> =
            KVec::with_capacity(params.paths.len(), GFP_KERNEL_ACCOUNT).map_err(no_memory)?;
        for path in params.paths.iter() {
            let ends = self.ends_of(params.encap, path)?;
            let same = |other: &PathEnds| {
                (other.ifindex(), other.local, other.remote)
                    == (ends.ifindex(), ends.local, ends.remote)
            };
            if paths.iter().any(same) {
                return Err(Refusal::new(EINVAL, c"two paths are the same"));
            }
            // This cannot fail: the capacity is `params.paths.len()`.
            let _ = paths.push_within_capacity(ends);
        }
        Ok(paths)
    }

    fn ends_of(&self, encap: Encap, params: &PathParams) -> Result<PathEnds, Refusal> {
        let v4 = is_v4(&params.remote);
        if v4 && encap == Encap::Udp6 || !v4 && encap == Encap::Udp4 {
            return Err(Refusal::new(
                EINVAL,
                c"remote-addr is not of the family of the encapsulation",
            ));
        }
        let port = self.port_for(encap, params.ifindex)?;
        let ifindex = port.as_ref().map_or(0, |port| port.ifindex);
        let local = match params.local {
            Some(local) => local,
            None => net::local_address(&*self.live_net()?, ifindex, &params.remote).ok_or_else(
                || {
                    Refusal::new(
                        eaddrnotavail(),
                        c"no local address towards the peer: give local-addr",
                    )
                },
            )?,
        };
        if is_v4(&local) != v4 {
            return Err(Refusal::new(
                EINVAL,
                c"local-addr and remote-addr are of different families",
            ));
        }
        let bits = self.param_get(params::NUM_CADDR_BITS);
        Ok(PathEnds {
            port,
            local,
            remote: params.remote,
            local_sunh: sunh_of(&local, bits),
            remote_sunh: sunh_of(&params.remote, bits),
            mac: params.mac,
        })
    }

    /// Chooses a connection id that is free and not in quarantine [proto 3.20].
    fn choose_cid(&self, config: &Settings, now: u64) -> Result<u16, Refusal> {
        let in_use = |cid: u16| self.conns.get(cid.into()).is_some();
        config
            .quarantine
            .choose(now, in_use)
            .map_err(|until| match until {
                None => Refusal::new(ENOSPC, c"no free connection id"),
                Some(until) => Refusal {
                    retry_ms: Some(until.saturating_sub(now).div_ceil(1_000_000)),
                    ..Refusal::new(EAGAIN, c"every free connection id was in use lately")
                },
            })
    }

    /// Opens the paths of a new connection, and begins to resolve the peer's Ethernet address.
    fn open_paths(&self, id: &Identity) -> Result<KVec<Path>, Refusal> {
        let no_memory = |_| Refusal::new(ENOMEM, c"no memory for the connection's paths");
        let mut paths =
            KVec::with_capacity(id.paths.len(), GFP_KERNEL_ACCOUNT).map_err(no_memory)?;
        for ends in id.paths.iter() {
            let path = Path::new(&*self.live_net()?, &self.path_config(id, ends)).map_err(|e| {
                Refusal::new(
                    e,
                    c"no path to the peer: check device, addresses and routes",
                )
            })?;
            path.resolve();
            // This cannot fail: the capacity is `id.paths.len()`.
            let _ = paths.push_within_capacity(path);
        }
        Ok(paths)
    }

    /// The device of a new path. `None`, over UDP only: the route chooses it.
    fn port_for(&self, encap: Encap, ifindex: u32) -> Result<Option<Arc<Port>>, Refusal> {
        let sunh = encap == Encap::Ether;
        let serves = |port: &Port| if sunh { port.sunh } else { port.udp };
        let no_port = || {
            Refusal::new(
                ENODEV,
                c"no port serves this encapsulation: make the device a port first",
            )
        };
        if ifindex != 0 {
            let port = self.ports.get(ifindex).filter(|port| serves(port));
            return port.map(Some).ok_or_else(no_port);
        }
        let mut ports = self.ports.iter().filter(|(_, port)| serves(port));
        let (_, first) = ports.next().ok_or_else(no_port)?;
        if !sunh {
            return Ok(None);
        }
        match ports.next() {
            None => Ok(Some(first)),
            Some(_) => Err(Refusal::new(
                EINVAL,
                c"several ports serve SUNH: name the device",
            )),
        }
    }

    fn path_config(&self, id: &Identity, ends: &PathEnds) -> PathConfig {
        let header = Sunh {
            traffic_class: id.tclass,
            next_header: crate::kapi::params::next_header(),
            hop_limit: id.hop_limit,
            flow_label: (id.flow_label & 0xfff) as u16,
            source: ends.local_sunh,
            destination: ends.remote_sunh,
        };
        PathConfig {
            encap: id.encap,
            ifindex: ends.ifindex(),
            local: ends.local,
            remote: ends.remote,
            header: net_header(&header),
            mac: ends.mac,
            tclass: id.tclass,
            hop_limit: id.hop_limit,
            flow_label: id.flow_label,
            sport: DYNAMIC_PORTS | (id.flow_label & 0x3fff) as u16,
            dport: self.param_get(params::UDP_PORT) as u16,
            ethertype: ethertype_of(id.config.lite),
        }
    }

    /// Drops the received parts of unfinished messages to queue pair `qpn`, which was unbound.
    /// Process context.
    pub(crate) fn drop_partials(&self, qpn: u32) {
        for (_, conn) in self.conns.iter() {
            conn.drop_partial(qpn);
        }
    }

    fn existing(&self, cid: u16) -> Result<Arc<Conn>, Refusal> {
        self.conn(cid.into())
            .ok_or_else(|| Refusal::new(ENOENT, c"no connection with this local-cid"))
    }

    /// Starts a connection. Process context.
    pub(crate) fn conn_start(&self, cid: u16) -> Result<(), Refusal> {
        self.existing(cid)?.start()
    }

    /// Begins the soft shutdown of a connection. Process context.
    pub(crate) fn conn_stop(&self, cid: u16) -> Result<(), Refusal> {
        self.existing(cid)?.shut_down()
    }

    /// Begins a new life of a connection, in state `Created`. Process context; sleeps.
    pub(crate) fn conn_reset(&self, cid: u16, start: Start) -> Result<(), Refusal> {
        self.existing(cid)?.restart(start)
    }

    /// Removes a connection. Everything pending completes as aborted. Process context; sleeps.
    pub(crate) fn conn_del(&self, cid: u16) -> Result<(), Refusal> {
        let mut config = self.config.lock();
        let conn = self.existing(cid)?;
        // A grace period under this mutex would hold up others who create connections.
        self.conns.remove_later(cid.into());
        let quarantine_ns = conn.identity().config.quarantine_time();
        config
            .quarantine
            .put(cid, timer::now().saturating_add(quarantine_ns));
        if conn.identity().config.lite {
            self.lite.remove_later(conn.identity().remote_sunh().into());
        }
        drop(config);
        conn.stop();
        conn.close_paths();
        // These are two statements, so that `Conn::inner` is released before the budget's lock is
        // taken. In the lock order it is the outer one.
        let activity = conn.activity();
        self.leave_budget(activity);
        self.notify(Event::ConnDeleted {
            local_cid: cid,
            remote: conn.remote(),
        });
        Ok(())
    }
}
