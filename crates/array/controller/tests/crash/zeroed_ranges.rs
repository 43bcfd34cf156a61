//! Block checksums of zeros are believed only where nobody has written: a range of a member that became zeros, tags and all (a hole
//! punched, a file truncated and grown, a drive that discards), is found, made up from redundancy, and never read as data.

use super::with_integrity;
use super::world::{Device, World};
use raidlab_controller::{ArrayConfig, HostError, HostOp, MetadataPolicy, RecordedWrites, Scan};
use raidlab_format::AreaLayout;
use raidlab_testkit::BLOCK;
use raidlab_units::{Lba, Nanos};

/// Blocks of a strip, behind which stands one of tags.
const STRIP: u64 = 4;

fn config(level: &str, members: u16) -> ArrayConfig {
    with_integrity(super::config(level, members, MetadataPolicy::Log))
}

impl World {
    fn restart(self, config: &ArrayConfig) -> Self {
        Self::start(config, self.devices, u64::MAX)
    }

    fn device(&mut self, member: usize) -> &mut Device {
        self.devices[member].as_mut().expect("all are there")
    }

    fn write(&mut self, lba: u64, blocks: u64) -> Option<Result<(), HostError>> {
        let data = (lba..lba + blocks).flat_map(pattern).collect();
        let tag = self.submit(HostOp::Write { fua: true }, lba, data).ok()?;
        self.end_of(tag)
    }

    /// Reads one block; its bytes unless it is an error.
    fn read(&mut self, lba: u64) -> Result<Vec<u8>, HostError> {
        let lost = self.lost;
        let bytes = self.request(HostOp::Read, lba, vec![0x11; BLOCK]).expect("power is not cut");
        if self.lost == lost { Ok(bytes) } else { Err(HostError::DataLost { lba: Lba(lba) }) }
    }

    fn volume(&self) -> u64 {
        self.controller.volume_blocks().0
    }

    fn scan(&mut self, scan: Scan) {
        self.controller.handle_scan(Nanos::ZERO, scan).expect("nothing else runs");
        self.run().expect("power is not cut");
    }
}

fn pattern(lba: u64) -> Vec<u8> {
    (0..BLOCK as u64).map(|at| (lba * 7 + at * 3 + 1) as u8).collect()
}

const REDUNDANT: [(&str, u16); 7] =
    [("1", 2), ("1", 3), ("5", 4), ("6", 5), ("10", 4), ("10:far", 4), ("1e", 5)];

