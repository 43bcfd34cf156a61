//! Data that can be checked: sectors that say where they belong and which write made them, and a ledger of what each
//! block may hold.
//!
//! ```text
//!   write ─► Ledger::begin_write ─► sequence ─► stamp ─────────────► storage
//!   read  ─► Ledger::begin_read ──────────────► storage ─► Ledger::judge ─► nothing, or a Fault
//! ```
//! | module | idea |
//! |---|---|
//! | `stamp` | 512 bytes with address, sequence, noise and checksum |
//! | `ledger` | which writes a read may see while others are in flight |
//!
//! Nothing here does I/O; a load loop stamps its buffers and shows what came back.
#![forbid(unsafe_code)]

mod ledger;
mod stamp;

pub use ledger::{Checked, Fault, FaultKind, Ledger};
pub use stamp::{STAMPED_SECTOR_BYTES, SectorState, Stamp, read_sector, stamp_sectors};
