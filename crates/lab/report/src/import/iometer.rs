//! Results files of Iometer 2004 to 1.1.0 (`results.csv`).
//!
//! | Iometer | here |
//! |---|---|
//! | a block of results with its access specification | a run |
//! | row `ALL` | its figures; with several in a block, a run for each, to which the rows below it belong |
//! | rows `WORKER` | requests in flight: the sum of queue depths times disks; without them, the depth in row `ALL` |
//! | rows `DISK` | names of the targets |
//! | `Read I/Os`, `Write I/Os` and `IOps` | requests, and the length of the window |
//! | classes of latency (1.1.0) | curve and bins of the whole latency, at the classes' ends |
//!
//! A spreadsheet that saved it again may have put semicolons between fields, commas into numbers, and empty fields behind short rows.
//!
//! Columns are found by their names, so the column orders of all versions work. `MBps` of versions before 1.1.0 are
//! MiB, like `MiBps (Binary)`, which candidates of 1.1.0 call `MBps (Binary)`. Time stamps have no time zone and are taken as UTC.
//!
//! Left out: network figures, and those of single workers, disks and processors.
//! Source: Iometer 1.1.0, `ManagerList.cpp`, `Manager.cpp` and `Worker.cpp` (`SaveResults`), `AccessSpecList.cpp`,
//! `PageSetup.cpp`.

use super::{FIGURE_MAX, ForeignError, ForeignResults, ForeignRun, set_classes, target_of};
use chrono::NaiveDate;
use raidlab_units::{BytesPerSec, Iops, NanoSpan};
use raidlab_workload::{AccessLine, LoadFacts, Metric, OpSummary, RunResult, World};

/// Classes of latency by the names of their columns, and their upper ends in microseconds.
const CLASSES: [(&str, u64); 20] = [
    ("0 to 50 uS", 50),
    ("50 to 100 uS", 100),
    ("100 to 200 uS", 200),
    ("200 to 500 uS", 500),
    ("0.5 to 1 mS", 1000),
    ("1 to 2 mS", 2000),
    ("2 to 5 mS", 5000),
    ("5 to 10 mS", 10_000),
    ("10 to 15 mS", 15_000),
    ("15 to 20 mS", 20_000),
    ("20 to 30 mS", 30_000),
    ("30 to 50 mS", 50_000),
    ("50 to 100 mS", 100_000),
    ("100 to 200 mS", 200_000),
    ("200 to 500 mS", 500_000),
    ("0.5 to 1 S", 1_000_000),
    ("1 to 2 s", 2_000_000),
    ("2 to 4.7 s", 4_700_000),
    ("4.7 to 5 s", 5_000_000),
    ("5 to 10 s", 10_000_000),
];

/// Whether `text` is a results file of Iometer.
pub fn is_iometer(text: &str) -> bool {
    text.trim_start_matches('\u{feff}').trim_start().starts_with("'Test Type")
}

