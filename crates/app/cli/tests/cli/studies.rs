//! `raidlab study` on the real binary: what it leaves behind, and its failures.

use crate::support::{Bench, Ended};
use rusqlite::{Connection, OpenFlags};
use std::process::Stdio;
use std::time::{Duration, Instant};

pub(crate) const HEAD: &str = "schema = 1\ntitle = 'small'\nquestion = 'does it run?'\nseed = 3\n\
                    [load]\nworkloads = ['database', 'streaming']\niodepths = [1, 4]\nramp = '5ms'\nrun = '20ms'\n";
pub(crate) const MEASURE: &str = "[[measure]]\npath = 'scratch/test-file'\nsize = '4MiB'\ndirect = true\n";
const ARRAY: &str = "[[array]]\ndirectory = 'scratch'\nlevels = ['0', '5']\nmembers = 3\nmember-size = '4MiB'\n\
                     strip-size = '16KiB'\nwrite-policies = ['write-back']\ndisk-cache = true\n\
                     cache = { size = '1MiB' }\n";
pub(crate) const SIMULATE: &str = "[[simulate]]\ncontroller = 'perc-h800'\ndrive = 'st3600057ss'\nlevels = ['0', '5']\n\
                        members = 3\nwrite-policies = ['write-back']\nregion = '1GB'\n\
                        load = { ramp = '50ms', run = '200ms' }\n";

fn count_runs(path: &std::path::Path) -> i64 {
    let connection = Connection::open(path).expect("there is a results file");
    connection.query_row("SELECT count(*) FROM run", [], |row| row.get(0)).expect("it has runs")
}

/// Runs in a file that somebody writes, and may not have begun.
fn runs_so_far(path: &std::path::Path) -> i64 {
    let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY);
    let count = connection.and_then(|it| it.query_row("SELECT count(*) FROM run", [], |row| row.get(0)));
    count.unwrap_or(0)
}

#[test]
fn a_small_study_gives_table_database_and_report_and_takes_its_files_away() {
    let bench = Bench::new();
    bench.write("small.toml", &format!("{HEAD}{MEASURE}{ARRAY}{SIMULATE}"));
    let ended = bench.run(&["study", "small.toml", "--report", "small.html", "--db", "runs.sqlite"]);
    ended.assert(0, &["20 of 20 runs finished", "report: small.html"]);
    ended.says(&["storagebench-database", "storagebench-streaming", "RAID 0", "RAID 5", "write-back"]);
    assert_eq!(count_runs(&bench.path().join("runs.sqlite")), 20);
    let html = bench.read("small.html");
    assert!(html.to_lowercase().starts_with("<!doctype html>") && html.contains("small"));
    assert!(!bench.names().contains(&"scratch".to_owned()), "{:?}", bench.names());

    let runs = bench.done(&["runs", "--db", "runs.sqlite", "--json"]).json();
    assert_eq!(runs["runs"].as_array().map(Vec::len), Some(20));
    let id = runs["runs"][0]["id"].to_string();
    let shown = bench.done(&["show", &id, "--db", "runs.sqlite", "--json"]).json();
    assert_eq!(shown["result"]["seed"], 3);
    assert!(shown["environment"]["kernel"].as_str().is_some_and(|kernel| kernel.starts_with("Linux")));
}

#[test]
fn a_study_prints_json_alone_on_standard_output() {
    let bench = Bench::new();
    bench.write("small.toml", &format!("{HEAD}{SIMULATE}"));
    let json = bench.done(&["study", "small.toml", "--json"]).json();
    assert_eq!(json["schema"], 1);
    assert_eq!(json["runs"].as_array().map(Vec::len), Some(8));
    assert!(json["verdicts"].as_array().is_some_and(|verdicts| !verdicts.is_empty()));
}

/// The section, the exit code, and what the message must hold.
#[test]
fn bad_studies_end_with_2_and_say_where_and_what() {
    let rows = [
        (MEASURE.replace("direct", "dierct"), ["small.toml:13", "'dierct'", "'direct'"]),
        (SIMULATE.replace("st3600057ss", "st360057ss"), ["small.toml:12", "st360057ss", "'st3600057ss'"]),
        (
            ARRAY.replace("members = 3", "members = 2"),
            ["small.toml:12", "RAID 5 over 2 members", "3 or more"],
        ),
        (ARRAY.replace("'0', '5'", "'6'"), ["small.toml:12", "RAID 6 over 3 members", "4 or more"]),
        (ARRAY.replace("'0', '5'", "'4'"), ["small.toml:12", "RAID 4", "is not a RAID level"]),
        ("[[measure]\n".to_owned(), ["error", "small.toml:10", ""]),
    ];
    for (section, parts) in rows {
        let bench = Bench::new();
        bench.write("small.toml", &format!("{HEAD}{section}"));
        let ended = bench.run(&["study", "small.toml"]);
        ended.assert(2, &parts);
        assert!(ended.stdout.is_empty());
        assert_eq!(bench.names(), ["small.toml"], "nothing is begun for a bad study");
    }
}

#[test]
fn a_study_file_that_is_not_there_is_bad_input() {
    Bench::new().run(&["study", "none.toml"]).assert(2, &["error: none.toml cannot be read"]);
}

