//! The tables of the results store, and upgrades of older files.
//!
//! `PRAGMA user_version` holds the number of the schema. Each entry of [`MIGRATIONS`] takes a file from one version to
//! the next in one transaction; entries are only ever added, never changed.

use super::StoreError;
use rusqlite::{Connection, TransactionBehavior};

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
    TAGS_AND_WORDS,
    RATE,
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

/// Tags, what a report says beside its figures, a name for a study run that holds in every file, and histograms as rows.
const TAGS_AND_WORDS: &str = "
    ALTER TABLE study_run ADD COLUMN kind TEXT NOT NULL DEFAULT '';
    ALTER TABLE study_run ADD COLUMN method TEXT NOT NULL DEFAULT '[]';
    ALTER TABLE study_run ADD COLUMN notes TEXT NOT NULL DEFAULT '[]';
    ALTER TABLE study_run ADD COLUMN uid TEXT NOT NULL DEFAULT '';
    UPDATE study_run SET uid = lower(hex(randomblob(16)));
    CREATE UNIQUE INDEX study_run_by_uid ON study_run (uid);
    CREATE TABLE run_tag (
        run INTEGER NOT NULL REFERENCES run (id) ON DELETE CASCADE,
        tag TEXT NOT NULL CHECK (tag <> ''),
        PRIMARY KEY (run, tag)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX run_tag_by_tag ON run_tag (tag);
    CREATE VIEW run_latency_bin AS
        SELECT run.id AS run, op.value AS op, bin.value ->> '$.lat_ns' AS lat_ns, bin.value ->> '$.requests' AS requests
        FROM run, json_each('[\"read\", \"write\", \"total\"]') AS op,
            json_each(result, '$.' || op.value || '.lat_bins') AS bin;
";

/// The rate of open loops, whose iodepth is only a limit; closed loops, and runs from before it was kept, show NULL.
const RATE: &str = "
    ALTER TABLE run ADD COLUMN arrivals_per_sec REAL
        GENERATED ALWAYS AS (result ->> '$.arrivals_per_sec') VIRTUAL;
";

/// The version that this build writes.
pub(crate) const CURRENT_VERSION: usize = MIGRATIONS.len();

/// The statements of step `version`, for tests of older files.
#[cfg(test)]
pub(super) fn step(version: usize) -> &'static str {
    MIGRATIONS[version]
}

/// Brings the file to [`CURRENT_VERSION`], a step in a transaction. Of several processes that open an old file at once,
/// one takes each step, and the others find it taken.
pub(crate) fn migrate(connection: &mut Connection) -> Result<(), StoreError> {
    while version(connection)? < CURRENT_VERSION {
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let found = version(&transaction)?;
        if let Some(step) = MIGRATIONS.get(found) {
            transaction.execute_batch(step)?;
            transaction.pragma_update(None, "user_version", found + 1)?;
        }
        transaction.commit()?;
    }
    match version(connection)? {
        found if found > CURRENT_VERSION => Err(StoreError::TooNew { found, known: CURRENT_VERSION }),
        _ => Ok(()),
    }
}

fn version(connection: &Connection) -> rusqlite::Result<usize> {
    connection.pragma_query_value(None, "user_version", |row| row.get(0))
}
