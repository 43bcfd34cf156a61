//! What set the pace of each predicted figure, where `--bottleneck on` asks for it.
//!
//! A figure of raw volumes has the bottleneck of its configuration; a claim, one for each side and workload. Files, servers and
//! networks have none: what sets their pace is not looked for.

use raidlab_papers::{ClaimPrediction, PredictedClaim, PredictedConfiguration, PredictedRow, Prediction};
use std::collections::BTreeSet;

/// A line for each figure.
pub(super) fn of_rows_text(prediction: &Prediction) -> String {
    let line = |row: &PredictedRow| {
        let facts = prediction.configurations[row.configuration].result.bottleneck.as_ref()?;
        Some(format!("  bottleneck of {}: {}\n", row.comparison.id, facts.sentence()))
    };
    prediction.rows.iter().filter_map(line).collect()
}

/// What set the pace of a figure.
pub(super) fn of_row(row: &PredictedRow, prediction: &Prediction) -> Option<String> {
    names(&prediction.configurations, &[row.configuration])
}

/// A line for each claim and workload.
pub(super) fn of_claims_text(claims: &ClaimPrediction) -> String {
    let lines = claims.claims.iter().flat_map(|claim| {
        let parts = of_claim(claim, &claims.configurations).into_iter();
        parts.map(|part| format!("  bottleneck of {}, {part}\n", claim.row.id))
    });
    lines.collect()
}

/// What set the pace of both sides of each workload of `claim`.
fn of_claim(claim: &PredictedClaim, configurations: &[PredictedConfiguration]) -> Vec<String> {
    let part = |part: &raidlab_papers::ClaimPart| {
        let a = names(configurations, &part.a_configurations)?;
        let b = names(configurations, &part.b_configurations).map_or(String::new(), |b| format!("; B: {b}"));
        Some(format!("{}: A: {a}{b}", part.workload))
    };
    claim.parts.iter().filter_map(part).collect()
}

/// The bottlenecks of some configurations, each once: those of one side differ in their seeds alone.
fn names(configurations: &[PredictedConfiguration], of: &[usize]) -> Option<String> {
    let named = of.iter().filter_map(|index| configurations[*index].result.bottleneck.as_ref());
    let names: BTreeSet<&str> = named.map(|facts| facts.name.as_str()).collect();
    (!names.is_empty()).then(|| names.into_iter().collect::<Vec<_>>().join(" or "))
}
