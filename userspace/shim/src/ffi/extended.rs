// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The extended interface of posting: `ibv_wr_start()`, one call for each part of a request, and
//! `ibv_wr_complete()`, which posts all or nothing.

use super::abi::*;
use super::batch::{Request, Work};
use super::lock;
use super::post::bytes;
use super::qp::Qp;
use crate::rules::{self, Operation};
use libc::{c_int, c_void, size_t};
use std::sync::PoisonError;
use superp_verbs::Part;

/// The interface of a new queue pair. What SUPERp has not is NULL, as is what `send_ops_flags` does not ask
/// for.
pub(super) fn set_functions(public: &mut ibv_qp_ex) {
    public.wr_atomic_cmp_swp = Some(compare_swap);
    public.wr_atomic_fetch_add = Some(fetch_add);
    public.wr_rdma_read = Some(read);
    public.wr_rdma_write = Some(write);
    public.wr_rdma_write_imm = Some(write_imm);
    public.wr_send = Some(send);
    public.wr_send_imm = Some(send_imm);
    public.wr_set_inline_data = Some(set_inline);
    public.wr_set_inline_data_list = Some(set_inline_list);
    public.wr_set_sge = Some(set_sge);
    public.wr_set_sge_list = Some(set_sge_list);
    public.wr_start = Some(start);
    public.wr_complete = Some(complete);
    public.wr_abort = Some(abort);
}

unsafe extern "C" fn start(qp: *mut ibv_qp_ex) {
    // SAFETY: An own queue pair.
    let batch = unsafe { &Qp::of(qp.cast()).batch };
    let mut work = lock(&batch.work);
    while work.busy {
        work = batch
            .free
            .wait(work)
            .unwrap_or_else(PoisonError::into_inner);
    }
    *work = Work {
        busy: true,
        ..Work::default()
    };
}

/// The end of a batch: its requests, or what was wrong.
fn finish(object: &Qp) -> Result<Vec<Request>, c_int> {
    let work = std::mem::take(&mut *lock(&object.batch.work));
    object.batch.free.notify_one();
    match work.wrong {
        0 => Ok(work.requests),
        errno => Err(errno),
    }
}

unsafe extern "C" fn abort(qp: *mut ibv_qp_ex) {
    // SAFETY: An own queue pair. Nothing of it was posted.
    let _ = finish(unsafe { Qp::of(qp.cast()) });
}

fn post(object: &Qp, requests: Vec<Request>) -> Result<(), c_int> {
    object.can_send()?;
    let mut queue = lock(&object.send);
    if (queue.room() as usize) < requests.len() {
        return Err(libc::ENOMEM);
    }
    let most = queue.parts() as usize;
    if requests.iter().any(|request| request.list.len() > most) {
        return Err(libc::EINVAL);
    }
    let posted = queue.post(requests.iter().map(Request::as_work));
    posted.map_err(|error| error.error.errno())
}

unsafe extern "C" fn complete(qp: *mut ibv_qp_ex) -> c_int {
    // SAFETY: An own queue pair.
    let object = unsafe { Qp::of(qp.cast()) };
    super::code(finish(object).and_then(|requests| post(object, requests)))
}

/// A new request of the batch.
///
/// # Safety
///
/// An own queue pair.
unsafe fn begin(qp: *mut ibv_qp_ex, operation: Operation) {
    // SAFETY: By the contract of this function; the program's words for the request.
    let (object, id, flags) = unsafe { (Qp::of(qp.cast()), (*qp).wr_id, (*qp).wr_flags) };
    let mut work = lock(&object.batch.work);
    match operation.entry(id, flags | object.send_flags()) {
        Ok(entry) => {
            work.requests.push(Request {
                entry,
                list: Vec::new(),
                inline: None,
            });
            work.can_be_inline = operation.can_be_inline();
        }
        Err(errno) => work.fail(errno),
    }
}

