//! Shrinking: a failing plan cut down as long as the same checker fails.
//!
//! Lives, faults and clients are left out one by one, then requests, then what members do beside. Every try is a whole run, by a
//! function of the caller's, since a run may end its process.

use crate::plan::{LifeEnd, Plan};
use crate::session::Failure;

/// Runs tried at most.
const TRIES: u32 = 300;

/// Makes `plan` small, which fails as `failure` says; `run` tells how another one fails.
pub fn shrink(plan: &Plan, failure: &Failure, run: impl FnMut(&Plan) -> Option<Failure>) -> (Plan, Failure) {
    let mut search = Search { plan: plan.clone(), failure: failure.clone(), run, tries: TRIES };
    loop {
        let before = search.plan.clone();
        search.round();
        if search.plan == before || search.tries == 0 {
            return (search.plan, search.failure);
        }
    }
}

struct Search<F> {
    plan: Plan,
    failure: Failure,
    run: F,
    tries: u32,
}

impl<F: FnMut(&Plan) -> Option<Failure>> Search<F> {
    /// Keeps a change if the same checker fails.
    fn attempt(&mut self, change: impl FnOnce(&mut Plan)) -> bool {
        let mut plan = self.plan.clone();
        change(&mut plan);
        if self.tries == 0 || plan == self.plan {
            return false;
        }
        self.tries -= 1;
        match (self.run)(&plan) {
            Some(failure) if failure.checker == self.failure.checker => {
                (self.plan, self.failure) = (plan, failure);
                true
            }
            _ => false,
        }
    }

    /// Leaves out each of a list's items, the last first, whose number `count` tells.
    fn leave_out(&mut self, count: impl Fn(&Plan) -> usize, remove: impl Fn(&mut Plan, usize)) {
        for at in (0..count(&self.plan)).rev() {
            self.attempt(|plan| remove(plan, at));
        }
    }

    fn round(&mut self) {
        self.leave_out(|plan| plan.lives.len(), |plan, at| drop(plan.lives.remove(at)));
        for life in 0..self.plan.lives.len() {
            self.leave_out(
                |plan| plan.lives[life].faults.len(),
                |plan, at| {
                    plan.lives[life].faults.remove(at);
                },
            );
            self.leave_out(
                |plan| plan.lives[life].clients.len().saturating_sub(1),
                |plan, at| {
                    plan.lives[life].clients.remove(at);
                },
            );
            self.attempt(|plan| plan.lives[life].end = LifeEnd::Stop);
            while self.attempt(|plan| plan.lives[life].requests /= 2) {}
            for client in 0..self.plan.lives[life].clients.len() {
                self.attempt(|plan| plan.lives[life].clients[client].leaves_after = None);
                self.attempt(|plan| plan.lives[life].clients[client].is_slow = false);
                self.attempt(|plan| plan.lives[life].clients[client].depth = 1);
            }
        }
        self.attempt(|plan| plan.create_cut_at = None);
        self.attempt(|plan| plan.members.slow_permille = 0);
        self.attempt(|plan| plan.members.short_permille = 0);
        self.attempt(|plan| plan.members.interrupted_permille = 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_matter_is_left_out() {
        let plan = (0..100).map(Plan::draw).find(|plan| plan.lives.len() > 2).expect("one of a hundred");
        let fails = |plan: &Plan| {
            let text = String::new();
            let failure = Failure { seed: plan.seed, checker: "bytes".to_owned(), text };
            plan.lives.iter().any(|life| life.requests > 8).then_some(failure)
        };
        let failure = fails(&plan).expect("it is so");
        let (shrunk, _) = shrink(&plan, &failure, fails);
        assert_eq!(
            (shrunk.lives.len(), shrunk.lives[0].faults.len(), shrunk.lives[0].clients.len()),
            (1, 0, 1)
        );
        assert!(shrunk.lives[0].requests <= 16);
    }
}
