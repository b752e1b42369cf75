// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Contexts.

use crate::environment::Environment;
use crate::inline::Copies;
use crate::{
    Access, CompletionQueue, Doorbell, Error, Memory, MemoryRegion, QueuePair, ReceiveQueue,
    Result, SendQueue, SharedReceive, SharedReceiveQueue,
};
use std::io::ErrorKind;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::ptr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use superp_sys::{ContextSocket, Receive, RingSize};

/// A protection domain: regions, completion queues and queue pairs that may be used together. Clones
/// are the same context.
#[derive(Clone, Debug)]
pub struct Context {
    socket: ContextSocket,
    environment: Arc<Environment>,
}

/// How a queue pair is made.
#[derive(Clone, Debug)]
pub struct QueuePairOptions {
    /// Requests that may be posted at a time; rounded up to a power of two.
    pub send_entries: u32,
    /// Receive buffers that may be posted at a time, rounded up to a power of two; 0: it receives
    /// nothing. Of no meaning with a shared queue.
    pub receive_entries: u32,
    /// Parts that the local bytes of a request may be in, 1 to 16; 0 is 1.
    pub send_parts: u32,
    /// Parts that a receive buffer may be in, 1 to 16; 0 is 1. Of no meaning with a shared queue.
    pub receive_parts: u32,
    /// Bytes that a request may have inline: copied when it is posted, in no region. Of up to 32 the
    /// entry has room. For more, up to [`MAX_INLINE`](crate::MAX_INLINE), the queue pair registers
    /// memory of its own; then it may be more than was asked for.
    pub inline: u32,
    /// The queue that it takes receive buffers from, in place of one of its own.
    pub shared: Option<SharedReceive>,
    /// Number in the node, which peers send to; 0: the kernel chooses.
    pub number: u32,
}

impl Default for QueuePairOptions {
    /// 64 requests, 64 buffers, of one part, 32 bytes inline, any number.
    fn default() -> Self {
        Self {
            send_entries: 64,
            receive_entries: 64,
            send_parts: 1,
            receive_parts: 1,
            inline: 0,
            shared: None,
            number: 0,
        }
    }
}

/// Segments of an entry; one part needs none.
fn segments(parts: u32) -> u32 {
    match parts {
        0 | 1 => 0,
        parts => parts,
    }
}

fn power_of_two(entries: u32) -> Result<u32> {
    let rounded = entries.checked_next_power_of_two();
    rounded.ok_or(Error::Invalid("more entries than a ring can have"))
}

impl Context {
    /// Opens a context in the current network namespace. It keeps what `SUPERP_PARTITION` in the
    /// environment says: the partition of regions that are registered without one, and of connections
    /// that are looked up by their peer alone.
    ///
    /// # Errors
    ///
    /// [`Error::NotLoaded`]; [`Error::Netlink`]; what socket(2) and mmap(2) say.
    pub fn open() -> Result<Self> {
        Ok(Self {
            socket: ContextSocket::open()?,
            environment: Arc::new(Environment::read()?),
        })
    }

    /// The partition that the environment named when the context was opened; 0: none.
    ///
    /// # Errors
    ///
    /// [`Error::Partition`].
    pub fn partition(&self) -> Result<u32> {
        self.environment.partition()
    }

    /// Registers memory as a region, in a partition (0: any), or if none is given in that of the
    /// environment ([`partition`](Self::partition)).
    ///
    /// # Errors
    ///
    /// [`Error::NoMemory`], [`Error::TooMany`]; without a partition, [`Error::Partition`].
    pub fn register(
        &self,
        memory: Memory,
        access: Access,
        partition: Option<u32>,
    ) -> Result<MemoryRegion> {
        let partition = partition.map_or_else(|| self.partition(), Ok)?;
        let region = self.socket.register(memory, access, partition)?;
        Ok(MemoryRegion(region))
    }

    /// Makes a completion queue for at least `entries` completions.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`], [`Error::NoMemory`], [`Error::TooMany`]; EINVAL: more than 65536.
    pub fn create_completion_queue(&self, entries: u32) -> Result<CompletionQueue> {
        Ok(CompletionQueue(
            self.socket.create_cq(power_of_two(entries)?)?,
        ))
    }

