//! A small world with real bytes, whose actions under way end in any order, and whose power or whose controller can go
//! between any two actions (`cuts.rs` has what happens then).
//!
//! A world of its own, because its oracle follows what each acknowledgement promised; memories are the test kit's.

use crate::history::{History, Safe, Write};
use raidlab_controller::{
    Action, ArrayConfig, BatteryState, BufferSpace, CacheMemory, Controller, HostOp, HostRequest, HostTag,
    Keep, MemberCache, MemberIo, MemberIoId, MemberOp, MemorySteps, MemoryTaskId, Notice, PeerState, Segment,
    TimerId, WritePolicy,
};
use raidlab_format::NvramEntry;
use raidlab_testkit::{BLOCK, Memories};
use raidlab_units::{BlockCount, Lba, MemberIndex, Nanos};

/// Pseudo-random numbers (the generator `SplitMix64`).
pub(crate) struct Random(pub u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    pub(crate) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }

    /// True once in `odds` times.
    pub(crate) fn once_in(&mut self, odds: u64) -> bool {
        self.below(odds) == 0
    }
}

pub(crate) enum Doing {
    Member(MemberIo, Vec<Segment>),
    Memory(MemoryTaskId, MemorySteps),
}

/// What ends a controller's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    Power,
    /// The second controller takes over.
    Failover,
}

pub(crate) struct Host {
    op: HostOp,
    lba: u64,
    blocks: u64,
    issued: u64,
    number: u64,
}

/// Bytes of a controller's memories.
pub(crate) struct Banks {
    pub(crate) cache: Vec<u8>,
    pub(crate) peer_cache: Vec<u8>,
    pub(crate) staging: Vec<u8>,
    pub(crate) hosts: Vec<Vec<u8>>,
}

impl Memories for Banks {
    fn space(&mut self, space: BufferSpace) -> &mut [u8] {
        match space {
            BufferSpace::Cache => &mut self.cache,
            BufferSpace::PeerCache => &mut self.peer_cache,
            BufferSpace::Staging => &mut self.staging,
            BufferSpace::Host(HostTag(tag)) => &mut self.hosts[tag as usize],
            other => panic!("{other:?} is not part of this world"),
        }
    }
}

pub(crate) struct World {
    pub(crate) config: ArrayConfig,
    pub(crate) controller: Controller,
    pub(crate) random: Random,
    pub(crate) memories: Banks,
    pub(crate) directory: Vec<[u8; 32]>,
    pub(crate) peer_directory: Vec<[u8; 32]>,
    /// What members hold, and what of it would survive a power loss.
    pub(crate) members: Vec<Vec<u8>>,
    pub(crate) durable: Vec<Vec<u8>>,
    pub(crate) doing: Vec<Doing>,
    pub(crate) hosts: Vec<Option<Host>>,
    pub(crate) timer: Option<(TimerId, Nanos)>,
    pub(crate) history: History,
    pub(crate) battery: BatteryState,
    pub(crate) peer: PeerState,
    pub(crate) now: Nanos,
    pub(crate) stamp: u64,
    writes: u64,
    pub(crate) lossy: bool,
    /// Notices of lost writes.
    pub(crate) lost: Vec<Lba>,
    /// One cut in so many actions; 0 for none.
    pub(crate) cut_odds: u64,
    pub(crate) cuts: u64,
}

impl World {
    pub(crate) fn new(config: &ArrayConfig, seed: u64) -> Self {
        let mut random = Random(seed);
        let controller = Controller::new(config).unwrap_or_else(|error| panic!("{error}"));
        let needs = controller.memory_needs();
        let mut garbage = |bytes: u64| (0..bytes).map(|_| random.next() as u8).collect::<Vec<_>>();
        let memories = Banks {
            cache: garbage(needs.cache_bytes.0),
            peer_cache: garbage(needs.cache_bytes.0),
            staging: garbage(needs.staging_bytes.0),
            hosts: Vec::new(),
        };
        let members = vec![vec![0; config.member_size.0 as usize]; usize::from(config.members)];
        Self {
            history: History::new(controller.volume_blocks().0),
            config: config.clone(),
            memories,
            directory: vec![[0; 32]; needs.directory_entries as usize],
            peer_directory: vec![[0; 32]; needs.directory_entries as usize],
            durable: members.clone(),
            members,
            controller,
            random,
            doing: Vec::new(),
            hosts: Vec::new(),
            timer: None,
            battery: BatteryState::Good,
            peer: PeerState::Present,
            now: Nanos::ZERO,
            stamp: 1,
            writes: 0,
            lossy: false,
            lost: Vec::new(),
            cut_odds: 0,
            cuts: 0,
        }
    }

    pub(crate) fn waiting(&self) -> usize {
        self.hosts.iter().flatten().count()
    }

