// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Completion queues and queue pairs.

use crate::attr::{
    ConnAttr, QpAttr, QpInitAttr, SrqInitAttr, Wc, SUPERP_QP_STATE, SUPERP_WC_WITH_IMM,
};
use crate::{give, lock, set_errno, told, ContextHandle, Counted, CqPointer};
use libc::{c_char, c_int, c_void};
use std::net::{IpAddr, Ipv6Addr};
use std::os::fd::BorrowedFd;
use std::ptr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use superp_verbs::uapi::{self, sockaddr_superp};
use superp_verbs::{
    Address, Completion, CompletionQueue, Opcode, QueuePairOptions, QueuePairState, ReceiveQueue,
    SendQueue, SharedReceiveQueue,
};

/// `struct superp_cq`.
pub struct Cq {
    queue: Mutex<CompletionQueue>,
    number: u32,
    cq_context: *mut c_void,
    /// Each queue pair that uses it has one more.
    users: Arc<()>,
    counted: Counted,
}

/// `struct superp_srq`.
pub struct Srq {
    pub(crate) queue: Mutex<SharedReceiveQueue>,
    srq_context: *mut c_void,
    /// Each queue pair that uses it has one more.
    users: Arc<()>,
    _counted: Counted,
}

/// `struct superp_qp`.
pub struct Qp {
    pub(crate) send: Mutex<SendQueue>,
    pub(crate) receive: Mutex<ReceiveQueue>,
    number: u32,
    index: u32,
    qp_context: *mut c_void,
    // The queues above end before these say so.
    _users: [Option<Arc<()>>; 3],
    _counted: Counted,
}

#[no_mangle]
pub unsafe extern "C" fn superp_create_cq(
    context: *mut ContextHandle,
    cqe: c_int,
    cq_context: *mut c_void,
) -> *mut Cq {
    // SAFETY: By the contract of the header.
    let object = unsafe { &*context };
    let entries = u32::try_from(cqe).unwrap_or(0);
    let queue = object.context.create_completion_queue(entries);
    let cq = give(queue.map(|queue| Cq {
        number: queue.number(),
        queue: Mutex::new(queue),
        cq_context,
        users: Arc::new(()),
        counted: object.count(),
    }));
    // SAFETY: Made just now, or NULL.
    if let Some(made) = unsafe { cq.as_ref() } {
        lock(&object.cqs).insert(made.number, CqPointer(cq));
    }
    cq
}

#[no_mangle]
pub unsafe extern "C" fn superp_destroy_cq(cq: *mut Cq) -> c_int {
    // SAFETY: By the contract of the header.
    let object = unsafe { &*cq };
    if Arc::strong_count(&object.users) > 1 {
        return libc::EBUSY;
    }
    lock(&object.counted.0.cqs).remove(&object.number);
    // SAFETY: From superp_create_cq(), and used no more.
    drop(unsafe { Box::from_raw(cq) });
    0
}

fn opcode(opcode: Opcode) -> u8 {
    match opcode {
        Opcode::Write => uapi::SUPERP_OP_WRITE,
        Opcode::Read => uapi::SUPERP_OP_READ,
        Opcode::FetchAdd => uapi::SUPERP_OP_FETCH_ADD,
        Opcode::CompareSwap => uapi::SUPERP_OP_COMPARE_SWAP,
        Opcode::Swap => uapi::SUPERP_OP_SWAP,
        Opcode::Send => uapi::SUPERP_OP_SEND,
        Opcode::Receive => uapi::SUPERP_OP_RECV,
        Opcode::ReceiveWrite => uapi::SUPERP_OP_RECV_WRITE,
        Opcode::Unknown(other) => other,
    }
}

impl Wc {
    fn new(completion: &Completion) -> Self {
        let error = completion.result.err();
        let (status, minor) = error.map_or((0, 0), |error| error.code);
        Self {
            wr_id: completion.token,
            status: status.into(),
            minor: minor.into(),
            error: error.map_or(0, |error| error.errno as u32),
            opcode: opcode(completion.opcode).into(),
            byte_len: completion.length,
            imm_data: completion.immediate.unwrap_or(0),
            wc_flags: completion.immediate.map_or(0, |_| SUPERP_WC_WITH_IMM),
            qp_index: completion.queue_pair,
        }
    }
}

