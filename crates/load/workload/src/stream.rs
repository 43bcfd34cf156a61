//! The stream of requests of an access specification: which lines, where, read or write.
//!
//! A [`RequestStream`] applies a specification's lines to one working set on a target. It knows nothing of time and of
//! requests in flight; the same seed gives the same stream. One request costs at most four random draws (more if places
//! are not drawn evenly, or if files are) and no division (except for sequential requests at an alignment that is not a power of two).
//!
//! ```text
//! working set   |== file 0 ==|== file 1 ==|== file 2 ==|      lines know file 0 only: its places, its samplers
//! files         position 0   position 1   position 2          the file whose turn it is moves its request on by `base_bytes`
//! ```
//!
//! Invariant: every request lies within the working set, and within one of its files, at a multiple of its line's alignment; of files from
//! the start of the file.

use crate::driver::{DriverConfig, DriverError};
use crate::op::IoOp;
use crate::places::{FileOrder, PlacedFiles, Places};
use crate::rng::{Rng, derived_seed};
use crate::sampler::Sampler;
use crate::spec::AccessLine;
use raidlab_units::{ByteCount, NanoSpan, greatest_divisor};

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
    /// Draw places, one for each file; none where places are drawn evenly.
    samplers: Vec<Sampler>,
}

/// The files of a working set, where there are several.
#[derive(Clone, Debug)]
struct Turns {
    /// Where the last request of each file ended, as in the first file.
    positions: Vec<u64>,
    file_bytes: u64,
    order: FileOrder,
    burst: u32,
    /// Requests that still go to the file under way.
    left: u32,
}

