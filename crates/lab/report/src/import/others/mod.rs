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

use super::{ForeignError, ForeignResults, ForeignRun, pooled, target_of};
use raidlab_units::{BytesPerSec, Iops};
use raidlab_workload::{AccessLine, Metric, OpSummary, RunResult, World};

/// A reader of one tool's results.
type Reader = fn(&str) -> Result<Vec<Test>, ForeignError>;

/// A tool: what all of its files have, its name, its reader.
const TOOLS: [(&[&str], &str, Reader); 5] = [
    (&["<Results>", "<TimeSpan>"], "diskspd", diskspd::tests),
    (&["operation", "time ms", "IOPS"], "elbencho", elbencho::tests),
    (&["reqrate", "MB/sec", "bytes/io"], "vdbench", vdbench::tests),
    (&["sysbench", "File operations:"], "sysbench", sysbench::tests),
    (&["CrystalDiskMark"], "CrystalDiskMark", crystal::tests),
];

/// Figures of one direction, each where it is told.
#[derive(Clone, Copy, Debug, Default)]
struct Direction {
    iops: f64,
    bytes_per_sec: f64,
    mean_ms: Option<f64>,
    max_ms: Option<f64>,
}

/// What a file says of one test.
#[derive(Clone, Debug, Default)]
struct Test {
    name: String,
    target: String,
    version: String,
    seconds: Option<f64>,
    iodepth: Option<u32>,
    block_bytes: Option<u64>,
    random_pct: Option<u8>,
    read: Direction,
    write: Direction,
    /// Latency of both, where it is not told of each.
    all: Direction,
    /// Percentiles of both, by percent.
    percentiles_ms: Vec<(f64, f64)>,
}

/// The tool whose results `text` holds.
pub fn other_tool(text: &str) -> Option<&'static str> {
    find(text).map(|(_, name, _)| *name)
}

fn find(text: &str) -> Option<&'static (&'static [&'static str], &'static str, Reader)> {
    TOOLS.iter().find(|(marks, ..)| marks.iter().all(|mark| text.contains(mark)))
}

/// Reads the results of such a tool.
///
/// # Errors
/// [`ForeignError`]: none of them, a file that is not whole, no test in it.
pub fn others(text: &str) -> Result<ForeignResults, ForeignError> {
    let (_, name, reader) =
        find(text).ok_or_else(|| ForeignError::Malformed("it is of no tool that is known".into()))?;
    let tests = reader(text)?;
    let version = tests.iter().find(|test| !test.version.is_empty()).map_or("", |test| &test.version);
    let program = format!("{name} {version}").trim().to_owned();
    let runs: Vec<ForeignRun> = tests
        .iter()
        .filter(|test| test.read.iops + test.write.iops > 0.0)
        .map(|test| ForeignRun { run: test.run(&program), started_at_unix_ms: 0 })
        .collect();
    if runs.is_empty() {
        return Err(ForeignError::Empty);
    }
    Ok(ForeignResults { title: runs[0].run.workload.clone(), program, runs, notes: Vec::new() })
}

impl Test {
    fn run(&self, program: &str) -> RunResult {
        let moved = self.read.bytes_per_sec + self.write.bytes_per_sec;
        let requests = self.read.iops + self.write.iops;
        let metric = if self.block_bytes.is_some_and(|bytes| bytes >= 1 << 18) {
            Metric::MbPerS
        } else {
            Metric::Iops
        };
        let target = target_of(&self.target, program);
        let mut run = RunResult::unmeasured(World::Measured, target, self.name.clone(), metric);
        let mut lacks = vec!["the course over time"];
        run.window_ns = (self.seconds.unwrap_or(0.0) * 1e9) as u64;
        run.cost.wall_ns = run.window_ns;
        run.iodepth = self.iodepth.unwrap_or(0);
        if self.iodepth.is_none() {
            lacks.push("the queue depth");
        }
        (run.ops.read, run.ops.write) = (self.summary(&self.read), self.summary(&self.write));
        // Without the length of the run there are no counts by which means could be pooled.
        run.ops.total =
            if self.read.iops > 0.0 { pooled(&run.ops.read, &run.ops.write) } else { run.ops.write.clone() };
        run.ops.total.iops = Iops(requests);
        run.ops.total.bytes_per_sec = BytesPerSec(moved);
        let ms = |ms: Option<f64>| ms.map_or(0.0, |ms| ms * 1e6);
        if self.all.mean_ms.is_some() {
            run.ops.total.lat_ns_mean = ms(self.all.mean_ms);
            run.ops.total.lat_ns_max = ms(self.all.max_ms) as u64;
        }
        if run.ops.total.lat_ns_mean == 0.0 {
            lacks.push("latencies");
        }
        for (pct, ms) in &self.percentiles_ms {
            set_percentile(&mut run.ops.total, *pct, (ms * 1e6) as u64);
        }
        lacks.extend((run.ops.total.lat_ns_p99 == 0).then_some("percentiles"));
        lacks.extend(self.seconds.is_none().then_some("the length of the run"));
        if let Some(bytes) = self.block_bytes.and_then(|bytes| u32::try_from(bytes).ok()).filter(|it| *it > 0)
        {
            let read_pct = (self.read.iops * 100.0 / requests).round() as u8;
            run.lines = vec![AccessLine::plain(bytes, read_pct, self.random_pct.unwrap_or(100))];
            lacks.extend(self.random_pct.is_none().then_some("whether places were random"));
        }
        run.settings.insert("measured by".into(), program.to_owned());
        run.settings.insert("lacks".into(), lacks.join("; "));
        run
    }

    fn summary(&self, direction: &Direction) -> OpSummary {
        OpSummary {
            requests: (direction.iops * self.seconds.unwrap_or(0.0)).round() as u64,
            iops: Iops(direction.iops),
            bytes_per_sec: BytesPerSec(direction.bytes_per_sec),
            lat_ns_mean: direction.mean_ms.unwrap_or(0.0) * 1e6,
            lat_ns_max: (direction.max_ms.unwrap_or(0.0) * 1e6) as u64,
            ..OpSummary::default()
        }
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

/// The first number in `text`.
fn number_in(text: &str) -> Option<f64> {
    let from = text.find(|c: char| c.is_ascii_digit())?;
    let rest = &text[from..];
    let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
    rest[..end].trim_end_matches('.').parse().ok()
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
