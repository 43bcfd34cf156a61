//! Arrays with separate threads for parity and digests, and for I/O.
//!
//! Verified: every byte and all redundancy after writes at depth, with and without block checksums, write-through and
//! write-back, that the threads had work, and that reads of a lost member go through them; that a device that joins has
//! the right data. Not verified: that it is faster, which `bench/` measures.

use super::common::{self, Random};
use super::operator::{check_again, is_whole, replace, use_array};
use super::{GO_ON, POLICIES, folder, read_all, real, serve, shuffled_cover};
use raidlab_controller::{ArrayConfig, MetadataPolicy, WritePolicy};
use raidlab_format::StartOptions;
use raidlab_runtime::{ArrayWorld, Command, RunSettings};
use raidlab_units::{ByteCount, MemberIndex};
use std::path::PathBuf;

/// Threads for I/O and for parity.
const THREADS: [(usize, usize); 3] = [(0, 2), (3, 0), (1, 1)];

fn start(
    paths: &[PathBuf],
    config: &ArrayConfig,
    (io_threads, parity_threads): (usize, usize),
) -> ArrayWorld {
    let settings = RunSettings { io_threads, parity_threads, ..RunSettings::of(config) };
    let mut world = ArrayWorld::start(paths, &settings, StartOptions::default()).world.expect("it starts");
    world.await_serving(&GO_ON).expect("it serves");
    world
}

/// Strips of 64 KiB, so that a stripe is worth the way to a thread.
fn config(level: &str, policy: WritePolicy, integrity: bool) -> ArrayConfig {
    let mut config = common::config(level, 6, policy);
    config.strip_size = ByteCount::from_kib(64);
    config.member_size = ByteCount::from_mib(2);
    config.cache.size = ByteCount::from_mib(2);
    config.staging_size = ByteCount::from_mib(8);
    config.resilience.metadata = MetadataPolicy::Log;
    config.resilience.integrity = integrity;
    config
}

/// Tasks and entries that the threads have done.
fn work(world: &ArrayWorld) -> [u64; 2] {
    [world.io_thread_entries(), world.parity_thread_tasks()]
}

#[test]
fn threads_do_what_the_array_would() {
    let rows = ["5", "6"].into_iter().flat_map(|level| POLICIES.map(|policy| (level, policy)));
    let rows = rows.flat_map(|row| THREADS.map(|threads| (row, threads)));
    for ((level, policy), threads) in rows {
        for integrity in [false, true] {
            let row = format!("RAID {level}, {policy:?}, integrity {integrity}, threads {threads:?}");
            let config = config(level, policy, integrity);
            let folder = folder();
            let paths = real::make(folder.path(), &config, 0);
            let mut world = start(&paths, &config, threads);
            let script = shuffled_cover(11, world.volume_blocks());
            let (writes, reads) = script.split_at(script.len() / 2);
            let (expected, volume) = common::reference(&script, world.volume_blocks());
            assert!(serve(&mut world, writes, 16).iter().all(Result::is_ok), "{row}");
            let results = serve(&mut world, reads, 16);
            assert!(results.into_iter().eq(expected.into_iter().skip(writes.len()).map(Ok)), "{row}");
            world.drain(&GO_ON).expect("the cache drains");
            assert!(read_all(&mut world).as_ref() == Ok(&volume), "{row}: long reads");
            let before = work(&world);
            let has_work = [threads.0 > 0, threads.1 > 0];
            assert_eq!(before.map(|done| done > 0), has_work, "{row}: what the threads had to do");
            world.fail_member(MemberIndex(Random(3).below(6) as u16)).expect("a member can be failed");
            // A thread that gets no processor leaves its work to the caller.
            let is_shared = (0..10).any(|_| {
                assert!(read_all(&mut world) == Ok(volume.clone()), "{row}: without a member");
                let after = work(&world);
                [after[0] > before[0], after[1] > before[1]] == has_work
            });
            assert!(is_shared, "{row}: what is lost is read and computed by the threads");
            drop(world);
            if !integrity {
                let areas = common::data_areas(folder.path(), &config);
                common::check_redundancy(&config, &areas, &volume);
            }
        }
    }
}

/// A device that joins is rebuilt while other threads do its I/O, and nothing goes to the one before it.
#[test]
fn a_device_that_joins_is_written_by_the_threads() {
    let config = config("5", WritePolicy::WriteThrough, false);
    let folder = folder();
    let paths = real::make(folder.path(), &config, 0);
    let settings = RunSettings { io_threads: 3, ..RunSettings::of(&config) };
    let used = use_array(paths.clone(), settings.clone());
    used.until("whole", |status| is_whole(status) && status.counters.host_writes > 50);
    used.done(&Command::Fail { device: "2".into() });
    let new = folder.path().join("new");
    used.done(&replace("2", &new));
    used.until("whole again", is_whole);
    let checker = used.stop();
    std::fs::remove_file(&paths[2]).expect("nobody needs it");
    let members: Vec<PathBuf> =
        paths.iter().map(|path| if *path == paths[2] { &new } else { path }).cloned().collect();
    // Without another member, so that what the new one holds is needed.
    check_again(&members[1..], &settings, &checker);
}
