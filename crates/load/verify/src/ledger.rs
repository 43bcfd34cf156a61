//! The ledger: which writes a block may hold when it is read, right under any number of requests in flight.
//!
//! Time is a counter that increases whenever a write begins or ends; a write's *sequence* is the count at which it
//! began. Storage may apply a write at any moment between its begin and its end, sector by sector. So a read may find
//! write `s` unless another write `w` of the same place began after `s` had ended, and ended before the read began:
//!
//! ```text
//!   s |----|                 s |------|              s |----|
//!   w         |----|         w     |-----|           w        |----------|
//!   read              |--|   read            |--|    read            |--|
//!        s must not be            s or w                  s or w
//! ```
//! For each block the ledger keeps the sequence of the newest write that has ended (`newest`). A write that is no older
//! may be there. An older one may be there only if it was in flight together with the newest: such writes are rare, and
//! are kept in a list of *contenders* until a later write rules them out. Sectors are judged one by one: a block is
//! torn if some of its sectors may be there and others may not.
//!
//! Not judged:
//! - a block that this run has not written, unless it holds a stamp of this run, which then does not belong there;
//! - the checksum of a sector that was read while it was written, or written by two requests at once: it may mix both,
//!   because a page cache copies without a lock;
//! - a block in which a write ended during the read, and which holds something older still; these are counted.
//!
//! Memory: eight bytes for each block, and the blocks of one request for each slot. A request allocates only if two
//! writes overlap in flight.

use crate::stamp::{STAMPED_SECTOR_BYTES, SectorState, Stamp, read_sector, stamp_sectors};
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

/// What is wrong with a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// It holds something older than what was written there last, or nothing: a write was acknowledged and lost.
    Lost {
        /// The write it holds, if it holds one of this run.
        found: Option<u64>,
    },
    /// Some of its sectors hold what they should, others something older.
    Torn {
        /// First sector of the block that is too old, counted within the block.
        sector: u32,
    },
    /// It holds what was written to another place.
    WrongPlace {
        /// The block for which that was meant.
        meant_for: u64,
        /// Which write it was.
        sequence: u64,
    },
    /// The checksum of a sector is wrong: bits have changed.
    Damaged {
        /// First such sector, counted within the block.
        sector: u32,
    },
}

/// A block that does not hold what it must.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Which block of the target.
    pub block: u64,
    /// Bytes of a block.
    pub block_bytes: u32,
    /// The newest write that had ended when the read began; 0 if there was none.
    pub expected: u64,
    /// What is wrong.
    pub kind: FaultKind,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (block, expected) = (self.block, self.expected);
        write!(f, "block {block} (from byte {}): ", block * u64::from(self.block_bytes))?;
        match self.kind {
            FaultKind::Lost { found: Some(found) } => {
                write!(f, "write {expected} is lost; the block holds write {found}")
            }
            FaultKind::Lost { found: None } => {
                write!(f, "write {expected} is lost; the block holds nothing of this run")
            }
            FaultKind::Torn { sector } => {
                write!(f, "write {expected} is torn; sector {sector} of the block is older")
            }
            FaultKind::WrongPlace { meant_for, sequence } => {
                write!(f, "it holds write {sequence}, which was meant for block {meant_for}")
            }
            FaultKind::Damaged { sector } => {
                write!(f, "bits have changed: the checksum of sector {sector} of the block is wrong")
            }
        }
    }
}

/// What came of checking.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// Blocks that hold what they must.
    pub good: u64,
    /// Blocks about which nothing can be said: this run has not written them, or a write ended while they were read.
    pub unjudged: u64,
    /// Blocks that hold what they must not.
    pub faulty: u64,
}

#[derive(Clone, Copy, Debug)]
struct Flight {
    sequence: u64,
    first: u64,
    blocks: u64,
}

/// A write that was in flight together with another one of the same block.
#[derive(Clone, Copy, Debug)]
struct Contender {
    sequence: u64,
    ended: Option<u64>,
}

/// What each block of a target may hold.
#[derive(Clone, Debug)]
pub struct Ledger {
    run: u64,
    block_bytes: u32,
    now: u64,
    newest: Vec<u64>,
    writes: Vec<Option<Flight>>,
    reads: Vec<Snapshot>,
    contenders: BTreeMap<u64, Vec<Contender>>,
    checked: Checked,
}

/// A read, and what it may find.
#[derive(Clone, Debug, Default)]
struct Snapshot {
    in_flight: bool,
    first: u64,
    newest: Vec<u64>,
    /// From the first to the last block that was being written while it was being read.
    in_flux: Range<u64>,
}

