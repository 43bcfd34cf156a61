//! Latencies that tracers of the kernel print: `biolatency` of bcc and bpftrace, and `biosnoop` of bpftrace.
//!
//! ```text
//!      usecs           : count     distribution              bcc; 'disk = sda' or 'flags = Read' may stand above
//!        128 -> 255    : 12       |********        |
//! @usecs:                                                    bpftrace
//! [256, 512)             2 |@                      |
//! TIME(ms)     DISK    COMM             PID    LAT(ms)       bpftrace's biosnoop: no kinds, no places, whole milliseconds; of old without DISK
//! ```
//! A histogram is a run with curve and bins of the whole latency at its classes' ends, as of Iometer; a mean is told of none. Those of a biosnoop are a run
//! for each disk. Neither tells kinds or lengths of requests, and only biosnoop how long it looked.
//!
//! Source: bcc, `tools/biolatency.py`; bpftrace, `tools/biolatency.bt`, `tools/biosnoop.bt`.

use super::{ForeignError, ForeignResults, ForeignRun, figure, set_classes, target_of};
use raidlab_units::Iops;
use raidlab_workload::{Metric, RunResult, World};
use std::collections::BTreeMap;

/// Whether `text` is what such a tracer prints.
pub fn is_latency_table(text: &str) -> bool {
    text.lines().take(200).any(|line| Head::of(line).is_some())
}

/// The head of a table.
#[derive(Clone, Debug, PartialEq)]
enum Head {
    /// Classes of bcc, of so many nanoseconds.
    Bcc(u64),
    /// Classes of bpftrace, and what it calls them.
    Bpftrace(u64, String),
    /// A line for each request; versions up to 0.11 of bpftrace do not tell the disk.
    Biosnoop { has_disk: bool },
}

impl Head {
    fn of(line: &str) -> Option<Self> {
        let line = line.trim();
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let unit = |word: &str| match word {
            "nsecs" => Some(1),
            "usecs" => Some(1000),
            "msecs" => Some(1_000_000),
            _ => None,
        };
        match words[..] {
            [name, ":", "count", "distribution"] => unit(name).map(Self::Bcc),
            ["TIME(ms)", "DISK", "COMM", "PID", "LAT(ms)"] => Some(Self::Biosnoop { has_disk: true }),
            ["TIME(ms)", "COMM", "PID", "LAT(ms)"] => Some(Self::Biosnoop { has_disk: false }),
            _ => {
                let name = line.strip_prefix('@')?.strip_suffix(':')?;
                let (name, key) = name.split_once('[').unwrap_or((name, ""));
                Some(Self::Bpftrace(unit(name)?, key.trim_end_matches(']').to_owned()))
            }
        }
    }
}

/// A number of bpftrace's classes: `512`, `1K`, `2M`.
fn bound(text: &str) -> Option<f64> {
    let text = text.trim();
    let factor = match text.chars().last()? {
        'K' => 1024.0,
        'M' => 1_048_576.0,
        'G' => 1_073_741_824.0,
        _ => 1.0,
    };
    Some(figure(text.trim_end_matches(['K', 'M', 'G']))? * factor)
}

/// The end of a class, in the table's unit, and the requests in it.
fn class(head: &Head, line: &str) -> Option<(f64, u64)> {
    let count = |text: &str| text.split_ascii_whitespace().next()?.parse::<u64>().ok();
    match head {
        Head::Bcc(_) => {
            let (range, rest) = line.split_once(" : ")?;
            let (_, end) = range.split_once("->")?;
            Some((figure(end)? + 1.0, count(rest)?))
        }
        Head::Bpftrace(..) => {
            let (range, rest) = line.trim().strip_prefix(['[', '('])?.split_once([')', ']'])?;
            let end = range.split_once(',').map_or(range, |(_, end)| end);
            // The last may have no end: `[64M, ...)`.
            Some((bound(end)?, count(rest)?))
        }
        Head::Biosnoop { .. } => None,
    }
}

/// Whose requests a table is of, where it tells.
#[derive(Clone, Debug, Default)]
struct Traced {
    disk: String,
    /// What kind they are, as the kernel flags them (`biolatency -F`).
    flags: String,
}

/// A run of a table: the ends of its classes in nanoseconds, with their requests.
fn run_of(of: &Traced, classes: &BTreeMap<u64, u64>, program: &str) -> Option<RunResult> {
    let requests: u64 = classes.values().sum();
    if requests == 0 {
        return None;
    }
    let workload = match of.flags.as_str() {
        "" => "traced requests".to_owned(),
        flags => format!("traced requests, {flags}"),
    };
    let target = target_of(&of.disk, program);
    let mut run = RunResult::unmeasured(World::Measured, target, workload, Metric::Iops);
    run.ops.total.requests = requests;
    let classes: Vec<(u64, u64)> = classes.iter().map(|(end, requests)| (*end, *requests)).collect();
    set_classes(&mut run.ops.total, &classes);
    run.settings.insert("measured by".into(), program.to_owned());
    Some(run)
}

