//! Study files: their meaning, and every possible error.

use super::*;
use raidlab_workload::Metric;

const FIRST_LOOK: &str = include_str!("../../../../../studies/first-look.toml");
const DUAL: &str = include_str!("../../../../../studies/dual-controllers.toml");

fn parse(text: &str) -> Result<Study, StudyFileError> {
    Study::parse("mine.toml", text, &Catalog::builtin())
}

const HEAD: &str = "schema = 1\ntitle = 't'\nquestion = 'q'\nseed = 1\n\
                    [load]\nworkloads = ['database']\niodepths = [1, 8]\nramp = '10ms'\nrun = '50ms'\n";
const ARRAY: &str = "[[array]]\ndirectory = 'd'\nlevels = ['5', '0']\nmembers = 3\nmember-size = '8MiB'\n\
                     strip-size = '64KiB'\nwrite-policies = ['write-through', 'write-back']\ndisk-cache = true\n";
const SIMULATE: &str = "[[simulate]]\ncontroller = 'perc-h800'\ndrive = 'st3600057ss'\nlevels = ['6']\nmembers = 6\n\
                        write-policies = ['write-back']\nregion = '8GB'\n";

#[test]
fn the_first_look_is_what_it_says() {
    let study = parse(FIRST_LOOK).unwrap();
    let (measure, array, simulate) = (&study.measures[0], &study.arrays[0], &study.simulations[0]);
    for load in [&measure.load, &array.load, &simulate.load] {
        let names: Vec<&str> = load.workloads.iter().map(raidlab_workload::Workload::name).collect();
        assert_eq!(
            names,
            [
                "storagebench-streaming",
                "storagebench-restore",
                "storagebench-database",
                "storagebench-file-server"
            ]
        );
    }
    assert_eq!(array.load.iodepths, [1, 64]);
    assert_eq!(simulate.load.iodepths, [1, 64]);
    assert_eq!([&measure.load, &array.load, &simulate.load].map(|load| load.settles), [false, true, true]);
    let shapes = |configs: Vec<&raidlab_controller::ArrayConfig>| -> Vec<String> {
        configs.iter().map(|config| format!("{} x{}", config.level, config.members)).collect()
    };
    let expected: Vec<String> =
        ["0 x6", "0 x6", "1 x6", "1 x6", "5 x6", "5 x6", "6 x6", "6 x6", "10 x6", "10 x6"]
            .map(String::from)
            .into();
    assert_eq!(shapes(array.arrays.iter().map(|array| &array.config).collect()), expected);
    let simulated: Vec<String> = ["0 x6", "1 x6", "5 x6", "6 x6", "10 x6"].map(String::from).into();
    assert_eq!(shapes(simulate.arrays.iter().map(|array| &array.config).collect()), simulated);
    assert!(simulate.arrays.iter().all(|array| array.region == ByteCount(8_000_000_000)));
    assert!(measure.direct);
    // Streaming only reads: one write policy of two is enough for it.
    assert_eq!(study.run_count(), 3 * 3 * (4 + 3 * 10 + 5) + 3 * 4 * 5);
}

#[test]
fn sweeps_are_lists_or_text() {
    let text = format!(
        "{HEAD}{SIMULATE}[simulate.load]\niodepths = '4..12+4'\nblock-sizes = ['4KiB', '64KiB']\nread-pcts = '0..100+50'\n"
    );
    let study = parse(&text).unwrap();
    let load = &study.simulations[0].load;
    assert_eq!((load.iodepths.as_slice(), load.workloads.len()), (&[4, 8, 12][..], 6));
    assert_eq!(load.workloads[5].name(), "storagebench-database at 64 KiB with 100 % reads");
    assert_eq!(study.run_count(), 18);
}

