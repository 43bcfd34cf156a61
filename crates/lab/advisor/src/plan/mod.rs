//! From needs to candidates: every array that the parts make, pruned by arithmetic alone.
//!
//! ```text
//! parts x counts x levels x spares x settings ─► candidates ─► rejected, each under its first reason
//!                                                          └─► kept, cheapest first within each family
//! ```
//! - **A geometry** is the hardware and its layout: drive, controller, enclosure, level, members, spares. **Settings**
//!   can be changed without a screwdriver: strip, write policy, read policy, disk cache.
//! - **Exact** are capacity and failures survived (from the layout), slots, cost and power (sums).
//! - **Throughput** is bounded from above ([`estimate`]): no simulation would save what the arithmetic rejects. What it
//!   keeps must be simulated, because arithmetic ignores waiting.
//! - The [`Frontier`] decides **what to simulate next**, and what can't beat the best any more.
//! - Nothing is ranked by rule. Which level, drive or setting suits a load is found by simulation, elsewhere.
//!
//! Pure: parts and their rates come in as arguments. An unknown price or power is not zero: if a need depends on it,
//! the candidate is rejected as unknown. Where nobody gives a price, arrays are compared by prices
//! whose ratios are usual (`assumed`).

mod assumed;
mod diverse;
mod enumerate;
pub mod estimate;
mod frontier;
mod life;
mod rank;
mod relax;
mod safety;

pub use diverse::{Role, Row, diverse, roles};
pub use enumerate::{
    Enumeration, Kept, Nearest, Purchase, Space, check_layouts, data_held, enumerate, place_takes,
    shelf_takes, survivable,
};
pub use frontier::Frontier;
pub use life::{Life, Rating, Wear};
pub use rank::{Bulk, Judged, LatencyTail, Margins, ParetoPoint, Performance, RankKey, Ranking, pareto};
pub use relax::{Need, Relaxation, near_misses, relaxations, relaxed_needs};
pub use safety::{AtRisk, Hardware};

use crate::bound::Bound;
use crate::plan::estimate::{CommandSecs, Demand, DriveRates};
use raidlab_raid::LevelVariant;
use raidlab_units::{ByteCount, BytesPerSec};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What the array must do.
#[derive(Clone, Debug, Default, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Needs {
    /// Capacity that the host needs.
    pub usable: ByteCount,
    /// How the data grow to that capacity, where they do.
    pub growth: Option<Growth>,
    /// Failed members that it must survive, whichever they are.
    pub survive: u16,
    /// Requests per second.
    pub iops: Option<f64>,
    /// Bytes per second.
    pub bytes_per_sec: Option<f64>,
    /// Bounds that keep total latency from above, each of which every application must keep.
    pub latency: Vec<Bound>,
    /// Requests per second on average, apart from the peaks that the array must serve: what wears drives out is counted at it.
    pub mean_iops: Option<f64>,
    /// Bytes that the host writes in a day, of all applications, whatever their rates.
    pub written_per_day: Option<f64>,
    /// Whether that is written in sequence, as checkpoints are, where the applications write nothing.
    pub written_in_sequence: bool,
    /// Years that the drives must last.
    pub years: Option<f64>,
    /// Share of the throughput needed that must be left with a member missing, and while it is rebuilt; of what the array does whole
    /// where no throughput is needed.
    pub keep_degraded: Option<f64>,
    /// Chance of losing any data in a year at most, where it is known.
    pub loss_per_year: Option<f64>,
    /// What the best of those that keep all needs is; if none, the cheapest where a throughput is needed, else the fastest.
    pub goal: Option<Goal>,
    /// What single applications need, in their order; empty where all need the same.
    pub own: Vec<OwnNeeds>,
    /// Cost at most, in the currency of the prices.
    pub budget: Option<f64>,
    /// Power at most, in watts.
    pub power_watts: Option<f64>,
    /// Places for drives at most, spares included.
    pub slots: Option<u16>,
    /// Height of all enclosures at most, in rack units.
    pub rack_units: Option<u32>,
}

/// How data grow to what is needed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Growth {
    /// Percent by which they are more after a year.
    pub pct_per_year: f64,
    /// Years that they grow for.
    pub years: f64,
}

impl Growth {
    /// How many times what they are at first the data come to.
    pub fn times(&self) -> f64 {
        (1.0 + self.pct_per_year / 100.0).powf(self.years)
    }
}

raidlab_units::named! {
    /// What the best array is, of those that keep all needs.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
    #[serde(rename_all = "kebab-case")]
    pub enum Goal {
        /// The one that takes least, and of equals the fastest.
        Cheapest = "cheapest",
        /// The one that does most, and of equals the one that takes least.
        Fastest = "fastest",
    }
}

/// What one application needs beside or instead of what all need.
#[derive(Clone, Debug, Default, PartialEq, Serialize, schemars::JsonSchema)]
pub struct OwnNeeds {
    /// Its part of the capacity.
    pub usable: Option<ByteCount>,
    /// Requests per second, instead of those of all.
    pub iops: Option<f64>,
    /// Requests per second on average, instead of those of all.
    pub mean_iops: Option<f64>,
    /// Bytes per second, instead of those of all.
    pub bytes_per_sec: Option<f64>,
    /// Bounds that keep its latency from above, beside those of all.
    pub latency: Vec<Bound>,
}

