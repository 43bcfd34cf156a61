//! A paper's tables with the user's runs in them: for each column the matching run.
//!
//! ```text
//! rows of a place ─► one row for each array, one column for each load      +  a row for each array or target of the user
//! claims          ─► one row for each, "A over B"                          +  a column with the same ratio of the user's runs
//! ```
//! - A column at an iodepth has the user's run at that iodepth, or else the fastest one, and says so.
//! - A column at a limit of mean response time is interpolated between the runs on both sides of it, as the paper's own
//!   search does. If all are below the limit, the figure is "or more"; if all are above it, it is that of the least
//!   load, "in longer".
//! - A side of a claim is the user's runs at its level, number of members, write policy and disk cache. Claims that
//!   compare hardware are left out; a claim with the same runs on both sides has no figure.
//! - Tables without any figure of the user are left out.

use crate::claims::{Against, Choice, Claim, ClaimMethod, ClaimSide, ClaimWorkload, WorkloadPair};
use crate::papers::Paper;
use crate::published::{PublishedMetric, PublishedRow};
use raidlab_advisor::{ClaimKind, ComparedCell, ComparedRow, ComparedTable, unit_of};
use raidlab_units::{ByteCount, NanoSpan};
use raidlab_workload::{RunResult, World, builtin_workload};
use raidlab_worlds::at_limit;

/// What tells the columns of a table from each other.
#[derive(Clone, Debug, PartialEq)]
struct Column {
    workload: String,
    block: Option<ByteCount>,
    counts: PublishedMetric,
    iodepth: u32,
    limit: Option<NanoSpan>,
}

impl Paper {
    /// The paper's tables with `runs` in them. Of the rows those count whose system or id has `text` in it.
    pub fn compared_with(&self, runs: &[RunResult], text: &str) -> Vec<ComparedTable> {
        let wanted = |row: &&PublishedRow| row.system.contains(text) || row.id.contains(text);
        let rows: Vec<&PublishedRow> = self.rows.iter().filter(wanted).collect();
        let mut places: Vec<&str> = Vec::new();
        for row in &rows {
            if !places.contains(&row.place.as_str()) {
                places.push(&row.place);
            }
        }
        let of_place = |place: &str| rows.iter().copied().filter(|row| row.place == place).collect();
        let tables = places.into_iter().filter_map(|place| table(place, of_place(place), runs));
        let method = self.method.claims.as_ref();
        let claims = method.and_then(|method| claims_table(&self.claims, text, method, runs));
        let with_paper = |table: ComparedTable| ComparedTable {
            title: format!("{}, {}", self.method.id, table.title),
            ..table
        };
        tables.chain(claims).map(with_paper).collect()
    }
}

fn table(place: &str, rows: Vec<&PublishedRow>, runs: &[RunResult]) -> Option<ComparedTable> {
    let mut columns: Vec<Column> = Vec::new();
    let mut published: Vec<(String, Vec<Option<ComparedCell>>)> = Vec::new();
    for row in rows {
        let column = Column::of(row);
        let at = columns.iter().position(|known| *known == column).unwrap_or_else(|| {
            columns.push(column);
            columns.len() - 1
        });
        let label = row_label(row);
        let known = published.iter().position(|(known, _)| *known == label).unwrap_or_else(|| {
            published.push((label, Vec::new()));
            published.len() - 1
        });
        let cells = &mut published[known].1;
        cells.resize(cells.len().max(at + 1), None);
        cells[at] = Some(ComparedCell::plain(row.value));
    }
    let (title, labels) = titles(place, &columns);
    let mut table = ComparedTable { title, columns: labels, rows: Vec::new() };
    for (label, mut cells) in published {
        cells.resize(columns.len(), None);
        table.rows.push(ComparedRow { label, is_own: false, cells });
    }
    for (label, own) in configurations(runs) {
        let cells: Vec<_> = columns.iter().map(|column| column.figure(&own)).collect();
        if cells.iter().any(Option::is_some) {
            table.rows.push(ComparedRow { label, is_own: true, cells });
        }
    }
    table.rows.iter().any(|row| row.is_own).then_some(table)
}

