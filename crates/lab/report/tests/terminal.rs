//! Terminal output.
//!
//! Verified: the layout of whole studies, runs and comparisons, that tables keep the given width, and that colour
//! changes nothing but looks. Not verified: how a real terminal draws it.

mod common;

use common::{compared_table, database_verdicts, report, study_runs};
use raidlab_advisor::{Comparison, ComparisonRow};
use raidlab_report::terminal::{self, TerminalOptions};
use raidlab_report::{StudyReport, json};
use raidlab_workload::{RunResult, World};

const WIDE: TerminalOptions = TerminalOptions { width: 120, colour: false };

/// Two profiles at two depths, so that the expected text can be read.
fn small_study() -> Vec<RunResult> {
    let is_kept = |run: &RunResult| {
        ["storagebench-restore", "storagebench-database"].contains(&run.workload.as_str())
            && [1, 16].contains(&run.iodepth)
            && run.array.as_ref().is_none_or(|array| array.level != "1")
    };
    study_runs().into_iter().filter(is_kept).collect()
}

#[test]
fn a_study_is_one_table_and_its_recommendations() {
    let runs = small_study();
    let verdicts = database_verdicts(&runs);
    insta::assert_snapshot!("study", terminal::study(&report(&runs, &verdicts), WIDE));
}

#[test]
fn a_narrow_terminal_gets_a_table_per_side() {
    let runs = small_study();
    let text = terminal::study(&report(&runs, &[]), TerminalOptions { width: 80, colour: false });
    insta::assert_snapshot!("study_narrow", text);
}

#[test]
fn tables_keep_to_the_width() {
    let runs = study_runs();
    for width in [80, 100, 110, 120, 140, 160, 200] {
        let text = terminal::study(
            &report(&runs, &database_verdicts(&runs)),
            TerminalOptions { width, colour: false },
        );
        let widest = text.lines().map(|line| line.chars().count()).max().unwrap();
        assert!(widest <= usize::from(width), "{widest} characters in a terminal of {width}");
        let sides = text.lines().find(|line| line.contains("- measured")).unwrap();
        assert_eq!(sides.contains("simulated"), width >= 110, "at {width}: {sides}");
    }
}

#[test]
fn colour_changes_looks_only() {
    let runs = small_study();
    let verdicts = database_verdicts(&runs);
    let coloured = terminal::study(&report(&runs, &verdicts), TerminalOptions { width: 120, colour: true });
    assert!(coloured.contains("\u{1b}[1m"), "headings are bold");
    let bare: String = without_escapes(&coloured).replace('─', "-");
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(words(&bare), words(&terminal::study(&report(&runs, &verdicts), WIDE)));
}

/// `text` without the sequences from ESC to `m`.
fn without_escapes(text: &str) -> String {
    let mut pieces = text.split('\u{1b}');
    let first = pieces.next().unwrap_or("").to_owned();
    pieces.fold(first, |bare, piece| bare + piece.split_once('m').expect("a sequence ends in m").1)
}

#[test]
fn what_is_missing_or_failed_is_said() {
    let mut runs = small_study();
    runs.retain(|run| {
        !(run.world == World::Simulated && run.iodepth == 16 && run.metric == raidlab_workload::Metric::Iops)
    });
    let failed = runs.iter_mut().find(|run| run.world == World::Array).unwrap();
    failed.ops.total.errors = 7;
    let text = terminal::study(&report(&runs, &[]), WIDE);
    assert!(text.contains("8 of 68 cells have no finished run"), "{text}");
    assert!(text.contains("Requests failed in 1 of 60 runs"), "{text}");
}

#[test]
fn a_study_without_runs_says_so() {
    let empty = StudyReport { warnings: Vec::new(), notes: Vec::new(), ..report(&[], &[]) };
    assert!(terminal::study(&empty, WIDE).ends_with("No run was finished.\n"));
}

#[test]
fn one_run_is_a_few_lines() {
    let runs = small_study();
    let run = runs
        .iter()
        .find(|run| run.array.is_some() && run.iodepth == 16 && run.ops.read.requests > 0)
        .unwrap();
    insta::assert_snapshot!("run", terminal::run(run, WIDE));
}

#[test]
fn runs_over_depths_are_a_table() {
    let runs: Vec<RunResult> = study_runs().into_iter().filter(|run| run.array.is_none()).collect();
    insta::assert_snapshot!("runs", terminal::runs(&runs[..8], WIDE));
    let narrow = terminal::runs(&runs[..8], TerminalOptions { width: 80, ..WIDE });
    assert!(narrow.lines().all(|line| line.chars().count() <= 80), "{narrow}");
}

#[test]
fn a_study_compared_with_a_paper_has_its_tables() {
    let tables = [compared_table()];
    let mut study = report(&[], &[]);
    study.compared = &tables;
    let text = terminal::study(&study, WIDE);
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let lines: Vec<String> =
        text.lines().skip_while(|line| !line.starts_with("Table 4")).take(6).map(words).collect();
    assert_eq!(lines[1], "oltp 4 KiB oltp 8 KiB", "{text}");
    assert_eq!(lines[3], "RAID 5 x4 1230 -", "{text}");
    assert_eq!(lines[5], "/dev/mine 10.0 (iodepth 64) 0.500", "{text}");
    let json: serde_json::Value = serde_json::from_str(&json::study(&study)).unwrap();
    assert_eq!(json["beside"][0]["rows"][1]["cells"][0]["remark"], "iodepth 64");
}

#[test]
fn published_figures_stand_beside_predictions() {
    let row = |id: &str, published, predicted| {
        ComparisonRow::of(id.to_owned(), "iops".to_owned(), published, predicted)
    };
    let rows =
        [row("md1200-2011/1", 1000.0, 1100.0), row("md1200-2011/2", 0.5, 0.4), row("a\u{1b}[2J", 20.0, 20.0)];
    let comparison = Comparison::of(rows.into_iter().flatten().collect());
    insta::assert_snapshot!("comparison", terminal::comparison(&comparison, WIDE));
}
