//! Block checksums of zeros are believed only where nobody has written: a range of a member that became zeros, tags and all (a hole
//! punched, a file truncated and grown, a drive that discards), is found, made up from redundancy, and never read as data.
//!
//! A world of its own, because it zeroes devices between starts and counts what nobody has written as zeros; memories are the test kit's.

use raidlab_controller::{
    Action, Area, ArrayConfig, BufferSpace, CacheConfig, Controller, HostError, HostOp, HostRequest, HostTag,
    MemberOp, MemoryKind, MemorySteps, MetadataPolicy, Notice, Scan,
};
use raidlab_format::{AreaLayout, StartOptions, assemble};
use raidlab_testkit::{BLOCK, Memories, new_areas, start_nonce};
use raidlab_units::{BlockCount, BlockSize, ByteCount, Lba, Nanos};

const STRIP: u64 = 4;
const ROWS: u64 = 8;

fn config(level: &str, members: u16) -> ArrayConfig {
    let strip_size = ByteCount(STRIP * BLOCK as u64);
    let cache = CacheConfig {
        size: ByteCount(64 * BLOCK as u64),
        block_size: ByteCount(4 * BLOCK as u64),
        ..CacheConfig::default()
    };
    let mut config = ArrayConfig {
        strip_size,
        block_size: BlockSize::B512,
        // A block of tags behind each strip.
        member_size: ByteCount(ROWS * (STRIP + 1) * BLOCK as u64),
        staging_size: ByteCount(64 * 1024),
        ..raidlab_testkit::array(level, members, cache)
    };
    config.resilience.integrity = true;
    config.resilience.metadata = MetadataPolicy::Log;
    config.resilience.log_size = ByteCount(32 * 1024);
    config
}

#[derive(Clone)]
struct Device {
    data: Vec<u8>,
    metadata: Vec<u8>,
}

struct World {
    controller: Controller,
    devices: Vec<Device>,
    staging: Vec<u8>,
    cache: Vec<u8>,
    host: Vec<u8>,
    result: Option<Result<(), HostError>>,
    mismatches: usize,
    writes: usize,
    /// Member I/Os left until power is cut.
    fuse: usize,
}

impl World {
    fn create(config: &ArrayConfig) -> Self {
        let data = vec![0; config.member_size.0 as usize];
        let areas = new_areas(config, false).into_iter();
        Self::start(config, areas.map(|metadata| Device { data: data.clone(), metadata }).collect())
    }

    fn start(config: &ArrayConfig, devices: Vec<Device>) -> Self {
        let areas: Vec<_> = devices.iter().map(|device| Some(&*device.metadata)).collect();
        let assembly = assemble(&areas, None, StartOptions::default()).expect("an array");
        let controller = Controller::start(config, assembly, start_nonce()).expect("it starts");
        let needs = controller.memory_needs();
        let mut world = Self {
            staging: vec![0xee; needs.staging_bytes.0 as usize],
            cache: vec![0xcc; needs.cache_bytes.0 as usize],
            controller,
            devices,
            host: Vec::new(),
            result: None,
            mismatches: 0,
            writes: 0,
            fuse: usize::MAX,
        };
        world.run();
        world
    }

    fn restart(self, config: &ArrayConfig) -> Self {
        Self::start(config, self.devices)
    }

