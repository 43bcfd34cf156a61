//! Parallel readers as a table over the streams; Bonnie in the form of its own table.

use super::TerminalOptions;
use super::grid::{Grid, Group};
use crate::figures::three_digits;
use crate::programs::{
    BonnieStep, BonnieStepPhase, PublishedPoint, StreamsStep, bonnie_steps, streams_steps,
};
use raidlab_units::ByteCount;
use raidlab_workload::RunResult;
use raidlab_workload::program::{BonniePhase, ManyFilesPhase};

/// Prints the runs of parallel readers among `runs`, and the published figures `points`.
pub fn streams(runs: &[RunResult], points: &[PublishedPoint], options: TerminalOptions) -> String {
    let steps = streams_steps(runs);
    let repeated = steps.iter().any(|step| step.aggregate_mb_per_s.count > 1);
    let mut header = vec!["Target", "Streams", "MB/s"];
    header.extend(repeated.then_some("+- %"));
    header.extend(["delivered", "mean", "min", "max", "fairness", "CPU %", "machine %", "cached %"]);
    let first = header.iter().position(|name| *name == "mean").expect("it is there");
    let row = |step: &StreamsStep| {
        let optional = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), three_digits);
        let mut row =
            vec![step.target.clone(), step.streams.to_string(), three_digits(step.aggregate_mb_per_s.mean)];
        row.extend(repeated.then(|| three_digits(step.aggregate_mb_per_s.stddev_pct())));
        row.extend([
            three_digits(step.delivered_mb_per_s),
            three_digits(step.stream_mb_per_s_mean),
            three_digits(step.stream_mb_per_s_min),
            three_digits(step.stream_mb_per_s_max),
            format!("{:.3}", step.fairness),
            three_digits(step.cpu_pct),
            optional(step.machine_cpu_pct),
            optional(step.cached_share.map(|share| share * 100.0)),
        ]);
        row
    };
    let sections = steps.chunk_by(|a, b| a.target == b.target);
    let sections = sections.map(|section| section.iter().map(row).collect()).collect();
    let grid = Grid {
        groups: vec![Group { columns: first..first + 3, name: "MB/s a stream".into() }],
        ..Grid::plain(&header, 1, sections)
    };
    let mut text = grid.render(options);
    text += "\nMB/s: bytes of the timed reads by the mean time of one; delivered: all reads while any was timed, by that time.\n";
    text +=
        "CPU: of the readers, 100 % is one processor; machine: of all processors, whoever kept them busy.\n";
    text + &published(points, "Published, MB/s by streams", &|at| format!("{at}"), options)
}

/// Published figures: a row for each system, a column for each `at`.
fn published(
    points: &[PublishedPoint],
    title: &str,
    name_of: &dyn Fn(f64) -> String,
    options: TerminalOptions,
) -> String {
    if points.is_empty() {
        return String::new();
    }
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
        std::iter::once(name).chain(at.iter().map(figure)).collect()
    };
    let names: Vec<String> = at.iter().map(|at| name_of(*at)).collect();
    let header: Vec<&str> = std::iter::once(title).chain(names.iter().map(String::as_str)).collect();
    format!("\n{}", super::table(&header, 1, vec![systems.iter().map(row).collect()], options))
}

/// Columns of Bonnie's own table: the phase, and what stands above it.
const COLUMNS: [(BonniePhase, &str); 6] = [
    (BonniePhase::CharWrite, "putc"),
    (BonniePhase::BlockWrite, "write"),
    (BonniePhase::Rewrite, "rewrite"),
    (BonniePhase::CharRead, "getc"),
    (BonniePhase::BlockRead, "read"),
    (BonniePhase::Seeks, "seeks"),
];

/// Rows of the table of many files, and its columns.
const FILES_ROWS: [(&str, [ManyFilesPhase; 3]); 2] = [
    ("in order", [ManyFilesPhase::SeqCreate, ManyFilesPhase::SeqStat, ManyFilesPhase::SeqDelete]),
    ("random", [ManyFilesPhase::RandomCreate, ManyFilesPhase::RandomStat, ManyFilesPhase::RandomDelete]),
];
const FILES_COLUMNS: [&str; 3] = ["create", "stat", "delete"];

