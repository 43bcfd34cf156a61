//! One result type, many exporters: the terminal, a self-contained HTML page with charts, Markdown, JSON, CSV and Parquet.
//!
//! Everything here turns [`RunResult`]s, and conclusions from them, into text. No exporter knows how a result came
//! about, and none reads a clock, a file, the environment or a terminal: the caller sets width and colour, and the same
//! input always gives the same bytes.
//!
//! ```text
//! runs ──> matrix (profile x configuration x side x iodepth) ──┬──> terminal::study
//!                                                              └──> page::study
//! published and predicted figures, plans ──────────────────────────> page::{paper, plan}, terminal::{comparison, plan}
//! runs ────────────────────────────────────────────────────────┬──> json::runs, export::{fio, iometer}
//! kept runs ──> table::Table (runs, series, histograms) ───────────> csv::table, parquet::table
//!                                                              └──> terminal::run, terminal::runs
//! runs ──> steps of programs on files ──> terminal::{streams, bonnie}, page::programs, json::programs, export::bonnie
//! ```
//!
//! An answer is put together once, as a tree of tables, paragraphs and figures ([`Document`]), which is written as a page, as Markdown
//! and on a terminal.
//!
//! Figures for people have three significant digits, those for programs have all of them. Names of targets, workloads
//! and settings may come from anywhere: the HTML escapes them, the terminal gets no control character from them.
#![forbid(unsafe_code)]
#![allow(
    clippy::format_push_string,
    clippy::format_collect,
    reason = "text is put together piece by piece everywhere here, once per report; what it costs is nothing beside how it reads"
)]

mod chart;
mod compared;
pub mod csv;
mod document;
pub mod export;
mod figures;
pub mod hosts;
pub mod import;
pub mod json;
pub mod known;
mod matrix;
mod network;
pub mod page;
pub mod parquet;
mod places;
mod plan;
pub mod png;
mod program_tables;
mod programs;
pub mod table;
pub mod terminal;
#[cfg(test)]
extern crate self as raidlab_report;
#[cfg(test)]
#[path = "../tests/common/mod.rs"]
mod testdata;

pub use chart::Palette;
pub use document::{Cell, Document, Picture, Text, shortened};
pub use figures::three_digits;
pub use page::{FedCurve, FedPlace, Quantity, QuantityError};
pub use programs::{
    BonnieStep, BonnieStepPhase, ProgramReport, PublishedPoint, StreamsStep, bonnie_steps, streams_steps,
};

use raidlab_advisor::{ComparedTable, ComparisonRow, ComparisonSummary, PlaceSummary, Verdict};
use raidlab_workload::RunResult;

/// A study: what was asked, how it was answered, and the answer.
#[derive(Clone, Debug)]
pub struct StudyReport<'a> {
    /// What the study is called.
    pub title: &'a str,
    /// What it was to find out.
    pub question: &'a str,
    /// How it was done, paragraph by paragraph.
    pub method: Vec<String>,
    /// On what it was done: names and values.
    pub setup: Vec<(String, String)>,
    /// Every finished run. Of two runs of the same cell the later one counts.
    pub runs: &'a [RunResult],
    /// What is recommended, and why.
    pub verdicts: &'a [Verdict],
    /// What a reader must know before trusting the figures.
    pub warnings: Vec<String>,
    /// What a reader may want to know as well.
    pub notes: Vec<String>,
    /// A publication's tables with these runs in them, where the study is compared with one.
    pub compared: &'a [ComparedTable],
    /// The iodepth that tables and bars show. `None` is the one that most cells have, and the highest of those.
    pub iodepth: Option<u32>,
    /// The figures on the axes, across and up, of the chart of any against any other. `None` is throughput and mean latency.
    pub axes: Option<(Quantity, Quantity)>,
}

/// A publication with what is predicted.
#[derive(Clone, Debug)]
pub struct PaperReport<'a> {
    /// Its title.
    pub title: &'a str,
    /// Who wrote and published it.
    pub source: &'a str,
    /// How it was measured, sentence by sentence.
    pub method: Vec<String>,
    /// What is assumed beyond that.
    pub assumed: Vec<String>,
    /// What a reader may want to know as well.
    pub notes: Vec<String>,
    /// Errors of all rows.
    pub summary: ComparisonSummary,
    /// Errors of the rows that nothing was fitted to.
    pub summary_not_fitted: ComparisonSummary,
    /// Its tables, in their order.
    pub places: Vec<PaperPlace>,
}

/// A table of a publication.
#[derive(Clone, Debug)]
pub struct PaperPlace {
    /// What it is called, and what its rows come to.
    pub summary: PlaceSummary,
    /// Its rows.
    pub rows: Vec<PaperRow>,
    /// Utilisation and MiB/s against the number of accelerators, where that is what was published.
    pub fed: Vec<FedCurve>,
}

/// A row of it.
#[derive(Clone, Debug)]
pub struct PaperRow {
    /// Both figures.
    pub comparison: ComparisonRow,
    /// Whether figures of the model were fitted to it.
    pub fitted: bool,
    /// A word on it.
    pub note: String,
}
