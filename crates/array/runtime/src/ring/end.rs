//! The end of a ring behind the array: an `io_uring` of the system, or the ring of another kernel ([`crate::kernel`]).
#![allow(unsafe_code)]

use crate::error::RingError;
use crate::io_threads::allow_threads;
use crate::kernel::{self, KernelRing};
use crate::ring::{NO_FILE, files_refused};
use io_uring::squeue::Entry;
use raidlab_device::ring::{EntryEnd, IoVec, Ring as Uring, RingOptions};
use raidlab_units::NanoSpan;
use rustix::io::Errno;
use std::io;
use std::os::fd::RawFd;

/// Where entries go and completions come from.
#[derive(Debug)]
pub(super) enum End {
    /// The system's.
    Uring(Uring),
    /// Of a kernel that stands in its place.
    Other(Box<dyn KernelRing>),
}

impl End {
    /// A ring with room for `files` registered files.
    pub(super) fn new(places: u32, options: RingOptions, files: u16) -> Result<Self, RingError> {
        if let Some(kernel) = kernel::in_place() {
            return Ok(Self::Other(kernel.ring(files)));
        }
        let mut notes = Vec::new();
        let mut uring = Uring::new(places, options, &mut notes)?;
        for note in notes {
            tracing::debug!("{note}");
        }
        uring.register_files(&vec![NO_FILE; usize::from(files)]).map_err(files_refused)?;
        Ok(Self::Uring(uring))
    }

    pub(super) fn set_file(&mut self, place: u16, file: RawFd) -> Result<(), RingError> {
        match self {
            Self::Uring(uring) => {
                let set = uring.submitter().register_files_update(u32::from(place), &[file]);
                set.map(drop).map_err(files_refused)
            }
            Self::Other(ring) => {
                ring.set_file(place, file);
                Ok(())
            }
        }
    }

    pub(super) fn unregister_files(&mut self) {
        if let Self::Uring(uring) = self {
            uring.unregister_files();
        }
    }

    pub(super) fn allow_threads(&self, threads: u32) -> io::Result<()> {
        match self {
            Self::Uring(uring) => allow_threads(uring, threads),
            Self::Other(_) => Ok(()),
        }
    }

    pub(super) fn make_buffer_table(&self, count: u16) -> io::Result<()> {
        match self {
            Self::Uring(uring) => uring.submitter().register_buffers_sparse(u32::from(count)),
            Self::Other(_) => Ok(()),
        }
    }

    /// # Safety
    /// As [`Uring::register_buffers`].
    pub(super) unsafe fn register_buffers(&self, first: u16, buffers: &[IoVec]) -> io::Result<()> {
        match self {
            // SAFETY: as the caller promises.
            Self::Uring(uring) => unsafe { uring.register_buffers(Some(first), buffers) },
            // Entries name their memory by address as well.
            Self::Other(_) => Ok(()),
        }
    }

    /// # Safety
    /// As [`Uring::try_push`].
    #[inline]
    #[must_use]
    pub(super) unsafe fn try_push(&mut self, entry: &Entry) -> bool {
        match self {
            // SAFETY: as the caller promises.
            Self::Uring(uring) => unsafe { uring.try_push(entry) },
            Self::Other(ring) => {
                // SAFETY: as the caller promises.
                unsafe { ring.push(entry) };
                true
            }
        }
    }

    #[inline]
    pub(super) fn in_flight(&self) -> u32 {
        match self {
            Self::Uring(uring) => uring.in_flight(),
            Self::Other(ring) => ring.in_flight(),
        }
    }

    #[inline]
    pub(super) fn unsubmitted(&mut self) -> u32 {
        match self {
            Self::Uring(uring) => uring.unsubmitted(),
            Self::Other(ring) => ring.unsubmitted(),
        }
    }

    #[inline]
    pub(super) fn ready(&mut self) -> u32 {
        match self {
            Self::Uring(uring) => uring.ready(),
            Self::Other(_) => 0,
        }
    }

    #[inline]
    pub(super) fn next_end(&mut self) -> Option<EntryEnd> {
        match self {
            Self::Uring(uring) => uring.next_end(),
            Self::Other(ring) => ring.next_end(),
        }
    }

    pub(super) fn holds_back(&self) -> bool {
        match self {
            Self::Uring(uring) => uring.holds_back(),
            Self::Other(_) => false,
        }
    }

    #[inline]
    pub(super) fn submit(&mut self) -> Result<(), Errno> {
        match self {
            Self::Uring(uring) => uring.submit(),
            Self::Other(ring) => ring.enter(None),
        }
    }

    #[inline]
    pub(super) fn submit_and_wait(&mut self, at_most: NanoSpan) -> Result<(), Errno> {
        match self {
            Self::Uring(uring) => uring.submit_and_wait(at_most),
            Self::Other(ring) => ring.enter(Some(at_most)),
        }
    }

    pub(super) fn submit_and_wait_for_one(&mut self) -> Result<(), Errno> {
        match self {
            Self::Uring(uring) => uring.submit_and_wait_for_one(),
            Self::Other(_) => unreachable!("its waits have limits"),
        }
    }

    /// Whether a wait is told its limit at no price, so that no timer needs to be in flight.
    #[inline]
    pub(super) const fn keeps_limits(&self) -> bool {
        matches!(self, Self::Other(_))
    }
}
