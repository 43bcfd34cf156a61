//! The store: records come out as they went in, in order, once.

use super::*;
use raidlab_testkit::example_result;
use raidlab_workload::{LatencyBin, RunSeries, SeriesColumns, World};

fn begin(store: &mut Store) -> StudyRunId {
    let head = StudyRunHead {
        kind: "measure",
        title: "a study",
        question: "which?",
        method: &["by looking".into()],
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
    assert_eq!((run.started_at.as_str(), run.started_at_unix), ("1970-01-01T00:00:01.500Z", 1));
    assert_eq!(run.ended_at, run.started_at, "the example took no time");
    assert_eq!(run.study, study.0);
    let lines = store.list_runs(&RunFilter::default()).unwrap();
    assert_eq!(lines.len(), 1);
    assert_eq!(lines[0].world, "simulated");
    assert_eq!((lines[0].iops, lines[0].lat_ns_p99), (Some(123.5), Some(3_000_000)));
    assert!((lines[0].mb_per_s.unwrap() - 123.5 * 8192.0 / 1e6).abs() < 1e-9);
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
        assert_eq!(
            (store.study(study).unwrap().state.as_str(), store.study(study).unwrap().finished_at),
            ("running", None)
        );
        store.end_study(study, end, &["all is well".into()]).unwrap();
        let found = store.study(study).unwrap();
        assert_eq!((found.state.as_str(), found.finished_at.is_some()), (state, true));
        assert_eq!(
            (found.method, found.notes),
            (vec!["by looking".to_owned()], vec!["all is well".to_owned()])
        );
        assert_eq!((found.seed, found.planned_runs, found.finished_runs), (u64::MAX, 2, 0));
        assert_eq!(found.uid.len(), 32);
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
    assert!(matches!(Store::open(&text), Err(StoreError::NotADatabase { .. })));

    let other = folder.path().join("other.sqlite");
    Connection::open(&other).unwrap().execute_batch("CREATE TABLE customer (name TEXT)").unwrap();
    let before = std::fs::read(&other).unwrap();
    assert!(matches!(Store::open(&other), Err(StoreError::Foreign { .. })));
    assert_eq!(std::fs::read(&other).unwrap(), before);
}

/// A file as the first version wrote it, with a run from then.
fn first_version(path: &Path) {
    let connection = Connection::open(path).unwrap();
    connection.execute_batch(schema::step(0)).unwrap();
    connection.pragma_update(None, "user_version", 1).unwrap();
    let old = r#"{"world":"measured","target":"/dev/sda","array":null,"workload":"database","metric":"iops",
        "iodepth":4,"seed":1,"window_ns":1000000000,"read":OP,"write":OP,"total":OP,
        "cost":{"cpu_ns_per_io":null,"member_reads":null,"member_writes":null,"wall_ns":5},"settings":{}}"#
        .replace(
            "OP",
            r#"{"requests":9,"errors":0,"iops":9.0,"bytes_per_sec":73728.0,"lat_ns_mean":1.5,"lat_ns_min":1,
                "lat_ns_p50":1,"lat_ns_p99":2,"lat_ns_p999":2,"lat_ns_max":3}"#,
        );
    let environment = r#"{"raidlab_version":"0.1.0","kernel":"Linux 5","cpu_model":null,"cpus":1,"memory_bytes":1,
        "filesystem":null,"device":{"name":"sda","scheduler":null,"rotational":true,"write_cache":null,
        "physical_block_bytes":512,"size_bytes":7}}"#;
    let study =
        "INSERT INTO study_run VALUES (1, 'old', '', '2026-01-01', NULL, 1, 'complete', 1, '{}', '0.1.0')";
    connection.execute(study, []).unwrap();
    let run = "INSERT INTO run VALUES (1, 1, 0, '2026-01-01', 'measured', '/dev/sda', 'database', 4, 9.0, 0.07, 1.5, 2,
                   ?1, ?2)";
    connection.execute(run, [old.as_str(), environment]).unwrap();
}

fn selected(store: &Store, text: &str) -> Result<Vec<i64>, StoreError> {
    let selectors: Vec<RunSelector> = text.split(' ').map(|text| text.parse().unwrap()).collect();
    store.select(&selectors)
}

