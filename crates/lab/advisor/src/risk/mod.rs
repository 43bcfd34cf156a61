//! How likely an array is to lose data: in a year, and in one rebuild.
//!
//! ```text
//!            failure              failure
//!  whole ───────────► degraded ───────────► … ───────────► lost: more members gone than redundancy bears
//!    ▲                   │ rebuild ends
//!    └───────────────────┴────────────────────────────────► lost: a strip that had no redundancy left was unreadable
//! ```
//! - **Failures** come at a constant rate per member: `-ln(1 - AFR)` per year, where AFR is the share that fails in
//!   one. The effect of age is a factor for the year in question ([`age`]).
//! - **Followers.** A share of all failures, `followed`, is followed by the failure of another member of the array,
//!   such as one of the same batch or shelf, after an exponential time of the given mean. A follower may have one, too.
//!   To keep the given AFR in all, failures that follow nothing come at `1 - followed` times its rate.
//! - **Rebuilds** take an exponential time of the given mean, one at a time per array, and need a spare. Every failed
//!   drive is replaced after an exponential time; the replacement is the next spare. Without spares each rebuild waits
//!   for that.
//! - **Read errors** count if a member is rebuilt from strips without further redundancy. Such a rebuild reads `units`
//!   whole members. Each bit fails with probability `1 / bits_per_read_error`, and each of those members has latent
//!   errors, which come at their own rate and stay until the next check finds them. With checks every `T` years and `U`
//!   uniform between 0 and `T`: `P(loss) = 1 - exp(-units * bits / bits_per_read_error) * E[exp(-units * rate * U)]`.
//!   Without checks `T` is the year in question. Flash has latent errors only: its read errors come with time and not
//!   with the amount read ([`FLASH_LATENT_ERRORS_PER_YEAR`]).
//! - **What loses data** comes from the layout itself ([`LossRules`]), never from a formula per level.
//! - **Losses** are also given as expected bytes. With more members gone than redundancy survives, the array no longer
//!   starts, and all its data is lost. A block that can't be read in a rebuild is one lost block, together with those
//!   of the missing members in its row ([`LossRules::blocks_lost_each`]): the rebuild goes on.
//!
//! Two methods that share only the rules answer the same question: [`markov`](Risk::markov), exact on a small chain by
//! uniformisation, and [`monte_carlo`](Risk::monte_carlo), drawn failures on sets of members. Invariant: the first lies
//! within the second's confidence interval, as a property test checks.
//!
//! Left out: rates that change within the year (Elerath and Schindler fit Weibull distributions to field data and find
//! several times the losses of constant rates), two latent errors in the same stripe, and loss by anything but drives.
//!
//! Sources: D. Patterson, G. Gibson, R. Katz, "A Case for Redundant Arrays of Inexpensive Disks", SIGMOD 1988 (mean time
//! to loss); G. Gibson, "Redundant Disk Arrays", 1992 (Markov model, spares, replacement); J. Elerath, J. Schindler,
//! "Beyond MTTDL: A Closed-Form RAID 6 Reliability Equation", ACM TOS 10(2), 2014 (latent defects and checks); A. Jensen,
//! "Markoff chains as an aid in the study of Markoff processes", 1953 (uniformisation).

pub mod age;
mod chain;
mod endurance;
mod field;
mod fleet;
mod markov;
mod monte_carlo;
mod report;
mod rules;

pub use endurance::{Endurance, RatedFlash, WriteFactors};
pub use field::{FieldCount, Ranged};
pub use fleet::{FleetRisk, fleet_risk};
pub use report::{EnduranceReport, RebuildPace, RiskRange, RiskReport};
pub use rules::LossRules;

use raidlab_raid::{LayoutError, LevelVariant};
use raidlab_units::ByteCount;
use serde::{Deserialize, Serialize};

/// Seconds in a day.
pub const SECS_PER_DAY: f64 = 86_400.0;
/// Days in a year.
pub const DAYS_PER_YEAR: f64 = 365.25;
/// Hours in a year.
pub const HOURS_PER_YEAR: f64 = 24.0 * DAYS_PER_YEAR;

