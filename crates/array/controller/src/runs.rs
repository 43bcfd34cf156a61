//! Reads that pass over the rows of stripes, where rows are locked and not whole stripes: what stands in one piece on a member is
//! read in one piece while nothing is missing, and else strip by strip of the narrow stripes.
//!
//! Such a fragment has more rows than a strip; no lock, recovery or cache ever sees one.

use crate::controller::Controller;
use crate::request::{CopySet, Fragment, Rows};
use raidlab_units::StripeIndex;

impl Controller {
    /// True where the host reads past the rows that are locked: what is read in place needs no lock, while nothing is missing.
    /// Source: Linux `drivers/md/raid5.c`, `chunk_aligned_read`, which is for arrays that are not degraded.
    pub(crate) fn reads_runs(&self) -> bool {
        self.config.cache.rules.row.is_some()
            && self.config.cache.is_passed_by()
            && self.cache.is_empty()
            && !self.metadata.any_incomplete()
            && !self.metadata.any_bad()
            && !self.metadata.any_out_of_sync()
    }

    /// Reads a fragment that goes on in other strips, one part of its request, as a part for each strip.
    pub(crate) fn read_strip_by_strip(&mut self, fragment: Fragment) {
        let (strip_rows, block_bytes) = (self.geometry.strip_rows(), self.geometry.block_bytes());
        let Rows { first, .. } = fragment.rows;
        let end = fragment.rows.end();
        self.host.add_parts(fragment.request, (end - 1) / strip_rows - first / strip_rows);
        for strip in first / strip_rows..end.div_ceil(strip_rows) {
            let before = strip * strip_rows;
            let part = Rows::between(first.max(before), end.min(before + strip_rows));
            let rows = Rows::between(part.first - before, part.end() - before);
            let stripe = StripeIndex(fragment.stripe.0 + u64::from(strip));
            let part = Fragment { stripe, rows, ..fragment.part(part, block_bytes) };
            self.read_from_members(part, CopySet::NONE);
        }
    }
}
