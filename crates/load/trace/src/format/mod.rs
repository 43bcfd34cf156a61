//! The formats, one file each: the meaning of a line, and the quirks of the programs that write it.

pub(crate) mod biosnoop;
pub(crate) mod blkparse;
pub(crate) mod columns;
pub(crate) mod disksim;
pub(crate) mod fio;
pub(crate) mod msr;
pub(crate) mod perf;
pub(crate) mod spc;

/// Traces count in sectors of so many bytes.
const SECTOR_BYTES: u64 = 512;
/// Sectors at most: their bytes fit 64 bits.
const SECTORS_MAX: u64 = u64::MAX / SECTOR_BYTES;

/// The first `N` of the fields that `fields` yields; none if there are fewer.
fn first_fields<'a, const N: usize>(fields: &mut impl Iterator<Item = &'a str>) -> Option<[&'a str; N]> {
    let mut found = [""; N];
    for field in &mut found {
        *field = fields.next()?;
    }
    Some(found)
}
