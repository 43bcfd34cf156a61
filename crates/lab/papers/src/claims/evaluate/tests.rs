//! Predicted claims: choices of cache settings, quotients, figures, and the built-in claims.

use super::*;
use crate::claims::parse_claims;
use crate::papers::{Paper, paper_ids};
use crate::predict::PredictOptions;
use crate::predict::tests::QUICK;
use raidlab_hardware::Catalog;
use raidlab_units::ByteCount;
use std::num::{NonZeroU32, NonZeroUsize};

const MIRROR: &str = "system=lsi-1078-512 raid=1 drives=2 drive=st373455ss";

fn task(catalog: &Catalog) -> PredictTask<'_> {
    PredictTask {
        file: "c.csv",
        rows: &[],
        fitted_rows: &[],
        options: QUICK,
        catalog,
        threads: NonZeroUsize::new(2).unwrap(),
        finds_bottleneck: false,
    }
}

fn method() -> ClaimMethod {
    ClaimMethod {
        region: Some(ByteCount(8_000_000_000)),
        iodepths: [("storagebench-restore", 2), ("storagebench-streaming", 2), ("storagebench-database", 4)]
            .map(|(name, iodepth)| (name.to_owned(), iodepth))
            .into(),
        open: "write_policy=write-through io_policy=direct disk_cache=off".to_owned(),
        open_of_system: [].into(),
        fitted: vec!["c2".to_owned()],
        repeats: NonZeroU32::new(1).unwrap(),
        unexplained: [("c1".to_owned(), "nobody knows".to_owned())].into(),
    }
}

fn predicted(lines: &[String]) -> ClaimPrediction {
    predicted_by(lines, &method())
}

fn predicted_by(lines: &[String], method: &ClaimMethod) -> ClaimPrediction {
    let text = format!("id,paper,workload,a,b,ratio,kind\n{}\n", lines.join("\n"));
    let claims = parse_claims("c.csv", &text).unwrap();
    let never = AtomicBool::new(false);
    predict_claims(&task(&Catalog::builtin()), &claims, method, (&mut Hosts::alone(), &never), &mut |_, _| {})
        .unwrap()
}

#[test]
fn best_is_no_slower_than_any_setting_and_settings_left_open_are_the_studys() {
    let restore =
        |id: &str, a: &str, b: &str| format!("{id},p,storagebench-restore,{MIRROR} {a},{MIRROR} {b},1,about");
    let prediction = predicted(&[
        restore("c1", "best", "write_policy=write-through io_policy=direct disk_cache=off"),
        restore("c2", "best", ""),
        restore("c3", "best", "write_policy=write-back disk_cache=on"),
        restore("c4", "disk_cache=on", "disk_cache=on"),
        format!("c5,p,storagebench-restore,{MIRROR} any,absolute mb_per_s,1,about"),
    ]);
    let ratio = |index: usize| prediction.claims[index].row.predicted;
    assert!(ratio(0) > 1.5, "a cache is of use: {}", ratio(0));
    assert!((ratio(0) - ratio(1)).abs() < 1e-12, "what is left open is written through");
    assert!(ratio(2) >= 1.0, "nothing is faster than the best: {}", ratio(2));
    assert!((ratio(3) - 1.0).abs() < 1e-12, "the same side twice");
    let best = prediction.claims[0].parts[0].a;
    assert!((ratio(4) - best).abs() < 1e-9, "of any, the figure farthest from the claim counts");
    // Eight choices of three settings, of which those above are some.
    assert_eq!(prediction.configurations.len(), 8);
    assert!(prediction.claims[1].fitted && !prediction.claims[0].fitted);
    assert_eq!(prediction.claims[0].unexplained.as_deref(), Some("nobody knows"));
    assert_eq!((prediction.summary.claims, prediction.summary_not_fitted.claims), (5, 4));
}

#[test]
fn several_workloads_count_by_their_mean_or_by_the_highest() {
    let line = |id: &str, kind: &str| {
        format!(
            "{id},p,storagebench-restore|storagebench-database,{MIRROR} disk_cache=on,{MIRROR} disk_cache=off,1,{kind}"
        )
    };
    let prediction = predicted(&[line("c1", "about"), line("c2", "up-to")]);
    let parts: Vec<f64> = prediction.claims[0].parts.iter().map(|part| part.predicted).collect();
    assert_ne!(parts[0], parts[1]);
    assert!((prediction.claims[0].row.predicted - f64::midpoint(parts[0], parts[1])).abs() < 1e-12);
    assert!((prediction.claims[1].row.predicted - parts[0].max(parts[1])).abs() < 1e-12);
    assert_eq!(prediction.configurations.len(), 4, "both claims share their simulations");
}

