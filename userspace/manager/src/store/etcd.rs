// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The store in etcd: a record of JSON for each key below a prefix.
//!
//! `head` has the term. Every write compares it with what this manager left there, and puts the next one in
//! its place, so each is done once, and none of a manager that was followed by another. What is too much for
//! one transaction of etcd is written beside (`journal/`), then made valid by a head that says so, then put
//! in its places; who finds such a head reads the journal over the records, and completes it.

mod client;
mod lease;
mod records;

pub use client::Access;
pub use lease::{Campaign, Lease};

use self::client::{Client, Failure};
use self::records::{batches, number, numbered, Records, RETIRED, STATE};
use super::{Limits, Store, StoreError, FORBIDDEN};
use crate::state::{Change, Event, State};
use etcd_client::{
    Compare, CompareOp, DeleteOptions, GetOptions, GetResponse, Txn, TxnOp, TxnOpResponse,
    TxnResponse,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::{Duration, Instant};
use superp_control::manager::AuditRecord;

/// Version of the records.
const VERSION: u64 = 1;

/// Whose records they are.
const APPLICATION: &str = "superp-cm";

/// Where it says so.
const FORMAT: &str = "format";

const HEAD: &str = "head";
const LEADER: &str = "leader";
const EVENT: &str = "event/";
const JOURNAL: &str = "journal/";
const AUDIT: &str = "audit/";
/// Records of the audit log of what a role did not allow.
const AUDIT_FORBIDDEN: &str = "audit-forbidden/";
const LAST_AUDIT: &str = "last-audit";

/// Records of one answer.
const PAGE: u64 = 100;

/// So long it is tried to get to know whether something was written.
const PATIENCE: Duration = Duration::from_secs(5);

/// Attempts at what others may do at the same time.
const ATTEMPTS: usize = 20;

/// What the records are of.
#[derive(Serialize, Deserialize)]
struct Format {
    application: String,
    version: u64,
}

/// What every write compares and puts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Head {
    /// The newest term.
    term: u64,
    /// A number of who began it.
    owner: u64,
    /// Number of writes.
    commit: u64,
    /// Number of the last event.
    event: u64,
    /// Parts of the journal that have still to be put in their places.
    journal: u64,
}

/// etcd.
pub struct Etcd {
    client: Client,
    prefix: String,
    limits: Limits,
    /// What this manager left there.
    head: Option<Head>,
    lease: Option<Lease>,
    /// A number of this manager.
    owner: u64,
    /// Why it cannot go on.
    lost: Option<String>,
}

impl Etcd {
    /// Opens the store, and makes it if there is none.
    pub fn open(access: &Access) -> Result<Self, StoreError> {
        Self::open_with(access, Limits::default())
    }

    /// The same, where so much is kept.
    pub(super) fn open_with(access: &Access, limits: Limits) -> Result<Self, StoreError> {
        let etcd = Self {
            client: Client::new(access)?,
            prefix: format!("{}/", access.prefix.trim_end_matches('/')),
            limits,
            head: None,
            lease: None,
            owner: RandomState::new().build_hasher().finish(),
            lost: None,
        };
        let key = etcd.key(FORMAT);
        let found = etcd.get(key.clone(), None)?;
        if found.kvs().is_empty() {
            etcd.create(&key)?;
        }
        // Another manager may have made it at the same time.
        let found = etcd.get(key, None)?;
        let format: Option<Format> = parsed(&found)?;
        match format {
            Some(Format {
                application,
                version,
            }) if application == APPLICATION => match version {
                VERSION => Ok(etcd),
                other => Err(StoreError::Failed(format!(
                    "etcd has records of version {other} below {}, this program knows version {VERSION}",
                    etcd.prefix
                ))),
            },
            _ => Err(StoreError::Failed(format!(
                "etcd has records of another program below {}",
                etcd.prefix
            ))),
        }
    }

