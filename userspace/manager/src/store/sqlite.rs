// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The store in a file of SQLite.

use super::{Limits, Store, StoreError, FORBIDDEN};
use crate::state::{Change, ConnKey, End, Event, FabricRecord, State};
use rusqlite::{params, Connection, OptionalExtension, Transaction, TransactionBehavior};
use std::path::Path;
use superp_control::manager::AuditRecord;

/// Version of the tables.
const SCHEMA: i64 = 3;

/// "SUPE": marks a file as one of these.
const APPLICATION: i64 = 0x5355_5045;

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Failed(format!("the store: {error}"))
    }
}

/// SQLite.
pub struct Sqlite {
    pub(super) db: Connection,
    limits: Limits,
}

impl Sqlite {
    /// Opens the file, and makes it if there is none.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        Self::open_with(path, Limits::default())
    }

    /// The same, where so much is kept.
    pub(super) fn open_with(path: &Path, limits: Limits) -> Result<Self, StoreError> {
        let failed = |error| StoreError::Failed(format!("{}: {error}", path.display()));
        let mut db = Connection::open(path).map_err(failed)?;
        db.busy_timeout(std::time::Duration::from_secs(10))?;
        db.pragma_update(None, "journal_mode", "wal")
            .map_err(failed)?;
        db.pragma_update(None, "synchronous", "full")?;
        let tx = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let version: i64 = tx.query_row("PRAGMA user_version", [], |row| row.get(0))?;
        let application: i64 = tx.query_row("PRAGMA application_id", [], |row| row.get(0))?;
        match (application, version) {
            (0, 0) => create(&tx).map_err(failed)?,
            (APPLICATION, 1) => {
                create_audit(&tx).map_err(failed)?;
                create_jobs(&tx).map_err(failed)?;
                tx.pragma_update(None, "user_version", SCHEMA)?;
            }
            (APPLICATION, 2) => {
                create_jobs(&tx).map_err(failed)?;
                tx.pragma_update(None, "user_version", SCHEMA)?;
            }
            (APPLICATION, SCHEMA) => {}
            (APPLICATION, other) => {
                return Err(StoreError::Failed(format!(
                    "{} has tables of version {other}, this program knows version {SCHEMA}",
                    path.display()
                )))
            }
            _ => {
                let text = format!("{} is a database of another program", path.display());
                return Err(StoreError::Failed(text));
            }
        }
        tx.commit()?;
        Ok(Self { db, limits })
    }
}

fn create(tx: &Transaction<'_>) -> rusqlite::Result<()> {
    tx.execute_batch(
        "CREATE TABLE term (one INTEGER PRIMARY KEY CHECK (one = 1), term INTEGER NOT NULL) STRICT;
         INSERT INTO term VALUES (1, 0);
         CREATE TABLE fabric (one INTEGER PRIMARY KEY CHECK (one = 1), record TEXT NOT NULL) STRICT;
         CREATE TABLE parameters (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
         CREATE TABLE nodes (name TEXT PRIMARY KEY, record TEXT NOT NULL) STRICT;
         CREATE TABLE connections (
             low_addr TEXT NOT NULL, low_cid INTEGER NOT NULL,
             high_addr TEXT NOT NULL, high_cid INTEGER NOT NULL,
             record TEXT NOT NULL,
             PRIMARY KEY (low_addr, low_cid, high_addr, high_cid)) STRICT;
         CREATE TABLE retired (
             node TEXT NOT NULL, cid INTEGER NOT NULL, until_ms INTEGER NOT NULL,
             PRIMARY KEY (node, cid)) STRICT;
         CREATE TABLE events (
             seq INTEGER PRIMARY KEY AUTOINCREMENT, time_ms INTEGER NOT NULL,
             node TEXT, connection TEXT, kind TEXT NOT NULL, text TEXT NOT NULL) STRICT;",
    )?;
    create_audit(tx)?;
    create_jobs(tx)?;
    tx.pragma_update(None, "application_id", APPLICATION)?;
    tx.pragma_update(None, "user_version", SCHEMA)
}

/// What version 2 has more than version 1.
fn create_audit(tx: &Transaction<'_>) -> rusqlite::Result<()> {
    tx.execute_batch(
        "CREATE TABLE audit (
             seq INTEGER PRIMARY KEY AUTOINCREMENT, time_ms INTEGER NOT NULL, who TEXT NOT NULL,
             role TEXT, request TEXT NOT NULL, status INTEGER, result TEXT) STRICT;",
    )
}

/// What version 3 has more than version 2.
fn create_jobs(tx: &Transaction<'_>) -> rusqlite::Result<()> {
    tx.execute_batch(
        "CREATE TABLE jobs (partition INTEGER PRIMARY KEY, record TEXT NOT NULL) STRICT;",
    )
}

