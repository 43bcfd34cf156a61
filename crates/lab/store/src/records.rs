//! The records that go into the store and come out of it.

use raidlab_machine::Environment;
use raidlab_workload::{OfferedLoad, RunResult};
use serde::{Deserialize, Serialize};
use std::time::SystemTime;

/// Names a study run in a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StudyRunId(pub i64);

/// What is recorded when a study starts. Every verb that keeps runs begins one.
#[derive(Clone, Debug, Default)]
pub struct StudyRunHead<'a> {
    /// The verb: `study`, `measure`, `soak`.
    pub kind: &'a str,
    /// The study's title.
    pub title: &'a str,
    /// The question it answers.
    pub question: &'a str,
    /// How it is done, paragraph by paragraph.
    pub method: &'a [String],
    /// Runs planned.
    pub planned_runs: u64,
    /// Seed of all that is random.
    pub seed: u64,
    /// The effective configuration, as JSON.
    pub configuration: String,
}

raidlab_units::named! {
    /// How a study ended.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum StudyEnd {
        /// With all planned runs.
        Complete = "complete",
        /// Stopped before that.
        Incomplete = "incomplete",
    }
}

/// A finished run as it goes into the store.
#[derive(Clone, Copy, Debug)]
pub struct FinishedRun<'a> {
    /// Place in the study's plan, from 0.
    pub ordinal: u64,
    /// When it started, by the wall clock.
    pub started_at: SystemTime,
    /// What came of it.
    pub result: &'a RunResult,
    /// What it depended on.
    pub environment: &'a Environment,
}

/// One line of the list of runs. What results of another program don't have is none.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct RunLine {
    /// Number of the run in the store.
    pub id: i64,
    /// Number of the study run it belongs to.
    pub study: i64,
    /// The verb that kept it; empty for runs from before it was recorded.
    pub kind: String,
    /// Title of the study.
    pub title: String,
    /// Start, UTC, ISO 8601; empty where results of another program don't tell.
    pub started_at: String,
    /// `measured`, `array` or `simulated`.
    pub world: String,
    /// What was measured.
    pub target: String,
    /// Name of the workload.
    pub workload: String,
    /// Requests in flight.
    pub iodepth: Option<u32>,
    /// Arrivals per second of an open loop; none of a closed one, and of runs from before it was kept.
    pub arrivals_per_sec: Option<f64>,
    /// Accelerators that trained; none of other loads.
    pub accelerators: Option<u32>,
    /// Requests per second.
    pub iops: Option<f64>,
    /// 10^6 bytes per second.
    pub mb_per_s: Option<f64>,
    /// Mean total latency.
    pub lat_ns_mean: Option<f64>,
    /// 99th percentile of total latency.
    pub lat_ns_p99: Option<i64>,
    /// Its tags, in alphabetical order.
    pub tags: Vec<String>,
}

impl RunLine {
    /// The load that the run was asked for.
    pub fn offered_load(&self) -> OfferedLoad {
        OfferedLoad::of(self.iodepth.unwrap_or(0), self.arrivals_per_sec, self.accelerators)
    }
}

/// A run with everything that is known of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct StoredRun {
    /// Number of the run in the store.
    pub id: i64,
    /// Number of the study run it belongs to.
    pub study: i64,
    /// Title of the study.
    pub title: String,
    /// Place in the study's plan, from 0.
    pub ordinal: u64,
    /// Start, UTC, ISO 8601; empty where results of another program don't tell.
    pub started_at: String,
    /// The same in seconds since 1970; zero there.
    pub started_at_unix: u64,
    /// End, UTC, ISO 8601: the start and the wall-clock time that it took.
    pub ended_at: String,
    /// Its tags, in alphabetical order.
    #[serde(default)]
    pub tags: Vec<String>,
    /// What came of it.
    pub result: RunResult,
    /// What it depended on.
    pub environment: Environment,
}

impl StoredStudy {
    /// Whether its runs are predictions: a plan's, or simulations.
    pub fn predicted(&self) -> bool {
        matches!(self.kind.as_str(), "plan" | "simulate")
    }
}

/// A study run without its runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct StoredStudy {
    /// Number of the study run in the store.
    pub id: i64,
    /// The same study run has the same one in whatever store it is.
    pub uid: String,
    /// The verb that kept it; empty for study runs from before it was recorded.
    pub kind: String,
    /// Its title.
    pub title: String,
    /// The question it answers; may be empty.
    pub question: String,
    /// How it was done, paragraph by paragraph.
    pub method: Vec<String>,
    /// What was concluded beyond the figures: sentences.
    pub notes: Vec<String>,
    /// Start, UTC, ISO 8601.
    pub started_at: String,
    /// End; none while it runs, and none where its process was killed.
    pub finished_at: Option<String>,
    /// `running`, `complete` or `incomplete`. A study that was killed says `running`.
    pub state: String,
    /// Runs planned.
    pub planned_runs: u64,
    /// Runs that are in the store.
    pub finished_runs: u64,
    /// Seed of all that is random.
    pub seed: u64,
    /// The effective configuration, as JSON.
    pub configuration: String,
    /// The raidlab that ran it.
    pub raidlab_version: String,
}
