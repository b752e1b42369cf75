// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Jobs that are made and ended.

use super::requests::at_work;
use super::{Manager, Refusal};
use crate::fabric::{hosts, job_links};
use crate::plan::jobs;
use crate::state::{now_ms, JobRecord};
use superp_control::manager::JobSpec;
use tokio::sync::watch;

impl Manager {
    /// Makes a job, or finds the one that is the same: its partition, and whether it was made now.
    pub fn make_job(&self, spec: &JobSpec) -> Result<(u32, bool), Refusal> {
        let wrong = |(cause, remedy)| Refusal::Job(vec![format!("{cause}; {remedy}")]);
        hosts::name_of(&spec.name)
            .map_err(|(cause, remedy)| wrong((cause.replace("of a host", "of a job"), remedy)))?;
        let hosts = hosts::expand(&spec.hosts).map_err(wrong)?;
        let mut hosts: Vec<_> = hosts.into_iter().map(|host| host.name).collect();
        hosts.sort();
        let mut inner = self.lock();
        let state = &inner.state;
        if let Some((partition, job)) = state.job(&spec.name) {
            if job.hosts == hosts && job.settings == spec.settings {
                return Ok((partition, false));
            }
            return Err(Refusal::Conflict(format!(
                "there is a job {0} already, on {1}, with other nodes or settings; remove it first, \
                 superp fabric job remove {0}, or take another name",
                spec.name,
                job.hosts.join(",")
            )));
        }
        at_work(state)?;
        let partition = jobs::draw(state, || {
            getrandom::u32().map_err(|error| format!("there are no random numbers: {error}"))
        });
        let partition = partition.map_err(Refusal::Conflict)?;
        let links = job_links(spec, partition, state.as_fabric()).map_err(Refusal::Job)?;
        let job = JobRecord {
            name: spec.name.clone(),
            hosts,
            settings: spec.settings.clone(),
            made_ms: now_ms(),
            ended_ms: None,
        };
        let changes = jobs::make(state, partition, job, &links, now_ms());
        let changes = changes.map_err(Refusal::Conflict)?;
        self.commit(&mut inner, &changes)?;
        self.shared.wake.notify_one();
        Ok((partition, true))
    }

    /// Ends the job of this name; if a partition is given, only if it is the one in it.
    pub fn end_job(&self, name: &str, only: Option<u32>) -> Result<(), Refusal> {
        let mut inner = self.lock();
        let found = inner.state.job(name);
        let found = found.filter(|(partition, _)| only.is_none_or(|only| only == *partition));
        let Some((partition, job)) = found else {
            return Err(Refusal::NotFound(format!("there is no job {name}")));
        };
        let changes = jobs::end(&inner.state, partition, job, now_ms());
        self.commit(&mut inner, &changes)?;
        self.shared.wake.notify_one();
        Ok(())
    }

    /// The number of decisions, as it changes: after each something may be otherwise.
    pub fn decided(&self) -> watch::Receiver<u64> {
        self.shared.decisions.subscribe()
    }
}
