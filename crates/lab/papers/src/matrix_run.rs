//! A latency matrix measured on real storage: random reads at a rate beside one sequential writer at a rate.
//!
//! ```text
//!  limits: reads alone as fast as they go, one read at a time, the writer alone as fast as it goes
//!      └─ grid: 1/n … n/n of the reads  x  0 … n/n of the writes
//!            └─ cell: both at their rates; left out, with the rest of its row, if the target did not keep up
//! ```
//! Reads arrive whatever the target does, as a Poisson process (which is also the sum of any number of independent
//! Poisson jobs) or evenly; a response counts from the arrival. The writer writes sequentially from the start of the
//! target, with a bounded number of requests in flight, no faster than its rate.

use crate::published::MatrixRow;
use raidlab_calibrate::{Arrivals, HostPacing, MatrixLoad};
use raidlab_units::{ByteCount, NanoSpan};
use raidlab_workload::{
    AccessLine, AccessSpec, ArrivalProcess, Arrivals as OpenArrivals, ClosedLoop, Metric, MixPart, OpSummary,
    Pacing, RequestRate, RunResult, Workload,
};
use raidlab_worlds::Load;

/// Share of what was asked for that keeps up.
const KEPT_UP: f64 = 0.97;

/// Reads in flight at most, of one that arrive and of many that look for the limit.
const READ_IODEPTH: u32 = 256;
const LIMIT_IODEPTH: u32 = 128;

/// How a matrix is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MatrixPlan {
    /// Steps of each rate, up to its limit.
    pub steps: u32,
    /// Length of a read.
    pub read_block: u32,
    /// Length of a write; no writer where the target may only be read.
    pub write_block: Option<u32>,
    /// Writes in flight at most.
    pub write_iodepth: u32,
    /// When reads arrive.
    pub arrivals: Arrivals,
    /// Time before each measured window.
    pub ramp: NanoSpan,
    /// Length of each.
    pub run: NanoSpan,
    /// Seed of everything random.
    pub seed: u64,
}

/// What the target does at most.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MatrixLimits {
    /// Reads a second.
    pub read_iops: f64,
    /// Median time of a read alone, in microseconds.
    pub read_p50_us: f64,
    /// Bytes written in sequence a second; none where nothing may be written.
    pub write_bytes_per_sec: Option<f64>,
}

/// The limits that the cells of a file were measured under; those that they do not tell are none.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct KnownLimits {
    /// Reads a second.
    pub read_iops: Option<f64>,
    /// Bytes written in sequence a second.
    pub write_bytes_per_sec: Option<f64>,
}

/// A row of a file that is no cell of the grid that is to be gone on with.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "row '{row}' is no cell of this grid: go on with the same --matrix-steps, --matrix-block, --matrix-arrivals and \
     --destroy-data, or name another file"
)]
pub struct ForeignRow {
    /// Its id.
    pub row: String,
}

/// A cell of the grid.
#[derive(Clone, Debug, PartialEq)]
pub struct MatrixPlace {
    /// `r3.w2`.
    pub id: String,
    /// The rates' steps.
    pub step: (u32, u32),
    /// What is asked.
    pub load: MatrixLoad,
}