impl Needs {
    /// Whether a throughput is needed.
    pub fn wants_rate(&self) -> bool {
        let own = self.own.iter().any(|own| own.iops.is_some() || own.bytes_per_sec.is_some());
        self.iops.is_some() || self.bytes_per_sec.is_some() || own
    }

    /// Whether the cheapest array is the best.
    pub fn wants_cheapest(&self) -> bool {
        self.goal.map_or_else(|| self.wants_rate(), |goal| goal == Goal::Cheapest)
    }

    /// Whether application `app` gets the rates and keeps the latencies that it needs.
    pub fn are_kept_for(&self, app: usize, found: &Performance) -> bool {
        self.iops_of(app).is_none_or(|need| found.iops >= need)
            && self.bytes_per_sec_of(app).is_none_or(|need| found.bytes_per_sec >= need)
            && self.latency_of(app).all(|bound| bound.figure_in(found) <= bound.value())
    }

    /// Requests per second that application `app` needs.
    pub fn iops_of(&self, app: usize) -> Option<f64> {
        self.own.get(app).and_then(|own| own.iops).or(self.iops)
    }

    /// Requests per second of application `app` on average, where that is told apart from its peaks.
    pub fn mean_iops_of(&self, app: usize) -> Option<f64> {
        self.own.get(app).and_then(|own| own.mean_iops).or(self.mean_iops)
    }

    /// Bytes per second that application `app` needs.
    pub fn bytes_per_sec_of(&self, app: usize) -> Option<f64> {
        self.own.get(app).and_then(|own| own.bytes_per_sec).or(self.bytes_per_sec)
    }

    /// The bounds on latency that application `app` must keep.
    pub fn latency_of(&self, app: usize) -> impl Iterator<Item = &Bound> {
        self.latency.iter().chain(self.own.get(app).into_iter().flat_map(|own| &own.latency))
    }

    /// Requests per second that both throughput needs of application `app` come to for requests of `bytes_mean`; `None` without
    /// either.
    pub fn requests_per_sec(&self, app: usize, bytes_mean: f64) -> Option<f64> {
        let by_bytes = self.bytes_per_sec_of(app).map(|rate| rate / bytes_mean);
        match (self.iops_of(app), by_bytes) {
            (Some(a), Some(b)) => Some(a.max(b)),
            (a, b) => a.or(b),
        }
    }
}

/// What makes a drive dearer or cheaper than others of its kind that hold as much.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Make {
    /// A disk with so many arms that move by themselves.
    Arms(u32),
    /// Flash that keeps so many bits in a cell.
    Bits(u32),
}

/// A kind of drive, as far as arithmetic goes.
#[derive(Clone, Debug)]
pub struct DrivePart {
    /// Name in the catalogue.
    pub id: String,
    /// What its siblings of other capacities are called, too.
    pub family: String,
    /// `nvme`, `sas-ssd`, `sata-ssd`, `hdd`.
    pub kind: String,
    /// What wears it out.
    pub wear: Wear,
    /// How it is made.
    pub make: Make,
    /// Of them, those that are there and cost nothing.
    pub owned: u16,
    /// What it holds.
    pub capacity: ByteCount,
    /// Shapes that it is sold in, `2.5 inch`.
    pub forms: Vec<&'static str>,
    /// What it is plugged into, where that is known.
    pub bus: Option<String>,
    /// What a loss of power takes of acknowledged writes where its write cache is on; zero where it protects them.
    pub volatile_cache: ByteCount,
    /// What it does at best.
    pub rates: DriveRates,
    /// Price, where it is known.
    pub price: Option<f64>,
    /// Power while working, where it is known.
    pub watts: Option<f64>,
}

/// Where the drives of a controller are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DrivePlaces {
    /// In the server itself.
    Server,
    /// In the server itself, at ports that its mainboard has anyway.
    Mainboard,
    /// In enclosures.
    Enclosures,
    /// In either: it is software on the host.
    Either,
}

/// A controller, as far as arithmetic goes.
#[derive(Clone, Debug)]
pub struct ControllerPart {
    /// Name in the catalogue.
    pub id: String,
    /// What others of its maker and line are called, too.
    pub family: String,
    /// Whether it is there and costs nothing.
    pub is_owned: bool,
    /// What can be plugged in, where that is known.
    pub buses: Vec<String>,
    /// Drives that can be plugged in, where that is known.
    pub ports: Option<u32>,
    /// Processors that share the commands.
    pub processors: u32,
    /// Their time for a command of the host.
    pub host_command: CommandSecs,
    /// Their time for a command to a member, on the shortest way there is.
    pub member_command: CommandSecs,
    /// Towards the host.
    pub host_rate: BytesPerSec,
    /// Towards the members.
    pub member_rate: BytesPerSec,
    /// Towards one drive; none where its lanes are not known.
    pub slot_rate: Option<BytesPerSec>,
    /// The same for `NVMe` drives.
    pub nvme_slot_rate: Option<BytesPerSec>,
    /// Strip as delivered.
    pub strip: ByteCount,
    /// Its cache; zero where it has none.
    pub cache: ByteCount,
    /// Whether that outlives a power loss.
    pub is_battery_backed: bool,
    /// Whether it reads ahead.
    pub reads_ahead: bool,
    /// Where its drives are.
    pub places: DrivePlaces,
    /// Price, where it is known.
    pub price: Option<f64>,
    /// Power, where it is known.
    pub watts: Option<f64>,
}

