//! The vectors of x86-64: AVX2 and AVX-512 with nibble tables in byte shuffles, and both with GFNI's
//! matrices.
#![allow(unsafe_code, reason = "vector instructions need a processor that has them")]
#![allow(clippy::inline_always, reason = "an operation that is not inlined is a call per vector")]
#![allow(clippy::cast_ptr_alignment, reason = "the loads and stores used need no alignment")]

use super::Work;
use super::tables::{MATRICES, NIBBLES};
use super::vector::{self, Vector};
use crate::gf::{self, MODULUS};
use core::arch::x86_64::{
    __m128i, __m256i, __m512i, _mm_loadu_si128, _mm_sfence, _mm256_add_epi8, _mm256_and_si256,
    _mm256_broadcastsi128_si256, _mm256_gf2p8affine_epi64_epi8, _mm256_loadu_si256, _mm256_set1_epi8,
    _mm256_set1_epi64x, _mm256_setzero_si256, _mm256_shuffle_epi8, _mm256_srli_epi64, _mm256_storeu_si256,
    _mm256_stream_si256, _mm256_xor_si256, _mm512_add_epi8, _mm512_and_si512, _mm512_broadcast_i32x4,
    _mm512_gf2p8affine_epi64_epi8, _mm512_loadu_si512, _mm512_maskz_mov_epi8, _mm512_movepi8_mask,
    _mm512_set1_epi8, _mm512_set1_epi64, _mm512_setzero_si512, _mm512_shuffle_epi8, _mm512_srli_epi64,
    _mm512_storeu_si512, _mm512_stream_si512, _mm512_ternarylogic_epi64, _mm512_xor_si512,
};

pub(super) fn has_avx2() -> bool {
    is_x86_feature_detected!("avx2")
}

pub(super) fn has_avx512() -> bool {
    is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw")
}

pub(super) fn has_gfni() -> bool {
    is_x86_feature_detected!("gfni")
}

/// Defines the function that runs the shared loop with a vector's instructions enabled.
macro_rules! kernel {
    ($name:ident, $combine:expr, $features:literal, $available:expr) => {
        /// Makes the whole vectors of `work`, and returns how many bytes of each row those are.
        pub(super) fn $name(work: &mut Work<'_>) -> usize {
            #[target_feature(enable = $features)]
            fn enabled(work: &mut Work<'_>) -> usize {
                // SAFETY: this function has the instructions of the vector enabled.
                unsafe { $combine(work) }
            }
            assert!($available, "this processor has no {}", $features);
            // SAFETY: the processor has the instructions, as just asserted.
            unsafe { enabled(work) }
        }
    };
}

kernel!(avx2, vector::combine::<Avx2, 8, 4, 2>, "avx2", has_avx2());
kernel!(avx512, vector::combine::<Avx512, 8, 4, 4>, "avx512f,avx512bw", has_avx512());
kernel!(gfni256, vector::combine::<Gfni256, 8, 4, 4>, "avx2,gfni", has_avx2() && has_gfni());
kernel!(gfni512, vector::combine::<Gfni512, 8, 6, 8>, "avx512f,avx512bw,gfni", has_avx512() && has_gfni());

/// What a byte is reduced by when doubling pushes its highest bit out: the modulus without its leading bit.
const REDUCTION: i8 = (MODULUS & 0xff) as i8;

/// Three times this is [`REDUCTION`]: it is twice itself and `REDUCTION`.
const SHIFT: i8 = gf::mul(REDUCTION.cast_unsigned(), gf::inv(3)).cast_signed();

/// The truth table of a sum of three bits. Without it the compiler turns masked additions around, and slower.
const SUM_OF_THREE: i32 = 0x96;

/// What is the same with and without GFNI.
macro_rules! register {
    ($bytes:literal, $register:ty, $zero:ident, $load:ident, $store:ident, $stream:ident, $xor:ident) => {
        const BYTES: usize = $bytes;

        #[inline(always)]
        unsafe fn zero() -> Self {
            // SAFETY: the processor has the instruction, as the trait demands.
            Self(unsafe { $zero() })
        }
        #[inline(always)]
        unsafe fn load(from: *const u8) -> Self {
            // SAFETY: the bytes are valid, as the trait demands; the instruction needs no alignment.
            Self(unsafe { $load(from.cast::<$register>()) })
        }
        #[inline(always)]
        unsafe fn store(self, to: *mut u8) {
            // SAFETY: the bytes are valid, as the trait demands; the instruction needs no alignment.
            unsafe { $store(to.cast::<$register>(), self.0) }
        }
        #[inline(always)]
        unsafe fn stream(self, to: *mut u8) {
            // SAFETY: the bytes are valid and aligned, as the trait demands.
            unsafe { $stream(to.cast::<$register>(), self.0) }
        }
        #[inline(always)]
        unsafe fn fence() {
            // SAFETY: every x86-64 has the instruction.
            unsafe { _mm_sfence() };
        }
        #[inline(always)]
        unsafe fn add(self, other: Self) -> Self {
            // SAFETY: the processor has the instruction, as the trait demands.
            Self(unsafe { $xor(self.0, other.0) })
        }
    };
}

