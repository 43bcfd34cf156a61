//! Entries in flight: what each asks for and how far it is, and the ends that are there.

use crate::entry::{Asked, FileName, Piece, Victim};
use raidlab_device::ring::EntryEnd;
use rustix::io::Errno;
use std::collections::{BTreeMap, VecDeque};

/// How far an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Its time comes.
    Begun,
    /// Until a socket or descriptor is ready.
    Waits,
    /// Its member does not answer; to cancel it helps, or not.
    Hangs { may_be_cancelled: bool },
    /// It is done and will end like this.
    Done(i32),
}

/// An entry in flight.
#[derive(Debug)]
pub(crate) struct Flight {
    pub(crate) name: u64,
    pub(crate) asked: Asked,
    pub(crate) stage: Stage,
    /// What a write was to write when it was submitted.
    pub(crate) snapshot: Vec<u8>,
    /// Bytes that a receive of the whole has got.
    pub(crate) received: usize,
    /// Writes of the same disk that were in flight when a flush was submitted.
    pub(crate) beside: Vec<u64>,
    /// It has hung.
    pub(crate) was_late: bool,
}

/// All of a ring.
#[derive(Debug, Default)]
pub(crate) struct Flights {
    pub(crate) all: BTreeMap<u64, Flight>,
    pub(crate) ends: VecDeque<EntryEnd>,
}

impl Flights {
    pub(crate) fn end(&mut self, number: u64, result: i32) {
        let flight = self.all.remove(&number).expect("it is in flight");
        self.ends.push_back(EntryEnd { name: flight.name, result, flags: 0 });
    }

    /// Ends all, whatever they are.
    pub(crate) fn end_all(&mut self) {
        while let Some((number, _)) = self.all.first_key_value() {
            self.end(*number, error(Errno::CANCELED));
        }
    }

    /// Ends early what can be. Returns what the cancel comes to.
    pub(crate) fn cancel(&mut self, victim: Victim) -> i32 {
        let is_meant = |flight: &Flight| match victim {
            Victim::Any => true,
            Victim::Named(name) => flight.name == name,
            Victim::OfFile(file) => file_of(&flight.asked) == Some(file),
        };
        let meant: Vec<u64> =
            self.all.iter().filter(|(_, flight)| is_meant(flight)).map(|(number, _)| *number).collect();
        let mut ended = 0;
        for number in &meant {
            match self.all[number].stage {
                Stage::Waits | Stage::Hangs { may_be_cancelled: true } => {
                    let received = self.all[number].received as i32;
                    self.end(*number, if received > 0 { received } else { error(Errno::CANCELED) });
                    ended += 1;
                }
                Stage::Begun | Stage::Done(_) | Stage::Hangs { .. } => {}
            }
        }
        if ended == 0 { error(if meant.is_empty() { Errno::NOENT } else { Errno::ALREADY }) } else { 0 }
    }

    pub(crate) fn numbers(&self, is_meant: impl Fn(&Flight) -> bool) -> Vec<u64> {
        self.all.iter().filter(|(_, flight)| is_meant(flight)).map(|(number, _)| *number).collect()
    }
}

/// The file that an entry of a file is for.
pub(crate) fn file_of(asked: &Asked) -> Option<FileName> {
    match asked {
        Asked::Read { file, .. } | Asked::Write { file, .. } | Asked::Flush { file } => Some(*file),
        Asked::Receive { socket, .. } | Asked::Send { socket, .. } => Some(*socket),
        Asked::Accept | Asked::Readable { .. } | Asked::Cancel(_) => None,
    }
}

pub(crate) fn length(pieces: &[Piece]) -> usize {
    pieces.iter().map(|piece| piece.bytes).sum()
}

/// An error as a completion tells it.
pub(crate) const fn error(errno: Errno) -> i32 {
    -errno.raw_os_error()
}
