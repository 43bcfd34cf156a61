//! Cache settings that a file or a command line may leave out, and their defaults.

use raidlab_controller::{
    ArrayRules, CacheConfig, CacheMemory, FlushOrder, IoPolicy, ReadPolicy, WritePolicy,
};
use raidlab_units::{ByteCount, NanoSpan};
use serde::{Deserialize, Serialize};

/// The cache of a software array unless the file says otherwise. It lies in main memory, so power loss takes it:
/// a host flush writes it out first. The sizes are small enough to leave a small machine's memory alone and large
/// enough to gather full stripes of six members.
pub const SOFTWARE_CACHE: CacheConfig = CacheConfig {
    size: ByteCount::from_mib(64),
    block_size: ByteCount::from_kib(16),
    memory: CacheMemory::Volatile,
    write_policy: WritePolicy::WriteThrough,
    read_policy: ReadPolicy::Adaptive,
    io_policy: IoPolicy::Direct,
    flush_start_pct: 50,
    flush_stop_pct: 25,
    flush_after: NanoSpan::from_millis(1_000),
    flush_iodepth: 64,
    flush_partial_bytes: None,
    flush_order: FlushOrder::Address,
    coalesce_writes: true,
    parity_after_data: false,
    stream_lead: 0,
    read_ahead: ByteCount::from_mib(1),
    read_ahead_on_miss: false,
    read_ahead_with_queue: true,
    mirror: false,
    rules: ArrayRules::OWN,
};

/// Working memory for parity and recovery of an array, software or simulated.
pub const STAGING_SIZE: ByteCount = ByteCount::from_mib(32);

/// Settings of a cache, each of which may be left to the default of the array's kind: [`SOFTWARE_CACHE`], or what
/// the catalogue says about the simulated controller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct CacheSettings {
    /// Memory for cached blocks.
    pub size: Option<ByteCount>,
    /// Unit of allocation.
    pub block_size: Option<ByteCount>,
    /// What power loss does to it.
    pub memory: Option<CacheMemory>,
    /// Whether it reads ahead.
    pub read_policy: Option<ReadPolicy>,
    /// Whether reads are cached.
    pub io_policy: Option<IoPolicy>,
    /// Destaging starts when this share of the cache is dirty, in percent.
    pub flush_start_pct: Option<u8>,
    /// Destaging stops when no more than this share is dirty, in percent.
    pub flush_stop_pct: Option<u8>,
    /// Dirty blocks are destaged after this time even below the start mark.
    pub flush_after: Option<NanoSpan>,
    /// Stripes destaged at once.
    pub flush_iodepth: Option<u32>,
    /// Bytes that these write at once, if that is to limit them, too.
    pub flush_partial_bytes: Option<ByteCount>,
    /// Which of them first.
    pub flush_order: Option<FlushOrder>,
    /// Whether writes through that wait for the same stripe become one change of its parity.
    #[serde(alias = "gather_through")]
    pub coalesce_writes: Option<bool>,
    /// Whether parity is written after the data that it is for.
    pub parity_after_data: Option<bool>,
    /// How many more I/Os in flight a copy may have and still be read from where a stream goes on.
    pub stream_lead: Option<u32>,
    /// How far to read ahead of a sequential host.
    pub read_ahead: Option<ByteCount>,
    /// Whether it does so only when the host comes to what was not read ahead.
    pub read_ahead_on_miss: Option<bool>,
}

impl CacheSettings {
    /// The cache with these settings, those of `base` where none is given, and `write_policy`.
    pub fn over(&self, base: CacheConfig, write_policy: WritePolicy) -> CacheConfig {
        CacheConfig {
            size: self.size.unwrap_or(base.size),
            block_size: self.block_size.unwrap_or(base.block_size),
            memory: self.memory.unwrap_or(base.memory),
            write_policy,
            read_policy: self.read_policy.unwrap_or(base.read_policy),
            io_policy: self.io_policy.unwrap_or(base.io_policy),
            flush_start_pct: self.flush_start_pct.unwrap_or(base.flush_start_pct),
            flush_stop_pct: self.flush_stop_pct.unwrap_or(base.flush_stop_pct),
            flush_after: self.flush_after.unwrap_or(base.flush_after),
            flush_iodepth: self.flush_iodepth.unwrap_or(base.flush_iodepth),
            flush_partial_bytes: self.flush_partial_bytes.or(base.flush_partial_bytes),
            flush_order: self.flush_order.unwrap_or(base.flush_order),
            coalesce_writes: self.coalesce_writes.unwrap_or(base.coalesce_writes),
            parity_after_data: self.parity_after_data.unwrap_or(base.parity_after_data),
            stream_lead: self.stream_lead.unwrap_or(base.stream_lead),
            read_ahead: self.read_ahead.unwrap_or(base.read_ahead),
            read_ahead_on_miss: self.read_ahead_on_miss.unwrap_or(base.read_ahead_on_miss),
            read_ahead_with_queue: base.read_ahead_with_queue,
            mirror: base.mirror,
            rules: base.rules,
        }
    }
}
