// SPDX-License-Identifier: GPL-2.0

//! A table of reference-counted objects by 32-bit key, read under RCU.

use super::bindings as c;
use core::{marker::PhantomData, mem::ManuallyDrop, ptr};
use kernel::{
    bindings,
    error::to_result,
    ffi,
    prelude::*,
    sync::{rcu, Arc},
    types::Opaque,
};

/// A keyed hash of two numbers: whoever chooses them cannot choose it. Any context.
pub(crate) fn hash(first: u64, second: u64) -> u32 {
    // SAFETY: No requirements.
    unsafe { c::superp_map_hash(first, second) }
}

/// Every bit of the result depends on every bit of `x` (lowbias32 by Chris Wellons).
pub(crate) fn mixed(mut x: u32) -> u32 {
    x = (x ^ (x >> 16)).wrapping_mul(0x7feb_352d);
    x = (x ^ (x >> 15)).wrapping_mul(0x846c_a68b);
    x ^ (x >> 16)
}

/// Objects that are taken out of a table during one grace period.
const BATCH: usize = 1024;

/// A table from `u32` to [`Arc<T>`] over an xarray: lookups take no lock.
///
/// The table's own reference to an object is only given up after a grace period, in process context.
/// A softirq that looked the object up therefore never drops the last reference, unless it keeps the
/// one it got.
///
/// # Invariants
///
/// - `xa` is initialised and every entry in it is a pointer from `Arc::<T>::into_raw`.
/// - The reference behind an entry is not given up before a grace period has passed since the
///   entry was erased.
#[pin_data(PinnedDrop)]
pub(crate) struct RcuMap<T: Send + Sync + 'static> {
    #[pin]
    xa: Opaque<bindings::xarray>,
    _entries: PhantomData<Arc<T>>,
}

// SAFETY: The table owns `Arc<T>`s, which may move between threads because `T: Send + Sync`.
unsafe impl<T: Send + Sync> Send for RcuMap<T> {}

// SAFETY: Changes are serialised by the xarray's lock, lookups by RCU.
unsafe impl<T: Send + Sync> Sync for RcuMap<T> {}

impl<T: Send + Sync> RcuMap<T> {
    /// The two low bits of an entry belong to the xarray.
    const ALIGNED: () = assert!(align_of::<T>() >= 4);

    /// An empty table.
    pub(crate) fn new() -> impl PinInit<Self> {
        let () = Self::ALIGNED;
        pin_init!(Self {
            // SAFETY: `xa` points to memory for an xarray.
            xa <- Opaque::ffi_init(|xa: *mut bindings::xarray| unsafe {
                c::superp_map_init(xa.cast())
            }),
            _entries: PhantomData,
        })
    }

    /// Looks an object up. Any context.
    pub(crate) fn get(&self, key: u32) -> Option<Arc<T>> {
        let rcu = rcu::read_lock();
        // SAFETY: By the type invariant the xarray is initialised.
        let entry = unsafe { bindings::xa_load(self.xa.get(), key as usize) };
        // SAFETY: `entry` was loaded under the read lock that `rcu` stands for.
        unsafe { Self::reference(entry, &rcu) }
    }

    /// The first object whose key is `from` or above, with its key. Any context.
    pub(crate) fn next(&self, from: u32) -> Option<(u32, Arc<T>)> {
        let mut index = from as usize;
        let rcu = rcu::read_lock();
        // SAFETY: By the type invariant the xarray is initialised; `index` is valid for the call.
        let entry = unsafe {
            bindings::xa_find(
                self.xa.get(),
                &mut index,
                u32::MAX as usize,
                bindings::XA_PRESENT,
            )
        };
        // SAFETY: `entry` was loaded under the read lock that `rcu` stands for.
        let object = unsafe { Self::reference(entry, &rcu) }?;
        Some((u32::try_from(index).ok()?, object))
    }

