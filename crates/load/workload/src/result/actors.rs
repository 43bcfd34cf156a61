//! What actors did: counts during a run, figures afterwards.
//!
//! ```text
//! ActorStats (counts, which workers add up) ─► ActorFacts (figures, which are stored and shown)
//! ```
//! All counts are of the measured window; times of a state that crosses one of its ends are cut there.

use crate::histogram::LatencyHistogram;
use raidlab_units::{BytesPerSec, NanoSpan};
use serde::{Deserialize, Serialize};

/// What accelerators did.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct AcceleratorStats {
    pub(crate) accelerators: u32,
    /// Utilisation that is wanted of them.
    pub(crate) au_goal_pct: f64,
    /// Batches that ended, and samples with their bytes, of batches that the window cuts the share in it.
    pub(crate) steps: u64,
    pub(crate) samples: f64,
    pub(crate) trained_bytes: f64,
    /// Bytes of samples whose reads ended.
    pub(crate) read_bytes: u64,
    /// Of all accelerators together.
    pub(crate) compute_ns: u64,
    pub(crate) wait_ns: u64,
    pub(crate) pause_ns: u64,
}

/// What became of checkpoints.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct CheckpointStats {
    /// Those that were begun and flushed in the window.
    pub(crate) saved: u64,
    pub(crate) pause_ns_sum: u64,
    pub(crate) pause_ns_max: u64,
    /// Those that were read back whole in the window.
    pub(crate) read_back: u64,
    pub(crate) read_ns_sum: u64,
    /// Bytes written in the window, and the time that was spent on writing and flushing.
    pub(crate) written_bytes: u64,
    pub(crate) write_ns: u64,
    pub(crate) total_bytes: u64,
    pub(crate) every_ns: u64,
    pub(crate) reads_back: bool,
}

/// What a log committed.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct LogStats {
    pub(crate) commits: u64,
    pub(crate) groups: u64,
    pub(crate) commit_lat: LatencyHistogram,
}

/// What a compaction moved.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct CompactionStats {
    pub(crate) read_bytes: u64,
    pub(crate) written_bytes: u64,
    /// Bytes that it was to write for what it follows wrote in the window.
    pub(crate) owed: u64,
}

/// What a cache of objects was asked for.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct CacheStats {
    pub(crate) gets: u64,
    pub(crate) hits: u64,
    pub(crate) evicted: u64,
}

/// Counts of an actor of any kind.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum ActorStats {
    /// Accelerators.
    Accelerator(AcceleratorStats),
    /// Checkpoints.
    Checkpoint(CheckpointStats),
    /// A log.
    Log(LogStats),
    /// A compaction.
    Compaction(CompactionStats),
    /// A cache.
    Cache(CacheStats),
}

/// What the actor of one part did, as its driver counted it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ActorMeasurement {
    /// Name of its part.
    pub name: String,
    /// Its counts.
    pub stats: ActorStats,
}

/// Accelerators, as stored and shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct AcceleratorFacts {
    /// How many there were.
    pub accelerators: u32,
    /// Compute time over compute and wait, in percent.
    pub au_pct: f64,
    /// The utilisation that is wanted.
    #[serde(default = "au_goal_pct_default")]
    pub au_goal_pct: f64,
    /// Batches that were computed.
    pub steps: u64,
    /// Samples per second that all together trained on, no more than were read in the window.
    pub samples_per_s: f64,
    /// Bytes per second of these samples; what was only loaded ahead is not in it.
    #[serde(default)]
    pub bytes_per_sec: BytesPerSec,
    /// Mean wait of an accelerator for each batch, the barrier included.
    pub wait_ns_mean: f64,
    /// Share of the time that a checkpoint held training up, in percent.
    pub pause_pct: f64,
}

/// The bound of runs that were stored without it, and of workloads that say none: that of `MLPerf` Storage for most models.
pub(crate) const fn au_goal_pct_default() -> f64 {
    90.0
}

impl AcceleratorFacts {
    /// Whether they keep the utilisation that is wanted of them.
    pub fn keeps_goal(&self) -> bool {
        self.au_pct >= self.au_goal_pct
    }
}

