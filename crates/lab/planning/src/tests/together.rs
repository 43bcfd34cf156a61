//! Applications that run at the same time, on one array and on two.

use super::{application, finds_the_best_of_all, ids, levels, measured_parts, needs, order, planned};
use crate::judge::Window;
use crate::*;
use raidlab_advisor::plan::{OwnNeeds, Settings};

const WRITE_BACK: Settings = Settings { strip: None, write_back: true, read_ahead: false, disk_cache: false };

/// An application without a request in any window.
fn idle() -> Application {
    super::hardly_ever("[arrival]\nprocess = \"fixed\"\nrate = 0.001")
}

fn needing(iops: &[f64]) -> Needs {
    let own = iops.iter().map(|iops| OwnNeeds { iops: Some(*iops), ..OwnNeeds::default() });
    Needs { own: own.collect(), ..needs(ByteCount(500_000_000_000)) }
}

fn disks<'a>(needs: Needs, applications: &'a [Application], drives: &'a [String]) -> PlanOrder<'a> {
    let space = levels(&["5", "10"], 8);
    PlanOrder { together: true, drives, space, simulations_max: None, ..order(needs, applications) }
}

#[test]
fn an_idle_application_leaves_the_array_that_is_planned() {
    let drives = ids(&["st9146852ss"]);
    let with = |applications: &[Application]| {
        let needs = needs(ByteCount(500_000_000_000));
        let order = PlanOrder { space: levels(&["10"], 8), ..disks(needs, applications, &drives) };
        planned(&order).expect("it can be planned")
    };
    let alone = with(&[application("md1200-oltp", 16)]);
    let both = with(&[application("md1200-oltp", 16), idle()]);
    assert_eq!((&both.top[0].label, both.end), (&alone.top[0].label, SearchEnd::Proven));
    assert_eq!(both.top[0].judged.performance[1].iops, 0.0);
}

/// What serves two at the same time serves each of them alone: it can't take less.
#[test]
fn a_plan_for_two_takes_no_less_than_one_for_either() {
    let drives = ids(&["st9146852ss"]);
    let apps = [application("md1200-oltp", 16), application("md1200-sql-log", 4)];
    let members = |applications: &[Application], iops: &[f64]| {
        let outcome = planned(&disks(needing(iops), applications, &drives)).expect("it can be planned");
        assert!(outcome.fits(), "{:?}", outcome.relaxations);
        outcome.top.into_iter().next().expect("there is one")
    };
    let both = members(&apps, &[400.0, 300.0]);
    for (app, iops) in [(0, 400.0), (1, 300.0)] {
        let alone = members(&apps[app..=app], &[iops]);
        let (one, two) = (alone.judged.drives(), both.judged.drives());
        assert!(one <= two, "{one} drives for {app} alone, {two} for both");
        let figures = (both.alone[app].iops, both.judged.performance[app].iops);
        assert!(figures.0 > figures.1 && figures.1 >= iops, "{app}: {figures:?} alone and beside");
    }
    let log = "md1200-sql-log gets";
    assert!(both.reason.contains(log) && both.reason.contains("Its tightest need is"), "{}", both.reason);
    assert_eq!((both.degraded.len(), both.rebuilding.len(), both.range.len()), (2, 2, 2));
}

