// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Searches for inputs of [`superp_fuzz::receive`].

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    superp_fuzz::receive(bytes);
});
