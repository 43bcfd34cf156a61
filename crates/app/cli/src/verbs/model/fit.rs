//! `raidlab model fit`: fits a flash drive's entry to a few cells of its latency matrix, and reports the quality on the
//! others.

use super::matrix::{Cell, ErrorsAnswer, errors, replay_all};
use crate::failure::{Exit, Failure};
use crate::inputs::CatalogArgs;
use crate::output::{Output, print, print_answer};
use crate::schema::Form;
use crate::whole_file::{check_writable, write_whole};
use raidlab::{Catalog, CatalogChange};
use raidlab_calibrate::{FittedFigure, MatrixTarget, cells_to_fit, fit_matrix, prefilled};
use raidlab_papers::{MatrixRow, read_matrix};
use raidlab_report::terminal::MatrixErrors;
use raidlab_worlds::read_text;
use serde::Serialize;
use std::fmt::Write as _;
use std::path::PathBuf;

/// Arguments of `raidlab model fit`.
#[derive(Debug, clap::Args)]
#[command(override_usage = "raidlab model fit [OPTIONS] --drive FILE.toml --matrix CSV --output FILE")]
pub(super) struct Args {
    /// The file of an entry to start from, as 'raidlab model from-sheet --output' writes it
    #[arg(long, value_name = "FILE.toml")]
    drive: PathBuf,
    /// The drive's matrix, of which five cells at most are fitted
    #[arg(long, value_name = "MATRIX.csv")]
    matrix: PathBuf,
    /// Reads counted for each cell, to say how good it is; half as many go before
    #[arg(long, value_name = "N", default_value_t = 4000)]
    reads: u32,
    #[command(flatten)]
    catalog: CatalogArgs,
    /// Name of the new entry
    #[arg(long, default_value = "fitted", value_name = "ID")]
    id: String,
    /// Write the new entry into this file
    #[arg(long, short, value_name = "FILE.toml")]
    output: PathBuf,
}

/// Runs the verb.
pub(super) fn run(args: &Args, output: &Output) -> Result<Exit, Failure> {
    check_writable(&args.output)?;
    let model = args.catalog.load_drive(&args.drive.to_string_lossy())?;
    let rows = read_matrix(&args.matrix).map_err(Failure::input)?;
    let is_whole = |row: &MatrixRow| row.read_p50_us.is_some() && row.read_p95_us.is_some();
    let whole: Vec<&MatrixRow> = rows.iter().filter(|row| is_whole(row)).collect();
    let loads: Vec<_> = whole.iter().map(|row| row.load).collect();
    let chosen: Vec<&MatrixRow> = cells_to_fit(&loads).into_iter().map(|index| whole[index]).collect();
    let target = |row: &&MatrixRow| {
        Some(MatrixTarget { load: row.load, p50_us: row.read_p50_us?, p95_us: row.read_p95_us? })
    };
    let targets: Vec<MatrixTarget> = chosen.iter().filter_map(target).collect();
    let fitted = fit_matrix(&model, &targets).map_err(Failure::input)?.ok_or_else(|| {
        Failure::input(anyhow::anyhow!("{} has no translation layer: only such drives are fitted", model.id))
    })?;
    let ids: Vec<String> = chosen.iter().map(|row| row.id.clone()).collect();
    let entry = entry(args, &model.id, &fitted, &ids)?;
    let mut catalog = Catalog::builtin();
    catalog.add("the new entry", &entry).map_err(Failure::input)?;
    let made = prefilled(catalog.drive(&args.id).map_err(Failure::input)?);
    let (used, others): (Vec<MatrixRow>, Vec<MatrixRow>) =
        rows.into_iter().partition(|row| ids.contains(&row.id));
    let used = replay_all(&made, used, args.reads)?;
    let others = replay_all(&made, others, args.reads)?;
    write_whole(&args.output, &entry)?;
    if output.is_json() {
        print_answer(&answer(&args.id, &fitted, &ids, &[errors(&used), errors(&others)]))?;
    } else {
        print(&as_words(&fitted, &ids, &used, &others))?;
    }
    Ok(Exit::Done)
}

/// The text of the entry that it starts from, with what was fitted.
fn entry(args: &Args, id: &str, fitted: &[FittedFigure], ids: &[String]) -> Result<String, Failure> {
    let mut text = read_text(&args.drive).map_err(Failure::input)?;
    let file = args.drive.display().to_string();
    let matrix = args.matrix.file_name().unwrap_or_default().to_string_lossy().replace(['"', '\\'], "");
    let source = format!("fitted: to {} of {matrix}", ids.join(", "));
    let own = fitted.iter().map(|figure| (figure.key, figure.value.clone(), Some(source.clone())));
    for (key, value, source) in own.chain([("id", args.id.clone(), None)]) {
        let change = CatalogChange { entry: id.to_owned(), key: key.to_owned(), value, source };
        text = change.applied_to(&file, &text).map_err(Failure::input)?;
    }
    Ok(text)
}

fn as_words(fitted: &[FittedFigure], ids: &[String], used: &[Cell], others: &[Cell]) -> String {
    let mut text = format!("fitted to {}:\n", ids.join(", "));
    for figure in fitted {
        // Writing to text can't fail.
        let _ = writeln!(text, "  {:<28} {}", figure.key, figure.value);
    }
    for (name, cells) in [("these cells", used), ("all others", others)] {
        let [p50, p95] = errors(cells).map(|errors| {
            let pct = |pct: Option<f64>| pct.map_or("-".to_owned(), |pct| format!("{pct:.1} %"));
            format!("{} (nine of ten below {})", pct(errors.median_pct), pct(errors.p90_pct))
        });
        let _ = writeln!(text, "{name}: median error of the median {p50}, of the 95th percentile {p95}");
    }
    text
}

/// The form of its answer.
pub(crate) const FORM: Form = Form::whole::<FitAnswer<'_>>();

/// A fit, as JSON.
#[derive(Serialize, schemars::JsonSchema)]
struct FitAnswer<'a> {
    drive: &'a str,
    figures: Vec<FittedAnswer<'a>>,
    fitted_cells: &'a [String],
    fitted: ErrorsAnswer,
    others: ErrorsAnswer,
}

#[derive(Serialize, schemars::JsonSchema)]
struct FittedAnswer<'a> {
    key: &'a str,
    value: &'a str,
}

fn answer<'a>(
    drive: &'a str,
    fitted: &'a [FittedFigure],
    fitted_cells: &'a [String],
    [of_fitted, of_others]: &[[MatrixErrors; 2]; 2],
) -> FitAnswer<'a> {
    let figure = |figure: &'a FittedFigure| FittedAnswer { key: figure.key, value: &figure.value };
    FitAnswer {
        drive,
        figures: fitted.iter().map(figure).collect(),
        fitted_cells,
        fitted: ErrorsAnswer::of(of_fitted),
        others: ErrorsAnswer::of(of_others),
    }
}
