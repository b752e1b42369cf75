// SPDX-License-Identifier: GPL-2.0 OR MIT
//! From the text of a fabric file to the fabric.

use super::check::check;
use super::file::File;
use super::{Fabric, Mistake};

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
    check(&file)
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
