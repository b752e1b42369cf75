// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The limit of the memory that a user's programs may pin: RLIMIT_MEMLOCK.

use crate::failure::Failure;
use crate::out;
use std::{fs, io};

/// Bit of the capability in `CapEff`.
const CAP_IPC_LOCK: u64 = 1 << 14;

/// The users of the first user namespace, as `uid_map` has them.
const ALL_USERS: [&str; 3] = ["0", "0", "4294967295"];

/// Bytes that this process may lock, if they are limited.
pub(crate) fn limit() -> Option<u64> {
    match is_privileged() {
        Some(true) => None,
        _ => soft(&fs::read_to_string("/proc/self/limits").ok()?),
    }
}

/// Why the kernel did not pin memory of so many bytes. There is a limit that few know of.
pub(crate) fn failure(
    what: impl std::fmt::Display,
    bytes: Option<u64>,
    error: &io::Error,
    limit: Option<u64>,
) -> Failure {
    let failure = Failure::io(what, error);
    let (Some(errno @ libc::ENOMEM), Some(limit)) = (error.raw_os_error(), limit) else {
        return failure;
    };
    let (more, limit) = (bytes.map_or("memory".into(), out::bytes), out::bytes(limit));
    let text = format!(
        "{}: this pins {more}, and RLIMIT_MEMLOCK is {limit} for all programs of this user",
        failure.text()
    );
    Failure::new(text).errno(errno).hint(
        "ulimit -l unlimited, as root; LimitMEMLOCK=infinity in the unit of a service; or less memory",
    )
}

/// Whether the limit is not for this process.
fn is_privileged() -> Option<bool> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let effective = u64::from_str_radix(effective?.trim(), 16).ok()?;
    // The root of another user namespace has all capabilities, and none that counts here.
    let users = fs::read_to_string("/proc/self/uid_map").ok()?;
    Some(effective & CAP_IPC_LOCK != 0 && users.split_whitespace().eq(ALL_USERS))
}

fn soft(limits: &str) -> Option<u64> {
    let line = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max locked memory"))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limit_of_locked_memory_is_the_soft_one() {
        let line = |value| {
            format!("Limit  Soft Limit  Hard Limit  Units\nMax locked memory         {value}              unlimited   bytes\n")
        };
        assert_eq!(soft(&line("8388608")), Some(8 << 20));
        assert_eq!(soft(&line("unlimited")), None);
        assert_eq!(soft(""), None);
    }

    #[test]
    fn limit_of_locked_memory_is_told() {
        let error = io::Error::from_raw_os_error(libc::ENOMEM);
        let told = failure("registering", Some(16 << 20), &error, Some(8 << 20));
        for part in ["16 MiB", "RLIMIT_MEMLOCK", "8 MiB"] {
            assert!(told.text().contains(part), "{}", told.text());
        }
        assert!(told.help().is_some());
        let without = failure("registering", Some(1), &error, None);
        assert!(!without.text().contains("MEMLOCK"), "{}", without.text());
    }
}
