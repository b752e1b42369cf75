// SPDX-License-Identifier: GPL-2.0 OR MIT
//! System calls with typed arguments; interrupted ones are repeated.

use crate::uapi::{
    self, sockaddr_superp, superp_atomic, superp_completion, superp_key, superp_rma,
};
use std::io::{Error, ErrorKind, Result};
use std::mem::{self, size_of};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr;

/// The result of a call that says failure by -1 and `errno`.
fn checked(mut call: impl FnMut() -> libc::ssize_t) -> Result<usize> {
    loop {
        match usize::try_from(call()) {
            Ok(result) => return Ok(result),
            Err(_) => {
                let error = Error::last_os_error();
                if error.kind() != ErrorKind::Interrupted {
                    return Err(error);
                }
            }
        }
    }
}

fn checked_int(mut call: impl FnMut() -> libc::c_int) -> Result<usize> {
    checked(|| call() as libc::ssize_t)
}

/// socket(2) of a family and type.
pub(crate) fn socket(family: u16, kind: libc::c_int) -> Result<OwnedFd> {
    let kind = kind | libc::SOCK_CLOEXEC;
    // SAFETY: No pointers.
    let fd = unsafe { libc::socket(family.into(), kind, 0) };
    if fd < 0 {
        return Err(Error::last_os_error());
    }
    // SAFETY: It was made just now and is nobody else's.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

const NAME_LEN: libc::socklen_t = size_of::<sockaddr_superp>() as libc::socklen_t;

/// bind(2).
pub(crate) fn bind(fd: BorrowedFd<'_>, name: &sockaddr_superp) -> Result<()> {
    let name: *const sockaddr_superp = name;
    // SAFETY: The name is valid for its length.
    checked_int(|| unsafe { libc::bind(fd.as_raw_fd(), name.cast(), NAME_LEN) }).map(drop)
}

/// connect(2).
pub(crate) fn connect(fd: BorrowedFd<'_>, name: &sockaddr_superp) -> Result<()> {
    let name: *const sockaddr_superp = name;
    // SAFETY: The name is valid for its length.
    checked_int(|| unsafe { libc::connect(fd.as_raw_fd(), name.cast(), NAME_LEN) }).map(drop)
}

/// getsockname(2).
pub(crate) fn local_name(fd: BorrowedFd<'_>) -> Result<sockaddr_superp> {
    let mut name = sockaddr_superp::default();
    let place: *mut sockaddr_superp = &mut name;
    let mut len = NAME_LEN;
    // SAFETY: The place is valid for its length, and any bytes are a name.
    checked_int(|| unsafe { libc::getsockname(fd.as_raw_fd(), place.cast(), &mut len) })?;
    Ok(name)
}

/// shutdown(2) of one side.
pub(crate) fn shutdown(fd: BorrowedFd<'_>, side: libc::c_int) -> Result<()> {
    // SAFETY: No pointers.
    checked_int(|| unsafe { libc::shutdown(fd.as_raw_fd(), side) }).map(drop)
}

/// fcntl(2): whether calls wait.
pub(crate) fn set_nonblocking(fd: BorrowedFd<'_>, on: bool) -> Result<()> {
    // SAFETY: No pointers.
    let flags = checked_int(|| unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GETFL) })?;
    let flags = match on {
        true => flags as libc::c_int | libc::O_NONBLOCK,
        false => flags as libc::c_int & !libc::O_NONBLOCK,
    };
    // SAFETY: No pointers.
    checked_int(|| unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETFL, flags) }).map(drop)
}

/// send(2).
pub(crate) fn send(fd: BorrowedFd<'_>, bytes: &[u8]) -> Result<usize> {
    let flags = libc::MSG_NOSIGNAL;
    let data = bytes.as_ptr().cast();
    // SAFETY: The bytes are valid for the call.
    checked(|| unsafe { libc::send(fd.as_raw_fd(), data, bytes.len(), flags) })
}

