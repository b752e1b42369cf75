// SPDX-License-Identifier: GPL-2.0

//! Queue pairs with rings: what completes, and the receiving half. Submissions are taken in by the
//! room `ring`.

mod receive;
mod ticket;

use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        atomic::{Atomic, Relaxed},
        Arc, Mutex,
    },
    workqueue::{self, new_work},
};

use super::{
    error_of,
    page::Page,
    work::{Recycled, RetryPolicy},
    Cq, EndpointInfo, LocalRegions, Srq,
};
use crate::{
    kapi::{
        lock::{new_spinlock_bh, GuardBh, SpinLockBh},
        process::Process,
        ring::{Cqe, Ring, Rqe, Shared, Sqe},
        timer::Timer,
        uapi,
    },
    proto::Code,
};

pub(crate) use receive::{Bytes, Claim};
use receive::{ReceiveQueue, RqState, RqeSource};
pub(crate) use ticket::{CompletedRange, CompletionBatch, Ticket};

/// Entries that are copied, and promised completions, at a go.
pub(crate) const BATCH: u32 = 32;
/// Where the queue pair sends to and receives from.
#[derive(Copy, Clone)]
pub(crate) struct Peer {
    pub(crate) addr: [u8; 16],
    /// 0: none, for remote memory access only.
    pub(crate) qpn: u32,
    pub(crate) cid: u32,
}

/// A submission that has been taken in.
#[derive(Copy, Clone, Default)]
pub(crate) struct Slot {
    pub(crate) token: u64,
    pub(crate) len: u32,
    pub(crate) opcode: u8,
    pub(crate) signaled: bool,
    pub(crate) outcome: Option<Result<(), Code>>,
}

/// Submissions that have not completed, in their order.
pub(crate) struct Inflight {
    /// By their place in the ring.
    slots: KVVec<Slot>,
    /// The oldest; what the program sees is a copy.
    pub(crate) head: u32,
    pub(crate) doorbell: Doorbell,
    /// What had been taken in when the kernel looked last by itself.
    pub(crate) last_polled: Option<u32>,
    /// A thread watches the ring.
    pub(crate) watched: bool,
    /// The queue pair is in the error state.
    pub(crate) failed: bool,
    /// Nobody wants to know any more.
    pub(crate) closed: bool,
    /// Works that have ended, for those to come, until it is closed: they hold the queue pair.
    pub(crate) recycled: KVVec<Recycled>,
}

impl Inflight {
    pub(crate) fn slot(&mut self, index: u32) -> Option<&mut Slot> {
        let mask = self.slots.len().wrapping_sub(1);
        self.slots.get_mut(index as usize & mask)
    }

    /// What the program sees.
    pub(crate) fn flags(&self) -> u32 {
        let doorbell = match self.doorbell {
            _ if self.watched => 0,
            Doorbell::Required => uapi::SUPERP_RING_NEED_WAKEUP,
            Doorbell::Polling => 0,
            Doorbell::Timer => uapi::SUPERP_RING_LATER,
        };
        doorbell
            | if self.failed {
                uapi::SUPERP_RING_ERROR
            } else {
                0
            }
    }
}

/// What the program has to do for new entries to be taken in, unless a thread watches.
#[derive(Copy, Clone, PartialEq, Eq)]
pub(crate) enum Doorbell {
    /// Ring.
    Required,
    /// Nothing: they are being taken in.
    Polling,
    /// Nothing: the kernel looks by itself, soon. A doorbell has it look at once.
    Timer,
}

/// What takes submissions in.
pub(crate) struct SqConsumer {
    /// Private copies of those that are being taken in, room for `BATCH`.
    pub(crate) entries: KVec<Sqe>,
    /// The same as that of the flight, whose lock this saves.
    pub(crate) watched: bool,
    /// Works for what is taken in: those of the flight, from time to time.
    pub(crate) recycled: KVVec<Recycled>,
}

