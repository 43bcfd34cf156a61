//! What `sysbench fileio run` prints, versions 0.4 to 1.1.
//!
//! | version | requests |
//! |---|---|
//! | 0.4, 0.5 | `Operations performed:  6004 Read, 3997 Write, ...` over `total time:` |
//! | 1.0 | `reads/s:`, `writes/s:`, `read, MiB/s:`, `written, MiB/s:` |
//! | 1.1 | `read:  IOPS=6622.34 103.47 MiB/s (108.50 MB/s)` |
//!
//! Latency is that of all events. Since 1.0 flushes are among them: it is of no read or write, and stands among the settings. Events of 0.4 and
//! 0.5 are reads and writes, as their number shows. In asynchronous mode each thread has `--file-async-backlog` requests in flight, which is not printed.

use super::super::ForeignError;
use super::{Direction, Test, bytes_of, figure, number_in};

const MIB: f64 = 1_048_576.0;

/// What was done, as versions 0.4 and 0.5 count it.
struct Counts {
    reads: f64,
    writes: f64,
    /// They call them `Other`.
    flushes: f64,
}

/// The counts of `text`; none where its version has rates instead.
fn counts(text: &str) -> Result<Option<Counts>, ForeignError> {
    let name = "Operations performed:";
    let Some(line) = text.lines().find_map(|line| line.trim().strip_prefix(name)) else { return Ok(None) };
    let words: Vec<&str> = line.split([' ', ',']).filter(|it| !it.is_empty()).collect();
    let count = |kind: &str| {
        let at = words.iter().position(|word| word.eq_ignore_ascii_case(kind));
        at.and_then(|at| figure(words.get(at.checked_sub(1)?)?)).ok_or_else(|| missing(kind))
    };
    Ok(Some(Counts {
        reads: count("read")?,
        writes: count("write")?,
        flushes: count("other").unwrap_or(0.0),
    }))
}

fn missing(what: &str) -> ForeignError {
    ForeignError::Malformed(format!("it does not say '{what}': it is not whole"))
}

/// Reads and writes as a version tells them.
fn rates(
    text: &str,
    counts: Option<&Counts>,
    seconds: Option<f64>,
) -> Result<(Direction, Direction), ForeignError> {
    let line = |name: &str| text.lines().find_map(|line| line.trim().strip_prefix(name));
    let made = |iops: f64, mib: f64| Direction { iops, bytes_per_sec: mib * MIB, ..Direction::default() };
    if let Some(counts) = counts {
        let seconds = seconds.filter(|it| *it > 0.0).ok_or_else(|| missing("total time:"))?;
        let moved = |before: &str| {
            let cell = text.split_once(before).and_then(|(_, rest)| rest.split_whitespace().next());
            cell.and_then(bytes_of).map_or(0.0, |bytes| bytes as f64)
        };
        let part = |count: f64, before: &str| made(count / seconds, moved(before) / seconds / MIB);
        return Ok((part(counts.reads, "\nRead "), part(counts.writes, "Written ")));
    }
    let newer = |name: &str| line(name).filter(|rest| rest.contains("IOPS="));
    if let Some((read, write)) = newer("read:").zip(newer("write:")) {
        let part = |text: &str| {
            let mut numbers = text.split_once("IOPS=").map_or("", |(_, rest)| rest).split_whitespace();
            let iops = numbers.next().and_then(figure).ok_or_else(|| missing("IOPS="))?;
            Ok(made(iops, numbers.next().and_then(figure).unwrap_or(0.0)))
        };
        return Ok((part(read)?, part(write)?));
    }
    let of = |name: &str| line(name).and_then(number_in);
    let part =
        |name: &str, moved: &str| Ok(made(of(name).ok_or_else(|| missing(name))?, of(moved).unwrap_or(0.0)));
    Ok((part("reads/s:", "read, MiB/s:")?, part("writes/s:", "written, MiB/s:")?))
}

/// Flushes a second, as a version tells them.
fn flushes(text: &str, counts: Option<&Counts>, seconds: Option<f64>) -> f64 {
    let line = |name: &str| text.lines().find_map(|line| line.trim().strip_prefix(name));
    let newer = || number_in(line("fsync:")?.split_once("IOPS=")?.1);
    let counted = || Some(counts?.flushes / seconds.filter(|it| *it > 0.0)?);
    line("fsyncs/s:").and_then(number_in).or_else(newer).or_else(counted).unwrap_or(0.0)
}