#[test]
fn a_report_that_cannot_be_written_is_found_before_the_study() {
    let bench = Bench::new();
    bench.write("small.toml", &format!("{HEAD}{SIMULATE}"));
    let ended = bench.run(&["study", "small.toml", "--report", "none/small.html"]);
    ended.assert(2, &["error: none/small.html cannot be written", "because:", "hint:"]);
    assert_eq!(bench.names(), ["small.toml"]);
}

#[test]
fn an_interrupt_keeps_finished_runs_and_ends_with_130() {
    let bench = Bench::new();
    let long = HEAD.replace("run = '20ms'", "run = '200ms'").replace("[1, 4]", "[1, 2, 3, 4, 5, 6, 7, 8, 9]");
    bench.write("long.toml", &format!("{long}{MEASURE}{ARRAY}"));
    let mut command = bench.command(&["study", "long.toml", "--db", "runs.sqlite"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary was built");
    let database = bench.path().join("runs.sqlite");
    let deadline = Instant::now() + Duration::from_secs(30);
    let is_under_way = || {
        let connection = Connection::open_with_flags(&database, OpenFlags::SQLITE_OPEN_READ_ONLY).ok()?;
        connection.query_row("SELECT count(*) FROM run", [], |row| row.get::<_, i64>(0)).ok()
    };
    while is_under_way().unwrap_or(0) < 2 {
        assert!(Instant::now() < deadline, "no run was finished in time");
        std::thread::sleep(Duration::from_millis(20));
    }
    let pid = child.id().to_string();
    let sent = std::process::Command::new("kill").args(["-INT", &pid]).status().expect("there is a kill");
    assert!(sent.success());
    let ended = Ended::of(child.wait_with_output().expect("it ends"));
    ended.assert(130, &["stopping", "runs finished"]);
    let kept = count_runs(&database);
    assert!((2..54).contains(&kept), "{kept} runs are kept");
    let connection = Connection::open(&database).expect("there is a results file");
    let state: String =
        connection.query_row("SELECT state FROM study_run", [], |row| row.get(0)).expect("there is a study");
    assert_eq!(state, "incomplete");
    assert!(!bench.names().contains(&"scratch".to_owned()), "{:?}", bench.names());
    assert!(ended.stdout.contains("storagebench"), "the finished runs are shown:\n{}", ended.stdout);
}

#[test]
fn a_kill_keeps_finished_runs() {
    let bench = Bench::new();
    let long = HEAD.replace("run = '20ms'", "run = '200ms'");
    bench.write("long.toml", &format!("{long}{MEASURE}{ARRAY}"));
    let mut command = bench.command(&["study", "long.toml", "--db", "runs.sqlite"]);
    let mut child =
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the binary was built");
    let database = bench.path().join("runs.sqlite");
    let patience = Instant::now() + Duration::from_mins(1);
    while runs_so_far(&database) == 0 && Instant::now() < patience {
        std::thread::sleep(Duration::from_millis(50));
    }
    child.kill().expect("it runs");
    child.wait().expect("it ends");
    let kept = count_runs(&database);
    assert!((1..12).contains(&kept), "{kept} runs are kept");
}

/// A folder that is a small filesystem in memory, where this process may mount one.
struct SmallDisk {
    folder: std::path::PathBuf,
}

impl SmallDisk {
    fn mount(bench: &Bench) -> Option<Self> {
        let folder = bench.path().join("small-disk");
        std::fs::create_dir(&folder).expect("the folder can be written");
        let mounted = std::process::Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=8m", "tmpfs"])
            .arg(&folder)
            .stderr(Stdio::null())
            .status();
        mounted.is_ok_and(|status| status.success()).then_some(Self { folder })
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let unmounted = std::process::Command::new("umount").arg(&self.folder).status();
        assert!(unmounted.is_ok_and(|status| status.success()), "the small disk stays mounted");
    }
}

#[test]
fn a_full_disk_is_told_with_what_is_needed_and_nothing_is_left() {
    let bench = Bench::new();
    let Some(disk) = SmallDisk::mount(&bench) else {
        println!("skipped: this process may not mount a small filesystem");
        return;
    };
    let rows = [
        MEASURE.replace("scratch", "small-disk/scratch").replace("4MiB", "64MiB"),
        ARRAY.replace("scratch", "small-disk/scratch").replace("4MiB", "64MiB"),
    ];
    for section in rows {
        bench.write("full.toml", &format!("{HEAD}{section}"));
        let ended = bench.run(&["study", "full.toml"]);
        ended.assert(1, &["error:", "small-disk/scratch", "MiB", "free some space"]);
        let left = std::fs::read_dir(&disk.folder).expect("it is mounted").count();
        assert_eq!(left, 0, "files are left on the full disk");
    }
}

#[test]
fn a_folder_that_cannot_be_written_is_named() {
    let bench = Bench::new();
    // A file where the folder should be cannot be written into, not even by root.
    bench.write("scratch", "in the way");
    for section in [MEASURE, ARRAY] {
        bench.write("small.toml", &format!("{HEAD}{section}"));
        bench.run(&["study", "small.toml"]).assert(1, &["error:", "scratch", "name another"]);
    }
}
