// SPDX-License-Identifier: GPL-2.0

//! Sockets of the address family: safe Rust over `sock.c`.

use core::{mem, pin::Pin, ptr, ptr::NonNull};

use kernel::{
    ffi::c_void,
    iov::IovIterSource,
    prelude::*,
    sync::{
        aref::{ARef, AlwaysRefCounted},
        atomic::{Acquire, Atomic, Full},
        rcu,
    },
    transmute::{AsBytes, FromBytes},
    types::{ForeignOwnable, Opaque},
};

use super::{bindings, errno::enobufs, net::Net, skb::SkBuff};

pub(crate) use bindings::{
    sockaddr_superp as Name, superp_completion as CompletionRecord, superp_key as Key,
    superp_mr_dereg as MrDereg, superp_mr_info as MrInfo, superp_mr_reg as MrReg,
    superp_qp_info as QpInfo, superp_rma as Rma, superp_sock_from as From,
};

/// Numbers of the ioctl commands.
pub(crate) mod ioctl {
    pub(crate) use super::bindings::{
        SUPERP_SOCK_IOC_MR_DEREG as MR_DEREG, SUPERP_SOCK_IOC_MR_QUERY as MR_QUERY,
        SUPERP_SOCK_IOC_MR_REG as MR_REG, SUPERP_SOCK_IOC_QP_INFO as QP_INFO,
    };
}

// SAFETY: Integers and arrays of them, without padding; the C header says so and the sizes are
// checked below.
unsafe impl FromBytes for MrReg {}
// SAFETY: As above.
unsafe impl AsBytes for MrReg {}
// SAFETY: As above.
unsafe impl FromBytes for MrInfo {}
// SAFETY: As above.
unsafe impl AsBytes for MrInfo {}
// SAFETY: As above.
unsafe impl FromBytes for MrDereg {}
// SAFETY: As above.
unsafe impl AsBytes for QpInfo {}

// The sum of the fields: no padding.
const _: () = {
    assert!(mem::size_of::<MrReg>() == 40);
    assert!(mem::size_of::<MrInfo>() == 56);
    assert!(mem::size_of::<MrDereg>() == 8);
    assert!(mem::size_of::<QpInfo>() == 24);
};

/// `struct sock` of this family.
///
/// # Invariants
///
/// Made by `superp_create()`: it has a `struct superp_sock` around it and is freed by RCU.
#[repr(transparent)]
pub(crate) struct Sock(Opaque<bindings::sock>);

// SAFETY: `struct sock` is shared between processes and softirqs on all CPUs; the C half takes the
// locks that its members need.
unsafe impl Send for Sock {}
// SAFETY: As above.
unsafe impl Sync for Sock {}

// SAFETY: `sk_refcnt` keeps the object alive.
unsafe impl AlwaysRefCounted for Sock {
    fn inc_ref(&self) {
        // SAFETY: A shared reference implies a count above zero.
        unsafe { bindings::superp_sock_hold(self.as_ptr()) }
    }

    unsafe fn dec_ref(obj: NonNull<Self>) {
        // SAFETY: The caller gives up a reference that it owns.
        unsafe { bindings::superp_sock_put(obj.cast().as_ptr()) }
    }
}

impl Sock {
    pub(super) fn as_ptr(&self) -> *mut bindings::sock {
        self.0.get()
    }

    /// Limit of SO_SNDBUF, bytes. Any context.
    pub(crate) fn sndbuf(&self) -> isize {
        // SAFETY: `self` is a valid socket. CAST: the limit is positive and at most `i32::MAX`.
        unsafe { bindings::superp_sock_sndbuf(self.as_ptr()) as isize }
    }

    /// Whether a message would be refused for SO_RCVBUF now. Any context.
    pub(crate) fn full(&self) -> bool {
        // SAFETY: `self` is a valid socket.
        unsafe { bindings::superp_sock_full(self.as_ptr()) }
    }

    /// Memory of the messages that wait for the program, bytes. Any context.
    pub(crate) fn received(&self) -> u64 {
        // SAFETY: `self` is a valid socket.
        unsafe { bindings::superp_sock_received(self.as_ptr()) }.into()
    }