/// The endless sequence of requests.
#[derive(Clone, Debug)]
pub(crate) struct RequestStream {
    lines: Vec<ReadyLine>,
    /// The line for each of the hundred outcomes of the draw by share.
    line_by_pct: [u16; 100],
    /// Where the working set ends, or the first of its files.
    end_bytes: u64,
    rng: Rng,
    /// Where the last request ended; a sequential one goes on from here. Of files that of the one under way, as in the first.
    position_bytes: u64,
    /// The file under way, and how far from the first it begins.
    file: usize,
    base_bytes: u64,
    turns: Option<Box<Turns>>,
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
        let seed = derived_seed(config.seed, SAMPLER_STREAM);
        let sampler = |file: u32| {
            Sampler::new(places, count, if file == 0 { seed } else { derived_seed(seed, file.into()) })
        };
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
            samplers: (0..places.files.count).map_while(sampler).collect(),
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
        let file_bytes = file_bytes(end - start, places.files, lines, config.block_bytes);
        let end = if places.files.count > 1 { start + file_bytes } else { end };
        let mut ready = Vec::with_capacity(lines.len());
        for (index, line) in lines.iter().enumerate() {
            check_for_target(spec, index + 1, line, config.block_bytes)?;
            ready.push(ReadyLine::new(line, (start, end), places, config)?);
        }
        let position_bytes = start + share_of(config.start_offset.get(), end - start, config.region.get());
        Ok(Self {
            lines: ready,
            line_by_pct: lines_by_pct(lines),
            end_bytes: end,
            rng: Rng::new(config.seed),
            position_bytes,
            // The first request goes to the file behind it.
            file: places.files.count as usize - 1,
            base_bytes: 0,
            turns: Turns::of(places.files, file_bytes, position_bytes),
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
        if let Some(turns) = &mut self.turns {
            turns.next(&mut self.rng, &mut self.file, &mut self.position_bytes);
            self.base_bytes = self.file as u64 * turns.file_bytes;
        }
        let line = &mut self.lines[self.line];
        let op = if self.rng.chance_pct(line.read_pct) { IoOp::Read } else { IoOp::Write };
        let offset_bytes = if self.rng.chance_pct(line.random_pct) {
            let place = match line.samplers.get_mut(self.file) {
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
        Request { op, offset_bytes: offset_bytes + self.base_bytes, bytes: line.bytes, delay_after }
    }
}

impl Turns {
    /// Those of `files`, in each of which the first request goes on from `position_bytes`; none of a single one.
    fn of(files: PlacedFiles, file_bytes: u64, position_bytes: u64) -> Option<Box<Self>> {
        let PlacedFiles { count, burst, order } = files;
        (count > 1).then(|| {
            let positions = vec![position_bytes; count as usize];
            Box::new(Self { positions, file_bytes, order, burst, left: 0 })
        })
    }

    /// Goes on to the file that the next request is of.
    #[inline(never)]
    fn next(&mut self, rng: &mut Rng, file: &mut usize, position_bytes: &mut u64) {
        if self.left > 0 {
            self.left -= 1;
            return;
        }
        self.left = self.burst - 1;
        self.positions[*file] = *position_bytes;
        *file = match self.order {
            FileOrder::Random => rng.below(self.positions.len() as u64) as usize,
            FileOrder::InTurn if *file + 1 == self.positions.len() => 0,
            FileOrder::InTurn => *file + 1,
        };
        *position_bytes = self.positions[*file];
    }
}

/// Length of each of `files` in `bytes`: an equal part, where these are all; else so many whole alignments that places are aligned in all of
/// them as in the first.
fn file_bytes(bytes: u64, files: PlacedFiles, lines: &[AccessLine], block_bytes: u32) -> u64 {
    let part = bytes / u64::from(files.count.max(1));
    if part * u64::from(files.count) == bytes && part.is_multiple_of(block_bytes.into()) {
        return part;
    }
    let aligns = lines.iter().map(|line| u64::from(line.alignment_bytes(block_bytes)).max(1));
    let unit = aligns.fold(1u64, |unit, align| (unit / greatest_divisor(unit, align)).saturating_mul(align));
    part / unit * unit
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

    fn in_files(line: AccessLine, files: PlacedFiles, distribution: Distribution) -> AccessSpec {
        AccessSpec { places: Places { distribution, files, ..Places::default() }, ..spec(vec![line]) }
    }

    #[test]
    fn files_have_their_turns_and_each_goes_on_from_its_own_last() {
        let line = AccessLine::plain(4096, 100, 0);
        let blocks = |files, count| -> Vec<u64> {
            let spec = in_files(line, files, Distribution::Uniform);
            // Three files of two blocks; what is left at the end is no file's.
            let requests = take(&spec, &config(7 * 4096, 1), count);
            requests.iter().map(|request| request.offset_bytes / 4096).collect()
        };
        let three = PlacedFiles { count: 3, ..PlacedFiles::default() };
        assert_eq!(blocks(three, 8), [0, 2, 4, 1, 3, 5, 0, 2]);
        assert_eq!(blocks(PlacedFiles { burst: 2, ..three }, 8), [0, 1, 2, 3, 4, 5, 0, 1]);
        let drawn = blocks(PlacedFiles { burst: 2, order: FileOrder::Random, ..three }, 6000);
        assert!(drawn.chunks(2).all(|pair| pair[0] + 1 == pair[1] && pair[0] % 2 == 0), "whole bursts");
        for file in 0..3 {
            let count = drawn.iter().filter(|block| **block / 2 == file).count();
            assert!((1850..2150).contains(&count), "{count} of 6000 to file {file}");
        }
        let small = in_files(line, PlacedFiles { count: 8, ..three }, Distribution::Uniform);
        let error = RequestStream::new("x", &small.lines, &small.places, &config(7 * 4096, 1)).unwrap_err();
        assert!(matches!(error, DriverError::RegionTooSmall { .. }), "{error}");
    }

    /// Files of 80 KiB were taken for such of 72 KiB, the most that requests of 8 and of 12 KiB both divide: requests crossed their ends.
    #[test]
    fn files_that_are_all_of_the_places_are_equal_parts_whatever_is_asked() {
        let files = PlacedFiles { count: 3, ..PlacedFiles::default() };
        let lines = [8 << 10, 12 << 10].map(|bytes| AccessLine::plain(bytes, 100, 100));
        assert_eq!(file_bytes(240 << 10, files, &lines, 512), 80 << 10);
        assert_eq!(
            file_bytes((240 << 10) + 512, files, &lines, 512),
            72 << 10,
            "what is left at the end is no file's"
        );
    }

    #[test]
    fn each_file_is_shuffled_by_itself() {
        let files = PlacedFiles { count: 4, ..PlacedFiles::default() };
        let shuffled = in_files(AccessLine::plain(512, 100, 100), files, Distribution::Shuffle);
        let places = offsets(&take(&shuffled, &config(4 * 64 * 512, 3), 4 * 64));
        let mut sorted = places.clone();
        sorted.sort_unstable();
        assert!(sorted.into_iter().eq((0..4 * 64).map(|place| place * 512)), "each place once");
        let of = |file: usize| places.iter().skip(file).step_by(4).map(|place| place % (64 * 512));
        assert!((0..4).all(|file| places[file] / (64 * 512) == file as u64));
        assert!(of(0).ne(of(1)), "each in an order of its own");
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
        let places = Places { start, size, working_set_pct: 25.0, distribution, ..Places::default() };
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
            files in 1u32..4,
        ) {
            let lines: Vec<AccessLine> = sizes.iter().map(|&(blocks, align, pct)| AccessLine {
                share_pct: 25,
                align_bytes: align.map(|align| align * 512),
                ..AccessLine::plain(blocks * 512, pct, pct)
            }).collect();
            let files = PlacedFiles { count: files, burst: files, ..PlacedFiles::default() };
            let spec = AccessSpec { places: Places { files, ..Places::default() }, ..spec(lines.clone()) };
            let config = DriverConfig { start_offset: ByteCount(start_blocks * 512), ..config(region_blocks * 512, seed) };
            // Files of lengths that fit all alignments may be none.
            prop_assume!(RequestStream::new(&spec.name, &spec.lines, &spec.places, &config).is_ok());
            let requests = take(&spec, &config, 500);
            let file_bytes = file_bytes(region_blocks * 512, files, &lines, 512);
            for request in &requests {
                prop_assert!(request.offset_bytes + u64::from(request.bytes) <= region_blocks * 512);
                let in_file = request.offset_bytes % file_bytes;
                prop_assert!(in_file + u64::from(request.bytes) <= file_bytes, "{request:?} crosses a file's end");
                let aligned = lines.iter().any(|line| line.bytes == request.bytes
                    && in_file.is_multiple_of(u64::from(line.alignment_bytes(512))));
                prop_assert!(aligned, "{request:?}");
            }
            prop_assert_eq!(requests, take(&spec, &config, 500), "the same seed gives the same stream");
        }
    }
}
