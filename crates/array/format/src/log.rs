//! Intent records: data about to be written in place, so that the write can be repeated.
//!
//! A record is a header and the rows that it names, a block for each row of each run, in order: its *payload*. A record of
//! whole stripes needs none: nothing of what was there is kept by the write, so that it is enough to tell afterwards whether
//! all of it has arrived. A record of one strip and the only parity has the partial parity, that of all other strips, from which
//! parity follows whatever of the strip has arrived. A header begins at any block of the ring, and nothing wraps. Headers of records
//! that are written together share a block if they fit, one behind the other; the payload of each follows behind that block.
//! ```text
//!  0 seal, 16 bytes: magic "RAIDLOG\n", version, number of runs, CRC32C to the end of the last block
//! 16 array_uuid     16 bytes
//! 32 sequence       u64    counts the records
//! 40 tail_sequence  u64    every record with a lower sequence is retired
//! 48 epoch          u64    the state's epoch when the record was made
//! 56 stripe         u64
//! 64 payload_at     u16    blocks from the one that the header begins in to the payload
//! 66 holds          u16    0: the payload follows; 1: there is none; 2: the payload is the rows of the second run, partial parity
//! 68 rows           u32    of all runs together
//! 72 runs           12 bytes each: unit u16, zero u16, first_row u32, rows u32
//!    row checksums  u32 each: the CRC32C of that row; with partial parity of the payload's rows only
//!    zeros to a multiple of 8 bytes, and to the end of the last block unless another header follows
//! ```
//! Each seal covers the headers behind it in the block, too. So the block counts as a whole or not at all: all devices that have
//! it have the same one, and who copies a record with its block to a device takes no other record from there.
//!
//! A *unit* is a strip of the stripe: data strips from 0, then parity strips. A *row* is a block of a strip,
//! from 0.
//!
//! Writing allocates nothing. Left out: protection against a host that knows the array's UUID and forges a record; data
//! that merely is a copy of a record does no harm (see docs/on-disk-format.md).

use crate::error::{DecodeError, Part};
use crate::identity::ArrayUuid;
use crate::integrity::row_checksum;
use crate::seal::{
    COUNTERS_END, SEAL_BYTES, aux, check_length, check_magic, check_zeros, open, put, seal_front,
    stored_checksum, take, u16_at, u32_at, u64_at,
};
use core::ops::Range;
use raidlab_units::{BlockSize, StripeIndex};

const UUID_AT: usize = SEAL_BYTES;
const SEQUENCE_AT: usize = 32;
const TAIL_AT: usize = 40;
const EPOCH_AT: usize = 48;
const STRIPE_AT: usize = 56;
const PAYLOAD_AT: usize = 64;
const HOLDS_AT: usize = 66;
const ROWS_AT: usize = 68;
const RUNS_AT: usize = 72;
const RUN_BYTES: usize = 12;
const CHECKSUM_BYTES: usize = 4;
/// What a header that shares its block begins on a multiple of.
const ALIGNMENT_BYTES: usize = 8;
const PART: Part = Part::LogHeader;

/// Consecutive rows of one strip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogRun {
    /// The strip of the stripe: data strips from 0, then parity strips.
    pub unit: u16,
    /// The first block of it.
    pub first_row: u32,
    /// How many, 1 or more.
    pub rows: u32,
}

/// What a record holds of the rows that it names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordHolds {
    /// The rows: they can be written again.
    Rows,
    /// Their checksums only. The rows are those of all strips and all parity of a stripe.
    Checksums,
    /// The first run is of a data strip, the second has the same rows of the stripe's only parity, and the payload is what that
    /// parity is without the strip: the sum of all other strips.
    PartialParity,
}

impl RecordHolds {
    /// Blocks behind the header of a record of so many rows.
    pub const fn payload_blocks(self, rows: u32) -> u64 {
        match self {
            Self::Rows => rows as u64,
            Self::Checksums => 0,
            Self::PartialParity => rows as u64 / 2,
        }
    }

    /// Checksums of a record that names so many rows.
    pub const fn checksums(self, rows: u32) -> u32 {
        match self {
            Self::Rows | Self::Checksums => rows,
            Self::PartialParity => rows / 2,
        }
    }

    /// Which of so many runs the payload has the rows of.
    pub fn payload_runs(self, runs: usize) -> Range<usize> {
        match self {
            Self::Rows => 0..runs,
            Self::Checksums => 0..0,
            Self::PartialParity => 1..runs,
        }
    }

    const fn number(self) -> u16 {
        match self {
            Self::Rows => 0,
            Self::Checksums => 1,
            Self::PartialParity => 2,
        }
    }
}

