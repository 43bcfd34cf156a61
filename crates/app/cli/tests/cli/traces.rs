//! Imported jobs and traces on the real binary: as files, on targets, and on modelled arrays.

use crate::support::{Bench, Ended};
use std::fs::File;

#[test]
fn import_makes_workload_files_that_run() {
    let bench = Bench::new();
    let job = "[global]\nioengine=libaio\ndirect=1\nsize=1m\nruntime=1\n[a]\nrw=randread\nbs=8k\niodepth=4\n\
               [b]\nrw=write\n[c]\nstonewall\nrw=read\n";
    bench.write("job.fio", job);
    let many = bench.run(&["import", "fio", "job.fio"]);
    many.assert(2, &["2 steps", "--output"]);
    let ended = bench.done(&["import", "fio", "job.fio", "-o", "made"]);
    let text = "raidlab measure TARGET --workload made/job.toml --run 1s --size 2097152B\n\
                raidlab measure TARGET --workload made/c.toml --iodepth 1 --run 1s --size 1048576B\n";
    assert_eq!(ended.stdout, text);
    bench.done(&["workloads", "made/job.toml"]).says(&["part a", "every place once"]);
    let run =
        ["measure", "null:2MiB", "--workload", "made/job.toml", "--run", "50ms", "--ramp", "1ms", "--json"];
    let ran = bench.done(&run);
    let parts = ran.json()["runs"][0]["parts"].as_array().expect("parts have figures").clone();
    assert_eq!(parts.iter().map(|part| part["name"].as_str()).collect::<Vec<_>>(), [Some("a"), Some("b")]);
    // The same once more destroys nothing.
    bench.done(&["import", "fio", "job.fio", "-o", "made"]);
    bench.write("bad.fio", "[a]\nrw=read\nzonemode=zbd\n");
    bench.run(&["import", "fio", "bad.fio"]).assert(2, &["bad.fio:3: zonemode has no counterpart here"]);
}

#[test]
fn job_files_take_other_files_and_variables_in() {
    let bench = Bench::new();
    bench.write("common.inc", "bs=${BS}\nrw=read\n");
    std::fs::create_dir(bench.path().join("jobs")).expect("the folder can be made");
    bench.write("jobs/beside.inc", "size=1m\n");
    bench.write("jobs/a.fio", "[a]\nfilename=f\ninclude common.inc\ninclude beside.inc\n");
    let ended = bench.run(&["import", "fio", "jobs/a.fio", "--env", "BS=2300"]);
    ended.assert(0, &["BS is '2300', of --env", "job a: sequential reads of 2300 B, 1 in flight, on f"]);
    bench.run(&["import", "fio", "jobs/a.fio"]).assert(2, &["common.inc:1: bs = ${BS}: BS is not set"]);
    bench.write("a.toml", &ended.stdout);
    // One that is included is looked for beside the file that includes it.
    std::fs::create_dir(bench.path().join("jobs/sub")).expect("the folder can be made");
    bench.write("jobs/sub/a.inc", "rw=read\ninclude deep.inc\n");
    bench.write("jobs/sub/deep.inc", "bs=8k\nsiez=1m\n");
    bench.write("jobs/b.fio", "[b]\ninclude sub/a.inc\n");
    bench.run(&["import", "fio", "jobs/b.fio"]).assert(2, &["jobs/sub/deep.inc:2: unknown key 'siez'"]);
    bench.write("jobs/sub/deep.inc", "bs=8k\nsize=1m\n");
    bench.run(&["import", "fio", "jobs/b.fio"]).assert(0, &["job b: sequential reads of 8 KiB"]);
    // A dry run and a real one of lengths that are no whole sectors.
    bench.done(&["measure", "null:1MiB", "--workload", "a.toml", "--run", "20ms"]);
    bench.done(&["measure", "made", "--size", "1MiB", "--buffered", "--workload", "a.toml", "--run", "20ms"]);
    bench.run(&["measure", "made", "--buffered", "--workload", "a.toml", "--run", "20ms"]).assert(0, &[]);
    bench.run(&["import", "trace", "jobs/a.fio"]).assert(2, &["holds no trace: this is a job file of fio"]);
    bench.run(&["import", "runs", "jobs/a.fio"]).assert(2, &["this is a job file of fio", "import fio"]);
    bench.write("m.trace", "1000000 0 800 16 1\n5000000 0 3200 16 0\n");
    bench.run(&["import", "trace", "m.trace"]).assert(0, &["--time-unit ns"]);
    bench.done(&["import", "trace", "m.trace", "--time-unit", "ns"]).says(&["4.00 ms"]);
    bench
        .run(&["import", "trace", "m.trace", "--time-unit", "ns", "--format", "msr"])
        .assert(2, &["leave out --time-unit"]);
}

