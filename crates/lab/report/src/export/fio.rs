//! A run in fio 3's output format (`--output-format=json+`), and fio's logs over time.
//!
//! | key | content |
//! |---|---|
//! | `lat_ns` | the total latency |
//! | `slat_ns`, `clat_ns` | its two parts, if the run split them (`--latency-split`); else `slat_ns` is empty and `clat_ns` is the total |
//! | `bins` | [`raidlab_workload::LatencyBin`]s: at most 12.5 % wide, where fio's are 1.6 % |
//! | `latency_ns`, `_us`, `_ms` | shares in percent, from those bins by their upper ends |
//! | `iops_mean`, `iops_stddev`, `bw_dev`, ... | over the run's intervals, without an incomplete last one |
//! | `usr_cpu`, `sys_cpu` | processor time of the process over the whole run, in percent of one processor |
//! | `iodepth_level` | the requested depth, in its class |
//! | `disk_util` | the device's queue over the whole run |
//!
//! | `sync` | flushes of both kinds |
//! | `trim` | trims; their bytes are those of their ranges, and they have no series over time |
//! | `write_zeroes` | the same for writes of zeroes, which fio does not have; only if there are any |
//!
//! Left out (zero): page faults, short and dropped I/Os, submission and completion classes.
//! Source: fio 3.33 `stat.c`, `show_thread_status_json`; its HOWTO, "Log File Formats".

use crate::known::has_moved;
use raidlab_workload::{LatencyFigures, OpSummary, RunResult, RunSeries, SeriesColumns};
use serde_json::{Map, Value, json};

/// Upper ends of fio's classes of latency, in its unit.
const CLASSES: [u64; 10] = [2, 4, 10, 20, 50, 100, 250, 500, 750, 1000];

/// Prints `run`, which started at `started_at_unix` seconds since 1970, as one fio result with one job.
pub fn json(run: &RunResult, started_at_unix: u64) -> String {
    let value = json!({
        "fio version": format!("raidlab-{}", env!("CARGO_PKG_VERSION")),
        "timestamp": started_at_unix,
        "timestamp_ms": started_at_unix * 1000,
        "time": started_at_unix.to_string(),
        "global options": {},
        "jobs": [job(run)],
        "disk_util": disk_util(run),
    });
    format!("{value:#}\n")
}

/// The kind of load by fio's name: `randread`, `write`, `randrw`.
pub fn rw(run: &RunResult) -> &'static str {
    let weighted: u32 =
        run.lines.iter().map(|line| u32::from(line.share_pct) * u32::from(line.random_pct)).sum();
    // Runs from before lines were kept tell nothing of their places.
    let is_random = weighted >= 5000;
    let (reads, writes) = (has_moved(&run.ops.read), has_moved(&run.ops.write));
    match (is_random, reads, writes) {
        (true, true, true) => "randrw",
        (true, true, false) => "randread",
        (true, false, _) => "randwrite",
        (false, true, true) => "rw",
        (false, true, false) => "read",
        (false, false, _) => "write",
    }
}

/// The logs of `run` over time: names as fio-plot looks for them, and contents `time_ms, value, direction, size, offset`.
/// Values are IOPS, KiB/s and the mean latency in nanoseconds of each interval; empty without a series.
pub fn logs(run: &RunResult) -> Vec<(String, String)> {
    let Some(series) = &run.series else { return Vec::new() };
    let log = |figure: fn(&SeriesColumns, usize, f64) -> f64| -> String {
        let mut text = String::new();
        for index in 0..series.total.len() {
            let end_ms = (index as u64 * series.interval_ns + series.span_ns(index)) / 1_000_000;
            let seconds = series.span_ns(index) as f64 / 1e9;
            for (direction, columns) in [(0, &series.read), (1, &series.write)] {
                if !columns.is_empty() {
                    let value = figure(columns, index, seconds).round();
                    text += &format!("{end_ms}, {value}, {direction}, {}, 0\n", request_bytes(run));
                }
            }
        }
        text
    };
    let name =
        |kind: &str| format!("{}-iodepth-{}-numjobs-{}_{kind}.1.log", rw(run), iodepth(run), workers(run));
    vec![
        (name("iops"), log(|columns, index, seconds| columns.requests[index] as f64 / seconds)),
        (name("bw"), log(|columns, index, seconds| columns.bytes[index] as f64 / 1024.0 / seconds)),
        (name("lat"), log(|columns, index, _| columns.lat_ns_mean[index] as f64)),
    ]
}

