// SPDX-License-Identifier: GPL-2.0 OR MIT
//! What can go wrong: at once, and in a completion.

use crate::partition::{Malformed, VARIABLE};
use std::{fmt, io};
use superp_sys::uapi;

/// Why a call failed.
#[derive(Debug)]
pub enum Error {
    /// The module is not loaded.
    NotLoaded,
    /// No established connection leads to the peer.
    NoConnection,
    /// No established connection to the peer is in the partition that the environment names.
    NoConnectionInPartition,
    /// The environment names what is no partition.
    Partition(Malformed),
    /// Another queue pair of the node has the number.
    NumberTaken,
    /// The queue pair has, or had, a peer.
    AlreadyConnected,
    /// No more regions, queue pairs or completion queues of this kind.
    TooMany,
    /// No memory, or more than RLIMIT_MEMLOCK allows.
    NoMemory,
    /// The bytes are not inside of the region.
    OutOfBounds,
    /// More than fits into an entry.
    InlineTooLong,
    /// More parts than the queue pair was made for.
    TooManyParts,
    /// The ring has no room: take completions first.
    Full,
    /// An argument that is never right.
    Invalid(&'static str),
    /// The configuration of the node cannot be read.
    Netlink(superp_netlink::Error),
    /// Any other error of the system.
    Os(io::Error),
}

impl Error {
    /// The error number.
    pub fn errno(&self) -> i32 {
        // The numbers of Linux, as they are everywhere but on alpha, mips, parisc and sparc.
        const ENOENT: i32 = 2;
        const EIO: i32 = 5;
        const ENOMEM: i32 = 12;
        const EINVAL: i32 = 22;
        const ENOSPC: i32 = 28;
        const ERANGE: i32 = 34;
        const EMSGSIZE: i32 = 90;
        const EADDRINUSE: i32 = 98;
        const EISCONN: i32 = 106;
        const EHOSTUNREACH: i32 = 113;
        match self {
            Self::NotLoaded => ENOENT,
            Self::NoConnection | Self::NoConnectionInPartition => EHOSTUNREACH,
            Self::NumberTaken => EADDRINUSE,
            Self::AlreadyConnected => EISCONN,
            Self::TooMany => ENOSPC,
            Self::NoMemory | Self::Full => ENOMEM,
            Self::OutOfBounds => ERANGE,
            Self::InlineTooLong => EMSGSIZE,
            Self::Invalid(_) | Self::TooManyParts | Self::Partition(_) => EINVAL,
            Self::Netlink(error) => error.errno().unwrap_or(EIO),
            Self::Os(error) => error.raw_os_error().unwrap_or(EIO),
        }
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        use io::ErrorKind;
        match error.kind() {
            ErrorKind::NotFound if error.raw_os_error().is_none() => Self::NotLoaded,
            ErrorKind::HostUnreachable => Self::NoConnection,
            ErrorKind::AddrInUse => Self::NumberTaken,
            ErrorKind::StorageFull => Self::TooMany,
            ErrorKind::OutOfMemory => Self::NoMemory,
            _ => Self::Os(error),
        }
    }
}

impl From<superp_netlink::Error> for Error {
    fn from(error: superp_netlink::Error) -> Self {
        match error {
            superp_netlink::Error::NotLoaded => Self::NotLoaded,
            error => Self::Netlink(error),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Partition(malformed) => Some(malformed),
            Self::Netlink(error) => Some(error),
            Self::Os(error) => Some(error),
            _ => None,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotLoaded => "the kernel has no SUPERp: module superp is not loaded",
            Self::NoConnection => "no established connection leads to the peer",
            Self::NoConnectionInPartition => {
                // The number is not for everybody who sees this.
                let what = "no established connection to the peer is in the partition that";
                return write!(f, "{what} {VARIABLE} names");
            }
            Self::Partition(malformed) => return malformed.fmt(f),
            Self::NumberTaken => "another queue pair of the node has the number",
            Self::AlreadyConnected => "the queue pair has, or had, a peer",
            Self::TooMany => "no more of them are possible",
            Self::NoMemory => "no memory, or more than RLIMIT_MEMLOCK allows",
            Self::OutOfBounds => "the bytes are not inside of the region",
            Self::InlineTooLong => {
                "more inline data than fit into an entry, or than the queue pair was made for"
            }
            Self::TooManyParts => "more parts than the queue pair was made for",
            Self::Full => "the ring is full",
            Self::Invalid(what) => what,
            Self::Netlink(error) => return error.fmt(f),
            Self::Os(error) => return error.fmt(f),
        })
    }
}

/// Why not all requests were posted.
#[derive(Debug)]
pub struct PostError {
    /// Requests that were.
    pub posted: usize,
    /// What happened to the next one.
    pub error: Error,
}

impl std::error::Error for PostError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}