/// The title of a table and those of its columns: what all columns have in common is said once.
fn titles(place: &str, columns: &[Column]) -> (String, Vec<String>) {
    let counts: Vec<String> = columns.iter().map(Column::counts_label).collect();
    if counts.iter().all(|label| *label == counts[0]) {
        let loads = columns.iter().map(Column::load_label).collect();
        return (format!("{place}: {}", counts[0]), loads);
    }
    let labels =
        columns.iter().zip(&counts).map(|(column, counts)| format!("{}, {counts}", column.load_label()));
    (place.to_owned(), labels.collect())
}

/// The runs of each array or target, in the order in which they first come.
fn configurations(runs: &[RunResult]) -> Vec<(String, Vec<&RunResult>)> {
    let mut all: Vec<(String, Vec<&RunResult>)> = Vec::new();
    for run in runs {
        let modelled = if run.world == World::Simulated { ", modelled" } else { "" };
        let label = format!("{}{modelled}", run.target);
        match all.iter_mut().find(|(known, _)| *known == label) {
            Some((_, group)) => group.push(run),
            None => all.push((label, vec![run])),
        }
    }
    all
}

/// The array of a row in words: `RAID 5, 12 x st3600057ss, perc-h800/md1200, write-back`.
fn row_label(row: &PublishedRow) -> String {
    let mut parts = Vec::new();
    if !row.raid.is_empty() {
        parts.push(format!("RAID {}", row.raid));
    }
    parts.push(format!("{} x {}, {}", row.drives, row.drive, row.system));
    parts.extend(row.write_policy.map(|policy| policy.name().to_owned()));
    parts.extend(row.stroke_pct.map(|pct| format!("first {pct} %")));
    parts.join(", ")
}

impl Column {
    fn of(row: &PublishedRow) -> Self {
        Self {
            workload: row.workload.clone(),
            block: row.block,
            counts: row.counts,
            iodepth: row.queue_depth,
            limit: row.response_limit,
        }
    }

    /// What is asked, without the paper in its name.
    fn load_label(&self) -> String {
        let name = without_paper(&self.workload);
        self.block.map_or_else(|| name.to_owned(), |block| format!("{name} {block}"))
    }

    /// What is counted, and where.
    fn counts_label(&self) -> String {
        match self.limit {
            Some(limit) => format!("{} at {} ms", unit_of(self.counts.name()), limit.as_secs_f64() * 1e3),
            None => format!("{} at iodepth {}", unit_of(self.counts.name()), self.iodepth),
        }
    }

    /// The figure of the runs of one array.
    fn figure(&self, runs: &[&RunResult]) -> Option<ComparedCell> {
        let is_own = |run: &&&RunResult| is_of(run, &self.workload, self.block) && run.ops.total.requests > 0;
        let runs: Vec<&RunResult> = runs.iter().filter(is_own).copied().collect();
        let Some(limit) = self.limit else {
            let at_depth = runs.iter().rfind(|run| run.iodepth == self.iodepth);
            if let Some(run) = at_depth {
                return Some(ComparedCell::plain(figure(run, self.counts)?));
            }
            let run = fastest(&runs, self.counts)?;
            let remark = format!("iodepth {}", run.iodepth);
            return Some(ComparedCell { value: figure(run, self.counts)?, remark });
        };
        let found = at_limit(limit, &runs)?;
        let value = rate(self.counts, found.iops, found.bytes_per_sec)?;
        let remark = match (found.bracketed, found.points.first()?.lat_ns_mean <= limit.get() as f64) {
            (true, _) => String::new(),
            (false, true) => "or more".to_owned(),
            (false, false) => "in longer".to_owned(),
        };
        Some(ComparedCell { value, remark })
    }
}

/// A rate in the unit of `metric`, if that is one.
fn rate(metric: PublishedMetric, iops: f64, bytes_per_sec: f64) -> Option<f64> {
    match metric {
        PublishedMetric::Iops => Some(iops),
        PublishedMetric::KibPerS => Some(bytes_per_sec / 1024.0),
        PublishedMetric::MbPerS => Some(bytes_per_sec / 1e6),
        PublishedMetric::MibPerS => Some(bytes_per_sec / f64::from(1 << 20)),
        PublishedMetric::CpuPct => None,
    }
}

fn figure(run: &RunResult, metric: PublishedMetric) -> Option<f64> {
    rate(metric, run.ops.total.iops.0, run.ops.total.bytes_per_sec.0)
}

