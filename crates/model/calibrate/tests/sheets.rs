//! Models from data sheets: they do what the sheet says, or there is none.

use raidlab_calibrate::{
    DiskSheet, Recording, SharedCaps, Sheet, SheetCache, SheetError, SheetFacts, SheetInterface, SheetKind,
    SheetSeeks, check_sheet, disk_from_sheet, model_from_sheet,
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
        write_block: ByteCount::from_kib(4),
        unit: None,
        bits_per_cell: None,
        slc: None,
        is_measured: false,
        capped: None,
        shared: SharedCaps::default(),
        facts: SheetFacts::default(),
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

/// A client drive: the sheet's writes are those into the cache, and behind it the drive writes at its sustained rate.
#[test]
fn a_drive_with_a_pseudo_slc_cache_writes_as_its_sheet_says_before_and_behind_it() {
    let client = Sheet {
        slc: Some(SheetCache {
            size: ByteCount(100_000_000_000),
            fixed: ByteCount(6_000_000_000),
            sustained: BytesPerSec::from_mb_per_s(1500.0),
        }),
        ..sheet(SheetKind::Nvme, 2000, [7000.0, 6000.0], [1e6, 1e6], None)
    };
    let made = model_from_sheet(&Catalog::builtin(), &client).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(made.rows.len(), 4);
    let DriveKind::Flash(flash) = &made.model.kind else { panic!("it has a translation layer") };
    assert!(!flash.buffer.protected && flash.slc.is_some_and(|slc| slc.size().0 == 100_000_000_000));
    let mut behind = made.model.clone();
    if let DriveKind::Flash(flash) = &mut behind.kind {
        flash.slc = None;
    }
    behind.sheet.retain(|figure| figure.metric.is_sequential());
    let rates: Vec<f64> = check_sheet(&behind).iter().map(|row| row.predicted).collect();
    assert!((rates[1] / 1500.0 - 1.0).abs() < 0.03, "{rates:?} MB/s");
    let more = Sheet { slc: client.slc.map(|slc| SheetCache { size: ByteCount(3 << 40), ..slc }), ..client };
    assert!(matches!(model_from_sheet(&Catalog::builtin(), &more), Err(SheetError::Figure { .. })));
}

/// What else a sheet says stands in the entry, which is like its class and says no more than what differs.
#[test]
fn an_entry_is_short_and_has_facts_sources_and_ranges() {
    let facts = SheetFacts {
        source: Some("data sheet: Mine".into()),
        year: Some(2022),
        writes_a_day: Some(1.0),
        active_watts: Some(18.0),
        mtbf_hours: Some(2e6),
        bits_per_read_error: Some(1e17),
        estimated: vec!["read-iops".into(), "read-errors".into()],
        at_most: vec!["seq-write".into()],
        ..SheetFacts::default()
    };
    let mine =
        Sheet { facts, ..sheet(SheetKind::Nvme, 7680, [6500.0, 3500.0], [900e3, 150e3], Some([80, 15])) };
    let made = model_from_sheet(&Catalog::builtin(), &mine).unwrap_or_else(|error| panic!("{error}"));
    assert!(made.entry.lines().filter(|line| !line.is_empty()).count() < 50, "{}", made.entry);
    assert!(made.entry.contains("like = \"generic-nvme\""));
    let model = &made.model;
    assert_eq!((model.capacity.0, model.year), (15_002_931_888, Some(2022)));
    let known = &model.reliability;
    assert_eq!(known.rated_writes, Some(ByteCount(14_020_000_000_000_000)));
    assert_eq!(known.sheet_afr_pct.map(|afr| afr.value), Some(0.44));
    assert_eq!(known.bits_per_read_error.map(|bits| (bits.low, bits.high)), Some((1e16, 1e18)));
    let figure = |key: &str| model.sources.iter().find(|figure| figure.key == key).expect("it is there");
    assert_eq!(figure("capacity_sectors").source, "data sheet: Mine");
    assert_eq!(figure("sheet.random_read").low.as_deref(), Some("765000"));
    assert_eq!(figure("sheet.seq_write").low.as_deref(), Some("2625 MB/s"));
    for figure in model.sources.iter().filter(|figure| figure.source.starts_with("fitted:")) {
        assert!(figure.low.is_some() && figure.high.is_some(), "{figure:?}");
    }
}

/// The entries that bench/catalog-from-sheets.py makes say what its table says, and none of its rows is forgotten.
#[test]
fn entries_of_the_catalogue_say_what_the_table_of_sheets_says() {
    let table = include_str!("../../../../validation/drive-sheets.tsv");
    let catalog = Catalog::builtin();
    let mut lines = table.lines().map(|line| line.split('\t').collect::<Vec<_>>());
    let header = lines.next().expect("a header");
    let columns = [
        ("seq_read_mb_s", "seq_read"),
        ("seq_write_mb_s", "seq_write"),
        ("read_iops", "random_read"),
        ("write_iops", "random_write"),
        ("read_latency_us", "read_latency"),
        ("write_latency_us", "write_latency"),
    ];
    let (mut entries, mut figures, mut without) = (0, 0, Vec::new());
    for row in lines {
        let cell = |name: &str| row[header.iter().position(|column| *column == name).expect("a column")];
        let Ok(drive) = catalog.drive(cell("id")) else {
            without.push(cell("id"));
            continue;
        };
        entries += 1;
        assert_eq!(drive.year.map(|year| year.to_string()).as_deref(), Some(cell("year")), "{}", drive.id);
        let tb: f64 = cell("capacity").trim_end_matches(['T', 'G', 'B']).parse().expect("a size");
        let bytes = if cell("capacity").ends_with("GB") { tb * 1e9 } else { tb * 1e12 };
        assert!((drive.capacity.bytes().0 as f64 / bytes - 1.0).abs() < 2e-3, "{}", drive.id);
        for (column, key) in columns {
            let Ok(given) = cell(column).parse::<f64>() else { continue };
            let figure = drive.sheet.iter().find(|figure| figure.metric.key() == key);
            let is_left_out = !drive.is_flash() && key == "seq_write";
            assert!(is_left_out || figure.is_some_and(|figure| figure.value == given), "{}: {key}", drive.id);
            figures += 1;
        }
        assert!(drive.reliability.sheet_afr_pct.is_some(), "{}: no failure rate", drive.id);
        assert!(drive.reliability.bits_per_read_error.is_some(), "{}: no error rate", drive.id);
    }
    // bench/catalog-from-sheets.py says why.
    let known = [
        "micron-9200-max-6400",
        "phison-d205v-122880",
        "samsung-970-pro-1000",
        "seagate-nytro-3332-7680",
        "seagate-exos-x24-24000",
        "seagate-exos-2x18-sata-18000",
        "toshiba-ma11-28000",
    ];
    assert!(without.iter().all(|id| known.contains(id)), "rows without an entry: {without:?}");
    assert!(entries >= 60, "{entries} entries");
    assert!(figures >= 300, "{figures} figures");
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

/// Round figures are a cloud's caps only where the drive behind them could do more; else they are a fast drive's own.
#[test]
fn round_limits_are_caps_below_what_the_class_does() {
    let made = |iops: f64, mb_per_s: f64, capped| {
        let measured = Sheet {
            seq_read: None,
            write_iops: None,
            is_measured: true,
            capped,
            ..sheet(SheetKind::Nvme, 2000, [0.0, mb_per_s], [iops, 0.0], None)
        };
        let made = model_from_sheet(&Catalog::builtin(), &measured).unwrap_or_else(|error| panic!("{error}"));
        let DriveKind::Flash(flash) = made.model.kind else { panic!("a drive with a translation layer") };
        flash.caps.read_iops.is_some()
    };
    assert!(made(170e3, 350.0, None) && made(680e3, 1400.0, None));
    assert!(!made(828e3, 5000.0, None) && !made(1600e3, 3120.0, None) && !made(170e3, 350.0, Some(false)));
    assert!(!made(680e3, 5000.0, None), "it writes faster than the class");
}

/// A hypervisor that caches answers before flash could: 64 us were out of reach, for the quicker pages were not written down.
#[test]
fn what_is_behind_a_cap_may_be_quicker_than_its_class() {
    for micros in [[25, 20], [64, 70], [80, 300], [500, 1500]] {
        let measured = Sheet {
            write_iops: None,
            is_measured: true,
            capped: Some(true),
            ..sheet(SheetKind::Nvme, 252, [500.0, 500.0], [60e3, 0.0], Some(micros))
        };
        let made = model_from_sheet(&Catalog::builtin(), &measured).unwrap_or_else(|error| panic!("{error}"));
        assert!(made.rows.iter().all(|row| row.error_pct().abs() < 1.0), "{:?}", made.rows);
    }
}

/// Clouds cap reads and writes together, with credits: a gp2 volume of 100 GB.
#[test]
fn caps_that_are_shared_are_told_of_the_drive() {
    let shared = SharedCaps { iops: Some(300.0), credits: Some(5.4e6), burst_iops: Some(3e3), rate: None };
    let of = |shared, capped| {
        let nothing = Sheet {
            write_iops: None,
            seq_read: None,
            seq_write: None,
            ..sheet(SheetKind::Nvme, 100, [0.0; 2], [3e3, 0.0], None)
        };
        model_from_sheet(&Catalog::builtin(), &Sheet { is_measured: true, shared, capped, ..nothing })
    };
    let made = of(shared, None).unwrap_or_else(|error| panic!("{error}"));
    let DriveKind::Flash(flash) = made.model.kind else { panic!("a drive with a translation layer") };
    assert_eq!(
        (flash.caps.iops, flash.caps.credits, flash.caps.burst_iops),
        (Some(300.0), Some(5.4e6), Some(3e3))
    );
    for (shared, capped) in [
        (SharedCaps { iops: None, ..shared }, None),
        (SharedCaps { burst_iops: Some(200.0), ..shared }, None),
        (shared, Some(false)),
    ] {
        assert!(matches!(of(shared, capped), Err(SheetError::Figure { .. })), "{shared:?}");
    }
    assert!(matches!(
        of(SharedCaps { credits: None, burst_iops: None, ..shared }, None),
        Err(SheetError::OutOfReach { .. })
    ));
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
    for id in [
        "samsung-pm9a3-7680",
        "intel-s4500-3840",
        "nvmevirt-970-pro",
        "nvmevirt-zn540",
        "st3600057ss",
        "exos-2x18-18tb",
    ] {
        let rows = check_sheet(catalog.drive(id).expect("in the catalogue"));
        assert!(rows.len() >= 4, "{id}");
        for row in rows {
            assert!(row.is_met(), "{id}: {row:?}");
        }
    }
}

/// All of them, as `raidlab catalog check` does it.
#[test]
#[ignore = "takes a minute"]
fn all_drives_of_the_catalogue_do_what_their_sheets_say() {
    let catalog = Catalog::builtin();
    let (mut drives, mut errors, mut missed) = (0, Vec::new(), Vec::new());
    for drive in catalog.drives().filter(|drive| !drive.sheet.is_empty()) {
        drives += 1;
        for row in check_sheet(drive) {
            let metric = row.figure.metric;
            errors.push((metric.is_time(), row.error_pct().abs()));
            if !row.is_met() {
                missed.push(format!("{} {}: {:+.1} %", drive.id, metric.name(), row.error_pct()));
            }
        }
    }
    errors.sort_by(|a: &(bool, f64), b| a.1.total_cmp(&b.1));
    let worst = |times| {
        errors.iter().filter(|(is_time, _)| *is_time == times).map(|(_, error)| *error).fold(0.0, f64::max)
    };
    let half = errors[errors.len() / 2].1;
    println!("{drives} drives, {} figures: half within {half:.2} %", errors.len());
    println!("rates within {:.1} %, times within {:.1} %", worst(false), worst(true));
    assert!(missed.is_empty(), "{missed:#?}");
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
        read_block: ByteCount::from_kib(4),
        ..DiskSheet::default()
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
        let more = made.model.capacity.bytes().0 as f64 / sheet.capacity.0 as f64;
        assert!(
            (1.0..1.001).contains(&more) && made.model.capacity.0.is_multiple_of(8),
            "{more} of its capacity"
        );
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

/// Every kind of drive over every interface it comes with, by a whole sheet, by parts of one and by what was measured: each figure
/// that was given is met within 3 %, and each of the entry's figures is told as given, derived or assumed.
#[test]
fn sheets_of_every_kind_are_met_over_every_interface() {
    let all = |kind, link: &str, lanes, mb_per_s, iops, latency_us| Sheet {
        interface: Some(SheetInterface { link: link.into(), lanes }),
        ..sheet(kind, 3840, mb_per_s, iops, latency_us)
    };
    let whole = [
        all(SheetKind::Nvme, "pcie-3", 4, [3200.0, 2000.0], [600e3, 80e3], Some([95, 20])),
        all(SheetKind::Nvme, "pcie-5", 4, [13_000.0, 6500.0], [2.5e6, 400e3], Some([65, 12])),
        all(SheetKind::Nvme, "pcie-5", 2, [6800.0, 4000.0], [1.0e6, 200e3], Some([75, 15])),
        all(SheetKind::SataSsd, "sata-3g", 1, [270.0, 250.0], [60e3, 20e3], None),
        all(SheetKind::SasSsd, "sas-12g", 1, [1050.0, 900.0], [200e3, 60e3], Some([110, 30])),
        all(SheetKind::SasSsd, "sas-24g", 1, [2100.0, 1900.0], [350e3, 90e3], Some([100, 25])),
        all(SheetKind::SasSsd, "sas-24g", 2, [4200.0, 3700.0], [700e3, 150e3], Some([100, 25])),
    ];
    for sheet in whole {
        let measured = Sheet {
            seq_read: None,
            write_iops: None,
            read_latency: None,
            write_latency: None,
            read_block: ByteCount(512),
            is_measured: true,
            capped: Some(false),
            ..sheet.clone()
        };
        let given = if sheet.read_latency.is_some() { 6 } else { 4 };
        for (sheet, given) in [(&sheet, given), (&measured, 2)] {
            let made = model_from_sheet(&Catalog::builtin(), sheet);
            let made = made.unwrap_or_else(|error| panic!("{:?}: {error}", sheet.interface));
            assert_eq!(made.rows.len(), given, "{:?}", made.rows);
            let is_told = |key: &str| made.model.sources.iter().any(|figure| figure.key == key);
            for key in ["capacity_sectors", "interface.rate", "host.ports", "flash.program"] {
                assert!(is_told(key), "{key}: {:?}", sheet.interface);
            }
        }
    }
}

#[test]
fn an_interface_of_another_kind_is_refused() {
    for (kind, link, lanes) in [
        (SheetKind::Nvme, "sata-6g", 1),
        (SheetKind::Nvme, "pcie-4", 3),
        (SheetKind::SataSsd, "sata-6g", 2),
        (SheetKind::SasSsd, "sas-12g", 4),
        (SheetKind::SasSsd, "pcie-4", 4),
    ] {
        let interface = Some(SheetInterface { link: link.into(), lanes });
        let sheet = Sheet { interface, ..sheet(kind, 960, [200.0, 200.0], [50e3, 20e3], None) };
        let error = model_from_sheet(&Catalog::builtin(), &sheet).expect_err("it can't be");
        assert!(matches!(error, SheetError::Figure { figure: "an interface", .. }), "{error}");
    }
}

/// What little is known of a disk: figures of a sheet in any order, and limits that were measured.
#[test]
fn disks_are_met_over_every_interface_and_by_what_was_measured() {
    let mb_per_s = |rate: f64| Some(BytesPerSec::from_mb_per_s(rate));
    let measured = DiskSheet {
        seq_write: mb_per_s(182.188),
        read_iops: Some(130.0),
        read_block: ByteCount(512),
        is_measured: true,
        ..disk(2)
    };
    let alone = DiskSheet { read_latency: Some(NanoSpan::from_micros(15_401)), ..measured.clone() };
    let written = DiskSheet {
        seq_read: mb_per_s(280.0),
        seq_write: mb_per_s(280.0),
        write_iops: Some(500.0),
        read_latency: Some(NanoSpan::from_micros(12_500)),
        write_latency: Some(NanoSpan::from_micros(250)),
        ..disk(20)
    };
    for (sheet, rows) in [(measured, 2), (alone, 3), (written, 5)] {
        for (link, lanes) in [("sata-6g", 1), ("sas-12g", 1), ("sas-12g", 2), ("sas-24g", 2)] {
            let interface = Some(SheetInterface { link: link.into(), lanes });
            let sheet = DiskSheet { interface, ..sheet.clone() };
            let made = disk_from_sheet(&Catalog::builtin(), &sheet);
            let made = made.unwrap_or_else(|error| panic!("{link}x{lanes}: {error}"));
            assert_eq!(made.rows.len(), rows, "{:?}", made.rows);
        }
    }
}
