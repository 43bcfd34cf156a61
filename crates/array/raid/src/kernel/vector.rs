//! The loop of all vector kernels, generic over the vector.
//!
//! Each piece takes `LANES` vectors from every source and keeps the sums of one or two rows in registers:
//! ```text
//! for each piece of LANES vectors                       destination written once
//!     for each source, from the last                    source read once, for both rows
//!         sum[row][lane] = sum taken one source further (by the row's Fold)
//!     destination[row] (+)= scale[row] * sum[row]
//! ```
//! Sources are taken in eights, each by its own copy of the code. A single load instruction that walks over all sources
//! is a trap: on AMD's Zen 5, when strips are adjacent in memory, it halves the rate in one direction and not in the
//! other. (Presumably the distance between strips is taken for a stride and prefetched.)
//!
//! Results of large passes bypass the cache ([`Fold::STREAM_BYTES`]), which avoids reading what is overwritten. Left out are
//! explicit prefetches: they cost more when data is in the cache than they gain when it is not.
//!
//! Everything is inlined into a function that has the vector's instructions enabled (`x86.rs`, `neon.rs`); without that,
//! each operation would be a call. Closures have the instructions only where they are inlined as well, so there are none here.
#![allow(unsafe_code, reason = "vector instructions work on raw pointers")]
#![allow(clippy::inline_always, reason = "an operation that is not inlined is a call per vector")]

use super::terms::Terms;
use super::{Row, Work};

/// A register of bytes and what the kernels do with it.
///
/// # Safety
/// Every method needs a processor with the vector's instructions; `load`, `store` and `stream` need `BYTES`
/// valid bytes.
pub(super) trait Vector: Copy {
    /// Bytes in the register.
    const BYTES: usize;
    /// A coefficient, ready to multiply by.
    type Factor: Copy;

    unsafe fn zero() -> Self;
    unsafe fn load(from: *const u8) -> Self;
    unsafe fn store(self, to: *mut u8);
    /// Stores past the cache; `to` is aligned to `BYTES`. Nothing may access those bytes before
    /// [`Vector::fence`].
    unsafe fn stream(self, to: *mut u8);
    unsafe fn fence();
    unsafe fn add(self, other: Self) -> Self;
    /// Horner's scheme: a sum of no source.
    #[inline(always)]
    unsafe fn no_powers() -> Self {
        // SAFETY: the caller vouches for the instructions.
        unsafe { Self::zero() }
    }
    /// Twice this sum, plus a source.
    unsafe fn double_and_add(self, source: Self) -> Self;
    /// The sum's bytes.
    #[inline(always)]
    unsafe fn end_powers(self) -> Self {
        self
    }
    unsafe fn factor(coefficient: u8) -> Self::Factor;
    unsafe fn times(self, factor: Self::Factor) -> Self;
}

/// What a destination must be aligned to for stores past the cache, so that whole lines of the cache are written.
const STREAM_ALIGNMENT: usize = 64;

/// How a row takes in its sources, one after the other, from the last to the first.
///
/// # Safety
/// The methods need a processor with the vector's instructions.
trait Fold {
    /// Whether the sum is still to be multiplied by the row's first coefficient.
    const SCALED: bool;
    /// Sources and destinations together from which on results are stored past the cache. On Zen 3, 8+2 and strips of 16 and 64 KiB, this
    /// wins a seventh of P and Q when all is in memory, and loses up to a tenth of P alone when all is in the cache. Writes to arrays of
    /// files show no difference.
    const STREAM_BYTES: usize = 128 << 10;
    /// What a source's coefficient becomes.
    type Factor<V: Vector>: Copy;

    unsafe fn factor<V: Vector>(coefficient: u8) -> Self::Factor<V>;
    /// The sum of no source.
    #[inline(always)]
    unsafe fn begin<V: Vector>() -> V {
        // SAFETY: the caller vouches for the instructions.
        unsafe { V::zero() }
    }
    unsafe fn take<V: Vector>(sum: V, source: V, factor: Self::Factor<V>) -> V;
    /// The sum's bytes, once all sources are in it.
    #[inline(always)]
    unsafe fn end<V: Vector>(sum: V) -> V {
        sum
    }
}

/// [`Terms::Alike`].
struct Sum;
/// [`Terms::Powers`], by Horner's scheme.
struct Powers;
/// [`Terms::Any`].
struct Products;

