//! What clients may find in the volume: the judge of reads, acknowledgements and crashes.
//!
//! The volume is a row of cells. What a write stores into a cell names the cell and the write, so each cell tells which write it
//! holds, and bytes that belong together show when they were torn apart.
//!
//! | event | may be found from then on |
//! |---|---|
//! | a write is sent | it, beside what there was |
//! | it is acknowledged | it, and those that were not over when it began |
//! | it is refused, or its client is gone | it, beside what there was |
//! | its payload was cut off | not it |
//! | the process ends, and the cache outlives it | what might be found before |
//! | another crash | what may be found, and what was overwritten by nothing that a flush, or forced unit access, has covered |
//!
//! Verified: bytes of every reply, after crashes all bytes of the volume. Not verified: what is read during a write of the same cell
//! beyond that it is one of both.

use std::collections::{BTreeMap, BTreeSet};

/// Length of a cell. Requests begin and end at multiples of it, which are no multiples of a block.
pub(crate) const CELL_BYTES: u64 = 128;

/// What a cell holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Value {
    Zeros,
    /// Of the write of this number.
    Write(u32),
}

/// A value that may be found.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    /// The request that stored it; 0 for what there was before.
    request: u32,
    value: Value,
    began: u64,
    /// Acknowledged, refused, or over with a crash.
    ended: Option<u64>,
    is_acknowledged: bool,
    /// Overwritten for all reads that begin later.
    gone: Option<u64>,
    /// Overwritten by what survives a crash.
    is_buried: bool,
}

impl Candidate {
    const fn before(value: Value, now: u64) -> Self {
        let (ended, gone) = (Some(now), None);
        Self { request: 0, value, began: now, ended, is_acknowledged: true, gone, is_buried: false }
    }
}

/// A range of cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cells {
    pub(crate) first: u32,
    pub(crate) count: u32,
}

impl Cells {
    fn all(self) -> std::ops::Range<u32> {
        self.first..self.first + self.count
    }
}

/// How a request that stores something ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WriteEnd {
    /// With or without forced unit access.
    Acknowledged {
        fua: bool,
    },
    Refused,
    /// Nobody will hear of it, and it may be carried out as long as the server lives.
    Unknown,
    /// From this cell on it was never sent.
    CutOff {
        from: u32,
    },
}

/// What may be found in the volume.
#[derive(Debug)]
pub(crate) struct Oracle {
    /// Cells of which more than one value was ever stored, or one that is no zeros; else they are zeros.
    cells: BTreeMap<u32, Vec<Candidate>>,
    /// Those with more than one candidate.
    open: BTreeSet<u32>,
    /// Counts events.
    now: u64,
    /// When reads in flight began.
    reads: BTreeMap<u64, u32>,
    /// What is acknowledged survives.
    keeps_all: bool,
    /// Those whose writes a crash may have torn, until they are written again.
    torn: BTreeSet<u32>,
}

impl Oracle {
    /// A volume of zeros. `keeps_all` says that every acknowledged write survives a crash.
    pub(crate) fn new(keeps_all: bool) -> Self {
        let (cells, open) = (BTreeMap::new(), BTreeSet::new());
        Self { cells, open, now: 1, reads: BTreeMap::new(), keeps_all, torn: BTreeSet::new() }
    }

    fn tick(&mut self) -> u64 {
        self.now += 1;
        self.now
    }

    /// A request stores `value` into cells from now on. Returns when that began.
    pub(crate) fn begin_write(&mut self, request: u32, cells: Cells, value: Value) -> u64 {
        let began = self.tick();
        for cell in cells.all() {
            let found = self.cells.entry(cell).or_insert_with(|| vec![Candidate::before(Value::Zeros, 0)]);
            let (ended, gone) = (None, None);
            let is_acknowledged = false;
            found.push(Candidate { request, value, began, ended, is_acknowledged, gone, is_buried: false });
            self.open.insert(cell);
        }
        began
    }

