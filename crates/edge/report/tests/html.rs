//! x
mod common;
use raidlab_report::{StudyReport, html};
#[test]
fn look() {
    let runs = common::study_runs();
    let v = raidlab_advisor::verdicts(&runs);
    let report = StudyReport { title: "First look", question: "Which RAID level and write policy serve streaming, restore, database and file-server loads best, on this machine and on six 15,000 rpm drives behind a hardware controller?", method: vec!["Measured: the storage as it is, through a test file of 1 GiB at first-look-data/test-file, past the page cache (O_DIRECT, io_uring); four profiles at iodepths 1 to 64.".into(), "Simulated arrays: RAID 0, 1, 5, 6, 10 over 6 members with strips of 64 KiB, write-through and write-back, on st3600057ss behind perc-h800, through the same controller code in virtual time.".into()], setup: vec![("kernel".into(), "Linux 6.12.0".into()), ("processor".into(), "AMD EPYC 9B45".into()), ("processors".into(), "2".into()), ("filesystem".into(), "ext4 on /dev/vda".into())], runs: &runs, verdicts: &v, warnings: vec!["This study was stopped: 588 of 600 runs are finished.".into()], notes: vec!["RAID 1 over 6 members is a mirror of 6: all hold the same data.".into()], published: None, iodepth: None };
    std::fs::write("/tmp/report/study.html", html::study(&report)).unwrap();
}
