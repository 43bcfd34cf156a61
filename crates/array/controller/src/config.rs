//! What an array is configured as. TOML files, superblocks and studies all end in an [`ArrayConfig`].

use crate::rules::{ArrayRules, WriteLogPlace};
use raidlab_format::{
    AreaLayout, ArrayState, ArrayUuid, DEVICES_MAX, DeviceRecord, DeviceUuid, Geometry, LogPlace,
    MetadataPolicy, StartNonce, header_len, tag_blocks, untagged_blocks,
};
use raidlab_raid::{
    Layout, LayoutError, LayoutSpec, LevelVariant, StripeShape, build_layout, narrow_stripes,
};
use raidlab_units::{BlockCount, BlockSize, ByteCount, MemberIndex, MemberLba, NanoSpan};
use serde::{Deserialize, Serialize};

/// Blocks of a cache at most: the places of its dirty ones are told apart by 32 bits, of which a ring takes four times as many.
const CACHE_SLOTS_MAX: u32 = 1 << 28;

raidlab_units::named! {
    /// When a host write is acknowledged.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
    #[serde(rename_all = "kebab-case")]
    pub enum WritePolicy {
        /// When the members have it.
        WriteThrough = "write-through",
        /// When the cache has it, while the cache memory is [`CacheMemory::Volatile`] by choice or its battery is good, and
        /// the second controller has it, too, where the cache is mirrored; else as write-through.
        WriteBack = "write-back",
        /// When the cache has it, whatever the state of the battery and of the second controller ("force write-back",
        /// "write cache without mirroring").
        WriteBackBadBattery = "write-back-bad-battery",
    }
}

raidlab_units::named! {
    /// Whether the controller reads ahead of the host.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
    #[serde(rename_all = "kebab-case")]
    pub enum ReadPolicy {
        /// Reads what the host asks for.
        NoReadAhead = "no-read-ahead",
        /// Always reads on after a host read.
        ReadAhead = "read-ahead",
        /// Reads on after the two latest accesses were sequential.
        Adaptive = "adaptive",
    }
}

raidlab_units::named! {
    /// Whether host reads leave their data in the cache.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
    #[serde(rename_all = "kebab-case")]
    pub enum IoPolicy {
        /// Reads go straight to the host; only written and read-ahead blocks are cached.
        Direct = "direct",
        /// Reads pass through the cache and stay there.
        Cached = "cached",
    }
}

/// What becomes of the cache when power fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CacheMemory {
    /// Lost. A host flush writes all dirty blocks to the members first.
    Volatile,
    /// Kept. A host flush need not wait for the members.
    BatteryBacked,
}

/// Whether the members' own volatile write caches are in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum MemberCache {
    /// Off: a completed member write survives power loss.
    Off,
    /// On: it survives only after a member flush, or when it was sent with forced unit access.
    On,
}

/// The order in which dirty stripes are destaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FlushOrder {
    /// In scans by address, so that members see ascending writes.
    Address,
    /// In the order in which they became dirty.
    Age,
}

/// The controller's cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "settings are independent of each other")]
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
    /// Member writes of destages at once; a stripe is begun while fewer are under way.
    pub flush_iodepth: u32,
    /// Bytes that destages of parts of parity stripes write at once, parity included, if that limits them, too; another one
    /// is begun while there are fewer. Whole stripes need no buffers for what is read before, and are not counted.
    #[serde(default)]
    pub flush_partial_bytes: Option<ByteCount>,
    /// Which of them first.
    pub flush_order: FlushOrder,
    /// Whether writes through that wait for the same stripe are coalesced into one change of its parity.
    #[serde(alias = "gather-through")]
    pub coalesce_writes: bool,
    /// Whether parity is written when the data that it is for has been, and not at the same time.
    #[serde(default)]
    pub parity_after_data: bool,
    /// How many more I/Os in flight a copy may have and still be the one to read from, where the read goes on behind its latest
    /// one, no more than two strips away. 0 spreads a deep stream over all copies, as Linux md does; more keeps it on one, whose drive
    /// then has nothing to pass over.
    #[serde(default)]
    pub stream_lead: u32,
    /// How far to read ahead of a sequential host at most; it begins with the length of a request and doubles.
    pub read_ahead: ByteCount,
    /// Whether it reads ahead only when the host comes to what was not read ahead, as simple firmware does, and not before.
    #[serde(default)]
    pub read_ahead_on_miss: bool,
    /// Whether it reads ahead only where that is worth a copy through the cache: reads that the host has under way count as read ahead,
    /// and nothing is while the devices answer sooner than such a copy takes.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub read_ahead_with_queue: bool,
    /// Whether a second controller holds a copy of what is dirty, so that it can take over. While that one is away,
    /// [`WritePolicy::WriteBack`] writes through.
    #[serde(default)]
    pub mirror: bool,
    /// What a software array does in another way than a controller.
    #[serde(default, skip_serializing_if = "ArrayRules::are_own")]
    pub rules: ArrayRules,
}

