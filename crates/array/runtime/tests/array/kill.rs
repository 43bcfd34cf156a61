//! The process that serves an array is killed (SIGKILL) at random instants, again and again, and its acknowledged
//! writes must be there.
//!
//! The process is this test's own binary, started again with the folder in its environment. It reads and writes, and
//! keeps a ledger in a file beside the array: for each block the latest version whose write began, and a floor, the
//! latest version that was promised to survive. The test kills it, starts the array itself and reads all of it:
//!
//! | settings | the floor is raised when |
//! |---|---|
//! | write-through, members' caches off | a write is acknowledged |
//! | write-back in volatile memory | a flush is acknowledged, to what was before it; a write with forced unit access is |
//! | write-back in NVRAM | a write is acknowledged |
//!
//! Verified: each block holds one whole version between its floor and the latest begun; a second read returns the same;
//! a start is never refused; kills hit starts and replays, too. Not verified: power loss, which torture does.
//!
//! `RAIDLAB_KILLS` sets how many kills each array gets.

use super::common::{self, BLOCK, Random};
use super::operator::pattern;
use super::real::{keeping, make};
use super::{GO_ON, read_all, serve};
use raidlab_controller::{
    ArrayConfig, CacheMemory, HostCompletion, HostError, HostOp, HostRequest, HostTag, MemberCache,
    MetadataPolicy, WritePolicy,
};
use raidlab_format::StartOptions;
use raidlab_runtime::{ArrayWorld, HostBuffers, HostPort, HostPortNeeds, HostStep, PortRing, ScriptOp};
use raidlab_units::{BlockCount, ByteCount, Lba, NanoSpan, Nanos};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

const FOLDER: &str = "RAIDLAB_KILL_FOLDER";
const ARRAY: &str = "RAIDLAB_KILL_ARRAY";
const SEED: &str = "RAIDLAB_KILL_SEED";
const SLOTS: usize = 8;
const BLOCKS_MAX: u64 = 10;

/// The arrays that are killed.
fn arrays() -> Vec<ArrayConfig> {
    let rows = [
        ("5", 4, MetadataPolicy::Log, WritePolicy::WriteThrough, CacheMemory::Volatile, MemberCache::Off),
        ("6", 5, MetadataPolicy::Bitmap, WritePolicy::WriteBack, CacheMemory::Volatile, MemberCache::On),
        ("5", 4, MetadataPolicy::Log, WritePolicy::WriteBack, CacheMemory::BatteryBacked, MemberCache::Off),
        ("10", 4, MetadataPolicy::Log, WritePolicy::WriteBack, CacheMemory::BatteryBacked, MemberCache::On),
        (
            "0",
            3,
            MetadataPolicy::Resync,
            WritePolicy::WriteBack,
            CacheMemory::BatteryBacked,
            MemberCache::Off,
        ),
        ("1", 2, MetadataPolicy::Resync, WritePolicy::WriteThrough, CacheMemory::Volatile, MemberCache::Off),
    ];
    let array = |(level, members, metadata, policy, memory, member_cache)| {
        let mut config = keeping(level, members, metadata);
        config.cache.write_policy = policy;
        config.cache.memory = memory;
        config.cache.flush_after = NanoSpan::from_millis(20);
        config.member_cache = member_cache;
        config
    };
    rows.into_iter().map(array).collect()
}

/// What each block may hold: two words for each, floor and latest begun.
struct Ledger {
    file: File,
}

impl Ledger {
    fn open(folder: &Path) -> Self {
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create(true).truncate(false).open(folder.join("ledger"));
        Self { file: file.expect("the ledger can be opened") }
    }

    fn put(&self, lba: u64, word: u64, value: u64) {
        let written = self.file.write_all_at(&value.to_le_bytes(), lba * 16 + word * 8);
        written.expect("the ledger can be written");
    }

    fn get(&self, lba: u64) -> (u64, u64) {
        let mut words = [0; 16];
        // Beyond its end nothing has been begun.
        let _ = self.file.read_exact_at(&mut words, lba * 16);
        let word = |at: usize| u64::from_le_bytes(words[at..at + 8].try_into().expect("eight bytes"));
        (word(0), word(8))
    }
}

/// A host that writes for ever and keeps the ledger.
struct Hammer {
    ledger: Ledger,
    random: Random,
    /// A write is promised to survive when it is acknowledged.
    promises_at_once: bool,
    /// The latest version that was acknowledged, of each block.
    acknowledged: Vec<u64>,
    busy: Vec<bool>,
    in_flight: Vec<Option<(HostRequest, u64)>>,
    /// What a flush in flight will promise.
    flushing: Option<Vec<u64>>,
    version: u64,
}

