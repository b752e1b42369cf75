// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Queue pairs: how programs make them, change their states and end them.

use super::abi::*;
use super::batch::Batch;
use super::context::Context;
use super::cq::Cq;
use super::domain::{child, Pd};
use super::qp::Qp;
use super::srq::Srq;
use super::{code, errno, extended, give, lock, tell};
use crate::rules;
use libc::c_int;
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::Mutex;
use superp_verbs::{uapi, Address, QueuePairOptions, QueuePairState, MAX_INLINE};

/// # Safety
///
/// By the contract of verbs, with an own domain.
unsafe fn new_qp(pd: *mut ibv_pd, attr: &mut ibv_qp_init_attr) -> Result<Qp, c_int> {
    if attr.qp_type != IBV_QPT_RC {
        return Err(libc::EOPNOTSUPP);
    }
    let cap = attr.cap;
    let too_much = cap.max_send_sge > uapi::SUPERP_MAX_SEGMENTS
        || cap.max_recv_sge > uapi::SUPERP_MAX_SEGMENTS
        || cap.max_inline_data > MAX_INLINE
        || cap.max_send_wr > uapi::SUPERP_MAX_SQ_ENTRIES
        || cap.max_recv_wr > uapi::SUPERP_MAX_RQ_ENTRIES;
    if too_much || attr.send_cq.is_null() || attr.recv_cq.is_null() {
        return Err(libc::EINVAL);
    }
    // SAFETY: An own domain; queues of its context.
    let (context, of_pd, send, receive) = unsafe {
        let of_pd = &(*pd.cast::<Pd>()).users;
        let (send, receive) = (attr.send_cq.cast::<Cq>(), attr.recv_cq.cast::<Cq>());
        ((*pd).context, of_pd, &*send, &*receive)
    };
    // SAFETY: The context of an own domain.
    let own = unsafe { Context::of(context) };
    let srq = match attr.srq.is_null() {
        true => None,
        // SAFETY: A queue of the context.
        false => Some(unsafe { Srq::of(attr.srq) }),
    };
    let options = QueuePairOptions {
        send_entries: cap.max_send_wr,
        receive_entries: cap.max_recv_wr,
        send_parts: cap.max_send_sge,
        receive_parts: cap.max_recv_sge,
        inline: cap.max_inline_data,
        shared: srq.map(Srq::handle),
        number: 0,
    };
    let made = own
        .context
        .create_queue_pair_of_shared(&send.queue, &receive.queue, &options);
    let made = made.map_err(errno)?;
    let (number, index) = (made.number(), made.index());
    if let Some(place) = own.numbers.get(index as usize) {
        place.store(number, Ordering::Relaxed);
    }
    let (send_queue, receive_queue) = made.into_split();
    attr.cap = ibv_qp_cap {
        max_send_wr: send_queue.entries(),
        max_recv_wr: receive_queue.entries(),
        max_send_sge: send_queue.parts(),
        max_recv_sge: receive_queue.parts(),
        max_inline_data: send_queue.inline(),
    };
    let mut public = ibv_qp_ex {
        qp_base: ibv_qp {
            context,
            qp_context: attr.qp_context,
            pd,
            send_cq: attr.send_cq,
            recv_cq: attr.recv_cq,
            srq: attr.srq,
            handle: index,
            qp_num: number,
            state: IBV_QPS_RESET,
            qp_type: IBV_QPT_RC,
            ..Default::default()
        },
        ..Default::default()
    };
    extended::set_functions(&mut public);
    Ok(Qp {
        public: UnsafeCell::new(public),
        // SAFETY: An own domain.
        pd: unsafe { child(pd) },
        context,
        number,
        send: Mutex::new(send_queue),
        receive: Mutex::new(receive_queue),
        state: AtomicU32::new(IBV_QPS_RESET),
        attr: Mutex::default(),
        init: *attr,
        batch: Batch::default(),
        _users: [
            Some(send.users.clone()),
            Some(receive.users.clone()),
            Some(of_pd.clone()),
            srq.map(|srq| srq.users.clone()),
        ],
    })
}

