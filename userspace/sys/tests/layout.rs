// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The Rust declarations are those of the C header: a C program prints what the compiler makes of
//! it.

use std::fmt::Write as _;
use std::process::Command;
use superp_sys::uapi;

/// Prints the size of each struct, the place of each field and the value of each constant.
fn program(constants: &[(&str, u64)]) -> String {
    let mut c = String::from(
        "#include <stdio.h>\n#include <stddef.h>\n#include <linux/superp.h>\nint main(void)\n{\n",
    );
    for (name, _, fields) in uapi::LAYOUT {
        writeln!(c, "printf(\"{name} %zu\\n\", sizeof(struct {name}));").unwrap();
        for (field, _, _) in *fields {
            writeln!(
                c,
                "printf(\"{name}.{field} %zu %zu\\n\", offsetof(struct {name}, {field}), \
                 sizeof(((struct {name} *)0)->{field}));"
            )
            .unwrap();
        }
    }
    for (name, _) in constants {
        writeln!(c, "printf(\"{name} %llu\\n\", (unsigned long long){name});").unwrap();
    }
    c + "return 0;\n}\n"
}

/// What the program must print.
fn expected(constants: &[(&str, u64)]) -> String {
    let mut text = String::new();
    for (name, size, fields) in uapi::LAYOUT {
        writeln!(text, "{name} {size}").unwrap();
        for (field, offset, size) in *fields {
            writeln!(text, "{name}.{field} {offset} {size}").unwrap();
        }
    }
    for (name, value) in constants {
        writeln!(text, "{name} {value}").unwrap();
    }
    text
}

#[test]
fn declarations_are_those_of_the_c_header() {
    macro_rules! constants {
        ($($name:ident)*) => { [$((stringify!($name), uapi::$name as u64),)*] };
    }
    let constants = constants! {
        SUPERP_DEFAULT_FAMILY SOL_SUPERP SUPERP_MAX_MESSAGE SUPERP_MAX_RING_MESSAGE SUPERP_MAX_RMA SUPERP_MAX_REQUESTS SUPERP_CID_ANY
        SUPERP_QPN_ANY SUPERP_QPN_MAX
        SUPERP_ACCESS_REMOTE_READ SUPERP_ACCESS_REMOTE_WRITE SUPERP_ACCESS_LOCAL_WRITE
        SUPERP_ACCESS_REMOTE_ATOMIC SUPERP_ACCESS_RECEIVE
        SUPERP_QP_F_EXT SUPERP_QP_F_ORDERED
        SUPERP_IOC_MR_REG SUPERP_IOC_MR_QUERY SUPERP_IOC_MR_DEREG SUPERP_IOC_QP_INFO
        SUPERP_CMSG_RMA SUPERP_CMSG_COMPLETION SUPERP_CMSG_ATOMIC SUPERP_CMSG_IMM
        SUPERP_CMSG_KEY
        SUPERP_RMA_WRITE SUPERP_RMA_READ
        SUPERP_RMA_FETCH_ADD SUPERP_RMA_COMPARE_SWAP SUPERP_RMA_SWAP SUPERP_RMA_F_FENCE
        SUPERP_MAX_RING_QPS SUPERP_MAX_RING_CQS SUPERP_MAX_SQ_ENTRIES SUPERP_MAX_RQ_ENTRIES
        SUPERP_MAX_CQ_ENTRIES SUPERP_MAX_INLINE
        SUPERP_RING_NEED_WAKEUP SUPERP_RING_ERROR SUPERP_RING_LATER SUPERP_CQ_ARMED
        SUPERP_CQ_ARMED_SOLICITED SUPERP_SQE_SOLICITED
        SUPERP_OP_WRITE SUPERP_OP_READ SUPERP_OP_FETCH_ADD SUPERP_OP_COMPARE_SWAP SUPERP_OP_SWAP
        SUPERP_OP_SEND SUPERP_OP_RECV SUPERP_OP_RECV_WRITE
        SUPERP_SQE_SIGNALED SUPERP_SQE_INLINE SUPERP_SQE_IMM SUPERP_SQE_FENCE SUPERP_CQE_IMM
        SUPERP_ERR_MALFORMED SUPERP_ERR_OPCODE SUPERP_ERR_ACCESS SUPERP_ERR_NO_BUFFER
        SUPERP_ERR_NO_QP SUPERP_ERR_RESOURCES SUPERP_ERR_ABORTED
        SUPERP_IOC_CQ_CREATE SUPERP_IOC_CQ_DESTROY SUPERP_IOC_RQP_CREATE SUPERP_IOC_RQP_CONNECT
        SUPERP_IOC_RQP_DESTROY SUPERP_IOC_RQP_MODIFY
        SUPERP_QPS_INIT SUPERP_QPS_RTS SUPERP_QPS_ERR
    };
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"));
    let source = folder.join("layout.c");
    let binary = folder.join("layout");
    std::fs::write(&source, program(&constants)).unwrap();
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".into());
    let built = Command::new(&compiler)
        .arg("-I")
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/../../uapi"))
        .arg("-o")
        .args([&binary, &source])
        .status()
        .unwrap_or_else(|error| panic!("this test needs a C compiler, {compiler}: {error}"));
    assert!(built.success());
    let output = Command::new(&binary).output().unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    assert_eq!(printed, expected(&constants));
}
