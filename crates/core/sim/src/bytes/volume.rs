//! What each block of the volume may hold: the reference that reads are checked against.
//!
//! Every host write gets a number, and every block it writes is filled with a pattern made of that number and the
//! block's address, so a block read back tells which write it came from, and any mixture shows.
//!
//! A block is a register in the sense of L. Lamport, "On interprocess communication" (1986). A read may return
//! version `v` unless another write began after `v` was acknowledged and was itself acknowledged before the read
//! began: then `v` is *superseded*. Writes in flight together may take effect in either order, and a read in
//! flight with them may return any of them. Once no write is in flight, the first read settles the block: all
//! later reads must agree with it, or two copies would differ.
//!
//! Checked: lost, torn, misplaced and resurrected writes. Not checked: that two reads which both overlap one write
//! see it in order; mirrors without a cache do not promise that.

use raidlab_units::{BlockCount, Lba};

/// Number of a host write; 0 is what the volume held at first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteNumber(pub u64);

/// The world's count of events, by which before and after are told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Stamp(pub(crate) u64);

#[derive(Clone, Copy, Debug)]
struct Version {
    write: WriteNumber,
    started: Stamp,
    /// When the host was told; `None` while it is in flight.
    ended: Option<Stamp>,
    /// When it stopped being a possible answer.
    superseded: Option<Stamp>,
}

/// All possible contents of all blocks.
#[derive(Debug)]
pub(crate) struct VolumeHistory {
    blocks: Vec<Vec<Version>>,
    /// Since when each block holds something in particular; `None` after a write to it failed or the array lost it.
    defined_since: Vec<Option<Stamp>>,
}

/// Why what a block holds is wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BlockFault {
    /// It is no pattern of any write to this block.
    #[error("it holds no single write to this block (starts {first_bytes:02x?})")]
    Garbage {
        /// How it starts.
        first_bytes: [u8; 16],
    },
    /// It is a write that had been replaced for good.
    #[error("it holds {held:?}; possible was one of {possible:?}")]
    Stale {
        /// What it holds.
        held: WriteNumber,
        /// What it could have held.
        possible: Vec<WriteNumber>,
    },
}

impl VolumeHistory {
    pub(crate) fn new(volume_blocks: BlockCount) -> Self {
        let first =
            Version { write: WriteNumber(0), started: Stamp(0), ended: Some(Stamp(0)), superseded: None };
        Self {
            blocks: vec![vec![first]; volume_blocks.0 as usize],
            defined_since: vec![Some(Stamp(0)); volume_blocks.0 as usize],
        }
    }

    /// Notes that `write` to `lba` begins. Versions superseded before `oldest`, when the oldest request in
    /// flight began, are forgotten.
    pub(crate) fn begin_write(&mut self, lba: Lba, write: WriteNumber, now: Stamp, oldest: Stamp) {
        let versions = &mut self.blocks[lba.0 as usize];
        versions.retain(|version| version.superseded.is_none_or(|at| at >= oldest));
        versions.push(Version { write, started: now, ended: None, superseded: None });
    }

    /// Notes that the host was told that `write` to `lba` succeeded or failed.
    pub(crate) fn end_write(&mut self, lba: Lba, write: WriteNumber, now: Stamp, succeeded: bool) {
        let versions = &mut self.blocks[lba.0 as usize];
        let ended = versions.iter_mut().find(|version| version.write == write);
        let ended = ended.expect("a write in flight is never forgotten");
        ended.ended = Some(now);
        let started = ended.started;
        let defined_since = &mut self.defined_since[lba.0 as usize];
        *defined_since = if succeeded { Some(defined_since.unwrap_or(now)) } else { None };
        if succeeded {
            supersede(versions, now, |version| version.ended.is_some_and(|at| at < started));
        }
    }

    /// Notes that the array said it lost `lba`.
    pub(crate) fn lose(&mut self, lba: Lba) {
        self.defined_since[lba.0 as usize] = None;
    }

    /// True if a request begun at `started` may find anything at all in `lba`: a write to it had failed, or it was
    /// lost, and no write had succeeded since.
    pub(crate) fn is_undefined(&self, lba: Lba, started: Stamp) -> bool {
        self.defined_since[lba.0 as usize].is_none_or(|at| at > started)
    }

    /// Checks that `content` is what a read of `lba` begun at `started` may return.
    pub(crate) fn check(&self, lba: Lba, content: &[u8], started: Stamp) -> Result<WriteNumber, BlockFault> {
        self.check_by(lba, content, |version| version.superseded.is_none_or(|at| at > started))
    }

    /// Checks that `content` of `lba` is no older than `write`, which has just ended: a later write may be on its way
    /// to where this one has arrived, so a version that is superseded by now is right too.
    pub(crate) fn check_arrived(
        &self,
        lba: Lba,
        content: &[u8],
        write: WriteNumber,
    ) -> Result<(), BlockFault> {
        let versions = &self.blocks[lba.0 as usize];
        let started = versions.iter().find(|version| version.write == write).map(|version| version.started);
        let started = started.expect("a write that has just ended is not forgotten");
        let is_no_older = |version: &Version| version.ended.is_none_or(|ended| ended >= started);
        self.check_by(lba, content, is_no_older).map(|_| ())
    }

