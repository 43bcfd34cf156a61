//! Special rows of coefficients: most rows of a parity code need no product per source.
//!
//! | row | terms | cost per source |
//! |---|---|---|
//! | P; a strip from P; an update of either parity | all alike: `c (s0 + s1 + ...)` | one addition |
//! | Q | powers of two: `c (s0 + 2 (s1 + 2 (s2 + ...)))` | one doubling, one addition |
//! | a strip from Q or from both parities | any | one product, one addition |
//!
//! Powers are summed from the last source to the first, by Horner's scheme. The common factor `c` is multiplied once at
//! the end, or not at all if it is one.
//!
//! Source: H. P. Anvin, "The mathematics of RAID-6", section 3 (for Q).

use crate::gf;

/// How the coefficients of a row relate to each other, the cheapest relation first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Terms {
    /// All are the same.
    Alike,
    /// Each is twice the one before.
    Powers,
    /// Nothing is known.
    Any,
}

impl Terms {
    /// The cheapest relation that holds for `coefficients`.
    pub(super) fn of(coefficients: &[u8]) -> Self {
        let mut neighbours = coefficients.windows(2);
        if neighbours.clone().all(|pair| pair[0] == pair[1]) {
            Self::Alike
        } else if neighbours.all(|pair| gf::mul(2, pair[0]) == pair[1]) {
            Self::Powers
        } else {
            Self::Any
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relations_are_told_apart() {
        let table: [(&[u8], Terms); 12] = [
            (&[], Terms::Alike),
            (&[7], Terms::Alike),
            (&[0, 0, 0], Terms::Alike),
            (&[1, 1, 1, 1], Terms::Alike),
            (&[9, 9], Terms::Alike),
            (&[1, 2, 4, 8, 16, 32, 64, 128, 0x1d], Terms::Powers),
            (&[0x1d, 0x3a], Terms::Powers),
            (&[128, 0x1d], Terms::Powers),
            (&[1, 2, 8], Terms::Any),
            (&[2, 1], Terms::Any),
            (&[1, 1, 2], Terms::Any),
            (&[1, 0], Terms::Any),
        ];
        for (coefficients, terms) in table {
            assert_eq!(Terms::of(coefficients), terms, "{coefficients:?}");
        }
    }
}
