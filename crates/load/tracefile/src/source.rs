//! A file as the source of a replay: read in place, or ahead in a separate thread.
//!
//! ```text
//! thread: Batches ──► full batches (a few) ──► next_batch ──► the load's loop
//!            ▲                                     │
//!            └───────── empty batches ◄────────────┘
//! ```
//! In virtual time reading takes no time, so it is done in place. On the wall clock the loop never waits for the file:
//! a batch that is not there yet is requested again, and the delay shows as lag.
//!
//! Invariants: [`BATCHES`] batches circulate, so memory does not grow with the trace and nothing is allocated per
//! request; the thread ends when its reader is gone.

use crate::error::TraceFileError;
use crate::read::{BATCH_RECORDS, Batches, TraceFile};
use raidlab_trace::{TraceRecord, TraceSummary};
use raidlab_workload::{BatchStep, DriverConfig, TraceReader, TraceSource};
use std::fmt;
use std::sync::mpsc::{Receiver, Sender, SyncSender, TryRecvError, channel, sync_channel};

/// Batches that are filled ahead of a replay: 65 536 requests, 3.5 MB.
const BATCHES: usize = 8;

/// How a trace is read for a replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadingAs {
    /// When its requests are asked for.
    Asked,
    /// Before, in a thread of its own.
    Ahead,
}

/// A trace in a file, as the source of a replay.
#[derive(Clone, Debug)]
pub struct FileSource {
    file: TraceFile,
    reading: ReadingAs,
}

impl FileSource {
    /// Returns the source that reads `file` in this way.
    pub fn new(file: TraceFile, reading: ReadingAs) -> Self {
        Self { file, reading }
    }
}

impl TraceSource for FileSource {
    fn name(&self) -> String {
        self.file.path().display().to_string()
    }

    fn summary(&self) -> &TraceSummary {
        &self.file.meta().summary
    }

    fn open(&self, _: &DriverConfig) -> Result<Box<dyn TraceReader>, String> {
        let batches = self.file.batches().map_err(|error| error.to_string())?;
        match self.reading {
            ReadingAs::Asked => Ok(Box::new(Asked(batches))),
            ReadingAs::Ahead => {
                let ahead =
                    Ahead::start(batches).map_err(|error| format!("no thread to read the trace: {error}"))?;
                Ok(Box::new(ahead))
            }
        }
    }
}

/// Reads when asked.
struct Asked(Batches);

impl TraceReader for Asked {
    fn next_batch(&mut self, batch: &mut Vec<TraceRecord>) -> BatchStep {
        match self.0.next(batch) {
            Ok(true) => BatchStep::Ready,
            Ok(false) => BatchStep::End,
            Err(error) => BatchStep::Failed(error.to_string()),
        }
    }
}

impl fmt::Debug for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Asked").finish_non_exhaustive()
    }
}

/// What the thread hands over.
type Handed = Result<Vec<TraceRecord>, Ended>;

/// Why there is no further batch.
#[derive(Debug)]
enum Ended {
    AtEnd,
    Failed(TraceFileError),
}

/// Reads ahead.
#[derive(Debug)]
struct Ahead {
    full: Receiver<Handed>,
    empty: Sender<Vec<TraceRecord>>,
    /// The first batch, which is there before the replay begins.
    first: Option<Handed>,
}

impl Ahead {
    fn start(batches: Batches) -> std::io::Result<Self> {
        let (full_in, full) = sync_channel(BATCHES);
        let (empty, empty_out) = channel();
        std::thread::Builder::new()
            .name("read trace".into())
            .spawn(move || read_ahead(batches, &full_in, &empty_out))?;
        for _ in 0..BATCHES {
            // The thread may have ended already, at the end of a short trace.
            let _ = empty.send(Vec::with_capacity(BATCH_RECORDS));
        }
        let first = full.recv().ok();
        Ok(Self { full, empty, first })
    }
}

fn read_ahead(mut batches: Batches, full: &SyncSender<Handed>, empty: &Receiver<Vec<TraceRecord>>) {
    while let Ok(mut batch) = empty.recv() {
        let handed = match batches.next(&mut batch) {
            Ok(true) => Ok(batch),
            Ok(false) => Err(Ended::AtEnd),
            Err(error) => Err(Ended::Failed(error)),
        };
        let is_last = handed.is_err();
        if full.send(handed).is_err() || is_last {
            return;
        }
    }
}

impl TraceReader for Ahead {
    fn next_batch(&mut self, batch: &mut Vec<TraceRecord>) -> BatchStep {
        let handed = match self.first.take() {
            Some(first) => first,
            None => match self.full.try_recv() {
                Ok(handed) => handed,
                Err(TryRecvError::Empty) => return BatchStep::NotYet,
                Err(TryRecvError::Disconnected) => {
                    return BatchStep::Failed("the thread that reads the trace has ended".into());
                }
            },
        };
        match handed {
            Ok(next) => {
                let read = std::mem::replace(batch, next);
                // When the thread has ended nobody needs it.
                let _ = self.empty.send(read);
                BatchStep::Ready
            }
            Err(Ended::AtEnd) => BatchStep::End,
            Err(Ended::Failed(error)) => BatchStep::Failed(error.to_string()),
        }
    }
}
