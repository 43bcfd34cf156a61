//! Memory that a controller names, with real bytes: where buffers stand, and what work on them comes to, done slowly and
//! plainly (`raidlab_raid::kernel` does the same quickly).

use raidlab_controller::{BufferRef, BufferSpace, MemorySteps};
use raidlab_raid::gf;

/// Bytes of a block.
pub(crate) const BLOCK: usize = 512;

/// The memories of a world.
pub(crate) trait Memories {
    /// One of them.
    fn space(&mut self, space: BufferSpace) -> &mut [u8];

    /// The first `length` bytes of a buffer.
    fn bytes(&mut self, buffer: BufferRef, length: u64) -> &mut [u8] {
        &mut self.space(buffer.space)[buffer.offset as usize..][..length as usize]
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
                            *sum ^= gf::mul(*factor, *byte);
                        }
                    }
                    self.bytes(destination, length).copy_from_slice(&sum);
                }
            }
        }
    }
}
