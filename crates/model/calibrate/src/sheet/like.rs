//! Writes a catalogue entry that refers to its class: the differences, with sources and ranges.

use super::facts::{SheetFacts, Spread, Trust};
use super::{SheetError, check_names, within};
use raidlab_hardware::{Catalog, DriveModel, SheetFigure};
use raidlab_units::{ByteCount, BytesPerSec};
use std::fmt::Write;

/// A source that more than this many figures have gets a name.
const NAMED_FROM: usize = 2;

/// A figure's value.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    /// A whole number.
    Count(u64),
    Number(f64),
    Nanos(f64),
    Rate(BytesPerSec),
    Size(ByteCount),
    /// Without source: a name, a flag.
    Plain(String),
}

impl Value {
    fn times(&self, factor: f64) -> Self {
        let whole = |count: u64| {
            if factor < 1.0 { (count as f64 * factor).floor() } else { (count as f64 * factor).ceil() }
        };
        match self {
            Self::Count(count) => Self::Count(whole(*count).max(1.0) as u64),
            Self::Number(number) => Self::Number(digits(number * factor)),
            Self::Nanos(ns) => Self::Nanos((ns * factor).round()),
            Self::Rate(rate) => Self::Rate(BytesPerSec(digits(rate.0 * factor))),
            Self::Size(size) => Self::Size(ByteCount(whole(size.0) as u64)),
            Self::Plain(text) => Self::Plain(text.clone()),
        }
    }

    fn text(&self) -> String {
        let in_units = |value: f64, units: &[(f64, &str)]| {
            let unit = units.iter().find(|(unit, _)| value >= *unit && value % unit == 0.0);
            let (unit, name) = unit.unwrap_or(&units[units.len() - 1]);
            format!("\"{} {name}\"", (value / unit).round())
        };
        match self {
            Self::Count(count) => count.to_string(),
            Self::Number(number) if *number >= 1e12 => format!("{number:e}"),
            Self::Number(number) => number.to_string(),
            Self::Nanos(ns) => in_units(ns.round(), &[(1e6, "ms"), (1e3, "us"), (1.0, "ns")]),
            Self::Rate(rate) => in_units(rate.0.round(), &[(1e6, "MB/s"), (1.0, "B/s")]),
            Self::Size(size) => {
                let mib = 1024.0 * 1024.0;
                let units =
                    [(1e12, "TB"), (1e9, "GB"), (mib, "MiB"), (1e6, "MB"), (1024.0, "KiB"), (1.0, "B")];
                in_units(size.0 as f64, &units)
            }
            Self::Plain(text) => text.clone(),
        }
    }
}

/// To four digits: a range says no more.
fn digits(value: f64) -> f64 {
    if value <= 0.0 {
        return value;
    }
    let scale = 10_f64.powf(value.log10().floor() - 3.0);
    let rounded = (value / scale).round() * scale;
    if scale >= 1.0 { rounded.round() } else { (rounded * 1e6).round() / 1e6 }
}

/// A figure of the entry, `host.read_command`.
#[derive(Clone, Debug)]
struct Figure {
    key: &'static str,
    value: Value,
    trust: Trust,
}

/// An entry in the making.
#[derive(Clone, Debug)]
pub(super) struct LikeEntry {
    id: String,
    name: String,
    class: &'static str,
    figures: Vec<Figure>,
    /// Tables that the class does not have, as text.
    tables: String,
}

