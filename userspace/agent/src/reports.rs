// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Events of the kernel, as numbered reports.

use crate::device;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use superp_control::{ConnectionState, LinkState, Report, ReportKind, Reports};
use superp_netlink::{ConnState, Event, EventKind, Events, PortState};
use tokio::sync::watch;

/// How many reports are kept for those that ask.
const KEPT: usize = 4096;

/// ENOBUFS: events were lost.
const LOST: i32 = 105;

/// The reports of this agent since it started.
#[derive(Debug)]
pub(crate) struct Log {
    instance: String,
    kept: Mutex<VecDeque<Report>>,
    last: watch::Sender<u64>,
}

impl Log {
    pub(crate) fn new(instance: String) -> Self {
        let log = Self {
            instance,
            kept: Mutex::default(),
            last: watch::Sender::new(0),
        };
        log.tell(empty(ReportKind::AgentStarted));
        log
    }

    fn kept(&self) -> MutexGuard<'_, VecDeque<Report>> {
        // Nothing is left half done in there.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Number of the last report.
    pub(crate) fn last(&self) -> u64 {
        *self.last.borrow()
    }

    /// Adds a report, which gets its number here.
    pub(crate) fn tell(&self, report: Report) {
        let mut kept = self.kept();
        let seq = self.last() + 1;
        if kept.len() == KEPT {
            kept.pop_front();
        }
        kept.push_back(Report { seq, ..report });
        self.last.send_replace(seq);
    }

    /// The reports above `after`, if that is a number of this instance; all if not.
    pub(crate) fn above(&self, instance: Option<&str>, after: u64) -> Reports {
        let of_another = instance.is_some_and(|instance| instance != self.instance);
        let kept = self.kept();
        let last = self.last();
        let after = if of_another { 0 } else { after.min(last) };
        let reports: Vec<Report> = kept
            .iter()
            .filter(|report| report.seq > after)
            .cloned()
            .collect();
        Reports {
            instance: self.instance.clone(),
            last,
            lost: (last - after).saturating_sub(reports.len() as u64),
            reports,
        }
    }

    /// As [`above`](Self::above), after waiting for a report for so long.
    pub(crate) async fn wait(&self, instance: Option<&str>, after: u64, time: Duration) -> Reports {
        let mut last = self.last.subscribe();
        let reports = self.above(instance, after);
        if !reports.reports.is_empty() || reports.lost > 0 {
            return reports;
        }
        // The sender lives as long as this. When the time is over there is nothing to tell.
        let _ = tokio::time::timeout(time, last.wait_for(|last| *last > reports.last)).await;
        self.above(instance, after)
    }
}

fn empty(kind: ReportKind) -> Report {
    Report {
        seq: 0,
        time_ms: now_ms(),
        kind,
        cid: None,
        peer_cid: None,
        peer: None,
        connection_state: None,
        device: None,
        port_state: None,
        cause: None,
        value: None,
        low: None,
        high: None,
        length: None,
        suppressed: None,
    }
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    })
}

/// Turns events into reports until the socket fails. Blocks.
pub(crate) fn listen(events: Events, log: &Arc<Log>) -> superp_netlink::Error {
    // A port that is gone has no name any more.
    let mut names = HashMap::new();
    for event in events {
        match event {
            Ok(event) => {
                let report = report(event, &mut names);
                note(&report);
                log.tell(report);
            }
            Err(error) if error.errno() == Some(LOST) => {
                tracing::warn!("events of the kernel were lost: they came too fast");
                log.tell(empty(ReportKind::EventsLost));
            }
            Err(error) => return error,
        }
    }
    superp_netlink::Error::Answer("the events ended")
}

fn note(report: &Report) {
    let (cid, cause) = (report.cid, report.cause.as_deref());
    if report.connection_state == Some(ConnectionState::Broken) {
        tracing::warn!(cid, cause, "a connection broke");
    } else {
        tracing::debug!(kind = ?report.kind, cid, cause, device = report.device, "event");
    }
}

fn report(event: Event, names: &mut HashMap<u32, String>) -> Report {
    let kind = match event.kind {
        EventKind::ConnState => ReportKind::ConnectionState,
        EventKind::ConnDeleted => ReportKind::ConnectionRemoved,
        EventKind::PortState => ReportKind::PortState,
        EventKind::PortDeleted => ReportKind::PortRemoved,
        EventKind::Report => ReportKind::Protocol,
        EventKind::AccessViolation => ReportKind::AccessViolation,
    };
    if let Some(index) = event.ifindex {
        if let Some(name) = device::name(index) {
            names.insert(index, name);
        }
    }
    Report {
        cid: event.local_cid,
        peer_cid: event.remote_cid,
        peer: event.remote_addr,
        connection_state: event.conn_state.map(connection_state),
        device: event.ifindex.and_then(|index| names.get(&index).cloned()),
        port_state: event.port_state.map(link_state),
        cause: event.cause,
        value: event.value,
        low: event.low,
        high: event.high,
        length: event.length,
        suppressed: event.suppressed,
        ..empty(kind)
    }
}

pub(crate) fn connection_state(state: ConnState) -> ConnectionState {
    match state {
        ConnState::Created => ConnectionState::Created,
        ConnState::Established => ConnectionState::Established,
        ConnState::Draining => ConnectionState::Draining,
        ConnState::Stopped => ConnectionState::Stopped,
        ConnState::Broken => ConnectionState::Broken,
    }
}

pub(crate) fn link_state(state: PortState) -> LinkState {
    match state {
        PortState::Up => LinkState::Up,
        PortState::Down => LinkState::Down,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seqs(reports: &Reports) -> Vec<u64> {
        reports.reports.iter().map(|report| report.seq).collect()
    }

    #[test]
    fn reports_are_numbered_from_the_start_of_the_agent() {
        let log = Log::new("a".into());
        log.tell(empty(ReportKind::EventsLost));
        let all = log.above(None, 0);
        assert_eq!((seqs(&all), all.last, all.lost), (vec![1, 2], 2, 0));
        assert_eq!(all.reports[0].kind, ReportKind::AgentStarted);
        assert_eq!(seqs(&log.above(Some("a"), 1)), [2]);
        assert!(log.above(Some("a"), 2).reports.is_empty());
    }

    #[test]
    fn numbers_of_another_instance_mean_nothing() {
        let log = Log::new("b".into());
        assert_eq!(seqs(&log.above(Some("a"), 900)), [1]);
        assert!(log.above(None, 900).reports.is_empty());
    }

    #[test]
    fn reports_that_are_kept_no_more_are_counted() {
        let log = Log::new("a".into());
        for _ in 0..KEPT {
            log.tell(empty(ReportKind::Protocol));
        }
        let all = log.above(None, 0);
        assert_eq!((all.reports.len(), all.lost), (KEPT, 1));
        assert_eq!(log.above(None, 1).lost, 0);
    }

    #[tokio::test]
    async fn who_waits_is_told_at_once_or_when_the_time_is_over() {
        let log = Arc::new(Log::new("a".into()));
        let long = Duration::from_secs(600);
        let waiting = tokio::spawn({
            let log = log.clone();
            async move { log.wait(None, 1, long).await }
        });
        tokio::task::yield_now().await;
        log.tell(empty(ReportKind::Protocol));
        assert_eq!(seqs(&waiting.await.unwrap()), [2]);
        assert_eq!(seqs(&log.wait(None, 0, long).await), [1, 2]);
        assert!(log
            .wait(None, 2, Duration::from_millis(1))
            .await
            .reports
            .is_empty());
    }
}
