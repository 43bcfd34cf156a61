//! A workload's driver as a program: each place for a request in flight is a process that reads, writes and
//! synchronises one file.
//!
//! ```text
//!  Driver ── Issue(slot, read) ──► process `slot` ── ReadAt ──► FileWorld      a flush is an fsync of the file
//!         ◄─ handle_completion ──                ◄─ return ──
//! ```
//! Left out: asynchronous calls of one process (which cost less than those of many processes), and read-ahead of
//! streams that several processes read together: with more than one request in flight a sequential stream has no
//! read-ahead.

use super::spec::{FilesOutcome, SimulatedHost, simulate_files};
use crate::array::{SimError, SimulationLoad, driver_config, region_in};
use raidlab_units::{ByteCount, Nanos};
use raidlab_workload::program::{FileCall, FileId, ProcessTime, Program, ProgramStep};
use raidlab_workload::{Driver, DriverError, DriverIo, DriverStep, IoOp, Measurement, OpSet};

const FILE: FileId = FileId(0);

#[derive(Debug)]
struct DrivenFile {
    driver: Driver,
    /// What each process is to do.
    handed_out: Vec<Option<DriverIo>>,
    /// How many have not begun it.
    waiting: u32,
    polled_at: Nanos,
    wake_at: Option<Nanos>,
    is_finished: bool,
}

impl DrivenFile {
    /// Takes what the driver wants done.
    fn poll_driver(&mut self, now: Nanos) {
        while !self.is_finished {
            match self.driver.poll_step(now) {
                DriverStep::Issue(io) => {
                    self.handed_out[io.slot as usize] = Some(io);
                    self.waiting += 1;
                }
                DriverStep::WaitUntil(at) => {
                    self.wake_at = Some(at);
                    break;
                }
                DriverStep::WaitForCompletion => {
                    self.wake_at = None;
                    break;
                }
                DriverStep::Finished => {
                    (self.is_finished, self.wake_at) = (true, None);
                }
            }
        }
        self.polled_at = now;
    }
}

impl Program for DrivenFile {
    fn process_count(&self) -> u32 {
        self.handed_out.len() as u32
    }

    fn poll_step(&mut self, process: u32, time: ProcessTime) -> ProgramStep {
        self.poll_driver(time.now);
        let Some(io) = self.handed_out[process as usize].take() else {
            return if self.is_finished { ProgramStep::Finished } else { ProgramStep::Wait };
        };
        self.waiting -= 1;
        let (offset, bytes) = (io.offset_bytes, u64::from(io.bytes));
        ProgramStep::Call(match io.op {
            IoOp::Read => FileCall::ReadAt { file: FILE, offset, bytes },
            IoOp::Write => FileCall::WriteAt { file: FILE, offset, bytes },
            IoOp::Flush | IoOp::FlushData => FileCall::Sync { file: FILE },
            IoOp::Trim | IoOp::WriteZeroes => unreachable!("workloads are looked at before they run"),
        })
    }

    fn handle_return(&mut self, process: u32, time: ProcessTime, _: u64) {
        self.driver.handle_completion(time.now, process, true);
    }

    fn wake_at(&self) -> Option<Nanos> {
        if self.waiting > 0 { Some(self.polled_at) } else { self.wake_at }
    }
}

/// Runs `load` on the one file of `host`, each request as a process of its own, and returns what was measured.
///
/// # Errors
/// [`SimError`] if the host, its array, the file or the load make no sense.
pub fn simulate_file_load(
    host: &SimulatedHost,
    load: &SimulationLoad,
) -> Result<(FilesOutcome, Measurement), SimError> {
    load.workload.check_ops(OpSet::OF_ARRAYS)?;
    let room = host.files.first().map_or(ByteCount::ZERO, |file| file.room);
    let region = region_in(load, room)?;
    let block_bytes = u32::try_from(host.unit.0).map_err(|_| SimError::CacheUnit { unit: host.unit })?;
    // The driver's blocks keep offsets whole; a length that is not would share its last unit with the next request.
    if let Some(line) = load.workload.all_lines().find(|line| !line.bytes.is_multiple_of(block_bytes)) {
        return Err(SimError::PartOfUnit { bytes: line.bytes, unit: host.unit });
    }
    let config = driver_config(block_bytes, load, (0, 1), region);
    let driver = Driver::new(&load.workload, &config).map_err(|error: DriverError| SimError::from(error))?;
    let handed_out = vec![None; driver.iodepth() as usize];
    let mut program = DrivenFile {
        driver,
        handed_out,
        waiting: 0,
        polled_at: Nanos::ZERO,
        wake_at: None,
        is_finished: false,
    };
    let outcome = simulate_files(host, &mut program, load.seed)?;
    Ok((outcome, program.driver.measurement()))
}