unsafe extern "C" fn write(qp: *mut ibv_qp_ex, rkey: u32, addr: u64) {
    // SAFETY: An own queue pair.
    unsafe {
        begin(
            qp,
            Operation::Write {
                rkey,
                addr,
                imm: None,
            },
        )
    };
}

unsafe extern "C" fn write_imm(qp: *mut ibv_qp_ex, rkey: u32, addr: u64, imm: u32) {
    let imm = Some(u32::from_be(imm));
    // SAFETY: An own queue pair.
    unsafe { begin(qp, Operation::Write { rkey, addr, imm }) };
}

unsafe extern "C" fn read(qp: *mut ibv_qp_ex, rkey: u32, addr: u64) {
    // SAFETY: An own queue pair.
    unsafe { begin(qp, Operation::Read { rkey, addr }) };
}

unsafe extern "C" fn send(qp: *mut ibv_qp_ex) {
    // SAFETY: An own queue pair.
    unsafe { begin(qp, Operation::Send { imm: None }) };
}

unsafe extern "C" fn send_imm(qp: *mut ibv_qp_ex, imm: u32) {
    let imm = Some(u32::from_be(imm));
    // SAFETY: An own queue pair.
    unsafe { begin(qp, Operation::Send { imm }) };
}

unsafe extern "C" fn fetch_add(qp: *mut ibv_qp_ex, rkey: u32, addr: u64, add: u64) {
    // SAFETY: An own queue pair.
    unsafe { begin(qp, Operation::FetchAdd { rkey, addr, add }) };
}

unsafe extern "C" fn compare_swap(
    qp: *mut ibv_qp_ex,
    rkey: u32,
    addr: u64,
    compare: u64,
    swap: u64,
) {
    let operation = Operation::CompareSwap {
        rkey,
        addr,
        compare,
        swap,
    };
    // SAFETY: An own queue pair.
    unsafe { begin(qp, operation) };
}

unsafe extern "C" fn set_sge(qp: *mut ibv_qp_ex, lkey: u32, addr: u64, length: u32) {
    let one = ibv_sge { addr, length, lkey };
    // SAFETY: One element; an own queue pair.
    unsafe { set_sge_list(qp, 1, &one) };
}

unsafe extern "C" fn set_sge_list(qp: *mut ibv_qp_ex, count: size_t, list: *const ibv_sge) {
    // SAFETY: An own queue pair.
    let object = unsafe { Qp::of(qp.cast()) };
    // SAFETY: The caller's list.
    let parts = unsafe { object.context().parts(object.pd(), list, count) };
    lock(&object.batch.work).change(|request| {
        match parts? {
            [] => rules::set_part(&mut request.entry, Part::NONE),
            [one] => rules::set_part(&mut request.entry, *one),
            several => request.list = several.to_vec(),
        }
        Ok(())
    });
}

unsafe extern "C" fn set_inline(qp: *mut ibv_qp_ex, addr: *mut c_void, length: size_t) {
    let one = ibv_data_buf { addr, length };
    // SAFETY: One element; an own queue pair.
    unsafe { set_inline_list(qp, 1, &one) };
}

unsafe extern "C" fn set_inline_list(qp: *mut ibv_qp_ex, count: size_t, list: *const ibv_data_buf) {
    // SAFETY: An own queue pair.
    let object = unsafe { Qp::of(qp.cast()) };
    let mut work = lock(&object.batch.work);
    let can_be_inline = work.can_be_inline;
    work.change(|request| {
        if !can_be_inline {
            return Err(libc::EINVAL);
        }
        // SAFETY: The caller's list has so many elements.
        let pieces = (0..count).map(|index| unsafe { &*list.add(index) });
        object.check_inline(pieces.clone().map(|piece| piece.length))?;
        // SAFETY: The bytes are valid for the call.
        let pieces = pieces.map(|piece| unsafe { bytes(piece.addr.cast(), piece.length) });
        request.inline = Some(pieces.collect::<Vec<_>>().concat());
        Ok(())
    });
}
