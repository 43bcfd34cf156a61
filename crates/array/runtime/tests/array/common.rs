//! Shared by the tests of the real array: configurations, scripts, and two slow, obvious oracles.
//!
//! [`PlainWorld`] runs the same controller over vectors of bytes, one action at a time, with the memory work of the test
//! kit; it is a world of its own, because it runs the runtime's scripts. [`check_redundancy`] reads the member files and
//! checks every stripe: copies equal, P the XOR of the data, Q the sum of `2^i` times strip `i`.

#![allow(unreachable_pub, reason = "a test's module is a crate of its own")]

use raidlab_controller::{
    Action, ArrayConfig, BufferSpace, CacheConfig, CacheMemory, Controller, Counters, HostOp, HostRequest,
    HostTag, MemberCache, MemberIo, MemberOp, MemorySteps, WritePolicy,
};
use raidlab_format::{ArrayName, ArrayUuid, Placement, StartOptions};
use raidlab_raid::StripUnit;
use raidlab_runtime::{
    ArrayError, ArrayWorld, CreateError, CreateOptions, Created, RunSettings, ScriptOp, ScriptResult, create,
};
pub use raidlab_testkit::Random;
use raidlab_testkit::{Memories, multiply};
use raidlab_units::{BlockCount, BlockSize, ByteCount, Lba, MemberIndex, NanoSpan, Nanos, StripeIndex};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

/// Block of all test arrays.
pub const BLOCK: BlockSize = BlockSize::B4096;
/// Data area of each test member.
pub const MEMBER_BYTES: u64 = 1 << 20;

/// A small array: strips of 16 KiB, so that a member holds 64 of them.
pub fn config(level: &str, members: u16, write_policy: WritePolicy) -> ArrayConfig {
    let cache = CacheConfig {
        size: ByteCount::from_kib(512),
        write_policy,
        flush_stop_pct: 50,
        flush_after: NanoSpan::from_millis(200),
        read_ahead: ByteCount::from_kib(64),
        ..CacheConfig::default()
    };
    ArrayConfig {
        strip_size: ByteCount::from_kib(16),
        member_size: ByteCount(MEMBER_BYTES),
        member_cache: MemberCache::On,
        ..raidlab_testkit::array(level, members, cache)
    }
}

/// Where the members and spares of the arrays of `folder` are.
pub fn paths(folder: &Path, count: u16) -> Vec<PathBuf> {
    (0..count).map(|index| folder.join(format!("member-{index}"))).collect()
}

/// How `config` is run, with NVRAM in `folder` if it needs any.
pub fn settings(folder: &Path, config: &ArrayConfig) -> RunSettings {
    let is_kept = config.cache.memory == CacheMemory::BatteryBacked;
    RunSettings { nvram: is_kept.then(|| folder.join("kept")), ..RunSettings::of(config) }
}

/// Makes an array of `config` out of files in `folder`.
pub fn make(folder: &Path, config: &ArrayConfig) -> Created {
    let options = CreateOptions {
        name: ArrayName::new("test").expect("a name"),
        members: paths(folder, config.members),
        ..CreateOptions::default()
    };
    create(config, &options, &AtomicBool::new(false), &mut |_, _| {}).expect("an array can be made")
}

/// Smallest unit of direct I/O of files in `folder`.
pub fn direct_io_unit(folder: &Path) -> u64 {
    let config = ArrayConfig { block_size: BlockSize::B512, ..config("0", 1, WritePolicy::WriteThrough) };
    let members = vec![folder.join("unit")];
    let options = CreateOptions { members, ..CreateOptions::default() };
    let made = create(&config, &options, &AtomicBool::new(false), &mut |_, _| {});
    if let Err(CreateError::BlockTooSmall { needed, .. }) = made { needed.get() } else { 512 }
}

/// Starts the array in `folder`.
pub fn start(folder: &Path, config: &ArrayConfig) -> Result<ArrayWorld, ArrayError> {
    let paths = paths(folder, config.members);
    ArrayWorld::start(&paths, &settings(folder, config), StartOptions::default()).world
}

/// Random reads, writes and a few flushes over the whole volume, up to 24 blocks long.
pub fn random_script(seed: u64, volume: BlockCount, count: usize) -> Vec<ScriptOp> {
    let mut random = Random(seed);
    let mut next = || {
        let blocks = 1 + random.below(24.min(volume.0));
        let lba = Lba(random.below(volume.0 - blocks + 1));
        match random.below(20) {
            0 => ScriptOp::Flush,
            1..10 => ScriptOp::Read { lba, blocks: BlockCount(blocks) },
            kind => ScriptOp::Write { lba, bytes: random.bytes(blocks * BLOCK.bytes()), fua: kind == 10 },
        }
    };
    (0..count).map(|_| next()).collect()
}

/// What a script does to plain memory: the results of its requests, and the volume at its end.
pub fn reference(script: &[ScriptOp], volume: BlockCount) -> (Vec<Vec<u8>>, Vec<u8>) {
    let mut bytes = vec![0; (volume.0 * BLOCK.bytes()) as usize];
    let at = |lba: Lba| (lba.0 * BLOCK.bytes()) as usize;
    let results = script.iter().map(|op| match op {
        ScriptOp::Read { lba, blocks } => bytes[at(*lba)..at(*lba + *blocks)].to_vec(),
        ScriptOp::Write { lba, bytes: data, .. } => {
            bytes[at(*lba)..at(*lba) + data.len()].copy_from_slice(data);
            Vec::new()
        }
        ScriptOp::Flush => Vec::new(),
    });
    let results = results.collect();
    (results, bytes)
}

/// The controller over vectors of bytes; every action is done at once, in order.
pub struct PlainWorld {
    controller: Controller,
    members: Vec<Vec<u8>>,
    cache: Vec<u8>,
    staging: Vec<u8>,
    host: Vec<u8>,
    now: Nanos,
}

