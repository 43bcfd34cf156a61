//! A workload as a picture of text: sizes of requests, rates, and requests in flight over time.
//!
//! ```text
//!   MB/s, at most 3200                        # read  + written
//!     |##  ##  ##
//!     |##  ##  ##  +
//!     +-------------
//!      0          10 s
//! ```

use super::{TerminalOptions, heading};
use crate::document::{Block, Table, render};
use crate::figures::three_digits;
use raidlab_units::{ByteCount, NanoSpan};
use raidlab_workload::{Portrait, PortraitColumn, PortraitSize, Rhythm};

/// Rows of a chart, and columns of a bar.
const ROWS: usize = 5;
const BAR_COLUMNS: f64 = 24.0;
/// Lengths of requests that are told apart at most; others are gathered by powers of two.
const SIZES_MAX: usize = 12;
/// Columns of the chart of a rate by time.
const RHYTHM_COLUMNS: usize = 48;

/// Draws what was seen of a workload, in 80 columns.
pub fn portrait(seen: &Portrait, options: TerminalOptions) -> String {
    let secs = seen.watched_ns as f64 / 1e9;
    let head = format!("What it does in its first {}", time(seen.watched_ns));
    let about = format!(
        "  against a target that answers after {} and {} ns for each byte;\n  {} in flight where it has no number of its own\n",
        NanoSpan(seen.latency_ns),
        seen.ns_per_byte,
        seen.iodepth
    );
    let mut text =
        format!("\n{}\n{about}\n{}\n{}", heading(&head, options), parts(seen, options), sizes(seen, options));
    let columns = &seen.over_time;
    let each = secs / columns.len().max(1) as f64;
    let mb = |bytes: u64| bytes as f64 / 1e6 / each;
    let bytes: Vec<[f64; 2]> = columns.iter().map(|it| [mb(it.read_bytes), mb(it.written_bytes)]).collect();
    let requests: Vec<[f64; 2]> = columns.iter().map(|it| [it.requests as f64 / each, 0.0]).collect();
    let depth: Vec<[f64; 2]> = columns.iter().map(|it: &PortraitColumn| [it.in_flight_mean, 0.0]).collect();
    let ends = ("0".to_owned(), time(seen.watched_ns));
    text += &chart("MB/s", "# read, + written", &bytes, &ends);
    text += &chart("requests/s", "", &requests, &ends);
    text + &chart("requests in flight", "", &depth, &ends)
}

/// Draws a rate by the hour, or by other steps; nothing for one without.
pub fn rhythm(rhythm: &Rhythm, mean: f64, _: TerminalOptions) -> String {
    let (Some(own), period) = (rhythm.mean(), rhythm.period().get()) else { return String::new() };
    let mut rates = Vec::new();
    let (mut step, mut ends_at) = (0, 0u64);
    for column in 0..RHYTHM_COLUMNS as u64 {
        let at = (u128::from(period) * u128::from(2 * column + 1) / (2 * RHYTHM_COLUMNS as u128)) as u64;
        while ends_at <= at && step < rhythm.steps.len() {
            ends_at = ends_at.saturating_add(rhythm.steps[step].0.get());
            step += 1;
        }
        rates.push([rhythm.steps[step.max(1) - 1].1 / own * mean, 0.0]);
    }
    chart("requests/s by its rhythm", "", &rates, &("0".to_owned(), time(period)))
}

/// A time; long ones in hours.
fn time(ns: u64) -> String {
    const HOUR: f64 = 3600e9;
    let hours = ns as f64 / HOUR;
    if hours >= 2.0 { format!("{} h", three_digits(hours)) } else { NanoSpan(ns).to_string() }
}

fn parts(seen: &Portrait, options: TerminalOptions) -> String {
    let secs = seen.watched_ns as f64 / 1e9;
    let rate = |count: u64| if count == 0 { "-".to_owned() } else { three_digits(count as f64 / secs) };
    let header = ["part", "reads/s", "MB/s", "writes/s", "MB/s", "flushes/s"];
    let row = |part: &raidlab_workload::PortraitPart| {
        let mb =
            |bytes: u64| if bytes == 0 { "-".to_owned() } else { three_digits(bytes as f64 / 1e6 / secs) };
        vec![
            super::printable(&part.name),
            rate(part.reads),
            mb(part.read_bytes),
            rate(part.writes),
            mb(part.written_bytes),
            rate(part.others),
        ]
    };
    render([Block::table(Table::plain("", &header, 1).section(seen.parts.iter().map(row)))], options)
}

/// A row for each length, or for each power of two where there are many.
fn sizes(seen: &Portrait, options: TerminalOptions) -> String {
    let mut sizes: Vec<(String, PortraitSize)> = Vec::new();
    let is_many = seen.sizes.len() > SIZES_MAX;
    for size in &seen.sizes {
        let upper = size.size_bytes.checked_next_power_of_two().unwrap_or(u32::MAX);
        let name = if is_many {
            format!("up to {}", ByteCount(u64::from(upper)))
        } else {
            ByteCount(u64::from(size.size_bytes)).to_string()
        };
        match sizes.last_mut() {
            Some((last, sum)) if *last == name => {
                (sum.reads, sum.writes) = (sum.reads + size.reads, sum.writes + size.writes);
            }
            _ => sizes.push((name, *size)),
        }
    }
    let all = sizes.iter().map(|(_, size)| size.reads + size.writes).sum::<u64>().max(1) as f64;
    let header = ["request size", "reads %", "writes %", "of all requests"];
    let row = |(name, size): &(String, PortraitSize)| {
        let pct = |count: u64| {
            if count == 0 { "-".to_owned() } else { format!("{:.1}", 100.0 * count as f64 / all) }
        };
        let columns = |count: u64| (count as f64 / all * BAR_COLUMNS).round() as usize;
        let bar = "#".repeat(columns(size.reads)) + &"+".repeat(columns(size.writes));
        vec![name.clone(), pct(size.reads), pct(size.writes), format!("{bar:<24}")]
    };
    render([Block::table(Table::plain("", &header, 1).section(sizes.iter().map(row)))], options)
}

/// Bars upright, one for each value, the second of a pair on the first.
fn chart(name: &str, key: &str, values: &[[f64; 2]], (first, last): &(String, String)) -> String {
    let most = values.iter().map(|[low, high]| low + high).fold(0.0, f64::max);
    if most <= 0.0 {
        return String::new();
    }
    let head = format!("  {name}, at most {}", three_digits(most));
    let line = format!("{head}{key:>width$}", width = 66usize.saturating_sub(head.chars().count()));
    let mut text = format!("\n{}\n", line.trim_end());
    for row in (0..ROWS).rev() {
        // What is there at all is seen in the lowest row.
        let fills = |value: f64| value / most * ROWS as f64 >= row as f64 + 0.5 || (row == 0 && value > 0.0);
        let mark = |[low, high]: &[f64; 2]| match (fills(*low), fills(low + high)) {
            (true, _) => '#',
            (false, true) => '+',
            (false, false) => ' ',
        };
        let line: String = values.iter().map(mark).collect();
        text += &format!("    |{}\n", line.trim_end());
    }
    let width = values.len();
    let ends = format!("{first}{last:>room$}", room = width.saturating_sub(first.len()));
    text + &format!("    +{}\n     {ends}\n", "-".repeat(width))
}
