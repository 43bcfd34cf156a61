//! The available drives of `DiskSim` 4.0's validation suite, from their files to the demerit figure.
//!
//! Verified: the contents of the files reach the model; the demerit figure of each drive stays within its bound. The
//! bounds are a little above the figures in `docs/models.md`. Not verified: drives of other layouts.

use proptest::prelude::*;
use raidlab_disksim::{DriveFiles, ImportErrors, Imported, ReplayError, import, parse_trace, validate};
use raidlab_hardware::{DriveKind, HardDriveModel, MechanicsModel, Sector};
use std::cell::Cell;

macro_rules! suite_file {
    ($name:literal) => {
        ($name, include_str!(concat!("../../../../validation/disksim-4.0/", $name)))
    };
}

type File = (&'static str, &'static str);

struct Case {
    name: &'static str,
    specs: File,
    model: File,
    seek: Option<File>,
    system: File,
    trace: &'static str,
    demerit_pct_max: f64,
}

impl Case {
    fn import(&self) -> Result<Imported, ImportErrors> {
        let files = DriveFiles {
            name: self.name,
            specs_file: self.specs.0,
            specs: self.specs.1,
            model: Some(self.model),
            system: Some(self.system),
        };
        import(&files, &mut |file| self.seek.filter(|seek| seek.0 == file).map(|seek| seek.1.to_owned()))
    }
}

fn cases() -> [Case; 6] {
    [
        Case {
            name: "dec_rz26",
            specs: suite_file!("dec_rz26.diskspecs"),
            model: suite_file!("dec_rz26_validate.model"),
            seek: Some(suite_file!("dec_rz26_validate.seek")),
            system: suite_file!("dec_rz26.parv"),
            trace: suite_file!("dec_rz26.trace").1,
            demerit_pct_max: 2.65,
        },
        Case {
            name: "hp_c2247a",
            specs: suite_file!("hp_c2247a.diskspecs"),
            model: suite_file!("hp_c2247a_validate.model"),
            seek: None,
            system: suite_file!("hp_c2247a.parv"),
            trace: suite_file!("hp_c2247a.trace").1,
            demerit_pct_max: 1.25,
        },
        Case {
            name: "hp_c3323a",
            specs: suite_file!("hp_c3323a.diskspecs"),
            model: suite_file!("hp_c3323a_validate.model"),
            seek: Some(suite_file!("hp_c3323a_validate.seek")),
            system: suite_file!("hp_c3323a.parv"),
            trace: suite_file!("hp_c3323a.trace").1,
            demerit_pct_max: 1.75,
        },
        Case {
            name: "barracuda",
            specs: suite_file!("barracuda.diskspecs"),
            model: suite_file!("barracuda.model"),
            seek: Some(suite_file!("barracuda.seek")),
            system: suite_file!("barracuda.parv"),
            trace: suite_file!("barracuda.trace").1,
            demerit_pct_max: 3.6,
        },
        Case {
            name: "atlas_III",
            specs: suite_file!("atlas_III.diskspecs"),
            model: suite_file!("atlas_III.model"),
            seek: Some(suite_file!("atlas_III.seek")),
            system: suite_file!("atlas_III.parv"),
            trace: suite_file!("atlas_III.trace").1,
            demerit_pct_max: 3.25,
        },
        Case {
            name: "cheetah4LP",
            specs: suite_file!("cheetah4LP.diskspecs"),
            model: suite_file!("cheetah4LP.model"),
            seek: Some(suite_file!("cheetah4LP.seek")),
            system: suite_file!("cheetah4LP.parv"),
            trace: suite_file!("cheetah4LP.trace").1,
            demerit_pct_max: 4.9,
        },
    ]
}

fn inside(imported: &Imported) -> &HardDriveModel {
    let DriveKind::HardDrive(inside) = &imported.model.kind else { panic!("a hard drive") };
    inside
}

#[test]
fn predicted_response_times_are_as_near_as_they_were() {
    for case in cases() {
        let imported = case.import().expect("sound files");
        let trace = parse_trace(case.trace).expect("a sound trace");
        let validation = validate(&imported.model, &trace).expect("the drive has all sectors of the trace");
        let demerit = validation.demerit_pct;
        assert!(demerit <= case.demerit_pct_max, "{}: {demerit:.2} %", case.name);
        // A model that is much better than it was deserves a tighter bound.
        assert!(demerit > case.demerit_pct_max * 0.8, "{}: {demerit:.2} %, tighten the bound", case.name);
    }
}