    /// It has ended.
    pub(crate) fn end_write(&mut self, request: u32, cells: Cells, end: WriteEnd) {
        let now = self.tick();
        let oldest_read = self.reads.keys().next().copied().unwrap_or(u64::MAX);
        for cell in cells.all() {
            let found = self.cells.get_mut(&cell).expect("it was begun");
            if let WriteEnd::CutOff { from } = end
                && cell >= from
            {
                found.retain(|candidate| candidate.request != request);
                continue;
            }
            let own = found.iter_mut().find(|candidate| candidate.request == request);
            // Buried under later ones already, or gone with a crash.
            let Some(own) = own else { continue };
            match end {
                WriteEnd::Unknown | WriteEnd::CutOff { .. } => continue,
                WriteEnd::Refused => own.ended = Some(now),
                WriteEnd::Acknowledged { fua } => {
                    (own.ended, own.is_acknowledged) = (Some(now), true);
                    let began = own.began;
                    overwrite(found, began, now, fua || self.keeps_all);
                    self.torn.remove(&cell);
                }
            }
            tidy(found, oldest_read);
            if found.len() == 1 {
                self.open.remove(&cell);
            }
        }
    }

    /// A flush begins. Returns when.
    pub(crate) fn begin_flush(&mut self) -> u64 {
        self.tick()
    }

    /// A flush that began at `began` was acknowledged.
    pub(crate) fn end_flush(&mut self, began: u64) {
        let now = self.tick();
        let oldest_read = self.reads.keys().next().copied().unwrap_or(u64::MAX);
        let covered = |candidate: &Candidate| {
            candidate.is_acknowledged && candidate.ended.is_some_and(|ended| ended < began)
        };
        for cell in std::mem::take(&mut self.open) {
            let found = self.cells.get_mut(&cell).expect("it is open");
            let latest = found.iter().filter(|it| covered(it)).map(|it| it.began).max();
            if let Some(latest) = latest {
                overwrite(found, latest, now, true);
            }
            tidy(found, oldest_read);
            if found.len() > 1 {
                self.open.insert(cell);
            }
        }
    }

    /// A read begins. Returns when.
    pub(crate) fn begin_read(&mut self) -> u64 {
        let now = self.tick();
        *self.reads.entry(now).or_default() += 1;
        now
    }

    /// A read that began at `began` is over, well or not.
    pub(crate) fn end_read(&mut self, began: u64) {
        self.reads.remove(&began);
    }

    /// Judges what a read that began at `began` found in a cell.
    ///
    /// # Errors
    /// In words what may be found there.
    pub(crate) fn judge(&mut self, began: u64, cell: u32, value: Value) -> Result<(), String> {
        let now = self.now;
        let Some(found) = self.cells.get_mut(&cell) else {
            return if value == Value::Zeros { Ok(()) } else { Err("only zeros were ever there".to_owned()) };
        };
        let may_be = |it: &Candidate| it.gone.is_none_or(|gone| gone > began);
        if !found.iter().any(|it| may_be(it) && it.value == value) {
            return Err(format!("of what was stored there: {found:?}; the read began at {began}"));
        }
        // Once read, it stays, unless a write is under way: then it may be told by one copy and not yet by another.
        if found.iter().any(|it| it.gone.is_none() && it.ended.is_none_or(|ended| ended >= began)) {
            return Ok(());
        }
        for it in found.iter_mut().filter(|it| it.value != value && it.gone.is_none()) {
            if it.ended.is_some_and(|ended| ended < began) {
                it.gone = Some(now);
            }
        }
        Ok(())
    }

