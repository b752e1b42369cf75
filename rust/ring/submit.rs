// SPDX-License-Identifier: GPL-2.0

//! The submission rings of queue pairs: entries become works of a connection.

use kernel::{
    prelude::*,
    sync::{atomic::Relaxed, Arc},
    workqueue::{impl_has_work, WorkItem},
};

use super::{entry, making::Making, node_of};
use crate::{
    conn::Conn,
    kapi::{
        compat::smp_mb,
        defer,
        timer::{self, TimerCallback},
    },
    node::Node,
    proto::Code,
    qp::{
        work::{self, Draft, Request},
        Bell, Ended, Lookup, Queue, RingPeer, RingTicket, Slot, Taking, BATCH,
    },
};

/// How often the kernel looks by itself after a doorbell that more was to follow, ns.
const LOOK_AGAIN: u64 = 400_000;

/// The connection of a queue pair. It may have been removed since, and another one made under its id.
fn connection(node: &Node, peer: &RingPeer) -> Result<Arc<Conn>, Code> {
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

impl Queue {
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
                            let ticket = RingTicket::new(self, index);
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

    /// Enters the error state, and flushes what has not been taken in, as [`Queue::serve`]. Process
    /// context.
    pub(super) fn fail_and_flush(self: &Arc<Self>, node: &Node) -> Left {
        self.fail();
        self.serve(node, false)
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
        let Some(node) = node_of(&this.page) else {
            return;
        };
        let mut taking = this.taking.lock();
        let closed = this.flight.lock().closed;
        if !closed && !this.take_in(&node, &mut taking) {
            // The next doorbell goes on with it.
            this.page.set_bell(this.id);
        }
    }
}
