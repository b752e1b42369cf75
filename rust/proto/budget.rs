// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Receive budget of a node: the packets that its peers may have under way, shared by connections.

/// How a budget is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Partition {
    /// Every connection has an equal part, whether it is active or not. The sum of all windows
    /// never exceeds the budget, unless there are more connections than packets.
    Static,
    /// The connections that were active recently have equal parts. Each of the others has one
    /// packet, on top of the budget, so that its peer can send and it becomes active.
    Dynamic,
}

/// The receive budget of a node, in packets.
///
/// The owner passes a connection's share to [`super::Connection::set_receive_limit`]. A share is at
/// least one packet, so a node with more connections than packets exceeds its budget.
///
/// Time is divided into periods of fixed length. A connection is active if a packet with content
/// arrived for it in the current period or in the one before.
#[derive(Clone, Copy, Debug)]
pub struct ReceiveBudget {
    packets: u32,
    partition: Partition,
    period_ns: u64,
    connections: u32,
    /// Number of the current period.
    period: u64,
    /// Number of connections active in the current period; number active in the period before, but
    /// not in the current one.
    active: [u32; 2],
}

/// The period in which a connection was last active; `None` if it never was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Activity(Option<u64>);

impl ReceiveBudget {
    /// Creates a budget of `packets` without connections. A period has `period_ns` ns, at least 1.
    pub fn new(packets: u32, partition: Partition, period_ns: u64) -> Self {
        Self {
            packets,
            partition,
            period_ns: period_ns.max(1),
            connections: 0,
            period: 0,
            active: [0; 2],
        }
    }

    /// Changes the size of the budget and how it is divided.
    pub fn configure(&mut self, packets: u32, partition: Partition) {
        self.packets = packets;
        self.partition = partition;
    }

    /// Adds a new connection.
    pub fn join(&mut self) -> Activity {
        self.connections = self.connections.saturating_add(1);
        Activity::default()
    }

    /// Removes a connection.
    pub fn leave(&mut self, activity: Activity) {
        self.connections = self.connections.saturating_sub(1);
        self.uncount(activity);
    }

    /// Records that a packet with content arrived for a connection at `now`, in ns of a monotonic
    /// clock.
    pub fn received(&mut self, now: u64, activity: &mut Activity) {
        self.advance(now);
        if activity.0 == Some(self.period) {
            return;
        }
        self.uncount(*activity);
        let [current, _] = &mut self.active;
        *current = current.saturating_add(1);
        activity.0 = Some(self.period);
    }

    /// The share of a connection at `now`, in packets; at least 1.
    pub fn share(&mut self, now: u64, activity: Activity) -> u32 {
        self.advance(now);
        let sharers = match self.partition {
            Partition::Static => self.connections,
            Partition::Dynamic if self.index(activity).is_none() => return 1,
            Partition::Dynamic => self.active(),
        };
        self.packets.checked_div(sharers).unwrap_or(0).max(1)
    }

    /// Number of active connections.
    fn active(&self) -> u32 {
        let [current, previous] = self.active;
        current.saturating_add(previous)
    }

    /// Index of the count in `active` that includes a connection; `None` if it is not active.
    fn index(&self, activity: Activity) -> Option<usize> {
        match self.period.checked_sub(activity.0?)? {
            0 => Some(0),
            1 => Some(1),
            _ => None,
        }
    }

    /// Removes a connection from the counts in `active`.
    fn uncount(&mut self, activity: Activity) {
        let count = self.index(activity).and_then(|i| self.active.get_mut(i));
        if let Some(count) = count {
            *count = count.saturating_sub(1);
        }
    }

    /// Enters the period of `now`. A `now` in an earlier period has no effect.
    fn advance(&mut self, now: u64) {
        let period = now.checked_div(self.period_ns).unwrap_or(0);
        match period.saturating_sub(self.period) {
            0 => return,
            1 => self.active = [0, self.active[0]],
            _ => self.active = [0; 2],
        }
        self.period = period;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    fn connections(budget: &mut ReceiveBudget, count: u32) -> Vec<Activity> {
        (0..count).map(|_| budget.join()).collect()
    }

    #[test]
    fn static_parts_depend_on_the_number_of_connections_only() {
        let mut budget = ReceiveBudget::new(100, Partition::Static, 1000);
        let mut all = connections(&mut budget, 3);
        assert_eq!(budget.share(0, all[0]), 33);
        budget.received(0, &mut all[0]);
        assert_eq!([0, 1, 2].map(|i| budget.share(0, all[i])), [33; 3]);
        budget.leave(all[2]);
        assert_eq!(budget.share(9_999_999, all[0]), 50);
    }

    #[test]
    fn recently_active_connections_share_equally() {
        let mut budget = ReceiveBudget::new(100, Partition::Dynamic, 1000);
        let mut all = connections(&mut budget, 5);
        assert_eq!(budget.share(0, all[0]), 1);
        budget.received(100, &mut all[0]);
        budget.received(200, &mut all[0]);
        assert_eq!(budget.share(200, all[0]), 100);
        for activity in &mut all[1..4] {
            budget.received(1900, activity);
        }
        assert_eq!([0, 1, 2, 3].map(|i| budget.share(1900, all[i])), [25; 4]);
        assert_eq!(budget.share(1900, all[4]), 1);
        // The first connection was active in the period before. It counts once when it becomes
        // active again.
        budget.received(1950, &mut all[0]);
        assert_eq!(budget.share(1950, all[0]), 25);
        budget.leave(all[3]);
        assert_eq!(budget.share(1950, all[0]), 33);
    }

    #[test]
    fn activity_is_forgotten_after_a_whole_period_without() {
        let mut budget = ReceiveBudget::new(100, Partition::Dynamic, 1000);
        let mut all = connections(&mut budget, 2);
        budget.received(500, &mut all[0]);
        budget.received(1500, &mut all[1]);
        assert_eq!(budget.share(1999, all[1]), 50);
        assert_eq!(budget.share(2000, all[1]), 100);
        assert_eq!(budget.share(2000, all[0]), 1);
        assert_eq!(budget.share(90_000, all[1]), 1);
        // A connection that leaves after its activity expired does not reduce the counts.
        budget.received(90_000, &mut all[0]);
        budget.leave(all[1]);
        assert_eq!(budget.share(90_000, all[0]), 100);
    }

    #[test]
    fn share_is_one_packet_at_least() {
        for partition in [Partition::Static, Partition::Dynamic] {
            let mut budget = ReceiveBudget::new(4, partition, 1000);
            let mut all = connections(&mut budget, 9);
            for activity in &mut all {
                budget.received(0, activity);
            }
            assert!(all.iter().all(|a| budget.share(0, *a) == 1));
        }
        let mut none = ReceiveBudget::new(0, Partition::Static, 0);
        assert_eq!(none.share(7, Activity::default()), 1);
    }

    #[test]
    fn shares_of_active_connections_never_exceed_the_budget() {
        let mut budget = ReceiveBudget::new(1000, Partition::Dynamic, 10);
        let mut all = connections(&mut budget, 64);
        let (mut random, mut last) = (1u64, [None; 64]);
        for now in 0..20_000u64 {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let index = (random >> 33) as usize % (1 + now as usize / 500);
            budget.received(now, &mut all[index]);
            last[index] = Some(now / 10);
            let recent = |at: &Option<u64>| at.is_some_and(|at| at + 1 >= now / 10);
            let active = last.iter().filter(|at| recent(at)).count() as u32;
            assert_eq!(budget.share(now, all[index]), 1000 / active);
        }
    }
}
