// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The connections of a job, checked as those of a fabric file are.

use super::check::{all_to_all, Checker};
use super::file::File;
use super::hosts;
use super::{Fabric, Link};
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

/// The connections of a job in its partition: each of its nodes is connected to each other one.
/// `fabric` is what runs already; the connections are checked against it. Each mistake is a
/// sentence.
pub fn links(spec: &JobSpec, partition: u32, fabric: Fabric) -> Result<Vec<Link>, Vec<String>> {
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
    let mut checker = Checker {
        fabric,
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
