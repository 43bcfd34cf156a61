//! The enumeration against the formulas of the levels; the bounds, the ranking and the needs that must give.

use super::estimate::{CHANCE, CommandSecs, Demand, DriveRates, RandomRate};
use super::*;
use raidlab_units::NanoSpan;
use raidlab_workload::Metric;
use std::collections::BTreeSet;

fn drive(id: &str, capacity_gb: u64, random: f64) -> DrivePart {
    DrivePart {
        id: id.into(),
        family: id.into(),
        kind: "hdd".into(),
        wear: Wear::None,
        make: Make::Arms(1),
        owned: 0,
        capacity: ByteCount(capacity_gb * 1_000_000_000),
        forms: vec![if id.starts_with("small") { "2.5 inch" } else { "3.5 inch" }],
        bus: Some("SAS".into()),
        volatile_cache: ByteCount::from_mib(64),
        rates: DriveRates {
            random: vec![
                RandomRate { share: 0.0, reads: vec![(64, 2.0 * random)], writes: 2.0 * random },
                RandomRate { share: 0.5, reads: vec![(64, random)], writes: random },
            ],
            media: 100e6,
        },
        price: Some(100.0),
        watts: None,
    }
}

pub(super) fn parts() -> PartList {
    let controller = |id: &str, bus: &str| ControllerPart {
        id: id.into(),
        family: id.into(),
        is_owned: false,
        buses: vec![bus.into()],
        ports: None,
        processors: 1,
        host_command: CommandSecs { read: 20e-6, write: 20e-6, page: 0.0 },
        member_command: CommandSecs::default(),
        host_rate: BytesPerSec(1e9),
        member_rate: BytesPerSec(1e9),
        slot_rate: None,
        nvme_slot_rate: None,
        strip: ByteCount::from_kib(64),
        cache: ByteCount::from_mib(if id == "old" { 0 } else { 256 }),
        is_battery_backed: id == "battery",
        reads_ahead: true,
        places: if id == "battery" { DrivePlaces::Enclosures } else { DrivePlaces::Server },
        price: Some(500.0),
        watts: Some(20.0),
    };
    PartList {
        drives: vec![drive("small", 500, 150.0), drive("large", 2_000, 120.0)],
        controllers: vec![controller("battery", "SAS"), controller("plain", "SAS"), controller("old", "ATA")],
        enclosures: vec![EnclosurePart {
            id: "shelf".into(),
            slots: 12,
            owned: 0,
            rack_units: Some(2),
            form: "2.5 inch",
            bus: Some("SAS".into()),
            is_server: false,
            port_rate: BytesPerSec(2e9),
            slot_rate: None,
            price: Some(1_000.0),
            watts: None,
        }],
        ..PartList::default()
    }
}

fn settings() -> Vec<Settings> {
    let one = |write_back| Settings { strip: None, write_back, read_ahead: true, disk_cache: false };
    vec![one(true), one(false)]
}

pub(super) fn space(levels: &[&str]) -> Space {
    Space {
        levels: levels.iter().map(|level| level.parse().expect("a level")).collect(),
        members_min: 1,
        members_max: 24,
        enclosures_max: 2,
        spares: vec![0, 1],
        settings: settings(),
        allows_volatile: false,
    }
}

fn mean(limit: NanoSpan) -> Vec<Bound> {
    vec![Bound::on_mean(limit)]
}

pub(super) fn needs() -> Needs {
    Needs { usable: ByteCount(4_000_000_000_000), survive: 1, ..Needs::default() }
}

pub(super) fn database() -> Demand {
    Demand {
        read_share: 0.67,
        random_share: 1.0,
        bytes_mean: 8192.0,
        iodepth: 256,
        is_spread: true,
        metric: Metric::Iops,
        pace: None,
    }
}

fn run(needs: &Needs, space: &Space) -> Enumeration {
    enumerate(&Request { needs, demands: &[database()], space, parts: &parts(), together: false })
}

#[test]
fn every_candidate_is_kept_or_out_for_one_reason() {
    let space = space(&["0", "5", "6", "10"]);
    let found = run(&needs(), &space);
    // Drives x controllers x (none, shelf) x levels x members x spares x settings.
    assert_eq!(found.candidates, 2 * 3 * 2 * 4 * 24 * 2 * 2);
    let out: u64 = found.rejected.values().sum();
    let batteries = found.kept.iter().map(|kept| if kept.geometry.controller == 0 { 2 } else { 1 });
    assert_eq!(found.candidates, out + batteries.sum::<u64>(), "{:?}", found.rejected);
    for reason in [Rejection::Misfit, Rejection::NoLayout, Rejection::Failures, Rejection::Slots] {
        assert!(found.rejected.contains_key(&reason), "{reason:?} is missing");
    }
}

