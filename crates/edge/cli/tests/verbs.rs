//! The other verbs on the real binary.

mod support;

use support::Bench;

const SIMULATE: [&str; 15] = [
    "simulate",
    "--level",
    "5",
    "--members",
    "6",
    "--drive",
    "st3600057ss",
    "--controller",
    "perc-h800",
    "--ramp",
    "100ms",
    "--run",
    "300ms",
    "--workload",
    "database",
];

fn simulate(more: &[&str]) -> Vec<&'static str> {
    // Arguments live as long as the test; leaking a few words keeps the table short.
    SIMULATE.iter().copied().chain(more.iter().map(|word| &*String::from(*word).leak())).collect()
}

#[test]
fn simulate_prints_a_run_per_iodepth() {
    let bench = Bench::new();
    let ended = bench.run(&simulate(&["--iodepth", "1..8", "--json"]));
    ended.assert(0, &[]);
    let json = ended.json();
    let runs = json["runs"].as_array().expect("there are runs");
    let depths: Vec<_> = runs.iter().map(|run| run["iodepth"].as_u64()).collect();
    assert_eq!(depths, [Some(1), Some(2), Some(4), Some(8)]);
    assert_eq!(runs[0]["world"], "simulated");
    assert_eq!(runs[0]["array"]["level"], "5");
    let words = bench.run(&simulate(&["--queue-depth", "2"]));
    words.assert(0, &[]);
    assert!(words.stdout.contains("storagebench-database"), "{}", words.stdout);
    assert!(!words.stdout.contains('\x1b'), "colour is for terminals");
}

#[test]
fn simulate_gives_the_same_figures_in_the_same_order_on_any_number_of_threads() {
    let bench = Bench::new();
    let runs_on = |threads| {
        let ended = bench.run(&simulate(&["--iodepth", "64,1,16,2", "--threads", threads, "--json"]));
        ended.assert(0, &[]);
        let mut runs = ended.json()["runs"].as_array().expect("there are runs").clone();
        for run in &mut runs {
            // How long the simulation itself took is the one figure that may differ.
            let cost = run["cost"].as_object_mut().expect("a run has a cost");
            assert!(cost.remove("wall_ns").is_some());
        }
        runs
    };
    let one = runs_on("1");
    let depths: Vec<_> = one.iter().map(|run| run["iodepth"].as_u64()).collect();
    assert_eq!(depths, [Some(64), Some(1), Some(16), Some(2)]);
    for threads in ["2", "3", "8"] {
        assert_eq!(runs_on(threads), one, "{threads} threads");
    }
}

#[test]
fn simulate_takes_an_array_file() {
    let bench = Bench::new();
    let file = "schema = 1\nlevel = '10'\nmembers = 4\ndrive = 'st3600057ss'\ncontroller = 'perc-h800'\n\
                write-policy = 'write-through'\n";
    bench.write("array.toml", file);
    let args = [
        "simulate",
        "--array",
        "array.toml",
        "--workload",
        "oltp",
        "--ramp",
        "0s",
        "--run",
        "200ms",
        "--json",
    ];
    // Two papers have an OLTP profile, so the short name does not do.
    bench.run(&args).assert(2, &["oltp"]);
    let args = args.map(|word| if word == "oltp" { "md1200-oltp" } else { word });
    let ended = bench.run(&args);
    ended.assert(0, &[]);
    assert_eq!(ended.json()["runs"][0]["array"]["write_policy"], "write-through");
    bench.write("array.toml", &file.replace("members", "membres"));
    bench.run(&args).assert(2, &["array.toml:3", "'membres'", "'members'"]);
}

const DUAL: &str = "schema = 1\nlevel = '5'\nmembers = 5\ndrive = 'st373455ss'\ncontroller = 'fastt600'\n\
                    write-policy = 'write-back'\nregion = '1GB'\n[controllers]\ncount = 2\n\
                    failover-detection = '1s'\nfail = 'B'\nfail-after = '50ms'\n";

