// SPDX-License-Identifier: GPL-2.0 OR MIT
//! State of one connection, and all calls except those that receive or send packets.

mod lite;
mod receive;
mod transmit;

use super::config::{Extensions, MTU};
use super::pdl::{AckSchedule, PsnReuse, ReceiveWindow, SendWindow};
use super::tal::{Initiator, Target};
use super::{
    Barrier, BrokenCause, Code, Config, ConfigError, Event, ReplyPayload, ReplyRead, Report, ReqOp,
    Request, Slabs, State, Stats, SubmitError, Transmit,
};

/// Largest number of reports that wait for the owner. A packet causes at most two.
const REPORTS: usize = 4;

/// A SUPERp connection, both directions.
///
/// After every call that takes `&mut self`, or after a batch of received packets, the owner
///
/// 1. calls [`Self::poll_transmit`] until it returns `None`,
/// 2. calls [`Self::poll_event`] until it returns `None`,
/// 3. arms a timer for [`Self::deadline`]; when that expires, it calls [`Self::expire`].
///
/// Received packets go to [`Self::receive`] or [`Self::receive_run`], packets that were held to
/// [`Self::release`], and local requests to [`Self::submit`]. `now` and all other times are
/// nanoseconds of one monotonic clock.
///
/// The connection takes no lock; the owner serialises the calls. Only [`Self::new`] allocates. All
/// other calls are possible in any context.
pub struct Connection<A: Slabs> {
    config: Config,
    /// Size in bytes of the largest packet for new requests and replies, at most `config.mtu`.
    mtu: u32,
    state: State,
    stats: Stats,
    send: SendWindow<A>,
    receive: ReceiveWindow<A>,
    ack: AckSchedule,
    reuse: PsnReuse,
    initiator: Initiator<A>,
    target: Target<A>,
    /// The last new packet belonged to an answer. The next one belongs to a request, if one waits.
    last_was_answer: bool,
    /// Receive window to advertise, in packets.
    receive_window: u32,
    /// Receive window that was advertised last, in packets.
    advertised: u32,
    /// ACK PSN and SACK bitmap that were sent last, NACKs excluded.
    last_ack: (u32, u32),
    /// The last packet sent carried a NACK.
    last_was_nack: bool,
    /// Time since which packets wait for the send window; `None` if none waits.
    blocked_since: Option<u64>,
    /// Packets wait for the congestion window, as of the last call of [`Self::poll_transmit`].
    held_back: bool,
    /// The next packet to send is a probe.
    probe_due: bool,
    /// No probe was sent since the retransmission timer expired, so one may become due.
    may_probe: bool,
    /// Number of probes sent since the last received packet, and the time of the first of them.
    unanswered_probes: (u32, u64),
    reports: [Option<Report>; REPORTS],
    /// `reports` may have an entry.
    any_report: bool,
    /// Cause for `Event::Broken`, until the owner fetches it.
    broken: Option<BrokenCause>,
    /// `Event::Drained` was returned.
    drained_reported: bool,
    /// Time in ns at which the peer was asked whether it has extensions, until it answers.
    asked_at: Option<u64>,
    /// SUPERp-lite: XID of the answer that the last packet carried, until it counts as delivered.
    lite_answer: Option<u16>,
    /// Whether requests may use extensions. `None` until the peer's first packet arrives.
    ext: Option<bool>,
}

