//! The work on one target: write, read, compare, count, keep the record.

use super::error::SoakError;
use super::health::HealthReader;
use super::record::{Fault, RecordPlace, Sight, SoakContent, SoakPhase, SoakRecord};
use super::{SoakOptions, SoakProgress};
use crate::error::LoadError;
use crate::memory::IoMemory;
use crate::target::Target;
use raidlab_units::{ByteCount, NanoSpan};
use raidlab_verify::{STAMPED_SECTOR_BYTES, check_sectors, stamp_sectors};
use raidlab_workload::IoOp;
use ring::digest::{SHA256, digest};
use rustix::io::Errno;
use std::fs::File;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The record is replaced this often.
const SAVE_EVERY: Duration = Duration::from_secs(5);
/// Time between two tellings of progress.
const TELL_EVERY: Duration = Duration::from_millis(100);
/// Temperatures are taken this often.
const SAMPLE_EVERY: Duration = Duration::from_secs(10);
/// Longest sleep of a limited rate, so that a stop is seen.
const NAP_MAX: Duration = Duration::from_millis(100);

/// A soak under way.
pub(super) struct Work<'a> {
    pub(super) target: Target,
    pub(super) record: SoakRecord,
    pub(super) place: RecordPlace,
    pub(super) options: &'a SoakOptions,
    health: HealthReader<'a>,
    memory: IoMemory,
    /// Digests of all chunks, or of those before the one that is read first.
    digests: Vec<[u8; 32]>,
    began: Instant,
    /// Soaked in earlier runs.
    seconds_before: f64,
    moved_bytes: u64,
    read_bytes: u64,
    passes: u64,
    saved: Instant,
    told: Instant,
    sampled: Instant,
}

impl<'a> Work<'a> {
    pub(super) fn new(
        target: Target,
        record: SoakRecord,
        place: RecordPlace,
        options: &'a SoakOptions,
    ) -> Result<Self, SoakError> {
        let chunk_bytes = u32::try_from(record.chunk_bytes).expect("checked when it was opened");
        let memory = IoMemory::new(1, chunk_bytes, &[IoOp::Read], 0)?;
        let chunks = record.bytes.div_ceil(record.chunk_bytes);
        let is_compared = matches!(record.phase, SoakPhase::Reading { .. });
        let digests = match record.content {
            SoakContent::Digests if is_compared => place.load_digests(chunks)?,
            _ => Vec::new(),
        };
        let now = Instant::now();
        Ok(Self {
            health: HealthReader::new(&options.health, target.path()),
            target,
            seconds_before: record.seconds,
            record,
            place,
            options,
            memory,
            digests,
            began: now,
            moved_bytes: 0,
            read_bytes: 0,
            passes: 0,
            saved: now,
            told: now,
            sampled: now,
        })
    }

    /// Works until a limit is reached or `cancel` is set.
    pub(super) fn run(
        mut self,
        cancel: &AtomicBool,
        tell: &dyn Fn(SoakProgress),
    ) -> Result<SoakRecord, SoakError> {
        self.health.read_counters(&mut self.record.health);
        self.sample();
        self.place.save(&self.record)?;
        let ended = self.work(cancel, tell);
        self.sample();
        self.health.read_counters(&mut self.record.health);
        self.place.save(&self.record)?;
        ended.map(|()| self.record)
    }

    fn work(&mut self, cancel: &AtomicBool, tell: &dyn Fn(SoakProgress)) -> Result<(), SoakError> {
        while !cancel.load(Ordering::Relaxed) && !self.is_over() {
            self.step(cancel)?;
            if self.sampled.elapsed() >= SAMPLE_EVERY {
                self.sample();
            }
            if self.told.elapsed() >= TELL_EVERY {
                self.told = Instant::now();
                tell(self.progress());
            }
            if self.saved.elapsed() >= SAVE_EVERY {
                self.make_durable()?;
                self.keep_time();
                self.place.save(&self.record)?;
                self.saved = Instant::now();
            }
            self.keep_to_rate(cancel);
        }
        self.make_durable()
    }

    fn is_over(&self) -> bool {
        let limit = &self.options.limit;
        let soaked = NanoSpan(self.began.elapsed().as_nanos() as u64);
        limit.time.is_some_and(|time| soaked >= time)
            || limit.volume.is_some_and(|volume| self.read_bytes >= volume.get())
            || limit.passes.is_some_and(|passes| self.passes >= passes)
    }

