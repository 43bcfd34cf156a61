//! The TOML form of a workload file, and its conversion to and from an access specification.
//!
//! Every key is checked twice: here that it is known and of the right kind, in [`AccessSpec::validate`] that it is
//! consistent with the others.

use super::Workload;
use super::actors::{AcceleratorTable, ActorTables, CacheTable, CheckpointTable, CompactionTable, LogTable};
use crate::actor::Phase;
use crate::data::DataSpec;
use crate::pacing::{ArrivalProcess, Arrivals, ClosedLoop, FlushRule, Pacing, RequestRate};
use crate::places::{Distribution, FileOrder, HitRate, PlacedFiles, Places, Zone};
use crate::result::Metric;
use crate::rhythm::{HOURS, OnOff, Rhythm, SelfSimilar, SpanLaw};
use crate::spec::{AccessLine, AccessSpec, MixPart};
use crate::toml_file::Pair;
use raidlab_units::{ByteCount, NanoSpan};
use serde::Deserialize;
use std::num::NonZeroU32;

/// A whole file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WorkloadFile {
    #[serde(rename = "schema")]
    _schema: u32,
    name: String,
    title: String,
    source: String,
    metric: Metric,
    #[serde(default)]
    notes: String,
    #[serde(default)]
    block_sizes: Vec<RequestBytes>,
    iodepth: Option<u32>,
    flush_every: Option<NonZeroU32>,
    flush_metadata: Option<bool>,
    #[serde(default)]
    think: NanoSpan,
    arrival: Option<ArrivalTable>,
    #[serde(default)]
    limit: LimitTable,
    #[serde(default)]
    places: PlacesTable,
    #[serde(default)]
    data: DataTable,
    #[serde(default)]
    line: Vec<LineTable>,
    #[serde(default)]
    part: Vec<PartTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PartTable {
    name: String,
    weight: Option<u32>,
    target: Option<NonZeroU32>,
    iodepth: Option<u32>,
    flush_every: Option<NonZeroU32>,
    flush_metadata: Option<bool>,
    #[serde(default)]
    think: NanoSpan,
    arrival: Option<ArrivalTable>,
    #[serde(default)]
    limit: LimitTable,
    #[serde(default)]
    places: PlacesTable,
    #[serde(default)]
    phase: Phase,
    accelerator: Option<AcceleratorTable>,
    checkpoint: Option<CheckpointTable>,
    log: Option<LogTable>,
    compaction: Option<CompactionTable>,
    cache: Option<CacheTable>,
    #[serde(default)]
    line: Vec<LineTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LineTable {
    size: RequestBytes,
    share_pct: u8,
    read_pct: u8,
    random_pct: u8,
    #[serde(default)]
    delay: NanoSpan,
    #[serde(default = "one")]
    burst: u32,
    align: Option<RequestBytes>,
    reply: Option<RequestBytes>,
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct ArrivalTable {
    process: ArrivalProcess,
    rate: Option<Rate>,
    #[serde(default = "one")]
    burst: u32,
    by_hour: Option<Vec<f64>>,
    day: Option<NanoSpan>,
    /// How long each rate lasts, and the rate.
    steps: Option<Vec<Pair<NanoSpan, f64>>>,
    on_off: Option<OnOffTable>,
    self_similar: Option<SelfSimilarTable>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
struct OnOffTable {
    on: NanoSpan,
    off: NanoSpan,
    #[serde(default)]
    lengths: SpanLaw,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
struct SelfSimilarTable {
    hurst: f64,
    variation_pct: f64,
    #[serde(default = "ten_ms")]
    interval: NanoSpan,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct LimitTable {
    iops: Option<Rate>,
    bytes_per_sec: Option<ByteCount>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct PlacesTable {
    #[serde(default)]
    start: ByteCount,
    size: Option<ByteCount>,
    working_set_pct: Option<f64>,
    #[serde(default)]
    distribution: DistributionName,
    scrambled: Option<bool>,
    theta: Option<f64>,
    h: Option<f64>,
    mean_pct: Option<f64>,
    deviation_pct: Option<f64>,
    /// Pairs of percentages, of the space and of the accesses up to there.
    hit_rates: Option<Vec<Pair<f64, f64>>>,
    /// Pairs of percentages, of the accesses and of the space.
    zones: Option<Vec<Pair<f64, f64>>>,
    accesses_pct: Option<f64>,
    space_pct: Option<f64>,
    files: Option<u32>,
    file_burst: Option<u32>,
    file_order: Option<FileOrder>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum DistributionName {
    #[default]
    Uniform,
    Zipf,
    Pareto,
    HitRates,
    HotSpot,
    Zones,
    Normal,
    Shuffle,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct DataTable {
    #[serde(default)]
    compressible_pct: u8,
    #[serde(default)]
    dedupe_pct: u8,
}

/// A length that one request can have.
#[derive(Clone, Copy, Deserialize)]
#[serde(try_from = "ByteCount")]
pub(super) struct RequestBytes(pub(super) u32);

/// A share in percent, which may be written without a point.
#[derive(Clone, Copy, Deserialize)]
pub(super) struct Rate64(pub(super) f64);

impl TryFrom<ByteCount> for RequestBytes {
    type Error = String;

    fn try_from(bytes: ByteCount) -> Result<Self, String> {
        u32::try_from(bytes.get())
            .map(Self)
            .map_err(|_| format!("{bytes} is too long for one request: it must be below 4 GiB"))
    }
}

/// Requests per second.
#[derive(Clone, Copy, Deserialize)]
#[serde(try_from = "f64")]
struct Rate(RequestRate);

impl TryFrom<f64> for Rate {
    type Error = String;

    fn try_from(per_second: f64) -> Result<Self, String> {
        RequestRate::new(per_second).map(Self).ok_or_else(|| {
            format!("{per_second} is no rate: write requests per second, 0.000001 to 1000000000")
        })
    }
}

const fn one() -> u32 {
    1
}

const fn ten_ms() -> NanoSpan {
    NanoSpan::from_millis(10)
}

impl From<LineTable> for AccessLine {
    fn from(line: LineTable) -> Self {
        Self {
            bytes: line.size.0,
            share_pct: line.share_pct,
            read_pct: line.read_pct,
            random_pct: line.random_pct,
            delay: line.delay,
            burst: line.burst,
            align_bytes: line.align.map(|align| align.0),
            reply_bytes: line.reply.map_or(0, |reply| reply.0),
        }
    }
}

/// Puts the keys of a loop together.
fn pacing(
    arrival: Option<ArrivalTable>,
    limit: LimitTable,
    think: NanoSpan,
) -> Result<(Pacing, Rhythm), String> {
    let closed =
        ClosedLoop { think, rate_max: limit.iops.map(|rate| rate.0), bytes_per_sec_max: limit.bytes_per_sec };
    match arrival {
        None => Ok((Pacing::Closed(closed), Rhythm::default())),
        Some(arrival) if closed == ClosedLoop::default() => arrival.open_loop(),
        Some(_) => Err("limit and think are for loops without arrival: leave out either".into()),
    }
}

impl ArrivalTable {
    /// Arrivals, and how their rate changes. Without a rate it is the mean of its hours or steps.
    fn open_loop(self) -> Result<(Pacing, Rhythm), String> {
        let rhythm = Rhythm {
            steps: self.steps()?,
            on_off: self.on_off.map(|OnOffTable { on, off, lengths }| OnOff { on, off, lengths }),
            self_similar: self.self_similar.map(|it| SelfSimilar {
                hurst: it.hurst,
                variation_pct: it.variation_pct,
                interval: it.interval,
            }),
        };
        let rate = match (self.rate, rhythm.mean()) {
            (Some(rate), _) => rate.0,
            (None, Some(mean)) => Rate::try_from(mean)?.0,
            (None, None) => return Err("arrival: the key 'rate' is missing: add it, or by_hour".into()),
        };
        Ok((Pacing::Open(Arrivals { process: self.process, rate, burst: self.burst }), rhythm))
    }

    fn steps(&self) -> Result<Vec<(NanoSpan, f64)>, String> {
        match (&self.by_hour, &self.steps) {
            (Some(_), Some(_)) => Err("by_hour and steps say the same: leave out either".into()),
            (Some(_), None) if self.day.is_some_and(|day| day.get() < HOURS as u64) => {
                Err("day must be above 0: it is how long the rates of by_hour last".into())
            }
            (Some(rates), None) if rates.len() == HOURS => {
                let day = self.day.unwrap_or(NanoSpan::from_secs(86_400));
                let hour = NanoSpan(day.get() / HOURS as u64);
                Ok(rates.iter().map(|rate| (hour, *rate)).collect())
            }
            (Some(rates), None) => Err(format!(
                "by_hour has {} rates: write {HOURS}, or steps = [[\"8h\", 100], [\"16h\", 500]]",
                rates.len()
            )),
            (None, _) if self.day.is_some() => {
                Err("day is how long the rates of by_hour last: add these".into())
            }
            (None, Some(steps)) if steps.is_empty() => {
                Err("steps has no rate: write steps = [[\"8h\", 100], [\"16h\", 500]]".into())
            }
            (None, steps) => Ok(steps.iter().flatten().map(|Pair(lasts, rate)| (*lasts, *rate)).collect()),
        }
    }
}

/// Puts the keys of a loop's flushes together.
fn flush(every: Option<NonZeroU32>, metadata: Option<bool>) -> Result<Option<FlushRule>, String> {
    match (every, metadata) {
        (None, Some(_)) => Err("flush_metadata says what flushes are for: add flush_every".into()),
        (every, with_metadata) => {
            Ok(every.map(|every| FlushRule { every, with_metadata: with_metadata.unwrap_or(false) }))
        }
    }
}

impl PlacesTable {
    fn places(self) -> Result<Places, String> {
        let distribution = self.distribution()?;
        if distribution.is_ranked() && self.scrambled.is_none() {
            return Err(
                "scrambled is missing: write true if the favourite places lie all over the working set, \
                        false if they are neighbours at its start"
                    .into(),
            );
        }
        Ok(Places {
            files: self.files()?,
            start: self.start,
            size: self.size,
            working_set_pct: self.working_set_pct.unwrap_or(100.0),
            distribution,
            scrambled: self.scrambled.unwrap_or(false),
        })
    }

    fn files(&self) -> Result<PlacedFiles, String> {
        let usual = PlacedFiles::default();
        if self.files.is_none() && (self.file_burst.is_some() || self.file_order.is_some()) {
            return Err("file_burst and file_order say which of several files is next: add files".into());
        }
        Ok(PlacedFiles {
            count: self.files.unwrap_or(usual.count),
            burst: self.file_burst.unwrap_or(usual.burst),
            order: self.file_order.unwrap_or(usual.order),
        })
    }

    /// The distribution, of the keys that it has; any other is one too many.
    fn distribution(&self) -> Result<Distribution, String> {
        use DistributionName as Name;
        let [zones, hit_rates] = [&self.zones, &self.hit_rates].map(|table| table.as_ref().map(|_| 0.0));
        let keys = [
            ("theta", self.theta, Name::Zipf),
            ("h", self.h, Name::Pareto),
            ("accesses_pct", self.accesses_pct, Name::HotSpot),
            ("space_pct", self.space_pct, Name::HotSpot),
            ("mean_pct", self.mean_pct, Name::Normal),
            ("deviation_pct", self.deviation_pct, Name::Normal),
            ("zones", zones, Name::Zones),
            ("hit_rates", hit_rates, Name::HitRates),
        ];
        for (key, value, owner) in keys {
            match (value, owner == self.distribution) {
                (None, true) => return Err(format!("{key} is missing for this distribution: add it")),
                (Some(_), false) => {
                    let word = |letter: char| {
                        letter.is_uppercase().then_some('-').into_iter().chain(letter.to_lowercase())
                    };
                    let owner: String = format!("{owner:?}").chars().flat_map(word).collect();
                    let owner = owner.trim_start_matches('-');
                    return Err(format!("{key} belongs to distribution = \"{owner}\": leave it out"));
                }
                _ => {}
            }
        }
        let figure = |value: Option<f64>| value.unwrap_or(0.0);
        Ok(match self.distribution {
            Name::Uniform => Distribution::Uniform,
            Name::Shuffle => Distribution::Shuffle,
            Name::Zipf => Distribution::Zipf { theta: figure(self.theta) },
            Name::Pareto => Distribution::Pareto { h: figure(self.h) },
            Name::Normal => Distribution::Normal {
                mean_pct: figure(self.mean_pct),
                deviation_pct: figure(self.deviation_pct),
            },
            Name::HitRates => {
                let pairs = self.hit_rates.iter().flatten();
                let row = |&Pair(cache_pct, hits_pct): &Pair<f64, f64>| HitRate { cache_pct, hits_pct };
                Distribution::HitRates(pairs.map(row).collect())
            }
            Name::HotSpot => {
                let (accesses_pct, space_pct) = (figure(self.accesses_pct), figure(self.space_pct));
                let rest = Zone { accesses_pct: 100.0 - accesses_pct, space_pct: 100.0 - space_pct };
                Distribution::Zones(vec![Zone { accesses_pct, space_pct }, rest])
            }
            Name::Zones => {
                let pairs = self.zones.iter().flatten();
                let zone = |&Pair(accesses_pct, space_pct): &Pair<f64, f64>| Zone { accesses_pct, space_pct };
                Distribution::Zones(pairs.map(zone).collect())
            }
        })
    }
}

impl PartTable {
    fn part(self) -> Result<MixPart, String> {
        let within = |problem: String| format!("part '{}': {problem}", self.name);
        let tables = ActorTables {
            accelerator: self.accelerator,
            checkpoint: self.checkpoint,
            log: self.log,
            compaction: self.compaction,
            cache: self.cache,
        };
        let (pacing, rhythm) = pacing(self.arrival, self.limit, self.think).map_err(within)?;
        Ok(MixPart {
            weight: self.weight,
            target: self.target,
            actor: tables.actor().map_err(within)?,
            phase: self.phase,
            lines: self.line.into_iter().map(AccessLine::from).collect(),
            places: self.places.places().map_err(within)?,
            pacing,
            rhythm,
            iodepth: self.iodepth,
            flush: flush(self.flush_every, self.flush_metadata).map_err(within)?,
            name: self.name,
        })
    }
}

impl WorkloadFile {
    /// Puts the workload together.
    ///
    /// # Errors
    /// Says in words what does not go together.
    pub(super) fn workload(self) -> Result<Workload, String> {
        let DataTable { compressible_pct, dedupe_pct } = self.data;
        let (pacing, rhythm) = pacing(self.arrival, self.limit, self.think)?;
        let spec = AccessSpec {
            name: self.name,
            lines: self.line.into_iter().map(AccessLine::from).collect(),
            places: self.places.places()?,
            pacing,
            rhythm,
            iodepth: self.iodepth,
            flush: flush(self.flush_every, self.flush_metadata)?,
            data: DataSpec { compressible_pct, dedupe_pct },
            parts: self.part.into_iter().map(PartTable::part).collect::<Result<_, _>>()?,
            trace: None,
        };
        spec.validate().map_err(|error| error.to_string())?;
        Ok(Workload {
            title: self.title,
            source: self.source,
            metric: self.metric,
            notes: self.notes,
            block_bytes_published: self.block_sizes.iter().map(|size| size.0).collect(),
            spec,
        })
    }
}
