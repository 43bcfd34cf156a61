//! From a study's `[[array]]` to the engine: that the threads which it asks for are there and work.

use super::*;
use crate::study::Study;
use raidlab_hardware::Catalog;

/// A study of one array of strips that are worth the way to a thread, written with whole stripes.
fn study(folder: &Path, threads: &str) -> Study {
    let text = format!(
        "schema = 1\ntitle = 't'\nquestion = 'q'\nseed = 1\n\
         [load]\nworkloads = ['restore']\nblock-sizes = ['1MiB']\niodepths = [8]\nramp = '0s'\nrun = '50ms'\n\
         [[array]]\ndirectory = '{}'\nlevels = ['5']\nmembers = 3\nmember-size = '4MiB'\nstrip-size = '64KiB'\n\
         write-policies = ['write-through']\ndisk-cache = true\n{threads}",
        folder.display()
    );
    Study::parse("threads.toml", &text, &Catalog::builtin()).expect("a good study")
}

const RUNS_MAX: u32 = 200;

/// Whether threads for I/O, and for parity, have done anything.
fn has_worked(bench: &ArrayBench<'_>) -> [bool; 2] {
    [bench.world.io_thread_entries() > 0, bench.world.parity_thread_tasks() > 0]
}

#[test]
fn the_threads_of_a_study_do_the_work_of_its_arrays() {
    let rows = [
        ("", [0, 0]),
        ("io-threads = 2\n", [2, 0]),
        ("parity-threads = 1\n", [0, 1]),
        ("io-threads = 1\nparity-threads = 2\n", [1, 2]),
    ];
    for (threads, expected) in rows {
        let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).expect("a folder");
        let study = study(folder.path(), threads);
        let (section, cancel) = (&study.arrays[0], AtomicBool::new(false));
        let array = &section.arrays[0];
        make_array(array, &section.directories, &cancel, &mut |_, _| {}).expect("the array is made");
        let mut bench = ArrayBench::new(array, array.usable, &section.directories).expect("it starts");
        let load = section.load.loads(study.seed).next().expect("there is one");
        let wanted = expected.map(|count| count > 0);
        // A thread gets only what it finds the array busy with, which in so short a run may be nothing.
        for _ in 0..RUNS_MAX {
            let result = bench.run(&load, &cancel, &mut |_| {}).expect("it runs");
            let told = ["io threads", "parity threads"].map(|name| result.settings[name].clone());
            assert_eq!(told, expected.map(|count| count.to_string()), "{threads}");
            if has_worked(&bench) == wanted {
                break;
            }
        }
        assert_eq!(has_worked(&bench), wanted, "{threads}: whether they have done anything");
    }
}
