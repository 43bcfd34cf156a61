//! What redundancy is left: which rows can be read or made up, and what can be stored.
//!
//! Devices that are missing, bad blocks and stripes out of sync are looked at together. Stripes out of sync:
//!
//! | level | all its data is on some device | some of its data is on none |
//! |---|---|---|
//! | parity | is resynced before the host touches it | stays out of sync: nothing is made up from parity |
//! | copies | is resynced before the host touches it | is lost anyway |

use super::{Metadata, places_of};
use crate::geometry::Geometry;
use crate::ids::LockKey;
use crate::request::{Fragment, FragmentWalk, Rows};
use raidlab_raid::{StripUnit, UnitPlace};
use raidlab_units::{BlockCount, Lba, StripeIndex};

impl Metadata {
    /// True if some of `rows` of the unit at `place` are bad blocks of the device that holds it.
    #[inline]
    pub(crate) fn is_bad(&self, place: UnitPlace, rows: Rows) -> bool {
        self.any_bad() && self.is_among_bad(place, rows)
    }

    /// The same where there are bad blocks: seldom, and too much to stand in each place that asks.
    #[inline(never)]
    fn is_among_bad(&self, place: UnitPlace, rows: Rows) -> bool {
        self.holder(place).is_some_and(|device| {
            let first = place.start + BlockCount(u64::from(rows.first));
            self.overlaps_bad(device, first, u64::from(rows.count))
        })
    }

    /// True if rows of a stripe can be made up without the units that lack them: those that `is_lacking` names, that nobody holds, or
    /// that are bad there.
    pub(crate) fn can_make_up(
        &self,
        geometry: &Geometry,
        key: LockKey,
        rows: Rows,
        is_lacking: impl Fn(u16) -> bool,
    ) -> bool {
        let lacks = |unit: &u16| {
            let place = geometry.lock_place(key, *unit);
            is_lacking(*unit) || !self.holds(place) || self.is_bad(place, rows)
        };
        let lacking = (0..geometry.lock_units()).filter(lacks).count();
        match geometry.parities() {
            0 => lacking < usize::from(geometry.copies()),
            parities => lacking <= parities && !self.is_out_of_sync(key),
        }
    }

    /// True if some of `rows` of the unit at `place` are bad, but none is lost: they may be read again. Never where a crash has left
    /// data in doubt, of which everything that can be read is believed.
    pub(crate) fn may_be_read_again(&self, key: LockKey, place: UnitPlace, rows: Rows) -> bool {
        self.is_bad(place, rows)
            && !self.is_out_of_sync(key)
            && self.holder(place).is_some_and(|device| {
                let first = place.start + BlockCount(u64::from(rows.first));
                !self.overlaps_lost((device, first, u64::from(rows.count)))
            })
    }

    /// True if a unit of the stripe with this lock stands on a device that is lost, so that it must not change.
    pub(crate) fn touches_lost(&self, geometry: &Geometry, key: LockKey) -> bool {
        let places = (0..geometry.lock_units()).map(|unit| geometry.lock_place(key, unit));
        self.any_lost() && self.members.touches_lost(places)
    }

    /// The same of all units of a stripe, where copies are locked strip by strip.
    pub(crate) fn stripe_touches_lost(&self, geometry: &Geometry, stripe: StripeIndex) -> bool {
        self.members.touches_lost(places_of(geometry.layout(), stripe))
    }

    /// True when the stripe is to be resynced before anything else, and can be.
    #[inline]
    pub(crate) fn needs_resync(&self, geometry: &Geometry, key: LockKey) -> bool {
        self.is_out_of_sync(key) && self.has_all_data(geometry, key)
    }

    /// True when each data strip under the lock stands on some device, and none on one that is lost.
    pub(crate) fn has_all_data(&self, geometry: &Geometry, key: LockKey) -> bool {
        let (stripe, first) = geometry.lock_start(key);
        if self.touches_lost(geometry, key) {
            return false;
        }
        let strips =
            if geometry.parities() > 0 { 0..geometry.data_strips() as u16 } else { first..first + 1 };
        strips.into_iter().all(|strip| copies_of(geometry, stripe, strip).any(|place| self.holds(place)))
    }

    /// How many of a fragment's copies, the first of them, a resync will take before one that is on a lost device; none where
    /// copies agree, or none is lost.
    pub(crate) fn doubted_copies(&self, geometry: &Geometry, fragment: &Fragment) -> Option<u16> {
        if !self.any_out_of_sync() || geometry.parities() > 0 || !self.any_lost() {
            return None;
        }
        let is_lost = |place| self.members.touches_lost(core::iter::once(place));
        let lost = copies_of(geometry, fragment.stripe, fragment.strip).position(is_lost)?;
        self.is_out_of_sync(geometry.lock_key(fragment)).then_some(lost as u16)
    }