/// Requests that one of fio's jobs would have in flight.
fn iodepth(run: &RunResult) -> u32 {
    run.load.map_or(run.iodepth, |load| load.iodepth_per_target)
}

fn workers(run: &RunResult) -> u32 {
    run.load.map_or(1, |load| load.workers)
}

/// Mean length of a request.
fn request_bytes(run: &RunResult) -> u64 {
    let total = &run.ops.total;
    if total.iops.0 > 0.0 { (total.bytes_per_sec.0 / total.iops.0).round() as u64 } else { 0 }
}

/// Length of each request, where the run was asked for one; else their mean.
fn block_bytes(run: &RunResult) -> u64 {
    match &run.lines[..] {
        [first, rest @ ..] if rest.iter().all(|line| line.bytes == first.bytes) => u64::from(first.bytes),
        _ => request_bytes(run),
    }
}

/// The share of reads, of requests that were counted or else of their rates; none where they are not told apart.
fn read_pct(run: &RunResult) -> Option<f64> {
    let (read, write) = (&run.ops.read, &run.ops.write);
    let share = |reads: f64, writes: f64| (reads + writes > 0.0).then(|| reads / (reads + writes) * 100.0);
    share(read.requests as f64, write.requests as f64).or_else(|| share(read.iops.0, write.iops.0))
}

fn job(run: &RunResult) -> Value {
    let (user, system) = cpu_pct(run);
    let (ns, us, ms) = latency_classes(run);
    let bytes = block_bytes(run);
    let bs = if bytes.is_multiple_of(1024) { format!("{}k", bytes / 1024) } else { bytes.to_string() };
    let (none, no_columns) = (OpSummary::default(), SeriesColumns::default());
    let of = |summary: &Option<Box<OpSummary>>| {
        direction(run, summary.as_deref().unwrap_or(&none), |_| &no_columns)
    };
    let mut job = json!({
        "jobname": run.workload,
        "groupid": 0,
        "error": 0,
        "eta": 0,
        "elapsed": run.cost.wall_ns.div_ceil(1_000_000_000),
        "job options": {
            "name": run.workload,
            "filename": run.target,
            "rw": rw(run),
            "bs": bs,
            "iodepth": iodepth(run).to_string(),
            "numjobs": workers(run).to_string(),
            "rwmixread": read_pct(run).map(|pct| format!("{pct:.0}")),
            "runtime": format!("{}", run.window_ns as f64 / 1e9),
            "randseed": run.seed.to_string(),
        },
        "read": direction(run, &run.ops.read, |series| &series.read),
        "write": direction(run, &run.ops.write, |series| &series.write),
        "trim": of(&run.ops.others.trim),
        "sync": sync(run.ops.others.flush.as_deref().unwrap_or(&none)),
        "job_runtime": run.window_ns / 1_000_000,
        "usr_cpu": user,
        "sys_cpu": system,
        "ctx": run.machine.as_ref().map_or(0, |machine| {
            machine.load_switches_voluntary.unwrap_or(0) + machine.load_switches_involuntary.unwrap_or(0)
        }),
        "majf": 0,
        "minf": 0,
        "iodepth_level": iodepth_level(iodepth(run)),
        "latency_ns": ns,
        "latency_us": us,
        "latency_ms": ms,
        "latency_depth": iodepth(run),
        "latency_target": 0,
        "latency_percentile": 100.0,
        "latency_window": 0,
    });
    if run.ops.others.write_zeroes.is_some() {
        job["write_zeroes"] = of(&run.ops.others.write_zeroes);
    }
    job
}

