// SPDX-License-Identifier: GPL-2.0

//! What the module registers with the kernel: once, and in an order.

use super::{net, nl, rx, sock};
use kernel::{
    prelude::*,
    sync::atomic::{Atomic, Full, Release},
};

/// 1 while there is a [`Registration`].
static REGISTERED: Atomic<u32> = Atomic::new(0);

/// The right to register, which one value at a time has.
struct Right(());

impl Right {
    fn take() -> Result<Self> {
        match REGISTERED.cmpxchg(0, 1, Full) {
            Ok(_) => Ok(Self(())),
            Err(_) => Err(EBUSY),
        }
    }
}

impl Drop for Right {
    fn drop(&mut self) {
        REGISTERED.store(0, Release);
    }
}

/// Everything that the module registers. Fields are dropped in this order: first the interfaces to
/// programs, then the packet handlers, then the state of the namespaces. Initialisation is in the
/// reverse order, because programs and packets look up the state.
pub(crate) struct Registration<T: net::Pernet> {
    _sockets: sock::Registration,
    _netlink: nl::Registration,
    _packets: rx::Registration,
    _namespaces: net::Registration<T>,
    _right: Right,
}

/// Numbers for [`Registration::new`].
pub(crate) struct Numbers {
    /// Number of the address family.
    pub(crate) family: i32,
    /// EtherTypes of the frames that are received.
    pub(crate) ethertypes: [u16; 2],
    /// Bytes of the network header of these frames.
    pub(crate) header_len: u32,
}

impl<T: net::Pernet> Registration<T> {
    /// Registers `T` as the state of namespaces, the packet handlers, the netlink family and the
    /// address family. This calls [`net::PernetOps::init`] for each existing namespace and
    /// [`net::PernetOps::device_event`] for each existing device that is up. Process context; may
    /// sleep.
    ///
    /// # Errors
    ///
    /// - `EBUSY`: there is a registration.
    /// - `EINVAL`: a number is out of range, or the EtherTypes are equal.
    /// - `EEXIST`: the number of the address family is in use; also logged.
    /// - `ENOMEM`, and those of [`net::PernetOps::init`].
    pub(crate) fn new(numbers: &Numbers) -> Result<Self> {
        let right = Right::take()?;
        // SAFETY: `right` is the only one, so there is no other registration.
        let namespaces = unsafe { net::Registration::new() }?;
        // SAFETY: `right` is the only one. Locals and fields: `namespaces` is dropped last.
        let packets = unsafe { rx::Registration::new(numbers.ethertypes, numbers.header_len) }?;
        // SAFETY: `right` is the only one. Locals and fields: `namespaces` is dropped last.
        let netlink = unsafe { nl::Registration::new() }?;
        // SAFETY: `right` is the only one. Locals and fields: `namespaces` is dropped last.
        let sockets = unsafe { sock::Registration::new(numbers.family) }?;
        Ok(Self {
            _sockets: sockets,
            _netlink: netlink,
            _packets: packets,
            _namespaces: namespaces,
            _right: right,
        })
    }
}
