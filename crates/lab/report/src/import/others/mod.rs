//! Results of other load tools: a line of figures for each test, whatever the file's form.
//!
//! | tool | file |
//! |---|---|
//! | diskspd | XML (`-Rxml`) |
//! | elbencho | CSV (`--csvfile`) |
//! | vdbench | `flatfile.html` |
//! | sysbench | what `fileio run` prints |
//! | `CrystalDiskMark` | saved as text |
//!
//! Left out: figures of single intervals, threads and hosts.

mod crystal;
mod diskspd;
mod elbencho;
mod sysbench;
mod vdbench;

use super::{ForeignError, ForeignResults, ForeignRun, figure, pooled, target_of};
use crate::known::has_moved;
use raidlab_units::{BytesPerSec, Iops};
use raidlab_workload::{AccessLine, Metric, OpSummary, RunResult, RunSeries, World};

/// A reader of one tool's results.
type Reader = fn(&str) -> Result<Vec<Test>, ForeignError>;

/// A tool: what all of its files have (behind a line break: at the beginning of a line), its name, its reader.
const TOOLS: [(&[&str], &str, Reader); 7] = [
    (&["<Results>", "<TimeSpan>"], "diskspd", diskspd::tests),
    (&["operation", "time ms", "IOPS"], "elbencho", elbencho::tests),
    (&["reqrate", "MB/sec", "bytes/io"], "vdbench", vdbench::tests),
    (&["sysbench", "File operations:"], "sysbench", sysbench::tests),
    (&["sysbench", "Doing ", "Block size "], "sysbench", sysbench::tests),
    (&["sysbench", "Requests/sec executed"], "sysbench", sysbench::tests),
    (&["\nCrystalDiskMark "], "CrystalDiskMark", crystal::tests),
];

/// Figures of one direction, each where it is told.
#[derive(Clone, Debug, Default)]
struct Direction {
    iops: f64,
    bytes_per_sec: f64,
    mean_ms: Option<f64>,
    min_ms: Option<f64>,
    max_ms: Option<f64>,
    stddev_ms: Option<f64>,
    /// By percent.
    percentiles_ms: Vec<(f64, f64)>,
}

impl Direction {
    /// Whether there was any request; of some only bytes are told.
    fn has_moved(&self) -> bool {
        self.iops > 0.0 || self.bytes_per_sec > 0.0
    }
}

/// What a file says of one test.
#[derive(Clone, Debug, Default)]
struct Test {
    name: String,
    target: String,
    version: String,
    seconds: Option<f64>,
    /// Reads, writes and flushes, where their number is told beside their rates.
    requests: Option<f64>,
    iodepth: Option<u32>,
    block_bytes: Option<u64>,
    random_pct: Option<u8>,
    read: Direction,
    write: Direction,
    /// Latency of both, where it is told.
    all: Direction,
    flushes_per_s: f64,
    /// Latency of reads, writes and flushes together, where it is told of these only.
    together: Option<Direction>,
    /// What was asked, where it is more than one line.
    lines: Vec<AccessLine>,
    /// When it began.
    start: Option<Stamp>,
    /// The course over time, where it is told.
    series: Option<Box<RunSeries>>,
    /// What else is not told of it.
    lacks: Vec<&'static str>,
}

/// The tool whose results `text` holds.
pub fn other_tool(text: &str) -> Option<&'static str> {
    find(text).map(|(_, name, _)| *name)
}

fn find(text: &str) -> Option<&'static (&'static [&'static str], &'static str, Reader)> {
    let text = text.trim_start_matches('\u{feff}').trim_start();
    // What others keep of such a file may hold its words.
    let is_json = text.starts_with(['{', '[']);
    let has = |mark: &str| {
        text.contains(mark) || mark.strip_prefix('\n').is_some_and(|begin| text.starts_with(begin))
    };
    TOOLS.iter().filter(|_| !is_json).find(|(marks, ..)| marks.iter().all(|mark| has(mark)))
}

/// Reads the results of such a tool.
///
/// # Errors
/// [`ForeignError`]: none of them, a file that is not whole, no test in it.
pub fn others(text: &str) -> Result<ForeignResults, ForeignError> {
    let (_, name, reader) =
        find(text).ok_or_else(|| ForeignError::Malformed("it is of no tool that is known".into()))?;
    let tests = reader(text)?;
    let program = |test: &Test| format!("{name} {}", test.version).trim().to_owned();
    let moved = || tests.iter().filter(|test| test.read.has_moved() || test.write.has_moved());
    let runs: Vec<ForeignRun> = moved()
        .map(|test| ForeignRun {
            run: test.run(&program(test)),
            started_at_unix_ms: test.start.as_ref().map(|it| it.unix_ms),
        })
        .collect();
    // Files that were put together may be of several versions.
    let mut programs: Vec<String> = moved().map(program).collect();
    programs.dedup();
    let program = programs.join(", ");
    if runs.is_empty() {
        return Err(ForeignError::Empty);
    }
    let mut idle: Vec<&str> = tests
        .iter()
        .filter(|test| !test.read.has_moved() && !test.write.has_moved())
        .map(|test| test.name.as_str())
        .collect();
    idle.dedup();
    let verb = if idle.len() == 1 { "is" } else { "are" };
    let note = format!("{} moved no data, and {verb} left out", idle.join(", "));
    let notes = if idle.is_empty() { Vec::new() } else { vec![note] };
    Ok(ForeignResults { title: runs[0].run.workload.clone(), program, runs, notes })
}

