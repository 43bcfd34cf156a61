//! A world whose members and memory answer at once and carry no bytes: what is left is the controller itself.

use raidlab_controller::{
    Action, ArrayConfig, ConfigError, Controller, HostOp, HostRequest, HostTag, TimerId,
};
use raidlab_units::{BlockCount, Lba, NanoSpan, Nanos};

/// A controller and the time, which goes on only with requests.
pub(crate) struct InstantWorld {
    controller: Controller,
    now: Nanos,
    timers: [Nanos; Controller::TIMERS as usize],
    member_ios: u64,
}

impl InstantWorld {
    pub(crate) fn new(config: &ArrayConfig) -> Result<Self, ConfigError> {
        let timers = [Nanos::FAR_FUTURE; Controller::TIMERS as usize];
        Ok(Self { controller: Controller::new(config)?, now: Nanos::ZERO, timers, member_ios: 0 })
    }

    pub(crate) fn volume_blocks(&self) -> u64 {
        self.controller.volume_blocks().0
    }

    /// I/Os of members so far.
    pub(crate) fn member_ios(&self) -> u64 {
        self.member_ios
    }

    /// Does a request that comes `after` the one before, and what is due by then.
    pub(crate) fn request(&mut self, after: NanoSpan, op: HostOp, lba: Lba, blocks: BlockCount) {
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
