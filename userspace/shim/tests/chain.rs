// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Programs with devices of others: every call on their objects reaches the real library, with its
//! arguments, and its answer comes back.

use std::path::{Path, PathBuf};
use std::process::Command;

fn compile(arguments: &[&str]) {
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".into());
    let built = Command::new(&compiler)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .args(["-Wall", "-Werror"])
        .args(arguments)
        .status()
        .unwrap_or_else(|error| panic!("{compiler}: {error}"));
    assert!(built.success(), "{compiler} {arguments:?}");
}

/// What is preloaded, which cargo has built for this test.
fn library() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let folders = test.ancestors().skip(1).take(2);
    let mut places = folders.map(|folder| folder.join("libsuperp_preload.so"));
    let found = places.find(|path| path.exists());
    found.expect("cargo builds the library beside the tests")
}

#[test]
fn calls_on_other_devices_reach_the_real_library() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let path = |name: &str| folder.join(name).to_string_lossy().into_owned();
    let (real, program) = (path("libibverbs.so.1"), path("program"));
    let soname = "-Wl,-soname,libibverbs.so.1";
    compile(&["-shared", "-fPIC", soname, "-o", &real, "tests/real.c"]);
    compile(&["-o", &program, "tests/program.c", &real]);
    let output = Command::new(&program)
        .env("LD_LIBRARY_PATH", folder)
        .env("LD_PRELOAD", library())
        .output()
        .unwrap();
    let expected = "real ibv_get_device_list
real ibv_open_device
real ibv_alloc_pd
real ibv_create_comp_channel
real ibv_create_cq 7 3
real ibv_reg_mr_iova2 5 6 1048577
real ibv_create_qp
real ibv_get_device_name
1 real0 1
real ibv_query_gid_type
0 10
real ibv_get_cq_event
-1 1
real ibv_ack_cq_events 2
real ibv_qp_to_qp_ex
1
real ibv_modify_qp
1
1
real ibv_dereg_mr
real ibv_dealloc_pd
real ibv_close_device
real ibv_free_device_list
";
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(said, expected);
}
