//! Verdicts from invented runs.

use super::*;
use raidlab_units::{ByteCount, NanoSpan};
use raidlab_workload::{
    CacheFill, CostFacts, OpSummary, Rng, RunResult, RunSeries, SeriesColumns, Summaries,
};

/// One made-up run on six members: level, policy, depth, IOPS, mean latency in ms, member I/Os per host I/O.
type Row = (&'static str, &'static str, u32, f64, f64, f64);

/// What is shown; the runs; the recommended one with its depth; runner-up; fastest without redundancy.
type Judged = (&'static str, &'static [Row], (&'static str, u32), &'static str, &'static str);

/// A change to runs; a sentence; whether it is said then.
type Explained = (fn(&mut RunResult), &'static str, bool);

const REQUESTS: u64 = 3000;

/// What six members of 100 GB are at each level: usable GB, failures survived always and at best.
fn geometry(level: &str) -> (u64, u16, u16) {
    match level {
        "0" => (600, 0, 0),
        "1" => (100, 5, 5),
        "5" => (500, 1, 1),
        "6" => (400, 2, 2),
        "10" => (300, 1, 3),
        other => panic!("no geometry for RAID {other}"),
    }
}

fn run((level, write_policy, iodepth, iops, lat_ms, member_ios): Row) -> RunResult {
    let (usable_gb, always, at_best) = geometry(level);
    let lat_ns = lat_ms * 1e6;
    let op = |requests: u64, share: f64| OpSummary {
        requests,
        iops: Iops(iops * share),
        bytes_per_sec: BytesPerSec(8192.0 * iops * share),
        lat_ns_mean: lat_ns,
        lat_ns_p99: 3 * lat_ns as u64,
        ..OpSummary::default()
    };
    RunResult {
        array: Some(ArrayFacts {
            level: level.into(),
            members: 6,
            member_kind: "file".into(),
            controller: "raidlab".into(),
            strip_bytes: ByteCount::from_kib(64),
            write_policy: write_policy.into(),
            usable_bytes: ByteCount(usable_gb * 1_000_000_000),
            raw_bytes: ByteCount(600_000_000_000),
            failures_survived_always: always,
            failures_survived_at_best: at_best,
        }),
        iodepth,
        seed: 1,
        window_ns: 1_000_000_000,
        ops: Summaries {
            read: op(REQUESTS * 2 / 3, 2.0 / 3.0),
            write: op(REQUESTS / 3, 1.0 / 3.0),
            total: op(REQUESTS, 1.0),
            ..Summaries::default()
        },
        parts: Vec::new(),
        lag: None,
        cost: CostFacts {
            member_reads: Some((member_ios * REQUESTS as f64) as u64),
            member_writes: Some(0),
            host_reads: Some(REQUESTS * 2 / 3),
            host_writes: Some(REQUESTS / 3),
            ..CostFacts::default()
        },
        ..RunResult::unmeasured(
            World::Array,
            format!("RAID {level}"),
            "storagebench-database".into(),
            Metric::Iops,
        )
    }
}

fn runs(rows: &[Row]) -> Vec<RunResult> {
    rows.iter().copied().map(run).collect()
}

fn only_verdict(runs: &[RunResult]) -> Verdict {
    let mut verdicts = verdicts(runs);
    assert_eq!(verdicts.len(), 1);
    verdicts.remove(0)
}

fn label(choice: Option<&Choice>) -> &str {
    choice.map_or("none", |choice| &choice.label)
}

const WT: &str = "write-through";
const WB: &str = "write-back";

/// Length: a table of cases.
#[test]
fn the_choice_follows_limit_metric_and_price() {
    let table: [Judged; 9] = [
        (
            "the highest metric wins and the level without redundancy is named apart",
            &[
                ("0", WT, 8, 900.0, 9.0, 1.0),
                ("5", WT, 8, 400.0, 19.0, 2.0),
                ("10", WT, 8, 700.0, 11.0, 1.33),
            ],
            ("RAID 10 write-through", 8),
            "RAID 5 write-through",
            "RAID 0 write-through",
        ),
        (
            "the highest depth within the limit is judged, not the highest metric",
            &[
                ("5", WT, 1, 100.0, 10.0, 2.0),
                ("5", WT, 4, 210.0, 19.0, 2.0),
                ("5", WT, 16, 300.0, 53.0, 2.0),
            ],
            ("RAID 5 write-through", 4),
            "none",
            "none",
        ),
        (
            "a latency of exactly the limit is within it, whatever the order of the runs",
            &[("5", WT, 32, 300.0, 20.0, 2.0), ("5", WT, 1, 310.0, 10.0, 2.0)],
            ("RAID 5 write-through", 32),
            "none",
            "none",
        ),
        (
            "without a depth within the limit the lowest is judged, and ranks behind",
            &[("5", WT, 2, 900.0, 25.0, 2.0), ("5", WT, 4, 950.0, 29.0, 2.0), ("6", WT, 2, 50.0, 19.0, 3.0)],
            ("RAID 6 write-through", 2),
            "RAID 5 write-through",
            "none",
        ),
        (
            "within 2% the cheaper level wins",
            &[("10", WB, 8, 1000.0, 8.0, 1.0), ("5", WB, 8, 981.0, 8.0, 1.0), ("6", WB, 8, 999.0, 8.0, 1.0)],
            ("RAID 5 write-back", 8),
            "RAID 10 write-back",
            "none",
        ),
        (
            "beyond 2% the faster one wins",
            &[("10", WB, 8, 1000.0, 8.0, 1.0), ("5", WB, 8, 979.0, 8.0, 1.0)],
            ("RAID 10 write-back", 8),
            "RAID 5 write-back",
            "none",
        ),
        (
            "of equals at one level write-through wins, and the runner-up is another level",
            &[
                ("10", WB, 8, 1000.0, 8.0, 1.0),
                ("10", WT, 8, 995.0, 8.0, 1.0),
                ("5", WB, 8, 500.0, 16.0, 1.0),
            ],
            ("RAID 10 write-through", 8),
            "RAID 5 write-back",
            "none",
        ),
        (
            "with one level the other policy is the runner-up",
            &[("5", WB, 8, 1000.0, 8.0, 1.0), ("5", WT, 8, 200.0, 8.0, 2.0)],
            ("RAID 5 write-back", 8),
            "RAID 5 write-through",
            "none",
        ),
        (
            "of three runs at one depth the middle one counts",
            &[
                ("5", WT, 8, 100.0, 8.0, 2.0),
                ("5", WT, 8, 900.0, 8.0, 2.0),
                ("5", WT, 8, 300.0, 8.0, 2.0),
                ("6", WT, 8, 400.0, 8.0, 3.0),
            ],
            ("RAID 6 write-through", 8),
            "RAID 5 write-through",
            "none",
        ),
    ];
    for (what, rows, (best, iodepth), runner_up, exposed) in table {
        let verdict = only_verdict(&runs(rows));
        assert_eq!(label(verdict.recommended.as_ref()), best, "{what}");
        assert_eq!(verdict.recommended.as_ref().unwrap().iodepth, iodepth, "{what}");
        assert_eq!(label(verdict.runner_up.as_ref()), runner_up, "{what}");
        assert_eq!(label(verdict.fastest_without_redundancy.as_ref()), exposed, "{what}");
    }
}

#[test]
fn small_writes_are_explained_by_what_was_counted() {
    let verdict = only_verdict(&runs(&[
        ("0", WT, 8, 900.0, 9.0, 1.0),
        ("6", WT, 8, 300.0, 19.0, 2.667),
        ("5", WT, 8, 400.0, 19.0, 2.0),
        ("10", WT, 8, 700.0, 11.0, 1.334),
        ("10", WB, 8, 1050.0, 7.0, 1.334),
    ]));
    assert_eq!(
        verdict.reason,
        "RAID 10 write-back delivers 1050 IOPS at 8 in flight, the highest load run that stays within a mean of 20.0 ms \
         (mean 7.00 ms, p99 21.0 ms); the runner-up, RAID 5 write-through, delivers 400 IOPS at 8 in flight \
         (a factor of 2.62 behind). \
         It leaves 300 GB usable, 50% of the members' space with any 1 failed and 3 at best, \
         against RAID 5 83% of the members' space with any 1 failed, RAID 6 67% of the members' space with any 2 failed. \
         A write within a strip costs so many member I/Os: RAID 10 2, RAID 0 1, RAID 5 4, RAID 6 6 \
         (mirrors write every copy, parity is read and written along with the data); counted member I/Os per host I/O: \
         1.33 for RAID 10 write-back, 1.00 for RAID 0 write-through, 2.00 for RAID 5 write-through, \
         2.67 for RAID 6 write-through. \
         At this level write-back delivers 1.50 times what write-through does: it acknowledges a write once the cache \
         has it, so the cache needs its battery. \
         Without redundancy RAID 0 write-through delivers 900 IOPS, 0.86 times as much, and loses data with the first \
         failed member. \
         Not all were run more than once, and only repeats tell a lead from chance."
    );
}

#[test]
fn the_mechanism_named_is_the_one_that_the_counts_show() {
    let rows = [("5", WB, 8, 1000.0, 8.0, 0.4), ("10", WB, 8, 700.0, 11.0, 1.33)];
    let reading =
        |run: &mut RunResult| (run.cost.host_reads, run.cost.host_writes) = (Some(REQUESTS), Some(0));
    let long = |run: &mut RunResult| run.ops.total.bytes_per_sec.0 *= 16.0;
    let uncounted = |run: &mut RunResult| run.cost.member_reads = None;
    let changes: [Explained; 4] = [
        (
            |_| (),
            "The cache gathers writes: alone, each would have cost RAID 5 write-back 2.00 member I/Os per host I/O, not 0.40; counted",
            true,
        ),
        (
            reading,
            "Reads need no parity work at any level, so what counts is how many members share them; counted",
            true,
        ),
        (long, "The requests are longer than a strip, so each keeps several members busy; counted", true),
        (uncounted, "counted member I/Os", false),
    ];
    for (change, sentence, is_said) in changes {
        let mut runs = runs(&rows);
        runs.iter_mut().for_each(change);
        let reason = only_verdict(&runs).reason;
        assert_eq!(reason.contains(sentence), is_said, "{sentence:?} in {reason:?}");
    }
}

#[test]
fn parity_ahead_of_mirroring_is_explained() {
    let reason = |own: f64| {
        only_verdict(&runs(&[("5", WB, 8, 1000.0, 8.0, own), ("10", WB, 8, 700.0, 11.0, 1.33)])).reason
    };
    assert!(reason(0.4).contains(
        "Why is parity ahead of mirroring (RAID 10 write-back)? Its writes fill whole stripes, 0.40 member I/Os per host I/O \
         against 1.33, and a stripe of 6 members carries 5 strips of data, not 3."
    ));
    assert!(reason(2.0).contains("Not by its member I/Os"), "{}", reason(2.0));
    let mirror =
        only_verdict(&runs(&[("5", WB, 8, 700.0, 8.0, 0.4), ("10", WB, 8, 1000.0, 11.0, 1.33)])).reason;
    assert!(!mirror.contains("Why is"), "{mirror}");
    let through = only_verdict(&runs(&[("5", WT, 8, 1000.0, 8.0, 0.4)])).reason;
    assert!(through.contains("gathered into stripes") && !through.contains("The cache gathers"), "{through}");
}

#[test]
fn what_repeats_do_not_tell_apart_is_too_close_to_call() {
    let rows = |five: [f64; 3], ten: [f64; 3]| {
        let of = |level, values: [f64; 3]| values.map(|iops| (level, WT, 8, iops, 8.0, 2.0));
        only_verdict(&runs(&[of("5", five), of("10", ten)].concat()))
    };
    let close = rows([800.0, 1000.0, 1200.0], [900.0, 1100.0, 1300.0]);
    assert_eq!(label(close.recommended.as_ref()), "RAID 5 write-through", "it costs least of the two");
    assert_eq!(close.too_close, ["RAID 10 write-through"]);
    assert_eq!(
        close.answer(),
        "any of RAID 5 write-through, RAID 10 write-through; RAID 5 write-through leaves most space"
    );
    assert!(
        // Both arrays' noise together: 0.194 as a logarithm, by 3 values and 2.776 of Student's t at 4 degrees of freedom.
        close.reason.starts_with("Too close to call: ") && close.reason.contains("1000 IOPS ± 311"),
        "{}",
        close.reason
    );
    let clear = rows([990.0, 1000.0, 1010.0], [1190.0, 1200.0, 1210.0]);
    assert_eq!((clear.answer().as_str(), clear.too_close.len()), ("RAID 10 write-through", 0));
}

/// Simulated once each: RAID 5 and RAID 10 write-back with these requests in each second.
fn simulated_once(five: &[u64], ten: &[u64]) -> Verdict {
    let of = |level, requests: &[u64]| {
        let iops = requests.iter().sum::<u64>() as f64 / requests.len() as f64;
        let total = SeriesColumns { requests: requests.to_vec(), ..SeriesColumns::default() };
        let (read, write) = (SeriesColumns::default(), SeriesColumns::default());
        let second = 1_000_000_000;
        let series = RunSeries { interval_ns: second, last_ns: second, read, write, total, lat_map: None };
        let world = World::Simulated;
        RunResult { world, series: Some(series), ..run((level, WB, 64, iops, 8.0, 1.0)) }
    };
    only_verdict(&[of("5", five), of("10", ten)])
}

#[test]
fn single_runs_are_told_apart_by_the_spread_within_them() {
    let five = [5482, 5555, 5589, 5552, 5500, 5486, 5430, 5594, 5511, 5670];
    // RAID 10 flushes once in its window: 0.90 of RAID 5, by where the window happens to begin.
    let cycle = simulated_once(&five, &[2368, 8621, 10901, 6192, 9731, 2733, 2436, 2451, 2282, 2251]);
    assert_eq!(
        cycle.answer(),
        "any of RAID 5 write-back, RAID 10 write-back; RAID 5 write-back leaves most space"
    );
    assert!(cycle.reason.contains("rates vary too much within the windows"), "{}", cycle.reason);
    assert!(!cycle.reason.contains("Why is parity ahead"), "{}", cycle.reason);
    assert!(cycle.reason.contains("delivers 4997 IOPS ± 25"), "{}", cycle.reason);
    let clear = simulated_once(&five, &[4442, 4382, 4388, 4223, 4341, 4258, 4308, 4315, 4361, 4316]);
    assert_eq!((clear.answer().as_str(), clear.too_close.len()), ("RAID 5 write-back", 0));
    assert!(!clear.reason.contains("chance"), "{}", clear.reason);
    let short = simulated_once(&five[..4], &[4442, 4382, 4388, 4223]);
    assert!(
        short.reason.contains("Not all were run long enough to tell a lead from chance"),
        "{}",
        short.reason
    );
}

#[test]
fn what_is_still_filling_is_named_and_not_ranked() {
    let mut runs = runs(&[("5", WB, 8, 1000.0, 8.0, 1.0), ("10", WB, 8, 700.0, 8.0, 1.0)]);
    let fills = |run: &mut RunResult| {
        let cache_bytes = 1 << 41;
        run.cache_fill = Some(CacheFill {
            dirty_bytes_start: 0,
            dirty_bytes_end: 1 << 40,
            cache_bytes,
            flush_start_pct: 80,
            absorbed_bytes: None,
        });
    };
    fills(&mut runs[0]);
    let verdict = only_verdict(&runs);
    assert_eq!(verdict.answer(), "RAID 10 write-back");
    assert_eq!(verdict.alternatives[1].choice.label, "RAID 5 write-back", "it stands last");
    let sentence = "Not ranked, because the write cache was still filling in the window: RAID 5 write-back.";
    assert!(verdict.reason.contains(sentence), "{}", verdict.reason);
    fills(&mut runs[1]);
    let reason = only_verdict(&runs).reason;
    assert!(reason.contains("2 had a write cache that was still filling"), "{reason}");
}

/// A normal variable, by twelve uniform ones.
fn normal(rng: &mut Rng) -> f64 {
    (0..12).map(|_| rng.unit_f64()).sum::<f64>() - 6.0
}

/// Ten arrays in three rounds, RAID 10 `factor` times as fast as the rest, under noise of `noise` (its logarithm's deviation) and
/// rounds that differ by 20 %.
fn noisy_verdict(factor: f64, noise: f64, rng: &mut Rng) -> Verdict {
    let mut rows = Vec::new();
    for _ in 0..3 {
        let round = 0.2 * normal(rng);
        for (level, policy) in
            ["0", "1", "5", "6", "10"].into_iter().flat_map(|level| [(level, WT), (level, WB)])
        {
            let own = if (level, policy) == ("10", WT) { factor } else { 1.0 };
            rows.push((level, policy, 8, 1000.0 * own * (round + noise * normal(rng)).exp(), 8.0, 2.0));
        }
    }
    only_verdict(&runs(&rows))
}

#[test]
fn large_differences_are_told_in_three_noisy_rounds_and_equals_are_not() {
    const TRIALS: u32 = 400;
    let share = |factor, noise, is_told: &dyn Fn(&Verdict) -> bool| {
        let mut rng = Rng::new(2026);
        let told = (0..TRIALS).filter(|_| is_told(&noisy_verdict(factor, noise, &mut rng))).count();
        told as f64 / f64::from(TRIALS)
    };
    let is_called = |verdict: &Verdict| verdict.answer() == "RAID 10 write-through";
    for (noise, least) in [(0.05, 1.0), (0.1, 0.85), (0.15, 0.3)] {
        let called = share(1.5, noise, &is_called);
        assert!(called >= least, "a factor of 1.5 under noise of {noise}: {called}");
    }
    let called_of_equals = share(1.0, 0.15, &|verdict| verdict.too_close.is_empty());
    assert!(called_of_equals <= 0.02, "{called_of_equals}");
    // The best one may lose by bad luck, but then it must be among those that are too close.
    let is_lost = |verdict: &Verdict| {
        let best = "RAID 10 write-through";
        label(verdict.recommended.as_ref()) != best && !verdict.too_close.iter().any(|label| label == best)
    };
    let lost = share(1.1, 0.15, &is_lost);
    assert!(lost <= 0.05, "{lost}");
}

#[test]
fn policies_are_compared_only_where_writes_matter() {
    let alike = runs(&[("5", WT, 8, 1000.0, 8.0, 2.0), ("5", WB, 8, 1050.0, 8.0, 2.0)]);
    let sentence = "At this level write-back and write-through differ by less than 10%.";
    assert!(only_verdict(&alike).reason.contains(sentence));
    let mut reading = alike;
    for run in &mut reading {
        (run.cost.host_reads, run.cost.host_writes) = (Some(REQUESTS), Some(0));
    }
    assert!(!only_verdict(&reading).reason.contains("At this level"));
}

#[test]
fn equals_and_limits_are_said_as_such() {
    let table: [(&[Row], &str); 4] = [
        (
            &[("10", WB, 8, 1000.0, 8.0, 1.0), ("5", WB, 8, 990.0, 8.0, 1.0)],
            "(as good as equal, and the recommended one leaves more capacity)",
        ),
        (&[("6", WT, 2, 50.0, 19.0, 3.0), ("5", WT, 2, 900.0, 25.0, 2.0)], "(outside the latency limit)"),
        (
            &[("5", WT, 2, 90.0, 25.0, 2.0)],
            "the lowest load run, as none stays within a mean of 20.0 ms (mean 25.0 ms, p99 75.0 ms); \
             nothing else that survives a failure was run.",
        ),
        (
            &[("0", WT, 2, 90.0, 5.0, 1.0)],
            "Nothing is recommended: none of the arrays run survives a failed member. \
             Fastest was RAID 0 write-through with 90.0 IOPS.",
        ),
    ];
    for (rows, sentence) in table {
        let reason = only_verdict(&runs(rows)).reason;
        assert!(reason.contains(sentence), "{sentence:?} in {reason:?}");
    }
}

#[test]
fn runs_with_errors_are_listed_and_not_recommended() {
    let mut rows = runs(&[("10", WT, 8, 700.0, 11.0, 1.0), ("5", WT, 8, 400.0, 19.0, 2.0)]);
    rows[0].ops.total.errors = 1;
    let verdict = only_verdict(&rows);
    assert_eq!(label(verdict.recommended.as_ref()), "RAID 5 write-through");
    assert_eq!(verdict.alternatives[0].choice.label, "RAID 10 write-through");
    assert_eq!(verdict.alternatives[0].metric_ratio, Some(1.75));
    rows[1].ops.total.errors = 1;
    let verdict = only_verdict(&rows);
    assert_eq!(verdict.recommended, None);
    assert_eq!(
        verdict.reason,
        "Nothing is recommended: the 2 arrays run that survive a failed member had failed requests or completed none."
    );
}

#[test]
fn worlds_and_workloads_are_judged_apart_and_in_order() {
    let row = ("5", WT, 8, 400.0, 19.0, 2.0);
    let named = |workload: &str, world| RunResult { workload: workload.into(), world, ..run(row) };
    let bare = RunResult { array: None, ..named("restore", World::Measured) };
    let runs = [
        bare,
        named("streaming", World::Simulated),
        named("restore", World::Simulated),
        named("streaming", World::Array),
    ];
    let order: Vec<(String, World)> =
        verdicts(&runs).into_iter().map(|verdict| (verdict.workload, verdict.world)).collect();
    let expected = [
        ("restore".to_owned(), World::Simulated),
        ("streaming".to_owned(), World::Array),
        ("streaming".to_owned(), World::Simulated),
    ];
    assert_eq!(order, expected);
    assert!(verdicts(&[]).is_empty());
}

#[test]
fn the_limit_can_be_set() {
    let runs = runs(&[("5", WT, 1, 100.0, 10.0, 2.0), ("5", WT, 4, 210.0, 19.0, 2.0)]);
    for (limit_ms, iodepth, keeps_limit) in [(5, 1, false), (10, 1, true), (20, 4, true)] {
        let verdicts = verdicts_within(&runs, NanoSpan::from_millis(limit_ms));
        let best = verdicts[0].recommended.as_ref().unwrap();
        assert_eq!((best.iodepth, best.keeps_limit), (iodepth, keeps_limit), "{limit_ms} ms");
    }
}

#[test]
fn each_rate_of_an_open_loop_is_judged_by_itself() {
    let mut runs = runs(&[("5", WT, 256, 100.0, 5.0, 2.0), ("5", WT, 256, 200.0, 50.0, 2.0)]);
    runs[0].arrivals_per_sec = Some(100.0);
    runs[1].arrivals_per_sec = Some(200.0);
    let verdict = only_verdict(&runs);
    let best = verdict.recommended.as_ref().unwrap();
    assert_eq!((best.arrivals_per_sec, best.metric_repeats.len()), (Some(100.0), 1));
    assert!(
        verdict.reason.contains("delivers 100 IOPS at 100 requests/s, the highest"),
        "{}",
        verdict.reason
    );
}

#[test]
fn arrays_of_one_level_and_policy_are_told_apart() {
    let mut runs = runs(&[("5", WT, 8, 400.0, 19.0, 2.0); 3]);
    runs[1].array.as_mut().unwrap().strip_bytes = ByteCount::from_kib(256);
    runs[2].array.as_mut().unwrap().usable_bytes = ByteCount(1_000_000_000);
    let labels: Vec<String> =
        only_verdict(&runs).alternatives.into_iter().map(|row| row.choice.label).collect();
    let expected = [
        "RAID 5 write-through (6 x file, raidlab, strip 64 KiB, 500 GB)",
        "RAID 5 write-through (6 x file, raidlab, strip 256 KiB)",
        "RAID 5 write-through (6 x file, raidlab, strip 64 KiB, 1.00 GB)",
    ];
    assert_eq!(labels, expected);
}
