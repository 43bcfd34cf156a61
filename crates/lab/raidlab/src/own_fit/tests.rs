//! Figures that were changed must be found again, and what can't be known must be said to be so.

use super::{FitOfRuns, FitOfRunsError, FitOfRunsTask, eigen, fit_runs};
use crate::{Array, Catalog, CatalogChange, NanoSpan, Run, Window, Workload, WritePolicy, simulate};
use raidlab_workload::{AccessLine, AccessSpec};

fn array() -> Array {
    Array::new("jbod".parse().expect("a level"), 1, "generic-nvme", "linux-md-nvme")
        .write_policy(WritePolicy::WriteThrough)
}

fn workload(line: AccessLine) -> Workload {
    let base = crate::workload("storagebench-database").expect("it is built in");
    Workload { spec: AccessSpec::new("asked", vec![line]), ..base }
}

/// What a drive does of which `changes` are true.
fn measured(changes: &[CatalogChange], loads: &[(AccessLine, u32)]) -> Vec<(String, Run)> {
    let catalog = Catalog::with(&[], changes).expect("it can be");
    let window = Window {
        ramp: NanoSpan::from_millis(20),
        run: NanoSpan::from_millis(200),
        settles: false,
        seed: 9,
        ..Window::default()
    };
    let run = |(line, iodepth): &(AccessLine, u32)| {
        let run = simulate(&catalog, array(), &workload(*line), &window.iodepth(*iodepth)).expect("it runs");
        (format!("run at {iodepth}"), run)
    };
    loads.iter().map(run).collect()
}

fn change(key: &str, value: &str) -> CatalogChange {
    CatalogChange { entry: "generic-nvme".into(), key: key.into(), value: value.into(), source: None }
}

fn fitted(runs: &[(String, Run)], keys: &[&str]) -> Result<FitOfRuns, FitOfRunsError> {
    let figures: Vec<String> = keys.iter().map(|key| format!("generic-nvme:{key}")).collect();
    let array = array();
    let task = FitOfRunsTask {
        array: &array,
        files: &[],
        changes: &[],
        figures: &figures,
        runs,
        rounds: 6,
        scan: 11,
        threads: None,
    };
    fit_runs(&task, &mut |_, _| {})
}

const READS: AccessLine = AccessLine::plain(4096, 100, 100);

#[test]
fn a_changed_figure_is_found_within_its_interval() {
    let runs = measured(&[change("host.read_latency", "60 us")], &[(READS, 1), (READS, 4)]);
    let found = fitted(&runs, &["host.read_latency"]).expect("it can be fitted");
    let figure = &found.figures[0];
    let span = |text: &str| text.parse::<NanoSpan>().expect("a time").get() as f64;
    assert!((span(&figure.value) / 60e3).ln().abs() < 0.1, "{found:#?}");
    let ends = figure.low.as_deref().zip(figure.high.as_deref()).expect("it is known");
    assert!(span(ends.0) <= 60e3 && 60e3 <= span(ends.1), "{found:#?}");
    assert!(found.off_pct_after < found.off_pct_before / 4.0 && found.untold.is_empty(), "{found:#?}");
}

/// Of single reads it is not known where their time goes, and writes are not among them.
#[test]
fn figures_that_runs_do_not_tell_apart_are_named() {
    let runs = measured(&[change("host.read_latency", "60 us")], &[(READS, 1)]);
    let found =
        fitted(&runs, &["host.read_latency", "flash.decode", "host.write_latency"]).expect("it can be");
    let names: Vec<Vec<&str>> =
        found.untold.iter().map(|it| it.figures.iter().map(String::as_str).collect()).collect();
    assert!(names.contains(&vec!["generic-nvme:host.write_latency"]), "{found:#?}");
    let writes = found.figures.iter().find(|it| it.key == "host.write_latency").expect("it is there");
    assert!(writes.low.is_none() && writes.value == writes.was, "{found:#?}");
}

#[test]
fn what_can_not_be_fitted_is_refused() {
    let mut runs = measured(&[], &[(READS, 1)]);
    let text = |found: Result<FitOfRuns, FitOfRunsError>| found.expect_err("it can't be").to_string();
    assert!(
        text(fitted(&runs, &["host.read_latncy"])).contains("did you mean 'generic-nvme:host.read_latency'?")
    );
    assert!(text(fitted(&runs, &["flash.suspensions_max"])).contains("not above zero"));
    assert!(text(fitted(&runs, &[])).contains("nothing to fit"));
    runs[0].1.lines.clear();
    assert!(text(fitted(&runs, &["host.read_latency"])).contains("does not say which requests"));
    runs[0].1.ops.total.requests = 0;
    assert!(text(fitted(&runs, &["host.read_latency"])).contains("measured something else"));
}

#[test]
fn eigenvalues_are_those_of_the_matrix() {
    let matrix = vec![vec![4.0, 1.0, 0.0], vec![1.0, 3.0, 0.5], vec![0.0, 0.5, 1e-9]];
    let (values, vectors) = eigen(matrix.clone());
    for (value, vector) in values.iter().zip(&vectors) {
        for (row, part) in matrix.iter().zip(vector) {
            let product: f64 = row.iter().zip(vector).map(|(a, b)| a * b).sum();
            assert!((product - value * part).abs() < 1e-9, "{value}, {vector:?}");
        }
    }
}
