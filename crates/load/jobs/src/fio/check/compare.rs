//! Two sequences of requests: what differs between them.

use super::{Asked, Bounds, Sequence};
use raidlab_units::{counted, greatest_divisor};
use raidlab_workload::FileOrder;
use std::collections::{BTreeMap, BTreeSet};

/// Standard errors that shares may differ by.
const ERRORS: f64 = 4.0;

/// Points in percent that shares may differ by beside chance: lines have whole percents.
const POINTS: f64 = 1.5;

/// Kolmogorov's and Smirnov's bound for one in a thousand.
const DISTRIBUTION: f64 = 1.95;

/// Requests from which a distribution is compared.
const DISTRIBUTION_OF: usize = 40;

/// What differs, in words; none where nothing does.
pub(super) fn difference(fio: &Sequence, ours: &Sequence, bounds: &Bounds) -> Option<String> {
    let (theirs, own) = (&fio.requests[..], &ours.requests[..]);
    if theirs.is_empty() {
        return Some("fio made no requests".to_owned());
    }
    beyond(theirs, bounds)
        .or_else(|| counts(fio, ours))
        .or_else(|| directions(theirs, own))
        .or_else(|| sizes(theirs, own))
        .or_else(|| match bounds.turns {
            None => places(theirs, own, bounds.is_scattered),
            Some(order) => {
                files(theirs, own, order).or_else(|| by_file(theirs, own, order, bounds.is_scattered))
            }
        })
}

/// Which file each request is of.
fn files(theirs: &[Asked], own: &[Asked], order: FileOrder) -> Option<String> {
    if order == FileOrder::InTurn {
        let (at, (fio, ours)) =
            theirs.iter().zip(own).enumerate().find(|(_, (fio, ours))| fio.file != ours.file)?;
        return Some(format!(
            "request {} of fio is of file {}, and here of file {}",
            at + 1,
            fio.file,
            ours.file
        ));
    }
    let count = |requests: &[Asked], file| requests.iter().filter(|it| it.file == file).count();
    let all: BTreeSet<u64> = theirs.iter().chain(own).map(|it| it.file).collect();
    let of = |file| (count(theirs, file), count(own, file));
    let other = all.into_iter().find(|file| apart((of(*file).0, theirs.len()), (of(*file).1, own.len())))?;
    let (fio, ours) = of(other);
    Some(format!(
        "{fio} of {} requests of fio are of file {other}, and {ours} of {} here",
        theirs.len(),
        own.len()
    ))
}

/// The places in each file. Of files that are drawn fio leaves out those that have ended, so the first half of the requests is compared.
fn by_file(theirs: &[Asked], own: &[Asked], order: FileOrder, is_scattered: bool) -> Option<String> {
    let share = if order == FileOrder::InTurn { 1 } else { 2 };
    let (theirs, own) = (&theirs[..theirs.len() / share], &own[..own.len() / share]);
    let of = |requests: &[Asked], file: u64| -> Vec<Asked> {
        requests.iter().copied().filter(|it| it.file == file).collect()
    };
    let all: BTreeSet<u64> = theirs.iter().map(|it| it.file).collect();
    let is_in_sequence = all.iter().all(|file| is_sequence(&of(own, *file)));
    let differs = |file: u64| {
        let (fio, ours) = (of(theirs, file), of(own, file));
        // A few at random may look as if they were in sequence.
        let is_compared = is_in_sequence || fio.len().min(ours.len()) >= DISTRIBUTION_OF;
        if is_compared { places(&fio, &ours, is_scattered) } else { None }
    };
    let of_all =
        if is_in_sequence { None } else { at_random(theirs, own, is_one_size(theirs, own), is_scattered) };
    of_all.or_else(|| all.into_iter().find_map(|file| Some(format!("file {file}: {}", differs(file)?))))
}

/// A request of fio's that this would never make.
fn beyond(theirs: &[Asked], bounds: &Bounds) -> Option<String> {
    let is_other = |it: &Asked| bounds.all_read.is_some_and(|reads| reads != it.is_read);
    let is_outside = |it: &Asked| it.offset < bounds.space.start || it.offset + it.bytes > bounds.space.end;
    let is_cut = |it: &Asked| {
        bounds.cut.is_some_and(|unit| it.bytes.is_multiple_of(unit))
            && bounds.sizes.last().is_some_and(|most| it.bytes < *most)
    };
    let is_beyond =
        |it: &Asked| is_other(it) || is_outside(it) || !(bounds.sizes.contains(&it.bytes) || is_cut(it));
    let (at, it) = theirs.iter().enumerate().find(|(_, it)| is_beyond(it))?;
    let kind = if it.is_read { "reads" } else { "writes" };
    let (bytes, offset) = (it.bytes, it.offset);
    let what = if is_other(it) {
        format!("and this only {}", if it.is_read { "writes" } else { "reads" })
    } else if is_outside(it) {
        format!("and this stays in bytes {} to {}", bounds.space.start, bounds.space.end)
    } else {
        let sizes: Vec<String> = bounds.sizes.iter().map(u64::to_string).collect();
        format!("and requests here have {} bytes", sizes.join(", "))
    };
    Some(format!("request {} of fio {kind} {bytes} bytes at byte {offset}, {what}", at + 1))
}

