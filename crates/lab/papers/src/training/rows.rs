//! Rows of published training runs, and what their words say.

use super::HostFigures;
use crate::published::{PublishedError, RowProblem, cell, read_records};
use std::collections::BTreeMap;

const COLUMNS: [&str; 23] = [
    "id",
    "system",
    "attached",
    "drives",
    "host",
    "model",
    "accelerator",
    "accelerators",
    "hosts",
    "read_threads",
    "prefetch",
    "transfer_bytes",
    "files",
    "samples_per_file",
    "batch",
    "sample_bytes",
    "sample_bytes_stdev",
    "compute_s_per_batch",
    "au_goal_pct",
    "au_pct",
    "au_pct_stdev",
    "mb_per_s",
    "samples_per_s",
];
const OPTIONAL: [&str; 1] = ["runs"];
/// How drives may be attached: on the host, by `NVMe` over a network, or behind what is not modelled.
const PARALLEL: &str = "parallel file system";
const LOCAL: &str = "local";
const OVER_NETWORK: &str = "NVMe";
/// How far the rate in bytes may be off that in samples.
const RATES_OFF_MAX: f64 = 0.1;

/// Columns of whole numbers that count.
const COUNTS: [&str; 4] = ["accelerators", "hosts", "read_threads", "batch"];

/// How many times the rate in samples may be off that of batches computed, either way: the first and last batches weigh.
const COMPUTED_OFF_MAX: f64 = 2.0;

/// One run.
#[derive(Clone, Debug, PartialEq)]
pub struct TrainingRow {
    /// Names it.
    pub id: String,
    /// What was measured, as who published it calls it.
    pub system: String,
    /// How the drives are attached: `local`, or a network with its target and ports.
    pub attached: String,
    /// How many of which drives.
    pub drives: String,
    /// Sockets and memory of a host.
    pub host: String,
    /// `unet3d`, `resnet50` or `cosmoflow`.
    pub model: String,
    /// `a100` or `h100`.
    pub accelerator: String,
    /// How many there were.
    pub accelerators: u32,
    /// Hosts that they ran on.
    pub hosts: u32,
    /// Loader threads of each.
    pub read_threads: u32,
    /// Batches loaded ahead, where that is known.
    pub prefetch: Option<u32>,
    /// Files of samples.
    pub files: f64,
    /// Samples of a file.
    pub samples_per_file: f64,
    /// Samples of a batch.
    pub batch: u32,
    /// Mean length of a sample.
    pub sample_bytes: f64,
    /// Its standard deviation.
    pub sample_bytes_stdev: f64,
    /// Time that a batch is computed for.
    pub compute_s: f64,
    /// The bound on utilisation.
    pub au_goal_pct: f64,
    /// Utilisation.
    pub au_pct: f64,
    /// Rate; the column says MB and counts MiB.
    pub mib_per_s: f64,
}

/// Whether `text` is a file of training runs, by its header.
pub fn is_training(text: &str) -> bool {
    text.lines().next().is_some_and(|header| header.split(',').any(|name| name.trim() == "accelerators"))
}

/// Reads `text`, the contents of `file`.
///
/// # Errors
/// [`PublishedError`]: everything that is wrong with it.
pub fn parse_training(file: &str, text: &str) -> Result<Vec<TrainingRow>, PublishedError> {
    let columns: Vec<&'static str> = COLUMNS.into_iter().chain(OPTIONAL).collect();
    let mut lines: BTreeMap<String, u64> = BTreeMap::new();
    read_records(file, text, &columns, &OPTIONAL, |header, record, line, problems| {
        let id = cell(header, record, "id");
        if let Some(first) = lines.insert(id.to_owned(), line).filter(|_| !id.is_empty()) {
            let (row, value, why) = (id.to_owned(), id.to_owned(), format!("is that of line {first}, too"));
            problems.push(RowProblem { line, row, column: "id", value, why, nearest: None });
        }
        read_row(header, record, line, problems)
    })
}