    pub(crate) fn kept(&self) -> bool {
        self.config.cache.memory == CacheMemory::BatteryBacked && self.battery == BatteryState::Good
    }

    pub(crate) fn volatile_members(&self) -> bool {
        self.config.member_cache == MemberCache::On
    }

    // The host and the operator. Each returns the cut that came of it, if one did.

    pub(crate) fn submit(&mut self, op: HostOp, lba: u64, blocks: u64) -> Option<Cut> {
        let free = self.hosts.iter().position(Option::is_none).unwrap_or(self.hosts.len());
        if free == self.hosts.len() {
            self.hosts.push(None);
            self.memories.hosts.push(Vec::new());
        }
        self.stamp += 1;
        let mut buffer = vec![0xa5; blocks as usize * BLOCK];
        let mut number = 0;
        if matches!(op, HostOp::Write { .. }) {
            self.writes += 1;
            number = self.writes;
            let fresh = Write {
                acked: None,
                power: Safe::No,
                failover: Safe::No,
                ..Write::settled(number, self.stamp)
            };
            for (index, block) in buffer.chunks_exact_mut(BLOCK).enumerate() {
                fill(block, lba + index as u64, number);
                let fresh = Write { promised: false, counts: false, ..fresh };
                self.history.blocks[lba as usize + index].push(fresh);
            }
        }
        self.memories.hosts[free] = buffer;
        self.hosts[free] = Some(Host { op, lba, blocks, issued: self.stamp, number });
        let request =
            HostRequest { tag: HostTag(free as u32), op, lba: Lba(lba), blocks: BlockCount(blocks) };
        self.controller.handle_host_request(self.now, request);
        self.pump()
    }

    pub(crate) fn set_battery(&mut self, state: BatteryState) -> Option<Cut> {
        self.battery = state;
        if state != BatteryState::Good {
            self.history.acked().filter(|it| it.power == Safe::InMemory).for_each(|it| it.power = Safe::No);
        }
        self.controller.handle_battery(self.now, state);
        self.pump()
    }

    pub(crate) fn change_battery(&mut self) -> Option<Cut> {
        let bad = [BatteryState::Charging, BatteryState::Learning, BatteryState::Failed];
        let bad = self.random.pick(&bad);
        self.set_battery(if self.battery == BatteryState::Good { bad } else { BatteryState::Good })
    }

    pub(crate) fn set_peer(&mut self, state: PeerState) -> Option<Cut> {
        if state == PeerState::Present && self.peer == PeerState::Gone {
            self.peer_directory.fill([0; 32]);
            self.memories.peer_cache.fill_with(|| self.random.next() as u8);
        }
        if state == PeerState::Gone {
            self.history
                .acked()
                .filter(|it| it.failover == Safe::InMemory)
                .for_each(|it| it.failover = Safe::No);
        }
        self.peer = state;
        self.controller.handle_peer(self.now, state);
        self.pump()
    }

    pub(crate) fn change_peer(&mut self) -> Option<Cut> {
        let next = if self.peer == PeerState::Gone { PeerState::Present } else { PeerState::Gone };
        self.set_peer(next)
    }

    pub(crate) fn destage_all(&mut self) -> Option<Cut> {
        self.controller.handle_destage_all(self.now);
        self.pump()
    }

    /// Takes a member away. What is dirty and what is named may then differ: see [`Notice::WriteLost`].
    pub(crate) fn lose_member(&mut self, member: u16) -> Option<Cut> {
        self.lossy = true;
        self.controller.handle_member_loss(self.now, MemberIndex(member));
        self.pump()
    }

    // Actions.

    pub(crate) fn pump(&mut self) -> Option<Cut> {
        while let Some(action) = self.controller.poll_action() {
            match action {
                Action::Member(io) => {
                    let mut segments = Vec::new();
                    self.controller.member_io_segments(io.id, &mut segments);
                    self.doing.push(Doing::Member(io, segments));
                }
                Action::Memory(task) => {
                    let mut steps = MemorySteps::default();
                    self.controller.memory_steps(task.id, &mut steps);
                    let out: u64 =
                        steps.steps.iter().map(|it| it.bytes * u64::from(it.destination_count)).sum();
                    assert_eq!(out, task.bytes_out, "a task says how much it writes");
                    self.doing.push(Doing::Memory(task.id, steps));
                }
                Action::Complete(completion) => {
                    let host = self.hosts[completion.tag.0 as usize].take().expect("it was asked for");
                    if completion.result.is_ok() {
                        self.acknowledge(&host, completion.tag.0);
                    }
                }
                Action::Timer { id, at } => self.timer = Some((id, at)),
                Action::Keep(keep) => self.keep(&keep),
                Action::Notice(Notice::WriteLost { lba, .. }) => self.lost.push(lba),
                Action::Notice(_) => {}
            }
            if self.cut_odds > 0 && self.random.once_in(self.cut_odds) {
                return Some(self.draw_cut());
            }
        }
        self.note_quiet();
        None
    }

