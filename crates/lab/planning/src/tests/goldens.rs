//! The systems of docs/planning.md, planned again: the results must be those of the table there. In a release build
//! some seconds each.

use super::{application, ids, needs, order, planned, space};
use crate::{Application, PlanOrder, Planned, default_levels};
use raidlab_advisor::plan::{Needs, Space};
use raidlab_hardware::YearRange;
use raidlab_units::ByteCount;
use raidlab_workload::Workload;

const PAGE: &str = include_str!("../../../../../docs/planning.md");

/// A column of the table.
struct System {
    app: &'static str,
    usable: ByteCount,
    survive: u16,
    slots: u16,
    parts: [&'static str; 3],
}

const fn terabytes(count: u64) -> ByteCount {
    ByteCount(count * 1_000_000_000_000)
}

const SYSTEMS: [System; 4] = [
    System {
        app: "md1200-oltp",
        usable: terabytes(25),
        survive: 1,
        slots: 8,
        parts: ["samsung-pm9a3-7680", "linux-md-nvme", "backplane-24-nvme"],
    },
    System {
        app: "backup",
        usable: terabytes(200),
        survive: 2,
        slots: 12,
        parts: ["wd-hc570-22000", "linux-md-sas", "jbod-12-lff-12g"],
    },
    System {
        app: "md1200-web-file-server",
        usable: terabytes(30),
        survive: 2,
        slots: 16,
        parts: ["seagate-exos-10e2400-2400", "linux-md-sas", "jbod-24-sff-12g"],
    },
    System {
        app: "md1200-oltp",
        usable: terabytes(90),
        survive: 1,
        slots: 24,
        parts: ["samsung-pm9a3-7680", "linux-md-nvme", "openflex-data24"],
    },
];

/// The application called `name`; the page has the file of the one that is not built in.
pub(super) fn of_page(name: &str) -> Application {
    if name != "backup" {
        return application(name, 64);
    }
    let (_, rest) = PAGE.split_once("```toml\n# backup.toml\n").expect("the page has that file");
    let (text, _) = rest.split_once("```").expect("it ends");
    let workload = Workload::from_toml("backup.toml", text).expect("it is a workload");
    Application::new(workload, 64)
}

fn best_of(system: &System) -> Planned {
    let [drive, controller, enclosure] = system.parts;
    let outcome = planned(&PlanOrder {
        era: YearRange::TODAY,
        drives: &ids(&[drive]),
        controllers: &ids(&[controller]),
        enclosures: &ids(&[enclosure]),
        space: Space {
            levels: default_levels(system.survive, false),
            members_max: system.slots,
            enclosures_max: 8,
            ..space()
        },
        simulations_max: Some(12),
        ..order(
            Needs { survive: system.survive, slots: Some(system.slots), ..needs(system.usable) },
            &[of_page(system.app)],
        )
    });
    outcome.expect("it can be planned").top.into_iter().next().expect("there is one array")
}

/// The cells of the row of the table that begins with `name`.
fn row(name: &str) -> Vec<&'static str> {
    let head = format!("| {name} |");
    let line = PAGE.lines().find_map(|line| line.strip_prefix(&*head));
    let line = line.unwrap_or_else(|| panic!("the page has no row '{name}'"));
    line.trim_end_matches('|').split('|').map(str::trim).collect()
}

fn number(cell: &str) -> Option<f64> {
    (cell != "-").then(|| cell.replace(' ', "").parse().unwrap_or_else(|_| panic!("'{cell}' is no number")))
}

#[test]
#[ignore = "plans four systems: slow but in a release build, where 'make explore' runs it"]
fn the_four_systems_are_planned_as_the_page_says() {
    for (column, system) in SYSTEMS.iter().enumerate() {
        let best = best_of(system);
        let found = best.judged.performance[0];
        let years = best.drive_life[0].map(|life| life.years);
        let lost = best.risk.map(|risk| risk.bytes_per_year() / 1e6);
        // The row's name, what was found, and how far off the page may be: runs on other days are the same, models get better.
        let figures = [
            ("requests/s", Some(found.iops), 0.05),
            ("MB/s", Some(found.bytes_per_sec / 1e6), 0.05),
            ("mean, ms", Some(found.lat_ns_mean / 1e6), 0.05),
            ("p99, ms", Some(found.tail.lat_ns_p99 as f64 / 1e6), 0.15),
            ("usable, TB", Some(best.judged.usable_bytes / 1e12), 0.005),
            ("MB lost a year, expected", lost, 0.15),
            ("drives last, years", years, 0.1),
        ];
        let label = format!("RAID {} x{}", best.judged.geometry.level, best.judged.geometry.members);
        eprintln!("{label} {figures:?}\n{}\n{}", best.settings_label, best.reason);
        assert_eq!(row("first of the plan")[column], label);
        for (name, found, share) in figures {
            match (number(row(name)[column]), found) {
                (Some(told), Some(found)) => {
                    assert!(
                        (told / found - 1.0).abs() <= share,
                        "{label}, {name}: {told} told, {found} found"
                    );
                }
                (told, found) => assert_eq!(told, found, "{label}, {name}"),
            }
        }
    }
}
