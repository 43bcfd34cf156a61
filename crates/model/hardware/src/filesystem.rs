//! A filesystem: where it puts files on a volume, how far it reads ahead, and its additional writes.
//!
//! ```text
//!  volume:  │ metadata │ data ............... │ metadata │ data ............... │
//!           └───────────── group ─────────────┴───────────── group ─────────────┘
//! ```
//! Files are laid out one after the other, each contiguous except for the metadata at the start of every group.
//!
//! A copy-on-write filesystem puts overwritten data elsewhere, one run of it behind the other.
//!
//! Left out: fragmentation by age, directories, the time to find free space.

use crate::catalog::{CatalogError, FigureSource, Section, from_keys};
use raidlab_units::{ByteCount, BytesPerSec, NanoSpan};

/// What a journal promises of data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JournalMode {
    /// There is no journal.
    None,
    /// It holds metadata; data of new blocks is written before a commit.
    Ordered,
    /// It holds metadata; data is written at any time.
    Writeback,
}

/// What `fsync` waits for beside the data of its file: the journal, or a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FsyncModel {
    /// Written first, in one piece: descriptors and metadata.
    pub journal: ByteCount,
    /// Written behind a flush of the drives' caches, and forced past them: the record that makes the rest valid.
    pub record: ByteCount,
}

/// A filesystem.
#[derive(Clone, Debug, PartialEq)]
pub struct FilesystemModel {
    /// Name in the catalogue, `ext3`.
    pub id: String,
    /// Name for people.
    pub name: String,
    /// Blocks that files are made of.
    pub block_size: ByteCount,
    /// Length of the first read-ahead of a file that is read in sequence.
    pub read_ahead_min: ByteCount,
    /// Length that it grows to.
    pub read_ahead_max: ByteCount,
    /// Length of a group, its metadata included.
    pub group: ByteCount,
    /// Metadata at the start of each group.
    pub group_metadata: ByteCount,
    /// What its journal promises.
    pub journal: JournalMode,
    /// Time between two commits.
    pub commit_interval: NanoSpan,
    /// Bytes that go to the journal for every MiB of new data.
    pub journal_per_mib: ByteCount,
    /// One block of the map of a file is read before each so many bytes of it, if it has a map of blocks.
    pub map_every: Option<ByteCount>,
    /// Blocks of the map stand in so many percent of the volume at its start, apart from all data, where they do not stand
    /// before the data that they are for.
    pub map_area_pct: Option<u32>,
    /// What `fsync` waits for; the data alone where nothing is said of it.
    pub fsync: Option<FsyncModel>,
    /// Whether what is written again goes elsewhere.
    pub copy_on_write: bool,
    /// Rate at which a processor makes or looks at the checksums of data, if they have any.
    pub checksum: Option<BytesPerSec>,
    /// Every figure with its source.
    pub sources: Vec<FigureSource>,
}

impl FsyncModel {
    fn read(mut section: Section<'_>) -> Result<Self, CatalogError> {
        let fsync = from_keys!(section, Self { journal, record });
        section.refuse_if(fsync.record.0 == 0, "record", "above zero")?;
        section.finish(fsync)
    }
}

impl FilesystemModel {
    /// Time of a processor for the checksums of `bytes`.
    #[inline]
    pub fn checksum_time(&self, bytes: u64) -> NanoSpan {
        self.checksum.map_or(NanoSpan::ZERO, |rate| rate.time_for(ByteCount(bytes)))
    }

    /// Reads the rest of a filesystem's file.
    pub(crate) fn read(mut root: Section<'_>, id: &str) -> Result<Self, CatalogError> {
        let journal = match root.text("journal")?.as_str() {
            "none" => JournalMode::None,
            "ordered" => JournalMode::Ordered,
            "writeback" => JournalMode::Writeback,
            _ => return Err(root.bad_value("journal", "\"none\", \"ordered\" or \"writeback\"")),
        };
        let model = from_keys!(root, Self {
            id = id.into(), name: text, block_size, read_ahead_min, read_ahead_max, group,
            group_metadata, journal = journal, commit_interval, journal_per_mib,
            map_every: optional_figure, map_area_pct: optional_figure,
            fsync = root.optional_section("fsync")?.map(FsyncModel::read).transpose()?,
            copy_on_write: optional_flag, checksum: optional_figure, sources = root.figures(),
        });
        if model.read_ahead_min.0 == 0 || model.read_ahead_max < model.read_ahead_min {
            return Err(root.bad_value("read_ahead_max", "at least read_ahead_min, which is above zero"));
        }
        if model.map_every.is_some_and(|every| every.0 == 0 || !every.0.is_multiple_of(model.block_size.0)) {
            return Err(root.bad_value("map_every", "whole blocks, at least one"));
        }
        if model.map_area_pct.is_some_and(|pct| model.map_every.is_none() || !(1..100).contains(&pct)) {
            return Err(root.bad_value("map_area_pct", "from 1 to 99, of a filesystem with map_every"));
        }
        root.refuse_if(model.group.0 <= model.group_metadata.0, "group", "longer than group_metadata")?;
        if model.journal != JournalMode::None && model.commit_interval == NanoSpan::ZERO {
            return Err(root.bad_value("commit_interval", "above zero"));
        }
        root.finish(model)
    }

    /// Where on the volume the byte `position` of all data stands, metadata before it counted in, and how many bytes from
    /// there on stand in one piece.
    #[inline]
    pub fn place_of(&self, position: u64) -> (u64, u64) {
        let data = self.group.0 - self.group_metadata.0;
        let within = position % data;
        (position / data * self.group.0 + self.group_metadata.0 + within, data - within)
    }

    /// Data that a volume of `bytes` has room for.
    pub fn room_in(&self, bytes: ByteCount) -> ByteCount {
        ByteCount(bytes.0 / self.group.0 * (self.group.0 - self.group_metadata.0))
    }
}

#[cfg(test)]
mod tests {
    use crate::Catalog;

    #[test]
    fn data_skips_the_metadata_of_each_group() {
        let catalog = Catalog::builtin();
        let mut ext2 = catalog.filesystem("ext2").expect("there").clone();
        (ext2.group.0, ext2.group_metadata.0) = (100, 10);
        let rows = [(0, (10, 90)), (89, (99, 1)), (90, (110, 90)), (185, (215, 85))];
        for (position, place) in rows {
            assert_eq!(ext2.place_of(position), place, "{position}");
        }
        assert_eq!(ext2.room_in(raidlab_units::ByteCount(250)).0, 180);
    }
}
