//! Parallel readers of the files of real folders.
//!
//! ```text
//!  DIR a/raidlab-streams/  0000  0002  0004 ...     stream n reads file n first, whatever the folder,
//!  DIR b/raidlab-streams/  0001  0003  0005 ...     and continues with its next one, or with the same again
//! ```
//! Files are made once, for the largest number of streams, with bytes that neither compress nor deduplicate, and serve
//! every step. Existing files of this name and length are reused.
//!
//! A folder may be on a file server (`nfs://`, `root://`). Its files are `raidlab-streams-00000` and so on, since the
//! common interface of such servers can't create folders; free space is not checked there.

use super::{FoldersError, check_folders, check_room, label};
use crate::scratch::ScratchFolder;
use crate::together::{Share, merged_programs, run_together};
use raidlab_engines::programs::{PageCaching, ProgramEnd, ProgramFiles, run_program};
use raidlab_engines::{
    Go, LayOut, LayOutContent, LayOutProgress, LoadError, RemoteError, is_remote_uri, lay_out_file,
    lay_out_remote, remove_remote, residency, uri_in_folder,
};
use raidlab_hosts::Hosts;
use raidlab_machine::MachineWatch;
use raidlab_units::{ByteCount, NanoSpan};
use raidlab_workload::program::{ColdFacts, FileId, Readers, ReadersConfig, StreamsFigures};
use raidlab_workload::{Measurement, Metric, RunResult, World, derived_seed};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Instant;

/// Name of the folder in each folder that is given.
const FOLDER: &str = "raidlab-streams";
/// Length of a file and of reads past the page cache are whole numbers of these.
const BLOCK_BYTES: u64 = 4096;
/// What a file is longer than its data, by the mark at its end.
const MARK_BYTES: u64 = 4096;
/// Longest read.
const READ_BYTES_MAX: u64 = 1 << 30;

raidlab_units::named! {
    /// How files are made cold before a step.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum Cold {
        /// The whole page cache is dropped; takes root.
        Drop = "drop",
        /// The system is asked to drop the files.
        Advise = "advise",
        /// Reads go past the page cache.
        Direct = "direct",
        /// They are not.
        None = "none",
    }
}

impl Cold {
    /// What this process may do: drop all, as root may where the system lets its parameters be changed, else ask.
    pub fn usual() -> Self {
        if residency::may_drop_all() { Self::Drop } else { Self::Advise }
    }

    /// As [`Cold::usual`]; of files that are all on servers this machine keeps nothing.
    pub fn usual_for(folders: &[PathBuf]) -> Self {
        if folders.iter().all(|folder| is_remote_uri(folder)) { Self::None } else { Self::usual() }
    }

    const fn caching(self) -> PageCaching {
        match self {
            Self::Direct => PageCaching::Direct,
            Self::None => PageCaching::Kept,
            Self::Drop | Self::Advise => PageCaching::DroppedAtClose,
        }
    }
}

/// What to read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StreamsPlan {
    /// Readers at once, step by step.
    pub streams: Vec<u32>,
    /// Length of a file; whole blocks of 4096 bytes of it are used.
    pub file: ByteCount,
    /// Length of a read.
    pub block: ByteCount,
    /// Reads of files that a stream does at most; the first is timed.
    pub reads_per_stream: u32,
    /// Files of its own that a stream has for them.
    pub files_per_stream: u32,
    /// How often each step is done.
    pub repeats: u32,
    /// How files are made cold.
    pub cold: Cold,
    /// Seed of what the files hold.
    pub seed: u64,
}

impl StreamsPlan {
    /// What is used of each file, on real folders and modelled arrays alike.
    pub fn file_bytes(&self) -> ByteCount {
        ByteCount(self.file.get() / BLOCK_BYTES * BLOCK_BYTES)
    }

    /// Checks the lengths.
    ///
    /// # Errors
    /// [`FoldersError::Size`] for files or reads of a length that neither folders nor models can have.
    pub fn check(&self) -> Result<(), FoldersError> {
        if self.file_bytes().get() == 0 || self.block.get() == 0 || self.block.get() > READ_BYTES_MAX {
            return Err(FoldersError::Size(self.file));
        }
        Ok(())
    }

    fn streams_max(&self) -> u32 {
        self.streams.iter().copied().max().unwrap_or(0)
    }

    /// Files of each stream, none of which has more than it reads.
    fn files_each(&self) -> u32 {
        self.files_per_stream.clamp(1, self.reads_per_stream.max(1))
    }

    /// The files that stream number `stream` reads, the timed one first.
    fn files_of(&self, stream: u32) -> Vec<FileId> {
        let (all, each) = (self.streams_max(), self.files_each());
        (0..self.reads_per_stream.max(1)).map(|turn| FileId(stream + turn % each * all)).collect()
    }