/// Nothing was left of drives for one plug and a controller for another, and no part was named.
#[test]
fn drives_that_fit_nothing_are_named() {
    let (space, mut parts) = (space(&["5"]), parts());
    let misfits = |parts: &PartList| {
        let request =
            Request { needs: &needs(), demands: &[database()], space: &space, parts, together: false };
        enumerate(&request).misfit_names(parts)
    };
    assert_eq!(misfits(&parts), [""; 0]);
    parts.drives[1].bus = Some("NVMe".to_owned());
    parts.controllers.iter_mut().for_each(|it| it.buses = vec!["SAS".to_owned()]);
    assert_eq!(misfits(&parts), [format!("{} (NVMe)", parts.drives[1].id)]);
}

#[test]
fn a_controller_takes_no_more_drives_than_it_has_ports() {
    let (space, mut parts) = (space(&["0", "5", "10"]), parts());
    let drives_of = |parts: &PartList| {
        let request =
            Request { needs: &needs(), demands: &[database()], space: &space, parts, together: false };
        let kept = enumerate(&request).kept.into_iter().map(|kept| kept.geometry);
        let plain = kept.filter(|geometry| geometry.controller == 1);
        plain.map(|geometry| geometry.members + geometry.spares).max()
    };
    assert!(drives_of(&parts) > Some(8), "or the test says nothing");
    parts.controllers[1].ports = Some(8);
    assert_eq!(drives_of(&parts), Some(8));
}

#[test]
fn capacity_and_failures_are_those_of_the_level() {
    let space = space(&["5", "6", "10", "50:2-spans", "60:2-spans"]);
    let found = run(&needs(), &space);
    for kept in &found.kept {
        let (n, capacity) =
            (u64::from(kept.geometry.members), [500, 2_000][usize::from(kept.geometry.drive)]);
        let (data, survives) = match kept.geometry.level.to_string().as_str() {
            "5" => (n - 1, 1),
            "6" => (n - 2, 2),
            "10" => (n / 2, 1),
            "50:2-spans" => (n - 2, 1),
            _ => (n - 4, 2),
        };
        assert_eq!(kept.usable.0, data * capacity * 1_000_000_000, "{kept:?}");
        assert_eq!(kept.survives.0, survives, "{kept:?}");
        let shelves = if kept.geometry.enclosure.is_some() {
            (n + u64::from(kept.geometry.spares)).div_ceil(12)
        } else {
            0
        };
        assert_eq!(
            kept.cost,
            Some((100 * (n + u64::from(kept.geometry.spares)) + 500 + 1_000 * shelves) as f64)
        );
        let of_drives = 9.3 * f64::from(kept.geometry.members + kept.geometry.spares);
        assert!(kept.watts > of_drives && kept.watts < of_drives + 200.0, "{kept:?}");
    }
    assert!(!found.kept.is_empty());
}

#[test]
fn parity_costs_small_writes_what_the_formula_says() {
    let space = space(&["0", "5", "6", "10"]);
    let no_survivors = Needs { survive: 0, ..needs() };
    let found = run(&no_survivors, &space);
    let at_best = |level: &str| {
        let is_it = |kept: &&Kept| {
            let g = kept.geometry;
            (g.drive, g.controller, g.enclosure, g.members, g.spares) == (1, 1, None, 8, 0)
                && g.level.to_string() == level
        };
        found.kept.iter().find(is_it).expect("it is kept").at_best[0]
    };
    // All of them use less than half of their drives but for RAID 10, which has 240 accesses per second on none.
    let of = |ios: f64, rate: f64| 8.0 * CHANCE * rate / (0.67 + 0.33 * ios / estimate::MERGING);
    assert!((at_best("0") - of(1.0, 240.0)).abs() < 1.0);
    assert!((at_best("5") - of(4.0, 240.0)).abs() < 1.0);
    assert!((at_best("6") - of(6.0, 240.0)).abs() < 1.0);
    assert!((at_best("10") - of(2.0, 120.0)).abs() < 1.0);
}

