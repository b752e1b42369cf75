// SPDX-License-Identifier: GPL-2.0

//! Contexts: sockets with many queue pairs, whose queues are rings in memory that the kernel shares
//! with the program. `uapi/linux/superp.h` has the interface.
//!
//! The kernel trusts nothing in that memory. It copies an entry once and then checks the copy. It
//! has indices of its own and never reads back those that it publishes.

mod builder;
mod entry;
mod submit;

use core::hint;

use kernel::{
    new_mutex,
    prelude::*,
    sync::{aref::ARef, Arc, Mutex},
};

use crate::{
    kapi::{
        defer,
        errno::{eafnosupport, ehostunreach, eisconn, enobufs},
        event::EventFd,
        map::RcuMap,
        net::{state_of, Net},
        params,
        ring::{
            ioctl, ring_ops, CqCreate, CqEventfd, Layout, MapRequest, RingDestroy, RingOps,
            RqpConnect, RqpCreate, RqpModify, Serve, Shared, SrqCreate, SrqEventfd,
        },
        sock::{ioctl as mr, MrDereg, MrReg, Sock, SockState},
        timer,
        uaccess::{read_argument, write_argument},
        uapi,
    },
    node::Node,
    qp::{Cq, LocalRegions, Page, Params, Qp, QpKind, Queue, RingPeer, Srq},
    region,
};

use submit::{DoorbellResult, SendQueue};

/// Distance between the mmap() offsets of two queues, as a power of two. No ring is larger than 16
/// MiB.
const OFFSET_BITS: u32 = 24;
/// mmap() offsets of the first completion queue and of the first shared receive queue. Queue pairs
/// are below, and the page of the context is at 0.
const CQ_OFFSET: u64 = 1 << 36;
const SRQ_OFFSET: u64 = 1 << 37;

/// A context, from the creation to the release of its socket.
#[pin_data(PinnedDrop)]
pub(crate) struct Context {
    node: Arc<Node>,
    page: Arc<Page>,
    regions: Arc<LocalRegions>,
    /// Serialises the creation and destruction of queues. It is taken outside of `Node::config`.
    #[pin]
    config: Mutex<()>,
    /// Held by the thread in `SUPERP_IOC_SERVE`.
    #[pin]
    serving: Mutex<()>,
    #[pin]
    cqs: RcuMap<Cq>,
    #[pin]
    srqs: RcuMap<Srq>,
    #[pin]
    qps: RcuMap<SendQueue>,
}

/// The node of a context, or `None` if its socket was closed. Any context up to softirq.
fn node_of(page: &Page) -> Option<Arc<Node>> {
    page.with_net(state_of).flatten()
}

/// The lowest number below `end` that is free in `table`. `ENOSPC` if there is none.
fn free_id<T: Send + Sync>(table: &RcuMap<T>, end: u32) -> Result<u32> {
    (0..end).find(|id| table.get(*id).is_none()).ok_or(ENOSPC)
}

/// mmap() offset of queue `id`, where queue 0 is at `base`.
fn map_offset(base: u64, id: u32) -> u64 {
    base.wrapping_add(u64::from(id) << OFFSET_BITS)
}

/// Checks that `entries` is a power of two and at most `max`.
fn check_entries(entries: u32, max: u32) -> Result {
    if entries.is_power_of_two() && entries <= max {
        Ok(())
    } else {
        Err(EINVAL)
    }
}

/// mmap() offset of the first queue pair.
const QP_OFFSET: u64 = 1 << OFFSET_BITS;

impl SockState for Context {
    /// Initialises the context of the new socket `sk` in `net`. Process context.
    fn new(sk: ARef<Sock>, net: &Net) -> impl PinInit<Self, Error> {
        try_pin_init!(Context {
            node: state_of(net).ok_or(ENODEV)?,
            page: Page::new(sk)?,
            regions: LocalRegions::new()?,
            config <- new_mutex!((), "superp_context"),
            serving <- new_mutex!((), "superp_serving"),
            cqs <- RcuMap::new(),
            srqs <- RcuMap::new(),
            qps <- RcuMap::new(),
        })
    }

