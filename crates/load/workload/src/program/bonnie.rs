//! Bonnie: one file written and read by characters and in blocks, then random seeks by three processes.
//!
//! ```text
//!  parent   putc │ rewrite │ create, write    │ getc │ read │ 5 s │ ............ │
//!  seekers                                                       4000 seeks in all
//! ```
//! The phases are those of the first version: rewriting comes before writing in blocks, so that the file that is read
//! is the one written last. A rewrite reads a block, goes back and writes it. Files are closed at the end of a phase,
//! and synchronised before only on request ([`WriteEnding`]): the file's size relative to memory shows what the page
//! cache keeps between phases. A seeker takes a ticket, goes to a random block and reads it; every tenth block is
//! written back. Seeks are timed from the first start to the last end, and their processor time is that of all three.
//!
//! Left out: the pipes' own cost, and the extra `read` at the end of the file.
//! Source: T. Bray, Bonnie (1990-1996), `Bonnie.c`: `Chunk`, `SeekProcCount`, `Seeks`, `UpdateSeek`.

use super::{FileCall, FileId, ProcessTime, Program, ProgramStep};
use crate::rng::{Rng, derived_seed};
use raidlab_units::{ByteCount, BytesPerSec, NanoSpan, Nanos};
use serde::{Deserialize, Serialize};

/// Length of a block.
const CHUNK: u64 = 16_384;
/// Processes that seek.
const SEEKERS: u32 = 3;
/// Seeks of all of them.
const SEEKS: u64 = 4_000;
/// One block in so many is written back.
const UPDATE_SEEK: u64 = 10;
/// How long the parent lets the seekers get ready.
const GET_READY: NanoSpan = NanoSpan::from_secs(5);

/// The only file.
const FILE: FileId = FileId(0);

raidlab_units::named! {
    /// A phase, in the order in which they are run.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum BonniePhase {
        /// Written by `putc`.
        CharWrite = "char-write",
        /// Blocks read, changed and written back.
        Rewrite = "rewrite",
        /// Written by blocks.
        BlockWrite = "block-write",
        /// Read by `getc`.
        CharRead = "char-read",
        /// Read by blocks.
        BlockRead = "block-read",
        /// Random blocks read by several processes.
        Seeks = "seeks",
    }
}

impl BonniePhase {
    /// Whether it writes all of the file.
    const fn writes(self) -> bool {
        matches!(self, Self::CharWrite | Self::Rewrite | Self::BlockWrite)
    }

    const fn next(self) -> Option<Self> {
        match self {
            Self::CharWrite => Some(Self::Rewrite),
            Self::Rewrite => Some(Self::BlockWrite),
            Self::BlockWrite => Some(Self::CharRead),
            Self::CharRead => Some(Self::BlockRead),
            Self::BlockRead => Some(Self::Seeks),
            Self::Seeks => None,
        }
    }
}

/// What to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BonnieConfig {
    /// Length of the file; rounded down to whole blocks.
    pub file: ByteCount,
    /// Seed of the places that are sought.
    pub seed: u64,
    /// How phases that write end.
    pub ending: WriteEnding,
}

/// How a phase that writes ends, within its time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WriteEnding {
    /// With a close, as Bonnie does: what is still dirty is written later, in nobody's time.
    #[default]
    Close,
    /// All is on the volume before the close.
    Sync,
}

/// Why it can't be run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BonnieError {
    /// The file holds no block.
    #[error("a file of {0} is shorter than one block of 16 KiB: make it longer")]
    FileTooShort(ByteCount),
}

/// What came of a phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct PhaseFigures {
    /// Bytes of the file that it went over; of seeks, the blocks read.
    pub bytes: u64,
    /// Calls that moved data: blocks, of seeks the seeks.
    pub calls: u64,
    /// Time it took.
    pub elapsed_ns: u64,
    /// Processor time of the processes that did it.
    pub cpu_ns: u64,
}

impl PhaseFigures {
    /// Bytes per second.
    pub fn rate(&self) -> BytesPerSec {
        BytesPerSec::of(ByteCount(self.bytes), NanoSpan(self.elapsed_ns))
    }

