// SPDX-License-Identifier: GPL-2.0

//! Queue pairs with rings.

use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        atomic::{Atomic, Relaxed},
        Arc, Mutex,
    },
    workqueue::{self, impl_has_work, new_work, WorkItem},
};

use super::{
    cq::Cq,
    entry,
    making::Making,
    receive::{Receive, Receiving, Source},
    regions::{Lookup, Regions},
    srq::Srq,
    ticket::{Ended, Ticket},
    Hub,
};
use crate::{
    conn::Conn,
    kapi::{
        compat::smp_mb,
        defer,
        lock::{new_spinlock_bh, GuardBh, SpinLockBh},
        process::Process,
        ring::{Cqe, Ring, Rqe, Shared, Sqe},
        timer::{self, Timer, TimerCallback},
        uapi,
    },
    node::Node,
    proto::Code,
    socket::{error_of, EndpointInfo},
    work::{self, Draft, Patience, Request, Spent},
};

/// Entries that are copied, and promised completions, at a go.
const BATCH: u32 = 32;
/// How often the kernel looks by itself after a doorbell that more was to follow, ns.
const LOOK_AGAIN: u64 = 400_000;

/// Where the queue pair sends to and receives from.
#[derive(Copy, Clone)]
pub(super) struct Peer {
    pub(super) addr: [u8; 16],
    /// 0: none, for remote memory access only.
    pub(super) qpn: u32,
    pub(super) cid: u32,
}

/// A submission that has been taken in.
#[derive(Copy, Clone, Default)]
struct Slot {
    token: u64,
    len: u32,
    opcode: u8,
    signaled: bool,
    outcome: Option<Result<(), Code>>,
}

/// Submissions that have not completed, in their order.
struct Flight {
    /// By their place in the ring.
    slots: KVVec<Slot>,
    /// The oldest; what the program sees is a copy.
    head: u32,
    bell: Bell,
    /// What had been taken in when the kernel looked last by itself.
    seen: Option<u32>,
    /// A thread watches the ring.
    watched: bool,
    /// The queue pair is in the error state.
    failed: bool,
    /// Nobody wants to know any more.
    closed: bool,
    /// Works that have ended, for those to come, until it is closed: they hold the queue pair.
    spent: KVVec<Spent>,
}

impl Flight {
    fn slot(&mut self, index: u32) -> Option<&mut Slot> {
        let mask = self.slots.len().wrapping_sub(1);
        self.slots.get_mut(index as usize & mask)
    }

    fn flags(&self) -> u32 {
        let bell = match self.bell {
            _ if self.watched => 0,
            Bell::Needed => uapi::SUPERP_RING_NEED_WAKEUP,
            Bell::Taking => 0,
            Bell::Later => uapi::SUPERP_RING_LATER,
        };
        bell | if self.failed {
            uapi::SUPERP_RING_ERROR
        } else {
            0
        }
    }
}

/// What the program has to do for new entries to be taken in, unless a thread watches.
#[derive(Copy, Clone, PartialEq, Eq)]
enum Bell {
    /// Ring.
    Needed,
    /// Nothing: they are being taken in.
    Taking,
    /// Nothing: the kernel looks by itself, soon. A doorbell has it look at once.
    Later,
}

struct Taking {
    /// Private copies of those that are being taken in, room for `BATCH`.
    entries: KVec<Sqe>,
    /// The same as that of the flight, whose lock this saves.
    watched: bool,
    /// Works for what is taken in: those of the flight, from time to time.
    spent: KVVec<Spent>,
}

/// The connection of a queue pair. It may have been removed since, and another one made under its id.
fn connection(node: &Node, peer: &Peer) -> Result<Arc<Conn>, Code> {
    node.conn(peer.cid)
        .filter(|conn| conn.remote() == peer.addr)
        .ok_or(Code::ABORTED)
}

/// What a doorbell has left in a queue.
pub(super) enum Left {
    Nothing,
    /// A completion queue has no room.
    NoRoom,
    /// The program has a signal to see to.
    Signal,
}

