// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The fabric file as it is written: TOML, every value with its place.

use serde::de::{Deserializer, Error, Unexpected, Visitor};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt;
use superp_control::Extensions;
use toml::Spanned;

/// Parameters, with the places of names and values.
pub(super) type ParamTable = BTreeMap<Spanned<String>, Spanned<ParamValue>>;

/// The value of a parameter.
pub(super) enum ParamValue {
    /// A number of the parameter's units.
    Number(u64),
    /// A time with its unit.
    Text(String),
}

impl<'de> Deserialize<'de> for ParamValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ParamVisitor)
    }
}

struct ParamVisitor;

impl Visitor<'_> for ParamVisitor {
    type Value = ParamValue;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number, or a time such as \"2s\"")
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<ParamValue, E> {
        let number = u64::try_from(value).map(ParamValue::Number);
        number.map_err(|_| E::invalid_value(Unexpected::Signed(value), &self))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<ParamValue, E> {
        Ok(ParamValue::Number(value))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<ParamValue, E> {
        Ok(ParamValue::Text(value.to_owned()))
    }
}

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
    #[serde(default)]
    pub(super) ext: Extensions,
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
