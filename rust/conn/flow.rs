// SPDX-License-Identifier: GPL-2.0

//! Flows: the works of one connection towards one queue pair of the peer, in order.
//!
//! Sockets and rings that talk to the same remote queue pair share its flow. A socket, or a queue
//! pair of a ring, that talks to none has a flow of its own. A work with a fence waits until
//! nothing of its flow is under way.
//!
//! Messages keep their order even if the peer refuses one for want of a buffer [proto 7]. Those
//! that are refused after it go back to the front of the flow. The first message of this run
//! carries `start`, and goes alone, to find out whether there is a buffer again. Two kinds of
//! connection have one message at a time under way instead: a peer without extensions does not know
//! `start`, and on an unordered connection a later message could arrive first.

use core::iter;

use kernel::{
    alloc::AllocError,
    list::{List, ListArc},
    prelude::*,
};

use super::{
    active::Active,
    chunks::{self, Chunks, Growth},
    links::{Links, Scan, FLOWS_PER_LOCK, NIL},
};
use crate::qp::work::{FlowId, PackKey, Ticket, Work, WorkOp};

/// First pause after a refusal, in ns.
const BACKOFF_MIN: u64 = 100_000;
/// Longest pause after a refusal, in ns.
const BACKOFF_MAX: u64 = 20_000_000;
/// Least pause, in ns for each paused flow: repeated messages of many must not use up the processor.
const PAUSE_SHARE: u64 = 50_000;
/// Number of paused flows from which on the longest pause grows.
const PAUSED_FEW: u64 = 16;
/// Longest pause however many flows pause, in ns: those of one user must not hold up another's.
const PAUSE_MAX: u64 = 1_000_000_000;
/// Least time between two scans of the paused flows, in ns for each of them.
const SCAN_GAP: u64 = 200;

/// One flow. Its slot is free if nothing is queued or under way.
pub(super) struct Flow {
    id: FlowId,
    queue: List<Work>,
    /// Refused messages in their order, until no message is under way.
    refused: List<Work>,
    /// Index of the active work that is partly submitted.
    current: Option<u32>,
    /// Messages under way.
    active_messages: u32,
    /// Works under way, messages included.
    active_works: u32,
    /// Works under way that are repeated if the peer refuses another work of their packet.
    shared: u32,
    /// A message to a receive context is under way. No message follows before it has ended.
    keyed: bool,
    /// The next message is the first of a run, and carries `start`.
    start: bool,
    /// The peer had no buffer for the message that ended last. Messages go one at a time.
    probing: bool,
    /// Place of the next work in the order of the flow.
    next_order: u64,
    /// Length of the next pause after a refusal, in ns.
    backoff: u64,
    /// Time until which the flow pauses, in ns.
    not_before: u64,
    links: Links,
}

