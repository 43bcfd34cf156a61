//! The entry of the catalogue that a sheet makes: the text of its class with what was given and what was solved for.

use super::layout::SOURCE;
use super::solve::{Solved, conditions, hides_programs};
use super::{Sheet, SheetError};
use raidlab_hardware::{Catalog, CatalogChange, SheetFigure, SheetMetric};
use raidlab_units::{BytesPerSec, NanoSpan};
use std::fmt::Write;

/// Source of what the sheet says itself.
const GIVEN: &str = "data sheet: as given";

/// Writes the entry.
///
/// # Errors
/// [`SheetError::Catalog`] where the class's text lacks what is changed in it.
pub(super) fn write(sheet: &Sheet, solved: &Solved) -> Result<String, SheetError> {
    let class = sheet.kind.class();
    let mut text = with_interface(Catalog::text_of(class)?, sheet, solved);
    for (key, value, source) in changes(sheet, solved) {
        let change = CatalogChange { entry: class.to_owned(), key: key.to_owned(), value, source };
        text = change.applied_to("the entry", &text)?;
    }
    text += &sheet_table(&figures(sheet));
    Ok(text)
}

/// What the sheet says, and how it is measured.
fn figures(sheet: &Sheet) -> Vec<SheetFigure> {
    let us = |span: NanoSpan| span.0 as f64 / 1e3;
    let mb_per_s = |rate: BytesPerSec| rate.0 / 1e6;
    let values = [
        (SheetMetric::SeqRead, sheet.seq_read.map(mb_per_s)),
        (SheetMetric::SeqWrite, sheet.seq_write.map(mb_per_s)),
        (SheetMetric::RandomRead, sheet.read_iops),
        (SheetMetric::RandomWrite, sheet.write_iops),
        (SheetMetric::ReadLatency, sheet.read_latency.map(us)),
        (SheetMetric::WriteLatency, sheet.write_latency.map(us)),
    ];
    let figure = |(metric, value): (SheetMetric, Option<f64>)| {
        let conditions = conditions(sheet, metric);
        Some(SheetFigure { metric, value: value?, conditions, source: GIVEN.to_owned() })
    };
    values.into_iter().filter_map(figure).collect()
}

/// The table `[sheet]` of an entry.
pub(super) fn sheet_table(figures: &[SheetFigure]) -> String {
    let mut text = "\n[sheet]\n".to_owned();
    for SheetFigure { metric, value, conditions, source } in figures {
        let value = if metric.is_sequential() {
            format!("\"{} B/s\"", (value * 1e6).round())
        } else if metric.is_time() {
            format!("\"{} ns\"", (value * 1e3).round())
        } else {
            value.to_string()
        };
        // Writing to text can't fail.
        let _ = write!(text, "{} = {{ value = {value}, source = \"{source}\"", metric.key());
        let _ = write!(text, ", block = \"{} B\"", conditions.block.0);
        if !metric.is_time() {
            let _ = write!(text, ", iodepth = {}", conditions.iodepth);
        }
        if conditions.streams > 1 {
            let _ = write!(text, ", streams = {}", conditions.streams);
        }
        if let Some(history) = conditions.history {
            let _ = write!(text, ", condition = \"{history}\"");
        }
        if let Some(is_on) = conditions.write_cache {
            let _ = write!(text, ", write_cache = {is_on}");
        }
        text += " }\n";
    }
    text
}

