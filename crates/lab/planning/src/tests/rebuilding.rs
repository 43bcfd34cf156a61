//! What the host gets while a member is rebuilt: 70 % of what it gets with that member missing, as `risk` says, and more of it with
//! more members.

use super::{application, on_array};
use crate::judge::{Window, judge};
use crate::{Application, Bench, md};
use raidlab_advisor::plan::{Judged, Settings};
use raidlab_units::ByteCount;

/// Requests per second with a member missing and while it is rebuilt, and the hours of the rebuild, with md as plans set it.
fn rebuilt(parts: (&str, &str, &str), level: (&str, u16), iodepth: u32) -> (f64, f64, f64) {
    rebuilt_under(parts, level, (application("md1200-oltp", iodepth), None))
}

fn rebuilt_under(
    parts: (&str, &str, &str),
    level: (&str, u16),
    (load, strip): (Application, Option<ByteCount>),
) -> (f64, f64, f64) {
    on_tuned(parts, level, load, |bench, array| {
        let array = Judged { settings: Settings { strip, ..array.settings }, ..array.clone() };
        let judged = judge(bench, &array, Window::Short).expect("it can be simulated").0;
        let (degraded, rebuilding, rebuild) =
            bench.faults(&judged, (0, Window::Fault)).expect("it can be simulated");
        eprintln!("{parts:?} {level:?}: {} {} {rebuild:?}", degraded[0].iops, rebuilding[0].iops);
        (degraded[0].iops, rebuilding[0].iops, rebuild.expect("it is rebuilt").hours)
    })
}

