//! Readers that start at once, each of a sequence of files from start to end, until nobody's timed read is left.
//!
//! ```text
//!  reader 0  ├─ timed ──┤─ next ───┤─ next ─ ─ ┐
//!  reader 1  ├── timed ─────┤─ next ─ ─ ─ ─ ─ ─┤ all timed reads are over
//!  reader 2  ├───────── timed ─────────────────┤
//! ```
//! Only the first file of each reader is timed. The readers that are done with theirs go on with their next file, so that
//! the load stays what it was until the last timed read ends; then all stop. Where a reader runs out of files before, the
//! load fell short, and the result says so.
//!
//! Source of the method: the parallel streams of paper `cdf-caf-2002`.

use super::{FileCall, FileId, ProcessTime, Program, ProgramStep};
use raidlab_units::{ByteCount, BytesPerSec, NanoSpan};

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
    timed: Option<ReaderFigures>,
}

/// The program.
#[derive(Clone, Debug)]
pub struct Readers {
    config: ReadersConfig,
    each: Vec<Reader>,
    /// Timed reads that are not over.
    timing: usize,
    fell_short: bool,
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
        let reader =
            Reader { at: At::Open, index: 0, bytes: 0, started: ProcessTime::default(), timed: None };
        let readers = vec![reader; config.files.len()];
        Ok(Self { timing: readers.len(), config, each: readers, fell_short: false })
    }

    /// The timed reads, in the order of the readers; none for those that are not over.
    pub fn figures(&self) -> impl Iterator<Item = Option<ReaderFigures>> {
        self.each.iter().map(|reader| reader.timed)
    }

    /// Whether a reader ran out of files while others were timed: then the load was less than it should be.
    pub fn fell_short(&self) -> bool {
        self.fell_short
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
            self.fell_short |= self.timing > 0;
            return ProgramStep::Finished;
        };
        ProgramStep::Call(match reader.at {
            At::Open => {
                reader.started = time;
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
            At::Read if bytes > 0 => reader.bytes += bytes,
            At::Read => {
                if reader.timed.is_none() {
                    let (elapsed, cpu) = (time.now - reader.started.now, time.cpu - reader.started.cpu);
                    reader.timed = Some(ReaderFigures { bytes: reader.bytes, elapsed, cpu });
                    self.timing -= 1;
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
    use raidlab_units::Nanos;

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
    }

    #[test]
    fn running_out_of_files_is_told() {
        assert!(run(2, 1).fell_short());
    }

    #[test]
    fn readers_need_files() {
        let config = |files| ReadersConfig { block: ByteCount(1), files };
        assert!(Readers::new(config(vec![])).is_err());
        assert!(Readers::new(config(vec![vec![FileId(0)], vec![]])).is_err());
    }
}