impl LikeEntry {
    /// An entry with the facts of its sheet, of a drive of `capacity` and so many sectors.
    ///
    /// # Errors
    /// [`SheetError::Figure`] for names that can't be written, or facts that can't be.
    pub(super) fn new(
        (id, name): (&str, &str),
        class: &'static str,
        facts: &SheetFacts,
        capacity: ByteCount,
        sectors: u64,
    ) -> Result<Self, SheetError> {
        check_names(id, name)?;
        check(facts)?;
        let (id, name) = (id.to_owned(), name.to_owned());
        let mut entry = Self { id, name, class, figures: Vec::new(), tables: String::new() };
        if let Some(year) = facts.year {
            let (source, _) = facts.trust("year");
            entry.set("year", Value::Count(year.into()), (source, None));
        }
        entry.set("capacity_sectors", Value::Count(sectors), facts.trust("capacity"));
        let watts = [
            ("power_active_watts", facts.active_watts, "active-power"),
            ("power_idle_watts", facts.idle_watts, "idle-power"),
        ];
        for (key, watts, name) in watts {
            if let Some(watts) = watts {
                entry.set(key, Value::Number(watts), facts.trust(name));
            }
        }
        if let Some((pct, trust)) = facts.failures() {
            entry.set("reliability.sheet_afr_pct", Value::Number(pct), trust);
        }
        if let Some((bits, trust)) = facts.read_errors() {
            entry.set("reliability.bits_per_read_error", Value::Number(bits), trust);
        }
        if let Some((bytes, trust)) = facts.rated(capacity) {
            entry.set("reliability.rated_writes", Value::Size(ByteCount(digits(bytes) as u64)), trust);
        }
        Ok(entry)
    }

    pub(super) fn set(&mut self, key: &'static str, value: Value, trust: Trust) {
        self.figures.retain(|figure| figure.key != key);
        self.figures.push(Figure { key, value, trust });
    }

    /// A name or a flag, which has no source.
    pub(super) fn set_plain(&mut self, key: &'static str, value: impl Into<String>) {
        self.set(key, Value::Plain(value.into()), (String::new(), None));
    }

    /// More tables, as text.
    pub(super) fn add_tables(&mut self, text: &str) {
        self.tables += text;
    }

    /// The entry's text; `sheet` is what it is held against.
    pub(super) fn text(&self, sheet: &[(SheetFigure, Option<Spread>)]) -> String {
        let names = self.source_names(sheet);
        let mut text = format!(
            "schema = 1\nid = \"{}\"\nname = \"{}\"\nlike = \"{}\"\n",
            self.id, self.name, self.class
        );
        let mut tables: Vec<&str> = Vec::new();
        for figure in &self.figures {
            let table = table_of(figure.key);
            if !tables.contains(&table) {
                tables.push(table);
            }
        }
        for table in tables.iter().copied().filter(|table| table.is_empty()) {
            self.write_table(&mut text, table, &names);
        }
        if !names.is_empty() {
            text += "\n[sources]\n";
            for (name, source) in &names {
                // Writing to text can't fail.
                let _ = writeln!(text, "{name} = {}", quoted(source));
            }
        }
        for table in tables.into_iter().filter(|table| !table.is_empty()) {
            let _ = writeln!(text, "\n[{table}]");
            self.write_table(&mut text, table, &names);
        }
        text += &self.tables;
        text + &sheet_table(sheet, &names)
    }

    fn write_table(&self, text: &mut String, table: &str, names: &[(String, String)]) {
        for Figure { key, value, trust: (source, spread) } in &self.figures {
            if table_of(key) != table {
                continue;
            }
            let key = key.rsplit('.').next().unwrap_or(key);
            let _ = match value {
                Value::Plain(value) => writeln!(text, "{key} = {value}"),
                value => {
                    let (value, range) = (value.text(), range(value, *spread));
                    writeln!(text, "{key} = {{ value = {value}{range}, source = {} }}", named(source, names))
                }
            };
        }
    }

    /// Sources that several figures have.
    fn source_names(&self, sheet: &[(SheetFigure, Option<Spread>)]) -> Vec<(String, String)> {
        let own = self.figures.iter().map(|figure| figure.trust.0.as_str());
        let all: Vec<&str> = own.chain(sheet.iter().map(|(figure, _)| figure.source.as_str())).collect();
        let mut names: Vec<(String, String)> = Vec::new();
        for source in &all {
            let count = all.iter().filter(|other| *other == source).count();
            if source.is_empty() || count < NAMED_FROM || names.iter().any(|(_, known)| known == source) {
                continue;
            }
            let kind = match source.split_once(':') {
                Some(("data sheet", _)) => "sheet",
                Some(("fitted", _)) => "fitted",
                _ if source.contains("recalled") => "recalled",
                _ if source.contains("family") => "family",
                _ => "estimated",
            };
            let taken = names
                .iter()
                .filter(|(name, _)| name.trim_end_matches(|c: char| c.is_ascii_digit()) == kind)
                .count();
            let name = if taken == 0 { kind.to_owned() } else { format!("{kind}{}", taken + 1) };
            names.push((name, (*source).to_owned()));
        }
        names
    }