/// send(2) of nothing: the doorbell of a context; `more`: MSG_MORE.
pub(crate) fn doorbell(fd: BorrowedFd<'_>, more: bool) -> Result<()> {
    let flags = if more { libc::MSG_MORE } else { 0 };
    // SAFETY: Nothing is read from the null pointer: the length is 0.
    checked(|| unsafe { libc::send(fd.as_raw_fd(), ptr::null(), 0, flags) }).map(drop)
}

/// An empty message header.
fn header() -> libc::msghdr {
    // SAFETY: Zero is a valid value of every field.
    unsafe { mem::zeroed() }
}

/// What recvmsg(2) gives.
pub(crate) struct Message {
    pub(crate) len: usize,
    pub(crate) flags: i32,
    pub(crate) name: sockaddr_superp,
    pub(crate) imm: Option<u32>,
    pub(crate) placed: Option<superp_key>,
}

/// recvmsg(2).
pub(crate) fn receive(fd: BorrowedFd<'_>, bytes: &mut [u8]) -> Result<Message> {
    let mut control = Control([0; 128]);
    let mut name = sockaddr_superp::default();
    let mut part = libc::iovec {
        iov_base: bytes.as_mut_ptr().cast(),
        iov_len: bytes.len(),
    };
    let mut message = header();
    let mut flags = 0;
    let len = checked(|| {
        message.msg_name = ptr::from_mut(&mut name).cast();
        message.msg_namelen = NAME_LEN;
        message.msg_iov = &mut part;
        message.msg_iovlen = 1;
        message.msg_control = control.0.as_mut_ptr().cast();
        message.msg_controllen = control.0.len() as _;
        // SAFETY: All that the header points to is valid for its length; any bytes are a name.
        let len = unsafe { libc::recvmsg(fd.as_raw_fd(), &mut message, 0) };
        flags = message.msg_flags;
        len
    })?;
    // SAFETY: The kernel has filled the control buffer and set its length.
    let (imm, placed) = unsafe {
        let imm = find(&message, uapi::SUPERP_CMSG_IMM);
        (imm, find(&message, uapi::SUPERP_CMSG_KEY))
    };
    Ok(Message {
        len,
        flags,
        name,
        imm,
        placed,
    })
}

/// The payload of the first control message of this kind.
///
/// # Safety
///
/// recvmsg(2) has filled in the message; its control buffer is valid.
unsafe fn find<T: Copy>(message: &libc::msghdr, kind: i32) -> Option<T> {
    // SAFETY: A header is inside the control buffer, and so is its payload if the length says so; any
    // bytes are a value of the integers and structs that the kernel gives.
    unsafe {
        let mut at = libc::CMSG_FIRSTHDR(message);
        while let Some(found) = at.as_ref() {
            if found.cmsg_level == uapi::SOL_SUPERP
                && found.cmsg_type == kind
                && found.cmsg_len >= libc::CMSG_LEN(size_of::<T>() as u32) as _
            {
                return Some(ptr::read_unaligned(libc::CMSG_DATA(at).cast()));
            }
            at = libc::CMSG_NXTHDR(message, at);
        }
    }
    None
}

/// Room for control messages, aligned as their header.
#[repr(C, align(8))]
struct Control([u8; 128]);

impl Control {
    /// Puts a control message behind those of `at` bytes; gives the bytes of all. There is room for
    /// one of 64 bytes and one of 4.
    fn put<T: Copy>(&mut self, at: usize, kind: i32, payload: &T) -> usize {
        const { assert!(size_of::<T>() <= 64) };
        let len = size_of::<T>() as u32;
        let mut message = header();
        let room = &mut self.0[at..];
        message.msg_control = room.as_mut_ptr().cast();
        message.msg_controllen = room.len() as _;
        // SAFETY: A computation. The sum fits: 16 + 64 bytes.
        let space = unsafe { libc::CMSG_SPACE(len) } as usize;
        assert!(space <= room.len());
        // SAFETY: The room is for one header and the payload behind it, as was checked, and as
        // aligned as the whole: all before it are of multiples of 8 bytes.
        unsafe {
            let first = libc::CMSG_FIRSTHDR(&message);
            (*first).cmsg_level = uapi::SOL_SUPERP;
            (*first).cmsg_type = kind;
            (*first).cmsg_len = libc::CMSG_LEN(len) as _;
            ptr::write_unaligned(libc::CMSG_DATA(first).cast(), *payload);
        }
        at + space
    }
}

