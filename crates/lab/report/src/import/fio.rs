//! fio 3's output with `--output-format=json` or `json+`.
//!
//! | fio | here |
//! |---|---|
//! | an entry of `jobs` | a run; with `group_reporting` that is all jobs of a group |
//! | `lat_ns` | the latency: minimum, maximum, mean, standard deviation |
//! | `lat_ns.percentile`, else `clat_ns.percentile` | its percentiles; with completion latency alone, the run lacks those of the total |
//! | `bins` (json+) | the distribution, and with it the percentiles of reads and writes together |
//! | `usr_cpu`, `sys_cpu` | processor time for each request |
//! | `job options`, `global options` | depth, engine, page cache, block size, direction; the others as they are |
//!
//! fio's submission latency ends when the call returns, raidlab's when it begins. So fio's two parts are not used as
//! raidlab's, unless the file has percentiles of both, as only raidlab's own export and `slat_percentiles=1` give.
//!
//! Left out: logs over time, which are separate files, trims, clients of a server, fio 2.
//! Source: fio 3.33 `stat.c`, `show_thread_status_json`.

use super::{ForeignError, ForeignResults, ForeignRun, missing_percentiles, pooled, target_of};
use raidlab_units::{BytesPerSec, Iops, NanoSpan};
use raidlab_workload::{
    AccessLine, LatencyFigures, LatencyHistogram, LatencyPoint, LatencySplit, LoadFacts, Metric, OpStats,
    OpSummary, RunResult, World,
};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Whether `text` is what fio prints as JSON.
pub fn is_fio(text: &str) -> bool {
    text.contains("\"fio version\"") && text.contains("\"jobs\"")
}

/// Reads what fio printed; warnings before the JSON are passed over.
///
/// # Errors
/// [`ForeignError`]: no JSON of fio 3, no job in it.
pub fn fio(text: &str) -> Result<ForeignResults, ForeignError> {
    let malformed = |why: String| ForeignError::Malformed(why);
    let start = text.find('{').ok_or_else(|| malformed("there is no JSON in it".into()))?;
    // What comes behind the JSON is fio's as well, where several forms are printed at once.
    let mut values = serde_json::Deserializer::from_str(&text[start..]).into_iter::<Value>();
    let root = match values.next() {
        Some(Ok(root)) => root,
        Some(Err(error)) => return Err(malformed(format!("its JSON is not whole: {error}"))),
        None => return Err(ForeignError::Empty),
    };
    let program = root.get("fio version").and_then(Value::as_str);
    let program = program.ok_or_else(|| malformed("it does not say which fio printed it".into()))?.to_owned();
    let jobs = root.get("jobs").and_then(Value::as_array).filter(|jobs| !jobs.is_empty());
    let jobs = jobs.ok_or(ForeignError::Empty)?;
    let none = Map::new();
    let global = root.get("global options").and_then(Value::as_object).unwrap_or(&none);
    let ended_ms = root.get("timestamp_ms").and_then(Value::as_u64).unwrap_or(0);
    let is_ours = program.starts_with("raidlab-");
    let mut runs = Vec::new();
    for job in jobs {
        let run =
            Job { json: job, is_whole: count_alike(jobs, job) == 1, global, program: &program }.run()?;
        // raidlab writes when a run began, fio when it printed.
        let before_ms = if is_ours { 0 } else { run.cost.wall_ns / 1_000_000 };
        runs.push(ForeignRun { started_at_unix_ms: ended_ms.saturating_sub(before_ms), run });
    }
    let title = runs.first().map_or_else(String::new, |first| first.run.workload.clone());
    Ok(ForeignResults { title, notes: beside_each_other(jobs), program, runs })
}

/// Jobs of the name and group of `job`, itself too. fio prints copies (`numjobs`) one by one, or as one with `group_reporting`,
/// which it does not tell.
fn count_alike(jobs: &[Value], job: &Value) -> usize {
    let key = |it: &'_ Value| (it.get("jobname").cloned(), it.get("groupid").cloned());
    jobs.iter().filter(|it| key(it) == key(job)).count()
}

