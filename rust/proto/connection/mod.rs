// SPDX-License-Identifier: GPL-2.0 OR MIT
//! One connection.

use super::{
    Barrier, Code, Config, ConfigError, Event, Owner, Packet, Received, ReqOp, Request, Slabs,
    State, Stats, SubmitError, Transmit,
};

/// One SUPERp connection, both directions.
///
/// Contract: after every call that takes `&mut self`, and in particular at the end of a batch of
/// received packets, call [`Self::poll_transmit`] until it gives `None` and [`Self::poll_event`] until
/// it gives `None`, then arm a timer for [`Self::deadline`] and call [`Self::expire`] when it is
/// reached. Times are nanoseconds of one monotonic clock.
pub struct Connection<A: Slabs> {
    config: Config,
    stats: Stats,
    state: State,
    marker: core::marker::PhantomData<A>,
}

/// Why a connection could not be created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NewError {
    /// A parameter is out of range.
    Config(ConfigError),
    /// No memory for the windows.
    NoMemory,
}

impl From<ConfigError> for NewError {
    fn from(error: ConfigError) -> Self {
        Self::Config(error)
    }
}

impl<A: Slabs> Connection<A> {
    /// Creates a connection, and all the storage it will ever use.
    pub fn new(config: &Config, now: u64) -> Result<Self, NewError> {
        config.validate()?;
        let _ = now;
        Ok(Self {
            config: config.clone(),
            stats: Stats::default(),
            state: State::Stopped,
            marker: core::marker::PhantomData,
        })
    }

    /// Starts a transaction; returns its XID.
    ///
    /// Every transaction that is taken gives exactly one `Event::Completed`, whatever happens.
    pub fn submit(&mut self, now: u64, request: Request) -> Result<u16, SubmitError> {
        let _ = (now, request);
        Err(SubmitError::Stopped)
    }

    /// Holds later requests back until all transactions so far are complete [proto 4.12]: `submit`
    /// refuses them with `WindowFull`, and `Event::Writable` follows.
    pub fn barrier(&mut self, barrier: Barrier) {
        let _ = barrier;
    }

    /// Takes a packet that came for this connection.
    ///
    /// After `Delivered`, call [`Self::next_release`] until it gives `None`.
    pub fn receive<O: Owner>(&mut self, now: u64, packet: &Packet<'_>, owner: &mut O) -> Received {
        let _ = (now, packet, owner);
        Received::Dropped(super::DropReason::NotRunning)
    }

    /// The slot of the next held packet that is in order now; give it to [`Self::release`].
    pub fn next_release(&mut self) -> Option<usize> {
        None
    }

    /// Delivers a packet that was held.
    pub fn release<O: Owner>(&mut self, now: u64, packet: &Packet<'_>, owner: &mut O) -> Received {
        let _ = (now, packet, owner);
        Received::Dropped(super::DropReason::NotRunning)
    }

    /// The next packet to send. Once returned it counts as sent.
    pub fn poll_transmit(&mut self, now: u64) -> Option<Transmit> {
        let _ = now;
        None
    }

    /// Turns the answer to read `xid` of the peer into a Transaction Error: the data of a reply that
    /// [`Self::poll_transmit`] gave cannot be fetched any more. The owner sends that one packet
    /// [`Transmit::without_payload`].
    pub fn refuse_reply(&mut self, xid: u16, code: Code) {
        let _ = (xid, code);
    }

    /// When [`Self::expire`] wants to be called; `None` for never.
    pub fn deadline(&self) -> Option<u64> {
        None
    }

    /// Does what is due at `now`; harmless when called too early.
    pub fn expire(&mut self, now: u64) {
        let _ = now;
    }

    /// The next thing the owner must know.
    pub fn poll_event(&mut self) -> Option<Event> {
        None
    }

    /// Ends the connection at once. Transactions under way complete with `Code::ABORTED_STOPPED`;
    /// nothing is sent or accepted any more.
    pub fn stop(&mut self) {
        self.state = State::Stopped;
    }

    /// Counters.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// State.
    pub fn state(&self) -> State {
        self.state
    }

    /// What the connection was created with.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Nothing is under way: no transaction of either end, no packet or acknowledgement to send.
    pub fn idle(&self) -> bool {
        true
    }

    /// Transactions of this end that are under way.
    pub fn inflight_transactions(&self) -> u32 {
        0
    }

    /// Packets sent and not acknowledged.
    pub fn inflight_packets(&self) -> u32 {
        0
    }

    /// Size of a table indexed by XID modulo size.
    pub fn xid_slots(&self) -> usize {
        self.config.tal_trans_window as usize
    }

    /// Size of a table indexed by PSN modulo size, which is what `Received::Held` names slots of.
    pub fn psn_slots(&self) -> usize {
        self.config.pdl_window_size as usize
    }

    /// Most bytes that one transaction of this kind carries, with `count` 1.
    pub fn max_request_len(&self, op: &ReqOp) -> u64 {
        let _ = op;
        0
    }
}
