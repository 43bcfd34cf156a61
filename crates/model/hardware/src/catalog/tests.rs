//! The catalogue reader against valid and invalid files, and the built-in catalogue against its data sheets.

use super::*;
use crate::drive::FormFactor;
use raidlab_units::{ByteCount, NanoSpan};

const SHELF: &str = r#"schema = 1
kind = "enclosure"
id = "shelf"
name = "A shelf"
form_factor = "3.5 inch"
slots = { value = 12, source = "sheet" }

[port]
rate = { value = "1 GB/s", source = "sheet" }
per_transfer = { value = "1 us", source = "sheet" }

[sources]
sheet = "data sheet: Shelf"
"#;

#[test]
fn builtin_catalogue_reads_and_holds_every_file() {
    let catalog = Catalog::builtin();
    assert_eq!(catalog.entries().count(), builtin::FILES.len());
    for entry in catalog.entries() {
        assert!(!entry.sources.is_empty(), "{} has no figure", entry.id);
    }
    let h800 = catalog.controller("perc-h800").expect("there");
    assert_eq!(h800.cache.size, ByteCount::from_mib(512));
    assert_eq!(catalog.enclosure("md1220").expect("there").slots, 24);
    assert_eq!(catalog.enclosure("md1200").expect("there").form_factor, FormFactor::Large);
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
        ("\"data sheet: Shelf\"", "\"Shelf\"", "shelf.toml:13: the source 'Shelf' of 'sources.sheet'"),
        ("value = 12", "value = \"12\"", "shelf.toml:6: 'slots' must be a whole number"),
        ("value = 12", "value = 0", "shelf.toml:6: 'slots' must be at least 1"),
        ("value = 12", "valu = 12", "shelf.toml:6: unknown key 'slots.valu', did you mean 'value'?"),
        ("3.5 inch", "3 inch", "shelf.toml:5: 'form_factor' must be \"3.5 inch\", \"2.5 inch\", \"E1.S\" or"),
        ("name = \"A shelf\"\n", "", "shelf.toml:1: 'name' is missing"),
        ("schema = 1", "schema = 2", "shelf.toml:1: 'schema' must be 1"),
        (
            "enclosure",
            "enclosures",
            "shelf.toml:2: 'kind' must be hard-drive, solid-state, controller, enclosure, link, host, filesystem, file-server or network",
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
        let error = links_and(name, &changed).expect_err(expected).to_string();
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
        error.contains("it has: 3ware-6200, 3ware-7850, 3ware-8506-4lp, adaptec-2010s, arena-indy-2400")
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
    use crate::controller::{HostOpKind, MemberPath, MemoryWork, ParityWorker};
    let catalog = Catalog::builtin();
    let h800 = catalog.controller("perc-h800").expect("there");
    let command = |model: &ControllerModel, path| {
        model.member_command_cost(path, HostOpKind::Read, ByteCount::from_kib(8))
    };
    assert_eq!(command(h800, MemberPath::Firmware), h800.member_command.read);
    assert_eq!(command(h800, MemberPath::CutThrough), h800.cut_through.expect("it has one").cost.read);
    let lsi = catalog.controller("lsi-1078-512").expect("there");
    assert_eq!(command(lsi, MemberPath::CutThrough), lsi.member_command.read, "no shorter way");
    let fastt600 = catalog.controller("fastt600").expect("there");
    assert_eq!((h800.parity_by, fastt600.parity_by), (ParityWorker::Engine, ParityWorker::Processors));
    assert!(fastt600.cache.parity_after_data && !h800.cache.parity_after_data);
    assert!(h800.cache.write_in > NanoSpan::ZERO && lsi.cache.write_in == NanoSpan::ZERO);
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
    let (name, text) = ("fastt600.toml", include_str!("../../catalog/controllers/fastt600.toml"));
    let rows = [
        ("member_link_shared = true", "member_links_shared = true", "'dual.member_link_shared' is missing"),
        ("failover_detection = {", "failover_time = {", "'dual.failover_detection' is missing"),
        ("[dual.mirror_link]", "[dual.mirror]", "'dual.mirror_link' is missing"),
    ];
    for (from, to, expected) in rows {
        let error = links_and(name, &text.replacen(from, to, 1)).expect_err(expected).to_string();
        assert!(error.contains(expected), "{from} -> {to}: {error}");
    }
}

/// Every drive, controller, enclosure, link, host, filesystem, server and network that the five papers' systems are made of.
#[test]
fn every_part_of_the_papers_systems_is_there() {
    let catalog = Catalog::builtin();
    let rows = [
        ("controller", "LSI 1064, 1068, 1078", "lsi-1064 lsi-1068 lsi-1078-256 lsi-1078-512"),
        ("controller", "3ware", "3ware-6200 3ware-7850 3ware-8506-4lp"),
        ("controller", "Adaptec 2010S zero channel on AIC-7902", "adaptec-2010s"),
        ("controller", "Chaparral K7413, Arena Indy 2400", "chaparral-k7413 arena-indy-2400"),
        ("controller", "FAStT200, FAStT600, PERC H800", "fastt200 fastt600 perc-h800"),
        ("controller", "no RAID controller at all", "linux-md onboard-sata onboard-scsi"),
        ("enclosure", "EXP700, MD1200, MD1220", "exp700 md1200 md1220"),
        ("link", "SCSI and Fibre Channel", "u160-scsi u320-scsi fc-1g fc-2g"),
        ("link", "SAS and ATA", "sas-3g sas-6g ata-66 ata-100 sata-1.5g sata-3g"),
        ("link", "PCI and PCI-X", "pci-32-33 pci-64-33 pci-64-66 pci-x-100 pci-x-133"),
        ("link", "PCI Express, one lane of x4 and x8", "pcie-1 pcie-2"),
        ("link", "gigabit Ethernet, MTU 1500 and 9000", "gigabit-ethernet gigabit-ethernet-jumbo"),
        ("network", "gigabit Ethernet, plain and with moderated interrupts", "sk-9843 sk-9843-moderated"),
        ("drive", "primergy-2008", "wd1600aajs st973402ss st973451ss st373355ss st373455ss"),
        ("drive", "cdf-caf-2002", "wd1000bb maxtor-160gb-5400 scsi-170gb"),
        ("drive", "crs4-2004", "maxtor-maxline-plus-ii-250 maxtor-6y160m0 seagate-u320-10k-73"),
        ("drive", "fastt600-2004", "fc-15k-18gb fc-10k-9gb"),
        ("drive", "md1200-2011", "st9500430ss st9146852ss st32000444ss st3600057ss pliant-lb150"),
        ("host", "crs4-2004", "agumu02 aiodda2 noral3"),
        ("filesystem", "all", "ext2 ext3 reiserfs xfs jfs"),
        ("server", "cdf-caf-2002", "asa polywell rackable duke level3-fc fcdfcode1"),
    ];
    for (kind, what, ids) in rows {
        for id in ids.split(' ') {
            let found = catalog.entries().find(|entry| entry.id == id);
            assert_eq!(found.map(|entry| entry.kind), Some(kind), "{what}: {id}");
        }
    }
    for server in catalog.servers() {
        let served = server.served.as_ref().expect("all of them say what they serve");
        catalog.controller(&served.controller).expect("a controller");
        catalog.drive(&served.drive).expect("a drive");
        catalog.filesystem(&served.filesystem).expect("a filesystem");
        catalog.network(&served.network).expect("a network");
    }
}

const LINK: &str = r#"schema = 1
kind = "link"
id = "rope"
name = "A rope"
wire = { value = "100 MB/s", source = "estimated: as it looks" }
rate = { value = "80 MB/s", source = "estimated: as it looks" }
per_transfer = { value = "3 us", source = "data sheet: Rope" }
"#;

#[test]
fn a_part_refers_to_a_link_and_its_lanes_whatever_the_order_of_the_files() {
    let port = "[port]\nlink = \"rope\"\nlanes = { value = 4, source = \"sheet\" }\n";
    let own = SHELF.split("[port]").next().expect("a head").to_owned();
    let text = own + port + "\n[sources]\nsheet = \"data sheet: Shelf\"\n";
    let catalog =
        Catalog::parse([("shelf.toml", text.as_str()), ("rope.toml", LINK)]).expect("both are sound");
    let shelf = catalog.enclosure("shelf").expect("there");
    assert_eq!(shelf.port.rate.mb_per_s(), 320.0);
    assert_eq!(shelf.port.per_transfer, NanoSpan::from_micros(3));
    let source = |key| &shelf.sources.iter().find(|figure| figure.key == key).expect("noted").source;
    assert_eq!(source("port.per_transfer"), "data sheet: Rope (link rope)");
    assert_eq!(source("port.lanes"), "data sheet: Shelf");
    let rows = [
        ("\"rope\"", "\"rop\"", "there is no link 'rop' in the catalogue, did you mean 'rope'?"),
        ("value = 4", "value = 0", "'port.lanes' must be at least 1"),
        (
            "[port]",
            "[port]\nrate = { value = \"500 MB/s\", source = \"sheet\" }",
            "port.rate 500 MB/s is above the 400 MB/s that 4 of link 'rope' carry",
        ),
    ];
    for (from, to, expected) in rows {
        let wrong = text.replacen(from, to, 1);
        let error =
            Catalog::parse([("rope.toml", LINK), ("shelf.toml", &wrong)]).expect_err(expected).to_string();
        assert!(error.contains(expected), "{error}");
    }
    let wrong = LINK.replacen("80 MB/s", "180 MB/s", 1);
    let error = Catalog::parse([("rope.toml", wrong.as_str())]).expect_err("too fast").to_string();
    assert!(error.contains("rate 180 MB/s is above what the wire carries, 100 MB/s"), "{error}");
}

#[test]
fn somebodys_own_entries_stand_beside_those_of_the_program() {
    let file = |text: &str| CatalogFile { name: "mine.toml".into(), text: text.into() };
    let change =
        CatalogChange { entry: "shelf".into(), key: "slots".into(), value: "13".into(), source: None };
    let catalog = Catalog::with(&[file(SHELF)], &[change]).expect("it is sound");
    assert_eq!(catalog.enclosure("shelf").expect("it was added").slots, 13);
    assert_eq!(catalog.entries().count(), builtin::FILES.len() + 1);
    let error =
        Catalog::with(&[file(&SHELF.replace("\"shelf\"", "\"md1200\""))], &[]).expect_err("it is taken");
    assert_eq!(error, CatalogError::DuplicateId { file: "mine.toml".into(), id: "md1200".into() });
}

/// A shelf that is like another one.
const LIKE: &str = r#"schema = 1
id = "small-shelf"
name = "A small shelf"
like = "shelf"
slots = { value = 6, low = 4, high = 8, source = "sheet" }

[sources]
sheet = "data sheet: Small shelf"

[port]
rate = { value = "2 GB/s", source = "sheet" }
"#;

fn figure<'a>(sources: &'a [FigureSource], key: &str) -> (&'a str, &'a str) {
    let found = sources.iter().find(|figure| figure.key == key).expect("it is a figure");
    (&found.value, &found.source)
}