    /// All that was not kept is lost, or not.
    pub(crate) fn crash(&mut self) {
        self.reads.clear();
        let now = self.tick();
        for cell in std::mem::take(&mut self.open) {
            let found = self.cells.get_mut(&cell).expect("it is open");
            found.retain(|it| !it.is_buried);
            assert!(!found.is_empty(), "something is in each cell");
            if found.len() > 1 {
                self.torn.insert(cell);
            }
            let mut values: Vec<Value> = found.iter().map(|it| it.value).collect();
            values.sort_unstable();
            values.dedup();
            *found = values.into_iter().map(|value| Candidate::before(value, now)).collect();
            if found.len() > 1 {
                self.open.insert(cell);
            }
        }
    }

    /// The process has ended, and what it had acknowledged is there; the next cut of the power may take what no flush covered.
    pub(crate) fn kill(&mut self) {
        self.reads.clear();
        let now = self.tick();
        for cell in &self.open {
            let found = self.cells.get_mut(cell).expect("it is open");
            for it in found {
                it.ended = it.ended.or(Some(now));
            }
        }
        self.torn.extend(&self.open);
    }

    /// Whether a crash may have torn the last write of any of the cells.
    pub(crate) fn may_be_torn(&self, cells: Cells) -> bool {
        self.torn.range(cells.all()).next().is_some()
    }

    /// The array was stopped cleanly: what was acknowledged is kept.
    pub(crate) fn stop(&mut self) {
        let began = self.begin_flush();
        self.end_flush(began);
        self.crash();
    }
}

/// What a write that began at `began` was sure to come after is overwritten.
fn overwrite(found: &mut [Candidate], began: u64, now: u64, is_kept: bool) {
    for it in found.iter_mut().filter(|it| it.ended.is_some_and(|ended| ended < began)) {
        it.gone = it.gone.or(Some(now));
        it.is_buried |= is_kept;
    }
}

/// Leaves out what neither a read nor a crash can bring up.
fn tidy(found: &mut Vec<Candidate>, oldest_read: u64) {
    found.retain(|it| !it.is_buried || it.gone.is_none_or(|gone| gone > oldest_read));
}

/// Fills cells of `bytes` with what write `version` stores there.
pub(crate) fn fill(first: u32, version: u32, bytes: &mut [u8]) {
    for (cell, part) in (first..).zip(bytes.chunks_exact_mut(CELL_BYTES as usize)) {
        let mut word = u64::from(cell) << 32 | u64::from(version);
        for place in part.chunks_exact_mut(8) {
            place.copy_from_slice(&word.to_le_bytes());
            word = word.rotate_left(9) ^ 0x9e37_79b9_7f4a_7c15;
        }
    }
}

