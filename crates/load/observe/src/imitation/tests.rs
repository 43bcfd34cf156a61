//! Workloads of counters and of requests, and their distances.

use super::*;
use raidlab_workload::DeviceLoad;

const SECOND_NS: u64 = 1_000_000_000;

/// Ten seconds of `load`, in intervals of a tenth.
fn observed(load: DeviceLoad) -> Observed {
    let mut intervals = Intervals::default();
    for n in 0..100 {
        intervals.push(Interval {
            start_ns: n * SECOND_NS / 10,
            length_ns: SECOND_NS / 10,
            reads: load.reads / 100,
            writes: load.writes / 100,
            read_bytes: load.read_bytes / 100,
            write_bytes: load.write_bytes / 100,
            in_flight_mean: load.in_flight_mean,
        });
    }
    Observed::new(load, 10 * SECOND_NS, (0, 0), intervals, Some(100 << 30))
}

fn load(reads: u64, writes: u64, in_flight_mean: f64, utilisation: f64) -> DeviceLoad {
    DeviceLoad {
        name: "sda".into(),
        reads,
        writes,
        read_bytes: reads * 8192,
        write_bytes: writes * 65_536,
        read_ns_mean: 1e6,
        write_ns_mean: 1e6,
        in_flight_mean,
        utilisation,
        ..DeviceLoad::default()
    }
}

fn distance<'a>(made: &'a Imitation, of: &str) -> &'a Distance {
    made.distances.iter().find(|it| it.of == of).unwrap_or_else(|| panic!("{of}: {:?}", made.distances))
}

#[test]
fn shares_are_whole_and_add_up() {
    for (counts, shares) in
        [(&[1, 1, 1][..], &[34, 33, 33][..]), (&[997, 3], &[100, 0]), (&[0, 5], &[0, 100]), (&[1], &[100])]
    {
        assert_eq!(whole_shares(counts), shares, "{counts:?}");
    }
}

/// A loop device under 100 writes of 4 KiB per second, a flush behind each: the kernel counts both as writes.
#[test]
fn flushes_are_no_writes_and_stay_in_the_workload() {
    let of = |writes, write_bytes, others| {
        let load =
            DeviceLoad { writes, write_bytes, write_ns_mean: 1e6, utilisation: 0.3, ..load(0, 0, 0.3, 0.3) };
        let mut intervals = Intervals::default();
        intervals.push(Interval { length_ns: 10 * SECOND_NS, writes, write_bytes, ..Interval::default() });
        Observed::new(load, 10 * SECOND_NS, others, intervals, Some(64 << 20))
    };
    let seen = of(1995, 4_096_000, (50, 995));
    let figures = seen.figures();
    assert_eq!((figures.iops, figures.mean_write_bytes, figures.flushes_per_s), (100.0, Some(4096.0), 99.5));
    assert_eq!((figures.latency.write_ns_mean, figures.intervals.map(|it| it.iops_max)), (None, Some(100.0)));
    assert!(
        seen.notes()[0].contains("995 flushes as writes without data, which are taken off"),
        "{:?}",
        seen.notes()
    );
    let made = imitate("app", &seen).expect("there were requests");
    assert_eq!(
        (made.workload.spec.lines[0].bytes, made.workload.spec.flush.map(|it| it.every.get())),
        (4096, Some(1))
    );
    assert!(made.notes.iter().any(|note| note.contains("5.0 trims per second")), "{:?}", made.notes);
    // A journal's flushes carry data, and writes of a page and more show nothing.
    let journal = of(600, 4_300_000, (0, 400));
    assert_eq!((journal.figures().iops, journal.figures().latency.write_ns_mean), (60.0, Some(1e6)));
    assert!(journal.notes()[0].contains("may have up to 400 flushes"), "{:?}", journal.notes());
    assert!(of(600, 4_300_000, (0, 0)).notes().is_empty());
}

