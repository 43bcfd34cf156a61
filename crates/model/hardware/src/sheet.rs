//! A drive's performance by its data sheet, and how that is measured: the table `[sheet]` of an entry.
//!
//! No model reads these figures. Models are compared with them from outside (`raidlab catalog check`).
//!
//! ```toml
//! [sheet]
//! seq_read = { value = "6500 MB/s", source = "sheet", block = "128 KiB", iodepth = 32, condition = "sequential" }
//! random_read = { value = 900000, source = "sheet", block = "4 KiB", iodepth = 512, condition = "random" }
//! read_latency = { value = "90 us", source = "sheet", block = "4 KiB", condition = "random" }
//! ```
//! Conditions: `block` and `iodepth`; `span_pct`, the first percents of the drive (default 100); `read_pct` of mixed
//! loads; `streams` that run in parallel, evenly apart; `condition` of a drive with a translation layer; `write_cache`
//! on or off (default as delivered). Conditions that the sheet does not state are our own.

use crate::catalog::{CatalogError, Section};
use crate::drive::{DriveKind, SECTOR_BYTES};
use crate::ssd::DriveHistory;
use core::fmt;
use raidlab_units::{ByteCount, BytesPerSec, NanoSpan};

/// What a sheet's figure counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SheetMetric {
    /// Reading in sequence from the start of the drive, the outer edge of a disk; MB/s.
    SeqRead,
    /// The same at the end of the drive.
    SeqReadInner,
    /// Writing in sequence from the start of the drive; MB/s.
    SeqWrite,
    /// The same at the end of the drive.
    SeqWriteInner,
    /// Reads at random a second.
    RandomRead,
    /// Writes at random a second.
    RandomWrite,
    /// Reads and writes at random a second.
    RandomMixed,
    /// Median time of a read at random, alone; microseconds.
    ReadLatency,
    /// The same of a write.
    WriteLatency,
    /// Mean time of a read at random, alone, less half a turn and the command's overhead; microseconds.
    SeekRead,
    /// The same of a write that goes to the media.
    SeekWrite,
}

/// Key in the file, name with its unit, metric.
const METRICS: [(&str, &str, SheetMetric); 11] = [
    ("seq_read", "seq_read_mb_per_s", SheetMetric::SeqRead),
    ("seq_read_inner", "seq_read_inner_mb_per_s", SheetMetric::SeqReadInner),
    ("seq_write", "seq_write_mb_per_s", SheetMetric::SeqWrite),
    ("seq_write_inner", "seq_write_inner_mb_per_s", SheetMetric::SeqWriteInner),
    ("random_read", "read_iops", SheetMetric::RandomRead),
    ("random_write", "write_iops", SheetMetric::RandomWrite),
    ("random_mixed", "mixed_iops", SheetMetric::RandomMixed),
    ("read_latency", "read_latency_us", SheetMetric::ReadLatency),
    ("write_latency", "write_latency_us", SheetMetric::WriteLatency),
    ("seek_read", "seek_read_us", SheetMetric::SeekRead),
    ("seek_write", "seek_write_us", SheetMetric::SeekWrite),
];

impl SheetMetric {
    /// The figure with its unit, `seq_read_mb_per_s`.
    pub fn name(self) -> &'static str {
        let row = METRICS.iter().find(|(.., metric)| *metric == self);
        row.map_or("", |(_, name, _)| name)
    }

    /// Its key in an entry, `seq_read`.
    pub fn key(self) -> &'static str {
        let row = METRICS.iter().find(|(.., metric)| *metric == self);
        row.map_or("", |(key, ..)| key)
    }

    /// Whether it is a rate of a stream.
    pub const fn is_sequential(self) -> bool {
        matches!(self, Self::SeqRead | Self::SeqReadInner | Self::SeqWrite | Self::SeqWriteInner)
    }

    /// Whether it is a time of one command alone.
    pub const fn is_time(self) -> bool {
        matches!(self, Self::ReadLatency | Self::WriteLatency | Self::SeekRead | Self::SeekWrite)
    }

    /// Whether it is a seek, of which half a turn and the overhead are taken off.
    pub const fn is_seek(self) -> bool {
        matches!(self, Self::SeekRead | Self::SeekWrite)
    }

    /// Share of reads in percent; none where the figure's conditions say.
    const fn read_pct(self) -> Option<u8> {
        match self {
            Self::SeqRead | Self::SeqReadInner | Self::RandomRead | Self::ReadLatency | Self::SeekRead => {
                Some(100)
            }
            Self::SeqWrite
            | Self::SeqWriteInner
            | Self::RandomWrite
            | Self::WriteLatency
            | Self::SeekWrite => Some(0),
            Self::RandomMixed => None,
        }
    }

    fn read_value(
        self,
        sheet: &mut Section<'_>,
        key: &'static str,
    ) -> Result<Option<(f64, String)>, CatalogError> {
        if self.is_sequential() {
            let rate = sheet.figure_with_conditions::<BytesPerSec>(key)?;
            Ok(rate.map(|(rate, source)| (rate.0 / 1e6, source)))
        } else if self.is_time() {
            let time = sheet.figure_with_conditions::<NanoSpan>(key)?;
            Ok(time.map(|(time, source)| (time.0 as f64 / 1e3, source)))
        } else {
            sheet.figure_with_conditions::<f64>(key)
        }
    }
}

