//! Which sets of failed members lose data, and what a rebuild must read without redundancy, derived from the layout.
//!
//! A layout repeats after some rows, so the stripes of the first rows of each member are all there are. The units of
//! each different stripe are kept as sets of members (bits of a `u128`):
//! ```text
//! RAID 5 x3     strips {0} {1}  parity {2}      strips {0} {2}  parity {1}      strips {1} {2}  parity {0}
//! RAID 10 x4    strips {0,1} {2,3}
//! RAID 1E x3    strips {0,1}    strips {2,0}    strips {1,2}
//! ```
//! Invariant: [`LossRules::loses`] agrees with [`raidlab_raid::Layout::loses_data`] (a test tries all sets).

use super::{MEMBERS_MAX, RiskError};
use raidlab_raid::{Layout, LayoutSpec, LevelVariant, StripUnit, build_layout};
use raidlab_units::{BlockCount, MemberIndex, MemberLba, StripeIndex};
use std::collections::BTreeMap;

/// A kind of stripe.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct StripeKind {
    /// Members that hold each data strip.
    strips: Vec<u128>,
    /// Members that hold parity.
    parity: u128,
    /// Members that hold anything.
    all: u128,
}

/// What a layout survives.
#[derive(Clone, Debug)]
pub struct LossRules {
    members: u16,
    copies: u16,
    data_strips: u16,
    parities: u32,
    /// Every kind of stripe, and how often it occurs.
    kinds: Vec<(StripeKind, u32)>,
}

impl LossRules {
    /// The rules of `level` over `members`.
    ///
    /// # Errors
    /// [`RiskError`] if the level does not allow the members, or there are more than [`MEMBERS_MAX`].
    pub fn of_level(level: LevelVariant, members: u16) -> Result<Self, RiskError> {
        if members > MEMBERS_MAX {
            return Err(RiskError::TooManyMembers { members });
        }
        let member_blocks = BlockCount(16 * u64::from(members).max(1));
        let layout =
            build_layout(&LayoutSpec { level, members, strip_blocks: BlockCount(1), member_blocks })?;
        Ok(Self::of_layout(layout.as_ref()))
    }

    /// The rules of a layout over up to [`MEMBERS_MAX`] members.
    ///
    /// # Panics
    /// If it has more than `MEMBERS_MAX` members.
    pub fn of_layout(layout: &dyn Layout) -> Self {
        let members = layout.member_count();
        assert!(members <= MEMBERS_MAX, "{members} members do not fit a set");
        let shape = layout.shape();
        let mut stripes = std::collections::BTreeSet::new();
        for member in (0..members).map(MemberIndex) {
            for row in 0..4 * u64::from(members) {
                let place = MemberLba(row * shape.strip_blocks.0);
                stripes.extend(layout.identify(member, place).map(|(stripe, ..)| stripe.0));
            }
        }
        let mut kinds = BTreeMap::new();
        for stripe in stripes {
            *kinds.entry(StripeKind::of(layout, StripeIndex(stripe))).or_insert(0) += 1;
        }
        let parities = u32::from(shape.parities);
        let kinds = kinds.into_iter().collect();
        Self { members, copies: shape.copies, data_strips: shape.data_strips, parities, kinds }
    }

    /// Strips of data in a stripe, copies of each, and strips of parity.
    pub(super) fn unit_counts(&self) -> (f64, f64, f64) {
        (f64::from(self.data_strips), f64::from(self.copies), f64::from(self.parities))
    }

    /// Share of the members' room that holds what the host sees.
    pub fn usable_share(&self) -> f64 {
        let (data, copies, parities) = self.unit_counts();
        data / (data * copies + parities)
    }

    /// Blocks of the host that are gone, on average, where a block without redundancy can't be read: with parity its own and
    /// those of the members that are missing, as far as they held data; of mirrors the one.
    pub fn blocks_lost_each(&self) -> f64 {
        let (data, _, parities) = self.unit_counts();
        if parities > 0.0 { (parities + 1.0) * data / (data + parities) } else { 1.0 }
    }

    /// Number of members.
    pub fn members(&self) -> u16 {
        self.members
    }

