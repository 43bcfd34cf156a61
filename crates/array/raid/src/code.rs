//! The parity code: the coefficients that compute parity and recover lost strips.
//!
//! With data strips `D0, D1, ...`, P is the sum of all and Q the sum of `2^i Di`, in GF(256):
//! ```text
//! P = D0 +   D1 +   D2 + ...           one parity survives the loss of any one strip,
//! Q = D0 + 2 D1 + 4 D2 + ...           both together the loss of any two
//! ```
//! Everything is a linear combination: a coefficient for each source, the products added up. The same holds
//! for updates: `P + new + old` is the new P, `Q + 2^i new + 2^i old` the new Q, so a small write adds the
//! old and the new strip to a parity, each times [`generate`].
//!
//! Source: H. P. Anvin, "The mathematics of RAID-6", sections 2 to 4.

use crate::gf;
use crate::layout::StripUnit;

/// Strips that can be missing at once, and parities of a stripe, at most.
pub const PARITIES_MAX: usize = 2;

/// Returns the coefficient of data strip `strip` in parity `parity` (0 is P, 1 is Q).
///
/// # Panics
/// If `parity` is above 1: a stripe has two at most.
#[inline]
pub const fn generate(parity: u16, strip: u16) -> u8 {
    match parity {
        0 => 1,
        1 => gf::pow2(strip),
        _ => panic!("a stripe has at most two parities"),
    }
}

/// Why missing strips can't be brought back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecoveryError {
    /// More strips of the stripe are missing than it has parities.
    #[error(
        "{missing} strips of a stripe are missing, and its {parities} parities bring back as many at most"
    )]
    TooManyMissing {
        /// How many are missing, parities included.
        missing: usize,
        /// How many parities the stripe has.
        parities: u16,
    },
}

/// A stripe of which something is missing.
#[derive(Clone, Copy, Debug)]
pub struct Damage<'a> {
    /// Data strips of the stripe, at most 255.
    pub data_strips: u16,
    /// Parities of the stripe.
    pub parities: u16,
    /// Every strip that can't be read, data and parity alike, each once.
    pub missing: &'a [StripUnit],
}

/// How to compute the missing strips of a stripe from the others: row `r`, in the order of
/// [`Damage::missing`], is the sum over all sources of [`Recovery::coefficient`] times the source. The
/// sources are all data strips that are not missing, and the parities for which [`Recovery::uses_parity`] is
/// true.
///
/// A row may be computed alone: a degraded read of a data strip needs no row for a missing parity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recovery {
    missing: [StripUnit; PARITIES_MAX],
    rows: usize,
    /// What each parity counts in each row. A data strip then counts by what it put into those parities.
    parity_coefficients: [[u8; PARITIES_MAX]; PARITIES_MAX],
}

impl Recovery {
    /// Works out the coefficients for `damage`. When one data strip is missing and P is not, Q is left alone.
    ///
    /// # Errors
    /// [`RecoveryError::TooManyMissing`] when the code can't bring back so much.
    pub fn new(damage: &Damage<'_>) -> Result<Self, RecoveryError> {
        damage.check();
        let Damage { parities, missing, .. } = *damage;
        if missing.len() > usize::from(parities) {
            return Err(RecoveryError::TooManyMissing { missing: missing.len(), parities });
        }
        let mut recovery = Self {
            missing: [StripUnit::Parity(0); PARITIES_MAX],
            rows: missing.len(),
            parity_coefficients: [[0; PARITIES_MAX]; PARITIES_MAX],
        };
        recovery.missing[..missing.len()].copy_from_slice(missing);
        recovery.solve_data_rows(damage);
        recovery.derive_parity_rows();
        Ok(recovery)
    }

    /// Number of rows: one per missing strip.
    #[inline]
    pub const fn rows(&self) -> usize {
        self.rows
    }

    /// Whether `parity` (0 is P, 1 is Q) is a source of any row.
    #[inline]
    pub fn uses_parity(&self, parity: u16) -> bool {
        self.parity_coefficients[..self.rows].iter().any(|row| row[usize::from(parity)] != 0)
    }

