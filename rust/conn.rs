// SPDX-License-Identifier: GPL-2.0

//! Connections. A connection is the protocol core with its lock, timer and paths, and the works
//! that local queue pairs posted to it.
//!
//! One spinlock with bottom halves off protects everything of a connection. The code runs in the
//! context of its cause: the poster of a work, the softirq that received a packet, or the timer.
//! After each of these [`Conn::run`] drains the core: events, new transactions, packets.

mod active;
mod chunks;
mod ending;
mod flow;
mod links;
mod out;
mod partial;
mod paths;
mod receiver;
mod rx;
mod tx;

use core::ops::RangeInclusive;

use kernel::{
    alloc::AllocError,
    list::{List, ListArc},
    prelude::*,
    sync::{
        atomic::{Atomic, Relaxed},
        new_mutex, Arc, Mutex,
    },
    workqueue::{new_work, Work as WorkStruct},
};

use crate::{
    event::Event,
    kapi::{
        errno::{ealready, econnreset, enotconn, Refusal},
        lock::{new_spinlock_bh, GuardBh, SpinLockBh},
        path::{Encap, Path},
        timer::{self, Timer, TimerCallback},
        uapi,
    },
    proto::{self, Activity, Code, Config, Connection, NewError, Stats},
    qp::work::{PackKey, Work},
    resources::Resources,
    slabs::Kernel,
};

pub(crate) use crate::event::ConnState;
pub(crate) use paths::{PathEnds, Port, PATHS_MAX};

/// One path of a connection that is to be created. Addresses are IPv6 or v4-mapped, in network byte
/// order.
pub(crate) struct PathParams {
    /// Device of the path. 0 is for the only path of a connection: over UDP the route chooses the
    /// device, over SUNH the node must have exactly one port that serves SUNH.
    pub(crate) ifindex: u32,
    /// `None`: the source address that the stack chooses towards `remote`.
    pub(crate) local: Option<[u8; 16]>,
    pub(crate) remote: [u8; 16],
    /// Static Ethernet address of the peer. `None`: ARP or neighbour discovery finds it.
    pub(crate) mac: Option<[u8; 6]>,
}

/// Parameters of a connection that is to be created.
pub(crate) struct ConnParams {
    /// `None`: the smallest id that is free and not in quarantine [proto 3.20].
    pub(crate) local_cid: Option<u16>,
    pub(crate) encap: Encap,
    /// 1 to [`PATHS_MAX`] paths.
    pub(crate) paths: KVec<PathParams>,
    /// The connection reaches regions of this partition, and those of partition 0 [proto 5].
    pub(crate) partition: u32,
    pub(crate) tclass: u8,
    /// `None`: the node's `nh_hop_limit`.
    pub(crate) hop_limit: Option<u8>,
    /// `None`: derived from the connection's ids.
    pub(crate) flow_label: Option<u32>,
    /// Each packet takes the next path and has an entropy of its own, so that the network sees
    /// another flow. For unordered connections only.
    pub(crate) spray: bool,
    /// Longest packet, in bytes from the PDL header on. `None`: the longest that every path
    /// carries.
    pub(crate) mtu: Option<u32>,
    pub(crate) config: Config,
}

/// What is fixed for a connection: [`ConnParams`] with every default resolved. Reading it needs no
/// lock.
pub(crate) struct Identity {
    pub(crate) cid: u16,
    pub(crate) encap: Encap,
    /// Addresses of the first path. Sockets know the connection by them.
    pub(crate) local: [u8; 16],
    pub(crate) remote: [u8; 16],
    /// 1 to [`PATHS_MAX`] paths.
    pub(crate) paths: KVec<PathEnds>,
    pub(crate) partition: u32,
    pub(crate) tclass: u8,
    pub(crate) hop_limit: u8,
    pub(crate) flow_label: u32,
    pub(crate) spray: bool,
    /// The start values are those of the first life. [`Conn::info`] returns those of the present
    /// life.
    pub(crate) config: Config,
}

/// Start values of a new life [proto 3.19]. `None`: the value of the life before.
#[derive(Copy, Clone, Default)]
pub(crate) struct Start {
    pub(crate) psn: Option<u32>,
    pub(crate) xid: Option<u16>,
}

