// SPDX-License-Identifier: GPL-2.0 OR MIT
//! What the manual pages say besides what the command line does.

use superp_pages::{Entry, Manual, Page};

pub(crate) const MANUAL: Manual = Manual {
    exit: &[
        (
            "0",
            "It was done; a server was told to end by SIGTERM or SIGINT.",
        ),
        ("1", "It failed; standard error says why."),
        ("2", "The command line is wrong."),
    ],
    files: &[(
        "/usr/share/doc/superp/Documentation/manager.md",
        "Fabric files, the interface, certificates, metrics, and all else.",
    )],
    see_also: &["superp-cm(1)", "superp-fabric(1)", "superp-agent(1)"],
    pages: &[PAGES],
};

const AUTHORITY: Entry = (
    "/etc/superp/ca/ca.crt, ca.key",
    "The authority. Whoever can read ca.key can be anybody.",
);
const OWN: Entry = (
    "/etc/superp/tls/ca.crt, tls.crt, tls.key",
    "Whom to trust, and who asks, where --tls or SUPERP_TLS says /etc/superp/tls.",
);

const PAGES: &[Page] = &[
    Page::new("superp-cm", &[
        ("Make certificates, and be the manager:", "superp-cm init --address 10.0.0.254"),
        ("", "superp-cm serve --tls /etc/superp/ca/manager --listen 10.0.0.254:7778"),
        ("See whether a fabric file is right:", "superp-cm check lab.toml"),
    ])
    .files(&[
        ("/etc/superp/manager.conf", "SUPERP_CM_OPTIONS for the unit: what superp-cm serve is told."),
        ("/var/lib/superp/manager.db", "The state, unless it is in etcd."),
        ("/usr/share/superp/monitoring", "Alert rules for Prometheus, and a dashboard for Grafana."),
    ])
    .see_also(&["systemctl(1)"]),
    Page::new("superp-cm serve", &[
        ("For this host alone:", "superp-cm serve"),
        (
            "For others, by mutual TLS:",
            "superp-cm serve --tls /etc/superp/ca/manager --listen 10.0.0.254:7778",
        ),
        (
            "One of several, with the state in etcd:",
            "superp-cm serve --etcd http://10.0.0.1:2379,http://10.0.0.2:2379 --tls /etc/superp/ca/manager --listen 10.0.0.254:7778",
        ),
    ])
    .files(&[
        ("/etc/superp/manager.conf", "SUPERP_CM_OPTIONS for the unit."),
        ("/var/lib/superp/manager.db", "The state, unless it is in etcd."),
        ("/usr/share/superp/monitoring", "Alert rules for Prometheus, and a dashboard for Grafana."),
    ]),
    Page::new("superp-cm init", &[(
        "Make the authority, and a certificate for the manager at an address:",
        "superp-cm init --address 10.0.0.254",
    )])
    .files(&[AUTHORITY, ("/etc/superp/ca/manager", "What superp-cm serve is given as --tls.")]),
    Page::new("superp-cm issue", &[
        (
            "For the agent of a host:",
            "superp-cm issue --role agent --name xpu01 --address 10.0.0.1 --out xpu01",
        ),
        (
            "For a person who commands:",
            "superp-cm issue --role operator --name alice --out alice",
        ),
        (
            "For a person who looks on for a day:",
            "superp-cm issue --role viewer --name guest --valid 24h --out guest",
        ),
    ])
    .files(&[AUTHORITY]),
    Page::new("superp-cm revoke", &[
        ("All certificates of somebody:", "superp-cm revoke alice"),
        ("One of them:", "superp-cm revoke --certificate alice/tls.crt"),
    ])
    .files(&[AUTHORITY, ("/etc/superp/ca/ca.crl", "Certificates that are revoked.")]),
    Page::new("superp-cm token", &[(
        "For the agent of a host, valid for an hour:",
        "superp-cm token --role agent --name xpu01 --address 10.0.0.1 --redeem 1h",
    )])
    .files(&[AUTHORITY])
    .see_also(&["superp-cm-enrol(1)", "superp-cm-enrolment(1)"]),
    Page::new("superp-cm enrolment", &[(
        "Redeem tokens at an address:",
        "superp-cm enrolment --address 10.0.0.254 --listen 10.0.0.254:7777",
    )])
    .files(&[AUTHORITY])
    .see_also(&["superp-cm-enrol(1)", "superp-cm-token(1)"]),
    Page::new("superp-cm enrol", &[(
        "Redeem a token on its host:",
        "SUPERP_TOKEN=TOKEN superp-cm enrol --url https://10.0.0.254:7777",
    )])
    .files(&[("/etc/superp/tls/ca.crt, tls.crt, tls.key", "What it makes, unless --out says otherwise.")])
    .see_also(&["superp-cm-enrolment(1)", "superp-cm-token(1)"]),
    Page::new("superp-cm plan", &[("Show what a file makes:", "superp-cm plan lab.toml")])
        .files(&[OWN])
        .see_also(&["superp-fabric-plan(1)"]),
    Page::new("superp-cm diff", &[("Show what a file would change:", "superp-cm diff lab.toml")])
        .files(&[OWN])
        .see_also(&["superp-fabric-diff(1)"]),
    Page::new("superp-cm apply", &[(
        "Apply a file to a manager elsewhere:",
        "superp-cm apply lab.toml --manager https://10.0.0.254:7778 --tls /etc/superp/tls",
    )])
    .files(&[OWN])
    .see_also(&["superp-fabric-apply(1)"]),
    Page::new("superp-cm check", &[("Tell the mistakes of a file:", "superp-cm check lab.toml")]),
];

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn every_command_has_examples_that_it_takes() {
        assert_eq!(MANUAL.faults(&crate::Cli::command()), [""; 0]);
    }
}
