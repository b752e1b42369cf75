// SPDX-License-Identifier: GPL-2.0

//! The end of a life of a connection. Very many works may wait that have not begun. They complete
//! in process context, without the connection's lock.

use kernel::{
    list::List,
    sync::{atomic::Relaxed, Arc},
    workqueue::{impl_has_work, WorkItem},
};

use super::{
    flow::Abandoned, links::FLOWS_PER_LOCK, receiver::Receiver, Conn, ConnState, Guard, Inner,
};
use crate::{
    kapi::{defer, timer},
    proto::{Code, DropReason},
    qp::work::Work,
};

/// Works that complete between two calls of `resched()`.
const WORKS_PER_RESCHED: usize = 128;
/// Queue pairs that are notified between two calls of `resched()`.
const QPS_PER_RESCHED: usize = 128;

/// What is left to complete and to free of a life that has ended.
pub(super) struct Ending {
    /// Flows with works that had not begun.
    flows: Abandoned,
    /// Works that had begun, and have no transaction under way.
    works: List<Work>,
    /// Held packets and unfinished messages of the receiving half.
    rx: Option<Receiver>,
}

impl Ending {
    /// Nothing is left.
    pub(super) fn none() -> Self {
        Ending {
            flows: Abandoned::none(),
            works: List::new(),
            rx: None,
        }
    }
}

impl Inner {
    /// Moves what has not been submitted to `ending`, for [`Conn::complete_abandoned`]. The core
    /// completes the transactions under way. In this life no work and no packet is accepted any
    /// more.
    pub(super) fn abandon(&mut self) {
        if self.ending.flows.is_done() {
            self.ending.flows = self.flows.abandon();
        }
        self.flows.close_all(&mut self.ending.works);
        if self.ending.rx.is_none() {
            self.ending.rx = Some(self.rx.take());
        }
    }
}

impl Conn {
    /// Ends the present life: everything pending completes as aborted. Process context; sleeps.
    pub(crate) fn stop(self: &Arc<Self>) {
        let _life = self.life.lock();
        self.end_life();
    }

    /// Ends the present life, as [`Conn::stop`]. The caller holds `life`.
    pub(super) fn end_life(self: &Arc<Self>) {
        let mut inner = self.inner.lock();
        self.established.store(false, Relaxed);
        inner.state = ConnState::Removed;
        inner.cause = "";
        inner.proto.stop();
        inner.abandon();
        self.run(&mut inner, timer::now());
        // A break that the queue pairs do not know yet is the first cause.
        let code = inner.unnotified_break.take();
        drop(inner);
        self.complete_abandoned();
        // `set_timer()` does not start the timer in state `Removed`.
        self.timer.cancel_sync();
        self.notify_queue_pairs(code.unwrap_or(Code::ABORTED_STOPPED));
        self.tell_state(ConnState::Removed, "");
    }

    /// Enters state `Broken`: no work and no packet is accepted any more, and everything pending
    /// ends. The caller holds `inner` and releases it by [`Conn::unlock`].
    pub(super) fn set_broken(&self, inner: &mut Inner, cause: &'static str, code: Code) {
        if inner.state == ConnState::Broken || inner.state == ConnState::Removed {
            return;
        }
        self.established.store(false, Relaxed);
        inner.state = ConnState::Broken;
        inner.cause = cause;
        inner.unnotified_break = Some(code);
        inner.abandon();
        self.tell_state(ConnState::Broken, cause);
    }

    /// Breaks the connection for a cause outside of the protocol, for example because its device
    /// goes away. Process context.
    pub(crate) fn break_off(self: &Arc<Self>, cause: &'static str) {
        let mut inner = self.inner.lock();
        inner.proto.stop();
        self.set_broken(&mut inner, cause, Code::ABORTED);
        self.run(&mut inner, timer::now());
        self.unlock(inner);
        self.close_paths();
    }

    /// Releases `inner`. If the connection broke under it, has the workqueue notify the queue pairs
    /// and complete the works. There may be many of both. Any context up to softirq.
    pub(super) fn unlock(self: &Arc<Self>, inner: Guard<'_>) {
        let broken = inner.unnotified_break.is_some();
        drop(inner);
        if broken {
            // It fails only if it is queued already.
            let _ = defer::queue().enqueue(self.clone());
        }
    }

    /// Notifies the queue pairs of a break that they do not know yet, and completes the abandoned
    /// works. Process context; sleeps.
    fn finish_break(&self) {
        let life = self.life.lock();
        let code = self.inner.lock().unnotified_break.take();
        if let Some(code) = code {
            self.notify_queue_pairs(code);
        }
        drop(life);
        self.complete_abandoned();
    }

    /// Tells every queue pair of the node that this life has ended. Process context; reschedules
    /// now and then. The caller holds `life`, so the next life has not begun.
    fn notify_queue_pairs(&self, code: Code) {
        let mut notified = 0usize;
        for (_, qp) in self.resources.qps().iter() {
            qp.broken(self.cid(), code);
            notified = notified.wrapping_add(1);
            if notified % QPS_PER_RESCHED == 0 {
                defer::resched();
            }
        }
    }

    /// Completes abandoned works as aborted. Process context; reschedules now and then.
    fn complete_abandoned(&self) {
        loop {
            let mut works = List::new();
            let (done_flows, receiver) = {
                let mut inner = self.inner.lock();
                let ending = &mut inner.ending;
                works.push_all_back(&mut ending.works);
                ending.flows.take_works(FLOWS_PER_LOCK, &mut works);
                let done = ending.flows.is_done();
                let done_flows =
                    done.then(|| core::mem::replace(&mut ending.flows, Abandoned::none()));
                (done_flows, ending.rx.take())
            };
            for _held in receiver.iter().flat_map(Receiver::held_packets) {
                self.resources.count_drop(DropReason::HeldAtEnd);
            }
            drop(receiver);
            let mut completed = 0usize;
            while let Some(work) = works.pop_front() {
                work.complete(Err(Code::ABORTED));
                completed = completed.wrapping_add(1);
                if completed % WORKS_PER_RESCHED == 0 {
                    defer::resched();
                }
            }
            defer::resched();
            if done_flows.is_some() {
                return;
            }
        }
    }
}

impl_has_work! {
    impl HasWork<Self> for Conn { self.ending_work }
}

impl WorkItem for Conn {
    type Pointer = Arc<Conn>;

    fn run(this: Arc<Conn>) {
        this.finish_break();
    }
}
