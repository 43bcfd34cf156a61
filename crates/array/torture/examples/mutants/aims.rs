//! Aims: plans that reached what few reach, and changes of them to try next.
//!
//! Guidance by edges of the code as libFuzzer has it treats all edges alike. Here the rarest counts most: a plan that asks for a defect
//! (or reaches a decision, `decisions.rs`) that one in a thousand does is worth more tries than a thousand seeds.

use crate::plans::with_more_cuts;
use raidlab_torture::TorturePlan;
use raidlab_workload::{Rng, derived_seed};

/// Plans kept.
const POOL_MAX: usize = 64;

/// Plans to change, and the draws of changes.
pub(crate) struct Aims {
    pool: Vec<TorturePlan>,
    random: Rng,
}

impl Aims {
    pub(crate) fn new(seed: u64) -> Self {
        Self { pool: Vec::new(), random: Rng::new(derived_seed(seed, 79)) }
    }

    pub(crate) const fn any(&self) -> bool {
        !self.pool.is_empty()
    }

    /// Keeps a plan, if need be in the place of another.
    pub(crate) fn add(&mut self, plan: TorturePlan) {
        if self.pool.len() < POOL_MAX {
            self.pool.push(plan);
        } else {
            let place = self.random.below(POOL_MAX as u64) as usize;
            self.pool[place] = plan;
        }
    }

    /// One of the plans, changed: mostly in its faults, or with those of another.
    pub(crate) fn next(&mut self) -> TorturePlan {
        let Self { pool, random } = self;
        let mut any = || pool[random.below(pool.len() as u64) as usize].clone();
        let (plan, other) = (any(), any());
        match random.below(8) {
            0 | 1 => with_more_cuts(&plan, random.below(1 << 32)),
            2 => plan.spliced(&other, random),
            // The same run with other targets and moments.
            3 => TorturePlan { seed: random.below(1 << 32), ..plan },
            _ => plan.changed(random),
        }
    }
}
