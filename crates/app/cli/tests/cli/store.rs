//! The results file in use: several processes at once, a kill in mid-run, tags, comparisons, and the transfer to
//! another machine.

use crate::support::{Bench, holds};
use rusqlite::Connection;
use serde_json::Value;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

/// A modelled array of three drives, whose runs take a few milliseconds each.
const SIMULATE: [&str; 15] = [
    "simulate",
    "--level=5",
    "--members=3",
    "--drive=st3600057ss",
    "--controller=perc-h800",
    "--region=1GB",
    "--ramp=10ms",
    "--run=200ms",
    "--db=runs.sqlite",
    "--workload=database",
    "--iodepth=1,4",
    "--threads=1",
    "--write-policy=write-through",
    "--seed",
    "1",
];

fn with_seed(seed: &'static str) -> Vec<&'static str> {
    let mut args = SIMULATE.to_vec();
    args[14] = seed;
    args
}

/// A folder with two study runs of two runs each, alike but for their seeds.
fn two_studies() -> Bench {
    let bench = Bench::new();
    for seed in ["1", "2"] {
        bench.done(&with_seed(seed));
    }
    bench
}

fn on_runs<'a>(args: &[&'a str]) -> Vec<&'a str> {
    [args, &["--db", "runs.sqlite"]].concat()
}

fn started(bench: &Bench, args: &[&str]) -> Child {
    bench.command(args).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("the binary was built")
}

#[test]
fn several_runs_are_shown_one_after_the_other() {
    let bench = two_studies();
    let shown = bench.run(&on_runs(&["show", "2..3"])).stdout;
    let is_shown = |run: u32| shown.contains(&format!("run {run} of "));
    assert_eq!([1, 2, 3, 4].map(is_shown), [false, true, true, false], "{shown}");
    let json = bench.run(&on_runs(&["show", "study:2", "--json"])).json();
    assert_eq!((&json["runs"][0]["id"], &json["runs"][1]["id"]), (&3.into(), &4.into()), "{json}");
    assert_eq!(bench.run(&on_runs(&["show", "3", "--json"])).json()["id"], 3);
    bench.run(&on_runs(&["show", "8..9"])).assert(2, &["run 8"]);
    bench.run(&on_runs(&["show", "last"])).assert(2, &["a range 3..7"]);
}

#[test]
fn runs_of_open_loops_are_named_by_their_rate() {
    let bench = Bench::new();
    let mut args = SIMULATE.to_vec();
    args[10] = "--rate=200";
    bench.done(&args);
    let listed = || bench.run(&on_runs(&["runs"])).stdout;
    assert!(listed().contains(" load ") && listed().contains("200 requests/s"), "{}", listed());
    let line = &bench.run(&on_runs(&["runs", "--json"])).json()["runs"][0];
    assert_eq!(line["arrivals_per_sec"], 200.0, "{line}");
    bench.done(&SIMULATE);
    assert!(listed().contains("iodepth 4") && listed().contains("200 requests/s"), "{}", listed());
}

#[test]
fn several_processes_write_into_one_new_file() {
    let bench = Bench::new();
    let seeds = ["1", "2", "3", "4", "5"];
    let children: Vec<Child> = seeds.iter().map(|seed| started(&bench, &with_seed(seed))).collect();
    for child in children {
        let ended = child.wait_with_output().expect("it ends");
        assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    }
    let studies = bench.run(&on_runs(&["runs", "--studies", "--json"])).json();
    let studies = studies["studies"].as_array().expect("a list").clone();
    assert_eq!(studies.len(), seeds.len());
    for study in studies {
        assert_eq!((&study["state"], &study["finished_runs"]), (&"complete".into(), &2.into()), "{study}");
        assert_eq!(study["kind"], "simulate");
    }
}

