//! The summary of a trace: how many requests, of which sizes, where, and at which rate.
//!
//! ```text
//! footprint    units of 4 KiB that any read or write touched, counted once
//! sequential   reads and writes that begin where the last one on the device ended
//! alignment    the largest power of two that divides all offsets and lengths
//! ```
//! One pass, in memory that does not grow with the number of requests: the footprint is called "at least" where it is larger than
//! [`crate::footprint`] counts, and the first [`SIZES_MAX`] different sizes are counted separately.

use crate::footprint::Footprint;
use crate::record::{TraceKind, TraceRecord};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

const SIZES_MAX: usize = 4096;
/// Sizes that are listed, the most frequent first.
const SIZES_LISTED: usize = 8;
/// Alignments beyond this are of no interest.
const ALIGN_BYTES_MAX: u64 = 1 << 20;
const SECOND_NS: u64 = 1_000_000_000;

/// What a trace asks, in figures.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct TraceSummary {
    /// Requests of all kinds.
    pub requests: u64,
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
    /// Flushes.
    pub flushes: u64,
    /// Trims.
    pub trims: u64,
    /// Writes of zeroes.
    #[serde(default)]
    pub zeroes: u64,
    /// Bytes of all reads.
    pub read_bytes: u64,
    /// Bytes of all writes.
    pub write_bytes: u64,
    /// From the first request to the last.
    pub span_ns: u64,
    /// The most requests in any second from the start.
    pub requests_per_sec_max: u64,
    /// Share of the reads and writes that begin where the one before on their device ended.
    pub sequential_pct: f64,
    /// Space that reads and writes touch, in units of 4 KiB.
    pub footprint_bytes: u64,
    /// Whether the footprint is larger than could be counted.
    pub footprint_is_at_least: bool,
    /// Length of the longest read or write.
    pub length_bytes_max: u64,
    /// Offsets and lengths of all requests with a range are multiples of this power of two.
    pub align_bytes: u64,
    /// The most frequent lengths of reads and writes.
    pub sizes: Vec<SizeShare>,
    /// Mean response time, where the trace has them.
    pub response_ns_mean: Option<f64>,
    /// Each device, by its number.
    pub devices: Vec<DeviceSummary>,
}

/// How many of the reads and writes are so long.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct SizeShare {
    /// Their length.
    pub length_bytes: u64,
    /// Share of all reads and writes.
    pub pct: f64,
}

/// What a trace asks of one device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct DeviceSummary {
    /// Its name in the trace.
    pub name: String,
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
    /// Flushes.
    #[serde(default)]
    pub flushes: u64,
    /// Trims.
    #[serde(default)]
    pub trims: u64,
    /// Writes of zeroes.
    #[serde(default)]
    pub zeroes: u64,
    /// Where the farthest read or write ends: the device is at least so large.
    pub end_bytes: u64,
    /// Where the farthest trim or write of zeroes ends.
    #[serde(default)]
    pub trim_end_bytes: u64,
}

impl DeviceSummary {
    /// Where the farthest request of all kinds ends: the device is at least so large.
    pub fn extent_bytes(&self) -> u64 {
        self.end_bytes.max(self.trim_end_bytes)
    }
}

impl TraceSummary {
    /// Requests per second from the first to the last; none where all are at one time.
    pub fn requests_per_sec(&self) -> Option<f64> {
        let gaps = self.requests.saturating_sub(1);
        (self.span_ns > 0).then(|| gaps as f64 * 1e9 / self.span_ns as f64)
    }

    /// Share of the reads among reads and writes; none where there is neither.
    pub fn read_pct(&self) -> Option<f64> {
        let both = self.reads + self.writes;
        (both > 0).then(|| self.reads as f64 * 100.0 / both as f64)
    }

    /// Mean length of reads and writes; none where there is neither.
    pub fn length_bytes_mean(&self) -> Option<f64> {
        let both = self.reads + self.writes;
        (both > 0).then(|| (self.read_bytes as f64 + self.write_bytes as f64) / both as f64)
    }

    /// Whether requests have times of their own.
    pub fn has_times(&self) -> bool {
        self.span_ns > 0 || self.requests < 2
    }
}

/// Adds requests up.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    counted: TraceSummary,
    /// The bits of all offsets and lengths.
    address_bits: u64,
    sequential: u64,
    /// Where the last read or write of each device ended.
    ends: Vec<u64>,
    sizes: BTreeMap<u64, u64>,
    footprint: Footprint,
    second: u64,
    in_second: u64,
    response_ns_sum: f64,
    responses: u64,
}

