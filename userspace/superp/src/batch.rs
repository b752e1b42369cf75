// SPDX-License-Identifier: GPL-2.0 OR MIT
//! `superp batch`: many commands in one run.

use crate::cli::{Batch, Cli, Command};
use crate::failure::Failure;
use crate::out::Out;
use clap::Parser;
use std::fs::File;
use std::io::{self, BufRead, BufReader};

/// What a line says: a command, if it is not empty or a comment.
fn parse(line: &str) -> Result<Option<Command>, Failure> {
    let words = shlex::split(line).ok_or_else(|| Failure::new("a quote without its end"))?;
    if words.is_empty() {
        return Ok(None);
    }
    let words = std::iter::once("superp".to_owned()).chain(words);
    let command = Cli::try_parse_from(words)
        .map_err(|error| Failure::usage(&error))?
        .command;
    match command {
        // It would take the place of this process.
        Command::Run(_) => Err(Failure::new("run: not in a batch")),
        Command::Batch(_) => Err(Failure::new("batch: not in a batch")),
        command => Ok(Some(command)),
    }
}

pub(crate) fn run(args: &Batch, out: &mut Out) -> Result<(), Failure> {
    let name = args.file.display();
    let unreadable = |error: &io::Error| Failure::io(&name, error);
    let from: Box<dyn BufRead> = match args.file.as_os_str() == "-" {
        true if superp_sys::was_closed(&io::stdin()) => {
            return Err(unreadable(&io::Error::from_raw_os_error(libc::EBADF)));
        }
        true => Box::new(io::stdin().lock()),
        false => Box::new(BufReader::new(
            File::open(&args.file).map_err(|error| unreadable(&error))?,
        )),
    };
    let (mut done, mut failed) = (0, 0);
    for (number, line) in (1..).zip(from.lines()) {
        let line = line.map_err(|error| unreadable(&error))?;
        let result = match parse(&line) {
            Ok(None) => continue,
            Ok(Some(command)) => crate::run(command, out),
            Err(failure) => Err(failure),
        };
        let Err(failure) = result else {
            done += 1;
            continue;
        };
        let failure = failure.at(format_args!("{name}:{number}"));
        if !args.force || failure.is_broken_pipe() {
            return Err(failure);
        }
        out.failure(&failure);
        failed += 1;
    }
    match failed {
        0 => Ok(()),
        _ => {
            let all = done + failed;
            Err(Failure::new(format!("{name}: {failed} of {all} commands failed")).without_json())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(line: &str) -> String {
        match parse(line) {
            Err(failure) => failure.text().to_owned(),
            Ok(_) => panic!("{line:?} is right"),
        }
    }

    #[test]
    fn lines_are_commands_comments_or_nothing() {
        assert!(matches!(
            parse("conn start 7"),
            Ok(Some(Command::Conn { .. }))
        ));
        assert!(matches!(
            parse("  node 'show' # why"),
            Ok(Some(Command::Node { .. }))
        ));
        for nothing in ["", "   ", "# conn start 7"] {
            assert!(matches!(parse(nothing), Ok(None)));
        }
    }

    #[test]
    fn lines_that_are_wrong_say_what_is() {
        assert!(wrong("con 'start 7").contains("quote"));
        assert!(wrong("nonsense 7").contains("nonsense"));
        assert!(wrong("conn start seven").contains("seven"));
        assert!(wrong("conn start").contains("not provided: <CID>"));
        assert!(wrong("batch -").contains("not in a batch"));
        assert!(wrong("run -- true").contains("not in a batch"));
    }
}
