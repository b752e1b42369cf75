// SPDX-License-Identifier: GPL-2.0

//! Arguments of sendmsg() and recvmsg(): addresses and control messages. Safe Rust over `sock.c`.

use core::{mem, ptr, slice};

use kernel::{
    ffi::c_void,
    iov::IovIterSource,
    prelude::*,
    transmute::{AsBytes, FromBytes},
};

use super::bindings;

/// The arguments of a sendmsg() call.
pub(crate) struct SendRequest<'a>(pub(super) &'a bindings::superp_sock_send);

impl<'a> SendRequest<'a> {
    /// Number of data bytes.
    pub(crate) fn len(&self) -> usize {
        self.0.len
    }

    /// MSG_* flags of the call.
    pub(crate) fn flags(&self) -> u32 {
        self.0.flags
    }

    /// Whether the call must not wait.
    pub(crate) fn nonblock(&self) -> bool {
        self.0.nonblock
    }

    /// The destination, if there is one.
    ///
    /// # Errors
    ///
    /// `EINVAL`: the address is too short.
    pub(crate) fn name<N: FromBytes>(&self) -> Result<Option<N>> {
        if self.0.name.is_null() {
            return Ok(None);
        }
        // SAFETY: The C half passes the address of the message header, and its length.
        unsafe { read_name(self.0.name, self.0.name_len) }.map(Some)
    }

    /// The control messages.
    pub(crate) fn control(&self) -> ControlMessages<'a> {
        ControlMessages {
            send: self.0,
            next: self.0.cmsg,
        }
    }

    /// Sleeps until a send can continue or fails, at most `timeout` jiffies, from which it
    /// subtracts the time that it slept. Process context.
    ///
    /// # Errors
    ///
    /// - `EAGAIN`: the time is over.
    /// - `ERESTARTSYS`, `EINTR`: a signal is pending.
    pub(crate) fn wait_space(&self, timeout: &mut isize) -> Result {
        // SAFETY: `sk` is the socket of the call, whose file is not released during the call. So it
        // has its Rust half and its wait queue.
        kernel::error::to_result(unsafe { bindings::superp_sock_wait_space(self.0.sk, timeout) })
    }

    /// The data.
    pub(crate) fn data(&mut self) -> &mut IovIterSource<'a> {
        // SAFETY: In sendmsg() the iterator of a `struct msghdr` is a source. The call lends it for
        // `'a`, and `&mut self` makes this its only use.
        unsafe { IovIterSource::from_raw(self.0.data.cast()) }
    }
}

/// A control message of a sendmsg() call.
pub(crate) struct ControlMessage<'a> {
    /// `cmsg_level`.
    pub(crate) level: i32,
    /// `cmsg_type`.
    pub(crate) kind: i32,
    /// The content. It may not be aligned.
    pub(crate) data: &'a [u8],
}

/// The control messages of a sendmsg() call. An item is `EINVAL` if the length of the message is
/// wrong; then it is the last.
///
/// # Invariants
///
/// `next` is null, or a control message of `send.msg`.
pub(crate) struct ControlMessages<'a> {
    send: &'a bindings::superp_sock_send,
    next: *mut bindings::cmsghdr,
}

impl<'a> Iterator for ControlMessages<'a> {
    type Item = Result<ControlMessage<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.next.is_null() {
            return None;
        }
        let mut out = bindings::superp_sock_cmsg::default();
        // SAFETY: By the type invariant `next` is a control message of `msg`. INVARIANT: The callee
        // sets `next` to the following one, or to null.
        let err = unsafe { bindings::superp_sock_cmsg(self.send.msg, &mut self.next, &mut out) };
        if let Err(e) = kernel::error::to_result(err) {
            // INVARIANT: Null is allowed.
            self.next = ptr::null_mut();
            return Some(Err(e));
        }
        Some(Ok(ControlMessage {
            level: out.level,
            kind: out.type_,
            // SAFETY: The callee has returned `len` bytes of the control buffer, which is kernel
            // memory that does not change during the call, that is, for `'a`.
            data: unsafe { slice::from_raw_parts(out.data.cast(), out.len) },
        }))
    }
}

/// What recvmsg() returns beside the bytes of a message.
pub(crate) struct Received<'a> {
    pub(super) msg: &'a mut bindings::msghdr,
}

impl Received<'_> {
    /// Returns a control message. MSG_CTRUNC tells the program if its buffer is too small.
    pub(crate) fn put_control<T: AsBytes>(&mut self, level: i32, kind: i32, data: &T) {
        let len = mem::size_of::<T>();
        // SAFETY: `msg` is the header of the call; the callee reads the bytes of `data`.
        unsafe {
            bindings::superp_sock_put_cmsg(self.msg, level, kind, ptr::from_ref(data).cast(), len)
        }
    }
}

/// Reads an address of the user.
///
/// # Errors
///
/// `EINVAL`: it is too short.
///
/// # Safety
///
/// `name` is valid for reads of `len` bytes.
pub(super) unsafe fn read_name<N: FromBytes>(name: *const c_void, len: i32) -> Result<N> {
    let len = usize::try_from(len)?;
    // SAFETY: By this function's contract.
    let bytes = unsafe { slice::from_raw_parts(name.cast::<u8>(), len) };
    let (name, _) = N::from_bytes_copy_prefix(bytes).ok_or(EINVAL)?;
    Ok(name)
}
