//! Tables of performance counters in Microsoft's form: Windows' performance monitor (`relog`, `typeperf`) and that of `esxtop -b`.
//!
//! ```text
//! "(PDH-CSV 4.0) (UTC)(0)","\\host\PhysicalDisk(0 C:)\Disk Reads/sec",...
//! "11/28/2026 20:58:45.123","132.0",...
//! ```
//! Quirks: typeperf says at the end that it ends. `% Disk Time` is that of all requests, several at once, capped at 100: a disk is busy while
//! it is not idle, and `% Disk Time` stands in for that only where `% Idle Time` is not told. It is no queue. A cell without a value is a
//! blank. `_Total` is the sum of the others, and is left out where they are told; so are esxtop's adapters and virtual disks where it tells of
//! devices, because they are the same requests once more. Windows' megabytes are bytes, those of esxtop 2^20. The order of the columns decides
//! nothing.

use super::Located;
use super::iostat::no_number;
use crate::cells::{cells, number, shown};
use crate::clock::{DateOrder, seconds_in};
use crate::error::HistoryProblem;
use crate::reading::{Figure, Reading, Readings, RowTimes};
use std::collections::{BTreeMap, BTreeSet};

/// What a counter says, and what its unit is worth.
type Meaning = fn(&str) -> Option<(Counter, f64)>;

/// What a counter says of a device: a figure, or what helps to one that is not told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Counter {
    Is(Figure),
    /// Mean lengths, in bytes.
    ReadLength,
    WriteLength,
    RequestLength,
    /// Parts of the queue.
    ReadQueue,
    WriteQueue,
    /// `% Disk Time`.
    DiskTimePct,
}

/// What the counters of a row say of a device, whatever their order.
fn reading_of(counters: &BTreeMap<Counter, f64>) -> Reading {
    let get = |counter: Counter| counters.get(&counter).copied();
    let mut reading = Reading::default();
    for (counter, value) in counters {
        if let Counter::Is(figure) = counter {
            reading.set(*figure, *value);
        }
    }
    let mut rest = |figure: Figure, value: Option<f64>| {
        if let Some(value) = value {
            reading.set(figure, value);
        }
    };
    let moved = |length: Counter, rate: Figure| Some(get(length)? * get(Counter::Is(rate))?);
    rest(Figure::ReadBytes, moved(Counter::ReadLength, Figure::Reads));
    rest(Figure::WriteBytes, moved(Counter::WriteLength, Figure::Writes));
    rest(Figure::MovedBytes, moved(Counter::RequestLength, Figure::Requests));
    rest(
        Figure::InFlight,
        get(Counter::ReadQueue).zip(get(Counter::WriteQueue)).map(|(reads, writes)| reads + writes),
    );
    rest(Figure::BusyPct, get(Counter::DiskTimePct).map(|pct| pct.min(100.0)));
    reading
}

fn of_windows(counter: &str) -> Option<(Counter, f64)> {
    let figure = match counter {
        "Avg. Disk Bytes/Read" => return Some((Counter::ReadLength, 1.0)),
        "Avg. Disk Bytes/Write" => return Some((Counter::WriteLength, 1.0)),
        "Avg. Disk Bytes/Transfer" => return Some((Counter::RequestLength, 1.0)),
        "Avg. Disk Read Queue Length" => return Some((Counter::ReadQueue, 1.0)),
        "Avg. Disk Write Queue Length" => return Some((Counter::WriteQueue, 1.0)),
        "% Disk Time" => return Some((Counter::DiskTimePct, 1.0)),
        "Disk Reads/sec" => (Figure::Reads, 1.0),
        "Disk Writes/sec" => (Figure::Writes, 1.0),
        "Disk Transfers/sec" => (Figure::Requests, 1.0),
        "Disk Read Bytes/sec" => (Figure::ReadBytes, 1.0),
        "Disk Write Bytes/sec" => (Figure::WriteBytes, 1.0),
        "Disk Bytes/sec" => (Figure::MovedBytes, 1.0),
        "Avg. Disk Queue Length" => (Figure::InFlight, 1.0),
        "% Idle Time" => (Figure::IdlePct, 1.0),
        "Avg. Disk sec/Read" => (Figure::ReadMs, 1000.0),
        "Avg. Disk sec/Write" => (Figure::WriteMs, 1000.0),
        "Avg. Disk sec/Transfer" => (Figure::RequestMs, 1000.0),
        _ => return None,
    };
    Some((Counter::Is(figure.0), figure.1))
}

