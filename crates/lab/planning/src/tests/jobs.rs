//! What a storage engineer buys for the usual jobs, of parts among which the wrong ones once won: they came in fewer drives, or were
//! faster than anybody had asked.

use super::{application, ids, order, planned};
use crate::{PlanOrder, Planned};
use raidlab_advisor::plan::{Goal, Need, Needs, Space};
use raidlab_hardware::YearRange;
use raidlab_units::ByteCount;

/// What a job may be made of.
struct Frame<'a> {
    app: &'a str,
    drives: &'a [&'a str],
    controllers: &'a [&'a str],
    enclosures: &'a [&'a str],
    members: (u16, u16),
}

const TERABYTE: u64 = 1_000_000_000_000;

/// As the command line has it where nobody says otherwise.
fn needs(terabytes: u64) -> Needs {
    Needs {
        usable: ByteCount(terabytes * TERABYTE),
        survive: 1,
        loss_per_year: Some(0.01),
        goal: Some(Goal::Cheapest),
        ..Needs::default()
    }
}

fn first(frame: &Frame<'_>, needs: Needs) -> Planned {
    let (drives, controllers, enclosures) =
        (ids(frame.drives), ids(frame.controllers), ids(frame.enclosures));
    let (members_min, members_max) = frame.members;
    let outcome = planned(&PlanOrder {
        drives: &drives,
        controllers: &controllers,
        enclosures: &enclosures,
        era: YearRange::TODAY,
        space: Space { members_min, members_max, ..super::space() },
        simulations_max: Some(1),
        ..order(needs, &[application(frame.app, 64)])
    });
    let best = outcome.expect("it can be planned").top.into_iter().next().expect("there is an answer");
    if let (Some(risk), Some(margin)) = (best.risk, best.margins.loss) {
        assert!((margin - (1.0 - risk.per_year / 0.01)).abs() < 1e-9, "the margin of {risk:?} is {margin}");
    }
    best
}

fn told(one: &Planned) -> (String, u16, &str) {
    (one.judged.geometry.level.to_string(), one.judged.geometry.members, &one.parts.drive)
}

/// Three drives of 122 TB, and before that ten of 25.6 TB, at fifteen times the price; RAID 5 of ten disks lost a block in one of 22 years.
#[test]
#[ignore = "disks in a long run: slow but in a release build, where 'make explore' runs it"]
fn backups_go_to_disks_that_survive_two_failures() {
    let frame = Frame {
        app: "storagebench-backup",
        drives: &["exos-x24-24tb", "kioxia-lc9-122880"],
        controllers: &["linux-md-sas", "linux-md-nvme"],
        enclosures: &["jbod-12-lff-12g", "backplane-12-nvme-5"],
        members: (1, 12),
    };
    let best = first(&frame, Needs { bytes_per_sec: Some(500e6), ..needs(200) });
    assert!(best.keeps_needs, "{}", best.reason);
    assert_eq!(told(&best), ("6".to_owned(), 11, "exos-x24-24tb"), "9 x 24 TB are 216, 8 are 192");
    assert!(best.risk.is_some_and(|risk| risk.per_year < 0.01), "{:?}", best.risk);
}

/// It was of SATA drives, as bays for `NVMe` took a shelf's price; then of a log's single-level cells, which had the
/// price of others; and cards of M.2 were put into bays.
#[test]
#[ignore = "a percentile of four drives: slow but in a release build, where 'make explore' runs it"]
fn a_database_goes_to_drives_that_last_and_no_better_ones() {
    let frame = Frame {
        app: "md1200-oltp",
        drives: &["micron-xtr-1920", "samsung-pm9a3-m2-3840", "kioxia-cd8-r-1920", "micron-5400-max-1920"],
        controllers: &["linux-md-sas", "linux-md-nvme"],
        enclosures: &["backplane-12-nvme-5"],
        members: (7, 12),
    };
    let bound = "p99<=1ms".parse().expect("it is a bound");
    let best = first(
        &frame,
        Needs {
            iops: Some(60e3),
            latency: vec![bound],
            years: Some(5.0),
            written_per_day: Some(5e12),
            ..needs(20)
        },
    );
    assert!(best.keeps_needs, "{}", best.reason);
    assert_eq!(told(&best), ("5".to_owned(), 12, "kioxia-cd8-r-1920"), "11 x 1.92 TB are 21.1");
}

/// An eight-way mirror of drives of 25.6 TB had as many drives.
#[test]
fn eight_drives_are_no_larger_than_what_is_needed() {
    let frame = Frame {
        app: "md1200-decision-support",
        drives: &["micron-9550-max-3200", "micron-9550-max-25600"],
        controllers: &["linux-md-nvme"],
        enclosures: &["backplane-8-nvme-5"],
        members: (8, 8),
    };
    let best = first(&frame, Needs { bytes_per_sec: Some(20e9), ..needs(20) });
    assert_eq!(told(&best), ("5".to_owned(), 8, "micron-9550-max-3200"), "7 x 3.2 TB are 22.4");
}

/// What there is to buy is the cheapest where nobody says how fast it must be, and the fastest where they say so.
#[test]
#[ignore = "disks in a long run: slow but in a release build, where 'make explore' runs it"]
fn a_small_office_buys_four_disks_and_a_benchmark_four_fast_drives() {
    let frame = Frame {
        app: "storagebench-file-server",
        drives: &["wd-hc310-6000", "micron-9550-max-25600"],
        controllers: &["linux-md-sas", "linux-md-nvme"],
        enclosures: &["jbod-12-lff-12g", "backplane-8-nvme-5"],
        members: (4, 4),
    };
    assert_eq!(first(&frame, needs(8)).parts.drive, "wd-hc310-6000");
    let fastest = Needs { goal: Some(Goal::Fastest), ..needs(8) };
    assert_eq!(first(&frame, fastest).parts.drive, "micron-9550-max-25600");
}

/// Sixty disks of 30 TB as mirrors lose a block in one of fourteen years.
#[test]
fn what_loses_data_too_often_is_no_answer() {
    let mut needs = needs(900);
    let frame = Frame {
        app: "storagebench-video-streaming",
        drives: &["seagate-exos-m-30000"],
        controllers: &["linux-md-sas"],
        enclosures: &["ultrastar-data60"],
        members: (60, 60),
    };
    let best = first(&frame, needs.clone());
    assert_eq!(best.judged.survives_always, 2, "{}", best.label);
    assert_eq!(best.parts.enclosure.as_deref(), Some("ultrastar-data60"), "no server has sixty bays");
    needs.loss_per_year = Some(1e-9);
    let outcome = planned(&PlanOrder {
        drives: &ids(frame.drives),
        controllers: &ids(frame.controllers),
        enclosures: &ids(frame.enclosures),
        era: YearRange::TODAY,
        space: Space { members_min: 60, members_max: 60, ..super::space() },
        ..order(needs, &[application(frame.app, 64)])
    })
    .expect("it is looked for");
    assert!(!outcome.fits() && outcome.relaxations.iter().any(|it| it.need == Need::Loss), "{outcome:#?}");
}