impl Identity {
    /// SUNH address of the peer, on the first path.
    pub(crate) fn remote_sunh(&self) -> u16 {
        self.paths.first().map_or(0, |ends| ends.remote_sunh)
    }
}

/// A snapshot of a connection, for netlink.
pub(crate) struct ConnInfo {
    pub(crate) state: ConnState,
    /// Why the connection broke; empty if it did not.
    pub(crate) cause: &'static str,
    /// Configuration, with the start values of the present life.
    pub(crate) config: Config,
    /// The core has accepted a packet of the peer in this life. Always true of SUPERp-lite.
    pub(crate) heard: bool,
    /// Longest packet that the core makes now, in bytes from the PDL header on.
    pub(crate) mtu: u32,
    /// Whether the connection uses the extensions [proto 7]. `None`: the peer has not said yet
    /// whether it has them.
    pub(crate) ext: Option<bool>,
}

/// Counters of a connection: those of the core, and those of the module.
#[derive(Copy, Clone, Default)]
pub(crate) struct ConnStats {
    pub(crate) proto: Stats,
    /// Messages that local queue pairs have posted.
    pub(crate) tx_messages: u64,
    /// Messages, and immediates of writes, that local queue pairs have accepted.
    pub(crate) rx_messages: u64,
    /// Writes, reads and atomics that local queue pairs have posted.
    pub(crate) tx_writes: u64,
    pub(crate) tx_reads: u64,
    pub(crate) tx_atomics: u64,
    /// Atomics of the peer that were carried out.
    pub(crate) rx_atomics: u64,
    /// Bytes that the peer has written to regions, receive contexts included.
    pub(crate) rx_write_bytes: u64,
    /// Bytes that the peer has asked to read.
    pub(crate) rx_read_bytes: u64,
    /// Accesses of the peer that were refused.
    pub(crate) access_violations: u64,
    /// Messages that local queue pairs refused for want of a buffer. The sender repeats them.
    pub(crate) rx_no_buffer: u64,
    /// Messages of this end that are repeated, because the peer refused them for want of a buffer
    /// or because they followed such a message.
    pub(crate) tx_no_buffer: u64,
    /// Packets that no path could send.
    pub(crate) tx_path_errors: u64,
    /// Packets that were not built for want of memory. They count as lost.
    pub(crate) tx_no_memory: u64,
    /// Receive window that was advertised last, in packets.
    pub(crate) rx_window: u64,
}

/// Posts that are further apart than this, in ns, are sparse: the gap is longer than the timer
/// usually waits. See [`Inner::note_post`].
const SPARSE_POST_GAP: u64 = 5_000_000;

/// State of a connection that `Conn::inner` protects. That lock is taken inside
/// `SendQueue::consumer` and outside `Queue::inflight`; the whole order is in
/// Documentation/architecture.md.
struct Inner {
    state: ConnState,
    cause: &'static str,
    /// Code of a break that the queue pairs do not know yet. [`Conn::unlock`] has a workqueue
    /// notify them.
    unnotified_break: Option<Code>,
    /// The protocol core. It is several kilobytes large. `core()` builds it in a stack frame of its
    /// own and moves it here.
    proto: KBox<Connection<Kernel>>,
    flows: flow::Flows,
    rx: receiver::Receiver,
    paths: paths::Paths,
    /// Counters. `proto` and `rx_window` are unused here: [`Conn::stats`] takes them from the core.
    stats: ConnStats,
    /// Time at which the timer expires, in ns. `u64::MAX` if it is not armed.
    timer_expires: u64,
    /// Packets on their way to the device.
    tx_queue: out::TxQueue,
    /// Time at which the first paused flow may send again, in ns. `u64::MAX` if no flow is paused.
    resume: u64,
    /// Time of the last post, in ns.
    last_post: u64,
    /// Entropy of the burst that was sent last. 0 unless the connection sprays.
    entropy: u16,
    /// When this connection received something last, for the node's receive budget.
    activity: Activity,
    /// Time from which on the connection asks for its share of that budget again, in ns.
    budget_due: u64,
    /// The life before ended in a soft shutdown. Its works, and new ones, wait until this life is
    /// started.
    restarting: bool,
    /// What is left to complete and to free of a life that has ended.
    ending: ending::Ending,
}

