//! How a change to a stripe is carried out: which units are read first, and how parity follows from them.
//!
//! | plan | reads | new parity is | taken when |
//! |---|---|---|---|
//! | `Store` | nothing | none is kept | the level has no parity, or no parity member is left |
//! | `ReadModifyWrite` | old data of touched strips, old parity | old parity + old data + new data | it needs fewer reads |
//! | `ReconstructWrite` | rows of the hull that are not overwritten | computed from all data | it needs no more reads |
//! | `Recover` | all readable units of the hull | computed from all data, the unreadable recovered first | a unit that either of the others needs is unreadable |
//! | `Abandon` | nothing | none: its row becomes a bad block | a row has lost more than redundancy brings back, and what is written has a member to hold it |
//!
//! The *hull* is the run of rows from the first to the last that the change touches in any strip; parity is
//! read and written over the hull. A unit is *readable* unless its member is missing or has just failed to read it,
//! and *stored* unless its member is missing. Source of the first two rows' names: Linux md (drivers/md/raid5.c);
//! I/O counts: the published formulas, 2R+2W for a small write of RAID 5, 3R+3W for RAID 6.

use crate::request::Rows;
use crate::rules::ParityUpdate;

/// How a stripe operation proceeds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Plan {
    #[default]
    Store,
    ReadModifyWrite,
    ReconstructWrite,
    Recover,
    Abandon,
}

impl Plan {
    /// True if new parity is written.
    pub(crate) const fn computes_parity(self) -> bool {
        matches!(self, Self::ReadModifyWrite | Self::ReconstructWrite | Self::Recover)
    }
}

/// What is known of one unit (a data strip or a parity strip) of the stripe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UnitView {
    pub(crate) readable: bool,
    pub(crate) stored: bool,
    /// Hull of the rows to be written; empty for parity and untouched strips.
    pub(crate) touched: Rows,
    /// Hull of the rows within the stripe's hull that are not written.
    pub(crate) gap: Rows,
    /// The stripe cache has it, so that it need not be read.
    pub(crate) held: bool,
}

/// The redundancy left is too little: some of what is needed can't be read or stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BeyondRedundancy;

/// Chooses the plan for a write. `units` are the data strips followed by `parities` parity strips.
pub(super) fn choose(
    units: &[UnitView],
    parities: usize,
    update: ParityUpdate,
) -> Result<Plan, BeyondRedundancy> {
    let (data, parity) = units.split_at(units.len() - parities);
    let missing = units.iter().filter(|unit| !unit.stored).count();
    if missing > parities {
        return Err(BeyondRedundancy);
    }
    if !parity.iter().any(|unit| unit.stored) {
        return Ok(Plan::Store);
    }
    let (mut modify_reads, mut modify_possible) = (0_u32, true);
    let (mut reconstruct_reads, mut reconstruct_possible) = (0_u32, true);
    for unit in data {
        if !unit.touched.is_empty() {
            modify_reads += u32::from(!unit.held);
            modify_possible &= unit.readable;
        }
        if !unit.gap.is_empty() {
            reconstruct_reads += u32::from(!unit.held);
            reconstruct_possible &= unit.readable;
        }
    }
    for unit in parity.iter().filter(|unit| unit.stored) {
        modify_reads += u32::from(!unit.held);
        modify_possible &= unit.readable;
    }
    let modifies = match update {
        ParityUpdate::FewestReads => modify_reads < reconstruct_reads,
        ParityUpdate::PreferModify => modify_reads <= reconstruct_reads,
        ParityUpdate::NeverModify => false,
    };
    match (modify_possible, reconstruct_possible) {
        (true, true) if modifies => Ok(Plan::ReadModifyWrite),
        (_, true) => Ok(Plan::ReconstructWrite),
        (true, false) => Ok(Plan::ReadModifyWrite),
        (false, false) => {
            let erased = data.iter().filter(|unit| !unit.readable).count();
            let usable = parity.iter().filter(|unit| unit.readable).count();
            if erased > usable { Err(BeyondRedundancy) } else { Ok(Plan::Recover) }
        }
    }
}

/// Chooses the plan for a write where parity may disagree with the data, so that nothing is derived from it. `hull_rows` is
/// how many rows the hull has and `strip_rows` how many a strip has: what covers all of them puts parity right again.
pub(super) fn choose_out_of_sync(
    units: &[UnitView],
    parities: usize,
    Cover { hull_rows, strip_rows }: Cover,
) -> Result<Plan, BeyondRedundancy> {
    let data = &units[..units.len() - parities];
    let known = data.iter().all(|unit| unit.gap.is_empty() || unit.readable);
    if hull_rows == strip_rows && known {
        return Ok(Plan::ReconstructWrite);
    }
    let held = data.iter().all(|unit| unit.touched.is_empty() || unit.stored);
    if held { Ok(Plan::Store) } else { Err(BeyondRedundancy) }
}

