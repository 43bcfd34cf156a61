//! Which intent records are to be replayed.
//!
//! A record counts if it is whole, belongs to this array, and is not below the tail, which is the highest that the
//! state or any record names. A record is on several devices; records with the same sequence are copies of one.

use crate::log::{FoundRecord, LogHeader, LogRun, RecordHolds, scan_log};
use crate::state::ArrayState;
use core::fmt;
use raidlab_raid::StripeShape;
use raidlab_units::{MemberIndex, StripeCount, StripeIndex};
use std::collections::BTreeMap;

/// Which log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogSource {
    /// The ring of this device.
    Device(MemberIndex),
    /// The ring in NVRAM.
    Kept,
}

impl fmt::Display for LogSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Device(device) => write!(f, "the log of device {device}"),
            Self::Kept => f.pad("the log in NVRAM"),
        }
    }
}

/// Where a copy of a record's payload stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PayloadPlace {
    /// Which log.
    pub source: LogSource,
    /// Its first block, counted from the start of the ring.
    pub block: u64,
}

/// A record to be written again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replay {
    /// Its number.
    pub sequence: u64,
    /// The stripe to be written.
    pub stripe: StripeIndex,
    /// What is to be written, in the order of the payload.
    pub runs: Vec<LogRun>,
    /// What it holds of that: where it holds checksums only, what it names can't be written again, only compared.
    pub holds: RecordHolds,
    /// The checksum of each row that has one, in that order.
    pub row_checksums: Vec<u32>,
    /// Runs of later records of the stripe, which tell better what should stand there.
    pub superseded: Vec<LogRun>,
    /// How many blocks before the payload the header begins, in all copies.
    pub payload_at: u64,
    /// Where the payload stands; one or more, by device.
    pub copies: Vec<PayloadPlace>,
}

/// A log that does not belong to the state; raidlab writes no such thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LogTrouble {
    /// A record was made after a change of membership that no state found knows of.
    #[error(
        "{source_log} has record {sequence} of epoch {epoch}, and the newest state found is of epoch \
         {state_epoch}: a newer state was lost"
    )]
    Ahead {
        /// Where it stands.
        source_log: LogSource,
        /// Its number.
        sequence: u64,
        /// Its epoch.
        epoch: u64,
        /// The newest state's epoch.
        state_epoch: u64,
    },
    /// Two records of the same epoch have one number.
    #[error("{source_log} has another record {sequence} than the logs before it")]
    Conflict {
        /// Where it stands.
        source_log: LogSource,
        /// Its number.
        sequence: u64,
    },
    /// A record names what the array does not have.
    #[error(
        "{source_log} has record {sequence}, which writes beyond the array's stripes or strips, or holds checksums of a part of \
         them only, or partial parity of what is not a strip and the only parity"
    )]
    Misfit {
        /// Where it stands.
        source_log: LogSource,
        /// Its number.
        sequence: u64,
    },
}

/// What the logs hold.
pub(super) struct FoundLogs {
    /// To be written again, by sequence, and then those without rows; or why the logs are not the state's.
    pub(super) records: Result<Vec<Replay>, LogTrouble>,
    /// The highest sequence found, replayed or not.
    pub(super) sequence_max: Option<u64>,
}

struct Live {
    source: LogSource,
    found: FoundRecord,
}

/// Reads the rings of all sources.
pub(super) fn read_logs<'a>(
    rings: impl Iterator<Item = (LogSource, &'a [u8])>,
    state: &ArrayState,
    shape: &StripeShape,
    stripes: StripeCount,
) -> FoundLogs {
    let geometry = &state.geometry;
    let mut live: Vec<Live> = Vec::new();
    for (source, ring) in rings {
        let found = scan_log(ring, geometry.array_uuid, geometry.block_size);
        live.extend(found.into_iter().map(|found| Live { source, found }));
    }
    let sequence_max = live.iter().map(|live| live.found.header.sequence).max();
    let tails = live.iter().map(|live| live.found.header.tail_sequence);
    let tail = tails.fold(state.log_tail, u64::max);
    live.retain(|live| live.found.header.sequence >= tail);
    let fits = live.iter().try_for_each(|live| check(live, state, shape, stripes));
    FoundLogs { records: fits.and_then(|()| merge_all(live)).map(in_order), sequence_max }
}

