//! The other verbs on the real binary.

use crate::support::Bench;

#[test]
fn measure_lays_a_file_out_and_refuses_to_write_over_data() {
    let bench = Bench::new();
    let quick = ["--ramp", "5ms", "--run", "20ms", "--json"];
    let measure = |args: &[&str]| bench.run(&[&["measure", "file"], args, &quick].concat());
    measure(&["--workload", "database"]).assert(2, &["'file'", "--size"]);
    let ended = measure(&["--workload", "database,streaming", "--iodepth", "1,4", "--size", "4MiB"]).well();
    assert_eq!(ended.json()["runs"].as_array().map(Vec::len), Some(4));
    assert_eq!(bench.names(), ["file", "raidlab.sqlite"]);

    let precious = "precious data ".repeat(8192);
    bench.write("data", &precious);
    let on_data = |args: &[&str]| bench.run(&[&["measure", "data"], args, &quick].concat());
    on_data(&["--workload", "streaming"]).assert(0, &[]);
    on_data(&["--workload", "database"]).assert(2, &["data", "destroy"]);
    on_data(&["--workload", "database", "--destroy-data", "other"]).assert(2, &["data"]);
    let found = bench.read("data");
    assert!(found == precious, "data were written over without leave");
    on_data(&["--workload", "restore", "--destroy-data", "data"]).assert(0, &[]);
}

#[test]
fn measure_loads_many_targets_with_many_workers() {
    let bench = Bench::new();
    std::fs::create_dir(bench.path().join("folder")).expect("it can be made");
    let quick = ["--ramp", "5ms", "--run", "1s", "--json", "--workload", "database", "--iodepth", "4"];
    let args =
        ["measure", "folder", "file", "null:1GiB", "--size", "4MiB", "--workers", "2", "--cpus", "0-0"];
    let ended = bench.done(&[&args[..], &quick].concat());
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
        let settings = bench.done(&[&more[..], &quick[..7]].concat()).json()["runs"][0]["settings"].clone();
        assert!(settings["engine"].as_str().is_some_and(|used| used.starts_with(engine)), "{settings}");
        assert_eq!(settings["page cache"] == "in use", engine == "buffered");
    }
    bench
        .run(&["measure", "file", "--engine", "libaio", "--workload", "database"])
        .assert(2, &["libaio", "psync"]);
    bench.run(&[&["measure", "null:x"], &quick[..]].concat()).assert(2, &["null:x", "null:1GiB"]);
    bench.run(&[&["measure", "file", "file"], &quick[..]].concat()).assert(2, &["twice", "--workers"]);
}
#[test]
fn a_drive_of_ones_own_stands_in_an_array_file() {
    let bench = Bench::new();
    let known = include_str!("../../../../../catalog/drives/wd1600aajs.toml");
    bench.write("drive.toml", &known.replace("id = \"wd1600aajs\"", "id = \"mine\""));
    let array = "schema = 1\nlevel = \"5\"\nmembers = 4\ndrive = \"mine\"\ncontroller = \"lsi-1068\"\n\
                 write-policy = \"write-through\"\n";
    bench.write("array.toml", array);
    let ended = bench.done(&["catalog", "--catalog", "drive.toml", "mine"]);
    assert!(ended.stdout.contains("mechanics.rpm = 7200") && ended.stdout.contains("link sata-3g"));
    let mut args = vec!["simulate", "--array", "array.toml", "--workload", "fastt600-oltp", "--ramp", "10ms"];
    args.extend(["--run", "100ms", "--iodepth", "4"]);
    bench.run(&args).assert(2, &["there is no drive 'mine'"]);
    args.extend(["--catalog", "drive.toml", "--set", "mine:mechanics.rpm=10000"]);
    bench.done(&args);
    bench.run(&["catalog", "--catalog", "none.toml"]).assert(2, &["none.toml cannot be read"]);
    std::fs::create_dir(bench.path().join("empty")).expect("a folder");
    bench.run(&["catalog", "--catalog", "empty"]).assert(2, &["empty", "no .toml files"]);
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
        let words = bench.done(args);
        assert!(words.stdout.contains(word), "'{word}' is not in\n{}", words.stdout);
        let json = bench.done(&[args, &["--json"]].concat());
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
    for (args, said, hint) in [
        (&["catalog", "none", "--json"][..], "'none'", "raidlab catalog"),
        (&["show", "x", "--json"], "invalid value 'x'", "--help"),
        (&["--json", "shwo", "1"], "unrecognized subcommand 'shwo'", "did you mean 'show'?"),
        (&["show", "--json"], "<RUNS>", "--help"),
        (&["risk", "--afr", "-1", "--json"], "'-1' is negative", ""),
    ] {
        let ended = bench.run(args);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""), "{args:?}");
        let json: serde_json::Value = serde_json::from_str(&ended.stderr).expect("JSON");
        let lines = json["failure"].as_array().expect("lines");
        let (first, last) = (&lines[0], &lines[lines.len() - 1]["text"].to_string());
        assert_eq!(first["kind"], "error", "{json}");
        assert!(first["text"].to_string().contains(said) && last.contains(hint), "{json}");
        assert!(!first["text"].to_string().contains("Usage"), "{json}");
    }
    bench.run(&["show", "x", "--", "--json"]).assert(2, &["error: "]);
}

