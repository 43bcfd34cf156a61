//! Published runs of `MLPerf` Storage: how many accelerators storage keeps busy, predicted from data sheets.
//!
//! ```text
//! row ─► drives' sheet, link, target, host ─► a pipe of R bytes/s ─┐
//!    └─► model, accelerators, threads ─► accelerator actor ────────┴─► AU, MiB/s; again for the largest number
//! ```
//! The actor is that of workloads ([`raidlab_workload::Accelerator`]), in the same driver. What it reads from is a pipe: one
//! request after the other at the rate of the narrowest of drives, link, target and processors, and the latency of a read.
//! Files are read through the page cache, whose hits make the pipe wider.
//!
//! Figures of hosts are fitted to six rows (`papers/mlperf-storage-1.0/host.toml`); no figure of a drive or link is. Parallel
//! file systems and networks other than TCP are not modelled, and their rows say so.

mod pipe;
mod rows;

pub use rows::{TrainingRow, is_training, parse_training};

use crate::papers::Method;
use crate::published::PublishedError;
use pipe::{Pipe, feed};
use raidlab_advisor::{Comparison, ComparisonRow, ComparisonSummary};
use raidlab_hardware::{Catalog, DriveModel};
use raidlab_units::{ByteCount, NanoSpan};
use raidlab_workload::toml_file::{self, TomlFileError, nearest};
use raidlab_workload::{Accelerator, LoaderUnit, SizeLaw};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The id of the publication in this program.
pub const TRAINING_ID: &str = "mlperf-storage-1.0";

const PUBLISHED: &str = include_str!("../papers/mlperf-storage-1.0/published.csv");
const STUDY: &str = include_str!("../papers/mlperf-storage-1.0/study.toml");
const HOST: &str = include_str!("../papers/mlperf-storage-1.0/host.toml");

/// Batches are made of so many pieces at most: what differs within a batch of small samples evens out.
const PIECES_MAX: u32 = 16;
/// The most accelerators that are looked for.
const ACCELERATORS_MAX: u32 = 4096;
/// A port of 100 Gb/s in the catalogue.
const PORT: &str = "nvme-tcp-100g";
/// What stands for drives that a row does not name.
const DRIVE_OF_NO_NAME: &str = "generic-nvme";
/// Threads of a socket that host.toml does not have.
const SOCKET_THREADS: u32 = 64;

/// What hosts and targets cost.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostFigures {
    #[serde(rename = "schema")]
    _schema: u32,
    /// From a batch that is there to the start of its computation, of one accelerator on a host.
    pub step: NanoSpan,
    /// Bytes of the batch that go by in a second meanwhile.
    pub step_bytes_per_sec: ByteCount,
    /// How much longer that is for each accelerator more, in percent.
    pub step_growth_pct: f64,
    /// Share of a processor's thread that an accelerator's process takes.
    pub process_share: f64,
    /// Time of a thread for each byte over the network.
    pub network_ns_per_byte: f64,
    /// Rate of a target without offload.
    pub software_target_bytes_per_sec: ByteCount,
    /// Rows that these are fitted to.
    pub fitted_rows: Vec<String>,
    /// Threads of a socket, by a word of its name.
    pub socket_threads: BTreeMap<String, u32>,
}

/// One row, and what it is predicted to be.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
pub struct TrainingPrediction {
    /// The row.
    pub id: String,
    /// What was measured.
    pub system: String,
    /// How many of which drives, as the row says.
    pub drives: String,
    /// Its model and accelerator, as the suite names them.
    pub what: String,
    /// Accelerators of the run.
    pub accelerators: u32,
    /// Published utilisation.
    pub au_pct: f64,
    /// Published rate.
    pub mib_per_s: f64,
    /// Whether a figure of the host was fitted to it.
    pub fitted: bool,
    /// The bound on utilisation.
    pub au_goal_pct: f64,
    /// The prediction; none where the system is not modelled.
    pub predicted: Option<TrainingFigures>,
    /// Why there is none.
    pub not_modelled: Option<&'static str>,
}

/// What a row is predicted to be.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct TrainingFigures {
    /// Utilisation at the published number.
    pub au_pct: f64,
    /// Rate there.
    pub mib_per_s: f64,
    /// The largest number that keeps the bound.
    pub accelerators_max: u32,
    /// The narrowest part.
    pub narrowest: &'static str,
    /// The drive of the catalogue.
    pub drive: String,
    /// Numbers of accelerators that were looked at on the way, rising.
    pub curve: Vec<TrainingPoint>,
}