fn bytes(requests: &[Asked]) -> u64 {
    requests.iter().map(|it| it.bytes).sum()
}

fn counts(fio: &Sequence, ours: &Sequence) -> Option<String> {
    let (theirs, own) = (&fio.requests, &ours.requests);
    let is_one = |requests: &[Asked]| requests.iter().map(|it| it.bytes).collect::<BTreeSet<_>>().len() < 2;
    let longest = theirs.iter().chain(own).map(|it| it.bytes).max().unwrap_or(0);
    let differs = if is_one(theirs) && is_one(own) {
        theirs.len() != own.len()
    } else {
        theirs.len() != own.len() && bytes(theirs).abs_diff(bytes(own)) > longest
    };
    if differs {
        return Some(format!(
            "fio makes {} of {} bytes, and this {} of {}",
            counted(theirs.len() as u64, "request"),
            bytes(theirs),
            own.len(),
            bytes(own)
        ));
    }
    // The last of them may come behind the last request, or not.
    (fio.flushes.abs_diff(ours.flushes) > 1)
        .then(|| format!("fio makes {}, and this {}", counted(fio.flushes, "flush"), ours.flushes))
}

/// Whether two shares of so many differ by more than chance.
fn apart((one, of_one): (usize, usize), (other, of_other): (usize, usize)) -> bool {
    let (first, second) = (one as f64 / of_one as f64, other as f64 / of_other as f64);
    let both = (one + other) as f64 / (of_one + of_other) as f64;
    let error = (both * (1.0 - both) * (1.0 / of_one as f64 + 1.0 / of_other as f64)).sqrt();
    (first - second).abs() > ERRORS * error + POINTS / 100.0
}

fn directions(theirs: &[Asked], own: &[Asked]) -> Option<String> {
    let reads = |requests: &[Asked]| (requests.iter().filter(|it| it.is_read).count(), requests.len());
    let (fio, ours) = (reads(theirs), reads(own));
    apart(fio, ours).then(|| {
        format!(
            "{} of {} of fio are reads, and {} of {} here",
            fio.0,
            counted(fio.1 as u64, "request"),
            ours.0,
            ours.1
        )
    })
}

fn sizes(theirs: &[Asked], own: &[Asked]) -> Option<String> {
    let by_size = |requests: &[Asked]| {
        let mut all: BTreeMap<(bool, u64), usize> = BTreeMap::new();
        for it in requests {
            *all.entry((it.is_read, it.bytes)).or_default() += 1;
        }
        all
    };
    let (fio, ours) = (by_size(theirs), by_size(own));
    let all: BTreeSet<_> = fio.keys().chain(ours.keys()).copied().collect();
    let count = |of: &BTreeMap<(bool, u64), usize>, key| of.get(key).copied().unwrap_or(0);
    let other =
        all.iter().find(|key| apart((count(&fio, key), theirs.len()), (count(&ours, key), own.len())))?;
    let kind = if other.0 { "reads" } else { "writes" };
    Some(format!(
        "{} of {} requests of fio are {kind} of {} bytes, and {} of {} here",
        count(&fio, other),
        theirs.len(),
        other.1,
        count(&ours, other),
        own.len()
    ))
}

/// Whether each request begins where the one before it ended, or at the start again.
fn is_sequence(requests: &[Asked]) -> bool {
    let start = requests.iter().map(|it| it.offset).min();
    requests
        .windows(2)
        .all(|pair| pair[1].offset == pair[0].offset + pair[0].bytes || Some(pair[1].offset) == start)
}

/// Reads and writes of one job may go on from places of their own.
fn places(theirs: &[Asked], own: &[Asked], is_scattered: bool) -> Option<String> {
    let of = |requests: &[Asked], is_read: bool| -> Vec<Asked> {
        requests.iter().copied().filter(|it| it.is_read == is_read).collect()
    };
    let [reads, writes] = [true, false].map(|is_read| (of(theirs, is_read), of(own, is_read)));
    let is_apart =
        |requests: &[Asked]| [true, false].iter().all(|is_read| is_sequence(&of(requests, *is_read)));
    let is_mixed = !reads.0.is_empty() && !writes.0.is_empty() && !reads.1.is_empty() && !writes.1.is_empty();
    if is_mixed && is_apart(theirs) && is_apart(own) {
        return [reads, writes].iter().find_map(|(theirs, own)| places_of(theirs, own, is_scattered));
    }
    places_of(theirs, own, is_scattered)
}

fn is_one_size(theirs: &[Asked], own: &[Asked]) -> bool {
    theirs.iter().chain(own).map(|it| it.bytes).collect::<BTreeSet<_>>().len() == 1
}

