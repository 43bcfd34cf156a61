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
    /// All its numbers, to be passed on to another process.
    pub fn numbers(&self) -> Vec<u64> {
        let Self { seeds, host_ops, member_ios, restarts, refused, faults, .. } = *self;
        let Self { data_lost_errors, array_failed_errors, stripes_unchecked, digest, .. } = *self;
        let others = [data_lost_errors, array_failed_errors, stripes_unchecked, digest];
        [&[seeds, host_ops, member_ios, restarts, refused], &others[..], &faults[..]].concat()
    }

    /// The report with these numbers; nothing if there are more or fewer than it has.
    pub fn from_numbers(numbers: &[u64]) -> Option<Self> {
        let (others, faults) = numbers.split_at_checked(9)?;
        let &[
            seeds,
            host_ops,
            member_ios,
            restarts,
            refused,
            data_lost_errors,
            array_failed_errors,
            stripes_unchecked,
            digest,
        ] = others
        else {
            return None;
        };
        Some(Self {
            seeds,
            host_ops,
            member_ios,
            restarts,
            refused,
            faults: faults.try_into().ok()?,
            data_lost_errors,
            array_failed_errors,
            stripes_unchecked,
            digest,
        })
    }

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_make_the_same_report() {
        let numbers: Vec<u64> = (1..10 + Fault::COUNT as u64).collect();
        let report = TortureReport::from_numbers(&numbers).expect("as many as it has");
        assert_eq!((report.numbers(), report.seeds, report.faults[0]), (numbers.clone(), 1, 10));
        assert_eq!(TortureReport::from_numbers(&numbers[1..]), None);
    }
}