/// Latent errors of a disk in a year where nothing better is known: 3.45 % of 1.53 million drives had one in 32 months, which is
/// a rate of `-ln(1 - 0.0345) / (32 / 12)`. From 1.9 % of enterprise drives to 8.5 % of nearline ones.
///
/// Source: L. Bairavasundaram and others, "An Analysis of Latent Sector Errors in Disk Drives", SIGMETRICS 2007.
pub const LATENT_ERRORS_PER_YEAR: Ranged = Ranged { low: 0.007_193, value: 0.013_166, high: 0.033_31 };

/// The same of flash: 20 to 63 % of the drives, by model, had an uncorrectable read error in their first four years, which is
/// `-ln(1 - 0.20) / 4` to `-ln(1 - 0.63) / 4`; the value is the geometric mean. They do not depend on how much is read.
///
/// Source: B. Schroeder, R. Lagisetty, A. Merchant, "Flash Reliability in Production: The Expected and the Unexpected", FAST 2016.
pub const FLASH_LATENT_ERRORS_PER_YEAR: Ranged = Ranged { low: 0.055_79, value: 0.117_8, high: 0.248_6 };

/// Unreadable blocks that an error of flash stands for: 2 to 6 of 1,000 drive days have one, 0.73 to 2.19 days a year, about ten
/// for each of [`FLASH_LATENT_ERRORS_PER_YEAR`]; a block at least on each such day. The same source.
pub const FLASH_BLOCKS_PER_ERROR: f64 = 10.0;

/// Share of failures that are followed by another one in the same server within a month.
///
/// Source: S. Han and others, "An In-Depth Study of Correlated Failures in Production SSD-Based Data Centers", FAST 2021: 12.9 %
/// of the failures of nearly a million drives.
pub const FOLLOWED_SHARE: f64 = 0.129;

/// Mean days until then: 52 % of second failures in an array come within a week of the first, `-7 / ln(1 - 0.52)`.
///
/// Source: S. Maneas and others, "A Study of SSD Reliability in Large Scale Enterprise Storage Deployments", FAST 2020.
pub const FOLLOW_DAYS: f64 = 9.5;

/// Smallest unit that a drive of today loses.
pub const SECTOR_BYTES: f64 = 4096.0;

/// The array and what may happen to it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct RiskSpec {
    /// RAID level.
    pub level: LevelVariant,
    /// Number of members.
    pub members: u16,
    /// Share of drives that fail within a year, 0 to below 1.
    pub annual_failure_share: f64,
    /// Bits read per unrecoverable error; `None` where reading never fails.
    pub bits_per_read_error: Option<f64>,
    /// Latent errors that a member gets in a year.
    pub latent_errors_per_year: f64,
    /// Unreadable blocks that each of them stands for.
    pub blocks_per_latent_error: f64,
    /// Capacity of a member.
    pub capacity: ByteCount,
    /// Mean time of a rebuild.
    pub rebuild_hours: f64,
    /// Hot spares.
    pub spares: u16,
    /// Mean time until a failed drive is replaced.
    pub replace_hours: f64,
    /// Time between checks; `None` where nobody checks.
    pub check_days: Option<f64>,
    /// Share of failures that are followed by another one in the same array, 0 to below 1.
    pub followed_share: f64,
    /// Mean days until then.
    pub follow_days: f64,
}

/// Why there is no risk to tell.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum RiskError {
    /// The level does not allow the members.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// More members than the sets of this model hold.
    #[error("{members} members are more than the {MEMBERS_MAX} that the risk model holds")]
    TooManyMembers {
        /// What was given.
        members: u16,
    },
    /// A figure makes no sense.
    #[error("{what} {expected}")]
    Figure {
        /// Which figure.
        what: &'static str,
        /// What it should be.
        expected: &'static str,
    },
}

/// The most members that a [`LossRules`] holds.
pub const MEMBERS_MAX: u16 = 128;

/// Rates per year, from a [`RiskSpec`].
#[derive(Clone, Copy, Debug)]
struct Rates {
    /// Of failures that follow nothing.
    failure: f64,
    /// Share of failures that are followed by another one.
    followed: f64,
    /// Of the one that follows.
    follow: f64,
    rebuild: f64,
    replacement: f64,
    bits: f64,
    error_per_bit: f64,
    latent: f64,
    blocks_per_latent: f64,
    check_years: f64,
}

/// What a rebuild meets that no redundancy covers.
#[derive(Clone, Copy, Debug, Default)]
struct ReadErrors {
    /// Chance of any.
    chance: f64,
    /// Mean number of unreadable blocks.
    blocks: f64,
}