impl Test {
    fn run(&self, program: &str) -> RunResult {
        let metric = if self.block_bytes.is_some_and(|bytes| bytes >= 1 << 18)
            || (self.read.iops + self.write.iops == 0.0)
        {
            Metric::MbPerS
        } else {
            Metric::Iops
        };
        let target = target_of(&self.target, program);
        let mut run = RunResult::unmeasured(World::Measured, target, self.name.clone(), metric);
        let mut lacks = Vec::new();
        run.series = self.series.as_deref().cloned();
        lacks.extend(run.series.is_none().then_some("the course over time"));
        run.window_ns = (self.seconds.unwrap_or(0.0) * 1e9) as u64;
        run.cost.wall_ns = run.window_ns;
        run.iodepth = self.iodepth.unwrap_or(0);
        if self.iodepth.is_none() {
            lacks.push("the queue depth");
        }
        (run.ops.read, run.ops.write) = (self.summary(&self.read), self.summary(&self.write));
        run.ops.total = self.total(&run.ops.read, &run.ops.write);
        if self.set_flushes(&mut run) {
            lacks.push("latencies without those of flushes");
        } else if run.ops.total.lat_ns_mean == 0.0 {
            lacks.push("latencies");
        }
        let (read, write) = (&run.ops.read, &run.ops.write);
        let is_lacking = |it: &OpSummary, of: fn(&OpSummary) -> bool| has_moved(it) && of(it);
        let is_any = |of: fn(&OpSummary) -> bool| is_lacking(read, of) || is_lacking(write, of);
        if run.ops.total.lat_ns_mean > 0.0 && is_any(|it| it.lat_ns_mean == 0.0) {
            lacks.push("latencies of reads and writes apart");
        }
        if run.ops.total.lat_ns_p99 == 0 {
            let has_others = !self.all.percentiles_ms.is_empty();
            lacks.push(match (has_others, is_any(|it| it.lat_ns_p99 == 0)) {
                (true, _) => "the 99th percentile",
                (false, true) => "percentiles",
                (false, false) => "percentiles of reads and writes together (each has its own)",
            });
        } else if is_any(|it| it.lat_ns_p99 == 0) {
            lacks.push("percentiles of reads and writes apart");
        }
        lacks.extend((run.ops.total.lat_ns_max == 0).then_some("the longest latency"));
        if run.ops.total.iops.0 == 0.0 {
            lacks.push("requests per second");
        }
        lacks.extend(self.seconds.is_none().then_some("the length of the run"));
        lacks.extend(&self.lacks);
        lacks.extend(self.start.as_ref().and_then(|start| start.lacks.as_deref()));
        // Runs keep no others.
        for (pct, ms) in self.all.percentiles_ms.iter().filter(|(pct, _)| *pct == 95.0) {
            run.settings.insert(format!("{pct}th percentile of the latency"), format!("{ms} ms"));
        }
        run.lines.clone_from(&self.lines);
        let bytes = self.block_bytes.and_then(|bytes| u32::try_from(bytes).ok()).filter(|it| *it > 0);
        match (bytes, self.random_pct) {
            _ if !run.lines.is_empty() => {}
            (Some(bytes), Some(random_pct)) => {
                let [reads, writes] = [&self.read, &self.write]
                    .map(|it| if it.iops > 0.0 { it.iops } else { it.bytes_per_sec });
                let read_pct = (reads * 100.0 / (reads + writes)).round() as u8;
                run.lines = vec![AccessLine::plain(bytes, read_pct, random_pct)];
            }
            (Some(_), None) => lacks.push("whether places were random"),
            (None, _) => lacks.push("the length of requests"),
        }
        run.settings.insert("measured by".into(), program.to_owned());
        run.settings.insert("lacks".into(), lacks.join("; "));
        run
    }

