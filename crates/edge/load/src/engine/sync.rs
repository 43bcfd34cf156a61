//! The simple engine: `pread` and `pwrite`, one request at a time. It works everywhere, and measures what a
//! program without asynchronous I/O gets.

use super::{Completion, Engine, EngineIo, EngineKind, FailureCause, NO_IO};
use crate::error::LoadError;
use crate::memory::IoMemory;
use crate::target::Target;
use raidlab_units::NanoSpan;
use raidlab_workload::IoOp;
use rustix::io::{Errno, ReadWriteFlags, pread, pwrite, pwritev2};
use std::fs::File;
use std::io::IoSlice;
use std::time::Duration;

/// One `pread` or `pwrite` at a time.
#[derive(Debug)]
pub struct SyncEngine<'a> {
    kind: EngineKind,
    /// None for the no-op target.
    file: Option<&'a File>,
    memory: IoMemory,
    io: EngineIo,
    waiting: bool,
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
        if iodepth != 1 {
            return Err(LoadError::Iodepth { engine: kind.name(), iodepth_max: 1, iodepth });
        }
        Ok(Self { kind, file: target.file(), memory, io: NO_IO, waiting: false, short_transfers: 0 })
    }

    /// Does the request, in as many parts as it takes.
    fn transfer(&mut self) -> Option<FailureCause> {
        let EngineIo { slot, op, offset_bytes, bytes, fua, .. } = self.io;
        let file = self.file?;
        let mut moved = 0;
        while moved < bytes as usize {
            let rest = &mut self.memory.buffer(op, slot, bytes)[moved..];
            let offset = offset_bytes + moved as u64;
            let result = match op {
                IoOp::Read => pread(file, rest, offset),
                IoOp::Write if fua => pwritev2(file, &[IoSlice::new(rest)], offset, ReadWriteFlags::DSYNC),
                IoOp::Write => pwrite(file, rest, offset),
            };
            match result {
                Ok(0) => return Some(FailureCause::EndOfFile),
                Ok(part) => moved += part,
                Err(Errno::INTR | Errno::AGAIN) => continue,
                Err(errno) => return Some(FailureCause::Errno(errno)),
            }
            self.short_transfers += u64::from(moved < bytes as usize);
        }
        None
    }
}

impl Engine for SyncEngine<'_> {
    fn name(&self) -> &'static str {
        self.kind.name()
    }

    fn submit(&mut self, io: EngineIo) {
        assert!(!self.waiting, "one request at a time");
        if io.op == IoOp::Write {
            self.memory.stamp(io.slot, io.bytes);
        }
        self.io = io;
        self.waiting = true;
    }

    /// There is nothing to put under way: the request is done when it is waited for.
    fn flush(&mut self) -> Result<(), Errno> {
        Ok(())
    }

    fn ready(&mut self) -> u32 {
        0
    }

    fn reap(&mut self, at_most: NanoSpan, done: &mut Vec<Completion>) -> Result<(), Errno> {
        if !self.waiting {
            std::thread::sleep(Duration::from_nanos(at_most.get()));
            return Ok(());
        }
        let failure = self.transfer();
        self.waiting = false;
        done.push(Completion { slot: self.io.slot, failure });
        Ok(())
    }

    fn in_flight_max(&self) -> u32 {
        1
    }

    fn in_flight(&self) -> u32 {
        u32::from(self.waiting)
    }

    fn buffer(&mut self, io: &EngineIo) -> Option<&mut [u8]> {
        Some(self.memory.buffer(io.op, io.slot, io.bytes))
    }

    fn io(&self, _slot: u32) -> EngineIo {
        self.io
    }

    fn short_transfers(&self) -> u64 {
        self.short_transfers
    }
}
