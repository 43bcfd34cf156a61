//! A hard drive's model from its data sheet.
//!
//! ```text
//!  generic-hdd-7200, -10k, -15k (the class, by rpm) --+
//!  rates, seeks, random IOPS, cache, recording -------+--> solve --> measured from outside: within 3 %, or refused --> entry
//! ```
//! | figure of the sheet | what it decides |
//! |---|---|
//! | capacity | sectors; sides of platters where heads are not given |
//! | rates outside, inside | sectors per track of the zones; inside, if not given, by the class's ratio |
//! | seeks | the seek curve; what is not given of it goes in proportion to the class's |
//! | a read alone | the average seek; where that is given, nothing |
//! | random reads a second | the average seek; where it or a read alone is given, how far the drive departs from the order of arrival |
//! | a write alone | time of a command |
//! | random writes a second | extents that the write cache can hold |
//! | cache | memory; half of it takes writes |
//! | actuators, recording | tables of their own; the figures of the sheet are those of both arms |

use super::bench::{Load, run};
use super::check::SheetRow;
use super::facts::{SheetFacts, Spread, Trust};
use super::like::{LikeEntry, Value};
use super::{
    SheetError, SheetInterface, SheetKind, SheetModel, check_block, check_interface, reproduced, sectors,
    within,
};
use raidlab_hardware::{
    Catalog, DriveKind, DriveModel, HardDriveModel, MechanicsModel, SeekAnchors, SheetConditions,
    SheetFigure, SheetMetric,
};
use raidlab_units::{ByteCount, BytesPerSec, NanoSpan};
use std::fmt::Write;

/// Steps in looking for a figure, and how near is near enough.
const SEARCHES: usize = 14;
const CLOSE: f64 = 0.005;

/// Commands in flight for figures at random, where a sheet does not say, and for limits that were measured: all that SATA takes.
const QUEUE_USUAL: u32 = 16;
const QUEUE_MEASURED: u32 = 32;

/// How tracks lie.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Recording {
    /// Beside each other.
    #[default]
    Conventional,
    /// Over each other, in bands that the drive manages.
    ShingledByDrive,
    /// The same in zones that the host writes in sequence: no member of an array.
    ShingledByHost,
}

/// Average seek times, and from track to track, in a sheet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SheetSeeks {
    /// Average of a read.
    pub read: Option<NanoSpan>,
    /// Average of a write.
    pub write: Option<NanoSpan>,
    /// To the next track, of a read.
    pub track: Option<NanoSpan>,
    /// From edge to edge, of a read.
    pub full: Option<NanoSpan>,
}

/// A hard drive's data sheet; what it does not say is none.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DiskSheet {
    /// Name of the entry.
    pub id: String,
    /// Name for people.
    pub name: String,
    /// What the host sees.
    pub capacity: ByteCount,
    /// Revolutions per minute; 7200 if the sheet does not say.
    pub rpm: Option<u32>,
    /// Sides of platters in use.
    pub heads: Option<u32>,
    /// Interface, if not that of the class.
    pub interface: Option<SheetInterface>,
    /// Reading in sequence at the outer edge, both arms of two together.
    pub seq_read: Option<BytesPerSec>,
    /// The same of writing.
    pub seq_write: Option<BytesPerSec>,
    /// The same at the inner edge.
    pub seq_inner: Option<BytesPerSec>,
    /// Seek times.
    pub seeks: SheetSeeks,
    /// Reads at random a second.
    pub read_iops: Option<f64>,
    /// Writes of 4 KiB at random a second.
    pub write_iops: Option<f64>,
    /// Typical time of a read at random, alone.
    pub read_latency: Option<NanoSpan>,
    /// Typical time of a write of 4 KiB, alone: with a persistent write cache that is acknowledged from there.
    pub write_latency: Option<NanoSpan>,
    /// Length of the reads at random.
    pub read_block: ByteCount,
    /// Commands in flight for these; 16 if the sheet does not say.
    pub iops_depth: Option<u32>,
    /// The figures are limits that were measured: as many commands in flight as the drive takes.
    pub is_measured: bool,
    /// Memory.
    pub cache: Option<ByteCount>,
    /// What the media holds as one: 512 B, or 4 KiB of 512e and 4Kn.
    pub physical_sector: Option<ByteCount>,
    /// Whether it has two arms.
    pub has_two_arms: bool,
    /// How tracks lie.
    pub recording: Recording,
    /// What else the sheet says.
    pub facts: SheetFacts,
}

