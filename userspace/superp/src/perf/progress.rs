// SPDX-License-Identifier: GPL-2.0 OR MIT
//! A line on the terminal that tells how far a measurement is.

use indicatif::{ProgressBar, ProgressStyle};
use std::time::Duration;

/// How often the line changes.
const PERIOD: Duration = Duration::from_millis(200);

/// The line; there is none where standard error is no terminal.
pub(super) struct Progress(ProgressBar);

impl Progress {
    /// `count`: requests in all, if that is known.
    pub(super) fn new(count: Option<u64>) -> Self {
        let bar = match count {
            Some(count) => ProgressBar::new(count),
            None => ProgressBar::no_length(),
        };
        let template = match count {
            Some(_) => "{elapsed} {bar:30} {human_pos}/{human_len} requests, {per_sec}",
            None => "{elapsed} {human_pos} requests, {per_sec}",
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        if !bar.is_hidden() {
            bar.enable_steady_tick(PERIOD);
        }
        Self(bar)
    }

    /// So many requests are done. Cheap.
    pub(super) fn at(&self, done: u64) {
        if !self.0.is_hidden() {
            self.0.set_position(done);
        }
    }

    /// Removes the line.
    pub(super) fn end(&self) {
        self.0.finish_and_clear();
    }
}