impl Fold for Sum {
    const SCALED: bool = true;
    type Factor<V: Vector> = ();

    #[inline(always)]
    unsafe fn factor<V: Vector>(_: u8) {}
    #[inline(always)]
    unsafe fn take<V: Vector>(sum: V, source: V, (): ()) -> V {
        // SAFETY: the caller vouches for the instructions.
        unsafe { sum.add(source) }
    }
}

impl Fold for Powers {
    const SCALED: bool = true;
    type Factor<V: Vector> = ();

    #[inline(always)]
    unsafe fn factor<V: Vector>(_: u8) {}
    #[inline(always)]
    unsafe fn begin<V: Vector>() -> V {
        // SAFETY: the caller vouches for the instructions.
        unsafe { V::no_powers() }
    }
    #[inline(always)]
    unsafe fn take<V: Vector>(sum: V, source: V, (): ()) -> V {
        // SAFETY: the caller vouches for the instructions.
        unsafe { sum.double_and_add(source) }
    }
    #[inline(always)]
    unsafe fn end<V: Vector>(sum: V) -> V {
        // SAFETY: the caller vouches for the instructions.
        unsafe { sum.end_powers() }
    }
}

impl Fold for Products {
    const SCALED: bool = false;
    /// About a core's own cache. On Zen 5, strips of 256 KiB and more win a fifth cold and a tenth warm. Products by shuffles take so
    /// long that they lose a tenth to a fifth below.
    const STREAM_BYTES: usize = 1 << 20;
    type Factor<V: Vector> = V::Factor;

    #[inline(always)]
    unsafe fn factor<V: Vector>(coefficient: u8) -> V::Factor {
        // SAFETY: the caller vouches for the instructions.
        unsafe { V::factor(coefficient) }
    }
    #[inline(always)]
    unsafe fn take<V: Vector>(sum: V, source: V, factor: V::Factor) -> V {
        // SAFETY: the caller vouches for the instructions.
        unsafe { sum.add(source.times(factor)) }
    }
}

/// What is summed up for the second row.
trait Second {
    /// Whether there is a second row.
    const PRESENT: bool;
    /// Whether it is a sum of its own; else it is the first row's, with another scale.
    const OWN: bool;
    /// How it is summed up, when it is.
    type Fold: Fold;
}

/// There is no second row.
struct Absent;
/// Both rows are [`Terms::Alike`], and so multiples of one sum.
struct Shared;

impl Second for Absent {
    const PRESENT: bool = false;
    const OWN: bool = false;
    type Fold = Sum;
}

impl Second for Shared {
    const PRESENT: bool = true;
    const OWN: bool = false;
    type Fold = Sum;
}

impl<F: Fold> Second for F {
    const PRESENT: bool = true;
    const OWN: bool = true;
    type Fold = F;
}

/// Makes all whole vectors of all rows, and returns how many bytes of each row those are.
///
/// The numbers are vectors per source and piece, for plain sums, for powers of two and for products. Longer
/// pieces suit data in a core's own cache, shorter ones memory; those in use are at no loss anywhere. (On a Xeon with
/// AVX-512, pieces of 1 KiB made plain sums of data in memory 3 % slower than these of 512 bytes, and of 256.)
///
/// # Safety
/// The processor must have the instructions of `V`.
#[inline(always)]
pub(super) unsafe fn combine<V, const SUM: usize, const POWERS: usize, const PRODUCTS: usize>(
    work: &mut Work<'_>,
) -> usize
where
    V: Vector,
{
    let terms = (work.first.terms, work.second.as_ref().map(|row| row.terms));
    // SAFETY: the caller vouches for the instructions.
    unsafe {
        match terms {
            (Terms::Alike, None) => run::<V, Sum, Absent, SUM>(work),
            (Terms::Alike, Some(Terms::Alike)) => run::<V, Sum, Shared, SUM>(work),
            (Terms::Alike, Some(Terms::Powers)) => run::<V, Sum, Powers, POWERS>(work),
            (Terms::Alike, Some(Terms::Any)) => run::<V, Sum, Products, PRODUCTS>(work),
            (Terms::Powers, None) => run::<V, Powers, Absent, POWERS>(work),
            (Terms::Any, None) => run::<V, Products, Absent, PRODUCTS>(work),
            (_, Some(_)) => run::<V, Products, Products, PRODUCTS>(work),
        }
    }
}

