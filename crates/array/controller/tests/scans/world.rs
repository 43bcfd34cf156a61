//! A small world with real bytes: devices with bad blocks that come and go, writes that are lost or go to a wrong
//! place, actions finished one by one in any order, and a reference of what the host wrote.
//!
//! Verified by [`World::check_devices`]: every block of every device that the controller relies on holds what it
//! should, and so does its tag.
//! Not verified: who may touch which bytes at the same time; the torture world does that.
//!
//! A world of its own, because tests damage single blocks and checksums and compare whole devices; memories are the test kit's.

use raidlab_controller::{
    Action, ArrayConfig, BufferSpace, CacheConfig, CacheMemory, Controller, DeviceState, HostError, HostOp,
    HostRequest, HostTag, MemberError, MemberIo, MemberIoId, MemberOp, MemoryKind, MemorySteps, MemoryTask,
    Notice, WritePolicy,
};
use raidlab_format::{DeviceUuid, NO_TAG, TAG_BYTES, row_checksum, tag, tag_blocks};
use raidlab_raid::{Layout, StripUnit, gf};
use raidlab_testkit::{BLOCK, Memories, Random, multiply};
use raidlab_units::{BlockCount, BlockSize, ByteCount, Lba, MemberIndex, MemberLba, NanoSpan, Nanos};
use std::collections::BTreeSet;

pub(crate) const STRIP: u64 = 8;

/// An array of strips of 8 blocks, `rows` strips on each member.
pub(crate) fn config(level: &str, members: u16, rows: u64) -> ArrayConfig {
    let strip_size = ByteCount(STRIP * BLOCK as u64);
    let cache = CacheConfig {
        size: ByteCount(16 * 1024),
        block_size: ByteCount(1024),
        memory: CacheMemory::BatteryBacked,
        write_policy: WritePolicy::WriteThrough,
        flush_start_pct: 50,
        flush_stop_pct: 20,
        flush_after: NanoSpan::from_millis(1),
        flush_iodepth: 4,
        read_ahead: ByteCount(4096),
        ..CacheConfig::default()
    };
    ArrayConfig {
        strip_size,
        block_size: BlockSize::B512,
        member_size: ByteCount(strip_size.0 * rows),
        staging_size: ByteCount(strip_size.0 * u64::from(members + 2) * 3),
        ..raidlab_testkit::array(level, members, cache)
    }
}

/// The same array with tags behind each strip.
pub(crate) fn with_integrity(mut config: ArrayConfig) -> ArrayConfig {
    let strip_blocks = BlockCount(config.strip_size.0 / BLOCK as u64);
    let tag_rows = tag_blocks(strip_blocks, config.block_size).0;
    let strips = config.member_size.0 / config.strip_size.0;
    config.member_size.0 += strips * tag_rows * BLOCK as u64;
    config.resilience.integrity = true;
    config
}

/// A write that does not do what it says, once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WriteFault {
    pub(crate) device: u16,
    /// The block of the device that is not written.
    pub(crate) block: u64,
    /// Where it is written instead, if anywhere.
    pub(crate) to: Option<u64>,
}

pub(crate) struct Device {
    pub(crate) bytes: Vec<u8>,
    /// Can't be read until they are written.
    pub(crate) unreadable: BTreeSet<u64>,
    /// Until when no read succeeds.
    pub(crate) silent_until: Nanos,
    /// Can't be written.
    pub(crate) unwritable: BTreeSet<u64>,
    pub(crate) gone: bool,
}

/// Member I/Os since they were counted last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counted {
    pub(crate) reads: u32,
    pub(crate) writes: u32,
}

