//! Where requests in sequence run on disks. The outermost tracks hold twice what the innermost hold, and a short run that begins at the
//! outer edge sees nothing else: an array of twelve disks kept 2.1 GB/s there, and 1.3 GB/s with its last data. So such loads begin in the
//! middle of what they have, and the answer says what is left at its end.

use super::Bench;
use super::application::part_name;
use raidlab_advisor::plan::{Judged, Performance, data_held};
use raidlab_hardware::{DataSheet, DriveKind};
use raidlab_units::ByteCount;
use raidlab_workload::{AccessLine, Places, Workload};

/// What is smaller begins where it begins: a log lies on a few tracks.
const LEAST: ByteCount = ByteCount::from_gib(1);

/// What of the rate of its disks' media an array gets at least where these bound it.
const BOUND_BY_MEDIA: f64 = 0.7;

fn is_in_sequence(lines: &[AccessLine]) -> bool {
    !lines.is_empty() && lines.iter().all(|line| line.random_pct == 0)
}

fn disk_sheet<'a>(bench: &'a Bench<'_>, judged: &Judged) -> Option<&'a DataSheet> {
    match &bench.models(judged.geometry).drive.kind {
        DriveKind::HardDrive(disk) => disk.mechanics.data_sheet(),
        DriveKind::SolidState(_) | DriveKind::Flash(_) => None,
    }
}

/// Lets loads in sequence begin in the middle of what they have on disks, at the start of a stripe.
pub(super) fn begin_in_the_middle(bench: &Bench<'_>, judged: &Judged, workload: &mut Workload) {
    let models = bench.models(judged.geometry);
    if models.drive.is_flash() {
        return;
    }
    let strip = judged.settings.strip.unwrap_or(models.controller.strip_size);
    let strips = data_held(judged.geometry.level, judged.geometry.members).map_or(1, |(strips, _)| strips);
    let stripe = strip.0 * u64::from(strips);
    let move_on = |lines: &[AccessLine], places: &mut Places| {
        let rest = bench.order.needs.usable - places.start.min(bench.order.needs.usable);
        let size = places.size.unwrap_or(rest);
        if is_in_sequence(lines) && size >= LEAST {
            let half = ByteCount(size.0 / 2 / stripe * stripe);
            places.start += half;
            places.size = Some(size - half);
        }
    };
    let spec = &mut workload.spec;
    move_on(&spec.lines, &mut spec.places);
    spec.parts.iter_mut().for_each(|part| move_on(&part.lines, &mut part.places));
}

/// What is left at the end of what each application in sequence has, where the media of its disks bound it.
pub(super) fn at_the_end(bench: &Bench<'_>, judged: &Judged) -> Vec<String> {
    let Some(sheet) = disk_sheet(bench, judged) else { return Vec::new() };
    let held = data_held(judged.geometry.level, judged.geometry.members);
    let Some((_, drives)) = held else { return Vec::new() };
    let (order, needs) = (bench.order, &bench.order.needs);
    let capacity = bench.parts.drives[usize::from(judged.geometry.drive)].capacity.0 as f64;
    let used = (needs.usable.0 as f64 / (capacity * drives)).min(1.0);
    // Tracks hold less in even steps: the square of the rate falls evenly with what lies before.
    let (outer, inner) = (sheet.outer_rate.0.powi(2), sheet.inner_rate.0.powi(2));
    let rate_at = |share: f64| (outer - (outer - inner) * share).sqrt();
    let of_app = |(app, found): (usize, &Performance)| {
        let is_bound = found.bytes_per_sec >= BOUND_BY_MEDIA * rate_at(used / 2.0) * drives;
        if !is_bound || !is_in_sequence(&order.applications[app].workload.spec.lines) {
            return None;
        }
        let last = found.bytes_per_sec * rate_at(used) / rate_at(used / 2.0);
        let bytes_mean = bench.demands[app].bytes_mean;
        let is_short = needs.requests_per_sec(app, bytes_mean).is_some_and(|need| need * bytes_mean > last);
        Some(format!(
            "{} was run in the middle of its data, at {:.0} MB/s; at their end, on the innermost tracks in use, it gets about {:.0} MB/s{}.",
            part_name(order.applications, app),
            found.bytes_per_sec / 1e6,
            last / 1e6,
            if is_short { ", less than it needs" } else { "" }
        ))
    };
    judged.performance.iter().enumerate().filter_map(of_app).collect()
}
