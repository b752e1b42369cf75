// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Events: what the kernel tells without being asked.

use crate::object::{enumeration, ConnState, Object, PortState};
use crate::transport::Transport;
use crate::uapi::{self, cmd, event};
use crate::{Error, Result};
use serde::ser::{Serialize, Serializer};
use std::{collections::VecDeque, fmt, net::IpAddr};

enumeration! {
    /// What an event tells.
    EventKind: event_kind {
        /// A connection was created or changed its state.
        ConnState = CONN_STATE,
        /// A connection was deleted.
        ConnDeleted = CONN_DELETED,
        /// A port was created, came up or went down.
        PortState = PORT_STATE,
        /// A port was deleted.
        PortDeleted = PORT_DELETED,
        /// What the protocol reports to the connection manager.
        Report = REPORT,
        /// A remote access was refused.
        AccessViolation = ACCESS_VIOLATION,
    }
}

/// Something that happened. What does not apply to its kind is `None`.
#[derive(Clone, Debug, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Event {
    /// What it tells.
    pub kind: EventKind,
    /// CLOCK_MONOTONIC, ns.
    pub time: u64,
    /// Connection, its id here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub local_cid: Option<u16>,
    /// Its id at the peer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remote_cid: Option<u16>,
    /// The peer's address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remote_addr: Option<IpAddr>,
    /// State of the connection now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conn_state: Option<ConnState>,
    /// Device of the port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ifindex: Option<u32>,
    /// State of the port now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port_state: Option<PortState>,
    /// What happened.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// The offending value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<u64>,
    /// First value that would have been in order.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub low: Option<u64>,
    /// First value after `low` that would not have been.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub high: Option<u64>,
    /// RMA address of a refused access.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<u64>,
    /// Bytes of a refused access.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub length: Option<u32>,
    /// Reports not told since the last one, because there were too many.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suppressed: Option<u32>,
}

impl Event {
    fn read(o: Object<'_>) -> Option<Self> {
        Some(Self {
            kind: o.int(event::KIND).and_then(EventKind::from_number)?,
            time: o.int(event::TIME)?,
            local_cid: o.int(event::LOCAL_CID),
            remote_cid: o.int(event::REMOTE_CID),
            remote_addr: o.addr(event::REMOTE_ADDR),
            conn_state: o.int(event::CONN_STATE).and_then(ConnState::from_number),
            ifindex: o.int(event::IFINDEX),
            port_state: o.int(event::PORT_STATE).and_then(PortState::from_number),
            cause: o.text(event::CAUSE),
            value: o.int(event::VALUE),
            low: o.int(event::LOW),
            high: o.int(event::HIGH),
            address: o.int(event::ADDRESS),
            length: o.int(event::LENGTH),
            suppressed: o.int(event::SUPPRESSED),
        })
    }
}

/// The events of the network namespace in which it was opened, from then on. The iterator waits for
/// the next one and never ends by itself.
///
/// An error `ENOBUFS` ([`Error::errno`]) means that events were lost because they were not read
/// fast enough; the next call goes on behind them.
pub struct Events {
    transport: Transport,
    ready: VecDeque<Event>,
}

impl Events {
    /// Starts to listen. Needs `CAP_NET_ADMIN`: a refused access may name a region's key.
    pub fn open() -> Result<Self> {
        let mut transport = Transport::open()?;
        transport.join()?;
        Ok(Self {
            transport,
            ready: VecDeque::new(),
        })
    }
}

impl Iterator for Events {
    type Item = Result<Event, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(Ok(event));
            }
            let ready = &mut self.ready;
            let waited = self.transport.wait(|command, attrs| {
                if command == cmd::EVENT_NTF {
                    // Kinds of a newer kernel are passed over.
                    ready.extend(Event::read(Object(attrs)));
                }
            });
            if let Err(error) = waited {
                return Some(Err(error));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::{Attrs, Writer, GENERIC_HEADER, HEADER};

    #[test]
    fn event_reads_what_it_has_and_leaves_out_the_rest() {
        let mut writer = Writer::new(0, 0, 0, 0);
        writer.put_u32(event::KIND, uapi::event_kind::REPORT);
        writer.put_uint(event::TIME, 12_345_678_901);
        writer.put_u16(event::LOCAL_CID, 64);
        writer.put_text(event::CAUSE, "ack_out_of_window");
        writer.put_uint(event::VALUE, 7);
        let bytes = writer.finish().unwrap();
        let event = Event::read(Object(Attrs(&bytes[HEADER + GENERIC_HEADER..]))).unwrap();
        assert_eq!(event.kind, EventKind::Report);
        assert_eq!(event.time, 12_345_678_901);
        assert_eq!(event.local_cid, Some(64));
        assert_eq!(event.cause.as_deref(), Some("ack_out_of_window"));
        assert_eq!((event.value, event.low), (Some(7), None));
        assert_eq!(event.ifindex, None);
    }

    #[test]
    fn event_of_unknown_kind_is_passed_over() {
        let mut writer = Writer::new(0, 0, 0, 0);
        writer.put_u32(event::KIND, 4711);
        writer.put_uint(event::TIME, 1);
        let bytes = writer.finish().unwrap();
        assert!(Event::read(Object(Attrs(&bytes[HEADER + GENERIC_HEADER..]))).is_none());
    }
}
