//! x
mod common;
use raidlab_report::{StudyReport, terminal};
#[test]
fn look() {
    let runs = common::study_runs();
    let report = StudyReport {
        title: "First look",
        question: "Which RAID level and write policy serves each profile best?",
        method: vec![],
        setup: vec![],
        runs: &runs,
        verdicts: &raidlab_advisor::verdicts(&runs),
        warnings: vec![],
        notes: vec![],
        published: None,
        iodepth: None,
    };
    for (width, colour) in [(160, true), (120, false), (80, false)] {
        println!("{}", terminal::study(&report, terminal::TerminalOptions { width, colour }));
    }
    println!(
        "{}",
        terminal::runs(
            &runs.iter().filter(|r| r.array.is_none()).cloned().collect::<Vec<_>>()[..8],
            terminal::TerminalOptions { width: 80, colour: false }
        )
    );
}
