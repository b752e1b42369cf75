// SPDX-License-Identifier: GPL-2.0 OR MIT

use crate::rng::Rng;
use crate::US;
use std::collections::BTreeMap;

/// What a link does to packets. Chances are in parts of a thousand.
#[derive(Clone, Debug, Default)]
pub(crate) struct LinkConfig {
    pub(crate) delay: u64,
    /// Added to the delay, evenly distributed: reorders.
    pub(crate) jitter: u64,
    pub(crate) loss: u64,
    pub(crate) duplicate: u64,
    pub(crate) corrupt: u64,
    /// Time on the wire per packet: packets of one direction queue for it.
    pub(crate) wire_time: u64,
    /// With it a sender has two lanes, and what leaves by the second takes so much longer.
    pub(crate) second_lane: Option<u64>,
}

/// A packet under way.
pub(crate) struct Flight {
    pub(crate) to: usize,
    pub(crate) bytes: Vec<u8>,
}

pub(crate) struct Link {
    pub(crate) config: LinkConfig,
    rng: Rng,
    flights: BTreeMap<(u64, u64), Flight>,
    number: u64,
    wire_free: [u64; 2],
    pub(crate) carried: u64,
    pub(crate) lost: u64,
}

impl Link {
    pub(crate) fn new(config: LinkConfig, rng: Rng) -> Self {
        Self {
            config,
            rng,
            flights: BTreeMap::new(),
            number: 0,
            wire_free: [0; 2],
            carried: 0,
            lost: 0,
        }
    }

    /// The lane by which a packet leaves that is sent now: a sender changes it from time to time.
    pub(crate) fn lane(&self, now: u64) -> u8 {
        match self.config.second_lane {
            Some(_) => (now / (50 * US) % 2) as u8,
            None => 0,
        }
    }

    pub(crate) fn send(&mut self, now: u64, to: usize, bytes: Vec<u8>) {
        self.carried += 1;
        if self.rng.chance(self.config.loss) {
            self.lost += 1;
            return;
        }
        let start = now.max(self.wire_free[to]);
        self.wire_free[to] = start + self.config.wire_time;
        let copies = 1 + u32::from(self.rng.chance(self.config.duplicate));
        for _ in 0..copies {
            let mut bytes = bytes.clone();
            if self.rng.chance(self.config.corrupt) {
                let at = self.rng.below(bytes.len() as u64) as usize;
                bytes[at] ^= 1 << self.rng.below(8);
            }
            let jitter = match self.config.jitter {
                0 => 0,
                jitter => self.rng.below(jitter),
            };
            let late = match self.lane(now) {
                0 => 0,
                _ => self.config.second_lane.unwrap_or(0),
            };
            let arrival = start + self.config.wire_time + self.config.delay + jitter + late;
            self.number += 1;
            self.flights
                .insert((arrival, self.number), Flight { to, bytes });
        }
    }

    pub(crate) fn next_arrival(&self) -> Option<u64> {
        self.flights.keys().next().map(|key| key.0)
    }

    pub(crate) fn pop(&mut self, now: u64) -> Option<Flight> {
        let key = *self.flights.keys().next()?;
        if key.0 > now {
            return None;
        }
        self.flights.remove(&key)
    }
}