impl MatrixPlan {
    /// What the cells of a file tell of the limits of the grid that they are of.
    ///
    /// # Errors
    /// [`ForeignRow`] for the first that is of another grid.
    #[expect(clippy::missing_panics_doc, reason = "rows were looked at before")]
    pub fn known_limits(&self, rows: &[MatrixRow]) -> Result<KnownLimits, ForeignRow> {
        let steps = f64::from(self.steps);
        let step = |row: &MatrixRow| {
            let (read, write) = row.id.strip_prefix('r')?.split_once(".w")?;
            let step = (read.parse::<u32>().ok()?, write.parse::<u32>().ok()?);
            let is_in = (1..=self.steps).contains(&step.0) && step.1 <= self.steps;
            let load = &row.load;
            let is_alike = load.read_block.0 == u64::from(self.read_block)
                && load.arrivals == self.arrivals
                && (step.1 == 0
                    || self.write_block.is_some_and(|block| load.write_block.0 == u64::from(block)));
            (is_in && is_alike).then_some(step)
        };
        let mut known = KnownLimits::default();
        // The highest rates tell their limits best.
        let mut highest = (0, 0);
        for row in rows {
            let (read, write) = step(row).ok_or_else(|| ForeignRow { row: row.id.clone() })?;
            if read > highest.0 {
                (highest.0, known.read_iops) = (read, Some(row.load.read_iops * steps / f64::from(read)));
            }
            if write > highest.1 {
                let limit = row.load.write_bytes_per_sec * steps / f64::from(write);
                (highest.1, known.write_bytes_per_sec) = (write, Some(limit));
            }
        }
        let near = |is: f64, step: u32, limit: Option<f64>| {
            step == 0 || limit.is_some_and(|limit| (is * steps / f64::from(step) / limit - 1.0).abs() < 0.01)
        };
        let strange = rows.iter().find(|row| {
            let (read, write) = step(row).expect("it was told above");
            !near(row.load.read_iops, read, known.read_iops)
                || !near(row.load.write_bytes_per_sec, write, known.write_bytes_per_sec)
        });
        strange.map_or(Ok(known), |row| Err(ForeignRow { row: row.id.clone() }))
    }

    /// Measures the limits that are not `known`, and one read alone; `run` runs a load that has a label.
    ///
    /// # Errors
    /// What `run` says.
    pub fn limits<E>(
        &self,
        known: KnownLimits,
        run: &mut dyn FnMut(&Load, &str) -> Result<RunResult, E>,
    ) -> Result<MatrixLimits, E> {
        let reads = |iodepth| self.load("reads", vec![self.part(true, Pacing::default(), iodepth)]);
        let alone = run(&reads(1), "reads, one at a time")?;
        let read_iops = match known.read_iops {
            Some(known) => known,
            None => run(&reads(LIMIT_IODEPTH), "reads, as many as it does")?.ops.read.iops.0,
        };
        let mut write_bytes_per_sec = known.write_bytes_per_sec;
        if self.write_block.is_some() && write_bytes_per_sec.is_none() {
            let writer = self.part(false, Pacing::default(), self.write_iodepth);
            let written = run(&self.load("writes", vec![writer]), "writes in sequence, as many as it does")?;
            write_bytes_per_sec = Some(written.ops.write.bytes_per_sec.0);
        }
        Ok(MatrixLimits {
            read_iops,
            read_p50_us: alone.ops.read.lat_ns_p50 as f64 / 1e3,
            write_bytes_per_sec,
        })
    }

    /// The cells, in the order in which they are measured.
    pub fn places(&self, limits: &MatrixLimits) -> Vec<MatrixPlace> {
        let steps = f64::from(self.steps);
        let writes = if limits.write_bytes_per_sec.is_some() { self.steps } else { 0 };
        let place = |read: u32, write: u32| MatrixPlace {
            id: format!("r{read}.w{write}"),
            step: (read, write),
            load: MatrixLoad {
                read_iops: (limits.read_iops * f64::from(read) / steps * 1e3).round() / 1e3,
                write_bytes_per_sec: limits.write_bytes_per_sec.unwrap_or(0.0) * f64::from(write) / steps,
                read_block: ByteCount(self.read_block.into()),
                write_block: ByteCount(self.write_block.unwrap_or(131_072).into()),
                write_iodepth: self.write_iodepth,
                readers: 1,
                read_iodepth: READ_IODEPTH,
                arrivals: self.arrivals,
                pacing: HostPacing::Open,
            },
        };
        (1..=self.steps).flat_map(|read| (0..=writes).map(move |write| place(read, write))).collect()
    }

