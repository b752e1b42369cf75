// SPDX-License-Identifier: GPL-2.0

//! Sockets of the address family. Safe Rust over `sock.c`.

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

// SAFETY: The type consists of integers and arrays of them, so all bytes are valid.
unsafe impl FromBytes for MrReg {}
// SAFETY: The sum of the fields is the size of the type (asserted below), so there is no padding.
unsafe impl AsBytes for MrReg {}
// SAFETY: The type consists of integers and arrays of them, so all bytes are valid.
unsafe impl FromBytes for MrInfo {}
// SAFETY: The sum of the fields is the size of the type (asserted below), so there is no padding.
unsafe impl AsBytes for MrInfo {}
// SAFETY: The type consists of integers, so all bytes are valid.
unsafe impl FromBytes for MrDereg {}
// SAFETY: The sum of the fields is the size of the type (asserted below), so there is no padding.
unsafe impl AsBytes for QpInfo {}

// The sums of the fields: the types have no padding.
const _: () = {
    assert!(mem::size_of::<MrReg>() == 40);
    assert!(mem::size_of::<MrInfo>() == 56);
    assert!(mem::size_of::<MrDereg>() == 8);
    assert!(mem::size_of::<QpInfo>() == 24);
};

/// A `struct sock` of the family.
///
/// # Invariants
///
/// `superp_create()` created the socket: it is part of a `struct superp_sock`, and RCU frees it.
#[repr(transparent)]
pub(crate) struct Sock(Opaque<bindings::sock>);

// SAFETY: Processes and softirqs on all CPUs share a `struct sock`. The C half takes the locks that
// its members need.
unsafe impl Send for Sock {}
// SAFETY: Processes and softirqs on all CPUs share a `struct sock`. The C half takes the locks that
// its members need.
unsafe impl Sync for Sock {}

// SAFETY: `sk_refcnt` keeps the socket alive.
unsafe impl AlwaysRefCounted for Sock {
    fn inc_ref(&self) {
        // SAFETY: `&self` implies that the reference count is not 0.
        unsafe { bindings::superp_sock_hold(self.as_ptr()) }
    }

    unsafe fn dec_ref(obj: NonNull<Self>) {
        // SAFETY: By this function's contract the caller owns a reference, which it passes on.
        unsafe { bindings::superp_sock_put(obj.cast().as_ptr()) }
    }
}

impl Sock {
    pub(super) fn as_ptr(&self) -> *mut bindings::sock {
        self.0.get()
    }

    /// SO_SNDBUF in bytes. Any context.
    pub(crate) fn sndbuf(&self) -> isize {
        // SAFETY: `self` is a valid socket. CAST: The limit is positive and at most `i32::MAX`.
        unsafe { bindings::superp_sock_sndbuf(self.as_ptr()) as isize }
    }

    /// The user that created the socket, as the initial user namespace sees it. Any context.
    pub(crate) fn uid(&self) -> u32 {
        // SAFETY: `self` is a valid socket.
        unsafe { bindings::superp_sock_uid(self.as_ptr()) }
    }

    /// Whether SO_RCVBUF is full, so that a message would be refused. Any context.
    pub(crate) fn full(&self) -> bool {
        // SAFETY: `self` is a valid socket.
        unsafe { bindings::superp_sock_full(self.as_ptr()) }
    }

    /// Memory of the messages in the receive queue, in bytes. Any context.
    pub(crate) fn received(&self) -> u64 {
        // SAFETY: `self` is a valid socket.
        unsafe { bindings::superp_sock_received(self.as_ptr()) }.into()
    }

    /// Inode number of the socket; 0 once it is closed. Any context.
    pub(crate) fn inode(&self) -> u64 {
        // SAFETY: `self` is a valid socket.
        unsafe { bindings::superp_sock_inode(self.as_ptr()) }
    }

    /// Whether sending has been shut down. Any context.
    pub(crate) fn send_closed(&self) -> bool {
        // SAFETY: `self` is a valid socket.
        unsafe { bindings::superp_sock_send_closed(self.as_ptr()) }
    }

    /// Whether receiving has been shut down. Any context.
    pub(crate) fn recv_closed(&self) -> bool {
        // SAFETY: `self` is a valid socket.
        unsafe { bindings::superp_sock_recv_closed(self.as_ptr()) }
    }

