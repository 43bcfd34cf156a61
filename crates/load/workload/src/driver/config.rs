//! A driver's configuration, how workers share it, and its errors.

use crate::op::OpSet;
use crate::replay::ReplayError;
use crate::rng::derived_seed;
use crate::sample_files::SampleFiles;
use crate::spec::SpecError;
use raidlab_units::{ByteCount, NanoSpan};

/// What to drive.
#[derive(Clone, Debug, Default)]
pub struct DriverConfig {
    /// Part of the target in use, from its start; offsets stay within it.
    pub region: ByteCount,
    /// Offsets and lengths are multiples of this (the target's block size).
    pub block_bytes: u32,
    /// Requests in flight.
    pub iodepth: u32,
    /// Seed of all that is random.
    pub seed: u64,
    /// Seed of what all workers share, as a rate that changes; theirs where there is none.
    pub shared_seed: Option<u64>,
    /// Time before the measured window.
    pub ramp: NanoSpan,
    /// Length of the measured window.
    pub run: NanoSpan,
    /// Where the sequential stream starts, from the start of the region.
    pub start_offset: ByteCount,
    /// Ends the window when so many requests were counted, failed ones too; `None` leaves it to `run`.
    pub max_requests: Option<u64>,
    /// Files that stand for the places of the target, which accelerators then read.
    pub files: Option<SampleFiles>,
    /// Which share of the specification's own numbers (rates, requests in flight) this driver has.
    pub worker: Worker,
}

impl DriverConfig {
    /// Returns the part of worker `worker` (from 0) of `workers` that share this load: its share of the requests
    /// in flight and of `max_requests`, its own seed, and its sequential stream started so that the workers'
    /// streams are spread evenly over the region. With more workers than requests in flight the last ones get none,
    /// which [`Driver::new`](super::Driver::new) refuses.
    ///
    /// # Panics
    /// If there is no such worker.
    #[must_use]
    pub fn for_worker(&self, worker: u32, workers: u32) -> Self {
        assert!(worker < workers, "worker {worker} of {workers}");
        let (index, count) = (u64::from(worker), u64::from(workers));
        let part = Worker { index: worker, count: workers };
        let spread_bytes = (u128::from(self.region.get()) * u128::from(index) / u128::from(count)) as u64;
        let block_bytes = u64::from(self.block_bytes.max(1));
        let start_bytes = self.start_offset.get() + spread_bytes / block_bytes * block_bytes;
        Self {
            iodepth: part.share_of(u64::from(self.iodepth)) as u32,
            seed: derived_seed(self.seed, index),
            shared_seed: self.shared_seed.or(Some(self.seed)),
            start_offset: ByteCount(start_bytes % self.region.get().max(1)),
            max_requests: self.max_requests.map(|max| part.share_of(max)),
            worker: Worker {
                index: self.worker.index * workers + worker,
                count: self.worker.count * workers,
            },
            ..self.clone()
        }
    }

    /// Checks the numbers; `places` is the number of requests that this driver will have in flight.
    pub(super) fn validate(&self, places: u32) -> Result<(), DriverError> {
        let numbers = [
            ("the number of requests in flight", u64::from(places)),
            ("the length of the measured window", self.run.get()),
            ("the number of requests that ends the window", self.max_requests.unwrap_or(1)),
        ];
        if let Some(&(what, _)) = numbers.iter().find(|(_, number)| *number == 0) {
            return Err(DriverError::Zero { what });
        }
        let start_offset_bytes = self.start_offset.get();
        let region_bytes = self.region.get();
        let in_blocks = start_offset_bytes.is_multiple_of(u64::from(self.block_bytes));
        if in_blocks && (start_offset_bytes == 0 || start_offset_bytes < region_bytes) {
            return Ok(());
        }
        Err(DriverError::StartOffset { start_offset_bytes, block_bytes: self.block_bytes, region_bytes })
    }
}

