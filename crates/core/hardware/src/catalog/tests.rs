//! The catalogue reader against good and bad shelves, and the built-in catalogue against its data sheets.

use super::*;
use crate::drive::FormFactor;
use raidlab_units::{ByteCount, NanoSpan};

const SHELF: &str = r#"schema = 1
kind = "enclosure"
id = "shelf"
name = "A shelf"
form_factor = "3.5 inch"
slots = { value = 12, source = "sheet" }

[sources]
sheet = "data sheet: Shelf"
"#;

#[test]
fn builtin_catalogue_reads_and_holds_every_file() {
    let catalog = Catalog::builtin();
    let entries = catalog.drives().count() + catalog.controllers().count() + catalog.enclosures().count();
    let entries = entries + catalog.hosts().count() + catalog.filesystems().count();
    let entries = entries + catalog.servers().count() + catalog.networks().count();
    assert_eq!(entries, builtin::FILES.len());
    let h800 = catalog.controller("perc-h800").expect("there");
    assert_eq!(h800.cache.size, ByteCount::from_mib(512));
    assert_eq!(catalog.enclosure("md1220").expect("there").slots, 24);
    assert_eq!(catalog.enclosure("md1200").expect("there").form_factor, FormFactor::Large);
}

/// A file in `catalog/` that [`builtin`] does not list would silently be missing from the program.
#[test]
fn every_catalogue_file_is_built_in() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../catalog");
    let mut on_disk = Vec::new();
    let entries = root.read_dir().expect("catalog/ is there").map(|entry| entry.expect("readable").path());
    for folder in entries.filter(|entry| entry.is_dir()) {
        for file in folder.read_dir().expect("a folder").map(|entry| entry.expect("readable").path()) {
            on_disk.push(format!("catalog/{}", file.strip_prefix(&root).expect("below").display()));
        }
    }
    on_disk.sort();
    let mut listed: Vec<_> = builtin::FILES.iter().map(|(name, _)| (*name).to_owned()).collect();
    listed.sort();
    assert_eq!(listed, on_disk);
}

#[test]
fn every_figure_comes_with_its_source() {
    let catalog = Catalog::builtin();
    let cheetah = catalog.drive("st3600057ss").expect("there");
    let average = cheetah.sources.iter().find(|figure| figure.key == "mechanics.seek_read.average");
    let average = average.expect("a figure of the drive");
    assert_eq!(average.value, "3.4 ms");
    assert!(average.source.starts_with("data sheet: Seagate Cheetah 15K.7"), "{}", average.source);
}

#[test]
fn mistakes_are_named_with_line_and_remedy() {
    let rows = [
        (
            "slots = {",
            "slot = {",
            "shelf.toml:1: 'slots' is missing: add it, with a whole number, zero or above; or is 'slot' in line 6",
        ),
        ("slots =", "slot = true\nslots =", "shelf.toml:6: unknown key 'slot', did you mean 'slots'?"),
        ("{ value = 12, source = \"sheet\" }", "12", "shelf.toml:6: the figure 'slots' has no source: write"),
        (", source = \"sheet\"", "", "shelf.toml:6: the figure 'slots' has no source"),
        (
            "source = \"sheet\"",
            "source = \"hearsay\"",
            "shelf.toml:6: the source 'hearsay' of 'slots' is neither",
        ),
        ("source = \"sheet\"", "source = \"estimated: \"", "the source 'estimated: ' of 'slots'"),
        ("\"data sheet: Shelf\"", "\"Shelf\"", "shelf.toml:9: the source 'Shelf' of 'sources.sheet'"),
        ("value = 12", "value = \"12\"", "shelf.toml:6: 'slots' must be a whole number"),
        ("value = 12", "value = 0", "shelf.toml:6: 'slots' must be at least 1"),
        ("value = 12", "valu = 12", "shelf.toml:6: unknown key 'slots.valu', did you mean 'value'?"),
        ("3.5 inch", "3 inch", "shelf.toml:5: 'form_factor' must be \"3.5 inch\" or \"2.5 inch\""),
        ("name = \"A shelf\"\n", "", "shelf.toml:1: 'name' is missing"),
        ("schema = 1", "schema = 2", "shelf.toml:1: 'schema' must be 1"),
        (
            "enclosure",
            "enclosures",
            "shelf.toml:2: 'kind' must be hard-drive, solid-state, controller, enclosure, host, filesystem, file-server or network",
        ),
        ("slots = {", "slots = = {", "shelf.toml:6: this is not TOML"),
    ];
    for (from, to, expected) in rows {
        let text = SHELF.replacen(from, to, 1);
        let error = Catalog::parse([("shelf.toml", text.as_str())]).expect_err(expected).to_string();
        assert!(error.contains(expected), "{from} -> {to}: {error}");
    }
}

