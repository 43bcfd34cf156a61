//! Readers that start together, each of a sequence of files from start to end, until no timed read is left.
//!
//! ```text
//!  reader 0  ├─ timed ──┤─ next ───┤─ next ─ ─ ┐
//!  reader 1  ├── timed ─────┤─ next ─ ─ ─ ─ ─ ─┤ all timed reads are over
//!  reader 2  ├───────── timed ─────────────────┤
//! ```
//! Only the first file of each reader is timed. Readers that finish early continue with their next file, so that the
//! load stays constant until the last timed read ends; then all stop. If a reader runs out of files before, the load
//! fell short, and the result says by how much: the overlap is the average share of the time, from the first start to
//! the end of the last timed read, during which readers were reading.
//!
//! Source of the method: the parallel streams of paper `cdf-caf-2002`.

use super::{FileCall, FileId, ProcessTime, Program, ProgramStep};
use raidlab_units::{ByteCount, BytesPerSec, NanoSpan, Nanos};

/// What to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadersConfig {
    /// Length of a read.
    pub block: ByteCount,
    /// The files of each reader, the timed one first.
    pub files: Vec<Vec<FileId>>,
}

/// Why nobody can read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadersError {
    /// There is no reader, or one without a file.
    #[error("reader {0} has no file: give each reader at least one, and at least one reader")]
    NoFile(usize),
    /// Reads of nothing never end.
    #[error("a read must move at least one byte")]
    NoBlock,
}

/// What came of one reader's timed read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReaderFigures {
    /// Length of the file.
    pub bytes: u64,
    /// From opening to the end of the file.
    pub elapsed: NanoSpan,
    /// Processor time of the reader.
    pub cpu: NanoSpan,
}

impl ReaderFigures {
    /// Bytes per second.
    pub fn rate(&self) -> BytesPerSec {
        BytesPerSec::of(ByteCount(self.bytes), self.elapsed)
    }
}

/// The time in which the load was to be held up: from the first start to the end of the last timed read.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LoadWindow {
    /// Its length.
    pub span: NanoSpan,
    /// What all readers read in it, timed or not.
    pub bytes: ByteCount,
    /// Reads that did that.
    pub reads: u64,
    /// Share of it that readers were reading, on average, from 0 to 1.
    pub overlap: f64,
    /// Readers that ran out of files.
    pub ran_out: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    Open,
    Read,
    Close,
    Done,
}

#[derive(Clone, Debug)]
struct Reader {
    at: At,
    /// Which of its files.
    index: usize,
    bytes: u64,
    started: ProcessTime,
    /// When the first of its files was opened.
    first_start: Option<Nanos>,
    /// When it had no more.
    ran_out: Option<Nanos>,
    timed: Option<ReaderFigures>,
}

/// The program.
#[derive(Clone, Debug)]
pub struct Readers {
    config: ReadersConfig,
    each: Vec<Reader>,
    /// Timed reads that are not over.
    timing: usize,
    /// When the last of them was.
    timed_until: Nanos,
    /// Bytes read until then, and reads.
    moved: u64,
    reads: u64,
}

impl Readers {
    /// The readers of `config`.
    ///
    /// # Errors
    /// [`ReadersError`] if one has nothing to read.
    pub fn new(config: ReadersConfig) -> Result<Self, ReadersError> {
        if config.block.0 == 0 {
            return Err(ReadersError::NoBlock);
        }
        let without = config.files.iter().position(Vec::is_empty);
        if let Some(reader) = without.or(config.files.is_empty().then_some(0)) {
            return Err(ReadersError::NoFile(reader));
        }
        let reader = Reader {
            at: At::Open,
            index: 0,
            bytes: 0,
            started: ProcessTime::default(),
            first_start: None,
            ran_out: None,
            timed: None,
        };
        let readers = vec![reader; config.files.len()];
        let timing = readers.len();
        Ok(Self { timing, config, each: readers, timed_until: Nanos::ZERO, moved: 0, reads: 0 })
    }

    /// The timed reads, in the order of the readers; none for those that are not over.
    pub fn figures(&self) -> impl Iterator<Item = Option<ReaderFigures>> {
        self.each.iter().map(|reader| reader.timed)
    }

    /// Whether a reader ran out of files while others were timed: then the load was less than it should be.
    pub fn fell_short(&self) -> bool {
        self.each.iter().any(|reader| reader.ran_out.is_some())
    }

    /// Reads that are still being timed.
    pub fn timing(&self) -> usize {
        self.timing
    }

    /// The time in which the load was to be held up, once all timed reads are over.
    pub fn window(&self) -> LoadWindow {
        let starts = || self.each.iter().filter_map(|reader| reader.first_start);
        let Some(first) = starts().min().filter(|_| self.timing == 0) else { return LoadWindow::default() };
        let span = self.timed_until - first;
        let active = |reader: &Reader| {
            let until = reader.ran_out.map_or(self.timed_until, |at| at.min(self.timed_until));
            reader.first_start.map_or(0, |start| (until - start).0)
        };
        let active: u64 = self.each.iter().map(active).sum();
        LoadWindow {
            span,
            bytes: ByteCount(self.moved),
            reads: self.reads,
            overlap: active as f64 / (span.0.max(1) as f64 * self.each.len() as f64),
            ran_out: self.each.iter().filter(|reader| reader.ran_out.is_some()).count() as u32,
        }
    }
}

