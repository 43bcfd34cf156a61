//! Evidence: which side of a comparison is wrong, where nobody knows of a crash.
//!
//! | what was read | differs | wrong is |
//! |---|---|---|
//! | copies | some | each that differs from what more than half of them hold; else nobody can tell |
//! | one parity | it | nobody can tell: it or any of the data |
//! | P and Q | one of them | that parity: the other agrees with the data |
//! | P and Q | both | the data strip `z` with `g^z (P + P') = Q + Q'` in all bytes of the row; else nobody can tell |
//!
//! `P'` and `Q'` are what the data says. Where data of the row could not be read and was made up from a parity, the other parity can only
//! doubt that: a difference is undecided. With block checksums, what doesn't fit its own is not among what was read. The rule finds one
//! wrong strip; two that are wrong in the same way look like one that is not.
//!
//! **Trials.** The controller sees digests only. So `g^z (P + P') + Q + Q'` is computed for one strip after the other, and is zeros
//! where the strip is the wrong one, or nothing is:
//! ```text
//! staging   D0 .. Dn     P              Q    P'          Q'
//! first     as read      as read             P + P'      Q + Q'
//! trial z                the trial's sum
//! mending   Dz + P + P'
//! ```
//! A run of rows is settled as a whole where all that differ have the same wrong units; else the visit takes it row by row.

use super::op::{Comparison, Job, StripeOp};
use crate::api::{BufferRef, MemorySteps, Segment, Undecided};
use crate::geometry::Geometry;
use crate::request::Rows;
use raidlab_raid::UnitPlace;
use raidlab_raid::code::generate;
use raidlab_units::BlockCount;

/// What a comparison tries out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Trial {
    #[default]
    None,
    /// Whether this strip of data is what is wrong, in a run of which so many rows agree with their parity and the others are in `rows`.
    Strip { strip: u16, agreeing: usize, rows: Rows },
    /// It is, and is made up.
    Mending { strip: u16 },
}

/// What a comparison has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Finding {
    /// What is to be written is noted.
    Settled(Settled),
    /// Rows differ in what is wrong: they are to be looked at one by one.
    Mixed,
    /// A strip of data may be wrong: the next trial is to be computed.
    Suspects,
    /// A strip is wrong, and what it should be is to be computed. The rows are counted.
    Mends(Settled),
}

/// What was found in the rows of a comparison.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Settled {
    /// Rows that are wrong, or, where that is not known, that disagree.
    pub(crate) mismatched: u64,
    /// Rows in which nothing says what is wrong.
    pub(crate) undecided: u64,
}

/// What the digests say of the rows of a run, or of one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// All that differs from what it should be is wrong; of copies, from the one with this number.
    Decided { right: usize },
    /// Nothing says what is wrong.
    Undecided,
    /// Both parities differ: one strip of data is wrong, or several.
    DataOrBoth,
    /// Rows differ in the above.
    Mixed,
}

/// The digests of a comparison.
#[derive(Clone, Copy, Debug)]
pub(super) struct Compared<'a> {
    is_parity: bool,
    /// Some data was made up from a parity for the comparison: that agrees with it whatever else is wrong.
    has_restored: bool,
    rows: usize,
    /// Units that are compared: the parities, or all copies that were read.
    pub(super) units: usize,
    /// Rows of what the units should be, for parity, and of what they are.
    digests: &'a [u32],
}

impl<'a> Compared<'a> {
    /// The digests of so many units that are compared with what they should be, `rows` of each.
    pub(super) fn new(is_parity: bool, rows: usize, compared: usize, digests: &'a [u32]) -> Self {
        let (units, lists) = if is_parity { (compared, 2 * compared) } else { (compared + 1, compared + 1) };
        assert_eq!(digests.len(), lists * rows, "{compared} units are compared, {rows} rows each");
        Self { is_parity, has_restored: false, rows, units, digests }
    }

