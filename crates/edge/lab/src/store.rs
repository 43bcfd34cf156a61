//! The results store: one `SQLite` file with every run that was ever finished.
//!
//! A run is committed in a transaction of its own as soon as it ends, in write-ahead mode with full
//! synchronisation, so neither Ctrl-C, a kill nor power loss takes a finished run away. The figures that people
//! search by are columns; the full record is JSON beside them, in the very form that `--json` prints.
//!
//! Invariant: `ordinal` is a run's place in its study's plan, so the order in which parallel runs happened to
//! end leaves no trace.

mod schema;

use crate::environment::Environment;
use raidlab_workload::RunResult;
use rusqlite::{Connection, OptionalExtension, Row, params};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Why the store did not do as asked.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The file can't be opened or made.
    #[error("the results file {path} cannot be opened: {source}")]
    Open {
        /// The file.
        path: PathBuf,
        /// What `SQLite` said.
        source: rusqlite::Error,
    },
    /// A newer raidlab wrote the file.
    #[error(
        "the results file has schema version {found}, this raidlab knows up to {known}: use a newer raidlab or another file"
    )]
    TooNew {
        /// Version in the file.
        found: usize,
        /// Newest version this build knows.
        known: usize,
    },
    /// Reading or writing failed.
    #[error("the results file: {0}")]
    Sqlite(#[from] rusqlite::Error),
    /// A stored record is not what this build writes.
    #[error("run {run} in the results file is damaged: {source}")]
    Damaged {
        /// The run.
        run: i64,
        /// What is wrong.
        source: serde_json::Error,
    },
    /// There is no such run.
    #[error("there is no run {run} in the results file; 'raidlab runs' lists them")]
    NoSuchRun {
        /// What was asked for.
        run: i64,
    },
}

/// Names a study run in a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StudyRunId(pub i64);

/// What is recorded when a study starts.
#[derive(Clone, Debug)]
pub struct StudyRunHead<'a> {
    /// The study's title.
    pub title: &'a str,
    /// The question it answers.
    pub question: &'a str,
    /// Runs planned.
    pub planned_runs: u64,
    /// Seed of all that is random.
    pub seed: u64,
    /// The effective configuration, as JSON.
    pub configuration: String,
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

/// One line of the list of runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunLine {
    /// Number of the run in the store.
    pub id: i64,
    /// Number of the study run it belongs to.
    pub study: i64,
    /// Title of the study.
    pub title: String,
    /// Start, UTC, ISO 8601.
    pub started_at: String,
    /// `measured`, `array` or `simulated`.
    pub world: String,
    /// What was measured.
    pub target: String,
    /// Name of the workload.
    pub workload: String,
    /// Requests in flight.
    pub iodepth: u32,
    /// Requests per second.
    pub iops: f64,
    /// 10^6 bytes per second.
    pub mb_per_s: f64,
    /// Mean total latency.
    pub lat_ns_mean: f64,
    /// 99th percentile of total latency.
    pub lat_ns_p99: i64,
}

/// A run with everything that is known of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StoredRun {
    /// Number of the run in the store.
    pub id: i64,
    /// Number of the study run it belongs to.
    pub study: i64,
    /// Title of the study.
    pub title: String,
    /// Start, UTC, ISO 8601.
    pub started_at: String,
    /// The same in seconds since 1970.
    pub started_at_unix: u64,
    /// End, UTC, ISO 8601: the start and the wall-clock time that it took.
    pub ended_at: String,
    /// What came of it.
    pub result: RunResult,
    /// What it depended on.
    pub environment: Environment,
}

/// The store.
#[derive(Debug)]
pub struct Store {
    connection: Connection,
}

