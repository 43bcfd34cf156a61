//! What fio prints while it runs (`--status-interval`): reports of one fio, of which the last counts.
//!
//! | reports of one fio | runs one after the other |
//! |---|---|
//! | the same jobs in the same order | too, often |
//! | the same start, which is the time of the report less `elapsed` | another start |
//! | no figure of a job falls, but at the end of its `ramp_time` | figures begin again |
//!
//! Terse output has no clock. There, what a job moved more it moved in more time, at no rate far from its mean, and its least and greatest
//! latency include those before.

use super::ForeignError;
use super::fio::number;
use serde_json::Value;

/// What clocks of whole seconds may differ by.
const DIFFERENCE_MS: f64 = 2000.0;
/// What has run longer by then is told apart from the next run by its start alone.
const TOLD_BY_START_S: f64 = 4.0;
/// How far the rate since the report before may be above the mean.
const RATE_MAX: f64 = 10.0;
/// What one of two reports without a clock is later by: fio's shortest interval is a second, and an end may come earlier.
const LATER_MS: f64 = 500.0;
const OPS: [&str; 4] = ["read", "write", "trim", "mixed"];

/// Whether `earlier` is what fio had until then of the run whose later figures are `later`.
pub(super) fn is_snapshot(earlier: &Value, later: &Value) -> bool {
    let (before, after) = (jobs(earlier), jobs(later));
    let is_alike = |(one, other): (&Value, &Value)| {
        ["jobname", "groupid", "job options"].iter().all(|name| one.get(name) == other.get(name))
    };
    let is_ours = earlier["fio version"].as_str().is_some_and(|program| program.starts_with("raidlab-"));
    if is_ours
        || before.is_empty()
        || before.len() != after.len()
        || earlier.get("fio version") != later.get("fio version")
        || !before.iter().zip(after).all(is_alike)
    {
        return false;
    }
    match (start_ms(earlier), start_ms(later)) {
        (Some(one), Some(other)) if (one - other).abs() >= DIFFERENCE_MS => false,
        (Some(_), Some(_)) => {
            let has_ramp = [earlier.get("global options"), before[0].get("job options")]
                .iter()
                .any(|options| options.is_some_and(|options| options.get("ramp_time").is_some()));
            let is_long = elapsed_s(earlier) >= TOLD_BY_START_S;
            has_ramp || if is_long { is_kept(before, after) } else { grown_ms(before, after).is_some() }
        }
        _ => before == after || grown_ms(before, after).is_some_and(|ms| ms > 0.0),
    }
}

/// The reports that are in `jobs`, which stand one behind the other without a word of where one ends: the shortest order of jobs that comes
/// again and again, with figures that go on or begin again. One report where there is none.
///
/// # Errors
/// [`ForeignError::Malformed`] where the last of them lacks jobs.
pub(super) fn reports(jobs: Vec<Value>) -> Result<Vec<Vec<Value>>, ForeignError> {
    let names = |jobs: &[Value]| jobs.iter().map(|job| job["jobname"].clone()).collect::<Vec<_>>();
    let is_period = |jobs: &[Value], count: usize| {
        let mut grew_ms = None;
        let pairs = jobs.chunks(count).zip(jobs.chunks(count).skip(1));
        jobs.len().is_multiple_of(count)
            && pairs.into_iter().all(|(before, after)| {
                let more_ms = grown_ms(before, after);
                grew_ms = grew_ms.max(more_ms.map(|ms| ms as u64));
                let begins_again = longest_ms(before) - longest_ms(after) >= LATER_MS;
                names(before) == names(after) && (more_ms.is_some() || begins_again)
            })
            && grew_ms.is_some_and(|ms| ms as f64 >= LATER_MS)
    };
    if let Some(count) = (1..=jobs.len() / 2).find(|count| is_period(&jobs, *count)) {
        return Ok(jobs.chunks(count).map(<[Value]>::to_vec).collect());
    }
    let is_cut = |count: &usize| {
        let (whole, rest) = jobs.split_at(jobs.len() / count * count);
        is_period(whole, *count) && names(&whole[..rest.len()]) == names(rest)
    };
    match (2..=jobs.len() / 2).find(is_cut) {
        Some(count) => Err(ForeignError::Malformed(format!(
            "its last report has {} of {count} jobs: it is cut off; leave out what there is of that report",
            jobs.len() % count
        ))),
        None => Ok(vec![jobs]),
    }
}

