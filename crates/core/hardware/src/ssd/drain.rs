//! What goes to flash next: data from the buffer, data that garbage collection moves, or parity.
//!
//! ```text
//!  buffer: a row of units ------------------+
//!  garbage: due --read--> loaded: a row ---+--> a die that is idle, while fewer program than may
//!  parity: after every so many rows --------+
//! ```
//! A row is what one program writes. For every unit of the host's that is programmed, garbage collection is due for as many as
//! it lately moved for one: so the host is slowed down evenly, and not stopped. Rows of the host are whole but where a flush waits; then they are filled up.
//!
//! Left out: collecting while the host does not write.

use super::buffer::{Place, SectorMask, WriteBuffer};
use super::flash::Flash;
use super::model::CellModel;
use super::placement::Placement;
use super::random::{scaled, spread};
use super::translation::Translation;
use raidlab_units::{ByteCount, Nanos};

/// What draining works on.
pub(super) struct Parts<'a> {
    pub(super) buffer: &'a mut WriteBuffer,
    pub(super) translation: &'a mut Translation,
    pub(super) placement: &'a Placement,
    pub(super) flash: &'a mut Flash,
}

/// What [`Drain::poll`] has begun, with the time at which it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Begun {
    /// A program: the number of its flight.
    Program(u32),
    /// Reading a row that garbage collection moves.
    Load,
}

/// A program under way.
#[derive(Clone, Debug, Default)]
struct Flight {
    die: u32,
    /// Places in the buffer that it frees.
    places: Vec<Place>,
}

/// The state of draining.
#[derive(Clone, Debug)]
pub(super) struct Drain {
    row_units: u64,
    unit: ByteCount,
    /// Units that lie together in what is sensed at once.
    run_units: u64,
    full: SectorMask,
    programs_at_once: u32,
    parity_every: u32,
    dies: u64,
    programming: u32,
    flights: Vec<Flight>,
    free_flights: Vec<u32>,
    /// Units that garbage collection may program by now.
    credit: f64,
    loading: u32,
    loaded: u32,
    rows_since_parity: u32,
    rows: u64,
    loads: u64,
}

impl Drain {
    pub(super) fn new(cells: &CellModel, unit: ByteCount, full: SectorMask) -> Self {
        let in_row = |bytes: u64| (bytes / unit.0).max(1);
        Self {
            row_units: in_row(cells.program_bytes().0),
            unit,
            run_units: in_row(u64::from(cells.planes) * cells.page.0),
            full,
            programs_at_once: cells.programs_at_once,
            parity_every: cells.parity_every,
            dies: u64::from(cells.dies()),
            programming: 0,
            flights: vec![],
            free_flights: vec![],
            credit: 0.0,
            loading: 0,
            loaded: 0,
            rows_since_parity: 0,
            rows: 0,
            loads: 0,
        }
    }

    /// Rows programmed so far, parity included.
    pub(super) fn rows(&self) -> u64 {
        self.rows
    }

    /// Begins the next thing that can be begun.
    pub(super) fn poll(&mut self, now: Nanos, parts: &mut Parts<'_>) -> Option<(Nanos, Begun)> {
        if self.credit >= self.row_units as f64 * f64::from(self.loading + self.loaded + 1)
            && self.loading + self.loaded < self.programs_at_once
        {
            return Some(self.load(now, parts));
        }
        if self.programming == self.programs_at_once {
            return None;
        }
        if self.parity_every > 0 && self.rows_since_parity >= self.parity_every {
            self.rows_since_parity = 0;
            return Some(self.program(now, now, parts, vec![]));
        }
        let gathering = parts.buffer.gathering() as u64;
        let is_host_ready = gathering >= self.row_units || parts.buffer.must_drain();
        if self.loaded > 0 {
            self.loaded -= 1;
            self.credit = (self.credit - self.row_units as f64).max(0.0);
            self.rows_since_parity += 1;
            return Some(self.program(now, now, parts, vec![]));
        }
        // Where garbage collection is far behind, the host waits for it.
        let is_behind = self.credit > self.row_units as f64 * f64::from(2 * self.programs_at_once);
        if is_host_ready && !(is_behind && self.loading > 0) {
            self.rows_since_parity += 1;
            return Some(self.program_host_row(now, parts));
        }
        None
    }

