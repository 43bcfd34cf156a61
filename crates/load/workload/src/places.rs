//! Where requests go: the part of the target in use, and how random requests are spread over it.
//!
//! ```text
//! target   |....start|== size ==========================|......|
//!                    |= working set =|                            the first percent of it, the "stroke"
//!                    rank 0, 1, 2, ...                            the hot places of a skewed distribution
//! ```
//! A distribution is one over *ranks*: rank 0 is the hottest. Ranks are places in order of address, or, if `scrambled`
//! is true, places in a one-to-one pseudorandom order. Without it the hot places are neighbours, which favours caches,
//! read-ahead and short strokes of a disk's arm; with it they are spread over the working set, as popular objects are.
//! Zipf, Pareto and hit rates require the setting.
//!
//! Only random requests are drawn by the distribution; sequential ones continue from the last, of whichever kind.
//!
//! The working set may be cut into *files*, equal ones side by side. Each request goes to one of them: in turn, or to one drawn evenly.
//! Each has a position of its own, from which sequential requests go on, and a distribution of its own.
//!
//! | distribution | places `0 <= k < n` |
//! |---|---|
//! | uniform | each with the same probability |
//! | zipf, theta | probability of `k` proportional to `1 / (k + 1)^theta` |
//! | pareto, h | the first share `x` of the places gets the share `x^(ln(1 - h) / ln h)` of the accesses: the first `h` of the places gets `1 - h` of the accesses, and so on within it (self-similar) |
//! | hit rates | a table: the first share of the places gets the share of the accesses beside it, even between two rows |
//! | zones | each zone its share of the accesses, even within it; two zones are a hot spot |
//! | normal | mean and standard deviation in percent of the working set; draws outside are drawn again |
//! | shuffle | every place once, in random order, then again in another order |
//!
//! Sources: fio's `random_distribution` for the family; J. Gray et al., "Quickly generating billion-record synthetic
//! databases" (1994) for the self-similar distribution.

use raidlab_units::ByteCount;

/// A share of the accesses that goes to a share of the places.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Zone {
    /// Share of the accesses in percent; the zones of a distribution add up to 100.
    pub accesses_pct: f64,
    /// Share of the working set in percent; the zones of a distribution add up to 100.
    pub space_pct: f64,
}

/// A row of a table of hit rates: what a cache that holds the most popular places hits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HitRate {
    /// How much the cache holds, in percent of the working set.
    pub cache_pct: f64,
    /// Share of the accesses that it hits, in percent.
    pub hits_pct: f64,
}

/// How random requests are spread over the places of the working set.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Distribution {
    /// Each place with the same chance.
    #[default]
    Uniform,
    /// Few favourites and a long tail.
    Zipf {
        /// The exponent, above 0; 0.99 is usual for what people ask for.
        theta: f64,
    },
    /// The first share `h` of the places gets the share `1 - h` of the accesses.
    Pareto {
        /// Above 0 and below 0.5: 0.2 is the rule of 80 and 20.
        h: f64,
    },
    /// Popularity as a table of what caches hit. Places between two rows are equally popular, and those of later rows less so.
    HitRates(Vec<HitRate>),
    /// One after the other from the start of the working set.
    Zones(Vec<Zone>),
    /// A bell.
    Normal {
        /// Its middle in percent of the working set, 0 to 100.
        mean_pct: f64,
        /// Its standard deviation in percent of the working set, above 0 and up to 100.
        deviation_pct: f64,
    },
    /// Every place once before any comes again.
    Shuffle,
}

/// Files that a working set is cut into at most: each has a few words of memory.
pub(crate) const FILES_MAX: u32 = 1 << 20;

/// The equal files, side by side, that a working set is cut into, and which of them a request goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlacedFiles {
    /// How many; one is the working set itself.
    pub count: u32,
    /// Requests that go to a file before the next has its turn.
    pub burst: u32,
    /// Which is next.
    pub order: FileOrder,
}

/// Which file is next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FileOrder {
    /// The one behind the last, and behind the last of all the first.
    #[default]
    InTurn,
    /// One that is drawn, each with the same chance.
    Random,
}

impl Default for PlacedFiles {
    fn default() -> Self {
        Self { count: 1, burst: 1, order: FileOrder::InTurn }
    }
}

