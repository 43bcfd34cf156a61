//! Reading the store: lists, one run, one study, and the runs that selectors name.

use super::records::{RunLine, StoredRun, StoredStudy, StudyRunId};
use super::select::RunSelector;
use super::{Store, StoreError};
use raidlab_workload::RunResult;
use raidlab_workload::toml_file::meant;
use rusqlite::types::ToSql;
use rusqlite::{OptionalExtension, Row};

/// Which runs a list is to hold; what is `None` does not matter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunFilter {
    /// Runs of this study run.
    pub study: Option<i64>,
    /// Runs of this workload.
    pub workload: Option<String>,
    /// `measured`, `array` or `simulated`.
    pub world: Option<String>,
    /// Runs whose target has this in its name.
    pub target: Option<String>,
    /// Runs with this tag.
    pub tag: Option<String>,
    /// Runs that this verb kept.
    pub kind: Option<String>,
    /// So many at most, the latest first.
    pub limit: Option<u32>,
}

/// Tags of a run as a JSON list.
const TAGS: &str =
    "(SELECT json_group_array(tag) FROM (SELECT tag FROM run_tag WHERE run = run.id ORDER BY tag))";

/// Accelerators of a run.
const ACCELERATORS: &str = "(SELECT value ->> '$.accelerators' FROM json_each(run.result, '$.actors')
     WHERE value ->> '$.kind' = 'accelerator' LIMIT 1)";

impl Store {
    /// The runs that `filter` lets through, those of the latest study first, and the last of each. Runs of a study get their numbers as they
    /// end, and several run at a time.
    ///
    /// # Errors
    /// [`StoreError::Sqlite`] when the file can't be read.
    pub fn list_runs(&self, filter: &RunFilter) -> Result<Vec<RunLine>, StoreError> {
        let sql = format!(
            "SELECT run.id, run.study, study_run.kind, study_run.title, run.started_at, world, target, workload, iodepth,
                 arrivals_per_sec, iops, mb_per_s, lat_ns_mean, lat_ns_p99, {TAGS}, {ACCELERATORS},
                 (result ->> '$.settings.lacks') IS NOT NULL
             FROM run JOIN study_run ON study_run.id = run.study
             WHERE (?1 IS NULL OR run.study = ?1) AND (?2 IS NULL OR workload = ?2) AND (?3 IS NULL OR world = ?3)
                 AND (?4 IS NULL OR instr(target, ?4) > 0)
                 AND (?5 IS NULL OR EXISTS (SELECT 1 FROM run_tag WHERE run = run.id AND tag = ?5))
                 AND (?6 IS NULL OR study_run.kind = ?6)
             ORDER BY run.study DESC, run.ordinal DESC LIMIT ?7"
        );
        let mut statement = self.connection.prepare(&sql)?;
        let limit = filter.limit.map_or(-1, i64::from);
        let values: [&dyn ToSql; 7] = [
            &filter.study,
            &filter.workload,
            &filter.world,
            &filter.target,
            &filter.tag,
            &filter.kind,
            &limit,
        ];
        let lines = statement.query_map(&values[..], run_line)?.collect::<Result<Vec<_>, _>>()?;
        Ok(lines)
    }

    /// The latest study runs, latest first, `limit` at most.
    ///
    /// # Errors
    /// [`StoreError::Sqlite`] when the file can't be read.
    pub fn list_studies(&self, limit: u32) -> Result<Vec<StoredStudy>, StoreError> {
        let mut statement = self.connection.prepare(&study_query("ORDER BY id DESC LIMIT ?1"))?;
        let studies = statement.query_map([limit], stored_study)?.collect::<Result<Vec<_>, _>>()?;
        Ok(studies)
    }

    /// The study run with number `id`.
    ///
    /// # Errors
    /// [`StoreError::NoSuchStudy`] if there is none.
    pub fn study(&self, id: StudyRunId) -> Result<StoredStudy, StoreError> {
        let found =
            self.connection.query_row(&study_query("WHERE id = ?1"), [id.0], stored_study).optional()?;
        found.ok_or(StoreError::NoSuchStudy { study: id.0 })
    }

