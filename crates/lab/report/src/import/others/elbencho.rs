//! elbencho's CSV (`--csvfile`): a line for each phase. Figures are those when the last worker ended. Phases that read and write have
//! columns `rwmix read ...` beside the others, which are of their writes then.

use super::super::ForeignError;
use super::{Direction, Test, bytes_of, figure, rate, stamp};

pub(super) fn tests(text: &str) -> Result<Vec<Test>, ForeignError> {
    // The command at the end may have commas of its own.
    let mut reader = csv::ReaderBuilder::new()
        .has_headers(false)
        .flexible(true)
        .trim(csv::Trim::All)
        .from_reader(text.trim_start_matches('\u{feff}').as_bytes());
    let mut head = csv::StringRecord::new();
    let mut tests = Vec::new();
    for cells in reader.records() {
        let cells = cells.map_err(|error| ForeignError::Malformed(error.to_string()))?;
        // Files put together repeat the head, or have another.
        if head.is_empty() || cells.get(0) == head.get(0) {
            head = cells;
            continue;
        }
        let line = cells.position().map_or(0, |it| it.line() as usize);
        if cells.len() < head.len() {
            let problem = format!("line {line} has {} cells where the head has {}", cells.len(), head.len());
            return Err(ForeignError::Malformed(problem));
        }
        let place = |name: &str| head.iter().position(|column| column.eq_ignore_ascii_case(name));
        let cell = |name: &str| place(name).and_then(|place| cells.get(place)).filter(|it| !it.is_empty());
        let number = |name: &str| figure(cell(name)?);
        let operation = cell("operation").unwrap_or("").to_owned();
        // Of mixes, the columns without a word before them are of the writes.
        let direction = |before: &str| -> Result<Direction, ForeignError> {
            let (iops, moved) = (format!("{before}IOPS [last]"), format!("{before}MiB/s [last]"));
            let us = |end: &str| number(&format!("{before}IO lat us [{end}]")).map(|us| us / 1e3);
            Ok(Direction {
                iops: cell(&iops).map_or(Ok(0.0), |text| rate(text, &iops, line))?,
                bytes_per_sec: cell(&moved).map_or(Ok(0.0), |text| rate(text, &moved, line))?
                    * f64::from(1 << 20),
                mean_ms: us("avg"),
                min_ms: us("min"),
                max_ms: us("max"),
                ..Direction::default()
            })
        };
        let is_set = |name: &str| cell(name).is_some_and(|it| it == "1" || it.eq_ignore_ascii_case("true"));
        let each = number("IO depth").unwrap_or(1.0).max(1.0);
        let hosts = number("hosts").unwrap_or(1.0).max(1.0);
        let mut test = Test {
            name: cell("label").map_or_else(|| operation.clone(), |label| format!("{label} {operation}")),
            seconds: number("time ms [last]").map(|ms| ms / 1e3),
            iodepth: number("threads").map(|threads| (threads * each * hosts) as u32),
            block_bytes: cell("block size").and_then(bytes_of),
            random_pct: Some(if is_set("random") { 100 } else { 0 }),
            start: cell("ISO date").and_then(stamp),
            ..Test::default()
        };
        let operation = operation.to_ascii_lowercase();
        match operation.as_str() {
            "read" => test.read = direction("")?,
            "write" => test.write = direction("")?,
            // RWMIX70 and MIX-T2: shares of requests, threads that read.
            _ if operation.starts_with("rwmix") || operation.starts_with("mix-") => {
                (test.read, test.write) = (direction("rwmix read ")?, direction("")?);
            }
            // Folders made, files deleted: no requests of a size, and left out for that.
            _ => {}
        }
        tests.push(test);
    }
    Ok(tests)
}