    /// ioctl(). Process context.
    ///
    /// # Errors
    ///
    /// `ENOIOCTLCMD`: not a command of contexts. `EFAULT`. `uapi/linux/superp.h` has those of each
    /// command.
    fn ioctl(&self, cmd: u32, arg: usize) -> Result {
        match cmd {
            mr::MR_REG => self.mr_reg(arg),
            mr::MR_QUERY => self.mr_query(arg),
            mr::MR_DEREG => self.mr_dereg(arg),
            ioctl::CQ_CREATE => self.cq_create(arg),
            ioctl::CQ_DESTROY => self.cq_destroy(arg),
            ioctl::CQ_EVENTFD => self.cq_eventfd(arg),
            ioctl::RQP_CREATE => self.qp_create(arg),
            ioctl::RQP_CONNECT => self.qp_connect(arg),
            ioctl::RQP_MODIFY => self.qp_modify(arg),
            ioctl::RQP_DESTROY => self.qp_destroy(arg),
            ioctl::SRQ_CREATE => self.srq_create(arg),
            ioctl::SRQ_DESTROY => self.srq_destroy(arg),
            ioctl::SRQ_EVENTFD => self.srq_eventfd(arg),
            ioctl::SERVE => self.serve_for(arg),
            _ => Err(ENOIOCTLCMD),
        }
    }
}

impl RingOps for Context {
    /// Whether poll() reports POLLIN: an event bit is set. Any context.
    fn readable(&self) -> bool {
        self.page.bits().any_event()
    }

    /// Serves every queue pair whose doorbell bit is set. `more`: the program need not ring for the
    /// entries that follow, because the poll timer looks for them. Process context.
    ///
    /// # Errors
    ///
    /// `ENOBUFS`: a completion queue is full. `EINTR`: a signal is pending. In both cases entries
    /// are left, and the doorbell bits of their queue pairs are set again.
    fn doorbell(&self, more: bool) -> Result {
        let mut result = Ok(());
        for (first, mut bits) in self.page.bits().take_bells() {
            while bits != 0 {
                let qp = first.wrapping_add(bits.trailing_zeros());
                bits &= bits.wrapping_sub(1);
                result = result.and(self.finish_doorbell(qp, self.serve(qp, more)));
            }
        }
        result
    }

    /// mmap(). Process context, with mmap_lock held.
    ///
    /// # Errors
    ///
    /// `EINVAL`: no queue has this offset, the mapping is longer than the queue, or it is not
    /// shared. `ENOMEM`.
    fn mmap(&self, request: &MapRequest) -> Result {
        let memory = self.memory_at(request.offset()).ok_or(EINVAL)?;
        memory.map(request)
    }
}

ring_ops!(Context);

impl Context {
    /// Turns the result of a doorbell for queue pair `qp` into that of the system call. If entries
    /// are left, the doorbell bit is set again.
    fn finish_doorbell(&self, qp: u32, result: DoorbellResult) -> Result {
        let error = match result {
            DoorbellResult::Done => return Ok(()),
            DoorbellResult::CqFull => enobufs(),
            DoorbellResult::Signal => EINTR,
        };
        self.page.set_doorbell(qp);
        Err(error)
    }

    /// Serves queue pair `qp` for a doorbell. Does nothing if there is none: the program can set
    /// any bit.
    fn serve(&self, qp: u32, more: bool) -> DoorbellResult {
        let result = match self.qps.get(qp) {
            Some(qp) => qp.serve(&self.node, more),
            None => DoorbellResult::Done,
        };
        defer::resched();
        result
    }

