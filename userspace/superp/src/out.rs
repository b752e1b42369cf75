// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Output: tables for people, JSON for programs.

use crate::failure::Failure;
use serde::Serialize;
use std::borrow::Cow;
use std::fmt::Display;
use std::io::{self, BufWriter, Stdout, Write};

/// Standard output in the form that was asked for.
pub(crate) struct Out {
    to: BufWriter<Stdout>,
    json: bool,
    /// Something was printed.
    used: bool,
}

/// Fails if there was no standard output when the process began: what is printed then goes nowhere, as Rust
/// has opened /dev/null in its place.
pub(crate) fn check_open() -> Result<(), Failure> {
    match superp_sys::was_closed(&io::stdout()) {
        true => Err(io::Error::from_raw_os_error(libc::EBADF).into()),
        false => Ok(()),
    }
}

impl Out {
    pub(crate) fn new(json: bool) -> Self {
        let to = BufWriter::new(io::stdout());
        Self {
            to,
            json,
            used: false,
        }
    }

    /// JSON is wanted.
    pub(crate) fn is_json(&self) -> bool {
        self.json
    }

    /// One line of JSON.
    pub(crate) fn json(&mut self, value: &impl Serialize) -> Result<(), Failure> {
        self.used = true;
        serde_json::to_writer(&mut self.to, value).map_err(io::Error::from)?;
        Ok(self.to.write_all(b"\n")?)
    }

    /// One line of text, or several.
    pub(crate) fn line(&mut self, text: impl Display) -> Result<(), Failure> {
        self.used = true;
        Ok(writeln!(self.to, "{}", printable(&text.to_string()))?)
    }

    /// JSON if wanted, else what `text` prints.
    pub(crate) fn either(
        &mut self,
        value: &impl Serialize,
        text: impl FnOnce(&mut Self) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        if self.json {
            self.json(value)
        } else {
            text(self)
        }
    }

    /// Says in JSON that a change was made; people see the prompt.
    pub(crate) fn done(&mut self, value: &impl Serialize) -> Result<(), Failure> {
        self.either(value, |_| Ok(()))
    }

    /// Prints a failure: for people to standard error, with `-j` also as an object.
    pub(crate) fn failure(&mut self, failure: &Failure) {
        eprintln!("superp: {}", printable(failure.text()));
        if let Some(hint) = failure.help() {
            eprintln!("hint: {}", printable(hint));
        }
        self.failure_json(failure);
    }

    /// The object of a failure, where JSON is wanted.
    pub(crate) fn failure_json(&mut self, failure: &Failure) {
        if self.json && !failure.is_told_in_json() {
            // Nothing can be done about a second failure.
            let _ = self.json(&failure.object()).and_then(|()| self.flush());
        }
    }

    pub(crate) fn flush(&mut self) -> Result<(), Failure> {
        if self.used {
            check_open()?;
        }
        Ok(self.to.flush()?)
    }
}

/// A table with aligned columns. A column whose name starts with `>` is aligned to the right.
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
    right: Vec<bool>,
}

impl Table {
    pub(crate) fn new(names: &[&str]) -> Self {
        let header = names.iter().map(|name| name.trim_start_matches('>').into());
        Self {
            rows: vec![header.collect()],
            right: names.iter().map(|name| name.starts_with('>')).collect(),
        }
    }

    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        // A line of its own would look like a row.
        let cells = cells.into_iter().map(|cell| cell.replace('\n', "\\u{a}"));
        // Before their width is taken.
        let cells = cells.map(|cell| printable(&cell).into_owned());
        self.rows.push(cells.collect());
    }

    /// Prints the table; `none` instead if it has no rows.
    pub(crate) fn print(&self, out: &mut Out, none: &str) -> Result<(), Failure> {
        if self.rows.len() == 1 {
            return out.line(none);
        }
        self.lines().into_iter().try_for_each(|line| out.line(line))
    }

    fn lines(&self) -> Vec<String> {
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.right.len()).map(width).collect();
        let line = |row: &Vec<String>| {
            let mut line = String::new();
            for ((cell, width), right) in row.iter().zip(&widths).zip(&self.right) {
                if *right {
                    line += &format!("{cell:>width$}  ");
                } else {
                    line += &format!("{cell:<width$}  ");
                }
            }
            line.trim_end().to_owned()
        };
        self.rows.iter().map(line).collect()
    }
}