    /// Makes a shared receive queue for at least `entries` buffers, each of at most `parts` parts (1 to
    /// 16).
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`], [`Error::NoMemory`], [`Error::TooMany`]; EINVAL: more than 32768 entries, or
    /// 16 parts.
    pub fn create_shared_receive_queue(
        &self,
        entries: u32,
        parts: u32,
    ) -> Result<SharedReceiveQueue> {
        let size = RingSize {
            entries: power_of_two(entries)?,
            segments: segments(parts),
        };
        Ok(SharedReceiveQueue(self.socket.create_srq(size)?))
    }

    /// Makes a queue pair. Its requests complete in `send`, messages that it receives in `receive`;
    /// they may be the same.
    ///
    /// # Errors
    ///
    /// [`Error::NumberTaken`], [`Error::Invalid`]: queues of another context;
    /// [`Error::NoMemory`], [`Error::TooMany`]; EINVAL: more than 8192 entries, 16 parts, or
    /// [`MAX_INLINE`](crate::MAX_INLINE) bytes.
    pub fn create_queue_pair(
        &self,
        send: &CompletionQueue,
        receive: &CompletionQueue,
        options: &QueuePairOptions,
    ) -> Result<QueuePair> {
        let send_size = RingSize {
            entries: power_of_two(options.send_entries)?,
            segments: segments(options.send_parts),
        };
        let from = match &options.shared {
            Some(shared) => Receive::Shared(&shared.0),
            None => Receive::Own(RingSize {
                entries: match options.receive_entries {
                    0 => 0,
                    entries => power_of_two(entries)?,
                },
                segments: segments(options.receive_parts),
            }),
        };
        let copies = Copies::new(&self.socket, send_size.entries, options.inline)?;
        let made = self
            .socket
            .create_qp(&send.0, &receive.0, send_size, from, options.number);
        let (send, receive) = made.map_err(|error| match error.raw_os_error() {
            None if error.kind() == ErrorKind::InvalidInput => {
                Error::Invalid("a queue of another context")
            }
            _ => error.into(),
        })?;
        Ok(QueuePair {
            send: SendQueue {
                ring: send,
                copies,
                environment: self.environment.clone(),
            },
            receive: ReceiveQueue(receive),
        })
    }

    /// As [`create_queue_pair`](Self::create_queue_pair), of completion queues that threads share.
    pub fn create_queue_pair_of_shared(
        &self,
        send: &Mutex<CompletionQueue>,
        receive: &Mutex<CompletionQueue>,
        options: &QueuePairOptions,
    ) -> Result<QueuePair> {
        let lock = |queue| Mutex::lock(queue).unwrap_or_else(PoisonError::into_inner);
        // One lock is not taken twice.
        if ptr::eq(send, receive) {
            let both = lock(send);
            return self.create_queue_pair(&both, &both, options);
        }
        // Always in one order, whichever thread does it.
        let in_order = ptr::from_ref(send) < ptr::from_ref(receive);
        let (low, high) = if in_order {
            (send, receive)
        } else {
            (receive, send)
        };
        let (low, high) = (lock(low), lock(high));
        let (send, receive) = if in_order {
            (&low, &high)
        } else {
            (&high, &low)
        };
        self.create_queue_pair(send, receive, options)
    }

    /// Has the kernel take in what was posted quietly.
    ///
    /// # Errors
    ///
    /// What send(2) says.
    pub fn doorbell(&self) -> Result<Doorbell> {
        Ok(self.socket.doorbell()?)
    }

    /// Lends the kernel this thread for `time`, at most a second: it takes in what is posted as it comes,
    /// and posting makes no system call. The thread does not sleep meanwhile. Also returns when a
    /// signal came. [`Poller`](crate::Poller) is a thread that does nothing else.
    ///
    /// # Errors
    ///
    /// EBUSY: another thread does it.
    pub fn serve(&self, time: Duration) -> Result<Doorbell> {
        Ok(self.socket.serve(time)?)
    }

    /// Waits for an event, at most `timeout`: gives the number of a completion queue that was armed by
    /// [`CompletionQueue::request_notify`] and got a completion since. `None`: the time is over. The
    /// descriptor of the context is readable as long as there is an event.
    ///
    /// # Errors
    ///
    /// What poll(2) says.
    pub fn next_event(&self, timeout: Option<Duration>) -> Result<Option<u32>> {
        let end = timeout.map(|timeout| Instant::now() + timeout);
        loop {
            if let Some(number) = self.socket.take_event() {
                return Ok(Some(number));
            }
            let left = end.map(|end| end.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return Ok(None);
            }
            self.socket.wait(left)?;
        }
    }

    /// The socket that the context is.
    pub fn socket(&self) -> &ContextSocket {
        &self.socket
    }
}

impl AsFd for Context {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl AsRawFd for Context {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}
