//! `raidlab model from-sheet`: a solid-state drive's model from its data sheet.

use crate::failure::{Exit, Failure};
use crate::output::{Output, print, print_json};
use crate::whole_file::write_whole_or_fail;
use raidlab_calibrate::{Sheet, SheetInterface, SheetKind, SheetModel, model_from_sheet};
use raidlab_hardware::{Catalog, FigureSource};
use raidlab_units::{ByteCount, BytesPerSec, NanoSpan};
use serde_json::{Value, json};
use std::fmt::Write;
use std::path::PathBuf;

/// Arguments of `raidlab model from-sheet`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Kind of drive: nvme, sata-ssd, sas-ssd
    #[arg(long, value_parser = kind)]
    kind: SheetKind,
    /// What the host sees
    #[arg(long, value_name = "SIZE")]
    capacity: ByteCount,
    /// Reading in sequence
    #[arg(long, value_name = "RATE", value_parser = rate)]
    seq_read: Option<BytesPerSec>,
    /// Writing in sequence
    #[arg(long, value_name = "RATE", value_parser = rate)]
    seq_write: Option<BytesPerSec>,
    /// Reads at random a second: 900k
    #[arg(long, value_name = "N", value_parser = count)]
    read_iops: Option<f64>,
    /// Writes of 4 KiB at random a second, in the steady state
    #[arg(long, value_name = "N", value_parser = count)]
    write_iops: Option<f64>,
    /// Typical time of a read at random, alone
    #[arg(long, value_name = "TIME")]
    read_latency: Option<NanoSpan>,
    /// Typical time of a write of 4 KiB, alone
    #[arg(long, value_name = "TIME")]
    write_latency: Option<NanoSpan>,
    /// Interface: pcie3x4, pcie4x4, pcie5x2, sata-6g, sas-12gx2, ... [default: pcie4x4, sata-6g or sas-12gx2]
    #[arg(long, value_parser = interface, value_name = "LINK")]
    interface: Option<SheetInterface>,
    /// Length of the reads at random
    #[arg(long, value_name = "SIZE", default_value = "4KiB")]
    read_block: ByteCount,
    /// The figures are limits measured on a drive that was written once in sequence
    #[arg(long)]
    measured: bool,
    /// Name of the entry in the catalogue
    #[arg(long, default_value = "from-sheet", value_name = "ID")]
    id: String,
    /// Name of the drive for people
    #[arg(long, default_value = "Drive from a data sheet", value_name = "TEXT")]
    name: String,
    /// Write the entry into this file, which must not be there [default: print it]
    #[arg(long, short, value_name = "FILE.toml")]
    output: Option<PathBuf>,
}

/// Runs the verb.
pub(super) fn run(args: &Args, output: &Output) -> Result<Exit, Failure> {
    if let Some(path) = args.output.as_ref().filter(|path| path.exists()) {
        let problem = anyhow::anyhow!("{} is there already, and is not written over", path.display());
        return Err(Failure::input(problem).with_hint("name another file with --output"));
    }
    let made = model_from_sheet(&Catalog::builtin(), &args.sheet()).map_err(Failure::input)?;
    if let Some(path) = &args.output {
        write_whole_or_fail(path, &made.entry)?;
    }
    if output.is_json() {
        print_json(&as_json(&made))?;
    } else {
        let entry = if args.output.is_some() { "" } else { &made.entry };
        print(&format!("{entry}{}", as_words(&made, args.output.is_none())))?;
    }
    Ok(Exit::Done)
}

impl Args {
    fn sheet(&self) -> Sheet {
        Sheet {
            id: self.id.clone(),
            name: self.name.clone(),
            kind: self.kind,
            capacity: self.capacity,
            interface: self.interface.clone(),
            seq_read: self.seq_read,
            seq_write: self.seq_write,
            read_iops: self.read_iops,
            write_iops: self.write_iops,
            read_latency: self.read_latency,
            write_latency: self.write_latency,
            read_block: self.read_block,
            is_measured: self.measured,
        }
    }
}