/// The figures of flushes.
fn sync(summary: &OpSummary) -> Value {
    let mut lat = spread(summary);
    if summary.requests > 0 {
        lat["percentile"] = percentiles(summary);
        lat["bins"] = bins(summary);
    }
    json!({ "total_ios": summary.requests, "lat_ns": lat })
}

/// The figures of one direction.
fn direction<'a>(
    run: &'a RunResult,
    summary: &OpSummary,
    columns: impl Fn(&'a RunSeries) -> &'a SeriesColumns,
) -> Value {
    let bytes = (summary.bytes_per_sec.0 * run.window_ns as f64 / 1e9).round() as u64;
    let whole = |rates: Vec<f64>| {
        let series = run.series.as_ref();
        let is_cut = series.is_some_and(|series| series.last_ns < series.interval_ns) && rates.len() > 1;
        let count = rates.len() - usize::from(is_cut);
        Samples::of(&rates[..count])
    };
    let series = run.series.as_ref();
    let iops = whole(series.map_or_else(Vec::new, |series| series.iops(columns(series)).collect()));
    let kib: Vec<f64> = series.map_or_else(Vec::new, |series| {
        series.bytes_per_sec(columns(series)).map(|rate| rate / 1024.0).collect()
    });
    let bw = whole(kib);
    let mut lat = spread(summary);
    let empty = json!({ "min": 0, "max": 0, "mean": 0.0, "stddev": 0.0, "N": 0 });
    let (slat, clat) = if let Some(split) = &summary.split {
        let figures = |part: &LatencyFigures| split_figures(part, summary.requests);
        lat["percentile"] = percentiles(summary);
        lat["bins"] = bins(summary);
        (figures(&split.slat), figures(&split.clat))
    } else {
        let mut clat = lat.clone();
        clat["percentile"] = percentiles(summary);
        clat["bins"] = bins(summary);
        (empty, clat)
    };
    json!({
        "io_bytes": bytes,
        "io_kbytes": bytes / 1024,
        "bw_bytes": summary.bytes_per_sec.0.round() as u64,
        "bw": (summary.bytes_per_sec.0 / 1024.0).round() as u64,
        "iops": summary.iops.0,
        "runtime": run.window_ns / 1_000_000,
        "total_ios": summary.requests,
        "short_ios": 0,
        "drop_ios": 0,
        "slat_ns": slat,
        "clat_ns": clat,
        "lat_ns": lat,
        "bw_min": bw.min.round() as u64,
        "bw_max": bw.max.round() as u64,
        "bw_agg": if summary.requests > 0 { 100.0 } else { 0.0 },
        "bw_mean": bw.mean,
        "bw_dev": bw.stddev,
        "bw_samples": bw.count,
        "iops_min": iops.min.round() as u64,
        "iops_max": iops.max.round() as u64,
        "iops_mean": iops.mean,
        "iops_stddev": iops.stddev,
        "iops_samples": iops.count,
    })
}

fn spread(summary: &OpSummary) -> Value {
    json!({
        "min": summary.lat_ns_min,
        "max": summary.lat_ns_max,
        "mean": summary.lat_ns_mean,
        "stddev": summary.lat_ns_stddev,
        "N": summary.requests,
    })
}

/// One part of a latency that was cut in two.
fn split_figures(part: &LatencyFigures, requests: u64) -> Value {
    json!({
        "min": part.ns_min,
        "max": part.ns_max,
        "mean": part.ns_mean,
        "stddev": part.ns_stddev,
        "N": requests,
        "percentile": {
            "50.000000": part.ns_p50,
            "90.000000": part.ns_p90,
            "99.000000": part.ns_p99,
            "99.900000": part.ns_p999,
            "99.990000": part.ns_p9999,
            "99.999000": part.ns_p99999,
        },
    })
}

fn percentiles(summary: &OpSummary) -> Value {
    let inner = summary.lat_curve.iter().filter(|point| point.pct > 0.0 && point.pct < 100.0);
    inner.map(|point| (format!("{:.6}", point.pct), json!(point.lat_ns))).collect::<Map<_, _>>().into()
}

