//! Published claims: one row of a CSV file for each "A is so many times B", with the columns of [`CLAIM_COLUMNS`].
//!
//! ```text
//! id,paper,workload,a,b,ratio,kind
//! c1,some-2008,database|file-server,system=x raid=5 drives=4 drive=y best,system=x ... write_policy=write-through,1.4,about
//! ```
//! - `workload`: one name, or several joined by `|`: the claim is about the mean of their ratios, or with `up-to` about
//!   the highest. `x/y` is the ratio of two workloads, A's and B's. A name may be followed by a block size (`8k`), or a
//!   minimum (`>=64k`), which stands for all sizes from there on at which the source ran it.
//! - `a`, `b`: settings with the column names of published figures. Settings that neither they nor the study's `open`
//!   name are as delivered. `best` is the best over all open cache settings, `any` stands for each of them (the worst
//!   fit counts), `same` in `b` is A's settings, `absolute iops` or `absolute mb_per_s` makes `ratio` a figure.
//! - `kind`: `about`, `up-to` or `order`, for which the ratio is a bound.
//!
//! No claim is ever skipped: what can't be read or predicted is reported, all at once.

mod evaluate;

pub(crate) use evaluate::ClaimPlan;
pub use evaluate::{ClaimPart, ClaimPrediction, PredictedClaim, predict_claims};

use crate::published::{PublishedError, PublishedMetric, RowProblem, cell, read_records};
use raidlab_advisor::ClaimKind;
use raidlab_units::ByteCount;
use raidlab_workload::builtin_workload;
use raidlab_workload::toml_file::nearest;
use raidlab_worlds::read_text;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::path::Path;

/// The columns of a file of claims; their order is free.
pub const CLAIM_COLUMNS: [&str; 7] = ["id", "paper", "workload", "a", "b", "ratio", "kind"];

/// Columns of published figures that a side may set.
const SETTINGS: [&str; 11] = [
    "system",
    "raid",
    "drives",
    "drive",
    "write_policy",
    "read_policy",
    "io_policy",
    "disk_cache",
    "cache_mirroring",
    "response_limit_ms",
    "stroke_pct",
];

/// How a paper's claims were measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct ClaimMethod {
    /// Part of the volume in use: the file that was measured. The whole volume if none.
    pub region: Option<ByteCount>,
    /// Requests in flight, by workload.
    pub iodepths: BTreeMap<String, u32>,
    /// Seeds that each configuration is simulated with; the mean counts.
    #[serde(default = "one")]
    pub repeats: NonZeroU32,
    /// Settings of either side that a claim leaves open, in the form of a side. With `response_limit_ms` figures are read
    /// off at that response time, and no iodepth is needed.
    #[serde(default)]
    pub open: String,
    /// The same for the sides of one system, by its name, where a claim and `open` leave something open.
    #[serde(default)]
    pub open_of_system: BTreeMap<String, String>,
    /// Ids of the claims that something was fitted to: their errors prove nothing.
    #[serde(default)]
    pub fitted: Vec<String>,
    /// Claims that no mechanism of the models explains, and why. They count all the same.
    #[serde(default)]
    pub unexplained: BTreeMap<String, String>,
}

const fn one() -> NonZeroU32 {
    NonZeroU32::MIN
}

/// The choice of the cache settings that a side leaves open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Choice {
    /// As the study's `open` says, or as delivered.
    AsGiven,
    /// Whichever is fastest.
    Best,
    /// Each of them.
    Any,
}

/// One side of a claim.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClaimSide {
    /// Columns and cells, as written.
    pub settings: Vec<(String, String)>,
    /// What becomes of the rest.
    pub choice: Choice,
}

/// What A is compared with.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Against {
    /// Other settings.
    Side(ClaimSide),
    /// A's own settings, with another workload.
    Same,
    /// A figure of this metric.
    Figure(PublishedMetric),
}

/// A workload with its block size, if that is not its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ClaimWorkload {
    /// Its name.
    pub name: String,
    /// Size of its requests.
    pub block: Option<ByteCount>,
}

/// A workload of A, and of B if that is another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WorkloadPair {
    /// A's.
    pub a: ClaimWorkload,
    /// B's.
    pub b: ClaimWorkload,
}

/// A claim.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Claim {
    /// Line in the file, from 1.
    pub line: u64,
    /// Names the claim.
    pub id: String,
    /// The paper that makes it.
    pub paper: String,
    /// What was run.
    pub workloads: Vec<WorkloadPair>,
    /// A's settings.
    pub a: ClaimSide,
    /// What A is compared with.
    pub b: Against,
    /// A over B, or A's figure.
    pub ratio: f64,
    /// How the ratio is meant.
    pub kind: ClaimKind,
}

/// Reads the file of claims at `path`.
///
/// # Errors
/// [`PublishedError`]; claims that can't be read are reported all at once.
pub fn read_claims(path: &Path) -> Result<Vec<Claim>, PublishedError> {
    let text = read_text(path)?;
    parse_claims(&path.display().to_string(), &text)
}

/// Reads `text`, the contents of `file`.
///
/// # Errors
/// [`PublishedError`]; claims that can't be read are reported all at once.
pub fn parse_claims(file: &str, text: &str) -> Result<Vec<Claim>, PublishedError> {
    read_records(file, text, &CLAIM_COLUMNS, &[], |header, record, line, problems| {
        let cell = |column: &str| cell(header, record, column).to_owned();
        Reader { line, id: cell("id"), problems }.claim(&cell)
    })
}

