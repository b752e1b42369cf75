// SPDX-License-Identifier: GPL-2.0 OR MIT
//! `superp-cm plan`, `diff` and `apply`: fabric files for a manager that runs. `superp fabric` has these and
//! everything else.

use std::path::{Path, PathBuf};
use superp_control::manager::{ManagerClient, ManagerError};

#[derive(clap::Args)]
pub(crate) struct Ask {
    /// The fabric file.
    file: PathBuf,
    /// The manager; http://127.0.0.1:7778 unless told, or with --tls https://127.0.0.1:7778. Of several, with commas
    /// between them, the one that leads is asked.
    #[arg(long, value_name = "URL", env = "SUPERP_MANAGER")]
    manager: Option<String>,
    /// TLS, with the ca.crt, tls.crt and tls.key in this directory, as "superp-cm issue" makes it.
    #[arg(long, value_name = "DIR", env = "SUPERP_TLS")]
    tls: Option<PathBuf>,
}

/// What is asked.
#[derive(Clone, Copy)]
pub(crate) enum What {
    /// The whole plan.
    Plan,
    /// What changes.
    Diff,
    /// That it be done; then what changes is told.
    Apply,
}

/// A file, and its name.
pub(crate) fn read(file: &Path) -> Result<(String, String), String> {
    let path = file.display().to_string();
    let text = std::fs::read_to_string(file).map_err(|error| format!("{path}: {error}"))?;
    Ok((path, text))
}

fn told(error: ManagerError) -> String {
    error.to_string()
}

pub(crate) async fn run(what: What, ask: Ask) -> Result<(), String> {
    let (path, text) = read(&ask.file)?;
    let client = ManagerClient::at(ask.manager, ask.tls.as_deref()).map_err(told)?;
    let plan = match what {
        What::Plan | What::Diff => client.plan(&path, text).await,
        What::Apply => client.apply(&path, text).await,
    };
    let plan = plan.map_err(told)?;
    match what {
        What::Plan => print!("{plan}"),
        What::Diff | What::Apply => print!("{}", plan.changes()),
    }
    Ok(())
}