#[test]
fn simulate_tells_of_each_controller_and_of_a_failover() {
    let bench = Bench::new();
    bench.write("dual.toml", DUAL);
    let args = ["simulate", "--array", "dual.toml", "--workload", "fastt600-oltp", "--iodepth", "8"];
    let args = [&args[..], &["--ramp", "0s", "--run", "8s"]].concat();
    let ended = bench.run(&[&args[..], &["--json"]].concat());
    ended.assert(0, &[]);
    let run = &ended.json()["runs"][0];
    assert_eq!(run["array"]["members"], 10, "five in each of two volumes");
    let facts = &run["enclosure"];
    let names: Vec<_> = facts["controllers"].as_array().expect("two").iter().map(|it| &it["name"]).collect();
    assert_eq!(names, ["A", "B"]);
    let failover = &facts["failover"];
    assert_eq!((&failover["controller"], &failover["lost_bytes_max"]), (&"B".into(), &0.into()));
    assert_eq!(failover["detection_ns"], 1_000_000_000_u64);
    assert!(failover["pause_ns"].as_u64() > failover["detection_ns"].as_u64(), "{failover}");
    assert_eq!(failover["requests_retried"], 4, "half of those in flight");
    let words = bench.run(&args);
    words.assert(0, &[]);
    for expected in ["controller A, 1 volumes", "controller B failed 50", "nothing acknowledged lost"] {
        assert!(words.stdout.contains(expected), "{expected}: {}", words.stdout);
    }
    // Without a mirror the loss is told, and an option says when.
    bench.write("dual.toml", &DUAL.replace("count = 2", "count = 2\nmirror = false"));
    let words = bench.run(&[&args[..], &["--fail-after", "100ms"]].concat());
    words.assert(0, &[]);
    assert!(words.stdout.contains("of acknowledged data LOST"), "{}", words.stdout);
    assert!(words.stdout.contains("controller A failed 100"), "{}", words.stdout);
    bench.write("dual.toml", &DUAL.replace("count", "cuont"));
    bench.run(&args).assert(2, &["dual.toml:9", "'cuont'", "'count'"]);
}

#[test]
fn simulate_takes_controllers_by_options() {
    let bench = Bench::new();
    let two = ["--controllers", "2", "--volumes", "2", "--iodepth", "4", "--json"];
    bench.run(&simulate(&two)).assert(2, &["'perc-h800' in pairs", "mirror-link"]);
    let on_fastt600: Vec<_> =
        simulate(&two).into_iter().map(|word| if word == "perc-h800" { "fastt600" } else { word }).collect();
    let ended = bench.run(&on_fastt600);
    ended.assert(0, &[]);
    assert_eq!(ended.json()["runs"][0]["array"]["controller"], "two fastt600 with 2 volumes");
    bench.run(&simulate(&["--fail-after", "1ms"])).assert(2, &["fail-after needs a second controller"]);
    bench.run(&simulate(&["--fail", "B"])).assert(2, &["--fail-after"]);
}

#[test]
fn bounds_decide_the_exit_code() {
    let bench = Bench::new();
    bench.run(&simulate(&["--bound", "iops>=1"])).assert(0, &[]);
    bench.run(&simulate(&["--bound", "mean<=1ns"])).assert(3, &["bound missed: mean<=1ns"]);
    bench.run(&simulate(&["--bound", "mean=1"])).assert(2, &["neither <= nor >="]);
}

#[test]
fn bad_arguments_end_with_2_and_name_what_is_near() {
    let bench = Bench::new();
    let replaced = |from: &str, to: &'static str| -> Vec<&'static str> {
        SIMULATE.iter().map(|word| if *word == from { to } else { word }).collect()
    };
    bench.run(&replaced("st3600057ss", "st360057ss")).assert(2, &["st360057ss", "'st3600057ss'", "hint:"]);
    bench.run(&replaced("perc-h800", "perc-h700")).assert(2, &["perc-h700", "'perc-h800'"]);
    bench.run(&replaced("6", "2")).assert(2, &["RAID 5 over 2 members cannot be", "3 or more"]);
    bench.run(&replaced("database", "databse")).assert(2, &["'databse'", "storagebench-database"]);
    bench.run(&["simulate", "--workload", "database"]).assert(2, &["--level"]);
    bench.run(&["measur"]).assert(2, &["measure"]);
}

#[test]
fn measure_lays_a_file_out_and_refuses_to_write_over_data() {
    let bench = Bench::new();
    let quick = ["--ramp", "5ms", "--run", "20ms", "--json"];
    let measure = |args: &[&str]| bench.run(&[&["measure", "file"], args, &quick].concat());
    measure(&["--workload", "database"]).assert(2, &["'file'", "--size"]);
    let ended = measure(&["--workload", "database,streaming", "--iodepth", "1,4", "--size", "4MiB"]);
    ended.assert(0, &[]);
    assert_eq!(ended.json()["runs"].as_array().map(Vec::len), Some(4));
    assert_eq!(bench.names(), ["file", "raidlab.sqlite"]);

    let precious = "precious data ".repeat(8192);
    bench.write("data", &precious);
    let on_data = |args: &[&str]| bench.run(&[&["measure", "data"], args, &quick].concat());
    on_data(&["--workload", "streaming"]).assert(0, &[]);
    on_data(&["--workload", "database"]).assert(2, &["data", "destroy"]);
    on_data(&["--workload", "database", "--destroy-data", "other"]).assert(2, &["data"]);
    let found = std::fs::read_to_string(bench.path().join("data")).expect("it is there");
    assert!(found == precious, "data were written over without leave");
    on_data(&["--workload", "restore", "--destroy-data", "data"]).assert(0, &[]);
}