impl Program for Readers {
    fn process_count(&self) -> u32 {
        self.each.len() as u32
    }

    fn poll_step(&mut self, process: u32, time: ProcessTime) -> ProgramStep {
        let reader = &mut self.each[process as usize];
        if self.timing == 0 && reader.at != At::Done {
            reader.at = At::Done;
        }
        let Some(&file) = self.config.files[process as usize].get(reader.index) else {
            if self.timing > 0 {
                reader.ran_out = Some(time.now);
            }
            return ProgramStep::Finished;
        };
        ProgramStep::Call(match reader.at {
            At::Open => {
                reader.started = time;
                reader.first_start = reader.first_start.or(Some(time.now));
                FileCall::Open { file, create: false }
            }
            At::Read => FileCall::Read { file, bytes: self.config.block.0 },
            At::Close => FileCall::Close { file },
            At::Done => return ProgramStep::Finished,
        })
    }

    fn handle_return(&mut self, process: u32, time: ProcessTime, bytes: u64) {
        let reader = &mut self.each[process as usize];
        match reader.at {
            At::Open => (reader.at, reader.bytes) = (At::Read, 0),
            At::Read if bytes > 0 => {
                reader.bytes += bytes;
                if self.timing > 0 {
                    self.moved += bytes;
                    self.reads += 1;
                }
            }
            At::Read => {
                if reader.timed.is_none() {
                    let (elapsed, cpu) = (time.now - reader.started.now, time.cpu - reader.started.cpu);
                    reader.timed = Some(ReaderFigures { bytes: reader.bytes, elapsed, cpu });
                    self.timing -= 1;
                    self.timed_until = self.timed_until.max(time.now);
                }
                reader.at = At::Close;
            }
            At::Close => (reader.at, reader.index) = (At::Open, reader.index + 1),
            At::Done => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Files of 10 blocks, of which the reader of number `slow` takes longer for each.
    fn run(files_each: usize, slow: u32) -> Readers {
        let files = (0..3).map(|reader| (0..files_each).map(|n| FileId((reader * 10 + n) as u32)).collect());
        let config = ReadersConfig { block: ByteCount(100), files: files.collect() };
        let mut readers = Readers::new(config).expect("all have files");
        let mut now = [Nanos(0); 3];
        let mut left = [1_000u64; 3];
        let mut running = [true; 3];
        while let Some(process) = (0..3).filter(|it| running[*it]).min_by_key(|it| now[*it]) {
            let time = |now| ProcessTime { now, cpu: NanoSpan::ZERO };
            match readers.poll_step(process as u32, time(now[process])) {
                ProgramStep::Call(call) => {
                    let bytes = match call {
                        FileCall::Read { bytes, .. } => bytes.min(left[process]),
                        _ => 0,
                    };
                    left[process] -= bytes;
                    if matches!(call, FileCall::Close { .. }) {
                        left[process] = 1_000;
                    }
                    now[process] += NanoSpan(if process as u32 == slow { 40 } else { 10 });
                    readers.handle_return(process as u32, time(now[process]), bytes);
                }
                _ => running[process] = false,
            }
        }
        readers
    }

    #[test]
    fn the_load_lasts_until_the_last_timed_read_ends() {
        let readers = run(9, 1);
        assert!(!readers.fell_short());
        let figures: Vec<_> = readers.figures().map(|figures| figures.expect("all were timed")).collect();
        assert!(figures.iter().all(|figures| figures.bytes == 1_000));
        assert_eq!(figures[1].elapsed.0, 4 * figures[0].elapsed.0);
        assert!((3..=4).contains(&readers.each[0].index), "others went on: {}", readers.each[0].index);
        let window = readers.window();
        assert_eq!((window.span, window.overlap, window.ran_out), (figures[1].elapsed, 1.0, 0));
        // The slow one reads its file once; the others are four times as fast, openings and closings between.
        assert!((7_500..=8_500).contains(&window.bytes.0), "{window:?}");
        assert_eq!(window.reads * 100, window.bytes.0);
    }

    #[test]
    fn running_out_of_files_is_told() {
        let readers = run(2, 1);
        assert!(readers.fell_short());
        let window = readers.window();
        assert_eq!(window.ran_out, 2);
        // Two of three are done with both of their files after half of the time, as far as files go.
        assert!((window.overlap - 2.0 / 3.0).abs() < 0.03, "{window:?}");
    }

    #[test]
    fn readers_need_files() {
        let config = |files| ReadersConfig { block: ByteCount(1), files };
        assert!(Readers::new(config(vec![])).is_err());
        assert!(Readers::new(config(vec![vec![FileId(0)], vec![]])).is_err());
    }
}