#[test]
fn help_documents_the_exit_codes() {
    Bench::new().run(&["--help"]).well().says(&[
        "Exit codes:",
        "  2    bad usage",
        "  3    done, but a bound was missed",
        "  130  interrupted",
    ]);
}

#[test]
fn verbs_are_in_groups_and_what_is_misspelt_is_named() {
    let bench = Bench::new();
    let help = bench.run(&["--help"]);
    for line in
        ["Measure: raidlab measure ", "Model: raidlab plan ", "Arrays: ", "Results: ", "More: ", "  runs "]
    {
        assert!(
            help.stdout.lines().any(|said| said.starts_with(line)),
            "'{line}' is not in\n{}",
            help.stdout
        );
    }
    let measure = ["measure", "null:1MiB", "--run", "20ms", "--ramp", "0s"];
    let with = |more: &[&'static str]| bench.run(&[&measure[..], more].concat());
    with(&["-w", "databse"]).assert(2, &["did you mean 'storagebench-database'"]);
    with(&["-w", "database", "--engine", "nul"]).assert(2, &["--engine", "'nul'"]);
    with(&["-w", "database", "--block-size", "4"]).assert(2, &["--block-size", "'4'", "4KiB"]);
    for (typed, meant) in [("measur", "measure"), ("--jso", "--json")] {
        let refused = bench.run(&[typed]);
        refused.assert(2, &[&format!("hint: did you mean '{meant}'?")]);
        assert!(!refused.stderr.contains("tip:"), "{}", refused.stderr);
    }
    bench.run(&["measure", "no/where", "--size", "1MiB", "-w", "database"]).assert(2, &["no/where"]);
    bench
        .run(&["plan", "--app", "database", "--usable", "400"])
        .assert(2, &["--usable", "'400': give a unit, as 400GB or 400KiB"]);
    let policy =
        ["simulate", "--level", "5", "--members", "4", "--drive", "st3600057ss", "--controller", "perc-h800"];
    bench
        .run(&[&policy[..], &["-w", "database", "--write-policy", "writeback"]].concat())
        .assert(2, &["--write-policy", "did you mean 'write-back'?"]);
}

#[test]
fn what_does_not_exist_is_named_each_and_what_does_beside() {
    let bench = Bench::new();
    let ended = bench.run(&["simulate", "--levl", "5", "--membrs=6", "--qqq", "-w", "database"]);
    ended.assert(2, &["'--levl'", "'--membrs' found, did you mean '--members'?", "'--qqq' found"]);
    let measure = ["measure", "null:1MiB", "-w", "database", "--run", "20ms", "--ramp", "0s"];
    bench.done(&measure);
    bench.done(&measure);
    bench
        .run(&["show", "study:9"])
        .assert(2, &["no study run 9", "it has runs 1 to 2 and study runs 1 to 2"]);
    bench.run(&["show", "nosuch.toml"]).assert(2, &["names no runs", "'raidlab runs' lists them"]);
    let ended = bench.done(&["show", "2..4"]);
    assert!(ended.stderr.contains("note: the results file has no runs 3 to 4"), "{}", ended.stderr);
}

#[test]
fn runs_fit_a_terminal() {
    let bench = Bench::new();
    let name = "a-target-with-a-name-that-is-far-too-long-for-it.dat";
    let measure = ["measure", name, "--size", "1MiB", "-w", "database", "--run", "20ms", "--ramp", "0s"];
    bench.done(&measure);
    let listed = |columns: &str| {
        let ran = bench.command(&["runs"]).env("COLUMNS", columns).output().expect("the binary was built");
        String::from_utf8(ran.stdout).expect("text")
    };
    // A disk that others load may end no request in so short a window: figures are asked of virtual time.
    let array = ["--level", "5", "--members", "4", "--drive", "st3600057ss", "--controller", "perc-h800"];
    bench.done(
        &[&["simulate", "-w", "database", "--run", "1s", "--db", "raidlab.sqlite"], &array[..]].concat(),
    );
    let shown = bench.run(&["show", "1..2"]).stdout;
    let is_head = |line: &&str| line.starts_with("run ") || line.starts_with("  ");
    assert!(shown.lines().filter(is_head).all(|line| line.chars().count() <= 80), "{shown}");
    assert!(shown.contains("p99.999") && shown.contains(" errors"), "{shown}");
    let piped = bench.run(&["runs"]).stdout;
    assert!(piped.lines().all(|line| line.chars().count() <= 80), "{piped}");
    let narrow = listed("80");
    assert!(narrow.lines().all(|line| line.chars().count() <= 80), "{narrow}");
    assert!(narrow.contains("..database") || narrow.contains("-database"), "{narrow}");
    let wide = listed("200");
    assert!(wide.contains(name) && wide.contains("World"), "{wide}");
}

#[test]
fn a_window_in_which_nothing_ended_says_so() {
    let rare = ["measure", "null:1MiB", "-w", "database", "--run", "20ms", "--ramp", "0s", "--rate", "0.001"];
    Bench::new().done(&rare).says(&["no request ended in the window: make it longer, with --run"]);
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
        let ended = bench.done(&soak);
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
    ended.says(&["byte 69632: 1 bit has changed"]);
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
    let well = soak("2", "cp \"$RAIDLAB_TARGET\" before").well();
    well.says(&["power was cut 1 times; 0 of the faults"]);
    // What was in the first blocks before the cut comes back after it: writes that were acknowledged are lost.
    let lying = soak("2", "dd if=before of=\"$RAIDLAB_TARGET\" bs=64k count=1 conv=notrunc 2>&1");
    lying.assert(1, &[]);
    lying.says(&["a write is lost"]);
    soak("1", "exit 7").assert(1, &["the command that cuts the power, 'exit 7', failed"]);
}

#[test]
fn a_verified_load_says_how_many_blocks_were_right() {
    let bench = Bench::new();
    let measure = ["measure", "t.dat", "--size", "4MiB", "--run", "300ms", "--ramp", "0s", "--iodepth", "8"];
    let with = |more: &[&'static str]| bench.run(&[&measure[..], more].concat());
    let settings = with(&["--workload", "database", "--verify", "--workers", "2", "--buffered", "--json"])
        .well()
        .json()["runs"][0]["settings"]
        .clone();
    assert!(settings.to_string().contains("blocks read were as written"), "{settings}");
    with(&["--workload", "storagebench-web-server", "--verify"])
        .assert(2, &["there is nothing to verify on 't.dat'"]);
}

const RISK: [&str; 7] = ["risk", "--level", "5", "--members", "8", "--drive", "st32000444ss"];

#[test]
fn the_chances_of_an_array_come_in_words_and_json() {
    let bench = Bench::new();
    bench.done(&[&RISK[..], &["--trials", "20000"]].concat()).says(&[
        "Chance within a year",
        "agrees",
        "Chance in one rebuild",
    ]);
    let fleet = ["--trials", "20000", "--fleet", "100000", "--spares", "1", "--check-days", "7", "--json"];
    let json = bench.done(&[&RISK[..], &fleet].concat()).json();
    assert_eq!(json["fleet"]["arrays"].as_u64(), Some(11_111));
    let [chance, drawn, width] = ["/markov/per_year", "/drawn/per_year", "/drawn/per_year_half_width"]
        .map(|place| json.pointer(place).and_then(serde_json::Value::as_f64).expect("a number"));
    assert!(chance > 0.0 && (chance - drawn).abs() <= width, "{chance} against {drawn} +- {width}");
}

/// Before there were field data of flash this ended with "the annual failure rate is not known".
#[test]
fn the_risk_of_an_array_of_flash_is_told() {
    let risk = [
        "risk",
        "--level",
        "5",
        "--members",
        "8",
        "--drive",
        "samsung-pm9a3-7680",
        "--writes-per-day",
        "8TB",
    ];
    let ended = Bench::new().run(&[&risk[..], &["--trials", "20000"]].concat()).well();
    let golden = include_str!("risk-samsung-pm9a3-7680.txt");
    assert_eq!(ended.stdout, golden, "what it prints has changed:\n{}", ended.stdout);
    assert!(golden.lines().all(|line| line.chars().count() <= 80));
}

#[test]
fn what_is_not_known_is_asked_for() {
    let bench = Bench::new();
    let bare = ["risk", "--level", "6", "--members", "8"];
    let other = ["--set", "st32000444ss:annual_failure_pct=2.5"];
    bench.done(&[&RISK[..], &other, &["--json"]].concat()).says(&["2.5"]);
    bench.run(&[&bare[..], &other].concat()).assert(2, &["--set", "--drive"]);
    bench.run(&bare).assert(2, &["annual failure rate", "--afr"]);
    bench.run(&[&bare[..], &["--drive", "wd1000bb", "--afr", "120"]].concat()).assert(2, &["below 100 %"]);
    bench.run(&[&bare[..], &["--drive", "pliant-lb150"]].concat()).assert(2, &["--afr"]);
    bench.run(&[&RISK[..], &["--writes-per-day", "1TB"]].concat()).assert(2, &["rated_writes"]);
    bench.run(&[&RISK[..], &["--rebuild-rate", "101%"]].concat()).assert(2, &["30%", "50MB/s"]);
    bench.run(&["risk", "--level", "6", "--members", "3", "--drive", "st32000444ss"]).assert(2, &["RAID 6"]);
    bench.run(&[&RISK[..], &["--fleet", "3"]].concat()).assert(2, &["at least one array"]);
}

/// A need that no array can have, or every one has, is no need: `nan` was compared with what arrays reach, and nothing was found.
#[test]
fn needs_and_limits_are_numbers_above_zero() {
    let bench = Bench::new();
    let plan = ["plan", "--app", "storagebench-database"];
    for need in ["--iops=-5", "--iops=nan", "--iops=inf", "--mib-per-sec=0", "--power=-1", "--slots=0"] {
        bench.run(&[&plan[..], &["--usable", "400GB", need]].concat()).assert(2, &["invalid value"]);
    }
    bench.run(&[&plan[..], &["--usable", "400GB", "--mean-response=0s"]].concat()).assert(2, &["no time"]);
    let bound = |text| bench.run(&[&plan[..], &["--usable", "400GB", "--bound", text]].concat());
    bound("iops>=100").assert(2, &["--iops"]);
    bound("p99.95<=1ms").assert(2, &["p99.99"]);
    bench.run(&[&plan[..], &["--usable", "0"]].concat()).assert(2, &["0 bytes"]);
    bench.run(&["torture", "--seeds", "0"]).assert(2, &["invalid value"]);
    bench.run(&["streams", ".", "--streams", "0"]).assert(2, &["no number of streams"]);
}

/// An option that changes nothing of what is measured is refused: its user would take the figures for what they are not.
#[test]
fn options_that_would_change_nothing_are_refused() {
    let bench = Bench::new();
    let load = ["measure", "null:1MiB", "--workload", "streaming", "--run", "20ms", "--ramp", "0s"];
    let of_a_trace: [&[&str]; 4] =
        [&["--map", "x=0"], &["--whole-blocks"], &["--timing", "none"], &["--fit", "wrap"]];
    for option in of_a_trace {
        bench.run(&[&load[..], option].concat()).assert(2, &["--workload", option[0]]);
    }
    for option in [["--in-flight", "5"], ["--arrival", "fixed"]] {
        bench.run(&[&load[..], &option, &["--think", "1ms"]].concat()).assert(2, &["--think", option[0]]);
        bench.run(&[&load[..], &option].concat()).assert(2, &["--rate"]);
        bench.run(&[&load[..], &option, &["--iodepth", "4"]].concat()).assert(2, &["--iodepth", option[0]]);
    }
    for option in [["--filesystem", "xfs"], ["--host", "x"], ["--controllers", "2"]] {
        bench.run(&[&["streams", "."][..], &option].concat()).assert(2, &["DIR", option[0]]);
    }
    let actors = ["measure", "null:1GiB", "--workload", "kv-cache", "--run", "20ms", "--ramp", "0s"];
    for option in [
        ["--read-pct", "50"],
        ["--block-size", "4KiB"],
        ["--iodepth", "4"],
        ["--rate", "5"],
        ["--rate-limit", "5"],
        ["--bytes-limit", "1MiB"],
        ["--think", "1ms"],
    ] {
        bench.run(&[&actors[..], &option].concat()).assert(2, &["'kv-cache", option[0]]);
    }
    bench.run(&[&actors[..], &["--iodepth", "4", "-w", "database"]].concat()).well();
    let file = ["--host", "epyc-7402p", "--filesystem", "ext4", "--file-io", "fsync", "--region", "1GiB"];
    let array = ["--level", "5", "--members", "4", "--drive", "st3600057ss", "--controller", "perc-h800"];
    let synced =
        [&["simulate", "--workload", "kv-cache", "--run", "20ms", "--ramp", "0s"][..], &array, &file];
    bench.run(&synced.concat()).assert(2, &["'kv-cache'", "says itself when it flushes"]);
    for option in ["--poll", "--kernel-thread"] {
        let ended = bench.run(&[&load[..], &[option]].concat());
        ended.assert(2, &[option, "is loaded by null"]);
    }
}

/// A name that is read from a file or a folder is shown to whoever runs the command, and must not steer the terminal.
#[test]
fn names_do_not_steer_the_terminal() {
    let bench = Bench::new();
    let name = "a\u{1b}[31mb\u{7}";
    let missing = bench.run(&["measure", name, "--workload", "streaming"]);
    missing.assert(2, &["a\u{fffd}[31mb"]);
    let load =
        ["--size", "4MiB", "--workload", "streaming", "--run", "20ms", "--ramp", "0s", "--report", "r.html"];
    let measured = bench.run(&[&["measure", name], &load[..]].concat());
    measured.assert(0, &["laying out a\u{fffd}[31mb"]);
    let page = bench.read("r.html");
    let fits = |text: &str| text.chars().all(|c| !c.is_control() || c.is_ascii_whitespace());
    for text in [missing.stderr, measured.stderr, measured.stdout, page] {
        assert!(fits(&text), "{text:?}");
    }
}

#[test]
fn what_nobody_can_be_told_is_no_reason_to_panic() {
    let bench = Bench::new();
    let load = ["measure", "null:1MiB", "--workload", "streaming", "--run", "20ms", "--ramp", "0s"];
    let load = [&load[..], &["--bound", "iops>=1000000000"]].concat();
    let full = || std::fs::File::options().write(true).open("/dev/full").expect("it is there on Linux");
    let ended = bench.command(&load).stderr(full()).output().expect("the binary was built");
    assert_eq!(ended.status.code(), Some(3), "the bound is missed, told or not");
}

/// A stored plan is run as it is; one that can't be is refused with its place.
#[test]
fn torture_runs_stored_plans() {
    let bench = Bench::new();
    let stored =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../array/torture/tests/torture/plans/54-bounded.toml");
    let plan = std::fs::read_to_string(stored).expect("a stored plan");
    let write = |name: &str, text: &str| {
        std::fs::write(bench.path().join(name), text).expect("it can be written");
    };
    write("one.toml", &plan);
    let again = plan.split_once("[[plan]]").expect("a plan").1;
    write("two.toml", &format!("{plan}\n[[plan]]{again}"));
    let digest = |args: &[&str]| {
        let told = bench.done(args).json();
        assert_eq!(told["violations"], 0, "{told}");
        (told["seeds"].clone(), told["digest"].clone())
    };
    let of_the_plan = digest(&["--json", "torture", "--plan", "one.toml"]);
    assert_eq!(of_the_plan, digest(&["--json", "torture", "--plan", "one.toml"]), "a plan is a run");
    let of_both = digest(&["--json", "torture", "--plan", "two.toml"]);
    assert_eq!(of_both.0, 2);
    assert_ne!(of_both.1, of_the_plan.1);

    bench.run(&["torture", "--plan", "none.toml"]).assert(2, &["none.toml"]);
    write("bad.toml", &plan.replace("pulled", "puled"));
    bench.run(&["torture", "--plan", "bad.toml"]).assert(2, &["bad.toml:8", "nearest known is 'pulled'"]);
    bench.run(&["torture", "--plan", "one.toml", "--ops", "9"]).assert(2, &["--ops"]);
    bench.run(&["torture", "--save-plans", "one.toml"]).assert(2, &["one.toml is no folder"]);
}
