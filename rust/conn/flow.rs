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
    sync::ArcBorrow,
};

use crate::{
    proto::Code,
    work::{FlowId, Like, Ticket, Work, WorkOp},
};

/// No flow.
const NIL: u32 = u32::MAX;
/// First pause after a refusal, ns.
const BACKOFF_MIN: u64 = 100_000;
/// Longest pause, ns.
const BACKOFF_MAX: u64 = 20_000_000;

/// The work whose transactions are being submitted or are under way.
pub(super) struct Active {
    pub(super) work: ListArc<Work>,
    /// More works of the same transaction, all [`Like`] and, as the first, in one packet. They
    /// may be of other flows.
    pub(super) more: List<Work>,
    /// Requests of the works in all.
    pub(super) count: u16,
    pub(super) flow: u32,
    /// Bytes submitted so far.
    pub(super) submitted: u64,
    /// Whether every byte has been submitted, or no more will be.
    pub(super) closed: bool,
    /// Transactions under way.
    pub(super) transactions: u32,
    /// First error of any of them.
    pub(super) error: Option<Code>,
    /// The message says `start`.
    pub(super) start: bool,
    /// The immediate of a write is submitted.
    pub(super) told: bool,
}

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
    /// In the list of ready flows; and its links.
    ready: bool,
    next_ready: u32,
}

impl Active {
    /// The works in the order of their operations.
    pub(super) fn works(&self) -> impl Iterator<Item = ArcBorrow<'_, Work>> {
        Iterator::chain(iter::once(self.work.as_arc_borrow()), self.more.iter())
    }

    /// The works, and the numbers of their requests, in the order of their operations.
    pub(super) fn requests(&self) -> impl Iterator<Item = (ArcBorrow<'_, Work>, u16)> {
        let mut more = self.more.iter();
        let (mut work, mut number) = (self.work.as_arc_borrow(), 0);
        iter::from_fn(move || {
            if number == work.count() {
                (work, number) = (more.next()?, 0);
            }
            let request = (work, number);
            number = number.saturating_add(1);
            Some(request)
        })
    }

    /// The work of an operation, and its number among the requests of that.
    pub(super) fn request(&self, mut op: u32) -> Option<(ArcBorrow<'_, Work>, u16)> {
        for work in self.works() {
            match op.checked_sub(work.count().into()) {
                Some(rest) => op = rest,
                // CAST: It is smaller than the count.
                None => return Some((work, op as u16)),
            }
        }
        None
    }
}