impl fmt::Display for PostError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "after {} requests: {}", self.posted, self.error)
    }
}

impl From<PostError> for Error {
    fn from(error: PostError) -> Self {
        error.error
    }
}

/// What memory has against an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessFault {
    /// No region has the key.
    Key,
    /// Not all bytes are inside of the region.
    Bounds,
    /// The region does not permit it.
    Rights,
    /// The region is of another partition.
    Partition,
    /// None of those that this version knows.
    Other,
}

/// Why a request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A malformed request, or one side did not understand the other.
    Malformed,
    /// A length that is not allowed here.
    Length,
    /// The peer does not know the operation, or the connection has no extensions.
    Unsupported,
    /// Memory, here or at the peer, may not be reached so.
    Access(AccessFault),
    /// No receive buffer, or the message is longer than it.
    NoBuffer,
    /// No such queue pair, or it does not receive from here.
    NoQueuePair,
    /// The peer lacks something.
    Resources,
    /// The queue pair failed before, or its connection ended.
    Aborted,
    /// None of those that this version knows.
    Other,
}

/// The failure of a request that was posted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompletionError {
    /// What it means.
    pub fault: Fault,
    /// The codes as the kernel gives them: `enum superp_error`, and what refines it.
    pub code: (u16, u16),
    /// The error number of both.
    pub errno: i32,
}

impl CompletionError {
    /// `Ok` for the codes of success.
    pub(crate) fn check(major: u16, minor: u16, errno: u32) -> Result<(), Self> {
        let fault = match major {
            0 => return Ok(()),
            uapi::SUPERP_ERR_MALFORMED if minor == 1 => Fault::Length,
            uapi::SUPERP_ERR_MALFORMED => Fault::Malformed,
            uapi::SUPERP_ERR_OPCODE => Fault::Unsupported,
            uapi::SUPERP_ERR_ACCESS => Fault::Access(match minor {
                1 => AccessFault::Key,
                2 => AccessFault::Bounds,
                3 => AccessFault::Rights,
                4 => AccessFault::Partition,
                _ => AccessFault::Other,
            }),
            uapi::SUPERP_ERR_NO_BUFFER => Fault::NoBuffer,
            uapi::SUPERP_ERR_NO_QP => Fault::NoQueuePair,
            uapi::SUPERP_ERR_RESOURCES => Fault::Resources,
            uapi::SUPERP_ERR_ABORTED => Fault::Aborted,
            _ => Fault::Other,
        };
        Err(Self {
            fault,
            code: (major, minor),
            errno: i32::try_from(errno).unwrap_or(i32::MAX),
        })
    }
}

impl Fault {
    /// A sentence for people.
    pub fn text(self) -> &'static str {
        match self {
            Self::Malformed => "malformed request",
            Self::Length => "length not allowed",
            Self::Unsupported => "operation not supported",
            Self::Access(AccessFault::Key) => "no memory region of this key",
            Self::Access(AccessFault::Bounds) => "outside of the memory region",
            Self::Access(AccessFault::Rights) => "not permitted by the memory region",
            Self::Access(AccessFault::Partition) => "memory region of another partition",
            Self::Access(AccessFault::Other) => "memory access refused",
            Self::NoBuffer => "no receive buffer, or one that is too short",
            Self::NoQueuePair => "no such queue pair",
            Self::Resources => "the peer is out of resources",
            Self::Aborted => "aborted",
            Self::Other => "unknown failure",
        }
    }
}

impl std::error::Error for CompletionError {}

impl fmt::Display for CompletionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (major, minor) = self.code;
        write!(f, "{} (code {major}.{minor})", self.fault.text())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_of_completions_have_their_names() {
        assert!(CompletionError::check(0, 0, 0).is_ok());
        for (major, minor, fault) in [
            (1, 0, Fault::Malformed),
            (1, 1, Fault::Length),
            (2, 1, Fault::Unsupported),
            (3, 1, Fault::Access(AccessFault::Key)),
            (3, 2, Fault::Access(AccessFault::Bounds)),
            (3, 3, Fault::Access(AccessFault::Rights)),
            (3, 4, Fault::Access(AccessFault::Partition)),
            (3, 9, Fault::Access(AccessFault::Other)),
            (4, 1, Fault::NoBuffer),
            (5, 0, Fault::NoQueuePair),
            (6, 0, Fault::Resources),
            (7, 3, Fault::Aborted),
            (99, 0, Fault::Other),
        ] {
            let error = CompletionError::check(major, minor, 5).unwrap_err();
            assert_eq!((error.fault, error.code), (fault, (major, minor)));
        }
    }

    #[test]
    fn errors_keep_their_number() {
        for errno in [2, 12, 13, 22, 28, 98, 106, 113] {
            assert_eq!(
                Error::from(io::Error::from_raw_os_error(errno)).errno(),
                errno
            );
        }
    }
}
