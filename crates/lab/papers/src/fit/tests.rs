//! Fits to figures made by the model itself, so that the right answer is known, and to the built-in papers'
//! declarations.

use super::*;
use crate::papers::paper_ids;
use crate::predict::{PredictOptions, PredictTask, predict};
use raidlab_hosts::Hosts;

/// Rows of a network alone, which cost nothing to predict, published as a catalogue with `changes` has them.
fn made_up(changes: &[CatalogChange]) -> Paper {
    let mut paper = Paper::builtin("cdf-caf-2002").unwrap();
    paper.rows.retain(|row| row.workload == "cdf-memory-to-memory");
    let catalog = Catalog::builtin_with(changes).unwrap();
    let task = PredictTask {
        file: "made-up.csv",
        rows: &paper.rows,
        fitted_rows: &[],
        options: PredictOptions::from(&paper.method),
        catalog: &catalog,
        threads: NonZeroUsize::MIN,
        finds_bottleneck: false,
    };
    let predicted = predict(&task, &mut Hosts::alone(), &AtomicBool::new(false), &mut |_, _| {}).unwrap();
    for (row, predicted) in paper.rows.iter_mut().zip(predicted.rows) {
        row.value = predicted.comparison.predicted;
    }
    paper.method.fitted_rows = paper.rows.iter().step_by(2).map(|row| row.id.clone()).collect();
    paper
        .fit
        .parameters
        .retain(|parameter| ["sk-9843:send_call", "sk-9843:receive_packet"].contains(&&*parameter.keys[0]));
    assert_eq!(paper.fit.parameters.len(), 2);
    paper
}

fn change(key: &str, value: &str) -> CatalogChange {
    let [entry, key, value] = ["sk-9843", key, value].map(str::to_owned);
    CatalogChange { entry, key, value, source: None }
}

fn task(paper: &Paper, rounds: u32, threads: usize) -> FitTask<'_> {
    FitTask {
        paper,
        only: &[],
        changes: &[],
        effort: FitEffort::default(),
        rounds,
        scan: 0,
        check: true,
        threads: NonZeroUsize::new(threads).unwrap(),
    }
}

fn run(task: &FitTask<'_>) -> Result<Fit, FitError> {
    fit(task, &AtomicBool::new(false), &mut |_| {})
}

#[test]
fn values_that_the_figures_were_made_with_are_found() {
    let paper = made_up(&[change("send_call", "2.2 us"), change("receive_packet", "10 us")]);
    let found = run(&task(&paper, 30, 2)).unwrap();
    let value = |index: usize| {
        let text = &found.parameters[index].keys[0].value;
        text.strip_suffix(" us").unwrap().parse::<f64>().unwrap()
    };
    assert!((value(0) / 2.2_f64).ln().abs() < 0.03, "{:?}", found.parameters[0]);
    assert!((value(1) / 10.0_f64).ln().abs() < 0.03, "{:?}", found.parameters[1]);
    assert!(found.is_better() && found.objective_after < 0.001 && found.objective_before > 0.02, "{found:?}");
    let rows = [found.fitted.after.rows, found.not_fitted.after.rows];
    assert_eq!(rows, [5, 5]);
    assert!(found.not_fitted.after.median_abs_error_pct < found.not_fitted.before.median_abs_error_pct);
    let rise = |it: &FittedParameter| it.rise_5_pct_up.unwrap().max(it.rise_5_pct_down.unwrap());
    let rises = found.parameters.iter().map(rise);
    assert!(rises.clone().all(|rise| rise > 0.0), "{:?}", rises.collect::<Vec<_>>());
    assert!(found.not_searched.iter().any(|figure| figure.key == "receive_copy"));
}

#[test]
fn a_fit_does_not_depend_on_the_number_of_threads() {
    let paper = made_up(&[change("send_call", "2.2 us")]);
    assert_eq!(run(&task(&paper, 4, 1)).unwrap(), run(&task(&paper, 4, 3)).unwrap());
}

