//! Runs of programs on files: parallel readers, Bonnie.

use super::TerminalOptions;
use crate::document::{Block, Table, render};
use crate::figures::three_digits;
use crate::program_tables::{self as tables, STREAMS_EXPLANATION};
use crate::programs::{PublishedPoint, bonnie_steps, streams_steps};
use raidlab_workload::RunResult;

/// Prints the runs of parallel readers among `runs`, and the published figures `points`.
pub fn streams(runs: &[RunResult], points: &[PublishedPoint], options: TerminalOptions) -> String {
    let mut blocks = vec![Block::table(tables::streams(&streams_steps(runs)))];
    blocks.extend(STREAMS_EXPLANATION.map(Block::paragraph));
    blocks.extend(published(points, "Published, MB/s by streams", &|at| format!("{at}")));
    render(blocks, options)
}

/// Prints the runs of Bonnie among `runs`: its table, that of many files where there are any, the spread over the rounds, and
/// the published figures `points`.
pub fn bonnie(runs: &[RunResult], points: &[PublishedPoint], options: TerminalOptions) -> String {
    let steps = bonnie_steps(runs);
    let mut blocks = vec![Block::table(tables::bonnie(&steps))];
    blocks.extend(tables::many_files(&steps).map(Block::table));
    if steps.iter().any(|step| step.rounds > 1) {
        blocks.push(Block::table(tables::spreads(&steps)));
    }
    blocks.extend(published(points, "Published, MB/s by MB of file", &three_digits));
    render(blocks, options)
}

/// Published figures: a row for each system, a column for each `at`.
fn published(points: &[PublishedPoint], title: &str, name_of: &dyn Fn(f64) -> String) -> Option<Block> {
    let rates: Vec<&PublishedPoint> = points.iter().filter(|point| !point.is_cpu_pct).collect();
    let mut at: Vec<f64> = rates.iter().map(|point| point.at).collect();
    at.sort_by(f64::total_cmp);
    at.dedup();
    let mut systems: Vec<(&str, &str)> = Vec::new();
    for point in &rates {
        let key = (point.phase.as_str(), point.system.as_str());
        if !systems.contains(&key) {
            systems.push(key);
        }
    }
    let row = |(phase, system): &(&str, &str)| {
        let figure = |at: &f64| {
            let found = rates
                .iter()
                .find(|point| point.phase == *phase && point.system == *system && point.at == *at);
            found.map_or_else(|| "-".to_owned(), |point| three_digits(point.value))
        };
        let name = if phase.is_empty() { (*system).to_owned() } else { format!("{phase} {system}") };
        std::iter::once(name).chain(at.iter().map(figure)).collect::<Vec<_>>()
    };
    let names: Vec<String> = at.iter().map(|at| name_of(*at)).collect();
    let header: Vec<&str> = std::iter::once(title).chain(names.iter().map(String::as_str)).collect();
    let table = Table::plain("Published", &header, 1).section(systems.iter().map(row));
    (!points.is_empty()).then(|| Block::table(table))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::programs::tests::{bonnie_run, streams_run};

    const OPTIONS: TerminalOptions = TerminalOptions { width: 110, colour: false };

    #[test]
    fn streams_have_a_row_for_each_step() {
        let runs = [streams_run("a", &[10]), streams_run("a", &[10, 30])];
        let point = |at, value| PublishedPoint {
            system: "asa".into(),
            phase: String::new(),
            at,
            value,
            is_cpu_pct: false,
        };
        let text = streams(&runs, &[point(1.0, 42.0), point(60.0, 50.0)], OPTIONS);
        let cells = |start: &[&str]| -> Vec<String> {
            let mut lines = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
            let line = lines.find(|line| line.starts_with(start)).expect("a row that starts so");
            line.into_iter().map(str::to_owned).collect()
        };
        // 2 MB by (1/10 + 1/30) / 2 s; the rates of 10 and 30 have an index of 40^2 / (2 * 1000).
        assert_eq!(cells(&["a", "2"])[2..8], ["30.0", "50.0", "20.0", "10.0", "30.0", "0.800"]);
        assert_eq!(cells(&["asa"]), ["asa", "42.0", "50.0"]);
        assert!(!text.contains("+- %"), "there was no repeat");
    }

    #[test]
    fn bonnie_has_its_own_table_and_spreads_where_there_are_rounds() {
        let one = bonnie(&[bonnie_run("a", 100, 1_000)], &[], OPTIONS);
        assert!(one.contains(" rewrite ") && !one.contains("stdev"), "{one}");
        assert!(
            one.lines().any(|line| line.split_whitespace().eq([
                "a", "105", "MB", "25.0", "1", "1000", "25", "1000", "25", "1000", "25", "1000", "25",
                "1000", "25", "39", "25"
            ])),
            "{one}"
        );
        let two = bonnie(&[bonnie_run("a", 100, 1_000), bonnie_run("a", 100, 2_000)], &[], OPTIONS);
        let line = two.lines().find(|line| line.contains(" block-write ")).expect("its spread");
        assert!(line.contains("1500") && line.contains("707") && line.contains("47.1"), "{line}");
    }
}