#[test]
fn every_figure_is_the_mean_over_the_seeds() {
    let line = [format!("c1,p,storagebench-restore,{MIRROR} disk_cache=off,absolute mb_per_s,90,about")];
    let method = ClaimMethod { repeats: NonZeroU32::new(4).unwrap(), ..method() };
    let prediction = predicted_by(&line, &method);
    assert_eq!(prediction.configurations.len(), 4);
    let rates = prediction.configurations.iter().map(|found| found.result.ops.total.bytes_per_sec.mb_per_s());
    let rates: Vec<f64> = rates.collect();
    let mean = rates.iter().sum::<f64>() / 4.0;
    assert!((prediction.claims[0].row.predicted - mean).abs() < 1e-9);
    assert!(rates.iter().any(|rate| (rate - mean).abs() > 1.0), "spindles are out of step: {rates:?}");
}

#[test]
fn a_quotient_compares_two_workloads_on_one_system() {
    let prediction = predicted(&[format!(
        "c1,p,storagebench-database/storagebench-streaming,{MIRROR} write_policy=write-back,same,1,order"
    )]);
    let part = &prediction.claims[0].parts[0];
    assert_eq!(part.workload, "storagebench-database/storagebench-streaming");
    let configuration = |index: usize| &prediction.configurations[index];
    assert_eq!(configuration(part.a_configurations[0]).array, configuration(part.b_configurations[0]).array);
    assert!(part.predicted < 0.3, "random requests of 8 KiB move few bytes: {}", part.predicted);
}

#[test]
fn a_controller_without_a_cache_has_fewer_settings_to_choose() {
    let prediction = predicted(&[
        "c1,p,storagebench-restore,system=lsi-1068 raid=0 drives=2 drive=st373455ss best,absolute mb_per_s,100,about".to_owned(),
    ]);
    assert_eq!(prediction.configurations.len(), 2, "only the drives' own cache can be on or off");
}

#[test]
fn claims_that_cannot_be_simulated_are_told_all_at_once() {
    let text = format!(
        "id,paper,workload,a,b,ratio,kind\n\
         c1,p,storagebench-restore|storagebench-streaming,{MIRROR} best,system=lsi-1077 raid=1 drives=2 drive=x,1,about\n\
         c2,p,no-such,{MIRROR},absolute iops,1,about\n"
    );
    let claims = parse_claims("c.csv", &text).unwrap();
    let catalog = Catalog::builtin();
    let error = plan(&task(&catalog), &claims, &method()).err().expect("nothing of it is known").to_string();
    for part in ["2 of its rows", "'lsi-1077'", "column drive: 'x'", "row 'c2', column queue_depth"] {
        assert!(error.contains(part), "'{part}' is not in\n{error}");
    }
    assert_eq!(error.matches("lsi-1077").count(), 1, "once for both workloads\n{error}");
}

#[test]
fn every_claim_of_the_built_in_papers_can_be_set_up() {
    let catalog = Catalog::builtin();
    for id in paper_ids() {
        let paper = Paper::builtin(id).unwrap();
        let Some(method) = paper.method.claims.as_ref() else {
            assert!(paper.claims.is_empty(), "{id} makes claims, but nobody says how they were measured");
            continue;
        };
        assert!(paper.claims.iter().all(|claim| claim.paper == id), "{id} has claims of another paper");
        let options = PredictOptions::from(&paper.method);
        let task = PredictTask { options, ..task(&catalog) };
        let (_, parts) = plan(&task, &paper.claims, method).unwrap_or_else(|error| panic!("{id}: {error}"));
        assert_eq!(parts.len(), paper.claims.len());
        let known = |name: &String| paper.claims.iter().any(|claim| claim.id == *name);
        assert!(method.fitted.iter().all(known), "{id} names fitted claims that it lacks");
        assert!(method.unexplained.keys().all(known), "{id} explains claims that it lacks");
        for word in method.open.split_whitespace() {
            let is_setting =
                word.split_once('=').is_some_and(|(name, _)| crate::claims::SETTINGS.contains(&name));
            assert!(is_setting, "{id} leaves '{word}' open, which is no setting");
        }
    }
}
