//! The read buffer: segments, each holding one run of sectors that the heads have brought in.
//!
//! A read that goes on where a segment ends makes that segment longer; any other read takes over the segment that was
//! used longest ago. A segment never holds more than its share of the memory: as its end moves on, so does its start.
//! Invariant: `start <= end <= start + segment_sectors`; an empty segment has `start == end`.

/// The segments; sector numbers are plain for speed of search.
#[derive(Clone, Debug)]
pub(crate) struct Segments {
    start: Vec<u64>,
    end: Vec<u64>,
    used: Vec<u64>,
    uses: u64,
    segment_sectors: u64,
}

impl Segments {
    pub(crate) fn new(segments: u32, segment_sectors: u64) -> Self {
        let none = vec![0; segments as usize];
        Self { start: none.clone(), end: none.clone(), used: none, uses: 0, segment_sectors }
    }

    /// Sectors that a segment can hold.
    pub(crate) fn segment_sectors(&self) -> u64 {
        self.segment_sectors
    }

    /// First sector not in the segment.
    pub(crate) fn end_of(&self, segment: usize) -> u64 {
        self.end[segment]
    }

    /// The segment that holds all of `start..end`.
    #[inline]
    pub(crate) fn holding(&mut self, start: u64, end: u64) -> Option<usize> {
        let found = (0..self.start.len()).find(|i| self.start[*i] <= start && end <= self.end[*i])?;
        self.touch(found);
        Some(found)
    }

    /// Whether the segment holds `start`, or would with one more sector.
    pub(crate) fn reaches(&self, segment: usize, start: u64) -> bool {
        self.start[segment] < self.end[segment] && self.start[segment] <= start && start <= self.end[segment]
    }

    /// Puts a read of `start..end` into a segment and returns which.
    #[inline]
    pub(crate) fn fill(&mut self, start: u64, end: u64) -> usize {
        let follows = (0..self.end.len()).find(|i| self.reaches(*i, start));
        let segment = follows.unwrap_or_else(|| self.longest_unused());
        if follows.is_none() {
            self.start[segment] = start;
            self.end[segment] = start;
        }
        self.extend(segment, end);
        self.touch(segment);
        segment
    }

    /// Moves the end of a segment on to `end`, and its start too if it would hold too much.
    pub(crate) fn extend(&mut self, segment: usize, end: u64) {
        self.end[segment] = self.end[segment].max(end);
        self.start[segment] = self.start[segment].max(self.end[segment].saturating_sub(self.segment_sectors));
    }

    /// Empties the segments that hold a part of `start..end`, which is being written.
    pub(crate) fn forget(&mut self, start: u64, end: u64) {
        for i in 0..self.start.len() {
            if self.start[i] < end && start < self.end[i] {
                self.end[i] = self.start[i];
            }
        }
    }

    fn touch(&mut self, segment: usize) {
        self.uses += 1;
        self.used[segment] = self.uses;
    }

    fn longest_unused(&self) -> usize {
        (0..self.used.len()).min_by_key(|i| self.used[*i]).expect("there is at least one segment")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequential_reads_share_a_segment_and_others_take_the_oldest() {
        let mut segments = Segments::new(2, 100);
        let first = segments.fill(0, 60);
        let second = segments.fill(1000, 1010);
        assert_ne!(first, second);
        assert_eq!(segments.fill(60, 120), first);
        assert_eq!(segments.holding(0, 10), None, "the start has moved on to 20");
        assert_eq!(segments.holding(20, 120), Some(first));
        assert_eq!(segments.fill(5000, 5001), second, "the other one was used last");
        assert_eq!(segments.holding(1000, 1010), None);
    }

    #[test]
    fn writes_empty_what_they_overlap() {
        let rows = [(0, 10, true), (50, 60, false), (99, 101, false), (100, 200, true)];
        for (start, end, kept) in rows {
            let mut segments = Segments::new(1, 100);
            segments.fill(10, 100);
            segments.forget(start, end);
            assert_eq!(segments.holding(20, 30).is_some(), kept, "write of {start}..{end}");
        }
    }
}