    /// `SUPERP_IOC_SERVE`: polls all submission rings for some time, so that the program needs no
    /// doorbells. Process context; spins until the time is over or a signal is pending.
    fn serve_for(&self, arg: usize) -> Result {
        let Serve { usec, rsvd } = read_argument(arg)?;
        if rsvd != 0 || !(1..=uapi::SUPERP_MAX_SERVE).contains(&usec) {
            return Err(EINVAL);
        }
        let _serving = self.serving.try_lock().ok_or(EBUSY)?;
        let end = timer::now().saturating_add(u64::from(usec).saturating_mul(1000));
        let mut result = Ok(());
        while result.is_ok() && timer::now() < end {
            for (_, qp) in self.qps.iter() {
                qp.watch(&self.node);
            }
            if kernel::current!().signal_pending() {
                result = Err(EINTR);
            }
            hint::spin_loop();
            defer::resched();
        }
        for (id, qp) in self.qps.iter() {
            result = result.and(self.finish_doorbell(id, qp.unwatch(&self.node)));
        }
        result
    }

    /// The shared memory at an mmap() offset.
    fn memory_at(&self, offset: u64) -> Option<Arc<Shared>> {
        if offset == 0 {
            return Some(self.page.bits().memory().clone());
        }
        let id = |base| {
            let relative: u64 = offset.checked_sub(base)?;
            let id = u32::try_from(relative >> OFFSET_BITS).ok()?;
            (map_offset(base, id) == offset).then_some(id)
        };
        if let Some(srq) = id(SRQ_OFFSET) {
            return Some(self.srqs.get(srq)?.ring().memory().clone());
        }
        if let Some(cq) = id(CQ_OFFSET) {
            return Some(self.cqs.get(cq)?.ring().memory().clone());
        }
        let qp = self.qps.get(id(QP_OFFSET)?)?;
        Some(qp.queue().sq().memory().clone())
    }

    /// `SUPERP_IOC_MR_REG`. Process context, sleeps.
    fn mr_reg(&self, arg: usize) -> Result {
        let mut reg: MrReg = read_argument(arg)?;
        if reg.rsvd != 0 {
            return Err(EINVAL);
        }
        let MrReg { addr, length, .. } = reg;
        let regions = self.node.regions();
        let region = regions.register(addr, length, reg.access, reg.partition, None)?;
        reg.key = region.key();
        reg.rma_addr = region.info().rma_addr;
        let registered = self
            .regions
            .insert(region.clone())
            .and_then(|()| write_argument(arg, &reg));
        registered.inspect_err(|_| {
            // The program does not know the region yet.
            self.regions.remove(reg.key);
            regions.remove(&region);
        })
    }

    /// `SUPERP_IOC_MR_QUERY`. Process context.
    fn mr_query(&self, arg: usize) -> Result {
        region::query(arg, |key| self.regions.get(key).ok_or(ENOENT))
    }

    /// `SUPERP_IOC_MR_DEREG`. Process context, sleeps for two grace periods.
    fn mr_dereg(&self, arg: usize) -> Result {
        let dereg: MrDereg = read_argument(arg)?;
        if dereg.rsvd != 0 {
            return Err(EINVAL);
        }
        let region = self.regions.remove(dereg.key).ok_or(ENOENT)?;
        self.node.regions().remove(&region);
        Ok(())
    }

    fn cq_create(&self, arg: usize) -> Result {
        let mut create: CqCreate = read_argument(arg)?;
        check_entries(create.entries, uapi::SUPERP_MAX_CQ_ENTRIES)?;
        let _config = self.config.lock();
        let id = free_id(&self.cqs, uapi::SUPERP_MAX_RING_CQS)?;
        let cq = Cq::new(&self.page, id, create.entries)?;
        create.cq = id;
        create.offset = map_offset(CQ_OFFSET, id);
        create.size = cq.ring().memory().size() as u64;
        create.ring = cq.ring().layout(true);
        self.cqs.insert(id, cq)?;
        write_argument(arg, &create).inspect_err(|_| {
            // The program does not know the queue yet.
            self.cqs.remove(id);
        })
    }