/// Prints the runs of Bonnie among `runs`: its table, that of many files where there are any, the spread over the rounds, and
/// the published figures `points`.
pub fn bonnie(runs: &[RunResult], points: &[PublishedPoint], options: TerminalOptions) -> String {
    let steps = bonnie_steps(runs);
    let mut text = table(&steps, options);
    if steps.iter().any(|step| step.phase(FILES_ROWS[0].1[0].name()).is_some()) {
        text += &format!("\n{}", files_table(&steps, options));
    }
    if steps.iter().any(|step| step.rounds > 1) {
        text += &format!("\n{}", spreads(&steps, options));
    }
    text += &published(points, "Published, MB/s by MB of file", &three_digits, options);
    text
}

/// The rate and the share of a processor of each phase that goes over the file: means over the rounds.
fn table(steps: &[BonnieStep], options: TerminalOptions) -> String {
    let lead = ["Target", "File", "% of RAM", "Rounds"];
    let row = |step: &BonnieStep| {
        let ratio = step.memory_pct().map_or_else(|| "-".to_owned(), three_digits);
        let size = ByteCount(step.file_bytes).decimal().to_string();
        let lead = [step.target.clone(), size, ratio, step.rounds.to_string()];
        let phases = COLUMNS.iter().map(|(phase, _)| step.phase(phase.name()));
        lead.into_iter().chain(phases.flat_map(rate_and_cpu)).collect()
    };
    let columns =
        COLUMNS.map(|(phase, title)| (title, if phase == BonniePhase::Seeks { "/s" } else { "KiB/s" }));
    let sections = steps.chunk_by(|a, b| a.target == b.target);
    let sections = sections.map(|section| section.iter().map(row).collect()).collect();
    with_groups(&lead, &columns, 1, sections).render(options)
}

/// The same of many files: a row for each order.
fn files_table(steps: &[BonnieStep], options: TerminalOptions) -> String {
    let row = |step: &BonnieStep, (order, phases): &(&str, [ManyFilesPhase; 3])| {
        let lead = [step.target.clone(), (*order).to_owned(), step.rounds.to_string()];
        let phases = phases.iter().map(|phase| step.phase(phase.name()));
        lead.into_iter().chain(phases.flat_map(rate_and_cpu)).collect()
    };
    let columns = FILES_COLUMNS.map(|title| (title, "files/s"));
    let sections = steps.iter().map(|step| FILES_ROWS.iter().map(|order| row(step, order)).collect());
    with_groups(&["Target", "Files", "Rounds"], &columns, 2, sections.collect()).render(options)
}

/// Rate and share of a processor, as cells.
fn rate_and_cpu(phase: Option<&BonnieStepPhase>) -> [String; 2] {
    phase.map_or(["-".to_owned(), "-".to_owned()], |phase| {
        [format!("{:.0}", phase.rate.mean), format!("{:.0}", phase.cpu_pct.mean)]
    })
}

/// A table whose columns after `lead` come in pairs, a rate and a share of a processor, under a title each.
fn with_groups(
    lead: &[&str],
    columns: &[(&str, &str)],
    first_number: usize,
    sections: Vec<Vec<Vec<String>>>,
) -> Grid {
    let mut header = lead.to_vec();
    header.extend(columns.iter().flat_map(|(_, unit)| [*unit, "CPU %"]));
    let group = |(index, (title, _)): (usize, &(&str, &str))| {
        let first = lead.len() + 2 * index;
        Group { columns: first..first + 2, name: (*title).to_owned() }
    };
    let groups = columns.iter().enumerate().map(group).collect();
    Grid { groups, gap: 1, ..Grid::plain(&header, first_number, sections) }
}

/// The spread of each phase over the rounds.
fn spreads(steps: &[BonnieStep], options: TerminalOptions) -> String {
    let row = |step: &BonnieStep, phase: &BonnieStepPhase| {
        vec![
            step.target.clone(),
            ByteCount(step.file_bytes).decimal().to_string(),
            phase.name.clone(),
            phase.unit().to_owned(),
            phase.rate.count.to_string(),
            format!("{:.0}", phase.rate.mean),
            format!("{:.0}", phase.rate.stddev),
            three_digits(phase.rate.stddev_pct()),
            phase.rate.ci95_half.map_or_else(|| "-".to_owned(), |half| format!("{half:.0}")),
            three_digits(phase.cpu_pct.mean),
            three_digits(phase.cpu_pct.stddev),
        ]
    };
    let header = [
        "Target", "File", "Phase", "Unit", "Rounds", "mean", "stdev", "stdev %", "95 % +-", "CPU %", "stdev",
    ];
    let section = |step: &BonnieStep| step.phases.iter().map(|phase| row(step, phase)).collect();
    super::table(&header, 4, steps.iter().map(section).collect(), options)
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
