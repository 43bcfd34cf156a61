//! Files of samples, as training reads them: how many there are, and how long each is.

use crate::actor::Accelerator;
use crate::driver::Lengths;
use crate::rng::Rng;
use raidlab_units::ByteCount;
use std::sync::Arc;

/// Files start at multiples of this among the offsets of a target.
const ALIGN_BYTES: u64 = 4096;
/// The most files.
const FILES_MAX: u64 = 10_000_000;

/// Files that stand for the places of a target: number `n` begins at `n` strides, and ends where its length does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SampleFiles {
    /// From the start of one to the start of the next.
    pub stride_bytes: u64,
    /// How long each is.
    pub lengths: Arc<[u64]>,
}

impl SampleFiles {
    /// Returns files for samples of `it`, of `total` bytes together or a little more; none if that is less than a file or too many of them.
    pub fn of(it: &Accelerator, total: ByteCount, seed: u64) -> Option<Self> {
        let mean = mean_bytes(it);
        let count = (total.get() as f64 / mean.max(1.0)).round() as u64;
        if !(1..=FILES_MAX).contains(&count) {
            return None;
        }
        let (law, mut rng) = (Lengths::new(&it.sample), Rng::new(seed));
        let of_file = |_| (0..it.samples_per_file).map(|_| law.draw(&mut rng)).sum::<u64>().max(1);
        let lengths: Arc<[u64]> = (0..count).map(of_file).collect();
        let longest = lengths.iter().copied().max().unwrap_or(1);
        Some(Self { stride_bytes: longest.next_multiple_of(ALIGN_BYTES), lengths })
    }

    /// The size of one file for samples of `it`, and of as many as there may be.
    pub fn sizes(it: &Accelerator) -> (ByteCount, ByteCount) {
        let of = |files: u64| ByteCount((mean_bytes(it) * files as f64).ceil() as u64);
        (of(1), of(FILES_MAX))
    }

    /// Room that all take among the offsets of a target.
    pub fn region(&self) -> ByteCount {
        ByteCount(self.stride_bytes * self.lengths.len() as u64)
    }
}

/// What a file takes on average.
fn mean_bytes(it: &Accelerator) -> f64 {
    it.sample.mean_bytes() * f64::from(it.samples_per_file)
}
