//! The cells of a record, read into a row.

use super::{PublishedMetric, PublishedRow, RowProblem, cell};
use crate::predict::files::BONNIE;
use crate::predict::served::SERVED;
use raidlab_controller::{IoPolicy, ReadPolicy, WritePolicy};
use raidlab_units::{ByteCount, NanoSpan};

const ON_OFF: [(&str, bool); 2] = [("on", true), ("off", false)];

/// What a row's workload is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RowKind {
    /// Requests to raw volumes.
    Requests,
    /// A program on a file.
    Files,
    /// Readers of a file server, or a network.
    Served,
}

impl RowKind {
    fn of(workload: &str) -> Self {
        if workload.starts_with(BONNIE) {
            Self::Files
        } else if workload.starts_with(SERVED) {
            Self::Served
        } else {
            Self::Requests
        }
    }
}

/// One record on its way to a [`PublishedRow`].
pub(super) struct Cells<'a> {
    pub(super) header: &'a csv::StringRecord,
    pub(super) record: &'a csv::StringRecord,
    pub(super) line: u64,
    pub(super) problems: &'a mut Vec<RowProblem>,
}

impl<'a> Cells<'a> {
    /// The row, or `None` after noting everything that is wrong with it.
    pub(super) fn row(&mut self) -> Option<PublishedRow> {
        let before = self.problems.len();
        let kind = RowKind::of(self.text("workload"));
        self.refuse_other_experiments(kind);
        let metric = self
            .one_of("metric", &PublishedMetric::ALL.map(|it| (it.name(), it)))
            .unwrap_or_else(|| self.no_metric());
        let response_limit = self.response_limit();
        let row = PublishedRow {
            line: self.line,
            id: self.required("id").to_owned(),
            place: self.text("place").to_owned(),
            system: self.required("system").to_owned(),
            raid: self.of_array("raid", kind).to_owned(),
            drives: self.drives(kind),
            drive: self.of_array("drive", kind).to_owned(),
            write_policy: self.one_of("write_policy", &WritePolicy::ALL.map(|it| (it.name(), it))),
            read_policy: self.one_of("read_policy", &ReadPolicy::ALL.map(|it| (it.name(), it))),
            io_policy: self.one_of("io_policy", &IoPolicy::ALL.map(|it| (it.name(), it))),
            disk_cache: self.one_of("disk_cache", &ON_OFF),
            workload: self.required("workload").to_owned(),
            block: self
                .optional_number::<f64>("block_kib")
                .map(|kib| ByteCount((kib * 1024.0).round() as u64)),
            cache_mirroring: self.one_of("cache_mirroring", &ON_OFF),
            queue_depth: if kind != RowKind::Requests {
                self.one_process()
            } else if response_limit.is_some() {
                self.no_queue_depth()
            } else {
                self.number("queue_depth").unwrap_or(0)
            },
            response_limit,
            stroke_pct: self.optional_number("stroke_pct"),
            options: None,
            file: self.optional_number("file_mib").map(ByteCount::from_mib),
            filesystem: Some(self.text("filesystem"))
                .filter(|name| !matches!(*name, "" | "off"))
                .map(str::to_owned),
            streams: self.optional_number("streams").unwrap_or(0),
            volumes: self.optional_number("volumes").unwrap_or(0),
            note: self.text("note").to_owned(),
            metric,
            counts: metric,
            value: self.number("value").unwrap_or(0.0),
        };
        self.check_bounds(&row);
        (self.problems.len() == before).then_some(row)
    }

    /// Notes the columns that describe an experiment of another kind than requests to raw volumes.
    fn refuse_other_experiments(&mut self, kind: RowKind) {
        const OTHERS: [(&str, &str); 4] = [
            ("streams", "asks for parallel streams, which are not simulated: only a queue depth is"),
            ("volumes", "spreads the load over several volumes, which is not simulated"),
            ("filesystem", "asks for a filesystem, which is not simulated: only raw volumes are"),
            ("file_mib", "asks for a file, which is not simulated: only raw volumes are"),
        ];
        const OF_FILES: [&str; 2] = ["filesystem", "file_mib"];
        for (column, why) in OTHERS {
            let is_of_files = OF_FILES.contains(&column) || self.text(column) == "1";
            if kind == RowKind::Served || kind == RowKind::Files && is_of_files {
                continue;
            }
            // "off" asks for nothing.
            if !matches!(self.text(column), "" | "off") {
                self.problem(column, why.to_owned(), None);
            }
        }
    }

