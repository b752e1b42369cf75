// SPDX-License-Identifier: GPL-2.0

//! The submission half of queue pairs of contexts: ring entries become works of a connection.

use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        atomic::{Atomic, Relaxed},
        Arc, Mutex,
    },
    workqueue::{self, impl_has_work, new_work, WorkItem},
};

use super::{builder::WorkBuilder, entry, node_of};
use crate::{
    conn::Conn,
    kapi::{
        compat::smp_mb,
        defer,
        ring::Sqe,
        timer::{self, Timer, TimerCallback},
    },
    node::Node,
    proto::Code,
    qp::{
        work::{self, Pool, Recycled, Request, UnpostedWork},
        CompletedRange, Doorbell, Lookup, Qp, Queue, RingPeer, RingTicket, Slot,
    },
};

/// Number of entries that are copied, and of completion entries that are reserved, at a time.
const BATCH: u32 = 32;
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

/// State of the thread that fetches submissions.
struct SqConsumer {
    /// Private copies of the entries of one batch. There are `BATCH` of them.
    entries: KVec<Sqe>,
    /// Copy of `Inflight::watched`, which can be read without its lock.
    watched: bool,
    /// Works for reuse. When it is empty, it is exchanged for those of the pool.
    recycled: KVVec<Recycled>,
}

/// A queue pair of a context, and what fetches its submissions.
///
/// Its locks in their order: `consumer`, the connection's lock, then those of [`Queue`].
#[pin_data]
pub(super) struct SendQueue {
    qp: Arc<Qp>,
    queue: Arc<Queue>,
    /// Held while submissions are fetched.
    #[pin]
    consumer: Mutex<SqConsumer>,
    /// Index of the next submission to fetch. Written with `consumer` held.
    next_sqe: Atomic<u32>,
    /// The poll timer. It runs after a doorbell with MSG_MORE.
    #[pin]
    timer: Timer<SendQueue>,
    /// `next_sqe` when the poll timer last expired, or `u64::MAX` since the last doorbell. Accessed
    /// with `Queue::inflight` held.
    last_polled: Atomic<u64>,
    #[pin]
    poll_work: workqueue::Work<SendQueue>,
    /// Completed works for reuse.
    pool: Arc<Pool>,
}

