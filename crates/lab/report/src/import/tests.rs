//! Files of fio and Iometer, files of raidlab's exports, and invalid files.

use super::*;
use crate::export;
use proptest::prelude::*;
use raidlab_units::{BytesPerSec, Iops, NanoSpan};
use raidlab_workload::{AccessLine, LatencyHistogram, LoadFacts, Metric, OpStats, Summaries, World};
use std::collections::BTreeMap;

/// A run with reads and writes whose latencies are spread over four powers of ten.
fn own_run() -> RunResult {
    let mut run = RunResult::unmeasured(World::Measured, "/dev/sdx".into(), "database".into(), Metric::Iops);
    (run.iodepth, run.seed, run.window_ns) = (8, 42, 2_000_000_000);
    let window = NanoSpan(run.window_ns);
    let op = |count: u64, factor: u64| {
        let mut lat = LatencyHistogram::default();
        (1..=count).for_each(|n| lat.record_ns(n * n * factor));
        let stats = OpStats {
            requests: count,
            bytes: raidlab_units::ByteCount(count * 8192),
            lat,
            ..OpStats::default()
        };
        (OpSummary::of(&stats, window), stats)
    };
    let ((read, mut all), (write, writes)) = (op(670, 1000), op(330, 3000));
    all.merge(&writes);
    run.ops = Summaries { read, write, total: OpSummary::of(&all, window), ..Summaries::default() };
    run.lines = vec![AccessLine::plain(8192, 67, 100)];
    run.load = Some(LoadFacts { targets: 1, workers: 2, iodepth_per_target: 4 });
    run
}

fn near(one: f64, other: f64) -> bool {
    (one - other).abs() <= 1e-6 * one.abs().max(other.abs()).max(1e-3)
}

#[test]
fn what_raidlab_exports_as_fio_comes_back() {
    let own = own_run();
    let text = export::fio::json(&own, 1_700_000_000);
    assert!(is_fio(&text) && !is_iometer(&text));
    let found = fio(&text).unwrap();
    assert!(found.program.starts_with("raidlab-") && found.notes.is_empty());
    let [ForeignRun { run, started_at_unix_ms }] = &found.runs[..] else { panic!("one run") };
    assert_eq!(*started_at_unix_ms, Some(1_700_000_000_000));
    assert_eq!((&run.workload, run.iodepth, run.load), (&own.workload, 8, own.load));
    assert_eq!(run.target, format!("/dev/sdx ({})", found.program), "no repeat of our own runs there");
    assert_eq!((run.seed, run.window_ns), (own.seed, own.window_ns));
    for (back, own) in
        [(&run.ops.read, &own.ops.read), (&run.ops.write, &own.ops.write), (&run.ops.total, &own.ops.total)]
    {
        assert_eq!(
            (back.requests, back.lat_ns_min, back.lat_ns_max),
            (own.requests, own.lat_ns_min, own.lat_ns_max)
        );
        assert!(near(back.iops.0, own.iops.0) && near(back.bytes_per_sec.0, own.bytes_per_sec.0));
        assert!(near(back.lat_ns_mean, own.lat_ns_mean));
        // That of both is made of those of each, which a histogram knows within its steps.
        assert!((back.lat_ns_stddev / own.lat_ns_stddev - 1.0).abs() < 1e-2);
        // Those of both together are read off bins that are 12.5 % wide.
        for (back, own) in [(back.lat_ns_p50, own.lat_ns_p50), (back.lat_ns_p99, own.lat_ns_p99)] {
            assert!((own..=own + own / 8).contains(&back), "{back} for {own}");
        }
        assert_eq!(back.lat_bins, own.lat_bins);
    }
    assert_eq!(
        (run.ops.read.lat_ns_p99, &run.ops.read.lat_curve),
        (own.ops.read.lat_ns_p99, &own.ops.read.lat_curve)
    );
    assert_eq!(run.lines[0], own.lines[0]);
    assert_eq!(run.settings["lacks"], "the course over time");
}

