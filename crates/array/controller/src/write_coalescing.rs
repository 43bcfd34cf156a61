//! Write coalescing: writes through are collected into whole stripes before they are carried out.
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
//! Invariant: the lock of an operation that collects is held and names it, and the operation has asked for nothing yet.
//! Left out: writes that join an operation that reads already; carrying operations out. Source: the aims are those of Linux md's plug and its list of
//! delayed stripes (drivers/md/raid5.c: `raid5_unplug`, `delayed_list`), whose bound is not a time but the stripes that read:
//! that is [`CoalescingRule::Prereads`] (`prereads.rs`), under which nothing is held and parts of stripes collect while another one
//! reads.
//!
//! [`CoalescingRule::Prereads`]: crate::rules::CoalescingRule::Prereads

mod prereads;

use crate::api::TimerId;
use crate::config::CacheConfig;
use crate::geometry::Geometry;
use crate::host_front::HostFront;
use crate::ids::{LockKey, OpId};
use crate::outbox::Outbox;
use crate::per_op::PerOp;
use crate::request::Fragment;
use crate::rules::CoalescingRule;
use crate::stripe_engine::{Piece, StripeEngine, StripeOp};
use crate::stripe_locks::{StripeLocks, Through};
use prereads::Prereads;
use raidlab_units::{NanoSpan, Nanos};

/// How many fragments one operation takes at most.
const FRAGMENTS_MAX: usize = 256;

/// The timer for stripes that are held.
pub(crate) const HOLD_TIMER: TimerId = TimerId(3);

/// Longest wait for the next write, however long operations take.
const HOLD_MAX: NanoSpan = NanoSpan::from_millis(20);

/// Most stripes in a row that are not held because holds were in vain.
const SKIPS_MAX: u32 = 63;

/// How much of each new span goes into the usual one: one part of so many.
const SPAN_PARTS: u64 = 8;

/// How long an operation is held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Hold {
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

/// What is known of an operation that collects or did.
#[derive(Debug, Default)]
struct Collecting {
    hold: Hold,
    /// It stands among those that are looked at with the next poll.
    is_listed: bool,
    /// When it was carried out, if its time is counted.
    began: Option<Nanos>,
    prereads: prereads::Delayed,
}

/// What coalescing looks at of the others.
pub(crate) struct Surroundings<'a> {
    pub(crate) now: Nanos,
    pub(crate) geometry: &'a Geometry,
    pub(crate) locks: &'a mut StripeLocks,
    pub(crate) stripes: &'a mut StripeEngine,
    pub(crate) host: &'a HostFront,
    /// Cached writes wait for places.
    pub(crate) has_stalled: bool,
    pub(crate) outbox: &'a mut Outbox,
}

/// The operations that collect, and what was learnt about holding them.
#[derive(Debug)]
pub(crate) struct WriteCoalescing {
    /// Writes through collect before they are carried out.
    is_on: bool,
    /// Writes that wait in line for a stripe become one operation, whoever made them.
    joins_line: bool,
    /// Parts of stripes wait for others to read, as in Linux md.
    prereads: Option<Prereads>,
    /// What is known of each operation.
    ops: PerOp<Collecting>,
    /// Operations to look at with the next poll.
    listed: Vec<OpId>,
    /// Those of the poll under way, and how many were looked at.
    looking: Vec<OpId>,
    looked_to: usize,
    /// How long an operation usually takes; zero before the first.
    span: NanoSpan,
    /// Stripes that will not be held, and how many it were after the hold before.
    skips_left: u32,
    skips: u32,
    timer_at: Option<Nanos>,
}

impl WriteCoalescing {
    /// Coalescing as the configuration asks for; without parity nothing collects.
    pub(crate) fn new(config: &CacheConfig, has_parity: bool) -> Self {
        let is_on = has_parity && config.coalesce_writes;
        let waits = is_on && config.rules.coalescing == CoalescingRule::Prereads;
        Self {
            is_on,
            joins_line: config.coalesce_writes,
            prereads: if waits { Some(Prereads::new(config.rules.preread_bypass)) } else { None },
            ops: PerOp::new(),
            listed: Vec::new(),
            looking: Vec::new(),
            looked_to: 0,
            span: NanoSpan::ZERO,
            skips_left: 0,
            skips: 0,
            timer_at: None,
        }
    }

    /// True where writes through collect before they are carried out.
    #[inline]
    pub(crate) const fn is_on(&self) -> bool {
        self.is_on
    }