#[test]
fn runs_are_found_by_number_range_study_and_tag() {
    let mut store = Store::in_memory().unwrap();
    let (first, second) = (begin(&mut store), begin(&mut store));
    for (study, ordinal) in [(first, 1), (first, 0), (second, 0), (second, 1)] {
        insert(&mut store, study, ordinal, &example_result("database", ordinal as f64));
    }
    store.tag(&[4, 2], "good").unwrap();
    store.tag(&[4], "good").unwrap();
    for (text, found) in [
        ("3", &[3][..]),
        ("2..9", &[2, 3, 4]),
        ("study:1", &[2, 1]),
        ("tag:good", &[2, 4]),
        ("4 tag:good 1", &[4, 2, 1]),
    ] {
        assert_eq!(selected(&store, text).unwrap(), found, "{text}");
    }
    assert!(matches!(selected(&store, "1 9"), Err(StoreError::NoSuchRun { run: 9 })));
    assert!(matches!(selected(&store, "7..9"), Err(StoreError::NoSuchRun { run: 7 })));
    assert!(matches!(selected(&store, "study:3"), Err(StoreError::NoSuchStudy { study: 3 })));
    let gaps = |text: &str| store.gaps(&[text.parse().unwrap()]).unwrap();
    assert_eq!((gaps("2..9"), gaps("1..4"), gaps("study:1")), (vec![(5, 9)], vec![], vec![]));
    store.connection.execute("DELETE FROM run WHERE id = 3", []).unwrap();
    assert_eq!(store.gaps(&["1..5".parse().unwrap()]).unwrap(), [(3, 3), (5, 5)]);
    assert_eq!(store.extent().unwrap(), [Some((1, 4)), Some((1, 2))]);
    assert_eq!(Store::in_memory().unwrap().extent().unwrap(), [None, None]);
    assert!(matches!(selected(&store, "tag:bad"), Err(StoreError::NoSuchTag { nearest: None, .. })));
    let misspelt = selected(&store, "tag:god").unwrap_err().to_string();
    assert_eq!(misspelt, "no run has the tag 'god', did you mean 'good'?");
    assert!(matches!(store.tag(&[1, 9], "new"), Err(StoreError::NoSuchRun { run: 9 })));
    assert!(store.run(1).unwrap().tags.is_empty(), "none is tagged when one is unknown");
    store.untag(&[4], "good").unwrap();
    assert_eq!(selected(&store, "tag:good").unwrap(), [2]);
    assert_eq!(store.run(2).unwrap().tags, ["good"]);
}

#[test]
fn lists_keep_what_is_asked_for() {
    let mut store = Store::in_memory().unwrap();
    let study = begin(&mut store);
    let mut bare = example_result("backup", 1.0);
    (bare.world, bare.target) = (World::Measured, "/mnt/a/test.dat".into());
    let runs = [example_result("database", 2.0), bare, example_result("backup", 3.0)];
    for (ordinal, result) in runs.iter().enumerate() {
        insert(&mut store, study, ordinal as u64, result);
    }
    store.tag(&[3], "x").unwrap();
    let some = |text: &str| Some(text.to_owned());
    let all = RunFilter::default;
    for (filter, ids) in [
        (all(), &[3, 2, 1][..]),
        (RunFilter { limit: Some(2), ..all() }, &[3, 2]),
        (RunFilter { workload: some("backup"), ..all() }, &[3, 2]),
        (RunFilter { world: some("measured"), ..all() }, &[2]),
        (RunFilter { target: some("mnt/a"), ..all() }, &[2]),
        (RunFilter { tag: some("x"), ..all() }, &[3]),
        (RunFilter { study: Some(2), ..all() }, &[]),
        (RunFilter { kind: some("measure"), workload: some("database"), ..all() }, &[1]),
    ] {
        let found: Vec<i64> = store.list_runs(&filter).unwrap().iter().map(|line| line.id).collect();
        assert_eq!(found, ids, "{filter:?}");
    }
    assert_eq!(store.list_runs(&all()).unwrap()[0].tags, ["x"]);
}

#[test]
fn an_archive_is_taken_in_once() {
    let mut store = Store::in_memory().unwrap();
    let study = begin(&mut store);
    for ordinal in 0..3 {
        insert(&mut store, study, ordinal, &example_result("database", ordinal as f64));
    }
    store.tag(&[2], "middle").unwrap();
    store.end_study(study, StudyEnd::Complete, &["a note".into()]).unwrap();
    let part = Archive::from_json(&store.archive(&[2]).unwrap().to_json()).unwrap();
    let all = Archive::from_json(&store.archive(&[1, 2, 3]).unwrap().to_json()).unwrap();
    let mut other = Store::in_memory().unwrap();
    let stranger = begin(&mut other);
    insert(&mut other, stranger, 0, &example_result("other", 9.0));
    assert_eq!(other.take_in(&part).unwrap(), Imported { runs: vec![2], known: 0 });
    assert_eq!(other.take_in(&all).unwrap(), Imported { runs: vec![3, 4], known: 1 });
    assert_eq!(other.take_in(&all).unwrap(), Imported { runs: vec![], known: 3 });
    assert_eq!(other.runs_of_study(StudyRunId(2)).unwrap(), store.runs_of_study(study).unwrap());
    let (here, there) = (store.study(study).unwrap(), other.study(StudyRunId(2)).unwrap());
    assert_eq!(StoredStudy { id: 1, ..there }, here);
    assert_eq!(other.run(2).unwrap().tags, ["middle"]);
}

#[test]
fn what_is_no_archive_is_refused() {
    let orphan = {
        let mut store = Store::in_memory().unwrap();
        let study = begin(&mut store);
        insert(&mut store, study, 0, &example_result("database", 1.0));
        Archive { studies: Vec::new(), ..store.archive(&[1]).unwrap() }.to_json()
    };
    assert!(matches!(Archive::from_json(&orphan), Err(ArchiveError::Orphan { run: 1, study: 1 })));
    assert!(matches!(Archive::from_json("[]"), Err(ArchiveError::OtherKind { is_empty: false })));
    let newer = r#"{"schema":2,"studies":[],"runs":[]}"#;
    assert!(matches!(Archive::from_json(newer), Err(ArchiveError::OtherSchema { found: 2 })));
}

