//! Starting an array from what its devices hold: records are written again, NVRAM is destaged, and only then is the
//! host served.
//!
//! ```text
//! Replaying ─► Flushing ─► KeepingState ─► Destaging ─► EndingNvram ─► Labelling ─► Serving
//!  records      members     new generation,  NVRAM's      its incarnation          requests that waited,
//!  in order     if cached   new log tail     dirty data   ends, a new one begins   resync and rebuild
//! ```
//! The state is not written before the records are in place and durable, because it names a tail behind them. A crash in
//! any phase starts over.
//!
//! NVRAM has one incarnation from start to start: state and memory name it, and a copy that was left behind somewhere can
//! not be taken for the present one. The old incarnation ends when all that it held is on the members; it goes on when a device
//! was lost meanwhile. Memory that is not of the old incarnation then has none, and counts as kept by no battery.
//!
//! The state found is written once more at its own place, on every device, before the next generation is: where the crash
//! had torn it, the next would overwrite the only state that is left there. It gets the nonce of the start, which the next generation
//! names: a device without it missed the start.

use crate::api::HostRequest;
use crate::cache::{CacheEngine, RestoreError};
use crate::config::{ArrayConfig, ConfigError};
use crate::ids::LockKey;
use crate::metadata::{Incarnation, Metadata};
use raidlab_format::{
    AreaLayout, ArrayName, ArrayUuid, DeviceUuid, Geometry, Label, LogSource, MetadataPolicy, NvramEntry,
    Replay, WrittenMap,
};
use raidlab_units::{MemberIndex, StripeIndex};
use std::collections::VecDeque;

/// Why an array can't be started from what its devices hold.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StartError {
    /// The configuration is no array.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The configuration is of another array.
    #[error(
        "the devices hold an array with {what} {found}, and the configuration has {configured}: leave it out of the \
         configuration, or use the right devices"
    )]
    Geometry {
        /// What differs.
        what: &'static str,
        /// On the devices.
        found: String,
        /// In the configuration.
        configured: String,
    },
    /// The NVRAM is not this array's.
    #[error(transparent)]
    Kept(#[from] RestoreError),
    /// Too many members are absent.
    #[error(
        "devices {} are absent, which is more than the level survives: bring back as many as were lost too many",
        .absent.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
    )]
    BeyondRedundancy {
        /// The absent ones.
        absent: Vec<MemberIndex>,
    },
}

/// How far a start is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Phase {
    Replaying,
    Flushing,
    KeepingState,
    Destaging,
    EndingNvram,
    Labelling,
    BeginningLife,
    #[default]
    Serving,
}

/// What a start asks for next.
#[derive(Debug)]
pub(crate) enum StartStep {
    /// Nothing, before something that is under way has ended.
    Wait,
    /// This record is to be written again.
    Replay(Replay),
    /// What was written again is to become durable.
    Flush,
    /// The superblock is to be written.
    WriteSuperblock,
    /// What NVRAM holds is to be taken into the cache and destaged.
    Restore(Vec<(u32, NvramEntry)>),
    /// NVRAM is to be empty, and to have the label of a new incarnation.
    Label,
    /// The host is to be served.
    Serve,
}

/// What a start looks at of the rest of the controller.
pub(crate) struct Surroundings<'a> {
    pub(crate) metadata: &'a mut Metadata,
    pub(crate) cache: &'a mut CacheEngine,
    /// A record is being written again, or its stripe resynced.
    pub(crate) is_replaying: bool,
}

/// What a start is at.
#[derive(Debug, Default)]
pub(crate) struct Start {
    phase: Phase,
    records: VecDeque<Replay>,
    /// A record of checksums whose stripe is being resynced.
    resynced: Option<Replay>,
    flush_pending: u32,
    entries: Vec<(u32, NvramEntry)>,
    /// Records that only NVRAM has may have to be written again by the next start: a device was lost before the
    /// devices knew otherwise.
    needs_nvram_log: bool,
    /// The change of the state by which the devices name the end of an incarnation of NVRAM, or the next one.
    incarnation_changes_with: u64,
    /// The incarnation that ended, in case the devices can't be told.
    ended_incarnation: Incarnation,
    /// Requests that came before the host is served.
    waiting: VecDeque<HostRequest>,
}

impl Start {
    /// The start of an array with these records and this directory of NVRAM.
    pub(crate) fn begin(records: Vec<Replay>, entries: Vec<(u32, NvramEntry)>) -> Self {
        let is_kept = |record: &Replay| record.copies.iter().any(|copy| copy.source == LogSource::Kept);
        Self {
            phase: Phase::Replaying,
            needs_nvram_log: records.iter().any(is_kept),
            records: records.into(),
            entries,
            ..Self::default()
        }
    }

    /// How far it is.
    pub(crate) const fn phase(&self) -> Phase {
        self.phase
    }

    /// True until all records are in place and durable.
    pub(crate) fn is_replaying(&self) -> bool {
        matches!(self.phase, Phase::Replaying | Phase::Flushing)
    }

