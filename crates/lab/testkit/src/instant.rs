//! A world whose members and memory answer at once and carry no bytes: what is left is the controller itself.

use crate::Random;
use raidlab_controller::{
    Action, ArrayConfig, ConfigError, Controller, HostOp, HostRequest, HostTag, TimerId,
};
use raidlab_units::{BlockCount, Lba, NanoSpan, Nanos};

/// A controller and the time, which goes on only with requests.
pub struct InstantWorld {
    controller: Controller,
    now: Nanos,
    timers: [Nanos; Controller::TIMERS as usize],
    member_ios: u64,
    /// What was asked for and has not ended, where several requests are in flight.
    pending: Vec<Action>,
    in_flight: u32,
    /// Tags that were used and are free again.
    free_tags: Vec<HostTag>,
    random: Random,
}

impl InstantWorld {
    /// # Errors
    /// As [`Controller::new`].
    pub fn new(config: &ArrayConfig) -> Result<Self, ConfigError> {
        let timers = [Nanos::FAR_FUTURE; Controller::TIMERS as usize];
        let (controller, now) = (Controller::new(config)?, Nanos::ZERO);
        let (pending, free_tags) = (Vec::new(), Vec::new());
        Ok(Self {
            controller,
            now,
            timers,
            member_ios: 0,
            pending,
            in_flight: 0,
            free_tags,
            random: Random(1),
        })
    }

    /// Length of the volume.
    pub fn volume_blocks(&self) -> u64 {
        self.controller.volume_blocks().0
    }

    /// I/Os of members so far.
    pub fn member_ios(&self) -> u64 {
        self.member_ios
    }

    /// Does a request that comes `after` the one before, and what is due by then.
    pub fn request(&mut self, after: NanoSpan, op: HostOp, lba: Lba, blocks: BlockCount) {
        self.now += after;
        self.controller.handle_host_request(self.now, HostRequest { tag: HostTag(0), op, lba, blocks });
        self.settle();
        for timer in 0..Controller::TIMERS {
            if self.timers[timer as usize] <= self.now {
                self.timers[timer as usize] = Nanos::FAR_FUTURE;
                self.controller.handle_timer(self.now, TimerId(timer));
                self.settle();
            }
        }
    }

    /// Begins a request once fewer than `iodepth` are in flight. What was asked for ends in an order that is drawn.
    pub fn request_at_depth(&mut self, iodepth: u32, op: HostOp, lba: Lba, blocks: BlockCount) {
        while self.in_flight >= iodepth {
            self.end_one();
        }
        let tag = self.free_tags.pop().unwrap_or(HostTag(self.in_flight));
        self.in_flight += 1;
        self.controller.handle_host_request(self.now, HostRequest { tag, op, lba, blocks });
        self.poll();
    }

    fn end_one(&mut self) {
        let index = self.random.below(self.pending.len() as u64) as usize;
        match self.pending.swap_remove(index) {
            Action::Member(io) => {
                self.member_ios += 1;
                self.controller.handle_member_completion(self.now, io.id, Ok(()));
            }
            Action::Memory(task) => self.controller.handle_memory_completion(self.now, task.id),
            other => unreachable!("{other:?} has no end"),
        }
        self.poll();
    }

    fn poll(&mut self) {
        while let Some(action) = self.controller.poll_action() {
            match action {
                Action::Member(_) | Action::Memory(_) => self.pending.push(action),
                Action::Complete(completion) => {
                    self.in_flight -= 1;
                    self.free_tags.push(completion.tag);
                }
                Action::Timer { .. } | Action::Keep(_) | Action::Notice(_) => {}
            }
        }
    }

    fn settle(&mut self) {
        while let Some(action) = self.controller.poll_action() {
            match action {
                Action::Member(io) => {
                    self.member_ios += 1;
                    self.controller.handle_member_completion(self.now, io.id, Ok(()));
                }
                Action::Memory(task) => self.controller.handle_memory_completion(self.now, task.id),
                Action::Timer { id, at } => self.timers[id.0 as usize] = at,
                Action::Complete(_) | Action::Keep(_) | Action::Notice(_) => {}
            }
        }
    }
}