/// Text without what terminals obey: whoever names a device or a program may put an escape sequence there.
pub(crate) fn printable(text: &str) -> Cow<'_, str> {
    let obeyed = |c: char| c.is_control() && c != '\n';
    if !text.contains(obeyed) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match obeyed(c) {
            true => shown.extend(c.escape_unicode()),
            false => shown.push(c),
        }
    }
    Cow::Owned(shown)
}

/// Bytes for people: `512 B`, `1.5 KiB`, `16 MiB`.
pub(crate) fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let power = (bytes.ilog2() / 10) as usize;
    let scaled = bytes as f64 / (1u64 << (10 * power)) as f64;
    let unit = UNITS[power - 1];
    if bytes % (1 << (10 * power)) == 0 {
        format!("{scaled:.0} {unit}")
    } else {
        format!("{scaled:.1} {unit}")
    }
}

/// A time for people: `850 ns`, `12.3 us`, `1.50 ms`, `2.00 s`.
pub(crate) fn time(ns: u64) -> String {
    let scaled = ns as f64;
    match ns {
        0..1_000 => format!("{ns} ns"),
        1_000..1_000_000 => format!("{:.1} us", scaled / 1e3),
        1_000_000..1_000_000_000 => format!("{:.2} ms", scaled / 1e6),
        _ => format!("{:.2} s", scaled / 1e9),
    }
}

/// A rate for people: bytes in so many seconds.
pub(crate) fn rate(amount: u64, seconds: f64) -> String {
    if seconds <= 0.0 {
        return "-".into();
    }
    format!("{}/s", bytes((amount as f64 / seconds) as u64))
}

/// A number with its thousands apart: `1 234 567`.
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at) % 3 == 0 {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_for_people() {
        for (n, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1 KiB"),
            (1536, "1.5 KiB"),
            (16 << 20, "16 MiB"),
            (u64::MAX, "16.0 EiB"),
        ] {
            assert_eq!(bytes(n), text);
        }
        for (n, text) in [
            (0, "0 ns"),
            (999, "999 ns"),
            (12_345, "12.3 us"),
            (1_500_000, "1.50 ms"),
            (2_000_000_000, "2.00 s"),
        ] {
            assert_eq!(time(n), text);
        }
        assert_eq!(count(0), "0");
        assert_eq!(count(999), "999");
        assert_eq!(count(1_234_567), "1 234 567");
        assert_eq!(rate(1 << 20, 0.5), "2 MiB/s");
        assert_eq!(rate(1, 0.0), "-");
    }

    #[test]
    fn nothing_is_printed_that_terminals_obey() {
        assert_eq!(printable("eth0\nµ"), "eth0\nµ");
        assert_eq!(
            printable("\x1b[31m\u{9b}1m\t\x7f"),
            "\\u{1b}[31m\\u{9b}1m\\u{9}\\u{7f}"
        );
        let mut table = Table::new(&["DEV", "STATE"]);
        table.row(["a\x1bc\nup".into(), "up".into()]);
        assert_eq!(
            table.lines(),
            ["DEV              STATE", "a\\u{1b}c\\u{a}up  up"]
        );
    }

    #[test]
    fn table_aligns_its_columns() {
        let mut table = Table::new(&["NAME", ">VALUE", "UNIT"]);
        table.row(["a".into(), "1".into(), "ns".into()]);
        table.row(["longer".into(), "12345678".into(), String::new()]);
        assert_eq!(
            table.lines(),
            [
                "NAME       VALUE  UNIT",
                "a              1  ns",
                "longer  12345678"
            ]
        );
    }
}
