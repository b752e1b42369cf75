// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Where the state is kept: one small interface, with SQLite or etcd behind it.

mod etcd;
mod sqlite;

pub use etcd::{Access, Campaign, Etcd, Lease};
pub use sqlite::Sqlite;

use crate::state::{Change, Event, State};
use std::fmt;
use superp_control::manager::AuditRecord;

/// Status of a request that a role does not allow.
const FORBIDDEN: u16 = 403;

/// How much is kept.
#[derive(Clone, Copy)]
struct Limits {
    /// Events.
    events: u64,
    /// Records of the audit log.
    audit: u64,
    /// Records that are kept beside them of requests that the role of who asked did not allow: who may do
    /// nothing cannot push out what others did.
    forbidden: u64,
    /// Older records of the audit log go each time that so many have been added.
    audit_batch: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            events: 20_000,
            audit: 100_000,
            forbidden: 10_000,
            audit_batch: 1000,
        }
    }
}

/// Why something was not stored or read.
#[derive(Debug)]
pub enum StoreError {
    /// A newer manager works with this store: this one has to end.
    Fenced {
        /// Our term.
        ours: u64,
        /// The newest one.
        newest: u64,
    },
    /// This manager does not lead any more, or cannot know what is stored: it has to end.
    Lost(String),
    /// The store failed.
    Failed(String),
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fenced { ours, newest } => {
                write!(
                    f,
                    "a newer manager works with this store: term {newest}, ours is {ours}"
                )
            }
            Self::Lost(text) | Self::Failed(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for StoreError {}

impl From<serde_json::Error> for StoreError {
    fn from(error: serde_json::Error) -> Self {
        Self::Failed(format!(
            "the store holds what this version does not read: {error}"
        ))
    }
}

/// A store. What `commit` returned from survives a crash.
pub trait Store: Send {
    /// Whether this manager may give commands now. Where there can be several, one leads, by a lease, and may
    /// not from the moment when it may be over.
    fn leads(&self) -> Result<(), StoreError> {
        Ok(())
    }

    /// Begins a term, above all that were and at least this one. Commits of earlier terms are refused from now on.
    fn begin_term(&mut self, at_least: u64) -> Result<u64, StoreError>;

    /// Stores all changes, or none. Refused unless `term` is the newest.
    fn commit(&mut self, term: u64, changes: &[Change]) -> Result<(), StoreError>;

    /// Writes as `commit` does, and leaves everything as it is: whether it can be written. Refused unless
    /// `term` is the newest.
    fn probe(&mut self, term: u64) -> Result<(), StoreError>;

    /// The state.
    fn load(&mut self) -> Result<State, StoreError>;

    /// Events with numbers above `after`, oldest first, so many at most.
    fn events(&mut self, after: u64, limit: u64) -> Result<Vec<Event>, StoreError>;

    /// Number of the last event; 0 for none.
    fn last_event(&mut self) -> Result<u64, StoreError>;

    /// Stores a record of the audit log, and gives its number; the one in the record does not count.
    /// Also an older manager's requests, which will be refused, are recorded.
    fn audit(&mut self, record: &AuditRecord) -> Result<u64, StoreError>;

    /// Stores what came of the request that was recorded with this number.
    fn audited(&mut self, seq: u64, status: u16, result: Option<&str>) -> Result<(), StoreError>;

    /// Records of the audit log with numbers above `after`, oldest first, so many at most.
    fn audit_log(&mut self, after: u64, limit: u64) -> Result<Vec<AuditRecord>, StoreError>;
}

#[cfg(test)]
mod tests;