#[test]
fn what_raidlab_exports_as_iometer_comes_back() {
    let own = own_run();
    let timed = export::iometer::TimedRun {
        run: &own,
        started_at: "2026-01-31 12:00:00:000",
        ended_at: "2026-01-31 12:00:02:000",
    };
    let text = export::iometer::csv("a title", &[timed, timed]);
    assert!(is_iometer(&text) && !is_fio(&text));
    let found = iometer(&text).unwrap();
    assert_eq!(
        (found.program.as_str(), found.title.as_str(), found.runs.len()),
        ("Iometer 1.1.0", "a title", 2)
    );
    assert_eq!(found.runs[0].started_at_unix_ms, Some(1_769_860_800_000));
    assert_eq!(found.runs[1].started_at_unix_ms, Some(1_769_860_802_000));
    let run = &found.runs[1].run;
    assert_eq!((&run.workload, run.iodepth, run.load), (&own.workload, 8, own.load));
    assert_eq!(run.target, "/dev/sdx (Iometer 1.1.0)", "no repeat of our own runs there");
    assert!((run.window_ns as f64 - own.window_ns as f64).abs() < 1e4, "{}", run.window_ns);
    assert_eq!(run.lines, own.lines);
    for (back, own) in
        [(&run.ops.read, &own.ops.read), (&run.ops.write, &own.ops.write), (&run.ops.total, &own.ops.total)]
    {
        assert_eq!((back.requests, back.errors, back.lat_ns_max), (own.requests, own.errors, own.lat_ns_max));
        assert!(near(back.iops.0, own.iops.0) && near(back.lat_ns_mean, own.lat_ns_mean));
        assert!((back.bytes_per_sec.0 - own.bytes_per_sec.0).abs() < 2.0);
        assert_eq!(back.lat_ns_p99, 0, "classes say nothing of percentiles");
    }
    let (curve, own_curve) = (&run.ops.total.lat_curve, &own.ops.total.lat_bins);
    assert!(curve.is_sorted_by_key(|point| point.lat_ns) && curve.last().is_some_and(|end| end.pct == 100.0));
    let below = |ns| own_curve.iter().filter(|bin| bin.lat_ns <= ns).map(|bin| bin.requests).sum::<u64>();
    let at_10ms = curve.iter().find(|point| point.lat_ns == 10_000_000).expect("a class");
    assert!(near(at_10ms.pct, below(10_000_000) as f64 / 10.0), "{at_10ms:?}");
}

/// A direction as fio 3.33 prints it, shortened.
fn fio_direction(requests: u64, mean: f64) -> String {
    format!(
        r#"{{"total_ios": {requests}, "iops": {requests}.5, "bw_bytes": {}, "runtime": 1001,
        "slat_ns": {{"min": 1, "max": 9, "mean": 2.0, "stddev": 1.0, "N": {requests}}},
        "clat_ns": {{"min": 1, "max": 9, "mean": {mean}, "stddev": 5.0, "N": {requests},
            "percentile": {{"1.000000": 100, "50.000000": 200, "99.000000": 300, "99.990000": 400}}}},
        "lat_ns": {{"min": 90, "max": 900, "mean": {mean}, "stddev": 5.0, "N": {requests}}}}}"#,
        requests * 4096
    )
}

fn fio_file(jobs: &[(&str, &str, u64, u64)]) -> String {
    let job = |(name, options, reads, writes): &(&str, &str, u64, u64)| {
        format!(
            r#"{{"jobname": "{name}", "groupid": 0, "error": 0, "elapsed": 2, "job options": {{{options}}},
            "read": {}, "write": {}, "job_runtime": 1000, "usr_cpu": 10.0, "sys_cpu": 30.0}}"#,
            fio_direction(*reads, 150.0),
            fio_direction(*writes, 250.0)
        )
    };
    let jobs: Vec<String> = jobs.iter().map(job).collect();
    format!(
        "fio: a warning of fio's\n{{\"fio version\": \"fio-3.33\", \"timestamp_ms\": 10000, \"global options\": \
         {{\"ioengine\": \"libaio\", \"direct\": \"1\"}}, \"jobs\": [{}]}}\nand what comes behind",
        jobs.join(",")
    )
}

#[test]
fn a_run_of_fio_has_what_the_file_has_and_says_what_it_lacks() {
    let options = r#""filename": "/dev/sdy", "rw": "randread", "bs": "4k", "iodepth": "16""#;
    let found = fio(&fio_file(&[("a", options, 1000, 0)])).unwrap();
    let ForeignRun { run, started_at_unix_ms } = &found.runs[0];
    assert_eq!((found.program.as_str(), *started_at_unix_ms), ("fio-3.33", Some(8000)));
    assert_eq!((run.target.as_str(), run.iodepth, run.metric), ("/dev/sdy (fio-3.33)", 16, Metric::Iops));
    assert_eq!(
        (run.ops.total.requests, run.ops.total.iops, run.ops.total.lat_ns_max),
        (1000, Iops(1000.5), 900)
    );
    assert_eq!(run.ops.total.bytes_per_sec, BytesPerSec(4_096_000.0));
    assert_eq!(
        (run.ops.total.lat_ns_p50, run.ops.total.lat_ns_p999, run.ops.total.lat_ns_p9999),
        (200, 0, 400)
    );
    assert_eq!((run.lines[0].bytes, run.lines[0].read_pct, run.lines[0].random_pct), (4096, 100, 100));
    assert_eq!(run.ops.total.split, None, "fio's parts are other parts");
    // fio's elapsed is that of all jobs, of those before it as well.
    assert_eq!(run.cost.wall_ns, 1_001_000_000);
    // 40 % of a second for a thousand requests.
    assert_eq!(run.cost.cpu_ns_per_io, Some(400_000.0));
    let lacks = &run.settings["lacks"];
    for lacking in ["of the whole latency", "percentiles 90, 99.9, 99.999", "distribution", "over time"] {
        assert!(lacks.contains(lacking), "{lacks}");
    }
    assert_eq!(
        (run.settings["fio ioengine"].as_str(), run.settings["measured by"].as_str()),
        ("libaio", "fio-3.33")
    );
}