pub(crate) struct World {
    pub(crate) controller: Controller,
    pub(crate) devices: Vec<Device>,
    pub(crate) in_flight: Vec<Action>,
    pub(crate) notices: Vec<Notice>,
    pub(crate) results: Vec<Option<Result<(), HostError>>>,
    pub(crate) now: Nanos,
    /// What the host wrote last, by number; `None` where a write failed.
    pub(crate) reference: Vec<Option<u64>>,
    pub(crate) counted: Counted,
    /// Requests that failed, and writes that were lost after they were acknowledged.
    pub(crate) failed: u32,
    pub(crate) write_faults: Vec<WriteFault>,
    /// Reads may overlap writes, so that nobody knows what they should find.
    pub(crate) reads_race: bool,
    /// Tag blocks have been unreadable, so that some tags may be unknown.
    pub(crate) tags_lost: bool,
    strip: u64,
    tag_rows: u64,
    layout: Box<dyn Layout>,
    /// Under way on a device when it was lost.
    doomed: Vec<MemberIoId>,
    memories: [Vec<u8>; 2],
    hosts: Vec<Vec<u8>>,
    requests: Vec<Option<HostRequest>>,
    timers: [Option<Nanos>; Controller::TIMERS as usize],
    written: u64,
    random: Random,
}

impl World {
    /// An array whose volume holds write 0 everywhere. `seed` 0 finishes actions in order, others in any.
    pub(crate) fn new(config: &ArrayConfig, seed: u64) -> Self {
        let controller = Controller::new(config).expect("the configuration is possible");
        let layout = config.layout().expect("it has been built before");
        let needs = controller.memory_needs();
        let device = |_| Device {
            bytes: vec![0xee; config.member_size.0 as usize],
            unreadable: BTreeSet::new(),
            silent_until: Nanos::ZERO,
            unwritable: BTreeSet::new(),
            gone: false,
        };
        let devices: Vec<_> = (0..config.members + config.resilience.spares).map(device).collect();
        let volume = controller.volume_blocks().0 as usize;
        let memory = |bytes: ByteCount| vec![0xdd; bytes.0 as usize];
        let mut world = Self {
            controller,
            devices,
            layout,
            memories: [memory(needs.cache_bytes), memory(needs.staging_bytes)],
            in_flight: Vec::new(),
            doomed: Vec::new(),
            notices: Vec::new(),
            results: Vec::new(),
            now: Nanos(1),
            reference: vec![Some(0); volume],
            counted: Counted::default(),
            failed: 0,
            write_faults: Vec::new(),
            reads_race: false,
            tags_lost: false,
            strip: config.strip_size.0 / BLOCK as u64,
            tag_rows: if config.resilience.integrity {
                tag_blocks(BlockCount(config.strip_size.0 / BLOCK as u64), config.block_size).0
            } else {
                0
            },
            hosts: Vec::new(),
            requests: Vec::new(),
            timers: [None; Controller::TIMERS as usize],
            written: 0,
            random: Random(seed),
        };
        for (role, start, unit) in world.all_blocks() {
            let content = world.content(unit).expect("all of the volume is known");
            world.block_mut(role, start).copy_from_slice(&content);
            world.set_tag(role, start, tag(row_checksum(&content), role, MemberLba(start)));
        }
        world
    }

    pub(crate) fn draw(&mut self, below: u64) -> u64 {
        self.random.below(below)
    }

    /// Each block of the members that the layout uses: role, block, and what it is.
    pub(crate) fn all_blocks(&self) -> Vec<(MemberIndex, u64, (u64, StripUnit, u64))> {
        let rows = self.devices[0].bytes.len() / BLOCK;
        let roles = (0..self.layout.member_count()).map(MemberIndex);
        let blocks = roles.flat_map(|role| (0..rows as u64).map(move |block| (role, block)));
        let known = blocks.filter_map(|(role, block)| {
            let (stripe, unit, row) = self.layout.identify(role, MemberLba(block))?;
            Some((role, block, (stripe.0, unit, row.0)))
        });
        known.collect()
    }

    fn lba(&self, stripe: u64, strip: u16, row: u64) -> usize {
        let strips = stripe * u64::from(self.layout.shape().data_strips) + u64::from(strip);
        (strips * self.strip + row) as usize
    }