impl CacheConfig {
    /// Whether data passes this cache by: neither caching nor reading ahead is at work.
    pub fn is_passed_by(&self) -> bool {
        self.write_policy == WritePolicy::WriteThrough
            && self.read_policy == ReadPolicy::NoReadAhead
            && self.io_policy == IoPolicy::Direct
    }
}

/// A write-through cache of 1 MiB in volatile memory that does not read ahead. It promises nothing that depends on more
/// than the members, so whoever wants more says so; the marks, depth and times are what a cache that is told to write
/// back does well with on a few spindles.
impl Default for CacheConfig {
    fn default() -> Self {
        Self {
            size: ByteCount::from_mib(1),
            block_size: ByteCount::from_kib(4),
            memory: CacheMemory::Volatile,
            write_policy: WritePolicy::WriteThrough,
            read_policy: ReadPolicy::NoReadAhead,
            io_policy: IoPolicy::Direct,
            flush_start_pct: 80,
            flush_stop_pct: 80,
            flush_after: NanoSpan::from_secs(1),
            flush_iodepth: 4,
            flush_partial_bytes: None,
            flush_order: FlushOrder::Address,
            coalesce_writes: true,
            parity_after_data: false,
            stream_lead: 0,
            read_ahead: ByteCount::from_kib(256),
            read_ahead_on_miss: false,
            read_ahead_with_queue: false,
            mirror: false,
            rules: ArrayRules::OWN,
        }
    }
}

/// What the array does about faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Resilience {
    /// Hot spares: devices behind the members that take the place of failed ones.
    pub spares: u16,
    /// What is kept on the devices.
    pub metadata: MetadataPolicy,
    /// Length of the intent log on each device, and in NVRAM.
    pub log_size: ByteCount,
    /// Whether each block has a tag that is compared when it is read.
    pub integrity: bool,
    /// Stripes that a rebuild, resync, check or repair has under way at once.
    pub scan_iodepth: u32,
    /// Most bytes that a scan walks over on each member in a second; no bound if none. At 0 scans rest.
    pub scan_bytes_per_sec: Option<ByteCount>,
}

impl Default for Resilience {
    fn default() -> Self {
        Self {
            spares: 0,
            metadata: MetadataPolicy::None,
            log_size: ByteCount::from_mib(16),
            integrity: false,
            scan_iodepth: 4,
            scan_bytes_per_sec: None,
        }
    }
}

/// An array: level, members and cache.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct ArrayConfig {
    /// The RAID level, with its variant where it has one: `"5"`, `"10:far"`, `"50:2-spans"`.
    pub level: LevelVariant,
    /// Number of members.
    pub members: u16,
    /// Length of a strip.
    pub strip_size: ByteCount,
    /// Size of a block.
    pub block_size: BlockSize,
    /// Data area of each member; rounded down to whole strips.
    pub member_size: ByteCount,
    /// The members' own caches.
    pub member_cache: MemberCache,
    /// The cache.
    pub cache: CacheConfig,
    /// Working memory for parity and recovery.
    pub staging_size: ByteCount,
    /// Faults.
    #[serde(default)]
    pub resilience: Resilience,
}

/// The memory that a world must provide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryNeeds {
    /// Length of the cache memory.
    pub cache_bytes: ByteCount,
    /// Length of the staging memory.
    pub staging_bytes: ByteCount,
    /// Length of the log in NVRAM; 0 if there is none.
    pub nvram_log_bytes: ByteCount,
    /// Entries of the cache's directory in NVRAM; 0 if there is none.
    pub directory_entries: u32,
}

