//! Fits of the papers: what is kept is what the catalogue has, and a search over real simulations does what it says.

use super::*;
use crate::papers::paper_ids;
use raidlab_units::NanoSpan;

fn parameter(keys: &[&str], unit: &str, (from, to): (f64, f64), rows: &[&str]) -> FitParameter {
    FitParameter {
        entries: vec!["perc-h800".into()],
        keys: keys.iter().map(|key| (*key).to_owned()).collect(),
        unit: unit.into(),
        from,
        to,
        whole: false,
        rows: rows.iter().map(|row| (*row).to_owned()).collect(),
    }
}

/// One figure that the host link limits, simulated briefly.
fn small_paper(parameters: Vec<FitParameter>) -> Paper {
    let mut paper = Paper::builtin("md1200-2011").unwrap();
    paper.rows.retain(|row| row.id == "md1200.t12.r5.md1200.ssd" || row.id == "md1200.t12.r10.md1200.ssd");
    paper.method.ramp_write_through = NanoSpan::from_millis(20);
    paper.method.run = NanoSpan::from_millis(80);
    paper.method.fit = Some(FitMethod { trials: NonZeroU32::new(12).unwrap(), parameters });
    paper
}

const ROW: &str = "md1200.t12.r5.md1200.ssd";

fn fit(paper: &Paper, threads: usize, trials: u32, cancelled: bool) -> Result<FitOutcome, FitError> {
    let fit = Fit::new(paper, NonZeroUsize::new(threads).unwrap())?;
    fit.run(trials, &AtomicBool::new(cancelled), &mut |_| {})
}

#[test]
fn the_catalogue_has_the_values_of_every_kept_fit() {
    let mut checked = 0;
    for id in paper_ids() {
        let paper = Paper::builtin(id).unwrap();
        assert_eq!(
            paper.method.fit.is_some(),
            paper.kept_fit.is_some(),
            "{id}: what is free is fitted, and kept"
        );
        let (Some(method), Some(kept)) = (&paper.method.fit, &paper.kept_fit) else { continue };
        Fit::new(&paper, NonZeroUsize::MIN).unwrap();
        kept.check(method).unwrap_or_else(|error| panic!("{id}: {error}"));
        let marked = |row: &&String| {
            paper.method.fitted_rows.contains(row)
                || paper.method.claims.as_ref().is_some_and(|claims| claims.fitted.contains(row))
        };
        let unmarked: Vec<_> = method
            .parameters
            .iter()
            .flat_map(|parameter| &parameter.rows)
            .filter(|row| !marked(row))
            .collect();
        assert!(unmarked.is_empty(), "{id}: fitted to, but not counted as fitted: {unmarked:?}");
        checked += 1;
    }
    assert!(checked > 0);
}

#[test]
fn a_fit_gets_nearer_and_is_the_same_on_any_number_of_threads() {
    let paper = small_paper(vec![parameter(&["host_link.rate"], "GB/s", (0.2, 0.5), &[ROW])]);
    let found = fit(&paper, 1, 6, false).unwrap();
    let (before, after) = found.error_pct;
    assert!(after <= before, "{before} to {after}");
    // All but how long the simulations took.
    let again = fit(&paper, 3, 6, false).unwrap();
    assert_eq!(
        (&found.values, found.error_pct, found.trials),
        (&again.values, again.error_pct, again.trials)
    );
    let residuals = |found: &FitOutcome| found.after.residuals(&[ROW.to_owned()]);
    assert_eq!(residuals(&found), residuals(&again));
    let kept = StoredFit::of("md1200-2011", 1, paper.method.fit.as_ref().unwrap(), &[ROW.to_owned()], &found);
    assert_eq!(StoredFit::parse("fit.toml", &kept.to_toml()).unwrap(), kept);
    let flags: Vec<bool> = kept.residuals.iter().map(|residual| residual.fitted).collect();
    assert_eq!(flags, [true, false], "rows that nothing is fitted to are kept as well");
}

#[test]
fn a_fit_that_is_stopped_at_once_says_so() {
    let paper = small_paper(vec![parameter(&["host_link.rate"], "GB/s", (0.2, 0.5), &[ROW])]);
    assert!(matches!(fit(&paper, 1, 6, true), Err(FitError::Predict(PredictError::Cancelled))));
}

#[test]
fn what_can_t_be_fitted_is_named() {
    let error =
        |parameter: FitParameter| fit(&small_paper(vec![parameter]), 1, 2, false).unwrap_err().to_string();
    let bounds = (1.0, 10.0);
    assert!(
        error(parameter(&["host_link.rate"], "GB/s", bounds, &["t99"])).contains("no row or claim 't99'")
    );
    assert!(error(parameter(&["host_link.rat"], "GB/s", bounds, &[ROW])).contains("did you mean 'rate'?"));
    assert!(error(parameter(&["host_link.rate"], "us", bounds, &[ROW])).contains("not in 'us'"));
    assert!(error(parameter(&[], "us", bounds, &[ROW])).contains("has no key"));
    let differing = ["host_link.per_transfer", "copy.per_task"];
    assert!(error(parameter(&differing, "us", bounds, &[ROW])).contains("differs from the other keys"));
    let mut paper = small_paper(Vec::new());
    paper.method.fit = None;
    assert!(fit(&paper, 1, 2, false).unwrap_err().to_string().contains("has nothing to fit"));
}

#[test]
fn values_are_such_as_the_catalogue_can_hold() {
    let mut free = parameter(&[], "us", (0.05, 2000.0), &[]);
    for (value, written) in
        [(6.3999, "6.4 us"), (0.123_45, "0.123 us"), (1234.0, "1230 us"), (0.001, "0.05 us")]
    {
        assert_eq!(free.written(free.rounded(value)), written);
    }
    free.whole = true;
    free.unit = String::new();
    assert_eq!(free.written(free.rounded(7.4)), "7");
}

#[test]
fn a_kept_fit_that_differs_is_refused() {
    let rate = Catalog::builtin_value("perc-h800", "host_link.rate").unwrap();
    let method = FitMethod {
        trials: NonZeroU32::MIN,
        parameters: vec![parameter(&["host_link.rate"], "GB/s", (0.2, 9.0), &[ROW])],
    };
    let kept = |value: &str, row: &str| StoredFit {
        schema: 1,
        paper: "md1200-2011".into(),
        seed: 1,
        trials: 1,
        is_complete: true,
        error_before_pct: 1.0,
        error_pct: 1.0,
        parameters: vec![StoredParameter {
            entries: vec!["perc-h800".into()],
            keys: vec!["host_link.rate".into()],
            value: value.into(),
            before: value.into(),
        }],
        residuals: vec![StoredResidual {
            id: row.into(),
            published: 1.0,
            predicted: 1.0,
            error_pct: 0.0,
            fitted: true,
        }],
    };
    kept(&rate, ROW).check(&method).unwrap();
    assert!(matches!(kept("0.1 GB/s", ROW).check(&method), Err(StoredFitError::Differs { .. })));
    assert!(matches!(kept(&rate, "t99").check(&method), Err(StoredFitError::OtherRows { .. })));
    let none = FitMethod { trials: NonZeroU32::MIN, parameters: Vec::new() };
    assert!(matches!(kept(&rate, ROW).check(&none), Err(StoredFitError::OtherParameters { .. })));
}
