//! An operator's commands while a host uses the array: fail, replace, spares, rebuild, check, stop.
//!
//! The array runs on a separate thread under a host that reads and writes continuously and knows what every block
//! holds. Verified: no read is ever wrong, no request fails, every command is answered, status reports what happened,
//! and a start finds the array as it was left. Not verified: rates.

use super::common::{self, BLOCK, Random};
use super::real::{keeping, make, options};
use super::{GO_ON, read_all};
use raidlab_controller::{
    ArrayConfig, HostCompletion, HostOp, HostRequest, HostTag, MetadataPolicy, WritePolicy,
};
use raidlab_format::StartOptions;
use raidlab_runtime::{
    Answer, ArrayStatus, ArrayWorld, Command, Condition, Contents, CreateOptions, DeviceCondition,
    HostBuffers, HostPort, HostPortNeeds, HostStep, Operator, PortRing, RunSettings, ScanOutcome, ScanStatus,
    create, operator_line,
};
use raidlab_units::{BlockCount, ByteCount, Lba, Nanos};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const SLOTS: u32 = 8;
const BLOCKS_MAX: u64 = 12;
/// How long anything may take.
const PATIENCE: Duration = Duration::from_mins(1);

/// A host without end that knows what every block holds.
pub(crate) struct Checker {
    random: Random,
    /// The version that each block holds; its bytes follow from it.
    versions: Vec<u64>,
    busy: Vec<bool>,
    in_flight: Vec<Option<HostRequest>>,
    writes: u64,
    reads: u64,
}

pub(crate) fn pattern(lba: u64, version: u64) -> Vec<u8> {
    let word = |index: u64| (lba << 40 ^ version << 12 ^ index).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let words = (0..BLOCK.bytes() / 8).flat_map(|index| word(index).to_le_bytes());
    if version == 0 { vec![0; BLOCK.bytes() as usize] } else { words.collect() }
}

impl Checker {
    fn new(volume: BlockCount) -> Self {
        let blocks = volume.0 as usize;
        Self {
            random: Random(77),
            versions: vec![0; blocks],
            busy: vec![false; blocks],
            in_flight: vec![None; SLOTS as usize],
            writes: 0,
            reads: 0,
        }
    }
}

impl HostPort for Checker {
    fn needs(&self) -> HostPortNeeds {
        HostPortNeeds { slots: SLOTS, slot_bytes: ByteCount(BLOCKS_MAX * BLOCK.bytes()) }
    }

    fn poll_step(&mut self, _now: Nanos, buffers: &mut HostBuffers, _ring: &mut PortRing<'_>) -> HostStep {
        let Some(free) = self.in_flight.iter().position(Option::is_none) else {
            return HostStep::WaitForCompletion;
        };
        let blocks = 1 + self.random.below(BLOCKS_MAX);
        let lba = self.random.below(self.versions.len() as u64 - blocks + 1);
        let range = lba as usize..(lba + blocks) as usize;
        if self.busy[range.clone()].contains(&true) {
            return HostStep::WaitForCompletion;
        }
        self.busy[range].fill(true);
        let op = match self.random.below(8) {
            0..4 => HostOp::Read,
            kind => HostOp::Write { fua: kind == 7 },
        };
        let tag = HostTag(free as u32);
        if matches!(op, HostOp::Write { .. }) {
            self.writes += 1;
            let buffer = buffers.slot_mut(tag);
            for block in 0..blocks {
                let bytes = pattern(lba + block, self.writes);
                buffer[(block * BLOCK.bytes()) as usize..][..bytes.len()].copy_from_slice(&bytes);
                self.versions[(lba + block) as usize] = self.writes;
            }
        }
        let request = HostRequest { tag, op, lba: Lba(lba), blocks: BlockCount(blocks) };
        self.in_flight[free] = Some(request);
        HostStep::Submit(request)
    }

    fn handle_completion(&mut self, _now: Nanos, completion: HostCompletion, buffers: &HostBuffers) {
        let request = self.in_flight[completion.tag.0 as usize].take().expect("it was in flight");
        assert_eq!(completion.result, Ok(()), "{request:?}");
        let buffer = buffers.slot(completion.tag);
        for block in 0..request.blocks.0 {
            let lba = request.lba.0 + block;
            self.busy[lba as usize] = false;
            if request.op == HostOp::Read {
                let found = &buffer[(block * BLOCK.bytes()) as usize..][..BLOCK.bytes() as usize];
                let version = self.versions[lba as usize];
                assert!(found == pattern(lba, version), "block {lba} does not hold version {version}");
            }
        }
        self.reads += u64::from(request.op == HostOp::Read);
    }
}

