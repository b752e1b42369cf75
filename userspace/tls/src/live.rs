// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The directory of a program that goes on for long: what is changed in it is taken up.

use crate::files::revocations;
use crate::{Revocations, Role, Tls, AUTHORITY_FILE, CERTIFICATE_FILE, KEY_FILE, REVOCATION_FILE};
use rustls::ServerConfig;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::watch;

/// How often the files are looked at. What has changed is read when it has not changed for as long: a certificate
/// and its key are two files.
const LOOK: Duration = Duration::from_secs(1);

/// What a program has, as it changes. Cheap to clone; needs a tokio runtime.
#[derive(Clone)]
pub struct Live {
    shared: Arc<Shared>,
}

struct Shared {
    dir: PathBuf,
    role: Role,
    /// Where a list is kept that came from the manager.
    kept: Option<PathBuf>,
    /// One change at a time.
    changing: Mutex<()>,
    tls: watch::Sender<Arc<Tls>>,
    shown: watch::Sender<Shown>,
}

/// What a server shows, and whom it refuses, at a time.
#[derive(Clone)]
pub(crate) struct Shown {
    pub(crate) config: Arc<ServerConfig>,
    pub(crate) revoked: Arc<Revocations>,
}

/// What tells that a file is another one.
type Stamp = Option<(u64, u64, i64, i64)>;

impl Live {
    /// Reads a directory, which has to be of this role, and goes on looking at it. A list of what is revoked that
    /// [`Self::take`] is given is kept at `kept`.
    pub fn open(dir: &Path, role: Role, kept: Option<PathBuf>) -> Result<Self, String> {
        let stamps = stamps(dir);
        let mut tls = read(dir, role)?;
        if let Some(path) = &kept {
            match revocations(path, tls.authorities()) {
                Ok(list) if list.number() > tls.revoked().number() => tls.refuse(Arc::new(list)),
                Ok(_) => {}
                // It is one of another fabric, and there will be one of this.
                Err(why) => tracing::warn!("{why}; it is passed over"),
            }
        }
        tls.warn();
        let shown = shown(&tls)?;
        let shared = Arc::new(Shared {
            dir: dir.to_owned(),
            role,
            kept,
            changing: Mutex::new(()),
            tls: watch::channel(Arc::new(tls)).0,
            shown: watch::channel(shown).0,
        });
        let looked = Arc::downgrade(&shared);
        tokio::spawn(async move {
            let (mut taken, mut before) = (stamps, stamps);
            loop {
                tokio::time::sleep(LOOK).await;
                let Some(shared) = looked.upgrade() else {
                    return;
                };
                let now = self::stamps(&shared.dir);
                if now != taken && now == before {
                    taken = now;
                    if let Err(why) = shared.again() {
                        tracing::error!("{why}; what was there before stays in force");
                    }
                }
                before = now;
            }
        });
        Ok(Self { shared })
    }

    /// What there is now.
    pub fn now(&self) -> Arc<Tls> {
        self.shared.tls.borrow().clone()
    }

    /// What there is, as it changes.
    pub fn changes(&self) -> watch::Receiver<Arc<Tls>> {
        self.shared.tls.subscribe()
    }

    pub(crate) fn shown(&self) -> watch::Receiver<Shown> {
        self.shared.shown.subscribe()
    }

    /// Takes up a list of what is revoked, which the authority has to have signed, unless there is a newer one; the
    /// number of the one in force.
    pub fn take(&self, text: &str) -> Result<u64, String> {
        let _one = self.shared.lock();
        let now = self.now();
        let list = now.list(text)?;
        if list.number() > now.revoked().number() {
            let mut tls = read(&self.shared.dir, self.shared.role)?;
            if let Some(path) = &self.shared.kept {
                keep(path, text).map_err(|error| format!("{}: {error}", path.display()))?;
            }
            tls.refuse(Arc::new(list));
            self.shared.put(tls)?;
        }
        Ok(self.now().revoked().number())
    }
}

impl Shared {
    fn lock(&self) -> std::sync::MutexGuard<'_, ()> {
        self.changing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the directory again.
    fn again(&self) -> Result<(), String> {
        let _one = self.lock();
        let mut tls = read(&self.dir, self.role)?;
        let revoked = self.tls.borrow().revoked().clone();
        // An older list, or none, would let in again who was refused. With another authority it says nothing.
        let older = tls.revoked().number() < revoked.number();
        if older && tls.list(revoked.text()).is_ok() {
            tls.refuse(revoked);
        }
        tls.warn();
        self.put(tls)
    }

    fn put(&self, tls: Tls) -> Result<(), String> {
        let before = self.tls.borrow().revoked().clone();
        for line in tls.revoked().beyond(&before) {
            tracing::warn!("revoked: {line}");
        }
        self.shown.send_replace(shown(&tls)?);
        self.tls.send_replace(Arc::new(tls));
        Ok(())
    }
}

fn read(dir: &Path, role: Role) -> Result<Tls, String> {
    let tls = Tls::read(dir)?;
    tls.expect(dir, role)?;
    Ok(tls)
}

fn shown(tls: &Tls) -> Result<Shown, String> {
    Ok(Shown {
        config: Arc::new(tls.server()?),
        revoked: tls.revoked().clone(),
    })
}

fn stamps(dir: &Path) -> [Stamp; 4] {
    [AUTHORITY_FILE, CERTIFICATE_FILE, KEY_FILE, REVOCATION_FILE].map(|file| {
        let meta = fs::metadata(dir.join(file)).ok()?;
        Some((meta.ino(), meta.len(), meta.ctime(), meta.ctime_nsec()))
    })
}

/// The whole file, or the one before.
fn keep(path: &Path, text: &str) -> std::io::Result<()> {
    let new = path.with_extension("new");
    let mut file = File::create(&new)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(new, path)
}

#[cfg(all(test, feature = "authority", feature = "client"))]
mod tests;