#[test]
fn traces_are_imported_and_written_for_fio() {
    let bench = Bench::new();
    bench.write("web.spc", "0,16,8192,W,1.5\n1,0,512,R,1.25\n0,32,4096,r,2.0\n");
    let import = bench.run(&["import", "trace", "web.spc", "-o", "web.parquet"]);
    import.assert(0, &["warning: 1 of 3 requests were not in the order of their times"]);
    import.says(&[
        "3 lines, format spc",
        "2 reads, 1 write,",
        "750 ms",
        "device 1: asu1, 1 read, 0 writes, up to 512 B",
    ]);
    bench
        .run(&["import", "trace", "web.spc", "-o", "web.parquet"])
        .assert(2, &["web.parquet is there already", "--overwrite"]);
    let json =
        bench.run(&["import", "trace", "web.spc", "--format", "spc", "--device", "asu0", "--json"]).json();
    assert_eq!((&json["format"], &json["summary"]["span_ns"]), (&"spc".into(), &500_000_000.into()));
    let iolog = bench.done(&["export", "iolog", "web.parquet", "--file", "/dev/x,/dev/y"]);
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
    bench.done(&["import", "trace", "two.csv", "-o", "two.parquet"]);
    bench
}

#[test]
fn traces_are_replayed_on_targets() {
    let bench = bench_with_trace();
    let on = |targets: &[&'static str], more: &[&'static str]| {
        bench.run(&[&["measure"], targets, &["--trace", "two.parquet", "--json"], more].concat())
    };
    let run = on(&["null:8MiB", "null:9MiB"], &["--timing", "scaled:0.5"]).well().json()["runs"][0].clone();
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
        let ended = bench.done(&[&args[..], &["--json"]].concat());
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

/// One discard in a trace stopped both, though a drive takes it.
#[test]
fn a_trace_with_one_discard_is_simulated_and_planned() {
    let bench = Bench::new();
    let io = |n: u64| {
        format!("{} f {} {} 4096\n", n * 50, if n.is_multiple_of(3) { "write" } else { "read" }, n * 8192)
    };
    let mut log = "fio version 3 iolog\n0 f add\n0 f open\n".to_owned();
    log.extend((1..200).map(io));
    log += "10000 f trim 1048576 2097152\n";
    log.extend((201..300).map(io));
    bench.write("one.log", &(log + "20000 f close\n"));
    bench.done(&["import", "trace", "one.log", "-o", "one.parquet"]);
    let hardware = |level: &'static str, drive: &'static str, controller: &'static str| {
        let plain = ["simulate", "--trace", "one.parquet", "--bottleneck", "off", "--json", "--members", "4"];
        let ended = bench
            .done(&[&plain[..], &["--level", level, "--drive", drive, "--controller", controller]].concat());
        let run = ended.json()["runs"][0].clone();
        assert_eq!((&run["trim"]["requests"], &run["trim"]["errors"]), (&1.into(), &0.into()), "{level}");
        assert_eq!(run["total"]["requests"], 298);
        run["settings"]["trims"].as_str().expect("what became of it is told").to_owned()
    };
    assert_eq!(hardware("0", "generic-nvme", "linux-md-nvme"), "passed on to the drives in 4 commands");
    assert_eq!(hardware("10", "generic-nvme", "linux-md-nvme"), "passed on to the drives in 4 commands");
    assert!(hardware("5", "generic-nvme", "linux-md-nvme").contains("agree with the parity"));
    assert!(hardware("0", "st3600057ss", "perc-h800").contains("passes none on"));
    let plan = bench.done(&[
        "plan",
        "--trace",
        "one.parquet",
        "--usable",
        "6TB",
        "--iops",
        "100",
        "--drives",
        "generic-nvme",
        "--controllers",
        "linux-md-nvme",
        "--slots",
        "4",
        "--simulations",
        "2",
        "--top",
        "1",
        "--condition",
        "sequential",
        "--report",
        "page.html",
        "--json",
    ]);
    // One table of all figures was wider than a page of 1,000 points.
    let page = bench.read("page.html");
    assert!(page.contains("What is left with a member missing"), "faults have a table of their own");
    let widest = page
        .split("<thead>")
        .skip(1)
        .map(|table| table.split("</thead>").next().unwrap_or_default().matches("<th ").count());
    assert!(widest.max().is_some_and(|columns| columns <= 9), "{page}");
    let best = &plan.json()["top"][0];
    assert_eq!(best["drive_condition"], "sequential, 100 % full");
    assert!(best["trims"].as_str().is_some_and(|told| !told.is_empty()), "{best}");
}