/// sendmsg(2) of a request, with immediate data if there is any.
pub(crate) fn request(fd: BorrowedFd<'_>, rma: &superp_rma, imm: Option<u32>) -> Result<()> {
    let rma = (uapi::SUPERP_CMSG_RMA, rma);
    send_control(fd, &[], Some(rma), imm).map(drop)
}

/// sendmsg(2) of an atomic operation.
pub(crate) fn atomic(fd: BorrowedFd<'_>, atomic: &superp_atomic, imm: Option<u32>) -> Result<()> {
    let atomic = (uapi::SUPERP_CMSG_ATOMIC, atomic);
    send_control(fd, &[], Some(atomic), imm).map(drop)
}

/// sendmsg(2) of a message with immediate data.
pub(crate) fn send_imm(fd: BorrowedFd<'_>, bytes: &[u8], imm: u32) -> Result<usize> {
    send_control::<u32>(fd, bytes, None, Some(imm))
}

/// sendmsg(2) of a message to a receive context.
pub(crate) fn send_key(fd: BorrowedFd<'_>, bytes: &[u8], key: &superp_key) -> Result<usize> {
    send_control(fd, bytes, Some((uapi::SUPERP_CMSG_KEY, key)), None)
}

/// sendmsg(2) with a request as a control message of this type, and with immediate data.
fn send_control<T: Copy>(
    fd: BorrowedFd<'_>,
    bytes: &[u8],
    request: Option<(i32, &T)>,
    imm: Option<u32>,
) -> Result<usize> {
    let mut control = Control([0; 128]);
    let mut len = 0;
    if let Some((kind, request)) = request {
        len = control.put(len, kind, request);
    }
    if let Some(imm) = imm {
        len = control.put(len, uapi::SUPERP_CMSG_IMM, &imm);
    }
    let mut part = libc::iovec {
        iov_base: bytes.as_ptr().cast_mut().cast(),
        iov_len: bytes.len(),
    };
    let mut message = header();
    message.msg_iov = &mut part;
    message.msg_iovlen = 1;
    message.msg_control = control.0.as_mut_ptr().cast();
    message.msg_controllen = len as _;
    let flags = libc::MSG_NOSIGNAL;
    // SAFETY: All that the header points to is valid for its length, and only read.
    checked(|| unsafe { libc::sendmsg(fd.as_raw_fd(), &message, flags) })
}

/// recvmsg(2) from the error queue, without waiting. `None`: it is empty.
pub(crate) fn completion(fd: BorrowedFd<'_>) -> Result<Option<superp_completion>> {
    let mut control = Control([0; 128]);
    let mut message = header();
    let flags = libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT;
    let received = checked(|| {
        message.msg_control = control.0.as_mut_ptr().cast();
        message.msg_controllen = control.0.len() as _;
        // SAFETY: All that the header points to is valid for its length.
        unsafe { libc::recvmsg(fd.as_raw_fd(), &mut message, flags) }
    });
    match received {
        Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
        received => received?,
    };
    // SAFETY: The kernel has filled the control buffer and set its length.
    let completion = unsafe { find(&message, uapi::SUPERP_CMSG_COMPLETION) };
    completion.map(Some).ok_or_else(|| {
        Error::new(
            ErrorKind::InvalidData,
            "no completion in the error queue's message",
        )
    })
}

/// An argument of the family's ioctls.
pub(crate) trait Argument: Copy {
    /// The command that takes it.
    const COMMAND: u64;
}

macro_rules! arguments {
    ($($name:ident $command:ident,)*) => {
        $(impl Argument for uapi::$name {
            const COMMAND: u64 = uapi::$command;
        })*
    };
}

