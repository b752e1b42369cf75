// SPDX-License-Identifier: GPL-2.0

//! SOCK_SEQPACKET sockets: system calls become requests of a queue pair.
//!
//! A socket has two halves in Rust. [`Socket`] belongs to `struct socket` and lives until its
//! release; system calls use it. [`Endpoint`] belongs to the queue pair and lives while packets or
//! works refer to it. It finds `struct sock` under RCU, and finds none after the release. So
//! packets and works do not hold the socket, its namespace or the module.

mod args;

use kernel::{
    new_mutex,
    prelude::*,
    rbtree::{RBTree, RBTreeNode},
    sync::{aref::ARef, atomic::Relaxed, Arc, Mutex},
};

use crate::{
    conn::Conn,
    kapi::{
        errno::{eaddrnotavail, edestaddrreq, ehostunreach, enobufs, enotconn, eopnotsupp},
        net::{state_of, Net},
        pages::Pages,
        params,
        sock::{
            ioctl, proto_ops, Key, Meta, MrDereg, MrReg, Name, ProtoOps, QpInfo, Received, Rma,
            SendRequest, Sock, SockState,
        },
        uaccess::{read_argument, write_argument},
        uapi,
    },
    node::Node,
    proto::wire::AtomicKind,
    qp::{
        work::{self, Local, Request, UnpostedWork, WorkOp},
        CompletionInfo, Endpoint, Names, Peer, Qp, QpKind, Region, Ticket, MAX_MESSAGE,
        UNSPECIFIED,
    },
    region,
};
use args::{check_name, SendArgs};

/// Memory that is charged to SO_SNDBUF for a message in addition to its pages, in bytes.
const MESSAGE_OVERHEAD: usize = 512;

/// Bytes that an atomic operation changes.
const ATOMIC_LEN: u32 = 8;

/// A socket, from its creation to its release.
#[pin_data(PinnedDrop)]
pub(crate) struct Socket {
    sk: ARef<Sock>,
    node: Arc<Node>,
    endpoint: Arc<Endpoint>,
    qp: Arc<Qp>,
    /// Serialises bind() and connect().
    #[pin]
    naming: Mutex<()>,
    /// Regions of the socket by key.
    #[pin]
    regions: Mutex<RBTree<u32, Arc<Region>>>,
}

impl SockState for Socket {
    /// Initialises the Rust half of the new socket `sk` in `net`. Process context.
    fn new(sk: ARef<Sock>, net: &Net) -> impl PinInit<Self, Error> {
        try_pin_init!(Socket {
            node: state_of(net).ok_or(ENODEV)?,
            endpoint: Endpoint::new(sk.clone(), node.senders().join(sk.uid())?)?,
            qp: Qp::new(QpKind::Socket(endpoint.clone()))?,
            sk,
            naming <- new_mutex!((), "superp_naming"),
            regions <- new_mutex!(RBTree::new(), "superp_regions"),
        })
    }

    /// ioctl(). Process context.
    ///
    /// # Errors
    ///
    /// `ENOIOCTLCMD`: not a command of the family. `EFAULT`. `uapi/linux/superp.h` has those of
    /// each command.
    fn ioctl(&self, cmd: u32, arg: usize) -> Result {
        match cmd {
            ioctl::MR_REG => self.mr_reg(arg),
            ioctl::MR_QUERY => self.mr_query(arg),
            ioctl::MR_DEREG => self.mr_dereg(&read_argument(arg)?),
            ioctl::QP_INFO => write_argument(arg, &self.qp_info()),
            _ => Err(ENOIOCTLCMD),
        }
    }
}

impl ProtoOps for Socket {
    type Name = Name;

