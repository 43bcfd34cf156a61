//! Sectors of one known write, read again: their errors, in bits.
//!
//! Unlike the ledger this needs no memory per block: the whole target was written by one write of one run. The expected
//! data can be generated again, so wrong bits can be counted, and a stamp that belongs elsewhere tells its place.

use crate::stamp::{STAMPED_SECTOR_BYTES, SectorState, read_sector, stamp_sectors};

/// What is wrong with a sector that should hold a known write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SectorFault {
    /// Some of its bits have changed.
    Changed {
        /// How many.
        bits: u32,
    },
    /// It holds what was written to another place.
    WrongPlace {
        /// The sector for which that was meant.
        meant_for: u64,
    },
    /// It holds an older write of the same place: the last one is lost.
    Old {
        /// Which write.
        sequence: u64,
    },
    /// It holds something else: zeros, or what no run of this kind has written.
    Foreign,
}

/// Compares sectors with what the write `sequence` of `run` put there from `first_sector` on; `report` gets the number of each
/// wrong sector of the target, and what is wrong with it.
///
/// # Panics
/// If `bytes` is not a whole number of sectors.
pub fn check_sectors(
    bytes: &[u8],
    run: u64,
    first_sector: u64,
    sequence: u64,
    report: &mut dyn FnMut(u64, SectorFault),
) {
    assert!(bytes.len().is_multiple_of(STAMPED_SECTOR_BYTES), "whole sectors are checked");
    for (sector, bytes) in (first_sector..).zip(bytes.chunks_exact(STAMPED_SECTOR_BYTES)) {
        let fault = match read_sector(bytes) {
            SectorState::Stamped(stamp) if stamp.run != run => SectorFault::Foreign,
            SectorState::Stamped(stamp) if stamp.sector != sector => {
                SectorFault::WrongPlace { meant_for: stamp.sector }
            }
            SectorState::Stamped(stamp) if stamp.sequence != sequence => {
                SectorFault::Old { sequence: stamp.sequence }
            }
            SectorState::Stamped(_) => continue,
            SectorState::Blank => SectorFault::Foreign,
            SectorState::Damaged | SectorState::Unstamped => changed(bytes, run, sector, sequence),
        };
        report(sector, fault);
    }
}

/// How many bits differ from what should be there. Half of them would differ from anything else.
fn changed(bytes: &[u8], run: u64, sector: u64, sequence: u64) -> SectorFault {
    let mut wanted = [0; STAMPED_SECTOR_BYTES];
    stamp_sectors(&mut wanted, run, sector, sequence);
    let bits: u32 = bytes.iter().zip(wanted).map(|(byte, wanted)| (byte ^ wanted).count_ones()).sum();
    let is_another = bits as usize > 3 * STAMPED_SECTOR_BYTES;
    if is_another { SectorFault::Foreign } else { SectorFault::Changed { bits } }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(bytes: &[u8]) -> Vec<(u64, SectorFault)> {
        let mut faults = Vec::new();
        check_sectors(bytes, 7, 100, 2, &mut |sector, fault| faults.push((sector, fault)));
        faults
    }

    fn sectors(run: u64, first: u64, sequence: u64, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count * STAMPED_SECTOR_BYTES];
        stamp_sectors(&mut bytes, run, first, sequence);
        bytes
    }

    #[test]
    fn each_fault_is_told_from_the_others() {
        let mut bytes = sectors(7, 100, 2, 6);
        assert_eq!(faults(&bytes), []);
        bytes[10] ^= 0b11;
        bytes[400] ^= 0b100;
        let place = |sector: usize| sector * STAMPED_SECTOR_BYTES..(sector + 1) * STAMPED_SECTOR_BYTES;
        bytes[place(1)].copy_from_slice(&sectors(7, 900, 2, 1));
        bytes[place(2)].copy_from_slice(&sectors(7, 102, 1, 1));
        bytes[place(3)].copy_from_slice(&sectors(8, 103, 2, 1));
        bytes[place(4)].fill(0);
        bytes[place(5)].fill(0xa5);
        assert_eq!(
            faults(&bytes),
            [
                (100, SectorFault::Changed { bits: 3 }),
                (101, SectorFault::WrongPlace { meant_for: 900 }),
                (102, SectorFault::Old { sequence: 1 }),
                (103, SectorFault::Foreign),
                (104, SectorFault::Foreign),
                (105, SectorFault::Foreign),
            ]
        );
    }
}