/// Removes the oldest records of the audit log, so that so many are left of each kind.
fn forget_audit(tx: &Transaction<'_>, kept: u64, forbidden_kept: u64) -> rusqlite::Result<()> {
    for (condition, kept) in [("IS NOT", kept), ("IS", forbidden_kept)] {
        let sql = format!(
            "DELETE FROM audit WHERE status {condition} ?1 AND seq <=
             (SELECT seq FROM audit WHERE status {condition} ?1 ORDER BY seq DESC LIMIT 1 OFFSET ?2)"
        );
        tx.prepare_cached(&sql)?
            .execute(params![FORBIDDEN, signed(kept)])?;
    }
    Ok(())
}

/// SQLite's integers are signed; the numbers here are times and counts, far below the limit.
fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

fn unsigned(value: i64) -> u64 {
    u64::try_from(value).unwrap_or(0)
}

fn store(tx: &Transaction<'_>, change: &Change, limits: &Limits) -> Result<(), StoreError> {
    let run = |sql: &str, params: &[&dyn rusqlite::ToSql]| -> Result<(), StoreError> {
        tx.prepare_cached(sql)?.execute(params)?;
        Ok(())
    };
    match change {
        Change::Fabric(record) => run(
            "INSERT OR REPLACE INTO fabric VALUES (1, ?1)",
            params![serde_json::to_string(record)?],
        ),
        Change::Params(all) => {
            run("DELETE FROM parameters", params![])?;
            for (name, value) in all {
                // Parameters have 64 bits without a sign.
                run(
                    "INSERT INTO parameters VALUES (?1, ?2)",
                    params![name, value.to_string()],
                )?;
            }
            Ok(())
        }
        Change::Node(name, record) => run(
            "INSERT OR REPLACE INTO nodes VALUES (?1, ?2)",
            params![name, serde_json::to_string(record)?],
        ),
        Change::NodeGone(name) => run("DELETE FROM nodes WHERE name = ?1", params![name]),
        Change::Conn(key, record) => {
            let [low, high] = key.ends();
            run(
                "INSERT OR REPLACE INTO connections VALUES (?1, ?2, ?3, ?4, ?5)",
                params![
                    low.addr.to_string(),
                    low.cid,
                    high.addr.to_string(),
                    high.cid,
                    serde_json::to_string(record)?
                ],
            )
        }
        Change::ConnGone(key) => {
            let [low, high] = key.ends();
            run(
                "DELETE FROM connections
                 WHERE low_addr = ?1 AND low_cid = ?2 AND high_addr = ?3 AND high_cid = ?4",
                params![
                    low.addr.to_string(),
                    low.cid,
                    high.addr.to_string(),
                    high.cid
                ],
            )
        }
        Change::Retire(node, cid, until) => run(
            "INSERT OR REPLACE INTO retired VALUES (?1, ?2, ?3)",
            params![node, cid, signed(*until)],
        ),
        Change::Job(partition, record) => run(
            "INSERT OR REPLACE INTO jobs VALUES (?1, ?2)",
            params![partition, serde_json::to_string(record)?],
        ),
        Change::JobGone(partition) => {
            run("DELETE FROM jobs WHERE partition = ?1", params![partition])
        }
        Change::Expire(now) => run(
            "DELETE FROM retired WHERE until_ms <= ?1",
            params![signed(*now)],
        ),
        Change::Event(event) => {
            run(
                "INSERT INTO events (time_ms, node, connection, kind, text) VALUES (?1, ?2, ?3, ?4, ?5)",
                params![signed(event.time_ms), event.node, event.connection, event.kind, event.text],
            )?;
            let oldest = tx.last_insert_rowid() - signed(limits.events);
            run("DELETE FROM events WHERE seq <= ?1", params![oldest])
        }
    }
}

/// Begins to write, in this term.
fn begin(db: &mut Connection, term: u64) -> Result<Transaction<'_>, StoreError> {
    let tx = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let newest: i64 = tx.query_row("SELECT term FROM term", [], |row| row.get(0))?;
    match unsigned(newest) == term {
        true => Ok(tx),
        false => Err(StoreError::Fenced {
            ours: term,
            newest: unsigned(newest),
        }),
    }
}

impl Store for Sqlite {
    fn begin_term(&mut self, at_least: u64) -> Result<u64, StoreError> {
        let sql = "UPDATE term SET term = max(term + 1, ?1) RETURNING term";
        let term = self
            .db
            .query_row(sql, [signed(at_least)], |row| row.get(0))?;
        Ok(unsigned(term))
    }

    fn commit(&mut self, term: u64, changes: &[Change]) -> Result<(), StoreError> {
        let tx = begin(&mut self.db, term)?;
        for change in changes {
            store(&tx, change, &self.limits)?;
        }
        Ok(tx.commit()?)
    }

    fn probe(&mut self, term: u64) -> Result<(), StoreError> {
        let tx = begin(&mut self.db, term)?;
        // What leaves no trace is written all the same: SQLite stores the pages that were changed.
        tx.execute("INSERT INTO retired VALUES ('', 0, 0)", [])?;
        tx.execute("DELETE FROM retired WHERE node = ''", [])?;
        Ok(tx.commit()?)
    }

