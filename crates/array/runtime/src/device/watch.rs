//! Work on devices that may never end: a separate thread does it, and is abandoned when it makes no progress.
//!
//! ```text
//! watched ─► thread: begin(device) ─► system call ─► begin(device) ─► ...
//!    └─ nothing has begun or ended for the timeout ─► Silent: names the device; `begin` refuses the thread if it wakes
//! ```
//! A system call on a device with a stuck driver can't be ended, nor can its thread. The system may also keep the
//! process until then.

use crate::error::DeviceError;
use crate::kernel;
use raidlab_units::NanoSpan;
use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How often it is looked whether the work gets on.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// The shortest limit where another kernel is in the place of the system's.
const THREADS_WITHIN: NanoSpan = NanoSpan::from_secs(60);

thread_local! {
    static WATCH: RefCell<Option<Watch>> = const { RefCell::new(None) };
}

/// What the thread is at, and whether somebody still waits for it.
#[derive(Clone, Debug, Default)]
struct Watch(Arc<Mutex<Call>>);

#[derive(Debug, Default)]
struct Call {
    doing: &'static str,
    path: PathBuf,
    /// Calls so far.
    number: u64,
    is_given_up: bool,
}

impl Watch {
    fn call(&self) -> MutexGuard<'_, Call> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Notes that a call of the system on a device begins.
///
/// # Errors
/// [`DeviceError::Silent`] if an earlier one took so long that nobody waits for the work any more.
pub(crate) fn begin(doing: &'static str, path: &Path) -> Result<(), DeviceError> {
    begin_change(doing, path, 0, 0)
}

/// The same for a call that changes `bytes` from `offset` on.
///
/// # Errors
/// As [`begin`].
pub(crate) fn begin_change(
    doing: &'static str,
    path: &Path,
    offset: u64,
    bytes: u64,
) -> Result<(), DeviceError> {
    if let Some(kernel) = kernel::in_place() {
        let call = kernel::Call { doing, path, offset, bytes };
        kernel.begin_call(&call).map_err(|source| super::failed(doing, path, source))?;
    }
    WATCH.with_borrow(|watch| {
        let Some(watch) = watch else { return Ok(()) };
        let mut call = watch.call();
        if call.is_given_up {
            return Err(DeviceError::Silent {
                doing: call.doing,
                path: call.path.clone(),
                limit: NanoSpan::ZERO,
            });
        }
        call.number += 1;
        note(&mut call, doing, path);
        Ok(())
    })
}

/// Notes which device is to blame if nothing ends from here on.
pub(crate) fn blame(doing: &'static str, path: &Path) {
    WATCH.with_borrow(|watch| {
        if let Some(watch) = watch {
            note(&mut watch.call(), doing, path);
        }
    });
}

fn note(call: &mut Call, doing: &'static str, path: &Path) {
    call.doing = doing;
    if call.path != path {
        path.clone_into(&mut call.path);
    }
}

/// Work that a thread does under watch.
#[derive(Debug)]
pub(crate) struct Watched<T> {
    watch: Watch,
    outcome: Receiver<T>,
    limit: NanoSpan,
    /// The latest call that was seen, and when.
    seen: (u64, Instant),
}

impl<T: Send + 'static> Watched<T> {
    /// Begins `work` on `path`. Each of its calls may take `limit`.
    ///
    /// # Errors
    /// [`DeviceError::Io`]: the system gives no thread.
    pub(crate) fn start(
        path: &Path,
        limit: NanoSpan,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<Self, DeviceError> {
        let watch = Watch::default();
        note(&mut watch.call(), "open", path);
        let (sender, outcome): (SyncSender<T>, _) = sync_channel(1);
        let (own, kernel) = (watch.clone(), kernel::in_place());
        // Threads run in the system's time, which another kernel's limits do not count.
        let limit = if kernel.is_some() { limit.max(THREADS_WITHIN) } else { limit };
        let job = move || {
            WATCH.set(Some(own));
            kernel::put_in_place(kernel);
            // Nobody may be there any more to hear of it.
            let _ = sender.send(work());
        };
        let thread = std::thread::Builder::new().name("raidlab-device".to_owned()).spawn(job);
        thread.map_err(|source| super::failed("start a thread for", path, source))?;
        Ok(Self { watch, outcome, limit, seen: (0, Instant::now()) })
    }

    /// Waits for the end of the work, and calls `tick` many times a second meanwhile.
    ///
    /// # Errors
    /// [`DeviceError::Silent`].
    ///
    /// # Panics
    /// If the work did.
    pub(crate) fn wait(mut self, mut tick: impl FnMut()) -> Result<T, DeviceError> {
        loop {
            tick();
            match self.outcome.recv_timeout(LOOK_EVERY) {
                Ok(outcome) => return Ok(outcome),
                Err(RecvTimeoutError::Timeout) => self.look()?,
                Err(RecvTimeoutError::Disconnected) => {
                    panic!("work on a device panicked; the panic is on standard error")
                }
            }
        }
    }

    /// Gives the work up if it does not get on.
    fn look(&mut self) -> Result<(), DeviceError> {
        let mut call = self.watch.call();
        if call.number != self.seen.0 {
            self.seen = (call.number, Instant::now());
        } else if self.seen.1.elapsed() >= Duration::from_nanos(self.limit.get()) {
            call.is_given_up = true;
            return Err(DeviceError::Silent {
                doing: call.doing,
                path: call.path.clone(),
                limit: self.limit,
            });
        }
        Ok(())
    }
}

/// Has a thread do `work` on `path`, each of whose calls may take `limit`, and waits for its end.
///
/// # Errors
/// [`DeviceError`]: a call does not end, or there is no thread.
pub(crate) fn watched<T: Send + 'static>(
    path: &Path,
    limit: NanoSpan,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, DeviceError> {
    Watched::start(path, limit, work)?.wait(|| {})
}