/// One connection of a node.
#[pin_data]
pub(crate) struct Conn {
    resources: Arc<Resources>,
    identity: Identity,
    /// Whether `Inner::state` is `Established`, for readers without the lock.
    established: Atomic<bool>,
    /// Copy of [`Connection::ext`] for readers without the lock. True also as long as the peer has
    /// not said whether it has the extensions.
    ext: Atomic<bool>,
    #[pin]
    inner: SpinLockBh<Inner>,
    #[pin]
    timer: Timer<Conn>,
    /// Serialises the end of a life and the begin of the next. Taken outside of `inner`.
    #[pin]
    life: Mutex<()>,
    /// Runs `finish_break()` on the module's workqueue.
    #[pin]
    ending_work: WorkStruct<Conn>,
}

fn no_memory(_: AllocError) -> Refusal {
    Refusal::new(ENOMEM, c"no memory for the connection's windows")
}

/// Allocates and builds a protocol core. Process context; may sleep.
///
/// The core takes several kilobytes of stack until it is moved to its allocation. `inline(never)`
/// gives these a frame of their own, which is gone before anything else is built.
#[inline(never)]
fn core(config: &Config) -> Result<KBox<Connection<Kernel>>, Refusal> {
    let uninit = KBox::new_uninit(GFP_KERNEL_ACCOUNT).map_err(no_memory)?;
    match Connection::new(config, timer::now()) {
        Ok(proto) => Ok(KBox::write(uninit, proto)),
        Err(NewError::Config(_)) => Err(Refusal::new(
            EINVAL,
            c"a connection parameter is out of range",
        )),
        Err(NewError::NoMemory) => Err(no_memory(AllocError)),
    }
}

/// Allocates what a new life of a connection needs. Process context, without `Conn::inner`.
fn new_life(
    config: &Config,
) -> Result<(KBox<Connection<Kernel>>, flow::Flows, receiver::Receiver), Refusal> {
    let proto = core(config)?;
    let flows = flow::Flows::new(proto.xid_slots());
    let rx = receiver::Receiver::new(proto.psn_slots(), proto.xid_slots()).map_err(no_memory)?;
    Ok((proto, flows, rx))
}

impl Conn {
    /// Creates a connection in state `Created`, which is in no table yet. `paths` are those of
    /// [`Identity::paths`], in the same order. Process context.
    ///
    /// # Errors
    ///
    /// `EINVAL`: a parameter is out of range. `ENOMEM`.
    pub(crate) fn new(
        resources: Arc<Resources>,
        identity: Identity,
        paths: KVec<Path>,
    ) -> Result<Arc<Conn>, Refusal> {
        let (proto, flows, rx) = new_life(&identity.config)?;
        let ext = proto.ext() != Some(false);
        let paths = paths::Paths::new(&identity, paths, proto.psn_slots())
            .map_err(|_| Refusal::new(ENOMEM, c"no memory for the connection's paths"))?;
        let tx_queue = out::TxQueue::new()
            .map_err(|_| Refusal::new(ENOMEM, c"no memory for the connection's packets"))?;
        Arc::pin_init(
            try_pin_init!(Conn {
                resources,
                identity,
                established: Atomic::new(false),
                ext: Atomic::new(ext),
                inner <- new_spinlock_bh!(Inner {
                    state: ConnState::Created,
                    cause: "",
                    unnotified_break: None,
                    proto,
                    flows,
                    rx,
                    paths,
                    stats: ConnStats::default(),
                    timer_expires: u64::MAX,
                    tx_queue,
                    resume: u64::MAX,
                    last_post: 0,
                    entropy: 0,
                    activity: Activity::default(),
                    budget_due: 0,
                    restarting: false,
                    ending: ending::Ending::none(),
                }, "superp_conn"),
                timer <- Timer::new(),
                life <- new_mutex!((), "superp_conn_life"),
                ending_work <- new_work!("superp_conn_ending"),
            }),
            GFP_KERNEL_ACCOUNT,
        )
        .map_err(|_: Error| Refusal::new(ENOMEM, c"no memory for the connection"))
    }