#[test]
fn a_killed_process_leaves_what_it_finished() {
    let bench = Bench::new();
    bench.done(&SIMULATE);
    let mut args = SIMULATE.to_vec();
    // More than it can do before it is killed, and each run short.
    args[10] = "--iodepth=1..4000+1";
    let mut child = started(&bench, &args);
    let store = Connection::open(bench.path().join("runs.sqlite")).expect("it is there");
    let finished = || -> i64 {
        store
            .query_row("SELECT count(*) FROM run WHERE study = 2", [], |row| row.get(0))
            .expect("it can be read while another process writes")
    };
    let begun = Instant::now();
    while finished() < 3 {
        assert!(begun.elapsed() < Duration::from_mins(2), "no run was finished");
        std::thread::sleep(Duration::from_millis(20));
    }
    child.kill().expect("SIGKILL is sent");
    assert!(!child.wait().expect("it ends").success(), "it was killed before its end");
    let kept = finished();
    assert!(kept >= 3);
    drop(store);
    let study = bench.run(&on_runs(&["runs", "--studies", "--limit", "1", "--json"])).json();
    let study = &study["studies"][0];
    assert_eq!((&study["state"], &study["finished_runs"]), (&"running".into(), &kept.into()), "{study}");
    assert_eq!(study["planned_runs"], 4000);
    let last = format!("{}", 2 + kept);
    let shown = bench.run(&on_runs(&["show", &last, "--json"])).json();
    assert!(shown["result"]["total"]["requests"].as_u64() > Some(0), "{shown}");
    bench.done(&with_seed("9"));
    let text = bench.run(&on_runs(&["runs", "--studies"]));
    text.says(&["running", "complete"]);
}

#[test]
fn tags_name_runs_for_lists_and_comparisons() {
    let bench = two_studies();
    bench.run(&on_runs(&["tag", "before", "study:1"])).assert(0, &["2 runs with tag"]);
    bench.done(&on_runs(&["tag", "after", "3..4"]));
    let listed = bench.run(&on_runs(&["runs", "--tag", "after", "--json"])).json();
    let ids: Vec<i64> =
        listed["runs"].as_array().expect("runs").iter().filter_map(|run| run["id"].as_i64()).collect();
    assert_eq!(ids, [4, 3]);
    let compared = bench.run(&on_runs(&["compare", "tag:before", "tag:after", "1..4", "--json"])).json();
    let cells = compared["comparison"]["cells"].as_array().expect("cells").clone();
    let names: Vec<&str> = cells.iter().filter_map(|cell| cell["name"].as_str()).collect();
    assert_eq!(names, ["storagebench-database at iodepth 1", "storagebench-database at iodepth 4"]);
    let iops = &cells[0]["figures"][0]["groups"];
    let mean = |group: usize| iops[group]["spread"]["mean"].as_f64().expect("a mean");
    let expected = 100.0 * (mean(1) - mean(0)) / mean(0);
    assert!((iops[1]["difference_pct"].as_f64().expect("a difference") - expected).abs() < 1e-9);
    assert_eq!(iops[2]["spread"]["count"], 2, "the same load of both studies");
    let words = bench.run(&on_runs(&["compare", "1", "3"])).stdout;
    assert!(!words.contains("The loads differ"), "{words}");
    holds(
        &words,
        &[
            "A: run 1, storagebench-database at iodepth 1, RAID 5 write-through",
            "iops",
            "lat_ms_p99",
            " %",
            "One run of each",
        ],
    );
    bench.run(&on_runs(&["tag", "before", "1", "--remove"])).assert(0, &["1 runs without"]);
    let left = bench.run(&on_runs(&["runs", "--tag", "before"])).stdout;
    assert_eq!(left.lines().filter(|line| line.contains("database")).count(), 1, "{left}");
    bench.run(&on_runs(&["compare", "1", "tag:nobody"])).assert(2, &["no run has the tag 'nobody'"]);
    bench.run(&on_runs(&["compare", "1", "x"])).assert(2, &["names no runs"]);
    bench.run(&["tag", "a", "1", "--db", "none.sqlite"]).assert(2, &["there is no results file"]);
    assert!(!bench.names().contains(&"none.sqlite".to_owned()), "looking makes no file");
}