/// A host that wants nothing.
struct Nobody;

impl HostPort for Nobody {
    fn needs(&self) -> HostPortNeeds {
        HostPortNeeds { slots: 1, slot_bytes: ByteCount(BLOCK.bytes()) }
    }

    fn poll_step(&mut self, _now: Nanos, _buffers: &mut HostBuffers, _ring: &mut PortRing<'_>) -> HostStep {
        HostStep::WaitForCompletion
    }

    fn handle_completion(&mut self, _now: Nanos, completion: HostCompletion, _buffers: &HostBuffers) {
        unreachable!("nothing was asked for: {completion:?}");
    }
}

/// An array that a host uses on a thread of its own.
pub(crate) struct Used<H = Checker> {
    operator: Operator,
    thread: JoinHandle<H>,
}

pub(crate) fn use_array(paths: Vec<PathBuf>, settings: RunSettings) -> Used {
    use_array_by(paths, settings, |world| Checker::new(world.volume_blocks()))
}

fn use_array_by<H: HostPort + Send + 'static>(
    paths: Vec<PathBuf>,
    settings: RunSettings,
    host: impl FnOnce(&ArrayWorld) -> H + Send + 'static,
) -> Used<H> {
    let (operator, queue) = operator_line().expect("a line");
    let work = move || {
        let mut world =
            ArrayWorld::start(&paths, &settings, StartOptions::default()).world.expect("it starts");
        world.attach_operator(queue);
        let mut host = host(&world);
        world.serve(&mut host, &GO_ON).expect("it serves");
        assert!(world.is_to_stop());
        world.stop(&GO_ON).expect("it stops");
        host
    };
    Used { operator, thread: std::thread::spawn(work) }
}

impl<H> Used<H> {
    pub(crate) fn status(&self) -> ArrayStatus {
        match self.operator.ask(Command::Status) {
            Ok(Answer::Status(status)) => *status,
            other => panic!("no status: {other:?}"),
        }
    }

    pub(crate) fn done(&self, command: &Command) {
        match self.operator.ask(command.clone()) {
            Ok(Answer::Done { .. }) => {}
            other => panic!("{command:?}: {other:?}"),
        }
    }

    pub(crate) fn refused(&self, command: &Command) -> String {
        match self.operator.ask(command.clone()) {
            Ok(Answer::Refused { reason }) => reason,
            other => panic!("{command:?}: {other:?}"),
        }
    }

