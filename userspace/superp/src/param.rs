// SPDX-License-Identifier: GPL-2.0 OR MIT
//! `superp param`.

use crate::failure::Failure;
use crate::out::{Out, Table};
use clap::Subcommand;
use serde_json::json;
use superp_netlink::{Client, Param};
use superp_units::quantity;

#[derive(Subcommand)]
pub(crate) enum ParamVerb {
    /// Show parameters with their ranges.
    #[command(alias = "list")]
    Show {
        /// Only this one, with what it does.
        name: Option<String>,
    },
    /// Set a parameter. Connections that exist keep their values.
    Set {
        /// Its name.
        name: String,
        /// The value, or default. Times have units: 2s, 500us.
        value: String,
    },
}

pub(crate) fn run(verb: Option<ParamVerb>, out: &mut Out) -> Result<(), Failure> {
    let mut client = Client::open()?;
    match verb {
        None | Some(ParamVerb::Show { name: None }) => {
            let params = client.params()?;
            out.either(&params, |out| table(&params, out))
        }
        Some(ParamVerb::Show { name: Some(name) }) => {
            let param = client.param(&name)?;
            out.either(&[&param], |out| one(&param, out))
        }
        Some(ParamVerb::Set { name, value }) => {
            let param = client.param(&name)?;
            let value = match value.as_str() {
                "default" => param.default,
                text => quantity(&name, text, &param.unit)?,
            };
            client.set_param(&name, value)?;
            out.done(&json!({ "name": name, "value": value }))
        }
    }
}

fn range(param: &Param) -> String {
    match param.max {
        u64::MAX => format!("{}..", param.min),
        max => format!("{}..{max}", param.min),
    }
}

fn table(params: &[Param], out: &mut Out) -> Result<(), Failure> {
    let mut table = Table::new(&["NAME", ">VALUE", ">DEFAULT", "RANGE", "UNIT", "FOR"]);
    for param in params {
        table.row([
            param.name.clone(),
            param.value.to_string(),
            param.default.to_string(),
            range(param),
            param.unit.clone(),
            scope(param).into(),
        ]);
    }
    table.print(out, "no parameters")
}

fn scope(param: &Param) -> &'static str {
    if param.per_conn {
        "connection"
    } else {
        "node"
    }
}

fn one(param: &Param, out: &mut Out) -> Result<(), Failure> {
    let Param {
        name,
        value,
        default,
        unit,
        doc,
        ..
    } = param;
    out.line(format_args!("{name} {value} {unit}"))?;
    out.line(format_args!("    {doc}."))?;
    let range = range(param);
    let scope = scope(param);
    out.line(format_args!(
        "    range {range}, default {default}, set for each {scope}"
    ))
}
