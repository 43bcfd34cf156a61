//! Drives with rotation: rotation, rates and zones, overhead, seeks, queue gain, buffer.
//!
//! - **Rotation.** Short reads that go backwards by one step each miss the buffer and find their sector one rotation
//!   later, less a step: `d(k) = turn - k * pages`. Two steps, of 1 and 4 pages, give the rotation time and the time of
//!   a page under the head.
//! - **Rate** at a place: 256 KiB sequential reads. A *zone* is a range of places with one rate.
//! - **Position of a byte**: track length is proportional to the rate, so the share of the stroke before an offset is
//!   the integral of `1 / rate` up to it.
//! - **Seeks.** Reads that jump by a share of the stroke, to and fro at random places, take `edge + wait`, the wait
//!   uniform over a rotation. The edge less that of reads without a seek is the seek time. The curve `c + a sqrt(x) + b
//!   x` is fitted to the distances; `c` is the single track, `c + 8/15 a + b/3` the mean over random pairs, `c + a + b`
//!   the full stroke.
//! - **Buffer.** A read that is repeated at once is a hit, and gives the time of a command; the range of hits behind a
//!   read after a pause is the length of a segment; the number of places that can be read before the first is forgotten
//!   is the number of segments.
//!
//! Not found: the number of heads, and the head switch time. They have no visible effect once rates and seeks are
//! right.

mod tracks;

use self::tracks::{Tracks, late_by, longest_way};
use crate::estimate::{Estimate, edge, median, root_line};
use crate::{Access, CalibrateError, PAGE, Probe, Timing};
use raidlab_units::NanoSpan;
use serde::Serialize;

/// What a drive leaves between its arm's arrival and the sector that it then reads, in nanoseconds. It can't be told from the seek:
/// the usual 20 us are taken off all seeks, and stand in the entry beside them.
pub(crate) const MARGIN_NS: f64 = 20e3;

/// The pause after which a drive has read ahead all that it will.
const PAUSE: NanoSpan = NanoSpan::from_millis(60);

/// Numbers of requests in flight at which the queue is timed.
const DEPTHS: [u32; 8] = [1, 2, 4, 8, 16, 32, 64, 128];

/// A longer read that a segment of a buffer still holds.
const LONG: u64 = 64 << 10;

/// A stretch with one rate.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Zone {
    /// Where it begins, in bytes.
    pub start: u64,
    /// Bytes per second.
    pub bytes_per_sec: f64,
}

/// A hard drive's parameters.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct RotationalFound {
    /// Bytes that it holds.
    pub capacity: u64,
    /// One turn, in nanoseconds.
    pub turn_ns: Estimate,
    /// Time of a page under the head at the start, in nanoseconds.
    pub page_ns: Estimate,
    /// Rate at the start, in bytes per second.
    pub outer_rate: Estimate,
    /// Rate at the end, in bytes per second.
    pub inner_rate: Estimate,
    /// Stretches of one rate.
    pub zones: Vec<Zone>,
    /// Of a command that needs the arm, in nanoseconds.
    pub overhead_ns: Estimate,
    /// Of a page that the buffer serves, in nanoseconds.
    pub hit_ns: Estimate,
    /// Of a command that the buffer serves, beside its bytes, in nanoseconds.
    pub work_ns: Estimate,
    /// Rate of what the buffer serves, in bytes per second.
    pub link_rate: Estimate,
    /// Seek of one track, in nanoseconds.
    pub seek_single_ns: Estimate,
    /// Mean over random pairs of places, in nanoseconds.
    pub seek_average_ns: Estimate,
    /// Over the whole stroke, in nanoseconds.
    pub seek_full_ns: Estimate,
    /// The curve's points: share of the stroke, nanoseconds.
    pub seeks: Vec<(f64, Estimate)>,
    /// Requests in flight, and random reads per second.
    pub queue: Vec<(u32, f64)>,
    /// Length of a segment of the buffer, in bytes; zero where nothing is kept.
    pub segment_bytes: u64,
    /// Number of segments.
    pub segments: u32,
    /// Whether what follows a read is read ahead.
    pub reads_ahead: bool,
}