/// Numbers that change nothing are refused where they stand; workloads with numbers of their own need none.
#[test]
fn settings_that_would_change_nothing_are_refused() {
    let plain = HEAD.replace("'database'", "'kv-cache'").replace("iodepths = [1, 8]\n", "");
    assert_eq!(parse(&format!("{plain}{SIMULATE}")).unwrap().run_count(), 1);
    let refused = |text: &str| parse(text).unwrap_err().to_string();
    for (more, parts) in [
        ("iodepths = [1, 8]", ["iodepths", "'kv-cache' has its own number"]),
        ("read-pcts = [50]", ["read-pcts", "the read share of its part"]),
        ("block-sizes = ['4KiB']", ["block-sizes", "the block size of its part"]),
    ] {
        let common = plain.replace("[load]\n", &format!("[load]\n{more}\n"));
        let own = format!("{plain}{SIMULATE}[simulate.load]\n{more}\n");
        for text in [format!("{common}{SIMULATE}"), own] {
            let said = refused(&text);
            assert!(parts.iter().all(|part| said.contains(part)), "{more}: {said}");
        }
    }
    let mixed = format!("{HEAD}{SIMULATE}{SIMULATE}[simulate.load]\nworkloads = ['kv-cache']\n");
    assert_eq!(parse(&mixed).unwrap().run_count(), 3, "the first section takes them");
}

#[test]
fn sections_take_the_common_load_and_change_parts_of_it() {
    let text = format!("{HEAD}{ARRAY}{SIMULATE}[simulate.load]\niodepths = [64]\nrun = '2s'\n");
    let study = parse(&text).unwrap();
    assert_eq!(study.arrays[0].load.iodepths, [1, 8]);
    let load = &study.simulations[0].load;
    assert_eq!(load.iodepths, [64]);
    assert_eq!((load.run.as_secs_f64(), load.ramp.as_millis_f64()), (2.0, 10.0));
    assert_eq!(load.workloads[0].metric, Metric::Iops);
    assert_eq!(study.run_count(), 4 * 2 + 1);
}

#[test]
fn a_software_array_states_its_usable_size() {
    let study = parse(&format!("{HEAD}{ARRAY}")).unwrap();
    let usable: Vec<u64> = study.arrays[0].arrays.iter().map(|array| array.usable.get() >> 20).collect();
    assert_eq!(usable, [16, 16, 24, 24]);
}

/// What is put after the head, and what the message must hold.
#[test]
fn every_mistake_names_its_line_and_what_to_do() {
    let rows: [(String, &[&str]); 22] = [
        (format!("{ARRAY}[array.load]\nblock-sizes = '4'\n"), &["mine.toml:19", "block-sizes", "'4'"]),
        (ARRAY.replace("member-size", "member_size"), &["mine.toml:14", "'member_size'", "'member-size'"]),
        (ARRAY.replace("'5', '0'", "'5', '7'"), &["mine.toml:12", "RAID 7", "'7' is not a RAID level"]),
        (
            ARRAY.replace("members = 3", "members = 2"),
            &["mine.toml:12", "RAID 5 over 2 members cannot be", "3 or more"],
        ),
        (ARRAY.replace("'5', '0'", "'6'"), &["mine.toml:12", "RAID 6 over 3 members cannot be", "4 or more"]),
        (ARRAY.replace("8MiB", "8Mib"), &["mine.toml:14", "'Mib'"]),
        (ARRAY.replace("write-back", "writeback"), &["mine.toml:16", "'writeback'", "'write-back'"]),
        (format!("{ARRAY}region = '1TB'\n"), &["mine.toml:18", "region", "holds only 16 MiB"]),
        (format!("{ARRAY}region = '4KiB'\n"), &["mine.toml:18", "smaller than one request"]),
        (format!("{ARRAY}io-threads = 65\n"), &["mine.toml:18", "io-threads", "is 65", "64"]),
        (format!("{ARRAY}parity-threads = 256\n"), &["mine.toml:18", "parity-threads", "is 256", "64"]),
        (
            format!("{ARRAY}parity-threads = -1\n"),
            &["mine.toml:18", "parity-threads", "is -1", "0, for none"],
        ),
        (format!("{ARRAY}io-threads = 'two'\n"), &["mine.toml:18", "\"two\""]),
        (SIMULATE.replace("st3600057ss", "st360057ss"), &["mine.toml:12", "st360057ss", "'st3600057ss'"]),
        (SIMULATE.replace("perc-h800", "perc-h700"), &["mine.toml:11", "perc-h700", "'perc-h800'"]),
        (
            format!("{ARRAY}[array.load]\nworkloads = ['databse']\n"),
            &["mine.toml:19", "'databse'", "storagebench-database"],
        ),
        (format!("{ARRAY}[array.load]\niodepths = [0]\n"), &["mine.toml:19", "iodepths", "at least 1"]),
        (format!("{ARRAY}[array.load]\niodepths = '9..1'\n"), &["mine.toml:19", "iodepths", "smaller"]),
        (format!("{ARRAY}[array.load]\nread-pcts = [101]\n"), &["mine.toml:19", "read-pcts", "range"]),
        (format!("{ARRAY}[array.load]\nworkers = [2]\n"), &["mine.toml:10", "workers", "[[measure]]"]),
        (format!("{ARRAY}[array.load]\nrun = '0s'\n"), &["mine.toml:19", "run", "at least 1ms"]),
        (String::new(), &["mine.toml", "at least one run"]),
    ];
    for (text, expected) in rows {
        let error = parse(&format!("{HEAD}{text}")).map(|_| ()).unwrap_err().to_string();
        for part in expected {
            assert!(error.contains(part), "'{part}' is not in '{error}', for\n{text}");
        }
    }
}

