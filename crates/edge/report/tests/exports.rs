//! JSON and CSV: what programs read.

mod common;

use common::{database_verdicts, report, study_runs};
use raidlab_advisor::{Comparison, ComparisonRow};
use raidlab_report::json::ReadRunsError;
use raidlab_report::{csv as report_csv, json};
use raidlab_workload::RunResult;
use serde_json::Value;
use std::collections::BTreeSet;

fn keys(value: &Value) -> BTreeSet<&str> {
    value.as_object().expect("it is an object").keys().map(String::as_str).collect()
}

#[test]
fn runs_come_back_from_json_as_they_were() {
    let mut runs = study_runs();
    runs[0].settings.insert("block".to_owned(), "8 KiB, \"direct\"\n".to_owned());
    let read = json::read_runs(&json::runs(&runs)).unwrap();
    assert_eq!(read.len(), runs.len());
    for (read, run) in read.iter().zip(&runs) {
        assert_eq!(read, run);
    }
}

#[test]
fn other_json_is_refused() {
    let newer = json::read_runs("{\"schema\": 2, \"runs\": []}").unwrap_err();
    assert!(matches!(newer, ReadRunsError::OtherSchema { found: 2, expected: 1 }), "{newer}");
    for text in ["", "[]", "{\"schema\": 1}", "{\"schema\": 1, \"runs\": [{}]}"] {
        assert!(matches!(json::read_runs(text), Err(ReadRunsError::Malformed(_))), "{text}");
    }
}

#[test]
fn a_study_in_json_has_all_of_it() {
    let runs = study_runs();
    let verdicts = database_verdicts(&runs);
    let study: Value = serde_json::from_str(&json::study(&report(&runs, &verdicts))).unwrap();
    assert_eq!(study["iodepth"], 64);
    assert_eq!(study["runs"].as_array().unwrap().len(), runs.len());
    assert_eq!(study["verdicts"][1]["recommended"]["label"], "RAID 10 write-back");
    assert_eq!(study["setup"][0]["name"], "processors");
    assert_eq!(study["warnings"][0], "This study was stopped.");
}

#[test]
fn a_comparison_in_json_has_the_fields_that_its_readers_expect() {
    let row = ComparisonRow::of("a/1".to_owned(), "iops".to_owned(), 200.0, 150.0).unwrap();
    let comparison: Value = serde_json::from_str(&json::comparison(&Comparison::of(vec![row]))).unwrap();
    assert_eq!(keys(&comparison), BTreeSet::from(["rows", "summary"]));
    assert_eq!(
        comparison["rows"][0],
        serde_json::json!({"id": "a/1", "metric": "iops", "published": 200.0, "predicted": 150.0, "error_pct": -25.0})
    );
    assert_eq!(
        comparison["summary"],
        serde_json::json!({"rows": 1, "median_abs_error_pct": 25.0, "p90_abs_error_pct": 25.0})
    );
    let empty: Value = serde_json::from_str(&json::comparison(&Comparison::of(Vec::new()))).unwrap();
    assert_eq!(empty["summary"]["median_abs_error_pct"], Value::Null);
}

/// One field of the CSV and where the run has it; empty stands for what the run does not have.
type Field = (&'static str, fn(&RunResult) -> String);

const FIELDS: [Field; 9] = [
    ("world", |run| serde_json::to_value(run.world).unwrap().as_str().unwrap().to_owned()),
    ("target", |run| run.target.clone()),
    ("level", |run| run.array.as_ref().map_or(String::new(), |array| array.level.clone())),
    ("usable_bytes", |run| {
        run.array.as_ref().map_or(String::new(), |array| array.usable_bytes.0.to_string())
    }),
    ("iodepth", |run| run.iodepth.to_string()),
    ("read_iops", |run| run.read.iops.0.to_string()),
    ("write_lat_ns_p99", |run| run.write.lat_ns_p99.to_string()),
    ("total_bytes_per_sec", |run| run.total.bytes_per_sec.0.to_string()),
    ("settings_json", |run| serde_json::to_string(&run.settings).unwrap()),
];

#[test]
fn csv_is_read_by_others_as_it_was_meant() {
    let mut runs = study_runs();
    runs.truncate(30);
    runs[1].target = "a, \"quoted\"\r\nname".to_owned();
    runs[2].settings.insert("block".to_owned(), "8 KiB, direct".to_owned());
    let text = report_csv::runs(&runs);
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let header: Vec<String> = reader.headers().unwrap().iter().map(str::to_owned).collect();
    assert_eq!(header.iter().collect::<BTreeSet<_>>().len(), header.len(), "names are unique");
    let records: Vec<_> = reader.records().map(Result::unwrap).collect();
    assert_eq!(records.len(), runs.len());
    for (record, run) in records.iter().zip(&runs) {
        for (name, of) in FIELDS {
            let at = header.iter().position(|field| field == name).unwrap();
            assert_eq!(record[at], of(run), "{name} of {}", run.target);
        }
    }
}