    /// bind(). Process context.
    ///
    /// # Errors
    ///
    /// `EINVAL`: the socket is bound, `ssp_cid` names a connection, or `ssp_qpn` has over 24 bits.
    /// `EADDRNOTAVAIL`: not an address of this node. `EADDRINUSE`: another socket has the number,
    /// or no free one was found. `ENOMEM`.
    fn bind(&self, name: &Name) -> Result {
        check_name(name)?;
        let _naming = self.naming.lock();
        if self.qp.qpn() != 0 || name.ssp_cid != uapi::SUPERP_CID_ANY {
            return Err(EINVAL);
        }
        let any = name.ssp_addr == UNSPECIFIED;
        if !any && !self.node.has_addr(&name.ssp_addr) {
            return Err(eaddrnotavail());
        }
        // This precedes the number. Otherwise a message to another address could arrive in between.
        self.endpoint().names.lock().local = name.ssp_addr;
        let bound = self.bind_locked(name.ssp_qpn);
        if bound.is_err() {
            self.endpoint().names.lock().local = UNSPECIFIED;
        }
        bound
    }

    /// connect(). Process context.
    ///
    /// # Errors
    ///
    /// `EHOSTUNREACH`: no established connection fits. `EADDRINUSE`: no free number was found.
    /// `ENOMEM`.
    fn connect(&self, name: &Name) -> Result {
        check_name(name)?;
        let names = *self.endpoint().names.lock();
        let conn = self.route(&names, name)?;
        self.autobind()?;
        let _naming = self.naming.lock();
        let peer = Peer {
            addr: name.ssp_addr,
            qpn: name.ssp_qpn,
            cid: conn.cid(),
        };
        // `while_established` runs this under the connection's lock. A connection that ends later
        // sees the peer and sets the pending error of the socket.
        conn.while_established(|| self.endpoint().names.lock().peer = Some(peer))
            .ok_or_else(ehostunreach)
    }

    /// connect() to AF_UNSPEC: the socket keeps its number and receives from every peer again.
    /// Process context.
    fn disconnect(&self) {
        let _naming = self.naming.lock();
        self.endpoint().names.lock().peer = None;
    }

    /// getsockname(), or getpeername() if `peer` is set. Process context.
    ///
    /// # Errors
    ///
    /// `ENOTCONN`: the socket has no peer.
    fn name(&self, peer: bool) -> Result<Name> {
        let names = *self.endpoint().names.lock();
        let connected = names.peer.ok_or_else(enotconn);
        let mut name = Name {
            ssp_family: params::family(),
            ssp_flags: 0,
            ssp_qpn: self.qp.qpn(),
            ssp_addr: names.local,
            ssp_cid: uapi::SUPERP_CID_ANY,
        };
        if let Ok(peer) = &connected {
            name.ssp_cid = peer.cid;
        }
        if peer {
            let peer = connected?;
            name.ssp_addr = peer.addr;
            name.ssp_qpn = peer.qpn;
        }
        Ok(name)
    }

    /// recvmsg(): address and control messages of a message. Process context.
    fn received(&self, meta: &Meta, reply: &mut Received<'_>) -> Name {
        args::describe(meta, reply)
    }

    /// Whether SO_SNDBUF admits a message now. Any context.
    fn writable(&self) -> bool {
        self.endpoint().sndbuf_used.load(Relaxed) < self.sk.sndbuf()
    }

    /// Memory of the messages that have not completed, in bytes. Any context.
    fn queued(&self) -> i32 {
        i32::try_from(self.endpoint().sndbuf_used.load(Relaxed)).unwrap_or(i32::MAX)
    }

    /// sendmsg(): returns the bytes sent, 0 for a remote memory request. Process context.
    ///
    /// # Errors
    ///
    /// `EPIPE`: sending was shut down. Others are in Documentation/uapi.md.
    fn send(&self, request: &mut SendRequest<'_>) -> Result<usize> {
        let args = SendArgs::read(request)?;
        if self.sk.send_closed() {
            return Err(self.sk.pipe_error(request.flags()));
        }
        match &args.rma {
            Some(_) if args.key.is_some() => Err(EINVAL),
            Some(rma) => self.post_rma(request, &args, rma).map(|()| 0),
            None => self.send_message(request, &args),
        }
    }
}

proto_ops!(Socket);

impl Socket {
    fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Binds the socket. The caller holds `naming`.
    fn bind_locked(&self, qpn: u32) -> Result {
        self.node.qps().bind(&self.qp, qpn)?;
        self.sk.set_bound();
        Ok(())
    }

