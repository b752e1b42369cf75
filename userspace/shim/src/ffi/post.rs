// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Posting.

use super::abi::*;
use super::context::Context;
use super::qp::Qp;
use super::srq::Srq;
use super::{lock, set_errno};
use crate::rules::Operation;
use libc::c_int;
use std::ptr;
use std::slice;
use superp_verbs::{Part, PostError, ReceiveRequest, WorkRequest};

/// The local bytes of a request.
///
/// # Safety
///
/// The list has so many elements, for as long as they are used.
unsafe fn parts<'a>(
    context: &Context,
    pd: *mut ibv_pd,
    list: *const ibv_sge,
    count: c_int,
) -> Result<&'a [Part], c_int> {
    let count = usize::try_from(count).map_err(|_| libc::EINVAL)?;
    // SAFETY: By the contract of this function.
    unsafe { context.parts(pd, list, count) }
}

/// # Safety
///
/// A request of verbs.
unsafe fn operation(wr: &ibv_send_wr) -> Result<Operation, c_int> {
    // SAFETY: The opcode says which members the program has filled in; any bytes are numbers.
    unsafe {
        let (rdma, atomic) = (wr.wr.rdma, wr.wr.atomic);
        let imm = u32::from_be(wr.__bindgen_anon_1.imm_data);
        let (rkey, addr) = (rdma.rkey, rdma.remote_addr);
        Ok(match wr.opcode {
            IBV_WR_RDMA_WRITE => Operation::Write {
                rkey,
                addr,
                imm: None,
            },
            IBV_WR_RDMA_WRITE_WITH_IMM => Operation::Write {
                rkey,
                addr,
                imm: Some(imm),
            },
            IBV_WR_RDMA_READ => Operation::Read { rkey, addr },
            IBV_WR_SEND => Operation::Send { imm: None },
            IBV_WR_SEND_WITH_IMM => Operation::Send { imm: Some(imm) },
            IBV_WR_ATOMIC_FETCH_AND_ADD => Operation::FetchAdd {
                rkey: atomic.rkey,
                addr: atomic.remote_addr,
                add: atomic.compare_add,
            },
            IBV_WR_ATOMIC_CMP_AND_SWP => Operation::CompareSwap {
                rkey: atomic.rkey,
                addr: atomic.remote_addr,
                compare: atomic.compare_add,
                swap: atomic.swap,
            },
            _ => return Err(libc::EOPNOTSUPP),
        })
    }
}

/// # Safety
///
/// A request of verbs, valid for as long as it is used.
unsafe fn request<'a>(object: &Qp, wr: &ibv_send_wr) -> Result<WorkRequest<'a>, c_int> {
    // SAFETY: By the contract of this function.
    let operation = unsafe { operation(wr) }?;
    let entry = operation.entry(wr.wr_id, wr.send_flags | object.send_flags())?;
    let request = WorkRequest::from_entry(entry);
    if wr.send_flags & IBV_SEND_INLINE == 0 {
        // SAFETY: As above.
        let parts = unsafe { parts(object.context(), object.pd(), wr.sg_list, wr.num_sge) }?;
        return Ok(request.local(parts));
    }
    if !operation.can_be_inline() {
        return Err(libc::EINVAL);
    }
    // SAFETY: As above.
    let pieces: &[ibv_sge] = match usize::try_from(wr.num_sge) {
        Ok(0) => &[],
        // SAFETY: By the contract of this function.
        Ok(count) if !wr.sg_list.is_null() => unsafe { slice::from_raw_parts(wr.sg_list, count) },
        _ => return Err(libc::EINVAL),
    };
    object.check_inline(pieces.iter().map(|sge| sge.length as usize))?;
    // SAFETY: The bytes of a piece are the program's, and valid for the call.
    let pieces = pieces
        .iter()
        .map(|sge| unsafe { bytes(sge.addr as *const u8, sge.length as usize) });
    Ok(request.inline_pieces(pieces))
}