    /// True if something may be due to be carried out.
    #[inline]
    pub(crate) fn has_work(&self) -> bool {
        !self.listed.is_empty() || self.prereads.as_ref().is_some_and(Prereads::is_due)
    }

    /// Adds a fragment to the operation that collects in its stripe. Returns false if there is none that can take it.
    pub(crate) fn join(
        &mut self,
        key: LockKey,
        fragment: &Fragment,
        fua: bool,
        around: &mut Surroundings<'_>,
    ) -> bool {
        let Through::Collects(id) = around.locks.through(key) else { return false };
        let op = around.stripes.op_mut(id);
        if around.locks.is_awaited(key) || !takes_in(op, fragment) {
            return false;
        }
        op.add_fragment(fragment, fua);
        let hold = &mut self.ops.of(id).hold;
        if let Hold::Until(_) = hold {
            *hold = Hold::Behind;
        }
        if around.host.is_forced(fragment.request) {
            *hold = Hold::Over;
        }
        if self.prereads.is_some() {
            self.list(id);
        }
        true
    }

    /// Lets a new operation collect, which has its first fragment.
    pub(crate) fn begin(&mut self, id: OpId, fragment: &Fragment, around: &mut Surroundings<'_>) {
        let is_forced = around.host.is_forced(fragment.request);
        around.locks.set_through(around.stripes.op(id).key(), Through::Collects(id));
        self.begin_hold(id, is_forced);
    }

    /// True if a fragment in line joins an operation made of those before it: `of_same_request` of the first of them.
    pub(crate) fn joins_from_line(&self, op: &StripeOp, fragment: &Fragment, of_same_request: bool) -> bool {
        (self.joins_line || of_same_request) && takes_in(op, fragment)
    }

    /// Has a new operation looked at with the next poll, and held from then on unless it `is_forced`.
    fn begin_hold(&mut self, id: OpId, is_forced: bool) {
        let state = self.ops.of(id);
        debug_assert!(!state.is_listed, "{id:?} is new");
        (state.hold, state.is_listed) = (if is_forced { Hold::Over } else { Hold::Fresh }, true);
        self.listed.push(id);
    }

    /// Has an operation that collects looked at with the next poll.
    fn list(&mut self, id: OpId) {
        if !core::mem::replace(&mut self.ops.of(id).is_listed, true) {
            self.listed.push(id);
        }
    }

    /// Ends all holds, as for a host flush: who asks for that will not write on before it is answered.
    pub(crate) fn end_holds(&mut self) {
        for &id in &self.listed {
            self.ops.of(id).hold = Hold::Over;
        }
    }

    /// Begins to look at what collects: the world has handed in all that it has. [`WriteCoalescing::next_due`] goes on with it.
    pub(crate) fn begin_look(&mut self) {
        assert_eq!(self.looked_to, self.looking.len(), "one look after the other");
        self.looking.clear();
        self.looked_to = 0;
        core::mem::swap(&mut self.listed, &mut self.looking);
        if let Some(prereads) = &mut self.prereads {
            prereads.begin_look();
        }
    }

    /// The next operation that is to be carried out now.
    #[inline]
    pub(crate) fn next_due(&mut self, around: &mut Surroundings<'_>) -> Option<OpId> {
        while let Some(&id) = self.looking.get(self.looked_to) {
            self.looked_to += 1;
            let is_due = match &mut self.prereads {
                None => self.is_due(id, around),
                Some(prereads) => prereads.is_due_at_once(id, self.ops.of(id), around),
            };
            if is_due || self.prereads.is_some() {
                self.ops.of(id).is_listed = false;
            } else {
                self.listed.push(id);
            }
            if is_due {
                return Some(id);
            }
        }
        match &mut self.prereads {
            None => self.set_hold_timer(around),
            Some(prereads) => return prereads.next_activated(&self.ops),
        }
        None
    }

    /// Decides whether an operation goes on collecting.
    #[inline]
    fn is_due(&mut self, id: OpId, around: &mut Surroundings<'_>) -> bool {
        let op = around.stripes.op(id);
        let (is_whole, hold) = (op.is_whole(around.geometry), self.ops.of(id).hold);
        if is_whole && matches!(hold, Hold::Behind | Hold::Until(_)) {
            self.skips = 0;
        }
        if is_whole || is_wanted(op, around.locks, around.has_stalled) {
            return true;
        }
        let hold = match hold {
            Hold::Fresh
                if is_one_of_many(op, around.host) && is_written_up_to(op, around) && self.may_hold() =>
            {
                Hold::Behind
            }
            Hold::Fresh | Hold::Over => return true,
            Hold::Behind if is_written_up_to(op, around) => Hold::Behind,
            Hold::Behind => Hold::Until(around.now + self.span.min(HOLD_MAX)),
            Hold::Until(at) if at <= around.now => {
                self.skips = (2 * self.skips + 1).min(SKIPS_MAX);
                self.skips_left = self.skips;
                return true;
            }
            Hold::Until(at) => Hold::Until(at),
        };
        self.ops.of(id).hold = hold;
        false
    }

