// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Posting lists of requests.

use crate::attr::{
    RecvWr, SendWr, Sge, SUPERP_SEND_FENCE, SUPERP_SEND_IMM, SUPERP_SEND_INLINE,
    SUPERP_SEND_SIGNALED, SUPERP_SEND_SOLICITED,
};
use crate::lock;
use crate::queue::{Qp, Srq};
use libc::c_int;
use std::mem::offset_of;
use std::{ptr, slice};
use superp_verbs::uapi::{self, superp_sqe};
use superp_verbs::{Part, PostError, ReceiveRequest, WorkRequest, MAX_INLINE};

// The parts of a request are the program's list.
const _: () = assert!(
    size_of::<Part>() == size_of::<Sge>()
        && offset_of!(Part, addr) == offset_of!(Sge, addr)
        && offset_of!(Part, length) == offset_of!(Sge, length)
        && offset_of!(Part, key) == offset_of!(Sge, lkey)
);

/// The local bytes of a request, or an errno value.
///
/// # Safety
///
/// The list has as many entries as is said, for as long as they are used.
unsafe fn parts<'a>(list: *const Sge, count: c_int) -> Result<&'a [Part], c_int> {
    match usize::try_from(count) {
        Ok(0) => Ok(&[]),
        // SAFETY: By the contract of this function; both types are the same words.
        Ok(count) if !list.is_null() => Ok(unsafe { slice::from_raw_parts(list.cast(), count) }),
        _ => Err(libc::EINVAL),
    }
}

/// The bytes of an inline request.
///
/// # Safety
///
/// They are readable memory of the program, for as long as they are used.
unsafe fn inline(parts: &[Part]) -> Result<impl Iterator<Item = &[u8]>, c_int> {
    let length: u64 = parts.iter().map(|part| u64::from(part.length)).sum();
    if length > MAX_INLINE.into() {
        return Err(libc::EMSGSIZE);
    }
    let parts = parts.iter().filter(|part| part.length > 0);
    Ok(parts.map(|part| {
        let from = ptr::with_exposed_provenance::<u8>(part.addr as usize);
        // SAFETY: By the contract of this function.
        unsafe { slice::from_raw_parts(from, part.length as usize) }
    }))
}

/// # Safety
///
/// What the request points to is valid for as long as it is used.
unsafe fn request<'a>(wr: &SendWr) -> Result<WorkRequest<'a>, c_int> {
    const FLAGS: u32 = SUPERP_SEND_SIGNALED
        | SUPERP_SEND_INLINE
        | SUPERP_SEND_IMM
        | SUPERP_SEND_FENCE
        | SUPERP_SEND_SOLICITED;
    if wr.send_flags & !FLAGS != 0 {
        return Err(libc::EINVAL);
    }
    // SAFETY: By the contract of this function.
    let parts = unsafe { parts(wr.sg_list, wr.num_sge) }?;
    let mut flags = 0;
    if wr.send_flags & SUPERP_SEND_SIGNALED != 0 {
        flags |= uapi::SUPERP_SQE_SIGNALED;
    }
    if wr.send_flags & SUPERP_SEND_FENCE != 0 {
        flags |= uapi::SUPERP_SQE_FENCE;
    }
    if wr.send_flags & SUPERP_SEND_SOLICITED != 0 {
        flags |= uapi::SUPERP_SQE_SOLICITED;
    }
    let mut imm = 0;
    if wr.send_flags & SUPERP_SEND_IMM != 0 {
        flags |= uapi::SUPERP_SQE_IMM;
        imm = wr.imm_data;
    }
    let entry = superp_sqe {
        opcode: u8::try_from(wr.opcode).map_err(|_| libc::EINVAL)?,
        flags,
        token: wr.wr_id,
        remote_addr: wr.remote_addr,
        imm,
        operand: wr.operand,
        compare: wr.compare,
        ..Default::default()
    };
    let request = WorkRequest::from_entry(entry);
    if wr.send_flags & SUPERP_SEND_INLINE == 0 {
        return Ok(request.local(parts));
    }
    // SAFETY: By the contract of this function.
    Ok(request.inline_pieces(unsafe { inline(parts) }?))
}