    /// Local connection id.
    pub(crate) fn cid(&self) -> u32 {
        self.identity.cid.into()
    }

    /// What is fixed for the connection.
    pub(crate) fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Address of the peer, on the first path.
    pub(crate) fn remote(&self) -> [u8; 16] {
        self.identity.remote
    }

    /// Whether the connection uses the extensions [proto 7]. True also as long as the peer has not
    /// said whether it has them. Any context.
    pub(crate) fn ext(&self) -> bool {
        self.ext.load(Relaxed)
    }

    /// Whether both directions deliver in order.
    pub(crate) fn ordered(&self) -> bool {
        self.identity.config.ordered_tx && self.identity.config.ordered_rx
    }

    /// Properties of the connection for programs, as bits `SUPERP_QP_F_*`.
    pub(crate) fn qp_flags(&self) -> u32 {
        let flag = |set, flag| if set { flag } else { 0 };
        flag(self.ext(), uapi::SUPERP_QP_F_EXT) | flag(self.ordered(), uapi::SUPERP_QP_F_ORDERED)
    }

    /// Whether the connection is in state `Established`. The answer may be stale when it is used.
    /// Any context.
    pub(crate) fn established(&self) -> bool {
        self.established.load(Relaxed)
    }

    /// Runs `act` if the connection is in state `Established`, else returns `None`. `act` runs
    /// under the connection's lock. When this life ends later, the notification of the queue pairs
    /// sees what `act` has stored. Any context up to softirq.
    pub(crate) fn while_established<T>(&self, act: impl FnOnce() -> T) -> Option<T> {
        let inner = self.inner.lock();
        (inner.state == ConnState::Established).then(act)
    }

    /// Length of the longest message, in bytes.
    pub(crate) fn max_message(&self) -> u32 {
        if self.ext() {
            uapi::SUPERP_MAX_RING_MESSAGE
        } else {
            let max_len = self.inner.lock().proto.max_request_len(&tx::STRICT_SEND);
            u32::try_from(max_len).unwrap_or(u32::MAX)
        }
    }

    /// Length of the shortest message and of the shortest write, in bytes [proto 2.6, 4.14]. 0 with
    /// extensions.
    pub(crate) fn min_message(&self) -> u32 {
        if self.ext() {
            0
        } else {
            self.inner.lock().proto.min_request_len(&tx::STRICT_SEND)
        }
    }

    /// Requests with key `pack_key` that fit in one packet.
    pub(crate) fn per_packet(&self, pack_key: PackKey) -> u32 {
        self.inner.lock().per_packet(pack_key)
    }

    /// Lengths of a message to a receive context, in bytes. The message must be one transaction
    /// [proto 4.9].
    pub(crate) fn keyed_message(&self) -> RangeInclusive<u32> {
        let inner = self.inner.lock();
        let max_len = inner.proto.max_request_len(&tx::KEYED_SEND);
        let max_len = u32::try_from(max_len).unwrap_or(u32::MAX);
        inner.proto.min_request_len(&tx::KEYED_SEND)..=max_len.min(crate::qp::MAX_MESSAGE)
    }

    /// Starts the connection: local requests are sent from now on. Process context.
    ///
    /// # Errors
    ///
    /// `EALREADY`: the connection is started. `ENOTCONN`: it is shut down, broken or removed.
    pub(crate) fn start(self: &Arc<Self>) -> Result<(), Refusal> {
        let mut inner = self.inner.lock();
        match inner.state {
            ConnState::Created => {}
            ConnState::Established => {
                return Err(Refusal::new(
                    ealready(),
                    c"the connection is started already",
                ))
            }
            ConnState::Draining | ConnState::Quiescent => {
                return Err(Refusal::new(
                    enotconn(),
                    c"the connection is shut down: reset it first",
                ))
            }
            ConnState::Broken | ConnState::Removed => {
                return Err(Refusal::new(
                    enotconn(),
                    c"the connection is broken: reset it first",
                ))
            }
        }
        inner.paths.iter().for_each(Path::resolve);
        inner.state = ConnState::Established;
        self.established.store(true, Relaxed);
        self.tell_state(ConnState::Established, "");
        // After a soft shutdown very many works may wait.
        let mut next = inner.flows.wake_from(0);
        self.run(&mut inner, timer::now());
        self.unlock(inner);
        while let Some(from) = next {
            let mut inner = self.inner.lock();
            next = inner.flows.wake_from(from);
            self.run(&mut inner, timer::now());
            self.unlock(inner);
        }
        Ok(())
    }

