// SPDX-License-Identifier: GPL-2.0 OR MIT
//! What people ask of the manager.

use super::{Inner, Manager, Refusal};
use crate::decide;
use crate::fabric;
use crate::plan::{self, Plan};
use crate::state::{now_ms, Change, ConnKey, ConnRecord, Event, Phase, State, Want};
use crate::store::StoreError;
use superp_control::manager::AuditRecord;

impl Manager {
    /// What applying a fabric file would do.
    pub fn plan(&self, text: &str) -> Result<Plan, Refusal> {
        let fabric = fabric::read(text).map_err(Refusal::Mistakes)?;
        let inner = self.lock();
        let planned = plan::plan(&fabric, &inner.state, now_ms());
        planned.map(|(plan, _)| plan).map_err(Refusal::Conflict)
    }

    /// Applies a fabric file: it is stored, and carried out from now on.
    pub fn apply(&self, text: &str) -> Result<Plan, Refusal> {
        let fabric = fabric::read(text).map_err(Refusal::Mistakes)?;
        let agents = fabric.nodes.iter().map(|(name, node)| (name, &node.agent));
        self.shared.way.reaches(agents).map_err(Refusal::Conflict)?;
        let mut inner = self.lock();
        let now = now_ms();
        let planned = plan::plan(&fabric, &inner.state, now);
        let (plan, mut changes) = planned.map_err(Refusal::Conflict)?;
        // Who may only plan does not learn the numbers.
        plan::jobs::keeps_apart(&fabric, &inner.state).map_err(Refusal::Conflict)?;
        if plan.changed {
            changes.push(Change::Expire(now));
            self.commit(&mut inner, &changes)?;
            self.shared.wake.notify_one();
        }
        Ok(plan)
    }

    /// Records a request in the audit log, before anything is done; its number.
    pub fn audit(&self, record: &AuditRecord) -> Result<u64, StoreError> {
        self.lock().store.audit(record)
    }

    /// Records what came of it.
    pub fn audited(&self, seq: u64, status: u16, result: Option<&str>) -> Result<(), StoreError> {
        self.lock().store.audited(seq, status, result)
    }

    /// Records of the audit log after a number.
    pub fn audit_log(&self, after: u64, limit: u64) -> Result<Vec<AuditRecord>, StoreError> {
        self.lock().store.audit_log(after, limit)
    }

    /// Shuts every node down.
    pub fn shutdown(&self) -> Result<(), Refusal> {
        let mut inner = self.lock();
        match inner.state.fabric.phase {
            Phase::Empty => return Err(Refusal::Conflict("there is no fabric".into())),
            Phase::ShuttingDown | Phase::Down => return Ok(()),
            Phase::Booting | Phase::Running => {}
        }
        let mut changes = decide::shut_down(&inner.state, now_ms());
        let mut fabric = inner.state.fabric.clone();
        fabric.phase = Phase::ShuttingDown;
        changes.push(Change::Fabric(fabric));
        changes.push(Change::Event(Event {
            seq: 0,
            time_ms: now_ms(),
            node: None,
            connection: None,
            kind: "phase".into(),
            text: "every node is shut down, as requested".into(),
        }));
        self.commit(&mut inner, &changes)?;
        self.shared.wake.notify_one();
        Ok(())
    }

    /// Shuts a connection down softly, restarts it, or resets it (`None`).
    pub fn want(&self, key: &ConnKey, want: Option<Want>) -> Result<(), Refusal> {
        let mut inner = self.lock();
        at_work(&inner.state)?;
        let Some(conn) = inner.state.conns.get(key) else {
            return Err(Refusal::NotFound(format!("there is no connection {key}")));
        };
        let record = match want {
            Some(want) if want == conn.want => return Ok(()),
            Some(want) => {
                let mut record = conn.clone();
                record.want = want;
                record
            }
            None => {
                let mut record = plan::next_life(conn, packets(&inner, key));
                record.want = Want::Run;
                record.not_before = 0;
                record
            }
        };
        let text = match want {
            Some(Want::Stop) => "is shut down softly, as requested",
            Some(Want::Restart) => "is shut down softly and started again, as requested",
            _ => "is reset at both ends and started again, as requested",
        };
        let event = Event {
            seq: 0,
            time_ms: now_ms(),
            node: None,
            connection: Some(key.to_string()),
            kind: "connection".into(),
            text: text.into(),
        };
        let changes = [Change::Conn(*key, Box::new(record)), Change::Event(event)];
        self.commit(&mut inner, &changes)?;
        self.shared.wake.notify_one();
        Ok(())
    }

    /// Shuts all connections of a node, or of the fabric, down softly, or restarts them: all or none.
    pub fn want_all(&self, node: Option<&str>, want: Want) -> Result<(), Refusal> {
        let mut inner = self.lock();
        at_work(&inner.state)?;
        if let Some(node) = node.filter(|node| !inner.state.nodes.contains_key(*node)) {
            return Err(Refusal::NotFound(format!("there is no node {node}")));
        }
        let concerned = |conn: &&ConnRecord| {
            node.is_none_or(|node| conn.nodes.iter().any(|name| name == node))
                && conn.want != want
                // What is down is not drained; it can be restarted.
                && !(conn.want == Want::Hold && want == Want::Stop)
        };
        let mut changes: Vec<_> = inner
            .state
            .conns
            .iter()
            .filter(|(_, conn)| concerned(conn))
            .map(|(key, conn)| {
                let mut record = conn.clone();
                record.want = want;
                Change::Conn(*key, Box::new(record))
            })
            .collect();
        if changes.is_empty() {
            return Ok(());
        }
        let text = match want {
            Want::Stop => "shut down softly",
            _ => "shut down softly and started again",
        };
        changes.push(Change::Event(Event {
            seq: 0,
            time_ms: now_ms(),
            node: node.map(str::to_owned),
            connection: None,
            kind: "connection".into(),
            text: format!("{} connections are {text}, as requested", changes.len()),
        }));
        self.commit(&mut inner, &changes)?;
        self.shared.wake.notify_one();
        Ok(())
    }
}

/// Connections are commanded only while they are to run.
pub(super) fn at_work(state: &State) -> Result<(), Refusal> {
    match state.fabric.phase {
        Phase::Booting | Phase::Running => Ok(()),
        phase => Err(Refusal::Conflict(format!("the fabric is {phase}"))),
    }
}

/// Packets that an end of the connection has sent or received, as last seen.
fn packets(inner: &Inner, key: &ConnKey) -> u64 {
    let Some(conn) = inner.state.conns.get(key) else {
        return 0;
    };
    let ends = conn.nodes.iter().zip(key.ends()).filter_map(|(name, end)| {
        let status = inner.slots.get(name)?.seen.as_ref()?.status.as_ref().ok()?;
        let conn = status.connections.iter().find(|conn| conn.cid == end.cid)?;
        Some(decide::packets_of(conn))
    });
    ends.max().unwrap_or(0)
}
