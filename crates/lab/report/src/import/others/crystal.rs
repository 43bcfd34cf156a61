//! `CrystalDiskMark`, versions 7 and 8, as "Save (text)" writes it.
//!
//! ```text
//! [Read]
//!   SEQ    1MiB (Q=  8, T= 1):  3562.334 MB/s [   3397.3 IOPS] <  2352.43 us>
//! ```

use super::super::ForeignError;
use super::{Direction, Test, bytes_of, number_in};

pub(super) fn tests(text: &str) -> Result<Vec<Test>, ForeignError> {
    let (mut tests, mut section, mut version) = (Vec::new(), "", String::new());
    for line in text.lines().map(str::trim) {
        if let Some((_, rest)) = line.split_once("CrystalDiskMark ") {
            rest.split_whitespace().next().unwrap_or("").clone_into(&mut version);
        }
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            section = name;
        }
        let is_test = line.starts_with("SEQ") || line.starts_with("RND");
        let Some((head, figures)) = line.split_once("):").filter(|_| is_test) else { continue };
        let after = |mark: &str| head.split_once(mark).and_then(|(_, rest)| number_in(rest));
        let wrong = || ForeignError::Malformed(format!("no figures of a test: '{line:.60}'"));
        let block = head.split_whitespace().nth(1).and_then(bytes_of).ok_or_else(wrong)?;
        let mb_per_s = number_in(figures).ok_or_else(wrong)?;
        let iops = figures.split_once('[').and_then(|(_, rest)| number_in(rest)).ok_or_else(wrong)?;
        let us = figures.split_once('<').and_then(|(_, rest)| number_in(rest));
        let direction =
            Direction { iops, bytes_per_sec: mb_per_s * 1e6, mean_ms: us.map(|us| us / 1e3), max_ms: None };
        let (queue, threads) = (after("Q=").ok_or_else(wrong)?, after("T=").ok_or_else(wrong)?);
        let mut test = Test {
            name: format!("{} {}", head.split(" (").next().unwrap_or(head), section)
                .split_whitespace()
                .collect::<Vec<_>>()
                .join(" "),
            version: version.clone(),
            iodepth: Some((queue * threads) as u32),
            block_bytes: Some(block),
            random_pct: Some(if head.starts_with("RND") { 100 } else { 0 }),
            ..Test::default()
        };
        match section {
            "Read" => test.read = direction,
            "Write" => test.write = direction,
            // The shares of a mix are in no line.
            _ => continue,
        }
        tests.push(test);
    }
    Ok(tests)
}
