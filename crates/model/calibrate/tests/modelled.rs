//! Drives of the catalogue are calibrated in virtual time: the parameters must be found within 5 %, and so must the
//! performance of a drive built from the entry.

use raidlab_calibrate::{Effort, EntryNames, Estimate, Found, ModelledTarget, RotationalFound, calibrate};
use raidlab_hardware::{Catalog, CatalogFile, DataSheet, DriveKind};
use raidlab_units::NanoSpan;

fn names(id: &str, link: &str) -> EntryNames {
    EntryNames { id: id.into(), name: "Calibrated".into(), link: link.into(), heads: 4 }
}

fn found(catalog: &Catalog, id: &str, may_write: bool) -> Found {
    let model = catalog.drive(id).expect("it is in the catalogue");
    let effort = Effort { may_write, ..Effort::THOROUGH };
    calibrate(&mut ModelledTarget::new(model), &effort, &mut |_, _| {}).expect("it is a drive")
}

fn close(what: &str, found: &Estimate, want: f64, pct: f64) {
    let off = 100.0 * (found.value / want - 1.0);
    assert!(off.abs() <= pct, "{what}: {found:?} is off by {off:.1} % from {want}");
}

fn mechanics_are_close(found: &RotationalFound, sheet: &DataSheet) {
    close("turn", &found.turn_ns, 60e9 / f64::from(sheet.rpm), 0.1);
    close("outer rate", &found.outer_rate, sheet.outer_rate.0, 5.0);
    close("inner rate", &found.inner_rate, sheet.inner_rate.0, 5.0);
    close("average seek", &found.seek_average_ns, sheet.seek_read.average.0 as f64, 5.0);
    close("full stroke", &found.seek_full_ns, sheet.seek_read.full_stroke.0 as f64, 5.0);
}

#[test]
fn hard_drives_come_back() {
    let catalog = Catalog::builtin();
    for id in ["st3600057ss", "st32000444ss", "wd1600aajs"] {
        let Found::Rotational(found) = found(&catalog, id, false) else { panic!("{id} turns") };
        let DriveKind::HardDrive(model) = &catalog.drive(id).expect("known").kind else {
            panic!("{id} turns")
        };
        let sheet = model.mechanics.data_sheet().expect("it is made from a data sheet");
        mechanics_are_close(&found, sheet);
        close("overhead", &found.overhead_ns, model.firmware.overheads.read_miss.read.0 as f64, 5.0);
        close("single track", &found.seek_single_ns, sheet.seek_read.single_track.0 as f64, 5.0);
        let zones = f64::from(sheet.zones);
        assert!(
            (found.zones.len() as f64 / zones - 1.0).abs() <= 0.05,
            "{id}: {} zones of {zones}",
            found.zones.len()
        );
        assert_eq!(found.segments, model.buffer.segments, "{id}");
        let segment = model.buffer.size.0 as f64 / f64::from(model.buffer.segments);
        close("segment", &Estimate { value: found.segment_bytes as f64, low: 0.0, high: 0.0 }, segment, 5.0);
        assert!(found.reads_ahead, "{id}");
    }
}

/// The same through a socket: each access is 40 us on its way, some half a millisecond more, and blocks are of 4096 bytes. A command
/// takes the way's time more, and nothing else may differ.
#[test]
fn hard_drives_come_back_through_a_socket() {
    let catalog = Catalog::builtin();
    for id in ["st3600057ss", "st32000444ss", "wd1600aajs"] {
        let model = catalog.drive(id).expect("it is in the catalogue");
        let trip = NanoSpan::from_micros(40);
        let mut target = ModelledTarget::new(model).behind(trip, 4096, 3);
        let found = calibrate(&mut target, &Effort::THOROUGH, &mut |_, _| {}).expect("it is a drive");
        let (Found::Rotational(found), DriveKind::HardDrive(model)) = (found, &model.kind) else {
            panic!("{id} turns")
        };
        let sheet = model.mechanics.data_sheet().expect("it is made from a data sheet");
        mechanics_are_close(&found, sheet);
        let command = model.firmware.overheads.read_miss.read.0 + trip.0;
        close("overhead", &found.overhead_ns, command as f64, 15.0);
        assert_eq!(found.segments, model.buffer.segments, "{id}");
        assert!(found.reads_ahead, "{id}");
    }
}

/// A drive that is made of the entry queues like the one that was calibrated, whether it is fair to what waits or not.
#[test]
fn the_entry_makes_a_drive_that_does_the_same() {
    let catalog = Catalog::builtin();
    for id in ["st3600057ss", "wd1600aajs", "fc-15k-18gb"] {
        let first = found(&catalog, id, false);
        let text = first.entry(&names("mine", "sas-6g"));
        let file = CatalogFile { name: "mine.toml".into(), text };
        let own = Catalog::with(&[file], &[]).expect("the entry is one of the catalogue");
        let (Found::Rotational(first), Found::Rotational(second)) = (first, found(&own, "mine", false))
        else {
            panic!("both turn")
        };
        for (a, b) in first.queue.iter().zip(&second.queue) {
            let off = b.1 / a.1 - 1.0;
            assert!(off.abs() < 0.05, "{id}, {} in flight: {:.1} and {:.1} per second", a.0, a.1, b.1);
        }
        let weight = |catalog: &Catalog, id: &str| match &catalog.drive(id).expect("known").kind {
            DriveKind::HardDrive(model) => model.firmware.age_weight,
            DriveKind::SolidState(_) | DriveKind::Flash(_) => panic!("{id} turns"),
        };
        let (was, is) = (weight(&catalog, id), weight(&own, "mine"));
        // A drive that takes one command at a time weighs nothing.
        assert!(
            id == "wd1600aajs" || (0.5..2.0).contains(&(is / was)),
            "{id}: age weight {was} came back as {is}"
        );
    }
}

#[test]
fn a_solid_state_drive_comes_back() {
    let catalog = Catalog::builtin();
    let Found::Flash(found) = found(&catalog, "pliant-lb150", true) else { panic!("it does not turn") };
    let DriveKind::SolidState(model) = &catalog.drive("pliant-lb150").expect("known").kind else {
        panic!("it does not turn")
    };
    assert_eq!((found.channels, found.dies), (model.channels, model.channels * model.dies_per_channel));
    close("page read", &found.page_read_ns, model.page_read.0 as f64, 5.0);
    close("overhead", &found.overhead_ns, model.read_overhead.0 as f64, 5.0);
    close("channel", &found.channel_rate, model.channel.rate.0, 5.0);
    let collected = model.write_amplification - 1.0;
    let program =
        model.page_program.0 as f64 * model.write_amplification + model.page_read.0 as f64 * collected;
    close("program", &found.page_program_ns.expect("writes were allowed"), program, 5.0);
    let text = Found::Flash(found).entry(&names("mine", "sas-3g"));
    let file = CatalogFile { name: "mine.toml".into(), text };
    Catalog::with(&[file], &[]).expect("the entry is one of the catalogue");
}