impl RotationalFound {
    /// Requests in flight beyond which more gained less than 2 %.
    pub fn queue_depth(&self) -> u32 {
        let most = self.queue.iter().map(|(_, rate)| *rate).fold(0.0, f64::max);
        self.queue.iter().find(|(_, rate)| 1.02 * rate > most).map_or(1, |(depth, _)| *depth)
    }
}

pub(crate) fn find(probe: &mut Probe<'_>) -> Result<RotationalFound, CalibrateError> {
    probe.tell("timing a turn", 0.02);
    let (turn_ns, page_ns) = turn(probe)?;
    probe.tell("reading in sequence", 0.05);
    let rates = rates(probe)?;
    let stroke = Stroke::of(&rates, probe.target.capacity().0);
    probe.tell("reading on the spot", 0.3);
    let hit_ns = hits(probe, PAGE)?;
    let long = hits(probe, LONG)?;
    let link_ns = ((long.value - hit_ns.value) * PAGE as f64 / (LONG - PAGE) as f64).max(1.0);
    let spot = spot(probe, turn_ns.value, page_ns.value, hit_ns.value)?;
    // Tracks get shorter inwards, and a page on them takes longer to pass than where the reads on the spot were.
    let slower = rates.iter().map(|(_, rate)| rates[0].1 / rate).sum::<f64>() / rates.len() as f64;
    let beside = spot.value + page_ns.value * (slower - 1.0) + MARGIN_NS;
    let seeks = seek_points(probe, &stroke, turn_ns.value, beside, spot.reach())?;
    let [single, average, full] = curve(&seeks)?;
    probe.tell("reading with several in flight", 0.8);
    let queue = queue(probe, &DEPTHS)?;
    probe.tell("looking for the buffer", 0.95);
    let segment_bytes = segment_bytes(probe, hit_ns.value)?;
    let reads_ahead = segment_bytes > PAGE;
    let segments = segments(probe, hit_ns.value)?;
    // What a read on the spot takes more than its wait: the command, its page under the head, and its way out, as a hit has it.
    let overhead = (spot.value - page_ns.value - link_ns).max(0.0);
    let work = (hit_ns.value - link_ns).max(0.0).min(overhead);
    Ok(RotationalFound {
        capacity: probe.target.capacity().0,
        outer_rate: ends(&rates, true),
        inner_rate: ends(&rates, false),
        zones: zones(&rates),
        overhead_ns: Estimate {
            value: overhead,
            low: overhead - spot.reach(),
            high: overhead + spot.reach(),
        },
        work_ns: Estimate { value: work, low: work - hit_ns.reach(), high: work + hit_ns.reach() },
        link_rate: Estimate::exact(PAGE as f64 * 1e9 / link_ns),
        turn_ns,
        page_ns,
        hit_ns,
        seek_single_ns: single,
        seek_average_ns: average,
        seek_full_ns: full,
        seeks,
        queue,
        segment_bytes,
        segments,
        reads_ahead,
    })
}

/// The turn, and the time of a page under the head.
fn turn(probe: &mut Probe<'_>) -> Result<(Estimate, Estimate), CalibrateError> {
    const READS: u64 = 24;
    let (mut turns, mut pages) = (Vec::new(), Vec::new());
    for repeat in 0..probe.effort.repeats {
        // All near the start, where tracks are longest.
        let from = (64 << 20) / PAGE / u64::from(probe.effort.repeats) * u64::from(repeat + 1) - 1;
        let mut apart = |step: u64| -> Result<f64, CalibrateError> {
            let reads: Vec<Access> =
                (0..READS).map(|index| Access::read((from - index * step) * PAGE, PAGE as u32)).collect();
            let times = probe.run(&reads, 1)?;
            Ok(median(
                &times.windows(2).map(|pair| (pair[1].end.0 - pair[0].end.0) as f64).collect::<Vec<_>>(),
            ))
        };
        let (one, four) = (apart(1)?, apart(4)?);
        let page = (one - four) / 3.0;
        pages.push(page);
        turns.push(one + page);
    }
    let found = (Estimate::of(&turns), Estimate::of(&pages));
    let turn_ms = found.0.value / 1e6;
    if !(1.0..=30.0).contains(&turn_ms) || found.0.reach() > 0.05 * found.0.value {
        return Err(CalibrateError::NoModel(format!(
            "reads that go backwards are {turn_ms:.2} ms apart, give or take {:.2}, which is no turn; is there a cache before the drive?",
            found.0.reach() / 1e6
        )));
    }
    Ok(found)
}