#[test]
fn measure_loads_many_targets_with_many_workers() {
    let bench = Bench::new();
    std::fs::create_dir(bench.path().join("folder")).expect("it can be made");
    let quick = ["--ramp", "5ms", "--run", "30ms", "--json", "--workload", "database", "--iodepth", "4"];
    let args =
        ["measure", "folder", "file", "null:1GiB", "--size", "4MiB", "--workers", "2", "--cpus", "0-0"];
    let ended = bench.run(&[&args[..], &quick].concat());
    ended.assert(0, &[]);
    assert!(bench.path().join("folder/raidlab-test-file").exists());
    let run = &ended.json()["runs"][0];
    assert_eq!(
        (run["target"].as_str(), run["iodepth"].as_u64()),
        (Some("folder, file, null:1GiB"), Some(24))
    );
    let load = &run["load"];
    let figures =
        ["targets", "workers", "iodepth_per_target"].map(|key| load[key].as_u64().expect("a number"));
    assert_eq!(figures, [3, 2, 4]);
    let requests = |result: &serde_json::Value| result["total"]["requests"].as_u64().expect("a number");
    let targets = run["targets"].as_array().expect("one for each");
    assert_eq!(targets.iter().map(requests).sum::<u64>(), requests(run));
    assert!(targets.iter().all(|target| requests(target) > 0 && target.get("error").is_none()));

    for engine in ["io_uring", "psync", "buffered"] {
        let iodepth = if engine == "io_uring" { "4" } else { "1" };
        let more = ["measure", "file", "--engine", engine, "--iodepth", iodepth];
        let ended = bench.run(&[&more[..], &quick[..7]].concat());
        ended.assert(0, &[]);
        let settings = ended.json()["runs"][0]["settings"].clone();
        assert!(settings["engine"].as_str().is_some_and(|used| used.starts_with(engine)), "{settings}");
        assert_eq!(settings["page cache"] == "in use", engine == "buffered");
    }
    bench
        .run(&["measure", "file", "--engine", "libaio", "--workload", "database"])
        .assert(2, &["libaio", "psync"]);
    bench.run(&[&["measure", "null:x"], &quick[..]].concat()).assert(2, &["null:x", "null:1GiB"]);
    bench.run(&[&["measure", "file", "file"], &quick[..]].concat()).assert(2, &["twice", "--workers"]);
}

const CSV: &str = "id,place,system,raid,drives,drive,write_policy,read_policy,io_policy,workload,block_kib,\
                   queue_depth,metric,value\n\
                   a,T1,perc-h800/md1200,5,6,st3600057ss,write-back,adaptive,direct,md1200-oltp,8,16,iops,1200\n\
                   b,T1,perc-h800/md1200,5,6,st3600057ss,write-back,adaptive,direct,md1200-oltp,8,16,mb_per_s,9.8\n";

#[test]
fn reproduce_compares_figures_of_a_file() {
    let bench = Bench::new();
    bench.write("mine.csv", CSV);
    let args = ["reproduce", "--published", "mine.csv", "--ramp", "100ms", "--run", "300ms", "--json"];
    let ended = bench.run(&args);
    ended.assert(0, &[]);
    let json = ended.json();
    assert_eq!(json["schema"], 1);
    assert_eq!(json["configurations"].as_array().map(Vec::len), Some(1), "both rows are one configuration");
    for (index, (id, metric, published)) in
        [("a", "iops", 1200.0), ("b", "mb_per_s", 9.8)].into_iter().enumerate()
    {
        let row = &json["rows"][index];
        assert_eq!((row["id"].as_str(), row["metric"].as_str()), (Some(id), Some(metric)));
        assert_eq!(row["published"].as_f64(), Some(published));
        let predicted = row["predicted"].as_f64().expect("a number");
        let error = row["error_pct"].as_f64().expect("a number");
        assert!((error - 100.0 * (predicted - published) / published).abs() < 1e-6);
        assert_eq!(row["fitted"], false);
    }
    for name in ["median_abs_error_pct", "p90_abs_error_pct"] {
        assert!(json["summary"][name].is_number(), "{name}");
    }
    assert_eq!(json["summary"]["rows"], 2);
    assert_eq!(json["places"][0]["summary"]["rows"], 2);
    assert!(json["places"][0]["kendall_tau"].is_null(), "two metrics of one row each have no order");
    let words = bench.run(&[&args[..args.len() - 1], &["--report", "mine.html"]].concat());
    words.assert(0, &["report: mine.html"]);
    assert!(words.stdout.contains("Kendall's tau"), "{}", words.stdout);
    let page = std::fs::read_to_string(bench.path().join("mine.html")).expect("it was written");
    assert!(page.contains("id=\"figure-1b\""), "every place has two charts");
    let bounded = bench.run(&[&args[..], &["--max-median-error", "0.0001"]].concat());
    bounded.assert(3, &["bound missed", "median"]);
}

