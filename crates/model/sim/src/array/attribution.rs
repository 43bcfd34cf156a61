//! Where the time of each host request went: waiting and service along its critical path.
//!
//! A request is answered when the last thing that it waited for has ended: a member I/O, a memory task, or nothing.
//! That one was issued when something before it ended, and so on, back to the request's own arrival at the controller:
//! ```text
//!  issued ─ host link ─ processors ─►│ accepted                                    answered │─ host link ─► at the host
//!                                    ├─ read old data ─┬─ parity ─┬─ write data ──┤
//!                                    │  read old parity┘          └─ write parity ┘         each bar: line, link, drive ...
//! ```
//! Each member I/O and memory task carries the path that led to it, and adds its own times. So nothing is searched
//! afterwards, and nothing is allocated for an I/O.
//!
//! - **Law**: the parts of a request add up to its latency, to the nanosecond. It is asserted for each.
//! - A path begins anew at the end of something that others waited for: an answered request (locks), a destage (room in
//!   the cache), a rebuild's I/O, a timer. The request's wait before that is reported by *what it waited for*, not by
//!   what the others did meanwhile.
//! - Of work that began before a request came (a read that it joins), the last I/O counts, from the request's arrival
//!   on.
//!
//! Left out: of several drive commands that end in the same nanosecond of one event, the last counts as the cause.

use raidlab_controller::{IoClass, MemberIoId, MemoryTaskId};
use raidlab_hardware::DriveTimes;
use raidlab_units::{NanoSpan, Nanos};

raidlab_units::named! {
    /// Where time goes, on the way of a request.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Station {
        /// At the host: it starts late, or the controller that had it failed.
        Host = "host",
        /// The link to the host.
        HostLink = "host link",
        /// The processors of the controller or, of software, the host: commands, copies, parity where they compute it.
        Processors = "processors",
        /// The threads that change stripes, where it is Linux md.
        StripeThreads = "stripe threads",
        /// The engine beside them.
        ParityEngine = "parity engine",
        /// The link to the other controller, and that one's processors.
        MirrorLink = "mirror link",
        /// Others whose writes go with it.
        Gathering = "gathering of writes",
        /// Stripes that others work on.
        Lock = "stripe locks",
        /// Room in the cache, for which something must be destaged.
        CacheRoom = "room in the cache",
        /// The controller's line before a drive.
        MemberLine = "line of the member",
        /// The link to the members.
        MemberLink = "member link",
        /// The drives' firmware, rate limits and interfaces.
        DriveFront = "drives' firmware and interfaces",
        /// The drive's own queue.
        DriveQueue = "drives' queues",
        /// The drives' arms.
        Arm = "drives' arms",
        /// The drives' platters: rotation and transfer.
        Platters = "drives' platters",
        /// The drives' dies.
        Dies = "drives' dies",
        /// The drives' channels.
        Channels = "drives' channels",
        /// The drives' garbage collection.
        Collection = "drives' garbage collection",
    }
}

impl Station {
    /// What a member I/O or memory task passes, the end of it first.
    const BACKWARDS: [Self; 13] = [
        Self::MemberLink,
        Self::DriveFront,
        Self::Channels,
        Self::Dies,
        Self::Collection,
        Self::Platters,
        Self::Arm,
        Self::DriveQueue,
        Self::MemberLine,
        Self::MirrorLink,
        Self::ParityEngine,
        Self::StripeThreads,
        Self::Processors,
    ];
}

/// Waiting and service at one station, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stay {
    /// Before the station worked for it.
    pub waiting: u64,
    /// While it did.
    pub service: u64,
}

/// Nanoseconds by station.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stays([Stay; Station::ALL.len()]);

impl Stays {
    /// At `station`.
    pub const fn at(&self, station: Station) -> Stay {
        self.0[station as usize]
    }

    /// All of them together.
    pub fn total(&self) -> u64 {
        self.0.iter().map(|stay| stay.waiting + stay.service).sum()
    }

    #[inline]
    fn wait(&mut self, station: Station, span: NanoSpan) {
        self.0[station as usize].waiting += span.0;
    }

    #[inline]
    fn serve(&mut self, station: Station, span: NanoSpan) {
        self.0[station as usize].service += span.0;
    }

    #[inline]
    fn add(&mut self, other: &Self) {
        for (own, more) in self.0.iter_mut().zip(&other.0) {
            own.waiting += more.waiting;
            own.service += more.service;
        }
    }

    /// What of it was in the last `span`.
    fn last(&self, span: NanoSpan) -> Self {
        let (mut last, mut left) = (Self::default(), span.0);
        for station in Station::BACKWARDS {
            let own = self.at(station);
            let service = own.service.min(left);
            let waiting = own.waiting.min(left - service);
            left -= service + waiting;
            last.0[station as usize] = Stay { waiting, service };
        }
        assert_eq!(left, 0, "an I/O passes nothing but those stations");
        last
    }
}

