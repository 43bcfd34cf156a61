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
//! Acknowledged is not yet safe: for what must survive a power cut each block has two *floors*, one for what the members
//! hold durably and one for what NVRAM holds beside it. A floor is the writes that may be found:
//! ```text
//!  floor       from ─► every write from this number on, acknowledged or not, and `also`, a few before it
//!  raised by   an acknowledgement that promises the write: from = that write, also = those in flight with it
//!              a flush: from = the first write after the flush began, also = what a read at its beginning could find
//!  after a cut the block holds any one write above its floor (both, if NVRAM survived) until a read tells which
//! ```
//!
//! A block is *gone* when the array can't return it any more: a row was written that had lost more than redundancy restores.
//! Errors are right until a write to it has succeeded and is promised to be kept. If only NVRAM promised that, and the array
//! then reports the write as lost, the block is gone as before.
//!
//! What a read finds after a cut while a device is gone that may bring something else is settled *for now*: reads agree on it
//! until the next start, and no flush promises it, because the device did not hear of that.
//!
//! Left out: that two reads which both overlap one write see it in order; mirrors without a cache do not promise that.

use super::copies::Copies;
use raidlab_units::{BlockCount, Lba};

/// Number of a host write; 0 is what the volume held at first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WriteNumber(pub u64);

/// The world's count of events, by which before and after are told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Stamp(pub(crate) u64);

impl Stamp {
    /// Later than all that happens.
    pub(super) const NEVER: Self = Self(u64::MAX);
}

/// Stands for whichever write a block was left with by a power cut.
const SURVIVOR: WriteNumber = WriteNumber(u64::MAX);

/// Where promised data is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Promise {
    /// On the members, durably.
    OnMembers,
    /// There, or in NVRAM.
    InNvram,
}

/// The writes that may be found in a block after a power cut.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Floor {
    /// Every write from this one on.
    from: WriteNumber,
    /// Writes before it.
    also: Vec<WriteNumber>,
}

impl Floor {
    const NONE: Self = Self { from: WriteNumber(0), also: Vec::new() };

    fn allows(&self, write: WriteNumber) -> bool {
        write >= self.from || self.also.contains(&write)
    }

    /// Allows only what `other` allows, too.
    fn narrow(&mut self, mut other: Self) {
        if other.from > self.from {
            core::mem::swap(self, &mut other);
        }
        self.also.retain(|write| other.allows(*write));
    }
}

/// What a power cut has left.
#[derive(Clone, Debug)]
struct Survivors {
    floor: Floor,
    /// The newest write that had begun.
    newest: WriteNumber,
    /// Whether it is on the members: NVRAM was lost, or there was none.
    is_on_members: bool,
    /// Whether it would survive another power cut; not so after a failover, which leaves it in members' volatile caches.
    is_durable: bool,
    /// No write was on its way to the block: one version only may be found.
    is_firm: bool,
}

#[derive(Clone, Copy, Debug)]
struct Version {
    write: WriteNumber,
    started: Stamp,
    /// When the host was told; never while it is in flight.
    ended: Stamp,
    /// When it stopped being a possible answer.
    superseded: Stamp,
    /// A read has found it after a power cut, but a device is gone for now that may bring something else: nobody promises it.
    is_for_now: bool,
}

impl Version {
    const fn new(write: WriteNumber, started: Stamp, ended: Stamp) -> Self {
        Self { write, started, ended, superseded: Stamp::NEVER, is_for_now: false }
    }

    /// True for what a power cut has left, until a read has told for good what that is.
    fn is_open(&self) -> bool {
        self.write == SURVIVOR || self.is_for_now
    }
}

#[derive(Clone, Debug)]
struct Block {
    versions: Vec<Version>,
    /// Since when it holds something in particular; never after a write to it failed or the array lost it.
    defined_since: Stamp,
    /// By [`Promise`].
    floors: [Floor; 2],
    survivors: Survivors,
    /// Requests that begin before this may be told that it is lost.
    gone_until: Stamp,
    /// No write since it was gone has been promised to be on the members.
    is_gone_on_members: bool,
    /// When a write succeeded since it was lost; never if none did, or none that would survive.
    rewritten: Stamp,
    /// Stands in the list of blocks whose newest data no acknowledgement has promised to keep.
    is_listed: bool,
}

