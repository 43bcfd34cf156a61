//! A world that counts: member I/O under way ends only when it is told to, memory work at once, and nothing carries bytes.

#![allow(dead_code, reason = "each test binary uses its part")]

use raidlab_controller::{
    Action, ArrayConfig, CacheConfig, Controller, HostOp, HostRequest, HostTag, MemberCache, MemberIo,
    MemberOp, Resilience, TimerId,
};
use raidlab_units::{BlockCount, BlockSize, ByteCount, Lba, NanoSpan, Nanos};

/// Blocks of a strip.
pub(crate) const STRIP: u64 = 16;
pub(crate) const READ: HostOp = HostOp::Read;
pub(crate) const WRITE: HostOp = HostOp::Write { fua: false };

/// A small array whose strips have [`STRIP`] blocks.
pub(crate) fn array(level: &str, members: u16, cache: CacheConfig) -> ArrayConfig {
    ArrayConfig {
        level: level.parse().expect(level),
        members,
        strip_size: ByteCount::from_kib(64),
        block_size: BlockSize::B4096,
        member_size: ByteCount::from_mib(4),
        member_cache: MemberCache::Off,
        cache,
        staging_size: ByteCount::from_mib(4),
        resilience: Resilience::default(),
    }
}

/// Member I/O under way, and all that was asked for so far.
pub(crate) struct World {
    pub(crate) controller: Controller,
    pub(crate) now: Nanos,
    /// How long members take.
    span: NanoSpan,
    pub(crate) under_way: Vec<MemberIo>,
    pub(crate) reads: u32,
    pub(crate) writes: u32,
    pub(crate) completed: Vec<u32>,
    pub(crate) timer: Option<(TimerId, Nanos)>,
    pub(crate) next_tag: u32,
}

impl World {
    /// A world whose members take `span` for an I/O.
    pub(crate) fn new(config: &ArrayConfig, span: NanoSpan) -> Self {
        Self {
            controller: Controller::new(config).expect("a possible array"),
            now: Nanos::ZERO,
            span,
            under_way: Vec::new(),
            reads: 0,
            writes: 0,
            completed: Vec::new(),
            timer: None,
            next_tag: 0,
        }
    }

    pub(crate) fn request(&mut self, op: HostOp, lba: u64, blocks: u64) {
        let request =
            HostRequest { tag: HostTag(self.next_tag), op, lba: Lba(lba), blocks: BlockCount(blocks) };
        self.next_tag += 1;
        self.controller.handle_host_request(self.now, request);
    }

    /// Does a request and all that it sets going; returns how many reads and writes of members that were.
    pub(crate) fn run(&mut self, op: HostOp, lba: u64, blocks: u64) -> (u32, u32) {
        let (reads, writes) = (self.reads, self.writes);
        self.request(op, lba, blocks);
        self.finish_all();
        (self.reads - reads, self.writes - writes)
    }

    /// Takes all actions; returns how many reads and writes of members are among them.
    pub(crate) fn poll(&mut self) -> (u32, u32) {
        let (reads, writes) = (self.reads, self.writes);
        while let Some(action) = self.controller.poll_action() {
            match action {
                Action::Member(io) => {
                    match io.op {
                        MemberOp::Read => self.reads += 1,
                        MemberOp::Write { .. } => self.writes += 1,
                        MemberOp::Flush | MemberOp::Discard => {}
                    }
                    self.under_way.push(io);
                }
                Action::Memory(task) => self.controller.handle_memory_completion(self.now, task.id),
                Action::Complete(completion) => {
                    assert_eq!(completion.result, Ok(()));
                    self.completed.push(completion.tag.0);
                }
                Action::Timer { id, at } => self.timer = Some((id, at)),
                Action::Keep(_) | Action::Notice(_) => {}
            }
        }
        (self.reads - reads, self.writes - writes)
    }

    /// Ends all member I/O under way, a span later.
    pub(crate) fn finish(&mut self) {
        self.now += self.span;
        for io in std::mem::take(&mut self.under_way) {
            self.controller.handle_member_completion(self.now, io.id, Ok(()));
        }
    }

    /// Ends member I/O until there is none.
    pub(crate) fn finish_all(&mut self) {
        self.poll();
        while !self.under_way.is_empty() {
            self.finish();
            self.poll();
        }
    }

    /// Lets the time come for which the timer is set.
    pub(crate) fn fire(&mut self) {
        let (id, at) = self.timer.take().expect("a timer is set");
        self.now = self.now.max(at);
        self.controller.handle_timer(self.now, id);
    }
}