/// What one resource did for something: it came at `now`, and was served for `span` until `end`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Visit {
    pub(super) station: Station,
    pub(super) now: Nanos,
    pub(super) span: NanoSpan,
    pub(super) end: Nanos,
}

impl Visit {
    #[inline]
    fn add_to(&self, stays: &mut Stays) {
        let whole = self.end - self.now;
        let service = self.span.min(whole);
        stays.serve(self.station, service);
        stays.wait(self.station, whole - service);
    }
}

/// A way from `origin` on.
#[derive(Clone, Copy, Debug)]
struct Path {
    origin: Nanos,
    /// What those who come along were waiting for before.
    before: Station,
    stays: Stays,
}

impl Path {
    fn from(origin: Nanos, before: Station) -> Self {
        Self { origin, before, stays: Stays::default() }
    }
}

/// A member I/O or memory task under way.
#[derive(Clone, Copy, Debug)]
struct Work {
    path: Path,
    issued: Nanos,
    /// Up to here `own` says where its time went.
    followed_to: Nanos,
    own: Stays,
}

impl Work {
    #[inline]
    fn visit(&mut self, visit: Visit) {
        visit.add_to(&mut self.own);
        self.followed_to = visit.end;
    }

    /// Counts what it waited since as waiting at `station`.
    #[inline]
    fn wait_until(&mut self, now: Nanos, station: Station) {
        self.own.wait(station, now - self.followed_to);
        self.followed_to = now;
    }

    /// A drive had it until `now`.
    fn leave_drive(&mut self, now: Nanos, times: DriveTimes) {
        let mut left = (now - self.followed_to).0;
        let mut most = |span: NanoSpan| {
            let span = span.0.min(left);
            left -= span;
            NanoSpan(span)
        };
        self.own.serve(Station::DriveFront, most(times.front));
        self.own.serve(Station::Platters, most(times.platters));
        self.own.serve(Station::Arm, most(times.arm));
        self.own.serve(Station::Channels, most(times.channels));
        self.own.serve(Station::Dies, most(times.dies));
        self.own.wait(Station::Channels, most(times.channels_waiting));
        self.own.wait(Station::Dies, most(times.dies_waiting));
        self.own.wait(Station::Collection, most(times.collection));
        self.own.wait(Station::DriveQueue, NanoSpan(left));
        self.followed_to = now;
    }
}

/// A request of the host.
#[derive(Clone, Copy, Debug)]
struct Request {
    issued: Nanos,
    accepted: Nanos,
    stays: Stays,
}

/// What a volume's requests wait for. Its methods are kept out of the world's loop, which mostly runs without it.
#[derive(Debug)]
pub(super) struct Attribution {
    requests: Vec<Request>,
    ios: Vec<Work>,
    tasks: Vec<Work>,
    /// What led to what the controller does now.
    path: Path,
    /// When that was.
    led_at: Nanos,
    /// When the last of it was asked for, and where its time went; the event itself where nothing was.
    last: Option<(Nanos, Stays)>,
    /// Where what comes of a request's end begins.
    has_answered: bool,
    tally: Tally,
}

impl Attribution {
    pub(super) fn new() -> Self {
        Self {
            requests: Vec::new(),
            ios: Vec::new(),
            tasks: Vec::new(),
            path: Path::from(Nanos::ZERO, Station::Gathering),
            led_at: Nanos::ZERO,
            last: None,
            has_answered: false,
            tally: Tally::default(),
        }
    }

    pub(super) fn tally(&self) -> &Tally {
        &self.tally
    }

    // Requests.

    /// The request of `slot`, whose latency runs from `issued` on, is sent.
    #[cold]
    pub(super) fn send(&mut self, slot: u32, issued: Nanos, now: Nanos) {
        let mut request = Request { issued, accepted: now, stays: Stays::default() };
        request.stays.wait(Station::Host, now - issued);
        put(&mut self.requests, slot, request);
    }

    /// Something before the controller has it.
    #[cold]
    pub(super) fn visit(&mut self, slot: u32, visit: Visit) {
        visit.add_to(&mut self.requests[slot as usize].stays);
    }

    /// The controller takes it. One that comes in place of one that was just answered leaves what led to that as it is: others
    /// may be answered with it.
    #[cold]
    pub(super) fn accept(&mut self, slot: u32, now: Nanos) {
        self.requests[slot as usize].accepted = now;
        if !self.has_answered {
            self.begin(now, Station::Gathering);
        }
    }

    /// Nothing more comes of what happened.
    #[cold]
    pub(super) fn settle(&mut self) {
        self.has_answered = false;
    }