impl Block {
    /// True if no write was on its way when the controller went, and what was acknowledged is above `floor`.
    fn is_firm(&self, floor: &Floor) -> bool {
        let mut possible = self.versions.iter().filter(|version| version.superseded == Stamp::NEVER);
        let (Some(only), None) = (possible.next(), possible.next()) else { return false };
        match only.write {
            SURVIVOR => self.survivors.is_firm,
            write => {
                let is_promised = floor.from >= write && floor.also.iter().all(|also| *also == write);
                is_promised
                    && only.ended != Stamp::NEVER
                    && self.defined_since != Stamp::NEVER
                    && !only.is_for_now
            }
        }
    }

    /// Leaves, from `now` on, only what the survivors allow.
    fn keep_survivor(&mut self, now: Stamp) {
        self.versions.clear();
        self.versions.push(Version::new(SURVIVOR, now, now));
    }
}

/// A block that a read has told of, with its floors before.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) held: WriteNumber,
    /// Its floor since.
    floor: Floor,
    before: [Floor; 2],
}

/// All possible contents of all blocks.
#[derive(Debug)]
pub(crate) struct VolumeHistory {
    blocks: Vec<Block>,
    unpromised: Vec<Lba>,
    /// What writes hold that are no patterns.
    pub(crate) copies: Copies,
}

/// A block that holds a write which had been replaced for good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stale {
    /// What it could have held.
    pub(crate) possible: Vec<WriteNumber>,
}

impl VolumeHistory {
    pub(crate) fn new(volume_blocks: BlockCount) -> Self {
        let first = Version::new(WriteNumber(0), Stamp(0), Stamp(0));
        let survivors = Survivors {
            floor: Floor::NONE,
            newest: WriteNumber(0),
            is_on_members: true,
            is_durable: true,
            is_firm: true,
        };
        let block = Block {
            versions: vec![first],
            defined_since: Stamp(0),
            floors: [Floor::NONE, Floor::NONE],
            survivors,
            gone_until: Stamp(0),
            is_gone_on_members: false,
            rewritten: Stamp::NEVER,
            is_listed: false,
        };
        Self {
            blocks: vec![block; volume_blocks.0 as usize],
            unpromised: Vec::new(),
            copies: Copies::default(),
        }
    }

