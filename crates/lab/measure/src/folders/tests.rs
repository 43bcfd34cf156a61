//! Benches in scratch folders.

use super::*;
use proptest::prelude::*;
use raidlab_hosts::Hosts;
use raidlab_workload::program::WriteEnding;
use std::sync::atomic::AtomicBool;

fn plan(cold: Cold) -> StreamsPlan {
    StreamsPlan {
        streams: vec![1, 3],
        file: ByteCount(200_000),
        block: ByteCount(65_536),
        reads_per_stream: 4,
        files_per_stream: 1,
        repeats: 1,
        cold,
        seed: 1,
    }
}

/// A folder on a disk, where pages can be dropped.
fn folders() -> (tempfile::TempDir, Vec<PathBuf>) {
    let root = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
    let folders = ["a", "b"].map(|name| root.path().join(name)).to_vec();
    for folder in &folders {
        std::fs::create_dir(folder).unwrap();
    }
    (root, folders)
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into())
        .collect();
    names.sort();
    names
}

#[test]
fn files_go_to_the_folders_in_turn_are_cold_and_are_taken_away() {
    let (_root, folders) = folders();
    let go = AtomicBool::new(false);
    let bench = StreamsBench::open(&folders, &plan(Cold::Advise), false, &go, &mut |_, _| {}).unwrap();
    assert_eq!(names(&folders[0].join("raidlab-streams")), ["00000", "00002"]);
    assert_eq!(names(&folders[1].join("raidlab-streams")), ["00001"]);
    let result = bench.run(3, &mut Hosts::alone(), &go, &mut |_| {}).unwrap();
    let streams = result.streams.as_ref().unwrap();
    // 200 000 bytes are 48 whole blocks of 4096.
    assert!(streams.readers.iter().all(|reader| reader.bytes == 196_608));
    assert_eq!(streams.cold.as_ref().unwrap().cached_share, Some(0.0));
    assert_eq!((result.iodepth, streams.readers.len()), (3, 3));
    drop(bench);
    assert!(folders.iter().all(|folder| names(folder).is_empty()));
}

#[test]
fn what_was_there_is_used_and_left() {
    let (_root, folders) = folders();
    let go = AtomicBool::new(false);
    let open = |keep| StreamsBench::open(&folders, &plan(Cold::None), keep, &go, &mut |_, _| {});
    drop(open(true).unwrap());
    let kept = folders[0].join("raidlab-streams/00000");
    let before = std::fs::metadata(&kept).unwrap().modified().unwrap();
    drop(open(false).unwrap());
    assert_eq!(std::fs::metadata(&kept).unwrap().modified().unwrap(), before);
    // Somebody's own file in the way is neither read nor written over.
    std::fs::write(&kept, "precious").unwrap();
    assert!(open(false).is_err());
    assert_eq!(std::fs::read_to_string(&kept).unwrap(), "precious");
}

#[test]
fn what_cannot_be_is_said_before_anything_is_made() {
    let (_root, folders) = folders();
    let go = AtomicBool::new(false);
    let open = |plan: &StreamsPlan| {
        StreamsBench::open(&folders, plan, false, &go, &mut |_, _| {}).map(drop).unwrap_err().to_string()
    };
    let huge = StreamsPlan { file: ByteCount(1 << 50), ..plan(Cold::None) };
    assert!(open(&huge).contains("no room for the files"), "{}", open(&huge));
    let odd = StreamsPlan { block: ByteCount(1000), ..plan(Cold::Direct) };
    assert!(open(&odd).contains("multiples of 4096"));
    assert!(folders.iter().all(|folder| names(folder).is_empty()));
    let missing = [folders[0].join("none")];
    let plan = plan(Cold::None);
    assert!(matches!(
        StreamsBench::open(&missing, &plan, false, &go, &mut |_, _| {}),
        Err(FoldersError::NoFolder(_))
    ));
}

#[test]
fn bonnie_leaves_nothing_behind_even_when_stopped() {
    let (_root, folders) = folders();
    let options = BonnieOptions {
        sizes: vec![ByteCount(1 << 20)],
        rounds: 1,
        ending: WriteEnding::Close,
        many_files: Some(20),
        ram: ByteCount(1 << 30),
        seed: 1,
    };
    let bench = BonnieBench::open(&folders, &options).unwrap();
    let result = bench
        .run((0, options.sizes[0], 1), &mut Hosts::alone(), &AtomicBool::new(false), &mut |_| {})
        .unwrap();
    assert_eq!(result.phases.len(), 12);
    assert_eq!(result.settings["file to memory"], "0.001");
    let stopped = AtomicBool::new(true);
    assert!(
        bench
            .run((0, options.sizes[0], 0), &mut Hosts::alone(), &stopped, &mut |_| {})
            .unwrap_err()
            .is_cancelled()
    );
    assert!(folders.iter().all(|folder| names(folder).is_empty()));
}

proptest! {
    #[test]
    fn no_target_runs_back_to_back(rounds in 1_u32..6, sizes in 1_usize..5, targets in 1_usize..6) {
        let order = interleaved(rounds, sizes, targets);
        prop_assert_eq!(order.len(), rounds as usize * sizes * targets);
        let mut sorted = order.clone();
        sorted.sort_unstable();
        sorted.dedup();
        prop_assert_eq!(sorted.len(), order.len());
        prop_assert!(order.is_sorted_by_key(|(round, _, _)| *round));
        if targets > 1 {
            prop_assert!(order.windows(2).all(|pair| pair[0].2 != pair[1].2));
        }
    }
}
