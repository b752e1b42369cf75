// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Sockets: one is one queue pair.

use crate::uapi::{self, sockaddr_superp};
use crate::{call, Access, Memory, Region};
use std::io::{Error, ErrorKind, Result};
use std::net::{IpAddr, Ipv6Addr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Where the module says which number its address family has.
const FAMILY: &str = "/sys/module/superp/parameters/family";
/// There whenever the module is, whatever it tells.
const MODULE: &str = "/sys/module/superp";

/// The number of the address family in force.
pub(crate) fn family() -> Result<u16> {
    match std::fs::read_to_string(FAMILY) {
        Ok(text) => text
            .trim()
            .parse()
            .map_err(|_| Error::new(ErrorKind::InvalidData, format!("{FAMILY} is not a number"))),
        Err(_) if std::path::Path::new(MODULE).exists() => Ok(uapi::SUPERP_DEFAULT_FAMILY),
        Err(_) => Err(Error::new(
            ErrorKind::NotFound,
            "the kernel has no SUPERp: module superp is not loaded",
        )),
    }
}

/// Address of a queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// Address of the node; unspecified to bind to any.
    pub addr: IpAddr,
    /// Queue pair number, 1 to 2^24 - 1; 0 for any.
    pub qpn: u32,
    /// Local id of the connection; `None` for the one with the lowest.
    pub cid: Option<u16>,
}

impl Address {
    /// A queue pair of a node, by any connection.
    pub fn new(addr: IpAddr, qpn: u32) -> Self {
        let cid = None;
        Self { addr, qpn, cid }
    }

    pub(crate) fn to_name(self, family: u16) -> sockaddr_superp {
        sockaddr_superp {
            ssp_family: family,
            ssp_qpn: self.qpn,
            ssp_addr: match self.addr {
                // Unspecified is not "IPv4 mapped".
                IpAddr::V4(v4) if v4.is_unspecified() => [0; 16],
                IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
                IpAddr::V6(v6) => v6.octets(),
            },
            ssp_cid: self.cid.map_or(uapi::SUPERP_CID_ANY, u32::from),
            ..Default::default()
        }
    }

    pub(crate) fn from_name(name: &sockaddr_superp) -> Self {
        Self {
            addr: IpAddr::V6(Ipv6Addr::from(name.ssp_addr)).to_canonical(),
            qpn: name.ssp_qpn,
            cid: u16::try_from(name.ssp_cid).ok(),
        }
    }
}

/// What a request may have besides its bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct With {
    /// It starts when everything that the socket has sent before to the same queue pair is complete.
    pub fence: bool,
    /// Of a write: when all bytes are there, the peer's queue pair receives an empty message with this
    /// immediate data.
    pub imm: Option<u32>,
}

impl With {
    fn flags(self) -> u16 {
        match self.fence {
            true => uapi::SUPERP_RMA_F_FENCE,
            false => 0,
        }
    }
}

/// A change of 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Atomic {
    /// Add this, without carry out.
    FetchAdd(u64),
    /// Put `swap` in, if it is `compare`.
    CompareSwap {
        /// What is expected.
        compare: u64,
        /// What replaces it.
        swap: u64,
    },
    /// Put this in.
    Swap(u64),
}

/// A message that was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// Bytes put into the buffer.
    pub len: usize,
    /// The message was longer than the buffer; the rest is lost.
    pub truncated: bool,
    /// Immediate data that came with it; of a write it comes with an empty message.
    pub imm: Option<u32>,
    /// The bytes are in a receive context, the message itself is empty.
    pub placed: Option<Placed>,
    /// Node and connection that it came from. The number of the sender's queue pair is not known
    /// (0).
    pub from: Address,
}

/// Bytes that a peer has sent into a receive context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placed {
    /// Key of the region.
    pub key: u32,
    /// The first of them in it.
    pub offset: u32,
    /// How many.
    pub length: u32,
}

/// The outcome of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// What was given with the request.
    pub token: u64,
    /// Bytes asked for.
    pub length: u32,
    /// `SUPERP_RMA_*`, or 0 for a message that failed.
    pub op: u16,
    /// Major and minor error code; 0 and 0 for success.
    pub code: (u16, u16),
    /// Error number, 0 for success.
    pub errno: i32,
}