/// The part of the target in use, and where in it random requests go.
#[derive(Clone, Debug, PartialEq)]
pub struct Places {
    /// Where the part in use starts, from the start of the region that a run is given.
    pub start: ByteCount,
    /// Its length; none is the rest of the region.
    pub size: Option<ByteCount>,
    /// Share of it that is used, from its start, in percent: above 0 and up to 100.
    pub working_set_pct: f64,
    /// How random requests are spread over that.
    pub distribution: Distribution,
    /// Whether the ranks of the distribution are scattered over the working set.
    pub scrambled: bool,
    /// The files that the working set is cut into.
    pub files: PlacedFiles,
}

impl Default for Places {
    /// All of the region, evenly.
    fn default() -> Self {
        Self {
            start: ByteCount::ZERO,
            size: None,
            working_set_pct: 100.0,
            distribution: Distribution::Uniform,
            scrambled: false,
            files: PlacedFiles::default(),
        }
    }
}

impl Places {
    /// Says what is wrong with the settings, if anything is: the key, and why.
    pub fn complaint(&self) -> Option<(&'static str, &'static str)> {
        if !(self.working_set_pct > 0.0 && self.working_set_pct <= 100.0) {
            return Some(("working_set_pct", "must be above 0 and up to 100"));
        }
        if self.size == Some(ByteCount::ZERO) {
            return Some(("size", "must be at least one request"));
        }
        if !(1..=FILES_MAX).contains(&self.files.count) {
            return Some(("files", "must be 1 to 1048576"));
        }
        if self.files.burst == 0 {
            return Some(("file_burst", "must be at least 1"));
        }
        match &self.distribution {
            Distribution::Zipf { theta } if !(*theta > 0.0 && *theta <= 100.0) => {
                Some(("theta", "must be above 0 and up to 100"))
            }
            Distribution::Pareto { h } if !(*h > 0.0 && *h < 0.5) => {
                Some(("h", "must be above 0 and below 0.5"))
            }
            Distribution::Normal { mean_pct, deviation_pct } => {
                if !(0.0..=100.0).contains(mean_pct) {
                    Some(("mean_pct", "must be 0 to 100"))
                } else if !(*deviation_pct > 0.0 && *deviation_pct <= 100.0) {
                    Some(("deviation_pct", "must be above 0 and up to 100"))
                } else {
                    None
                }
            }
            Distribution::HitRates(rows) => hit_rates_complaint(rows),
            Distribution::Zones(zones) => zones_complaint(zones),
            _ => None,
        }
    }

    /// Returns first and last byte (without) of the working set in a region, or nothing if it lies outside.
    pub(crate) fn working_set(&self, region: ByteCount) -> Option<(u64, u64)> {
        let rest = region.get().checked_sub(self.start.get())?;
        let size = self.size.map_or(rest, ByteCount::get);
        if size > rest {
            return None;
        }
        let used = if self.working_set_pct >= 100.0 {
            size
        } else {
            (size as f64 * self.working_set_pct / 100.0) as u64
        };
        Some((self.start.get(), self.start.get() + used))
    }
}

impl Distribution {
    /// Returns whether it ranks places by popularity, so that where the popular ones lie has to be said.
    pub(crate) const fn is_ranked(&self) -> bool {
        matches!(self, Self::Zipf { .. } | Self::Pareto { .. } | Self::HitRates(_))
    }

    /// Returns the zones that it consists of, the most popular first where it is a table of hit rates; none of any other.
    pub fn zones(&self) -> Vec<Zone> {
        match self {
            Self::HitRates(rows) => zones_between(rows),
            Self::Zones(zones) => zones.clone(),
            _ => Vec::new(),
        }
    }
}

/// What each row adds to the one before.
fn zones_between(rows: &[HitRate]) -> Vec<Zone> {
    let before = std::iter::once(HitRate { cache_pct: 0.0, hits_pct: 0.0 }).chain(rows.iter().copied());
    let added = |(before, row): (HitRate, &HitRate)| Zone {
        accesses_pct: row.hits_pct - before.hits_pct,
        space_pct: row.cache_pct - before.cache_pct,
    };
    before.zip(rows).map(added).collect()
}