    /// Moves one chunk.
    fn step(&mut self, cancel: &AtomicBool) -> Result<(), SoakError> {
        if let Some(command) = self.cut_now().map(str::to_owned) {
            return self.write_through_cut(&command, cancel);
        }
        match self.record.phase {
            SoakPhase::Writing { next_byte } => self.write_chunk(next_byte),
            SoakPhase::Digesting => self.digest_chunk(),
            SoakPhase::Reading { next_byte } => self.compare_chunk(next_byte),
        }
    }

    /// Length of the chunk that begins at `byte`.
    pub(super) fn chunk_at(&self, byte: u64) -> u32 {
        self.record.chunk_bytes.min(self.record.bytes - byte) as u32
    }

    pub(super) fn write_chunk(&mut self, byte: u64) -> Result<(), SoakError> {
        self.write_one(byte)?;
        let next_byte = byte + u64::from(self.chunk_at(byte));
        self.record.phase = SoakPhase::Writing { next_byte };
        if next_byte >= self.record.bytes {
            self.make_durable()?;
            self.record.phase = SoakPhase::Reading { next_byte: 0 };
        }
        Ok(())
    }

    /// Writes the chunk that begins at `byte`, wherever the record is.
    pub(super) fn write_one(&mut self, byte: u64) -> Result<(), SoakError> {
        let SoakContent::Stamped { run, sequence } = self.record.content else {
            unreachable!("only stamped data are written");
        };
        let bytes = self.chunk_at(byte);
        let buffer = self.memory.buffer(IoOp::Read, 0, bytes);
        stamp_sectors(buffer, run, byte / STAMPED_SECTOR_BYTES as u64, sequence);
        let file = self.target.file().expect("only a path is soaked");
        let mut done = 0;
        while done < buffer.len() {
            match rustix::io::pwrite(file, &buffer[done..], byte + done as u64) {
                Ok(0) => return Err(self.failed("write", Errno::NOSPC)),
                Ok(moved) => done += moved,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(self.failed("write", errno)),
            }
        }
        self.record.bytes_written += u64::from(bytes);
        self.moved_bytes += u64::from(bytes);
        Ok(())
    }

    /// Reads a chunk for the first time. One that can't be read counts as a fault at once, and has the digest of nothing.
    fn digest_chunk(&mut self) -> Result<(), SoakError> {
        let byte = self.digests.len() as u64 * self.record.chunk_bytes;
        let bytes = self.chunk_at(byte);
        let digest = match self.read(byte, bytes) {
            Ok(buffer) => sha256(buffer),
            Err(errno) => {
                self.record.note(byte, &Fault::Unreadable(errno), Sight::default());
                [0; 32]
            }
        };
        self.digests.push(digest);
        self.moved_bytes += u64::from(bytes);
        if byte + u64::from(bytes) >= self.record.bytes {
            self.place.save_digests(&self.digests)?;
            self.record.phase = SoakPhase::Reading { next_byte: 0 };
        }
        Ok(())
    }

    fn compare_chunk(&mut self, byte: u64) -> Result<(), SoakError> {
        let bytes = self.chunk_at(byte);
        let faults = self.faults_at(byte, bytes);
        if !faults.is_empty() {
            // What is right the second time was wrong on the way, or was repaired below.
            let again = self.faults_at(byte, bytes);
            for (at, fault) in &faults {
                let passing = !again.iter().any(|(other, _)| other == at);
                self.record.note(*at, fault, Sight { passing, after_power_cut: false });
            }
        }
        self.record.bytes_read += u64::from(bytes);
        self.count_read(bytes);
        let next_byte = byte + u64::from(bytes);
        self.record.phase = SoakPhase::Reading { next_byte };
        if next_byte >= self.record.bytes { self.end_pass() } else { Ok(()) }
    }

    fn end_pass(&mut self) -> Result<(), SoakError> {
        self.passes += 1;
        self.record.passes += 1;
        self.record.phase = SoakPhase::Reading { next_byte: 0 };
        if let (true, SoakContent::Stamped { sequence, .. }) =
            (self.options.rewrite, &mut self.record.content)
        {
            *sequence += 1;
            self.record.phase = SoakPhase::Writing { next_byte: 0 };
        }
        // Before anything is written that the record of before would take for a fault.
        self.place.save(&self.record)
    }

