//! Other facts of the best array, against arithmetic: bounds on percentiles, the life of its drives, and the estimates
//! behind its figures.

use super::{application, ids, levels, measured_parts, needs, order, planned, space};
use crate::{Have, PlanError, PlanOrder, Planned};
use raidlab_advisor::Bound;
use raidlab_advisor::plan::{Needs, OwnNeeds, Space};
use raidlab_hardware::Catalog;
use raidlab_units::{ByteCount, NanoSpan};
use std::sync::LazyLock;

/// The mirror with no other needs, which several tests look at.
static PLAIN: LazyLock<Planned> = LazyLock::new(|| mirror(|needs| needs));

/// Two `NVMe` drives as a mirror under the OLTP of 2011 with some requests in flight.
fn mirror(change: impl FnOnce(Needs) -> Needs) -> Planned {
    let plain = Needs { slots: Some(2), ..needs(ByteCount(1_000_000_000_000)) };
    let outcome = planned(&PlanOrder {
        drives: &ids(&["samsung-pm9a3-7680"]),
        controllers: &ids(&["linux-md-nvme"]),
        enclosures: &ids(&["backplane-24-nvme"]),
        space: Space { levels: vec!["1".parse().expect("a level")], members_max: 2, ..space() },
        ..order(change(plain), &[application("md1200-oltp", 24)])
    });
    outcome.expect("it can be planned").top.into_iter().next().expect("there is one array")
}

/// A mirror writes all that the host writes to each drive; less of it wears drives out later.
#[test]
fn drives_last_as_long_as_what_is_written_to_them_allows() {
    let whole = &*PLAIN;
    let iops = whole.judged.performance[0].iops;
    let life = whole.drive_life[0].expect("it is flash with a rating");
    let sent = iops * 0.3 * 8192.0 * 86_400.0;
    let found = life.endurance.member_bytes_per_day;
    assert!((found / sent - 1.0).abs() < 0.02, "{found} a day instead of {sent}");
    assert!(life.endurance.amplification > 1.5, "full and overwritten at random: {life:?}");
    assert!((life.endurance.rated_bytes - 14_020e12).abs() < 1.0);
    assert!(whole.reason.contains("rated writes last"), "{}", whole.reason);
    let half = mirror(|needs| Needs { iops: Some(iops / 2.0), ..needs });
    let slower = half.drive_life[0].expect("it is flash with a rating");
    assert!((slower.years / life.years / 2.0 - 1.0).abs() < 0.05, "{slower:?} beside {life:?}");
    let loss = whole.risk.expect("the drives are known");
    assert!(loss.bytes_per_year() >= loss.sector_bytes_per_year && loss.bytes_per_year() > 0.0);
}

/// What is written in a day counts, not the rate that the array could do; drives that must last longer are no answer.
#[test]
fn drives_last_as_long_as_what_is_written_in_a_day_allows() {
    let of = |written: f64, years: Option<f64>| {
        mirror(|needs| Needs { written_per_day: Some(written), years, ..needs })
    };
    let one = of(1e12, None);
    let life = one.drive_life[0].expect("it is flash with a rating");
    assert!((life.endurance.member_bytes_per_day / 1e12 - 1.0).abs() < 0.02, "a mirror: {life:?}");
    let twice = of(2e12, None).drive_life[0].expect("it is flash with a rating");
    assert!((life.years / twice.years - 2.0).abs() < 0.05, "{life:?} beside {twice:?}");
    let (kept, missed) = (of(1e12, Some(0.9 * life.years)), of(1e12, Some(1.1 * life.years)));
    assert!(kept.keeps_needs && kept.margins.life.is_some_and(|margin| margin > 0.0));
    assert!(!missed.keeps_needs && missed.reason.contains("drive life by"), "{}", missed.reason);
}

/// What is left with a fault is told, and demanded where that is asked for.
#[test]
fn service_with_a_fault_can_be_demanded() {
    let iops = PLAIN.judged.performance[0].iops / 2.0;
    let of = |share| mirror(|needs| Needs { iops: Some(iops), keep_degraded: Some(share), ..needs });
    let kept = of(0.5);
    let left = kept.judged.degraded_share.expect("faults were simulated");
    let worst = kept.degraded[0].iops.min(kept.rebuilding[0].iops) / iops;
    assert!(kept.keeps_needs && (left / worst - 1.0).abs() < 1e-9, "{left} and {worst}");
    let at_need = format!("At the {iops:.0} requests/s that md1200-oltp needs, a request takes");
    assert!(kept.reason.contains(&at_need), "{}", kept.reason);
    let missed = of(2.0 * left);
    assert!(!missed.keeps_needs && missed.reason.contains("degraded or rebuilding by"), "{}", missed.reason);
}

