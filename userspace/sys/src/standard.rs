// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Which of the three standard descriptors were closed when the process began. Later that cannot be known: before
//! `main` Rust opens /dev/null in their place.

use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::{AtomicU8, Ordering};

/// A bit for each.
static CLOSED: AtomicU8 = AtomicU8::new(0);

/// What the dynamic linker calls before `main`.
#[used]
#[link_section = ".init_array"]
static BEFORE_MAIN: extern "C" fn() = look;

extern "C" fn look() {
    for fd in 0..3 {
        // SAFETY: No pointers.
        if unsafe { libc::fcntl(fd, libc::F_GETFD) } < 0 {
            CLOSED.fetch_or(1 << fd, Ordering::Relaxed);
        }
    }
}

/// Whether standard input, output or error was closed when the process began.
pub fn was_closed(standard: &impl AsRawFd) -> bool {
    // The mention keeps it in the program.
    std::hint::black_box(&BEFORE_MAIN);
    is_closed(CLOSED.load(Ordering::Relaxed), standard.as_raw_fd())
}

fn is_closed(closed: u8, fd: RawFd) -> bool {
    (0..3).contains(&fd) && closed & (1 << fd) != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_descriptor_has_its_bit() {
        assert!(is_closed(0b010, 1));
        assert!(!is_closed(0b101, 1));
        assert!(!is_closed(0xff, 3) && !is_closed(0xff, -1));
    }
}
