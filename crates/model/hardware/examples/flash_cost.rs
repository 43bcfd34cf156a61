//! The cost of a solid-state drive's model: host I/Os per second of one core, and the drive's performance in virtual
//! time.
//!
//! Run with `cargo run --release -p raidlab-hardware --example flash_cost [ID]`. The goal is 400,000 a second in steady
//! random
//! writing.
#![expect(clippy::disallowed_methods, clippy::disallowed_types, reason = "an example may read the clock")]

use raidlab_hardware::{
    Catalog, Drive, DriveModel, DriveOp, DriveOptions, DriveRequest, Sector, SectorCount,
};
use raidlab_units::Nanos;
use std::time::Instant;

/// Host I/Os in one measurement.
const REQUESTS: u64 = 4_000_000;

const DEPTH: u32 = 64;

const SECTORS: u64 = 8;

fn main() {
    let catalog = Catalog::builtin();
    let only = std::env::args().nth(1);
    let flash = |drive: &&DriveModel| Drive::new(drive, DriveOptions::default()).flash_counters().is_some();
    for model in catalog.drives().filter(|drive| only.as_ref().is_none_or(|id| *id == drive.id)).filter(flash)
    {
        for (name, op) in [("random write", DriveOp::Write { fua: false }), ("random read", DriveOp::Read)] {
            let (rate, iops) = measure(model, op);
            println!("{:<24} {name:<14} {rate:>12.0} I/Os a second simulated, {iops:>9.0} IOPS", model.id);
        }
    }
}

/// I/Os per second of this core, and per second of virtual time.
fn measure(model: &DriveModel, op: DriveOp) -> (f64, f64) {
    let mut drive = Drive::new(model, DriveOptions::default());
    let places = model.capacity.0 / SECTORS;
    let mut state = 1u64;
    let mut request = |id| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let place = ((u128::from(state) * u128::from(places)) >> 64) as u64;
        DriveRequest { id, op, start: Sector(place * SECTORS), sectors: SectorCount(SECTORS) }
    };
    let mut now = Nanos::ZERO;
    for id in 0..DEPTH {
        drive.handle_request(now, request(id));
    }
    let begin = Instant::now();
    let mut done = 0;
    while done < REQUESTS {
        let Some(due) = drive.poll_deadline() else { break };
        now = due;
        drive.handle_deadline(now);
        while let Some(completion) = drive.poll_completion() {
            done += 1;
            drive.handle_request(now, request(completion.id));
        }
    }
    (done as f64 / begin.elapsed().as_secs_f64(), done as f64 / (now.0 as f64 / 1e9))
}