fn bins(summary: &OpSummary) -> Value {
    summary
        .lat_bins
        .iter()
        .map(|bin| (bin.lat_ns.to_string(), json!(bin.requests)))
        .collect::<Map<_, _>>()
        .into()
}

/// Minimum, maximum, mean and deviation of samples; zeros without any.
#[derive(Default)]
struct Samples {
    count: usize,
    min: f64,
    max: f64,
    mean: f64,
    stddev: f64,
}

impl Samples {
    fn of(values: &[f64]) -> Self {
        if values.is_empty() {
            return Self::default();
        }
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        Self {
            count: values.len(),
            min: values.iter().copied().fold(f64::MAX, f64::min),
            max: values.iter().copied().fold(0.0, f64::max),
            mean,
            stddev: if values.len() > 1 { (squares / (count - 1.0)).sqrt() } else { 0.0 },
        }
    }
}

/// Processor time of the process in percent of one processor: user and system.
fn cpu_pct(run: &RunResult) -> (f64, f64) {
    let Some(machine) = &run.machine else { return (0.0, 0.0) };
    let pct = |ns: u64| ns as f64 / machine.watched_ns.max(1) as f64 * 100.0;
    let (all, system) = (machine.process_cpu_ns.unwrap_or(0), machine.process_cpu_system_ns.unwrap_or(0));
    (pct(all.saturating_sub(system)), pct(system))
}

/// The share of requests in each of fio's classes of latency, in percent.
fn latency_classes(run: &RunResult) -> (Value, Value, Value) {
    let total = run.ops.total.requests.max(1) as f64;
    let share = |above_ns: u64, up_to_ns: u64| {
        let inside = |bin: &&raidlab_workload::LatencyBin| bin.lat_ns > above_ns && bin.lat_ns <= up_to_ns;
        let count: u64 = run.ops.total.lat_bins.iter().filter(inside).map(|bin| bin.requests).sum();
        json!(count as f64 / total * 100.0)
    };
    let classes = |unit_ns: u64, first_above_ns: u64| {
        let mut above_ns = first_above_ns;
        let mut shares = Map::new();
        for class in CLASSES {
            shares.insert(class.to_string(), share(above_ns, class * unit_ns));
            above_ns = class * unit_ns;
        }
        shares
    };
    let mut ms = classes(1_000_000, 1_000_000);
    ms.insert("2000".into(), share(1_000_000_000, 2_000_000_000));
    ms.insert(">=2000".into(), share(2_000_000_000, u64::MAX));
    (classes(1, 0).into(), classes(1000, 1000).into(), ms.into())
}

/// All requests in the class of the depth.
fn iodepth_level(iodepth: u32) -> Value {
    let classes = ["1", "2", "4", "8", "16", "32", ">=64"];
    let mine = (iodepth.max(1).ilog2() as usize).min(classes.len() - 1);
    let share = |(index, class): (usize, &&str)| {
        ((*class).to_owned(), json!(if index == mine { 100.0 } else { 0.0 }))
    };
    classes.iter().enumerate().map(share).collect::<Map<_, _>>().into()
}

fn disk_util(run: &RunResult) -> Vec<Value> {
    let device =
        run.machine.as_ref().and_then(|machine| Some((machine.watched_ns, machine.device.as_ref()?)));
    let value = device.map(|(watched_ns, device)| {
        json!({
            "name": device.name,
            "read_ios": device.reads,
            "write_ios": device.writes,
            "read_merges": device.read_merges,
            "write_merges": device.write_merges,
            "read_ticks": (device.read_ns_mean * device.reads as f64 / 1e6).round() as u64,
            "write_ticks": (device.write_ns_mean * device.writes as f64 / 1e6).round() as u64,
            "in_queue": (device.in_flight_mean * watched_ns as f64 / 1e6).round() as u64,
            "util": device.utilisation * 100.0,
        })
    });
    value.into_iter().collect()
}
