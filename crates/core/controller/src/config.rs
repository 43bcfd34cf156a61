//! What an array is configured as. TOML files, superblocks and studies all end in an [`ArrayConfig`].

use raidlab_units::{BlockSize, ByteCount, NanoSpan};
use serde::{Deserialize, Serialize};

/// When a host write is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WritePolicy {
    /// When the members have it.
    WriteThrough,
    /// When the cache has it, while the cache memory is [`CacheMemory::Volatile`] by choice or its battery is good;
    /// else as write-through.
    WriteBack,
    /// When the cache has it, whatever the battery's state ("force write-back").
    WriteBackBadBattery,
}

/// Whether the controller reads ahead of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReadPolicy {
    /// Reads what the host asks for.
    NoReadAhead,
    /// Always reads on after a host read.
    ReadAhead,
    /// Reads on after the two latest accesses were sequential.
    Adaptive,
}

/// Whether host reads leave their data in the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum IoPolicy {
    /// Reads go straight to the host; only written and read-ahead blocks are cached.
    Direct,
    /// Reads pass through the cache and stay there.
    Cached,
}

/// What becomes of the cache when power fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CacheMemory {
    /// Lost. A host flush writes all dirty blocks to the members first.
    Volatile,
    /// Kept. A host flush need not wait for the members.
    BatteryBacked,
}

/// The controller's cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct CacheConfig {
    /// Memory for cached blocks.
    pub size: ByteCount,
    /// Unit of allocation: a power of two, at least one array block, at most 64 array blocks.
    pub block_size: ByteCount,
    /// What power loss does to it.
    pub memory: CacheMemory,
    /// When writes are acknowledged.
    pub write_policy: WritePolicy,
    /// Whether it reads ahead.
    pub read_policy: ReadPolicy,
    /// Whether reads are cached.
    pub io_policy: IoPolicy,
    /// Destaging starts when this share of the cache is dirty, in percent.
    pub flush_start_pct: u8,
    /// Destaging stops when no more than this share is dirty, in percent.
    pub flush_stop_pct: u8,
    /// Dirty blocks are destaged after this time even below the start mark.
    pub flush_after: NanoSpan,
    /// Stripes destaged at once.
    pub flush_iodepth: u32,
    /// How far to read ahead of a sequential host.
    pub read_ahead: ByteCount,
}

/// An array: level, members and cache.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct ArrayConfig {
    /// The RAID level, `"5"` or `"10"`, with its variant where it has one.
    pub level: String,
    /// Number of members.
    pub members: u16,
    /// Length of a strip.
    pub strip_size: ByteCount,
    /// Size of a block.
    pub block_size: BlockSize,
    /// Data area of each member; rounded down to whole strips.
    pub member_size: ByteCount,
    /// The cache.
    pub cache: CacheConfig,
    /// Working memory for parity and recovery.
    pub staging_size: ByteCount,
}

/// The memory that a world must provide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryNeeds {
    /// Length of the cache memory.
    pub cache_bytes: ByteCount,
    /// Length of the staging memory.
    pub staging_bytes: ByteCount,
}
