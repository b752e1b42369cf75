// SPDX-License-Identifier: GPL-2.0

//! Sockets of the address family. Safe Rust over `sock.c`.

use core::{mem, pin::Pin, ptr, ptr::NonNull};

use kernel::{
    ffi::c_void,
    prelude::*,
    sync::{
        aref::{ARef, AlwaysRefCounted},
        atomic::{Acquire, Atomic, Full},
        rcu,
    },
    transmute::{AsBytes, FromBytes},
    types::{ForeignOwnable, Opaque},
};

use super::{bindings, errno::enobufs, msg::read_name, net::Net, skb::SkBuff};

pub(crate) use super::msg::{ControlMessage, Received, SendRequest};

pub(crate) use bindings::{
    sockaddr_superp as Name, superp_atomic as AtomicRma, superp_completion as CompletionRecord,
    superp_key as Key, superp_mr_dereg as MrDereg, superp_mr_info as MrInfo,
    superp_mr_reg as MrReg, superp_qp_info as QpInfo, superp_rma as Rma, superp_sock_meta as Meta,
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

// SAFETY: The type consists of integers and arrays of them, so all bytes are valid.
unsafe impl FromBytes for Name {}
// SAFETY: The sum of the fields is the size of the type (asserted below), so there is no padding.
unsafe impl AsBytes for Name {}
// SAFETY: The sum of the fields is the size of the type (asserted below), so there is no padding.
unsafe impl AsBytes for CompletionRecord {}
// SAFETY: The sum of the fields is the size of the type (asserted below), so there is no padding.
unsafe impl AsBytes for Key {}
// SAFETY: The type consists of integers, so all bytes are valid.
unsafe impl FromBytes for Key {}
// SAFETY: The type consists of integers, so all bytes are valid.
unsafe impl FromBytes for Rma {}
// SAFETY: The type consists of integers, so all bytes are valid.
unsafe impl FromBytes for AtomicRma {}

// The sums of the fields: the types have no padding.
const _: () = {
    assert!(mem::size_of::<MrReg>() == 40);
    assert!(mem::size_of::<MrInfo>() == 56);
    assert!(mem::size_of::<MrDereg>() == 8);
    assert!(mem::size_of::<QpInfo>() == 24);
    assert!(mem::size_of::<Name>() == 28);
    assert!(mem::size_of::<CompletionRecord>() == 24);
    assert!(mem::size_of::<Key>() == 16);
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

    /// Network namespace of the socket. Any context.
    pub(crate) fn net(&self) -> &Net {
        // SAFETY: `self` is a valid socket.
        let net = unsafe { bindings::superp_sock_net(self.as_ptr()) };
        // SAFETY: Every socket has a namespace.
        let net = unsafe { NonNull::new_unchecked(net) };
        // SAFETY: RCU frees the socket, and only then it drops its reference to the namespace. So
        // the namespace stays as long as the reference to the socket.
        unsafe { Net::from_raw(net) }
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

    /// Whether SO_RCVBUF is full, so that a message would be refused. `parts`: memory of messages
    /// to the socket that are not complete, in bytes. Any context.
    pub(crate) fn full(&self, parts: usize) -> bool {
        // SAFETY: `self` is a valid socket.
        unsafe { bindings::superp_sock_full(self.as_ptr(), parts) }
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

    /// Wakes senders, because there is space again. Any context up to softirq.
    pub(crate) fn write_space(&self) {
        // SAFETY: `self` is a valid socket.
        unsafe { bindings::superp_sock_write_space(self.as_ptr()) }
    }

    /// Appends a message to the receive queue. [`ProtoOps::received`] gets `meta` back. Any context
    /// up to softirq.
    ///
    /// # Errors
    ///
    /// - `ENOBUFS`: SO_RCVBUF is full.
    /// - `ESHUTDOWN`: receiving has been shut down.
    pub(crate) fn deliver(&self, _: &rcu::Guard, message: SkBuff, meta: &Meta) -> Result {
        // SAFETY: `self` is a valid socket. The callee takes ownership of the message.
        kernel::error::to_result(unsafe {
            bindings::superp_sock_deliver(self.as_ptr(), message.into_raw().cast(), meta)
        })
    }

    /// Appends a completion to the error queue, in an empty buffer. recvmsg() returns it as a
    /// control message. Any context up to softirq.
    pub(crate) fn complete<T: AsBytes>(
        &self,
        _: &rcu::Guard,
        buffer: SkBuff,
        level: i32,
        kind: i32,
        record: &T,
    ) {
        const {
            assert!(mem::size_of::<T>() <= bindings::SUPERP_SOCK_COMPLETION_MAX as usize);
        }
        // SAFETY: `self` is a valid socket. The callee takes ownership of the buffer, and reads the
        // bytes of `record`. CAST: The assertion above bounds the size.
        unsafe {
            bindings::superp_sock_complete(
                self.as_ptr(),
                buffer.into_raw().cast(),
                level,
                kind,
                ptr::from_ref(record).cast(),
                mem::size_of::<T>() as u32,
            )
        }
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

/// The registration of the address family.
pub(crate) struct Registration(());

impl Registration {
    /// Registers the family. Process context. An error is also logged.
    ///
    /// # Errors
    ///
    /// - `EINVAL`: the number is out of range.
    /// - `EEXIST`: the number is in use.
    /// - `ENOMEM`
    ///
    /// # Safety
    ///
    /// There is no other value of this type. A [`super::net::Registration`] exists, and is dropped
    /// after the result.
    pub(super) unsafe fn new(family: i32) -> Result<Registration> {
        // SAFETY: By this function's contract the family is not registered.
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
    fn new(sk: ARef<Sock>, net: &Net) -> impl PinInit<Self, Error>;

    /// Handles ioctl(). Process context.
    ///
    /// # Errors
    ///
    /// - `ENOIOCTLCMD`: `cmd` is not for this type of socket.
    /// - `EFAULT`: the argument cannot be accessed.
    /// - Others as documented with the commands.
    fn ioctl(&self, cmd: u32, arg: usize) -> Result;
}

/// Writes an address for the user. Returns its length.
///
/// # Safety
///
/// `to` is a `struct sockaddr_storage`.
unsafe fn write_name<N: AsBytes>(to: *mut c_void, name: &N) -> i32 {
    const {
        assert!(mem::size_of::<N>() <= 128);
    }
    let bytes = name.as_bytes();
    // SAFETY: By this function's contract `to` has 128 bytes, and the name is not longer.
    unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), to.cast::<u8>(), bytes.len()) };
    // CAST: At most 128.
    bytes.len() as i32
}

/// Operations of SOCK_SEQPACKET sockets, as in `struct proto_ops`. [`proto_ops`] registers the type
/// that implements this trait. Process context, unless a method says otherwise.
pub(crate) trait ProtoOps: SockState {
    /// The family's `struct sockaddr`, without padding and with the family first.
    type Name: AsBytes + FromBytes;

    /// Handles bind(). The C half has checked only the length of the address.
    fn bind(&self, name: &Self::Name) -> Result;

    /// Handles connect(). The C half has checked only the length of the address.
    fn connect(&self, name: &Self::Name) -> Result;

    /// Handles connect() to `AF_UNSPEC`.
    fn disconnect(&self);

    /// Handles getsockname() or, if `peer`, getpeername().
    fn name(&self, peer: bool) -> Result<Self::Name>;

    /// Returns what recvmsg() returns beside the bytes of the message: its sender's address, and
    /// control messages. `meta` is what [`Sock::deliver`] got.
    fn received(&self, meta: &Meta, reply: &mut Received<'_>) -> Self::Name;

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
    // SAFETY: By this function's contract `net` is the namespace of the socket, which holds it, and
    // `sk` holds the socket.
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

/// Calls [`ProtoOps::bind`] for the C half.
///
/// # Safety
///
/// The requirements are those of [`borrow`]; `name` is valid for reads of `len` bytes.
pub(crate) unsafe fn bind<T: ProtoOps>(
    state: *const c_void,
    name: *const c_void,
    len: i32,
) -> Result {
    // SAFETY: The caller meets the requirements.
    let (state, name) = unsafe { (borrow::<T>(state), read_name(name, len)?) };
    state.bind(&name)
}

/// Calls [`ProtoOps::connect`] for the C half.
///
/// # Safety
///
/// The requirements are those of [`bind`].
pub(crate) unsafe fn connect<T: ProtoOps>(
    state: *const c_void,
    name: *const c_void,
    len: i32,
) -> Result {
    // SAFETY: The caller meets the requirements.
    let (state, name) = unsafe { (borrow::<T>(state), read_name(name, len)?) };
    state.connect(&name)
}

/// Calls [`ProtoOps::name`] for the C half. Returns the length of the address, or a negative errno.
///
/// # Safety
///
/// The requirements are those of [`borrow`]; `name` is a `struct sockaddr_storage`.
pub(crate) unsafe fn getname<T: ProtoOps>(
    state: *const c_void,
    peer: bool,
    name: *mut c_void,
) -> i32 {
    // SAFETY: The caller meets the requirements of `borrow`.
    match unsafe { borrow::<T>(state) }.name(peer) {
        // SAFETY: By this function's contract.
        Ok(own) => unsafe { write_name(name, &own) },
        Err(e) => e.to_errno(),
    }
}

/// Calls [`ProtoOps::received`] for the C half. Returns the length of the address.
///
/// # Safety
///
/// The requirements are those of [`borrow`]. `msg` is the header of a recvmsg() call, and nobody
/// else uses it meanwhile. `meta` is valid for reads. `name` is null or a
/// `struct sockaddr_storage`.
pub(crate) unsafe fn received<T: ProtoOps>(
    state: *const c_void,
    msg: *mut bindings::msghdr,
    meta: *const Meta,
    name: *mut c_void,
) -> i32 {
    // SAFETY: By this function's contract.
    let (state, msg, meta) = unsafe { (borrow::<T>(state), &mut *msg, &*meta) };
    let sender = state.received(meta, &mut Received { msg });
    if name.is_null() {
        return 0;
    }
    // SAFETY: By this function's contract.
    unsafe { write_name(name, &sender) }
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
                sock::{self, ProtoOps, SockState},
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
                /// The requirements are those of [`sock::bind`].
                fn superp_rust_sock_bind(
                    state: *const c_void,
                    name: *const c_void,
                    len: c_int,
                ) -> c_int {
                    // SAFETY: The caller meets the requirements of `sock::bind`.
                    errno(unsafe { sock::bind::<$state>(state, name, len) })
                }

                /// # Safety
                ///
                /// The requirements are those of [`sock::connect`].
                fn superp_rust_sock_connect(
                    state: *const c_void,
                    name: *const c_void,
                    len: c_int,
                ) -> c_int {
                    // SAFETY: The caller meets the requirements of `sock::connect`.
                    errno(unsafe { sock::connect::<$state>(state, name, len) })
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
                /// The requirements are those of [`sock::getname`].
                fn superp_rust_sock_getname(
                    state: *const c_void,
                    peer: bool,
                    name: *mut c_void,
                ) -> c_int {
                    // SAFETY: The caller meets the requirements of `sock::getname`.
                    unsafe { sock::getname::<$state>(state, peer, name) }
                }

                /// # Safety
                ///
                /// The requirements are those of [`sock::received`].
                fn superp_rust_sock_received(
                    state: *const c_void,
                    msg: *mut bindings::msghdr,
                    meta: *const sock::Meta,
                    name: *mut c_void,
                ) -> c_int {
                    // SAFETY: The caller meets the requirements of `sock::received`.
                    unsafe { sock::received::<$state>(state, msg, meta, name) }
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
