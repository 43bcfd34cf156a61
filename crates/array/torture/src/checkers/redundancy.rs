//! Redundancy: with everything flushed and nothing under way, data, copies and parity of every stripe agree. So they do at every
//! start in those stripes that it does not find in doubt and has no records of.
//!
//! Parity is computed here in the most obvious way that is still quick, apart from the kernels that the controller's
//! worlds use: `sum of (2^p)^i D_i` by Horner's rule, eight bytes of GF(256) at a time.
//!
//! Verified: each strip, on each device that should hold it, against what the volume holds. Not verified: stripes that have
//! failed, are in doubt until a lost device is back or hold a block without a settled value (they are counted), strips that no fit
//! device holds, and what the controller calls bad blocks (`losses.rs` looks at those).

use crate::checkers::provenance::fill_pattern;
use crate::members::Device;
use crate::stripes::Stripes;
use crate::tags::TagMap;
use crate::violation::Violation;
use crate::volume::{VolumeHistory, WriteNumber};
use raidlab_raid::{Layout, StripUnit};
use raidlab_units::{BlockCount, MemberIndex, StripeIndex};
use std::collections::BTreeSet;

/// One block of each data strip of a stripe, and what follows from them.
struct Rows {
    data: Vec<u8>,
    parity: Vec<u8>,
    block_bytes: usize,
}

impl Rows {
    fn new(data_strips: u16, block_bytes: usize) -> Self {
        Self {
            data: vec![0; usize::from(data_strips) * block_bytes],
            parity: vec![0; block_bytes],
            block_bytes,
        }
    }

    /// What `unit` must hold.
    fn content(&mut self, unit: StripUnit) -> &[u8] {
        match unit {
            StripUnit::Data { strip, .. } => {
                &self.data[usize::from(strip) * self.block_bytes..][..self.block_bytes]
            }
            StripUnit::Parity(parity) => {
                add_up(&self.data, parity, &mut self.parity);
                &self.parity
            }
        }
    }
}

/// `sum = sum of (2^parity)^i strip_i` over GF(256) modulo 0x11d, from the last strip to the first.
fn add_up(strips: &[u8], parity: u16, sum: &mut [u8]) {
    sum.fill(0);
    for strip in strips.chunks_exact(sum.len()).rev() {
        for (sum, strip) in sum.chunks_exact_mut(8).zip(strip.chunks_exact(8)) {
            let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
            let scaled = (0..parity).fold(word(sum), |word, _| doubled(word));
            sum.copy_from_slice(&(scaled ^ word(strip)).to_le_bytes());
        }
    }
}

/// Each of eight bytes times 2, modulo 0x11d.
const fn doubled(word: u64) -> u64 {
    let carries = (word >> 7) & 0x0101_0101_0101_0101;
    ((word & 0x7f7f_7f7f_7f7f_7f7f) << 1) ^ (carries * 0x1d)
}

/// Fills all members as an array whose volume holds write 0 everywhere. `data_of` gives the bytes of a device's data area.
pub(crate) fn fill(layout: &dyn Layout, block_bytes: usize, tags: TagMap, areas: &mut [Vec<u8>]) {
    let shape = layout.shape();
    let mut rows = Rows::new(shape.data_strips, block_bytes);
    for stripe in (0..layout.stripe_count().0).map(StripeIndex) {
        for block in 0..shape.strip_blocks.0 {
            for (strip, row) in rows.data.chunks_exact_mut(block_bytes).enumerate() {
                let lba = layout.strip_start(stripe, strip as u16) + BlockCount(block);
                fill_pattern(row, lba, WriteNumber(0));
            }
            let copies = |strip| (0..shape.copies).map(move |copy| StripUnit::Data { strip, copy });
            let data = (0..shape.data_strips).flat_map(copies);
            for unit in data.chain((0..shape.parities).map(StripUnit::Parity)) {
                let place = layout.place(stripe, unit);
                let area = &mut areas[usize::from(place.member.0)];
                tags.put(area, place.member, place.start.0 + block, rows.content(unit));
            }
        }
    }
}