/// One queue pair of a context.
#[pin_data]
pub(crate) struct Queue {
    id: u32,
    hub: Arc<Hub>,
    pub(super) regions: Arc<Regions>,
    sq: Ring<Sqe>,
    send_cq: Arc<Cq>,
    pub(super) rq: Option<Receive>,
    tx_messages: Atomic<u64>,
    pub(super) rx_messages: Atomic<u64>,
    #[pin]
    pub(super) peer: SpinLockBh<Option<Peer>>,
    /// Held while submissions are taken in.
    #[pin]
    taking: Mutex<Taking>,
    /// The next submission; written with `taking` held.
    taken: Atomic<u32>,
    /// What was submitted behind this place is flushed if it has not begun; above all places until something
    /// fails. Written under the lock of `flight`.
    flushed: Atomic<u64>,
    /// Looks at the ring after a doorbell that more was to follow.
    #[pin]
    timer: Timer<Queue>,
    #[pin]
    look: workqueue::Work<Queue>,
    #[pin]
    flight: SpinLockBh<Flight>,
    #[pin]
    pub(super) receiving: SpinLockBh<Receiving>,
}

/// What a queue pair is made of; numbers are checked.
pub(super) struct Params {
    pub(super) id: u32,
    pub(super) sq_entries: u32,
    pub(super) rq_entries: u32,
    pub(super) sq_segments: u32,
    pub(super) rq_segments: u32,
    pub(super) send_cq: Arc<Cq>,
    /// Where receive entries complete, and the queue that they are shared from.
    pub(super) recv_cq: Option<Arc<Cq>>,
    pub(super) srq: Option<Arc<Srq>>,
}

impl Queue {
    /// An idle queue pair. Process context; the caller serialises it with the destruction of its
    /// completion queues.
    ///
    /// # Errors
    ///
    /// `EINVAL`: entries are no power of two. `ENOMEM`.
    pub(super) fn new(
        hub: &Arc<Hub>,
        regions: &Arc<Regions>,
        params: Params,
    ) -> Result<Arc<Queue>> {
        let Params {
            id,
            sq_entries,
            rq_entries,
            sq_segments,
            rq_segments,
            send_cq,
            recv_cq,
            srq,
        } = params;
        let sq_size = Ring::<Sqe>::size(sq_entries, sq_segments);
        let size = match (&recv_cq, &srq) {
            (Some(_), None) => sq_size.saturating_add(Ring::<Rqe>::size(rq_entries, rq_segments)),
            _ => sq_size,
        };
        let memory = Shared::new(size)?;
        let sq = Ring::new(&memory, 0, sq_entries, sq_segments)?;
        let rq = match recv_cq {
            Some(cq) => Some(Receive {
                source: match srq {
                    Some(srq) => Source::Shared(srq),
                    None => Source::Own(Ring::new(&memory, sq_size, rq_entries, rq_segments)?),
                },
                cq,
            }),
            None => None,
        };
        let flight = Flight {
            slots: KVVec::from_elem(Slot::default(), sq_entries as usize, GFP_KERNEL_ACCOUNT)?,
            head: 0,
            bell: Bell::Needed,
            seen: None,
            watched: false,
            failed: false,
            closed: false,
            spent: KVVec::with_capacity(sq_entries as usize, GFP_KERNEL_ACCOUNT)?,
        };
        sq.set_flags(flight.flags());
        let taking = Taking {
            entries: KVec::from_elem(Sqe::default(), BATCH as usize, GFP_KERNEL_ACCOUNT)?,
            watched: false,
            spent: KVVec::with_capacity(sq_entries as usize, GFP_KERNEL_ACCOUNT)?,
        };
        let queue = Arc::pin_init(
            try_pin_init!(Queue {
                id,
                hub: hub.clone(),
                regions: regions.clone(),
                sq,
                send_cq,
                rq,
                tx_messages: Atomic::new(0),
                rx_messages: Atomic::new(0),
                peer <- new_spinlock_bh!(None, "superp_ring_peer"),
                taking <- new_mutex!(taking, "superp_ring_taking"),
                taken: Atomic::new(0),
                flushed: Atomic::new(u64::MAX),
                timer <- Timer::new(),
                look <- new_work!("superp_ring_look"),
                flight <- new_spinlock_bh!(flight, "superp_ring_flight"),
                receiving <- new_spinlock_bh!(Receiving::new(), "superp_ring_receiving"),
            }),
            GFP_KERNEL,
        )?;
        queue.send_cq.users.join();
        if let Some(rq) = &queue.rq {
            rq.join();
        }
        Ok(queue)
    }

