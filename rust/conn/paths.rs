// SPDX-License-Identifier: GPL-2.0

//! The paths of a connection, and which of them a packet takes [proto 2.8].
//!
//! A connection that sprays spreads its packets over all paths that are up. Any other one keeps to
//! one path, which its flow label selects, while that is up.

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

/// Most paths of a connection: as many as the ports of a node [proto 2.8].
pub(crate) const PATHS_MAX: usize = 4;

/// Time for which a path is avoided after it could not send, in ns.
const AVOID_TIME: u64 = 1_000_000_000;

/// Retransmission timeouts in a row after which the peer's Ethernet address is probed. They take
/// half a second or more, so that a path that loses many packets does not count as silent.
const SUSPECT_TIMEOUTS: u32 = 4;

/// A device that carries SUPERp, and the encapsulations that it receives.
pub(crate) struct Port {
    pub(crate) ifindex: u32,
    pub(crate) sunh: bool,
    pub(crate) udp: bool,
    /// State in the last event.
    pub(crate) up: Atomic<bool>,
    /// The device was unregistered, or has left the namespace. Paths over it are never used again,
    /// also if the device comes back, or another one with its index: that is another port.
    pub(crate) gone: Atomic<bool>,
}

/// Both ends of a path. Addresses are IPv6 or v4-mapped.
pub(crate) struct PathEnds {
    /// Device of the path. `None`, of the only path of a connection: the route chooses it.
    pub(crate) port: Option<Arc<Port>>,
    pub(crate) local: [u8; 16],
    pub(crate) remote: [u8; 16],
    pub(crate) local_sunh: u16,
    pub(crate) remote_sunh: u16,
    /// Static Ethernet address of the peer.
    pub(crate) mac: Option<[u8; 6]>,
}

impl Port {
    pub(crate) fn new(ifindex: u32, sunh: bool, udp: bool) -> Port {
        Port {
            ifindex,
            sunh,
            udp,
            up: Atomic::new(false),
            gone: Atomic::new(false),
        }
    }

    /// Whether this is the port of the device that has index `ifindex` now.
    pub(crate) fn is_over(&self, ifindex: u32) -> bool {
        self.ifindex == ifindex && !self.gone.load(Relaxed)
    }
}

impl PathEnds {
    /// Index of the device. 0: the route chooses it.
    pub(crate) fn ifindex(&self) -> u32 {
        self.port.as_ref().map_or(0, |port| port.ifindex)
    }

    fn is_over(&self, ifindex: u32) -> bool {
        self.port.as_ref().is_some_and(|port| port.is_over(ifindex))
    }

    fn is_gone(&self) -> bool {
        self.port
            .as_ref()
            .is_some_and(|port| port.gone.load(Relaxed))
    }
}

/// A snapshot of a path, for netlink.
pub(crate) struct PathInfo {
    /// Whether packets can leave by the path now.
    pub(crate) up: bool,
    /// Packets since the connection was created.
    pub(crate) tx_packets: u64,
    pub(crate) rx_packets: u64,
}

/// A path and its state.
struct Entry {
    /// `None`: the device was unregistered, or the connection was removed.
    path: Option<Path>,
    /// Until this time, in ns, the path is used only if no other is up.
    avoid_until: u64,
    tx_packets: u64,
    rx_packets: u64,
}

/// The set with path `i` alone.
fn bit(i: usize) -> u32 {
    // CAST: Below `PATHS_MAX`.
    1u32.wrapping_shl(i as u32)
}

/// The first path of a set, from path `from` on and wrapping around at `n`.
fn first_in_set(set: u32, from: usize, n: usize) -> Option<usize> {
    let from = from.checked_rem(n)?;
    let is_in = |i: &usize| set & bit(*i) != 0;
    (from..n).find(is_in).or_else(|| (0..from).find(is_in))
}