impl Summary {
    /// Takes in the next request, in the order of times.
    pub fn add(&mut self, record: &TraceRecord) {
        let all = &mut self.counted;
        all.requests += 1;
        all.span_ns = all.span_ns.max(record.time_ns);
        if let Some(response_ns) = record.response_ns {
            self.response_ns_sum += response_ns as f64;
            self.responses += 1;
        }
        let second = record.time_ns / SECOND_NS;
        self.in_second = if second == self.second { self.in_second + 1 } else { 1 };
        self.second = second;
        all.requests_per_sec_max = all.requests_per_sec_max.max(self.in_second);
        match record.kind {
            TraceKind::Flush => all.flushes += 1,
            TraceKind::Trim => all.trims += 1,
            TraceKind::WriteZeroes => all.zeroes += 1,
            TraceKind::Read => {
                all.reads += 1;
                all.read_bytes = all.read_bytes.saturating_add(record.length_bytes);
            }
            TraceKind::Write => {
                all.writes += 1;
                all.write_bytes = all.write_bytes.saturating_add(record.length_bytes);
            }
        }
        self.count_for_device(record);
        if matches!(record.kind, TraceKind::Read | TraceKind::Write) {
            self.add_transfer(record);
        }
    }

    /// Counts a request of its device by its kind.
    fn count_for_device(&mut self, record: &TraceRecord) {
        let device = usize::from(record.device);
        if self.ends.len() <= device {
            self.ends.resize(device + 1, u64::MAX);
            self.counted.devices.resize(device + 1, DeviceSummary::default());
        }
        let own = &mut self.counted.devices[device];
        match record.kind {
            TraceKind::Read => own.reads += 1,
            TraceKind::Write => own.writes += 1,
            TraceKind::Flush => own.flushes += 1,
            TraceKind::Trim => own.trims += 1,
            TraceKind::WriteZeroes => own.zeroes += 1,
        }
        if matches!(record.kind, TraceKind::Trim | TraceKind::WriteZeroes) {
            own.trim_end_bytes = own.trim_end_bytes.max(record.offset_bytes + record.length_bytes);
        }
        if record.kind != TraceKind::Flush {
            self.address_bits |= record.offset_bytes | record.length_bytes;
        }
    }

    fn add_transfer(&mut self, record: &TraceRecord) {
        let (offset_bytes, length_bytes) = (record.offset_bytes, record.length_bytes);
        let end_bytes = offset_bytes + length_bytes;
        let device = usize::from(record.device);
        self.sequential += u64::from(self.ends[device] == offset_bytes);
        self.ends[device] = end_bytes;
        let own = &mut self.counted.devices[device];
        own.end_bytes = own.end_bytes.max(end_bytes);
        self.counted.length_bytes_max = self.counted.length_bytes_max.max(length_bytes);
        if self.sizes.len() < SIZES_MAX || self.sizes.contains_key(&length_bytes) {
            *self.sizes.entry(length_bytes).or_default() += 1;
        }
        self.footprint.touch(record.device, offset_bytes, end_bytes);
    }

