// SPDX-License-Identifier: GPL-2.0

//! Queue pairs of contexts: their state, the completion of submissions, and the receive half.
//! `ring/submit.rs` has the submission half.

mod receive;
mod ticket;

use kernel::{
    prelude::*,
    sync::{
        atomic::{Atomic, Relaxed},
        Arc,
    },
};

use super::{error_of, page::Page, Cq, EndpointInfo, LocalRegions, RetryPolicy, Srq};
use crate::{
    kapi::{
        lock::{new_spinlock_bh, GuardBh, SpinLockBh},
        process::Process,
        ring::{Cqe, Ring, Rqe, Shared, Sqe},
        uapi,
    },
    proto::Code,
};

pub(crate) use receive::{Bytes, Claim};
use receive::{ReceiveQueue, RqState, RqeSource};
pub(crate) use ticket::{CompletedRange, Ticket};

/// The node and queue pair that a queue pair sends to and receives from.
#[derive(Copy, Clone)]
pub(crate) struct Peer {
    pub(crate) addr: [u8; 16],
    /// 0: the queue pair is for remote memory access only.
    pub(crate) qpn: u32,
    pub(crate) cid: u32,
}

/// A submission that was fetched from the ring and has not completed.
#[derive(Copy, Clone, Default)]
pub(crate) struct Slot {
    pub(crate) token: u64,
    pub(crate) len: u32,
    pub(crate) opcode: u8,
    pub(crate) signaled: bool,
    pub(crate) outcome: Option<Result<(), Code>>,
}

/// The submissions of a queue pair that have not completed, and the state of the queue pair.
pub(crate) struct Inflight {
    /// Fetched submissions, in the same slots as in the ring.
    slots: KVVec<Slot>,
    /// Index of the oldest submission that has not completed. The consumer word of the ring is a
    /// copy.
    pub(crate) head: u32,
    pub(crate) doorbell: Doorbell,
    /// A thread polls the ring (`SUPERP_IOC_SERVE`).
    pub(crate) watched: bool,
    /// The queue pair is in the error state.
    pub(crate) failed: bool,
    /// The queue pair is closed: completions are dropped.
    pub(crate) closed: bool,
}

impl Inflight {
    /// The slot of submission `index`.
    pub(crate) fn slot(&mut self, index: u32) -> Option<&mut Slot> {
        let mask = self.slots.len().wrapping_sub(1);
        self.slots.get_mut(index as usize & mask)
    }

    /// Flags of the submission ring (`SUPERP_RING_*`), for the program.
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

/// What the program has to do after it has put in new entries. [`Inflight::watched`] overrides it.
#[derive(Copy, Clone, PartialEq, Eq)]
pub(crate) enum Doorbell {
    /// Ring the doorbell.
    Required,
    /// Nothing: a doorbell is being served and sees new entries.
    Polling,
    /// Nothing: the poll timer sees new entries soon. A doorbell has the kernel fetch them at once.
    Timer,
}

/// One queue pair of a context.
///
/// Its locks are `inflight` or `receiving`, and inside of them the lock of a completion queue or
/// shared receive queue. Documentation/architecture.md has the whole order.
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
    /// Index of the first submission that failed, or `u64::MAX`. Later submissions that have not
    /// started are flushed. Written with `inflight` held.
    flush_after: Atomic<u64>,
    #[pin]
    pub(crate) inflight: SpinLockBh<Inflight>,
    #[pin]
    receiving: SpinLockBh<RqState>,
}

/// Parameters of a new queue pair, which the caller has checked.
pub(crate) struct Params {
    pub(crate) id: u32,
    pub(crate) sq_entries: u32,
    pub(crate) rq_entries: u32,
    pub(crate) sq_segments: u32,
    pub(crate) rq_segments: u32,
    pub(crate) send_cq: Arc<Cq>,
    /// Where receive entries complete. `None`: the queue pair does not receive.
    pub(crate) recv_cq: Option<Arc<Cq>>,
    /// The shared receive queue. `None`: the queue pair has its own receive ring.
    pub(crate) srq: Option<Arc<Srq>>,
}