/// Multiplication by two shuffles of 16 entries, one for each half of the bytes.
macro_rules! nibble_factor {
    ($register:ty, $broadcast:ident, $set1:ident, $and:ident, $shift:ident, $shuffle:ident, $xor:ident) => {
        type Factor = [$register; 2];

        #[inline(always)]
        unsafe fn factor(coefficient: u8) -> Self::Factor {
            let halves = &NIBBLES[usize::from(coefficient)];
            // SAFETY: each half is 16 bytes; the processor has the instructions, as the trait demands.
            halves
                .each_ref()
                .map(|half| unsafe { $broadcast(_mm_loadu_si128(half.as_ptr().cast::<__m128i>())) })
        }
        #[inline(always)]
        unsafe fn times(self, [low, high]: Self::Factor) -> Self {
            // SAFETY: the processor has the instructions, as the trait demands.
            unsafe {
                let nibble = $set1(15);
                let low_product = $shuffle(low, $and(self.0, nibble));
                let high_product = $shuffle(high, $and($shift::<4>(self.0), nibble));
                Self($xor(low_product, high_product))
            }
        }
    };
}

/// Multiplication by a matrix of bits.
macro_rules! matrix_factor {
    ($register:ty, $set1:ident, $affine:ident) => {
        type Factor = $register;

        #[inline(always)]
        unsafe fn factor(coefficient: u8) -> Self::Factor {
            // SAFETY: the processor has the instruction, as the trait demands.
            unsafe { $set1(MATRICES[usize::from(coefficient)].cast_signed()) }
        }
        #[inline(always)]
        unsafe fn times(self, matrix: Self::Factor) -> Self {
            // SAFETY: the processor has the instruction, as the trait demands.
            Self(unsafe { $affine::<0>(self.0, matrix) })
        }
        #[inline(always)]
        unsafe fn double_and_add(self, other: Self) -> Self {
            // SAFETY: the processor has the instructions, as the trait demands.
            unsafe { self.times(Self::factor(2)).add(other) }
        }
    };
}

#[derive(Clone, Copy)]
struct Avx2(__m256i);

impl Vector for Avx2 {
    register!(
        32,
        __m256i,
        _mm256_setzero_si256,
        _mm256_loadu_si256,
        _mm256_storeu_si256,
        _mm256_stream_si256,
        _mm256_xor_si256
    );
    nibble_factor!(
        __m256i,
        _mm256_broadcastsi128_si256,
        _mm256_set1_epi8,
        _mm256_and_si256,
        _mm256_srli_epi64,
        _mm256_shuffle_epi8,
        _mm256_xor_si256
    );

    #[inline(always)]
    unsafe fn no_powers() -> Self {
        // SAFETY: the processor has the instruction, as the trait demands.
        Self(unsafe { _mm256_set1_epi8(SHIFT) })
    }
    /// A shuffle gives zero where the highest bit is set, and any entry of a table of one value elsewhere: twice the sum comes out
    /// with `REDUCTION` added everywhere. That is what doubling takes off `SHIFT`, so a sum with `SHIFT` added stays one.
    /// It saves one operation of six for a source of P and Q, against a mask by comparison.
    #[inline(always)]
    unsafe fn double_and_add(self, source: Self) -> Self {
        // SAFETY: the processor has the instructions, as the trait demands.
        unsafe {
            let reduction = _mm256_shuffle_epi8(_mm256_set1_epi8(REDUCTION), self.0);
            Self(_mm256_add_epi8(self.0, self.0)).add(source).add(Self(reduction))
        }
    }
    #[inline(always)]
    unsafe fn end_powers(self) -> Self {
        // SAFETY: the processor has the instruction, as the trait demands.
        unsafe { self.add(Self(_mm256_set1_epi8(SHIFT))) }
    }
}

#[derive(Clone, Copy)]
struct Avx512(__m512i);

impl Vector for Avx512 {
    register!(
        64,
        __m512i,
        _mm512_setzero_si512,
        _mm512_loadu_si512,
        _mm512_storeu_si512,
        _mm512_stream_si512,
        _mm512_xor_si512
    );
    nibble_factor!(
        __m512i,
        _mm512_broadcast_i32x4,
        _mm512_set1_epi8,
        _mm512_and_si512,
        _mm512_srli_epi64,
        _mm512_shuffle_epi8,
        _mm512_xor_si512
    );

    #[inline(always)]
    unsafe fn double_and_add(self, other: Self) -> Self {
        // SAFETY: the processor has the instructions, as the trait demands.
        unsafe {
            let reduction = _mm512_maskz_mov_epi8(_mm512_movepi8_mask(self.0), _mm512_set1_epi8(REDUCTION));
            Self(_mm512_ternarylogic_epi64::<SUM_OF_THREE>(
                _mm512_add_epi8(self.0, self.0),
                reduction,
                other.0,
            ))
        }
    }
}

#[derive(Clone, Copy)]
struct Gfni256(__m256i);

impl Vector for Gfni256 {
    register!(
        32,
        __m256i,
        _mm256_setzero_si256,
        _mm256_loadu_si256,
        _mm256_storeu_si256,
        _mm256_stream_si256,
        _mm256_xor_si256
    );
    matrix_factor!(__m256i, _mm256_set1_epi64x, _mm256_gf2p8affine_epi64_epi8);
}

#[derive(Clone, Copy)]
struct Gfni512(__m512i);

impl Vector for Gfni512 {
    register!(
        64,
        __m512i,
        _mm512_setzero_si512,
        _mm512_loadu_si512,
        _mm512_storeu_si512,
        _mm512_stream_si512,
        _mm512_xor_si512
    );
    matrix_factor!(__m512i, _mm512_set1_epi64, _mm512_gf2p8affine_epi64_epi8);
}