impl PlainWorld {
    pub fn new(config: &ArrayConfig) -> Self {
        let controller = Controller::new(config).expect("a valid configuration");
        let needs = controller.memory_needs();
        let memory = |bytes: ByteCount| vec![0; bytes.get() as usize];
        let (cache, staging) = (memory(needs.cache_bytes), memory(needs.staging_bytes));
        let members = vec![vec![0; config.member_size.get() as usize]; usize::from(config.members)];
        Self { controller, members, cache, staging, host: Vec::new(), now: Nanos::ZERO }
    }

    pub fn counters(&self) -> Counters {
        self.controller.counters()
    }

    /// Runs a script one request at a time.
    pub fn run(&mut self, script: &[ScriptOp]) -> Vec<ScriptResult> {
        script.iter().map(|op| self.request(op)).collect()
    }

    fn request(&mut self, op: &ScriptOp) -> ScriptResult {
        let (op, lba, host) = match op {
            ScriptOp::Read { lba, blocks } => {
                (HostOp::Read, *lba, vec![0; BLOCK.bytes_of(*blocks).get() as usize])
            }
            ScriptOp::Write { lba, bytes, fua } => (HostOp::Write { fua: *fua }, *lba, bytes.clone()),
            ScriptOp::Flush => (HostOp::Flush, Lba::ZERO, Vec::new()),
        };
        let blocks = BlockCount(host.len() as u64 / BLOCK.bytes());
        self.host = host;
        self.controller.handle_host_request(self.now, HostRequest { tag: HostTag(0), op, lba, blocks });
        let mut ended = None;
        while ended.is_none() {
            match self.controller.poll_action().expect("a request ends without outside help") {
                Action::Member(io) => self.member_io(io),
                Action::Memory(task) => {
                    let mut steps = MemorySteps::default();
                    self.controller.memory_steps(task.id, &mut steps);
                    self.compute(&steps, || true);
                    self.controller.handle_memory_completion(self.now, task.id);
                }
                Action::Complete(completion) => ended = Some(completion.result),
                Action::Timer { .. } | Action::Keep(_) => {}
                Action::Notice(notice) => panic!("nothing fails here, but {notice:?}"),
            }
        }
        let host = std::mem::take(&mut self.host);
        ended.expect("the loop ends with it").map(|()| if op == HostOp::Read { host } else { Vec::new() })
    }

    fn member_io(&mut self, io: MemberIo) {
        let mut segments = Vec::new();
        self.controller.member_io_segments(io.id, &mut segments);
        let at = (io.lba.0 * BLOCK.bytes()) as usize;
        let mut bytes = self.gather(&segments);
        let held = &mut self.members[io.member.index()][at..at + bytes.len()];
        match io.op {
            MemberOp::Read => {
                bytes.copy_from_slice(held);
                self.scatter(&bytes, &segments);
            }
            MemberOp::Write { .. } => held.copy_from_slice(&bytes),
            MemberOp::Flush | MemberOp::Discard => {}
        }
        self.controller.handle_member_completion(self.now, io.id, Ok(()));
    }
}

impl Memories for PlainWorld {
    fn space(&mut self, space: BufferSpace) -> &mut [u8] {
        match space {
            BufferSpace::Host(_) => &mut self.host,
            BufferSpace::Cache => &mut self.cache,
            BufferSpace::Staging => &mut self.staging,
            other => panic!("no {other:?} here"),
        }
    }
}

/// Reads the data areas of the member files in `folder`.
pub fn data_areas(folder: &Path, config: &ArrayConfig) -> Vec<Vec<u8>> {
    let read = |path: &PathBuf| {
        let bytes = std::fs::read(path).expect("a member can be read");
        let geometry = config.geometry(ArrayUuid::default());
        let placement = Placement::new(&geometry, ByteCount(bytes.len() as u64)).expect("a whole member");
        bytes[placement.data_at as usize..][..config.member_size.get() as usize].to_vec()
    };
    paths(folder, config.members).iter().map(read).collect()
}

/// Asserts that all redundancy on the members is what the data calls for, and that the data is `volume`.
pub fn check_redundancy(config: &ArrayConfig, areas: &[Vec<u8>], volume: &[u8]) {
    let layout = config.layout().expect("a valid configuration");
    let shape = layout.shape();
    let strip_bytes = BLOCK.bytes_of(shape.strip_blocks).get() as usize;
    let strip_at = |stripe: u64, unit: StripUnit| {
        let place = layout.place(StripeIndex(stripe), unit);
        let start = (place.start.0 * BLOCK.bytes()) as usize;
        &areas[MemberIndex::index(place.member)][start..start + strip_bytes]
    };
    let mut volume = volume.chunks_exact(strip_bytes);
    for stripe in 0..layout.stripe_count().0 {
        let (mut p, mut q) = (vec![0; strip_bytes], vec![0; strip_bytes]);
        let mut power = 1;
        for strip in 0..shape.data_strips {
            let expected = volume.next().expect("the volume is as long as its strips");
            for copy in 0..shape.copies {
                let held = strip_at(stripe, StripUnit::Data { strip, copy });
                assert!(held == expected, "stripe {stripe}: copy {copy} of strip {strip} is wrong");
            }
            for (at, byte) in expected.iter().enumerate() {
                p[at] ^= byte;
                q[at] ^= multiply(power, *byte);
            }
            power = multiply(power, 2);
        }
        for (parity, expected) in [p, q].iter().enumerate().take(usize::from(shape.parities)) {
            let held = strip_at(stripe, StripUnit::Parity(parity as u16));
            assert!(held == &expected[..], "stripe {stripe}: parity {parity} is wrong");
        }
    }
}