/// What is different from the class: key, value, source.
fn changes(sheet: &Sheet, solved: &Solved) -> Vec<(&'static str, String, Option<String>)> {
    let flash = solved.flash();
    let (front, cells) = (&flash.front, &flash.cells);
    let span = |span: NanoSpan| format!("{} ns", span.0);
    let reads = sheet.read_iops.map(|iops| format!("fitted: to {iops} random reads a second"));
    let writes = sheet.write_iops.map(|iops| format!("fitted: to {iops} random writes a second"));
    let in_sequence = sheet.seq_write.map(|rate| format!("fitted: to {rate} written in sequence"));
    let alone = sheet.read_latency.map(|span| format!("fitted: to {span} for a read"));
    let write_alone = sheet.write_latency.map(|span| format!("fitted: to {span} for a write"));
    let is_hidden = hides_programs(sheet, solved.model.interface.rate) && !solved.spare_is_fitted;
    let programs = if is_hidden { writes.clone().or(in_sequence) } else { in_sequence };
    let pages = alone.clone().filter(|_| front.read_latency == NanoSpan::ZERO);
    let spare = writes.clone().filter(|_| solved.spare_is_fitted);
    let own = solved.is_in_proportion.then(|| SOURCE.to_owned());
    let of_capacity =
        "fitted: to the capacity, in dies of 64 GB, and to what random reads and programs keep busy";
    let dies = own.clone().or_else(|| Some(of_capacity.to_owned()));
    let is_own = own.is_some();
    // Behind caps the class's firmware stands.
    let commands = reads.clone().filter(|_| !is_own && !sheet.is_capped()).or(own.clone());
    let fitted = [
        ("host.queue_depth", front.queue_depth.to_string(), own.clone()),
        ("host.read_command", span(front.read_command), commands),
        ("host.write_command", span(front.write_command), writes),
        ("host.read_latency", span(front.read_latency), alone.or(own.clone())),
        ("host.write_latency", span(front.write_latency), write_alone),
        ("translation.spare_pct", flash.translation.spare_pct.to_string(), spare),
        ("flash.channels", cells.channels.to_string(), dies.clone()),
        ("flash.dies_per_channel", cells.dies_per_channel.to_string(), dies.clone()),
        ("flash.parity_every", cells.parity_every.to_string(), dies.clone()),
        ("flash.planes", cells.planes.to_string(), own.clone()),
        ("flash.suspensions_max", cells.suspensions_max.to_string(), own.clone()),
        ("flash.read_fast", span(cells.read_fast), own.clone().or(pages.clone())),
        ("flash.read_slow", span(cells.read_slow), own.clone().or(pages)),
        ("flash.channel.per_transfer", span(cells.channel.per_transfer), reads.filter(|_| is_own)),
        ("flash.program", span(cells.program), programs.clone()),
        ("flash.programs_at_once", cells.programs_at_once.to_string(), programs.or(dies)),
    ];
    let mut changes = vec![
        ("id", sheet.id.clone(), None),
        ("name", sheet.name.clone(), None),
        ("capacity_sectors", solved.model.capacity.0.to_string(), Some(GIVEN.to_owned())),
    ];
    // Without a source nothing of the sheet decided it, and it stands as the class has it.
    changes.extend(fitted.into_iter().filter(|(.., source)| source.is_some()));
    changes
}

/// The class's text with the sheet's interface in place of its own.
fn with_interface(class: &str, sheet: &Sheet, solved: &Solved) -> String {
    let interface = &solved.interface;
    let mut table = format!("[interface]\nlink = \"{}\"\n", interface.link);
    let lanes = if sheet.interface.is_some() { GIVEN } else { "estimated: usual in its class" };
    // Writing to text can't fail.
    let _ = writeln!(table, "lanes = {{ value = {}, source = \"{lanes}\" }}", interface.lanes);
    if let Some(rate) = sheet.seq_read {
        let own = solved.model.interface.rate.0 as u64;
        let source = format!("fitted: to {rate} read in sequence");
        let _ = writeln!(table, "rate = {{ value = \"{own} B/s\", source = \"{source}\" }}");
    }
    let caps = &solved.flash().caps;
    let rate = |rate: Option<BytesPerSec>| rate.map(|rate| format!("\"{} B/s\"", rate.0 as u64));
    let iops = |iops: Option<f64>| iops.map(|iops| iops.to_string());
    let caps = [
        ("read_iops", iops(caps.read_iops)),
        ("write_iops", iops(caps.write_iops)),
        ("read_rate", rate(caps.read_rate)),
        ("write_rate", rate(caps.write_rate)),
    ];
    if caps.iter().any(|(_, value)| value.is_some()) {
        table += "\n[caps]\n";
    }
    for (key, value) in caps {
        if let Some(value) = value {
            let _ = writeln!(table, "{key} = {{ value = {value}, source = \"{GIVEN}\" }}");
        }
    }
    let (before, rest) = class.split_once("[interface]").unwrap_or((class, ""));
    let after = rest.find("\n[").map_or("", |end| &rest[end..]);
    format!("{before}{table}{after}")
}
