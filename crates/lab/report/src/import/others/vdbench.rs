//! vdbench's `flatfile.html`: a table of columns by name, whose rows `avg_...` are the runs.

use super::super::ForeignError;
use super::{Direction, Test, figure, rate, unix_ms};

pub(super) fn tests(text: &str) -> Result<Vec<Test>, ForeignError> {
    let mut tests = Vec::new();
    let mut head: Vec<&str> = Vec::new();
    // The time of the run's first interval.
    let mut began: Option<(&str, Option<u64>)> = None;
    for (index, line) in text.lines().enumerate() {
        let cells: Vec<&str> = line.split_ascii_whitespace().collect();
        if cells.contains(&"reqrate") && cells.contains(&"Interval") {
            head = cells;
            continue;
        }
        let cell = |name: &str| head.iter().position(|it| *it == name).and_then(|at| cells.get(at)).copied();
        let name = cell("Run").unwrap_or("vdbench");
        if began.is_none_or(|(of, _)| of != name) {
            began = Some((name, cell("timestamp").and_then(unix_ms)));
        }
        // `avg_2-61` is of 60 intervals, whose length is in no column.
        if !cell("Interval").is_some_and(|it| it.starts_with("avg_")) {
            continue;
        }
        if cells.len() < head.len() {
            let problem =
                format!("line {} has {} cells where the head has {}", index + 1, cells.len(), head.len());
            return Err(ForeignError::Malformed(problem));
        }
        let number = |name: &str| figure(cell(name)?);
        let told = |name: &str| cell(name).map_or(Ok(0.0), |text| rate(text, name, index + 1));
        let (rate, mb_per_s) = (told("rate")?, told("MB/sec")?);
        let share = number("read%").or_else(|| number("rdpct")).unwrap_or(0.0).clamp(0.0, 100.0) / 100.0;
        let direction = |share: f64, mean: &str, most: &str| Direction {
            iops: rate * share,
            bytes_per_sec: mb_per_s * f64::from(1 << 20) * share,
            mean_ms: number(mean).filter(|_| share > 0.0),
            max_ms: number(most).filter(|_| share > 0.0),
            ..Direction::default()
        };
        // 'rand', 'seqnz' and 'seq' stand for a share.
        let random_pct = match cell("seekpct") {
            Some("rand" | "random") => Some(100.0),
            Some("seq" | "sequential" | "seqnz") => Some(0.0),
            _ => number("seekpct"),
        };

        tests.push(Test {
            name: name.to_owned(),
            started_at_unix_ms: began.and_then(|(_, at)| at),
            version: cell("version").filter(|it| *it != "n/a").unwrap_or("").to_owned(),
            iodepth: number("threads").map(|it| it as u32).filter(|it| *it > 0),
            // 'n/a' is of several sizes: their mean is none of them.
            block_bytes: number("xfersize").map(|it| it as u64),
            random_pct: random_pct.map(|it| it.clamp(0.0, 100.0) as u8),
            read: direction(share, "read_resp", "read_max"),
            write: direction(1.0 - share, "write_resp", "write_max"),
            all: Direction { mean_ms: number("resp"), max_ms: number("resp_max"), ..Direction::default() },
            ..Test::default()
        });
    }
    Ok(tests)
}
