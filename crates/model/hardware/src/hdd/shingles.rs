//! Shingled tracks behind a media cache, as on a drive that manages them itself (drive-managed SMR).
//!
//! Tracks of a *band* overlap: a sector can't be written without the rest of the band behind it. So a band is written
//! as a whole, and smaller writes go to the *media cache*, a log on tracks that don't overlap, at the outer edge:
//!
//! ```text
//!   write cache --- a whole band is dirty ------------------> band, in place
//!        `--------- anything less, many at once --> log --cleaning: read band, read its entries, write band--> band
//! ```
//!
//! Cleaning takes the band of the log's oldest entry. It runs when the host is idle. When log or map is full it runs
//! before the next write can be accepted, and a write then costs the reading and writing of a band: random writing
//! collapses.
//!
//! This module tracks the places; `machine/shingled.rs` moves the data. Sectors of bands ("home") count behind those of
//! the log. Invariants: entries don't overlap at home; `by_place` names each entry once; the log holds nothing before
//! its tail. Left out: guard tracks, caches of several places, bands of different lengths, and a fresh drive's empty
//! bands.
//! Source: Aghayev and Desnoyers, "Skylight, a window on shingled disk operation", FAST 2015.

use crate::catalog::{CatalogError, Section, from_keys};
use crate::drive::{SECTOR_BYTES, SectorCount};
use raidlab_units::{ByteCount, NanoSpan};
use std::collections::BTreeMap;

/// Who sees to it that bands are written in sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShingleModel {
    /// The drive, by a media cache.
    Drive(MediaCacheModel),
    /// The host: a write that is not at a zone's write pointer is an error.
    Host {
        /// Length of a zone.
        zone: ByteCount,
    },
}

/// The media cache of a drive that manages its bands itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MediaCacheModel {
    /// Length of a band.
    pub band: ByteCount,
    /// Length of the log.
    pub size: ByteCount,
    /// Extents that its map can hold.
    pub entries: u32,
    /// The most that is appended at once.
    pub append: ByteCount,
    /// How long the host must be quiet before bands are cleaned.
    pub idle: NanoSpan,
}

impl ShingleModel {
    /// Reads the table `shingles`.
    pub(crate) fn read(mut section: Section<'_>, capacity: SectorCount) -> Result<Self, CatalogError> {
        let shingles = match section.text("managed_by")?.as_str() {
            "host" => Self::Host { zone: section.figure("zone")? },
            "drive" => Self::Drive(MediaCacheModel::read(&mut section, capacity)?),
            _ => return Err(section.bad_value("managed_by", "\"drive\" or \"host\"")),
        };
        section.finish(shingles)
    }
}

impl MediaCacheModel {
    fn read(section: &mut Section<'_>, capacity: SectorCount) -> Result<Self, CatalogError> {
        let cache = from_keys!(section, Self {
            band,
            size = section.figure("media_cache")?,
            entries = section.figure("map_entries")?,
            append, idle,
        });
        if !cache.band.0.is_multiple_of(4096) || !(1 << 20..capacity.bytes().0).contains(&cache.band.0) {
            return Err(
                section.bad_value("band", "a multiple of 4 KiB, at least 1 MiB and less than the drive")
            );
        }
        if cache.append.0 < 4096 || !cache.append.0.is_multiple_of(4096) {
            return Err(section.bad_value("append", "a multiple of 4 KiB"));
        }
        if !cache.size.0.is_multiple_of(4096)
            || cache.size.0 / 4 < cache.append.0
            || cache.size >= capacity.bytes()
        {
            return Err(section.bad_value(
                "media_cache",
                "a multiple of 4 KiB, at least 4 times `append`, less than the drive",
            ));
        }
        section.refuse_if(cache.entries < 1000, "map_entries", "at least 1000")?;
        Ok(cache)
    }

    /// Sectors of the log.
    pub(crate) fn log_sectors(&self) -> u64 {
        self.size.0 / SECTOR_BYTES
    }
}

/// Sectors of the log that hold those of a place at home.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    sectors: u64,
    /// Their place: sectors appended since the beginning, of which the log holds the last ones.
    at: u64,
}

/// What the log holds, and of which places.
#[derive(Clone, Debug)]
pub(crate) struct MediaCache {
    log_sectors: u64,
    entries_max: usize,
    band_sectors: u64,
    end: u64,
    by_home: BTreeMap<u64, Entry>,
    by_place: BTreeMap<u64, u64>,
    head: u64,
}

/// A run of sectors on the media.
pub(crate) type Run = (u64, u64);

