//! From measured runs back to what was assumed: `compare plan:N`, `fit --to`.

use crate::support::Bench;

/// An array whose runs take a few milliseconds each, kept.
fn simulated(bench: &Bench, more: &[&str]) {
    let args = [
        "simulate",
        "--level=10",
        "--members=4",
        "--drive=st3600057ss",
        "--controller=perc-h800",
        "--write-policy=write-through",
        "--region=200GB",
        "--bottleneck=off",
        "--ramp=200ms",
        "--run=4s",
        "--workload=md1200-oltp",
        "--db=runs.sqlite",
    ];
    bench.done(&[&args, more].concat());
}

fn compare<'a>(args: &[&'a str]) -> Vec<&'a str> {
    [&["compare"], args, &["--db", "runs.sqlite"]].concat()
}

#[test]
fn a_plan_is_compared_with_runs_and_told_what_was_wrong() {
    let bench = Bench::new();
    simulated(&bench, &["--iodepth=8,16"]);
    // The same on drives that turn slower and seek longer.
    simulated(
        &bench,
        &[
            "--iodepth=16",
            "--seed=7",
            "--set=st3600057ss:mechanics.rpm=7200",
            "--set=st3600057ss:mechanics.seek_read.average=8 ms",
            "--set=st3600057ss:mechanics.seek_read.full_stroke=16 ms",
            "--set=st3600057ss:mechanics.seek_write.average=9 ms",
            "--set=st3600057ss:mechanics.seek_write.full_stroke=17 ms",
        ],
    );
    let ended = bench.done(&compare(&["plan:1", "run:3", "--json"]));
    ended.assert(0, &["note: run 3 was simulated"]);
    let found = ended.json();
    assert_eq!(
        (&found["finding"], &found["causes"]),
        (&"one".into(), &serde_json::json!(["drive"])),
        "{found}"
    );
    assert_eq!(found["run_ids"], serde_json::json!([3]), "{found}");
    let times = found["trials"][0]["times"].as_f64().expect("a number");
    assert!((1.7..2.6).contains(&times), "{found}");
    let text = bench.done(&compare(&["plan:1", "3"])).stdout;
    let on_one_line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for part in ["run 3: md1200-oltp", "The workload was as predicted", "the drives take", "requests/s"] {
        assert!(on_one_line.contains(part), "{part}:\n{text}");
    }
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");

    // Another seed is no difference.
    simulated(&bench, &["--iodepth=8", "--seed=3"]);
    let found = bench.done(&compare(&["plan:1", "4", "--json"])).json();
    assert_eq!(found["finding"], "agrees", "{found}");
    // Other requests are no fault of the hardware.
    simulated(&bench, &["--iodepth=8", "--read-pct=20"]);
    let found = bench.done(&compare(&["plan:1", "5", "--json"])).json();
    assert_eq!(
        (&found["finding"], &found["causes"]),
        (&"one".into(), &serde_json::json!(["workload"])),
        "{found}"
    );
}

#[test]
fn a_plan_of_the_planner_is_kept() {
    let bench = Bench::new();
    let ended = bench.done(&[
        "plan",
        "--app=md1200-oltp",
        "--usable=1TB",
        "--drives=st3600057ss",
        "--controllers=perc-h800",
        "--enclosures=md1200",
        "--levels=10",
        "--members=4",
        "--simulations=1",
        "--top=1",
        "--db=runs.sqlite",
    ]);
    ended.assert(0, &["kept as plan:1"]);
    simulated(&bench, &["--enclosure=md1200", "--iodepth=4", "--seed=7"]);
    let found = bench.run(&compare(&["plan:1", "2", "--json"])).json();
    assert_eq!(found["run_ids"], serde_json::json!([2]), "{found}");
    let asked = found.to_string();
    assert!(
        asked.contains("iodepth") && found["array"].as_str().is_some_and(|it| it.contains("RAID 10 x4")),
        "{found}"
    );
}

