// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Words of the command line and what they mean.

use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use clap::{error::ErrorKind, Arg, Command, Error};
use std::ffi::OsStr;
use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;
use superp_units::number;

/// A key of a `KEY VALUE` list, and what it means.
pub(crate) type Setting = (&'static str, &'static str);

/// Takes any word; offers keys for completion.
#[derive(Clone)]
pub(crate) struct Words(pub(crate) &'static [Setting]);

impl TypedValueParser for Words {
    type Value = String;

    fn parse_ref(
        &self,
        command: &Command,
        arg: Option<&Arg>,
        value: &OsStr,
    ) -> Result<String, Error> {
        if value.is_empty() {
            return Err(Error::raw(ErrorKind::InvalidValue, "an empty word\n").with_cmd(command));
        }
        StringValueParser::new().parse_ref(command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let values = self
            .0
            .iter()
            .map(|(key, help)| PossibleValue::new(*key).help(*help));
        Some(Box::new(values))
    }
}

/// Fails where a key is given twice: the first value would be lost. Keys in `of_part` are those of the part
/// that begins with the key `part`, which may come several times.
pub(crate) fn once(pairs: &[(&str, &str)], part: &str, of_part: &[&str]) -> Result<(), String> {
    let mut seen: Vec<(&str, &str)> = Vec::new();
    for (key, value) in pairs {
        if *key == part {
            seen.retain(|(key, _)| !of_part.contains(key));
        } else if let Some((_, first)) = seen.iter().find(|(other, _)| other == key) {
            return Err(format!("{key} is given twice: {first} and {value}"));
        } else {
            seen.push((key, value));
        }
    }
    Ok(())
}

/// Pairs of key and value.
pub(crate) fn pairs(words: &[String]) -> Result<Vec<(&str, &str)>, String> {
    words
        .chunks(2)
        .map(|pair| match pair {
            [key, value] => Ok((key.as_str(), value.as_str())),
            _ => Err(format!("{} needs a value", pair[0])),
        })
        .collect()
}

/// The value of a key, or what is wrong with it.
pub(crate) fn value<T: FromStr>(key: &str, value: &str, what: &str) -> Result<T, String> {
    value
        .parse()
        .map_err(|_| format!("{key} {value}: not {what}"))
}

/// on or off.
pub(crate) fn switch(key: &str, value: &str) -> Result<bool, String> {
    match value {
        "on" | "yes" | "1" => Ok(true),
        "off" | "no" | "0" => Ok(false),
        _ => Err(format!("{key} {value}: not on or off")),
    }
}

/// A number of an integer type, as [`number`].
pub(crate) fn small<T: TryFrom<u64>>(key: &str, text: &str) -> Result<T, String> {
    let number = number(text).map_err(|error| format!("{key} {error}"))?;
    T::try_from(number).map_err(|_| format!("{key} {text}: too large"))
}

/// Immediate data: 32 bits, as [`number`].
pub(crate) fn immediate(text: &str) -> Result<u32, String> {
    small("immediate", text)
}

/// How often something is done: at least once.
pub(crate) fn times(text: &str) -> Result<u64, String> {
    match text.parse() {
        Ok(count @ 1..) => Ok(count),
        _ => Err("not a number of 1 or more".into()),
    }
}

/// An address, or none.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OptionalAddr(pub(crate) IpAddr);

pub(crate) fn address_or_none(text: &str) -> Result<OptionalAddr, String> {
    match text {
        "none" => Ok(OptionalAddr(Ipv6Addr::UNSPECIFIED.into())),
        text => crate::host::any(text).map(OptionalAddr),
    }
}

/// A number of bytes: `4096`, `64K`, `16M`, `1G`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Size(pub(crate) u64);

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text} is not a number of bytes, such as 4096, 64K, 16M or 1G");
        let (digits, shift) = match text.char_indices().last() {
            Some((at, 'k' | 'K')) => (&text[..at], 10),
            Some((at, 'm' | 'M')) => (&text[..at], 20),
            Some((at, 'g' | 'G')) => (&text[..at], 30),
            _ => (text, 0),
        };
        let number = digits.parse::<u64>().map_err(|_| wrong())?;
        number.checked_mul(1 << shift).map(Size).ok_or_else(wrong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_suffixes() {
        for (text, bytes) in [
            ("0", 0),
            ("1500", 1500),
            ("64K", 65536),
            ("16m", 1 << 24),
            ("2G", 1 << 31),
        ] {
            assert_eq!(text.parse(), Ok(Size(bytes)));
        }
        for wrong in ["", "K", "-1", "1T", "1.5M", "99999999999G", "1é"] {
            assert!(wrong.parse::<Size>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn numbers_fit_their_type() {
        assert_eq!(small("cid", "0xffff"), Ok(u16::MAX));
        assert!(small::<u16>("cid", "65536").is_err());
    }

    #[test]
    fn words_come_in_pairs() {
        let words: Vec<String> = ["a", "1", "b", "2"].map(String::from).to_vec();
        assert_eq!(pairs(&words), Ok(vec![("a", "1"), ("b", "2")]));
        assert_eq!(pairs(&words[..3]), Err("b needs a value".into()));
    }

    #[test]
    fn what_is_done_is_done_once_at_least() {
        assert_eq!(times("1"), Ok(1));
        assert!(times("0").is_err() && times("").is_err());
    }

    #[test]
    fn keys_are_given_once() {
        let once = |text: &str| {
            let words: Vec<String> = text.split(' ').map(String::from).collect();
            super::once(&pairs(&words).unwrap(), "path", &["peer", "local"])
        };
        assert_eq!(once("peer a path x peer b path y peer c ext on"), Ok(()));
        for (wrong, text) in [
            ("dev a dev b", "dev is given twice: a and b"),
            ("ext on path x ext on", "ext is given twice: on and on"),
            ("path x peer b peer c", "peer is given twice: b and c"),
        ] {
            assert_eq!(once(wrong), Err(text.into()));
        }
    }
}