/// An enclosure.
#[derive(Clone, Debug)]
pub struct EnclosurePart {
    /// Name in the catalogue.
    pub id: String,
    /// Places for drives.
    pub slots: u16,
    /// Of them, those that are there and cost nothing.
    pub owned: u16,
    /// Its height, where it is known.
    pub rack_units: Option<u32>,
    /// Shape that those are for.
    pub form: &'static str,
    /// What its places are made for, where that is known.
    pub bus: Option<String>,
    /// Whether these are bays of the server itself, which it has anyway.
    pub is_server: bool,
    /// Towards the controller.
    pub port_rate: BytesPerSec,
    /// Towards one drive; none where its lanes are not known.
    pub slot_rate: Option<BytesPerSec>,
    /// Price, where it is known.
    pub price: Option<f64>,
    /// Power without drives, where it is known.
    pub watts: Option<f64>,
}

/// All parts there are.
#[derive(Clone, Debug, Default)]
pub struct PartList {
    /// Drives.
    pub drives: Vec<DrivePart>,
    /// Controllers.
    pub controllers: Vec<ControllerPart>,
    /// Enclosures.
    pub enclosures: Vec<EnclosurePart>,
    /// Chance of losing data in a year of arrays as [`Geometry::on_paper`] has them, as far as it is known.
    pub losses: BTreeMap<Geometry, f64>,
}

/// What hardware there is and how it is laid out; parts by their numbers in the [`PartList`].
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema,
)]
pub struct Geometry {
    /// The drive.
    pub drive: u16,
    /// The controller.
    pub controller: u16,
    /// The enclosure; none where drives are in the server itself.
    pub enclosure: Option<u16>,
    /// The level.
    pub level: LevelVariant,
    /// Number of members.
    pub members: u16,
    /// Hot spares.
    pub spares: u16,
}

impl Geometry {
    /// The same drives in the same layout, wherever they are plugged in.
    #[must_use]
    pub fn on_paper(&self) -> Self {
        Self { controller: 0, enclosure: None, ..*self }
    }

    /// Whether the number of members is all that it differs in.
    pub fn is_like(&self, other: &Self) -> bool {
        Self { members: 0, ..*self } == Self { members: 0, ..*other }
    }
}

/// What can be set.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema,
)]
pub struct Settings {
    /// Strip; `None` is as delivered.
    pub strip: Option<ByteCount>,
    /// Write-back, not write-through.
    pub write_back: bool,
    /// Adaptive read-ahead, not none.
    pub read_ahead: bool,
    /// The members' own write caches.
    pub disk_cache: bool,
}

raidlab_units::named! {
    /// Why a candidate is out; the first reason that holds, in this order.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, schemars::JsonSchema)]
    #[serde(rename_all = "kebab-case")]
    pub enum Rejection {
        /// The drives can't be plugged into the controller or the enclosure, or that controller takes no enclosure or needs one.
        Misfit = "parts do not fit each other",
        /// The level does not allow so many members.
        NoLayout = "level does not allow so many members",
        /// It survives too few failures.
        Failures = "survives too few failures",
        /// More drives than places, or than the controller has ports for.
        Slots = "more drives than places",
        /// Too small.
        Capacity = "too small",
        /// A setting that changes nothing on these parts, as a write cache that the controller has not.
        NoEffect = "a setting without effect on these parts",
        /// A loss of power takes acknowledged writes, and that is not allowed.
        Volatile = "lose acknowledged writes with the power",
        /// The price of a part is not known, and there is a budget.
        PriceUnknown = "price of a part not known",
        /// Too expensive.
        Budget = "too expensive",
        /// Too much power.
        Power = "too much power",
        /// The height of an enclosure is not known, and there is a bound.
        HeightUnknown = "height of an enclosure not known",
        /// More rack units than there are.
        RackUnits = "too high",
        /// Data are lost too often.
        Loss = "lose data too often",
        /// Nobody says how much may be written to the drives, and they must last.
        LifeUnknown = "rated writes not known",
        /// The drives wear out too soon, even by an estimate that writes no more than it must.
        Endurance = "worn out too soon",
        /// Too slow, even by an estimate that forgets all waiting.
        Throughput = "too slow at best",
    }
}

/// What is asked of every candidate.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    /// The needs.
    pub needs: &'a Needs,
    /// What the applications ask, each of which must be served.
    pub demands: &'a [Demand],
    /// What there is to choose from.
    pub space: &'a Space,
    /// The parts.
    pub parts: &'a PartList,
    /// Whether all applications run at the same time; else one after the other.
    pub together: bool,
}

#[cfg(test)]
mod tests;