#[test]
fn a_load_that_nobody_gives_is_missed() {
    let text =
        format!("schema = 1\ntitle = 't'\nquestion = 'q'\nseed = 1\n{ARRAY}[array.load]\nramp = '1s'\n");
    let error = parse(&text).unwrap_err().to_string();
    assert!(error.contains("mine.toml:5: workloads is missing"), "{error}");
}

#[test]
fn a_large_drive_does_not_fit_a_small_place() {
    let error = parse(&format!("{HEAD}{SIMULATE}enclosure = 'md1220'\n")).unwrap_err().to_string();
    assert!(error.contains("mine.toml:12: drive") && error.contains("2.5 inch"), "{error}");
}

#[test]
fn a_missing_file_is_named() {
    let error = Study::read(Path::new("no/such.toml"), &Catalog::builtin()).unwrap_err();
    assert!(error.to_string().starts_with("no/such.toml cannot be read"), "{error}");
}

#[test]
fn drives_members_and_strips_may_be_lists() {
    let listed = SIMULATE
        .replace("drive = 'st3600057ss'", "drive = ['st3600057ss', 'st9146852ss']\nstrip-size = ['16KiB', '64KiB']")
        .replace("members = 6", "members = [4, 6]");
    let study = parse(&format!("{HEAD}{listed}")).unwrap();
    let of = |array: &raidlab_worlds::ModelledArray| {
        (array.parts.drive.clone(), array.config.members, array.config.strip_size.get() >> 10)
    };
    let arrays: Vec<_> = study.simulations.iter().flat_map(|section| section.arrays.iter().map(of)).collect();
    let expected: Vec<_> = ["st3600057ss", "st9146852ss"]
        .iter()
        .flat_map(|drive| [4, 6].map(|members| (*drive, members)))
        .flat_map(|(drive, members)| [16, 64].map(|strip| (drive.to_owned(), members, strip)))
        .collect();
    assert_eq!(arrays, expected);
    assert_eq!(study.run_count(), 2 * 2 * 2 * 2);
    for (was, is, problem) in [
        ("members = [4, 6]", "members = []", "mine.toml:13: members is an empty list"),
        ("members = [4, 6]", "members = [4, 3]", "with 3 members"),
        ("'st9146852ss'", "'st9146853ss'", "st9146852ss"),
    ] {
        let error = parse(&format!("{HEAD}{}", listed.replace(was, is))).expect_err(is).to_string();
        assert!(error.contains(problem), "{is}: {error}");
    }
}