/// A database was once told to turn its disks' caches on without a word.
#[test]
fn what_a_loss_of_power_takes_is_tried_only_where_that_is_allowed() {
    let parts = parts();
    let mut protected = parts.drives[0].clone();
    protected.volatile_cache = ByteCount(0);
    let plain = Settings { strip: None, write_back: false, read_ahead: false, disk_cache: false };
    let written_back = Settings { write_back: true, ..plain };
    let cached = Settings { disk_cache: true, ..plain };
    let (kept, none, no_cache) = (&parts.controllers[0], &parts.controllers[1], &parts.controllers[2]);
    let (volatile, unsafe_) = (&parts.drives[0], Some(Rejection::Volatile));
    let rows = [
        (volatile, kept, plain, None, None, (0, 0)),
        (volatile, kept, written_back, None, None, (0, 0)),
        (volatile, kept, cached, unsafe_, None, (0, 4 * 64)),
        (&protected, kept, cached, Some(Rejection::NoEffect), Some(Rejection::NoEffect), (0, 0)),
        (volatile, none, written_back, unsafe_, None, (256, 0)),
        (&protected, none, written_back, unsafe_, None, (256, 0)),
        (volatile, no_cache, written_back, Some(Rejection::NoEffect), Some(Rejection::NoEffect), (0, 0)),
    ];
    for (row, (drive, controller, settings, safely, allowed, (in_controller, in_drives))) in
        rows.into_iter().enumerate()
    {
        let hardware = Hardware { drive, controller };
        assert_eq!(hardware.rejects(settings, false), safely, "row {row}");
        assert_eq!(hardware.rejects(settings, true), allowed, "row {row}, allowed");
        let at_risk = hardware.at_risk(settings, 4);
        let expected = AtRisk { controller_bytes: in_controller << 20, drives_bytes: in_drives << 20 };
        assert_eq!(at_risk, expected, "row {row}");
    }
}

#[test]
fn what_is_not_known_is_no_zero() {
    let found = run(&Needs { power_watts: Some(1.0), ..needs() }, &space(&["5"]));
    assert!(found.kept.is_empty() && found.rejected.contains_key(&Rejection::Power));
}

/// An array whose drives were written off after some weeks was the best one.
#[test]
fn drives_that_are_worn_out_too_soon_are_no_answer() {
    let (space, mut parts) = (space(&["5"]), parts());
    let wants = Needs { years: Some(5.0), written_per_day: Some(5e12), ..needs() };
    let run = |parts: &PartList, needs: &Needs| {
        enumerate(&Request { needs, demands: &[database()], space: &space, parts, together: false })
    };
    let all = run(&parts, &wants).kept.len();
    assert!(all > 0, "nothing wears out");
    // Eight drives in RAID 5, 5 TB a day: 5 * (8 / 7) / 2 for merging / 8 = 0.357 TB a day to each at best, 652 TB in five years.
    let kept = |parts: &PartList, needs: &Needs| {
        let kept = run(parts, needs).kept.into_iter().map(|it| it.geometry);
        let of_large = kept.filter(|it| it.drive == 1 && it.controller == 1 && it.spares == 0);
        of_large.map(|it| it.members).min()
    };
    let free = kept(&parts, &wants).expect("some are kept");
    for drive in &mut parts.drives {
        drive.wear = Wear::Rated(Rating { host_bytes: 220e12, amplification: 3.0 });
    }
    assert_eq!((free, kept(&parts, &wants)), (3, Some(8)));
    let found = run(&parts, &wants);
    assert!(found.rejected.contains_key(&Rejection::Endurance));
    assert_eq!(kept(&parts, &Needs { years: None, ..wants.clone() }), Some(3), "nobody asked");
    parts.drives[1].wear = Wear::Unknown;
    assert_eq!(kept(&parts, &wants), None, "what is not known is no zero");
    let one = |life| Judged { life, ..judged(4, 1000.0, false) };
    for (life, keeps) in
        [(Life::Endless, true), (Life::Unknown, false), (Life::Years(4.9), false), (Life::Years(5.1), true)]
    {
        assert_eq!(one(life).keeps(&wants), keeps, "{life:?}");
    }
}