    /// Returns the figures, with the devices' names by their numbers.
    pub fn finish(mut self, names: &[String]) -> TraceSummary {
        let mut all = std::mem::take(&mut self.counted);
        let transfers = all.reads + all.writes;
        all.devices.resize(names.len().max(all.devices.len()), DeviceSummary::default());
        for (device, name) in all.devices.iter_mut().zip(names) {
            device.name.clone_from(name);
        }
        let share = |count: u64| if transfers == 0 { 0.0 } else { count as f64 * 100.0 / transfers as f64 };
        all.sequential_pct = share(self.sequential);
        (all.footprint_bytes, all.footprint_is_at_least) = self.footprint.finish();
        all.align_bytes = (1u64 << self.address_bits.trailing_zeros().min(63)).min(ALIGN_BYTES_MAX);
        let mut sizes: Vec<(u64, u64)> =
            self.sizes.into_iter().map(|(bytes, count)| (count, bytes)).collect();
        sizes.sort_unstable_by(|one, other| other.cmp(one));
        sizes.truncate(SIZES_LISTED);
        all.sizes = sizes
            .into_iter()
            .map(|(count, length_bytes)| SizeShare { length_bytes, pct: share(count) })
            .collect();
        all.response_ns_mean = (self.responses > 0).then(|| self.response_ns_sum / self.responses as f64);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::footprint::{CHUNK_BYTES, CHUNKS_PER_REQUEST_MAX};
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn summary_of(records: &[TraceRecord]) -> TraceSummary {
        let mut summary = Summary::default();
        for record in records {
            summary.add(record);
        }
        summary.finish(&["sda".into(), "sdb".into()])
    }

    fn record(
        time_ms: u64,
        device: u16,
        kind: TraceKind,
        offset_bytes: u64,
        length_bytes: u64,
    ) -> TraceRecord {
        TraceRecord {
            time_ns: time_ms * 1_000_000,
            device,
            kind,
            offset_bytes,
            length_bytes,
            response_ns: None,
        }
    }

    #[test]
    fn all_figures_of_a_small_trace() {
        use TraceKind::{Flush, Read, Trim, Write};
        let records = [
            record(0, 0, Read, 0, 8192),
            record(100, 0, Read, 8192, 4096),
            record(200, 1, Write, 512, 4096),
            record(999, 1, Flush, 0, 0),
            record(2000, 0, Trim, 0, 1 << 40),
            TraceRecord { response_ns: Some(7), ..record(4000, 0, Read, 12_288, 4096) },
        ];
        let all = summary_of(&records);
        assert_eq!((all.requests, all.reads, all.writes, all.flushes, all.trims), (6, 3, 1, 1, 1));
        assert_eq!((all.read_bytes, all.write_bytes, all.span_ns), (16_384, 4096, 4_000_000_000));
        assert_eq!((all.requests_per_sec_max, all.requests_per_sec()), (4, Some(1.25)));
        assert_eq!(
            (all.sequential_pct, all.read_pct(), all.length_bytes_mean()),
            (50.0, Some(75.0), Some(5120.0))
        );
        assert_eq!(all.footprint_bytes, 16_384 + 8192, "a write that is not aligned touches two units");
        assert_eq!((all.footprint_is_at_least, all.length_bytes_max, all.align_bytes), (false, 8192, 512));
        assert_eq!(all.response_ns_mean, Some(7.0));
        let [four, eight] = &all.sizes[..] else { panic!("{:?}", all.sizes) };
        assert_eq!((four.length_bytes, four.pct, eight.length_bytes), (4096, 75.0, 8192));
        let device = |name: &str, reads, writes, end_bytes| DeviceSummary {
            name: name.into(),
            reads,
            writes,
            end_bytes,
            ..DeviceSummary::default()
        };
        let trimmed = DeviceSummary { trims: 1, trim_end_bytes: 1 << 40, ..device("sda", 3, 0, 16_384) };
        assert_eq!(trimmed.extent_bytes(), 1 << 40);
        let flushed = DeviceSummary { flushes: 1, ..device("sdb", 0, 1, 4608) };
        assert_eq!(flushed.extent_bytes(), 4608);
        assert_eq!(all.devices, [trimmed, flushed]);
    }

    #[test]
    fn nothing_and_huge_requests_are_bearable() {
        let none = summary_of(&[]);
        assert_eq!((none.requests, none.requests_per_sec(), none.read_pct()), (0, None, None));
        let huge = summary_of(&[record(0, 0, TraceKind::Write, 0, u64::MAX)]);
        assert!(huge.footprint_is_at_least);
        assert_eq!(huge.footprint_bytes, CHUNKS_PER_REQUEST_MAX * CHUNK_BYTES);
    }

    proptest! {
        #[test]
        fn footprint_and_alignment_are_those_of_a_plain_count(
            ranges in proptest::collection::vec((0u16..2, 0u64..5_000, 1u64..600), 1..60)
        ) {
            let records: Vec<TraceRecord> = ranges.iter()
                .map(|&(device, start, length)| record(0, device, TraceKind::Read, start * 512, length * 512)).collect();
            let mut units = BTreeSet::new();
            for &(device, start, length) in &ranges {
                units.extend((start / 8..=(start + length - 1) / 8).map(|unit| (device, unit)));
            }
            let all = summary_of(&records);
            prop_assert_eq!(all.footprint_bytes, units.len() as u64 * 4096);
            prop_assert!(records.iter().all(|r| (r.offset_bytes | r.length_bytes).is_multiple_of(all.align_bytes)));
            let next = all.align_bytes * 2;
            prop_assert!(records.iter().any(|r| !(r.offset_bytes | r.length_bytes).is_multiple_of(next)));
        }
    }
}
