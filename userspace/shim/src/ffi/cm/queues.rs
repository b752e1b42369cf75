// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The device of identifiers, and their queue pairs.

use super::super::abi::*;
use super::super::completion::{create_channel, create_cq, destroy_channel, destroy_cq};
use super::super::context;
use super::super::device::own_device;
use super::super::domain::alloc_pd;
use super::super::open::open_device;
use super::super::queue::{create_qp_ex, destroy_qp, modify_qp};
use super::super::shared::{create_srq, destroy_srq};
use super::super::{errno_now, minus_one};
use super::identifier::{Id, State};
use super::{shared, IdPointer, Manager, Opened};
use libc::c_int;
use std::ptr;

impl Manager {
    /// The device, which is opened once.
    pub(super) fn open(&mut self) -> Result<Opened, c_int> {
        if let Some(opened) = self.opened {
            return Ok(opened);
        }
        // SAFETY: The own device; its own context.
        let opened = unsafe {
            let context = open_device(own_device()?);
            if context.is_null() {
                return Err(errno_now());
            }
            let pd = alloc_pd(context);
            if pd.is_null() {
                return Err(errno_now());
            }
            Opened { context, pd }
        };
        self.opened = Some(opened);
        Ok(opened)
    }
}

/// The attributes by which a queue pair of the identifier comes into a state.
///
/// # Errors
///
/// EINVAL: the peer is not known yet, or another state.
pub(super) fn attributes(id: &Id, state: ibv_qp_state) -> Result<(ibv_qp_attr, u32), c_int> {
    let mut attr = ibv_qp_attr {
        qp_state: state,
        cur_qp_state: state,
        ..Default::default()
    };
    // SAFETY: It lives as long as the identifier.
    if unsafe { (*id.public.0).verbs.is_null() } {
        return Err(libc::EINVAL);
    }
    let mask = match state {
        IBV_QPS_INIT => {
            attr.port_num = 1;
            attr.qp_access_flags =
                IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
            IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS
        }
        IBV_QPS_RTR => {
            if id.theirs.queue_pair == 0 {
                return Err(libc::EINVAL);
            }
            attr.ah_attr.is_global = 1;
            attr.ah_attr.port_num = 1;
            // SAFETY: As above; there is one kind of them.
            attr.ah_attr.grh.dgid = unsafe { (*id.public.0).route.addr.addr.ibaddr.dgid };
            attr.ah_attr.grh.sgid_index = id.gid_index;
            attr.ah_attr.grh.hop_limit = 64;
            attr.path_mtu = id.mtu;
            attr.dest_qp_num = id.theirs.queue_pair;
            attr.max_dest_rd_atomic = id.ours.responder_resources;
            IBV_QP_AV
                | IBV_QP_PATH_MTU
                | IBV_QP_DEST_QPN
                | IBV_QP_RQ_PSN
                | IBV_QP_MAX_DEST_RD_ATOMIC
                | IBV_QP_MIN_RNR_TIMER
        }
        IBV_QPS_RTS => {
            attr.timeout = id.ack_timeout.unwrap_or(14);
            attr.retry_cnt = id.ours.retries;
            attr.rnr_retry = id.ours.rnr_retries;
            attr.max_rd_atomic = id.ours.initiator_depth;
            IBV_QP_SQ_PSN
                | IBV_QP_TIMEOUT
                | IBV_QP_RETRY_CNT
                | IBV_QP_RNR_RETRY
                | IBV_QP_MAX_QP_RD_ATOMIC
        }
        _ => return Err(libc::EINVAL),
    };
    Ok((attr, mask | IBV_QP_STATE))
}

/// EINVAL: the queue pair is of another device.
fn modify(qp: *mut ibv_qp, mut attr: ibv_qp_attr, mask: u32) -> Result<(), c_int> {
    // SAFETY: The queue pair of an identifier, which has not ended.
    unsafe {
        if !context::is_own((*qp).context) {
            return Err(libc::EINVAL);
        }
        match modify_qp(qp, &mut attr, mask as c_int) {
            0 => Ok(()),
            errno => Err(errno),
        }
    }
}

/// Makes the queue pair ready for the peer; none is the program's business.
pub(super) fn make_ready(id: &Id) -> Result<(), c_int> {
    let qp = id.qp();
    if qp.is_null() {
        return Ok(());
    }
    for state in [IBV_QPS_RTR, IBV_QPS_RTS] {
        let (attr, mask) = attributes(id, state)?;
        modify(qp, attr, mask)?;
    }
    Ok(())
}