    fn may_hold(&mut self) -> bool {
        if self.skips_left > 0 {
            self.skips_left -= 1;
            return false;
        }
        self.span > NanoSpan::ZERO
    }

    /// Takes in that an operation that writes through is carried out.
    #[inline]
    pub(crate) fn start(&mut self, id: OpId, around: &mut Surroundings<'_>) {
        if !self.is_on {
            return;
        }
        let op = around.stripes.op(id);
        let through = if has_end(op, around.geometry) { Through::WritesEnd } else { Through::Unknown };
        around.locks.set_through(op.key(), through);
        let state = self.ops.of(id);
        state.began = Some(around.now);
        if let Some(prereads) = &mut self.prereads {
            prereads.end_delay(&mut state.prereads, op.is_whole(around.geometry));
        }
    }

    /// Takes in that an operation has ended.
    pub(crate) fn end(&mut self, now: Nanos, (id, key): (OpId, LockKey), locks: &mut StripeLocks) {
        let Some(state) = self.ops.known_mut(id) else { return };
        let Some(began) = state.began.take() else { return };
        if let Some(prereads) = &mut self.prereads {
            prereads.end_whole(&mut state.prereads);
        }
        let (span, usual) = (now - began, self.span);
        self.span = if usual == NanoSpan::ZERO {
            span
        } else {
            NanoSpan(usual.0 - usual.0 / SPAN_PARTS + span.0 / SPAN_PARTS)
        };
        locks.set_through(key, Through::Unknown);
    }

    /// Sets the timer for the hold that ends first, unless it is set already.
    fn set_hold_timer(&mut self, around: &mut Surroundings<'_>) {
        let ends = |&id: &OpId| match self.ops.known(id)?.hold {
            Hold::Until(at) => Some(at),
            _ => None,
        };
        let Some(first) = self.listed.iter().filter_map(ends).min() else { return };
        if self.timer_at.is_none_or(|at| first < at) {
            self.timer_at = Some(first);
            around.outbox.set_timer(HOLD_TIMER, first);
        }
    }

    /// Takes in that a hold may be over.
    pub(crate) const fn timer_due(&mut self) {
        self.timer_at = None;
    }
}

/// True if the order of overlapping writes is kept when `fragment` becomes part of the operation.
fn takes_in(op: &StripeOp, fragment: &Fragment) -> bool {
    let overlaps = |piece: &Piece| piece.strip == fragment.strip && piece.rows.overlaps(fragment.rows);
    op.pieces().len() < FRAGMENTS_MAX && !op.pieces().iter().any(overlaps)
}

/// True if others wait for what an operation has locked or would free, or it can take no more.
fn is_wanted(op: &StripeOp, locks: &mut StripeLocks, has_stalled: bool) -> bool {
    has_stalled || op.pieces().len() >= FRAGMENTS_MAX || locks.is_awaited(op.key())
}

/// True if the host has other writes in flight than those of this operation. The fragments of a request are handed in one after
/// the other.
fn is_one_of_many(op: &StripeOp, host: &HostFront) -> bool {
    let requests = op.told().chunk_by(|one, next| one == next).count();
    host.through_in_flight() as usize > requests
}

/// True if an operation has the front of its stripe, and the end of the stripe before is being written.
fn is_written_up_to(op: &StripeOp, around: &Surroundings<'_>) -> bool {
    let Some(before) = op.key().before() else { return false };
    if !op.pieces().iter().any(|piece| (piece.strip, piece.rows.first) == (0, 0)) {
        return false;
    }
    let is_being_written = match around.locks.peek_through(before) {
        Through::Unknown => false,
        Through::Collects(other) => has_end(around.stripes.op(other), around.geometry),
        Through::WritesEnd => true,
    };
    // It may stand in line behind a part of its stripe that was begun by itself.
    is_being_written || around.locks.any_write_waits(before, |it| around.geometry.is_end(it.strip, it.rows))
}

/// True if an operation writes the last block of its stripe.
fn has_end(op: &StripeOp, geometry: &Geometry) -> bool {
    op.pieces().iter().any(|piece| geometry.is_end(piece.strip, piece.rows))
}
