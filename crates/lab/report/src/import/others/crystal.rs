//! `CrystalDiskMark` as "Save (text)" writes it, versions 3 to 6 and 7 to 8.
//!
//! ```text
//! [Read]                                                                                    7 and 8
//!   SEQ    1MiB (Q=  8, T= 1):  3562.334 MB/s [   3397.3 IOPS] <  2352.43 us>
//! [Mix] Read 70%/Write 30%
//! Sequential 1MiB (Q=  8, T= 1):  3562.334 MB/s [   3397.3 IOPS] <  2352.43 us>              7.0
//! Random Write 4KiB (Q=  8,T= 8) :  1404.580 MB/s [ 342915.0 IOPS]                          up to 6
//! ```
//! A mix tells its rate alone; its head tells the shares. Sequential requests of version 6 and before have a length that their text does not
//! say: their number stays empty. A file ends with the lines `Date` and `OS`.

use super::super::ForeignError;
use super::{Direction, Test, bytes_of, figure, number_in, stamp};

/// What was asked, of a line of either form.
struct Asked {
    name: String,
    is_random: bool,
    block: Option<u64>,
    /// Reads in percent; none where the section says.
    read_pct: Option<f64>,
}

fn asked(head: &str) -> Option<Asked> {
    let words: Vec<&str> = head.split_whitespace().collect();
    let name = words.join(" ");
    match words[..] {
        [places @ ("Sequential" | "Random"), kind @ ("Read" | "Write"), ..] => Some(Asked {
            is_random: places == "Random",
            block: words.get(2).and_then(|block| bytes_of(block)).filter(|it| *it > 0),
            read_pct: Some(if kind == "Read" { 100.0 } else { 0.0 }),
            name,
        }),
        [places @ ("SEQ" | "RND" | "Sequential" | "Random"), block, ..] => Some(Asked {
            is_random: places == "RND" || places == "Random",
            block: Some(bytes_of(block).filter(|it| *it > 0)?),
            read_pct: None,
            name,
        }),
        _ => None,
    }
}

/// The share of reads that a section's head tells.
fn read_pct(section: &str) -> Option<f64> {
    if section.contains("[Mix]") {
        let (_, reads) = section.split_once("Read")?;
        return number_in(reads.split('%').next()?).filter(|it| *it <= 100.0);
    }
    match section {
        "[Read]" => Some(100.0),
        "[Write]" => Some(0.0),
        _ => None,
    }
}

/// The test of a line with figures, line `number`, below the heading `section`.
fn test_of(line: &str, number: usize, section: &str) -> Result<Test, ForeignError> {
    let wrong = || ForeignError::Malformed(format!("line {number}: no figures of a test: '{line:.60}'"));
    let (head, figures) = line.rsplit_once(": ").ok_or_else(wrong)?;
    let asked = asked(head.split('(').next().unwrap_or(head)).ok_or_else(wrong)?;
    let after = |mark: &str| head.split_once(mark).and_then(|(_, rest)| number_in(rest));
    let read_pct = asked.read_pct.or_else(|| read_pct(section)).ok_or_else(wrong)?;
    let mb_per_s = figures.split_whitespace().next().and_then(figure).ok_or_else(wrong)?;
    let told = figures.split_once('[').map(|(_, rest)| number_in(rest).ok_or_else(wrong)).transpose()?;
    let iops = told.or_else(|| asked.block.map(|block| mb_per_s * 1e6 / block as f64));
    let us = figures.split_once('<').and_then(|(_, rest)| number_in(rest));
    if asked.read_pct.is_none() && told.is_none() {
        return Err(wrong());
    }
    // Without its length there is no number of requests.
    let iops = iops.unwrap_or(0.0);
    let depth = match (after("Q="), after("T=")) {
        (Some(queue), Some(threads)) => Some((queue * threads) as u32),
        _ if asked.read_pct.is_none() => return Err(wrong()),
        // Version 5 and before tell QD only; without it, one at a time.
        _ => after("QD").map(|queue| queue as u32).or(Some(1)),
    };
    let is_mix = read_pct > 0.0 && read_pct < 100.0;
    let mean_ms = us.map(|us| us / 1e3);
    let part = |pct: f64| Direction {
        iops: iops * pct / 100.0,
        bytes_per_sec: mb_per_s * 1e6 * pct / 100.0,
        mean_ms: mean_ms.filter(|_| pct > 0.0 && !is_mix),
        ..Direction::default()
    };
    let kind = section.trim_start_matches('[').split(']').next().unwrap_or("");
    let name = if asked.read_pct.is_some() { asked.name } else { format!("{} {kind}", asked.name) };
    Ok(Test {
        name: name.trim().to_owned(),
        iodepth: depth,
        block_bytes: asked.block,
        random_pct: Some(if asked.is_random { 100 } else { 0 }),
        read: part(read_pct),
        write: part(100.0 - read_pct),
        all: Direction { mean_ms, ..Direction::default() },
        lacks: if is_mix {
            vec!["the rates of reads and writes apart (they are those of the mix's shares)"]
        } else {
            Vec::new()
        },
        ..Test::default()
    })
}

/// Whether a file of it begins with `line`.
fn begins(line: &str) -> bool {
    let version = line.trim_start_matches('\u{feff}').strip_prefix("CrystalDiskMark ");
    version.is_some_and(|version| version.starts_with(|c: char| c.is_ascii_digit()))
}

/// Several files may stand in one, each with its version and date.
pub(super) fn tests(text: &str) -> Result<Vec<Test>, ForeignError> {
    let lines: Vec<(usize, &str)> =
        text.lines().enumerate().map(|(index, line)| (index + 1, line.trim())).collect();
    let mut tests = Vec::new();
    for file in lines.chunk_by(|_, (_, next)| !begins(next)) {
        tests.extend(of_file(file)?);
    }
    Ok(tests)
}

fn of_file(lines: &[(usize, &str)]) -> Result<Vec<Test>, ForeignError> {
    let (mut tests, mut section, mut version) = (Vec::new(), "", "");
    let mut is_whole = false;
    let dated = lines.iter().find_map(|(_, line)| line.strip_prefix("Date")?.trim().strip_prefix(':'));
    let start = dated.and_then(stamp);
    for (number, line) in lines.iter().copied() {
        if let Some((_, rest)) = line.split_once("CrystalDiskMark ") {
            version = rest.split_whitespace().next().unwrap_or("");
        }
        if line.starts_with('[') {
            section = line;
        }
        is_whole |=
            line.split_once(':').is_some_and(|(name, _)| ["Test", "Date", "OS"].contains(&name.trim()));
        // What its head explains of units begins with a star.
        if line.starts_with('*') || !line.contains(" MB/s") {
            continue;
        }
        let test = test_of(line, number, section)?;
        tests.push(Test { version: version.to_owned(), start: start.clone(), ..test });
    }
    if !tests.is_empty() && !is_whole {
        return Err(ForeignError::Malformed(
            "it is not whole: the lines 'Test', 'Date' and 'OS' at its end are not there".into(),
        ));
    }
    Ok(tests)
}
