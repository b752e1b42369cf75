// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Asynchronous events: the port comes up or goes down, or has other addresses; a shared receive queue runs low.

use super::abi::*;
use super::eventfd::{add_one, event_fd};
use super::srq::SrqPointer;
use super::{errno, lock};
use libc::{c_int, c_uint};
use std::collections::VecDeque;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::Mutex;
use superp_verbs::{Device, Error};

/// What is told of the port.
struct State {
    up: bool,
    addresses: Vec<IpAddr>,
}

impl State {
    fn now() -> Result<Self, Error> {
        let device = Device::current()?;
        Ok(Self {
            up: device.ports().iter().any(|port| port.up),
            addresses: device.addresses().to_vec(),
        })
    }

    /// What a program is told when this has become `now`.
    fn changes(&self, now: &Self) -> impl Iterator<Item = ibv_event_type> {
        let port = match (self.up, now.up) {
            (false, true) => Some(IBV_EVENT_PORT_ACTIVE),
            (true, false) => Some(IBV_EVENT_PORT_ERR),
            _ => None,
        };
        let table = (self.addresses != now.addresses).then_some(IBV_EVENT_GID_CHANGE);
        port.into_iter().chain(table)
    }
}

/// What has happened, and the shared receive queue that it is of, where it is of one.
#[derive(Clone, Copy, PartialEq)]
pub(super) struct Event {
    pub(super) kind: ibv_event_type,
    pub(super) srq: Option<SrqPointer>,
}

impl Event {
    /// A shared receive queue has come below its limit.
    pub(super) fn low(srq: SrqPointer) -> Self {
        Self {
            kind: IBV_EVENT_SRQ_LIMIT_REACHED,
            srq: Some(srq),
        }
    }
}

/// Notices changes of the port, and keeps events until the program asks.
pub(super) struct AsyncEvents {
    /// Here the kernel tells of links and addresses.
    changes: OwnedFd,
    state: Mutex<State>,
    waiting: Mutex<VecDeque<Event>>,
    /// The descriptor of the context: a semaphore that has the number of those that wait.
    signal: OwnedFd,
}

impl AsyncEvents {
    /// Changes from now on.
    pub(super) fn new() -> Result<Self, c_int> {
        Ok(Self {
            changes: subscribe().map_err(|error| error.raw_os_error().unwrap_or(libc::EIO))?,
            state: Mutex::new(State::now().map_err(errno)?),
            waiting: Mutex::default(),
            signal: event_fd(libc::EFD_SEMAPHORE)?,
        })
    }

    /// Readable when [`AsyncEvents::look`] has something to do.
    pub(super) fn changes(&self) -> c_int {
        self.changes.as_raw_fd()
    }

    pub(super) fn signal(&self) -> c_int {
        self.signal.as_raw_fd()
    }

    /// Finds out what has changed.
    pub(super) fn look(&self) {
        // What the messages say does not matter, nor whether some were lost.
        let mut bytes = [0u8; 64];
        loop {
            // SAFETY: So many bytes.
            let read = unsafe {
                libc::recv(
                    self.changes(),
                    bytes.as_mut_ptr().cast(),
                    bytes.len(),
                    libc::MSG_DONTWAIT,
                )
            };
            if read < 0 && io::Error::last_os_error().kind() == io::ErrorKind::WouldBlock {
                break;
            }
        }
        let Ok(now) = State::now() else { return };
        let mut state = lock(&self.state);
        for kind in state.changes(&now) {
            self.push(Event { kind, srq: None });
        }
        *state = now;
    }

    /// Tells the program.
    pub(super) fn push(&self, event: Event) {
        lock(&self.waiting).push_back(event);
        add_one(&self.signal);
    }

    /// Takes away what is there of a queue that ends.
    pub(super) fn forget(&self, srq: SrqPointer) {
        let mut waiting = lock(&self.waiting);
        let before = waiting.len();
        waiting.retain(|event| event.srq != Some(srq));
        for _ in waiting.len()..before {
            let mut count: u64 = 0;
            let place = libc::iovec {
                iov_base: (&raw mut count).cast(),
                iov_len: 8,
            };
            // Another thread may have taken it, and finds nothing.
            // SAFETY: Eight bytes; it does not wait.
            unsafe { libc::preadv2(self.signal(), &place, 1, -1, libc::RWF_NOWAIT) };
        }
    }

    /// The next event; waits for one unless the program has made the descriptor one that does not wait.
    pub(super) fn take(&self) -> Result<Event, c_int> {
        let mut count: u64 = 0;
        let to: *mut u64 = &mut count;
        // SAFETY: Eight bytes.
        if unsafe { libc::read(self.signal(), to.cast(), 8) } < 0 {
            return Err(io::Error::last_os_error()
                .raw_os_error()
                .unwrap_or(libc::EIO));
        }
        lock(&self.waiting).pop_front().ok_or(libc::EAGAIN)
    }
}

/// A socket that is told of links and addresses of the network namespace.
fn subscribe() -> io::Result<OwnedFd> {
    // SAFETY: No pointers.
    let fd = unsafe {
        libc::socket(
            libc::AF_NETLINK,
            libc::SOCK_RAW | libc::SOCK_CLOEXEC,
            libc::NETLINK_ROUTE,
        )
    };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: It was made just now and is nobody else's.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    // SAFETY: Zero is a valid address.
    let mut address: libc::sockaddr_nl = unsafe { std::mem::zeroed() };
    address.nl_family = libc::AF_NETLINK as libc::sa_family_t;
    address.nl_groups =
        (libc::RTMGRP_LINK | libc::RTMGRP_IPV4_IFADDR | libc::RTMGRP_IPV6_IFADDR) as c_uint;
    let from: *const libc::sockaddr_nl = &address;
    let len = size_of::<libc::sockaddr_nl>() as libc::socklen_t;
    // SAFETY: An address of that length.
    match unsafe { libc::bind(fd, from.cast(), len) } {
        0 => Ok(socket),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_of_the_port_and_of_its_addresses_are_told_once_each() {
        let state = |up, addresses: &[[u8; 4]]| State {
            up,
            addresses: addresses.iter().map(|&addr| addr.into()).collect(),
        };
        let told = |from: &State, to: &State| from.changes(to).collect::<Vec<_>>();
        let (up, down) = (
            state(true, &[[10, 0, 0, 1]]),
            state(false, &[[10, 0, 0, 1]]),
        );
        assert_eq!(told(&up, &up), []);
        assert_eq!(told(&up, &down), [IBV_EVENT_PORT_ERR]);
        assert_eq!(told(&down, &up), [IBV_EVENT_PORT_ACTIVE]);
        assert_eq!(told(&up, &state(true, &[])), [IBV_EVENT_GID_CHANGE]);
        let both = [IBV_EVENT_PORT_ERR, IBV_EVENT_GID_CHANGE];
        assert_eq!(told(&up, &state(false, &[])), both);
    }
}