impl Flow {
    fn new(id: FlowId) -> Self {
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
            ready: false,
            next_ready: NIL,
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
    fn take_like(&mut self, first: &Work, like: Like, room: u32) -> Option<ListArc<Work>> {
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

/// All flows of a connection, under its lock.
pub(super) struct Flows {
    flows: KVVec<Flow>,
    actives: KVVec<Option<Active>>,
    free_active: u32,
    first_ready: u32,
    last_ready: u32,
    /// The flow that was posted to last.
    recent: u32,
    /// TAL window: works under way that wait for nothing but their transactions.
    window: usize,
}

/// Room for more flows, allocated outside the lock.
pub(super) struct Room {
    flows: KVVec<Flow>,
    actives: KVVec<Option<Active>>,
}

impl Flows {
    /// An empty table for a TAL window of `window` slots.
    pub(super) fn new(window: usize) -> Self {
        Flows {
            flows: KVVec::new(),
            actives: KVVec::new(),
            free_active: 0,
            first_ready: NIL,
            last_ready: NIL,
            recent: NIL,
            window,
        }
    }

    /// TAL window this table was made for.
    pub(super) fn window(&self) -> usize {
        self.window
    }

    /// How many flows [`Room::new`] should make room for, when [`Flows::slot`] found none.
    pub(super) fn wanted(&self) -> usize {
        self.flows.len().saturating_mul(2).max(4)
    }

    /// Moves everything into the larger `room`; a smaller one is ignored. Returns what is no
    /// longer used, to be freed outside the lock.
    pub(super) fn grow(&mut self, mut room: Room) -> Room {
        if room.flows.capacity() <= self.flows.capacity() {
            return room;
        }
        for flow in self.flows.drain_all() {
            // There is room: the capacity was compared.
            let _ = room.flows.push_within_capacity(flow);
        }
        for (slot, active) in room.actives.iter_mut().zip(self.actives.drain_all()) {
            *slot = active;
        }
        core::mem::swap(&mut self.flows, &mut room.flows);
        core::mem::swap(&mut self.actives, &mut room.actives);
        room
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
        let mut free = None;
        for (i, flow) in self.flows.iter().enumerate() {
            if flow.is_free() {
                free = free.or(Some(i));
            } else if flow.id == id {
                return u32::try_from(i).ok();
            }
        }
        let index = match free {
            Some(i) => {
                let flow = self.flows.get_mut(i)?;
                let (ready, next_ready) = (flow.ready, flow.next_ready);
                *flow = Flow::new(id);
                // It may still stand on the list of ready flows.
                (flow.ready, flow.next_ready) = (ready, next_ready);
                i
            }
            None => {
                let next = self.flows.len();
                self.flows.push_within_capacity(Flow::new(id)).ok()?;
                next
            }
        };
        u32::try_from(index).ok()
    }

    fn flow(&mut self, index: u32) -> Option<&mut Flow> {
        self.flows.get_mut(index as usize)
    }

    /// The active work behind a token's upper half.
    pub(super) fn active(&mut self, index: u32) -> Option<&mut Active> {
        self.actives.get_mut(index as usize)?.as_mut()
    }

    /// Puts the flow on the list of those that may have something to start, unless it has nothing.
    pub(super) fn wake(&mut self, index: u32) {
        let last = self.last_ready;
        let Some(flow) = self.flow(index) else { return };
        if flow.ready || (flow.current.is_none() && flow.queue.is_empty()) {
            return;
        }
        flow.ready = true;
        flow.next_ready = NIL;
        match self.flow(last) {
            Some(tail) => tail.next_ready = index,
            None => self.first_ready = index,
        }
        self.last_ready = index;
    }

    /// Wakes every flow with something queued.
    pub(super) fn wake_all(&mut self) {
        for i in 0..self.flows.len() {
            self.wake(i as u32);
        }
    }

    /// No work has been started and not ended.
    pub(super) fn none_active(&self) -> bool {
        self.actives.iter().all(Option::is_none)
    }

    /// The flow whose turn it is.
    pub(super) fn first_ready(&self) -> Option<u32> {
        (self.first_ready != NIL).then_some(self.first_ready)
    }

    /// Takes the first flow off the list; with `again` it goes to the end.
    pub(super) fn rotate(&mut self, again: bool) {
        let first = self.first_ready;
        let Some(flow) = self.flow(first) else { return };
        flow.ready = false;
        self.first_ready = flow.next_ready;
        if self.first_ready == NIL {
            self.last_ready = NIL;
        }
        if again {
            self.wake(first);
        }
    }

    /// Wakes every flow whose pause is over, and gives the end of the next pause.
    pub(super) fn wake_paused(&mut self, now: u64) -> Option<u64> {
        let mut next: Option<u64> = None;
        for i in 0..self.flows.len() {
            let Some(flow) = self.flows.get(i) else { break };
            if flow.queue.is_empty() || flow.not_before == 0 {
                continue;
            }
            let end = flow.not_before;
            if end <= now {
                self.wake(i as u32);
            } else {
                next = Some(next.map_or(end, |n| n.min(end)));
            }
        }
        next
    }

    /// What flow `index` may start now. `follow`: messages may follow each other.
    pub(super) fn next(&mut self, index: u32, now: u64, follow: bool) -> Next {
        let Some(flow) = self.flow(index) else {
            return Next::Nothing;
        };
        if let Some(work) = flow.take_flushed() {
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
        let n = self.actives.len() as u32;
        let next = self.free_active.min(n);
        let is_free = |i: &u32| matches!(self.actives.get(*i as usize), Some(None));
        let free = (next..n).find(is_free).or_else(|| (0..next).find(is_free));
        let Some(free) = free else {
            let flow = self.flow(flow)?;
            flow.works = flow.works.saturating_sub(1);
            if work.op().is_message() {
                flow.sends = flow.sends.saturating_sub(1);
            }
            return None;
        };
        *self.actives.get_mut(free as usize)? = Some(Active {
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
        });
        self.free_active = free.wrapping_add(1);
        self.flow(flow)?.current = Some(free);
        Some(free)
    }

    /// Adds to a started, [`Like`] work those that wait for the same, up to `max` requests in all, of
    /// its flow and of the next few.
    pub(super) fn gather(&mut self, index: u32, like: Like, max: u32, now: u64) {
        // It is one transaction, so its flow can go on.
        self.close(index);
        let Flows { flows, actives, .. } = self;
        let Some(Some(active)) = actives.get_mut(index as usize) else {
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
            from = flow.next_ready;
        }
        self.share(index, u32::saturating_add);
    }

    /// Counts what would go again, up or down.
    fn share(&mut self, index: u32, by: fn(u32, u32) -> u32) {
        let Flows { flows, actives, .. } = self;
        let Some(Some(active)) = actives.get(index as usize) else {
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

    /// Closes every active work, and gives the index of one that has no transaction under way.
    pub(super) fn close_all(&mut self) -> Option<u32> {
        let mut ended = None;
        for i in 0..self.actives.len() as u32 {
            self.close(i);
            if self.active(i).is_some_and(|a| a.transactions == 0) {
                ended = Some(i);
            }
        }
        ended
    }

    /// Takes an ended, closed work out of the table and wakes its flow.
    pub(super) fn finish(&mut self, index: u32) -> Option<Active> {
        self.share(index, u32::saturating_sub);
        let active = self.actives.get_mut(index as usize)?.take()?;
        self.free_active = index;
        for work in active.more.iter() {
            if let Some(flow) = self.flow(work.slot()) {
                flow.works = flow.works.saturating_sub(1);
            }
            self.wake(work.slot());
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
        flow.not_before = now.saturating_add(flow.backoff);
        flow.backoff = flow.backoff.saturating_mul(2).min(BACKOFF_MAX);
        Some(flow.not_before)
    }

    /// The peer begins a new life: what it took of a work in the old one counts no more. Nothing is
    /// under way, so all works are queued.
    pub(super) fn begin_anew(&self) {
        for flow in self.flows.iter() {
            for work in flow.queue.iter() {
                work.set_placed(false);
            }
        }
    }

    /// Takes one work that has not started, of any flow; for shutdown.
    pub(super) fn pop_any(&mut self) -> Option<ListArc<Work>> {
        for flow in self.flows.iter_mut() {
            flow.not_before = 0;
            if let Some(work) = flow.queue.pop_front().or_else(|| flow.refused.pop_front()) {
                return Some(work);
            }
        }
        None
    }
}

impl Room {
    /// Room for `flows` flows over `table`'s window. Process context.
    pub(super) fn new(flows: usize, window: usize) -> Result<Room, AllocError> {
        let n = flows.saturating_add(window);
        let mut actives = KVVec::with_capacity(n, GFP_KERNEL)?;
        for _ in 0..n {
            // There is room: it was just allocated.
            let _ = actives.push_within_capacity(None);
        }
        Ok(Room {
            flows: KVVec::with_capacity(flows, GFP_KERNEL)?,
            actives,
        })
    }
}
