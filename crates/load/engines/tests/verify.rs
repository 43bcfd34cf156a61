//! Verified loads on real files: right with overlapping requests in flight, and not fooled by silent corruption.

mod common;

use common::{config, run_quietly, spec, test_file, until, writable};
use raidlab_engines::{EngineKind, LoadError, LoadOptions, LoadOutcome, Target, TargetOptions, Verified};
use raidlab_units::ByteCount;
use std::fs::OpenOptions;
use std::num::NonZeroU32;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

fn verifying(engine: EngineKind, workers: u32) -> LoadOptions {
    LoadOptions {
        engine: Some(engine),
        workers: NonZeroU32::new(workers).unwrap(),
        verify: true,
        ..LoadOptions::default()
    }
}

fn verified(outcome: &LoadOutcome) -> &Verified {
    outcome.targets[0].verified.as_ref().expect("it was asked for")
}

/// The load runs while `meddle` does, again and again, with the number of the round.
fn run_while(path: &Path, meddle: &(dyn Fn(u64) + Sync)) -> LoadOutcome {
    let target = Target::open(path, &TargetOptions { direct: false, ..writable() }).unwrap();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 0.. {
                if over.load(Ordering::Relaxed) {
                    return;
                }
                meddle(round);
                std::thread::sleep(Duration::from_micros(300));
            }
        });
        let outcome = run_quietly(
            &target,
            &spec(4096, 60, 100),
            &config(&target, 1, 400),
            &verifying(EngineKind::Buffered, 1),
        );
        over.store(true, Ordering::Relaxed);
        outcome.unwrap()
    })
}

#[test]
fn a_sound_target_is_never_accused_however_requests_overlap() {
    // 64 KiB for up to 64 requests of 8 KiB each: nearly all overlap.
    for (engine, workers, iodepth, direct) in [
        (EngineKind::Uring, 1, 16, true),
        (EngineKind::Uring, 2, 32, true),
        (EngineKind::Uring, 2, 32, false),
        (EngineKind::Sync, 4, 1, true),
        (EngineKind::Buffered, 4, 1, false),
    ] {
        let (_folder, path) = test_file(1);
        let target = Target::open(&path, &TargetOptions { direct, ..writable() }).unwrap();
        let mut config = until(&target, iodepth, 3000);
        config.region = ByteCount(64 << 10);
        let options = verifying(engine, workers);
        let outcome = run_quietly(&target, &spec(8192, 50, 100), &config, &options).unwrap();
        let found = verified(&outcome);
        assert_eq!((found.checked.faulty, found.faults.len()), (0, 0), "{engine:?}: {found:?}");
        assert!(found.checked.good > 100, "{engine:?}: {found:?}");
    }
}

#[test]
fn writes_that_are_undone_are_lost_writes() {
    let (_folder, path) = test_file(1);
    let file = OpenOptions::new().write(true).open(&path).unwrap();
    let outcome = run_while(&path, &|round| {
        file.write_all_at(&[0; 4096], round * 37 % 256 * 4096).unwrap();
    });
    let found = verified(&outcome);
    assert!(found.checked.faulty > 0 && found.checked.good > 0, "{found:?}");
    let text = found.faults[0].to_string();
    assert!(
        text.contains("is lost; the block holds nothing of this run") || text.contains("is torn"),
        "{text}"
    );
}

#[test]
fn blocks_that_wander_are_found_in_their_wrong_places() {
    let (_folder, path) = test_file(1);
    let file = OpenOptions::new().read(true).write(true).open(&path).unwrap();
    let outcome = run_while(&path, &|round| {
        let mut block = [0; 4096];
        file.read_exact_at(&mut block, round * 37 % 256 * 4096).unwrap();
        file.write_all_at(&block, (round * 37 + 11) % 256 * 4096).unwrap();
    });
    let found = verified(&outcome);
    let stray = found.faults.iter().find(|fault| fault.to_string().contains("which was meant for block"));
    assert!(stray.is_some(), "{found:?}");
}

#[test]
fn a_changed_bit_is_damage() {
    let (_folder, path) = test_file(1);
    let file = OpenOptions::new().read(true).write(true).open(&path).unwrap();
    let outcome = run_while(&path, &|round| {
        let at = round * 37 % 256 * 4096 + 100;
        let mut byte = [0];
        file.read_exact_at(&mut byte, at).unwrap();
        file.write_all_at(&[byte[0] ^ 8], at).unwrap();
    });
    let found = verified(&outcome);
    let damaged = found.faults.iter().find(|fault| fault.to_string().contains("bits have changed"));
    assert!(damaged.is_some(), "{found:?}");
}

#[test]
fn what_can_not_be_verified_is_refused() {
    let (_folder, path) = test_file(1);
    let target = Target::open(&path, &writable()).unwrap();
    let options = verifying(EngineKind::Uring, 1);
    let only_reads = run_quietly(&target, &spec(4096, 100, 100), &config(&target, 1, 50), &options);
    assert!(matches!(only_reads, Err(LoadError::VerifyNothing { .. })), "{only_reads:?}");
    let nothing = Target::no_op(ByteCount::from_mib(1));
    let null = LoadOptions { engine: None, ..options };
    let no_op = run_quietly(&nothing, &spec(4096, 50, 100), &config(&nothing, 1, 50), &null);
    assert!(matches!(no_op, Err(LoadError::VerifyNothing { .. })), "{no_op:?}");
}