/// Solves for the inside of the drive that `sheet` tells of.
///
/// # Errors
/// [`SheetError`] for a sheet that can't be, or that no drive of its class meets within 3 %.
pub fn disk_from_sheet(catalog: &Catalog, sheet: &DiskSheet) -> Result<SheetModel, SheetError> {
    check(sheet)?;
    let mut draft = Draft::new(sheet)?;
    draft.solve(catalog)?;
    let (model, entry) = draft.finished(catalog)?;
    reproduced(catalog.drive(draft.class)?, model, entry)
}

/// Commands in flight for what is read and written at random a second.
fn iops_depth(sheet: &DiskSheet) -> u32 {
    sheet.iops_depth.unwrap_or(if sheet.is_measured { QUEUE_MEASURED } else { QUEUE_USUAL })
}

fn class(rpm: u32) -> &'static str {
    match rpm {
        0..=8_600 => "generic-hdd-7200",
        8_601..=12_500 => "generic-hdd-10k",
        _ => "generic-hdd-15k",
    }
}

/// The figures that the entry is held against.
fn figures(sheet: &DiskSheet) -> Vec<(SheetFigure, Option<Spread>)> {
    let arms = if sheet.has_two_arms { 2 } else { 1 };
    let depth = iops_depth(sheet);
    let at = |block, iodepth, read_pct, streams, write_cache| SheetConditions {
        block: ByteCount(block),
        iodepth,
        read_pct,
        span_pct: 100,
        streams,
        history: None,
        write_cache,
    };
    let mb_per_s = |rate: BytesPerSec| rate.0 / 1e6;
    let us = |span: NanoSpan| span.0 as f64 / 1e3;
    let stream = at(131_072, 4 * arms, 100, arms, None);
    let stream_in = at(131_072, 4 * arms, 0, arms, Some(false));
    let reads = at(sheet.read_block.0, depth, 100, 1, Some(false));
    let writes = at(4096, depth, 0, 1, Some(false));
    let alone = at(512, 1, 100, 1, None);
    let read_alone = at(sheet.read_block.0, 1, 100, 1, None);
    let write_alone = at(4096, 1, 0, 1, None);
    let rows = [
        (SheetMetric::SeqRead, "seq-read", sheet.seq_read.map(mb_per_s), stream),
        (SheetMetric::SeqReadInner, "seq-inner", sheet.seq_inner.map(mb_per_s), stream),
        (SheetMetric::SeqWrite, "seq-write", sheet.seq_write.map(mb_per_s), stream_in),
        (SheetMetric::RandomRead, "read-iops", sheet.read_iops, reads),
        (SheetMetric::RandomWrite, "write-iops", sheet.write_iops, writes),
        (SheetMetric::ReadLatency, "read-latency", sheet.read_latency.map(us), read_alone),
        (SheetMetric::WriteLatency, "write-latency", sheet.write_latency.map(us), write_alone),
        (SheetMetric::SeekRead, "seek-read", sheet.seeks.read.map(us), alone),
    ];
    let figure = |(metric, name, value, conditions): (SheetMetric, &str, Option<f64>, SheetConditions)| {
        let (source, spread) = sheet.facts.trust(name);
        Some((SheetFigure { metric, value: value?, conditions, source }, spread))
    };
    rows.into_iter().filter_map(figure).collect()
}

/// The entry with what is known so far.
struct Draft<'a> {
    sheet: &'a DiskSheet,
    class: &'static str,
    entry: LikeEntry,
    figures: Vec<(SheetFigure, Option<Spread>)>,
}

/// Something of the class that is in proportion to what the sheet says.
fn assumed(text: &str) -> Trust {
    (format!("estimated: {text}"), Some(Spread::LAYOUT))
}

