// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Packet Delivery Layer: windows, acknowledgements, retransmission [proto 3].

mod ack;
mod congestion;
mod content;
mod list;
mod receive;
mod reuse;
mod rtt;
mod send;
mod slot;

pub(super) use ack::AckSchedule;
pub(super) use content::Content;
pub(super) use receive::{Arrival, ReceiveWindow};
pub(super) use reuse::PsnReuse;
pub(super) use send::{AckCheck, Cause, SendWindow, Sent};
