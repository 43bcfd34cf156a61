//! Drives that somebody else models: commands wait here, and how long each takes is asked for when it begins.
//!
//! ```text
//! handle_request ─► waiting ── next, service ─► at work (up to `parallel`) ─► done
//! ```
//! Everything that such a drive does is in its times: its interface, its cache, what it does by itself. The rest of its entry
//! (capacity, reliability, power) is that of the drive that it stands in for.

use crate::drive::{DriveCompletion, DriveRequest};
use raidlab_units::{NanoSpan, Nanos};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// A type of drive of somebody's own.
pub trait OwnDriveModel: fmt::Debug + Send + Sync {
    /// A drive of it, idle: number `number` of its array, from 0.
    fn build(&self, number: u32) -> Box<dyn OwnDrive>;

    /// Commands that a drive works on at once; at least one.
    fn parallel(&self) -> usize;
}

/// A drive of such a type.
pub trait OwnDrive: fmt::Debug + Send {
    /// Which of the commands that wait is next: an index below their number. They are in the order in which they came.
    fn next(&mut self, now: Nanos, waiting: &VecDeque<DriveRequest>) -> usize;

    /// How long `request` takes, which begins at `now`.
    fn service(&mut self, now: Nanos, request: &DriveRequest) -> NanoSpan;
}

/// A model of a drive of somebody's own, in a description; two are the same where they are one.
#[derive(Clone, Debug)]
pub struct OwnModel(pub Arc<dyn OwnDriveModel>);

impl PartialEq for OwnModel {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// The queue around such a drive. A copy is another drive of the type, idle, with the next number.
#[derive(Debug)]
pub(crate) struct OwnMachine {
    model: Arc<dyn OwnDriveModel>,
    /// Made with the first command, so that what is only copied has none.
    drive: Option<Box<dyn OwnDrive>>,
    number: u32,
    /// Drives that were made as copies of one.
    copies: Arc<AtomicU32>,
    parallel: usize,
    waiting: VecDeque<DriveRequest>,
    /// When each command at work ends, and its id.
    at_work: BinaryHeap<Reverse<(Nanos, u32)>>,
    done: VecDeque<DriveCompletion>,
}

impl Clone for OwnMachine {
    fn clone(&self) -> Self {
        let number = self.copies.fetch_add(1, Ordering::Relaxed);
        Self { number, copies: Arc::clone(&self.copies), ..Self::new(&OwnModel(Arc::clone(&self.model))) }
    }
}

impl OwnMachine {
    pub(crate) fn new(OwnModel(model): &OwnModel) -> Self {
        Self {
            model: Arc::clone(model),
            drive: None,
            number: 0,
            copies: Arc::default(),
            parallel: model.parallel().max(1),
            waiting: VecDeque::new(),
            at_work: BinaryHeap::new(),
            done: VecDeque::new(),
        }
    }

    pub(crate) fn handle_request(&mut self, now: Nanos, request: DriveRequest) {
        self.waiting.push_back(request);
        self.begin(now);
    }

    pub(crate) fn poll_deadline(&self) -> Option<Nanos> {
        self.at_work.peek().map(|Reverse((ends_at, _))| *ends_at)
    }

    pub(crate) fn handle_deadline(&mut self, now: Nanos) {
        while self.poll_deadline().is_some_and(|ends_at| ends_at <= now) {
            let ended = self.at_work.pop().map(|Reverse((_, id))| DriveCompletion { id });
            self.done.extend(ended);
        }
        self.begin(now);
    }

    pub(crate) fn poll_completion(&mut self) -> Option<DriveCompletion> {
        self.done.pop_front()
    }

    /// Begins what waits, while there is room.
    fn begin(&mut self, now: Nanos) {
        while self.at_work.len() < self.parallel && !self.waiting.is_empty() {
            let drive = self.drive.get_or_insert_with(|| self.model.build(self.number));
            let index = if self.waiting.len() == 1 { 0 } else { drive.next(now, &self.waiting) };
            let request = self.waiting.remove(index).expect("the next one is one of those that wait");
            let ends_at = Nanos(now.0.saturating_add(drive.service(now, &request).0));
            self.at_work.push(Reverse((ends_at, request.id)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Catalog, Drive, DriveOp, DriveOptions, Sector, SectorCount};

    /// Takes the last that came first, a microsecond for each sector and one more for each drive before it.
    #[derive(Debug)]
    struct Last;

    #[derive(Debug)]
    struct LastDrive(u64);

    impl OwnDriveModel for Last {
        fn build(&self, number: u32) -> Box<dyn OwnDrive> {
            Box::new(LastDrive(u64::from(number)))
        }

        fn parallel(&self) -> usize {
            1
        }
    }

    impl OwnDrive for LastDrive {
        fn next(&mut self, _: Nanos, waiting: &VecDeque<DriveRequest>) -> usize {
            waiting.len() - 1
        }

        fn service(&mut self, _: Nanos, request: &DriveRequest) -> NanoSpan {
            NanoSpan((request.sectors.0 + self.0) * 1000)
        }
    }

    #[test]
    fn an_own_drive_says_what_is_next_and_how_long_it_takes() {
        let mut catalog = Catalog::builtin();
        catalog.add_own_drive("mine", "st3600057ss", None, Arc::new(Last)).unwrap();
        let template = Drive::new(catalog.drive("mine").unwrap(), DriveOptions::default());
        for number in 0..2 {
            let (mut drive, mut ended) = (template.clone(), Vec::new());
            for id in 0..3 {
                let sectors = SectorCount(8);
                drive.handle_request(
                    Nanos::ZERO,
                    DriveRequest { id, op: DriveOp::Read, start: Sector(0), sectors },
                );
            }
            while let Some(now) = drive.poll_deadline() {
                drive.handle_deadline(now);
                ended.extend(
                    std::iter::from_fn(|| drive.poll_completion()).map(|done| (now.0 / 1000, done.id)),
                );
            }
            let each = 8 + number;
            assert_eq!(ended, [(each, 0), (2 * each, 2), (3 * each, 1)]);
        }
    }

    #[test]
    fn an_own_drive_has_a_name_of_its_own_and_stands_in_for_one_that_there_is() {
        let mut catalog = Catalog::builtin();
        assert!(catalog.add_own_drive("st3600057ss", "st3600057ss", None, Arc::new(Last)).is_err());
        assert!(catalog.add_own_drive("mine", "st3600057s", None, Arc::new(Last)).is_err());
        let room = SectorCount(1 << 20);
        catalog.add_own_drive("mine", "st3600057ss", Some(room), Arc::new(Last)).unwrap();
        assert_eq!(catalog.drive("mine").unwrap().capacity, room);
        assert_eq!(catalog.drive("mine").unwrap().parts(), []);
    }
}