    /// The load of a cell; none for rates that no clock can pace.
    pub fn cell(&self, place: &MatrixPlace) -> Option<Load> {
        let process = match self.arrivals {
            Arrivals::Even => ArrivalProcess::Fixed,
            Arrivals::Poisson => ArrivalProcess::Poisson,
        };
        let rate = RequestRate::new(place.load.read_iops)?;
        let arrivals = Pacing::Open(OpenArrivals { process, rate, burst: 1 });
        let mut parts = vec![self.part(true, arrivals, READ_IODEPTH)];
        if place.load.write_bytes_per_sec > 0.0 {
            let bytes_per_sec_max = Some(ByteCount(place.load.write_bytes_per_sec.max(1.0) as u64));
            let limited = ClosedLoop { bytes_per_sec_max, ..ClosedLoop::default() };
            parts.push(self.part(false, Pacing::Closed(limited), self.write_iodepth));
        }
        Some(self.load(&place.id, parts))
    }

    fn part(&self, reads: bool, pacing: Pacing, iodepth: u32) -> MixPart {
        let (name, line) = if reads {
            ("read", AccessLine::plain(self.read_block, 100, 100))
        } else {
            ("write", AccessLine::plain(self.write_block.unwrap_or(131_072), 0, 0))
        };
        MixPart { name: name.into(), lines: vec![line], pacing, iodepth: Some(iodepth), ..MixPart::default() }
    }

    fn load(&self, name: &str, parts: Vec<MixPart>) -> Load {
        let spec = AccessSpec { name: name.into(), parts, ..AccessSpec::default() };
        let workload = Workload {
            title: "A cell of a latency matrix".into(),
            source: "diskplorer's method: random reads at a rate beside one sequential writer".into(),
            metric: Metric::Iops,
            notes: String::new(),
            block_bytes_published: Vec::new(),
            spec,
        };
        let (ramp, run, seed) = (self.ramp, self.run, self.seed);
        Load { workload, iodepth: 1, workers: 1, ramp, run, seed, once: false, settles: false }
    }
}

/// The row of a cell that was measured; none where the target did not keep up.
pub fn matrix_row(place: &MatrixPlace, result: &RunResult) -> Option<MatrixRow> {
    let (reads, writes) = (&result.ops.read, &result.ops.write);
    let load = &place.load;
    let is_kept = reads.iops.0 >= KEPT_UP * load.read_iops
        && writes.bytes_per_sec.0 >= KEPT_UP * load.write_bytes_per_sec
        && reads.errors + writes.errors == 0;
    let percentile = |pct: f64| percentile_us(reads, pct);
    is_kept.then(|| MatrixRow {
        id: place.id.clone(),
        load: *load,
        read_p50_us: percentile(50.0),
        read_p95_us: percentile(95.0),
    })
}