    /// What a block should hold, if that is known.
    fn content(&self, (stripe, unit, row): (u64, StripUnit, u64)) -> Option<Vec<u8>> {
        let data = |strip| {
            let lba = self.lba(stripe, strip, row);
            Some(pattern(lba as u64, self.reference[lba]?))
        };
        let StripUnit::Parity(parity) = unit else {
            let StripUnit::Data { strip, .. } = unit else { unreachable!("data or parity") };
            return data(strip);
        };
        let mut sum = vec![0; BLOCK];
        for strip in 0..self.layout.shape().data_strips {
            let factor = if parity == 0 { 1 } else { gf::pow2(strip) };
            for (sum, byte) in sum.iter_mut().zip(data(strip)?) {
                *sum ^= multiply(factor, byte);
            }
        }
        Some(sum)
    }

    /// Where on a device the block stands that the layout calls `block`.
    pub(crate) fn physical(&self, block: u64) -> u64 {
        block + block / self.strip * self.tag_rows
    }

    /// False for a block of tags.
    pub(crate) fn is_data(&self, physical: u64) -> bool {
        physical % (self.strip + self.tag_rows) < self.strip
    }

    /// Where on a device the tag block of it stands, and where in that its tag.
    pub(crate) fn tag_place(&self, block: u64) -> (u64, usize) {
        let behind = self.physical(block - block % self.strip) + self.strip;
        let byte = (block % self.strip) as usize * TAG_BYTES;
        (behind + (byte / BLOCK) as u64, byte % BLOCK)
    }

    fn tag_bytes(&mut self, device: MemberIndex, block: u64) -> &mut [u8] {
        let (tag_block, byte) = self.tag_place(block);
        let start = tag_block as usize * BLOCK + byte;
        &mut self.devices[device.index()].bytes[start..start + TAG_BYTES]
    }

    /// Sets the tag of a block, where there are tags.
    pub(crate) fn set_tag(&mut self, device: MemberIndex, block: u64, tag: u64) {
        if self.tag_rows > 0 {
            self.tag_bytes(device, block).copy_from_slice(&tag.to_le_bytes());
        }
    }

    fn check_tag(&self, device: MemberIndex, (role, block): (MemberIndex, u64), content: &[u8]) {
        if self.tag_rows == 0 {
            return;
        }
        let (tag_block, byte) = self.tag_place(block);
        let start = tag_block as usize * BLOCK + byte;
        let held = &self.devices[device.index()].bytes[start..start + TAG_BYTES];
        let held = u64::from_le_bytes(held.try_into().expect("eight bytes"));
        let is_right = held == tag(row_checksum(content), role, MemberLba(block));
        assert!(
            is_right || (self.tags_lost && held == NO_TAG),
            "{role} on device {device} has tag {held:#x} for block {block}"
        );
    }

    pub(crate) fn block_mut(&mut self, device: MemberIndex, block: u64) -> &mut [u8] {
        let start = self.physical(block) as usize * BLOCK;
        &mut self.devices[device.index()].bytes[start..start + BLOCK]
    }

    /// True for parity while there are stripes whose parity may be garbage.
    fn is_suspect(&self, (_, unit, _): (u64, StripUnit, u64)) -> bool {
        matches!(unit, StripUnit::Parity(_)) && self.controller.out_of_sync_stripes() > 0
    }

    /// The device that plays a role, and before which block of its.
    pub(crate) fn player(&self, role: MemberIndex) -> Option<(MemberIndex, u64)> {
        self.controller.device_states().enumerate().find_map(|(device, state)| {
            let device = MemberIndex(device as u16);
            match state {
                DeviceState::InSync { role: played } if played == role => Some((device, u64::MAX)),
                DeviceState::Rebuilding { role: played, boundary } if played == role => {
                    Some((device, boundary.0))
                }
                _ => None,
            }
        })
    }