impl HostPort for Hammer {
    fn needs(&self) -> HostPortNeeds {
        HostPortNeeds { slots: SLOTS as u32, slot_bytes: ByteCount(BLOCKS_MAX * BLOCK.bytes()) }
    }

    fn poll_step(&mut self, _now: Nanos, buffers: &mut HostBuffers, _ring: &mut PortRing<'_>) -> HostStep {
        let Some(free) = self.in_flight.iter().position(Option::is_none) else {
            return HostStep::WaitForCompletion;
        };
        let tag = HostTag(free as u32);
        if self.flushing.is_none() && self.random.below(12) == 0 {
            self.flushing = Some(self.acknowledged.clone());
            let request = HostRequest { tag, op: HostOp::Flush, lba: Lba(0), blocks: BlockCount(0) };
            self.in_flight[free] = Some((request, 0));
            return HostStep::Submit(request);
        }
        let blocks = 1 + self.random.below(BLOCKS_MAX);
        // Mostly a small part, so that blocks are written over while they are dirty.
        let volume = self.busy.len() as u64;
        let span = if self.random.below(4) == 0 { volume } else { volume / 8 };
        let lba = self.random.below(span - blocks + 1);
        if self.busy[lba as usize..(lba + blocks) as usize].contains(&true) {
            return HostStep::WaitForCompletion;
        }
        self.version += 1;
        for block in 0..blocks {
            let at = lba + block;
            self.busy[at as usize] = true;
            self.ledger.put(at, 1, self.version);
            let bytes = pattern(at, self.version);
            buffers.slot_mut(tag)[(block * BLOCK.bytes()) as usize..][..bytes.len()].copy_from_slice(&bytes);
        }
        let op = HostOp::Write { fua: self.random.below(6) == 0 };
        let request = HostRequest { tag, op, lba: Lba(lba), blocks: BlockCount(blocks) };
        self.in_flight[free] = Some((request, self.version));
        HostStep::Submit(request)
    }

    fn handle_completion(&mut self, _now: Nanos, completion: HostCompletion, _buffers: &HostBuffers) {
        assert_eq!(completion.result, Ok(()));
        let (request, version) = self.in_flight[completion.tag.0 as usize].take().expect("it was in flight");
        if request.op == HostOp::Flush {
            let promised = self.flushing.take().expect("a flush is in flight");
            for (lba, version) in (0..).zip(promised).filter(|(_, version)| *version > 0) {
                if self.ledger.get(lba).0 < version {
                    self.ledger.put(lba, 0, version);
                }
            }
            return;
        }
        for lba in request.lba.0..request.lba.0 + request.blocks.0 {
            self.busy[lba as usize] = false;
            self.acknowledged[lba as usize] = version;
            if self.promises_at_once || request.op == (HostOp::Write { fua: true }) {
                self.ledger.put(lba, 0, version);
            }
        }
    }
}

/// The process that is killed: does nothing unless the test has started it.
#[test]
fn the_process_that_is_killed() {
    let (Ok(folder), Ok(array), Ok(seed)) =
        (std::env::var(FOLDER), std::env::var(ARRAY), std::env::var(SEED))
    else {
        return;
    };
    let (folder, seed): (&Path, u64) = (folder.as_ref(), seed.parse().expect("a number"));
    let config = &arrays()[array.parse::<usize>().expect("a number")];
    let mut world = common::start(folder, config).expect("the array starts");
    let blocks = world.volume_blocks().0 as usize;
    let is_kept = config.cache.memory == CacheMemory::BatteryBacked;
    let ledger = Ledger::open(folder);
    let latest = (0..blocks as u64).map(|lba| ledger.get(lba).1).max().unwrap_or_default();
    let mut hammer = Hammer {
        ledger,
        random: Random(seed),
        promises_at_once: is_kept || config.cache.write_policy == WritePolicy::WriteThrough,
        acknowledged: vec![0; blocks],
        busy: vec![false; blocks],
        in_flight: vec![None; SLOTS],
        flushing: None,
        version: latest,
    };
    world.serve(&mut hammer, &GO_ON).expect("it serves until it is killed");
}

