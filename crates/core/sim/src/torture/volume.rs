//! What each block of the volume may hold: the reference that reads and members are checked against.
//!
//! Every host write has a number, and the blocks that it writes are filled with patterns that name it (see
//! `checkers/provenance.rs`), so a block read back tells which write it came from.
//!
//! A block is a register in the sense of L. Lamport, "On interprocess communication" (1986). A read may return
//! version `v` unless another write began after `v` was acknowledged and was itself acknowledged before the read
//! began: then `v` is *superseded*. Writes in flight together may take effect in either order, and a read in
//! flight with them may return any of them. Once no write is in flight, the first read settles the block: all
//! later reads must agree with it, or two copies would differ.
//!
//! Left out: that two reads which both overlap one write see it in order; mirrors without a cache do not promise that.

use raidlab_units::{BlockCount, Lba};

/// Number of a host write; 0 is what the volume held at first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WriteNumber(pub u64);

/// The world's count of events, by which before and after are told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Stamp(pub(crate) u64);

impl Stamp {
    /// Later than all that happens.
    const NEVER: Self = Self(u64::MAX);
}

#[derive(Clone, Copy, Debug)]
struct Version {
    write: WriteNumber,
    started: Stamp,
    /// When the host was told; never while it is in flight.
    ended: Stamp,
    /// When it stopped being a possible answer.
    superseded: Stamp,
}

#[derive(Clone, Debug)]
struct Block {
    versions: Vec<Version>,
    /// Since when it holds something in particular; never after a write to it failed or the array lost it.
    defined_since: Stamp,
    /// Stands in the list of blocks whose newest data no acknowledgement has promised to keep.
    is_listed: bool,
}

/// All possible contents of all blocks.
#[derive(Debug)]
pub(crate) struct VolumeHistory {
    blocks: Vec<Block>,
    unpromised: Vec<Lba>,
}

/// A block that holds a write which had been replaced for good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stale {
    /// What it could have held.
    pub(crate) possible: Vec<WriteNumber>,
}

impl VolumeHistory {
    pub(crate) fn new(volume_blocks: BlockCount) -> Self {
        let first = Version {
            write: WriteNumber(0),
            started: Stamp(0),
            ended: Stamp(0),
            superseded: Stamp::NEVER,
        };
        let block = Block { versions: vec![first], defined_since: Stamp(0), is_listed: false };
        Self { blocks: vec![block; volume_blocks.0 as usize], unpromised: Vec::new() }
    }

    /// Notes that `write` to `lba` begins. Versions superseded before `oldest`, when the oldest request in
    /// flight began, are forgotten.
    pub(crate) fn begin_write(&mut self, lba: Lba, write: WriteNumber, now: Stamp, oldest: Stamp) {
        let versions = &mut self.blocks[lba.0 as usize].versions;
        versions.retain(|version| version.superseded >= oldest);
        versions.push(Version { write, started: now, ended: Stamp::NEVER, superseded: Stamp::NEVER });
    }

    /// Notes that the host was told that `write` to `lba` succeeded or failed.
    pub(crate) fn end_write(&mut self, lba: Lba, write: WriteNumber, now: Stamp, succeeded: bool) {
        let block = &mut self.blocks[lba.0 as usize];
        let ended = block.versions.iter_mut().find(|version| version.write == write);
        let ended = ended.expect("a write in flight is never forgotten");
        ended.ended = now;
        let started = ended.started;
        if succeeded {
            block.defined_since = block.defined_since.min(now);
            supersede(&mut block.versions, now, |version| version.ended < started);
        } else {
            block.defined_since = Stamp::NEVER;
        }
        if !core::mem::replace(&mut block.is_listed, true) {
            self.unpromised.push(lba);
        }
    }

    /// Takes the blocks written since an acknowledgement promised to keep what they held.
    pub(crate) fn take_unpromised(&mut self) -> Vec<Lba> {
        for lba in &self.unpromised {
            self.blocks[lba.0 as usize].is_listed = false;
        }
        core::mem::take(&mut self.unpromised)
    }

    /// Gives back the list that was taken, but for the blocks that no write has touched since `promised`.
    pub(crate) fn keep_unpromised(&mut self, mut list: Vec<Lba>, promised: Stamp) {
        list.retain(|lba| {
            let block = &mut self.blocks[lba.0 as usize];
            let is_newer = block.versions.iter().any(|version| version.ended >= promised);
            is_newer && !core::mem::replace(&mut block.is_listed, true)
        });
        list.append(&mut self.unpromised);
        self.unpromised = list;
    }

    /// Notes that the array said it lost `lba`.
    pub(crate) fn lose(&mut self, lba: Lba) {
        self.blocks[lba.0 as usize].defined_since = Stamp::NEVER;
    }

    /// True if a request begun at `started` may find anything at all in `lba`: a write to it had failed, or it was
    /// lost, and no write had succeeded since.
    pub(crate) fn is_undefined(&self, lba: Lba, started: Stamp) -> bool {
        self.blocks[lba.0 as usize].defined_since > started
    }

