//! The read buffer: segments, each with one run of sectors that the heads have read.
//!
//! A read that continues where a segment ends extends that segment; any other read takes over the least recently used
//! segment. A segment never holds more than its share of the memory: as its end moves on, so does its start. An empty
//! segment has no length.
//!
//! A host that keeps reading what was read ahead for it is a stream: its segment may then hold half of the memory,
//! taken from the least recently used segments. With only one share, a drive in a stripe would stop reading ahead while
//! the host waits for another drive, and would then have less in its memory than the platter needs to come round again.
//! (Makers call it dynamic or adaptive segmentation.) Drives with fixed segments don't do that.
//!
//! Every command searches all segments and rarely finds one. So a *sketch* of each is examined first, its numbers
//! modulo 2^32: whatever is in a segment is also in the sketch; the converse may fail only on drives of more than 2^32
//! sectors. The comparisons have no data-dependent branch, so that the compiler vectorises them.
//!
//! Invariants: no segment holds more than its `most`, and all of them together no more than the memory, except for the
//! last read; `by_use` names each segment once; each sketch is that of its segment.

/// One run of sectors.
#[derive(Clone, Copy, Debug, Default)]
struct Segment {
    start: u64,
    sectors: u64,
    /// Sectors that it may hold.
    most: u64,
}

impl Segment {
    /// Whether it holds `sector`.
    #[inline]
    fn holds(&self, sector: u64) -> bool {
        sector.wrapping_sub(self.start) < self.sectors
    }

    fn end(&self) -> u64 {
        self.start + self.sectors
    }

    /// Whether it holds `sector`, or would with one sector more.
    #[inline]
    fn reaches(&self, sector: u64) -> bool {
        sector.wrapping_sub(self.start) <= self.sectors && self.sectors > 0
    }
}

/// The low halves of the segments' numbers, an array each.
#[derive(Clone, Debug)]
struct Sketches {
    start: Vec<u32>,
    sectors: Vec<u32>,
}

impl Sketches {
    fn new(segments: usize) -> Self {
        Self { start: vec![0; segments], sectors: vec![0; segments] }
    }

    fn set(&mut self, index: usize, segment: &Segment) {
        self.start[index] = segment.start as u32;
        self.sectors[index] = segment.sectors as u32;
    }

    /// False only if no segment reaches `sector`.
    #[inline]
    fn may_reach(&self, sector: u64) -> bool {
        let sketches = self.start.iter().zip(&self.sectors);
        sketches.fold(false, |any, (start, sectors)| any | ((sector as u32).wrapping_sub(*start) <= *sectors))
    }

    /// False only if no segment holds a sector of `start..end`.
    #[inline]
    fn may_overlap(&self, start: u64, end: u64) -> bool {
        let (first, sectors) = (start as u32, (end - start) as u32);
        let sketches = self.start.iter().zip(&self.sectors);
        sketches.fold(false, |any, (start, held)| {
            any | (first.wrapping_sub(*start) < *held) | (start.wrapping_sub(first) < sectors)
        })
    }
}

/// All segments.
#[derive(Clone, Debug)]
pub(crate) struct Segments {
    all: Vec<Segment>,
    sketches: Sketches,
    /// Their indices, from the one used longest ago to the one used last.
    by_use: Vec<u32>,
    segment_sectors: u64,
    memory_sectors: u64,
    /// Sectors that the segment of a stream may hold.
    stream_sectors: u64,
}

impl Segments {
    /// So many of so many sectors, which keep to that if they are `fixed`.
    pub(crate) fn new(segments: u32, segment_sectors: u64, fixed: bool) -> Self {
        let memory_sectors = segment_sectors * u64::from(segments);
        Self {
            all: vec![Segment { most: segment_sectors, ..Segment::default() }; segments as usize],
            sketches: Sketches::new(segments as usize),
            by_use: (0..segments).collect(),
            segment_sectors,
            memory_sectors,
            stream_sectors: if fixed { segment_sectors } else { segment_sectors.max(memory_sectors / 2) },
        }
    }

    /// Sectors that a segment can hold.
    pub(crate) fn segment_sectors(&self) -> u64 {
        self.segment_sectors
    }

    /// First sector in the segment.
    pub(crate) fn start_of(&self, segment: usize) -> u64 {
        self.all[segment].start
    }

    /// First sector not in the segment.
    pub(crate) fn end_of(&self, segment: usize) -> u64 {
        self.all[segment].end()
    }

    /// Whether all of `start..end` is in one segment, which then counts as used.
    #[inline]
    pub(crate) fn hit(&mut self, start: u64, end: u64) -> bool {
        if !self.sketches.may_reach(start) {
            return false;
        }
        let found = self.all.iter().position(|segment| segment.holds(start) && end <= segment.end());
        if let Some(segment) = found {
            self.touch(segment);
        }
        found.is_some()
    }

    /// Whether the segment holds `sector`, or would with one sector more.
    pub(crate) fn reaches(&self, segment: usize, sector: u64) -> bool {
        self.all[segment].reaches(sector)
    }

