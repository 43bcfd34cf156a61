//! A cache of objects on storage.
//!
//! ```text
//! ring   |trimmed|  new ─►  | oldest .......... newest |      a miss writes at the head, over the oldest
//! ```
//! A key is drawn by popularity. One that is in the ring is read; another is written at the head of the ring, and what lay
//! there is evicted. Before a run the ring is filled as so many requests would have filled it, without any I/O, so that a run
//! starts with a cache in its steady state.

use super::{Due, Extent, Window, request};
use crate::actor::ObjectCache;
use crate::driver::{DriverConfig, DriverError};
use crate::op::IoOp;
use crate::places::Places;
use crate::result::CacheStats;
use crate::rng::{Rng, derived_seed};
use crate::sampler::Sampler;
use crate::stream::Request;
use raidlab_units::Nanos;

const DRAWS_STREAM: u64 = 913;
const SAMPLER_STREAM: u64 = 914;
/// Requests that fill the ring at most, for each of its places.
const FILL_DRAWS_PER_PLACE: u64 = 20;
/// A place without an object.
const EMPTY: u32 = u32::MAX;

/// A cache at work.
#[derive(Debug)]
pub(in crate::driver) struct Caching {
    it: ObjectCache,
    extent: Extent,
    sampler: Option<Box<Sampler>>,
    rng: Rng,
    /// The key in each place, and the place of each key.
    keys: Vec<u32>,
    places_of: Vec<u32>,
    head: u32,
    /// Up to here, from the start of the ring, the head's lap is trimmed.
    trimmed: u64,
    owes_write: bool,
    in_flight: u32,
    window: Window,
    stats: CacheStats,
}

impl Caching {
    pub(super) fn new(
        name: &str,
        it: &ObjectCache,
        (extent, places): (Extent, &Places),
        config: &DriverConfig,
    ) -> Result<Self, DriverError> {
        let iodepth = config.worker.share_of(u64::from(it.iodepth)) as u32;
        let it = ObjectCache { iodepth, ..it.clone() };
        extent.check_blocks(name, "object_size", it.object_bytes)?;
        let ring = (extent.bytes / u64::from(it.object_bytes)).min(it.objects).min(u64::from(EMPTY) - 1);
        let mut made = Self {
            sampler: Sampler::new(places, it.objects, derived_seed(config.seed, SAMPLER_STREAM))
                .map(Box::new),
            rng: Rng::new(derived_seed(config.seed, DRAWS_STREAM)),
            keys: vec![EMPTY; ring as usize],
            places_of: if it.hit_pct.is_none() { vec![EMPTY; it.objects as usize] } else { Vec::new() },
            head: 0,
            trimmed: 0,
            owes_write: false,
            in_flight: 0,
            window: Window::default(),
            stats: CacheStats::default(),
            extent,
            it,
        };
        made.fill();
        Ok(made)
    }

    fn fill(&mut self) {
        if self.it.hit_pct.is_some() {
            return;
        }
        let ring = self.keys.len() as u64;
        for _ in 0..ring * FILL_DRAWS_PER_PLACE {
            let key = self.draw();
            if self.places_of[key as usize] == EMPTY {
                self.note_head(key);
                self.advance();
                if self.head == 0 {
                    return;
                }
            }
        }
    }

    pub(super) fn places(&self) -> u32 {
        self.it.iodepth
    }

    pub(super) fn start(&mut self, window: Window) {
        self.window = window;
    }

    pub(super) fn due(&mut self, now: Nanos) -> Due {
        if self.in_flight == self.it.iodepth {
            return Due::AfterCompletion;
        }
        self.counts(now);
        Due::At(now)
    }

    /// Hits and misses count from the window's start on.
    fn counts(&mut self, now: Nanos) {
        if now < self.window.start && self.stats.gets > 0 {
            self.stats = CacheStats::default();
        }
    }

    fn draw(&mut self) -> u32 {
        match &mut self.sampler {
            Some(sampler) => sampler.draw(&mut self.rng) as u32,
            None => self.rng.below(self.it.objects) as u32,
        }
    }

    pub(super) fn take(&mut self) -> Request {
        self.in_flight += 1;
        if std::mem::take(&mut self.owes_write) {
            return self.write();
        }
        self.stats.gets += 1;
        let place = if let Some(pct) = self.it.hit_pct {
            let ring = self.keys.len() as u64;
            (self.rng.unit_f64() * 100.0 < pct).then(|| self.rng.below(ring) as u32)
        } else {
            let key = self.draw();
            let place = self.places_of[key as usize];
            if place == EMPTY {
                self.note_head(key);
            }
            (place != EMPTY).then_some(place)
        };
        if let Some(place) = place {
            self.stats.hits += 1;
            return request(IoOp::Read, self.offset(place), self.it.object_bytes);
        }
        if let Some(trim) = self.trim() {
            self.owes_write = true;
            return trim;
        }
        self.write()
    }

    /// Notes what lies at the head from now on, and that what lay there is gone.
    fn note_head(&mut self, key: u32) {
        let old = std::mem::replace(&mut self.keys[self.head as usize], key);
        if let Some(place) = self.places_of.get_mut(old as usize) {
            *place = EMPTY;
        }
        self.places_of[key as usize] = self.head;
    }

    fn advance(&mut self) {
        self.head += 1;
        if self.head as usize == self.keys.len() {
            (self.head, self.trimmed) = (0, 0);
        }
    }

    fn offset(&self, place: u32) -> u64 {
        self.extent.start + u64::from(place) * u64::from(self.it.object_bytes)
    }

    /// Trims ahead of the head, where that has not been done.
    fn trim(&mut self) -> Option<Request> {
        let piece = self.it.trim_bytes?.get();
        let object = u64::from(self.it.object_bytes);
        let (end, needed) = (self.keys.len() as u64 * object, (u64::from(self.head) + 1) * object);
        if self.trimmed >= needed {
            return None;
        }
        let from = self.trimmed;
        let to = (from + piece.next_multiple_of(object))
            .min(end)
            .min(from + u64::from(u32::MAX) / object * object);
        self.trimmed = to;
        Some(request(IoOp::Trim, self.extent.start + from, (to - from) as u32))
    }

    fn write(&mut self) -> Request {
        let made = request(IoOp::Write, self.offset(self.head), self.it.object_bytes);
        self.stats.evicted += 1;
        self.advance();
        made
    }

    pub(super) fn ended(&mut self) {
        self.in_flight -= 1;
    }

    pub(super) fn stats(&self) -> CacheStats {
        self.stats.clone()
    }
}
