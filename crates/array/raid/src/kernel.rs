//! Applies coefficients to bytes: linear combinations over GF(256), the only work on data that an array does.
//!
//! One or two rows of coefficients give one or two results:
//! ```text
//! destination[0] (+)= c[0][0] source[0] + c[0][1] source[1] + ...       P, or a missing strip
//! destination[1] (+)= c[1][0] source[0] + c[1][1] source[1] + ...       Q, or another
//! ```
//! Memory is the bottleneck, so both rows are computed in one pass: each source is read once and each destination
//! written once, with the sums in registers. Rows that need no product per source have their own code (`terms.rs`):
//! plain XOR for P, doubling for Q. A single source times one is a copy.
//!
//! The processor's instructions are detected once; [`Implementation`] names them, so that tests and measurements can
//! run each. Nothing here allocates.

#[cfg(target_arch = "aarch64")]
mod neon;
mod plain;
mod tables;
mod terms;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod vector;
#[cfg(target_arch = "x86_64")]
mod x86;

use core::fmt;
use std::sync::OnceLock;
use terms::Terms;

/// Sets each destination to its linear combination of the sources, or adds it when `accumulate`.
///
/// `coefficients` has a row for each destination, of one coefficient per source. Sources and destinations
/// are all of one length, of any alignment (asserted). No source at all is a sum of zero.
pub fn combine(destinations: &mut [&mut [u8]], sources: &[&[u8]], coefficients: &[u8], accumulate: bool) {
    static BEST: OnceLock<Implementation> = OnceLock::new();
    let best = *BEST.get_or_init(Implementation::best);
    run(best, destinations, sources, coefficients, accumulate);
}

/// A way to compute [`combine`]. All give the same bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Implementation {
    /// Portable code.
    Plain,
    /// Nibble tables in NEON byte shuffles.
    Neon,
    /// Nibble tables in AVX2 byte shuffles.
    Avx2,
    /// Nibble tables in AVX-512 byte shuffles.
    Avx512,
    /// Bit matrices in GFNI affine transformations of 32 bytes (AVX2).
    Gfni256,
    /// Bit matrices in GFNI affine transformations of 64 bytes (AVX-512).
    Gfni512,
}

impl Implementation {
    /// All of them, the slowest first.
    pub const ALL: [Self; 6] =
        [Self::Plain, Self::Neon, Self::Avx2, Self::Avx512, Self::Gfni256, Self::Gfni512];

    /// The fastest that this processor can run.
    pub fn best() -> Self {
        Self::ALL.into_iter().rfind(|implementation| implementation.is_available()).unwrap_or(Self::Plain)
    }

    /// The name in output: `gfni-512`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Neon => "neon",
            Self::Avx2 => "avx2",
            Self::Avx512 => "avx-512",
            Self::Gfni256 => "gfni-256",
            Self::Gfni512 => "gfni-512",
        }
    }

    /// Whether this processor can run it.
    pub fn is_available(self) -> bool {
        match self {
            Self::Plain => true,
            Self::Neon => cfg!(target_arch = "aarch64"),
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => x86::has_avx2(),
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => x86::has_avx512(),
            #[cfg(target_arch = "x86_64")]
            Self::Gfni256 => x86::has_avx2() && x86::has_gfni(),
            #[cfg(target_arch = "x86_64")]
            Self::Gfni512 => x86::has_avx512() && x86::has_gfni(),
            #[cfg(not(target_arch = "x86_64"))]
            Self::Avx2 | Self::Avx512 | Self::Gfni256 | Self::Gfni512 => false,
        }
    }

    /// [`combine`] by this implementation.
    ///
    /// # Panics
    /// If this processor lacks the instructions, or lengths differ.
    pub fn combine(
        self,
        destinations: &mut [&mut [u8]],
        sources: &[&[u8]],
        coefficients: &[u8],
        accumulate: bool,
    ) {
        assert!(self.is_available(), "this processor has no {self}");
        run(self, destinations, sources, coefficients, accumulate);
    }

    /// Makes the whole vectors at the front of the destinations, and returns how many bytes those are.
    #[cfg(target_arch = "x86_64")]
    fn make_vectors(self, work: &mut Work<'_>) -> usize {
        match self {
            Self::Plain | Self::Neon => 0,
            Self::Avx2 => x86::avx2(work),
            Self::Avx512 => x86::avx512(work),
            Self::Gfni256 => x86::gfni256(work),
            Self::Gfni512 => x86::gfni512(work),
        }
    }

    /// Makes the whole vectors at the front of the destinations, and returns how many bytes those are.
    #[cfg(target_arch = "aarch64")]
    fn make_vectors(self, work: &mut Work<'_>) -> usize {
        if self == Self::Neon { neon::neon(work) } else { 0 }
    }

    /// There are no vectors known on this processor.
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    const fn make_vectors(self, _: &mut Work<'_>) -> usize {
        0
    }
}

