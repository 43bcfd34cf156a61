//! Staging memory: places for units of stripe operations, each one strip long, and the line of operations that wait for them.
//!
//! ```text
//! planned ─► enough are free, and nobody is in line ─► has its places ─► ended, or planned again: they are free
//!                              └─ else: in line, in order ──────▲
//! ```
//! Where [`ArrayRules::stripe_pages_max`] bounds the pages of stripes under way, an operation takes these with its places.
//!
//! Invariant: an operation has all places that its plan asks for, or none. Left out: what is in them, and where they begin
//! ([`Geometry::staging_buffer`]).
//!
//! [`ArrayRules::stripe_pages_max`]: crate::ArrayRules::stripe_pages_max

use super::op::StripeOp;
use crate::geometry::Geometry;
use crate::ids::OpId;
use crate::table::{NIL, Slab};
use std::collections::VecDeque;

const PAGE_BYTES: u64 = 4096;

/// The places, and who waits for them.
#[derive(Debug)]
pub(super) struct Staging {
    free: Vec<u32>,
    /// Pages on each member that stripes under way may take at most, where they are bounded.
    pages_max: Option<u32>,
    /// Those of them that none takes.
    pages_free: u32,
    /// Operations in line.
    waiting: VecDeque<OpId>,
}

impl Staging {
    /// So many places, all free, and a bound of pages.
    pub(super) fn new(places: u32, pages_max: Option<u32>) -> Self {
        let pages_free = pages_max.unwrap_or(0);
        Self { free: (0..places).rev().collect(), pages_max, pages_free, waiting: VecDeque::new() }
    }

    /// Gives an operation the places that its units need, or puts it in line. Returns true if it has them.
    pub(super) fn take_or_wait(&mut self, id: OpId, op: &mut StripeOp, geometry: &Geometry) -> bool {
        let needs_any = op.units.iter().any(|unit| unit.staged);
        if needs_any && (!self.waiting.is_empty() || !self.has_room(op, geometry)) {
            self.waiting.push_back(id);
            return false;
        }
        self.take(op, geometry);
        true
    }

    /// Gives the first in line its places, if there is room. Returns it.
    pub(super) fn next_in_line(
        &mut self,
        ops: &mut Slab<StripeOp, OpId>,
        geometry: &Geometry,
    ) -> Option<OpId> {
        let &id = self.waiting.front()?;
        if !self.has_room(&ops[id], geometry) {
            return None;
        }
        self.waiting.pop_front();
        self.take(&mut ops[id], geometry);
        Some(id)
    }

    /// Takes the places of an operation back.
    pub(super) fn release(&mut self, op: &mut StripeOp) {
        self.pages_free += core::mem::take(&mut op.stripe_pages);
        for unit in op.units.iter_mut().filter(|unit| unit.staging != NIL) {
            self.free.push(core::mem::replace(&mut unit.staging, NIL));
        }
    }

    /// Takes so many places for a record that a start writes again. There are as many (asserted): no operation is under way,
    /// and a stripe fits in staging.
    pub(super) fn take_places(&mut self, count: usize) -> Vec<u32> {
        (0..count).map(|_| self.free.pop().expect("a stripe fits in staging")).collect()
    }

    /// Takes these back.
    pub(super) fn give_places(&mut self, places: Vec<u32>) {
        self.free.extend(places);
    }

    fn has_room(&self, op: &StripeOp, geometry: &Geometry) -> bool {
        let places = op.units.iter().filter(|unit| unit.staged).count();
        self.free.len() >= places && self.pages_free >= self.pages(op, geometry)
    }

    /// Pages on each member that an operation takes, where these are bounded; one that is longer than the bound takes all.
    fn pages(&self, op: &StripeOp, geometry: &Geometry) -> u32 {
        let Some(most) = self.pages_max else { return 0 };
        if !op.units.iter().any(|unit| unit.staged) {
            return 0;
        }
        let pages = (u64::from(op.hull.count) * geometry.block_bytes()).div_ceil(PAGE_BYTES);
        pages.min(most.into()) as u32
    }

    fn take(&mut self, op: &mut StripeOp, geometry: &Geometry) {
        op.stripe_pages = self.pages(op, geometry);
        self.pages_free -= op.stripe_pages;
        for unit in op.units.iter_mut().filter(|unit| unit.staged) {
            unit.staging = self.free.pop().expect("counted before");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::Rows;
    use crate::stripe_engine::units::UnitUse;
    use raidlab_raid::{LayoutSpec, build_layout};
    use raidlab_units::BlockCount;

    /// Operations that need so many places each, over so many rows.
    fn ops<const N: usize>(needs: [(usize, u32); N]) -> (Slab<StripeOp, OpId>, [OpId; N], Geometry) {
        let mut ops = Slab::<StripeOp, OpId>::new();
        let ids = needs.map(|(places, rows)| {
            let id = ops.take();
            ops[id].hull = Rows { first: 0, count: rows };
            ops[id].units = vec![UnitUse { staged: true, ..UnitUse::IDLE }; places];
            id
        });
        let blocks = BlockCount(16);
        let spec = LayoutSpec {
            level: "5".parse().expect("it is a level"),
            members: 3,
            strip_blocks: blocks,
            member_blocks: blocks,
        };
        (ops, ids, Geometry::new(build_layout(&spec).expect("it can be"), 4096, 1))
    }

    #[test]
    fn who_needs_less_waits_behind_who_needs_more() {
        let (mut ops, [first, large, small, none], geometry) = ops([(3, 1), (4, 1), (1, 1), (0, 1)]);
        let mut staging = Staging::new(5, None);
        let has = [first, large, small, none].map(|id| staging.take_or_wait(id, &mut ops[id], &geometry));
        assert_eq!(has, [true, false, false, true], "one place would do for the third");
        assert_eq!(staging.next_in_line(&mut ops, &geometry), None);
        staging.release(&mut ops[first]);
        let line = [(); 3].map(|()| staging.next_in_line(&mut ops, &geometry));
        assert_eq!(line, [Some(large), Some(small), None]);
        let mut places: Vec<u32> =
            [large, small].iter().flat_map(|&id| ops[id].units.iter().map(|unit| unit.staging)).collect();
        places.sort_unstable();
        assert_eq!(places, [0, 1, 2, 3, 4], "each has its own");
    }

    #[test]
    fn pages_bound_what_is_under_way_and_one_that_is_longer_takes_them_all() {
        let (mut ops, [long, short], geometry) = ops([(1, 12), (1, 1)]);
        let mut staging = Staging::new(5, Some(8));
        assert!(staging.take_or_wait(long, &mut ops[long], &geometry));
        assert!(!staging.take_or_wait(short, &mut ops[short], &geometry));
        staging.release(&mut ops[long]);
        assert_eq!(staging.next_in_line(&mut ops, &geometry), Some(short));
        assert_eq!(ops[short].stripe_pages, 1);
    }

    #[test]
    fn places_for_a_start_come_back() {
        let mut staging = Staging::new(2, None);
        let places = staging.take_places(2);
        assert_eq!(places, [0, 1]);
        staging.give_places(places);
        assert_eq!(staging.free.len(), 2);
    }
}