/// A list of requests, up to the first that is none.
///
/// # Safety
///
/// Each `next` is valid or NULL, and `convert` may be called on each element.
unsafe fn walk<W, R>(
    first: *mut W,
    next: fn(&W) -> *mut W,
    convert: unsafe fn(&W) -> Result<R, c_int>,
    wrong: &mut c_int,
) -> impl Iterator<Item = R> + use<'_, W, R> {
    let mut at = first;
    std::iter::from_fn(move || {
        // SAFETY: By the contract of this function.
        let wr = unsafe { at.as_ref() }?;
        // SAFETY: As above.
        match unsafe { convert(wr) } {
            Ok(request) => {
                at = next(wr);
                Some(request)
            }
            Err(errno) => {
                *wrong = errno;
                at = ptr::null_mut();
                None
            }
        }
    })
}

/// Says how far a list got. All were posted if neither the ring nor an element stopped it.
///
/// # Safety
///
/// The list is valid, and so is the place if it is not NULL.
unsafe fn tell<W>(
    posted: Result<(), PostError>,
    wrong: c_int,
    first: *mut W,
    next: fn(&W) -> *mut W,
    valid: unsafe fn(&W) -> bool,
    bad: *mut *mut W,
) -> c_int {
    let (errno, count) = match posted {
        Ok(()) if wrong == 0 => return 0,
        Ok(()) => (wrong, usize::MAX),
        Err(error) => (error.error.errno(), error.posted),
    };
    // SAFETY: By the contract of this function.
    unsafe {
        if let Some(place) = bad.as_mut() {
            let mut at = first;
            for _ in 0..count {
                match at.as_ref() {
                    Some(wr) if valid(wr) => at = next(wr),
                    _ => break,
                }
            }
            *place = at;
        }
    }
    errno
}

unsafe fn receive<'a>(wr: &RecvWr) -> Result<ReceiveRequest<'a>, c_int> {
    // SAFETY: By the contract of the header.
    let parts = unsafe { parts(wr.sg_list, wr.num_sge) }?;
    Ok(ReceiveRequest::new(parts).token(wr.wr_id))
}

unsafe fn is_request(wr: &SendWr) -> bool {
    // SAFETY: By the contract of the header.
    unsafe { request(wr) }.is_ok()
}

unsafe fn is_receive(wr: &RecvWr) -> bool {
    // SAFETY: By the contract of the header.
    unsafe { receive(wr) }.is_ok()
}

#[no_mangle]
pub unsafe extern "C" fn superp_post_send(
    qp: *mut Qp,
    wr: *mut SendWr,
    bad_wr: *mut *mut SendWr,
) -> c_int {
    let mut wrong = 0;
    // SAFETY: By the contract of the header.
    unsafe {
        let list = walk(wr, |wr| wr.next, request, &mut wrong);
        let posted = lock(&(*qp).send).post(list);
        tell(posted, wrong, wr, |wr| wr.next, is_request, bad_wr)
    }
}

#[no_mangle]
pub unsafe extern "C" fn superp_post_recv(
    qp: *mut Qp,
    wr: *mut RecvWr,
    bad_wr: *mut *mut RecvWr,
) -> c_int {
    let mut wrong = 0;
    // SAFETY: By the contract of the header.
    unsafe {
        let list = walk(wr, |wr| wr.next, receive, &mut wrong);
        let posted = lock(&(*qp).receive).post(list);
        tell(posted, wrong, wr, |wr| wr.next, is_receive, bad_wr)
    }
}

#[no_mangle]
pub unsafe extern "C" fn superp_post_srq_recv(
    srq: *mut Srq,
    wr: *mut RecvWr,
    bad_wr: *mut *mut RecvWr,
) -> c_int {
    let mut wrong = 0;
    // SAFETY: By the contract of the header.
    unsafe {
        let list = walk(wr, |wr| wr.next, receive, &mut wrong);
        let posted = lock(&(*srq).queue).post(list);
        tell(posted, wrong, wr, |wr| wr.next, is_receive, bad_wr)
    }
}
