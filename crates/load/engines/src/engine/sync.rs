//! The simple engine: `pread` and `pwrite`, one request at a time. It works everywhere, and measures a program without
//! asynchronous I/O.

use super::calls;
use super::one_at_a_time::{OneAtATime, Transfer};
use super::{EngineIo, EngineKind, FailureCause};
use crate::error::LoadError;
use crate::memory::IoMemory;
use crate::target::{Target, TargetKind};
use raidlab_workload::IoOp;
use rustix::io::{Errno, ReadWriteFlags, pread, pwrite, pwritev2};
use std::fs::File;
use std::io::IoSlice;

/// One `pread` or `pwrite` at a time.
pub type SyncEngine<'a> = OneAtATime<Calls<'a>>;

/// Moves bytes by system calls.
#[derive(Debug)]
pub struct Calls<'a> {
    kind: EngineKind,
    /// None for the no-op target.
    file: Option<&'a File>,
    is_device: bool,
    short_transfers: u64,
}

impl<'a> SyncEngine<'a> {
    /// Returns the engine for `target`, under the name of `kind`: psync or buffered.
    ///
    /// # Errors
    /// [`LoadError::Iodepth`] for anything but one request in flight.
    pub fn new(
        target: &'a Target,
        kind: EngineKind,
        iodepth: u32,
        memory: IoMemory,
    ) -> Result<Self, LoadError> {
        let is_device = target.kind() == TargetKind::BlockDevice;
        Self::over(Calls { kind, file: target.file(), is_device, short_transfers: 0 }, iodepth, memory)
    }
}

impl Transfer for Calls<'_> {
    fn name(&self) -> &'static str {
        self.kind.name()
    }

    /// Does the request in as many parts as it takes.
    fn transfer(&mut self, io: &EngineIo, buffer: &mut [u8]) -> Option<FailureCause> {
        let file = self.file?;
        let mut moved = 0;
        while moved < buffer.len() {
            let rest = &mut buffer[moved..];
            let offset = io.offset_bytes + moved as u64;
            let result = match io.op {
                IoOp::Read => pread(file, rest, offset),
                IoOp::Write if io.fua => pwritev2(file, &[IoSlice::new(rest)], offset, ReadWriteFlags::DSYNC),
                _ => pwrite(file, rest, offset),
            };
            match result {
                Ok(0) => return Some(FailureCause::EndOfFile),
                Ok(part) => moved += part,
                Err(Errno::INTR | Errno::AGAIN) => continue,
                Err(errno) => return Some(FailureCause::Errno(errno)),
            }
            self.short_transfers += u64::from(moved < buffer.len());
        }
        None
    }

    fn change(&mut self, io: &EngineIo) -> Option<FailureCause> {
        calls::change(self.file?, self.is_device, io)
    }

    fn short_transfers(&self) -> u64 {
        self.short_transfers
    }
}