/// Bytes per second at places from the start to the end: offset of the middle, rate.
fn rates(probe: &mut Probe<'_>) -> Result<Vec<(u64, f64)>, CalibrateError> {
    const REQUEST: u64 = 256 << 10;
    let capacity = probe.target.capacity().0;
    let places = u64::from(probe.effort.rate_places.max(2));
    let bytes = probe.effort.rate_bytes.min(capacity / places) / REQUEST * REQUEST;
    let mut rates = Vec::new();
    for place in 0..places {
        let start = (capacity - bytes) / (places - 1) * place / PAGE * PAGE;
        let reads: Vec<Access> =
            (0..bytes / REQUEST).map(|index| Access::read(start + index * REQUEST, REQUEST as u32)).collect();
        let times = probe.run(&reads, 1)?;
        // The first two bring the head there and set reading ahead off.
        let from = 2.min(times.len() - 2);
        let span = times[times.len() - 1].end.0 - times[from].end.0;
        let moved = (times.len() - 1 - from) as u64 * REQUEST;
        rates.push((start + bytes / 2, moved as f64 * 1e9 / span.max(1) as f64));
        probe.tell("reading in sequence", 0.05 + 0.25 * place as f64 / places as f64);
    }
    Ok(rates)
}

/// The rate at one end, from the places nearest to it.
fn ends(rates: &[(u64, f64)], first: bool) -> Estimate {
    let near = (rates.len() / 48).max(1);
    let some = if first { &rates[..near] } else { &rates[rates.len() - near..] };
    Estimate::of(&some.iter().map(|(_, rate)| *rate).collect::<Vec<_>>())
}

/// Stretches of places with rates within a percent of each other; single places, which lie across a border, join the next.
fn zones(rates: &[(u64, f64)]) -> Vec<Zone> {
    const SAME: f64 = 0.009;
    let stretches = rates.chunk_by(|a, b| (a.1 / b.1 - 1.0).abs() < SAME);
    let mut zones: Vec<Zone> = Vec::new();
    for stretch in stretches.filter(|stretch| stretch.len() > 1) {
        let rate = median(&stretch.iter().map(|(_, rate)| *rate).collect::<Vec<_>>());
        let is_new = zones.last().is_none_or(|last| (last.bytes_per_sec / rate - 1.0).abs() >= SAME);
        if is_new {
            zones.push(Zone { start: stretch[0].0, bytes_per_sec: rate });
        }
    }
    zones
}

/// Where an offset lies on the stroke, 0 to 1, and back.
struct Stroke {
    /// Offset, share before it; rising.
    shares: Vec<(f64, f64)>,
}

impl Stroke {
    /// From the rates at places from the start to the end of a drive of `capacity` bytes.
    fn of(rates: &[(u64, f64)], capacity: u64) -> Self {
        let mut shares = vec![(0.0, 0.0)];
        let mut sum = 0.0;
        for pair in rates.windows(2) {
            let (from, to) = (shares[shares.len() - 1].0, f64::midpoint(pair[0].0 as f64, pair[1].0 as f64));
            sum += (to - from) / pair[0].1;
            shares.push((to, sum));
        }
        // The last place stands for all from half-way to it up to the end of the drive, and not beyond.
        let from = shares[shares.len() - 1].0;
        sum += (capacity as f64 - from).max(0.0) / rates[rates.len() - 1].1;
        shares.push((capacity as f64, sum));
        for (_, share) in &mut shares {
            *share /= sum;
        }
        Self { shares }
    }

    /// The offset at `share`, a whole page.
    fn offset(&self, share: f64) -> u64 {
        let at = self.shares.partition_point(|(_, before)| *before < share).clamp(1, self.shares.len() - 1);
        let ((x0, y0), (x1, y1)) = (self.shares[at - 1], self.shares[at]);
        let offset = x0 + (x1 - x0) * ((share - y0) / (y1 - y0)).clamp(0.0, 1.0);
        (offset as u64) / PAGE * PAGE
    }
}