    /// Returns the coefficient of `source` in `row`. A missing strip is no source.
    ///
    /// # Panics
    /// If there is no such row.
    #[inline]
    pub fn coefficient(&self, row: usize, source: StripUnit) -> u8 {
        assert!(row < self.rows, "row {row} is not one of {}", self.rows);
        assert!(!self.missing[..self.rows].contains(&source), "{source:?} is missing and so no source");
        match source {
            StripUnit::Parity(parity) => self.parity_coefficients[row][usize::from(parity)],
            StripUnit::Data { strip, .. } => self.data_coefficient(row, strip),
        }
    }

    /// What `strip` put into the parities is taken out again (plus is minus); a row for a parity takes in
    /// addition what the strip puts into it.
    #[inline]
    fn data_coefficient(&self, row: usize, strip: u16) -> u8 {
        let [p, q] = self.parity_coefficients[row];
        let taken_out = gf::mul(p, generate(0, strip)) ^ gf::mul(q, generate(1, strip));
        match self.missing[row] {
            StripUnit::Parity(parity) => taken_out ^ generate(parity, strip),
            StripUnit::Data { .. } => taken_out,
        }
    }

    /// Solves for the missing data strips: for each parity used, the sum of `generate * missing strip` equals
    /// the parity less what the other strips put into it.
    fn solve_data_rows(&mut self, damage: &Damage<'_>) {
        let mut missing_data = self.missing[..self.rows].iter().enumerate().filter_map(data_row);
        match (missing_data.next(), missing_data.next()) {
            (None, _) => {}
            (Some((row, strip)), None) => {
                let parity = damage.first_parity_left();
                self.parity_coefficients[row][usize::from(parity)] = gf::inv(generate(parity, strip));
            }
            (Some((first_row, a)), Some((second_row, b))) => {
                // Da + Db = P', 2^a Da + 2^b Db = Q': Da = (2^b P' + Q') / (2^a + 2^b), and Db likewise.
                let scale = gf::inv(generate(1, a) ^ generate(1, b));
                self.parity_coefficients[first_row] = [gf::mul(scale, generate(1, b)), scale];
                self.parity_coefficients[second_row] = [gf::mul(scale, generate(1, a)), scale];
            }
        }
    }

    /// A missing parity takes `generate` times the strip that is missing with it, if any, by way of the
    /// parity that brings that strip back.
    fn derive_parity_rows(&mut self) {
        let Some((data_row, strip)) = self.missing[..self.rows].iter().enumerate().find_map(data_row) else {
            return;
        };
        for row in 0..self.rows {
            if let StripUnit::Parity(parity) = self.missing[row] {
                let factor = generate(parity, strip);
                self.parity_coefficients[row] =
                    self.parity_coefficients[data_row].map(|c| gf::mul(factor, c));
            }
        }
    }
}

/// Picks the data strips out of numbered units.
fn data_row((row, unit): (usize, &StripUnit)) -> Option<(usize, u16)> {
    match *unit {
        StripUnit::Data { strip, .. } => Some((row, strip)),
        StripUnit::Parity(_) => None,
    }
}

impl Damage<'_> {
    fn check(&self) {
        assert!(usize::from(self.parities) <= PARITIES_MAX, "{} parities are not supported", self.parities);
        assert!(
            self.data_strips <= 255,
            "{} data strips are more than the code tells apart",
            self.data_strips
        );
        for (index, unit) in self.missing.iter().enumerate() {
            match *unit {
                StripUnit::Data { strip, copy } => {
                    assert!(strip < self.data_strips, "data strip {strip} is not in the stripe");
                    assert!(copy == 0, "a stripe with parity has no copy {copy}");
                }
                StripUnit::Parity(parity) => {
                    assert!(parity < self.parities, "parity {parity} is not in the stripe");
                }
            }
            assert!(!self.missing[..index].contains(unit), "{unit:?} is listed as missing twice");
        }
    }

    /// There is one: fewer parities are missing than the stripe has, for data is missing too.
    fn first_parity_left(&self) -> u16 {
        (0..self.parities)
            .find(|parity| !self.missing.contains(&StripUnit::Parity(*parity)))
            .expect("as many strips are missing as there are parities at most")
    }
}
