// SPDX-License-Identifier: GPL-2.0

//! Deadlines: high resolution timers that expire in softirq.
//!
//! The `kernel` crate's `HrTimer` ties a running timer to a handle whose drop waits for the
//! callback. A protocol timer is started from places where that must not happen (a softirq, with
//! the lock held that the callback takes), so here a running timer owns a reference to its object
//! instead, as TCP's timers do.

use super::{
    bindings as c,
    compat::HRTIMER_NORESTART,
    lock::{new_spinlock_bh, SpinLockBh},
};
use core::mem;
use kernel::{bindings, prelude::*, sync::Arc, types::Opaque};

/// The part of the time until a deadline by which it may be missed.
const SLACK: u64 = 4;

/// Nanoseconds of CLOCK_MONOTONIC. Any context.
pub(crate) fn now() -> u64 {
    // SAFETY: No requirements.
    unsafe { bindings::ktime_get() }.try_into().unwrap_or(0)
}

/// What a [`Timer`] calls.
pub(crate) trait TimerCallback: Send + Sync + 'static {
    /// A deadline was reached, or an earlier one that has been put off since. Looks its deadlines
    /// up again, under the lock under which they change, and starts the timer for the next.
    ///
    /// Softirq, no lock held. If `this` is the last reference, the object is dropped there.
    fn expired(this: &Arc<Self>);
}

/// A one-shot timer (CLOCK_MONOTONIC, absolute, pinned to the CPU that starts it, soft mode),
/// usually a field of the object it calls.
///
/// # Invariants
///
/// - `hrtimer` is initialised, and is started and stopped only with `armed` locked.
/// - While it is queued, and until the callback has run, `armed` is not `None`.
#[pin_data(PinnedDrop)]
pub(crate) struct Timer<T: TimerCallback> {
    #[pin]
    hrtimer: Opaque<bindings::hrtimer>,
    #[pin]
    armed: SpinLockBh<Option<Armed<T>>>,
}

/// A timer that will expire at `at` (nanoseconds) and call `object`.
struct Armed<T> {
    at: u64,
    object: Arc<T>,
}

// SAFETY: A hrtimer is not bound to the thread that made it; `armed` may be sent.
unsafe impl<T: TimerCallback> Send for Timer<T> {}

// SAFETY: All access to `hrtimer` is serialised by `armed` and by the kernel.
unsafe impl<T: TimerCallback> Sync for Timer<T> {}

impl<T: TimerCallback> Timer<T> {
    const MODE: bindings::hrtimer_mode = bindings::hrtimer_mode_HRTIMER_MODE_ABS_PINNED_SOFT;

    /// A timer that is not running.
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            // SAFETY: `hrtimer` points to memory for one; `run` may be called with it, because
            // it is a field of a `Timer<T>`.
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

    /// Makes the timer expire at `at` nanoseconds of [`now`], up to a quarter of the time from `now`
    /// until then later: of a thousand timers many expire by one interrupt. Or earlier, if it was
    /// already running for an earlier time: putting a deadline off costs nothing, the callback finds
    /// nothing due and starts the timer again. Any context but hard interrupts; locks may be held.
    ///
    /// If `at` changes under a lock that also the callback takes, no deadline is lost.
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
        // SAFETY: By the type invariant the timer is initialised; the lock is held.
        unsafe {
            bindings::hrtimer_start_range_ns(
                self.hrtimer.get(),
                i64::try_from(at).unwrap_or(i64::MAX),
                at.saturating_sub(now) / SLACK,
                Self::MODE,
            )
        };
    }

    /// Stops the timer and waits for a callback under way. If nothing starts it again meanwhile,
    /// the object is not called any more when this returns. Process context, no lock held that
    /// the callback takes.
    pub(crate) fn cancel_sync(&self) {
        loop {
            // SAFETY: By the type invariant the timer is initialised.
            unsafe { bindings::hrtimer_cancel(self.hrtimer.get()) };
            let mut armed = self.armed.lock();
            // SAFETY: As above. It cannot be started while the lock is held.
            if unsafe { !bindings::hrtimer_active(self.hrtimer.get()) } {
                let stopped = armed.take();
                drop(armed);
                // Perhaps the last reference: not under the lock, which may be part of it.
                drop(stopped);
                return;
            }
        }
    }

    /// The hrtimer's callback.
    ///
    /// # Safety
    ///
    /// `hrtimer` is the field of a `Timer<T>`, which lives until this has unlocked it.
    unsafe extern "C" fn run(hrtimer: *mut bindings::hrtimer) -> bindings::hrtimer_restart {
        let field = Opaque::cast_from(hrtimer);
        // SAFETY: By this function's contract.
        let this = unsafe { &*kernel::container_of!(field, Self, hrtimer) };
        let mut armed = this.armed.lock();
        // SAFETY: By the type invariant the timer is initialised. It is not dequeued while this
        // callback runs, and not started while the lock is held.
        let due = if unsafe { c::superp_timer_queued(hrtimer.cast()) } {
            // Started for an earlier time while this callback was on its way: that one will call.
            None
        } else {
            mem::take(&mut *armed)
        };
        drop(armed);
        // From here on the object may go, and the timer with it.
        if let Some(Armed { object, .. }) = due {
            T::expired(&object);
        }
        HRTIMER_NORESTART
    }
}

#[pinned_drop]
impl<T: TimerCallback> PinnedDrop for Timer<T> {
    fn drop(self: Pin<&mut Self>) {
        // A field of its own object is never armed here, because being armed keeps the object;
        // it may well be the callback that dropped the last reference, so there must be no wait.
        if self.armed.lock().is_some() {
            self.cancel_sync();
        }
    }
}