    /// Number of the socket's inode, 0 when it has none any more. Any context.
    pub(crate) fn inode(&self) -> u64 {
        // SAFETY: `self` is a valid socket.
        unsafe { bindings::superp_sock_inode(self.as_ptr()) }
    }

    /// Whether sending was shut down. Any context.
    pub(crate) fn send_closed(&self) -> bool {
        // SAFETY: `self` is a valid socket.
        unsafe { bindings::superp_sock_send_closed(self.as_ptr()) }
    }

    /// Whether receiving was shut down. Any context.
    pub(crate) fn recv_closed(&self) -> bool {
        // SAFETY: `self` is a valid socket.
        unsafe { bindings::superp_sock_recv_closed(self.as_ptr()) }
    }

    /// Completions that wait for the program. Any context.
    pub(crate) fn completions(&self) -> u32 {
        // SAFETY: `self` is a valid socket.
        unsafe { bindings::superp_sock_error_queue_len(self.as_ptr()) }
    }

    /// Takes the pending error, if there is one. Process context.
    pub(crate) fn take_error(&self) -> Result {
        // SAFETY: `self` is a valid socket.
        kernel::error::to_result(unsafe { bindings::superp_sock_take_error(self.as_ptr()) })
    }

    /// The error of a send after shutdown; raises SIGPIPE unless `flags` (MSG_*) forbid it.
    /// Process context.
    pub(crate) fn pipe_error(&self, flags: u32) -> Error {
        // SAFETY: `self` is a valid socket.
        Error::from_errno(unsafe { bindings::superp_sock_pipe_error(self.as_ptr(), flags) })
    }

    /// Sets the pending error and wakes everybody. Any context up to softirq.
    pub(crate) fn set_error(&self, error: Error) {
        // SAFETY: `self` is a valid socket. Error numbers are small, negation cannot overflow.
        unsafe { bindings::superp_sock_set_error(self.as_ptr(), error.to_errno().wrapping_neg()) }
    }

    /// The socket has its number: it can receive from now on. Process context.
    pub(crate) fn set_bound(&self) {
        // SAFETY: `self` is a valid socket.
        unsafe { bindings::superp_sock_set_bound(self.as_ptr()) }
    }

    /// Time that a send may wait, jiffies. Any context.
    pub(crate) fn send_timeout(&self, nonblock: bool) -> isize {
        // SAFETY: `self` is a valid socket.
        unsafe { bindings::superp_sock_sndtimeo(self.as_ptr(), nonblock) }
    }

    /// Sleeps until a send can go on or fails, for `timeout` jiffies at most, and takes the time
    /// off. Process context.
    ///
    /// # Errors
    ///
    /// `EAGAIN` after the time, `ERESTARTSYS` or `EINTR` by a signal.
    pub(crate) fn wait_space(&self, timeout: &mut isize) -> Result {
        // SAFETY: `self` is a valid socket; only its own methods call this, between create and
        // release, when the C half has its state.
        kernel::error::to_result(unsafe {
            bindings::superp_sock_wait_space(self.as_ptr(), timeout)
        })
    }

    /// Wakes those who wait for room to send. Any context up to softirq.
    pub(crate) fn write_space(&self) {
        // SAFETY: `self` is a valid socket.
        unsafe { bindings::superp_sock_write_space(self.as_ptr()) }
    }

    /// Queues a message. Any context up to softirq, under RCU.
    ///
    /// # Errors
    ///
    /// `ENOBUFS`: SO_RCVBUF is full. `ESHUTDOWN`: receiving was shut down.
    pub(crate) fn deliver(&self, _: &rcu::Guard, message: SkBuff, from: &From) -> Result {
        // SAFETY: `self` is a valid socket, the buffer is handed over.
        kernel::error::to_result(unsafe {
            bindings::superp_sock_deliver(self.as_ptr(), message.into_raw().cast(), from)
        })
    }

    /// Queues a completion; `buffer` is an empty one. Any context up to softirq, under RCU.
    pub(crate) fn complete(&self, _: &rcu::Guard, buffer: SkBuff, record: &CompletionRecord) {
        // SAFETY: `self` is a valid socket, the buffer is handed over.
        unsafe { bindings::superp_sock_complete(self.as_ptr(), buffer.into_raw().cast(), record) }
    }
}

