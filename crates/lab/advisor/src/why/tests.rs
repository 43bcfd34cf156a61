//! Tables of facts: planted causes, healthy devices, and what is not known.

use super::*;

/// An application that reads and writes a solid-state drive at ease.
fn healthy() -> Facts {
    Facts {
        device: "sda".into(),
        reads_per_s: 700.0,
        writes_per_s: 300.0,
        flushes_per_s: 5.0,
        mean_read_bytes: Some(16_384.0),
        random_pct: Some(80.0),
        in_flight_mean: 0.3,
        busy_pct: 25.0,
        read_ms: Some(0.3),
        write_ms: Some(0.4),
        is_rotational: Some(false),
        read_ahead_bytes: Some(131_072),
        physical_block_bytes: Some(4096),
        start_bytes: Some(1 << 20),
        filesystem_used_pct: Some(60.0),
        extent_bytes_mean: Some(8e6),
        cpu_busy_pct: Some(30.0),
        cpu_wait_pct: Some(0.2),
        sync_action: None,
        stripe_cache_size: None,
        stripe_cache_active: None,
        members: Vec::new(),
    }
}

fn members(times: &[f64]) -> Vec<MemberFacts> {
    let member = |(index, ms): (usize, &f64)| MemberFacts {
        device: format!("sd{index}"),
        iops: 250.0,
        mean_ms: Some(*ms),
        busy_pct: 60.0,
    };
    times.iter().enumerate().map(member).collect()
}

/// The load of one thread that reads a device without pause.
fn one_by_one() -> Facts {
    Facts {
        in_flight_mean: 0.97,
        busy_pct: 97.0,
        reads_per_s: 9000.0,
        writes_per_s: 0.0,
        flushes_per_s: 0.0,
        ..healthy()
    }
}

/// Reads of 128 KiB, of which the device sees eight for one; the kernel does not say that they are in sequence.
#[test]
fn reads_that_are_cut_at_the_pieces_of_a_file_are_in_sequence() {
    let cut = |mean_read_bytes| Facts {
        extent_bytes_mean: Some(16_384.0),
        mean_read_bytes: Some(mean_read_bytes),
        random_pct: None,
        read_ahead_bytes: Some(131_072),
        busy_pct: 94.0,
        in_flight_mean: 5.0,
        ..healthy()
    };
    let first = |facts| why(&facts).first().map(|it| it.cause);
    assert_eq!(first(cut(16_384.0)), Some(Cause::FragmentedFile));
    assert_ne!(first(cut(8_192.0)), Some(Cause::FragmentedFile));
}

#[test]
fn planted_causes_are_named_first() {
    let md = || Facts { members: members(&[1.0, 1.1, 0.9, 1.0]), ..healthy() };
    let rows = [
        (Cause::SlowMember, Facts { members: members(&[1.0, 12.0, 0.9, 1.1]), ..healthy() }),
        (Cause::MisalignedPartition, Facts { start_bytes: Some(63 * 512), ..healthy() }),
        (
            Cause::SyncPerWrite,
            Facts {
                writes_per_s: 400.0,
                flushes_per_s: 400.0,
                reads_per_s: 0.0,
                busy_pct: 90.0,
                in_flight_mean: 0.9,
                ..healthy()
            },
        ),
        (
            Cause::TinyStripeCache,
            Facts { stripe_cache_size: Some(17), stripe_cache_active: Some(17), ..md() },
        ),
        (
            Cause::FullDevice,
            Facts { filesystem_used_pct: Some(99.0), write_ms: Some(12.0), busy_pct: 80.0, ..healthy() },
        ),
        // Seen on ext4, whose journal writes twice for each flush.
        (
            Cause::SyncPerWrite,
            Facts { writes_per_s: 513.0, flushes_per_s: 186.0, reads_per_s: 1.0, busy_pct: 2.0, ..healthy() },
        ),
        (Cause::CompetingScrub, Facts { sync_action: Some("check".into()), busy_pct: 100.0, ..md() }),
        (Cause::DepthOne, one_by_one()),
        (
            Cause::ReadAheadOff,
            Facts {
                read_ahead_bytes: Some(0),
                mean_read_bytes: Some(4096.0),
                random_pct: Some(0.1),
                ..one_by_one()
            },
        ),
        (
            Cause::FragmentedFile,
            Facts {
                extent_bytes_mean: Some(16_384.0),
                mean_read_bytes: Some(16_000.0),
                busy_pct: 99.0,
                in_flight_mean: 2.0,
                ..healthy()
            },
        ),
        (Cause::SaturatedCpu, Facts { cpu_busy_pct: Some(99.5), cpu_wait_pct: Some(60.0), ..healthy() }),
        (
            Cause::SaturatedDevice,
            Facts {
                busy_pct: 100.0,
                in_flight_mean: 31.0,
                read_ms: Some(60.0),
                is_rotational: Some(true),
                ..healthy()
            },
        ),
    ];
    for (cause, facts) in rows {
        let found = why(&facts);
        assert_eq!(found.first().map(|it| it.cause), Some(cause), "{found:?}");
        assert!(found.iter().all(|it| !it.evidence.is_empty() && !it.next.is_empty()));
    }
}

