//! The plain kernel: it works on every processor, handles what is too short for a vector, and is the easiest to compare
//! the others with.

use super::tables::NIBBLES;
use super::{Row, Work};

/// Bytes of a destination worked on at a time, so that it stays in the first-level cache for all sources.
const BLOCK_BYTES: usize = 4096;

/// Makes the bytes of all rows from `start` on.
pub(super) fn combine_from(start: usize, work: &mut Work<'_>) {
    let (sources, accumulate) = (work.sources, work.accumulate);
    for row in work.rows() {
        combine_row(start, row, sources, accumulate);
    }
}

fn combine_row(start: usize, row: &mut Row<'_>, sources: &[&[u8]], accumulate: bool) {
    let mut at = start;
    for block in row.destination[start..].chunks_mut(BLOCK_BYTES) {
        if !accumulate {
            block.fill(0);
        }
        for (source, coefficient) in sources.iter().zip(row.coefficients) {
            add_product(block, &source[at..at + block.len()], *coefficient);
        }
        at += block.len();
    }
}

fn add_product(block: &mut [u8], source: &[u8], coefficient: u8) {
    let bytes = block.iter_mut().zip(source);
    if coefficient == 1 {
        bytes.for_each(|(sum, byte)| *sum ^= byte);
    } else {
        let [low, high] = &NIBBLES[usize::from(coefficient)];
        bytes.for_each(|(sum, byte)| *sum ^= low[usize::from(byte & 15)] ^ high[usize::from(byte >> 4)]);
    }
}