#[test]
fn what_can_not_be_compared_with_a_plan_is_refused() {
    let bench = Bench::new();
    simulated(&bench, &["--iodepth=1"]);
    bench.done(&["risk", "--level=6", "--members=8", "--drive=exos-x24-24tb", "--db=runs.sqlite"]);
    let rows: [(&[&str], &str, &str); 7] = [
        (&["plan:9", "1"], "there is no plan 9", "it has run"),
        (&["plan:2", "1"], "study run 2 is of 'risk' and no plan", ""),
        (&["plan:1", "plan:1"], "plan:1 is a plan, and plan:1 is compared with runs", "name runs"),
        (&["1", "plan:1"], "plan:1 stands behind the runs", "name the plan first"),
        (&["plan:1", "run:1"], "run 1 is one of plan:1 itself", "name runs that were measured"),
        (&["plan:1", "run:8"], "there is no run 8", "it has run"),
        (&["plan:1", "2"], "has no requests per second", "name runs of 'measure'"),
    ];
    for (args, problem, hint) in rows {
        bench.run(&compare(args)).assert(2, &[problem, hint]);
    }
    // Kept without what it takes to simulate it again.
    let connection = rusqlite::Connection::open(bench.path().join("runs.sqlite")).expect("it is there");
    connection.execute("UPDATE study_run SET configuration = '{}' WHERE id = 1", []).expect("it can be");
    drop(connection);
    bench.run(&compare(&["plan:1", "2"])).assert(2, &["plan:1 can't be simulated again", "with --db"]);
}

/// A drive that answers later than its entry says, measured by one read at a time and by eight.
const MEASURE_ONE: [&str; 14] = [
    "simulate",
    "--level=jbod",
    "--members=1",
    "--drive=generic-nvme",
    "--controller=linux-md-nvme",
    "--write-policy=write-through",
    "--workload=reads.toml",
    "--iodepth=1,8",
    "--bottleneck=off",
    "--ramp=20ms",
    "--run=100ms",
    "--db=runs.sqlite",
    "--set=generic-nvme:host.read_latency=50 us",
    "--seed=5",
];

const READS: &str = "schema = 1\nname = \"reads\"\ntitle = \"Reads\"\nsource = \"made up\"\nmetric = \"iops\"\n\n[[line]]\n\
                     size = \"4KiB\"\nshare_pct = 100\nread_pct = 100\nrandom_pct = 100\n";

fn fit<'a>(more: &[&'a str]) -> Vec<&'a str> {
    let args =
        ["fit", "--drive=generic-nvme", "--controller=linux-md-nvme", "--db=runs.sqlite", "--rounds=4"];
    [&args, more].concat()
}

#[test]
fn a_drive_is_fitted_to_runs_and_written_as_a_new_entry() {
    let bench = Bench::new();
    bench.write("reads.toml", READS);
    bench.done(&MEASURE_ONE);
    let args = fit(&[
        "--to=1..2",
        "--only=generic-nvme:host.read_latency",
        "--out=mine.toml",
        "--id=mine",
        "--json",
    ]);
    let ended = bench.done(&args);
    ended.assert(0, &["written: mine.toml"]);
    let found = &ended.json()["fit_of_runs"];
    let figure = &found["figures"][0];
    let value: f64 = figure["value"]
        .as_str()
        .and_then(|text| text.strip_suffix(" ns"))
        .and_then(|it| it.parse().ok())
        .expect("a time");
    assert!((45e3..55e3).contains(&value) && figure["low"].is_string(), "{found}");
    let entry = bench.read("mine.toml");
    assert!(
        entry.contains("id = \"mine\"") && entry.contains("fitted: by 'raidlab fit --to 1..2'"),
        "{entry}"
    );
    bench.run(&args).assert(2, &["mine.toml is there already"]);
    bench.done(&["catalog", "mine", "--catalog=mine.toml"]);

    let text = bench
        .done(&fit(&[
            "--to=run:1",
            "--only=generic-nvme:host.read_latency",
            "--only=generic-nvme:host.write_latency",
        ]))
        .stdout;
    for part in ["These runs do not tell generic-nvme:host.write_latency", "not known", "off by"] {
        assert!(text.contains(part), "{part}:\n{text}");
    }
}