    /// The controller has an answer, which is at the host after `visit`.
    #[cold]
    pub(super) fn complete(&mut self, slot: u32, visit: Visit) {
        let request = &mut self.requests[slot as usize];
        let (now, accepted) = (visit.now, request.accepted);
        match self.last {
            // The controller does it by itself.
            _ if self.led_at != now => request.stays.wait(Station::Lock, now - accepted),
            _ if self.path.origin >= accepted => {
                request.stays.wait(self.path.before, self.path.origin - accepted);
                request.stays.add(&self.path.stays);
            }
            Some((issued, own)) if issued >= accepted => {
                request.stays.wait(Station::Lock, issued - accepted);
                request.stays.add(&own);
            }
            Some((_, own)) => request.stays.add(&own.last(now - accepted)),
            None => request.stays.wait(Station::Lock, now - accepted),
        }
        visit.add_to(&mut request.stays);
        self.has_answered = true;
    }

    /// The answer is there; it is counted if it `counts`.
    #[cold]
    pub(super) fn answer(&mut self, slot: u32, now: Nanos, counts: bool) {
        let Request { issued, stays, .. } = &self.requests[slot as usize];
        let lat = (now - *issued).0;
        assert_eq!(stays.total(), lat, "the parts of a request add up to its latency");
        if counts {
            self.tally.count(lat, stays);
        }
    }

    // What the controller asks for.

    /// Something happens that nothing led to; those who come along now were waiting for `before`.
    #[cold]
    pub(super) fn begin(&mut self, now: Nanos, before: Station) {
        self.path = Path::from(now, before);
        self.led_at = now;
        self.last = None;
        self.has_answered = false;
    }

    fn work(&self, now: Nanos, visit: Visit) -> Work {
        let is_led = self.led_at == now && !self.has_answered;
        let path = if is_led { self.path } else { Path::from(now, Station::Lock) };
        let mut work = Work { path, issued: now, followed_to: now, own: Stays::default() };
        work.visit(visit);
        work
    }

    /// A member I/O is asked for, of which `visit` makes a command.
    #[cold]
    pub(super) fn command(&mut self, id: MemberIoId, visit: Visit) {
        let work = self.work(visit.now, visit);
        put(&mut self.ios, id.0, work);
    }

    /// It leaves the line of its member.
    #[cold]
    pub(super) fn admit(&mut self, id: MemberIoId, now: Nanos) {
        self.ios[id.0 as usize].wait_until(now, Station::MemberLine);
    }

    /// Its data pass the member link.
    #[cold]
    pub(super) fn transfer(&mut self, id: MemberIoId, visit: Visit) {
        self.ios[id.0 as usize].visit(visit);
    }

    /// The drive has done it.
    #[cold]
    pub(super) fn leave_drive(&mut self, id: MemberIoId, now: Nanos, times: DriveTimes) {
        self.ios[id.0 as usize].leave_drive(now, times);
    }

    /// The controller hears of its end.
    #[cold]
    pub(super) fn end_io(&mut self, id: MemberIoId, class: IoClass, now: Nanos) {
        let mut work = self.ios[id.0 as usize];
        work.wait_until(now, Station::MemberLine);
        match class {
            IoClass::Host | IoClass::ReadAhead => self.follow(&work),
            IoClass::Destage => self.begin(now, Station::CacheRoom),
            IoClass::Background => self.begin(now, Station::Lock),
        }
    }

    /// A memory task is asked for; `visits` follow each other.
    #[cold]
    pub(super) fn compute(&mut self, id: MemoryTaskId, visits: [Visit; 2]) {
        let mut work = self.work(visits[0].now, visits[0]);
        work.visit(visits[1]);
        put(&mut self.tasks, id.0, work);
    }

    /// It is done.
    #[cold]
    pub(super) fn end_task(&mut self, id: MemoryTaskId) {
        let work = self.tasks[id.0 as usize];
        self.follow(&work);
    }

    fn follow(&mut self, work: &Work) {
        self.path = work.path;
        self.path.stays.add(&work.own);
        self.led_at = work.followed_to;
        self.last = Some((work.issued, work.own));
        self.has_answered = false;
    }
}

/// Puts `value` at `index`, whatever was there.
fn put<T: Copy>(all: &mut Vec<T>, index: u32, value: T) {
    let index = index as usize;
    if index >= all.len() {
        all.resize(index + 1, value);
    }
    all[index] = value;
}

/// Bins of latency for each power of two.
const BINS_PER_OCTAVE: usize = 16;

/// Requests and where their time went, by latency.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    bins: Vec<Bin>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Bin {
    requests: u64,
    lat_ns: u64,
    stays: Stays,
}

impl Bin {
    fn add(&mut self, other: &Self) {
        self.requests += other.requests;
        self.lat_ns += other.lat_ns;
        self.stays.add(&other.stays);
    }
}

