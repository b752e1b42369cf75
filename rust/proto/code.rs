// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Table of the error codes of transactions [proto 4.7].

use core::fmt;

/// Why a transaction failed: the code of a Transaction Error, or a local reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Code {
    /// Kind of failure.
    pub major: u16,
    /// Detail of the major code; 0 for none.
    pub minor: u16,
}

macro_rules! codes {
    ($($(#[doc = $doc:literal])+ $konst:ident = $major:literal, $minor:literal, $name:literal;)+) => {
        impl Code {
            $($(#[doc = $doc])+ pub const $konst: Self = Self { major: $major, minor: $minor };)+
        }

        /// Every code with its display name, ordered by major and minor.
        pub const CODES: &[(Code, &str)] = &[$((Code::$konst, $name)),+];
    };
}

codes! {
    /// The operation or the answer is malformed.
    MALFORMED = 1, 0, "malformed";
    /// An offset or a length contradicts the message's length.
    MALFORMED_LENGTH = 1, 1, "malformed: length";
    /// The answer does not match the request.
    MALFORMED_REPLY = 1, 2, "malformed: reply does not match the request";
    /// More than one immediate in a transaction.
    MALFORMED_IMMEDIATE = 1, 3, "malformed: more than one immediate";
    /// An atomic of an unknown kind, or at an address that is no multiple of 8.
    MALFORMED_ATOMIC = 1, 4, "malformed: atomic of unknown kind or not aligned";
    /// A data block is under 16 bytes.
    MALFORMED_BLOCK = 1, 5, "malformed: block under 16 bytes";

    /// This implementation does not know the opcode.
    UNKNOWN_OPCODE = 2, 0, "unknown opcode";
    /// The opcode is an extension, and this connection does not accept extensions.
    EXTENSION_NOT_ENABLED = 2, 1, "unknown opcode: extension not enabled";

    /// Access to memory is refused.
    ACCESS = 3, 0, "access refused";
    /// No region or receive context has this key.
    ACCESS_KEY = 3, 1, "access refused: no such key";
    /// Some of the bytes are outside the region.
    ACCESS_BOUNDS = 3, 2, "access refused: out of bounds";
    /// The region does not allow this kind of operation.
    ACCESS_PERMISSION = 3, 3, "access refused: permission";
    /// Region and connection belong to different partitions.
    ACCESS_PARTITION = 3, 4, "access refused: partition";

    /// The receiver has no buffer for the message.
    NO_RECEIVE_BUFFER = 4, 0, "no receive buffer";
    /// The message is longer than the receive buffer.
    RECEIVE_BUFFER_TOO_SHORT = 4, 1, "receive buffer too short";
    /// An earlier message to the queue pair was refused, and none with `start` came since.
    RECEIVE_AFTER_REFUSAL = 4, 2, "follows a refused message";

    /// No queue pair has this number.
    NO_QUEUE_PAIR = 5, 0, "no such queue pair";

    /// The target lacks resources.
    RESOURCES = 6, 0, "out of resources";
    /// The target has no free entry for another read.
    RESOURCES_READS = 6, 1, "out of resources: too many reads";
    /// The request has more packets than `tal_max_pkt_per_trans`.
    RESOURCES_PACKETS = 6, 2, "out of resources: too many packets";
    /// The reply would need more packets than `tal_max_pkt_per_trans`.
    RESOURCES_REPLY = 6, 3, "out of resources: reply too long";

    /// The transaction was aborted.
    ABORTED = 7, 0, "aborted";
    /// The connection was stopped.
    ABORTED_STOPPED = 7, 1, "aborted: connection stopped";
    /// The connection broke: the peer does not answer.
    ABORTED_BROKEN = 7, 2, "aborted: connection broken";
    /// The transaction took longer than `tal_transaction_timeout`.
    ABORTED_TIMEOUT = 7, 3, "aborted: transaction timeout";
}

impl Code {
    /// Whether the code answers a guess: nothing has the key, the address or the queue pair number
    /// that the peer has named. Such refusals are limited in rate.
    pub(super) fn answers_a_guess(self) -> bool {
        self.major == Self::ACCESS.major || self.major == Self::NO_QUEUE_PAIR.major
    }

    /// Display name of the code. A code without a name has that of its major code, or "unknown
    /// error".
    pub fn name(self) -> &'static str {
        let major = Self { minor: 0, ..self };
        let find = |code| CODES.iter().find(|entry| entry.0 == code);
        find(self)
            .or_else(|| find(major))
            .map_or("unknown error", |entry| entry.1)
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}.{})", self.name(), self.major, self.minor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_ordered_and_named() {
        for pair in CODES.windows(2) {
            let [(a, _), (b, _)] = pair else { continue };
            assert!((a.major, a.minor) < (b.major, b.minor));
        }
        for (code, name) in CODES {
            assert_eq!(code.name(), *name);
        }
    }

    #[test]
    fn unknown_codes_have_a_name_too() {
        let name = |major, minor| Code { major, minor }.name();
        assert_eq!(name(3, 99), Code::ACCESS.name());
        assert_eq!(name(99, 0), "unknown error");
        assert_eq!(
            alloc::format!("{}", Code::ACCESS_KEY),
            "access refused: no such key (3.1)"
        );
    }
}