/// What the runs do not tell, and what lies at a bound of the search, is no finding and goes into no file unless that is asked for.
#[test]
fn values_that_were_not_found_are_not_written() {
    let bench = Bench::new();
    bench.write("reads.toml", READS);
    let mut slow = MEASURE_ONE;
    slow[12] = "--set=generic-nvme:host.read_latency=300 us";
    bench.done(&slow);
    // Its 3 us may become 32 times as many, and the run took 300 us more.
    let only = "--only=generic-nvme:flash.decode";
    let ended = bench.done(&fit(&["--to=run:1", only, "--out=mine.toml"]));
    ended.assert(0, &["not written: generic-nvme:flash.decode", "mine.toml is not written"]);
    ended.says(&["ended at its bound"]);
    assert!(!bench.path().join("mine.toml").exists(), "{}", ended.stdout);
    bench.done(&fit(&["--to=run:1", only, "--out=mine.toml", "--untold"]));
    assert!(bench.read("mine.toml").contains("at the bound of the search"), "{}", bench.read("mine.toml"));
}

#[test]
fn what_can_not_be_fitted_to_is_refused() {
    let bench = Bench::new();
    bench.write("reads.toml", READS);
    bench.done(&MEASURE_ONE);
    bench.write("other.json", "{\"sysstat\": 1}");
    let only = "--only=generic-nvme:host.read_latency";
    let rows: [(&[&str], &str); 6] = [
        (&["--to=run:9", only], "there is no run 9"),
        (&["--to=nothing", only], "'nothing' names no runs"),
        (&["--to=other.json", only], "other.json cannot be taken in"),
        (&["--to=missing.json", only], "missing.json cannot be taken in"),
        (
            &["--to=1", "--only=generic-nvme:host.raed_latency"],
            "did you mean 'generic-nvme:host.read_latency'?",
        ),
        (&["--to=1", "--only=generic-nvme:name"], "is no figure of generic-nvme"),
    ];
    for (args, problem) in rows {
        bench.run(&fit(args)).assert(2, &[problem]);
    }
    bench
        .run(&["fit", "--to=1", only, "--db=runs.sqlite"])
        .assert(2, &["--to needs what was measured", "--drive ID"]);
    bench.run(&["fit", "--to=1"]).assert(2, &["--only"]);
}

/// Whether there is a fio to compare with; says so where there is none.
fn has_fio() -> bool {
    let found =
        std::process::Command::new("fio").arg("--version").output().is_ok_and(|it| it.status.success());
    if !found {
        println!("left out: fio is not installed");
    }
    found
}

