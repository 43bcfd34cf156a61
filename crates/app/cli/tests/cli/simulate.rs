//! `raidlab simulate` on the real binary, and arguments that it shares with other verbs: bounds, similar names.

use crate::support::{Bench, holds};

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
    let json = bench.done(&simulate(&["--iodepth", "1..8", "--json"])).json();
    let runs = json["runs"].as_array().expect("there are runs");
    let depths: Vec<_> = runs.iter().map(|run| run["iodepth"].as_u64()).collect();
    assert_eq!(depths, [Some(1), Some(2), Some(4), Some(8)]);
    assert_eq!(runs[0]["world"], "simulated");
    assert_eq!(runs[0]["array"]["level"], "5");
    for run in runs {
        let stations = run["times"]["stations"].as_array().expect("it is told where the time goes");
        let of = |station: &serde_json::Value| {
            station["waiting_ns_mean"].as_f64().expect("a figure")
                + station["service_ns_mean"].as_f64().expect("a figure")
        };
        let (sum, mean) = (stations.iter().map(of).sum::<f64>(), run["total"]["lat_ns_mean"].as_f64());
        assert!((sum - mean.expect("a figure")).abs() < 1.0, "{sum} {mean:?}");
    }
    let words = bench.done(&simulate(&["--queue-depth", "2"]));
    words.says(&["storagebench-database", "where the time goes"]);
    assert!(!words.stdout.contains('\x1b'), "colour is for terminals");
}

