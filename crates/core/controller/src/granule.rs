//! Granules: the unit in which changes to the array are kept apart.
//!
//! Where there is parity a granule is a stripe, because any change in it changes its parity; elsewhere it is a
//! strip. At most one stripe operation runs in a granule; others wait in line, and writes that wait are gathered into
//! the next operation. A granule also lists the dirty cache slots that lie in it, so that a destage takes them all.
//!
//! Invariant: a granule has an entry here exactly while it is locked, waited for, or dirty.

use crate::request::Fragment;
use crate::table::{NIL, Slab, Table};

/// What a fragment waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum WaitKind {
    /// To be written through.
    #[default]
    Write,
    /// To be read by recovery from redundancy.
    Recover,
    /// To be read from a member as soon as the granule is in sync.
    Read,
    /// To be read for the last time, with nobody else at work in the granule.
    LastRound,
    /// For a visit in the background, which its fragment names as its request.
    Visit,
}

/// A fragment in line.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Waiter {
    pub(crate) kind: WaitKind,
    pub(crate) fragment: Fragment,
    pub(crate) next: u32,
}

/// What is known of the write through that has locked a granule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Through {
    Unknown,
    /// It still collects, as this operation.
    Collects(u32),
    /// It is being carried out, and has the granule's last block.
    WritesEnd,
}

/// One granule.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Granule {
    pub(crate) locked: bool,
    /// Locked by a visit that resyncs it, so that what its members hold is about to change.
    pub(crate) syncing: bool,
    /// Wanted by a request that waits for its destage.
    pub(crate) urgent: bool,
    pub(crate) through: Through,
    first_waiter: u32,
    last_waiter: u32,
    /// First of the dirty slots that no destage has taken.
    pub(crate) first_dirty: u32,
}

impl Default for Granule {
    fn default() -> Self {
        Self {
            locked: false,
            syncing: false,
            urgent: false,
            through: Through::Unknown,
            first_waiter: NIL,
            last_waiter: NIL,
            first_dirty: NIL,
        }
    }
}

impl Granule {
    /// True if something waits for it to be free.
    pub(crate) const fn is_awaited(&self) -> bool {
        self.urgent || self.first_waiter != NIL
    }
}

/// All granules that matter at the moment.
#[derive(Debug)]
pub(crate) struct Granules {
    index: Table,
    entries: Slab<Granule>,
    waiters: Slab<Waiter>,
}

impl Granules {
    pub(crate) fn new(expected: usize) -> Self {
        Self { index: Table::with_room_for(expected), entries: Slab::new(), waiters: Slab::new() }
    }

    /// The entry of `key`, if it has one.
    pub(crate) fn get(&mut self, key: u64) -> Option<&mut Granule> {
        let entry = self.index.get(key)?;
        Some(&mut self.entries[entry])
    }

    /// The entry of `key`, made if need be.
    pub(crate) fn obtain(&mut self, key: u64) -> &mut Granule {
        let entry = self.index.get(key).unwrap_or_else(|| {
            let entry = self.entries.take();
            self.entries[entry] = Granule::default();
            self.index.insert(key, entry);
            entry
        });
        &mut self.entries[entry]
    }

    /// Forgets the entry of `key` if nothing keeps it.
    pub(crate) fn tidy(&mut self, key: u64) {
        let Some(entry) = self.index.get(key) else { return };
        let granule = &self.entries[entry];
        if !granule.locked && granule.first_waiter == NIL && granule.first_dirty == NIL {
            self.index.remove(key);
            self.entries.give(entry);
        }
    }

    /// Puts `fragment` at the end of the line of `key`, which has an entry.
    pub(crate) fn wait(&mut self, key: u64, kind: WaitKind, fragment: Fragment) {
        let waiter = self.waiters.take();
        self.waiters[waiter] = Waiter { kind, fragment, next: NIL };
        let granule = self.get(key).expect("only a granule in use is waited for");
        let last = core::mem::replace(&mut granule.last_waiter, waiter);
        if last == NIL {
            granule.first_waiter = waiter;
        } else {
            self.waiters[last].next = waiter;
        }
    }

    /// The first in the line of `key`.
    pub(crate) fn peek_waiter(&mut self, key: u64) -> Option<Waiter> {
        let first = self.get(key)?.first_waiter;
        (first != NIL).then(|| self.waiters[first])
    }

    /// True if a fragment to be written that `is_wanted` stands in the line of `key`.
    pub(crate) fn any_write_waits(&self, key: u64, is_wanted: impl Fn(&Fragment) -> bool) -> bool {
        let Some(entry) = self.index.get(key) else { return false };
        let mut next = self.entries[entry].first_waiter;
        while next != NIL {
            let Waiter { kind, fragment, next: behind } = self.waiters[next];
            if kind == WaitKind::Write && is_wanted(&fragment) {
                return true;
            }
            next = behind;
        }
        false
    }

    /// Takes the first out of the line of `key`, which is not empty.
    pub(crate) fn pop_waiter(&mut self, key: u64) -> Waiter {
        let entry = self.index.get(key).expect("the line belongs to a granule in use");
        let first = self.entries[entry].first_waiter;
        let waiter = self.waiters[first];
        let granule = &mut self.entries[entry];
        granule.first_waiter = waiter.next;
        if waiter.next == NIL {
            granule.last_waiter = NIL;
        }
        self.waiters.give(first);
        waiter
    }

    /// True when no granule is in use.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.in_use() == 0
    }
}