/// Says of groups of jobs that ran at once that they are taken apart here.
fn beside_each_other(jobs: &[Value]) -> Vec<String> {
    let mut groups: BTreeMap<u64, u64> = BTreeMap::new();
    for job in jobs {
        *groups.entry(number(job, "groupid") as u64).or_default() += 1;
    }
    let together: u64 = groups.values().filter(|count| **count > 1).sum();
    if together == 0 {
        return Vec::new();
    }
    vec![format!(
        "{together} of these jobs shared a group, whose jobs run at once unless they wait for each other: each is a run of its \
         own here; fio's group_reporting gives what they did together"
    )]
}

/// A job's JSON.
struct Job<'a> {
    json: &'a Value,
    /// It is the only one of its name in its group, so what it has of copies of itself are all of them.
    is_whole: bool,
    global: &'a Map<String, Value>,
    program: &'a str,
}

/// Engines that have one request in flight, whatever depth is asked for.
const ONE_AT_A_TIME: [&str; 7] = ["psync", "sync", "vsync", "pvsync", "pvsync2", "mmap", "null"];
/// Options that stand elsewhere in a run.
const PLACED: [&str; 8] =
    ["name", "filename", "rw", "readwrite", "iodepth", "numjobs", "randseed", "rwmixread"];

impl<'a> Job<'a> {
    /// An option of the job, or of all; empty for one that takes no value.
    fn option(&self, name: &str) -> Option<&'a str> {
        let own = self.json.get("job options").and_then(|options| options.get(name));
        own.or_else(|| self.global.get(name)).and_then(Value::as_str)
    }

    fn count(&self, name: &str) -> Option<u32> {
        self.option(name)?.trim().parse().ok()
    }

    fn run(&self) -> Result<RunResult, ForeignError> {
        let name = self.json.get("jobname").and_then(Value::as_str).unwrap_or("fio").to_owned();
        let target = self.option("filename").or_else(|| self.option("directory")).unwrap_or(&name);
        let target = target_of(target, self.program);
        let line = self.line();
        let is_random = line.is_none_or(|line| line.random_pct >= 50);
        let metric = if is_random { Metric::Iops } else { Metric::MbPerS };
        let mut run = RunResult::unmeasured(World::Measured, target, name, metric);
        let window_ms = ["read", "write"].map(|op| self.json.get(op).map_or(0.0, |it| number(it, "runtime")));
        let window = NanoSpan((window_ms[0].max(window_ms[1]) * 1e6) as u64);
        run.window_ns = window.get();
        let mut lacks = vec!["the course over time"];
        let direction = |op: &str| {
            let value =
                self.json.get(op).ok_or_else(|| ForeignError::Malformed(format!("a job has no '{op}'")))?;
            if value.get("lat_ns").is_none() {
                return Err(ForeignError::Malformed(
                    "its latencies have no unit: that is fio 2, and fio 3 is needed".into(),
                ));
            }
            Ok(Direction::of(value, window))
        };
        let (read, write) = (direction("read")?, direction("write")?);
        run.ops.total = Direction::together(&read, &write, window);
        run.ops.total.errors = number(self.json, "total_err") as u64;
        let busy = || [&read, &write].into_iter().filter(|it| it.summary.requests > 0);
        if busy().any(|it| it.is_of_completion) {
            lacks.push("percentiles of the whole latency (those it has are of its completion part, clat)");
        }
        if busy().any(|it| it.histogram.is_none()) {
            lacks.push("the distribution of latencies (json+ has it)");
        }
        let percentiles = missing_percentiles(&run.ops.total);
        lacks.extend(percentiles.as_deref());
        (run.ops.read, run.ops.write) = (read.summary, write.summary);
        run.lines = line.into_iter().collect();
        self.set_load(&mut run);
        self.set_cost(&mut run);
        run.settings.insert("measured by".into(), self.program.to_owned());
        run.settings.insert("lacks".into(), lacks.join("; "));
        self.set_options(&mut run);
        Ok(run)
    }

    /// What is asked, where it is one line: one length, one direction or mix.
    fn line(&self) -> Option<AccessLine> {
        let rw = self.option("rw").or_else(|| self.option("readwrite")).unwrap_or("read");
        let rw = rw.split(':').next().unwrap_or(rw);
        let bytes = size(self.option("bs").or_else(|| self.option("blocksize")).unwrap_or("4k"))?;
        let mix = self.count("rwmixread").unwrap_or(50).min(100) as u8;
        let (read_pct, random_pct) = match rw {
            "read" => (100, 0),
            "write" => (0, 0),
            "randread" => (100, 100),
            "randwrite" => (0, 100),
            "rw" | "readwrite" => (mix, 0),
            "randrw" => (mix, 100),
            _ => return None,
        };
        Some(AccessLine::plain(bytes, read_pct, random_pct))
    }

    fn set_load(&self, run: &mut RunResult) {
        let engine = self.option("ioengine").unwrap_or("psync");
        let asked = self.count("iodepth").unwrap_or(1).max(1);
        let is_ours = self.program.starts_with("raidlab-");
        let iodepth = if ONE_AT_A_TIME.contains(&engine) && !is_ours { 1 } else { asked };
        let workers = self.count("numjobs").filter(|_| self.is_whole).unwrap_or(1).max(1);
        run.iodepth = iodepth.saturating_mul(workers);
        if workers > 1 {
            run.load = Some(LoadFacts { targets: 1, workers, iodepth_per_target: iodepth });
        }
        run.seed = self.option("randseed").and_then(|seed| seed.trim().parse().ok()).unwrap_or(0);
    }

    fn set_cost(&self, run: &mut RunResult) {
        run.cost.wall_ns = (number(self.json, "elapsed") * 1e9) as u64;
        let cpu_pct = number(self.json, "usr_cpu") + number(self.json, "sys_cpu");
        let busy_ns = cpu_pct / 100.0 * number(self.json, "job_runtime") * 1e6;
        let requests = run.ops.total.requests;
        run.cost.cpu_ns_per_io = (requests > 0 && busy_ns > 0.0).then(|| busy_ns / requests as f64);
    }

    /// The options that have no other place.
    fn set_options(&self, run: &mut RunResult) {
        let own = self.json.get("job options").and_then(Value::as_object).into_iter().flatten();
        for (name, value) in self.global.iter().chain(own) {
            let (Some(value), false) = (value.as_str(), PLACED.contains(&name.as_str())) else { continue };
            let value = if value.is_empty() { "yes" } else { value };
            run.settings.insert(format!("fio {name}"), value.to_owned());
        }
        let error = number(self.json, "error");
        if error != 0.0 {
            run.settings.insert("ended with".into(), format!("error {error}"));
        }
    }
}