/// Which write a cell's bytes are of.
///
/// # Errors
/// In words what is wrong with them.
pub(crate) fn read_cell(cell: u32, bytes: &[u8]) -> Result<Value, String> {
    if bytes.iter().all(|byte| *byte == 0) {
        return Ok(Value::Zeros);
    }
    let word = u64::from_le_bytes(bytes[..8].try_into().expect("a cell has eight bytes"));
    let (found, version) = ((word >> 32) as u32, word as u32);
    let mut expected = vec![0; bytes.len()];
    fill(found, version, &mut expected);
    if expected != bytes {
        let at = expected.iter().zip(bytes).position(|(one, other)| one != other).unwrap_or_default();
        return Err(format!(
            "it begins as write {version} of cell {found} and is something else from byte {at} on"
        ));
    }
    if found != cell {
        return Err(format!("it holds what write {version} stored into cell {found}"));
    }
    Ok(Value::Write(version))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Cells = Cells { first: 7, count: 1 };
    const ACKNOWLEDGED: WriteEnd = WriteEnd::Acknowledged { fua: false };

    fn may_be(oracle: &mut Oracle, value: Value) -> bool {
        let began = oracle.begin_read();
        let found = oracle.judge(began, 7, value).is_ok();
        oracle.end_read(began);
        found
    }

    #[test]
    fn what_was_flushed_survives_and_what_was_not_may_be_lost() {
        for (flushes, survivors) in [(false, [true, true]), (true, [false, true])] {
            for (at, survives) in survivors.into_iter().enumerate() {
                let mut oracle = Oracle::new(false);
                oracle.begin_write(1, ONE, Value::Write(1));
                oracle.end_write(1, ONE, ACKNOWLEDGED);
                assert!(!may_be(&mut oracle, Value::Zeros), "it is overwritten");
                if flushes {
                    let began = oracle.begin_flush();
                    oracle.end_flush(began);
                }
                oracle.crash();
                let value = [Value::Zeros, Value::Write(1)][at];
                assert_eq!(may_be(&mut oracle, value), survives, "{flushes} {value:?}");
            }
        }
    }

    #[test]
    fn what_outlives_the_process_may_be_lost_with_the_power() {
        let mut oracle = Oracle::new(false);
        oracle.begin_write(1, ONE, Value::Write(1));
        oracle.end_write(1, ONE, ACKNOWLEDGED);
        oracle.begin_write(2, ONE, Value::Write(2));
        oracle.kill();
        assert!(!may_be(&mut oracle, Value::Zeros), "it is overwritten");
        assert!(may_be(&mut oracle, Value::Write(1)), "the second may not have come so far");
        oracle.crash();
        assert!(may_be(&mut oracle, Value::Zeros));
    }

    #[test]
    fn a_flush_covers_only_what_was_acknowledged_before_it_began() {
        let mut oracle = Oracle::new(false);
        oracle.begin_write(1, ONE, Value::Write(1));
        let began = oracle.begin_flush();
        oracle.end_write(1, ONE, ACKNOWLEDGED);
        oracle.end_flush(began);
        oracle.crash();
        assert!(may_be(&mut oracle, Value::Zeros));
    }

    #[test]
    fn what_was_cut_off_is_never_found() {
        let mut oracle = Oracle::new(false);
        oracle.begin_write(1, ONE, Value::Write(1));
        oracle.end_write(1, ONE, WriteEnd::CutOff { from: 7 });
        assert!(!may_be(&mut oracle, Value::Write(1)));
        assert!(may_be(&mut oracle, Value::Zeros));
    }

    #[test]
    fn what_was_read_once_stays() {
        let mut oracle = Oracle::new(false);
        oracle.begin_write(1, ONE, Value::Write(1));
        oracle.crash();
        assert!(may_be(&mut oracle, Value::Write(1)));
        assert!(!may_be(&mut oracle, Value::Zeros));
    }

    #[test]
    fn what_a_crash_may_have_torn_is_known_until_it_is_written_again() {
        let mut oracle = Oracle::new(false);
        let (kept, cut) = (Cells { first: 0, count: 4 }, Cells { first: 4, count: 4 });
        let began = oracle.begin_write(1, kept, Value::Zeros);
        oracle.end_write(1, kept, WriteEnd::Acknowledged { fua: true });
        oracle.begin_write(2, cut, Value::Zeros);
        assert!(began > 0 && !oracle.may_be_torn(cut), "nothing has crashed");
        oracle.crash();
        assert!(oracle.may_be_torn(cut) && oracle.may_be_torn(Cells { first: 3, count: 2 }));
        assert!(!oracle.may_be_torn(kept));
        oracle.begin_write(3, cut, Value::Write(3));
        assert!(oracle.may_be_torn(cut));
        oracle.end_write(3, cut, WriteEnd::Acknowledged { fua: false });
        assert!(!oracle.may_be_torn(cut));
    }

    #[test]
    fn cells_tell_whose_bytes_they_hold() {
        let mut bytes = vec![0; 2 * CELL_BYTES as usize];
        fill(3, 9, &mut bytes);
        let (one, other) = bytes.split_at(CELL_BYTES as usize);
        assert_eq!((read_cell(3, one), read_cell(4, other)), (Ok(Value::Write(9)), Ok(Value::Write(9))));
        assert!(read_cell(4, one).is_err());
        let torn = [&one[..64], &other[64..]].concat();
        assert!(read_cell(3, &torn).is_err());
    }
}
