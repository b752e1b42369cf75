// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Who leads: the manager that wrote the key, as long as its lease of etcd lasts.

use super::client::{Client, Failure, REQUEST};
use super::StoreError;
use etcd_client::{Compare, CompareOp, PutOptions, Txn, TxnOp};
use serde::{Deserialize, Serialize};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// Who leads.
#[derive(Serialize, Deserialize)]
struct Leader {
    /// The URL of its interface.
    address: String,
}

/// A lease that was granted, and makes its owner the leader.
#[derive(Clone)]
pub struct Lease {
    client: Client,
    key: String,
    id: i64,
    /// Until when it lasts at least.
    until: Arc<Mutex<Instant>>,
    /// Why it is over.
    over: Arc<watch::Sender<Option<String>>>,
}

/// What came of an attempt to lead.
pub enum Campaign {
    /// This manager leads.
    Won(Lease),
    /// The manager at this URL does.
    Lost(String),
}

impl Lease {
    /// Makes this manager the leader unless there is one.
    pub(super) fn campaign(
        client: &Client,
        key: &str,
        address: &str,
        ttl: Duration,
    ) -> Result<Campaign, StoreError> {
        if let Some(leader) = leader(client, key)? {
            return Ok(Campaign::Lost(leader));
        }
        let mut leases = client.leases();
        let seconds = i64::try_from(ttl.as_secs()).unwrap_or(i64::MAX);
        let asked = Instant::now();
        let granted = client.wait(async move { leases.grant(seconds, None).await })?;
        let lease = Self {
            client: client.clone(),
            key: key.to_owned(),
            id: granted.id(),
            until: Arc::new(Mutex::new(asked + ttl)),
            over: Arc::new(watch::channel(None).0),
        };
        let address = address.to_owned();
        let value = serde_json::to_vec(&Leader { address })?;
        let put = TxnOp::put(key, value, Some(PutOptions::new().with_lease(lease.id)));
        let txn = Txn::new()
            .when([Compare::create_revision(key, CompareOp::Equal, 0)])
            .and_then([put]);
        let mut kv = client.kv();
        let written = client.wait(async move { kv.txn(txn).await });
        if written.as_ref().is_ok_and(|written| written.succeeded()) {
            client.spawn(lease.clone().keep(ttl));
            return Ok(Campaign::Won(lease));
        }
        // Whatever became of the key, it goes with the lease.
        lease.resign();
        written?;
        let leader = leader(client, key)?;
        Ok(Campaign::Lost(leader.unwrap_or_default()))
    }

    /// Keeps it alive until it cannot be.
    async fn keep(self, ttl: Duration) {
        let mut leases = self.client.leases();
        let mut pause = ttl / 3;
        loop {
            tokio::time::sleep(pause).await;
            if self.over.borrow().is_some() {
                return;
            }
            // What etcd adds to is the time when it has the request, which is later.
            let asked = Instant::now();
            let why = match tokio::time::timeout(REQUEST, leases.keep_alive(self.id)).await {
                Ok(Ok(_)) => {
                    self.extend(asked + ttl);
                    pause = ttl / 3;
                    continue;
                }
                Ok(Err(etcd_client::Error::LeaseKeepAliveError(why))) => {
                    self.set(asked);
                    why
                }
                Ok(Err(error)) => Failure::from(error).to_string(),
                Err(_) => format!("etcd: no answer within {} s", REQUEST.as_secs()),
            };
            if self.lasts().is_err() {
                self.over.send_replace(Some(why));
                return;
            }
            tracing::warn!("the lease is not renewed yet: {why}");
            pause = Duration::from_millis(200);
        }
    }

    /// It was renewed, unless it has been given back meanwhile.
    pub(super) fn extend(&self, until: Instant) {
        let mut lasts = self.until.lock().unwrap_or_else(PoisonError::into_inner);
        if self.over.borrow().is_none() {
            *lasts = until;
        }
    }

    pub(super) fn set(&self, until: Instant) {
        *self.until.lock().unwrap_or_else(PoisonError::into_inner) = until;
    }

    /// Whether it lasts: from the moment on when it may be over it does not.
    pub(super) fn lasts(&self) -> Result<(), StoreError> {
        let until = *self.until.lock().unwrap_or_else(PoisonError::into_inner);
        match Instant::now() < until {
            true => Ok(()),
            false => Err(over("it could not be renewed in time")),
        }
    }

    /// What holds as long as etcd has the lease and this manager leads by it.
    pub(super) fn compare(&self) -> Compare {
        Compare::lease(self.key.as_str(), CompareOp::Equal, self.id)
    }

    /// Waits until it is over; why.
    pub async fn over(&self) -> String {
        let mut why = self.over.subscribe();
        let found = why.wait_for(Option::is_some).await;
        let why = found.ok().and_then(|why| why.clone()).unwrap_or_default();
        over(&why).to_string()
    }

    /// Gives it back, so that the next manager need not wait. This one leads no more, whether etcd answers or not.
    pub fn resign(&self) {
        let mut lasts = self.until.lock().unwrap_or_else(PoisonError::into_inner);
        *lasts = Instant::now();
        self.over.send_replace(Some("it was given back".into()));
        drop(lasts);
        let (mut leases, id) = (self.client.leases(), self.id);
        if let Err(error) = self.client.wait(async move { leases.revoke(id).await }) {
            tracing::warn!("the lease is not given back, and ends by itself: {error}");
        }
    }
}

pub(super) fn over(why: &str) -> StoreError {
    StoreError::Lost(format!(
        "this manager leads no more, its lease is over: {why}"
    ))
}

/// The URL of who leads.
fn leader(client: &Client, key: &str) -> Result<Option<String>, StoreError> {
    let (mut kv, key) = (client.kv(), key.to_owned());
    let found = client.wait(async move { kv.get(key, None).await })?;
    let Some(found) = found.kvs().first() else {
        return Ok(None);
    };
    let leader: Leader = serde_json::from_slice(found.value())?;
    Ok(Some(leader.address))
}
