//! Compares every kernel that this processor can run with the definition: byte by byte, product by product.

use raidlab_raid::gf;
use raidlab_raid::kernel::{self, Implementation};

/// The definition. `destinations` hold what is accumulated on.
fn by_definition(destinations: &mut [Vec<u8>], sources: &[&[u8]], coefficients: &[u8], accumulate: bool) {
    for (row, destination) in destinations.iter_mut().enumerate() {
        for (at, byte) in destination.iter_mut().enumerate() {
            let mut sum = if accumulate { *byte } else { 0 };
            for (index, source) in sources.iter().enumerate() {
                sum ^= gf::mul(coefficients[row * sources.len() + index], source[at]);
            }
            *byte = sum;
        }
    }
}

/// Bytes that look random and are the same on every run (xorshift).
struct Noise(u64);

impl Noise {
    fn byte(&mut self) -> u8 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 32) as u8
    }

    fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.byte()).collect()
    }
}

/// Kinds of coefficient rows that kernels treat differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RowKind {
    Ones,
    Zeros,
    /// One coefficient for all, neither zero nor one: an update of Q.
    Alike,
    /// 1, 2, 4, ...: Q.
    Powers,
    /// Powers of two that don't begin with one: Q of strips further on.
    LaterPowers,
    /// Powers of two with the last but one left out: Q of strips with a gap.
    Gap,
    Any,
}

fn row_of(kind: RowKind, sources: usize, noise: &mut Noise) -> Vec<u8> {
    let powers_from = |first| (first..).map(gf::pow2).take(sources).collect();
    match kind {
        RowKind::Ones => vec![1; sources],
        RowKind::Zeros => vec![0; sources],
        RowKind::Alike => vec![noise.byte() | 2; sources],
        RowKind::Powers => powers_from(0),
        RowKind::LaterPowers => powers_from(1 + u16::from(noise.byte())),
        RowKind::Gap => {
            let mut powers: Vec<u8> = powers_from(0);
            if let Some(last) = powers.last_mut() {
                *last = gf::mul(*last, 2);
            }
            powers
        }
        RowKind::Any => noise.bytes(sources),
    }
}

/// What lies around a destination must stay as it was.
const GUARD: u8 = 0xa5;
const MARGIN: usize = 96;

struct Case<'a> {
    rows: &'a [RowKind],
    sources: usize,
    length: usize,
    accumulate: bool,
    /// Whether destinations begin at a line of the cache.
    aligned: bool,
}

fn check(case: &Case<'_>, noise: &mut Noise) {
    let Case { rows, sources, length, accumulate, aligned } = *case;
    let coefficients: Vec<u8> = rows.iter().flat_map(|kind| row_of(*kind, sources, noise)).collect();
    // Every buffer starts at another odd place.
    let shifts: Vec<usize> = (0..sources + rows.len()).map(|_| usize::from(noise.byte()) % 64).collect();
    let buffers: Vec<Vec<u8>> = (0..sources).map(|_| noise.bytes(MARGIN + length)).collect();
    let sources: Vec<&[u8]> =
        buffers.iter().zip(&shifts).map(|(buffer, shift)| &buffer[*shift..shift + length]).collect();
    let before: Vec<Vec<u8>> = rows.iter().map(|_| noise.bytes(length)).collect();
    let mut expected = before.clone();
    by_definition(&mut expected, &sources, &coefficients, accumulate);

    for implementation in Implementation::ALL.into_iter().filter(|one| one.is_available()) {
        let mut memory: Vec<Vec<u8>> = rows.iter().map(|_| vec![GUARD; 2 * MARGIN + length]).collect();
        let places: Vec<usize> = memory
            .iter()
            .zip(&shifts[sources.len()..])
            .map(|(memory, shift)| if aligned { memory.as_ptr().align_offset(64) } else { *shift })
            .collect();
        for ((memory, before), place) in memory.iter_mut().zip(&before).zip(&places) {
            memory[*place..place + length].copy_from_slice(before);
        }
        let mut destinations: Vec<&mut [u8]> = memory
            .iter_mut()
            .zip(&places)
            .map(|(memory, place)| &mut memory[*place..place + length])
            .collect();
        implementation.combine(&mut destinations, &sources, &coefficients, accumulate);
        let what = format!(
            "{implementation}: rows {rows:?}, {} sources, {length} bytes, accumulate {accumulate}",
            sources.len()
        );
        for ((memory, expected), place) in memory.iter().zip(&expected).zip(&places) {
            assert!(memory[*place..place + length] == expected[..], "{what}");
            let around = memory[..*place].iter().chain(&memory[place + length..]);
            assert!(around.into_iter().all(|byte| *byte == GUARD), "{what}: wrote outside");
        }
    }
}