/// Why a connection could not be created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NewError {
    /// A parameter is outside its range.
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
    /// Creates a connection and allocates all its storage. Process context in the module: the
    /// allocation may sleep.
    ///
    /// # Errors
    ///
    /// [`NewError::Config`] names a value outside its range. [`NewError::NoMemory`]: an allocation
    /// failed.
    pub fn new(config: &Config, now: u64) -> Result<Self, NewError> {
        config.validate()?;
        Self::allocate(config, now).ok_or(NewError::NoMemory)
    }

    fn allocate(config: &Config, now: u64) -> Option<Self> {
        let window = config.pdl_window_size;
        let ext = match config.ext {
            Extensions::Off => Some(false),
            Extensions::On => Some(true),
            Extensions::Auto if config.lite => Some(false),
            Extensions::Auto => None,
        };
        let mut send = SendWindow::new(config, now)?;
        if ext == Some(true) {
            send.start_congestion();
        }
        let delay = config
            .pdl_delayed_ack_time
            .min(send.rtt().delayed_ack_max());
        Some(Self {
            mtu: config.mtu,
            state: State::Open,
            stats: Stats::default(),
            receive: ReceiveWindow::new(window, config.start_psn, config.ordered_rx)?,
            ack: AckSchedule::new(delay, config.pdl_ack_every, config.receive_window()),
            reuse: PsnReuse::default(),
            initiator: Initiator::new(config)?,
            target: Target::new(config)?,
            send,
            last_was_answer: false,
            receive_window: config.receive_window(),
            advertised: config.receive_window(),
            last_ack: (config.start_psn.wrapping_sub(1), 0),
            last_was_nack: false,
            blocked_since: None,
            held_back: false,
            probe_due: ext.is_none(),
            may_probe: false,
            unanswered_probes: (0, 0),
            reports: [None; REPORTS],
            any_report: false,
            broken: None,
            drained_reported: false,
            asked_at: None,
            lite_answer: None,
            ext,
            config: config.clone(),
        })
    }

    /// Starts a transaction and returns its XID. Every transaction that was started ends with
    /// exactly one `Event::Completed`.
    ///
    /// # Errors
    ///
    /// See [`SubmitError`]. After [`SubmitError::WindowFull`] an `Event::Writable` follows.
    pub fn submit(&mut self, now: u64, request: Request) -> Result<u16, SubmitError> {
        if !self.running() {
            return Err(SubmitError::Stopped);
        }
        match self.ext {
            None => {
                self.initiator.want_writable();
                return Err(SubmitError::WindowFull);
            }
            Some(false) if request.op.opcode().is_extension() => {
                return Err(SubmitError::NeedsExt);
            }
            _ => {}
        }
        let waiting = self.waiting();
        let xid = self.initiator.submit(now, request)?;
        if !waiting {
            self.send.progress(now);
        }
        self.stats.transactions = self.stats.transactions.wrapping_add(1);
        if self.initiator.shutting_down() {
            self.state = State::ShuttingDown;
        }
        Ok(xid)
    }

    /// Holds later requests back until all earlier transactions are complete [proto 4.12]. Until
    /// then `submit` refuses them with `WindowFull`. Afterwards `Event::Writable` follows.
    pub fn barrier(&mut self, barrier: Barrier) {
        self.initiator.barrier(barrier);
    }

    /// Limits the receive window that is advertised from now on to `packets`. An owner whose
    /// connections share a [`super::ReceiveBudget`] passes the connection's share.
    ///
    /// The advertised window remains between one packet and the configured window [proto 3.7].
    /// Packets that an earlier, larger window allowed are still accepted. If the window at least
    /// doubles, an ACK tells the peer within the delay of a delayed ACK.
    pub fn set_receive_limit(&mut self, now: u64, packets: u32) {
        let window = packets.min(self.config.receive_window()).max(1);
        self.receive_window = window;
        self.ack.set_window(window);
        if self.running() && window / 2 >= self.advertised {
            self.ack.soon(now);
        }
    }

    /// Sets the lane of the packets that [`Self::poll_transmit`] returns from now on. A lane is,
    /// for example, a CPU with a transmit queue of its own. Only the low three bits count.
    ///
    /// Packets of one lane stay in order on the way to the network; packets of different lanes may
    /// overtake one another. A packet is therefore not declared lost merely because later packets
    /// of other lanes arrived.
    pub fn set_lane(&mut self, lane: u8) {
        self.send.set_lane(lane);
    }

    /// Receive window that was advertised last, in packets.
    pub fn advertised_window(&self) -> u32 {
        self.advertised
    }

    /// Writes to `out` the headers of the packet that [`Self::poll_transmit`] returned last: Packet
    /// Delivery header (none for SUPERp-lite), Transaction header, operation headers. Returns their
    /// length in bytes, at most [`super::wire::HEADERS_MAX`], or `None` if they do not fit.
    ///
    /// For a request with several operations, `address(i)` returns the RMA address of operation `i`
    /// of the request; for `Send`, the key in the upper half and the offset in the lower one. For
    /// other packets it is not called. The owner appends the data blocks to the headers: for each
    /// operation its data and its padding.
    pub fn emit(
        &self,
        transmit: &Transmit,
        out: &mut [u8],
        address: impl FnMut(u32) -> u64,
    ) -> Option<usize> {
        transmit.emit(out, |reply| self.target.reply_reads(reply), address)
    }

    /// Returns the reads that a reply answers, one for each of its blocks. `reply` must be of the
    /// packet that [`Self::poll_transmit`] returned last.
    pub fn reply_reads(&self, reply: &ReplyPayload) -> impl Iterator<Item = ReplyRead> + '_ {
        self.target.reply_reads(reply)
    }

    /// Replaces the answer to the peer's read `xid` by a Transaction Error. The owner calls this if
    /// it can no longer fetch the data of a reply that [`Self::poll_transmit`] returned, and sends
    /// [`super::Transmit::without_payload`] in place of that packet.
    pub fn refuse_reply(&mut self, xid: u16, code: Code) {
        if self.target.refuse_reply(xid, code) {
            self.stats.refused = self.stats.refused.wrapping_add(1);
        }
    }

    /// Time in ns at which [`Self::expire`] must be called; `None` if no timer runs.
    pub fn deadline(&self) -> Option<u64> {
        if !self.running() {
            return None;
        }
        let never = u64::MAX;
        let send = match self.config.lite {
            true => never,
            false => self.send.deadline(self.waiting()).unwrap_or(never),
        };
        let ack = self.ack.due().unwrap_or(never);
        let transaction = self.initiator.deadline().map_or(never, |(at, _)| at);
        let refusal = self.target.refusal_due().unwrap_or(never);
        let pause = self.send.pause_end(self.held_back, self.receive.ack_psn());
        let pause = pause.filter(|_| !self.config.lite).unwrap_or(never);
        let first = send.min(ack).min(transaction).min(refusal).min(pause);
        (first != never).then_some(first)
    }

    /// Handles the timers that have expired at `now`. A call before [`Self::deadline`] has no
    /// effect.
    ///
    /// Breaks the connection if the oldest transaction is older than `tal_transaction_timeout`.
    pub fn expire(&mut self, now: u64) {
        if !self.running() {
            return;
        }
        if let Some((_, xid)) = self.initiator.deadline().filter(|&(at, _)| at <= now) {
            let cause = BrokenCause::TransactionTimeout { xid };
            return self.break_down(cause, Code::ABORTED_TIMEOUT);
        }
        if self.config.lite {
            return;
        }
        let (waiting, blocked) = (self.waiting(), self.blocked_since.is_some());
        if self.send.expire(now, waiting, blocked) {
            self.stats.timeouts = self.stats.timeouts.wrapping_add(1);
            self.probe_due |= self.send.data_outstanding() == 0;
            self.may_probe = true;
        }
        // `poll_transmit` sends an acknowledgement that is due.
    }

    /// Returns the next event. `Event::Broken` comes before all others.
    pub fn poll_event(&mut self) -> Option<Event> {
        if let Some(cause) = self.broken.take() {
            return Some(Event::Broken(cause));
        }
        if self.any_report {
            if let Some(report) = self.reports.iter_mut().find_map(Option::take) {
                return Some(Event::Report(report));
            }
            self.any_report = false;
        }
        if let Some(event) = self.initiator.poll_complete() {
            let counter = match event {
                Event::Completed { result: Ok(()), .. } => &mut self.stats.completed,
                _ => &mut self.stats.failed,
            };
            *counter = counter.wrapping_add(1);
            return Some(event);
        }
        if self.running() && self.ext.is_some() && self.initiator.take_writable() {
            return Some(Event::Writable);
        }
        if !self.drained_reported && self.initiator.drained() && self.target.drained() {
            self.drained_reported = true;
            return Some(Event::Drained);
        }
        None
    }

    /// Ends the connection at once. Transactions under way complete with `Code::ABORTED_STOPPED`.
    /// Nothing is sent or accepted any more.
    ///
    /// The owner drops held packets, and what it stored of the peer's unfinished transactions;
    /// [`super::Owner::aborted`] is not called. The same holds after `Event::Broken`.
    pub fn stop(&mut self) {
        if self.running() {
            self.state = State::Stopped;
            self.initiator.abort(Code::ABORTED_STOPPED);
        }
    }

    /// Returns the counters and the current round-trip estimate.
    pub fn stats(&self) -> Stats {
        let mut stats = self.stats;
        if !self.config.lite {
            let rtt = self.send.rtt();
            (stats.srtt, stats.rttvar, stats.rto) = (rtt.srtt(), rtt.rttvar(), rtt.rto());
        }
        stats
    }

    /// State of the connection.
    pub fn state(&self) -> State {
        self.state
    }

    /// Limits the packets of new requests and replies to `mtu` bytes, counted from the PDL header,
    /// for a path whose MTU has changed. The value is clamped to 128..=`config.mtu`.
    ///
    /// Requests and replies that were begun keep the length of their packets, because Seqno and
    /// Offset count in these. A message that must be one transaction, and would not fit one with
    /// shorter packets, keeps the original length, too [proto 2.8].
    pub fn set_mtu(&mut self, mtu: u32) {
        // CAST: `MTU.min` is 128.
        self.mtu = mtu.max(MTU.min as u32).min(self.config.mtu);
        let reduction = self.config.mtu.saturating_sub(self.mtu);
        self.initiator.reduce_mtu(reduction);
        self.target.reduce_mtu(reduction);
    }

    /// Size in bytes of the largest packet for new requests and replies.
    pub fn mtu(&self) -> u32 {
        self.mtu
    }

    /// Whether a packet of the peer has been accepted. Until then an unresponsive peer does not
    /// break the connection [proto 3.14]. Always true for SUPERp-lite, which does not retransmit.
    pub fn heard(&self) -> bool {
        self.config.lite || self.send.heard()
    }

    /// Whether requests may use extensions. With [`Extensions::Auto`] this is `None` until the
    /// peer's first packet arrives, and `submit` refuses everything with `WindowFull`.
    pub fn ext(&self) -> Option<bool> {
        self.ext
    }

    /// The configuration that the connection was created with.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Whether nothing is under way: no local transaction, no answer to send, no unacknowledged
    /// packet with content, and no acknowledgement to send.
    pub fn idle(&self) -> bool {
        let sending = self.target.has_packet()
            || self.send.data_outstanding() > 0
            || self.ack.due().is_some();
        self.initiator.idle() && !(self.running() && sending)
    }

    /// Number of local transactions under way.
    pub fn inflight_transactions(&self) -> u32 {
        self.initiator.open()
    }

    /// Lowest PSN that the peer has not acknowledged. If it moves, the path works in both
    /// directions.
    pub fn unacked_psn(&self) -> u32 {
        self.send.unacked_spsn()
    }

    /// Number of refusals so far that answer guesses of the peer. The owner may break the
    /// connection if there are too many (`tal_max_refusals`).
    pub fn refusals(&self) -> u32 {
        self.target.refusals()
    }

    /// Number of packets sent and not acknowledged. Pure ACKs may stay unacknowledged for ever.
    pub fn inflight_packets(&self) -> u32 {
        self.send.outstanding()
    }

    /// Number of packets with content that are in flight: neither acknowledged nor lost. 0 if there
    /// is no congestion window.
    pub fn inflight_data(&self) -> u32 {
        self.send.pipe()
    }

    /// Largest number of packets with content that may be in flight, at least 1. `None` if there is
    /// no congestion window.
    pub fn congestion_window(&self) -> Option<u32> {
        self.send.congestion_window()
    }

    /// Size of a table of the owner that is indexed by XID modulo this size.
    pub fn xid_slots(&self) -> usize {
        self.initiator.slot_count()
    }

    /// Size of the owner's table of held packets, which is indexed by PSN modulo this size.
    /// `Received::Held` and [`Self::next_release`] return its indices.
    pub fn psn_slots(&self) -> usize {
        self.send.slot_count()
    }

    /// Largest length in bytes of a request with this operation and `count` 1.
    pub fn max_request_len(&self, op: &ReqOp) -> u64 {
        self.initiator.max_len(op)
    }

    /// Number of operations of `len` bytes each that fit one packet, at most `tal_max_ops_per_pkt`.
    /// For reads the reply must also fit one transaction. The result is 0 if not even one operation
    /// fits, and 1 for operations that cannot share a packet.
    pub fn per_packet(&self, op: &ReqOp, len: u32) -> u32 {
        self.initiator.per_packet(op, len)
    }

    /// Whether a request submitted now gets a slot in the transaction window, and its packets would
    /// not queue behind other requests for a full send window.
    ///
    /// An owner that submits only while this is true can pack the requests that collect meanwhile.
    /// It asks again after each call that changes the connection.
    pub fn ready(&mut self) -> bool {
        self.ext.is_some()
            && self.initiator.has_slot()
            && (self.config.lite
                || !self.initiator.has_packet()
                || self.send.has_room(self.receive.ack_psn()))
    }

    /// Smallest length in bytes of each operation of a request with this operation.
    pub fn min_request_len(&self, op: &ReqOp) -> u32 {
        self.initiator.min_len(op)
    }

    /// Whether the connection sends and accepts packets.
    fn running(&self) -> bool {
        matches!(self.state, State::Open | State::ShuttingDown)
    }

    /// Whether this end waits for the peer even if no packet with content is in flight: for an
    /// answer, an ACK XID, a larger window, or the announcement of extensions.
    ///
    /// The peer may have sent that in a pure ACK. A lost pure ACK is not retransmitted. The
    /// retransmission timer therefore runs while this is true, and a probe follows its expiry.
    fn waiting(&self) -> bool {
        self.initiator.waiting() || self.blocked_since.is_some() || self.ext.is_none()
    }

    /// Queues a report for the owner, or counts it as lost if the queue is full.
    fn report(&mut self, report: Report) {
        match self.reports.iter_mut().find(|slot| slot.is_none()) {
            Some(slot) => {
                *slot = Some(report);
                self.any_report = true;
            }
            None => self.stats.reports_lost = self.stats.reports_lost.wrapping_add(1),
        }
    }

    /// Ends the connection because of the peer. Transactions under way complete with `code`.
    fn break_down(&mut self, cause: BrokenCause, code: Code) {
        self.state = State::Broken;
        self.broken = Some(cause);
        self.initiator.abort(code);
    }
}

#[cfg(test)]
mod tests;