    /// Binds the socket to a free number if it has none: a socket that sends or connects needs one.
    fn autobind(&self) -> Result {
        if self.qp.qpn() != 0 {
            return Ok(());
        }
        let _naming = self.naming.lock();
        if self.qp.qpn() != 0 {
            return Ok(());
        }
        self.bind_locked(0)
    }

    /// The established connection to `to` that a socket with these addresses uses.
    fn route(&self, names: &Names, to: &Name) -> Result<Arc<Conn>> {
        let local = (names.local != UNSPECIFIED).then_some(&names.local);
        self.node
            .conn_for(local, &to.ssp_addr, to.ssp_cid)
            .ok_or_else(ehostunreach)
    }

    /// The connection of a connected socket. A new connection may have got the id of a removed one,
    /// so that the address is compared.
    fn connection(&self, peer: &Peer) -> Result<Arc<Conn>> {
        self.node
            .conn(peer.cid)
            .filter(|conn| conn.remote() == peer.addr)
            .ok_or_else(ehostunreach)
    }

    /// The connection of a request, and the destination queue pair or 0.
    fn destination(&self, args: &SendArgs) -> Result<(Arc<Conn>, u32)> {
        let names = *self.endpoint().names.lock();
        match (&args.name, names.peer) {
            (Some(name), _) => Ok((self.route(&names, name)?, name.ssp_qpn)),
            (None, Some(peer)) => Ok((self.connection(&peer)?, peer.qpn)),
            (None, None) => Err(enotconn()),
        }
    }

    /// Sends a message: copies its data and posts it. Returns its length.
    fn send_message(&self, request: &mut SendRequest<'_>, args: &SendArgs) -> Result<usize> {
        let bytes = request.len();
        let len = u32::try_from(bytes)
            .ok()
            .filter(|len| *len <= MAX_MESSAGE)
            .ok_or(EMSGSIZE)?;
        let (conn, qpn) = self.destination(args)?;
        let op = match &args.key {
            Some(key) => keyed_op(args, key, len, &conn)?,
            None => {
                if qpn == 0 {
                    return Err(edestaddrreq());
                }
                let imm = args.imm;
                if imm.is_some() && !conn.ext() {
                    return Err(eopnotsupp());
                }
                if len < conn.min_message() || len > conn.max_message() {
                    return Err(EMSGSIZE);
                }
                WorkOp::Send { imm }
            }
        };
        self.autobind()?;
        let charge = self.charge_sndbuf(request, bytes)?;
        let ticket = Ticket::message(self.endpoint.clone(), len, charge);
        let local = if len == 0 {
            Local::None
        } else {
            let pages = Pages::alloc(len.into())?;
            pages.copy_from_iter(0, bytes, request.data())?;
            Local::Buffer(pages)
        };
        let ticket = work::Ticket::Socket(ticket);
        let request = Request {
            dest: qpn,
            op,
            len,
            local,
            fence: false,
            solicited: false,
        };
        conn.post(UnpostedWork::new(ticket, request)?.into())?;
        Ok(bytes)
    }

    /// Waits until SO_SNDBUF admits a message of `len` bytes, and charges it. Returns the charge.
    ///
    /// # Errors
    ///
    /// `EAGAIN`: the send timeout is over, or the call must not wait. `ERESTARTSYS`, `EINTR`: a
    /// signal is pending. `EPIPE`: sending was shut down. `ENOBUFS`: see [`Self::charge_user`]. The
    /// pending error of the socket, if there is one.
    fn charge_sndbuf(&self, request: &SendRequest<'_>, len: usize) -> Result<isize> {
        let memory = len
            .checked_next_multiple_of(kernel::page::PAGE_SIZE)
            .and_then(|pages| pages.checked_add(MESSAGE_OVERHEAD))
            .ok_or(EMSGSIZE)?;
        // CAST: At most MAX_MESSAGE, rounded up to pages, and the overhead.
        let memory = memory as isize;
        let mut timeout = self.sk.send_timeout(request.nonblock());
        loop {
            self.sk.take_error()?;
            if self.sk.send_closed() {
                return Err(self.sk.pipe_error(request.flags()));
            }
            if self.endpoint().charge(&self.sk, memory) {
                return self.charge_user(memory);
            }
            request.wait_space(&mut timeout)?;
        }
    }