#[test]
fn reads_and_writes_together_have_a_mean_and_no_made_up_percentiles() {
    let options = r#""rw": "rw", "bs": "64k,4k", "iodepth": "4", "ioengine": "psync", "numjobs": "3", "rwmixread": "75""#;
    let text = fio_file(&[("a", options, 300, 100), ("b", options, 0, 7)]);
    let text = text.replace("\"bw_bytes\": 1228800", "\"bw_bytes\": 19660800");
    let found = fio(&text).unwrap();
    let run = &found.runs[0].run;
    assert_eq!(
        (run.ops.total.requests, run.ops.total.lat_ns_mean, run.ops.total.lat_ns_p50),
        (400, 175.0, 0)
    );
    // Three quarters are 25 below the mean and a quarter 75 above it, each with a deviation of 5.
    assert!(near(run.ops.total.lat_ns_stddev, (0.75_f64 * (25.0 + 625.0) + 0.25 * (25.0 + 5625.0)).sqrt()));
    let lacks = &run.settings["lacks"];
    let apart = "percentiles 50, 99, 99.99 of reads and writes together (each has its own)";
    assert!(lacks.contains(apart) && lacks.contains("percentiles 90, 99.9, 99.999"), "{lacks}");
    assert_eq!(
        (run.lines.len(), run.lines[0].bytes, run.iodepth),
        (2, 65_536, 3),
        "a length for each direction; psync has one request in flight"
    );
    assert_eq!(found.runs[1].run.ops.total.lat_ns_p50, 200, "one direction is both");
    assert!(found.notes[0].contains("2 of these jobs shared a group"), "{:?}", found.notes);
}

/// fio gives the total beside both with `unified_rw_reporting=both`.
#[test]
fn the_total_of_a_mix_is_the_files_own_where_it_has_one() {
    let options = r#""rw": "randrw", "bs": "4k""#;
    let mixed = fio_direction(400, 175.0).replace("\"99.000000\": 300", "\"99.000000\": 290");
    let text = fio_file(&[("a", options, 300, 100)])
        .replace("\"job_runtime\"", &format!("\"mixed\": {mixed}, \"job_runtime\""));
    let run = fio(&text).unwrap().runs.swap_remove(0).run;
    let p99 = [&run.ops.total, &run.ops.read, &run.ops.write].map(|it| (it.requests, it.lat_ns_p99));
    assert_eq!(p99, [(400, 290), (300, 300), (100, 300)]);
    assert!(!run.settings["lacks"].contains("together"), "{}", run.settings["lacks"]);
}

/// A file may have the rows of several runs below one head; only the first was kept.
#[test]
fn each_row_all_of_iometer_is_a_run() {
    let rows: String = IOMETER_2006
        .lines()
        .filter(|line| line.starts_with("ALL"))
        .map(|line| format!("{line}\r\n"))
        .collect();
    let second = rows.replace("64K read", "other").replace(",1600,0,-1", ",3200,0,-1");
    let text = IOMETER_2006.replacen(
        "'Time Stamp\r\n2007-03-01 10:00:10",
        &(second + "'Time Stamp\r\n2007-03-01 10:00:10"),
        1,
    );
    let found = iometer(&text).unwrap();
    let told: Vec<_> = found
        .runs
        .iter()
        .map(|it| (it.run.workload.as_str(), it.run.ops.total.requests, it.run.iodepth, it.run.lines.len()))
        .collect();
    assert_eq!(told, [("64K read", 1600, 12, 1), ("other", 3200, 0, 0)]);
    assert!(found.runs[0].run.settings["lacks"].contains("time zone"));
}

