//! A run: the requests of a plan's load, its faults on the way, and the check of everything at the end.

use super::faults::FaultEvent;
use super::plan::{TorturePlan, Workload};
use super::report::TortureReport;
use super::violation::{Failure, Violation};
use super::world::TortureWorld;
use raidlab_controller::HostOp;
use raidlab_units::{BlockCount, Lba};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Where the next requests go; changes now and then, so that runs meet both crowds and crossings.
#[derive(Clone, Copy, Debug)]
enum Pattern {
    Anywhere,
    Crowded { from: u64, blocks: u64 },
    Sequential { next: u64 },
    WholeStripes,
}

impl TorturePlan {
    /// Carries the plan out, on an array of its own.
    ///
    /// # Errors
    /// [`Failure`] if anything is wrong.
    #[expect(clippy::missing_panics_doc, reason = "drawn arrays are possible")]
    pub fn run(&self) -> Result<TortureReport, Failure> {
        let mut world = TortureWorld::new(&self.config, self.seed).expect("drawn arrays are possible");
        world.mode = self.mode;
        world.moments.has_rare = self.rare_moments;
        world.moments.has_stories = self.stories;
        world.moments.has_doubts = self.doubts;
        world.relics.has_older = self.older_members;
        world.whole_stripes_pct = self.workload.whole_stripes_pct;
        world.copying.pct = self.workload.copies_pct;
        world.members_discard = self.workload.discard_permille > 0 && !world.is_redundant();
        world.take_discards();
        catch_unwind(AssertUnwindSafe(|| world.run(self))).unwrap_or_else(|panic| {
            let said = panic.downcast_ref::<String>().cloned();
            let message = said.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
            Err(world.failure(Violation::Panicked { message: message.unwrap_or_default() }))
        })?;
        world.report.seeds = 1;
        world.report.digest = world.trace.digest();
        Ok(world.report)
    }
}

impl TortureWorld {
    /// Makes the planned requests, then verifies the array.
    fn run(&mut self, plan: &TorturePlan) -> Result<(), Failure> {
        let mut faults = plan.faults.iter().enumerate().peekable();
        let mut pattern = Pattern::Anywhere;
        let mut depth = 1;
        while self.report.host_ops < plan.ops && !self.is_refused {
            let is_due = |fault: &(usize, &FaultEvent)| fault.1.after_ops <= self.report.host_ops;
            if let Some((index, event)) = faults.next_if(is_due) {
                // What was asked of a device is asked before that is replaced.
                self.pump()?;
                self.inject(index, event)?;
            }
            self.fail_over_if_due()?;
            if self.is_refused {
                break;
            }
            if self.random.below(64) == 0 {
                pattern = self.pick_pattern();
                depth = 1 + self.random.below(u64::from(plan.workload.iodepth)) as usize;
            }
            self.moments.may_spring = self.moments.trap.is_some();
            if self.waiting_count() < depth && self.random.chance_pct(60) {
                self.hand_in_random(&plan.workload, &mut pattern);
                if !self.batches.chance_pct(plan.workload.batch_pct) {
                    self.pump()?;
                }
            } else {
                self.step()?;
            }
            if core::mem::take(&mut self.moments.may_spring) && self.moments.is_sprung {
                self.cut_at_moment()?;
            }
        }
        self.moments.trap = None;
        if self.is_refused { Ok(()) } else { self.verify() }
    }

    fn pick_pattern(&mut self) -> Pattern {
        let volume = self.volume_blocks.0;
        let stripe = self.layout.shape().stripe_blocks().0;
        let random = &mut self.random;
        match random.below(8) {
            0..=3 => Pattern::Anywhere,
            4 | 5 => Pattern::Crowded { from: random.below(volume), blocks: 1 + random.below(2 * stripe) },
            6 => Pattern::Sequential { next: random.below(volume) },
            _ => Pattern::WholeStripes,
        }
    }

    fn hand_in_random(&mut self, load: &Workload, pattern: &mut Pattern) {
        // Those that have to be repeated take turns with others.
        if self.report.host_ops.is_multiple_of(2)
            && let Some(request) = self.hosts.again.as_mut().and_then(Vec::pop)
        {
            self.hand_in(request.op, request.lba, request.blocks);
            return;
        }
        if self.random.below(1_000) < u64::from(load.flush_permille) {
            self.hand_in(HostOp::Flush, Lba(0), BlockCount(0));
            return;
        }
        let (lba, blocks) = self.pick_range(load.blocks_max.0, pattern);
        let discard_permille = u64::from(load.discard_permille);
        if discard_permille > 0 && self.copying.pick.below(1_000) < discard_permille {
            self.hand_in(HostOp::Discard, lba, blocks);
            return;
        }
        let op = if self.random.chance_pct(load.read_pct) {
            HostOp::Read
        } else {
            HostOp::Write { fua: self.random.chance_pct(load.fua_pct) }
        };
        self.hand_in(op, lba, blocks);
    }

    fn pick_range(&mut self, blocks_max: u64, pattern: &mut Pattern) -> (Lba, BlockCount) {
        let volume = self.volume_blocks.0;
        let stripe = self.layout.shape().stripe_blocks().0;
        let random = &mut self.random;
        if self.whole_stripes_pct > 0 && random.chance_pct(self.whole_stripes_pct) {
            return (Lba(random.below(volume / stripe) * stripe), BlockCount(stripe));
        }
        let length = match random.below(8) {
            0..=4 => 1,
            5 | 6 => 1 + random.below(blocks_max.min(8)),
            _ => 1 + random.below(blocks_max),
        };
        let (start, length) = match pattern {
            Pattern::Crowded { from, blocks } => ((*from + random.below(*blocks)) % volume, length),
            Pattern::Sequential { next } => {
                let start = *next % volume;
                *next = start + length;
                (start, length)
            }
            // Whole ones now and then only: they are long.
            Pattern::WholeStripes if random.below(4) == 0 => (random.below(volume / stripe) * stripe, stripe),
            Pattern::Anywhere | Pattern::WholeStripes => (random.below(volume), length),
        };
        (Lba(start), BlockCount(length.min(volume - start)))
    }
}
