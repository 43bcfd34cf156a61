//! Arrays whose parity and digests are computed by threads of their own.
//!
//! Verified: every byte and all redundancy after writes at depth, with and without block integrity, write-through and
//! write-back, that the threads had work, and that a rebuild and reads of a lost member go through them. Not verified: that it
//! is faster, which is `bench/`'s to show.

use super::common::{self, Random};
use super::{GO_ON, POLICIES, folder, read_all, real, serve, shuffled_cover};
use raidlab_array::{ArrayWorld, RunSettings};
use raidlab_controller::{ArrayConfig, MetadataPolicy, WritePolicy};
use raidlab_format::StartOptions;
use raidlab_units::{ByteCount, MemberIndex};
use std::path::PathBuf;

fn start(paths: &[PathBuf], config: &ArrayConfig) -> ArrayWorld {
    let settings = RunSettings { parity_threads: 2, ..RunSettings::of(config) };
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

#[test]
fn threads_compute_what_the_array_would() {
    for (level, policy) in ["5", "6"].into_iter().flat_map(|level| POLICIES.map(|policy| (level, policy))) {
        for integrity in [false, true] {
            let row = format!("RAID {level}, {policy:?}, integrity {integrity}");
            let config = config(level, policy, integrity);
            let folder = folder();
            let paths = real::make(folder.path(), &config, 0);
            let mut world = start(&paths, &config);
            let script = shuffled_cover(11, world.volume_blocks());
            let (writes, reads) = script.split_at(script.len() / 2);
            let (expected, volume) = common::reference(&script, world.volume_blocks());
            assert!(serve(&mut world, writes, 16).iter().all(Result::is_ok), "{row}");
            let results = serve(&mut world, reads, 16);
            assert!(results.into_iter().eq(expected.into_iter().skip(writes.len()).map(Ok)), "{row}");
            world.drain(&GO_ON).expect("the cache drains");
            assert!(world.parity_thread_tasks() > 0, "{row}: the threads had nothing to do");
            world.fail_member(MemberIndex(Random(3).below(6) as u16)).expect("a member can be failed");
            let before = world.parity_thread_tasks();
            assert!(read_all(&mut world) == Ok(volume.clone()), "{row}: without a member");
            assert!(world.parity_thread_tasks() > before, "{row}: what was lost is computed by the threads");
            drop(world);
            if !integrity {
                let areas = common::data_areas(folder.path(), &config);
                common::check_redundancy(&config, &areas, &volume);
            }
        }
    }
}
