// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Polling: into an array, and by the extended interface: `ibv_start_poll()` and `ibv_next_poll()`, which come to
//! a completion, one call for each part of it, and `ibv_end_poll()`.

use super::abi::*;
use super::context::Context;
use super::cq::Cq;
use super::{imm_data, lock};
use crate::rules;
use libc::{c_int, c_uint};

pub(super) unsafe extern "C" fn poll_cq(cq: *mut ibv_cq, most: c_int, wc: *mut ibv_wc) -> c_int {
    let Ok(most) = u32::try_from(most) else {
        return -libc::EINVAL;
    };
    // SAFETY: An own queue, and its context.
    let (own, object) = unsafe { (Context::of((*cq).context), &*cq.cast::<Cq>()) };
    let mut next = wc;
    let polled = lock(&object.queue).poll(most, |completion| {
        let number = own.number(completion.queue_pair);
        // SAFETY: The caller's array has room for `most` of them.
        unsafe {
            next.write(rules::completion(&completion, number));
            next = next.add(1);
        }
    });
    match polled {
        Ok(count) => count as c_int,
        Err(error) => -error.errno(),
    }
}

/// The interface of a new queue; what was not asked for does no harm.
pub(super) fn set_functions(public: &mut ibv_cq_ex) {
    public.start_poll = Some(start_poll);
    public.next_poll = Some(next_poll);
    public.end_poll = Some(end_poll);
    public.read_opcode = Some(read_opcode);
    public.read_vendor_err = Some(read_vendor_err);
    public.read_byte_len = Some(read_byte_len);
    public.read_imm_data = Some(read_imm_data);
    public.read_qp_num = Some(read_qp_num);
    public.read_src_qp = Some(read_src_qp);
    public.read_wc_flags = Some(read_wc_flags);
    public.read_slid = Some(read_slid);
    public.read_sl = Some(read_sl);
    public.read_dlid_path_bits = Some(read_dlid_path_bits);
}

/// One thread at a time polls, from here to `ibv_end_poll()`.
unsafe extern "C" fn start_poll(cq: *mut ibv_cq_ex, attr: *mut ibv_poll_cq_attr) -> c_int {
    // SAFETY: The caller's struct.
    if unsafe { (*attr).comp_mask } != 0 {
        return libc::EINVAL;
    }
    // SAFETY: An own queue, whose mutex is this interface's own.
    unsafe { libc::pthread_mutex_lock((&raw mut (*cq).mutex).cast()) };
    // SAFETY: An own queue.
    let found = unsafe { next_poll(cq) };
    if found != 0 {
        // SAFETY: It was taken just now.
        unsafe { end_poll(cq) };
    }
    found
}

unsafe extern "C" fn next_poll(cq: *mut ibv_cq_ex) -> c_int {
    // SAFETY: An own queue: who polls has the completion for itself.
    let current = unsafe { (*cq.cast::<Cq>()).current.get() };
    // SAFETY: An own queue, and room for one.
    match unsafe { poll_cq(cq.cast(), 1, current) } {
        0 => libc::ENOENT,
        1 => {
            // SAFETY: These members are of who polls, too.
            unsafe {
                (*cq).status = (*current).status;
                (*cq).wr_id = (*current).wr_id;
            }
            0
        }
        error => -error,
    }
}

unsafe extern "C" fn end_poll(cq: *mut ibv_cq_ex) {
    // SAFETY: As `start_poll`; this thread has it.
    unsafe { libc::pthread_mutex_unlock((&raw mut (*cq).mutex).cast()) };
}

macro_rules! read {
    ($($name:ident -> $type:ty = $part:expr;)*) => {$(
        unsafe extern "C" fn $name(cq: *mut ibv_cq_ex) -> $type {
            // SAFETY: An own queue, from which this thread polls.
            let current: &ibv_wc = unsafe { &*(*cq.cast::<Cq>()).current.get() };
            let part: fn(&ibv_wc) -> $type = $part;
            part(current)
        }
    )*};
}

read! {
    read_opcode -> ibv_wc_opcode = |wc| wc.opcode;
    read_vendor_err -> u32 = |wc| wc.vendor_err;
    read_byte_len -> u32 = |wc| wc.byte_len;
    read_imm_data -> __be32 = imm_data;
    read_qp_num -> u32 = |wc| wc.qp_num;
    read_src_qp -> u32 = |wc| wc.src_qp;
    read_wc_flags -> c_uint = |wc| wc.wc_flags;
    read_slid -> u32 = |wc| wc.slid.into();
    read_sl -> u8 = |wc| wc.sl;
    read_dlid_path_bits -> u8 = |wc| wc.dlid_path_bits;
}