impl SendQueue {
    /// Returns the idle submission half of `queue`, whose queue pair is `qp`. Process context.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(qp: Arc<Qp>, queue: Arc<Queue>) -> Result<Arc<SendQueue>> {
        // CAST: A ring has less than 2^32 entries.
        let entries = queue.sq().entries() as usize;
        let consumer = SqConsumer {
            entries: KVec::from_elem(Sqe::default(), BATCH as usize, GFP_KERNEL_ACCOUNT)?,
            watched: false,
            recycled: KVVec::with_capacity(entries, GFP_KERNEL_ACCOUNT)?,
        };
        Arc::pin_init(
            try_pin_init!(SendQueue {
                qp,
                queue,
                consumer <- new_mutex!(consumer, "superp_ring_consumer"),
                next_sqe: Atomic::new(0),
                timer <- Timer::new(),
                last_polled: Atomic::new(u64::MAX),
                poll_work <- new_work!("superp_ring_poll"),
                pool: Pool::new(entries)?,
            }),
            GFP_KERNEL_ACCOUNT,
        )
    }

    pub(super) fn qp(&self) -> &Arc<Qp> {
        &self.qp
    }

    pub(super) fn queue(&self) -> &Arc<Queue> {
        &self.queue
    }

    /// Closes the queue pair. When this returns, no more completions are written and no more
    /// messages are received. Process context. Called once, without locks that `Queue::complete`
    /// takes.
    pub(super) fn close(&self) {
        // From here on nothing starts the timer again.
        self.queue.inflight.lock().closed = true;
        self.pool.close();
        self.consumer.lock().recycled = KVVec::new();
        self.timer.cancel_sync();
        self.queue.close();
    }

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
            if self.queue.sq.producer() == next || !self.has_valid_producer(next) {
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
        if self.queue.inflight.lock().failed && !self.queue.flush_receives() {
            return DoorbellResult::CqFull;
        }
        DoorbellResult::Done
    }

    /// Polls the submission ring once. Until [`SendQueue::unwatch`] the flags of the ring say that the
    /// program need not ring. Process context.
    pub(super) fn watch(self: &Arc<Self>, node: &Node) {
        let mut consumer = self.consumer.lock();
        if !consumer.watched {
            self.set_watched(&mut consumer, true);
        }
        if self.queue.sq.producer() != self.next_sqe.load(Relaxed) {
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
        let mut inflight = self.queue.inflight.lock();
        inflight.watched = watched;
        self.queue.sq.set_flags(inflight.flags());
    }

    /// Sets what the program has to do for new entries, and shows it to the program.
    fn set_doorbell(&self, doorbell: Doorbell) {
        let mut inflight = self.queue.inflight.lock();
        inflight.doorbell = doorbell;
        self.queue.sq.set_flags(inflight.flags());
    }

    /// Starts the poll timer, unless the queue pair is closed or in the error state, and shows the
    /// program that it need not ring.
    fn start_poll_timer(self: &Arc<Self>) {
        let mut inflight = self.queue.inflight.lock();
        inflight.doorbell = Doorbell::Required;
        if !inflight.closed && !inflight.failed {
            inflight.doorbell = Doorbell::Timer;
            self.last_polled.store(u64::MAX, Relaxed);
            let now = timer::now();
            self.timer
                .start_abs(self, now, now.saturating_add(POLL_PERIOD));
        }
        self.queue.sq.set_flags(inflight.flags());
    }

    /// Whether the producer index of the ring is in bounds. `next` is the next entry to fetch.
    fn has_valid_producer(&self, next: u32) -> bool {
        let producer = self.queue.sq.producer();
        self.is_valid_producer(producer, next)
    }

    /// Whether `producer` is in bounds: not before `next`, and at most a ring ahead of the oldest
    /// submission that has not completed.
    fn is_valid_producer(&self, producer: u32, next: u32) -> bool {
        let head = self.queue.inflight.lock().head;
        let entries = self.queue.sq.entries();
        producer.wrapping_sub(next) <= entries && producer.wrapping_sub(head) <= entries
    }

    /// Fetches the entries of the submission ring and posts their works. A producer index that is
    /// out of bounds puts the queue pair into the error state. Returns `false` if entries are left
    /// because the completion queue is full.
    fn fetch(self: &Arc<Self>, node: &Node, consumer: &mut SqConsumer) -> bool {
        let producer = self.queue.sq.producer();
        if !self.is_valid_producer(producer, self.next_sqe.load(Relaxed)) {
            self.queue.fail();
            return true;
        }
        let peer = *self.queue.peer.lock();
        let qpn = peer.map_or(0, |peer| peer.qpn);
        let conn = match &peer {
            Some(peer) => connection(node, peer),
            None => Err(Code::NO_QUEUE_PAIR),
        };
        let mut regions = self.queue.regions.lookup();
        let mut builder = WorkBuilder::new(producer);
        loop {
            let remaining = producer.wrapping_sub(self.next_sqe.load(Relaxed));
            let wanted = remaining.min(BATCH);
            let reserved = self.queue.send_cq.reserve(wanted);
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
        if consumer.recycled.is_empty() {
            self.pool.exchange(&mut consumer.recycled);
        }
        let mut inflight = self.queue.inflight.lock();
        let mut failed = inflight.failed;
        for (i, entry) in (0..n).zip(&mut consumer.entries) {
            let index = first.wrapping_add(i);
            self.queue.sq.read_into(index, entry);
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
            let segment = |number| self.queue.sq.segment(index, number);
            let parsed = match conn {
                _ if failed => Err(Code::ABORTED),
                Ok(conn) => entry::parse(entry, segment, regions, conn, qpn),
                Err(code) => Err(*code),
            };
            match parsed {
                Ok((op, local)) => {
                    if op.is_message() {
                        self.queue.tx_messages.add(1, Relaxed);
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
                            let ticket = RingTicket::new(&self.queue, index);
                            let ticket = work::Ticket::Ring(ticket, self.pool.clone());
                            UnpostedWork::new(ticket, request)
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
                    self.queue
                        .complete(&[CompletedRange::one(index, Err(code))]);
                }
            }
        }
    }

    /// Enters the error state, and completes the entries of both rings as aborted, like
    /// [`SendQueue::serve`]. Process context.
    pub(super) fn fail_and_flush(self: &Arc<Self>, node: &Node) -> DoorbellResult {
        self.queue.fail();
        self.serve(node, false)
    }
}

impl_has_work! {
    impl HasWork<Self> for SendQueue { self.poll_work }
}

impl TimerCallback for SendQueue {
    /// The poll timer has expired. If a doorbell came during the last period, it is started again.
    /// Otherwise the program must ring from now on, and entries that are in the ring already are
    /// fetched by the workqueue, since this is softirq.
    fn expired(this: &Arc<Self>) {
        let mut inflight = this.queue.inflight.lock();
        if inflight.doorbell != Doorbell::Timer || inflight.closed {
            return;
        }
        let next = this.next_sqe.load(Relaxed);
        if this.last_polled.load(Relaxed) != u64::from(next) {
            this.last_polled.store(next.into(), Relaxed);
            let now = timer::now();
            this.timer
                .start_abs(this, now, now.saturating_add(POLL_PERIOD));
            return;
        }
        // No doorbell came during the last period.
        inflight.doorbell = Doorbell::Required;
        this.queue.sq.set_flags(inflight.flags());
        drop(inflight);
        // The program stores the producer index and then loads the flags, which were stored above.
        // Either the program sees the new flags, or this loads the new producer index.
        smp_mb();
        if this.queue.sq.producer() != next {
            // This fails if the work is queued already.
            let _ = defer::queue().enqueue(this.clone());
        }
    }
}

impl WorkItem for SendQueue {
    type Pointer = Arc<SendQueue>;

    /// Fetches entries for which the program did not ring, in process context.
    fn run(this: Arc<SendQueue>) {
        let Some(node) = node_of(&this.queue.page) else {
            return;
        };
        let mut consumer = this.consumer.lock();
        let closed = this.queue.inflight.lock().closed;
        if !closed && !this.fetch(&node, &mut consumer) {
            // The completion queue is full. The next doorbell fetches the rest.
            this.queue.page.set_doorbell(this.queue.id);
        }
    }
}
