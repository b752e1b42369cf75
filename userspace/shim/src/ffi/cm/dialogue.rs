// SPDX-License-Identifier: GPL-2.0 OR MIT
//! What identifiers say to their peers, and what they do when a peer says something.

use super::super::abi::*;
use super::identifier::{Id, State};
use super::{errno_of, queues, reject, shared, Pending, PATIENCE};
use crate::cm::{self, reason, Kind, Message};
use libc::c_int;
use std::os::fd::AsRawFd;
use std::time::Instant;
use superp_verbs::Address;

impl Id {
    /// Sends a message to the peer.
    pub(super) fn send(&self, kind: Kind, reason: u8, private: &[u8]) -> Result<(), c_int> {
        let socket = self.socket.as_ref().ok_or(libc::EINVAL)?;
        let own = socket.local_address().map_err(|error| errno_of(&error))?;
        let message = Message {
            kind,
            terms: self.ours,
            reason,
            source: self.port,
            destination: self.peer.map_or(0, |peer| peer.port),
            socket: own.qpn,
            token: self.token,
            private: private.to_vec(),
        };
        socket
            .send(&message.encode())
            .map_err(|error| errno_of(&error))
    }

    /// A message of a peer has come.
    pub(super) fn hear(&mut self, message: Message, from: &Address) -> Option<Pending> {
        use State::{Accepting, Connected, Connecting, Listening, Responded};
        if message.kind == Kind::Request {
            if self.state != Listening || self.requests >= self.backlog {
                let why = match self.state {
                    Listening => reason::NO_RESOURCES,
                    _ => reason::NOBODY_LISTENS,
                };
                reject(from, &message, why);
                return None;
            }
            self.requests += 1;
            let mut pending = Pending::of(self.public, RDMA_CM_EVENT_CONNECT_REQUEST, 0, &message);
            pending.request = Some((message, *from));
            return Some(pending);
        }
        if message.token != self.token {
            if message.kind == Kind::Reply {
                reject(from, &message, reason::NO_SUCH_CONNECTION);
            }
            return None;
        }
        match (self.state, message.kind) {
            (Connecting, Kind::Reply) => Some(self.agreed(&message)),
            (Accepting, Kind::Ready) => {
                self.deadline = None;
                self.state = Connected;
                Some(self.pending(RDMA_CM_EVENT_ESTABLISHED, 0))
            }
            (Connecting | Accepting, Kind::Reject) => {
                self.rejected();
                let status = message.reason.into();
                let kind = RDMA_CM_EVENT_REJECTED;
                Some(Pending::of(self.public, kind, status, &message))
            }
            (Connected | Accepting | Responded, Kind::Disconnect | Kind::Reject) => {
                self.deadline = None;
                self.state = State::Disconnected;
                Some(self.pending(RDMA_CM_EVENT_DISCONNECTED, 0))
            }
            (_, Kind::Reply) => {
                reject(from, &message, reason::NO_SUCH_CONNECTION);
                None
            }
            _ => None,
        }
    }

    /// The peer agreed.
    fn agreed(&mut self, message: &Message) -> Pending {
        self.deadline = None;
        self.theirs = message.terms;
        let made = match self.qp().is_null() {
            true => self.turn_to(message.socket),
            false => self.turn_to(message.socket).and_then(|()| self.complete()),
        };
        let (state, kind, status) = match made {
            Ok(()) if self.qp().is_null() => (State::Responded, RDMA_CM_EVENT_CONNECT_RESPONSE, 0),
            Ok(()) => (State::Connected, RDMA_CM_EVENT_ESTABLISHED, 0),
            Err(errno) => {
                // The peer may be gone; then there is nobody to tell.
                let _ = self.send(Kind::Reject, reason::NO_SUCH_CONNECTION, &[]);
                (State::Failed, RDMA_CM_EVENT_CONNECT_ERROR, -errno)
            }
        };
        self.state = state;
        Pending::of(self.public, kind, status, message)
    }

    /// From now on messages go to another socket of the peer.
    fn turn_to(&mut self, number: u32) -> Result<(), c_int> {
        let peer = self.peer.as_mut().ok_or(libc::EINVAL)?;
        peer.socket = number;
        let address = peer.address();
        let socket = self.socket.as_ref().ok_or(libc::EINVAL)?;
        socket.connect(&address).map_err(|error| errno_of(&error))
    }

    fn complete(&self) -> Result<(), c_int> {
        queues::make_ready(self)?;
        self.send(Kind::Ready, 0, &[])
    }

    fn rejected(&mut self) {
        self.deadline = None;
        self.state = State::Failed;
        // What was posted is flushed. It may not be in a state to do so.
        let _ = queues::flush(self);
    }

    /// Sends what the peer has to answer in time; what it leads to if that fails.
    pub(super) fn ask(&mut self, kind: Kind, private: &[u8]) -> Option<Pending> {
        self.deadline = Some(Instant::now() + PATIENCE);
        match self.send(kind, 0, private) {
            Ok(()) => None,
            Err(errno) => self.lose(errno),
        }
    }

    /// The peer is out of reach, or has nobody who takes the message.
    pub(super) fn lose(&mut self, errno: c_int) -> Option<Pending> {
        match (self.state, errno) {
            (State::Connecting, libc::ECONNREFUSED) => {
                self.rejected();
                let status = reason::NOBODY_LISTENS.into();
                Some(self.pending(RDMA_CM_EVENT_REJECTED, status))
            }
            (State::Accepting, libc::ECONNREFUSED) => {
                self.rejected();
                let status = reason::NO_SUCH_CONNECTION.into();
                Some(self.pending(RDMA_CM_EVENT_REJECTED, status))
            }
            (State::Connecting | State::Accepting | State::Responded, _) => {
                self.deadline = None;
                self.state = State::Failed;
                Some(self.pending(RDMA_CM_EVENT_UNREACHABLE, -errno))
            }
            (State::Connected, _) => {
                self.state = State::Disconnected;
                let status = match errno {
                    libc::ECONNREFUSED => 0,
                    errno => -errno,
                };
                Some(self.pending(RDMA_CM_EVENT_DISCONNECTED, status))
            }
            _ => None,
        }
    }

    /// Hears no more: what came and waits for an answer is rejected, and what still comes is refused.
    fn stop_listening(&mut self) {
        let Some(socket) = self.socket.take() else {
            return;
        };
        if let Ok(shared) = shared() {
            shared.unwatch(socket.as_raw_fd());
        }
        // Without this, one that comes between the last look and the end would never be answered.
        let _ = socket.shutdown_receive();
        let mut bytes = [0; cm::ROOM];
        while let Ok(Some(received)) = socket.receive(&mut bytes) {
            match Message::parse(&bytes[..received.len]) {
                Some(message) if message.kind == Kind::Request => {
                    reject(&received.from, &message, reason::NOBODY_LISTENS);
                }
                Some(message) if message.kind == Kind::Reply => {
                    reject(&received.from, &message, reason::NO_SUCH_CONNECTION);
                }
                _ => {}
            }
        }
    }

    /// Ends what it is in, and tells the peer.
    pub(super) fn end(&mut self) {
        // A peer that is gone need not be told.
        let _ = match self.state {
            State::Requested => self.send(Kind::Reject, reason::PROGRAM, &[]),
            State::Responded => self.send(Kind::Reject, reason::PROGRAM, &[]),
            State::Accepting | State::Connected => self.send(Kind::Disconnect, 0, &[]),
            _ => Ok(()),
        };
        self.stop_listening();
        self.deadline = None;
        self.state = State::Failed;
    }
}