/// One record on its way to a [`Claim`].
struct Reader<'a> {
    line: u64,
    id: String,
    problems: &'a mut Vec<RowProblem>,
}

impl Reader<'_> {
    /// The claim, or `None` after noting everything that is wrong with it.
    fn claim(mut self, cell: &dyn Fn(&str) -> String) -> Option<Claim> {
        let before = self.problems.len();
        for column in ["id", "paper"] {
            if cell(column).is_empty() {
                self.problem(column, "", "is empty but needed", None);
            }
        }
        let workloads = self.workloads(&cell("workload"));
        let a = self.side("a", &cell("a"));
        let b = self.against(&cell("b"));
        let is_quotient = cell("workload").contains('/');
        if is_quotient != (b == Against::Same) {
            self.problem(
                "b",
                &cell("b"),
                "must be 'same' with a quotient of two workloads, and only there",
                None,
            );
        }
        let ratio = cell("ratio").parse::<f64>().ok().filter(|ratio| ratio.is_finite() && *ratio > 0.0);
        if ratio.is_none() {
            self.problem("ratio", &cell("ratio"), "is not a number above zero", None);
        }
        let kind = self.kind(&cell("kind"));
        let (line, id, paper) = (self.line, self.id.clone(), cell("paper"));
        let is_sound = self.problems.len() == before;
        is_sound.then_some(Claim { line, id, paper, workloads, a, b, ratio: ratio?, kind: kind? })
    }

    fn kind(&mut self, text: &str) -> Option<ClaimKind> {
        let kind = ClaimKind::named(text);
        if kind.is_none() {
            let near = nearest(text, ClaimKind::ALL.map(ClaimKind::name)).map(str::to_owned);
            self.problem("kind", text, "is none of about, up-to, order", near);
        }
        kind
    }

    fn workloads(&mut self, text: &str) -> Vec<WorkloadPair> {
        let mut pairs = Vec::new();
        for part in text.split('|') {
            if let Some((a, b)) = part.split_once('/') {
                let (a, b) = (self.workload(a), self.workload(b));
                pairs.extend(a.into_iter().zip(b).map(|(a, b)| WorkloadPair { a, b }));
            } else {
                pairs.extend(self.workload(part).into_iter().map(|a| WorkloadPair { b: a.clone(), a }));
            }
        }
        pairs
    }

    /// `name`, `name 8k` or `name >=64k`.
    fn workload(&mut self, text: &str) -> Vec<ClaimWorkload> {
        let (name, size) = text.trim().split_once(' ').unwrap_or((text.trim(), ""));
        let with = |block| ClaimWorkload { name: name.to_owned(), block };
        if size.is_empty() {
            return vec![with(None)];
        }
        let least = size.strip_prefix(">=");
        let bytes = least.unwrap_or(size).strip_suffix('k').and_then(|kib| kib.parse::<u64>().ok());
        let Some(bytes) = bytes.map(ByteCount::from_kib) else {
            self.problem("workload", size, "is no block size such as 8k or >=64k", None);
            return Vec::new();
        };
        if least.is_none() {
            return vec![with(Some(bytes))];
        }
        // An unknown name is reported when the workload is looked up.
        let sizes = builtin_workload(name).map(|found| found.block_bytes_published).unwrap_or_default();
        let sizes = sizes.into_iter().map(|size| ByteCount(u64::from(size))).filter(|size| *size >= bytes);
        let all: Vec<ClaimWorkload> = sizes.map(|size| with(Some(size))).collect();
        if all.is_empty() { vec![with(Some(bytes))] } else { all }
    }

    fn against(&mut self, text: &str) -> Against {
        match text.strip_prefix("absolute ") {
            Some("iops") => Against::Figure(PublishedMetric::Iops),
            Some("mb_per_s") => Against::Figure(PublishedMetric::MbPerS),
            Some(_) => {
                self.problem("b", text, "is none of absolute iops, absolute mb_per_s", None);
                Against::Same
            }
            // Whatever else stands beside `same` would be another side.
            None if text.split_whitespace().last() == Some("same") => Against::Same,
            None => Against::Side(self.side("b", text)),
        }
    }

    fn side(&mut self, column: &'static str, text: &str) -> ClaimSide {
        let mut side = ClaimSide { settings: Vec::new(), choice: Choice::AsGiven };
        for word in text.split_whitespace() {
            match (word.split_once('='), word) {
                (Some((name, value)), _) if SETTINGS.contains(&name) => {
                    side.settings.push((name.to_owned(), value.to_owned()));
                }
                (None, "best") => side.choice = Choice::Best,
                (None, "any") => side.choice = Choice::Any,
                _ => {
                    let name = word.split('=').next().unwrap_or(word);
                    let near = nearest(name, SETTINGS).map(str::to_owned);
                    self.problem(column, word, "is no setting, nor best or any", near);
                }
            }
        }
        side
    }

    fn problem(&mut self, column: &'static str, value: &str, why: &str, nearest: Option<String>) {
        let (line, row, value) = (self.line, self.id.clone(), value.to_owned());
        self.problems.push(RowProblem { line, row, column, value, why: why.to_owned(), nearest });
    }
}

#[cfg(test)]
mod tests;