/// The edge of reads that stay on their track: the second of two, some way behind the first, waits for the rest of the turn, and
/// misses it once the way is so long that what a command takes does not fit. The longest way that fits is found by halving; it is
/// nearly a whole track, so that the ends of tracks have to be known.
fn spot(probe: &mut Probe<'_>, turn: f64, page: f64, hit: f64) -> Result<Estimate, CalibrateError> {
    let block = probe.target.block_bytes();
    let block_ns = page * block as f64 / PAGE as f64;
    // Reading ahead goes on until the second command is there; it must not reach the next track meanwhile.
    let room = PAGE / block + late_by(PAGE / block) + (hit / block_ns).ceil() as u64 + 1;
    let mut edges = Vec::new();
    for _ in 0..probe.effort.repeats {
        let Some(tracks) = Tracks::find(probe, turn, turn / block_ns)? else { continue };
        edges.push(longest_way(probe, turn, &tracks, room)?);
    }
    if edges.is_empty() {
        return Err(CalibrateError::NoModel("no end of a track shows".into()));
    }
    let found = Estimate::of(&edges);
    let half = block_ns / 2.0;
    Ok(Estimate { value: found.value - half, low: found.low - 2.0 * half, high: found.high })
}

/// Times of reads that jump by `distance` of the stroke, to and fro.
fn jumps(
    probe: &mut Probe<'_>,
    stroke: &Stroke,
    distance: f64,
    count: u32,
) -> Result<Vec<f64>, CalibrateError> {
    /// Room around a place, so that no page is read twice and each has another angle.
    const ROOM_PAGES: u64 = 512;
    let last = probe.pages() - ROOM_PAGES - 1;
    let mut reads = Vec::new();
    for _ in 0..count {
        let share = probe.random.unit_f64() * (1.0 - distance);
        let near = (stroke.offset(share) / PAGE).min(last) + probe.random.below(ROOM_PAGES);
        let far = (stroke.offset(share + distance) / PAGE).min(last) + probe.random.below(ROOM_PAGES);
        let [from, to] = if probe.random.below(2) == 0 { [near, far] } else { [far, near] };
        reads.extend([from, to].map(|page| Access::read(page * PAGE, PAGE as u32)));
    }
    let times = probe.run(&reads, 1)?;
    Ok(times.iter().skip(1).step_by(2).map(Timing::ns).collect())
}

fn seek_points(
    probe: &mut Probe<'_>,
    stroke: &Stroke,
    turn: f64,
    beside: f64,
    beside_reach: f64,
) -> Result<Vec<(f64, Estimate)>, CalibrateError> {
    let count = probe.effort.distances.max(4);
    let mut points = Vec::new();
    for index in 0..count {
        // Close together where the curve bends: the square of even steps, from the shortest on.
        let share = (f64::from(index + 1) / f64::from(count)).powi(3) * 0.97;
        // The shortest ones say what a single track takes, which is little beside a turn.
        let count_here = probe.effort.reads_per_distance * if share < 0.02 { 6 } else { 1 };
        let found = edge(&jumps(probe, stroke, share, count_here)?, turn);
        let (value, reach) = (found.value - beside, found.reach() + beside_reach);
        points.push((share, Estimate { value, low: value - reach, high: value + reach }));
        probe.tell("seeking", 0.35 + 0.45 * f64::from(index + 1) / f64::from(count));
    }
    Ok(points)
}

/// Single track, average and full stroke, by the curve through all points.
fn curve(points: &[(f64, Estimate)]) -> Result<[Estimate; 3], CalibrateError> {
    // In milliseconds, each point as sure as its share of itself.
    let row = |(x, it): &(f64, Estimate)| (*x, it.value / 1e6, 1.0 / (it.value / 1e6).max(0.1).powi(2));
    let rows: Vec<(f64, f64, f64)> = points.iter().map(row).collect();
    let fit = root_line(&rows).ok_or_else(|| CalibrateError::NoModel("too few seeks".into()))?;
    let [c, a, b] = fit.map(|term| 1e6 * term);
    let residual = |(x, it): &(f64, Estimate)| (c + a * x.sqrt() + b * x - it.value).abs();
    let residuals: Vec<f64> = points.iter().map(residual).collect();
    let reach = 1.96 * median(&residuals);
    let with = |value: f64| Estimate { value, low: value - reach, high: value + reach };
    let [single, average, full] = [c.max(0.0), c + 8.0 / 15.0 * a + b / 3.0, c + a + b];
    if single >= average || average >= full {
        let what = "seeks do not grow with their distance: other work disturbs the times, or something caches before the drive";
        return Err(CalibrateError::NoModel(what.into()));
    }
    Ok([single, average, full].map(with))
}

