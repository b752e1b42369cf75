// SPDX-License-Identifier: GPL-2.0 OR MIT
//! One connection.

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

/// Reports kept until the owner fetches them. A packet causes one or two.
const REPORTS: usize = 4;

/// One SUPERp connection, both directions.
///
/// Contract: after every call that takes `&mut self`, and in particular at the end of a batch of
/// received packets, call [`Self::poll_transmit`] until it gives `None` and [`Self::poll_event`] until
/// it gives `None`, then arm a timer for [`Self::deadline`] and call [`Self::expire`] when it is
/// reached. Times are nanoseconds of one monotonic clock.
pub struct Connection<A: Slabs> {
    config: Config,
    /// Bytes of a packet that the path takes now.
    mtu: u32,
    state: State,
    stats: Stats,
    send: SendWindow<A>,
    receive: ReceiveWindow<A>,
    ack: AckSchedule,
    reuse: PsnReuse,
    initiator: Initiator<A>,
    target: Target<A>,
    /// The last new packet was one of a reply, so the next is one of a request if there is one.
    answered_last: bool,
    /// The receive window to advertise, and the one that was advertised last, in packets.
    receive_window: u32,
    advertised: u32,
    /// ACK PSN and SACK bitmap last sent, other than in a NACK.
    told: (u32, u32),
    /// The last packet sent carried a NACK.
    nacked: bool,
    /// Something waits for room in the send window, since this time.
    blocked: Option<u64>,
    /// The peer is to be asked for an acknowledgement.
    probe: bool,
    /// It has not been since the retransmission timer expired.
    may_probe: bool,
    /// Probes sent since a packet came, and when the first of them was.
    unanswered: (u32, u64),
    reports: [Option<Report>; REPORTS],
    /// Whether there may be one.
    any_report: bool,
    broken: Option<BrokenCause>,
    drained_told: bool,
    /// SUPERp-lite: the transaction that the packet sent last was an answer to.
    answered: Option<u16>,
    /// Whether the extensions are used; `None` until the peer has said whether it has them.
    ext: Option<bool>,
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
        let send = SendWindow::new(config, now)?;
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
            answered_last: false,
            receive_window: config.receive_window(),
            advertised: config.receive_window(),
            told: (config.start_psn.wrapping_sub(1), 0),
            nacked: false,
            blocked: None,
            probe: ext.is_none(),
            may_probe: false,
            unanswered: (0, 0),
            reports: [None; REPORTS],
            any_report: false,
            broken: None,
            drained_told: false,
            answered: None,
            ext,
            config: config.clone(),
        })
    }

    /// Starts a transaction; returns its XID.
    ///
    /// Every transaction that is taken gives exactly one `Event::Completed`, whatever happens.
    pub fn submit(&mut self, now: u64, request: Request) -> Result<u16, SubmitError> {
        if !self.running() {
            return Err(SubmitError::Stopped);
        }
        match self.ext {
            None => {
                self.initiator.wants_room();
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

    /// Holds later requests back until all transactions so far are complete [proto 4.12]: `submit`
    /// refuses them with `WindowFull`, and `Event::Writable` follows.
    pub fn barrier(&mut self, barrier: Barrier) {
        self.initiator.barrier(barrier);
    }

    /// Limits the receive window that is advertised from now on to `packets`, for an owner whose
    /// connections share what the node can take in, see [`super::ReceiveBudget`]. It remains between
    /// one packet and what was configured [proto 3.7]. Packets that the peer was allowed to send
    /// before are accepted. When the window has at least doubled, the peer is told soon.
    pub fn set_receive_limit(&mut self, now: u64, packets: u32) {
        let window = packets.min(self.config.receive_window()).max(1);
        self.receive_window = window;
        self.ack.set_window(window);
        if self.running() && window / 2 >= self.advertised {
            self.ack.soon(now);
        }
    }

    /// The packets that [`Self::poll_transmit`] gives from now on leave by `lane`: a CPU with a queue of its
    /// own, for instance. Packets of one lane keep their order up to the network, and those of different
    /// lanes do not, so that one is not taken for lost merely because others got by. Lanes are told apart
    /// by their low three bits.
    pub fn set_lane(&mut self, lane: u8) {
        self.send.set_lane(lane);
    }

    /// The receive window that was advertised last, in packets.
    pub fn advertised_window(&self) -> u32 {
        self.advertised
    }

    /// Writes the Packet Delivery (but for SUPERp-lite), Transaction and operation headers of the packet that
    /// [`Self::poll_transmit`] gave last to `out`, at most [`super::wire::HEADERS_MAX`] bytes; returns their
    /// length, or `None` when they do not fit.
    ///
    /// `address` gives the RMA address of operation `first_op + index` of a request with more than
    /// one operation (for `Send`: key in the upper half, offset in the lower); it is not called for
    /// others. The data blocks follow the headers: for each operation its data and its padding.
    pub fn emit(
        &self,
        transmit: &Transmit,
        out: &mut [u8],
        address: impl FnMut(u32) -> u64,
    ) -> Option<usize> {
        transmit.emit(out, |reply| self.target.reply_reads(reply), address)
    }

    /// The reads that a reply answers, one for each of its blocks: in the packet that
    /// [`Self::poll_transmit`] gave last.
    pub fn reply_reads(&self, reply: &ReplyPayload) -> impl Iterator<Item = ReplyRead> + '_ {
        self.target.reply_reads(reply)
    }

    /// Turns the answer to read `xid` of the peer into a Transaction Error: the data of a reply that
    /// [`Self::poll_transmit`] gave cannot be fetched any more. The owner sends that one packet
    /// [`super::Transmit::without_payload`].
    pub fn refuse_reply(&mut self, xid: u16, code: Code) {
        if self.target.refuse_reply(xid, code) {
            self.stats.refused = self.stats.refused.wrapping_add(1);
        }
    }

    /// When [`Self::expire`] wants to be called; `None` for never.
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
        let first = send.min(ack).min(transaction);
        (first != never).then_some(first)
    }

    /// Does what is due at `now`; harmless when called too early.
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
        let (waiting, blocked) = (self.waiting(), self.blocked.is_some());
        if self.send.expire(now, waiting, blocked) {
            self.stats.timeouts = self.stats.timeouts.wrapping_add(1);
            self.probe |= self.send.data_outstanding() == 0;
            self.may_probe = true;
        }
        // An acknowledgement that is due is sent by poll_transmit.
    }

    /// The next thing the owner must know.
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
        if self.running() && self.ext.is_some() && self.initiator.take_room() {
            return Some(Event::Writable);
        }
        if !self.drained_told && self.initiator.drained() && self.target.drained() {
            self.drained_told = true;
            return Some(Event::Drained);
        }
        None
    }

    /// Ends the connection at once. Transactions under way complete with `Code::ABORTED_STOPPED`;
    /// nothing is sent or accepted any more. Here as when a connection breaks, what the owner keeps of
    /// the peer's unfinished transactions and of held packets is for the owner to drop.
    pub fn stop(&mut self) {
        if self.running() {
            self.state = State::Stopped;
            self.initiator.abort(Code::ABORTED_STOPPED);
        }
    }

    /// Counters.
    pub fn stats(&self) -> Stats {
        let mut stats = self.stats;
        if !self.config.lite {
            let rtt = self.send.rtt();
            (stats.srtt, stats.rttvar, stats.rto) = (rtt.srtt(), rtt.rttvar(), rtt.rto());
        }
        stats
    }

    /// State.
    pub fn state(&self) -> State {
        self.state
    }

    /// Cuts what is begun from now on into packets of `mtu` bytes at most, from the PDL header on, for a path that
    /// takes no longer ones any more; at most what the connection was created with. What was begun keeps its
    /// packets, and so does a message that would not be one transaction [proto 2.8].
    pub fn set_mtu(&mut self, mtu: u32) {
        // CAST: 128.
        self.mtu = mtu.max(MTU.min as u32).min(self.config.mtu);
        let less = self.config.mtu.saturating_sub(self.mtu);
        self.initiator.shorten(less);
        self.target.shorten(less);
    }

    /// Bytes of the longest packet that is made now.
    pub fn mtu(&self) -> u32 {
        self.mtu
    }

    /// Whether a packet of the peer has been accepted. Until then the connection does not break because
    /// nobody answers [proto 3.14]. Always, of SUPERp-lite, which cannot send again.
    pub fn heard(&self) -> bool {
        self.config.lite || self.send.heard()
    }

    /// Whether the extensions are used; `None` until the peer has said whether it has them, which only
    /// [`Extensions::Auto`] waits for. Until then `submit` refuses everything with `WindowFull`.
    pub fn ext(&self) -> Option<bool> {
        self.ext
    }

    /// What the connection was created with.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Nothing is under way: no transaction of this end, no answer to the peer, no packet that asks
    /// for an acknowledgement, and none to acknowledge.
    pub fn idle(&self) -> bool {
        let sending = self.target.has_packet()
            || self.send.data_outstanding() > 0
            || self.ack.due().is_some();
        self.initiator.idle() && !(self.running() && sending)
    }

    /// Transactions of this end that are under way.
    pub fn inflight_transactions(&self) -> u32 {
        self.initiator.open()
    }

    /// Lowest PSN that the peer has not acknowledged. When it moves, the path works both ways.
    pub fn unacked_psn(&self) -> u32 {
        self.send.unacked_spsn()
    }

    /// Packets sent and not acknowledged; pure ACKs may remain so for ever.
    pub fn inflight_packets(&self) -> u32 {
        self.send.outstanding()
    }

    /// Size of a table indexed by XID modulo size.
    pub fn xid_slots(&self) -> usize {
        self.initiator.slot_count()
    }

    /// Size of a table indexed by PSN modulo size, which is what `Received::Held` names slots of.
    pub fn psn_slots(&self) -> usize {
        self.send.slot_count()
    }

    /// Most bytes that one transaction of this kind carries, with `count` 1.
    pub fn max_request_len(&self, op: &ReqOp) -> u64 {
        self.initiator.max_len(op)
    }

    /// Operations of `len` bytes each, up to `tal_max_ops_per_pkt`, that one packet takes, and for reads
    /// also one packet of the answer; 0 if not even one fits, 1 for kinds that are always alone.
    pub fn per_packet(&self, op: &ReqOp, len: u32) -> u32 {
        self.initiator.per_packet(op, len)
    }

    /// Whether a request submitted now has a slot, and its packets would not wait for room in the send
    /// window behind others of this end. An owner that submits only then can pack what gathers
    /// meanwhile; it tries again after each call that changes the connection.
    pub fn ready(&mut self) -> bool {
        self.ext.is_some()
            && self.initiator.has_slot()
            && (self.config.lite
                || !self.initiator.has_packet()
                || self.send.has_room(self.receive.ack_psn()))
    }

    /// Least bytes of each operation of a request of this kind.
    pub fn min_request_len(&self, op: &ReqOp) -> u32 {
        self.initiator.min_len(op)
    }

    fn running(&self) -> bool {
        matches!(self.state, State::Open | State::ShuttingDown)
    }

    /// The peer owes something even if no packet in flight asks for an acknowledgement: the answer to
    /// a transaction, an ACK XID, room in the window, or what it says of the extensions.
    ///
    /// What it owes may have travelled in a pure ACK, which nobody sends again when it is lost. So the
    /// retransmission timer runs, and when it expires the peer is probed.
    fn waiting(&self) -> bool {
        self.initiator.waiting() || self.blocked.is_some() || self.ext.is_none()
    }

    fn report(&mut self, report: Report) {
        match self.reports.iter_mut().find(|slot| slot.is_none()) {
            Some(slot) => {
                *slot = Some(report);
                self.any_report = true;
            }
            None => self.stats.reports_lost = self.stats.reports_lost.wrapping_add(1),
        }
    }

    fn break_down(&mut self, cause: BrokenCause, code: Code) {
        self.state = State::Broken;
        self.broken = Some(cause);
        self.initiator.abort(code);
    }
}

#[cfg(test)]
mod tests;
