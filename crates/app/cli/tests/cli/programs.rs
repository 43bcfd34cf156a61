//! `raidlab streams` and `raidlab bonnie`, on folders and on modelled arrays.

use crate::support::{Bench, Ended};

const ARRAY: &str = "schema = 1\nlevel = \"1\"\nmembers = 2\ndrive = \"maxtor-6y160m0\"\ncontroller = \"linux-md\"\n\
                     write-policy = \"write-through\"\n";

/// What a member of it reads in a second, where it is fastest.
const OUTER_MB_PER_S: f64 = 46.5;

/// Two folders in a bench.
fn bench() -> Bench {
    let bench = Bench::new();
    for name in ["a", "b"] {
        std::fs::create_dir(bench.path().join(name)).expect("the folder can be written");
    }
    bench
}

#[test]
fn streams_read_cold_files_of_several_folders_and_leave_nothing() {
    let bench = bench();
    let streams =
        ["streams", "a", "b", "--streams", "1,3", "--size", "2MB", "--block", "64KiB", "--cold", "advise"];
    let with = |more: &[&'static str]| bench.run(&[&streams[..], more].concat());
    let ended = with(&[
        "--repeat",
        "2",
        "--report",
        "r.html",
        "--json",
        "--compare-paper",
        "cdf-caf-2002:asa/nfs-udp-8k",
    ]);
    ended.assert(0, &["report: r.html"]);
    let json = ended.json();
    assert_eq!(json["runs"].as_array().map(Vec::len), Some(4));
    let steps = json["streams"].as_array().expect("steps");
    assert_eq!(steps.iter().map(|step| step["streams"].as_u64()).collect::<Vec<_>>(), [Some(1), Some(3)]);
    for step in steps {
        assert!(step["aggregate_mb_per_s"]["mean"].as_f64() > Some(0.0), "{step}");
        assert_eq!(step["aggregate_mb_per_s"]["count"], 2);
        assert_eq!(step["cached_share"], 0.0);
        assert!(step["fairness"].as_f64().is_some_and(|index| (0.3..=1.0 + 1e-9).contains(&index)));
    }
    assert!(json["published"].as_array().is_some_and(|points| points.len() > 10));
    let page = bench.read("r.html");
    assert!(page.contains("Rate against streams") && page.contains("(published)"));
    assert_eq!(bench.names(), ["a", "b", "r.html", "raidlab.sqlite"]);
    assert!(!bench.path().join("a/raidlab-streams").exists());
    let shown = bench.run(&["show", "4", "--json"]);
    assert_eq!(shown.json()["result"]["streams"]["readers"].as_array().map(Vec::len), Some(3));
}

#[test]
fn streams_say_what_falls_short_and_what_is_warm() {
    let bench = bench();
    let streams = ["streams", "a", "b", "--size", "8MB", "--block", "64KiB"];
    let with = |more: &[&'static str]| bench.run(&[&streams[..], more].concat());
    // Nobody goes on after the timed read, so all but the slowest reader stop early; the files were just read.
    // Other tests are root, too, and a run of theirs that begins in between drops the pages of the whole machine: it is tried again.
    let warm = "were not cold: 100.0 % of their pages";
    let run = || {
        for folder in ["a", "b"] {
            let _ = std::fs::remove_dir_all(bench.path().join(folder).join("raidlab-streams"));
        }
        with(&["--streams", "8", "--reads-per-stream", "1", "--cold", "none", "--repeat", "2", "--keep"])
    };
    let mut ended = run();
    for _ in 0..4 {
        if ended.stderr.contains(warm) {
            break;
        }
        ended = run();
    }
    ended.assert(0, &[warm]);
    assert!(bench.path().join("b/raidlab-streams/00007").exists());
    ended.says(&["fairness"]);
    // What is there is used, read past the page cache, and stays.
    with(&["--streams", "2", "--cold", "direct"]).assert(0, &[]);
    assert!(bench.path().join("a/raidlab-streams/00000").exists());
    bench.run(&["streams", "a", "--cold", "direct", "--block", "1000B"]).assert(2, &["multiples of 4096"]);
    bench.run(&["streams", "a", "--size", "1000TB"]).assert(1, &["no room for the files in 'a'"]);
    bench.run(&["streams", "c"]).assert(2, &["'c' is no folder"]);
    with(&["--compare-paper", "nothing"]).assert(2, &["papers are"]);
}

#[test]
fn bonnie_goes_over_folders_in_rounds() {
    let bench = bench();
    let ended = bench.run(&[
        "bonnie",
        "a",
        "b",
        "--size",
        "1MB",
        "--rounds",
        "1",
        "--ram",
        "10MB",
        "--files",
        "50",
        "--fsync",
        "--csv",
        "b.csv",
        "--report",
        "r.html",
        "--compare-paper",
        "crs4-2004:noral3",
    ]);
    ended.assert(0, &["report: r.html"]);
    ended.says(&["putc", "rewrite", "in order", "delete", "fsync", "Published, MB/s"]);
    let csv = bench.read("b.csv");
    assert!(csv.lines().all(|line| line.split(',').count() == 50) && csv.lines().count() == 2, "{csv}");
    assert!(bench.names().iter().all(|name| !name.contains("bonnie")), "{:?}", bench.names());
    assert_eq!(std::fs::read_dir(bench.path().join("a")).expect("a folder").count(), 0);
    let shown = bench.run(&["show", "1", "--json"]).json();
    assert_eq!(shown["result"]["phases"].as_array().map(Vec::len), Some(12));
    assert_eq!(shown["result"]["settings"]["file to memory"], "0.100");
    bench.run(&["bonnie", "a", "--size", "1000TB"]).assert(1, &["no room for the files in 'a'"]);
}

#[test]
fn bonnie_runs_on_modelled_arrays() {
    let bench = Bench::new();
    bench.write("a.toml", ARRAY);
    bench.write("b.toml", &ARRAY.replace("\"1\"\nmembers", "\"0\"\nmembers"));
    let with = |more: &[&'static str]| bench.run(&[&["bonnie", "--on", "a.toml"][..], more].concat());
    let ended =
        with(&["--on", "b.toml", "--host", "noral3", "--size", "64MiB,128MiB", "--rounds", "2", "--json"]);
    ended.assert(0, &[]);
    let json = ended.json();
    assert_eq!(json["runs"].as_array().map(Vec::len), Some(8));
    let phases = json["runs"][0]["phases"].as_array().expect("phases");
    assert_eq!(
        phases.iter().map(|phase| phase["name"].as_str()).collect::<Vec<_>>(),
        [
            Some("char-write"),
            Some("rewrite"),
            Some("block-write"),
            Some("char-read"),
            Some("block-read"),
            Some("seeks")
        ]
    );
    assert_eq!(json["bonnie"].as_array().map(Vec::len), Some(4));
    assert_eq!(bench.names(), ["a.toml", "b.toml"], "a model keeps nothing unless it is told to");
    with(&["--host", "nothing"]).assert(2, &["there is no host 'nothing'"]);
    with(&[]).assert(2, &["--host ID"]);
    bench.write("two.toml", &format!("{ARRAY}[controllers]\ncount = 2\n"));
    bench.run(&["bonnie", "--on", "two.toml", "--host", "noral3"]).assert(2, &["one volume"]);
    for program in ["bonnie", "streams"] {
        let change = "perc-h800:member_command.read=7us";
        bench.run(&[program, ".", "--set", change]).assert(2, &["--set", "--on ARRAY.toml"]);
    }
}

#[test]
fn streams_run_on_modelled_arrays_of_hosts_and_servers() {
    let bench = Bench::new();
    bench.write("a.toml", ARRAY);
    let with = |more: &[&'static str]| {
        let run = [
            "streams",
            "--on",
            "a.toml",
            "--streams",
            "1,4",
            "--size",
            "16MiB",
            "--block",
            "64KiB",
            "--json",
        ];
        bench.run(&[&run[..], more].concat())
    };
    for host in ["noral3", "rackable"] {
        let ended = with(&["--host", host]).well();
        let steps = ended.json()["streams"].as_array().expect("steps").clone();
        assert_eq!(steps.len(), 2, "{host}");
        for (step, readers) in steps.iter().zip([1, 4]) {
            let rate = step["aggregate_mb_per_s"]["mean"].as_f64().expect("a rate");
            let most = OUTER_MB_PER_S * f64::from(readers.min(2));
            assert!((0.3 * OUTER_MB_PER_S..=most).contains(&rate), "{host} {step}");
            assert!(step["overlap"].as_f64() > Some(0.9), "{host} {step}");
        }
    }
    with(&["--host", "nothing"]).assert(2, &["there is no host 'nothing'"]);
    with(&["--host", "noral3", "--controllers", "2"]).assert(2, &["--controllers 2", "file server"]);
}

#[test]
fn modelled_files_have_the_lengths_that_real_ones_can_have() {
    let bench = Bench::new();
    bench.write("a.toml", ARRAY);
    for host in ["noral3", "rackable"] {
        let with = |size| {
            bench.run(&[
                "streams",
                "--on",
                "a.toml",
                "--host",
                host,
                "--streams",
                "2",
                "--size",
                size,
                "--json",
            ])
        };
        // A whole number of neither sectors nor pages: it ended in a panic.
        let ended = with("1MB").well();
        let rate = ended.json()["streams"][0]["aggregate_mb_per_s"]["mean"].as_f64();
        let can_be = 0.3 * OUTER_MB_PER_S..=2.0 * OUTER_MB_PER_S;
        assert!(rate.is_some_and(|rate| can_be.contains(&rate)), "{host} {rate:?}");
        with("0").assert(2, &["files of 0 B are shorter than 4096 bytes"]);
    }
}

#[test]
fn what_only_a_model_has_is_refused_for_folders_and_the_other_way_round() {
    let bench = bench();
    bench.write("a.toml", ARRAY);
    for program in ["streams", "bonnie"] {
        for model in [["--host", "noral3"], ["--filesystem", "jfs"]] {
            bench.run(&[&[program, "a"], &model[..]].concat()).assert(2, &[model[0], "cannot be used with"]);
        }
    }
    bench.run(&["streams", "a", "--controllers", "2"]).assert(2, &["--controllers", "cannot be used with"]);
    let modelled = ["streams", "--on", "a.toml", "--host", "asa", "--files-per-stream", "2"];
    bench.run(&modelled).assert(2, &["--files-per-stream", "cannot be used with"]);
}

#[test]
fn a_stop_keeps_what_is_finished_and_takes_the_files_away() {
    let bench = bench();
    // Rounds of six seconds, since the seekers get ready for five of them.
    let args = ["bonnie", "a", "--size", "1MB", "--rounds", "100"];
    let mut child = bench.command(&args).stdout(std::process::Stdio::piped()).spawn().expect("it starts");
    let is_finished = || std::fs::metadata(bench.path().join("raidlab.sqlite")).is_ok() && first_run(&bench);
    while !is_finished() {
        assert!(child.try_wait().expect("it can be asked").is_none(), "it runs until it is stopped");
        std::thread::sleep(std::time::Duration::from_millis(200));
    }
    let stopped = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(stopped.expect("there is a kill").success());
    let output = Ended::of(child.wait_with_output().expect("it ends"));
    assert_eq!(output.code, Some(130));
    output.says(&["rewrite"]);
    assert_eq!(std::fs::read_dir(bench.path().join("a")).expect("a folder").count(), 0);
}

/// Whether a run is in the results file.
fn first_run(bench: &Bench) -> bool {
    let listed = bench.run(&["runs", "--json"]);
    listed.code == Some(0) && listed.json()["runs"].as_array().is_some_and(|runs| !runs.is_empty())
}