    /// Flushes, and the latency that counts them; whether there is one.
    fn set_flushes(&self, run: &mut RunResult) -> bool {
        if self.flushes_per_s > 0.0 {
            let requests = self.count(self.flushes_per_s);
            let iops = Iops(self.flushes_per_s);
            run.ops.others.flush = Some(Box::new(OpSummary { requests, iops, ..OpSummary::default() }));
        }
        if let Some(all) = &self.together {
            let figures = [("mean", all.mean_ms), ("at most", all.max_ms)].into_iter();
            let percentiles = all.percentiles_ms.iter().map(|(pct, ms)| format!("{pct} %: {ms} ms"));
            let told = figures.filter_map(|(name, ms)| Some(format!("{name} {} ms", ms?))).chain(percentiles);
            let name = "latency of reads, writes and flushes together";
            run.settings.insert(name.into(), told.collect::<Vec<_>>().join(", "));
        }
        self.together.is_some()
    }

    /// Reads and writes together. Without the length of the run there are no counts by which means could be pooled: rates are as good.
    fn total(&self, read: &OpSummary, write: &OpSummary) -> OpSummary {
        let (reads, writes) = (read.iops.0, write.iops.0);
        let mut total = match (self.read.has_moved(), self.write.has_moved()) {
            (true, true) => pooled(read, write),
            (true, false) => read.clone(),
            _ => write.clone(),
        };
        if reads > 0.0 && writes > 0.0 {
            let both = |one: f64, other: f64, of: f64| if one > 0.0 && other > 0.0 { of } else { 0.0 };
            let (one, other) = (read.lat_ns_mean, write.lat_ns_mean);
            total.lat_ns_mean = both(one, other, (one * reads + other * writes) / (reads + writes));
            let known = |one: u64, other: u64, of: u64| if one > 0 && other > 0 { of } else { 0 };
            total.lat_ns_max =
                known(read.lat_ns_max, write.lat_ns_max, read.lat_ns_max.max(write.lat_ns_max));
            total.lat_ns_min =
                known(read.lat_ns_min, write.lat_ns_min, read.lat_ns_min.min(write.lat_ns_min));
            let has_deviation = read.lat_ns_stddev > 0.0 && write.lat_ns_stddev > 0.0;
            total.lat_ns_stddev = if has_deviation && total.requests > 0 { total.lat_ns_stddev } else { 0.0 };
        }
        total.iops = Iops(reads + writes);
        total.bytes_per_sec = BytesPerSec(self.read.bytes_per_sec + self.write.bytes_per_sec);
        total.requests = read.requests + write.requests;
        set_latency(&mut total, &self.all);
        total
    }

    /// Requests of a rate: their share of those that are told, or those of the run's length.
    fn count(&self, rate: f64) -> u64 {
        let rates = self.read.iops + self.write.iops + self.flushes_per_s;
        let told = self.requests.filter(|_| rates > 0.0).map(|all| all * rate / rates);
        told.unwrap_or_else(|| rate * self.seconds.unwrap_or(0.0)).round() as u64
    }

    fn summary(&self, direction: &Direction) -> OpSummary {
        let mut summary = OpSummary {
            requests: self.count(direction.iops),
            iops: Iops(direction.iops),
            bytes_per_sec: BytesPerSec(direction.bytes_per_sec),
            ..OpSummary::default()
        };
        set_latency(&mut summary, direction);
        summary
    }
}

/// Sets those figures of the latency that are told.
fn set_latency(summary: &mut OpSummary, told: &Direction) {
    let ns = |ms: Option<f64>| ms.map(|ms| ms * 1e6);
    summary.lat_ns_mean = ns(told.mean_ms).unwrap_or(summary.lat_ns_mean);
    summary.lat_ns_stddev = ns(told.stddev_ms).unwrap_or(summary.lat_ns_stddev);
    summary.lat_ns_min = ns(told.min_ms).map_or(summary.lat_ns_min, |it| it as u64);
    summary.lat_ns_max = ns(told.max_ms).map_or(summary.lat_ns_max, |it| it as u64);
    for (pct, ms) in &told.percentiles_ms {
        set_percentile(summary, *pct, (ms * 1e6) as u64);
    }
}

fn set_percentile(summary: &mut OpSummary, pct: f64, ns: u64) {
    let places: [(f64, &mut u64); 6] = [
        (50.0, &mut summary.lat_ns_p50),
        (90.0, &mut summary.lat_ns_p90),
        (99.0, &mut summary.lat_ns_p99),
        (99.9, &mut summary.lat_ns_p999),
        (99.99, &mut summary.lat_ns_p9999),
        (99.999, &mut summary.lat_ns_p99999),
    ];
    let place = places.into_iter().find(|(of, _)| (of - pct).abs() < 1e-9);
    if let Some((_, place)) = place {
        *place = ns;
    }
}

