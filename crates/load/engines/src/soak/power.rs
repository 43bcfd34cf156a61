//! Power cuts during writes: does the storage keep everything that it acknowledged?
//!
//! ```text
//! pass n:   0 ............ acknowledged ...... attempted .......... end
//!           write + fdatasync       writes without      untouched: data of
//!           returned: must be new   a known end         the pass before
//!                        ▲ the command that cuts the power and restores it is started here
//! ```
//! A rewrite goes chunk by chunk, each made durable before the next. At a chunk chosen by the run's number and the
//! pass, the user's command is started, which cuts the storage's power (a switched socket, IPMI, a server that is
//! killed) and ends when it is back. Writing goes on meanwhile, until it fails or the command ends. Then the target is
//! reopened and completely read: acknowledged data must be there, writes under way may be old or new, sector by sector,
//! and the rest must be unchanged. Then the rewrite is completed.
//!
//! The power of the soaking machine can also be cut, by hand: the next soak continues behind the acknowledged writes,
//! and its read pass finds those that were lost.

use super::content;
use super::error::SoakError;
use super::record::{Fault, Sight, SoakContent, SoakPhase};
use super::work::Work;
use crate::target::Target;
use raidlab_units::ByteCount;
use raidlab_verify::{STAMPED_SECTOR_BYTES, SectorFault, check_sectors};
use rustix::fs::fdatasync;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long storage may take to come back after the command has ended.
const BACK_WITHIN: Duration = Duration::from_mins(2);
/// Time between two looks.
const NAP: Duration = Duration::from_millis(50);

