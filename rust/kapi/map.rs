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

/// A hash of two numbers with a random key, so that a peer who chooses the numbers cannot choose
/// the hash. Any context.
pub(crate) fn hash(first: u64, second: u64) -> u32 {
    // SAFETY: `superp_map_hash()` has no requirements.
    unsafe { c::superp_map_hash(first, second) }
}

/// Mixes `x`: every bit of the result depends on every bit of `x` (lowbias32 by Chris Wellons).
pub(crate) fn mixed(mut x: u32) -> u32 {
    x = (x ^ (x >> 16)).wrapping_mul(0x7feb_352d);
    x = (x ^ (x >> 15)).wrapping_mul(0x846c_a68b);
    x ^ (x >> 16)
}

/// Most objects that [`RcuMap::remove_each`] removes in one grace period.
const BATCH: usize = 1024;

/// A table from `u32` to [`Arc<T>`] in an xarray. Lookups take no lock.
///
/// The table drops its reference to an object in process context, a grace period after it has
/// removed the object. A softirq that looks an object up therefore never drops the last reference,
/// unless it keeps the reference.
///
/// # Invariants
///
/// - `xa` is initialised, and each entry is a pointer from `Arc::<T>::into_raw`.
/// - The reference behind an entry is dropped not before a grace period after its removal.
#[pin_data(PinnedDrop)]
pub(crate) struct RcuMap<T: Send + Sync + 'static> {
    #[pin]
    xa: Opaque<bindings::xarray>,
    _entries: PhantomData<Arc<T>>,
}

// SAFETY: The table owns `Arc<T>`s, which may be sent to another thread because `T: Send + Sync`.
unsafe impl<T: Send + Sync> Send for RcuMap<T> {}

// SAFETY: The xarray's lock serialises changes, and RCU protects lookups.
unsafe impl<T: Send + Sync> Sync for RcuMap<T> {}

impl<T: Send + Sync> RcuMap<T> {
    /// The xarray uses the two low bits of an entry.
    const ALIGNED: () = assert!(align_of::<T>() >= 4);

    /// An empty table. Any context.
    pub(crate) fn new() -> impl PinInit<Self> {
        let () = Self::ALIGNED;
        pin_init!(Self {
            // SAFETY: `xa` points to writable memory for an xarray.
            xa <- Opaque::ffi_init(|xa: *mut bindings::xarray| unsafe {
                c::superp_map_init(xa.cast())
            }),
            _entries: PhantomData,
        })
    }

    /// The object with key `key`. Any context.
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

