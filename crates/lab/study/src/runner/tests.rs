//! Small studies from end to end: all worlds, stops, leftovers, threads.

use super::*;
use std::path::PathBuf;

/// Remembers labels, and asks to stop after `stop_after` finished runs.
struct Watcher<'a> {
    finished: Vec<String>,
    started: u64,
    prepared: u64,
    stop_after: Option<usize>,
    cancel: &'a AtomicBool,
}

impl<'a> Watcher<'a> {
    fn new(stop_after: Option<usize>, cancel: &'a AtomicBool) -> Self {
        Self { finished: Vec::new(), started: 0, prepared: 0, stop_after, cancel }
    }
}

impl StudyObserver for Watcher<'_> {
    fn observe(&mut self, event: StudyEvent<'_>) {
        match event {
            StudyEvent::Preparing { .. } => self.prepared += 1,
            StudyEvent::Started { .. } => self.started += 1,
            StudyEvent::Progress { fraction } => assert!((0.0..=1.0).contains(&fraction)),
            StudyEvent::Finished { finished, planned, label, .. } => {
                self.finished.push(label.to_owned());
                assert_eq!(finished, self.finished.len() as u64);
                assert!(finished <= planned);
                if self.stop_after.is_some_and(|limit| self.finished.len() >= limit) {
                    self.cancel.store(true, Ordering::Relaxed);
                }
            }
        }
    }
}

/// Direct I/O is needed, which a temporary folder in memory may lack; the build folder is on a disk.
fn disk_folder() -> tempfile::TempDir {
    tempfile::Builder::new().prefix("raidlab-test").tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap()
}

fn study(folder: &Path) -> Study {
    let text = format!(
        "schema = 1\ntitle = 'small'\nquestion = 'does it run?'\nseed = 3\n\
         [load]\nworkloads = ['database', 'restore']\niodepths = [1, 4]\nramp = '5ms'\nrun = '150ms'\n\
         [[measure]]\npath = '{folder}/new/test-file'\nsize = '4MiB'\ndirect = true\n\
         [[array]]\ndirectory = '{folder}/members'\nlevels = ['0', '5']\nmembers = 3\nmember-size = '4MiB'\n\
         strip-size = '16KiB'\nwrite-policies = ['write-through', 'write-back']\ndisk-cache = true\n\
         [array.cache]\nsize = '1MiB'\n\
         [[simulate]]\ncontroller = 'perc-h800'\ndrive = 'st3600057ss'\nlevels = ['0', '5']\nmembers = 3\n\
         write-policies = ['write-back']\nregion = '1GB'\n[simulate.load]\nramp = '100ms'\nrun = '300ms'\n",
        folder = folder.display()
    );
    Study::parse("small.toml", &text, &Catalog::builtin()).unwrap()
}

struct Ran {
    outcome: Result<StudyOutcome, StudyError>,
    store: Store,
    finished: Vec<String>,
    left: Vec<PathBuf>,
}

fn run_small(stop_after: Option<usize>, options: RunOptions) -> Ran {
    let folder = disk_folder();
    let cancel = AtomicBool::new(false);
    let mut watcher = Watcher::new(stop_after, &cancel);
    let mut store = Store::in_memory().unwrap();
    let study = study(folder.path());
    let outcome = run_study(&study, &Catalog::builtin(), options, &mut store, &mut watcher, &cancel);
    let left = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    Ran { outcome, store, finished: watcher.finished, left }
}

#[test]
fn a_small_study_runs_in_all_worlds_and_leaves_nothing_behind() {
    let ran = run_small(None, RunOptions::default());
    let outcome = ran.outcome.unwrap();
    assert!(outcome.complete);
    assert_eq!(outcome.results.len(), 4 + 16 + 8);
    assert_eq!(ran.finished.len(), 28);
    assert_eq!(ran.store.runs_of_study(outcome.study_run).unwrap(), outcome.results);
    assert!(ran.left.is_empty(), "{:?}", ran.left);
    for result in &outcome.results {
        assert!(result.ops.total.requests > 0, "{} did nothing", result.target);
        assert_eq!(result.ops.total.errors, 0, "{}", result.target);
        assert_eq!(result.seed, 3);
    }
    let raid5 = outcome.results.iter().filter_map(|result| result.array.as_ref());
    assert!(raid5.filter(|array| array.level == "5").all(|array| array.failures_survived_always == 1));
    assert!(!outcome.environment.kernel.is_empty());
    assert!(outcome.environment.filesystem.is_some());
}

