//! Flash drives of one model in one array.

use raidlab::{Array, Catalog, NanoSpan, Window, simulate, workload};

/// All members erased at the same times: a tenth of a second said 74,000 to 141,000 requests a second of one array, and a plan's short runs a
/// third more than its long ones.
#[test]
fn members_do_not_erase_in_step() {
    let (catalog, load) = (Catalog::builtin(), workload("storagebench-database").expect("a workload"));
    let after = |ramp_ms| {
        let array = Array::new("5".parse().expect("a level"), 12, "kioxia-cd8-r-1920", "linux-md-nvme");
        let window = Window {
            ramp: NanoSpan::from_millis(ramp_ms),
            run: NanoSpan::from_millis(100),
            settles: false,
            ..Window::default()
        };
        simulate(&catalog, array, &load, &window.iodepth(64)).expect("it runs").ops.total.iops.0
    };
    let found = [100, 200, 400, 600].map(after);
    let most = found.iter().copied().fold(0.0, f64::max);
    assert!(found.iter().all(|iops| *iops > 0.8 * most), "{found:?}");
}
