// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The optimised protocol core has no call to anything that panics: in the kernel a panic is an oops.
//!
//! The core is compiled for everything that its owner can call, with overflow checks on, and the
//! object file is searched for the names of panic functions.

use std::path::Path;
use std::process::Command;

/// The module of the standard library from which every panic starts, as both manglings write it.
const PANICKING: &[u8] = b"4core9panicking";

/// Compiles tests/no_panic/owner.rs; whether the result can panic.
fn can_panic(name: &str, flags: &[&str]) -> bool {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/no_panic/owner.rs");
    let object = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("no_panic_{name}.o"));
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let status = Command::new(rustc)
        .args(["--edition=2021", "--crate-type=lib", "--emit=obj"])
        .args(["-Copt-level=2", "-Cpanic=abort", "-Ccodegen-units=1"])
        .args(["-Coverflow-checks=on", "-Cdebuginfo=0"])
        .args(flags)
        .arg("-o")
        .arg(&object)
        .arg(&source)
        .status()
        .expect("rustc runs");
    assert!(status.success(), "{} compiles", source.display());
    let bytes = std::fs::read(&object).expect("the object file");
    bytes
        .windows(PANICKING.len())
        .any(|window| window == PANICKING)
}

#[test]
fn nothing_that_an_owner_calls_can_panic() {
    assert!(!can_panic("core", &[]));
}

#[test]
fn a_panic_would_be_found() {
    assert!(can_panic("control", &["--cfg=control"]));
}