/// Accelerators read files of samples in a folder of their own, as those of `measure` do.
#[test]
fn accelerators_read_sample_files_that_are_gone_afterwards() {
    let folder = disk_folder();
    let workload = "schema = 1\nname = 'train'\ntitle = 'Training'\nsource = 'made up'\nmetric = 'mb-per-s'\n\
        [[part]]\nname = 'training'\n[part.accelerator]\nbatch = 1\ncompute = '1ms'\nsample_size = '64KiB'\n\
        request_size = '64KiB'\n";
    let file = folder.path().join("train.toml");
    std::fs::write(&file, workload).unwrap();
    let text = format!(
        "schema = 1\ntitle = 'small'\nquestion = 'is it fed?'\nseed = 3\n\
         [load]\nworkloads = ['{}']\nramp = '5ms'\nrun = '50ms'\n\
         [[measure]]\npath = '{}/samples'\nsize = '1MiB'\ndirect = true\n",
        file.display(),
        folder.path().display()
    );
    let study = Study::parse("small.toml", &text, &Catalog::builtin()).unwrap();
    let cancel = AtomicBool::new(false);
    let mut watcher = Watcher::new(None, &cancel);
    let mut store = Store::in_memory().unwrap();
    let outcome =
        run_study(&study, &Catalog::builtin(), RunOptions::default(), &mut store, &mut watcher, &cancel)
            .unwrap();
    let [result] = &outcome.results[..] else { panic!("{} runs", outcome.results.len()) };
    assert_eq!(result.settings.get("sample files").map(String::as_str), Some("16"), "{:?}", result.settings);
    let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(left, [file]);
}

/// Rounds over everything real; writes settle, and reads are done once for both write policies.
#[test]
fn rounds_go_over_all_and_every_other_one_backwards() {
    let folder = disk_folder();
    let text = format!(
        "schema = 1\ntitle = 'rounds'\nquestion = 'does it last?'\nseed = 3\nrepeats = 3\n\
         [load]\nworkloads = ['streaming', 'restore']\niodepths = [4]\nrun = '50ms'\n\
         [[measure]]\npath = '{folder}/new/test-file'\nsize = '4MiB'\ndirect = true\n\
         [[array]]\ndirectory = '{folder}/new/members'\nlevels = ['0', '5']\nmembers = 3\nmember-size = '4MiB'\n\
         strip-size = '16KiB'\nwrite-policies = ['write-through', 'write-back']\ndisk-cache = true\n\
         [array.cache]\nsize = '1MiB'\n",
        folder = folder.path().display()
    );
    let study = Study::parse("rounds.toml", &text, &Catalog::builtin()).unwrap();
    let cancel = AtomicBool::new(false);
    let mut watcher = Watcher::new(None, &cancel);
    let mut store = Store::in_memory().unwrap();
    let ran =
        run_study(&study, &Catalog::builtin(), RunOptions::default(), &mut store, &mut watcher, &cancel)
            .unwrap();
    assert!(ran.complete);
    let order: Vec<String> = ran
        .results
        .iter()
        .map(|run| {
            let array = run.array.as_ref().map(raidlab_workload::ArrayFacts::label).unwrap_or_default();
            format!("{} {array}", run.workload.trim_start_matches("storagebench-"))
        })
        .collect();
    let (back, through) = ("write-back", "write-through");
    let there = [
        "streaming ".to_owned(),
        "restore ".to_owned(),
        format!("streaming RAID 0 {through}"),
        format!("restore RAID 0 {through}"),
        format!("restore RAID 0 {back}"),
        format!("streaming RAID 5 {through}"),
        format!("restore RAID 5 {through}"),
        format!("restore RAID 5 {back}"),
    ];
    let and_back = [0, 1, 7, 5, 6, 4, 2, 3].map(|index: usize| there[index].clone());
    assert_eq!(order, [&there[..], &and_back, &there].concat());
    let noise = raidlab_advisor::noise(&ran.results).expect("everything was repeated");
    assert_eq!(noise.cells, 8);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is left");
}