/// Random reads per second with so many in flight.
pub(crate) fn queue(probe: &mut Probe<'_>, depths: &[u32]) -> Result<Vec<(u32, f64)>, CalibrateError> {
    let mut found = Vec::new();
    for &depth in depths {
        let reads: Vec<Access> = (0..probe.effort.queue_reads).map(|_| probe.random_read()).collect();
        let times = probe.run(&reads, depth)?;
        // The last ones find fewer beside them: only the first three quarters count.
        let mut ends: Vec<u64> = times.iter().map(|time| time.end.0).collect();
        ends.sort_unstable();
        let most = ends.len() * 3 / 4;
        let span = ends[most].saturating_sub(times[0].start.0).max(1);
        found.push((depth, most as f64 * 1e9 / span as f64));
    }
    Ok(found)
}

/// Time of what is read again at once.
fn hits(probe: &mut Probe<'_>, bytes: u64) -> Result<Estimate, CalibrateError> {
    let mut times = Vec::new();
    for _ in 0..probe.effort.repeats {
        let page = probe.random.below(probe.pages() - LONG / PAGE);
        let read = Access::read(page * PAGE, bytes as u32);
        times.push(probe.run(&[read, read], 1)?[1].ns());
    }
    Ok(Estimate::of(&times))
}

fn is_hit(time: &Timing, hit: f64) -> bool {
    time.ns() < 2.0 * hit + 2e5
}

/// How far behind a read the drive has read after a pause, by halving.
fn segment_bytes(probe: &mut Probe<'_>, hit: f64) -> Result<u64, CalibrateError> {
    let (mut held, mut not) = (0_u64, (64 << 20) / PAGE);
    let pages = probe.pages();
    while not - held > 1 {
        let middle = u64::midpoint(held, not);
        let at = probe.random.below(pages - not - 1);
        probe.run(&[Access::read(at * PAGE, PAGE as u32)], 1)?;
        // Longer than it takes to read so much at the slowest.
        probe.target.idle(NanoSpan(PAUSE.0 + middle * PAGE * 40));
        let time = probe.run(&[Access::read((at + middle) * PAGE, PAGE as u32)], 1)?[0];
        if is_hit(&time, hit) { held = middle } else { not = middle }
    }
    Ok((held + 1) * PAGE)
}

/// How many places it keeps, by halving.
fn segments(probe: &mut Probe<'_>, hit: f64) -> Result<u32, CalibrateError> {
    let (mut held, mut not) = (0_u32, 1025_u32);
    while not - held > 1 {
        let middle = u32::midpoint(held, not);
        let mut reads: Vec<Access> = (0..middle).map(|_| probe.random_read()).collect();
        reads.push(reads[0]);
        let times = probe.run(&reads, 1)?;
        if is_hit(&times[middle as usize], hit) { held = middle } else { not = middle }
    }
    Ok(held)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stroke_ends_where_the_drive_ends() {
        let rates: Vec<(u64, f64)> =
            (0..24).map(|place| (4 + 26_000 * place, 200e6 - 3e6 * place as f64)).collect();
        let capacity = 598_008 * PAGE;
        let rates: Vec<(u64, f64)> = rates.iter().map(|(at, rate)| (at * PAGE, *rate)).collect();
        let stroke = Stroke::of(&rates, capacity);
        assert_eq!((stroke.offset(0.0), stroke.offset(1.0)), (0, capacity));
        // More than half of the bytes lie before the middle, since the outer tracks are longer.
        let middle = stroke.offset(0.5) as f64 / capacity as f64;
        assert!((0.52..0.58).contains(&middle), "{middle}");
    }
}
