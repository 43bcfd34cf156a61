//! A channel between the controller and some dies: reads and loads of rows.
//!
//! ```text
//!  load of a row  |page|page|      |page|page|            a read goes before the next page of a load
//!  reads                    |R1|R2|          |R3|         in the order in which their pages have been sensed
//! ```
//! A read takes the channel when its page has been sensed, not when it was requested: free times go to whichever read
//! is ready by then, however late it was requested. So reads wait for each other here after they have waited for a die.
//!
//! Invariant: the times taken by reads are in order, apart, and do not touch.
//!
//! Left out: interleaving of one long command's reads with others, page by page; commands and status polls, which are
//! in the channel's time per transfer.

use raidlab_units::{NanoSpan, Nanos};
use std::collections::VecDeque;

/// A row on its way to a die.
#[derive(Clone, Copy, Debug)]
struct Load {
    die: u32,
    start: Nanos,
    end: Nanos,
}

/// What a channel carries, as far as it is known.
#[derive(Clone, Debug, Default)]
pub(super) struct Channel {
    /// Times that reads take, those that touch made one.
    taken: VecDeque<(Nanos, Nanos)>,
    /// Rows on their way, in order.
    loads: VecDeque<Load>,
}

impl Channel {
    /// Carries what has been sensed at `ready` for `span`; when it is over. Loads that this puts off are told to `put_off`, by
    /// their die. A load's page of `page` is not broken off.
    #[inline]
    pub(super) fn read(
        &mut self,
        now: Nanos,
        ready: Nanos,
        span: NanoSpan,
        page: NanoSpan,
        put_off: impl FnMut(u32),
    ) -> Nanos {
        self.forget(now);
        let from = if self.loads.is_empty() { ready } else { self.next_page(ready, page) };
        let start = self.take(from, span);
        if !self.loads.is_empty() {
            self.put_off(start, span, put_off);
        }
        start + span
    }

    /// Loads a row for `die`, whose data are there at `ready`, for `span`; when it is over unless reads put it off.
    pub(super) fn load(&mut self, now: Nanos, ready: Nanos, span: NanoSpan, die: u32) -> Nanos {
        self.forget(now);
        let start = self.loads.back().map_or(ready, |last| last.end.max(ready));
        let mut end = start + span;
        for (from, to) in &self.taken {
            if *to > start && *from < end {
                end += *to - (*from).max(start);
            }
        }
        self.loads.push_back(Load { die, start, end });
        end
    }

    /// Forgets what is over.
    #[inline]
    fn forget(&mut self, now: Nanos) {
        while self.taken.front().is_some_and(|(_, end)| *end <= now) {
            self.taken.pop_front();
        }
        while self.loads.front().is_some_and(|load| load.end <= now) {
            self.loads.pop_front();
        }
    }

    /// When the page of a load that is under way at `ready` is over.
    fn next_page(&self, ready: Nanos, page: NanoSpan) -> Nanos {
        let is_under_way = |load: &&Load| load.start < ready && ready < load.end;
        let load = self.loads.iter().find(is_under_way);
        load.map_or(ready, |load| {
            let into = (ready - load.start).0 % page.0.max(1);
            if into == 0 { ready } else { (ready + NanoSpan(page.0 - into)).min(load.end) }
        })
    }

    /// Takes the first time of `span` that is free from `from` on; when it begins.
    #[inline]
    fn take(&mut self, from: Nanos, span: NanoSpan) -> Nanos {
        let mut start = from;
        let mut index = 0;
        // Most come after all others.
        if self.taken.back().is_some_and(|(last, _)| *last <= from) {
            index = self.taken.len();
            start = start.max(self.taken[index - 1].1);
        } else {
            while let Some((_, end)) = self.taken.get(index).filter(|(taken, _)| start + span > *taken) {
                start = start.max(*end);
                index += 1;
            }
        }
        let end = start + span;
        let joins_last = index > 0 && self.taken[index - 1].1 == start;
        let joins_next = self.taken.get(index).is_some_and(|(next, _)| *next == end);
        match (joins_last, joins_next) {
            (true, true) => {
                self.taken[index - 1].1 = self.taken[index].1;
                self.taken.remove(index);
            }
            (true, false) => self.taken[index - 1].1 = end,
            (false, true) => self.taken[index].0 = start,
            (false, false) => self.taken.insert(index, (start, end)),
        }
        start
    }

    /// Puts off what of the loads comes after a read that begins at `start`.
    fn put_off(&mut self, start: Nanos, span: NanoSpan, mut tell: impl FnMut(u32)) {
        let mut is_first = true;
        for load in self.loads.iter_mut().filter(|load| load.end > start) {
            // One that waits for those before it is put off with them; one that only would have begun later is not.
            if is_first && load.start > start + span {
                break;
            }
            if load.start >= start {
                load.start += span;
            }
            load.end += span;
            is_first = false;
            tell(load.die);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: NanoSpan = NanoSpan(20);

    fn read(channel: &mut Channel, now: u64, ready: u64) -> u64 {
        channel.read(Nanos(now), Nanos(ready), NanoSpan(10), PAGE, |_| ()).0
    }

    #[test]
    fn reads_go_in_the_order_in_which_they_are_ready() {
        let mut channel = Channel::default();
        assert_eq!(read(&mut channel, 0, 100), 110);
        assert_eq!(read(&mut channel, 1, 50), 60, "asked for later, ready sooner");
        assert_eq!(read(&mut channel, 2, 95), 120, "too long for what is free before 100");
        assert_eq!(read(&mut channel, 3, 100), 130);
        assert_eq!(read(&mut channel, 4, 60), 70);
        assert_eq!(read(&mut channel, 5, 40), 50);
        assert_eq!(channel.taken.len(), 2, "{:?}", channel.taken);
        assert_eq!(read(&mut channel, 200, 200), 210);
        assert_eq!(channel.taken.len(), 1, "what is over is forgotten");
    }

    /// However they are mixed, a channel carries one thing at a time.
    #[test]
    fn a_busy_channel_carries_one_read_after_the_other() {
        let mut channel = Channel::default();
        let mut ends: Vec<u64> = (0..100).map(|i| read(&mut channel, 0, i * 37 % 100)).collect();
        ends.sort_unstable();
        assert!(ends.windows(2).all(|pair| pair[1] >= pair[0] + 10), "{ends:?}");
        // Gaps between reads that are shorter than a read stay free.
        assert_eq!(ends[0], 10);
        assert!((1000..1100).contains(&ends[99]), "{ends:?}");
    }

    #[test]
    fn a_read_waits_for_one_page_of_a_load_and_puts_off_the_rest() {
        let mut channel = Channel::default();
        // Four pages of 20 for die 7, four more for die 8.
        assert_eq!(channel.load(Nanos(0), Nanos(5), NanoSpan(80), 7), Nanos(85));
        assert_eq!(channel.load(Nanos(0), Nanos(5), NanoSpan(80), 8), Nanos(165));
        let mut put_off = vec![];
        let end = channel.read(Nanos(1), Nanos(30), NanoSpan(10), PAGE, |die| put_off.push(die));
        assert_eq!((end, &put_off[..]), (Nanos(55), &[7, 8][..]), "the second page ends at 45");
        assert_eq!(channel.loads.iter().map(|load| load.end.0).collect::<Vec<_>>(), [95, 175]);
        // A load that comes later leaves the time to reads that have taken it.
        assert_eq!(read(&mut channel, 2, 200), 210);
        assert_eq!(channel.load(Nanos(3), Nanos(3), NanoSpan(80), 9), Nanos(265));
    }
}