/// Eight cards of M.2 were planned into bays of 2.5 inch, and sixty disks into a server without a shelf.
#[test]
fn a_server_has_so_many_bays_and_cards_fit_none() {
    let mut parts = parts();
    let space = Space { members_max: 60, ..space(&["5"]) };
    let most = |parts: &PartList, drive: u16| {
        let wants = Needs { usable: ByteCount(1), ..needs() };
        let request =
            Request { needs: &wants, demands: &[database()], space: &space, parts, together: false };
        let kept = enumerate(&request).kept;
        let of_it = kept.iter().filter(|it| it.geometry.drive == drive && it.geometry.spares == 0);
        of_it.map(|it| (it.geometry.enclosure.is_some(), it.geometry.members)).collect::<BTreeSet<_>>()
    };
    let last = |all: &BTreeSet<(bool, u16)>, in_shelf| all.iter().rev().find(|it| it.0 == in_shelf).copied();
    let disks = most(&parts, 0);
    assert_eq!((last(&disks, false), last(&disks, true)), (Some((false, 24)), Some((true, 24))));
    parts.enclosures[0].is_server = true;
    parts.controllers.iter_mut().for_each(|it| it.places = DrivePlaces::Either);
    assert_eq!(last(&most(&parts, 0), true), Some((true, 12)), "a host is one server");
    parts.controllers.iter_mut().for_each(|it| it.places = DrivePlaces::Server);
    parts.drives[0].forms = vec!["M.2"];
    assert!(most(&parts, 0).is_empty(), "no RAID card has places for it");
    for controller in &mut parts.controllers {
        controller.places = DrivePlaces::Either;
    }
    let cards = most(&parts, 0);
    assert_eq!((last(&cards, false), last(&cards, true)), (Some((false, 4)), None));
}

/// The lines that a plan prints were refused: mdadm makes no RAID 6 of three members.
#[test]
fn a_span_of_raid_60_is_a_raid_6() {
    let of_60 = |needs: &Needs| {
        let kept = run(needs, &space(&["60:2-spans"])).kept.into_iter().map(|it| it.geometry.members);
        kept.min()
    };
    let wants = Needs { usable: ByteCount(1), ..needs() };
    assert_eq!(of_60(&wants), Some(8));
    let frame = |members| Space { members_min: members, members_max: members, ..space(&["60:2-spans"]) };
    assert!(check_layouts(&frame(6)).is_err_and(|error| error.to_string().contains("needs 4 to 256")));
    assert!(check_layouts(&frame(8)).is_ok());
}

/// "Only the budget by 3 %" would have bought arrays that lose data more often than is allowed.
#[test]
fn what_would_fit_loses_no_more_than_is_allowed() {
    let (space, mut parts) = (space(&["5", "6"]), parts());
    let wants = Needs { budget: Some(700.0), loss_per_year: Some(0.01), ..needs() };
    let five = |one: &Geometry| one.level.to_string() == "5";
    let least = |parts: &PartList| {
        let request =
            Request { needs: &wants, demands: &[database()], space: &space, parts, together: false };
        let found = relaxations(&request);
        found.into_iter().find(|it| it.need == Need::Budget).map(|it| it.to)
    };
    let unknown = least(&parts).expect("more money buys one");
    let request =
        Request { needs: &wants, demands: &[database()], space: &space, parts: &parts, together: false };
    let geometries = relaxed_needs(&wants).flat_map(|needs| {
        let kept = enumerate(&Request { needs: &needs, ..request.clone() }).kept;
        kept.into_iter().map(|it| it.geometry.on_paper()).collect::<Vec<_>>()
    });
    let losses = geometries.map(|one| (one, if five(&one) { 0.05 } else { 0.001 })).collect();
    parts.losses = losses;
    assert_eq!((unknown, least(&parts)), (800.0, Some(900.0)), "three drives, and four in RAID 6");
}

/// A few runs went to cheap drives which arithmetic lets pass and use wears out, and others of their kind were never tried.
#[test]
fn what_is_expected_to_wear_out_too_soon_is_tried_last() {
    let (space, mut parts) = (space(&["5"]), parts());
    let wants = Needs { iops: Some(50.0), years: Some(5.0), written_per_day: Some(5e12), ..needs() };
    // Three large drives: 5 * (3 / 2) / 3 = 2.5 TB a day to each, 2280 TB in five years if half are merged, 4570 and collecting if not.
    parts.drives[1].wear = Wear::Rated(Rating { host_bytes: 600e12, amplification: 4.0 });
    let request =
        Request { needs: &wants, demands: &[database()], space: &space, parts: &parts, together: false };
    let kept = enumerate(&request).kept;
    let is_small = |kept: &&Kept| kept.geometry.drive == 1 && kept.geometry.members == 3;
    assert!(kept.iter().any(|one| is_small(&one)), "arithmetic has nothing against the cheapest");
    let first = Frontier::new(request, kept).poll_batch(1);
    assert_eq!(first[0].geometry.drive, 0, "600 TB last 0.66 years at 2.5 TB a day");
}

#[test]
fn what_is_left_of_an_array_with_a_fault_can_be_a_need() {
    let wants = Needs { iops: Some(900.0), keep_degraded: Some(0.5), ..needs() };
    for (degraded_share, keeps) in [(None, true), (Some(0.49), false), (Some(0.5), true)] {
        let one = Judged { degraded_share, ..judged(4, 1000.0, false) };
        assert_eq!(one.keeps(&wants), keeps, "{degraded_share:?}");
    }
    let low = Needs { rack_units: Some(3), ..needs() };
    let of = |rack_units| Judged { rack_units, ..judged(4, 1000.0, false) };
    assert!(of(Some(2)).keeps(&low) && !of(Some(4)).keeps(&low));
}