    /// Waits until the status is as wanted.
    pub(crate) fn until(&self, what: &str, wanted: impl Fn(&ArrayStatus) -> bool) -> ArrayStatus {
        let began = Instant::now();
        loop {
            let status = self.status();
            if wanted(&status) {
                return status;
            }
            assert!(began.elapsed() < PATIENCE, "never {what}: {status:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    pub(crate) fn stop(self) -> H {
        self.done(&Command::Stop);
        self.thread.join().expect("the host is content")
    }
}

fn fail(device: &str) -> Command {
    Command::Fail { device: device.to_owned() }
}

pub(crate) fn replace(device: &str, with: &Path) -> Command {
    Command::Replace {
        device: device.to_owned(),
        with: with.to_owned(),
        destroy_data: false,
        server_restarted: false,
    }
}

fn add_spare(path: &Path) -> Command {
    Command::AddSpare { path: path.to_owned(), destroy_data: false, server_restarted: false }
}

pub(crate) fn is_whole(status: &ArrayStatus) -> bool {
    status.condition == Condition::Optimal && status.scan.is_none()
}

/// Starts the array once more and compares the whole volume.
pub(crate) fn check_again(paths: &[PathBuf], settings: &RunSettings, checker: &Checker) {
    let mut world = ArrayWorld::start(paths, settings, StartOptions::default()).world.expect("it starts");
    let volume = read_all(&mut world).expect("all can be read");
    for (lba, bytes) in (0..).zip(volume.chunks_exact(BLOCK.bytes() as usize)) {
        assert!(bytes == pattern(lba, checker.versions[lba as usize]), "block {lba}");
    }
    world.stop(&GO_ON).expect("it stops");
}

fn arrays() -> Vec<ArrayConfig> {
    let mut arrays = Vec::new();
    for (level, members, metadata, policy) in [
        ("5", 4, MetadataPolicy::Log, WritePolicy::WriteBack),
        ("6", 5, MetadataPolicy::Bitmap, WritePolicy::WriteThrough),
        ("10", 4, MetadataPolicy::Log, WritePolicy::WriteThrough),
        ("1", 2, MetadataPolicy::Resync, WritePolicy::WriteBack),
    ] {
        let mut config = keeping(level, members, metadata);
        config.cache.write_policy = policy;
        config.member_size = ByteCount::from_mib(4);
        arrays.push(config);
    }
    arrays
}

#[test]
fn a_device_is_failed_and_replaced_and_rebuilt_while_the_array_is_used() {
    for config in arrays() {
        let folder = super::folder();
        let mut paths = make(folder.path(), &config, 0);
        let settings = RunSettings::of(&config);
        let used = use_array(paths.clone(), settings.clone());
        used.until("used", |status| {
            status.counters.host_writes.min(status.counters.host_reads) > 100 && is_whole(status)
        });
        let first = paths[1].display().to_string();
        used.done(&fail(&first));
        let reason = used.refused(&fail("1"));
        assert!(reason.contains("not in the array"), "{reason}");
        used.until("degraded", |status| status.condition == Condition::Degraded);
        let new = folder.path().join("new");
        used.done(&replace("1", &new));
        let status = used.until("whole again", is_whole);
        assert_eq!(status.devices[1].path.as_deref(), new.to_str());
        assert_eq!(status.devices[1].state, DeviceCondition::InSync);
        let rebuilt = status.last_scan.expect("a rebuild has ended");
        assert_eq!((rebuilt.scan.as_str(), rebuilt.target), ("rebuild", Some(1)));
        used.done(&Command::Check);
        let checked = used.until("checked", |status| {
            status.last_scan.as_ref().is_some_and(|scan| scan.scan == "check") && status.scan.is_none()
        });
        assert_eq!(checked.last_scan.expect("it has ended").mismatched_rows, 0);
        let checker = used.stop();
        assert!(checker.writes > 100 && checker.reads > 100);
        // The old one is named, too: it must not be taken for the array's.
        paths.push(new);
        let report = raidlab_runtime::examine(&paths, StartOptions::default());
        let array = report.array.expect("an array");
        assert_eq!((array.dirty, array.absent.len()), (false, 0));
        check_again(&paths, &settings, &checker);
    }
}

#[test]
fn a_device_is_not_taken_out_while_redundancy_is_being_made() {
    let folder = super::folder();
    let config = keeping("5", 3, MetadataPolicy::Log);
    let paths = common::paths(folder.path(), 3);
    for path in &paths {
        std::fs::File::create_new(path).and_then(|file| file.set_len(4 << 20)).expect("a file can be made");
    }
    let destroy_data = paths.iter().map(|path| path.display().to_string()).collect();
    let order = CreateOptions { contents: Contents::AsFound, destroy_data, ..options(paths.clone(), vec![]) };
    assert!(create(&config, &order, &GO_ON, &mut |_, _| {}).expect("it is made").needs_resync);
    let slow = RunSettings { scan_bytes_per_sec: Some(ByteCount(4096)), ..RunSettings::of(&config) };
    let used = use_array(paths, slow);
    used.until("resyncing", |status| status.scan.is_some());
    let reason = used.refused(&fail("1"));
    assert!(reason.contains("can't be taken out yet"), "{reason}");
    used.done(&Command::ScanRate { bytes_per_sec: None });
    used.until("in sync", |status| status.scan.is_none() && status.last_scan.is_some());
    used.done(&fail("1"));
    used.until("degraded", |status| status.condition == Condition::Degraded);
    used.stop();
}

/// Defect: a member went while nothing said which of two copies, or parity and data, is right: what was left was believed.
#[test]
fn a_device_is_not_taken_out_while_something_is_undecided() {
    let folder = super::folder();
    let config = keeping("1", 2, MetadataPolicy::Bitmap);
    let paths = make(folder.path(), &config, 0);
    let first = std::fs::OpenOptions::new().write(true).open(&paths[1]).expect("it is there");
    first.write_all_at(&[1; 4096], 1 << 20).expect("the first block of its data area can be written");
    let used = use_array_by(paths, RunSettings::of(&config), |_| Nobody);
    used.until("whole", is_whole);
    used.done(&Command::Check);
    used.until("undecided", |status| status.condition == Condition::Undecided && status.scan.is_none());
    let reason = used.refused(&fail("1"));
    assert!(reason.contains("--trust-data"), "{reason}");
    used.done(&Command::Repair { trust_data: true });
    used.until("decided", is_whole);
    used.done(&fail("1"));
    used.until("degraded", |status| status.condition == Condition::Degraded);
    used.stop();
}

/// Defect: that a member's file was removed or renamed while the array used it was told by nobody; the next start lacked it.
#[test]
fn a_file_that_is_not_at_its_path_any_more_is_told() {
    let folder = super::folder();
    let config = keeping("5", 3, MetadataPolicy::Bitmap);
    let paths = make(folder.path(), &config, 0);
    let used = use_array_by(paths.clone(), RunSettings::of(&config), |_| Nobody);
    used.until("whole", is_whole);
    let told = || used.status().devices.iter().map(|device| device.has_lost_its_name).collect::<Vec<_>>();
    assert!(!told().contains(&true));
    let elsewhere = folder.path().join("elsewhere");
    std::fs::rename(&paths[1], &elsewhere).expect("it can be renamed");
    std::fs::remove_file(&paths[2]).expect("it can be removed");
    assert_eq!(told()[..3], [false, true, true]);
    std::fs::rename(&elsewhere, &paths[1]).expect("it can be renamed");
    assert_eq!(told()[..3], [false, false, true]);
    used.stop();
}

#[test]
fn a_spare_takes_the_place_of_a_failed_member_and_others_can_be_added() {
    for config in arrays() {
        let folder = super::folder();
        let paths = make(folder.path(), &config, 1);
        let settings = RunSettings::of(&config);
        let used = use_array(paths.clone(), settings.clone());
        let spare = config.members;
        used.until("used", |status| status.counters.host_writes > 50 && is_whole(status));
        used.done(&fail("0"));
        let status = used.until("whole again", is_whole);
        assert_eq!(status.devices[usize::from(spare)].role, Some(0));
        // Defect: the slot of a device that was replaced long ago was listed as missing, though nothing was.
        let left = &status.devices[0];
        assert_eq!(
            (left.state, &left.path, &left.device_uuid, left.role),
            (DeviceCondition::Empty, &None, &None, None)
        );
        let more =
            common::paths(folder.path(), config.members + 6).split_off(usize::from(config.members) + 1);
        for path in &more[..3] {
            used.done(&add_spare(path));
        }
        let status = used.status();
        let spares = status.devices.iter().filter(|device| device.state == DeviceCondition::Spare).count();
        assert_eq!(spares, 3, "the spares' own slots are filled first: {status:?}");
        used.done(&add_spare(&more[3]));
        let reason = used.refused(&add_spare(&more[4]));
        assert!(reason.contains("all slots are taken"), "{reason}");
        used.done(&fail("0"));
        let status = used.until("a spare less", |status| status.devices[0].state == DeviceCondition::Empty);
        assert_eq!(
            status.condition,
            Condition::Optimal,
            "a spare that has left is no member that is missing"
        );
        let checker = used.stop();
        let all: Vec<PathBuf> = paths.iter().chain(&more[..4]).cloned().collect();
        check_again(&all, &settings, &checker);
    }
}

/// A check that makes room for a rebuild is told of beside it, and goes on with a rate of its own.
#[test]
fn a_check_that_waits_for_a_rebuild_keeps_its_status() {
    let folder = super::folder();
    let config = keeping("5", 3, MetadataPolicy::Log);
    let paths = make(folder.path(), &config, 1);
    let used = use_array(paths, RunSettings::of(&config));
    used.until("whole", is_whole);
    let rate = |bytes| Command::ScanRate { bytes_per_sec: Some(ByteCount(bytes)) };
    used.done(&rate(0));
    let resting = match used.operator.ask(Command::Check) {
        Ok(Answer::Done { message }) => message,
        other => panic!("{other:?}"),
    };
    assert!(resting.contains("--rate none"), "{resting}");
    used.done(&rate(100_000));
    let found = used.until("checking", |status| {
        status.scan.as_ref().is_some_and(|scan| scan.done_stripes > 0 && scan.bytes_per_sec.is_some())
    });
    let check = found.scan.expect("it runs").number;
    used.done(&fail("1"));
    let status = used.until("parked", |status| status.parked_scan.is_some());
    let told = |scan: &Option<ScanStatus>| scan.as_ref().map(|scan| (scan.scan.clone(), scan.number));
    assert_eq!(told(&status.scan), Some(("rebuild".to_owned(), check + 1)), "{status:?}");
    assert_eq!(told(&status.parked_scan), Some(("check".to_owned(), check)), "{status:?}");
    used.until("going on, with its rate told", |status| {
        let goes_on = status.scan.as_ref().filter(|scan| scan.number == check);
        status.parked_scan.is_none() && goes_on.is_some_and(|scan| scan.bytes_per_sec.is_some())
    });
    used.done(&Command::ScanRate { bytes_per_sec: None });
    let goes_on = used.until("through", |status| status.scan.is_none());
    let last = goes_on.last_scan.expect("the check has ended");
    assert_eq!((last.number, last.end), (check, Some(ScanOutcome::Through)));
    assert_eq!(last.done_stripes, last.total_stripes);
    for words in ["the check waits for a rebuild", "the check goes on"] {
        assert!(goes_on.events.iter().any(|event| event.text == words), "{words}: {:?}", goes_on.events);
    }
    used.stop();
}

/// A device that was taken out is given up: it may join again, or go to another array.
#[test]
fn a_device_that_was_taken_out_may_join_again() {
    let folder = super::folder();
    let config = keeping("5", 3, MetadataPolicy::Log);
    let paths = make(folder.path(), &config, 0);
    let settings = RunSettings::of(&config);
    let used = use_array(paths.clone(), settings.clone());
    used.until("used", |status| status.counters.host_writes > 50 && is_whole(status));
    for _ in 0..3 {
        used.done(&fail("1"));
        let status = used.until("degraded", |status| status.condition == Condition::Degraded);
        assert_eq!(status.devices[1].path.as_deref(), paths[1].to_str(), "it is still named");
        let same = Command::Replace {
            device: "1".to_owned(),
            with: paths[1].clone(),
            destroy_data: true,
            server_restarted: false,
        };
        let began = Instant::now();
        // What was under way on it when it was taken out has to end.
        while let Ok(Answer::Refused { reason }) = used.operator.ask(same.clone()) {
            assert!(reason.contains("in use") && began.elapsed() < PATIENCE, "{reason}");
            std::thread::sleep(Duration::from_millis(5));
        }
        used.until("whole again", is_whole);
    }
    let checker = used.stop();
    check_again(&paths, &settings, &checker);
}

#[test]
fn what_can_not_be_done_is_refused_with_a_reason() {
    let folder = super::folder();
    let config = keeping("5", 3, MetadataPolicy::Log);
    let paths = make(folder.path(), &config, 0);
    let used = use_array(paths.clone(), RunSettings::of(&config));
    used.until("whole", is_whole);
    let holds_data = folder.path().join("data");
    std::fs::write(&holds_data, vec![1; 4 << 20]).expect("a file can be made");
    let short = folder.path().join("short");
    std::fs::write(&short, "").expect("a file can be made");
    let rows = [
        (fail("9"), "no device '9'"),
        (fail("elsewhere"), "no device 'elsewhere'"),
        (replace("1", &folder.path().join("x")), "fail it first"),
        (Command::StopScan, "no check or repair runs"),
        (add_spare(&holds_data), "--destroy-data"),
        (add_spare(&short), "needs"),
        (Command::AddSpare { path: paths[0].clone(), destroy_data: true, server_restarted: false }, "in use"),
        (add_spare(&folder.path().join("no/folder/x")), "can't open"),
    ];
    for (command, word) in rows {
        let reason = used.refused(&command);
        assert!(reason.contains(word), "{command:?}: {reason}");
    }
    used.done(&Command::AddSpare { path: holds_data.clone(), destroy_data: true, server_restarted: false });
    used.done(&Command::ScanRate { bytes_per_sec: Some(ByteCount(100_000)) });
    used.done(&fail("1"));
    let status = used.until("rebuilding", |status| status.condition == Condition::Rebuilding);
    let target = status.scan.as_ref().and_then(|scan| scan.target);
    assert_eq!(target, Some(3), "{status:?}");
    let reason = used.refused(&fail("0"));
    assert!(reason.contains("data would be lost"), "{reason}");
    let reason = used.refused(&Command::Check);
    assert!(reason.contains("under way"), "{reason}");
    used.done(&Command::ScanRate { bytes_per_sec: Some(ByteCount::ZERO) });
    let rests = |status: &ArrayStatus| status.scan_bytes_per_sec_max == Some(0);
    let before = used.until("resting", rests);
    let later = used.until("still resting", rests);
    assert_eq!(later.condition, Condition::Rebuilding);
    assert_eq!(later.scan.map(|it| it.left_ns), before.scan.map(|_| None));
    used.done(&Command::ScanRate { bytes_per_sec: None });
    used.until("whole again", is_whole);
    used.stop();
}