#[test]
fn runs_go_to_another_file_and_are_there_once() {
    let bench = two_studies();
    bench.done(&on_runs(&["tag", "kept", "2"]));
    bench.done(&on_runs(&["export", "json", "study:1", "-o", "runs.json"]));
    let to_other = |file: &str| bench.run(&["import", "runs", file, "--db", "other.sqlite", "--json"]);
    let first = to_other("runs.json").json();
    assert_eq!(first["files"][0]["runs"], serde_json::json!([1, 2]));
    let second = to_other("runs.sqlite").json();
    assert_eq!(
        (&second["files"][0]["runs"], &second["files"][0]["known"]),
        (&serde_json::json!([3, 4]), &2.into())
    );
    let without_numbers = |db: &str, run: &str| -> Value {
        let mut shown = bench.run(&["show", run, "--db", db, "--json"]).json();
        for key in ["id", "study"] {
            shown.as_object_mut().expect("a record").remove(key);
        }
        shown
    };
    for run in ["1", "2", "3", "4"] {
        assert_eq!(without_numbers("other.sqlite", run), without_numbers("runs.sqlite", run), "run {run}");
    }
    let csv = bench.run(&["export", "csv", "1..4", "--db", "other.sqlite"]).stdout;
    assert_eq!(csv.lines().count(), 5);
    let bins = bench.run(&on_runs(&["export", "csv", "tag:kept", "--table", "histograms"])).stdout;
    assert!(
        bins.starts_with("run,workload,target,iodepth,op,lat_ns_up_to,requests\n2,storagebench-database,"),
        "{bins}"
    );
    bench.run(&on_runs(&["export", "parquet", "1"])).assert(2, &["Parquet is no text", "--output"]);
    bench.write("text.json", "{}");
    bench.run(&["import", "runs", "text.json"]).assert(2, &["text.json", "export json"]);
}

/// Puts a risk into the results file.
fn keep_a_risk(bench: &Bench) {
    let risk = [
        "risk",
        "--level",
        "5",
        "--members",
        "8",
        "--drive",
        "st3600057ss",
        "--afr",
        "2",
        "--bits-per-error",
    ];
    bench.done(&[&risk[..], &["1e16", "--trials", "1000", "--db", "runs.sqlite"]].concat());
}

#[test]
fn verbs_without_a_load_keep_their_figures_too() {
    let bench = Bench::new();
    keep_a_risk(&bench);
    bench.done(&on_runs(&["soak", "file", "--size", "1MiB", "--passes", "1", "--buffered"]));
    let figures = |run: &str, name: &str| {
        let shown = bench.run(&on_runs(&["show", run, "--json"])).json();
        shown["result"]["figures"][name].as_f64().unwrap_or_else(|| panic!("no {name}: {shown}"))
    };
    let per_year = figures("1", "markov.per_year");
    assert!(per_year > 0.0 && per_year < 1.0, "{per_year}");
    assert_eq!((figures("2", "bytes_read"), figures("2", "faults.changed")), (f64::from(1 << 20), 0.0));
    let listed = bench.run(&on_runs(&["runs", "--kind", "soak"])).stdout;
    assert!(listed.contains("soak") && !listed.contains("risk"), "{listed}");
}

#[test]
fn kept_runs_become_a_page_markdown_and_pictures() {
    let bench = two_studies();
    bench.run(&on_runs(&["report", "study:1", "study:2", "-o", "r.html"])).assert(0, &["report: r.html"]);
    let page = bench.read("r.html");
    holds(&page, &["simulate RAID 5 x3", "<h2 id=\"answer\">", "id=\"figure-1\"", "</html>"]);
    let args = [
        "report",
        "study:1",
        "--markdown",
        "r.md",
        "--title",
        "A title",
        "--x",
        "iodepth",
        "--y",
        "p99",
        "--json",
    ];
    let written = bench.done(&on_runs(&args));
    let text = bench.read("r.md");
    assert!(text.starts_with("Storage study\n\n# A title\n"), "{text}");
    for path in written.json()["written"].as_array().expect("files") {
        assert!(bench.path().join(path.as_str().expect("a path")).exists(), "{path}");
    }
    let charts = text.matches("](r.charts/figure-").count();
    assert_eq!(std::fs::read_dir(bench.path().join("r.charts")).expect("a folder").count(), charts);
    // A machine without any font has no pictures with text in them, and says so.
    let pictures = bench.run(&on_runs(&["report", "1..2", "--charts", "slides", "--dark"]));
    if pictures.code == Some(0) {
        let names = std::fs::read_dir(bench.path().join("slides")).expect("a folder");
        assert_eq!(names.count(), 2 * charts, "each as SVG and PNG");
    } else {
        pictures.assert(1, &["there is no font"]);
    }
    bench.run(&on_runs(&["report", "1", "--x", "speed", "--y", "p99"])).assert(2, &["'speed' is no axis"]);
    bench.run(&on_runs(&["report", "9"])).assert(2, &["there is no run 9"]);
    keep_a_risk(&bench);
    bench.run(&on_runs(&["report", "5"])).assert(0, &["report: report.html"]);
}
