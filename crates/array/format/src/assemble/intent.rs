//! What the write intent says: which records to replay, which regions are out of sync, and whether that is enough.
//!
//! ```text
//! policy     parity                         mirrors                    no redundancy
//! none       dirty: all out of sync         dirty: all out of sync     -
//! resync     dirty: all out of sync         dirty: all out of sync     -
//! bitmap     the marked regions             the marked regions         -
//! log        records; dirty and no valid    the marked regions         -
//!            log: all out of sync
//! ```
//! With integrity, levels without redundancy are treated like mirrors: a strip and its block checksums (tags) may
//! disagree as two copies may.
//!
//! `needs_resync` means all, whatever the policy. A log on the devices is valid unless both copies of a record may be
//! on absent devices; a log in NVRAM is valid if the NVRAM is this array's.

use super::error::AssembleError;
use super::replay::{FoundLogs, LogSource, LogTrouble, Replay, read_logs};
use super::roster::Roster;
use crate::area::AreaLayout;
use crate::bitmap::RegionMap;
use crate::error::DecodeError;
use crate::geometry::MetadataPolicy;
use crate::identity::{ArrayUuid, StartNonce};
use crate::nvram::{NvramImage, NvramLabel};
use crate::state::{ArrayState, LogPlace};
use crate::written::WrittenMap;
use raidlab_raid::Layout;

/// What became of the NVRAM.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NvramVerdict {
    /// There was none.
    #[error("there is no NVRAM")]
    NotGiven,
    /// It has no valid label.
    #[error("{0}")]
    NoLabel(DecodeError),
    /// It belongs to another array.
    #[error("NVRAM belongs to array {found}")]
    OtherArray {
        /// The array that it belongs to.
        found: ArrayUuid,
    },
    /// It is this array's, of another epoch.
    #[error("NVRAM is of epoch {found} and the array's is of epoch {expected}")]
    OtherLife {
        /// Its epoch.
        found: u64,
        /// The state's.
        expected: u64,
    },
    /// It is of the array's epoch, which another start began: it was used with a copy of the devices.
    #[error(
        "NVRAM is of start {found} and the array's is of start {expected}: it was used with a copy of the devices"
    )]
    OtherStart {
        /// The start that began its epoch.
        found: StartNonce,
        /// The one that the state names.
        expected: StartNonce,
    },
    /// It is this array's.
    #[error("NVRAM belongs to the array")]
    Used,
}

/// Why redundancy may disagree.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Doubt {
    /// The state says so.
    #[error("its redundancy was never made to agree, or not to the end")]
    NeedsResync,
    /// Nothing says where it was being written.
    #[error("it was not stopped cleanly and keeps no record of where it was being written")]
    NoIntent,
    /// It was being written in these regions.
    #[error("it was not stopped cleanly and was being written in {marked} of {regions} regions")]
    Regions {
        /// How many are marked.
        marked: u32,
        /// How many there are.
        regions: u16,
    },
    /// Records may be on absent devices only.
    #[error("it was not stopped cleanly and some of its log may be on the absent devices only")]
    LogIncomplete,
    /// The log is in NVRAM that is not there.
    #[error("it was not stopped cleanly and its log is in NVRAM, but {0}")]
    NvramLog(NvramVerdict),
    /// The log is not the array's.
    #[error("its log does not belong to its state: {0}")]
    Log(LogTrouble),
}

/// Returns what became of the NVRAM, and the memory if it is this array's.
pub(super) fn judge_kept<'a>(
    kept: Option<NvramImage<'a>>,
    state: &ArrayState,
) -> Result<(NvramVerdict, Option<NvramImage<'a>>), AssembleError> {
    let Some(image) = kept else { return Ok((NvramVerdict::NotGiven, None)) };
    let verdict = match NvramLabel::decode(image.log) {
        Err(error) => match super::candidate::newer_version(&error) {
            Some(found) => return Err(AssembleError::newer_kept_version(found)),
            None => NvramVerdict::NoLabel(error),
        },
        Ok(label) if label.array_uuid != state.geometry.array_uuid => {
            NvramVerdict::OtherArray { found: label.array_uuid }
        }
        // A crash may come between the label of an epoch and the state that names it.
        Ok(label) if label.nvram_epoch != state.nvram_epoch | 1 => {
            NvramVerdict::OtherLife { found: label.nvram_epoch, expected: state.nvram_epoch | 1 }
        }
        Ok(label) if label.start != state.nvram_start => {
            NvramVerdict::OtherStart { found: label.start, expected: state.nvram_start }
        }
        Ok(_) => NvramVerdict::Used,
    };
    let used = (verdict == NvramVerdict::Used).then_some(image);
    Ok((verdict, used))
}

/// What is left to do, and what is not known.
pub(super) struct Intent {
    pub(super) records: Vec<Replay>,
    pub(super) log_sequence: Option<u64>,
    pub(super) out_of_sync: RegionMap,
    pub(super) doubt: Option<Doubt>,
    pub(super) bitmap_sequence: Option<u64>,
}

