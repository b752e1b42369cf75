// SPDX-License-Identifier: GPL-2.0 OR MIT
//! What outlives the agent: the highest term, and the configuration.

use rustix::fs::{flock, FlockOperation};
use serde::{Deserialize, Serialize};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use superp_control::Configuration;

const FILE: &str = "agent.json";

/// Where the node is in its life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Phase {
    /// Nothing is configured.
    #[default]
    Unconfigured,
    /// The configuration is being written to the kernel, or that failed half way.
    Applying,
    /// It is in force.
    Ready,
    /// It is in force and started.
    Started,
    /// The node was shut down.
    ShutDown,
}

/// What is kept.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Kept {
    /// The highest term seen.
    pub(crate) term: u64,
    pub(crate) phase: Phase,
    pub(crate) configuration: Option<Configuration>,
}

/// A directory that holds it.
#[derive(Debug)]
pub(crate) struct Store {
    dir: PathBuf,
}

impl Store {
    /// Opens the directory, which is made if there is none, and reads what is kept.
    pub(crate) fn open(dir: &Path) -> io::Result<(Self, Kept)> {
        make_dir(dir)?;
        let path = dir.join(FILE);
        let kept = match fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(|error| {
                let text = format!(
                    "{} is not what an agent wrote ({error}); remove it to begin anew",
                    path.display()
                );
                io::Error::new(io::ErrorKind::InvalidData, text)
            })?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Kept::default(),
            Err(error) => return Err(error),
        };
        let dir = dir.to_owned();
        Ok((Self { dir }, kept))
    }

    /// Replaces what is kept: either the old or the new is there, whenever the machine stops.
    pub(crate) fn write(&self, kept: &Kept) -> io::Result<()> {
        let new = self.dir.join(format!("{FILE}.new"));
        let mut file = OpenOptions::new();
        let file = file.write(true).create(true).truncate(true).mode(0o600);
        let mut file = file.open(&new)?;
        file.write_all(&serde_json::to_vec_pretty(kept)?)?;
        file.sync_all()?;
        fs::rename(&new, self.dir.join(FILE))?;
        File::open(&self.dir)?.sync_all()
    }
}

fn make_dir(dir: &Path) -> io::Result<()> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(dir)
}

/// The lock of the network namespace. It is held as long as this lives, and no longer than the process.
#[derive(Debug)]
pub(crate) struct Lock(#[allow(dead_code)] File);

impl Lock {
    /// Takes it.
    ///
    /// # Errors
    ///
    /// `AlreadyExists` with a sentence that names the other agent.
    pub(crate) fn take(dir: &Path) -> io::Result<Self> {
        make_dir(dir)?;
        let namespace = fs::metadata("/proc/self/ns/net")?.ino();
        let path = dir.join(format!("agent-{namespace}.lock"));
        let mut file = OpenOptions::new();
        let file = file.read(true).write(true).create(true).truncate(false);
        let mut file = file.mode(0o600).open(&path)?;
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            let mut pid = String::new();
            file.read_to_string(&mut pid)?;
            let text = format!(
                "another superp-agent, process {}, serves this network namespace ({} is locked)",
                pid.trim(),
                path.display()
            );
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, text));
        }
        file.set_len(0)?;
        writeln!(file, "{}", std::process::id())?;
        Ok(Self(file))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dir(name: &str) -> PathBuf {
        let dir = std::env::temp_dir().join(format!("superp-agent-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        dir
    }

    #[test]
    fn what_is_kept_is_read_again_and_never_half() {
        let dir = dir("kept");
        let (store, kept) = Store::open(&dir).unwrap();
        assert_eq!(kept, Kept::default());
        let new = Kept {
            term: 7,
            phase: Phase::Started,
            configuration: Some(
                serde_json::from_str(r#"{"fabric": "f", "generation": 3}"#).unwrap(),
            ),
        };
        store.write(&new).unwrap();
        // What a writer left that was stopped.
        fs::write(dir.join("agent.json.new"), "{").unwrap();
        assert_eq!(Store::open(&dir).unwrap().1, new);
        fs::write(dir.join(FILE), "{").unwrap();
        let error = Store::open(&dir).unwrap_err().to_string();
        assert!(
            error.contains("agent.json") && error.contains("remove it"),
            "{error}"
        );
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn lock_is_taken_once_and_given_back() {
        let dir = dir("lock");
        let lock = Lock::take(&dir).unwrap();
        let error = Lock::take(&dir).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        let pid = format!("process {},", std::process::id());
        assert!(error.to_string().contains(&pid), "{error}");
        drop(lock);
        Lock::take(&dir).unwrap();
        fs::remove_dir_all(dir).unwrap();
    }
}
