//! The members' contents against the volume's: first fill, and the check of every strip.
//!
//! Parity is computed here in the most obvious way (`P = sum of D_i`, `Q = sum of 2^i D_i`, byte by byte), apart
//! from the kernels that the arrays use.

use super::memory::add_multiple;
use super::violation::Violation;
use super::volume::{VolumeHistory, WriteNumber, fill_pattern};
use super::world::Member;
use raidlab_raid::{Layout, StripUnit};
use raidlab_units::{BlockCount, Lba, StripeIndex};

/// The strips and blocks of a volume, as its layout orders them.
pub(super) struct Stripes<'a> {
    pub(super) layout: &'a dyn Layout,
    pub(super) block_bytes: usize,
}

impl Stripes<'_> {
    /// All units of a stripe.
    pub(super) fn units(&self) -> Vec<StripUnit> {
        let shape = self.layout.shape();
        let data = (0..shape.data_strips)
            .flat_map(|strip| (0..shape.copies).map(move |copy| StripUnit::Data { strip, copy }));
        data.chain((0..shape.parities).map(StripUnit::Parity)).collect()
    }

    pub(super) fn indices(&self) -> impl Iterator<Item = StripeIndex> + use<> {
        (0..self.layout.stripe_count().0).map(StripeIndex)
    }

    fn lba(&self, stripe: StripeIndex, strip: u16, block: u64) -> Lba {
        let shape = self.layout.shape();
        Lba((stripe.0 * u64::from(shape.data_strips) + u64::from(strip)) * shape.strip_blocks.0 + block)
    }

    /// Bytes of `member_bytes` that hold `block` of `unit`.
    fn block<'b>(&self, members: &'b [Member], stripe: StripeIndex, unit: StripUnit, block: u64) -> &'b [u8] {
        let place = self.layout.place(stripe, unit);
        let start = (place.start.0 + block) as usize * self.block_bytes;
        &members[usize::from(place.member.0)].bytes[start..start + self.block_bytes]
    }

    /// The block of `unit` when the data strips hold `data`.
    fn content(&self, unit: StripUnit, data: &[Vec<u8>]) -> Vec<u8> {
        match unit {
            StripUnit::Data { strip, .. } => data[usize::from(strip)].clone(),
            StripUnit::Parity(parity) => {
                let mut sum = vec![0; self.block_bytes];
                let mut coefficient = 1;
                for strip in data {
                    add_multiple(&mut sum, coefficient, strip);
                    if parity == 1 {
                        coefficient = super::memory::multiply(coefficient, 2);
                    }
                }
                sum
            }
        }
    }

    /// The data blocks at `block` of each strip, as `write_of` says who wrote them.
    fn data(
        &self,
        stripe: StripeIndex,
        block: u64,
        write_of: impl Fn(Lba) -> Option<WriteNumber>,
    ) -> Option<Vec<Vec<u8>>> {
        let pattern = |strip| {
            let lba = self.lba(stripe, strip, block);
            let mut content = vec![0; self.block_bytes];
            fill_pattern(&mut content, lba, write_of(lba)?);
            Some(content)
        };
        (0..self.layout.shape().data_strips).map(pattern).collect()
    }

    /// Fills all members as an array whose volume holds write 0 everywhere.
    pub(super) fn fill(&self, members: &mut [Member]) {
        let strip_blocks = self.layout.shape().strip_blocks.0;
        for stripe in self.indices() {
            for block in 0..strip_blocks {
                let data = self.data(stripe, block, |_| Some(WriteNumber(0))).expect("all are known");
                for unit in self.units() {
                    let place = self.layout.place(stripe, unit);
                    let start = (place.start.0 + block) as usize * self.block_bytes;
                    members[usize::from(place.member.0)].bytes[start..start + self.block_bytes]
                        .copy_from_slice(&self.content(unit, &data));
                }
            }
        }
    }

    /// True if a strip can't be read: its member is gone, or some of its blocks are bad.
    fn is_unavailable(&self, members: &[Member], stripe: StripeIndex, unit: StripUnit) -> bool {
        let place = self.layout.place(stripe, unit);
        let member = &members[usize::from(place.member.0)];
        let strip = place.start.0..place.start.0 + self.layout.shape().strip_blocks.0;
        member.is_lost() || member.bad_blocks.range(strip).next().is_some()
    }

    /// True if the level does not survive what `stripe` misses.
    pub(super) fn is_failed(&self, members: &[Member], stripe: StripeIndex) -> bool {
        let shape = self.layout.shape();
        let is_missing = |unit| self.is_unavailable(members, stripe, unit);
        let data_missing = (0..shape.data_strips)
            .filter(|strip| (0..shape.copies).all(|copy| is_missing(StripUnit::Data { strip: *strip, copy })))
            .count();
        let parities_missing =
            (0..shape.parities).filter(|parity| is_missing(StripUnit::Parity(*parity))).count();
        data_missing > 0 && data_missing + parities_missing > usize::from(shape.parities)
    }

    /// True if `stripe` would survive a bad block in `unit` beside what it misses and `losses` more members.
    pub(super) fn survives_bad_block(
        &self,
        members: &[Member],
        stripe: StripeIndex,
        unit: StripUnit,
        losses: usize,
    ) -> bool {
        let shape = self.layout.shape();
        let siblings = self.units().into_iter().filter(|other| match (unit, other) {
            (StripUnit::Data { strip, .. }, StripUnit::Data { strip: other, .. }) if shape.parities == 0 => {
                strip == *other
            }
            _ => true,
        });
        let missing =
            siblings.filter(|other| *other == unit || self.is_unavailable(members, stripe, *other)).count();
        missing + losses <= usize::from(shape.parities + shape.copies - 1)
    }

    /// True if any stripe that holds some of the range is failed.
    pub(super) fn is_range_failed(&self, members: &[Member], lba: Lba, blocks: BlockCount) -> bool {
        let first = self.layout.locate(lba).0;
        let last = self.layout.locate(Lba(lba.0 + blocks.0 - 1)).0;
        (first.0..=last.0).any(|stripe| self.is_failed(members, StripeIndex(stripe)))
    }

    /// Checks every strip on every member left against what the volume must hold. Stripes that failed, or hold a
    /// block without a settled value, are left out; their number is returned.
    pub(super) fn check(&self, members: &[Member], volume: &VolumeHistory) -> Result<u64, Box<Violation>> {
        let mut skipped = 0;
        for stripe in self.indices() {
            if self.is_failed(members, stripe) {
                skipped += 1;
                continue;
            }
            for block in 0..self.layout.shape().strip_blocks.0 {
                let Some(data) = self.data(stripe, block, |lba| volume.settled(lba)) else {
                    skipped += 1;
                    break;
                };
                self.check_block(members, stripe, block, &data)?;
            }
        }
        Ok(skipped)
    }

    fn check_block(
        &self,
        members: &[Member],
        stripe: StripeIndex,
        block: u64,
        data: &[Vec<u8>],
    ) -> Result<(), Box<Violation>> {
        for unit in self.units() {
            let member = self.layout.place(stripe, unit).member;
            let lost = members[usize::from(member.0)].is_lost();
            if !lost && self.block(members, stripe, unit, block) != self.content(unit, data) {
                return Err(Violation::RedundancyDisagrees { stripe, unit, member, block }.into());
            }
        }
        Ok(())
    }
}
