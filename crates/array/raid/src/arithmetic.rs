//! Capacity, and member I/Os per host I/O, as the usual formulas give them.
//!
//! All of it follows from the [`StripeShape`]: nothing here asks which level it is.
//! ```text
//!             usable, of n      overhead      failures survived     small write     full-stripe write
//!             members                        always     at best
//! JBOD, 0          n                0           0           0           1W               1 W per strip
//! RAID 1           1             (n-1)/n       n-1         n-1          nW               n W per strip
//! RAID 10, 1E     n/2              1/2          1         n/2 *         2W               2 W per strip
//! RAID 3, 5       n-1              1/n          1           1           2R+2W            n W per n-1 strips
//! RAID 6          n-2              2/n          2           2           3R+3W            n W per n-2 strips
//! RAID 50        n-spans         spans/n        1         spans         2R+2W            as RAID 5 of a span
//! RAID 60       n-2 spans       2 spans/n       2        2 spans        3R+3W            as RAID 6 of a span
//!                                                   * rounded down
//! ```
//! The formulas count whole strips. The rest of a member is overhead, and so is an odd last strip if copies have their
//! own rows (mirror layouts far and offset).

use crate::layout::{Layout, StripeShape};
use raidlab_units::BlockCount;

/// What of an array's blocks the host sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// Blocks of all members' data areas together.
    pub raw_blocks: BlockCount,
    /// Blocks of the volume.
    pub usable_blocks: BlockCount,
}

impl Capacity {
    /// The capacity of `layout` over members of `member_blocks` each.
    pub fn of(layout: &dyn Layout, member_blocks: BlockCount) -> Self {
        let raw_blocks = BlockCount(member_blocks.0 * u64::from(layout.member_count()));
        Self { raw_blocks, usable_blocks: layout.volume_blocks() }
    }

    /// The share of the raw blocks that is usable, from 0 to 1.
    pub fn usable_share(&self) -> f64 {
        self.usable_blocks.0 as f64 / self.raw_blocks.0 as f64
    }

    /// The share of the raw blocks that copies, parity and unused tails take, from 0 to 1.
    pub fn overhead_share(&self) -> f64 {
        1.0 - self.usable_share()
    }
}

/// Member I/Os that one host I/O causes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemberIos {
    /// Reads of members.
    pub reads: u32,
    /// Writes of members.
    pub writes: u32,
}

impl MemberIos {
    /// Reads and writes together.
    pub const fn total(self) -> u32 {
        self.reads + self.writes
    }
}

/// What a read within one strip costs while no member is missing.
pub const fn small_read(_: &StripeShape) -> MemberIos {
    MemberIos { reads: 1, writes: 0 }
}

/// What a write within one strip costs with nothing cached: without parity a write of every copy; with
/// parity, read and write of the data and of each parity.
///
/// In narrow stripes, reading the other data strips instead can cost less; the formula is the usual one and
/// does not count on it.
pub const fn small_write(shape: &StripeShape) -> MemberIos {
    let (copies, parities) = (shape.copies as u32, shape.parities as u32);
    if parities == 0 {
        MemberIos { reads: 0, writes: copies }
    } else {
        MemberIos { reads: 1 + parities, writes: copies + parities }
    }
}

/// What a write of a whole stripe costs: nothing need be read.
pub const fn full_stripe_write(shape: &StripeShape) -> MemberIos {
    MemberIos { reads: 0, writes: shape.unit_count() }
}

/// Member I/Os per small host I/O when `read_share` (0 to 1) of them are reads: the members' I/O rate divided
/// by it bounds the array's.
///
/// # Panics
/// If `read_share` is not between 0 and 1.
pub fn member_ios_per_host_io(shape: &StripeShape, read_share: f64) -> f64 {
    assert!((0.0..=1.0).contains(&read_share), "a share of {read_share} is not between 0 and 1");
    let (read, write) = (small_read(shape).total(), small_write(shape).total());
    read_share * f64::from(read) + (1.0 - read_share) * f64::from(write)
}