fn fastest<'a>(runs: &[&'a RunResult], metric: PublishedMetric) -> Option<&'a RunResult> {
    let of = |run: &RunResult| figure(run, metric).unwrap_or(0.0);
    runs.iter().copied().max_by(|a, b| of(a).total_cmp(&of(b)))
}

/// Whether `run` is one of `workload` with requests of `block`: its own size, or one that it was varied to.
fn is_of(run: &RunResult, workload: &str, block: Option<ByteCount>) -> bool {
    let Some(block) = block else { return run.workload == workload };
    let own = || {
        let spec = builtin_workload(workload).ok()?.spec;
        spec.lines.iter().map(|line| u64::from(line.bytes)).reduce(|a, b| if a == b { a } else { 0 })
    };
    run.workload == format!("{workload} at {block}")
        || (run.workload == workload && own() == Some(block.get()))
}

fn claims_table(
    claims: &[Claim],
    text: &str,
    method: &ClaimMethod,
    runs: &[RunResult],
) -> Option<ComparedTable> {
    let row = |claim: &Claim| {
        let own = own_ratio(claim, method, runs).map(ComparedCell::plain);
        let cells = vec![Some(ComparedCell::plain(claim.ratio)), own];
        ComparedRow { label: claim_label(claim), is_own: false, cells }
    };
    let is_wanted = |claim: &&Claim| claim.id.contains(text) && !compares_hardware(claim);
    let rows: Vec<ComparedRow> = claims.iter().filter(is_wanted).map(row).collect();
    let has_own = rows.iter().any(|row| row.cells[1].is_some());
    let columns = vec!["published".to_owned(), "here".to_owned()];
    has_own.then_some(ComparedTable { title: "claims: A over B".into(), columns, rows })
}

/// What both sides have in common, what A has over B, and with which workloads: `RAID 5 x4, at best over write-through:
/// file-server`.
fn claim_label(claim: &Claim) -> String {
    let a = side_words(&claim.a);
    let b = match &claim.b {
        Against::Side(b) => side_words(b),
        Against::Same | Against::Figure(_) => a.clone(),
    };
    let words = |own: &[String], of: &dyn Fn(&String) -> bool| {
        let chosen: Vec<&str> = own.iter().filter(|word| of(word)).map(String::as_str).collect();
        chosen.join(" ")
    };
    let both = words(&a, &|word| b.contains(word));
    let only_a = words(&a, &|word| !b.contains(word));
    let only_b = words(&b, &|word| !a.contains(word));
    let over = match &claim.b {
        Against::Side(_) => format!("{only_a} over {only_b}"),
        Against::Same => String::new(),
        Against::Figure(metric) => unit_of(metric.name()).to_owned(),
    };
    let sides: Vec<String> = [both, over].into_iter().filter(|part| !part.is_empty()).collect();
    let pair = |pair: &WorkloadPair| {
        let (a, b) = (without_paper(&pair.a.name), without_paper(&pair.b.name));
        if a == b { a.to_owned() } else { format!("{a} / {b}") }
    };
    let workloads: Vec<String> = claim.workloads.iter().map(pair).collect();
    let kind = match claim.kind {
        ClaimKind::About => "",
        ClaimKind::UpTo => " (up to)",
        ClaimKind::Order => " (order)",
    };
    format!("{}: {}{kind}", sides.join(", "), workloads.join(", "))
}

/// The settings of a side that a user may have; hardware is the user's own.
fn side_words(side: &ClaimSide) -> Vec<String> {
    let word = |(name, value): &(String, String)| match name.as_str() {
        "raid" if value == "jbod" => Some("single disk".to_owned()),
        "raid" => Some(format!("RAID {value}")),
        "drives" if value == "1" => None,
        "drives" => Some(format!("x{value}")),
        "disk_cache" => Some(format!("disk cache {value}")),
        "write_policy" => Some(value.clone()),
        _ => None,
    };
    let choice = match side.choice {
        Choice::AsGiven => None,
        Choice::Best => Some("at best".to_owned()),
        Choice::Any => Some("in any case".to_owned()),
    };
    side.settings.iter().filter_map(word).chain(choice).collect()
}

/// The name of a workload without the paper in it.
fn without_paper(workload: &str) -> &str {
    workload.split_once('-').map_or(workload, |(_, name)| name)
}

