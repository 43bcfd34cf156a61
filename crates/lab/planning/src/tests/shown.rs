//! What is shown after the longer runs.

use super::{application, hardly_ever, ids, levels, measured_parts, needs, order, with_crew};
use crate::choose::{Search, shown};
use crate::{Bench, PlanOrder};
use raidlab_advisor::plan::{Geometry, Judged, Life, Needs, Ranking, Settings, enumerate};
use raidlab_units::ByteCount;

/// RAID 5 of five drives that missed its rate by 35 % stood in a table beside arrays that kept it, as its short run had kept it, too.
#[test]
fn what_misses_a_need_in_its_longer_run_is_not_shown() {
    let applications = [application("md1200-oltp", 32)];
    let wants = Needs { iops: Some(100.0), ..needs(ByteCount(500_000_000_000)) };
    let order = PlanOrder { top: 2, space: levels(&["5"], 8), ..order(wants, &applications) };
    let (parts, demands) = (measured_parts(&order), order.demands());
    let request = order.request(&demands, &parts);
    let plain = Settings { strip: None, write_back: false, read_ahead: false, disk_cache: false };
    let ranking = Ranking { needs: &order.needs, has_prices: false };
    let mut judged: Vec<Judged> =
        enumerate(&request).kept.iter().map(|kept| kept.unjudged(&request, plain)).collect();
    ranking.sort(&mut judged);
    judged.truncate(3);
    assert!(judged.len() == 3 && judged.iter().all(|one| one.keeps(&order.needs)), "{judged:#?}");
    judged[0].performance[0].iops = 65.0;
    ranking.sort(&mut judged);
    let [second, third, missing] = &judged[..] else { panic!("there are three") };
    let bench = Bench { order: &order, parts: &parts, demands: &demands };
    let others = |long: &[&Judged]| {
        let results: Vec<_> = long.iter().map(|one| ((*one).clone(), Vec::new())).collect();
        with_crew(|crew| {
            let (judged, tried, long) = (judged.clone(), Vec::new(), Vec::new());
            let search = Search { bench: &bench, ranking, judged, tried, simulated: 0, long, crew };
            search.others(&results).into_iter().map(|one| one.geometry).collect::<Vec<_>>()
        })
    };
    assert_eq!(others(&[missing]), [second.geometry], "what is first now");
    assert_eq!(others(&[missing, second]), [third.geometry], "one more instead of what misses its rate");
    assert!(others(&[missing, second, third]).is_empty());
    let told = |all: &[Judged]| shown(all, &order.needs).iter().map(|one| one.geometry).collect::<Vec<_>>();
    assert_eq!(told(&judged), [second.geometry, third.geometry]);
    assert_eq!(told(&judged[2..]), [missing.geometry], "where nothing keeps them");
}

const PLAIN: Settings = Settings { strip: None, write_back: false, read_ahead: false, disk_cache: false };

/// Hands a search with all arrays of `order` to `work`, the one that takes least first.
fn with_search<T>(order: &PlanOrder<'_>, work: impl FnOnce(&mut Search<'_, '_, '_>) -> T) -> T {
    let (parts, demands) = (measured_parts(order), order.demands());
    let request = order.request(&demands, &parts);
    let ranking = Ranking { needs: &order.needs, has_prices: false };
    let judged = enumerate(&request).kept.iter().map(|kept| kept.unjudged(&request, PLAIN)).collect();
    let bench = Bench { order, parts: &parts, demands: &demands };
    with_crew(|crew| {
        let (tried, long) = (Vec::new(), Vec::new());
        let mut search = Search { bench: &bench, ranking, judged, tried, simulated: 0, long, crew };
        ranking.sort(&mut search.judged);
        work(&mut search)
    })
}

/// Eleven disks of 24 TB did 1,550 MB/s in a short run and 2,010 in a longer one; 1,573 were needed, and ten of 26 TB were bought.
#[test]
fn what_takes_less_and_misses_by_little_is_run_for_longer() {
    let applications = [application("md1200-oltp", 32)];
    let wants = Needs { iops: Some(100.0), ..needs(ByteCount(500_000_000_000)) };
    let order = PlanOrder { space: levels(&["5"], 8), ..order(wants, &applications) };
    let near = |iops: f64, life: Life| {
        with_search(&order, |search| {
            let least = search.judged[0].geometry;
            (search.judged[0].performance[0].iops, search.judged[0].life) = (iops, life);
            search.ranking.sort(&mut search.judged);
            search.nearly_kept().iter().map(|one| one.geometry == least).collect::<Vec<_>>()
        })
    };
    assert_eq!(near(75.0, Life::Endless), [true]);
    assert!(near(65.0, Life::Endless).is_empty(), "a third is not little");
    assert!(near(105.0, Life::Endless).is_empty(), "it is the best");
}

/// A RAID card was told to do 2,460 MB/s of disks that take 2,260, for Linux md had done more in longer runs than in short ones; and a
/// recorder's 391 requests a second, which all arrive, were 390 behind others.
#[test]
fn longer_runs_say_nothing_of_other_controllers_nor_of_rates_of_its_own() {
    let controllers = ids(&["perc-h800", "perc-h840"]);
    let found = |application, controller_of_long: usize| {
        let applications = [application];
        let wants = needs(ByteCount(500_000_000_000));
        let space = levels(&["5"], 8);
        let order = PlanOrder { controllers: &controllers, space, ..order(wants, &applications) };
        with_search(&order, |search| {
            let of = |search: &Search<'_, '_, '_>, controller: usize| {
                let mut all = search.judged.iter();
                all.find(|one| usize::from(one.geometry.controller) == controller)
                    .expect("there is one")
                    .clone()
            };
            let (long, other) = (of(search, controller_of_long), of(search, 0));
            let before = other.performance[0].iops;
            search.judged.retain(|one| one.geometry == other.geometry);
            search.long = vec![(Geometry { members: long.geometry.members + 1, ..long.geometry }, 1.25)];
            search.align_short_runs();
            search.judged[0].performance[0].iops / before
        })
    };
    let near = |ratio: f64, expected: f64| assert!((ratio - expected).abs() < 1e-9, "{ratio} for {expected}");
    near(found(application("md1200-oltp", 32), 0), 1.25);
    near(found(application("md1200-oltp", 32), 1), 1.0);
    near(found(hardly_ever("[arrival]\nprocess = \"poisson\"\nrate = 20"), 0), 1.0);
}
