//! The read-ahead of Linux 2.4: the state of a file's reader, and the pages that are read ahead for it.
//!
//! ```text
//!            ┌──── window: the last read-ahead and the one before it ────┐
//!   pages:   ├ read, and read by now ┤ length of the last read-ahead     ┤ end
//!   a page on its way (locked):  outside of the window, `most` pages are read after it, and are the window from then on
//!   a page that is there:        within the last read-ahead, the next one is asked for, twice as long, if reads are in order
//! ```
//! A read that does not begin within the window, or at its end, resets the state: it then reads as many pages ahead as
//! it has itself, and one. Calls of one file that a server handles in parallel begin with the state before all of them,
//! and the last to end stores its state; so most of them look out of order.
//!
//! Source: Linux 2.4.18, `mm/filemap.c` (`do_generic_file_read`, `generic_file_readahead`), the names there being `f_raend`,
//! `f_ralen`, `f_rawin` and `f_ramax`. Left out: reads within the first half of a page.

use core::ops::Range;

/// Bytes of a page.
pub(super) const PAGE_BYTES: u64 = 4096;

/// Pages that reads in order are ahead at least, and any read at most.
const LEAST_AHEAD: u64 = 3;
const MOST_AHEAD: u64 = 31;

/// What is known of the reader of a file, in pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ReadAhead {
    end: u64,
    length: u64,
    window: u64,
    most: u64,
}

impl ReadAhead {
    /// Begins a read of `pages` whole pages from `first` on. Returns whether it is in order.
    pub(super) fn begin(&mut self, first: u64, pages: u64) -> bool {
        let in_order = first <= self.end && first + self.window >= self.end;
        if !in_order {
            *self = Self::default();
        }
        let least = if in_order { LEAST_AHEAD } else { 0 };
        self.most = self.most.max(pages + 1).max(least).min(MOST_AHEAD);
        in_order
    }

    /// Comes to `page` of a file of `file_pages`, and returns the pages to be read ahead now.
    pub(super) fn reach(&mut self, page: u64, locked: bool, in_order: bool, file_pages: u64) -> Range<u64> {
        let mut last = self.end;
        let mut ahead = 0;
        if locked {
            if self.length == 0 || page >= last || page + self.window < last {
                last = page;
                ahead = if page < file_pages { self.most } else { 0 };
                (self.window, self.length) = (0, 1);
                if ahead == 0 {
                    self.end = page + 1;
                    self.window = 1;
                }
            }
        } else if in_order && self.most > 0 && last >= 1 && page <= last && page + self.length >= last {
            last -= 1;
            if last < file_pages {
                ahead = self.most + 1;
                (self.window, self.length) = (self.length, 0);
            }
        }
        let ahead = ahead.min(file_pages.saturating_sub(last + 1));
        if ahead > 0 {
            self.length += ahead;
            self.window += self.length;
            self.end = last + ahead + 1;
            self.most = (2 * self.most).min(MOST_AHEAD);
        }
        last + 1..last + 1 + ahead
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_in_order_gets_windows_that_double_up_to_128_kib() {
        let mut known = ReadAhead::default();
        let mut asked = 0;
        let mut windows = Vec::new();
        for first in (0..400).step_by(2) {
            let in_order = known.begin(first, 2);
            for page in first..first + 2 {
                // A page that nobody asked for is read, and is on its way when it is reached.
                let locked = page >= asked;
                asked = asked.max(page + 1);
                let ahead = known.reach(page, locked, in_order, 400);
                if !ahead.is_empty() {
                    assert_eq!(ahead.start, asked, "nothing is left out");
                    asked = ahead.end;
                    windows.push(ahead.end - ahead.start);
                }
            }
        }
        assert_eq!(asked, 400);
        assert_eq!(windows[..4], [3, 7, 13, 25]);
        assert!(windows[4..windows.len() - 1].iter().all(|window| *window == 32), "{windows:?}");
    }

    #[test]
    fn reads_out_of_order_read_what_they_want_and_one_page_more() {
        let mut known = ReadAhead::default();
        for first in [1000, 400, 5000, 20] {
            assert!(!known.begin(first, 2));
            assert_eq!(known.reach(first, true, false, 10_000), first + 1..first + 4);
            assert!(known.reach(first + 1, true, false, 10_000).is_empty(), "within the window");
        }
    }

    #[test]
    fn nothing_is_read_beyond_the_end_of_the_file() {
        let mut known = ReadAhead::default();
        let in_order = known.begin(98, 2);
        assert_eq!(known.reach(98, true, in_order, 100), 99..100);
        assert!(known.reach(99, true, in_order, 100).is_empty());
    }
}
