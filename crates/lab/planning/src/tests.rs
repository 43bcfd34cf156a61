//! A plan from end to end on the catalogue, and the bound of arithmetic compared with simulation.

mod answers;
mod explained;
mod figures;
mod goldens;
mod jobs;
mod kinds;
mod lanes;
mod rebuilding;
mod shown;
mod together;

use super::*;
use raidlab_advisor::plan::{AtRisk, Frontier, Kept, Settings};
use raidlab_worlds::find_workload;
use std::path::Path;
use std::sync::LazyLock;

static CATALOG: LazyLock<Catalog> = LazyLock::new(Catalog::builtin);
static PRICES: LazyLock<Prices> = LazyLock::new(Prices::default);
static NOTHING: LazyLock<Have> = LazyLock::new(Have::default);
static DRIVES: LazyLock<Vec<String>> = LazyLock::new(|| ids(&["st3600057ss", "st9146852ss"]));
static CONTROLLERS: LazyLock<Vec<String>> = LazyLock::new(|| ids(&["perc-h800"]));
static ENCLOSURES: LazyLock<Vec<String>> = LazyLock::new(|| ids(&["md1200"]));

fn ids(ids: &[&str]) -> Vec<String> {
    ids.iter().map(|id| (*id).to_owned()).collect()
}

/// A plan for one simulation, of parts of the paper of 2011.
fn order(needs: Needs, applications: &[Application]) -> PlanOrder<'_> {
    PlanOrder {
        catalog: &CATALOG,
        prices: &PRICES,
        needs,
        applications,
        together: false,
        era: YearRange::default(),
        drives: &DRIVES,
        kinds: &[],
        have: &NOTHING,
        controllers: &CONTROLLERS,
        enclosures: &ENCLOSURES,
        space: space(),
        simulations_max: Some(1),
        top: 1,
        threads: None,
        seed: 1,
    }
}

fn application(name: &str, iodepth: u32) -> Application {
    Application::new(find_workload(name, Path::new("")).expect("it is built in"), iodepth)
}

fn planned(order: &PlanOrder<'_>) -> Result<PlanOutcome, PlanError> {
    plan(order, &mut Hosts::alone(), &mut || true, &mut |_, _| {})
}