/// Drives in bays of the server took its height where these were an entry of the catalogue, and none where they were not.
#[test]
fn drives_in_the_server_take_no_rack_units() {
    let (space, mut parts) = (space(&["5"]), parts());
    parts.controllers.iter_mut().for_each(|it| it.places = DrivePlaces::Either);
    parts.enclosures[0].rack_units = Some(2);
    let heights = |parts: &PartList| {
        let wants = needs();
        let request =
            Request { needs: &wants, demands: &[database()], space: &space, parts, together: false };
        let kept = enumerate(&request).kept;
        kept.iter().map(|it| (it.geometry.enclosure.is_some(), it.rack_units)).collect::<BTreeSet<_>>()
    };
    let shelves = heights(&parts);
    assert!(shelves.iter().all(|(in_shelf, units)| *in_shelf == (*units != Some(0))), "{shelves:?}");
    parts.enclosures[0].is_server = true;
    assert_eq!(heights(&parts), BTreeSet::from([(false, Some(0)), (true, Some(0))]));
}

/// What is there already costs nothing, and no more of it is counted.
#[test]
fn parts_that_are_there_are_not_bought() {
    let (space, mut parts) = (space(&["5"]), parts());
    parts.drives[1].owned = 4;
    parts.controllers[1].is_owned = true;
    let wants = needs();
    let request =
        Request { needs: &wants, demands: &[database()], space: &space, parts: &parts, together: false };
    let found = enumerate(&request);
    let of = |members: u16, controller: u16| {
        let is_it = |kept: &&Kept| {
            let it = kept.geometry;
            (it.drive, it.controller, it.members, it.spares) == (1, controller, members, 0)
        };
        let kept = found.kept.iter().find(is_it).expect("it is kept");
        (kept.cost, kept.assumed_cost)
    };
    assert_eq!(of(4, 1), (Some(0.0), 0.0));
    assert_eq!(of(6, 1), (Some(200.0), 14.0));
    parts.drives[1].price = None;
    let request =
        Request { needs: &wants, demands: &[database()], space: &space, parts: &parts, together: false };
    let found = enumerate(&request);
    let costs = |members: u16| {
        let is_it = |kept: &&Kept| {
            kept.geometry.drive == 1
                && kept.geometry.members + kept.geometry.spares == members
                && kept.geometry.controller == 1
        };
        found.kept.iter().find(is_it).expect("it is kept").cost
    };
    assert_eq!((costs(4), costs(5)), (Some(0.0), None), "only what is bought needs a price");
    // What is owned is no price: without any, all arrays are compared by usual ratios.
    parts.drives.iter_mut().for_each(|it| it.price = None);
    let with = |price| {
        let mut parts = parts.clone();
        parts.controllers.iter_mut().for_each(|it| it.price = price);
        parts.enclosures.iter_mut().for_each(|it| it.price = price);
        parts.controllers[1].is_owned = price.is_none();
        let request =
            Request { needs: &wants, demands: &[database()], space: &space, parts: &parts, together: false };
        let kept = enumerate(&request).kept;
        let is_known = kept.iter().any(|one| one.cost.is_some());
        (is_known, Frontier::new(request, kept).ranking().has_prices)
    };
    assert_eq!(with(None), (true, false), "nothing has a price");
    assert_eq!(with(Some(300.0)), (true, true), "owned drives behind a controller to be bought have one");
}

#[test]
fn the_nearest_of_each_kind_says_what_it_lacks() {
    let (parts, space) = (parts(), space(&["1", "5"]));
    let wants = Needs { iops: Some(10_000.0), slots: Some(8), ..needs() };
    let request =
        Request { needs: &wants, demands: &[database()], space: &space, parts: &parts, together: false };
    let found = enumerate(&request);
    assert!(found.kept.is_empty());
    let (reason, share) = found.nearest_levels[&"5".parse().expect("a level")];
    assert!(reason == Rejection::Throughput && (0.05..1.0).contains(&share), "{reason:?} {share}");
    let (reason, share) = found.nearest_levels[&"1".parse().expect("a level")];
    assert!(reason == Rejection::Capacity && (share - 0.5).abs() < 1e-9, "two of the four TB: {share}");
    assert_eq!(found.nearest_drives.len(), 2);
}