    /// The submission ring.
    pub(super) fn sq(&self) -> &Ring<Sqe> {
        &self.sq
    }

    /// Whether it takes messages in.
    pub(crate) fn receives(&self) -> bool {
        self.rq.is_some()
    }

    /// The receive ring, if it has one of its own.
    pub(super) fn rq(&self) -> Option<&Ring<Rqe>> {
        self.rq.as_ref().and_then(|rq| rq.source.own())
    }

    /// Sets the peer, once.
    pub(super) fn set_peer(&self, to: Peer) -> bool {
        let mut peer = self.peer.lock();
        let first = peer.is_none();
        if first {
            *peer = Some(to);
        }
        first
    }

    /// When this returns, no completion follows and no message is put in. Process context, once.
    pub(super) fn close(&self) {
        let spent = {
            let mut flight = self.flight.lock();
            flight.closed = true;
            core::mem::take(&mut flight.spent)
        };
        drop(spent);
        self.taking.lock().spent = KVVec::new();
        self.timer.cancel_sync();
        self.receiving.lock().close();
        self.send_cq.users.leave();
        if let Some(rq) = &self.rq {
            rq.leave();
        }
    }

    /// Serves a doorbell: takes in what is in the submission ring, and in the error state flushes both
    /// rings. `more`: the program need not ring for what follows. Process context.
    pub(super) fn serve(self: &Arc<Self>, node: &Node, more: bool) -> Left {
        let mut taking = self.taking.lock();
        loop {
            self.set_bell(Bell::Taking);
            let all = self.take_in(node, &mut taking);
            if all && more {
                self.look_later();
            } else {
                self.set_bell(Bell::Needed);
            }
            // The program stores the producer, then looks at the flags; here it is the other way round.
            smp_mb();
            if !all {
                return Left::NoRoom;
            }
            let taken = self.taken.load(Relaxed);
            if self.sq.producer() == taken || !self.is_sound(taken) {
                break;
            }
            if kernel::current!().signal_pending() {
                return Left::Signal;
            }
            defer::resched();
        }
        drop(taking);
        self.flushed()
    }

    /// Flushes the receive ring if the queue pair is in the error state.
    fn flushed(&self) -> Left {
        if self.flight.lock().failed && !self.flush_receives() {
            return Left::NoRoom;
        }
        Left::Nothing
    }

    /// Looks at the submission ring once, and takes in what is there. The program need not ring for new
    /// entries until [`Queue::unwatch`]. Process context.
    pub(super) fn watch(self: &Arc<Self>, node: &Node) {
        let mut taking = self.taking.lock();
        if !taking.watched {
            self.set_watched(&mut taking, true);
        }
        if self.sq.producer() != self.taken.load(Relaxed) {
            // What finds no room is tried again.
            self.take_in(node, &mut taking);
        }
    }

    /// Nobody watches any more: takes in what the program did not ring for, once. For what comes later it
    /// rings, or this would go on for as long as it submits. Process context.
    pub(super) fn unwatch(self: &Arc<Self>, node: &Node) -> Left {
        let mut taking = self.taking.lock();
        self.set_watched(&mut taking, false);
        // The program stores the producer, then looks at the flags; here it is the other way round.
        smp_mb();
        if !self.take_in(node, &mut taking) {
            return Left::NoRoom;
        }
        drop(taking);
        self.flushed()
    }

