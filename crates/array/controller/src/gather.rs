//! Writes through, gathered into whole stripes before they are carried out.
//!
//! Where there is parity a stripe that is written whole costs no reads, and one that is written in parts is read and written
//! once for each of them. So a write through only *collects* at first: it joins the operation that collects in its stripe,
//! or begins one. The world polls for actions when it has handed in all that it has, and then each one that collects is
//! looked at:
//! ```text
//!   first write ─► collecting ── whole, awaited, forced ──────────────────────────────────────► carried out
//!                     │  ▲    └─ at the first look: nobody writes up to the front of the stripe ─►  ▲
//!                     ▼  │ a write joins                                                            │
//!              held: the stripe before it is being written ── that ends ─► for so long as a write   │
//!                                                                          usually takes ── due ────┘
//! ```
//! A stripe is *held* when the write that comes up to its front is still under way: a host that writes in sequence, several
//! requests at once, goes on with the next blocks when that is acknowledged. The hold ends when a write takes the time of no
//! more than one stripe operation to come, which is what reading the rest of the stripe would have cost (the rule of ski
//! rental: at worst twice the best). Holds that ended in vain are followed by as many stripes that are not held, twice as
//! many each time.
//!
//! With one request in flight nothing is held, since its host waits for it. What is forced to be durable is not held, nor
//! what others wait for: reads by recovery, overlapping writes, visits, destages.
//!
//! Invariant: a stripe whose entry names an operation that collects is locked, and that operation has asked for nothing yet.
//! Left out: writes that join an operation that reads already. Source: the aims are those of Linux md's plug and its list of
//! delayed stripes (drivers/md/raid5.c: `raid5_unplug`, `delayed_list`), whose bound is not a time but the stripes that read:
//! that is [`GatherRule::Prereads`] (`delay.rs`), under which nothing is held and parts of stripes collect while another one
//! reads.
//!
//! [`GatherRule::Prereads`]: crate::rules::GatherRule::Prereads

use crate::api::{IoClass, TimerId};
use crate::controller::Controller;
use crate::request::Fragment;
use crate::stripe_locks::{Through, WaitKind};
use crate::stripe_op::{OpKind, Piece};
use raidlab_units::{NanoSpan, Nanos};

/// How many fragments one operation gathers at most.
pub(crate) const GATHER_LIMIT: usize = 256;

/// The timer for stripes that are held.
pub(crate) const HOLD_TIMER: TimerId = TimerId(3);

/// Longest wait for the next write, however long operations take.
const HOLD_MAX: NanoSpan = NanoSpan::from_millis(20);

/// Most stripes in a row that are not held because holds were in vain.
const SKIPS_MAX: u32 = 63;

/// How much of each new span goes into the usual one: one part of so many.
const SPAN_PARTS: u64 = 8;

/// How far an operation is that collects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Hold {
    /// Not looked at yet.
    #[default]
    Fresh,
    /// The stripe before it is being written.
    Behind,
    /// That has ended; held until then.
    Until(Nanos),
    /// To be carried out.
    Over,
}

/// The operations that collect, and what was learnt about holding them.
#[derive(Debug, Default)]
pub(crate) struct Gather {
    pub(crate) ops: Vec<u32>,
    /// How long an operation usually takes; zero before the first.
    span: NanoSpan,
    /// Stripes that will not be held, and how many it were after the hold before.
    skips_left: u32,
    skips: u32,
    timer_at: Option<Nanos>,
}

impl Gather {
    #[inline]
    pub(crate) const fn is_empty(&self) -> bool {
        self.ops.is_empty()
    }
}

impl Controller {
    /// True where writes through collect before they are carried out.
    #[inline]
    pub(crate) const fn collects(&self) -> bool {
        self.geometry.parities() > 0 && self.config.cache.gather_through
    }

    /// Lets a fragment of a write through collect in its stripe, or stand in line for it.
    pub(crate) fn collect_fragment(&mut self, key: u64, fragment: &Fragment, fua: bool) {
        if self.join(key, fragment, fua) || !self.lock_or_wait(key, WaitKind::Write, *fragment) {
            return;
        }
        let op = self.new_op(key, fragment.stripe, OpKind::Write, IoClass::Host);
        self.add_piece(op, fragment, fua);
        self.stripe_locks.set_through(key, Through::Collects(op));
        self.ops[op].hold = Hold::Fresh;
        self.end_hold_if_forced(op, fragment);
        self.look_at_op(op);
    }

    /// Adds a fragment to the operation that collects in its stripe. Returns false if there is none that can take it.
    fn join(&mut self, key: u64, fragment: &Fragment, fua: bool) -> bool {
        let Through::Collects(op) = self.stripe_locks.through(key) else { return false };
        if self.stripe_locks.is_awaited(key) || !self.takes_in(op, fragment) {
            return false;
        }
        self.add_piece(op, fragment, fua);
        if let Hold::Until(_) = self.ops[op].hold {
            self.ops[op].hold = Hold::Behind;
        }
        self.end_hold_if_forced(op, fragment);
        if self.delays_for_prereads() {
            self.look_at_op(op);
        }
        true
    }

    /// True if the order of overlapping writes is kept when `fragment` becomes part of the operation.
    pub(crate) fn takes_in(&self, op: u32, fragment: &Fragment) -> bool {
        let pieces = &self.ops[op].pieces;
        let overlaps = |piece: &Piece| piece.strip == fragment.strip && piece.rows.overlaps(fragment.rows);
        pieces.len() < GATHER_LIMIT && !pieces.iter().any(overlaps)
    }

    fn end_hold_if_forced(&mut self, op: u32, fragment: &Fragment) {
        if self.host.is_forced(fragment.request) {
            self.ops[op].hold = Hold::Over;
        }
    }