#[test]
fn a_stop_keeps_what_is_finished_and_removes_the_files() {
    for stop_after in [1, 6] {
        let ran = run_small(Some(stop_after), RunOptions::default());
        let outcome = ran.outcome.unwrap();
        assert!(!outcome.complete);
        assert_eq!(outcome.results.len(), stop_after);
        assert_eq!(ran.store.runs_of_study(outcome.study_run).unwrap().len(), stop_after);
        assert!(ran.left.is_empty(), "{:?}", ran.left);
    }
}

#[test]
fn files_stay_when_they_are_to_be_kept() {
    let ran = run_small(Some(5), RunOptions { keep: true, ..RunOptions::default() });
    assert!(!ran.outcome.unwrap().complete);
    assert_eq!(ran.left.len(), 2, "{:?}", ran.left);
}

#[test]
fn simulated_figures_do_not_depend_on_threads() {
    let figures = |threads: usize| {
        let options = RunOptions { keep: false, threads: NonZeroUsize::new(threads).unwrap() };
        let results = run_small(None, options).outcome.unwrap().results;
        let simulated =
            results.into_iter().filter(|result| result.world == raidlab_workload::World::Simulated);
        simulated
            .map(|mut result| {
                result.cost.wall_ns = 0;
                result
            })
            .collect::<Vec<_>>()
    };
    let one = figures(1);
    assert_eq!(one.len(), 8);
    assert_eq!(one, figures(3));
}

#[test]
fn a_file_in_the_way_stays_and_is_named() {
    let folder = disk_folder();
    let members = folder.path().join("members");
    std::fs::create_dir(&members).unwrap();
    let precious = members.join("member-01.raidlab");
    std::fs::write(&precious, "precious").unwrap();
    let cancel = AtomicBool::new(false);
    let mut watcher = Watcher::new(None, &cancel);
    let mut store = Store::in_memory().unwrap();
    let study = study(folder.path());
    let ended =
        run_study(&study, &Catalog::builtin(), RunOptions::default(), &mut store, &mut watcher, &cancel);
    let error = ended.unwrap_err().to_string();
    assert!(error.contains("member-01.raidlab"), "{error}");
    assert_eq!(std::fs::read(&precious).unwrap(), b"precious");
    assert_eq!(watcher.finished.len(), 4, "the runs before it are kept");
}

#[test]
fn a_test_file_that_a_killed_study_left_is_taken_over_and_removed() {
    let folder = disk_folder();
    let file = folder.path().join("new/test-file");
    std::fs::create_dir(file.parent().unwrap()).unwrap();
    let order =
        LayOut { bytes: ByteCount::from_mib(4), content: LayOutContent::Noise, seed: 3, destroy_data: None };
    raidlab_engines::lay_out_file(&file, &order, &AtomicBool::new(false), &mut |_| {}).unwrap();
    let cancel = AtomicBool::new(false);
    let mut watcher = Watcher::new(Some(1), &cancel);
    let mut store = Store::in_memory().unwrap();
    let study = study(folder.path());
    run_study(&study, &Catalog::builtin(), RunOptions::default(), &mut store, &mut watcher, &cancel).unwrap();
    assert!(!file.exists());

    std::fs::write(&file, "precious ".repeat(1000)).unwrap();
    cancel.store(false, Ordering::Relaxed);
    let error =
        run_study(&study, &Catalog::builtin(), RunOptions::default(), &mut store, &mut watcher, &cancel);
    let error = error.unwrap_err().to_string();
    assert!(error.contains("new/test-file"), "{error}");
    assert!(file.exists(), "a file with data was removed");
}
