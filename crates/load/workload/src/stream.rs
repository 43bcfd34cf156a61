//! The stream of requests of an access specification: which lines, where, read or write.
//!
//! A [`RequestStream`] applies a specification's lines to one working set on a target. It knows nothing of time and of
//! requests in flight; the same seed gives the same stream. One request costs at most four random draws (more if places
//! are not drawn evenly) and no division (except for sequential requests at an alignment that is not a power of two).
//!
//! Invariant: every request lies within the working set, at a multiple of its line's alignment.

use crate::driver::{DriverConfig, DriverError};
use crate::op::IoOp;
use crate::places::Places;
use crate::rng::{Rng, derived_seed};
use crate::sampler::Sampler;
use crate::spec::AccessLine;
use raidlab_units::{ByteCount, NanoSpan};

/// The stream of random numbers that orders of places come from.
const SAMPLER_STREAM: u64 = 900;

/// One request of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) op: IoOp,
    pub(crate) offset_bytes: u64,
    pub(crate) bytes: u32,
    /// What to wait after this request was issued; zero within a burst.
    pub(crate) delay_after: NanoSpan,
}

/// A line with all that can be computed beforehand.
#[derive(Clone, Debug)]
struct ReadyLine {
    bytes: u32,
    read_pct: u8,
    random_pct: u8,
    burst: u32,
    delay: NanoSpan,
    align_bytes: u64,
    /// `align_bytes - 1` when that is a mask, else zero.
    align_mask: u64,
    /// The first aligned place of the working set.
    first_bytes: u64,
    /// Aligned places at which a request fits the working set; at least one.
    places: u64,
    /// Draws places, where they are not drawn evenly.
    sampler: Option<Box<Sampler>>,
}

/// The endless sequence of requests.
#[derive(Clone, Debug)]
pub(crate) struct RequestStream {
    lines: Vec<ReadyLine>,
    /// The line for each of the hundred outcomes of the draw by share.
    line_by_pct: [u16; 100],
    /// Where the working set ends.
    end_bytes: u64,
    rng: Rng,
    /// Where the last request ended; a sequential one goes on from here.
    position_bytes: u64,
    /// Line of the burst under way.
    line: usize,
    /// Requests of that burst still to come.
    burst_left: u32,
}

impl ReadyLine {
    fn new(
        line: &AccessLine,
        (start, end): (u64, u64),
        places: &Places,
        config: &DriverConfig,
    ) -> Result<Self, DriverError> {
        let align_bytes = u64::from(line.alignment_bytes(config.block_bytes));
        let first_bytes = start.next_multiple_of(align_bytes);
        let spare_bytes = end.checked_sub(first_bytes.saturating_add(u64::from(line.bytes))).ok_or(
            DriverError::RegionTooSmall { region: ByteCount(end - start), request_bytes: line.bytes },
        )?;
        let count = spare_bytes / align_bytes + 1;
        let sampler = Sampler::new(places, count, derived_seed(config.seed, SAMPLER_STREAM)).map(Box::new);
        Ok(Self {
            bytes: line.bytes,
            read_pct: line.read_pct,
            random_pct: line.random_pct,
            burst: line.burst,
            delay: line.delay,
            align_bytes,
            align_mask: if align_bytes.is_power_of_two() { align_bytes - 1 } else { 0 },
            first_bytes,
            places: count,
            sampler,
        })
    }

    /// The first aligned place at or after `position_bytes`.
    #[inline]
    fn align_up(&self, position_bytes: u64) -> u64 {
        match self.align_mask {
            0 => position_bytes.next_multiple_of(self.align_bytes),
            mask => (position_bytes + mask) & !mask,
        }
    }
}

impl RequestStream {
    /// Makes `lines` ready for `places` in the region of `config`, with its block size, start and seed. `spec` names them
    /// in errors; they are valid.
    pub(crate) fn new(
        spec: &str,
        lines: &[AccessLine],
        places: &Places,
        config: &DriverConfig,
    ) -> Result<Self, DriverError> {
        let outside = || DriverError::PlacesOutside {
            spec: spec.into(),
            start: places.start,
            size: places.size,
            region: config.region,
        };
        let (start, end) = places.working_set(config.region).ok_or_else(outside)?;
        let mut ready = Vec::with_capacity(lines.len());
        for (index, line) in lines.iter().enumerate() {
            check_for_target(spec, index + 1, line, config.block_bytes)?;
            ready.push(ReadyLine::new(line, (start, end), places, config)?);
        }
        Ok(Self {
            lines: ready,
            line_by_pct: lines_by_pct(lines),
            end_bytes: end,
            rng: Rng::new(config.seed),
            position_bytes: start + share_of(config.start_offset.get(), end - start, config.region.get()),
            line: 0,
            burst_left: 0,
        })
    }