#[test]
fn the_smallest_change_is_said_first() {
    // Three drives of 2 TB and a controller cost the least that holds 4 TB: 800.
    let hard = Needs { budget: Some(700.0), slots: Some(12), ..needs() };
    let (space, parts) = (space(&["5"]), parts());
    let request =
        Request { needs: &hard, demands: &[database()], space: &space, parts: &parts, together: false };
    assert!(enumerate(&request).kept.is_empty());
    let found = relaxations(&request);
    let budget = found.iter().find(|it| it.need == Need::Budget).expect("more money helps");
    assert_eq!((budget.from, budget.to), (700.0, 800.0));
    assert!(found.windows(2).all(|pair| pair[0].share() <= pair[1].share()));
    // Where only speed is missing, less capacity would make what there is faster; that is no array of less capacity.
    let fast = Needs { iops: Some(1500.0), slots: Some(5), ..needs() };
    let found = relaxations(&Request { needs: &fast, ..request });
    assert!(found.iter().all(|it| it.need != Need::Usable || it.to < it.from), "{found:?}");
    assert!(found.iter().any(|it| it.need == Need::Throughput && it.to < it.from), "{found:?}");
}

pub(super) fn judged(members: u16, score: f64, disk_cache: bool) -> Judged {
    let geometry = Geometry {
        drive: 0,
        controller: 0,
        enclosure: None,
        level: "5".parse().expect("a level"),
        members,
        spares: 0,
    };
    let performance = vec![Performance {
        iops: score,
        bytes_per_sec: score * 8192.0,
        lat_ns_mean: 1e6,
        iodepth: 32,
        ..Performance::default()
    }];
    Judged {
        geometry,
        settings: Settings { strip: None, write_back: true, read_ahead: true, disk_cache },
        usable_bytes: 5e12,
        survives_always: 1,
        cost: None,
        assumed_cost: f64::from(members),
        rack_units: Some(0),
        life: Life::Endless,
        degraded_share: None,
        loss_per_year: None,
        watts: 100.0,
        bulk: Bulk::default(),
        performance,
        score,
    }
}

/// Links, processors and members are shared: two applications get no more than one alone, and what one needs is not there for the other.
#[test]
fn together_nobody_gets_more_than_alone() {
    let parts = parts();
    let throughput = estimate::Throughput {
        shape: shape_of("5", 5),
        members: 5,
        strip: ByteCount::from_kib(64),
        share: 0.6,
        rates: &parts.drives[0].rates,
        controller: &parts.controllers[0],
        port: None,
        slot: None,
    };
    let log = Demand { read_share: 0.0, random_share: 0.0, bytes_mean: 65_536.0, ..database() };
    let idle = Demand { pace: Some(0.001), ..database() };
    let alone = |demand: &Demand| throughput.requests_per_sec(demand);
    let (of_database, of_log) = (alone(&database()), alone(&log));
    let one = throughput.together(&[database()], &[0.0]);
    assert_eq!((one.iops[0], one.score), (of_database, of_database));
    let with_idle = throughput.together(&[database(), idle], &[0.0, 0.0]);
    assert_eq!(
        (with_idle.iops[0], with_idle.score),
        (of_database, of_database),
        "an idle one changes nothing"
    );
    let both = throughput.together(&[database(), log.clone()], &[0.0, 0.0]);
    assert_eq!(both.iops, [of_database, of_log], "each could have all");
    assert!(both.score < of_database * of_log, "not both at once: {both:?}");
    let half = throughput.together(&[database(), log], &[0.0, of_log / 2.0]);
    assert!(half.iops[0] < of_database && half.iops[1] == of_log, "{half:?}");
}

fn shape_of(level: &str, members: u16) -> raidlab_raid::StripeShape {
    let spec = raidlab_raid::LayoutSpec {
        level: level.parse().expect("a level"),
        members,
        strip_blocks: raidlab_units::BlockCount(1),
        member_blocks: raidlab_units::BlockCount(64),
    };
    raidlab_raid::build_layout(&spec).expect("it is a layout").shape()
}