fn percentile_us(summary: &OpSummary, pct: f64) -> Option<f64> {
    let point = summary.lat_curve.iter().find(|point| point.pct >= pct)?;
    Some(point.lat_ns as f64 / 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;
    use raidlab_workload::World;

    const PLAN: MatrixPlan = MatrixPlan {
        steps: 4,
        read_block: 4096,
        write_block: Some(131_072),
        write_iodepth: 32,
        arrivals: Arrivals::Poisson,
        ramp: NanoSpan::ZERO,
        run: NanoSpan::from_secs(1),
        seed: 1,
    };

    fn result(read_iops: f64, write_bytes_per_sec: f64) -> RunResult {
        let mut result = RunResult::unmeasured(World::Measured, "t".into(), "w".into(), Metric::Iops);
        result.ops.read.iops.0 = read_iops;
        result.ops.read.lat_ns_p50 = 90_000;
        result.ops.read.lat_curve = [(50.0, 90_000), (95.0, 200_000)]
            .map(|(pct, lat_ns)| raidlab_workload::LatencyPoint { pct, lat_ns })
            .to_vec();
        result.ops.write.bytes_per_sec.0 = write_bytes_per_sec;
        result
    }

    #[test]
    fn the_grid_goes_up_to_the_limits_and_without_a_writer_has_one_column() {
        let mut labels = Vec::new();
        let mut run = |load: &Load, label: &str| -> Result<RunResult, ()> {
            labels.push((label.to_owned(), load.workload.spec.iodepth(1)));
            Ok(result(80_000.0, 2e9))
        };
        let limits = PLAN.limits(KnownLimits::default(), &mut run).unwrap();
        assert_eq!(labels.iter().map(|(_, depth)| *depth).collect::<Vec<_>>(), [1, 128, 32]);
        let places = PLAN.places(&limits);
        assert_eq!(places.len(), 20);
        assert_eq!((places[0].id.as_str(), places[19].id.as_str()), ("r1.w0", "r4.w4"));
        assert_eq!((places[6].load.read_iops, places[6].load.write_bytes_per_sec), (40_000.0, 0.5e9));
        let reads_only = MatrixPlan { write_block: None, ..PLAN };
        let limits = reads_only
            .limits(KnownLimits::default(), &mut |_, _| Ok::<_, ()>(result(80_000.0, 0.0)))
            .unwrap();
        assert_eq!((limits.write_bytes_per_sec, reads_only.places(&limits).len()), (None, 4));
    }

    #[test]
    fn a_cell_paces_both_and_counts_only_if_both_kept_up() {
        let limits =
            PLAN.limits(KnownLimits::default(), &mut |_, _| Ok::<_, ()>(result(80_000.0, 2e9))).unwrap();
        let place = &PLAN.places(&limits)[6];
        let load = PLAN.cell(place).unwrap();
        let spec = &load.workload.spec;
        assert!(spec.validate().is_ok() && spec.parts[0].pacing.is_open() && !spec.parts[1].pacing.is_open());
        let row = matrix_row(place, &result(39_900.0, 0.499e9)).unwrap();
        assert_eq!((row.read_p50_us, row.read_p95_us), (Some(90.0), Some(200.0)));
        assert_eq!(matrix_row(place, &result(36_000.0, 0.5e9)), None, "reads did not keep up");
        assert_eq!(matrix_row(place, &result(40_000.0, 0.4e9)), None, "the writer did not");
        let slow = MatrixPlace { load: MatrixLoad { read_iops: 0.0, ..place.load }, ..place.clone() };
        assert_eq!(PLAN.cell(&slow), None);
    }

    #[test]
    fn cells_that_are_there_tell_their_limits_or_are_of_another_grid() {
        let limits =
            PLAN.limits(KnownLimits::default(), &mut |_, _| Ok::<_, ()>(result(80_000.0, 2e9))).unwrap();
        let row = |place: &MatrixPlace| MatrixRow {
            id: place.id.clone(),
            load: place.load,
            read_p50_us: None,
            read_p95_us: None,
        };
        let rows: Vec<MatrixRow> = PLAN.places(&limits).iter().map(row).collect();
        let known = PLAN.known_limits(&rows[..7]).unwrap();
        assert_eq!(known, KnownLimits { read_iops: Some(80_000.0), write_bytes_per_sec: Some(2e9) });
        assert_eq!(
            PLAN.known_limits(&rows[..1]).unwrap().write_bytes_per_sec,
            None,
            "a row without a writer"
        );
        let mut labels = Vec::new();
        let again = PLAN.limits(known, &mut |_, label| {
            labels.push(label.to_owned());
            Ok::<_, ()>(result(1.0, 1.0))
        });
        assert_eq!(
            (again.unwrap().read_iops, labels.len()),
            (80_000.0, 1),
            "only a read alone is measured anew"
        );
        let other_grid = MatrixPlan { steps: 1, ..PLAN };
        assert_eq!(other_grid.known_limits(&rows[5..7]), Err(ForeignRow { row: "r2.w0".into() }));
        let mut two = rows[..7].to_vec();
        two[6].load.read_iops *= 1.5;
        assert!(PLAN.known_limits(&two).is_err(), "cells of two grids");
        let other_block = MatrixPlan { read_block: 512, ..PLAN };
        assert!(other_block.known_limits(&rows[..1]).is_err());
        let read_only = MatrixPlan { write_block: None, ..PLAN };
        assert_eq!(read_only.known_limits(&rows[..2]), Err(ForeignRow { row: "r1.w1".into() }));
    }
}