    /// All objects and their keys, in the order of the keys. Objects that are inserted or removed
    /// during the iteration may be missing. Any context.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, Arc<T>)> + '_ {
        let mut from = Some(0);
        core::iter::from_fn(move || {
            let (key, object) = self.next(from?)?;
            from = key.checked_add(1);
            Some((key, object))
        })
    }

    /// Inserts an object. Process context; may sleep.
    ///
    /// # Errors
    ///
    /// - `EBUSY`: the key is in use.
    /// - `ENOMEM`
    pub(crate) fn insert(&self, key: u32, object: Arc<T>) -> Result {
        let entry: *mut ffi::c_void = Arc::into_raw(object).cast_mut().cast();
        // SAFETY: By the type invariant the xarray is initialised.
        let ret = unsafe { c::superp_map_insert(self.xa.get().cast(), key, entry) };
        if ret < 0 {
            // SAFETY: `entry` comes from `Arc::into_raw`, and the table did not take it.
            drop(unsafe { Arc::from_raw(entry.cast::<T>().cast_const()) });
        }
        to_result(ret)
    }

    /// Inserts an object, or replaces the object with the same key: a lookup finds one of the two.
    /// The replaced object is dropped after a grace period, for which this function waits only if
    /// memory is short. Process context; may sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`
    pub(crate) fn store(&self, key: u32, object: Arc<T>) -> Result {
        let entry: *mut ffi::c_void = Arc::into_raw(object).cast_mut().cast();
        let mut old = ptr::null_mut();
        // SAFETY: By the type invariant the xarray is initialised; `old` is valid for the call.
        let ret = unsafe { c::superp_map_store(self.xa.get().cast(), key, entry, &mut old) };
        if ret < 0 {
            // SAFETY: `entry` comes from `Arc::into_raw`, and the table did not take it.
            drop(unsafe { Arc::from_raw(entry.cast::<T>().cast_const()) });
        } else if let Some(old) = ptr::NonNull::new(old) {
            // SAFETY: By the type invariant the entry owned a reference. The entry was replaced, so
            // the reference is the caller's.
            Self::drop_later(unsafe { Arc::from_raw(old.as_ptr().cast::<T>().cast_const()) });
        }
        to_result(ret)
    }

    /// Drops the table's reference after a grace period.
    fn drop_later(object: Arc<T>) {
        let entry: *mut ffi::c_void = Arc::into_raw(object).cast_mut().cast();
        // SAFETY: `drop_entry` is called once, with the reference that `entry` owns.
        unsafe { c::superp_map_drop_later(entry, Some(drop_entry::<T>)) };
    }

    /// Removes an object, and waits until all lookups that found it in the table have ended.
    /// Process context; sleeps for a grace period (about 10 ms).
    pub(crate) fn remove(&self, key: u32) -> Option<Arc<T>> {
        let object = self.erase(key)?;
        // SAFETY: `synchronize_rcu()` may be called in process context.
        unsafe { bindings::synchronize_rcu() };
        Some(object)
    }

    /// Removes an object and drops the table's reference after a grace period, for which this
    /// function waits only if memory is short. Process context; may sleep.
    pub(crate) fn remove_later(&self, key: u32) {
        if let Some(object) = self.erase(key) {
            Self::drop_later(object);
        }
    }

    /// Removes all objects as [`RcuMap::remove_each`] does. An object that is inserted meanwhile
    /// may stay. Process context; sleeps for a grace period.
    pub(crate) fn clear(&self) {
        self.remove_each(self.iter().map(|(key, _)| key));
    }

    /// Removes several objects, waits for one grace period per 1024 of them, and drops them.
    /// Process context; sleeps.
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
                // SAFETY: `synchronize_rcu()` may be called in process context.
                unsafe { bindings::synchronize_rcu() };
                drop(last);
                drop(erased.drain_all());
            }
        }
        if !erased.is_empty() {
            // SAFETY: `synchronize_rcu()` may be called in process context.
            unsafe { bindings::synchronize_rcu() };
        }
    }

    /// Removes an entry from the xarray. The caller has to keep the second type invariant.
    fn erase(&self, key: u32) -> Option<Arc<T>> {
        // SAFETY: By the type invariant the xarray is initialised.
        let entry = unsafe { c::superp_map_erase(self.xa.get().cast(), key) };
        // SAFETY: By the type invariant a non-null entry owned a reference. The entry was removed,
        // so the reference is the caller's.
        (!entry.is_null()).then(|| unsafe { Arc::from_raw(entry.cast::<T>().cast_const()) })
    }

    /// Takes a new reference to the object behind an entry.
    ///
    /// # Safety
    ///
    /// `entry` was loaded from a table of this type under the read lock of `rcu`.
    unsafe fn reference(entry: *mut ffi::c_void, _rcu: &rcu::Guard) -> Option<Arc<T>> {
        let object = ptr::NonNull::new(entry.cast::<T>())?;
        // SAFETY: By the type invariants the table's reference stays until the read lock is
        // released. `ManuallyDrop` keeps this `Arc` from dropping it.
        let object = ManuallyDrop::new(unsafe { Arc::from_raw(object.as_ptr()) });
        Some(Arc::clone(&object))
    }
}

/// Drops the reference that an entry owns. Process context.
///
/// # Safety
///
/// `entry` comes from [`Arc::<T>::into_raw`], and nobody else drops that reference.
unsafe extern "C" fn drop_entry<T>(entry: *mut ffi::c_void) {
    // SAFETY: By this function's contract `entry` owns a reference, which is dropped once.
    drop(unsafe { Arc::from_raw(entry.cast::<T>().cast_const()) });
}

#[pinned_drop]
impl<T: Send + Sync> PinnedDrop for RcuMap<T> {
    /// Process context if the destructor of `T` needs it.
    fn drop(self: Pin<&mut Self>) {
        // `&mut self` is exclusive, so no lookup can be running.
        while let Some((key, _)) = self.next(0) {
            drop(self.erase(key));
        }
        // SAFETY: By the type invariant the xarray is initialised, and it is not used afterwards.
        unsafe { bindings::xa_destroy(self.xa.get()) };
    }
}
