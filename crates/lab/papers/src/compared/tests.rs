//! A paper's tables with runs in them: at a depth, at a limit, and ratios of claims.

use super::*;
use raidlab_testkit::example_result;
use raidlab_units::BytesPerSec;
use raidlab_workload::ArrayFacts;

fn run(workload: &str, iodepth: u32, iops: f64, lat_ms: f64) -> RunResult {
    let mut run = example_result(workload, iops);
    (run.world, run.target, run.iodepth) = (World::Measured, "/dev/mine".into(), iodepth);
    run.ops.total.lat_ns_mean = lat_ms * 1e6;
    run
}

fn tables(id: &str, runs: &[RunResult]) -> Vec<ComparedTable> {
    Paper::builtin(id).unwrap().compared_with(runs, "")
}

fn own(table: &ComparedTable) -> &ComparedRow {
    table.rows.last().filter(|row| row.is_own).expect("the last row is one's own")
}

#[test]
fn a_column_at_a_depth_has_the_run_at_it_or_the_fastest() {
    let runs = [run("md1200-oltp", 64, 9000.0, 7.0), run("md1200-oltp", 256, 1971.0, 9.0)];
    let found = tables("md1200-2011", &runs);
    let [table] = &found[..] else { panic!("{found:?}") };
    assert_eq!((table.title.as_str(), table.columns.len()), ("md1200-2011, Table 6: IOPS at iodepth 256", 1));
    assert_eq!(table.rows.len(), 10, "nine arrays of the paper, and one");
    assert_eq!(table.rows[1].label, "RAID 5, 12 x st3600057ss, perc-h800/md1200, write-back");
    assert_eq!(table.rows[1].cells, [Some(ComparedCell::plain(2460.0))]);
    assert_eq!(own(table).cells, [Some(ComparedCell::plain(1971.0))]);
    assert_eq!(own(table).label, "/dev/mine");
    let table = &tables("md1200-2011", &runs[..1])[0];
    assert_eq!(own(table).cells[0], Some(ComparedCell { value: 9000.0, remark: "iodepth 64".into() }));
}

#[test]
fn a_column_at_a_limit_is_read_off_between_the_runs() {
    let at = |iodepth, iops, lat| run("fastt600-oltp at 4 KiB", iodepth, iops, lat);
    let runs = [at(1, 100.0, 10.0), at(4, 200.0, 15.0), at(8, 300.0, 25.0)];
    let cell = |runs: &[RunResult]| {
        let tables = tables("fastt600-2004", runs);
        assert_eq!(
            tables.iter().map(|table| &*table.title).collect::<Vec<_>>(),
            ["fastt600-2004, Table 1: IOPS at 20 ms", "fastt600-2004, Table 4: IOPS at 20 ms"]
        );
        assert_eq!(tables[0].columns, ["oltp 4 KiB", "oltp 8 KiB", "oltp 64 KiB"]);
        let own = own(&tables[0]);
        assert_eq!(own.cells[1..], [None, None], "other sizes were not run");
        own.cells[0].clone().expect("it was run")
    };
    assert_eq!(cell(&runs), ComparedCell::plain(250.0));
    assert_eq!(cell(&runs[..2]), ComparedCell { value: 200.0, remark: "or more".into() });
    assert_eq!(cell(&runs[2..]), ComparedCell { value: 300.0, remark: "in longer".into() });
}

#[test]
fn a_size_of_its_own_needs_no_variation() {
    let runs = [run("fastt600-oltp", 8, 500.0, 20.0)];
    let table = &tables("fastt600-2004", &runs)[0];
    let has: Vec<bool> = own(table).cells.iter().map(Option::is_some).collect();
    assert_eq!(has, [false, true, false], "its own size is 8 KiB");
}

fn on_array(level: &str, members: u16, policy: &str, workload: &str, rate: f64) -> RunResult {
    let mut run = run(workload, 3, rate / 8192.0, 1.0);
    run.ops.total.bytes_per_sec = BytesPerSec(rate);
    run.target = format!("RAID {level} x{members} {policy}");
    run.settings.insert("disk cache".into(), "off".into());
    run.array = Some(ArrayFacts {
        level: level.into(),
        members,
        member_kind: "file".into(),
        controller: "raidlab".into(),
        strip_bytes: ByteCount::from_kib(64),
        write_policy: policy.into(),
        usable_bytes: ByteCount::from_mib(1),
        raw_bytes: ByteCount::from_mib(2),
        failures_survived_always: 1,
        failures_survived_at_best: 1,
    });
    run
}

#[test]
fn a_claim_has_the_same_ratio_of_the_runs_at_its_settings() {
    let read = "storagebench-streaming";
    let mut runs = vec![
        on_array("5", 4, "write-through", read, 150e6),
        on_array("5", 4, "write-back", read, 200e6),
        on_array("6", 4, "write-through", read, 100e6),
        on_array("50:2-spans", 6, "write-through", read, 90e6),
        on_array("60:2-spans", 6, "write-through", read, 60e6),
        on_array("1", 2, "write-through", read, 80e6),
    ];
    let with_cache = |mut run: RunResult, rate| {
        run.settings.insert("disk cache".into(), "on".into());
        run.ops.total.iops.0 = rate;
        run
    };
    let database = on_array("0", 4, "write-through", "storagebench-database", 100.0 * 8192.0);
    runs.extend([database.clone(), with_cache(database, 150.0)]);
    let found = tables("primergy-2008", &runs);
    let [table] = &found[..] else { panic!("{found:?}") };
    assert_eq!(table.columns, ["published", "here"]);
    let here = |label: &str| {
        let row =
            table.rows.iter().find(|row| row.label.contains(label)).unwrap_or_else(|| panic!("{table:#?}"));
        row.cells[1].as_ref().map(|cell| cell.value)
    };
    assert_eq!(here("x4 at best, RAID 5 over RAID 6: streaming"), Some(2.0));
    assert_eq!(here("x6 at best, RAID 50 over RAID 60: streaming"), Some(1.5));
    assert_eq!(here("RAID 1 x2 in any case, MB/s: streaming"), Some(80.0));
    assert_eq!(here("RAID 0 x4, write-back over at best"), None, "no such array was run");
    assert_eq!(here("RAID 0 x4, disk cache on over disk cache off"), Some(1.5), "of one array");
    assert!(table.rows.iter().all(|row| !row.label.contains("single disk")), "those compare drives");
}

#[test]
fn tables_without_a_figure_of_these_runs_are_left_out() {
    for id in ["md1200-2011", "fastt600-2004", "primergy-2008", "cdf-caf-2002", "crs4-2004"] {
        assert_eq!(tables(id, &[run("database", 8, 1.0, 1.0)]), []);
        assert_eq!(tables(id, &[]), []);
    }
    let text =
        Paper::builtin("md1200-2011").unwrap().compared_with(&[run("md1200-oltp", 256, 1.0, 1.0)], "md1220");
    assert_eq!(text[0].rows.len(), 4, "three arrays of the MD1220, and one");
}
