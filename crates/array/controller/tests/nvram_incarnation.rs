//! The incarnation of NVRAM across a start: it ends when all that it held is on the members, and goes on when a device is
//! lost before, so that the next start still finds what is preserved and what was acknowledged since.
//!
//! A world of its own, because it starts again and again from metadata areas and NVRAM, and carries no data.

use raidlab_controller::{
    Action, Area, ArrayConfig, BufferSpace, CacheConfig, CacheMemory, Controller, HostOp, HostRequest,
    HostTag, MemberError, MemberOp, MemorySteps, MemoryTaskId, MetadataPolicy, Notice, PeerState, Resilience,
    WritePolicy,
};
use raidlab_format::{
    NVRAM_ENTRY_BYTES, NVRAM_LABEL_BYTES, NvramEntry, NvramImage, NvramLabel, StartNonce, StartOptions,
    assemble,
};
use raidlab_testkit::{ARRAY_UUID, BLOCK, array, new_areas, start_nonce};
use raidlab_units::{BlockCount, BlockSize, ByteCount, Lba, MemberIndex, Nanos};

const STRIP_BLOCKS: u64 = 4;

/// RAID 0 over two members with a kept cache of slots as long as a strip.
fn config() -> ArrayConfig {
    let strip = ByteCount(STRIP_BLOCKS * BLOCK as u64);
    let cache = CacheConfig {
        size: ByteCount(strip.0 * 4),
        block_size: strip,
        memory: CacheMemory::BatteryBacked,
        write_policy: WritePolicy::WriteBack,
        ..CacheConfig::default()
    };
    ArrayConfig {
        strip_size: strip,
        block_size: BlockSize::B512,
        member_size: ByteCount(strip.0 * 8),
        staging_size: ByteCount(64 * 1024),
        resilience: Resilience { metadata: MetadataPolicy::Resync, ..Resilience::default() },
        ..array("0", 2, cache)
    }
}

/// Metadata areas and NVRAM; data is not looked at.
struct World {
    controller: Option<Controller>,
    metadata: Vec<Vec<u8>>,
    /// The label only: this array has no log.
    nvram_log: Vec<u8>,
    directory: Vec<u8>,
    /// A member whose data can't be written any more.
    gone: Option<MemberIndex>,
    /// A member is pulled after so many writes of metadata.
    pulled_after: Option<(u32, MemberIndex)>,
    notices: Vec<Notice>,
    acknowledged: u32,
}

impl World {
    fn new(entries: &[(u32, NvramEntry)]) -> Self {
        let metadata = new_areas(&config(), false);
        let mut nvram_log = vec![0; 4096];
        let label = NvramLabel { array_uuid: ARRAY_UUID, nvram_epoch: 1, start: StartNonce::NONE };
        label.encode(&mut nvram_log[..NVRAM_LABEL_BYTES]);
        let mut directory = vec![0; 4 * NVRAM_ENTRY_BYTES];
        for (slot, entry) in entries {
            let at = *slot as usize * NVRAM_ENTRY_BYTES;
            directory[at..at + NVRAM_ENTRY_BYTES].copy_from_slice(&entry.encode(*slot));
        }
        let (notices, acknowledged) = (Vec::new(), 0);
        Self {
            controller: None,
            metadata,
            nvram_log,
            directory,
            gone: None,
            pulled_after: None,
            notices,
            acknowledged,
        }
    }

    /// Starts from what the devices and NVRAM hold; returns the blocks that NVRAM names.
    fn start(&mut self) -> Vec<u64> {
        let areas: Vec<_> = self.metadata.iter().map(|area| Some(&**area)).collect();
        let kept = NvramImage { log: &self.nvram_log, directory: &self.directory };
        let assembly = assemble(&areas, Some(kept), StartOptions::default()).expect("an array");
        let named = assembly.nvram_entries.iter().map(|(_, entry)| entry.block).collect();
        self.controller = Some(Controller::start(&config(), assembly, start_nonce()).expect("it starts"));
        self.notices.clear();
        self.settle();
        assert!(self.notices.contains(&Notice::Serving));
        named
    }