pub(super) unsafe fn create_qp(pd: *mut ibv_pd, attr: *mut ibv_qp_init_attr) -> *mut ibv_qp {
    // SAFETY: By the contract of verbs.
    give(unsafe { new_qp(pd, &mut *attr) })
}

/// # Safety
///
/// By the contract of verbs.
unsafe fn new_qp_ex(attr: &mut ibv_qp_init_attr_ex) -> Result<Qp, c_int> {
    let known =
        IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS | IBV_QP_INIT_ATTR_CREATE_FLAGS;
    let operations = match attr.comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS {
        0 => 0,
        _ => attr.send_ops_flags,
    };
    let flags = match attr.comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS {
        0 => 0,
        _ => attr.create_flags,
    };
    if attr.comp_mask & !known != 0 || operations & !u64::from(rules::SEND_OPS) != 0 || flags != 0 {
        return Err(libc::EOPNOTSUPP);
    }
    if attr.comp_mask & IBV_QP_INIT_ATTR_PD == 0 || attr.pd.is_null() {
        return Err(libc::EINVAL);
    }
    let mut short = ibv_qp_init_attr {
        qp_context: attr.qp_context,
        send_cq: attr.send_cq,
        recv_cq: attr.recv_cq,
        srq: attr.srq,
        cap: attr.cap,
        qp_type: attr.qp_type,
        sq_sig_all: attr.sq_sig_all,
    };
    // SAFETY: By the contract of verbs.
    let made = unsafe { new_qp(attr.pd, &mut short) }?;
    attr.cap = short.cap;
    Ok(made)
}

pub(super) unsafe extern "C" fn create_qp_ex(
    _context: *mut ibv_context,
    attr: *mut ibv_qp_init_attr_ex,
) -> *mut ibv_qp {
    // SAFETY: By the contract of verbs.
    give(unsafe { new_qp_ex(&mut *attr) })
}

/// Every queue pair has the extended interface.
pub(super) unsafe fn to_extended(qp: *mut ibv_qp) -> *mut ibv_qp_ex {
    qp.cast()
}

pub(super) unsafe fn destroy_qp(qp: *mut ibv_qp) -> c_int {
    // SAFETY: From `create_qp` or `create_qp_ex`, and used no more.
    drop(unsafe { Box::from_raw(qp.cast::<Qp>()) });
    0
}

pub(super) unsafe fn query_qp(
    qp: *mut ibv_qp,
    attr: *mut ibv_qp_attr,
    mask: c_int,
    init: *mut ibv_qp_init_attr,
) -> c_int {
    // SAFETY: An own queue pair.
    let object = unsafe { Qp::of(qp) };
    let mut found = *lock(&object.attr);
    found.cap = object.init.cap;
    found.qp_state = object.state();
    found.cur_qp_state = found.qp_state;
    // SAFETY: The caller's; and as in `modify_qp`.
    unsafe {
        attr.write(found);
        init.write(object.init);
        if mask as u32 & IBV_QP_STATE != 0 {
            (*qp).state = found.qp_state;
        }
    }
    0
}

/// Finds the connection to the peer.
fn connect(object: &Qp, attr: &ibv_qp_attr) -> Result<(), c_int> {
    let route = &attr.ah_attr;
    if route.is_global == 0 || attr.dest_qp_num == 0 || attr.dest_qp_num > uapi::SUPERP_QPN_MAX {
        return Err(libc::EINVAL);
    }
    // SAFETY: Any bytes are a GID.
    let addr = rules::address(unsafe { route.grh.dgid.raw });
    let tell = |what: &dyn std::fmt::Display| {
        let number = object.number;
        tell(format_args!("queue pair {number}: {addr}: {what}"));
    };
    let peer = Address::new(addr, attr.dest_qp_num);
    let connected = lock(&object.send).connect(&peer).map_err(|error| {
        tell(&error);
        errno(error)
    })?;
    match rules::unfit(connected.ordered, connected.ext) {
        None => Ok(()),
        Some(why) => {
            tell(&format_args!("the connection {why}"));
            Err(libc::EOPNOTSUPP)
        }
    }
}

