// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Identifiers: their states, ports and peers.

use super::super::abi::*;
use super::super::query::PKEY;
use super::super::tell;
use super::{errno_of, names, random, shared, ChannelPointer, IdPointer, Opened, Pending};
use crate::cm::{number, Terms};
use crate::rules;
use libc::{c_int, c_void};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::os::fd::AsRawFd;
use std::time::Instant;
use superp_netlink::Client;
use superp_sys::Socket;
use superp_verbs::{partition, Address, Device};

/// Ports that are chosen for programs, as of TCP.
const EPHEMERAL: std::ops::Range<u16> = 32768..61000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Nothing was done with it.
    New,
    /// It has a port.
    Bound,
    Listening,
    /// The peer's address is known, and a connection to it.
    AddressResolved,
    RouteResolved,
    /// The request is under way.
    Connecting,
    /// The peer agreed, and the program makes its queue pair ready.
    Responded,
    /// A peer asks for a connection.
    Requested,
    /// The answer to that is under way.
    Accepting,
    Connected,
    Disconnected,
    /// Rejected, or not possible.
    Failed,
}

/// The other end.
#[derive(Clone, Copy)]
pub(super) struct Peer {
    pub(super) addr: IpAddr,
    /// The connection that leads there.
    pub(super) cid: u16,
    pub(super) port: u16,
    /// Number of the queue pair that takes its messages.
    pub(super) socket: u32,
}

impl Peer {
    pub(super) fn address(&self) -> Address {
        Address {
            addr: self.addr,
            qpn: self.socket,
            cid: Some(self.cid),
        }
    }
}

/// What the manager knows of a `struct rdma_cm_id`.
pub(super) struct Id {
    pub(super) public: IdPointer,
    /// What the thread knows it by.
    pub(super) serial: u64,
    pub(super) channel: ChannelPointer,
    /// The channel is its own, and calls wait for their events.
    pub(super) sync: bool,
    pub(super) state: State,
    pub(super) socket: Option<Socket>,
    pub(super) port: u16,
    pub(super) peer: Option<Peer>,
    pub(super) token: u32,
    pub(super) ours: Terms,
    pub(super) theirs: Terms,
    /// When the peer has taken too long.
    pub(super) deadline: Option<Instant>,
    /// Of a listener: requests that may wait, and that do.
    pub(super) backlog: usize,
    pub(super) requests: usize,
    /// Of its queue pair, if the program has chosen it.
    pub(super) ack_timeout: Option<u8>,
    pub(super) mtu: ibv_mtu,
    pub(super) gid_index: u8,
    /// The program has disconnected it.
    pub(super) left: bool,
    /// Events that the program has not acknowledged.
    pub(super) outstanding: usize,
    /// What queue pairs of those who are accepted are made of.
    pub(super) init: Option<ibv_qp_init_attr>,
}

// SAFETY: The pointers of `init` are for the calls of the program, whose they are.
unsafe impl Send for Id {}

impl Id {
    pub(super) fn new(
        serial: u64,
        channel: ChannelPointer,
        sync: bool,
        context: *mut c_void,
    ) -> Self {
        let public = rdma_cm_id {
            channel: channel.0,
            context,
            ps: RDMA_PS_TCP,
            qp_type: IBV_QPT_RC,
            ..Default::default()
        };
        Self {
            public: IdPointer(Box::into_raw(Box::new(public))),
            serial,
            channel,
            sync,
            state: State::New,
            socket: None,
            port: 0,
            peer: None,
            token: random() as u32,
            ours: Terms::default(),
            theirs: Terms::default(),
            deadline: None,
            backlog: 0,
            requests: 0,
            ack_timeout: None,
            mtu: IBV_MTU_1024,
            gid_index: 0,
            left: false,
            outstanding: 0,
            init: None,
        }
    }

    /// Frees the struct of the program.
    pub(super) fn free(self) {
        // SAFETY: From `new`, and used no more; so is the path.
        unsafe {
            let public = Box::from_raw(self.public.0);
            if !public.route.path_rec.is_null() {
                drop(Box::from_raw(public.route.path_rec));
            }
        }
    }

    pub(super) fn qp(&self) -> *mut ibv_qp {
        // SAFETY: It lives as long as this.
        unsafe { (*self.public.0).qp }
    }

    pub(super) fn pending(&self, kind: rdma_cm_event_type, status: c_int) -> Pending {
        Pending::new(self.public, kind, status)
    }

    /// Has the thread hear of a socket, which becomes the one of the identifier.
    pub(super) fn keep(&mut self, socket: Socket) -> Result<(), c_int> {
        shared()?.watch(socket.as_raw_fd(), self.serial)?;
        self.socket = Some(socket);
        Ok(())
    }

    fn port_socket(addr: IpAddr, port: u16) -> std::io::Result<Socket> {
        let socket = Socket::new()?;
        socket.set_nonblocking(true)?;
        socket.bind(&Address::new(addr, number(port)))?;
        Ok(socket)
    }

    /// Takes a port, of one address or of all; 0: any port.
    pub(super) fn bind(&mut self, name: SocketAddr) -> Result<(), c_int> {
        if self.state != State::New {
            return Err(libc::EINVAL);
        }
        let (addr, mut port) = (name.ip().to_canonical(), name.port());
        let made = match port {
            0 => {
                let from = random();
                let count = u64::from(EPHEMERAL.end - EPHEMERAL.start);
                let mut ports =
                    (0..count).map(|at| EPHEMERAL.start + ((from % count + at) % count) as u16);
                loop {
                    port = ports.next().ok_or(libc::EADDRNOTAVAIL)?;
                    match Self::port_socket(addr, port) {
                        Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => {}
                        made => break made,
                    }
                }
            }
            _ => Self::port_socket(addr, port),
        };
        let socket = made.map_err(|error| errno_of(&error))?;
        self.keep(socket)?;
        self.port = port;
        self.state = State::Bound;
        let bound = SocketAddr::new(name.ip(), port);
        // SAFETY: It lives as long as this.
        unsafe { names::write(self.source(), bound) };
        Ok(())
    }