    /// True when the host is served.
    #[inline]
    pub(crate) fn is_serving(&self) -> bool {
        self.phase == Phase::Serving
    }

    /// True while NVRAM is given the label of a new incarnation.
    pub(crate) fn is_labelling(&self) -> bool {
        matches!(self.phase, Phase::Labelling | Phase::BeginningLife)
    }

    /// True if the next start may need the records in NVRAM that this one has found there.
    pub(crate) fn needs_nvram_log(&self) -> bool {
        self.needs_nvram_log
    }

    /// True when nothing is left to do.
    pub(crate) fn is_idle(&self) -> bool {
        self.is_serving() && self.waiting.is_empty()
    }

    /// Takes in that the stripe of a record is being resynced: the next record waits.
    pub(crate) fn await_resync(&mut self, record: Replay) {
        self.resynced = Some(record);
    }

    /// The stripe of a record that was to be resynced last.
    pub(crate) fn resynced_stripe(&self) -> Option<StripeIndex> {
        self.resynced.as_ref().map(|record| record.stripe)
    }

    /// The record that is next: once more that whose stripe could not be resynced.
    fn next_record(&mut self, metadata: &Metadata) -> Option<Replay> {
        let again =
            self.resynced.take().filter(|record| metadata.is_out_of_sync(LockKey::of_stripe(record.stripe)));
        again.or_else(|| self.records.pop_front())
    }

    /// Keeps a request until the host is served.
    pub(crate) fn hold(&mut self, request: HostRequest) {
        self.waiting.push_back(request);
    }

    /// The next request that was kept.
    pub(crate) fn next_waiting(&mut self) -> Option<HostRequest> {
        self.waiting.pop_front()
    }

    /// Goes on until something is to be done, or waited for.
    pub(crate) fn next(&mut self, around: &mut Surroundings<'_>) -> StartStep {
        loop {
            match self.phase {
                Phase::Serving | Phase::Labelling => return StartStep::Wait,
                Phase::Replaying if around.is_replaying => return StartStep::Wait,
                Phase::Replaying => {
                    let Some(record) = self.next_record(around.metadata) else {
                        self.phase = Phase::Flushing;
                        return StartStep::Flush;
                    };
                    return StartStep::Replay(record);
                }
                Phase::Flushing if self.flush_pending > 0 => return StartStep::Wait,
                Phase::Flushing => self.phase = Phase::KeepingState,
                Phase::KeepingState | Phase::EndingNvram | Phase::BeginningLife
                    if around.metadata.is_pending() =>
                {
                    return StartStep::WriteSuperblock;
                }
                Phase::KeepingState => {
                    self.needs_nvram_log &= !around.metadata.is_kept();
                    self.phase = Phase::Destaging;
                    return StartStep::Restore(core::mem::take(&mut self.entries));
                }
                Phase::Destaging if around.cache.dirty_count() > 0 => return StartStep::Wait,
                Phase::Destaging => {
                    if !self.end_incarnation(around) {
                        return self.serve();
                    }
                }
                Phase::EndingNvram if !around.cache.keeps_directory() => return self.serve(),
                Phase::EndingNvram if !around.metadata.has_reached(self.incarnation_changes_with) => {
                    // A device is lost: NVRAM names what it should hold, and the devices can't name a new incarnation.
                    around.metadata.keep_nvram_incarnation(self.ended_incarnation);
                    return self.serve();
                }
                Phase::EndingNvram => {
                    self.phase = Phase::Labelling;
                    return StartStep::Label;
                }
                // Where a device is lost and the devices can't be told, the label names the incarnation that follows theirs.
                Phase::BeginningLife => {
                    around.cache.begin_incarnation();
                    return self.serve();
                }
            }
        }
    }

    const fn serve(&mut self) -> StartStep {
        self.phase = Phase::Serving;
        StartStep::Serve
    }

    /// Ends the incarnation that NVRAM had, if it had one; where there is NVRAM, another begins. That is on the devices
    /// before the host is served, so that what was left behind is never taken for the array's again. Returns false if there is none.
    fn end_incarnation(&mut self, around: &mut Surroundings<'_>) -> bool {
        self.ended_incarnation = around.metadata.nvram_incarnation();
        if !around.cache.keeps_directory() && self.ended_incarnation.epoch == 0 {
            return false;
        }
        self.incarnation_changes_with = around.metadata.end_nvram_incarnation();
        self.phase = Phase::EndingNvram;
        true
    }

    /// Takes in that the label of NVRAM is written. If it is that of a new incarnation, the devices are told, and that from
    /// the first write on NVRAM alone may hold what was acknowledged: a start without it must be able to tell. Returns true
    /// in that case.
    pub(crate) fn label_written(&mut self, metadata: &mut Metadata) -> bool {
        let is_new = self.phase == Phase::Labelling;
        if is_new {
            self.incarnation_changes_with = metadata.begin_nvram_incarnation();
            self.phase = Phase::BeginningLife;
        }
        is_new
    }

