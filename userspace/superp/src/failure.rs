// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Failures: what went wrong, and what would help.

use clap::error::ErrorKind;
use serde_json::{json, Map, Value};
use std::borrow::Cow;
use std::io;
use std::net::IpAddr;
use superp_netlink::Error;
use superp_proto::Code;

/// Why the command fails.
#[derive(Debug)]
pub(crate) struct Failure {
    text: String,
    hint: Option<Cow<'static, str>>,
    errno: Option<i32>,
    code: Option<Code>,
    json_told: bool,
}

impl Failure {
    /// A failure told by a sentence.
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            hint: None,
            errno: None,
            code: None,
            json_told: false,
        }
    }

    /// The result that was asked for has been printed, and says it in JSON.
    pub(crate) fn without_json(mut self) -> Self {
        self.json_told = true;
        self
    }

    /// Where it was found.
    pub(crate) fn at(mut self, place: impl std::fmt::Display) -> Self {
        self.text = format!("{place}: {}", self.text);
        self
    }

    /// Who is the reason.
    pub(crate) fn by(mut self, who: impl std::fmt::Display) -> Self {
        self.text = format!("{}: by {who}", self.text);
        self
    }

    /// What the command line has against its words, in one line.
    pub(crate) fn usage(error: &clap::Error) -> Self {
        let text = match error.kind() {
            // The text is the help.
            ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => "a command is missing".into(),
            _ => error.to_string(),
        };
        let beyond = ["Usage:", "For more", "tip:"];
        let lines = text.lines().map(str::trim);
        let lines = lines.take_while(|line| !beyond.iter().any(|word| line.starts_with(word)));
        let words: Vec<&str> = lines.flat_map(str::split_whitespace).collect();
        let text = words.join(" ");
        Self::new(text.strip_prefix("error: ").unwrap_or(&text))
    }

    /// What would help.
    pub(crate) fn hint(mut self, hint: impl Into<Cow<'static, str>>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The error number that names the cause.
    #[must_use]
    pub(crate) fn errno(mut self, errno: i32) -> Self {
        self.errno = Some(errno);
        self
    }

    /// It happened on the way to this peer. Where that may be the reason, the doctor knows more.
    pub(crate) fn towards(self, peer: IpAddr) -> Self {
        let lost = [
            libc::EHOSTUNREACH,
            libc::ENOTCONN,
            libc::ETIMEDOUT,
            libc::ECONNRESET,
        ];
        match self.errno {
            Some(errno) if self.hint.is_none() && lost.contains(&errno) => self.hint(doctor(peer)),
            _ => self,
        }
    }

    /// A failed call: what was tried, and the system's answer.
    pub(crate) fn io(what: impl std::fmt::Display, error: &io::Error) -> Self {
        let reason = error.to_string();
        let reason = reason.split(" (os error").next().unwrap_or_default();
        let failure = Self {
            errno: error.raw_os_error(),
            ..Self::new(format!("{what}: {reason}"))
        };
        match error.raw_os_error() {
            _ if reason.contains("not loaded") => failure.hint(NOT_LOADED),
            Some(libc::EPERM) => failure.hint(NOT_PERMITTED),
            _ => failure,
        }
    }

    /// A request that failed with a code of the transaction layer.
    pub(crate) fn refused(what: impl std::fmt::Display, code: Code, errno: i32) -> Self {
        let name = errno_name(errno);
        let verb = match code.major {
            major if major == Code::ABORTED.major => "failed",
            _ => "refused",
        };
        // Its tal_error_detail says whether the peer tells more.
        let unexplained = code.major == Code::ACCESS_BOUNDS.major && code.minor == 0;
        Self {
            errno: Some(errno),
            code: Some(code),
            hint: unexplained.then_some(UNEXPLAINED.into()),
            ..Self::new(format!("{what} {verb}: {code}, {name}"))
        }
    }

    /// The sentence.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// The reader of the output is gone.
    pub(crate) fn is_broken_pipe(&self) -> bool {
        self.errno == Some(libc::EPIPE)
    }

    /// What would help, if anything is known to.
    pub(crate) fn help(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    /// Whether the result that was printed says it in JSON.
    pub(crate) fn is_told_in_json(&self) -> bool {
        self.json_told
    }

    /// The failure as an object for programs.
    pub(crate) fn object(&self) -> Value {
        let mut object = Map::new();
        match self.code {
            Some(code) => {
                object.insert("error".into(), json!(code.name()));
                object.insert("major".into(), json!(code.major));
                object.insert("minor".into(), json!(code.minor));
                object.insert("message".into(), json!(self.text));
            }
            None => {
                object.insert("error".into(), json!(self.text));
            }
        }
        if let Some(errno) = self.errno {
            object.insert("errno".into(), json!(errno_name(errno)));
        }
        if let Some(hint) = &self.hint {
            object.insert("hint".into(), json!(hint));
        }
        Value::Object(object)
    }
}

const NOT_LOADED: &str = "load it: modprobe superp, or insmod superp.ko";
const NOT_PERMITTED: &str = "this needs CAP_NET_ADMIN in the network namespace: run it as root";
const UNEXPLAINED: &str = "the peer does not tell why: there, superp events does";

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let failure = Self {
            errno: error.errno(),
            ..Self::new(own_words(&error.to_string()))
        };
        match &error {
            Error::NotLoaded => failure.hint(NOT_LOADED),
            error if error.errno() == Some(libc::EPERM) => failure.hint(NOT_PERMITTED),
            Error::Refused(refusal) => {
                let message = refusal.message.as_deref().unwrap_or_default();
                let fits = |parts: &[&str]| parts.iter().all(|part| message.contains(part));
                match HINTS.iter().find(|(parts, _)| fits(parts)) {
                    Some((_, hint)) => failure.hint(*hint),
                    None => failure,
                }
            }
            _ => failure,
        }
    }
}

