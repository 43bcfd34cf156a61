//! Memory that a controller names, with real bytes: what moves between it and the members, and what work on it comes to,
//! done slowly and plainly, by a GF(256) that multiplies bit by bit (`raidlab_raid::kernel` does the same quickly).

use raidlab_controller::{BufferRef, BufferSpace, MemorySteps, Segment};
use raidlab_format::row_checksum;

/// Bytes of a block of most worlds.
pub const BLOCK: usize = 512;

/// The memories of a world.
pub trait Memories {
    /// One of them.
    fn space(&mut self, space: BufferSpace) -> &mut [u8];

    /// The first `length` bytes of a buffer.
    fn bytes(&mut self, buffer: BufferRef, length: u64) -> &mut [u8] {
        &mut self.space(buffer.space)[buffer.offset as usize..][..length as usize]
    }

    /// Copies what a member holds into the segments.
    fn scatter(&mut self, mut from: &[u8], segments: &[Segment]) {
        for segment in segments {
            let (part, rest) = from.split_at(segment.bytes as usize);
            self.bytes(segment.buffer, segment.bytes).copy_from_slice(part);
            from = rest;
        }
    }

    /// What the segments hold, for a member.
    fn gather(&mut self, segments: &[Segment]) -> Vec<u8> {
        let mut held = Vec::new();
        for segment in segments {
            held.extend_from_slice(self.bytes(segment.buffer, segment.bytes));
        }
        held
    }

    /// The checksum of each block of the segments.
    fn digests(&mut self, segments: &[Segment]) -> Vec<u32> {
        self.gather(segments).chunks_exact(BLOCK).map(row_checksum).collect()
    }

    /// Computes those blocks of each destination that `chosen` picks.
    fn compute(&mut self, task: &MemorySteps, mut chosen: impl FnMut() -> bool) {
        for step in &task.steps {
            let sources = &task.sources[step.first_source as usize..][..step.source_count as usize];
            for row in 0..usize::from(step.destination_count) {
                let first = step.first_coefficient as usize + row * sources.len();
                let terms = || sources.iter().zip(&task.coefficients[first..]);
                for at in (0..step.bytes).step_by(BLOCK) {
                    if !chosen() {
                        continue;
                    }
                    let length = (step.bytes - at).min(BLOCK as u64);
                    let part = |buffer: BufferRef| BufferRef { offset: buffer.offset + at, ..buffer };
                    let destination = part(step.destinations[row]);
                    let mut sum = vec![0; length as usize];
                    if step.accumulate {
                        sum.copy_from_slice(self.bytes(destination, length));
                    }
                    for (source, factor) in terms() {
                        for (sum, byte) in sum.iter_mut().zip(self.bytes(part(*source), length)) {
                            *sum ^= multiply(*factor, *byte);
                        }
                    }
                    self.bytes(destination, length).copy_from_slice(&sum);
                }
            }
        }
    }
}

/// The product in GF(256) modulo 0x11d, bit by bit; cheap for a factor of 1.
#[inline]
pub fn multiply(mut factor: u8, mut byte: u8) -> u8 {
    let mut product = 0;
    while factor != 0 {
        if factor & 1 == 1 {
            product ^= byte;
        }
        byte = (byte << 1) ^ if byte & 0x80 == 0 { 0 } else { 0x1d };
        factor >>= 1;
    }
    product
}