    /// Calls per second.
    pub fn calls_per_sec(&self) -> f64 {
        self.calls as f64 / (self.elapsed_ns.max(1) as f64 / 1e9)
    }

    /// Share of the time that a processor was busy with it, in percent; above 100 where there are several.
    pub fn cpu_pct(&self) -> f64 {
        self.cpu_ns as f64 / self.elapsed_ns.max(1) as f64 * 100.0
    }
}

/// Where a process is within its phase or seek.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    Open,
    Data,
    SeekBack,
    WriteBack,
    Sync,
    Close,
    Sleep,
}

#[derive(Clone, Debug)]
struct Seeker {
    at: At,
    random: Rng,
    seeks: u64,
    offset: u64,
    started: ProcessTime,
    has_opened: bool,
}

/// The program.
#[derive(Clone, Debug)]
pub struct BonnieProgram {
    blocks: u64,
    ending: WriteEnding,
    phase: BonniePhase,
    at: At,
    block: u64,
    started: ProcessTime,
    seekers: Vec<Seeker>,
    tickets: u64,
    has_started_seeks: bool,
    still_seeking: u32,
    first_start: Nanos,
    figures: Vec<(BonniePhase, PhaseFigures)>,
    seeks: PhaseFigures,
}

impl BonnieProgram {
    /// The program of `config`.
    ///
    /// # Errors
    /// [`BonnieError`] if the file is too short.
    pub fn new(config: &BonnieConfig) -> Result<Self, BonnieError> {
        let blocks = config.file.0 / CHUNK;
        if blocks == 0 {
            return Err(BonnieError::FileTooShort(config.file));
        }
        let seeker = |index| Seeker {
            at: At::Open,
            random: Rng::new(derived_seed(config.seed, index)),
            seeks: 0,
            offset: 0,
            started: ProcessTime::default(),
            has_opened: false,
        };
        Ok(Self {
            blocks,
            ending: config.ending,
            phase: BonniePhase::CharWrite,
            at: At::Open,
            block: 0,
            started: ProcessTime::default(),
            seekers: (0..u64::from(SEEKERS)).map(seeker).collect(),
            tickets: SEEKS,
            has_started_seeks: false,
            still_seeking: SEEKERS,
            first_start: Nanos::FAR_FUTURE,
            figures: Vec::with_capacity(BonniePhase::ALL.len()),
            seeks: PhaseFigures::default(),
        })
    }

    /// Phases that are over, in order.
    pub fn figures(&self) -> &[(BonniePhase, PhaseFigures)] {
        &self.figures
    }

    /// Length of a block: what a page cache may be kept in.
    pub const fn block_bytes() -> u64 {
        CHUNK
    }

    /// Processes that seek.
    pub const fn seekers() -> u32 {
        SEEKERS
    }

    /// What the parent does next.
    fn poll_parent(&mut self, time: ProcessTime) -> ProgramStep {
        let file = FILE;
        if self.phase == BonniePhase::Seeks {
            return self.poll_parent_of_seekers();
        }
        ProgramStep::Call(match self.at {
            At::Open => {
                let create = matches!(self.phase, BonniePhase::CharWrite | BonniePhase::BlockWrite);
                FileCall::Open { file, create }
            }
            At::Data => {
                if self.block == 0 {
                    self.started = time;
                }
                match self.phase {
                    BonniePhase::CharWrite => FileCall::PutChars { file, bytes: CHUNK },
                    BonniePhase::BlockWrite => FileCall::Write { file, bytes: CHUNK },
                    BonniePhase::CharRead => FileCall::GetChars { file, bytes: CHUNK },
                    _ => FileCall::Read { file, bytes: CHUNK },
                }
            }
            At::SeekBack => FileCall::Seek { file, offset: self.block * CHUNK },
            At::WriteBack => FileCall::Write { file, bytes: CHUNK },
            At::Sync => FileCall::Sync { file },
            At::Close | At::Sleep => FileCall::Close { file },
        })
    }

    fn poll_parent_of_seekers(&mut self) -> ProgramStep {
        match self.at {
            At::Sleep => ProgramStep::Call(FileCall::Sleep { span: GET_READY }),
            _ if self.still_seeking == 0 => ProgramStep::Finished,
            _ => ProgramStep::Wait,
        }
    }

