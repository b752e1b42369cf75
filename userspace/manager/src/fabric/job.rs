// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The connections of a job, checked as those of a fabric file are.

use super::check::{all_to_all, Checker};
use super::file::File;
use super::hosts;
use super::{Fabric, Link, OnBroken};
use crate::state::State;
use serde::Serialize;
use superp_control::manager::{JobSettings, JobSpec};

/// A job as a fabric file has connections.
#[derive(Serialize)]
struct Text<'a> {
    fabric: &'a str,
    connections: [Table<'a>; 1],
}

#[derive(Serialize)]
struct Table<'a> {
    mesh: &'a str,
    partition: u32,
    #[serde(flatten)]
    settings: &'a JobSettings,
}

/// All nodes of a job connected to all, in its partition, on top of what the fabric has; or the mistakes, a
/// sentence each.
pub fn links(spec: &JobSpec, partition: u32, state: &State) -> Result<Vec<Link>, Vec<String>> {
    let text = Text {
        fabric: &spec.name,
        connections: [Table {
            mesh: &spec.hosts,
            partition,
            settings: &spec.settings,
        }],
    };
    let text = toml::to_string(&text).map_err(|error| vec![error.to_string()])?;
    let file: File = toml::from_str(&text).map_err(|error| vec![error.message().to_owned()])?;
    let nodes = state.members();
    let conns = state.conns.values().map(|conn| {
        let [a, b] = conn.nodes.clone();
        Link {
            a: a.clone().min(b.clone()),
            b: a.max(b),
            settings: conn.settings.clone(),
        }
    });
    let mut checker = Checker {
        fabric: Fabric {
            name: state.fabric.name.clone(),
            broken: OnBroken::default(),
            params: state.params.clone(),
            nodes: nodes
                .map(|(name, record)| (name.clone(), record.node.clone()))
                .collect(),
            links: conns.collect(),
        },
        mistakes: Vec::new(),
    };
    let before = checker.fabric.links.len();
    for table in &file.connections {
        checker.job(table);
    }
    let mistakes = checker.mistakes.into_iter();
    let told: Vec<_> = mistakes
        .map(|mistake| format!("{}; {}", mistake.cause, mistake.remedy))
        .collect();
    match told.is_empty() {
        true => Ok(checker.fabric.links.split_off(before)),
        false => Err(told),
    }
}

impl Checker {
    /// One node alone is a job too, with nobody to be connected to.
    fn job(&mut self, table: &toml::Spanned<super::file::Connections>) {
        let Some(list) = &table.get_ref().mesh else {
            return;
        };
        let Some(hosts) = self.ok(list.span(), hosts::expand(list.get_ref())) else {
            return;
        };
        let names: Vec<_> = hosts.into_iter().map(|host| host.name).collect();
        if names.iter().all(|name| self.known_one(name, &list.span())) {
            self.links(table, all_to_all(&names, &list.span()));
            self.counts(table.span());
        }
    }
}
