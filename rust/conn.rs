// SPDX-License-Identifier: GPL-2.0

//! Connections: the protocol core with its lock, timer, path, and the works of local queue pairs.
//!
//! Everything of a connection happens under one bottom-half lock, in the context of who caused it:
//! the poster of a work, the softirq that received a packet, the timer. After each of these the
//! core is drained by [`Conn::run`]: events, new transactions, packets.

mod active;
mod chunks;
mod ending;
mod flow;
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
pub(crate) use paths::{PathEnds, PATHS_MAX};

/// What a path of a connection is made of. Addresses are IPv6 or v4-mapped, network byte order.
pub(crate) struct PathParams {
    /// 0, with one path only: by route (UDP), or the only port that serves SUNH.
    pub(crate) ifindex: u32,
    /// `None`: what the stack would use towards `remote`.
    pub(crate) local: Option<[u8; 16]>,
    pub(crate) remote: [u8; 16],
    /// Static Ethernet address of the peer; `None`: by ARP or neighbour discovery.
    pub(crate) mac: Option<[u8; 6]>,
}

/// What a connection is made of.
pub(crate) struct ConnParams {
    /// `None`: the smallest one that is free and was not in use lately.
    pub(crate) local_cid: Option<u16>,
    pub(crate) encap: Encap,
    /// 1 to [`PATHS_MAX`].
    pub(crate) paths: KVec<PathParams>,
    /// 0: any.
    pub(crate) partition: u32,
    pub(crate) tclass: u8,
    /// `None`: the node's `nh_hop_limit`.
    pub(crate) hop_limit: Option<u8>,
    /// `None`: chosen from the connection's ids.
    pub(crate) flow_label: Option<u32>,
    /// Every packet takes another path, and is another flow to the network; only without order.
    pub(crate) spray: bool,
    /// Bytes from the PDL header to the end of a packet; `None`: what the path carries.
    pub(crate) mtu: Option<u32>,
    pub(crate) config: Config,
}

/// [`ConnParams`] with everything decided.
pub(crate) struct Identity {
    pub(crate) cid: u16,
    pub(crate) encap: Encap,
    /// Those of the first path: sockets know the connection by them.
    pub(crate) local: [u8; 16],
    pub(crate) remote: [u8; 16],
    /// 1 to [`PATHS_MAX`].
    pub(crate) paths: KVec<PathEnds>,
    pub(crate) partition: u32,
    pub(crate) tclass: u8,
    pub(crate) hop_limit: u8,
    pub(crate) flow_label: u32,
    pub(crate) spray: bool,
    /// Its start values are those of the first life; [`Conn::info`] tells the present ones.
    pub(crate) config: Config,
}

/// Start values of a new life [proto 3.19]; `None`: those of the life before.
#[derive(Copy, Clone, Default)]
pub(crate) struct Start {
    pub(crate) psn: Option<u32>,
    pub(crate) xid: Option<u16>,
}

impl Identity {
    /// The peer's SUNH address.
    pub(crate) fn remote_sunh(&self) -> u16 {
        self.paths.first().map_or(0, |ends| ends.remote_sunh)
    }
}

/// What there is to tell of a connection.
pub(crate) struct ConnInfo {
    pub(crate) state: ConnState,
    /// Why it broke, or "".
    pub(crate) cause: &'static str,
    /// With the start values of the present life.
    pub(crate) config: Config,
    /// A packet of the peer has been accepted in this life.
    pub(crate) heard: bool,
    /// Bytes of the longest packet now.
    pub(crate) mtu: u32,
    /// Whether the extensions are used, when that is known.
    pub(crate) ext: Option<bool>,
}

/// Counters of the module's own, beside [`Stats`].
#[derive(Copy, Clone, Default)]
pub(crate) struct ConnStats {
    pub(crate) proto: Stats,
    pub(crate) tx_messages: u64,
    pub(crate) rx_messages: u64,
    pub(crate) tx_writes: u64,
    pub(crate) tx_reads: u64,
    pub(crate) tx_atomics: u64,
    pub(crate) rx_atomics: u64,
    pub(crate) rx_write_bytes: u64,
    pub(crate) rx_read_bytes: u64,
    pub(crate) access_violations: u64,
    /// Messages refused because the socket's buffer was full; the sender repeats them.
    pub(crate) rx_no_buffer: u64,
    /// Own messages that the peer refused so, and that were repeated.
    pub(crate) tx_no_buffer: u64,
    pub(crate) tx_path_errors: u64,
    pub(crate) tx_no_memory: u64,
    /// Receive window advertised last, packets.
    pub(crate) rx_window: u64,
}

/// Posts that are so far from each other, ns, are rare: longer than a timer waits as a rule.
const RARE: u64 = 5_000_000;

