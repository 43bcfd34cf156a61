//! diskspd's XML (`-Rxml`), a run for each time span.
//!
//! ```text
//! Profile > TimeSpans > TimeSpan > RequestCount (of all targets: -O), ThreadCount (-F), Targets > Target > RequestCount, ThreadsPerFile
//! TimeSpan > Latency (of all targets), Thread > Target > Path, ReadCount, WriteCount, ...
//! ```
//! Several targets are lines of one run, with the shares that were measured. Left out: single threads, and the latencies of single targets.

use super::super::ForeignError;
use super::{Direction, Test, figure, stamp};
use raidlab_workload::AccessLine;

/// What stands between `<name>` and `</name>`, one after the other, whatever attributes it has; elements of one name are not nested in
/// this file, except time spans.
fn inside<'a>(text: &'a str, name: &str) -> impl Iterator<Item = &'a str> {
    let (open, close) = (format!("<{name}"), format!("</{name}>"));
    let mut rest = text;
    std::iter::from_fn(move || {
        loop {
            let behind = &rest[rest.find(&open)? + open.len()..];
            // Another element begins with this name.
            if !behind.starts_with(|c: char| c == '>' || c.is_whitespace()) {
                rest = behind;
                continue;
            }
            let inner = &behind[behind.find('>')? + 1..];
            let length = inner.find(&close)?;
            rest = &inner[length + close.len()..];
            return Some(&inner[..length]);
        }
    })
}

fn first<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    inside(text, name).next()
}

fn number(text: &str, name: &str) -> Option<f64> {
    figure(first(text, name)?)
}

/// What was measured; what the file lacks is nothing.
///
/// # Errors
/// [`ForeignError::Malformed`] where it is no figure.
fn measured(text: &str, name: &str) -> Result<Option<f64>, ForeignError> {
    let Some(inner) = first(text, name) else { return Ok(None) };
    let wrong = || {
        let shown: String = inner.trim().chars().take(40).collect();
        ForeignError::Malformed(format!("its <{name}> is '{shown}', which is no figure: it is damaged"))
    };
    figure(inner).map(Some).ok_or_else(wrong)
}

fn sum(targets: &[&str], name: &str) -> Result<f64, ForeignError> {
    targets.iter().map(|target| Ok(measured(target, name)?.unwrap_or(0.0))).sum()
}

/// Refuses a file that tells of bytes without requests, or of requests without bytes.
fn check_pairs(targets: &[&str]) -> Result<(), ForeignError> {
    for kind in ["Read", "Write"] {
        let (count, bytes) = (format!("{kind}Count"), format!("{kind}Bytes"));
        let (requests, moved) = (sum(targets, &count)?, sum(targets, &bytes)?);
        if (requests > 0.0) != (moved > 0.0) {
            let lacking = if requests > 0.0 { bytes } else { count };
            return Err(ForeignError::Malformed(format!(
                "it has no <{lacking}> beside what was moved: it is damaged"
            )));
        }
    }
    Ok(())
}

/// What was asked of a file or disk.
struct Target<'a> {
    path: &'a str,
    bytes: Option<u32>,
    random_pct: u8,
    /// What places are multiples of, where that is not the length (`-r64K`).
    align_bytes: Option<u32>,
    requests: f64,
    threads: Option<f64>,
}

impl<'a> Target<'a> {
    fn of(text: &'a str) -> Self {
        let align = number(text, "Random");
        let random = number(text, "RandomRatio").or_else(|| align.map(|_| 100.0));
        let bytes = number(text, "BlockSize").map(|it| it as u32).filter(|it| *it > 0);
        Self {
            path: first(text, "Path").unwrap_or(""),
            bytes,
            align_bytes: align.map(|it| it as u32).filter(|it| *it > 0 && Some(*it) != bytes),
            random_pct: random.unwrap_or(0.0).clamp(0.0, 100.0) as u8,
            requests: number(text, "RequestCount").unwrap_or(1.0).max(1.0),
            threads: number(text, "ThreadsPerFile").filter(|it| *it > 0.0),
        }
    }
}

