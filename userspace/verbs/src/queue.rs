// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Queue pairs.

use crate::environment::Environment;
use crate::inline::Copies;
use crate::{Address, Connected, Error, Part, PostError, ReceiveRequest, Result, WorkRequest};
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use superp_sys::uapi::{superp_segment, SUPERP_MAX_INLINE};
use superp_sys::{ReceiveRing, SendRing, SharedReceiveRing, Srq};

/// A queue pair: a queue of requests and a queue of receive buffers. It ends with the last of the two.
#[derive(Debug)]
pub struct QueuePair {
    pub(crate) send: SendQueue,
    pub(crate) receive: ReceiveQueue,
}

impl QueuePair {
    /// Its number in the node, which peers send to.
    pub fn number(&self) -> u32 {
        self.send.ring.qp().qpn()
    }

    /// Its number in the context, which completions carry.
    pub fn index(&self) -> u32 {
        self.send.ring.qp().number()
    }

    /// Chooses the peer, once. A peer with number 0 is for remote memory only. From now on messages of
    /// the peer are received. Where the environment names a partition
    /// ([`Context::partition`](crate::Context::partition)), a peer without a connection is reached by
    /// the established one of that partition with the lowest id.
    ///
    /// # Errors
    ///
    /// [`Error::NoConnection`], [`Error::NoConnectionInPartition`], [`Error::AlreadyConnected`]; for a
    /// peer without a connection, [`Error::Partition`] and [`Error::Netlink`].
    pub fn connect(&self, peer: &Address) -> Result<Connected> {
        self.send.connect(peer)
    }

    /// As [`SendQueue::post`].
    pub fn post_send<'a>(
        &mut self,
        requests: impl IntoIterator<Item = WorkRequest<'a>>,
    ) -> Result<(), PostError> {
        self.send.post(requests)
    }

    /// As [`SendQueue::post_quietly`].
    pub fn post_send_quietly<'a>(
        &mut self,
        requests: impl IntoIterator<Item = WorkRequest<'a>>,
    ) -> Result<bool, PostError> {
        self.send.post_quietly(requests)
    }

    /// As [`ReceiveQueue::post`].
    pub fn post_receive<'a>(
        &mut self,
        requests: impl IntoIterator<Item = ReceiveRequest<'a>>,
    ) -> Result<(), PostError> {
        self.receive.post(requests)
    }

    /// Whether the queue pair is in the error state: a request failed, the connection ended, or
    /// [`modify`](Self::modify) asked for it. Whatever is posted completes as aborted.
    pub fn failed(&self) -> bool {
        self.send.failed()
    }

    /// Its state.
    pub fn state(&self) -> QueuePairState {
        self.send.state()
    }

    /// As [`SendQueue::modify`].
    pub fn modify(&self, to: QueuePairState) -> Result<()> {
        self.send.modify(to)
    }

    /// Both queues, for two threads.
    pub fn into_split(self) -> (SendQueue, ReceiveQueue) {
        (self.send, self.receive)
    }
}

/// States of a queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueuePairState {
    /// It has no peer yet.
    Init,
    /// It has one: ready to send, and to receive.
    ReadyToSend,
    /// All that is posted completes as aborted. There is no way back.
    Error,
}

/// The requests of a queue pair.
#[derive(Debug)]
pub struct SendQueue {
    // Ends before the memory that its requests are in.
    pub(crate) ring: SendRing,
    pub(crate) copies: Option<Copies>,
    pub(crate) environment: Arc<Environment>,
}

impl SendQueue {
    /// As [`QueuePair::connect`].
    pub fn connect(&self, peer: &Address) -> Result<Connected> {
        let peer = self.environment.complete(peer)?;
        self.ring.qp().connect(&peer).map_err(|error| {
            let error = Error::from(error);
            match error.errno() {
                106 => Error::AlreadyConnected,
                _ => error,
            }
        })
    }

    /// As [`QueuePair::failed`].
    pub fn failed(&self) -> bool {
        self.ring.failed()
    }

    /// As [`QueuePair::state`].
    pub fn state(&self) -> QueuePairState {
        match (self.failed(), self.ring.qp().connected()) {
            (true, _) => QueuePairState::Error,
            (_, true) => QueuePairState::ReadyToSend,
            _ => QueuePairState::Init,
        }
    }

