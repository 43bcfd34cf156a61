//! Programs with files on a modelled host: rates follow from memory, drives and processors, and nothing is lost or stuck.

use raidlab_controller::{ArrayConfig, CacheConfig, MemberCache};
use raidlab_hardware::{Catalog, HostModel};
use raidlab_sim::{
    ControllerName, FileAccess, FilePlace, FilesOutcome, HostVolume, SimError, SimulatedEnclosure,
    SimulatedHost, SimulatedVolume, simulate_files,
};
use raidlab_units::{BlockSize, ByteCount, NanoSpan};
use raidlab_workload::program::{
    BonnieConfig, BonniePhase, BonnieProgram, FileId, PhaseFigures, Readers, ReadersConfig, WriteEnding,
};

/// `volumes` volumes of `members` SATA drives each, behind a controller without a cache each.
fn host(model: HostModel, volumes: usize, level: &str, members: u16, filesystem: &str) -> SimulatedHost {
    let catalog = Catalog::builtin();
    let controller = catalog.controller("linux-md").expect("there").clone();
    let drive = catalog.drive("maxtor-6y160m0").expect("there").clone();
    let cache = CacheConfig { size: ByteCount::ZERO, ..CacheConfig::default() };
    let config = ArrayConfig {
        strip_size: controller.strip_size,
        block_size: BlockSize::B512,
        member_size: ByteCount::from_gib(40),
        member_cache: MemberCache::On,
        staging_size: ByteCount::from_mib(8),
        ..raidlab_testkit::array(level, members, cache)
    };
    let volume = SimulatedVolume { config, drive, owner: ControllerName::A, beside: None };
    let enclosure = SimulatedEnclosure { controller, second: None, volumes: vec![volume] };
    let filesystem = catalog.filesystem(filesystem).expect("there");
    let on = |enclosure| HostVolume { enclosure, volume: 0, filesystem: filesystem.clone() };
    SimulatedHost {
        host: model,
        enclosures: vec![enclosure; volumes],
        volumes: (0..volumes).map(on).collect(),
        files: Vec::new(),
        unit: ByteCount(BonnieProgram::block_bytes()),
        access: FileAccess::Buffered,
    }
}

/// A host of 2004 with so much memory for pages.
fn with_memory(mib: u64) -> HostModel {
    let mut model = Catalog::builtin().host("noral3").expect("there").clone();
    model.memory = ByteCount::from_mib(mib) + model.memory_taken;
    model
}

fn bonnie(mut host: SimulatedHost, mib: u64) -> (Vec<(BonniePhase, PhaseFigures)>, FilesOutcome) {
    let file = ByteCount::from_mib(mib);
    host.files = vec![FilePlace { volume: 0, room: file, bytes: ByteCount::ZERO }];
    let mut program =
        BonnieProgram::new(&BonnieConfig { file, seed: 1, ending: WriteEnding::Close }).expect("long enough");
    let outcome = simulate_files(&host, &mut program, 1).expect("it runs");
    (program.figures().to_vec(), outcome)
}

fn rate(figures: &[(BonniePhase, PhaseFigures)], phase: BonniePhase) -> f64 {
    figures.iter().find(|(name, _)| *name == phase).expect("all phases are run").1.rate().mb_per_s()
}

#[test]
fn a_file_that_fits_is_read_at_the_rate_of_memory_and_a_longer_one_at_the_drives() {
    for (mib, in_memory) in [(16, true), (400, false)] {
        let (figures, outcome) = bonnie(host(with_memory(128), 1, "jbod", 1, "ext2"), mib);
        assert_eq!(figures.len(), 6);
        let read = rate(&figures, BonniePhase::BlockRead);
        assert_eq!(read > 500.0, in_memory, "{mib} MiB: {read} MB/s");
        if in_memory {
            assert_eq!(outcome.requests[0], 0, "nothing has to be read");
        } else {
            assert!((40.0..50.0).contains(&read), "one drive streams: {read} MB/s");
            let written = rate(&figures, BonniePhase::BlockWrite);
            assert!((25.0..80.0).contains(&written), "{written} MB/s");
            let bytes = ByteCount::from_mib(mib).0;
            assert!(outcome.bytes[1] >= 2 * bytes, "the file was written at least twice: {outcome:?}");
        }
        for (phase, figures) in &figures {
            assert!((0.0..=200.1).contains(&figures.cpu_pct()), "{phase:?}: {} %", figures.cpu_pct());
        }
    }
}

#[test]
fn each_block_of_the_map_goes_out_once_for_a_file_that_is_made() {
    // 17 blocks of the map for 68 MiB, which is made twice: 34 blocks of 4 KiB beside units of 16 KiB.
    for (has_map, beyond_units) in [(true, 34 * 4096 % 16384), (false, 0)] {
        let mut host = host(with_memory(256), 1, "jbod", 1, "ext2");
        host.volumes[0].filesystem.map_every = has_map.then_some(ByteCount::from_mib(4));
        let file = ByteCount::from_mib(68);
        host.files = vec![FilePlace { volume: 0, room: file, bytes: ByteCount::ZERO }];
        let config = BonnieConfig { file, seed: 1, ending: WriteEnding::Sync };
        let mut program = BonnieProgram::new(&config).expect("long enough");
        let outcome = simulate_files(&host, &mut program, 1).expect("it runs");
        assert!(outcome.bytes[1] >= 3 * file.0, "{outcome:?}");
        assert_eq!(outcome.bytes[1] % 16384, beyond_units, "{outcome:?}");
    }
}