fn jobs(root: &Value) -> &[Value] {
    root.get("jobs").and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn elapsed_s(root: &Value) -> f64 {
    jobs(root).iter().map(|job| number(job, "elapsed")).fold(0.0, f64::max)
}

/// When fio began, in milliseconds since 1970; none where it tells no time.
fn start_ms(root: &Value) -> Option<f64> {
    let at = [number(root, "timestamp_ms"), number(root, "timestamp") * 1000.0]
        .into_iter()
        .find(|ms| *ms > 0.0)?;
    Some(elapsed_s(root)).filter(|seconds| *seconds > 0.0).map(|seconds| at - seconds * 1000.0)
}

/// What a job moved in one direction, in the unit that fio has, and the time that it took.
fn moved(job: &Value, op: &str) -> (f64, f64) {
    let Some(of) = job.get(op) else { return (0.0, 0.0) };
    // Terse output has no requests: those that its JSON has are figures of its rate.
    let name = ["io_bytes", "io_kbytes", "total_ios"].into_iter().find(|name| of.get(*name).is_some());
    (name.map_or(0.0, |name| number(of, name)), number(of, "runtime"))
}

fn longest_ms(jobs: &[Value]) -> f64 {
    let all = jobs.iter().flat_map(|job| OPS.map(|op| moved(job, op).1));
    all.fold(0.0, f64::max)
}

/// Each job and direction before and after.
fn pairs<'a>(
    before: &'a [Value],
    after: &'a [Value],
) -> impl Iterator<Item = (&'static str, &'a Value, &'a Value)> {
    before.iter().zip(after).flat_map(|(one, other)| OPS.map(|op| (op, one, other)))
}

/// Whether no figure fell.
fn is_kept(before: &[Value], after: &[Value]) -> bool {
    pairs(before, after).all(|(op, one, other)| {
        let ((bytes, ms), (bytes_then, ms_then)) = (moved(one, op), moved(other, op));
        bytes <= bytes_then && ms <= ms_then
    })
}

/// How much longer the jobs had run that moved more, in ms; none where figures fell, or grew as those of one run don't.
fn grown_ms(before: &[Value], after: &[Value]) -> Option<f64> {
    let mut longest = 0.0_f64;
    for (op, one, other) in pairs(before, after) {
        let ((bytes, ms), (bytes_then, ms_then)) = (moved(one, op), moved(other, op));
        let (more, more_ms) = (bytes_then - bytes, ms_then - ms);
        let is_likely = more * ms_then <= RATE_MAX * bytes_then * more_ms;
        if more < 0.0 || more_ms < 0.0 || !is_likely || (bytes > 0.0 && !are_within(one, other, op)) {
            return None;
        }
        if more > 0.0 {
            longest = longest.max(more_ms);
        }
    }
    Some(longest)
}

/// Whether the latencies of `one` are between the ends of those of `other`.
fn are_within(one: &Value, other: &Value, op: &str) -> bool {
    let ends = |job: &Value| {
        let lat = ["lat_ns", "lat"].iter().find_map(|name| job.get(op)?.get(name)).unwrap_or(&Value::Null);
        (number(lat, "min"), number(lat, "max"))
    };
    let ((least, most), (least_then, most_then)) = (ends(one), ends(other));
    least_then <= least && most <= most_then
}

#[cfg(test)]
mod tests {
    use crate::import::fio;
    use serde_json::{Value, json};

