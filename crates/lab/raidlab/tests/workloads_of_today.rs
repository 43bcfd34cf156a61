//! Each built-in workload that no paper of the five has runs on a simulated array, and its actors say what they did.

use raidlab::{Array, ArrayFile, Catalog, NanoSpan, Simulation, Window, builtin_workloads};

/// Workloads of the papers, which come first and have tests of their own.
const OF_PAPERS: usize = 25;

#[test]
fn every_workload_of_today_runs_on_a_simulated_array() {
    let catalog = Catalog::builtin();
    let file = ArrayFile::new(
        "0".parse().expect("a level"),
        4,
        "micron-9400-pro-7680".to_owned(),
        "linux-md-nvme".to_owned(),
    );
    let simulation = Simulation::new(&catalog, Array::from(file)).expect("the array can be");
    let window =
        Window { ramp: NanoSpan::ZERO, run: NanoSpan::from_millis(10), settles: false, ..Window::default() };
    let workloads = builtin_workloads();
    assert!(workloads.len() > OF_PAPERS);
    for workload in &workloads[OF_PAPERS..] {
        let name = workload.name();
        let load = window.load(workload);
        let result = simulation.run(&load, None).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(result.ops.total.requests > 0, "{name} asked for nothing");
        assert_eq!(result.ops.total.errors, 0, "{name}");
        let actors: Vec<&str> = workload.spec.actors().map(|(part, _)| part).collect();
        let told: Vec<&str> = result.actors.iter().map(|actor| actor.part.as_str()).collect();
        assert_eq!(told, actors, "{name}");
    }
}