    /// Holds every block that is relied on against the reference. Blocks on the list of bad ones are relied on by nobody.
    /// Returns how many blocks were compared.
    pub(crate) fn check_devices(&self) -> usize {
        let mut compared = 0;
        for (role, block, unit) in self.all_blocks() {
            let Some((device, end)) = self.player(role) else { continue };
            let is_bad = self
                .controller
                .bad_blocks()
                .any(|(bad, lba, blocks)| bad == device && (lba.0..lba.0 + blocks.0).contains(&block));
            let Some(content) = self.content(unit) else { continue };
            if block < end && !is_bad && !self.is_suspect(unit) {
                let start = self.physical(block) as usize * BLOCK;
                let held = &self.devices[device.index()].bytes[start..start + BLOCK];
                assert!(held == content, "{role} on device {device} holds block {block}, {unit:?}, wrong");
                self.check_tag(device, (role, block), &content);
                compared += 1;
            }
        }
        compared
    }

    /// What a crash may leave: parity that is garbage in every other stripe, and marked as such. Copies may differ after a
    /// crash, but each is as good as the others; here they agree.
    pub(crate) fn crash(&mut self) {
        let stripes = self.controller.lock_count();
        for key in (0..stripes).step_by(2) {
            self.controller.mark_out_of_sync(key..key + 1);
        }
        for (role, block, (stripe, unit, _)) in self.all_blocks() {
            if matches!(unit, StripUnit::Parity(_)) && stripe % 2 == 0 {
                self.block_mut(role, block).fill(0x66);
            }
        }
    }

    // Actions.

    pub(crate) fn pump(&mut self) {
        while let Some(action) = self.controller.poll_action() {
            match action {
                Action::Member(io) => {
                    match io.op {
                        MemberOp::Read => self.counted.reads += 1,
                        MemberOp::Write { .. } => self.counted.writes += 1,
                        MemberOp::Flush | MemberOp::Discard => {}
                    }
                    self.in_flight.push(action);
                }
                Action::Memory(_) => self.in_flight.push(action),
                Action::Complete(completion) => self.complete(completion.tag, completion.result),
                Action::Timer { id, at } => self.timers[id.0 as usize] = Some(at),
                Action::Notice(notice) => {
                    if let Notice::WriteLost { lba, blocks, .. } = notice {
                        self.reference[lba.0 as usize..(lba.0 + blocks.0) as usize].fill(None);
                        self.failed += 1;
                    }
                    self.notices.push(notice);
                }
                Action::Keep(_) => {}
            }
        }
    }

    pub(crate) fn count(&mut self) -> Counted {
        core::mem::take(&mut self.counted)
    }

    fn complete(&mut self, tag: HostTag, result: Result<(), HostError>) {
        let request = self.requests[tag.0 as usize].take().expect("under way");
        self.results[tag.0 as usize] = Some(result);
        self.failed += u32::from(result.is_err());
        for lba in request.lba.0..request.lba.0 + request.blocks.0 {
            let start = (lba - request.lba.0) as usize * BLOCK;
            let held = &self.hosts[tag.0 as usize][start..start + BLOCK];
            match (request.op, result) {
                (HostOp::Read, Ok(())) => {
                    if let Some(write) = self.reference[lba as usize].filter(|_| !self.reads_race) {
                        let right = held == pattern(lba, write);
                        assert!(right, "block {lba} is read wrong: write {} for {write}", number_of(held));
                    }
                }
                (HostOp::Write { .. }, Ok(())) => {
                    self.reference[lba as usize] = Some(number_of(held));
                }
                (HostOp::Write { .. }, Err(_)) => self.reference[lba as usize] = None,
                _ => {}
            }
        }
    }