#[test]
fn known_keys_cause_no_warnings() {
    for case in cases() {
        let imported = case.import().expect("sound files");
        let odd: Vec<_> =
            imported.warnings.iter().filter(|warning| !warning.contains("blocks, its layout")).collect();
        assert!(odd.is_empty(), "{}: {odd:?}", case.name);
    }
}

#[test]
fn figures_of_the_files_arrive_in_the_model() {
    let cases = cases();
    let dec = cases[0].import().expect("sound files");
    assert_eq!(dec.model.capacity.0, 2_050_860, "as the file's block count says");
    let MechanicsModel::Measured(mechanics) = &inside(&dec).mechanics else { panic!("measured") };
    assert!((mechanics.rpm - 5360.0).abs() < 1e-9);
    assert_eq!(mechanics.write_settle_ns, -483_000);
    assert_eq!(mechanics.seek[8].0, 2_883_440);
    // 23142 places at the front, then 57 of each track's 58: the first block is in track 406, cylinder 29.
    let first = mechanics.tracks.locate(Sector(0));
    assert_eq!((first.cylinder, first.head, first.sectors), (29, 0, 57));
    let hp = cases[1].import().expect("sound files");
    let overheads = inside(&hp).firmware.overheads;
    assert_eq!(overheads.read_hit.read.0, 953_430 + 25_190);
    assert_eq!(overheads.early_disconnect.map(|early| early.seek.0), Some(642_440 + 250_000));
    let bus = inside(&hp).bus.expect("the file has one");
    assert_eq!(
        (bus.read.transfer_time(bus.piece).0, bus.write.transfer_time(bus.piece).0),
        (170_100, 186_860)
    );
    assert_eq!(bus.read_high_water_pct, Some(75));
}

#[test]
fn what_is_missing_or_unknown_is_named() {
    let cases = cases();
    let case = &cases[3];
    let import_of = |specs: &str, model: &str, seek: Option<&str>| {
        let files = DriveFiles {
            name: "x",
            specs_file: "x.diskspecs",
            specs,
            model: Some(("x.model", model)),
            system: None,
        };
        import(&files, &mut |_| seek.map(str::to_owned))
    };
    let seek = case.seek.map(|seek| seek.1);
    let without_curve = import_of(case.specs.1, case.model.1, None).expect_err("no curve");
    assert!(without_curve.to_string().contains("barracuda.seek"), "{without_curve}");
    let bus = import_of(cases[0].specs.1, case.model.1, seek).expect("5 MB/s").warnings;
    assert!(bus.iter().any(|warning| warning.contains("5 MB/s")), "{bus:?}");
    let layout = case.model.1.replace("Layout Model = dm_layout_g1 {", "Layout Model = dm_layout_g9 {");
    let other = import_of(case.specs.1, &layout, seek).expect_err("no such layout");
    assert!(other.to_string().contains("dm_layout_g9"), "{other}");
    let model = case.model.1.replace("Rotation speed (in rpms)", "Rotation sped (in rpms)");
    let missing = import_of(case.specs.1, &model, seek).expect_err("no speed");
    assert!(missing.to_string().contains("'Rotation speed (in rpms)'"), "{missing}");
    let specs = case.specs.1.replace("Preseeking level", "Preseking level");
    let odd = import_of(&specs, case.model.1, seek).expect("only odd").warnings;
    assert!(
        odd.iter()
            .any(|warning| warning.contains("'Preseking level'") && warning.contains("'Preseeking level'"))
    );
}

#[test]
fn figures_that_can_not_be_are_refused_and_not_bent() {
    let [mut case, ..] = cases();
    let specs = [
        ("Time scale for overheads = 1.0", "Time scale for overheads = -1.0"),
        ("High (read) water mark = 0.0", "High (read) water mark = 7.0"),
    ];
    let specs = specs.iter().fold(case.specs.1.to_owned(), |text, (from, to)| {
        assert!(text.contains(from), "{from}");
        text.replacen(from, to, 1)
    });
    let model =
        case.model.1.replacen("Add. write settling delay = -0.", "Add. write settling delay = -5000.", 1);
    case.specs.1 = specs.leak();
    case.model.1 = model.leak();
    // One for each part of the drive, all at once.
    let said = case.import().expect_err("three odd figures").to_string();
    for key in ["Time scale for overheads", "High (read) water mark", "Add. write settling delay"] {
        assert!(said.contains(key), "{key} is not in {said}");
    }
}