#[test]
fn rows_that_are_not_marked_have_no_part_in_it() {
    let mut paper = made_up(&[change("send_call", "2.2 us")]);
    let plain = run(&task(&paper, 6, 2)).unwrap();
    for row in &mut paper.rows {
        if !paper.method.fitted_rows.contains(&row.id) {
            row.value *= 7.0;
        }
    }
    assert_eq!(run(&task(&paper, 6, 2)).unwrap().parameters, plain.parameters);
}

#[test]
fn only_what_is_named_moves_and_no_rounds_move_nothing() {
    let paper = made_up(&[change("send_call", "2.2 us"), change("receive_packet", "10 us")]);
    let only = ["network/sk-9843.send_call".to_owned()];
    let found = run(&FitTask { only: &only, ..task(&paper, 8, 2) }).unwrap();
    assert_eq!(found.parameters.len(), 1);
    assert_ne!(found.parameters[0].keys[0].value, "1.3 us");
    let still = run(&task(&paper, 0, 2)).unwrap();
    assert!(still.changes().is_empty() && !still.is_better());
    assert_eq!(still.objective_before.to_bits(), still.objective_after.to_bits());

    let error = run(&FitTask { only: &["sk-9843:send".to_owned()], ..task(&paper, 1, 1) }).unwrap_err();
    assert!(error.to_string().contains("sk-9843:receive_packet"), "{error}");
    let mut none = paper.clone();
    none.method.fitted_rows.clear();
    assert!(matches!(run(&task(&none, 1, 1)), Err(FitError::NoRows { .. })));
}

#[test]
fn a_search_that_is_stopped_keeps_its_best() {
    let paper = made_up(&[change("send_call", "2.2 us"), change("receive_packet", "10 us")]);
    let cancel = AtomicBool::new(false);
    let mut stop = |progress: &FitProgress<'_>| {
        if progress.best < progress.start {
            cancel.store(true, Ordering::Relaxed);
        }
    };
    let found = fit(&task(&paper, 30, 1), &cancel, &mut stop).unwrap();
    assert!(found.stopped && !found.checked && found.is_better(), "{found:?}");
    assert!(found.residuals.iter().all(|row| row.fitted));
    let at_once = fit(&task(&paper, 3, 1), &AtomicBool::new(true), &mut |_| {});
    assert!(matches!(at_once, Err(FitError::Cancelled)));
}

#[test]
fn a_stored_fit_is_read_as_it_was_written() {
    let paper = made_up(&[change("send_call", "2.2 us")]);
    let found = run(&task(&paper, 4, 2)).unwrap();
    let text = found.as_file();
    let stored: StoredFit = raidlab_workload::toml_file::parse("fitted.toml", &text, 1).unwrap();
    assert_eq!(stored.changes(), found.changes());
    assert!(!stored.changes().is_empty());
    assert_eq!(stored.residuals.len(), found.residuals.len());
    let changed = Catalog::builtin_with(&stored.changes()).unwrap();
    let source = &changed.network("sk-9843").unwrap().sources;
    assert!(source.iter().any(|figure| figure.source == found.source()), "{source:?}");
    assert!(text.lines().all(|line| line.chars().count() < 220), "a line is too long to read");
}

#[test]
fn what_the_papers_declare_can_be_searched() {
    for id in paper_ids() {
        let paper = Paper::builtin(id).unwrap();
        let task = task(&paper, 1, 1);
        let catalog = Catalog::builtin();
        let figures = evaluate::figures_in_use(&task, &catalog).unwrap();
        let found = paper.fit.resolved(&figures).unwrap_or_else(|error| panic!("{id}: {error}"));
        assert!(!found.is_empty(), "{id} declares nothing");
        for parameter in &found {
            assert!(parameter.reason.len() > 10, "{id}: {} has bounds without a reason", parameter.name());
        }
    }
}
