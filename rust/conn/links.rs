// SPDX-License-Identifier: GPL-2.0

//! The lists that flows are in.

/// Most flows that are visited while the connection's lock is held once. There may be very many.
pub(super) const FLOWS_PER_LOCK: usize = 512;

/// Index of no flow, and of no active work.
pub(super) const NIL: u32 = u32::MAX;

/// The lists that a flow is on. Each names the next flow by its index. The lists are singly linked:
/// a flow that does not belong on one any more is skipped, or taken off, when its turn comes.
#[derive(Copy, Clone)]
pub(super) struct Links {
    /// First flow of the bucket that has the number of this slot. This slot's own flow may be in
    /// another bucket.
    pub(super) bucket_head: u32,
    /// Next flow of the bucket that this flow is in.
    pub(super) next_in_bucket: u32,
    /// On the list of ready flows.
    pub(super) ready: bool,
    pub(super) next_ready: u32,
    /// On the list of paused flows.
    pub(super) paused: bool,
    pub(super) next_paused: u32,
    /// On the list of flows that may be free.
    pub(super) free: bool,
    pub(super) next_free: u32,
}

impl Links {
    pub(super) const NONE: Links = Links {
        bucket_head: NIL,
        next_in_bucket: NIL,
        ready: false,
        next_ready: NIL,
        paused: false,
        next_paused: NIL,
        free: false,
        next_free: NIL,
    };
}

/// A scan of the paused flows, in several steps.
#[derive(Copy, Clone)]
pub(super) struct Scan {
    /// Flows that it has not visited yet.
    pub(super) left: u64,
    /// End of the first pause among those visited or added since it began, in ns.
    pub(super) next: Option<u64>,
}

impl Scan {
    /// No scan is under way.
    pub(super) const NONE: Scan = Scan::of(0);

    /// A scan of so many flows.
    pub(super) const fn of(left: u64) -> Scan {
        Scan { left, next: None }
    }
}
