//! Refusals: invalid input of every verb ends with exit code 2 and names the error, and no verb destroys a file that
//! raidlab did not make.

use crate::studies::{HEAD, MEASURE, SIMULATE};
use crate::support::Bench;

/// Commands, as words, and what the message names.
const BAD_INPUT: &[(&str, &[&str])] = &[
    ("", &["Usage"]),
    ("mesure", &["measure"]),
    ("runs --jsn", &["--json"]),
    // Targets and loads.
    ("measure", &["TARGET"]),
    ("measure none -w database", &["'none'", "--size"]),
    ("measure none/f --size 1MiB -w database", &["none/f"]),
    ("measure f -w database --size 4", &["--size", "'4': give a unit"]),
    ("measure g -w database --size 1000", &["--size"]),
    ("measure g -w database --size 1001B", &["4096"]),
    ("measure text -w database --size 8MiB", &["text", "size"]),
    ("measure /dev/null -w database", &["/dev/null"]),
    ("measure null:1 -w database", &["null:1GiB"]),
    ("measure null:1MiB -w databse", &["--workload", "storagebench-database"]),
    ("measure null:1MiB -w none.toml", &["none.toml", "--workload"]),
    ("measure null:1MiB -w text", &["text"]),
    ("measure null:1MiB -w bad.toml", &["bad.toml:2", "'colour'"]),
    ("measure null:1MiB -w database --iodepth 0", &["--iodepth"]),
    ("measure null:1MiB -w database --iodepth 8..1", &["--iodepth"]),
    ("measure null:1MiB -w database --run 0s", &["--run"]),
    ("measure null:1MiB -w database --run 5", &["--run", "'5'"]),
    ("measure null:1MiB -w database --ramp x", &["--ramp"]),
    ("measure null:1MiB -w database --engine nul", &["--engine", "'nul'"]),
    ("measure null:1MiB -w database --engine psync --iodepth 4", &["psync"]),
    ("measure null:1MiB -w streaming --engine nbd", &["nbd"]),
    ("measure null:1MiB -w streaming --block-size 2MiB", &["region"]),
    ("measure null:1MiB -w database --read-pct 101", &["--read-pct"]),
    ("measure null:1MiB -w database --rate=-1", &["--rate"]),
    ("measure null:1MiB -w database --rate 10 --iodepth 4", &["--iodepth"]),
    ("measure null:1MiB -w database --bound iops>5", &["--bound"]),
    ("measure null:1MiB -w database --bound p42<=1ms", &["--bound", "p42"]),
    ("measure null:1MiB -w database --find-load", &["--bound"]),
    ("measure null:1MiB -w database --find-load best --bound p99<=1ms", &["--find-load"]),
    ("measure null:1MiB -w database --until stedy", &["--until", "steady"]),
    ("measure null:1MiB -w database --cpus 9999 --run 20ms --ramp 0s", &["9999"]),
    ("measure null:1MiB -w database --poll --run 20ms --ramp 0s", &["null"]),
    ("measure null:1MiB -w storagebench-web-server --verify --run 20ms --ramp 0s", &["verify"]),
    ("measure null:1MiB -w database --compare-paper none", &["none"]),
    ("measure null:1MiB -w database --report none/r.html", &["none/r.html"]),
    ("measure null:1MiB -w database --db text --run 20ms --ramp 0s", &["text", "--db"]),
    ("measure null:1MiB --trace none.parquet", &["none.parquet", "--trace"]),
    ("measure null:1MiB --trace text", &["text"]),
    ("measure text -w database", &["text", "--destroy-data"]),
    ("measure text -w database --destroy-data txt", &["txt"]),
    ("measure nbd+unix:///x -w streaming", &["nbd+unix:///x"]),
    ("measure nbd+unix:///x?socket=none -w streaming", &["waiting up to", "can't connect", "socket=none"]),
    ("measure f -w database --size -5MiB", &["'-5MiB' is negative", "--size"]),
    ("streams none", &["none"]),
    ("streams . --streams 0", &["--streams"]),
    ("streams . --size 3", &["--size"]),
    ("bonnie none", &["none"]),
    ("bonnie . --size 10", &["--size"]),
    ("bonnie . --size 1MB --csv none/b.csv", &["none/b.csv"]),
    ("soak none", &["--size"]),
    ("soak s --size 1MiB --block 1000B", &["--block"]),
    ("soak s --size 1MiB --time 5", &["--time"]),
    ("soak text --size 1MiB --write", &["text"]),
    ("net 127.0.0.1", &["127.0.0.1"]),
    ("net --loopback --send 4", &["--send"]),
    ("net --loopback --from none", &["none"]),
    ("calibrate none", &["none"]),
    ("calibrate text -o text", &["text is there already"]),
    ("study none.toml", &["none.toml"]),
    ("study text", &["text:1"]),
    // Models.
    ("simulate", &["--level"]),
    ("simulate --array none.toml -w database", &["none.toml"]),
    ("simulate --array bad.toml -w database", &["bad.toml"]),
    (
        "simulate --level 7 --members 4 --drive st3600057ss --controller perc-h800 -w database",
        &["--level", "'7'"],
    ),
    (
        "simulate --level 6 --members 3 --drive st3600057ss --controller perc-h800 -w database",
        &["RAID 6", "members"],
    ),
    (
        "simulate --level 5 --members 4 --drive st360057ss --controller perc-h800 -w database",
        &["--drive", "st3600057ss"],
    ),
    (
        "simulate --level 5 --members 4 --drive st3600057ss --controller perc-h80 -w database",
        &["--controller", "perc-h800"],
    ),
    (
        "simulate --level 5 --members 4 --drive st3600057ss --controller perc-h800 --enclosure md120 -w database",
        &["--enclosure", "md1200"],
    ),
    (
        "simulate --level 5 --members 4 --drive st3600057ss --controller perc-h800 -w databse",
        &["--workload", "storagebench-database"],
    ),
    (
        "simulate --level 5 --members 4 --drive st3600057ss --controller perc-h800 -w database --write-policy back",
        &["--write-policy"],
    ),
    (
        "simulate --level 5 --members 4 --drive st3600057ss --controller perc-h800 -w database --strip-size 3KiB",
        &["strip"],
    ),
    (
        "simulate --level 5 --members 4 --drive st3600057ss --controller perc-h800 -w database --region 900TB",
        &["region"],
    ),
    (
        "simulate --level 5 --members 4 --drive st3600057ss --controller perc-h800 -w database --set x=1",
        &["--set"],
    ),
    (
        "simulate --level 5 --members 4 --drive st3600057ss --controller perc-h800 -w database --host none",
        &["--host"],
    ),
    (
        "simulate --level 5 --members 4 --drive st3600057ss --controller perc-h800 -w database --catalog none",
        &["none"],
    ),
    ("reproduce primergy-208", &["primergy-2008"]),
    ("reproduce fastt600-2004 --table none", &["--table", "none"]),
    ("fit primergy-208", &["primergy-2008"]),
    ("plan", &["--usable"]),
    ("plan --app databse --usable 4TB", &["--app", "storagebench-database"]),
    ("plan --app database --usable 400", &["--usable", "'400'"]),
    ("plan --app database --usable 4TB --drives nope", &["--drives", "nope"]),
    ("plan --app database --usable 4TB --controllers nope", &["--controllers", "nope"]),
    ("plan --app database --usable 4TB --prices none.toml", &["none.toml"]),
    ("plan --app database --usable 4TB --era 20", &["--era"]),
    ("plan --app database --usable 4TB --iops -5", &["'-5' is negative", "--iops"]),
    ("plan --app database --usable 4TB --members 9..3", &["--members", "8..24"]),
    ("plan --app database --usable 4TB --kinds tape", &["--kinds", "nvme"]),
    ("plan --app database --usable 4TB --levels 99", &["--levels", "'99'"]),
    ("plan --app database --usable 4TB --have nothing", &["'nothing'"]),
    ("plan --app database --usable 4TB --keep-degraded half", &["--keep-degraded", "50%"]),
    ("plan --app database --usable 4TB --keep-degraded 150", &["--keep-degraded", "up to 100"]),
    ("plan --app database --usable 0", &["--usable", "a size such as 20TB"]),
    (
        "plan --app database --usable 4TB --bound p42<=1ms",
        &["--bound", "'p42'", "percentiles are p50, p90, p95, p99,"],
    ),
    ("plan --app database --usable 4TB --years 0", &["--years"]),
    ("plan --trace text --usable 4TB", &["text: it is no trace that raidlab made", "import trace"]),
    ("plan --app database --usable 4TB --report none/p.html", &["none/p.html"]),
    ("risk --level 6 --members 3 --drive st32000444ss", &["RAID 6", "--members"]),
    ("risk --level 6 --members 8 --drive st32000444ss --spares x", &["--spares", "'x' is no whole number"]),
    ("risk --level 6 --members 8 --drive st32000444ss --afr 300", &["--afr", "'300'"]),
    ("risk --level 6 --members 8 --drive st3200044ss", &["--drive", "st32000444ss"]),
    ("catalog st360057ss", &["st3600057ss"]),
    ("catalog --kind nvmee", &["--kind", "nvme"]),
    ("catalog --year x", &["--year"]),
    ("workloads databse", &["storagebench-database"]),
    ("model validate none", &["none"]),
    ("model fit --matrix none.csv --drive generic-nvme -o n.toml", &["none.csv"]),
    ("model matrix --drive generic-nvm none.csv", &["generic-nvme"]),
    // Arrays.
    ("array create a m0 m1 --level 5 --member-size 64MiB", &["RAID 5", "<MEMBER>"]),
    ("array create a m0 m0 --level 1 --member-size 64MiB", &["m0 is named twice", "<MEMBER>"]),
    ("array create a m0 m1 --level 1 --member-size 64MiB --block-size 1KiB", &["--block-size"]),
    (
        "array create a m0 m1 --level 1 --member-size 64MiB --spare-slots 99999999999",
        &["--spare-slots", "65535"],
    ),
    ("array create a m0 m1 --level 1 --member-size 64", &["--member-size", "'64'"]),
    ("array create a m0 m1 --level 1", &["--member-size"]),
    (
        "array create a m0 m1 --level 0 --member-size 4KiB",
        &["a member of 4 KiB (--member-size)", "64 KiB", "--strip-size"],
    ),
    ("array stop none", &["no array answers"]),
    ("array create a text m1 --level 1 --member-size 64MiB", &["text", "--destroy-data"]),
    ("array serve none --socket n.sock", &["none"]),
    ("array serve text --socket n.sock", &["text"]),
    ("emulate none.toml --socket n.sock", &["none.toml"]),
    ("torture --seeds 0", &["--seeds"]),
    ("torture --plan text", &["text"]),
    // Results.
    ("runs --db none.sqlite", &["none.sqlite"]),
    ("runs --db text", &["text is not a results file of raidlab", "--db"]),
    ("runs --db other.sqlite", &["other.sqlite", "another program"]),
    ("show x", &["x"]),
    ("show 9 --db runs.sqlite", &["run 9"]),
    ("compare 1 9 --db runs.sqlite", &["run 9"]),
    ("report 9 --db runs.sqlite", &["run 9"]),
    ("report 1 --db runs.sqlite -o none/r.html", &["none/r.html", "option: --"]),
    ("report 1 --db runs.sqlite --x iops --y moep", &["--y", "moep"]),
    ("tag '' 1 --db runs.sqlite", &["TAG"]),
    ("export csv 9 --db runs.sqlite", &["run 9"]),
    ("export csv 1 --db runs.sqlite -o none/r.csv", &["none/r.csv"]),
    ("import fio none", &["none"]),
    ("import fio text", &["text"]),
    ("import icf text", &["text"]),
    ("import trace text -o t.parquet", &["text"]),
    ("import runs text", &["text"]),
    ("studio --listen nowhere", &["--listen", "127.0.0.1:10809"]),
    ("reference completions csh", &["csh"]),
];