    fn parent_returned(&mut self, time: ProcessTime) {
        self.at = match self.at {
            At::Open => At::Data,
            At::Data if self.phase == BonniePhase::Rewrite => At::SeekBack,
            At::SeekBack => At::WriteBack,
            At::Data | At::WriteBack => {
                self.block += 1;
                match self.block == self.blocks {
                    false => At::Data,
                    true if self.ending == WriteEnding::Sync && self.phase.writes() => At::Sync,
                    true => At::Close,
                }
            }
            At::Sync => At::Close,
            At::Close => return self.end_phase(time),
            At::Sleep => {
                self.has_started_seeks = true;
                At::Close
            }
        };
    }

    fn end_phase(&mut self, time: ProcessTime) {
        let figures = PhaseFigures {
            bytes: self.blocks * CHUNK,
            calls: self.blocks,
            elapsed_ns: (time.now - self.started.now).0,
            cpu_ns: (time.cpu - self.started.cpu).0,
        };
        self.figures.push((self.phase, figures));
        self.phase = self.phase.next().expect("the parent does all phases but the last");
        self.block = 0;
        self.at = if self.phase == BonniePhase::Seeks { At::Sleep } else { At::Open };
    }

    /// What a seeker does next.
    fn poll_seeker(&mut self, index: usize, time: ProcessTime) -> ProgramStep {
        if self.phase != BonniePhase::Seeks {
            return ProgramStep::Wait;
        }
        let (file, blocks) = (FILE, self.blocks);
        let seeker = &mut self.seekers[index];
        let call = match seeker.at {
            At::Open if !seeker.has_opened => FileCall::Open { file, create: false },
            At::Open => {
                if !self.has_started_seeks {
                    return ProgramStep::Wait;
                }
                if seeker.seeks == 0 && seeker.started == ProcessTime::default() {
                    seeker.started = time;
                    self.first_start = self.first_start.min(time.now);
                }
                if self.tickets == 0 {
                    seeker.at = At::Close;
                    FileCall::Close { file }
                } else {
                    self.tickets -= 1;
                    seeker.offset = seeker.random.below(blocks) * CHUNK;
                    FileCall::Seek { file, offset: seeker.offset }
                }
            }
            At::Data => FileCall::Read { file, bytes: CHUNK },
            At::SeekBack => FileCall::Seek { file, offset: seeker.offset },
            At::WriteBack => FileCall::Write { file, bytes: CHUNK },
            At::Sync | At::Close => FileCall::Close { file },
            At::Sleep => return ProgramStep::Finished,
        };
        ProgramStep::Call(call)
    }

    fn seeker_returned(&mut self, index: usize, time: ProcessTime) {
        let seeker = &mut self.seekers[index];
        seeker.at = match seeker.at {
            At::Open if !seeker.has_opened => {
                seeker.has_opened = true;
                At::Open
            }
            At::Open => At::Data,
            At::Data => {
                self.seeks.calls += 1;
                self.seeks.bytes += CHUNK;
                seeker.seeks += 1;
                if (seeker.seeks - 1).is_multiple_of(UPDATE_SEEK) { At::SeekBack } else { At::Open }
            }
            At::SeekBack => At::WriteBack,
            At::WriteBack => At::Open,
            At::Sync | At::Close | At::Sleep => {
                self.seeks.cpu_ns += (time.cpu - seeker.started.cpu).0;
                self.still_seeking -= 1;
                if self.still_seeking == 0 {
                    self.seeks.elapsed_ns = (time.now - self.first_start).0;
                    self.figures.push((BonniePhase::Seeks, self.seeks));
                }
                At::Sleep
            }
        };
    }
}

impl Program for BonnieProgram {
    fn process_count(&self) -> u32 {
        1 + SEEKERS
    }

    fn poll_step(&mut self, process: u32, time: ProcessTime) -> ProgramStep {
        match process.checked_sub(1) {
            None => self.poll_parent(time),
            Some(seeker) => self.poll_seeker(seeker as usize, time),
        }
    }

