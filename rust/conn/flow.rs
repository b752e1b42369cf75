// SPDX-License-Identifier: GPL-2.0

//! Flows: the requests of one connection towards one queue pair of the peer, in order.
//!
//! Several sockets that talk to the same remote queue pair share its flow; a socket that talks to
//! none has its own. A work with a fence waits until nothing of its flow is under way. Messages keep their
//! order also when the peer refuses one for want of a buffer: everything it refused afterwards is put back
//! in front, and the first message of the new run says `start`. It goes alone, to find out whether there
//! is a buffer again. A peer without extensions cannot be told so, and on an unordered connection a later
//! one could come first: there one message at a time is under way.

use core::iter;

use kernel::{
    alloc::AllocError,
    list::{List, ListArc},
    prelude::*,
};

use super::{
    active::Active,
    chunks::{self, Chunks, Growth},
};
use crate::qp::work::{FlowId, PackKey, Ticket, Work, WorkOp};

/// No flow, no active work.
const NIL: u32 = u32::MAX;
/// First pause after a refusal, ns.
const BACKOFF_MIN: u64 = 100_000;
/// Longest pause, ns.
const BACKOFF_MAX: u64 = 20_000_000;
/// Between two looks at the flows that pause, so many ns for each of them: many must not take all the
/// time that there is.
const LOOK: u64 = 200;

/// One flow; see the module. Its slot is free when nothing is queued or under way.
pub(super) struct Flow {
    id: FlowId,
    queue: List<Work>,
    /// Refused works in their order, until all messages under way have ended.
    refused: List<Work>,
    /// The partly submitted work.
    current: Option<u32>,
    /// Messages under way.
    sends: u32,
    /// Works under way, messages included.
    works: u32,
    /// Those of them that would go again if the peer refused another one of their packet.
    shared: u32,
    /// A message to a receive context is under way: no other follows before it ends.
    keyed: bool,
    /// The next message is the first of a run.
    start: bool,
    /// The peer had no buffer for the last message that ended.
    probing: bool,
    next_order: u64,
    backoff: u64,
    not_before: u64,
    links: Links,
}

/// The lists that a flow is on, by the index of the one that follows. They are singly linked: a flow
/// that should no longer be on one is passed over, or taken off, when its turn comes.
#[derive(Copy, Clone)]
struct Links {
    /// The first flow of the bucket that has the index of this slot: whether or not this flow is in it.
    bucket: u32,
    /// Next one of the same bucket.
    next: u32,
    /// In the list of ready flows.
    ready: bool,
    next_ready: u32,
    /// In the list of flows that pause.
    paused: bool,
    next_paused: u32,
    /// In the list of flows that may be free.
    free: bool,
    next_free: u32,
}

impl Links {
    const NONE: Links = Links {
        bucket: NIL,
        next: NIL,
        ready: false,
        next_ready: NIL,
        paused: false,
        next_paused: NIL,
        free: false,
        next_free: NIL,
    };
}

impl Flow {
    fn new(id: FlowId, links: Links) -> Self {
        Flow {
            id,
            queue: List::new(),
            refused: List::new(),
            current: None,
            sends: 0,
            works: 0,
            shared: 0,
            keyed: false,
            start: false,
            probing: false,
            next_order: 0,
            backoff: BACKOFF_MIN,
            not_before: 0,
            links,
        }
    }

    fn is_free(&self) -> bool {
        self.works == 0 && self.queue.is_empty() && self.refused.is_empty()
    }

    /// The work that is queued first, if it must not begin any more.
    fn take_flushed(&mut self) -> Option<ListArc<Work>> {
        let mut cursor = self.queue.cursor_front();
        let head = cursor.peek_next()?;
        head.is_flushed().then(|| head.remove())
    }

    /// The work that is queued first, if it may start to share the packet of such ones: no message, so that
    /// it has no place in their order. There is `room` for so many requests.
    fn take_like(&mut self, first: &Work, like: PackKey, room: u32) -> Option<ListArc<Work>> {
        let mut cursor = self.queue.cursor_front();
        let head = cursor.peek_next()?;
        if head.like() != Some(like) || head.fence && self.works > 0 {
            return None;
        }
        if u32::from(head.count()) > room || !head.ticket.shares(&first.ticket) {
            return None;
        }
        if head.is_flushed() {
            return None;
        }
        self.works = self.works.saturating_add(1);
        Some(head.remove())
    }
}

