// SPDX-License-Identifier: GPL-2.0

//! Events for programs that listen by netlink, and the limit of their number.

use crate::kapi::{
    net::Net,
    nl::{self, numbers::*, Message},
    timer,
};
use kernel::{
    prelude::*,
    sync::atomic::{Atomic, Relaxed},
};

/// State of a connection. Packets are accepted in all states but `Broken` and `Removed`.
#[derive(Copy, Clone, PartialEq, Eq)]
pub(crate) enum ConnState {
    /// Packets are accepted, requests are refused. After the reset of a drained connection,
    /// requests wait instead. `Conn::start` goes on to `Established`.
    Created = 0,
    /// Requests are executed. `Conn::shut_down` goes on to `Draining`.
    Established = 1,
    /// Soft shutdown: requests that have started are completed, others wait. When both ends have
    /// sent their Last NULL, the connection becomes `Quiescent`.
    Draining = 2,
    /// Both ends have drained. Only packets that the peer repeats are answered. `Conn::restart`
    /// goes on to `Created` and keeps the requests that wait.
    Quiescent = 3,
    /// `Conn::broken` sets it: the peer does not answer [proto 3.14], a transaction timed out, or
    /// no path is left that carries the packets. Only a reset or a removal ends this state.
    Broken = 4,
    /// `Conn::end_life` sets it: no request and no packet is accepted. In a reset `Conn::restart`
    /// goes on to `Created`. After a removal it stays.
    Removed = 5,
}

impl ConnState {
    /// The number of the state in the netlink family.
    pub(crate) fn number(self) -> u32 {
        match self {
            ConnState::Created => SUPERP_CONN_STATE_CREATED,
            ConnState::Established => SUPERP_CONN_STATE_ESTABLISHED,
            ConnState::Draining => SUPERP_CONN_STATE_DRAINING,
            ConnState::Quiescent | ConnState::Removed => SUPERP_CONN_STATE_STOPPED,
            ConnState::Broken => SUPERP_CONN_STATE_BROKEN,
        }
    }
}

/// The number of a port's state in the netlink family.
pub(crate) fn port_state(up: bool) -> u32 {
    if up {
        SUPERP_PORT_STATE_UP
    } else {
        SUPERP_PORT_STATE_DOWN
    }
}

/// An event for programs that listen.
pub(crate) enum Event {
    /// A connection was created or has changed its state.
    Conn {
        local_cid: u16,
        remote_cid: u16,
        remote: [u8; 16],
        state: ConnState,
        /// Why it broke, or "".
        cause: &'static str,
    },
    /// A connection was deleted.
    ConnDeleted { local_cid: u16, remote: [u8; 16] },
    /// A port was created, or its device came up or went down.
    Port { ifindex: u32, up: bool },
    /// A port was deleted, or its device was unregistered.
    PortDeleted { ifindex: u32 },
    /// A report of the protocol to the connection manager.
    Report {
        local_cid: u16,
        remote: [u8; 16],
        cause: &'static str,
        /// The offending value, the lowest one that is valid, and the first one above that is not.
        values: [u64; 3],
    },
    /// The access of a peer was refused.
    Violation {
        local_cid: u16,
        remote: [u8; 16],
        cause: &'static str,
        /// RMA address.
        address: u64,
        /// In bytes.
        length: u32,
    },
}

/// Limits the events that a peer can cause, which are reports and access violations of one node.
/// Events over the limit are counted, and the count is part of the next event.
pub(crate) struct ReportLimit {
    /// Number of the current period.
    period: Atomic<u64>,
    /// Events of the current period, those over the limit included.
    sent: Atomic<u32>,
    /// Events over the limit since the last event.
    suppressed: Atomic<u32>,
}

/// Length of a period, 2^30 ns: about a second.
const PERIOD_SHIFT: u32 = 30;
/// Largest number of events in a period.
const REPORTS_MAX: u32 = 100;

impl ReportLimit {
    /// Returns a limit without events so far.
    pub(crate) fn new() -> Self {
        Self {
            period: Atomic::new(0),
            sent: Atomic::new(0),
            suppressed: Atomic::new(0),
        }
    }

    /// Counts an event at `now` ns. Returns `None` if it is over the limit, else the number of
    /// events that were suppressed since the last one.
    fn admit(&self, now: u64) -> Option<u32> {
        let period = now >> PERIOD_SHIFT;
        if self.period.xchg(period, Relaxed) != period {
            self.sent.store(0, Relaxed);
        }
        if self.sent.fetch_add(1, Relaxed) < REPORTS_MAX {
            Some(self.suppressed.xchg(0, Relaxed))
        } else {
            self.suppressed.add(1, Relaxed);
            None
        }
    }
}

