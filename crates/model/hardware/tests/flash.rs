//! Whole solid-state drives from outside: the effect of their write buffer, translation layer and flash on a host.
//!
//! Verified on the defaults of a class, not on a real drive: directions and bounds, and figures that follow from the
//! model's own parts. Sheets (raidlab-calibrate) and measured matrices cover real drives.

mod loops;

use loops::{Random, drive_closed_loop};
use raidlab_hardware::{
    Catalog, Drive, DriveCondition, DriveHistory, DriveKind, DriveModel, DriveOp, DriveOptions, FlashModel,
};

const WRITE: DriveOp = DriveOp::Write { fua: false };
const FORCED: DriveOp = DriveOp::Write { fua: true };

/// The `NVMe` drive of the catalogue, changed.
fn nvme(change: impl FnOnce(&mut FlashModel)) -> DriveModel {
    let mut model = Catalog::builtin().drive("generic-nvme").expect("in the catalogue").clone();
    let DriveKind::Flash(flash) = &mut model.kind else { panic!("it has a translation layer") };
    change(flash);
    model
}

fn in_history(history: DriveHistory) -> DriveModel {
    nvme(|flash| flash.condition.history = history)
}

/// Commands of `sectors` a second and their mean response in us, at random or in sequence.
fn measured(model: &DriveModel, op: DriveOp, sectors: u64, iodepth: u32, is_random: bool) -> (f64, f64) {
    let mut drive = Drive::new(model, DriveOptions::default());
    let (mut random, places) = (Random(3), model.capacity.0 / sectors);
    let count = if sectors > 64 { 40_000 } else { 150_000 };
    let count = if iodepth == 1 { 1000 } else { count };
    let next = |i| (op, if is_random { random.below(places) } else { i % places } * sectors, sectors);
    let seen = drive_closed_loop(&mut drive, iodepth, count, next);
    (seen.commands_per_sec, seen.response_ms_mean * 1e3)
}

#[test]
fn a_single_write_ends_in_the_protected_buffer() {
    let (_, write_us) = measured(&in_history(DriveHistory::default()), WRITE, 8, 1, true);
    assert!((8.0..25.0).contains(&write_us), "{write_us} us");
    let (_, read_us) = measured(&in_history(DriveHistory::default()), DriveOp::Read, 8, 1, true);
    assert!((60.0..110.0).contains(&read_us), "{read_us} us");
}

#[test]
fn sequential_writes_cost_no_amplification_and_random_ones_do() {
    let model = in_history(DriveHistory::default());
    let sequential = measured(&in_history(DriveHistory::Sequential), WRITE, 256, 32, false).0 * 131_072.0;
    let DriveKind::Flash(flash) = &model.kind else { panic!("it has a translation layer") };
    let programs = flash.cells.program_rate().0;
    assert!(
        (sequential / programs - 1.0).abs() < 0.05,
        "{sequential} bytes per second, dies take {programs}"
    );
    let random = measured(&model, WRITE, 8, 128, true).0 * 4096.0;
    let ratio = sequential / random;
    assert!((3.5..6.5).contains(&ratio), "with 12 % to spare, random writes are {ratio:.2} times slower");
    let fresh = measured(&in_history(DriveHistory::Fresh), WRITE, 8, 128, true).0 * 4096.0;
    assert!(fresh > 2.5 * random, "fresh: {fresh}, steady: {random}");
}

#[test]
fn a_drive_that_is_half_full_has_room_to_spare() {
    let rate = |fill_pct| {
        let condition = DriveCondition { history: DriveHistory::Random(3), fill_pct };
        let model = nvme(|flash| flash.condition = condition);
        let places = model.capacity.0 / 8 * u64::from(fill_pct) / 100;
        let mut random = Random(3);
        let next = |_| (WRITE, random.below(places) * 8, 8);
        drive_closed_loop(&mut Drive::new(&model, DriveOptions::default()), 128, 100_000, next)
            .commands_per_sec
    };
    let (half, full) = (rate(50), rate(100));
    assert!(half > 2.5 * full, "half full: {half}, full: {full}");
}

/// Writes to one block were as slow as one program after the other.
#[test]
fn writes_to_one_block_meet_in_the_buffer() {
    let model = in_history(DriveHistory::default());
    let mut drive = Drive::new(&model, DriveOptions::default());
    let seen = drive_closed_loop(&mut drive, 32, 100_000, |_| (WRITE, 8, 8));
    assert!(seen.commands_per_sec > 300_000.0, "{} a second", seen.commands_per_sec);
    let counters = drive.flash_counters().expect("it is followed");
    assert!(counters.programs < 100, "{counters:?}");
}