/// What a record says beside its runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogHeader {
    /// The array it belongs to.
    pub array_uuid: ArrayUuid,
    /// Its number.
    pub sequence: u64,
    /// Every record with a lower number is retired; not above `sequence`.
    pub tail_sequence: u64,
    /// The state's epoch when it was made.
    pub epoch: u64,
    /// The stripe to be written.
    pub stripe: StripeIndex,
    /// What it holds.
    pub holds: RecordHolds,
}

/// Length in bytes of the header of a record by itself with so many runs and checksums: whole blocks.
pub const fn header_len(runs: u16, checksums: u32, block_size: BlockSize) -> u64 {
    fields_len(runs, checksums).next_multiple_of(block_size.bytes())
}

const fn fields_len(runs: u16, checksums: u32) -> u64 {
    RUNS_AT as u64 + runs as u64 * RUN_BYTES as u64 + checksums as u64 * CHECKSUM_BYTES as u64
}

/// How many checksums a header has; one that is of no known kind counts as the first.
fn checksums_of(header: &[u8]) -> u32 {
    let rows = u32_at(header, ROWS_AT);
    holds_of(header).map_or(rows, |holds| holds.checksums(rows))
}

fn holds_of(header: &[u8]) -> Option<RecordHolds> {
    let number = u16_at(header, HOLDS_AT);
    let all = [RecordHolds::Rows, RecordHolds::Checksums, RecordHolds::PartialParity];
    all.into_iter().find(|holds| holds.number() == number)
}

/// Length in bytes of what `header`, a valid one, takes of a block that it shares.
pub fn shared_len(header: &[u8]) -> usize {
    (fields_len(aux(header), checksums_of(header)) as usize).next_multiple_of(ALIGNMENT_BYTES)
}

/// Lets the payload begin so many blocks behind the one that `header` begins in; it is to be sealed again.
pub fn set_payload_at(header: &mut [u8], blocks: u16) {
    put(header, PAYLOAD_AT, blocks.to_le_bytes());
}

/// Seals the headers that share `block`, each [`shared_len`] long and one behind the other, with zeros behind the last.
/// Returns their length.
pub fn seal_shared(block: &mut [u8]) -> usize {
    let mut end = shared_len(block);
    if check_magic(&block[end..], PART).is_ok() {
        end += seal_shared(&mut block[end..]);
    }
    seal_front(block, end, PART, aux(block));
    end
}

impl LogHeader {
    /// Writes the header of a record by itself over `out`, which must be [`header_len`] long and fewer than 65536 blocks, with the
    /// checksum of each row in order. There must be a run, every run must have a row, and there must be as many checksums as
    /// [`RecordHolds::checksums`] says. (All are asserted.)
    ///
    /// # Panics
    /// If there are 65,536 runs or more, or `out` is too short for the record.
    pub fn encode_into(
        &self,
        runs: &[LogRun],
        row_checksums: impl IntoIterator<Item = u32>,
        block_size: BlockSize,
        out: &mut [u8],
    ) {
        let run_count = u16::try_from(runs.len()).expect("a record has fewer than 65536 runs");
        let rows = total_rows(runs.iter().copied()).expect("runs have rows, and fewer than 2^32");
        let checksums = self.holds.checksums(rows);
        let length = header_len(run_count, checksums, block_size);
        assert!(run_count > 0, "a record has a run");
        assert!(self.sequence < COUNTERS_END, "a sequence is below 2^63");
        assert!(self.epoch < COUNTERS_END, "an epoch is below 2^63");
        assert!(self.tail_sequence <= self.sequence, "a record is not retired before it is made");
        assert_eq!(out.len() as u64, length, "a header has its own length");
        put(out, UUID_AT, self.array_uuid.0);
        put(out, SEQUENCE_AT, self.sequence.to_le_bytes());
        put(out, TAIL_AT, self.tail_sequence.to_le_bytes());
        put(out, EPOCH_AT, self.epoch.to_le_bytes());
        put(out, STRIPE_AT, self.stripe.0.to_le_bytes());
        let blocks =
            u16::try_from(length / block_size.bytes()).expect("a header has fewer than 65536 blocks");
        put(out, PAYLOAD_AT, blocks.to_le_bytes());
        put(out, HOLDS_AT, self.holds.number().to_le_bytes());
        put(out, ROWS_AT, rows.to_le_bytes());
        let mut at = RUNS_AT;
        for run in runs {
            run.encode(&mut out[at..at + RUN_BYTES]);
            at += RUN_BYTES;
        }
        let checksums_end = at + checksums as usize * CHECKSUM_BYTES;
        for checksum in row_checksums {
            assert!(at < checksums_end, "there are more checksums than rows");
            put(out, at, checksum.to_le_bytes());
            at += CHECKSUM_BYTES;
        }
        assert_eq!(at, checksums_end, "there are fewer checksums than rows");
        out[at..].fill(0);
        seal_front(out, at, PART, run_count);
    }