/// Ends the work of the queue pair.
pub(super) fn flush(id: &Id) -> Result<(), c_int> {
    let qp = id.qp();
    if qp.is_null() {
        return Ok(());
    }
    let attr = ibv_qp_attr {
        qp_state: IBV_QPS_ERR,
        ..Default::default()
    };
    modify(qp, attr, IBV_QP_STATE)
}

/// EINVAL: no identifier of this manager.
pub(super) fn known(id: *mut rdma_cm_id) -> Result<(), c_int> {
    shared()?.lock().id(id).map(drop)
}

/// Makes the completion queues that the program does not bring, each with a channel.
unsafe fn create_queues(public: &mut rdma_cm_id, send: u32, receive: u32) -> Result<(), c_int> {
    let own: *mut rdma_cm_id = public;
    // SAFETY: The own context; the places are of the struct.
    let make = |entries: u32, channel: &mut *mut ibv_comp_channel, cq: &mut *mut ibv_cq| unsafe {
        *channel = create_channel(public.verbs);
        if channel.is_null() {
            return Err(errno_now());
        }
        let entries = c_int::try_from(entries).unwrap_or(c_int::MAX);
        *cq = create_cq(public.verbs, entries, own.cast(), *channel, 0);
        match cq.is_null() {
            true => Err(errno_now()),
            false => Ok(()),
        }
    };
    let made = match receive {
        0 => Ok(()),
        entries => make(entries, &mut public.recv_cq_channel, &mut public.recv_cq),
    };
    let made = made.and_then(|()| match send {
        0 => Ok(()),
        entries => make(entries, &mut public.send_cq_channel, &mut public.send_cq),
    });
    if made.is_err() {
        // SAFETY: They are of the identifier, and nobody uses them.
        unsafe { destroy_queues(public) };
    }
    made
}

/// Ends the completion queues that were made for the identifier.
unsafe fn destroy_queues(public: &mut rdma_cm_id) {
    for cq in [&mut public.recv_cq, &mut public.send_cq] {
        let cq = std::mem::replace(cq, ptr::null_mut());
        if !cq.is_null() {
            // SAFETY: From `create_queues`.
            unsafe { destroy_cq(cq) };
        }
    }
    for channel in [&mut public.recv_cq_channel, &mut public.send_cq_channel] {
        let channel = std::mem::replace(channel, ptr::null_mut());
        if !channel.is_null() {
            // SAFETY: From `create_queues`.
            unsafe { destroy_channel(channel) };
        }
    }
}

/// # Safety
///
/// By the contract of RDMA CM.
pub(super) unsafe fn make_queue_pair(
    id: *mut rdma_cm_id,
    attr: &mut ibv_qp_init_attr_ex,
) -> Result<(), c_int> {
    known(id)?;
    // SAFETY: A known identifier, of which the program makes one call at a time.
    let public = unsafe { &mut *id };
    if !public.qp.is_null() || public.verbs.is_null() {
        return Err(libc::EINVAL);
    }
    if attr.comp_mask & IBV_QP_INIT_ATTR_PD == 0 || attr.pd.is_null() {
        attr.pd = public.pd;
        attr.comp_mask |= IBV_QP_INIT_ATTR_PD;
    }
    let other =
        |own: *mut ibv_cq, given: *mut ibv_cq| !own.is_null() && !given.is_null() && own != given;
    // SAFETY: A domain of the program's.
    let foreign = attr.pd.is_null() || unsafe { (*attr.pd).context } != public.verbs;
    if foreign || other(public.send_cq, attr.send_cq) || other(public.recv_cq, attr.recv_cq) {
        return Err(libc::EINVAL);
    }
    let entries = |given: *mut ibv_cq, own: *mut ibv_cq, wanted: u32| match given.is_null()
        && own.is_null()
    {
        true => wanted.max(1),
        false => 0,
    };
    let send = entries(attr.send_cq, public.send_cq, attr.cap.max_send_wr);
    let receive = entries(attr.recv_cq, public.recv_cq, attr.cap.max_recv_wr);
    // SAFETY: By the contract of this function.
    unsafe { create_queues(public, send, receive)? };
    if attr.send_cq.is_null() {
        attr.send_cq = public.send_cq;
    }
    if attr.recv_cq.is_null() {
        attr.recv_cq = public.recv_cq;
    }
    if attr.srq.is_null() {
        attr.srq = public.srq;
    }
    // SAFETY: The own context, and attributes of it.
    let made = unsafe { initial(id, attr) };
    match made {
        Ok(qp) => {
            public.qp = qp;
            public.pd = attr.pd;
            Ok(())
        }
        Err(errno) => {
            // SAFETY: They are of the identifier, and nobody uses them.
            unsafe { destroy_queues(public) };
            Err(errno)
        }
    }
}