    fn create(&self, key: &str) -> Result<(), StoreError> {
        let options = GetOptions::new().with_prefix().with_count_only();
        if self.get(self.prefix.clone(), Some(options))?.count() > 0 {
            return Ok(());
        }
        let format = Format {
            application: APPLICATION.into(),
            version: VERSION,
        };
        let txn = Txn::new()
            .when([Compare::create_revision(key, CompareOp::Equal, 0)])
            .and_then([
                TxnOp::put(key, serde_json::to_vec(&format)?, None),
                TxnOp::put(self.key(HEAD), serde_json::to_vec(&Head::default())?, None),
            ]);
        self.txn(txn)?;
        Ok(())
    }

    /// Makes this manager, which can be reached at this URL, the leader unless there is one; for so long at a
    /// time, whole seconds.
    pub fn campaign(&mut self, address: &str, ttl: Duration) -> Result<Campaign, StoreError> {
        let campaign = Lease::campaign(&self.client, &self.key(LEADER), address, ttl)?;
        if let Campaign::Won(lease) = &campaign {
            self.lease = Some(lease.clone());
        }
        Ok(campaign)
    }

    fn key(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    fn get(&self, key: String, options: Option<GetOptions>) -> Result<GetResponse, Failure> {
        let mut kv = self.client.kv();
        self.client.wait(async move { kv.get(key, options).await })
    }

    fn txn(&self, txn: Txn) -> Result<TxnResponse, Failure> {
        let mut kv = self.client.kv();
        self.client.wait(async move { kv.txn(txn).await })
    }

    /// The head, and the revision of everything at that time.
    fn read_head(&self) -> Result<(Head, i64), StoreError> {
        let found = self.get(self.key(HEAD), None)?;
        let revision = found.header().map_or(0, |header| header.revision());
        let gone = || StoreError::Failed(format!("etcd has no {} any more", self.key(HEAD)));
        Ok((parsed(&found)?.ok_or_else(gone)?, revision))
    }

    /// Keys from `from` on, below `to`, with their values; so many at most.
    fn range<T: DeserializeOwned>(
        &self,
        from: String,
        to: &str,
        limit: u64,
        revision: i64,
    ) -> Result<Vec<(String, T)>, StoreError> {
        let (mut from, to) = (self.key(&from), self.key(to));
        let mut all = Vec::new();
        loop {
            let rest = limit - all.len() as u64;
            let options = GetOptions::new()
                .with_range(to.as_str())
                .with_limit(i64::try_from(rest.min(PAGE)).unwrap_or(i64::MAX))
                .with_revision(revision);
            if rest == 0 {
                return Ok(all);
            }
            let found = self.get(from, Some(options))?;
            for record in found.kvs() {
                let key = String::from_utf8_lossy(record.key());
                let key = key.strip_prefix(&self.prefix).unwrap_or(&key).to_owned();
                all.push((key, serde_json::from_slice(record.value())?));
            }
            match all.last() {
                // The next possible key.
                Some((last, _)) if found.more() => from = format!("{}\0", self.key(last)),
                _ => return Ok(all),
            }
        }
    }

    /// All records whose keys begin so.
    fn below(&self, kind: &str, revision: i64) -> Result<Records, StoreError> {
        self.range(kind.to_owned(), &end(kind), u64::MAX, revision)
            .map(|all| all.into_iter().collect())
    }

    /// Fails where this manager cannot go on.
    fn usable(&self) -> Result<(), StoreError> {
        match (&self.lost, &self.lease) {
            (Some(why), _) => Err(StoreError::Lost(why.clone())),
            (None, Some(lease)) => lease.lasts(),
            (None, None) => Ok(()),
        }
    }

    /// Does this, and puts the next head in place of the one that this manager left; once, also where it is
    /// not known of an attempt what became of it.
    fn write(&mut self, next: Head, mut ops: Vec<TxnOp>) -> Result<(), StoreError> {
        let head = self.head.clone().unwrap_or_default();
        let key = self.key(HEAD);
        let compare = Compare::value(key.as_str(), CompareOp::Equal, serde_json::to_vec(&head)?);
        let mut when = vec![compare];
        when.extend(self.lease.as_ref().map(Lease::compare));
        if next != head {
            ops.push(TxnOp::put(key.as_str(), serde_json::to_vec(&next)?, None));
        }
        let txn = Txn::new()
            .when(when)
            .and_then(ops)
            .or_else([TxnOp::get(key, None)]);
        let (begin, mut unknown) = (Instant::now(), None);
        loop {
            self.usable()?;
            match self.txn(txn.clone()) {
                Ok(done) if done.succeeded() => break,
                Ok(other) => {
                    let found = other.op_responses();
                    let found: Option<Head> = match found.first() {
                        Some(TxnOpResponse::Get(found)) => parsed(found)?,
                        _ => None,
                    };
                    let found = found.unwrap_or_default();
                    if unknown.is_some() && found == next {
                        break;
                    }
                    if (found.term, found.owner) != (head.term, head.owner) {
                        return Err(StoreError::Fenced {
                            ours: head.term,
                            newest: found.term,
                        });
                    }
                    return Err(self.lose(lease::over("etcd has it no more")));
                }
                Err(Failure::Refused(why)) if unknown.is_none() => {
                    return Err(StoreError::Failed(format!("etcd: {why}")))
                }
                Err(failure) => unknown = Some(failure),
            }
            if let Some(why) = unknown.as_ref().filter(|_| begin.elapsed() > PATIENCE) {
                let text = format!("it is not known whether something was stored: {why}");
                return Err(self.lose(StoreError::Lost(text)));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        self.head = Some(next);
        Ok(())
    }

    fn lose(&mut self, why: StoreError) -> StoreError {
        self.lost = Some(why.to_string());
        why
    }

    /// Writes the journal, and a head that makes it valid.
    fn journal(&mut self, mut next: Head, parts: &[Records]) -> Result<(), StoreError> {
        let head = self.head.clone().unwrap_or_default();
        for (part, records) in (0..).zip(parts) {
            let key = self.key(&numbered(JOURNAL, part));
            let put = TxnOp::put(key, serde_json::to_vec(records)?, None);
            self.write(head.clone(), vec![put])?;
            next.journal = part + 1;
        }
        self.write(next, Vec::new())
    }

    /// Puts the parts of the journal in their places.
    fn complete(&mut self) -> Result<(), StoreError> {
        let Some(head) = self.head.clone().filter(|head| head.journal > 0) else {
            return Ok(());
        };
        for part in 0..head.journal {
            let key = self.key(&numbered(JOURNAL, part));
            let records: Option<Records> = parsed(&self.get(key.clone(), None)?)?;
            let lost = || StoreError::Failed(format!("etcd has no {key}"));
            let ops = self.ops(&records.ok_or_else(lost)?)?;
            self.write(head.clone(), ops)?;
        }
        let done = Head {
            commit: head.commit + 1,
            journal: 0,
            ..head
        };
        let mut ops = vec![self.delete(JOURNAL.into(), &end(JOURNAL))];
        ops.extend(self.forget_events(&done));
        self.write(done, ops)
    }

    fn ops(&self, records: &Records) -> Result<Vec<TxnOp>, StoreError> {
        let op = |(key, value): (&String, &Option<Value>)| {
            Ok(match value {
                Some(value) => TxnOp::put(self.key(key), serde_json::to_vec(value)?, None),
                None => TxnOp::delete(self.key(key), None),
            })
        };
        records.iter().map(op).collect()
    }

    fn delete(&self, from: String, to: &str) -> TxnOp {
        let options = DeleteOptions::new().with_range(self.key(to));
        TxnOp::delete(self.key(&from), Some(options))
    }

    /// Number of the oldest event that is kept.
    fn oldest(&self, head: &Head) -> u64 {
        (head.event + 1).saturating_sub(self.limits.events)
    }

    fn forget_events(&self, head: &Head) -> Option<TxnOp> {
        let oldest = self.oldest(head);
        (oldest > 0).then(|| self.delete(EVENT.into(), &numbered(EVENT, oldest)))
    }

    /// Removes the oldest records of a kind, so that so many are left.
    fn forget_audit(&self, kind: &str, kept: u64) -> Result<(), StoreError> {
        let all = GetOptions::new().with_range(self.key(&end(kind)));
        let count = all.clone().with_count_only();
        let count = self.get(self.key(kind), Some(count))?.count();
        let more = count - i64::try_from(kept).unwrap_or(i64::MAX);
        if more <= 0 {
            return Ok(());
        }
        let oldest = all.with_keys_only().with_limit(more);
        let oldest = self.get(self.key(kind), Some(oldest))?;
        if let Some(last) = oldest.kvs().last() {
            let mut kv = self.client.kv();
            let mut next = last.key().to_vec();
            next.push(0);
            let (key, options) = (self.key(kind), DeleteOptions::new().with_range(next));
            self.client
                .wait(async move { kv.delete(key, Some(options)).await })?;
        }
        Ok(())
    }
}

/// What follows all keys that begin so.
fn end(kind: &str) -> String {
    let mut end = kind.to_owned();
    // They end with "/", which "0" follows.
    end.pop();
    end + "0"
}

/// The first value of an answer.
fn parsed<T: DeserializeOwned>(found: &GetResponse) -> Result<Option<T>, StoreError> {
    let first = found.kvs().first();
    let value = first.map(|record| serde_json::from_slice(record.value()));
    Ok(value.transpose()?)
}

impl Store for Etcd {
    fn leads(&self) -> Result<(), StoreError> {
        self.usable()
    }

    fn begin_term(&mut self, at_least: u64) -> Result<u64, StoreError> {
        for _ in 0..ATTEMPTS {
            let (head, _) = self.read_head()?;
            let next = Head {
                term: at_least.max(head.term + 1),
                owner: self.owner,
                commit: head.commit + 1,
                ..head
            };
            let term = next.term;
            self.head = Some(head);
            match self.write(next, Vec::new()) {
                // Another one began a term at the same time.
                Err(StoreError::Fenced { .. }) => continue,
                written => written?,
            }
            self.complete()?;
            return Ok(term);
        }
        Err(StoreError::Failed(
            "etcd: others begin terms all the time".into(),
        ))
    }

    fn commit(&mut self, term: u64, changes: &[Change]) -> Result<(), StoreError> {
        let head = match &self.head {
            Some(head) if head.term == term => head.clone(),
            _ => {
                let newest = self.read_head()?.0.term;
                return Err(StoreError::Fenced { ours: term, newest });
            }
        };
        let expires = changes
            .iter()
            .any(|change| matches!(change, Change::Expire(_)));
        let retired = match expires {
            true => self.below(RETIRED, 0)?,
            false => Records::new(),
        };
        let mut records = records::records(changes, &retired)?;
        let event = number(&mut records, EVENT, changes, head.event)?;
        let next = Head {
            commit: head.commit + 1,
            event,
            ..head.clone()
        };
        let oldest = numbered(EVENT, self.oldest(&next));
        records.retain(|key, _| !key.starts_with(EVENT) || *key >= oldest);
        let batches = batches(records)?;
        if let (1, Some(all)) = (batches.len(), batches.first()) {
            let mut ops = self.ops(all)?;
            if event > head.event {
                ops.extend(self.forget_events(&next));
            }
            return self.write(next, ops);
        }
        self.journal(next, &batches)?;
        // From here on it is stored. Who cannot put it in its places leaves that to the next manager.
        self.complete().map_err(|error| match error {
            StoreError::Failed(why) => self.lose(StoreError::Lost(why)),
            other => other,
        })
    }

    fn probe(&mut self, term: u64) -> Result<(), StoreError> {
        // The head is written.
        self.commit(term, &[])
    }

    fn load(&mut self) -> Result<State, StoreError> {
        let (head, revision) = self.read_head()?;
        let mut records = self.below(STATE, revision)?;
        for part in 0..head.journal {
            let key = self.key(&numbered(JOURNAL, part));
            let options = GetOptions::new().with_revision(revision);
            let over: Option<Records> = parsed(&self.get(key, Some(options))?)?;
            let over = over.unwrap_or_default().into_iter();
            records.extend(over.filter(|(key, _)| key.starts_with(STATE)));
        }
        records::state(records)
    }

    fn events(&mut self, after: u64, limit: u64) -> Result<Vec<Event>, StoreError> {
        let from = numbered(EVENT, after.saturating_add(1));
        let events = self.range(from, &end(EVENT), limit, 0)?;
        Ok(events.into_iter().map(|(_, event)| event).collect())
    }

    fn last_event(&mut self) -> Result<u64, StoreError> {
        match &self.head {
            Some(head) => Ok(head.event),
            None => Ok(self.read_head()?.0.event),
        }
    }

    fn audit(&mut self, record: &AuditRecord) -> Result<u64, StoreError> {
        let last_key = self.key(LAST_AUDIT);
        for _ in 0..ATTEMPTS {
            let found = self.get(last_key.clone(), None)?;
            let last: Option<u64> = parsed(&found)?;
            let revision = found.kvs().first().map_or(0, |last| last.mod_revision());
            let seq = last.unwrap_or(0) + 1;
            let record = AuditRecord {
                seq,
                status: None,
                result: None,
                ..record.clone()
            };
            let key = self.key(&numbered(AUDIT, seq));
            let txn = Txn::new()
                .when([Compare::mod_revision(
                    last_key.as_str(),
                    CompareOp::Equal,
                    revision,
                )])
                .and_then([
                    TxnOp::put(last_key.as_str(), seq.to_string(), None),
                    TxnOp::put(key, serde_json::to_vec(&record)?, None),
                ]);
            if self.txn(txn)?.succeeded() {
                if seq % self.limits.audit_batch == 0 {
                    self.forget_audit(AUDIT, self.limits.audit)?;
                    self.forget_audit(AUDIT_FORBIDDEN, self.limits.forbidden)?;
                }
                return Ok(seq);
            }
        }
        Err(StoreError::Failed(
            "etcd: others write the audit log all the time".into(),
        ))
    }

    fn audited(&mut self, seq: u64, status: u16, result: Option<&str>) -> Result<(), StoreError> {
        let key = self.key(&numbered(AUDIT, seq));
        let found: Option<AuditRecord> = parsed(&self.get(key.clone(), None)?)?;
        let Some(mut record) = found else {
            // It is not kept any more.
            return Ok(());
        };
        (record.status, record.result) = (Some(status), result.map(str::to_owned));
        let value = serde_json::to_vec(&record)?;
        let ops = match status {
            FORBIDDEN => vec![
                TxnOp::delete(key, None),
                TxnOp::put(self.key(&numbered(AUDIT_FORBIDDEN, seq)), value, None),
            ],
            _ => vec![TxnOp::put(key, value, None)],
        };
        self.txn(Txn::new().and_then(ops))?;
        Ok(())
    }

    fn audit_log(&mut self, after: u64, limit: u64) -> Result<Vec<AuditRecord>, StoreError> {
        let mut all = Vec::new();
        for kind in [AUDIT, AUDIT_FORBIDDEN] {
            let from = numbered(kind, after.saturating_add(1));
            let found = self.range(from, &end(kind), limit, 0)?;
            all.extend(
                found
                    .into_iter()
                    .map(|(_, record): (_, AuditRecord)| record),
            );
        }
        all.sort_by_key(|record| record.seq);
        all.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
        Ok(all)
    }
}

#[cfg(test)]
mod tests;