/// What a flow may start now.
pub(super) enum Next {
    /// Nothing queued, or the head must wait for something under way.
    Nothing,
    /// The head must wait until this time.
    NotBefore(u64),
    /// This work, taken from the queue; the flag is `start`.
    Work(ListArc<Work>, bool),
    /// This one, but it must not begin any more.
    Flushed(ListArc<Work>),
}

/// A slot of the table of active works.
enum Slot {
    /// The next free one.
    Free(u32),
    Used(Active),
}

/// All flows of a connection, under its lock. Nothing here takes longer the more flows there are,
/// but what says so.
///
/// They are found by linear hashing: there are as many buckets as slots. Each new slot splits one.
pub(super) struct Flows {
    flows: Chunks<Flow>,
    actives: Chunks<Slot>,
    free_active: u32,
    /// Works that have been started and not ended.
    active: usize,
    first_ready: u32,
    last_ready: u32,
    first_paused: u32,
    first_free: u32,
    /// The flow that was posted to last.
    recent: u32,
    /// TAL window: works under way that wait for nothing but their transactions.
    window: usize,
    /// How often the peer has begun a new life.
    life: u32,
}

/// How much room a table wants.
pub(super) struct Wanted {
    flows: chunks::Wanted,
    actives: chunks::Wanted,
}

/// Room for more flows, allocated outside the lock.
pub(super) struct Room {
    flows: Growth<Flow>,
    actives: Growth<Slot>,
}

/// Flows whose connection has ended, and the works that are queued in them.
pub(super) struct Abandoned {
    flows: Chunks<Flow>,
    /// The first one that may have a work.
    next: usize,
}

impl Flows {
    /// An empty table for a TAL window of `window` slots.
    pub(super) fn new(window: usize) -> Self {
        Flows {
            flows: Chunks::new(),
            actives: Chunks::new(),
            free_active: NIL,
            active: 0,
            first_ready: NIL,
            last_ready: NIL,
            first_paused: NIL,
            first_free: NIL,
            recent: NIL,
            window,
            life: 1,
        }
    }

    /// What [`Room::new`] should allocate, when [`Flows::slot`] found no room.
    pub(super) fn wanted(&self) -> Wanted {
        let flows = self.flows.len().saturating_add(1);
        let actives = flows.saturating_add(self.window);
        Wanted {
            flows: self.flows.wanted(1),
            actives: self
                .actives
                .wanted(actives.saturating_sub(self.actives.capacity())),
        }
    }

    /// Takes `room` over. What it does not need is to be freed outside the lock.
    pub(super) fn grow(&mut self, room: &mut Room) {
        self.flows.grow(&mut room.flows);
        self.actives.grow(&mut room.actives);
    }

    /// Queues a work behind the others of the flow in slot `index`.
    pub(super) fn push(&mut self, index: u32, work: ListArc<Work>) {
        let Some(flow) = self.flow(index) else { return };
        flow.queue.push_back(work);
        self.recent = index;
        self.wake(index);
    }

    /// The slot of flow `id`, made where there is none; `None` without room for a new one.
    pub(super) fn slot(&mut self, id: FlowId) -> Option<u32> {
        if let Some(flow) = self.flow(self.recent) {
            if flow.id == id {
                return Some(self.recent);
            }
        }
        let hash = id.hash();
        let first = self.bucket_of(hash);
        let mut index = first.map_or(NIL, |slot| slot.links.bucket);
        while let Some(flow) = self.flow(index) {
            if flow.id == id {
                if flow.is_free() {
                    *flow = Flow::new(id, flow.links);
                }
                return Some(index);
            }
            index = flow.links.next;
        }
        match self.reuse(id) {
            Some(index) => self.enter(index, hash),
            None => self.add(id, hash),
        }
    }

