//! I/O of members: delays, what goes wrong, and the memory that is the kernel's meanwhile.
//!
//! Memory of a read is spoilt when the kernel gets it, and again and again while it hangs, as a device may write to it at any time.
//! Memory of a write is read when the device takes it; it must not have changed since it was submitted.
#![allow(unsafe_code)]

use crate::disk::{CutKind, gather, scatter};
use crate::entry::Asked;
use crate::flight::{Flight, Stage, error, length};
use crate::plan::Fault;
use crate::state::{Broken, Event, State, bytes_asked, place_of};
use raidlab_units::{NanoSpan, Nanos};
use rustix::io::Errno;
use std::io;

/// What memory of reads is filled with.
const SPOILT: u8 = 0xdb;
/// Entries of a name after an interruption that are not interrupted: an I/O is not interrupted again and again.
const PAUSE: u8 = 4;

/// What goes wrong on a member.
#[derive(Debug, Default)]
pub(crate) struct MemberFaults {
    is_gone: bool,
    hangs_until: Nanos,
    may_be_cancelled: bool,
    errors_until: Nanos,
    errors_permille: u64,
    full_until: Nanos,
    /// Entries that are not interrupted.
    pause: u8,
}

impl State {
    /// Something goes wrong from now on.
    pub(crate) fn strike(&mut self, fault: Fault) {
        let now = self.now;
        let after = |millis| now + NanoSpan::from_millis(millis);
        let may_be_cancelled = self.random.below(3) == 0;
        match fault {
            Fault::Hang { member, millis } => {
                let it = &mut self.faults[usize::from(member)];
                (it.hangs_until, it.may_be_cancelled) = (after(millis), may_be_cancelled);
            }
            Fault::Gone { member } => self.faults[usize::from(member)].is_gone = true,
            Fault::Errors { member, permille, millis } => {
                let it = &mut self.faults[usize::from(member)];
                (it.errors_until, it.errors_permille) = (after(millis), permille);
            }
            Fault::Full { member: Some(member), millis } => {
                self.faults[usize::from(member)].full_until = after(millis);
            }
            Fault::Full { member: None, millis } => {
                self.faults.iter_mut().for_each(|it| it.full_until = after(millis));
            }
            Fault::SecondStart | Fault::Fail { .. } | Fault::Replace { .. } | Fault::Check => {
                self.orders.push(fault);
            }
        }
    }

    /// In nanoseconds.
    pub(crate) fn member_delay(&mut self) -> u64 {
        let manners = self.plan.members;
        let usual = manners.usual_us * 1_000;
        let most = if self.random.below(1000) < manners.slow_permille { usual * 100 } else { usual * 2 };
        1 + self.random.below(most)
    }

    pub(crate) fn begin_member_io(&mut self, flight: &mut Flight) {
        match &flight.asked {
            Asked::Read { pieces, .. } => {
                for piece in pieces {
                    // SAFETY: the entry is in flight.
                    unsafe { piece.bytes_mut() }.fill(SPOILT);
                }
            }
            Asked::Write { pieces, .. } => {
                // SAFETY: the entry is in flight.
                flight.snapshot = unsafe { gather(pieces, usize::MAX) };
            }
            Asked::Flush { file } => {
                let file = *file;
                flight.beside = self
                    .flights
                    .numbers(|it| matches!(it.asked, Asked::Write { file: other, .. } if other == file));
            }
            _ => {}
        }
    }

    pub(crate) fn apply_member_io(&mut self, number: u64) {
        let flight = &self.flights.all[&number];
        let Some(file) = crate::flight::file_of(&flight.asked) else { return };
        let place = place_of(file);
        let disk = place.and_then(|place| self.places.get(usize::from(place)).copied().flatten());
        let (Some(place), Some(disk)) = (place, disk) else { return self.done(number, error(Errno::BADF)) };
        let now = self.now;
        let fault = &self.faults[usize::from(place)];
        if fault.hangs_until > now {
            let (until, may_be_cancelled) = (fault.hangs_until, fault.may_be_cancelled);
            let flight = self.flights.all.get_mut(&number).expect("it is in flight");
            (flight.stage, flight.was_late) = (Stage::Hangs { may_be_cancelled }, true);
            let late = self.random.below(3_000_000);
            return self.set(until.saturating_since(now) + NanoSpan(late), Event::Apply(number));
        }
        if let Some(errno) = self.draw_error(number, place) {
            return self.done(number, error(errno));
        }
        let result = self.transfer(number, disk);
        match result {
            Ok(moved) => self.done(number, moved as i32),
            Err(fault) => {
                self.complain("simulation", format!("I/O of a file: {fault}"));
                self.done(number, error(Errno::IO));
            }
        }
    }

