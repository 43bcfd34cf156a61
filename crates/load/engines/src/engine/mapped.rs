//! The engine that maps its target: a read copies out of the mapping, a write copies into it, one request at a time. It
//! measures a program that uses files as memory: page faults and the page cache.
//!
//! A write ends when the page cache has it. If it must be on the medium, the touched pages are written and awaited
//! (`msync`). A flush is that of the whole mapping; trims and writes of zeroes are calls on the file. Read-ahead and
//! write-back are the kernel's for any mapping.
//!
//! **A target that is gone** is a failed request: pages without data do not end the process ([`super::bus_error`]). A
//! file truncated in mid-page has zeros up to the page's end, so its length is checked every [`LOOK_UP_EVERY`]
//! requests: up to that many requests may read such zeros.
//!
//! Invariant: there is no reference to mapped memory, because others may change it at any time; it is copied by
//! pointer, and the copy is examined afterwards.
//!
//! Source: `mmap(2)`, `msync(2)`.
#![allow(unsafe_code)]

use super::bus_error;
use super::calls;
use super::one_at_a_time::{OneAtATime, Transfer};
use super::{EngineIo, EngineKind, FailureCause};
use crate::error::LoadError;
use crate::memory::IoMemory;
use crate::target::{Target, TargetKind};
use raidlab_workload::IoOp;
use rustix::io::Errno;
use rustix::mm::{MapFlags, MsyncFlags, ProtFlags, mmap, msync, munmap};
use std::fs::File;
use std::ptr::{self, NonNull};

/// Requests between two looks at the length of the file.
const LOOK_UP_EVERY: u32 = 64;

/// One copy at a time out of and into a mapped target; the no-op target has nothing to map.
pub type MappedEngine<'a> = OneAtATime<Option<Mapping<'a>>>;

/// A target in memory, shared with the page cache.
#[derive(Debug)]
pub struct Mapping<'a> {
    file: &'a File,
    is_device: bool,
    base: NonNull<u8>,
    /// Length of the mapping: whole pages.
    bytes: usize,
    page_bytes: usize,
    protection: ProtFlags,
    /// Where the target ended when that was looked up.
    end_bytes: u64,
    /// Requests until the next look.
    look_up_in: u32,
}

// SAFETY: the mapping belongs to this value alone and is not tied to the thread that made it.
unsafe impl Send for Mapping<'_> {}

impl<'a> MappedEngine<'a> {
    /// Returns the engine for `target`.
    ///
    /// # Errors
    /// [`LoadError::Iodepth`] for anything but one request in flight, [`LoadError::Map`] if the system does not map it.
    pub fn new(target: &'a Target, iodepth: u32, memory: IoMemory) -> Result<Self, LoadError> {
        let mapping = target.file().map(|file| Mapping::new(target, file)).transpose();
        let mapping = mapping.map_err(|errno| LoadError::Map {
            path: target.path().into(),
            size: target.size(),
            errno,
        })?;
        Self::over(mapping, iodepth, memory)
    }
}

impl Transfer for Option<Mapping<'_>> {
    fn name(&self) -> &'static str {
        EngineKind::Mapped.name()
    }

    fn transfer(&mut self, io: &EngineIo, buffer: &mut [u8]) -> Option<FailureCause> {
        self.as_mut()?.copy(io, buffer)
    }

    fn change(&mut self, io: &EngineIo) -> Option<FailureCause> {
        let mapping = self.as_mut()?;
        match io.op {
            IoOp::FlushData => mapping.write_out(0, mapping.bytes as u64),
            // The times of a mapped file are not in what msync writes out.
            IoOp::Flush => mapping
                .write_out(0, mapping.bytes as u64)
                .or_else(|| calls::change(mapping.file, mapping.is_device, io)),
            _ => calls::change(mapping.file, mapping.is_device, io),
        }
    }
}

impl<'a> Mapping<'a> {
    fn new(target: &Target, file: &'a File) -> Result<Self, Errno> {
        let page_bytes = bus_error::install()?;
        let size = usize::try_from(target.size().get()).map_err(|_| Errno::OVERFLOW)?;
        let bytes = size.checked_next_multiple_of(page_bytes).ok_or(Errno::OVERFLOW)?;
        let mut protection = ProtFlags::READ;
        protection.set(ProtFlags::WRITE, target.may_write());
        // SAFETY: a fresh mapping at an address of the kernel's choice touches no memory in use.
        let start = unsafe { mmap(ptr::null_mut(), bytes, protection, MapFlags::SHARED, file, 0) }?;
        let base = NonNull::new(start.cast()).ok_or(Errno::NOMEM)?;
        let is_device = target.kind() == TargetKind::BlockDevice;
        Ok(Self { file, is_device, base, bytes, page_bytes, protection, end_bytes: 0, look_up_in: 0 })
    }