    /// Reads the header that `bytes` begin with, which begin with a block.
    ///
    /// # Errors
    /// [`DecodeError`] when there is none, or it is damaged, of an unknown version or impossible.
    pub fn decode(bytes: &[u8], block_size: BlockSize) -> Result<LogRecord<'_>, DecodeError> {
        Self::decode_behind(0, bytes, block_size)
    }

    /// The same behind so many bytes of a block.
    fn decode_behind(
        before: usize,
        bytes: &[u8],
        block_size: BlockSize,
    ) -> Result<LogRecord<'_>, DecodeError> {
        check_magic(bytes, PART)?;
        check_length(bytes, PART, RUNS_AT as u64)?;
        let (run_count, rows) = (aux(bytes), u32_at(bytes, ROWS_AT));
        let checksums = checksums_of(bytes);
        let end = (before as u64 + fields_len(run_count, checksums)).next_multiple_of(block_size.bytes());
        check_length(bytes, PART, end - before as u64)?;
        let bytes = &bytes[..end as usize - before];
        open(bytes, PART)?;
        let runs_end = RUNS_AT + usize::from(run_count) * RUN_BYTES;
        let checksums_end = runs_end + checksums as usize * CHECKSUM_BYTES;
        let found = u16_at(bytes, HOLDS_AT);
        let holds =
            holds_of(bytes).ok_or_else(|| DecodeError::field(PART, "holds", found.into(), "0 to 2"))?;
        let (own, behind) = bytes.split_at(shared_len(bytes));
        let shares = end == block_size.bytes() && check_magic(behind, PART).is_ok();
        let header = Self {
            array_uuid: ArrayUuid(take(bytes, UUID_AT)),
            sequence: u64_at(bytes, SEQUENCE_AT),
            tail_sequence: u64_at(bytes, TAIL_AT),
            epoch: u64_at(bytes, EPOCH_AT),
            stripe: StripeIndex(u64_at(bytes, STRIPE_AT)),
            holds,
        };
        let record = LogRecord {
            header,
            rows,
            checksum: stored_checksum(bytes),
            payload_at: u16_at(bytes, PAYLOAD_AT),
            block_size,
            header_blocks: end / block_size.bytes(),
            before,
            behind,
            runs: &bytes[RUNS_AT..runs_end],
            row_checksums: &bytes[runs_end..checksums_end],
        };
        record.check()?;
        check_zeros(if shares { own } else { bytes }, PART, checksums_end)?;
        Ok(record)
    }
}

impl LogRun {
    fn encode(self, out: &mut [u8]) {
        put(out, 0, self.unit.to_le_bytes());
        put(out, 2, [0; 2]);
        put(out, 4, self.first_row.to_le_bytes());
        put(out, 8, self.rows.to_le_bytes());
    }

    fn decode(bytes: &[u8]) -> Self {
        Self { unit: u16_at(bytes, 0), first_row: u32_at(bytes, 4), rows: u32_at(bytes, 8) }
    }
}

/// Rows of all runs, or `None` when a run has none, ends past 2^32, or they are 2^32 or more.
fn total_rows(runs: impl Iterator<Item = LogRun>) -> Option<u32> {
    let mut total = 0_u32;
    for run in runs {
        run.first_row.checked_add(run.rows)?;
        total = total.checked_add(run.rows).filter(|_| run.rows > 0)?;
    }
    Some(total)
}

/// A header as it stands in the log.
#[derive(Clone, Copy, Debug)]
pub struct LogRecord<'a> {
    /// What it says beside its runs.
    pub header: LogHeader,
    /// Rows of all runs.
    pub rows: u32,
    /// The header's own checksum; it covers everything that the record says.
    pub checksum: u32,
    /// Blocks from the one that the header begins in to the payload.
    pub payload_at: u16,
    block_size: BlockSize,
    header_blocks: u64,
    /// Bytes of the header's block before it.
    before: usize,
    /// The bytes behind it in its last block.
    behind: &'a [u8],
    runs: &'a [u8],
    row_checksums: &'a [u8],
}