#[test]
fn needs_of_one_application_are_its_own() {
    let bound = |text: &str| text.parse::<Bound>().expect("a bound");
    let own = OwnNeeds { iops: Some(500.0), latency: vec![bound("p95<=2ms")], ..OwnNeeds::default() };
    let wants = Needs { iops: Some(900.0), own: vec![OwnNeeds::default(), own], ..needs() };
    assert_eq!([wants.iops_of(0), wants.iops_of(1)], [Some(900.0), Some(500.0)]);
    let mut both = judged(4, 1000.0, false);
    both.performance.push(Performance { iops: 600.0, ..both.performance[0] });
    both.performance[1].tail.lat_ns_p95 = 1_000_000;
    assert!(both.keeps(&wants));
    both.performance[1].tail.lat_ns_p95 = 3_000_000;
    assert!(!both.keeps(&wants));
    let gives = near_misses(&[both.clone()], &wants);
    assert_eq!((gives[0].need, gives[0].application, gives[0].to), (Need::Latency, Some(1), 3e6));
    both.performance[1] = Performance { iops: 400.0, ..Performance::default() };
    let gives = near_misses(&[both], &wants);
    assert_eq!((gives[0].need, gives[0].application, gives[0].to), (Need::Throughput, Some(1), 400.0));
}

#[test]
fn what_keeps_the_needs_with_the_least_comes_first() {
    let wants = Needs { iops: Some(900.0), ..needs() };
    let order = |needs: &Needs, mut list: Vec<Judged>| {
        Ranking { needs, has_prices: false }.sort(&mut list);
        list.iter().map(|one| (one.geometry.members, one.settings.disk_cache)).collect::<Vec<_>>()
    };
    let list = || {
        vec![
            judged(6, 2000.0, false),
            judged(4, 1000.0, true),
            judged(4, 1005.0, false),
            judged(3, 800.0, false),
        ]
    };
    assert_eq!(order(&wants, list()), [(4, false), (4, true), (6, false), (3, false)]);
    assert_eq!(order(&needs(), list()), [(6, false), (4, false), (4, true), (3, false)]);
    let margins = judged(4, 990.0, false).margins(&wants);
    assert!((margins.throughput.expect("there is a need") - 0.1).abs() < 1e-12);
    assert!((margins.usable - 0.25).abs() < 1e-12);
}

/// The load is raised until a percentile meets its bound: the margin of that was next to nothing on every array.
#[test]
fn the_margin_of_a_raised_load_is_its_rate() {
    let with =
        |bound: &str| Needs { iops: Some(900.0), latency: vec![bound.parse().expect("a bound")], ..needs() };
    let mut one = judged(4, 1800.0, false);
    one.performance[0].lat_ns_mean = 0.99e6;
    let margins = one.margins(&with("mean<=1ms"));
    assert_eq!(margins.latency, None, "{margins:?}");
    assert!(margins.throughput.is_some_and(|margin| (margin - 1.0).abs() < 1e-9), "{margins:?}");
    assert!(
        one.margins(&with("mean<=0.5ms")).latency.is_some_and(|margin| margin < -0.9),
        "what is missed is told"
    );
    let held = Performance { held_iops: Some(945.0), ..one.performance[0] };
    let one = Judged { performance: vec![held], ..one };
    assert!(one.margins(&with("mean<=1ms")).latency.is_some(), "it is what it takes at that rate");
}

/// Of one unpriced part all arrays were ranked by their drives: one of 2,900 came before one of 2,300.
#[test]
fn an_unknown_price_does_not_turn_the_ranking_to_drives() {
    let wants = Needs { iops: Some(900.0), ..needs() };
    let priced = |members, score, cost| Judged { cost, ..judged(members, score, false) };
    let mut list = vec![
        priced(3, 1000.0, None),
        priced(4, 1000.0, Some(2_900.0)),
        priced(6, 1000.0, Some(2_300.0)),
        priced(2, 800.0, Some(100.0)),
    ];
    let ranking = Ranking { needs: &wants, has_prices: true };
    ranking.sort(&mut list);
    assert_eq!(list.iter().map(|one| one.geometry.members).collect::<Vec<_>>(), [6, 4, 3, 2]);
    let points = pareto(&list, ranking);
    assert_eq!(points.iter().map(|it| it.is_efficient).collect::<Vec<_>>(), [true, false, false, false]);
    assert_eq!(points[2].effort, None, "three drives are not a sum of three");
}

#[test]
fn a_search_with_some_prices_ranks_by_them() {
    let (wants, space) = (Needs { iops: Some(300.0), ..needs() }, space(&["5"]));
    let mut parts = parts();
    parts.drives[0].price = None;
    parts.enclosures.push(EnclosurePart {
        id: "no price".into(),
        price: None,
        ..parts.enclosures[0].clone()
    });
    let request =
        Request { needs: &wants, demands: &[database()], space: &space, parts: &parts, together: false };
    let kept = enumerate(&request).kept;
    let is_unpriced = |kept: &&Kept| kept.cost.is_none();
    assert!(kept.iter().any(|one| is_unpriced(&one)) && !kept.iter().all(|one| is_unpriced(&one)));
    let mut search = Frontier::new(request, kept);
    assert!(search.ranking().has_prices);
    let first = search.poll_batch(1);
    assert!(first[0].cost.is_some(), "what has a price is looked at first");
    search.handle_judged(first);
    assert_eq!(search.open(), 0, "at its bound the cheapest is the best, whatever has no price");
}

