//! Storage in use on the real binary: watched, its history taken in, its bottleneck named.

use crate::support::Bench;

const IOSTAT: &str = include_str!("../../../../load/history/tests/data/iostat.json");
const SYSBENCH: &str = include_str!("../../../../lab/report/tests/data/sysbench.txt");

/// The device of the build's own folder is watched while a file on it is written.
#[test]
fn a_device_in_use_is_watched() {
    let bench = Bench::new();
    let size = ["measure", "f", "--size", "16MiB", "-w", "database", "--run", "600ms", "--iodepth", "4"];
    let mut load = bench.command(&size).stdout(std::process::Stdio::null()).spawn().expect("it starts");
    let seen = bench.run(&["observe", ".", "--time", "500ms", "--json", "-o", "seen"]);
    load.wait().expect("it ends");
    if seen.stderr.contains("no block device holds") {
        return;
    }
    seen.assert(0, &["note: . is on "]);
    let answer = seen.json();
    let device = &answer["devices"][0];
    for figure in ["iops", "mb_per_s", "mean_in_flight", "utilisation_pct"] {
        assert!(device[figure].is_f64(), "{figure}: {device}");
    }
    for figure in ["read_pct", "mean_read_bytes", "mean_write_bytes", "random_pct"] {
        assert!(device[figure].is_f64() || device[figure].is_null(), "{figure}: {device}");
    }
    let source = device["source"].as_str().expect("a source");
    assert!(["counters", "requests"].contains(&source));
    assert_eq!(device["random_pct"].is_null(), source == "counters" || device["iops"] == 0.0);
    assert_eq!((answer["schema"].as_u64(), device["file"].as_str()), (Some(1), Some(".")));
    if let Some(file) = device["workload"]["output"].as_str() {
        bench.done(&["workloads", file]).says(&["raidlab observe"]);
    }
    bench.run(&["observe", "no-such"]).assert(2, &["there is no device, file or folder 'no-such'"]);
    bench.run(&["observe", "/proc/self/stat"]).assert(2, &["no block device holds /proc/self/stat"]);
    let why = bench.run(&["why", ".", "--time", "200ms", "--json"]);
    why.assert(0, &[]);
    assert!(why.json()["causes"].is_array() && why.json()["facts"]["busy_pct"].is_f64());
}

/// Two disks were the best array for what asked them three times what they do, since "no throughput is needed".
#[test]
fn what_arrives_must_be_served() {
    let bench = Bench::new();
    let desktops = ["plan", "-w", "vdi-steady", "--usable", "200GB", "--levels", "1", "--era", "any"];
    let of = |drive: &'static str| {
        let parts = ["--drives", drive, "--controllers", "perc-h800", "--members", "2", "--simulations", "1"];
        bench.run(&[&desktops[..], &parts].concat())
    };
    of("st3600057ss").assert(3, &[]);
    of("st3600057ss").says(&["Nothing that was looked at keeps all needs", "2000 requests/s"]);
    let lower = bench.run(&[&desktops[..], &["--drives", "nope", "--iops", "2100"]].concat());
    lower.assert(2, &["asks for 2000 requests/s", "2100 are needed"]);
}

#[test]
fn a_history_is_taken_in_and_planned_from() {
    let bench = Bench::new();
    bench.write("iostat.json", IOSTAT);
    let ended = bench.run(&["import", "history", "iostat.json", "-o", "history.toml"]);
    ended.assert(0, &["the first report", "plan: raidlab plan --from history.toml"]);
    ended.says(&["vm loop2", "Peak hour"]);
    assert_eq!(
        bench.done(&["import", "history", "iostat.json", "--json"]).json()["history"]["device"][0]["readings"],
        4
    );
    bench.run(&["import", "history", "iostat.json", "--device", "sda"]).assert(2, &["there are loop2"]);
    bench
        .run(&["import", "trace", "iostat.json"])
        .assert(2, &["this is iostat's JSON", "raidlab import history"]);
    bench.write("a.spc", "0,20941264,8192,W,0.551706\n");
    bench.run(&["import", "history", "a.spc"]).assert(2, &["this is a block trace", "raidlab import trace"]);
    let plan = ["plan", "--from", "history.toml", "--usable", "1TB", "--drives", "nope"];
    bench.run(&plan).assert(2, &["vm-loop2: needs 199 requests/s (the most of 4 readings)", "nope"]);
    bench.write("sysbench.txt", SYSBENCH);
    bench.done(&["import", "runs", "sysbench.txt", "--db", "a.sqlite"]).says(&["1 run is new"]);
}
