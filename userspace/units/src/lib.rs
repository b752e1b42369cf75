// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Times and numbers as people write them, in command lines and in files: `2s`, `500us`, `90d`, `0x10`.

#![forbid(unsafe_code)]

use std::ops::RangeInclusive;

/// Seconds of a minute.
pub const MINUTE: u64 = 60;
/// Seconds of an hour.
pub const HOUR: u64 = 60 * MINUTE;
/// Seconds of a day.
pub const DAY: u64 = 24 * HOUR;

/// Units of time, in nanoseconds. A unit stands before those that it ends with.
const UNITS: [(&str, f64); 7] = [
    ("ns", 1.0),
    ("us", 1e3),
    ("ms", 1e6),
    ("s", 1e9),
    ("m", 60e9),
    ("h", 3600e9),
    ("d", 86_400e9),
];

/// Digits of `text`, perhaps with a point, as a number.
fn decimal(text: &str) -> Option<f64> {
    let plain = text.chars().all(|c| c.is_ascii_digit() || c == '.');
    text.parse().ok().filter(|_| plain)
}

/// A time with its unit, in nanoseconds. A text without a unit is none.
fn nanoseconds(text: &str) -> Option<f64> {
    let named = UNITS.iter();
    let mut named = named.filter_map(|(unit, ns)| Some((text.strip_suffix(unit)?, ns)));
    let (digits, ns) = named.next()?;
    Some(decimal(digits)? * ns)
}

/// A number of 64 bits, decimal or with `0x` hexadecimal.
pub fn number(text: &str) -> Result<u64, String> {
    let parsed = match text.strip_prefix("0x").or(text.strip_prefix("0X")) {
        Some(hex) if !hex.starts_with('+') => u64::from_str_radix(hex, 16),
        _ => text.parse(),
    };
    parsed
        .map_err(|_| format!("{text} is not a number of 64 bits (decimal, or 0x and hexadecimal)"))
}

/// A time from 0 to a year, in seconds: a number of them, or one with its unit.
pub fn seconds(text: &str) -> Result<f64, String> {
    let seconds = match nanoseconds(text) {
        Some(ns) => Ok(ns / 1e9),
        None => text.parse(),
    };
    match seconds {
        Ok(seconds) if (0.0..=31_536_000.0).contains(&seconds) => Ok(seconds),
        _ => Err("not a time from 0 to a year, such as 2 (seconds), 500ms or 1.5m".into()),
    }
}

/// As [`seconds`], rounded up, for clocks that count whole ones.
pub fn whole_seconds(text: &str) -> Result<u64, String> {
    seconds(text).map(|seconds| seconds.ceil() as u64)
}

/// A time in `range`, in whole seconds. A text without a unit is a number of `plain` seconds.
pub fn between(text: &str, plain: u64, range: RangeInclusive<u64>) -> Result<u64, String> {
    let seconds = match nanoseconds(text) {
        Some(ns) => Some(ns / 1e9),
        None => decimal(text).map(|count| count * plain as f64),
    };
    let seconds = seconds.map(|seconds| seconds.ceil() as u64);
    seconds
        .filter(|seconds| range.contains(seconds))
        .ok_or_else(|| {
            let (least, most) = (span(*range.start()), span(*range.end()));
            format!("not a time from {least} to {most}")
        })
}

/// So many seconds as [`between`] reads them: `10s`, `5m`, `90d`.
pub fn span(seconds: u64) -> String {
    let units = [(DAY, "d"), (HOUR, "h"), (MINUTE, "m")];
    let fits = |(length, _): &(u64, &str)| seconds != 0 && seconds % length == 0;
    let (length, unit) = units.into_iter().find(fits).unwrap_or((1, "s"));
    format!("{}{unit}", seconds / length)
}

/// The value of a parameter that is counted in `unit`: a number, or a time with a unit of its own.
pub fn quantity(name: &str, text: &str, unit: &str) -> Result<u64, String> {
    let Some(ns) = nanoseconds(text) else {
        return number(text).map_err(|error| format!("{name} {error}"));
    };
    let each = match unit {
        "ns" => 1.0,
        "10 ns" => 10.0,
        "" => return Err(format!("{name} {text}: the value is a plain number")),
        unit => return Err(format!("{name} {text}: the value is a number of {unit}")),
    };
    let count = ns / each;
    // The numbers below are exact.
    match count.fract() == 0.0 && count < (1u64 << f64::MANTISSA_DIGITS) as f64 {
        true => Ok(count as u64),
        false => Err(format!("{name} {text}: not a number of {unit}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_decimal_or_hexadecimal() {
        assert_eq!(number("0x1f"), Ok(31));
        assert_eq!(number("31"), Ok(31));
        assert_eq!(number("0xffffffffffffffff"), Ok(u64::MAX));
        for wrong in ["", "0x", "0x+1", "1f", "0x10000000000000000"] {
            assert!(number(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn seconds_are_bounded() {
        assert_eq!(seconds("0.2"), Ok(0.2));
        for wrong in [
            "-1", "nan", "inf", "1e9", "x", "", "s", "9h9m", "-1s", "366d", "infs", "2y",
        ] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn times_have_units() {
        for (text, value) in [
            ("2s", 2.0),
            ("500ms", 0.5),
            ("1.5m", 90.0),
            ("250us", 0.000_25),
            ("10ns", 1e-8),
            ("2h", 7200.0),
            ("2d", 172_800.0),
        ] {
            assert_eq!(seconds(text), Ok(value), "{text}");
        }
        assert_eq!(whole_seconds("1500ms"), Ok(2));
        for (text, unit, value) in [
            ("2s", "ns", 2_000_000_000),
            ("1.5us", "ns", 1500),
            ("500us", "10 ns", 50_000),
            ("2000", "ns", 2000),
            ("0x10", "packets", 16),
        ] {
            assert_eq!(quantity("name", text, unit), Ok(value), "{text}");
        }
        for (text, unit, part) in [
            ("2s", "packets", "name 2s: the value is a number of packets"),
            ("2s", "", "plain number"),
            ("15ns", "10 ns", "not a number of 10 ns"),
            ("0.5ns", "ns", "not a number of ns"),
            ("many", "ns", "name many is not a number"),
        ] {
            let wrong = quantity("name", text, unit).unwrap_err();
            assert!(wrong.contains(part), "{wrong}");
        }
    }

    #[test]
    fn times_between_two_others() {
        for (text, seconds) in [
            ("30", 30 * DAY),
            ("12h", 12 * HOUR),
            ("90d", 90 * DAY),
            ("1.5", 36 * HOUR),
            ("59999ms", 60),
        ] {
            assert_eq!(
                between(text, DAY, MINUTE..=3650 * DAY),
                Ok(seconds),
                "{text}"
            );
        }
        for wrong in [
            "0",
            "3651",
            "1ns",
            "-1",
            "1e3",
            "nan",
            "",
            "d",
            "99999999999999999999",
        ] {
            assert_eq!(
                between(wrong, DAY, MINUTE..=3650 * DAY),
                Err("not a time from 1m to 3650d".into()),
                "{wrong}"
            );
        }
    }

    #[test]
    fn spans_are_what_is_read() {
        for text in ["0s", "1s", "90s", "5m", "12h", "365d", "36h"] {
            let seconds = between(text, 1, 0..=u64::MAX).unwrap();
            assert_eq!(span(seconds), text);
        }
    }
}
