//! The threads that an array requests exist and work.

use super::*;
use raidlab_controller::{CacheConfig, MemberCache, Resilience, WritePolicy};
use raidlab_units::{BlockSize, NanoSpan};
use raidlab_worlds::{SOFTWARE_CACHE, STAGING_SIZE, find_workload, varied};

/// An array of strips that are worth the way to a thread.
fn array(threads: [u8; 2]) -> SoftwareArray {
    let config = ArrayConfig {
        level: "5".parse().expect("a level"),
        members: 3,
        strip_size: ByteCount::from_kib(64),
        block_size: BlockSize::B4096,
        member_size: ByteCount::from_mib(4),
        member_cache: MemberCache::On,
        cache: CacheConfig { write_policy: WritePolicy::WriteThrough, ..SOFTWARE_CACHE },
        staging_size: STAGING_SIZE,
        resilience: Resilience::default(),
    };
    let threads = ArrayThreads { io: threads[0], parity: threads[1] };
    SoftwareArray { threads, ..SoftwareArray::new(config).expect("it can be") }
}

/// Whole stripes in sequence.
fn load() -> Load {
    let restore = find_workload("restore", Path::new(".")).expect("it is built in");
    let workload = varied(&[restore], &[1 << 20], &[]).expect("its requests are of one size").remove(0);
    let (ramp, run) = (NanoSpan(0), NanoSpan::from_millis(50));
    Load { workload, iodepth: 8, workers: 1, ramp, run, seed: 1, once: false, settles: false }
}

const RUNS_MAX: u32 = 200;

/// Whether threads for I/O, and for parity, have done anything.
fn has_worked(bench: &ArrayBench<'_>) -> [bool; 2] {
    [bench.world.io_thread_entries() > 0, bench.world.parity_thread_tasks() > 0]
}

#[test]
fn threads_that_are_asked_for_do_work() {
    for threads in [[0, 0], [2, 0], [0, 1], [1, 2]] {
        let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).expect("a folder");
        let (array, folders, cancel) = (array(threads), [folder.path().to_owned()], AtomicBool::new(false));
        make_array(&array, &folders, &cancel, &mut |_, _| {}).expect("the array is made");
        let mut bench = ArrayBench::new(&array, array.usable, &folders).expect("it starts");
        let wanted = threads.map(|count| count > 0);
        // A thread gets only what it finds the array busy with, which in so short a run may be nothing.
        for _ in 0..RUNS_MAX {
            let result = bench.run(&load(), &cancel, &mut |_| {}).expect("it runs");
            let told = ["io threads", "parity threads"].map(|name| result.settings[name].clone());
            assert_eq!(told, threads.map(|count| count.to_string()));
            if has_worked(&bench) == wanted {
                break;
            }
        }
        assert_eq!(has_worked(&bench), wanted, "{threads:?}: whether they have done anything");
    }
}