    /// Charges `memory`, which is charged to SO_SNDBUF, to the user as well. Returns it.
    ///
    /// # Errors
    ///
    /// `ENOBUFS`: the messages of the user's sockets take `tal_sndbuf_per_user` bytes or more.
    /// Nothing is charged then.
    fn charge_user(&self, memory: isize) -> Result<isize> {
        let endpoint = self.endpoint();
        let limit = self.node.param_get(crate::params::SNDBUF_PER_USER);
        let limit = isize::try_from(limit).unwrap_or(isize::MAX);
        if endpoint.sender.charge(memory, limit) {
            return Ok(memory);
        }
        // Another thread may wait for what was charged meanwhile.
        endpoint.uncharge_sndbuf(memory);
        Err(enobufs())
    }

    /// Posts a remote read, write or atomic operation. Documentation/uapi.md lists the errors.
    fn post_rma(&self, request: &SendRequest<'_>, args: &SendArgs, rma: &Rma) -> Result {
        let fence = u32::from(rma.flags) & uapi::SUPERP_RMA_F_FENCE != 0;
        let unknown = u32::from(rma.flags) & !uapi::SUPERP_RMA_F_FENCE != 0;
        if unknown || rma.rsvd != 0 || request.len() != 0 {
            return Err(EINVAL);
        }
        let (remote, imm) = (rma.remote_addr, args.imm);
        let op = match u32::from(rma.op) {
            uapi::SUPERP_RMA_WRITE if args.atomic.is_none() => WorkOp::Write { remote, imm },
            uapi::SUPERP_RMA_READ if args.atomic.is_none() => WorkOp::Read { remote },
            _ => atomic_op(args, rma)?,
        };
        let write = matches!(op, WorkOp::Write { .. });
        if imm.is_some() && !write {
            return Err(EINVAL);
        }
        if rma.length > uapi::SUPERP_MAX_RMA {
            return Err(EMSGSIZE);
        }
        let local = match rma.length {
            0 => Local::None,
            _ => self.local(rma, op)?,
        };
        let (conn, qpn) = self.destination(args)?;
        if (matches!(op, WorkOp::Atomic { .. }) || imm.is_some()) && !conn.ext() {
            return Err(eopnotsupp());
        }
        if imm.is_some() && qpn == 0 {
            return Err(edestaddrreq());
        }
        if write && rma.length != 0 && rma.length < conn.min_message() {
            return Err(EMSGSIZE);
        }
        self.autobind()?;
        let completion = CompletionInfo {
            token: rma.token,
            len: rma.length,
            op: rma.op,
        };
        let ticket = Ticket::request(self.endpoint.clone(), &self.sk, completion)?;
        let ticket = work::Ticket::Socket(ticket);
        let request = Request {
            dest: qpn,
            op,
            len: rma.length,
            local,
            fence,
            solicited: false,
        };
        conn.post(UnpostedWork::new(ticket, request)?.into())
    }

    /// The local memory of a request that is not empty.
    ///
    /// # Errors
    ///
    /// `ENOENT`: no such region. `ERANGE`: not all bytes are in the region. `EACCES`: the region
    /// does not grant `LOCAL_WRITE`.
    fn local(&self, rma: &Rma, op: WorkOp) -> Result<Local> {
        let region = self.region(rma.key)?;
        let offset = region
            .local_offset(rma.local_addr, rma.length.into())
            .ok_or(ERANGE)?;
        if !matches!(op, WorkOp::Write { .. }) && !region.grants(region::LOCAL_WRITE) {
            return Err(EACCES);
        }
        Ok(Local::Region(region, offset))
    }

    /// Region `key` of the socket, or `ENOENT`.
    fn region(&self, key: u32) -> Result<Arc<Region>> {
        self.regions.lock().get(&key).cloned().ok_or(ENOENT)
    }