impl RiskSpec {
    fn rates(&self) -> Result<Rates, RiskError> {
        let check = |holds: bool, what, expected| {
            if holds { Ok(()) } else { Err(RiskError::Figure { what, expected }) }
        };
        let hours = |value: f64| (0.1..=1e6).contains(&value);
        let share = self.annual_failure_share;
        check((0.0..1.0).contains(&share), "the annual failure rate", "is a share from 0 to below 100 %")?;
        check(hours(self.rebuild_hours), "the rebuild time", "lies between 0.1 and 1,000,000 hours")?;
        check(hours(self.replace_hours), "the replacement time", "lies between 0.1 and 1,000,000 hours")?;
        let latent = self.latent_errors_per_year;
        check((0.0..1e6).contains(&latent), "the latent error rate", "is a number per year, zero or above")?;
        let bits = self.bits_per_read_error.unwrap_or(f64::INFINITY);
        check(bits > 0.0, "the number of bits per read error", "is above zero")?;
        let days = self.check_days.unwrap_or(HOURS_PER_YEAR / 24.0);
        check(days > 0.0 && days.is_finite(), "the time between checks", "is above zero days")?;
        let followed = self.followed_share;
        check((0.0..1.0).contains(&followed), "the batch correlation", "is a share from 0 to below 100 %")?;
        check(
            (0.01..=3650.0).contains(&self.follow_days),
            "the time to the failure that follows",
            "lies between 0.01 and 3,650 days",
        )?;
        let blocks = self.blocks_per_latent_error;
        check((0.0..1e9).contains(&blocks), "the blocks of a latent error", "are a number, zero or above")?;
        Ok(Rates {
            failure: -(-share).ln_1p() * (1.0 - followed),
            followed,
            follow: HOURS_PER_YEAR / (24.0 * self.follow_days),
            rebuild: HOURS_PER_YEAR / self.rebuild_hours,
            replacement: HOURS_PER_YEAR / self.replace_hours,
            bits: self.capacity.0 as f64 * 8.0,
            error_per_bit: 1.0 / bits,
            latent,
            blocks_per_latent: blocks,
            check_years: days * 24.0 / HOURS_PER_YEAR,
        })
    }
}

impl Rates {
    /// What a rebuild that reads `units` members without redundancy meets, at a time since the last check that is uniform.
    fn read_errors(&self, units: f64) -> ReadErrors {
        let latent = units * self.latent * self.check_years;
        let survives = if latent > 0.0 { -(-latent).exp_m1() / latent } else { 1.0 };
        // Written so that small chances keep their digits.
        let latent_loss = if latent < 1e-6 { latent / 2.0 } else { 1.0 - survives };
        let media_loss = -(-units * self.bits * self.error_per_bit).exp_m1();
        ReadErrors {
            chance: media_loss + (1.0 - media_loss) * latent_loss,
            blocks: units * self.bits * self.error_per_bit + latent / 2.0 * self.blocks_per_latent,
        }
    }

    /// The same, so many years after the last check.
    fn read_errors_after(&self, units: f64, since_check: f64) -> ReadErrors {
        let (media, latent) = (units * self.bits * self.error_per_bit, units * self.latent * since_check);
        ReadErrors { chance: -(-media - latent).exp_m1(), blocks: media + latent * self.blocks_per_latent }
    }
}

impl LossRules {
    /// What the host sees of members with so many bits.
    fn usable_bytes(&self, rates: &Rates) -> f64 {
        f64::from(self.members()) * self.usable_share() * rates.bits / 8.0
    }
}

/// The chances of an array.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct LossChance {
    /// That it loses data within a year, from new, be it a sector.
    pub per_year: f64,
    /// Part of `per_year` where more failed members than redundancy bears come first.
    pub per_year_by_failures: f64,
    /// Part of `per_year` where sectors that are unreadable in a rebuild come first.
    pub per_year_by_read_errors: f64,
    /// Part of `per_year` that is no loss but more failed members at once than the chain follows; counted as loss.
    pub per_year_beyond_model: f64,
    /// That the array is lost within a year: more members fail than redundancy bears. Sectors that are lost before do not matter.
    pub array_lost_per_year: f64,
    /// Bytes that are lost with the array, expected in a year: all that it holds.
    pub array_bytes_per_year: f64,
    /// Bytes that are lost as unreadable sectors, expected in a year.
    pub sector_bytes_per_year: f64,
    /// That data are lost after a member failed and before all members are whole again, from an array that was whole.
    pub per_rebuild: f64,
    /// That the array is lost in that time.
    pub array_lost_per_rebuild: f64,
}

