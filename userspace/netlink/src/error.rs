// SPDX-License-Identifier: GPL-2.0 OR MIT
//! What can go wrong, and how the kernel says it.

use crate::codec::{align, Attr, Attrs, Message, GENERIC_HEADER, HEADER};
use crate::uapi;
use std::{fmt, io};

/// Why a request failed.
#[derive(Debug)]
pub enum Error {
    /// The module is not loaded: there is no such family.
    NotLoaded,
    /// The kernel refused the request.
    Refused(Refusal),
    /// The socket failed.
    Io(io::Error),
    /// The kernel's answer is not what this version of the client understands.
    Answer(&'static str),
}

/// The kernel's refusal of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Error number, positive.
    pub errno: i32,
    /// The kernel's sentence.
    pub message: Option<String>,
    /// Attribute at fault, as a path of names: `param.value`.
    pub attribute: Option<String>,
    /// Attribute that the request lacks.
    pub missing: Option<String>,
    /// Smallest and largest value that the attribute takes.
    pub range: Option<(u64, u64)>,
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Io(error) => Some(error),
            _ => None,
        }
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Error::Io(error)
    }
}

impl Error {
    /// The error number of a refusal.
    pub fn errno(&self) -> Option<i32> {
        match self {
            Error::Refused(refusal) => Some(refusal.errno),
            Error::Io(error) => error.raw_os_error(),
            _ => None,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::NotLoaded => {
                f.write_str("the kernel has no SUPERp: module superp is not loaded")
            }
            Error::Refused(refusal) => refusal.fmt(f),
            Error::Io(error) => write!(f, "netlink socket: {error}"),
            Error::Answer(what) => write!(f, "unexpected answer of the kernel: {what}"),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let errno = io::Error::from_raw_os_error(self.errno).to_string();
        let errno = errno.split(" (os error").next().unwrap_or_default();
        let message = self.message.as_deref().unwrap_or(errno);
        if let Some(attribute) = &self.attribute {
            // The kernel's own sentences name what they are about.
            let name = attribute.rsplit('.').next().unwrap_or_default();
            if self.message.is_none() || !message.contains(name) && self.range.is_some() {
                write!(f, "{attribute}: ")?;
            }
        }
        f.write_str(message)?;
        if let Some((min, max)) = self.range {
            write!(f, " ({min} to {max})")?;
        }
        if let (None, Some(missing)) = (&self.message, &self.missing) {
            write!(f, ": {missing} is missing")?;
        }
        Ok(())
    }
}

/// Attributes of an acknowledgement.
const MSG: u16 = 1;
const OFFSET: u16 = 2;
const POLICY: u16 = 4;
const MISS_TYPE: u16 = 5;
/// Attributes of a policy.
const POLICY_MIN: u16 = 4;
const POLICY_MAX: u16 = 5;
/// Flags of an acknowledgement's header.
const CAPPED: u16 = 0x100;
const ACK_TLVS: u16 = 0x200;

/// Reads an acknowledgement (`NLMSG_ERROR`) of `request`, whose attributes are of the set `set`.
/// `Ok` if it is one of success.
pub(crate) fn acknowledged(
    message: &Message<'_>,
    request: &[u8],
    set: &[uapi::Attr],
) -> Result<(), Error> {
    let errno = number(message.payload).ok_or(Error::Answer("acknowledgement cut off"))?;
    // The errno, the header of the request and, unless capped, its payload.
    let mut start = 4 + HEADER;
    if message.flags & CAPPED == 0 {
        start += align(request.len().saturating_sub(HEADER));
    }
    refusal(errno, message, start, request, set)
}

/// Reads the end of a dump (`NLMSG_DONE`).
pub(crate) fn done(message: &Message<'_>, request: &[u8], set: &[uapi::Attr]) -> Result<(), Error> {
    refusal(
        number(message.payload).unwrap_or(0),
        message,
        4,
        request,
        set,
    )
}

fn number(payload: &[u8]) -> Option<i32> {
    Some(i32::from_ne_bytes(payload.get(..4)?.try_into().ok()?))
}

fn refusal(
    errno: i32,
    message: &Message<'_>,
    start: usize,
    request: &[u8],
    set: &[uapi::Attr],
) -> Result<(), Error> {
    if errno >= 0 {
        return Ok(());
    }
    let attrs = match message.flags & ACK_TLVS {
        0 => Attrs(&[]),
        _ => Attrs(message.payload.get(start..).unwrap_or_default()),
    };
    let at = attrs.get(OFFSET).and_then(Attr::integer);
    let policy = attrs.get(POLICY).map(Attr::nested);
    let bound = |number| policy?.get(number)?.integer();
    Err(Error::Refused(Refusal {
        errno: -errno,
        message: attrs.get(MSG).map(Attr::text),
        attribute: at.and_then(|at| path(request, usize::try_from(at).ok()?, set)),
        missing: attrs
            .get(MISS_TYPE)
            .and_then(Attr::integer)
            .and_then(|number| Some(named(set, u16::try_from(number).ok()?)?.name.to_owned())),
        range: bound(POLICY_MIN).zip(bound(POLICY_MAX)),
    }))
}

fn named(set: &[uapi::Attr], number: u16) -> Option<&uapi::Attr> {
    set.iter().find(|attr| attr.number == number)
}

/// Names of the attributes that lead to the one at byte `at` of a request.
fn path(request: &[u8], at: usize, set: &[uapi::Attr]) -> Option<String> {
    let start = HEADER + GENERIC_HEADER;
    walk(Attrs(request.get(start..)?), at.checked_sub(start)?, set)
}

fn walk(attrs: Attrs<'_>, mut at: usize, set: &[uapi::Attr]) -> Option<String> {
    for attr in attrs {
        let known = named(set, attr.number)?;
        let len = align(4 + attr.data.len());
        if at == 0 {
            return Some(known.name.to_owned());
        }
        if at < len {
            let inner = walk(attr.nested(), at.checked_sub(4)?, known.nested?)?;
            return Some(format!("{}.{inner}", known.name));
        }
        at -= len;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::{Messages, Writer};
    use uapi::{conn, conn_param};

    fn request() -> Vec<u8> {
        let mut writer = Writer::new(30, 5, 1, uapi::cmd::CONN_NEW);
        writer.put_u16(conn::REMOTE_CID, 47);
        writer.nest(conn::PARAM, |nest| {
            nest.put_text(conn_param::NAME, "pdl_window_size");
            nest.put_uint(conn_param::VALUE, 4096);
        });
        writer.finish().unwrap()
    }

    /// An acknowledgement as the kernel writes it.
    fn ack(errno: i32, request: &[u8], capped: bool, fill: impl FnOnce(&mut Writer)) -> Vec<u8> {
        let mut tlvs = Writer::new(0, 0, 0, 0);
        fill(&mut tlvs);
        let tlvs = tlvs.finish().unwrap()[HEADER + GENERIC_HEADER..].to_vec();
        let mut body = errno.to_ne_bytes().to_vec();
        body.extend(&request[..if capped { HEADER } else { request.len() }]);
        body.extend(tlvs);
        let mut bytes = u32::try_from(HEADER + body.len())
            .unwrap()
            .to_ne_bytes()
            .to_vec();
        bytes.extend(2u16.to_ne_bytes());
        bytes.extend((ACK_TLVS | if capped { CAPPED } else { 0 }).to_ne_bytes());
        bytes.extend([0; 8]);
        bytes.extend(body);
        bytes
    }

    fn read(bytes: &[u8], request: &[u8]) -> Result<(), Error> {
        acknowledged(&Messages(bytes).next().unwrap(), request, conn::ATTRS)
    }

    #[test]
    fn acknowledgement_of_success() {
        let request = request();
        assert!(read(&ack(0, &request, false, |_| {}), &request).is_ok());
    }

    #[test]
    fn refusal_names_the_nested_attribute_and_carries_the_sentence() {
        let request = request();
        // Headers, remote-cid, header of the nest, name with its padding.
        let offset = 20 + 8 + 4 + 20;
        for capped in [false, true] {
            let bytes = ack(-34, &request, capped, |tlvs| {
                tlvs.put_text(MSG, "pdl_window_size 4096 is out of range 16..1024");
                tlvs.put_u32(OFFSET, offset);
            });
            let Err(Error::Refused(refusal)) = read(&bytes, &request) else {
                panic!()
            };
            assert_eq!(refusal.errno, 34);
            assert_eq!(refusal.attribute.as_deref(), Some("param.value"));
            assert_eq!(
                refusal.to_string(),
                "pdl_window_size 4096 is out of range 16..1024"
            );
        }
    }

    #[test]
    fn refusal_by_policy_names_attribute_and_range() {
        let request = request();
        let bytes = ack(-34, &request, true, |tlvs| {
            tlvs.put_text(MSG, "integer out of range");
            tlvs.put_u32(OFFSET, 20);
            tlvs.nest(POLICY, |policy| {
                policy.put(POLICY_MIN, &1u64.to_ne_bytes());
                policy.put(POLICY_MAX, &255u64.to_ne_bytes());
            });
        });
        let error = read(&bytes, &request).unwrap_err();
        assert_eq!(
            error.to_string(),
            "remote-cid: integer out of range (1 to 255)"
        );
    }

    #[test]
    fn refusal_names_the_missing_attribute() {
        let request = request();
        let bytes = ack(-22, &request, true, |tlvs| {
            tlvs.put_u32(MISS_TYPE, conn::REMOTE_ADDR.into());
        });
        let error = read(&bytes, &request).unwrap_err();
        assert_eq!(
            error.to_string(),
            "Invalid argument: remote-addr is missing"
        );
    }

    #[test]
    fn refusal_without_a_sentence_is_the_errno() {
        let request = request();
        let error = read(&ack(-1, &request, true, |_| {}), &request).unwrap_err();
        assert_eq!(error.to_string(), "Operation not permitted");
        assert_eq!(error.errno(), Some(1));
    }

    #[test]
    fn refusal_cut_off_anywhere_is_read_without_a_panic() {
        let request = request();
        let bytes = ack(-22, &request, false, |tlvs| tlvs.put_text(MSG, "no"));
        for len in HEADER..bytes.len() {
            let mut cut = bytes[..len].to_vec();
            cut[..4].copy_from_slice(&u32::try_from(len).unwrap().to_ne_bytes());
            assert!(read(&cut, &request).is_err(), "{len}");
        }
    }
}
