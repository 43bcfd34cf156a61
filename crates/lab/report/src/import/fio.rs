//! fio's output with `--output-format=json`, `json+` or `terse`, of fio 2 and 3, of one run or of several in one file.
//!
//! | fio | here |
//! |---|---|
//! | an entry of `jobs` or `client_stats` | a run; with `group_reporting` that is all jobs of a group |
//! | `mixed` (`unified_rw_reporting`) | the figures of reads and writes together; where it is alone those of each are lacking |
//! | `sync`, `trim` | flushes and trims |
//! | `lat`, `clat`, `bw` of fio 2 | the same in microseconds and KiB/s |
//! | `lat_ns` | the latency: minimum, maximum, mean, standard deviation |
//! | `lat_ns.percentile`, else `clat_ns.percentile` | its percentiles; with completion latency alone, the run lacks those of the total |
//! | `bins` (json+) | the distribution, and with it the percentiles of reads and writes together |
//! | `usr_cpu`, `sys_cpu` | processor time for each request |
//! | `job options`, `global options` | depth, engine, page cache, sizes and direction as a job file has them; the others as they are |
//!
//! fio's submission latency ends when the call returns, raidlab's when it begins. So fio's two parts are not used as
//! raidlab's, unless the file has percentiles of both, as only raidlab's own export and `slat_percentiles=1` give.
//!
//! Left out: logs over time, which are separate files.
//! Source: fio 3.33 `stat.c`, `show_thread_status_json`.

use super::snapshots::is_snapshot;
use super::terse::{is_terse, terse};
use super::{FIGURE_MAX, ForeignError, ForeignResults, ForeignRun, missing_percentiles, pooled, target_of};
use raidlab_jobs::fio_lines;
use raidlab_units::{BytesPerSec, Iops, NanoSpan};
use raidlab_workload::{
    AccessLine, LatencyFigures, LatencyHistogram, LatencyPoint, LatencySplit, LoadFacts, Metric, OpStats,
    OpSummary, OtherSummaries, RunResult, World,
};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Whether `text` is what fio prints as JSON.
pub fn is_fio(text: &str) -> bool {
    is_terse(text)
        || text.contains("\"fio version\"")
            && (text.contains("\"jobs\"") || text.contains("\"client_stats\""))
}

/// Reads what fio printed; warnings before the JSON are passed over.
///
/// # Errors
/// [`ForeignError`]: no JSON of fio, no job in it.
pub fn fio(text: &str) -> Result<ForeignResults, ForeignError> {
    let documents = if is_terse(text) { terse(text)? } else { documents(text)? };
    let mut all =
        ForeignResults { program: String::new(), title: String::new(), runs: Vec::new(), notes: Vec::new() };
    for (number, root) in (1..).zip(&documents) {
        if documents.get(number).is_some_and(|next| is_snapshot(root, next)) {
            let note =
                "some of its reports are those of one fio while it ran (--status-interval): the last counts";
            all.notes.push(note.to_owned());
            continue;
        }
        let jobs = ["jobs", "client_stats"].iter().filter_map(|it| root.get(it)?.as_array()).flatten();
        jobs.into_iter().try_for_each(|job| check_rates(text, job))?;
        let found = document(root).map_err(|error| match error {
            ForeignError::Malformed(why) if documents.len() > 1 => {
                ForeignError::Malformed(format!("document {number}: {why}"))
            }
            error => error,
        })?;
        if all.runs.is_empty() {
            (all.program, all.title) = (found.program, found.title);
        }
        all.runs.extend(found.runs);
        all.notes.extend(found.notes);
    }
    all.notes.dedup();
    Ok(all)
}

/// The JSON of each run. What stands between and behind is fio's as well, where several forms are printed at once.
fn documents(text: &str) -> Result<Vec<Value>, ForeignError> {
    let malformed = |why: String| ForeignError::Malformed(why);
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(start) = rest.find('{') {
        let mut values = serde_json::Deserializer::from_str(&rest[start..]).into_iter::<Value>();
        match values.next() {
            Some(Ok(root)) => found.push(root),
            Some(Err(error)) => {
                let first = 1 + text[..text.len() - rest.len() + start].matches('\n').count();
                return Err(malformed(no_document(text, (first, found.len()), &error)));
            }
            None => break,
        }
        rest = &rest[start + values.byte_offset()..];
    }
    if found.is_empty() { Err(malformed("there is no JSON in it".into())) } else { Ok(found) }
}

