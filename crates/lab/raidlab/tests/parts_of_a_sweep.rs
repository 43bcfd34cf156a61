//! What a part of a sweep is refused for.

use raidlab::{
    Array, Catalog, NanoSpan, SimulateError, Sweep, SweepError, SweepOptions, Window, simulate, workload,
};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

#[test]
fn a_part_past_the_end_of_the_sweep_is_an_error() {
    let sweep = Sweep {
        arrays: vec![Array::new("10".parse().expect("a level"), 4, "st3600057ss", "perc-h800")],
        workloads: vec![workload("md1200-oltp").expect("a workload")],
        iodepths: vec![1],
        window: Window { run: NanoSpan::from_millis(10), ..Window::default() },
        threads: None,
    };
    let catalog = Arc::new(Catalog::builtin());
    let options = SweepOptions { finds_bottleneck: false, cancel: &AtomicBool::new(false) };
    for part in [0..2, 1..2, 3..4, 0..usize::MAX] {
        let asked = part.clone();
        match sweep.run_part(&catalog, part, options, &mut |_, _| {}) {
            Err(SweepError::OutOfRange { start, end, count: 1 }) => assert_eq!(start..end, asked),
            other => panic!("{asked:?}: {other:?}"),
        }
    }
    assert_eq!(sweep.run_part(&catalog, 1..1, options, &mut |_, _| {}).expect("nothing to run").len(), 0);
}

/// A number in flight that changes nothing is refused: its user would take the figures for those of that number.
#[test]
fn a_number_in_flight_beside_a_workloads_own_is_refused() {
    let array = || Array::new("0".parse().expect("a level"), 4, "micron-9400-pro-7680", "linux-md-nvme");
    let (catalog, own) = (Catalog::builtin(), workload("kv-cache").expect("a workload"));
    let window =
        Window { ramp: NanoSpan::ZERO, run: NanoSpan::from_millis(10), settles: false, ..Window::default() };
    let refused = simulate(&catalog, array(), &own, &window.iodepth(4));
    assert!(matches!(refused, Err(SimulateError::Iodepth(_))), "{refused:?}");
    simulate(&catalog, array(), &own, &window).expect("it has its own");
    let sweep = |iodepths| Sweep {
        arrays: vec![array()],
        workloads: vec![own.clone()],
        iodepths,
        window,
        threads: None,
    };
    let refused = sweep(vec![1, 4]).run(&catalog, &mut |_, _| {});
    assert!(matches!(refused, Err(SimulateError::Iodepth(_))), "{refused:?}");
    assert_eq!(sweep(Vec::new()).run(&catalog, &mut |_, _| {}).expect("it has its own").len(), 1);
}
