//! A flash model fitted to a few cells of its drive's latency matrix.
//!
//! ```text
//!  cells: reads alone light and heavy, beside a heavy writer, beside a light one, in the middle
//!      └─ one figure after the other a step up or down, as long as it helps; then half the step
//!            └─ each time: programs for the same rate of writing, time beside the flash for the same time of one read
//! ```
//! The resulting figures reproduce these cells; they need not be those inside the drive. The rest of the matrix shows
//! their quality.

use crate::matrix::{MatrixError, MatrixLoad, prefilled, replay_cell};
use raidlab_hardware::{CellModel, DriveKind, DriveModel, FlashModel};
use raidlab_units::NanoSpan;

/// Reads counted for a cell, while a fit is looked for.
const READS: u32 = 1500;

/// Steps of the parts as logarithms: the first, and the last. The first is short, so that a fit ends near the entry it starts from: of
/// few cells many drives are possible, and far ones were worse in all other cells of each of three matrices.
const STEPS: (f64, f64) = (0.25, 0.06);

/// Errors count with this power: large ones more, but not so much that one cell decides.
const ERROR_POWER: f64 = 1.5;

/// An error above this (of a logarithm) counts no more than this: such cells are beyond the limit of the model.
const ERROR_MAX: f64 = 1.5;

/// What weight a 95th percentile has beside a median.
const TAIL_WEIGHT: f64 = 0.7;

/// Where in the matrix the fitted cells are: shares of the highest rates of reads and of writes.
const PLACES: [(f64, f64); 5] = [(0.0, 0.0), (0.85, 0.0), (0.1, 0.9), (0.6, 0.15), (0.35, 0.45)];

/// A cell with what the drive did.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MatrixTarget {
    /// What was asked.
    pub load: MatrixLoad,
    /// Median response of reads, in microseconds.
    pub p50_us: f64,
    /// Their 95th percentile.
    pub p95_us: f64,
}

/// A figure of an entry that was fitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FittedFigure {
    /// Its key, `host.queue_depth`.
    pub key: &'static str,
    /// Its value, as a file has it without quotes.
    pub value: String,
}

/// The cells to fit, five at most: their places among `loads`.
pub fn cells_to_fit(loads: &[MatrixLoad]) -> Vec<usize> {
    let most = |figure: fn(&MatrixLoad) -> f64| loads.iter().map(figure).fold(f64::MIN_POSITIVE, f64::max);
    let (reads, writes) = (most(|load| load.read_iops), most(|load| load.write_bytes_per_sec));
    let mut chosen: Vec<usize> = vec![];
    for (read, write) in PLACES {
        let off = |load: &MatrixLoad| {
            (load.read_iops / reads - read).hypot(load.write_bytes_per_sec / writes - write)
        };
        let others = loads.iter().enumerate().filter(|(index, _)| !chosen.contains(index));
        let nearest = others.min_by(|(_, a), (_, b)| off(a).total_cmp(&off(b)));
        chosen.extend(nearest.map(|(index, _)| index));
    }
    chosen
}

/// Fits `model` to `targets`, the first of which is the lightest; none for a drive without a translation layer.
///
/// # Errors
/// [`MatrixError`] for a target that can't be replayed.
pub fn fit_matrix(
    model: &DriveModel,
    targets: &[MatrixTarget],
) -> Result<Option<Vec<FittedFigure>>, MatrixError> {
    let DriveKind::Flash(flash) = &model.kind else { return Ok(None) };
    Ok(Some(figures(&fit(model, flash, targets)?)))
}

/// What is inside `model`, which is `flash`, with the parts that come closest to the targets.
fn fit(model: &DriveModel, flash: &FlashModel, targets: &[MatrixTarget]) -> Result<FlashModel, MatrixError> {
    let mut best = Parts::default();
    let mut fitted = flash.clone();
    let mut least = cost(model, &mut fitted, targets)?;
    let mut step = STEPS.0;
    while step >= STEPS.1 {
        let mut is_better = false;
        for part in 0..best.0.len() {
            for change in [step, -step] {
                let mut next = best;
                next.0[part] = (next.0[part] + change).clamp(-4.0, 4.0);
                let mut tried = next.applied_to(flash);
                let seen = cost(model, &mut tried, targets)?;
                if seen < least {
                    (least, best, fitted, is_better) = (seen, next, tried, true);
                    break;
                }
            }
        }
        if !is_better {
            step /= 2.0;
        }
    }
    Ok(fitted)
}

/// How far parts are from the model's, as logarithms of ratios: commands inside, time on a channel, sensing, sensing of the
/// slowest pages, dies that program, dies, rows.
#[derive(Clone, Copy, Debug, Default)]
struct Parts([f64; 7]);

impl Parts {
    fn applied_to(self, flash: &FlashModel) -> FlashModel {
        let mut flash = flash.clone();
        let [commands, transfer, sense, slowest, programs, dies, rows] = self.0.map(f64::exp);
        let count = |before: u32, ratio: f64, most: u32| {
            (f64::from(before) * ratio).round().clamp(1.0, f64::from(most)) as u32
        };
        flash.front.queue_depth = count(flash.front.queue_depth, commands, 65_536);
        let cells = &mut flash.cells;
        let rate = cells.program_rate();
        let busy = f64::from(cells.programs_at_once) / f64::from(cells.dies());
        cells.channel.per_transfer = scaled(cells.channel.per_transfer, transfer);
        cells.read_fast = scaled(cells.read_fast, sense);
        cells.read_slow = scaled(cells.read_slow, sense * slowest).max(cells.read_fast);
        cells.dies_per_channel = count(cells.dies_per_channel, dies, 1024 / cells.channels);
        cells.planes = count(cells.planes, rows, 16);
        let all = cells.dies();
        cells.programs_at_once = count(all, (busy * programs).min(1.0), all);
        cells.parity_every = (all - 1).min(cells.parity_every);
        // Rows of other sizes on other numbers of dies, written at the same rate.
        let each_ns = cells.program.0 as f64 + cells.load_time().0 as f64;
        let wanted_ns = each_ns * cells.program_rate().0 / rate.0;
        cells.program = NanoSpan((wanted_ns - cells.load_time().0 as f64).max(10e3) as u64);
        flash
    }
}

