//! Dies behind channels: sensing, programming, erasing.
//!
//! ```text
//!  die   |== program ====|-suspend-|= sense =|-resume-|==== program |= sense =|
//!  channel                                   [data]                           [data]       (`channel`)
//! ```
//! A die does one thing at a time, but a program or an erase is suspended for reads, a few at most; the lost time is
//! added to its end. A block is erased once it has been filled, with the program that reopens it. Senses of one die
//! wait for each other in the order of arrival.
//!
//! Left out: reads of cached registers, reads on independent planes.

use super::channel::Channel;
use super::model::CellModel;
use super::random::{scaled, spread};
use raidlab_units::{ByteCount, NanoSpan, Nanos};

#[derive(Clone, Copy, Debug, Default)]
struct Die {
    /// When the senses taken on so far end.
    sensed_at: Nanos,
    program_start: Nanos,
    program_end: Nanos,
    suspensions: u32,
    programs: u32,
}

/// Times of pages with one bit in a cell.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SlcTimes {
    pub(super) program: NanoSpan,
    pub(super) read: NanoSpan,
}

/// How a page was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PageRead {
    /// When it was in the controller and corrected.
    pub(super) ready: Nanos,
    /// When it was sensed.
    pub(super) sensed: Nanos,
    /// How long that took.
    pub(super) sensing: NanoSpan,
    /// How long the channel and the correction took.
    pub(super) moving: NanoSpan,
}

/// All of a drive's flash.
#[derive(Clone, Debug)]
pub(super) struct Flash {
    cells: CellModel,
    slc: SlcTimes,
    programs_per_block: u32,
    dies: Vec<Die>,
    channels: Vec<Channel>,
    /// Where the search for a die that does not program begins.
    next_die: u32,
    erases: u64,
    last_read: PageRead,
}

impl Flash {
    pub(super) fn new(cells: &CellModel, slc: SlcTimes) -> Self {
        let mut flash = Self {
            cells: *cells,
            slc,
            programs_per_block: cells.programs_per_block(),
            dies: vec![Die::default(); cells.dies() as usize],
            channels: vec![Channel::default(); cells.channels as usize],
            next_die: 0,
            erases: 0,
            last_read: PageRead::default(),
        };
        flash.stagger(0);
        flash
    }

    /// Dies come to the end of their blocks at different times, as on a drive that has been in use; with each `seed` at others.
    pub(super) fn stagger(&mut self, seed: u64) {
        for (number, die) in (0..).zip(&mut self.dies) {
            die.programs = scaled(spread(seed ^ number), u64::from(self.programs_per_block)) as u32;
        }
    }

    /// Reads `bytes` of one page, or of one on each plane; returns when they are in the controller and corrected. What kind of
    /// page it is follows from `hash`, whether it has to be read again from `chance`.
    #[inline]
    pub(super) fn read(&mut self, now: Nanos, die: u32, bytes: ByteCount, hash: u64, chance: u64) -> Nanos {
        let mut span = self.sense_time(hash);
        // Chances and kinds come from different bits.
        if self.cells.retry_pct > 0.0 && (scaled(chance, 1_000_000) as f64) < self.cells.retry_pct * 1e4 {
            span += self.cells.read_slow;
        }
        self.read_for(now, die, bytes, span)
    }

    /// Reads `bytes` of a page that was programmed with one bit in a cell.
    pub(super) fn read_slc(&mut self, now: Nanos, die: u32, bytes: ByteCount) -> Nanos {
        self.read_for(now, die, bytes, self.slc.read)
    }

    #[inline]
    fn read_for(&mut self, now: Nanos, die: u32, bytes: ByteCount, span: NanoSpan) -> Nanos {
        let sensed = self.sense(now, die, span);
        let channel = die as usize % self.channels.len();
        let transfer = self.cells.channel.transfer_time(bytes);
        let page = self.cells.channel.transfer_time(self.cells.page);
        let dies = &mut self.dies;
        let read = self.channels[channel].read(now, sensed, transfer, page, |die| {
            let die = &mut dies[die as usize];
            die.program_start += transfer;
            die.program_end += transfer;
        });
        let ready = read + self.cells.decode;
        self.last_read = PageRead { ready, sensed, sensing: span, moving: transfer + self.cells.decode };
        ready
    }

    /// How the page that was read last was.
    #[inline]
    pub(super) fn last_read(&self) -> PageRead {
        self.last_read
    }

    /// Time to sense a page of the kind that `hash` says.
    fn sense_time(&self, hash: u64) -> NanoSpan {
        let kinds = u64::from(self.cells.bits_per_cell);
        let Some(steps) = kinds.checked_sub(1).filter(|steps| *steps > 0) else {
            return self.cells.read_fast;
        };
        let kind = scaled(hash.rotate_left(23), kinds);
        self.cells.read_fast + (self.cells.read_slow - self.cells.read_fast) * kind / steps
    }

    fn sense(&mut self, now: Nanos, die: u32, span: NanoSpan) -> Nanos {
        let suspend = self.cells.suspend;
        let most = self.cells.suspensions_max;
        let die = &mut self.dies[die as usize];
        let start = now.max(die.sensed_at);
        if start >= die.program_end || start + span <= die.program_start {
            die.sensed_at = start + span;
            return die.sensed_at;
        }
        if start < die.program_start {
            // It has not begun: it begins later.
            die.sensed_at = start + span;
            die.program_end += die.sensed_at - die.program_start;
            die.program_start = die.sensed_at;
            return die.sensed_at;
        }
        if die.suspensions >= most {
            die.sensed_at = die.program_end + span;
            return die.sensed_at;
        }
        die.suspensions += 1;
        // A sense right after another finds the program suspended.
        if die.sensed_at > now {
            die.sensed_at = start + span;
            die.program_end += span;
        } else {
            die.sensed_at = start + suspend + span;
            die.program_end += suspend * 2 + span;
        }
        die.sensed_at
    }

