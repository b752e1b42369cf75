// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The fabric file as it is written: TOML, every value with its place.

use super::{check, Fabric, Mistake};
use serde::Deserialize;
use std::collections::BTreeMap;
use toml::Spanned;

/// Parameters, with the places of names and values.
pub(super) type ParamTable = BTreeMap<Spanned<String>, Spanned<u64>>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    pub(super) fabric: Spanned<String>,
    pub(super) broken: Option<Spanned<String>>,
    #[serde(default)]
    pub(super) parameters: ParamTable,
    #[serde(default)]
    pub(super) nodes: Vec<Spanned<Nodes>>,
    #[serde(default)]
    pub(super) connections: Vec<Spanned<Connections>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Nodes {
    pub(super) hosts: Spanned<String>,
    pub(super) agent: Spanned<String>,
    pub(super) address: Spanned<String>,
    pub(super) ports: Spanned<Vec<FilePort>>,
    pub(super) rma: Option<Spanned<FileRma>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FileRma {
    pub(super) base: Spanned<u64>,
    pub(super) size: Spanned<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FilePort {
    pub(super) dev: Spanned<String>,
    pub(super) encap: Option<Vec<Spanned<String>>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Connections {
    pub(super) mesh: Option<Spanned<String>>,
    pub(super) ring: Option<Spanned<String>>,
    pub(super) pairs: Option<Spanned<Vec<Spanned<Vec<String>>>>>,
    pub(super) encap: Option<Spanned<String>>,
    pub(super) order: Option<Spanned<String>>,
    #[serde(default)]
    pub(super) spray: Option<Spanned<bool>>,
    #[serde(default = "yes")]
    pub(super) ext: bool,
    #[serde(default)]
    pub(super) partition: u32,
    #[serde(default)]
    pub(super) tclass: u8,
    pub(super) hop_limit: Option<Spanned<u8>>,
    pub(super) mtu: Option<Spanned<u32>>,
    pub(super) window: Option<Spanned<u64>>,
    #[serde(default)]
    pub(super) parameters: ParamTable,
}

/// Reads a fabric file; with any mistake there is no fabric, and all that were found are told.
pub fn read(text: &str) -> Result<Fabric, Vec<Mistake>> {
    let file: File = toml::from_str(text).map_err(|error| {
        let cause = error.message().lines().collect::<Vec<_>>().join(": ");
        vec![Mistake {
            span: error.span().unwrap_or(0..0),
            remedy: remedy(&cause).into(),
            cause,
        }]
    })?;
    check::check(&file)
}

/// What to do about a mistake that the TOML reader found.
fn remedy(cause: &str) -> &'static str {
    if cause.starts_with("unknown field") {
        "use one of the names above, or leave it out"
    } else if cause.starts_with("missing field") {
        "add it to this table"
    } else if cause.starts_with("invalid type") || cause.starts_with("invalid value") {
        "write a value of the kind that is expected"
    } else if cause.starts_with("duplicate key") {
        "leave one of the two out"
    } else {
        "the file is TOML, see https://toml.io; texts stand in double quotes"
    }
}

fn yes() -> bool {
    true
}