#[test]
fn what_an_entry_does_not_say_it_has_from_the_one_it_is_like() {
    // In either order.
    for files in [[("a.toml", LIKE), ("b.toml", SHELF)], [("b.toml", SHELF), ("a.toml", LIKE)]] {
        let catalog = Catalog::parse(files).unwrap();
        let shelf = catalog.enclosure("small-shelf").unwrap();
        assert_eq!(
            (shelf.slots, shelf.name.as_str(), shelf.form_factor),
            (6, "A small shelf", FormFactor::Large)
        );
        assert_eq!(shelf.port.per_transfer, NanoSpan::from_micros(1));
        assert_eq!(figure(&shelf.sources, "port.rate"), ("2 GB/s", "data sheet: Small shelf"));
        assert_eq!(
            figure(&shelf.sources, "port.per_transfer"),
            ("1 us", "data sheet: Shelf"),
            "the base's source"
        );
        let slots = shelf.sources.iter().find(|figure| figure.key == "slots").unwrap();
        assert_eq!((slots.low.as_deref(), slots.high.as_deref()), (Some("4"), Some("8")));
    }
}

#[test]
fn mistakes_in_what_is_like_another_are_named() {
    let rows = [
        ("like = \"shelf\"", "like = \"shel\"", "did you mean 'shelf'?"),
        ("slots = {", "slts = {", "a.toml:5: unknown key 'slts', did you mean 'slots'?"),
        ("low = 4", "low = 7", "a.toml:5: 'slots' must be a value from its low to its high end"),
        ("high = 8", "high = 5", "a.toml:5: 'slots' must be a value from its low to its high end"),
        ("high = 8", "high = \"much\"", "a.toml:5: 'slots' must be a whole number"),
        ("name = \"A small shelf\"\n", "", "'name' is missing"),
        ("like = \"shelf\"", "like = \"small-shelf\"", "no entry that others can be like, 'small-shelf'"),
    ];
    for (from, to, expected) in rows {
        let text = LIKE.replacen(from, to, 1);
        let error = Catalog::parse([("b.toml", SHELF), ("a.toml", &text)]).expect_err(expected).to_string();
        assert!(error.contains(expected), "{from} -> {to}: {error}");
    }
}
