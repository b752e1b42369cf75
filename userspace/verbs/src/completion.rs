// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Completion queues.

use crate::{CompletionError, Result};
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};
use superp_sys::uapi::{self, superp_cqe};
use superp_sys::Cq;

/// What has completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opcode {
    /// A write.
    Write,
    /// A read.
    Read,
    /// An addition.
    FetchAdd,
    /// A compare and swap.
    CompareSwap,
    /// A swap.
    Swap,
    /// A message was sent.
    Send,
    /// A message was received.
    Receive,
    /// The peer tells of a write with immediate data, whose bytes are in place.
    ReceiveWrite,
    /// An entry with an unknown opcode.
    Unknown(u8),
}

/// The outcome of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The token of the request.
    pub token: u64,
    /// Number of the queue pair in its context.
    pub queue_pair: u32,
    /// What it was.
    pub opcode: Opcode,
    /// Bytes: of a received message, or of the write that was told of, its length, else what was asked for.
    pub length: u32,
    /// Immediate data of a received message, or of a write.
    pub immediate: Option<u32>,
    /// Success or the reason of the failure.
    pub result: Result<(), CompletionError>,
}

impl Completion {
    fn new(entry: &superp_cqe) -> Self {
        Self {
            token: entry.token,
            queue_pair: entry.qp,
            opcode: match entry.opcode {
                uapi::SUPERP_OP_WRITE => Opcode::Write,
                uapi::SUPERP_OP_READ => Opcode::Read,
                uapi::SUPERP_OP_FETCH_ADD => Opcode::FetchAdd,
                uapi::SUPERP_OP_COMPARE_SWAP => Opcode::CompareSwap,
                uapi::SUPERP_OP_SWAP => Opcode::Swap,
                uapi::SUPERP_OP_SEND => Opcode::Send,
                uapi::SUPERP_OP_RECV => Opcode::Receive,
                uapi::SUPERP_OP_RECV_WRITE => Opcode::ReceiveWrite,
                other => Opcode::Unknown(other),
            },
            length: entry.length,
            immediate: (entry.flags & uapi::SUPERP_CQE_IMM != 0).then_some(entry.imm),
            result: CompletionError::check(entry.major, entry.minor, entry.error),
        }
    }
}

/// Where requests complete. The kernel keeps it until the queue pairs that use it are gone.
#[derive(Debug)]
pub struct CompletionQueue(pub(crate) Cq);

/// How long to sleep while requests wait for room in a completion queue: they may go on without an
/// event.
const ROOM_PERIOD: Duration = Duration::from_millis(1);

impl CompletionQueue {
    /// Its number in the context, which [`Context::next_event`](crate::Context::next_event) gives.
    pub fn number(&self) -> u32 {
        self.0.number()
    }

    /// Completions that it holds at most. Requests whose completions have no room wait.
    pub fn entries(&self) -> u32 {
        self.0.entries()
    }

    /// Takes the completions that are there, at most `most`; gives how many those were. No system
    /// call, unless requests waited for the room.
    ///
    /// # Errors
    ///
    /// What the doorbell says.
    pub fn poll(&mut self, most: u32, mut each: impl FnMut(Completion)) -> Result<u32> {
        Ok(self.0.poll(most, |entry| each(Completion::new(&entry)))?)
    }

    /// Takes one completion if there is one. Errors as of [`poll`](Self::poll).
    pub fn poll_one(&mut self) -> Result<Option<Completion>> {
        let mut one = None;
        self.poll(1, |completion| one = Some(completion))?;
        Ok(one)
    }

    /// Asks for an event with the next completion. `false`: completions are there already, take them
    /// first.
    pub fn request_notify(&mut self) -> bool {
        self.0.arm()
    }

    /// As [`request_notify`](Self::request_notify), with the next completion that failed, or of a message
    /// or write that is [`solicited`](crate::WorkRequest::solicited); unless one with any was asked for.
    pub fn request_notify_solicited(&mut self) -> bool {
        self.0.arm_solicited()
    }

    /// Has the events of the queue go to `eventfd`, once and for all: each adds one to it, and
    /// [`Context::next_event`](crate::Context::next_event) does not give the queue any more. So threads
    /// may each wait for their own queue, and event loops tell queues apart.
    ///
    /// # Errors
    ///
    /// `EBUSY`: it has one. `EINVAL`: not an eventfd. `EMFILE`.
    pub fn set_event_fd(&mut self, eventfd: BorrowedFd<'_>) -> Result<()> {
        Ok(self.0.set_eventfd(eventfd)?)
    }

    /// Waits until a completion is there and takes it; `None` when that takes longer than `timeout`.
    /// Sleeps. Where others wait for events of other completion queues of the context at the same time
    /// they would keep each other awake, unless each queue has an eventfd of its own
    /// ([`set_event_fd`](Self::set_event_fd)).
    ///
    /// # Errors
    ///
    /// What the doorbell and poll(2) say.
    pub fn wait(&mut self, timeout: Option<Duration>) -> Result<Option<Completion>> {
        let end = timeout.map(|timeout| Instant::now() + timeout);
        loop {
            if let Some(completion) = self.poll_one()? {
                return Ok(Some(completion));
            }
            let left = end.map(|end| end.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return Ok(None);
            }
            if self.request_notify() {
                let most = self.0.left().then_some(ROOM_PERIOD);
                let time = left.into_iter().chain(most).min();
                self.0.wait(time)?;
            }
            self.0.take_event();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Fault;

    #[test]
    fn entries_become_completions() {
        let entry = superp_cqe {
            token: 9,
            qp: 3,
            length: 100,
            imm: 77,
            opcode: 128,
            ..Default::default()
        };
        let completion = Completion::new(&entry);
        assert_eq!((completion.token, completion.queue_pair), (9, 3));
        assert_eq!(
            (completion.opcode, completion.immediate),
            (Opcode::Receive, None)
        );
        assert_eq!(completion.result, Ok(()));
        let entry = superp_cqe {
            flags: uapi::SUPERP_CQE_IMM,
            major: 7,
            error: 104,
            opcode: 1,
            ..entry
        };
        let completion = Completion::new(&entry);
        assert_eq!(completion.immediate, Some(77));
        let error = completion.result.unwrap_err();
        assert_eq!((error.fault, error.errno), (Fault::Aborted, 104));
    }
}
