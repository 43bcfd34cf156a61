//! Disks with volatile caches: files of the system hold what is written, and for each sector that may be lost what there would be
//! instead.
//!
//! ```text
//! sector   what is durable │ what was written since, oldest first │ what the file holds
//!              a flush moves the first bar to the right; a power cut leaves any of them
//! ```
//! A flush covers what had ended before it was submitted. A write that is in flight at a power cut is there sector by sector, or not.

use crate::entry::Piece;
use raidlab_workload::Rng;
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

pub(crate) const SECTOR_BYTES: u64 = 512;

type Sector = [u8; SECTOR_BYTES as usize];

/// A sector that was written since it was durable.
#[derive(Debug)]
struct Chain {
    /// What was there, and before which write.
    before: Vec<(u64, Box<Sector>)>,
    /// The latest write.
    last: u64,
}

/// A disk.
#[derive(Debug)]
pub(crate) struct Disk {
    file: File,
    id: (u64, u64),
    chains: BTreeMap<u64, Chain>,
}

/// How much of what was not durable a power cut leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CutKind {
    All,
    Nothing,
    Each,
}

impl CutKind {
    pub(crate) fn draw(random: &mut Rng) -> Self {
        [Self::All, Self::Nothing, Self::Each, Self::Each][random.below(4) as usize]
    }

    pub(crate) fn keeps(self, random: &mut Rng) -> bool {
        match self {
            Self::All => true,
            Self::Nothing => false,
            Self::Each => random.below(2) == 0,
        }
    }
}

/// The disks that were ever used.
#[derive(Debug, Default)]
pub(crate) struct Disks(Vec<Disk>);

impl Disks {
    /// The disk that is the file at `path`.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn find(&mut self, path: &Path) -> io::Result<usize> {
        let facts = std::fs::metadata(path)?;
        let id = (facts.dev(), facts.ino());
        if let Some(found) = self.0.iter().position(|disk| disk.id == id) {
            return Ok(found);
        }
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        self.0.push(Disk { file, id, chains: BTreeMap::new() });
        Ok(self.0.len() - 1)
    }

    pub(crate) fn of(&mut self, number: usize) -> &mut Disk {
        &mut self.0[number]
    }

    /// The power fails.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn cut(&mut self, kind: CutKind, random: &mut Rng) -> io::Result<()> {
        self.0.iter_mut().try_for_each(|disk| disk.cut(kind, random))
    }
}