    fn draw_error(&mut self, number: u64, place: u16) -> Option<Errno> {
        let flight = &self.flights.all[&number];
        let fault = &mut self.faults[usize::from(place)];
        if fault.is_gone {
            return Some(Errno::NXIO);
        }
        let is_write = matches!(flight.asked, Asked::Write { .. });
        if is_write && fault.full_until > self.now {
            return Some(Errno::NOSPC);
        }
        let is_hit = matches!(flight.asked, Asked::Read { .. }) || !self.common.may_fail;
        if is_hit && fault.errors_until > self.now && self.random.below(1000) < fault.errors_permille {
            return Some(Errno::IO);
        }
        if matches!(flight.asked, Asked::Flush { .. }) {
            return None;
        }
        if fault.pause > 0 {
            fault.pause -= 1;
        } else if self.random.below(1000) < self.plan.members.interrupted_permille {
            fault.pause = 64 + PAUSE;
            return Some([Errno::INTR, Errno::AGAIN, Errno::NOMEM][self.random.below(3) as usize]);
        }
        None
    }

    /// How much is moved of so many bytes: all, or whole blocks, at least one.
    fn cut_short(&mut self, bytes: usize) -> usize {
        let block = self.plan.config.block_size.bytes() as usize;
        if bytes <= block || self.random.below(1000) >= self.plan.members.short_permille {
            return bytes;
        }
        let blocks = 1 + self.random.below((bytes / block) as u64) as usize;
        let odd = if self.random.below(2) == 0 { 512 } else { 0 };
        (blocks * block + odd).min(bytes)
    }

    fn transfer(&mut self, number: u64, disk: usize) -> io::Result<usize> {
        let moved = self.cut_short(bytes_asked(&self.flights.all[&number].asked));
        let ignores_dsync = self.ignores_dsync();
        let flight = self.flights.all.get_mut(&number).expect("it is in flight");
        let snapshot = std::mem::take(&mut flight.snapshot);
        let (asked, beside, was_late) =
            (flight.asked.clone(), std::mem::take(&mut flight.beside), flight.was_late);
        let disk = self.disks.of(disk);
        match asked {
            Asked::Read { offset, pieces, .. } => {
                let bytes = disk.read(offset, moved)?;
                // SAFETY: the entry is in flight.
                unsafe { scatter(&pieces, 0, &bytes) };
                Ok(bytes.len())
            }
            Asked::Write { offset, pieces, durable, .. } => {
                // SAFETY: the entry is in flight.
                let bytes = unsafe { gather(&pieces, moved) };
                disk.write(number, offset, &bytes, durable && !ignores_dsync)?;
                if bytes[..] != snapshot[..moved] && !was_late {
                    self.complain("memory", "what a write in flight writes was changed under it");
                }
                Ok(moved)
            }
            _ => {
                disk.flush(number, &beside);
                Ok(0)
            }
        }
    }

    /// Whether the file system is one that ends a write with `RWF_DSYNC` before it is durable, which arrays know of.
    pub(crate) const fn ignores_dsync(&self) -> bool {
        self.plan.seed % 4 == 3
    }

    /// Devices that hang may write to the memory of their reads at any time.
    pub(crate) fn spoil_hung(&mut self) {
        for flight in self.flights.all.values() {
            if let (Stage::Hangs { .. }, Asked::Read { pieces, .. }) = (flight.stage, &flight.asked) {
                for piece in pieces {
                    // SAFETY: the entry is in flight.
                    unsafe { piece.bytes_mut() }.fill(SPOILT);
                }
            }
        }
    }

    /// The power fails, or the process ends: what is in flight is there in part, or what is not durable is lost.
    pub(crate) fn tear_in_flight(&mut self, kind: CutKind, how: Broken) -> io::Result<()> {
        let is_cut = how == Broken::PowerCut;
        if is_cut {
            self.disks.cut(kind, &mut self.random)?;
        }
        for number in self.flights.numbers(|it| matches!(it.stage, Stage::Begun)) {
            let flight = &self.flights.all[&number];
            let Asked::Write { file, offset, ref pieces, .. } = flight.asked else { continue };
            let disk = place_of(file).and_then(|place| self.places[usize::from(place)]);
            let Some(disk) = disk else { continue };
            // SAFETY: the entry is in flight.
            let bytes = unsafe { gather(pieces, length(pieces)) };
            let disk = self.disks.of(disk);
            if is_cut {
                disk.tear(offset, &bytes, kind, &mut self.random)?;
            } else if kind.keeps(&mut self.random) {
                disk.write(number, offset, &bytes, false)?;
            }
        }
        Ok(())
    }
}
