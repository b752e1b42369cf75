// SPDX-License-Identifier: GPL-2.0 OR MIT
//! What the manual page says besides what the command line does.

use superp_pages::{Manual, Page};

pub(crate) const MANUAL: Manual = Manual {
    exit: &[
        ("0", "SIGTERM or SIGINT told it to end. Connections go on."),
        (
            "1",
            "It cannot serve, or the module was unloaded or loaded again: it is to be started again, as the unit does.",
        ),
        ("2", "The command line is wrong."),
    ],
    files: &[
        (
            "/etc/superp/agent.conf",
            "Variables for the unit, as SUPERP_AGENT_LISTEN=10.0.0.5:7779.",
        ),
        (
            "/etc/superp/tls/ca.crt, tls.crt, tls.key",
            "Whom to trust, and who this is, where --tls says /etc/superp/tls.",
        ),
        (
            "/var/lib/superp/agent.json",
            "What outlives the agent: the highest term and the configuration.",
        ),
        ("/var/lib/superp/ca.crl", "Certificates that are revoked."),
        ("/run/superp", "The lock: one agent in each network namespace."),
        (
            "/usr/share/doc/superp/Documentation/agent.md",
            "The interface, the metrics, and all else.",
        ),
    ],
    see_also: &["superp(1)", "superp-cm(1)", "superp-cm-issue(1)", "systemctl(1)"],
    pages: &[&[Page::new(
        "superp-agent",
        &[
            (
                "Serve a manager on the same host:",
                "superp-agent",
            ),
            (
                "Serve a manager elsewhere, by mutual TLS:",
                "superp-agent --tls /etc/superp/tls --listen 10.0.0.5:7779",
            ),
            (
                "As the unit does, with the same by variables:",
                "SUPERP_AGENT_LISTEN=10.0.0.5:7779 SUPERP_AGENT_TLS=/etc/superp/tls superp-agent --state-dir /var/lib/superp",
            ),
        ],
    )]],
};

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_examples_are_taken() {
        assert_eq!(MANUAL.faults(&crate::Args::command()), [""; 0]);
    }
}
