// SPDX-License-Identifier: GPL-2.0 OR MIT
//! What the lives of a connection begin with: its resets, and its removals and new creations.

use superp_proto::{Config, Heap, Quarantine};

/// So many lives, so that all their numbers lie in a half of the number space.
const LIVES_MAX: usize = 8;

/// The lives of one connection.
pub(crate) struct Lives {
    /// Of each life what the two ends are created with.
    configs: Vec<[Config; 2]>,
    /// The identifiers that each of the two nodes keeps back.
    kept: [Quarantine<Heap>; 2],
    /// Of each life that an end has left for one with another identifier, when the one of this is free again.
    free_at: Vec<[Option<u64>; 2]>,
}

/// What the next life shares with the one before.
#[derive(Clone, Copy)]
pub(crate) enum Renewal {
    /// Its identifiers. Its numbers begin the least distance beyond, and so many more.
    Reset { distance: u32 },
    /// Its numbers. Identifiers are chosen by the nodes.
    Recreate,
}

impl Lives {
    pub(crate) fn new(configs: [Config; 2]) -> Self {
        Self {
            configs: vec![configs],
            kept: [Quarantine::new(), Quarantine::new()],
            free_at: vec![[None; 2]; LIVES_MAX],
        }
    }

    /// The life chosen last, from 0.
    pub(crate) fn last(&self) -> usize {
        self.configs.len() - 1
    }

    /// What an end is created with for a life.
    pub(crate) fn config(&self, life: usize, end: usize) -> &Config {
        &self.configs[life][end]
    }

    /// The identifier of an end in a life.
    pub(crate) fn cid(&self, life: usize, end: usize) -> u16 {
        self.config(life, 1 - end).remote_cid
    }

    /// Chooses the next life, if there may be one more. `used`: beyond every PSN of this one that was
    /// used, or with SUPERp-lite every XID, counted from its first.
    pub(crate) fn choose(&mut self, now: u64, renewal: Renewal, used: u64, start_xid: u16) {
        let life = self.last();
        if life + 1 == LIVES_MAX {
            return;
        }
        let mut configs = self.configs[life].clone();
        let cids = [0, 1].map(|end| match renewal {
            Renewal::Reset { .. } => self.cid(life, end),
            Renewal::Recreate => {
                let own = self.cid(life, end);
                self.kept[end].make_room(now, 1).expect("memory");
                let free = self.kept[end].choose(now, |cid| cid == own);
                free.expect("65535 identifiers for a few lives")
            }
        });
        for (end, config) in configs.iter_mut().enumerate() {
            config.remote_cid = cids[1 - end];
            match renewal {
                Renewal::Reset { .. } if config.lite => {
                    let beyond = used as u16 + config.tal_trans_window as u16 + 1;
                    config.start_xid = config.start_xid.wrapping_add(beyond);
                }
                Renewal::Reset { distance } => {
                    let beyond = used as u32 + config.pdl_window_size + 1 + distance;
                    config.start_psn = config.start_psn.wrapping_add(beyond);
                    config.start_xid = start_xid;
                }
                Renewal::Recreate => {}
            }
        }
        self.configs.push(configs);
    }

    /// An end has left a life. Its identifier is kept back if it is not that of the next.
    pub(crate) fn left(&mut self, now: u64, life: usize, end: usize) {
        let cid = self.cid(life, end);
        if cid != self.cid(life + 1, end) {
            let time = Config::default().quarantine_time();
            self.kept[end].put(cid, now.saturating_add(time));
            self.free_at[life][end] = Some(now.saturating_add(time));
        }
    }

    /// When the identifier that an end has in a life is free again, if that is known.
    pub(crate) fn free_at(&self, life: usize, end: usize) -> Option<u64> {
        // Those with the same one follow at once.
        self.free_at[life..].iter().find_map(|at| at[end])
    }
}