    /// Begins a soft shutdown [proto 4.17]. Works that have begun are completed. Then Last NULL
    /// tells the peer, which is expected to shut down as well. Process context; does not wait.
    ///
    /// # Errors
    ///
    /// `EALREADY`: the connection is shut down. `ENOTCONN`: it is broken or removed.
    pub(crate) fn shut_down(self: &Arc<Self>) -> Result<(), Refusal> {
        let mut inner = self.inner.lock();
        match inner.state {
            ConnState::Created | ConnState::Established => {}
            ConnState::Draining | ConnState::Quiescent => {
                return Err(Refusal::new(
                    ealready(),
                    c"the connection is shut down already",
                ))
            }
            ConnState::Broken | ConnState::Removed => {
                return Err(Refusal::new(
                    enotconn(),
                    c"the connection is broken: there is nothing to complete",
                ))
            }
        }
        self.established.store(false, Relaxed);
        inner.state = ConnState::Draining;
        self.tell_state(ConnState::Draining, "");
        self.run(&mut inner, timer::now());
        self.unlock(inner);
        Ok(())
    }

    /// Begins a new life in state `Created`, with these start values. After a soft shutdown the
    /// works that wait are kept. Otherwise everything pending completes as aborted. Process
    /// context; sleeps.
    ///
    /// # Errors
    ///
    /// `ENODEV`: the connection has no path left. `ENOMEM`.
    pub(crate) fn restart(self: &Arc<Self>, start: Start) -> Result<(), Refusal> {
        let _life = self.life.lock();
        let mut config = self.info().config;
        if self.inner.lock().paths.closed() {
            return Err(Refusal::new(
                ENODEV,
                c"the device of the connection is gone: remove the connection",
            ));
        }
        config.start_psn = start.psn.unwrap_or(config.start_psn);
        config.start_xid = start.xid.unwrap_or(config.start_xid);
        let (proto, mut flows, rx) = new_life(&config)?;
        let quiescent = self.inner.lock().state == ConnState::Quiescent;
        if !quiescent {
            self.end_life();
        }
        let mut inner = self.inner.lock();
        // A device may have gone in between, which breaks the connection.
        let keep_requests = quiescent && inner.state == ConnState::Quiescent;
        if quiescent && !keep_requests {
            drop(inner);
            self.end_life();
            inner = self.inner.lock();
        }
        if keep_requests {
            inner.flows.begin_peer_life();
        } else {
            core::mem::swap(&mut inner.flows, &mut flows);
        }
        let old = (
            core::mem::replace(&mut inner.proto, proto),
            core::mem::replace(&mut inner.rx, rx),
            flows,
        );
        inner.state = ConnState::Created;
        inner.restarting = keep_requests;
        inner.budget_due = 0;
        inner.timer_expires = u64::MAX;
        inner.tx_queue.clear();
        inner.resume = u64::MAX;
        drop(inner);
        drop(old);
        self.tell_state(ConnState::Created, "");
        Ok(())
    }

    /// Drops the received part of an unfinished message to queue pair `qpn`. Process context.
    pub(crate) fn drop_partial(&self, qpn: u32) {
        let partial = self.inner.lock().rx.take_partial(qpn);
        drop(partial);
    }

    /// When the connection was active last, for the node's receive budget. Any context up to
    /// softirq.
    pub(crate) fn activity(&self) -> Activity {
        self.inner.lock().activity
    }

