// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Pages of `superp fabric`.

use superp_pages::{Entry, Page};

const TLS: Entry = (
    "/etc/superp/tls/ca.crt, tls.crt, tls.key",
    "Whom to trust, and who asks, where --tls or SUPERP_TLS says /etc/superp/tls.",
);

/// The files of those that ask a manager.
const fn page(command: &'static str, examples: &'static [Entry]) -> Page {
    Page::new(command, examples).files(&[TLS])
}

pub(super) const PAGES: &[Page] = &[
    page(
        "superp fabric",
        &[
            ("Show how far the fabric is:", "superp fabric"),
            (
                "Of a manager elsewhere:",
                "superp fabric --manager https://10.0.0.254:7778 --tls /etc/superp/tls",
            ),
        ],
    ),
    page(
        "superp fabric status",
        &[("Show how far the fabric is:", "superp fabric status")],
    ),
    page(
        "superp fabric nodes",
        &[
            ("Show the nodes:", "superp fabric nodes"),
            ("Show everything of one:", "superp fabric nodes xpu03"),
        ],
    ),
    page(
        "superp fabric conns",
        &[
            (
                "Show the connections of a node:",
                "superp fabric conns xpu03",
            ),
            ("Show one:", "superp fabric conns 1@10.23.0.1-2@10.23.0.2"),
        ],
    ),
    page(
        "superp fabric plan",
        &[("Show what a file makes:", "superp fabric plan lab.toml")],
    ),
    page(
        "superp fabric diff",
        &[(
            "Show what a file would change:",
            "superp fabric diff lab.toml",
        )],
    ),
    page(
        "superp fabric apply",
        &[(
            "Boot a fabric, and wait a minute for it:",
            "superp fabric apply lab.toml --wait 60",
        )],
    ),
    page(
        "superp fabric drain",
        &[
            (
                "Stop the connections of a node before work on it:",
                "superp fabric drain xpu03 --wait 30",
            ),
            ("Stop all:", "superp fabric drain --all"),
        ],
    ),
    page(
        "superp fabric restart",
        &[(
            "Start the connections of a node again:",
            "superp fabric restart xpu03 --wait 30",
        )],
    ),
    page(
        "superp fabric reset",
        &[(
            "Reset both ends of a connection:",
            "superp fabric reset 1@10.23.0.1-2@10.23.0.2",
        )],
    ),
    page(
        "superp fabric job",
        &[("Show the jobs:", "superp fabric job list")],
    ),
    page(
        "superp fabric job create",
        &[(
            "Give three nodes a partition of their own:",
            "superp fabric job create train xpu[01-03] --ext --wait 30",
        )],
    ),
    page(
        "superp fabric job list",
        &[("Show the jobs:", "superp fabric job list")],
    ),
    page(
        "superp fabric job show",
        &[("Show a job:", "superp fabric job show train")],
    ),
    page(
        "superp fabric job token",
        &[(
            "Print the partition for SUPERP_PARTITION, once the job is there:",
            "superp fabric job token train --wait 30",
        )],
    )
    .see_also(&["superp-run(1)"]),
    page(
        "superp fabric job remove",
        &[(
            "End a job, if there is one:",
            "superp fabric job remove train --ignore-not-found",
        )],
    ),
    page(
        "superp fabric shutdown",
        &[("Shut every node down:", "superp fabric shutdown --wait 60")],
    ),
    page(
        "superp fabric proxy",
        &[(
            "Look at the page of a manager elsewhere, at http://127.0.0.1:8001/:",
            "superp fabric proxy --manager https://10.0.0.254:7778 --tls /etc/superp/tls",
        )],
    ),
    page(
        "superp fabric audit",
        &[(
            "Show who asked for what since record 100:",
            "superp fabric audit --after 100",
        )],
    ),
    page(
        "superp fabric events",
        &[
            ("Show the events that are kept:", "superp fabric events"),
            (
                "Print events as they happen:",
                "superp fabric events --follow",
            ),
        ],
    ),
];
