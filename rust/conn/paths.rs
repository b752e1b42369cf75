// SPDX-License-Identifier: GPL-2.0

//! The paths of a connection, and which of them a packet takes.
//!
//! A connection that sprays deals its packets out over all paths that are up. Any other one keeps to
//! one path, which its flow label chooses, while that is up.

use kernel::{
    alloc::AllocError,
    prelude::*,
    sync::{
        atomic::{Atomic, Relaxed},
        Arc,
    },
};

use super::{count, Conn, Identity};
use crate::{
    kapi::{errno::enobufs, map::mixed, path::Path, skb::Burst},
    proto::{DropReason, Transmit},
};

/// Most paths of a connection: the ports that a node has at most.
pub(crate) const PATHS_MAX: usize = 4;

/// Time for which a path that could not take a packet is left alone, ns.
const AVOID_TIME: u64 = 1_000_000_000;

/// Retransmission timeouts in a row after which the peer's Ethernet address is probed: half a second
/// and more, so that a path that loses much does not count as silent.
const SUSPECT_TIMEOUTS: u32 = 4;

/// Both ends of a path, addresses as in [`super::ConnParams`].
pub(crate) struct PathEnds {
    /// 0: by route; of the only path of a connection.
    pub(crate) ifindex: u32,
    pub(crate) local: [u8; 16],
    pub(crate) remote: [u8; 16],
    pub(crate) local_sunh: u16,
    pub(crate) remote_sunh: u16,
    pub(crate) mac: Option<[u8; 6]>,
    /// The device is gone: the path is never used again.
    pub(crate) gone: Atomic<bool>,
}

impl PathEnds {
    fn over(&self, ifindex: u32) -> bool {
        self.ifindex == ifindex && !self.gone.load(Relaxed)
    }
}

/// What there is to tell of a path.
pub(crate) struct PathInfo {
    /// Packets can leave by it.
    pub(crate) up: bool,
    /// Packets since the connection was created.
    pub(crate) tx_packets: u64,
    pub(crate) rx_packets: u64,
}

/// One path.
struct Entry {
    /// `None` when its device is gone, or the connection.
    path: Option<Path>,
    /// The path is used only when no other is up until then, ns.
    avoid_until: u64,
    tx_packets: u64,
    rx_packets: u64,
}

/// A path as an element of a set.
fn bit(i: usize) -> u32 {
    // CAST: Below `PATHS_MAX`.
    1u32.wrapping_shl(i as u32)
}

/// The first path of a set of `n` at most, from one on and around.
fn first(set: u32, from: usize, n: usize) -> Option<usize> {
    let from = from.checked_rem(n)?;
    let is_in = |i: &usize| set & bit(*i) != 0;
    (from..n).find(is_in).or_else(|| (0..from).find(is_in))
}

/// The paths of a connection, under its lock.
pub(super) struct Paths {
    /// As in [`Identity::paths`].
    entries: KVec<Entry>,
    spray: bool,
    /// Bytes of the longest packet.
    mtu: u32,
    /// The path of a connection that does not spray, while it is up.
    home: usize,
    /// Where the search for its path begins.
    start: usize,
    /// Path of the new packet sent last.
    last: usize,
    /// The set of paths that could be used then.
    usable: u32,
    /// Retransmission timeouts since the peer acknowledged anything.
    timeouts: u32,
    /// Path of the last transmission of each packet, by slot, of a connection that sprays.
    sent_by: KVVec<u8>,
}

impl Paths {
    /// `paths` are those of [`Identity::paths`]. Process context.
    pub(super) fn new(
        identity: &Identity,
        paths: KVec<Path>,
        psn_slots: usize,
    ) -> Result<Paths, AllocError> {
        let mut entries = KVec::with_capacity(paths.len(), GFP_KERNEL)?;
        for path in paths {
            // There is room: it was just allocated.
            let _ = entries.push_within_capacity(Entry {
                path: Some(path),
                avoid_until: 0,
                tx_packets: 0,
                rx_packets: 0,
            });
        }
        let slots = if identity.spray && entries.len() > 1 {
            psn_slots
        } else {
            0
        };
        // Scaled to 0..len.
        let hash = u64::from(mixed(identity.flow_label));
        let home = (hash.wrapping_mul(entries.len() as u64) >> 32) as usize;
        Ok(Paths {
            entries,
            spray: identity.spray,
            mtu: identity.config.mtu,
            home,
            start: home,
            last: home,
            usable: 0,
            timeouts: 0,
            sent_by: KVVec::from_elem(0, slots, GFP_KERNEL)?,
        })
    }

    /// Whether there is nothing left to send by.
    pub(super) fn closed(&self) -> bool {
        self.entries.iter().all(|entry| entry.path.is_none())
    }

    /// The `i`th path, while there is one.
    pub(super) fn path(&self, i: usize) -> Option<&Path> {
        self.entries.get(i)?.path.as_ref()
    }