#[no_mangle]
pub unsafe extern "C" fn superp_poll_cq(cq: *mut Cq, num_entries: c_int, wc: *mut Wc) -> c_int {
    let Ok(most) = u32::try_from(num_entries) else {
        return -libc::EINVAL;
    };
    let mut next = wc;
    // SAFETY: By the contract of the header.
    let polled = lock(unsafe { &(*cq).queue }).poll(most, |completion| {
        // SAFETY: The caller's array has room for `most` of them.
        unsafe {
            next.write(Wc::new(&completion));
            next = next.add(1);
        }
    });
    match polled {
        Ok(count) => count as c_int,
        Err(error) => -error.errno(),
    }
}

#[no_mangle]
pub unsafe extern "C" fn superp_req_notify_cq(cq: *mut Cq) -> c_int {
    // SAFETY: By the contract of the header.
    armed(lock(unsafe { &(*cq).queue }).request_notify())
}

#[no_mangle]
pub unsafe extern "C" fn superp_req_notify_cq_solicited(cq: *mut Cq) -> c_int {
    // SAFETY: By the contract of the header.
    armed(lock(unsafe { &(*cq).queue }).request_notify_solicited())
}

/// Whether what is asked to be told of has not happened yet.
fn armed(later: bool) -> c_int {
    match later {
        true => 0,
        false => libc::EAGAIN,
    }
}

#[no_mangle]
pub unsafe extern "C" fn superp_set_cq_eventfd(cq: *mut Cq, fd: c_int) -> c_int {
    if fd < 0 {
        return libc::EBADF;
    }
    // SAFETY: By the contract of the header; the caller has the descriptor open.
    let (queue, fd) = unsafe { (&(*cq).queue, BorrowedFd::borrow_raw(fd)) };
    match lock(queue).set_event_fd(fd) {
        Ok(()) => 0,
        Err(error) => error.errno(),
    }
}

#[no_mangle]
pub unsafe extern "C" fn superp_serve(context: *mut ContextHandle, usec: u32) -> c_int {
    // SAFETY: By the contract of the header.
    let object = unsafe { &*context };
    match object.context.serve(Duration::from_micros(usec.into())) {
        Ok(_) => 0,
        Err(error) => error.errno(),
    }
}

#[no_mangle]
pub unsafe extern "C" fn superp_get_cq_event(
    context: *mut ContextHandle,
    timeout: c_int,
    cq: *mut *mut Cq,
    cq_context: *mut *mut c_void,
) -> c_int {
    // SAFETY: By the contract of the header.
    let object = unsafe { &*context };
    let timeout = u64::try_from(timeout).ok().map(Duration::from_millis);
    let end = timeout.map(|timeout| Instant::now() + timeout);
    loop {
        let left = end.map(|end| end.saturating_duration_since(Instant::now()));
        let number = match object.context.next_event(left) {
            Ok(Some(number)) => number,
            Ok(None) => return libc::ETIMEDOUT,
            Err(error) => return error.errno(),
        };
        let found = lock(&object.cqs).get(&number).copied();
        // The event of one that was destroyed is nobody's.
        if let Some(CqPointer(found)) = found {
            // SAFETY: The program does not destroy a queue while it waits for its event; the places are
            // the caller's, or NULL.
            unsafe {
                if let Some(place) = cq_context.as_mut() {
                    *place = (*found).cq_context;
                }
                if let Some(place) = cq.as_mut() {
                    *place = found;
                }
            }
            return 0;
        }
    }
}

#[no_mangle]
pub unsafe extern "C" fn superp_create_srq(
    context: *mut ContextHandle,
    attr: *const SrqInitAttr,
) -> *mut Srq {
    // SAFETY: By the contract of the header.
    let (object, attr) = unsafe { (&*context, &*attr) };
    let queue = object
        .context
        .create_shared_receive_queue(attr.max_wr, attr.max_sge);
    give(queue.map(|queue| Srq {
        queue: Mutex::new(queue),
        srq_context: attr.srq_context,
        users: Arc::new(()),
        _counted: object.count(),
    }))
}