/// The paths of a connection. `Conn::inner` protects them.
pub(super) struct Paths {
    /// In the order of [`Identity::paths`].
    entries: KVec<Entry>,
    spray: bool,
    /// Longest packet, in bytes from the PDL header on.
    mtu: u32,
    /// Path that the flow label selects.
    preferred: usize,
    /// Path at which a connection that does not spray begins the search for one that is up.
    search_from: usize,
    /// Path of the last packet; of a connection that sprays, of the last new one.
    last: usize,
    /// Paths that were usable when a path was chosen last, as a set.
    usable: u32,
    /// Retransmission timeouts since the peer acknowledged anything.
    timeouts: u32,
    /// Path of the last transmission of each packet, by PSN modulo length. Empty unless the
    /// connection sprays over several paths.
    sent_by: KVVec<u8>,
}

impl Paths {
    /// `paths` are those of [`Identity::paths`], in the same order. Process context.
    pub(super) fn new(
        identity: &Identity,
        paths: KVec<Path>,
        psn_slots: usize,
    ) -> Result<Paths, AllocError> {
        let mut entries = KVec::with_capacity(paths.len(), GFP_KERNEL_ACCOUNT)?;
        for path in paths {
            // This cannot fail: the capacity is `paths.len()`.
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
        // The 32-bit hash scaled to 0..len.
        let hash = u64::from(mixed(identity.flow_label));
        let preferred = (hash.wrapping_mul(entries.len() as u64) >> 32) as usize;
        Ok(Paths {
            entries,
            spray: identity.spray,
            mtu: identity.config.mtu,
            preferred,
            search_from: preferred,
            last: preferred,
            usable: 0,
            timeouts: 0,
            sent_by: KVVec::from_elem(0, slots, GFP_KERNEL_ACCOUNT)?,
        })
    }

    /// Whether no path is left.
    pub(super) fn closed(&self) -> bool {
        self.entries.iter().all(|entry| entry.path.is_none())
    }

    /// The path at index `i`. `None`: it was closed.
    pub(super) fn path(&self, i: usize) -> Option<&Path> {
        self.entries.get(i)?.path.as_ref()
    }

    /// All paths that are not closed.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Path> {
        self.entries.iter().filter_map(|entry| entry.path.as_ref())
    }

    /// Closes the path at index `i`. The caller drops it outside of the lock.
    fn close(&mut self, i: usize) -> Option<Path> {
        self.entries.get_mut(i)?.path.take()
    }

    /// The set of paths that are up, and those of them that are not avoided.
    fn path_sets(&self, now: u64) -> (u32, u32) {
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

    /// Chooses the path for a packet. Returns its index.
    pub(super) fn choose(&mut self, transmit: &Transmit, now: u64) -> usize {
        if self.entries.len() < 2 {
            return 0;
        }
        let (up, usable) = self.path_sets(now);
        if usable & !self.usable != 0 {
            // A path became usable: the choice is made anew [proto 2.8].
            self.search_from = self.preferred;
        }
        self.usable = usable;
        let slot = (transmit.psn as usize).checked_rem(self.sent_by.len());
        let slot = slot.and_then(|slot| self.sent_by.get_mut(slot));
        let from = match &slot {
            None => self.search_from,
            // A path may lose everything and still be up, so the packet takes another one than
            // before.
            Some(tx_path) if transmit.retransmit => usize::from(**tx_path).saturating_add(1),
            Some(_) => self.last.saturating_add(1),
        };
        let set = if usable != 0 { usable } else { up };
        let chosen = first_in_set(set, from, self.entries.len()).unwrap_or(self.preferred);
        if slot.is_none() || !transmit.retransmit {
            self.last = chosen;
        }
        if let Some(tx_path) = slot {
            // CAST: Below `PATHS_MAX`.
            *tx_path = chosen as u8;
        }
        chosen
    }

    /// Sends `n` packets by the path at index `i`.
    ///
    /// # Errors
    ///
    /// `ENODEV`: the path was closed. Others are those of [`Path::transmit`].
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
            // Neither a full queue nor a lack of memory says anything about the path.
            Err(e) if e == enobufs() || e == ENOMEM => {}
            Err(_) => entry.avoid_until = now.saturating_add(AVOID_TIME),
        }
        sent
    }

    /// Longest packet that all paths take, in bytes from the PDL header on. `None` unless a path
    /// has sent a longer one in fragments since the last call. Process or softirq context.
    pub(super) fn narrowed(&self) -> Option<u32> {
        // Every path is asked, because asking resets its flag.
        let ask = |narrow: bool, path: &Path| path.was_narrow() || narrow;
        let narrow = self.iter().fold(false, ask);
        let mtus = self.iter().map(Path::mtu).filter(|&mtu| mtu > 0);
        narrow.then(|| mtus.fold(self.mtu, u32::min))
    }

    /// Counts `n` packets that arrived on the path at index `i`.
    pub(super) fn received(&mut self, i: usize, n: u64) {
        if let Some(entry) = self.entries.get_mut(i) {
            count(&mut entry.rx_packets, n);
        }
    }

    /// The peer has acknowledged something by a packet on the path at index `i`.
    pub(super) fn confirm(&mut self, i: usize) {
        self.timeouts = 0;
        if let Some(path) = self.path(if self.spray { i } else { self.last }) {
            path.confirm();
        }
    }

    /// The retransmission timer has expired: the path may be dead beyond the first link.
    pub(super) fn timed_out(&mut self) {
        self.timeouts = self.timeouts.saturating_add(1);
        if self.timeouts % SUSPECT_TIMEOUTS == 0 {
            self.iter().for_each(Path::suspect);
        }
        if self.usable & bit(self.last) != 0 {
            self.search_from = self.last.saturating_add(1);
        }
    }

    /// The peer has sent a packet again, by the path at index `i`. This end's acknowledgement of
    /// the first copy may have been lost, so this end follows the peer to that path.
    pub(super) fn duplicate_received(&mut self, i: usize) {
        self.search_from = i;
    }
}