impl LossChance {
    /// Bytes that are lost in a year, expected: with the array and as unreadable sectors.
    pub fn bytes_per_year(&self) -> f64 {
        self.array_bytes_per_year + self.sector_bytes_per_year
    }

    /// Of each figure the one of both that `pick` picks.
    fn each(&self, other: &Self, pick: fn(f64, f64) -> f64) -> Self {
        let of = |figure: fn(&Self) -> f64| pick(figure(self), figure(other));
        Self {
            per_year: of(|it| it.per_year),
            per_year_by_failures: of(|it| it.per_year_by_failures),
            per_year_by_read_errors: of(|it| it.per_year_by_read_errors),
            per_year_beyond_model: of(|it| it.per_year_beyond_model),
            array_lost_per_year: of(|it| it.array_lost_per_year),
            array_bytes_per_year: of(|it| it.array_bytes_per_year),
            sector_bytes_per_year: of(|it| it.sector_bytes_per_year),
            per_rebuild: of(|it| it.per_rebuild),
            array_lost_per_rebuild: of(|it| it.array_lost_per_rebuild),
        }
    }
}

/// What the drawn failures say.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct DrawnChance {
    /// Chance of losing data within a year.
    pub per_year: f64,
    /// Half the width of its 99 % confidence interval; none where fewer than two of the drawn years tell.
    pub per_year_half_width: Option<f64>,
    /// Chance of losing the array within a year.
    pub array_lost_per_year: f64,
    /// Half the width of its 99 % confidence interval; none where fewer than two of the drawn years tell.
    pub array_lost_half_width: Option<f64>,
    /// Bytes that are lost as unreadable sectors, expected in a year.
    pub sector_bytes_per_year: f64,
    /// Half the width of its 99 % confidence interval; none where fewer than two of the drawn years tell.
    pub sector_bytes_half_width: Option<f64>,
    /// Years of an array that were drawn.
    pub trials: u64,
    /// Of them, those that could lose data. Failures are drawn more often than they come, and weighted.
    pub losses: u64,
    /// Of them, those that lost the array.
    pub arrays_lost: u64,
    /// Seed of the drawing.
    pub seed: u64,
}

/// An array whose chances can be asked for.
#[derive(Clone, Debug)]
pub struct Risk {
    spec: RiskSpec,
    rates: Rates,
    rules: LossRules,
}

impl Risk {
    /// Prepares `spec`.
    ///
    /// # Errors
    /// [`RiskError`] if the level does not allow the members or a figure makes no sense.
    pub fn new(spec: &RiskSpec) -> Result<Self, RiskError> {
        let rates = spec.rates()?;
        let rules = LossRules::of_level(spec.level, spec.members)?;
        Ok(Self { spec: spec.clone(), rates, rules })
    }

    /// What loses data.
    pub fn rules(&self) -> &LossRules {
        &self.rules
    }

    /// The chances by the Markov model.
    pub fn markov(&self) -> LossChance {
        markov::loss_chance(&self.rules, &self.rates, self.spec.spares)
    }

    /// The chance of a loss within a year by `trials` drawn years.
    pub fn monte_carlo(&self, trials: u64, seed: u64) -> DrawnChance {
        monte_carlo::drawn_chance(self, trials, seed)
    }

    /// Mean time to data loss in years by the formula of 1988, for levels with one parity or two copies: of failures alone,
    /// with a spare always at hand. `MTTF^2 / (members * (members of a group - 1) * MTTR)`.
    pub fn patterson_years(&self) -> Option<f64> {
        let (_, members, survived) = self.rules.equal_groups()?;
        (survived == 1 && self.rates.failure > 0.0).then(|| {
            let pairs = f64::from(self.spec.members) * f64::from(members - 1);
            self.rates.rebuild / (self.rates.failure * self.rates.failure * pairs)
        })
    }
}

#[cfg(test)]
mod tests;