/// Each version that was ever released, so that a file of it is still read.
#[test]
fn a_file_of_every_version_is_brought_up_to_date() {
    for version in 1..schema::CURRENT_VERSION {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("old.sqlite");
        first_version(&path);
        let connection = Connection::open(&path).unwrap();
        (1..version).for_each(|step| connection.execute_batch(schema::step(step)).unwrap());
        connection.pragma_update(None, "user_version", version).unwrap();
        drop(connection);
        let mut store = Store::open(&path).unwrap();
        let study = store.study(StudyRunId(1)).unwrap();
        assert_eq!(
            (study.title.as_str(), study.kind.as_str(), study.uid.len()),
            ("old", "", 32),
            "{version}"
        );
        store.tag(&[1], "old").unwrap();
        let open = RunResult { arrivals_per_sec: Some(0.5), ..example_result("database", 1.0) };
        insert(&mut store, StudyRunId(1), 1, &open);
        let [new, old] = &store.list_runs(&RunFilter::default()).unwrap()[..] else { panic!("two runs") };
        assert_eq!(old.tags, ["old"]);
        assert_eq!((old.arrivals_per_sec, new.arrivals_per_sec), (None, Some(0.5)));
    }
}

#[test]
fn a_migration_that_fails_leaves_the_file_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("odd.sqlite");
    first_version(&path);
    let connection = Connection::open(&path).unwrap();
    // What a later step makes is there already, so that it fails half way.
    connection.execute("CREATE TABLE run_tag (odd)", []).unwrap();
    drop(connection);
    assert!(matches!(Store::open(&path), Err(StoreError::Sqlite(_))));
    let connection = Connection::open(&path).unwrap();
    let version: usize = connection.pragma_query_value(None, "user_version", |row| row.get(0)).unwrap();
    assert_eq!(version, 2, "the step before it stands");
    let columns: i64 = connection
        .query_row("SELECT count(*) FROM pragma_table_info('study_run') WHERE name = 'uid'", [], |row| {
            row.get(0)
        })
        .unwrap();
    assert_eq!(columns, 0, "nothing of the step that failed stands");
}

#[test]
fn many_open_a_new_file_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("new.sqlite");
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                let mut store = Store::open(&path).unwrap();
                let study = begin(&mut store);
                for ordinal in 0..5 {
                    insert(&mut store, study, ordinal, &example_result("database", 1.0));
                }
                store.end_study(study, StudyEnd::Complete, &[]).unwrap();
            });
        }
    });
    let store = Store::open(&path).unwrap();
    let studies = store.list_studies(10).unwrap();
    assert_eq!(studies.len(), 6);
    assert!(studies.iter().all(|study| (study.state.as_str(), study.finished_runs) == ("complete", 5)));
}

#[test]
fn a_file_of_the_first_version_opens_and_takes_new_runs() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("old.sqlite");
    first_version(&path);
    let mut store = Store::open(&path).unwrap();
    let old = store.run(1).unwrap();
    assert_eq!((old.result.iodepth, old.result.ops.total.requests), (4, 9));
    assert_eq!((old.result.series, old.result.machine, old.result.steady), (None, None, None));
    assert_eq!(old.environment.device.unwrap().nr_requests, None);
    let study = begin(&mut store);
    let mut result = example_result("database", 7.0);
    result.ops.total.lat_ns_p99999 = 77;
    result.ops.total.lat_bins = vec![LatencyBin { lat_ns: 5, requests: 6 }];
    let total = SeriesColumns {
        requests: vec![3, 4],
        errors: vec![0, 0],
        bytes: vec![30, 40],
        lat_ns_mean: vec![5, 6],
        lat_ns_p50: vec![5, 6],
        lat_ns_p99: vec![7, 8],
        lat_ns_p999: vec![7, 8],
        lat_ns_max: vec![9, 10],
    };
    result.series = Some(RunSeries { interval_ns: 1000, last_ns: 1000, total, ..RunSeries::default() });
    let id = insert(&mut store, study, 0, &result);
    assert_eq!(store.run(id).unwrap().result, result);
    let figure =
        |query: &str| store.connection.query_row(query, [], |row| row.get::<_, Option<i64>>(0)).unwrap();
    assert_eq!(figure("SELECT lat_ns_p99999 FROM run WHERE id = 1"), None);
    assert_eq!(figure("SELECT lat_ns_p99999 FROM run WHERE id = 2"), Some(77));
    assert_eq!(figure("SELECT count(*) FROM run_interval"), Some(2), "the old run has none, the new one two");
    assert_eq!(figure("SELECT sum(bytes) FROM run_interval WHERE run = 2 AND op = 'total'"), Some(70));
    assert_eq!(figure("SELECT lat_ns_max FROM run_interval WHERE start_ns = 1000"), Some(10));
    assert_eq!(figure("SELECT requests FROM run_latency_bin WHERE run = 2 AND lat_ns = 5"), Some(6));
}