impl<'a> Draft<'a> {
    fn new(sheet: &'a DiskSheet) -> Result<Self, SheetError> {
        let class = class(sheet.rpm.unwrap_or(7200));
        let names = (sheet.id.as_str(), sheet.name.as_str());
        let mut entry =
            LikeEntry::new(names, class, &sheet.facts, sheet.capacity, disk_sectors(sheet.capacity))?;
        entry.add_tables(&tables(sheet));
        Ok(Self { sheet, class, entry, figures: figures(sheet) })
    }

    fn solve(&mut self, catalog: &Catalog) -> Result<(), SheetError> {
        let class = catalog.drive(self.class)?.clone();
        self.set_given(&class);
        let (inside, mechanics) = inside(&class);
        let seeks = Seeks::of(self.sheet, mechanics.0, mechanics.1);
        if self.sheet.seeks != SheetSeeks::default() {
            self.set_seeks(&seeks, None);
        }
        let depth = iops_depth(self.sheet);
        let fitted = |name: &str, iops: f64, what: &str| {
            self.sheet.facts.fitted(name, &format!("{iops} random {what} a second at depth {depth}"))
        };
        let (alone, by_seeks) = (self.sheet.read_latency, self.sheet.seeks.read.is_none());
        self.solve_write_latency(catalog)?;
        if let Some(latency) = alone.filter(|_| by_seeks) {
            let trust = self.sheet.facts.fitted("read-latency", &format!("{latency} for a read"));
            self.search(catalog, SheetMetric::ReadLatency, (4.0, 0.25), |draft, factor| {
                draft.set_seeks(&seeks.times(factor), Some(&trust));
            })?;
        }
        let reads = self.sheet.read_iops.map(|iops| fitted("read-iops", iops, "reads"));
        let writes = self.sheet.write_iops.map(|iops| fitted("write-iops", iops, "writes"));
        if let Some(trust) = reads {
            if by_seeks && alone.is_none() {
                self.search(catalog, SheetMetric::RandomRead, (0.25, 4.0), |draft, factor| {
                    draft.set_seeks(&seeks.times(factor), Some(&trust));
                })?;
            } else {
                self.search(catalog, SheetMetric::RandomRead, (0.0005, 1.0), |draft, weight| {
                    let weight = (weight * 1e5).round() / 1e5;
                    draft.entry.set("firmware.age_weight", Value::Number(weight), trust.clone());
                })?;
            }
        }
        if let Some(trust) = writes {
            let most = f64::from(inside.buffer.write_extents) * 16.0;
            self.search(catalog, SheetMetric::RandomWrite, (most, 1.0), |draft, extents| {
                let extents = Value::Count(extents.round().max(1.0) as u64);
                draft.entry.set("buffer.write_extents", extents, trust.clone());
            })?;
        }
        Ok(())
    }

    /// The time of a command with which a write alone takes as long as the sheet says.
    fn solve_write_latency(&mut self, catalog: &Catalog) -> Result<(), SheetError> {
        let Some(latency) = self.sheet.write_latency else { return Ok(()) };
        let trust = self.sheet.facts.fitted("write-latency", &format!("{latency} for a write"));
        let work = (trust.0.clone(), None);
        self.search(catalog, SheetMetric::WriteLatency, (1e8, 1e3), |draft, ns| {
            draft.entry.set("firmware.command_overhead", Value::Nanos(ns), trust.clone());
            draft.entry.set("firmware.command_work", Value::Nanos((ns / 10.0).max(1.0)), work.clone());
        })
    }