/// RAID 5 was refused where the log beside it took 18,000 requests/s and needed 200: only what missed its bound was lowered.
#[test]
fn what_gets_more_than_it_needs_leaves_the_rest_to_others() {
    let drives = ids(&["st3600057ss"]);
    let apps = [application("md1200-oltp", 64), application("md1200-sql-log", 64)];
    let bound = "p99<=50ms".parse().expect("a bound");
    let mut needs = needing(&[300.0, 200.0]);
    needs.own[0].latency.push(bound);
    let space = Space { settings: vec![WRITE_BACK], ..levels(&["5"], 8) };
    let outcome = planned(&PlanOrder { space, ..disks(needs, &apps, &drives) }).expect("it can be planned");
    let best = &outcome.top[0];
    assert!(best.keeps_needs && best.judged.drives() <= 6, "{}: {:?}", best.label, best.judged.performance);
    let [oltp, log] = &best.judged.performance[..] else { panic!("there are two") };
    assert!(oltp.iops >= 300.0 && oltp.tail.lat_ns_p99 <= 50_000_000 && log.iops >= 200.0);
    assert_eq!((oltp.held_iops, log.held_iops), (None, Some(210.0)), "{oltp:?}");
    assert!(log.iops < 1.02 * 210.0 && best.alone[1].iops > 1000.0, "{log:?}");
    assert!(best.reason.contains("It is held to 210"), "{}", best.reason);
    let json = serde_json::to_value(&outcome).expect("it is data");
    let told = |app: usize, key: &str| json["applications"][app][key].clone();
    assert_eq!((told(0, "name"), told(1, "name")), ("md1200-oltp".into(), "md1200-sql-log".into()));
    assert_eq!((told(1, "load"), &json["together"]), ("sequential 0/100, 64 KiB".into(), &true.into()));
}

/// The same while a member is rebuilt, where that much must be left.
#[test]
fn what_gets_more_than_it_needs_leaves_the_rest_to_others_while_one_is_rebuilt() {
    let drives = ids(&["st3600057ss"]);
    let apps = [application("md1200-oltp", 64), application("md1200-sql-log", 64)];
    let rebuilding = |keep_degraded| {
        let needs = Needs { keep_degraded, ..needing(&[640.0, 200.0]) };
        let order = PlanOrder { space: levels(&["5"], 4), ..disks(needs, &apps, &drives) };
        let (parts, demands) = (measured_parts(&order), order.demands());
        let request = order.request(&demands, &parts);
        let kept = enumerate(&request).kept;
        let four = kept.iter().find(|it| it.geometry.members == 4).expect("it is kept");
        let bench = Bench { order: &order, parts: &parts, demands: &demands };
        let judged = judge::judge(&bench, &four.unjudged(&request, WRITE_BACK), Window::Short);
        let (judged, _) = judged.expect("it can be simulated");
        assert!(
            judged.performance.iter().all(|it| it.held_iops.is_none()),
            "whole, it needs no help: {judged:?}"
        );
        bench.faults(&judged, (0, Window::Fault)).expect("it can be simulated").1
    };
    let (free, held) = (rebuilding(None), rebuilding(Some(1.0)));
    assert!(free[1].held_iops.is_none() && free[1].iops > 2.0 * 210.0, "{free:?}");
    assert_eq!(held[1].held_iops, Some(210.0));
    assert!(held[0].iops > 1.05 * free[0].iops && held[1].iops > 200.0, "{free:?} {held:?}");
}

/// What the search of applications that run together ends with is what trying everything ends with.
#[test]
fn trying_everything_finds_nothing_better_for_two() {
    let drives = ids(&["st3600057ss", "st9500430ss"]);
    let apps = [application("md1200-oltp", 16), application("md1200-sql-log", 4)];
    for needs in [needs(ByteCount(500_000_000_000)), needing(&[200.0, 300.0])] {
        let order = PlanOrder { space: levels(&["1", "5"], 4), ..disks(needs, &apps, &drives) };
        finds_the_best_of_all(&order);
    }
}

#[test]
fn what_is_more_than_one_stream_is_refused_together() {
    let text = r#"
        schema = 1
        name = "mix"
        title = "A mix"
        source = "made up"
        metric = "iops"
        [[part]]
        name = "one"
        [[part.line]]
        size = "8KiB"
        share_pct = 100
        read_pct = 100
        random_pct = 100
        [[part]]
        name = "other"
        [[part.line]]
        size = "64KiB"
        share_pct = 100
        read_pct = 0
        random_pct = 0
    "#;
    let workload = raidlab_workload::Workload::from_toml("mix.toml", text).expect("it is a workload");
    let apps = [application("md1200-oltp", 4), Application::new(workload, 1)];
    let drives = ids(&["st9146852ss"]);
    let refused = planned(&disks(needs(ByteCount(1)), &apps, &drives)).expect_err("it has parts");
    assert!(refused.to_string().contains("'mix' has parts of its own"), "{refused}");
}