fn with_crew<T>(work: impl FnOnce(&mut Crew<'_>) -> T) -> T {
    work(&mut Crew {
        hosts: &mut Hosts::alone(),
        threads: all_processors(),
        has_time: &mut || true,
        progress: &mut |_, _| {},
    })
}

fn measured_parts(order: &PlanOrder<'_>) -> PartList {
    let choice = with_crew(|crew| parts_and_candidates(order, &order.demands(), crew));
    choice.expect("they are in the catalogue").parts
}

fn needs(usable: ByteCount) -> Needs {
    Needs { usable, survive: 1, slots: Some(12), ..Needs::default() }
}

/// An application of random reads that asks for hardly anything, by its table of `pace`.
fn hardly_ever(pace: &str) -> Application {
    let head =
        "schema = 1\nname = \"idle\"\ntitle = \"Hardly ever\"\nsource = \"made up\"\nmetric = \"iops\"\n";
    let line = "[[line]]\nsize = \"8KiB\"\nshare_pct = 100\nread_pct = 100\nrandom_pct = 100\n";
    let text = format!("{head}{pace}\n{line}");
    let workload = raidlab_workload::Workload::from_toml("idle.toml", &text).expect("it is a workload");
    Application::new(workload, 1)
}

fn space() -> Space {
    Space {
        levels: default_levels(1, false),
        members_min: 1,
        members_max: 12,
        enclosures_max: 1,
        spares: vec![0],
        settings: default_settings(&[]),
        allows_volatile: false,
    }
}

fn run(needs: Needs, app: &str, drives: &[&str]) -> PlanOutcome {
    run_in(&space(), needs, app, drives, "perc-h800")
}

fn run_in(space: &Space, needs: Needs, app: &str, drives: &[&str], controller: &str) -> PlanOutcome {
    run_of(space, needs, app, (drives, controller), Some(12))
}

fn run_of(
    space: &Space,
    needs: Needs,
    app: &str,
    (drives, controller): (&[&str], &str),
    simulations_max: Option<usize>,
) -> PlanOutcome {
    planned(&PlanOrder {
        drives: &ids(drives),
        controllers: &ids(&[controller]),
        space: space.clone(),
        simulations_max,
        ..order(needs, &[application(app, 32)])
    })
    .expect("it can be planned")
}

#[test]
fn what_the_papers_measured_can_be_plugged_together() {
    let catalog = Catalog::builtin();
    let mut looked_at = 0;
    for row in raidlab_papers::paper_ids()
        .flat_map(|id| raidlab_papers::Paper::builtin(id).expect("it is built in").rows)
    {
        let mut parts = row.system.split('/').map(|part| part.strip_prefix("dual-").unwrap_or(part));
        let Some(controller) = parts.find_map(|id| catalog.controller(id).ok()) else { continue };
        let drive = catalog.drive(&row.drive).expect("rows were looked up");
        let bus = drive.bus.as_deref().expect("each drive says what it is plugged into");
        let takes = controller.buses.as_deref().is_none_or(|buses| buses.split(' ').any(|one| one == bus));
        assert!(takes, "{}: drives for {bus} behind {}", row.id, controller.id);
        let fits = controller.ports.is_none_or(|ports| u32::from(row.drives) <= ports);
        assert!(fits, "{}: {} drives at {:?} ports", row.id, row.drives, controller.ports);
        looked_at += 1;
    }
    assert!(looked_at > 250, "{looked_at}");
    for controller in catalog.controllers() {
        assert!(controller.buses.is_some(), "{} fits everything", controller.id);
    }
}

/// Within so many rack units there was no server for `NVMe` drives at all.
#[test]
fn every_enclosure_says_how_high_it_is() {
    for enclosure in CATALOG.enclosures() {
        assert!(enclosure.rack_units.is_some(), "{} fits no rack", enclosure.id);
    }
}

#[test]
fn fewer_drives_that_serve_are_found_and_told_with_everything() {
    let wants = Needs { iops: Some(800.0), ..needs(ByteCount(1_000_000_000_000)) };
    let outcome = run(wants, "md1200-web-file-server", &["st3600057ss", "st32000444ss"]);
    assert!(outcome.fits(), "{outcome:#?}");
    let best = &outcome.top[0];
    assert!(best.judged.performance[0].iops >= 800.0 && best.margins.throughput.expect("a need") >= 0.0);
    assert!(best.degraded[0].iops < best.judged.performance[0].iops * 1.05, "{best:#?}");
    assert!(best.rebuild_hours.expect("a rebuild was under way") > 0.05, "{best:#?}");
    assert!(best.risk.expect("the drives are known").per_year > 0.0);
    assert!(best.reason.contains("bottleneck"), "{}", best.reason);
    assert!(outcome.pareto.iter().any(|point| point.is_efficient));
    assert_eq!(outcome.others.len(), outcome.pareto.len());
    let level = format!("RAID {}", best.judged.geometry.level.level.name());
    let why_not = &outcome.alternatives;
    assert!(why_not.iter().any(|it| it.kind == Kind::Level) && why_not.iter().all(|it| it.name != level));
    assert!(why_not.iter().all(|it| !it.verdict.is_empty()), "{why_not:#?}");
}

/// The same plan on any number of threads, whatever is done at the same time.
#[test]
fn threads_change_nothing() {
    let plan = |threads: usize| {
        let wants = Needs { iops: Some(500.0), ..needs(ByteCount(1_000_000_000_000)) };
        let apps = [application("md1200-web-file-server", 16)];
        let order = PlanOrder {
            simulations_max: Some(3),
            top: 2,
            threads: NonZeroUsize::new(threads),
            ..order(wants, &apps)
        };
        let outcome = planned(&order).expect("it can be planned");
        let top = outcome.top.iter().map(|one| (one.label.clone(), one.roles.clone(), one.reason.clone()));
        (top.collect::<Vec<_>>(), outcome.alternatives, outcome.simulated)
    };
    let one = plan(1);
    assert_eq!(one.0.len(), 2);
    assert_eq!(plan(3), one);
}

/// What arithmetic rejects must not be what a simulation would keep: nothing that was run did more than its bound.
#[test]
fn no_run_does_more_than_arithmetic_allows() {
    for app in ["md1200-oltp", "md1200-sql-log"] {
        let outcome = run(needs(ByteCount(300_000_000_000)), app, &["st3600057ss", "pliant-lb150"]);
        let app = application(app, 32);
        let drives = ids(&["st3600057ss", "pliant-lb150"]);
        let order = PlanOrder { drives: &drives, ..order(needs(ByteCount(300_000_000_000)), &[]) };
        let order_parts = measured_parts(&order);
        let (needs, space) = (needs(ByteCount(300_000_000_000)), space());
        let demands = [app.demand()];
        let kept = enumerate(&Request {
            needs: &needs,
            demands: &demands,
            space: &space,
            parts: &order_parts,
            together: false,
        })
        .kept;
        for SimulatedArray { label, judged, .. } in &outcome.others {
            let bound =
                kept.iter().find(|one| one.geometry == judged.geometry).expect("it was kept").at_best[0];
            let iops = judged.performance[0].iops;
            assert!(
                iops <= bound * 1.02,
                "{}: {label} does {iops} with a bound of {bound}",
                app.workload.name()
            );
        }
    }
}

/// Works on one array of these parts as the search has it before it is run: controller, enclosure (none if empty) and drive.
fn on_array<T>(
    (controller, enclosure, drive): (&str, &str, &str),
    (level, members): (&str, u16),
    application: Application,
    work: impl FnOnce(&Bench<'_>, &Judged) -> T,
) -> T {
    let needs = Needs { survive: 0, slots: None, ..needs(ByteCount(1_000_000_000_000)) };
    let (drives, controllers, applications) = (ids(&[drive]), ids(&[controller]), [application]);
    let enclosures = if enclosure.is_empty() { Vec::new() } else { ids(&[enclosure]) };
    let order = PlanOrder {
        drives: &drives,
        controllers: &controllers,
        enclosures: &enclosures,
        era: YearRange::TODAY,
        space: levels(&[level], members),
        ..order(needs, &applications)
    };
    let (parts, demands) = (measured_parts(&order), order.demands());
    let request = order.request(&demands, &parts);
    let kept = enumerate(&request).kept;
    let is_it = |it: &&Kept| {
        it.geometry.members == members && enclosure.is_empty() == it.geometry.enclosure.is_none()
    };
    let kept = kept.iter().find(is_it);
    let kept = kept.unwrap_or_else(|| panic!("{members} of {drive} behind {controller} in '{enclosure}'"));
    let plain = Settings { strip: None, write_back: false, read_ahead: false, disk_cache: false };
    work(&Bench { order: &order, parts: &parts, demands: &demands }, &kept.unjudged(&request, plain))
}

fn levels(names: &[&str], members_max: u16) -> Space {
    let levels = names.iter().map(|name| name.parse().expect("a level")).collect();
    Space { levels, members_max, ..space() }
}

/// What the guide `md1200-2011` measured as best in its five categories, of its drives with 32 requests in flight: solid-state
/// drives without cache for random access, mirrored where it is small; hard drives with parity for logs.
#[test]
fn the_guide_of_2011_is_agreed_with_by_simulation() {
    let drives = ["st3600057ss", "pliant-lb150"];
    let rows = [
        ("md1200-web-file-server", "pliant-lb150", "10"),
        ("md1200-oltp", "pliant-lb150", "10"),
        ("md1200-sql-log", "st3600057ss", "5"),
        ("md1200-video-on-demand", "pliant-lb150", ""),
        ("md1200-streaming-media", "pliant-lb150", ""),
    ];
    for (app, drive, level) in rows {
        let outcome =
            run_in(&levels(&["5", "10"], 8), needs(ByteCount(500_000_000_000)), app, &drives, "perc-h800");
        let best = &outcome.top[0];
        assert!(best.label.contains(drive), "{app}: {}", best.label);
        assert!(level.is_empty() || best.judged.geometry.level.to_string() == level, "{app}: {}", best.label);
        let settings = best.judged.settings;
        // The guide's settings for solid-state drives; for hard drives those of the next test.
        let is_plain = !settings.write_back && !settings.read_ahead;
        assert!(is_plain || drive != "pliant-lb150", "{app}: {}", best.settings_label);
    }
}

/// Of hard drives the same guide writes back with parity, and mirrors where random access is mixed, as `primergy-2008` does.
#[test]
fn mixed_access_is_mirrored_and_parity_writes_back() {
    // The guide leaves the drives' own caches off, as its controller delivers them, and as a plan does.
    let outcome = run_in(
        &levels(&["5", "6", "10"], 8),
        needs(ByteCount(1_000_000_000_000)),
        "md1200-oltp",
        &["st3600057ss"],
        "perc-h800",
    );
    assert_eq!(outcome.top[0].judged.geometry.level.to_string(), "10", "{}", outcome.top[0].label);
    let parity = outcome.others.iter().filter(|it| it.judged.geometry.level.to_string() != "10");
    for SimulatedArray { label, judged, .. } in parity {
        assert!(judged.settings.write_back, "{label}: {:?}", judged.settings);
    }
}

/// `primergy-2008`: the disk cache of SATA drives on, and parity where capacity is to cost little.
#[test]
fn sata_drives_cache_and_parity_is_cheap() {
    let restore = run_in(
        &Space { allows_volatile: true, ..levels(&["1"], 2) },
        needs(ByteCount(100_000_000_000)),
        "storagebench-restore",
        &["wd1600aajs"],
        "lsi-1068",
    );
    let best = &restore.top[0];
    assert!(best.judged.settings.disk_cache, "{}", best.settings_label);
    // Half of 8 MiB in each of two drives.
    assert_eq!(best.at_risk, AtRisk { controller_bytes: 0, drives_bytes: 8 << 20 });
    assert!(
        best.reason.starts_with("A loss of power takes acknowledged writes: up to 8 MiB in the write caches")
    );
    let wants = Needs { iops: Some(200.0), ..needs(ByteCount(500_000_000_000)) };
    let space = levels(&["5", "6", "10"], 12);
    let outcome = run_in(&space, wants, "storagebench-file-server", &["wd1600aajs"], "lsi-1078-512");
    let level = outcome.top[0].judged.geometry.level.to_string();
    assert_eq!(level, "5", "{}", outcome.top[0].label);
}

/// A host-managed drive is never proposed, and refused where it is named.
#[test]
fn host_managed_drives_are_left_out() {
    let shingled = include_str!("../../../../catalog/drives/generic-smr-8tb.toml");
    let (head, rest) = shingled.split_once("[shingles]").expect("it is shingled");
    let (_, tail) = rest.split_once("[mechanics]").expect("it turns");
    let zones = "[shingles]\nmanaged_by = \"host\"\nzone = { value = \"256 MiB\", source = \"usual\" }\n\n[mechanics]";
    let text = format!("{}{zones}{tail}", head.replace("generic-smr-8tb", "zoned"));
    let mut catalog = Catalog::builtin();
    catalog.add("zoned.toml", &text).expect("an entry may be host-managed");
    let plan_with = |drives: &[&str]| {
        let needs = needs(ByteCount(1_000_000_000_000));
        planned(&PlanOrder { catalog: &catalog, drives: &ids(drives), ..order(needs, &[]) })
    };
    let refused = plan_with(&["st3600057ss", "zoned"]).expect_err("one of them can't be a member");
    assert!(matches!(&refused, PlanError::HostManaged { drive } if drive == "zoned"), "{refused}");
    assert!(plan_with(&["st3600057ss"]).is_ok());
}

/// What the search ends with is what trying everything ends with.
#[test]
fn trying_everything_finds_nothing_better_than_the_search() {
    let applications = [application("md1200-oltp", 16)];
    let usable = ByteCount(500_000_000_000);
    let rows =
        [("5", needs(usable)), ("10", needs(usable)), ("5", Needs { iops: Some(400.0), ..needs(usable) })];
    for (level, needs) in rows {
        let order = PlanOrder {
            drives: &ids(&["st3600057ss", "st9500430ss"]),
            enclosures: &ids(&["md1200", "md1220"]),
            space: levels(&["1", level], 4),
            simulations_max: None,
            ..order(needs, &applications)
        };
        let (tried, all) = finds_the_best_of_all(&order);
        assert!(tried < all, "RAID {level}: {tried} of {all} were run");
    }
}

/// Checks that the search of `order` ends with what trying everything ends with, and that no arrangement is better than it was
/// bounded by. Returns how many were tried, of how many.
fn finds_the_best_of_all(order: &PlanOrder<'_>) -> (usize, usize) {
    let (parts, demands) = (measured_parts(order), order.demands());
    let (needs, space) = (&order.needs, &order.space);
    let request = Request { needs, demands: &demands, space, parts: &parts, together: order.together };
    let kept = enumerate(&request).kept;
    let bench = Bench { order, parts: &parts, demands: &demands };
    let mut frontier = Frontier::new(request.clone(), kept.clone());
    let end = with_crew(|crew| choose::search(&bench, &mut frontier, crew)).expect("they can be simulated");
    assert_eq!((end, frontier.open()), (SearchEnd::Proven, 0));
    let ranking = frontier.ranking();
    let works =
        |kept: &Kept, it: &Settings| Hardware::of(&parts, kept.geometry).rejects(*it, false).is_none();
    let each = kept.iter().flat_map(|kept| space.settings.iter().map(move |it| (kept, it)));
    let all: Vec<Judged> =
        each.filter(|(kept, it)| works(kept, it)).map(|(kept, it)| kept.unjudged(&request, *it)).collect();
    let judge = |index: usize| judge::judge(&bench, &all[index], judge::Window::Short).map(|(it, _)| it);
    let stage = Stage { label: "all", from: 0.0, to: 1.0 };
    let results = with_crew(|crew| crew.on_all(stage, all.len(), judge)).expect("they can be simulated");
    for one in &results {
        let bound = kept.iter().find(|it| it.geometry == one.geometry).expect("it was kept");
        assert!(one.score <= bound.score_at_best * 1.02, "{one:?} beyond {}", bound.score_at_best);
    }
    let best = results.iter().map(|one| ranking.key(one)).min();
    let (judged, tried) = frontier.into_results();
    assert_eq!(judged.first().map(|one| ranking.key(one)), best, "{:?}", judged.first());
    (tried.len(), all.len())
}

/// Without prices a plan once put two drives into an enclosure of 84 places.
#[test]
fn two_drives_get_the_smallest_enclosure_and_nvme_drives_a_backplane() {
    let rows = [
        ("hba-9500-8e", "exos-x24-24tb", Some("jbod-12-lff-12g")),
        ("linux-md-sas", "exos-x24-24tb", None),
        ("linux-md-nvme", "samsung-pm9a3-7680", Some("backplane-8-nvme")),
    ];
    for (controller, drive, enclosure) in rows {
        let outcome = planned(&PlanOrder {
            era: YearRange::TODAY,
            drives: &ids(&[drive]),
            controllers: &ids(&[controller]),
            enclosures: &[],
            space: levels(&["1"], 2),
            ..order(needs(ByteCount(1_000_000_000_000)), &[application("md1200-oltp", 4)])
        })
        .expect("it can be planned");
        // Bays of PCI Express 5.0 are as many, and make no difference to these drives.
        let found = outcome.top[0].parts.enclosure.as_deref().map(|id| id.trim_end_matches("-5"));
        assert_eq!(found, enclosure, "{}", outcome.top[0].label);
    }
}

/// A search that is out of time answers with what it has, and says what could be better.
#[test]
fn no_more_time_is_told() {
    let applications = [application("md1200-oltp", 32)];
    let order =
        PlanOrder { simulations_max: None, ..order(needs(ByteCount(500_000_000_000)), &applications) };
    let outcome =
        plan(&order, &mut Hosts::alone(), &mut || false, &mut |_, _| {}).expect("it can be planned");
    assert!(outcome.left_out > 0 && outcome.end == SearchEnd::Time, "{:?}", outcome.end);
    assert_eq!(outcome.top.len(), 1);
}