/// The figures of one direction.
struct Direction {
    summary: OpSummary,
    /// The distribution, where the file has it.
    histogram: Option<LatencyHistogram>,
    /// Percentiles and distribution leave submission out.
    is_of_completion: bool,
}

impl Direction {
    fn of(value: &Value, window: NanoSpan) -> Self {
        let none = Value::Null;
        let field = |name: &str| value.get(name).unwrap_or(&none);
        let (lat, clat, slat) = (field("lat_ns"), field("clat_ns"), field("slat_ns"));
        let has = |part: &Value| {
            let is_full =
                |name: &str| part.get(name).and_then(Value::as_object).is_some_and(|it| !it.is_empty());
            is_full("percentile") || is_full("bins")
        };
        let detailed = if has(lat) { lat } else { clat };
        let requests = number(value, "total_ios") as u64;
        let histogram = histogram(detailed).filter(|histogram| histogram.count() > 0);
        let stats = OpStats { requests, lat: histogram.clone().unwrap_or_default(), ..OpStats::default() };
        let mut summary = OpSummary::of(&stats, window);
        summary.iops = Iops(number(value, "iops"));
        summary.bytes_per_sec = BytesPerSec(number(value, "bw_bytes"));
        set_extremes(&mut summary, lat);
        set_percentiles(&mut summary, detailed);
        if has(slat) && has(clat) {
            summary.split = Some(LatencySplit { slat: part(slat), clat: part(clat) });
        }
        let is_of_completion = !has(lat) && number(slat, "N") > 0.0;
        Self { summary, histogram, is_of_completion }
    }