    /// Number of completions in the error queue. Any context.
    pub(crate) fn completions(&self) -> u32 {
        // SAFETY: `self` is a valid socket.
        unsafe { bindings::superp_sock_error_queue_len(self.as_ptr()) }
    }

    /// Clears the pending error, and returns it if there was one. Process context.
    pub(crate) fn take_error(&self) -> Result {
        // SAFETY: `self` is a valid socket.
        kernel::error::to_result(unsafe { bindings::superp_sock_take_error(self.as_ptr()) })
    }

    /// The error of a send after shutdown. Raises SIGPIPE, unless `flags` (MSG_*) has
    /// MSG_NOSIGNAL. Process context.
    pub(crate) fn pipe_error(&self, flags: u32) -> Error {
        // SAFETY: `self` is a valid socket.
        Error::from_errno(unsafe { bindings::superp_sock_pipe_error(self.as_ptr(), flags) })
    }

    /// Sets the pending error and wakes all waiters. Any context up to softirq.
    pub(crate) fn set_error(&self, error: Error) {
        // SAFETY: `self` is a valid socket. Error numbers are below 4096, so the negation cannot
        // overflow.
        unsafe { bindings::superp_sock_set_error(self.as_ptr(), error.to_errno().wrapping_neg()) }
    }

    /// Marks the socket as bound, so that it can receive. Process context.
    pub(crate) fn set_bound(&self) {
        // SAFETY: `self` is a valid socket.
        unsafe { bindings::superp_sock_set_bound(self.as_ptr()) }
    }

    /// Time that a send may wait, in jiffies. Any context.
    pub(crate) fn send_timeout(&self, nonblock: bool) -> isize {
        // SAFETY: `self` is a valid socket.
        unsafe { bindings::superp_sock_sndtimeo(self.as_ptr(), nonblock) }
    }

    /// Sleeps until a send can continue or fails, at most `timeout` jiffies, from which it
    /// subtracts the time that it slept. Process context.
    ///
    /// # Errors
    ///
    /// - `EAGAIN`: the time is over.
    /// - `ERESTARTSYS`, `EINTR`: a signal is pending.
    pub(crate) fn wait_space(&self, timeout: &mut isize) -> Result {
        // SAFETY: `self` is a valid socket. Only methods of its own state call this function,
        // between `create` and `release`, so the C half has the state.
        kernel::error::to_result(unsafe {
            bindings::superp_sock_wait_space(self.as_ptr(), timeout)
        })
    }

    /// Wakes senders, because there is room again. Any context up to softirq.
    pub(crate) fn write_space(&self) {
        // SAFETY: `self` is a valid socket.
        unsafe { bindings::superp_sock_write_space(self.as_ptr()) }
    }

    /// Appends a message to the receive queue. Any context up to softirq.
    ///
    /// # Errors
    ///
    /// - `ENOBUFS`: SO_RCVBUF is full.
    /// - `ESHUTDOWN`: receiving has been shut down.
    pub(crate) fn deliver(&self, _: &rcu::Guard, message: SkBuff, from: &From) -> Result {
        // SAFETY: `self` is a valid socket. The callee takes ownership of the message.
        kernel::error::to_result(unsafe {
            bindings::superp_sock_deliver(self.as_ptr(), message.into_raw().cast(), from)
        })
    }

    /// Appends a completion to the error queue, in an empty buffer. Any context up to softirq.
    pub(crate) fn complete(&self, _: &rcu::Guard, buffer: SkBuff, record: &CompletionRecord) {
        // SAFETY: `self` is a valid socket. The callee takes ownership of the buffer.
        unsafe { bindings::superp_sock_complete(self.as_ptr(), buffer.into_raw().cast(), record) }
    }
}

/// A pointer from softirqs to a socket, which may be gone.
///
/// # Invariants
///
/// The pointer is null, or owns a reference to the socket.
pub(crate) struct RcuSock(Atomic<*mut bindings::sock>);

impl RcuSock {
    /// A pointer to `sk`.
    pub(crate) fn new(sk: ARef<Sock>) -> RcuSock {
        // INVARIANT: The pointer takes over the reference of `sk`.
        RcuSock(Atomic::new(ARef::into_raw(sk).cast().as_ptr()))
    }