fn scaled(span: NanoSpan, ratio: f64) -> NanoSpan {
    NanoSpan((span.0 as f64 * ratio) as u64)
}

/// How far `flash`, with the time beside it that the first target leaves, is from the targets.
fn cost(model: &DriveModel, flash: &mut FlashModel, targets: &[MatrixTarget]) -> Result<f64, MatrixError> {
    let with = |flash: &FlashModel| {
        prefilled(&DriveModel { kind: DriveKind::Flash(Box::new(flash.clone())), ..model.clone() })
    };
    if let Some(lightest) = targets.first() {
        let seen = replay_cell(&with(flash), &lightest.load, READS)?;
        let wanted_ns = flash.front.read_latency.0 as f64 + (lightest.p50_us - seen.p50_us) * 1e3;
        flash.front.read_latency = NanoSpan(wanted_ns.max(0.0) as u64);
    }
    let drive = with(flash);
    let mut sum = 0.0;
    for target in targets {
        let seen = replay_cell(&drive, &target.load, READS)?;
        let error =
            |seen: f64, published: f64| (seen / published).ln().abs().min(ERROR_MAX).powf(ERROR_POWER);
        sum += error(seen.p50_us, target.p50_us) + TAIL_WEIGHT * error(seen.p95_us, target.p95_us);
    }
    Ok(sum)
}

fn figures(flash: &FlashModel) -> Vec<FittedFigure> {
    let (front, cells): (_, &CellModel) = (&flash.front, &flash.cells);
    let span = |span: NanoSpan| format!("{} ns", span.0);
    let figures = [
        ("host.queue_depth", front.queue_depth.to_string()),
        ("host.read_latency", span(front.read_latency)),
        ("flash.dies_per_channel", cells.dies_per_channel.to_string()),
        ("flash.planes", cells.planes.to_string()),
        ("flash.read_fast", span(cells.read_fast)),
        ("flash.read_slow", span(cells.read_slow)),
        ("flash.program", span(cells.program)),
        ("flash.programs_at_once", cells.programs_at_once.to_string()),
        ("flash.parity_every", cells.parity_every.to_string()),
        ("flash.channel.per_transfer", span(cells.channel.per_transfer)),
    ];
    figures.into_iter().map(|(key, value)| FittedFigure { key, value }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::{Arrivals, HostPacing};
    use raidlab_hardware::Catalog;
    use raidlab_units::ByteCount;

    fn load(read_iops: f64, write_mb_per_s: f64) -> MatrixLoad {
        MatrixLoad {
            read_iops,
            write_bytes_per_sec: write_mb_per_s * 1e6,
            read_block: ByteCount(4096),
            write_block: ByteCount(131_072),
            write_iodepth: 64,
            readers: 7,
            read_iodepth: 1000,
            arrivals: Arrivals::Even,
            pacing: HostPacing::Fio,
        }
    }

    #[test]
    fn cells_are_at_the_corners_and_in_the_middle() {
        let loads: Vec<MatrixLoad> = (1..=10)
            .flat_map(|r| (0..10).map(move |w| load(f64::from(r) * 1e4, f64::from(w) * 100.0)))
            .collect();
        let chosen = cells_to_fit(&loads);
        let rates: Vec<(f64, f64)> =
            chosen.iter().map(|i| (loads[*i].read_iops / 1e4, loads[*i].write_bytes_per_sec / 1e8)).collect();
        assert_eq!(rates, [(1.0, 0.0), (8.0, 0.0), (1.0, 8.0), (6.0, 1.0), (3.0, 4.0)]);
        assert_eq!(cells_to_fit(&loads[..2]), [0, 1], "no more than there are");
    }

    /// A drive whose pages take longer is found from another one's model, and no figure of a disk is.
    #[test]
    fn what_another_model_does_is_fitted() {
        let catalog = Catalog::builtin();
        let model = catalog.drive("samsung-pm9a3-7680").expect("in the catalogue");
        let DriveKind::Flash(flash) = &model.kind else { panic!("flash") };
        let slow = Parts([-1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0]).applied_to(flash);
        let slow = prefilled(&DriveModel { kind: DriveKind::Flash(Box::new(slow)), ..model.clone() });
        let targets: Vec<MatrixTarget> = [(2e4, 0.0), (4e5, 0.0), (2e5, 500.0)]
            .map(|(reads, writes)| {
                let load = load(reads, writes);
                let seen = replay_cell(&slow, &load, READS).expect("it can be");
                MatrixTarget { load, p50_us: seen.p50_us, p95_us: seen.p95_us }
            })
            .to_vec();
        let before = cost(model, &mut FlashModel::clone(flash), &targets).expect("it can be");
        let mut fitted = fit(model, flash, &targets).expect("it can be");
        let after = cost(model, &mut fitted, &targets).expect("it can be");
        assert!(before > 0.5, "{before}");
        assert!(after < 0.3 * before, "{before} before, {after} after");
        let disk = catalog.drive("st3600057ss").expect("in the catalogue");
        assert_eq!(fit_matrix(disk, &targets), Ok(None));
    }
}