impl Conn {
    /// The index of the path that a packet arrived on. `local_matches` and `remote_matches` compare
    /// the packet's destination and source. Any context.
    ///
    /// # Errors
    ///
    /// The reason to drop the packet: it arrived on no path.
    pub(crate) fn path_of(
        &self,
        ifindex: u32,
        local_matches: impl Fn(&PathEnds) -> bool,
        remote_matches: impl Fn(&PathEnds) -> bool,
    ) -> Result<usize, DropReason> {
        let mut reason = DropReason::WrongPath;
        for (i, ends) in (0..PATHS_MAX).zip(&self.identity.paths) {
            if ends.port.is_some() && !ends.is_over(ifindex) {
                continue;
            }
            if !local_matches(ends) {
                reason = DropReason::NotOurs;
            } else if !remote_matches(ends) {
                reason = DropReason::WrongSource;
            } else {
                return Ok(i);
            }
        }
        Err(reason)
    }

    /// Whether a path uses the device. Any context.
    pub(crate) fn uses_device(&self, ifindex: u32) -> bool {
        let mut paths = self.identity.paths.iter();
        paths.any(|ends| ends.is_over(ifindex))
    }

    /// Closes the paths whose device is gone. Without a path left the connection breaks. Process
    /// context.
    fn leave_devices(self: &Arc<Self>) {
        // Dropped last: then the device may go, and who waits for that finds the connection broken.
        let mut closed = [const { None }; PATHS_MAX];
        for ((i, ends), closed) in (0..PATHS_MAX).zip(&self.identity.paths).zip(&mut closed) {
            if ends.is_gone() {
                *closed = self.inner.lock().paths.close(i);
            }
        }
        if closed.iter().any(Option::is_some) && self.inner.lock().paths.closed() {
            self.break_off("the device was removed");
        }
    }

    /// Devices have gone, or changed their MTU: the connection breaks if that leaves it without a
    /// path for its packets. Process context.
    pub(crate) fn follow_devices(self: &Arc<Self>) {
        self.leave_devices();
        self.check_mtu();
    }

    /// Closes all paths and releases their devices. Nothing is sent any more. Process context.
    pub(crate) fn close_paths(&self) {
        for i in 0..self.identity.paths.len() {
            let path = self.inner.lock().paths.close(i);
            drop(path);
        }
    }

    /// A snapshot of the path at index `i`, for netlink.
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