/// Sends an event to those who listen in a namespace. `limit` is that of its node. Costs next to
/// nothing if nobody listens. Any context up to softirq. A connection's lock may be held: this does
/// not sleep and takes no lock of the module.
pub(crate) fn notify(net: &Net, limit: &ReportLimit, event: Event) {
    if !nl::event_wanted(net) {
        return;
    }
    let now = timer::now();
    let suppressed = match event {
        Event::Report { .. } | Event::Violation { .. } => match limit.admit(now) {
            Some(suppressed) => suppressed,
            None => return,
        },
        _ => 0,
    };
    // CAST: The number of a command is 8 bits.
    nl::event(net, SUPERP_CMD_EVENT_NTF as u8, |msg| {
        msg.put_uint(SUPERP_A_EVENT_TIME, now)?;
        if suppressed != 0 {
            msg.put_u32(SUPERP_A_EVENT_SUPPRESSED, suppressed)?;
        }
        put(msg, &event)
    });
}

/// Puts the attributes of an event into `msg`.
fn put(msg: &mut Message<'_>, event: &Event) -> Result {
    match *event {
        Event::Conn {
            local_cid,
            remote_cid,
            ref remote,
            state,
            cause,
        } => {
            msg.put_u32(SUPERP_A_EVENT_KIND, SUPERP_EVENT_KIND_CONN_STATE)?;
            put_conn(msg, local_cid, remote)?;
            msg.put_u16(SUPERP_A_EVENT_REMOTE_CID, remote_cid)?;
            msg.put_u32(SUPERP_A_EVENT_CONN_STATE, state.number())?;
            if !cause.is_empty() {
                msg.put_text(SUPERP_A_EVENT_CAUSE, cause)?;
            }
            Ok(())
        }
        Event::ConnDeleted {
            local_cid,
            ref remote,
        } => {
            msg.put_u32(SUPERP_A_EVENT_KIND, SUPERP_EVENT_KIND_CONN_DELETED)?;
            put_conn(msg, local_cid, remote)
        }
        Event::Port { ifindex, up } => {
            msg.put_u32(SUPERP_A_EVENT_KIND, SUPERP_EVENT_KIND_PORT_STATE)?;
            msg.put_u32(SUPERP_A_EVENT_IFINDEX, ifindex)?;
            msg.put_u32(SUPERP_A_EVENT_PORT_STATE, port_state(up))
        }
        Event::PortDeleted { ifindex } => {
            msg.put_u32(SUPERP_A_EVENT_KIND, SUPERP_EVENT_KIND_PORT_DELETED)?;
            msg.put_u32(SUPERP_A_EVENT_IFINDEX, ifindex)
        }
        Event::Report {
            local_cid,
            ref remote,
            cause,
            values: [value, low, high],
        } => {
            msg.put_u32(SUPERP_A_EVENT_KIND, SUPERP_EVENT_KIND_REPORT)?;
            put_conn(msg, local_cid, remote)?;
            msg.put_text(SUPERP_A_EVENT_CAUSE, cause)?;
            msg.put_uint(SUPERP_A_EVENT_VALUE, value)?;
            msg.put_uint(SUPERP_A_EVENT_LOW, low)?;
            msg.put_uint(SUPERP_A_EVENT_HIGH, high)
        }
        Event::Violation {
            local_cid,
            ref remote,
            cause,
            address,
            length,
        } => {
            msg.put_u32(SUPERP_A_EVENT_KIND, SUPERP_EVENT_KIND_ACCESS_VIOLATION)?;
            put_conn(msg, local_cid, remote)?;
            msg.put_text(SUPERP_A_EVENT_CAUSE, cause)?;
            msg.put_uint(SUPERP_A_EVENT_ADDRESS, address)?;
            msg.put_u32(SUPERP_A_EVENT_LENGTH, length)
        }
    }
}

/// Puts the local id and the remote address of a connection into `msg`.
fn put_conn(msg: &mut Message<'_>, local_cid: u16, remote: &[u8; 16]) -> Result {
    msg.put_u16(SUPERP_A_EVENT_LOCAL_CID, local_cid)?;
    msg.put(SUPERP_A_EVENT_REMOTE_ADDR, remote)
}