impl Snapshot {
    fn note_write(&mut self, first: u64, blocks: u64) {
        let end = self.first + self.newest.len() as u64;
        let common = first.max(self.first)..(first + blocks).min(end);
        if common.is_empty() {
            return;
        }
        self.in_flux = if self.in_flux.is_empty() {
            common
        } else {
            self.in_flux.start.min(common.start)..self.in_flux.end.max(common.end)
        };
    }
}

impl Ledger {
    /// A ledger of `blocks` blocks of `block_bytes`, for requests in `slots` slots of at most `blocks_per_io` blocks each;
    /// `run` is any number that tells this run from others.
    ///
    /// # Panics
    /// If a block is not a whole number of sectors, and at least one.
    pub fn new(run: u64, blocks: u64, block_bytes: u32, slots: u32, blocks_per_io: u32) -> Self {
        let sector = STAMPED_SECTOR_BYTES as u32;
        assert!(block_bytes >= sector && block_bytes.is_multiple_of(sector), "blocks are whole sectors");
        let snapshot = Snapshot { newest: Vec::with_capacity(blocks_per_io as usize), ..Snapshot::default() };
        Self {
            run,
            block_bytes,
            now: 0,
            newest: vec![0; usize::try_from(blocks).expect("as many blocks as memory can hold")],
            writes: vec![None; slots as usize],
            reads: vec![snapshot; slots as usize],
            contenders: BTreeMap::new(),
            checked: Checked::default(),
        }
    }

    /// Bytes of a block.
    pub fn block_bytes(&self) -> u32 {
        self.block_bytes
    }

    /// What all checks so far came to.
    pub fn checked(&self) -> Checked {
        self.checked
    }

    /// A write of `bytes` from `first_block` on is about to begin in `slot`: stamps them and returns its sequence.
    ///
    /// # Panics
    /// If `bytes` are not whole blocks of the target, or the slot has a write in flight.
    pub fn begin_write(&mut self, slot: u32, first_block: u64, bytes: &mut [u8]) -> u64 {
        let blocks = self.blocks_of(first_block, bytes.len());
        self.now += 1;
        let flight = Flight { sequence: self.now, first: first_block, blocks };
        for other in self.writes.iter().flatten() {
            let common = first_block.max(other.first)..(first_block + blocks).min(other.first + other.blocks);
            for block in common {
                let contenders = self.contenders.entry(block).or_default();
                for sequence in [other.sequence, flight.sequence] {
                    if contenders.iter().all(|contender| contender.sequence != sequence) {
                        contenders.push(Contender { sequence, ended: None });
                    }
                }
            }
        }
        for read in self.reads.iter_mut().filter(|read| read.in_flight) {
            read.note_write(first_block, blocks);
        }
        let place = &mut self.writes[slot as usize];
        assert!(place.is_none(), "slot {slot} has a write in flight");
        *place = Some(flight);
        let sectors = u64::from(self.block_bytes) / STAMPED_SECTOR_BYTES as u64;
        stamp_sectors(bytes, self.run, first_block * sectors, flight.sequence);
        flight.sequence
    }

    /// The write in `slot` has ended. One that failed may or may not be on the target; it replaces nothing for certain.
    ///
    /// # Panics
    /// If the slot has no write in flight.
    pub fn end_write(&mut self, slot: u32, succeeded: bool) {
        let flight = self.writes[slot as usize].take().expect("a write ends once");
        self.now += 1;
        for block in flight.first..flight.first + flight.blocks {
            let newest = &mut self.newest[block as usize];
            if succeeded {
                *newest = flight.sequence.max(*newest);
            }
            if !self.contenders.is_empty() {
                let newest = *newest;
                self.end_contender(block, flight.sequence, newest);
            }
        }
    }

    /// Notes that a contender has ended, and forgets those whose time is over.
    fn end_contender(&mut self, block: u64, sequence: u64, newest: u64) {
        let Some(contenders) = self.contenders.get_mut(&block) else { return };
        for contender in contenders.iter_mut().filter(|contender| contender.sequence == sequence) {
            contender.ended = Some(self.now);
        }
        contenders.retain(|contender| contender.ended.is_none_or(|ended| ended > newest));
        let is_over =
            contenders.iter().all(|contender| contender.ended.is_some() && contender.sequence >= newest);
        if is_over {
            self.contenders.remove(&block);
        }
    }

    /// A read of `bytes` bytes from `first_block` on is about to begin in `slot`.
    ///
    /// # Panics
    /// If these are not whole blocks of the target.
    pub fn begin_read(&mut self, slot: u32, first_block: u64, bytes: usize) {
        let blocks = self.blocks_of(first_block, bytes);
        let snapshot = &mut self.reads[slot as usize];
        snapshot.in_flight = true;
        snapshot.first = first_block;
        snapshot.newest.clear();
        snapshot
            .newest
            .extend_from_slice(&self.newest[first_block as usize..(first_block + blocks) as usize]);
        snapshot.in_flux = 0..0;
        for write in self.writes.iter().flatten() {
            snapshot.note_write(write.first, write.blocks);
        }
    }