    pub(crate) fn draw_cut(&mut self) -> Cut {
        if self.config.cache.mirror && self.random.once_in(2) { Cut::Failover } else { Cut::Power }
    }

    fn keep(&mut self, keep: &Keep) {
        self.directory[keep.slot as usize] = keep.bytes();
        if keep.mirrored {
            assert_eq!(self.peer, PeerState::Present, "nothing is mirrored to who is gone");
            self.peer_directory[keep.slot as usize] = keep.bytes();
        }
    }

    fn acknowledge(&mut self, host: &Host, tag: u32) {
        self.stamp += 1;
        match host.op {
            HostOp::Discard => {}
            HostOp::Read => self.check_read(host, tag),
            HostOp::Write { fua } => self.acknowledge_write(host, fua),
            HostOp::Flush => {
                let power = if self.kept() { Safe::InMemory } else { Safe::OnMembers };
                let earlier = self.history.acked().filter(|write| write.acked < Some(host.issued));
                for write in earlier {
                    write.promised = true;
                    write.power = if write.power == Safe::OnMembers { Safe::OnMembers } else { power };
                }
            }
        }
    }

    fn acknowledge_write(&mut self, host: &Host, fua: bool) {
        let cache = self.config.cache;
        let mirroring = !cache.mirror || self.controller.is_mirroring();
        let safe_memory = cache.memory == CacheMemory::Volatile || self.battery == BatteryState::Good;
        let back = match cache.write_policy {
            WritePolicy::WriteThrough => false,
            WritePolicy::WriteBack => safe_memory && mirroring,
            WritePolicy::WriteBackBadBattery => true,
        };
        let stays_on_members = fua || !self.volatile_members();
        let power = match (back, self.kept()) {
            (true, true) if stays_on_members => Safe::InMemory,
            (true, false) if fua => Safe::OnMembers,
            (false, _) if stays_on_members => Safe::OnMembers,
            _ => Safe::No,
        };
        let failover = match (back, mirroring) {
            (true, true) if cache.mirror => Safe::InMemory,
            (true, _) => Safe::No,
            (false, _) => Safe::OnMembers,
        };
        for lba in host.lba..host.lba + host.blocks {
            let writes = &mut self.history.blocks[lba as usize];
            let write = writes.iter_mut().find(|write| write.number == host.number).expect("it was issued");
            (write.acked, write.power, write.failover) = (Some(self.stamp), power, failover);
            write.promised = power != Safe::No;
        }
    }

    fn check_read(&mut self, host: &Host, tag: u32) {
        for (index, block) in self.memories.hosts[tag as usize].chunks_exact(BLOCK).enumerate() {
            let lba = host.lba + index as u64;
            let number = held(block, lba).unwrap_or_else(|| panic!("block {lba} was read as garbage"));
            let before = |write: &Write| write.acked < Some(host.issued);
            assert!(self.history.allows(lba, number, before), "block {lba} was read as write {number}");
        }
    }

    /// Notes what is safe by now, and checks that the directory names as many slots as are dirty.
    fn note_quiet(&mut self) {
        if self.controller.dirty_cache_blocks() == 0 {
            let volatile_members = self.volatile_members();
            self.history.reached_members(volatile_members);
        }
        if self.controller.is_mirroring() {
            self.note_mirrored();
        }
        let copies = self.doing.iter().any(|it| matches!(it, Doing::Memory(..)));
        if !copies && !self.directory.is_empty() && !self.lossy {
            let named = entries(&self.directory).len();
            assert_eq!(named, self.controller.dirty_cache_blocks() as usize, "entries for what is dirty");
        }
        if !copies && self.controller.is_mirroring() {
            self.check_mirror();
        }
    }

    pub(crate) fn note_mirrored(&mut self) {
        self.history.acked().filter(|it| it.failover == Safe::No).for_each(|it| it.failover = Safe::InMemory);
    }

    /// While the cache is mirrored the second controller has the same entries, and the same bytes for them.
    fn check_mirror(&mut self) {
        let named = entries(&self.directory);
        assert_eq!(named, entries(&self.peer_directory), "the second controller's directory");
        let slot_bytes = self.config.cache.block_size.0 as usize;
        for (slot, entry) in named {
            for bit in (0..64).filter(|bit| entry.dirty >> bit & 1 == 1) {
                let start = slot as usize * slot_bytes + bit * BLOCK;
                let range = start..start + BLOCK;
                assert_eq!(
                    self.memories.cache[range.clone()],
                    self.memories.peer_cache[range],
                    "slot {slot}"
                );
            }
        }
    }

