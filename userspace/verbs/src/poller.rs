// SPDX-License-Identifier: GPL-2.0 OR MIT
//! A thread that takes in what is posted.

use crate::{Context, Result};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;
use std::{env, process};
use superp_sys::ContextSocket;

/// The variable of the environment that asks programs of `superp run` for a [`Poller`].
pub const POLLER_VARIABLE: &str = "SUPERP_POLLER";

/// How long the thread is with the kernel at a go, and so how long its end takes at most.
const GO: Duration = Duration::from_millis(50);

/// A thread that is lent to a context for as long as this lives: it has the kernel take in what is posted
/// on any of its queue pairs as it comes, so that posting makes no system call. It never sleeps: give it a
/// processor of its own.
#[derive(Debug)]
pub struct Poller {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    /// One that it forks has the memory, and no thread.
    process: u32,
}

impl Poller {
    /// Starts the thread.
    ///
    /// # Errors
    ///
    /// EBUSY: the context has one. What [`thread::Builder::spawn`] says.
    pub fn new(context: &Context) -> Result<Self> {
        // It would not be told of what the thread finds.
        context.serve(Duration::from_micros(1))?;
        let stop = Arc::new(AtomicBool::new(false));
        let (socket, end) = (context.socket().clone(), stop.clone());
        let thread = thread::Builder::new()
            .name("superp-poller".into())
            .spawn(move || poll(&socket, &end))?;
        Ok(Self {
            stop,
            thread: Some(thread),
            process: process::id(),
        })
    }

    /// As [`new`](Self::new), if the environment has [`POLLER_VARIABLE`].
    pub fn if_wanted(context: &Context) -> Result<Option<Self>> {
        match env::var_os(POLLER_VARIABLE) {
            Some(_) => Self::new(context).map(Some),
            None => Ok(None),
        }
    }
}

fn poll(socket: &ContextSocket, end: &AtomicBool) {
    // After an error, posting rings the doorbell again.
    while !end.load(Ordering::Relaxed) && socket.serve(GO).is_ok() {}
}

impl Drop for Poller {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take_if(|_| self.process == process::id()) {
            // It does not panic.
            let _ = thread.join();
        }
    }
}
