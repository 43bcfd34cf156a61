//! The array's state: its configuration, the device table, and progress. The same bytes go to every device.
//!
//! Generation `g` goes to slot `g mod 2`, so that a torn write leaves generation `g - 1`. A generation in the wrong
//! slot is ignored.
//! ```text
//!     0 seal, 16 bytes: magic "RAIDSTA\n", version, 0, CRC32C of all 16384 bytes
//!    16 generation      u64            88 block_bytes    u32
//!    24 epoch           u64            92 members        u16
//!    32 nvram_epoch      u64            94 spares         u16
//!    40 log_tail        u64            96 metadata       u8   0 none, 1 resync, 2 bitmap, 3 log
//!    48 array_uuid      16 bytes       97 integrity      u8   0, 1
//!    64 member_bytes    u64            98 dirty          u8   0, 1
//!    72 strip_bytes     u64            99 needs_resync   u8   0, 1
//!    80 log_bytes       u64           100 log_place      u8   0 members, 1 NVRAM
//!                                     101 level length   u8
//!                                     102 bad ranges     u16  how many
//!   104 level           UTF-8, 128 bytes with zeros behind
//!   232 start           u64   the nonce of the start that wrote this generation
//!   240 nvram_start     u64   that of the start that labelled NVRAM
//!   248 found_by        16 times u64: starts that found this generation, zeros behind
//!   376 zeros
//!   512 devices: 256 times 28 bytes, as many as members and spares together, then zeros
//!        0 device_uuid  16 bytes
//!       16 boundary     u64
//!       24 role         u16  0xffff none
//!       26 state        u8   0 in sync, 1 rebuilding, 2 spare, 3 missing
//!       27 zero         u8
//!  7680 bad ranges: 512 times 14 bytes, then zeros
//!        0 first        u64
//!        8 count        u32
//!       12 device       u8
//!       13 reason       u8   0 lost, 1 unreadable (from version 4 on; before, all are 0)
//! 14848 zeros to 16384
//! ```
//! The level is stored as text, so that a new variant needs no new code here.
//!
//! `found_by` is the only field that changes within a generation: a start adds its nonce to the state that it finds. It stands in the
//! first 512 bytes with the seal, and all else keeps its bytes, so that a torn write leaves the state with or without the nonce.
//!
//! Invariant: what decodes is an array that can be built: the layout exists, each role has at most one device that is
//! in sync or rebuilding, and all numbers are within the array.

use crate::area::STATE_BYTES;
use crate::error::{DecodeError, Part, Problem};
use crate::geometry::{Geometry, MetadataPolicy, require};
use crate::identity::{ArrayUuid, DeviceUuid, StartNonce};
use crate::seal::{
    COUNTERS_END, SEAL_BYTES, check_length, check_zeros, open_plain, put, seal, take, u16_at, u32_at, u64_at,
};
use raidlab_raid::{Layout, LevelVariant};
use raidlab_units::{BlockCount, BlockSize, ByteCount, MemberIndex, MemberLba};

/// The most devices of an array: members and spares.
pub const DEVICES_MAX: usize = 256;
/// The most bad ranges of an array, all devices together.
pub const BAD_RANGES_MAX: usize = 512;
/// The most starts that a state names as having found it.
pub const FOUND_BY_MAX: usize = 16;
/// The longest text of a level.
const LEVEL_BYTES_MAX: usize = 128;

