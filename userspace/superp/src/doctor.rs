// SPDX-License-Identifier: GPL-2.0 OR MIT
//! `superp doctor`: what is wrong, and what would fix it.
//!
//! [`facts`] asks the system, [`judge`] judges what it said.

mod facts;
mod judge;

use crate::failure::Failure;
use crate::host;
use crate::out::Out;
use clap::Args;
use serde::Serialize;
use std::net::IpAddr;
use superp_netlink::Conn;

#[derive(Args)]
pub(crate) struct Doctor {
    /// Only what concerns the peer with this address or host name.
    #[arg(value_parser = host::peer)]
    pub(crate) peer: Option<IpAddr>,
    /// How long to wait for a peer's answer: seconds, or a time such as 500ms.
    #[arg(short = 'W', long, default_value_t = 1.0, value_parser = superp_units::seconds)]
    pub(crate) timeout: f64,
}

/// How something that was examined is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Verdict {
    Ok,
    /// Worth knowing; nothing to repair.
    Note,
    Wrong,
}

/// What was found out about one thing.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
struct Finding {
    /// What was examined: module, port, link, mtu, address, connection, route, neighbour, answer,
    /// drops, queue-pair, region.
    check: &'static str,
    /// Of which object: a device, a connection's id, an address…
    object: String,
    verdict: Verdict,
    /// One sentence.
    text: String,
    /// A command that fixes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    remedy: Option<String>,
    /// A command for the peer's node.
    #[serde(skip_serializing_if = "Option::is_none")]
    peer_remedy: Option<String>,
    /// What to do, where no command can be given as it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    advice: Option<String>,
}

impl Finding {
    fn new(
        verdict: Verdict,
        check: &'static str,
        object: impl ToString,
        text: impl Into<String>,
    ) -> Self {
        Self {
            check,
            object: object.to_string(),
            verdict,
            text: text.into(),
            remedy: None,
            peer_remedy: None,
            advice: None,
        }
    }

    fn ok(check: &'static str, object: impl ToString, text: impl Into<String>) -> Self {
        Self::new(Verdict::Ok, check, object, text)
    }

    fn note(check: &'static str, object: impl ToString, text: impl Into<String>) -> Self {
        Self::new(Verdict::Note, check, object, text)
    }

    fn wrong(check: &'static str, object: impl ToString, text: impl Into<String>) -> Self {
        Self::new(Verdict::Wrong, check, object, text)
    }

    fn remedy(mut self, command: impl Into<String>) -> Self {
        self.remedy = Some(command.into());
        self
    }

    fn at_peer(mut self, command: impl Into<String>) -> Self {
        self.peer_remedy = Some(command.into());
        self
    }

    fn advice(mut self, words: impl Into<String>) -> Self {
        self.advice = Some(words.into());
        self
    }

    fn print(&self, out: &mut Out) -> Result<(), Failure> {
        let word = match self.verdict {
            Verdict::Ok => "ok",
            Verdict::Note => "note",
            Verdict::Wrong => "wrong",
        };
        out.line(format_args!("{word:<6} {}", self.text))?;
        let peer = self.peer_remedy.as_ref();
        let peer = peer.map(|command| format!("at the peer: {command}"));
        for hint in [&self.remedy, &peer, &self.advice].into_iter().flatten() {
            out.line(format_args!("       hint: {hint}"))?;
        }
        Ok(())
    }
}

/// What gives a connection that has ended a new life.
pub(crate) fn again(conn: &Conn) -> String {
    let (here, there) = (judge::reset_here(conn), judge::reset_there(conn));
    format!("{here}; at the peer: {there}")
}

pub(crate) fn run(args: &Doctor, out: &mut Out) -> Result<(), Failure> {
    let findings = match facts::gather(args.peer)? {
        Some(facts) => judge::judge(&facts, &mut facts::System::new(args.timeout)),
        None => vec![judge::not_loaded()],
    };
    out.either(&findings, |out| {
        findings.iter().try_for_each(|finding| finding.print(out))
    })?;
    let wrong = findings.iter();
    let wrong = wrong.filter(|finding| finding.verdict == Verdict::Wrong);
    match wrong.count() {
        0 => Ok(()),
        count => {
            // Before what goes to standard error.
            out.flush()?;
            let what = if count == 1 { "thing is" } else { "things are" };
            Err(Failure::new(format!("{count} {what} wrong")).without_json())
        }
    }
}