    /// What the sheet says of the entry's own figures.
    fn set_given(&mut self, class: &DriveModel) {
        let sheet = self.sheet;
        let (facts, entry) = (&sheet.facts, &mut self.entry);
        let arms = if sheet.has_two_arms { 2.0 } else { 1.0 };
        if let Some(rpm) = sheet.rpm {
            entry.set("mechanics.rpm", Value::Count(rpm.into()), (facts.trust("rpm").0, None));
        }
        let (heads, trust) = heads(sheet, class);
        entry.set("mechanics.heads", Value::Count(heads.into()), trust);
        let (inside, _) = inside(class);
        let Some(usual) = inside.mechanics.data_sheet() else { return };
        let in_sequence = sheet.seq_read.or(sheet.seq_write);
        let outer = in_sequence.unwrap_or(BytesPerSec(usual.outer_rate.0 * arms)).0 / arms;
        let ratio = usual.inner_rate.0 / usual.outer_rate.0;
        let rate = |rate: f64| Value::Rate(BytesPerSec(rate.round()));
        if in_sequence.is_some() {
            let name = if sheet.seq_read.is_some() { "seq-read" } else { "seq-write" };
            entry.set("mechanics.outer_rate", rate(outer), facts.trust(name));
        }
        match sheet.seq_inner {
            Some(inner) => entry.set("mechanics.inner_rate", rate(inner.0 / arms), facts.trust("seq-inner")),
            None if in_sequence.is_some() => {
                let (text, _) = assumed("it stands to the outer rate as in the class");
                let near = Some(Spread { low: 0.85, high: 1.15 });
                entry.set("mechanics.inner_rate", rate(outer * ratio), (text, near));
            }
            None => {}
        }
        if let Some(cache) = sheet.cache {
            let of_arm = cache.0 / arms as u64;
            entry.set("buffer.size", Value::Size(ByteCount(of_arm)), (facts.trust("cache").0, None));
            let half = assumed("half of the memory, the other half stays with the readers");
            entry.set("write_cache.size", Value::Size(ByteCount(of_arm / 2)), half);
            let run = ByteCount((of_arm / 8).min(2 << 20));
            entry.set("write_cache.run", Value::Size(run), assumed("about a track"));
        }
        if let Some(sector) = sheet.physical_sector {
            entry.set("physical_sector", Value::Size(sector), (facts.trust("sector").0, None));
        }
        if let Some(interface) = &sheet.interface {
            let bus = interface.link.split(['-', '.']).next().unwrap_or("").to_uppercase();
            if bus == "SATA" {
                let queue = "data sheet: Serial ATA, native command queuing: 32 commands".to_owned();
                entry.set("firmware.queue_depth", Value::Count(32), (queue, None));
            }
            entry.set_plain("bus", format!("\"{bus}\""));
            entry.set_plain("interface.link", format!("\"{}\"", interface.link));
            if interface.lanes > 1 {
                let lanes = Value::Count(interface.lanes.into());
                entry.set("interface.lanes", lanes, (facts.trust("interface").0, None));
            }
        }
    }

    /// Sets the seeks; `average` speaks for the average ones where the sheet does not give them.
    fn set_seeks(&mut self, seeks: &Seeks, average: Option<&Trust>) {
        let in_proportion = assumed("in proportion to the class's seeks");
        let sheet = self.sheet.seeks;
        let facts = &self.sheet.facts;
        let given = |span: Option<NanoSpan>, name| match span {
            Some(_) => facts.trust(name),
            None => in_proportion.clone(),
        };
        let average = |span: Option<NanoSpan>, name| match (span, average) {
            (None, Some(trust)) => trust.clone(),
            _ => given(span, name),
        };
        let [read, write] = [seeks.read, seeks.write];
        let times = [
            ("mechanics.seek_read.single_track", read[0], given(sheet.track, "seek-track")),
            ("mechanics.seek_read.average", read[1], average(sheet.read, "seek-read")),
            ("mechanics.seek_read.full_stroke", read[2], given(sheet.full, "seek-full")),
            ("mechanics.seek_write.single_track", write[0], in_proportion.clone()),
            ("mechanics.seek_write.average", write[1], average(sheet.write, "seek-write")),
            ("mechanics.seek_write.full_stroke", write[2], in_proportion.clone()),
        ];
        for (key, ns, trust) in times {
            self.entry.set(key, Value::Nanos(ns), trust);
        }
    }

