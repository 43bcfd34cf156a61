//! vdbench's `flatfile.html`: a table of columns by name, whose rows `avg_...` are the runs, and the rows before them the course of each.
//!
//! ```text
//! avg_2-61   the mean of the intervals 2 to 61, of the run's rows with these numbers
//! ```
//! The length of an interval is the column `interval`, else what lies between the times (`tod`) of the rows, else the column `elapsed` by
//! the number of intervals.

use super::super::ForeignError;
use super::{Direction, Stamp, Test, figure, rate, stamp};
use raidlab_workload::{RunSeries, SeriesColumns};

/// A row of figures by the names in the head.
struct Row<'a, 'text> {
    head: &'a [&'text str],
    cells: &'a [&'text str],
    /// Its line, from 1 on.
    line: usize,
}

impl<'text> Row<'_, 'text> {
    fn cell(&self, name: &str) -> Option<&'text str> {
        let at = self.head.iter().position(|it| *it == name)?;
        self.cells.get(at).copied()
    }

    fn number(&self, name: &str) -> Option<f64> {
        figure(self.cell(name)?)
    }

    fn told(&self, name: &str) -> Result<f64, ForeignError> {
        self.cell(name).map_or(Ok(0.0), |text| rate(text, name, self.line))
    }

    /// The share of reads.
    fn share(&self) -> f64 {
        let pct = self.number("read%").or_else(|| self.number("rdpct")).unwrap_or(0.0);
        pct.clamp(0.0, 100.0) / 100.0
    }

    /// Seconds since midnight.
    fn time_of_day(&self) -> Option<f64> {
        let mut parts = self.cell("tod")?.split(':').map(figure);
        let [hour, minute, second] = [parts.next()??, parts.next()??, parts.next()??];
        Some(hour * 3600.0 + minute * 60.0 + second)
    }
}

/// An interval of a run.
#[derive(Clone, Copy)]
struct Interval {
    number: u64,
    time_of_day: Option<f64>,
    iops: f64,
    mib_per_s: f64,
    share: f64,
    mean_ms: Option<f64>,
    max_ms: Option<f64>,
}

impl Interval {
    fn of(row: &Row<'_, '_>) -> Option<Self> {
        Some(Self {
            number: row.cell("Interval")?.parse().ok()?,
            time_of_day: row.time_of_day(),
            iops: row.number("rate")?,
            mib_per_s: row.number("MB/sec")?,
            share: row.share(),
            mean_ms: row.number("resp"),
            max_ms: row.number("resp_max"),
        })
    }
}

/// What was seen of a run so far.
#[derive(Default)]
struct Course<'a> {
    name: &'a str,
    /// The time of its first interval.
    began: Option<Stamp>,
    intervals: Vec<Interval>,
}

impl Course<'_> {
    /// Seconds between its rows: they are as far apart as intervals are long.
    fn interval_s(&self) -> Option<f64> {
        const DAY_S: f64 = 86_400.0;
        let (first, last) = (self.intervals.first()?, self.intervals.last()?);
        let seconds = (last.time_of_day? - first.time_of_day?).rem_euclid(DAY_S);
        let interval = (seconds / last.number.checked_sub(first.number)? as f64).round();
        (interval >= 1.0 && interval.is_finite()).then_some(interval)
    }

    /// The intervals `from..=to`, each `interval_s` long; none where a row is missing.
    fn series(&self, (from, to): (u64, u64), interval_s: f64) -> Option<RunSeries> {
        let within: Vec<&Interval> =
            self.intervals.iter().filter(|it| (from..=to).contains(&it.number)).collect();
        let is_whole = within.iter().zip(from..).all(|(it, number)| it.number == number);
        if !is_whole || within.len() as u64 != (to - from).checked_add(1)? {
            return None;
        }
        let interval_ns = (interval_s * 1e9) as u64;
        let of = |share: fn(f64) -> f64| {
            let counts = |rate: fn(&Interval) -> f64| {
                within.iter().map(|it| (rate(it) * share(it.share) * interval_s).round() as u64).collect()
            };
            SeriesColumns {
                requests: counts(|it| it.iops),
                bytes: counts(|it| it.mib_per_s * f64::from(1 << 20)),
                ..SeriesColumns::default()
            }
        };
        let ns = |of: fn(&Interval) -> Option<f64>| {
            let told: Option<Vec<u64>> = within.iter().map(|it| Some((of(it)? * 1e6) as u64)).collect();
            told.unwrap_or_default()
        };
        let (lat_ns_mean, lat_ns_max) = (ns(|it| it.mean_ms), ns(|it| it.max_ms));
        // Latencies are those of both together.
        let total = SeriesColumns { lat_ns_mean, lat_ns_max, ..of(|_| 1.0) };
        let alone = |share: f64| {
            let is_all = within.iter().all(|it| it.share == share);
            if is_all { total.clone() } else { SeriesColumns::default() }
        };
        let (read, write) = (alone(1.0), alone(0.0));
        Some(RunSeries { interval_ns, last_ns: interval_ns, read, write, total, lat_map: None })
    }
}