    /// Changes the state, to [`QueuePairState::Error`]: requests and buffers that were posted complete as
    /// aborted, and so do those that are posted later. What is with the connection already completes as it
    /// ends there; a message that the peer has no buffer for does not wait for one any more. When all has
    /// completed, nothing of it touches memory. Buffers of a shared queue stay there. Messages to the queue
    /// pair are refused.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`]: another state.
    pub fn modify(&self, to: QueuePairState) -> Result<()> {
        match to {
            QueuePairState::Error => Ok(self.ring.qp().fail()?),
            _ => Err(Error::Invalid(
                "a state that a queue pair cannot be put into",
            )),
        }
    }

    #[inline]
    fn put<'a>(&mut self, requests: impl IntoIterator<Item = WorkRequest<'a>>) -> Put {
        let most = self.ring.segments();
        put(requests, |mut request| {
            let segments = segments(request.list, most)?;
            if !request.data.is_empty() {
                let slot = self.ring.next_slot().ok_or(Error::Full)?;
                let copies = self.copies.as_ref().ok_or(Error::InlineTooLong)?;
                let part = copies.put(slot, &request.data)?;
                (request.entry.local_key, request.entry.local_addr) = (part.key, part.addr);
            }
            full_unless(self.ring.push(request.entry, segments))
        })
    }

    /// Parts that the local bytes of a request may be in.
    pub fn parts(&self) -> u32 {
        self.ring.segments().max(1)
    }

    /// Bytes that a request may have inline.
    pub fn inline(&self) -> u32 {
        self.copies.as_ref().map_or(SUPERP_MAX_INLINE, Copies::room)
    }

    /// How many requests can be posted now.
    pub fn room(&mut self) -> u32 {
        self.ring.room()
    }

    /// Requests that it holds at most.
    pub fn entries(&self) -> u32 {
        self.ring.entries()
    }

    /// Posts requests. They are carried out in this order and complete in it. Where one call follows the
    /// other at once, a request may wait for the next few, for who polls or asks for an event, or for 0.8 ms.
    ///
    /// # Errors
    ///
    /// [`Error::Full`], [`Error::TooManyParts`], [`Error::InlineTooLong`]; what the doorbell says. Those
    /// before it were posted.
    pub fn post<'a>(
        &mut self,
        requests: impl IntoIterator<Item = WorkRequest<'a>>,
    ) -> Result<(), PostError> {
        let put = self.put(requests);
        if put.posted > 0 {
            put.rung(self.ring.submit())?;
        }
        put.all()
    }

    /// Posts requests, but does not ring the doorbell: [`Context::doorbell`](crate::Context::doorbell)
    /// does, for all queue pairs of the context at once. `false`: the kernel takes them in without,
    /// because requests are under way.
    ///
    /// # Errors
    ///
    /// As of [`post`](Self::post). Those before it were posted, and the doorbell must ring.
    pub fn post_quietly<'a>(
        &mut self,
        requests: impl IntoIterator<Item = WorkRequest<'a>>,
    ) -> Result<bool, PostError> {
        let put = self.put(requests);
        let bell = put.posted > 0 && self.ring.publish();
        put.all().map(|()| bell)
    }
}

/// The receive buffers of a queue pair.
#[derive(Debug)]
pub struct ReceiveQueue(pub(crate) Option<ReceiveRing>);

impl ReceiveQueue {
    /// Parts that a buffer may be in.
    pub fn parts(&self) -> u32 {
        self.0.as_ref().map_or(1, |ring| ring.segments().max(1))
    }

    /// How many buffers can be posted now.
    pub fn room(&mut self) -> u32 {
        self.0.as_mut().map_or(0, ReceiveRing::room)
    }

    /// Buffers that it holds at most.
    pub fn entries(&self) -> u32 {
        self.0.as_ref().map_or(0, ReceiveRing::entries)
    }