/// One queue pair of a context.
#[pin_data]
pub(crate) struct Queue {
    pub(crate) id: u32,
    pub(crate) page: Arc<Page>,
    pub(crate) regions: Arc<LocalRegions>,
    pub(crate) sq: Ring<Sqe>,
    pub(crate) send_cq: Arc<Cq>,
    rq: Option<ReceiveQueue>,
    pub(crate) tx_messages: Atomic<u64>,
    pub(crate) rx_messages: Atomic<u64>,
    #[pin]
    pub(crate) peer: SpinLockBh<Option<Peer>>,
    /// Held while submissions are taken in.
    #[pin]
    pub(crate) consumer: Mutex<SqConsumer>,
    /// The next submission; written with `consumer` held.
    pub(crate) next_sqe: Atomic<u32>,
    /// What was submitted behind this place is flushed if it has not begun; above all places until something
    /// fails. Written under the lock of `inflight`.
    flush_after: Atomic<u64>,
    /// Looks at the ring after a doorbell that more was to follow.
    #[pin]
    pub(crate) timer: Timer<Queue>,
    #[pin]
    pub(crate) poll_work: workqueue::Work<Queue>,
    #[pin]
    pub(crate) inflight: SpinLockBh<Inflight>,
    #[pin]
    receiving: SpinLockBh<RqState>,
}

/// What a queue pair is made of; numbers are checked.
pub(crate) struct Params {
    pub(crate) id: u32,
    pub(crate) sq_entries: u32,
    pub(crate) rq_entries: u32,
    pub(crate) sq_segments: u32,
    pub(crate) rq_segments: u32,
    pub(crate) send_cq: Arc<Cq>,
    /// Where receive entries complete, and the queue that they are shared from.
    pub(crate) recv_cq: Option<Arc<Cq>>,
    pub(crate) srq: Option<Arc<Srq>>,
}