fn read_row(
    header: &csv::StringRecord,
    record: &csv::StringRecord,
    line: u64,
    problems: &mut Vec<RowProblem>,
) -> Option<TrainingRow> {
    let before = problems.len();
    let text = |column: &str| cell(header, record, column).to_owned();
    let mut problem = |column: &'static str, why: &str| {
        let (row, value, why) = (text("id"), text(column), why.to_owned());
        problems.push(RowProblem { line, row, column, value, why, nearest: None });
    };
    let mut number = |column: &'static str, least: f64| -> f64 {
        match text(column).parse::<f64>() {
            Ok(value) if value.is_finite() && value.fract() > 0.0 && COUNTS.contains(&column) => {
                problem(column, "is no whole number");
                least
            }
            Ok(value) if value.is_finite() && value >= least => value,
            Ok(_) => {
                problem(column, "is too small");
                least
            }
            Err(_) => {
                problem(column, "is not a number");
                least
            }
        }
    };
    let [accelerators, hosts, read_threads, batch] = COUNTS.map(|column| number(column, 1.0) as u32);
    let tiny = 1e-9;
    let samples_per_s = number("samples_per_s", 0.0);
    let row = TrainingRow {
        id: text("id"),
        system: text("system"),
        attached: text("attached"),
        drives: text("drives"),
        host: text("host"),
        model: text("model"),
        accelerator: text("accelerator"),
        accelerators,
        hosts,
        read_threads,
        batch,
        prefetch: text("prefetch").parse().ok(),
        files: number("files", 1.0),
        samples_per_file: number("samples_per_file", 1.0),
        sample_bytes: number("sample_bytes", 1.0),
        sample_bytes_stdev: number("sample_bytes_stdev", 0.0),
        compute_s: number("compute_s_per_batch", tiny),
        au_goal_pct: number("au_goal_pct", tiny),
        au_pct: number("au_pct", tiny),
        mib_per_s: number("mb_per_s", tiny),
    };
    if row.id.is_empty() {
        problem("id", "is empty but needed");
    }
    // Of a row whose figures are none, these say enough.
    if problems.len() == before {
        for (column, why) in row.complaints(samples_per_s) {
            let (row, value) = (text("id"), text(column));
            problems.push(RowProblem { line, row, column, value, why, nearest: None });
        }
    }
    (problems.len() == before).then_some(row)
}

impl TrainingRow {
    /// What can't be of its figures, and those that contradict each other, by columns.
    fn complaints(&self, samples_per_s: f64) -> Vec<(&'static str, String)> {
        let mut found: Vec<(&'static str, String)> = Vec::new();
        if self.drives.is_empty() && !self.is_parallel() {
            found.push(("drives", "is empty but needed".into()));
        }
        if self.sample_bytes_stdev > self.sample_bytes {
            found.push(("sample_bytes_stdev", "is above the mean, sample_bytes".into()));
        }
        if let Some(why) = self.attached_complaint() {
            found.push(("attached", why.into()));
        }
        if self.au_pct > 100.0 {
            found.push(("au_pct", "is above 100 percent".into()));
            return found;
        }
        let by_samples = samples_per_s * self.sample_bytes / f64::from(1 << 20);
        if by_samples > 0.0 && (self.mib_per_s / by_samples - 1.0).abs() > RATES_OFF_MAX {
            let bytes = self.sample_bytes;
            let why =
                format!("is no rate of {samples_per_s} samples/s of {bytes} bytes, which is {by_samples:.1}");
            found.push(("mb_per_s", why));
        }
        let Self { accelerators, batch, compute_s, au_pct, .. } = self;
        let computed = f64::from(*accelerators) * f64::from(*batch) / compute_s * au_pct / 100.0;
        let ratio = computed / samples_per_s;
        if samples_per_s > 0.0 && !(1.0 / COMPUTED_OFF_MAX..=COMPUTED_OFF_MAX).contains(&ratio) {
            let why = format!(
                "is no rate of {accelerators} accelerators that compute batches of {batch} in {compute_s} s at AU {au_pct} %, which is \
                 {computed:.1}"
            );
            found.push(("samples_per_s", why));
        }
        found
    }

    /// What is wrong with how its drives are attached.
    fn attached_complaint(&self) -> Option<&'static str> {
        let is_network = self.attached.starts_with(OVER_NETWORK);
        if self.attached != LOCAL && !is_network && !self.is_parallel() {
            return Some(
                "is not known: write local, NVMe/TCP and its ports, NVMe over another network, or parallel file system",
            );
        }
        (self.is_over_tcp() && self.ports().is_none())
            .then_some("does not say its ports: write them as 2 x 100 Gb/s")
    }