    fn set_watched(&self, taking: &mut Taking, watched: bool) {
        taking.watched = watched;
        let mut flight = self.flight.lock();
        flight.watched = watched;
        self.sq.set_flags(flight.flags());
    }

    fn set_bell(&self, bell: Bell) {
        let mut flight = self.flight.lock();
        flight.bell = bell;
        self.sq.set_flags(flight.flags());
    }

    /// Has the timer look at the ring for as long as the program rings now and then.
    fn look_later(self: &Arc<Self>) {
        let mut flight = self.flight.lock();
        flight.bell = Bell::Needed;
        if !flight.closed && !flight.failed {
            flight.bell = Bell::Later;
            flight.seen = None;
            let now = timer::now();
            self.timer
                .start_abs(self, now, now.saturating_add(LOOK_AGAIN));
        }
        self.sq.set_flags(flight.flags());
    }

    /// Whether the producer index is one that it can be.
    fn is_sound(&self, next: u32) -> bool {
        let producer = self.sq.producer();
        self.is_sound_index(producer, next)
    }

    fn is_sound_index(&self, producer: u32, next: u32) -> bool {
        let head = self.flight.lock().head;
        let entries = self.sq.entries();
        producer.wrapping_sub(next) <= entries && producer.wrapping_sub(head) <= entries
    }

    /// Takes in what is in the submission ring; `false` if something is left for want of room.
    fn take_in(self: &Arc<Self>, node: &Node, taking: &mut Taking) -> bool {
        let producer = self.sq.producer();
        if !self.is_sound_index(producer, self.taken.load(Relaxed)) {
            self.fail();
            return true;
        }
        let peer = *self.peer.lock();
        let qpn = peer.map_or(0, |peer| peer.qpn);
        let conn = match &peer {
            Some(peer) => connection(node, peer),
            None => Err(Code::NO_QUEUE_PAIR),
        };
        let mut regions = self.regions.lookup();
        let mut making = Making::new(producer);
        loop {
            let left = producer.wrapping_sub(self.taken.load(Relaxed));
            let wanted = left.min(BATCH);
            let promised = self.send_cq.reserve(wanted);
            self.take_some(promised, taking, &conn, qpn, &mut regions, &mut making);
            let last = promised < wanted || promised == left;
            let mut works = making.take(last);
            if let (Ok(conn), false) = (&conn, works.is_empty()) {
                // What it does not take completes as aborted when it is dropped.
                let _ = conn.post_all(&mut works);
            }
            drop(works);
            if last {
                return promised == left;
            }
            defer::resched();
        }
    }

    /// Takes in the next `n` entries, for whose completions there is room. Those that are not allowed
    /// complete here.
    fn take_some(
        self: &Arc<Self>,
        n: u32,
        taking: &mut Taking,
        conn: &Result<Arc<Conn>, Code>,
        qpn: u32,
        regions: &mut Lookup<'_>,
        making: &mut Making,
    ) {
        let first = self.taken.load(Relaxed);
        self.taken.store(first.wrapping_add(n), Relaxed);
        let mut flight = self.flight.lock();
        let mut failed = flight.failed;
        if taking.spent.is_empty() {
            core::mem::swap(&mut taking.spent, &mut flight.spent);
        }
        for (i, entry) in (0..n).zip(&mut taking.entries) {
            let index = first.wrapping_add(i);
            self.sq.read_into(index, entry);
            if let Some(slot) = flight.slot(index) {
                *slot = Slot {
                    token: entry.token,
                    len: entry.length,
                    opcode: entry.opcode,
                    signaled: entry::is_signaled(entry),
                    outcome: None,
                };
            }
        }
        drop(flight);
        for (i, entry) in (0..n).zip(&taking.entries) {
            if !failed && making.join(entry, regions) {
                continue;
            }
            let index = first.wrapping_add(i);
            let segment = |number| self.sq.segment(index, number);
            let parsed = match conn {
                _ if failed => Err(Code::ABORTED),
                Ok(conn) => entry::parse(entry, segment, regions, conn, qpn),
                Err(code) => Err(*code),
            };
            match parsed {
                Ok((op, local)) => {
                    if op.is_message() {
                        self.tx_messages.add(1, Relaxed);
                    }
                    let request = Request {
                        dest: qpn,
                        op,
                        len: entry.length,
                        local,
                        fence: entry::is_fenced(entry),
                        solicited: entry::is_solicited(entry),
                    };
                    let like = request.like();
                    let draft = match taking.spent.pop() {
                        Some(spent) => Ok(Draft::renew(spent, index, request)),
                        // Without memory the ticket is dropped, which completes it as aborted.
                        None => {
                            let ticket = Ticket::new(self, index);
                            Draft::new(work::Ticket::Ring(ticket), request)
                        }
                    };
                    match (draft, like, conn) {
                        (Ok(draft), Some(like), Ok(conn)) => {
                            making.begin(draft, index, entry, like, conn);
                        }
                        (Ok(draft), ..) => making.push(draft),
                        (Err(_), ..) => failed = true,
                    }
                }
                Err(code) => {
                    failed = true;
                    self.complete(&[Ended::one(index, Err(code))], &mut []);
                }
            }
        }
    }