const GENERATION_AT: usize = SEAL_BYTES;
const EPOCH_AT: usize = 24;
const NVRAM_EPOCH_AT: usize = 32;
const LOG_TAIL_AT: usize = 40;
const UUID_AT: usize = 48;
const MEMBER_BYTES_AT: usize = 64;
const STRIP_BYTES_AT: usize = 72;
const LOG_BYTES_AT: usize = 80;
const BLOCK_BYTES_AT: usize = 88;
const MEMBERS_AT: usize = 92;
const SPARES_AT: usize = 94;
const METADATA_AT: usize = 96;
const INTEGRITY_AT: usize = 97;
const DIRTY_AT: usize = 98;
const NEEDS_RESYNC_AT: usize = 99;
const LOG_PLACE_AT: usize = 100;
const LEVEL_LENGTH_AT: usize = 101;
const BAD_COUNT_AT: usize = 102;
const LEVEL_AT: usize = 104;
const LEVEL_END: usize = LEVEL_AT + LEVEL_BYTES_MAX;
const START_AT: usize = LEVEL_END;
const NVRAM_START_AT: usize = START_AT + NONCE_BYTES;
const FOUND_BY_AT: usize = NVRAM_START_AT + NONCE_BYTES;
const NONCE_BYTES: usize = 8;
const HEAD_END: usize = FOUND_BY_AT + FOUND_BY_MAX * NONCE_BYTES;
const DEVICES_AT: usize = 512;
const DEVICE_BYTES: usize = 28;
const BAD_AT: usize = DEVICES_AT + DEVICES_MAX * DEVICE_BYTES;
const BAD_BYTES: usize = 14;
const ROLE_NONE: u16 = u16::MAX;
/// What a device writes whole or not at all.
const SECTOR_BYTES: usize = 512;
const _: () = assert!(HEAD_END <= SECTOR_BYTES && SECTOR_BYTES <= DEVICES_AT);
const _: () = assert!(BAD_AT == 7680);
const _: () = assert!(BAD_AT + BAD_RANGES_MAX * BAD_BYTES <= STATE_BYTES);

raidlab_units::named! {
    /// What a device is to the array.
    ///
    /// The superblock has them by their numbers in this order.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum DeviceState {
        /// Holds what its role should hold.
        InSync = "in sync",
        /// Holds it below its boundary.
        Rebuilding = "rebuilding",
        /// Holds nothing of use, waits.
        Spare = "spare",
        /// Gone or failed; what comes back is stale.
        Missing = "missing",
    }
}

/// A line of the device table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceRecord {
    /// What it is to the array.
    pub state: DeviceState,
    /// The role that it plays, below the number of members: always when in sync or rebuilding, never as a
    /// spare. A missing device keeps its role until another takes it.
    pub role: Option<u16>,
    /// Below this, a rebuilding device holds what it should; without meaning in other states.
    pub boundary: MemberLba,
    /// The physical device that this line is about.
    pub device_uuid: DeviceUuid,
}

raidlab_units::named! {
    /// Why blocks are bad. The superblock has it by its number in this order.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum BadReason {
        /// What stands there, if anything, is not what should: a write failed, or the content was given up.
        #[default]
        Lost = "lost",
        /// It could not be read. What stands there is the newest: nothing has been written there, or left out, since.
        Unreadable = "unreadable",
    }
}

/// Blocks of a device that can't be read and could not be rewritten, or whose content is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BadRange {
    /// Which device.
    pub device: MemberIndex,
    /// The first of the blocks.
    pub first: MemberLba,
    /// How many, 1 or more.
    pub count: u32,
    /// Why.
    pub reason: BadReason,
}

/// Where the intent records go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogPlace {
    /// The rings on the devices.
    Members,
    /// The ring in NVRAM.
    Nvram,
}