/// The array, its devices and its NVRAM.
pub(super) struct Found<'s, 'a> {
    pub(super) state: &'s ArrayState,
    pub(super) layout: &'s dyn Layout,
    pub(super) roster: &'s Roster<'a>,
    pub(super) kept: Option<NvramImage<'a>>,
    pub(super) nvram_verdict: &'s NvramVerdict,
}

impl Found<'_, '_> {
    /// The policy that the level makes of the one asked for.
    fn policy(&self) -> MetadataPolicy {
        match self.state.geometry.metadata {
            MetadataPolicy::Log if self.layout.shape().parities == 0 => MetadataPolicy::Bitmap,
            policy => policy,
        }
    }

    /// Reads log and bitmap. Trouble with the log is an error unless the write hole is accepted.
    pub(super) fn read_intent(&self, accept_write_hole: bool) -> Result<Intent, AssembleError> {
        let mut intent = Intent {
            records: Vec::new(),
            log_sequence: None,
            out_of_sync: RegionMap::new(self.layout.stripe_count()),
            doubt: None,
            bitmap_sequence: None,
        };
        let shape = self.layout.shape();
        if shape.parities == 0 && shape.copies == 1 && !self.state.geometry.integrity {
            return Ok(intent);
        }
        match self.policy() {
            MetadataPolicy::None | MetadataPolicy::Resync => {
                intent.doubt = self.state.dirty.then_some(Doubt::NoIntent);
            }
            MetadataPolicy::Bitmap => self.read_bitmap(&mut intent),
            MetadataPolicy::Log => self.read_log(&mut intent, accept_write_hole)?,
        }
        if self.state.needs_resync {
            intent.doubt = Some(Doubt::NeedsResync);
        }
        if !matches!(intent.doubt, None | Some(Doubt::Regions { .. })) {
            intent.out_of_sync.mark_all();
        }
        Ok(intent)
    }

    /// The union of what all devices in sync say of written regions, and the highest sequence found.
    pub(super) fn read_written(&self) -> (Option<WrittenMap>, Option<u64>) {
        let (geometry, mut newest) = (&self.state.geometry, None);
        let area_layout = AreaLayout::of(geometry);
        let mut map = WrittenMap::new(geometry.strips(), area_layout.written[0].length_bytes);
        for ((_, area), slot) in
            self.roster.in_sync(self.state).flat_map(|it| area_layout.written.map(|slot| (it, slot)))
        {
            let found = map.as_mut().and_then(|map| map.join(slot.of(area)?, geometry.array_uuid));
            newest = newest.max(found);
        }
        (map, newest)
    }

    fn read_bitmap(&self, intent: &mut Intent) {
        let area_layout = AreaLayout::new(self.state.geometry.log_bytes);
        let in_sync = self.roster.in_sync(self.state);
        let slots =
            in_sync.flat_map(|(_, area)| area_layout.bitmap.map(|slot| slot.of(area).unwrap_or_default()));
        let uuid = self.state.geometry.array_uuid;
        let found = RegionMap::decode_newest(self.layout.stripe_count(), uuid, slots);
        let (marked, regions) = (found.map.marked_count(), found.map.regions());
        intent.doubt = (marked > 0).then_some(Doubt::Regions { marked, regions });
        intent.bitmap_sequence = found.sequence;
        intent.out_of_sync = found.map;
    }

    fn read_log(&self, intent: &mut Intent, accept_write_hole: bool) -> Result<(), AssembleError> {
        let logs = self.found_logs();
        intent.log_sequence = logs.sequence_max;
        match logs.records {
            Ok(records) => {
                intent.records = records;
                intent.doubt = self.log_doubt().filter(|_| self.state.dirty);
            }
            Err(trouble) if accept_write_hole => intent.doubt = Some(Doubt::Log(trouble)),
            Err(trouble) => {
                let is_enough = self.roster.is_enough(self.state, self.layout);
                return Err(AssembleError::Log { trouble, is_enough });
            }
        }
        Ok(())
    }

    fn found_logs(&self) -> FoundLogs {
        let (shape, stripes) = (self.layout.shape(), self.layout.stripe_count());
        if self.state.log_place == LogPlace::Nvram {
            let ring = self.kept.iter().map(|image| (LogSource::Kept, image.ring()));
            return read_logs(ring, self.state, &shape, stripes);
        }
        let log = AreaLayout::new(self.state.geometry.log_bytes).log;
        let in_sync = self.roster.in_sync(self.state);
        let rings =
            in_sync.map(|(device, area)| (LogSource::Device(device), log.of(area).unwrap_or_default()));
        read_logs(rings, self.state, &shape, stripes)
    }

    /// Why the log may lack records, if it may.
    ///
    /// A record is on one device of its stripe more than the stripe can still lose, so while every stripe can be read all
    /// records are there.
    fn log_doubt(&self) -> Option<Doubt> {
        if self.state.log_place == LogPlace::Nvram {
            return self.kept.is_none().then(|| Doubt::NvramLog(self.nvram_verdict.clone()));
        }
        let absent = self.roster.absent(self.state).len();
        let is_readable = self.roster.is_enough(self.state, self.layout);
        let whole = self.state.geometry.log_bytes.0 > 0 && (absent == 0 || is_readable);
        (!whole).then_some(Doubt::LogIncomplete)
    }
}