/// A state is no cause where nothing is slow; both were seen on machines at ease.
#[test]
fn a_cause_needs_its_symptom() {
    let rows = [
        // Full, and at ease.
        Facts {
            filesystem_used_pct: Some(99.0),
            reads_per_s: 1.0,
            writes_per_s: 12.0,
            busy_pct: 0.3,
            ..healthy()
        },
        // Commits now and then, as they were seen.
        Facts { reads_per_s: 4.0, writes_per_s: 59.0, flushes_per_s: 17.0, busy_pct: 1.0, ..healthy() },
    ];
    for facts in rows {
        assert_eq!(why(&facts), [], "{facts:?}");
    }
}

#[test]
fn nothing_is_named_on_healthy_ones() {
    let rows = [
        healthy(),
        // Idle, whatever its state.
        Facts {
            reads_per_s: 0.0,
            writes_per_s: 0.0,
            flushes_per_s: 0.0,
            filesystem_used_pct: Some(100.0),
            start_bytes: Some(512),
            cpu_busy_pct: Some(100.0),
            ..healthy()
        },
        // Nothing is known but counts.
        Facts { reads_per_s: 100.0, ..Facts::default() },
        // A full file system that is only read, a partition across blocks that is, too.
        Facts {
            filesystem_used_pct: Some(99.9),
            start_bytes: Some(63 * 512),
            writes_per_s: 0.0,
            flushes_per_s: 0.0,
            ..healthy()
        },
        // Much in flight, and all of it soon served.
        Facts {
            busy_pct: 100.0,
            in_flight_mean: 32.0,
            reads_per_s: 400_000.0,
            read_ms: Some(0.08),
            write_ms: Some(0.1),
            ..healthy()
        },
        // Members differ as chance has it, or one is idle.
        Facts { members: members(&[0.2, 0.9, 0.25, 0.3]), ..healthy() },
        Facts {
            members: vec![
                MemberFacts { mean_ms: Some(90.0), iops: 0.1, ..MemberFacts::default() },
                MemberFacts { mean_ms: Some(1.0), iops: 100.0, ..MemberFacts::default() },
            ],
            ..healthy()
        },
        // A cache that is large or half empty, an array at rest.
        Facts { stripe_cache_size: Some(8192), stripe_cache_active: Some(8192), ..healthy() },
        Facts {
            stripe_cache_size: Some(256),
            stripe_cache_active: Some(100),
            sync_action: Some("idle".into()),
            ..healthy()
        },
        // Random reads don't miss read-ahead.
        Facts {
            read_ahead_bytes: Some(0),
            mean_read_bytes: Some(4096.0),
            random_pct: Some(100.0),
            ..healthy()
        },
    ];
    for facts in rows {
        assert_eq!(why(&facts), [], "{facts:?}");
    }
}

#[test]
fn busy_machines_and_places_that_are_not_known_accuse_nobody() {
    let rows = [
        // A busy machine whose device is busy, too, is not said to lack processors.
        Facts { cpu_busy_pct: Some(99.0), cpu_wait_pct: Some(60.0), busy_pct: 60.0, ..healthy() },
        // A file in pieces under reads at places that are not known, many at once.
        Facts {
            extent_bytes_mean: Some(72_000.0),
            mean_read_bytes: Some(65_536.0),
            random_pct: None,
            busy_pct: 100.0,
            in_flight_mean: 7.9,
            reads_per_s: 13_000.0,
            read_ms: Some(0.6),
            ..healthy()
        },
        // Others use all processors, and who uses the device hardly waits for one.
        Facts { cpu_busy_pct: Some(100.0), cpu_wait_pct: Some(3.0), ..healthy() },
    ];
    for facts in rows {
        assert_eq!(why(&facts), [], "{facts:?}");
    }
}

/// Each rule needs what it names: with it unknown, it is silent.
#[test]
fn what_is_not_known_accuses_nobody() {
    let unknown = Facts {
        reads_per_s: 500.0,
        writes_per_s: 500.0,
        busy_pct: 40.0,
        in_flight_mean: 0.4,
        ..Facts::default()
    };
    assert_eq!(why(&unknown), []);
}
