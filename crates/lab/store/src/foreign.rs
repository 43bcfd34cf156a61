//! Runs that another program measured, as an archive that a store can import.
//!
//! A results file is identified by its content: imported twice, it is there once. Such files do not describe the
//! machine, so the environment is marked as unknown, and is never that of the importing machine.

use super::archive::{Archive, SCHEMA};
use super::records::{StoredRun, StoredStudy};
use super::{Store, StoreError, json};
use raidlab_machine::Environment;
use raidlab_workload::RunResult;
use serde_json::json;

/// What kept a study run that was not raidlab's.
const KIND: &str = "import";

/// A file of another program's results.
#[derive(Clone, Debug)]
pub struct ForeignStudy<'a> {
    /// The file, for people.
    pub file: &'a str,
    /// What is in it.
    pub content: &'a [u8],
    /// The program that measured, with its version.
    pub program: &'a str,
    /// A title; may be empty.
    pub title: &'a str,
    /// What is to be known of all runs: sentences.
    pub notes: &'a [String],
    /// The runs, each with its start in milliseconds since 1970; none where the file does not tell.
    pub runs: Vec<(Option<u64>, RunResult)>,
}

impl Store {
    /// The archive of `study`.
    ///
    /// # Errors
    /// [`StoreError::Sqlite`] if times can't be written as text.
    pub fn archive_of_foreign(&self, study: &ForeignStudy<'_>) -> Result<Archive, StoreError> {
        let environment = Environment::unknown(study.program);
        let mut runs = Vec::with_capacity(study.runs.len());
        for (ordinal, (started_ms, result)) in (0..).zip(&study.runs) {
            let at = |after_ns: u64| {
                let seconds = started_ms.map(|ms| ms as f64 / 1e3 + after_ns as f64 / 1e9);
                seconds.map_or_else(|| Ok(String::new()), |seconds| self.iso(seconds))
            };
            runs.push(StoredRun {
                id: 0,
                study: 0,
                title: study.title.to_owned(),
                ordinal,
                started_at: at(0)?,
                started_at_unix: started_ms.map_or(0, |ms| ms / 1000),
                ended_at: at(result.cost.wall_ns)?,
                tags: Vec::new(),
                result: result.clone(),
                environment: environment.clone(),
            });
        }
        let count = runs.len() as u64;
        let head = StoredStudy {
            id: 0,
            uid: format!("foreign-{:032x}", fnv1a(study.content)),
            kind: KIND.to_owned(),
            title: format!(
                "{}: {}",
                study.program,
                if study.title.is_empty() { study.file } else { study.title }
            ),
            question: String::new(),
            method: vec![format!(
                "Measured by {}, and taken in from its results, {}.",
                study.program, study.file
            )],
            notes: study.notes.to_vec(),
            started_at: runs.first().map_or_else(String::new, |run| run.started_at.clone()),
            finished_at: runs.last().map(|run| run.ended_at.clone()),
            state: "complete".to_owned(),
            planned_runs: count,
            finished_runs: count,
            seed: study.runs.first().map_or(0, |(_, run)| run.seed),
            configuration: json(&json!({ "file": study.file, "program": study.program })),
            raidlab_version: String::new(),
        };
        Ok(Archive { schema: SCHEMA, studies: vec![head], runs })
    }
}

/// Fowler, Noll and Vo's hash 1a of 128 bits: against accidents, not attacks.
fn fnv1a(bytes: &[u8]) -> u128 {
    const OFFSET: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    bytes.iter().fold(OFFSET, |hash, byte| (hash ^ u128::from(*byte)).wrapping_mul(PRIME))
}

#[cfg(test)]
mod tests {
    use super::*;
    use raidlab_workload::{Metric, World};

    #[test]
    fn the_hash_is_that_of_its_authors() {
        // Landon Curt Noll's test vectors.
        assert_eq!(fnv1a(b""), 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d);
        assert_eq!(fnv1a(b"foobar"), 0x343e_1662_793c_64bf_6f0d_3597_ba44_6f18);
    }

    #[test]
    fn a_file_is_taken_in_once_and_its_machine_is_not_known() {
        let folder = tempfile::tempdir().unwrap();
        let mut store = Store::open(&folder.path().join("a.sqlite")).unwrap();
        let mut run = RunResult::unmeasured(World::Measured, "/dev/sdx".into(), "a".into(), Metric::Iops);
        run.ops.total.requests = 7;
        let study = |content, runs| ForeignStudy {
            file: "a.json",
            content,
            program: "fio-3.33",
            title: "",
            notes: &[],
            runs,
        };
        let runs = vec![(Some(1_700_000_000_250), run.clone()), (None, run.clone())];
        for (content, new, known) in [(&b"one"[..], 2, 0), (b"one", 0, 2), (b"two", 2, 0)] {
            let archive = store.archive_of_foreign(&study(content, runs.clone())).unwrap();
            let imported = store.take_in(&archive).unwrap();
            assert_eq!((imported.runs.len(), imported.known), (new, known));
        }
        let kept = store.run(1).unwrap();
        assert_eq!((kept.result, kept.started_at.as_str()), (run, "2023-11-14T22:13:20.250Z"));
        let undated = store.run(2).unwrap();
        assert_eq!(
            (undated.started_at, undated.started_at_unix, undated.ended_at),
            (String::new(), 0, String::new())
        );
        assert_eq!(kept.title, "fio-3.33: a.json");
        assert_eq!((kept.environment.cpus, kept.environment.memory_bytes), (0, 0));
        let archive = store.archive(&[1, 2]).unwrap();
        assert_eq!(
            Archive::from_json(&archive.to_json()).unwrap(),
            archive,
            "it goes on to other stores as any run"
        );
    }

    /// A figure that is no number becomes nothing in JSON and in columns: it is refused, and nothing is half there.
    #[test]
    fn a_run_that_could_not_be_read_back_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let mut store = Store::open(&folder.path().join("a.sqlite")).unwrap();
        let run = RunResult::unmeasured(World::Measured, "/dev/sdx".into(), "a".into(), Metric::Iops);
        let mut damaged = run.clone();
        damaged.ops.read.lat_ns_mean = f64::NAN;
        let mut worse = run.clone();
        worse.ops.total.lat_ns_mean = f64::INFINITY;
        for bad in [damaged, worse] {
            let runs = vec![(None, run.clone()), (None, bad)];
            let study = ForeignStudy { file: "a", content: b"a", program: "p", title: "", notes: &[], runs };
            let archive = store.archive_of_foreign(&study).unwrap();
            let error = store.take_in(&archive).expect_err("it is refused").to_string();
            assert!(error.starts_with("the run of 'a' has a figure that is no number"), "{error}");
            assert!(store.run(1).is_err(), "all or nothing");
        }
    }
}