#[test]
fn reproduce_reports_every_row_that_it_cannot_predict() {
    let bench = Bench::new();
    let bad = CSV.replacen("st3600057ss", "st360057ss", 1).replacen(
        "T1,perc-h800/md1200,5,6,st3600057ss",
        "T1,perc-h700/md1200,5,6,st3600057ss",
        1,
    );
    bench.write("mine.csv", &bad);
    let ended = bench.run(&["reproduce", "--published", "mine.csv"]);
    ended.assert(
        2,
        &[
            "2 of its rows",
            "row 'a', column drive: 'st360057ss'",
            "nearest known: 'st3600057ss'",
            "row 'b', column system: 'perc-h700'",
            "nearest known: 'perc-h800'",
        ],
    );
    assert!(ended.stdout.is_empty());
}

#[test]
fn reproduce_lists_papers_and_knows_their_tables() {
    let bench = Bench::new();
    let list = bench.run(&["reproduce", "list"]);
    list.assert(0, &[]);
    assert!(list.stdout.contains("md1200-2011") && list.stdout.contains("Table 4"), "{}", list.stdout);
    bench.run(&["reproduce", "md1200-2012"]).assert(2, &["'md1200-2011'"]);
    bench.run(&["reproduce", "md1200-2011", "--table", "99"]).assert(2, &["Table 4"]);
    let args = ["reproduce", "md1200-2011", "--table", "8", "--ramp", "50ms", "--run", "100ms"];
    let ended = bench.run(&args);
    ended.assert(0, &[]);
    for word in ["md1200.t8.r5.md1200.sas", "assumed:", "seed 2011"] {
        assert!(ended.stdout.contains(word), "'{word}' is not in\n{}", ended.stdout);
    }
}

#[test]
fn a_change_of_the_catalogue_that_cannot_be_is_named() {
    let bench = Bench::new();
    let set = |change: &str| ["reproduce", "md1200-2011", "--set", change].map(str::to_owned);
    for (change, said) in [
        ("perc-h800:copy.rate", "is no change"),
        ("perc-h80:copy.rate=1GB/s", "did you mean 'perc-h800'?"),
        ("perc-h800:copy.rat=1GB/s", "did you mean 'rate'?"),
        ("perc-h800:copy.rate=fast", "must be a rate"),
    ] {
        let args = set(change);
        bench.run(&args.each_ref().map(String::as_str)).assert(2, &[said]);
    }
}

#[test]
fn a_drive_of_ones_own_stands_in_an_array_file() {
    let bench = Bench::new();
    let known = include_str!("../../../../catalog/drives/wd1600aajs.toml");
    bench.write("drive.toml", &known.replace("id = \"wd1600aajs\"", "id = \"mine\""));
    let array = "schema = 1\nlevel = \"5\"\nmembers = 4\ndrive = \"mine\"\ncontroller = \"lsi-1068\"\n\
                 write-policy = \"write-through\"\n";
    bench.write("array.toml", array);
    let ended = bench.run(&["catalog", "--catalog", "drive.toml", "mine"]);
    ended.assert(0, &[]);
    assert!(ended.stdout.contains("mechanics.rpm = 7200") && ended.stdout.contains("link sata-3g"));
    let mut args = vec!["simulate", "--array", "array.toml", "--workload", "fastt600-oltp", "--ramp", "10ms"];
    args.extend(["--run", "100ms", "--iodepth", "4"]);
    bench.run(&args).assert(2, &["there is no drive 'mine'"]);
    args.extend(["--catalog", "drive.toml", "--set", "mine:mechanics.rpm=10000"]);
    bench.run(&args).assert(0, &[]);
    bench.run(&["catalog", "--catalog", "none.toml"]).assert(2, &["none.toml cannot be read"]);
}