impl Flow {
    fn new(id: FlowId, links: Links) -> Self {
        Flow {
            id,
            queue: List::new(),
            refused: List::new(),
            current: None,
            active_messages: 0,
            active_works: 0,
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
        self.active_works == 0 && self.queue.is_empty() && self.refused.is_empty()
    }

    /// Takes the first work of the queue if it must not begin any more.
    fn take_flushed(&mut self) -> Option<ListArc<Work>> {
        let mut cursor = self.queue.cursor_front();
        let head = cursor.peek_next()?;
        head.is_flushed().then(|| head.remove())
    }

    /// Takes the first work of the queue if it may share the packet of `first`. Such works are no
    /// messages, so they need no place in the order of messages. The packet has space for
    /// `max_requests` more requests.
    fn take_packable(
        &mut self,
        first: &Work,
        pack_key: PackKey,
        max_requests: u32,
    ) -> Option<ListArc<Work>> {
        let mut cursor = self.queue.cursor_front();
        let head = cursor.peek_next()?;
        if head.like() != Some(pack_key) || head.fence && self.active_works > 0 {
            return None;
        }
        if u32::from(head.count()) > max_requests || !head.ticket.shares(&first.ticket) {
            return None;
        }
        if head.is_flushed() {
            return None;
        }
        self.active_works = self.active_works.saturating_add(1);
        Some(head.remove())
    }
}

/// What a flow may start now.
pub(super) enum Next {
    /// Nothing: the queue is empty, or its head waits for something under way.
    Nothing,
    /// Nothing before this time, in ns.
    NotBefore(u64),
    /// This work, taken from the queue, and whether it carries `start`.
    Work(ListArc<Work>, bool),
    /// Nothing: this work, taken from the queue, must not begin any more.
    Flushed(ListArc<Work>),
}

/// A slot of the table of active works.
enum Slot {
    /// A free slot, with the index of the next one.
    Free(u32),
    Used(Active),
}

/// All flows of a connection. `Conn::inner` protects them. No method takes longer the more flows
/// there are, except where its description says so.
///
/// Flows are found by linear hashing: there are as many buckets as slots, and each new slot splits
/// one bucket.
pub(super) struct Flows {
    flows: Chunks<Flow>,
    actives: Chunks<Slot>,
    /// First free slot of `actives`.
    free_active: u32,
    /// Used slots of `actives`.
    active_count: usize,
    first_ready: u32,
    last_ready: u32,
    first_paused: u32,
    last_paused: u32,
    /// Number of paused flows.
    paused: u64,
    scan: Scan,
    first_free: u32,
    /// Flow of the last post.
    recent: u32,
    /// TAL window, in transactions. So many active works at most are wholly submitted.
    window: usize,
    /// Number of the peer's life, from 1 on.
    peer_life: u32,
}

/// The memory that the flows need for one more flow.
pub(super) struct FlowsGrowthPlan {
    flows: chunks::GrowthPlan,
    actives: chunks::GrowthPlan,
}

/// Memory for more flows. It is allocated and freed outside of the lock.
pub(super) struct FlowsGrowth {
    flows: Growth<Flow>,
    actives: Growth<Slot>,
}

/// Flows of a life that has ended, with the works that are queued in them.
pub(super) struct Abandoned {
    flows: Chunks<Flow>,
    /// Index of the first flow that may have a work.
    next: usize,
}

impl Flows {
    /// An empty table for a TAL window of `window` transactions.
    pub(super) fn new(window: usize) -> Self {
        Flows {
            flows: Chunks::new(),
            actives: Chunks::new(),
            free_active: NIL,
            active_count: 0,
            first_ready: NIL,
            last_ready: NIL,
            first_paused: NIL,
            last_paused: NIL,
            paused: 0,
            scan: Scan::NONE,
            first_free: NIL,
            recent: NIL,
            window,
            peer_life: 1,
        }
    }

    /// The memory to allocate after [`Flows::slot`] has returned `None`.
    pub(super) fn growth_plan(&self) -> FlowsGrowthPlan {
        let flows = self.flows.len().saturating_add(1);
        let actives = flows.saturating_add(self.window);
        FlowsGrowthPlan {
            flows: self.flows.growth_plan(1),
            actives: self
                .actives
                .growth_plan(actives.saturating_sub(self.actives.capacity())),
        }
    }

    /// Takes over the memory of `growth`. The caller frees what is left in it, outside of the lock.
    pub(super) fn grow(&mut self, growth: &mut FlowsGrowth) {
        self.flows.grow(&mut growth.flows);
        self.actives.grow(&mut growth.actives);
    }

    /// Queues a work behind the others of flow `index`.
    pub(super) fn push(&mut self, index: u32, work: ListArc<Work>) {
        let Some(flow) = self.flow(index) else { return };
        flow.queue.push_back(work);
        self.recent = index;
        self.wake(index);
    }

    /// The index of flow `id`, which is created if there is none. `None`: there is no memory for
    /// it.
    pub(super) fn slot(&mut self, id: FlowId) -> Option<u32> {
        if let Some(flow) = self.flow(self.recent) {
            if flow.id == id {
                return Some(self.recent);
            }
        }
        let hash = id.hash();
        let first = self.bucket_slot(hash);
        let mut index = first.map_or(NIL, |slot| slot.links.bucket_head);
        while let Some(flow) = self.flow(index) {
            if flow.id == id {
                if flow.is_free() {
                    *flow = Flow::new(id, flow.links);
                }
                return Some(index);
            }
            index = flow.links.next_in_bucket;
        }
        match self.reuse_slot(id) {
            Some(index) => self.insert_in_bucket(index, hash),
            None => self.add_slot(id, hash),
        }
    }