/// Reads what such a tracer printed.
///
/// # Errors
/// [`ForeignError`]: a line of biosnoop that is none, no requests.
pub fn latency_tables(text: &str) -> Result<ForeignResults, ForeignError> {
    let mut runs = Vec::new();
    let mut snooped = Snooped::default();
    let (mut head, mut traced, mut classes) = (None, Traced::default(), BTreeMap::new());
    let mut end_table = |of: &Traced, classes: &mut BTreeMap<u64, u64>| {
        let run = run_of(of, &std::mem::take(classes), "biolatency");
        runs.extend(run.map(|mut run| {
            let kinds = if of.flags.is_empty() { "kinds and lengths" } else { "lengths" };
            run.settings.insert("lacks".into(), HISTOGRAM_LACKS.replace("kinds and lengths", kinds));
            run
        }));
    };
    for (number, line) in (1..).zip(text.lines()) {
        if let Some(found) = Head::of(line) {
            end_table(&traced, &mut classes);
            if let Head::Bpftrace(_, key) = &found {
                traced.disk.clone_from(key);
            }
            head = Some(found);
            continue;
        }
        let told = line.split_once(" = ").map(|(what, told)| (what.trim(), told.trim()));
        if let Some((what @ ("disk" | "flags"), told)) = told {
            end_table(&traced, &mut classes);
            let place = if what == "disk" { &mut traced.disk } else { &mut traced.flags };
            told.trim_start_matches("b'").trim_matches('\'').clone_into(place);
            continue;
        }
        match &head {
            Some(Head::Biosnoop { has_disk }) if !line.trim().is_empty() => {
                snooped.line(number, line, *has_disk)?;
            }
            Some(head @ (Head::Bcc(unit) | Head::Bpftrace(unit, _))) => {
                if let Some((end, requests)) = class(head, line) {
                    *classes.entry((end * *unit as f64) as u64).or_insert(0) += requests;
                }
            }
            _ => {}
        }
    }
    end_table(&traced, &mut classes);
    runs.extend(snooped.runs());
    if runs.is_empty() {
        return Err(ForeignError::Empty);
    }
    let program =
        if matches!(head, Some(Head::Biosnoop { .. })) { "biosnoop" } else { "biolatency" }.to_owned();
    let runs = runs.into_iter().map(|run| ForeignRun { run, started_at_unix_ms: None }).collect();
    Ok(ForeignResults { title: "traced requests".into(), program, runs, notes: Vec::new() })
}

const HISTOGRAM_LACKS: &str = "the course over time; kinds and lengths of requests; the length of the run, and so rates; percentiles; the mean, \
                               the shortest and the longest latency; the queue depth";
const SNOOPED_LACKS: &str = "the course over time; kinds and lengths of requests; parts of a millisecond; percentiles; the queue depth";

/// Lines of bpftrace's biosnoop, by disk: milliseconds, and the first and last time.
#[derive(Default)]
struct Snooped {
    by_disk: BTreeMap<String, (Vec<u64>, u64, u64)>,
}

impl Snooped {
    fn line(&mut self, number: usize, line: &str, has_disk: bool) -> Result<(), ForeignError> {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let parsed = || {
            // A command may have blanks.
            let (time, latency) = (words.first()?.parse().ok()?, words.last()?.parse().ok()?);
            let least = if has_disk { 5 } else { 4 };
            (words.len() >= least).then(|| (time, if has_disk { words[1] } else { "" }, latency))
        };
        let Some((time_ms, disk, latency_ms)): Option<(u64, &str, u64)> = parsed() else {
            let shown: String = line.chars().take(60).filter(|c| !c.is_control()).collect();
            return Err(ForeignError::Malformed(format!("line {number} is no request: '{shown}'")));
        };
        let of = self.by_disk.entry(disk.to_owned()).or_insert_with(|| (Vec::new(), time_ms, time_ms));
        of.0.push(latency_ms);
        (of.1, of.2) = (of.1.min(time_ms), of.2.max(time_ms));
        Ok(())
    }

