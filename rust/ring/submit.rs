// SPDX-License-Identifier: GPL-2.0

//! The submission rings of queue pairs: entries become works of a connection.

use kernel::{
    prelude::*,
    sync::{atomic::Relaxed, Arc},
    workqueue::{impl_has_work, WorkItem},
};

use super::{builder::WorkBuilder, entry, node_of};
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
        work::{self, Request, UnpostedWork},
        CompletedRange, Doorbell, Lookup, Queue, RingPeer, RingTicket, Slot, SqConsumer, BATCH,
    },
};

/// How often the kernel looks by itself after a doorbell that more was to follow, ns.
const POLL_PERIOD: u64 = 400_000;

/// The connection of a queue pair. It may have been removed since, and another one made under its id.
fn connection(node: &Node, peer: &RingPeer) -> Result<Arc<Conn>, Code> {
    node.conn(peer.cid)
        .filter(|conn| conn.remote() == peer.addr)
        .ok_or(Code::ABORTED)
}

/// What a doorbell has left in a queue.
pub(super) enum DoorbellResult {
    Done,
    /// A completion queue has no room.
    CqFull,
    /// The program has a signal to see to.
    Signal,
}

impl Queue {
    /// Serves a doorbell: takes in what is in the submission ring, and in the error state flushes both
    /// rings. `more`: the program need not ring for what follows. Process context.
    pub(super) fn serve(self: &Arc<Self>, node: &Node, more: bool) -> DoorbellResult {
        let mut consumer = self.consumer.lock();
        loop {
            self.set_doorbell(Doorbell::Polling);
            let fetched_all = self.fetch(node, &mut consumer);
            if fetched_all && more {
                self.start_poll_timer();
            } else {
                self.set_doorbell(Doorbell::Required);
            }
            // The program stores the producer, then looks at the flags; here it is the other way round.
            smp_mb();
            if !fetched_all {
                return DoorbellResult::CqFull;
            }
            let next = self.next_sqe.load(Relaxed);
            if self.sq.producer() == next || !self.has_valid_producer(next) {
                break;
            }
            if kernel::current!().signal_pending() {
                return DoorbellResult::Signal;
            }
            defer::resched();
        }
        drop(consumer);
        self.flush_if_failed()
    }

    /// Flushes the receive ring if the queue pair is in the error state.
    fn flush_if_failed(&self) -> DoorbellResult {
        if self.inflight.lock().failed && !self.flush_receives() {
            return DoorbellResult::CqFull;
        }
        DoorbellResult::Done
    }

    /// Looks at the submission ring once, and takes in what is there. The program need not ring for new
    /// entries until [`Queue::unwatch`]. Process context.
    pub(super) fn watch(self: &Arc<Self>, node: &Node) {
        let mut consumer = self.consumer.lock();
        if !consumer.watched {
            self.set_watched(&mut consumer, true);
        }
        if self.sq.producer() != self.next_sqe.load(Relaxed) {
            // What finds no room is tried again.
            self.fetch(node, &mut consumer);
        }
    }

    /// Nobody watches any more: takes in what the program did not ring for, once. For what comes later it
    /// rings, or this would go on for as long as it submits. Process context.
    pub(super) fn unwatch(self: &Arc<Self>, node: &Node) -> DoorbellResult {
        let mut consumer = self.consumer.lock();
        self.set_watched(&mut consumer, false);
        // The program stores the producer, then looks at the flags; here it is the other way round.
        smp_mb();
        if !self.fetch(node, &mut consumer) {
            return DoorbellResult::CqFull;
        }
        drop(consumer);
        self.flush_if_failed()
    }

    fn set_watched(&self, consumer: &mut SqConsumer, watched: bool) {
        consumer.watched = watched;
        let mut inflight = self.inflight.lock();
        inflight.watched = watched;
        self.sq.set_flags(inflight.flags());
    }

    fn set_doorbell(&self, doorbell: Doorbell) {
        let mut inflight = self.inflight.lock();
        inflight.doorbell = doorbell;
        self.sq.set_flags(inflight.flags());
    }

    /// Has the timer look at the ring for as long as the program rings now and then.
    fn start_poll_timer(self: &Arc<Self>) {
        let mut inflight = self.inflight.lock();
        inflight.doorbell = Doorbell::Required;
        if !inflight.closed && !inflight.failed {
            inflight.doorbell = Doorbell::Timer;
            inflight.last_polled = None;
            let now = timer::now();
            self.timer
                .start_abs(self, now, now.saturating_add(POLL_PERIOD));
        }
        self.sq.set_flags(inflight.flags());
    }

    /// Whether the producer index is one that it can be.
    fn has_valid_producer(&self, next: u32) -> bool {
        let producer = self.sq.producer();
        self.is_valid_producer(producer, next)
    }

