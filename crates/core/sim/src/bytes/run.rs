//! A run of random requests against a [`ByteWorld`], with members lost on the way.

use super::violation::{Failure, LossNotice};
use super::world::ByteWorld;
use raidlab_controller::HostOp;
use raidlab_units::{BlockCount, Lba, MemberIndex};

/// A member to lose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemberLoss {
    /// After how many requests.
    pub after_requests: u64,
    /// Which member.
    pub member: MemberIndex,
    /// How the controller learns of it.
    pub notice: LossNotice,
}

/// What to do to the array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunPlan {
    /// Host requests to make.
    pub requests: u64,
    /// Most requests in flight; the run's own limit goes up and down below it.
    pub iodepth: u32,
    /// Share of reads among reads and writes, in percent.
    pub read_pct: u8,
    /// Share of flushes among all requests, in percent.
    pub flush_pct: u8,
    /// Share of writes with forced unit access, in percent.
    pub fua_pct: u8,
    /// Longest request.
    pub blocks_max: BlockCount,
    /// Blocks of members to make unreadable in the course of the run, where the level survives it.
    pub bad_blocks: u64,
    /// How often the battery turns bad or good in the course of the run.
    pub battery_changes: u64,
    /// Members to lose, in order of time.
    pub losses: Vec<MemberLoss>,
}

/// What a run did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunReport {
    /// Requests that failed, each because the level does not survive what was missing.
    pub failed_requests: u64,
    /// Stripes left out of the last check because they failed.
    pub failed_stripes: u64,
}

/// Where the next requests go; changes now and then, so that runs meet both crowds and crossings.
#[derive(Clone, Copy, Debug)]
enum Pattern {
    Anywhere,
    Crowded { from: u64, blocks: u64 },
    Sequential { next: u64 },
    WholeStripes,
}

impl ByteWorld {
    /// Makes the planned requests, then verifies the array.
    ///
    /// # Errors
    /// [`Failure`] if the controller breaks a rule.
    pub fn run(&mut self, plan: &RunPlan) -> Result<RunReport, Failure> {
        let mut losses = plan.losses.iter().peekable();
        let mut pattern = Pattern::Anywhere;
        let mut depth = 1;
        let (mut made, mut spoiled, mut changes) = (0, 0, 0);
        while made < plan.requests {
            if let Some(loss) = losses.next_if(|loss| loss.after_requests <= made) {
                self.lose_member(loss.member, loss.notice)?;
            }
            if spoiled * plan.requests < made * plan.bad_blocks {
                spoiled += 1;
                self.spoil_block(plan.losses.len());
            }
            if changes * plan.requests < made * plan.battery_changes {
                changes += 1;
                self.change_battery()?;
            }
            if self.random_mut().chance_pct(2) {
                pattern = self.pick_pattern();
                depth = 1 + self.random_mut().below(u64::from(plan.iodepth)) as usize;
            }
            if self.waiting_count() < depth && self.random_mut().chance_pct(60) {
                self.submit_random(plan, &mut pattern)?;
                made += 1;
            } else {
                self.step()?;
            }
        }
        let failed_stripes = self.verify()?;
        Ok(RunReport { failed_requests: self.failed_requests(), failed_stripes })
    }

    fn pick_pattern(&mut self) -> Pattern {
        let volume = self.controller().volume_blocks().0;
        let stripe = self.stripes().layout.shape().stripe_blocks().0;
        let random = self.random_mut();
        match random.below(4) {
            0 => Pattern::Anywhere,
            1 => Pattern::Crowded { from: random.below(volume), blocks: 1 + random.below(2 * stripe) },
            2 => Pattern::Sequential { next: random.below(volume) },
            _ => Pattern::WholeStripes,
        }
    }

    fn submit_random(&mut self, plan: &RunPlan, pattern: &mut Pattern) -> Result<(), Failure> {
        if self.random_mut().chance_pct(plan.flush_pct) {
            return self.submit(HostOp::Flush, Lba(0), BlockCount(0)).map(|_| ());
        }
        let (lba, blocks) = self.pick_range(plan.blocks_max.0, pattern);
        let op = if self.random_mut().chance_pct(plan.read_pct) {
            HostOp::Read
        } else {
            HostOp::Write { fua: self.random_mut().chance_pct(plan.fua_pct) }
        };
        self.submit(op, lba, blocks).map(|_| ())
    }

    fn pick_range(&mut self, blocks_max: u64, pattern: &mut Pattern) -> (Lba, BlockCount) {
        let volume = self.controller().volume_blocks().0;
        let shape = self.stripes().layout.shape();
        let stripe = shape.stripe_blocks().0;
        let random = self.random_mut();
        let length = match random.below(3) {
            0 => 1,
            1 => 1 + random.below(blocks_max.min(8)),
            _ => 1 + random.below(blocks_max),
        };
        let (start, length) = match pattern {
            Pattern::Anywhere => (random.below(volume), length),
            Pattern::Crowded { from, blocks } => ((*from + random.below(*blocks)) % volume, length),
            Pattern::Sequential { next } => {
                let start = *next % volume;
                *next = start + length;
                (start, length)
            }
            Pattern::WholeStripes => (random.below(volume / stripe) * stripe, stripe),
        };
        (Lba(start), BlockCount(length.min(volume - start)))
    }
}
