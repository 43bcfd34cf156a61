//! A device's character device: the descriptions of requests, and the commands that fetch and complete them.
//!
//! ```text
//! FETCH(tag, buffer) ──────────► ... ended: description[tag] is a request, a write's data is in the buffer
//! COMMIT_AND_FETCH(tag, result) ► ... the same for the next one
//!                               ► ended with ENODEV: the device is being removed
//! ```
//! Invariant: a buffer stays where it is until the last command of its tag has ended.
#![allow(unsafe_code)]

use crate::error::UblkError;
use crate::uapi::{COMMIT_AND_FETCH_REQ, Description, FETCH_REQ, io_command};
use io_uring::opcode;
use raidlab_device::ring::entries::{self, FileRef};
use raidlab_runtime::{PortRing, RingError};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::os::fd::{OwnedFd, RawFd};
use std::path::Path;
use std::ptr::{NonNull, null_mut};
use std::time::{Duration, Instant};

/// Descriptions are mapped in whole pages.
const PAGE_BYTES: usize = 4096;

/// The one queue of a device.
#[derive(Debug)]
pub(crate) struct Queue {
    descriptions: NonNull<u8>,
    mapped_bytes: usize,
    depth: u16,
    file: OwnedFd,
}

impl Queue {
    /// Opens the queue of `depth` requests at `path`.
    ///
    /// # Errors
    /// [`UblkError::Io`].
    pub(crate) fn open(path: &Path, depth: u16) -> Result<Self, UblkError> {
        const PATIENCE: Duration = Duration::from_secs(2);
        let failed =
            |errno: Errno| UblkError::Io { doing: "open a ublk device's queue", source: errno.into() };
        let began = Instant::now();
        let file = loop {
            match rustix::fs::open(path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()) {
                // Whoever makes nodes of devices may lag behind.
                Err(Errno::NOENT) if began.elapsed() < PATIENCE => {
                    std::thread::sleep(Duration::from_millis(10));
                }
                opened => break opened.map_err(failed)?,
            }
        };
        let mapped_bytes = (usize::from(depth) * Description::BYTES).next_multiple_of(PAGE_BYTES);
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory in use.
        let mapped = unsafe { mmap(null_mut(), mapped_bytes, ProtFlags::READ, MapFlags::SHARED, &file, 0) };
        let base = NonNull::new(mapped.map_err(failed)?.cast()).ok_or_else(|| failed(Errno::NOMEM))?;
        Ok(Self { descriptions: base, mapped_bytes, depth, file })
    }

    /// Returns the request of `tag`, whose command has just ended.
    pub(crate) fn description(&self, tag: u16) -> Description {
        assert!(tag < self.depth, "request {tag} of {}", self.depth);
        let place = self.descriptions.as_ptr().wrapping_add(usize::from(tag) * Description::BYTES);
        // SAFETY: it lies within the mapping, as just asserted, and the driver writes it only before it ends a command and
        // not again before the next one; any bytes are a description.
        let bytes = unsafe { place.cast::<[u8; Description::BYTES]>().read_volatile() };
        Description::decode(&bytes)
    }

    /// Fetches the first request of `tag`. `buffer` is where its data will be.
    ///
    /// # Errors
    /// [`RingError`] if a full queue can't be submitted.
    pub(crate) fn fetch(
        &self,
        ring: &mut PortRing<'_>,
        tag: u16,
        buffer: &mut [u8],
    ) -> Result<(), RingError> {
        self.push(ring, FETCH_REQ, tag, 0, buffer)
    }

    /// Tells the end of the request of `tag`, bytes or an error below 0, and fetches the next one.
    ///
    /// # Errors
    /// [`RingError`] if a full queue can't be submitted.
    pub(crate) fn commit(
        &self,
        ring: &mut PortRing<'_>,
        tag: u16,
        result: i32,
        buffer: &mut [u8],
    ) -> Result<(), RingError> {
        self.push(ring, COMMIT_AND_FETCH_REQ, tag, result, buffer)
    }

    fn push(
        &self,
        ring: &mut PortRing<'_>,
        number: u32,
        tag: u16,
        result: i32,
        buffer: &mut [u8],
    ) -> Result<(), RingError> {
        let command = io_command(tag, result, buffer.as_mut_ptr() as u64);
        let entry = FileRef::open(&self.file)
            .entry(|file| opcode::UringCmd16::new(file, number).cmd(command).build());
        // SAFETY: host buffers stay where they are as long as the array serves, and this one is left alone until the command
        // has ended: its tag has no request then.
        unsafe { ring.push(tag.into(), entry) }.map(drop)
    }
}

/// Waits for `descriptor`, which stays open, to be readable: once.
///
/// # Errors
/// [`RingError`] if a full queue can't be submitted.
pub(crate) fn await_readable(ring: &mut PortRing<'_>, user: u64, descriptor: RawFd) -> Result<(), RingError> {
    // SAFETY: no memory is named.
    unsafe { ring.push(user, entries::readable(FileRef::open(&descriptor))) }.map(drop)
}

impl Drop for Queue {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own, and nobody holds a part of it.
        if let Err(errno) = unsafe { munmap(self.descriptions.as_ptr().cast(), self.mapped_bytes) } {
            tracing::warn!(%errno, "can't unmap a queue's descriptions");
        }
    }
}