/// A way from softirq to a socket that may be gone.
///
/// # Invariants
///
/// The pointer is null or one reference to the socket is held for it.
pub(crate) struct RcuSock(Atomic<*mut bindings::sock>);

impl RcuSock {
    /// A way to `sk`.
    pub(crate) fn new(sk: ARef<Sock>) -> RcuSock {
        // INVARIANT: The reference of `sk` becomes that of the pointer.
        RcuSock(Atomic::new(ARef::into_raw(sk).cast().as_ptr()))
    }

    /// Calls `f` with the socket, if it is still there; `f` must not sleep. Any context up to
    /// softirq.
    pub(crate) fn with<R>(&self, f: impl FnOnce(&Sock, &rcu::Guard) -> R) -> Option<R> {
        let guard = rcu::read_lock();
        let sk = self.0.load(Acquire).cast::<Sock>();
        // SAFETY: Null, or a socket: its reference is given up only after the pointer was
        // cleared, and it is freed a grace period after that.
        let sk = unsafe { sk.as_ref() }?;
        Some(f(sk, &guard))
    }

    /// Whether the socket is still there. Any context.
    pub(crate) fn alive(&self) -> bool {
        !self.0.load(Acquire).is_null()
    }

    /// From now on there is no socket. Process context.
    pub(crate) fn clear(&self) {
        if let Some(sk) = NonNull::new(self.0.xchg(ptr::null_mut(), Full)) {
            // SAFETY: By the invariant, the pointer's reference is ours now.
            drop(unsafe { ARef::<Sock>::from_raw(sk.cast()) });
        }
    }
}

impl Drop for RcuSock {
    fn drop(&mut self) {
        self.clear();
    }
}

/// A buffer that is taken out once, from any context.
///
/// # Invariants
///
/// The pointer is null or owns a buffer.
pub(crate) struct Reserve(Atomic<*mut c_void>);

impl Reserve {
    /// Puts an empty buffer aside. Any context.
    pub(crate) fn new() -> Result<Reserve> {
        let skb = SkBuff::alloc(0, 0).ok_or(ENOMEM)?;
        Ok(Reserve(Atomic::new(skb.into_raw().cast())))
    }

    /// Takes the buffer. Any context.
    pub(crate) fn take(&self) -> Option<SkBuff> {
        let skb = NonNull::new(self.0.xchg(ptr::null_mut(), Full))?;
        // SAFETY: By the invariant, the pointer owns a buffer, which is ours now.
        Some(unsafe { SkBuff::from_raw(skb.cast()) })
    }
}

impl Drop for Reserve {
    fn drop(&mut self) {
        self.take();
    }
}

/// One call of sendmsg(), taken apart and checked for form by the C half.
pub(crate) struct SendRequest<'a>(&'a bindings::superp_sock_send);

impl<'a> SendRequest<'a> {
    /// Bytes of data.
    pub(crate) fn len(&self) -> usize {
        self.0.len
    }

    /// MSG_* flags.
    pub(crate) fn flags(&self) -> u32 {
        self.0.flags
    }

    /// Whether the call must not wait.
    pub(crate) fn nonblock(&self) -> bool {
        self.0.nonblock
    }

    /// The destination, where one was given.
    pub(crate) fn name(&self) -> Option<&Name> {
        self.0.has_name.then_some(&self.0.name)
    }

    /// The remote memory request, where there is one.
    pub(crate) fn rma(&self) -> Option<&Rma> {
        self.0.has_rma.then_some(&self.0.rma)
    }

    /// Operand and compare of the request, if it is an atomic operation.
    pub(crate) fn atomic(&self) -> Option<(u64, u64)> {
        self.0.atomic.then_some((self.0.operand, self.0.compare))
    }

    /// The receive context and the place in it where the data goes, where they are given.
    pub(crate) fn key(&self) -> Option<&'a Key> {
        self.0.has_key.then_some(&self.0.key)
    }

    /// The immediate data, where there is any.
    pub(crate) fn imm(&self) -> Option<u32> {
        self.0.has_imm.then_some(self.0.imm)
    }

    /// The data.
    pub(crate) fn data(&mut self) -> &mut IovIterSource<'a> {
        // SAFETY: The iterator of a `struct msghdr` in sendmsg() is a source, and the call
        // lends it for `'a`; the exclusive borrow of `self` makes this its only use.
        unsafe { IovIterSource::from_raw(self.0.data.cast()) }
    }
}