#[test]
fn what_was_asked_is_what_the_options_say_or_empty() {
    let measured = |options: &str, reads: u64, writes: u64, bytes: u64| {
        let text = fio_file(&[("a", options, reads, writes)]);
        let text = text
            .replace(&format!("\"bw_bytes\": {}", reads * 4096), &format!("\"bw_bytes\": {}", reads * bytes));
        fio(&text).unwrap().runs.swap_remove(0).run
    };
    let run = |options: &str| measured(options, 10, 10, 4096);
    let lines = |run: &RunResult| -> Vec<(u32, u8, u8)> {
        run.lines.iter().map(|line| (line.bytes, line.share_pct, line.read_pct)).collect()
    };
    let split = measured(r#""rw": "randread", "bssplit": "4k/10:64k/90""#, 100, 0, 59_392);
    assert_eq!(lines(&split), [(4096, 10, 100), (65_536, 90, 100)]);
    assert_eq!(
        lines(&measured(r#""rw": "randrw", "rwmixwrite": "10", "bs": "4k""#, 90, 10, 4096)),
        [(4096, 100, 90)]
    );
    for odd in
        [r#""rw": "trim", "bs": "64k""#, r#""rw": "read:8k""#, r#""rw": "read", "bs_is_seq_rand": "1""#]
    {
        let run = run(odd);
        assert!(run.lines.is_empty() && run.settings["lacks"].contains("what was asked"), "{odd}");
    }
}

/// With `group_reporting`, fio prints the options of the last job over the figures of all; rates of each direction change shares.
#[test]
fn options_that_the_figures_contradict_are_left_out() {
    let run = |options: &str, reads, writes| {
        fio(&fio_file(&[("a", options, reads, writes)])).unwrap().runs.swap_remove(0).run
    };
    let others = run(r#""rw": "write", "bs": "4k", "iodepth": "1""#, 900, 100);
    assert!(others.lines.is_empty() && others.iodepth == 0, "{:?}", others.lines);
    assert!(others.settings["lacks"].contains("the last job of a group"), "{}", others.settings["lacks"]);
    assert!(!others.settings.contains_key("fio bs") && others.settings.contains_key("fio ioengine"));
    // 12 requests of 250 us each in a second of 1001 ms are 3 in flight.
    let deeper = fio_file(&[("a", r#""rw": "randwrite", "bs": "4k", "iodepth": "2""#, 0, 12_000)]);
    let deeper = fio(&deeper.replace("\"mean\": 250", "\"mean\": 250000")).unwrap().runs.swap_remove(0).run;
    assert_eq!((deeper.iodepth, deeper.lines.len()), (0, 0));
    let rates = run(r#""rw": "randrw", "bs": "4k", "iodepth": "4", "rate_iops": "100,50""#, 100, 50);
    assert_eq!((rates.iodepth, rates.lines.len()), (4, 0));
    assert!(rates.settings["lacks"].contains("rates of each direction"), "{}", rates.settings["lacks"]);
    let checked = run(r#""rw": "write", "bs": "4k", "iodepth": "1", "verify": "crc32c""#, 100, 100);
    assert_eq!(checked.iodepth, 1, "reads that check what was written");
}

#[test]
fn snapshots_of_one_run_count_once() {
    let until = |ms: u64, requests: u64| {
        fio_file(&[("a", r#""rw": "randread", "bs": "4k""#, requests, 0)])
            .replace("\"timestamp_ms\": 10000", &format!("\"timestamp_ms\": {}", 10_000 + ms))
            .replace("\"runtime\": 1001", &format!("\"runtime\": {ms}"))
    };
    let found = fio(&[until(1001, 10), until(2001, 20), until(3001, 30)].concat()).unwrap();
    assert_eq!((found.runs.len(), found.runs[0].run.ops.total.requests), (1, 30));
    assert!(found.notes.iter().any(|note| note.contains("--status-interval")), "{:?}", found.notes);
    // The next run began when the one before had ended.
    let next = until(1001, 20).replace("\"timestamp_ms\": 11001", "\"timestamp_ms\": 12002");
    assert_eq!(fio(&[until(1001, 10), next].concat()).unwrap().runs.len(), 2);
}

#[test]
fn old_fios_have_no_counts() {
    let text = fio_file(&[("a", r#""rw": "randread", "bs": "4k""#, 1000, 0)]);
    let run = fio(&text.replace("\"total_ios\": 1000, ", "").replace("\"N\": 1000", "\"n\": 0"));
    let run = run.unwrap().runs.swap_remove(0).run;
    assert_eq!((run.ops.read.requests, run.ops.read.lat_ns_p99), (1002, 300));
    // Terse of version 2 names no program.
    let direction = |io: u32| {
        let points: String = (0..20).map(|at| format!("{at}.0%={at};")).collect();
        format!("{io};400;100;{io};3;9;5.0;1.0;39;47;187.3;3.0;{points}46;47;192.3;3.0;1;1;96%;1.0;0.0")
    };
    let found = fio(&format!("2;i2;0;0;{};{};0;0;0\n", direction(1000), direction(0))).unwrap();
    let run = &found.runs[0].run;
    assert_eq!(
        (run.workload.as_str(), run.ops.read.requests, run.ops.read.lat_ns_mean),
        ("i2", 100, 192_300.0)
    );
}

#[test]
fn flushes_trims_and_runs_without_a_request_are_told() {
    let nothing = fio(&fio_file(&[("a", r#""rw": "trim""#, 0, 0)])).unwrap().runs.swap_remove(0).run;
    assert!(nothing.settings["lacks"].contains("no request of it ended"), "{:?}", nothing.settings);
    // A first request that failed is counted by fio.
    let failed = fio_file(&[("a", r#""rw": "trim""#, 0, 0)]).replace(
        r#""error": 0,"#,
        r#""error": 25, "trim": {"io_bytes": 0, "runtime": 0, "total_ios": 1, "lat_ns": {"N": 0}},"#,
    );
    let found = fio(&failed).unwrap();
    assert_eq!(found.runs[0].run.ops.others.trim, None);
    assert!(found.notes[0].contains("a ended with error 25"), "{:?}", found.notes);
    let sync = r#""sync": {"total_ios": 0, "lat_ns": {"min": 5, "max": 90, "mean": 16.0, "stddev": 1.0, "N": 1800,
        "percentile": {"50.000000": 15}}}, "write": "#;
    let text =
        fio_file(&[("a", r#""rw": "write", "fdatasync": "1""#, 0, 1800)]).replace(r#""write": "#, sync);
    let run = fio(&text).unwrap().runs.swap_remove(0).run;
    let flush = run.ops.others.flush.expect("it flushed");
    assert_eq!((flush.requests, flush.lat_ns_mean, flush.lat_ns_p50, flush.lat_ns_max), (1800, 16.0, 15, 90));
}

#[test]
fn fio_2_clients_and_unified_figures_have_their_units() {
    let text = r#"{"fio version": "fio-2.6", "timestamp": 100, "client_stats": [{"jobname": "All clients", "groupid": 0, "mixed":
        {"io_bytes": 2000, "bw": 16, "iops": 2.5, "runtime": 1000, "total_ios": 500, "slat": {"mean": 0.0},
         "lat": {"min": 4, "max": 37, "mean": 17.5, "stddev": 1.0}}, "hostname": "h", "port": 1}]}"#;
    assert!(is_fio(text));
    let run = fio(text).unwrap().runs.swap_remove(0).run;
    let total = &run.ops.total;
    assert_eq!(
        (total.requests, total.bytes_per_sec, total.lat_ns_mean),
        (500, BytesPerSec(16_384.0), 17_500.0)
    );
    assert_eq!((run.ops.read.requests, run.iodepth, run.lines.len()), (0, 0, 0));
    for lacking in ["reads and writes apart", "requests in flight", "what was asked"] {
        assert!(run.settings["lacks"].contains(lacking), "{:?}", run.settings);
    }
    assert!(run.target.starts_with("h:"), "{}", run.target);
    // What fio adds up of the clients is no job beside theirs.
    let entry = |name: &str, host: &str| {
        let figures =
            r#""mixed": {"io_bytes": 2000, "bw": 16, "iops": 2.5, "runtime": 1000, "total_ios": 500}"#;
        format!(r#"{{"jobname": "{name}", "groupid": 0, {figures}, "hostname": "{host}", "port": 1}}"#)
    };
    let clients = [entry("a", "h"), entry("a", "i"), entry("All clients", "")].join(", ");
    let found = fio(&format!(r#"{{"fio version": "fio-3.33", "client_stats": [{clients}]}}"#)).unwrap();
    assert!(found.notes[0].starts_with("2 of these jobs shared a group"), "{:?}", found.notes);
    assert!(found.notes[1].contains("'All clients' is what fio adds up"), "{:?}", found.notes);
    let two = [fio_file(&[("a", "", 1, 0)]), fio_file(&[("b", "", 2, 0)])].join("\n");
    let found = fio(&two).unwrap();
    assert_eq!(found.runs.iter().map(|it| it.run.workload.as_str()).collect::<Vec<_>>(), ["a", "b"]);
}

#[test]
fn terse_output_says_what_json_says() {
    let direction = |kib: u64, iops: u64| {
        let clat: Vec<String> = (0..20).map(|at| format!("{}.000000%={}", 5 * at, at * 10)).collect();
        format!(
            "{kib};{};{iops};2000;1;2;3.0;4.0;5;60;7.5;8.0;{};9;100;50.5;6.0;0;0;0.0%;0.0;0.0",
            kib / 2,
            clat.join(";")
        )
    };
    let text =
        format!("fio: a warning\n3;fio-3.33;job;0;0;{};{};rest\n", direction(8000, 1000), direction(0, 0));
    assert!(is_fio(&text));
    let run = fio(&text).unwrap().runs.swap_remove(0).run;
    let read = &run.ops.read;
    assert_eq!((run.workload.as_str(), read.requests, read.iops), ("job", 2000, Iops(1000.0)));
    assert_eq!(
        (read.bytes_per_sec, read.lat_ns_mean, read.lat_ns_max),
        (BytesPerSec(4_096_000.0), 50_500.0, 100_000)
    );
    assert_eq!((read.lat_ns_p50, read.lat_ns_p90), (100_000, 180_000));
}

#[test]
fn without_rows_of_workers_the_depth_is_that_of_all() {
    let text: Vec<&str> = IOMETER_2006
        .lines()
        .filter(|line| !line.starts_with("WORKER") && !line.starts_with("DISK"))
        .collect();
    let depth = |text: &str| iometer(text).unwrap().runs.swap_remove(0).run;
    let text = text.join("\n");
    let unknown = depth(&text);
    assert_eq!(unknown.iodepth, 0);
    assert!(unknown.settings["lacks"].contains("the queue depth"));
    assert_eq!(depth(&text.replacen(",0,-1", ",0,8", 1)).iodepth, 8);
}

/// Results of Iometer 2006.07.27, whose columns are others and whose megabytes are binary.
const IOMETER_2006: &str = "'Test Type,Test Description\r\n0,old\r\n'Version\r\n2006.07.27\r\n'Time Stamp\r\n\
    2007-03-01 10:00:00:000\r\n'Access specifications\r\n'Access specification name,default assignment\r\n\
    64K read,0\r\n'size,% of size,% reads,% random,delay,burst,align,reply\r\n65536,100,100,0,0,1,0,0\r\n\
    'End access specifications\r\n'Results\r\n\
    'Target Type,Target Name,Access Specification Name,# Managers,# Workers,# Disks,IOps,Read IOps,Write IOps,MBps,\
    Read MBps,Write MBps,Average Response Time,Average Read Response Time,Average Write Response Time,\
    Maximum Response Time,Errors,Read I/Os,Write I/Os,Queue Depth\r\n\
    ALL,All,64K read,1,2,2,160,160,0,10,10,0,25.5,25.5,0,99.25,1,1600,0,-1\r\n\
    MANAGER,HOST,64K read,,2,2,160,160,0,10,10,0,25.5,25.5,0,99.25,1,1600,0,-1\r\n\
    WORKER,Worker 1,64K read,,,1,80,80,0,5,5,0,25.5,25.5,0,99.25,0,800,0,4\r\nDISK,D: old,,,,,80\r\n\
    WORKER,Worker 2,64K read,,,1,80,80,0,5,5,0,25.5,25.5,0,90,1,800,0,8\r\nDISK,E: older,,,,,80\r\n\
    'Time Stamp\r\n2007-03-01 10:00:10:000\r\n";

#[test]
fn columns_are_found_in_the_order_of_any_version() {
    let both = iometer(&format!("{IOMETER_2006}{}", IOMETER_2006.replace("2006.07.27", "1.1.0"))).unwrap();
    let programs: Vec<&str> = both.runs.iter().map(|it| it.run.settings["measured by"].as_str()).collect();
    assert_eq!(programs, ["Iometer 2006.07.27", "Iometer 1.1.0"], "files that were put together");
    let found = iometer(IOMETER_2006).unwrap();
    let ForeignRun { run, started_at_unix_ms } = &found.runs[0];
    assert_eq!(
        (found.program.as_str(), *started_at_unix_ms),
        ("Iometer 2006.07.27", Some(1_172_743_200_000))
    );
    assert_eq!(
        (run.target.as_str(), run.workload.as_str()),
        ("D: old, E: older (Iometer 2006.07.27)", "64K read")
    );
    assert_eq!((run.iodepth, run.load), (12, None), "the workers' depths differ, so the load is no product");
    assert_eq!(run.ops.total.bytes_per_sec, BytesPerSec(10.0 * 1_048_576.0));
    assert_eq!((run.ops.total.requests, run.ops.total.errors, run.window_ns), (1600, 1, 10_000_000_000));
    assert_eq!((run.ops.total.lat_ns_mean, run.ops.total.lat_ns_max), (25_500_000.0, 99_250_000));
    assert_eq!((run.lines[0].bytes, run.lines[0].align_bytes), (65_536, None));
    assert!(run.settings["lacks"].contains("the distribution of latencies"));
}

/// As Excel of another language saves it: semicolons, commas in numbers, empty fields behind short rows.
#[test]
fn a_spreadsheet_may_have_saved_it() {
    let own = iometer(IOMETER_2006).unwrap();
    let numbers = |line: &str| if line.starts_with('\'') { line.to_owned() } else { line.replace('.', ",") };
    for point in [true, false] {
        let saved = |line: &str| {
            // Times and versions are text.
            let line = line.replace(',', ";");
            let line = if point || line.starts_with("20") { line } else { numbers(&line) };
            format!("{line}{}\r\n", ";".repeat(19_usize.saturating_sub(line.matches(';').count())))
        };
        let text: String = IOMETER_2006.lines().map(saved).collect();
        assert!(is_iometer(&text) && text.contains("old;;;;"));
        assert_eq!(iometer(&text).unwrap(), own, "{text}");
    }
}

/// A rate that is none is no zero.
#[test]
fn a_bad_rate_is_told_with_its_line() {
    let text = "{\"fio version\": \"fio-3.33\",\n\"jobs\": [{\"jobname\": \"a\",\n\"read\": {\"total_ios\": 5, \"runtime\": 9,\n\"iops\" : 100.5},\n\"write\": {}}]}";
    assert!(fio(text).is_ok());
    for bad in ["-5", "\"x\"", "null", "1e99", "1e300", "100.5, \"lat_ns\": {\n\"mean\" : 1e300}"] {
        let error = fio(&text.replace("100.5", bad)).expect_err(bad).to_string();
        let place = if bad.contains("mean") { "line 5: \"mean\"" } else { "line 4: \"iops\"" };
        assert!(error.starts_with(&format!("{place} of \"read\" of job 'a' is ")), "{error}");
        assert!(error.ends_with("which is no figure: it is damaged; run fio again"), "{error}");
    }
    let error = fio(&text.replace("100.5", "nan")).expect_err("no JSON").to_string();
    assert!(error.starts_with("line 4, in document 1: '\"iops\" : nan},' is no JSON: "), "{error}");
    let several = format!("{text}\n{text}\n{}", &text[..60]);
    let error = fio(&several).expect_err("a cut-off report").to_string();
    assert_eq!(
        error,
        "its JSON is not whole: document 3, which begins in line 11, is cut off in line 13: let fio write it to its end, or take out all \
         from line 11 on"
    );
    let fields = |iops: &str| {
        let mut fields = vec!["0"; 87];
        (fields[0], fields[1], fields[2], fields[7]) = ("3", "fio-3.33", "a", iops);
        fields.join(";")
    };
    assert!(fio(&fields("5")).is_ok());
    let error = fio(&fields("-5")).expect_err("a rate below zero").to_string();
    assert_eq!(error, "line 1, field 8: iops is '-5', which is no figure");
}

const CRYSTAL: &str = "CrystalDiskMark 8.0.4 x64\n[Read]\n  SEQ    1MiB (Q=  8, T= 1):  3562.334 MB/s [   3397.3 IOPS] <  2352.43 us>\n   Date: 2021/12/15 10:00:00\n";

/// What a file does not have is nothing wherever a run is shown or exported, and never 0.
#[test]
fn what_is_not_known_is_nothing() {
    const UNIFIED: &str = "{\"fio version\": \"fio-3.33\", \"jobs\": [{\"jobname\": \"a\", \"mixed\": {\"total_ios\": 10, \"runtime\": 1000, \"iops\": 10.0, \
                           \"bw_bytes\": 40960, \"io_bytes\": 40960}}]}";
    const TRACED: &str =
        "     usecs               : count     distribution\n       128 -> 255        : 10       |*** |\n";
    let only = |found: ForeignResults| found.runs.into_iter().next().expect("a run").run;
    let cells = |run: &RunResult| -> BTreeMap<String, String> {
        let kept = crate::table::KeptRun { id: 1, study: 1, title: "", started_at: "", tags: &[], run };
        let text = crate::csv::table(&crate::table::Table::runs(&[kept]));
        let mut reader = ::csv::Reader::from_reader(text.as_bytes());
        let head = reader.headers().unwrap().clone();
        let row = reader.records().next().unwrap().unwrap();
        head.iter().map(str::to_owned).zip(row.iter().map(str::to_owned)).collect()
    };
    let rows = [
        (
            only(others(CRYSTAL).unwrap()),
            &[
                "total_requests",
                "read_requests",
                "total_lat_ns_p50",
                "total_lat_ns_max",
                "window_ns",
                "started_at",
            ][..],
            &[("total_iops", "3397.3"), ("write_iops", "0"), ("iodepth", "8")][..],
        ),
        (
            only(fio(UNIFIED).unwrap()),
            &["iodepth", "read_iops", "write_iops", "read_requests", "total_lat_ns_mean", "total_lat_ns_p99"],
            &[("total_iops", "10"), ("total_requests", "10")],
        ),
        (
            only(latency_tables(TRACED).unwrap()),
            &[
                "iodepth",
                "total_iops",
                "total_bytes_per_sec",
                "read_iops",
                "total_lat_ns_mean",
                "total_lat_ns_min",
            ],
            &[("total_requests", "10")],
        ),
    ];
    for (run, unknown, known) in rows {
        let cells = cells(&run);
        let mut json = serde_json::to_value(&run).unwrap();
        crate::known::null_what_is_missing(&run, &mut json);
        for name in unknown {
            assert_eq!(cells[*name], "", "{name} of {}", run.target);
            let (kind, figure) = name.split_once('_').unwrap_or_default();
            if ["read", "write", "total"].contains(&kind) {
                assert!(json[kind][figure].is_null(), "{name}: {json}");
            }
        }
        for (name, value) in known {
            assert_eq!(cells[*name], *value, "{name} of {}", run.target);
        }
        assert_eq!(serde_json::from_value::<RunResult>(json).unwrap(), run, "null is read as it is kept");
        let options = crate::terminal::TerminalOptions { width: 300, colour: false };
        let shown = crate::terminal::run(&run, options);
        assert!(
            !shown.contains(" 0 IOPS") && !shown.contains(" 0 MB/s") && !shown.contains("iodepth 0"),
            "{shown}"
        );
        assert!(shown.contains("total ") && shown.contains("p99 -"), "{shown}");
    }
}

/// Reads of an unknown number were exported as writes.
#[test]
fn an_export_has_the_direction_of_the_run() {
    let found = others(CRYSTAL).unwrap();
    let exported: serde_json::Value =
        serde_json::from_str(&export::fio::json(&found.runs[0].run, 0)).unwrap();
    let options = &exported["jobs"][0]["job options"];
    assert_eq!(
        (&options["rw"], &options["bs"], &options["rwmixread"]),
        (&"read".into(), &"1024k".into(), &"100".into())
    );
}

#[test]
fn what_is_no_results_is_an_error_with_the_reason() {
    let rows = [
        ("", "no JSON"),
        ("{\"fio version\": \"fio-3.33\", \"jobs\": [", "not whole"),
        ("{\"jobs\": []}", "which fio"),
        ("{\"fio version\": \"fio-3.33\", \"jobs\": []}", "no results"),
        ("{\"fio version\": \"fio-3.33\", \"jobs\": [{}]}", "no 'read'"),
        ("3;fio-3.33;a;0;0;1;2;3", "line 1 has 8 fields of 87"),
        (
            "{\"fio version\": \"fio-3.33\", \"jobs\": [{\"read\": {}, \"write\": {}}]}\n{\"fio",
            "document 2, which begins in line 2",
        ),
    ];
    for (text, why) in rows {
        let error = fio(text).unwrap_err().to_string();
        assert!(error.contains(why), "{text}: {error}");
    }
    let rows = [
        ("a,b", "does not begin"),
        ("'Test Type\n0,x\n", "no results"),
        ("'Test Type\n'Target Type,a\nDISK,x\n", "row ALL"),
    ];
    for (text, why) in rows {
        let error = iometer(text).unwrap_err().to_string();
        assert!(error.contains(why), "{text}: {error}");
    }
}

proptest! {
    #[test]
    fn damaged_files_never_panic(at in 0_usize..4000, cut in 0_usize..4000, byte in any::<u8>(), iometers in any::<bool>()) {
        let own = own_run();
        let timed = export::iometer::TimedRun { run: &own, started_at: "", ended_at: "" };
        let text = if iometers { export::iometer::csv("x", &[timed]) } else { export::fio::json(&own, 1) };
        let mut bytes = text.into_bytes();
        let length = bytes.len();
        bytes[at % length] = byte;
        bytes.truncate(length - cut % (length / 2));
        let text = String::from_utf8_lossy(&bytes);
        // Whatever it is taken for, it ends.
        let taken = if iometers { iometer(&text) } else { fio(&text) };
        prop_assert!(taken.is_err() || taken.is_ok_and(|found| !found.runs.is_empty()));
    }
}
