//! Long calls: the work runs in a thread of its own, and the caller waits for it without holding Python up.
//!
//! A signal, Ctrl-C above all, ends the wait within 20 ms. The work is then told to stop, and does so in the background: a
//! simulation that is under way comes to its end, and no other begins. Where it calls Python, the caller waits until it has left that.

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How often signals are looked for.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// How far the work is.
enum Event<T> {
    Done(usize, usize),
    Ended(T),
}

/// Does `work`, and calls `progress`, if there is any, with how many runs are done and of how many.
///
/// # Errors
/// What a signal's handler or `progress` raises.
pub(crate) fn waited_for<T: Send + 'static>(
    py: Python<'_>,
    progress: Option<&Bound<'_, PyAny>>,
    work: impl FnOnce(&AtomicBool, &mut dyn FnMut(usize, usize)) -> T + Send + 'static,
) -> PyResult<T> {
    let cancel = Arc::new(AtomicBool::new(false));
    let (sender, receiver) = mpsc::channel();
    let receiver = Mutex::new(receiver);
    let of_work = Arc::clone(&cancel);
    std::thread::spawn(move || {
        // Nobody listens after a signal.
        let mut tell = |done, all| drop(sender.send(Event::Done(done, all)));
        let result = work(&of_work, &mut tell);
        drop(sender.send(Event::Ended(result)));
    });
    let next = || receiver.lock().unwrap_or_else(PoisonError::into_inner).recv_timeout(LOOK_EVERY);
    let wait = || loop {
        match py.detach(next) {
            Ok(Event::Ended(result)) => return Ok(result),
            Ok(Event::Done(done, all)) => {
                if let Some(progress) = progress {
                    progress.call1((done, all))?;
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                return Err(PyRuntimeError::new_err("the simulation ended in a panic, which was printed"));
            }
        }
        py.check_signals()?;
    };
    wait().inspect_err(|_| cancel.store(true, Ordering::Relaxed))
}