    /// Calls `f` with the socket under RCU, if the pointer has not been cleared. `f` must not
    /// sleep. Any context up to softirq.
    pub(crate) fn with<R>(&self, f: impl FnOnce(&Sock, &rcu::Guard) -> R) -> Option<R> {
        let guard = rcu::read_lock();
        let sk = self.0.load(Acquire).cast::<Sock>();
        // SAFETY: `sk` is null or a socket. Its reference is dropped only after the pointer was
        // cleared, and RCU frees the socket, so it is valid while `guard` exists.
        let sk = unsafe { sk.as_ref() }?;
        Some(f(sk, &guard))
    }

    /// Whether the pointer has not been cleared. Any context.
    pub(crate) fn alive(&self) -> bool {
        !self.0.load(Acquire).is_null()
    }

    /// Clears the pointer and drops its reference. Process context.
    pub(crate) fn clear(&self) {
        if let Some(sk) = NonNull::new(self.0.xchg(ptr::null_mut(), Full)) {
            // SAFETY: By the type invariant the pointer owned a reference. The exchange passed it
            // to this function.
            drop(unsafe { ARef::<Sock>::from_raw(sk.cast()) });
        }
    }
}

impl Drop for RcuSock {
    fn drop(&mut self) {
        self.clear();
    }
}

/// A buffer that is allocated in advance, so that its later use cannot fail.
///
/// # Invariants
///
/// The pointer is null, or owns a buffer.
pub(crate) struct Reserve(Atomic<*mut c_void>);

impl Reserve {
    /// Allocates an empty buffer, charged to the memory cgroup of the calling process. Process
    /// context.
    ///
    /// # Errors
    ///
    /// `ENOMEM`
    pub(crate) fn new() -> Result<Reserve> {
        let skb = SkBuff::reserve().ok_or(ENOMEM)?;
        Ok(Reserve(Atomic::new(skb.into_raw().cast())))
    }

    /// Takes the buffer out. `None` if that was done before. Any context.
    pub(crate) fn take(&self) -> Option<SkBuff> {
        let skb = NonNull::new(self.0.xchg(ptr::null_mut(), Full))?;
        // SAFETY: By the type invariant the pointer owned a buffer. The exchange passed it to this
        // function.
        Some(unsafe { SkBuff::from_raw(skb.cast()) })
    }
}

impl Drop for Reserve {
    fn drop(&mut self) {
        self.take();
    }
}

/// The arguments of a sendmsg() call. The C half has checked their form.
pub(crate) struct SendRequest<'a>(&'a bindings::superp_sock_send);

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
    pub(crate) fn name(&self) -> Option<&Name> {
        self.0.has_name.then_some(&self.0.name)
    }

    /// The remote memory request, if there is one.
    pub(crate) fn rma(&self) -> Option<&Rma> {
        self.0.has_rma.then_some(&self.0.rma)
    }

    /// Operand and comparison value, if the request is an atomic operation.
    pub(crate) fn atomic(&self) -> Option<(u64, u64)> {
        self.0.atomic.then_some((self.0.operand, self.0.compare))
    }

    /// The receive context of the peer and the offset in it, if the message goes there.
    pub(crate) fn key(&self) -> Option<&'a Key> {
        self.0.has_key.then_some(&self.0.key)
    }

    /// The immediate data, if there is any.
    pub(crate) fn imm(&self) -> Option<u32> {
        self.0.has_imm.then_some(self.0.imm)
    }

    /// The data.
    pub(crate) fn data(&mut self) -> &mut IovIterSource<'a> {
        // SAFETY: In sendmsg() the iterator of a `struct msghdr` is a source. The call lends it for
        // `'a`, and `&mut self` makes this its only use.
        unsafe { IovIterSource::from_raw(self.0.data.cast()) }
    }
}

/// The registration of the address family.
pub(crate) struct Registration(());

