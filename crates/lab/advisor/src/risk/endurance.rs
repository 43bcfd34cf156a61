//! Years until flash has been written as much as its rating allows.
//!
//! ```text
//! member bytes a day = host bytes a day * writes per host write / members
//! years = rated bytes * rated amplification / (member bytes a day * amplification found * 365.25)
//! ```
//! - **Rated bytes** are the maker's TBW: host writes under a rated load, which for enterprise drives is mostly 4 KiB
//!   at random places (JESD219). The flash behind wears out, and that load has written it *rated amplification* times
//!   as much. If the amplification of the actual load is unknown, the rated one is assumed.
//! - **Rated amplification** is that of a drive with this spare area that always collects its oldest block, under
//!   random writes: `1 / (1 - u)`, with `u = exp(-(1 + spare) (1 - u))` the share of a block that is still valid.
//!   Greedy collection has a little less. Spare room is fitted to the sheet's speed of random writes, so this may come to more
//!   than cells take: then it is what they take, and the collecting of any load counts in proportion.
//! - **Erase cycles** that flash takes are the usual ones of its cells: 100,000 of one bit, 10,000 of two, 5,000 of three, 1,500 of
//!   four. A rating that takes more is believed; writing in sequence then wears as much as the rated load.
//!
//! Sources: JEDEC JESD218 and JESD219; P. Desnoyers, "Analytic Modeling of SSD Write Performance", SYSTOR 2012; cycles are estimated:
//! makers of drives tell none, and articles have 1000 to 10,000 for three bits.

use super::{DAYS_PER_YEAR, LossRules};
use serde::{Deserialize, Serialize};

/// What a drive's life is counted from.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Endurance {
    /// Bytes that the maker allows to be written by the host.
    pub rated_bytes: f64,
    /// Write amplification of the load that this holds for.
    pub rated_amplification: f64,
    /// Write amplification of the load in question.
    pub amplification: f64,
    /// Bytes that are written to each member in a day.
    pub member_bytes_per_day: f64,
}

impl Endurance {
    /// Years until the host has written what the maker allows, however little of it wears the cells; infinite where nothing is written.
    pub fn rated_years(&self) -> f64 {
        self.rated_bytes / (self.member_bytes_per_day * DAYS_PER_YEAR)
    }

    /// Years until cells are worn as the rated writes wear them; infinite where nothing is written.
    pub fn years(&self) -> f64 {
        let worn_per_year = self.member_bytes_per_day * DAYS_PER_YEAR * self.amplification;
        self.rated_bytes * self.rated_amplification / worn_per_year
    }
}

/// Bytes that members write for each that the host writes, in requests smaller than a strip and in whole stripes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct WriteFactors {
    /// Small requests at random places, written through: the data and each parity, or each copy.
    pub small: f64,
    /// Whole stripes: each parity once for all of a stripe's data.
    pub whole_stripes: f64,
}

impl LossRules {
    /// How many bytes members write for each byte of the host.
    pub fn write_factors(&self) -> WriteFactors {
        let (data, copies, parities) = self.unit_counts();
        let whole_stripes = copies + parities / data;
        WriteFactors { small: copies + parities, whole_stripes }
    }
}

/// Write amplification under writes at random places, of flash with room for `spare` times its capacity beyond it.
///
/// Infinite without spare room.
fn random_amplification(spare: f64) -> f64 {
    if spare <= 0.0 {
        return f64::INFINITY;
    }
    // The share that is still valid is the root below 1, which this iteration comes to from below.
    let mut valid = 0.0_f64;
    for _ in 0..10_000 {
        valid = (-(1.0 + spare) * (1.0 - valid)).exp();
    }
    1.0 / (1.0 - valid)
}

/// A maker's rating, and the flash that it is of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RatedFlash {
    /// Bytes that the maker allows to be written by the host at random places.
    pub rated_bytes: f64,
    /// Bytes for the host.
    pub capacity: f64,
    /// Room beyond them, as a share of them; none where writes at random places are not amplified.
    pub spare: Option<f64>,
    /// Bits in a cell.
    pub bits_per_cell: u32,
}

impl RatedFlash {
    /// Write amplification that the rating holds for, in so far as cells take it.
    pub fn amplification(&self) -> f64 {
        let taken = (1.0 + self.spare.unwrap_or(0.0)) * self.capacity * erase_cycles(self.bits_per_cell);
        self.modelled().min((taken / self.rated_bytes).max(1.0))
    }