/// Why a configuration is no array.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// The level does not allow it.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// A strip must be whole blocks, and whole cache blocks.
    #[error(
        "a strip of {} is not a multiple of {} ({what}): choose a strip that is",
        strip.beside(unit), unit.beside(strip)
    )]
    Strip {
        /// The strip asked for.
        strip: ByteCount,
        /// What it must be a multiple of.
        unit: ByteCount,
        /// What that is.
        what: &'static str,
    },
    /// A member must be whole blocks.
    #[error("a member size of {} bytes is not a multiple of the block of {block}: {} bytes is", .given.0, .instead.0)]
    MemberSize {
        /// The size asked for.
        given: ByteCount,
        /// The array's block.
        block: ByteCount,
        /// The longest below it that would do, or one block.
        instead: ByteCount,
    },
    /// The cache block size is not allowed.
    #[error(
        "a cache block of {block} is not possible with array blocks of {array_block}: use a power of two from one \
         array block to 64 of them"
    )]
    CacheBlock {
        /// The cache block asked for.
        block: ByteCount,
        /// The array's block.
        array_block: ByteCount,
    },
    /// The flush marks are out of order or above 100%.
    #[error("flush marks start {start_pct}% and stop {stop_pct}% are not possible: stop <= start <= 100")]
    FlushMarks {
        /// Start mark.
        start_pct: u8,
        /// Stop mark.
        stop_pct: u8,
    },
    /// A write log needs parity, and a partial parity log one parity and members that it has bits for.
    #[error("{what}")]
    WriteLog {
        /// What is wrong.
        what: &'static str,
    },
    /// Nothing would ever be destaged.
    #[error("flush-iodepth is 0: at least one member write must be allowed at a time")]
    FlushDepth,
    /// No scan would ever begin.
    #[error("scan-iodepth is 0: at least one stripe must be under way in a rebuild or check")]
    ScanDepth,
    /// More devices than an array has.
    #[error("{spares} spares beside {members} members: an array has {} devices at most", DEVICES_MAX)]
    TooManySpares {
        /// Spares.
        spares: u16,
        /// Members.
        members: u16,
    },
    /// Write-back or a cached read policy without a cache.
    #[error(
        "{what} needs a cache of at least {}, and the cache is {}: {instead}",
        needed.beside(given), given.beside(needed)
    )]
    CacheTooSmall {
        /// What needs it.
        what: &'static str,
        /// The least that would do.
        needed: ByteCount,
        /// The size asked for.
        given: ByteCount,
        /// What needs none.
        instead: &'static str,
    },
    /// The cache has more blocks than are told apart.
    #[error(
        "a cache of {} has too many blocks: make it {} at most, or its blocks longer",
        given.beside(most), most.beside(given)
    )]
    CacheTooLarge {
        /// The largest of such blocks.
        most: ByteCount,
        /// The size asked for.
        given: ByteCount,
    },
    /// The log can't hold three records of a whole stripe.
    #[error(
        "log-size {} is too small: three records of a whole stripe of this array need {}",
        given.beside(needed), needed.beside(given)
    )]
    LogTooSmall {
        /// The least that would do.
        needed: ByteCount,
        /// The size asked for.
        given: ByteCount,
    },
    /// The staging memory can't hold one stripe, with its parity beside it once more for a comparison.
    #[error(
        "staging memory of {} is too small: reading and comparing one stripe of this array needs {}",
        given.beside(needed), needed.beside(given)
    )]
    StagingTooSmall {
        /// The least that would do.
        needed: ByteCount,
        /// The size asked for.
        given: ByteCount,
    },
}

/// Length of the partial parity log on each member, which its units go round: mdadm's `MULTIPLE_PPL_AREA_SIZE_SUPER1`.
pub(crate) const PARTIAL_LOG_BYTES: u64 = 1 << 20;

/// A configuration found possible, with what follows from it.
pub(crate) struct Checked {
    pub(crate) layout: Box<dyn Layout>,
    pub(crate) cache_slots: u32,
    pub(crate) cache_block_rows: u32,
    pub(crate) staging_places: u32,
}

impl ArrayConfig {
    /// The layout of this array.
    ///
    /// # Errors
    /// [`ConfigError`] when the level does not allow the members or sizes.
    pub fn layout(&self) -> Result<Box<dyn Layout>, ConfigError> {
        let block = self.block_size;
        let strip_blocks = block.blocks_in(self.strip_size).ok_or(ConfigError::Strip {
            strip: self.strip_size,
            unit: ByteCount(block.bytes()),
            what: "the block size",
        })?;
        let mut member_blocks = block.blocks_in(self.member_size).ok_or_else(|| ConfigError::MemberSize {
            given: self.member_size,
            block: ByteCount(block.bytes()),
            instead: ByteCount((self.member_size.0 - self.member_size.0 % block.bytes()).max(block.bytes())),
        })?;
        if self.resilience.integrity {
            member_blocks = untagged_blocks(member_blocks, strip_blocks, tag_blocks(strip_blocks, block));
        }
        let spec = LayoutSpec { level: self.level, members: self.members, strip_blocks, member_blocks };
        let layout = build_layout(&spec)?;
        match self.cache.rules.row {
            // Checksums stand behind the strip that they are of.
            Some(row) if layout.shape().parities > 0 && !self.resilience.integrity => {
                Ok(narrow_stripes(layout, BlockCount(row.0 / block.bytes()))?)
            }
            _ => Ok(layout),
        }
    }

