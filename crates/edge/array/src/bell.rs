//! How a thread that may sleep in its ring hears that another has something for it.
//!
//! ```text
//! announce ─► hand over by a channel ─► ring ── if it sleeps: eventfd ─► a poll entry of its ring
//! ```
//! A thread that is awake looks at a counter, so that handing over costs no system call while both are busy.
//!
//! Invariant: what was announced and not taken keeps the thread from going to sleep, since it says that it is about to before
//! it looks at the counter for the last time.

use rustix::event::{EventfdFlags, eventfd};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// The bell of one thread.
#[derive(Debug)]
pub(crate) struct Bell {
    descriptor: OwnedFd,
    /// Things announced and not taken.
    waiting: AtomicUsize,
    /// The thread sleeps or is about to.
    is_asleep: AtomicBool,
}

impl Bell {
    /// A bell that nothing waits behind.
    ///
    /// # Errors
    /// What the system said when it gave no descriptor.
    pub(crate) fn new() -> io::Result<Self> {
        let descriptor = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { descriptor, waiting: AtomicUsize::new(0), is_asleep: AtomicBool::new(false) })
    }

    /// Says that something is about to be handed over.
    #[inline]
    pub(crate) fn announce(&self) {
        self.waiting.fetch_add(1, Ordering::SeqCst);
    }

    /// Wakes the thread if it sleeps, after something was handed over.
    #[inline]
    pub(crate) fn ring(&self) {
        if self.is_asleep.load(Ordering::SeqCst) && self.is_asleep.swap(false, Ordering::SeqCst) {
            // A counter that is full wakes as well.
            let _ = rustix::io::write(&self.descriptor, &1_u64.to_ne_bytes());
        }
    }

    /// Takes in that so many things were taken.
    #[inline]
    pub(crate) fn take(&self, count: usize) {
        let before = self.waiting.fetch_sub(count, Ordering::SeqCst);
        debug_assert!(before >= count, "more is taken than was announced");
    }

    /// Things announced and not taken.
    #[inline]
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::SeqCst)
    }

    /// The thread is about to sleep. Returns whether it may: from here on it is woken, and nothing was announced before.
    pub(crate) fn begin_sleep(&self) -> bool {
        self.is_asleep.store(true, Ordering::SeqCst);
        self.waiting() == 0
    }

    /// The thread is awake.
    pub(crate) fn end_sleep(&self) {
        self.is_asleep.store(false, Ordering::SeqCst);
    }

    /// Readable after it was rung.
    pub(crate) fn descriptor(&self) -> RawFd {
        self.descriptor.as_raw_fd()
    }

    /// Makes it silent.
    pub(crate) fn clear(&self) {
        // One that is silent says so, which is as good.
        let _ = rustix::io::read(&self.descriptor, &mut [0; 8]);
    }
}
