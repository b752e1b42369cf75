// SPDX-License-Identifier: GPL-2.0

//! A spinlock that is held with bottom halves disabled.
//!
//! It protects data that both system calls and softirqs use. With bottom halves disabled, a softirq
//! cannot interrupt the owner on its CPU and spin on the lock forever.

use super::bindings as c;
use kernel::{bindings, ffi, sync::lock};

/// Data behind a `spinlock_t` that `spin_lock_bh()` takes. [`new_spinlock_bh!`] initialises it.
pub(crate) type SpinLockBh<T> = lock::Lock<T, BhBackend>;

/// Access of the lock's owner to the data of a [`SpinLockBh`].
#[allow(dead_code)]
pub(crate) type GuardBh<'a, T> = lock::Guard<'a, T, BhBackend>;

/// Initialises a [`SpinLockBh`] with the given data and an optional name for lockdep. Each use of
/// the macro is a lock class of its own.
macro_rules! new_spinlock_bh {
    ($inner:expr $(, $name:literal)? $(,)?) => {
        $crate::kapi::lock::SpinLockBh::new(
            $inner, ::kernel::optional_name!($($name)?), ::kernel::static_lock_class!())
    };
}
pub(crate) use new_spinlock_bh;

/// The lock backend of [`SpinLockBh`].
pub(crate) struct BhBackend;

// SAFETY: A `spinlock_t` has one owner at a time. `relock()` is the default implementation, which
// calls `lock()`.
unsafe impl lock::Backend for BhBackend {
    type State = bindings::spinlock_t;
    type GuardState = ();

    #[inline]
    unsafe fn init(
        ptr: *mut Self::State,
        name: *const ffi::c_char,
        key: *mut bindings::lock_class_key,
    ) {
        // SAFETY: By this function's contract `ptr` is valid for writes, and `name` and `key` are
        // valid for reads indefinitely.
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