/// The address family, offered to programs until this is dropped.
pub(crate) struct Registration(());

impl Registration {
    /// Registers the family. Process context, at load, after the network namespaces.
    ///
    /// # Errors
    ///
    /// `EINVAL`: no such number. `EEXIST`: in use. `ENOMEM`. A line in the log says more.
    pub(crate) fn new(family: i32) -> Result<Registration> {
        // SAFETY: May be called once at a time; there is one module.
        let result = kernel::error::to_result(unsafe { bindings::superp_sock_register(family) });
        match result {
            Ok(()) => Ok(Registration(())),
            Err(e) if e == enobufs() => {
                pr_err!(
                    "parameter family={} is out of range: 1 to {}\n",
                    family,
                    // SAFETY: Returns a constant.
                    unsafe { bindings::superp_sock_max_family() }
                );
                Err(EINVAL)
            }
            Err(e) => {
                pr_err!(
                    "parameter family={}: the address family cannot be registered ({:?})\n",
                    family,
                    e
                );
                Err(e)
            }
        }
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        // SAFETY: It is registered; each socket holds a reference to the module, so there is none.
        unsafe { bindings::superp_sock_unregister() }
    }
}

/// The Rust half of a socket, from its creation to its release.
pub(crate) trait SockState: Sized + Send + Sync + 'static {
    /// The Rust half of the new socket `sk` in `net`. Process context.
    fn new(sk: ARef<Sock>, net: Net) -> impl PinInit<Self, Error>;

    /// ioctl(). Process context.
    ///
    /// # Errors
    ///
    /// `ENOIOCTLCMD`: not one of this kind of socket; `EFAULT`; others are documented with the
    /// commands.
    fn ioctl(&self, cmd: u32, arg: usize) -> Result;
}

/// What the address family's sockets for messages do; [`proto_ops`] registers the type. Process
/// context unless told.
pub(crate) trait ProtoOps: SockState {
    /// bind().
    fn bind(&self, name: &Name) -> Result;

    /// connect().
    fn connect(&self, name: &Name) -> Result;

    /// connect() to `AF_UNSPEC`.
    fn disconnect(&self);

    /// getsockname() and, for `peer`, getpeername(); fills in everything but the family.
    fn name(&self, peer: bool, name: &mut Name) -> Result;

    /// Whether a message would be admitted now. Any context.
    fn writable(&self) -> bool;

    /// Memory of the messages that have not completed, bytes. Any context.
    fn queued(&self) -> i32;