/// The array's state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArrayState {
    /// Counts every state written.
    pub generation: u64,
    /// Counts changes of membership.
    pub epoch: u64,
    /// The epoch of the array's NVRAM, an odd number, as in [`crate::NvramLabel::nvram_epoch`]; even, one below, between the
    /// end of the previous epoch and the label of the next, or if the array goes on without NVRAM.
    pub nvram_epoch: u64,
    /// The start that labelled NVRAM, or is about to, as in [`crate::NvramLabel::start`].
    pub nvram_start: StartNonce,
    /// The start that wrote this generation.
    pub start: StartNonce,
    /// Starts that found this generation and were to go on from it, the latest last; [`FOUND_BY_MAX`] at most.
    pub found_by: Vec<StartNonce>,
    /// Every log record with a lower sequence is retired.
    pub log_tail: u64,
    /// What the array is made of.
    pub geometry: Geometry,
    /// Whether it was not stopped cleanly.
    pub dirty: bool,
    /// Whether all redundancy may disagree.
    pub needs_resync: bool,
    /// Where the intent records go.
    pub log_place: LogPlace,
    /// One line for each device: members first, then spares.
    pub devices: Vec<DeviceRecord>,
    /// At most [`BAD_RANGES_MAX`].
    pub bad_ranges: Vec<BadRange>,
}

impl ArrayState {
    /// Whether acknowledged data may be in NVRAM alone, which a clean stop and a start without NVRAM end.
    pub const fn relies_on_nvram(&self) -> bool {
        self.dirty && self.nvram_epoch % 2 == 1
    }

    /// Whether a start wrote this generation, or found it and put its nonce there before it wrote the next.
    pub fn knows(&self, start: StartNonce) -> bool {
        self.start == start || self.found_by.contains(&start)
    }

    /// Adds a start to those that have found this generation. Of too many, the first is forgotten.
    pub fn note_found_by(&mut self, start: StartNonce) {
        if !self.found_by.contains(&start) {
            self.found_by.push(start);
        }
        let surplus = self.found_by.len().saturating_sub(FOUND_BY_MAX);
        self.found_by.drain(..surplus);
    }

    /// Whether it is the same state as `other`, whoever has found either since it was written.
    pub fn is_same(&self, other: &Self) -> bool {
        let Self {
            generation,
            epoch,
            nvram_epoch,
            nvram_start,
            start,
            found_by: _,
            log_tail,
            geometry,
            dirty,
            needs_resync,
            log_place,
            devices,
            bad_ranges,
        } = self;
        let counters = |it: &Self| (it.generation, it.epoch, it.nvram_epoch, it.log_tail);
        (*generation, *epoch, *nvram_epoch, *log_tail) == counters(other)
            && (*nvram_start, *start) == (other.nvram_start, other.start)
            && (*dirty, *needs_resync, *log_place) == (other.dirty, other.needs_resync, other.log_place)
            && *geometry == other.geometry
            && *devices == other.devices
            && *bad_ranges == other.bad_ranges
    }

    /// Returns the layout and checks every field, as [`Self::decode`] does.
    ///
    /// # Errors
    /// [`Problem`] for a value that no array has.
    pub fn check(&self) -> Result<Box<dyn Layout>, Problem> {
        let layout = self.geometry.check()?;
        let (generation, epoch) = (("generation", self.generation), ("epoch", self.epoch));
        let (nvram_epoch, log_tail) = (("nvram_epoch", self.nvram_epoch), ("log_tail", self.log_tail));
        for (counter, value) in [generation, epoch, nvram_epoch, log_tail] {
            require(value < COUNTERS_END, counter, value, "below 2^63")?;
        }
        let found_by = self.found_by.len();
        require(found_by <= FOUND_BY_MAX, "found_by", found_by as u64, "16 or fewer")?;
        require(!self.found_by.contains(&StartNonce::NONE), "found_by", 0, "no zero before the last nonce")?;
        let lines = self.devices.len();
        require(lines == self.geometry.devices(), "devices", lines as u64, "members and spares together")?;
        let bad_count = self.bad_ranges.len();
        require(bad_count <= BAD_RANGES_MAX, "bad ranges", bad_count as u64, "512 or fewer")?;
        let member_blocks = self.geometry.member_blocks();
        let mut played = [false; DEVICES_MAX];
        for (device, record) in (0_u16..).zip(&self.devices) {
            record.check(device, self.geometry.members, &mut played)?;
            let boundary = record.boundary.0;
            require(boundary <= member_blocks.0, "boundary", boundary, "within the device's data area")?;
        }
        for bad in &self.bad_ranges {
            bad.check(lines, member_blocks)?;
        }
        Ok(layout)
    }

