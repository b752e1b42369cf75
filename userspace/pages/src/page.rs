// SPDX-License-Identifier: GPL-2.0 OR MIT
//! One manual page.

use crate::{Entry, Manual, Page};
use clap::Command;
use clap_mangen::roff::{bold, roman, Roff};
use clap_mangen::Man;
use std::fs;
use std::io::{self, Write};
use std::path::Path;

/// What a page belongs to.
const BOOK: &str = "SUPERp for Linux";

pub(crate) fn write(
    manual: &Manual,
    page: &Page,
    command: Command,
    folder: &Path,
) -> io::Result<()> {
    let visible = |command: &Command| command.get_subcommands().any(|below| !below.is_hide_set());
    let (options, below, more) = (
        command
            .get_arguments()
            .any(|argument| !argument.is_hide_set()),
        visible(&command),
        command.get_after_long_help().is_some() || command.get_after_help().is_some(),
    );
    let others = see_also(manual, page, &command);
    let man = Man::new(command).source(BOOK).manual(BOOK);
    let mut text = Vec::new();
    man.render_title(&mut text)?;
    man.render_name_section(&mut text)?;
    man.render_synopsis_section(&mut text)?;
    man.render_description_section(&mut text)?;
    if options {
        man.render_options_section(&mut text)?;
    }
    if below {
        man.render_subcommands_section(&mut text)?;
    }
    if more {
        man.render_extra_section(&mut text)?;
    }
    let mut roff = Roff::new();
    examples(&mut roff, page.examples);
    let exit = match page.exit {
        [] => manual.exit,
        exit => exit,
    };
    list(&mut roff, "EXIT STATUS", exit.iter());
    list(&mut roff, "FILES", page.files.iter().chain(manual.files));
    roff.control("SH", ["SEE ALSO"]);
    roff.text([roman(others.join(", "))]);
    roff.to_writer(&mut text)?;
    let mut file = fs::File::create(folder.join(man.get_filename()))?;
    file.write_all(&text)
}

fn examples(roff: &mut Roff, examples: &[Entry]) {
    roff.control("SH", ["EXAMPLES"]);
    for (what, line) in examples {
        roff.control("PP", []);
        roff.text([roman(*what)]);
        roff.control("PP", []);
        roff.control("RS", ["4"]);
        roff.control("nf", []);
        roff.text([bold(*line)]);
        roff.control("fi", []);
        roff.control("RE", []);
    }
}

fn list<'a>(roff: &mut Roff, title: &str, entries: impl Iterator<Item = &'a Entry>) {
    roff.control("SH", [title]);
    for (term, text) in entries {
        roff.control("TP", []);
        roff.text([bold(*term)]);
        roff.text([roman(*text)]);
    }
}

/// The page above, those below, and what the page and the manual name; not itself.
fn see_also(manual: &Manual, page: &Page, command: &Command) -> Vec<String> {
    let named = |words: &str| format!("{}(1)", words.replace(' ', "-"));
    let own = named(page.command);
    let above = page.command.rsplit_once(' ').map(|(above, _)| named(above));
    let below = command
        .get_subcommands()
        .filter(|below| !below.is_hide_set());
    let below = below.map(|below| named(&format!("{} {}", page.command, below.get_name())));
    let others = page.see_also.iter().chain(manual.see_also);
    let mut all = Vec::new();
    for name in above
        .into_iter()
        .chain(below)
        .chain(others.map(|name| (*name).to_owned()))
    {
        if name != own && !all.contains(&name) {
            all.push(name);
        }
    }
    all
}