/// A number of accelerators, and how they are predicted to fare.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct TrainingPoint {
    /// How many.
    pub accelerators: u32,
    /// Their utilisation.
    pub au_pct: f64,
    /// Their rate.
    pub mib_per_s: f64,
}

/// All rows, and what they amount to.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
pub struct TrainingReproduction {
    /// Name of the figures' file.
    pub file: String,
    /// Row by row.
    pub rows: Vec<TrainingPrediction>,
    /// Errors of the rates, of all rows that are predicted.
    pub rates: ComparisonSummary,
    /// Errors of those that nothing was fitted to.
    pub rates_not_fitted: ComparisonSummary,
    /// Rows whose largest number is right or one off, and how many are predicted.
    pub largest_near: (u64, u64),
    /// The same of rows that nothing was fitted to.
    pub largest_near_not_fitted: (u64, u64),
}

/// Why runs can't be predicted.
#[derive(Debug, thiserror::Error)]
pub enum TrainingError {
    /// The file can't be used.
    #[error(transparent)]
    Published(#[from] PublishedError),
    /// The hosts' figures can't be read.
    #[error(transparent)]
    Host(#[from] TomlFileError),
    /// The catalogue lacks what stands for others.
    #[error("the catalogue has no '{0}'")]
    Missing(&'static str),
    /// The run makes no sense.
    #[error("row '{row}': {problem}")]
    Row {
        /// Its id.
        row: String,
        /// What the driver says.
        problem: String,
    },
}

/// The rows that are built in.
///
/// # Errors
/// [`PublishedError`] if they are wrong, which a test would have shown.
pub fn builtin_training() -> Result<Vec<TrainingRow>, PublishedError> {
    parse_training("papers/mlperf-storage-1.0/published.csv", PUBLISHED)
}

/// How the rows were measured.
///
/// # Errors
/// [`TomlFileError`] if it is wrong, which a test would have shown.
pub fn training_method() -> Result<Method, TomlFileError> {
    toml_file::parse("papers/mlperf-storage-1.0/study.toml", STUDY, 1)
}

/// The figures of hosts that are built in.
///
/// # Errors
/// [`TomlFileError`] if they are wrong, which a test would have shown.
pub fn host_figures() -> Result<HostFigures, TomlFileError> {
    toml_file::parse("papers/mlperf-storage-1.0/host.toml", HOST, 1)
}

/// Predicts `rows` of `file`; `progress` is told how many are done.
///
/// # Errors
/// [`TrainingError`] if a row makes no sense, or the catalogue lacks a part.
pub fn predict_training(
    file: &str,
    rows: &[TrainingRow],
    catalog: &Catalog,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<TrainingReproduction, TrainingError> {
    let host = host_figures()?;
    let mut predicted = Vec::with_capacity(rows.len());
    for (done, row) in rows.iter().enumerate() {
        progress(done, rows.len());
        let figures = predict_row(row, catalog, &host)?;
        predicted.push(TrainingPrediction {
            id: row.id.clone(),
            system: row.system.clone(),
            drives: row.drives.clone(),
            what: format!("{} {}", row.model, row.accelerator),
            accelerators: row.accelerators,
            au_pct: row.au_pct,
            mib_per_s: row.mib_per_s,
            fitted: host.fitted_rows.contains(&row.id),
            au_goal_pct: row.au_goal_pct,
            not_modelled: row.not_modelled(),
            predicted: figures,
        });
    }
    Ok(summed_up(file, predicted))
}

fn summed_up(file: &str, rows: Vec<TrainingPrediction>) -> TrainingReproduction {
    let rates = |wanted: &dyn Fn(&TrainingPrediction) -> bool| {
        let of = |row: &TrainingPrediction| {
            let found = row.predicted.as_ref()?;
            ComparisonRow::of(row.id.clone(), "mib_per_s".to_owned(), row.mib_per_s, found.mib_per_s)
        };
        Comparison::of(rows.iter().filter(|row| wanted(row)).filter_map(of).collect()).summary
    };
    let near = |wanted: &dyn Fn(&TrainingPrediction) -> bool| {
        let off = |row: &TrainingPrediction| {
            Some(row.predicted.as_ref()?.accelerators_max.abs_diff(row.accelerators))
        };
        let off: Vec<u32> = rows.iter().filter(|row| wanted(row)).filter_map(off).collect();
        (off.iter().filter(|off| **off <= 1).count() as u64, off.len() as u64)
    };
    let (all, free) = (|_: &TrainingPrediction| true, |row: &TrainingPrediction| !row.fitted);
    TrainingReproduction {
        file: file.to_owned(),
        rates: rates(&all),
        rates_not_fitted: rates(&free),
        largest_near: near(&all),
        largest_near_not_fitted: near(&free),
        rows,
    }
}

fn predict_row(
    row: &TrainingRow,
    catalog: &Catalog,
    host: &HostFigures,
) -> Result<Option<TrainingFigures>, TrainingError> {
    if row.not_modelled().is_some() {
        return Ok(None);
    }
    let drive = drive_of(row, catalog)?;
    let storage = Storage::of(row, drive, catalog, host)?;
    let at = |count: u32| {
        let (pipe, narrowest) = storage.pipe(row, host, count);
        let found = feed(&accelerator(row, host, count), &pipe);
        let found =
            found.map_err(|error| TrainingError::Row { row: row.id.clone(), problem: error.to_string() });
        let point = |(au_pct, bytes_per_sec)| {
            let mib_per_s = bytes_per_sec / f64::from(1 << 20);
            (TrainingPoint { accelerators: count, au_pct, mib_per_s }, narrowest)
        };
        found.map(point)
    };
    let (published, narrowest) = at(row.accelerators)?;
    let mut curve = vec![published];
    let mut keeps = |count: u32| -> Result<bool, TrainingError> {
        let (point, _) = at(count)?;
        curve.push(point);
        Ok(point.au_pct >= row.au_goal_pct)
    };
    let (mut kept, mut missed) = (0, ACCELERATORS_MAX);
    let mut count = row.accelerators;
    while missed - kept > 1 {
        if keeps(count)? {
            kept = count;
        } else {
            missed = count;
        }
        // From the published number outwards, and then by halves.
        let far = if kept == 0 { missed / 2 } else { kept + (kept / 8).max(1) };
        count = if kept == 0 || missed == ACCELERATORS_MAX { far } else { kept.midpoint(missed) };
        count = count.clamp(kept + 1, missed.max(kept + 2) - 1);
    }
    // Where the search did not go, for who wants to see the curve.
    for beside in [1, kept / 4, kept / 2, kept + kept / 4 + 1] {
        keeps(beside.max(1))?;
    }
    curve.sort_by_key(|point| point.accelerators);
    curve.dedup_by_key(|point| point.accelerators);
    Ok(Some(TrainingFigures {
        au_pct: published.au_pct,
        mib_per_s: published.mib_per_s,
        accelerators_max: kept,
        narrowest,
        drive: drive.id.clone(),
        curve,
    }))
}

/// The drive that a row names, or what stands for drives without a name.
fn drive_of<'a>(row: &TrainingRow, catalog: &'a Catalog) -> Result<&'a DriveModel, TrainingError> {
    let generic = || catalog.drive(DRIVE_OF_NO_NAME).map_err(|_| TrainingError::Missing(DRIVE_OF_NO_NAME));
    let (_, name) = row.drives.split_once(" x ").unwrap_or(("1", &row.drives));
    // "Micron 9400 PRO 7.68 TB": a maker, a family, and what tells its members apart.
    let words: Vec<&str> = name.split_whitespace().collect();
    let (Some(maker), Some(family)) = (words.first(), words.get(1)) else { return generic() };
    if maker.parse::<f64>().is_ok() {
        return generic();
    }
    let known: Vec<&DriveModel> = catalog
        .drives()
        .filter(|drive| drive.name.contains(*maker) && drive.name.contains(*family))
        .collect();
    let best = nearest(name, known.iter().map(|drive| drive.name.as_str()));
    match best.and_then(|best| known.iter().find(|drive| drive.name == best)) {
        Some(drive) => Ok(drive),
        None => generic(),
    }
}

/// What a row's data come from, whatever the number of accelerators.
struct Storage {
    drives: f64,
    link: f64,
    target: f64,
    latency: NanoSpan,
    /// Share of the reads that the page cache answers.
    hits: f64,
    threads: f64,
    is_local: bool,
}

impl Storage {
    fn of(
        row: &TrainingRow,
        drive: &DriveModel,
        catalog: &Catalog,
        host: &HostFigures,
    ) -> Result<Self, TrainingError> {
        let sheet = |key: &str| drive.sources.iter().find(|figure| figure.key == key);
        let rate = sheet("sheet.seq_read").and_then(|figure| rate_of(&figure.value));
        let latency = sheet("sheet.read_latency").and_then(|figure| figure.value.parse().ok());
        let port = catalog.link(PORT).map_err(|_| TrainingError::Missing(PORT))?;
        let count: f64 = row.drives.split(" x ").next().and_then(|count| count.parse().ok()).unwrap_or(1.0);
        let is_local = row.attached == "local";
        let fabric = if is_local { NanoSpan::ZERO } else { NanoSpan::from_micros(20) };
        let cached = (row.memory_bytes() / row.data_bytes().max(1.0)).min(1.0);
        let is_software = row.attached.contains("software");
        let target = host.software_target_bytes_per_sec.get() as f64;
        Ok(Self {
            drives: count * rate.unwrap_or(drive.interface.rate.0),
            link: row.ports().map_or(f64::INFINITY, |gbit| gbit / 100.0 * port.usual.rate.0),
            target: if is_software { target } else { f64::INFINITY },
            latency: latency.unwrap_or(NanoSpan::from_micros(80)) + fabric,
            hits: cached * cached / 2.0,
            threads: row.threads(host),
            is_local,
        })
    }

    /// The pipe that `count` accelerators read from, and its narrowest part.
    fn pipe(&self, row: &TrainingRow, host: &HostFigures, count: u32) -> (Pipe, &'static str) {
        let hosts = f64::from(row.hosts.max(1));
        let free = hosts * self.threads - host.process_share * f64::from(count);
        let processors =
            if self.is_local { f64::INFINITY } else { (free / host.network_ns_per_byte * 1e9).max(1e8) };
        let missed = 1.0 - self.hits;
        let parts = [
            (self.drives / missed, "drives"),
            (self.link / missed, "network"),
            (self.target / missed, "target"),
            (processors, "processors"),
        ];
        let (bytes_per_sec, name) =
            parts.into_iter().min_by(|a, b| a.0.total_cmp(&b.0)).unwrap_or((1e9, "drives"));
        (Pipe { bytes_per_sec, latency: self.latency }, name)
    }
}

/// Bytes per second of a figure such as `7000 MB/s`.
fn rate_of(text: &str) -> Option<f64> {
    let bytes: ByteCount = text.strip_suffix("/s")?.trim().parse().ok()?;
    Some(bytes.get() as f64)
}

/// The accelerators of a row, `count` of them.
fn accelerator(row: &TrainingRow, host: &HostFigures, count: u32) -> Accelerator {
    let pieces = row.batch.min(PIECES_MAX);
    let together = f64::from(row.batch) / f64::from(pieces);
    let batch_bytes = f64::from(row.batch) * row.sample_bytes;
    let alone = host.step.as_secs_f64() + batch_bytes / host.step_bytes_per_sec.get() as f64;
    let more = f64::from(count) / f64::from(row.hosts.max(1)) - 1.0;
    let per_step = alone * (1.0 + host.step_growth_pct / 100.0 * more.max(0.0));
    let is_whole = row.model == "unet3d";
    let prefetch = row.prefetch.filter(|prefetch| *prefetch > 0);
    Accelerator {
        count,
        batch: pieces,
        compute: NanoSpan::from_secs_f64(row.compute_s),
        compute_deviation: NanoSpan::ZERO,
        read_threads: row.read_threads.max(1),
        prefetch: prefetch.unwrap_or_else(|| row.read_threads.max(2)),
        loader: if is_whole { LoaderUnit::Batch } else { LoaderUnit::Sample },
        sample: SizeLaw {
            mean: ByteCount((row.sample_bytes * together) as u64),
            deviation: ByteCount((row.sample_bytes_stdev * together.sqrt()) as u64),
            table: Vec::new(),
        },
        samples_per_file: 1,
        request_bytes: if row.sample_bytes > 16e6 { 8 << 20 } else { 1 << 20 },
        requests_per_thread: 2,
        barrier: true,
        per_file: NanoSpan::ZERO,
        per_sample: NanoSpan::ZERO,
        load_bytes_per_sec: None,
        per_step: NanoSpan::from_secs_f64(per_step),
        processors: None,
        au_goal_pct: row.au_goal_pct,
    }
}

#[cfg(test)]
mod tests;