#[test]
fn rates_fall_with_the_file_and_the_same_seed_gives_the_same_figures() {
    let write =
        |mib| rate(&bonnie(host(with_memory(128), 1, "0", 2, "ext3"), mib).0, BonniePhase::BlockWrite);
    let rates = [10, 100, 200, 400].map(write);
    assert!(rates.is_sorted_by(|a, b| a >= b), "{rates:?}");
    assert!((write(100) - rates[1]).abs() < f64::EPSILON);
}

#[test]
fn a_mirror_writes_no_faster_than_one_drive_and_stripes_read_faster() {
    let of = |level, members| bonnie(host(with_memory(64), 1, level, members, "ext2"), 300).0;
    let (one, mirror, stripes) = (of("jbod", 1), of("1", 2), of("0", 2));
    let write = |figures: &_| rate(figures, BonniePhase::BlockWrite);
    let read = |figures: &_| rate(figures, BonniePhase::BlockRead);
    assert!(write(&mirror) < 1.05 * write(&one), "{} {}", write(&mirror), write(&one));
    assert!(read(&stripes) > 1.3 * read(&one), "{} {}", read(&stripes), read(&one));
}

#[test]
fn readers_on_two_volumes_share_nothing_but_the_host() {
    let aggregate = |volumes: usize, readers: u32, overlaps: bool| {
        let mut model = with_memory(64);
        model.kernel.read_ahead_overlaps = overlaps;
        let mut host = host(model, volumes, "jbod", 1, "ext2");
        let file = ByteCount::from_mib(40);
        let place = |index: u32| FilePlace { volume: index as usize % volumes, room: file, bytes: file };
        host.files = (0..2 * readers).map(place).collect();
        let files = (0..readers).map(|reader| vec![FileId(reader), FileId(reader + readers)]).collect();
        let config = ReadersConfig { block: ByteCount::from_kib(64), files };
        let mut program = Readers::new(config).expect("all have files");
        simulate_files(&host, &mut program, 3).expect("it runs");
        let rates = program.figures().map(|figures| figures.expect("all are timed").rate().mb_per_s());
        rates.sum::<f64>()
    };
    let (one, two) = (aggregate(1, 1, true), aggregate(2, 2, true));
    assert!((1.8..2.05).contains(&(two / one)), "{two} {one}");
    let crowded = aggregate(1, 8, true);
    assert!(crowded < 0.9 * one, "streams on one drive cost seeks: {crowded} {one}");
    assert!(aggregate(1, 1, false) <= one * 1.001);
}

#[test]
fn what_does_not_fit_is_refused() {
    let mut small = host(with_memory(64), 1, "jbod", 1, "ext2");
    let file = ByteCount::from_gib(50);
    small.files = vec![FilePlace { volume: 0, room: file, bytes: file }];
    let mut program =
        BonnieProgram::new(&BonnieConfig { file, seed: 1, ending: WriteEnding::Close }).expect("long enough");
    let error = simulate_files(&small, &mut program, 1).expect_err("50 GiB on 40");
    assert!(matches!(error, SimError::FilesTooLarge { .. }), "{error}");
    small.files[0].volume = 1;
    assert!(matches!(simulate_files(&small, &mut program, 1), Err(SimError::NoSuchVolume { .. })));
    small.files[0] = FilePlace { volume: 0, room: ByteCount(1), bytes: ByteCount(1) };
    small.unit = ByteCount(1_000);
    assert!(matches!(simulate_files(&small, &mut program, 1), Err(SimError::CacheUnit { .. })));
}

#[test]
fn a_file_is_on_its_volume_when_it_is_synchronised() {
    use raidlab_workload::program::{FileCall, ProcessTime, Program, ProgramStep};
    struct WriteAndSync(Vec<FileCall>, NanoSpan);
    impl Program for WriteAndSync {
        fn process_count(&self) -> u32 {
            1
        }
        fn poll_step(&mut self, _: u32, time: ProcessTime) -> ProgramStep {
            self.1 = time.now.saturating_since(raidlab_units::Nanos::ZERO);
            self.0.pop().map_or(ProgramStep::Finished, ProgramStep::Call)
        }
        fn handle_return(&mut self, _: u32, _: ProcessTime, _: u64) {}
    }
    let file = FileId(0);
    let bytes = 20 << 20;
    let calls = vec![
        FileCall::Sync { file },
        FileCall::Sync { file },
        FileCall::Write { file, bytes },
        FileCall::Open { file, create: true },
    ];
    let mut host = host(with_memory(256), 1, "jbod", 1, "xfs");
    host.files = vec![FilePlace { volume: 0, room: ByteCount(bytes), bytes: ByteCount::ZERO }];
    let mut program = WriteAndSync(calls, NanoSpan::ZERO);
    let outcome = simulate_files(&host, &mut program, 1).expect("it runs");
    assert_eq!(outcome.bytes[1], bytes, "written once, whole");
    assert!(program.1 > NanoSpan::from_millis(300), "at the drive's rate: {:?}", program.1);
}
