// SPDX-License-Identifier: GPL-2.0

//! High-resolution timers that expire in softirq.
//!
//! The `kernel` crate's `HrTimer` ties a running timer to a handle, and dropping the handle waits
//! for the callback. A protocol timer is started in softirq, with the lock held that the callback
//! takes, where such a wait would deadlock. Here a running timer owns a reference to its object
//! instead, as TCP's timers do.

use super::{
    bindings as c,
    compat::HRTIMER_NORESTART,
    lock::{new_spinlock_bh, SpinLockBh},
};
use core::mem;
use kernel::{bindings, prelude::*, sync::Arc, types::Opaque};

/// A timer may expire late by the time until it expires, divided by this number.
const SLACK: u64 = 4;

/// Nanoseconds of CLOCK_MONOTONIC. Any context.
pub(crate) fn now() -> u64 {
    // SAFETY: `ktime_get()` has no requirements.
    unsafe { bindings::ktime_get() }.try_into().unwrap_or(0)
}

/// The callback of a [`Timer`].
pub(crate) trait TimerCallback: Send + Sync + 'static {
    /// Called when the timer expires, which may be before the deadline. The implementation checks
    /// its deadlines under the lock under which they change, and starts the timer for the next one.
    ///
    /// Softirq, no lock held. If `this` is the last reference, the object is dropped here.
    fn expired(this: &Arc<Self>);
}

/// A one-shot timer: CLOCK_MONOTONIC, absolute, pinned to the CPU that starts it, soft mode. It
/// usually is a field of the object that it calls.
///
/// # Invariants
///
/// - `hrtimer` is initialised. It is started only with `armed` locked.
/// - `armed` is not `None` while `hrtimer` is queued, and until its callback locks `armed`.
#[pin_data(PinnedDrop)]
pub(crate) struct Timer<T: TimerCallback> {
    #[pin]
    hrtimer: Opaque<bindings::hrtimer>,
    #[pin]
    armed: SpinLockBh<Option<Armed<T>>>,
}

/// Expiry of a running timer, in ns of [`now`], and the object to call.
struct Armed<T> {
    at: u64,
    object: Arc<T>,
}

// SAFETY: An hrtimer is not bound to a thread, and `armed` is `Send`.
unsafe impl<T: TimerCallback> Send for Timer<T> {}

// SAFETY: `armed` serialises starts of `hrtimer`, and the kernel serialises the rest.
unsafe impl<T: TimerCallback> Sync for Timer<T> {}

impl<T: TimerCallback> Timer<T> {
    const MODE: bindings::hrtimer_mode = bindings::hrtimer_mode_HRTIMER_MODE_ABS_PINNED_SOFT;

    /// A timer that is not running. Any context.
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            // SAFETY: `hrtimer` is writable memory for an hrtimer. It is the field of a `Timer<T>`,
            // as `run` requires.
            hrtimer <- Opaque::ffi_init(|hrtimer: *mut bindings::hrtimer| unsafe {
                bindings::hrtimer_setup(
                    hrtimer,
                    Some(Self::run),
                    bindings::CLOCK_MONOTONIC as bindings::clockid_t,
                    Self::MODE,
                )
            }),
            armed <- new_spinlock_bh!(None, "superp_timer"),
        })
    }

    /// Makes the timer expire at `at`, in ns of [`now`]. Any context but hard interrupts; locks may
    /// be held.
    ///
    /// The timer may expire later, by a quarter of the time from `now` to `at`, so that one
    /// interrupt serves many timers. It expires earlier if it is already running for an earlier
    /// time: postponing a deadline costs nothing, because the callback finds nothing due and starts
    /// the timer again. If `at` changes only under a lock that the callback takes, no deadline is
    /// lost.
    pub(crate) fn start_abs(&self, object: &Arc<T>, now: u64, at: u64) {
        let mut armed = self.armed.lock();
        match &mut *armed {
            Some(armed) if armed.at <= at => return,
            Some(armed) => armed.at = at,
            None => {
                *armed = Some(Armed {
                    at,
                    object: object.clone(),
                })
            }
        }
        // SAFETY: By the type invariant `hrtimer` is initialised; `armed` is locked.
        unsafe {
            bindings::hrtimer_start_range_ns(
                self.hrtimer.get(),
                i64::try_from(at).unwrap_or(i64::MAX),
                at.saturating_sub(now) / SLACK,
                Self::MODE,
            )
        };
    }

    /// Stops the timer, and waits for a running callback. If nothing starts the timer meanwhile,
    /// the object is not called after this function returns. Process context; no lock held that the
    /// callback takes.
    pub(crate) fn cancel_sync(&self) {
        loop {
            // SAFETY: By the type invariant `hrtimer` is initialised.
            unsafe { bindings::hrtimer_cancel(self.hrtimer.get()) };
            let mut armed = self.armed.lock();
            // SAFETY: By the type invariant `hrtimer` is initialised. Nobody starts it, because
            // `armed` is locked.
            if unsafe { !bindings::hrtimer_active(self.hrtimer.get()) } {
                let stopped = armed.take();
                drop(armed);
                // The lock may be part of the object, so drop the last reference without it.
                drop(stopped);
                return;
            }
        }
    }

    /// The callback of `hrtimer`.
    ///
    /// # Safety
    ///
    /// `hrtimer` is the field of a `Timer<T>`, which lives until this function unlocks `armed`.
    unsafe extern "C" fn run(hrtimer: *mut bindings::hrtimer) -> bindings::hrtimer_restart {
        let field = Opaque::cast_from(hrtimer);
        // SAFETY: By this function's contract `hrtimer` is the field of a living `Timer<T>`.
        let this = unsafe { &*kernel::container_of!(field, Self, hrtimer) };
        let mut armed = this.armed.lock();
        // SAFETY: By the type invariant `hrtimer` is initialised. Nothing starts it while `armed`
        // is locked, and `hrtimer_cancel()` does not dequeue it while its callback runs, so the
        // answer stays valid.
        let due = if unsafe { c::superp_timer_queued(hrtimer.cast()) } {
            // The timer was started again after it expired and before this callback took the lock.
            // The callback of that start calls the object.
            None
        } else {
            mem::take(&mut *armed)
        };
        drop(armed);
        // From here on the object may be dropped, and the timer with it.
        if let Some(Armed { object, .. }) = due {
            T::expired(&object);
        }
        HRTIMER_NORESTART
    }
}

#[pinned_drop]
impl<T: TimerCallback> PinnedDrop for Timer<T> {
    fn drop(self: Pin<&mut Self>) {
        // A timer that is a field of its object is not armed here, because an armed timer holds the
        // object. The callback itself may have dropped the last reference, and must not wait for
        // its own end.
        if self.armed.lock().is_some() {
            self.cancel_sync();
        }
    }
}
