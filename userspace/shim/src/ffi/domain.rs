// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Protection domains and memory regions.

use super::abi::*;
use super::context::{Context, RegionInfo};
use super::{code, errno, give, tell, Failure};
use crate::rules;
use libc::{c_int, c_void, size_t};
use std::sync::{Arc, PoisonError};
use superp_sys::Registration;

/// `struct ibv_pd`. The kernel knows nothing of it; which regions a queue pair may use is checked when
/// requests are posted.
#[repr(C)]
pub(super) struct Pd {
    public: ibv_pd,
    /// Each object of the domain has one more.
    pub(super) users: Arc<()>,
    /// The domain that this one is a parent of, and one of its users.
    child: Option<(*mut ibv_pd, Arc<()>)>,
    _of_context: Arc<()>,
}

/// The domain itself: a parent domain is the same one, by another name.
///
/// # Safety
///
/// An own domain.
pub(super) unsafe fn child(pd: *mut ibv_pd) -> *mut ibv_pd {
    // SAFETY: By the contract of this function.
    let object = unsafe { &*pd.cast::<Pd>() };
    object.child.as_ref().map_or(pd, |(child, _)| *child)
}

unsafe fn new_pd(context: *mut ibv_context, child: Option<(*mut ibv_pd, Arc<()>)>) -> *mut ibv_pd {
    // SAFETY: An own context.
    let own = unsafe { Context::of(context) };
    give(Ok(Pd {
        public: ibv_pd { context, handle: 0 },
        users: Arc::default(),
        child,
        _of_context: own.users.clone(),
    }))
}

pub(super) unsafe fn alloc_pd(context: *mut ibv_context) -> *mut ibv_pd {
    // SAFETY: By the contract of verbs.
    unsafe { new_pd(context, None) }
}

/// Allocators are for devices that allocate.
pub(super) unsafe extern "C" fn alloc_parent_domain(
    context: *mut ibv_context,
    attr: *mut ibv_parent_domain_init_attr,
) -> *mut ibv_pd {
    // SAFETY: The caller's struct.
    let attr = unsafe { &*attr };
    let known = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS | IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT;
    if attr.pd.is_null() || attr.comp_mask & !known != 0 {
        return Failure::failure(libc::EINVAL);
    }
    // SAFETY: An own domain.
    let (child, users) = unsafe { (child(attr.pd), (*attr.pd.cast::<Pd>()).users.clone()) };
    // SAFETY: By the contract of verbs.
    unsafe { new_pd(context, Some((child, users))) }
}

pub(super) unsafe fn dealloc_pd(pd: *mut ibv_pd) -> c_int {
    let pd: *mut Pd = pd.cast();
    // SAFETY: An own domain.
    if Arc::strong_count(unsafe { &(*pd).users }) > 1 {
        return code(Err(libc::EBUSY));
    }
    // SAFETY: From `alloc_pd`, and used no more.
    drop(unsafe { Box::from_raw(pd) });
    0
}

/// `struct ibv_mr`.
#[repr(C)]
struct Mr {
    public: ibv_mr,
    _registration: Registration,
    _of_pd: Arc<()>,
}

/// # Safety
///
/// By the contract of verbs, with an own domain.
unsafe fn register(
    pd: *mut ibv_pd,
    addr: *mut c_void,
    length: usize,
    access: u32,
) -> Result<Mr, c_int> {
    let rights = rules::access(access)?;
    // SAFETY: An own domain.
    let (context, users) = unsafe { ((*pd).context, &(*pd.cast::<Pd>()).users) };
    // SAFETY: The context of an own domain.
    let own = unsafe { Context::of(context) };
    let partition = own.context.partition().map_err(|error| {
        tell(format_args!("memory is not registered: {error}"));
        errno(error)
    })?;
    // SAFETY: The program's memory, which it shares with the device by this call.
    let registration = unsafe {
        own.context
            .socket()
            .register_raw(addr.cast(), length, rights, partition)
    };
    let registration = registration.map_err(|error| errno(error.into()))?;
    let key = registration.key();
    if rules::rma_addr(key, addr as u64) != Ok(registration.rma_addr()) {
        tell(
            "memory is not registered: this node has a part of a global address space (superp node show), \
             in which programs for RDMA do not find their way",
        );
        return Err(libc::EOPNOTSUPP);
    }
    let info = RegionInfo {
        // SAFETY: An own domain.
        pd: unsafe { child(pd) } as usize,
        start: addr as u64,
        len: length as u64,
    };
    let mut regions = own.regions.write().unwrap_or_else(PoisonError::into_inner);
    regions.insert(key, info);
    Ok(Mr {
        public: ibv_mr {
            context,
            pd,
            addr,
            length,
            handle: key,
            lkey: key,
            rkey: key,
        },
        _registration: registration,
        _of_pd: users.clone(),
    })
}

pub(super) unsafe fn reg_mr(
    pd: *mut ibv_pd,
    addr: *mut c_void,
    length: size_t,
    access: c_int,
) -> *mut ibv_mr {
    // SAFETY: By the contract of verbs.
    give(unsafe { register(pd, addr, length, access as u32) })
}

/// Peers name memory by the address that it has here: others are refused.
pub(super) unsafe fn reg_mr_iova(
    pd: *mut ibv_pd,
    addr: *mut c_void,
    length: size_t,
    iova: u64,
    access: c_int,
) -> *mut ibv_mr {
    if iova != addr as u64 {
        return give::<Mr, _>(Err(libc::EOPNOTSUPP));
    }
    // SAFETY: The same contract.
    unsafe { reg_mr(pd, addr, length, access) }
}

pub(super) unsafe fn dereg_mr(mr: *mut ibv_mr) -> c_int {
    // SAFETY: An own region.
    let (own, key) = unsafe { (Context::of((*mr).context), (*mr).lkey) };
    let mut regions = own.regions.write().unwrap_or_else(PoisonError::into_inner);
    regions.remove(&key);
    // The key may be given again only after this.
    // SAFETY: From `register`, and used no more.
    drop(unsafe { Box::from_raw(mr.cast::<Mr>()) });
    0
}
