//! Figures that plans once had wrong, beside the arithmetic that says what they should be.

use super::{application, goldens::of_page, on_array};
use crate::judge::{Pace, Window, judge, load};
use crate::{Application, Bench, md};
use raidlab_hardware::{Catalog, DriveHistory};
use raidlab_units::NanoSpan;
use raidlab_worlds::simulated::run_simulated;
use raidlab_worlds::{Load, condition_of};

/// Requests and GB per second of an array of these parts with the catalogue as `change` leaves it.
fn rates(
    parts: (&str, &str, &str),
    level: (&str, u16),
    load: Application,
    change: impl FnOnce(Catalog) -> Catalog,
) -> (f64, f64) {
    on_array(parts, level, load, |bench, array| {
        let catalog = change(bench.order.catalog.clone());
        let order = bench.order.with_catalog(&catalog);
        let bench = Bench { order: &order, parts: bench.parts, demands: bench.demands };
        let found = judge(&bench, array, Window::Short).expect("it can be simulated").0.performance[0];
        eprintln!("{parts:?} {level:?}: {} requests/s, {} MB/s", found.iops, found.bytes_per_sec / 1e6);
        (found.iops, found.bytes_per_sec / 1e9)
    })
}

/// Eight drives behind md were planned at the kernel's defaults alone, where one thread handles the stripes of all of them.
#[test]
fn stripe_threads_and_a_larger_stripe_cache_are_worth_half_as_much_again_on_flash() {
    let parts = ("linux-md-nvme", "backplane-24-nvme", "samsung-pm9a3-7680");
    let with =
        |change: fn(Catalog) -> Catalog| rates(parts, ("5", 8), application("md1200-oltp", 128), change).0;
    let (defaults, tuned) =
        (with(|catalog| catalog), with(|catalog| md::tuned(&catalog).expect("the kernel's defaults")));
    // 30 % of 143,000 requests change a stripe: 23 us of the thread for each.
    assert!((120e3..170e3).contains(&defaults), "{defaults}");
    assert!((1.5..3.0).contains(&(tuned / defaults)), "{tuned} beside {defaults}");
}

/// Checkpoints were written at 8.1 GB/s, as if the drives had been full and overwritten at random before.
#[test]
fn checkpoints_are_written_as_fast_as_drives_that_are_written_in_sequence_take_them() {
    let parts = ("linux-md-nvme", "backplane-24-nvme-5", "kioxia-cm7-r-7680");
    let with = |history: &str| {
        let history: DriveHistory = history.parse().expect("a history");
        let condition = condition_of(Some(history), None).expect("a condition");
        let conditioned = |mut catalog: Catalog| {
            catalog.condition_drive("kioxia-cm7-r-7680", condition).expect("it is flash");
            catalog
        };
        rates(parts, ("0", 8), of_page("backup"), conditioned).1
    };
    let (sequential, random) = (with("sequential"), with("random:3"));
    // 8 x 6.75 GB/s of the sheet are 54.
    assert!((45.0..55.0).contains(&sequential), "{sequential} GB/s");
    assert!(random < 0.5 * sequential, "{random} GB/s beside {sequential}");
}

/// Disks of today acknowledge writes from a cache that takes a minute and more of them. Windows began before it was full, and small writes
/// looked a fifth faster than the arms write them out.
#[test]
fn windows_begin_when_the_caches_of_disks_are_full() {
    let parts = ("linux-md-sas", "jbod-12-lff-12g", "seagate-exos-x18-18000");
    on_array(parts, ("10", 4), application("md1200-oltp", 20), |bench, array| {
        let short = judge(bench, array, Window::Short).expect("it can be simulated").0.performance[0].iops;
        let modelled = bench.array(array, 0, Window::Short).expect("it is an array");
        let late = Load {
            ramp: NanoSpan::from_secs(60),
            run: NanoSpan::from_secs(10),
            ..load(bench, array, 0, Window::Short, &[Pace { iodepth: 20, held_iops: None }])
        };
        let steady =
            run_simulated(&bench.models(array.geometry), &modelled, &late).expect("it can be simulated");
        let steady = steady.ops.total.iops.0;
        assert!(
            (0.95..1.05).contains(&(short / steady)),
            "{short} in a short window, {steady} after a minute"
        );
    });
}