/// Half a terabyte each half hour, of which a plan for training once said nothing: drives last as whole stripes wear them.
#[test]
fn checkpoints_beside_reads_wear_drives_out() {
    let catalog = Catalog::builtin();
    let life = |in_sequence| {
        let wants = Needs {
            written_per_day: Some(24e12),
            written_in_sequence: in_sequence,
            ..needs(ByteCount(1_000_000_000_000))
        };
        let outcome = planned(&PlanOrder {
            catalog: &catalog,
            drives: &ids(&["samsung-pm9a3-7680"]),
            controllers: &ids(&["linux-md-nvme"]),
            enclosures: &ids(&["backplane-24-nvme"]),
            space: Space {
                levels: vec!["5".parse().expect("a level")],
                members_min: 4,
                members_max: 4,
                ..space()
            },
            simulations_max: Some(1),
            ..order(wants, &[application("md1200-video-on-demand", 4)])
        });
        let best = outcome.expect("it can be planned").top.into_iter().next().expect("there is one");
        best.drive_life[0].expect("it is flash with a rating")
    };
    let (stream, scattered) = (life(true), life(false));
    assert!((stream.endurance.member_bytes_per_day / 8e12 - 1.0).abs() < 1e-6, "{stream:?}");
    assert!((scattered.endurance.member_bytes_per_day / 12e12 - 1.0).abs() < 1e-6, "{scattered:?}");
    assert!(stream.years > 1.6 * scattered.years, "{stream:?} beside {scattered:?}");
}

#[test]
fn what_is_there_is_not_added() {
    let catalog = Catalog::builtin();
    let items = ids(&["2 x samsung-pm9a3-7680"]);
    let have = Have::read(&items, &catalog).expect("it is in the catalogue");
    let wants = Needs { slots: Some(4), iops: Some(1000.0), ..needs(ByteCount(1_000_000_000_000)) };
    let outcome = planned(&PlanOrder {
        drives: &ids(&["micron-7450-pro-7680"]),
        have: &have,
        controllers: &ids(&["linux-md-nvme"]),
        enclosures: &ids(&["backplane-24-nvme"]),
        space: Space { levels: vec!["1".parse().expect("a level")], members_max: 2, ..space() },
        simulations_max: Some(4),
        ..order(wants, &[application("md1200-oltp", 24)])
    });
    let outcome = outcome.expect("it can be planned");
    let bought = outcome.top.iter().find(|one| one.parts.drive != "samsung-pm9a3-7680");
    let adds = bought.and_then(|one| one.adds.as_deref()).unwrap_or_default();
    assert!(adds.starts_with("2 x micron-7450-pro-7680 (~98.2); ~ in") || outcome.top.len() == 1, "{adds}");
    assert!(bought.is_none_or(|one| !one.is_owned && one.reason.contains("where the first takes none")));
    assert!(!outcome.has_prices && outcome.unpriced.is_empty(), "no price was given");
    let best = outcome.top.into_iter().next().expect("there is one");
    assert_eq!(
        (best.parts.drive.as_str(), best.judged.assumed_cost),
        ("samsung-pm9a3-7680", 0.0),
        "a server has its bays anyway"
    );
    // "To add: 1 x backplane-24-nvme" once stood above "nothing has to be bought".
    let nothing = "nothing; its drives are in bays of a server (backplane-24-nvme), which are not counted";
    assert_eq!(best.adds.as_deref(), Some(nothing));
    assert!(best.is_owned && best.reason.contains("All of it is there"), "{}", best.reason);
}