#[no_mangle]
pub unsafe extern "C" fn superp_destroy_srq(srq: *mut Srq) -> c_int {
    // SAFETY: By the contract of the header.
    if Arc::strong_count(unsafe { &(*srq).users }) > 1 {
        return libc::EBUSY;
    }
    // SAFETY: From superp_create_srq(), and used no more.
    drop(unsafe { Box::from_raw(srq) });
    0
}

#[no_mangle]
pub unsafe extern "C" fn superp_set_srq_eventfd(srq: *mut Srq, fd: c_int) -> c_int {
    if fd < 0 {
        return libc::EBADF;
    }
    // SAFETY: By the contract of the header; the caller has the descriptor open.
    let (queue, fd) = unsafe { (&(*srq).queue, BorrowedFd::borrow_raw(fd)) };
    match lock(queue).set_event_fd(fd) {
        Ok(()) => 0,
        Err(error) => error.errno(),
    }
}

#[no_mangle]
pub unsafe extern "C" fn superp_set_srq_limit(srq: *mut Srq, limit: u32) -> c_int {
    // SAFETY: By the contract of the header.
    armed(!lock(unsafe { &(*srq).queue }).set_limit(limit))
}

#[no_mangle]
pub unsafe extern "C" fn superp_srq_context(srq: *const Srq) -> *mut c_void {
    // SAFETY: By the contract of the header.
    unsafe { (*srq).srq_context }
}

#[no_mangle]
pub unsafe extern "C" fn superp_create_qp(
    context: *mut ContextHandle,
    attr: *const QpInitAttr,
) -> *mut Qp {
    // SAFETY: By the contract of the header.
    let (object, attr) = unsafe { (&*context, &*attr) };
    if attr.send_cq.is_null() || attr.recv_cq.is_null() {
        set_errno(libc::EINVAL);
        return ptr::null_mut();
    }
    // SAFETY: By the contract of the header.
    let (send, receive) = unsafe { (&*attr.send_cq.cast::<Cq>(), &*attr.recv_cq.cast::<Cq>()) };
    // SAFETY: As above, or NULL.
    let srq = unsafe { attr.srq.cast::<Srq>().as_ref() };
    let options = QueuePairOptions {
        send_entries: attr.max_send_wr,
        receive_entries: attr.max_recv_wr,
        send_parts: attr.max_send_sge,
        receive_parts: attr.max_recv_sge,
        inline: attr.max_inline_data,
        shared: srq.map(|srq| lock(&srq.queue).handle()),
        number: attr.qp_num,
    };
    let made = object
        .context
        .create_queue_pair_of_shared(&send.queue, &receive.queue, &options);
    give(made.map(|made| {
        let (number, index) = (made.number(), made.index());
        let (send_queue, receive_queue) = made.into_split();
        Qp {
            send: Mutex::new(send_queue),
            receive: Mutex::new(receive_queue),
            number,
            index,
            qp_context: attr.qp_context,
            _users: [
                Some(send.users.clone()),
                Some(receive.users.clone()),
                srq.map(|srq| srq.users.clone()),
            ],
            _counted: object.count(),
        }
    }))
}

#[no_mangle]
pub unsafe extern "C" fn superp_destroy_qp(qp: *mut Qp) -> c_int {
    // SAFETY: From superp_create_qp(), and used no more.
    drop(unsafe { Box::from_raw(qp) });
    0
}

#[no_mangle]
pub unsafe extern "C" fn superp_qp_num(qp: *const Qp) -> u32 {
    // SAFETY: By the contract of the header.
    unsafe { (*qp).number }
}

#[no_mangle]
pub unsafe extern "C" fn superp_qp_index(qp: *const Qp) -> u32 {
    // SAFETY: By the contract of the header.
    unsafe { (*qp).index }
}

