//! Shrinking: a failing plan cut down to what is needed to see the same checker fail again.
//!
//! First the requests are cut to where it failed, then faults are left out, in halves, quarters and so on down to single
//! ones (delta debugging: A. Zeller and R. Hildebrandt, "Simplifying and isolating failure-inducing input", 2002), then
//! fewer requests are tried again. Every try is a whole run, so their number is bounded.

use super::plan::TorturePlan;
use super::violation::Failure;

/// Runs tried at most.
const TRIES: u32 = 400;

/// A failing plan made small, and how it fails.
#[derive(Clone, Debug)]
pub struct Shrunk {
    /// The plan.
    pub plan: TorturePlan,
    /// Places that its faults had in the plan that it was made from.
    pub faults: Vec<usize>,
    /// How it fails.
    pub failure: Failure,
}

/// Makes `plan`, which ended in `failure`, small.
pub fn shrink(plan: &TorturePlan, failure: &Failure) -> Shrunk {
    let mut search = Search {
        original: plan,
        best: Shrunk {
            plan: plan.clone(),
            faults: (0..plan.faults.len()).collect(),
            failure: failure.clone(),
        },
        tries: TRIES,
    };
    search.cut_ops();
    search.leave_out_faults();
    search.cut_ops();
    search.best
}

struct Search<'a> {
    original: &'a TorturePlan,
    best: Shrunk,
    tries: u32,
}

impl Search<'_> {
    /// Tries a smaller plan; keeps it if the same checker fails.
    fn attempt(&mut self, ops: u64, faults: Vec<usize>) -> bool {
        if self.tries == 0 {
            return false;
        }
        self.tries -= 1;
        let mut plan = TorturePlan { ops, ..self.original.clone() };
        plan.keep_faults(&faults);
        match plan.run() {
            Err(failure) if failure.violation.checker() == self.best.failure.violation.checker() => {
                self.best = Shrunk { plan, faults, failure };
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
            if ops == self.best.plan.ops || !self.attempt(ops, self.best.faults.clone()) {
                step /= 2;
            }
        }
        // Faults that the shorter run never came to.
        let plan = &self.best.plan;
        let is_met = |place: &usize| self.original.faults[*place].after_ops < plan.ops;
        let met: Vec<usize> = self.best.faults.iter().copied().filter(is_met).collect();
        if met.len() < self.best.faults.len() {
            let ops = plan.ops;
            self.attempt(ops, met);
        }
    }

    fn leave_out_faults(&mut self) {
        let mut chunk = self.best.faults.len().div_ceil(2);
        while chunk > 0 && self.tries > 0 {
            let mut from = 0;
            while from < self.best.faults.len() && self.tries > 0 {
                let to = (from + chunk).min(self.best.faults.len());
                let mut fewer = self.best.faults.clone();
                fewer.drain(from..to);
                if !self.attempt(self.best.plan.ops, fewer) {
                    from = to;
                }
            }
            chunk /= 2;
        }
    }
}