/// A checkpoint, as stored and shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct CheckpointFacts {
    /// Checkpoints that were written and flushed in the window.
    pub saved: u64,
    /// Bytes of one.
    pub bytes: u64,
    /// Mean time from its first write to the end of its flush. Where none was saved in the window, what its rate comes to; none where
    /// nothing was written in it.
    pub pause_ns_mean: Option<f64>,
    /// The longest; zero where none was saved.
    pub pause_ns_max: u64,
    /// Whether the pause is worked out from the rate.
    pub is_by_rate: bool,
    /// Bytes per second while it was written.
    pub bytes_per_sec: BytesPerSec,
    /// Mean time of a read back; none where none ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_back_ns_mean: Option<f64>,
    /// Share of the time that training waits for it, in percent: as accelerators of the run did, else its pause of all from one to the
    /// next, the read back included. None where one of these is not known.
    pub share_pct: Option<f64>,
}

/// A log, as stored and shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct LogFacts {
    /// Commits per second.
    pub commits_per_s: f64,
    /// Records that one write took on average.
    pub records_per_write: f64,
    /// Mean time from a record to its commit.
    pub commit_ns_mean: f64,
    /// Its 99th percentile.
    pub commit_ns_p99: u64,
}

/// A compaction, as stored and shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct CompactionFacts {
    /// Bytes read per second.
    pub read_bytes_per_sec: BytesPerSec,
    /// Bytes written per second.
    pub written_bytes_per_sec: BytesPerSec,
    /// Of what it was to write for the part that it follows, what it wrote, in percent; none where it follows none or that wrote nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept_up_pct: Option<f64>,
}

/// A cache of objects, as stored and shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct CacheFacts {
    /// Objects asked for per second.
    pub gets_per_s: f64,
    /// Share that was found, in percent.
    pub hit_pct: f64,
    /// Objects written, and others evicted for them, per second.
    pub evictions_per_s: f64,
}

/// Figures of an actor of any kind.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum ActorFacts {
    /// Accelerators.
    Accelerator(AcceleratorFacts),
    /// Checkpoints.
    Checkpoint(CheckpointFacts),
    /// A log.
    Log(LogFacts),
    /// A compaction.
    Compaction(CompactionFacts),
    /// A cache.
    Cache(CacheFacts),
}

/// What the actor of one part did, as stored and shown.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ActorSummary {
    /// Name of its part.
    pub part: String,
    /// Its figures.
    #[serde(flatten)]
    pub facts: ActorFacts,
}

impl ActorMeasurement {
    /// Adds what another worker's share of the same actor did.
    pub(super) fn merge(&mut self, other: &Self) {
        use ActorStats::{Accelerator, Cache, Checkpoint, Compaction, Log};
        match (&mut self.stats, &other.stats) {
            (Accelerator(own), Accelerator(other)) => {
                own.accelerators += other.accelerators;
                own.steps += other.steps;
                own.samples += other.samples;
                own.trained_bytes += other.trained_bytes;
                own.read_bytes += other.read_bytes;
                own.compute_ns += other.compute_ns;
                own.wait_ns += other.wait_ns;
                own.pause_ns += other.pause_ns;
            }
            (Checkpoint(own), Checkpoint(other)) => own.merge(other),
            (Log(own), Log(other)) => {
                own.commits += other.commits;
                own.groups += other.groups;
                own.commit_lat.merge(&other.commit_lat);
            }
            (Compaction(own), Compaction(other)) => {
                own.read_bytes += other.read_bytes;
                own.written_bytes += other.written_bytes;
                own.owed += other.owed;
            }
            (Cache(own), Cache(other)) => {
                own.gets += other.gets;
                own.hits += other.hits;
                own.evicted += other.evicted;
            }
            _ => {}
        }
    }

