//! What a run was asked and what came of it, as figures that two runs have alike.

use raidlab_units::ByteCount;
use raidlab_workload::{AccessLine, OpSummary, RunResult};
use serde::Serialize;

/// One figure of what was asked, of the predicted run and of the measured one. Sizes are bytes, shares percent.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct AskedFigure {
    /// Which: `read_pct`, `mean_read_bytes`, `mean_write_bytes`, `random_pct`, `iodepth`, `arrivals_per_sec`, `region_bytes`.
    pub name: &'static str,
    /// In the prediction; none where it does not apply or is not known.
    pub predicted: Option<f64>,
    /// In the measured run.
    pub measured: Option<f64>,
    /// Whether they differ by more than chance and rounding make them.
    pub differs: bool,
}

/// One figure of what came of it.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct DoneFigure {
    /// Which: `iops`, `read_lat_ns_mean`, `write_lat_ns_mean`, `lat_ns_p50`, `lat_ns_p90`, `lat_ns_p99`.
    pub name: &'static str,
    /// As predicted.
    pub predicted: f64,
    /// As measured.
    pub measured: f64,
    /// How much more the measured one is, in percent of the predicted.
    pub difference_pct: f64,
}

/// A figure of what came of a run, and how far a good model may be off.
struct Kind {
    name: &'static str,
    /// As a natural logarithm.
    tolerance: f64,
    of: fn(&RunResult) -> Option<f64>,
}

/// Requests below which a mean is chance.
const MEAN_OF: u64 = 30;

/// Requests below which the slowest hundredth is chance.
const TAIL_OF: u64 = 1000;

fn mean(op: &OpSummary) -> Option<f64> {
    (op.requests >= MEAN_OF && op.lat_ns_mean > 0.0).then_some(op.lat_ns_mean)
}

fn percentile(run: &RunResult, value: u64) -> Option<f64> {
    (run.ops.total.requests >= TAIL_OF && value > 0).then_some(value as f64)
}

const KINDS: [Kind; 6] = [
    Kind { name: "iops", tolerance: 0.05, of: |run| Some(run.ops.total.iops.0).filter(|iops| *iops > 0.0) },
    Kind { name: "read_lat_ns_mean", tolerance: 0.05, of: |run| mean(&run.ops.read) },
    Kind { name: "write_lat_ns_mean", tolerance: 0.05, of: |run| mean(&run.ops.write) },
    Kind { name: "lat_ns_p50", tolerance: 0.10, of: |run| percentile(run, run.ops.total.lat_ns_p50) },
    Kind { name: "lat_ns_p90", tolerance: 0.10, of: |run| percentile(run, run.ops.total.lat_ns_p90) },
    Kind { name: "lat_ns_p99", tolerance: 0.20, of: |run| percentile(run, run.ops.total.lat_ns_p99) },
];

/// How far a prediction is off in one figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Off {
    /// The figure.
    pub name: &'static str,
    /// Predicted over measured, as a natural logarithm.
    pub ln: f64,
    /// How far a good model may be off.
    pub tolerance: f64,
}

/// What a prediction with too few requests counts as.
const OFF_MOST: f64 = 3.0;

/// How far `predicted` is off in each figure that `measured` has.
pub fn off(predicted: &RunResult, measured: &RunResult) -> Vec<Off> {
    let of = |kind: &Kind| {
        let measured = (kind.of)(measured)?;
        let ln = (kind.of)(predicted).map_or(OFF_MOST, |predicted| (predicted / measured).ln());
        Some(Off { name: kind.name, ln, tolerance: kind.tolerance })
    };
    KINDS.iter().filter_map(of).collect()
}

/// The figures that both runs have.
pub fn done(predicted: &RunResult, measured: &RunResult) -> Vec<DoneFigure> {
    let figure = |kind: &Kind| {
        let (predicted, measured) = ((kind.of)(predicted)?, (kind.of)(measured)?);
        let difference_pct = 100.0 * (measured - predicted) / predicted;
        Some(DoneFigure { name: kind.name, predicted, measured, difference_pct })
    };
    KINDS.iter().filter_map(figure).collect()
}

/// How far predictions are off, in tolerances: the root of the mean of squares over all figures that a pair has. Of none it is
/// infinite.
pub fn distance<'a>(pairs: impl IntoIterator<Item = (&'a RunResult, &'a RunResult)>) -> f64 {
    let all = pairs.into_iter().flat_map(|(predicted, measured)| off(predicted, measured));
    let squares: Vec<f64> = all.map(|it| (it.ln / it.tolerance).powi(2)).collect();
    match squares.len() {
        0 => f64::INFINITY,
        count => (squares.iter().sum::<f64>() / count as f64).sqrt(),
    }
}

