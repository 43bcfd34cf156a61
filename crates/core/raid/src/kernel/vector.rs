//! The loop that all vector kernels share, over what a vector can do.
//!
//! Each pass takes `LANES` vectors from every source and keeps the sums of one or two rows in registers:
//! ```text
//! for each piece of LANES vectors        destination written once
//!     for each source                    source read once, for both rows
//!         sum[row][lane] += c[row][source] * source[lane]
//! ```
//! Everything is inlined into a function that has the vector's instructions enabled (`x86.rs`); without that,
//! each operation would be a call.
#![allow(unsafe_code, reason = "vector instructions work on raw pointers")]
#![allow(clippy::inline_always, reason = "an operation that is not inlined is a call per vector")]

use super::{Row, Work};

/// A register of bytes and what the kernels do with it.
///
/// # Safety
/// Every method needs a processor with the vector's instructions; `load` and `store` need `BYTES` valid
/// bytes.
pub(super) trait Vector: Copy {
    /// Bytes in the register.
    const BYTES: usize;
    /// A coefficient, ready to multiply by.
    type Factor: Copy;

    unsafe fn zero() -> Self;
    unsafe fn load(from: *const u8) -> Self;
    unsafe fn store(self, to: *mut u8);
    unsafe fn add(self, other: Self) -> Self;
    unsafe fn factor(coefficient: u8) -> Self::Factor;
    unsafe fn times(self, factor: Self::Factor) -> Self;
}

/// Vectors per source and pass: enough sums in flight to hide the latency of loads, few enough for the
/// registers.
const LANES: usize = 4;

/// Makes all whole vectors of all rows, and returns how many bytes of each row those are.
///
/// # Safety
/// The processor must have the instructions of `V`.
#[inline(always)]
pub(super) unsafe fn combine<V: Vector>(work: &mut Work<'_>) -> usize {
    let pass = Pass { sources: work.sources, accumulate: work.accumulate };
    let first_is_xor = work.first.is_xor();
    // SAFETY: the caller vouches for the instructions.
    unsafe {
        match (&mut work.second, first_is_xor) {
            (None, true) => pass.run::<V, 1, true>([&mut work.first]),
            (None, false) => pass.run::<V, 1, false>([&mut work.first]),
            (Some(second), true) => pass.run::<V, 2, true>([&mut work.first, second]),
            (Some(second), false) => pass.run::<V, 2, false>([&mut work.first, second]),
        }
    }
}

/// What a pass over memory needs beside its rows.
#[derive(Clone, Copy)]
struct Pass<'a> {
    sources: &'a [&'a [u8]],
    accumulate: bool,
}

impl Pass<'_> {
    /// Makes whole pieces, then single vectors. `XOR`: the coefficients of row 0 are all one.
    #[inline(always)]
    unsafe fn run<V: Vector, const ROWS: usize, const XOR: bool>(
        self,
        mut rows: [&mut Row<'_>; ROWS],
    ) -> usize {
        // SAFETY: the caller vouches for the instructions.
        unsafe {
            let done_bytes = self.pieces::<V, ROWS, LANES, XOR>(&mut rows, 0);
            self.pieces::<V, ROWS, 1, XOR>(&mut rows, done_bytes)
        }
    }

    /// Makes as many pieces of `LANES` vectors as fit from `start` on, and returns where they end.
    #[inline(always)]
    unsafe fn pieces<V: Vector, const ROWS: usize, const LANES: usize, const XOR: bool>(
        self,
        rows: &mut [&mut Row<'_>; ROWS],
        start: usize,
    ) -> usize {
        let length = rows[0].destination.len();
        let mut at = start;
        while length - at >= LANES * V::BYTES {
            // SAFETY: the caller vouches for the instructions; `at` leaves room for a piece.
            unsafe { self.piece::<V, ROWS, LANES, XOR>(rows, at) };
            at += LANES * V::BYTES;
        }
        at
    }

    /// Makes the piece at `at` of each row.
    ///
    /// # Safety
    /// The processor must have the instructions of `V`, and `at + LANES * V::BYTES` be within every row and
    /// source, which [`Work`] has checked to be of one length.
    #[inline(always)]
    unsafe fn piece<V: Vector, const ROWS: usize, const LANES: usize, const XOR: bool>(
        self,
        rows: &mut [&mut Row<'_>; ROWS],
        at: usize,
    ) {
        // SAFETY: all pointers are within slices that reach `at + LANES * V::BYTES`, as the caller vouches. A
        // row has a coefficient for every source, as `Work` has checked.
        unsafe {
            let mut sums = [[V::zero(); LANES]; ROWS];
            if self.accumulate {
                for (row, sums) in rows.iter().zip(&mut sums) {
                    *sums = load_piece(row.destination.as_ptr().add(at));
                }
            }
            for (index, source) in self.sources.iter().enumerate() {
                let piece: [V; LANES] = load_piece(source.as_ptr().add(at));
                for (number, (row, sums)) in rows.iter().zip(&mut sums).enumerate() {
                    if XOR && number == 0 {
                        add_piece(sums, piece);
                    } else {
                        let factor = V::factor(*row.coefficients.get_unchecked(index));
                        add_piece(sums, multiply_piece(piece, factor));
                    }
                }
            }
            for (row, sums) in rows.iter_mut().zip(sums) {
                store_piece(sums, row.destination.as_mut_ptr().add(at));
            }
        }
    }
}

#[inline(always)]
unsafe fn load_piece<V: Vector, const LANES: usize>(from: *const u8) -> [V; LANES] {
    // SAFETY: the caller vouches for `LANES * V::BYTES` bytes from `from` on.
    unsafe {
        let mut piece = [V::zero(); LANES];
        for (lane, vector) in piece.iter_mut().enumerate() {
            *vector = V::load(from.add(lane * V::BYTES));
        }
        piece
    }
}

#[inline(always)]
unsafe fn store_piece<V: Vector, const LANES: usize>(piece: [V; LANES], to: *mut u8) {
    for (lane, vector) in piece.into_iter().enumerate() {
        // SAFETY: the caller vouches for `LANES * V::BYTES` bytes from `to` on.
        unsafe { vector.store(to.add(lane * V::BYTES)) };
    }
}

#[inline(always)]
unsafe fn add_piece<V: Vector, const LANES: usize>(sums: &mut [V; LANES], piece: [V; LANES]) {
    for (sum, vector) in sums.iter_mut().zip(piece) {
        // SAFETY: the caller vouches for the instructions.
        *sum = unsafe { sum.add(vector) };
    }
}

#[inline(always)]
unsafe fn multiply_piece<V: Vector, const LANES: usize>(
    mut piece: [V; LANES],
    factor: V::Factor,
) -> [V; LANES] {
    for vector in &mut piece {
        // SAFETY: the caller vouches for the instructions.
        *vector = unsafe { vector.times(factor) };
    }
    piece
}