    /// Judges what the read in `slot` brought; `report` is told of each block that holds what it must not.
    ///
    /// # Panics
    /// If `bytes` are not as many as [`Ledger::begin_read`] was told.
    pub fn end_read(&mut self, slot: u32, bytes: &[u8], report: &mut dyn FnMut(Fault)) {
        self.reads[slot as usize].in_flight = false;
        let snapshot = &self.reads[slot as usize];
        let block_bytes = self.block_bytes as usize;
        assert_eq!(bytes.len(), snapshot.newest.len() * block_bytes, "a read brings what it was asked for");
        let mut checked = self.checked;
        let blocks = (snapshot.first..).zip(&snapshot.newest).zip(bytes.chunks_exact(block_bytes));
        for ((block, expected), bytes) in blocks {
            match self.judge(block, *expected, snapshot.in_flux.contains(&block), bytes) {
                Verdict::Good => checked.good += 1,
                Verdict::Unjudged => checked.unjudged += 1,
                Verdict::Faulty(kind) => {
                    checked.faulty += 1;
                    report(Fault { block, block_bytes: self.block_bytes, expected: *expected, kind });
                }
            }
        }
        self.checked = checked;
    }

    fn judge(&self, block: u64, expected: u64, in_flux: bool, bytes: &[u8]) -> Verdict {
        let sectors_per_block = u64::from(self.block_bytes) / STAMPED_SECTOR_BYTES as u64;
        let mut found = Found::default();
        for (index, bytes) in (0u32..).zip(bytes.chunks_exact(STAMPED_SECTOR_BYTES)) {
            match read_sector(bytes) {
                SectorState::Stamped(stamp) if stamp.run == self.run => {
                    let place = block * sectors_per_block + u64::from(index);
                    if stamp.sector != place {
                        let meant_for = stamp.sector / sectors_per_block;
                        let sequence = stamp.sequence;
                        return Verdict::Faulty(FaultKind::WrongPlace { meant_for, sequence });
                    }
                    self.judge_sector(block, expected, stamp, index, &mut found);
                }
                SectorState::Damaged if in_flux || self.contenders.contains_key(&block) => {
                    found.unjudged = true;
                }
                SectorState::Damaged => {
                    found.damaged.get_or_insert(index);
                }
                _ if expected == 0 => found.unjudged = true,
                _ => {
                    found.old.get_or_insert((index, None));
                }
            }
        }
        match found {
            Found { damaged: Some(sector), .. } if expected > 0 => {
                Verdict::Faulty(FaultKind::Damaged { sector })
            }
            Found { old: Some((sector, _)), may_be: true, .. } => Verdict::Faulty(FaultKind::Torn { sector }),
            Found { old: Some((_, found)), .. } => Verdict::Faulty(FaultKind::Lost { found }),
            Found { unjudged: true, .. } | Found { damaged: Some(_), .. } => Verdict::Unjudged,
            _ => Verdict::Good,
        }
    }

    /// Whether a sector of this run, in its place, may hold the write that it holds.
    fn judge_sector(&self, block: u64, expected: u64, stamp: Stamp, index: u32, found: &mut Found) {
        let is_contender = || {
            self.contenders.get(&block).is_some_and(|contenders| {
                contenders.iter().any(|contender| {
                    contender.sequence == stamp.sequence
                        && contender.ended.is_none_or(|ended| ended > expected)
                })
            })
        };
        if stamp.sequence >= expected || is_contender() {
            found.may_be = true;
        } else if self.newest[block as usize] != expected {
            found.unjudged = true;
        } else {
            found.old.get_or_insert((index, Some(stamp.sequence)));
        }
    }

    fn blocks_of(&self, first_block: u64, bytes: usize) -> u64 {
        let block_bytes = self.block_bytes as usize;
        assert!(bytes.is_multiple_of(block_bytes), "requests are whole blocks");
        let blocks = (bytes / block_bytes) as u64;
        assert!(first_block + blocks <= self.newest.len() as u64, "requests are within the target");
        blocks
    }
}

enum Verdict {
    Good,
    Unjudged,
    Faulty(FaultKind),
}

/// What the sectors of a block came to.
#[derive(Default)]
struct Found {
    /// A sector holds what it may.
    may_be: bool,
    unjudged: bool,
    /// First sector whose checksum is wrong.
    damaged: Option<u32>,
    /// First sector that is too old, and the write it holds.
    old: Option<(u32, Option<u64>)>,
}

#[cfg(test)]
mod tests;
