//! elbencho's CSV (`--csvfile`): a line for each phase. Figures are those when the last worker ended. Phases that read and write have
//! columns `rwmix read ...` beside the others, which are of their writes then.

use super::super::ForeignError;
use super::{Direction, Test, bytes_of, figure, rate, stamp};

pub(super) fn tests(text: &str) -> Result<Vec<Test>, ForeignError> {
    let mut lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let head: Vec<&str> =
        lines.next().map_or_else(Vec::new, |(_, line)| line.split(',').map(str::trim).collect());
    let place = |name: &str| head.iter().position(|column| column.eq_ignore_ascii_case(name));
    let mut tests = Vec::new();
    for (index, line) in lines {
        let cells: Vec<&str> = line.split(',').map(|cell| cell.trim().trim_matches('"')).collect();
        // Appended runs may repeat the head; the command at the end may have commas of its own.
        if cells.first() == head.first() {
            continue;
        }
        if cells.len() < head.len() {
            let problem =
                format!("line {} has {} cells where the head has {}", index + 1, cells.len(), head.len());
            return Err(ForeignError::Malformed(problem));
        }
        let cell = |name: &str| place(name).map(|place| cells[place]).filter(|it| !it.is_empty());
        let number = |name: &str| figure(cell(name)?);
        let operation = cell("operation").unwrap_or("").to_owned();
        // Of mixes, the columns without a word before them are of the writes.
        let direction = |before: &str| -> Result<Direction, ForeignError> {
            let (iops, moved) = (format!("{before}IOPS [last]"), format!("{before}MiB/s [last]"));
            let us = |end: &str| number(&format!("{before}IO lat us [{end}]")).map(|us| us / 1e3);
            Ok(Direction {
                iops: cell(&iops).map_or(Ok(0.0), |text| rate(text, &iops, index + 1))?,
                bytes_per_sec: cell(&moved).map_or(Ok(0.0), |text| rate(text, &moved, index + 1))?
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
            // Folders made, files deleted: no requests of a size.
            _ => continue,
        }
        tests.push(test);
    }
    Ok(tests)
}
