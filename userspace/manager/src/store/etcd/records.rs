// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Changes as records of etcd, and records as the state.

use super::super::StoreError;
use crate::state::{Change, ConnKey, Event, State};
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// Records by key, below the prefix; those without a value are to be removed.
pub(super) type Records = BTreeMap<String, Option<Value>>;

/// What the keys of the state begin with.
pub(super) const STATE: &str = "state/";

/// What the keys of ids that are kept back begin with.
pub(super) const RETIRED: &str = "state/retired/";

const FABRIC: &str = "state/fabric";
const PARAMETERS: &str = "state/parameters";
const NODE: &str = "state/node/";
const CONNECTION: &str = "state/connection/";
const JOB: &str = "state/job/";

/// Most records of one transaction. etcd allows 128 operations unless it is told otherwise.
const BATCH_RECORDS: usize = 100;

/// Most bytes of one transaction, but for a larger record. etcd allows 1.5 MiB unless it is told otherwise.
const BATCH_BYTES: usize = 512 << 10;

/// Largest record.
const RECORD_BYTES: usize = 1 << 20;

/// The key of something with a number; keys stand in the order of the numbers.
pub(super) fn numbered(kind: &str, seq: u64) -> String {
    format!("{kind}{seq:020}")
}

fn value(record: &impl Serialize) -> Result<Option<Value>, StoreError> {
    Ok(Some(serde_json::to_value(record)?))
}

/// The ids whose time is over among these records.
fn expired(records: &Records, now: u64) -> Vec<String> {
    let retired = records.range(RETIRED.to_owned()..);
    let retired = retired.take_while(|(key, _)| key.starts_with(RETIRED));
    let over = |until: &Option<Value>| {
        let until = until.as_ref().and_then(Value::as_u64);
        until.is_some_and(|until| until <= now)
    };
    retired
        .filter(|(_, until)| over(until))
        .map(|(key, _)| key.clone())
        .collect()
}

/// What changes write. `retired` are the ids that are kept back before them, if time goes on; events are
/// the caller's.
pub(super) fn records(changes: &[Change], retired: &Records) -> Result<Records, StoreError> {
    let mut records = Records::new();
    for change in changes {
        let (key, value) = match change {
            Change::Fabric(record) => (FABRIC.to_owned(), value(record)?),
            Change::Params(all) => (PARAMETERS.to_owned(), value(all)?),
            Change::Node(name, record) => (format!("{NODE}{name}"), value(record)?),
            Change::NodeGone(name) => (format!("{NODE}{name}"), None),
            Change::Conn(key, record) => (format!("{CONNECTION}{key}"), value(record)?),
            Change::ConnGone(key) => (format!("{CONNECTION}{key}"), None),
            Change::Retire(node, cid, until) => (format!("{RETIRED}{node}/{cid}"), value(until)?),
            Change::Job(partition, record) => (format!("{JOB}{partition}"), value(record)?),
            Change::JobGone(partition) => (format!("{JOB}{partition}"), None),
            Change::Expire(now) => {
                let before = expired(retired, *now);
                // What these changes wrote counts, not what was there before.
                let before = before.into_iter().filter(|key| !records.contains_key(key));
                let gone: Vec<_> = before.chain(expired(&records, *now)).collect();
                records.extend(gone.into_iter().map(|key| (key, None)));
                continue;
            }
            Change::Event(_) => continue,
        };
        records.insert(key, value);
    }
    Ok(records)
}

/// Adds events, which get the numbers after `last`; the number of the last one.
pub(super) fn number(
    records: &mut Records,
    kind: &str,
    changes: &[Change],
    mut last: u64,
) -> Result<u64, StoreError> {
    for change in changes {
        if let Change::Event(event) = change {
            last += 1;
            let event = Event {
                seq: last,
                ..event.clone()
            };
            records.insert(numbered(kind, last), value(&event)?);
        }
    }
    Ok(last)
}

/// Records in parts that a transaction takes.
pub(super) fn batches(records: Records) -> Result<Vec<Records>, StoreError> {
    let mut batches = Vec::new();
    let (mut batch, mut bytes) = (Records::new(), 0);
    for (key, value) in records {
        let size = key.len() + serde_json::to_vec(&value)?.len();
        if size > RECORD_BYTES {
            return Err(StoreError::Failed(format!(
                "{key} has {size} bytes; etcd takes records of {RECORD_BYTES}"
            )));
        }
        if batch.len() == BATCH_RECORDS || (bytes + size > BATCH_BYTES && !batch.is_empty()) {
            batches.push(std::mem::take(&mut batch));
            bytes = 0;
        }
        bytes += size;
        batch.insert(key, value);
    }
    batches.push(batch);
    Ok(batches)
}

/// The state that is in records.
pub(super) fn state(records: Records) -> Result<State, StoreError> {
    let wrong = |key: &str| StoreError::Failed(format!("the store: what is the record {key}?"));
    let mut state = State::default();
    for (key, value) in records {
        let Some(value) = value else {
            continue;
        };
        if key == FABRIC {
            state.fabric = serde_json::from_value(value)?;
        } else if key == PARAMETERS {
            state.params = serde_json::from_value(value)?;
        } else if let Some(name) = key.strip_prefix(NODE) {
            let record = serde_json::from_value(value)?;
            state.nodes.insert(name.to_owned(), record);
        } else if let Some(conn) = key.strip_prefix(CONNECTION) {
            let conn: ConnKey = conn.parse().map_err(StoreError::Failed)?;
            state.conns.insert(conn, serde_json::from_value(value)?);
        } else if let Some(partition) = key.strip_prefix(JOB) {
            let partition = partition.parse().map_err(|_| wrong(&key))?;
            state.jobs.insert(partition, serde_json::from_value(value)?);
        } else if let Some(id) = key.strip_prefix(RETIRED) {
            let (node, cid) = id.rsplit_once('/').ok_or_else(|| wrong(&key))?;
            let cid = cid.parse().map_err(|_| wrong(&key))?;
            let until = serde_json::from_value(value)?;
            state.retired.insert((node.to_owned(), cid), until);
        } else {
            return Err(wrong(&key));
        }
    }
    Ok(state)
}