    /// What counts of the amplification `found` of a load on the model of this drive: of its collecting the same share as of the
    /// rated load's.
    pub fn amplification_of(&self, found: f64) -> f64 {
        let (rated, modelled) = (self.amplification(), self.modelled());
        if rated < modelled { 1.0 + (found - 1.0) * (rated - 1.0) / (modelled - 1.0) } else { found }
    }

    /// That of writes at random places on a full drive, as the spare room has it.
    pub fn modelled(&self) -> f64 {
        self.spare.map_or(1.0, random_amplification)
    }
}

/// How often flash of so many bits in a cell is usually erased before it wears out.
const fn erase_cycles(bits_per_cell: u32) -> f64 {
    match bits_per_cell {
        0 | 1 => 100_000.0,
        2 => 10_000.0,
        3 => 5000.0,
        _ => 1500.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Spare room that was fitted to a speed came to 17,900 erase cycles of three bits, and a drive that was written in sequence to
    /// 172 years.
    #[test]
    fn cells_bound_what_a_rating_takes() {
        let flash = |rated: f64, spare: f64, bits_per_cell| RatedFlash {
            rated_bytes: rated * 1e12,
            capacity: 15.36e12,
            spare: Some(spare),
            bits_per_cell,
        };
        let worn = flash(28_030.0, 0.0548, 3);
        assert!((random_amplification(0.0548) - 9.8).abs() < 0.05);
        let cycles = worn.rated_bytes * worn.amplification() / (15.36e12 * 1.0548);
        assert!((cycles - 5000.0).abs() < 1e-6, "{cycles} cycles");
        // The rated load has the rated life, whatever the cells take, and no load less wear than its own bytes.
        for (rated, spare, bits) in
            [(28_030.0, 0.0548, 3), (28_030.0, 0.28, 3), (84_000.0, 0.28, 3), (8000.0, 0.1, 4), (9e5, 0.2, 1)]
        {
            let flash = flash(rated, spare, bits);
            let at_random = flash.amplification_of(random_amplification(spare));
            assert!((at_random / flash.amplification() - 1.0).abs() < 1e-12, "{flash:?}");
            assert!((flash.amplification_of(1.0) - 1.0).abs() < 1e-12 && flash.amplification() >= 1.0);
        }
        assert!(
            (flash(84_000.0, 0.28, 3).amplification() - 1.0).abs() < 0.2,
            "the rating takes all of the cells"
        );
        let steady = RatedFlash { spare: None, ..worn };
        assert_eq!((steady.amplification(), steady.amplification_of(2.0)), (1.0, 2.0));
    }

    #[test]
    fn years_are_what_the_sheet_says_of_its_own_load() {
        // One drive write a day for five years.
        let rated = 7.68e12 * DAYS_PER_YEAR * 5.0;
        let life = |amplification| Endurance {
            rated_bytes: rated,
            rated_amplification: 4.0,
            amplification,
            member_bytes_per_day: 7.68e12,
        };
        assert!((life(4.0).years() - 5.0).abs() < 1e-9);
        assert!((life(1.0).years() - 20.0).abs() < 1e-9, "in sequence it lasts four times as long");
        assert!(Endurance { member_bytes_per_day: 0.0, ..life(1.0) }.years().is_infinite());
    }

    #[test]
    fn writes_are_multiplied_as_the_level_does() {
        for (level, members, small, whole) in [
            ("0", 4, 1.0, 1.0),
            ("1", 3, 3.0, 3.0),
            ("5", 5, 2.0, 1.25),
            ("6", 8, 3.0, 8.0 / 6.0),
            ("10", 8, 2.0, 2.0),
        ] {
            let found = LossRules::of_level(level.parse().unwrap(), members).unwrap().write_factors();
            assert!((found.small - small).abs() < 1e-12, "{level} x{members}: {found:?}");
            assert!((found.whole_stripes - whole).abs() < 1e-12, "{level} x{members}: {found:?}");
        }
    }

    /// `u = exp(-(1 + s)(1 - u))`, and about `1 / (2 s)` where there is little room.
    #[test]
    fn little_room_is_written_often() {
        for spare in [0.07, 0.14, 0.28, 1.0] {
            let valid = 1.0 - 1.0 / random_amplification(spare);
            assert!((valid - (-(1.0 + spare) * (1.0 - valid)).exp()).abs() < 1e-12);
        }
        assert!((random_amplification(0.0779) - 6.9).abs() < 0.2, "{}", random_amplification(0.0779));
        assert!(random_amplification(0.5) < random_amplification(0.1));
    }
}
