// SPDX-License-Identifier: GPL-2.0 OR MIT
//! What systemd is told (sd_notify(3)).

use std::env;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// Tells systemd, if it started this and wants to know.
pub(crate) fn tell(what: &str) {
    let Some(path) = env::var_os("NOTIFY_SOCKET") else {
        return;
    };
    let send = || -> io::Result<()> {
        let name = path.as_encoded_bytes();
        let socket = UnixDatagram::unbound()?;
        match name.strip_prefix(b"@") {
            Some(name) => socket.connect_addr(&SocketAddr::from_abstract_name(name)?)?,
            None => socket.connect(&path)?,
        }
        socket.send(what.as_bytes()).map(drop)
    };
    if let Err(error) = send() {
        tracing::warn!(%error, "systemd cannot be told: {what}");
    }
}

/// How often the watchdog wants to hear of us, halved; `None` if there is no watchdog.
pub(crate) fn watchdog() -> Option<Duration> {
    let micros: u64 = env::var("WATCHDOG_USEC").ok()?.parse().ok()?;
    let pid = env::var("WATCHDOG_PID").ok();
    let ours = pid.is_none_or(|pid| pid == std::process::id().to_string());
    (ours && micros > 0).then(|| Duration::from_micros(micros / 2))
}