    fn write(&mut self, lba: u64) {
        let op = HostOp::Write { fua: false };
        let request = HostRequest { tag: HostTag(0), op, lba: Lba(lba), blocks: BlockCount(1) };
        self.controller.as_mut().expect("started").handle_host_request(Nanos::ZERO, request);
        self.settle();
    }

    fn settle(&mut self) {
        let mut controller = self.controller.take().expect("started");
        while let Some(action) = controller.poll_action() {
            match action {
                Action::Member(io) => {
                    let is_pulled = matches!(self.pulled_after, Some((0, pulled)) if pulled == io.member);
                    let gone = is_pulled || (self.gone == Some(io.member) && io.area == Area::Data);
                    if let (Area::Metadata, MemberOp::Write { .. }, false) = (io.area, io.op, gone) {
                        let mut segments = Vec::new();
                        controller.member_io_segments(io.id, &mut segments);
                        let mut at = io.lba.0 as usize * BLOCK;
                        for segment in segments {
                            let (from, bytes) = (segment.buffer.offset as usize, segment.bytes as usize);
                            let source = &controller.own_memory()[from..from + bytes];
                            self.metadata[io.member.index()][at..at + bytes].copy_from_slice(source);
                            at += bytes;
                        }
                    }
                    let result = if gone { Err(MemberError::Gone) } else { Ok(()) };
                    controller.handle_member_completion(Nanos::ZERO, io.id, result);
                    if let Some((left @ 1.., pulled)) = &mut self.pulled_after
                        && io.area == Area::Metadata
                    {
                        *left -= 1;
                        if *left == 0 {
                            controller.handle_member_loss(Nanos::ZERO, *pulled);
                        }
                    }
                }
                Action::Memory(task) => {
                    let mut steps = MemorySteps::default();
                    controller.memory_steps(task.id, &mut steps);
                    for step in
                        steps.steps.iter().filter(|step| step.destinations[0].space == BufferSpace::NvramLog)
                    {
                        let (from, to) = (steps.sources[step.first_source as usize], step.destinations[0]);
                        let source = &controller.own_memory()[from.offset as usize..][..step.bytes as usize];
                        self.nvram_log[to.offset as usize..][..step.bytes as usize].copy_from_slice(source);
                    }
                    controller.handle_memory_completion(Nanos::ZERO, task.id);
                }
                Action::Complete(completion) => {
                    completion.result.expect("nothing fails that is asked for here");
                    self.acknowledged += 1;
                }
                Action::Keep(keep) => {
                    let at = keep.slot as usize * NVRAM_ENTRY_BYTES;
                    self.directory[at..at + NVRAM_ENTRY_BYTES].copy_from_slice(&keep.bytes());
                }
                Action::Notice(notice) => self.notices.push(notice),
                Action::Timer { .. } => {}
            }
        }
        self.controller = Some(controller);
    }
}

/// Strips 0 and 1, on members 0 and 1.
const ENTRIES: [(u32, NvramEntry); 2] = [
    (0, NvramEntry { sequence: 1, block: 0, dirty: 1 }),
    (1, NvramEntry { sequence: 2, block: 1, dirty: 1 }),
];

#[test]
fn a_life_ends_when_all_that_it_held_is_on_the_members() {
    let mut world = World::new(&ENTRIES);
    let old_incarnation = world.nvram_log.clone();
    assert_eq!(world.start(), [0, 1]);
    assert_ne!(world.nvram_log, old_incarnation, "a new incarnation has begun");
    world.write(8);
    assert_eq!(world.acknowledged, 1, "from the cache");
    assert_eq!(world.start(), [2], "what was acknowledged in the new incarnation is found");
}