#[test]
fn a_write_smaller_than_the_mapping_unit_reads_the_rest() {
    let unit = |kib| {
        move |flash: &mut FlashModel| {
            flash.translation.unit = raidlab_units::ByteCount::from_kib(kib);
        }
    };
    let iops = |kib, sectors| measured(&nvme(unit(kib)), WRITE, sectors, 128, true).0;
    let (whole, small) = (iops(16, 32), iops(16, 8));
    assert!(small < 1.05 * whole, "4 KiB cost what 16 KiB do: {small} and {whole} a second");
    assert!(iops(4, 8) > 3.0 * small, "a map of 4 KiB writes 4 KiB");
    let sectors = iops(4, 1);
    assert!(sectors < 1.05 * iops(4, 8), "one sector costs a unit: {sectors} a second");
}

#[test]
fn only_an_unprotected_buffer_has_to_be_flushed() {
    let mixed = |protected, op| {
        let model = nvme(|flash| {
            flash.buffer.protected = protected;
            flash.condition.history = DriveHistory::Sequential;
        });
        let mut random = Random(5);
        let next = |i| {
            if op == DriveOp::Flush && i % 2 == 1 {
                (op, 0, 0)
            } else {
                (if op == FORCED { FORCED } else { WRITE }, random.below(1_000_000) * 8, 8)
            }
        };
        drive_closed_loop(&mut Drive::new(&model, DriveOptions::default()), 1, 400, next).response_ms_mean
            * 1e3
    };
    let DriveKind::Flash(flash) = nvme(|_| {}).kind else { panic!("it has a translation layer") };
    // Every second command is a flush.
    let program_us = flash.cells.program.0 as f64 / 1e3;
    for op in [DriveOp::Flush, FORCED] {
        let (protected, unprotected) = (mixed(true, op), mixed(false, op));
        assert!(protected < 30.0, "{op:?}: {protected} us");
        assert!(unprotected > 0.5 * program_us, "{op:?} waits for a program: {unprotected} us");
    }
    let plain = mixed(false, WRITE);
    assert!(plain < 30.0, "without flushes: {plain} us");
}

#[test]
fn reads_hit_the_buffer_and_what_was_never_written_needs_no_flash() {
    let model = in_history(DriveHistory::default());
    let next = |i| (if i % 2 == 0 { WRITE } else { DriveOp::Read }, i / 2 % 16 * 8, 8);
    let seen = drive_closed_loop(&mut Drive::new(&model, DriveOptions::default()), 1, 1000, next);
    assert!(seen.response_ms_mean < 0.025, "{} ms", seen.response_ms_mean);
    let (_, fresh_us) = measured(&in_history(DriveHistory::Fresh), DriveOp::Read, 8, 1, true);
    assert!(fresh_us < 25.0, "{fresh_us} us");
}

#[test]
fn long_reads_are_slow_where_small_writes_scattered_the_data() {
    let rate = |history| measured(&in_history(history), DriveOp::Read, 256, 4, false).0;
    let (ordered, scattered) = (rate(DriveHistory::Sequential), rate(DriveHistory::default()));
    assert!(ordered > 1.3 * scattered, "in order: {ordered}, scattered: {scattered} a second");
}

/// A volume of a cloud has one limit for reads and writes, which it may exceed while credits last.
#[test]
fn reads_and_writes_share_a_cap_and_its_credits() {
    let per_sec = |credits, count| {
        let model = nvme(|flash| {
            flash.condition.history = DriveHistory::Sequential;
            flash.caps.iops = Some(3_000.0);
            (flash.caps.credits, flash.caps.burst_iops) = (credits, Some(20_000.0));
        });
        let mut random = Random(7);
        let next = |i| (if i % 2 == 0 { WRITE } else { DriveOp::Read }, random.below(1_000_000) * 8, 8);
        drive_closed_loop(&mut Drive::new(&model, DriveOptions::default()), 32, count, next).commands_per_sec
    };
    let is_near = |seen: f64, wanted: f64| (seen / wanted - 1.0).abs() < 0.01;
    assert!(is_near(per_sec(None, 12_000), 3_000.0), "{}", per_sec(None, 12_000));
    // 17,000 a second beyond the cap for four seconds, and three seconds of the cap.
    let of_all = |count| per_sec(Some(68_000.0), count);
    assert!(is_near(of_all(40_000), 20_000.0), "{}", of_all(40_000));
    assert!(is_near(of_all(89_000), 89_000.0 / 7.0), "{}", of_all(89_000));
}

/// A hypervisor's limit holds whatever the drive could do.
#[test]
fn caps_hold() {
    let model = nvme(|flash| {
        flash.condition.history = DriveHistory::Sequential;
        flash.caps.read_iops = Some(170_000.0);
        flash.caps.write_rate = Some(raidlab_units::BytesPerSec::from_mb_per_s(350.0));
    });
    let reads = measured(&model, DriveOp::Read, 8, 128, true).0;
    assert!((reads / 170_000.0 - 1.0).abs() < 0.01, "{reads} reads a second");
    let written = measured(&model, WRITE, 256, 64, false).0 * 131_072.0;
    assert!((written / 350e6 - 1.0).abs() < 0.01, "{written} bytes per second");
}
