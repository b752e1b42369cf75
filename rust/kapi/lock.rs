// SPDX-License-Identifier: GPL-2.0

//! A spinlock that is held with bottom halves off.
//!
//! It protects data that both system calls and softirqs touch: a softirq can never interrupt the
//! owner on its own CPU.

use super::bindings as c;
use kernel::{bindings, ffi, sync::lock};

/// Data behind a `spinlock_t` that is taken by `spin_lock_bh`. Made by [`new_spinlock_bh!`].
pub(crate) type SpinLockBh<T> = lock::Lock<T, BhBackend>;

/// The owner's access to the data of a [`SpinLockBh`].
#[allow(dead_code)]
pub(crate) type GuardBh<'a, T> = lock::Guard<'a, T, BhBackend>;

/// Initialises a [`SpinLockBh`] with the given data and an optional name for lockdep; each place
/// where this stands is a lock class of its own.
macro_rules! new_spinlock_bh {
    ($inner:expr $(, $name:literal)? $(,)?) => {
        $crate::kapi::lock::SpinLockBh::new(
            $inner, ::kernel::optional_name!($($name)?), ::kernel::static_lock_class!())
    };
}
pub(crate) use new_spinlock_bh;

/// The backend of [`SpinLockBh`].
pub(crate) struct BhBackend;

// SAFETY: A `spinlock_t` has one owner at a time. `relock` is the default, which locks the same
// way.
unsafe impl lock::Backend for BhBackend {
    type State = bindings::spinlock_t;
    type GuardState = ();

    #[inline]
    unsafe fn init(
        ptr: *mut Self::State,
        name: *const ffi::c_char,
        key: *mut bindings::lock_class_key,
    ) {
        // SAFETY: By this function's contract `ptr` is valid for writes, `name` and `key` for
        // reads, indefinitely.
        unsafe { bindings::__spin_lock_init(ptr, name, key) }
    }

    #[inline]
    unsafe fn lock(ptr: *mut Self::State) {
        // SAFETY: By this function's contract the lock is initialised.
        unsafe { c::superp_spin_lock_bh(ptr.cast()) }
    }

    #[inline]
    unsafe fn try_lock(ptr: *mut Self::State) -> Option<()> {
        // SAFETY: By this function's contract the lock is initialised.
        unsafe { c::superp_spin_trylock_bh(ptr.cast()) }.then_some(())
    }

    #[inline]
    unsafe fn unlock(ptr: *mut Self::State, _state: &()) {
        // SAFETY: By this function's contract the caller owns the lock.
        unsafe { c::superp_spin_unlock_bh(ptr.cast()) }
    }

    #[inline]
    unsafe fn assert_is_held(ptr: *mut Self::State) {
        // SAFETY: By this function's contract the lock is initialised.
        unsafe { bindings::spin_assert_is_held(ptr) }
    }
}