    /// Returns the figures of a window of the length `window`.
    pub(super) fn summary(&self, window: NanoSpan) -> ActorSummary {
        let secs = window.as_secs_f64().max(1e-9);
        let per_s = |count: u64| count as f64 / secs;
        let facts = match &self.stats {
            ActorStats::Accelerator(it) => ActorFacts::Accelerator(it.facts(secs)),
            ActorStats::Checkpoint(it) => ActorFacts::Checkpoint(it.facts()),
            ActorStats::Log(it) => ActorFacts::Log(LogFacts {
                commits_per_s: per_s(it.commits),
                records_per_write: it.commits as f64 / it.groups.max(1) as f64,
                commit_ns_mean: it.commit_lat.mean_ns(),
                commit_ns_p99: it.commit_lat.percentile_ns(99.0),
            }),
            ActorStats::Compaction(it) => ActorFacts::Compaction(CompactionFacts {
                read_bytes_per_sec: BytesPerSec(per_s(it.read_bytes)),
                written_bytes_per_sec: BytesPerSec(per_s(it.written_bytes)),
                kept_up_pct: (it.owed > 0)
                    .then(|| (100.0 * it.written_bytes as f64 / it.owed as f64).min(100.0)),
            }),
            ActorStats::Cache(it) => ActorFacts::Cache(CacheFacts {
                gets_per_s: per_s(it.gets),
                hit_pct: 100.0 * it.hits as f64 / it.gets.max(1) as f64,
                evictions_per_s: per_s(it.evicted),
            }),
        };
        ActorSummary { part: self.name.clone(), facts }
    }
}

impl AcceleratorStats {
    fn facts(&self, secs: f64) -> AcceleratorFacts {
        let (compute, wait, pause) = (self.compute_ns as f64, self.wait_ns as f64, self.pause_ns as f64);
        // What was loaded ahead before the window is trained on in it, and no storage gave it then.
        let read = (self.read_bytes as f64 / self.trained_bytes.max(1.0)).min(1.0);
        AcceleratorFacts {
            accelerators: self.accelerators,
            au_pct: 100.0 * compute / (compute + wait).max(1.0),
            au_goal_pct: self.au_goal_pct,
            steps: self.steps,
            samples_per_s: self.samples * read / secs,
            bytes_per_sec: BytesPerSec(self.trained_bytes * read / secs),
            wait_ns_mean: wait / self.steps.max(1) as f64,
            pause_pct: 100.0 * pause / (compute + wait + pause).max(1.0),
        }
    }
}

impl CheckpointStats {
    /// Shares of one checkpoint are written at once: bytes add up, times are those of the slowest.
    fn merge(&mut self, other: &Self) {
        self.saved = self.saved.max(other.saved);
        self.read_back = self.read_back.max(other.read_back);
        self.pause_ns_sum = self.pause_ns_sum.max(other.pause_ns_sum);
        self.pause_ns_max = self.pause_ns_max.max(other.pause_ns_max);
        self.read_ns_sum = self.read_ns_sum.max(other.read_ns_sum);
        self.write_ns = self.write_ns.max(other.write_ns);
        self.written_bytes += other.written_bytes;
        self.total_bytes += other.total_bytes;
        self.reads_back |= other.reads_back;
    }

    fn facts(&self) -> CheckpointFacts {
        let rate = self.written_bytes as f64 * 1e9 / self.write_ns.max(1) as f64;
        let by_rate = (rate > 0.0).then(|| self.total_bytes as f64 * 1e9 / rate);
        let is_by_rate = self.saved == 0;
        let pause = if is_by_rate { by_rate } else { Some(self.pause_ns_sum as f64 / self.saved as f64) };
        let read_back = (self.read_back > 0).then(|| self.read_ns_sum as f64 / self.read_back as f64);
        let rest =
            if self.reads_back { read_back } else { Some(0.0) }.map(|read| read + self.every_ns as f64);
        CheckpointFacts {
            saved: self.saved,
            bytes: self.total_bytes,
            pause_ns_mean: pause,
            pause_ns_max: self.pause_ns_max,
            is_by_rate,
            bytes_per_sec: BytesPerSec(rate),
            read_back_ns_mean: read_back,
            share_pct: pause.zip(rest).map(|(pause, rest)| 100.0 * pause / (pause + rest).max(1.0)),
        }
    }
}

/// The share of the time that accelerators waited for a checkpoint is that which this checkpoint tells.
pub(super) fn tell_pause_once(actors: &mut [ActorSummary]) {
    let paused = actors.iter().find_map(|actor| match &actor.facts {
        ActorFacts::Accelerator(it) if it.pause_pct > 0.0 => Some(it.pause_pct),
        _ => None,
    });
    let mut checkpoints = actors.iter_mut().filter_map(|actor| match &mut actor.facts {
        ActorFacts::Checkpoint(it) => Some(it),
        _ => None,
    });
    if let (Some(paused), Some(one), None) = (paused, checkpoints.next(), checkpoints.next()) {
        one.share_pct = Some(paused);
    }
}