    /// Notes that it waits for so many member flushes.
    pub(crate) const fn begin_flushes(&mut self, flushes: u32) {
        self.flush_pending = flushes;
    }

    /// Takes in the end of a member flush of a start.
    pub(crate) const fn end_flush(&mut self) {
        self.flush_pending -= 1;
    }
}

/// An array that is to be made.
#[derive(Clone, Copy, Debug)]
pub struct NewArray<'a> {
    /// Its identity, drawn for it.
    pub array_uuid: ArrayUuid,
    /// What people call it.
    pub name: ArrayName,
    /// Identity of each device, members first, then spares; none for a spare's slot that is empty.
    pub device_uuids: &'a [Option<DeviceUuid>],
    /// The data areas hold something on which redundancy does not agree: not zeros throughout.
    pub needs_resync: bool,
}

/// Returns the front of the metadata area, all before the log, of each device of a new array; nothing for empty slots. The
/// logs are zeros. There must be an entry for each device, and none may be lacking for a member.
///
/// # Errors
/// [`ConfigError`] when the configuration is no array, or keeps no metadata.
///
/// # Panics
/// If there are not as many UUIDs as devices.
pub fn create_metadata(config: &ArrayConfig, new: &NewArray<'_>) -> Result<Vec<Vec<u8>>, ConfigError> {
    let NewArray { array_uuid, name, device_uuids, needs_resync } = *new;
    let layout = config.check()?.layout;
    let mut state = config.new_state(layout.member_count(), array_uuid);
    assert_eq!(device_uuids.len(), state.devices.len(), "every device has an entry");
    state.needs_resync = needs_resync;
    state.generation = 1;
    for (line, uuid) in state.devices.iter_mut().zip(device_uuids) {
        line.device_uuid = uuid.unwrap_or_default();
        if uuid.is_none() {
            assert!(line.role.is_none(), "a member can't be lacking");
            line.state = raidlab_format::DeviceState::Missing;
        }
    }
    let area = config.metadata_area();
    let mut image = vec![0; AreaLayout::FRONT_BYTES as usize];
    let slot = area.state_slot(state.generation);
    state.encode(&mut image[slot.offset_bytes as usize..slot.end_bytes() as usize]);
    if config.resilience.metadata != MetadataPolicy::None {
        let map = raidlab_format::RegionMap::new(layout.stripe_count());
        let slot = area.bitmap[0];
        map.encode(array_uuid, 0, &mut image[slot.offset_bytes as usize..slot.end_bytes() as usize]);
    }
    let front = |(device, uuid): (u16, &Option<DeviceUuid>)| {
        let Some(device_uuid) = *uuid else { return Vec::new() };
        let mut bytes = image.clone();
        let label = Label { array_uuid, device_uuid, device: MemberIndex(device), name };
        label.encode(&mut bytes[..raidlab_format::LABEL_BYTES]);
        bytes
    };
    Ok((0..).zip(device_uuids).map(front).collect())
}

/// The metadata areas of the devices of a new array, whole.
///
/// # Errors
/// As [`create_metadata`].
pub fn new_areas(config: &ArrayConfig, new: &NewArray<'_>) -> Result<Vec<Vec<u8>>, ConfigError> {
    let mut areas = create_metadata(config, new)?;
    for area in &mut areas {
        area.resize(config.metadata_bytes().0 as usize, 0);
        if let Some((at, map)) = new_written_map(config, new.array_uuid) {
            area[at as usize..][..map.len()].copy_from_slice(&map);
        }
    }
    Ok(areas)
}

/// Where the map of written regions of a new array goes in each metadata area, and its bytes; none where it has no map.
pub fn new_written_map(config: &ArrayConfig, array_uuid: ArrayUuid) -> Option<(u64, Vec<u8>)> {
    let slot = config.metadata_area().written[0];
    let mut map = WrittenMap::new(config.geometry(array_uuid).strips(), slot.length_bytes)?;
    map.know_all();
    let mut bytes = vec![0; slot.length_bytes as usize];
    map.encode_slot(array_uuid, 0, &mut bytes);
    Some((slot.offset_bytes, bytes))
}

pub(crate) fn check_geometry(found: &Geometry, configured: &Geometry) -> Result<(), StartError> {
    let fields = |it: &Geometry| {
        [
            ("level", it.level.to_string()),
            ("members", it.members.to_string()),
            ("spares", it.spares.to_string()),
            ("strip size", it.strip_bytes.to_string()),
            ("block size", it.block_size.bytes().to_string()),
            ("member size", it.member_bytes.to_string()),
            ("log size", it.log_bytes.to_string()),
            ("metadata", it.metadata.to_string()),
            ("integrity", it.integrity.to_string()),
        ]
    };
    for ((what, found), (_, configured)) in fields(found).into_iter().zip(fields(configured)) {
        if found != configured {
            return Err(StartError::Geometry { what, found, configured });
        }
    }
    Ok(())
}
