//! Shared by engines with one request in flight: the thread that waits for a request also does it. A [`Transfer`] moves
//! its bytes.
//!
//! Invariant: at most one request is waiting, and its memory is exclusive until it ended.

use super::{Completion, Engine, EngineIo, FailureCause, NO_IO};
use crate::error::LoadError;
use crate::memory::IoMemory;
use raidlab_units::NanoSpan;
use raidlab_workload::IoOp;
use rustix::io::Errno;
use std::time::Duration;

/// Moves the bytes of one request.
pub trait Transfer {
    /// Its name, for results.
    fn name(&self) -> &'static str;

    /// Does `io` out of or into `buffer`, which is as long as the request. Returns why that failed, if it did.
    fn transfer(&mut self, io: &EngineIo, buffer: &mut [u8]) -> Option<FailureCause>;

    /// Does `io`, which moves no bytes. Returns why that failed, if it did.
    fn change(&mut self, io: &EngineIo) -> Option<FailureCause>;

    /// Transfers that moved fewer bytes than asked for and were gone on with.
    fn short_transfers(&self) -> u64 {
        0
    }
}

/// The engine around a [`Transfer`].
#[derive(Debug)]
pub struct OneAtATime<T> {
    transfer: T,
    memory: IoMemory,
    io: EngineIo,
    waiting: bool,
}

impl<T: Transfer> OneAtATime<T> {
    /// Returns the engine that moves bytes by `transfer`.
    ///
    /// # Errors
    /// [`LoadError::Iodepth`] for anything but one request in flight.
    pub(super) fn over(transfer: T, iodepth: u32, memory: IoMemory) -> Result<Self, LoadError> {
        if iodepth != 1 {
            return Err(LoadError::Iodepth { engine: transfer.name(), iodepth_max: 1, iodepth });
        }
        Ok(Self { transfer, memory, io: NO_IO, waiting: false })
    }
}

impl<T: Transfer> Engine for OneAtATime<T> {
    fn name(&self) -> &'static str {
        self.transfer.name()
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
        let io = self.io;
        let failure = if io.op.moves_bytes() {
            self.transfer.transfer(&io, self.memory.buffer(io.op, io.slot, io.bytes))
        } else {
            self.transfer.change(&io)
        };
        self.waiting = false;
        done.push(Completion { slot: io.slot, failure });
        Ok(())
    }

    fn in_flight_max(&self) -> u32 {
        1
    }

    fn in_flight(&self) -> u32 {
        u32::from(self.waiting)
    }

    fn buffer(&mut self, io: &EngineIo) -> Option<&mut [u8]> {
        io.op.moves_bytes().then(|| self.memory.buffer(io.op, io.slot, io.bytes))
    }

    fn io(&self, _slot: u32) -> EngineIo {
        self.io
    }

    fn short_transfers(&self) -> u64 {
        self.transfer.short_transfers()
    }
}
