//! The tables of the results store and how an older file is brought up to date.
//!
//! `PRAGMA user_version` holds the number of the schema. Each entry of [`MIGRATIONS`] takes a file from one
//! version to the next inside one transaction; entries are only ever added, never changed.

use super::StoreError;
use rusqlite::Connection;

/// Step `n` (from 0) takes a file from version `n` to `n + 1`.
const MIGRATIONS: &[&str] = &[
    "
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
",
    SERIES_AND_TAIL,
];

/// Further figures to search by, and every run second by second. Both read the record, which stays the one place; runs
/// from before the figures were kept show NULL and no seconds.
const SERIES_AND_TAIL: &str = "
    ALTER TABLE run ADD COLUMN lat_ns_p99999 INTEGER
        GENERATED ALWAYS AS (result ->> '$.total.lat_ns_p99999') VIRTUAL;
    ALTER TABLE run ADD COLUMN is_steady INTEGER
        GENERATED ALWAYS AS (result ->> '$.steady.is_steady') VIRTUAL;
    ALTER TABLE run ADD COLUMN cpu_ns_per_io REAL
        GENERATED ALWAYS AS (result ->> '$.cost.cpu_ns_per_io') VIRTUAL;
    ALTER TABLE run ADD COLUMN device_utilisation REAL
        GENERATED ALWAYS AS (result ->> '$.machine.device.utilisation') VIRTUAL;
    CREATE VIEW run_interval AS
        SELECT run.id AS run, op.value AS op, slot.key AS interval,
            slot.key * (result ->> '$.series.interval_ns') AS start_ns,
            slot.value AS requests,
            result ->> ('$.series.' || op.value || '.errors[' || slot.key || ']') AS errors,
            result ->> ('$.series.' || op.value || '.bytes[' || slot.key || ']') AS bytes,
            result ->> ('$.series.' || op.value || '.lat_ns_mean[' || slot.key || ']') AS lat_ns_mean,
            result ->> ('$.series.' || op.value || '.lat_ns_p99[' || slot.key || ']') AS lat_ns_p99,
            result ->> ('$.series.' || op.value || '.lat_ns_max[' || slot.key || ']') AS lat_ns_max
        FROM run, json_each('[\"read\", \"write\", \"total\"]') AS op,
            json_each(result, '$.series.' || op.value || '.requests') AS slot;
";

/// The version that this build writes.
pub(crate) const CURRENT_VERSION: usize = MIGRATIONS.len();

/// The statements of step `version`, for tests of older files.
#[cfg(test)]
pub(super) fn step(version: usize) -> &'static str {
    MIGRATIONS[version]
}

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