    /// Writes the state over `out`, which must be [`STATE_BYTES`] long. The state must pass [`Self::check`].
    /// (Both are asserted.)
    ///
    /// # Panics
    /// If `out` is not `STATE_BYTES` long.
    pub fn encode(&self, out: &mut [u8]) {
        assert_eq!(out.len(), STATE_BYTES, "a state has its own length");
        if let Err(problem) = self.check() {
            panic!("this is no state of an array: {problem}");
        }
        out.fill(0);
        put(out, GENERATION_AT, self.generation.to_le_bytes());
        put(out, EPOCH_AT, self.epoch.to_le_bytes());
        put(out, NVRAM_EPOCH_AT, self.nvram_epoch.to_le_bytes());
        put(out, LOG_TAIL_AT, self.log_tail.to_le_bytes());
        put(out, START_AT, self.start.to_le_bytes());
        put(out, NVRAM_START_AT, self.nvram_start.to_le_bytes());
        for (nonce, at) in self.found_by.iter().zip((FOUND_BY_AT..).step_by(NONCE_BYTES)) {
            put(out, at, nonce.to_le_bytes());
        }
        out[DIRTY_AT] = self.dirty.into();
        out[NEEDS_RESYNC_AT] = self.needs_resync.into();
        out[LOG_PLACE_AT] = self.log_place as u8;
        put(out, BAD_COUNT_AT, (self.bad_ranges.len() as u16).to_le_bytes());
        self.geometry.encode(out);
        for (record, line) in self.devices.iter().zip(out[DEVICES_AT..BAD_AT].chunks_exact_mut(DEVICE_BYTES))
        {
            record.encode(line);
        }
        for (bad, line) in self.bad_ranges.iter().zip(out[BAD_AT..].chunks_exact_mut(BAD_BYTES)) {
            bad.encode(line);
        }
        seal(out, Part::State, 0);
    }

    /// Reads the state that `bytes` begins with.
    ///
    /// # Errors
    /// [`DecodeError`] when there is none, or it is damaged, of an unknown version or impossible.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        check_length(bytes, Part::State, STATE_BYTES as u64)?;
        let bytes = &bytes[..STATE_BYTES];
        open_plain(bytes, Part::State)?;
        let impossible = |problem| DecodeError::Impossible { part: Part::State, problem };
        let geometry = Geometry::decode(bytes).map_err(impossible)?;
        let state = Self::decode_rest(bytes, geometry).map_err(impossible)?;
        state.check().map_err(impossible)?;
        let devices_end = DEVICES_AT + state.devices.len() * DEVICE_BYTES;
        check_zeros(&bytes[..DEVICES_AT], Part::State, HEAD_END)?;
        check_zeros(&bytes[..BAD_AT], Part::State, devices_end)?;
        check_zeros(bytes, Part::State, BAD_AT + state.bad_ranges.len() * BAD_BYTES)?;
        Ok(state)
    }

    fn decode_rest(bytes: &[u8], geometry: Geometry) -> Result<Self, Problem> {
        let devices = geometry.devices();
        require(devices <= DEVICES_MAX, "members and spares", devices as u64, "256 or fewer")?;
        let bad_count = usize::from(u16_at(bytes, BAD_COUNT_AT));
        require(bad_count <= BAD_RANGES_MAX, "bad ranges", bad_count as u64, "512 or fewer")?;
        let lines = bytes[DEVICES_AT..BAD_AT].chunks_exact(DEVICE_BYTES).take(devices);
        let bad_lines = bytes[BAD_AT..].chunks_exact(BAD_BYTES).take(bad_count);
        let nonce_at = |at| StartNonce::from_stored(u64_at(bytes, at));
        let mut found_by: Vec<_> = (FOUND_BY_AT..HEAD_END).step_by(NONCE_BYTES).map(nonce_at).collect();
        let behind = found_by.iter().rev().take_while(|nonce| nonce.is_none()).count();
        found_by.truncate(FOUND_BY_MAX - behind);
        Ok(Self {
            generation: u64_at(bytes, GENERATION_AT),
            epoch: u64_at(bytes, EPOCH_AT),
            nvram_epoch: u64_at(bytes, NVRAM_EPOCH_AT),
            nvram_start: nonce_at(NVRAM_START_AT),
            start: nonce_at(START_AT),
            found_by,
            log_tail: u64_at(bytes, LOG_TAIL_AT),
            geometry,
            dirty: flag_at(bytes, DIRTY_AT, "dirty")?,
            needs_resync: flag_at(bytes, NEEDS_RESYNC_AT, "needs_resync")?,
            log_place: match bytes[LOG_PLACE_AT] {
                0 => LogPlace::Members,
                1 => LogPlace::Nvram,
                value => {
                    return Err(Problem::Field {
                        field: "log_place",
                        value: value.into(),
                        allowed: "0 or 1",
                    });
                }
            },
            devices: lines.map(DeviceRecord::decode).collect::<Result<_, _>>()?,
            bad_ranges: bad_lines.map(BadRange::decode).collect::<Result<_, _>>()?,
        })
    }
}

