//! A world that counts: member I/O under way ends only when it is told to, memory work at once, and nothing carries bytes.

use raidlab_controller::{
    Action, ArrayConfig, Controller, HostOp, HostRequest, HostTag, MemberIo, MemberOp, TimerId,
};
use raidlab_units::{BlockCount, Lba, NanoSpan, Nanos};

/// Blocks of a strip of [`crate::array`].
pub const STRIP: u64 = 16;
/// A read.
pub const READ: HostOp = HostOp::Read;
/// A write that is durable when it is flushed.
pub const WRITE: HostOp = HostOp::Write { fua: false };

/// Member I/O under way, and all that was asked for so far.
pub struct CountedWorld {
    /// Under test.
    pub controller: Controller,
    /// The time.
    pub now: Nanos,
    /// How long members take.
    span: NanoSpan,
    /// In the order in which they were asked for.
    pub under_way: Vec<MemberIo>,
    /// Of members, in all.
    pub reads: u32,
    /// Of members, in all.
    pub writes: u32,
    /// Tags of requests that have ended, in order.
    pub completed: Vec<u32>,
    /// The last that was set and has not fired.
    pub timer: Option<(TimerId, Nanos)>,
    /// Of the next request.
    pub next_tag: u32,
}

impl CountedWorld {
    /// A world whose members take `span` for an I/O.
    ///
    /// # Panics
    /// If there is no such array.
    pub fn new(config: &ArrayConfig, span: NanoSpan) -> Self {
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

    /// Hands in a request.
    pub fn request(&mut self, op: HostOp, lba: u64, blocks: u64) {
        let request =
            HostRequest { tag: HostTag(self.next_tag), op, lba: Lba(lba), blocks: BlockCount(blocks) };
        self.next_tag += 1;
        self.controller.handle_host_request(self.now, request);
    }

    /// Does a request and all that it sets going; returns how many reads and writes of members that were.
    pub fn run(&mut self, op: HostOp, lba: u64, blocks: u64) -> (u32, u32) {
        let (reads, writes) = (self.reads, self.writes);
        self.request(op, lba, blocks);
        self.finish_all();
        (self.reads - reads, self.writes - writes)
    }

    /// Takes all actions; returns how many reads and writes of members are among them.
    ///
    /// # Panics
    /// If I/O fails.
    pub fn poll(&mut self) -> (u32, u32) {
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
    pub fn finish(&mut self) {
        self.now += self.span;
        for io in std::mem::take(&mut self.under_way) {
            self.controller.handle_member_completion(self.now, io.id, Ok(()));
        }
    }

    /// Ends member I/O until there is none.
    pub fn finish_all(&mut self) {
        self.poll();
        while !self.under_way.is_empty() {
            self.finish();
            self.poll();
        }
    }

    /// Lets the time come for which the timer is set.
    ///
    /// # Panics
    /// If no timer is set.
    pub fn fire(&mut self) {
        let (id, at) = self.timer.take().expect("a timer is set");
        self.now = self.now.max(at);
        self.controller.handle_timer(self.now, id);
    }
}