#[no_mangle]
pub unsafe extern "C" fn superp_qp_context(qp: *const Qp) -> *mut c_void {
    // SAFETY: By the contract of the header.
    unsafe { (*qp).qp_context }
}

#[no_mangle]
pub unsafe extern "C" fn superp_connect_qp(
    qp: *mut Qp,
    peer: *const sockaddr_superp,
    attr: *mut ConnAttr,
) -> c_int {
    // SAFETY: By the contract of the header.
    let (qp, peer, attr) = unsafe { (&*qp, &*peer, attr.as_mut()) };
    let cid = match peer.ssp_cid {
        uapi::SUPERP_CID_ANY => None,
        cid => match u16::try_from(cid) {
            Ok(cid) => Some(cid),
            Err(_) => return libc::EINVAL,
        },
    };
    let peer = Address {
        addr: IpAddr::V6(Ipv6Addr::from(peer.ssp_addr)),
        qpn: peer.ssp_qpn,
        cid,
    };
    match lock(&qp.send).connect(&peer) {
        Ok(connected) => {
            if let Some(place) = attr {
                let ext = [0, uapi::SUPERP_QP_F_EXT][usize::from(connected.ext)];
                let ordered = [0, uapi::SUPERP_QP_F_ORDERED][usize::from(connected.ordered)];
                *place = ConnAttr {
                    cid: connected.peer.cid.map_or(uapi::SUPERP_CID_ANY, u32::from),
                    flags: ext | ordered,
                    max_message: connected.max_message,
                    min_message: connected.min_message,
                };
            }
            0
        }
        Err(error) => told(error).errno(),
    }
}

#[no_mangle]
pub unsafe extern "C" fn superp_modify_qp(
    qp: *mut Qp,
    attr: *const QpAttr,
    attr_mask: u32,
) -> c_int {
    // SAFETY: By the contract of the header.
    let (qp, attr) = unsafe { (&*qp, &*attr) };
    let to = match (attr_mask, attr.qp_state) {
        (0, _) => return 0,
        (SUPERP_QP_STATE, uapi::SUPERP_QPS_ERR) => QueuePairState::Error,
        _ => return libc::EINVAL,
    };
    match lock(&qp.send).modify(to) {
        Ok(()) => 0,
        Err(error) => error.errno(),
    }
}

#[no_mangle]
pub unsafe extern "C" fn superp_query_qp(qp: *mut Qp, attr: *mut QpAttr, attr_mask: u32) -> c_int {
    if attr_mask & !SUPERP_QP_STATE != 0 {
        return libc::EINVAL;
    }
    // SAFETY: By the contract of the header.
    let state = lock(unsafe { &(*qp).send }).state();
    let qp_state = match state {
        QueuePairState::Init => uapi::SUPERP_QPS_INIT,
        QueuePairState::ReadyToSend => uapi::SUPERP_QPS_RTS,
        QueuePairState::Error => uapi::SUPERP_QPS_ERR,
    };
    // SAFETY: The caller's place.
    unsafe { attr.write(QpAttr { qp_state }) };
    0
}

/// The sentences of `Fault`, as C strings.
macro_rules! sentences {
    ($status:expr, $minor:expr; $($code:pat => $text:literal,)*) => {
        match ($status, $minor) {
            $($code => $text.as_ptr(),)*
        }
    };
}

#[no_mangle]
pub extern "C" fn superp_wc_status_str(status: u32, minor: u32) -> *const c_char {
    sentences! { status, minor;
        (0, _) => c"success",
        (1, 1) => c"length not allowed",
        (1, _) => c"malformed request",
        (2, _) => c"operation not supported",
        (3, 1) => c"no memory region of this key",
        (3, 2) => c"outside of the memory region",
        (3, 3) => c"not permitted by the memory region",
        (3, 4) => c"memory region of another partition",
        (3, _) => c"memory access refused",
        (4, _) => c"no receive buffer, or one that is too short",
        (5, _) => c"no such queue pair",
        (6, _) => c"the peer is out of resources",
        (7, _) => c"aborted",
        _ => c"unknown failure",
    }
}