impl Work<'_> {
    /// The command that cuts the power in this pass of writing, if one is to: not before there are data of an earlier pass.
    pub(super) fn cut_now(&self) -> Option<&str> {
        let is_new = matches!(self.record.phase, SoakPhase::Writing { next_byte: 0 });
        let has_old = matches!(self.record.content, SoakContent::Stamped { sequence, .. } if sequence > 1);
        self.options.power_cut.as_deref().filter(|_| is_new && has_old)
    }

    /// Writes until the power is cut and back, and reads all. Leaves the phase at what is still to be written.
    pub(super) fn write_through_cut(&mut self, command: &str, cancel: &AtomicBool) -> Result<(), SoakError> {
        let at = self.cut_at();
        let mut acknowledged = 0;
        while acknowledged < at {
            if cancel.load(Ordering::Relaxed) {
                return Ok(());
            }
            self.write_chunk(acknowledged)?;
            self.make_durable()?;
            acknowledged += u64::from(self.chunk_at(acknowledged));
        }
        let mut child = self.start_cut(command)?;
        let mut attempted = acknowledged;
        let mut has_failed = false;
        while !has_ended(&mut child, command)? {
            if has_failed || attempted >= self.record.bytes {
                std::thread::sleep(NAP);
                continue;
            }
            let next = attempted + u64::from(self.chunk_at(attempted));
            attempted = next;
            has_failed = self.write_one(acknowledged).is_err() || fdatasync(self.file()).is_err();
            if !has_failed {
                acknowledged = next;
            }
        }
        self.record.power_cuts += 1;
        self.reopen(cancel)?;
        self.read_after_cut(acknowledged, attempted, cancel);
        self.record.phase = SoakPhase::Writing { next_byte: acknowledged };
        if acknowledged >= self.record.bytes {
            self.record.phase = SoakPhase::Reading { next_byte: 0 };
        }
        self.save()
    }

    /// The byte before which the command is started: the first of some chunk but the first.
    fn cut_at(&self) -> u64 {
        let SoakContent::Stamped { run, sequence } = self.record.content else {
            unreachable!("only stamped data are written");
        };
        let chunks = self.record.bytes.div_ceil(self.record.chunk_bytes);
        let drawn = raidlab_workload::derived_seed(run, sequence);
        let chunk = if chunks > 1 { 1 + drawn % (chunks - 1) } else { 0 };
        chunk * self.record.chunk_bytes
    }

    fn start_cut(&self, command: &str) -> Result<Child, SoakError> {
        let started = Command::new("sh")
            .arg("-c")
            .arg(command)
            .env("RAIDLAB_TARGET", self.target.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn();
        started.map_err(|error| SoakError::PowerCut { command: command.into(), reason: error.to_string() })
    }

    /// Opens the target anew, as soon as it is back.
    fn reopen(&mut self, cancel: &AtomicBool) -> Result<(), SoakError> {
        let path = self.target.path().to_path_buf();
        // A device that is open for one can't be opened for another.
        drop(std::mem::replace(&mut self.target, Target::no_op(ByteCount(1))));
        let began = Instant::now();
        loop {
            match content::target(&path, self.options, true) {
                Ok(target) if content::soaked_bytes(&target) == self.record.bytes => {
                    self.target = target;
                    return Ok(());
                }
                Err(error) if began.elapsed() > BACK_WITHIN || cancel.load(Ordering::Relaxed) => {
                    return Err(error);
                }
                Ok(target) if began.elapsed() > BACK_WITHIN => {
                    return Err(SoakError::OtherTarget {
                        record: self.place.record().into(),
                        path,
                        was: ByteCount(self.record.bytes),
                        was_chunk: ByteCount(self.record.chunk_bytes),
                        is: ByteCount(content::soaked_bytes(&target)),
                        is_chunk: self.options.chunk,
                    });
                }
                Ok(_) | Err(_) => std::thread::sleep(NAP),
            }
        }
    }

    /// Reads all, and judges each chunk by what may be there.
    fn read_after_cut(&mut self, acknowledged: u64, attempted: u64, cancel: &AtomicBool) {
        let mut byte = 0;
        while byte < self.record.bytes && !cancel.load(Ordering::Relaxed) {
            let bytes = self.chunk_at(byte);
            let allowed = Allowed::at(byte, acknowledged, attempted);
            for (at, fault) in self.faults_after_cut(byte, bytes, allowed) {
                self.record.note(at, &fault, Sight { passing: false, after_power_cut: true });
            }
            self.record.bytes_read += u64::from(bytes);
            self.count_read(bytes);
            byte += u64::from(bytes);
        }
    }

    fn faults_after_cut(&mut self, byte: u64, bytes: u32, allowed: Allowed) -> Vec<(u64, Fault)> {
        let SoakContent::Stamped { run, sequence } = self.record.content else {
            unreachable!("only stamped data are written");
        };
        let wanted = if allowed == Allowed::Old { sequence - 1 } else { sequence };
        let buffer = match self.read(byte, bytes) {
            Ok(buffer) => buffer,
            Err(errno) => return vec![(byte, Fault::Unreadable(errno))],
        };
        let mut faults = Vec::new();
        check_sectors(buffer, run, byte / STAMPED_SECTOR_BYTES as u64, wanted, &mut |sector, fault| {
            let is_before = fault == SectorFault::Old { sequence: sequence - 1 };
            if !(is_before && allowed == Allowed::Either) {
                faults.push((sector * STAMPED_SECTOR_BYTES as u64, Fault::Sector(fault)));
            }
        });
        faults
    }
}

/// Whether the command has ended, and well.
fn has_ended(child: &mut Child, command: &str) -> Result<bool, SoakError> {
    let failed = |reason: String| SoakError::PowerCut { command: command.into(), reason };
    match child.try_wait().map_err(|error| failed(error.to_string()))? {
        Some(status) if status.success() => Ok(true),
        Some(status) => Err(failed(status.to_string())),
        None => Ok(false),
    }
}

/// What a chunk may hold after a cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Allowed {
    /// What was acknowledged.
    New,
    /// What was under way, old or new by sector.
    Either,
    /// What was there.
    Old,
}

impl Allowed {
    fn at(byte: u64, acknowledged: u64, attempted: u64) -> Self {
        match byte {
            _ if byte < acknowledged => Self::New,
            _ if byte < attempted => Self::Either,
            _ => Self::Old,
        }
    }
}
