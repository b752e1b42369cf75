// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Manual pages and shell completions of SUPERp's programs. What a program can do and how it is asked is told by the
//! definition of its command line; a [`Manual`] has what that cannot tell. [`Manual::faults`] holds both together: each
//! command has examples, and each example is one that the command line takes.

#![forbid(unsafe_code)]

mod page;

use clap::{Args, Command, ValueEnum};
use clap_complete::Shell;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// A term, and what is said of it.
pub type Entry = (&'static str, &'static str);

/// What the page of one command says besides.
#[derive(Clone, Copy)]
pub struct Page {
    /// Its words: `superp conn add`.
    pub command: &'static str,
    /// What each is for, and the line to type.
    pub examples: &'static [Entry],
    /// In place of those of the manual, if there are some.
    pub exit: &'static [Entry],
    /// Besides those of the manual.
    pub files: &'static [Entry],
    /// Besides those of the manual, and the commands above and below.
    pub see_also: &'static [&'static str],
}

impl Page {
    /// A page with examples, and nothing else of its own.
    #[must_use]
    pub const fn new(command: &'static str, examples: &'static [Entry]) -> Self {
        Self {
            command,
            examples,
            exit: &[],
            files: &[],
            see_also: &[],
        }
    }

    /// With exit statuses of its own.
    #[must_use]
    pub const fn exit(mut self, exit: &'static [Entry]) -> Self {
        self.exit = exit;
        self
    }

    /// With files of its own.
    #[must_use]
    pub const fn files(mut self, files: &'static [Entry]) -> Self {
        self.files = files;
        self
    }

    /// With other pages of its own.
    #[must_use]
    pub const fn see_also(mut self, see_also: &'static [&'static str]) -> Self {
        self.see_also = see_also;
        self
    }
}

/// What all pages of a program say, and each of them.
#[derive(Clone, Copy)]
pub struct Manual {
    /// Exit statuses.
    pub exit: &'static [Entry],
    /// Files.
    pub files: &'static [Entry],
    /// Other pages, as `superp-agent(1)`.
    pub see_also: &'static [&'static str],
    /// One for each command that is not hidden.
    pub pages: &'static [&'static [Page]],
}

/// What is generated.
#[derive(Clone, Copy, ValueEnum)]
pub enum Generated {
    /// Manual pages.
    Man,
    /// Completions for bash, fish and zsh.
    Completions,
}

/// The words of the command that generates them.
#[derive(Args)]
pub struct Generate {
    /// What is generated.
    pub what: Generated,
    /// Where it goes.
    pub folder: PathBuf,
}

impl Generate {
    /// Generates it. What is not to be seen in a manual or a completion is hidden in the command line.
    ///
    /// # Errors
    ///
    /// Those of files, and a manual with faults.
    pub fn run(&self, command: Command, manual: &Manual) -> io::Result<()> {
        fs::create_dir_all(&self.folder)?;
        match self.what {
            Generated::Man => manual.write(command, &self.folder),
            Generated::Completions => {
                let mut command = command;
                let name = command.get_name().to_owned();
                for shell in [Shell::Bash, Shell::Fish, Shell::Zsh] {
                    clap_complete::generate_to(shell, &mut command, &name, &self.folder)?;
                }
                Ok(())
            }
        }
    }
}

impl Manual {
    fn page(&self, words: &str) -> Option<&Page> {
        let mut pages = self.pages.iter().copied().flatten();
        pages.find(|page| page.command == words)
    }

    fn write(&self, command: Command, folder: &Path) -> io::Result<()> {
        let faults = self.faults(&command);
        if !faults.is_empty() {
            return Err(io::Error::other(faults.join("; ")));
        }
        for (words, command) in commands(command) {
            if let Some(page) = self.page(&words) {
                page::write(self, page, command, folder)?;
            }
        }
        Ok(())
    }

    /// What is wrong: commands without a page or without examples, and examples that are of another command or that
    /// the command line refuses.
    #[must_use]
    pub fn faults(&self, command: &Command) -> Vec<String> {
        let mut faults = Vec::new();
        for (words, _) in commands(command.clone()) {
            let Some(page) = self.page(&words) else {
                faults.push(format!("the manual has no page for \"{words}\""));
                continue;
            };
            if page.examples.is_empty() {
                faults.push(format!("the page of \"{words}\" has no examples"));
            }
            for (_, line) in page.examples {
                if let Err(text) = check(command, &words, line) {
                    faults.push(format!("an example of \"{words}\": {line}: {text}"));
                }
            }
        }
        faults
    }
}

/// The command and those below it that are not hidden, each with its words.
fn commands(command: Command) -> Vec<(String, Command)> {
    fn walk(command: &Command, before: &str, found: &mut Vec<(String, Command)>) {
        let words = match before {
            "" => command.get_name().to_owned(),
            before => format!("{before} {}", command.get_name()),
        };
        for below in command
            .get_subcommands()
            .filter(|below| !below.is_hide_set())
        {
            walk(below, &words, found);
        }
        found.push((words, command.clone()));
    }
    let mut command = command.disable_help_subcommand(true);
    command.build();
    let mut found = Vec::new();
    walk(&command, "", &mut found);
    found
}