    /// sendmsg(): the bytes sent.
    fn send(&self, request: &mut SendRequest<'_>) -> Result<usize>;
}

/// Makes the Rust half of a socket: its address, or an error as by ERR_PTR().
///
/// # Safety
///
/// `sk` is a new socket in the namespace `net`.
pub(crate) unsafe fn create<T: SockState>(
    sk: *mut bindings::sock,
    net: *mut bindings::net,
) -> *mut c_void {
    // SAFETY: By the requirement; `Sock` is a transparent wrapper.
    let sk: ARef<Sock> = unsafe { &*sk.cast::<Sock>() }.into();
    // SAFETY: By the requirement; a socket holds a reference to its namespace.
    let net = unsafe { Net::from_raw(NonNull::new_unchecked(net)) };
    match KBox::try_pin_init(T::new(sk, net), GFP_KERNEL) {
        Ok(state) => state.into_foreign(),
        // CAST: ERR_PTR().
        Err(e) => e.to_errno() as isize as *mut c_void,
    }
}

/// Frees the Rust half of a socket.
///
/// # Safety
///
/// `state` comes from [`create`] of the same type and is not used afterwards.
pub(crate) unsafe fn release<T: SockState>(state: *mut c_void) {
    // SAFETY: By the requirement.
    drop(unsafe { Pin::<KBox<T>>::from_foreign(state) });
}

/// Borrows the Rust half of a socket.
///
/// # Safety
///
/// `state` comes from [`create`] of the same type and is not released during `'a`.
pub(crate) unsafe fn borrow<'a, T: SockState>(state: *const c_void) -> Pin<&'a T> {
    // SAFETY: By the requirement of this function.
    unsafe { Pin::<KBox<T>>::borrow(state.cast_mut()) }
}

/// sendmsg() for the C half: the bytes sent, or a negative error number.
///
/// # Safety
///
/// As [`borrow`]; `send` describes the call.
pub(crate) unsafe fn send<T: ProtoOps>(
    state: *const c_void,
    send: *const bindings::superp_sock_send,
) -> isize {
    // SAFETY: By the requirement.
    let (state, mut request) = unsafe { (borrow::<T>(state), SendRequest(&*send)) };
    match state.send(&mut request) {
        // CAST: At most the largest message.
        Ok(sent) => sent as isize,
        Err(e) => e.to_errno() as isize,
    }
}

/// Makes a type that implements [`ProtoOps`] the Rust half of the family's sockets for messages.
/// Once in a module.
macro_rules! proto_ops {
    ($state:ty) => {
        const _: () = {
            use kernel::ffi::{c_int, c_uint, c_ulong, c_void};
            use $crate::kapi::{
                bindings,
                export::errno,
                sock::{self, Name, ProtoOps, SockState},
            };

            $crate::kapi::exported! {
                /// # Safety
                ///
                /// As [`sock::create`].
                fn superp_rust_sock_create(
                    sk: *mut bindings::sock,
                    net: *mut bindings::net,
                ) -> *mut c_void {
                    // SAFETY: By the requirement.
                    unsafe { sock::create::<$state>(sk, net) }
                }

                /// # Safety
                ///
                /// As [`sock::release`].
                fn superp_rust_sock_release(state: *mut c_void) {
                    // SAFETY: By the requirement.
                    unsafe { sock::release::<$state>(state) }
                }

                /// # Safety
                ///
                /// As [`sock::borrow`]; `name` is readable.
                fn superp_rust_sock_bind(state: *const c_void, name: *const Name) -> c_int {
                    // SAFETY: By the requirement.
                    errno(unsafe { sock::borrow::<$state>(state).bind(&*name) })
                }

                /// # Safety
                ///
                /// As [`sock::borrow`]; `name` is readable.
                fn superp_rust_sock_connect(state: *const c_void, name: *const Name) -> c_int {
                    // SAFETY: By the requirement.
                    errno(unsafe { sock::borrow::<$state>(state).connect(&*name) })
                }

                /// # Safety
                ///
                /// As [`sock::borrow`].
                fn superp_rust_sock_disconnect(state: *const c_void) {
                    // SAFETY: By the requirement.
                    unsafe { sock::borrow::<$state>(state) }.disconnect()
                }

                /// # Safety
                ///
                /// As [`sock::borrow`]; `name` is writable.
                fn superp_rust_sock_getname(
                    state: *const c_void,
                    peer: bool,
                    name: *mut Name,
                ) -> c_int {
                    // SAFETY: By the requirement.
                    errno(unsafe { sock::borrow::<$state>(state).name(peer, &mut *name) })
                }

                /// # Safety
                ///
                /// As [`sock::borrow`].
                fn superp_rust_sock_writable(state: *const c_void) -> bool {
                    // SAFETY: By the requirement.
                    unsafe { sock::borrow::<$state>(state) }.writable()
                }

                /// # Safety
                ///
                /// As [`sock::borrow`].
                fn superp_rust_sock_queued(state: *const c_void) -> c_int {
                    // SAFETY: By the requirement.
                    unsafe { sock::borrow::<$state>(state) }.queued()
                }

                /// # Safety
                ///
                /// As [`sock::borrow`].
                fn superp_rust_sock_ioctl(
                    state: *const c_void,
                    cmd: c_uint,
                    arg: c_ulong,
                ) -> c_int {
                    // SAFETY: By the requirement. `c_ulong` is `usize` in the kernel.
                    errno(unsafe { sock::borrow::<$state>(state) }.ioctl(cmd, arg))
                }

                /// # Safety
                ///
                /// As [`sock::send`].
                fn superp_rust_sock_send(
                    state: *const c_void,
                    send: *const bindings::superp_sock_send,
                ) -> isize {
                    // SAFETY: By the requirement.
                    unsafe { sock::send::<$state>(state, send) }
                }
            }
        };
    };
}

pub(crate) use proto_ops;
