// SPDX-License-Identifier: GPL-2.0 OR MIT
//! How agents are talked to; and certificates that change, or are revoked.

use super::{Manager, PATIENCE};
use crate::state::now_ms;
use crate::store::StoreError;
use std::collections::BTreeSet;
use std::time::Duration;
use superp_control::manager::AuditRecord;
use superp_control::{AgentClient, ClientError};
use superp_tls::{Live, Revocations, Role, Tls};

/// What the record of a certificate that was revoked begins with.
const REVOKE: &str = "revoke ";

/// Longest text of such a record, characters.
const LONGEST: usize = 300;

/// How agents are talked to.
pub enum Way {
    /// In clear, and only those on this host.
    Loopback,
    /// In clear, wherever they are.
    Plain,
    /// With TLS; agents show certificates of the role agent.
    Tls(Live),
}

impl Way {
    /// Agents elsewhere are not talked to in clear unless that was asked for.
    pub(super) fn reaches<'a>(
        &self,
        mut agents: impl Iterator<Item = (&'a String, &'a String)>,
    ) -> Result<(), String> {
        match agents.find(|(_, agent)| !is_loopback(agent)) {
            Some((name, agent)) if matches!(self, Self::Loopback) => Err(format!(
                "the agent of {name} is at {agent}, on another host, and this manager talks in clear; \
                 start it with --tls DIR, or with --plain-tcp if the network between them is trusted"
            )),
            _ => Ok(()),
        }
    }

    /// What agents are asked with.
    pub(super) fn http(&self) -> Result<reqwest::Client, String> {
        match self {
            Self::Tls(live) => asking(Some(&live.now())),
            Self::Loopback | Self::Plain => asking(None),
        }
    }
}

fn asking(tls: Option<&Tls>) -> Result<reqwest::Client, String> {
    let http = superp_control::http(tls, Role::Agent)?;
    let http = http.connect_timeout(Duration::from_secs(2)).build();
    http.map_err(|error| error.to_string())
}

/// Whether "HOST:PORT" is on this host.
fn is_loopback(agent: &str) -> bool {
    let host = agent.rsplit_once(':').map_or(agent, |(host, _)| host);
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost"
        || host
            .parse::<std::net::IpAddr>()
            .is_ok_and(|addr| addr.is_loopback())
}

/// What an agent was told last: its instance, and the number of the list.
pub(super) type Told = (String, u64);

impl Manager {
    /// Takes up certificates that change, and lists of what is revoked, for ever.
    pub(super) fn follow(&self) {
        let Way::Tls(live) = &self.shared.way else {
            return;
        };
        let (manager, mut changes) = (self.clone(), live.changes());
        tokio::spawn(async move {
            let mut recorded = Revocations::default();
            loop {
                let tls = changes.borrow_and_update().clone();
                match asking(Some(&tls)) {
                    Ok(http) => manager.shared.http.replace(http),
                    Err(why) => tracing::error!("no HTTP client: {why}"),
                }
                match manager.record(tls.revoked(), &recorded) {
                    Ok(()) => recorded = Revocations::clone(tls.revoked()),
                    Err(error) => tracing::error!("the audit log does not have it: {error}"),
                }
                for slot in manager.lock().slots.values() {
                    slot.poke.notify_one();
                }
                if changes.changed().await.is_err() {
                    return;
                }
            }
        });
    }

    /// Records what was revoked, each certificate once.
    fn record(&self, list: &Revocations, before: &Revocations) -> Result<(), StoreError> {
        let new = list.beyond(before);
        if new.is_empty() {
            return Ok(());
        }
        // Another manager of this store, or this one before it was started again, may have done it.
        let mut there = BTreeSet::new();
        let mut after = 0;
        loop {
            let page = self.audit_log(after, 1000)?;
            let Some(last) = page.last() else { break };
            after = last.seq;
            let requests = page.into_iter().map(|record| record.request);
            there.extend(requests.filter(|request| request.starts_with(REVOKE)));
        }
        for line in new {
            let line: String = line.chars().take(LONGEST).collect();
            let (what, how) = line.split_once(", ").unwrap_or((&line, ""));
            let record = AuditRecord {
                seq: 0,
                time_ms: now_ms(),
                who: "authority".into(),
                role: None,
                request: format!("{REVOKE}{what}"),
                status: None,
                result: None,
            };
            if !there.contains(&record.request) {
                let seq = self.audit(&record)?;
                let result = format!("list {}, {how}", list.number());
                self.audited(seq, 200, Some(&result))?;
            }
        }
        Ok(())
    }

    /// Tells an agent what is revoked, once in its life, and when that changes.
    pub(super) async fn tell_revoked(
        &self,
        name: &str,
        client: &AgentClient,
        instance: &str,
        told: &mut Told,
    ) {
        let Way::Tls(live) = &self.shared.way else {
            return;
        };
        let tls = live.now();
        let number = tls.revoked().number();
        if number == 0 || (told.0 == instance && told.1 == number) {
            return;
        }
        let asked = client.revoke(tls.revoked().text());
        match tokio::time::timeout(PATIENCE, asked).await {
            Ok(Ok(there)) => tracing::info!("{name}: has the revocation list {there}"),
            Ok(Err(ClientError::Refused(problem))) => {
                tracing::warn!("{name}: does not take the revocation list {number}: {problem}");
            }
            // It is told again.
            Ok(Err(ClientError::Transport(_))) | Err(_) => return,
        }
        *told = (instance.to_owned(), number);
    }
}