/// What the lock protects.
struct Inner {
    state: ConnState,
    cause: &'static str,
    /// The break has not yet been told to the queue pairs.
    untold: Option<Code>,
    /// Large, and made on the stack: in its own place, so that nothing else that is made there comes on top.
    proto: KBox<Connection<Kernel>>,
    flows: flow::Flows,
    rx: receiver::Receiver,
    paths: paths::Paths,
    /// Counters; `proto` is unused here.
    stats: ConnStats,
    /// When the timer fires, ns; `u64::MAX`: not armed.
    armed: u64,
    /// What is on its way to the device.
    out: out::TxQueue,
    /// End of the next pause of a flow, ns; `u64::MAX`: none.
    resume: u64,
    /// When something was posted last, ns.
    last_post: u64,
    /// Entropy of the packet sent last.
    sprayed: u16,
    /// When this connection was last active, for the node's receive budget, and when to ask for its
    /// part again, ns.
    activity: Activity,
    budget_due: u64,
    /// The life before ended in a soft shutdown: requests wait for the start of this one.
    restarting: bool,
    /// What has still to complete, of a life that has ended.
    ending: ending::Ending,
}

/// One connection of a node.
#[pin_data]
pub(crate) struct Conn {
    resources: Arc<Resources>,
    identity: Identity,
    established: Atomic<bool>,
    /// [`Connection::ext`] for those without the lock; until the peer has said so, it is expected to have them.
    ext: Atomic<bool>,
    #[pin]
    inner: SpinLockBh<Inner>,
    #[pin]
    timer: Timer<Conn>,
    /// Lives end and begin one after the other.
    #[pin]
    life: Mutex<()>,
    #[pin]
    ending: WorkStruct<Conn>,
}

fn no_memory(_: AllocError) -> Refusal {
    Refusal::new(ENOMEM, c"no memory for the connection's windows")
}

/// A core. It is some kilobytes on the stack, which nothing else should be on top of.
#[inline(never)]
fn core(config: &Config) -> Result<KBox<Connection<Kernel>>, Refusal> {
    let place = KBox::new_uninit(GFP_KERNEL).map_err(no_memory)?;
    match Connection::new(config, timer::now()) {
        Ok(proto) => Ok(KBox::write(place, proto)),
        Err(NewError::Config(_)) => Err(Refusal::new(
            EINVAL,
            c"a connection parameter is out of range",
        )),
        Err(NewError::NoMemory) => Err(no_memory(AllocError)),
    }
}

/// Everything that a fresh life of a connection needs, allocated outside the lock.
fn fresh(
    config: &Config,
) -> Result<(KBox<Connection<Kernel>>, flow::Flows, receiver::Receiver), Refusal> {
    let proto = core(config)?;
    let flows = flow::Flows::new(proto.xid_slots());
    let rx = receiver::Receiver::new(proto.psn_slots(), proto.xid_slots()).map_err(no_memory)?;
    Ok((proto, flows, rx))
}

