//! A panic in the array's loop ends the process.
//!
//! The loop's tables count what the kernel has in flight. A panic leaves them inconsistent, and a shutdown that waits
//! for entries which have already ended would wait for ever. If the process ends at once, the array is as after a
//! crash, which the next start recovers.

/// Aborts the process when a panic drops it.
pub(crate) struct AbortOnPanic;

impl Drop for AbortOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            std::process::abort();
        }
    }
}
