// SPDX-License-Identifier: GPL-2.0 OR MIT
//! `superp run`: programs that are written for libibverbs.

use crate::failure::Failure;
use clap::Args;
use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use superp_netlink::Client;

/// What is preloaded (crate `superp-shim`).
const LIBRARY: &str = "libsuperp_preload.so";
/// Where it is, seen from the folder of this program: as built, and as installed.
const PLACES: [&str; 2] = ["", "../lib/superp"];

#[derive(Args)]
pub(crate) struct Run {
    /// Give each device that the program opens a thread that takes requests in as they come, and never sleeps,
    /// instead of ringing doorbells.
    #[arg(long)]
    pub(crate) poller: bool,
    /// The program and its arguments.
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "PROGRAM"
    )]
    pub(crate) program: Vec<OsString>,
}

fn library(program: &Path) -> Option<PathBuf> {
    let folder = program.parent()?;
    let mut found = PLACES.iter().map(|place| folder.join(place).join(LIBRARY));
    found.find(|path| path.exists())
}

/// The value of LD_PRELOAD: libraries that were there before stay.
fn preload(library: &Path, before: Option<OsString>) -> OsString {
    let mut value = library.as_os_str().to_owned();
    if let Some(before) = before.filter(|before| !before.is_empty()) {
        value.push(":");
        value.push(before);
    }
    value
}

/// Becomes the program; comes back only if it cannot.
pub(crate) fn run(args: &Run) -> Failure {
    become_program(args).unwrap_or_else(|failure| failure)
}

fn become_program(args: &Run) -> Result<Failure, Failure> {
    // The program would only say that there is no device.
    let node = Client::open().and_then(|mut client| client.node())?;
    if node.addresses.is_empty() {
        return Err(Failure::new("no device here carries SUPERp").hint("superp dev add DEV"));
    }
    let (program, words) = args
        .program
        .split_first()
        .ok_or_else(|| Failure::new("no program"))?;
    let own = std::env::current_exe().map_err(|error| Failure::io("superp", &error))?;
    let library = library(&own).ok_or_else(|| {
        Failure::io(LIBRARY, &io::ErrorKind::NotFound.into())
            .hint("it belongs beside superp, or into ../lib/superp from there; it is built where libibverbs-dev and librdmacm-dev are")
    })?;
    let before = std::env::var_os("LD_PRELOAD");
    let mut command = Command::new(program);
    command
        .args(words)
        .env("LD_PRELOAD", preload(&library, before));
    if args.poller {
        command.env(superp_verbs::POLLER_VARIABLE, "1");
    }
    let error = command.exec();
    Ok(Failure::io(program.to_string_lossy(), &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_that_are_preloaded_already_stay() {
        let library = Path::new("/lib/a.so");
        assert_eq!(preload(library, None), "/lib/a.so");
        assert_eq!(preload(library, Some("".into())), "/lib/a.so");
        assert_eq!(
            preload(library, Some("/b.so c.so".into())),
            "/lib/a.so:/b.so c.so"
        );
    }

    #[test]
    fn the_library_is_beside_the_program_or_where_it_is_installed() {
        let folder = std::env::temp_dir().join(format!("superp-run-{}", std::process::id()));
        let program = folder.join("bin/superp");
        let place = folder.join("lib/superp");
        std::fs::create_dir_all(folder.join("bin")).unwrap();
        std::fs::create_dir_all(&place).unwrap();
        assert_eq!(library(&program), None);
        std::fs::write(place.join(LIBRARY), "").unwrap();
        let installed = folder.join("bin/../lib/superp").join(LIBRARY);
        assert_eq!(library(&program), Some(installed));
        std::fs::write(folder.join("bin").join(LIBRARY), "").unwrap();
        assert_eq!(library(&program), Some(folder.join("bin").join(LIBRARY)));
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