impl Queue {
    /// An idle queue pair. Process context; the caller serialises it with the destruction of its
    /// completion queues.
    ///
    /// # Errors
    ///
    /// `EINVAL`: entries are no power of two. `ENOMEM`.
    pub(crate) fn new(
        page: &Arc<Page>,
        regions: &Arc<LocalRegions>,
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
            Some(cq) => Some(ReceiveQueue {
                source: match srq {
                    Some(srq) => RqeSource::Shared(srq),
                    None => RqeSource::Own(Ring::new(&memory, sq_size, rq_entries, rq_segments)?),
                },
                cq,
            }),
            None => None,
        };
        let inflight = Inflight {
            slots: KVVec::from_elem(Slot::default(), sq_entries as usize, GFP_KERNEL_ACCOUNT)?,
            head: 0,
            doorbell: Doorbell::Required,
            last_polled: None,
            watched: false,
            failed: false,
            closed: false,
            recycled: KVVec::with_capacity(sq_entries as usize, GFP_KERNEL_ACCOUNT)?,
        };
        sq.set_flags(inflight.flags());
        let consumer = SqConsumer {
            entries: KVec::from_elem(Sqe::default(), BATCH as usize, GFP_KERNEL_ACCOUNT)?,
            watched: false,
            recycled: KVVec::with_capacity(sq_entries as usize, GFP_KERNEL_ACCOUNT)?,
        };
        let queue = Arc::pin_init(
            try_pin_init!(Queue {
                id,
                page: page.clone(),
                regions: regions.clone(),
                sq,
                send_cq,
                rq,
                tx_messages: Atomic::new(0),
                rx_messages: Atomic::new(0),
                peer <- new_spinlock_bh!(None, "superp_ring_peer"),
                consumer <- new_mutex!(consumer, "superp_ring_consumer"),
                next_sqe: Atomic::new(0),
                flush_after: Atomic::new(u64::MAX),
                timer <- Timer::new(),
                poll_work <- new_work!("superp_ring_poll"),
                inflight <- new_spinlock_bh!(inflight, "superp_ring_inflight"),
                receiving <- new_spinlock_bh!(RqState::new(), "superp_ring_receiving"),
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
    pub(crate) fn sq(&self) -> &Ring<Sqe> {
        &self.sq
    }

    /// Whether it takes messages in.
    pub(crate) fn receives(&self) -> bool {
        self.rq.is_some()
    }

    /// The receive ring, if it has one of its own.
    pub(crate) fn rq(&self) -> Option<&Ring<Rqe>> {
        self.rq.as_ref().and_then(|rq| rq.source.own_ring())
    }

    /// Sets the peer, once.
    pub(crate) fn set_peer(&self, to: Peer) -> bool {
        let mut peer = self.peer.lock();
        let first = peer.is_none();
        if first {
            *peer = Some(to);
        }
        first
    }

    /// When this returns, no completion follows and no message is put in. Process context, once.
    pub(crate) fn close(&self) {
        let recycled = {
            let mut inflight = self.inflight.lock();
            inflight.closed = true;
            core::mem::take(&mut inflight.recycled)
        };
        drop(recycled);
        self.consumer.lock().recycled = KVVec::new();
        self.timer.cancel_sync();
        self.receiving.lock().close();
        self.send_cq.users.leave();
        if let Some(rq) = &self.rq {
            rq.leave();
        }
    }

    /// Submissions have ended, with these outcomes; their works are taken out of `recycled` for those to come.
    /// Completions go out in the order of submission. Any context up to softirq, a connection's lock may be
    /// held.
    pub(crate) fn complete(&self, ranges: &[CompletedRange], recycled: &mut [Option<Recycled>]) {
        let mut inflight = self.inflight.lock();
        let closed = inflight.closed;
        if !closed {
            for work in recycled.iter_mut().filter_map(Option::take) {
                // There is room: each was taken in from an entry of the ring.
                let _ = inflight.recycled.push_within_capacity(work);
            }
        }
        let mut enters_error = false;
        for range in ranges {
            for i in 0..range.count {
                if let Some(slot) = inflight.slot(range.first.wrapping_add(i)) {
                    slot.outcome = Some(range.outcome);
                }
            }
            if range.outcome.is_err() {
                self.record_failure(range.first);
                enters_error = true;
            }
        }
        enters_error &= !inflight.failed;
        if enters_error {
            self.set_failed(&mut inflight);
        }
        let mut head = inflight.head;
        let mut cq = self.send_cq.writer();
        loop {
            let Some(slot) = inflight.slot(head) else {
                break;
            };
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
        inflight.head = head;
        drop(inflight);
        if enters_error {
            self.flush_receives();
        }
    }

    /// As [`super::work::Ticket::retry_policy`].
    pub(crate) fn retry_policy(&self) -> RetryPolicy {
        let inflight = self.inflight.lock();
        match (inflight.failed, inflight.closed) {
            (true, _) => RetryPolicy::Never,
            (_, true) => RetryPolicy::Limited,
            _ => RetryPolicy::Unlimited,
        }
    }

    pub(crate) fn cqe(&self, token: u64, length: u32, opcode: u8, code: Option<Code>) -> Cqe {
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

    fn set_failed(&self, inflight: &mut GuardBh<'_, Inflight>) {
        inflight.failed = true;
        self.sq.set_flags(inflight.flags());
    }

    /// As [`Queue::is_flushed`] from now on, unless it is already. The lock of `inflight` is held.
    fn record_failure(&self, index: u32) {
        if !self.is_flushed(index) {
            self.flush_after.store(index.into(), Relaxed);
        }
    }

    /// What was submitted behind `index` is not to begin. Any context up to softirq, a connection's lock may
    /// be held.
    pub(crate) fn flush_after(&self, index: u32) {
        let _inflight = self.inflight.lock();
        self.record_failure(index);
    }

    /// Whether submission `index` is behind one that has failed, so that it ends as aborted if it has not begun
    /// yet. Any context.
    pub(crate) fn is_flushed(&self, index: u32) -> bool {
        // Entries of a ring are closer to each other than half of all numbers.
        u32::try_from(self.flush_after.load(Relaxed))
            .is_ok_and(|from| (1..1 << 31).contains(&index.wrapping_sub(from)))
    }

    /// Enters the error state; what has not begun yet is flushed. Any context up to softirq.
    pub(crate) fn fail(&self) {
        let mut inflight = self.inflight.lock();
        self.record_failure(inflight.head.wrapping_sub(1));
        self.set_failed(&mut inflight);
        drop(inflight);
        self.flush_receives();
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
        &self.page.process
    }

    /// What there is to tell. Any context.
    pub(crate) fn info(&self) -> EndpointInfo {
        let peer = *self.peer.lock();
        let head = self.inflight.lock().head;
        EndpointInfo {
            cid: peer.map(|peer| peer.cid),
            remote: peer.map_or([0; 16], |peer| peer.addr),
            remote_qpn: peer.map_or(0, |peer| peer.qpn),
            connected: peer.is_some(),
            inode: self.page.inode(),
            tx_messages: self.tx_messages.load(Relaxed),
            rx_messages: self.rx_messages.load(Relaxed),
            rx_queued: 0,
            pending: self.sq.producer().wrapping_sub(head).min(self.sq.entries()),
        }
    }
}
