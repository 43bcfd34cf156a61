//! Solid-state drives.
//!
//! A catalogue entry without a table `translation` is a drive of the type of 2009: no write buffer, and a given write
//! amplification (`direct`). All others are made of parts, each of which owns its state:
//!
//! ```text
//!  host -> queue -> firmware cores -> write buffer -> translation layer -> dies behind channels
//!                        |  link, caps      ^ hits            |  garbage collection      ^
//!                        +--- reads --------+-----------------+--------------------------+
//! ```
//! | file | idea |
//! |---|---|
//! | `model` | the catalogue's description of such a drive |
//! | `condition` | its history: fresh, filled sequentially, overwritten at random |
//! | `front` | firmware cores, link and caps |
//! | `buffer` | data that are acknowledged and not yet on flash |
//! | `slc` | data that are on flash with one bit in a cell |
//! | `map_cache` | the part of the map in memory, for drives without memory for all of it |
//! | `translation`, `victim` | which superblock holds what, and what garbage collection moves |
//! | `conditioned` | the translation layer of a drive that was filled and overwritten before |
//! | `drain` | what is programmed next: the host's data, moved data, parity |
//! | `placement` | on which die data are, and whether neighbours are together |
//! | `flash` | dies: reading, programming, suspending, erasing |
//! | `channel` | the channel between them and the controller |
//! | `machine` | the state machine that puts these together |
//! | `wear` | the effect of age on reads |
//! | `heat` | limits that apply after a time |
//! | `random` | hashes |
//! | `direct` | drives without a write buffer, their write amplification given |

mod bits;
mod buffer;
mod channel;
mod condition;
mod conditioned;
mod direct;
mod drain;
mod flash;
mod front;
mod heat;
mod machine;
mod map_cache;
mod model;
mod placement;
pub(crate) mod random;
mod slc;
mod translation;
mod victim;
mod wear;

pub use condition::{DriveCondition, DriveHistory};
pub(crate) use direct::SolidState;
pub use direct::SolidStateModel;
pub use heat::HeatModel;
pub use machine::FlashCounters;
pub(crate) use machine::FlashDrive;
pub use model::{
    BufferModel as FlashBufferModel, CapModel, CellModel, FlashModel, FrontModel, IdleModel,
    TranslationModel, UpkeepModel,
};
pub use slc::{SlcModel, WhenFull};
pub use victim::Collection;
pub use wear::WearModel;

#[cfg(test)]
mod tests;
