// SPDX-License-Identifier: GPL-2.0

//! Tickets: the obligation to complete what a socket has posted.

use kernel::{
    prelude::*,
    sync::{
        atomic::{Atomic, Full, Relaxed},
        Arc,
    },
};

use super::Endpoint;
use crate::{
    kapi::{
        errno::enobufs,
        skb::SkBuff,
        sock::{Reserve, Sock},
    },
    proto::Code,
    qp::{error_of, RetryPolicy},
};

/// Fields of `struct superp_completion` that are known when the request is posted.
#[derive(Copy, Clone)]
pub(crate) struct CompletionInfo {
    pub(crate) token: u64,
    pub(crate) len: u32,
    pub(crate) op: u16,
}

enum Kind {
    /// A message. The value is its charge to SO_SNDBUF, in bytes.
    Message(isize),
    /// A remote memory request, with an empty buffer for its completion.
    Request(Reserve),
}

const UNARMED: u32 = 0;
const ARMED: u32 = 1;
const DONE: u32 = 2;

/// The obligation to complete a work exactly once.
///
/// - `UNARMED`: the work is not posted. A drop releases the resources and reports nothing, because
///   the system call returns the error.
/// - `ARMED`: [`Ticket::arm`] was called. [`Ticket::complete`] completes the work; a drop completes
///   it as aborted.
/// - `DONE`: the work has completed.
pub(crate) struct Ticket {
    endpoint: Arc<Endpoint>,
    state: Atomic<u32>,
    completion: CompletionInfo,
    kind: Kind,
}

impl Ticket {
    /// Returns the ticket of a message of `len` bytes. It returns the charge of `bytes` bytes to
    /// SO_SNDBUF when the message completes.
    pub(crate) fn message(endpoint: Arc<Endpoint>, len: u32, bytes: isize) -> Ticket {
        endpoint.pending_messages.add(1, Relaxed);
        Ticket {
            endpoint,
            state: Atomic::new(UNARMED),
            completion: CompletionInfo {
                token: 0,
                len,
                op: 0,
            },
            kind: Kind::Message(bytes),
        }
    }

    /// Returns the ticket of a remote memory request. Process context.
    ///
    /// # Errors
    ///
    /// `ENOBUFS`: [`uapi::SUPERP_MAX_REQUESTS`](crate::kapi::uapi::SUPERP_MAX_REQUESTS)
    /// requests are under way or on the error queue. `ENOMEM`.
    pub(crate) fn request(
        endpoint: Arc<Endpoint>,
        sk: &Sock,
        completion: CompletionInfo,
    ) -> Result<Ticket> {
        let kind = Kind::Request(Reserve::new()?);
        // Counted before the check: sendmsg() holds no lock, and many may be at this line.
        endpoint.pending_requests.add(1, Relaxed);
        let ticket = Ticket {
            endpoint,
            state: Atomic::new(UNARMED),
            completion,
            kind,
        };
        match ticket.endpoint.has_completion_room(sk, 0) {
            true => Ok(ticket),
            // The ticket is dropped, and with it the count.
            false => Err(enobufs()),
        }
    }

    /// The connection has accepted the work, which completes from now on. Any context.
    pub(crate) fn arm(&self) {
        self.state.store(ARMED, Relaxed);
    }

    /// Completes the work. A second call does nothing. Any context up to softirq. A connection's
    /// lock may be held.
    pub(crate) fn complete(&self, outcome: Result<(), Code>) {
        if self.state.xchg(DONE, Full) == ARMED {
            self.finish(Some(outcome));
        }
    }

    /// A value that identifies the socket while it has works under way. Any context.
    pub(crate) fn source(&self) -> usize {
        Arc::as_ptr(&self.endpoint).addr()
    }

    /// See [`crate::qp::work::Ticket::retry_policy`]. Any context.
    pub(crate) fn retry_policy(&self) -> RetryPolicy {
        match self.endpoint.sock.alive() {
            true => RetryPolicy::Unlimited,
            false => RetryPolicy::Limited,
        }
    }

    /// Releases the resources of the work. With an outcome, the program gets a completion or an
    /// error.
    fn finish(&self, outcome: Option<Result<(), Code>>) {
        let endpoint = &self.endpoint;
        match &self.kind {
            Kind::Message(bytes) => {
                match outcome {
                    Some(Ok(())) => endpoint.tx_messages.add(1, Relaxed),
                    Some(Err(code)) => self.message_failed(code),
                    None => {}
                }
                endpoint.pending_messages.fetch_sub(1, Relaxed);
                endpoint.uncharge(*bytes);
            }
            Kind::Request(reserve) => {
                if let (Some(outcome), Some(buffer)) = (outcome, reserve.take()) {
                    endpoint.sock.with(|sk, rcu| {
                        endpoint.queue_completion(sk, rcu, buffer, self.completion, outcome.err());
                    });
                }
                endpoint.pending_requests.fetch_sub(1, Relaxed);
            }
        }
    }

    /// A message failed after send() had returned success. Its code becomes the pending error of
    /// the socket. If the error queue has a free place, a completion names the message.
    fn message_failed(&self, code: Code) {
        let endpoint = &self.endpoint;
        endpoint.sock.with(|sk, rcu| {
            if endpoint.has_completion_room(sk, 1) {
                if let Some(buffer) = SkBuff::alloc(0, 0) {
                    endpoint.queue_completion(sk, rcu, buffer, self.completion, Some(code));
                }
            }
            sk.set_error(error_of(code));
        });
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        match self.state.xchg(DONE, Full) {
            ARMED => self.finish(Some(Err(Code::ABORTED))),
            UNARMED => self.finish(None),
            _ => {}
        }
    }
}