/// Reads a results file.
///
/// # Errors
/// [`ForeignError`]: no results file, a block of results without its row `ALL`, no results at all.
pub fn iometer(text: &str) -> Result<ForeignResults, ForeignError> {
    if !is_iometer(text) {
        return Err(ForeignError::Malformed("it does not begin as Iometer's results do".into()));
    }
    let text = text.trim_start_matches('\u{feff}').trim_start();
    let by = Separator::of(text);
    let mut lines = text.lines().map(|line| by.unpadded(line)).peekable();
    let (mut title, mut version, mut stamp) = (String::new(), String::new(), None);
    let mut spec = Spec::default();
    let mut runs = Vec::new();
    while let Some(line) = lines.next() {
        let mut value = || lines.next_if(|next| !next.starts_with('\'')).unwrap_or("").to_owned();
        if line.starts_with("'Test Type") {
            // Of files that were put together, each has a version and times of its own.
            (version, stamp, spec) = (String::new(), None, Spec::default());
            let own = value();
            let own = own.split_once(by.0).map_or("", |(_, title)| title.trim());
            if runs.is_empty() {
                own.clone_into(&mut title);
            }
        } else if line.starts_with("'Version") {
            version = value();
        } else if line.starts_with("'Time Stamp") {
            stamp = unix_ms(&value()).or(stamp);
        } else if line.starts_with("'Access specification name") {
            let name = value().split(by.0).next().unwrap_or("").trim().to_owned();
            spec = Spec { name, lines: Vec::new() };
        } else if line.starts_with("'size") && line[5..].starts_with(by.0) {
            while let Some(next) = lines.next_if(|next| !next.starts_with('\'')) {
                spec.lines.extend(by.line_of(next));
            }
        } else if line.starts_with("'Target Type") {
            let mut rows = Rows { names: by.fields(line.trim_start_matches('\'')), rows: Vec::new() };
            while let Some(next) = lines.next_if(|next| !next.starts_with('\'')) {
                rows.rows.push(by.fields(next));
            }
            let of_all = rows.by_all()?;
            let is_one = of_all.len() == 1;
            for rows in of_all {
                let mut run = rows.run(&spec);
                let program = format!("Iometer {version}").trim_end().to_owned();
                run.target = target_of(&run.target, &program);
                run.settings.insert("measured by".into(), program);
                // Each of several says whose it is.
                let name = rows.text(rows.all(), &["Access Specification Name"]);
                if let Some(name) = name.filter(|name| !is_one && **name != spec.name) {
                    name.clone_into(&mut run.workload);
                    run.lines.clear();
                }
                if let (Some(_), Some(lacks)) = (stamp, run.settings.get_mut("lacks")) {
                    lacks.push_str("; the time zone of its start (its clock is taken for UTC)");
                }
                runs.push(ForeignRun { run, started_at_unix_ms: stamp });
            }
        }
    }
    let Some(first) = runs.first() else { return Err(ForeignError::Empty) };
    let program = first.run.settings.get("measured by").cloned().unwrap_or_default();
    Ok(ForeignResults { program, title, runs, notes: Vec::new() })
}

/// An access specification.
#[derive(Default)]
struct Spec {
    name: String,
    lines: Vec<AccessLine>,
}

/// What stands between fields: a comma, or what a spreadsheet of another language put there.
#[derive(Clone, Copy)]
struct Separator(char);

impl Separator {
    /// The first line has it behind the first name.
    fn of(text: &str) -> Self {
        let behind = text.strip_prefix("'Test Type").and_then(|rest| rest.chars().next());
        Self(behind.filter(|c| [',', ';', '\t'].contains(c)).unwrap_or(','))
    }

    /// A line without the empty fields that a spreadsheet adds behind short rows. Rows of figures may lose fields without text, which
    /// are as if they were not there.
    fn unpadded(self, line: &str) -> &str {
        line.trim_matches(|c: char| c == '"' || (c.is_whitespace() && c != self.0))
            .trim_end_matches(self.0)
            .trim()
    }

    fn fields(self, line: &str) -> Vec<&str> {
        line.split(self.0).map(|field| field.trim().trim_matches('"')).collect()
    }

    /// A line of an access specification: size, share, reads, random, delay, burst, align, reply.
    fn line_of(self, line: &str) -> Option<AccessLine> {
        access_line(&self.fields(line))
    }
}

fn access_line(fields: &[&str]) -> Option<AccessLine> {
    let numbers: Vec<u32> = fields.iter().take(8).map(|field| field.parse().ok()).collect::<Option<_>>()?;
    let [bytes, share, reads, random, delay_ms, burst, align, reply_bytes] = numbers[..] else { return None };
    let pct = |value: u32| value.min(100) as u8;
    Some(AccessLine {
        bytes,
        share_pct: pct(share),
        read_pct: pct(reads),
        random_pct: pct(random),
        delay: NanoSpan::from_millis(u64::from(delay_ms)),
        burst,
        align_bytes: (align > 0 && align != bytes).then_some(align),
        reply_bytes,
    })
}

/// A block of results.
struct Rows<'a> {
    names: Vec<&'a str>,
    rows: Vec<Vec<&'a str>>,
}