impl<'a> LogRecord<'a> {
    /// What is to be written, in order.
    pub fn runs(&self) -> impl Iterator<Item = LogRun> + use<'a> {
        self.runs.chunks_exact(RUN_BYTES).map(LogRun::decode)
    }

    /// The checksum of each row that has one, in order.
    pub fn row_checksums(&self) -> impl Iterator<Item = u32> + use<'a> {
        self.row_checksums.chunks_exact(CHECKSUM_BYTES).map(|bytes| u32_at(bytes, 0))
    }

    /// The record whose header stands behind this one's in the same block, if one does.
    pub fn next_in_block(&self) -> Option<Self> {
        let before = self.before + RUNS_AT + self.runs.len() + self.row_checksums.len();
        LogHeader::decode_behind(before.next_multiple_of(ALIGNMENT_BYTES), self.behind, self.block_size).ok()
    }

    /// Length of the payload in blocks.
    pub const fn payload_blocks(&self) -> u64 {
        self.header.holds.payload_blocks(self.rows)
    }

    /// Whether the payload is whole in bytes that begin with the header's block.
    fn is_whole_in(&self, bytes: &[u8]) -> bool {
        let block_bytes = self.block_size.bytes() as usize;
        bytes.get(usize::from(self.payload_at) * block_bytes..).is_some_and(|payload| {
            let mut rows = payload.chunks_exact(block_bytes);
            let mut fits = |checksum| rows.next().is_some_and(|row| row_checksum(row) == checksum);
            self.payload_blocks() == 0 || self.row_checksums().all(&mut fits)
        })
    }

    /// The record as it is found with its header at a block.
    fn found_at(&self, at_block: u64) -> FoundRecord {
        FoundRecord {
            header: self.header,
            runs: self.runs().collect(),
            row_checksums: self.row_checksums().collect(),
            checksum: self.checksum,
            at_block,
            payload_at_block: at_block + u64::from(self.payload_at),
        }
    }

    fn check(&self) -> Result<(), DecodeError> {
        let field = |field, value, allowed| Err(DecodeError::field(PART, field, value, allowed));
        if self.runs.is_empty() {
            return field("runs", 0, "1 or more");
        }
        if u64::from(self.payload_at) < self.header_blocks {
            return field("payload_at", self.payload_at.into(), "not below the length of the header");
        }
        if self.runs.chunks_exact(RUN_BYTES).any(|run| u16_at(run, 2) != 0) {
            return field("the bytes behind a run's unit", 1, "0");
        }
        if total_rows(self.runs()) != Some(self.rows) {
            return field("rows", self.rows.into(), "the sum of the runs' rows, each 1 or more");
        }
        for (counter, value) in [("sequence", self.header.sequence), ("epoch", self.header.epoch)] {
            if value >= COUNTERS_END {
                return field(counter, value, "below 2^63");
            }
        }
        if self.header.tail_sequence > self.header.sequence {
            return field("tail_sequence", self.header.tail_sequence, "not above the record's sequence");
        }
        Ok(())
    }
}

/// A record found in a log, with all its payload if it has one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundRecord {
    /// What it says beside its runs.
    pub header: LogHeader,
    /// What is to be written, in order.
    pub runs: Vec<LogRun>,
    /// The checksum of each row that has one, in order.
    pub row_checksums: Vec<u32>,
    /// The header's own checksum: two records with the same one say the same.
    pub checksum: u32,
    /// The block that the header begins in, in blocks from the start of the ring.
    pub at_block: u64,
    /// Where the payload begins, if there is one, in blocks from the start of the ring.
    pub payload_at_block: u64,
}

/// Returns every record of the array in the ring that is there with all its payload, in order of place.
///
/// What lies within a record's payload is the host's data and is not looked at.
pub fn scan_log(ring: &[u8], array_uuid: ArrayUuid, block_size: BlockSize) -> Vec<FoundRecord> {
    let block_bytes = block_size.bytes() as usize;
    let mut found = Vec::new();
    let mut is_taken = vec![false; ring.len().div_ceil(block_bytes)];
    for at_block in 0..is_taken.len() {
        let bytes = &ring[at_block * block_bytes..];
        let mut next = if is_taken[at_block] { None } else { LogHeader::decode(bytes, block_size).ok() };
        while let Some(record) = next {
            if record.header.array_uuid == array_uuid && record.is_whole_in(bytes) {
                is_taken[at_block..][..record.header_blocks as usize].fill(true);
                let payload = &mut is_taken[at_block + usize::from(record.payload_at)..];
                payload[..record.payload_blocks() as usize].fill(true);
                found.push(record.found_at(at_block as u64));
            }
            next = record.next_in_block();
        }
    }
    found
}
