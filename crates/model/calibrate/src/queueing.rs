//! A drive's queue scheduling: the age weight, by trial.
//!
//! Timing shows how many random reads a drive does at a given depth, but not by which rule it orders them. The rule
//! here is the models': shortest positioning time first, less `weight` times the wait. A drive is built from the found
//! figures with each weight of a list, and the weight whose rates are nearest to the measured ones is the drive's. A
//! greater weight is fairer and slower.

use crate::rotational::queue;
use crate::{Effort, EntryNames, ModelledTarget, Probe, RotationalFound};
use raidlab_hardware::{Catalog, CatalogFile, DriveKind};
use raidlab_workload::Rng;

/// What is tried: from hardly fair to first come, first served.
const WEIGHTS: [f64; 16] =
    [0.01, 0.015, 0.02, 0.025, 0.03, 0.04, 0.05, 0.055, 0.06, 0.07, 0.08, 0.1, 0.15, 0.25, 0.5, 1.0];
/// With fewer in flight no rule has much to choose from.
const DEPTH_MIN: u32 = 8;
/// A drive whose rates no weight changes by more takes one command at a time, or orders them by none of this.
const TELLS: f64 = 0.02;
/// Reads at each depth: chance moves a rate by less than 1 %.
const READS: u32 = 4_000;

/// The weight with which the drive of `entry` queues as `found` was timed; `entry` has any. `None` if its figures make no drive, if
/// its rates are those of no weight within 10 %, or of all alike.
pub(crate) fn age_weight(found: &RotationalFound, names: &EntryNames, entry: String) -> Option<f64> {
    let timed: Vec<(u32, f64)> =
        found.queue.iter().copied().filter(|(depth, _)| *depth >= DEPTH_MIN).collect();
    let file = CatalogFile { name: format!("{}.toml", names.id), text: entry };
    let mut model = Catalog::with(&[file], &[]).ok()?.drive(&names.id).ok()?.clone();
    let mut tried = Vec::new();
    for weight in WEIGHTS {
        let DriveKind::HardDrive(drive) = &mut model.kind else { return None };
        drive.firmware.age_weight = weight;
        let rates = rates(&mut ModelledTarget::new(&model), &timed)?;
        let off = timed.iter().zip(&rates).map(|((_, timed), made)| (made / timed).ln().powi(2)).sum::<f64>();
        tried.push((weight, (off / timed.len().max(1) as f64).sqrt()));
    }
    let (weight, least) = tried.iter().copied().min_by(|a, b| a.1.total_cmp(&b.1))?;
    let most = tried.iter().map(|(_, off)| *off).fold(0.0, f64::max);
    (least < 0.1 && most - least > TELLS).then_some(weight)
}

/// Random reads per second of a drive at the depths of `timed`.
fn rates(target: &mut ModelledTarget, timed: &[(u32, f64)]) -> Option<Vec<f64>> {
    let effort = Effort { queue_reads: READS, ..Effort::THOROUGH };
    let mut probe = Probe { target, effort: &effort, random: Rng::new(1), progress: &mut |_, _| {} };
    let depths: Vec<u32> = timed.iter().map(|(depth, _)| *depth).collect();
    let found = queue(&mut probe, &depths).ok()?;
    Some(found.into_iter().map(|(_, rate)| rate).collect())
}
