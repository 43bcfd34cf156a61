//! What an array keeps on its devices and in battery-kept memory: bytes to structs and back, and what a set
//! of devices is.
//!
//! ```text
//! device      | label | state 0 | state 1 | bitmap 0 | bitmap 1 | log |      AreaLayout says where
//!                 │        └────┬────┘          └────┬─────┘       │
//!               Label       ArrayState           RegionMap     scan_log ── FoundRecord
//! kept memory | KeptLabel | log | directory of KeptEntry |         │
//!                 └──────────────┬─────────────────────────────────┘
//!                             assemble ── Assembly: who is present, what is to be replayed, what is unsynced
//! ```
//! All numbers are little-endian at fixed places; each module draws its own, docs/on-disk-format.md has all
//! of them and what a writer must keep to. Everything here is a function of bytes: who reads or writes them
//! is not known.
//!
//! Invariants: no input makes anything here panic; what decodes encodes to the same bytes; a bit that is
//! flipped anywhere in a structure makes it invalid.
#![forbid(unsafe_code)]

mod area;
mod assemble;
mod bitmap;
mod error;
mod geometry;
mod identity;
mod integrity;
mod kept;
mod kept_file;
mod label;
mod log;
mod placement;
mod seal;
mod state;
mod unfinished;
mod zeros;

pub use area::{AREA_UNIT_BYTES, AreaLayout, BITMAP_BYTES, Extent, LABEL_BYTES, LOG_BYTES_MAX, STATE_BYTES};
pub use assemble::{
    AssembleError, Assembly, Doubt, Foreign, KeptVerdict, LackReason, Lacking, LogSource, LogTrouble,
    PayloadPlace, Replay, Stale, StaleReason, StartOptions, Unusable, UnusableReason, assemble,
};
pub use bitmap::{FoundMap, REGIONS_MAX, RegionIndex, RegionMap, SECTOR_BYTES, SECTORS, check_sector};
pub use error::{DecodeError, Part, Problem};
pub use geometry::{Geometry, MetadataPolicy};
pub use identity::{ArrayUuid, DeviceUuid};
pub use integrity::{NO_TAG, TAG_BYTES, row_checksum, tag, tag_blocks, untagged_blocks};
pub use kept::{KEPT_ENTRY_BYTES, KEPT_LABEL_BYTES, KEPT_RING_AT, KeptEntry, KeptImage, KeptLabel};
pub use kept_file::{
    KEPT_FILE_HEADER_BYTES, KeptFileHeader, REDO_BLOCK_AT, REDO_LINE_AT, REDO_LINE_WORDS, REDO_PLACE_AT,
    entry_words, read_redo_line, redo_line,
};
pub use label::{ArrayName, BadName, Label};
pub use log::{FoundRecord, LogHeader, LogRecord, LogRun, header_len, scan_log};
pub use placement::{CopyFault, CopyPlace, DeviceTooShort, Placement, mend_front};
pub use seal::COUNTERS_END;
pub use state::{ArrayState, BAD_RANGES_MAX, BadRange, DEVICES_MAX, DeviceRecord, DeviceState, LogPlace};
pub use unfinished::Unfinished;