#[test]
fn reproduce_judges_the_claims_of_a_file() {
    let bench = Bench::new();
    let system = "system=lsi-1068 raid=jbod drives=1 drive=wd1600aajs";
    let claims = format!(
        "id,paper,workload,a,b,ratio,kind\n\
         c1,primergy-2008,storagebench-restore,{system} disk_cache=on,{system} disk_cache=off,11,up-to\n\
         c2,primergy-2008,storagebench-restore,{system} disk_cache=off,{system} disk_cache=on,11,about\n\
         c3,another,storagebench-restore,{system},absolute mb_per_s,11,about\n"
    );
    bench.write("mine.csv", &claims);
    let args = ["reproduce", "primergy-2008", "--claims", "mine.csv", "--ramp", "300ms", "--run", "1s"];
    let text = bench.run(&args);
    text.assert(0, &[]);
    for (id, verdict) in [("c1 ", "within 10 %"), ("c2 ", "missed")] {
        let line = text.stdout.lines().find(|line| line.starts_with(id));
        assert!(line.is_some_and(|line| line.contains(verdict)), "{id}: {verdict}\n{}", text.stdout);
    }
    assert!(!text.stdout.contains("c3 "), "a claim of another paper\n{}", text.stdout);
    let ended = bench.run(&[&args[..], &["--json"]].concat());
    ended.assert(0, &[]);
    let json = ended.json();
    assert!(json.get("rows").is_none(), "the paper has claims only");
    assert_eq!(json["claims"]["summary"]["claims"], 2);
    assert_eq!(json["claims"]["claims"][1]["verdict"], "missed");
    assert_eq!(json["claims"]["claims"][0]["parts"][0]["a_configurations"].as_array().map(Vec::len), Some(4));
    bench.run(&[&args[..], &["--max-median-error", "1"]].concat()).assert(3, &["bound missed"]);
    let nothing = bench.run(&["reproduce", "md1200-2011", "--claims", "mine.csv"]);
    nothing.assert(2, &["holds no claims of paper 'md1200-2011'"]);
}

#[test]
fn lists_and_entries_are_shown_in_words_and_json() {
    let bench = Bench::new();
    let rows: [(&[&str], &str); 5] = [
        (&["workloads"], "storagebench-file-server"),
        (&["workloads", "database"], "random 67/33"),
        (&["catalog"], "perc-h800"),
        (&["catalog", "st3600057ss"], "data sheet"),
        (&["doctor"], "io_uring"),
    ];
    for (args, word) in rows {
        let words = bench.run(args);
        words.assert(0, &[]);
        assert!(words.stdout.contains(word), "'{word}' is not in\n{}", words.stdout);
        let json = bench.run(&[args, &["--json"]].concat());
        json.assert(0, &[]);
        assert_eq!(json.json()["schema"], 1, "{args:?}");
    }
    bench.run(&["catalog", "st360057ss"]).assert(2, &["'st3600057ss'"]);
    bench.run(&["workloads", "databse"]).assert(2, &["storagebench-database"]);
}