    /// Checks that the parts fit each other.
    pub(crate) fn check(&self) -> Result<Checked, ConfigError> {
        let layout = self.layout()?;
        let shape = layout.shape();
        let strip = self.block_size.bytes_of(shape.strip_blocks);
        self.check_cache(strip)?;
        self.check_resilience()?;
        self.check_write_log(shape)?;
        // A check reads all units and computes parity beside what it read; copies are compared where they were read to.
        let compared_units = match shape {
            // What could not be read of a single copy is read once more.
            StripeShape { parities: 0, copies, .. } => u64::from(copies),
            StripeShape { parities, data_strips, .. } => u64::from(data_strips) + 2 * u64::from(parities),
        };
        let staging_places = (self.staging_size.0 / strip.0).min(u64::from(u32::MAX - 1));
        if staging_places < compared_units {
            let needed = ByteCount(compared_units * strip.0);
            return Err(ConfigError::StagingTooSmall { needed, given: self.staging_size });
        }
        self.check_log(&*layout)?;
        Ok(Checked {
            cache_slots: (self.cache.size.0 / self.cache.block_size.0) as u32,
            cache_block_rows: (self.cache.block_size.0 / self.block_size.bytes()) as u32,
            staging_places: staging_places as u32,
            layout,
        })
    }

    /// Length of each device's metadata area; 0 where nothing is kept.
    pub fn metadata_bytes(&self) -> ByteCount {
        let keeps = self.resilience.metadata != MetadataPolicy::None;
        let log = if self.cache.rules.write_log.is_some_and(WriteLogPlace::is_on_members) {
            PARTIAL_LOG_BYTES
        } else {
            0
        };
        ByteCount(log + if keeps { self.metadata_area().total_bytes } else { 0 })
    }

    /// Where things stand in the devices' metadata areas.
    pub(crate) fn metadata_area(&self) -> AreaLayout {
        AreaLayout::of(&self.geometry(ArrayUuid::default()))
    }

    /// What the devices hold about what the array is made of.
    pub fn geometry(&self, array_uuid: ArrayUuid) -> Geometry {
        Geometry {
            array_uuid,
            level: self.level,
            members: self.members,
            spares: self.resilience.spares,
            strip_bytes: self.strip_size,
            block_size: self.block_size,
            member_bytes: self.member_size,
            log_bytes: self.log_bytes(),
            metadata: self.resilience.metadata,
            integrity: self.resilience.integrity,
        }
    }

    /// The state of an array that was never started.
    pub(crate) fn new_state(&self, members: u16, array_uuid: ArrayUuid) -> ArrayState {
        let spares = self.resilience.spares;
        let line = |device: u16| DeviceRecord {
            state: if device < members {
                raidlab_format::DeviceState::InSync
            } else {
                raidlab_format::DeviceState::Spare
            },
            role: (device < members).then_some(device),
            boundary: MemberLba::ZERO,
            device_uuid: DeviceUuid::default(),
        };
        ArrayState {
            generation: 0,
            epoch: 0,
            nvram_epoch: 0,
            nvram_start: StartNonce::NONE,
            start: StartNonce::NONE,
            found_by: Vec::new(),
            log_tail: 0,
            geometry: self.geometry(array_uuid),
            dirty: false,
            needs_resync: false,
            log_place: LogPlace::Members,
            devices: (0..members + spares).map(line).collect(),
            bad_ranges: Vec::new(),
        }
    }

    fn check_resilience(&self) -> Result<(), ConfigError> {
        let (members, Resilience { spares, scan_iodepth, .. }) = (self.members, self.resilience);
        if spares > 0 && usize::from(members) + usize::from(spares) > DEVICES_MAX {
            return Err(ConfigError::TooManySpares { spares, members });
        }
        if scan_iodepth == 0 { Err(ConfigError::ScanDepth) } else { Ok(()) }
    }