/// Starts the process, kills it after a while, and waits until it is gone.
fn kill_once(folder: &Path, array: usize, random: &mut Random) {
    let mut process = Command::new(std::env::current_exe().expect("this binary is known"))
        .args(["--exact", "kill::the_process_that_is_killed", "--nocapture"])
        .env(FOLDER, folder)
        .env(ARRAY, array.to_string())
        .env(SEED, random.below(1 << 30).to_string())
        .stdout(Stdio::null())
        .spawn()
        .expect("the process starts");
    // Some kills hit the start.
    let span = if random.below(4) == 0 { random.below(40_000) } else { 30_000 + random.below(250_000) };
    std::thread::sleep(Duration::from_micros(span));
    let early = process.try_wait().expect("it can be asked");
    assert!(early.is_none(), "array {array}: the process ended by itself: {early:?}");
    process.kill().expect("it can be killed");
    process.wait().expect("it ends");
}

/// Reads all blocks and holds them to the ledger; what was found is then settled. Returns blocks that hold something.
fn check(folder: &Path, config: &ArrayConfig, row: &str) -> u64 {
    let mut world = common::start(folder, config).unwrap_or_else(|error| panic!("{row}: {error}"));
    world.await_serving(&GO_ON).expect(row);
    let ledger = Ledger::open(folder);
    let volume = read_all(&mut world).expect("all can be read");
    let mut written = 0;
    for (lba, bytes) in (0..).zip(volume.chunks_exact(BLOCK.bytes() as usize)) {
        let (floor, latest) = ledger.get(lba);
        let found = (floor..=latest).rev().find(|version| bytes == pattern(lba, *version));
        let version =
            found.unwrap_or_else(|| panic!("{row}: block {lba} holds no version of {floor} to {latest}"));
        written += u64::from(version > 0);
        ledger.put(lba, 0, version);
        ledger.put(lba, 1, version);
    }
    assert!(read_all(&mut world).expect("all can be read") == volume, "{row}: it changes from read to read");
    written
}

#[test]
fn what_was_acknowledged_outlives_the_process() {
    let kills = std::env::var("RAIDLAB_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(8);
    for (array, config) in arrays().iter().enumerate() {
        let folder = super::folder();
        make(folder.path(), config, 0);
        let mut random = Random(31 + array as u64);
        let mut written = 0;
        let mut kill = 0;
        // On a busy machine processes are killed before they wrote anything; then more of them are.
        while kill < kills || (written <= 20 && kill < 10 * kills) {
            kill_once(folder.path(), array, &mut random);
            let row = format!("RAID {}, {:?}, kill {kill}", config.level, config.cache.write_policy);
            // Now and then the next process starts from what the killed one left.
            if kill % 3 != 2 {
                written = check(folder.path(), config, &row);
            }
            kill += 1;
        }
        assert!(written > 20, "RAID {}: nothing was written", config.level);
    }
}

/// After a kill a member goes, too: a log closes the write hole, and copies have none. With a log on the members, a block that was
/// being written may be lost; it is not made up.
#[test]
fn what_was_acknowledged_outlives_the_process_and_a_member() {
    for array in [0, 2, 3, 5] {
        let config = &arrays()[array];
        let may_lose = array == 0;
        for round in 0..3_u16 {
            let folder = super::folder();
            let paths = make(folder.path(), config, 0);
            let mut random = Random(900 + u64::from(round));
            kill_once(folder.path(), array, &mut random);
            std::fs::remove_file(&paths[usize::from(round % config.members)]).expect("a member can go");
            let row = format!("RAID {}, without member {}", config.level, round % config.members);
            let quorum = StartOptions { accept_minority: true, ..StartOptions::default() };
            let settings = common::settings(folder.path(), config);
            let mut world = ArrayWorld::start(&paths, &settings, quorum).world.expect(&row);
            world.await_serving(&GO_ON).expect(&row);
            let ledger = Ledger::open(folder.path());
            let read = |lba| ScriptOp::Read { lba: Lba(lba), blocks: BlockCount(1) };
            let reads: Vec<ScriptOp> = (0..world.volume_blocks().0).map(read).collect();
            for (lba, found) in (0..).zip(serve(&mut world, &reads, 1)) {
                let (floor, latest) = ledger.get(lba);
                let is_right = match found {
                    Ok(bytes) => (floor..=latest).any(|version| bytes == pattern(lba, version)),
                    Err(error) => {
                        may_lose && error == HostError::DataLost { lba: Lba(lba) } && floor < latest
                    }
                };
                assert!(is_right, "{row}: block {lba}, versions {floor} to {latest}");
            }
        }
    }
}