    /// What is done, in sentences.
    pub fn method(&self) -> String {
        let steps: Vec<String> = self.streams.iter().map(u32::to_string).collect();
        format!(
            "{} streams start at once; each reads up to {} files of {} in reads of {}, so that the load stays up until the last \
             timed read is over; only the first file of each stream is timed. Each step is done {}. Files are made cold by: {}.",
            steps.join(", "),
            self.reads_per_stream,
            self.file_bytes().decimal(),
            self.block,
            if self.repeats == 1 { "once".to_owned() } else { format!("{} times", self.repeats) },
            self.cold.name()
        )
    }
}

/// Folders with files to be read.
#[derive(Debug)]
pub struct StreamsBench {
    folders: Vec<PathBuf>,
    plan: StreamsPlan,
    files: ProgramFiles,
    /// Files that were made here and are taken away again.
    made: Vec<PathBuf>,
    /// Dropped after the files.
    _scratch: Vec<ScratchFolder>,
}

impl StreamsBench {
    /// Makes the files for `plan` in `folders`, in turn, or finds them there. With `keep` they stay afterwards. `progress` gets
    /// the bytes written so far and in all.
    ///
    /// # Errors
    /// [`FoldersError`]: no folder, no room, sizes that can't be, or `cancel`.
    pub fn open(
        folders: &[PathBuf],
        plan: &StreamsPlan,
        keep: bool,
        cancel: &AtomicBool,
        progress: &mut dyn FnMut(ByteCount, ByteCount),
    ) -> Result<Self, FoldersError> {
        check_folders(folders)?;
        plan.check()?;
        let length = plan.file_bytes();
        if plan.cold == Cold::Direct && !plan.block.get().is_multiple_of(BLOCK_BYTES) {
            return Err(FoldersError::BlockNotWhole(plan.block));
        }
        let count = plan.streams_max() * plan.files_each();
        let place = |file: u32| {
            let folder = &folders[file as usize % folders.len()];
            if is_remote_uri(folder) {
                uri_in_folder(folder, &format!("{FOLDER}-{file:05}"))
            } else {
                folder.join(FOLDER).join(format!("{file:05}"))
            }
        };
        let paths: Vec<PathBuf> = (0..count).map(place).collect();
        let missing: Vec<(&Path, u64)> = (0..)
            .zip(&paths)
            .filter(|(_, path)| !is_there(path, length))
            .map(|(file, _): (usize, _)| (&*folders[file % folders.len()], length.get() + MARK_BYTES))
            .collect();
        let (_, here): (Vec<_>, Vec<_>) = missing.iter().partition(|(folder, _)| is_remote_uri(folder));
        check_room(&here)?;
        let total = ByteCount(missing.len() as u64 * length.get());
        let here = folders.iter().filter(|folder| !is_remote_uri(folder));
        let scratch = here.map(|folder| ScratchFolder::make(&folder.join(FOLDER)));
        let mut bench = Self {
            folders: folders.to_vec(),
            plan: plan.clone(),
            files: ProgramFiles {
                paths,
                length: Some(length),
                block: plan.block,
                may_write: false,
                caching: plan.cold.caching(),
                seed: plan.seed,
            },
            made: Vec::new(),
            _scratch: scratch.collect::<Result<_, _>>()?,
        };
        bench.lay_out(length, cancel, &mut |written| progress(written, total))?;
        if keep {
            bench.made.clear();
        }
        Ok(bench)
    }

    fn lay_out(
        &mut self,
        bytes: ByteCount,
        cancel: &AtomicBool,
        progress: &mut dyn FnMut(ByteCount),
    ) -> Result<(), FoldersError> {
        let mut before = ByteCount::ZERO;
        for (file, path) in (0..).zip(&self.files.paths) {
            let seed = derived_seed(self.plan.seed, file);
            let order = LayOut { bytes, content: LayOutContent::Noise, seed, destroy_data: None };
            let was_there = path.exists();
            let mut tell = |state: LayOutProgress| progress(before + state.written);
            let (is_reused, is_new) = if is_remote_uri(path) {
                let made =
                    lay_out_remote(path, &order, cancel, &mut tell).map_err(|source| of(path, source))?;
                (!made, made)
            } else {
                (lay_out_file(path, &order, cancel, &mut tell)?.reused, !was_there)
            };
            if !is_reused {
                before += bytes;
            }
            if is_new {
                self.made.push(path.clone());
            }
        }
        Ok(())
    }