    /// Returns the next request.
    #[inline]
    pub(crate) fn next_request(&mut self) -> Request {
        if self.burst_left == 0 {
            self.line = match self.lines.len() {
                1 => 0,
                _ => usize::from(self.line_by_pct[self.rng.below(100) as usize]),
            };
            self.burst_left = self.lines[self.line].burst;
        }
        self.burst_left -= 1;
        let line = &mut self.lines[self.line];
        let op = if self.rng.chance_pct(line.read_pct) { IoOp::Read } else { IoOp::Write };
        let offset_bytes = if self.rng.chance_pct(line.random_pct) {
            let place = match &mut line.sampler {
                None => self.rng.below(line.places),
                Some(sampler) => sampler.draw(&mut self.rng),
            };
            line.first_bytes + place * line.align_bytes
        } else {
            let next_bytes = line.align_up(self.position_bytes);
            let fits = next_bytes + u64::from(line.bytes) <= self.end_bytes;
            if fits { next_bytes } else { line.first_bytes }
        };
        self.position_bytes = offset_bytes + u64::from(line.bytes);
        let delay_after = if self.burst_left == 0 { line.delay } else { NanoSpan::ZERO };
        Request { op, offset_bytes, bytes: line.bytes, delay_after }
    }
}

/// What a storage target with blocks of `block_bytes` asks of a line.
fn check_for_target(
    spec: &str,
    line: usize,
    access: &AccessLine,
    block_bytes: u32,
) -> Result<(), DriverError> {
    let lengths = [("size", access.bytes), ("align", access.alignment_bytes(block_bytes))];
    if let Some(&(column, bytes)) = lengths.iter().find(|(_, bytes)| !bytes.is_multiple_of(block_bytes)) {
        return Err(DriverError::NotInBlocks { spec: spec.into(), line, column, bytes, block_bytes });
    }
    match access.reply_bytes {
        0 => Ok(()),
        reply_bytes => Err(DriverError::ReplyOnStorage { spec: spec.into(), line, reply_bytes }),
    }
}

/// `bytes` of `whole`, as the same share of `part`.
fn share_of(bytes: u64, part: u64, whole: u64) -> u64 {
    if part == whole {
        bytes
    } else {
        (u128::from(bytes) * u128::from(part) / u128::from(whole.max(1))) as u64
    }
}