impl MediaCache {
    /// For a drive of `capacity` sectors.
    pub(crate) fn new(model: &MediaCacheModel, capacity: SectorCount) -> Self {
        Self {
            log_sectors: model.log_sectors(),
            entries_max: model.entries as usize,
            band_sectors: model.band.0 / SECTOR_BYTES,
            end: model.log_sectors() + capacity.0,
            by_home: BTreeMap::new(),
            by_place: BTreeMap::new(),
            head: 0,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.by_home.is_empty()
    }

    pub(crate) fn band_sectors(&self) -> u64 {
        self.band_sectors
    }

    /// The first sector at or behind `sector` with which a band begins.
    pub(crate) fn band_from(&self, sector: u64) -> u64 {
        self.log_sectors + (sector - self.log_sectors).div_ceil(self.band_sectors) * self.band_sectors
    }

    /// The first sector of the band to be cleaned next.
    pub(crate) fn oldest_band(&self) -> Option<u64> {
        let home = self.by_place.first_key_value().map(|(_, home)| *home)?;
        Some(home - (home - self.log_sectors) % self.band_sectors)
    }

    /// The end of the band that begins at `start`; the last one may be shorter.
    pub(crate) fn band_end(&self, start: u64) -> u64 {
        (start + self.band_sectors).min(self.end)
    }

    /// Extents that the map has room for: each may cut one that is there in two.
    pub(crate) fn extents_free(&self) -> usize {
        self.entries_max.saturating_sub(self.by_home.len()) / 2
    }

    /// Whether so many sectors can be appended.
    pub(crate) fn has_room(&self, sectors: u64) -> bool {
        let tail = self.by_place.first_key_value().map_or(self.head, |(at, _)| *at);
        // What is skipped where the log comes round counts as well.
        self.head - tail + 2 * sectors <= self.log_sectors
    }

    /// Where the next `sectors` are appended, on the media: never across the end of the log.
    pub(crate) fn append_at(&self, sectors: u64) -> u64 {
        let place = self.head % self.log_sectors;
        if place + sectors > self.log_sectors { 0 } else { place }
    }

    /// Appends extents of these homes one behind another; `sectors` is what they have in all.
    pub(crate) fn append(&mut self, extents: impl Iterator<Item = Run>, sectors: u64) {
        let place = self.append_at(sectors);
        if place == 0 {
            self.head = self.head.next_multiple_of(self.log_sectors);
        }
        for (home, sectors) in extents {
            self.forget(home, home + sectors, u64::MAX);
            self.by_home.insert(home, Entry { sectors, at: self.head });
            self.by_place.insert(self.head, home);
            self.head += sectors;
        }
    }

    /// A mark: entries appended from now on are younger.
    pub(crate) fn mark(&self) -> u64 {
        self.head
    }

    /// Forgets what is held of `start..end` and older than `mark`.
    pub(crate) fn forget(&mut self, start: u64, end: u64, mark: u64) {
        for (home, entry) in self.entries_in(start, end) {
            if entry.at >= mark {
                continue;
            }
            self.by_home.remove(&home);
            self.by_place.remove(&entry.at);
            for (from, to) in [(home, start), (end, home + entry.sectors)] {
                if from < to {
                    let at = entry.at + (from - home);
                    self.by_home.insert(from, Entry { sectors: to - from, at });
                    self.by_place.insert(at, from);
                }
            }
        }
    }

    /// Where `start..end` is on the media, in order.
    pub(crate) fn locate(&self, start: u64, end: u64) -> Vec<Run> {
        let (mut runs, mut reached) = (Vec::new(), start);
        for (home, entry) in self.entries_in(start, end) {
            let (from, to) = (home.max(start), (home + entry.sectors).min(end));
            if reached < from {
                runs.push((reached, from - reached));
            }
            runs.push(((entry.at + (from - home)) % self.log_sectors, to - from));
            reached = to;
        }
        if reached < end {
            runs.push((reached, end - reached));
        }
        runs
    }

    /// What the log holds of `start..end`, in order of their places, neighbours as one.
    pub(crate) fn logged(&self, start: u64, end: u64) -> Vec<Run> {
        let place = |(home, entry): (u64, Entry)| {
            let (from, to) = (home.max(start), (home + entry.sectors).min(end));
            ((entry.at + (from - home)) % self.log_sectors, to - from)
        };
        let mut runs: Vec<Run> = self.entries_in(start, end).into_iter().map(place).collect();
        runs.sort_unstable();
        runs.dedup_by(|next, last| {
            let follows = last.0 + last.1 == next.0;
            if follows {
                last.1 += next.1;
            }
            follows
        });
        runs
    }

    fn entries_in(&self, start: u64, end: u64) -> Vec<(u64, Entry)> {
        let before =
            self.by_home.range(..start).next_back().filter(|(home, entry)| *home + entry.sectors > start);
        before
            .into_iter()
            .chain(self.by_home.range(start..end))
            .map(|(home, entry)| (*home, *entry))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LOG: u64 = 64 * 8;

    fn cache() -> MediaCache {
        let model = MediaCacheModel {
            band: ByteCount(16 * 4096),
            size: ByteCount(LOG * 512),
            entries: 1000,
            append: ByteCount(4096),
            idle: NanoSpan(0),
        };
        MediaCache::new(&model, SectorCount(1000))
    }

    proptest! {
        /// Against a table of every sector: where each is.
        #[test]
        fn every_sector_is_where_it_was_written_last(writes in prop::collection::vec((0u64..900, 1u64..40, any::<bool>()), 1..40)) {
            let mut cache = cache();
            let mut oracle = BTreeMap::new();
            for (start, sectors, clean) in writes {
                let start = LOG + start;
                if clean || !cache.has_room(sectors) {
                    let Some(band) = cache.oldest_band() else { continue };
                    let end = cache.band_end(band);
                    let logged: u64 = cache.logged(band, end).iter().map(|run| run.1).sum();
                    prop_assert_eq!(logged, oracle.range(band..end).count() as u64);
                    cache.forget(band, end, cache.mark());
                    oracle.retain(|home, _| !(band..end).contains(home));
                    continue;
                }
                let at = cache.append_at(sectors);
                cache.append([(start, sectors)].into_iter(), sectors);
                oracle.extend((0..sectors).map(|i| (start + i, at + i)));
            }
            let places = cache.locate(LOG, LOG + 1000).into_iter().flat_map(|(at, sectors)| at..at + sectors);
            for (home, place) in (LOG..).zip(places) {
                prop_assert_eq!(place, oracle.get(&home).copied().unwrap_or(home));
            }
            prop_assert_eq!(cache.is_empty(), oracle.is_empty());
        }
    }
}