    /// Takes in that a row to be moved has been read.
    pub(super) fn handle_loaded(&mut self) {
        self.loading -= 1;
        self.loaded += 1;
    }

    /// Takes in that the time of a program has come; if it was suspended, the time at which it ends.
    pub(super) fn handle_programmed(
        &mut self,
        now: Nanos,
        flight: u32,
        parts: &mut Parts<'_>,
    ) -> Option<Nanos> {
        let ended = &mut self.flights[flight as usize];
        let end = parts.flash.program_end(ended.die);
        if end > now {
            return Some(end);
        }
        for place in ended.places.drain(..) {
            parts.buffer.release(place);
        }
        self.programming -= 1;
        self.free_flights.push(flight);
        None
    }

    fn program_host_row(&mut self, now: Nanos, parts: &mut Parts<'_>) -> (Nanos, Begun) {
        let due_per_unit = parts.translation.due_per_unit();
        let mut places = self.spare_places();
        let mut ready = now;
        for _ in 0..self.row_units {
            let Some((place, unit, mask)) = parts.buffer.take() else { break };
            if mask != self.full && parts.translation.is_written(unit) {
                // The rest of the unit is read and written with it.
                let page = parts.placement.page(unit);
                ready = ready.max(parts.flash.read(now, page.die, self.unit, page.hash, u64::MAX));
            }
            parts.translation.write(unit);
            places.push(place);
        }
        let taken = places.len() as u64;
        if taken < self.row_units {
            parts.translation.pad(self.row_units - taken);
        }
        self.credit += self.row_units as f64 * due_per_unit;
        self.program(now, ready, parts, places)
    }

    /// A list of places to fill: that of a flight that is over, if there is one.
    fn spare_places(&mut self) -> Vec<Place> {
        let last = self.free_flights.last().copied();
        last.map(|flight| core::mem::take(&mut self.flights[flight as usize].places)).unwrap_or_default()
    }

    fn program(
        &mut self,
        now: Nanos,
        ready: Nanos,
        parts: &mut Parts<'_>,
        places: Vec<Place>,
    ) -> (Nanos, Begun) {
        let die = parts.flash.next_idle_die(now);
        let end = parts.flash.program(now, ready, die);
        let flight = self.free_flights.pop().unwrap_or_else(|| {
            self.flights.push(Flight::default());
            self.flights.len() as u32 - 1
        });
        let started = &mut self.flights[flight as usize];
        started.die = die;
        // A row without the host's data keeps the list that its flight has.
        if !places.is_empty() {
            started.places = places;
        }
        self.programming += 1;
        self.rows += 1;
        (end, Begun::Program(flight))
    }

    /// Reads a row that garbage collection moves: what is valid in as many pages as it takes.
    fn load(&mut self, now: Nanos, parts: &mut Parts<'_>) -> (Nanos, Begun) {
        parts.translation.pay(self.row_units);
        let valid = (self.run_units as f64 * parts.translation.victim_share()).max(1.0);
        let pages = (self.row_units as f64 / valid).ceil() as u64;
        let bytes = ByteCount(self.row_units * self.unit.0 / pages);
        let mut ready = now;
        for _ in 0..pages {
            self.loads += 1;
            let hash = spread(self.loads);
            let die = parts.flash.idle_die_from(now, scaled(hash, self.dies) as u32);
            ready = ready.max(parts.flash.read(now, die, bytes, hash, u64::MAX));
        }
        self.loading += 1;
        (ready, Begun::Load)
    }
}