    /// Why it is not predicted, if it is not: what the figures of hosts and links are not those of.
    pub(super) fn not_modelled(&self) -> Option<&'static str> {
        if self.is_parallel() {
            return Some("a parallel file system, whose rules are not modelled");
        }
        (self.attached != LOCAL && !self.is_over_tcp())
            .then_some("NVMe over another network than TCP, whose cost to hosts is not modelled")
    }

    fn is_parallel(&self) -> bool {
        self.attached.starts_with(PARALLEL)
    }

    /// Whether its words before the first comma name TCP and no other transport.
    fn is_over_tcp(&self) -> bool {
        let network = self.attached.split(',').next().unwrap_or_default();
        let names = |transport: &str| network.contains(transport);
        names(OVER_NETWORK) && names("TCP") && !["RDMA", "RoCE", "iWARP", "InfiniBand"].into_iter().any(names)
    }

    /// Bytes of all samples.
    pub(super) fn data_bytes(&self) -> f64 {
        self.files * self.samples_per_file * self.sample_bytes
    }

    /// Bytes of memory of all hosts: the number before `GiB` or `TiB`.
    pub(super) fn memory_bytes(&self) -> f64 {
        let words: Vec<&str> = self.host.split([' ', ',']).collect();
        let of = |pair: &[&str]| {
            let unit = match pair[1] {
                "GiB" => 1u64 << 30,
                "TiB" => 1 << 40,
                _ => return None,
            };
            Some(pair[0].parse::<f64>().ok()? * unit as f64)
        };
        f64::from(self.hosts) * words.windows(2).find_map(of).unwrap_or(0.0)
    }

    /// Gb/s of all ports together, of a network: `4 x 100 Gb/s`.
    pub(super) fn ports(&self) -> Option<f64> {
        let words: Vec<&str> = self.attached.split([' ', ',']).collect();
        let of = |four: &[&str]| match four {
            [count, "x", rate, "Gb/s"] => Some(count.parse::<f64>().ok()? * rate.parse::<f64>().ok()?),
            _ => None,
        };
        let one = |pair: &[&str]| match pair {
            [rate, "Gb/s"] => rate.parse::<f64>().ok(),
            _ => None,
        };
        words.windows(4).find_map(of).or_else(|| words.windows(2).find_map(one))
    }

    /// Threads of the processors of a host: `2 x Xeon 6438N`, or `192 threads`.
    pub(super) fn threads(&self, host: &HostFigures) -> f64 {
        let words: Vec<&str> = self.host.split([' ', ',']).collect();
        let told = words.windows(2).find(|pair| pair[1] == "threads").and_then(|pair| pair[0].parse().ok());
        let sockets = if words.get(1) == Some(&"x") { words[0].parse().unwrap_or(1.0) } else { 1.0 };
        let socket = words.iter().find_map(|word| host.socket_threads.get(*word));
        told.unwrap_or_else(|| sockets * f64::from(*socket.unwrap_or(&super::SOCKET_THREADS)))
    }
}