#[test]
fn counters_make_a_line_of_reads_and_one_of_writes() {
    let made = imitate("app", &observed(load(7000, 3000, 0.5, 0.4))).expect("there were requests");
    let lines = &made.workload.spec.lines;
    let told: Vec<_> = lines.iter().map(|it| (it.bytes, it.share_pct, it.read_pct, it.random_pct)).collect();
    assert_eq!(told, [(8192, 70, 100, 100), (65_536, 30, 0, 100)]);
    assert_eq!(made.notes.len(), 1, "places and sizes are assumed, and told");
    // It can be written and read back.
    let text = made.workload.to_toml();
    assert_eq!(Workload::from_toml("a.toml", &text).expect("it is a workload").spec, made.workload.spec);
    let rate = distance(&made, "rate");
    assert!((rate.made_mean / rate.seen_mean - 1.0).abs() < 0.03, "{rate:?}");
    // The same number in each interval is an even load.
    assert!(rate.largest_difference.is_some_and(|it| it < 0.1), "{rate:?}");
    assert!(distance(&made, "reads").largest_difference.is_none(), "counters know only the mean");
}

#[test]
fn a_busy_device_is_asked_by_a_closed_loop() {
    let made = imitate("app", &observed(load(100_000, 0, 31.8, 0.99))).expect("there were requests");
    assert_eq!(made.workload.spec.iodepth, Some(32));
    assert!(!made.workload.spec.is_open() && made.notes[1].contains("closed loop"), "{:?}", made.notes);
    let rate = distance(&made, "rate");
    assert!((rate.made_mean / rate.seen_mean - 1.0).abs() < 0.05, "{rate:?}");
    assert!(imitate("app", &observed(load(0, 0, 0.0, 0.0))).is_none(), "nothing was asked");
}

/// What a workload asks is seen, imitated, and comes out near itself: two sizes, a third random, a hot tenth, in bursts.
#[test]
fn an_imitation_of_a_workload_is_near_it() {
    let zones =
        vec![Zone { accesses_pct: 80.0, space_pct: 10.0 }, Zone { accesses_pct: 20.0, space_pct: 90.0 }];
    let rate = RequestRate::new(2000.0).expect("a rate");
    let spec = AccessSpec {
        places: Places {
            start: ByteCount::from_gib(1),
            size: Some(ByteCount::from_gib(10)),
            distribution: Distribution::Zones(zones),
            ..Places::default()
        },
        pacing: Pacing::Open(Arrivals { process: ArrivalProcess::Poisson, rate, burst: 4 }),
        ..AccessSpec::new(
            "planted",
            vec![
                AccessLine { share_pct: 75, ..AccessLine::plain(4096, 80, 100) },
                AccessLine { share_pct: 25, ..AccessLine::plain(65_536, 10, 100) },
            ],
        )
    };
    let made = drive(&spec, &observed(load(14_000, 6000, 1.0, 0.5))).expect("it can be driven");
    let figures = made.seen.figures.clone();
    assert!((19_500..=20_000).contains(&figures.requests), "{figures:?}");
    let seen = Observed {
        seen: Some(made.seen),
        intervals: made.intervals,
        ..observed(load(12_500, 7500, 1.0, 0.5))
    };
    let again = imitate("again", &seen).expect("there were requests");
    let Pacing::Open(arrivals) = again.workload.spec.pacing else { panic!("{:?}", again.workload.spec) };
    assert!((3..=5).contains(&arrivals.burst), "{arrivals:?} of {:?}", figures.gap_variation);
    let told: Vec<_> = again.workload.spec.lines.iter().map(|it| (it.bytes, it.random_pct)).collect();
    assert_eq!(told, [(4096, 100), (65_536, 100)]);
    for of in ["size", "run", "place", "gap", "rate"] {
        let distance = distance(&again, of);
        assert!(distance.largest_difference.is_some_and(|it| it < 0.12), "{distance:?}");
    }
    let reads = distance(&again, "reads");
    assert!((reads.made_mean - 62.5).abs() < 1.5, "{reads:?}");
}

/// The distance sees what means hide.
#[test]
fn distributions_with_equal_means_are_told_apart() {
    let even = vec![(5.0, 10.0)];
    let wide = vec![(0.0, 5.0), (10.0, 5.0)];
    assert_eq!((mean_of(&even), mean_of(&wide)), (5.0, 5.0));
    assert_eq!(difference(&even, &wide), Some(0.5));
    assert_eq!((difference(&even, &even), difference(&even, &Vec::new())), (Some(0.0), None));
}