    /// Puts a read of `start..end` into a segment, with what passed under the head before it, `from..start`, and returns
    /// which.
    #[inline]
    pub(crate) fn fill(&mut self, from: u64, start: u64, end: u64) -> usize {
        let follows = if self.sketches.may_reach(start) {
            self.all.iter().position(|segment| segment.reaches(start))
        } else {
            None
        };
        let segment = follows.unwrap_or(self.by_use[0] as usize);
        if follows.is_none() {
            self.all[segment] = Segment { start: from, sectors: 0, most: self.segment_sectors };
        }
        self.extend(segment, end);
        self.touch(segment);
        segment
    }

    /// Moves the end of a segment on to `end`, and its start too if it would hold too much.
    pub(crate) fn extend(&mut self, segment: usize, end: u64) {
        let extended = &mut self.all[segment];
        let end = end.max(extended.end());
        extended.start = extended.start.max(end.saturating_sub(extended.most));
        extended.sectors = end - extended.start;
        self.sketches.set(segment, extended);
        if extended.most > self.segment_sectors {
            self.make_room(segment);
        }
    }

    /// Lets a segment follow a stream, and returns how many sectors it may hold.
    pub(crate) fn widen(&mut self, segment: usize) -> u64 {
        self.all[segment].most = self.stream_sectors;
        self.stream_sectors
    }

    /// Empties the segments used longest ago, but not `kept`, until all together fit.
    fn make_room(&mut self, kept: usize) {
        let mut held: u64 = self.all.iter().map(|segment| segment.sectors).sum();
        for index in &self.by_use {
            if held <= self.memory_sectors {
                return;
            }
            let segment = &mut self.all[*index as usize];
            if *index as usize != kept {
                held -= core::mem::take(&mut segment.sectors);
                self.sketches.set(*index as usize, segment);
            }
        }
    }

    /// Empties the segments that hold a part of `start..end`, which is being written.
    #[inline]
    pub(crate) fn forget(&mut self, start: u64, end: u64) {
        if !self.sketches.may_overlap(start, end) {
            return;
        }
        for (index, segment) in self.all.iter_mut().enumerate() {
            if segment.holds(start) || (segment.start.wrapping_sub(start) < end - start) {
                segment.sectors = 0;
                self.sketches.set(index, segment);
            }
        }
    }

    #[inline]
    fn touch(&mut self, segment: usize) {
        let place = self.by_use.iter().position(|other| *other as usize == segment).expect("named once");
        self.by_use.copy_within(place + 1.., place);
        *self.by_use.last_mut().expect("there is at least one segment") = segment as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequential_reads_share_a_segment_and_others_take_the_oldest() {
        let mut segments = Segments::new(2, 100, false);
        let first = segments.fill(0, 0, 60);
        let second = segments.fill(1000, 1000, 1010);
        assert_ne!(first, second);
        assert_eq!(segments.fill(60, 60, 120), first);
        assert!(!segments.hit(0, 10), "the start has moved on to 20");
        assert!(segments.hit(20, 120));
        assert_eq!(segments.fill(5000, 5000, 5001), second, "the other one was used last");
        assert!(!segments.hit(1000, 1010));
    }

    #[test]
    fn a_stream_takes_memory_from_the_segments_used_longest_ago() {
        let mut segments = Segments::new(4, 100, false);
        let others: Vec<_> = [1000, 2000, 3000].map(|start| segments.fill(start, start, start + 100)).into();
        let stream = segments.fill(0, 0, 100);
        segments.extend(stream, 150);
        assert!(!segments.hit(0, 50) && segments.hit(50, 150), "no more than its share");
        assert_eq!(segments.widen(stream), 200);
        segments.extend(stream, 250);
        assert!(segments.hit(50, 250));
        let held = |segments: &mut Segments, start| segments.hit(start, start + 100);
        assert!(!held(&mut segments, 1000), "the oldest made room");
        assert!(held(&mut segments, 2000) && held(&mut segments, 3000));
        segments.extend(stream, 1000);
        assert!(segments.hit(800, 1000) && !segments.hit(799, 1000), "half of the memory at most");
        assert_eq!(others.len(), 3);
        // A new run has its share alone again.
        let other = segments.fill(9000, 9000, 9100);
        segments.extend(other, 9200);
        assert!(!segments.hit(9050, 9150));
    }

    #[test]
    fn fixed_segments_stay_as_long_as_they_are() {
        let mut segments = Segments::new(4, 100, true);
        let stream = segments.fill(0, 0, 100);
        assert_eq!(segments.widen(stream), 100);
        segments.extend(stream, 150);
        assert!(!segments.hit(0, 50) && segments.hit(50, 150));
    }

    #[test]
    fn writes_empty_what_they_overlap() {
        let rows = [(0, 10, true), (50, 60, false), (99, 101, false), (100, 200, true)];
        for (start, end, kept) in rows {
            let mut segments = Segments::new(1, 100, false);
            segments.fill(10, 10, 100);
            segments.forget(start, end);
            assert_eq!(segments.hit(20, 30), kept, "write of {start}..{end}");
        }
    }
}