/// What is wrong with the document that begins in line `first`, behind `before` others that are whole.
fn no_document(text: &str, (first, before): (usize, usize), error: &serde_json::Error) -> String {
    let (number, line) = (before + 1, first + error.line() - 1);
    if !error.is_eof() {
        let shown: String = text.lines().nth(line - 1).unwrap_or("").trim().chars().take(60).collect();
        return format!(
            "line {line}, in document {number}: '{shown}' is no JSON: it is damaged, or fio wrote nan; mend it, or run fio again"
        );
    }
    let others = match before {
        0 => String::new(),
        _ => format!(", or take out all from line {first} on"),
    };
    format!(
        "its JSON is not whole: document {number}, which begins in line {first}, is cut off in line {line}: let fio write it to its end{others}"
    )
}

/// Figures without which a run has nothing to show: what is no figure there is an error, and not a zero.
const RATES: [&str; 7] = ["iops", "bw", "bw_bytes", "io_bytes", "io_kbytes", "total_ios", "runtime"];

/// Refuses rates and counts of a job that are none. The line is that of the text in the file.
fn check_rates(text: &str, job: &Value) -> Result<(), ForeignError> {
    for op in ["read", "write", "trim", "mixed", "sync"] {
        let of = job.get(op).and_then(Value::as_object).into_iter().flatten();
        let rates =
            of.filter(|(name, _)| RATES.contains(&name.as_str())).map(|(name, it)| (name.as_str(), it));
        let mean = |name: &str| job.get(op)?.get(name)?.get("mean").map(|mean| ("mean", mean));
        for (name, value) in rates.chain(["lat_ns", "clat_ns", "lat", "clat"].into_iter().filter_map(mean)) {
            if value.as_f64().is_some_and(|number| (0.0..FIGURE_MAX).contains(&number)) {
                continue;
            }
            let is_here = |line: &&str| {
                line.split_once(&format!("\"{name}\"")).is_some_and(|(_, rest)| {
                    let rest = rest.trim_start().trim_start_matches(':').trim_start();
                    let number = rest.split([',', '}']).next().and_then(|it| it.trim().parse::<f64>().ok());
                    rest.starts_with(&value.to_string())
                        || number.is_some_and(|it| value.as_f64() == Some(it))
                })
            };
            let line =
                text.lines().position(|line| is_here(&line)).map(|index| format!("line {}: ", index + 1));
            let shown: String = value.to_string().chars().take(40).collect();
            let of_job = text_of(job, "jobname").unwrap_or("fio");
            return Err(ForeignError::Malformed(format!(
                "{}\"{name}\" of \"{op}\" of job '{of_job}' is {shown}, which is no figure: it is damaged; run fio again",
                line.unwrap_or_default()
            )));
        }
    }
    Ok(())
}