    fn run(&mut self) {
        while let Some(action) = self.controller.poll_action() {
            match action {
                Action::Member(io) => {
                    if self.fuse == 0 {
                        return;
                    }
                    self.fuse -= 1;
                    let mut segments = Vec::new();
                    self.controller.member_io_segments(io.id, &mut segments);
                    let bytes = self.gather(&segments);
                    let device = &mut self.devices[io.member.index()];
                    let area = if io.area == Area::Data { &mut device.data } else { &mut device.metadata };
                    let at = io.lba.0 as usize * BLOCK;
                    match io.op {
                        MemberOp::Read => {
                            let bytes = area[at..at + bytes.len()].to_vec();
                            self.scatter(&bytes, &segments);
                        }
                        MemberOp::Write { .. } => {
                            self.writes += 1;
                            area[at..at + bytes.len()].copy_from_slice(&bytes);
                        }
                        MemberOp::Flush | MemberOp::Discard => {}
                    }
                    self.controller.handle_member_completion(Nanos::ZERO, io.id, Ok(()));
                }
                Action::Memory(task) if task.kind == MemoryKind::Digest => {
                    let mut rows = Vec::new();
                    self.controller.digest_rows(task.id, &mut rows);
                    let digests = self.digests(&rows);
                    self.controller.handle_digests(Nanos::ZERO, task.id, &digests);
                }
                Action::Memory(task) => {
                    let mut steps = MemorySteps::default();
                    self.controller.memory_steps(task.id, &mut steps);
                    self.compute(&steps, || true);
                    self.controller.handle_memory_completion(Nanos::ZERO, task.id);
                }
                Action::Complete(completion) => self.result = Some(completion.result),
                Action::Notice(Notice::Mismatch { .. }) => self.mismatches += 1,
                Action::Timer { .. } | Action::Keep(_) | Action::Notice(_) => {}
            }
        }
    }

    fn request(&mut self, op: HostOp, lba: u64, blocks: u64) -> Option<Result<(), HostError>> {
        self.result = None;
        let request = HostRequest { tag: HostTag(0), op, lba: Lba(lba), blocks: BlockCount(blocks) };
        self.controller.handle_host_request(Nanos::ZERO, request);
        self.run();
        self.result
    }

    fn write(&mut self, lba: u64, blocks: u64) -> Option<Result<(), HostError>> {
        self.host = (lba..lba + blocks).flat_map(pattern).collect();
        self.request(HostOp::Write { fua: true }, lba, blocks)
    }

    /// Reads one block; its bytes unless it is an error.
    fn read(&mut self, lba: u64) -> Result<Vec<u8>, HostError> {
        self.host = vec![0x11; BLOCK];
        self.request(HostOp::Read, lba, 1).expect("it is answered").map(|()| self.host.clone())
    }

    fn volume(&self) -> u64 {
        self.controller.volume_blocks().0
    }

    fn scan(&mut self, scan: Scan) {
        self.controller.handle_scan(Nanos::ZERO, scan).expect("nothing else runs");
        self.run();
    }
}

impl Memories for World {
    fn space(&mut self, space: BufferSpace) -> &mut [u8] {
        match space {
            BufferSpace::Own => self.controller.own_memory_mut(),
            BufferSpace::Host(_) => &mut self.host,
            BufferSpace::Staging => &mut self.staging,
            BufferSpace::Cache => &mut self.cache,
            other => panic!("{other:?} is not written here"),
        }
    }
}

fn pattern(lba: u64) -> Vec<u8> {
    (0..BLOCK as u64).map(|at| (lba * 7 + at * 3 + 1) as u8).collect()
}

const REDUNDANT: [(&str, u16); 7] =
    [("1", 2), ("1", 3), ("5", 4), ("6", 5), ("10", 4), ("10:far", 4), ("1e", 5)];

/// Zeroes all of a member's data area from a strip on.
fn zero(world: &mut World, member: usize, from_strip: u64) {
    world.devices[member].data[(from_strip * (STRIP + 1)) as usize * BLOCK..].fill(0);
}

#[test]
fn a_zeroed_range_is_found_and_made_up() {
    for (level, members) in REDUNDANT {
        for member in 0..usize::from(members) {
            for repairs_first in [false, true] {
                let config = config(level, members);
                let mut world = World::create(&config);
                let volume = world.volume();
                // All but the last blocks.
                assert_eq!(world.write(0, volume - 3), Some(Ok(())), "RAID {level}");
                let mut world = world.restart(&config);
                zero(&mut world, member, 2);
                let before = world.devices.clone();
                if repairs_first {
                    world.scan(Scan::Repair);
                }
                for lba in 0..volume {
                    let expected = if lba < volume - 3 { pattern(lba) } else { vec![0; BLOCK] };
                    assert!(world.read(lba) == Ok(expected), "RAID {level}, member {member}, block {lba}");
                }
                world.scan(Scan::Repair);
                let found = world.mismatches;
                assert!(found > 0, "RAID {level}, member {member}");
                for other in (0..usize::from(members)).filter(|other| *other != member) {
                    let same = world.devices[other].data == before[other].data;
                    assert!(same, "RAID {level}: member {other} changed for member {member}");
                }
                let mut world = world.restart(&config);
                world.scan(Scan::Check);
                assert_eq!(world.mismatches, 0, "RAID {level}, member {member}: healed");
            }
        }
    }
}

