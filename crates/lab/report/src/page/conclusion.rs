//! Conclusions from the figures, in sentences, each with its reason.
//!
//! If arrays were judged, the answer at the top has the conclusion. Otherwise it is about the loads: how far throughput
//! rises with the requests in flight, the latency that this costs, and where it stops being worthwhile.

use crate::document::{Block, Span, Text};
use crate::figures::{Column, three_digits};
use crate::matrix::Matrix;
use raidlab_advisor::Verdict;
use raidlab_workload::{OfferedLoad, RunResult};

/// Share of the highest throughput from which on more requests in flight are said to be of no use.
const ENOUGH: f64 = 0.9;

/// The part; none where there is nothing to conclude.
pub(super) fn section(matrix: &Matrix, verdicts: &[Verdict]) -> Option<Block> {
    let mut items = Vec::new();
    for profile in 0..matrix.profiles.len() {
        let is_judged = verdicts.iter().any(|verdict| verdict.workload == matrix.profiles[profile].workload);
        if !is_judged {
            items.extend(of_loads(matrix, profile));
        }
    }
    (!items.is_empty()).then(|| Block::section("conclusion", "Conclusion", vec![Block::List(items)]))
}

/// A sentence for each configuration of a profile.
fn of_loads(matrix: &Matrix, profile: usize) -> Vec<Text> {
    let column = Column::judging(matrix.profiles[profile].metric);
    let mut items = Vec::new();
    for (side, names) in matrix.sides.iter().enumerate() {
        for configuration in 0..matrix.configurations.len() {
            let runs = matrix.line(profile, configuration, side);
            if let Some(text) = of_line(&runs, column) {
                let head = format!(
                    "{}, {} ({}).",
                    matrix.profiles[profile].workload,
                    matrix.full_name(configuration),
                    names.name()
                );
                items.push(Text::strong(head).and(Span::Plain(format!(" {text}"))));
            }
        }
    }
    items
}

/// What the runs of a line, by ascending load, say; none where nothing was moved.
fn of_line(runs: &[&RunResult], column: Column) -> Option<String> {
    let moved: Vec<&&RunResult> = runs.iter().filter(|run| column.value(run) > 0.0).collect();
    let figure = |run: &RunResult, of: Column| format!("{} {}", three_digits(of.value(run)), of.unit());
    let (first, last) = (moved.first()?, moved.last()?);
    // How many accelerators are fed, and what their checkpoint costs, is said above.
    if matches!(last.offered_load(), OfferedLoad::Accelerators(_)) || last.checkpoint_of().is_some() {
        return None;
    }
    if first.offered_load() == last.offered_load() {
        let latencies =
            [("a mean latency of", Column::LatMean), ("99 % of the requests within", Column::LatP99)]
                .into_iter()
                .filter(|(_, of)| of.is_known(first))
                .map(|(words, of)| format!("{words} {}", figure(first, of)))
                .collect::<Vec<_>>();
        let with =
            if latencies.is_empty() { String::new() } else { format!(", with {}", latencies.join(" and ")) };
        return Some(format!("{} at {}{with}.", figure(first, column), first.offered_load()));
    }
    let latency = |before: &str, run: &RunResult| {
        let known = Column::LatMean.is_known(run).then(|| figure(run, Column::LatMean));
        known.map_or_else(String::new, |ms| format!("{before} {ms}"))
    };
    let best = moved.iter().max_by(|a, b| column.value(a).total_cmp(&column.value(b)))?;
    let highest = column.value(best);
    let enough = moved.iter().find(|run| column.value(run) >= ENOUGH * highest)?;
    let (low, high) = (first.offered_load().value(), last.offered_load().value());
    let loads = match last.offered_load() {
        OfferedLoad::Rate(_) => format!("{low} to {high} requests/s"),
        load => format!("{} {low} to {high}", load.name()),
    };
    let mut text =
        format!("From {loads} throughput goes from {} to {}", figure(first, column), figure(last, column));
    if moved.iter().all(|run| Column::LatMean.is_known(run)) {
        let [low, high] = [first, last].map(|run| figure(run, Column::LatMean));
        text += &format!(", and mean latency from {low} to {high}");
    }
    text.push('.');
    // More is not in flight for being asked for.
    if let OfferedLoad::Rate(_) = last.offered_load() {
        return Some(text);
    }
    text += &if column.value(last) < ENOUGH * highest {
        format!(
            " The most is {} at iodepth {}{}: more requests in flight get less, or something else was at work.",
            figure(best, column),
            best.iodepth,
            latency(", with", best)
        )
    } else if enough.iodepth < last.iodepth {
        format!(
            " Iodepth {} already gets {} of it{}: more requests in flight only make each wait longer.",
            enough.iodepth,
            percent(column.value(enough) / highest),
            latency(" at", enough)
        )
    } else {
        format!(" It still rises at iodepth {}: a deeper queue may get more.", last.iodepth)
    };
    Some(text)
}

fn percent(share: f64) -> String {
    format!("{:.0} %", 100.0 * share)
}

#[cfg(test)]
mod tests {
    use super::of_line;
    use crate::figures::Column;
    use raidlab_units::Iops;
    use raidlab_workload::{Metric, RunResult, World};

    fn line(figures: &[(u32, f64, f64)]) -> Option<String> {
        let runs: Vec<RunResult> = figures
            .iter()
            .map(|(iodepth, iops, lat_ms)| {
                let mut run = RunResult::unmeasured(World::Measured, "a".into(), "x".into(), Metric::Iops);
                run.iodepth = *iodepth;
                run.ops.total.iops = Iops(*iops);
                run.ops.total.lat_ns_mean = lat_ms * 1e6;
                run
            })
            .collect();
        of_line(&runs.iter().collect::<Vec<_>>(), Column::Iops)
    }

    #[test]
    fn the_sentence_says_from_where_on_a_deeper_queue_is_of_no_use() {
        let knee = line(&[(1, 100.0, 10.0), (8, 950.0, 8.0), (64, 1000.0, 64.0)]).unwrap();
        assert!(
            knee.contains("from 100 IOPS to 1000 IOPS") && knee.contains("Iodepth 8 already gets 95 %"),
            "{knee}"
        );
        let rising = line(&[(1, 100.0, 10.0), (2, 200.0, 10.0)]).unwrap();
        assert!(rising.contains("still rises at iodepth 2"), "{rising}");
        let falling = line(&[(1, 100.0, 10.0), (8, 900.0, 8.0), (64, 500.0, 64.0)]).unwrap();
        assert!(falling.contains("The most is 900 IOPS at iodepth 8, with 8.00 ms"), "{falling}");
        assert!(!falling.contains("100 %"), "{falling}");
        let only = line(&[(4, 100.0, 10.0)]).unwrap();
        assert_eq!(only, "100 IOPS at iodepth 4, with a mean latency of 10.0 ms.");
        assert_eq!(line(&[(0, 100.0, 0.0)]).unwrap(), "100 IOPS at an unknown iodepth.");
        let without = line(&[(1, 100.0, 0.0), (8, 950.0, 0.0), (64, 1000.0, 0.0)]).unwrap();
        assert!(!without.contains("ms") && !without.contains("latency"), "{without}");
        assert_eq!(line(&[(1, 0.0, 0.0)]), None);
    }
}