#[test]
fn what_it_rests_on_is_told_with_what_it_may_come_to() {
    let one = &*PLAIN;
    let drive = &one.estimates[0];
    assert_eq!(drive.part, "samsung-pm9a3-7680");
    for key in ["host.read_latency", "translation.spare_pct", "flash.program"] {
        assert!(drive.keys.iter().any(|known| known == key), "{key} is estimated: {:?}", drive.keys);
    }
    assert!(!drive.keys.iter().any(|key| key == "capacity_sectors"), "the sheet says so");
    let (range, iops) = (one.range[0], one.judged.performance[0].iops);
    assert!(range.slower.iops < iops && iops < range.faster.iops, "{iops} in {range:?}");
    assert!(one.reason.contains("It rests on estimates"), "{}", one.reason);
}

/// Fewer requests are put in flight until the slowest of ten keeps its bound, too. What the slowest of a hundred takes is mostly the
/// program that it meets on a die, however few are in flight.
#[test]
fn a_percentile_is_kept_with_fewer_requests_in_flight() {
    let free = PLAIN.judged.performance[0];
    let limit = NanoSpan(free.tail.lat_ns_p90 * 3 / 4);
    let bound: Bound = format!("p90<={} ns", limit.get()).parse().expect("a bound");
    let kept = mirror(|needs| Needs { latency: vec![bound], ..needs });
    let found = kept.judged.performance[0];
    assert!(found.tail.lat_ns_p90 <= limit.get(), "{found:?} beside {limit}");
    assert!(found.iodepth < free.iodepth, "{found:?}");
    assert!(kept.keeps_needs && kept.margins.latency.expect("there is a bound") >= 0.0);
}

/// A mirror of all drives survives most failures, where one drive has room; else a level with two parities does.
#[test]
fn more_failures_than_any_level_survives_are_refused_with_the_most_there_is() {
    let refused = |survive, usable| {
        let needs = Needs { survive, ..needs(ByteCount(usable)) };
        let drives = ids(&["st3600057ss"]);
        planned(&PlanOrder { drives: &drives, ..order(needs, &[application("md1200-oltp", 24)]) })
    };
    for (survive, usable, most) in [(12, 500_000_000_000, 11), (3, 1_000_000_000_000, 2)] {
        match refused(survive, usable) {
            Err(PlanError::TooManyFailures { most: found, .. }) => assert_eq!(found, most),
            other => panic!("--survive {survive} of {usable}: {other:?}"),
        }
    }
}

/// "0 candidates, 0 rejected" was the answer.
#[test]
fn contradictions_are_told_before_anything_is_simulated() {
    let drives = ids(&["st3600057ss"]);
    let apps = [application("md1200-oltp", 24)];
    let wants = || order(needs(ByteCount(500_000_000_000)), &apps);
    let told = |order: &PlanOrder<'_>| planned(order).map(drop).expect_err("it can't be").to_string();
    let kinds = ids(&["nvme"]);
    let kind = told(&PlanOrder { drives: &drives, kinds: &kinds, ..wants() });
    assert!(kind.contains("st3600057ss") && kind.contains("--kinds nvme"), "{kind}");
    let levels = vec!["5".parse().expect("a level")];
    let pairs = Space { levels, members_min: 2, members_max: 2, ..space() };
    let layout = told(&PlanOrder { drives: &drives, space: pairs, ..wants() });
    assert!(layout.contains("needs 3 or more members, 2 given"), "{layout}");
}

/// Measuring all drives of the catalogue takes longer than the search, and mostly only some can be in the answer.
#[test]
fn drives_that_are_in_no_candidate_are_not_measured() {
    let drives = ids(&["st9500430ss", "st3600057ss"]);
    // Of a mirror of all drives only those of 600 GB have the room.
    let needs = Needs { survive: 3, ..needs(ByteCount(550_000_000_000)) };
    let applications = [application("md1200-oltp", 24)];
    let order = PlanOrder { drives: &drives, space: levels(&["1"], 4), ..order(needs, &applications) };
    let measured = |order: &PlanOrder<'_>| -> Vec<String> {
        let parts = measured_parts(order).drives.into_iter();
        parts.filter(|drive| !drive.rates.random.is_empty()).map(|drive| drive.id).collect()
    };
    assert_eq!(measured(&order), ["st3600057ss"]);
    // Without an answer, arithmetic says what would have to give: rates of all drives matter where a rate is needed.
    let slots = |iops| Needs { slots: Some(1), iops, ..order.needs.clone() };
    let without = |iops| PlanOrder { needs: slots(iops), space: order.space.clone(), ..order };
    assert!(measured(&without(None)).is_empty());
    assert_eq!(measured(&without(Some(100.0))).len(), 2);
}

