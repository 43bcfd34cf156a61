//! What an array keeps on its devices and in NVRAM: encoding, decoding, and the assembly of a set of devices.
//!
//! ```
//! use raidlab_format::ArrayName;
//!
//! assert!(ArrayName::new("vault").is_ok());
//! // Bad input of any kind is an error that says why.
//! assert!(ArrayName::new("two\nlines").is_err());
//! ```
//!
//! ```text
//! device      | label | state 0 | state 1 | bitmap 0 | bitmap 1 | log |      AreaLayout says where
//!                 │        └────┬────┘          └────┬─────┘       │
//!               Label       ArrayState           RegionMap     scan_log ── FoundRecord
//! NVRAM       | NvramLabel | log | directory of NvramEntry |         │
//!                 └──────────────┬─────────────────────────────────┘
//!                             assemble ── Assembly: which devices are present, what to replay, what is out of sync
//! ```
//! All numbers are little-endian at fixed places. Each module draws its own; docs/on-disk-format.md has all of them and
//! the rules for a writer. Everything here is a function of bytes and does not know who reads or writes them.
//!
//! Invariants: no input causes a panic; what decodes encodes to the same bytes; any flipped bit in a structure makes it
//! invalid.
#![forbid(unsafe_code)]

mod area;
mod assemble;
mod bitmap;
mod error;
mod geometry;
mod identity;
mod integrity;
mod label;
mod log;
mod nvram;
mod nvram_file;
mod placement;
mod seal;
mod state;
mod unfinished;
mod written;
mod zeros;

pub use area::{AREA_UNIT_BYTES, AreaLayout, BITMAP_BYTES, Extent, LABEL_BYTES, LOG_BYTES_MAX, STATE_BYTES};
pub use assemble::{
    AssembleError, Assembly, Doubt, Foreign, LackReason, Lacking, LogSource, LogTrouble, NvramVerdict,
    PayloadPlace, Replay, Stale, StaleReason, StartOptions, StartedApart, Unusable, UnusableReason, assemble,
    stale_reason,
};
pub use bitmap::{FoundMap, REGIONS_MAX, RegionIndex, RegionMap, SECTOR_BYTES, SECTORS, check_sector};
pub use error::{DecodeError, Part, Problem};
pub use geometry::{Geometry, MetadataPolicy};
pub use identity::{ArrayUuid, DeviceUuid, StartNonce};
pub use integrity::{NO_TAG, TAG_BYTES, row_checksum, tag, tag_blocks, untagged_blocks};
pub use label::{ArrayName, BadName, Label};
pub use log::{
    FoundRecord, LogHeader, LogRecord, LogRun, RecordHolds, header_len, scan_log, seal_shared,
    set_payload_at, shared_len,
};
pub use nvram::{NVRAM_ENTRY_BYTES, NVRAM_LABEL_BYTES, NVRAM_RING_AT, NvramEntry, NvramImage, NvramLabel};
pub use nvram_file::{
    NVRAM_FILE_HEADER_BYTES, NvramFileHeader, REDO_BLOCK_AT, REDO_LINE_AT, REDO_LINE_WORDS, REDO_PLACE_AT,
    entry_words, read_redo_line, redo_line,
};
pub use placement::{CopyFault, CopyPlace, DeviceTooShort, Placement, mend_front};
pub use seal::COUNTERS_END;
pub use state::{
    ArrayState, BAD_RANGES_MAX, BadRange, BadReason, DEVICES_MAX, DeviceRecord, DeviceState, FOUND_BY_MAX,
    LogPlace,
};
pub use unfinished::Unfinished;
pub use written::{WRITTEN_PAGE_BYTES, WRITTEN_PAGE_REGIONS, WrittenMap};
