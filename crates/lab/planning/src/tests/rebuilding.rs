//! What the host gets while a member is rebuilt: 70 % of what it gets with that member missing, as `risk` says, and more of it with
//! more members.

use super::{application, on_array};
use crate::judge::{Window, judge};

/// Requests per second with a member missing and while it is rebuilt, and the hours of the rebuild.
fn rebuilt(parts: (&str, &str, &str), level: (&str, u16), iodepth: u32) -> (f64, f64, f64) {
    on_array(parts, level, application("md1200-oltp", iodepth), |bench, array| {
        let judged = judge(bench, array, Window::Short).expect("it can be simulated").0;
        let (degraded, rebuilding, rebuild) = bench.faults(&judged, 0).expect("it can be simulated");
        (degraded[0].iops, rebuilding[0].iops, rebuild.expect("it is rebuilt").hours)
    })
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