#[test]
fn a_trace_that_measured_nothing_is_refused() {
    let drive = cases()[3].import().expect("sound files");
    let trace = parse_trace("R Hit 0 8 0 0\nR Hit 8 8 0 0\n").expect("a sound trace");
    assert_eq!(validate(&drive.model, &trace), Err(ReplayError::NothingMeasured));
}

/// The block of `text` that begins with `head`, and the text with `instead` for it.
fn taken_out(text: &str, head: &str, instead: &str) -> (String, String) {
    let start = text.find(head).expect("the block is there");
    let mut depth = 0_i32;
    let length = text[start..].find(|c| {
        depth += i32::from(c == '{') - i32::from(c == '}');
        c == '}' && depth == 0
    });
    let end = start + length.expect("it ends") + 1;
    (text[start..end].to_owned(), format!("{}{instead}{}", &text[..start], &text[end..]))
}

#[test]
fn layout_and_mechanics_may_stand_in_files_of_their_own() {
    let case = cases().into_iter().find(|case| case.model.1.contains("dm_layout_g1 {")).expect("one has it");
    let (layout, model) = taken_out(case.model.1, "dm_layout_g1 {", "source a.layout");
    let (mech, model) = taken_out(&model, "dm_mech_g1 {", "source a.mech");
    let files = DriveFiles {
        name: case.name,
        specs_file: case.specs.0,
        specs: case.specs.1,
        model: Some((case.model.0, &model)),
        system: Some(case.system),
    };
    let mut fetch = |file: &str| match file {
        "a.layout" => Some(layout.clone()),
        "a.mech" => Some(mech.clone()),
        _ => case.seek.filter(|seek| seek.0 == file).map(|seek| seek.1.to_owned()),
    };
    let found = import(&files, &mut fetch).expect("sound");
    assert_eq!(format!("{:?}", found.model), format!("{:?}", case.import().expect("sound").model));
    let error =
        import(&files, &mut |file| fetch(file).filter(|_| file != "a.layout")).expect_err("one is not there");
    assert!(error.to_string().contains("a.layout, which"), "{error}");
    let error =
        import(&files, &mut |file| if file == "a.layout" { Some(String::new()) } else { fetch(file) });
    assert!(error.is_err_and(|error| error.to_string().contains("a.layout: there is no")));
}

/// Whatever stands in a place of a file: it is refused, or makes a drive that serves requests.
#[test]
fn spoilt_files_are_refused_or_make_a_drive() {
    let (refused, made) = (Cell::new(0), Cell::new(0));
    proptest!(ProptestConfig::with_cases(300), |(
        which in 0usize..6,
        file in 0usize..4,
        at in 0.0f64..1.0,
        cut in 0usize..12,
        odd in "[0-9.{}=,# e\\[\\]-]{0,6}|source|-1|1e300|0|nan|99999999",
    )| {
        let case = &cases()[which];
        let spoil = |index: usize, text: &str| {
            if index != file {
                return text.to_owned();
            }
            let from = (text.len() as f64 * at) as usize;
            let until = (from + cut).min(text.len());
            text[..from].to_owned() + &odd + &text[until..]
        };
        let (specs, model, system) = (spoil(0, case.specs.1), spoil(1, case.model.1), spoil(2, case.system.1));
        let files = DriveFiles {
            name: case.name,
            specs_file: case.specs.0,
            specs: &specs,
            model: Some((case.model.0, &model)),
            system: Some((case.system.0, &system)),
        };
        let imported = import(&files, &mut |_| case.seek.map(|seek| spoil(3, seek.1)));
        if let Ok(imported) = imported {
            let trace = parse_trace(case.trace).expect("a sound trace");
            // A smaller drive may not have them all.
            let _ = validate(&imported.model, &trace[..100]);
            made.set(made.get() + 1);
        } else {
            refused.set(refused.get() + 1);
        }
    });
    assert!(refused.get() >= 30, "{} were refused", refused.get());
    assert!(made.get() >= 30, "{} drives were made", made.get());
}