    /// The same where some data was made up from a parity.
    pub(super) const fn with_restored(self, has_restored: bool) -> Self {
        Self { has_restored, ..self }
    }

    const fn at(&self, list: usize, row: usize) -> u32 {
        self.digests[list * self.rows + row]
    }

    /// True if a row of a unit is not what it should be; a copy should be as the one with the number `right`.
    const fn is_wrong(&self, unit: usize, row: usize, right: usize) -> bool {
        let (is, should) = if self.is_parity { (self.units + unit, unit) } else { (unit, right) };
        self.at(is, row) != self.at(should, row)
    }

    fn row_differs(&self, row: usize) -> bool {
        (0..self.units).any(|unit| self.is_wrong(unit, row, 0))
    }

    /// True if all agree in some row.
    pub(super) fn any_agrees(&self) -> bool {
        self.differing() < self.rows
    }

    /// Rows in which something differs.
    pub(super) fn differing(&self) -> usize {
        (0..self.rows).filter(|row| self.row_differs(*row)).count()
    }

    /// Rows of all units that are not what they should be.
    pub(super) fn mismatched(&self, right: usize) -> u64 {
        let wrong_of = |unit| (0..self.rows).filter(|row| self.is_wrong(unit, *row, right)).count();
        (0..self.units).map(wrong_of).sum::<usize>() as u64
    }

    /// The hull of the rows in which a unit is not what it should be.
    pub(super) fn wrong_rows(&self, unit: usize, right: usize) -> Rows {
        let wrong = (0..self.rows).filter(|row| self.is_wrong(unit, *row, right));
        wrong.fold(Rows::NONE, |hull, row| hull.hull(Rows::between(row as u32, row as u32 + 1)))
    }

    /// What the evidence says; where the data is trusted, that is right.
    pub(super) fn verdict(&self, trusts_data: bool) -> Verdict {
        let mut differing = (0..self.rows).filter(|row| self.row_differs(*row));
        let Some(first) = differing.next().filter(|_| !trusts_data) else {
            return Verdict::Decided { right: 0 };
        };
        let verdict = self.row_verdict(first);
        let right = if let Verdict::Decided { right } = verdict { right } else { 0 };
        let is_like_first = |row| match (verdict, self.row_verdict(row)) {
            (Verdict::Decided { .. }, Verdict::Decided { .. }) => (0..self.units)
                .all(|unit| self.is_wrong(unit, row, right) == self.is_wrong(unit, first, right)),
            (first, other) => first == other,
        };
        if differing.all(is_like_first) { verdict } else { Verdict::Mixed }
    }

    /// What the evidence says of a row in which something differs.
    fn row_verdict(&self, row: usize) -> Verdict {
        let differing = (0..self.units).filter(|unit| self.is_wrong(*unit, row, 0)).count();
        if self.is_parity {
            return match (self.units, differing) {
                (2, 1) if !self.has_restored => Verdict::Decided { right: 0 },
                (2, 2) if !self.has_restored => Verdict::DataOrBoth,
                _ => Verdict::Undecided,
            };
        }
        let holders = |copy| (0..self.units).filter(|other| !self.is_wrong(*other, row, copy)).count();
        let right = (0..self.units).find(|copy| 2 * holders(*copy) > self.units);
        right.map_or(Verdict::Undecided, |right| Verdict::Decided { right })
    }
}

impl StripeOp {
    /// How it compares.
    pub(super) fn comparison(&self) -> &Comparison {
        let Job::Compare(_, comparison) = &self.job else { unreachable!("only comparisons are asked") };
        comparison
    }

    fn trial(&self) -> Trial {
        if let Job::Compare(_, comparison) = &self.job { comparison.trial } else { Trial::None }
    }

    fn trial_mut(&mut self) -> &mut Trial {
        let Job::Compare(_, comparison) = &mut self.job else { unreachable!("only comparisons try") };
        &mut comparison.trial
    }