    fn together(read: &Self, write: &Self, window: NanoSpan) -> OpSummary {
        let pooled = pooled(&read.summary, &write.summary);
        let (Some(reads), Some(writes)) = (&read.histogram, &write.histogram) else { return pooled };
        let mut lat = reads.clone();
        lat.merge(writes);
        let stats = OpStats { requests: pooled.requests, lat, ..OpStats::default() };
        let OpSummary { iops, bytes_per_sec, lat_ns_mean, lat_ns_stddev, lat_ns_min, lat_ns_max, .. } =
            pooled;
        let of_bins = OpSummary::of(&stats, window);
        OpSummary { iops, bytes_per_sec, lat_ns_mean, lat_ns_stddev, lat_ns_min, lat_ns_max, ..of_bins }
    }
}

/// A number of an object; zero where there is none.
fn number(value: &Value, name: &str) -> f64 {
    value.get(name).and_then(Value::as_f64).filter(|number| *number >= 0.0).unwrap_or(0.0)
}

fn set_extremes(summary: &mut OpSummary, lat: &Value) {
    (summary.lat_ns_mean, summary.lat_ns_stddev) = (number(lat, "mean"), number(lat, "stddev"));
    (summary.lat_ns_min, summary.lat_ns_max) = (number(lat, "min") as u64, number(lat, "max") as u64);
}

/// The percentiles of `detailed`, which are finer than those of its bins.
fn set_percentiles(summary: &mut OpSummary, detailed: &Value) {
    let points = points(detailed);
    if summary.requests == 0 || points.is_empty() {
        return;
    }
    let places = [
        (50.0, &mut summary.lat_ns_p50),
        (90.0, &mut summary.lat_ns_p90),
        (99.0, &mut summary.lat_ns_p99),
        (99.9, &mut summary.lat_ns_p999),
        (99.99, &mut summary.lat_ns_p9999),
        (99.999, &mut summary.lat_ns_p99999),
    ];
    for (pct, place) in places {
        if let Some(point) = points.iter().find(|point| (point.pct - pct).abs() < 1e-6) {
            *place = point.lat_ns;
        }
    }
    let ends = [(0.0, summary.lat_ns_min), (100.0, summary.lat_ns_max)];
    let [first, last] = ends.map(|(pct, lat_ns)| LatencyPoint { pct, lat_ns });
    summary.lat_curve = std::iter::once(first).chain(points).chain([last]).collect();
}

/// The percentiles between the ends, in rising order.
fn points(part: &Value) -> Vec<LatencyPoint> {
    let map = part.get("percentile").and_then(Value::as_object).into_iter().flatten();
    let point = |(pct, value): (&String, &Value)| {
        Some(LatencyPoint { pct: pct.parse().ok()?, lat_ns: value.as_u64()? })
    };
    let mut points: Vec<LatencyPoint> =
        map.filter_map(point).filter(|point| point.pct > 0.0 && point.pct < 100.0).collect();
    points.sort_by(|one, other| one.pct.total_cmp(&other.pct));
    points
}

fn histogram(part: &Value) -> Option<LatencyHistogram> {
    let mut histogram = LatencyHistogram::default();
    for (lat_ns, requests) in part.get("bins")?.as_object()? {
        histogram.record_many_ns(lat_ns.parse().ok()?, requests.as_u64()?);
    }
    Some(histogram)
}

fn part(value: &Value) -> LatencyFigures {
    let points = points(value);
    let at =
        |pct: f64| points.iter().find(|point| (point.pct - pct).abs() < 1e-6).map_or(0, |point| point.lat_ns);
    LatencyFigures {
        ns_mean: number(value, "mean"),
        ns_stddev: number(value, "stddev"),
        ns_min: number(value, "min") as u64,
        ns_p50: at(50.0),
        ns_p90: at(90.0),
        ns_p99: at(99.0),
        ns_p999: at(99.9),
        ns_p9999: at(99.99),
        ns_p99999: at(99.999),
        ns_max: number(value, "max") as u64,
    }
}

/// A length as fio writes it, `4k` or `512`; none where reads and writes have lengths of their own.
fn size(text: &str) -> Option<u32> {
    let text = text.trim().to_ascii_lowercase();
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let unit = match &text[digits.len()..] {
        "" | "b" => 1,
        "k" | "kb" | "kib" => 1 << 10,
        "m" | "mb" | "mib" => 1 << 20,
        _ => return None,
    };
    digits.parse::<u32>().ok()?.checked_mul(unit)
}