    /// Submissions have ended, with these outcomes; their works are taken out of `spent` for those to come.
    /// Completions go out in the order of submission. Any context up to softirq, a connection's lock may be
    /// held.
    pub(super) fn complete(&self, ended: &[Ended], spent: &mut [Option<Spent>]) {
        let mut flight = self.flight.lock();
        let closed = flight.closed;
        if !closed {
            for work in spent.iter_mut().filter_map(Option::take) {
                // There is room: each was taken in from an entry of the ring.
                let _ = flight.spent.push_within_capacity(work);
            }
        }
        let mut fails = false;
        for ended in ended {
            for i in 0..ended.count {
                if let Some(slot) = flight.slot(ended.first.wrapping_add(i)) {
                    slot.outcome = Some(ended.outcome);
                }
            }
            if ended.outcome.is_err() {
                self.note_failure(ended.first);
                fails = true;
            }
        }
        fails &= !flight.failed;
        if fails {
            self.set_failed(&mut flight);
        }
        let mut head = flight.head;
        let mut cq = self.send_cq.redeem();
        loop {
            let Some(slot) = flight.slot(head) else { break };
            let Some(outcome) = slot.outcome.take() else {
                break;
            };
            head = head.wrapping_add(1);
            match outcome {
                _ if closed => cq.release(),
                Ok(()) if !slot.signaled => cq.release(),
                _ => cq.post(
                    &self.cqe(slot.token, slot.len, slot.opcode, outcome.err()),
                    false,
                ),
            }
        }
        // Before the completions: who takes one may use its slot.
        self.sq.set_consumer(head);
        cq.finish();
        flight.head = head;
        drop(flight);
        if fails {
            self.flush_receives();
        }
    }

    /// As [`crate::work::Ticket::patience`].
    pub(super) fn patience(&self) -> Patience {
        let flight = self.flight.lock();
        match (flight.failed, flight.closed) {
            (true, _) => Patience::Gone,
            (_, true) => Patience::Limited,
            _ => Patience::Endless,
        }
    }

    pub(super) fn cqe(&self, token: u64, length: u32, opcode: u8, code: Option<Code>) -> Cqe {
        Cqe {
            token,
            qp: self.id,
            length,
            imm: 0,
            opcode,
            flags: 0,
            major: code.map_or(0, |code| code.major),
            minor: code.map_or(0, |code| code.minor),
            rsvd: 0,
            // Error numbers are small and negative.
            error: code.map_or(0, |code| error_of(code).to_errno().unsigned_abs()),
        }
    }

    fn set_failed(&self, flight: &mut GuardBh<'_, Flight>) {
        flight.failed = true;
        self.sq.set_flags(flight.flags());
    }