/// The command line where these variables are in the environment.
fn with_variables(command: Command, names: &[&str]) -> Command {
    let given = |variable: &std::ffi::OsStr| names.iter().any(|name| variable == *name);
    command
        .mut_args(|argument| match argument.get_env().is_some_and(given) {
            true => argument.required(false),
            false => argument,
        })
        .mut_subcommands(|below| with_variables(below, names))
}

/// Whether an example is one line of that command, after settings of the environment.
fn check(command: &Command, words: &str, line: &str) -> Result<(), String> {
    let given = shlex::split(line).ok_or("a quote without its end")?;
    let setting = |word: &&String| word.contains('=') && !word.starts_with('-');
    let (settings, given) = given.split_at(given.iter().take_while(setting).count());
    let names = settings
        .iter()
        .filter_map(|setting| setting.split('=').next());
    let command = with_variables(command.clone(), &names.collect::<Vec<_>>());
    let matches = command.clone().try_get_matches_from(given);
    let matches = matches.map_err(|error| error.to_string())?;
    let mut said = command.get_name().to_owned();
    let mut below = &matches;
    while let Some((name, next)) = below.subcommand() {
        said = format!("{said} {name}");
        below = next;
    }
    let of_it = given
        .first()
        .is_some_and(|first| first == command.get_name())
        && (said == words || said.starts_with(&format!("{words} ")));
    match of_it {
        true => Ok(()),
        false => Err(format!("it is one of \"{said}\"")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Arg;

    fn command() -> Command {
        let add = Command::new("add")
            .about("Add one.")
            .arg(Arg::new("name").required(true))
            .arg(Arg::new("key").long("key").env("KEY").required(true));
        let hidden = Command::new("secret").hide(true);
        Command::new("tool")
            .about("A tool.")
            .subcommand(add)
            .subcommand(hidden)
    }

    const GOOD: &[Page] = &[
        Page::new("tool", &[("Add one:", "tool add --key k it")]),
        Page::new(
            "tool add",
            &[("Add one:", "KEY='a b' tool add -- \".it's\"")],
        )
        .exit(&[("3", "Nothing was added.")]),
    ];
    const MANUAL: Manual = Manual {
        exit: &[("0", "Success.")],
        files: &[("/etc/tool", "Its settings.")],
        see_also: &["other(7)"],
        pages: &[],
    };

    #[test]
    fn a_command_without_page_is_a_fault_and_so_is_an_example_that_is_refused() {
        let with = |pages| Manual { pages, ..MANUAL };
        const BAD: &[&[Page]] = &[&[Page::new(
            "tool",
            &[
                ("", "tool"),
                ("", "tool add"),
                ("", "tool add 'a"),
                ("", "toll add a"),
            ],
        )]];
        let faults = with(BAD).faults(&command());
        assert_eq!(faults.len(), 4, "{faults:?}");
        assert!(faults[0].contains("no page for \"tool add\""), "{faults:?}");
        assert!(faults[1].contains("required"), "{faults:?}");
        assert!(faults[2].contains("a quote without its end"), "{faults:?}");
        const OTHER: &[&[Page]] = &[&[
            Page::new("tool", &[("", "tool")]),
            Page::new("tool add", &[("", "tool")]),
        ]];
        let faults = with(OTHER).faults(&command());
        assert_eq!(
            faults,
            ["an example of \"tool add\": tool: it is one of \"tool\""]
        );
    }

    #[test]
    fn pages_have_all_sections() {
        let folder = std::env::temp_dir().join(format!("superp-pages-{}", std::process::id()));
        let manual = Manual {
            pages: &[GOOD],
            ..MANUAL
        };
        for what in [Generated::Man, Generated::Completions] {
            let folder = folder.clone();
            Generate { what, folder }.run(command(), &manual).unwrap();
        }
        let names = ["tool.1", "tool-add.1"];
        for name in names {
            let text = fs::read_to_string(folder.join(name)).unwrap();
            for section in [
                "NAME",
                "SYNOPSIS",
                "EXAMPLES",
                "\"EXIT STATUS\"",
                "FILES",
                "\"SEE ALSO\"",
            ] {
                assert!(
                    text.contains(&format!("\n.SH {section}\n")),
                    "{name}: {section}: {text}"
                );
            }
        }
        let add = fs::read_to_string(folder.join("tool-add.1")).unwrap();
        assert!(
            add.contains("Nothing was added.") && !add.contains("Success."),
            "{add}"
        );
        assert!(!folder.join("tool-secret.1").exists());
        assert!(folder.join("_tool").exists());
        fs::remove_dir_all(&folder).unwrap();
    }
}
