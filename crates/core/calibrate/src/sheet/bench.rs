//! A drive's model measured from outside, as the figures of a data sheet are.

use raidlab_hardware::{
    Drive, DriveCondition, DriveHistory, DriveModel, DriveOp, DriveOptions, DriveRequest, Sector, SectorCount,
};
use raidlab_units::{NanoSpan, Nanos};
use raidlab_workload::Rng;

const SECTOR_BYTES: u64 = 512;

/// What a data sheet's figure is measured with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Load {
    pub(super) op: DriveOp,
    pub(super) bytes: u64,
    pub(super) iodepth: u32,
    pub(super) is_random: bool,
    pub(super) history: DriveHistory,
    pub(super) commands: u64,
}

/// What came of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    pub(super) commands_per_sec: f64,
    pub(super) response_ns_median: f64,
}

/// Runs `load` in a closed loop; the first third is not counted.
pub(super) fn run(model: &DriveModel, load: &Load) -> Seen {
    let condition = DriveCondition { history: load.history, ..DriveCondition::default() };
    // A class without a condition would have been refused before.
    let model = model.clone().in_condition(condition).expect("it has a translation layer");
    let mut drive = Drive::new(&model, DriveOptions::default());
    let sectors = load.bytes / SECTOR_BYTES;
    let places = (model.capacity.0 / sectors).max(1);
    let mut random = Rng::new(1);
    let mut issued = 0;
    let mut request = |id| {
        let place = if load.is_random { random.below(places) } else { issued % places };
        issued += 1;
        DriveRequest { id, op: load.op, start: Sector(place * sectors), sectors: SectorCount(sectors) }
    };
    let mut started = vec![Nanos::ZERO; load.iodepth as usize];
    let mut responses = Vec::with_capacity(load.commands as usize);
    let (mut now, mut counted_from) = (Nanos::ZERO, Nanos::ZERO);
    for id in 0..load.iodepth {
        drive.handle_request(now, request(id));
    }
    let ramp = load.commands / 3;
    let mut done = 0;
    while done < load.commands {
        now = drive.poll_deadline().expect("commands are outstanding");
        drive.handle_deadline(now);
        while let Some(completion) = drive.poll_completion() {
            let start = core::mem::replace(&mut started[completion.id as usize], now);
            done += 1;
            if done == ramp {
                counted_from = now;
            }
            if done > ramp {
                responses.push((now - start).0);
            }
            drive.handle_request(now, request(completion.id));
        }
    }
    let window = now.saturating_since(counted_from).max(NanoSpan(1));
    let middle = responses.len() / 2;
    let (_, median, _) = responses.select_nth_unstable(middle);
    let response_ns_median = *median as f64;
    Seen { commands_per_sec: responses.len() as f64 / window.as_secs_f64(), response_ns_median }
}