/// The command that finds out why a peer is not reached.
pub(crate) fn doctor(peer: IpAddr) -> String {
    format!("superp doctor {peer} tells why")
}

/// What attributes of the kernel's interface, which its sentences name, are called on the command line.
const WORDS: &[(&str, &str)] = &[
    ("remote-addr", "peer"),
    ("remote-cid", "peer-cid"),
    ("local-addr", "local"),
    ("local-cid", "id"),
    ("ifindex", "dev"),
    ("prefix-len", "the length of the prefix"),
];

/// A sentence of the kernel in the words of the command line.
fn own_words(text: &str) -> String {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let mut words = String::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        let word = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
        let (word, behind) = rest.split_at(word);
        let own = WORDS.iter().find(|(theirs, _)| *theirs == word);
        words += own.map_or(word, |(_, own)| own);
        let between = behind.find(is_part).unwrap_or(behind.len());
        let (between, behind) = behind.split_at(between);
        words += between;
        rest = behind;
    }
    words
}

/// What helps against sentences of the kernel that contain these parts; the first that fits.
const HINTS: &[(&[&str], &str)] = &[
    (&["no port serves"], "superp dev add DEV"),
    (&["several ports serve"], "say dev DEV"),
    (
        &["no connection with this local-cid"],
        "superp conn show lists them",
    ),
    (
        &["two paths are the same"],
        "path DEV of another device, or with a peer or local of its own",
    ),
    (&["not a port"], "superp dev show lists the ports"),
    (
        &["connections use the port"],
        "superp conn show lists them, superp conn del CID deletes one",
    ),
    (&["no parameter"], "superp param show lists them"),
    // A parameter's name has an underscore, an attribute's has not.
    (
        &["_", "is out of range"],
        "superp param show lists the ranges",
    ),
    (
        &["pdl_conns_per_xpu allows"],
        "superp param set pdl_conns_per_xpu NUMBER allows more",
    ),
];

impl From<String> for Failure {
    fn from(text: String) -> Self {
        Self::new(text)
    }
}

/// For output.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::io("output", &error)
    }
}

