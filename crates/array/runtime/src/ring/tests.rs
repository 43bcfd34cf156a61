//! Order between flushes and transfers that other threads do.
#![allow(unsafe_code)]

use super::*;
use raidlab_testkit::Random;
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;

const PAGE: u64 = 4096;
const FILES: u16 = 3;
/// Each write has a place of its own, as long as the longest piece of memory that the kernel calls dirty as a whole.
const PLACES: u64 = 128;
const PLACE_PAGES: u64 = 512;
const PAGES: u64 = PLACES * PLACE_PAGES;
/// Pages of a write.
const LENGTHS: [u64; 4] = [1, 3, 16, 32];

/// Pages of a range that are in memory and not on the device yet, `None` where the kernel does not say: `cachestat(2)`, Linux 6.5.
fn dirty_pages(file: &File, first: u64, pages: u64) -> Option<u64> {
    const CACHESTAT: i64 = 451;
    let range = [first * PAGE, pages * PAGE];
    let mut found = [0_u64; 5];
    // SAFETY: both structures are of the lengths that the call has: two and five words.
    let said =
        unsafe { libc::syscall(CACHESTAT, file.as_raw_fd(), range.as_ptr(), found.as_mut_ptr(), 0_u32) };
    (said == 0).then_some(found[1] + found[2])
}

/// One entry in flight.
struct InFlight {
    file: u16,
    /// First page and length of a write; a flush has none.
    write: Option<(u64, u64)>,
    /// Writes of a flush's file that had ended when it was asked for, and that it must cover.
    covers: Vec<(u64, u64)>,
}

/// Files through the page cache, so that what no flush has covered stands in memory alone, and the kernel says so.
///
/// Verified: when a flush ends, every write of its file that had ended before it was asked for is on the device, whichever
/// thread did either; that other threads did some, and that without the flush they are in memory. Not verified: the device's own
/// cache.
///
/// Length: the load, and what is looked at in it.
#[test]
fn a_flush_covers_the_writes_that_ended_before_it_whoever_did_them() {
    // Beside this binary, since a temporary folder may be in memory and have no device.
    let binary = std::env::current_exe().expect("this binary is known");
    let folder = tempfile::tempdir_in(binary.parent().expect("it is in a folder")).expect("a folder");
    let open = |number: u16| {
        let path = folder.path().join(number.to_string());
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(path).expect("a file");
        file.set_len(PAGES * PAGE).expect("it can be made so long");
        file
    };
    let files: Vec<File> = (0..FILES).map(open).collect();
    let data = vec![0x5a; (32 * PAGE) as usize];
    let mut ring = Ring::new(FILES, NanoSpan::ZERO).expect("a ring can be made");
    ring.start_io_threads(3).expect("threads can be started");
    for (place, file) in (0..).zip(&files) {
        ring.set_file(place, file.as_raw_fd()).expect("it can be registered");
    }
    let mut random = Random(7);
    let mut in_flight: BTreeMap<u32, InFlight> = BTreeMap::new();
    // Writes that have ended, of each file.
    let mut ended: Vec<Vec<(u64, u64)>> = vec![Vec::new(); files.len()];
    let (mut number, mut flushes, mut seen_dirty, mut done) = (0, 0, 0, Vec::new());
    while flushes < 40 {
        while in_flight.len() < 24 {
            number += 1;
            let file = random.below(FILES.into()) as u16;
            let place = usize::from(file);
            let is_flush = random.below(12) == 0;
            // What is being written again is in memory again: each place is written once between two flushes.
            let pages = LENGTHS[random.below(4) as usize];
            let first = random.below(PLACES) * PLACE_PAGES;
            let overlaps = |(at, length): (u64, u64)| first < at + length && at < first + pages;
            let is_taken = in_flight.values().any(|other| {
                other.file == file
                    && (other.write.is_some_and(overlaps) || other.covers.iter().any(|it| overlaps(*it)))
            }) || ended[place].iter().any(|it| overlaps(*it));
            if is_flush {
                let covers = std::mem::take(&mut ended[place]);
                for (first, pages) in &covers {
                    seen_dirty += dirty_pages(&files[place], *first, *pages).unwrap_or_default();
                }
                in_flight.insert(number, InFlight { file, write: None, covers });
                ring.push_flush(number, file).expect("it can be pushed");
            } else if !is_taken {
                let piece = IoVec::of(&data[..(pages * PAGE) as usize]);
                let (direction, target) = (Direction::Write { durable: false }, Target::Single(piece, None));
                in_flight.insert(number, InFlight { file, write: Some((first, pages)), covers: Vec::new() });
                ring.push_transfer(number, file, direction, first * PAGE, target).expect("it can be pushed");
            }
        }
        ring.enter(Some(NanoSpan::from_millis(50))).expect("the ring works");
        ring.reap(&mut done);
        for end in done.drain(..) {
            let InFlight { file, write, covers } = in_flight.remove(&end.number).expect("it was in flight");
            let place = usize::from(file);
            if let Some((first, pages)) = write {
                assert_eq!(end.result, Ok((pages * PAGE) as u32));
                ended[place].push((first, pages));
                continue;
            }
            assert_eq!(end.result, Ok(0));
            flushes += 1;
            for (first, pages) in covers {
                let dirty = dirty_pages(&files[place], first, pages);
                assert_eq!(dirty.unwrap_or_default(), 0, "pages {first}+{pages} of file {file}");
            }
        }
    }
    assert!(ring.io_thread_entries() > 50, "{} were done by others", ring.io_thread_entries());
    let is_told = dirty_pages(&files[0], 0, 1).is_some();
    assert!(!is_told || seen_dirty > 100, "{seen_dirty} pages waited for their flush: the test sees nothing");
}