    /// Requests of 4 KiB and milliseconds of reads, of a job.
    type Read = (&'static str, u64, u64);

    fn report(clock: &Value, jobs: &[Read]) -> String {
        let job = |(name, ios, ms): &Read| {
            let rate = *ios as f64 * 1000.0 / (*ms).max(1) as f64;
            let lat =
                json!({ "min": 90_000 - ms, "max": 90_000 + ms, "mean": 90_000, "stddev": 1, "N": ios });
            let read = json!({ "io_bytes": ios * 4096, "bw_bytes": rate * 4096.0, "iops": rate, "runtime": ms, "total_ios": ios,
                "lat_ns": lat });
            json!({ "jobname": name, "groupid": 0, "error": 0, "elapsed": clock["elapsed"], "job options": { "rw": "randread" },
                "read": read, "write": { "io_bytes": 0, "bw_bytes": 0, "iops": 0, "runtime": 0, "total_ios": 0 } })
        };
        let jobs: Vec<Value> = jobs.iter().map(job).collect();
        let mut root = json!({ "fio version": "fio-3.33", "jobs": jobs });
        for name in ["timestamp", "timestamp_ms", "global options"] {
            if let Some(value) = clock.get(name) {
                root[name] = value.clone();
            }
        }
        root.to_string()
    }

    /// The requests of each run that counts.
    fn counted(reports: &[String]) -> Vec<u64> {
        fio(&reports.concat()).unwrap().runs.iter().map(|it| it.run.ops.total.requests).collect()
    }

    /// Reports of fio 3.33 while it ran. The start of each job was taken for its time less its runtime, which moves when it ended or did not begin.
    #[test]
    fn jobs_that_begin_and_end_at_other_times_are_reports_of_one_fio() {
        let at = |ms: u64, elapsed: u64| json!({ "timestamp_ms": ms, "elapsed": elapsed });
        let one_by_one = [
            report(&at(57_601_744, 2), &[("one", 170, 844), ("two", 0, 0)]),
            report(&at(57_602_745, 3), &[("one", 370, 1847), ("two", 0, 0)]),
            report(&at(57_603_747, 4), &[("one", 571, 2846), ("two", 0, 0)]),
            report(&at(57_604_744, 5), &[("one", 600, 3001), ("two", 120, 594)]),
            report(&at(57_607_202, 7), &[("one", 600, 3001), ("two", 600, 3001)]),
        ];
        assert_eq!(counted(&one_by_one), [600, 600]);
        let ends_first = [
            report(&at(57_611_208, 3), &[("one", 397, 1849), ("two", 368, 1853)]),
            report(&at(57_612_074, 4), &[("one", 400, 2008), ("two", 571, 2853)]),
            report(&at(57_614_076, 6), &[("one", 400, 2008), ("two", 972, 4853)]),
            report(&at(57_614_274, 6), &[("one", 400, 2008), ("two", 1000, 5002)]),
        ];
        assert_eq!(counted(&ends_first), [400, 1000]);
        // fio 2 has whole seconds.
        let at = |s: u64, elapsed: u64| json!({ "timestamp": s, "elapsed": elapsed });
        let second =
            [report(&at(1000, 6), &[("r", 10_000, 5000)]), report(&at(1005, 11), &[("r", 20_000, 10_000)])];
        assert_eq!(counted(&second), [20_000]);
        let ramp = |ms: u64, elapsed: u64| json!({ "timestamp_ms": ms, "elapsed": elapsed, "global options": { "ramp_time": "2" } });
        let ramped = [
            report(&ramp(53_692, 2), &[("one", 187, 1860)]),
            report(&ramp(54_840, 4), &[("one", 101, 999)]),
            report(&ramp(56_859, 6), &[("one", 300, 3001)]),
        ];
        assert_eq!(counted(&ramped), [300]);
    }

    #[test]
    fn runs_one_after_the_other_are_runs() {
        let at = |ms: u64, elapsed: u64| json!({ "timestamp_ms": ms, "elapsed": elapsed });
        let none = || json!({ "elapsed": 0 });
        let rows = [
            // Each has moved more than the one before.
            vec![
                report(&at(50_000, 11), &[("a", 1000, 10_000)]),
                report(&at(70_000, 21), &[("a", 2100, 20_000)]),
            ],
            vec![report(&at(50_000, 2), &[("a", 100, 1000)]), report(&at(51_500, 2), &[("a", 110, 1001)])],
            // The first of them reported while it ran.
            vec![report(&at(50_000, 4), &[("a", 900, 3000)]), report(&at(52_000, 2), &[("a", 300, 1000)])],
            vec![report(&none(), &[("a", 1000, 10_000)]), report(&none(), &[("a", 1300, 10_010)])],
            vec![report(&none(), &[("a", 1000, 10_000)]), report(&none(), &[("a", 1000, 10_900)])],
            vec![report(&none(), &[("a", 1000, 10_000)]), report(&none(), &[("b", 2000, 20_000)])],
        ];
        for reports in rows {
            assert_eq!(counted(&reports).len(), 2, "{reports:?}");
        }
    }

    /// A line of terse output of version 3.
    fn terse(name: &str, kib: u64, ms: u64) -> String {
        let points = "0%=0;".repeat(20);
        let read = format!(
            "{kib};800;200;{ms};0;0;0;0;{};{};90000;1;{points}{};{};90000;1;0;0;0;0;0;",
            90 - kib / 100,
            kib,
            90 - kib / 100,
            kib
        );
        format!("3;fio-3.33;{name};0;0;{read}{};{}", "0;".repeat(41), "0;".repeat(20)) + "\n"
    }

    #[test]
    fn lines_of_terse_output_that_go_on_are_reports_of_one_fio() {
        let runs = |lines: &[(&str, u64, u64)]| {
            let text: String = lines.iter().map(|(name, kib, ms)| terse(name, *kib, *ms)).collect();
            fio(&text).unwrap().runs.len()
        };
        let one_fio = [
            ("one", 692, 865),
            ("two", 1384, 862),
            ("one", 1492, 1864),
            ("two", 2984, 1861),
            ("one", 2400, 3001),
            ("two", 4800, 3003),
        ];
        assert_eq!(runs(&one_fio), 2);
        assert_eq!(
            runs(&[&one_fio[..], &one_fio[..]].concat()),
            4,
            "a second one, whose figures begin again"
        );
        let text: String = one_fio[..5].iter().map(|(name, kib, ms)| terse(name, *kib, *ms)).collect();
        let error = fio(&text).unwrap_err().to_string();
        assert!(error.contains("its last report has 1 of 2 jobs: it is cut off"), "{error}");
        let clones = [("a", 692, 865), ("a", 690, 862), ("a", 2400, 3001), ("a", 2404, 3000)];
        assert_eq!(runs(&clones), 2, "of two clones each");
        // Clones that differ by chance, and runs of one length.
        assert_eq!(runs(&[("a", 2400, 3000), ("a", 2401, 3001), ("a", 2402, 3002)]), 3);
        assert_eq!(runs(&[("a", 2400, 3000), ("a", 2900, 3001)]), 2);
        assert_eq!(runs(&[("a", 2400, 3000), ("a", 2400, 3900)]), 2);
    }
}
