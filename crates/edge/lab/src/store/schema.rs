//! The tables of the results store and how an older file is brought up to date.
//!
//! `PRAGMA user_version` holds the number of the schema. Each entry of [`MIGRATIONS`] takes a file from one
//! version to the next inside one transaction; entries are only ever added, never changed.

use super::StoreError;
use rusqlite::Connection;

/// Step `n` (from 0) takes a file from version `n` to `n + 1`.
const MIGRATIONS: &[&str] = &["
    CREATE TABLE study_run (
        id              INTEGER PRIMARY KEY,
        title           TEXT NOT NULL,
        question        TEXT NOT NULL,
        started_at      TEXT NOT NULL,
        finished_at     TEXT,
        planned_runs    INTEGER NOT NULL,
        state           TEXT NOT NULL CHECK (state IN ('running', 'complete', 'incomplete')),
        seed            INTEGER NOT NULL,
        configuration   TEXT NOT NULL,
        raidlab_version TEXT NOT NULL
    ) STRICT;
    CREATE TABLE run (
        id          INTEGER PRIMARY KEY,
        study       INTEGER NOT NULL REFERENCES study_run (id) ON DELETE CASCADE,
        ordinal     INTEGER NOT NULL,
        started_at  TEXT NOT NULL,
        world       TEXT NOT NULL,
        target      TEXT NOT NULL,
        workload    TEXT NOT NULL,
        iodepth     INTEGER NOT NULL,
        iops        REAL NOT NULL,
        mb_per_s    REAL NOT NULL,
        lat_ns_mean REAL NOT NULL,
        lat_ns_p99  INTEGER NOT NULL,
        result      TEXT NOT NULL,
        environment TEXT NOT NULL,
        UNIQUE (study, ordinal)
    ) STRICT;
    CREATE INDEX run_by_workload ON run (workload, world, iodepth);
"];

/// The version that this build writes.
pub(crate) const CURRENT_VERSION: usize = MIGRATIONS.len();

/// Brings the file to [`CURRENT_VERSION`].
pub(crate) fn migrate(connection: &mut Connection) -> Result<(), StoreError> {
    let found: usize = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    if found > CURRENT_VERSION {
        return Err(StoreError::TooNew { found, known: CURRENT_VERSION });
    }
    for (version, step) in MIGRATIONS.iter().enumerate().skip(found) {
        let transaction = connection.transaction()?;
        transaction.execute_batch(step)?;
        transaction.pragma_update(None, "user_version", version + 1)?;
        transaction.commit()?;
    }
    Ok(())
}
