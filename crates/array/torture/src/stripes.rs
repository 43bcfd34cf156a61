//! Where the strips of a volume are right now: the layout, the devices that play its roles, and what they can give.

use super::members::{Device, Presence};
use raidlab_controller::DeviceState;
use raidlab_raid::{Layout, StripUnit, StripeShape, UnitPlace};
use raidlab_units::{BlockCount, Lba, MemberIndex, MemberLba, StripeIndex};
use std::collections::BTreeSet;

/// Blocks of a device's data area, tags left out.
pub(super) type BadRange = (MemberIndex, MemberLba, BlockCount);

/// The strips and blocks of a volume.
#[derive(Clone, Copy)]
pub(super) struct Stripes<'a> {
    pub(super) layout: &'a dyn Layout,
    pub(super) devices: &'a [Device],
    /// What each device is to the controller, as it may be written down.
    pub(super) states: &'a [DeviceState],
    /// Whether each device is in sync even if power fails now.
    pub(super) proven: &'a [bool],
    /// Blocks that the controller calls bad, or that the devices do.
    pub(super) bad: &'a [BadRange],
}

impl Stripes<'_> {
    pub(super) fn shape(&self) -> StripeShape {
        self.layout.shape()
    }

    /// All units of a stripe.
    pub(super) fn units(&self) -> impl Iterator<Item = StripUnit> + use<> {
        let shape = self.shape();
        let copies = move |strip| (0..shape.copies).map(move |copy| StripUnit::Data { strip, copy });
        let data = (0..shape.data_strips).flat_map(copies);
        data.chain((0..shape.parities).map(StripUnit::Parity))
    }

    pub(super) fn indices(&self) -> impl Iterator<Item = StripeIndex> + use<> {
        (0..self.layout.stripe_count().0).map(StripeIndex)
    }

    pub(super) fn lba(&self, stripe: StripeIndex, strip: u16, block: u64) -> Lba {
        self.layout.strip_start(stripe, strip) + BlockCount(block)
    }

    /// The device that holds what the layout puts at `place`, as the controller sees it.
    pub(super) fn holder(&self, place: UnitPlace) -> Option<MemberIndex> {
        let plays = |state: &DeviceState| match *state {
            DeviceState::InSync { role } => role == place.member,
            DeviceState::Rebuilding { role, boundary } => role == place.member && place.start < boundary,
            DeviceState::Spare | DeviceState::Missing | DeviceState::Lost { .. } => false,
        };
        // A member mostly plays its own role.
        let own = self.states.get(usize::from(place.member.0)).filter(|state| plays(state));
        own.map(|_| place.member)
            .or_else(|| self.states.iter().position(plays).map(|device| MemberIndex(device as u16)))
    }

    /// The device that holds a unit, if it answers and has not failed a write.
    pub(super) fn fit_holder(&self, place: UnitPlace) -> Option<(MemberIndex, &Device)> {
        let holder = self.holder(place)?;
        let device = &self.devices[usize::from(holder.0)];
        (!device.is_out()).then_some((holder, device))
    }

    /// True if a strip can't be read: nobody holds it, or some of its blocks are unreadable.
    pub(super) fn is_unavailable(&self, stripe: StripeIndex, unit: StripUnit) -> bool {
        let place = self.layout.place(stripe, unit);
        let blocks = self.shape().strip_blocks.0;
        self.fit_holder(place).is_none_or(|(_, device)| device.data.is_spoiled(place.start.0, blocks))
    }

    /// True if one block of a strip can't be read.
    fn is_row_unavailable(&self, stripe: StripeIndex, unit: StripUnit, row: u64) -> bool {
        let place = self.layout.place(stripe, unit);
        self.fit_holder(place).is_none_or(|(_, device)| device.data.is_spoiled(place.start.0 + row, 1))
    }

    /// True if the level does not survive what `stripe` misses.
    pub(super) fn is_failed(&self, stripe: StripeIndex) -> bool {
        self.is_too_much(|unit| self.is_unavailable(stripe, unit))
    }

    /// True if the level does not survive what one row of `stripe` misses.
    pub(super) fn is_row_failed(&self, stripe: StripeIndex, row: u64) -> bool {
        self.is_too_much(|unit| self.is_row_unavailable(stripe, unit, row))
    }

    /// True if the level does not survive what one row of `stripe` misses, with `lost` among it.
    pub(super) fn is_row_failed_without(&self, stripe: StripeIndex, row: u64, lost: StripUnit) -> bool {
        self.is_too_much(|unit| unit == lost || self.is_row_unavailable(stripe, unit, row))
    }

    /// True if the level does not survive what one row of `stripe` misses, with what is called bad but for `unit`, and with
    /// that unit, too, where it is `lost`.
    pub(super) fn is_row_given_up(&self, stripe: StripeIndex, row: u64, unit: StripUnit, lost: bool) -> bool {
        self.is_too_much(|other| {
            let is_known = if other == unit { lost } else { self.is_row_called_bad(stripe, other, row) };
            is_known || self.is_row_unavailable(stripe, other, row)
        })
    }

    /// True if the level does not survive what the row of a block misses, with what is called bad.
    pub(super) fn is_called_lost(&self, lba: Lba) -> bool {
        let (stripe, _, row) = self.layout.locate(lba);
        self.is_too_much(|unit| {
            self.is_row_called_bad(stripe, unit, row.0) || self.is_row_unavailable(stripe, unit, row.0)
        })
    }

    /// True if one block of a strip is called bad.
    pub(super) fn is_row_called_bad(&self, stripe: StripeIndex, unit: StripUnit, row: u64) -> bool {
        let place = self.layout.place(stripe, unit);
        let start = place.start + BlockCount(row);
        self.holder(place).is_some_and(|holder| self.is_called_bad(holder, start, BlockCount(1)))
    }

    /// The blocks of the volume in one row.
    pub(super) fn row_blocks(&self, stripe: StripeIndex, row: u64) -> impl Iterator<Item = Lba> + use<'_> {
        (0..self.shape().data_strips).map(move |strip| self.lba(stripe, strip, row))
    }

    /// The blocks of one row that can't be read where they stand, or are called bad.
    pub(super) fn unreadable_blocks(&self, stripe: StripeIndex, row: u64) -> Vec<Lba> {
        let is_missing = |strip: &u16| {
            let unit = StripUnit::Data { strip: *strip, copy: 0 };
            self.is_row_unavailable(stripe, unit, row) || self.is_row_called_bad(stripe, unit, row)
        };
        let strips = (0..self.shape().data_strips).filter(is_missing);
        strips.map(|strip| self.lba(stripe, strip, row)).collect()
    }

    /// The blocks of one row that no device has, nor will have when those are back that the array waits for: with parity any of
    /// the stripe's may bring them back, else only those that hold the block.
    pub(super) fn hopeless_blocks(&self, stripe: StripeIndex, row: u64) -> Vec<Lba> {
        let shape = self.shape();
        let copies = |strip: u16| (0..shape.copies).map(move |copy| StripUnit::Data { strip, copy });
        let is_awaited = |strip: u16| match shape.parities {
            0 => copies(strip).any(|unit| self.awaits_unit(stripe, unit)),
            _ => self.awaits_device(stripe),
        };
        let is_missing = |strip: u16| copies(strip).all(|unit| self.is_row_unavailable(stripe, unit, row));
        let strips = (0..shape.data_strips).filter(|strip| is_missing(*strip) && !is_awaited(*strip));
        strips.map(|strip| self.lba(stripe, strip, row)).collect()
    }

    /// True if a unit of the stripe is on a device that is gone for now: the array waits for it, or has not noticed.
    pub(super) fn awaits_device(&self, stripe: StripeIndex) -> bool {
        self.units().any(|unit| self.awaits_unit(stripe, unit))
    }

    /// The same of one unit.
    fn awaits_unit(&self, stripe: StripeIndex, unit: StripUnit) -> bool {
        let place = self.layout.place(stripe, unit);
        let is_lost = |state: &DeviceState| *state == DeviceState::Lost { role: place.member };
        let is_out = |holder: MemberIndex| self.devices[usize::from(holder.0)].is_out();
        self.states.iter().any(is_lost) || self.holder(place).is_some_and(is_out)
    }

    /// True if nobody holds some unit of the stripe.
    pub(super) fn lacks_holder(&self, stripe: StripeIndex) -> bool {
        self.units().any(|unit| self.holder(self.layout.place(stripe, unit)).is_none())
    }

    /// True if records of some stripe that are written in these states are on one device each: it lacks as many devices as it has
    /// parities.
    pub(super) fn has_single_records(&self, states: &[DeviceState]) -> bool {
        let parities = usize::from(self.shape().parities);
        let is_missing = |stripe, unit| {
            let role = self.layout.place(stripe, unit).member;
            !states.contains(&DeviceState::InSync { role })
        };
        let missing = |stripe| self.units().filter(|unit| is_missing(stripe, *unit)).count();
        parities > 0 && self.indices().any(|stripe| missing(stripe) >= parities)
    }

    fn is_too_much(&self, is_missing: impl Fn(StripUnit) -> bool) -> bool {
        let shape = self.shape();
        let data_missing = (0..shape.data_strips)
            .filter(|strip| (0..shape.copies).all(|copy| is_missing(StripUnit::Data { strip: *strip, copy })))
            .count();
        let parities_missing =
            (0..shape.parities).filter(|parity| is_missing(StripUnit::Parity(*parity))).count();
        data_missing > 0 && data_missing + parities_missing > usize::from(shape.parities)
    }

    /// The stripes that hold some of the range.
    pub(super) fn of_range(&self, lba: Lba, blocks: BlockCount) -> impl Iterator<Item = StripeIndex> + use<> {
        let all = (lba.0..lba.0 + blocks.0).map(|block| self.layout.locate(Lba(block)).0);
        all.collect::<BTreeSet<_>>().into_iter()
    }

    /// True if `stripe` would survive the loss of all units that `is_more` names, beside what it misses already and
    /// what is bound to be lost. A device that is rebuilt counts as missing until the devices keep that it is in sync: a
    /// power cut takes its boundary back.
    pub(super) fn survives(
        &self,
        stripe: StripeIndex,
        is_more: impl Fn(StripUnit, Option<MemberIndex>) -> bool,
    ) -> bool {
        let shape = self.shape();
        let is_missing = |unit| {
            let place = self.layout.place(stripe, unit);
            let holder = self.holder(place);
            let is_doubtful = |it: MemberIndex| {
                let device = &self.devices[it.index()];
                !self.proven[it.index()]
                    || matches!(device.presence, Presence::Doomed(_))
                    || device.data.may_be_spoiled(place.start.0, shape.strip_blocks.0)
                    || device.data.may_lie(place.start.0, shape.strip_blocks.0)
                    || self.is_called_bad(it, place.start, shape.strip_blocks)
            };
            self.is_unavailable(stripe, unit) || holder.is_some_and(is_doubtful) || is_more(unit, holder)
        };
        if shape.parities > 0 {
            let missing = self.units().filter(|unit| is_missing(*unit)).count();
            return missing <= usize::from(shape.parities);
        }
        (0..shape.data_strips)
            .all(|strip| (0..shape.copies).any(|copy| !is_missing(StripUnit::Data { strip, copy })))
    }

    /// True if some of a strip is called bad, though it may be readable since a write to it was cut off.
    fn is_called_bad(&self, member: MemberIndex, start: MemberLba, blocks: BlockCount) -> bool {
        let overlaps =
            |range: &BadRange| range.0 == member && range.1 < start + blocks && start < range.1 + range.2;
        self.bad.iter().any(overlaps)
    }

    /// True if the volume would survive the loss of a device.
    pub(super) fn survives_loss_of(&self, device: MemberIndex) -> bool {
        self.indices().all(|stripe| self.survives(stripe, |_, holder| holder == Some(device)))
    }
}