fn hit_rates_complaint(rows: &[HitRate]) -> Option<(&'static str, &'static str)> {
    // Equal slopes differ by the rounding of their differences.
    const NEAR: f64 = 1.0 + 1e-6;
    let added = zones_between(rows);
    let is_less_popular = |pair: &[Zone]| {
        pair[1].accesses_pct * pair[0].space_pct <= pair[0].accesses_pct * pair[1].space_pct * NEAR
    };
    if !added.iter().all(|zone| zone.space_pct > 0.0 && zone.accesses_pct >= 0.0) {
        Some((
            "hit_rates",
            "must be pairs of percentages, the size of a cache and its hits, each cache larger than the last with no fewer hits",
        ))
    } else if rows.last() != Some(&HitRate { cache_pct: 100.0, hits_pct: 100.0 }) {
        Some(("hit_rates", "must end with [100, 100]: a cache of all places hits always"))
    } else if !added.windows(2).all(is_less_popular) {
        Some((
            "hit_rates",
            "must gain no more for each percent of space from row to row: the most popular places come first",
        ))
    } else {
        None
    }
}

fn zones_complaint(zones: &[Zone]) -> Option<(&'static str, &'static str)> {
    const NEAR: f64 = 1e-6;
    let is_share = |pct: f64| (0.0..=100.0).contains(&pct);
    let sum = |share: fn(&Zone) -> f64| zones.iter().map(share).sum::<f64>();
    if !zones.iter().all(|zone| is_share(zone.accesses_pct) && is_share(zone.space_pct)) {
        Some(("zones", "must be pairs of percentages, of the accesses and of the space"))
    } else if zones.iter().any(|zone| zone.accesses_pct > 0.0 && zone.space_pct == 0.0) {
        Some(("zones", "must have space where they have accesses"))
    } else if (sum(|zone| zone.accesses_pct) - 100.0).abs() > NEAR {
        Some(("zones", "must add up to 100 percent of the accesses"))
    } else if (sum(|zone| zone.space_pct) - 100.0).abs() > NEAR {
        Some(("zones", "must add up to 100 percent of the space"))
    } else {
        None
    }
}

impl std::fmt::Display for Distribution {
    /// In a few words, for tables of settings.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Uniform => f.write_str("uniform"),
            Self::Zipf { theta } => write!(f, "zipf, theta {theta}"),
            Self::Pareto { h } => write!(f, "pareto, h {h}"),
            Self::Normal { mean_pct, deviation_pct } => {
                write!(f, "normal, mean {mean_pct}%, deviation {deviation_pct}%")
            }
            Self::Shuffle => f.write_str("every place once, shuffled"),
            Self::HitRates(rows) => {
                f.write_str("hit rates")?;
                for (index, HitRate { cache_pct, hits_pct }) in rows.iter().enumerate() {
                    let comma = if index == 0 { "" } else { "," };
                    write!(f, "{comma} {hits_pct}% with {cache_pct}% of the space")?;
                }
                Ok(())
            }
            Self::Zones(zones) => {
                f.write_str("zones")?;
                for (index, Zone { accesses_pct, space_pct }) in zones.iter().enumerate() {
                    let comma = if index == 0 { "" } else { "," };
                    write!(f, "{comma} {accesses_pct}% to {space_pct}% of the space")?;
                }
                Ok(())
            }
        }
    }
}

impl std::fmt::Display for Places {
    /// What differs from "all of the region, evenly", in a few words.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.distribution.fmt(f)?;
        match (&self.distribution, self.scrambled) {
            (Distribution::Uniform | Distribution::Shuffle, _) => {}
            (_, true) => f.write_str(", scrambled")?,
            (_, false) => f.write_str(", not scrambled")?,
        }
        if self.working_set_pct < 100.0 {
            write!(f, ", working set {}%", self.working_set_pct)?;
        }
        if self.start > ByteCount::ZERO {
            write!(f, ", from {}", self.start.plain())?;
        }
        if let Some(size) = self.size {
            write!(f, ", over {}", size.plain())?;
        }
        if self.files.count > 1 {
            let PlacedFiles { count, burst, order } = self.files;
            let order = if order == FileOrder::Random { "at random" } else { "in turn" };
            write!(f, ", {count} files {order}")?;
            if burst > 1 {
                write!(f, ", {burst} requests each")?;
            }
        }
        Ok(())
    }
}
