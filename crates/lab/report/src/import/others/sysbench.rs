//! What `sysbench fileio run` prints, versions 0.5 to 1.1.

use super::super::ForeignError;
use super::{Direction, Test, bytes_of, number_in};

pub(super) fn tests(text: &str) -> Result<Vec<Test>, ForeignError> {
    let of = |name: &str| text.lines().find_map(|line| line.trim().strip_prefix(name).and_then(number_in));
    let missing = |what: &str| ForeignError::Malformed(format!("it does not say '{what}': it is not whole"));
    let told = |name: &'static str| of(name).ok_or_else(|| missing(name));
    let mib = f64::from(1 << 20);
    let direction = |iops: f64, rate: Option<f64>| Direction {
        iops,
        bytes_per_sec: rate.unwrap_or(0.0) * mib,
        ..Direction::default()
    };
    let block = text.lines().find_map(|line| line.trim().strip_prefix("Block size ")).and_then(bytes_of);
    let mode = text.lines().find_map(|line| line.trim().strip_prefix("Doing ")?.strip_suffix(" test"));
    let version = text.lines().find_map(|line| line.strip_prefix("sysbench ")).unwrap_or("");
    // Latency counts flushes, too.
    let mean = of("avg:");
    let test = Test {
        name: mode.unwrap_or("fileio").to_owned(),
        version: version.split([' ', ':']).next().unwrap_or("").to_owned(),
        seconds: of("total time:").or_else(|| of("time elapsed:")),
        iodepth: of("Number of threads:").map(|threads| threads as u32),
        block_bytes: block,
        random_pct: mode.map(|mode| if mode.contains("random") { 100 } else { 0 }),
        read: direction(told("reads/s:")?, of("read, MiB/s:")),
        write: direction(told("writes/s:")?, of("written, MiB/s:")),
        all: Direction { mean_ms: mean, max_ms: of("max:"), ..Direction::default() },
        ..Test::default()
    };
    Ok(vec![test])
}