/// One of several workers that share a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Worker {
    /// Which, from 0.
    pub index: u32,
    /// How many there are; at least 1.
    pub count: u32,
}

impl Default for Worker {
    fn default() -> Self {
        Self::ALONE
    }
}

impl Worker {
    /// The only one.
    pub const ALONE: Self = Self { index: 0, count: 1 };

    /// Returns its share of `total`; the shares of all workers add up to it.
    pub const fn share_of(self, total: u64) -> u64 {
        let count = self.count as u64;
        total / count + ((self.index as u64) < total % count) as u64
    }

    /// Returns what the workers before it have of `total`.
    pub const fn share_before(self, total: u64) -> u64 {
        let (index, count) = (self.index as u64, self.count as u64);
        let rest = total % count;
        total / count * index + if index < rest { index } else { rest }
    }
}

/// Why a workload can't be driven.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DriverError {
    /// The region holds less than one request.
    #[error("the region of {region} is smaller than one request of {request_bytes} bytes")]
    RegionTooSmall {
        /// Region given.
        region: ByteCount,
        /// Largest request of the specification.
        request_bytes: u32,
    },
    /// What an actor works on does not fit into its part of the target.
    #[error(
        "{what} of workload '{spec}' takes {}, and lies on {}: make it smaller, or the target, region or places that it lies on larger",
        .needs.with(*.has)[0], .needs.with(*.has)[1]
    )]
    TooLarge {
        /// Name of the specification, or of the part.
        spec: String,
        /// What it is.
        what: &'static str,
        /// Its length.
        needs: ByteCount,
        /// Length of where it is to lie.
        has: ByteCount,
    },
    /// The access specification itself is wrong.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// The trace does not fit the target.
    #[error(transparent)]
    Replay(#[from] ReplayError),
    /// The target has no such requests.
    #[error(
        "there are {ops} in workload '{spec}', and arrays have no such requests: leave them out, or load another target"
    )]
    CannotDo {
        /// Name of the specification.
        spec: String,
        /// What it can't do.
        ops: OpSet,
    },
    /// A length does not fit the blocks of the target.
    #[error(
        "line {line} of workload '{spec}' has {column} = {bytes}: \
         make it a multiple of the target's block of {block_bytes} bytes"
    )]
    NotInBlocks {
        /// Name of the specification.
        spec: String,
        /// Which line, from 1.
        line: usize,
        /// Which column.
        column: &'static str,
        /// What was given.
        bytes: u32,
        /// Block size of the target.
        block_bytes: u32,
    },
    /// A reply on a target that has none.
    #[error(
        "line {line} of workload '{spec}' has reply = {reply_bytes}: \
         replies exist on network targets only, leave it out for storage"
    )]
    ReplyOnStorage {
        /// Name of the specification.
        spec: String,
        /// Which line, from 1.
        line: usize,
        /// What was given.
        reply_bytes: u32,
    },
    /// The part of the target that the workload uses is not within the region.
    #[error(
        "workload '{spec}' uses {} from {start} on, but its region has only {region}: make it smaller",
        size.map_or_else(|| "the rest".into(), |size| size.to_string())
    )]
    PlacesOutside {
        /// Name of the specification, or of the part.
        spec: String,
        /// Where its part of the target starts.
        start: ByteCount,
        /// Length of that part, where it is given.
        size: Option<ByteCount>,
        /// Region given.
        region: ByteCount,
    },
    /// A number that must be above zero is zero.
    #[error("{what} is 0: give at least 1")]
    Zero {
        /// Which.
        what: &'static str,
    },
    /// The sequential stream would start outside the region or between blocks.
    #[error(
        "the sequential stream can't start at byte {start_offset_bytes}: \
         give a multiple of {block_bytes} below the region's {region_bytes} bytes"
    )]
    StartOffset {
        /// Start given.
        start_offset_bytes: u64,
        /// Block size of the target.
        block_bytes: u32,
        /// Region given.
        region_bytes: u64,
    },
}
