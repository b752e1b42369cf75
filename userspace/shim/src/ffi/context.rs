// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Contexts, as objects: what belongs to one, and its asynchronous events.

use super::abi::*;
use super::device;
use super::router::Router;
use super::{errno, minus_one};
use libc::c_int;
use std::collections::HashMap;
use std::mem::offset_of;
use std::os::fd::AsRawFd;
use std::slice;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use superp_verbs::uapi;
use superp_verbs::{Part, Poller};

// The parts of a request are the program's list.
const _: () = assert!(
    size_of::<Part>() == size_of::<ibv_sge>()
        && offset_of!(Part, addr) == offset_of!(ibv_sge, addr)
        && offset_of!(Part, length) == offset_of!(ibv_sge, length)
        && offset_of!(Part, key) == offset_of!(ibv_sge, lkey)
);

/// A region, for the check of local memory.
pub(super) struct RegionInfo {
    /// Address of its protection domain.
    pub(super) pd: usize,
    pub(super) start: u64,
    pub(super) len: u64,
}

/// `struct ibv_context`, inside `struct verbs_context`.
#[repr(C)]
pub(super) struct Context {
    public: verbs_context,
    pub(super) context: superp_verbs::Context,
    _poller: Option<Poller>,
    /// Regions by their keys.
    pub(super) regions: RwLock<HashMap<u32, RegionInfo>>,
    pub(super) router: Arc<Router>,
    /// Numbers in the node of the queue pairs, by those in the context.
    pub(super) numbers: [AtomicU32; uapi::SUPERP_MAX_RING_QPS as usize],
    /// Each object of the context has one more.
    pub(super) users: Arc<()>,
}

impl Context {
    /// A new context. `public` has the functions by which programs call it.
    pub(super) fn open(device: *mut ibv_device, mut public: verbs_context) -> Result<Self, c_int> {
        let context = superp_verbs::Context::open().map_err(errno)?;
        let poller = Poller::if_wanted(&context).map_err(errno)?;
        let router = Router::new(context.clone())?;
        public.context.device = device;
        public.context.cmd_fd = context.as_raw_fd();
        public.context.async_fd = router.events().signal();
        public.context.num_comp_vectors = 1;
        public.context.abi_compat = EXTENDED as *mut _;
        Ok(Self {
            public,
            router,
            context,
            _poller: poller,
            regions: RwLock::default(),
            numbers: std::array::from_fn(|_| AtomicU32::new(0)),
            users: Arc::default(),
        })
    }

    /// The struct that programs know.
    ///
    /// # Safety
    ///
    /// It is a context.
    pub(super) unsafe fn public(context: *mut Self) -> *mut ibv_context {
        // SAFETY: By the contract of this function.
        unsafe { &raw mut (*context).public.context }
    }

    /// The context of the struct that programs know.
    ///
    /// # Safety
    ///
    /// It is an own one, and outlives `'a`.
    pub(super) unsafe fn of<'a>(context: *mut ibv_context) -> &'a Self {
        let before = offset_of!(Self, public) + offset_of!(verbs_context, context);
        // SAFETY: An own context is inside of such a struct.
        unsafe { &*context.byte_sub(before).cast() }
    }

    /// Local bytes of a request in this protection domain.
    ///
    /// # Errors
    ///
    /// EINVAL: they are not all in regions of it.
    ///
    /// # Safety
    ///
    /// The list has so many elements, for as long as they are used.
    pub(super) unsafe fn parts<'a>(
        &self,
        pd: *mut ibv_pd,
        list: *const ibv_sge,
        count: usize,
    ) -> Result<&'a [Part], c_int> {
        if count == 0 {
            return Ok(&[]);
        }
        if list.is_null() {
            return Err(libc::EINVAL);
        }
        // SAFETY: By the contract of this function; both types are the same words.
        let parts: &[Part] = unsafe { slice::from_raw_parts(list.cast(), count) };
        let regions = self.regions.read().unwrap_or_else(PoisonError::into_inner);
        let inside = |part: &Part| {
            part.length == 0
                || regions.get(&part.key).is_some_and(|region| {
                    let end = part.addr.checked_add(part.length.into());
                    region.pd == pd as usize
                        && part.addr >= region.start
                        && end.is_some_and(|end| end - region.start <= region.len)
                })
        };
        parts
            .iter()
            .all(inside)
            .then_some(parts)
            .ok_or(libc::EINVAL)
    }

    /// The number in the node of the queue pair with this number in the context.
    pub(super) fn number(&self, index: u32) -> u32 {
        let number = self.numbers.get(index as usize);
        number.map_or(0, |number| number.load(Ordering::Relaxed))
    }
}

/// Whether a context is own.
///
/// # Safety
///
/// It is a context of verbs.
pub(super) unsafe fn is_own(context: *mut ibv_context) -> bool {
    // SAFETY: By the contract of this function.
    device::is_own(unsafe { (*context).device })
}

pub(super) unsafe fn get_async_event(
    context: *mut ibv_context,
    event: *mut ibv_async_event,
) -> c_int {
    // SAFETY: An own context.
    let own = unsafe { Context::of(context) };
    minus_one(own.router.events().take().map(|taken| {
        let element = match taken.srq {
            Some(srq) => ibv_async_event__bindgen_ty_1 { srq: srq.give() },
            None => ibv_async_event__bindgen_ty_1 { port_num: 1 },
        };
        let told = ibv_async_event {
            element,
            event_type: taken.kind,
        };
        // SAFETY: The caller's struct.
        unsafe { *event = told };
    }))
}