impl<'a> Rows<'a> {
    /// The rows of each run, which begin with its row ALL.
    fn by_all(self) -> Result<Vec<Self>, ForeignError> {
        let begins = |row: &[&str]| row.first() == Some(&"ALL");
        if !self.rows.iter().any(|row| begins(row)) {
            return Err(ForeignError::Malformed("a block of results has no row ALL".into()));
        }
        let mut runs: Vec<Self> = Vec::new();
        for row in self.rows {
            match runs.last_mut() {
                Some(run) if !begins(&row) || !run.rows.iter().any(|row| begins(row)) => run.rows.push(row),
                _ => runs.push(Rows { names: self.names.clone(), rows: vec![row] }),
            }
        }
        Ok(runs)
    }

    fn all(&self) -> &[&'a str] {
        self.rows.iter().find(|row| row.first() == Some(&"ALL")).map_or(&[], Vec::as_slice)
    }

    fn of_kind<'b>(&'b self, kind: &'b str) -> impl Iterator<Item = &'b Vec<&'b str>> {
        self.rows.iter().filter(move |row| row.first() == Some(&kind))
    }

    /// A column of a row by any of its names.
    fn text<'b>(&'b self, row: &'b [&'b str], names: &[&str]) -> Option<&'b str> {
        let index = names.iter().find_map(|name| self.names.iter().position(|column| column == name))?;
        row.get(index).copied().filter(|text| !text.is_empty())
    }

    /// A number of a row; none where the column is missing, or says that it has no one value (-1).
    fn number(&self, row: &[&str], names: &[&str]) -> Option<f64> {
        let text = self.text(row, names)?;
        let number: f64 = text.parse().or_else(|_| text.replace(',', ".").parse()).ok()?;
        (0.0..FIGURE_MAX).contains(&number).then_some(number)
    }

    fn run(&self, spec: &Spec) -> RunResult {
        let all = self.all();
        let mut targets: Vec<&str> = Vec::new();
        for row in self.of_kind("DISK") {
            targets.extend(row.get(1).filter(|name| !targets.contains(name)));
        }
        let mut run =
            RunResult::unmeasured(World::Measured, targets.join(", "), spec.name.clone(), Metric::Iops);
        run.lines.clone_from(&spec.lines);
        let mut lacks =
            vec!["the course over time", "percentiles", "the shortest and the deviation of latencies"];
        self.set_figures(&mut run, all);
        let classes = self.classes(all, run.ops.total.lat_ns_max);
        set_classes(&mut run.ops.total, &classes);
        if run.ops.total.lat_curve.is_empty() {
            lacks.push("the distribution of latencies");
        }
        if !self.set_load(&mut run) {
            lacks.push("the queue depth");
        }
        if let Some(pct) = self.number(all, &["% CPU Utilization"]) {
            run.figures.insert("iometer.cpu_utilisation_pct".into(), pct);
        }
        run.settings.insert("lacks".into(), lacks.join("; "));
        run
    }

    fn set_figures(&self, run: &mut RunResult, all: &[&str]) {
        let number = |names: &[&str]| self.number(all, names).unwrap_or(0.0);
        let of = |kind: &str| {
            let named = |before: &str, after: &str| number(&[&format!("{before}{kind}{after}")]);
            let mib = ["MiBps (Binary)", "MBps (Binary)", "MBps"].map(|name| format!("{kind}{name}"));
            let mib = number(&mib.each_ref().map(String::as_str));
            OpSummary {
                errors: named("", "Errors") as u64,
                iops: Iops(named("", "IOps")),
                bytes_per_sec: BytesPerSec(mib * f64::from(1 << 20)),
                lat_ns_mean: named("Average ", "Response Time") * 1e6,
                lat_ns_max: (named("Maximum ", "Response Time") * 1e6).round() as u64,
                ..OpSummary::default()
            }
        };
        (run.ops.read, run.ops.write, run.ops.total) = (of("Read "), of("Write "), of(""));
        run.ops.read.requests = number(&["Read I/Os"]) as u64;
        run.ops.write.requests = number(&["Write I/Os"]) as u64;
        run.ops.total.requests = run.ops.read.requests.saturating_add(run.ops.write.requests);
        let seconds = if run.ops.total.iops.0 > 0.0 {
            run.ops.total.requests as f64 / run.ops.total.iops.0
        } else {
            0.0
        };
        run.window_ns = (seconds * 1e9).round() as u64;
        run.cost.wall_ns = run.window_ns;
    }

    /// Sets how many requests were in flight; false where the file does not say.
    fn set_load(&self, run: &mut RunResult) -> bool {
        let of_row = |row: &Vec<&str>| {
            let depth = self.number(row, &["Queue Depth"])?;
            Some((depth as u32, self.number(row, &["# Disks"]).map_or(1, |disks| disks as u32).max(1)))
        };
        let workers: Vec<(u32, u32)> = self.of_kind("WORKER").filter_map(of_row).collect();
        let total = workers
            .iter()
            .fold(0_u32, |sum, (depth, disks)| sum.saturating_add(depth.saturating_mul(*disks)));
        // Without workers' rows that of all is what is left; -1 stands for several.
        let of_all = self.number(self.all(), &["Queue Depth"]);
        let total = if workers.is_empty() { of_all.map_or(0, |depth| depth as u32) } else { total };
        run.iodepth = total;
        let first = workers.first().copied().unwrap_or((0, 1));
        if !workers.is_empty() && total > first.0 && workers.iter().all(|worker| *worker == first) {
            let (workers, targets) = (workers.len() as u32, first.1);
            run.load = Some(LoadFacts { targets, workers, iodepth_per_target: first.0 });
        }
        total > 0
    }

    /// The classes' ends in nanoseconds, with their requests; none where it does not have them.
    fn classes(&self, all: &[&str], max_ns: u64) -> Vec<(u64, u64)> {
        // The longest is known better than its class.
        let end = |upper_ns: u64| if max_ns > 0 { upper_ns.min(max_ns) } else { upper_ns };
        let count = |name: &str| self.number(all, &[name]).map(|count| count.round() as u64);
        let known: Option<Vec<(u64, u64)>> =
            CLASSES.iter().map(|(name, us)| Some((end(us * 1000), count(name)?))).collect();
        let above = (end(u64::MAX), count(">= 10 s").unwrap_or(0));
        known.map_or_else(Vec::new, |known| known.into_iter().chain([above]).collect())
    }
}