    /// All paths that there are.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Path> {
        self.entries.iter().filter_map(|entry| entry.path.as_ref())
    }

    /// Takes the `i`th path away, to be dropped outside the lock.
    fn close(&mut self, i: usize) -> Option<Path> {
        self.entries.get_mut(i)?.path.take()
    }

    /// The paths that can send a packet now, and those of them that are not to be avoided.
    fn up(&self, now: u64) -> (u32, u32) {
        let (mut up, mut usable) = (0, 0);
        for (i, entry) in (0..PATHS_MAX).zip(&self.entries) {
            if entry.path.as_ref().is_some_and(|path| path.up(self.mtu)) {
                up |= bit(i);
                if entry.avoid_until <= now {
                    usable |= bit(i);
                }
            }
        }
        (up, usable)
    }

    /// The path for a packet.
    pub(super) fn choose(&mut self, transmit: &Transmit, now: u64) -> usize {
        if self.entries.len() < 2 {
            return 0;
        }
        let (up, usable) = self.up(now);
        if usable & !self.usable != 0 {
            // One came back.
            self.start = self.home;
        }
        self.usable = usable;
        let slot = (transmit.psn as usize).checked_rem(self.sent_by.len());
        let slot = slot.and_then(|slot| self.sent_by.get_mut(slot));
        let from = match &slot {
            None => self.start,
            // Another one than the last time: a path may lose everything and not be down.
            Some(by) if transmit.retransmit => usize::from(**by).saturating_add(1),
            Some(_) => self.last.saturating_add(1),
        };
        let set = if usable != 0 { usable } else { up };
        let chosen = first(set, from, self.entries.len()).unwrap_or(self.home);
        if slot.is_none() || !transmit.retransmit {
            self.last = chosen;
        }
        if let Some(by) = slot {
            // CAST: Below `PATHS_MAX`.
            *by = chosen as u8;
        }
        chosen
    }

    /// Sends packets, `n` of them, by the `i`th path.
    pub(super) fn send(
        &mut self,
        i: usize,
        packets: Burst,
        n: u64,
        entropy: u16,
        now: u64,
    ) -> Result {
        let entry = self.entries.get_mut(i).ok_or(ENODEV)?;
        let path = entry.path.as_ref().ok_or(ENODEV)?;
        let sent = path.transmit(packets, entropy);
        match sent {
            Ok(()) => count(&mut entry.tx_packets, n),
            // A full queue says nothing of the path.
            Err(e) if e == enobufs() || e == ENOMEM => {}
            Err(_) => entry.avoid_until = now.saturating_add(AVOID_TIME),
        }
        sent
    }

    /// Bytes of a packet that all paths that are left take, if one of them has had a longer one since this was
    /// asked last. Process or softirq context.
    pub(super) fn narrowed(&self) -> Option<u32> {
        // All are asked, or one would be told of again.
        let ask = |narrow: bool, path: &Path| path.was_narrow() || narrow;
        let narrow = self.iter().fold(false, ask);
        let mtus = self.iter().map(Path::mtu).filter(|&mtu| mtu > 0);
        narrow.then(|| mtus.fold(self.mtu, u32::min))
    }

    /// Packets, `n` of them, came in by the `i`th path.
    pub(super) fn received(&mut self, i: usize, n: u64) {
        if let Some(entry) = self.entries.get_mut(i) {
            count(&mut entry.rx_packets, n);
        }
    }

    /// The peer has acknowledged something, by the `i`th path.
    pub(super) fn confirm(&mut self, i: usize) {
        self.timeouts = 0;
        if let Some(path) = self.path(if self.spray { i } else { self.last }) {
            path.confirm();
        }
    }

    /// Nothing was acknowledged for the time of a retransmission: the path may be dead further on.
    pub(super) fn timed_out(&mut self) {
        self.timeouts = self.timeouts.saturating_add(1);
        if self.timeouts % SUSPECT_TIMEOUTS == 0 {
            self.iter().for_each(Path::suspect);
        }
        if self.usable & bit(self.last) != 0 {
            self.start = self.last.saturating_add(1);
        }
    }

    /// The peer has sent something again, by the `i`th path: what we sent to acknowledge it may have
    /// been lost where the peer's first packet was.
    pub(super) fn repeated(&mut self, i: usize) {
        self.start = i;
    }
}

impl Conn {
    /// The path that a packet came by, or why it came by none. Any context.
    pub(crate) fn path_of(
        &self,
        ifindex: u32,
        ours: impl Fn(&PathEnds) -> bool,
        theirs: impl Fn(&PathEnds) -> bool,
    ) -> Result<usize, DropReason> {
        let mut reason = DropReason::WrongPath;
        for (i, ends) in (0..PATHS_MAX).zip(&self.identity.paths) {
            if ends.ifindex != 0 && !ends.over(ifindex) {
                continue;
            }
            if !ours(ends) {
                reason = DropReason::NotOurs;
            } else if !theirs(ends) {
                reason = DropReason::WrongSource;
            } else {
                return Ok(i);
            }
        }
        Err(reason)
    }

    /// Whether a path goes over the device. Any context.
    pub(crate) fn uses(&self, ifindex: u32) -> bool {
        let mut paths = self.identity.paths.iter();
        paths.any(|ends| ends.over(ifindex))
    }

    /// A device goes away, and the paths over it; without any left the connection breaks. Process
    /// context.
    pub(crate) fn leave(self: &Arc<Self>, ifindex: u32) {
        for (i, ends) in (0..PATHS_MAX).zip(&self.identity.paths) {
            if ends.over(ifindex) {
                ends.gone.store(true, Relaxed);
                let path = self.inner.lock().paths.close(i);
                drop(path);
            }
        }
        if self.inner.lock().paths.closed() {
            self.break_off("the device was removed");
        }
    }

    /// Gives up all paths, and with them the devices; nothing is sent any more. Process context.
    pub(crate) fn close_paths(&self) {
        for i in 0..self.identity.paths.len() {
            let path = self.inner.lock().paths.close(i);
            drop(path);
        }
    }

    /// A snapshot of the `i`th path for netlink.
    pub(crate) fn path_info(&self, i: usize) -> Option<PathInfo> {
        let inner = self.inner.lock();
        let entry = inner.paths.entries.get(i)?;
        let path = entry.path.as_ref();
        Some(PathInfo {
            up: path.is_some_and(|path| path.up(inner.paths.mtu)),
            tx_packets: entry.tx_packets,
            rx_packets: entry.rx_packets,
        })
    }
}
