//! What is programmed next: data from the buffer, data that garbage collection moves, or parity.
//!
//! ```text
//!  buffer: a row of units ------------------+
//!  garbage: due --read--> loaded: a row ---+--> a die that is idle, while fewer program than allowed
//!  folding, chores: the same --------------+
//!  parity: after every so many rows --------+
//! ```
//! A row is what one program writes. For every programmed unit of the host, garbage collection owes as many as it
//! recently moved per unit: so the host is slowed down evenly, and not stopped. Rows of the host are whole unless a
//! flush waits; then they are padded.
//!
//! The host's rows go to the pseudo-SLC cache while it has room. It is folded when it exceeds its limit, when the host
//! waits for room in it, and, on some drives, while the drive is idle. Chores are the moves of wear levelling and
//! refresh and the write-backs of a partly cached map; they take time and wear, and whole superblocks change places.
//! Some drives also collect garbage ahead when idle.

use super::buffer::{Place, SectorMask, WriteBuffer};
use super::flash::Flash;
use super::map_cache::{MAP_PAGE, MapCache};
use super::model::{CellModel, FlashModel, IdleModel, UpkeepModel};
use super::placement::Placement;
use super::random::{scaled, spread};
use super::slc::{SlcCache, WhenFull};
use super::translation::Translation;
use raidlab_units::{ByteCount, NanoSpan, Nanos};

/// What draining works on.
pub(super) struct Parts<'a> {
    pub(super) buffer: &'a mut WriteBuffer,
    pub(super) translation: &'a mut Translation,
    pub(super) placement: &'a Placement,
    pub(super) flash: &'a mut Flash,
    pub(super) slc: Option<&'a mut SlcCache>,
    pub(super) map: Option<&'a mut MapCache>,
}

/// Where a row of the host's goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// To the pseudo-SLC cache.
    Cached,
    /// To all bits of the cells.
    Whole,
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
    /// How long the program took that ended last.
    ended_took: NanoSpan,
    /// What the host does when the pseudo-SLC cache is full; none without one.
    when_full: Option<WhenFull>,
    idle: Option<IdleModel>,
    is_idle: bool,
    /// The pseudo-SLC cache was full, and what is folded since makes room for what it gives back.
    is_closed: bool,
    /// Superblocks that are collected ahead of the host.
    ahead: usize,
    upkeep: Upkeep,
}

/// What is moved whether the host writes or not.
#[derive(Clone, Copy, Debug, Default)]
struct Upkeep {
    /// Units for each one of the host's.
    per_host_unit: f64,
    /// Units for each one that holds data, in a nanosecond.
    per_mapped_unit_ns: f64,
    /// Units that are due.
    due: f64,
    at: Nanos,
    moved: u64,
}

impl Upkeep {
    fn new(model: &UpkeepModel) -> Self {
        let per_ns = |refresh: NanoSpan| 1.0 / refresh.0.max(1) as f64;
        Self {
            per_host_unit: model.levelling_pct / 100.0,
            per_mapped_unit_ns: model.refresh.map_or(0.0, per_ns),
            ..Self::default()
        }
    }
}