    /// True if it believes the data, and the first copy.
    pub(crate) fn trusts_data(&self) -> bool {
        self.comparison().trusts_data
    }

    /// True if its next memory work is a trial's, or what follows from one.
    pub(super) fn is_trying(&self) -> bool {
        self.trial() != Trial::None
    }

    /// True if what was wrong has been made up.
    pub(crate) fn has_mended(&self) -> bool {
        matches!(self.trial(), Trial::Mending { .. })
    }

    /// The blocks of the volume in its rows.
    pub(crate) fn rows_in_question(&self, geometry: &Geometry) -> Undecided {
        let (stripe, strip) = geometry.lock_start(self.key);
        let strips = if geometry.parities() > 0 { geometry.data_strips() as u16 } else { 1 };
        let lba = geometry.strip_lba(stripe, strip, self.hull.first);
        Undecided { lba, blocks: BlockCount(u64::from(self.hull.count)), strips }
    }

    /// What was found wrong: where each unit begins, and the rows.
    pub(crate) fn wrong_rows(&self) -> impl Iterator<Item = (UnitPlace, Rows)> {
        let units = self.places.iter().zip(&self.units).filter(|(_, uses)| !uses.wrong.is_empty());
        units.map(|(place, uses)| (*place, uses.wrong))
    }

    /// Begins with the first strip.
    pub(super) fn begin_trials(&mut self, agreeing: usize, rows: Rows) {
        *self.trial_mut() = Trial::Strip { strip: 0, agreeing, rows };
    }

    /// Leaves all as it is, and counts that.
    pub(super) fn settle_undecided(&mut self, mismatched: u64, undecided: usize) -> Settled {
        self.units.iter_mut().for_each(|unit| unit.write = Rows::NONE);
        Settled { mismatched, undecided: undecided as u64 }
    }

    /// Bytes that a trial takes in and gives out.
    pub(crate) fn trial_volume(&self, geometry: &Geometry) -> (u64, u64) {
        let hull_bytes = u64::from(self.hull.count) * geometry.block_bytes();
        (2 * hull_bytes, hull_bytes)
    }

    /// Where a trial leaves its sum.
    pub(crate) fn trial_rows(&self, geometry: &Geometry) -> Option<Segment> {
        let Trial::Strip { .. } = self.trial() else { return None };
        let [sum, ..] = self.trial_places(geometry);
        Some(Segment { buffer: sum, bytes: u64::from(self.hull.count) * geometry.block_bytes() })
    }

    /// Where P and Q lie as they were read, and then what they should be.
    fn trial_places(&self, geometry: &Geometry) -> [BufferRef; 4] {
        let (data, all) = (geometry.data_strips() as u16, geometry.unit_count() as u16);
        [data, data + 1, all, all + 1].map(|unit| self.staged(geometry, unit, self.hull.first))
    }

    /// Adds the steps of a trial, or those that make up what it has found wrong.
    pub(super) fn trial_steps(&self, geometry: &Geometry, out: &mut MemorySteps) {
        let bytes = u64::from(self.hull.count) * geometry.block_bytes();
        let [p, q, p_sum, q_sum] = self.trial_places(geometry);
        let mut add = |to, from| {
            out.begin(bytes, &[to], true);
            out.sources.push(from);
            out.end(|_, _| 1);
        };
        match self.trial() {
            Trial::None => unreachable!("it tries nothing"),
            Trial::Mending { strip } => add(self.staged(geometry, strip, self.hull.first), p_sum),
            Trial::Strip { strip, .. } => {
                if strip == 0 {
                    add(p_sum, p);
                    add(q_sum, q);
                }
                out.begin(bytes, &[p], false);
                out.sources.extend([p_sum, q_sum]);
                out.end(|_, source| if source == 0 { generate(1, strip) } else { 1 });
            }
        }
    }