    /// Checks that a read of `lba` begun at `started` may return `held`.
    pub(crate) fn check(&self, lba: Lba, held: WriteNumber, started: Stamp) -> Result<(), Stale> {
        self.check_by(lba, held, |version| version.superseded > started)
    }

    /// Checks that `held` is no older than `write` to `lba`, which has just ended: a later write may be on its way to
    /// where this one has arrived, so a version that is superseded by now is right too.
    pub(crate) fn check_arrived(&self, lba: Lba, held: WriteNumber, write: WriteNumber) -> Result<(), Stale> {
        let versions = &self.blocks[lba.0 as usize].versions;
        let started = versions.iter().find(|version| version.write == write).map(|version| version.started);
        let started = started.expect("a write that has just ended is not forgotten");
        self.check_by(lba, held, |version| version.ended >= started)
    }

    fn check_by(
        &self,
        lba: Lba,
        held: WriteNumber,
        is_possible: impl Fn(&Version) -> bool,
    ) -> Result<(), Stale> {
        let versions = &self.blocks[lba.0 as usize].versions;
        if versions.iter().any(|version| version.write == held && is_possible(version)) {
            return Ok(());
        }
        let possible = versions.iter().filter(|version| is_possible(version));
        Err(Stale { possible: possible.map(|version| version.write).collect() })
    }

    /// Notes that a read begun at `started` returned `held`: with no write in flight meanwhile, that settles it.
    pub(crate) fn settle(&mut self, lba: Lba, held: WriteNumber, started: Stamp) {
        let block = &mut self.blocks[lba.0 as usize];
        let undefined = block.defined_since > started;
        let quiet = block.versions.iter().all(|version| version.ended < started);
        if quiet && !undefined {
            supersede(&mut block.versions, started, |version| version.write != held);
        }
    }

    /// The only version that `lba` may hold from now on, or `None` if there are several or it is undefined.
    pub(crate) fn settled(&self, lba: Lba) -> Option<WriteNumber> {
        let block = &self.blocks[lba.0 as usize];
        if block.defined_since == Stamp::NEVER {
            return None;
        }
        let mut possible = block.versions.iter().filter(|version| version.superseded == Stamp::NEVER);
        possible.next().filter(|_| possible.next().is_none()).map(|version| version.write)
    }
}

fn supersede(versions: &mut [Version], now: Stamp, is_old: impl Fn(&Version) -> bool) {
    for version in versions.iter_mut().filter(|version| is_old(version)) {
        version.superseded = version.superseded.min(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LBA: Lba = Lba(1);
    const FIRST: WriteNumber = WriteNumber(0);
    const ONE: WriteNumber = WriteNumber(1);
    const TWO: WriteNumber = WriteNumber(2);

    fn history() -> VolumeHistory {
        VolumeHistory::new(BlockCount(2))
    }

    #[test]
    fn an_acknowledged_write_supersedes_what_was_there() {
        let mut history = history();
        history.begin_write(LBA, ONE, Stamp(1), Stamp(1));
        assert!(history.check(LBA, FIRST, Stamp(2)).is_ok());
        assert!(history.check(LBA, ONE, Stamp(2)).is_ok());
        history.end_write(LBA, ONE, Stamp(3), true);
        assert!(history.check(LBA, FIRST, Stamp(2)).is_ok(), "the read began before");
        assert_eq!(history.check(LBA, FIRST, Stamp(4)), Err(Stale { possible: vec![ONE] }));
        assert_eq!(history.settled(LBA), Some(ONE));
    }

    #[test]
    fn writes_in_flight_together_may_end_in_either_order_until_read() {
        let mut history = history();
        history.begin_write(LBA, ONE, Stamp(1), Stamp(1));
        history.begin_write(LBA, TWO, Stamp(2), Stamp(1));
        history.end_write(LBA, TWO, Stamp(3), true);
        history.end_write(LBA, ONE, Stamp(4), true);
        assert_eq!(history.settled(LBA), None);
        assert!(history.check(LBA, ONE, Stamp(5)).is_ok());
        history.settle(LBA, TWO, Stamp(5));
        assert!(history.check(LBA, ONE, Stamp(6)).is_err());
    }

    #[test]
    fn a_block_stays_in_the_list_until_a_promise_covers_its_last_write() {
        let mut history = history();
        history.begin_write(LBA, ONE, Stamp(1), Stamp(1));
        history.end_write(LBA, ONE, Stamp(2), true);
        let list = history.take_unpromised();
        assert_eq!(list, [LBA]);
        history.keep_unpromised(list, Stamp(2));
        let list = history.take_unpromised();
        assert_eq!(list, [LBA], "the flush began before the write ended");
        history.keep_unpromised(list, Stamp(3));
        assert!(history.take_unpromised().is_empty());
    }
}
