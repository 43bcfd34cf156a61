//! A bounded number of places for connections, which silent clients can't exhaust.
//!
//! ```text
//! a new connection ─► its peer has too many ─► refused
//!                  └► all places taken ─► of the peer with most places, the connection that has waited for its client
//!                                         longest, and at least for the grace period, loses its place
//! ```
//! A connection *waits* while its client owes the next request, and *works* from then until the answer is there. A
//! client that sends its request within the grace period is never dropped, however many others only hold connections,
//! or come at once to ask.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Time for a client to ask before its connection may have to make room. A client asks at once; what it sent while the connection
/// waited to be taken is there already.
pub(crate) const GRACE: Duration = Duration::from_millis(25);
/// How soon a place is looked for again, where all have just come.
pub(crate) const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Who connects; each has its share of the places.
pub(crate) type Peer = u32;

/// Why there is no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NoPlace {
    /// One peer has its share.
    #[error("this process has {0} connections already")]
    ShareTaken(usize),
    /// All places are taken by connections that work.
    #[error("{0} others are being answered: ask again in a moment")]
    AllWork(usize),
    /// All places are taken, some by connections that have just come: one will be free in a moment.
    #[error("{0} others have just come: ask again in a moment")]
    AllNew(usize),
}

/// The places and who has them.
pub(crate) struct Places {
    all: usize,
    per_peer: usize,
    grace: Duration,
    taken: Mutex<Taken>,
}

#[derive(Default)]
struct Taken {
    next: u64,
    seats: Vec<Entry>,
}

struct Entry {
    number: u64,
    peer: Peer,
    waits_since: Option<Instant>,
    end: Box<dyn FnOnce() + Send>,
}

/// A place, free again when this is dropped.
pub(crate) struct Seat {
    places: Arc<Places>,
    number: u64,
}

impl Places {
    /// So many places in all and for each peer; nobody makes room before the end of `grace`.
    pub(crate) fn new(all: usize, per_peer: usize, grace: Duration) -> Arc<Self> {
        Arc::new(Self { all, per_peer, grace, taken: Mutex::default() })
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a place for a connection of `peer`; `end` ends the connection, should it have to make room.
    pub(crate) fn enter(
        self: &Arc<Self>,
        peer: Peer,
        end: impl FnOnce() + Send + 'static,
    ) -> Result<Seat, NoPlace> {
        let mut taken = self.taken();
        if taken.seats.iter().filter(|seat| seat.peer == peer).count() >= self.per_peer {
            return Err(NoPlace::ShareTaken(self.per_peer));
        }
        let mut ends = None;
        if taken.seats.len() >= self.all {
            let mut of_peer = BTreeMap::<Peer, usize>::new();
            for seat in &taken.seats {
                *of_peer.entry(seat.peer).or_default() += 1;
            }
            let waiting =
                || (0..).zip(&taken.seats).filter_map(|(at, seat)| Some((seat.waits_since?, at, seat.peer)));
            // Who is to go is decided first: a slow client that has had its time must not go in the place of many that have just come.
            let loser = waiting().min_by_key(|(since, _, peer)| (Reverse(of_peer[peer]), *since));
            let loser = loser.filter(|(since, ..)| since.elapsed() >= self.grace);
            let none = || {
                if waiting().next().is_some() {
                    NoPlace::AllNew(self.all)
                } else {
                    NoPlace::AllWork(self.all)
                }
            };
            let (_, at, _) = loser.ok_or_else(none)?;
            ends = Some(taken.seats.swap_remove(at).end);
        }
        let number = taken.next;
        taken.next += 1;
        taken.seats.push(Entry { number, peer, waits_since: Some(Instant::now()), end: Box::new(end) });
        drop(taken);
        if let Some(end) = ends {
            end();
        }
        Ok(Seat { places: Arc::clone(self), number })
    }

    fn set(&self, number: u64, waits_since: Option<Instant>) {
        // Who had to make room is not there any more.
        if let Some(seat) = self.taken().seats.iter_mut().find(|seat| seat.number == number) {
            seat.waits_since = waits_since;
        }
    }
}

impl Seat {
    /// A request is there.
    pub(crate) fn works(&self) {
        self.places.set(self.number, None);
    }

    /// The answer is there; the client owes the next request.
    pub(crate) fn waits(&self) {
        self.places.set(self.number, Some(Instant::now()));
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.places.taken().seats.retain(|seat| seat.number != self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[test]
    fn who_waits_longest_makes_room_and_who_works_stays() {
        let places = Places::new(3, 2, Duration::ZERO);
        let ended = Arc::new(AtomicU32::new(0));
        let enter = |peer: Peer| {
            let ended = Arc::clone(&ended);
            places.enter(peer, move || ended.store(peer, Ordering::Relaxed))
        };
        let first = enter(1).expect("all are free");
        let second = enter(2).expect("two are free");
        let third = enter(1).expect("one is free");
        assert_eq!(enter(1).err(), Some(NoPlace::ShareTaken(2)), "one peer can't have all");
        assert_eq!(ended.load(Ordering::Relaxed), 0);
        first.works();
        let fourth = enter(3).expect("the third makes room: its peer has most");
        assert_eq!(ended.swap(0, Ordering::Relaxed), 1);
        drop(third);
        let fifth = enter(4).expect("the second makes room: it waits longest");
        assert_eq!(ended.swap(0, Ordering::Relaxed), 2);
        drop(second);
        for seat in [&fourth, &fifth] {
            seat.works();
        }
        assert_eq!(enter(5).err(), Some(NoPlace::AllWork(3)));
        first.waits();
        let sixth = enter(5).expect("the first makes room");
        assert_eq!(ended.load(Ordering::Relaxed), 1);
        drop((fourth, fifth, sixth));
        assert!(places.taken().seats.is_empty(), "places of those who have gone are free");
    }

    /// Defect: where one peer opened connections all the time, those of all others that had had their moment lost their places.
    #[test]
    fn one_that_waits_keeps_its_place_while_many_come() {
        let grace = Duration::from_millis(50);
        let places = Places::new(3, 3, grace);
        let _quiet = places.enter(1, || panic!("it is not the one with most places")).expect("it is free");
        std::thread::sleep(grace);
        let _many =
            [places.enter(2, || ()).expect("it is free"), places.enter(2, || ()).expect("it is free")];
        // Only where the machine stood still in between is there one already.
        let refused = places.enter(2, || ()).err();
        assert!(matches!(refused, None | Some(NoPlace::AllNew(3))), "{refused:?}");
        std::thread::sleep(grace);
        let _next = places.enter(2, || ()).expect("the oldest of its own makes room");
    }

    #[test]
    fn who_has_just_come_is_given_time_to_ask() {
        let places = Places::new(1, 1, Duration::from_mins(1));
        let _first = places.enter(1, || panic!("it had no time")).expect("it is free");
        assert_eq!(places.enter(2, || ()).err(), Some(NoPlace::AllNew(1)));
    }
}
