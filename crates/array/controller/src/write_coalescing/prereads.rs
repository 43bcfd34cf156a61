//! Changes of parts of stripes that wait for others, as in Linux md: [`CoalescingRule::Prereads`].
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

use super::{Collecting, Hold, Surroundings, WriteCoalescing, is_wanted};
use crate::ids::{LockKey, OpId};
use crate::per_op::PerOp;
use crate::stripe_engine::StripeEngine;
use crate::stripe_locks::{StripeLocks, Through};
use std::collections::VecDeque;

/// How far an operation is that may be delayed.
#[derive(Debug, Default)]
pub(super) struct Delayed {
    /// It reads what the change of its parity needs, and others collect meanwhile.
    reads: bool,
    /// It is delayed, until which turn of its entry is over.
    waits: bool,
    turn: u32,
    /// It writes its stripe whole, before which parts of stripes wait.
    writes_whole: bool,
}

/// What waits, and for what.
#[derive(Debug)]
pub(super) struct Prereads {
    bypass: Option<u32>,
    /// Operations in the order in which they were delayed, each with its turn: one that was carried out since has another.
    delayed: VecDeque<(OpId, u32)>,
    /// Operations that read what the change of parity needs.
    reading: u32,
    /// Whole stripes that are being written.
    whole: u32,
    /// How many of these have passed what is delayed.
    passed: u32,
    /// Nobody read when the look began that is under way.
    nobody_reads: bool,
    /// How many of those that are delayed this look has still to carry out; none before it has got to them.
    to_activate: Option<usize>,
}

impl Prereads {
    /// Nothing delayed. At most `bypass` whole stripes go before parts that are ready, or none need to.
    pub(super) const fn new(bypass: Option<u32>) -> Self {
        Self {
            bypass,
            delayed: VecDeque::new(),
            reading: 0,
            whole: 0,
            passed: 0,
            nobody_reads: true,
            to_activate: None,
        }
    }

    /// True if something is delayed that may wait no longer, as far as reads decide.
    #[inline]
    pub(super) fn is_due(&self) -> bool {
        self.reading == 0 && !self.delayed.is_empty()
    }

    /// Begins a look at what collects.
    pub(super) const fn begin_look(&mut self) {
        (self.nobody_reads, self.to_activate) = (self.reading == 0, None);
    }

    /// Takes in that an operation is carried out: it is delayed no longer.
    pub(super) fn end_delay(&mut self, op: &mut Delayed, is_whole: bool) {
        op.turn = op.turn.wrapping_add(1);
        op.waits = false;
        if is_whole && !core::mem::replace(&mut op.writes_whole, true) {
            self.passed += u32::from(self.is_due());
            self.whole += 1;
        }
    }

    /// Takes in that it has ended.
    pub(super) fn end_whole(&mut self, op: &mut Delayed) {
        self.whole -= u32::from(core::mem::take(&mut op.writes_whole));
    }

    /// True if an operation need not wait; else it is delayed.
    pub(super) fn is_due_at_once(
        &mut self,
        id: OpId,
        state: &mut Collecting,
        around: &mut Surroundings<'_>,
    ) -> bool {
        let op = around.stripes.op(id);
        if state.hold == Hold::Over
            || op.is_whole(around.geometry)
            || is_wanted(op, around.locks, around.has_stalled)
            || around.stripes.reads_nothing(id, around.geometry)
        {
            return true;
        }
        if !core::mem::replace(&mut state.prereads.waits, true) {
            self.delayed.push_back((id, state.prereads.turn));
        }
        false
    }

    /// The next of those that were delayed, when nobody reads and no whole stripes go before.
    pub(super) fn next_activated(&mut self, ops: &PerOp<Collecting>) -> Option<OpId> {
        let mut left = self
            .to_activate
            .unwrap_or_else(|| if self.nobody_reads && self.may_activate() { self.delayed.len() } else { 0 });
        let mut found = None;
        while left > 0 && found.is_none() {
            left -= 1;
            let (id, turn) = self.delayed.pop_front().expect("counted");
            let is_delayed = |op: &Collecting| op.prereads.waits && op.prereads.turn == turn;
            found = ops.known(id).is_some_and(is_delayed).then_some(id);
        }
        self.to_activate = Some(left);
        found
    }

    /// True unless whole stripes go before.
    const fn may_activate(&mut self) -> bool {
        let Some(bypass) = self.bypass else { return true };
        if self.whole > 0 && (bypass == 0 || self.passed <= bypass) {
            return false;
        }
        self.passed = self.passed.saturating_sub(bypass);
        true
    }
}

impl WriteCoalescing {
    /// Lets an operation that was made of what waited in line collect on, where parts of stripes do. Returns false elsewhere.
    pub(crate) fn collects_on(&mut self, id: OpId, locks: &mut StripeLocks, stripes: &StripeEngine) -> bool {
        if self.prereads.is_none() {
            return false;
        }
        let op = stripes.op(id);
        locks.set_through(op.key(), Through::Collects(id));
        self.begin_hold(id, op.is_forced());
        true
    }

    /// Has the operation looked at that collects in a stripe which is now waited for.
    #[inline]
    pub(crate) fn look_at_awaited(&mut self, key: LockKey, locks: &mut StripeLocks) {
        if self.prereads.is_some()
            && let Through::Collects(id) = locks.through(key)
        {
            self.list(id);
        }
    }

    /// Takes in that an operation reads what the change of parity needs.
    #[inline]
    pub(crate) fn begin_preread(&mut self, id: OpId) {
        if let Some(prereads) = &mut self.prereads
            && !core::mem::replace(&mut self.ops.of(id).prereads.reads, true)
        {
            prereads.reading += 1;
        }
    }

    /// Takes in that an operation has read and computed, or has ended.
    #[inline]
    pub(crate) fn end_preread(&mut self, id: OpId) {
        if let Some(prereads) = &mut self.prereads {
            prereads.reading -= u32::from(core::mem::take(&mut self.ops.of(id).prereads.reads));
        }
    }
}
