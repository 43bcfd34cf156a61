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
//! had torn it, the next would overwrite the only state that is left there.

use crate::api::{HostRequest, Notice};
use crate::cache::RestoreError;
use crate::config::{ArrayConfig, ConfigError, MemberCache};
use crate::controller::Controller;
use crate::member_io::IoOwner;
use crate::own;
use crate::stop::Stop;
use raidlab_format::{
    AreaLayout, ArrayName, ArrayState, ArrayUuid, Assembly, DeviceRecord, DeviceUuid, Geometry, Label,
    LogPlace, LogSource, MetadataPolicy, NvramEntry, NvramVerdict, Replay, STATE_BYTES,
};
use raidlab_units::{MemberIndex, MemberLba};
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
enum Phase {
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

/// What a start is at.
#[derive(Debug, Default)]
pub(crate) struct Start {
    phase: Phase,
    records: VecDeque<Replay>,
    flush_pending: u32,
    entries: Vec<(u32, NvramEntry)>,
    /// Records that only NVRAM has may have to be written again by the next start: a device was lost before the
    /// devices knew otherwise.
    needs_nvram_log: bool,
    /// The change of the state by which the devices name the end of an incarnation of NVRAM, or the next one.
    incarnation_changes_with: u64,
    /// The incarnation that ended, in case the devices can't be told.
    ended_incarnation: u64,
    /// Requests that came before the host is served.
    waiting: VecDeque<HostRequest>,
}

impl Start {
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