    /// The next die, in turn, that does not program.
    pub(super) fn next_idle_die(&mut self, now: Nanos) -> u32 {
        let die = self.idle_die_from(now, self.next_die);
        self.next_die = (die + 1) % self.dies.len() as u32;
        die
    }

    /// The first die from `first` on that does not program; `first` if all do.
    pub(super) fn idle_die_from(&self, now: Nanos, first: u32) -> u32 {
        let count = self.dies.len() as u32;
        let mut turn = (first..count).chain(0..first);
        turn.find(|die| self.dies[*die as usize].program_end <= now).unwrap_or(first)
    }

    /// Programs a row of `die`, which does not program, with data that are there at `ready`; returns when it ends unless it is
    /// suspended.
    pub(super) fn program(&mut self, now: Nanos, ready: Nanos, die: u32) -> Nanos {
        self.program_for(now, ready, die, self.cells.load_time(), self.cells.program)
    }

    /// The same of one page on each plane, with one bit in a cell.
    pub(super) fn program_slc(&mut self, now: Nanos, ready: Nanos, die: u32) -> Nanos {
        let load = self.cells.channel.transfer_time(self.cells.page) * u64::from(self.cells.planes);
        self.program_for(now, ready, die, load, self.slc.program)
    }

    #[inline]
    fn program_for(
        &mut self,
        now: Nanos,
        ready: Nanos,
        die: u32,
        load: NanoSpan,
        mut span: NanoSpan,
    ) -> Nanos {
        let channel = die as usize % self.channels.len();
        let loaded = self.channels[channel].load(now, ready, load, die);
        let die = &mut self.dies[die as usize];
        die.programs += 1;
        if die.programs >= self.programs_per_block {
            die.programs = 0;
            self.erases += 1;
            span += self.cells.erase;
        }
        die.program_start = loaded.max(die.sensed_at);
        die.program_end = die.program_start + span;
        die.suspensions = 0;
        die.program_end
    }

    /// How long the program of `die` takes, as far as is known, reads that suspend it included.
    pub(super) fn program_time(&self, die: u32) -> NanoSpan {
        let die = &self.dies[die as usize];
        die.program_end - die.program_start
    }

    /// When the program of `die` ends, as far as is known.
    pub(super) fn program_end(&self, die: u32) -> Nanos {
        self.dies[die as usize].program_end
    }

    /// Number of dies.
    pub(super) fn dies(&self) -> u64 {
        self.dies.len() as u64
    }

    /// Blocks erased so far, those of all planes counted as one.
    pub(super) fn erases(&self) -> u64 {
        self.erases
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::LinkModel;
    use raidlab_units::BytesPerSec;

    const US: fn(u64) -> NanoSpan = NanoSpan::from_micros;

    fn cells() -> CellModel {
        CellModel {
            channels: 2,
            dies_per_channel: 2,
            planes: 2,
            page: ByteCount::from_kib(16),
            bits_per_cell: 3,
            block: ByteCount::from_kib(144),
            read_fast: US(40),
            read_slow: US(40),
            retry_pct: 0.0,
            program: US(1000),
            erase: US(5000),
            suspend: US(20),
            suspensions_max: 2,
            decode: US(2),
            programs_at_once: 4,
            parity_every: 0,
            channel: LinkModel { rate: BytesPerSec(1e9), per_transfer: NanoSpan::ZERO },
        }
    }

    fn read_ends(flash: &mut Flash, at: u64) -> f64 {
        flash.read(Nanos(at * 1000), 0, ByteCount(1000), 0, u64::MAX).0 as f64 / 1e3
    }

    /// A read takes 40 us of sensing, 1 us of transfer and 2 us of correction.
    #[test]
    fn reads_suspend_a_program_twice_and_then_wait() {
        let mut flash = Flash::new(&cells(), SlcTimes::default());
        flash.dies[0].programs = 0;
        assert_eq!(read_ends(&mut flash, 0), 43.0);
        let end = flash.program(Nanos(0), Nanos(0), 0);
        // 96 KiB over the channel at 1 GB/s, then the program; the channel still has the data of the read before it.
        assert_eq!(end, Nanos(1_000 + 98_304 + 1_000_000));
        assert_eq!(read_ends(&mut flash, 200), 263.0, "suspends");
        assert_eq!(read_ends(&mut flash, 210), 303.0, "is suspended");
        let end = flash.program_end(0).0 as f64 / 1e3;
        assert_eq!(end, 1099.304 + 20.0 + 40.0 + 20.0 + 40.0);
        assert_eq!(read_ends(&mut flash, 400), end + 43.0, "no third one");
    }

    #[test]
    fn drives_of_one_model_erase_at_times_of_their_own() {
        let places = |seed| {
            let mut flash = Flash::new(&CellModel { channels: 16, ..cells() }, SlcTimes::default());
            flash.stagger(seed);
            flash.dies.iter().map(|die| die.programs).collect::<Vec<u32>>()
        };
        assert_eq!(places(spread(1)), places(spread(1)));
        assert_ne!(places(spread(1)), places(spread(2)));
    }

    #[test]
    fn a_block_is_erased_once_for_all_its_programs() {
        let mut flash = Flash::new(&cells(), SlcTimes::default());
        let mut now = Nanos::ZERO;
        // Nine pages a plane: 3 rows.
        for _ in 0..4 * 3 * 5 {
            let die = flash.next_idle_die(now);
            now = flash.program(now, now, die);
        }
        assert_eq!(flash.erases(), 4 * 5);
    }
}