/// A folder with a kept run, and files that are others'.
fn bench() -> Bench {
    let bench = Bench::new();
    bench.write("text", "not what is wanted here\n");
    bench.write("bad.toml", "schema = 1\ncolour = \"red\"\n");
    let other = rusqlite::Connection::open(bench.path().join("other.sqlite")).expect("it can be made");
    other.execute_batch("CREATE TABLE customer (name TEXT)").expect("it is new");
    let quick =
        ["measure", "null:1MiB", "-w", "streaming", "--run", "20ms", "--ramp", "0s", "--db", "runs.sqlite"];
    bench.done(&quick);
    bench
}

/// The words of a command; `''` is an empty one.
fn words(command: &str) -> Vec<&str> {
    command.split_whitespace().map(|word| if word == "''" { "" } else { word }).collect()
}

#[test]
fn bad_input_ends_with_2_and_names_what_is_wrong() {
    let bench = bench();
    let mut wrong = Vec::new();
    for (command, parts) in BAD_INPUT {
        let ended = bench.run(&words(command));
        let missing: Vec<&&str> = parts.iter().filter(|part| !ended.stderr.contains(**part)).collect();
        if ended.code != Some(2) || !missing.is_empty() || !ended.stdout.is_empty() {
            wrong.push(format!(
                "{command}\n  code {:?}, not named: {missing:?}\n{}",
                ended.code, ended.stderr
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Commands that write a file, whose name is FILE.
const WRITERS: &[&str] = &[
    "measure FILE -w storagebench-database --run 20ms --ramp 0s",
    "measure FILE -w storagebench-database --size 64MiB --run 20ms --ramp 0s",
    "measure FILE -w storagebench-database --precondition 1 --run 20ms --ramp 0s",
    "measure FILE -w streaming --precondition 1 --run 20ms --ramp 0s",
    "measure null:1MiB -w streaming --run 20ms --ramp 0s --report FILE",
    "measure null:1MiB -w streaming --run 20ms --ramp 0s --db FILE",
    "measure null:1MiB --matrix FILE --run 20ms --ramp 0s",
    "study small.toml --target FILE",
    "study small.toml --report FILE",
    "study small.toml --db FILE",
    "soak FILE --size 64MiB --write --passes 1",
    "soak FILE --rewrite --passes 1",
    "bonnie . --size 1MB --csv FILE",
    "bonnie . --size 1MB --report FILE",
    "streams . --size 1MB --streams 1 --report FILE",
    "net --loopback --seconds 0.1 --report FILE",
    "calibrate null:1MiB -o FILE",
    "simulate --array r5.toml -w streaming --run 20ms --ramp 0s --report FILE",
    "simulate --array r5.toml -w streaming --run 20ms --ramp 0s --db FILE",
    "emulate r5.toml --socket n.sock --backing FILE",
    "emulate r5.toml --socket FILE",
    "reproduce fastt600-2004 --table 1 --ramp 20ms --run 20ms --report FILE",
    "fit cdf-caf-2002 --rounds 1 --out FILE",
    "plan --app streaming --usable 400GB --drives st3600057ss --controllers perc-h800 --simulations 1 --report FILE",
    "plan --app streaming --usable 400GB --drives st3600057ss --controllers perc-h800 --simulations 1 --study FILE",
    "model from-sheet --kind hdd --capacity 4TB --rpm 7200 --seq-read 200MB/s --id mine --name Mine -o FILE",
    "model fit --matrix m.csv --drive generic-nvme -o FILE",
    "model matrix --drive generic-nvme m.csv --report FILE",
    "array create a FILE --level 0",
    "array create a FILE m1 --level 1 --member-size 64MiB",
    "report 1 --db runs.sqlite -o FILE",
    "report 1 --db runs.sqlite --markdown FILE",
    "export csv 1 --db runs.sqlite -o FILE",
    "export parquet 1 --db runs.sqlite -o FILE",
    "export json 1 --db runs.sqlite -o FILE",
    "export fio 1 --db runs.sqlite -o FILE",
    "export iometer 1 --db runs.sqlite -o FILE",
    "export iolog t.parquet -o FILE",
    "import trace web.spc -o FILE",
    "runs --db FILE",
];

#[test]
fn no_verb_destroys_a_file_that_raidlab_did_not_make() {
    let bench = bench();
    let array = "schema = 1\nlevel = \"5\"\nmembers = 4\ndrive = \"st3600057ss\"\ncontroller = \"perc-h800\"\n\
                 write-policy = \"write-through\"\nregion = \"64 MiB\"\n";
    bench.write("r5.toml", array);
    bench.write("web.spc", "0,0,4096,R,0.0\n0,8,4096,W,0.1\n");
    bench.write("small.toml", &[HEAD, MEASURE, SIMULATE].concat());
    bench.done(&["import", "trace", "web.spc", "-o", "t.parquet"]);
    let path = bench.path().join("mine");
    let mut wrong = Vec::new();
    for kind in ["text", "zero", "sparse"] {
        for command in WRITERS {
            let _ = std::fs::remove_file(&path);
            match kind {
                "text" => std::fs::write(&path, "precious data ".repeat(8192)),
                "zero" => std::fs::write(&path, vec![0; 1 << 20]),
                _ => std::fs::File::create(&path).and_then(|file| file.set_len(64 << 20)),
            }
            .expect("the folder can be written");
            let before = std::fs::read(&path).expect("it is there");
            let ended = bench.run(&words(&command.replace("FILE", "mine")));
            let is_as_it_was = std::fs::read(&path).is_ok_and(|now| now == before);
            if ended.code != Some(2) || !is_as_it_was || !ended.stderr.contains("mine") {
                wrong.push(format!(
                    "{command} ({kind})\n  code {:?}, as it was: {is_as_it_was}\n{}",
                    ended.code, ended.stderr
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn results_replace_own_pages_and_what_may_be_overwritten() {
    let bench = bench();
    let report = ["report", "1", "--db", "runs.sqlite"];
    for _ in 0..2 {
        bench.run(&report).assert(0, &["report.html"]);
    }
    let csv = ["export", "csv", "1", "--db", "runs.sqlite", "-o", "text"];
    bench.run(&csv).assert(2, &["text is there already", "--overwrite"]);
    bench.done(&[&csv[..], &["--overwrite"]].concat());
    bench.done(&csv);
}