    /// Keeps a request until the host is served.
    pub(crate) fn hold(&mut self, request: HostRequest) {
        self.waiting.push_back(request);
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
/// logs are zeros. There must be an entry for each device, and none may be lacking for a member (asserted).
///
/// # Errors
/// [`ConfigError`] when the configuration is no array, or keeps no metadata.
pub fn create_metadata(config: &ArrayConfig, new: &NewArray<'_>) -> Result<Vec<Vec<u8>>, ConfigError> {
    let NewArray { array_uuid, name, device_uuids, needs_resync } = *new;
    let layout = config.check()?.layout;
    let mut state = new_state(config, layout.member_count(), array_uuid);
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

/// The state of an array that was never started.
pub(crate) fn new_state(config: &ArrayConfig, members: u16, array_uuid: ArrayUuid) -> ArrayState {
    let spares = config.resilience.spares;
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
        log_tail: 0,
        geometry: config.geometry(array_uuid),
        dirty: false,
        needs_resync: false,
        log_place: LogPlace::Members,
        devices: (0..members + spares).map(line).collect(),
        bad_ranges: Vec::new(),
    }
}

impl Controller {
    /// Starts an array from what [`raidlab_format::assemble`] made of its devices. Device `d` of the controller is candidate
    /// `assembly.present[d]`; devices that are not there must not be reported as added before they are.
    ///
    /// Host requests may be made at once; they are served from [`Notice::Serving`] on.
    ///
    /// # Errors
    /// [`StartError`] when the configuration is not this array's, or too many devices are absent.
    pub fn start(config: &ArrayConfig, mut assembly: Assembly) -> Result<Self, StartError> {
        let mut controller = Self::new(config)?;
        controller.cache.check_directory(&controller.geometry, &mut assembly.nvram_entries)?;
        check_geometry(&assembly.state.geometry, &config.geometry(assembly.state.geometry.array_uuid))?;
        let Self { metadata, geometry, .. } = &mut controller;
        let beyond = |absent| StartError::BeyondRedundancy { absent };
        let absent = metadata.take_devices(geometry, &assembly).map_err(beyond)?;
        let kept_is_lost = assembly.state.relies_on_nvram() && assembly.kept != NvramVerdict::Used;
        // With these bytes the devices already agree, or are made to; see below.
        assembly.state.encode(&mut controller.own.bytes_mut()[own::STATE_AT..own::STATE_AT + STATE_BYTES]);
        let mut state = assembly.state;
        // Records of a log that was not looked at may have any number up to this jump.
        let next_sequence = assembly.next_log_sequence.max(state.log_tail) + (1 << 32);
        controller.write_intent.start_again(
            &assembly.out_of_sync,
            assembly.next_bitmap_sequence,
            next_sequence,
        );
        let whole = assembly.out_of_sync.marked_count() == u32::from(assembly.out_of_sync.regions());
        state.needs_resync |= whole && !assembly.write_hole_accepted;
        state.log_place = LogPlace::Members;
        controller.metadata.take_superblock(state);
        if !assembly.write_hole_accepted {
            controller.mark_regions_out_of_sync(&assembly.out_of_sync);
        }
        let is_kept = |record: &Replay| record.copies.iter().any(|copy| copy.source == LogSource::Kept);
        controller.start = Start {
            phase: Phase::Replaying,
            needs_nvram_log: assembly.records.iter().any(is_kept),
            records: assembly.records.into(),
            entries: assembly.nvram_entries,
            ..Start::default()
        };
        controller.scan.hold();
        if assembly.kept != NvramVerdict::Used {
            controller.cache.note_no_incarnation();
        }
        if kept_is_lost {
            controller.outbox.notify(Notice::NvramLost);
        }
        for device in absent {
            controller.outbox.notify(Notice::MemberFailed { member: device });
        }
        controller.send_found_superblock();
        controller.pump_bitmap();
        controller.metadata.change();
        controller.pump();
        Ok(controller)
    }

    /// True when the array has finished starting and serves the host.
    pub fn is_serving(&self) -> bool {
        self.start.is_serving()
    }

    /// Moves a start on. Returns true if it came to another phase.
    #[inline]
    pub(crate) fn pump_start(&mut self) -> bool {
        if self.start.is_serving() {
            return false;
        }
        let before = self.start.phase;
        self.move_start_on();
        self.start.phase != before
    }

    fn move_start_on(&mut self) {
        loop {
            match self.start.phase {
                Phase::Serving | Phase::Labelling => return,
                Phase::Replaying if self.write_intent.is_replaying() => return,
                Phase::Replaying => match self.start.records.pop_front() {
                    Some(record) => self.begin_replay(record),
                    None => self.flush_replayed(),
                },
                Phase::Flushing if self.start.flush_pending > 0 => return,
                Phase::Flushing => self.start.phase = Phase::KeepingState,
                Phase::KeepingState | Phase::EndingNvram | Phase::BeginningLife
                    if self.metadata.is_pending() =>
                {
                    self.pump_superblock();
                    return;
                }
                Phase::KeepingState => {
                    self.start.needs_nvram_log &= !self.metadata.is_kept();
                    let entries = core::mem::take(&mut self.start.entries);
                    self.restore_nvram(entries.into_iter()).expect("checked when the start began");
                    self.start.phase = Phase::Destaging;
                    self.pump_destage();
                }
                Phase::Destaging if self.cache.dirty_count() > 0 => return,
                Phase::Destaging => self.end_life(),
                Phase::EndingNvram if !self.cache.keeps_directory() => self.begin_serving(),
                Phase::EndingNvram if !self.metadata.has_reached(self.start.incarnation_changes_with) => {
                    // A device is lost: NVRAM names what it should hold, and the devices can't name a new incarnation.
                    self.metadata.keep_nvram_incarnation(self.start.ended_incarnation);
                    self.begin_serving();
                }
                Phase::EndingNvram => {
                    self.start.phase = Phase::Labelling;
                    self.begin_nvram_incarnation();
                }
                // Where a device is lost and the devices can't be told, the label names the incarnation that follows theirs.
                Phase::BeginningLife => {
                    self.cache.begin_incarnation();
                    self.begin_serving();
                }
            }
        }
    }

    /// Ends the incarnation that NVRAM had, if it had one; where there is NVRAM, another begins. That is on the devices
    /// before the host is served, so that what was left behind is never taken for the array's again.
    fn end_life(&mut self) {
        let keeps = self.cache.keeps_directory();
        self.start.ended_incarnation = self.metadata.nvram_epoch();
        if !keeps && self.start.ended_incarnation == 0 {
            return self.begin_serving();
        }
        self.start.incarnation_changes_with = self.metadata.end_nvram_incarnation();
        self.start.phase = Phase::EndingNvram;
    }

    /// Takes in that the label of NVRAM is written. If it is that of a new incarnation, the devices are told, and that from
    /// the first write on NVRAM alone may hold what was acknowledged: a start without it must be able to tell.
    pub(crate) fn label_written(&mut self) {
        self.cache.end_label();
        if self.start.phase == Phase::Labelling {
            self.start.incarnation_changes_with = self.metadata.begin_nvram_incarnation();
            self.start.phase = Phase::BeginningLife;
            self.move_start_on();
        }
    }

    fn begin_serving(&mut self) {
        self.start.phase = Phase::Serving;
        self.outbox.notify(Notice::Serving);
        self.check_log_place();
        // A stop that was asked for meanwhile holds them.
        self.scan.release(self.stop != Stop::NotAsked);
        while let Some(request) = self.start.waiting.pop_front() {
            self.begin_request(request);
        }
    }

    fn flush_replayed(&mut self) {
        self.start.phase = Phase::Flushing;
        self.start.flush_pending = 1;
        if self.config.member_cache == MemberCache::On {
            self.start.flush_pending += self.flush_members(IoOwner::StartFlush);
        }
        self.start_flush_done();
    }

    /// Takes in the end of a member flush of a start.
    pub(crate) fn start_flush_done(&mut self) {
        self.start.flush_pending -= 1;
    }
}

fn check_geometry(found: &Geometry, configured: &Geometry) -> Result<(), StartError> {
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