/// RAID 5 and 6 of flash were planned at the kernel's defaults, at which one thread handles all stripes.
#[test]
fn md_is_set_and_its_defaults_have_a_price() {
    let outcome = planned(&PlanOrder {
        drives: &ids(&["samsung-pm9a3-7680"]),
        controllers: &ids(&["linux-md-nvme"]),
        enclosures: &ids(&["backplane-24-nvme"]),
        space: levels(&["5"], 6),
        ..order(
            Needs { slots: Some(6), ..needs(ByteCount(30_000_000_000_000)) },
            &[application("md1200-oltp", 64)],
        )
    });
    let first = outcome.expect("it can be planned").top.into_iter().next().expect("there is one array");
    let md = first.md.expect("it is md");
    assert!(md.lines[0].starts_with("mdadm --create /dev/md0 --level=5 --raid-devices="), "{md:?}");
    let cheap = md.others.iter().find(|(name, share)| name.starts_with("--bitmap") && *share >= 0.97);
    let bitmap = cheap.map_or("--bitmap=none", |(name, _)| name);
    assert!(md.lines[0].contains(bitmap), "a resync of all is not risked for nothing: {md:?}");
    assert!(md.lines.iter().any(|line| line.ends_with("/md/sync_speed_min")), "{md:?}");
    assert!(
        !md.set.is_empty() && md.lines.iter().any(|line| line.contains("sysfs") || line.contains("/sys/"))
    );
    let defaults = md.defaults.expect("the kernel's are slower");
    assert!(defaults.gain > 1.2 && defaults.keeps_needs, "{defaults:?}");
    assert!(first.judged.performance[0].iops > 1.2 * defaults.performance[0].iops, "{defaults:?}");
    assert!(md.others.iter().all(|(_, times)| *times < 1.05), "{:?}", md.others);
    assert!(md.others.iter().any(|(name, _)| name.contains("ppl")), "{:?}", md.others);

    let mirror = PLAIN.md.as_ref().expect("it is md, too");
    assert!(mirror.defaults.is_none() && mirror.set.is_empty(), "mirrors have no stripes: {mirror:?}");
}

/// "Throughput gave by 90 %" was told of every array for an application that asks for a tenth of what was needed.
#[test]
fn nothing_is_needed_that_an_application_does_not_ask_for() {
    let paces = ["[arrival]\nprocess = \"fixed\"\nrate = 200", "[limit]\niops = 200"];
    for pace in paces {
        let apps = [super::hardly_ever(pace)];
        let of = |iops| {
            let wants = Needs { iops: Some(iops), ..needs(ByteCount(1_000_000_000_000)) };
            order(wants, &apps).check_rates().map_err(|error| error.to_string())
        };
        assert_eq!(of(200.0), Ok(()), "{pace}");
        let refused = of(2000.0).expect_err("no array makes it ask for more");
        assert!(
            refused.contains("'idle' asks for 200 requests/s") && refused.contains("2000 are"),
            "{refused}"
        );
    }
}

/// A mean above the peak was taken: drives wore out by it at a rate that the array was never asked for.
#[test]
fn no_mean_is_above_its_peak() {
    let apps = [application("md1200-oltp", 8)];
    let of = |iops, mean_iops, own| {
        let wants = Needs { iops, mean_iops, own, ..needs(ByteCount(1_000_000_000_000)) };
        order(wants, &apps).check_rates().map_err(|error| error.to_string())
    };
    let refused = of(Some(2000.0), Some(9000.0), Vec::new()).expect_err("no mean is above its peak");
    assert!(refused.contains("9000") && refused.contains("--iops") && refused.contains("md1200-oltp"));
    let own = vec![OwnNeeds { mean_iops: Some(2001.0), ..OwnNeeds::default() }];
    assert!(of(Some(2000.0), None, own).is_err(), "one of its own");
    for (iops, mean) in [(Some(2000.0), Some(2000.0)), (None, Some(9000.0)), (Some(2000.0), None)] {
        assert_eq!(of(iops, mean, Vec::new()), Ok(()), "{iops:?} {mean:?}");
    }
}