/// A queue pair to which buffers can be posted.
unsafe fn initial(
    id: *mut rdma_cm_id,
    attr: &mut ibv_qp_init_attr_ex,
) -> Result<*mut ibv_qp, c_int> {
    // SAFETY: By the contract of this function.
    let qp = unsafe { create_qp_ex((*id).verbs, attr) };
    if qp.is_null() {
        return Err(errno_now());
    }
    let known = shared()?
        .lock()
        .id(id)
        .and_then(|id| attributes(id, IBV_QPS_INIT));
    let done = known.and_then(|(attr, mask)| modify(qp, attr, mask));
    if done.is_err() {
        // SAFETY: Made just now.
        unsafe { destroy_qp(qp) };
    }
    done.map(|()| qp)
}

/// Ends the queue pair, and what was made for it.
///
/// # Safety
///
/// By the contract of RDMA CM.
pub(super) unsafe fn end_queue_pair(id: *mut rdma_cm_id) -> Result<(), c_int> {
    let manager = shared()?.lock();
    if !manager.ids.contains_key(&IdPointer(id)) {
        return Err(libc::EINVAL);
    }
    // SAFETY: A known identifier.
    let qp = unsafe { ptr::replace(&raw mut (*id).qp, ptr::null_mut()) };
    // The thread does not look at it any more.
    drop(manager);
    // SAFETY: As above; the program uses neither the queue pair nor its queues.
    unsafe {
        if !qp.is_null() {
            destroy_qp(qp);
        }
        destroy_queues(&mut *id);
    }
    Ok(())
}

/// # Safety
///
/// By the contract of RDMA CM.
pub(super) unsafe fn make_shared_queue(
    id: *mut rdma_cm_id,
    pd: *mut ibv_pd,
    attr: *mut ibv_srq_init_attr,
) -> Result<(), c_int> {
    known(id)?;
    // SAFETY: A known identifier.
    let public = unsafe { &mut *id };
    let pd = match pd.is_null() {
        true => public.pd,
        false => pd,
    };
    // SAFETY: A domain of the program's.
    let foreign = pd.is_null() || unsafe { (*pd).context } != public.verbs;
    if foreign || attr.is_null() || !public.srq.is_null() {
        return Err(libc::EINVAL);
    }
    // SAFETY: An own domain, and the caller's attributes.
    let srq = unsafe { create_srq(pd, attr) };
    if srq.is_null() {
        return Err(errno_now());
    }
    public.srq = srq;
    public.pd = pd;
    Ok(())
}

/// # Safety
///
/// By the contract of RDMA CM.
pub(super) unsafe fn end_shared_queue(id: *mut rdma_cm_id) -> Result<(), c_int> {
    known(id)?;
    // SAFETY: A known identifier.
    unsafe {
        let srq = ptr::replace(&raw mut (*id).srq, ptr::null_mut());
        if srq.is_null() {
            return Err(libc::EINVAL);
        }
        match destroy_srq(srq) {
            0 => Ok(()),
            errno => Err(errno),
        }
    }
}

/// The attributes of a program that makes its queue pair itself.
pub(super) unsafe fn put_attributes(
    id: *mut rdma_cm_id,
    attr: *mut ibv_qp_attr,
    mask: *mut c_int,
) -> c_int {
    if attr.is_null() || mask.is_null() {
        return minus_one(Err(libc::EINVAL));
    }
    // SAFETY: The caller's struct.
    let state = unsafe { (*attr).qp_state };
    let found = shared().and_then(|shared| {
        let mut manager = shared.lock();
        let id = manager.id(id)?;
        match id.state {
            State::New | State::Bound | State::Listening => Err(libc::EINVAL),
            _ => attributes(id, state),
        }
    });
    // SAFETY: As above.
    minus_one(found.map(|(found, bits)| unsafe {
        attr.write(found);
        mask.write(bits as c_int);
    }))
}