const ROW_KINDS: [RowKind; 7] = [
    RowKind::Ones,
    RowKind::Zeros,
    RowKind::Alike,
    RowKind::Powers,
    RowKind::LaterPowers,
    RowKind::Gap,
    RowKind::Any,
];

/// Each kind alone, and every two of them in either order.
fn row_sets() -> Vec<Vec<RowKind>> {
    let pairs = ROW_KINDS.iter().flat_map(|first| ROW_KINDS.iter().map(move |second| vec![*first, *second]));
    ROW_KINDS.iter().map(|kind| vec![*kind]).chain(pairs).collect()
}

fn sweep(lengths: impl IntoIterator<Item = usize>, source_counts: &[usize]) {
    let mut noise = Noise(0x9e37_79b9_7f4a_7c15);
    let row_sets = row_sets();
    for length in lengths {
        for &sources in source_counts {
            for rows in &row_sets {
                for accumulate in [false, true] {
                    check(&Case { rows, sources, length, accumulate, aligned: false }, &mut noise);
                }
            }
        }
    }
}

#[test]
fn every_kernel_makes_what_the_definition_says_at_every_short_length() {
    sweep(0..=300, &[1, 2, 5]);
}

#[test]
fn every_kernel_makes_what_the_definition_says_for_every_number_of_sources() {
    let counts: Vec<usize> = (0..=20).collect();
    sweep([1, 63, 64, 255, 257, 512, 769], &counts);
}

#[test]
fn every_kernel_makes_what_the_definition_says_at_large_and_odd_lengths() {
    sweep([4095, 4096, 4097, 12_345], &[1, 8]);
}

/// Long enough that results are stored past the cache, where they are aligned for that.
#[test]
fn every_kernel_makes_what_the_definition_says_for_passes_larger_than_a_cache() {
    use RowKind::{Any, Ones, Powers};
    let mut noise = Noise(2);
    for rows in [&[Ones][..], &[Any], &[Ones, Powers], &[Any, Any]] {
        for aligned in [true, false] {
            for accumulate in [false, true] {
                check(&Case { rows, sources: 5, length: (200 << 10) + 77, accumulate, aligned }, &mut noise);
            }
        }
    }
}

#[test]
fn every_kernel_multiplies_every_byte_by_every_coefficient() {
    let bytes: Vec<u8> = (0..=255).collect();
    for implementation in Implementation::ALL.into_iter().filter(|one| one.is_available()) {
        for coefficient in 0..=255 {
            let mut product = vec![0; 256];
            implementation.combine(&mut [&mut product], &[&bytes], &[coefficient], false);
            let expected: Vec<u8> = bytes.iter().map(|byte| gf::mul(coefficient, *byte)).collect();
            assert_eq!(product, expected, "{implementation} by {coefficient}");
        }
    }
}

#[test]
fn the_kernel_of_choice_is_the_fastest_that_runs_here() {
    let best = Implementation::best();
    assert!(best.is_available(), "{best}");
    let faster = Implementation::ALL.into_iter().filter(|one| *one > best && one.is_available());
    assert_eq!(faster.count(), 0, "something is faster than {best}");
    if cfg!(target_arch = "aarch64") {
        assert_eq!(best, Implementation::Neon);
    }
}

/// A processor without it would lead to code that it can't run.
#[test]
fn kernels_that_the_processor_has_not_are_refused() {
    for implementation in Implementation::ALL.into_iter().filter(|one| !one.is_available()) {
        let run = || implementation.combine(&mut [&mut [0; 64]], &[&[1; 64]], &[1], false);
        assert!(std::panic::catch_unwind(run).is_err(), "{implementation}");
    }
}

#[test]
fn the_kernel_of_choice_makes_p_and_q() {
    let sources: [&[u8]; 3] = [&[1, 0], &[2, 0], &[4, 0x80]];
    let (mut p, mut q) = ([0; 2], [0; 2]);
    kernel::combine(&mut [&mut p, &mut q], &sources, &[1, 1, 1, 1, 2, 4], false);
    // 0x80 times 4 is 0x200, less twice the modulus 0x11d, which is 0x3a.
    assert_eq!((p, q), ([7, 0x80], [1 ^ 4 ^ 16, 0x3a]));
}

#[test]
#[should_panic(expected = "sources as long as the destinations")]
fn lengths_that_differ_are_caught() {
    kernel::combine(&mut [&mut [0; 2]], &[&[0; 3]], &[1], false);
}

#[test]
#[should_panic(expected = "one coefficient for each destination and source")]
fn missing_coefficients_are_caught() {
    kernel::combine(&mut [&mut [0; 2]], &[&[0; 2], &[0; 2]], &[1], false);
}

#[test]
#[should_panic(expected = "one or two destinations")]
fn three_destinations_are_caught() {
    kernel::combine(&mut [&mut [0; 2], &mut [0; 2], &mut [0; 2]], &[&[0; 2]], &[1, 1, 1], false);
}
