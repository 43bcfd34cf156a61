//! A plan from end to end on the catalogue, and the bound that arithmetic gives against what simulation finds.

use super::*;
use crate::load::find_workload;
use std::path::Path;

fn needs(usable: ByteCount) -> Needs {
    Needs {
        usable,
        survive: 1,
        iops: None,
        bytes_per_sec: None,
        mean_response: None,
        budget: None,
        power_watts: None,
        slots: Some(12),
    }
}

fn space() -> Space {
    Space {
        levels: default_levels(1, false),
        members_max: 12,
        enclosures_max: 1,
        spares: vec![0],
        settings: default_settings(&[]),
    }
}

fn run(needs: Needs, app: &str, drives: &[&str]) -> PlanOutcome {
    let app = find_workload(app, Path::new("")).expect("it is built in");
    let order = PlanOrder {
        catalog: &Catalog::builtin(),
        prices: &Prices::default(),
        needs,
        applications: &[app],
        drives: &drives.iter().map(|id| (*id).to_owned()).collect::<Vec<_>>(),
        controllers: &["perc-h800".to_owned()],
        enclosures: &["md1200".to_owned()],
        space: space(),
        iodepth: 32,
        top: 2,
        threads: None,
        seed: 1,
    };
    plan(&order, &mut |_, _| {}).expect("it can be planned")
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
}

/// What arithmetic rejects must not be what a simulation would keep: nothing that was run did more than its bound.
#[test]
fn no_run_does_more_than_arithmetic_allows() {
    for app in ["md1200-oltp", "md1200-streaming-media", "md1200-sql-log", "md1200-video-on-demand"] {
        let outcome = run(needs(ByteCount(300_000_000_000)), app, &["st3600057ss", "pliant-lb150"]);
        let app = find_workload(app, Path::new("")).expect("it is built in");
        let order_parts = {
            let order = PlanOrder {
                catalog: &Catalog::builtin(),
                prices: &Prices::default(),
                needs: needs(ByteCount(300_000_000_000)),
                applications: &[],
                drives: &["st3600057ss".to_owned(), "pliant-lb150".to_owned()],
                controllers: &["perc-h800".to_owned()],
                enclosures: &["md1200".to_owned()],
                space: space(),
                iodepth: 32,
                top: 1,
                threads: None,
                seed: 1,
            };
            parts::of_order(&order).expect("they are in the catalogue")
        };
        let (needs, space) = (needs(ByteCount(300_000_000_000)), space());
        let demands = [demand_of(&app.spec)];
        let kept =
            enumerate(&Request { needs: &needs, demands: &demands, space: &space, parts: &order_parts }).kept;
        for (label, judged) in &outcome.others {
            let bound =
                kept.iter().find(|one| one.geometry == judged.geometry).expect("it was kept").at_best[0];
            let iops = judged.performance[0].iops;
            assert!(iops <= bound * 1.02, "{}: {label} does {iops} with a bound of {bound}", app.name());
        }
    }
}
