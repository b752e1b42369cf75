// SPDX-License-Identifier: GPL-2.0

//! The obligation to complete what a socket has posted.

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
    qp::{error_of, work::RetryPolicy},
};

/// What completes, in the words of `struct superp_completion`.
#[derive(Copy, Clone)]
pub(crate) struct CompletionInfo {
    pub(crate) token: u64,
    pub(crate) len: u32,
    pub(crate) op: u16,
}

enum Kind {
    /// A message, and its charge to SO_SNDBUF.
    Message(isize),
    /// A remote memory request, and the buffer that its completion will need.
    Request(Reserve),
}

const UNARMED: u32 = 0;
const ARMED: u32 = 1;
const DONE: u32 = 2;

/// The obligation to complete a work exactly once. Dropped while it is armed, it completes as
/// aborted; dropped unarmed, it leaves no trace, for the poster has been given an error.
pub(crate) struct Ticket {
    endpoint: Arc<Endpoint>,
    state: Atomic<u32>,
    completion: CompletionInfo,
    kind: Kind,
}

impl Ticket {
    /// Takes over a charge of `bytes`.
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

    pub(crate) fn request(
        endpoint: Arc<Endpoint>,
        sk: &Sock,
        completion: CompletionInfo,
    ) -> Result<Ticket> {
        let reserve = Reserve::new()?;
        if !endpoint.may_queue_completion(sk) {
            return Err(enobufs());
        }
        endpoint.pending_requests.add(1, Relaxed);
        Ok(Ticket {
            endpoint,
            state: Atomic::new(UNARMED),
            completion,
            kind: Kind::Request(reserve),
        })
    }

    /// The work is accepted: from now on it completes. Any context.
    pub(crate) fn arm(&self) {
        self.state.store(ARMED, Relaxed);
    }

    /// Completes the work; a second time does nothing. Any context up to softirq, a connection's
    /// lock may be held.
    pub(crate) fn complete(&self, outcome: Result<(), Code>) {
        if self.state.xchg(DONE, Full) == ARMED {
            self.finish(Some(outcome));
        }
    }

    /// Tells the socket from others that have something under way. Any context.
    pub(crate) fn source(&self) -> usize {
        Arc::as_ptr(&self.endpoint).addr()
    }

    /// As [`crate::qp::work::Ticket::retry_policy`].
    pub(crate) fn retry_policy(&self) -> RetryPolicy {
        match self.endpoint.sock.alive() {
            true => RetryPolicy::Unlimited,
            false => RetryPolicy::Limited,
        }
    }

    /// Gives back what the work took; with an outcome, tells the program.
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

    /// The program was told that the message is sent, and now it is not: the pending error says
    /// so, and while there is room, a completion says which.
    fn message_failed(&self, code: Code) {
        let endpoint = &self.endpoint;
        endpoint.sock.with(|sk, rcu| {
            if endpoint.may_queue_completion(sk) {
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
