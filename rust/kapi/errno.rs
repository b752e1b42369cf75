// SPDX-License-Identifier: GPL-2.0

//! Error numbers of networking that the `kernel` crate does not define, and errors with a sentence
//! for the user. The numbers are functions, because `Error` has no public `const` constructor.

use kernel::{error::Error, prelude::*, uapi};

/// Why a request is refused: the errno, and a sentence for the user who made the request.
pub(crate) struct Refusal {
    pub(crate) errno: Error,
    pub(crate) msg: &'static CStr,
    /// Time after which the request may succeed, in ms. `None` if that is not known.
    pub(crate) retry_ms: Option<u64>,
}

impl Refusal {
    pub(crate) fn new(errno: Error, msg: &'static CStr) -> Refusal {
        Refusal {
            errno,
            msg,
            retry_ms: None,
        }
    }
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Error {
        refusal.errno
    }
}

macro_rules! network_errors {
    ($($name:ident = $errno:ident, $doc:literal;)*) => {
        $(
            #[doc = $doc]
            pub(crate) fn $name() -> Error {
                // CAST: Error numbers are below 4096.
                Error::from_errno(-(uapi::$errno as i32))
            }
        )*
    };
}

network_errors! {
    eaddrinuse = EADDRINUSE, "Address already in use.";
    eaddrnotavail = EADDRNOTAVAIL, "Cannot assign requested address.";
    eafnosupport = EAFNOSUPPORT, "Address family not supported by protocol.";
    ealready = EALREADY, "Operation already in progress.";
    ebadmsg = EBADMSG, "Not a data message.";
    econnrefused = ECONNREFUSED, "Connection refused.";
    econnreset = ECONNRESET, "Connection reset by peer.";
    edestaddrreq = EDESTADDRREQ, "Destination address required.";
    ehostunreach = EHOSTUNREACH, "No route to host.";
    eisconn = EISCONN, "Transport endpoint is already connected.";
    enobufs = ENOBUFS, "No buffer space available.";
    enotconn = ENOTCONN, "Transport endpoint is not connected.";
    eopnotsupp = EOPNOTSUPP, "Operation not supported.";
}