/// How a figure is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SheetConditions {
    /// Length of a command.
    pub block: ByteCount,
    /// Commands in flight, of all streams.
    pub iodepth: u32,
    /// Share of reads, in percent.
    pub read_pct: u8,
    /// The first part of the drive that is used, in percent.
    pub span_pct: u8,
    /// Streams side by side, evenly apart; 1 where nothing is in sequence.
    pub streams: u32,
    /// What was written before; none for drives whose speed does not depend on it.
    pub history: Option<DriveHistory>,
    /// Whether the volatile write cache is on, if not as delivered.
    pub write_cache: Option<bool>,
}

impl fmt::Display for SheetConditions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} QD{}", self.block, self.iodepth)?;
        if !matches!(self.read_pct, 0 | 100) {
            write!(f, " {}/{}", self.read_pct, 100 - self.read_pct)?;
        }
        if self.span_pct < 100 {
            write!(f, " first {} %", self.span_pct)?;
        }
        if self.streams > 1 {
            write!(f, " {} streams", self.streams)?;
        }
        if let Some(history) = self.history {
            write!(f, " {history}")?;
        }
        match self.write_cache {
            None => Ok(()),
            Some(true) => f.write_str(" cache on"),
            Some(false) => f.write_str(" cache off"),
        }
    }
}

/// One figure of a sheet.
#[derive(Clone, Debug, PartialEq)]
pub struct SheetFigure {
    /// What it counts.
    pub metric: SheetMetric,
    /// How much, in the metric's unit.
    pub value: f64,
    /// How it is measured.
    pub conditions: SheetConditions,
    /// Who says so.
    pub source: String,
}

impl SheetFigure {
    /// Reads the table `[sheet]` of such a drive.
    pub(crate) fn read_all(mut sheet: Section<'_>, drive: &DriveKind) -> Result<Vec<Self>, CatalogError> {
        let has_translation = matches!(drive, DriveKind::Flash(_));
        let has_arm = matches!(drive, DriveKind::HardDrive(_));
        let mut figures = Vec::new();
        for (key, _, metric) in METRICS {
            let Some((value, source)) = metric.read_value(&mut sheet, key)? else { continue };
            if value <= 0.0 || metric.is_seek() && !has_arm {
                return Err(sheet.bad_value(key, "above zero, and a seek only of a hard drive"));
            }
            let conditions = SheetConditions::read(sheet.conditions(key)?, metric, has_translation)?;
            figures.push(Self { metric, value, conditions, source });
        }
        sheet.finish(figures)
    }
}

impl SheetConditions {
    fn read(
        mut section: Section<'_>,
        metric: SheetMetric,
        has_translation: bool,
    ) -> Result<Self, CatalogError> {
        let is_alone = metric.is_time();
        let read_pct = match metric.read_pct() {
            Some(pct) => pct,
            None => section.setting("read_pct")?,
        };
        let conditions = Self {
            block: section.setting("block")?,
            iodepth: if is_alone { 1 } else { section.setting("iodepth")? },
            read_pct,
            span_pct: section.optional_setting("span_pct")?.unwrap_or(100),
            streams: if metric.is_sequential() {
                section.optional_setting("streams")?.unwrap_or(1)
            } else {
                1
            },
            history: if has_translation { Some(history(&mut section)?) } else { None },
            write_cache: if section.has("write_cache") { Some(section.flag("write_cache")?) } else { None },
        };
        let block = conditions.block.0;
        if !block.is_multiple_of(SECTOR_BYTES) || !(SECTOR_BYTES..=1 << 24).contains(&block) {
            return Err(section.bad_value("block", "a multiple of 512 B, up to 16 MiB"));
        }
        let bounds = [
            ("iodepth", conditions.iodepth, 4096, "from 1 to 4096"),
            ("streams", conditions.streams, 64, "from 1 to 64"),
            ("span_pct", conditions.span_pct.into(), 100, "from 1 to 100"),
            ("read_pct", u32::from(conditions.read_pct) + 1, 101, "from 0 to 100"),
        ];
        for (key, value, most, expected) in bounds {
            section.refuse_if(!(1..=most).contains(&value), key, expected)?;
        }
        section.finish(conditions)
    }
}

fn history(section: &mut Section<'_>) -> Result<DriveHistory, CatalogError> {
    let text = section.text("condition")?;
    text.parse().map_err(|_| section.bad_value("condition", "fresh, sequential, random or random:N"))
}
