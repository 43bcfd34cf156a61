//! Shared by the engines that speak a server's protocol: the request and the buffer of each slot, which slots are in
//! flight, and completions not yet returned.
//!
//! ```text
//! take ─► under way ─► end ─► ended ─► hand_out
//!  └──────────── counted as in flight ────────┘
//! ```
//! Invariant: an accepted request ends once, and only then is its slot reused.

use super::{Completion, EngineIo, EngineKind, FailureCause, NO_IO, SlotTable};
use crate::error::LoadError;
use crate::memory::IoMemory;
use raidlab_workload::IoOp;

/// What [`InFlight`] answers for an [`Engine`](super::Engine) that has it as its field `in_flight`.
macro_rules! told_by_in_flight {
    () => {
        fn in_flight_max(&self) -> u32 {
            self.in_flight.count_max()
        }

        fn in_flight(&self) -> u32 {
            self.in_flight.count()
        }

        fn buffer(&mut self, io: &EngineIo) -> Option<&mut [u8]> {
            self.in_flight.buffer(io)
        }

        fn io(&self, slot: u32) -> EngineIo {
            self.in_flight.io(slot)
        }
    };
}
pub(super) use told_by_in_flight;

/// A slot.
#[derive(Clone, Copy, Debug)]
struct Place {
    /// The request that it has or last had.
    io: EngineIo,
    is_under_way: bool,
}

/// The requests in flight of one engine.
#[derive(Debug)]
pub(super) struct InFlight {
    memory: IoMemory,
    table: SlotTable,
    places: Vec<Place>,
    count: u32,
    ended: Vec<Completion>,
}

impl InFlight {
    /// Returns none, with room for those of `table` in `memory`.
    ///
    /// # Errors
    /// [`LoadError::Iodepth`] for other than 1 to `iodepth_max` requests in flight on each target.
    pub(super) fn new(
        kind: EngineKind,
        table: SlotTable,
        iodepth_max: u32,
        memory: IoMemory,
    ) -> Result<Self, LoadError> {
        let iodepth = table.iodepth;
        if !(1..=iodepth_max).contains(&iodepth) {
            return Err(LoadError::Iodepth { engine: kind.name(), iodepth_max, iodepth });
        }
        Ok(Self {
            memory,
            table,
            places: vec![Place { io: NO_IO, is_under_way: false }; table.slots()],
            count: 0,
            ended: Vec::with_capacity(table.slots()),
        })
    }

    /// Takes `io` in; what it writes is made unlike all that was written before.
    #[inline]
    pub(super) fn take(&mut self, io: EngineIo) {
        if io.op == IoOp::Write {
            self.memory.stamp(self.table.buffer_of(io.slot), io.bytes);
        }
        self.places[io.slot as usize] = Place { io, is_under_way: true };
        self.count += 1;
    }

    /// Returns the request that has or last had `slot`.
    #[inline]
    pub(super) fn io(&self, slot: u32) -> EngineIo {
        self.places[slot as usize].io
    }

    /// Whether the request in `slot` did not end yet.
    pub(super) fn is_under_way(&self, slot: u32) -> bool {
        self.places[slot as usize].is_under_way
    }

    /// Returns the memory of the request in `slot`, which moves bytes: as many as it asks for.
    #[inline]
    pub(super) fn bytes_of(&mut self, slot: u32) -> &mut [u8] {
        let EngineIo { op, bytes, .. } = self.io(slot);
        self.memory.buffer(op, self.table.buffer_of(slot), bytes)
    }

    /// Returns the memory that `io` writes from or reads into, if it moves bytes.
    pub(super) fn buffer(&mut self, io: &EngineIo) -> Option<&mut [u8]> {
        io.op.moves_bytes().then(|| self.memory.buffer(io.op, self.table.buffer_of(io.slot), io.bytes))
    }

    /// Ends the request in `slot`.
    #[inline]
    pub(super) fn end(&mut self, slot: u32, failure: Option<FailureCause>) {
        let place = &mut self.places[slot as usize];
        assert!(place.is_under_way, "an end belongs to a request");
        place.is_under_way = false;
        self.ended.push(Completion { slot, failure });
    }

    /// Ends all requests to `target`, whose connection is gone.
    #[cold]
    pub(super) fn disconnect(&mut self, target: u32) {
        for slot in 0..self.places.len() as u32 {
            if self.is_under_way(slot) && self.table.split(slot).0 == target {
                self.end(slot, Some(FailureCause::Disconnected));
            }
        }
    }

    /// Requests that ended and were not handed out.
    pub(super) fn ended(&self) -> u32 {
        self.ended.len() as u32
    }

    /// Appends the requests that ended to `done`.
    pub(super) fn hand_out(&mut self, done: &mut Vec<Completion>) {
        self.count -= self.ended.len() as u32;
        done.append(&mut self.ended);
    }

    /// Requests that were not handed out.
    pub(super) fn count(&self) -> u32 {
        self.count
    }

    /// The most of them that there can be.
    pub(super) fn count_max(&self) -> u32 {
        self.table.in_flight_max()
    }

    /// Never gives the memory back: something outside may still write to it.
    pub(super) fn leak_memory(&mut self) {
        self.memory.leak();
    }
}
