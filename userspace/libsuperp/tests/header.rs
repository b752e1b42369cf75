// SPDX-License-Identifier: GPL-2.0 OR MIT
//! `superp/verbs.h` declares what the library has: structs as the C compiler sees them, constants, and
//! functions, which are also those of the version script.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::process::Command;
use superp::attr;

const HEADER: &str = include_str!("../include/superp/verbs.h");
const SCRIPT: &str = include_str!("../libsuperp.map");
const SOURCES: &str = concat!(
    include_str!("../src/lib.rs"),
    include_str!("../src/post.rs"),
    include_str!("../src/queue.rs")
);

macro_rules! constants {
    ($($name:ident)*) => { [$((stringify!($name), attr::$name),)*] };
}

/// What a C program prints of the header.
fn printed(program: &str) -> String {
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (source, binary) = (folder.join("header.c"), folder.join("header"));
    std::fs::write(&source, program).unwrap();
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".into());
    let built = Command::new(&compiler)
        .args([
            "-Wall",
            "-Wextra",
            "-Werror",
            "-std=c99",
            "-pedantic-errors",
        ])
        // The kernel's header has an anonymous struct.
        .arg("-isystem")
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/../../uapi"))
        .arg("-I")
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/include"))
        .arg("-o")
        .args([&binary, &source])
        .status()
        .unwrap_or_else(|error| panic!("this test needs a C compiler, {compiler}: {error}"));
    assert!(built.success());
    String::from_utf8(Command::new(&binary).output().unwrap().stdout).unwrap()
}

#[test]
fn structs_and_constants_are_those_of_the_header() {
    let mut c = String::from(
        "#include <superp/verbs.h>\n#include <stdio.h>\n#include <stddef.h>\nint main(void)\n{\n",
    );
    let mut expected = String::new();
    for (name, size, fields) in attr::LAYOUT {
        writeln!(c, "printf(\"{name} %zu\\n\", sizeof(struct {name}));").unwrap();
        writeln!(expected, "{name} {size}").unwrap();
        for (field, offset, size) in *fields {
            writeln!(
                c,
                "printf(\"{name}.{field} %zu %zu\\n\", offsetof(struct {name}, {field}), \
                 sizeof(((struct {name} *)0)->{field}));"
            )
            .unwrap();
            writeln!(expected, "{name}.{field} {offset} {size}").unwrap();
        }
    }
    let constants = constants! {
        SUPERP_INLINE_LIMIT SUPERP_SEND_SIGNALED SUPERP_SEND_INLINE SUPERP_SEND_IMM SUPERP_SEND_FENCE SUPERP_SEND_SOLICITED
        SUPERP_WC_WITH_IMM
        SUPERP_QP_STATE
    };
    for (name, value) in constants {
        writeln!(c, "printf(\"{name} %lu\\n\", (unsigned long){name});").unwrap();
        writeln!(expected, "{name} {value}").unwrap();
    }
    c += "return 0;\n}\n";
    assert_eq!(printed(&c), expected);
}

/// Words that start with `superp_` where `marks` says.
fn names(text: &str, marks: impl Fn(&str, &str) -> bool) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for (at, _) in text.match_indices("superp_") {
        let word = &text[at..];
        let end = word.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let (word, rest) = word.split_at(end.unwrap_or(word.len()));
        if marks(&text[..at], rest) {
            names.insert(word.into());
        }
    }
    names
}

#[test]
fn functions_are_those_of_the_header_and_of_the_version_script() {
    let code: String = HEADER
        .split("/*")
        .map(|part| part.split("*/").last().unwrap())
        .collect();
    let declared = names(&code, |_, rest| rest.starts_with('('));
    let defined = names(SOURCES, |before, rest| {
        before.ends_with("extern \"C\" fn ") && rest.starts_with('(')
    });
    let exported = names(SCRIPT, |_, rest| rest.starts_with(';'));
    assert!(declared.len() > 20);
    assert_eq!(declared, defined);
    assert_eq!(declared, exported);
}