    /// Number of a hash's bucket, out of `buckets`.
    fn bucket_number(hash: u32, buckets: usize) -> usize {
        // The mask has as many bits as the highest number of a bucket.
        let unused = buckets.saturating_sub(1).leading_zeros();
        let mask = usize::MAX.checked_shr(unused).unwrap_or(0);
        let number = hash as usize & mask;
        match number < buckets {
            true => number,
            // That bucket does not exist yet: its flows are in the one that will be split for it.
            false => number & mask >> 1,
        }
    }

    /// The slot with the head of a hash's bucket. `None`: there are no slots.
    fn bucket_slot(&mut self, hash: u32) -> Option<&mut Flow> {
        let buckets = self.flows.len();
        self.flows.get_mut(Self::bucket_number(hash, buckets))
    }

    /// Reuses a free slot for flow `id`.
    fn reuse_slot(&mut self, id: FlowId) -> Option<u32> {
        loop {
            let index = self.first_free;
            let flow = self.flow(index)?;
            let (old, is_free) = (flow.id, flow.is_free());
            let next = core::mem::replace(&mut flow.links.next_free, NIL);
            flow.links.free = false;
            self.first_free = next;
            if is_free {
                self.remove_from_bucket(index, old.hash());
                let flow = self.flow(index)?;
                *flow = Flow::new(id, flow.links);
                return Some(index);
            }
        }
    }

    /// Adds a slot for flow `id`, and moves flows from the bucket that is split to the new one.
    fn add_slot(&mut self, id: FlowId, hash: u32) -> Option<u32> {
        // `actives` has a slot for each transaction under way and for each flow, see `activate()`.
        let buckets = self.flows.len().saturating_add(1);
        if self.actives.capacity() < buckets.saturating_add(self.window) {
            return None;
        }
        let number = self.flows.push(Flow::new(id, Links::NONE))?;
        if number > 0 {
            // Until now, flows of the new bucket were in the bucket that its number gives here.
            let split = self
                .flows
                .get_mut(Self::bucket_number(number as u32, number));
            let mut index = split.map_or(NIL, |slot| {
                core::mem::replace(&mut slot.links.bucket_head, NIL)
            });
            while let Some(flow) = self.flow(index) {
                let (next, hash) = (flow.links.next_in_bucket, flow.id.hash());
                self.insert_in_bucket(index, hash);
                index = next;
            }
        }
        self.insert_in_bucket(u32::try_from(number).ok()?, hash)
    }

    /// Puts a flow into the bucket of its hash.
    fn insert_in_bucket(&mut self, index: u32, hash: u32) -> Option<u32> {
        let bucket = self.bucket_slot(hash)?;
        let next = core::mem::replace(&mut bucket.links.bucket_head, index);
        self.flow(index)?.links.next_in_bucket = next;
        Some(index)
    }

    /// Takes a flow out of the bucket of its hash.
    fn remove_from_bucket(&mut self, index: u32, hash: u32) {
        let Some(next) = self.flow(index).map(|flow| flow.links.next_in_bucket) else {
            return;
        };
        let Some(bucket) = self.bucket_slot(hash) else {
            return;
        };
        let mut before = bucket.links.bucket_head;
        if before == index {
            bucket.links.bucket_head = next;
            return;
        }
        while let Some(flow) = self.flow(before) {
            if flow.links.next_in_bucket == index {
                flow.links.next_in_bucket = next;
                return;
            }
            before = flow.links.next_in_bucket;
        }
    }

