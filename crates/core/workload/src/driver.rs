//! The closed-loop workload driver: a pure state machine that keeps `iodepth` requests in flight.

use crate::result::Measurement;
use raidlab_units::{ByteCount, NanoSpan, Nanos};

/// Direction of an I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IoOp {
    /// From storage.
    Read,
    /// To storage.
    Write,
}

/// An I/O that the driver wants done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DriverIo {
    /// Which of the `iodepth` places it takes; free again after its completion. Dense from 0.
    pub slot: u32,
    /// Direction.
    pub op: IoOp,
    /// First byte, counted from the start of the target.
    pub offset_bytes: u64,
    /// Length in bytes.
    pub bytes: u32,
}

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DriverStep {
    /// Do this I/O now.
    Issue(DriverIo),
    /// Nothing to do before this time, or the next completion.
    WaitUntil(Nanos),
    /// All places are taken: wait for a completion.
    WaitForCompletion,
    /// The window is over and nothing is in flight.
    Finished,
}

/// What to drive.
#[derive(Clone, Debug)]
pub struct DriverConfig {
    /// Part of the target in use, from its start; offsets stay within it.
    pub region: ByteCount,
    /// Offsets and lengths are multiples of this (the target's block size).
    pub block_bytes: u32,
    /// Requests in flight.
    pub iodepth: u32,
    /// Seed of all that is random.
    pub seed: u64,
    /// Time before the measured window.
    pub ramp: NanoSpan,
    /// Length of the measured window.
    pub run: NanoSpan,
}

/// Why a workload can't be driven.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DriverError {
    /// The region holds less than one request.
    #[error("the region of {region} is smaller than one request of {request_bytes} bytes")]
    RegionTooSmall {
        /// Region given.
        region: ByteCount,
        /// Largest request of the specification.
        request_bytes: u32,
    },
}

/// The driver.
#[derive(Debug)]
pub struct Driver;

impl Driver {
    /// Returns what to do next at `now`.
    pub fn poll_step(&mut self, _now: Nanos) -> DriverStep {
        DriverStep::Finished
    }

    /// Takes in that the I/O in `slot` ended.
    pub fn handle_completion(&mut self, _now: Nanos, _slot: u32, _succeeded: bool) {}

    /// Returns what was counted so far.
    pub fn measurement(&self) -> Measurement {
        Measurement::default()
    }
}