    fn handle_return(&mut self, process: u32, time: ProcessTime, _bytes: u64) {
        match process.checked_sub(1) {
            None => self.parent_returned(time),
            Some(seeker) => self.seeker_returned(seeker as usize, time),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A world in which every call takes a microsecond and half of it the processor.
    fn run(blocks: u64, ending: WriteEnding) -> (BonnieProgram, Vec<(u32, FileCall)>) {
        let config = BonnieConfig { file: ByteCount(blocks * CHUNK + 5), seed: 1, ending };
        let mut program = BonnieProgram::new(&config).expect("long enough");
        let (mut calls, mut now, mut cpu) = (Vec::new(), Nanos(0), [NanoSpan::ZERO; 4]);
        loop {
            let mut has_called = false;
            for process in 0..program.process_count() {
                let at = process as usize;
                let step = program.poll_step(process, ProcessTime { now, cpu: cpu[at] });
                let ProgramStep::Call(call) = step else { continue };
                (now, cpu[at]) = (now + NanoSpan(1_000), cpu[at] + NanoSpan(500));
                calls.push((process, call));
                program.handle_return(process, ProcessTime { now, cpu: cpu[at] }, CHUNK);
                has_called = true;
            }
            if !has_called {
                return (program, calls);
            }
        }
    }

    #[test]
    fn every_phase_goes_over_the_whole_file() {
        let (program, calls) = run(50, WriteEnding::Close);
        let phases: Vec<_> = program.figures().iter().map(|(phase, _)| *phase).collect();
        assert_eq!(phases, BonniePhase::ALL);
        for (phase, figures) in &program.figures()[..5] {
            assert_eq!((figures.bytes, figures.calls), (50 * CHUNK, 50), "{phase:?}");
            assert!((figures.cpu_pct() - 50.0).abs() < 2.0, "{phase:?} {}", figures.cpu_pct());
        }
        let seeks = program.figures()[5].1;
        assert_eq!((seeks.calls, seeks.bytes), (SEEKS, SEEKS * CHUNK));
        let count = |wanted: fn(&FileCall) -> bool| calls.iter().filter(|(_, call)| wanted(call)).count();
        assert_eq!(count(|call| matches!(call, FileCall::Open { create: true, .. })), 2);
        assert_eq!(count(|call| matches!(call, FileCall::PutChars { .. })), 50);
        assert_eq!(count(|call| matches!(call, FileCall::GetChars { .. })), 50);
        let written_back = count(|call| matches!(call, FileCall::Write { .. })) - 100;
        assert!((398..=402).contains(&written_back), "a tenth of the seeks: {written_back}");
    }

    #[test]
    fn seekers_wait_for_the_parent_and_keep_to_the_file() {
        let (_, calls) = run(7, WriteEnding::Close);
        let ready = calls.iter().position(|(_, call)| matches!(call, FileCall::Sleep { .. })).expect("once");
        let is_seek = |call: &FileCall| matches!(call, FileCall::Seek { .. });
        assert!(!calls[..ready].iter().any(|(process, call)| *process > 0 && is_seek(call)));
        for (process, call) in &calls[ready..] {
            if let FileCall::Seek { offset, .. } = call {
                assert!(*offset < 7 * CHUNK && offset.is_multiple_of(CHUNK), "{process}: {offset}");
            }
        }
    }

    #[test]
    fn what_was_written_is_synchronised_within_its_phase_if_asked_for() {
        let syncs = |ending| {
            let (program, calls) = run(9, ending);
            let count = calls.iter().filter(|(_, call)| matches!(call, FileCall::Sync { .. })).count();
            (count, program.figures()[0].1.elapsed_ns, program.figures()[3].1.elapsed_ns)
        };
        let (closed, synced) = (syncs(WriteEnding::Close), syncs(WriteEnding::Sync));
        assert_eq!((closed.0, synced.0), (0, 3));
        assert_eq!((synced.1, synced.2), (closed.1 + 1_000, closed.2), "only writing takes longer");
    }

    #[test]
    fn a_file_without_a_block_is_refused() {
        let config = BonnieConfig { file: ByteCount(CHUNK - 1), seed: 1, ending: WriteEnding::Close };
        assert!(BonnieProgram::new(&config).is_err());
    }
}