impl Conn {
    /// A connection in state `Created`, not yet in any table. `paths` are those of
    /// [`Identity::paths`]. Process context.
    pub(crate) fn new(
        resources: Arc<Resources>,
        identity: Identity,
        paths: KVec<Path>,
    ) -> Result<Arc<Conn>, Refusal> {
        let (proto, flows, rx) = fresh(&identity.config)?;
        let ext = proto.ext() != Some(false);
        let paths = paths::Paths::new(&identity, paths, proto.psn_slots())
            .map_err(|_| Refusal::new(ENOMEM, c"no memory for the connection's paths"))?;
        let out = out::TxQueue::new()
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
                    untold: None,
                    proto,
                    flows,
                    rx,
                    paths,
                    stats: ConnStats::default(),
                    armed: u64::MAX,
                    out,
                    resume: u64::MAX,
                    last_post: 0,
                    sprayed: 0,
                    activity: Activity::default(),
                    budget_due: 0,
                    restarting: false,
                    ending: ending::Ending::none(),
                }, "superp_conn"),
                timer <- Timer::new(),
                life <- new_mutex!((), "superp_conn_life"),
                ending <- new_work!("superp_conn_ending"),
            }),
            GFP_KERNEL,
        )
        .map_err(|_: Error| Refusal::new(ENOMEM, c"no memory for the connection"))
    }

    /// Local connection id.
    pub(crate) fn cid(&self) -> u32 {
        self.identity.cid.into()
    }

    /// What it was made of.
    pub(crate) fn identity(&self) -> &Identity {
        &self.identity
    }

    /// The peer's address.
    pub(crate) fn remote(&self) -> [u8; 16] {
        self.identity.remote
    }

    /// Whether it uses the extension opcodes [proto 7], as far as is known.
    pub(crate) fn ext(&self) -> bool {
        self.ext.load(Relaxed)
    }

    /// Whether both directions deliver in order.
    pub(crate) fn ordered(&self) -> bool {
        self.identity.config.ordered_tx && self.identity.config.ordered_rx
    }

    /// `SUPERP_QP_F_*`: what queue pairs may know of it.
    pub(crate) fn qp_flags(&self) -> u32 {
        let flag = |set, flag| if set { flag } else { 0 };
        flag(self.ext(), uapi::SUPERP_QP_F_EXT) | flag(self.ordered(), uapi::SUPERP_QP_F_ORDERED)
    }

    /// Whether local requests are taken. A snapshot.
    pub(crate) fn established(&self) -> bool {
        self.established.load(Relaxed)
    }

    /// Does something while requests are taken, that is before queue pairs are told of an end; `None` if
    /// they are not. Any context.
    pub(crate) fn while_established<T>(&self, act: impl FnOnce() -> T) -> Option<T> {
        let inner = self.inner.lock();
        (inner.state == ConnState::Established).then(act)
    }

    /// Largest message, bytes.
    pub(crate) fn max_message(&self) -> u32 {
        if self.ext() {
            uapi::SUPERP_MAX_RING_MESSAGE
        } else {
            let most = self.inner.lock().proto.max_request_len(&tx::STRICT_SEND);
            u32::try_from(most).unwrap_or(u32::MAX)
        }
    }

    /// Smallest message and smallest write, bytes [proto 2.6, 4.14].
    pub(crate) fn min_message(&self) -> u32 {
        if self.ext() {
            0
        } else {
            self.inner.lock().proto.min_request_len(&tx::STRICT_SEND)
        }
    }

    /// How many requests of the same kind a packet has room for.
    pub(crate) fn per_packet(&self, like: PackKey) -> u32 {
        self.inner.lock().per_packet(like)
    }

    /// Lengths of a message to a receive context, bytes: one transaction [proto 4.9].
    pub(crate) fn keyed_message(&self) -> RangeInclusive<u32> {
        let inner = self.inner.lock();
        let most = inner.proto.max_request_len(&tx::KEYED_SEND);
        let most = u32::try_from(most).unwrap_or(u32::MAX);
        inner.proto.min_request_len(&tx::KEYED_SEND)..=most.min(crate::qp::MAX_MESSAGE)
    }

    /// Takes requests from now on. Process context.
    ///
    /// # Errors
    ///
    /// `EALREADY` when started, `ENOTCONN` when shut down, broken or removed.
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
        inner.flows.wake_all();
        self.run(&mut inner, timer::now());
        self.unlock(inner);
        Ok(())
    }

    /// Begins a soft shutdown: everything begun is completed, then Last NULL tells the peer, which is
    /// expected to do the same. Process context; does not wait.
    ///
    /// # Errors
    ///
    /// `EALREADY` when begun, `ENOTCONN` when broken or removed.
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

    /// Gives the connection a fresh life in state `Created`, with these start values. After a soft
    /// shutdown the requests that wait are kept; otherwise everything pending completes as aborted.
    /// Process context, sleeps.
    ///
    /// # Errors
    ///
    /// `ENODEV` when its device is gone, `ENOMEM`.
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
        let (proto, mut flows, rx) = fresh(&config)?;
        let keep = self.inner.lock().state == ConnState::Quiescent;
        if !keep {
            self.end_life();
        }
        let mut inner = self.inner.lock();
        if keep {
            inner.flows.begin_anew();
        } else {
            core::mem::swap(&mut inner.flows, &mut flows);
        }
        let old = (
            core::mem::replace(&mut inner.proto, proto),
            core::mem::replace(&mut inner.rx, rx),
            flows,
        );
        inner.state = ConnState::Created;
        inner.restarting = keep;
        inner.budget_due = 0;
        inner.armed = u64::MAX;
        inner.out.clear();
        inner.resume = u64::MAX;
        drop(inner);
        drop(old);
        self.tell_state(ConnState::Created, "");
        Ok(())
    }

    /// Drops what it keeps of a message to this queue pair. Process context.
    pub(crate) fn forget_partial(&self, qpn: u32) {
        let partial = self.inner.lock().rx.take_partial(qpn);
        drop(partial);
    }

    /// What the node's receive budget knows of it. Any context.
    pub(crate) fn activity(&self) -> Activity {
        self.inner.lock().activity
    }

    /// Queues a work and sends what can be sent. Any order of calls is the order on the wire.
    /// Process context; does not wait.
    ///
    /// # Errors
    ///
    /// `ENOTCONN`: not started. `ECONNRESET`: broken or removed. `ENOMEM`. While the connection is
    /// shut down softly, and restarted after that, works wait.
    pub(crate) fn post(self: &Arc<Self>, work: ListArc<Work>) -> Result {
        let mut works = List::new();
        works.push_back(work);
        self.post_all(&mut works)
    }

    /// Queues works, in their order, and sends what can be sent. Process context; does not wait.
    ///
    /// # Errors
    ///
    /// As [`Conn::post`]; what is left in `works` was not taken.
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
            let rare = inner.posted(now);
            self.advance(&mut inner, now);
            if !rare {
                self.set_timer(&mut inner, now);
            }
            let wanted = inner.flows.wanted();
            self.unlock(inner);
            if rare {
                // Over a link within this machine the answer has come with the unlocking.
                self.set_timer(&mut self.inner.lock(), timer::now());
            }
            if works.is_empty() {
                return Ok(());
            }
            let mut room = flow::Room::new(wanted)?;
            self.inner.lock().flows.grow(&mut room);
        }
    }

    /// Drains the core, and sets the timer; to be called after everything that changes it.
    fn run(self: &Arc<Self>, inner: &mut Inner, now: u64) {
        self.advance(inner, now);
        self.set_timer(inner, now);
    }

    /// Has the core do all that it can do now.
    fn advance(&self, inner: &mut Inner, now: u64) {
        let ext = inner.proto.ext() != Some(false);
        if self.ext() != ext {
            self.ext.store(ext, Relaxed);
        }
        loop {
            let submitted = inner.submit(now);
            let sent = self.transmit(inner, now);
            // Last: also sending makes events, when a packet has gone out too often.
            let changed = self.events(inner, now);
            // What has been sent has made room for more.
            let more = (submitted || sent) && inner.flows.first_ready().is_some();
            if !changed && !more {
                break;
            }
        }
    }

    /// Has the timer fire when something is due, or before.
    fn set_timer(self: &Arc<Self>, inner: &mut Inner, now: u64) {
        let wanted = inner.due();
        // A timer that fires early is cheaper than one moved with every packet.
        if wanted < inner.armed && inner.state != ConnState::Removed {
            inner.armed = wanted;
            self.timer.start_abs(self, now, wanted);
        }
    }

    /// Sees to every event of the core.
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
                self.broken(inner, "the peer does not answer", Code::ABORTED_BROKEN);
            }
            proto::Event::Broken(proto::BrokenCause::TransactionTimeout { .. }) => {
                let cause = "a transaction took longer than tal_transaction_timeout";
                self.broken(inner, cause, Code::ABORTED_TIMEOUT);
            }
        }
    }

    /// Tells that the connection exists.
    pub(crate) fn tell_created(&self) {
        self.tell_state(ConnState::Created, "");
    }

    /// Breaks the connection when its packets no longer fit any path: what is under way was cut to
    /// the old size, and would be lost for ever. Over UDP it goes in fragments, and what follows is shorter.
    pub(crate) fn check_mtu(self: &Arc<Self>) {
        let fits = {
            let inner = self.inner.lock();
            let mut paths = inner.paths.iter();
            self.identity.encap != Encap::Sunh
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

    fn tell_queue_pairs(&self, code: Code) {
        for (_, qp) in self.resources.qps().iter() {
            qp.broken(self.cid(), code);
        }
    }

    /// A snapshot for netlink.
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

    /// A snapshot of the counters.
    pub(crate) fn stats(&self) -> ConnStats {
        let inner = self.inner.lock();
        ConnStats {
            proto: inner.proto.stats(),
            rx_window: inner.proto.advertised_window().into(),
            ..inner.stats
        }
    }
}

/// Adds to a counter.
fn count(counter: &mut u64, n: u64) {
    *counter = counter.wrapping_add(n);
}

/// The offset in its work of a transaction's first byte: the lower half of its token.
fn first_byte(token: u64) -> u64 {
    token & u64::from(u32::MAX)
}

impl Inner {
    /// Something is posted. Whether that is rare, so that a timer that is set for it would serve nothing else, and
    /// would have the connection visited again, often for nothing.
    fn posted(&mut self, now: u64) -> bool {
        let last = core::mem::replace(&mut self.last_post, now);
        now.saturating_sub(last) > RARE
    }

    /// When there is something to do, if nothing happens before, ns; `u64::MAX`: never.
    fn due(&self) -> u64 {
        // Nothing else can be sent before what waits.
        let deadline = self.out.due().or_else(|| self.proto.deadline());
        deadline.unwrap_or(u64::MAX).min(self.resume)
    }
}

type Guard<'a> = GuardBh<'a, Inner>;

impl TimerCallback for Conn {
    fn expired(this: &Arc<Self>) {
        let mut inner = this.inner.lock();
        inner.armed = u64::MAX;
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