    /// Looks between the value that makes most of `metric` and the one that makes least, in logarithms.
    fn search(
        &mut self,
        catalog: &Catalog,
        metric: SheetMetric,
        (most, least): (f64, f64),
        mut set: impl FnMut(&mut Self, f64),
    ) -> Result<(), SheetError> {
        let Some((figure, _)) = self.figures.iter().find(|(figure, _)| figure.metric == metric).cloned()
        else {
            return Ok(());
        };
        let (mut high, mut low) = (most.ln(), least.ln());
        for _ in 0..SEARCHES {
            let middle = f64::midpoint(high, low);
            set(self, middle.exp());
            let (model, _) = self.finished(catalog)?;
            let load = Load::new(&model, metric, figure.conditions);
            let predicted = load.value(&model, &run(&model, &load));
            let row = SheetRow { figure: figure.clone(), predicted };
            let error = row.error_pct() / 100.0;
            if error.abs() < CLOSE {
                break;
            }
            *(if error > 0.0 { &mut high } else { &mut low }) = middle;
        }
        Ok(())
    }

    /// The model and its entry as they stand.
    fn finished(&self, catalog: &Catalog) -> Result<(DriveModel, String), SheetError> {
        self.entry.read(catalog, &self.figures)
    }
}

/// Sectors of a disk that is sold as one of `capacity`: above 8 TB the next multiple of 2^21, by SFF-8447.
fn disk_sectors(capacity: ByteCount) -> u64 {
    const STEP: u64 = 1 << 21;
    if capacity.0 > 8_000_000_000_000 {
        (capacity.0 / 512).div_ceil(STEP) * STEP
    } else {
        sectors(capacity) / 8 * 8
    }
}

/// What the class has no table for.
fn tables(sheet: &DiskSheet) -> String {
    let mut text = String::new();
    // Writing to text can't fail.
    if sheet.has_two_arms {
        let is_sas = sheet.interface.as_ref().is_none_or(|interface| interface.link.starts_with("sas"));
        let units = if is_sas { 2 } else { 1 };
        let (given, _) = sheet.facts.trust("actuators");
        let source = "estimated: SAS drives show a unit for each arm, SATA drives one (Seagate, Exos 2X FAQ)";
        let _ = write!(
            text,
            "\n[actuators]\ncount = {{ value = 2, source = \"{given}\" }}\nlogical_units = {{ value = {units}, source = \"{source}\" }}\n"
        );
    }
    match sheet.recording {
        Recording::Conventional => {}
        Recording::ShingledByDrive => {
            let smr = Catalog::text_of("generic-smr-8tb").unwrap_or_default();
            let source = |name: &str| {
                let text = smr.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(" = "));
                text.unwrap_or("\"estimated: as others of the kind\"")
            };
            let table = smr.split_once("[shingles]").map_or("", |(_, rest)| rest);
            let table = &table[..table.find("\n[").unwrap_or(table.len())];
            let named =
                table.replace("\"skylight\"", source("skylight")).replace("\"usual\"", source("usual"));
            let _ = write!(text, "\n[shingles]{named}");
        }
        Recording::ShingledByHost => {
            text += "\n[shingles]\nmanaged_by = \"host\"\nzone = { value = \"256 MiB\", source = \"estimated: what host-managed drives have\" }\n";
        }
    }
    text
}

/// Seek times in nanoseconds: single track, average, full stroke.
#[derive(Clone, Copy)]
struct Seeks {
    read: [f64; 3],
    write: [f64; 3],
}

impl Seeks {
    fn of(sheet: &DiskSheet, read: SeekAnchors, write: SeekAnchors) -> Self {
        let ns = |anchors: SeekAnchors| {
            [anchors.single_track, anchors.average, anchors.full_stroke].map(|span| span.0 as f64)
        };
        let (mut read, usual_write) = (ns(read), ns(write));
        let mut write = usual_write;
        let given = |span: Option<NanoSpan>| span.map(|span| span.0 as f64);
        let settle = usual_write[1] - read[1];
        if let Some(average) = given(sheet.seeks.read) {
            read = read.map(|span| span * average / read[1]);
            write = write.map(|span| span * (average + settle) / usual_write[1]);
        }
        if let Some(average) = given(sheet.seeks.write) {
            write = write.map(|span| span * average / write[1]);
            if sheet.seeks.read.is_none() {
                read = read.map(|span| span * (average - settle).max(average * 0.5) / read[1]);
            }
        }
        if let Some(track) = given(sheet.seeks.track) {
            write[0] += track - read[0];
            read[0] = track;
        }
        if let Some(full) = given(sheet.seeks.full) {
            write[2] += full - read[2];
            read[2] = full;
        }
        Self { read, write }
    }