    fn load(&mut self) -> Result<State, StoreError> {
        // One view of all tables.
        let tx = self.db.transaction()?;
        let mut state = State::default();
        let fabric: Option<String> = tx
            .query_row("SELECT record FROM fabric", [], |row| row.get(0))
            .optional()?;
        if let Some(record) = fabric {
            state.fabric = serde_json::from_str::<FabricRecord>(&record)?;
        }
        let mut query = tx.prepare("SELECT name, value FROM parameters")?;
        let mut rows = query.query([])?;
        while let Some(row) = rows.next()? {
            let value: String = row.get(1)?;
            let value = value.parse();
            let value = value
                .map_err(|_| StoreError::Failed("the store: a parameter is no number".into()))?;
            state.params.insert(row.get(0)?, value);
        }
        let mut query = tx.prepare("SELECT name, record FROM nodes")?;
        let mut rows = query.query([])?;
        while let Some(row) = rows.next()? {
            let record: String = row.get(1)?;
            state
                .nodes
                .insert(row.get(0)?, serde_json::from_str(&record)?);
        }
        let mut query =
            tx.prepare("SELECT low_addr, low_cid, high_addr, high_cid, record FROM connections")?;
        let mut rows = query.query([])?;
        while let Some(row) = rows.next()? {
            let end = |addr: usize| -> Result<End, StoreError> {
                let text: String = row.get(addr)?;
                let wrong = |_| StoreError::Failed(format!("the store: {text} is no address"));
                Ok(End {
                    addr: text.parse().map_err(wrong)?,
                    cid: row.get(addr + 1)?,
                })
            };
            let record: String = row.get(4)?;
            let key = ConnKey::new(end(0)?, end(2)?);
            state.conns.insert(key, serde_json::from_str(&record)?);
        }
        let mut query = tx.prepare("SELECT node, cid, until_ms FROM retired")?;
        let mut rows = query.query([])?;
        while let Some(row) = rows.next()? {
            let until: i64 = row.get(2)?;
            state
                .retired
                .insert((row.get(0)?, row.get(1)?), unsigned(until));
        }
        let mut query = tx.prepare("SELECT partition, record FROM jobs")?;
        let mut rows = query.query([])?;
        while let Some(row) = rows.next()? {
            let record: String = row.get(1)?;
            state
                .jobs
                .insert(row.get(0)?, serde_json::from_str(&record)?);
        }
        Ok(state)
    }

    fn events(&mut self, after: u64, limit: u64) -> Result<Vec<Event>, StoreError> {
        let sql = "SELECT seq, time_ms, node, connection, kind, text FROM events
                   WHERE seq > ?1 ORDER BY seq LIMIT ?2";
        let mut query = self.db.prepare_cached(sql)?;
        let rows = query.query_map([signed(after), signed(limit)], |row| {
            Ok(Event {
                seq: unsigned(row.get(0)?),
                time_ms: unsigned(row.get(1)?),
                node: row.get(2)?,
                connection: row.get(3)?,
                kind: row.get(4)?,
                text: row.get(5)?,
            })
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    fn last_event(&mut self) -> Result<u64, StoreError> {
        let last: Option<i64> = self
            .db
            .query_row("SELECT max(seq) FROM events", [], |row| row.get(0))?;
        Ok(unsigned(last.unwrap_or(0)))
    }

    fn audit(&mut self, record: &AuditRecord) -> Result<u64, StoreError> {
        let tx = self
            .db
            .transaction_with_behavior(TransactionBehavior::Immediate)?;
        let time_ms = signed(record.time_ms);
        let all = params![time_ms, record.who, record.role, record.request];
        tx.prepare_cached(
            "INSERT INTO audit (time_ms, who, role, request) VALUES (?1, ?2, ?3, ?4)",
        )?
        .execute(all)?;
        let seq = tx.last_insert_rowid();
        if unsigned(seq) % self.limits.audit_batch == 0 {
            forget_audit(&tx, self.limits.audit, self.limits.forbidden)?;
        }
        tx.commit()?;
        Ok(unsigned(seq))
    }

    fn audited(&mut self, seq: u64, status: u16, result: Option<&str>) -> Result<(), StoreError> {
        let sql = "UPDATE audit SET status = ?2, result = ?3 WHERE seq = ?1";
        self.db.execute(sql, params![signed(seq), status, result])?;
        Ok(())
    }

    fn audit_log(&mut self, after: u64, limit: u64) -> Result<Vec<AuditRecord>, StoreError> {
        let sql = "SELECT seq, time_ms, who, role, request, status, result FROM audit
                   WHERE seq > ?1 ORDER BY seq LIMIT ?2";
        let mut query = self.db.prepare_cached(sql)?;
        let rows = query.query_map([signed(after), signed(limit)], |row| {
            Ok(AuditRecord {
                seq: unsigned(row.get(0)?),
                time_ms: unsigned(row.get(1)?),
                who: row.get(2)?,
                role: row.get(3)?,
                request: row.get(4)?,
                status: row.get(5)?,
                result: row.get(6)?,
            })
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }
}