    /// Takes in the digests of a trial's sum, and goes on to the next.
    pub(super) fn take_trial(
        &mut self,
        geometry: &Geometry,
        digests: &[u32],
        zero_checksum: u32,
        makes_agree: bool,
    ) -> Finding {
        let Trial::Strip { strip, agreeing, rows } = self.trial() else {
            unreachable!("nothing else is digested")
        };
        let differing = (digests.len() - agreeing) as u64;
        let zeros = digests.iter().filter(|digest| **digest == zero_checksum).count();
        if zeros == digests.len() {
            return self.settle_found((strip, rows), differing, makes_agree);
        }
        if zeros > agreeing {
            return Finding::Mixed;
        }
        if usize::from(strip) + 1 < geometry.data_strips() {
            *self.trial_mut() = Trial::Strip { strip: strip + 1, agreeing, rows };
            return Finding::Suspects;
        }
        if agreeing > 0 {
            return Finding::Mixed;
        }
        *self.trial_mut() = Trial::None;
        Finding::Settled(self.settle_undecided(2 * differing, differing as usize))
    }

    fn settle_found(&mut self, (strip, rows): (u16, Rows), differing: u64, makes_agree: bool) -> Finding {
        let settled = Settled { mismatched: differing, undecided: 0 };
        let uses = &mut self.units[usize::from(strip)];
        (uses.wrong, uses.from) = (rows, strip);
        if !makes_agree {
            *self.trial_mut() = Trial::None;
            return Finding::Settled(settled);
        }
        uses.write = rows;
        *self.trial_mut() = Trial::Mending { strip };
        Finding::Mends(settled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Digests of rows, a word for each unit and a letter for each row; of parities first what they should be.
    fn verdict(is_parity: bool, picture: &str) -> Verdict {
        let digests: Vec<u32> = picture.chars().filter(|c| *c != ' ').map(u32::from).collect();
        let lists = picture.split(' ').count();
        let compared = if is_parity { lists / 2 } else { lists - 1 };
        Compared::new(is_parity, digests.len() / lists, compared, &digests).verdict(false)
    }

    #[test]
    fn what_most_copies_hold_is_right() {
        let right = |right| Verdict::Decided { right };
        for (picture, expected) in [
            ("ab ab", right(0)),
            ("ab ax", Verdict::Undecided),
            ("ab ab ax", right(0)),
            ("ax ab ab", right(1)),
            ("xy ab ab", right(1)),
            ("xb ay ab", Verdict::Mixed),
            ("a b c", Verdict::Undecided),
            ("ab ac ad", Verdict::Undecided),
            ("aa ab xc", Verdict::Mixed),
            ("a a b b", Verdict::Undecided),
            ("x a y a a", right(1)),
            ("a a b b c", Verdict::Undecided),
        ] {
            assert_eq!(verdict(false, picture), expected, "{picture}");
        }
    }

    #[test]
    fn the_parity_that_stands_alone_is_wrong() {
        let wrong = Verdict::Decided { right: 0 };
        for (picture, expected) in [
            ("pp pp", wrong),
            ("pp px", Verdict::Undecided),
            ("pp qq px qq", wrong),
            ("pp qq pp xq", wrong),
            ("pp qq xp qy", Verdict::Mixed),
            ("pp qq xp yq", Verdict::DataOrBoth),
            ("pp qq xx yq", Verdict::Mixed),
        ] {
            assert_eq!(verdict(true, picture), expected, "{picture}");
        }
    }

    #[test]
    fn rows_that_are_trusted_are_right() {
        let digests = [1, 2, 1, 3];
        let compared = Compared::new(false, 2, 1, &digests);
        assert_eq!(compared.verdict(true), Verdict::Decided { right: 0 });
        assert_eq!((compared.wrong_rows(1, 0), compared.mismatched(0)), (Rows::between(1, 2), 1));
        assert_eq!(compared.differing(), 1);
    }
}
