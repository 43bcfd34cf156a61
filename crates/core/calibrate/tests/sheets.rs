//! Models from data sheets: they do what the sheet says, or there is none.

use raidlab_calibrate::{
    DiskSheet, Recording, Sheet, SheetError, SheetInterface, SheetKind, SheetSeeks, check_sheet,
    disk_from_sheet, model_from_sheet,
};
use raidlab_hardware::{Catalog, DriveKind};
use raidlab_units::{ByteCount, BytesPerSec, NanoSpan};

/// A sheet by its figures: GB, MB/s, IOPS, us.
fn sheet(
    kind: SheetKind,
    gb: u64,
    mb_per_s: [f64; 2],
    iops: [f64; 2],
    latency_us: Option<[u64; 2]>,
) -> Sheet {
    Sheet {
        id: "mine".into(),
        name: "Mine".into(),
        kind,
        capacity: ByteCount(gb * 1_000_000_000),
        interface: None,
        seq_read: Some(BytesPerSec::from_mb_per_s(mb_per_s[0])),
        seq_write: Some(BytesPerSec::from_mb_per_s(mb_per_s[1])),
        read_iops: Some(iops[0]),
        write_iops: Some(iops[1]),
        read_latency: latency_us.map(|[read, _]| NanoSpan::from_micros(read)),
        write_latency: latency_us.map(|[_, write]| NanoSpan::from_micros(write)),
        read_block: ByteCount::from_kib(4),
        is_measured: false,
        capped: None,
    }
}

/// Spare room of the model, in percent.
fn spare_pct(sheet: &Sheet) -> f64 {
    let made = model_from_sheet(&Catalog::builtin(), sheet).unwrap_or_else(|error| panic!("{error}"));
    for row in &made.rows {
        assert!(row.error_pct().abs() <= 3.0, "{row:?}");
    }
    assert_eq!(made.rows.len(), if sheet.read_latency.is_some() { 6 } else { 4 });
    let given = made.model.sources.iter().filter(|figure| figure.source == "data sheet: as given").count();
    assert!(given >= 1, "the capacity at least");
    assert!(made.model.sources.iter().any(|figure| figure.source.starts_with("fitted: to")));
    let DriveKind::Flash(flash) = &made.model.kind else { panic!("it has a translation layer") };
    flash.translation.spare_pct
}

#[test]
fn a_model_does_what_its_sheet_says() {
    let pcie3 = Some(SheetInterface { link: "pcie-3".into(), lanes: 4 });
    let p4500 = Sheet {
        interface: pcie3,
        ..sheet(SheetKind::Nvme, 4000, [3200.0, 1800.0], [645e3, 62_500.0], Some([115, 20]))
    };
    let cm6_r = sheet(SheetKind::Nvme, 30_720, [6900.0, 4200.0], [1.4e6, 170e3], Some([90, 20]));
    let cm6_v = sheet(SheetKind::Nvme, 12_800, [6900.0, 4200.0], [1.4e6, 350e3], Some([90, 20]));
    let (little, some, more) = (spare_pct(&p4500), spare_pct(&cm6_r), spare_pct(&cm6_v));
    assert!((2.0..15.0).contains(&little), "{little} %");
    assert!(little < some && some < more && more < 60.0, "read-intensive {some} %, mixed use {more} %");
}

#[test]
fn drives_behind_sata_and_sas_are_met_too() {
    spare_pct(&sheet(SheetKind::SataSsd, 960, [560.0, 530.0], [94e3, 65e3], None));
    spare_pct(&sheet(SheetKind::SataSsd, 3840, [500.0, 490.0], [72e3, 33e3], Some([110, 52])));
    let ports = Some(SheetInterface { link: "sas-12g".into(), lanes: 2 });
    spare_pct(&Sheet {
        interface: ports,
        ..sheet(SheetKind::SasSsd, 3840, [2100.0, 2000.0], [400e3, 90e3], None)
    });
}

#[test]
fn limits_that_were_measured_are_enough() {
    let nothing = sheet(SheetKind::Nvme, 7500, [1.0, 1.0], [1.0, 1.0], None);
    let measured = Sheet {
        seq_read: None,
        seq_write: Some(BytesPerSec::from_mb_per_s(1020.0)),
        read_iops: Some(242_934.0),
        write_iops: None,
        read_latency: Some(NanoSpan::from_micros(138)),
        read_block: ByteCount(512),
        is_measured: true,
        ..nothing
    };
    let made = model_from_sheet(&Catalog::builtin(), &measured).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(made.rows.len(), 3);
}

#[test]
fn what_no_drive_does_is_refused() {
    let catalog = Catalog::builtin();
    let usual = || sheet(SheetKind::Nvme, 3840, [6500.0, 3500.0], [900e3, 200e3], None);
    let error = |sheet: Sheet| model_from_sheet(&catalog, &sheet).expect_err("it can't be");
    let too_fast = Sheet { seq_read: Some(BytesPerSec::from_mb_per_s(14_000.0)), ..usual() };
    assert!(matches!(error(too_fast), SheetError::OutOfReach { figure: "seq_read_mb_per_s", .. }));
    let more_than_all = Sheet { write_iops: Some(2e6), ..usual() };
    assert!(matches!(error(more_than_all), SheetError::OutOfReach { figure: "write_iops", .. }));
    let link = Some(SheetInterface { link: "pcie-9".into(), lanes: 4 });
    assert!(matches!(error(Sheet { interface: link, ..usual() }), SheetError::Catalog(_)));
    for sheet in [
        Sheet { capacity: ByteCount(1), ..usual() },
        Sheet { id: "a\"b".into(), ..usual() },
        Sheet { read_iops: Some(f64::NAN), ..usual() },
        Sheet { read_block: ByteCount(100), ..usual() },
        Sheet { write_latency: Some(NanoSpan::ZERO), ..usual() },
    ] {
        assert!(matches!(error(sheet), SheetError::Figure { .. }));
    }
}

