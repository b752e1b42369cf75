// SPDX-License-Identifier: GPL-2.0

//! How a life of a connection ends. There may be very many requests that it has not begun: they complete
//! without its lock, and in process context.

use kernel::{
    list::List,
    sync::{atomic::Relaxed, Arc},
    workqueue::{impl_has_work, WorkItem},
};

use super::{flow::Abandoned, receiver::Receiver, Conn, ConnState, Guard, Inner};
use crate::{
    kapi::{defer, timer},
    proto::Code,
    qp::work::Work,
};

/// Flows that are looked at while the lock is held once.
const FLOWS: usize = 512;
/// Works that complete before others may have the processor.
const WORKS: usize = 128;

/// What has not completed yet of what a connection had taken.
pub(super) struct Ending {
    flows: Abandoned,
    works: List<Work>,
    /// What the receiving half kept.
    rx: Option<Receiver>,
}

impl Ending {
    /// Nothing.
    pub(super) fn none() -> Self {
        Ending {
            flows: Abandoned::none(),
            works: List::new(),
            rx: None,
        }
    }
}

impl Inner {
    /// Takes away what has not been submitted, for [`Conn::complete_abandoned`]. The core completes
    /// the rest. No request is taken any more in this life, and no packet.
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
    /// Ends the present life: everything pending completes as aborted. Process context, sleeps.
    pub(crate) fn stop(self: &Arc<Self>) {
        let _life = self.life.lock();
        self.end_life();
    }

    /// [`Conn::stop`], under the lock of the connection's lives.
    pub(super) fn end_life(self: &Arc<Self>) {
        let mut inner = self.inner.lock();
        self.established.store(false, Relaxed);
        inner.state = ConnState::Removed;
        inner.cause = "";
        inner.proto.stop();
        inner.abandon();
        self.run(&mut inner, timer::now());
        inner.untold = None;
        drop(inner);
        self.complete_abandoned();
        // Nothing starts it in this state.
        self.timer.cancel_sync();
        self.tell_queue_pairs(Code::ABORTED_STOPPED);
        self.tell_state(ConnState::Removed, "");
    }

    /// The connection is given up: nothing is taken any more, everything pending ends.
    pub(super) fn broken(&self, inner: &mut Inner, cause: &'static str, code: Code) {
        if inner.state == ConnState::Broken || inner.state == ConnState::Removed {
            return;
        }
        self.established.store(false, Relaxed);
        inner.state = ConnState::Broken;
        inner.cause = cause;
        inner.untold = Some(code);
        inner.abandon();
        self.tell_state(ConnState::Broken, cause);
    }

    /// Breaks the connection from outside the protocol, e.g. when its device goes away.
    pub(crate) fn break_off(self: &Arc<Self>, cause: &'static str) {
        let mut inner = self.inner.lock();
        inner.proto.stop();
        self.broken(&mut inner, cause, Code::ABORTED);
        self.run(&mut inner, timer::now());
        self.unlock(inner);
        self.close_paths();
    }

    /// Lets go of the lock, then sees to what a break that happened under it leaves to be done.
    pub(super) fn unlock(self: &Arc<Self>, mut inner: Guard<'_>) {
        let untold = inner.untold.take();
        drop(inner);
        if let Some(code) = untold {
            self.tell_queue_pairs(code);
            self.complete_abandoned_later();
        }
    }

    /// Completes what was abandoned, as aborted. Process context; gives way to others.
    fn complete_abandoned(&self) {
        loop {
            let mut works = List::new();
            let (recycled, held) = {
                let mut inner = self.inner.lock();
                let ending = &mut inner.ending;
                works.push_all_back(&mut ending.works);
                ending.flows.take(FLOWS, &mut works);
                let done = ending.flows.is_done();
                let recycled =
                    done.then(|| core::mem::replace(&mut ending.flows, Abandoned::none()));
                (recycled, ending.rx.take())
            };
            drop(held);
            let mut completed = 0usize;
            while let Some(work) = works.pop_front() {
                work.complete(Err(Code::ABORTED));
                completed = completed.wrapping_add(1);
                if completed % WORKS == 0 {
                    defer::resched();
                }
            }
            defer::resched();
            if recycled.is_some() {
                return;
            }
        }
    }

    /// Has it done soon. Any context.
    fn complete_abandoned_later(self: &Arc<Self>) {
        // It fails if it is on its way already.
        let _ = defer::queue().enqueue(self.clone());
    }
}

impl_has_work! {
    impl HasWork<Self> for Conn { self.ending }
}

impl WorkItem for Conn {
    type Pointer = Arc<Conn>;

    fn run(this: Arc<Conn>) {
        this.complete_abandoned();
    }
}