    /// Ends all holds, as for a host flush: who asks for that will not write on before it is answered.
    pub(crate) fn end_holds(&mut self) {
        for index in 0..self.gather.ops.len() {
            let op = self.gather.ops[index];
            self.ops[op].hold = Hold::Over;
        }
    }

    /// Carries out what has collected and is not to be held. The world has handed in all that it has.
    pub(crate) fn start_collected(&mut self) {
        if self.delays_for_prereads() {
            if self.start_undelayed() {
                self.pump();
            }
            return;
        }
        let mut collecting = core::mem::take(&mut self.gather.ops);
        let before = collecting.len();
        collecting.retain(|&op| {
            let is_due = self.is_due(op);
            if is_due {
                self.ops[op].is_looked_at = false;
                self.start_through(op);
            }
            !is_due
        });
        let started = collecting.len() < before;
        assert!(self.gather.ops.is_empty(), "only the host's writes begin to collect");
        self.gather.ops = collecting;
        self.set_hold_timer();
        if started {
            self.pump();
        }
    }

    /// Decides whether an operation goes on collecting.
    fn is_due(&mut self, op: u32) -> bool {
        let key = self.ops[op].key;
        let is_awaited = self.stripe_locks.is_awaited(key);
        let is_whole = self.is_whole(op);
        let hold = self.ops[op].hold;
        if is_whole && matches!(hold, Hold::Behind | Hold::Until(_)) {
            self.gather.skips = 0;
        }
        if is_whole || is_awaited || self.cache.has_stalled() || self.ops[op].pieces.len() >= GATHER_LIMIT {
            return true;
        }
        self.ops[op].hold = match hold {
            Hold::Fresh if self.is_one_of_many(op) && self.is_written_up_to(op) && self.may_hold() => {
                Hold::Behind
            }
            Hold::Fresh | Hold::Over => return true,
            Hold::Behind if self.is_written_up_to(op) => Hold::Behind,
            Hold::Behind => Hold::Until(self.now + self.gather.span.min(HOLD_MAX)),
            Hold::Until(at) if at <= self.now => {
                self.gather.skips = (2 * self.gather.skips + 1).min(SKIPS_MAX);
                self.gather.skips_left = self.gather.skips;
                return true;
            }
            Hold::Until(at) => Hold::Until(at),
        };
        false
    }

    /// True if an operation writes all rows of its stripe.
    pub(crate) fn is_whole(&self, op: u32) -> bool {
        let rows: u32 = self.ops[op].pieces.iter().map(|piece| piece.rows.count).sum();
        rows == self.geometry.data_strips() as u32 * self.geometry.strip_rows()
    }

    /// True if the host has other writes in flight than those of this operation. The fragments of a request are handed in
    /// one after the other.
    fn is_one_of_many(&self, op: u32) -> bool {
        let requests = self.ops[op].told.chunk_by(|one, next| one == next).count();
        self.host.through_in_flight() as usize > requests
    }

    /// True if an operation has the front of its stripe, and the end of the stripe before is being written.
    fn is_written_up_to(&mut self, op: u32) -> bool {
        let Some(before) = self.ops[op].key.checked_sub(1) else { return false };
        let has_front = self.ops[op].pieces.iter().any(|piece| (piece.strip, piece.rows.first) == (0, 0));
        if !has_front {
            return false;
        }
        let is_being_written = match self.stripe_locks.through(before) {
            Through::Unknown => false,
            Through::Collects(op) => self.has_end(op),
            Through::WritesEnd => true,
        };
        // It may stand in line behind a part of its stripe that was begun by itself.
        is_being_written
            || self.stripe_locks.any_write_waits(before, |it| self.geometry.is_end(it.strip, it.rows))
    }

    /// True if an operation writes the last block of its stripe.
    fn has_end(&self, op: u32) -> bool {
        self.ops[op].pieces.iter().any(|piece| self.geometry.is_end(piece.strip, piece.rows))
    }

    fn may_hold(&mut self) -> bool {
        if self.gather.skips_left > 0 {
            self.gather.skips_left -= 1;
            return false;
        }
        self.gather.span > NanoSpan::ZERO
    }

    /// Carries out an operation that writes through.
    pub(crate) fn start_through(&mut self, op: u32) {
        if self.collects() {
            let through = if self.has_end(op) { Through::WritesEnd } else { Through::Unknown };
            self.stripe_locks.set_through(self.ops[op].key, through);
            self.ops[op].began = Some(self.now);
            if self.delays_for_prereads() {
                self.end_delay(op);
            }
        }
        self.launch_op(op);
    }

    /// Takes in that an operation that wrote through has ended.
    pub(crate) fn end_through(&mut self, op: u32) {
        let Some(began) = self.ops[op].began.take() else { return };
        self.end_whole(op);
        let (span, usual) = (self.now - began, self.gather.span);
        self.gather.span = if usual == NanoSpan::ZERO {
            span
        } else {
            NanoSpan(usual.0 - usual.0 / SPAN_PARTS + span.0 / SPAN_PARTS)
        };
        self.stripe_locks.set_through(self.ops[op].key, Through::Unknown);
    }

    /// Sets the timer for the hold that ends first, unless it is set already.
    fn set_hold_timer(&mut self) {
        let ends = |&op: &u32| if let Hold::Until(at) = self.ops[op].hold { Some(at) } else { None };
        let Some(first) = self.gather.ops.iter().filter_map(ends).min() else { return };
        if self.gather.timer_at.is_none_or(|at| first < at) {
            self.gather.timer_at = Some(first);
            self.outbox.set_timer(HOLD_TIMER, first);
        }
    }

    /// Takes in that a hold may be over.
    pub(crate) fn hold_timer_due(&mut self) {
        self.gather.timer_at = None;
    }
}
