//! Fixtures that all tests share.
//!
//! An invented study that looks like a real one: six members at five levels with two write policies, measured and
//! simulated, four profiles, seven depths. The figures come from plain saturation curves, so they are always the same.

#![allow(dead_code, reason = "each test binary uses its part")]

use raidlab_advisor::{Choice, ComparedCell, ComparedRow, ComparedTable, Verdict};
use raidlab_report::StudyReport;
use raidlab_units::{ByteCount, BytesPerSec, Iops};
use raidlab_workload::{
    ArrayFacts, CURVE_PCT, CostFacts, LatencyPoint, Metric, OpSummary, RunResult, Summaries, World,
};

/// Name, metric, request size, share of writes.
pub(crate) const PROFILES: [(&str, Metric, u64, f64); 4] = [
    ("storagebench-streaming", Metric::MbPerS, 65_536, 0.0),
    ("storagebench-restore", Metric::MbPerS, 65_536, 1.0),
    ("storagebench-database", Metric::Iops, 8_192, 0.33),
    ("storagebench-file-server", Metric::Iops, 65_536, 0.33),
];
pub(crate) const IODEPTHS: [u32; 7] = [1, 2, 4, 8, 16, 32, 64];

/// A study over `runs` and `verdicts`, with something of everything.
pub(crate) fn report<'a>(runs: &'a [RunResult], verdicts: &'a [Verdict]) -> StudyReport<'a> {
    StudyReport {
        title: "First look",
        question: "Which RAID level and write policy serve streaming, restore, database and file-server loads best?",
        method: vec![
            "Four profiles at iodepths 1 to 64.".to_owned(),
            "Simulated arrays run in virtual time.".to_owned(),
        ],
        setup: vec![("processors".to_owned(), "2".to_owned()), ("filesystem".to_owned(), "ext4".to_owned())],
        runs,
        verdicts,
        warnings: vec!["This study was stopped.".to_owned()],
        notes: vec!["RAID 1 over 6 members is a mirror of 6.".to_owned()],
        compared: &[],
        iodepth: None,
        axes: None,
    }
}

/// A table of a paper with a row of one's own in it.
pub(crate) fn compared_table() -> ComparedTable {
    let row = |label: &str, is_own, cells: [Option<ComparedCell>; 2]| ComparedRow {
        label: label.into(),
        is_own,
        cells: cells.into(),
    };
    let remarked = ComparedCell { value: 10.0, remark: "iodepth 64".into() };
    ComparedTable {
        title: "Table 4: <IOPS>".into(),
        columns: vec!["oltp 4 KiB".into(), "oltp 8 KiB".into()],
        rows: vec![
            row("RAID 5 x4", false, [Some(ComparedCell::plain(1234.0)), None]),
            row("/dev/mine", true, [Some(remarked), Some(ComparedCell::plain(0.5))]),
        ],
    }
}

/// What the advisor might say of the database profile, measured and simulated, in words of this file.
pub(crate) fn database_verdicts(runs: &[RunResult]) -> Vec<Verdict> {
    [World::Array, World::Simulated].map(|world| database_verdict(runs, world)).to_vec()
}

fn database_verdict(runs: &[RunResult], world: World) -> Verdict {
    let is_choice =
        |run: &&RunResult| run.world == world && run.workload == PROFILES[2].0 && run.iodepth == 16;
    let of_level = |run: &&RunResult| run.configuration_label() == "RAID 10 write-back";
    let run = runs.iter().filter(is_choice).find(of_level).expect("the study has RAID 10");
    let choice = Choice {
        arrivals_per_sec: None,
        label: run.configuration_label(),
        array: run.array.clone().expect("it is an array"),
        iodepth: 16,
        keeps_limit: true,
        metric_value: run.metric_value(),
        metric_repeats: Vec::new(),
        metric_batches: None,
        metric_half_width_95: None,
        iops: run.ops.total.iops,
        bytes_per_sec: run.ops.total.bytes_per_sec,
        lat_ns_mean: run.ops.total.lat_ns_mean,
        lat_ns_p99: run.ops.total.lat_ns_p99,
        is_filling: false,
        errors: 0,
        write_share: 0.33,
        request_bytes_mean: 8192.0,
        member_ios_per_host_io: run.cost.member_ios_per_host_io(),
    };
    Verdict {
        workload: run.workload.clone(),
        world,
        metric: run.metric,
        lat_ns_mean_limit: 20_000_000,
        recommended: Some(choice),
        too_close: Vec::new(),
        runner_up: None,
        fastest_without_redundancy: None,
        reason: "It is the fastest at 3.5 ms. Mirrors write twice. Without redundancy it would be faster."
            .to_owned(),
        alternatives: Vec::new(),
    }
}

/// Level, data members of six, failures survived always and at best, member I/Os per write.
const LEVELS: [(&str, u64, u16, u16, f64); 5] = [
    ("0", 6, 0, 0, 1.0),
    ("1", 1, 5, 5, 6.0),
    ("5", 5, 1, 1, 4.0),
    ("6", 4, 2, 2, 6.0),
    ("10", 3, 1, 3, 2.0),
];