    /// True if a strip whose copies have been made to agree lacks one, or rows of one, that the superblock may still call good.
    /// Where the devices will never know better, a device is lost.
    pub(crate) fn lacks_copy_unknown(&self, geometry: &Geometry, key: LockKey) -> bool {
        let all = Rows { first: 0, count: geometry.strip_rows() };
        let mut places = (0..geometry.lock_units()).map(|unit| geometry.lock_place(key, unit));
        let is_awaited = !self.is_kept() && !self.is_frozen();
        let is_whole = |place| self.holds(place) && !self.is_bad(place, all);
        geometry.copies() > 1 && is_awaited && !places.all(is_whole)
    }

    /// True when nothing is missing or bad: whatever is written can be read back.
    pub(crate) const fn is_unharmed(&self) -> bool {
        !self.any_incomplete() && !self.any_lost() && !self.any_bad()
    }

    /// True when what was written to a strip can be read back from what is left of the array.
    pub(crate) fn is_stored(
        &self,
        geometry: &Geometry,
        (stripe, strip): (StripeIndex, u16),
        rows: Rows,
    ) -> bool {
        if !self.survives(geometry, stripe, strip) {
            return false;
        }
        if geometry.parities() == 0 {
            let is_readable = |place, row| self.holds(place) && !self.is_bad(place, row);
            let is_held = |row| copies_of(geometry, stripe, strip).any(|place| is_readable(place, row));
            return self.in_each_row(rows, is_held);
        }
        let own = geometry.unit_place(stripe, strip);
        let is_held =
            |row| (self.holds(own) && !self.is_bad(own, row)) || self.can_recover(geometry, stripe, row);
        self.in_each_row(rows, is_held)
    }

    /// True when enough is left of the array to hold what is to be written to a strip. Parity of a stripe out of sync can hold
    /// it only if it is computed from all data, all rows at once: not where a cache may cut them up (`in_pieces`).
    pub(crate) fn can_store(
        &self,
        geometry: &Geometry,
        (stripe, strip): (StripeIndex, u16),
        rows: Rows,
        in_pieces: bool,
    ) -> bool {
        if !self.survives(geometry, stripe, strip) {
            return false;
        }
        if geometry.parities() == 0 || self.holds(geometry.unit_place(stripe, strip)) {
            return true;
        }
        if self.is_out_of_sync(LockKey::of_stripe(stripe)) {
            return rows.count == geometry.strip_rows() && !in_pieces;
        }
        self.in_each_row(rows, |row| self.can_recover(geometry, stripe, row))
    }

    /// The first block of what `walk` passes that can't be stored, see [`Metadata::can_store`].
    #[inline]
    pub(crate) fn first_unstorable(
        &self,
        geometry: &Geometry,
        mut walk: FragmentWalk,
        in_pieces: bool,
    ) -> Option<Lba> {
        if !self.any_incomplete() {
            return None;
        }
        while let Some(fragment) = walk.next(geometry.layout()) {
            if !self.can_store(geometry, (fragment.stripe, fragment.strip), fragment.rows, in_pieces) {
                return Some(geometry.fragment_lba(&fragment));
            }
        }
        None
    }

    /// True unless so many members are gone that a strip is not to be written.
    pub(crate) fn survives(&self, geometry: &Geometry, stripe: StripeIndex, strip: u16) -> bool {
        if !self.any_incomplete() && !self.any_lost() {
            return true;
        }
        if geometry.parities() > 0 {
            let units = 0..geometry.unit_count() as u16;
            let missing = units.filter(|&unit| !self.holds(geometry.unit_place(stripe, unit)));
            return missing.count() <= geometry.parities() && !self.stripe_touches_lost(geometry, stripe);
        }
        !self.members.touches_lost(copies_of(geometry, stripe, strip))
            && copies_of(geometry, stripe, strip).any(|place| self.holds(place))
    }

    /// True if all that is missing or bad in `rows` of a stripe can be made up from its redundancy.
    fn can_recover(&self, geometry: &Geometry, stripe: StripeIndex, rows: Rows) -> bool {
        let is_readable = |unit: usize| {
            let place = geometry.unit_place(stripe, unit as u16);
            self.holds(place) && !self.is_bad(place, rows)
        };
        let data = geometry.data_strips();
        let erased = (0..data).filter(|&unit| !is_readable(unit)).count();
        let usable = (data..geometry.unit_count()).filter(|&unit| is_readable(unit)).count();
        erased <= usable && !self.is_out_of_sync(LockKey::of_stripe(stripe))
    }

    /// True if `holds` says so of each row; all at once where no block is bad.
    fn in_each_row(&self, rows: Rows, holds: impl Fn(Rows) -> bool) -> bool {
        if !self.any_bad() {
            return holds(rows);
        }
        (rows.first..rows.end()).all(|row| holds(Rows::between(row, row + 1)))
    }
}

/// Where the copies of a strip stand.
fn copies_of(geometry: &Geometry, stripe: StripeIndex, strip: u16) -> impl Iterator<Item = UnitPlace> + '_ {
    let units = (0..geometry.copies()).map(move |copy| StripUnit::Data { strip, copy });
    units.map(move |unit| geometry.layout().place(stripe, unit))
}