/// Whether an output begins with `line`.
fn begins(line: &str) -> bool {
    line.strip_prefix("sysbench ").is_some_and(|version| version.starts_with(|c: char| c.is_ascii_digit()))
}

/// A log may hold several outputs, those of `prepare` and `cleanup` among them.
pub(super) fn tests(text: &str) -> Result<Vec<Test>, ForeignError> {
    let lines: Vec<&str> = text.lines().map(|line| line.trim_end_matches('\r')).collect();
    let outputs: Vec<String> = lines.chunk_by(|_, next| !begins(next)).map(|it| it.join("\n")).collect();
    let ran = |output: &&String| {
        ["\nDoing ", "File operations:", "Operations performed:"].iter().any(|mark| output.contains(mark))
    };
    let of_runs: Vec<&String> = outputs.iter().filter(ran).collect();
    if of_runs.len() < 2 {
        return Ok(vec![of_output(of_runs.first().map_or(text, |it| it.as_str()))?]);
    }
    (1..).zip(of_runs).map(|(number, output)| in_output(number, of_output(output))).collect()
}

/// Says which of several outputs is wrong.
fn in_output(number: usize, read: Result<Test, ForeignError>) -> Result<Test, ForeignError> {
    read.map_err(|error| match error {
        ForeignError::Malformed(why) => ForeignError::Malformed(format!("output {number}: {why}")),
        empty @ ForeignError::Empty => empty,
    })
}

fn of_output(text: &str) -> Result<Test, ForeignError> {
    let line = |name: &str| text.lines().find_map(|line| line.trim().strip_prefix(name));
    let of = |name: &str| line(name).and_then(number_in);
    let seconds = of("total time:").or_else(|| of("time elapsed:"));
    let counts = counts(text)?;
    let (read, write) = rates(text, counts.as_ref(), seconds)?;
    let ms = |name: &str| of(name).filter(|it| *it > 0.0);
    let events = ms("total number of events:");
    // The mean is printed with two digits: their sum says more, and in 0.4 and 0.5 the time in all of them, in seconds.
    let of_version_04 = || ms("total time taken by event execution:").map(|seconds| seconds * 1e3);
    let sum_ms = ms("sum:").or_else(of_version_04);
    let of_sum = sum_ms.zip(events).map(|(sum, events)| (sum / events * 1e6).round() / 1e6);
    let mean_ms = of_sum.or_else(|| ms("avg:"));
    if line("avg:").is_none() {
        let problem = "it does not say 'avg:' of the latency: it is not whole".to_owned();
        return Err(ForeignError::Malformed(problem));
    }
    let mode = line("Doing ").and_then(|rest| rest.strip_suffix(" test"));
    let version = text.lines().find_map(|line| line.strip_prefix("sysbench ")).unwrap_or("");
    let is_synchronous = !text.contains("Using asynchronous I/O mode");
    // `--percentile` says which.
    let percentiles_ms: Vec<(f64, f64)> = [(90.0, "90th"), (95.0, "95th"), (99.0, "99th")]
        .into_iter()
        .filter_map(|(pct, name)| {
            // 0.4 and 0.5 have `approx.  95 percentile:`.
            let older = || ms(&format!("approx.  {} percentile:", name.trim_end_matches("th")));
            Some((pct, ms(&format!("{name} percentile:")).or_else(older)?))
        })
        .collect();
    let flushes_per_s = flushes(text, counts.as_ref(), seconds);
    let is_of_moved = counts.as_ref().is_some_and(|it| {
        let moved = it.reads + it.writes;
        events.is_none_or(|events| events < moved + it.flushes / 2.0)
    });
    let has_flushes = flushes_per_s > 0.0 && !is_of_moved;
    let all =
        Direction { mean_ms, min_ms: ms("min:"), max_ms: ms("max:"), percentiles_ms, ..Direction::default() };
    let test = Test {
        name: mode.unwrap_or("fileio").to_owned(),
        version: version.split([' ', ':']).next().unwrap_or("").to_owned(),
        seconds,
        requests: counts.map(|it| it.reads + it.writes + it.flushes).or(events),
        iodepth: of("Number of threads:").filter(|_| is_synchronous).map(|threads| threads as u32),
        block_bytes: line("Block size ").and_then(bytes_of),
        random_pct: mode.map(|mode| if mode.contains("random") { 100 } else { 0 }),
        read,
        write,
        flushes_per_s,
        together: has_flushes.then(|| all.clone()),
        all: if has_flushes { Direction::default() } else { all },
        ..Test::default()
    };
    Ok(test)
}