/// Some of the catalogue; `raidlab catalog check` does the same with all of it.
#[test]
fn drives_of_the_catalogue_do_what_their_sheets_say() {
    let catalog = Catalog::builtin();
    for id in ["samsung-pm9a3-7680", "intel-s4500-3840", "nvmevirt-970-pro", "st3600057ss", "exos-2x18-18tb"]
    {
        let rows = check_sheet(catalog.drive(id).expect("in the catalogue"));
        assert!(rows.len() >= 4, "{id}");
        for row in rows {
            assert!(row.is_met(), "{id}: {row:?}");
        }
    }
}

/// A model that is not the drive of the sheet is found out, in each of its figures.
#[test]
fn another_drive_does_not_do_what_the_sheet_says() {
    let catalog = Catalog::builtin();
    let mut slow = catalog.drive("st32000444ss").expect("in the catalogue").clone();
    slow.sheet = catalog.drive("st3600057ss").expect("in the catalogue").sheet.clone();
    for row in check_sheet(&slow) {
        assert!(!row.is_met(), "{row:?}");
    }
}

fn disk(capacity_tb: u64) -> DiskSheet {
    DiskSheet {
        id: "mine".into(),
        name: "Mine".into(),
        capacity: ByteCount(capacity_tb * 1_000_000_000_000),
        rpm: None,
        heads: None,
        interface: None,
        seq_read: None,
        seq_inner: None,
        seeks: SheetSeeks::default(),
        read_iops: None,
        write_iops: None,
        iops_depth: 16,
        cache: None,
        physical_sector: None,
        has_two_arms: false,
        recording: Recording::Conventional,
    }
}

/// Sheets of the drives' makers, as drives-datasheets.csv and manuals have them.
#[test]
fn a_disk_does_what_its_sheet_says() {
    let ms = |ms: f64| Some(NanoSpan((ms * 1e6) as u64));
    let mb_per_s = |rate: f64| Some(BytesPerSec::from_mb_per_s(rate));
    let sata = Some(SheetInterface { link: "sata-6g".into(), lanes: 1 });
    let mach2 = DiskSheet {
        seq_read: mb_per_s(524.0),
        read_iops: Some(304.0),
        write_iops: Some(384.0),
        cache: Some(ByteCount::from_mib(256)),
        has_two_arms: true,
        ..disk(14)
    };
    let by_seeks = DiskSheet {
        seq_read: mb_per_s(150.0),
        seq_inner: mb_per_s(60.0),
        seeks: SheetSeeks { read: ms(8.5), write: ms(9.5), ..SheetSeeks::default() },
        interface: sata.clone(),
        ..disk(2)
    };
    let both = DiskSheet {
        read_iops: Some(150.0),
        seeks: SheetSeeks { read: ms(8.5), ..SheetSeeks::default() },
        ..disk(20)
    };
    let fast = DiskSheet {
        rpm: Some(15_000),
        capacity: ByteCount(900_000_000_000),
        seq_read: mb_per_s(300.0),
        seeks: SheetSeeks { read: ms(2.9), ..SheetSeeks::default() },
        ..disk(1)
    };
    let shingled = DiskSheet {
        recording: Recording::ShingledByDrive,
        seq_read: mb_per_s(190.0),
        interface: sata,
        ..disk(8)
    };
    for (sheet, rows) in [(mach2, 3), (by_seeks, 3), (both, 2), (fast, 2), (shingled, 1)] {
        let made = disk_from_sheet(&Catalog::builtin(), &sheet).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(made.rows.len(), rows, "{:?}", made.rows);
        for row in &made.rows {
            assert!(row.error_pct().abs() <= 3.0, "{row:?}");
        }
        assert_eq!(made.model.capacity.0, sheet.capacity.0 / 512 / 16 * 16);
    }
}

#[test]
fn a_disk_that_cannot_be_is_refused() {
    let catalog = Catalog::builtin();
    let error = |sheet: DiskSheet| disk_from_sheet(&catalog, &sheet).expect_err("it can't be");
    assert!(matches!(error(disk(20)), SheetError::Nothing));
    let quick = DiskSheet { read_iops: Some(900.0), ..disk(20) };
    assert!(matches!(error(quick), SheetError::OutOfReach { figure: "read_iops", .. }));
    let inverted = DiskSheet {
        seq_read: Some(BytesPerSec::from_mb_per_s(100.0)),
        seq_inner: Some(BytesPerSec::from_mb_per_s(200.0)),
        ..disk(4)
    };
    assert!(matches!(error(inverted), SheetError::Catalog(_)));
    let rpm = DiskSheet { rpm: Some(90_000), ..disk(4) };
    assert!(matches!(error(rpm), SheetError::Figure { .. }));
    let two =
        DiskSheet { rpm: Some(7200), has_two_arms: true, recording: Recording::ShingledByDrive, ..disk(4) };
    assert!(matches!(error(two), SheetError::Figure { .. }));
}
