//! How one thread wakes another that waits in its ring: by a descriptor that an entry polls, and only if it sleeps.
//!
//! ```text
//! sleeper: poll the descriptor, say that it sleeps, look for news, wait
//! others:  make news, then wake it if it sleeps
//! ```
//! News that was made before the sleeper looked is seen by it; what is made later finds it asleep (both sides are
//! sequentially consistent).

use rustix::event::{EventfdFlags, eventfd};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How long a thread that others give work to, or news, looks for it before it sleeps.
pub(crate) const LOOK_FOR: Duration = Duration::from_micros(50);

/// The descriptor, and whether its thread sleeps.
#[derive(Debug)]
pub(crate) struct WakeUp {
    descriptor: OwnedFd,
    /// The thread sleeps or is about to.
    is_asleep: AtomicBool,
}

impl WakeUp {
    /// # Errors
    /// The system gives no descriptor.
    pub(crate) fn new() -> io::Result<Self> {
        let descriptor = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { descriptor, is_asleep: AtomicBool::new(false) })
    }

    /// Its descriptor, open as long as `self`.
    pub(crate) fn descriptor(&self) -> RawFd {
        self.descriptor.as_raw_fd()
    }

    /// Whether the thread sleeps.
    pub(crate) fn is_asleep(&self) -> bool {
        self.is_asleep.load(Ordering::SeqCst)
    }

    /// Wakes the thread if it sleeps. Returns whether it did.
    pub(crate) fn wake(&self) -> bool {
        let was_asleep = self.is_asleep() && self.is_asleep.swap(false, Ordering::SeqCst);
        if was_asleep {
            // A counter that is full wakes as well.
            let _ = rustix::io::write(&self.descriptor, &1_u64.to_ne_bytes());
        }
        was_asleep
    }

    /// The thread is about to sleep, and looks for news once more before it does.
    pub(crate) fn begin_sleep(&self) {
        self.is_asleep.store(true, Ordering::SeqCst);
    }

    /// The thread is awake.
    pub(crate) fn end_sleep(&self) {
        self.is_asleep.store(false, Ordering::SeqCst);
    }

    /// Takes in that the descriptor was found readable.
    pub(crate) fn clear(&self) {
        // An empty counter says so, which is as good.
        let _ = rustix::io::read(&self.descriptor, &mut [0; 8]);
    }
}
