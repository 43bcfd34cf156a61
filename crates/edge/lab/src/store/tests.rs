//! The store: what goes in comes out, in order, once.

use super::*;
use raidlab_units::{BytesPerSec, Iops};
use raidlab_workload::{CostFacts, Metric, OpSummary, World};
use std::collections::BTreeMap;

/// A result of `iops` requests per second of 8 KiB, 1.25 ms on average and 3 ms at the 99th percentile.
pub(crate) fn example_result(workload: &str, iops: f64) -> RunResult {
    let total = OpSummary {
        requests: 10,
        iops: Iops(iops),
        bytes_per_sec: BytesPerSec(iops * 8192.0),
        lat_ns_mean: 1.25e6,
        lat_ns_p99: 3_000_000,
        ..OpSummary::default()
    };
    RunResult {
        world: World::Simulated,
        target: "six drives".into(),
        array: None,
        enclosure: None,
        workload: workload.into(),
        metric: Metric::Iops,
        iodepth: 8,
        seed: u64::MAX,
        window_ns: 1_000_000_000,
        read: total.clone(),
        write: OpSummary::default(),
        total,
        parts: Vec::new(),
        lag: None,
        cost: CostFacts::default(),
        settings: BTreeMap::from([("ramp".into(), "1 s".into())]),
    }
}

fn begin(store: &mut Store) -> StudyRunId {
    let head = StudyRunHead {
        title: "a study",
        question: "which?",
        planned_runs: 2,
        seed: u64::MAX,
        configuration: "{}".into(),
    };
    store.begin_study(&head).unwrap()
}

fn insert(store: &mut Store, study: StudyRunId, ordinal: u64, result: &RunResult) -> i64 {
    let environment = Environment { kernel: "Linux 6".into(), ..Environment::default() };
    let started_at = UNIX_EPOCH + Duration::from_millis(1_500);
    store.insert_run(study, &FinishedRun { ordinal, started_at, result, environment: &environment }).unwrap()
}

#[test]
fn what_goes_in_comes_out_after_the_file_is_opened_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("runs.sqlite");
    let (study, id) = {
        let mut store = Store::open(&path).unwrap();
        let study = begin(&mut store);
        (study, insert(&mut store, study, 0, &example_result("database", 123.5)))
    };
    let store = Store::open(&path).unwrap();
    let run = store.run(id).unwrap();
    assert_eq!(run.result, example_result("database", 123.5));
    assert_eq!(run.environment.kernel, "Linux 6");
    assert_eq!(run.started_at, "1970-01-01T00:00:01.500Z");
    assert_eq!(run.study, study.0);
    let lines = store.list_runs(10).unwrap();
    assert_eq!(lines.len(), 1);
    assert_eq!(lines[0].world, "simulated");
    assert_eq!((lines[0].iops, lines[0].lat_ns_p99), (123.5, 3_000_000));
    assert!((lines[0].mb_per_s - 123.5 * 8192.0 / 1e6).abs() < 1e-9);
}

#[test]
fn runs_of_a_study_stand_in_the_order_of_the_plan() {
    let mut store = Store::in_memory().unwrap();
    let (other, study) = (begin(&mut store), begin(&mut store));
    insert(&mut store, other, 0, &example_result("other", 1.0));
    insert(&mut store, study, 1, &example_result("second", 2.0));
    insert(&mut store, study, 0, &example_result("first", 3.0));
    let names: Vec<String> =
        store.runs_of_study(study).unwrap().into_iter().map(|run| run.workload).collect();
    assert_eq!(names, ["first", "second"]);
}

#[test]
fn a_place_in_the_plan_is_filled_once() {
    let mut store = Store::in_memory().unwrap();
    let study = begin(&mut store);
    insert(&mut store, study, 0, &example_result("first", 1.0));
    let result = example_result("again", 2.0);
    let environment = Environment::default();
    let again =
        FinishedRun { ordinal: 0, started_at: UNIX_EPOCH, result: &result, environment: &environment };
    assert!(matches!(store.insert_run(study, &again), Err(StoreError::Sqlite(_))));
}

#[test]
fn the_end_of_a_study_is_recorded() {
    for (end, state) in [(StudyEnd::Complete, "complete"), (StudyEnd::Incomplete, "incomplete")] {
        let mut store = Store::in_memory().unwrap();
        let study = begin(&mut store);
        store.end_study(study, end).unwrap();
        let query = "SELECT state FROM study_run WHERE finished_at IS NOT NULL";
        let found: String = store.connection.query_row(query, [], |row| row.get(0)).unwrap();
        assert_eq!(found, state);
    }
}

#[test]
fn unknown_runs_newer_files_and_other_files_are_errors() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::in_memory().unwrap();
    assert!(matches!(store.run(7), Err(StoreError::NoSuchRun { run: 7 })));

    let newer = folder.path().join("newer.sqlite");
    let store = Store::open(&newer).unwrap();
    store.connection.pragma_update(None, "user_version", schema::CURRENT_VERSION + 1).unwrap();
    drop(store);
    let error = Store::open(&newer).unwrap_err();
    assert!(
        matches!(error, StoreError::TooNew { found, .. } if found == schema::CURRENT_VERSION + 1),
        "{error}"
    );

    let text = folder.path().join("text.sqlite");
    std::fs::write(&text, "this is no database, but long enough to be looked at as one".repeat(20)).unwrap();
    assert!(matches!(Store::open(&text), Err(StoreError::Open { .. })));
}
