// SPDX-License-Identifier: GPL-2.0

//! The submission half of queue pairs of contexts: ring entries become works of a connection.

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

/// Period of the poll timer, in ns. The times in the description of MSG_MORE in
/// `uapi/linux/superp.h` follow from it.
const POLL_PERIOD: u64 = 400_000;

/// The connection of a queue pair. A new connection may have got the id of a removed one, so that
/// the address is compared.
fn connection(node: &Node, peer: &RingPeer) -> Result<Arc<Conn>, Code> {
    node.conn(peer.cid)
        .filter(|conn| conn.remote() == peer.addr)
        .ok_or(Code::ABORTED)
}

/// What a doorbell has left in the rings of a queue pair.
pub(super) enum DoorbellResult {
    Done,
    /// Entries, because a completion queue is full.
    CqFull,
    /// Entries, because a signal is pending.
    Signal,
}

impl Queue {
    /// Serves a doorbell: fetches all entries of the submission ring. In the error state all
    /// entries of both rings complete as aborted. `more`: the poll timer looks for the entries that
    /// follow. Process context.
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
            // The program stores the producer index and then loads the flags, which were stored
            // above. Either the program sees the new flags, or this loads the new producer index.
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

    /// Completes the entries of the receive ring as aborted if the queue pair is in the error
    /// state.
    fn flush_if_failed(&self) -> DoorbellResult {
        if self.inflight.lock().failed && !self.flush_receives() {
            return DoorbellResult::CqFull;
        }
        DoorbellResult::Done
    }

    /// Polls the submission ring once. Until [`Queue::unwatch`] the flags of the ring say that the
    /// program need not ring. Process context.
    pub(super) fn watch(self: &Arc<Self>, node: &Node) {
        let mut consumer = self.consumer.lock();
        if !consumer.watched {
            self.set_watched(&mut consumer, true);
        }
        if self.sq.producer() != self.next_sqe.load(Relaxed) {
            // Entries for which the completion queue is full are fetched by a later call.
            self.fetch(node, &mut consumer);
        }
    }

    /// Stops polling. Fetches the entries for which the program did not ring, once: with every
    /// further round the program could put in more. Process context.
    pub(super) fn unwatch(self: &Arc<Self>, node: &Node) -> DoorbellResult {
        let mut consumer = self.consumer.lock();
        self.set_watched(&mut consumer, false);
        // The program stores the producer index and then loads the flags, which were stored above.
        // Either the program sees the new flags, or `fetch` loads the new producer index.
        smp_mb();
        if !self.fetch(node, &mut consumer) {
            return DoorbellResult::CqFull;
        }
        drop(consumer);
        self.flush_if_failed()
    }

    /// Sets whether a thread polls the ring, and shows it to the program.
    fn set_watched(&self, consumer: &mut SqConsumer, watched: bool) {
        consumer.watched = watched;
        let mut inflight = self.inflight.lock();
        inflight.watched = watched;
        self.sq.set_flags(inflight.flags());
    }

    /// Sets what the program has to do for new entries, and shows it to the program.
    fn set_doorbell(&self, doorbell: Doorbell) {
        let mut inflight = self.inflight.lock();
        inflight.doorbell = doorbell;
        self.sq.set_flags(inflight.flags());
    }

    /// Starts the poll timer, unless the queue pair is closed or in the error state, and shows the
    /// program that it need not ring.
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

    /// Whether the producer index of the ring is in bounds. `next` is the next entry to fetch.
    fn has_valid_producer(&self, next: u32) -> bool {
        let producer = self.sq.producer();
        self.is_valid_producer(producer, next)
    }

    /// Whether `producer` is in bounds: not before `next`, and at most a ring ahead of the oldest
    /// submission that has not completed.
    fn is_valid_producer(&self, producer: u32, next: u32) -> bool {
        let head = self.inflight.lock().head;
        let entries = self.sq.entries();
        producer.wrapping_sub(next) <= entries && producer.wrapping_sub(head) <= entries
    }

    /// Fetches the entries of the submission ring and posts their works. A producer index that is
    /// out of bounds puts the queue pair into the error state. Returns `false` if entries are left
    /// because the completion queue is full.
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
                // Works that the connection did not accept are dropped, which completes them as
                // aborted.
                let _ = conn.post_all(&mut works);
            }
            drop(works);
            if is_last {
                return reserved == remaining;
            }
            defer::resched();
        }
    }

    /// Fetches the next `n` entries, for each of which a completion entry is reserved, and passes
    /// their works to `builder`. Entries that are malformed or not allowed complete here. In the
    /// error state all complete as aborted.
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
                        // Without memory the ticket is dropped, which completes the entry as
                        // aborted.
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

    /// Enters the error state, and completes the entries of both rings as aborted, like
    /// [`Queue::serve`]. Process context.
    pub(super) fn fail_and_flush(self: &Arc<Self>, node: &Node) -> DoorbellResult {
        self.fail();
        self.serve(node, false)
    }
}

impl_has_work! {
    impl HasWork<Self> for Queue { self.poll_work }
}

impl TimerCallback for Queue {
    /// The poll timer has expired. If a doorbell came during the last period, it is started again.
    /// Otherwise the program must ring from now on, and entries that are in the ring already are
    /// fetched by the workqueue, since this is softirq.
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
        // No doorbell came during the last period.
        inflight.doorbell = Doorbell::Required;
        this.sq.set_flags(inflight.flags());
        drop(inflight);
        // The program stores the producer index and then loads the flags, which were stored above.
        // Either the program sees the new flags, or this loads the new producer index.
        smp_mb();
        if this.sq.producer() != next {
            // This fails if the work is queued already.
            let _ = defer::queue().enqueue(this.clone());
        }
    }
}

impl WorkItem for Queue {
    type Pointer = Arc<Queue>;

    /// Fetches entries for which the program did not ring, in process context.
    fn run(this: Arc<Queue>) {
        let Some(node) = node_of(&this.page) else {
            return;
        };
        let mut consumer = this.consumer.lock();
        let closed = this.inflight.lock().closed;
        if !closed && !this.fetch(&node, &mut consumer) {
            // The completion queue is full. The next doorbell fetches the rest.
            this.page.set_doorbell(this.id);
        }
    }
}