    /// Source: Linux `drivers/md/raid5-ppl.c`, `ppl_init_log`, and `raid5-log.h`.
    fn check_write_log(&self, shape: StripeShape) -> Result<(), ConfigError> {
        let Some(place) = self.cache.rules.write_log else { return Ok(()) };
        let what = match place {
            _ if shape.parities == 0 => {
                "a journal or partial parity log is for levels with parity: 4, 5 and 6"
            }
            WriteLogPlace::PartialParity if shape.parities > 1 => {
                "md's partial parity log is for RAID 5 only"
            }
            WriteLogPlace::PartialParity if self.members > 64 => {
                "md's partial parity log is for 64 members at most"
            }
            WriteLogPlace::PartialParity | WriteLogPlace::Journal => return Ok(()),
        };
        Err(ConfigError::WriteLog { what })
    }

    /// Length of the log on each device; only parity needs one.
    fn log_bytes(&self) -> ByteCount {
        let has_parity = self.layout().is_ok_and(|layout| layout.shape().parities > 0);
        let has_log = has_parity && self.resilience.metadata == MetadataPolicy::Log;
        if has_log { self.resilience.log_size } else { ByteCount(0) }
    }

    /// Checks that the log has room for three of the longest records.
    fn check_log(&self, layout: &dyn Layout) -> Result<(), ConfigError> {
        if self.resilience.metadata != MetadataPolicy::Log || layout.shape().parities == 0 {
            return Ok(());
        }
        let rows = rows_of(layout);
        let most = ByteCount(self.header_bytes_max(layout) as u64 + rows * self.block_size.bytes());
        let needed = ByteCount(3 * most.0);
        if rows / 2 > u64::from(u16::MAX) || self.metadata_area().log.length_bytes < needed.0 {
            return Err(ConfigError::LogTooSmall { needed, given: self.resilience.log_size });
        }
        Ok(())
    }

    /// The device beside the members and spares, for what is not to stand on them.
    pub(crate) const fn device_beside(&self) -> MemberIndex {
        MemberIndex(self.members + self.resilience.spares)
    }

    /// Length of the longest header of a record; 0 where there is no log.
    pub(crate) fn header_bytes_max(&self, layout: &dyn Layout) -> usize {
        if self.log_bytes() == ByteCount(0) {
            return 0;
        }
        let rows = rows_of(layout);
        let runs = (rows / 2 + u64::from(layout.shape().data_strips) + 2).min(u64::from(u16::MAX));
        header_len(runs as u16, rows as u32, self.block_size) as usize
    }

    /// Checks the cache; `strip` is the length of the layout's strips.
    fn check_cache(&self, strip: ByteCount) -> Result<(), ConfigError> {
        let CacheConfig { size, block_size, flush_start_pct, flush_stop_pct, .. } = self.cache;
        let array_block = self.block_size.bytes();
        let rows = block_size.0 / array_block;
        if !block_size.0.is_power_of_two() || rows == 0 || rows > 64 {
            return Err(ConfigError::CacheBlock { block: block_size, array_block: ByteCount(array_block) });
        }
        if !strip.0.is_multiple_of(block_size.0) {
            let what = "the cache block size";
            return Err(ConfigError::Strip { strip, unit: block_size, what });
        }
        let most = ByteCount(u64::from(CACHE_SLOTS_MAX) * block_size.0);
        if size > most {
            return Err(ConfigError::CacheTooLarge { most, given: size });
        }
        if flush_stop_pct > flush_start_pct || flush_start_pct > 100 {
            return Err(ConfigError::FlushMarks { start_pct: flush_start_pct, stop_pct: flush_stop_pct });
        }
        if self.cache.flush_iodepth == 0 {
            return Err(ConfigError::FlushDepth);
        }
        let (what, instead) = if self.cache.write_policy != WritePolicy::WriteThrough {
            ("write-back", "write through, or give it a cache-size")
        } else if self.cache.read_policy != ReadPolicy::NoReadAhead {
            ("read-ahead", "take no-read-ahead, or give it a cache-size")
        } else if self.cache.io_policy == IoPolicy::Cached {
            ("cached I/O", "take direct I/O, or give it a cache-size")
        } else {
            return Ok(());
        };
        if size < block_size {
            return Err(ConfigError::CacheTooSmall { what, needed: block_size, given: size, instead });
        }
        Ok(())
    }
}

/// Rows of a stripe, parity among them.
fn rows_of(layout: &dyn Layout) -> u64 {
    let shape = layout.shape();
    (u64::from(shape.data_strips) + u64::from(shape.parities)) * shape.strip_blocks.0
}
