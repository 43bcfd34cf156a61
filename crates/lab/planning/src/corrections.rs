//! The comparison of two groups of runs, corrected for their drives; the arithmetic is the advisor's.
//!
//! Runs on arrays with one configuration per group are corrected, for each workload and load that both have. Drives
//! that the catalogue does not have, real ones among them, are corrected for their number only.

use crate::Application;
use raidlab_advisor::RunGroup;
use raidlab_advisor::correction::{ComparedSide, Corrected, DriveSpeed, RequestShape, corrected};
use raidlab_hardware::{Catalog, DriveKind, DriveModel};
use raidlab_workload::{Metric, OfferedLoad, RunResult, Spread};
use raidlab_worlds::find_workload;
use serde::Serialize;
use std::collections::BTreeSet;
use std::path::Path;

/// One workload at one iodepth, corrected.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct DriveCorrection {
    /// Workload, iodepth and the group.
    pub what: String,
    /// The ratio of the group to the one that it is compared with, step by step.
    pub corrected: Corrected,
}

/// Corrects each workload and load that `group` and `base` have in common; nothing where their drives are the same.
pub fn drive_corrections(
    group: &RunGroup<'_>,
    base: &RunGroup<'_>,
    catalog: &Catalog,
) -> Vec<DriveCorrection> {
    let loads = |group: &RunGroup<'_>| -> BTreeSet<(String, OfferedLoad)> {
        group.runs.iter().map(|run| (run.workload.clone(), run.offered_load())).collect()
    };
    let common = loads(group).intersection(&loads(base)).cloned().collect::<Vec<_>>();
    let correct = |(workload, load): (String, OfferedLoad)| {
        let of = |group: &RunGroup<'_>| side(group, (&workload, load), catalog);
        let (own, other, shape) = (of(group)?, of(base)?, shape(&workload)?);
        let corrected = corrected(&own, &other, &shape)?;
        let what = format!("{workload} at {load}, {} to {}", group.name, base.name);
        (corrected.steps.len() > 1).then_some(DriveCorrection { what, corrected })
    };
    common.into_iter().filter_map(correct).collect()
}

/// What the runs of a group at one load come to; none where they are of several arrays, or of none.
fn side(group: &RunGroup<'_>, load: (&str, OfferedLoad), catalog: &Catalog) -> Option<ComparedSide> {
    let has_load = |run: &&RunResult| (run.workload.as_str(), run.offered_load()) == load;
    let runs: Vec<&RunResult> = group.runs.iter().copied().filter(has_load).collect();
    let array = runs.first()?.array.as_ref()?;
    if runs.iter().any(|run| run.array.as_ref() != Some(array)) {
        return None;
    }
    let figure = |run: &&RunResult| match run.metric {
        Metric::Iops => run.ops.total.iops.0,
        Metric::MbPerS => run.ops.total.bytes_per_sec.mb_per_s(),
    };
    let values: Vec<f64> = runs.iter().map(figure).collect();
    Some(ComparedSide {
        name: group.name.clone(),
        value: Spread::of(&values).mean,
        drives: Some(array.members),
        drive: catalog.drive(&array.member_kind).ok().and_then(speed),
    })
}

/// What the requests of a built-in workload look like.
fn shape(workload: &str) -> Option<RequestShape> {
    let workload = find_workload(workload, Path::new("")).ok()?;
    let demand = Application::new(workload, 1).demand();
    Some(RequestShape { random_share: demand.random_share, bytes_mean: demand.bytes_mean })
}

/// What a drive's data sheet says; none for drives that were measured track by track.
fn speed(model: &DriveModel) -> Option<DriveSpeed> {
    let id = model.id.clone();
    match &model.kind {
        DriveKind::HardDrive(hard) => {
            let sheet = hard.mechanics.data_sheet()?;
            Some(DriveSpeed {
                id,
                seek_ns: sheet.seek_read.average.0 as f64,
                half_turn_ns: 30e9 / f64::from(sheet.rpm),
                overhead_ns: hard.firmware.overheads.read_miss.read.0 as f64,
                bytes_per_sec: f64::midpoint(sheet.outer_rate.0, sheet.inner_rate.0),
            })
        }
        DriveKind::SolidState(solid) => Some(DriveSpeed {
            id,
            seek_ns: solid.page_read.0 as f64,
            half_turn_ns: 0.0,
            overhead_ns: solid.read_overhead.0 as f64,
            bytes_per_sec: (f64::from(solid.channels) * solid.channel.rate.0).min(model.interface.rate.0),
        }),
        DriveKind::Flash(flash) => Some(DriveSpeed {
            id,
            seek_ns: flash.cells.read_fast.0.midpoint(flash.cells.read_slow.0) as f64,
            half_turn_ns: 0.0,
            overhead_ns: flash.front.read_command.0 as f64,
            bytes_per_sec: (f64::from(flash.cells.channels) * flash.cells.channel.rate.0)
                .min(model.interface.rate.0),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use raidlab_units::{ByteCount, BytesPerSec, Iops};
    use raidlab_workload::{ArrayFacts, World};

    fn run(drive: &str, members: u16, iops: f64) -> RunResult {
        let mut run =
            RunResult::unmeasured(World::Simulated, drive.into(), "md1200-oltp".into(), Metric::Iops);
        run.iodepth = 32;
        run.ops.total.iops = Iops(iops);
        run.ops.total.bytes_per_sec = BytesPerSec(iops * 8192.0);
        run.array = Some(ArrayFacts {
            level: "5".into(),
            members,
            member_kind: drive.into(),
            controller: "perc-h800".into(),
            strip_bytes: ByteCount::from_kib(64),
            write_policy: "write-back".into(),
            usable_bytes: ByteCount(1 << 40),
            raw_bytes: ByteCount(1 << 41),
            failures_survived_always: 1,
            failures_survived_at_best: 1,
        });
        run
    }

    #[test]
    fn drives_are_taken_out_with_the_arithmetic_shown() {
        let (new, old) = (run("st3600057ss", 24, 4000.0), run("st32000444ss", 12, 1000.0));
        let group = |name: &str, run| RunGroup { name: name.to_owned(), runs: vec![run] };
        let catalog = Catalog::builtin();
        let found = drive_corrections(&group("new", &new), &group("old", &old), &catalog);
        let [only] = &found[..] else { panic!("{found:?}") };
        assert_eq!(only.corrected.ratio_measured, 4.0);
        assert_eq!(only.corrected.ratio_per_drive, Some(2.0));
        let left = only.corrected.ratio();
        assert!(left < 1.3 && left > 0.7, "15,000 rpm do about twice what 7200 do: {only:?}");
        assert_eq!(only.corrected.steps.len(), 5);
        assert_eq!(drive_corrections(&group("a", &new), &group("b", &new), &catalog), []);
    }
}