    /// Whether some data can't be read when the members of the set `failed` are gone.
    pub fn loses(&self, failed: u128) -> bool {
        self.kinds.iter().any(|(kind, _)| {
            let strips = self.strips_gone(kind, failed);
            strips > 0 && strips + (kind.parity & failed).count_ones() > self.parities
        })
    }

    fn strips_gone(&self, kind: &StripeKind, failed: u128) -> u32 {
        if self.copies == 1 {
            return (kind.all & !kind.parity & failed).count_ones();
        }
        kind.strips.iter().filter(|&&copies| copies & !failed == 0).count() as u32
    }

    /// How many members a rebuild of `member` reads whole that no redundancy covers, when `failed` (with `member` in it)
    /// are gone and no data are lost. Of a member of which a part is read so, that part counts.
    pub fn uncovered_units(&self, failed: u128, member: u16) -> f64 {
        let bit = 1_u128 << member;
        let (mut units, mut stripes) = (0, 0);
        for (kind, times) in self.kinds.iter().filter(|(kind, _)| kind.all & bit != 0) {
            stripes += times;
            units += times * self.uncovered_in(kind, failed, bit);
        }
        if stripes == 0 { 0.0 } else { f64::from(units) / f64::from(stripes) }
    }

    fn uncovered_in(&self, kind: &StripeKind, failed: u128, bit: u128) -> u32 {
        if self.parities > 0 {
            let gone = (kind.all & failed).count_ones();
            return if gone == self.parities { (kind.all & !failed).count_ones() } else { 0 };
        }
        let left = kind.strips.iter().find(|&&copies| copies & bit != 0).map(|copies| copies & !failed);
        u32::from(left.is_some_and(u128::is_power_of_two))
    }

    /// Sets of members that share stripes, or copies.
    pub(super) fn groups(&self) -> Vec<u128> {
        let mut groups: Vec<u128> = Vec::new();
        for (kind, _) in &self.kinds {
            let whole = [kind.all];
            let sets: &[u128] = if self.parities > 0 { &whole } else { &kind.strips };
            for set in sets {
                if !groups.contains(set) {
                    groups.push(*set);
                }
            }
        }
        groups
    }

    /// Number of groups, members of each, and failures that each survives, where the members fall into equal groups that
    /// survive any so many failures and nothing else matters.
    pub fn equal_groups(&self) -> Option<(u16, u16, u16)> {
        let groups = self.groups();
        let size = groups.first()?.count_ones();
        let covered = groups.iter().fold(0, |all, group| all | group).count_ones();
        let are_equal = groups.iter().all(|group| group.count_ones() == size);
        let are_apart = covered == size * groups.len() as u32 && covered == u32::from(self.members);
        let survived = if self.parities > 0 { self.parities } else { size - 1 };
        (are_equal && are_apart).then_some((groups.len() as u16, size as u16, survived as u16))
    }

    /// Calls `each` with every set of `size` members that loses nothing.
    pub fn surviving_sets(&self, size: u16, each: &mut dyn FnMut(u128)) {
        fn extend(rules: &LossRules, set: u128, from: u16, left: u16, each: &mut dyn FnMut(u128)) {
            if left == 0 {
                return each(set);
            }
            for member in from..rules.members {
                let larger = set | 1 << member;
                // What a set loses, every larger one loses, too.
                if !rules.loses(larger) {
                    extend(rules, larger, member + 1, left - 1, each);
                }
            }
        }
        extend(self, 0, 0, size, each);
    }
}

impl StripeKind {
    fn of(layout: &dyn Layout, stripe: StripeIndex) -> Self {
        let shape = layout.shape();
        let bit = |unit| 1_u128 << layout.place(stripe, unit).member.0;
        let copies =
            |strip| (0..shape.copies).map(move |copy| bit(StripUnit::Data { strip, copy })).sum::<u128>();
        let strips: Vec<u128> = (0..shape.data_strips).map(copies).collect();
        let parity = (0..shape.parities).map(|parity| bit(StripUnit::Parity(parity))).sum();
        Self { all: strips.iter().fold(parity, |all, strip| all | strip), strips, parity }
    }
}