    /// Puts flow `index` on the list of free flows if it is free. The caller has ended a work of
    /// it.
    fn list_if_free(&mut self, index: u32) {
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

    /// The active work `index`, which is the upper half of a token.
    pub(super) fn active(&mut self, index: u32) -> Option<&mut Active> {
        match self.actives.get_mut(index as usize)? {
            Slot::Used(active) => Some(active),
            Slot::Free(_) => None,
        }
    }

    /// Puts flow `index` on the list of ready flows, if it has something to start.
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

    /// Wakes those of the next flows from `next` on that have something to start. Returns the first
    /// one that was not visited; `None` if all were.
    pub(super) fn wake_from(&mut self, next: usize) -> Option<usize> {
        let end = next.saturating_add(FLOWS_PER_LOCK).min(self.flows.len());
        for i in next..end {
            self.wake(i as u32);
        }
        (end < self.flows.len()).then_some(end)
    }

    /// Whether there is no active work.
    pub(super) fn none_active(&self) -> bool {
        self.active_count == 0
    }

    /// The ready flow whose turn it is.
    pub(super) fn first_ready(&self) -> Option<u32> {
        (self.first_ready != NIL).then_some(self.first_ready)
    }

    /// Takes the first flow off the list of ready flows. `requeue` puts it at the end.
    pub(super) fn rotate(&mut self, requeue: bool) {
        let first = self.first_ready;
        let Some(flow) = self.flow(first) else { return };
        flow.links.ready = false;
        self.first_ready = flow.links.next_ready;
        if self.first_ready == NIL {
            self.last_ready = NIL;
        }
        if requeue {
            self.wake(first);
        }
    }

    /// Wakes flows whose pause is over. Of very many paused flows it visits some. Returns the time
    /// of the next call, in ns; `None` if no flow pauses.
    pub(super) fn wake_paused(&mut self, now: u64) -> Option<u64> {
        if self.scan.left == 0 {
            self.scan = Scan::of(self.paused);
        }
        let visits = self.scan.left.min(FLOWS_PER_LOCK as u64);
        for _ in 0..visits {
            let index = self.first_paused;
            let Some(flow) = self.flow(index) else { break };
            let end = flow.not_before;
            flow.links.paused = false;
            self.first_paused = flow.links.next_paused;
            self.paused = self.paused.saturating_sub(1);
            match end <= now {
                true => self.wake(index),
                false => self.pause(index),
            }
        }
        self.scan.left = self.scan.left.saturating_sub(visits);
        let next_scan = now.saturating_add(visits.saturating_mul(SCAN_GAP));
        match self.scan.left {
            0 => self.scan.next.map(|next| next.max(next_scan)),
            _ => Some(next_scan),
        }
    }

    /// What flow `index` may start now. `pipeline`: several messages may be under way.
    pub(super) fn next(&mut self, index: u32, now: u64, pipeline: bool) -> Next {
        let Some(flow) = self.flow(index) else {
            return Next::Nothing;
        };
        if let Some(work) = flow.take_flushed() {
            self.list_if_free(index);
            return Next::Flushed(work);
        }
        if flow.not_before > now {
            // `now` may be older than that of the scan which took the flow off the list.
            let end = flow.not_before;
            self.pause(index);
            return Next::NotBefore(end);
        }
        flow.not_before = 0;
        let messages_active = flow.active_messages > 0;
        let one_at_a_time = !pipeline || flow.probing;
        // A message tells its receiver that everything before it is done.
        let blocked = flow.keyed
            || flow.shared > 0
            || !flow.refused.is_empty()
            || (one_at_a_time && messages_active);
        let mut cursor = flow.queue.cursor_front();
        let Some(head) = cursor.peek_next() else {
            return Next::Nothing;
        };
        // Refused works need no check: they are in front of the fence again before `active_works`
        // drops to 0.
        if head.fence && flow.active_works > 0 {
            return Next::Nothing;
        }
        // A message to a receive context cannot carry `start`. Sent alone, it needs none.
        let keyed = matches!(head.op(), WorkOp::SendKeyed { .. });
        if head.op().is_message() && (blocked || (keyed && messages_active)) {
            return Next::Nothing;
        }
        let work = head.remove();
        let mut start = false;
        if work.op().is_message() {
            if !keyed {
                start = core::mem::take(&mut flow.start);
            }
            flow.keyed = keyed;
            flow.active_messages = flow.active_messages.saturating_add(1);
        }
        flow.active_works = flow.active_works.saturating_add(1);
        work.set_order(flow.next_order);
        flow.next_order = flow.next_order.wrapping_add(1);
        Next::Work(work, start)
    }

    /// Index of the partly submitted work of flow `index`.
    pub(super) fn current(&self, index: u32) -> Option<u32> {
        self.flows.get(index as usize)?.current
    }

    /// Makes a started work of flow `flow` active. Returns its index, the upper half of its tokens.
    ///
    /// The table has a slot for each transaction under way and one for each flow, so it is never
    /// full. If it were, the work would be dropped, which completes it as aborted.
    pub(super) fn activate(&mut self, flow: u32, work: ListArc<Work>, start: bool) -> Option<u32> {
        let active = Active {
            work,
            packed: List::new(),
            request_count: 1,
            flow,
            submitted: 0,
            closed: false,
            transactions: 0,
            error: None,
            start,
            imm_submitted: false,
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
                    flow.active_works = flow.active_works.saturating_sub(1);
                    if is_message {
                        flow.active_messages = flow.active_messages.saturating_sub(1);
                    }
                    return None;
                };
                u32::try_from(index).ok()?
            }
        };
        self.active_count = self.active_count.saturating_add(1);
        self.flow(flow)?.current = Some(free);
        Some(free)
    }