    // What finishes.

    /// Finishes one thing; false if there is none.
    pub(crate) fn step(&mut self) -> Result<bool, Cut> {
        self.now = Nanos(self.now.0 + self.random.below(50_000));
        let due = self.timer.filter(|(_, at)| self.doing.is_empty() || *at <= self.now);
        let cut = if let Some((id, at)) = due {
            self.timer = None;
            self.now = self.now.max(at);
            self.controller.handle_timer(self.now, id);
            self.pump()
        } else if self.doing.is_empty() {
            return Ok(false);
        } else {
            let index = self.random.below(self.doing.len() as u64) as usize;
            self.finish(index)
        };
        cut.map_or(Ok(true), Err)
    }

    /// Finishes all work on memory.
    pub(crate) fn finish_copies(&mut self) {
        while let Some(index) = self.doing.iter().position(|it| matches!(it, Doing::Memory(..))) {
            assert_eq!(self.finish(index), None, "no cut was asked for");
        }
    }

    /// Finishes one member I/O.
    pub(crate) fn finish_member(&mut self, id: MemberIoId) {
        let index = self.doing.iter().position(|it| matches!(it, Doing::Member(io, _) if io.id == id));
        assert_eq!(self.finish(index.expect("it is under way")), None, "no cut was asked for");
    }

    /// Member I/O under way.
    pub(crate) fn member_ios(&self) -> Vec<MemberIo> {
        let member = |it: &Doing| if let Doing::Member(io, _) = it { Some(*io) } else { None };
        self.doing.iter().filter_map(member).collect()
    }

    /// Lets everything end that is under way.
    pub(crate) fn settle(&mut self) {
        while !self.doing.is_empty() {
            assert_eq!(self.finish(0), None, "no cut was asked for");
        }
    }

    fn finish(&mut self, index: usize) -> Option<Cut> {
        match self.doing.remove(index) {
            Doing::Member(io, segments) => {
                self.carry_out(&io, &segments, |_| true);
                self.done(io.id)
            }
            Doing::Memory(id, steps) => {
                self.memories.compute(&steps, || true);
                self.controller.handle_memory_completion(self.now, id);
                self.pump()
            }
        }
    }

    fn done(&mut self, id: MemberIoId) -> Option<Cut> {
        self.controller.handle_member_completion(self.now, id, Ok(()));
        self.pump()
    }

    /// Carries out those blocks of a member I/O that `chosen` picks.
    pub(crate) fn carry_out(
        &mut self,
        io: &MemberIo,
        segments: &[Segment],
        mut chosen: impl FnMut(&mut Random) -> bool,
    ) {
        let member = usize::from(io.member.0);
        if io.op == MemberOp::Flush {
            self.durable[member].clone_from(&self.members[member]);
            return;
        }
        let mut at = io.lba.0 as usize * BLOCK;
        for segment in segments {
            for index in 0..segment.bytes as usize / BLOCK {
                let range = at..at + BLOCK;
                at += BLOCK;
                if !chosen(&mut self.random) {
                    continue;
                }
                let memory =
                    &mut self.memories.bytes(segment.buffer, segment.bytes)[index * BLOCK..][..BLOCK];
                if io.op == MemberOp::Read {
                    memory.copy_from_slice(&self.members[member][range]);
                    continue;
                }
                self.members[member][range.clone()].copy_from_slice(memory);
                if io.op == (MemberOp::Write { fua: true }) || self.config.member_cache == MemberCache::Off {
                    self.durable[member][range].copy_from_slice(memory);
                }
            }
        }
    }
}

/// The entries that name something.
pub(crate) fn entries(directory: &[[u8; 32]]) -> Vec<(u32, NvramEntry)> {
    let decoded = |(slot, bytes)| Some((slot, NvramEntry::decode(slot, bytes)?));
    (0..).zip(directory).filter_map(decoded).collect()
}

/// Fills a block with what names it: the number of the write and the address.
fn fill(block: &mut [u8], lba: u64, number: u64) {
    for pair in block.chunks_exact_mut(16) {
        pair[..8].copy_from_slice(&number.to_le_bytes());
        pair[8..].copy_from_slice(&lba.to_le_bytes());
    }
}

/// The number of the write that a block holds, 0 if none was ever there; `None` for anything else.
pub(crate) fn held(block: &[u8], lba: u64) -> Option<u64> {
    let number = u64::from_le_bytes(block[..8].try_into().ok()?);
    let mut expected = vec![0; block.len()];
    if number != 0 {
        fill(&mut expected, lba, number);
    }
    (block == expected).then_some(number)
}