arguments! {
    superp_mr_reg SUPERP_IOC_MR_REG,
    superp_mr_info SUPERP_IOC_MR_QUERY,
    superp_mr_dereg SUPERP_IOC_MR_DEREG,
    superp_qp_info SUPERP_IOC_QP_INFO,
    superp_cq_create SUPERP_IOC_CQ_CREATE,
    superp_rqp_create SUPERP_IOC_RQP_CREATE,
    superp_srq_create SUPERP_IOC_SRQ_CREATE,
    superp_rqp_connect SUPERP_IOC_RQP_CONNECT,
    superp_rqp_modify SUPERP_IOC_RQP_MODIFY,
    superp_cq_eventfd SUPERP_IOC_CQ_EVENTFD,
    superp_srq_eventfd SUPERP_IOC_SRQ_EVENTFD,
}

/// ioctl(2) that ends a queue: `SUPERP_IOC_CQ_DESTROY`, `SUPERP_IOC_RQP_DESTROY` or
/// `SUPERP_IOC_SRQ_DESTROY`.
pub(crate) fn destroy(fd: BorrowedFd<'_>, command: u64, id: u32) -> Result<()> {
    let argument = uapi::superp_ring_destroy { id, rsvd: 0 };
    let argument: *const uapi::superp_ring_destroy = &argument;
    // SAFETY: Of the family's commands only those three have this struct's size, and they only read it;
    // any other number is refused.
    checked_int(|| unsafe { libc::ioctl(fd.as_raw_fd(), command as _, argument) }).map(drop)
}

/// ioctl(2).
pub(crate) fn ioctl<T: Argument>(fd: BorrowedFd<'_>, argument: &mut T) -> Result<()> {
    let argument: *mut T = argument;
    // SAFETY: The number says which struct the kernel reads and writes, and it is this one; any bytes
    // are a valid value of it.
    checked_int(|| unsafe { libc::ioctl(fd.as_raw_fd(), T::COMMAND as _, argument) }).map(drop)
}

/// ioctl(2) `SUPERP_IOC_SERVE`; a signal ends it.
pub(crate) fn serve(fd: BorrowedFd<'_>, usec: u32) -> Result<()> {
    let argument = uapi::superp_serve { usec, rsvd: 0 };
    let argument: *const uapi::superp_serve = &argument;
    // SAFETY: Of the family's commands only this one has the number, and it only reads the struct.
    match unsafe { libc::ioctl(fd.as_raw_fd(), uapi::SUPERP_IOC_SERVE as _, argument) } {
        0 => Ok(()),
        _ => Err(Error::last_os_error()),
    }
}

/// SO_ERROR: the pending error, which is taken. `Ok` without one.
pub(crate) fn pending_error(fd: BorrowedFd<'_>) -> Result<()> {
    let mut errno: libc::c_int = 0;
    let mut len = size_of::<libc::c_int>() as libc::socklen_t;
    let place: *mut libc::c_int = &mut errno;
    // SAFETY: The place is valid for its length.
    checked_int(|| unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ERROR,
            place.cast(),
            &mut len,
        )
    })?;
    match errno {
        0 => Ok(()),
        errno => Err(Error::from_raw_os_error(errno)),
    }
}

/// An integer option of SOL_SOCKET.
pub(crate) fn set_option(fd: BorrowedFd<'_>, option: i32, value: libc::c_int) -> Result<()> {
    let len = size_of::<libc::c_int>() as libc::socklen_t;
    let place: *const libc::c_int = &value;
    // SAFETY: The place is valid for its length.
    checked_int(|| unsafe {
        libc::setsockopt(fd.as_raw_fd(), libc::SOL_SOCKET, option, place.cast(), len)
    })
    .map(drop)
}

/// poll(2) of one descriptor: what is ready, 0 after `timeout` ms (-1: never) or when a signal came.
pub(crate) fn poll(fd: BorrowedFd<'_>, events: i16, timeout: i32) -> Result<i16> {
    let mut one = libc::pollfd {
        fd: fd.as_raw_fd(),
        events,
        revents: 0,
    };
    // SAFETY: One descriptor, valid for the call.
    if unsafe { libc::poll(&mut one, 1, timeout) } < 0 {
        let error = Error::last_os_error();
        if error.kind() != ErrorKind::Interrupted {
            return Err(error);
        }
        return Ok(0);
    }
    Ok(one.revents)
}
