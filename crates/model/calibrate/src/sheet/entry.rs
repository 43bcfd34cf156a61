//! The entry of the catalogue that a sheet of flash makes: like its class, with what was given and what was solved for.

use super::facts::{Spread, Trust};
use super::layout::SOURCE;
use super::like::{LikeEntry, Value};
use super::solve::{Solved, conditions, hides_programs};
use super::{Sheet, SheetError, SheetKind, sectors};
use raidlab_hardware::{Catalog, DriveModel, FlashModel, SheetFigure, SheetMetric};
use raidlab_units::{BytesPerSec, NanoSpan};

/// Names of a sheet's figures, as the command has them.
const NAMES: [(SheetMetric, &str); 6] = [
    (SheetMetric::SeqRead, "seq-read"),
    (SheetMetric::SeqWrite, "seq-write"),
    (SheetMetric::RandomRead, "read-iops"),
    (SheetMetric::RandomWrite, "write-iops"),
    (SheetMetric::ReadLatency, "read-latency"),
    (SheetMetric::WriteLatency, "write-latency"),
];

/// Writes the entry, and reads it.
///
/// # Errors
/// [`SheetError::Catalog`] where the class's text lacks what is changed in it, [`SheetError::Figure`] for facts that can't be.
pub(super) fn write(
    catalog: &Catalog,
    class: &DriveModel,
    sheet: &Sheet,
    solved: &Solved,
) -> Result<(DriveModel, String), SheetError> {
    let facts = &sheet.facts;
    let names = (sheet.id.as_str(), sheet.name.as_str());
    let mut entry =
        LikeEntry::new(names, sheet.kind.class(), facts, sheet.capacity, sectors(sheet.capacity))?;
    set_interface(&mut entry, class, sheet, solved);
    let usual = inside(super::solve::of_flash(class));
    let own = trusts(sheet, solved);
    for ((key, value), (_, usual)) in inside(solved.flash()).into_iter().zip(usual) {
        let trust = own.iter().find(|(known, _)| *known == key).and_then(|(_, trust)| trust.clone());
        // Without a source nothing of the sheet decided it, and it stands as the class has it.
        if let Some(trust) = trust.filter(|_| value != usual) {
            entry.set(key, value, trust);
        }
    }
    set_cache(&mut entry, sheet, solved);
    entry.read(catalog, &figures(sheet))
}

/// What the sheet says, and how it is measured.
fn figures(sheet: &Sheet) -> Vec<(SheetFigure, Option<Spread>)> {
    let us = |span: NanoSpan| span.0 as f64 / 1e3;
    let mb_per_s = |rate: BytesPerSec| rate.0 / 1e6;
    let value = |metric| match metric {
        SheetMetric::SeqRead => sheet.seq_read.map(mb_per_s),
        SheetMetric::SeqWrite => sheet.seq_write.map(mb_per_s),
        SheetMetric::RandomRead => sheet.read_iops,
        SheetMetric::RandomWrite => sheet.write_iops,
        SheetMetric::ReadLatency => sheet.read_latency.map(us),
        _ => sheet.write_latency.map(us),
    };
    let figure = |(metric, name): (SheetMetric, &str)| {
        let (source, spread) = sheet.facts.trust(name);
        let conditions = conditions(sheet, metric);
        Some((SheetFigure { metric, value: value(metric)?, conditions, source }, spread))
    };
    NAMES.into_iter().filter_map(figure).collect()
}

