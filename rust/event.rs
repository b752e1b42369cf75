// SPDX-License-Identifier: GPL-2.0

//! Events: what programs that listen by netlink are told, and how often.

use crate::kapi::{
    net::Net,
    nl::{self, numbers::*, Message},
    timer,
};
use kernel::{
    prelude::*,
    sync::atomic::{Atomic, Relaxed},
};

/// State of a connection.
#[derive(Copy, Clone, PartialEq, Eq)]
pub(crate) enum ConnState {
    /// Configured: packets are accepted, local requests are not yet.
    Created = 0,
    /// Started.
    Established = 1,
    /// Soft shutdown: what was begun is completed, requests that wait go on waiting.
    Draining = 2,
    /// Both ends have drained. Only the peer's repetitions are answered; a reset keeps the requests
    /// that wait.
    Quiescent = 3,
    /// Given up [proto 3.14]; only a reset or removal helps.
    Broken = 4,
    /// Removed, or between two lives.
    Removed = 5,
}

impl ConnState {
    /// As a number of the netlink family.
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

/// A port's state as a number of the netlink family.
pub(crate) fn port_state(up: bool) -> u32 {
    if up {
        SUPERP_PORT_STATE_UP
    } else {
        SUPERP_PORT_STATE_DOWN
    }
}

/// Something that programs which listen are told.
pub(crate) enum Event {
    /// A connection was created or changed its state.
    Conn {
        local_cid: u16,
        remote_cid: u16,
        remote: [u8; 16],
        state: ConnState,
        /// Why, or "".
        cause: &'static str,
    },
    /// A connection was deleted.
    ConnDeleted { local_cid: u16, remote: [u8; 16] },
    /// A port was created, came up or went down.
    Port { ifindex: u32, up: bool },
    /// A port was deleted, or its device went away.
    PortDeleted { ifindex: u32 },
    /// What the protocol reports to the connection manager.
    Report {
        local_cid: u16,
        remote: [u8; 16],
        cause: &'static str,
        /// The offending value, the first that is in order, the first beyond.
        values: [u64; 3],
    },
    /// A remote access was refused.
    Violation {
        local_cid: u16,
        remote: [u8; 16],
        cause: &'static str,
        /// RMA address.
        address: u64,
        /// Bytes.
        length: u32,
    },
}

/// Limits what a peer can cause: reports and access violations of one node. The rest is counted and
/// told with the next one.
pub(crate) struct ReportLimit {
    period: Atomic<u64>,
    sent: Atomic<u32>,
    suppressed: Atomic<u32>,
}

/// Length of a period: 2^30 ns, about a second.
const PERIOD_SHIFT: u32 = 30;
/// Most reports in a period.
const REPORTS_MAX: u32 = 100;

impl ReportLimit {
    /// Nothing told yet.
    pub(crate) fn new() -> Self {
        Self {
            period: Atomic::new(0),
            sent: Atomic::new(0),
            suppressed: Atomic::new(0),
        }
    }

    /// Whether one more report may be told at `now` ns, and then how many were not since the last.
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

/// Tells an event to those who listen in a namespace; `limit` is the namespace's. Any context, also
/// with a connection locked: it does not sleep and takes no lock of ours. Next to free when nobody
/// listens.
pub(crate) fn notify(net: Net, limit: &ReportLimit, event: Event) {
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
    nl::event(net, |msg| {
        msg.put_uint(SUPERP_A_EVENT_TIME, now)?;
        if suppressed != 0 {
            msg.put_u32(SUPERP_A_EVENT_SUPPRESSED, suppressed)?;
        }
        put(msg, &event)
    });
}

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

fn put_conn(msg: &mut Message<'_>, local_cid: u16, remote: &[u8; 16]) -> Result {
    msg.put_u16(SUPERP_A_EVENT_LOCAL_CID, local_cid)?;
    msg.put(SUPERP_A_EVENT_REMOTE_ADDR, remote)
}
