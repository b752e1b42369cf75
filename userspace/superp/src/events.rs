// SPDX-License-Identifier: GPL-2.0 OR MIT
//! `superp events`.

use crate::failure::Failure;
use crate::out::Out;
use std::fmt::Write as _;
use superp_netlink::{Event, EventKind, Events};

pub(crate) fn run(count: Option<u64>, out: &mut Out) -> Result<(), Failure> {
    let mut told = 0;
    for event in Events::open()? {
        match event {
            Ok(event) => {
                out.either(&event, |out| out.line(text(&event)))?;
                told += 1;
            }
            Err(error) if error.errno() == Some(libc::ENOBUFS) => {
                eprintln!("superp: events were lost, there were too many at once");
            }
            Err(error) => return Err(error.into()),
        }
        // Whoever reads a pipe wants each when it happens.
        out.flush()?;
        if count.is_some_and(|count| told >= count) {
            break;
        }
    }
    Ok(())
}

/// One event as a line.
fn text(event: &Event) -> String {
    let Event { time, .. } = event;
    let mut text = format!(
        "[{:6}.{:06}] ",
        time / 1_000_000_000,
        time / 1_000 % 1_000_000
    );
    let mut add = |part: std::fmt::Arguments<'_>| {
        // Writing to a string does not fail.
        let _ = text.write_fmt(part);
    };
    if let Some(cid) = event.local_cid {
        add(format_args!("conn {cid}"));
    }
    if let Some(addr) = event.remote_addr {
        add(format_args!(" to {addr}"));
    }
    if let Some(cid) = event.remote_cid {
        add(format_args!(" cid {cid}"));
    }
    if let Some(index) = event.ifindex {
        match superp_sys::device_name(index) {
            Some(name) => add(format_args!("dev {name}")),
            None => add(format_args!("dev {index}")),
        }
    }
    match event.kind {
        EventKind::ConnState | EventKind::PortState => {}
        EventKind::ConnDeleted | EventKind::PortDeleted => add(format_args!(": deleted")),
        EventKind::Report => add(format_args!(": report")),
        EventKind::AccessViolation => add(format_args!(": access violation")),
    }
    if let Some(state) = event.conn_state {
        add(format_args!(": {state}"));
    }
    if let Some(state) = event.port_state {
        add(format_args!(": {state}"));
    }
    if let Some(cause) = &event.cause {
        add(format_args!(": {cause}"));
    }
    if let Some(value) = event.value {
        add(format_args!(" {value:#x}"));
    }
    if let Some((low, high)) = event.low.zip(event.high).filter(|(low, high)| low != high) {
        add(format_args!(" not in {low:#x}..{high:#x}"));
    }
    if let Some((address, length)) = event.address.zip(event.length) {
        add(format_args!(" {length} bytes at {address:#x}"));
    }
    if let Some(suppressed) = event.suppressed {
        add(format_args!(" ({suppressed} before this were not told)"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use superp_netlink::ConnState;

    fn event(kind: EventKind) -> Event {
        Event {
            kind,
            time: 12_000_345_678,
            local_cid: Some(64),
            remote_cid: None,
            remote_addr: Some("10.23.0.1".parse().unwrap()),
            conn_state: None,
            ifindex: None,
            port_state: None,
            cause: None,
            value: None,
            low: None,
            high: None,
            address: None,
            length: None,
            suppressed: None,
        }
    }

    #[test]
    fn events_are_one_line_each() {
        let state = Event {
            conn_state: Some(ConnState::Broken),
            cause: Some("peer does not answer".into()),
            ..event(EventKind::ConnState)
        };
        assert_eq!(
            text(&state),
            "[    12.000345] conn 64 to 10.23.0.1: broken: peer does not answer"
        );
        let report = Event {
            cause: Some("ack_out_of_window".into()),
            value: Some(0x20),
            low: Some(1),
            high: Some(0x11),
            suppressed: Some(3),
            ..event(EventKind::Report)
        };
        assert_eq!(
            text(&report),
            "[    12.000345] conn 64 to 10.23.0.1: report: ack_out_of_window 0x20 not in 0x1..0x11 \
             (3 before this were not told)"
        );
        assert_eq!(
            text(&event(EventKind::ConnDeleted)),
            "[    12.000345] conn 64 to 10.23.0.1: deleted"
        );
    }
}