/// How far predicted requests per second and mean latencies are off, in percent of the measured ones: the mean of all, whatever their
/// signs.
pub fn off_pct<'a>(pairs: impl IntoIterator<Item = (&'a RunResult, &'a RunResult)>) -> f64 {
    let mut all = Vec::new();
    for (predicted, measured) in pairs {
        let of = |kind: &Kind| Some(((kind.of)(predicted)? / (kind.of)(measured)? - 1.0).abs());
        all.extend(KINDS.iter().take(3).filter_map(of));
    }
    100.0 * all.iter().sum::<f64>() / all.len().max(1) as f64
}

/// What a run was asked, as far as it kept it. Shares and sizes are those of the requests that it did.
pub(super) struct Asked {
    read_pct: Option<f64>,
    read_bytes: Option<f64>,
    write_bytes: Option<f64>,
    random_pct: Option<f64>,
    iodepth: Option<f64>,
    pub(super) arrivals: Option<f64>,
    pub(super) region: Option<ByteCount>,
    pub(super) places: Option<String>,
}

impl Asked {
    pub(super) fn of(run: &RunResult) -> Self {
        let (read, write) = (&run.ops.read, &run.ops.write);
        let size = |op: &OpSummary| (op.iops.0 > 0.0).then(|| op.bytes_per_sec.0 / op.iops.0);
        let requests = read.iops.0 + write.iops.0;
        Self {
            read_pct: (requests > 0.0).then(|| 100.0 * read.iops.0 / requests),
            read_bytes: size(read),
            write_bytes: size(write),
            random_pct: random_pct(&run.lines),
            iodepth: run.arrivals_per_sec.is_none().then(|| f64::from(run.iodepth)),
            arrivals: run.arrivals_per_sec,
            region: run.settings.get("region").and_then(|text| text.parse().ok()),
            places: run.settings.get("places").cloned(),
        }
    }

    /// The figures of both, and whether they differ.
    pub(super) fn beside(&self, measured: &Self) -> Vec<AskedFigure> {
        /// What may be chance: points of a share, a part of a size.
        enum Slack {
            Points(f64),
            Part(f64),
        }
        let figure = |name, of: &dyn Fn(&Self) -> Option<f64>, slack: Slack| {
            let (predicted, measured) = (of(self), of(measured));
            let differs = match (predicted, measured, slack) {
                (Some(one), Some(other), Slack::Points(points)) => (one - other).abs() > points,
                (Some(one), Some(other), Slack::Part(part)) => (one / other).ln().abs() > part,
                _ => false,
            };
            AskedFigure { name, predicted, measured, differs }
        };
        let mut figures = vec![
            figure("read_pct", &|it| it.read_pct, Slack::Points(2.0)),
            figure("mean_read_bytes", &|it| it.read_bytes, Slack::Part(0.03)),
            figure("mean_write_bytes", &|it| it.write_bytes, Slack::Part(0.03)),
            figure("random_pct", &|it| it.random_pct, Slack::Points(2.0)),
            figure("iodepth", &|it| it.iodepth, Slack::Part(1e-9)),
            figure("arrivals_per_sec", &|it| it.arrivals, Slack::Part(0.02)),
            figure("region_bytes", &|it| it.region.map(|region| region.0 as f64), Slack::Part(0.1)),
        ];
        // A closed loop is not an open one.
        if self.arrivals.is_some() != measured.arrivals.is_some() {
            let paced = figures.iter_mut().filter(|it| matches!(it.name, "iodepth" | "arrivals_per_sec"));
            paced.for_each(|it| it.differs = true);
        }
        figures.retain(|it| it.predicted.is_some() || it.measured.is_some());
        figures
    }

    pub(super) fn read_pct(&self) -> Option<u8> {
        self.read_pct.map(|pct| pct.round() as u8)
    }

    /// The one size of all requests, in whole blocks; none where reads and writes differ.
    pub(super) fn bytes(&self) -> Option<u32> {
        let whole = |bytes: f64| ((bytes / 512.0).round().max(1.0) as u32) * 512;
        match (self.read_bytes.map(whole), self.write_bytes.map(whole)) {
            (Some(one), Some(other)) if one != other => None,
            (one, other) => one.or(other),
        }
    }
}

/// Requests at random places among all that `lines` make; none without lines.
fn random_pct(lines: &[AccessLine]) -> Option<f64> {
    // A line is drawn for a burst: it makes as many requests as that has.
    let requests = |line: &AccessLine| f64::from(line.share_pct) * f64::from(line.burst);
    let all: f64 = lines.iter().map(requests).sum();
    let random: f64 = lines.iter().map(|line| requests(line) * f64::from(line.random_pct)).sum();
    (all > 0.0).then(|| random / all)
}
