//! JSON, CSV and the formats of other tools, for programs.

mod common;

use common::{database_verdicts, report, study_runs};
use raidlab_advisor::{Comparison, ComparisonRow};
use raidlab_report::export::{fio, iometer};
use raidlab_report::table::{KeptRun, Table};
use raidlab_report::{csv as report_csv, json};
use raidlab_workload::{
    AccessLine, LatencyBin, LatencyFigures, LatencySplit, MachineLoad, OpSummary, OtherSummaries, RunResult,
    RunSeries, SeriesColumns,
};
use serde_json::Value;
use std::collections::BTreeSet;

fn keys(value: &Value) -> BTreeSet<&str> {
    value.as_object().expect("it is an object").keys().map(String::as_str).collect()
}

#[test]
fn runs_come_back_from_json_as_they_were() {
    let mut runs = study_runs();
    runs[0].settings.insert("block".to_owned(), "8 KiB, \"direct\"\n".to_owned());
    let mut printed: Value = serde_json::from_str(&json::runs(&runs)).unwrap();
    assert_eq!(serde_json::from_value::<Vec<RunResult>>(printed["runs"].take()).unwrap(), runs);
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

const FIELDS: [Field; 13] = [
    ("world", |run| serde_json::to_value(run.world).unwrap().as_str().unwrap().to_owned()),
    ("target", |run| run.target.clone()),
    ("level", |run| run.array.as_ref().map_or(String::new(), |array| array.level.clone())),
    ("usable_bytes", |run| {
        run.array.as_ref().map_or(String::new(), |array| array.usable_bytes.0.to_string())
    }),
    ("iodepth", |run| run.iodepth.to_string()),
    ("arrivals_per_sec", |run| run.arrivals_per_sec.map_or(String::new(), |rate| rate.to_string())),
    ("read_iops", |run| run.ops.read.iops.0.to_string()),
    ("write_lat_ns_p99", |run| run.ops.write.lat_ns_p99.to_string()),
    ("total_bytes_per_sec", |run| run.ops.total.bytes_per_sec.0.to_string()),
    ("settings_json", |run| serde_json::to_string(&run.settings).unwrap()),
    ("flush_requests", |run| flush_of(run, |flush| flush.requests.to_string())),
    ("flush_lat_ns_p99", |run| flush_of(run, |flush| flush.lat_ns_p99.to_string())),
    ("trim_iops", |_| String::new()),
];

fn flush_of(run: &RunResult, of: fn(&OpSummary) -> String) -> String {
    run.ops.others.flush.as_deref().map_or_else(String::new, of)
}

/// Figures of flushes.
fn flushes() -> OtherSummaries {
    let flush = OpSummary {
        requests: 40,
        lat_ns_mean: 2e6,
        lat_ns_p99: 9_000_000,
        lat_bins: vec![LatencyBin { lat_ns: 9_000_000, requests: 40 }],
        ..OpSummary::default()
    };
    OtherSummaries { flush: Some(Box::new(flush)), ..OtherSummaries::default() }
}

#[test]
fn csv_is_read_by_others_as_it_was_meant() {
    let mut runs = study_runs();
    runs.truncate(30);
    runs[1].target = "a, \"quoted\"\r\nname".to_owned();
    runs[2].settings.insert("block".to_owned(), "8 KiB, direct".to_owned());
    runs[3].ops.others = flushes();
    let tags = ["a, b".to_owned()];
    let kept: Vec<KeptRun<'_>> = runs
        .iter()
        .map(|run| KeptRun {
            id: 7,
            study: 3,
            title: "x",
            started_at: "2026-01-31T12:00:00Z",
            tags: &tags,
            run,
        })
        .collect();
    let text = report_csv::table(&Table::runs(&kept));
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

/// A run of a study with what a run here has: lines, bins, a series, a machine.
fn full_run() -> RunResult {
    let is_mixed = |run: &RunResult| run.ops.read.requests > 0 && run.ops.write.requests > 0;
    let mut run = study_runs().into_iter().find(is_mixed).expect("one profile reads and writes");
    run.lines = vec![AccessLine::plain(8192, 67, 100)];
    run.target = "/dev/sdb, the \"second\"".into();
    run.ops.total.lat_bins = [(40_000, 5), (900_000, 60), (2_000_000, 30), (12_000_000_000, 5)]
        .map(|(lat_ns, requests)| LatencyBin { lat_ns, requests })
        .to_vec();
    run.ops.total.requests = 100;
    let columns = |scale: u64| SeriesColumns {
        requests: vec![100 * scale, 300 * scale, 10 * scale],
        errors: vec![0; 3],
        bytes: vec![819_200 * scale, 2_457_600 * scale, 81_920 * scale],
        lat_ns_mean: vec![1000, 2000, 3000],
        ..SeriesColumns::default()
    };
    let series = RunSeries {
        interval_ns: 1_000_000_000,
        last_ns: 500_000_000,
        read: columns(1),
        write: columns(2),
        total: columns(3),
        lat_map: None,
    };
    run.series = Some(series);
    run.machine = Some(MachineLoad {
        watched_ns: 2_000_000_000,
        cpus: 2,
        cpu_busy: Some(0.5),
        cpu_system: Some(0.2),
        interrupts_per_sec: Some(1234.0),
        process_cpu_ns: Some(1_000_000_000),
        process_cpu_system_ns: Some(400_000_000),
        ..MachineLoad::default()
    });
    run
}

#[test]
fn fio_gets_its_keys_with_their_units() {
    let run = full_run();
    let json: Value = serde_json::from_str(&fio::json(&run, 1_700_000_000)).expect("it is JSON");
    let job = &json["jobs"][0];
    assert_eq!((&job["job options"]["rw"], &job["job options"]["numjobs"]), (&"randrw".into(), &"1".into()));
    assert_eq!(job["job options"]["iodepth"], run.iodepth.to_string());
    let read = &job["read"];
    assert_eq!(read["lat_ns"]["mean"], run.ops.read.lat_ns_mean);
    assert_eq!(read["bw"], (run.ops.read.bytes_per_sec.0 / 1024.0).round() as u64);
    // The last interval was cut short; of 100 and 300 the mean is 200 and the deviation the root of 20000.
    assert_eq!((&read["iops_samples"], &read["iops_mean"]), (&2.into(), &200.0.into()));
    assert!((read["iops_stddev"].as_f64().expect("a number") - 20_000_f64.sqrt()).abs() < 1e-9);
    assert_eq!((&job["usr_cpu"], &job["sys_cpu"]), (&30.0.into(), &20.0.into()));
    assert_eq!((&job["latency_us"]["50"], &job["latency_us"]["1000"]), (&5.0.into(), &60.0.into()));
    assert_eq!((&job["latency_ms"]["2"], &job["latency_ms"][">=2000"]), (&30.0.into(), &5.0.into()));
    let classes = ["latency_ns", "latency_us", "latency_ms"]
        .iter()
        .flat_map(|key| job[key].as_object().expect("classes"));
    let sum: f64 = classes.filter_map(|(_, share)| share.as_f64()).sum();
    assert!((sum - 100.0).abs() < 1e-9, "every request is in one class: {sum}");
    assert_eq!(read["clat_ns"]["percentile"]["99.000000"].as_u64(), Some(run.ops.read.lat_curve[14].lat_ns));
    let part = |ns_mean| LatencyFigures { ns_mean, ns_p99: 77, ..LatencyFigures::default() };
    let mut cut = run.clone();
    cut.ops.read.split = Some(LatencySplit { slat: part(3.0), clat: part(5.0) });
    let json: Value = serde_json::from_str(&fio::json(&cut, 1_700_000_000)).expect("it is JSON");
    let read = &json["jobs"][0]["read"];
    assert_eq!((&read["slat_ns"]["mean"], &read["clat_ns"]["mean"]), (&3.0.into(), &5.0.into()));
    assert_eq!(read["clat_ns"]["percentile"]["99.000000"], 77);
    assert_eq!(read["lat_ns"]["percentile"]["99.000000"].as_u64(), Some(run.ops.read.lat_curve[14].lat_ns));
    assert_eq!(job["sync"]["total_ios"], 0);
    cut.ops.others = flushes();
    let json: Value = serde_json::from_str(&fio::json(&cut, 1_700_000_000)).expect("it is JSON");
    let (sync, trim) = (&json["jobs"][0]["sync"], &json["jobs"][0]["trim"]);
    assert_eq!((&sync["total_ios"], &sync["lat_ns"]["mean"]), (&40.into(), &2e6.into()));
    assert_eq!((&sync["lat_ns"]["bins"]["9000000"], &trim["total_ios"]), (&40.into(), &0.into()));
    let logs = fio::logs(&run);
    let (name, iops) = &logs[0];
    assert_eq!(*name, format!("randrw-iodepth-{}-numjobs-1_iops.1.log", run.iodepth));
    assert!(iops.starts_with("1000, 100, 0, "), "{iops}");
    assert_eq!(iops.lines().count(), 6, "reads and writes in three intervals");
    assert!(iops.lines().last().is_some_and(|line| line.starts_with("2500, 40, 1, ")), "{iops}");
}

#[test]
fn iometer_gets_its_rows_and_columns() {
    let run = full_run();
    let (started_at, ended_at) = ("2026-01-31 12:00:00:000", "2026-01-31 12:00:02:500");
    let text = iometer::csv("a, title", &[iometer::TimedRun { run: &run, started_at, ended_at }]);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        lines[..6],
        ["'Test Type,Test Description", "0,a  title", "'Version", "1.1.0", "'Time Stamp", started_at]
    );
    assert!(text.contains("\n8192,100,67,100,0,1,8192,0,\n'End access specifications\n'Results\n"), "{text}");
    let from = lines.iter().position(|line| *line == "'Results").expect("results") + 1;
    let names: Vec<&str> = lines[from].split(',').collect();
    let rows: Vec<Vec<&str>> = lines[from + 1..]
        .iter()
        .take_while(|line| !line.starts_with('\''))
        .map(|line| line.split(',').collect())
        .collect();
    let kinds: Vec<&str> = rows.iter().map(|row| row[0]).collect();
    assert_eq!(kinds, ["ALL", "MANAGER", "PROCESSOR", "PROCESSOR", "WORKER", "DISK"]);
    for row in &rows {
        let expected = if row[0] == "PROCESSOR" { 59 } else { 80 };
        assert_eq!((row.len(), names.len()), (expected, 80), "{row:?}");
    }
    let value = |row: usize, name: &str| {
        let column =
            names.iter().position(|known| *known == name).unwrap_or_else(|| panic!("no column {name}"));
        rows[row][column]
    };
    assert_eq!(value(0, "IOps").parse::<f64>().ok(), Some((run.ops.total.iops.0 * 1e6).round() / 1e6));
    assert_eq!(value(0, "Queue Depth"), run.iodepth.to_string());
    assert_eq!(
        (value(0, "% CPU Utilization"), value(0, "Interrupts per Second")),
        ("50.000000", "1234.000000")
    );
    assert_eq!((value(2, "% CPU Utilization"), value(2, "IOps")), ("50.000000", ""));
    assert_eq!((value(4, "% CPU Utilization"), value(4, "Processor Speed")), ("", "1000000000"));
    assert_eq!((value(5, "0 to 50 uS"), value(5, "1 to 2 mS"), value(5, " >= 10 s")), ("5", "30", "5"));
    assert_eq!(value(5, "Target Name"), "/dev/sdb  the \"second\"");
    assert_eq!(lines[lines.len() - 2..], ["'Time Stamp", ended_at]);
}