/// What the sheet can decide of the inside.
fn inside(flash: &FlashModel) -> [(&'static str, Value); 19] {
    let (front, cells) = (&flash.front, &flash.cells);
    let count = |count: u32| Value::Count(count.into());
    let span = |span: NanoSpan| Value::Nanos(span.0 as f64);
    [
        ("host.queue_depth", count(front.queue_depth)),
        ("host.ports", count(front.ports)),
        ("host.read_command", span(front.read_command)),
        ("host.write_command", span(front.write_command)),
        ("host.read_latency", span(front.read_latency)),
        ("host.write_latency", span(front.write_latency)),
        ("translation.unit", Value::Size(flash.translation.unit)),
        ("translation.spare_pct", Value::Number(flash.translation.spare_pct)),
        ("flash.channels", count(cells.channels)),
        ("flash.dies_per_channel", count(cells.dies_per_channel)),
        ("flash.planes", count(cells.planes)),
        ("flash.bits_per_cell", count(cells.bits_per_cell)),
        ("flash.read_fast", span(cells.read_fast)),
        ("flash.read_slow", span(cells.read_slow)),
        ("flash.program", span(cells.program)),
        ("flash.programs_at_once", count(cells.programs_at_once)),
        ("flash.parity_every", count(cells.parity_every)),
        ("flash.suspensions_max", count(cells.suspensions_max)),
        ("flash.channel.per_transfer", span(cells.channel.per_transfer)),
    ]
}

/// What speaks for each of these.
fn trusts(sheet: &Sheet, solved: &Solved) -> Vec<(&'static str, Option<Trust>)> {
    let facts = &sheet.facts;
    let fitted = |name: &str, text: Option<String>| text.map(|text| facts.fitted(name, &text));
    let reads = fitted("read-iops", sheet.read_iops.map(|iops| format!("{iops} random reads a second")));
    let writes = fitted("write-iops", sheet.write_iops.map(|iops| format!("{iops} random writes a second")));
    let in_sequence = match &sheet.slc {
        None => fitted("seq-write", sheet.seq_write.map(|rate| format!("{rate} written in sequence"))),
        Some(slc) => {
            fitted("seq-write-sustained", Some(format!("{} past the pseudo-SLC cache", slc.sustained)))
        }
    };
    let alone = fitted("read-latency", sheet.read_latency.map(|span| format!("{span} for a read")));
    let write_alone = fitted("write-latency", sheet.write_latency.map(|span| format!("{span} for a write")));
    let is_hidden =
        hides_programs(&Solved::programmed(sheet), solved.model.interface.rate) && !solved.spare_is_fitted;
    let programs =
        if is_hidden && sheet.slc.is_none() { writes.clone().or(in_sequence) } else { in_sequence };
    let pages = alone.clone().filter(|_| solved.pages_are_fitted);
    let spare = writes.clone().filter(|_| solved.spare_is_fitted);
    let own = solved.is_in_proportion.then(|| (SOURCE.to_owned(), Some(Spread::LAYOUT)));
    let of_capacity =
        "fitted: to the capacity, in dies of 64 GB, and to what random reads and programs keep busy";
    let dies = own.clone().or_else(|| Some((of_capacity.to_owned(), Some(Spread::LAYOUT))));
    let is_own = own.is_some();
    // Behind caps the class's firmware stands.
    let commands = reads.clone().filter(|_| !is_own && !sheet.is_capped()).or(own.clone());
    vec![
        ("host.queue_depth", own.clone()),
        ("host.ports", Some(facts.trust("interface")).map(|(source, _)| (source, None))),
        ("host.read_command", commands),
        ("host.write_command", writes),
        ("host.read_latency", alone.or(own.clone())),
        ("host.write_latency", write_alone),
        ("translation.unit", Some(facts.trust("unit")).map(|(source, _)| (source, None))),
        ("translation.spare_pct", spare),
        ("flash.channels", dies.clone()),
        ("flash.dies_per_channel", dies.clone()),
        ("flash.planes", own.clone()),
        ("flash.bits_per_cell", Some(facts.trust("nand")).map(|(source, _)| (source, None))),
        ("flash.read_fast", own.clone().or(pages.clone())),
        ("flash.read_slow", own.clone().or(pages.clone())),
        ("flash.program", programs.clone()),
        ("flash.programs_at_once", programs.or(dies.clone())),
        ("flash.parity_every", dies.map(|(source, _)| (source, None))),
        ("flash.suspensions_max", own.map(|(source, _)| (source, None))),
        ("flash.channel.per_transfer", reads.filter(|_| is_own).or(pages.filter(|_| sheet.is_capped()))),
    ]
}

/// The sheet's interface in place of the class's, and caps.
fn set_interface(entry: &mut LikeEntry, class: &DriveModel, sheet: &Sheet, solved: &Solved) {
    let facts = &sheet.facts;
    if let Some(interface) = &sheet.interface {
        entry.set_plain("interface.link", format!("\"{}\"", interface.link));
        if sheet.kind != SheetKind::SataSsd {
            let (source, _) = facts.trust("interface");
            entry.set("interface.lanes", Value::Count(interface.lanes.into()), (source, None));
        }
    }
    if solved.model.interface.rate != class.interface.rate {
        let own = Value::Rate(BytesPerSec(solved.model.interface.rate.0.floor()));
        let usual = || ("estimated: what the link usually carries".to_owned(), Some(Spread::LAYOUT));
        let fitted = sheet.seq_read.map(|rate| facts.fitted("seq-read", &format!("{rate} read in sequence")));
        entry.set("interface.rate", own, fitted.unwrap_or_else(usual));
    }
    if solved.model.interface.per_transfer == NanoSpan::ZERO {
        let text = "the random reads, which fill the interface as long ones do";
        entry.set("interface.per_transfer", Value::Nanos(0.0), (facts.fitted("read-iops", text).0, None));
    }
    let caps = &solved.flash().caps;
    let rate = |rate: Option<BytesPerSec>| rate.map(|rate| Value::Rate(BytesPerSec(rate.0.floor())));
    let figures = [
        ("caps.read_iops", caps.read_iops.map(Value::Number), "read-iops"),
        ("caps.write_iops", caps.write_iops.map(Value::Number), "write-iops"),
        ("caps.read_rate", rate(caps.read_rate), "seq-read"),
        ("caps.write_rate", rate(caps.write_rate), "seq-write"),
        ("caps.iops", caps.iops.map(Value::Number), "total-iops"),
        ("caps.rate", rate(caps.rate), "total-rate"),
        ("caps.credits", caps.credits.map(Value::Number), "credits"),
        ("caps.burst_iops", caps.burst_iops.map(Value::Number), "burst-iops"),
    ];
    if caps.burst > NanoSpan::ZERO {
        let source = "estimated: a cap is a bucket of tokens; reads of GCP's local SSD do not wait up to 85 % of theirs";
        let burst = Value::Nanos(caps.burst.0 as f64);
        entry.set("caps.burst", burst, (source.to_owned(), Some(Spread::LAYOUT)));
    }
    for (key, value, name) in figures {
        if let Some(value) = value {
            entry.set(key, value, facts.trust(name));
        }
    }
}

/// The pseudo-SLC cache, and that it is folded while the drive is idle.
fn set_cache(entry: &mut LikeEntry, sheet: &Sheet, solved: &Solved) {
    let (Some(given), Some(slc)) = (&sheet.slc, solved.flash().slc) else { return };
    let facts = &sheet.facts;
    // Nobody's client drives have capacitors for their buffer.
    entry.set_plain("buffer.protected", "false");
    entry.set("slc_cache.static_size", Value::Size(slc.static_size), facts.trust("slc-cache"));
    entry.set("slc_cache.dynamic_size", Value::Size(slc.dynamic_size), facts.trust("slc-cache"));
    let all = "estimated: it borrows flash that holds no data, so nothing is left of it on a full drive";
    entry.set("slc_cache.dynamic_until_pct", Value::Number(slc.dynamic_until_pct), (all.to_owned(), None));
    entry.set_plain("slc_cache.when_full", "\"direct\"");
    let into = sheet.seq_write.map_or_else(|| given.sustained.to_string(), |rate| rate.to_string());
    let into = facts.fitted("seq-write", &format!("{into} into the pseudo-SLC cache"));
    entry.set("slc_cache.program", Value::Nanos(slc.program.0 as f64), into);
    let quicker = "estimated: a cell of one bit is sensed somewhat quicker than the fastest page of more";
    let quicker = (quicker.to_owned(), Some(Spread::LAYOUT));
    entry.set("slc_cache.read", Value::Nanos(slc.read.0 as f64), quicker);
    let idle = "estimated: the cache is emptied while the host is quiet; no figure is published";
    entry.set("idle.after", Value::Nanos(1e9), (idle.to_owned(), Some(Spread::LAYOUT)));
    entry.set_plain("idle.folds", "true");
}