    fn check_by(
        &self,
        lba: Lba,
        content: &[u8],
        is_possible: impl Fn(&Version) -> bool,
    ) -> Result<WriteNumber, BlockFault> {
        let held = pattern_of(content, lba).ok_or_else(|| garbage(content))?;
        let possible = || self.blocks[lba.0 as usize].iter().filter(|version| is_possible(version));
        if possible().any(|version| version.write == held) {
            return Ok(held);
        }
        Err(BlockFault::Stale { held, possible: possible().map(|version| version.write).collect() })
    }

    /// Notes that a read begun at `started` returned `held`: with no write in flight meanwhile, that settles it.
    pub(crate) fn settle(&mut self, lba: Lba, held: WriteNumber, started: Stamp) {
        let undefined = self.is_undefined(lba, started);
        let versions = &mut self.blocks[lba.0 as usize];
        let quiet = versions.iter().all(|version| version.ended.is_some_and(|ended| ended < started));
        if quiet && !undefined {
            supersede(versions, started, |version| version.write != held);
        }
    }

    /// The only version that `lba` may hold from now on, or `None` if there are several or it is undefined.
    pub(crate) fn settled(&self, lba: Lba) -> Option<WriteNumber> {
        self.defined_since[lba.0 as usize]?;
        let mut possible = self.blocks[lba.0 as usize].iter().filter(|version| version.superseded.is_none());
        possible.next().filter(|_| possible.next().is_none()).map(|version| version.write)
    }
}

fn supersede(versions: &mut [Version], now: Stamp, is_old: impl Fn(&Version) -> bool) {
    for version in versions.iter_mut().filter(|version| is_old(version)) {
        version.superseded = Some(version.superseded.map_or(now, |at| at.min(now)));
    }
}

fn garbage(content: &[u8]) -> BlockFault {
    let mut first_bytes = [0; 16];
    first_bytes.copy_from_slice(&content[..16]);
    BlockFault::Garbage { first_bytes }
}

/// Fills a block with the pattern of `write` to `lba`: both numbers, then words that depend on them.
pub(crate) fn fill_pattern(block: &mut [u8], lba: Lba, write: WriteNumber) {
    let base = mix(write.0.wrapping_mul(0x9e37_79b9).wrapping_add(lba.0 << 32));
    for (index, word) in block.chunks_exact_mut(8).enumerate() {
        let value = match index {
            0 => write.0,
            1 => lba.0,
            _ => base.wrapping_mul(2 * index as u64 + 1),
        };
        word.copy_from_slice(&value.to_le_bytes());
    }
}

/// Scrambles `z` so that each bit of the result depends on each bit of `z` (the finisher of `SplitMix64`).
const fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The write whose pattern for `lba` fills `block` from end to end.
fn pattern_of(block: &[u8], lba: Lba) -> Option<WriteNumber> {
    let write = WriteNumber(u64::from_le_bytes(block[..8].try_into().ok()?));
    let mut expected = [0; 4096];
    let expected = &mut expected[..block.len()];
    fill_pattern(expected, lba, write);
    (expected == block).then_some(write)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LBA: Lba = Lba(1);

    fn holding(write: u64) -> Vec<u8> {
        let mut block = vec![0; 512];
        fill_pattern(&mut block, LBA, WriteNumber(write));
        block
    }

    fn history() -> VolumeHistory {
        VolumeHistory::new(BlockCount(2))
    }

    #[test]
    fn an_acknowledged_write_supersedes_what_was_there() {
        let mut history = history();
        history.begin_write(LBA, WriteNumber(1), Stamp(1), Stamp(1));
        assert!(history.check(LBA, &holding(0), Stamp(2)).is_ok());
        assert!(history.check(LBA, &holding(1), Stamp(2)).is_ok());
        history.end_write(LBA, WriteNumber(1), Stamp(3), true);
        assert!(history.check(LBA, &holding(0), Stamp(2)).is_ok(), "the read began before");
        assert!(history.check(LBA, &holding(0), Stamp(4)).is_err());
        assert_eq!(history.settled(LBA), Some(WriteNumber(1)));
    }

    #[test]
    fn writes_in_flight_together_may_end_in_either_order_until_read() {
        let mut history = history();
        history.begin_write(LBA, WriteNumber(1), Stamp(1), Stamp(1));
        history.begin_write(LBA, WriteNumber(2), Stamp(2), Stamp(1));
        history.end_write(LBA, WriteNumber(2), Stamp(3), true);
        history.end_write(LBA, WriteNumber(1), Stamp(4), true);
        assert_eq!(history.settled(LBA), None);
        assert!(history.check(LBA, &holding(1), Stamp(5)).is_ok());
        history.settle(LBA, WriteNumber(2), Stamp(5));
        assert!(history.check(LBA, &holding(1), Stamp(6)).is_err());
    }

    #[test]
    fn torn_and_misplaced_blocks_are_garbage() {
        let history = history();
        let mut torn = holding(0);
        torn[300] ^= 1;
        assert!(matches!(history.check(LBA, &torn, Stamp(1)), Err(BlockFault::Garbage { .. })));
        assert!(matches!(history.check(Lba(0), &holding(0), Stamp(1)), Err(BlockFault::Garbage { .. })));
    }
}
