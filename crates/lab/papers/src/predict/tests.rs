//! Predictions of invented and built-in figures: shared simulations, threads, problems.

use super::setup::volume_count;
use super::*;
use crate::papers::Paper;
use crate::published::parse_published;

const HEADER: &str = "id,place,system,raid,drives,drive,write_policy,read_policy,io_policy,workload,block_kib,queue_depth,stroke_pct,\
     metric,value";
/// Short windows.
pub(crate) const QUICK: PredictOptions = PredictOptions {
    strip_size: None,
    drives_per_volume: None,
    ramp: NanoSpan::from_millis(200),
    ramp_write_through: NanoSpan::from_millis(200),
    run: NanoSpan::from_millis(500),
    seed: 7,
};

fn rows(lines: &[&str]) -> Vec<PublishedRow> {
    parse_published("mine.csv", &format!("{HEADER}\n{}\n", lines.join("\n"))).unwrap()
}

pub(super) fn task<'a>(rows: &'a [PublishedRow], catalog: &'a Catalog, threads: usize) -> PredictTask<'a> {
    PredictTask {
        file: "mine.csv",
        rows,
        fitted_rows: &[],
        options: QUICK,
        catalog,
        threads: NonZeroUsize::new(threads).unwrap(),
        finds_bottleneck: false,
    }
}

pub(super) fn run(task: &PredictTask<'_>) -> Result<Prediction, PredictError> {
    predict(task, &mut Hosts::alone(), &AtomicBool::new(false), &mut |_, _| {})
}

/// Without the time that the simulation itself took, which nothing else depends on.
fn timeless(mut prediction: Prediction) -> Prediction {
    for configuration in &mut prediction.configurations {
        configuration.result.cost.wall_ns = 0;
    }
    prediction
}

const A: &str =
    "a,T1,perc-h800/md1200,5,6,st3600057ss,write-back,adaptive,direct,md1200-oltp,8,16,,iops,1000";
const A_AGAIN: &str =
    "b,T1,perc-h800/md1220,5,6,st9146852ss,write-back,adaptive,direct,md1200-oltp,8,16,,iops,1500";
const A_IN_MB: &str =
    "c,T1,perc-h800/md1200,5,6,st3600057ss,write-back,adaptive,direct,md1200-oltp,8,16,,mb_per_s,8.192";
const A_SHORT: &str =
    "d,T1,perc-h800/md1200,5,6,st3600057ss,write-back,adaptive,direct,md1200-oltp,8,16,8,iops,1000";

#[test]
fn rows_of_one_configuration_share_a_simulation() {
    let catalog = Catalog::builtin();
    let rows = rows(&[A, A_AGAIN, A_IN_MB, A_SHORT]);
    let prediction = run(&task(&rows, &catalog, 2)).unwrap();
    let used: Vec<usize> = prediction.rows.iter().map(|row| row.configuration).collect();
    assert_eq!(used, [0, 1, 0, 2], "the metric makes no other configuration, the drive and stroke do");
    let (iops, mb) = (&prediction.rows[0].comparison, &prediction.rows[2].comparison);
    assert!(iops.predicted > 0.0);
    assert!((mb.predicted - iops.predicted * 8192.0 / 1e6).abs() < 1e-6 * mb.predicted);
    assert!((iops.error_pct - mb.error_pct).abs() < 1e-6, "both say the same in other units");
}

#[test]
fn the_number_of_threads_changes_nothing() {
    let catalog = Catalog::builtin();
    let rows = rows(&[A, A_AGAIN, A_SHORT]);
    let one = timeless(run(&task(&rows, &catalog, 1)).unwrap());
    let four = timeless(run(&task(&rows, &catalog, 4)).unwrap());
    assert_eq!(one, four);
}

#[test]
fn fitted_rows_are_left_out_of_the_second_summary() {
    let catalog = Catalog::builtin();
    let (rows, fitted) = (rows(&[A, A_AGAIN]), ["a".to_owned()]);
    let prediction = run(&PredictTask { fitted_rows: &fitted, ..task(&rows, &catalog, 2) }).unwrap();
    assert_eq!((prediction.summary.rows, prediction.summary_not_fitted.rows), (2, 1));
    let marks: Vec<bool> = prediction.rows.iter().map(|row| row.fitted).collect();
    assert_eq!(marks, [true, false]);
}