    fn is_valid_producer(&self, producer: u32, next: u32) -> bool {
        let head = self.inflight.lock().head;
        let entries = self.sq.entries();
        producer.wrapping_sub(next) <= entries && producer.wrapping_sub(head) <= entries
    }

    /// Takes in what is in the submission ring; `false` if something is left for want of room.
    fn fetch(self: &Arc<Self>, node: &Node, consumer: &mut SqConsumer) -> bool {
        let producer = self.sq.producer();
        if !self.is_valid_producer(producer, self.next_sqe.load(Relaxed)) {
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
        let mut builder = WorkBuilder::new(producer);
        loop {
            let remaining = producer.wrapping_sub(self.next_sqe.load(Relaxed));
            let wanted = remaining.min(BATCH);
            let reserved = self.send_cq.reserve(wanted);
            self.fetch_batch(reserved, consumer, &conn, qpn, &mut regions, &mut builder);
            let is_last = reserved < wanted || reserved == remaining;
            let mut works = builder.take_works(is_last);
            if let (Ok(conn), false) = (&conn, works.is_empty()) {
                // What it does not take completes as aborted when it is dropped.
                let _ = conn.post_all(&mut works);
            }
            drop(works);
            if is_last {
                return reserved == remaining;
            }
            defer::resched();
        }
    }

    /// Takes in the next `n` entries, for whose completions there is room. Those that are not allowed
    /// complete here.
    fn fetch_batch(
        self: &Arc<Self>,
        n: u32,
        consumer: &mut SqConsumer,
        conn: &Result<Arc<Conn>, Code>,
        qpn: u32,
        regions: &mut Lookup<'_>,
        builder: &mut WorkBuilder,
    ) {
        let first = self.next_sqe.load(Relaxed);
        self.next_sqe.store(first.wrapping_add(n), Relaxed);
        let mut inflight = self.inflight.lock();
        let mut failed = inflight.failed;
        if consumer.recycled.is_empty() {
            core::mem::swap(&mut consumer.recycled, &mut inflight.recycled);
        }
        for (i, entry) in (0..n).zip(&mut consumer.entries) {
            let index = first.wrapping_add(i);
            self.sq.read_into(index, entry);
            if let Some(slot) = inflight.slot(index) {
                *slot = Slot {
                    token: entry.token,
                    len: entry.length,
                    opcode: entry.opcode,
                    signaled: entry::is_signaled(entry),
                    outcome: None,
                };
            }
        }
        drop(inflight);
        for (i, entry) in (0..n).zip(&consumer.entries) {
            if !failed && builder.try_merge(entry, regions) {
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
                    let pack_key = request.pack_key();
                    let work = match consumer.recycled.pop() {
                        Some(recycled) => Ok(UnpostedWork::reuse(recycled, index, request)),
                        // Without memory the ticket is dropped, which completes it as aborted.
                        None => {
                            let ticket = RingTicket::new(self, index);
                            UnpostedWork::new(work::Ticket::Ring(ticket), request)
                        }
                    };
                    match (work, pack_key, conn) {
                        (Ok(work), Some(pack_key), Ok(conn)) => {
                            builder.begin(work, index, entry, pack_key, conn);
                        }
                        (Ok(work), ..) => builder.push(work),
                        (Err(_), ..) => failed = true,
                    }
                }
                Err(code) => {
                    failed = true;
                    self.complete(&[CompletedRange::one(index, Err(code))], &mut []);
                }
            }
        }
    }

    /// Enters the error state, and flushes what has not been taken in, as [`Queue::serve`]. Process
    /// context.
    pub(super) fn fail_and_flush(self: &Arc<Self>, node: &Node) -> DoorbellResult {
        self.fail();
        self.serve(node, false)
    }
}

impl_has_work! {
    impl HasWork<Self> for Queue { self.poll_work }
}

impl TimerCallback for Queue {
    fn expired(this: &Arc<Self>) {
        let mut inflight = this.inflight.lock();
        if inflight.doorbell != Doorbell::Timer || inflight.closed {
            return;
        }
        let next = this.next_sqe.load(Relaxed);
        if inflight.last_polled != Some(next) {
            inflight.last_polled = Some(next);
            let now = timer::now();
            this.timer
                .start_abs(this, now, now.saturating_add(POLL_PERIOD));
            return;
        }
        // For a whole period nobody has rung.
        inflight.doorbell = Doorbell::Required;
        this.sq.set_flags(inflight.flags());
        drop(inflight);
        // The program stores the producer, then looks at the flags; here it is the other way round.
        smp_mb();
        if this.sq.producer() != next {
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
        let mut consumer = this.consumer.lock();
        let closed = this.inflight.lock().closed;
        if !closed && !this.fetch(&node, &mut consumer) {
            // The next doorbell goes on with it.
            this.page.set_doorbell(this.id);
        }
    }
}