    /// Makes the files cold and lets so many `streams` read, on each of `hosts` at once. `tell` gets the bytes read so far.
    ///
    /// # Errors
    /// [`FoldersError`]: files that can't be dropped or read, `cancel`, or another rank that fails.
    pub fn run(
        &self,
        streams: u32,
        hosts: &mut Hosts,
        cancel: &AtomicBool,
        tell: &mut dyn FnMut(ByteCount),
    ) -> Result<RunResult, FoldersError> {
        let own = |begin: &mut dyn FnMut() -> Go, watch: &mut dyn FnMut()| {
            let mut tell = |read: ByteCount| {
                watch();
                tell(read);
            };
            self.run_here(streams, begin, cancel, &mut tell)
        };
        run_together(hosts, cancel, own, |shares, crew| {
            let ends = shares.iter().map(|share| share.started_ns + share.wall_ns).max().unwrap_or(0);
            merged_programs(shares, crew, |result, ranks| {
                let each: Vec<StreamsFigures> = ranks.into_iter().filter_map(|rank| rank.streams).collect();
                result.set_streams(StreamsFigures::together(&each, NanoSpan(ends)));
            })
        })
    }

    fn run_here(
        &self,
        streams: u32,
        begin: &mut dyn FnMut() -> Go,
        cancel: &AtomicBool,
        tell: &mut dyn FnMut(ByteCount),
    ) -> Result<Share, FoldersError> {
        let config = ReadersConfig {
            block: self.plan.block,
            files: (0..streams).map(|stream| self.plan.files_of(stream)).collect(),
        };
        let mut readers = Readers::new(config).expect("each stream has a file, and reads are of something");
        let cold = self.make_cold(streams)?;
        let watch = MachineWatch::start(&self.folders[0]);
        let started = Instant::now();
        let (ended, late) = run_program(&mut readers, &self.files, begin, cancel, tell)?;
        let (machine, wall) = (watch.end(), started.elapsed());
        if ended == ProgramEnd::Cancelled {
            return Err(FoldersError::Stopped);
        }
        let figures = StreamsFigures::of(&readers, self.plan.file_bytes(), self.plan.block, Some(cold));
        let name = format!("parallel read of {}", self.plan.block);
        let mut result = RunResult::unmeasured(World::Measured, label(&self.folders), name, Metric::MbPerS);
        result.settings.extend(self.settings(&figures));
        result.set_streams(figures);
        result.seed = self.plan.seed;
        result.machine = Some(machine);
        result.cost.wall_ns = NanoSpan(wall.as_nanos() as u64).get();
        // A rank is done when its last timed read is.
        let wall_ns = result.streams.as_ref().map_or(0, |figures| figures.window_ns);
        Ok(Share { result, measurement: Measurement::default(), started_ns: late.get(), wall_ns })
    }

    /// Gets the files that so many `streams` may read out of memory, and looks whether they are.
    fn make_cold(&self, streams: u32) -> Result<ColdFacts, FoldersError> {
        let files = (0..streams).flat_map(|stream| self.plan.files_of(stream));
        let mut numbers: Vec<u32> = files.map(|FileId(file)| file).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let all = numbers.into_iter().map(|file| self.files.paths[file as usize].clone());
        let paths: Vec<PathBuf> = all.filter(|path| !is_remote_uri(path)).collect();
        match self.plan.cold {
            Cold::Drop => residency::drop_all()?,
            Cold::Advise => residency::advise_away(&paths)?,
            Cold::Direct | Cold::None => {}
        }
        Ok(ColdFacts { how: self.how_cold(), cached_share: residency::cached_share(&paths) })
    }

    /// How files were made cold, and what can't be said of those of servers.
    fn how_cold(&self) -> String {
        let how = self.plan.cold.name();
        if self.folders.iter().any(|folder| is_remote_uri(folder)) {
            return format!("{how} here; servers have caches of their own");
        }
        how.to_owned()
    }

    fn settings(&self, figures: &StreamsFigures) -> Vec<(String, String)> {
        let plan = &self.plan;
        let settings = [
            ("folders", self.folders.len().to_string()),
            ("file", plan.file_bytes().decimal().to_string()),
            ("block", plan.block.to_string()),
            ("reads per stream at most", plan.reads_per_stream.to_string()),
            ("files per stream", plan.files_each().to_string()),
            ("cold", self.how_cold()),
            ("window", NanoSpan(figures.window_ns).to_string()),
        ];
        settings.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }
}

/// What became of a file on a server.
fn of(path: &Path, source: RemoteError) -> LoadError {
    match source {
        RemoteError::Cancelled => LoadError::Cancelled { path: path.into() },
        source => LoadError::Remote { path: path.into(), source },
    }
}

/// Whether a whole file of this length seems to be there; laying out looks closer.
fn is_there(path: &Path, length: ByteCount) -> bool {
    std::fs::metadata(path).is_ok_and(|found| found.is_file() && found.len() == length.get() + MARK_BYTES)
}

impl Drop for StreamsBench {
    fn drop(&mut self) {
        for path in &self.made {
            let removed = if is_remote_uri(path) {
                remove_remote(path).map_err(|error| error.to_string())
            } else {
                std::fs::remove_file(path).map_err(|error| error.to_string())
            };
            if let Err(error) = removed {
                tracing::warn!(path = %path.display(), %error, "a test file was left behind");
            }
        }
    }
}
