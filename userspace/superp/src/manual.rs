// SPDX-License-Identifier: GPL-2.0 OR MIT
//! What the manual pages say besides what the command line does.

#[cfg(feature = "fabric")]
mod fabric;
mod kernel;
mod moving;

use superp_pages::{Manual, Page};

pub(crate) const MANUAL: Manual = Manual {
    exit: &[
        ("0", "It was done."),
        ("1", "It failed; standard error says why, and what would help."),
        ("2", "The command line is wrong."),
    ],
    files: &[
        (
            "/sys/module/superp",
            "There while the module is loaded, without which nothing here works: modprobe superp.",
        ),
        (
            "/usr/share/doc/superp",
            "Everything else there is to read; under /usr/local where it was installed by make install.",
        ),
    ],
    see_also: &["superp(1)", "superp-agent(1)", "superp-cm(1)", "libsuperp(7)"],
    pages: &[
        PAGES,
        kernel::PAGES,
        moving::PAGES,
        #[cfg(feature = "fabric")]
        fabric::PAGES,
        #[cfg(not(feature = "fabric"))]
        &[Page::new(
            "superp fabric",
            &[("See what this build has not:", "superp fabric")],
        )],
    ],
};

const PAGES: &[Page] = &[Page::new(
    "superp",
    &[
        (
            "Connect with another node, on which the same command names this one:",
            "superp connect 10.23.0.2",
        ),
        ("Measure the round trip:", "superp ping -c 5 10.23.0.2"),
        ("Find out why it does not work:", "superp doctor 10.23.0.2"),
        ("Show all connections for a script:", "superp -j conn show"),
    ],
)
.see_also(&["superp_post_send(3)", "ip(8)", "tc(8)"])];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Cli;
    use clap::CommandFactory;

    #[test]
    fn every_command_has_examples_that_it_takes() {
        assert_eq!(MANUAL.faults(&Cli::command()), [""; 0]);
    }
}