impl Queue {
    /// Returns an idle queue pair. Process context. The caller holds `Context::config`, so that the
    /// completion queues and the shared receive queue are not destroyed at the same time.
    ///
    /// # Errors
    ///
    /// `EINVAL`: a number of entries is not a power of two. `ENOMEM`: out of memory, or over
    /// RLIMIT_MEMLOCK.
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
            watched: false,
            failed: false,
            closed: false,
        };
        sq.set_flags(inflight.flags());
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
                flush_after: Atomic::new(u64::MAX),
                inflight <- new_spinlock_bh!(inflight, "superp_ring_inflight"),
                receiving <- new_spinlock_bh!(RqState::new(), "superp_ring_receiving"),
            }),
            GFP_KERNEL_ACCOUNT,
        )?;
        queue.send_cq.users.join();
        if let Some(rq) = &queue.rq {
            rq.join();
        }
        Ok(queue)
    }

    pub(crate) fn sq(&self) -> &Ring<Sqe> {
        &self.sq
    }

    /// Whether the queue pair receives messages.
    pub(crate) fn receives(&self) -> bool {
        self.rq.is_some()
    }

    /// The receive ring, or `None` if the queue pair does not receive or uses a shared receive
    /// queue.
    pub(crate) fn rq(&self) -> Option<&Ring<Rqe>> {
        self.rq.as_ref().and_then(|rq| rq.source.own_ring())
    }

    /// Sets the peer. Returns `false` if there is one already.
    pub(crate) fn set_peer(&self, to: Peer) -> bool {
        let mut peer = self.peer.lock();
        let first = peer.is_none();
        if first {
            *peer = Some(to);
        }
        first
    }

    /// Closes the queue pair. When this returns, no more completions are written and no more
    /// messages are received. Process context. Called once, without locks that `Queue::complete`
    /// takes.
    pub(crate) fn close(&self) {
        self.inflight.lock().closed = true;
        self.receiving.lock().close();
        self.send_cq.users.leave();
        if let Some(rq) = &self.rq {
            rq.leave();
        }
    }

    /// Stores the outcomes of submissions that have ended, and writes the completions that are due.
    /// Completions are written in the order of submission. A failure puts the queue pair into the
    /// error state.
    ///
    /// Any context up to softirq. A connection's lock may be held.
    pub(crate) fn complete(&self, ranges: &[CompletedRange]) {
        let mut inflight = self.inflight.lock();
        let closed = inflight.closed;
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
        // The consumer index goes first: a program that sees the completion may reuse the slot.
        self.sq.set_consumer(head);
        cq.finish();
        inflight.head = head;
        drop(inflight);
        if enters_error {
            self.flush_receives();
        }
    }

    /// See [`super::work::Ticket::retry_policy`]. Any context up to softirq.
    pub(crate) fn retry_policy(&self) -> RetryPolicy {
        let inflight = self.inflight.lock();
        match (inflight.failed, inflight.closed) {
            (true, _) => RetryPolicy::Never,
            (_, true) => RetryPolicy::Limited,
            _ => RetryPolicy::Unlimited,
        }
    }

    /// Returns a completion of this queue pair without immediate data.
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
            // Error numbers are negative and above -4096.
            error: code.map_or(0, |code| error_of(code).to_errno().unsigned_abs()),
        }
    }

    /// Sets the error state and shows it to the program.
    fn set_failed(&self, inflight: &mut GuardBh<'_, Inflight>) {
        inflight.failed = true;
        self.sq.set_flags(inflight.flags());
    }

    /// Records that submission `index` has failed, unless an earlier one has. The caller holds
    /// `inflight`.
    fn record_failure(&self, index: u32) {
        if !self.is_flushed(index) {
            self.flush_after.store(index.into(), Relaxed);
        }
    }

    /// Flushes the submissions behind `index` that have not started. Any context up to softirq. A
    /// connection's lock may be held.
    pub(crate) fn flush_after(&self, index: u32) {
        let _inflight = self.inflight.lock();
        self.record_failure(index);
    }

    /// Whether submission `index` is behind one that has failed. If it has not started, it
    /// completes as aborted. Any context.
    pub(crate) fn is_flushed(&self, index: u32) -> bool {
        // Indices wrap. Two fetched entries of a ring are less than 2^31 apart.
        u32::try_from(self.flush_after.load(Relaxed))
            .is_ok_and(|from| (1..1 << 31).contains(&index.wrapping_sub(from)))
    }

    /// Enters the error state. Submissions that have not started, and receive entries, are flushed.
    /// Any context up to softirq. A connection's lock may be held.
    pub(crate) fn fail(&self) {
        let mut inflight = self.inflight.lock();
        self.record_failure(inflight.head.wrapping_sub(1));
        self.set_failed(&mut inflight);
        drop(inflight);
        self.flush_receives();
    }

    /// Connection `cid` has broken, or was reset or removed. Any context up to softirq.
    pub(crate) fn broken(&self, cid: u32) {
        let peer = *self.peer.lock();
        if peer.is_some_and(|peer| peer.cid == cid) {
            self.fail();
        }
    }

    /// The process that created the context.
    pub(crate) fn process(&self) -> &Process {
        &self.page.process
    }

    /// A snapshot for netlink. Any context up to softirq.
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
