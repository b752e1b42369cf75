// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Ends the applications of a node: the processes that have queue pairs or regions.

use crate::kernel::owners;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::process::{pidfd_open, pidfd_send_signal, Pid, PidfdFlags, Signal};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use std::{fs, thread};
use superp_control::Process;
use superp_netlink::{Client, Error};

/// What a killed process, and the kernel after it, get to give everything back.
const AFTER_KILL: Duration = Duration::from_secs(10);

/// How often is looked.
const LOOK: Duration = Duration::from_millis(20);

/// Ends them, with SIGTERM, and after `grace` with SIGKILL. Blocks until no queue pair and no region
/// is left, or that takes too long; says which processes there were.
///
/// A process is known by its pidfd, and is signalled only if after that was opened the kernel still
/// names its number as an owner: the number cannot have gone to another process between.
pub(crate) fn end_applications(
    client: &mut Client,
    grace: Duration,
) -> Result<Vec<Process>, Error> {
    let start = Instant::now();
    let mut found: BTreeMap<u32, (Process, OwnedFd)> = BTreeMap::new();
    loop {
        let mut fresh = Vec::new();
        for pid in owners(client)? {
            if !found.contains_key(&pid) && pid != std::process::id() && pid != 1 {
                fresh.extend(open(pid).map(|fd| (pid, fd)));
            }
        }
        let kill = start.elapsed() >= grace;
        if !fresh.is_empty() {
            let still = owners(client)?;
            for (pid, fd) in fresh.into_iter().filter(|(pid, _)| still.contains(pid)) {
                let process = Process {
                    pid,
                    program: program(pid),
                    killed: kill,
                };
                tracing::warn!(pid, program = process.program, "ending an application");
                signal(&fd, pid, if kill { Signal::KILL } else { Signal::TERM });
                found.insert(pid, (process, fd));
            }
        }
        if kill {
            let still = owners(client)?;
            for (pid, (process, fd)) in &mut found {
                if !process.killed && still.contains(pid) {
                    tracing::warn!(pid, program = process.program, "killing an application");
                    signal(fd, *pid, Signal::KILL);
                    process.killed = true;
                }
            }
        }
        let node = client.node()?;
        let done = node.qps == 0 && node.regions == 0 && owners(client)?.is_empty();
        if done || start.elapsed() >= grace + AFTER_KILL {
            return Ok(found.into_values().map(|(process, _)| process).collect());
        }
        thread::sleep(LOOK);
    }
}

fn open(pid: u32) -> Option<OwnedFd> {
    let pid = Pid::from_raw(i32::try_from(pid).ok()?)?;
    pidfd_open(pid, PidfdFlags::empty()).ok()
}

fn signal(fd: &OwnedFd, pid: u32, signal: Signal) {
    match pidfd_send_signal(fd, signal) {
        // It ended by itself.
        Ok(()) | Err(Errno::SRCH) => {}
        Err(error) => tracing::error!(pid, %error, "cannot signal an application"),
    }
}

fn program(pid: u32) -> String {
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    name.trim_end().to_owned()
}