/// How much of a strip a write covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cover {
    pub(super) hull_rows: u32,
    pub(super) strip_rows: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    const HULL: Rows = Rows { first: 0, count: 8 };

    /// One letter a unit: `w` written whole, `p` written in part, `.` untouched; capital letters are parity-free
    /// views of a missing member, `!` marks one that is stored but can't be read (untouched), `P` parity, `x` missing
    /// parity.
    fn units(picture: &str) -> (Vec<UnitView>, usize) {
        let view = |readable, stored, touched, gap| UnitView { readable, stored, touched, gap, held: false };
        let half = Rows { first: 0, count: 4 };
        let rest = Rows { first: 4, count: 4 };
        let parities = picture.chars().filter(|c| "Px".contains(*c)).count();
        let units = picture
            .chars()
            .map(|letter| match letter {
                'w' => view(true, true, HULL, Rows::NONE),
                'p' => view(true, true, half, rest),
                '.' => view(true, true, Rows::NONE, HULL),
                'W' => view(false, false, HULL, Rows::NONE),
                'R' => view(false, false, half, rest),
                'O' => view(false, false, Rows::NONE, HULL),
                '!' => view(false, true, Rows::NONE, HULL),
                'P' => view(true, true, Rows::NONE, Rows::NONE),
                'x' => view(false, false, Rows::NONE, Rows::NONE),
                other => panic!("no unit is drawn as {other}"),
            })
            .collect();
        (units, parities)
    }

    #[test]
    fn plans_where_parity_may_disagree() {
        let rows: &[(&str, u32, Result<Plan, BeyondRedundancy>)] = &[
            ("w..OP", 8, Ok(Plan::Store)),
            ("wwwWP", 8, Ok(Plan::ReconstructWrite)),
            ("...WP", 8, Ok(Plan::ReconstructWrite)),
            ("...WP", 16, Err(BeyondRedundancy)),
            ("..OWPP", 8, Err(BeyondRedundancy)),
            ("w..WP", 16, Err(BeyondRedundancy)),
            ("w...P", 8, Ok(Plan::ReconstructWrite)),
            ("w...P", 16, Ok(Plan::Store)),
        ];
        for &(picture, strip_rows, expected) in rows {
            let (units, parities) = units(picture);
            let cover = Cover { hull_rows: HULL.count, strip_rows };
            assert_eq!(
                choose_out_of_sync(&units, parities, cover),
                expected,
                "{picture} of {strip_rows} rows"
            );
        }
    }

    #[test]
    fn plans() {
        let rows: &[(&str, Result<Plan, BeyondRedundancy>)] = &[
            // Healthy RAID 5.
            ("w....P", Ok(Plan::ReadModifyWrite)),
            ("wwwwwP", Ok(Plan::ReconstructWrite)),
            ("wwww.P", Ok(Plan::ReconstructWrite)),
            ("w..P", Ok(Plan::ReconstructWrite)),
            ("w...P", Ok(Plan::ReadModifyWrite)),
            ("ww...P", Ok(Plan::ReconstructWrite)),
            // Healthy RAID 6: three reads to modify.
            ("w....PP", Ok(Plan::ReadModifyWrite)),
            ("w...PP", Ok(Plan::ReconstructWrite)),
            // Degraded RAID 5.
            ("w...x", Ok(Plan::Store)),
            ("w..OP", Ok(Plan::ReadModifyWrite)),
            ("W....P", Ok(Plan::ReconstructWrite)),
            ("R....P", Ok(Plan::Recover)),
            ("p..OP", Ok(Plan::ReadModifyWrite)),
            ("WO..P", Err(BeyondRedundancy)),
            ("W...x", Err(BeyondRedundancy)),
            // A stored unit that can't be read counts as erased only where it must be read.
            ("w...!P", Ok(Plan::ReadModifyWrite)),
            ("W...!P", Err(BeyondRedundancy)),
            // Degraded RAID 6.
            ("w....Px", Ok(Plan::ReadModifyWrite)),
            ("RO...PP", Ok(Plan::Recover)),
            ("R....xP", Ok(Plan::Recover)),
            ("wwwxx", Ok(Plan::Store)),
            ("ROO..PP", Err(BeyondRedundancy)),
            ("WO...Px", Err(BeyondRedundancy)),
        ];
        for (picture, expected) in rows {
            let (units, parities) = units(picture);
            assert_eq!(choose(&units, parities, ParityUpdate::FewestReads), *expected, "{picture}");
        }
    }
}
