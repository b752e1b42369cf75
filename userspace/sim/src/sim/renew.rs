// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Connections that begin another life while packets of the one before are under way: reset with other
//! start values, or removed and created again. This is the connection manager's part.

use super::{pair, Sim};
use crate::event::Event;
use crate::invariant::Violation;
use crate::sabotage::Sabotage;
use superp_proto::Config;

/// How a connection comes to another life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Renewal {
    /// A reset, with start values that the old life leaves room for.
    Reset,
    /// It is removed and created again with the same start values: other identifiers.
    Recreate,
}

/// When the ends of a connection are renewed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) renewal: Renewal,
    /// Time for the first end, in ns.
    pub(crate) at: u64,
    /// Time from there to the other.
    pub(crate) gap: u64,
    /// End that comes first, 0 or 1.
    pub(crate) first: usize,
}

/// A life of a connection after its first.
#[derive(Clone, Debug)]
pub(super) struct Life {
    renewal: Renewal,
    /// What its ends are given, once it is chosen.
    configs: Option<[Config; 2]>,
}

impl Sim {
    /// Plans another life for the connection of `end`. Lives of a connection are planned in their order.
    pub(crate) fn renew(&mut self, end: usize, plan: Plan) {
        let connection = end & !1;
        let lives = &mut self.lives[connection / 2];
        lives.push(Life {
            renewal: plan.renewal,
            configs: None,
        });
        let life = lives.len();
        for (end, at) in [(plan.first, plan.at), (1 - plan.first, plan.at + plan.gap)] {
            let end = connection + end;
            self.ends[end].renewed = true;
            self.queue.push(at, Event::Renew { end, life });
        }
    }

    /// An end begins its next life.
    pub(super) fn renew_end(&mut self, end: usize, life: usize) -> Result<(), Violation> {
        let stalled = self.nodes[self.ends[end].node].stalled_until;
        // The manager waits until it is done with the life before.
        let waits = [end, end ^ 1]
            .iter()
            .any(|&end| self.ends[end].life + 1 < life);
        if stalled > self.now || waits {
            let at = stalled.max(self.now + 1_000_000);
            self.queue.push(at, Event::Renew { end, life });
            return Ok(());
        }
        self.active = self.now;
        self.trace.note(self.now, "renew", end, &[]);
        self.stop(end)?;
        let Life { renewal, configs } = self.lives[end / 2][life - 1].clone();
        if renewal == Renewal::Recreate {
            self.remove(end);
        }
        let configs = match configs {
            Some(configs) => configs,
            None => self.choose(end, renewal),
        };
        let (state, _) = pair(&mut self.ends, end);
        state.renew(self.now, &configs[end % 2], life);
        self.lives[end / 2][life - 1].configs = Some(configs);
        self.drive(end)
    }

    /// What both ends are given in the next life, decided when the first of them begins it.
    fn choose(&mut self, end: usize, renewal: Renewal) -> [Config; 2] {
        let first = end & !1;
        let mut configs = [0, 1].map(|i| self.ends[first + i].conn.config().clone());
        match renewal {
            Renewal::Reset if self.sabotage == Sabotage::SameStart => {}
            Renewal::Reset => {
                // The exact bound of [proto 3.19], and places far beyond it.
                let margin = self.rng.pick(&[0, 0, 1000, 1 << 30]);
                let psn = self.beyond(first).wrapping_add(margin);
                let xid = self.rng.bits() as u16;
                for config in &mut configs {
                    (config.start_psn, config.start_xid) = (psn, xid);
                }
            }
            Renewal::Recreate => {
                let cids = [0, 1].map(|i| self.choose_cid(first + i));
                for (config, cid) in configs.iter_mut().zip([cids[1], cids[0]]) {
                    config.remote_cid = cid;
                }
            }
        }
        configs
    }

    /// The least start PSN of which the old life takes no packets, and whose life takes none of the old.
    fn beyond(&self, first: usize) -> u32 {
        let used = [first, first + 1].map(|end| {
            let conn = &self.ends[end].conn;
            let sent = conn.stats().tx_packets as u32;
            conn.config().start_psn.wrapping_add(sent)
        });
        let highest = match (used[0].wrapping_sub(used[1]) as i32) > 0 {
            true => used[0],
            false => used[1],
        };
        highest.wrapping_add(self.ends[first].window + 1)
    }

    /// Removes an end's identifier.
    fn remove(&mut self, end: usize) {
        let (cid, kept) = {
            let end = &self.ends[end];
            (end.cid, end.conn.config().quarantine_time())
        };
        let node = &mut self.nodes[self.ends[end].node];
        let room = node.quarantine.make_room(self.now, node.ends.len());
        room.expect("memory");
        node.ends.remove(&cid);
        if self.sabotage != Sabotage::NoQuarantine {
            node.quarantine.put(cid, self.now + kept);
        }
    }

    /// Chooses an identifier for the next life of an end.
    fn choose_cid(&mut self, end: usize) -> u16 {
        let node = &mut self.nodes[self.ends[end].node];
        let in_use = |cid| node.ends.contains_key(&cid);
        let chosen = node.quarantine.choose(self.now, in_use);
        let cid = chosen.expect("a free identifier");
        node.ends.insert(cid, end);
        self.ends[end].next_cid = cid;
        cid
    }
}