    fn cq_destroy(&self, arg: usize) -> Result {
        let id = queue_id(arg)?;
        let _config = self.config.lock();
        if self.cqs.get(id).ok_or(ENOENT)?.users.any() {
            return Err(EBUSY);
        }
        self.cqs.remove(id);
        Ok(())
    }

    fn cq_eventfd(&self, arg: usize) -> Result {
        let request: CqEventfd = read_argument(arg)?;
        let cq = self.cqs.get(request.cq).ok_or(ENOENT)?;
        cq.set_eventfd(EventFd::of(request.fd)?)
    }

    fn srq_create(&self, arg: usize) -> Result {
        let mut create: SrqCreate = read_argument(arg)?;
        check_entries(create.entries, uapi::SUPERP_MAX_SRQ_ENTRIES)?;
        if create.segments > uapi::SUPERP_MAX_SEGMENTS || create.rsvd != 0 {
            return Err(EINVAL);
        }
        let _config = self.config.lock();
        let id = free_id(&self.srqs, uapi::SUPERP_MAX_RING_SRQS)?;
        let srq = Srq::new(create.entries, create.segments)?;
        create.srq = id;
        create.offset = map_offset(SRQ_OFFSET, id);
        create.size = srq.ring().memory().size() as u64;
        create.ring = srq.ring().layout(true);
        self.srqs.insert(id, srq)?;
        write_argument(arg, &create).inspect_err(|_| {
            // The program does not know the queue yet.
            self.srqs.remove(id);
        })
    }

    fn srq_destroy(&self, arg: usize) -> Result {
        let id = queue_id(arg)?;
        let _config = self.config.lock();
        if self.srqs.get(id).ok_or(ENOENT)?.users.any() {
            return Err(EBUSY);
        }
        self.srqs.remove(id);
        Ok(())
    }

    fn srq_eventfd(&self, arg: usize) -> Result {
        let request: SrqEventfd = read_argument(arg)?;
        let srq = self.srqs.get(request.srq).ok_or(ENOENT)?;
        srq.set_eventfd(EventFd::of(request.fd)?)
    }

    /// The shared receive queue that a new queue pair uses, or `None`. The caller holds `config`.
    fn requested_srq(&self, create: &RqpCreate) -> Result<Option<Arc<Srq>>> {
        match (create.flags, create.srq) {
            (0, 0) => Ok(None),
            (uapi::SUPERP_RQP_SRQ, id) if create.rq_entries == 0 && create.rq_segments == 0 => {
                self.srqs.get(id).ok_or(ENOENT).map(Some)
            }
            _ => Err(EINVAL),
        }
    }

    fn qp_create(&self, arg: usize) -> Result {
        let mut create: RqpCreate = read_argument(arg)?;
        check_entries(create.sq_entries, uapi::SUPERP_MAX_SQ_ENTRIES)?;
        let segments = create.sq_segments.max(create.rq_segments);
        if segments > uapi::SUPERP_MAX_SEGMENTS {
            return Err(EINVAL);
        }
        if create.rq_entries != 0 {
            check_entries(create.rq_entries, uapi::SUPERP_MAX_RQ_ENTRIES)?;
        }
        let _config = self.config.lock();
        let srq = self.requested_srq(&create)?;
        let receives = create.rq_entries != 0 || srq.is_some();
        let cq = |id| self.cqs.get(id).ok_or(ENOENT);
        let id = free_id(&self.qps, uapi::SUPERP_MAX_RING_QPS)?;
        let params = Params {
            id,
            sq_entries: create.sq_entries,
            rq_entries: create.rq_entries,
            sq_segments: create.sq_segments,
            rq_segments: create.rq_segments,
            send_cq: cq(create.send_cq)?,
            recv_cq: if receives {
                Some(cq(create.recv_cq)?)
            } else {
                None
            },
            srq,
        };
        let queue = Queue::new(&self.page, &self.regions, params)?;
        create.qp = id;
        create.offset = map_offset(QP_OFFSET, id);
        create.size = queue.sq().memory().size() as u64;
        create.sq = queue.sq().layout(true);
        create.rq = queue.rq().map_or(Layout::default(), |rq| rq.layout(false));
        let created = Qp::new(QpKind::Ring(queue.clone())).and_then(|qp| {
            self.qps
                .insert(id, SendQueue::new(qp.clone(), queue.clone())?)?;
            self.page.bits().cover(id);
            create.qpn = self.node.qps().bind(&qp, create.qpn)?;
            write_argument(arg, &create)
        });
        created.inspect_err(|_| {
            match self.qps.get(id) {
                Some(qp) => qp.close(),
                None => queue.close(),
            }
            self.qp_remove(id);
        })
    }