    /// Number of the bucket of a hash, among `buckets`.
    fn bucket(hash: u32, buckets: usize) -> usize {
        // All bits up to the highest one of a bucket's number.
        let unused = buckets.saturating_sub(1).leading_zeros();
        let mask = usize::MAX.checked_shr(unused).unwrap_or(0);
        let number = hash as usize & mask;
        match number < buckets {
            true => number,
            // It has not been split yet.
            false => number & mask >> 1,
        }
    }

    /// The slot that has the bucket of a hash; `None` where there is no slot at all.
    fn bucket_of(&mut self, hash: u32) -> Option<&mut Flow> {
        let buckets = self.flows.len();
        self.flows.get_mut(Self::bucket(hash, buckets))
    }

    /// A slot whose flow has nothing queued and nothing under way, for another one.
    fn reuse(&mut self, id: FlowId) -> Option<u32> {
        loop {
            let index = self.first_free;
            let flow = self.flow(index)?;
            let (old, is_free) = (flow.id, flow.is_free());
            let next = core::mem::replace(&mut flow.links.next_free, NIL);
            flow.links.free = false;
            self.first_free = next;
            if is_free {
                self.leave(index, old.hash());
                let flow = self.flow(index)?;
                *flow = Flow::new(id, flow.links);
                return Some(index);
            }
        }
    }

    /// A new slot. Its bucket gets what belongs there of the one that is split.
    fn add(&mut self, id: FlowId, hash: u32) -> Option<u32> {
        // There is a slot for each transaction under way and one for each flow.
        let buckets = self.flows.len().saturating_add(1);
        if self.actives.capacity() < buckets.saturating_add(self.window) {
            return None;
        }
        let number = self.flows.push(Flow::new(id, Links::NONE))?;
        if number > 0 {
            // The bucket that has what belongs to the new one so far.
            let split = self.flows.get_mut(Self::bucket(number as u32, number));
            let mut index =
                split.map_or(NIL, |slot| core::mem::replace(&mut slot.links.bucket, NIL));
            while let Some(flow) = self.flow(index) {
                let (next, hash) = (flow.links.next, flow.id.hash());
                self.enter(index, hash);
                index = next;
            }
        }
        self.enter(u32::try_from(number).ok()?, hash)
    }

    /// Puts a flow into the bucket of its hash.
    fn enter(&mut self, index: u32, hash: u32) -> Option<u32> {
        let bucket = self.bucket_of(hash)?;
        let next = core::mem::replace(&mut bucket.links.bucket, index);
        self.flow(index)?.links.next = next;
        Some(index)
    }

    /// Takes a flow out of the bucket of its hash.
    fn leave(&mut self, index: u32, hash: u32) {
        let Some(next) = self.flow(index).map(|flow| flow.links.next) else {
            return;
        };
        let Some(bucket) = self.bucket_of(hash) else {
            return;
        };
        let mut before = bucket.links.bucket;
        if before == index {
            bucket.links.bucket = next;
            return;
        }
        while let Some(flow) = self.flow(before) {
            if flow.links.next == index {
                flow.links.next = next;
                return;
            }
            before = flow.links.next;
        }
    }

    /// To be called when something of the flow has ended: its slot may be free then.
    fn retire(&mut self, index: u32) {
        let first = self.first_free;
        match self.flow(index) {
            Some(flow) if flow.is_free() && !flow.links.free => {
                flow.links.free = true;
                flow.links.next_free = first;
                self.first_free = index;
            }
            _ => {}
        }
    }

    fn flow(&mut self, index: u32) -> Option<&mut Flow> {
        self.flows.get_mut(index as usize)
    }

    /// The active work behind a token's upper half.
    pub(super) fn active(&mut self, index: u32) -> Option<&mut Active> {
        match self.actives.get_mut(index as usize)? {
            Slot::Used(active) => Some(active),
            Slot::Free(_) => None,
        }
    }