fn modify(object: &Qp, attr: &ibv_qp_attr, mask: u32) -> Result<(), c_int> {
    let mut known = lock(&object.attr);
    let from = object.state();
    let to = match mask & IBV_QP_STATE {
        0 => from,
        _ => attr.qp_state,
    };
    let has = |bits: u32| mask & bits == bits;
    let alternative = IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE | IBV_QP_CAP | IBV_QP_RATE_LIMIT;
    if mask & alternative != 0 {
        return Err(libc::EOPNOTSUPP);
    }
    if has(IBV_QP_CUR_STATE) && attr.cur_qp_state != from {
        return Err(libc::EINVAL);
    }
    if has(IBV_QP_PORT) && attr.port_num != 1 || has(IBV_QP_PKEY_INDEX) && attr.pkey_index != 0 {
        return Err(libc::EINVAL);
    }
    match (from, to) {
        (IBV_QPS_RESET, IBV_QPS_INIT) if has(IBV_QP_PORT) => {}
        (IBV_QPS_INIT, IBV_QPS_RTR) if has(IBV_QP_AV | IBV_QP_DEST_QPN) => connect(object, attr)?,
        (IBV_QPS_RTR, IBV_QPS_RTS) => {}
        // What may change without consequence; the peer may not.
        (IBV_QPS_INIT, IBV_QPS_INIT) | (IBV_QPS_RTS, IBV_QPS_RTS)
            if mask & (IBV_QP_AV | IBV_QP_DEST_QPN) == 0 => {}
        (IBV_QPS_RESET, IBV_QPS_RESET) => {}
        // As the verbs of the kernel have it.
        (IBV_QPS_RESET, IBV_QPS_ERR) => return Err(libc::EINVAL),
        (_, IBV_QPS_ERR) => {
            let failed = lock(&object.send).modify(QueuePairState::Error);
            failed.map_err(errno)?;
        }
        // Not to reset: what the peer has sent to the queue pair, and repeats, would be taken for what
        // its next peer sends.
        (_, IBV_QPS_RESET | IBV_QPS_SQD | IBV_QPS_SQE) => return Err(libc::EOPNOTSUPP),
        _ => return Err(libc::EINVAL),
    }
    macro_rules! keep {
        ($($bit:ident $field:ident)*) => {
            $(if has($bit) { known.$field = attr.$field; })*
        };
    }
    keep! {
        IBV_QP_ACCESS_FLAGS qp_access_flags
        IBV_QP_PORT port_num
        IBV_QP_AV ah_attr
        IBV_QP_PATH_MTU path_mtu
        IBV_QP_DEST_QPN dest_qp_num
        IBV_QP_RQ_PSN rq_psn
        IBV_QP_SQ_PSN sq_psn
        IBV_QP_MAX_QP_RD_ATOMIC max_rd_atomic
        IBV_QP_MAX_DEST_RD_ATOMIC max_dest_rd_atomic
        IBV_QP_MIN_RNR_TIMER min_rnr_timer
        IBV_QP_TIMEOUT timeout
        IBV_QP_RETRY_CNT retry_cnt
        IBV_QP_RNR_RETRY rnr_retry
    }
    object.state.store(to, Ordering::Relaxed);
    Ok(())
}

pub(super) unsafe fn modify_qp(qp: *mut ibv_qp, attr: *mut ibv_qp_attr, mask: c_int) -> c_int {
    // SAFETY: An own queue pair; the caller's attributes.
    let done = unsafe { modify(Qp::of(qp), &*attr, mask as u32) };
    if done.is_ok() {
        // SAFETY: As above. A word that programs read.
        unsafe { (*qp).state = Qp::of(qp).state.load(Ordering::Relaxed) };
    }
    code(done)
}