    /// Packs waiting works with key `pack_key` into the transaction of active work `index`, up to
    /// `max` requests in all. They come from its flow and from the next few ready ones.
    pub(super) fn gather(&mut self, index: u32, pack_key: PackKey, max: u32, now: u64) {
        // The work is one transaction, so its flow can go on.
        self.close(index);
        let Flows { flows, actives, .. } = self;
        let Some(Slot::Used(active)) = actives.get_mut(index as usize) else {
            return;
        };
        active.request_count = active.work.count();
        let mut flow_index = active.flow;
        for _ in 0..max {
            let Some(flow) = flows.get_mut(flow_index as usize) else {
                break;
            };
            let space = |active: &Active| max.saturating_sub(active.request_count.into());
            if space(active) == 0 {
                break;
            }
            if flow.current.is_none() && flow.not_before <= now {
                while let Some(work) = flow.take_packable(&active.work, pack_key, space(active)) {
                    work.set_slot(flow_index);
                    active.request_count = active.request_count.saturating_add(work.count());
                    active.packed.push_back(work);
                }
            }
            flow_index = flow.links.next_ready;
        }
        self.count_shared(index, u32::saturating_add);
    }

    /// Adjusts [`Flow::shared`] of each flow with a work in the transaction of active work `index`.
    /// Only works of sockets are repeated; those of a ring end with their queue pair.
    fn count_shared(&mut self, index: u32, adjust: fn(u32, u32) -> u32) {
        let Flows { flows, actives, .. } = self;
        let Some(Slot::Used(active)) = actives.get(index as usize) else {
            return;
        };
        if active.packed.is_empty() || matches!(active.work.ticket, Ticket::Ring(..)) {
            return;
        }
        let packed = active.packed.iter().map(|work| work.slot());
        for slot in Iterator::chain(iter::once(active.flow), packed) {
            if let Some(flow) = flows.get_mut(slot as usize) {
                flow.shared = adjust(flow.shared, 1);
            }
        }
    }

    /// Puts an ended work at the front of its flow, to repeat it.
    pub(super) fn requeue_first(&mut self, work: ListArc<Work>) {
        let index = work.slot();
        work.set_again();
        if let Some(flow) = self.flow(index) {
            flow.queue.push_front(work);
            self.wake(index);
        }
    }

    /// Closes active work `index`: nothing more of it is submitted.
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

    /// Closes every active work. Moves those without a transaction under way to `ended`. Visits all
    /// active works.
    pub(super) fn close_all(&mut self, ended: &mut List<Work>) {
        for i in 0..self.actives.len() as u32 {
            self.close(i);
            if self.active(i).is_some_and(|a| a.transactions == 0) {
                if let Some(mut active) = self.finish(i) {
                    ended.push_back(active.work);
                    ended.push_all_back(&mut active.packed);
                }
            }
        }
    }

    /// Takes an ended, closed work out of the table, and wakes its flow. The same goes for packed
    /// works.
    pub(super) fn finish(&mut self, index: u32) -> Option<Active> {
        self.count_shared(index, u32::saturating_sub);
        let slot = self.actives.get_mut(index as usize)?;
        if matches!(slot, Slot::Free(_)) {
            return None;
        }
        let Slot::Used(active) = core::mem::replace(slot, Slot::Free(self.free_active)) else {
            return None;
        };
        self.free_active = index;
        self.active_count = self.active_count.saturating_sub(1);
        for work in active.packed.iter() {
            if let Some(flow) = self.flow(work.slot()) {
                flow.active_works = flow.active_works.saturating_sub(1);
            }
            self.wake(work.slot());
            self.list_if_free(work.slot());
        }
        if let Some(flow) = self.flow(active.flow) {
            flow.active_works = flow.active_works.saturating_sub(1);
            if active.work.op().is_message() {
                flow.active_messages = flow.active_messages.saturating_sub(1);
                flow.keyed = false;
                if active.error.is_none() {
                    flow.backoff = BACKOFF_MIN;
                    flow.probing = false;
                }
            }
        }
        self.wake(active.flow);
        self.list_if_free(active.flow);
        Some(active)
    }