/// A rate, without which there is nothing to take in.
fn rate(text: &str, column: &str, line: usize) -> Result<f64, ForeignError> {
    let wrong = || {
        let shown: String = text.chars().take(40).filter(|c| !c.is_control()).collect();
        ForeignError::Malformed(format!("line {line}: {column} is '{shown}', which is no rate"))
    };
    figure(text).ok_or_else(wrong)
}

/// When something was, as a clock had it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Stamp {
    /// Milliseconds since 1970.
    unix_ms: u64,
    /// What is not known of it, as the note of what a run lacks.
    lacks: Option<String>,
}

/// Names of time zones that stand for one offset wherever they are written, in minutes. `CST`, `IST` or `BST` are several.
const ZONES: [(&str, i64); 22] = [
    ("UTC", 0),
    ("GMT", 0),
    ("Z", 0),
    ("WET", 0),
    ("WEST", 60),
    ("CET", 60),
    ("MEZ", 60),
    ("CEST", 120),
    ("MESZ", 120),
    ("EET", 120),
    ("EEST", 180),
    ("MSK", 180),
    ("HKT", 480),
    ("JST", 540),
    ("KST", 540),
    ("EDT", -240),
    ("CDT", -300),
    ("MDT", -360),
    ("PDT", -420),
    ("PST", -480),
    ("AEST", 600),
    ("AEDT", 660),
];

/// A date and a time: `2021/12/15 10:00:00`, `2026-11-28T20:00:00.000+0100`, `12/22/2021-09:55:04-CET`, `2021/12/15 10:00:00 UTC`. Without a zone
/// that is known it is taken for UTC, which is said.
fn stamp(text: &str) -> Option<Stamp> {
    let text = text.trim();
    let numbers: Vec<&str> = text.split(|c: char| !c.is_ascii_digit()).filter(|it| !it.is_empty()).collect();
    let part = |at: usize| numbers.get(at).and_then(|it| it.parse::<u32>().ok());
    let [year, month, day] = if numbers.first()?.len() == 4 { [0, 1, 2] } else { [2, 0, 1] };
    let year = i32::try_from(part(year)?).ok()?;
    let date = chrono::NaiveDate::from_ymd_opt(year, part(month)?, part(day)?)?;
    let local = date.and_hms_opt(part(3)?, part(4)?, part(5).unwrap_or(0))?.and_utc().timestamp_millis();
    // Behind the time, the zone: hours and minutes, or a name.
    let time = text.find(':').map_or("", |at| &text[at..]);
    let zone = time.trim_start_matches(|c: char| c.is_ascii_digit() || c == ':' || c == '.').trim();
    let name = zone.trim_start_matches('-');
    let known = ZONES.iter().find(|(of, _)| *of == name).map(|(_, minutes)| *minutes);
    let minutes = known.or_else(|| minutes_of(zone));
    let lacks = minutes.is_none().then(|| {
        let shown: String = name.chars().take(20).filter(|c| !c.is_control()).collect();
        let told = if shown.is_empty() { String::new() } else { format!("'{shown}' stands for several; ") };
        format!("the time zone of its start ({told}its clock is taken for UTC)")
    });
    let unix_ms = u64::try_from(local - minutes.unwrap_or(0) * 60_000).ok()?;
    Some(Stamp { unix_ms, lacks })
}

/// A zone as hours and minutes, `+0100` or `GMT-05:30`, in minutes.
fn minutes_of(zone: &str) -> Option<i64> {
    let zone = zone.trim_start_matches("-GMT").trim_start_matches("GMT");
    let (sign, digits) = match zone.split_at_checked(1)? {
        ("+", digits) => (1, digits),
        ("-", digits) => (-1, digits),
        _ => return None,
    };
    let digits = digits.replace(':', "");
    let number = |from: usize| digits.get(from..from + 2)?.parse::<i64>().ok();
    let minutes = if digits.len() == 2 { 0 } else { number(2)? };
    Some(sign * (number(0)? * 60 + minutes))
}

/// The first number in `text`.
fn number_in(text: &str) -> Option<f64> {
    let from = text.find(|c: char| c.is_ascii_digit())?;
    let rest = &text[from..];
    let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
    figure(rest[..end].trim_end_matches('.'))
}

/// `16KiB`, `1M`, `4096`: units of 1024.
fn bytes_of(text: &str) -> Option<u64> {
    let number = number_in(text)?;
    let unit = text.trim().trim_start_matches(|c: char| c.is_ascii_digit() || c == '.' || c == ' ');
    let factor = match unit.bytes().next().map(|it| it.to_ascii_lowercase()) {
        Some(b'k') => 1u64 << 10,
        Some(b'm') => 1 << 20,
        Some(b'g') => 1 << 30,
        _ => 1,
    };
    Some((number * factor as f64) as u64)
}

#[cfg(test)]
mod tests;
