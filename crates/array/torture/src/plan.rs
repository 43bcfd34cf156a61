//! A plan: all that a seed decides about a run before it begins. The array, the load, and the faults.
//!
//! Each part is drawn from a stream of its own, and a shorter plan is the front of a longer one: so the number of requests
//! and the faults can be cut down, one by one, while everything else stays as it is. What was drawn can be kept: `text.rs`.
//!
//! Faults come in swarms (A. Groce et al., "Swarm testing", 2012): every plan leaves most kinds out and has some in plenty,
//! because faults that mask each other are then also met apart.

use super::arrays::{LevelNotTried, draw_array, give_tags, pick};
use super::faults::{Fault, FaultEvent};
use raidlab_controller::ArrayConfig;
use raidlab_raid::LevelVariant;
use raidlab_units::BlockCount;
use raidlab_workload::{Rng, derived_seed};
use serde::{Deserialize, Serialize};

/// How much goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TortureMode {
    /// No more than the level survives: nothing may fail.
    Bounded,
    /// More than the level survives: requests may fail, but nothing may be wrong.
    Beyond,
}

impl TortureMode {
    /// Its name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bounded => "bounded",
            Self::Beyond => "beyond",
        }
    }
}

/// The load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Workload {
    /// Most requests in flight; the run's own limit goes up and down below it.
    pub iodepth: u32,
    /// Share of reads among reads and writes, in percent.
    pub read_pct: u8,
    /// Share of flushes among all requests, in thousandths.
    pub flush_permille: u16,
    /// Share of writes with forced unit access, in percent.
    pub fua_pct: u8,
    /// Longest request.
    pub blocks_max: BlockCount,
    /// Share of requests that are handed in together with the next, in percent.
    pub batch_pct: u8,
    /// Share of requests that are for a whole stripe, in percent.
    #[serde(default)]
    pub whole_stripes_pct: u8,
    /// Share of writes that hold copies of the array's metadata, in percent (`copies.rs`).
    #[serde(default)]
    pub copies_pct: u8,
    /// Share of discards among all requests, in thousandths.
    #[serde(default)]
    pub discard_permille: u16,
}

/// A run, before it begins. A field that is added later needs `#[serde(default)]`, for plans that were stored before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "each is a setting of its own")]
pub struct TorturePlan {
    /// The seed of everything.
    pub seed: u64,
    /// Host requests to make.
    pub ops: u64,
    /// How much goes wrong.
    pub mode: TortureMode,
    /// Power cuts at chosen moments wait for rare ones, too (`moments.rs`).
    #[serde(default)]
    pub rare_moments: bool,
    /// Power cuts at chosen moments end stories, too (`stories.rs`).
    #[serde(default)]
    pub stories: bool,
    /// Stories have plots of doubt, too (`doubts.rs`).
    #[serde(default)]
    pub doubts: bool,
    /// Members come back as they were before a start or a stop (`relics.rs`).
    #[serde(default)]
    pub older_members: bool,
    /// What goes wrong, in order.
    pub faults: Vec<FaultEvent>,
    /// The load.
    pub workload: Workload,
    /// The array.
    pub config: ArrayConfig,
}

impl TorturePlan {
    /// Draws the plan of a seed, on an array of `level` if it is given. One array in five has
    /// tags on its blocks, and devices that lie.
    ///
    /// # Errors
    /// [`LevelNotTried`] if `level` is none of those tried.
    pub fn draw(
        seed: u64,
        ops: u64,
        mode: TortureMode,
        level: Option<LevelVariant>,
    ) -> Result<Self, LevelNotTried> {
        let has_tags = Rng::new(derived_seed(seed, 5)).below(5) == 0;
        Self::draw_with(has_tags, seed, ops, mode, level)
    }