#[test]
fn imported_jobs_ask_what_fio_asks() {
    if !has_fio() {
        return;
    }
    let bench = Bench::new();
    let rows = [
        "[a]\nrw=read\nbs=64k\nsize=1m\n",
        "[a]\nrw=write\nbs=4k\nsize=1m\noffset=256k\n",
        "[a]\nrw=randread\nbs=4k\nsize=1m\n",
        "[a]\nrw=randwrite\nbs=8k\nsize=4m\nnorandommap\n",
        "[a]\nrw=randrw\nrwmixread=70\nbs=4k\nsize=4m\n",
        "[a]\nrw=rw\nrwmixread=30\nbs=16k\nsize=16m\n",
        "[a]\nrw=randread\nbssplit=4k/60:16k/40\nsize=16m\nnorandommap\n",
        "[a]\nrw=randread\nbs=4KiB\nsize=1MiB\n",
        "[a]\nrw=write\nbs=4k\nsize=1m\nfsync=8\n",
        "[a]\nrw=randread\nbs=4k\nsize=25%\n",
        "[a]\nrw=randread\nbs=4k\nnumber_ios=33\n",
        "[a]\nrw=read\nbs=4k\nsize=1m\nio_size=2m\n",
        "[a]\nrw=write\nbs=64k\nsize=512k\nnumjobs=3\noffset_increment=128k\n",
        "[global]\nbs=4k\nsize=1m\n[a]\nrw=read\n[b]\nstonewall\nrw=randwrite\n",
        "[a]\nrw=randread\nbs=4k\nsize=16m\nrandom_distribution=zoned:60/10:30/20:10/70\nnorandommap\n",
        "[a]\nrw=randread\nbs=4k,8k\nsize=1m\nfilename=/dev/sda\nruntime=60\ntime_based\nrate_iops=1\n",
        "[a]\nrw=randrw\nbs=4k,8k\nsize=8m\nnorandommap\n",
        "[a]\nrw=write\nverify=crc32c\ndo_verify=0\nbs=4k\nsize=1m\n",
        "[a]\nfilesize=64m\nsize=8m\nrw=randread\nbs=4k\n",
        "[a]\nfilesize=16m\nsize=2m\noffset_increment=4m\nnumjobs=4\nrw=read\nbs=64k\n",
        "[a]\nsize=1000000\nrw=read\nbs=64k\n",
        "[part.$jobnum of $jobname]\nsize=1m\nrw=randread\nbs=4k\nnumjobs=2\n",
        "[a]\nfilename=f\nnrfiles=4\nsize=1m\nrw=read\nbs=64k\n",
        "[a]\nfilesize=1m\nrw=randread\nnorandommap\nrandom_generator=lfsr\n",
        "[a]\nsize=8m\nrw=randread\nbs=3000\nnorandommap\n",
        "[a]\nsize=64m\nrw=randread\nrandom_distribution=normal:10\nbs=4k\nnorandommap\n",
        // Several files of a job, in the order that fio takes them.
        "[a]\nrw=read\nbs=4k\nsize=1m\nnrfiles=4\n",
        "[a]\nrw=write\nbs=4k\nsize=1000k\nnrfiles=7\n",
        "[a]\nrw=randread\nbs=4k\nsize=4m\nnrfiles=4\n",
        "[a]\nrw=randwrite\nbs=4k\nsize=64m\nnrfiles=16\nnorandommap\n",
        "[a]\nrw=randrw\nrwmixread=70\nbs=8k\nsize=8m\nfilename=x:y:z\n",
        "[a]\nrw=read\nbs=4k\nsize=1m\nnrfiles=4\nfile_service_type=sequential\n",
        "[a]\nrw=read\nbs=4k\nsize=1m\nnrfiles=4\nfile_service_type=roundrobin:8\n",
        "[a]\nrw=read\nbs=4k\nsize=16m\nnrfiles=4\nfile_service_type=random\n",
        "[a]\nrw=randread\nbs=4k\nsize=64m\nnrfiles=4\nfile_service_type=random:5\nnorandommap\n",
        "[a]\nrw=read\nbs=4k\nfilesize=64k\nnrfiles=100\n",
        "[a]\nrw=read\nbs=4k\nsize=1m\nnrfiles=4\nio_size=2m\n",
        "[a]\nrw=randread\nrandom_distribution=zipf:1.2\nbs=4k\nsize=64m\nnrfiles=2\nnorandommap\n",
        "[a]\nrw=write\nbs=64k\nsize=2m\nnrfiles=2\nnumjobs=3\ndirectory=a:b\n",
        "[a]\nrw=randread\nbs=4k\nsize=66k\nnrfiles=4\nnorandommap\n",
        "[a]\nrw=randread\nbssplit=4k/50:8k/50\nsize=16m\nnrfiles=4\nnorandommap\n",
        "[a]\nrw=randread\nbs=4k\nsize=16m\nnrfiles=4\nnorandommap\npercentage_random=50\n",
        // Jobs at once on targets of their own.
        "[global]\nsize=1m\n[data]\nfilename=/dev/sdb\nrw=randrw\n[wal]\nfilename=/dev/sdc\nrw=write\nbs=8k\nfdatasync=1\n",
        "[global]\nsize=1m\n[data]\nfilename=/dev/sdb\nrw=randread\n[files]\nnrfiles=4\nrw=write\n",
    ];
    for job in rows {
        bench.write("a.fio", job);
        let ended = bench.run(&["import", "fio", "a.fio", "--check"]);
        assert_eq!(ended.code, Some(0), "{job}\n{}{}", ended.stdout, ended.stderr);
        assert!(ended.stdout.contains("requests as fio-"), "{}", ended.stdout);
    }
    bench.write("a.fio", rows[0]);
    let found = bench.done(&["import", "fio", "a.fio", "--check", "--json"]).json();
    assert_eq!((&found["agrees"], &found["jobs"][0]["requests"]), (&true.into(), &16.into()), "{found}");
    // What can't be imported, and what fio refuses.
    bench.write("a.fio", "[a]\nrw=write\nbs=4k\nverify=md5\nsize=1m\n");
    bench.run(&["import", "fio", "a.fio", "--check"]).assert(2, &["a.fio:4: verify of a job that writes"]);
    bench.write("a.fio", "{\"sysstat\": {}}");
    assert_eq!(bench.run(&["import", "fio", "a.fio", "--check"]).code, Some(2));
}