    /// Reads a chunk and finds what is wrong with it, by the first byte of each fault.
    fn faults_at(&mut self, byte: u64, bytes: u32) -> Vec<(u64, Fault)> {
        let (content, chunk_bytes) = (self.record.content, self.record.chunk_bytes);
        let buffer = match self.read(byte, bytes) {
            Ok(buffer) => buffer,
            Err(errno) => return vec![(byte, Fault::Unreadable(errno))],
        };
        let mut faults = Vec::new();
        match content {
            SoakContent::Stamped { run, sequence } => {
                let first = byte / STAMPED_SECTOR_BYTES as u64;
                check_sectors(buffer, run, first, sequence, &mut |sector, fault| {
                    faults.push((sector * STAMPED_SECTOR_BYTES as u64, Fault::Sector(fault)));
                });
            }
            SoakContent::Digests => {
                let found = sha256(buffer);
                let digests = &self.digests;
                if found != digests[(byte / chunk_bytes) as usize] {
                    let other = digests.iter().position(|digest| *digest == found);
                    faults.push((
                        byte,
                        other.map_or(Fault::Digest, |chunk| Fault::OtherChunk {
                            byte: chunk as u64 * chunk_bytes,
                        }),
                    ));
                }
            }
        }
        faults
    }

    pub(super) fn read(&mut self, byte: u64, bytes: u32) -> Result<&[u8], Errno> {
        let file = self.target.file().expect("only a path is soaked");
        let buffer = self.memory.buffer(IoOp::Read, 0, bytes);
        let mut done = 0;
        while done < buffer.len() {
            match rustix::io::pread(file, &mut buffer[done..], byte + done as u64) {
                Ok(0) => return Err(Errno::NODATA),
                Ok(moved) => done += moved,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
        if !self.target.is_direct() {
            // The next read shall come from storage, too.
            let length = std::num::NonZeroU64::new(u64::from(bytes));
            let advice = rustix::fs::fadvise(file, byte, length, rustix::fs::Advice::DontNeed);
            tracing::trace!(?advice, "the page cache was asked to forget");
        }
        Ok(buffer)
    }

    /// Written data must not be counted as written before they are durable.
    pub(super) fn make_durable(&self) -> Result<(), SoakError> {
        if !matches!(self.record.phase, SoakPhase::Writing { .. }) {
            return Ok(());
        }
        rustix::fs::fdatasync(self.file()).map_err(|errno| self.failed("make durable", errno))
    }

    pub(super) fn file(&self) -> &File {
        self.target.file().expect("only a path is soaked")
    }

    /// Counts what was read and compared towards the limits.
    pub(super) fn count_read(&mut self, bytes: u32) {
        self.read_bytes += u64::from(bytes);
        self.moved_bytes += u64::from(bytes);
    }

    pub(super) fn save(&mut self) -> Result<(), SoakError> {
        self.keep_time();
        self.place.save(&self.record)
    }

    /// Takes the temperatures.
    fn sample(&mut self) {
        self.keep_time();
        self.health.sample(self.record.seconds, &mut self.record.health);
        self.sampled = Instant::now();
    }

    fn failed(&self, op: &'static str, errno: Errno) -> SoakError {
        LoadError::System { path: self.target.path().into(), op, errno }.into()
    }

    fn keep_time(&mut self) {
        self.record.seconds = self.seconds_before + self.began.elapsed().as_secs_f64();
    }

    fn keep_to_rate(&self, cancel: &AtomicBool) {
        let Some(rate) = self.options.rate else { return };
        let due = Duration::from_nanos(rate.time_for(ByteCount(self.moved_bytes)).get());
        while let Some(early) = due.checked_sub(self.began.elapsed()) {
            if early.is_zero() || cancel.load(Ordering::Relaxed) {
                break;
            }
            std::thread::sleep(early.min(NAP_MAX));
        }
    }

    fn progress(&self) -> SoakProgress {
        let (doing, byte) = match self.record.phase {
            SoakPhase::Writing { next_byte } => ("writing", next_byte),
            SoakPhase::Digesting => ("digesting", self.digests.len() as u64 * self.record.chunk_bytes),
            SoakPhase::Reading { next_byte } => ("reading", next_byte),
        };
        SoakProgress {
            path: self.target.path().into(),
            doing,
            pass_share: byte as f64 / self.record.bytes as f64,
            passes: self.record.passes,
            read: ByteCount(self.record.bytes_read),
            faults: self.record.faults.total(),
        }
    }
}

fn sha256(bytes: &[u8]) -> [u8; 32] {
    digest(&SHA256, bytes).as_ref().try_into().expect("SHA-256 has 32 bytes")
}