/// What the claim's ratio is among the user's runs.
fn own_ratio(claim: &Claim, method: &ClaimMethod, runs: &[RunResult]) -> Option<f64> {
    let a_runs = side_runs(&claim.a, method, runs);
    let b_runs = match &claim.b {
        Against::Side(b) => side_runs(b, method, runs),
        Against::Same | Against::Figure(_) => a_runs.clone(),
    };
    let are_same =
        a_runs.len() == b_runs.len() && a_runs.iter().zip(&b_runs).all(|(a, b)| std::ptr::eq(*a, *b));
    if are_same && matches!(claim.b, Against::Side(_)) {
        return None;
    }
    let ratio = |pair: &WorkloadPair| {
        let metric = match claim.b {
            Against::Figure(metric) => metric,
            _ => PublishedMetric::of_workload(&pair.a.name),
        };
        let a = side_figure(&a_runs, (&pair.a, claim.a.choice), method, metric)?;
        match &claim.b {
            Against::Figure(_) => Some(a),
            Against::Side(b) => Some(a / side_figure(&b_runs, (&pair.b, b.choice), method, metric)?),
            Against::Same => Some(a / side_figure(&b_runs, (&pair.b, claim.a.choice), method, metric)?),
        }
    };
    let ratios: Vec<f64> = claim.workloads.iter().map(ratio).collect::<Option<_>>()?;
    match claim.kind {
        ClaimKind::UpTo => ratios.into_iter().reduce(f64::max),
        _ if ratios.is_empty() => None,
        _ => Some(ratios.iter().sum::<f64>() / ratios.len() as f64),
    }
}

/// Whether the sides differ in what a user has one of, or in the cache of a single disk, which is the disk's.
fn compares_hardware(claim: &Claim) -> bool {
    let Against::Side(b) = &claim.b else { return false };
    let differs = |name: &str| setting(&claim.a, name) != setting(b, name);
    let is_disk = |side: &ClaimSide| setting(side, "raid") == Some("jbod");
    differs("system") || differs("drive") || (is_disk(&claim.a) && is_disk(b) && differs("disk_cache"))
}

fn setting<'a>(side: &'a ClaimSide, name: &str) -> Option<&'a str> {
    side.settings.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
}

/// The runs that are a side's, as far as the user's have such settings.
fn side_runs<'a>(side: &ClaimSide, method: &ClaimMethod, runs: &'a [RunResult]) -> Vec<&'a RunResult> {
    let open = |name: &str| {
        let words = method.open.split_whitespace().filter_map(|word| word.split_once('='));
        words.filter(|(known, _)| *known == name).map(|(_, value)| value).next()
    };
    let wanted = |name: &str| {
        let left_open = if side.choice == Choice::AsGiven { open(name) } else { None };
        setting(side, name).or(left_open)
    };
    let level = wanted("raid").unwrap_or_default().to_lowercase();
    let members = wanted("drives").and_then(|count| count.parse::<u16>().ok());
    let is_own = |run: &&RunResult| match &run.array {
        None => {
            level == "jbod" && members.is_none_or(|count| count == 1) && setting(side, "disk_cache").is_none()
        }
        Some(array) => {
            array.level.split(':').next() == Some(level.as_str())
                && members.is_none_or(|count| count == array.members)
                && wanted("write_policy").is_none_or(|policy| policy == array.write_policy)
                && wanted("disk_cache")
                    .is_none_or(|cache| run.settings.get("disk cache").is_none_or(|own| own == cache))
        }
    };
    runs.iter().filter(is_own).collect()
}

/// The best of a side at the paper's number of requests in flight, or at any if there is none; where the claim is about any
/// settings, the least.
fn side_figure(
    runs: &[&RunResult],
    (workload, choice): (&ClaimWorkload, Choice),
    method: &ClaimMethod,
    metric: PublishedMetric,
) -> Option<f64> {
    let own: Vec<&RunResult> =
        runs.iter().filter(|run| is_of(run, &workload.name, workload.block)).copied().collect();
    let iodepth = method.iodepths.get(&workload.name).copied().unwrap_or(0);
    let at_depth: Vec<&RunResult> = own.iter().filter(|run| run.iodepth == iodepth).copied().collect();
    let rates = if at_depth.is_empty() { own } else { at_depth };
    let rates = rates.into_iter().filter_map(|run| figure(run, metric)).filter(|rate| *rate > 0.0);
    if choice == Choice::Any { rates.reduce(f64::min) } else { rates.reduce(f64::max) }
}

#[cfg(test)]
mod tests;
