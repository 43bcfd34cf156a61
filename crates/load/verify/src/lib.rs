//! Data that can be checked: sectors that contain their address and their write, and a ledger of what each block may
//! hold.
//!
//! ```text
//!   write ─► Ledger::begin_write ─► sequence ─► stamp ─────────────► storage
//!   read  ─► Ledger::begin_read ──────────────► storage ─► Ledger::judge ─► nothing, or a Fault
//! ```
//! | module | idea |
//! |---|---|
//! | `stamp` | 512 bytes with address, sequence, noise and checksum |
//! | `ledger` | which writes a read may see while others are in flight |
//! | `sweep` | sectors of one known write, read again and again |
//! | `bound` | what counted errors say about the error rate |
//!
//! Nothing here does I/O; a load loop stamps its buffers and passes in what it read.
#![forbid(unsafe_code)]

mod bound;
mod ledger;
mod stamp;
mod sweep;

pub use bound::error_rate_upper_bound;
pub use ledger::{Checked, Fault, FaultKind, Ledger};
pub use stamp::{STAMPED_SECTOR_BYTES, SectorState, Stamp, read_sector, stamp_sectors};
pub use sweep::{SectorFault, check_sectors};