/// The objects of disks by their names in English, German, French and Spanish.
const PHYSICAL: [&str; 4] = ["PhysicalDisk", "Physikalischer Datenträger", "Disque physique", "Disco físico"];
const LOGICAL: [&str; 4] = ["LogicalDisk", "Logischer Datenträger", "Disque logique", "Disco lógico"];

/// The usual counters as Windows names them in other languages, by the English name. Versions of Windows differ in some.
const LOCAL: [(&str, &[&str]); 10] = [
    ("Disk Reads/sec", &["Lesevorgänge/s", "Lectures disque/s", "Lecturas de disco/s"]),
    (
        "Disk Writes/sec",
        &["Schreibvorgänge/s", "Écritures disque/s", "Escrituras en disco/s", "Escrituras de disco/s"],
    ),
    ("Disk Transfers/sec", &["Übertragungen/s", "Transferts disque/s", "Transferencias de disco/s"]),
    (
        "Disk Read Bytes/sec",
        &[
            "Bytes gelesen/s",
            "Byte gelesen/s",
            "Lectures disque, octets/s",
            "Octets lus sur le disque/s",
            "Bytes de lectura de disco/s",
            "Bytes leídos de disco/s",
        ],
    ),
    (
        "Disk Write Bytes/sec",
        &[
            "Bytes geschrieben/s",
            "Byte geschrieben/s",
            "Écritures disque, octets/s",
            "Octets écrits sur le disque/s",
            "Bytes de escritura en disco/s",
            "Bytes de escritura de disco/s",
            "Bytes escritos en disco/s",
        ],
    ),
    (
        "Avg. Disk Queue Length",
        &[
            "Durchschnittl. Warteschlangenlänge des Datenträgers",
            "Durchschn. Warteschlangenlänge des Datenträgers",
            "Longueur moyenne de file d'attente du disque",
            "Long. moy. de file d'attente du disque",
            "Longitud promedio de la cola de disco",
            "Promedio de longitud de la cola de disco",
            "Long. media de la cola de disco",
        ],
    ),
    (
        "% Disk Time",
        &[
            "Zeit (%)",
            "% temps disque",
            "Pourcentage du temps disque",
            "% de tiempo de disco",
            "% tiempo de disco",
        ],
    ),
    (
        "% Idle Time",
        &[
            "Leerlaufzeit (%)",
            "% d'inactivité",
            "Pourcentage d'inactivité",
            "% temps inactif",
            "% de tiempo inactivo",
            "% tiempo inactivo",
        ],
    ),
    (
        "Avg. Disk sec/Read",
        &[
            "Mittlere Sek./Lesevorgänge",
            "Mittlere Sek./Lesevorgang",
            "Moyenne disque s/lecture",
            "Moy. disque s/lecture",
            "Promedio de segundos de disco/lectura",
            "Media en segundos/lectura",
        ],
    ),
    (
        "Avg. Disk sec/Write",
        &[
            "Mittlere Sek./Schreibvorgänge",
            "Mittlere Sek./Schreibvorgang",
            "Moyenne disque s/écriture",
            "Moy. disque s/écriture",
            "Promedio de segundos de disco/escritura",
            "Media en segundos/escritura",
        ],
    ),
];

/// The plain characters of a name: files are written in code pages of their own, in which letters with accents may not be read.
fn plain(name: &str) -> String {
    let kept = name.chars().filter(|c| c.is_ascii_alphanumeric() || "/%".contains(*c));
    kept.map(|c| c.to_ascii_lowercase()).collect()
}

fn of_windows_in_any_language(counter: &str) -> Option<(Counter, f64)> {
    let english = || {
        let counter = plain(counter);
        LOCAL.iter().find(|(_, names)| names.iter().any(|name| plain(name) == counter))
    };
    of_windows(counter).or_else(|| of_windows(english()?.0))
}

fn of_esx(counter: &str) -> Option<(Counter, f64)> {
    let figure = match counter {
        "Reads/sec" => (Figure::Reads, 1.0),
        "Writes/sec" => (Figure::Writes, 1.0),
        "Commands/sec" => (Figure::Requests, 1.0),
        "MBytes Read/sec" => (Figure::ReadBytes, 1_048_576.0),
        "MBytes Written/sec" => (Figure::WriteBytes, 1_048_576.0),
        "Active Commands" => (Figure::InFlight, 1.0),
        "Average Guest MilliSec/Read" | "Average MilliSec/Read" => (Figure::ReadMs, 1.0),
        "Average Guest MilliSec/Write" | "Average MilliSec/Write" => (Figure::WriteMs, 1.0),
        "Average Guest MilliSec/Command" | "Average MilliSec/Command" => (Figure::RequestMs, 1.0),
        _ => return None,
    };
    Some((Counter::Is(figure.0), figure.1))
}

