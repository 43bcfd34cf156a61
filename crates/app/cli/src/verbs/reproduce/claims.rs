//! The relative claims of a paper in `raidlab reproduce`, as text.

use crate::output::Output;
use raidlab_papers::{ClaimPrediction, PredictedClaim};

/// Every claim with its verdict, and what they amount to.
pub(super) fn table(prediction: &ClaimPrediction, output: &Output) -> String {
    let rows = prediction.claims.iter().map(|claim| (&claim.row, note(claim)));
    raidlab_report::terminal::claims(rows, &prediction.summary, output.terminal())
}

/// The workloads' own ratios where there are several, and what else to know.
fn note(claim: &PredictedClaim) -> String {
    let ratios: Vec<String> = claim.parts.iter().map(|part| format!("{:.2}", part.predicted)).collect();
    let parts = (ratios.len() > 1).then(|| ratios.join(" "));
    let fitted = claim.fitted.then(|| "fitted".to_owned());
    let unexplained = claim.unexplained.as_ref().map(|_| "unexplained".to_owned());
    parts.into_iter().chain(fitted).chain(unexplained).collect::<Vec<_>>().join(", ")
}

/// Which claims something was fitted to, how the others do, and what no mechanism explains.
pub(super) fn fit_text(prediction: &ClaimPrediction) -> String {
    let fitted = prediction.claims.iter().filter(|claim| claim.fitted).count();
    let rest = &prediction.summary_not_fitted;
    let mut text = match (fitted, rest.errors.median_abs_error_pct) {
        (0, _) => "Nothing was fitted to any of these claims.\n".to_owned(),
        (count, Some(median)) => format!(
            "{count} claims were used to fit the model; of the {} others {} are within 10 %, {} more in the right \
             direction, {} missed; their median absolute error is {median:.1} %.\n",
            rest.claims, rest.within, rest.direction, rest.missed
        ),
        (_, None) => {
            "All of these claims were used to fit the model, so their errors prove nothing.\n".to_owned()
        }
    };
    text.extend(prediction.claims.iter().filter_map(|claim| {
        let reason = claim.unexplained.as_ref()?;
        Some(format!("  unexplained: {}: {reason}\n", claim.row.id))
    }));
    text + &super::fitted_figures_text(&prediction.fitted_figures)
}
