//! `raidlab model matrix`: a drive's model compared with a published latency matrix of the drive.

use crate::failure::{Exit, Failure};
use crate::inputs::CatalogArgs;
use crate::output::{Output, print, print_answer};
use crate::schema::Form;
use crate::verbs::report::write_page;
use crate::whole_file::check_writable;
use anyhow::Context;
use raidlab::DriveModel;
use raidlab_calibrate::{CellLatency, prefilled, replay_cell};
use raidlab_papers::{MatrixRow, read_matrix};
use raidlab_report::page;
use raidlab_report::terminal::{MatrixCell, MatrixErrors, latency_matrix};
use serde::Serialize;
use std::path::PathBuf;

/// Arguments of `raidlab model matrix`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The drive, by its name in the catalogue, or the file of an entry
    #[arg(long, value_name = "ID|FILE.toml")]
    drive: String,
    /// Reads counted for each cell; half as many go before
    #[arg(long, value_name = "N", default_value_t = 4000)]
    reads: u32,
    #[command(flatten)]
    catalog: CatalogArgs,
    /// Also write a page with heat maps and curves
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
    /// The matrix: a row for each cell, with what was asked of the drive and what its reads took
    #[arg(value_name = "MATRIX.csv")]
    matrix: PathBuf,
}

/// A cell of the file with what the model does.
pub(super) type Cell = (MatrixRow, CellLatency);

/// Runs the verb.
pub(super) fn run(args: &Args, output: &Output) -> Result<Exit, Failure> {
    if let Some(path) = &args.report {
        check_writable(path)?;
    }
    let model = prefilled(&args.catalog.load_drive(&args.drive)?);
    let rows = read_matrix(&args.matrix).map_err(Failure::input)?;
    let cells = replay_all(&model, rows, args.reads)?;
    let shown: Vec<MatrixCell> = cells.iter().map(shown).collect();
    if let Some(path) = &args.report {
        let name = args.matrix.file_name().unwrap_or(args.matrix.as_os_str());
        let source = name.to_string_lossy();
        write_page(path, &page::latency_matrix(&model.name, &source, &shown, &errors(&cells)))?;
    }
    if output.is_json() {
        print_answer(&answer(&model.id, &cells))?;
    } else {
        print(&latency_matrix(&model.id, &shown, &errors(&cells), output.terminal()))?;
    }
    Ok(Exit::Done)
}

/// What the model does in each cell.
pub(super) fn replay_all(model: &DriveModel, rows: Vec<MatrixRow>, reads: u32) -> Result<Vec<Cell>, Failure> {
    let replay = |row: MatrixRow| {
        let seen = replay_cell(model, &row.load, reads)
            .with_context(|| format!("cell '{}' can't be replayed", row.id))
            .map_err(Failure::input)?;
        Ok((row, seen))
    };
    rows.into_iter().map(replay).collect()
}

fn shown((row, seen): &Cell) -> MatrixCell {
    MatrixCell {
        id: row.id.clone(),
        read_iops: row.load.read_iops,
        write_mb_per_s: row.load.write_bytes_per_sec / 1e6,
        p50_us: (row.read_p50_us, seen.p50_us),
        p95_us: (row.read_p95_us, seen.p95_us),
    }
}

/// Errors of the median and of the 95th percentile over all cells.
pub(super) fn errors(cells: &[Cell]) -> [MatrixErrors; 2] {
    let p50 = cells.iter().map(|(row, seen)| (row.read_p50_us, seen.p50_us));
    let p95 = cells.iter().map(|(row, seen)| (row.read_p95_us, seen.p95_us));
    [errors_of(p50), errors_of(p95)]
}

fn errors_of(pairs: impl Iterator<Item = (Option<f64>, f64)>) -> MatrixErrors {
    let error_pct =
        |(published, predicted): (Option<f64>, f64)| Some((predicted / published? - 1.0).abs() * 100.0);
    let mut errors_pct: Vec<f64> = pairs.filter_map(error_pct).collect();
    errors_pct.sort_by(f64::total_cmp);
    let at = |pct: usize| errors_pct.get((errors_pct.len() * pct).div_ceil(100).max(1) - 1).copied();
    MatrixErrors { median_pct: at(50), p90_pct: at(90) }
}

/// The form of its answer.
pub(crate) const FORM: Form = Form::whole::<MatrixAnswer<'_>>();

/// A matrix beside its prediction, as JSON.
#[derive(Serialize, schemars::JsonSchema)]
struct MatrixAnswer<'a> {
    drive: &'a str,
    rows: Vec<CellAnswer<'a>>,
    summary: ErrorsAnswer,
}

#[derive(Serialize, schemars::JsonSchema)]
struct CellAnswer<'a> {
    id: &'a str,
    p50_us: Option<f64>,
    p50_predicted_us: f64,
    p95_us: Option<f64>,
    p95_predicted_us: f64,
}

/// How far predicted percentiles are from measured ones.
#[derive(Serialize, schemars::JsonSchema)]
#[expect(clippy::struct_field_names, reason = "they are the names of the JSON")]
pub(super) struct ErrorsAnswer {
    p50_median_abs_error_pct: Option<f64>,
    p50_p90_abs_error_pct: Option<f64>,
    p95_median_abs_error_pct: Option<f64>,
    p95_p90_abs_error_pct: Option<f64>,
}

impl ErrorsAnswer {
    pub(super) fn of([p50, p95]: &[MatrixErrors; 2]) -> Self {
        Self {
            p50_median_abs_error_pct: p50.median_pct,
            p50_p90_abs_error_pct: p50.p90_pct,
            p95_median_abs_error_pct: p95.median_pct,
            p95_p90_abs_error_pct: p95.p90_pct,
        }
    }
}

fn answer<'a>(drive: &'a str, cells: &'a [Cell]) -> MatrixAnswer<'a> {
    let row = |(row, seen): &'a Cell| CellAnswer {
        id: &row.id,
        p50_us: row.read_p50_us,
        p50_predicted_us: seen.p50_us,
        p95_us: row.read_p95_us,
        p95_predicted_us: seen.p95_us,
    };
    MatrixAnswer { drive, rows: cells.iter().map(row).collect(), summary: ErrorsAnswer::of(&errors(cells)) }
}