    /// Removes queue pair `id` from the tables of the context and of the node.
    fn qp_remove(&self, id: u32) {
        if let Some(qp) = self.qps.get(id) {
            // This must not wait for a grace period, because a program may destroy a thousand queue
            // pairs in a row.
            self.qps.remove_later(id);
            self.node.qp_unbind(qp.qp());
        }
    }

    fn qp_destroy(&self, arg: usize) -> Result {
        let id = queue_id(arg)?;
        let _config = self.config.lock();
        let qp = self.qps.get(id).ok_or(ENOENT)?;
        self.node.qps().enter_time_wait(qp.qp());
        qp.close();
        self.qp_remove(id);
        Ok(())
    }

    fn qp_connect(&self, arg: usize) -> Result {
        let mut connect: RqpConnect = read_argument(arg)?;
        let name = connect.peer;
        if connect.rsvd != 0 || name.ssp_flags != 0 || name.ssp_qpn > uapi::SUPERP_QPN_MAX {
            return Err(EINVAL);
        }
        if name.ssp_family != params::family() {
            return Err(eafnosupport());
        }
        let qp = self.qps.get(connect.qp).ok_or(ENOENT)?;
        let queue = qp.queue();
        let conn = self
            .node
            .conn_for(None, &name.ssp_addr, name.ssp_cid)
            .ok_or_else(ehostunreach)?;
        connect.max_message = conn.max_message();
        connect.min_message = conn.min_message();
        connect.peer.ssp_cid = conn.cid();
        connect.flags = conn.qp_flags();
        let peer = RingPeer {
            addr: name.ssp_addr,
            qpn: name.ssp_qpn,
            cid: conn.cid(),
        };
        // `while_established` runs this under the connection's lock. A connection that ends later
        // sees the peer and puts the queue pair into the error state.
        match conn.while_established(|| queue.set_peer(peer)) {
            Some(true) => write_argument(arg, &connect),
            Some(false) => Err(eisconn()),
            None => Err(ehostunreach()),
        }
    }

    fn qp_modify(&self, arg: usize) -> Result {
        let modify: RqpModify = read_argument(arg)?;
        let qp = self.qps.get(modify.qp).ok_or(ENOENT)?;
        if modify.state != uapi::SUPERP_QPS_ERR {
            return Err(EINVAL);
        }
        self.finish_doorbell(modify.qp, qp.fail_and_flush(&self.node))
    }
}

/// Reads the argument of a command that destroys a queue. Returns the number of the queue.
fn queue_id(arg: usize) -> Result<u32> {
    let destroy: RingDestroy = read_argument(arg)?;
    if destroy.rsvd != 0 {
        return Err(EINVAL);
    }
    Ok(destroy.id)
}

/// release(). When this returns, no peer reaches the queue pairs and regions any more. Requests
/// under way go on and complete into memory that nobody reads. Process context, sleeps for grace
/// periods.
#[pinned_drop]
impl PinnedDrop for Context {
    fn drop(self: Pin<&mut Self>) {
        self.page.clear();
        for (_, qp) in self.qps.iter() {
            self.node.qps().enter_time_wait(qp.qp());
            qp.close();
        }
        self.node
            .qp_unbind_each(self.qps.iter().map(|(_, qp)| qp.qp().clone()));
        self.node.regions().remove_each(|| self.regions.iter());
    }
}