#[test]
fn an_efficient_array_is_beaten_by_none() {
    let list = [
        judged(6, 2000.0, false),
        judged(6, 1500.0, false),
        judged(4, 1000.0, false),
        judged(5, 900.0, false),
    ];
    let efficient = |needs: &Needs| -> Vec<bool> {
        pareto(&list, Ranking { needs, has_prices: false }).iter().map(|point| point.is_efficient).collect()
    };
    assert_eq!(efficient(&needs()), [true, false, true, false]);
    // What is faster by chance alone, and takes more, is beaten; what adds up is not.
    let near = [judged(8, 1030.0, false), judged(6, 1015.0, false), judged(4, 1000.0, false)];
    let points = pareto(&near, Ranking { needs: &needs(), has_prices: false });
    assert_eq!(points.iter().map(|point| point.is_efficient).collect::<Vec<_>>(), [true, false, true]);
    // What misses a need is not efficient, and beats none that keeps it.
    let wants = Needs { iops: Some(1200.0), ..needs() };
    assert_eq!(efficient(&wants), [true, false, false, false]);
    let too_many = Needs { iops: Some(9999.0), ..needs() };
    assert_eq!(efficient(&too_many), [false; 4]);
}

/// The front listed two arrays of one cost, and "takes least" stood at the second, whose sum differed in its last digit.
#[test]
fn of_equal_cost_and_rate_what_holds_more_stands_for_both() {
    let wants = Needs { iops: Some(900.0), ..needs() };
    let ranking = Ranking { needs: &wants, has_prices: false };
    let of = |members, usable_bytes, assumed_cost, score| Judged {
        usable_bytes,
        assumed_cost,
        ..judged(members, score, false)
    };
    let years = |years, one: Judged| Judged { life: Life::Years(years), ..one };
    let mut list = vec![
        of(5, 6e12, 0.1 + 0.2, 1009.0),
        years(2.0, of(4, 7e12, 0.3, 1000.0)),
        years(5.0, of(6, 7e12, 0.3, 1000.0)),
        of(8, 5e12, 0.5, 1015.0),
    ];
    ranking.sort(&mut list);
    let members = |list: &[Judged]| list.iter().map(|one| one.geometry.members).collect::<Vec<_>>();
    assert_eq!(members(&list), [6, 4, 5, 8], "more space, then more life");
    let efficient: Vec<bool> = pareto(&list, ranking).iter().map(|point| point.is_efficient).collect();
    assert_eq!(efficient, [true, false, false, false]);
    let least: Vec<bool> =
        roles(&list, &list, ranking, &parts()).iter().map(|roles| roles.contains(&Role::Cheapest)).collect();
    assert_eq!(least, [true, false, false, false]);
}

/// Three drives that missed every need were shown for being the best, and for taking least.
#[test]
fn what_misses_a_need_is_the_nearest_at_best() {
    let wants = Needs { iops: Some(9999.0), ..needs() };
    let list = [judged(6, 2000.0, false), judged(4, 1000.0, false)];
    let ranking = Ranking { needs: &wants, has_prices: false };
    assert_eq!(roles(&list, &list, ranking, &parts()), [vec![Role::Nearest], vec![Role::Next]]);
}

#[test]
fn of_those_that_miss_the_nearest_says_what_would_have_to_give() {
    let list = [judged(6, 2000.0, false), judged(4, 1000.0, false)];
    let wants = Needs { iops: Some(2500.0), latency: mean(NanoSpan::from_millis(2)), ..needs() };
    let found = near_misses(&list, &wants);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!((found[0].need, found[0].from, found[0].to), (Need::Throughput, 2500.0, 2000.0));
    // Two needs missed by all: no single one helps.
    let both = Needs { latency: mean(NanoSpan::from_micros(10)), ..wants };
    assert_eq!(near_misses(&list, &both), []);
    let slow = Needs { iops: None, ..both };
    let nearest = &near_misses(&list, &slow)[0];
    let bound = nearest.bound.as_ref().map(Bound::text);
    assert_eq!((nearest.need, bound, nearest.to), (Need::Latency, Some("mean<=10.0 us"), 1e6));
    assert_eq!(near_misses(&list, &needs()), [], "all needs are kept");
}