impl Disk {
    /// Reads from `offset` on; returns how much there is.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn read(&self, offset: u64, bytes: usize) -> io::Result<Vec<u8>> {
        let mut out = vec![0; bytes];
        let mut done = 0;
        while done < bytes {
            match self.file.read_at(&mut out[done..], offset + done as u64)? {
                0 => break,
                moved => done += moved,
            }
        }
        out.truncate(done);
        Ok(out)
    }

    /// Remembers what is in a range before write `number` changes it.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn remember(&mut self, number: u64, offset: u64, bytes: u64) -> io::Result<()> {
        let first = offset / SECTOR_BYTES;
        let count = (offset + bytes).div_ceil(SECTOR_BYTES) - first;
        let mut old = self.read(first * SECTOR_BYTES, (count * SECTOR_BYTES) as usize)?;
        // What is behind the end of a file will be zeros.
        old.resize((count * SECTOR_BYTES) as usize, 0);
        for (sector, old) in (first..).zip(old.chunks_exact(SECTOR_BYTES as usize)) {
            let old: Box<Sector> = Box::new(old.try_into().expect("a sector's length"));
            let chain =
                self.chains.entry(sector).or_insert_with(|| Chain { before: Vec::new(), last: number });
            chain.before.push((number, old));
            chain.last = number;
        }
        Ok(())
    }

    /// Writes, durably or not.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn write(&mut self, number: u64, offset: u64, bytes: &[u8], durable: bool) -> io::Result<()> {
        if durable {
            let sectors = offset / SECTOR_BYTES..(offset + bytes.len() as u64).div_ceil(SECTOR_BYTES);
            for sector in sectors {
                self.chains.remove(&sector);
            }
        } else {
            self.remember(number, offset, bytes.len() as u64)?;
        }
        self.file.write_all_at(bytes, offset)
    }

    /// Makes durable what was written by all but those `in_flight`.
    pub(crate) fn flush(&mut self, number: u64, in_flight: &[u64]) {
        let is_covered = |write: u64| write < number && !in_flight.contains(&write);
        self.chains.retain(|_, chain| {
            // The latest covered write takes everything before it away.
            if is_covered(chain.last) {
                return false;
            }
            if let Some(at) = chain.before.iter().rposition(|(write, _)| is_covered(*write)) {
                // What was there before a write is what the one before it wrote.
                chain.before.drain(..=at);
            }
            true
        });
    }

    fn cut(&mut self, kind: CutKind, random: &mut Rng) -> io::Result<()> {
        for (sector, chain) in std::mem::take(&mut self.chains) {
            if kind.keeps(random) {
                continue;
            }
            let at = if kind == CutKind::Each { random.below(chain.before.len() as u64) as usize } else { 0 };
            self.file.write_all_at(&chain.before[at].1[..], sector * SECTOR_BYTES)?;
        }
        Ok(())
    }

    /// A write that was in flight when the power failed: some of its sectors are there.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn tear(&self, offset: u64, bytes: &[u8], kind: CutKind, random: &mut Rng) -> io::Result<()> {
        for (at, sector) in (offset..).step_by(SECTOR_BYTES as usize).zip(bytes.chunks(SECTOR_BYTES as usize))
        {
            if kind.keeps(random) {
                self.file.write_all_at(sector, at)?;
            }
        }
        Ok(())
    }
}

/// What pieces hold, one after the other, up to `bytes`.
///
/// # Safety
/// As [`Piece::bytes`].
#[allow(unsafe_code)]
pub(crate) unsafe fn gather(pieces: &[Piece], bytes: usize) -> Vec<u8> {
    let mut out = Vec::new();
    for piece in pieces {
        // SAFETY: as the caller promises.
        let there = unsafe { piece.bytes() };
        out.extend_from_slice(&there[..there.len().min(bytes - out.len())]);
    }
    out
}

/// Stores bytes into pieces from `at` on.
///
/// # Safety
/// As [`Piece::bytes_mut`].
#[allow(unsafe_code)]
pub(crate) unsafe fn scatter(pieces: &[Piece], mut at: usize, mut bytes: &[u8]) {
    for piece in pieces {
        if at >= piece.bytes {
            at -= piece.bytes;
            continue;
        }
        // SAFETY: as the caller promises.
        let room = &mut unsafe { piece.bytes_mut() }[at..];
        let moved = room.len().min(bytes.len());
        room[..moved].copy_from_slice(&bytes[..moved]);
        bytes = &bytes[moved..];
        at = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn disk() -> Disk {
        let file = tempfile::tempfile().expect("a file");
        file.set_len(4096).expect("it is so long");
        Disk { file, id: (0, 0), chains: BTreeMap::new() }
    }

    fn after_cut(mut disk: Disk) -> u8 {
        disk.cut(CutKind::Nothing, &mut Rng::new(1)).expect("it is cut");
        disk.read(0, 512).expect("it is read")[0]
    }

    #[test]
    fn a_flush_covers_what_had_ended_before_it() {
        for (in_flight, found) in [(vec![], 2), (vec![2], 1), (vec![1, 2], 0)] {
            let mut disk = disk();
            for number in [1, 2] {
                disk.write(number, 0, &[number as u8; 512], false).expect("it is written");
            }
            disk.flush(3, &in_flight);
            assert_eq!(after_cut(disk), found, "{in_flight:?}");
        }
    }

    #[test]
    fn a_durable_write_is_not_lost() {
        let mut disk = disk();
        disk.write(1, 0, &[1; 512], false).expect("it is written");
        disk.write(2, 0, &[2; 512], true).expect("it is written");
        assert_eq!(after_cut(disk), 2);
    }
}