/// Bytes of the program.
///
/// # Safety
///
/// They are valid while they are used.
pub(super) unsafe fn bytes<'a>(start: *const u8, len: usize) -> &'a [u8] {
    match len {
        0 => &[],
        // SAFETY: By the contract of this function.
        _ => unsafe { slice::from_raw_parts(start, len) },
    }
}

/// Posts a list: up to the first element that cannot be, which `bad` then is.
///
/// # Safety
///
/// The list is valid, and so is the place if it is not NULL.
unsafe fn list<W, R>(
    first: *mut W,
    next: fn(&W) -> *mut W,
    convert: impl Fn(&W) -> Result<R, c_int>,
    bad: *mut *mut W,
    post: impl FnOnce(&mut dyn Iterator<Item = R>) -> Result<(), PostError>,
) -> c_int {
    let mut at = first;
    let mut wrong = 0;
    let mut converted = 0;
    let posted = post(&mut std::iter::from_fn(|| {
        // SAFETY: By the contract of this function.
        let wr = unsafe { at.as_ref() }?;
        match convert(wr) {
            Ok(request) => {
                at = next(wr);
                converted += 1;
                Some(request)
            }
            Err(errno) => {
                wrong = errno;
                at = ptr::null_mut();
                None
            }
        }
    }));
    let (errno, count) = match posted {
        Ok(()) if wrong == 0 => return 0,
        Ok(()) => (wrong, converted),
        Err(error) => (error.error.errno(), error.posted),
    };
    // SAFETY: By the contract of this function.
    unsafe {
        if let Some(place) = bad.as_mut() {
            *place = first;
            for _ in 0..count {
                *place = place.as_ref().map_or(ptr::null_mut(), next);
            }
        }
    }
    set_errno(errno);
    errno
}

pub(super) unsafe extern "C" fn post_send(
    qp: *mut ibv_qp,
    wr: *mut ibv_send_wr,
    bad: *mut *mut ibv_send_wr,
) -> c_int {
    // SAFETY: An own queue pair.
    let object = unsafe { Qp::of(qp) };
    let ready = object.can_send();
    let convert = |wr: &ibv_send_wr| {
        ready?;
        // SAFETY: An element of the caller's list.
        unsafe { request(object, wr) }
    };
    // SAFETY: By the contract of verbs.
    unsafe {
        list(
            wr,
            |wr| wr.next,
            convert,
            bad,
            |requests| lock(&object.send).post(requests),
        )
    }
}

pub(super) unsafe extern "C" fn post_receive(
    qp: *mut ibv_qp,
    wr: *mut ibv_recv_wr,
    bad: *mut *mut ibv_recv_wr,
) -> c_int {
    // SAFETY: An own queue pair.
    let object = unsafe { Qp::of(qp) };
    let ready = object.can_receive();
    let convert = |wr: &ibv_recv_wr| {
        ready?;
        // SAFETY: An element of the caller's list.
        let parts = unsafe { parts(object.context(), object.pd(), wr.sg_list, wr.num_sge) }?;
        Ok(ReceiveRequest::new(parts).token(wr.wr_id))
    };
    // SAFETY: By the contract of verbs.
    unsafe {
        list(
            wr,
            |wr| wr.next,
            convert,
            bad,
            |requests| lock(&object.receive).post(requests),
        )
    }
}

pub(super) unsafe extern "C" fn post_shared_receive(
    srq: *mut ibv_srq,
    wr: *mut ibv_recv_wr,
    bad: *mut *mut ibv_recv_wr,
) -> c_int {
    // SAFETY: An own queue, and its context.
    let (object, own) = unsafe { (Srq::of(srq), Context::of((*srq).context)) };
    let convert = |wr: &ibv_recv_wr| {
        // SAFETY: An element of the caller's list.
        let parts = unsafe { parts(own, object.pd(), wr.sg_list, wr.num_sge) }?;
        Ok(ReceiveRequest::new(parts).token(wr.wr_id))
    };
    // SAFETY: By the contract of verbs.
    unsafe {
        list(
            wr,
            |wr| wr.next,
            convert,
            bad,
            |requests| lock(&object.queue).post(requests),
        )
    }
}