/// One rule for all that imports write: what is somebody's is replaced where `--overwrite` says so.
#[test]
fn outputs_of_imports_replace_files_only_if_asked() {
    let bench = Bench::new();
    bench.write("a.spc", "0,20941264,8192,W,0.551706\n");
    bench.write("a.fio", "[a]\nrw=read\nsize=1m\n");
    bench.write("iostat.json", include_str!("../../../../load/history/tests/data/iostat.json"));
    let kinds: [(&[&str], &str); 3] = [
        (&["import", "trace", "a.spc", "-o", "t.parquet"], "t.parquet"),
        (&["import", "fio", "a.fio", "-o", "out"], "out/a.toml"),
        (&["import", "history", "iostat.json", "-o", "h.toml"], "h.toml"),
    ];
    for (args, written) in kinds {
        bench.done(args);
        bench.write(written, "mine");
        bench.run(args).assert(2, &[&format!("{written} is there already"), "--overwrite"]);
        assert_eq!(bench.read(written), "mine");
        bench.done(&[args, &["--overwrite"]].concat());
        assert_ne!(std::fs::read(bench.path().join(written)).expect("it is there"), b"mine");
    }
}

/// `-` was the name of a file that is not there, but for traces.
#[test]
fn imports_read_standard_input() {
    let bench = Bench::new();
    let fio = "{\"fio version\": \"fio-3.33\", \"jobs\": [{\"jobname\": \"a\", \"read\": {\"total_ios\": 5, \"iops\": 5.0}, \
               \"write\": {}}]}";
    let iostat = include_str!("../../../../load/history/tests/data/iostat.json");
    let rows = [
        ("fio", "[a]\nrw=read\nsize=1m\n", "name = \"a\""),
        ("history", iostat, "loop2"),
        ("runs", fio, "-: 1 run is new"),
        ("trace", "0,20941264,8192,W,0.551706\n", "format spc"),
    ];
    let imported = |verb: &str, text: &str| {
        let input = File::open(bench.write("input", text)).expect("it was written");
        let mut command = bench.command(&["import", verb, "-"]);
        Ended::of(command.stdin(input).output().expect("the binary was built"))
    };
    for (verb, text, told) in rows {
        imported(verb, text).well().says(&[told]);
    }
    imported("runs", "SQLite format 3\0").assert(2, &["a results file is opened by its name", "FILE.sqlite"]);
}