/// A search for two arrays that found nothing left nothing to go on with.
#[test]
fn where_nothing_keeps_the_needs_of_two_what_came_nearest_is_told() {
    let drives = ids(&["st9500430ss"]);
    let enclosures = ids(&["md1220"]);
    let apps = [application("md1200-oltp", 32), application("md1200-sql-log", 16)];
    let own = |usable: u64, iops: f64| OwnNeeds {
        usable: Some(ByteCount(usable)),
        iops: Some(iops),
        latency: vec!["p50<=100us".parse().expect("a bound")],
        ..OwnNeeds::default()
    };
    let needs = Needs {
        own: vec![own(100_000_000_000, 50.0), own(100_000_000_000, 50.0)],
        ..needs(ByteCount(200_000_000_000))
    };
    let space = levels(&["5"], 4);
    let order = PlanOrder { enclosures: &enclosures, space, ..disks(needs, &apps, &drives) };
    let outcome = plan_tiers(&order, &mut Hosts::alone(), &mut |_| false, &mut |_, _| {});
    let outcome = outcome.expect("it can be planned");
    assert!(outcome.best().is_none());
    let nearest: Vec<&Missing> = outcome.searches.iter().filter_map(|it| it.nearest.as_ref()).collect();
    assert!(!nearest.is_empty(), "{outcome:?}");
    for one in nearest {
        assert!(one.arrays[0].contains("st9500430ss") && one.misses[0].starts_with("latency by"), "{one:?}");
    }
    let json = serde_json::to_value(&outcome).expect("it is data");
    assert_eq!(json["applications"][0]["name"], "md1200-oltp");
    assert!(json["searches"][0]["nearest"]["misses"][0].is_string(), "{json}");
}

/// Flash for random access and disks for what is large take fewer drives than either alone.
#[test]
fn two_arrays_take_less_where_applications_differ() {
    let drives = ids(&["st9500430ss", "pliant-lb150"]);
    let enclosures = ids(&["md1220"]);
    let apps = [application("md1200-oltp", 32), application("md1200-sql-log", 16)];
    let own = |usable: u64, iops: f64| OwnNeeds {
        usable: Some(ByteCount(usable)),
        iops: Some(iops),
        ..OwnNeeds::default()
    };
    let own = vec![own(100_000_000_000, 8000.0), own(1_500_000_000_000, 500.0)];
    let needs = Needs { own, slots: Some(24), ..needs(ByteCount(1_600_000_000_000)) };
    let space = levels(&["5", "10"], 24);
    let order = PlanOrder { enclosures: &enclosures, space, ..disks(needs, &apps, &drives) };
    let outcome = plan_tiers(&order, &mut Hosts::alone(), &mut |_| true, &mut |_, _| {});
    let outcome = outcome.expect("it can be planned");
    let best = outcome.best().expect("something keeps the needs");
    let placed: Vec<(&str, &[usize])> =
        best.arrays.iter().map(|tier| (tier.planned.parts.drive.as_str(), &*tier.applications)).collect();
    assert_eq!(placed, [("pliant-lb150", &[0][..]), ("st9500430ss", &[1][..])]);
    assert!(outcome.one.as_ref().is_none_or(|one| one.drives > best.drives), "{:?}", outcome.one);
    assert!(
        best.performance[0].iops >= 8000.0 && best.performance[1].iops >= 500.0,
        "{:?}",
        best.performance
    );
    // Each array is the smallest that serves its applications alone.
    assert!(outcome.searches.iter().all(|search| search.end == SearchEnd::Proven), "{:?}", outcome.searches);
    for tier in &best.arrays {
        let app = tier.applications[0];
        let alone = Needs { own: vec![order.needs.own[app].clone()], ..order.needs.clone() };
        let alone = Needs { usable: alone.own[0].usable.expect("it has a part"), ..alone };
        let plan = planned(&PlanOrder {
            enclosures: &enclosures,
            space: levels(&["5", "10"], 24),
            ..disks(alone, &apps[app..=app], &drives)
        });
        let plan = plan.expect("it can be planned");
        assert_eq!(plan.top[0].judged.drives(), tier.planned.judged.drives(), "{}", plan.top[0].label);
    }
}
