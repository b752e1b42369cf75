// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Queue pairs of SUPERp in the shape that users of verbs know.
//!
//! A [`Device`] is the SUPERp node of a network namespace. A [`Context`] on it is a protection domain:
//! it owns [`MemoryRegion`]s, [`CompletionQueue`]s and [`QueuePair`]s. A [`WorkRequest`] is posted to a
//! queue pair and completes in its completion queue. Queues are rings in memory that is shared with
//! the kernel: completions are polled without a system call, and one call serves any number of
//! requests.
//!
//! ```no_run
//! use superp_verbs::{Access, Address, Context, Memory, QueuePairOptions, WorkRequest};
//!
//! let context = Context::open()?;
//! let mut cq = context.create_completion_queue(64)?;
//! let mut qp = context.create_queue_pair(&cq, &cq, &QueuePairOptions::default())?;
//! qp.connect(&Address::new("10.23.0.1".parse().unwrap(), 0))?;
//! let region = context.register(Memory::new(4096)?, Access::LOCAL_WRITE, None)?;
//! let remote = 0x12_3456_789a_bcde; // As the peer told us.
//! qp.post_send([WorkRequest::read(region.part(0, 4096)?, remote).token(1)])?;
//! let done = loop {
//!     if let Some(done) = cq.poll_one()? {
//!         break done;
//!     }
//! };
//! done.result?;
//! assert_eq!(done.token, 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Jobs
//!
//! A program of a job finds the job's [`partition`] in its environment. Its regions are of that partition,
//! and its queue pairs take connections of it, unless it names a partition or a connection itself.
//!
//! # Threads
//!
//! Everything is `Send`. Posting and polling take `&mut self`, since a ring has one producer or one
//! consumer: threads that share a queue put it into a lock. [`QueuePair::into_split`] gives the two
//! rings of a queue pair to two threads. A [`Context`] is `Clone` and `Sync`: any thread may make
//! queues, ring the doorbell and take events. A [`Poller`] takes in what is posted without doorbells.
//!
//! # Memory
//!
//! [`Memory`] is read and written by copies only, because the kernel and peers change it at any time;
//! it may be dropped at any time, too: what the kernel still needs of it, it has pinned.

#![forbid(unsafe_code)]

mod completion;
mod context;
mod device;
mod environment;
mod error;
mod inline;
pub mod partition;
mod poller;
mod queue;
mod region;
mod request;

pub use completion::{Completion, CompletionQueue, Opcode};
pub use context::{Context, QueuePairOptions};
pub use device::{devices, Device, Port};
pub use error::{AccessFault, CompletionError, Error, Fault, PostError};
pub use inline::MAX_INLINE;
pub use poller::{Poller, POLLER_VARIABLE};
pub use queue::{
    QueuePair, QueuePairState, ReceiveQueue, SendQueue, SharedReceive, SharedReceiveQueue,
};
pub use region::{MemoryRegion, Part, Parts};
pub use request::{ReceiveRequest, WorkRequest};
pub use superp_sys::uapi;
pub use superp_sys::{Access, Address, Atomic, Connected, Doorbell, Memory};

/// Result of everything here.
pub type Result<T, E = Error> = std::result::Result<T, E>;
