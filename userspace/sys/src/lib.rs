// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Safe Rust over the sockets of the SUPERp address family, the one place of user space with
//! `unsafe`.
//!
//! A [`Socket`] is a queue pair. It sends and receives messages, registers [`Memory`] as a
//! [`Region`] that peers may read or write, and reads and writes regions of its peer; each such
//! request gives exactly one [`Completion`].
//!
//! A [`ContextSocket`] has many queue pairs with rings in shared memory; crate `superp-verbs` is made
//! of it.
//!
//! ```no_run
//! use superp_sys::{Access, Address, Memory, Socket, With};
//!
//! let socket = Socket::new()?;
//! socket.connect(&Address::new("10.23.0.1".parse().unwrap(), 0))?;
//! let region = socket.register(Memory::new(4096)?, Access::LOCAL_WRITE, 0)?;
//! socket.read(&region, 0, 0x12_3456_789a_bcde, 4096, 1, With::default())?;
//! let done = socket.wait_completion(None)?.expect("no timeout was given");
//! assert_eq!(done.token, 1);
//! # Ok::<(), std::io::Error>(())
//! ```

mod call;
mod completion_queue;
mod context;
mod device;
mod mapping;
mod memory;
mod pace;
mod queue_pair;
mod region;
mod ring;
mod shared_receive;
mod socket;
mod standard;
pub mod uapi;

pub use completion_queue::Cq;
pub use context::{ContextSocket, Doorbell};
pub use device::{device_index, device_name};
pub use memory::Memory;
pub use queue_pair::{Connected, Qp, Receive, ReceiveRing, SendRing};
pub use region::{Access, Region, Registration};
pub use ring::RingSize;
pub use shared_receive::{SharedReceiveRing, Srq};
pub use socket::{Address, Atomic, Completion, Info, Placed, Received, Socket, With};
pub use standard::was_closed;