fn document(root: &Value) -> Result<ForeignResults, ForeignError> {
    let malformed = |why: String| ForeignError::Malformed(why);
    let program = root.get("fio version").and_then(Value::as_str);
    let program = program.ok_or_else(|| malformed("it does not say which fio printed it".into()))?.to_owned();
    let entries = |name: &str| root.get(name).and_then(Value::as_array).into_iter().flatten();
    let jobs: Vec<&Value> = entries("jobs").chain(entries("client_stats")).collect();
    if jobs.is_empty() {
        return Err(ForeignError::Empty);
    }
    let none = Map::new();
    let global = root.get("global options").and_then(Value::as_object).unwrap_or(&none);
    let seconds =
        || root.get("timestamp").and_then(Value::as_u64).map(|seconds| seconds.saturating_mul(1000));
    let ended_ms = root.get("timestamp_ms").and_then(Value::as_u64).or_else(seconds).filter(|ms| *ms > 0);
    let is_ours = program.starts_with("raidlab-");
    let is_sum = |job: &Value| text_of(job, "jobname") == Some(ALL_CLIENTS) && jobs.len() > 1;
    let apart: Vec<&Value> = jobs.iter().copied().filter(|job| !is_sum(job)).collect();
    let mut notes = beside_each_other(&apart);
    let mut runs = Vec::new();
    for job in &jobs {
        let run =
            Job { json: job, is_whole: count_alike(&jobs, job) == 1, global, program: &program }.run()?;
        if is_sum(job) {
            notes.push(format!("'{ALL_CLIENTS}' is what fio adds up of the others"));
        }
        let error = number(job, "error");
        if error != 0.0 {
            notes
                .push(format!("{} ended with error {error}: its figures are those until then", run.workload));
        }
        // raidlab writes when a run began, fio when it printed.
        let before_ms = if is_ours { 0 } else { (number(job, "elapsed") * 1e3) as u64 };
        runs.push(ForeignRun { started_at_unix_ms: ended_ms.map(|ms| ms.saturating_sub(before_ms)), run });
    }
    let title = runs.first().map_or_else(String::new, |first| first.run.workload.clone());
    Ok(ForeignResults { program, title, runs, notes })
}

/// The entry that fio adds up of those of all clients.
const ALL_CLIENTS: &str = "All clients";

fn text_of<'a>(value: &'a Value, name: &str) -> Option<&'a str> {
    value.get(name).and_then(Value::as_str)
}

/// Jobs of the name and group of `job`, itself too. fio prints copies (`numjobs`) one by one, or as one with `group_reporting`,
/// which it does not tell.
fn count_alike(jobs: &[&Value], job: &Value) -> usize {
    let key = |it: &'_ Value| ["jobname", "groupid", "hostname", "port"].map(|name| it.get(name).cloned());
    jobs.iter().filter(|it| key(it) == key(job)).count()
}

/// Says of groups of jobs that ran at once that they are taken apart here.
fn beside_each_other(jobs: &[&Value]) -> Vec<String> {
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

/// What figures show to be another than the options say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Refuted {
    Nothing,
    /// The shares of reads or of sizes: rates of each direction, say, change them.
    Lines,
    /// All of them, which are another job's.
    Options,
}