    /// Queues a work and sends what can be sent. Works of one flow start in the order of these
    /// calls. Process context; does not wait.
    ///
    /// # Errors
    ///
    /// `ENOTCONN`: the connection is not started. `ECONNRESET`: it is broken or removed. `ENOMEM`:
    /// no memory for one more flow.
    ///
    /// A connection that is shut down softly, or reset after that, accepts works and lets them
    /// wait.
    pub(crate) fn post(self: &Arc<Self>, work: ListArc<Work>) -> Result {
        let mut works = List::new();
        works.push_back(work);
        self.post_all(&mut works)
    }

    /// Queues works, in their order, and sends what can be sent. Process context; does not wait.
    ///
    /// # Errors
    ///
    /// Those of [`Conn::post`]. Works that are still in `works` were not queued.
    pub(crate) fn post_all(self: &Arc<Self>, works: &mut List<Work>) -> Result {
        loop {
            let mut inner = self.inner.lock();
            match inner.state {
                ConnState::Established | ConnState::Draining | ConnState::Quiescent => {}
                ConnState::Created if inner.restarting => {}
                ConnState::Created => return Err(enotconn()),
                ConnState::Removed | ConnState::Broken => return Err(econnreset()),
            }
            while let Some(work) = works.cursor_front().peek_next() {
                let Some(slot) = inner.flows.slot(work.flow()) else {
                    break;
                };
                let work = work.remove();
                work.ticket.arm();
                inner.count_posted(&work);
                inner.flows.push(slot, work);
            }
            let now = timer::now();
            let sparse = inner.note_post(now);
            self.advance(&mut inner, now);
            if !sparse {
                self.set_timer(&mut inner, now);
            }
            let plan = inner.flows.growth_plan();
            self.unlock(inner);
            if sparse {
                // Unlocking ran pending softirqs. Over a link within this machine the answer has
                // come in them, and often there is nothing left to wait for.
                self.set_timer(&mut self.inner.lock(), timer::now());
            }
            if works.is_empty() {
                return Ok(());
            }
            let mut growth = flow::FlowsGrowth::new(plan)?;
            self.inner.lock().flows.grow(&mut growth);
        }
    }

    /// Drains the core and sets the timer. The caller has changed the core, and holds `inner`.
    fn run(self: &Arc<Self>, inner: &mut Inner, now: u64) {
        self.advance(inner, now);
        self.set_timer(inner, now);
    }

    /// Submits, sends and handles events until the core has nothing more to do now.
    fn advance(&self, inner: &mut Inner, now: u64) {
        let ext = inner.proto.ext() != Some(false);
        if self.ext() != ext {
            self.ext.store(ext, Relaxed);
        }
        loop {
            let submitted = inner.submit(now);
            let sent = self.transmit(inner, now);
            // Events come last because sending makes some: a packet may have been sent too often.
            let changed = self.events(inner, now);
            // Packets that were sent have made space for more requests.
            let more = (submitted || sent) && inner.flows.first_ready().is_some();
            if !changed && !more {
                break;
            }
        }
    }

    /// Arms the timer for the next thing that is due. The timer may expire earlier, and once too
    /// often.
    fn set_timer(self: &Arc<Self>, inner: &mut Inner, now: u64) {
        let expires = inner.due();
        // A timer that expires early is cheaper than one that every packet moves.
        if expires < inner.timer_expires && inner.state != ConnState::Removed {
            inner.timer_expires = expires;
            self.timer.start_abs(self, now, expires);
        }
    }

    /// Handles every event of the core. Returns whether there was one.
    fn events(&self, inner: &mut Inner, now: u64) -> bool {
        let mut progress = false;
        while let Some(event) = inner.proto.poll_event() {
            progress = true;
            self.event(inner, event, now);
        }
        progress
    }

