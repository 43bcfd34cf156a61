//! Sizes of a fio job: `bs`, `bssplit` and `bsrange` as lines.

use super::job::Reader;
use super::values::{percent, size};
use raidlab_workload::AccessLine;

/// The length of a request that no key gives.
const BYTES_DEFAULT: u32 = 4096;

/// The sizes of one direction with their shares in percent, and what offsets are multiples of.
pub(super) struct Sizes {
    shares: Vec<(u32, u8)>,
    align: u32,
}

impl Sizes {
    /// The shortest.
    pub(super) fn least(&self) -> u64 {
        self.shares.iter().map(|(bytes, _)| u64::from(*bytes)).min().unwrap_or_else(|| BYTES_DEFAULT.into())
    }
}

/// What stands for a direction in a list by commas, for reads, writes and trims. The last one stands for those after it too, and an
/// empty one for fio's default.
fn of_direction(text: &str, direction: usize) -> &str {
    let own = text.split(',').nth(direction).or(text.rsplit(',').next()).unwrap_or("");
    if own.trim().is_empty() { "" } else { own }
}

/// What `read` makes of the value of `key` for a direction; none where fio's default is left to it.
pub(super) fn directed<T>(
    reader: &mut Reader<'_>,
    key: &str,
    direction: usize,
    read: impl Fn(&str) -> Result<T, String>,
) -> Option<T> {
    let each = |text: &str| match (text.split(',').count(), of_direction(text, direction)) {
        (4.., _) => {
            Err(format!("'{text}' has more than three values: reads, writes and trims have one each"))
        }
        (_, "") => Ok(None),
        (_, own) => read(own).map(Some),
    };
    reader.value(key, each).flatten()
}

/// The sizes of requests: reads are direction 0, writes 1, trims 2.
pub(super) fn sizes(reader: &mut Reader<'_>, direction: usize, base: u64) -> Sizes {
    let length = |text: &str| {
        let bytes = size(text, base)?;
        u32::try_from(bytes)
            .ok()
            .filter(|bytes| *bytes > 0)
            .ok_or_else(|| format!("'{text}' is no length of a request"))
    };
    let shares = directed(reader, "bssplit", direction, |text| split(text, length))
        .or_else(|| directed(reader, "bsrange", direction, |text| range(text, length)))
        .or_else(|| directed(reader, "bs", direction, |text| Ok(vec![(length(text)?, 100)])))
        .unwrap_or_else(|| vec![(BYTES_DEFAULT, 100)]);
    let least = shares.iter().map(|(bytes, _)| *bytes).min().unwrap_or(BYTES_DEFAULT);
    let align = directed(reader, "ba", direction, length);
    Sizes { shares, align: align.unwrap_or(least) }
}

/// Reads `4k/10:64k/50:32k/40`; sizes without a share take what is left, evenly.
fn split(text: &str, length: impl Fn(&str) -> Result<u32, String>) -> Result<Vec<(u32, u8)>, String> {
    let mut shares: Vec<(u32, Option<u8>)> = Vec::new();
    for part in text.split(':') {
        let (bytes, share) = part.split_once('/').unwrap_or((part, ""));
        let share = share.trim();
        let share = if share.is_empty() { None } else { Some(percent(share)?) };
        shares.push((length(bytes)?, share));
    }
    let least = shares.iter().map(|(bytes, _)| *bytes).min().unwrap_or(1);
    if let Some((bytes, _)) = shares.iter().find(|(bytes, _)| !bytes.is_multiple_of(least)) {
        return Err(format!(
            "fio makes requests of {} bytes out of those of {bytes}, a multiple of the shortest: write that",
            bytes / least * least
        ));
    }
    let given: u32 = shares.iter().filter_map(|(_, share)| *share).map(u32::from).sum();
    let blanks = shares.iter().filter(|(_, share)| share.is_none()).count() as u32;
    let rest = 100u32.checked_sub(given).ok_or("the shares add up to more than 100 percent: mend them")?;
    if blanks == 0 && rest > 0 {
        return Err(format!("the shares add up to {given} percent: make them 100"));
    }
    let mut even = (0..blanks).map(|index| (rest / blanks + u32::from(index < rest % blanks)) as u8);
    Ok(shares.iter().map(|(bytes, share)| (*bytes, share.or_else(|| even.next()).unwrap_or(0))).collect())
}

/// Reads `1k-4k`: every multiple of the shortest, evenly, and the longest (`get_next_buflen`).
fn range(text: &str, length: impl Fn(&str) -> Result<u32, String>) -> Result<Vec<(u32, u8)>, String> {
    let (first, last) = text.split_once('-').ok_or_else(|| format!("'{text}' is no range: write 1k-4k"))?;
    let (one, other) = (length(first)?, length(last)?);
    // fio turns them round, too.
    let (least, most) = (one.min(other), one.max(other));
    let count = most / least;
    if count > 100 {
        return Err(format!("'{text}' has {count} sizes: 100 can be told apart, use bssplit"));
    }
    // What comes out above the longest is cut to it.
    let ends = (1..=count).map(|index| index * least).chain([most]).filter(|end| *end <= most);
    let percent = |end: u32| (u64::from(end) * 100).div_ceil(most.into()) as u8;
    let mut before = 0;
    let share = |end: u32| (end, percent(end) - std::mem::replace(&mut before, percent(end)));
    let mut shares: Vec<(u32, u8)> = ends.map(share).collect();
    shares.dedup_by_key(|(bytes, _)| *bytes);
    Ok(shares)
}

/// The lines of reads and those of writes, each of them all of its direction.
pub(super) fn by_direction(sizes: &[Sizes; 2], random: [u8; 2]) -> [Vec<AccessLine>; 2] {
    let all = |direction: usize, read_pct| lines_of(&sizes[direction], read_pct, random);
    [all(0, 100), all(1, 0)]
}

fn lines_of(sizes: &Sizes, read_pct: u8, random: [u8; 2]) -> Vec<AccessLine> {
    let line = |(bytes, share_pct): &(u32, u8)| AccessLine {
        share_pct: *share_pct,
        align_bytes: (sizes.align != *bytes).then_some(sizes.align),
        ..AccessLine::plain(*bytes, read_pct, random[usize::from(read_pct == 0)])
    };
    sizes.shares.iter().map(line).collect()
}

/// A line for each size; for each direction, too, where both have sizes of their own.
pub(super) fn lines(sizes: &[Sizes; 2], read_pct: u8, random: [u8; 2]) -> Vec<AccessLine> {
    let [read, write] = sizes;
    let all = |sizes: &Sizes, read_pct| lines_of(sizes, read_pct, random);
    let same = read.shares == write.shares && read.align == write.align && random[0] == random[1];
    match read_pct {
        100 => all(read, 100),
        0 => all(write, 0),
        _ if same => all(read, read_pct),
        _ => both_directions(all(read, 100), all(write, 0), read_pct),
    }
}

/// The lines of reads and of writes with the shares of both, in whole percents that add up.
fn both_directions(reads: Vec<AccessLine>, writes: Vec<AccessLine>, read_pct: u8) -> Vec<AccessLine> {
    let mut lines = Vec::new();
    for (each, total) in [(reads, u32::from(read_pct)), (writes, u32::from(100 - read_pct))] {
        let (mut before, mut given) = (0, 0);
        for line in each {
            before += u32::from(line.share_pct);
            let share = before * total / 100 - given;
            given += share;
            lines.push(AccessLine { share_pct: share as u8, ..line });
        }
    }
    lines
}