impl Store {
    /// Opens the store at `path`, makes it if there is none, and brings an older one up to date.
    ///
    /// # Errors
    /// [`StoreError::Open`] when the file can't be opened or is no `SQLite` file, [`StoreError::TooNew`] when a
    /// newer raidlab wrote it.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let open = || -> Result<Connection, rusqlite::Error> {
            let connection = Connection::open(path)?;
            connection.busy_timeout(Duration::from_secs(10))?;
            // The answer is the mode in force: a filesystem without shared memory keeps the rollback journal,
            // which is as safe and only slower.
            connection.pragma_update_and_check(None, "journal_mode", "wal", |_| Ok(()))?;
            connection.pragma_update(None, "synchronous", "full")?;
            connection.pragma_update(None, "foreign_keys", true)?;
            Ok(connection)
        };
        let connection = open().map_err(|source| StoreError::Open { path: path.to_owned(), source })?;
        Self::prepare(connection)
    }

    /// A store in memory, for callers that want no file.
    ///
    /// # Errors
    /// [`StoreError::Sqlite`] when there is no memory for it.
    pub fn in_memory() -> Result<Self, StoreError> {
        Self::prepare(Connection::open_in_memory()?)
    }

    fn prepare(mut connection: Connection) -> Result<Self, StoreError> {
        schema::migrate(&mut connection)?;
        Ok(Self { connection })
    }

    /// Records that a study starts now.
    ///
    /// # Errors
    /// [`StoreError::Sqlite`] when the file can't be written.
    pub fn begin_study(&mut self, head: &StudyRunHead<'_>) -> Result<StudyRunId, StoreError> {
        self.connection.execute(
            "INSERT INTO study_run
                 (title, question, started_at, planned_runs, state, seed, configuration, raidlab_version)
             VALUES (?1, ?2, strftime('%Y-%m-%dT%H:%M:%fZ', ?3, 'unixepoch'), ?4, 'running', ?5, ?6, ?7)",
            params![
                head.title,
                head.question,
                unix_seconds(SystemTime::now()),
                head.planned_runs.cast_signed(),
                // SQLite integers are signed; the bits are kept.
                head.seed.cast_signed(),
                head.configuration,
                env!("CARGO_PKG_VERSION")
            ],
        )?;
        Ok(StudyRunId(self.connection.last_insert_rowid()))
    }

    /// Records that a study ended, with all its runs or not.
    ///
    /// # Errors
    /// [`StoreError::Sqlite`] when the file can't be written.
    pub fn end_study(&mut self, study: StudyRunId, end: StudyEnd) -> Result<(), StoreError> {
        let state = match end {
            StudyEnd::Complete => "complete",
            StudyEnd::Incomplete => "incomplete",
        };
        self.connection.execute(
            "UPDATE study_run SET state = ?2,
                 finished_at = strftime('%Y-%m-%dT%H:%M:%fZ', ?3, 'unixepoch') WHERE id = ?1",
            params![study.0, state, unix_seconds(SystemTime::now())],
        )?;
        Ok(())
    }

    /// Stores a finished run; it is safe when this returns. Returns its number.
    ///
    /// # Errors
    /// [`StoreError::Sqlite`] when the file can't be written.
    pub fn insert_run(&mut self, study: StudyRunId, run: &FinishedRun<'_>) -> Result<i64, StoreError> {
        let result = run.result;
        let json = |value: serde_json::Result<String>| value.expect("records hold only strings as map keys");
        self.connection.execute(
            "INSERT INTO run (study, ordinal, started_at, world, target, workload, iodepth, iops, mb_per_s,
                 lat_ns_mean, lat_ns_p99, result, environment)
             VALUES (?1, ?2, strftime('%Y-%m-%dT%H:%M:%fZ', ?3, 'unixepoch'), ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11,
                 ?12, ?13)",
            params![
                study.0,
                run.ordinal.cast_signed(),
                unix_seconds(run.started_at),
                world_name(result.world),
                result.target,
                result.workload,
                result.iodepth,
                result.total.iops.0,
                result.total.bytes_per_sec.mb_per_s(),
                result.total.lat_ns_mean,
                result.total.lat_ns_p99.cast_signed(),
                json(serde_json::to_string(result)),
                json(serde_json::to_string(run.environment)),
            ],
        )?;
        Ok(self.connection.last_insert_rowid())
    }

    /// The latest `limit` runs, latest first.
    ///
    /// # Errors
    /// [`StoreError::Sqlite`] when the file can't be read.
    pub fn list_runs(&self, limit: u32) -> Result<Vec<RunLine>, StoreError> {
        let mut statement = self.connection.prepare(
            "SELECT run.id, run.study, study_run.title, run.started_at, world, target, workload, iodepth, iops,
                 mb_per_s, lat_ns_mean, lat_ns_p99
             FROM run JOIN study_run ON study_run.id = run.study ORDER BY run.id DESC LIMIT ?1",
        )?;
        let lines = statement.query_map([limit], run_line)?.collect::<Result<_, _>>()?;
        Ok(lines)
    }

    /// The run with number `id`.
    ///
    /// # Errors
    /// [`StoreError::NoSuchRun`] if there is none, [`StoreError::Damaged`] if its record can't be read.
    pub fn run(&self, id: i64) -> Result<StoredRun, StoreError> {
        let found = self
            .connection
            .query_row(
                "SELECT run.study, study_run.title, run.started_at, unixepoch(run.started_at),
                     strftime('%Y-%m-%dT%H:%M:%fZ', run.started_at,
                         printf('+%.3f seconds', (result ->> '$.cost.wall_ns') / 1e9)),
                     result, environment
                 FROM run JOIN study_run ON study_run.id = run.study WHERE run.id = ?1",
                [id],
                |row| {
                    let head = (row.get(0)?, row.get(1)?, row.get(2)?, row.get::<_, i64>(3)?, row.get(4)?);
                    Ok((head, row.get::<_, String>(5)?, row.get::<_, String>(6)?))
                },
            )
            .optional()?;
        let ((study, title, started_at, started_at_unix, ended_at), result, environment) =
            found.ok_or(StoreError::NoSuchRun { run: id })?;
        let damaged = |source| StoreError::Damaged { run: id, source };
        Ok(StoredRun {
            id,
            study,
            title,
            started_at,
            started_at_unix: started_at_unix.cast_unsigned(),
            ended_at,
            result: serde_json::from_str(&result).map_err(damaged)?,
            environment: serde_json::from_str(&environment).map_err(damaged)?,
        })
    }

    /// All runs of a study in the order of its plan.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] if a record can't be read.
    pub fn runs_of_study(&self, study: StudyRunId) -> Result<Vec<RunResult>, StoreError> {
        let mut statement =
            self.connection.prepare("SELECT id, result FROM run WHERE study = ?1 ORDER BY ordinal")?;
        let rows =
            statement.query_map([study.0], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?)))?;
        rows.map(|row| {
            let (run, json) = row?;
            serde_json::from_str(&json).map_err(|source| StoreError::Damaged { run, source })
        })
        .collect()
    }
}

/// How a study ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StudyEnd {
    /// With all planned runs.
    Complete,
    /// Stopped before that.
    Incomplete,
}

/// The name of a world as it stands in JSON and in the `world` column.
pub fn world_name(world: raidlab_workload::World) -> &'static str {
    match world {
        raidlab_workload::World::Measured => "measured",
        raidlab_workload::World::Array => "array",
        raidlab_workload::World::Simulated => "simulated",
    }
}

fn run_line(row: &Row<'_>) -> rusqlite::Result<RunLine> {
    Ok(RunLine {
        id: row.get(0)?,
        study: row.get(1)?,
        title: row.get(2)?,
        started_at: row.get(3)?,
        world: row.get(4)?,
        target: row.get(5)?,
        workload: row.get(6)?,
        iodepth: row.get(7)?,
        iops: row.get(8)?,
        mb_per_s: row.get(9)?,
        lat_ns_mean: row.get(10)?,
        lat_ns_p99: row.get(11)?,
    })
}

/// Seconds since 1970; a clock before that counts as 1970.
fn unix_seconds(time: SystemTime) -> f64 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

#[cfg(test)]
mod tests;
#[cfg(test)]
pub(crate) use tests::example_result;