    fn event(&self, inner: &mut Inner, event: proto::Event, now: u64) {
        match event {
            proto::Event::Completed {
                token,
                result,
                original,
                failed_op,
                ..
            } => {
                inner.transaction_ended(token, result, original, failed_op, now);
            }
            proto::Event::Drained if inner.state == ConnState::Draining => {
                inner.state = ConnState::Quiescent;
                self.tell_state(ConnState::Quiescent, "");
            }
            proto::Event::Writable | proto::Event::Drained => {}
            proto::Event::Report(report) => self.resources.notify(Event::Report {
                local_cid: self.identity.cid,
                remote: self.identity.remote,
                cause: report.reason.name(),
                values: [report.value.into(), report.low.into(), report.high.into()],
            }),
            proto::Event::Broken(proto::BrokenCause::PeerDead { .. }) => {
                self.set_broken(inner, "the peer does not answer", Code::ABORTED_BROKEN);
            }
            proto::Event::Broken(proto::BrokenCause::TransactionTimeout { .. }) => {
                let cause = "a transaction took longer than tal_transaction_timeout";
                self.set_broken(inner, cause, Code::ABORTED_TIMEOUT);
            }
        }
    }

    /// Notifies listeners that the connection was created.
    pub(crate) fn tell_created(&self) {
        self.tell_state(ConnState::Created, "");
    }

    /// Breaks a SUNH connection whose packets fit no path any more. Packets under way keep their
    /// length [proto 2.8] and would be lost for ever. Over UDP, IP sends them in fragments, and the
    /// core cuts later ones shorter. Process context.
    fn check_mtu(self: &Arc<Self>) {
        let fits = {
            let inner = self.inner.lock();
            let mut paths = inner.paths.iter();
            self.identity.encap != Encap::Ether
                || inner.paths.closed()
                || paths.any(|path| path.mtu() >= self.identity.config.mtu)
        };
        if !fits {
            self.break_off("the MTU of the device fell below the connection's");
        }
    }

    fn tell_state(&self, state: ConnState, cause: &'static str) {
        self.resources.notify(Event::Conn {
            local_cid: self.identity.cid,
            remote_cid: self.identity.config.remote_cid,
            remote: self.identity.remote,
            state,
            cause,
        });
    }

    /// A snapshot of the connection. Any context up to softirq.
    pub(crate) fn info(&self) -> ConnInfo {
        let inner = self.inner.lock();
        ConnInfo {
            state: inner.state,
            cause: inner.cause,
            config: inner.proto.config().clone(),
            heard: inner.proto.heard(),
            mtu: inner.proto.mtu(),
            ext: inner.proto.ext(),
        }
    }

    /// A snapshot of the counters. Any context up to softirq.
    pub(crate) fn stats(&self) -> ConnStats {
        let inner = self.inner.lock();
        ConnStats {
            proto: inner.proto.stats(),
            rx_window: inner.proto.advertised_window().into(),
            ..inner.stats
        }
    }
}

fn count(counter: &mut u64, n: u64) {
    *counter = counter.wrapping_add(n);
}

/// Offset of a transaction's first byte in its work, in bytes: the lower half of the token. The
/// upper half is the index of the active work.
fn token_offset(token: u64) -> u64 {
    token & u64::from(u32::MAX)
}

impl Inner {
    /// Notes a post at `now`, in ns. Returns whether posts are sparse. A timer that is armed at
    /// once would then serve this post alone, and would often expire for nothing.
    fn note_post(&mut self, now: u64) -> bool {
        let last = core::mem::replace(&mut self.last_post, now);
        now.saturating_sub(last) > SPARSE_POST_GAP
    }

    /// Time of the next thing to do if nothing happens before, in ns. `u64::MAX`: there is none.
    fn due(&self) -> u64 {
        // Nothing is sent before the deferred packets, so only the time of their retry counts.
        let deadline = self.tx_queue.due().or_else(|| self.proto.deadline());
        deadline.unwrap_or(u64::MAX).min(self.resume)
    }
}

type Guard<'a> = GuardBh<'a, Inner>;

impl TimerCallback for Conn {
    fn expired(this: &Arc<Self>) {
        let mut inner = this.inner.lock();
        inner.timer_expires = u64::MAX;
        if inner.state == ConnState::Removed {
            return;
        }
        let now = timer::now();
        let timeouts = inner.proto.stats().timeouts;
        inner.proto.expire(now);
        if inner.proto.stats().timeouts != timeouts {
            inner.paths.timed_out();
        }
        inner.resume = inner.flows.wake_paused(now).unwrap_or(u64::MAX);
        this.run(&mut inner, now);
        this.unlock(inner);
    }
}