impl Tally {
    fn count(&mut self, lat_ns: u64, stays: &Stays) {
        if self.bins.is_empty() {
            self.bins = vec![Bin::default(); 64 * BINS_PER_OCTAVE];
        }
        let octave = lat_ns.max(1).ilog2();
        let within = (u128::from(lat_ns) << 4 >> octave) as usize % BINS_PER_OCTAVE;
        let bin = &mut self.bins[octave as usize * BINS_PER_OCTAVE + within];
        bin.add(&Bin { requests: 1, lat_ns, stays: *stays });
    }

    pub(super) fn merge(&mut self, other: &Self) {
        if self.bins.is_empty() {
            self.bins.clone_from(&other.bins);
        } else {
            self.bins.iter_mut().zip(&other.bins).for_each(|(own, more)| own.add(more));
        }
    }

    /// What came of it; nothing if nothing was counted.
    pub(super) fn outcome(&self) -> Option<TimesOutcome> {
        let mut all = Bin::default();
        self.bins.iter().for_each(|bin| all.add(bin));
        let slowest = all.requests.div_ceil(100);
        let (mut left, mut share) = (slowest, [StayMean::default(); Station::ALL.len()]);
        for bin in self.bins.iter().rev().filter(|bin| bin.requests > 0) {
            // Of the bin in which the slowest ones end, all requests count alike.
            let taken = left.min(bin.requests);
            let weight = taken as f64 / bin.requests as f64 / slowest as f64;
            share.iter_mut().zip(&bin.stays.0).for_each(|(own, stay)| own.add(*stay, weight));
            left -= taken;
            if left == 0 {
                break;
            }
        }
        (all.requests > 0).then_some(TimesOutcome {
            requests: all.requests,
            lat_ns: all.lat_ns,
            stays: all.stays,
            slowest_requests: slowest,
            slowest: share,
        })
    }
}

/// Mean waiting and service at one station, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StayMean {
    /// Before the station worked.
    pub waiting: f64,
    /// While it did.
    pub service: f64,
}

impl StayMean {
    fn add(&mut self, stay: Stay, weight: f64) {
        self.waiting += stay.waiting as f64 * weight;
        self.service += stay.service as f64 * weight;
    }
}

/// Where the time of all requests of the measured window went.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TimesOutcome {
    /// How many: those that moved bytes and succeeded.
    pub requests: u64,
    /// Their latencies, together.
    pub lat_ns: u64,
    /// The same by station.
    pub stays: Stays,
    /// The slowest of them: one in a hundred, rounded up.
    pub slowest_requests: u64,
    slowest: [StayMean; Station::ALL.len()],
}

impl TimesOutcome {
    /// Mean of all requests at `station`.
    pub fn mean(&self, station: Station) -> StayMean {
        let mut mean = StayMean::default();
        mean.add(self.stays.at(station), 1.0 / self.requests as f64);
        mean
    }

    /// Mean of the slowest ones at `station`.
    pub const fn slowest_mean(&self, station: Station) -> StayMean {
        self.slowest[station as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_are_one_in_a_hundred() {
        let mut tally = Tally::default();
        for _ in 0..990 {
            let mut stays = Stays::default();
            stays.serve(Station::Dies, NanoSpan(100));
            tally.count(100, &stays);
        }
        for _ in 0..10 {
            let mut stays = Stays::default();
            stays.wait(Station::Lock, NanoSpan(1000));
            tally.count(1000, &stays);
        }
        let outcome = tally.outcome().expect("requests were counted");
        assert_eq!((outcome.requests, outcome.slowest_requests), (1000, 10));
        assert_eq!(outcome.stays.total(), outcome.lat_ns);
        assert!((outcome.slowest_mean(Station::Lock).waiting - 1000.0).abs() < 1e-6, "{outcome:?}");
        assert!((outcome.mean(Station::Dies).service - 99.0).abs() < 1e-6, "{outcome:?}");
        assert_eq!(outcome.slowest_mean(Station::Dies), StayMean::default());
    }

    #[test]
    fn the_end_of_an_io_is_what_it_passed_last() {
        let mut own = Stays::default();
        own.serve(Station::Processors, NanoSpan(10));
        own.wait(Station::DriveQueue, NanoSpan(20));
        own.serve(Station::Arm, NanoSpan(30));
        let rows = [(5, 5, 0), (30, 30, 0), (41, 30, 11), (60, 30, 20)];
        for (span, arm, queue) in rows {
            let last = own.last(NanoSpan(span));
            assert_eq!(
                (last.at(Station::Arm).service, last.at(Station::DriveQueue).waiting),
                (arm, queue),
                "{span}"
            );
            assert_eq!(last.total(), span);
        }
    }
}
