//! What runs did, added up.

use super::faults::Fault;

/// What one run did, or many together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TortureReport {
    /// Runs.
    pub seeds: u64,
    /// Host requests made, those of the checks among them.
    pub host_ops: u64,
    /// Reads, writes and flushes of members.
    pub member_ios: u64,
    /// Starts after a power cut or a clean stop.
    pub restarts: u64,
    /// Starts that were refused, with reason.
    pub refused: u64,
    /// Faults injected, by kind in the order of [`Fault::ALL`].
    pub faults: [u64; Fault::COUNT],
    /// Requests that failed because data was lost.
    pub data_lost_errors: u64,
    /// Requests that failed because too few members were left.
    pub array_failed_errors: u64,
    /// Stripes that the last check left out, because they had failed or held a block without a settled value.
    pub stripes_unchecked: u64,
    /// Digest of all events. Those of several runs are added up, so that their order does not matter.
    pub digest: u64,
}

// By hand, since arrays longer than 32 have no default.
impl Default for TortureReport {
    fn default() -> Self {
        Self {
            seeds: 0,
            host_ops: 0,
            member_ios: 0,
            restarts: 0,
            refused: 0,
            faults: [0; Fault::COUNT],
            data_lost_errors: 0,
            array_failed_errors: 0,
            stripes_unchecked: 0,
            digest: 0,
        }
    }
}

impl TortureReport {
    /// Adds what other runs did.
    pub fn add(&mut self, other: &Self) {
        self.seeds += other.seeds;
        self.host_ops += other.host_ops;
        self.member_ios += other.member_ios;
        self.restarts += other.restarts;
        self.refused += other.refused;
        for (sum, count) in self.faults.iter_mut().zip(other.faults) {
            *sum += count;
        }
        self.data_lost_errors += other.data_lost_errors;
        self.array_failed_errors += other.array_failed_errors;
        self.stripes_unchecked += other.stripes_unchecked;
        self.digest = self.digest.wrapping_add(other.digest);
    }
}