macro_rules! names {
    ($($name:ident)*) => {
        /// The symbol of an error number.
        pub(crate) fn errno_name(errno: i32) -> String {
            match errno {
                $(libc::$name => stringify!($name).into(),)*
                _ => format!("errno {errno}"),
            }
        }
    };
}

names! {
    EACCES EADDRINUSE EADDRNOTAVAIL EAGAIN EALREADY EBADF EBADMSG EBUSY ECANCELED ECONNABORTED
    ECONNREFUSED ECONNRESET EDESTADDRREQ EEXIST EFAULT EHOSTUNREACH EINTR EINVAL EIO EISCONN
    EMFILE EMSGSIZE ENETDOWN ENETUNREACH ENFILE ENOBUFS ENODEV ENOENT ENOMEM ENOSPC ENOTCONN
    EOPNOTSUPP EPERM EPIPE EPROTO ERANGE ETIMEDOUT
}

#[cfg(test)]
mod tests {
    use super::*;
    use superp_netlink::Refusal;

    #[test]
    fn refusal_of_the_kernel_gets_a_hint() {
        let error = Error::Refused(Refusal {
            errno: libc::ENODEV,
            message: Some("no port serves this encapsulation: make the device a port first".into()),
            attribute: None,
            missing: None,
            range: None,
        });
        let object = Failure::from(error).object();
        assert_eq!(object["errno"], "ENODEV");
        assert_eq!(object["hint"], "superp dev add DEV");
    }

    #[test]
    fn sentences_of_the_kernel_have_the_words_of_the_command() {
        for (kernel, own) in [
            (
                "no local address towards the peer: give local-addr",
                "no local address towards the peer: give local",
            ),
            (
                "local-addr and remote-addr are of different families",
                "local and peer are of different families",
            ),
            (
                "remote-cid: integer out of range (1 to 255)",
                "peer-cid: integer out of range (1 to 255)",
            ),
            ("a path needs its ifindex", "a path needs its dev"),
            ("param.value, my-local-cid-2", "param.value, my-local-cid-2"),
        ] {
            assert_eq!(own_words(kernel), own);
        }
    }

    #[test]
    fn doctor_is_called_where_it_knows_more() {
        let peer = "fd00::1".parse().unwrap();
        let lost = |errno| Failure::refused("ping", Code::ABORTED, errno).towards(peer);
        let hint = |failure: Failure| failure.object().get("hint").cloned();
        let doctor = Some(json!("superp doctor fd00::1 tells why"));
        assert_eq!(hint(lost(libc::ETIMEDOUT)), doctor);
        assert_eq!(hint(lost(libc::EACCES)), None);
        let better = Failure::refused("ping", Code::ABORTED, libc::ETIMEDOUT).hint("this");
        assert_eq!(hint(better.towards(peer)), Some(json!("this")));
    }

    #[test]
    fn refused_access_is_named() {
        let failure = Failure::refused(
            "write of 4096 bytes at 0x10",
            Code::ACCESS_BOUNDS,
            libc::EACCES,
        );
        assert_eq!(
            failure.text,
            "write of 4096 bytes at 0x10 refused: access refused: out of bounds (3.2), EACCES"
        );
        let object = failure.object();
        assert_eq!(object["error"], "access refused: out of bounds");
        assert_eq!((&object["major"], &object["minor"]), (&json!(3), &json!(2)));
        assert_eq!(
            (&object["errno"], object.get("hint")),
            (&json!("EACCES"), None)
        );
        let code = Code {
            minor: 0,
            ..Code::ACCESS_BOUNDS
        };
        let object = Failure::refused("write", code, libc::EACCES).object();
        assert_eq!(object["hint"], UNEXPLAINED);
    }

    #[test]
    fn system_errors_lose_their_number() {
        let failure = Failure::io("bind", &io::Error::from_raw_os_error(libc::EADDRINUSE));
        assert_eq!(failure.text, "bind: Address already in use");
        assert_eq!(errno_name(12345), "errno 12345");
    }
}