/// State of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Info {
    /// Own queue pair number, 0 before bind.
    pub qpn: u32,
    /// Connection in use.
    pub cid: Option<u16>,
    /// It speaks the extension opcodes.
    pub ext: bool,
    /// It delivers in order both ways.
    pub ordered: bool,
    /// Longest message that is taken, bytes.
    pub max_message: u32,
    /// Shortest.
    pub min_message: u32,
    /// Longest message to a receive context, bytes.
    pub max_keyed: u32,
}

/// A queue pair.
#[derive(Debug)]
pub struct Socket {
    fd: Arc<OwnedFd>,
    family: u16,
}

impl Socket {
    /// A socket in the current network namespace, not bound.
    ///
    /// # Errors
    ///
    /// `NotFound`: the module is not loaded. What socket(2) says.
    pub fn new() -> Result<Self> {
        let family = family()?;
        let fd = Arc::new(call::socket(family, libc::SOCK_SEQPACKET)?);
        Ok(Self { fd, family })
    }

    /// Takes an address: [`Address::cid`] is not used.
    ///
    /// # Errors
    ///
    /// `AddrInUse`: the queue pair number is taken. `AddrNotAvailable`: not an address of this node.
    pub fn bind(&self, address: &Address) -> Result<()> {
        let name = Address {
            cid: None,
            ..*address
        };
        call::bind(self.as_fd(), &name.to_name(self.family))
    }

    /// Sets the peer, and binds if that was not done.
    ///
    /// # Errors
    ///
    /// `HostUnreachable`: no established connection to the peer.
    pub fn connect(&self, peer: &Address) -> Result<()> {
        call::connect(self.as_fd(), &peer.to_name(self.family))
    }

    /// The own address.
    pub fn local_address(&self) -> Result<Address> {
        call::local_name(self.as_fd()).map(|name| Address::from_name(&name))
    }

    /// State of the socket.
    pub fn info(&self) -> Result<Info> {
        let mut info = uapi::superp_qp_info::default();
        call::ioctl(self.as_fd(), &mut info)?;
        Ok(Info {
            qpn: info.qpn,
            cid: u16::try_from(info.cid).ok(),
            ext: info.flags & uapi::SUPERP_QP_F_EXT != 0,
            ordered: info.flags & uapi::SUPERP_QP_F_ORDERED != 0,
            max_message: info.max_message,
            min_message: info.min_message,
            max_keyed: info.max_keyed,
        })
    }

    /// Sets how many bytes of received messages the kernel keeps.
    pub fn set_receive_buffer(&self, bytes: u32) -> Result<()> {
        let bytes = i32::try_from(bytes).unwrap_or(i32::MAX);
        // What the administrator allows at most is a limit for everyone else.
        call::set_option(self.as_fd(), libc::SO_RCVBUFFORCE, bytes)
            .or_else(|_| call::set_option(self.as_fd(), libc::SO_RCVBUF, bytes))
    }

    /// Sends a message to the peer. Waits while the send buffer is full.
    ///
    /// # Errors
    ///
    /// EMSGSIZE: shorter or longer than the connection takes, see [`Info`]. ENOTCONN. ECONNRESET or
    /// ETIMEDOUT: the connection broke. An error of an earlier message.
    pub fn send(&self, message: &[u8]) -> Result<()> {
        call::send(self.as_fd(), message).map(drop)
    }

    /// As [`send`](Self::send), with immediate data that the peer receives with the message.
    ///
    /// # Errors
    ///
    /// EOPNOTSUPP: the connection has no extensions.
    pub fn send_imm(&self, message: &[u8], imm: u32) -> Result<()> {
        call::send_imm(self.as_fd(), message, imm).map(drop)
    }

    /// Sends a message to the peer's receive context `key`: its bytes go to `offset` there, and the
    /// socket that the context belongs to receives an empty message that tells so.
    ///
    /// # Errors
    ///
    /// As of [`send`](Self::send). EMSGSIZE: under 16 bytes, or over [`Info::max_keyed`]. EINVAL: it
    /// would go beyond 2^32.
    pub fn send_key(&self, message: &[u8], key: u32, offset: u32) -> Result<()> {
        let key = uapi::superp_key {
            key,
            offset,
            ..Default::default()
        };
        call::send_key(self.as_fd(), message, &key).map(drop)
    }