/// A time stamp `2026-01-31 12:00:00:000` in milliseconds since 1970.
fn unix_ms(text: &str) -> Option<u64> {
    let numbers: Vec<u64> = text
        .split(|c: char| !c.is_ascii_digit())
        .filter(|part| !part.is_empty())
        .map(|part| part.parse().ok())
        .collect::<Option<_>>()?;
    let (&[year, month, day, hour, minute, second], rest) = numbers.split_first_chunk::<6>()?;
    let [month, day, hour, minute, second] = [month, day, hour, minute, second].map(|it| it.try_into().ok());
    let date = NaiveDate::from_ymd_opt(year.try_into().ok()?, month?, day?)?;
    let seconds = date.and_hms_opt(hour?, minute?, second?)?.and_utc().timestamp();
    let ms = rest.first().copied().filter(|ms| *ms < 1000).unwrap_or(0);
    Some(u64::try_from(seconds).ok()? * 1000 + ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_stamps_are_taken_for_utc() {
        assert_eq!(unix_ms("1970-01-01 00:00:00:000"), Some(0));
        assert_eq!(unix_ms("2026-02-28 23:59:59:250"), Some(1_772_323_199_250));
        assert_eq!(unix_ms("2024-02-29 12:00:00"), Some(1_709_208_000_000));
        for odd in [
            "",
            "yesterday",
            "2026-13-01 00:00:00",
            "2026-02-30 00:00:00",
            "1969-12-31 00:00:00",
            "2026-01-01",
            "99999999999999999999-1-1 1:1:1",
        ] {
            assert_eq!(unix_ms(odd), None, "{odd}");
        }
    }
}