pub(super) fn tests(text: &str) -> Result<Vec<Test>, ForeignError> {
    let mut tests = Vec::new();
    let mut head: Vec<&str> = Vec::new();
    let mut course = Course::default();
    for (index, line) in text.lines().enumerate() {
        let cells: Vec<&str> = line.split_ascii_whitespace().collect();
        if cells.contains(&"reqrate") && cells.contains(&"Interval") {
            // Another file begins, whose runs may have the same names.
            (head, course) = (cells, Course::default());
            continue;
        }
        let row = Row { head: &head, cells: &cells, line: index + 1 };
        let name = row.cell("Run").unwrap_or("vdbench");
        if course.name != name {
            let began = row.cell("timestamp").and_then(stamp);
            course = Course { name, began, intervals: Vec::new() };
        }
        match row.cell("Interval").and_then(|it| it.strip_prefix("avg_")) {
            Some(range) => tests.push(test_of(&row, range, &course)?),
            None => course.intervals.extend(Interval::of(&row)),
        }
    }
    Ok(tests)
}

/// The test of a row of means, of the intervals `range`.
fn test_of(row: &Row<'_, '_>, range: &str, course: &Course<'_>) -> Result<Test, ForeignError> {
    if row.cells.len() < row.head.len() {
        let problem =
            format!("line {} has {} cells where the head has {}", row.line, row.cells.len(), row.head.len());
        return Err(ForeignError::Malformed(problem));
    }
    let (rate, mb_per_s, share) = (row.told("rate")?, row.told("MB/sec")?, row.share());
    let direction = |share: f64, mean: &str, most: &str| Direction {
        iops: rate * share,
        bytes_per_sec: mb_per_s * f64::from(1 << 20) * share,
        mean_ms: row.number(mean).filter(|_| share > 0.0),
        max_ms: row.number(most).filter(|_| share > 0.0),
        ..Direction::default()
    };
    // 'rand', 'seqnz' and 'seq' stand for a share.
    let random_pct = match row.cell("seekpct") {
        Some("rand" | "random") => Some(100.0),
        Some("seq" | "sequential" | "seqnz") => Some(0.0),
        _ => row.number("seekpct"),
    };
    let range = range.split_once('-').and_then(|(from, to)| Some((from.parse().ok()?, to.parse().ok()?)));
    let range = range.filter(|(from, to): &(u64, u64)| from <= to);
    let of_elapsed = || Some(row.number("elapsed")? / range?.1 as f64);
    let interval_s = row.number("interval").or_else(|| course.interval_s()).or_else(of_elapsed);
    let interval_s = interval_s.filter(|it| *it > 0.0);
    let window = range.zip(interval_s);
    Ok(Test {
        name: course.name.to_owned(),
        start: course.began.clone(),
        seconds: window.map(|((from, to), interval_s)| ((to - from) as f64 + 1.0) * interval_s),
        series: window.and_then(|(range, interval_s)| course.series(range, interval_s)).map(Box::new),
        version: row.cell("version").filter(|it| *it != "n/a").unwrap_or("").to_owned(),
        iodepth: row.number("threads").map(|it| it as u32).filter(|it| *it > 0),
        // 'n/a' is of several sizes: their mean is none of them.
        block_bytes: row.number("xfersize").map(|it| it as u64),
        random_pct: random_pct.map(|it| it.clamp(0.0, 100.0) as u8),
        read: direction(share, "read_resp", "read_max"),
        write: direction(1.0 - share, "write_resp", "write_max"),
        all: Direction {
            mean_ms: row.number("resp"),
            max_ms: row.number("resp_max"),
            ..Direction::default()
        },
        ..Test::default()
    })
}