    /// Holds a refused message back for the next run of flow `index`.
    pub(super) fn hold_refused(&mut self, index: u32, work: ListArc<Work>) {
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

    /// Puts the flow at the end of the list of those that pause, unless it is there.
    fn pause(&mut self, index: u32) {
        let (first, last) = (self.first_paused, self.last_paused);
        let Some(flow) = self.flow(index) else { return };
        if flow.links.paused {
            return;
        }
        (flow.links.paused, flow.links.next_paused) = (true, NIL);
        let end = flow.not_before;
        match self.flow(last) {
            Some(tail) if first != NIL => tail.links.next_paused = index,
            _ => self.first_paused = index,
        }
        self.last_paused = index;
        self.paused = self.paused.saturating_add(1);
        self.scan.next = Some(self.scan.next.map_or(end, |next| next.min(end)));
    }

    /// If no message of flow `index` is under way, puts its refused ones back at the front of the
    /// queue and pauses the flow. Returns the end of the pause, in ns.
    pub(super) fn restart_run(&mut self, index: u32, now: u64) -> Option<u64> {
        let others = self.paused;
        let flow = self.flow(index)?;
        if flow.refused.is_empty() || flow.active_messages > 0 {
            return None;
        }
        while let Some(work) = flow.refused.pop_back() {
            flow.queue.push_front(work);
        }
        (flow.start, flow.probing) = (true, true);
        let share = others.saturating_mul(PAUSE_SHARE).min(PAUSE_MAX);
        let pause = flow.backoff.max(share);
        let end = now.saturating_add(pause);
        flow.not_before = end;
        let longest = BACKOFF_MAX.saturating_mul((others / PAUSED_FEW).max(1));
        flow.backoff = pause.saturating_mul(2).min(longest.min(PAUSE_MAX));
        self.pause(index);
        Some(end)
    }

    /// The peer begins a new life: it does not have the bytes of writes that were placed in the old
    /// one.
    pub(super) fn begin_peer_life(&mut self) {
        self.peer_life = self.peer_life.wrapping_add(1).max(1);
    }

    /// Number of the peer's life, from 1 on.
    pub(super) fn peer_life(&self) -> u32 {
        self.peer_life
    }

    /// Takes all flows out, with the works that are queued in them. Active works stay.
    pub(super) fn abandon(&mut self) -> Abandoned {
        (self.first_ready, self.last_ready) = (NIL, NIL);
        (self.first_paused, self.last_paused) = (NIL, NIL);
        (self.paused, self.scan) = (0, Scan::NONE);
        (self.first_free, self.recent) = (NIL, NIL);
        Abandoned {
            flows: core::mem::replace(&mut self.flows, Chunks::new()),
            next: 0,
        }
    }
}

impl Abandoned {
    /// No flows.
    pub(super) const fn none() -> Self {
        Abandoned {
            flows: Chunks::new(),
            next: 0,
        }
    }

    pub(super) fn is_done(&self) -> bool {
        self.next >= self.flows.len()
    }

    /// Moves the works of the next `max_flows` flows to the end of `works`.
    pub(super) fn take_works(&mut self, max_flows: usize, works: &mut List<Work>) {
        for _ in 0..max_flows {
            let Some(flow) = self.flows.get_mut(self.next) else {
                return;
            };
            works.push_all_back(&mut flow.queue);
            works.push_all_back(&mut flow.refused);
            self.next = self.next.saturating_add(1);
        }
    }
}

impl FlowsGrowth {
    /// Allocates the memory of a plan. Process context; may sleep.
    pub(super) fn new(plan: FlowsGrowthPlan) -> Result<FlowsGrowth, AllocError> {
        Ok(FlowsGrowth {
            flows: Growth::new(plan.flows)?,
            actives: Growth::new(plan.actives)?,
        })
    }
}