    /// Posts buffers. Messages go into them in this order.
    ///
    /// # Errors
    ///
    /// [`Error::Full`], [`Error::TooManyParts`]; what the doorbell says. Those before it were posted.
    pub fn post<'a>(
        &mut self,
        requests: impl IntoIterator<Item = ReceiveRequest<'a>>,
    ) -> Result<(), PostError> {
        let Some(ring) = &mut self.0 else {
            return put(requests, |_| Err(Error::Full)).all();
        };
        let most = ring.segments();
        let put = put(requests, |request| {
            let segments = segments(request.list, most)?;
            full_unless(ring.push(request.entry, segments))
        });
        if put.posted > 0 && ring.publish() {
            put.rung(ring.qp().context().doorbell())?;
        }
        put.all()
    }
}

/// Receive buffers that several queue pairs take from, each message the oldest. Each completes in the
/// completion queue of the queue pair that got the message. Messages have up to 16 MiB.
#[derive(Debug)]
pub struct SharedReceiveQueue(pub(crate) SharedReceiveRing);

/// A [`SharedReceiveQueue`], for queue pairs to be made with
/// ([`QueuePairOptions::shared`](crate::QueuePairOptions)).
#[derive(Clone, Debug)]
pub struct SharedReceive(pub(crate) Srq);

impl SharedReceiveQueue {
    /// For queue pairs to be made with.
    pub fn handle(&self) -> SharedReceive {
        SharedReceive(self.0.srq().clone())
    }

    /// Parts that a buffer may be in.
    pub fn parts(&self) -> u32 {
        self.0.segments().max(1)
    }

    /// How many buffers can be posted now.
    pub fn room(&mut self) -> u32 {
        self.0.room()
    }

    /// Buffers that it holds at most.
    pub fn entries(&self) -> u32 {
        self.0.entries()
    }

    /// Has `eventfd` told, once and for all, when the queue runs low: each time adds one. Several queues may have
    /// the same one.
    ///
    /// # Errors
    ///
    /// `EBUSY`: it has one. `EINVAL`: not an eventfd.
    pub fn set_event_fd(&mut self, eventfd: BorrowedFd<'_>) -> Result<()> {
        Ok(self.0.set_eventfd(eventfd)?)
    }

    /// Has the eventfd told, once, when fewer than `limit` buffers are left; 0: not any more. `true`: fewer are
    /// left already, of which the eventfd is not told.
    pub fn set_limit(&mut self, limit: u32) -> bool {
        self.0.set_limit(limit)
    }

    /// The limit; 0: there is none, or it has been told.
    pub fn limit(&self) -> u32 {
        self.0.limit()
    }

    /// Posts buffers.
    ///
    /// # Errors
    ///
    /// [`Error::Full`], [`Error::TooManyParts`]. Those before it were posted.
    pub fn post<'a>(
        &mut self,
        requests: impl IntoIterator<Item = ReceiveRequest<'a>>,
    ) -> Result<(), PostError> {
        let most = self.0.segments();
        let put = put(requests, |request| {
            let segments = segments(request.list, most)?;
            full_unless(self.0.push(request.entry, segments))
        });
        if put.posted > 0 {
            self.0.publish();
        }
        put.all()
    }
}

#[inline]
fn full_unless(pushed: bool) -> Result<()> {
    match pushed {
        true => Ok(()),
        false => Err(Error::Full),
    }
}

/// The segments that a list of parts is, `most` at most.
#[inline]
fn segments(list: &[Part], most: u32) -> Result<impl Iterator<Item = superp_segment> + '_> {
    if list.len() > most as usize {
        return Err(Error::TooManyParts);
    }
    Ok(list.iter().map(superp_segment::from))
}

/// How far a list of requests got.
struct Put {
    posted: usize,
    /// Why not further.
    stopped: Option<Error>,
}

#[inline]
fn put<T>(requests: impl IntoIterator<Item = T>, mut push: impl FnMut(T) -> Result<()>) -> Put {
    let mut posted = 0;
    for request in requests {
        if let Err(error) = push(request) {
            return Put {
                posted,
                stopped: Some(error),
            };
        }
        posted += 1;
    }
    Put {
        posted,
        stopped: None,
    }
}

impl Put {
    fn rung<T>(&self, doorbell: std::io::Result<T>) -> Result<(), PostError> {
        doorbell.map(drop).map_err(|error| PostError {
            posted: self.posted,
            error: error.into(),
        })
    }

    fn all(self) -> Result<(), PostError> {
        match self.stopped {
            None => Ok(()),
            Some(error) => Err(PostError {
                posted: self.posted,
                error,
            }),
        }
    }
}