/// The whole study: 4 profiles x 7 depths x (1 bare + 5 levels x 2 policies x 2 worlds).
pub(crate) fn study_runs() -> Vec<RunResult> {
    let mut runs = Vec::new();
    for profile in PROFILES {
        for iodepth in IODEPTHS {
            runs.push(bare_run(profile, iodepth));
            for world in [World::Array, World::Simulated] {
                for level in LEVELS {
                    for policy in ["write-through", "write-back"] {
                        runs.push(array_run(profile, iodepth, world, level, policy));
                    }
                }
            }
        }
    }
    runs
}

fn bare_run(profile: (&str, Metric, u64, f64), iodepth: u32) -> RunResult {
    let iops = saturating(42_000.0, 3.0, iodepth) * (8_192.0 / profile.2 as f64).sqrt();
    run(World::Measured, "/srv/bench/first-look.dat", None, profile, iodepth, iops)
}

type Level = (&'static str, u64, u16, u16, f64);

fn array_run(
    profile: (&str, Metric, u64, f64),
    iodepth: u32,
    world: World,
    level: Level,
    policy: &str,
) -> RunResult {
    let simulated = world == World::Simulated;
    let cost = 1.0 - profile.3 + profile.3 * if policy == "write-back" { level.4 * 0.6 } else { level.4 };
    let (peak, knee, member_bytes) =
        if simulated { (1_150.0, 5.0, 600_000_000_000) } else { (24_000.0, 4.0, 1_073_741_824) };
    let sequential = if profile.3 == 0.0 || profile.3 == 1.0 { 4.0 } else { 1.0 };
    let iops = saturating(peak, knee, iodepth) * sequential / cost * (8_192.0 / profile.2 as f64).powf(0.3);
    let facts = ArrayFacts {
        level: level.0.to_owned(),
        members: 6,
        member_kind: if simulated { "ST3600057SS" } else { "file" }.to_owned(),
        controller: if simulated { "perc-h800" } else { "raidlab" }.to_owned(),
        strip_bytes: ByteCount::from_kib(64),
        write_policy: policy.to_owned(),
        usable_bytes: ByteCount(level.1 * member_bytes),
        raw_bytes: ByteCount(6 * member_bytes),
        failures_survived_always: level.2,
        failures_survived_at_best: level.3,
    };
    let target = format!("RAID {} over six members, {policy}", level.0);
    run(world, &target, Some(facts), profile, iodepth, iops)
}

fn saturating(peak: f64, knee: f64, iodepth: u32) -> f64 {
    peak * f64::from(iodepth) / (f64::from(iodepth) + knee)
}

fn run(
    world: World,
    target: &str,
    array: Option<ArrayFacts>,
    (workload, metric, request_bytes, writes): (&str, Metric, u64, f64),
    iodepth: u32,
    iops: f64,
) -> RunResult {
    let lat_ns_mean = f64::from(iodepth) / iops * 1e9;
    let cost = CostFacts {
        bottleneck_wall_ns: None,
        member_reads: array.as_ref().map(|_| (iops * (1.0 + writes)) as u64),
        member_writes: array.as_ref().map(|_| (iops * 2.0 * writes) as u64),
        metadata_writes: None,
        host_reads: Some((iops * (1.0 - writes)) as u64),
        host_writes: Some((iops * writes) as u64),
        wall_ns: 1_250_000_000,
        cpu_ns_per_io: None,
        kernel_threads_cpu_ns_per_io: None,
    };
    let summary =
        |share: f64| summary(iops * share, request_bytes, if share > 0.0 { lat_ns_mean } else { 0.0 });
    RunResult {
        array,
        iodepth,
        seed: 42,
        window_ns: 1_000_000_000,
        ops: Summaries {
            read: summary(1.0 - writes),
            write: summary(writes),
            total: summary(1.0),
            ..Summaries::default()
        },
        targets: Vec::new(),
        parts: Vec::new(),
        lag: None,
        cost,
        ..RunResult::unmeasured(world, target.to_owned(), workload.to_owned(), metric)
    }
}

fn summary(iops: f64, request_bytes: u64, lat_ns_mean: f64) -> OpSummary {
    OpSummary {
        requests: iops as u64,
        errors: 0,
        iops: Iops(iops),
        bytes_per_sec: BytesPerSec(iops * request_bytes as f64),
        lat_ns_mean,
        lat_ns_min: (lat_ns_mean * 0.4) as u64,
        lat_ns_p50: (lat_ns_mean * 0.9) as u64,
        lat_ns_p99: (lat_ns_mean * 3.1) as u64,
        lat_ns_p999: (lat_ns_mean * 5.7) as u64,
        lat_ns_p9999: (lat_ns_mean * 7.1) as u64,
        lat_ns_p99999: (lat_ns_mean * 8.2) as u64,
        lat_ns_max: (lat_ns_mean * 9.3) as u64,
        lat_curve: if lat_ns_mean > 0.0 { curve(lat_ns_mean) } else { Vec::new() },
        ..OpSummary::default()
    }
}

/// Exponentially distributed latencies over a floor, so that each further nine costs the same time.
fn curve(lat_ns_mean: f64) -> Vec<LatencyPoint> {
    let lat_ns = |pct: f64| (lat_ns_mean * (0.4 + 0.6 * -(1.0 - pct.min(99.999) / 100.0).ln())) as u64;
    CURVE_PCT.map(|pct| LatencyPoint { pct, lat_ns: lat_ns(pct) }).to_vec()
}