    /// The entry read as the catalogue reads it, and its text.
    ///
    /// # Errors
    /// [`SheetError::Catalog`] for an entry that contradicts itself.
    pub(super) fn read(
        &self,
        catalog: &Catalog,
        sheet: &[(SheetFigure, Option<Spread>)],
    ) -> Result<(DriveModel, String), SheetError> {
        let text = self.text(sheet);
        let mut with_entry = catalog.clone();
        with_entry.add("the entry", &text)?;
        Ok((with_entry.drive(&self.id)?.clone(), text))
    }
}

fn table_of(key: &str) -> &str {
    key.rsplit_once('.').map_or("", |(table, _)| table)
}

fn quoted(source: &str) -> String {
    format!("\"{}\"", source.replace(['"', '\\'], "'"))
}

fn named(source: &str, names: &[(String, String)]) -> String {
    let name = names.iter().find(|(_, known)| known == source);
    name.map_or_else(|| quoted(source), |(name, _)| format!("\"{name}\""))
}

fn range(value: &Value, spread: Option<Spread>) -> String {
    let Some(Spread { low, high }) = spread else { return String::new() };
    let end = |name: &str, factor: f64| {
        if factor == 1.0 { String::new() } else { format!(", {name} = {}", value.times(factor).text()) }
    };
    end("low", low) + &end("high", high)
}

/// The table `[sheet]` of an entry.
fn sheet_table(figures: &[(SheetFigure, Option<Spread>)], names: &[(String, String)]) -> String {
    let mut text = "\n[sheet]\n".to_owned();
    for (SheetFigure { metric, value, conditions, source }, spread) in figures {
        let value = if metric.is_sequential() {
            Value::Rate(BytesPerSec((value * 1e6).round()))
        } else if metric.is_time() {
            Value::Nanos((value * 1e3).round())
        } else {
            Value::Number(*value)
        };
        let (written, range) = (value.text(), range(&value, *spread));
        // Writing to text can't fail.
        let _ =
            write!(text, "{} = {{ value = {written}{range}, source = {}", metric.key(), named(source, names));
        let _ = write!(text, ", block = {}", Value::Size(conditions.block).text());
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

fn check(facts: &SheetFacts) -> Result<(), SheetError> {
    let bounds = [
        ("drive writes a day", facts.writes_a_day, 0.01..=1000.0, "they are from 0.01 to 1000"),
        ("watts at work", facts.active_watts, 0.1..=200.0, "they are from 0.1 to 200"),
        ("watts at rest", facts.idle_watts, 0.001..=100.0, "they are from 0.001 to 100"),
        ("a failure rate", facts.afr_pct, 0.001..=50.0, "it is from 0.001 to 50 % a year"),
        ("a time between failures", facts.mtbf_hours, 1e5..=1e8, "it is from 100000 hours to 100 million"),
        ("bits per read error", facts.bits_per_read_error, 1e12..=1e20, "they are from 1e12 to 1e20"),
        ("a year", facts.year.map(f64::from), 1980.0..=2100.0, "it is from 1980 to 2100"),
    ];
    for (figure, value, bounds, reason) in bounds {
        within(figure, value, bounds, reason)?;
    }
    match &facts.source {
        Some(source) if !source.starts_with("data sheet: ") => Err(SheetError::Figure {
            figure: "a source",
            value: format!("'{source}'"),
            reason: "it begins with 'data sheet: '",
        }),
        _ => Ok(()),
    }
}