impl Registration {
    /// Registers the family. Process context; called once, when the module is loaded, after the
    /// pernet operations are registered ([`super::net::Registration`]). An error is also logged.
    ///
    /// # Errors
    ///
    /// - `EINVAL`: the number is out of range.
    /// - `EEXIST`: the number is in use.
    /// - `ENOMEM`
    pub(crate) fn new(family: i32) -> Result<Registration> {
        // SAFETY: The module calls this function once.
        let result = kernel::error::to_result(unsafe { bindings::superp_sock_register(family) });
        match result {
            Ok(()) => Ok(Registration(())),
            Err(e) if e == enobufs() => {
                pr_err!(
                    "parameter family={} is out of range: 1 to {}\n",
                    family,
                    // SAFETY: `superp_sock_max_family()` returns a constant.
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
        // SAFETY: The family is registered. No socket exists, because each holds a reference to the
        // module.
        unsafe { bindings::superp_sock_unregister() }
    }
}

/// The Rust half of a socket, from create() to release().
pub(crate) trait SockState: Sized + Send + Sync + 'static {
    /// Creates the Rust half of socket `sk` in `net`. Process context.
    fn new(sk: ARef<Sock>, net: Net) -> impl PinInit<Self, Error>;

    /// Handles ioctl(). Process context.
    ///
    /// # Errors
    ///
    /// - `ENOIOCTLCMD`: `cmd` is not for this type of socket.
    /// - `EFAULT`: the argument cannot be accessed.
    /// - Others as documented with the commands.
    fn ioctl(&self, cmd: u32, arg: usize) -> Result;
}

/// Operations of SOCK_SEQPACKET sockets, as in `struct proto_ops`. [`proto_ops`] registers the type
/// that implements this trait. Process context, unless a method says otherwise.
pub(crate) trait ProtoOps: SockState {
    /// Handles bind().
    fn bind(&self, name: &Name) -> Result;

    /// Handles connect().
    fn connect(&self, name: &Name) -> Result;

    /// Handles connect() to `AF_UNSPEC`.
    fn disconnect(&self);

    /// Handles getsockname() or, if `peer`, getpeername(). Fills in all fields but the family.
    fn name(&self, peer: bool, name: &mut Name) -> Result;

    /// Whether a message can be sent without waiting. Any context.
    fn writable(&self) -> bool;

    /// Memory of the messages that have not completed, in bytes. Any context.
    fn queued(&self) -> i32;

    /// Handles sendmsg(). Returns the number of bytes sent.
    fn send(&self, request: &mut SendRequest<'_>) -> Result<usize>;
}

/// Creates the Rust half of a socket for the C half. Returns it, or an ERR_PTR.
///
/// # Safety
///
/// `sk` is a new socket of the family in namespace `net`.
pub(crate) unsafe fn create<T: SockState>(
    sk: *mut bindings::sock,
    net: *mut bindings::net,
) -> *mut c_void {
    // SAFETY: By this function's contract `sk` is a socket of the family. `Sock` is a transparent
    // wrapper.
    let sk: ARef<Sock> = unsafe { &*sk.cast::<Sock>() }.into();
    // SAFETY: By this function's contract `net` is the namespace of the socket, which holds it.
    let net = unsafe { Net::from_raw(NonNull::new_unchecked(net)) };
    match KBox::try_pin_init(T::new(sk, net), GFP_KERNEL_ACCOUNT) {
        Ok(state) => state.into_foreign(),
        // CAST: This is how ERR_PTR() encodes an error number.
        Err(e) => e.to_errno() as isize as *mut c_void,
    }
}

/// Frees the Rust half of a socket.
///
/// # Safety
///
/// `state` comes from [`create`] for the same `T`, and nobody uses it afterwards.
pub(crate) unsafe fn release<T: SockState>(state: *mut c_void) {
    // SAFETY: By this function's contract `state` comes from `into_foreign` and is not used again.
    drop(unsafe { Pin::<KBox<T>>::from_foreign(state) });
}

/// Borrows the Rust half of a socket.
///
/// # Safety
///
/// `state` comes from [`create`] for the same `T`, and is not released during `'a`.
pub(crate) unsafe fn borrow<'a, T: SockState>(state: *const c_void) -> Pin<&'a T> {
    // SAFETY: By this function's contract `state` comes from `into_foreign` and lives for `'a`.
    unsafe { Pin::<KBox<T>>::borrow(state.cast_mut()) }
}

/// Calls [`ProtoOps::send`] for the C half. Returns the number of bytes sent, or a negative errno.
///
/// # Safety
///
/// The requirements are those of [`borrow`]. `send` is valid for reads and describes the call.
pub(crate) unsafe fn send<T: ProtoOps>(
    state: *const c_void,
    send: *const bindings::superp_sock_send,
) -> isize {
    // SAFETY: The caller meets the requirements of `borrow`, and `send` is valid for reads.
    let (state, mut request) = unsafe { (borrow::<T>(state), SendRequest(&*send)) };
    match state.send(&mut request) {
        // CAST: The result is at most the length of the longest message.
        Ok(sent) => sent as isize,
        Err(e) => e.to_errno() as isize,
    }
}

/// Registers a type that implements [`ProtoOps`] as the Rust half of the family's SOCK_SEQPACKET
/// sockets. Used once in a module.
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
                /// The requirements are those of [`sock::create`].
                fn superp_rust_sock_create(
                    sk: *mut bindings::sock,
                    net: *mut bindings::net,
                ) -> *mut c_void {
                    // SAFETY: The caller meets the requirements of `sock::create`.
                    unsafe { sock::create::<$state>(sk, net) }
                }

                /// # Safety
                ///
                /// The requirements are those of [`sock::release`].
                fn superp_rust_sock_release(state: *mut c_void) {
                    // SAFETY: The caller meets the requirements of `sock::release`.
                    unsafe { sock::release::<$state>(state) }
                }

                /// # Safety
                ///
                /// The requirements are those of [`sock::borrow`]; `name` is valid for reads.
                fn superp_rust_sock_bind(state: *const c_void, name: *const Name) -> c_int {
                    // SAFETY: The caller meets the requirements of `sock::borrow`; `name` is valid.
                    errno(unsafe { sock::borrow::<$state>(state).bind(&*name) })
                }

                /// # Safety
                ///
                /// The requirements are those of [`sock::borrow`]; `name` is valid for reads.
                fn superp_rust_sock_connect(state: *const c_void, name: *const Name) -> c_int {
                    // SAFETY: The caller meets the requirements of `sock::borrow`; `name` is valid.
                    errno(unsafe { sock::borrow::<$state>(state).connect(&*name) })
                }

                /// # Safety
                ///
                /// The requirements are those of [`sock::borrow`].
                fn superp_rust_sock_disconnect(state: *const c_void) {
                    // SAFETY: The caller meets the requirements of `sock::borrow`.
                    unsafe { sock::borrow::<$state>(state) }.disconnect()
                }

                /// # Safety
                ///
                /// The requirements are those of [`sock::borrow`]; `name` is valid for writes.
                fn superp_rust_sock_getname(
                    state: *const c_void,
                    peer: bool,
                    name: *mut Name,
                ) -> c_int {
                    // SAFETY: The caller meets the requirements of `sock::borrow`; `name` is valid.
                    errno(unsafe { sock::borrow::<$state>(state).name(peer, &mut *name) })
                }

                /// # Safety
                ///
                /// The requirements are those of [`sock::borrow`].
                fn superp_rust_sock_writable(state: *const c_void) -> bool {
                    // SAFETY: The caller meets the requirements of `sock::borrow`.
                    unsafe { sock::borrow::<$state>(state) }.writable()
                }

                /// # Safety
                ///
                /// The requirements are those of [`sock::borrow`].
                fn superp_rust_sock_queued(state: *const c_void) -> c_int {
                    // SAFETY: The caller meets the requirements of `sock::borrow`.
                    unsafe { sock::borrow::<$state>(state) }.queued()
                }

                /// # Safety
                ///
                /// The requirements are those of [`sock::borrow`].
                fn superp_rust_sock_ioctl(
                    state: *const c_void,
                    cmd: c_uint,
                    arg: c_ulong,
                ) -> c_int {
                    // SAFETY: The caller meets the requirements of `sock::borrow`. `c_ulong` is
                    // `usize` in the kernel.
                    errno(unsafe { sock::borrow::<$state>(state) }.ioctl(cmd, arg))
                }

                /// # Safety
                ///
                /// The requirements are those of [`sock::send`].
                fn superp_rust_sock_send(
                    state: *const c_void,
                    send: *const bindings::superp_sock_send,
                ) -> isize {
                    // SAFETY: The caller meets the requirements of `sock::send`.
                    unsafe { sock::send::<$state>(state, send) }
                }
            }
        };
    };
}

pub(crate) use proto_ops;
