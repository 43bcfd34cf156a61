//! The results store: one `SQLite` file with every finished run.
//!
//! A run is committed in its own transaction as soon as it ends, in write-ahead mode with full synchronisation, so
//! neither Ctrl-C, a kill nor power loss takes a finished run away. The figures that users search by are columns; the
//! full record is JSON beside them, in the format of `--json`.
//!
//! ```text
//! study_run  1 ── * run  1 ── * run_tag         one writer at a time, any number of readers (write-ahead log)
//! ```
//! Several processes may write: each changing statement is one transaction, waits for the others up to `PATIENCE`, and
//! takes its lock at once, so that nothing changes under it. A study whose process was killed stays `running` with the
//! runs that it finished.
//!
//! Invariants: `ordinal` is a run's place in its study's plan, so the order in which parallel runs ended leaves no
//! trace; a study has the same `uid` in every file, so that what is imported twice is there once. Left out: deleting
//! runs; results are cheap, and a quoted figure should be found again.

#![forbid(unsafe_code)]

mod archive;
mod foreign;
mod query;
mod records;
mod schema;
mod select;

pub use archive::{Archive, ArchiveError, Imported};
pub use foreign::ForeignStudy;
pub use query::RunFilter;
pub use records::{FinishedRun, RunLine, StoredRun, StoredStudy, StudyEnd, StudyRunHead, StudyRunId};
pub use select::{RunSelector, RunSelectorError};

use raidlab_machine::Environment;
use raidlab_workload::RunResult;
use rusqlite::{Connection, ErrorCode, TransactionBehavior, params};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How long a writer waits for the others.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long it waits before it tries again where the file can't tell it.
const PAUSE: Duration = Duration::from_millis(20);

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
    /// It is no database at all.
    #[error("{path} is not a results file of raidlab")]
    NotADatabase {
        /// The file.
        path: PathBuf,
    },
    /// It is another program's database.
    #[error("{path} is a database of another program, not a results file")]
    Foreign {
        /// The file.
        path: PathBuf,
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
    /// A run has a figure that is no number.
    #[error("the run of '{workload}' has a figure that is no number, and could not be read back: {source}")]
    NoFigure {
        /// What ran.
        workload: String,
        /// What is wrong.
        source: serde_json::Error,
    },
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
    /// There is no such study run.
    #[error("there is no study run {study} in the results file; 'raidlab runs --studies' lists them")]
    NoSuchStudy {
        /// What was asked for.
        study: i64,
    },
    /// There is no such plan.
    #[error(
        "there is no plan {plan} in the results file; 'raidlab runs --studies' lists plans and simulations"
    )]
    NoSuchPlan {
        /// What was asked for.
        plan: i64,
    },
    /// What has this number predicted nothing.
    #[error(
        "study run {plan} is of '{kind}' and no plan: 'raidlab plan --db' and 'raidlab simulate --db' keep some, and 'raidlab runs --studies' lists them"
    )]
    NotAPlan {
        /// What was asked for.
        plan: i64,
        /// The verb that kept it.
        kind: String,
    },
    /// No run has the tag.
    #[error("no run has the tag '{tag}'{}", nearest.as_ref().map_or(String::new(), |near| format!(", did you mean '{near}'?")))]
    NoSuchTag {
        /// What was asked for.
        tag: String,
        /// The tag most like it, if one is like enough.
        nearest: Option<String>,
    },
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
    /// [`StoreError::Open`] when the file can't be opened, [`StoreError::NotADatabase`] when it is no `SQLite` file, [`StoreError::Foreign`] when another program
    /// made it, [`StoreError::TooNew`] when a newer raidlab wrote it.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let failed = |source: rusqlite::Error| match source.sqlite_error_code() {
            Some(ErrorCode::NotADatabase) => StoreError::NotADatabase { path: path.to_owned() },
            _ => StoreError::Open { path: path.to_owned(), source },
        };
        let connection = Connection::open(path).map_err(failed)?;
        connection.busy_timeout(PATIENCE).map_err(failed)?;
        if is_foreign(&connection).map_err(failed)? {
            return Err(StoreError::Foreign { path: path.to_owned() });
        }
        let set_up = || {
            write_ahead(&connection)?;
            connection.pragma_update(None, "synchronous", "full")?;
            connection.pragma_update(None, "foreign_keys", true)
        };
        set_up().map_err(failed)?;
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
                 (title, question, started_at, planned_runs, state, seed, configuration, raidlab_version, kind, method,
                  uid)
             VALUES (?1, ?2, strftime('%Y-%m-%dT%H:%M:%fZ', ?3, 'unixepoch'), ?4, 'running', ?5, ?6, ?7, ?8, ?9,
                 lower(hex(randomblob(16))))",
            params![
                head.title,
                head.question,
                unix_seconds(SystemTime::now()),
                head.planned_runs.cast_signed(),
                // SQLite integers are signed; the bits are kept.
                head.seed.cast_signed(),
                head.configuration,
                env!("CARGO_PKG_VERSION"),
                head.kind,
                json(&head.method),
            ],
        )?;
        Ok(StudyRunId(self.connection.last_insert_rowid()))
    }

    /// Records that a study ended, with all its runs or not, and what was concluded from them: sentences.
    ///
    /// # Errors
    /// [`StoreError::Sqlite`] when the file can't be written.
    pub fn end_study(
        &mut self,
        study: StudyRunId,
        end: StudyEnd,
        notes: &[String],
    ) -> Result<(), StoreError> {
        self.connection.execute(
            "UPDATE study_run SET state = ?2, notes = ?4,
                 finished_at = strftime('%Y-%m-%dT%H:%M:%fZ', ?3, 'unixepoch') WHERE id = ?1",
            params![study.0, end.name(), unix_seconds(SystemTime::now()), json(&notes)],
        )?;
        Ok(())
    }

    /// Stores a finished run; it is safe when this returns. Returns its number.
    ///
    /// # Errors
    /// [`StoreError::Sqlite`] when the file can't be written, or the place in the plan is taken.
    pub fn insert_run(&mut self, study: StudyRunId, run: &FinishedRun<'_>) -> Result<i64, StoreError> {
        let started_at = self.iso(unix_seconds(run.started_at))?;
        let row = RunRow {
            study: study.0,
            ordinal: run.ordinal,
            started_at: &started_at,
            result: run.result,
            environment: run.environment,
        };
        row.insert(&self.connection, "")?;
        Ok(self.connection.last_insert_rowid())
    }

    /// A time in seconds since 1970 as text, UTC, ISO 8601.
    fn iso(&self, unix_seconds: f64) -> Result<String, StoreError> {
        let statement = "SELECT strftime('%Y-%m-%dT%H:%M:%fZ', ?1, 'unixepoch')";
        Ok(self.connection.query_row(statement, [unix_seconds], |row| row.get(0))?)
    }

    /// Gives all of `runs` a tag; those that have it keep it.
    ///
    /// # Errors
    /// [`StoreError::NoSuchRun`] for a run that is not there: then none is tagged.
    pub fn tag(&mut self, runs: &[i64], tag: &str) -> Result<(), StoreError> {
        self.for_each_run(runs, "INSERT OR IGNORE INTO run_tag (run, tag) VALUES (?1, ?2)", tag)
    }

    /// Takes a tag away from all of `runs`.
    ///
    /// # Errors
    /// [`StoreError::NoSuchRun`] for a run that is not there: then none loses it.
    pub fn untag(&mut self, runs: &[i64], tag: &str) -> Result<(), StoreError> {
        self.for_each_run(runs, "DELETE FROM run_tag WHERE run = ?1 AND tag = ?2", tag)
    }

    fn for_each_run(&mut self, runs: &[i64], statement: &str, tag: &str) -> Result<(), StoreError> {
        let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        for run in runs {
            let known: bool =
                transaction
                    .query_row("SELECT EXISTS (SELECT 1 FROM run WHERE id = ?1)", [run], |row| row.get(0))?;
            if !known {
                return Err(StoreError::NoSuchRun { run: *run });
            }
            transaction.execute(statement, params![run, tag])?;
        }
        Ok(transaction.commit()?)
    }
}

