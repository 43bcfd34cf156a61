//! `raidlab catalog check`: every drive measured from outside, in virtual time, as its data sheet says.

use crate::failure::{Exit, Failure};
use crate::inputs::CatalogArgs;
use crate::output::{Output, print, print_named};
use crate::progress::Progress;
use crate::schema::Form;
use raidlab::{Catalog, DriveModel};
use raidlab_calibrate::{SheetRow, check_sheet};
use serde::Serialize;
use std::fmt::Write;

/// Arguments of `raidlab catalog check`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Drives to check [default: all whose entry has a sheet]
    #[arg(value_name = "ID")]
    ids: Vec<String>,
    #[command(flatten)]
    catalog: CatalogArgs,
}

/// A drive, and its sheet beside what it does.
type Checked<'a> = (&'a DriveModel, Vec<SheetRow>);

/// Runs the verb.
pub(super) fn run(args: &Args, output: &Output) -> Result<Exit, Failure> {
    let catalog = args.catalog.load()?;
    let drives = chosen(&catalog, &args.ids)?;
    let mut progress = Progress::start();
    let mut checked: Vec<Checked<'_>> = Vec::new();
    for (index, model) in drives.iter().enumerate() {
        progress.show(&model.id, index as f64 / drives.len() as f64);
        checked.push((model, check_sheet(model)));
    }
    progress.end();
    if output.is_json() {
        print_named("drives", answers(&checked))?;
    } else {
        print(&as_words(&checked))?;
    }
    let all_met = checked.iter().flat_map(|(_, rows)| rows).all(SheetRow::is_met);
    Ok(if all_met { Exit::Done } else { Exit::BoundMissed })
}

/// The drives of these names, or all that have a sheet.
fn chosen<'a>(catalog: &'a Catalog, ids: &[String]) -> Result<Vec<&'a DriveModel>, Failure> {
    if ids.is_empty() {
        return Ok(catalog.drives().filter(|drive| !drive.sheet.is_empty()).collect());
    }
    let find = |id: &String| {
        let unknown = |error| Failure::input(error).with_hint("'raidlab catalog' lists the hardware");
        let drive = catalog.drive(id).map_err(unknown)?;
        if drive.sheet.is_empty() {
            let problem = anyhow::anyhow!("the entry of drive '{id}' has no sheet to be checked against");
            return Err(Failure::input(problem)
                .with_hint("a table [sheet] holds what a data sheet says (catalog/README.md)"));
        }
        Ok(drive)
    };
    ids.iter().map(find).collect()
}

fn as_words(checked: &[Checked<'_>]) -> String {
    let mut text = format!("{:>56}  {:>8}  {:>9}\n", "sheet", "model", "error");
    for (model, rows) in checked {
        // Writing to text can't fail.
        let _ = writeln!(text, "{}", model.id);
        for row in rows {
            let metric = row.figure.metric;
            let mark = if row.is_met() { "" } else { "!" };
            let conditions = row.figure.conditions.to_string();
            let line = format!(
                "  {:<15}{conditions:<31}{:>8}  {:>8} {:<4}{:>+6.1} %{mark}",
                metric.key(),
                digits(row.figure.value),
                digits(row.predicted),
                unit(row),
                row.error_pct(),
            );
            let _ = writeln!(text, "{line}");
        }
    }
    text + &summary(checked)
}

fn digits(value: f64) -> String {
    if value < 100.0 { format!("{value:.1}") } else { format!("{value:.0}") }
}

fn unit(row: &SheetRow) -> &'static str {
    let metric = row.figure.metric;
    if metric.is_sequential() {
        "MB/s"
    } else if metric.is_time() {
        "us"
    } else {
        "IO/s"
    }
}

fn summary(checked: &[Checked<'_>]) -> String {
    let rows = || checked.iter().flat_map(|(_, rows)| rows);
    let mut errors: Vec<f64> = rows().map(|row| row.error_pct().abs()).collect();
    errors.sort_by(f64::total_cmp);
    let median = errors.get(errors.len() / 2).copied().unwrap_or(0.0);
    let worst = errors.last().copied().unwrap_or(0.0);
    let beyond = rows().filter(|row| !row.is_met()).count();
    format!(
        "drives {}, figures {}: half within {median:.1} %, all within {worst:.1} %\nbeyond 5 % (times: 10 %): {beyond}\n",
        checked.len(),
        errors.len()
    )
}

/// The form of its answer.
pub(crate) const FORM: Form = Form::part::<Vec<CheckedAnswer<'_>>>("drives");

/// A drive, and its model beside its sheet.
#[derive(Serialize, schemars::JsonSchema)]
struct CheckedAnswer<'a> {
    id: &'a str,
    name: &'a str,
    rows: Vec<SheetAnswer<'a>>,
}

/// A figure of a sheet, and what the model does under the same conditions.
#[derive(Serialize, schemars::JsonSchema)]
struct SheetAnswer<'a> {
    figure: &'static str,
    sheet: f64,
    model: f64,
    error_pct: f64,
    met: bool,
    block_bytes: u64,
    iodepth: u32,
    read_pct: u8,
    span_pct: u8,
    streams: u32,
    condition: Option<String>,
    write_cache: Option<bool>,
    source: &'a str,
}

fn answers<'a>(checked: &'a [Checked<'_>]) -> Vec<CheckedAnswer<'a>> {
    let row = |row: &'a SheetRow| {
        let conditions = row.figure.conditions;
        SheetAnswer {
            figure: row.figure.metric.name(),
            sheet: row.figure.value,
            model: row.predicted,
            error_pct: row.error_pct(),
            met: row.is_met(),
            block_bytes: conditions.block.0,
            iodepth: conditions.iodepth,
            read_pct: conditions.read_pct,
            span_pct: conditions.span_pct,
            streams: conditions.streams,
            condition: conditions.history.map(|history| history.to_string()),
            write_cache: conditions.write_cache,
            source: &row.figure.source,
        }
    };
    let drive = |(model, rows): &'a Checked<'_>| CheckedAnswer {
        id: &model.id,
        name: &model.name,
        rows: rows.iter().map(row).collect(),
    };
    checked.iter().map(drive).collect()
}