#[test]
fn without_redundancy_a_zeroed_range_is_an_error() {
    let config = config("0", 3);
    let mut world = World::create(&config);
    let volume = world.volume();
    assert_eq!(world.write(0, volume / 2), Some(Ok(())));
    zero(&mut world, 1, 0);
    let lost = (0..volume).filter(|lba| match world.read(*lba) {
        Ok(bytes) if *lba < volume / 2 => {
            assert!(bytes == pattern(*lba), "block {lba}");
            false
        }
        Ok(bytes) => {
            assert!(bytes == vec![0; BLOCK], "nobody has written block {lba}");
            false
        }
        Err(_) => {
            assert!(*lba < volume / 2, "block {lba} was never written");
            true
        }
    });
    assert_eq!(lost.count() as u64, volume / 2 / 3, "the third of what was written");
}

#[test]
fn a_region_is_initialised_once() {
    let config = config("5", 4);
    let mut world = World::create(&config);
    let mut count = |lba| {
        let before = world.writes;
        assert_eq!(world.write(lba, 1), Some(Ok(())));
        world.writes - before
    };
    let (first, again, next) = (count(0), count(1), count(3 * STRIP));
    assert_eq!(next - again, 8, "tags of four members and four copies of the map");
    assert!(first >= next, "{first} writes, and then {next}");
}

/// Power is cut after each member I/O of the first writes: whatever is there then, what was acknowledged is read, what was never
/// written is zeros, and nothing disagrees.
#[test]
fn a_cut_while_a_region_becomes_written_is_harmless() {
    for (level, members) in [("0", 2), ("1", 2), ("5", 3), ("6", 4)] {
        let config = config(level, members);
        for fuse in 0.. {
            let mut world = World::create(&config);
            world.fuse = fuse;
            let mut done = 0;
            for lba in [0, 1, 9] {
                if world.write(lba, 1) != Some(Ok(())) {
                    break;
                }
                done += 1;
            }
            let is_cut = world.fuse == 0;
            let mut world = world.restart(&config);
            for lba in 0..world.volume() {
                let bytes = world.read(lba).unwrap_or_else(|error| panic!("RAID {level}, {fuse}: {error:?}"));
                let is_old = bytes == vec![0; BLOCK];
                let written = [0, 1, 9].iter().position(|it| *it == lba);
                let right = match written {
                    Some(number) if number < done => bytes == pattern(lba),
                    Some(number) if number == done => is_old || bytes == pattern(lba),
                    _ => is_old,
                };
                assert!(right, "RAID {level}, cut after {fuse}: block {lba}");
            }
            assert_eq!(world.mismatches, 0, "RAID {level}, cut after {fuse}");
            if !is_cut {
                break;
            }
        }
    }
}

/// One member's map is enough, and a start gives it to the others.
#[test]
fn an_older_map_takes_nothing_back() {
    let config = config("1", 2);
    let mut world = World::create(&config);
    let old = world.devices[1].metadata.clone();
    let volume = world.volume();
    assert_eq!(world.write(0, volume), Some(Ok(())));
    let area = AreaLayout::of(&config.geometry(raidlab_testkit::ARRAY_UUID));
    let [from, to] = [area.written[0].offset_bytes as usize, area.written[1].end_bytes() as usize];
    // What one member says of written regions is lost; the other's counts for both.
    world.devices[1].metadata[from..to].copy_from_slice(&old[from..to]);
    let mut world = world.restart(&config);
    zero(&mut world, 1, 0);
    for lba in 0..volume {
        assert!(world.read(lba) == Ok(pattern(lba)), "block {lba}");
    }
    world.devices[0].metadata[from..to].fill(0);
    let mut world = world.restart(&config);
    zero(&mut world, 0, 0);
    world.scan(Scan::Repair);
    for lba in 0..volume {
        assert!(world.read(lba) == Ok(pattern(lba)), "block {lba}: the start has renewed the map");
    }
}