/// Lays the shares of the lines end to end over a hundred outcomes; the lines are valid, so they fill it.
fn lines_by_pct(lines: &[AccessLine]) -> [u16; 100] {
    let mut outcomes = (0u16..).zip(lines).flat_map(|(index, line)| (0..line.share_pct).map(move |_| index));
    core::array::from_fn(|_| outcomes.next().unwrap_or_else(|| unreachable!("the shares add up to 100")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::places::Distribution;
    use crate::spec::AccessSpec;
    use proptest::prelude::*;

    fn config(region: u64, seed: u64) -> DriverConfig {
        DriverConfig {
            region: ByteCount(region),
            block_bytes: 512,
            iodepth: 1,
            seed,
            run: NanoSpan::from_secs(1),
            ..DriverConfig::default()
        }
    }

    fn spec(lines: Vec<AccessLine>) -> AccessSpec {
        AccessSpec::new("made-up", lines)
    }

    fn take(spec: &AccessSpec, config: &DriverConfig, count: usize) -> Vec<Request> {
        let mut stream = RequestStream::new(&spec.name, &spec.lines, &spec.places, config).unwrap();
        (0..count).map(|_| stream.next_request()).collect()
    }

    fn offsets(requests: &[Request]) -> Vec<u64> {
        requests.iter().map(|request| request.offset_bytes).collect()
    }

    #[test]
    fn sequential_goes_on_and_wraps() {
        let sequential = spec(vec![AccessLine::plain(4096, 100, 0)]);
        // The last 512 bytes of the region hold no whole request.
        let requests = take(&sequential, &config(3 * 4096 + 512, 1), 7);
        assert_eq!(offsets(&requests), [0, 4096, 8192, 0, 4096, 8192, 0]);
        let started = DriverConfig { start_offset: ByteCount(4608), ..config(3 * 4096 + 512, 1) };
        assert_eq!(offsets(&take(&sequential, &started, 3)), [8192, 0, 4096]);
    }

    #[test]
    fn sequential_goes_on_from_the_last_request_of_any_kind() {
        let mixed = spec(vec![AccessLine::plain(8192, 50, 50)]);
        let requests = take(&mixed, &config(1 << 30, 3), 10_000);
        let went_on =
            requests.windows(2).filter(|pair| pair[1].offset_bytes == pair[0].offset_bytes + 8192).count();
        assert!((4800..5200).contains(&went_on), "{went_on} of 10000 went on");
        // It goes on after reads and after writes alike: half of those that went on changed direction.
        let changed = requests
            .windows(2)
            .filter(|pair| pair[1].offset_bytes == pair[0].offset_bytes + 8192 && pair[0].op != pair[1].op)
            .count();
        assert!((2250..2750).contains(&changed), "{changed} changed direction");
    }

    #[test]
    fn alignment_other_than_the_size_is_kept() {
        for align in [512u32, 1536, 65536] {
            let line = AccessLine { align_bytes: Some(align), ..AccessLine::plain(4096, 100, 0) };
            let requests = take(&spec(vec![line]), &config(1 << 20, 1), 4);
            let step = u64::from(4096u32.next_multiple_of(align));
            assert_eq!(offsets(&requests), [0, step, 2 * step, 3 * step], "align {align}");
        }
    }

    #[test]
    fn shares_reads_and_randoms_come_as_asked() {
        let shares = [10u8, 5, 5, 60, 2, 4, 4, 10];
        let lines = shares
            .iter()
            .zip(0..)
            .map(|(&share_pct, shift)| AccessLine { share_pct, ..AccessLine::plain(512 << shift, 80, 100) })
            .collect();
        let count = 200_000;
        let requests = take(&spec(lines), &config(1 << 30, 11), count);
        let chi2: f64 = (0..8)
            .map(|shift| {
                let expected = count as f64 * f64::from(shares[shift]) / 100.0;
                let seen = requests.iter().filter(|r| r.bytes == 512 << shift).count() as f64;
                (seen - expected).powi(2) / expected
            })
            .sum();
        // Seven degrees of freedom: above 24 once in a thousand, and the seed is fixed.
        assert!(chi2 < 24.0, "chi square {chi2}");
        let reads = requests.iter().filter(|r| r.op == IoOp::Read).count() as f64 / count as f64;
        assert!((reads - 0.8).abs() < 0.005, "{reads} read");
    }

    #[test]
    fn random_places_are_even_over_the_region() {
        let count = 64_000;
        let requests = take(&spec(vec![AccessLine::plain(4096, 100, 100)]), &config(64 * 4096, 5), count);
        let mut hits = [0u64; 64];
        for request in &requests {
            hits[(request.offset_bytes / 4096) as usize] += 1;
        }
        let chi2: f64 = hits.iter().map(|&n| (n as f64 - 1000.0).powi(2) / 1000.0).sum();
        assert!(chi2 < 104.0, "chi square {chi2} with 63 degrees of freedom");
    }

    #[test]
    fn align_0_is_the_block_of_the_target() {
        let line = AccessLine { align_bytes: Some(0), ..AccessLine::plain(4096, 100, 100) };
        let requests = take(&spec(vec![line]), &config(1 << 20, 1), 2000);
        assert!(requests.iter().any(|request| !request.offset_bytes.is_multiple_of(1024)));
        assert!(requests.iter().all(|request| request.offset_bytes.is_multiple_of(512)));
    }

    #[test]
    fn requests_stay_in_the_working_set_and_are_spread_as_asked() {
        let mib = |n| ByteCount::from_mib(n);
        let (start, size) = (mib(64), Some(mib(512)));
        let distribution = Distribution::Pareto { h: 0.2 };
        let places = Places { start, size, working_set_pct: 25.0, distribution, scrambled: false };
        let wide = AccessSpec { places, ..spec(vec![AccessLine::plain(4096, 100, 50)]) };
        let requests = take(&wide, &config(1 << 30, 3), 40_000);
        let inside = |request: &&Request| (64 << 20..192 << 20).contains(&request.offset_bytes);
        assert_eq!(requests.iter().filter(inside).count(), requests.len());
        // Half of the requests go on from the last, so a fifth of the places gets four fifths of all.
        let favourites =
            requests.iter().filter(|request| request.offset_bytes < (64 << 20) + (128 << 20) / 5);
        let share = favourites.count() as f64 / requests.len() as f64;
        assert!((share - 0.8).abs() < 0.01, "{share}");
        let outside = AccessSpec { places: Places { start: mib(600), ..wide.places.clone() }, ..wide };
        let error =
            RequestStream::new("made-up", &outside.lines, &outside.places, &config(1 << 30, 1)).unwrap_err();
        assert_eq!(
            error.to_string(),
            "workload 'made-up' uses 512 MiB from 600 MiB on, but its region has only 1 GiB: make it smaller"
        );
    }

    #[test]
    fn a_line_is_drawn_per_burst_and_its_delay_follows_the_burst() {
        let delay = NanoSpan::from_millis(3);
        let bursty = AccessLine { share_pct: 50, burst: 4, delay, ..AccessLine::plain(4096, 100, 100) };
        let single = AccessLine { share_pct: 50, ..AccessLine::plain(512, 100, 100) };
        let requests = take(&spec(vec![bursty, single]), &config(1 << 30, 8), 10_000);
        let mut run = 0;
        for request in &requests {
            if request.bytes == 4096 {
                run += 1;
                let expected = if run % 4 == 0 { delay } else { NanoSpan::ZERO };
                assert_eq!(request.delay_after, expected);
            } else {
                assert_eq!(run % 4, 0, "a burst was cut short");
                assert_eq!(request.delay_after, NanoSpan::ZERO);
            }
        }
        // Half of the bursts, and so four fifths of the requests, are of the first line.
        assert!((7800..8200).contains(&run), "{run} of 10000");
    }

    #[test]
    fn what_a_target_refuses_is_named() {
        let good = AccessLine::plain(4096, 100, 100);
        let table = [
            (
                AccessLine { bytes: 1000, ..good },
                "line 1 of workload 'made-up' has size = 1000: make it a multiple of the target's block of 512 bytes",
            ),
            (
                AccessLine { align_bytes: Some(100), ..good },
                "line 1 of workload 'made-up' has align = 100: make it a multiple of the target's block of 512 bytes",
            ),
            (
                AccessLine { reply_bytes: 64, ..good },
                "line 1 of workload 'made-up' has reply = 64: replies exist on network targets only, leave it out for storage",
            ),
            (
                AccessLine { bytes: 1 << 20, ..good },
                "the region of 64 KiB is smaller than one request of 1048576 bytes",
            ),
        ];
        for (line, expected) in table {
            let error =
                RequestStream::new("made-up", &[line], &Places::default(), &config(65536, 1)).unwrap_err();
            assert_eq!(error.to_string(), expected);
        }
    }

    proptest! {
        #[test]
        fn requests_stay_in_the_region_and_on_their_alignment(
            seed in any::<u64>(),
            region_blocks in 256u64..100_000,
            start_blocks in 0u64..256,
            sizes in proptest::collection::vec((1u32..256, proptest::option::of(1u32..300), 0u8..=100), 4),
        ) {
            let lines: Vec<AccessLine> = sizes.iter().map(|&(blocks, align, pct)| AccessLine {
                share_pct: 25,
                align_bytes: align.map(|align| align * 512),
                ..AccessLine::plain(blocks * 512, pct, pct)
            }).collect();
            let spec = spec(lines.clone());
            let config = DriverConfig { start_offset: ByteCount(start_blocks * 512), ..config(region_blocks * 512, seed) };
            let requests = take(&spec, &config, 500);
            for request in &requests {
                prop_assert!(request.offset_bytes + u64::from(request.bytes) <= region_blocks * 512);
                let aligned = lines.iter().any(|line| line.bytes == request.bytes
                    && request.offset_bytes.is_multiple_of(u64::from(line.alignment_bytes(512))));
                prop_assert!(aligned, "{request:?}");
            }
            prop_assert_eq!(requests, take(&spec, &config, 500), "the same seed gives the same stream");
        }
    }
}