impl Geometry {
    fn encode(&self, out: &mut [u8]) {
        put(out, UUID_AT, self.array_uuid.0);
        put(out, MEMBER_BYTES_AT, self.member_bytes.0.to_le_bytes());
        put(out, STRIP_BYTES_AT, self.strip_bytes.0.to_le_bytes());
        put(out, LOG_BYTES_AT, self.log_bytes.0.to_le_bytes());
        put(out, BLOCK_BYTES_AT, (self.block_size.bytes() as u32).to_le_bytes());
        put(out, MEMBERS_AT, self.members.to_le_bytes());
        put(out, SPARES_AT, self.spares.to_le_bytes());
        out[METADATA_AT] = self.metadata as u8;
        out[INTEGRITY_AT] = self.integrity.into();
        let level = self.level.to_string();
        assert!(level.len() <= LEVEL_BYTES_MAX, "the text of level {level} is too long");
        out[LEVEL_LENGTH_AT] = level.len() as u8;
        out[LEVEL_AT..LEVEL_AT + level.len()].copy_from_slice(level.as_bytes());
    }

    fn decode(bytes: &[u8]) -> Result<Self, Problem> {
        let block_bytes = u32_at(bytes, BLOCK_BYTES_AT).into();
        let block_size = BlockSize::new(block_bytes).ok();
        let metadata = MetadataPolicy::ALL.get(usize::from(bytes[METADATA_AT])).copied();
        let problem = |field, value, allowed| Problem::Field { field, value, allowed };
        Ok(Self {
            array_uuid: ArrayUuid(take(bytes, UUID_AT)),
            level: decode_level(bytes)?,
            members: u16_at(bytes, MEMBERS_AT),
            spares: u16_at(bytes, SPARES_AT),
            strip_bytes: ByteCount(u64_at(bytes, STRIP_BYTES_AT)),
            block_size: block_size.ok_or(problem("block_bytes", block_bytes, "512 or 4096"))?,
            member_bytes: ByteCount(u64_at(bytes, MEMBER_BYTES_AT)),
            log_bytes: ByteCount(u64_at(bytes, LOG_BYTES_AT)),
            metadata: metadata.ok_or(problem("metadata", bytes[METADATA_AT].into(), "3 or less"))?,
            integrity: flag_at(bytes, INTEGRITY_AT, "integrity")?,
        })
    }
}