#[test]
fn a_life_goes_on_when_a_device_is_lost_during_the_start() {
    let mut world = World::new(&ENTRIES);
    world.gone = Some(MemberIndex(1));
    assert_eq!(world.start(), [0, 1]);
    assert!(world.notices.contains(&Notice::MemberFailed { member: MemberIndex(1) }));
    world.write(0);
    assert_eq!(world.acknowledged, 1, "member 0 is there, and the cache is kept");
    world.gone = None;
    let mut named = world.start();
    named.sort_unstable();
    assert_eq!(named, [0, 1], "what the lost device should hold, and what was acknowledged since");
    assert_eq!(world.start(), [0; 0], "and now it is stored");
}

/// Whichever write of metadata a device is lost after: what is acknowledged then is found by the next start.
#[test]
fn a_device_may_be_lost_while_the_devices_are_told_of_the_next_life() {
    let mut incarnations = Vec::new();
    for writes in 1..=6 {
        let mut world = World::new(&ENTRIES);
        let old_incarnation = world.nvram_log.clone();
        world.pulled_after = Some((writes, MemberIndex(1)));
        assert_eq!(world.start(), [0, 1]);
        assert!(world.notices.contains(&Notice::MemberFailed { member: MemberIndex(1) }), "{writes} writes");
        incarnations.push(world.nvram_log == old_incarnation);
        world.write(0);
        assert_eq!(world.acknowledged, 1, "member 0 is there, and the cache is kept");
        world.pulled_after = None;
        assert!(world.start().contains(&0), "after {writes} writes");
    }
    assert!(
        incarnations.is_sorted_by(|before, after| before >= after),
        "the old one, and from some write on the new one"
    );
    assert!(incarnations[0] && !incarnations[5]);
}

/// Starts an array with a mirrored cache from memory of no incarnation, and lets the second controller come while the label of the
/// new incarnation is written. Returns the controller and how many labels are on their way.
fn start_with_a_late_peer(world: &World) -> (Controller, Vec<MemoryTaskId>) {
    let mut config = config();
    config.cache.mirror = true;
    let areas: Vec<_> = world.metadata.iter().map(|area| Some(&**area)).collect();
    let assembly = assemble(&areas, None, StartOptions::default()).expect("an array");
    let mut controller = Controller::start(&config, assembly, start_nonce()).expect("it starts");
    controller.handle_peer(Nanos::ZERO, PeerState::Gone);
    let mut labels = Vec::new();
    while let Some(action) = controller.poll_action() {
        match action {
            Action::Member(io) => controller.handle_member_completion(Nanos::ZERO, io.id, Ok(())),
            Action::Memory(task) => {
                if labels.is_empty() {
                    controller.handle_peer(Nanos::ZERO, PeerState::Present);
                }
                labels.push(task.id);
            }
            Action::Notice(_) | Action::Keep(_) | Action::Timer { .. } | Action::Complete(_) => {}
        }
    }
    (controller, labels)
}

/// Regression: it got no label, and was taken for one that could take over.
#[test]
fn a_peer_that_comes_while_the_label_is_written_gets_it_too() {
    let (mut controller, labels) = start_with_a_late_peer(&World::new(&[]));
    let mut reaches_peer = false;
    for label in labels {
        assert!(!controller.is_mirroring(), "not before the other has the label");
        let mut steps = MemorySteps::default();
        controller.memory_steps(label, &mut steps);
        let mut places = steps.steps.iter().flat_map(|step| step.destinations);
        reaches_peer |= places.any(|place| place.space == BufferSpace::PeerNvramLog);
        controller.handle_memory_completion(Nanos::ZERO, label);
        while let Some(action) = controller.poll_action() {
            if let Action::Member(io) = action {
                controller.handle_member_completion(Nanos::ZERO, io.id, Ok(()));
            }
        }
    }
    assert!(reaches_peer);
    assert!(controller.is_serving());
    assert!(controller.is_mirroring());
}