#[test]
fn what_the_catalogue_lacks_is_reported_all_at_once_and_nothing_is_skipped() {
    let catalog = Catalog::builtin();
    let rows = rows(&[
        A,
        "b,T1,perc-h700/md1300,5,6,st360057ss,write-back,adaptive,direct,md1200-oltp,8,16,,iops,1000",
        "c,T1,perc-h800/md1220,5,6,st3600057ss,write-back,adaptive,direct,md1200-oltp,8,16,,iops,1000",
        "d,T1,perc-h800/md1200,5,2,st3600057ss,write-back,adaptive,direct,md1200-oltp,8,16,,iops,1000",
        "e,T1,perc-h800/md1200,5,6,st3600057ss,write-back,adaptive,direct,md1200-oltb,8,16,,iops,1000",
        "f,T1,perc-h800/md1200,5,6,st3600057ss,,adaptive,direct,md1200-oltp,8,16,,iops,1000",
        "g,T1,perc-h800/md1200,5,6,st3600057ss,write-back,adaptive,direct,fastt600-web-server,8,16,,iops,1000",
    ]);
    let Err(PredictError::Rows(PublishedError::Rows { problems, .. })) = run(&task(&rows, &catalog, 1))
    else {
        panic!("rows with problems were predicted");
    };
    let found: Vec<_> = problems
        .iter()
        .map(|problem| (problem.row.as_str(), problem.column, problem.value.as_str()))
        .collect();
    assert_eq!(
        found,
        [
            ("b", "system", "perc-h700"),
            ("b", "system", "md1300"),
            ("b", "drive", "st360057ss"),
            ("c", "drive", "st3600057ss"),
            ("d", "raid", "5"),
            ("e", "workload", "md1200-oltb"),
            ("f", "write_policy", ""),
            ("g", "block_kib", "8 KiB"),
        ]
    );
    let nearest: Vec<_> = problems.iter().map(|problem| problem.nearest.as_deref()).take(3).collect();
    assert_eq!(nearest[0], Some("perc-h800"));
    assert_eq!(nearest[2], Some("st3600057ss"));
}

#[test]
fn a_figure_at_a_response_time_is_read_off_between_two_loads() {
    let catalog = Catalog::builtin();
    let header = HEADER.replace("stroke_pct", "stroke_pct,response_limit_ms");
    let line = |id: &str, drives: u16, limit: u32| {
        format!(
            "{id},T1,dual-fastt600,10,{drives},fc-15k-18gb,write-through,no-read-ahead,,\
             fastt600-random-read,8,,8,{limit},iops,1000"
        )
    };
    let text = [header, line("a", 8, 20), line("b", 8, 40), line("c", 16, 20)].join("\n");
    let rows = parse_published("mine.csv", &text).unwrap();
    let mut task = task(&rows, &catalog, 2);
    task.options.drives_per_volume = Some(4);
    let prediction = run(&task).unwrap();
    assert_eq!(prediction.configurations.len(), 3);
    for (row, volumes) in prediction.rows.iter().zip([2, 2, 4]) {
        let configuration = &prediction.configurations[row.configuration];
        let read_off = configuration.read_off.as_ref().expect("its figure is at a response time");
        assert!(read_off.bracketed, "{read_off:?}");
        let limit = read_off.limit.0 as f64;
        let inside =
            |pair: &[raidlab_worlds::LoadPoint]| pair[0].lat_ns_mean <= limit && limit <= pair[1].lat_ns_mean;
        assert!(read_off.points.windows(2).any(inside), "{read_off:?}");
        assert!((row.comparison.predicted - read_off.iops).abs() < 1e-9);
        assert_eq!(configuration.array.as_ref().unwrap().volume_count(), volumes);
    }
    let figures: Vec<f64> = prediction.rows.iter().map(|row| row.comparison.predicted).collect();
    assert!(figures[1] > figures[0], "a later limit allows more: {figures:?}");
    assert!(figures[2] > figures[0] * 1.5, "more drives do more: {figures:?}");
}

#[test]
fn drives_are_shared_out_in_even_volumes() {
    let rows = [
        ("5", 10, Some(10), 1),
        ("5", 20, Some(10), 2),
        ("10", 80, Some(10), 8),
        ("5", 48, Some(10), 4),
        ("10", 30, Some(10), 1),
        ("5", 30, Some(10), 2),
        ("5", 24, None, 2),
    ];
    for (level, drives, wanted, volumes) in rows {
        assert_eq!(volume_count(level.parse().unwrap(), drives, wanted), volumes, "{level} on {drives}");
    }
}

#[test]
fn a_level_of_spans_without_their_number_has_two() {
    let catalog = Catalog::builtin();
    let rows = rows(&[&A.replace(",5,6,", ",50,6,"), &A.replace(",5,6,", ",50:2-spans,6,")]);
    let prediction = run(&task(&rows, &catalog, 1)).unwrap();
    assert_eq!(prediction.configurations.len(), 1);
}

#[test]
fn the_load_of_a_processor_is_not_predicted_of_an_array() {
    let catalog = Catalog::builtin();
    let rows = rows(&[&A.replace(",iops,", ",cpu_pct,")]);
    let error = run(&task(&rows, &catalog, 1)).unwrap_err().to_string();
    assert!(error.contains("column metric: 'cpu_pct'"), "{error}");
}