    fn carry_out(&mut self, io: &MemberIo) -> Result<(), MemberError> {
        let (start, length) = (io.lba.0 as usize * BLOCK, io.blocks.0 as usize * BLOCK);
        let blocks = io.lba.0..io.lba.0 + io.blocks.0;
        let mut segments = Vec::new();
        self.controller.member_io_segments(io.id, &mut segments);
        let device = &mut self.devices[io.member.index()];
        let was_lost = self.doomed.iter().position(|doomed| *doomed == io.id);
        if let Some(index) = was_lost {
            self.doomed.swap_remove(index);
        }
        if device.gone || was_lost.is_some() {
            return Err(MemberError::Gone);
        }
        let bad = if io.op == MemberOp::Read { &device.unreadable } else { &device.unwritable };
        let is_silent = io.op == MemberOp::Read && self.now < device.silent_until;
        if io.op != MemberOp::Flush && (is_silent || bad.range(blocks.clone()).next().is_some()) {
            return Err(MemberError::Medium);
        }
        assert_eq!(segments.iter().map(|it| it.bytes).sum::<u64>(), length as u64);
        if io.op == MemberOp::Read {
            let read = device.bytes[start..start + length].to_vec();
            self.scatter(&read, &segments);
        } else {
            for (block, bytes) in (io.lba.0..).zip(self.gather(&segments).chunks_exact(BLOCK)) {
                self.write_block(io.member, block, bytes);
            }
        }
        if matches!(io.op, MemberOp::Write { .. }) {
            self.devices[io.member.index()].unreadable.retain(|block| !blocks.contains(block));
        }
        Ok(())
    }

    fn write_block(&mut self, device: MemberIndex, block: u64, bytes: &[u8]) {
        let hits = |fault: &WriteFault| (fault.device, fault.block) == (device.0, block);
        let fault = self.write_faults.iter().position(hits).map(|index| self.write_faults.swap_remove(index));
        let target = fault.map_or(Some(block), |fault| fault.to);
        if let Some(target) = target {
            let start = target as usize * BLOCK;
            self.devices[device.index()].bytes[start..start + BLOCK].copy_from_slice(bytes);
        }
    }

    fn work(&mut self, task: &MemoryTask) {
        let mut steps = MemorySteps::default();
        self.controller.memory_steps(task.id, &mut steps);
        self.compute(&steps, || true);
        if task.kind != MemoryKind::Digest {
            return self.controller.handle_memory_completion(self.now, task.id);
        }
        let mut rows = Vec::new();
        self.controller.digest_rows(task.id, &mut rows);
        let digests = self.digests(&rows);
        self.controller.handle_digests(self.now, task.id, &digests);
    }

    /// Finishes one action in flight.
    pub(crate) fn finish(&mut self, index: usize) {
        match self.in_flight.remove(index) {
            Action::Member(io) => {
                let result = self.carry_out(&io);
                self.controller.handle_member_completion(self.now, io.id, result);
            }
            Action::Memory(task) => self.work(&task),
            other => unreachable!("{other:?} is never in flight"),
        }
        self.pump();
    }

    /// Finishes one action, or lets the next timer be due. Returns false if there is neither.
    pub(crate) fn step(&mut self) -> bool {
        if self.in_flight.is_empty() {
            let due = |(index, at): (usize, &Option<Nanos>)| at.map(|at| (at, index));
            let Some((at, index)) = self.timers.iter().enumerate().filter_map(due).min() else {
                return false;
            };
            self.timers[index] = None;
            self.now = self.now.max(at);
            self.controller.handle_timer(self.now, raidlab_controller::TimerId(index as u32));
            self.pump();
            return true;
        }
        let count = self.in_flight.len() as u64;
        let index = if self.random.0 == 0 { 0 } else { self.draw(count) as usize };
        self.now = Nanos(self.now.0 + 1000);
        self.finish(index);
        true
    }

    /// Goes on until nothing is under way.
    pub(crate) fn settle(&mut self) {
        let mut steps = 0;
        while !self.controller.is_idle() || !self.in_flight.is_empty() {
            steps += 1;
            assert!(self.step(), "nothing is in flight and the controller is not idle");
            assert!(steps < 1_000_000, "it never ends: {:?}", &self.in_flight);
        }
    }

    // The host.

