//! `raidlab model validate` on the real binary, with the drives that come with the source.

use crate::support::Bench;

fn drive(name: &str) -> String {
    format!("{}/../../../validation/disksim-4.0/{name}", env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn a_drive_is_validated_in_words_and_json() {
    let bench = Bench::new();
    let path = drive("hp_c3323a");
    let ended = bench.run(&["model", "validate", &path, "--json"]);
    ended.assert(0, &["which is what counts"]);
    let json = ended.json();
    let keys: Vec<_> = json.as_object().expect("an object").keys().map(String::as_str).collect();
    let wanted = ["demerit_pct", "disk", "mean_measured_ms", "mean_predicted_ms", "requests", "schema"];
    assert_eq!(keys, wanted);
    assert_eq!((json["disk"].as_str(), json["requests"].as_u64()), (Some("hp_c3323a"), Some(9074)));
    let mean = json["mean_measured_ms"].as_f64().expect("a number");
    assert!((mean - 15.765).abs() < 0.001, "{mean}");
    bench.done(&["model", "validate", &path]).says(&["demerit:", "Requests within"]);
    assert!(bench.names().is_empty(), "a validation writes nothing");
}

#[test]
fn what_is_no_drive_is_said() {
    let bench = Bench::new();
    bench.run(&["model", "validate", "nothing"]).assert(2, &["nothing.diskspecs", "without an extension"]);
    bench.write("odd.diskspecs", "disksim_disk odd { Model = source odd.model }");
    bench.run(&["model", "validate", "odd"]).assert(2, &["odd.model", "odd.diskspecs names"]);
    bench.write("odd.model", "dm_disk odd { Block count = }");
    bench.write("odd.trace", "X Hit 1 1 1 1\n");
    // What is wrong with the specification, the model and the trace, in one round.
    let wanted = ["odd.model: line 1", "has no 'Segment size (in blks)'", "odd.trace is no trace", "line 1"];
    bench.run(&["model", "validate", "odd"]).assert(2, &wanted);
}

/// A figure that was asked for is met within 3 %, and the entry is one of the catalogue that can be simulated.
#[test]
fn a_sheet_becomes_an_entry_that_does_what_it_says() {
    let bench = Bench::new();
    let sheet = [
        "model",
        "from-sheet",
        "--kind",
        "nvme",
        "--capacity",
        "3.84TB",
        "--interface",
        "pcie3x4",
        "--seq-write",
        "1800MB/s",
        "--read-iops",
        "500k",
        "--read-latency",
        "90us",
        "-o",
        "mine.toml",
    ];
    let json = bench.done(&[&sheet[..], &["--id", "mine", "--json"]].concat()).json();
    let rows = json["rows"].as_array().expect("there are rows");
    assert_eq!(rows.len(), 3);
    for row in rows {
        assert!(row["error_pct"].as_f64().expect("a number").abs() <= 3.0, "{row}");
    }
    let origins = |wanted: &str| {
        let figures = json["figures"].as_array().expect("there are figures");
        figures.iter().filter(|figure| figure["origin"] == wanted).count()
    };
    assert!(origins("given") >= 2 && origins("derived") >= 4 && origins("assumed") >= 10, "{json}");
    bench.run(&sheet).assert(2, &["mine.toml is there already", "--overwrite"]);
    let again = bench.done(&[&sheet[..], &["--overwrite"]].concat());
    let is_narrow = again.stdout.lines().all(|line| line.chars().count() <= 80 && !line.ends_with(": "));
    assert!(is_narrow && !again.stdout.contains("-0.0%"), "{}", again.stdout);
}

/// What a user knows of a drive that was measured: two figures. Interfaces go by the names that people have for them.
#[test]
fn two_measured_figures_make_an_entry_of_every_kind() {
    let bench = Bench::new();
    for (kind, interface, figures) in [
        ("nvme", "pcie3x4", ["--seq-write", "1019.587MB/s", "--read-iops", "242934"]),
        ("sata-ssd", "sata6", ["--seq-write", "480.5MB/s", "--read-iops", "81234"]),
        ("sas-ssd", "sas12", ["--seq-write", "900.5MB/s", "--read-iops", "151234"]),
        ("sas-ssd", "sas24x2", ["--seq-write", "3000.5MB/s", "--read-iops", "451234"]),
        ("hdd", "sata6", ["--seq-write", "182.188MB/s", "--read-iops", "130"]),
        ("hdd", "sas-12gx2", ["--seq-write", "182.188MB/s", "--read-iops", "130"]),
    ] {
        let args = ["model", "from-sheet", "--kind", kind, "--capacity", "2TB", "--interface", interface];
        let measured = ["--measured", "--read-block", "512", "--json"];
        let json = bench.done(&[&args[..], &figures, &measured].concat()).json();
        let rows = json["rows"].as_array().expect("rows");
        assert_eq!(rows.len(), 2, "{kind} {interface}: {json}");
        let is_met = |row: &serde_json::Value| row["error_pct"].as_f64().is_some_and(|pct| pct.abs() <= 3.0);
        assert!(rows.iter().all(is_met), "{kind} {interface}: {rows:?}");
        let keys = |origin: &str| {
            let figures = json["figures"].as_array().expect("figures").iter();
            let of = figures.filter(|figure| figure["origin"] == origin);
            of.filter_map(|figure| figure["key"].as_str()).collect::<Vec<_>>()
        };
        assert!(keys("given").contains(&"sheet.random_read"), "{kind} {interface}: {json}");
        assert!(!keys("derived").is_empty(), "{kind} {interface}: {json}");
        let of_class = if kind == "hdd" { "firmware.queue_depth" } else { "flash.erase" };
        assert!(keys("assumed").contains(&of_class) || interface == "sata6", "{kind} {interface}: {json}");
    }
}

#[test]
fn a_sheet_that_no_drive_meets_is_refused() {
    let bench = Bench::new();
    let refused = |more: &[&str], what: &str| {
        bench
            .run(&[&["model", "from-sheet", "--kind", "nvme", "--capacity", "1TB"], more].concat())
            .assert(2, &[what]);
    };
    refused(&[], "give at least one rate");
    refused(
        &["--seq-read", "14000MB/s"],
        "no drive of its class does this: --seq-read gives 14000 MB/s, and the nearest model does",
    );
    refused(&["--seq-read", "fast"], "a rate is a size a second");
    refused(&["--read-iops", "0"], "a number above zero");
    refused(&["--interface", "pcie9x4", "--seq-read", "3GB/s"], "pcie-9");
    refused(&["--interface", "sata6", "--seq-read", "500MB/s"], "SATA has one lane");
    refused(&["--read-block", "100", "--seq-read", "3GB/s"], "a multiple of 512 B");
}

/// Two cells of a matrix on an entry of the catalogue, and on the same in a file.
#[test]
fn a_matrix_is_replayed_in_words_and_json() {
    let bench = Bench::new();
    let columns = "id,read_iops,write_mb_per_s,read_block_bytes,write_block_bytes,write_queue_depth,read_jobs,\
                   read_queue_depth,arrivals,read_p50_us,read_p95_us\n";
    bench.write(
        "m.csv",
        &format!(
            "{columns}r1.w0,20000,0,4096,131072,64,7,1000,even,80,120\nr1.w9,20000,900,4096,131072,64,7,1000,even,90,\n"
        ),
    );
    let verb = ["model", "matrix", "m.csv", "--reads", "1000", "--drive"];
    let run = |rest: &[&str]| bench.run(&[&verb[..], rest].concat());
    let json = run(&["generic-nvme", "--json"]).well().json();
    let rows = json["rows"].as_array().expect("there are rows");
    let p50 = rows[0]["p50_predicted_us"].as_f64().expect("a number");
    assert!((60.0..110.0).contains(&p50), "{p50}");
    assert!(rows[1]["p95_us"].is_null() && rows[1]["p95_predicted_us"].is_number(), "{json}");
    let alone_pct = json["summary"]["p95_median_abs_error_pct"].as_f64().expect("a number");
    let p95 = rows[0]["p95_predicted_us"].as_f64().expect("a number");
    assert!((alone_pct - (p95 / 120.0 - 1.0).abs() * 100.0).abs() < 1e-9, "{json}");
    run(&["generic-nvme"]).well().says(&["95th percentile: half of the errors"]);

    let entry = std::fs::read_to_string(format!(
        "{}/../../../catalog/drives/generic-nvme.toml",
        env!("CARGO_MANIFEST_DIR")
    ));
    let entry = entry.expect("it is there").replace("\"generic-nvme\"", "\"own\"");
    bench.write("own.toml", &entry);
    let own = run(&["own.toml", "--json"]).json();
    assert_eq!((own["drive"].as_str(), &own["rows"]), (Some("own"), &json["rows"]), "the same drive");
    let fit = |drive: &str| {
        bench.run(&[
            "model", "fit", "--matrix", "m.csv", "--drive", drive, "-o", "f.toml", "--reads", "1000",
            "--json",
        ])
    };
    let fitted = fit("own.toml").well().json();
    assert_eq!(fitted["fitted_cells"], serde_json::json!(["r1.w0"]), "the other one has no 95th percentile");
    assert!(fitted["fitted"]["p50_median_abs_error_pct"].as_f64().expect("a number") < 2.0, "{fitted}");
    let seen = run(&["f.toml", "--json"]).json();
    let p50 = seen["rows"][0]["p50_predicted_us"].as_f64().expect("a number");
    assert!((p50 / 80.0 - 1.0).abs() < 0.02, "{p50} us");
    fit("own.toml").assert(2, &["f.toml is there already", "--overwrite"]);
    run(&["nothing.toml"]).assert(2, &["nothing.toml"]);
    run(&["nothing"]).assert(2, &["nothing"]);
    bench.write("m.csv", &format!("{columns}r1.w0,0,0,4096,131072,64,7,1000,even,80,120\n"));
    run(&["generic-nvme"]).assert(2, &["r1.w0", "read_iops is from"]);
}

/// Drives are held against their sheets in 80 columns; a figure that is beyond its tolerance is marked, and ends with 3.
#[test]
fn the_catalogue_is_checked_against_its_sheets() {
    let bench = Bench::new();
    let checked = bench.done(&["catalog", "check", "st3600057ss", "samsung-pm9a3-7680"]);
    checked.says(&["drives 2, figures 8"]);
    assert!(checked.stdout.lines().all(|line| line.chars().count() <= 80), "{}", checked.stdout);
    let slower = ["--set", "st3600057ss:mechanics.seek_read.average=3.9ms"];
    let slow = bench.run(&[&["catalog", "check", "st3600057ss", "--json"][..], &slower].concat());
    slow.assert(3, &[]);
    let json = slow.json();
    let rows = json["drives"][0]["rows"].as_array().expect("rows");
    let missed: Vec<_> =
        rows.iter().filter(|row| row["met"] == false).map(|row| row["figure"].clone()).collect();
    assert_eq!(missed, ["seek_read_us"]);
    assert_eq!((rows[0]["block_bytes"].as_u64(), rows[0]["iodepth"].as_u64()), (Some(65_536), Some(4)));
    bench.run(&["catalog", "check", "st3600057s"]).assert(2, &["did you mean 'st3600057ss'?"]);
    bench.run(&["catalog", "check", "pliant-lb150"]).assert(2, &["no sheet", "[sheet]"]);
}

#[test]
fn a_disk_s_sheet_becomes_an_entry_that_is_checked_and_simulated() {
    let bench = Bench::new();
    let sheet = ["model", "from-sheet", "--kind", "hdd", "--capacity", "18TB", "--seq-read", "270MB/s"];
    let more = ["--read-iops", "170", "--cache", "256MiB", "--sector", "4kn", "-o", "mine.toml"];
    bench.done(&[&sheet[..], &more].concat()).says(&[
        "derived: mechanics.seek_read.average",
        "given: capacity_sectors",
        "assumed: ",
    ]);
    bench.done(&["catalog", "check", "--catalog", "mine.toml", "from-sheet"]);
    let array = [
        "simulate",
        "--catalog",
        "mine.toml",
        "--drive",
        "from-sheet",
        "--controller",
        "linux-md",
        "--write-policy",
        "write-through",
    ];
    let load = ["--level", "6", "--members", "6", "-w", "database", "--ramp", "0s", "--run", "1s"];
    bench.done(&[&array[..], &load].concat());
    bench.run(&[&sheet[..], &["--nand", "tlc"]].concat()).assert(2, &["--nand is a figure of flash"]);
    bench.run(&[&sheet[..], &["--seek-read", "900ms"]].concat()).assert(2, &["a seek of 900"]);
}

/// Cells are written in the columns that `model matrix` reads, and nothing is written to a target that may only be read.
#[test]
fn a_matrix_is_measured_on_a_file() {
    let bench = Bench::new();
    bench.write("data.bin", &"x".repeat(1 << 20));
    let measure =
        ["measure", "data.bin", "--buffered", "--run", "60ms", "--ramp", "0s", "--matrix-steps", "5"];
    let json = bench.done(&[&measure[..], &["--matrix", "m.csv", "--json"]].concat()).json();
    assert!(
        json["write_mb_per_s_max"].is_null() && json["read_iops_max"].as_f64().is_some_and(|iops| iops > 0.0)
    );
    assert!(
        json["from_sheet"]
            .as_str()
            .is_some_and(|command| command.starts_with("raidlab model from-sheet --kind "))
    );
    let cells = json["cells"].as_u64().expect("a count") + json["left_out"].as_u64().expect("a count");
    assert_eq!(cells, 5, "a column without a writer");
    let read = |name: &str| bench.read(name);
    assert_eq!(read("data.bin"), "x".repeat(1 << 20));
    let header = read("m.csv").lines().next().map(str::to_owned).expect("a header");
    bench.run(&[&measure[..], &["--matrix", "m.csv"]].concat()).assert(2, &["m.csv can't be begun"]);
    // A file with a cell is gone on with, under the limits that this cell tells.
    let begun = format!("{header}\nr1.w0,500,0,4096,131072,32,1,256,poisson,90,120\n");
    bench.write("begun.csv", &begun);
    let resume = [&measure[..], &["--matrix", "begun.csv", "--matrix-resume", "--json"]].concat();
    let resumed = bench.done(&resume);
    assert_eq!(resumed.json()["read_iops_max"], 2500.0);
    assert!(read("begun.csv").starts_with(&begun) && !read("begun.csv")[begun.len()..].contains("r1.w0"));
    bench
        .run(&[&resume[..], &["--matrix-block", "8KiB"]].concat())
        .assert(2, &["'r1.w0' is no cell of this grid"]);
    bench.write("one.csv", &format!("{header}\nr1.w0,500,0,4096,131072,32,1,256,even,90,120\n"));
    let replay =
        ["model", "matrix", "--drive", "generic-nvme", "--reads", "100", "one.csv", "--report", "m.html"];
    bench.run(&replay).assert(0, &["report: m.html"]);
    assert!(read("m.html").contains("Reads beside a writer"));
    let refused = bench.run(&[&measure[..], &["--matrix", "n.csv", "--destroy-data", "other"]].concat());
    refused.assert(2, &["data.bin"]);
}

/// A drive that tries for longer than Linux waits is told of, and the limit can be set.
#[test]
fn risk_tells_what_a_recovery_limit_means() {
    let bench = Bench::new();
    let array = ["risk", "--level", "6", "--members", "8", "--drive", "dt01aca200", "--trials", "100"];
    let rates = ["--afr", "2", "--bits-per-error", "1e14"];
    let told = bench.done(&[&array[..], &rates].concat());
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let said = words(&told.stdout);
    assert!(said.contains("can take the drive out of its array"), "{said}");
    assert!(said.contains("0.160"), "16 Tbit at one error in 100: {said}");
    let set = bench.done(&[&array[..], &rates, &["--set", "dt01aca200:recovery_limit=7s"]].concat());
    let said = words(&set.stdout);
    assert!(said.contains("7.00 s; then the array") && !said.contains("out of its array"), "{said}");
}
