// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Manual pages and shell completions, from the definition of the command line.

use crate::cli::{Cli, Generated};
use crate::failure::Failure;
use clap::CommandFactory;
use clap_complete::Shell;
use std::{fs, path::Path};

pub(crate) fn run(what: Generated, folder: &Path) -> Result<(), Failure> {
    let failed = |error| Failure::io(folder.display(), &error);
    fs::create_dir_all(folder).map_err(failed)?;
    match what {
        Generated::Man => {
            clap_mangen::generate_to(Cli::command(), folder).map_err(failed)?;
        }
        Generated::Completions => {
            for shell in [Shell::Bash, Shell::Fish, Shell::Zsh] {
                clap_complete::generate_to(shell, &mut Cli::command(), "superp", folder)
                    .map_err(failed)?;
            }
        }
    }
    Ok(())
}