/// Notes what later records supersede, and puts records without rows behind the others: what they are compared with must
/// have been written again before.
fn in_order(mut records: Vec<Replay>) -> Vec<Replay> {
    let mut later: BTreeMap<StripeIndex, Vec<LogRun>> = BTreeMap::new();
    for record in records.iter_mut().rev() {
        let later = later.entry(record.stripe).or_default();
        record.superseded.clone_from(later);
        later.extend(&record.runs);
    }
    records.sort_by_key(|record| record.holds == RecordHolds::Checksums);
    records
}

/// Makes one record of all with the same sequence, and orders the records.
fn merge_all(mut live: Vec<Live>) -> Result<Vec<Replay>, LogTrouble> {
    // Of one sequence, the newest epoch comes first, and of one epoch, the lowest device.
    live.sort_by_key(|live| {
        let header = &live.found.header;
        (header.sequence, core::cmp::Reverse(header.epoch), live.source, live.found.at_block)
    });
    let groups = live.chunk_by(|one, next| one.found.header.sequence == next.found.header.sequence);
    groups.map(merge).collect()
}

/// Makes one record of all with its sequence; those of older epochs are left from before a change of
/// membership.
fn merge(group: &[Live]) -> Result<Replay, LogTrouble> {
    let newest = &group[0].found;
    let mut copies = Vec::new();
    for Live { source, found } in group {
        if found.header.epoch < newest.header.epoch {
            break;
        }
        let same =
            found.header == newest.header && found.checksum == newest.checksum && found.runs == newest.runs;
        if !same {
            return Err(LogTrouble::Conflict { source_log: *source, sequence: found.header.sequence });
        }
        copies.push(PayloadPlace { source: *source, block: found.payload_at_block });
    }
    let LogHeader { sequence, stripe, holds, .. } = newest.header;
    let (runs, row_checksums) = (newest.runs.clone(), newest.row_checksums.clone());
    let (payload_at, superseded) = (newest.payload_at_block - newest.at_block, Vec::new());
    Ok(Replay { sequence, stripe, runs, holds, row_checksums, superseded, payload_at, copies })
}

fn check(
    live: &Live,
    state: &ArrayState,
    shape: &StripeShape,
    stripes: StripeCount,
) -> Result<(), LogTrouble> {
    let Live { source, found } = live;
    let (source_log, sequence, epoch) = (*source, found.header.sequence, found.header.epoch);
    if epoch > state.epoch {
        return Err(LogTrouble::Ahead { source_log, sequence, epoch, state_epoch: state.epoch });
    }
    let units = u32::from(shape.data_strips) + u32::from(shape.parities);
    let fits = |run: &LogRun| {
        let end = u64::from(run.first_row) + u64::from(run.rows);
        u32::from(run.unit) < units && end <= shape.strip_blocks.0
    };
    let within = found.header.stripe.0 < stripes.0;
    if within && found.runs.iter().all(fits) && holds_enough(found, shape) {
        Ok(())
    } else {
        Err(LogTrouble::Misfit { source_log, sequence })
    }
}

/// Whether a record without rows names the same rows of all units, each in one run, and one with partial parity those of a data strip
/// and of the only parity.
fn holds_enough(found: &FoundRecord, &StripeShape { data_strips, parities, .. }: &StripeShape) -> bool {
    let (first, runs) = (found.runs[0], &found.runs);
    let is_of = |(unit, run): (u16, &LogRun)| *run == LogRun { unit, ..first };
    match found.header.holds {
        RecordHolds::Rows => true,
        RecordHolds::Checksums => {
            runs.len() == usize::from(data_strips + parities) && (0..).zip(runs).all(is_of)
        }
        RecordHolds::PartialParity => {
            let [data, parity] = &runs[..] else { return false };
            parities == 1 && data.unit < data_strips && is_of((data_strips, parity))
        }
    }
}