/// Makes whole pieces, then single vectors.
///
/// # Safety
/// The processor must have the instructions of `V`.
#[inline(always)]
unsafe fn run<V: Vector, F: Fold, S: Second, const LANES: usize>(work: &mut Work<'_>) -> usize {
    let length = work.first.destination.len();
    // SAFETY: the caller vouches for the instructions; `Work` has checked that all lengths agree.
    unsafe {
        let first = Target::new::<F>(&mut work.first);
        let second = work.second.as_mut().map_or(first, Target::new::<S::Fold>);
        let output = if work.accumulate {
            Output::Added
        } else if work.pass_bytes() >= F::STREAM_BYTES.max(S::Fold::STREAM_BYTES)
            && first.can_stream()
            && second.can_stream()
        {
            Output::Streamed
        } else {
            Output::Stored
        };
        let pass = Pass { sources: work.sources, first, second, output };
        // Products take so long that a choice at each piece costs nothing. (`const`, or the code for them would be made all the same,
        // and taken out again, in most of the time that compiling takes.)
        let known_end = if const { F::SCALED && S::Fold::SCALED } && first.scale == 1 && second.scale == 1 {
            match output {
                Output::Stored => Some(pass.pieces::<V, F, S, Stored, LANES>(0, length)),
                Output::Streamed => Some(pass.pieces::<V, F, S, Streamed, LANES>(0, length)),
                Output::Added => None,
            }
        } else {
            None
        };
        let pieces_end = match known_end {
            Some(end) => end,
            None => pass.pieces::<V, F, S, Nothing, LANES>(0, length),
        };
        let vectors_end = pass.pieces::<V, F, S, Nothing, 1>(pieces_end, length);
        if output == Output::Streamed {
            V::fence();
        }
        vectors_end
    }
}

/// How results reach memory.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Output {
    /// Added to what is there.
    Added,
    Stored,
    /// Stored past the cache.
    Streamed,
}

/// Where a row goes.
#[derive(Clone, Copy)]
struct Target<'a> {
    destination: *mut u8,
    /// One per source.
    coefficients: &'a [u8],
    /// What the sum is to be multiplied by. (Made a factor only when needed, for the registers are needed
    /// elsewhere.)
    scale: u8,
}

impl<'a> Target<'a> {
    fn new<F: Fold>(row: &mut Row<'a>) -> Self {
        let scale = if F::SCALED { row.coefficients.first().copied().unwrap_or(1) } else { 1 };
        Self { destination: row.destination.as_mut_ptr(), coefficients: row.coefficients, scale }
    }

    fn can_stream(&self) -> bool {
        self.destination.addr().is_multiple_of(STREAM_ALIGNMENT)
    }

    /// Writes `LANES` vectors at `at`.
    ///
    /// # Safety
    /// As for [`Pass::piece`]; streams only if [`Target::can_stream`].
    #[inline(always)]
    unsafe fn write<V: Vector, W: Known, const LANES: usize>(
        &self,
        mut sum: [V; LANES],
        at: usize,
        output: Output,
    ) {
        // SAFETY: the caller vouches for the instructions, and for `LANES` vectors at `at`, which is a
        // multiple of a vector and so leaves the destination's alignment as it is.
        unsafe {
            if W::OUTPUT.is_none() && self.scale != 1 {
                let factor = V::factor(self.scale);
                for vector in &mut sum {
                    *vector = vector.times(factor);
                }
            }
            let output = W::OUTPUT.unwrap_or(output);
            for (lane, vector) in sum.into_iter().enumerate() {
                let to = self.destination.add(at + lane * V::BYTES);
                match output {
                    Output::Added => vector.add(V::load(to)).store(to),
                    Output::Stored => vector.store(to),
                    Output::Streamed => vector.stream(to),
                }
            }
        }
    }
}

/// What the code of a pass knows of its output. A choice at each piece takes the registers of the sums.
trait Known {
    /// The output, where no row has a scale.
    const OUTPUT: Option<Output>;
}

/// Parity of whole stripes.
struct Stored;
/// The same of large ones.
struct Streamed;
/// Any output, any scale.
struct Nothing;

impl Known for Stored {
    const OUTPUT: Option<Output> = Some(Output::Stored);
}

impl Known for Streamed {
    const OUTPUT: Option<Output> = Some(Output::Streamed);
}

impl Known for Nothing {
    const OUTPUT: Option<Output> = None;
}

