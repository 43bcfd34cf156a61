//! Study runs with all their runs as JSON, for other machines, and back.
//!
//! An archive has everything that the store has, nothing rounded. Importing adds what is missing: a study run is
//! identified by its `uid` and a run by its ordinal in it, so what is imported twice, or in parts, is there once.

use super::records::{StoredRun, StoredStudy, StudyRunId};
use super::{RunRow, Store, StoreError, json};
use raidlab_workload::RunResult;
use rusqlite::{OptionalExtension, Transaction, TransactionBehavior, params};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Version of the fields' meaning.
pub(super) const SCHEMA: u32 = 1;

/// Study runs and runs of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Archive {
    /// Version of the fields' meaning.
    pub schema: u32,
    /// The study runs that the runs belong to.
    pub studies: Vec<StoredStudy>,
    /// The runs.
    pub runs: Vec<StoredRun>,
}

/// Why a text can't be taken in.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// It is no archive.
    #[error("this is not what 'raidlab export json' writes: {0}")]
    Malformed(#[from] serde_json::Error),
    /// It begins as no archive does, and no JSON.
    #[error("{}", if *is_empty { "there is nothing in it" } else { "this is none of the kinds that 'raidlab import runs' reads, which its --help lists" })]
    OtherKind {
        /// It has no text at all.
        is_empty: bool,
    },
    /// It was written with fields of another meaning.
    #[error(
        "this archive has schema {found}, but this version reads schema {SCHEMA}: use the version that wrote it"
    )]
    OtherSchema {
        /// What it says.
        found: u32,
    },
    /// A run belongs to no study run of the archive.
    #[error("run {run} of this archive belongs to study run {study}, which is not in it")]
    Orphan {
        /// The run.
        run: i64,
        /// Where it says it belongs.
        study: i64,
    },
}

/// What taking in an archive did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Imported {
    /// Numbers of the runs that are new.
    pub runs: Vec<i64>,
    /// Runs that were there already.
    pub known: u64,
}

impl Archive {
    /// Reads what [`Archive::to_json`] printed.
    ///
    /// # Errors
    /// [`ArchiveError`] when `text` is something else.
    pub fn from_json(text: &str) -> Result<Self, ArchiveError> {
        if !text.trim_start().starts_with('{') {
            return Err(ArchiveError::OtherKind { is_empty: text.trim().is_empty() });
        }
        let archive: Self = serde_json::from_str(text)?;
        if archive.schema != SCHEMA {
            return Err(ArchiveError::OtherSchema { found: archive.schema });
        }
        let has_study = |run: &&StoredRun| archive.studies.iter().any(|study| study.id == run.study);
        match archive.runs.iter().find(|run| !has_study(run)) {
            Some(orphan) => Err(ArchiveError::Orphan { run: orphan.id, study: orphan.study }),
            None => Ok(archive),
        }
    }

    /// The archive as JSON.
    pub fn to_json(&self) -> String {
        json(self)
    }
}

impl Store {
    /// The runs with numbers `runs`, and their study runs.
    ///
    /// # Errors
    /// [`StoreError::NoSuchRun`] if one is not there.
    pub fn archive(&self, runs: &[i64]) -> Result<Archive, StoreError> {
        let runs: Vec<StoredRun> = runs.iter().map(|run| self.run(*run)).collect::<Result<_, _>>()?;
        let mut studies: Vec<StoredStudy> = Vec::new();
        for run in &runs {
            if !studies.iter().any(|study| study.id == run.study) {
                studies.push(self.study(StudyRunId(run.study))?);
            }
        }
        Ok(Archive { schema: SCHEMA, studies, runs })
    }

    /// Adds what of `archive` is not here, all or nothing.
    ///
    /// # Errors
    /// [`StoreError::Sqlite`] when the file can't be written.
    pub fn take_in(&mut self, archive: &Archive) -> Result<Imported, StoreError> {
        let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let mut numbers = BTreeMap::new();
        for study in &archive.studies {
            numbers.insert(study.id, study_number(&transaction, study)?);
        }
        let mut imported = Imported::default();
        for run in &archive.runs {
            let Some(study) = numbers.get(&run.study) else { continue };
            match insert(&transaction, *study, run)? {
                Some(id) => imported.runs.push(id),
                None => imported.known += 1,
            }
        }
        transaction.commit()?;
        Ok(imported)
    }
}

/// The number that `study` has here, and gets where it is new.
fn study_number(transaction: &Transaction<'_>, study: &StoredStudy) -> rusqlite::Result<i64> {
    let known = transaction
        .query_row("SELECT id FROM study_run WHERE uid = ?1", [&study.uid], |row| row.get(0))
        .optional()?;
    if let Some(id) = known {
        return Ok(id);
    }
    let state = if study.state == "complete" { "complete" } else { "incomplete" };
    transaction.execute(
        "INSERT INTO study_run (title, question, started_at, finished_at, planned_runs, state, seed, configuration,
             raidlab_version, kind, method, notes, uid)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)",
        params![
            study.title,
            study.question,
            study.started_at,
            study.finished_at,
            study.planned_runs.cast_signed(),
            state,
            study.seed.cast_signed(),
            study.configuration,
            study.raidlab_version,
            study.kind,
            json(&study.method),
            json(&study.notes),
            study.uid,
        ],
    )?;
    Ok(transaction.last_insert_rowid())
}

/// Adds a run; `None` where its place is taken. Its number here is another than it had.
fn insert(transaction: &Transaction<'_>, study: i64, run: &StoredRun) -> Result<Option<i64>, StoreError> {
    // Figures that are no numbers become nothing in JSON, and could not be read back.
    let is_kept = || {
        if json(&run.result.ops).contains(":null") {
            return Err(<serde_json::Error as serde::de::Error>::custom("a figure is null"));
        }
        serde_json::from_str::<RunResult>(&json(&run.result))
    };
    if let Err(source) = is_kept() {
        return Err(StoreError::NoFigure { workload: run.result.workload.clone(), source });
    }
    let row = RunRow {
        study,
        ordinal: run.ordinal,
        started_at: &run.started_at,
        result: &run.result,
        environment: &run.environment,
    };
    let added = row.insert(transaction, "ON CONFLICT (study, ordinal) DO NOTHING")?;
    if added == 0 {
        return Ok(None);
    }
    let id = transaction.last_insert_rowid();
    for tag in run.tags.iter().filter(|tag| !tag.is_empty()) {
        transaction.execute("INSERT INTO run_tag (run, tag) VALUES (?1, ?2)", params![id, tag])?;
    }
    Ok(Some(id))
}