#[test]
fn figures_that_contradict_each_other_are_refused() {
    let (name, text) =
        builtin::FILES.iter().find(|(name, _)| name.ends_with("st3600057ss.toml")).expect("there");
    let rows = [
        ("\"3.4 ms\"", "\"0.1 ms\"", "mechanics.seek_read: seek times must rise"),
        ("\"3.4 ms\"", "\"6.7 ms\"", "would fall with distance"),
        (
            "\"122 MB/s\"",
            "\"300 MB/s\"",
            "mechanics.inner_rate 300 MB/s is above mechanics.outer_rate 204 MB/s",
        ),
        ("heads = { value = 8", "heads = { value = 0", "mechanics.heads must be from 1 to 64"),
        ("\"20 us\"", "\"200 us\"", "firmware.positioning_margin must be at most 80.0 us"),
        ("1172123568", "99", "make"),
        ("1172123568", "90000000000", "2^32"),
        ("1172123568", "99000000000000", "8599722048 cylinders"),
    ];
    for (from, to, expected) in rows {
        assert!(text.contains(from), "{from}");
        let changed = text.replacen(from, to, 1);
        let error = Catalog::parse([(*name, changed.as_str())]).expect_err(expected).to_string();
        assert!(error.contains(expected), "{from} -> {to}: {error}");
    }
}

#[test]
fn lookups_name_the_nearest_entry() {
    let catalog = Catalog::builtin();
    let error = catalog.drive("st360057ss").expect_err("no such drive").to_string();
    assert!(error.contains("did you mean 'st3600057ss'?"), "{error}");
    let error = catalog.controller("zzz").expect_err("no such controller").to_string();
    assert!(
        error.contains("it has: 3ware-7850, 3ware-8506-4lp, adaptec-2010s, arena-indy-2400")
            && !error.contains("did you mean"),
        "{error}"
    );
}

#[test]
fn two_files_cannot_claim_one_id() {
    let error = Catalog::parse([("a.toml", SHELF), ("b.toml", SHELF)]).expect_err("twice");
    assert_eq!(error, CatalogError::DuplicateId { file: "b.toml".into(), id: "shelf".into() });
}

#[test]
fn controller_costs_come_from_its_file() {
    use crate::controller::{HostOpKind, MemberPath, MemoryWork};
    let catalog = Catalog::builtin();
    let h800 = catalog.controller("perc-h800").expect("there");
    let command = |model: &ControllerModel, path| {
        model.member_command_cost(path, HostOpKind::Read, ByteCount::from_kib(8))
    };
    assert_eq!(command(h800, MemberPath::Firmware), h800.member_command.read);
    assert_eq!(command(h800, MemberPath::CutThrough), h800.cut_through.expect("it has one").read);
    let lsi = catalog.controller("lsi-1078-512").expect("there");
    assert_eq!(command(lsi, MemberPath::CutThrough), lsi.member_command.read, "no shorter way");
    // 6.4 GB/s of bytes read plus bytes written.
    let parity = h800.memory_cost(MemoryWork::Parity, ByteCount(3_200_000), ByteCount(3_200_000));
    assert_eq!(parity, h800.parity.per_task + NanoSpan::from_millis(1));
}

#[test]
fn a_controller_that_comes_in_pairs_says_what_is_between_the_two() {
    let catalog = Catalog::builtin();
    let dual = |id| catalog.controller(id).expect("there").dual;
    assert_eq!(dual("perc-h800"), None);
    let fastt600 = dual("fastt600").expect("it comes in pairs");
    assert!(fastt600.member_link_shared && fastt600.failover_detection == NanoSpan::from_secs(10));
    let (name, text) = ("fastt600.toml", include_str!("../../../../../catalog/controllers/fastt600.toml"));
    let rows = [
        ("member_link_shared = true", "member_links_shared = true", "'dual.member_link_shared' is missing"),
        ("failover_detection = {", "failover_time = {", "'dual.failover_detection' is missing"),
        ("[dual.mirror_link]", "[dual.mirror]", "'dual.mirror_link' is missing"),
    ];
    for (from, to, expected) in rows {
        let error =
            Catalog::parse([(name, text.replacen(from, to, 1).as_str())]).expect_err(expected).to_string();
        assert!(error.contains(expected), "{from} -> {to}: {error}");
    }
}