/// `measure` lays no file out over one that is there: the command of a job on such a file failed.
#[test]
fn the_command_of_a_job_runs_on_a_larger_file() {
    let bench = Bench::new();
    bench.write("job.fio", "[job]\nrw=randread\nbs=4k\nsize=256k\nfilename=data.bin\n");
    let command = |bench: &Bench| {
        let text = bench.done(&["import", "fio", "job.fio"]).stdout;
        bench.write("job.toml", &text);
        text.lines().next().unwrap_or_default().trim_start_matches("# raidlab ").to_owned()
    };
    assert!(command(&bench).contains("--size 262144B"));
    bench.write("data.bin", &"x".repeat(1 << 20));
    let command = command(&bench);
    assert!(!command.contains("--size"), "{command}");
    let args: Vec<&str> = command.split(' ').chain(["--run=100ms", "--ramp=0s"]).collect();
    bench.done(&args);
}

/// fio's own examples: of Debian's package fio-examples, or in the folder that `FIO_EXAMPLES` names. Each makes the same requests here, or
/// is refused with its line.
#[test]
fn examples_of_fio_agree_or_are_refused_with_a_line() {
    if !has_fio() {
        return;
    }
    let folder = std::env::var("FIO_EXAMPLES").unwrap_or_else(|_| "/usr/share/doc/fio/examples".to_owned());
    let entries = std::fs::read_dir(&folder).unwrap_or_else(|error| {
        panic!("{folder}: {error}: fio is here without its examples; install fio-examples, or set FIO_EXAMPLES to their folder")
    });
    let bench = Bench::new();
    let (mut same, mut refused, mut wrong) = (0, 0, Vec::new());
    for entry in entries {
        let path = entry.expect("it can be read").path();
        if path.extension().is_none_or(|it| it != "fio") {
            continue;
        }
        let path = path.to_string_lossy().into_owned();
        let ended = bench.run(&["import", "fio", &path, "--check"]);
        let name = path.rsplit('/').next().unwrap_or(&path);
        let has_line = ended
            .stderr
            .split(&format!("{name}:"))
            .skip(1)
            .any(|it| it.starts_with(|c: char| c.is_ascii_digit()));
        match ended.code {
            Some(0) => same += 1,
            Some(2) if has_line => refused += 1,
            _ => wrong.push(format!("{name}: {}{}", ended.stdout, ended.stderr)),
        }
    }
    println!("{same} examples of fio make the same requests, {refused} are refused with a line");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(same > 0, "or the test says nothing");
}
