//! Compares the parity code with an oracle that knows only the definitions of P and Q: it writes them as linear
//! equations over random bytes and solves them by Gaussian elimination.

use proptest::prelude::*;
use raidlab_raid::code::{Damage, Recovery, RecoveryError, generate};
use raidlab_raid::{StripUnit, gf};

const fn data(strip: u16) -> StripUnit {
    StripUnit::Data { strip, copy: 0 }
}

/// Every strip of a stripe, data first.
fn strips(data_strips: u16, parities: u16) -> Vec<StripUnit> {
    (0..data_strips).map(data).chain((0..parities).map(StripUnit::Parity)).collect()
}

/// The byte of every strip, given the data bytes: parity by definition, with powers of two by repeated
/// doubling.
fn encode(data_bytes: &[u8], parities: u16) -> Vec<u8> {
    let (mut p, mut q, mut power) = (0, 0, 1);
    for &byte in data_bytes {
        p ^= byte;
        q ^= gf::mul(power, byte);
        power = gf::mul(power, 2);
    }
    [data_bytes, &[p, q][..usize::from(parities)]].concat()
}

/// Solves the parity equations for the missing strips by Gaussian elimination over all unknowns.
fn solve(data_strips: u16, parities: u16, missing: &[StripUnit], bytes: &[u8]) -> Vec<u8> {
    let all = strips(data_strips, parities);
    // One equation per parity: the sum of coefficient times data, plus the parity itself, is zero.
    let coefficient = |parity: u16, unit: StripUnit| match unit {
        StripUnit::Parity(other) => u8::from(other == parity),
        StripUnit::Data { strip, .. } => (0..strip * parity).fold(1, |power, _| gf::mul(power, 2)),
    };
    let mut rows: Vec<Vec<u8>> = (0..parities)
        .map(|parity| {
            let known = all.iter().zip(bytes).filter(|(unit, _)| !missing.contains(unit));
            let right = known.fold(0, |sum, (unit, byte)| sum ^ gf::mul(coefficient(parity, *unit), *byte));
            missing.iter().map(|unit| coefficient(parity, *unit)).chain([right]).collect()
        })
        .collect();
    for column in 0..missing.len() {
        let pivot = (column..rows.len()).find(|row| rows[*row][column] != 0).expect("the code is solvable");
        rows.swap(column, pivot);
        let scale = gf::inv(rows[column][column]);
        rows[column].iter_mut().for_each(|value| *value = gf::mul(scale, *value));
        let pivot_row = rows[column].clone();
        for (_, row) in rows.iter_mut().enumerate().filter(|(index, _)| *index != column) {
            let factor = row[column];
            row.iter_mut().zip(&pivot_row).for_each(|(value, pivot)| *value ^= gf::mul(factor, *pivot));
        }
    }
    (0..missing.len()).map(|row| rows[row][missing.len()]).collect()
}

/// Applies the recovery to the bytes of its sources.
fn recover(damage: &Damage<'_>, bytes: &[u8]) -> Vec<u8> {
    let recovery = Recovery::new(damage).expect("within the code's strength");
    let sources: Vec<(StripUnit, u8)> = strips(damage.data_strips, damage.parities)
        .into_iter()
        .zip(bytes.iter().copied())
        .filter(|(unit, _)| !damage.missing.contains(unit))
        .filter(|(unit, _)| !matches!(unit, StripUnit::Parity(parity) if !recovery.uses_parity(*parity)))
        .collect();
    (0..recovery.rows())
        .map(|row| {
            sources.iter().fold(0, |sum, (unit, byte)| sum ^ gf::mul(recovery.coefficient(row, *unit), *byte))
        })
        .collect()
}

/// Every set of one or two strips that the parities bring back, in both orders.
fn damages(data_strips: u16, parities: u16) -> Vec<Vec<StripUnit>> {
    let all = strips(data_strips, parities);
    let mut sets: Vec<Vec<StripUnit>> = all.iter().map(|unit| vec![*unit]).collect();
    if parities == 2 {
        for first in &all {
            sets.extend(all.iter().filter(|second| *second != first).map(|second| vec![*first, *second]));
        }
    }
    sets
}

