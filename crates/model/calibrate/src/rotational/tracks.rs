//! Tracks near the start of a drive, found from where backward reads cross from one to the next.

use crate::{Access, CalibrateError, PAGE, Probe};

/// Blocks from one read to the next where the start of a track is looked for.
const STEP: u64 = 16;

/// Tracks of one length, near the start of the drive.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tracks {
    /// Where one of them begins, in blocks.
    start: u64,
    /// Their length, in blocks.
    length: f64,
}

impl Tracks {
    /// Finds a start, and some tracks on another one, which tells their length to a fraction of a block. `about` is their length to
    /// some percent.
    pub(super) fn find(probe: &mut Probe<'_>, turn: f64, about: f64) -> Result<Option<Self>, CalibrateError> {
        let near = 4 * about as u64 + probe.random.below((256 << 20) / probe.target.block_bytes());
        let Some(start) = boundary(probe, turn, about, near, about as u64 + 4 * STEP)? else {
            return Ok(None);
        };
        let (mut length, mut last) = (about, start);
        for apart in [1.0, 4.0, 16.0, 64.0] {
            let sought = start as f64 + apart * length;
            // What the length is not yet sure of, over so many tracks.
            let reach = (0.12 * length) as u64 + STEP;
            let Some(next) = boundary(probe, turn, length, sought as u64 + reach, 2 * reach)? else {
                return Ok(None);
            };
            (length, last) = ((next - start) as f64 / apart, next);
        }
        Ok((last > start && (length / about - 1.0).abs() < 0.1).then_some(Self { start, length }))
    }

    /// Where the `index`-th track from there begins, [`late_by`] too late at most.
    fn start(&self, index: u64) -> u64 {
        self.start + (index as f64 * self.length).ceil() as u64
    }
}

/// By how many blocks the start of a track may be found too late; pages have `page` blocks. Steps of two pages leave none out.
pub(super) const fn late_by(page: u64) -> u64 {
    if STEP / page < 4 { STEP } else { page }
}

/// The block at which a track begins, [`late_by`] too late at most, of those from `from` down to `span` less; `None` where none shows.
/// Reads that go backwards are a turn less a step apart on one track, and not where one ends; first in wide steps, then page by
/// page if steps are of many pages. What was read once is in the buffer and left out. `track` is about a track's length.
fn boundary(
    probe: &mut Probe<'_>,
    turn: f64,
    track: f64,
    from: u64,
    span: u64,
) -> Result<Option<u64>, CalibrateError> {
    let page = PAGE / probe.target.block_bytes();
    let usual = |step: u64| turn * (1.0 - step as f64 / track);
    let wide: Vec<u64> = (0..span / STEP + 2).map_while(|index| from.checked_sub(index * STEP)).collect();
    let Some(above) = crossing(probe, turn, usual(STEP), &wide)? else { return Ok(None) };
    if late_by(page) == STEP {
        return Ok(Some(above));
    }
    let between = |below: &u64| !below.is_multiple_of(STEP);
    let steps = (1..=STEP / page + 2).map(|index| index * page).filter(between);
    let narrow: Vec<u64> = steps.map_while(|below| above.checked_sub(below)).collect();
    // No change among them: it lies before the first.
    Ok(Some(crossing(probe, turn, usual(page), &narrow)?.unwrap_or(above)))
}

/// The last of `places`, which go down, before the track changes. On one track they are `usual` apart, in nanoseconds.
fn crossing(
    probe: &mut Probe<'_>,
    turn: f64,
    usual: f64,
    places: &[u64],
) -> Result<Option<u64>, CalibrateError> {
    let block = probe.target.block_bytes();
    let reads: Vec<Access> = places.iter().map(|at| Access::read(at * block, PAGE as u32)).collect();
    let times = probe.run(&reads, 1)?;
    let apart: Vec<f64> = times.windows(2).map(|pair| (pair[1].end.0 - pair[0].end.0) as f64).collect();
    let is_far = |span: f64, times: f64| (span - times * usual).abs() > 0.03 * turn;
    // A late answer makes one span longer and the next as much shorter; a change of tracks only one of them.
    let changes = |index: &usize| {
        is_far(apart[*index], 1.0)
            && apart.get(index + 1).is_none_or(|next| is_far(apart[*index] + next, 2.0))
            && (*index == 0 || is_far(apart[index - 1] + apart[*index], 2.0))
    };
    Ok((0..apart.len()).find(changes).map(|index| places[index]))
}

/// The least time of a read on the track of the one before it, over all ways back; each try is on a fresh track.
pub(super) fn longest_way(
    probe: &mut Probe<'_>,
    turn: f64,
    tracks: &Tracks,
    room: u64,
) -> Result<f64, CalibrateError> {
    const APART: u64 = 3;
    /// A late answer must not make a way look too long.
    const TRIES: u64 = 3;
    let block = probe.target.block_bytes();
    let last = (tracks.length as u64).saturating_sub(room + 1);
    let (mut fits, mut not) = (PAGE / block, last + 1);
    let (mut least, mut track) = (turn, APART);
    while not - fits > 1 {
        let way = u64::midpoint(fits, not);
        let mut time = f64::INFINITY;
        for _ in 0..TRIES {
            let near = tracks.start(track) + last;
            let pair = [near, near - way].map(|at| Access::read(at * block, PAGE as u32));
            time = time.min(probe.run(&pair, 1)?[1].ns());
            track += APART;
        }
        if time < turn {
            (fits, least) = (way, least.min(time));
        } else {
            not = way;
        }
    }
    Ok(least)
}