/// A run as a row of the file.
struct RunRow<'a> {
    study: i64,
    ordinal: u64,
    /// UTC, ISO 8601.
    started_at: &'a str,
    result: &'a RunResult,
    environment: &'a Environment,
}

impl RunRow<'_> {
    /// Adds the row. A place in the plan that is taken is an error, but for what `on_conflict` says. Returns how many rows are new.
    fn insert(&self, connection: &Connection, on_conflict: &str) -> rusqlite::Result<usize> {
        let Self { study, ordinal, started_at, result, environment } = self;
        let sql = format!(
            "INSERT INTO run (study, ordinal, started_at, world, target, workload, iodepth, iops, mb_per_s,
                 lat_ns_mean, lat_ns_p99, result, environment)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)
             {on_conflict}"
        );
        connection.execute(
            &sql,
            params![
                study,
                ordinal.cast_signed(),
                started_at,
                result.world.name(),
                result.target,
                result.workload,
                result.iodepth,
                result.ops.total.iops.0,
                result.ops.total.bytes_per_sec.mb_per_s(),
                result.ops.total.lat_ns_mean,
                result.ops.total.lat_ns_p99.cast_signed(),
                json(result),
                json(environment),
            ],
        )
    }
}

/// Whether the file has tables, and none of ours.
fn is_foreign(connection: &Connection) -> rusqlite::Result<bool> {
    let tables =
        "SELECT count(*) > 0 AND sum(name = 'study_run') = 0 FROM sqlite_schema WHERE type = 'table'";
    connection.query_row(tables, [], |row| row.get(0))
}

/// Has the file written ahead. The answer is the mode in force: a filesystem without shared memory keeps the rollback
/// journal, which is as safe and only slower. Only the first process changes the mode, and `SQLite` does not wait then.
fn write_ahead(connection: &Connection) -> rusqlite::Result<()> {
    let begun = Instant::now();
    loop {
        match connection.pragma_update_and_check(None, "journal_mode", "wal", |_| Ok(())) {
            Err(error) if is_busy(&error) && begun.elapsed() < PATIENCE => std::thread::sleep(PAUSE),
            changed => return changed,
        }
    }
}

fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}

/// A record as it stands in the file.
fn json(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).expect("records hold only strings as map keys")
}

/// Seconds since 1970; a clock before that counts as 1970.
fn unix_seconds(time: SystemTime) -> f64 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

#[cfg(test)]
mod tests;