    fn times(&self, factor: f64) -> Self {
        Self { read: self.read.map(|ns| ns * factor), write: self.write.map(|ns| ns * factor) }
    }
}

/// What is in a disk of the catalogue, and its seeks.
fn inside(class: &DriveModel) -> (&HardDriveModel, (SeekAnchors, SeekAnchors)) {
    let DriveKind::HardDrive(inside) = &class.kind else { unreachable!("the class turns") };
    let MechanicsModel::DataSheet(sheet) = &inside.mechanics else {
        unreachable!("the class is written down")
    };
    (inside, (sheet.seek_read, sheet.seek_write))
}

/// Sides of platters, and what speaks for them; of two arms each has half.
fn heads(sheet: &DiskSheet, class: &DriveModel) -> (u32, Trust) {
    let arms = if sheet.has_two_arms { 2 } else { 1 };
    if let Some(heads) = sheet.heads {
        return (heads.div_ceil(arms), (sheet.facts.trust("heads").0, None));
    }
    let (inside, _) = inside(class);
    let usual = inside.mechanics.data_sheet().map_or(1, |mechanics| mechanics.heads);
    let of_one_side = class.capacity.bytes().0 / u64::from(usual);
    let sides = sheet.capacity.0.div_ceil(of_one_side).clamp(1, 64) as u32;
    (sides.div_ceil(arms), assumed("as many sides as in the class hold this much"))
}

fn check(sheet: &DiskSheet) -> Result<(), SheetError> {
    let wrong = |figure, value: String, reason| Err(SheetError::Figure { figure, value, reason });
    let capacities = ByteCount(10_000_000_000)..=ByteCount(200_000_000_000_000);
    within("a capacity", Some(sheet.capacity), capacities, "of a disk it is from 10 GB to 200 TB")?;
    within("a speed in rpm", sheet.rpm, 3_000..=20_000, "it is from 3000 to 20000")?;
    within("a number of heads", sheet.heads, 1..=64, "it is from 1 to 64")?;
    for rate in [sheet.seq_read, sheet.seq_inner, sheet.seq_write] {
        let rates = BytesPerSec(1e6)..=BytesPerSec(2e9);
        within("a rate in sequence", rate, rates, "of a disk it is from 1 MB/s to 2 GB/s")?;
    }
    for iops in [sheet.read_iops, sheet.write_iops] {
        within("a number of requests a second", iops, 10.0..=5_000.0, "of a disk it is from 10 to 5000")?;
    }
    for seek in [sheet.seeks.read, sheet.seeks.write, sheet.seeks.track, sheet.seeks.full] {
        within("a seek", seek, NanoSpan(10_000)..=NanoSpan(100_000_000), "it is from 10 us to 100 ms")?;
    }
    for latency in [sheet.read_latency, sheet.write_latency] {
        let latencies = NanoSpan(1_000)..=NanoSpan(1_000_000_000);
        within("a latency", latency, latencies, "of a disk it is from 1 us to 1 s")?;
    }
    check_block("a length of reads", sheet.read_block)?;
    if let Some(interface) = &sheet.interface {
        check_interface(interface, &[SheetKind::SataSsd.links(), SheetKind::SasSsd.links()])?;
    }
    within("a depth", Some(iops_depth(sheet)), 1..=256, "it is from 1 to 256")?;
    let caches = ByteCount::from_mib(2)..=ByteCount::from_gib(16);
    within("a cache", sheet.cache, caches, "of a disk it is from 2 MiB to 16 GiB")?;
    let is_known = |sector: &ByteCount| [512, 4096].contains(&sector.0);
    if let Some(sector) = sheet.physical_sector.filter(|sector| !is_known(sector)) {
        return wrong("a sector", sector.to_string(), "it is 512 B or 4 KiB");
    }
    if sheet.has_two_arms && sheet.recording != Recording::Conventional {
        return wrong("a drive", "two arms over shingled tracks".into(), "none is modelled");
    }
    let says_nothing = figures(sheet).is_empty() && sheet.rpm.is_none();
    if says_nothing { Err(SheetError::Nothing) } else { Ok(()) }
}
