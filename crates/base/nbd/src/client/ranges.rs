//! Which bytes of a read have arrived: sorted ranges that do not touch.
//!
//! ```text
//! [0, 4096) [8192, 12288)   and 4096 bytes at 4096   give   [0, 12288)
//! ```
//! A normal server sends few pieces, mostly in order, so the list nearly always has one entry. Its length is bounded,
//! because the server decides it.

/// Ranges that are kept track of.
pub const RANGES_MAX: usize = 1024;

/// Why a range can't be added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RangeError {
    /// Some of it is there.
    Overlap,
    /// The list is full.
    Full,
}

/// Disjoint ranges of bytes, each with its end.
#[derive(Clone, Debug)]
pub(super) struct Ranges(Vec<(u32, u32)>);

impl Ranges {
    /// No bytes, and room for the usual number of ranges.
    pub(super) fn new() -> Self {
        Self(Vec::with_capacity(4))
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// Adds `length` bytes at `at`, not none, whose end is a `u32`.
    pub(super) fn add(&mut self, at: u32, length: u32) -> Result<(), RangeError> {
        let end = at + length;
        let next = self.0.partition_point(|(start, _)| *start < at);
        let before = next.checked_sub(1).map(|place| self.0[place].1);
        let after = self.0.get(next).map(|range| range.0);
        if before.is_some_and(|before| before > at) || after.is_some_and(|after| after < end) {
            return Err(RangeError::Overlap);
        }
        match (before == Some(at), after == Some(end)) {
            (true, true) => self.0[next - 1].1 = self.0.remove(next).1,
            (true, false) => self.0[next - 1].1 = end,
            (false, true) => self.0[next].0 = at,
            (false, false) if self.0.len() == RANGES_MAX => return Err(RangeError::Full),
            (false, false) => self.0.insert(next, (at, end)),
        }
        Ok(())
    }

    /// Returns whether all of the first `length` bytes are there.
    pub(super) fn cover(&self, length: u32) -> bool {
        length == 0 || self.0 == [(0, length)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn ranges_are_what_a_map_of_bytes_says(adds in prop::collection::vec((0_u32..60, 1_u32..12), 0..40)) {
            let (mut ranges, mut bytes) = (Ranges::new(), [false; 72]);
            for (at, length) in adds {
                let part = at as usize..(at + length) as usize;
                let overlaps = bytes[part.clone()].contains(&true);
                prop_assert_eq!(ranges.add(at, length).is_err(), overlaps);
                if !overlaps {
                    bytes[part].fill(true);
                }
                for end in 0..72 {
                    let whole = bytes[..end].iter().all(|there| *there) && !bytes[end..].contains(&true);
                    prop_assert_eq!(ranges.cover(end as u32), whole || end == 0);
                }
                for pair in ranges.0.windows(2) {
                    prop_assert!(pair[0].1 < pair[1].0);
                }
            }
        }
    }

    #[test]
    fn the_list_is_bounded() {
        let mut ranges = Ranges::new();
        for place in 0..RANGES_MAX as u32 {
            assert_eq!(ranges.add(place * 2, 1), Ok(()));
        }
        assert_eq!(ranges.add(1 << 20, 1), Err(RangeError::Full));
        assert_eq!(ranges.add(1, 1), Ok(()));
    }
}