#[test]
fn every_damage_of_narrow_stripes_is_recovered_as_elimination_does_it() {
    for parities in 1..=2 {
        for data_strips in 1..=12 {
            let data_bytes: Vec<u8> = (0..data_strips).map(|strip| (strip * 37 + 11) as u8).collect();
            let bytes = encode(&data_bytes, parities);
            for missing in damages(data_strips, parities) {
                let expected: Vec<u8> = strips(data_strips, parities)
                    .iter()
                    .zip(&bytes)
                    .filter_map(|(unit, byte)| Some((missing.iter().position(|m| m == unit)?, *byte)))
                    .fold(vec![0; missing.len()], |mut row, (at, byte)| {
                        row[at] = byte;
                        row
                    });
                let damage = Damage { data_strips, parities, missing: &missing };
                assert_eq!(solve(data_strips, parities, &missing, &bytes), expected, "oracle: {damage:?}");
                assert_eq!(recover(&damage, &bytes), expected, "{damage:?}");
            }
        }
    }
}

proptest! {
    #[test]
    fn wide_stripes_of_random_bytes_are_recovered_as_elimination_does_it(
        data_bytes in prop::collection::vec(any::<u8>(), 1..=254),
        parities in 1..=2_u16,
        picks in prop::array::uniform2(any::<u16>()),
    ) {
        let data_strips = data_bytes.len() as u16;
        let bytes = encode(&data_bytes, parities);
        let all = strips(data_strips, parities);
        let mut missing: Vec<StripUnit> =
            picks.iter().map(|pick| all[usize::from(*pick) % all.len()]).take(usize::from(parities)).collect();
        missing.dedup();
        let damage = Damage { data_strips, parities, missing: &missing };
        prop_assert_eq!(recover(&damage, &bytes), solve(data_strips, parities, &missing, &bytes));
    }

    #[test]
    fn a_small_write_updates_parity_by_the_difference(
        mut data_bytes in prop::collection::vec(any::<u8>(), 1..=254),
        pick: u16,
        new: u8,
    ) {
        let before = encode(&data_bytes, 2);
        let strip = pick % data_bytes.len() as u16;
        let old = std::mem::replace(&mut data_bytes[usize::from(strip)], new);
        let after = encode(&data_bytes, 2);
        for parity in 0..2 {
            let at = data_bytes.len() + usize::from(parity);
            let coefficient = generate(parity, strip);
            prop_assert_eq!(after[at], before[at] ^ gf::mul(coefficient, old) ^ gf::mul(coefficient, new));
        }
    }
}

#[test]
fn one_missing_data_strip_reads_p_alone_when_it_can() {
    for (missing, uses_p, uses_q) in [
        (vec![data(2)], true, false),
        (vec![data(2), StripUnit::Parity(1)], true, false),
        (vec![data(2), StripUnit::Parity(0)], false, true),
        (vec![data(2), data(4)], true, true),
        (vec![StripUnit::Parity(0), StripUnit::Parity(1)], false, false),
    ] {
        let recovery = Recovery::new(&Damage { data_strips: 6, parities: 2, missing: &missing });
        let recovery = recovery.expect("within the code's strength");
        assert_eq!((recovery.uses_parity(0), recovery.uses_parity(1)), (uses_p, uses_q), "{missing:?}");
    }
}

#[test]
fn more_damage_than_parity_is_an_error_that_says_so() {
    for (parities, missing) in [
        (0, vec![data(0)]),
        (1, vec![data(0), data(1)]),
        (1, vec![data(0), StripUnit::Parity(0)]),
        (2, vec![data(0), data(1), StripUnit::Parity(0)]),
    ] {
        let error = Recovery::new(&Damage { data_strips: 4, parities, missing: &missing });
        assert_eq!(error, Err(RecoveryError::TooManyMissing { missing: missing.len(), parities }));
    }
}
