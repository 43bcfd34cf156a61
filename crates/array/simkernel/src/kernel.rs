//! The simulated kernel as the runtime sees it: rings, a clock, calls on devices and stores into NVRAM.

use crate::entry;
use crate::plan::{Fault, LifeEnd};
use crate::sockets::is_readable;
use crate::state::{Broken, State, Step};
use io_uring::squeue::Entry;
use raidlab_device::ring::EntryEnd;
use raidlab_runtime::kernel::{Call, Kernel, KernelRing, NvramStore};
use raidlab_units::{NanoSpan, Nanos};
use rustix::io::Errno;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd, RawFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Threads of the array take no longer than this, in milliseconds of the system's own time.
const THREADS_WITHIN_MS: i64 = 20_000;

/// Carries out what the simulation can't do itself.
pub(crate) type Orderly = Box<dyn FnMut(Fault) -> Result<(), String> + Send>;

/// A simulated kernel.
pub(crate) struct Sim {
    state: Mutex<State>,
    orderly: Mutex<Option<Orderly>>,
}

impl std::fmt::Debug for Sim {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sim").finish_non_exhaustive()
    }
}

impl Sim {
    pub(crate) fn new(state: State) -> Arc<Self> {
        Arc::new(Self { state: Mutex::new(state), orderly: Mutex::new(None) })
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Who carries out orders from here on.
    pub(crate) fn set_orderly(&self, orderly: Option<Orderly>) {
        *self.orderly.lock().unwrap_or_else(PoisonError::into_inner) = orderly;
    }

    fn carry_out(&self) {
        let orders = std::mem::take(&mut self.state().orders);
        for fault in orders {
            let mut orderly = self.orderly.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(orderly) = &mut *orderly else { continue };
            if let Err(text) = orderly(fault) {
                self.state().complain("locks", text);
            }
        }
    }
}

/// A kernel for threads that start an array: they have no `Arc` of the simulation itself.
#[derive(Clone, Debug)]
pub(crate) struct Handle(pub(crate) Arc<Sim>);

impl Kernel for Handle {
    fn ring(&self, files: u16) -> Box<dyn KernelRing> {
        self.0.state().begin_ring(files);
        Box::new(SimRing(Arc::clone(&self.0)))
    }

    fn now(&self) -> Nanos {
        self.0.state().now
    }

    fn pause(&self, span: NanoSpan) {
        let mut state = self.0.state();
        state.now += span;
    }

    fn begin_call(&self, call: &Call<'_>) -> io::Result<()> {
        self.0.state().begin_call(call)
    }

    fn before_store(&self, store: NvramStore) {
        self.0.state().before_store(store);
    }

    fn keeps_dsync(&self) -> bool {
        !self.0.state().ignores_dsync()
    }
}

impl State {
    /// A call on a device begins: the one before it is over.
    fn begin_call(&mut self, call: &Call<'_>) -> io::Result<()> {
        self.end_calls();
        if self.calls_until_cut == Some(self.calls) {
            self.break_off(Broken::Kill);
        }
        self.calls += 1;
        if self.broken.is_some() && self.calls_until_cut.is_some() {
            return Err(io::Error::other("the process was killed"));
        }
        if call.bytes > 0 {
            let number = self.next_number;
            self.next_number += 1;
            let disk = self.disks.find(call.path)?;
            self.disks.of(disk).remember(number, call.offset, call.bytes)?;
        } else if call.doing == "sync" {
            let disk = self.disks.find(call.path)?;
            self.syncing.push(disk);
        }
        Ok(())
    }

    /// Calls that had begun are over.
    pub(crate) fn end_calls(&mut self) {
        let number = self.next_number;
        for disk in std::mem::take(&mut self.syncing) {
            self.disks.of(disk).flush(number, &[]);
        }
    }

    fn before_store(&mut self, store: NvramStore) {
        if self.broken.is_some() {
            return;
        }
        let LifeEnd::KillAtStore(last) = self.life.end else { return };
        self.stores += 1;
        let reads = |path: &Option<PathBuf>| path.as_deref().and_then(|path: &Path| std::fs::read(path).ok());
        match store {
            NvramStore::BlockBegins if self.stores + 3 >= last => self.nvram_before = reads(&self.nvram),
            NvramStore::BlockEnds if self.stores >= last => {
                // The block has come there, or its front.
                if let (Some(before), Some(mut after)) = (self.nvram_before.take(), reads(&self.nvram)) {
                    let changed: Vec<usize> =
                        (0..after.len()).filter(|at| before[*at] != after[*at]).collect();
                    // The first of them note where the block goes; they are there before it.
                    let noted = changed.iter().take_while(|at| **at < NOTES_END).count();
                    let kept = noted + self.random.below((changed.len() - noted) as u64 + 1) as usize;
                    for at in &changed[kept..] {
                        after[*at] = before[*at];
                    }
                    self.nvram_bytes = Some(after);
                }
            }
            _ => {}
        }
        if self.stores >= last && store != NvramStore::BlockBegins {
            self.break_off(Broken::Kill);
        }
    }
}

/// Header and redo line of NVRAM end before this byte.
const NOTES_END: usize = 4096;

/// A ring of it.
#[derive(Debug)]
struct SimRing(Arc<Sim>);

/// The same open file once more.
#[allow(unsafe_code)]
fn hold(file: RawFd) -> Option<OwnedFd> {
    // SAFETY: who registers a file has it open.
    let file = unsafe { BorrowedFd::borrow_raw(file) };
    file.try_clone_to_owned().ok()
}

#[allow(unsafe_code)]
impl KernelRing for SimRing {
    unsafe fn push(&mut self, entry: &Entry) {
        // SAFETY: what the entry names is there, as the caller promises.
        let (name, asked) = unsafe { entry::read(entry) };
        self.0.state().queue.push((name, asked));
    }

    fn set_file(&mut self, place: u16, file: RawFd) {
        let mut state = self.0.state();
        let found = (file >= 0).then(|| PathBuf::from(format!("/proc/self/fd/{file}")));
        state.held.extend((file >= 0).then(|| hold(file)).flatten());
        let disk = found.map(|path| state.disks.find(&path)).transpose();
        match disk {
            Ok(disk) => state.places[usize::from(place)] = disk,
            Err(error) => state.complain("simulation", format!("a registered file: {error}")),
        }
    }

    fn enter(&mut self, at_most: Option<NanoSpan>) -> Result<(), Errno> {
        let mut limit = None;
        loop {
            let step = self.0.state().enter(at_most, limit)?;
            match step {
                Step::Over => return Ok(()),
                Step::WaitFor(file, until) => {
                    if !is_readable(file, THREADS_WITHIN_MS) {
                        self.0.state().complain("liveness", "a thread of the array does not come to an end");
                    }
                    limit = Some(until);
                }
                Step::Orders(until) => {
                    self.0.carry_out();
                    limit = Some(until);
                }
            }
        }
    }

    fn next_end(&mut self) -> Option<EntryEnd> {
        self.0.state().flights.ends.pop_front()
    }

    fn in_flight(&self) -> u32 {
        let state = self.0.state();
        (state.flights.all.len() + state.flights.ends.len() + state.queue.len()) as u32
    }

    fn unsubmitted(&self) -> u32 {
        self.0.state().queue.len() as u32
    }
}