/// As [`on_array`], with md as plans set it.
fn on_tuned<T>(
    parts: (&str, &str, &str),
    level: (&str, u16),
    load: Application,
    work: impl FnOnce(&Bench<'_>, &Judged) -> T,
) -> T {
    on_array(parts, level, load, |bench, array| {
        let tuned = md::tuned(bench.order.catalog).expect("it has md");
        let order = bench.order.with_catalog(&tuned);
        work(&Bench { order: &order, parts: bench.parts, demands: bench.demands }, array)
    })
}

/// Twelve PM9A3 did 131,000 requests a second, and 162,000 with one of them missing: the latter were counted from 0.4 s on, before the
/// drives' buffers were full.
#[test]
fn a_member_less_makes_flash_no_faster() {
    let parts = ("linux-md-nvme", "backplane-12-nvme-5", "samsung-pm9a3-1920");
    on_tuned(parts, ("5", 12), application("storagebench-database", 64), |bench, array| {
        let judged = judge(bench, array, Window::Long).expect("it can be simulated").0;
        let (degraded, ..) = bench.faults(&judged, (0, Window::Fault)).expect("it can be simulated");
        let (whole, left) = (judged.performance[0].iops, degraded[0].iops);
        assert!(left < 1.05 * whole, "{left} with a drive missing, {whole} with all");
    });
}

/// Seventeen disks were planned at 5,610 MB/s: their memory took what platters did not, for longer than the window.
#[test]
fn disks_write_no_faster_in_sequence_than_their_platters() {
    let chunk = Some(ByteCount::from_kib(64));
    for (level, members, data) in [("6", 17, 15), ("5", 16, 15), ("10", 16, 8)] {
        let parts = ("linux-md-sas", "jbod-36-lff-12g", "wd-hc570-22000");
        let written = on_tuned(parts, (level, members), super::goldens::of_page("backup"), |bench, array| {
            let array = Judged { settings: Settings { strip: chunk, ..array.settings }, ..array.clone() };
            judge(bench, &array, Window::Short).expect("it can be simulated").0.performance[0].bytes_per_sec
        });
        let platters = f64::from(data) * 291e6;
        assert!(written < 1.02 * platters, "RAID {level}: {written} bytes a second of {platters}");
    }
}

/// Behind a controller 373,000 requests a second fell to 6,500: the rebuild took all of its processors.
#[test]
fn the_host_keeps_its_share_behind_controllers_and_with_md() {
    let rows = [
        (("megaraid-9670w-16i", "", "samsung-pm9a3-7680"), ("5", 8), 128),
        (("linux-md-nvme", "backplane-24-nvme", "samsung-pm9a3-7680"), ("10", 8), 128),
        (("perc-h755", "", "seagate-exos-x18-18000"), ("6", 12), 32),
    ];
    for (parts, level, iodepth) in rows {
        let (degraded, rebuilding, hours) = rebuilt(parts, level, iodepth);
        let kept = rebuilding / degraded;
        assert!((0.68..1.03).contains(&kept), "{parts:?}: {rebuilding} of {degraded} while it is rebuilt");
        assert!(hours > 0.5, "{parts:?}: {hours} h");
    }
}

/// RAID 6 of 22, 23 and 24 disks gave 2290, 5030 and 5910 requests a second while it was rebuilt.
#[test]
fn more_members_give_more_while_one_is_rebuilt() {
    let of = |members| rebuilt(("perc-h755", "", "seagate-exos-x18-18000"), ("6", members), 64).1;
    let found = [20, 22, 23, 24].map(of);
    assert!(found.is_sorted_by(|fewer, more| *more > 0.98 * fewer), "{found:?}");
    assert!(found[3] < 1.5 * found[0], "{found:?}");
}

/// A rebuild of strips between the streams of a backup that never ends took 123 days: each strip cost the disks two seeks, and its rate was
/// lowered until the host kept 70 %.
#[test]
fn a_rebuild_ends_beside_streams_that_never_do() {
    let parts = ("linux-md-sas", "jbod-12-lff-12g", "wd-hc570-22000");
    let streams = (super::goldens::of_page("backup"), Some(ByteCount::from_kib(64)));
    let (degraded, rebuilding, hours) = rebuilt_under(parts, ("6", 12), streams);
    let kept = rebuilding / degraded;
    assert!((0.68..1.03).contains(&kept), "{rebuilding} of {degraded} while it is rebuilt");
    // 22 TB at 30 % of 213 MB/s, the mean of the edge and the middle, are 4 days.
    assert!((96.0..240.0).contains(&hours), "{hours} h");
}

/// An application that asks for hardly anything.
fn idle() -> Application {
    super::hardly_ever("[limit]\niops = 20")
}

/// One array had 2.0 h by `risk` and 6.7 by `plan`: the replacement was taken to be overwritten at random, and slices of the rebuild ran
/// beside what the host still had under way. RAID 10 of disks took longer than RAID 5.
#[test]
fn a_rebuild_takes_as_long_as_risk_says_whatever_the_load() {
    // How many times the time of `risk` it may take: beside a load each slice begins while requests of the host still end, which takes disks
    // longer than the slice, and flash where a die erases; md's threads recompute a stripe of flash more slowly than it is written.
    let rows = [
        (("linux-md-sas", "jbod-12-lff-12g", "wd-hc570-22000"), 2.1),
        (("perc-h755", "", "seagate-exos-x18-18000"), 2.4),
        (("linux-md-nvme", "backplane-24-nvme", "samsung-pm9a3-7680"), 2.1),
        (("megaraid-9670w-16i", "", "samsung-pm9a3-7680"), 2.0),
    ];
    for (parts, most) in rows {
        let drive = super::CATALOG.drive(parts.2).expect("it is there");
        let of = |level: &str| {
            let level = level.parse().expect("a level");
            let report = crate::risk::risk(&crate::risk::RiskQuery::new(level, 8), Some(drive));
            report.expect("its figures are known").rebuild.expect("its rate is known").hours
        };
        let mut parity = 0.0_f64;
        for level in ["5", "10"] {
            let told = of(level);
            let found = [application("md1200-oltp", 64), idle()]
                .map(|load| rebuilt_under(parts, (level, 8), (load, None)).2);
            for hours in found {
                assert!(
                    (0.99 * told..most * told).contains(&hours),
                    "{parts:?} RAID {level}: {found:?}, {told}"
                );
            }
            // Beside a load a copy waits for its own disk's requests, parity for those of all the others.
            assert!(level != "10" || found[1] < 1.01 * parity, "{parts:?}: {} after {parity}", found[1]);
            parity = parity.max(found[1]);
        }
    }
}

/// It takes longer for larger members, and no less for more of them.
#[test]
fn a_rebuild_grows_with_the_members() {
    let of = |drive: &str, members| {
        let parts = ("linux-md-nvme", "backplane-24-nvme", drive);
        rebuilt(parts, ("6", members), 32).2
    };
    let (small, large) = (of("samsung-pm9a3-1920", 8), of("samsung-pm9a3-7680", 8));
    assert!(small < large, "{small} {large}");
    let many = [6, 12, 20].map(|members| of("samsung-pm9a3-7680", members));
    assert!(many.is_sorted_by(|fewer, more| *more > 0.98 * fewer), "{many:?}");
}
