//! The space that requests touch, in units of 4 KiB, each counted once.
//!
//! ```text
//! known     (device, MiB), a bit for each unit, in order       ◄── merged when ── pending     the same, as they came
//!                                                              a quarter is new
//! ```
//! A search in a tree for each request costs a miss of the processor's cache for each of its levels; sorting what came and merging it costs
//! a few moves each. Memory does not grow with the requests: there are at most [`CHUNKS_MAX`] bitmaps, and what is beyond is not counted.

/// The unit of the footprint.
const FOOTPRINT_UNIT_BYTES: u64 = 4096;
/// A bitmap covers so much.
pub(crate) const CHUNK_BYTES: u64 = 256 * FOOTPRINT_UNIT_BYTES;
/// Bitmaps at most: 1 TiB of space touched, in about 100 MB of memory.
const CHUNKS_MAX: usize = 1 << 20;
/// Bitmaps that one request touches at most.
pub(crate) const CHUNKS_PER_REQUEST_MAX: u64 = 4096;
/// What came is merged when it is so much at least.
const PENDING_LEAST: usize = 1 << 14;

/// A device, a chunk of it, and a bit for each of its units.
type Chunk = ((u16, u64), [u64; 4]);

/// Counts the units.
#[derive(Clone, Debug)]
pub(crate) struct Footprint {
    known: Vec<Chunk>,
    pending: Vec<Chunk>,
    chunks_max: usize,
    /// More was touched than is counted.
    is_at_least: bool,
}

impl Default for Footprint {
    fn default() -> Self {
        Self { known: Vec::new(), pending: Vec::new(), chunks_max: CHUNKS_MAX, is_at_least: false }
    }
}

impl Footprint {
    /// Marks the units of `device` from byte `start` to `end`.
    pub(crate) fn touch(&mut self, device: u16, start: u64, end: u64) {
        if start == end {
            return;
        }
        let (first, last) = (start / CHUNK_BYTES, (end - 1) / CHUNK_BYTES);
        self.is_at_least |= last - first >= CHUNKS_PER_REQUEST_MAX;
        for chunk in first..=last.min(first + CHUNKS_PER_REQUEST_MAX - 1) {
            let base = chunk * CHUNK_BYTES;
            let from = start.saturating_sub(base) / FOOTPRINT_UNIT_BYTES;
            let until = ((end - base).min(CHUNK_BYTES)).div_ceil(FOOTPRINT_UNIT_BYTES);
            let mut bits = [0; 4];
            for unit in from..until {
                bits[(unit / 64) as usize] |= 1 << (unit % 64);
            }
            match self.pending.last_mut() {
                Some((key, before)) if *key == (device, chunk) => unite(before, bits),
                _ => self.pending.push(((device, chunk), bits)),
            }
        }
        if self.pending.len() >= PENDING_LEAST.max(self.known.len() / 4) {
            self.merge();
        }
    }

    /// Takes what is pending into what is known: what is there already, and of new chunks as many as there is room for.
    fn merge(&mut self) {
        self.pending.sort_unstable_by_key(|(key, _)| *key);
        let mut room = self.chunks_max - self.known.len();
        let known = std::mem::take(&mut self.known);
        let mut merged: Vec<Chunk> = Vec::with_capacity(known.len() + self.pending.len().min(room));
        let mut known = known.into_iter().peekable();
        for (key, bits) in self.pending.drain(..) {
            while let Some(before) = known.next_if(|(other, _)| *other <= key) {
                merged.push(before);
            }
            match merged.last_mut() {
                Some((last, before)) if *last == key => unite(before, bits),
                _ if room > 0 => {
                    room -= 1;
                    merged.push((key, bits));
                }
                _ => self.is_at_least = true,
            }
        }
        merged.extend(known);
        self.known = merged;
    }

    /// Bytes of all units, and whether there are more than that.
    pub(crate) fn finish(mut self) -> (u64, bool) {
        self.merge();
        let units: u64 =
            self.known.iter().flat_map(|(_, bits)| bits).map(|it| u64::from(it.count_ones())).sum();
        (units * FOOTPRINT_UNIT_BYTES, self.is_at_least)
    }
}

fn unite(bits: &mut [u64; 4], more: [u64; 4]) {
    bits.iter_mut().zip(more).for_each(|(bits, more)| *bits |= more);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// More requests than are merged at once, in no order, some of them twice.
    #[test]
    fn what_was_touched_counts_once_over_many_merges() {
        let (mut footprint, mut units) = (Footprint::default(), BTreeSet::new());
        for n in 0..200_000u64 {
            let (device, unit) = ((n % 3) as u16, n.wrapping_mul(0x9e37_79b9_7f4a_7c15) % 30_000_000);
            let start = unit * FOOTPRINT_UNIT_BYTES;
            footprint.touch(device, start, start + 2 * FOOTPRINT_UNIT_BYTES);
            units.extend([(device, unit), (device, unit + 1)]);
        }
        assert_eq!(footprint.finish(), (units.len() as u64 * FOOTPRINT_UNIT_BYTES, false));
    }

    #[test]
    fn beyond_its_room_only_what_is_known_counts() {
        let mut footprint = Footprint { chunks_max: 2, ..Footprint::default() };
        let touch = |footprint: &mut Footprint, chunk: u64| {
            footprint.touch(0, chunk * CHUNK_BYTES, chunk * CHUNK_BYTES + FOOTPRINT_UNIT_BYTES);
            footprint.merge();
        };
        for chunk in [7, 9, 9, 7] {
            touch(&mut footprint, chunk);
        }
        assert_eq!(footprint.clone().finish(), (2 * FOOTPRINT_UNIT_BYTES, false));
        for chunk in [8, 1, 10] {
            touch(&mut footprint, chunk);
        }
        // A unit of a chunk that is known.
        footprint.touch(
            0,
            9 * CHUNK_BYTES + FOOTPRINT_UNIT_BYTES,
            9 * CHUNK_BYTES + 2 * FOOTPRINT_UNIT_BYTES,
        );
        assert_eq!(footprint.finish(), (3 * FOOTPRINT_UNIT_BYTES, true));
    }
}