    /// Every object, with its key, in the order of the keys. What comes or goes meanwhile may be
    /// seen or not. Any context.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, Arc<T>)> + '_ {
        let mut from = Some(0);
        core::iter::from_fn(move || {
            let (key, object) = self.next(from?)?;
            from = key.checked_add(1);
            Some((key, object))
        })
    }

    /// Puts an object in. Process context.
    ///
    /// Errors: `EBUSY` if the key is taken, `ENOMEM`.
    pub(crate) fn insert(&self, key: u32, object: Arc<T>) -> Result {
        let entry: *mut ffi::c_void = Arc::into_raw(object).cast_mut().cast();
        // SAFETY: By the type invariant the xarray is initialised.
        let ret = unsafe { c::superp_map_insert(self.xa.get().cast(), key, entry) };
        if ret < 0 {
            // SAFETY: `entry` comes from `Arc::into_raw` and did not get into the table.
            drop(unsafe { Arc::from_raw(entry.cast::<T>().cast_const()) });
        }
        to_result(ret)
    }

    /// Puts an object in, in the place of the one that is there: a lookup finds one of the two. The
    /// old one is dropped after a grace period, for which this does not sleep unless there is no memory.
    /// Process context.
    ///
    /// Errors: `ENOMEM`, only if there is none.
    pub(crate) fn store(&self, key: u32, object: Arc<T>) -> Result {
        let entry: *mut ffi::c_void = Arc::into_raw(object).cast_mut().cast();
        let mut old = ptr::null_mut();
        // SAFETY: By the type invariant the xarray is initialised; `old` is valid for the call.
        let ret = unsafe { c::superp_map_store(self.xa.get().cast(), key, entry, &mut old) };
        if ret < 0 {
            // SAFETY: `entry` comes from `Arc::into_raw` and did not get into the table.
            drop(unsafe { Arc::from_raw(entry.cast::<T>().cast_const()) });
        } else if let Some(old) = ptr::NonNull::new(old) {
            // SAFETY: By the type invariant the entry owned a reference, which is ours now.
            Self::drop_later(unsafe { Arc::from_raw(old.as_ptr().cast::<T>().cast_const()) });
        }
        to_result(ret)
    }

    /// Gives up the table's reference after a grace period.
    fn drop_later(object: Arc<T>) {
        let entry: *mut ffi::c_void = Arc::into_raw(object).cast_mut().cast();
        // SAFETY: `drop_entry` is called once, with a reference to a `T` that is its own by then.
        unsafe { c::superp_map_drop_later(entry, Some(drop_entry::<T>)) };
    }

    /// Takes an object out, and returns it when no lookup that found it in the table is under way
    /// any more. Process context, sleeps for a grace period (some 10 ms).
    pub(crate) fn remove(&self, key: u32) -> Option<Arc<T>> {
        let object = self.erase(key)?;
        // SAFETY: No requirements but the context, which is this function's.
        unsafe { bindings::synchronize_rcu() };
        Some(object)
    }

    /// Takes an object out; the table's reference to it is given up later. Process context, does not
    /// sleep for a grace period unless there is no memory.
    pub(crate) fn remove_later(&self, key: u32) {
        if let Some(object) = self.erase(key) {
            Self::drop_later(object);
        }
    }

    /// Takes everything out, as [`RcuMap::remove_each`] does. What is put in meanwhile may stay.
    /// Process context.
    pub(crate) fn clear(&self) {
        self.remove_each(self.iter().map(|(key, _)| key));
    }

    /// Takes several objects out, waits as [`RcuMap::remove`] does, but once for many, and drops them.
    /// Process context.
    pub(crate) fn remove_each(&self, keys: impl Iterator<Item = u32>) {
        let mut keys = keys.peekable();
        if keys.peek().is_none() {
            return;
        }
        let mut erased = KVVec::with_capacity(BATCH, GFP_KERNEL).unwrap_or_else(|_| KVVec::new());
        for key in keys {
            let Some(object) = self.erase(key) else {
                continue;
            };
            if let Err(last) = erased.push_within_capacity(object) {
                // SAFETY: No requirements but the context, which is this function's.
                unsafe { bindings::synchronize_rcu() };
                drop(last);
                drop(erased.drain_all());
            }
        }
        if !erased.is_empty() {
            // SAFETY: As above.
            unsafe { bindings::synchronize_rcu() };
        }
    }

    /// Takes an entry out of the xarray. The caller has to keep the second type invariant.
    fn erase(&self, key: u32) -> Option<Arc<T>> {
        // SAFETY: By the type invariant the xarray is initialised.
        let entry = unsafe { c::superp_map_erase(self.xa.get().cast(), key) };
        // SAFETY: By the type invariant a non-null entry owns a reference, which is ours now.
        (!entry.is_null()).then(|| unsafe { Arc::from_raw(entry.cast::<T>().cast_const()) })
    }

    /// A new reference to the object behind an entry.
    ///
    /// # Safety
    ///
    /// `entry` was loaded from a table of this type under the read lock that `rcu` stands for.
    unsafe fn reference(entry: *mut ffi::c_void, _rcu: &rcu::Guard) -> Option<Arc<T>> {
        let object = ptr::NonNull::new(entry.cast::<T>())?;
        // SAFETY: By the type invariants the table's reference is alive for as long as the read
        // lock is held; `ManuallyDrop` keeps it the table's.
        let object = ManuallyDrop::new(unsafe { Arc::from_raw(object.as_ptr()) });
        Some(Arc::clone(&object))
    }
}

/// Gives up the reference that an entry is. Process context.
///
/// # Safety
///
/// `entry` comes from [`Arc::<T>::into_raw`], and nobody else gives it up.
unsafe extern "C" fn drop_entry<T>(entry: *mut ffi::c_void) {
    // SAFETY: By the requirement on the caller.
    drop(unsafe { Arc::from_raw(entry.cast::<T>().cast_const()) });
}

#[pinned_drop]
impl<T: Send + Sync> PinnedDrop for RcuMap<T> {
    /// Process context if the objects' destructors need it.
    fn drop(self: Pin<&mut Self>) {
        // Nobody else has access any more, so no lookup can be under way.
        while let Some((key, _)) = self.next(0) {
            drop(self.erase(key));
        }
        // SAFETY: The xarray is initialised and not used after this.
        unsafe { bindings::xa_destroy(self.xa.get()) };
    }
}
