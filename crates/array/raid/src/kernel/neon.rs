//! The vector of AArch64: NEON with nibble tables in byte shuffles. Every AArch64 target that has a standard library has it
//! (checked below), so nothing is asked at run time.
//!
//! Left out: SVE, and stores past the cache, for which Rust has no stable intrinsic.
#![allow(unsafe_code, reason = "vector instructions work on raw pointers")]
#![allow(clippy::inline_always, reason = "an operation that is not inlined is a call per vector")]

use super::Work;
use super::tables::NIBBLES;
use super::vector::{self, Vector};
use crate::gf::MODULUS;
use core::arch::aarch64::{
    uint8x16_t, vandq_u8, vdupq_n_u8, veorq_u8, vld1q_u8, vqtbl1q_u8, vreinterpretq_s8_u8,
    vreinterpretq_u8_s8, vshlq_n_u8, vshrq_n_s8, vshrq_n_u8, vst1q_u8,
};

const _: () = assert!(cfg!(target_feature = "neon"));

/// What a byte is reduced by when doubling pushes its highest bit out: the modulus without its leading bit.
const REDUCTION: u8 = (MODULUS & 0xff) as u8;

/// Makes the whole vectors of `work`, and returns how many bytes of each row those are.
pub(super) fn neon(work: &mut Work<'_>) -> usize {
    // SAFETY: the target has the instructions, as asserted above.
    unsafe { vector::combine::<Neon, 8, 4, 4>(work) }
}

#[derive(Clone, Copy)]
struct Neon(uint8x16_t);

impl Vector for Neon {
    const BYTES: usize = 16;
    type Factor = [uint8x16_t; 2];

    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: the target has the instruction.
        Self(unsafe { vdupq_n_u8(0) })
    }
    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: the bytes are valid, as the trait demands; the instruction needs no alignment.
        Self(unsafe { vld1q_u8(from) })
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: the bytes are valid, as the trait demands; the instruction needs no alignment.
        unsafe { vst1q_u8(to, self.0) }
    }
    #[inline(always)]
    unsafe fn stream(self, to: *mut u8) {
        // SAFETY: as for any store.
        unsafe { self.store(to) }
    }
    #[inline(always)]
    unsafe fn fence() {}
    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        // SAFETY: the target has the instruction.
        Self(unsafe { veorq_u8(self.0, other.0) })
    }
    #[inline(always)]
    unsafe fn double_and_add(self, other: Self) -> Self {
        // SAFETY: the target has the instructions.
        unsafe {
            let overflows = vreinterpretq_u8_s8(vshrq_n_s8::<7>(vreinterpretq_s8_u8(self.0)));
            let reduction = vandq_u8(overflows, vdupq_n_u8(REDUCTION));
            Self(veorq_u8(vshlq_n_u8::<1>(self.0), reduction)).add(other)
        }
    }
    #[inline(always)]
    unsafe fn factor(coefficient: u8) -> Self::Factor {
        // SAFETY: each half is 16 bytes; the target has the instruction.
        NIBBLES[usize::from(coefficient)].each_ref().map(|half| unsafe { vld1q_u8(half.as_ptr()) })
    }
    #[inline(always)]
    unsafe fn times(self, [low, high]: Self::Factor) -> Self {
        // SAFETY: the target has the instructions.
        unsafe {
            let low_product = vqtbl1q_u8(low, vandq_u8(self.0, vdupq_n_u8(15)));
            let high_product = vqtbl1q_u8(high, vshrq_n_u8::<4>(self.0));
            Self(veorq_u8(low_product, high_product))
        }
    }
}