    fn runs(self) -> impl Iterator<Item = RunResult> {
        self.by_disk.into_iter().filter_map(|(disk, (latencies, from_ms, to_ms))| {
            let mut classes = BTreeMap::new();
            for ms in &latencies {
                *classes.entry(ms.saturating_mul(1_000_000)).or_insert(0) += 1;
            }
            let traced = Traced { disk, flags: String::new() };
            let mut run = run_of(&traced, &classes, "biosnoop")?;
            let total = &mut run.ops.total;
            let count = latencies.len() as f64;
            total.lat_ns_mean = latencies.iter().map(|ms| *ms as f64).sum::<f64>() / count * 1e6;
            total.lat_ns_max = latencies.iter().max().map_or(0, |ms| ms.saturating_mul(1_000_000));
            let window_ms = to_ms - from_ms;
            if window_ms > 0 {
                total.iops = Iops(count * 1000.0 / window_ms as f64);
                run.window_ns = window_ms.saturating_mul(1_000_000);
            }
            let lacks = if traced.disk.is_empty() { "; which disk it was" } else { "" };
            run.settings.insert("lacks".into(), [SNOOPED_LACKS, lacks].concat());
            Some(run)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BCC: &str = "Tracing block device I/O... Hit Ctrl-C to end.\n^C\n\ndisk = b'vda'\n     usecs               : count     distribution\n\
                       \x20        0 -> 1          : 0        |    |\n       128 -> 255        : 10       |*** |\n       256 -> 511        : 30       |****|\n";
    const BPFTRACE: &str = "Attaching 3 probes...\n^C\n\n@usecs: \n[256, 512)             2 |   |\n[512, 1K)             10 |@  |\n[1K, 2K)              28 |@@@|\n";
    const BIOSNOOP: &str = "Attaching 5 probes...\nTIME(ms)     DISK    COMM             PID    LAT(ms)\n\
                            611          nvme0n1 bash             4179         10\n611          nvme0n1 a b              4179          0\n\
                            627          nvme0n1 cksum            4179         14\n";

    fn run(text: &str) -> RunResult {
        assert!(is_latency_table(text));
        latency_tables(text).expect("it is one").runs.swap_remove(0).run
    }

    #[test]
    fn classes_are_a_curve_and_nothing_is_guessed() {
        let it = run(BCC);
        let curve: Vec<(f64, u64)> = it.ops.total.lat_curve.iter().map(|it| (it.pct, it.lat_ns)).collect();
        assert_eq!(
            (it.target.as_str(), curve),
            ("vda (biolatency)", vec![(25.0, 256_000), (100.0, 512_000)])
        );
        assert_eq!((it.ops.total.requests, it.ops.total.lat_ns_p50, it.ops.total.iops.0), (40, 0, 0.0));
        // Exports have the bins, and what is shown the classes.
        let bins: Vec<(u64, u64)> = it.ops.total.lat_bins.iter().map(|it| (it.lat_ns, it.requests)).collect();
        assert_eq!(bins, [(256_000, 10), (512_000, 30)]);
        let options = crate::terminal::TerminalOptions { width: 80, colour: false };
        let shown = crate::terminal::run(&it, options);
        let rows: Vec<Vec<&str>> = shown.lines().map(|line| line.split_whitespace().collect()).collect();
        for row in [["0.256", "10", "25.00", "25.00"], ["0.512", "30", "75.00", "100.00"]] {
            assert!(rows.iter().any(|it| **it == row), "{shown}");
        }
        let it = run(BPFTRACE);
        let curve: Vec<(f64, u64)> = it.ops.total.lat_curve.iter().map(|it| (it.pct, it.lat_ns)).collect();
        assert_eq!(curve, [(5.0, 512_000), (30.0, 1_024_000), (100.0, 2_048_000)]);
    }

    #[test]
    fn flags_are_kinds_of_requests_and_no_devices() {
        let table = &BCC[BCC.find("     usecs").unwrap()..];
        let text = format!("flags = Read\n{table}\nflags = Sync-Write\n{table}");
        let runs = latency_tables(&text).expect("it is one").runs;
        let told: Vec<_> = runs.iter().map(|it| (it.run.target.as_str(), it.run.workload.as_str())).collect();
        let target = "storage (biolatency)";
        assert_eq!(told, [(target, "traced requests, Read"), (target, "traced requests, Sync-Write")]);
        assert!(!runs[0].run.settings["lacks"].contains("kinds"), "{}", runs[0].run.settings["lacks"]);
    }

    #[test]
    fn a_biosnoop_without_places_is_no_trace_but_latencies() {
        let it = run(BIOSNOOP);
        assert_eq!(
            (it.target.as_str(), it.ops.total.requests, it.ops.total.lat_ns_mean),
            ("nvme0n1 (biosnoop)", 3, 8e6)
        );
        assert_eq!((it.ops.total.lat_ns_max, it.window_ns), (14_000_000, 16_000_000));
        let cut = latency_tables(&format!("{BIOSNOOP}627 nvme\n")).expect_err("cut").to_string();
        assert_eq!(cut, "line 6 is no request: '627 nvme'");
        // Of old it does not tell the disk.
        let old = BIOSNOOP.replace("DISK    ", "").replace("nvme0n1 ", "");
        let it = run(&old);
        assert_eq!((it.target.as_str(), it.ops.total.lat_ns_mean), ("storage (biosnoop)", 8e6));
        assert!(it.settings["lacks"].ends_with("; which disk it was"), "{}", it.settings["lacks"]);
        assert!(!is_latency_table("TIME(s) COMM PID DISK T SECTOR BYTES LAT(ms)"));
    }
}