    /// The run with number `id`.
    ///
    /// # Errors
    /// [`StoreError::NoSuchRun`] if there is none, [`StoreError::Damaged`] if its record can't be read.
    pub fn run(&self, id: i64) -> Result<StoredRun, StoreError> {
        let sql = format!(
            "SELECT run.study, study_run.title, run.ordinal, run.started_at, coalesce(unixepoch(run.started_at), 0),
                 coalesce(strftime('%Y-%m-%dT%H:%M:%fZ', run.started_at,
                     printf('+%.3f seconds', (result ->> '$.cost.wall_ns') / 1e9)), ''),
                 {TAGS}, result, environment
             FROM run JOIN study_run ON study_run.id = run.study WHERE run.id = ?1"
        );
        let read = |row: &Row<'_>| {
            let head: (i64, String, i64, String, i64, String) =
                (row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?, row.get(5)?);
            let texts: (String, String, String) = (row.get(6)?, row.get(7)?, row.get(8)?);
            Ok((head, texts))
        };
        let found = self.connection.query_row(&sql, [id], read).optional()?;
        let ((study, title, ordinal, started_at, started_at_unix, ended_at), (tags, result, environment)) =
            found.ok_or(StoreError::NoSuchRun { run: id })?;
        let damaged = |source| StoreError::Damaged { run: id, source };
        Ok(StoredRun {
            id,
            study,
            title,
            ordinal: ordinal.cast_unsigned(),
            started_at,
            started_at_unix: started_at_unix.cast_unsigned(),
            ended_at,
            tags: serde_json::from_str(&tags).map_err(damaged)?,
            result: serde_json::from_str(&result).map_err(damaged)?,
            environment: serde_json::from_str(&environment).map_err(damaged)?,
        })
    }

    /// The results of a study in the order of its plan.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] if a record can't be read.
    pub fn runs_of_study(&self, study: StudyRunId) -> Result<Vec<RunResult>, StoreError> {
        let ids = self.run_ids("SELECT id FROM run WHERE study = ?1 ORDER BY ordinal", &study.0)?;
        ids.into_iter().map(|id| Ok(self.run(id)?.result)).collect()
    }

    /// The numbers of the runs that `selectors` name, in their order and each once.
    ///
    /// # Errors
    /// [`StoreError::NoSuchRun`], [`StoreError::NoSuchStudy`] or [`StoreError::NoSuchTag`] for a selector that names no
    /// run.
    pub fn select(&self, selectors: &[RunSelector]) -> Result<Vec<i64>, StoreError> {
        let mut chosen = Vec::new();
        for selector in selectors {
            let ids = self.selected(selector)?;
            chosen.extend(ids);
        }
        let mut seen = std::collections::BTreeSet::new();
        chosen.retain(|id| seen.insert(*id));
        Ok(chosen)
    }

    /// The numbers within the ranges of `selectors` that no run has, from the first to the last of each gap.
    ///
    /// # Errors
    /// [`StoreError::Sqlite`] when the file can't be read.
    pub fn gaps(&self, selectors: &[RunSelector]) -> Result<Vec<(i64, i64)>, StoreError> {
        let mut gaps = Vec::new();
        for selector in selectors {
            let RunSelector::Range(first, last) = selector else { continue };
            let mut next = *first;
            for id in self.selected(selector)? {
                if id > next {
                    gaps.push((next, id - 1));
                }
                next = id + 1;
            }
            if next <= *last {
                gaps.push((next, *last));
            }
        }
        Ok(gaps)
    }

    /// The first and the last number of its runs, and of its study runs; none where there are none.
    ///
    /// # Errors
    /// [`StoreError::Sqlite`] when the file can't be read.
    pub fn extent(&self) -> Result<[Option<(i64, i64)>; 2], StoreError> {
        let of = |sql| {
            let ends = |row: &Row<'_>| Ok(Option::zip(row.get(0)?, row.get(1)?));
            self.connection.query_row(sql, [], ends)
        };
        Ok([of("SELECT min(id), max(id) FROM run")?, of("SELECT min(id), max(id) FROM study_run")?])
    }

    fn selected(&self, selector: &RunSelector) -> Result<Vec<i64>, StoreError> {
        let (ids, missing) = match selector {
            RunSelector::Run(run) => {
                let ids = self.run_ids("SELECT id FROM run WHERE id = ?1", run)?;
                (ids, StoreError::NoSuchRun { run: *run })
            }
            RunSelector::Range(first, last) => {
                let sql = "SELECT id FROM run WHERE id BETWEEN ?1 AND ?2 ORDER BY id";
                let mut statement = self.connection.prepare(sql)?;
                let ids =
                    statement.query_map([first, last], |row| row.get(0))?.collect::<Result<Vec<_>, _>>()?;
                (ids, StoreError::NoSuchRun { run: *first })
            }
            RunSelector::Study(study) => {
                let ids = self.run_ids("SELECT id FROM run WHERE study = ?1 ORDER BY ordinal", study)?;
                (ids, StoreError::NoSuchStudy { study: *study })
            }
            RunSelector::Plan(plan) => {
                let study = self.study(StudyRunId(*plan)).map_err(|error| match error {
                    StoreError::NoSuchStudy { .. } => StoreError::NoSuchPlan { plan: *plan },
                    error => error,
                })?;
                if !study.predicted() {
                    return Err(StoreError::NotAPlan { plan: *plan, kind: study.kind });
                }
                let ids = self.run_ids("SELECT id FROM run WHERE study = ?1 ORDER BY ordinal", plan)?;
                (ids, StoreError::NoSuchPlan { plan: *plan })
            }
            RunSelector::Tag(tag) => {
                let ids = self.run_ids("SELECT run FROM run_tag WHERE tag = ?1 ORDER BY run", tag)?;
                (ids, StoreError::NoSuchTag { tag: tag.clone(), nearest: self.tag_meant(tag)? })
            }
        };
        if ids.is_empty() { Err(missing) } else { Ok(ids) }
    }

    /// The tag that `word` may stand for.
    fn tag_meant(&self, word: &str) -> Result<Option<String>, StoreError> {
        let mut statement = self.connection.prepare("SELECT DISTINCT tag FROM run_tag ORDER BY tag")?;
        let tags = statement.query_map([], |row| row.get(0))?.collect::<Result<Vec<String>, _>>()?;
        Ok(meant(word, tags.iter().map(String::as_str)).map(str::to_owned))
    }

    fn run_ids(&self, sql: &str, value: &dyn ToSql) -> Result<Vec<i64>, StoreError> {
        let mut statement = self.connection.prepare(sql)?;
        let ids = statement.query_map([value], |row| row.get(0))?.collect::<Result<Vec<_>, _>>()?;
        Ok(ids)
    }
}