/// How a figure of the entry was found.
fn origin(figure: &FigureSource) -> &'static str {
    match figure.source.as_str() {
        "data sheet: as given" => "given",
        source if source.starts_with("fitted:") => "derived",
        _ => "assumed",
    }
}

fn as_json(made: &SheetModel) -> Value {
    let row = |row: &raidlab_calibrate::SheetRow| {
        json!({
            "figure": row.figure, "given": row.given, "predicted": row.predicted, "error_pct": row.error_pct(),
        })
    };
    let figure = |figure: &FigureSource| {
        json!({
            "key": figure.key, "value": figure.value, "origin": origin(figure), "source": figure.source,
        })
    };
    json!({
        "id": made.model.id,
        "entry": made.entry,
        "rows": made.rows.iter().map(row).collect::<Vec<_>>(),
        "figures": made.model.sources.iter().map(figure).collect::<Vec<_>>(),
    })
}

/// Sheet and model side by side, and where each figure of the entry is from; as remarks where the entry stands above.
fn as_words(made: &SheetModel, below_entry: bool) -> String {
    let lead = if below_entry { "# " } else { "" };
    let mut text = String::new();
    // Writing to text can't fail.
    let _ = writeln!(text, "{lead}{:<22} {:>12} {:>12} {:>8}", "figure", "sheet", "model", "error");
    for row in &made.rows {
        let error = row.error_pct();
        let _ = writeln!(
            text,
            "{lead}{:<22} {:>12.1} {:>12.1} {error:>+7.1}%",
            row.figure, row.given, row.predicted
        );
    }
    for wanted in ["given", "derived", "assumed"] {
        let keys: Vec<&str> = made
            .model
            .sources
            .iter()
            .filter(|figure| origin(figure) == wanted)
            .map(|figure| figure.key.as_str())
            .collect();
        let _ = writeln!(text, "{lead}{wanted}: {}", keys.join(", "));
    }
    text
}

fn kind(text: &str) -> Result<SheetKind, String> {
    match text {
        "nvme" => Ok(SheetKind::Nvme),
        "sata-ssd" => Ok(SheetKind::SataSsd),
        "sas-ssd" => Ok(SheetKind::SasSsd),
        _ => Err("a kind is nvme, sata-ssd or sas-ssd".into()),
    }
}

/// A rate: `6500MB/s`.
fn rate(text: &str) -> Result<BytesPerSec, String> {
    let expected = || "a rate is a size a second, such as 6500MB/s".to_owned();
    let bytes: ByteCount = text.strip_suffix("/s").ok_or_else(expected)?.parse().map_err(|_| expected())?;
    Ok(BytesPerSec(bytes.0 as f64))
}

/// A number of requests: `200000`, `200k`, `1.6M`.
fn count(text: &str) -> Result<f64, String> {
    let (digits, scale) = match text.strip_suffix(['k', 'K']) {
        Some(digits) => (digits, 1e3),
        None => text.strip_suffix('M').map_or((text, 1.0), |digits| (digits, 1e6)),
    };
    let number: Option<f64> = digits.parse().ok().filter(|number: &f64| number.is_finite() && *number > 0.0);
    number
        .map(|number| number * scale)
        .ok_or_else(|| "a number above zero, such as 200000, 200k or 1.6M".into())
}

/// A link and its lanes: `pcie4x4`, `sas-12gx2`, `sata-6g`.
fn interface(text: &str) -> Result<SheetInterface, String> {
    let expected =
        || "an interface is a link and its lanes, such as pcie4x4, sas-12gx2 or sata-6g".to_owned();
    let (link, lanes) = match text.rsplit_once('x') {
        Some((link, lanes)) => {
            (link, lanes.parse().ok().filter(|lanes| (1..=16).contains(lanes)).ok_or_else(expected)?)
        }
        None => (text, 1),
    };
    let link = match link.strip_prefix("pcie").filter(|rest| !rest.starts_with('-')) {
        Some(generation) => format!("pcie-{generation}"),
        None => link.to_owned(),
    };
    if link.is_empty() { Err(expected()) } else { Ok(SheetInterface { link, lanes }) }
}