impl Drain {
    pub(super) fn new(model: &FlashModel, full: SectorMask, superblocks: u16) -> Self {
        let (cells, unit): (&CellModel, _) = (&model.cells, model.translation.unit);
        let ahead = model.idle.map_or(0.0, |idle| idle.collect_pct / 100.0 * f64::from(superblocks));
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
            ended_took: NanoSpan::ZERO,
            when_full: model.slc.map(|slc| slc.when_full),
            idle: model.idle,
            is_idle: false,
            is_closed: false,
            ahead: ahead.ceil() as usize,
            upkeep: Upkeep::new(&model.upkeep),
        }
    }

    /// Takes in whether the host has been quiet for as long as this drive waits for.
    pub(super) fn set_idle(&mut self, is_idle: bool) {
        self.is_idle = is_idle;
        self.is_closed &= !is_idle;
    }

    /// Units moved by wear levelling, by refresh, and for the map.
    pub(super) fn upkeep_units(&self) -> u64 {
        self.upkeep.moved
    }

    /// How long the program took that ended last.
    pub(super) fn ended_took(&self) -> NanoSpan {
        self.ended_took
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
        if let Some(begun) = self.poll_background(now, parts) {
            return Some(begun);
        }
        if self.programming == self.programs_at_once {
            return None;
        }
        if self.parity_every > 0 && self.rows_since_parity >= self.parity_every {
            self.rows_since_parity = 0;
            return Some(self.program(now, now, parts, vec![]));
        }
        if self.loaded > 0 {
            self.loaded -= 1;
            self.credit = (self.credit - self.row_units as f64).max(0.0);
            self.rows_since_parity += 1;
            return Some(self.program(now, now, parts, vec![]));
        }
        // Where garbage collection is far behind, the host waits for it.
        let is_behind = self.credit > self.row_units as f64 * f64::from(2 * self.programs_at_once);
        if is_behind && self.loading > 0 {
            return None;
        }
        let way = if self.when_full.is_some() { self.way(parts)? } else { Way::Whole };
        let row = if way == Way::Cached { self.run_units } else { self.row_units };
        if parts.buffer.gathering() as u64 >= row || parts.buffer.must_drain() {
            return Some(self.program_host_row(now, parts, way));
        }
        None
    }

    /// Begins to read what is moved beside garbage: what is folded, what upkeep is due, and while the drive is idle what makes
    /// room for later.
    fn poll_background(&mut self, now: Nanos, parts: &mut Parts<'_>) -> Option<(Nanos, Begun)> {
        if self.loading + self.loaded >= self.programs_at_once {
            return None;
        }
        if self.upkeep.per_mapped_unit_ns > 0.0 {
            self.refresh(now, parts);
        }
        if self.upkeep.due >= self.row_units as f64 {
            self.upkeep.due -= self.row_units as f64;
            self.upkeep.moved += self.row_units;
            self.credit += self.row_units as f64;
            return Some(self.load_row(now, parts, 1.0));
        }
        if self.when_full.is_some() && self.must_fold(parts) {
            return Some(self.load_folded(now, parts));
        }
        if !self.is_idle || self.ahead == 0 || self.loading + self.loaded > 0 {
            return None;
        }
        while self.credit < self.row_units as f64 {
            self.credit += parts.translation.collect_ahead(self.ahead)? as f64;
        }
        Some(self.load(now, parts))
    }

    /// Takes in that time has passed. What was due while the drive was idle has been done then.
    fn refresh(&mut self, now: Nanos, parts: &Parts<'_>) {
        let Upkeep { per_mapped_unit_ns, due, at, moved, .. } = &mut self.upkeep;
        let most = (self.row_units * u64::from(self.programs_at_once)) as f64;
        let more = parts.translation.mapped_units() as f64 * *per_mapped_unit_ns * (now - *at).0 as f64;
        let left = (*due + more).min(most.max(*due));
        *moved += (*due + more - left) as u64;
        (*due, *at) = (left, now);
    }

    /// Whether the pseudo-SLC cache has to be folded, or can be.
    fn must_fold(&self, parts: &Parts<'_>) -> bool {
        let Some(slc) = &parts.slc else { return false };
        if slc.is_empty() {
            return false;
        }
        let mapped = parts.translation.mapped_units();
        let gathering = parts.buffer.gathering() as u64;
        let host_waits = gathering >= self.run_units || parts.buffer.must_drain();
        slc.excess(mapped) > 0
            || (self.is_idle && self.idle.is_some_and(|idle| idle.folds))
            || (self.when_full == Some(WhenFull::Fold) && host_waits && !slc.has_room(self.run_units, mapped))
    }

    /// Where the next row of the host's goes; none if it has to wait. Once past the cache it stays there until the drive is
    /// idle, or all was folded.
    fn way(&mut self, parts: &Parts<'_>) -> Option<Way> {
        let slc = parts.slc.as_ref()?;
        let mapped = parts.translation.mapped_units();
        self.is_closed &= !slc.is_empty();
        if !self.is_closed && slc.has_room(self.run_units, mapped) {
            return Some(Way::Cached);
        }
        self.is_closed = self.when_full == Some(WhenFull::Direct);
        let far = self.row_units * u64::from(2 * self.programs_at_once);
        match self.when_full? {
            WhenFull::Direct if slc.excess(mapped) <= far => Some(Way::Whole),
            WhenFull::Fold if slc.is_empty() => Some(Way::Whole),
            WhenFull::Direct | WhenFull::Fold => None,
        }
    }

    /// Reads a row of what is folded.
    fn load_folded(&mut self, now: Nanos, parts: &mut Parts<'_>) -> (Nanos, Begun) {
        let slc = parts.slc.as_mut().expect("it has to be folded");
        let share = slc.valid_share();
        let (_, begun) = slc.fold_row(self.row_units);
        if begun.units > 0 {
            parts.translation.write_many(&begun.groups, begun.units);
        }
        self.credit += self.row_units as f64 * (1.0 + parts.translation.due_per_unit());
        let pages = self.pages_of_row(share);
        let bytes = ByteCount(self.row_units * self.unit.0 / pages);
        let mut ready = now;
        for _ in 0..pages {
            let (die, _) = self.next_load(now, parts.flash);
            ready = ready.max(parts.flash.read_slc(now, die, bytes));
        }
        self.loading += 1;
        (ready, Begun::Load)
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
        flash: &Flash,
        buffer: &mut WriteBuffer,
    ) -> Option<Nanos> {
        let ended = &mut self.flights[flight as usize];
        let end = flash.program_end(ended.die);
        if end > now {
            return Some(end);
        }
        self.ended_took = flash.program_time(ended.die);
        for place in ended.places.drain(..) {
            buffer.release(place);
        }
        self.programming -= 1;
        self.free_flights.push(flight);
        None
    }

    fn program_host_row(&mut self, now: Nanos, parts: &mut Parts<'_>, way: Way) -> (Nanos, Begun) {
        let due_per_unit = parts.translation.due_per_unit();
        let mut places = self.spare_places();
        let mut ready = now;
        let row = if way == Way::Cached { self.run_units } else { self.row_units };
        for _ in 0..row {
            let Some((place, unit, mask)) = parts.buffer.take() else { break };
            if mask != self.full {
                ready = ready.max(self.read_rest(now, parts, unit));
            }
            if parts.map.is_some() {
                ready = ready.max(self.look_up(now, parts, unit));
            }
            parts.write(unit, way);
            places.push(place);
        }
        let taken = places.len() as u64;
        if taken < row {
            parts.pad(row - taken, way);
        }
        self.upkeep.due += row as f64 * self.upkeep.per_host_unit;
        // What the cache takes has no parity: it is a row of its own in a block of its own.
        if way == Way::Whole {
            self.rows_since_parity += 1;
            self.credit += self.row_units as f64 * due_per_unit;
            return self.program(now, ready, parts, places);
        }
        let die = parts.flash.next_idle_die(now);
        let end = parts.flash.program_slc(now, ready, die);
        self.begin_flight(die, end, places)
    }

    /// Reads the unit of which the host wrote a part only, if there is anything to read; it is written with that part.
    fn read_rest(&self, now: Nanos, parts: &mut Parts<'_>, unit: u64) -> Nanos {
        let page = parts.placement.page(unit);
        if parts.is_cached(unit) {
            return parts.flash.read_slc(now, page.die, self.unit);
        }
        if parts.translation.is_written(unit) {
            return parts.flash.read(now, page.die, self.unit, page.hash, u64::MAX);
        }
        now
    }

    /// Has the map page of a unit that is written here, and what it puts out written back; when it is here.
    fn look_up(&mut self, now: Nanos, parts: &mut Parts<'_>, unit: u64) -> Nanos {
        let Some(map) = &mut parts.map else { return now };
        let touched = map.touch(MapCache::page_of(unit), true);
        if touched.writes_back {
            self.upkeep.due += MAP_PAGE.0 as f64 / self.unit.0 as f64;
        }
        if !touched.is_missed {
            return now;
        }
        let (die, hash) = self.next_load(now, parts.flash);
        parts.flash.read(now, die, MAP_PAGE, hash, u64::MAX)
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
        self.begin_flight(die, end, places)
    }

    fn begin_flight(&mut self, die: u32, end: Nanos, places: Vec<Place>) -> (Nanos, Begun) {
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
        let share = parts.translation.victim_share();
        self.load_row(now, parts, share)
    }

    /// Reads a row from pages of which this share is valid.
    fn load_row(&mut self, now: Nanos, parts: &mut Parts<'_>, share: f64) -> (Nanos, Begun) {
        let pages = self.pages_of_row(share);
        let bytes = ByteCount(self.row_units * self.unit.0 / pages);
        let mut ready = now;
        for _ in 0..pages {
            let (die, hash) = self.next_load(now, parts.flash);
            ready = ready.max(parts.flash.read(now, die, bytes, hash, u64::MAX));
        }
        self.loading += 1;
        (ready, Begun::Load)
    }

    fn pages_of_row(&self, share: f64) -> u64 {
        let valid = (self.run_units as f64 * share).max(1.0);
        (self.row_units as f64 / valid).ceil() as u64
    }

    /// Die and kind of the next page that is read to be moved.
    fn next_load(&mut self, now: Nanos, flash: &Flash) -> (u32, u64) {
        self.loads += 1;
        let hash = spread(self.loads);
        (flash.idle_die_from(now, scaled(hash, self.dies) as u32), hash)
    }
}

impl Parts<'_> {
    /// Whether the newest data of `unit` are in the pseudo-SLC cache.
    fn is_cached(&self, unit: u64) -> bool {
        self.slc.as_ref().is_some_and(|slc| slc.holds(self.translation.group(unit)))
    }

    /// Takes in that `unit` is programmed.
    #[inline]
    fn write(&mut self, unit: u64, way: Way) {
        let Some(slc) = &mut self.slc else { return self.translation.write(unit) };
        let followed = self.translation.followed(unit);
        if way == Way::Cached {
            let was_outside = followed.is_some_and(|group| self.translation.forget(group));
            return slc.put(followed, was_outside);
        }
        if let Some(group) = followed {
            slc.forget(group);
        }
        self.translation.write(unit);
    }

    /// Takes in that room for `units` is used up without data.
    fn pad(&mut self, units: u64, way: Way) {
        match &mut self.slc {
            Some(slc) if way == Way::Cached => slc.pad(units),
            _ => self.translation.pad(units),
        }
    }
}