    fn source(&self) -> *mut c_void {
        // SAFETY: It lives as long as this.
        unsafe { (&raw mut (*self.public.0).route.addr.__bindgen_anon_1).cast() }
    }

    fn destination(&self) -> *mut c_void {
        // SAFETY: It lives as long as this.
        unsafe { (&raw mut (*self.public.0).route.addr.__bindgen_anon_2).cast() }
    }

    /// Finds the connection to a peer.
    pub(super) fn resolve(&mut self, to: SocketAddr, opened: &Opened) -> Result<(), c_int> {
        let addr = to.ip().to_canonical();
        let tell =
            |what: &dyn std::fmt::Display| tell(format_args!("connection to {addr}: {what}"));
        let wanted = partition::wanted().map_err(|malformed| {
            tell(&malformed);
            libc::EINVAL
        })?;
        let found =
            Client::open().and_then(|mut client| partition::connections(&mut client, addr, wanted));
        let found = found.map_err(|error| {
            tell(&error);
            error.errno().unwrap_or(libc::EIO)
        })?;
        let socket = self.socket.as_ref().ok_or(libc::EINVAL)?;
        let peer = |cid: u16| Peer {
            addr,
            cid,
            port: to.port(),
            socket: number(to.port()),
        };
        // Not all of them need be from the address that the program is bound to.
        let mut usable = found.into_iter().map(peer);
        let Some(peer) = usable.find(|peer| socket.connect(&peer.address()).is_ok()) else {
            let none = match wanted {
                None => superp_verbs::Error::NoConnection,
                Some(_) => superp_verbs::Error::NoConnectionInPartition,
            };
            tell(&none);
            return Err(libc::EHOSTUNREACH);
        };
        let info = socket.info().map_err(|error| errno_of(&error))?;
        if let Some(why) = rules::unfit(info.ordered, info.ext) {
            tell(&format_args!("it {why}"));
            return Err(libc::EOPNOTSUPP);
        }
        self.peer = Some(peer);
        self.set_route(opened, to.is_ipv6())?;
        self.state = State::AddressResolved;
        Ok(())
    }

    /// Puts the device into the struct of the program.
    pub(super) fn set_device(&self, opened: &Opened) {
        // SAFETY: It lives as long as this.
        let public = unsafe { &mut *self.public.0 };
        public.verbs = opened.context;
        public.port_num = 1;
        if public.pd.is_null() {
            public.pd = opened.pd;
        }
    }

    /// Puts both ends and the device into the struct of the program.
    pub(super) fn set_route(&mut self, opened: &Opened, six: bool) -> Result<(), c_int> {
        let peer = self.peer.ok_or(libc::EINVAL)?;
        // A socket that is bound to any address does not know which one its packets have.
        let own = Client::open().and_then(|mut client| client.conn(peer.cid, false));
        let own = own
            .map_err(|error| error.errno().unwrap_or(libc::EIO))?
            .local_addr;
        if let Ok(device) = Device::current() {
            let addresses = device.addresses();
            let index = addresses.iter().position(|addr| *addr == own);
            self.gid_index = index.and_then(|at| u8::try_from(at).ok()).unwrap_or(0);
            let mut ports = device.ports().iter();
            let of = ports.find(|port| port.addresses.contains(&own));
            self.mtu = rules::mtu(of.map_or(0, |port| port.mtu));
        }
        self.set_device(opened);
        // SAFETY: It lives as long as this.
        unsafe {
            names::write(self.source(), names::in_family(own, self.port, six));
            names::write(
                self.destination(),
                names::in_family(peer.addr, peer.port, six),
            );
            (*self.public.0).route.addr.addr.ibaddr = rdma_ib_addr {
                sgid: ibv_gid {
                    raw: rules::gid(own),
                },
                dgid: ibv_gid {
                    raw: rules::gid(peer.addr),
                },
                pkey: PKEY,
            };
        }
        Ok(())
    }

    /// Puts the way to the peer into the struct of the program.
    pub(super) fn set_path(&self) {
        // SAFETY: It lives as long as this; the ends are there.
        let route = unsafe { &mut (*self.public.0).route };
        if !route.path_rec.is_null() {
            return;
        }
        // SAFETY: There is one kind of them.
        let ends = unsafe { route.addr.addr.ibaddr };
        // "Exactly".
        let selector = 2;
        route.path_rec = Box::into_raw(Box::new(ibv_sa_path_rec {
            dgid: ends.dgid,
            sgid: ends.sgid,
            hop_limit: 64,
            reversible: 1,
            numb_path: 1,
            pkey: ends.pkey,
            mtu_selector: selector,
            mtu: self.mtu as u8,
            rate_selector: selector,
            // 2.5 Gbit/s, as the port has it.
            rate: 2,
            packet_life_time_selector: selector,
            ..Default::default()
        }));
        route.num_paths = 1;
    }
}

/// Any address of the family that a peer's is of.
pub(super) fn any(six: bool) -> SocketAddr {
    names::in_family(Ipv6Addr::UNSPECIFIED.into(), 0, six)
}
