//! Tables of programs on files: parallel readers over the streams, Bonnie in the form of its own table.

use crate::document::{Column, Table};
use crate::figures::three_digits;
use crate::programs::{BonnieStep, BonnieStepPhase, StreamsStep};
use raidlab_units::ByteCount;
use raidlab_workload::program::{BonniePhase, ManyFilesPhase};

/// What the rates of [`streams`] are.
pub(crate) const STREAMS_EXPLANATION: [&str; 2] = [
    "MB/s: bytes of the timed reads by the mean time of one; delivered: all reads while any was timed, by that time.",
    "CPU: of the readers, 100 % is one processor; machine: of all processors, whoever kept them busy.",
];

/// Parallel readers, a row for each number of streams.
pub(crate) fn streams(steps: &[StreamsStep]) -> Table {
    let repeated = steps.iter().any(|step| step.aggregate_mb_per_s.count > 1);
    let mut columns = vec![Column::text("Target"), Column::number("Streams")];
    columns.extend(repeated.then(|| Column::number("Repeats").detail()));
    columns.push(Column::number("MB/s"));
    columns.extend(repeated.then(|| Column::number("+- %")));
    let first = columns.len() + 1;
    let rest = ["delivered", "mean", "min", "max", "fairness", "CPU %", "machine %", "cached %"];
    columns.extend(rest.map(Column::number));
    columns.push(Column::number("overlap %").detail());
    let row = |step: &StreamsStep| {
        let optional = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), three_digits);
        let spread = step.aggregate_mb_per_s;
        let mut row = vec![step.target.clone(), step.streams.to_string()];
        row.extend(repeated.then(|| spread.count.to_string()));
        row.push(three_digits(spread.mean));
        row.extend(repeated.then(|| three_digits(spread.stddev_pct())));
        row.extend([
            three_digits(step.delivered_mb_per_s),
            three_digits(step.stream_mb_per_s_mean),
            three_digits(step.stream_mb_per_s_min),
            three_digits(step.stream_mb_per_s_max),
            format!("{:.3}", step.fairness),
            three_digits(step.cpu_pct),
            optional(step.machine_cpu_pct),
            optional(step.cached_share.map(|share| share * 100.0)),
            format!("{:.1}", step.overlap * 100.0),
        ]);
        row
    };
    let table = Table::new("Parallel readers", columns).group(first..first + 3, "MB/s a stream");
    steps
        .chunk_by(|a, b| a.target == b.target)
        .fold(table, |table, steps| table.section(steps.iter().map(row)))
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

/// The rate and the share of a processor of each phase that goes over the file: means over the rounds.
pub(crate) fn bonnie(steps: &[BonnieStep]) -> Table {
    let lead = ["Target", "File", "% of RAM", "Rounds"];
    let row = |step: &BonnieStep| {
        let ratio = step.memory_pct().map_or_else(|| "-".to_owned(), three_digits);
        let size = ByteCount(step.file_bytes).decimal().to_string();
        let lead = [step.target.clone(), size, ratio, step.rounds.to_string()];
        let phases = COLUMNS.iter().map(|(phase, _)| step.phase(phase.name()));
        lead.into_iter().chain(phases.flat_map(rate_and_cpu)).collect::<Vec<_>>()
    };
    let columns =
        COLUMNS.map(|(phase, title)| (title, if phase == BonniePhase::Seeks { "/s" } else { "KiB/s" }));
    let table = with_groups("Bonnie", &lead, &columns, 1);
    steps
        .chunk_by(|a, b| a.target == b.target)
        .fold(table, |table, steps| table.section(steps.iter().map(row)))
}

/// The same of many files: a row for each order; none where none were made.
pub(crate) fn many_files(steps: &[BonnieStep]) -> Option<Table> {
    steps.iter().find_map(|step| step.phase(FILES_ROWS[0].1[0].name()))?;
    let row = |step: &BonnieStep, (order, phases): &(&str, [ManyFilesPhase; 3])| {
        let lead = [step.target.clone(), (*order).to_owned(), step.rounds.to_string()];
        let phases = phases.iter().map(|phase| step.phase(phase.name()));
        lead.into_iter().chain(phases.flat_map(rate_and_cpu)).collect::<Vec<_>>()
    };
    let columns = FILES_COLUMNS.map(|title| (title, "files/s"));
    let table = with_groups("Bonnie, many files", &["Target", "Files", "Rounds"], &columns, 2);
    let rows = |step| FILES_ROWS.iter().map(move |order| row(step, order));
    Some(steps.iter().fold(table, |table, step| table.section(rows(step))))
}

/// Rate and share of a processor, as cells.
fn rate_and_cpu(phase: Option<&BonnieStepPhase>) -> [String; 2] {
    phase.map_or(["-".to_owned(), "-".to_owned()], |phase| {
        [format!("{:.0}", phase.rate.mean), format!("{:.0}", phase.cpu_pct.mean)]
    })
}

/// A table whose columns after `lead` come in pairs, a rate and a share of a processor, under a title each.
fn with_groups(label: &str, lead: &[&str], columns: &[(&str, &str)], first_number: usize) -> Table {
    let mut header = lead.to_vec();
    header.extend(columns.iter().flat_map(|(_, unit)| [*unit, "CPU %"]));
    let table = Table { gap: 1, ..Table::plain(label, &header, first_number) };
    columns.iter().enumerate().fold(table, |table, (index, (title, _))| {
        let first = lead.len() + 2 * index;
        table.group(first..first + 2, *title)
    })
}

/// The spread of each phase over the rounds.
pub(crate) fn spreads(steps: &[BonnieStep]) -> Table {
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
    let table = Table::plain("Bonnie, phase by phase over the rounds", &header, 4);
    let rows = |step: &BonnieStep| -> Vec<_> { step.phases.iter().map(|phase| row(step, phase)).collect() };
    steps.iter().fold(table, |table, step| table.section(rows(step)))
}
