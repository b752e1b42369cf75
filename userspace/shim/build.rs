// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Declares the types of the installed infiniband/verbs.h and rdma/rdma_cma.h in Rust. bindgen puts assertions
//! about sizes and offsets beside them, which the compiler checks.

use std::path::Path;
use std::process::Command;

fn main() {
    let out = std::env::var("OUT_DIR").expect("cargo says where output goes");
    let out = Path::new(&out).join("verbs.rs");
    let bindgen = std::env::var("BINDGEN").unwrap_or_else(|_| "bindgen".into());
    let status = Command::new(&bindgen)
        .args(["--allowlist-type", "ibv_.*|verbs_context|rdma_.*"])
        .args([
            "--allowlist-var",
            "IBV_LINK_LAYER_.*|IBV_WC_STANDARD_FLAGS|RDMA_.*|RAI_.*",
        ])
        .args(["--default-enum-style", "consts", "--no-prepend-enum-name"])
        .args(["--with-derive-default", "--no-doc-comments"])
        .arg("--ignore-functions")
        .arg("src/verbs.h")
        .arg("--output")
        .arg(&out)
        .status();
    match status {
        Ok(status) if status.success() => {}
        other => panic!("{bindgen} of infiniband/verbs.h and rdma/rdma_cma.h (packages libibverbs-dev, librdmacm-dev): {other:?}"),
    }
    println!("cargo::rerun-if-changed=src/verbs.h");
    println!("cargo::rerun-if-env-changed=BINDGEN");
}
