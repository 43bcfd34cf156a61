//! elbencho's CSV (`--csvfile`): a line for each phase. Figures are those when the last worker ended.

use super::super::ForeignError;
use super::{Direction, Test, bytes_of};

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
        let number = |name: &str| cell(name)?.parse::<f64>().ok();
        let operation = cell("operation").unwrap_or("").to_owned();
        let direction = Direction {
            iops: number("IOPS [last]").unwrap_or(0.0),
            bytes_per_sec: number("MiB/s [last]").unwrap_or(0.0) * f64::from(1 << 20),
            mean_ms: number("IO lat us [avg]").map(|us| us / 1e3),
            max_ms: number("IO lat us [max]").map(|us| us / 1e3),
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
            ..Test::default()
        };
        match operation.to_ascii_lowercase().as_str() {
            "read" => test.read = direction,
            "write" | "rwmix" => test.write = direction,
            // Folders made, files deleted: no requests of a size.
            _ => continue,
        }
        tests.push(test);
    }
    Ok(tests)
}
