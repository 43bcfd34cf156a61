//! Turns the results of soaks, risks and predictions of published figures into runs, so that every verb keeps its
//! results in one store.
//!
//! A soak moves bytes, and its rates are those of any run. A risk has no rate; its figures are in
//! [`RunResult::figures`], under the names of the verb's JSON (`markov.per_year`). A predicted configuration is an
//! ordinary simulated run, with the published figures that it predicts.

use raidlab_advisor::risk::RiskReport;
use raidlab_engines::soak::{SoakHealth, SoakRecord};
use raidlab_papers::ClaimPrediction;
use raidlab_papers::{PredictedConfiguration, PredictedRow, Prediction};
use raidlab_units::{BytesPerSec, Iops, NanoSpan};
use raidlab_workload::{Metric, OpSummary, RunResult, World};
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// The soak of one target: what was moved in all its soaks, and a failed request for each fault.
pub fn soak_run(record: &SoakRecord, confidence_pct: f64) -> RunResult {
    let window = NanoSpan((record.seconds.max(0.0) * 1e9).round() as u64);
    let op = |bytes: u64, errors: u64| {
        let requests = bytes.div_ceil(record.chunk_bytes.max(1));
        OpSummary {
            requests,
            errors,
            iops: Iops::of(requests, window),
            bytes_per_sec: BytesPerSec::of(raidlab_units::ByteCount(bytes), window),
            ..OpSummary::default()
        }
    };
    let target = record.path.display().to_string();
    let mut run = RunResult::unmeasured(World::Measured, target, "soak".to_owned(), Metric::MbPerS);
    let faults = record.faults.total();
    (run.iodepth, run.window_ns) = (1, window.get());
    (run.ops.read, run.ops.write) = (op(record.bytes_read, faults), op(record.bytes_written, 0));
    run.ops.total = op(record.bytes_read.saturating_add(record.bytes_written), faults);
    run.cost.wall_ns = window.get();
    run.figures = numbers(record);
    let bound = record.fault_rate_upper_bound(confidence_pct / 100.0);
    run.figures.extend(bound.map(|bound| ("fault_rate_per_bit_upper_bound".to_owned(), bound)));
    run.figures.extend(health_figures(&record.health));
    run.settings.insert("confidence".to_owned(), format!("{confidence_pct} %"));
    run
}

/// Counters of the drives before and after, and the range of temperatures, by names such as `smart.sda.media_errors.after`.
fn health_figures(health: &SoakHealth) -> BTreeMap<String, f64> {
    let mut figures = BTreeMap::new();
    let mut add = |name: String, value: f64| figures.insert(name.replace(' ', "_"), value);
    for drive in &health.drives {
        for (when, counters) in [("before", &drive.before), ("after", &drive.after)] {
            for (counter, value) in counters {
                add(format!("smart.{}.{counter}.{when}", drive.drive), *value as f64);
            }
        }
    }
    for series in &health.temperatures {
        if let Some((low, mean, high)) = series.range() {
            for (what, degrees) in [("min", low), ("mean", mean), ("max", high)] {
                add(format!("celsius.{}.{what}", series.sensor), degrees);
            }
        }
    }
    figures
}

/// The chances of an array, and of a fleet of them.
pub fn risk_run(report: &RiskReport) -> RunResult {
    let target = format!("RAID {} of {}", report.spec.level, report.spec.members);
    let mut run = RunResult::unmeasured(World::Simulated, target, "risk".to_owned(), Metric::Iops);
    run.seed = report.drawn.seed;
    run.figures = numbers(report);
    run.settings.extend(report.sources.iter().cloned());
    run
}

/// The simulated configurations of a prediction, each with the figures that it predicts.
pub fn predicted_runs(prediction: &Prediction) -> Vec<RunResult> {
    let run = |(index, configuration): (usize, &PredictedConfiguration)| {
        let mut run = configuration.result.clone();
        for row in prediction.rows.iter().filter(|row| row.configuration == index) {
            let PredictedRow { comparison, place, .. } = row;
            let key = |what: &str| format!("{}.{}.{what}", comparison.id, comparison.metric);
            run.figures.insert(key("published"), comparison.published);
            run.figures.insert(key("error_pct"), comparison.error_pct);
            run.settings.entry("predicts".to_owned()).or_insert_with(|| place.clone());
        }
        run
    };
    prediction.configurations.iter().enumerate().map(run).collect()
}

/// The simulated configurations of predicted claims.
pub fn claim_runs(prediction: &ClaimPrediction) -> Vec<RunResult> {
    prediction.configurations.iter().map(|configuration| configuration.result.clone()).collect()
}

/// The numbers in what `of` is as JSON, by their path: `markov.per_year`.
fn numbers(of: &impl Serialize) -> BTreeMap<String, f64> {
    fn collect(path: &str, value: &Value, found: &mut BTreeMap<String, f64>) {
        match value {
            Value::Number(number) => found.extend(number.as_f64().map(|it| (path.to_owned(), it))),
            Value::Object(fields) => {
                for (name, field) in fields {
                    let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                    collect(&path, field, found);
                }
            }
            _ => {}
        }
    }
    let mut found = BTreeMap::new();
    collect("", &serde_json::to_value(of).expect("records have only text as keys"), &mut found);
    found
}