    /// Puts the flow on the list of those that may have something to start, unless it has nothing.
    pub(super) fn wake(&mut self, index: u32) {
        let last = self.last_ready;
        let Some(flow) = self.flow(index) else { return };
        if flow.links.ready || (flow.current.is_none() && flow.queue.is_empty()) {
            return;
        }
        flow.links.ready = true;
        flow.links.next_ready = NIL;
        match self.flow(last) {
            Some(tail) => tail.links.next_ready = index,
            None => self.first_ready = index,
        }
        self.last_ready = index;
    }

    /// Wakes every flow with something queued: looks at each.
    pub(super) fn wake_all(&mut self) {
        for i in 0..self.flows.len() {
            self.wake(i as u32);
        }
    }

    /// No work has been started and not ended.
    pub(super) fn none_active(&self) -> bool {
        self.active == 0
    }

    /// The flow whose turn it is.
    pub(super) fn first_ready(&self) -> Option<u32> {
        (self.first_ready != NIL).then_some(self.first_ready)
    }

    /// Takes the first flow off the list; with `again` it goes to the end.
    pub(super) fn rotate(&mut self, again: bool) {
        let first = self.first_ready;
        let Some(flow) = self.flow(first) else { return };
        flow.links.ready = false;
        self.first_ready = flow.links.next_ready;
        if self.first_ready == NIL {
            self.last_ready = NIL;
        }
        if again {
            self.wake(first);
        }
    }

    /// Wakes every flow whose pause is over, and gives the time of the next look. It looks at each that
    /// pauses.
    pub(super) fn wake_paused(&mut self, now: u64) -> Option<u64> {
        let mut next: Option<u64> = None;
        let mut looked = 0u64;
        let mut index = core::mem::replace(&mut self.first_paused, NIL);
        let mut still = NIL;
        while let Some(flow) = self.flow(index) {
            looked = looked.saturating_add(1);
            let (this, end) = (index, flow.not_before);
            index = core::mem::replace(&mut flow.links.next_paused, NIL);
            if end <= now {
                flow.links.paused = false;
                self.wake(this);
            } else {
                flow.links.next_paused = core::mem::replace(&mut still, this);
                next = Some(next.map_or(end, |n| n.min(end)));
            }
        }
        self.first_paused = still;
        let retry_policy = now.saturating_add(looked.saturating_mul(LOOK));
        next.map(|next| next.max(retry_policy))
    }

    /// What flow `index` may start now. `follow`: messages may follow each other.
    pub(super) fn next(&mut self, index: u32, now: u64, follow: bool) -> Next {
        let Some(flow) = self.flow(index) else {
            return Next::Nothing;
        };
        if let Some(work) = flow.take_flushed() {
            self.retire(index);
            return Next::Flushed(work);
        }
        if flow.not_before > now {
            return Next::NotBefore(flow.not_before);
        }
        flow.not_before = 0;
        let sending = flow.sends > 0;
        let alone = !follow || flow.probing;
        // A message says that all before it was done.
        let busy = flow.keyed || flow.shared > 0 || !flow.refused.is_empty() || (alone && sending);
        let mut cursor = flow.queue.cursor_front();
        let Some(head) = cursor.peek_next() else {
            return Next::Nothing;
        };
        // What was refused is in front of it again before nothing is under way.
        if head.fence && flow.works > 0 {
            return Next::Nothing;
        }
        // It cannot say `start`: alone, it needs none.
        let keyed = matches!(head.op(), WorkOp::SendKeyed { .. });
        if head.op().is_message() && (busy || (keyed && sending)) {
            return Next::Nothing;
        }
        let work = head.remove();
        let mut start = false;
        if work.op().is_message() {
            if !keyed {
                start = core::mem::take(&mut flow.start);
            }
            flow.keyed = keyed;
            flow.sends = flow.sends.saturating_add(1);
        }
        flow.works = flow.works.saturating_add(1);
        work.set_order(flow.next_order);
        flow.next_order = flow.next_order.wrapping_add(1);
        Next::Work(work, start)
    }

    /// The partly submitted work of flow `index`.
    pub(super) fn current(&self, index: u32) -> Option<u32> {
        self.flows.get(index as usize)?.current
    }

