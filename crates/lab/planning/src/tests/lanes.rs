//! The lanes of single bays: no drive is faster than they are, by arithmetic and by simulation.

use super::{CATALOG, application, finds_the_best_of_all, ids, levels, needs, on_array, order};
use crate::{PlanOrder, judge};
use raidlab_hardware::YearRange;
use raidlab_units::ByteCount;

/// What large random reads get from RAID 0 over these parts, in GB/s: at most by arithmetic, and by simulation.
fn read_gb_per_sec(parts: (&str, &str, &str), members: u16) -> (f64, f64) {
    on_array(parts, ("0", members), application("md1200-decision-support", 256), |bench, array| {
        let run = judge::judge(bench, array, judge::Window::Short).expect("it can be simulated").0;
        (array.performance[0].bytes_per_sec / 1e9, run.performance[0].bytes_per_sec / 1e9)
    })
}

/// A drive of 14 GB/s behind four lanes of PCI Express 4.0 read 12.3 GB/s, and eight of them 93 GB/s: all bays were one pool.
#[test]
fn a_drive_is_no_faster_than_the_lanes_of_its_bay() {
    let md_nvme = |enclosure, drive| ("linux-md-nvme", enclosure, drive);
    // What is read at most and at least, in GB/s.
    let rows = [
        (md_nvme("backplane-24-nvme", "kioxia-cm7-r-7680"), 2, 14.4, 12.5),
        (md_nvme("backplane-24-nvme", "kioxia-cm7-r-7680"), 8, 57.6, 50.0),
        (md_nvme("backplane-24-nvme-5", "kioxia-cm7-r-7680"), 2, 28.1, 22.0),
        // The lanes of the switch together.
        (md_nvme("backplane-24-nvme-switch", "kioxia-cm7-r-7680"), 8, 28.8, 25.0),
        // Two lanes to each drive; the host link carries 13.8 GB/s.
        (("perc-h755n", "", "kioxia-cm7-r-7680"), 2, 7.2, 6.0),
        (("perc-h755n", "", "kioxia-cm7-r-7680"), 8, 13.8, 13.0),
        // An expander with two lanes of SAS at 12 Gb/s.
        (("linux-md-sas", "server-12-lff-12g-2", "seagate-exos-x18-18000"), 12, 2.2, 0.5),
    ];
    for (parts, members, most, least) in rows {
        let (bound, read) = read_gb_per_sec(parts, members);
        assert!(read <= bound * 1.02, "{members} of {parts:?} read {read} GB/s with a bound of {bound}");
        assert!(
            bound <= most * 1.01,
            "{members} of {parts:?}: {bound} GB/s by arithmetic, {most} by the lanes"
        );
        assert!((least..=most * 1.01).contains(&read), "{members} of {parts:?} read {read} GB/s");
    }
}

/// Bays of different lanes are no twins: the search ends with what trying everything ends with.
#[test]
fn the_search_tells_bays_of_different_lanes_apart() {
    let applications = [application("md1200-decision-support", 32)];
    let order = PlanOrder {
        drives: &ids(&["kioxia-cm7-r-7680", "samsung-pm9a3-7680"]),
        controllers: &ids(&["linux-md-nvme"]),
        enclosures: &ids(&["backplane-8-nvme", "backplane-8-nvme-5"]),
        era: YearRange::TODAY,
        space: levels(&["1", "10"], 4),
        simulations_max: None,
        ..order(needs(ByteCount(7_000_000_000_000)), &applications)
    };
    let (tried, all) = finds_the_best_of_all(&order);
    assert!(tried < all, "{tried} of {all} were run");
}

/// Each bay whose lanes are known has no more of them than its port: one drive is never faster than all.
#[test]
fn a_bay_is_no_wider_than_the_port() {
    let mut looked_at = 0;
    for enclosure in CATALOG.enclosures() {
        let Some(bay) = enclosure.bay_link else { continue };
        assert!(bay.rate.0 <= enclosure.port.rate.0 * 1.001, "{}", enclosure.id);
        looked_at += 1;
    }
    assert!(looked_at > 15, "{looked_at}");
}