impl Refuted {
    const fn what_is_lacking(self) -> &'static str {
        match self {
            Self::Options => {
                "what was asked, and the depth (the figures contradict the job's options: with group_reporting fio prints those \
                 of the last job of a group)"
            }
            Self::Nothing | Self::Lines => {
                "what was asked in lines of sizes and directions (the figures contradict the options: rates of each direction, say, \
                 change shares)"
            }
        }
    }
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
        let name = text_of(self.json, "jobname").unwrap_or("fio").to_owned();
        let target = self.option("filename").or_else(|| self.option("directory")).unwrap_or(&name);
        let host = text_of(self.json, "hostname").map_or_else(String::new, |host| format!("{host}:"));
        let target = target_of(&format!("{host}{target}"), self.program);
        let lines = self.lines();
        let is_random = lines.as_ref().is_none_or(|lines| lines.iter().any(|line| line.random_pct >= 50));
        let metric = if is_random { Metric::Iops } else { Metric::MbPerS };
        let mut run = RunResult::unmeasured(World::Measured, target, name, metric);
        let window_ms = ["read", "write", "trim", "mixed"]
            .map(|op| self.json.get(op).map_or(0.0, |it| number(it, "runtime")));
        let window = NanoSpan((window_ms.iter().copied().fold(0.0, f64::max) * 1e6) as u64);
        run.window_ns = window.get();
        let mut lacks = vec!["the course over time"];
        if lines.is_none() {
            lacks.push("what was asked in lines of sizes and directions (its options say more than that, or nothing)");
        }
        run.lines = lines.unwrap_or_default();
        let busy = self.set_ops(&mut run, window, &mut lacks)?;
        run.ops.total.errors = number(self.json, "total_err") as u64;
        if busy.iter().any(|it| it.is_of_completion) {
            lacks.push("percentiles of the whole latency (those it has are of its completion part, clat)");
        }
        if busy.iter().any(|it| it.histogram.is_none()) {
            lacks.push("the distribution of latencies (json+ has it)");
        }
        let percentiles = missing_percentiles(&run.ops);
        lacks.extend(percentiles.iter().map(String::as_str));
        if self.json.get("job options").is_none() {
            lacks.push("the requests in flight (it has no options of the job)");
        }
        self.set_load(&mut run);
        let refuted = self.refuted(&run);
        if refuted != Refuted::Nothing {
            run.lines.clear();
            lacks.push(refuted.what_is_lacking());
        }
        if refuted == Refuted::Options {
            (run.iodepth, run.load) = (0, None);
        }
        self.set_cost(&mut run);
        run.settings.insert("measured by".into(), self.program.to_owned());
        run.settings.insert("lacks".into(), lacks.join("; "));
        self.set_options(&mut run, refuted);
        Ok(run)
    }

    /// Sets the figures of each kind of request. Returns those of reads and writes that there are any of.
    fn set_ops(
        &self,
        run: &mut RunResult,
        window: NanoSpan,
        lacks: &mut Vec<&str>,
    ) -> Result<Vec<Direction>, ForeignError> {
        let has_kib = self.program.starts_with("fio-2") || self.program.starts_with("fio-1");
        let direction = |op: &str| self.json.get(op).map(|value| Direction::of(value, window, has_kib));
        let summary = |op: &str| {
            let summary = direction(op).map(|it| it.summary).filter(|it| it.requests > 0);
            summary.map(Box::new)
        };
        (run.ops.others.trim, run.ops.others.flush) = (summary("trim"), summary("sync"));
        let mut busy = match (direction("read"), direction("write"), direction("mixed")) {
            (Some(read), Some(write), mixed) => {
                let mixed = mixed.map(|it| it.summary).filter(|it| it.requests > 0);
                run.ops.total = mixed.unwrap_or_else(|| Direction::together(&read, &write, window));
                (run.ops.read, run.ops.write) = (read.summary.clone(), write.summary.clone());
                vec![read, write]
            }
            (None, None, Some(mixed)) => {
                lacks.push("reads and writes apart (unified_rw_reporting)");
                run.ops.total = mixed.summary.clone();
                vec![mixed]
            }
            (read, ..) => {
                let missing = if read.is_none() { "read" } else { "write" };
                return Err(ForeignError::Malformed(format!("a job has no '{missing}' and no 'mixed'")));
            }
        };
        busy.retain(|it| it.summary.requests > 0);
        if busy.is_empty() && run.ops.others == OtherSummaries::default() {
            lacks.push("any figure: no request of it ended");
        }
        Ok(busy)
    }

    /// What is asked, as a job file with its options asks it; none where it has none, or says more than lines can.
    fn lines(&self) -> Option<Vec<AccessLine>> {
        let own = self.json.get("job options")?.as_object()?;
        let known = |(name, value): (&'a String, &'a Value)| Some((name.as_str(), value.as_str()?));
        fio_lines(self.global.iter().chain(own).filter_map(known))
    }

    /// What the figures say of the options. With `group_reporting` fio prints those of the group's last job over the figures of all.
    fn refuted(&self, run: &RunResult) -> Refuted {
        /// Points of a share, and part of a size or depth, that samples may be off by.
        const POINTS: f64 = 5.0;
        const PART: f64 = 0.1;
        let is_ours = self.program.starts_with("raidlab-");
        let (read, write) = (&run.ops.read, &run.ops.write);
        let all = (read.requests + write.requests) as f64;
        if is_ours || all == 0.0 {
            return Refuted::Nothing;
        }
        let window_s = run.window_ns as f64 / 1e9;
        // Little's law: requests ended in the window, each of its mean time.
        let in_flight = [read, write].map(|op| op.requests as f64 * op.lat_ns_mean / 1e9).iter().sum::<f64>();
        let is_deeper = run.iodepth > 0
            && window_s > 0.0
            && in_flight / window_s > f64::from(run.iodepth) * (1.0 + PART) + PART;
        // Reads that check what was written are in no line.
        let has_checks = self.option("verify").is_some() || self.option("do_verify").is_some();
        let share = |pick: fn(&AccessLine) -> f64| {
            run.lines.iter().map(|line| f64::from(line.share_pct) / 100.0 * pick(line)).sum::<f64>()
        };
        let (asked_pct, measured_pct) =
            (share(|line| f64::from(line.read_pct)), read.requests as f64 * 100.0 / all);
        let deviation = (asked_pct * (100.0 - asked_pct) / all).sqrt();
        let off = (asked_pct - measured_pct).abs();
        let is_one_sided = asked_pct == 0.0 || asked_pct == 100.0;
        let bytes = (read.bytes_per_sec.0 + write.bytes_per_sec.0) / (read.iops.0 + write.iops.0).max(1e-9);
        let asked_bytes = share(|line| f64::from(line.bytes));
        // Sizes of reads and writes differ, so their mean goes with the share.
        let is_other_size = off < POINTS && asked_bytes > 0.0 && (bytes / asked_bytes - 1.0).abs() > PART;
        if is_deeper || (!run.lines.is_empty() && is_one_sided && off > 0.5 && !has_checks) {
            Refuted::Options
        } else if !run.lines.is_empty() && (off > POINTS.max(4.0 * deviation) || is_other_size) {
            Refuted::Lines
        } else {
            Refuted::Nothing
        }
    }

    fn set_load(&self, run: &mut RunResult) {
        if self.json.get("job options").is_none() {
            return;
        }
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
        // What fio calls elapsed is the whole invocation's time, of jobs that waited for others as well.
        let is_own = self.program.starts_with("raidlab-");
        run.cost.wall_ns = if is_own { (number(self.json, "elapsed") * 1e9) as u64 } else { run.window_ns };
        let cpu_pct = number(self.json, "usr_cpu") + number(self.json, "sys_cpu");
        let busy_ns = cpu_pct / 100.0 * number(self.json, "job_runtime") * 1e6;
        let requests = run.ops.total.requests;
        run.cost.cpu_ns_per_io = (requests > 0 && busy_ns > 0.0).then(|| busy_ns / requests as f64);
    }

    /// The options that have no other place.
    fn set_options(&self, run: &mut RunResult, refuted: Refuted) {
        let own = self.json.get("job options").filter(|_| refuted != Refuted::Options);
        let own = own.and_then(Value::as_object).into_iter().flatten();
        for (name, value) in self.global.iter().chain(own) {
            // What lines can't say stands here.
            let is_said = PLACED.contains(&name.as_str()) && !(run.lines.is_empty() && name.starts_with('r'));
            let (Some(value), false) = (value.as_str(), is_said) else { continue };
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
    /// Times of fio 2 are in microseconds, and its rates in KiB where `has_kib`.
    fn of(value: &Value, window: NanoSpan, has_kib: bool) -> Self {
        let none = Value::Null;
        let field = |name: &str| {
            let in_ns = value.get(format!("{name}_ns").as_str()).map(|part| (part, 1));
            in_ns.or_else(|| Some((value.get(name)?, 1000))).unwrap_or((&none, 1))
        };
        let [lat, clat, slat] = ["lat", "clat", "slat"].map(|name| {
            let (part, unit_ns) = field(name);
            Part { json: part, unit_ns }
        });
        let detailed = if lat.is_detailed() { lat } else { clat };
        // fio 2.1 and before tell rates alone; fio 3 counts flushes by their latencies only.
        let counted = match value.get("total_ios") {
            Some(_) => number(value, "total_ios"),
            None => (number(value, "iops") * number(value, "runtime") / 1000.0).round(),
        };
        let requests = (counted as u64).max(lat.number("N") as u64);
        // It counts one that failed, too, if that was the first.
        let has_any = ["io_bytes", "io_kbytes", "runtime"].iter().any(|name| number(value, name) > 0.0);
        let requests = if has_any || lat.number("N") > 0.0 { requests } else { 0 };
        let histogram = detailed.histogram().filter(|histogram| histogram.count() > 0);
        let stats = OpStats { requests, lat: histogram.clone().unwrap_or_default(), ..OpStats::default() };
        let mut summary = OpSummary::of(&stats, window);
        let seconds = window.as_secs_f64();
        let by_count = if seconds > 0.0 { requests as f64 / seconds } else { 0.0 };
        summary.iops = Iops(if value.get("iops").is_some() { number(value, "iops") } else { by_count });
        let in_kib = number(value, "bw") * 1024.0;
        let bytes_per_sec = if value.get("bw_bytes").is_some() { number(value, "bw_bytes") } else { in_kib };
        summary.bytes_per_sec = BytesPerSec(if has_kib { in_kib } else { bytes_per_sec });
        set_extremes(&mut summary, lat);
        set_percentiles(&mut summary, detailed);
        if slat.is_detailed() && clat.is_detailed() {
            summary.split = Some(LatencySplit { slat: slat.figures(), clat: clat.figures() });
        }
        let is_of_completion = !lat.is_detailed() && (slat.number("N") > 0.0 || slat.number("mean") > 0.0);
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
pub(super) fn number(value: &Value, name: &str) -> f64 {
    value.get(name).and_then(Value::as_f64).filter(|number| (0.0..FIGURE_MAX).contains(number)).unwrap_or(0.0)
}

fn set_extremes(summary: &mut OpSummary, lat: Part<'_>) {
    (summary.lat_ns_mean, summary.lat_ns_stddev) = (lat.ns("mean"), lat.ns("stddev"));
    (summary.lat_ns_min, summary.lat_ns_max) = (lat.ns("min") as u64, lat.ns("max") as u64);
}

/// The percentiles of `detailed`, which are finer than those of its bins.
fn set_percentiles(summary: &mut OpSummary, detailed: Part<'_>) {
    let points = detailed.points();
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

/// A part of the latency: submission, completion, or the whole.
#[derive(Clone, Copy)]
struct Part<'a> {
    json: &'a Value,
    /// Nanoseconds in a unit of its times.
    unit_ns: u64,
}

impl Part<'_> {
    fn number(&self, name: &str) -> f64 {
        number(self.json, name)
    }

    fn ns(&self, name: &str) -> f64 {
        self.number(name) * self.unit_ns as f64
    }

    fn object(&self, name: &str) -> impl Iterator<Item = (&String, &Value)> {
        self.json.get(name).and_then(Value::as_object).into_iter().flatten()
    }

    /// Whether it has more than a mean and its ends.
    fn is_detailed(&self) -> bool {
        self.object("percentile").chain(self.object("bins")).next().is_some()
    }

    /// The percentiles between the ends, in rising order.
    fn points(&self) -> Vec<LatencyPoint> {
        let point = |(pct, value): (&String, &Value)| {
            Some(LatencyPoint {
                pct: pct.parse().ok()?,
                lat_ns: value.as_u64()?.saturating_mul(self.unit_ns),
            })
        };
        let points = self.object("percentile").filter_map(point);
        let mut points: Vec<LatencyPoint> =
            points.filter(|point| point.pct > 0.0 && point.pct < 100.0).collect();
        points.sort_by(|one, other| one.pct.total_cmp(&other.pct));
        points
    }

    fn histogram(&self) -> Option<LatencyHistogram> {
        let mut histogram = LatencyHistogram::default();
        self.json.get("bins")?;
        for (lat, requests) in self.object("bins") {
            let lat_ns = lat.parse::<u64>().ok()?.saturating_mul(self.unit_ns);
            histogram.record_many_ns(lat_ns, requests.as_u64()?);
        }
        Some(histogram)
    }

    fn figures(&self) -> LatencyFigures {
        let points = self.points();
        let at = |pct: f64| {
            points.iter().find(|point| (point.pct - pct).abs() < 1e-6).map_or(0, |point| point.lat_ns)
        };
        LatencyFigures {
            ns_mean: self.ns("mean"),
            ns_stddev: self.ns("stddev"),
            ns_min: self.ns("min") as u64,
            ns_p50: at(50.0),
            ns_p90: at(90.0),
            ns_p99: at(99.0),
            ns_p999: at(99.9),
            ns_p9999: at(99.99),
            ns_p99999: at(99.999),
            ns_max: self.ns("max") as u64,
        }
    }
}