    /// Enters a started work of flow `flow` into the table; the index is the upper half of its
    /// tokens. The table has a slot for each transaction under way and one for each flow, so it is
    /// never full; were it so, the work is dropped, which completes it as aborted.
    pub(super) fn activate(&mut self, flow: u32, work: ListArc<Work>, start: bool) -> Option<u32> {
        let active = Active {
            work,
            more: List::new(),
            count: 1,
            flow,
            submitted: 0,
            closed: false,
            transactions: 0,
            error: None,
            start,
            told: false,
        };
        let free = match self.actives.get_mut(self.free_active as usize) {
            Some(slot) => {
                let free = self.free_active;
                if let Slot::Free(next) = core::mem::replace(slot, Slot::Used(active)) {
                    self.free_active = next;
                }
                free
            }
            None => {
                let is_message = active.work.op().is_message();
                let Some(index) = self.actives.push(Slot::Used(active)) else {
                    let flow = self.flow(flow)?;
                    flow.works = flow.works.saturating_sub(1);
                    if is_message {
                        flow.sends = flow.sends.saturating_sub(1);
                    }
                    return None;
                };
                u32::try_from(index).ok()?
            }
        };
        self.active = self.active.saturating_add(1);
        self.flow(flow)?.current = Some(free);
        Some(free)
    }

    /// Adds to a started, [`PackKey`] work those that wait for the same, up to `max` requests in all, of
    /// its flow and of the next few.
    pub(super) fn gather(&mut self, index: u32, like: PackKey, max: u32, now: u64) {
        // It is one transaction, so its flow can go on.
        self.close(index);
        let Flows { flows, actives, .. } = self;
        let Some(Slot::Used(active)) = actives.get_mut(index as usize) else {
            return;
        };
        active.count = active.work.count();
        let mut from = active.flow;
        for _ in 0..max {
            let Some(flow) = flows.get_mut(from as usize) else {
                break;
            };
            let room = |active: &Active| max.saturating_sub(active.count.into());
            if room(active) == 0 {
                break;
            }
            if flow.current.is_none() && flow.not_before <= now {
                while let Some(work) = flow.take_like(&active.work, like, room(active)) {
                    work.set_slot(from);
                    active.count = active.count.saturating_add(work.count());
                    active.more.push_back(work);
                }
            }
            from = flow.links.next_ready;
        }
        self.share(index, u32::saturating_add);
    }

    /// Counts what would go again, up or down.
    fn share(&mut self, index: u32, by: fn(u32, u32) -> u32) {
        let Flows { flows, actives, .. } = self;
        let Some(Slot::Used(active)) = actives.get(index as usize) else {
            return;
        };
        if active.more.is_empty() || matches!(active.work.ticket, Ticket::Ring(_)) {
            return;
        }
        let more = active.more.iter().map(|work| work.slot());
        for slot in Iterator::chain(iter::once(active.flow), more) {
            if let Some(flow) = flows.get_mut(slot as usize) {
                flow.shared = by(flow.shared, 1);
            }
        }
    }

    /// Puts an ended work in front of its flow again.
    pub(super) fn repeat(&mut self, work: ListArc<Work>) {
        let index = work.slot();
        work.set_again();
        if let Some(flow) = self.flow(index) {
            flow.queue.push_front(work);
            self.wake(index);
        }
    }

    /// No more of the work will be submitted.
    pub(super) fn close(&mut self, index: u32) {
        let Some(active) = self.active(index) else {
            return;
        };
        active.closed = true;
        let flow = active.flow;
        if let Some(flow) = self.flow(flow) {
            if flow.current == Some(index) {
                flow.current = None;
            }
        }
    }

    /// Closes every active work, and takes out those that have no transaction under way. It looks at
    /// each.
    pub(super) fn close_all(&mut self, ended: &mut List<Work>) {
        for i in 0..self.actives.len() as u32 {
            self.close(i);
            if self.active(i).is_some_and(|a| a.transactions == 0) {
                if let Some(mut active) = self.finish(i) {
                    ended.push_back(active.work);
                    ended.push_all_back(&mut active.more);
                }
            }
        }
    }