    pub(crate) fn submit(&mut self, op: HostOp, lba: u64, blocks: u64) -> usize {
        let free = self.requests.iter().position(Option::is_none).unwrap_or(self.requests.len());
        if free == self.requests.len() {
            self.requests.push(None);
            self.hosts.push(Vec::new());
            self.results.push(None);
        }
        self.hosts[free] = vec![0xaa; blocks as usize * BLOCK];
        if matches!(op, HostOp::Write { .. }) {
            self.written += 1;
            for block in 0..blocks {
                let start = block as usize * BLOCK;
                self.hosts[free][start..start + BLOCK].copy_from_slice(&pattern(lba + block, self.written));
            }
        }
        let tag = HostTag(free as u32);
        let request = HostRequest { tag, op, lba: Lba(lba), blocks: BlockCount(blocks) };
        self.requests[free] = Some(request);
        self.results[free] = None;
        self.controller.handle_host_request(self.now, request);
        self.pump();
        free
    }

    pub(crate) fn is_busy_with(&self, lba: u64, blocks: u64) -> bool {
        let overlaps =
            |request: &HostRequest| request.lba.0 < lba + blocks && lba < request.lba.0 + request.blocks.0;
        self.requests.iter().flatten().any(overlaps)
    }

    /// Does a request and all that it sets going.
    pub(crate) fn run(&mut self, op: HostOp, lba: u64, blocks: u64) -> Result<(), HostError> {
        let tag = self.submit(op, lba, blocks);
        self.settle();
        self.results[tag].expect("it has ended")
    }

    pub(crate) fn read(&mut self, lba: u64, blocks: u64) -> Result<(), HostError> {
        self.run(HostOp::Read, lba, blocks)
    }

    pub(crate) fn write(&mut self, lba: u64, blocks: u64) -> Result<(), HostError> {
        self.run(HostOp::Write { fua: false }, lba, blocks)
    }

    // Devices.

    pub(crate) fn lose(&mut self, device: u16) {
        self.devices[usize::from(device)].gone = true;
        self.devices[usize::from(device)].bytes.fill(0x99);
        for action in &self.in_flight {
            if let Action::Member(io) = action
                && io.member.0 == device
                && !self.doomed.contains(&io.id)
            {
                self.doomed.push(io.id);
            }
        }
        self.controller.handle_member_loss(self.now, MemberIndex(device));
        self.pump();
    }

    pub(crate) fn add(&mut self, device: u16) {
        let added = &mut self.devices[usize::from(device)];
        added.gone = false;
        added.unreadable.clear();
        added.unwritable.clear();
        let uuid = DeviceUuid([device as u8; 16]);
        self.controller.handle_device_added(self.now, MemberIndex(device), uuid);
        self.pump();
    }

    /// Adds a device if the array misses it.
    pub(crate) fn add_missing(&mut self, device: u16) {
        if self.state(device) == DeviceState::Missing {
            self.devices[usize::from(device)].gone = false;
            self.add(device);
        }
    }

    pub(crate) fn state(&self, device: u16) -> DeviceState {
        self.controller.device_states().nth(usize::from(device)).expect("there is such a device")
    }

    /// The list of bad blocks in short.
    pub(crate) fn bad(&self) -> Vec<(u16, u64, u64)> {
        self.controller.bad_blocks().map(|(device, lba, blocks)| (device.0, lba.0, blocks.0)).collect()
    }
}

impl Memories for World {
    fn space(&mut self, space: BufferSpace) -> &mut [u8] {
        match space {
            BufferSpace::Own => self.controller.own_memory_mut(),
            BufferSpace::Host(HostTag(tag)) => &mut self.hosts[tag as usize],
            BufferSpace::Cache => &mut self.memories[0],
            BufferSpace::Staging => &mut self.memories[1],
            other => panic!("this world has no {other:?}"),
        }
    }
}

/// What a block of the volume holds after a write.
pub(crate) fn pattern(lba: u64, write: u64) -> Vec<u8> {
    let mut block = Vec::with_capacity(BLOCK);
    while block.len() < BLOCK {
        let mixed =
            (lba + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ write.wrapping_mul(block.len() as u64 + 1);
        block.extend_from_slice(&write.to_le_bytes());
        block.extend_from_slice(&mixed.to_le_bytes());
    }
    block
}

fn number_of(block: &[u8]) -> u64 {
    u64::from_le_bytes(block[..8].try_into().expect("eight bytes"))
}
