// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Numbers in what follows a question mark.

use serde::Deserialize;

/// A number that is asked with, as large as the documents say: `int64`.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(try_from = "u64")]
pub struct Number(u64);

impl TryFrom<u64> for Number {
    type Error = String;

    fn try_from(number: u64) -> Result<Self, String> {
        match i64::try_from(number) {
            Ok(_) => Ok(Self(number)),
            Err(_) => Err(format!("{number} is larger than {}", i64::MAX)),
        }
    }
}

impl From<Number> for u64 {
    fn from(number: Number) -> Self {
        number.0
    }
}
