// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Queue pairs.

use crate::{Address, Connected, Error, PostError, ReceiveRequest, Result, WorkRequest};
use superp_sys::{ReceiveRing, SendRing};

/// A queue pair: a queue of requests and a queue of receive buffers. It ends with the last of the two.
#[derive(Debug)]
pub struct QueuePair {
    pub(crate) send: SendQueue,
    pub(crate) receive: ReceiveQueue,
}

impl QueuePair {
    /// Its number in the node, which peers send to.
    pub fn number(&self) -> u32 {
        self.send.0.qp().qpn()
    }

    /// Its number in the context, which completions carry.
    pub fn index(&self) -> u32 {
        self.send.0.qp().number()
    }

    /// Chooses the peer, once. A peer with number 0 is for remote memory only. From now on messages of
    /// the peer are received.
    ///
    /// # Errors
    ///
    /// [`Error::NoConnection`], [`Error::AlreadyConnected`].
    pub fn connect(&self, peer: &Address) -> Result<Connected> {
        self.send.connect(peer)
    }

    /// As [`SendQueue::post`].
    pub fn post_send(&mut self, requests: &[WorkRequest]) -> Result<(), PostError> {
        self.send.post(requests)
    }

    /// As [`ReceiveQueue::post`].
    pub fn post_receive(&mut self, requests: &[ReceiveRequest]) -> Result<(), PostError> {
        self.receive.post(requests)
    }

    /// Whether the queue pair has failed: a request failed, or the connection ended. Whatever is posted
    /// completes as aborted.
    pub fn failed(&self) -> bool {
        self.send.0.failed()
    }

    /// Both queues, for two threads.
    pub fn into_split(self) -> (SendQueue, ReceiveQueue) {
        (self.send, self.receive)
    }
}

/// The requests of a queue pair.
#[derive(Debug)]
pub struct SendQueue(pub(crate) SendRing);

impl SendQueue {
    /// As [`QueuePair::connect`].
    pub fn connect(&self, peer: &Address) -> Result<Connected> {
        self.0.qp().connect(peer).map_err(|error| {
            let error = Error::from(error);
            match error.errno() {
                106 => Error::AlreadyConnected,
                _ => error,
            }
        })
    }

    /// How many requests can be posted now.
    pub fn room(&mut self) -> u32 {
        self.0.room()
    }

    /// Requests that it holds at most.
    pub fn entries(&self) -> u32 {
        self.0.entries()
    }

    /// Posts requests. They are carried out in this order and complete in it.
    ///
    /// # Errors
    ///
    /// [`Error::Full`]; what the doorbell says. Those before it were posted.
    pub fn post(&mut self, requests: &[WorkRequest]) -> Result<(), PostError> {
        let (posted, bell) = self.put(requests);
        if bell {
            let rung = self.0.qp().context().doorbell();
            rung.map_err(|error| PostError {
                posted,
                error: error.into(),
            })?;
        }
        all_posted(posted, requests.len())
    }

    /// Posts requests, but does not ring the doorbell: [`Context::doorbell`](crate::Context::doorbell)
    /// does, for all queue pairs of the context at once.
    ///
    /// # Errors
    ///
    /// [`Error::Full`]. Those before it were posted.
    pub fn post_quietly(&mut self, requests: &[WorkRequest]) -> Result<(), PostError> {
        let (posted, _) = self.put(requests);
        all_posted(posted, requests.len())
    }

    fn put(&mut self, requests: &[WorkRequest]) -> (usize, bool) {
        let put = requests.iter().take_while(|request| self.0.push(request.0));
        let posted = put.count();
        (posted, posted > 0 && self.0.publish())
    }
}

/// The receive buffers of a queue pair.
#[derive(Debug)]
pub struct ReceiveQueue(pub(crate) Option<ReceiveRing>);

impl ReceiveQueue {
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
    /// [`Error::Full`]; what the doorbell says. Those before it were posted.
    pub fn post(&mut self, requests: &[ReceiveRequest]) -> Result<(), PostError> {
        let Some(ring) = &mut self.0 else {
            return all_posted(0, requests.len());
        };
        let put = requests.iter().take_while(|request| ring.push(request.0));
        let posted = put.count();
        if posted > 0 && ring.publish() {
            let rung = ring.qp().context().doorbell();
            rung.map_err(|error| PostError {
                posted,
                error: error.into(),
            })?;
        }
        all_posted(posted, requests.len())
    }
}

fn all_posted(posted: usize, wanted: usize) -> Result<(), PostError> {
    match posted == wanted {
        true => Ok(()),
        false => Err(PostError {
            posted,
            error: Error::Full,
        }),
    }
}