    /// Receives a message; waits for it. `None`: the receiving side was shut down.
    pub fn receive(&self, buffer: &mut [u8]) -> Result<Option<Received>> {
        let message = call::receive(self.as_fd(), buffer)?;
        if message.len == 0 && message.flags & libc::MSG_EOR == 0 {
            return Ok(None);
        }
        Ok(Some(Received {
            len: message.len,
            truncated: message.flags & libc::MSG_TRUNC != 0,
            imm: message.imm,
            placed: message.placed.map(|placed| Placed {
                key: placed.key,
                offset: placed.offset,
                length: placed.length,
            }),
            from: Address::from_name(&message.name),
        }))
    }

    /// Waits until [`receive`](Self::receive) has something to give, at most `timeout`: a message,
    /// the end, an error. Also returns, with `false`, when a signal came. Not for a socket with
    /// completions that nobody has fetched: they end the wait as an error does.
    pub fn wait_readable(&self, timeout: Option<Duration>) -> Result<bool> {
        let ready = call::poll(self.as_fd(), libc::POLLIN, milliseconds(timeout))?;
        Ok(ready & (libc::POLLIN | libc::POLLHUP | libc::POLLERR) != 0)
    }

    /// Waits until a message can be sent without waiting, at most `timeout`.
    pub fn wait_writable(&self, timeout: Option<Duration>) -> Result<bool> {
        let ready = call::poll(self.as_fd(), libc::POLLOUT, milliseconds(timeout))?;
        Ok(ready & libc::POLLOUT != 0)
    }

    /// Ends sending.
    pub fn shutdown_send(&self) -> Result<()> {
        call::shutdown(self.as_fd(), libc::SHUT_WR)
    }

    /// Ends receiving: messages that are there can still be received, new ones are refused.
    pub fn shutdown_receive(&self) -> Result<()> {
        call::shutdown(self.as_fd(), libc::SHUT_RD)
    }

    /// Whether calls that would have to wait fail with `WouldBlock` instead.
    pub fn set_nonblocking(&self, on: bool) -> Result<()> {
        call::set_nonblocking(self.as_fd(), on)
    }

    /// The error that an earlier message or the connection left, which is taken.
    pub fn take_error(&self) -> Result<()> {
        call::pending_error(self.as_fd())
    }

    /// Registers memory as a region, in a partition (0: any).
    ///
    /// # Errors
    ///
    /// ENOMEM: also over RLIMIT_MEMLOCK. ENOSPC: no free key.
    pub fn register(&self, memory: Memory, access: Access, partition: u32) -> Result<Region> {
        Region::new(&self.fd, memory, access, partition)
    }

    /// Writes `length` bytes at `offset` of a region to the peer's memory at `remote`. Its completion
    /// carries `token`.
    ///
    /// # Errors
    ///
    /// `InvalidInput`: the bytes are not inside the region. EMSGSIZE: more than `SUPERP_MAX_RMA`, or
    /// 1 to 15 on a connection without extensions. ENOBUFS: too many requests under way. ENOTCONN.
    /// ECONNRESET or ETIMEDOUT: the connection broke. With an immediate, EOPNOTSUPP: the connection has
    /// no extensions. EDESTADDRREQ: the socket is connected to no queue pair.
    pub fn write(
        &self,
        region: &Region,
        offset: usize,
        remote: u64,
        length: u32,
        token: u64,
        with: With,
    ) -> Result<()> {
        let mut rma = region.request(uapi::SUPERP_RMA_WRITE, offset, remote, length, token)?;
        rma.flags = with.flags();
        call::request(self.as_fd(), &rma, with.imm)
    }

    /// Reads `length` bytes of the peer's memory at `remote` to `offset` of a region. Its completion
    /// carries `token`. Errors as of [`write`](Self::write); with an immediate, EINVAL.
    pub fn read(
        &self,
        region: &Region,
        offset: usize,
        remote: u64,
        length: u32,
        token: u64,
        with: With,
    ) -> Result<()> {
        let mut rma = region.request(uapi::SUPERP_RMA_READ, offset, remote, length, token)?;
        rma.flags = with.flags();
        call::request(self.as_fd(), &rma, with.imm)
    }