#[test]
fn the_study_of_dual_controllers_compares_three_enclosures() {
    let study = parse(DUAL).unwrap();
    assert_eq!(study.run_count(), 3 * 2 * 2 * 2);
    let labels: Vec<_> =
        study.simulations.iter().map(|section| section.arrays[0].controller_label()).collect();
    assert_eq!(
        labels,
        ["fastt600 with 2 volumes", "two fastt600 with 2 volumes", "two fastt600 with 2 volumes, A fails"]
    );
    let text = crate::describe::method(&study).join("\n");
    assert!(text.contains("of each of 2 volumes on two controllers, of which A fails 10.0 s into"), "{text}");
    let wrong = DUAL.replacen("count = 2", "count = 4", 1);
    let error = Study::parse("dual.toml", &wrong, &Catalog::builtin()).expect_err("there are no four");
    assert!(error.to_string().starts_with("dual.toml:3"), "{error}");
    assert!(error.to_string().contains("controllers: count = 4"), "{error}");
}

#[test]
fn a_workload_file_is_seen_from_the_folder_of_the_study() {
    let folder = tempfile::tempdir().expect("a folder");
    let study = folder.path().join("mine.toml");
    let load = "workloads = ['loads/own.toml']\niodepths = [1]\nramp = '1ms'\nrun = '5ms'\n";
    let head = "schema = 1\ntitle = 't'\nquestion = 'q'\nseed = 1\n";
    let text = format!("{head}[[measure]]\npath = 'x'\nsize = '1MiB'\ndirect = true\n[measure.load]\n{load}");
    std::fs::write(&study, text).expect("the study");
    let error =
        Study::read(&study, &Catalog::builtin()).expect_err("there is no workload file yet").to_string();
    assert!(error.contains("mine.toml:10: the workload file") && error.contains("loads/own.toml"), "{error}");
    let line = "[[line]]\nsize = '8KiB'\nshare_pct = 100\nread_pct = 0\nrandom_pct = 100\n";
    let own =
        format!("schema = 1\nname = 'own'\ntitle = 't'\nsource = 's'\nmetric = 'iops'\nnotes = ''\n{line}");
    std::fs::create_dir(folder.path().join("loads")).expect("a folder");
    std::fs::write(folder.path().join("loads/own.toml"), own).expect("the workload");
    let read = Study::read(&study, &Catalog::builtin()).expect("it is there now");
    assert_eq!(read.measures[0].load.workloads[0].name(), "own");
}

#[test]
fn the_drives_of_a_section_have_a_condition_where_they_can() {
    let flash = SIMULATE.replace("perc-h800", "linux-md-nvme").replace("st3600057ss", "generic-nvme");
    let flash = flash.replace("write-back", "write-through");
    let told = |section: &str, more: &str| {
        let text = format!("{HEAD}{}", section.replace("members = 6\n", &format!("members = 6\n{more}\n")));
        parse(&text)
            .map(|study| study.simulations[0].condition.map(|condition| condition.to_string()))
            .map_err(|error| error.to_string())
    };
    assert_eq!(told(&flash, ""), Ok(None));
    assert_eq!(told(&flash, "condition = 'fresh'"), Ok(Some("fresh".into())));
    assert_eq!(told(&flash, "condition = 'random:2'\nfill = 40"), Ok(Some("random:2, 40 % full".into())));
    for (section, more, problem) in [
        (flash.as_str(), "condition = 'worn'", "a condition is fresh"),
        (&flash, "condition = 'fresh'\nfill = 50", "holds nothing"),
        (&flash, "fill = 0", "from 1 to 100"),
        (SIMULATE, "condition = 'fresh'", "as fast in every condition"),
    ] {
        let error = told(section, more).expect_err(more);
        assert!(error.contains(problem) && error.contains("condition"), "{more}: {error}");
    }
}
