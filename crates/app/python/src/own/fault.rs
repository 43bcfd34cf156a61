//! How the threads of a sweep enter Python, and how they leave it when the sweep is over.
//!
//! An interpreter that ends while another thread is inside of it takes the process down. So whoever gives a sweep up waits until its
//! threads have left ([`OwnFault::leave`]), and so does the interpreter before it ends ([`end`]). A thread that stays longer than
//! [`PATIENCE`] gets a `KeyboardInterrupt`, which ends what is written in Python; a call into C is waited for. Another signal ends the wait.

use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

/// How long threads are left to leave by themselves.
const PATIENCE: Duration = Duration::from_millis(50);
/// How often it is looked whether they have.
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// What went wrong in the Python of a sweep, whether it is over for that or another reason, and who is in Python for it.
#[derive(Debug, Default)]
pub(crate) struct OwnFault {
    is_over: AtomicBool,
    raised: Mutex<Option<PyErr>>,
    /// Threads in Python, or on their way there.
    inside: AtomicUsize,
    /// Those in Python, by their numbers there; changed and read by who has Python only.
    threads: Mutex<Vec<u64>>,
}

/// Those of all sweeps of this process; changed and read by who has Python only.
static ALL: Mutex<Vec<Weak<OwnFault>>> = Mutex::new(Vec::new());

impl OwnFault {
    /// One of a sweep whose threads may call Python.
    pub(crate) fn of_sweep() -> Arc<Self> {
        let fault = Arc::default();
        let mut all = locked(&ALL);
        all.retain(|other| other.strong_count() > 0);
        all.push(Arc::downgrade(&fault));
        fault
    }

    /// What was raised first.
    pub(crate) fn take(&self) -> Option<PyErr> {
        locked(&self.raised).take()
    }

    /// Calls Python, unless it is all over; nothing comes of what raises.
    pub(super) fn call<T>(&self, work: impl FnOnce(Python<'_>) -> PyResult<T>) -> Option<T> {
        let _inside = Inside::of(self);
        if self.is_over() {
            return None;
        }
        let called = Python::try_attach(|py| {
            // It may have ended while this thread waited for Python.
            (!self.is_over()).then(|| thread_number(py).and_then(|number| self.known_by(number, || work(py))))
        });
        match called?? {
            Ok(result) => Some(result),
            Err(error) => {
                // What is raised when all is over is the interrupt of `leave`.
                if !self.is_over.swap(true, Ordering::SeqCst) {
                    locked(&self.raised).get_or_insert(error);
                }
                None
            }
        }
    }

    /// Calls nothing of Python any more, and waits until all threads have left it.
    pub(crate) fn leave(&self, py: Python<'_>) {
        self.is_over.store(true, Ordering::SeqCst);
        let patient_until = Instant::now() + PATIENCE;
        let mut is_interrupted = false;
        while self.inside.load(Ordering::SeqCst) > 0 {
            py.detach(|| std::thread::sleep(LOOK_EVERY));
            if py.check_signals().is_err() {
                return;
            }
            if !is_interrupted && Instant::now() >= patient_until {
                is_interrupted = true;
                drop(self.interrupt(py));
            }
        }
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::SeqCst)
    }

    /// Does `work`, in Python, by the thread of that number.
    fn known_by<T>(&self, number: u64, work: impl FnOnce() -> T) -> T {
        locked(&self.threads).push(number);
        let result = work();
        let mut threads = locked(&self.threads);
        if let Some(place) = threads.iter().rposition(|it| *it == number) {
            threads.swap_remove(place);
        }
        result
    }

    /// Raises `KeyboardInterrupt` in all threads that are in Python.
    fn interrupt(&self, py: Python<'_>) -> PyResult<()> {
        let ctypes = py.import("ctypes")?;
        let raise_in = ctypes.getattr("pythonapi")?.getattr("PyThreadState_SetAsyncExc")?;
        let interrupt = ctypes.getattr("py_object")?.call1((py.get_type::<PyKeyboardInterrupt>(),))?;
        let number_of = ctypes.getattr("c_ulong")?;
        // From here on nobody else has Python, so that none of them leaves.
        let threads = locked(&self.threads).clone();
        threads
            .into_iter()
            .try_for_each(|thread| raise_in.call1((number_of.call1((thread,))?, &interrupt)).map(drop))
    }
}

/// A thread that is in Python, or on its way.
struct Inside<'a>(&'a OwnFault);

impl<'a> Inside<'a> {
    fn of(fault: &'a OwnFault) -> Self {
        fault.inside.fetch_add(1, Ordering::SeqCst);
        Self(fault)
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.0.inside.fetch_sub(1, Ordering::SeqCst);
    }
}

/// The number that Python has for this thread.
fn thread_number(py: Python<'_>) -> PyResult<u64> {
    thread_local! {
        static NUMBER: std::cell::Cell<Option<u64>> = const { std::cell::Cell::new(None) };
    }
    if let Some(number) = NUMBER.get() {
        return Ok(number);
    }
    let number = py.import("threading")?.call_method0("get_ident")?.extract()?;
    NUMBER.set(Some(number));
    Ok(number)
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Has Python call [`end`] before it ends.
pub(crate) fn register(py: Python<'_>) -> PyResult<()> {
    let end = pyo3::types::PyCFunction::new_closure(py, None, None, {
        let process = std::process::id();
        // A copy of this process, as `os.fork` makes it, has none of its threads.
        move |arguments, _| {
            if std::process::id() == process {
                end(arguments.py());
            }
        }
    })?;
    py.import("atexit")?.call_method1("register", (end,)).map(drop)
}

/// Gives up all sweeps that there are: the interpreter is about to end.
fn end(py: Python<'_>) {
    let all: Vec<_> = locked(&ALL).iter().filter_map(Weak::upgrade).collect();
    for fault in all {
        fault.leave(py);
    }
}