#[test]
fn simulate_gives_the_same_figures_in_the_same_order_on_any_number_of_threads() {
    let bench = Bench::new();
    let runs_on = |threads| {
        let ended = bench.done(&simulate(&["--iodepth", "64,1,16,2", "--threads", threads, "--json"]));
        let mut runs = ended.json()["runs"].as_array().expect("there are runs").clone();
        for run in &mut runs {
            // How long the simulation itself and the search for its bottleneck took are the only figures that may differ.
            let cost = run["cost"].as_object_mut().expect("a run has a cost");
            assert!(cost.remove("wall_ns").is_some());
            assert!(cost.remove("bottleneck_wall_ns").is_some());
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
fn simulate_says_when_the_write_cache_is_still_filling() {
    let bench = Bench::new();
    let with = |policy: &str, ramp: &str, json: &str| {
        let array = ["simulate", "--level", "6", "--members", "8", "--drive", "st373455ss"];
        let more = ["--controller", "lsi-1078-512", "--iodepth", "32", "--run", "20s", "-w", "database"];
        let ended =
            bench.run(&[&array[..], &more, &["--write-policy", policy, "--ramp", ramp, json]].concat());
        ended.assert(0, &[]);
        ended
    };
    let filling = with("write-back", "20s", "--json");
    assert!(filling.stderr.contains("the write cache was still filling, from"), "{}", filling.stderr);
    assert!(filling.json()["runs"][0]["cache_fill"]["cache_bytes"].as_u64() == Some(512 << 20));
    for (policy, ramp) in [("write-back", "400s"), ("write-through", "20s")] {
        let steady = with(policy, ramp, "--json");
        assert!(!steady.stderr.contains("still filling"), "{policy} {ramp}: {}", steady.stderr);
    }
}

#[test]
fn simulate_says_what_could_not_be_plugged_together() {
    let bench = Bench::new();
    let with = |drive: &str, controller: &str, members: &str, more: &[&str]| {
        let array = ["simulate", "--level", "5", "--drive", drive, "--controller", controller];
        let load = ["--members", members, "--ramp", "0s", "--run", "100ms", "-w", "database"];
        let ended = bench.done(&[&array[..], &load, more].concat());
        ended.stderr
    };
    let far_off = with("wd1000bb", "perc-h800", "5", &["--enclosure", "exp700"]);
    // Once it took drives of today over a PCI-X bus without a word.
    let nvme = with("generic-nvme", "linux-md", "5", &[]);
    assert!(nvme.contains("'generic-nvme' is for NVMe, controller 'linux-md' takes SCSI"), "{nvme}");
    holds(
        &far_off,
        &["'wd1000bb' is for ATA, controller 'perc-h800' takes SAS", "'exp700' has places for FC"],
    );
    assert!(with("maxtor-6y160m0", "3ware-8506-4lp", "5", &[]).contains("has 4 ports for 5 drives"));
    let full = with("st3600057ss", "perc-h800", "24", &["--enclosure", "md1200"]);
    assert!(
        full.contains("enclosure 'md1200' has 12 places for 24 drives; it is simulated all the same"),
        "{full}"
    );
    for (drive, controller, enclosure) in
        [("st3600057ss", "perc-h800", "md1200"), ("fc-15k-18gb", "fastt600", "exp700")]
    {
        let sound = with(drive, controller, "5", &["--enclosure", enclosure]);
        assert!(!sound.contains("simulated all the same"), "{sound}");
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
    let ended = bench.done(&args);
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
    let ended = bench.done(&[&args[..], &["--json"]].concat());
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
    let words = bench.done(&args);
    words.says(&["controller A, 1 volume:", "controller B failed 50", "nothing acknowledged lost"]);
    // Without a mirror the loss is told, and an option says when.
    bench.write("dual.toml", &DUAL.replace("count = 2", "count = 2\nmirror = false"));
    bench
        .done(&[&args[..], &["--fail-after", "100ms"]].concat())
        .says(&["of acknowledged data LOST", "controller A failed 100"]);
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
    let ended = bench.done(&on_fastt600);
    assert_eq!(ended.json()["runs"][0]["array"]["controller"], "two fastt600 with 2 volumes");
    bench.run(&simulate(&["--fail-after", "1ms"])).assert(2, &["fail-after needs a second controller"]);
    bench.run(&simulate(&["--fail", "B"])).assert(2, &["--fail-after"]);
}

#[test]
fn bounds_decide_the_exit_code() {
    let bench = Bench::new();
    bench.done(&simulate(&["--bound", "iops>=1"]));
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
    let (drive, controller) = (["--drive", "none1"], ["--controller", "none2"]);
    let none =
        [&["simulate", "--level", "5", "--members", "6", "-w", "database"], &drive[..], &controller].concat();
    bench.run(&none).assert(2, &["no drive 'none1'", "no controller 'none2'"]);
    let back = [&replaced("perc-h800", "lsi-1068")[..], &["--write-policy", "write-back"]].concat();
    bench.run(&back).assert(2, &["write-back needs a cache", "write through"]);
    bench.run(&replaced("6", "2")).assert(2, &["RAID 5 over 2 members cannot be", "3 or more"]);
    bench.run(&replaced("database", "databse")).assert(2, &["'databse'", "storagebench-database"]);
    bench.run(&["simulate", "--workload", "database"]).assert(2, &["--level"]);
    bench.run(&["measur"]).assert(2, &["measure"]);
}

#[test]
fn simulate_takes_requests_at_a_rate_and_tells_how_late_they_were() {
    let bench = Bench::new();
    let ended = bench.done(&simulate(&["--rate", "500", "--arrival", "fixed", "--json"]));
    let run = &ended.json()["runs"][0];
    assert_eq!(run["iodepth"], 256, "in flight at most");
    let started = run["lag"]["started"].as_u64().expect("an open loop has arrivals");
    assert!(started.abs_diff(150) <= 1, "{started}");
    bench.done(&simulate(&["--rate", "100000", "--in-flight", "4"])).says(&["NEVER STARTED"]);
    bench.run(&simulate(&["--arrival", "fixed"])).assert(2, &["--rate"]);
    // It was taken without a word, and 256 requests were in flight.
    bench
        .run(&simulate(&["--rate", "100", "--iodepth", "4"]))
        .assert(2, &["--iodepth", "cannot be used with"]);
    bench.run(&simulate(&["--rate", "100", "--in-flight", "0"])).assert(2, &["--in-flight", "0"]);
    bench.run(&simulate(&["--rate", "0"])).assert(2, &["'0' is no rate"]);
}

/// Without a cache, so that nothing has to be said about writes: they go through.
const FLASH: [&str; 17] = [
    "simulate",
    "--level",
    "0",
    "--members",
    "1",
    "--drive",
    "generic-nvme",
    "--controller",
    "linux-md-nvme",
    "--ramp",
    "10ms",
    "--run",
    "40ms",
    "--iodepth",
    "64",
    "--json",
    "--workload",
];

#[test]
fn the_condition_of_a_drive_decides_how_fast_it_writes() {
    let bench = Bench::new();
    let run = |more: &[&str]| {
        let run =
            bench.done(&[&FLASH[..], &["fastt600-random-write"], more].concat()).json()["runs"][0].clone();
        let iops = run["total"]["iops"].as_f64().expect("a rate");
        (iops, run["settings"]["drive condition"].as_str().expect("it is told").to_owned())
    };
    let (steady, told) = run(&[]);
    assert_eq!(told, "random:3, 100 % full");
    let (fresh, told) = run(&["--condition", "fresh"]);
    assert_eq!(told, "fresh");
    let (half, told) = run(&["--condition", "random:2", "--fill", "50"]);
    assert_eq!(told, "random:2, 50 % full");
    assert!(fresh > 2.0 * steady && half > 1.5 * steady, "fresh {fresh}, half full {half}, steady {steady}");
}

/// A plan takes flash that is written in sequence to have been, and `simulate` does not: both say so, and the plan's study has the condition.
#[test]
fn plans_and_simulations_tell_that_their_drives_differ() {
    let bench = Bench::new();
    let drive = "samsung-pm9a3-7680";
    let plan =
        ["plan", "--app", "storagebench-restore", "--usable", "5TB", "--simulations", "1", "--top", "1"];
    let parts = ["--drives", drive, "--controllers", "linux-md-nvme", "--study", "study.toml"];
    let planned = bench.run(&[&plan[..], &parts].concat());
    planned.says(&[
        "sequential, 100 % full",
        "('simulate' takes drives of which nobody says it to be random:3)",
    ]);
    assert!(bench.read("study.toml").contains("condition = \"sequential\""), "{}", bench.read("study.toml"));
    let array =
        ["simulate", "--level", "0", "--members", "2", "--drive", drive, "--controller", "linux-md-nvme"];
    let load = ["--workload", "storagebench-restore", "--ramp", "0s", "--run", "20ms", "--bottleneck", "off"];
    let simulated = bench.done(&[&array[..], &load].concat());
    holds(&simulated.stderr, &["--condition sequential is what such writes lead to, and what 'plan' takes"]);
}

#[test]
fn only_drives_with_a_translation_layer_have_a_condition() {
    let bench = Bench::new();
    let ended = bench.run(&simulate(&["--condition", "fresh"]));
    ended.assert(2, &["st3600057ss", "as fast in every condition"]);
    bench.run(&simulate(&["--condition", "old"])).assert(2, &["random:N"]);
    bench.run(&simulate(&["--fill", "0"])).assert(2, &["--fill"]);
    bench
        .run(&simulate(&["--condition", "fresh", "--fill", "5"]))
        .assert(2, &["a fresh drive holds nothing"]);
}

#[test]
fn hard_disks_take_training_and_checkpoints_of_nothing_are_refused() {
    let bench = Bench::new();
    let array = &SIMULATE[..9];
    let short = ["-w", "mlperf-resnet50-h100", "--ramp", "0s", "--run", "100ms"];
    bench.done(&[array, &short].concat());
    let training = ["-w", "mlperf-unet3d-h100", "--accelerators", "1"];
    for (more, problem) in [
        (&["--checkpoint", "0B"][..], "--checkpoint"),
        (&["--checkpoint", "1GB", "--checkpoint-every", "0s"], "--checkpoint-every"),
    ] {
        bench.run(&[array, &training, more].concat()).assert(2, &[problem]);
    }
}

#[test]
fn intervals_come_from_the_ranges_of_estimated_figures() {
    let bench = Bench::new();
    let of_drive = |drive: &str, controller: &str| {
        let words = format!(
            "simulate --level 0 --members 2 --drive {drive} --controller {controller} --workload md1200-oltp --iodepth 8 --ramp 50ms \
             --run 200ms --bottleneck off --intervals on --json"
        );
        let ended = bench.done(&words.split_whitespace().collect::<Vec<_>>());
        ended.json()["runs"][0].clone()
    };
    let run = of_drive("samsung-pm9a3-7680", "linux-md-nvme");
    let iops = |of: &serde_json::Value| of["iops"].as_f64().expect("a rate");
    let [slower, own, faster] = [&run["range"]["slower"], &run["total"], &run["range"]["faster"]].map(iops);
    assert!(slower < own && own < faster, "{slower} {own} {faster}");
    assert!(run["range"]["estimated"]["samsung-pm9a3-7680"].is_array(), "{run}");
    // Figures that nobody gave a range have no ends to be run at.
    let run = of_drive("st3600057ss", "perc-h800");
    assert!(run["range"]["slower"].is_null() && run["range"]["faster"].is_null(), "{run}");
}

/// Requests a second of an array of Linux md, by more words of a command.
fn md_iops(bench: &Bench, words: &str) -> f64 {
    let words = format!("simulate --bottleneck off --json --ramp 20ms --run 60ms {words}");
    let ended = bench.done(&words.split_whitespace().collect::<Vec<_>>());
    ended.json()["runs"][0]["total"]["iops"].as_f64().expect("a rate")
}

/// md over one thread for everything, and without gathering, wrote 23.6 MB/s here.
#[test]
fn md_writes_whole_stripes_of_what_comes_in_sequence() {
    let bench = Bench::new();
    let words = "simulate --bottleneck off --json --level 6 --members 12 --drive exos-x24-24tb --controller linux-md-sas \
                 --strip-size 64KiB --workload md1200-sql-log --iodepth 32 --ramp 300ms --run 500ms";
    let ended = bench.done(&words.split_whitespace().collect::<Vec<_>>());
    let run = &ended.json()["runs"][0];
    let mb_per_s = run["total"]["iops"].as_f64().expect("a rate") * 65_536.0 / 1e6;
    assert!((600.0..3_000.0).contains(&mb_per_s), "{mb_per_s} MB/s");
    assert!(run["settings"]["busy stripe threads"].is_string(), "{run}");
}

#[test]
fn the_settings_of_md_have_their_own_names() {
    let bench = Bench::new();
    let parity = "--level 5 --members 6 --drive generic-nvme --controller linux-md-nvme --iodepth 256 \
                  --workload fastt600-random-write";
    let one = md_iops(&bench, parity);
    let three = md_iops(&bench, &format!("{parity} --set group_thread_cnt=2"));
    assert!((40e3..160e3).contains(&one), "one thread: {one} a second");
    // No more than the threads, as changes of parts wait for the reads of others (`IO_THRESHOLD` of raid5.c), and on dies.
    assert!((1.4..3.1).contains(&(three / one)), "{one} of one thread, {three} of three");
    let mirrors = "--level 10 --members 8 --drive generic-nvme --controller linux-md-nvme --iodepth 2048 \
                   --workload fastt600-random-read --set processors=16";
    let (new, old) = (md_iops(&bench, mirrors), md_iops(&bench, &format!("{mirrors} --set kernel=6.1")));
    assert!(new > 1.2 * old && old > 1.7e6, "RAID 10 of kernel 6.8 {new}, of 6.1 {old}");
    for (set, expected) in [
        ("group_threads=4", "it has group_thread_cnt, stripe_cache_size"),
        ("sync_speed_min=300000", "from 0 to sync_speed_max"),
        ("journal_mode=write-back", "a journal that is written back is not modelled"),
        ("journal_device=nonsense", "nonsense"),
        ("io_engine=polled", "no queues to poll"),
        ("rmw_level=7", "0, 1 or 2"),
    ] {
        let words = format!("simulate {parity} --set {set}");
        bench.run(&words.split_whitespace().collect::<Vec<_>>()).assert(2, &[expected]);
    }
    bench.run(&simulate(&["--set", "group_thread_cnt=4"])).assert(2, &["perc-h800", "is not Linux md"]);
    bench
        .run(&["plan", "--usable", "1TB", "--app", "oltp", "--set", "skip_copy=1"])
        .assert(2, &["of which entry"]);
}

#[test]
fn a_window_begins_when_the_write_cache_is_full() {
    let bench = Bench::new();
    let base =
        ["simulate", "--level", "6", "--members", "6", "--drive", "st3600057ss", "--controller", "perc-h800"];
    let load = [
        "--cache-size",
        "64MiB",
        "--region",
        "8GB",
        "-w",
        "database",
        "--iodepth",
        "64",
        "--bottleneck",
        "off",
    ];
    let iops = |more: &[&'static str]| {
        let ran = bench.done(&[&base[..], &load, &["--run", "10s", "--json"], more].concat());
        ran.json()["runs"][0]["total"]["iops"].as_f64().expect("a rate")
    };
    let (empty, full, found) = (iops(&["--ramp", "0s"]), iops(&["--ramp", "60s"]), iops(&[]));
    assert!(empty > 1.1 * full, "an empty cache is fast: {empty}, {full}");
    assert!((found / full - 1.0).abs() < 0.05, "{found}, {full}");
}

#[test]
fn hosts_and_files_are_for_what_they_change() {
    let bench = Bench::new();
    let md = [
        "simulate",
        "--level",
        "10",
        "--members",
        "4",
        "--drive",
        "generic-nvme",
        "--controller",
        "linux-md-nvme",
        "--ramp",
        "5ms",
        "--run",
        "20ms",
        "--workload",
        "md1200-sql-log",
        "--iodepth",
        "1",
    ];
    let with = |more: &[&'static str]| bench.run(&[&md[..], more].concat());
    let on_sockets = with(&["--host", "xeon-8380-2s", "--bottleneck", "off", "--json"]).well();
    assert_eq!(on_sockets.json()["runs"][0]["settings"]["host"], "xeon-8380-2s");
    // Synchronised writes wait for the data, the journal and its record; buffered ones for a copy.
    let latency = |how: &'static str, op: &str| {
        let more =
            ["--host", "epyc-7402p", "--filesystem", "ext4", "--region", "1GiB", "--file-io", how, "--json"];
        let ended = with(&more).well();
        ended.json()["runs"][0][op]["lat_ns_mean"].as_f64().expect("a figure")
    };
    let (buffered, direct, synced) =
        (latency("buffered", "write"), latency("direct", "write"), latency("fsync", "flush"));
    assert!(buffered < direct && direct < synced, "{buffered} {direct} {synced}");
    with(&["--host", "noral3"]).assert(2, &["noral3", "runs programs on files only", "--filesystem"]);
    with(&["--host", "epyc-7402p", "--filesystem", "ext4"]).assert(2, &["--region"]);
    with(&["--file-io", "fsync"]).assert(2, &["--filesystem"]);
    let on_file = ["--host", "epyc-7402p", "--filesystem", "ext4", "--region", "1GiB"];
    with(&[&on_file[..], &["--bottleneck", "on"]].concat())
        .assert(2, &["leave --bottleneck or --filesystem out"]);
    let own = [&simulate(&[])[..], &["--host", "epyc-7402p"]].concat();
    bench.run(&own).assert(2, &["perc-h800", "processors and memory of its own"]);
}