/// A pass over memory.
#[derive(Clone, Copy)]
struct Pass<'a> {
    sources: &'a [&'a [u8]],
    first: Target<'a>,
    /// The same as the first when there is no second.
    second: Target<'a>,
    output: Output,
}

impl Pass<'_> {
    /// Makes as many pieces of `LANES` vectors as fit between `start` and `length`, and returns where they
    /// end.
    ///
    /// # Safety
    /// The processor must have the instructions of `V`; all sources and destinations have `length` bytes.
    #[inline(always)]
    unsafe fn pieces<V: Vector, F: Fold, S: Second, W: Known, const LANES: usize>(
        self,
        start: usize,
        length: usize,
    ) -> usize {
        let mut at = start;
        while length - at >= LANES * V::BYTES {
            // SAFETY: the caller vouches for the instructions; `at` leaves room for a piece.
            unsafe { self.piece::<V, F, S, W, LANES>(at) };
            at += LANES * V::BYTES;
        }
        at
    }

    /// Makes the piece at `at` of each row.
    ///
    /// # Safety
    /// The processor must have the instructions of `V`, and `at + LANES * V::BYTES` be within all sources and
    /// destinations. A row has a coefficient for every source.
    #[inline(always)]
    unsafe fn piece<V: Vector, F: Fold, S: Second, W: Known, const LANES: usize>(self, at: usize) {
        // SAFETY: every index is below the number of sources; the caller vouches for the rest.
        unsafe {
            let mut sums = [[F::begin(); LANES], [S::Fold::begin(); LANES]];
            let mut left = self.sources.len();
            while left >= 8 {
                left -= 8;
                self.take_four::<V, F, S, LANES>(&mut sums, left + 4, at);
                self.take_four::<V, F, S, LANES>(&mut sums, left, at);
            }
            if left >= 4 {
                left -= 4;
                self.take_four::<V, F, S, LANES>(&mut sums, left, at);
            }
            if left >= 2 {
                left -= 2;
                self.take::<V, F, S, LANES>(&mut sums, left + 1, at);
                self.take::<V, F, S, LANES>(&mut sums, left, at);
            }
            if left == 1 {
                self.take::<V, F, S, LANES>(&mut sums, 0, at);
            }
            let [mut first, mut own] = sums;
            for lane in 0..LANES {
                first[lane] = F::end(first[lane]);
                if S::OWN {
                    own[lane] = S::Fold::end(own[lane]);
                }
            }
            self.first.write::<V, W, LANES>(first, at, self.output);
            if S::PRESENT {
                self.second.write::<V, W, LANES>(if S::OWN { own } else { first }, at, self.output);
            }
        }
    }

    /// Takes the sums four sources further: `index + 3` down to `index`.
    ///
    /// # Safety
    /// As for [`Pass::piece`]; there must be those sources.
    #[inline(always)]
    unsafe fn take_four<V: Vector, F: Fold, S: Second, const LANES: usize>(
        self,
        sums: &mut [[V; LANES]; 2],
        index: usize,
        at: usize,
    ) {
        // SAFETY: the caller vouches for all of it.
        unsafe {
            self.take::<V, F, S, LANES>(sums, index + 3, at);
            self.take::<V, F, S, LANES>(sums, index + 2, at);
            self.take::<V, F, S, LANES>(sums, index + 1, at);
            self.take::<V, F, S, LANES>(sums, index, at);
        }
    }

    /// Takes the sums one source further.
    ///
    /// # Safety
    /// As for [`Pass::piece`]; there must be a source `index`.
    #[inline(always)]
    unsafe fn take<V: Vector, F: Fold, S: Second, const LANES: usize>(
        self,
        [first, second]: &mut [[V; LANES]; 2],
        index: usize,
        at: usize,
    ) {
        // SAFETY: there is a source `index`, and a coefficient for it; the source has `LANES` vectors at
        // `at`.
        unsafe {
            let from = self.sources.get_unchecked(index).as_ptr().add(at);
            let first_factor = F::factor::<V>(*self.first.coefficients.get_unchecked(index));
            let second_factor = S::Fold::factor::<V>(*self.second.coefficients.get_unchecked(index));
            for lane in 0..LANES {
                let source = V::load(from.add(lane * V::BYTES));
                first[lane] = F::take(first[lane], source, first_factor);
                if S::OWN {
                    second[lane] = S::Fold::take(second[lane], source, second_factor);
                }
            }
        }
    }
}