fn run_line(row: &Row<'_>) -> rusqlite::Result<RunLine> {
    // Results of other programs keep what they lack as zero.
    let is_foreign: bool = row.get(16)?;
    let known = |index| row.get(index).map(|it: f64| Some(it).filter(|it| *it > 0.0 || !is_foreign));
    Ok(RunLine {
        id: row.get(0)?,
        study: row.get(1)?,
        kind: row.get(2)?,
        title: row.get(3)?,
        started_at: row.get(4)?,
        world: row.get(5)?,
        target: row.get(6)?,
        workload: row.get(7)?,
        iodepth: row.get(8).map(|it: u32| Some(it).filter(|it| *it > 0 || !is_foreign))?,
        arrivals_per_sec: row.get(9)?,
        iops: known(10)?,
        mb_per_s: known(11)?,
        lat_ns_mean: known(12)?,
        lat_ns_p99: row.get(13).map(|it: i64| Some(it).filter(|it| *it > 0 || !is_foreign))?,
        tags: texts(row, 14)?,
        accelerators: row.get(15)?,
    })
}

fn study_query(rest: &str) -> String {
    format!(
        "SELECT id, uid, kind, title, question, method, notes, started_at, finished_at, state, planned_runs,
             (SELECT count(*) FROM run WHERE study = study_run.id), seed, configuration, raidlab_version
         FROM study_run {rest}"
    )
}

fn stored_study(row: &Row<'_>) -> rusqlite::Result<StoredStudy> {
    let count = |index| row.get::<_, i64>(index).map(i64::cast_unsigned);
    Ok(StoredStudy {
        id: row.get(0)?,
        uid: row.get(1)?,
        kind: row.get(2)?,
        title: row.get(3)?,
        question: row.get(4)?,
        method: texts(row, 5)?,
        notes: texts(row, 6)?,
        started_at: row.get(7)?,
        finished_at: row.get(8)?,
        state: row.get(9)?,
        planned_runs: count(10)?,
        finished_runs: count(11)?,
        seed: count(12)?,
        configuration: row.get(13)?,
        raidlab_version: row.get(14)?,
    })
}

/// A column that is a JSON list of texts.
fn texts(row: &Row<'_>, index: usize) -> rusqlite::Result<Vec<String>> {
    let text: String = row.get(index)?;
    serde_json::from_str(&text).map_err(|error| {
        rusqlite::Error::FromSqlConversionFailure(index, rusqlite::types::Type::Text, Box::new(error))
    })
}
