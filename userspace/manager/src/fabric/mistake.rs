// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Mistakes in a fabric file, and how they are shown.

use std::fmt::Write;
use std::ops::Range;

/// A mistake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// Where it is: bytes of the file.
    pub span: Range<usize>,
    /// What is wrong.
    pub cause: String,
    /// What would be right.
    pub remedy: String,
}

/// The mistakes of a file, as text: for each the place, the line, and what to do.
pub fn show(path: &str, text: &str, mistakes: &[Mistake]) -> String {
    let mut out = String::new();
    for Mistake {
        span,
        cause,
        remedy,
    } in mistakes
    {
        let start = floor(text, span.start);
        let before = &text[..start];
        let line = before.matches('\n').count() + 1;
        let begin = before.rfind('\n').map_or(0, |at| at + 1);
        let source = text[begin..].lines().next().unwrap_or("");
        let column = before[begin..].chars().count() + 1;
        let end = floor(text, span.end).clamp(start, begin + source.len().max(start - begin));
        let marks = text[start..end].chars().count().max(1);
        // Tabs stand for themselves, so that the marks are under what they mark.
        let indent: String = before[begin..]
            .chars()
            .map(|c| if c == '\t' { '\t' } else { ' ' })
            .collect();
        let gutter = " ".repeat(line.to_string().len());
        // Writing to a string does not fail.
        let _ = writeln!(out, "{path}:{line}:{column}: {cause}");
        let _ = writeln!(out, "  {line} | {source}");
        let _ = writeln!(out, "  {gutter} | {indent}{}", "^".repeat(marks));
        let _ = writeln!(out, "  {gutter} = {remedy}");
    }
    out
}

/// The start of the character that is at or around this byte.
fn floor(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}