/// Requests in flight of all threads. Threads of their own have the depth of their target; threads that serve all targets have that of each
/// of them (`-F` with `-o`), or one for all (`-O`). What stands before the targets is of the time span.
fn iodepth(plan: &str, targets: &[Target<'_>]) -> Option<u32> {
    let of_span = plan.split("<Targets>").next().unwrap_or("");
    let shared = number(of_span, "ThreadCount").filter(|it| *it > 0.0);
    let for_all = number(of_span, "RequestCount").filter(|it| *it > 0.0);
    let depth = match shared {
        Some(threads) => {
            threads * for_all.unwrap_or_else(|| targets.iter().map(|target| target.requests).sum())
        }
        None => targets.iter().map(|target| Some(target.requests * target.threads?)).sum::<Option<f64>>()?,
    };
    Some(depth as u32).filter(|it| *it > 0)
}

/// A line for each target, with the shares of `requests` that it had; none where one path is told of twice.
fn lines(targets: &[Target<'_>], measured: &[&str]) -> Vec<AccessLine> {
    // What is no figure is refused by now.
    let requests = |of: &[&str], name: &str| sum(of, name).unwrap_or(0.0);
    let of = |path: &str| -> (f64, f64) {
        let own: Vec<&str> =
            measured.iter().copied().filter(|it| first(it, "Path").unwrap_or("") == path).collect();
        (requests(&own, "ReadCount"), requests(&own, "WriteCount"))
    };
    let all: f64 = requests(measured, "ReadCount") + requests(measured, "WriteCount");
    let is_twice = (1..targets.len()).any(|at| targets[..at].iter().any(|it| it.path == targets[at].path));
    if all <= 0.0 || is_twice {
        return Vec::new();
    }
    let line = |target: &Target<'_>| {
        let (reads, writes) = of(target.path);
        let read_pct =
            if reads + writes > 0.0 { (reads * 100.0 / (reads + writes)).round() as u8 } else { 0 };
        let share_pct = ((reads + writes) * 100.0 / all).round() as u8;
        let plain = AccessLine::plain(target.bytes?, read_pct, target.random_pct);
        Some(AccessLine { share_pct, align_bytes: target.align_bytes, ..plain })
    };
    let mut lines: Vec<AccessLine> = targets.iter().map(line).collect::<Option<_>>().unwrap_or_default();
    // Rounded shares are a whole.
    let rest = lines.iter().map(|it| i16::from(it.share_pct)).sum::<i16>() - 100;
    if let Some(most) = lines.iter_mut().max_by_key(|it| it.share_pct) {
        most.share_pct = (i16::from(most.share_pct) - rest).clamp(0, 100) as u8;
    }
    lines.retain(|it| it.share_pct > 0);
    lines
}

/// Several documents may stand in one file, each with what it asked for.
pub(super) fn tests(text: &str) -> Result<Vec<Test>, ForeignError> {
    const END: &str = "</Results>";
    let mut tests = Vec::new();
    for document in text.split_inclusive(END).filter(|it| it.contains("<Results>")) {
        if !document.ends_with(END) {
            return Err(ForeignError::Malformed(format!("its XML is not whole: there is no {END}")));
        }
        tests.extend(of_document(document)?);
    }
    Ok(tests)
}

fn of_document(text: &str) -> Result<Vec<Test>, ForeignError> {
    let profile = first(text, "Profile").unwrap_or("");
    let behind = text.split_once("</Profile>").map_or(text, |(_, behind)| behind);
    let plans: Vec<&str> = inside(profile, "TimeSpan").collect();
    let version = first(text, "VersionString").or_else(|| first(text, "Version")).unwrap_or("");
    let test = |(index, span): (usize, &str)| {
        let Some(seconds) = measured(span, "TestTimeSeconds")?.filter(|it| *it > 0.0) else {
            return Err(ForeignError::Malformed(
                "a <TimeSpan> has no <TestTimeSeconds> above zero: it is damaged".into(),
            ));
        };
        let plan = plans.get(index).copied().unwrap_or(profile);
        let targets: Vec<Target<'_>> = inside(plan, "Target").map(Target::of).collect();
        let threads = inside(span, "Thread").collect::<Vec<_>>();
        let found: Vec<&str> = threads.iter().flat_map(|thread| inside(thread, "Target")).collect();
        check_pairs(&found)?;
        let latency = first(span, "Latency").unwrap_or("");
        let direction = |kind: &str, deviation: &str| {
            let at = |bucket: &str| {
                Some((number(bucket, "Percentile")?, number(bucket, &format!("{kind}Milliseconds"))?))
            };
            let mut points: Vec<(f64, f64)> = inside(latency, "Bucket").filter_map(at).collect();
            let end = |pct: f64| points.iter().find(|(of, _)| (of - pct).abs() < 1e-9).map(|(_, ms)| *ms);
            let (min_ms, max_ms) = (end(0.0), end(100.0));
            points.retain(|(pct, _)| *pct > 0.0 && *pct < 100.0);
            Ok::<_, ForeignError>(Direction {
                iops: sum(&found, &format!("{kind}Count"))? / seconds,
                bytes_per_sec: sum(&found, &format!("{kind}Bytes"))? / seconds,
                mean_ms: number(latency, &format!("Average{kind}Milliseconds")),
                min_ms,
                max_ms,
                stddev_ms: number(latency, deviation),
                percentiles_ms: points,
            })
        };
        let lines = lines(&targets, &found);
        let paths: Vec<&str> = targets.iter().map(|target| target.path).collect();
        Ok(Test {
            name: if plans.len() > 1 { format!("diskspd, span {}", index + 1) } else { "diskspd".into() },
            target: paths.join(", "),
            version: version.to_owned(),
            seconds: Some(seconds),
            iodepth: iodepth(plan, &targets),
            block_bytes: lines.first().map(|line| u64::from(line.bytes)),
            random_pct: lines.first().map(|line| line.random_pct),
            read: direction("Read", "ReadLatencyStdev")?,
            write: direction("Write", "WriteLatencyStdev")?,
            all: direction("Total", "LatencyStdev")?,
            // Of the first span; others follow one after the other.
            start: first(text, "RunTime").and_then(stamp).filter(|_| index == 0),
            lacks: if targets.len() > 1 { vec!["latencies of each target"] } else { Vec::new() },
            lines,
            ..Test::default()
        })
    };
    inside(behind, "TimeSpan").enumerate().map(test).collect()
}
