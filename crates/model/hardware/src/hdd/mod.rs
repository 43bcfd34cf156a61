//! A hard drive: platters, an arm, a buffer and the firmware that schedules the work.
//!
//! ```text
//!   request --overhead, transfer--> queue --scheduler--> arm: seek, settle, rotate, media --> completion
//!                 |                                        |  idle: reads ahead into a buffer segment
//!                 +--> buffer hit, or write cache: done at interface speed; dirty extents join the queue later
//! ```
//!
//! | file | idea |
//! |---|---|
//! | `geometry` | where a sector is: cylinder, head, angle; how long a run of sectors takes to pass |
//! | `even` | the layout computed from a data sheet |
//! | `tracks` | the layout of a measured drive, from a table of its tracks |
//! | `seek` | the time an arm takes over a distance |
//! | `schedule` | which queued command the arm can reach first |
//! | `buffer` | read segments: data read, and data read ahead |
//! | `dirty` | extents of the volatile write cache that are not yet on the media |
//! | `pool` | the same for a current disk, with tens of thousands of extents, persistent or not |
//! | `actuators` | one arm, or two behind one interface |
//! | `shingles` | shingled bands, and the media cache for writes smaller than a band |
//! | `machine` | the state machine that puts these together |
//!
//! Any other command interrupts reading ahead at once (SCSI caching page: abort prefetch).
//!
//! Defects, spare sectors and reads on arrival (starting in the middle of a request) are modelled for measured drives;
//! data sheets do not mention them. Left out: thermal recalibration and vibration.

mod actuators;
mod buffer;
mod dirty;
mod even;
mod geometry;
mod machine;
mod model;
mod pool;
mod schedule;
mod seek;
mod shingles;
mod tracks;

pub use actuators::ActuatorsModel;
pub(crate) use actuators::TwoArms;
pub(crate) use machine::HardDrive;
pub use model::{
    AfterOp, AheadLimits, AheadReach, BufferModel, BusModel, DataSheet, EarlyDisconnect, FirmwareModel,
    HardDriveModel, Kept, MeasuredMechanics, MechanicsModel, ModernParts, Overheads, ReadAhead, SeekAnchors,
};
pub use pool::{PoolModel, RestingWrites};
pub use shingles::{MediaCacheModel, ShingleModel};
pub use tracks::{Extent, TrackTable, TrackTableError};

#[cfg(test)]
mod fixture;
