//! The soak: data written once and read again and again, for days if need be, to find silent corruption.
//!
//! ```text
//! new file ──► laid out with stamped sectors ─┐                 ┌─► compare ─► faults, bits read ─► record
//! device, --write ──► stamped in a first pass ┼─► read, chunk by chunk
//! existing data ──► first pass takes digests ─┘        ▲        └─► end of a pass: rewrite, if requested
//!                                                      └──────────────────────────────────────────────┘
//! ```
//! Each target has a thread and a [`SoakRecord`], kept in a file beside it and replaced as a whole every few seconds,
//! so that a stop, a crash or a power cut loses only some seconds of counting: the next soak of the same target
//! continues. Stamped sectors distinguish changed bits, misplaced data and lost writes, and wrong bits are counted; for
//! existing data only a digest (SHA-256 of each chunk) is known. Wrong data is read once more, which distinguishes an
//! error on the way from one on the storage. Cutting the storage's power during writes finds storage that loses
//! acknowledged data (`power.rs`); the drives' own health data stands beside the findings (`health.rs`).
//!
//! Reads bypass the page cache, one chunk at a time: a drive reads sequentially. Source of the method: the `md5_checks`
//! of the evaluation `cdf-caf-2002`, which read files of random bytes for days and compared digests.

mod content;
mod error;
mod health;
mod power;
mod record;
mod work;

pub use error::SoakError;
pub use health::{DriveHealth, HealthSources, SoakHealth, TemperatureSeries};
pub use record::{FaultCounts, FaultNote, RecordPlace, SoakContent, SoakPhase, SoakRecord};

use crate::lay_out::LayOutProgress;
use raidlab_units::{ByteCount, BytesPerSec, NanoSpan};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// How to soak.
#[derive(Clone, Debug)]
pub struct SoakOptions {
    /// Size of the file to lay out where there is none.
    pub size: Option<ByteCount>,
    /// Past the page cache.
    pub direct: bool,
    /// Bytes of one read; a whole number of blocks of each target.
    pub chunk: ByteCount,
    /// No faster than this, each target.
    pub rate: Option<BytesPerSec>,
    /// What ends it; without any it goes on until it is stopped.
    pub limit: SoakLimit,
    /// Write stamped data over what is there first.
    pub write: bool,
    /// Write each target anew after every pass.
    pub rewrite: bool,
    /// A command that cuts the power of the storage and gives it back, once in every pass of writing but the first.
    pub power_cut: Option<String>,
    /// Where drives and sensors are found.
    pub health: HealthSources,
    /// Names the target whose data may be destroyed; see [`raidlab_device::safety`].
    pub destroy_data: Option<String>,
    /// Folder of the records; without one, that of each file, and the current one for devices.
    pub records: Option<PathBuf>,
}

/// What ends a soak, for each target: whichever comes first.
#[derive(Clone, Copy, Debug, Default)]
pub struct SoakLimit {
    /// So long from now on.
    pub time: Option<NanoSpan>,
    /// So much read from now on.
    pub volume: Option<ByteCount>,
    /// So many passes from now on.
    pub passes: Option<u64>,
}

/// How far a soak has come.
#[derive(Clone, Debug)]
pub struct SoakProgress {
    /// The target.
    pub path: PathBuf,
    /// What it does.
    pub doing: &'static str,
    /// Share of the pass that is over, 0 to 1.
    pub pass_share: f64,
    /// Passes that are over, of all soaks of this target.
    pub passes: u64,
    /// Read by all soaks of this target.
    pub read: ByteCount,
    /// Faults found by all soaks of this target.
    pub faults: u64,
}

/// Time between two tellings of progress.
const TELL_EVERY: Duration = Duration::from_millis(200);

/// Soaks all targets side by side until the limits are reached or `cancel` is set. Returns each one's record, or why it
/// could not go on; what was found until then stands in its file.
pub fn soak(
    paths: &[PathBuf],
    options: &SoakOptions,
    cancel: &AtomicBool,
    progress: &mut dyn FnMut(&[SoakProgress]),
) -> Vec<Result<SoakRecord, SoakError>> {
    let board = Mutex::new(vec![None; paths.len()]);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..paths.len())
            .map(|index| {
                let tell = {
                    let board = &board;
                    move |seen: SoakProgress| {
                        board.lock().unwrap_or_else(PoisonError::into_inner)[index] = Some(seen);
                    }
                };
                scope.spawn(move || soak_one(&paths[index], options, cancel, &tell))
            })
            .collect();
        while threads.iter().any(|thread| !thread.is_finished()) {
            std::thread::sleep(TELL_EVERY);
            let seen: Vec<SoakProgress> =
                board.lock().unwrap_or_else(PoisonError::into_inner).iter().flatten().cloned().collect();
            progress(&seen);
        }
        let joined = threads.into_iter().map(std::thread::ScopedJoinHandle::join);
        joined.map(|ended| ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    })
}

fn soak_one(
    path: &Path,
    options: &SoakOptions,
    cancel: &AtomicBool,
    tell: &dyn Fn(SoakProgress),
) -> Result<SoakRecord, SoakError> {
    let place = RecordPlace::of(path, options.records.as_deref());
    let mut laying_out = |seen: LayOutProgress| {
        tell(SoakProgress {
            path: path.into(),
            doing: "writing",
            pass_share: seen.written.get() as f64 / seen.total.get() as f64,
            passes: 0,
            read: ByteCount::ZERO,
            faults: 0,
        });
    };
    let (target, record) = content::open(path, &place, options, cancel, &mut laying_out)?;
    work::Work::new(target, record, place, options)?.run(cancel, tell)
}

#[cfg(test)]
mod tests;
