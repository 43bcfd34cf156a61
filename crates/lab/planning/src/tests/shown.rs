//! What is shown after the longer runs.

use super::{application, levels, measured_parts, needs, order, with_crew};
use crate::choose::{Search, shown};
use crate::{Bench, PlanOrder};
use raidlab_advisor::plan::{Judged, Needs, Ranking, Settings, enumerate};
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
