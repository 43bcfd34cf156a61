//! Shrinking: a failing plan cut down to what is needed to see the same checker fail again.
//!
//! First the requests are cut to where it failed, then faults are left out, in halves, quarters and so on down to single
//! ones (delta debugging: A. Zeller and R. Hildebrandt, "Simplifying and isolating failure-inducing input", 2002), then
//! fewer requests are tried again. Every try is a whole run, so their number is bounded.

use super::faults::FaultEvent;
use super::plan::TorturePlan;
use super::violation::Failure;

/// Runs tried at most.
const TRIES: u32 = 400;

/// A failing plan made small, and how it fails.
#[derive(Clone, Debug)]
pub struct Shrunk {
    /// The plan.
    pub plan: TorturePlan,
    /// How it fails.
    pub failure: Failure,
}

/// Makes `plan`, which ended in `failure`, small.
pub fn shrink(plan: &TorturePlan, failure: &Failure) -> Shrunk {
    let best = Shrunk { plan: plan.clone(), failure: failure.clone() };
    let mut search = Search { best, tries: TRIES };
    search.cut_ops();
    search.leave_out_faults();
    search.cut_ops();
    search.best
}

struct Search {
    best: Shrunk,
    tries: u32,
}

impl Search {
    /// Tries a smaller plan; keeps it if the same checker fails.
    fn attempt(&mut self, ops: u64, faults: Vec<FaultEvent>) -> bool {
        if self.tries == 0 {
            return false;
        }
        self.tries -= 1;
        let plan = TorturePlan { ops, faults, ..self.best.plan.clone() };
        match plan.run() {
            Err(failure) if failure.violation.checker() == self.best.failure.violation.checker() => {
                self.best = Shrunk { plan, failure };
                true
            }
            _ => false,
        }
    }

    fn cut_ops(&mut self) {
        let failed_at = self.best.failure.ops.min(self.best.plan.ops);
        let mut step = self.best.plan.ops - failed_at;
        if step == 0 {
            step = failed_at / 2;
        }
        while step > 0 && self.tries > 0 {
            let ops = self.best.plan.ops.saturating_sub(step).max(1);
            if ops == self.best.plan.ops || !self.attempt(ops, self.best.plan.faults.clone()) {
                step /= 2;
            }
        }
        // Faults that the shorter run never came to.
        let TorturePlan { ops, ref faults, .. } = self.best.plan;
        let met: Vec<FaultEvent> = faults.iter().filter(|event| event.after_ops < ops).copied().collect();
        if met.len() < faults.len() {
            self.attempt(ops, met);
        }
    }

    fn leave_out_faults(&mut self) {
        let mut chunk = self.best.plan.faults.len().div_ceil(2);
        while chunk > 0 && self.tries > 0 {
            let mut from = 0;
            while from < self.best.plan.faults.len() && self.tries > 0 {
                let to = (from + chunk).min(self.best.plan.faults.len());
                let mut fewer = self.best.plan.faults.clone();
                fewer.drain(from..to);
                if !self.attempt(self.best.plan.ops, fewer) {
                    from = to;
                }
            }
            chunk /= 2;
        }
    }
}

#[cfg(all(test, debug_assertions))]
mod tests {
    use super::super::plan::TortureMode;
    use super::*;

    /// A load that the world does not bear fails without any fault.
    #[test]
    fn of_a_long_plan_what_it_takes_is_left() {
        let drawn = |seed| TorturePlan::draw(seed, 2_000, TortureMode::Bounded, None).expect("any level");
        let mut plan = (0..100).map(drawn).find(|plan| plan.faults.len() > 10).expect("one of a hundred");
        plan.workload.iodepth = 0;
        let failure = plan.run().expect_err("no depth is below zero");
        let shrunk = shrink(&plan, &failure);
        assert_eq!(shrunk.plan.faults, []);
        assert!(shrunk.plan.ops < 500, "{}", shrunk.plan.ops);
        let again = shrunk.plan.run().expect_err("the same");
        assert_eq!(again.to_string(), shrunk.failure.to_string());
    }
}