    /// Changes the 8 bytes at `remote` of the peer's memory, once and atomically; what they were is put
    /// at `offset` of a region. Its completion carries `token`.
    ///
    /// # Errors
    ///
    /// As of [`write`](Self::write); EINVAL: `remote` is no multiple of 8, or an immediate. EOPNOTSUPP: the connection
    /// has no extensions.
    pub fn atomic(
        &self,
        region: &Region,
        offset: usize,
        remote: u64,
        change: Atomic,
        token: u64,
        with: With,
    ) -> Result<()> {
        let (op, operand, compare) = match change {
            Atomic::FetchAdd(operand) => (uapi::SUPERP_RMA_FETCH_ADD, operand, 0),
            Atomic::CompareSwap { compare, swap } => (uapi::SUPERP_RMA_COMPARE_SWAP, swap, compare),
            Atomic::Swap(operand) => (uapi::SUPERP_RMA_SWAP, operand, 0),
        };
        let mut rma = region.request(op, offset, remote, 8, token)?;
        rma.flags = with.flags();
        let atomic = uapi::superp_atomic {
            rma,
            operand,
            compare,
        };
        call::atomic(self.as_fd(), &atomic, with.imm)
    }

    /// Asks for a round trip to the peer and back that touches no memory. Its completion carries
    /// `token`. Errors as of [`write`](Self::write).
    pub fn round_trip(&self, token: u64) -> Result<()> {
        let rma = uapi::superp_rma {
            op: uapi::SUPERP_RMA_WRITE,
            token,
            ..Default::default()
        };
        call::request(self.as_fd(), &rma, None)
    }

    /// The next completion, without waiting.
    pub fn completion(&self) -> Result<Option<Completion>> {
        Ok(call::completion(self.as_fd())?.map(|raw| Completion {
            token: raw.token,
            length: raw.length,
            op: raw.op,
            code: (raw.major, raw.minor),
            errno: i32::try_from(raw.error).unwrap_or(i32::MAX),
        }))
    }

    /// Waits for the next completion, at most `timeout`. `None`: the time is over.
    ///
    /// # Errors
    ///
    /// What an earlier message or the connection left.
    pub fn wait_completion(&self, timeout: Option<Duration>) -> Result<Option<Completion>> {
        let end = timeout.map(|timeout| Instant::now() + timeout);
        loop {
            if let Some(completion) = self.completion()? {
                return Ok(Some(completion));
            }
            let left = end.map(|end| end.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return Ok(None);
            }
            // No event is asked for: POLLERR alone, of the error queue or of an error.
            let ready = call::poll(self.as_fd(), 0, milliseconds(left))?;
            if ready & libc::POLLERR != 0 {
                match self.completion()? {
                    Some(completion) => return Ok(Some(completion)),
                    None => self.take_error()?,
                }
            } else if ready & libc::POLLHUP != 0 {
                return Err(Error::from_raw_os_error(libc::ENOTCONN));
            }
        }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl AsRawFd for Socket {
    fn as_raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}

/// Whole milliseconds, rounded up; -1: without end.
pub(crate) fn milliseconds(timeout: Option<Duration>) -> i32 {
    timeout.map_or(-1, |timeout| {
        let up = timeout.as_nanos().div_ceil(1_000_000);
        i32::try_from(up).unwrap_or(i32::MAX)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_becomes_a_name_and_back() {
        for (addr, bytes) in [
            (
                "10.23.0.1",
                [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 23, 0, 1],
            ),
            (
                "fd00::2",
                [0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2],
            ),
        ] {
            let address = Address {
                addr: addr.parse().unwrap(),
                qpn: 0xabcdef,
                cid: Some(64),
            };
            let name = address.to_name(22);
            assert_eq!((name.ssp_family, name.ssp_flags), (22, 0));
            assert_eq!((name.ssp_qpn, name.ssp_cid), (0xabcdef, 64));
            assert_eq!(name.ssp_addr, bytes);
            assert_eq!(Address::from_name(&name), address);
        }
    }

    #[test]
    fn any_address_and_any_connection() {
        let any = Address::new("0.0.0.0".parse().unwrap(), 0).to_name(22);
        assert_eq!(any.ssp_addr, [0; 16]);
        assert_eq!(any.ssp_cid, uapi::SUPERP_CID_ANY);
        assert_eq!(Address::from_name(&any).cid, None);
    }

    #[test]
    fn timeouts_are_rounded_up() {
        assert_eq!(milliseconds(None), -1);
        assert_eq!(milliseconds(Some(Duration::ZERO)), 0);
        assert_eq!(milliseconds(Some(Duration::from_nanos(1))), 1);
        assert_eq!(milliseconds(Some(Duration::from_secs(3))), 3000);
        assert_eq!(milliseconds(Some(Duration::MAX)), i32::MAX);
    }
}
