//! The threads of an array, in which a panic ends the process.
//!
//! The loop's tables count what the kernel has in flight. A panic leaves them inconsistent, and a shutdown that waits
//! for entries which have already ended would wait for ever. If the process ends at once, the array is as after a
//! crash, which the next start recovers.

use std::io;
use std::thread::{Builder, JoinHandle};

/// Starts a thread of this name beside the array's own.
pub(crate) fn spawn(name: String, work: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    Builder::new().name(name).spawn(move || {
        let _guard = AbortOnPanic;
        work();
    })
}

/// Waits for such threads to end. What a panic would leave to be told, the process does not live to hear.
pub(crate) fn join(threads: impl Iterator<Item = JoinHandle<()>>) {
    threads.for_each(|thread| drop(thread.join()));
}

/// Aborts the process when a panic drops it.
pub(crate) struct AbortOnPanic;

impl Drop for AbortOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            std::process::abort();
        }
    }
}