impl Stripes<'_> {
    /// Checks every strip on every device that holds one, but for its `bad` blocks and stripes whose resync `is_waiting`. Returns the
    /// number of stripes that were left out.
    pub(crate) fn check_redundancy(
        &self,
        block_bytes: usize,
        volume: &VolumeHistory,
        is_waiting: impl Fn(StripeIndex) -> bool,
        bad: &BTreeSet<(MemberIndex, u64)>,
    ) -> Result<u64, Box<Violation>> {
        let mut skipped = 0;
        let mut rows = Rows::new(self.shape().data_strips, block_bytes);
        for stripe in self.indices() {
            let is_left_out = self.is_failed(stripe) || is_waiting(stripe);
            if is_left_out || !self.check_stripe(stripe, volume, bad, &mut rows)? {
                skipped += 1;
            }
        }
        Ok(skipped)
    }

    /// Checks that in stripes that a start does not find `in_doubt` all copies and all parity agree with the data, whatever that is,
    /// where they can be read and are not called `bad`.
    pub(crate) fn check_undoubted(
        &self,
        block_bytes: usize,
        in_doubt: impl Fn(StripeIndex) -> bool,
        bad: &BTreeSet<(MemberIndex, u64)>,
    ) -> Result<(), Box<Violation>> {
        let mut rows = Rows::new(self.shape().data_strips, block_bytes);
        for stripe in self.indices().filter(|stripe| !in_doubt(*stripe)) {
            for block in 0..self.shape().strip_blocks.0 {
                self.check_undoubted_row(stripe, block, bad, &mut rows)?;
            }
        }
        Ok(())
    }

    fn check_undoubted_row(
        &self,
        stripe: StripeIndex,
        block: u64,
        bad: &BTreeSet<(MemberIndex, u64)>,
        rows: &mut Rows,
    ) -> Result<(), Box<Violation>> {
        let content = |unit| {
            let place = self.layout.place(stripe, unit);
            let (member, Device { data, .. }) = self.fit_holder(place)?;
            let at = place.start.0 + block;
            (!data.is_spoiled(at, 1) && !bad.contains(&(member, at))).then(|| (member, data.block(at)))
        };
        // A bit for each data strip.
        let (mut known, all) = (0_u64, u64::MAX >> (64 - self.shape().data_strips));
        for unit in self.units() {
            let Some((member, held)) = content(unit) else { continue };
            match unit {
                StripUnit::Data { strip, .. } if known >> strip & 1 == 0 => {
                    let at = usize::from(strip) * rows.block_bytes;
                    rows.data[at..at + rows.block_bytes].copy_from_slice(held);
                    known |= 1 << strip;
                    continue;
                }
                StripUnit::Parity(_) if known != all => return Ok(()),
                StripUnit::Data { .. } | StripUnit::Parity(_) => {}
            }
            if held != rows.content(unit) {
                return Err(Violation::DisagreesUntold { stripe, unit, member, block }.into());
            }
        }
        Ok(())
    }

    /// Returns false if a block of the stripe has no settled value.
    fn check_stripe(
        &self,
        stripe: StripeIndex,
        volume: &VolumeHistory,
        bad: &BTreeSet<(MemberIndex, u64)>,
        rows: &mut Rows,
    ) -> Result<bool, Box<Violation>> {
        for block in 0..self.shape().strip_blocks.0 {
            for (strip, row) in rows.data.chunks_exact_mut(rows.block_bytes).enumerate() {
                let lba = self.lba(stripe, strip as u16, block);
                let Some(write) = volume.settled(lba) else { return Ok(false) };
                volume.copies.fill(row, lba, write);
            }
            for unit in self.units() {
                let place = self.layout.place(stripe, unit);
                let Some((member, Device { data, .. })) = self.fit_holder(place) else { continue };
                let at = place.start.0 + block;
                if !data.is_spoiled(at, 1)
                    && !bad.contains(&(member, at))
                    && data.block(at) != rows.content(unit)
                {
                    return Err(Violation::RedundancyDisagrees { stripe, unit, member, block }.into());
                }
            }
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use raidlab_raid::code::generate;
    use raidlab_raid::gf;

    #[test]
    fn parity_is_that_of_the_levels_code() {
        let strips: Vec<u8> = (0..5 * 16).map(|at| (at * 37 + 11) as u8).collect();
        let mut sum = [0; 16];
        for parity in 0..2 {
            add_up(&strips, parity, &mut sum);
            for (at, sum) in sum.iter().enumerate() {
                let product =
                    |strip: u16| gf::mul(generate(parity, strip), strips[usize::from(strip) * 16 + at]);
                assert_eq!(*sum, (0..5).map(product).fold(0, |sum, product| sum ^ product), "{parity} {at}");
            }
        }
    }
}
