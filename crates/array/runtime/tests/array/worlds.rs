//! One controller, two worlds: the same small workload through the virtual world of bytes and through real files leaves
//! the same bytes on every member, parity included, after the same number of member I/Os.
//!
//! Not verified: anything that depends on timing. Requests come one at a time, so that both worlds have the same order.

use super::common::{self, BLOCK, Random};
use raidlab_controller::{ArrayConfig, Counters, HostOp, MemberCache, WritePolicy};
use raidlab_raid::StripUnit;
use raidlab_runtime::{ArrayWorld, ScriptHost, ScriptOp};
use raidlab_torture::TortureWorld;
use raidlab_units::{BlockCount, Lba, MemberIndex};
use std::path::Path;
use std::sync::atomic::AtomicBool;

const LEVELS: [(&str, u16); 7] =
    [("0", 4), ("1", 2), ("1e", 3), ("5", 5), ("6", 6), ("10", 6), ("50:2-spans", 6)];
const REQUESTS: u64 = 200;
static GO_ON: AtomicBool = AtomicBool::new(false);

fn array(folder: &Path, config: &ArrayConfig) -> ArrayWorld {
    common::make(folder, config);
    common::start(folder, config).expect("the array starts")
}

fn serve(world: &mut ArrayWorld, op: ScriptOp) -> Vec<u8> {
    let mut host = ScriptHost::new(vec![op], BLOCK, 1);
    world.serve(&mut host, &GO_ON).expect("the array serves");
    host.into_results().remove(0).expect("the request ends").expect("nothing fails here")
}

/// What the members of the virtual world hold of a range of the volume, put together strip by strip.
fn volume_bytes(world: &TortureWorld, lba: Lba, blocks: BlockCount) -> Vec<u8> {
    let layout = world.controller().layout();
    let block_bytes = BLOCK.bytes() as usize;
    let block = |lba: u64| {
        let (stripe, strip, row) = layout.locate(Lba(lba));
        let place = layout.place(stripe, StripUnit::Data { strip, copy: 0 });
        let first = (place.start + row).0 as usize * block_bytes;
        &world.member_bytes(place.member)[first..first + block_bytes]
    };
    (lba.0..lba.0 + blocks.0).flat_map(block).copied().collect()
}

fn submit(world: &mut TortureWorld, op: HostOp, lba: Lba, blocks: BlockCount) {
    world.submit(op, lba, blocks).and_then(|_| world.await_host()).expect("the controller keeps its rules");
}

fn since(now: Counters, before: Counters) -> (u64, u64) {
    (now.member_reads - before.member_reads, now.member_writes - before.member_writes)
}

#[test]
fn the_virtual_and_the_real_world_leave_the_same_bytes_after_the_same_member_ios() {
    for (level, members) in LEVELS {
        let mut config = common::config(level, members, WritePolicy::WriteThrough);
        config.member_cache = MemberCache::Off;
        let folder = tempfile::tempdir().expect("a folder for the test");
        let (mut real, mut virtual_world) =
            (array(folder.path(), &config), TortureWorld::new(&config, 11).expect("an array"));
        let volume = real.volume_blocks();
        // The virtual members begin with data; the real ones get it, a stripe's length at a time.
        for first in (0..volume.0).step_by(64) {
            let (lba, blocks) = (Lba(first), BlockCount(64.min(volume.0 - first)));
            let bytes = volume_bytes(&virtual_world, lba, blocks);
            serve(&mut real, ScriptOp::Write { lba, bytes, fua: false });
        }
        let (real_before, virtual_before) = (real.counters(), virtual_world.controller().counters());
        let mut random = Random(29);
        for _ in 0..REQUESTS {
            let blocks = BlockCount(1 + random.below(24));
            let lba = Lba(random.below(volume.0 - blocks.0 + 1));
            if random.below(2) == 0 {
                submit(&mut virtual_world, HostOp::Write { fua: false }, lba, blocks);
                let bytes = volume_bytes(&virtual_world, lba, blocks);
                serve(&mut real, ScriptOp::Write { lba, bytes, fua: false });
            } else {
                submit(&mut virtual_world, HostOp::Read, lba, blocks);
                let read = serve(&mut real, ScriptOp::Read { lba, blocks });
                assert!(read == volume_bytes(&virtual_world, lba, blocks), "RAID {level}: {lba}+{blocks}");
            }
        }
        let real_ios = since(real.counters(), real_before);
        assert!(real_ios.0 > 0, "RAID {level}: nothing was read");
        assert_eq!(real_ios, since(virtual_world.controller().counters(), virtual_before), "RAID {level}");
        let layout = config.layout().expect("a valid configuration");
        drop(real);
        for (member, area) in common::data_areas(folder.path(), &config).iter().enumerate() {
            let member = MemberIndex(member as u16);
            let used = virtual_world.member_bytes(member);
            for block in 0..used.len() / BLOCK.bytes() as usize {
                let lba = raidlab_units::MemberLba(block as u64);
                if layout.identify(member, lba).is_some() {
                    let range = block * BLOCK.bytes() as usize..(block + 1) * BLOCK.bytes() as usize;
                    assert!(area[range.clone()] == used[range], "RAID {level}: block {block} of {member}");
                }
            }
        }
    }
}