    fn check_bounds(&mut self, row: &PublishedRow) {
        let is_rate = row.value.is_finite() && row.value > 0.0;
        if !is_rate && !self.text("value").is_empty() {
            self.problem("value", "is not above zero, so no relative error exists".into(), None);
        }
        if row.queue_depth == 0 && row.response_limit.is_none() && !self.text("queue_depth").is_empty() {
            self.problem("queue_depth", "is not at least 1".into(), None);
        }
        if row.stroke_pct.is_some_and(|pct| !(pct > 0.0 && pct <= 100.0)) {
            self.problem("stroke_pct", "is not above 0 and at most 100".into(), None);
        }
    }

    /// The response time at which the figure is to be read off, if it is.
    fn response_limit(&mut self) -> Option<NanoSpan> {
        let millis: f64 = self.optional_number("response_limit_ms")?;
        if !(millis > 0.0 && millis <= 1e6) {
            self.problem("response_limit_ms", "is not above 0 and at most 1000000".into(), None);
            return None;
        }
        Some(NanoSpan((millis * 1e6).round() as u64))
    }

    /// A column that a row of an array needs. What a file server has, its entry in the catalogue says, too.
    fn of_array(&mut self, column: &'static str, kind: RowKind) -> &'a str {
        if kind == RowKind::Served { self.text(column) } else { self.required(column) }
    }

    fn drives(&mut self, kind: RowKind) -> u16 {
        let drives = match kind {
            RowKind::Served => self.optional_number("drives"),
            RowKind::Requests | RowKind::Files => self.number("drives"),
        };
        drives.unwrap_or(0)
    }

    /// Bonnie is one process, which does one thing at a time.
    fn one_process(&mut self) -> u32 {
        if !matches!(self.text("queue_depth"), "" | "1") {
            self.problem(
                "queue_depth",
                "is not 1, and a program on a file does one thing at a time".into(),
                None,
            );
        }
        1
    }

    /// Notes a queue depth beside a response time.
    fn no_queue_depth(&mut self) -> u32 {
        if !self.text("queue_depth").is_empty() {
            let why = "stands beside response_limit_ms, which decides it: leave one of the two empty";
            self.problem("queue_depth", why.into(), None);
        }
        0
    }

    fn text(&self, column: &str) -> &'a str {
        cell(self.header, self.record, column)
    }

    pub(super) fn required(&mut self, column: &'static str) -> &'a str {
        let text = self.text(column);
        if text.is_empty() {
            self.problem(column, "is empty but needed".into(), None);
        }
        text
    }

    pub(super) fn number<T: std::str::FromStr>(&mut self, column: &'static str) -> Option<T> {
        if self.required(column).is_empty() { None } else { self.optional_number(column) }
    }

    pub(super) fn optional_number<T: std::str::FromStr>(&mut self, column: &'static str) -> Option<T> {
        let text = self.text(column);
        if text.is_empty() {
            return None;
        }
        let number = text.parse().ok();
        if number.is_none() {
            self.problem(column, "is not a number that fits".into(), None);
        }
        number
    }

    pub(super) fn one_of<T: Copy>(&mut self, column: &'static str, known: &[(&'static str, T)]) -> Option<T> {
        let text = self.text(column);
        if text.is_empty() {
            return None;
        }
        let found = known.iter().find(|(name, _)| *name == text).map(|(_, value)| *value);
        if found.is_none() {
            let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
            let nearest =
                raidlab_workload::toml_file::nearest(text, names.iter().copied()).map(str::to_owned);
            self.problem(column, format!("is none of {}", names.join(", ")), nearest);
        }
        found
    }

    /// Notes a missing metric. Any metric serves, because the row is dropped for the problem.
    fn no_metric(&mut self) -> PublishedMetric {
        self.required("metric");
        PublishedMetric::Iops
    }

    pub(super) fn problem(&mut self, column: &'static str, why: String, nearest: Option<String>) {
        let (row, value) = (self.text("id").to_owned(), self.text(column).to_owned());
        self.problems.push(RowProblem { line: self.line, row, column, value, why, nearest });
    }
}