/// Host, object, instance and counter of `\\host\object(instance)\counter`.
fn path(name: &str) -> Option<(&str, &str, &str, &str)> {
    let (host, rest) = name.strip_prefix("\\\\")?.split_once('\\')?;
    let (object, counter) = rest.rsplit_once('\\')?;
    let (object, instance) = object.split_once('(')?;
    Some((host, object, instance.strip_suffix(')')?, counter))
}

pub(super) fn perfmon(text: &str, order: DateOrder) -> Result<Readings, Located> {
    let head = plain(text.trim_start().lines().next().unwrap_or(""));
    let has_physical = PHYSICAL.iter().any(|object| head.contains(&plain(object)));
    table(text, order, if has_physical { &PHYSICAL } else { &LOGICAL }, of_windows_in_any_language)
}

pub(super) fn esxtop(text: &str, order: DateOrder) -> Result<Readings, Located> {
    let head = text.trim_start().lines().next().unwrap_or("");
    let kinds = ["Physical Disk SCSI Device", "Physical Disk", "Physical Disk Adapter", "Virtual Disk"];
    let kind = kinds.into_iter().find(|kind| head.contains(&format!("\\{kind}(")));
    table(text, order, kind.as_slice(), of_esx)
}

/// What stands between the cells of a table with this head.
fn separator(head: &str) -> char {
    if head.contains("\"\t\"") {
        '\t'
    } else if head.matches("\",\"").count() >= head.matches("\";\"").count() {
        ','
    } else {
        ';'
    }
}

fn table(text: &str, order: DateOrder, objects: &[&str], meaning: Meaning) -> Result<Readings, Located> {
    let mut lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let (_, head) = lines.next().ok_or((None, HistoryProblem::Missing("head")))?;
    let by = separator(head);
    let is_quoted = head.starts_with('"');
    let head = cells(head, by);
    let is_object = |object: &str| objects.iter().any(|it| plain(it) == plain(object));
    // Hosts of which single disks are told.
    let hosts: BTreeSet<&str> = head
        .iter()
        .filter_map(|name| path(name))
        .filter(|(_, object, instance, counter)| {
            *instance != "_Total" && is_object(object) && meaning(counter).is_some()
        })
        .map(|(host, ..)| host)
        .collect();
    let columns: Vec<Option<(&str, &str, Counter, f64)>> = head
        .iter()
        .map(|name| {
            let (host, object, instance, counter) = path(name)?;
            let is_wanted = is_object(object) && (instance != "_Total" || !hosts.contains(host));
            let (counter, unit) = meaning(counter).filter(|_| is_wanted)?;
            Some((host, instance, counter, unit))
        })
        .collect();
    let of_disks = || head.iter().filter_map(|name| path(name)).filter(|it| is_object(it.1));
    if let (true, Some((.., unknown))) = (columns.iter().all(Option::is_none), of_disks().next()) {
        return Err((Some(1), HistoryProblem::UnknownCounter(shown(unknown))));
    }
    let (mut readings, mut times) = (Readings::default(), RowTimes::default());
    if columns.iter().flatten().any(|it| it.1 == "_Total") {
        readings.note("_Total is the sum of all disks of its host: single ones are not told");
    }
    for (index, line) in lines {
        // What typeperf says at its end.
        if is_quoted && !line.starts_with('"') && !line.contains(|c: char| c.is_ascii_digit()) {
            continue;
        }
        let line_number = Some(index as u64 + 1);
        let row = cells(line, by);
        // esxtop ends its lines with a separator.
        let is_as_long = row.len() == head.len()
            || (row.len() == head.len() + 1 && row.last().is_some_and(String::is_empty));
        if !is_as_long {
            return Err((line_number, HistoryProblem::Cells { found: row.len(), expected: head.len() }));
        }
        let at_s =
            seconds_in(&row[0], order).ok_or_else(|| (line_number, HistoryProblem::Time(shown(&row[0]))))?;
        times.at(at_s);
        let mut devices: BTreeMap<(&str, &str), BTreeMap<Counter, f64>> = BTreeMap::new();
        for (column, cell) in columns.iter().zip(&row) {
            let Some((host, instance, counter, unit)) = column else { continue };
            if cell.trim().is_empty() {
                continue;
            }
            let value = number(cell).ok_or_else(|| no_number(line_number, instance, cell))?;
            devices.entry((host, instance)).or_default().entry(*counter).or_insert(value * unit);
        }
        for ((host, device), counters) in devices {
            let interval_s = times.covered_s();
            readings.push(host, device, Reading { at_s: Some(at_s), interval_s, ..reading_of(&counters) });
        }
    }
    Ok(readings)
}