    /// Draws the plan of a seed, with or without tags. All but the tags and the lies is the same in both.
    ///
    /// # Errors
    /// As for [`TorturePlan::draw`].
    pub fn draw_with(
        has_tags: bool,
        seed: u64,
        ops: u64,
        mode: TortureMode,
        level: Option<LevelVariant>,
    ) -> Result<Self, LevelNotTried> {
        let stream = |part| Rng::new(derived_seed(seed, part));
        let mut config = draw_array(level, &mut stream(1), &mut stream(4))?;
        if has_tags {
            give_tags(&mut config);
        }
        Ok(Self {
            seed,
            ops,
            mode,
            rare_moments: stream(6).below(2) == 0,
            stories: stream(8).below(2) == 0,
            doubts: stream(13).below(2) == 0,
            older_members: stream(12).below(2) == 0,
            config,
            workload: Workload {
                whole_stripes_pct: pick(&mut stream(9), &[0, 0, 10, 50]),
                copies_pct: pick(&mut stream(10), &[0, 0, 10, 40]),
                discard_permille: pick(&mut stream(11), &[0, 0, 0, 20]),
                ..draw_workload(&mut stream(2))
            },
            faults: draw_faults(ops, |fault| has_tags || !fault.is_lie(), &mut stream(3)),
        })
    }
}

fn draw_workload(random: &mut Rng) -> Workload {
    Workload {
        iodepth: pick(random, &[1, 4, 12, 24]),
        read_pct: pick(random, &[0, 30, 50, 80]),
        flush_permille: pick(random, &[0, 2, 10, 50]),
        fua_pct: pick(random, &[0, 10, 50]),
        blocks_max: BlockCount(pick(random, &[2, 4, 16, 48])),
        batch_pct: pick(random, &[0, 0, 50, 90]),
        whole_stripes_pct: 0,
        copies_pct: 0,
        discard_permille: 0,
    }
}

fn draw_faults(ops: u64, fits: impl Fn(Fault) -> bool, random: &mut Rng) -> Vec<FaultEvent> {
    const { assert!(2 * Fault::COUNT <= u128::BITS as usize, "two bits for each kind") };
    // Most kinds, or few.
    let in_use = random.next_u64()
        & if random.below(2) == 0 { u64::MAX } else { random.next_u64() & 0x5555_5555_5555_5555 };
    // Those behind the first 32, which had no bits when the plans that are kept were drawn.
    let in_use = u128::from(in_use) | u128::from(Rng::new(in_use).next_u64()) << 64;
    let is_tried = |fault: &Fault| in_use >> (2 * *fault as u32) & 3 != 0 && fits(*fault);
    let mut kinds: Vec<Fault> = Fault::ALL.into_iter().filter(is_tried).collect();
    // After most faults it is a restart that shows what they have left.
    let cuts = kinds.len() / 8 * usize::from(kinds.contains(&Fault::PowerCut));
    kinds.extend(core::iter::repeat_n(Fault::PowerCut, cuts));
    let mut faults = Vec::new();
    let gap_max = pick(random, &[25, 100, 400, 2_000]);
    if kinds.is_empty() || random.below(8) == 0 {
        return faults;
    }
    let mut after_ops = random.below(gap_max);
    while after_ops < ops {
        faults.push(FaultEvent { after_ops, fault: pick(random, &kinds), pick: random.next_u64() });
        // Now and then on the heels of the one before, while that is still being dealt with.
        after_ops += if random.below(4) == 0 { random.below(3) } else { 1 + random.below(gap_max) };
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shorter_plan_is_the_front_of_a_longer_one() {
        for seed in 0..50 {
            let plan = |ops| TorturePlan::draw(seed, ops, TortureMode::Bounded, None).expect("any level");
            let (short, long) = (plan(500), plan(5_000));
            assert_eq!((&short.config, &short.workload), (&long.config, &long.workload));
            assert_eq!(short.faults, long.faults[..short.faults.len()]);
            assert!(long.faults.get(short.faults.len()).is_none_or(|next| next.after_ops >= 500));
        }
    }

    #[test]
    fn an_unknown_level_is_refused() {
        let level = "50:7-spans".parse().expect("a level");
        let refused = TorturePlan::draw(1, 10, TortureMode::Bounded, Some(level)).expect_err("not tried");
        assert!(refused.to_string().contains("50:2-spans"), "{refused}");
    }
}