impl fmt::Display for Implementation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// One destination and its coefficients.
struct Row<'a> {
    destination: &'a mut [u8],
    /// One per source.
    coefficients: &'a [u8],
    /// How the coefficients relate to each other.
    terms: Terms,
}

/// Arguments of [`combine`], checked: all lengths agree. With two rows, the one with the simpler terms is
/// first.
struct Work<'a> {
    first: Row<'a>,
    second: Option<Row<'a>>,
    sources: &'a [&'a [u8]],
    accumulate: bool,
}

impl<'a> Work<'a> {
    fn new(
        destinations: &'a mut [&mut [u8]],
        sources: &'a [&'a [u8]],
        coefficients: &'a [u8],
        accumulate: bool,
    ) -> Self {
        let expected = destinations.len() * sources.len();
        assert_eq!(coefficients.len(), expected, "one coefficient for each destination and source");
        let (first_row, second_row) = coefficients.split_at(sources.len().min(coefficients.len()));
        let mut destinations = destinations.iter_mut();
        let mut next = |coefficients| {
            let destination = destinations.next()?;
            Some(Row { destination, coefficients, terms: Terms::of(coefficients) })
        };
        let first = next(first_row).expect("one or two destinations");
        let mut work = Self { first, second: next(second_row), sources, accumulate };
        assert!(destinations.next().is_none(), "one or two destinations");
        work.check_lengths();
        work.put_simpler_first();
        work
    }

    fn check_lengths(&self) {
        let length = self.first.destination.len();
        assert!(self.second.iter().all(|row| row.destination.len() == length), "destinations of one length");
        assert!(
            self.sources.iter().all(|source| source.len() == length),
            "sources as long as the destinations"
        );
    }

    fn put_simpler_first(&mut self) {
        if let Some(second) = &mut self.second
            && second.terms < self.first.terms
        {
            core::mem::swap(&mut self.first, second);
        }
    }

    fn rows(&mut self) -> impl Iterator<Item = &mut Row<'a>> {
        core::iter::once(&mut self.first).chain(&mut self.second)
    }

    /// Bytes of all sources and destinations together.
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    fn pass_bytes(&self) -> usize {
        let pieces = self.sources.len() + 1 + usize::from(self.second.is_some());
        pieces * self.first.destination.len()
    }

    /// The source, when all rows are copies of it.
    fn copied_source(&self) -> Option<&'a [u8]> {
        let is_copy = |row: &Row<'_>| row.coefficients == [1];
        match self.sources {
            [source] if is_copy(&self.first) && self.second.iter().all(is_copy) && !self.accumulate => {
                Some(source)
            }
            _ => None,
        }
    }
}

fn run(
    implementation: Implementation,
    destinations: &mut [&mut [u8]],
    sources: &[&[u8]],
    coefficients: &[u8],
    accumulate: bool,
) {
    let mut work = Work::new(destinations, sources, coefficients, accumulate);
    if let Some(source) = work.copied_source() {
        work.rows().for_each(|row| row.destination.copy_from_slice(source));
        return;
    }
    let done_bytes = implementation.make_vectors(&mut work);
    plain::combine_from(done_bytes, &mut work);
}
