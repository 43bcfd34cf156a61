//! Changes of parts of stripes that wait for others, as in Linux md: [`GatherRule::Prereads`].
//!
//! ```text
//!                 ┌─ whole, awaited, forced, reads nothing ────────────────────────► carried out
//!   write ─► looked at                                                                   ▲
//!      ▲          └─ else ─► delayed ── nobody reads, no whole stripe goes before ───────┘ all together
//!      └── joined by another write, or waited for
//! ```
//! Whole stripes go before parts, which are passed over by so many of them at most: [`ArrayRules::preread_bypass`].
//!
//! Source: Linux drivers/md/raid5.c: `raid5_activate_delayed` (`IO_THRESHOLD`), `__get_priority_stripe` (`bypass_threshold`,
//! `pending_full_writes`), `handle_stripe_dirtying` (`STRIPE_DELAYED`, only for what is to be read).
//!
//! [`ArrayRules::preread_bypass`]: crate::ArrayRules::preread_bypass

use crate::controller::Controller;
use crate::gather::{GATHER_LIMIT, Hold};
use crate::rules::GatherRule;
use crate::stripe_locks::Through;
use std::collections::VecDeque;

/// What waits, and for what.
#[derive(Debug, Default)]
pub(crate) struct Delay {
    /// Operations in the order in which they were delayed, each with its turn: one that was carried out since has another.
    delayed: VecDeque<(u32, u32)>,
    /// Operations that read what the change of parity needs.
    prereads: u32,
    /// Whole stripes that are being written.
    whole: u32,
    /// How many of these have passed what is delayed.
    passed: u32,
}

impl Delay {
    /// True if something is delayed that may wait no longer, as far as reads decide.
    #[inline]
    pub(crate) fn is_due(&self) -> bool {
        self.prereads == 0 && !self.delayed.is_empty()
    }
}

impl Controller {
    /// True where parts of stripes collect while another one reads.
    #[inline]
    pub(crate) const fn delays_for_prereads(&self) -> bool {
        self.collects() && matches!(self.config.cache.rules.gather, GatherRule::Prereads)
    }

    /// Has an operation that collects looked at with the next poll.
    pub(crate) fn look_at_op(&mut self, op: u32) {
        if !core::mem::replace(&mut self.ops[op].is_looked_at, true) {
            self.gather.ops.push(op);
        }
    }

    /// Has the operation looked at that collects in a stripe which is now waited for.
    pub(crate) fn look_at_awaited(&mut self, key: u64) {
        if self.delays_for_prereads()
            && let Through::Collects(op) = self.stripe_locks.through(key)
        {
            self.look_at_op(op);
        }
    }

    /// Lets an operation that was made of what waited in line collect on.
    pub(crate) fn delay(&mut self, op: u32) {
        self.stripe_locks.set_through(self.ops[op].key, Through::Collects(op));
        self.ops[op].hold = if self.ops[op].fua { Hold::Over } else { Hold::Fresh };
        self.look_at_op(op);
    }

    /// Takes in that an operation reads what the change of parity needs.
    pub(crate) fn begin_preread(&mut self, op: u32) {
        if self.delays_for_prereads() && !core::mem::replace(&mut self.ops[op].prereads, true) {
            self.delay.prereads += 1;
        }
    }

    /// Takes in that an operation has read and computed, or has ended.
    pub(crate) fn end_preread(&mut self, op: u32) {
        self.delay.prereads -= u32::from(core::mem::take(&mut self.ops[op].prereads));
    }

    /// Takes in that an operation is carried out: it is delayed no longer.
    pub(crate) fn end_delay(&mut self, op: u32) {
        let is_whole = self.is_whole(op);
        self.ops[op].turn = self.ops[op].turn.wrapping_add(1);
        self.ops[op].is_delayed = false;
        if is_whole && !core::mem::replace(&mut self.ops[op].writes_whole, true) {
            self.delay.passed += u32::from(self.delay.is_due());
            self.delay.whole += 1;
        }
    }

    /// Takes in that it has ended.
    pub(crate) fn end_whole(&mut self, op: u32) {
        self.delay.whole -= u32::from(core::mem::take(&mut self.ops[op].writes_whole));
    }

    /// Carries out what need not be delayed, and what was delayed if nobody reads. Returns whether anything was.
    pub(crate) fn start_undelayed(&mut self) -> bool {
        let nobody_reads = self.delay.prereads == 0;
        let mut started = false;
        let mut looked_at = core::mem::take(&mut self.gather.ops);
        for op in looked_at.drain(..) {
            self.ops[op].is_looked_at = false;
            if self.may_not_wait(op) {
                started = true;
                self.start_through(op);
            } else if !core::mem::replace(&mut self.ops[op].is_delayed, true) {
                self.delay.delayed.push_back((op, self.ops[op].turn));
            }
        }
        // What has failed at once may have let others into its stripe.
        looked_at.append(&mut self.gather.ops);
        self.gather.ops = looked_at;
        if nobody_reads && self.may_activate() {
            for _ in 0..self.delay.delayed.len() {
                let (op, turn) = self.delay.delayed.pop_front().expect("counted");
                if self.ops[op].is_delayed && self.ops[op].turn == turn {
                    started = true;
                    self.start_through(op);
                }
            }
        }
        started
    }

    fn may_not_wait(&mut self, op: u32) -> bool {
        let key = self.ops[op].key;
        self.stripe_locks.is_awaited(key)
            || self.is_whole(op)
            || self.cache.has_stalled()
            || self.ops[op].pieces.len() >= GATHER_LIMIT
            || self.ops[op].hold == Hold::Over
            || self.reads_nothing(op)
    }

    /// True unless whole stripes go before.
    fn may_activate(&mut self) -> bool {
        let Some(bypass) = self.config.cache.rules.preread_bypass else { return true };
        if self.delay.whole > 0 && (bypass == 0 || self.delay.passed <= bypass) {
            return false;
        }
        self.delay.passed = self.delay.passed.saturating_sub(bypass);
        true
    }
}