#[test]
fn mirroring_needs_two_controllers() {
    let catalog = Catalog::builtin();
    let header = HEADER.replace("stroke_pct", "cache_mirroring");
    let text = format!("{header}\n{}\n", A.replace(",16,,iops", ",16,on,iops"));
    let rows = parse_published("mine.csv", &text).unwrap();
    let error = run(&task(&rows, &catalog, 1)).unwrap_err().to_string();
    assert!(error.contains("cache_mirroring") && error.contains("two controllers"), "{error}");
}

#[test]
fn every_row_of_the_built_in_papers_can_be_set_up() {
    let catalog = Catalog::builtin();
    for id in crate::papers::paper_ids() {
        let paper = Paper::builtin(id).unwrap();
        let options = PredictOptions::from(&paper.method);
        let task = PredictTask { options, ..task(&paper.rows, &catalog, 1) };
        let setups = set_up_rows(&task).unwrap_or_else(|error| panic!("{id}: {error}"));
        assert_eq!(setups.len(), paper.rows.len());
    }
}

/// Rows of Bonnie: host and controller, RAID level, drives, drive, filesystem, workload, file, metric.
fn bonnie_rows(lines: &[&str]) -> Result<Vec<PublishedRow>, PublishedError> {
    let header = "id,system,raid,drives,drive,write_policy,read_policy,io_policy,filesystem,workload,block_kib,\
                  queue_depth,streams,file_mib,metric,value";
    let line = |(index, line): (usize, &&str)| {
        let [system, raid, drives, drive, filesystem, workload, file, metric] =
            line.split(' ').collect::<Vec<_>>().try_into().expect("eight words");
        format!(
            "r{index},{system},{raid},{drives},{drive},,,,{filesystem},{workload},,,1,{file},{metric},1000"
        )
    };
    let lines: Vec<String> = lines.iter().enumerate().map(line).collect();
    parse_published("mine.csv", &format!("{header}\n{}\n", lines.join("\n")))
}

#[test]
fn all_phases_of_bonnie_come_from_one_simulation_of_a_host_with_files() {
    let catalog = Catalog::builtin();
    let rows = bonnie_rows(&[
        "noral3/onboard-sata single 1 maxtor-6y160m0 ext2 bonnie-block-write 64 kib_per_s",
        "noral3/onboard-sata single 1 maxtor-6y160m0 ext2 bonnie-block-read 64 mib_per_s",
        "noral3/onboard-sata single 1 maxtor-6y160m0 ext2 bonnie-char-read 64 cpu_pct",
        "noral3/onboard-sata single 1 maxtor-6y160m0 ext2 bonnie-seeks 64 iops",
        "noral3/onboard-sata single 1 maxtor-6y160m0 - bonnie-block-read 64 kib_per_s",
    ]);
    assert!(matches!(rows, Ok(ref rows) if rows[4].filesystem.as_deref() == Some("-")));
    let rows = &rows.unwrap()[..4];
    let prediction = run(&task(rows, &catalog, 1)).unwrap();
    assert_eq!(prediction.configurations.len(), 1);
    assert_eq!(prediction.configurations[0].result.phases.len(), 6);
    let figures: Vec<f64> = prediction.rows.iter().map(|row| row.comparison.predicted).collect();
    assert!((250_000.0..330_000.0).contains(&figures[0]), "written into memory: {figures:?}");
    assert!((1_200.0..1_900.0).contains(&figures[1]), "read from memory: {figures:?}");
    assert!((99.0..100.1).contains(&figures[2]), "characters keep the processor busy: {figures:?}");
    assert!(figures[3] > 10_000.0, "seeks in memory: {figures:?}");
    assert!(prediction.fitted_figures.iter().any(|figure| figure.entry == "noral3"));
}

#[test]
fn what_is_wrong_with_rows_of_bonnie_is_named() {
    let catalog = Catalog::builtin();
    let rows = [
        ("noral4/onboard-sata single 1 maxtor-6y160m0 ext2 bonnie-seeks 64 iops", "system", "noral4"),
        ("noral3 single 1 maxtor-6y160m0 ext2 bonnie-seeks 64 iops", "system", "noral3"),
        ("noral3/onboard-pata single 1 maxtor-6y160m0 ext2 bonnie-seeks 64 iops", "system", "onboard-pata"),
        ("noral3/onboard-sata single 1 maxtor-6y160m0 ext9 bonnie-seeks 64 iops", "filesystem", "ext9"),
        ("noral3/onboard-sata single 1 maxtor-6y160m0 ext2 bonnie-seek 64 iops", "workload", "bonnie-seek"),
        ("noral3/onboard-sata 11 1 maxtor-6y160m0 ext2 bonnie-seeks 64 iops", "raid", "11"),
    ];
    for (line, column, value) in rows {
        let rows = bonnie_rows(&[line]).unwrap();
        let Err(PredictError::Rows(PublishedError::Rows { problems, .. })) = run(&task(&rows, &catalog, 1))
        else {
            panic!("{line} was predicted");
        };
        let found: Vec<_> = problems.iter().map(|problem| (problem.column, problem.value.as_str())).collect();
        assert_eq!(found, [(column, value)], "{line}");
    }
}
