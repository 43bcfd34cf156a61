//! The other end of an array: of its rings, its calls on devices, its stores into NVRAM, and its clock. It is the system's kernel,
//! unless a test puts another in its place ([`put_in_place`]).
//!
//! ```text
//! entries of the ring, completions   [`KernelRing`]
//! calls on devices at start,
//!   creation and joining             [`Kernel::begin_call`], before each
//! stores into NVRAM                  [`Kernel::before_store`], before each
//! time                               [`Kernel::now`], [`Kernel::pause`]
//! ```
//! Files, locks and sockets stay those of the system: entries and calls name them. `raidlab-simkernel` is such a kernel, and draws
//! orders, delays, errors and cuts from a seed.
//!
//! Where none is put in place, this costs a comparison for each entry, completion and store.
//! Left out: other threads for parity and for I/O of members, which have rings and clocks of their own.
#![allow(unsafe_code)]

use io_uring::squeue::Entry;
use raidlab_device::ring::EntryEnd;
use raidlab_units::{NanoSpan, Nanos};
use rustix::io::Errno;
use std::cell::RefCell;
use std::fmt::Debug;
use std::io;
use std::os::fd::RawFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

/// A call on a device that is about to begin.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// In words: `write to`, `sync`.
    pub doing: &'static str,
    /// The device.
    pub path: &'a Path,
    /// First byte that it may change.
    pub offset: u64,
    /// How many it may change.
    pub bytes: u64,
}

/// A store into NVRAM that is about to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NvramStore {
    /// Of a word of the redo line or the directory.
    Word,
    /// A block is on its way to its place from the next store on.
    BlockBegins,
    /// It has come there.
    BlockEnds,
}

/// What may stand in the place of the system's kernel.
pub trait Kernel: Debug + Send + Sync {
    /// Makes a ring with room for so many registered files.
    fn ring(&self, files: u16) -> Box<dyn KernelRing>;

    /// Time since some moment.
    fn now(&self) -> Nanos;

    /// Lets time pass.
    fn pause(&self, span: NanoSpan);

    /// Takes in that a call on a device is about to begin.
    ///
    /// # Errors
    /// The call is not to be made.
    fn begin_call(&self, call: &Call<'_>) -> io::Result<()>;

    /// Takes in that a store into NVRAM is about to be made.
    fn before_store(&self, store: NvramStore);

    /// Whether a write of the ring that is to be durable when it ends is.
    fn keeps_dsync(&self) -> bool;
}

/// A ring of such a kernel.
pub trait KernelRing: Debug {
    /// Takes an entry.
    ///
    /// # Safety
    /// Memory and files that it names stay as they are until its last completion was taken.
    unsafe fn push(&mut self, entry: &Entry);

    /// Registers a file at its place; -1 takes out what is there.
    fn set_file(&mut self, place: u16, file: RawFd);

    /// Goes on, until a completion is there or `at_most` is over; without it there is no wait.
    ///
    /// # Errors
    /// The ring has failed.
    fn enter(&mut self, at_most: Option<NanoSpan>) -> Result<(), Errno>;

    /// The next completion that is there.
    fn next_end(&mut self) -> Option<EntryEnd>;

    /// Entries without their last completion.
    fn in_flight(&self) -> u32;

    /// Entries since the last time it was entered.
    fn unsubmitted(&self) -> u32;
}

thread_local! {
    static IN_PLACE: RefCell<Option<Arc<dyn Kernel>>> = const { RefCell::new(None) };
}

/// Puts a kernel in the place of the system's, or takes it away, for arrays that this thread creates and starts from here on, and
/// for the threads that it starts for that.
pub fn put_in_place(kernel: Option<Arc<dyn Kernel>>) {
    IN_PLACE.set(kernel);
}

/// The kernel in the place of the system's, if there is one.
pub(crate) fn in_place() -> Option<Arc<dyn Kernel>> {
    IN_PLACE.with_borrow(Clone::clone)
}

/// What tells the time.
#[derive(Debug)]
pub(crate) enum Clock {
    System(Instant),
    Other(Arc<dyn Kernel>),
}

impl Clock {
    /// The clock of this thread.
    pub(crate) fn new() -> Self {
        in_place().map_or_else(|| Self::System(Instant::now()), Self::Other)
    }

    /// Time since it was made, or since some moment before.
    #[inline]
    pub(crate) fn now(&self) -> Nanos {
        match self {
            Self::System(began) => Nanos(began.elapsed().as_nanos() as u64),
            Self::Other(kernel) => kernel.now(),
        }
    }

    /// Lets time pass.
    pub(crate) fn pause(&self, span: NanoSpan) {
        match self {
            Self::System(_) => std::thread::sleep(std::time::Duration::from_nanos(span.get())),
            Self::Other(kernel) => kernel.pause(span),
        }
    }
}
