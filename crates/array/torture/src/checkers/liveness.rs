//! Liveness: every request gets an answer, and an array without work comes to rest.
//!
//! Verified: with requests waiting, something is always in flight or a timer set, and some request ends at least every
//! [`PATIENCE_STEPS`] events; after a flush with no requests the controller becomes idle. Not verified: how long anything
//! takes; time in this world is made up.

use crate::violation::{Failure, Violation};
use crate::world::TortureWorld;

/// Events without an answer to the host after which the array counts as stalled.
pub(crate) const PATIENCE_STEPS: u64 = 50_000;

impl TortureWorld {
    /// Checks that the host has not waited too long.
    #[inline]
    pub(crate) fn check_progress(&self) -> Result<(), Failure> {
        if self.waiting_count() > 0 && self.stamp.0 - self.last_progress.0 > PATIENCE_STEPS {
            return Err(self.stalled());
        }
        Ok(())
    }

    /// The failure to be stuck.
    pub(crate) fn stalled(&self) -> Failure {
        self.failure(Violation::Stalled { waiting: self.waiting_count(), in_flight: self.flights.len() })
    }

    /// Lets everything finish that the host does not wait for.
    pub(crate) fn await_idle(&mut self) -> Result<(), Failure> {
        let start = self.stamp.0;
        while !self.controller().is_idle() {
            if !self.step()? || self.stamp.0 - start > PATIENCE_STEPS {
                return Err(self.failure(Violation::NeverIdle));
            }
        }
        Ok(())
    }
}
