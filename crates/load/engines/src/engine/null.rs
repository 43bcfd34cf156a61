//! The engine that does nothing: requests complete when they are polled. The cost of a load on it is that of the load
//! generator: the random draw, the time stamps, the histogram, the loop.

use super::{Completion, Engine, EngineIo, EngineKind, NO_IO, SlotTable};
use raidlab_units::NanoSpan;
use rustix::io::Errno;
use std::time::Duration;

/// Ends what it is given.
#[derive(Debug)]
pub struct NullEngine {
    table: SlotTable,
    ended: Vec<Completion>,
    /// The last request of each slot.
    ios: Vec<EngineIo>,
}

impl NullEngine {
    /// Returns the engine with the slots of `table`.
    pub fn new(table: SlotTable) -> Self {
        let ended = Vec::with_capacity(table.in_flight_max() as usize);
        Self { table, ended, ios: vec![NO_IO; table.slots()] }
    }
}

impl Engine for NullEngine {
    fn name(&self) -> &'static str {
        EngineKind::Null.name()
    }

    #[inline]
    fn submit(&mut self, io: EngineIo) {
        self.ios[io.slot as usize] = io;
        self.ended.push(Completion { slot: io.slot, failure: None });
    }

    fn flush(&mut self) -> Result<(), Errno> {
        Ok(())
    }

    fn ready(&mut self) -> u32 {
        self.in_flight()
    }

    #[inline]
    fn reap(&mut self, at_most: NanoSpan, done: &mut Vec<Completion>) -> Result<(), Errno> {
        if self.ended.is_empty() {
            std::thread::sleep(Duration::from_nanos(at_most.get()));
        }
        done.append(&mut self.ended);
        Ok(())
    }

    fn in_flight_max(&self) -> u32 {
        self.table.in_flight_max()
    }

    #[inline]
    fn in_flight(&self) -> u32 {
        self.ended.len() as u32
    }

    fn io(&self, slot: u32) -> EngineIo {
        self.ios[slot as usize]
    }
}
