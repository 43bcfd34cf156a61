//! A panic in the array's loop ends the process.
//!
//! What the kernel has in flight is counted in the loop's tables. A panic leaves them half done, and a shutdown that waits for
//! entries which have ended already waits for ever. Ended at once, the array is as after a crash, which the next start mends.

/// Aborts the process when a panic drops it.
pub(crate) struct AbortOnPanic;

impl Drop for AbortOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            std::process::abort();
        }
    }
}