/// Zeroes all of a member's data area from a strip on.
fn zero(world: &mut World, member: usize, from_strip: u64) {
    world.device(member).data[(from_strip * (STRIP + 1)) as usize * BLOCK..].fill(0);
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
                let before: Vec<_> =
                    (0..usize::from(members)).map(|it| world.device(it).data.clone()).collect();
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
                    let same = world.device(other).data == before[other];
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

/// Defect: what RAID 0 could not read was an error to the host and nothing else: no block was listed, and no recovery tried it again.
#[test]
fn what_cannot_be_read_is_known_tried_again_and_written_anew() {
    for (level, members) in REDUNDANT.into_iter().chain([("0", 3), ("jbod", 3)]) {
        for is_checked in [false, true] {
            let config = config(level, members);
            let mut world = World::create(&config);
            let volume = world.volume();
            assert_eq!(world.write(0, volume), Some(Ok(())));
            let whole: Vec<_> = (0..usize::from(members)).map(|it| world.device(it).data.clone()).collect();
            (0..usize::from(members)).for_each(|member| zero(&mut world, member, 2));
            if is_checked {
                world.scan(Scan::Check);
            }
            let found = world.controller.health().lost_blocks.0;
            let lost = (0..volume).filter(|lba| world.read(*lba).is_err()).count() as u64;
            assert!(lost > 0, "RAID {level}: all but two strips of each member are zeros");
            assert_eq!(found, if is_checked { lost } else { 0 }, "RAID {level}: a check finds all");
            assert_eq!(world.controller.health().lost_blocks.0, lost, "RAID {level}");
            let mut world = world.restart(&config);
            assert_eq!(world.controller.health().lost_blocks.0, lost, "RAID {level}: the devices know");
            (0..).zip(whole).for_each(|(member, whole)| world.device(member).data = whole);
            world.scan(Scan::Recover);
            assert_eq!(world.controller.health().lost_blocks.0, 0, "RAID {level}: it can be read again");
            (0..usize::from(members)).for_each(|member| zero(&mut world, member, 2));
            assert_eq!((0..volume).filter(|lba| world.read(*lba).is_err()).count() as u64, lost);
            assert_eq!(world.write(0, volume), Some(Ok(())));
            assert_eq!(world.controller.health().lost_blocks.0, 0, "RAID {level}: it was written");
            assert!((0..volume).all(|lba| world.read(lba) == Ok(pattern(lba))), "RAID {level}");
        }
    }
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

/// Power is cut after each action of the first writes: whatever is there then, what was acknowledged is read, what was never
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
    let old = world.device(1).metadata.clone();
    let volume = world.volume();
    assert_eq!(world.write(0, volume), Some(Ok(())));
    let area = AreaLayout::of(&config.geometry(raidlab_testkit::ARRAY_UUID));
    let [from, to] = [area.written[0].offset_bytes as usize, area.written[1].end_bytes() as usize];
    // What one member says of written regions is lost; the other's counts for both.
    world.device(1).metadata[from..to].copy_from_slice(&old[from..to]);
    let mut world = world.restart(&config);
    zero(&mut world, 1, 0);
    for lba in 0..volume {
        assert!(world.read(lba) == Ok(pattern(lba)), "block {lba}");
    }
    world.device(0).metadata[from..to].fill(0);
    let mut world = world.restart(&config);
    zero(&mut world, 0, 0);
    world.scan(Scan::Repair);
    for lba in 0..volume {
        assert!(world.read(lba) == Ok(pattern(lba)), "block {lba}: the start has renewed the map");
    }
}

/// Defect: after a crash a resync took zeros of the first copy, tags and all, for what a write may have left, and gave them to the others.
#[test]
fn what_a_crash_leaves_in_doubt_is_not_zeros() {
    for policy in [MetadataPolicy::Log, MetadataPolicy::Bitmap] {
        for (level, members) in REDUNDANT {
            for member in 0..usize::from(members) {
                let config = with_integrity(super::config(level, members, policy));
                let mut world = World::create(&config);
                let volume = world.volume();
                assert_eq!(world.write(0, volume), Some(Ok(())), "RAID {level}");
                zero(&mut world, member, 1);
                let mut world = world.restart(&config);
                for lba in 0..volume {
                    let found = world.read(lba);
                    // Parity of what may have been under way makes up nothing that can be relied on.
                    let is_lost = policy == MetadataPolicy::Bitmap && found.is_err();
                    assert!(
                        found == Ok(pattern(lba)) || is_lost,
                        "RAID {level}, member {member}, block {lba}"
                    );
                }
            }
        }
    }
}

/// Defect: where the map was zeros on all devices, nothing counted as written, and zeroed ranges were believed.
#[test]
fn what_no_device_knows_is_looked_at_before_zeros_are_believed() {
    for (level, members) in REDUNDANT.into_iter().chain([("0", 3), ("jbod", 3)]) {
        let config = config(level, members);
        let mut world = World::create(&config);
        let volume = world.volume();
        let written = volume / 2;
        assert_eq!(world.write(0, written), Some(Ok(())), "RAID {level}");
        let mut world = world.restart(&config);
        assert_eq!(world.controller.recorded_writes(), Some(RecordedWrites::All), "RAID {level}");
        let area = AreaLayout::of(&config.geometry(raidlab_testkit::ARRAY_UUID));
        let map = area.written[0].offset_bytes as usize..area.written[1].end_bytes() as usize;
        (0..usize::from(members)).for_each(|member| world.device(member).metadata[map.clone()].fill(0));
        zero(&mut world, 1, 1);
        let mut world = world.restart(&config);
        assert!(world.is_map_lost, "RAID {level}");
        let is_redundant = !matches!(level, "0" | "jbod");
        for lba in 0..volume {
            let found = world.read(lba);
            let right = if lba < written { pattern(lba) } else { vec![0; BLOCK] };
            let is_error = found.is_err() && !is_redundant;
            // What one device alone has at its height is zeros on that, if nothing beside it was written.
            let is_alone = level == "jbod" && found == Ok(vec![0; BLOCK]);
            assert!(
                found.clone() == Ok(right) || is_error || is_alone,
                "RAID {level}: block {lba} of {written}, {volume}: {:?}",
                found.map(|it| it[0])
            );
        }
        world.scan(Scan::Check);
        assert_eq!(
            world.controller.recorded_writes(),
            Some(RecordedWrites::All),
            "RAID {level}: all was looked at"
        );
        let mut world = world.restart(&config);
        assert_eq!(
            world.controller.recorded_writes(),
            Some(RecordedWrites::All),
            "RAID {level}: and is known"
        );
        let before = world.mismatches;
        world.scan(Scan::Check);
        assert!(world.mismatches == before || !is_redundant, "RAID {level}: healed");
    }
}

/// Defect: the host was served before, so that what it wrote was recorded on some devices only, and a start without these believed zeros.
#[test]
fn nothing_is_written_before_all_devices_have_what_some_have_recorded() {
    let config = config("1", 2);
    let mut world = World::create(&config);
    let old = world.device(1).metadata.clone();
    assert_eq!(world.write(0, 1), Some(Ok(())));
    let [first, second] = AreaLayout::of(&config.geometry(raidlab_testkit::ARRAY_UUID)).written;
    let (from, to) = (first.offset_bytes as usize, second.end_bytes() as usize);
    world.device(1).metadata[from..to].copy_from_slice(&old[from..to]);
    let withheld = (from / BLOCK) as u64..(to / BLOCK) as u64;
    let mut world = World::start_without(&config, world.devices, (u64::MAX, withheld));
    assert_eq!(world.held.len(), 1, "the page is on its way");
    let before = world.data_writes;
    assert_eq!(world.read(0), Ok(pattern(0)), "reads don't wait");
    let tag = world.submit(HostOp::Write { fua: true }, 0, pattern(0)).expect("power is not cut");
    assert_eq!(world.end_of(tag), None, "it waits");
    assert_eq!(world.data_writes, before, "nothing is written in place");
    let io = world.held.remove(0);
    world.withheld = 0..0;
    world.controller.handle_member_completion(Nanos::ZERO, io.id, Ok(()));
    world.run().expect("power is not cut");
    assert_eq!(world.end_of(tag), Some(Ok(())));
    assert!(world.data_writes > before);
}
