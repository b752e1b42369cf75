// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Failures: what went wrong, and what would help.

use crate::out::Out;
use serde_json::{json, Map, Value};
use std::io;
use superp_netlink::Error;
use superp_proto::Code;

/// Why the command fails.
#[derive(Debug)]
pub(crate) struct Failure {
    text: String,
    hint: Option<&'static str>,
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

    /// What would help.
    pub(crate) fn hint(mut self, hint: &'static str) -> Self {
        self.hint = Some(hint);
        self
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
        Self {
            errno: Some(errno),
            code: Some(code),
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

    /// Prints it: for people to standard error, with `-j` also as an object to standard output.
    pub(crate) fn tell(&self, out: &mut Out) {
        eprintln!("superp: {}", self.text);
        if let Some(hint) = self.hint {
            eprintln!("hint: {hint}");
        }
        if out.is_json() && !self.json_told {
            // Nothing can be done about a second failure.
            let _ = out.json(&self.object()).and_then(|()| out.flush());
        }
    }

    fn object(&self) -> Value {
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
        if let Some(hint) = self.hint {
            object.insert("hint".into(), json!(hint));
        }
        Value::Object(object)
    }
}

const NOT_LOADED: &str = "load it: modprobe superp, or insmod superp.ko";
const NOT_PERMITTED: &str = "this needs CAP_NET_ADMIN in the network namespace: run it as root";

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let failure = Self {
            errno: error.errno(),
            ..Self::new(error.to_string())
        };
        match &error {
            Error::NotLoaded => failure.hint(NOT_LOADED),
            error if error.errno() == Some(libc::EPERM) => failure.hint(NOT_PERMITTED),
            Error::Refused(refusal) => {
                let message = refusal.message.as_deref().unwrap_or_default();
                let fits = |parts: &[&str]| parts.iter().all(|part| message.contains(part));
                match HINTS.iter().find(|(parts, _)| fits(parts)) {
                    Some((_, hint)) => failure.hint(hint),
                    None => failure,
                }
            }
            _ => failure,
        }
    }
}

/// What helps against sentences of the kernel that contain these parts; the first that fits.
const HINTS: &[(&[&str], &str)] = &[
    (&["no port serves"], "superp dev add DEV"),
    (&["several ports serve"], "say dev DEV"),
    (
        &["no connection with this local-cid"],
        "superp conn show lists them",
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
        assert_eq!(object["errno"], "EACCES");
    }

    #[test]
    fn system_errors_lose_their_number() {
        let failure = Failure::io("bind", &io::Error::from_raw_os_error(libc::EADDRINUSE));
        assert_eq!(failure.text, "bind: Address already in use");
        assert_eq!(errno_name(12345), "errno 12345");
    }
}