fn decode_level(bytes: &[u8]) -> Result<LevelVariant, Problem> {
    let length = usize::from(bytes[LEVEL_LENGTH_AT]);
    require(length <= LEVEL_BYTES_MAX, "level length", length as u64, "128 or less")?;
    let (text, rest) = bytes[LEVEL_AT..LEVEL_END].split_at(length);
    require(
        rest.iter().all(|byte| *byte == 0),
        "level length",
        length as u64,
        "the length of the level's text",
    )?;
    let text = core::str::from_utf8(text).map_err(|_| Problem::LevelText)?;
    let level: LevelVariant = text.parse()?;
    let written = level.to_string();
    if written == text { Ok(level) } else { Err(Problem::LevelSpelling { found: text.into(), written }) }
}

fn flag_at(bytes: &[u8], at: usize, field: &'static str) -> Result<bool, Problem> {
    match bytes[at] {
        0 => Ok(false),
        1 => Ok(true),
        value => Err(Problem::Field { field, value: value.into(), allowed: "0 or 1" }),
    }
}

impl DeviceRecord {
    fn encode(&self, line: &mut [u8]) {
        put(line, 0, self.device_uuid.0);
        put(line, 16, self.boundary.0.to_le_bytes());
        put(line, 24, self.role.unwrap_or(ROLE_NONE).to_le_bytes());
        line[26] = self.state as u8;
    }

    fn decode(line: &[u8]) -> Result<Self, Problem> {
        let state = DeviceState::ALL.get(usize::from(line[26])).copied();
        let wrong = Problem::Field { field: "device state", value: line[26].into(), allowed: "3 or less" };
        require(line[27] == 0, "the byte behind a device's state", line[27].into(), "0")?;
        let role = u16_at(line, 24);
        Ok(Self {
            state: state.ok_or(wrong)?,
            role: (role != ROLE_NONE).then_some(role),
            boundary: MemberLba(u64_at(line, 16)),
            device_uuid: DeviceUuid(take(line, 0)),
        })
    }

    fn check(&self, device: u16, members: u16, played: &mut [bool; DEVICES_MAX]) -> Result<(), Problem> {
        let &Self { state, role, .. } = self;
        let wrong = |rule| Err(Problem::Role { device, state: state.name(), role, rule });
        match (state, role) {
            (_, Some(role)) if role >= members => wrong("a role must be below the number of members"),
            (DeviceState::InSync | DeviceState::Rebuilding, None) => wrong("such a device must have a role"),
            (DeviceState::Spare, Some(_)) => wrong("a spare must have no role"),
            (DeviceState::InSync | DeviceState::Rebuilding, Some(role)) => {
                let taken = core::mem::replace(&mut played[usize::from(role)], true);
                if taken { wrong("another device plays this role") } else { Ok(()) }
            }
            _ => Ok(()),
        }
    }
}

impl BadRange {
    fn encode(&self, line: &mut [u8]) {
        put(line, 0, self.first.0.to_le_bytes());
        put(line, 8, self.count.to_le_bytes());
        line[12] = self.device.0 as u8;
        line[13] = self.reason as u8;
    }

    fn decode(line: &[u8]) -> Result<Self, Problem> {
        let reason = BadReason::ALL.get(usize::from(line[13])).copied();
        let wrong =
            Problem::Field { field: "reason of a bad range", value: line[13].into(), allowed: "0 or 1" };
        Ok(Self {
            device: MemberIndex(line[12].into()),
            first: MemberLba(u64_at(line, 0)),
            count: u32_at(line, 8),
            reason: reason.ok_or(wrong)?,
        })
    }

    fn check(&self, devices: usize, member_blocks: BlockCount) -> Result<(), Problem> {
        let device = self.device.0.into();
        require(self.device.index() < devices, "device of a bad range", device, "a device of the array")?;
        require(self.count > 0, "length of a bad range", 0, "1 or more")?;
        let end = self.first.checked_add(BlockCount(self.count.into()));
        let within = end.is_some_and(|end| end.0 <= member_blocks.0);
        require(within, "start of a bad range", self.first.0, "such that the range ends within the data area")
    }
}
