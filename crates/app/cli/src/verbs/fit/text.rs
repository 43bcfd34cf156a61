//! A fit in words: the numbers with what depends on them, the fitted rows, and the check on the others.

use crate::output::Output;
use raidlab_papers::{BeforeAfter, Fit, FittedFigure, FittedParameter, Residual};
use raidlab_report::terminal::{broken, table};
use raidlab_units::counted;

/// Rows that were not fitted to and are shown: those that the fit changed most.
const CHANGED_SHOWN: usize = 10;

/// The whole fit.
pub(super) fn of(found: &Fit, is_dry: bool, output: &Output) -> String {
    let mut text = numbers(found, output);
    text += &("\n".to_owned() + &residuals(found, output) + "\n");
    let width = output.terminal().width;
    text += &broken(&summaries(found), width);
    text += &check(found, output);
    let at_bound = found.parameters.iter().filter(|parameter| parameter.at_bound);
    for it in at_bound {
        text += &broken(&format!("  at its bound: {}: {}", it.keys[0].entry, it.reason), width);
    }
    text += &broken(&not_searched(found), width);
    if is_dry {
        text += "Nothing was searched and nothing is stored.\n";
    }
    text
}

/// Fitted figures of the hardware that stayed out of it, a line for each entry.
fn not_searched(found: &Fit) -> String {
    let entries = found.not_searched.chunk_by(|a, b| a.entry == b.entry);
    let line = |entry: &[FittedFigure]| {
        let keys: Vec<String> = entry.iter().map(|it| format!("{} = {}", it.key, it.value)).collect();
        format!("  not searched: {}: {}\n", entry[0].entry, keys.join(", "))
    };
    entries.map(line).collect()
}

const COLUMNS: &str = "Columns +5 % and -5 %: how much the objective rises, in thousandths, if the number is so much higher or lower.";

fn numbers(found: &Fit, output: &Output) -> String {
    let rows = found.parameters.iter().flat_map(number).collect();
    let header = ["Figure", "Was", "Is", "Least", "Most", "+5 %", "-5 %"];
    table(&header, 1, vec![rows], output.terminal()) + &broken(COLUMNS, output.terminal().width)
}

fn number(parameter: &FittedParameter) -> Vec<Vec<String>> {
    let rise = |rise: Option<f64>| rise.map_or("-".to_owned(), |rise| format!("{:+.2}", rise * 1e3));
    let row = |(index, key): (usize, &raidlab_papers::FittedKey)| {
        let mut row = vec![format!("{}:{}", key.entry, key.key), key.was.clone(), key.value.clone()];
        let more = [
            parameter.low.clone(),
            parameter.high.clone(),
            rise(parameter.rise_5_pct_up),
            rise(parameter.rise_5_pct_down),
        ];
        row.extend(more.map(|cell| if index == 0 { cell } else { String::new() }));
        row
    };
    parameter.keys.iter().enumerate().map(row).collect()
}

/// The rows that were fitted to.
fn residuals(found: &Fit, output: &Output) -> String {
    let rows = found.residuals.iter().filter(|row| row.fitted).map(residual).collect();
    table(&RESIDUAL, 1, vec![rows], output.terminal())
}

const RESIDUAL: [&str; 6] = ["Fitted to", "Published", "Before", "After", "Before %", "After %"];

fn residual(row: &Residual) -> Vec<String> {
    let error = |predicted: f64| format!("{:+.1}", 100.0 * (predicted - row.published) / row.published);
    let figures = [row.published, row.before, row.after].map(digits);
    core::iter::once(row.id.clone()).chain(figures).chain([error(row.before), error(row.after)]).collect()
}

fn digits(value: f64) -> String {
    if value < 100.0 { format!("{value:.2}") } else { format!("{value:.0}") }
}

fn summaries(found: &Fit) -> String {
    let text = format!(
        "objective (mean of Huber's function of |ln(predicted / published)|): {:.4} before, {:.4} after, {}, {}{}\n",
        found.objective_before,
        found.objective_after,
        counted(found.rounds, "round"),
        counted(found.simulations, "simulation"),
        if found.stopped { ", stopped" } else { "" }
    );
    let text = text + &summary("fitted rows", &found.fitted);
    let others = summary("rows that were not looked at", &found.not_fitted);
    let check = if found.checked {
        format!("{others}{} rows do not depend on these figures.\n", found.rows_untouched)
    } else {
        "The other rows were not checked, and these are figures of the search's own windows.\n".to_owned()
    };
    text + &check
}

fn summary(of: &str, errors: &BeforeAfter) -> String {
    let figure = |pct: Option<f64>| pct.map_or("none".to_owned(), |pct| format!("{pct:.1} %"));
    let BeforeAfter { before, after } = errors;
    format!(
        "{of}: {}; median absolute error {} before, {} after; 90th percentile {} before, {} after\n",
        before.rows,
        figure(before.median_abs_error_pct),
        figure(after.median_abs_error_pct),
        figure(before.p90_abs_error_pct),
        figure(after.p90_abs_error_pct)
    )
}

/// The rows that were not fitted to and changed most.
fn check(found: &Fit, output: &Output) -> String {
    let change = |row: &Residual| (row.after / row.before).ln().abs();
    let mut changed: Vec<&Residual> =
        found.residuals.iter().filter(|row| !row.fitted && change(row) > 0.005).collect();
    if changed.is_empty() {
        return String::new();
    }
    changed.sort_by(|a, b| change(b).total_cmp(&change(a)));
    let rows = changed.iter().take(CHANGED_SHOWN).map(|row| residual(row)).collect();
    let header = ["Changed most, not looked at", "Published", "Before", "After", "Before %", "After %"];
    format!("\n{}", table(&header, 1, vec![rows], output.terminal()))
}