    /// `SUPERP_IOC_MR_REG`. Sleeps.
    fn mr_reg(&self, arg: usize) -> Result {
        let mut reg: MrReg = read_argument(arg)?;
        if reg.rsvd != 0 {
            return Err(EINVAL);
        }
        if reg.access & region::RECEIVE != 0 {
            // Messages to a receive context are reported to its socket, so the socket needs a
            // number.
            self.autobind()?;
        }
        let region = self.node.regions().register(
            reg.addr,
            reg.length,
            reg.access,
            reg.partition,
            Some(self.qp.clone()),
        )?;
        reg.key = region.key();
        reg.rma_addr = region.info().rma_addr;
        self.insert_region(&region)
            .and_then(|()| write_argument(arg, &reg))
            .inspect_err(|_| {
                // The program does not know the region yet.
                drop(self.regions.lock().remove(&reg.key));
                self.node.regions().remove(&region);
            })
    }

    /// Adds `region` to those of the socket.
    fn insert_region(&self, region: &Arc<Region>) -> Result {
        let node = RBTreeNode::new(region.key(), region.clone(), GFP_KERNEL_ACCOUNT)?;
        drop(self.regions.lock().insert(node));
        Ok(())
    }

    /// `SUPERP_IOC_MR_QUERY`.
    fn mr_query(&self, arg: usize) -> Result {
        region::query(arg, |key| self.region(key))
    }

    /// `SUPERP_IOC_MR_DEREG`. Sleeps for a grace period.
    fn mr_dereg(&self, dereg: &MrDereg) -> Result {
        if dereg.rsvd != 0 {
            return Err(EINVAL);
        }
        let region = self.regions.lock().remove(&dereg.key).ok_or(ENOENT)?;
        self.node.regions().remove(&region);
        Ok(())
    }

    /// `SUPERP_IOC_QP_INFO`.
    fn qp_info(&self) -> QpInfo {
        let names = *self.endpoint().names.lock();
        let mut info = QpInfo {
            qpn: self.qp.qpn(),
            cid: uapi::SUPERP_CID_ANY,
            flags: 0,
            max_message: 0,
            min_message: 0,
            max_keyed: 0,
        };
        if let Some(peer) = names.peer {
            info.cid = peer.cid;
            if let Ok(conn) = self.connection(&peer) {
                info.max_message = conn.max_message().min(MAX_MESSAGE);
                info.min_message = conn.min_message();
                info.max_keyed = *conn.keyed_message().end();
                info.flags = conn.qp_flags();
            }
        }
        info
    }
}

/// release(). When this returns, no peer reaches the socket or its regions any more. Requests under
/// way go on. Process context. Sleeps for a grace period if there are regions.
#[pinned_drop]
impl PinnedDrop for Socket {
    fn drop(self: Pin<&mut Self>) {
        self.endpoint().sock.clear();
        self.node.qp_unbind(&self.qp);
        let regions = self.regions.lock();
        self.node
            .regions()
            .remove_each(|| regions.values().cloned());
    }
}

/// The operation for a message of `len` bytes to the receive context of `key`.
fn keyed_op(args: &SendArgs, key: &Key, len: u32, conn: &Conn) -> Result<WorkOp> {
    let overflows = key.offset.checked_add(len).is_none();
    if key.length != 0 || key.rsvd != 0 || args.imm.is_some() || overflows {
        return Err(EINVAL);
    }
    if !conn.keyed_message().contains(&len) {
        return Err(EMSGSIZE);
    }
    Ok(WorkOp::SendKeyed {
        key: key.key,
        offset: key.offset,
    })
}

/// The operation for an atomic request.
fn atomic_op(args: &SendArgs, rma: &Rma) -> Result<WorkOp> {
    let (operand, compare) = args.atomic.ok_or(eopnotsupp())?;
    let kind = match u32::from(rma.op) {
        uapi::SUPERP_RMA_FETCH_ADD => AtomicKind::FetchAdd,
        uapi::SUPERP_RMA_COMPARE_SWAP => AtomicKind::CompareSwap,
        uapi::SUPERP_RMA_SWAP => AtomicKind::Swap,
        _ => return Err(eopnotsupp()),
    };
    let uses_compare = kind == AtomicKind::CompareSwap;
    if rma.length != ATOMIC_LEN || rma.remote_addr & 7 != 0 || (compare != 0 && !uses_compare) {
        return Err(EINVAL);
    }
    Ok(WorkOp::Atomic {
        remote: rma.remote_addr,
        kind,
        operand,
        compare,
    })
}