fn places_of(theirs: &[Asked], own: &[Asked], is_scattered: bool) -> Option<String> {
    let is_one = is_one_size(theirs, own);
    if is_sequence(theirs) != is_sequence(own) && theirs.len() > 2 {
        let kind = |is: bool| if is { "in sequence" } else { "not in sequence" };
        return Some(format!(
            "fio's requests are {}, and these are {}",
            kind(is_sequence(theirs)),
            kind(is_sequence(own))
        ));
    }
    if is_sequence(theirs) {
        if theirs[0].offset != own[0].offset {
            return Some(format!("fio begins at byte {}, and this at {}", theirs[0].offset, own[0].offset));
        }
        // Of several sizes, and of directions by chance, the places are those that come of them.
        let (at, (fio, ours)) = theirs
            .iter()
            .zip(own)
            .enumerate()
            .find(|(_, (fio, ours))| is_one && fio.offset != ours.offset)?;
        return Some(format!(
            "request {} of fio is at byte {}, and here at {}",
            at + 1,
            fio.offset,
            ours.offset
        ));
    }
    at_random(theirs, own, is_one, is_scattered)
}

fn at_random(theirs: &[Asked], own: &[Asked], is_one: bool, is_scattered: bool) -> Option<String> {
    let set = |requests: &[Asked]| requests.iter().map(|it| it.offset).collect::<BTreeSet<u64>>();
    let (fio, ours) = (set(theirs), set(own));
    let repeated = |requests: &[Asked], set: &BTreeSet<u64>| requests.len() - set.len();
    let (again, own_again) = (repeated(theirs, &fio), repeated(own, &ours));
    if is_one && theirs.len() >= DISTRIBUTION_OF && apart((again, theirs.len()), (own_again, own.len())) {
        return Some(format!(
            "{again} of {} requests of fio go to places that were asked before, and {own_again} of {} here",
            theirs.len(),
            own.len()
        ));
    }
    let unit = |set: &BTreeSet<u64>| set.iter().fold(0, |unit, offset| greatest_divisor(unit, *offset));
    let (step, own_step) = (unit(&fio), unit(&ours));
    if theirs.len() >= DISTRIBUTION_OF
        && step != own_step
        && own_step % step.max(1) != 0
        && step % own_step.max(1) != 0
    {
        return Some(format!("fio's places are multiples of {step} bytes, and these of {own_step}"));
    }
    if is_one && own_again == 0 && is_full(&ours, own) {
        let missing = fio.symmetric_difference(&ours).next()?;
        let whose =
            if fio.contains(missing) { "fio asks, and this does not" } else { "this asks, and fio does not" };
        return Some(format!("byte {missing}: {whose}"));
    }
    if theirs.len() < DISTRIBUTION_OF {
        return None;
    }
    let (end, own_end) = (ends(theirs), ends(own));
    let apart = if is_scattered {
        largest_gap(&ranks(theirs), &ranks(own))
    } else {
        largest_gap(&offsets(theirs), &offsets(own))
    };
    let bound = DISTRIBUTION * (1.0 / theirs.len() as f64 + 1.0 / own.len() as f64).sqrt();
    (apart > bound).then(|| {
        if is_scattered {
            return format!("fio's favourite places are asked more or less often than these ({:.0} % apart)", 100.0 * apart);
        }
        format!(
            "fio's places are from byte {} to {}, and these from {} to {}, and they are spread in another way ({:.0} % apart)",
            end.0,
            end.1,
            own_end.0,
            own_end.1,
            100.0 * apart
        )
    })
}

/// Whether all places from the first to the last are used.
fn is_full(set: &BTreeSet<u64>, requests: &[Asked]) -> bool {
    let (Some(first), Some(last)) = (set.first(), set.last()) else { return false };
    let bytes = requests[0].bytes;
    (last - first) / bytes + 1 == set.len() as u64
}

fn ends(requests: &[Asked]) -> (u64, u64) {
    let first = requests.iter().map(|it| it.offset).min().unwrap_or(0);
    (first, requests.iter().map(|it| it.offset + it.bytes).max().unwrap_or(0))
}

/// The place of each request, sorted.
fn offsets(requests: &[Asked]) -> Vec<u64> {
    let mut all: Vec<u64> = requests.iter().map(|it| it.offset).collect();
    all.sort_unstable();
    all
}

/// The rank of each request's place, the one that is asked most often first; sorted.
fn ranks(requests: &[Asked]) -> Vec<u64> {
    let mut counts: BTreeMap<u64, usize> = BTreeMap::new();
    for it in requests {
        *counts.entry(it.offset).or_default() += 1;
    }
    let mut counts: Vec<usize> = counts.into_values().collect();
    counts.sort_unstable_by(|one, other| other.cmp(one));
    (0..).zip(counts).flat_map(|(rank, count)| core::iter::repeat_n(rank, count)).collect()
}

/// The largest distance between two distributions, each of them sorted.
fn largest_gap(fio: &[u64], ours: &[u64]) -> f64 {
    let below = |sorted: &[u64], at: u64| sorted.partition_point(|it| *it <= at) as f64 / sorted.len() as f64;
    fio.iter().chain(ours).map(|at| (below(fio, *at) - below(ours, *at)).abs()).fold(0.0, f64::max)
}