#[test]
fn a_closed_pipe_is_no_failure() {
    use std::process::Stdio;
    let bench = Bench::new();
    let mut child = bench
        .command(&["workloads", "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("built");
    drop(child.stdout.take());
    let ended = child.wait_with_output().expect("it ends");
    assert_eq!(ended.status.code(), Some(0));
    assert!(ended.stderr.is_empty(), "{}", String::from_utf8_lossy(&ended.stderr));
}

#[test]
fn errors_are_json_where_results_are() {
    let bench = Bench::new();
    let ended = bench.run(&["catalog", "none", "--json"]);
    assert_eq!(ended.code, Some(2));
    let json: serde_json::Value = serde_json::from_str(&ended.stderr).expect("JSON");
    assert_eq!(json["failure"][0]["kind"], "error");
}

#[test]
fn help_documents_the_exit_codes() {
    let ended = Bench::new().run(&["--help"]);
    ended.assert(0, &[]);
    for line in
        ["Exit codes:", "  2    bad usage", "  3    done, but a bound was missed", "  130  interrupted"]
    {
        assert!(ended.stdout.contains(line), "'{line}' is not in\n{}", ended.stdout);
    }
}

#[test]
fn a_results_file_that_is_not_there_is_not_made() {
    let bench = Bench::new();
    bench.run(&["runs"]).assert(2, &["raidlab.sqlite", "hint:"]);
    assert!(bench.names().is_empty());
}

#[test]
fn soak_counts_over_runs_and_ends_with_1_where_a_bit_has_changed() {
    let bench = Bench::new();
    let soak = ["soak", "soaked", "--size", "1MiB", "--passes", "2", "--buffered", "--json"];
    for passes in [2, 4] {
        let ended = bench.run(&soak);
        ended.assert(0, &[]);
        let target = &ended.json()["targets"][0];
        assert_eq!((target["passes"].as_u64(), target["faults_total"].as_u64()), (Some(passes), Some(0)));
        assert_eq!(target["read_bytes"].as_u64(), Some(passes << 20));
        assert_eq!(target["written_bytes"].as_u64(), Some(1 << 20));
    }
    let path = bench.path().join("soaked");
    let mut data = std::fs::read(&path).expect("it was laid out");
    data[70_000] ^= 0x10;
    std::fs::write(&path, data).expect("it can be written");
    let ended = bench.run(&soak[..soak.len() - 1]);
    ended.assert(1, &[]);
    assert!(ended.stdout.contains("byte 69632: 1 bit has changed"), "{}", ended.stdout);
    let missing = bench.run(&["soak", "nothing-there"]);
    missing.assert(2, &["--size"]);
}

#[test]
fn soak_cuts_the_power_of_storage_and_finds_what_it_lost() {
    let bench = Bench::new();
    let soak = |passes, command| {
        let (size, power) = (["--size", "1MiB"], ["--power-cut", command]);
        let rest = ["--passes", passes, "--block", "64KiB", "--buffered"];
        bench.run(&[&["soak", "soaked"][..], &size, &power, &rest].concat())
    };
    let well = soak("2", "cp \"$RAIDLAB_TARGET\" before");
    well.assert(0, &[]);
    assert!(well.stdout.contains("power was cut 1 times; 0 of the faults"), "{}", well.stdout);
    // What was in the first blocks before the cut comes back after it: writes that were acknowledged are lost.
    let lying = soak("2", "dd if=before of=\"$RAIDLAB_TARGET\" bs=64k count=1 conv=notrunc 2>&1");
    lying.assert(1, &[]);
    assert!(lying.stdout.contains("a write is lost"), "{}", lying.stdout);
    soak("1", "exit 7").assert(1, &["the command that cuts the power, 'exit 7', failed"]);
}

#[test]
fn simulate_takes_requests_at_a_rate_and_tells_how_late_they_were() {
    let bench = Bench::new();
    let ended = bench.run(&simulate(&["--rate", "500", "--arrival", "fixed", "--json"]));
    ended.assert(0, &[]);
    let run = &ended.json()["runs"][0];
    assert_eq!(run["iodepth"], 256, "in flight at most");
    let started = run["lag"]["started"].as_u64().expect("an open loop has arrivals");
    assert!(started.abs_diff(150) <= 1, "{started}");
    let overrun = bench.run(&simulate(&["--rate", "100000", "--in-flight", "4"]));
    overrun.assert(0, &[]);
    assert!(overrun.stdout.contains("NEVER STARTED"), "{}", overrun.stdout);
    bench.run(&simulate(&["--arrival", "fixed"])).assert(2, &["--rate"]);
    bench.run(&simulate(&["--rate", "0"])).assert(2, &["'0' is no rate"]);
}

#[test]
fn import_makes_workload_files_that_run() {
    let bench = Bench::new();
    let job = "[global]\nioengine=libaio\ndirect=1\nsize=1m\nruntime=1\n[a]\nrw=randread\nbs=8k\niodepth=4\n\
               [b]\nrw=write\n[c]\nstonewall\nrw=read\n";
    bench.write("job.fio", job);
    let many = bench.run(&["import", "fio", "job.fio"]);
    many.assert(2, &["2 steps", "--output"]);
    let ended = bench.run(&["import", "fio", "job.fio", "-o", "made"]);
    ended.assert(0, &[]);
    let text = "raidlab measure TARGET --workload made/job.toml --run 1s --size 2097152\n\
                raidlab measure TARGET --workload made/c.toml --iodepth 1 --run 1s --size 1048576\n";
    assert_eq!(ended.stdout, text);
    let shown = bench.run(&["workloads", "made/job.toml"]);
    shown.assert(0, &[]);
    assert!(shown.stdout.contains("part a") && shown.stdout.contains("every place once"), "{}", shown.stdout);
    let run =
        ["measure", "null:2MiB", "--workload", "made/job.toml", "--run", "50ms", "--ramp", "1ms", "--json"];
    let ran = bench.run(&run);
    ran.assert(0, &[]);
    let parts = ran.json()["runs"][0]["parts"].as_array().expect("parts have figures").clone();
    assert_eq!(parts.iter().map(|part| part["name"].as_str()).collect::<Vec<_>>(), [Some("a"), Some("b")]);
    bench.run(&["import", "fio", "job.fio", "-o", "made"]).assert(2, &["cannot write"]);
    bench.write("bad.fio", "[a]\nrw=read\nzonemode=zbd\n");
    bench.run(&["import", "fio", "bad.fio"]).assert(2, &["bad.fio:3: zonemode has no counterpart here"]);
}

#[test]
fn traces_are_imported_and_written_for_fio() {
    let bench = Bench::new();
    bench.write("web.spc", "0,16,8192,W,1.5\n1,0,512,R,1.25\n0,32,4096,r,2.0\n");
    let import = bench.run(&["import", "trace", "web.spc", "-o", "web.parquet"]);
    import.assert(0, &["warning: 1 of 3 requests were not in the order of their times"]);
    for text in [
        "3 lines, format spc",
        "2 reads, 1 writes",
        "750 ms",
        "device 1: asu1, 1 reads, 0 writes, up to 512 B",
    ] {
        assert!(import.stdout.contains(text), "{text} is not in {}", import.stdout);
    }
    bench
        .run(&["import", "trace", "web.spc", "-o", "web.parquet"])
        .assert(2, &["remove it, or name another"]);
    let json =
        bench.run(&["import", "trace", "web.spc", "--format", "spc", "--device", "asu0", "--json"]).json();
    assert_eq!((&json["format"], &json["summary"]["span_ns"]), (&"spc".into(), &500_000_000.into()));
    let iolog = bench.run(&["export", "iolog", "web.parquet", "--file", "/dev/x,/dev/y"]);
    iolog.assert(0, &[]);
    let lines: Vec<_> = iolog.stdout.lines().collect();
    assert_eq!(
        lines[5..8],
        ["1 /dev/y read 0 512", "250001 /dev/x write 8192 8192", "750001 /dev/x read 16384 4096"]
    );
    bench.write("again.log", &iolog.stdout);
    let again = bench.run(&["import", "trace", "again.log", "--json"]).json();
    assert_eq!((&again["format"], &again["summary"]["span_ns"]), (&"fio3".into(), &750_000_000.into()));
    bench.run(&["import", "trace", "web.spc", "--format", "msr"]).assert(2, &["web.spc:1: expected"]);
    bench.run(&["import", "trace", "web.spc", "--format", "x"]).assert(2, &["'x' is none of fio2"]);
    bench.run(&["export", "iolog", "web.spc"]).assert(2, &["web.spc"]);
}

/// A trace of 300 reads and 100 writes of 4 KiB over two devices, a request every 250 us.
fn bench_with_trace() -> Bench {
    let bench = Bench::new();
    let line = |n: u64| {
        let (disk, kind) = (n % 2, if n.is_multiple_of(4) { "Write" } else { "Read" });
        format!("{},h,{disk},{kind},{},4096,10\n", 1000 + n * 2500, n * 7919 % 2000 * 4096)
    };
    bench.write("two.csv", &(0..400).map(line).collect::<String>());
    bench.run(&["import", "trace", "two.csv", "-o", "two.parquet"]).assert(0, &[]);
    bench
}

#[test]
fn traces_are_replayed_on_targets() {
    let bench = bench_with_trace();
    let on = |targets: &[&'static str], more: &[&'static str]| {
        bench.run(&[&["measure"], targets, &["--trace", "two.parquet", "--json"], more].concat())
    };
    let both = on(&["null:8MiB", "null:9MiB"], &["--timing", "scaled:0.5"]);
    both.assert(0, &[]);
    let run = both.json()["runs"][0].clone();
    assert_eq!((&run["workload"], &run["read"]["requests"]), (&"two".into(), &300.into()));
    assert_eq!((&run["write"]["requests"], &run["lag"]["started"]), (&100.into(), &400.into()));
    let each = |index: usize| run["targets"][index]["total"]["requests"].clone();
    assert_eq!((each(0), each(1)), (200.into(), 200.into()));
    let window_ns = run["window_ns"].as_u64().unwrap();
    assert!((49_000_000..500_000_000).contains(&window_ns), "half of 99.75 ms, and lag: {window_ns}");
    for name in ["lag_ns_mean", "lag_ns_p50", "lag_ns_p99", "lag_ns_max", "service_ns_mean"] {
        assert!(run["lag"][name].is_number(), "{name}");
    }
    assert_eq!(
        (&run["settings"]["trace"], &run["settings"]["timing"]),
        (&"two.parquet".into(), &"scaled:0.5".into())
    );
    assert!(run["steady"].is_null());
    let one = on(&["null:8MiB"], &["--timing", "none", "--map", "h.1=0", "--iodepth", "4"]).json();
    assert_eq!(
        (&one["runs"][0]["total"]["requests"], &one["runs"][0]["lag"].is_null()),
        (&200.into(), &true)
    );
    assert_eq!(one["runs"][0]["settings"]["devices left out"], "h.0");
}

#[test]
fn a_trace_is_written_only_where_it_may_be_and_fits() {
    let bench = bench_with_trace();
    let on = |more: &[&'static str]| {
        bench.run(
            &[&["measure", "--trace", "two.parquet", "--timing", "none", "--map", "h.0=0"], more].concat(),
        )
    };
    bench.write("data", &"precious ".repeat(2_000_000));
    on(&["data"]).assert(2, &["data"]);
    assert!(bench.path().join("data").metadata().unwrap().len() == 18_000_000);
    on(&["new", "--size", "10MiB", "--remove"]).assert(0, &[]);
    on(&["null:1MiB"]).assert(2, &["device h.0 of the trace goes up to", "--fit wrap"]);
    for fit in ["wrap", "scale", "clip"] {
        on(&["null:1MiB", "--fit", fit]).assert(0, &[]);
    }
    on(&["null:8MiB", "null:9MiB"]).assert(2, &["no request of the trace goes to target 1", "--map"]);
    let measure = |more: &[&'static str]| bench.run(&[&["measure", "null:8MiB", "--trace"], more].concat());
    measure(&["two.parquet"]).assert(2, &["the trace has 2 devices (h.0, h.1), and there are 1 targets"]);
    measure(&["two.parquet", "--map", "x=0"]).assert(2, &["the trace has no device 'x', only h.0, h.1"]);
    measure(&["two.parquet", "--map", "h.0=1"]).assert(2, &["there is no target 1 for device 'h.0'"]);
    measure(&["two.csv"]).assert(2, &["'raidlab import trace FILE -o TRACE.parquet'"]);
    measure(&["two.parquet", "--workload", "database"]).assert(2, &["cannot be used with"]);
    measure(&["two.parquet", "--timing", "scaled:0"]).assert(2, &["write original, scaled:2.0"]);
}

#[test]
fn traces_are_replayed_on_a_modelled_array_at_their_times() {
    let bench = bench_with_trace();
    let array = "simulate --level 5 --members 4 --drive st3600057ss --controller perc-h800 --trace two.parquet --map h.0=0";
    let with = |more: &[&'static str]| {
        let args: Vec<&str> = array.split(' ').chain(more.iter().copied()).collect();
        let ended = bench.run(&[&args[..], &["--json"]].concat());
        ended.assert(0, &[]);
        ended.json()["runs"][0].clone()
    };
    let original = with(&[]);
    assert_eq!((&original["read"]["requests"], &original["write"]["requests"]), (&100.into(), &100.into()));
    assert_eq!(original["lag"]["lag_ns_max"], 0, "in virtual time nothing is late while there are places");
    let scaled = with(&["--timing", "scaled:100"]);
    let window = |run: &serde_json::Value| run["window_ns"].as_u64().unwrap();
    assert!((9_950_000_000..10_100_000_000).contains(&window(&scaled)), "{}", window(&scaled));
    let narrow = with(&["--iodepth", "1"]);
    assert!(narrow["lag"]["lag_ns_mean"].as_f64().unwrap() > 1e6, "one place is too few: {}", narrow["lag"]);
    let cut = with(&["--run", "40ms"]);
    assert!(cut["total"]["requests"].as_u64().unwrap() < 200);
    let busy = original["settings"]["busy drives, most"].as_str().unwrap().to_owned();
    assert!(!busy.contains("NaN") && busy != "0.0 %", "{busy}");
}

#[test]
fn a_verified_load_says_how_many_blocks_were_right() {
    let bench = Bench::new();
    let measure = ["measure", "t.dat", "--size", "4MiB", "--run", "300ms", "--ramp", "0s", "--iodepth", "8"];
    let with = |more: &[&'static str]| bench.run(&[&measure[..], more].concat());
    let ended = with(&["--workload", "database", "--verify", "--workers", "2", "--buffered", "--json"]);
    ended.assert(0, &[]);
    let settings = ended.json()["runs"][0]["settings"].clone();
    assert!(settings.to_string().contains("blocks read were as written"), "{settings}");
    with(&["--workload", "storagebench-web-server", "--verify"])
        .assert(1, &["there is nothing to verify on 't.dat'"]);
}

const RISK: [&str; 7] = ["risk", "--level", "5", "--members", "8", "--drive", "st32000444ss"];

#[test]
fn the_chances_of_an_array_come_in_words_and_json() {
    let bench = Bench::new();
    let words = bench.run(&[&RISK[..], &["--trials", "20000"]].concat());
    words.assert(0, &[]);
    for part in ["by the Markov model", "agree", "Data loss in one rebuild"] {
        assert!(words.stdout.contains(part), "'{part}' is not in\n{}", words.stdout);
    }
    let fleet = ["--trials", "20000", "--fleet", "100000", "--spares", "1", "--check-days", "7", "--json"];
    let ended = bench.run(&[&RISK[..], &fleet].concat());
    ended.assert(0, &[]);
    let json = ended.json();
    assert_eq!(json["fleet"]["arrays"].as_u64(), Some(11_111));
    let [chance, drawn, width] = ["/markov/per_year", "/drawn/per_year", "/drawn/per_year_half_width"]
        .map(|place| json.pointer(place).and_then(serde_json::Value::as_f64).expect("a number"));
    assert!(chance > 0.0 && (chance - drawn).abs() <= width, "{chance} against {drawn} +- {width}");
}

#[test]
fn what_is_not_known_is_asked_for() {
    let bench = Bench::new();
    let bare = ["risk", "--level", "6", "--members", "8"];
    bench.run(&bare).assert(2, &["annual failure rate", "--afr"]);
    bench.run(&[&bare[..], &["--drive", "wd1000bb", "--afr", "120"]].concat()).assert(2, &["below 100 %"]);
    bench.run(&[&bare[..], &["--drive", "pliant-lb150"]].concat()).assert(2, &["--afr"]);
    bench.run(&["risk", "--level", "6", "--members", "3", "--drive", "st32000444ss"]).assert(2, &["RAID 6"]);
    bench.run(&[&RISK[..], &["--fleet", "3"]].concat()).assert(2, &["at least one array"]);
}