    /// As [`Queue::is_flushed`] from now on, unless it is already. The lock of `flight` is held.
    fn note_failure(&self, index: u32) {
        if !self.is_flushed(index) {
            self.flushed.store(index.into(), Relaxed);
        }
    }

    /// What was submitted behind `index` is not to begin. Any context up to softirq, a connection's lock may
    /// be held.
    pub(super) fn flush_behind(&self, index: u32) {
        let _flight = self.flight.lock();
        self.note_failure(index);
    }

    /// Whether submission `index` is behind one that has failed, so that it ends as aborted if it has not begun
    /// yet. Any context.
    pub(super) fn is_flushed(&self, index: u32) -> bool {
        // Entries of a ring are closer to each other than half of all numbers.
        u32::try_from(self.flushed.load(Relaxed))
            .is_ok_and(|from| (1..1 << 31).contains(&index.wrapping_sub(from)))
    }

    /// Enters the error state; what has not begun yet is flushed. Any context up to softirq.
    pub(super) fn fail(&self) {
        let mut flight = self.flight.lock();
        self.note_failure(flight.head.wrapping_sub(1));
        self.set_failed(&mut flight);
        drop(flight);
        self.flush_receives();
    }

    /// Enters the error state, and flushes what has not been taken in, as [`Queue::serve`]. Process
    /// context.
    pub(super) fn fail_and_flush(self: &Arc<Self>, node: &Node) -> Left {
        self.fail();
        self.serve(node, false)
    }

    /// Connection `cid` has ended. Any context up to softirq.
    pub(crate) fn broken(&self, cid: u32) {
        let peer = *self.peer.lock();
        if peer.is_some_and(|peer| peer.cid == cid) {
            self.fail();
        }
    }

    /// The process that made its context.
    pub(crate) fn process(&self) -> &Process {
        &self.hub.process
    }

    /// What there is to tell. Any context.
    pub(crate) fn info(&self) -> EndpointInfo {
        let peer = *self.peer.lock();
        let head = self.flight.lock().head;
        EndpointInfo {
            cid: peer.map(|peer| peer.cid),
            remote: peer.map_or([0; 16], |peer| peer.addr),
            remote_qpn: peer.map_or(0, |peer| peer.qpn),
            connected: peer.is_some(),
            inode: self.hub.inode(),
            tx_messages: self.tx_messages.load(Relaxed),
            rx_messages: self.rx_messages.load(Relaxed),
            rx_queued: 0,
            pending: self.sq.producer().wrapping_sub(head).min(self.sq.entries()),
        }
    }
}

impl_has_work! {
    impl HasWork<Self> for Queue { self.look }
}

impl TimerCallback for Queue {
    fn expired(this: &Arc<Self>) {
        let mut flight = this.flight.lock();
        if flight.bell != Bell::Later || flight.closed {
            return;
        }
        let taken = this.taken.load(Relaxed);
        if flight.seen != Some(taken) {
            flight.seen = Some(taken);
            let now = timer::now();
            this.timer
                .start_abs(this, now, now.saturating_add(LOOK_AGAIN));
            return;
        }
        // For a whole period nobody has rung.
        flight.bell = Bell::Needed;
        this.sq.set_flags(flight.flags());
        drop(flight);
        // The program stores the producer, then looks at the flags; here it is the other way round.
        smp_mb();
        if this.sq.producer() != taken {
            // It fails if it is on its way already.
            let _ = defer::queue().enqueue(this.clone());
        }
    }
}

impl WorkItem for Queue {
    type Pointer = Arc<Queue>;

    /// Takes in what the program did not ring for.
    fn run(this: Arc<Queue>) {
        let Some(node) = this.hub.node() else { return };
        let mut taking = this.taking.lock();
        let closed = this.flight.lock().closed;
        if !closed && !this.take_in(&node, &mut taking) {
            // The next doorbell goes on with it.
            this.hub.page.set_bell(this.id);
        }
    }
}