    /// Notes that `write` to `lba` begins. Versions superseded before `oldest`, when the oldest request in
    /// flight began, are forgotten.
    pub(crate) fn begin_write(&mut self, lba: Lba, write: WriteNumber, now: Stamp, oldest: Stamp) {
        let versions = &mut self.blocks[lba.0 as usize].versions;
        versions.retain(|version| version.superseded >= oldest);
        versions.push(Version::new(write, now, Stamp::NEVER));
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
            block.rewritten = block.rewritten.min(now);
            supersede(&mut block.versions, now, |version| version.ended < started);
        } else {
            block.defined_since = Stamp::NEVER;
        }
        if !core::mem::replace(&mut block.is_listed, true) {
            self.unpromised.push(lba);
        }
    }

    /// Notes that the acknowledgement of `write` to `lba`, which has just ended, promises to keep it.
    pub(crate) fn promise_write(&mut self, lba: Lba, write: WriteNumber, promise: Promise) {
        let block = &mut self.blocks[lba.0 as usize];
        let started = block.versions.iter().find(|version| version.write == write).map(|it| it.started);
        let started = started.expect("a write that has just ended is not forgotten");
        let beside = block.versions.iter().filter(|it| it.write < write && it.ended >= started);
        let also = beside.map(|version| version.write).collect();
        block.floors[promise as usize].narrow(Floor { from: write, also });
        block.gone_until = block.gone_until.min(block.rewritten);
        block.is_gone_on_members &= promise != Promise::OnMembers;
    }

    /// Notes that a flush begun at `started`, when `newest` was the newest write, promises to keep what `lba` held then.
    pub(crate) fn promise_flush(&mut self, lba: Lba, started: Stamp, newest: WriteNumber, promise: Promise) {
        let block = &mut self.blocks[lba.0 as usize];
        let mut possible = block.versions.iter().filter(|version| version.superseded > started);
        // What was lost, or not told to be stored, is not promised either.
        let undefined = block.defined_since > started;
        if undefined || possible.clone().any(Version::is_open) {
            return;
        }
        let also = possible.by_ref().map(|it| it.write).filter(|write| *write <= newest).collect();
        block.floors[promise as usize].narrow(Floor { from: WriteNumber(newest.0 + 1), also });
        if block.rewritten < started {
            block.gone_until = block.gone_until.min(block.rewritten);
            block.is_gone_on_members &= promise != Promise::OnMembers;
        }
    }

    /// Notes that all that is acknowledged is on the members, with no write in flight.
    pub(crate) fn promise_all(&mut self, newest: WriteNumber, now: Stamp) {
        for lba in (0..self.blocks.len() as u64).map(Lba) {
            self.promise_flush(lba, now, newest, Promise::OnMembers);
        }
    }

    /// Notes a power cut at `now`, when `newest` was the newest write. Nothing is in flight any more.
    pub(crate) fn cut(&mut self, newest: WriteNumber, now: Stamp, is_kept: bool) {
        for block in &mut self.blocks {
            let [mut floor, kept] = block.floors.clone();
            // What only NVRAM promised may have been on its way to the members.
            let is_firm = block.is_firm(&floor);
            if is_kept {
                floor.narrow(kept);
            }
            block.floors[Promise::InNvram as usize] = floor.clone();
            block.rewritten = Stamp::NEVER;
            block.survivors = Survivors { floor, newest, is_on_members: !is_kept, is_durable: true, is_firm };
            block.keep_survivor(now);
        }
    }

    /// Notes at `now` that the second controller takes over, when `newest` was the newest write. All that was acknowledged is
    /// there, and nothing is in flight any more; what would survive a power cut has not changed.
    pub(crate) fn fail_over(&mut self, newest: WriteNumber, now: Stamp) {
        for block in &mut self.blocks {
            let mut possible = block.versions.iter().filter(|version| version.superseded > now);
            let floor = if possible.clone().any(Version::is_open) {
                block.survivors.floor.clone()
            } else {
                let also = possible.by_ref().map(|version| version.write).collect();
                Floor { from: WriteNumber(newest.0 + 1), also }
            };
            let is_firm = block.is_firm(&block.floors[Promise::OnMembers as usize]);
            block.survivors = Survivors { floor, newest, is_on_members: false, is_durable: false, is_firm };
            block.keep_survivor(now);
        }
    }

    /// True if a write was on its way to `lba` when the controller went that it had then, so that the block may be the old or
    /// the new one.
    pub(crate) fn was_being_written(&self, lba: Lba) -> bool {
        !self.blocks[lba.0 as usize].survivors.is_firm
    }

    /// True while a block holds what a power cut has left, and no write has replaced that.
    pub(crate) fn is_open(&self, lba: Lba) -> bool {
        self.blocks[lba.0 as usize].versions.iter().any(Version::is_open)
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

    /// Notes that the array said it could not store what it had of `lba` in its cache. What it promised of that is void,
    /// unless NVRAM is to keep it.
    pub(crate) fn lose(&mut self, lba: Lba, is_kept: bool) {
        let block = &mut self.blocks[lba.0 as usize];
        block.defined_since = Stamp::NEVER;
        if !is_kept {
            block.floors[Promise::InNvram as usize] = block.floors[Promise::OnMembers as usize].clone();
        }
        if block.is_gone_on_members {
            self.give_up(lba);
        }
    }

    /// Notes that nothing brings `lba` back: the array may say so until a write to it is promised to be kept.
    pub(crate) fn give_up(&mut self, lba: Lba) {
        let block = &mut self.blocks[lba.0 as usize];
        (block.gone_until, block.rewritten) = (Stamp::NEVER, Stamp::NEVER);
        block.is_gone_on_members = true;
    }

    /// True if a request begun at `started` may be told that `lba` is lost.
    pub(crate) fn may_be_gone(&self, lba: Lba, started: Stamp) -> bool {
        self.blocks[lba.0 as usize].gone_until > started
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
        let Block { versions, survivors, .. } = &self.blocks[lba.0 as usize];
        let is_it = |version: &Version| match version.write {
            SURVIVOR => held <= survivors.newest && survivors.floor.allows(held),
            write => write == held,
        };
        if versions.iter().any(|version| is_it(version) && is_possible(version)) {
            return Ok(());
        }
        let possible = versions.iter().filter(|version| is_possible(version));
        let mut writes: Vec<_> = possible.map(|version| version.write).collect();
        if writes.contains(&SURVIVOR) {
            // Those of the floor stand for it.
            writes.retain(|write| *write != SURVIVOR);
            writes.extend_from_slice(&survivors.floor.also);
            writes.push(survivors.floor.from);
        }
        Err(Stale { possible: writes })
    }

    /// Notes that a read begun at `started` returned `held`: with no write in flight meanwhile, that settles it; `for_good`
    /// unless a device is gone for now that may bring something else.
    pub(crate) fn settle(&mut self, lba: Lba, held: WriteNumber, started: Stamp, for_good: bool) {
        let block = &mut self.blocks[lba.0 as usize];
        let undefined = block.defined_since > started;
        let quiet = block.versions.iter().all(|version| version.ended < started);
        if !quiet || undefined {
            return;
        }
        if held <= block.survivors.newest
            && let Some(survivor) = block.versions.iter_mut().find(|version| version.is_open())
        {
            (survivor.write, survivor.is_for_now) = (held, !for_good);
            let Survivors { newest, is_on_members, is_durable, .. } = block.survivors;
            let told = Floor { from: WriteNumber(newest.0 + 1), also: vec![held] };
            if is_on_members && for_good {
                block.floors[Promise::OnMembers as usize].narrow(told.clone());
            }
            if is_durable && for_good {
                block.floors[Promise::InNvram as usize].narrow(told);
            }
        }
        supersede(&mut block.versions, started, |version| version.write != held);
    }

    /// What [`VolumeHistory::take_back`] needs to know of `lba` before a read tells of it.
    pub(crate) fn before_told(&self, lba: Lba) -> Told {
        Told { held: SURVIVOR, floor: Floor::NONE, before: self.blocks[lba.0 as usize].floors.clone() }
    }

    /// Notes what a read has told of `lba`; false if it did not settle that, or a write that ended during the read did.
    pub(crate) fn note_told(&self, lba: Lba, told: &mut Told) -> bool {
        let newest = self.blocks[lba.0 as usize].survivors.newest;
        let Some(held) = self.settled(lba).filter(|held| *held <= newest) else { return false };
        (told.held, told.floor) = (held, Floor { from: WriteNumber(newest.0 + 1), also: vec![held] });
        true
    }

    /// Takes back what a read has told of `lba`: it may be again what the power cut had left, unless it was written since.
    pub(crate) fn take_back(&mut self, lba: Lba, told: &Told) {
        let Block { versions, floors, survivors, .. } = &mut self.blocks[lba.0 as usize];
        let [on_members, in_nvram] = &told.before;
        let before = if survivors.is_on_members { on_members } else { in_nvram };
        for (floor, before) in
            [(&mut survivors.floor, before)].into_iter().chain(floors.iter_mut().zip(&told.before))
        {
            if *floor == told.floor {
                floor.clone_from(before);
            }
        }
        let is_it = |version: &&mut Version| version.write == told.held && version.superseded == Stamp::NEVER;
        if let Some(version) = versions.iter_mut().find(is_it) {
            (version.write, version.is_for_now) = (SURVIVOR, false);
        }
    }

    /// The only version that `lba` may hold from now on, or `None` if there are several or it is undefined.
    pub(crate) fn settled(&self, lba: Lba) -> Option<WriteNumber> {
        let block = &self.blocks[lba.0 as usize];
        if block.defined_since == Stamp::NEVER {
            return None;
        }
        let mut possible = block.versions.iter().filter(|version| version.superseded == Stamp::NEVER);
        let only = possible.next().filter(|_| possible.next().is_none()).map(|version| version.write);
        only.filter(|write| *write != SURVIVOR)
    }
}

fn supersede(versions: &mut [Version], now: Stamp, is_old: impl Fn(&Version) -> bool) {
    for version in versions.iter_mut().filter(|version| is_old(version)) {
        version.superseded = version.superseded.min(now);
    }
}

#[cfg(test)]
mod tests;