    /// Copies what `io` asks for between the mapping and `buffer`. Returns why that failed, if it did.
    fn copy(&mut self, io: &EngineIo, buffer: &mut [u8]) -> Option<FailureCause> {
        if self.look_up_in == 0 {
            self.look_up_in = LOOK_UP_EVERY;
            self.end_bytes = end_of(self.file);
        }
        self.look_up_in -= 1;
        let end_bytes = io.offset_bytes + u64::from(io.bytes);
        if end_bytes > self.end_bytes || end_bytes > self.bytes as u64 {
            return Some(FailureCause::EndOfFile);
        }
        if io.op == IoOp::Write && !self.protection.contains(ProtFlags::WRITE) {
            return Some(FailureCause::Errno(Errno::ACCESS));
        }
        // SAFETY: both pointers lie within the mapping, or at its end, as was just looked at.
        let (start, end) = unsafe {
            (self.base.as_ptr().add(io.offset_bytes as usize), self.base.as_ptr().add(end_bytes as usize))
        };
        let has_data = bus_error::guarded(start, end, || {
            // SAFETY: the buffer is our own memory, as long as the request and apart from the mapping; the mapped part
            // lies within the mapping, and a page of it without data is replaced by the handler that stands guard.
            // What is written to is mapped for writing.
            unsafe {
                match io.op {
                    IoOp::Read => ptr::copy_nonoverlapping(start, buffer.as_mut_ptr(), buffer.len()),
                    _ => ptr::copy_nonoverlapping(buffer.as_ptr(), start, buffer.len()),
                }
            }
        });
        if !has_data {
            return Some(self.after_fault(io.op, io.offset_bytes, end_bytes));
        }
        if io.fua { self.write_out(io.offset_bytes, end_bytes) } else { None }
    }

    /// Has the pages of a request written to the medium.
    fn write_out(&self, from_bytes: u64, to_bytes: u64) -> Option<FailureCause> {
        let (start, bytes) = self.pages(from_bytes, to_bytes);
        // SAFETY: the pages lie within the mapping; writing them out changes none of them.
        let written = unsafe { msync(start.cast(), bytes, MsyncFlags::SYNC) };
        written.err().map(FailureCause::Errno)
    }

    /// Maps the pages of a request anew whose data were gone, and says why.
    #[cold]
    fn after_fault(&mut self, op: IoOp, from_bytes: u64, to_bytes: u64) -> FailureCause {
        let (start, bytes) = self.pages(from_bytes, to_bytes);
        let flags = MapFlags::SHARED | MapFlags::FIXED;
        let offset = start as u64 - self.base.as_ptr() as u64;
        // SAFETY: this replaces pages of our own mapping, to which no reference exists, by what they were.
        let mapped = unsafe { mmap(start.cast(), bytes, self.protection, flags, self.file, offset) };
        self.end_bytes = end_of(self.file);
        match mapped {
            Err(errno) => FailureCause::Errno(errno),
            Ok(_) if to_bytes > self.end_bytes => FailureCause::EndOfFile,
            Ok(_) if op == IoOp::Write && is_full(self.file) => FailureCause::Errno(Errno::NOSPC),
            Ok(_) => FailureCause::Errno(Errno::IO),
        }
    }

    /// The whole pages that hold a part of the target: where they start, and how many bytes they are.
    fn pages(&self, from_bytes: u64, to_bytes: u64) -> (*mut u8, usize) {
        let from = from_bytes as usize & !(self.page_bytes - 1);
        let to = (to_bytes as usize).next_multiple_of(self.page_bytes);
        assert!(to <= self.bytes, "a request lies within the mapping");
        // SAFETY: the first page begins within the mapping.
        (unsafe { self.base.as_ptr().add(from) }, to - from)
    }
}

impl Drop for Mapping<'_> {
    fn drop(&mut self) {
        // SAFETY: the mapping was made with this length, and no reference to it exists.
        let unmapped = unsafe { munmap(self.base.as_ptr().cast(), self.bytes) };
        debug_assert!(unmapped.is_ok(), "a mapping of our own can be unmapped");
    }
}

/// Where a file or a block device ends now; nowhere if the system does not tell, as its pages will.
fn end_of(file: &File) -> u64 {
    match rustix::fs::fstat(file) {
        Ok(stat) if rustix::fs::FileType::from_raw_mode(stat.st_mode).is_file() => stat.st_size as u64,
        _ => u64::MAX,
    }
}

/// Whether the file system has no block left for a page that is written for the first time.
fn is_full(file: &File) -> bool {
    rustix::fs::fstatvfs(file).is_ok_and(|facts| facts.f_bavail == 0)
}