    /// Takes an ended, closed work out of the table and wakes its flow.
    pub(super) fn finish(&mut self, index: u32) -> Option<Active> {
        self.share(index, u32::saturating_sub);
        let slot = self.actives.get_mut(index as usize)?;
        if matches!(slot, Slot::Free(_)) {
            return None;
        }
        let Slot::Used(active) = core::mem::replace(slot, Slot::Free(self.free_active)) else {
            return None;
        };
        self.free_active = index;
        self.active = self.active.saturating_sub(1);
        for work in active.more.iter() {
            if let Some(flow) = self.flow(work.slot()) {
                flow.works = flow.works.saturating_sub(1);
            }
            self.wake(work.slot());
            self.retire(work.slot());
        }
        if let Some(flow) = self.flow(active.flow) {
            flow.works = flow.works.saturating_sub(1);
            if active.work.op().is_message() {
                flow.sends = flow.sends.saturating_sub(1);
                flow.keyed = false;
                if active.error.is_none() {
                    flow.backoff = BACKOFF_MIN;
                    flow.probing = false;
                }
            }
        }
        self.wake(active.flow);
        self.retire(active.flow);
        Some(active)
    }

    /// Keeps a refused message for the next run.
    pub(super) fn refuse(&mut self, index: u32, work: ListArc<Work>) {
        let Some(flow) = self.flow(index) else { return };
        let order = work.order();
        let mut cursor = flow.refused.cursor_back();
        while let Some(before) = cursor.peek_prev() {
            if before.order() < order {
                break;
            }
            cursor.move_prev();
        }
        cursor.insert(work);
    }

    /// Once nothing of a refused run is under way: puts it back in front of the queue and pauses
    /// the flow. Returns the end of the pause.
    pub(super) fn restart_run(&mut self, index: u32, now: u64) -> Option<u64> {
        let flow = self.flow(index)?;
        if flow.refused.is_empty() || flow.sends > 0 {
            return None;
        }
        while let Some(work) = flow.refused.pop_back() {
            flow.queue.push_front(work);
        }
        flow.start = true;
        flow.probing = true;
        let end = now.saturating_add(flow.backoff);
        flow.not_before = end;
        flow.backoff = flow.backoff.saturating_mul(2).min(BACKOFF_MAX);
        if !flow.links.paused {
            flow.links.paused = true;
            let next = core::mem::replace(&mut self.first_paused, index);
            self.flow(index)?.links.next_paused = next;
        }
        Some(end)
    }

    /// The peer begins a new life: what it took of a work in the old one counts no more.
    pub(super) fn begin_anew(&mut self) {
        self.life = self.life.wrapping_add(1).max(1);
    }

    /// Which life of the peer this is, from 1 on.
    pub(super) fn life(&self) -> u32 {
        self.life
    }

    /// Gives all flows away, with the works that are queued in them. Those under way stay.
    pub(super) fn abandon(&mut self) -> Abandoned {
        (self.first_ready, self.last_ready) = (NIL, NIL);
        (self.first_paused, self.first_free, self.recent) = (NIL, NIL, NIL);
        Abandoned {
            flows: core::mem::replace(&mut self.flows, Chunks::new()),
            next: 0,
        }
    }
}

impl Abandoned {
    /// Nothing.
    pub(super) const fn none() -> Self {
        Abandoned {
            flows: Chunks::new(),
            next: 0,
        }
    }

    pub(super) fn is_done(&self) -> bool {
        self.next >= self.flows.len()
    }

    /// Moves works to the end of `works`, looking at so many flows at most.
    pub(super) fn take(&mut self, flows: usize, works: &mut List<Work>) {
        for _ in 0..flows {
            let Some(flow) = self.flows.get_mut(self.next) else {
                return;
            };
            works.push_all_back(&mut flow.queue);
            works.push_all_back(&mut flow.refused);
            self.next = self.next.saturating_add(1);
        }
    }
}

impl Room {
    /// Allocates it. Process context.
    pub(super) fn new(wanted: Wanted) -> Result<Room, AllocError> {
        Ok(Room {
            flows: Growth::new(wanted.flows)?,
            actives: Growth::new(wanted.actives)?,
        })
    }
}
