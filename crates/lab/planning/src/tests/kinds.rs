//! Why not another kind of arrays: what is told of a kind that was not run, and of one that was run in part.

use super::{CATALOG, application, ids, levels, needs, order};
use crate::alternatives::{Alternative, Hopes, hopes, of};
use crate::{Bench, Have, PlanOrder, parts};
use raidlab_advisor::plan::{
    Enumeration, Frontier, Geometry, Judged, Kept, Needs, Ranking, Request, Settings, enumerate,
};
use raidlab_hardware::YearRange;
use raidlab_units::ByteCount;

const PLAIN: Settings = Settings { strip: None, write_back: false, read_ahead: false, disk_cache: false };

/// What is told beside an array that `is_best`, of those that arithmetic keeps with so much there; `tell` makes it of what is told.
fn told(
    have: &[&str],
    is_best: impl Fn(&Bench<'_>, &Kept) -> bool,
    tell: impl FnOnce(&Bench<'_>, &Request<'_>, &Judged, &Enumeration) -> Vec<Alternative>,
) -> Vec<Alternative> {
    let applications = [application("md1200-oltp", 24)];
    let wants = Needs { iops: Some(1000.0), slots: Some(8), ..needs(ByteCount(10_000_000_000_000)) };
    let have = Have::read(&ids(have), &CATALOG).expect("they are in the catalogue");
    let order = PlanOrder {
        drives: &ids(&["samsung-pm9a3-7680", "samsung-pm893-3840"]),
        controllers: &ids(&["linux-md-nvme", "linux-md-sas", "smart-array-p408i-a"]),
        enclosures: &ids(&["backplane-24-nvme"]),
        era: YearRange::TODAY,
        have: &have,
        space: levels(&["5", "10"], 8),
        ..order(wants, &applications)
    };
    let (parts, demands) = (parts::of_order(&order).expect("they are parts"), order.demands());
    let request = order.request(&demands, &parts);
    let found = enumerate(&request);
    let bench = Bench { order: &order, parts: &parts, demands: &demands };
    let best = found.kept.iter().find(|one| is_best(&bench, one)).expect("arithmetic keeps it");
    tell(&bench, &request, &best.unjudged(&request, PLAIN), &found)
}

fn verdict(told: &[Alternative], name: &str) -> String {
    let of_name = told.iter().find(|one| one.name == name);
    of_name.unwrap_or_else(|| panic!("no {name}: {told:#?}")).verdict.clone()
}

/// Beside an array of which all was there, others were said to take "4 drives and more", which were there, too.
#[test]
fn what_a_kind_takes_is_what_is_to_be_added() {
    let tell = |bench: &Bench<'_>, _: &Request<'_>, best: &Judged, found: &Enumeration| {
        let ranking = Ranking { needs: &bench.order.needs, has_prices: false };
        of(bench, (Some(best), std::slice::from_ref(best), &Hopes::default()), ranking, found)
    };
    let is_best =
        |bench: &Bench<'_>, one: &Kept| bench.label(one.geometry).starts_with("RAID 5 x3 of samsung-pm9a3");
    let told = told(&["8 x samsung-pm9a3-7680"], is_best, tell);
    assert!(verdict(&told, "RAID 10").ends_with("may keep the needs with nothing to be bought"), "{told:#?}");
    let sata = verdict(&told, "sata-ssd");
    assert!(sata.contains("with 4 x samsung-pm893-3840, 1 x ") && sata.ends_with("to be added"), "{sata}");
    let mut unknown = told.iter().filter(|one| one.verdict.starts_with("not simulated"));
    assert!(unknown.all(|one| one.keeps_needs.is_none()), "nobody knows: {told:#?}");
}

/// "sata-ssd: 1.39 times the cost" stood for drives that kept the needs at 1.16 times behind a controller that was not run.
#[test]
fn what_takes_less_of_a_kind_and_was_not_run_is_told() {
    let tell = |bench: &Bench<'_>, request: &Request<'_>, best: &Judged, found: &Enumeration| {
        let mut search = Frontier::new(request.clone(), found.kept.clone());
        let label = |of: Geometry| bench.label(of);
        let mut run =
            search.poll_of(|of, _| label(of).starts_with("RAID 5 x4 of samsung-pm893-3840, smart-array"));
        run.extend(search.poll_of(|of, _| of == best.geometry));
        search.handle_judged(run);
        let best = search.judged().iter().find(|one| one.geometry == best.geometry).expect("it was run");
        let hopes = hopes(bench, &search);
        of(bench, (Some(best), search.judged(), &hopes), search.ranking(), found)
    };
    let is_best =
        |bench: &Bench<'_>, one: &Kept| bench.label(one.geometry).starts_with("RAID 5 x3 of samsung-pm9a3");
    let told = told(&[], is_best, tell);
    let sata = verdict(&told, "sata-ssd");
    let cheaper = "; not simulated: RAID 5 x4 of samsung-pm893-3840, linux-md-sas, at about ";
    assert!(sata.starts_with("keeps the needs at about ") && sata.contains(cheaper), "{sata}");
    assert!(sata.ends_with(" times the cost, may keep them"), "{sata}");
}

#[test]
fn years_without_drives_are_named() {
    let applications = [application("md1200-oltp", 24)];
    let told = |kinds: &[&str]| {
        let era = "1950..1951".parse().expect("years");
        let kinds = ids(kinds);
        let order =
            PlanOrder { drives: &[], kinds: &kinds, era, ..order(needs(ByteCount(1)), &applications) };
        parts::of_order(&order).expect_err("there are none").to_string()
    };
    assert_eq!(told(&[]), "no drive is of the years --era 1950..1951: name others, or drives");
    assert!(told(&["nvme"]).contains("of the years --era 1950..1951 is of --kinds nvme"));
}
