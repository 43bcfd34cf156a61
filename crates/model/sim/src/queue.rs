//! The event queue of a virtual world: the earliest event is next, ties are first in, first out.
//!
//! Two structures share one order, `(time, sequence)`:
//! ```text
//! push(at, event) ─► 4-ary heap in one Vec       one entry per event, never taken back
//! set_deadline(slot, at) ─► winner tree by slot  one entry per slot; a new time replaces the old one
//!                          └────────┬───────┘
//!                                  pop ─► the earlier of the two heads
//! ```
//! A drive's next deadline moves whenever it gets a request; in a plain heap each move would leave a stale entry
//! behind. In the winner tree it overwrites the slot's leaf and updates the nodes above it, at most `log4(slots)`, up to the
//! first whose winner stays.
//!
//! Invariants: time never goes backwards; events of equal time leave in the order in which they were pushed (a deadline
//! counts as pushed when it was last moved to another time); once the queue has grown to the largest number of pending
//! events it never allocates again.
//!
//! Source of the order: `nexosim: nexosim/src/util/priority_queue.rs`; of the heap's arity: A. `LaMarca`,
//! R. E. Ladner, "The influence of caches on the performance of heaps" (1996).

use raidlab_units::Nanos;

/// Children per heap node: four 24-byte entries lie in two cache lines.
const ARITY: usize = 4;

/// The key of an empty slot, later than every real one.
const NEVER: u128 = u128::MAX;

/// Low bits of a key that are the number of the deadline's slot.
const SLOT_BITS: u32 = 24;

/// Numbers of events and deadlines: what is left of 64 bits. After days those pending are numbered anew.
const SEQUENCES: u64 = 1 << (64 - SLOT_BITS);

/// What is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due<E> {
    /// A pushed event.
    Event(E),
    /// The deadline of this slot; the slot is empty now.
    Deadline(u32),
}

/// Pending events and deadlines of a virtual world, and its clock.
#[derive(Clone, Debug)]
pub struct EventQueue<E> {
    heap: Vec<Entry<E>>,
    deadlines: WinnerTree,
    next_sequence: u64,
    /// Events and deadlines handed out before they were numbered anew.
    sequences_before: u64,
    now: Nanos,
}

#[derive(Clone, Copy, Debug)]
struct Entry<E> {
    at: u64,
    sequence: u64,
    event: E,
}

impl<E> Entry<E> {
    #[inline]
    const fn key(&self) -> u128 {
        key(self.at, self.sequence)
    }
}

#[inline]
const fn key(at: u64, sequence: u64) -> u128 {
    ((at as u128) << 64) | ((sequence as u128) << SLOT_BITS)
}

impl<E: Copy> EventQueue<E> {
    /// Returns an empty queue at time zero with `slots` deadline slots.
    pub fn new(slots: u32) -> Self {
        Self {
            heap: Vec::with_capacity(64),
            deadlines: WinnerTree::new(slots as usize),
            next_sequence: 0,
            sequences_before: 0,
            now: Nanos::ZERO,
        }
    }

    /// The time of the latest event handed out.
    #[inline]
    pub const fn now(&self) -> Nanos {
        self.now
    }

    /// Events and deadlines handed out and pending, together: a measure of the work done.
    #[inline]
    pub const fn scheduled_count(&self) -> u64 {
        self.sequences_before + self.next_sequence
    }

    /// True when nothing is pending.
    pub fn is_empty(&self) -> bool {
        self.heap.is_empty() && self.deadlines.first_key() == NEVER
    }

    /// Makes `event` happen at `at`, which must not be in the past.
    #[inline]
    pub fn push(&mut self, at: Nanos, event: E) {
        debug_assert!(at >= self.now, "an event at {at:?} is before the clock's {:?}", self.now);
        let entry = Entry { at: at.0, sequence: self.take_sequence(), event };
        self.heap.push(entry);
        self.sift_up(self.heap.len() - 1, entry);
    }

    /// Makes the deadline of `slot` due at `at`, in place of an earlier setting, or takes it away.
    ///
    /// A time in the past counts as now. The slots grow to hold `slot`.
    #[inline]
    pub fn set_deadline(&mut self, slot: u32, at: Option<Nanos>) {
        self.deadlines.grow_to_hold(slot);
        let old = self.deadlines.key(slot);
        let Some(at) = at else {
            if old != NEVER {
                self.deadlines.set(slot, NEVER);
            }
            return;
        };
        let at = at.0.max(self.now.0);
        if old == NEVER || (old >> 64) as u64 != at {
            let sequence = self.take_sequence();
            self.deadlines.set(slot, key(at, sequence) | u128::from(slot));
        }
    }

    /// When the next event or deadline is due.
    #[inline]
    pub fn next_at(&self) -> Option<Nanos> {
        let key = self.deadlines.first_key().min(self.heap.first().map_or(NEVER, Entry::key));
        (key != NEVER).then_some(Nanos((key >> 64) as u64))
    }

    /// Moves the clock on to `now`, when something from outside happens; nothing may be due before.
    #[inline]
    pub fn advance_to(&mut self, now: Nanos) {
        debug_assert!(self.next_at().is_none_or(|at| at >= now), "something is due before {now:?}");
        self.now = self.now.max(now);
    }

    /// Takes out the next event or deadline and moves the clock to its time.
    #[inline]
    pub fn pop(&mut self) -> Option<(Nanos, Due<E>)> {
        let key = self.deadlines.first();
        let heap_key = self.heap.first().map_or(NEVER, Entry::key);
        if key < heap_key {
            let slot = key as u32 % (1 << SLOT_BITS);
            self.deadlines.vacate(slot);
            self.now = Nanos((key >> 64) as u64);
            return Some((self.now, Due::Deadline(slot)));
        }
        let first = *self.heap.first()?;
        let last = self.heap.pop()?;
        if !self.heap.is_empty() {
            self.sift_down_from_root(last);
        }
        self.now = Nanos(first.at);
        Some((self.now, Due::Event(first.event)))
    }

    #[inline]
    fn take_sequence(&mut self) -> u64 {
        if self.next_sequence == SEQUENCES {
            self.renumber();
        }
        let sequence = self.next_sequence;
        self.next_sequence += 1;
        sequence
    }

    /// Numbers what is pending anew, from 0 on, in its order.
    #[cold]
    fn renumber(&mut self) {
        self.deadlines.put_right();
        let leaves = self.deadlines.groups[self.deadlines.first_leaf..].iter().flat_map(|group| group.0);
        let mut pending: Vec<u128> = self.heap.iter().map(Entry::key).collect();
        pending.extend(leaves.filter(|key| *key != NEVER));
        pending.sort_unstable();
        let number = |key: u128| pending.binary_search(&key).expect("it is pending") as u64;
        for entry in &mut self.heap {
            entry.sequence = number(entry.key());
        }
        let keys = self.deadlines.groups.iter_mut().flat_map(|group| &mut group.0);
        for held in keys.filter(|held| **held != NEVER) {
            let slot = *held & ((1 << SLOT_BITS) - 1);
            *held = key((*held >> 64) as u64, number(*held)) | slot;
        }
        let count = pending.len() as u64;
        self.sequences_before += self.next_sequence - count;
        self.next_sequence = count;
    }

    #[inline]
    fn sift_up(&mut self, mut hole: usize, entry: Entry<E>) {
        let entry_key = entry.key();
        while hole > 0 {
            let parent = (hole - 1) / ARITY;
            if self.heap[parent].key() <= entry_key {
                break;
            }
            self.heap[hole] = self.heap[parent];
            hole = parent;
        }
        self.heap[hole] = entry;
    }

    /// Fills the hole at the root with `entry`, the former last leaf.
    ///
    /// The hole goes down to a leaf first and the entry rises from there: a former leaf nearly always belongs
    /// near the leaves, so comparing it on the way down would be wasted.
    #[inline]
    fn sift_down_from_root(&mut self, entry: Entry<E>) {
        let mut hole = 0;
        loop {
            let first = hole * ARITY + 1;
            let Some(children) = self.heap.get(first..(first + ARITY).min(self.heap.len())) else { break };
            let Some(least) = least_of(children) else { break };
            self.heap[hole] = children[least];
            hole = first + least;
        }
        self.sift_up(hole, entry);
    }
}

/// Index of the least of up to [`ARITY`] entries; written without data-dependent branches.
#[inline]
fn least_of<E>(children: &[Entry<E>]) -> Option<usize> {
    let mut least_key = children.first()?.key();
    let mut least = 0;
    for (index, child) in children.iter().enumerate().skip(1) {
        let child_key = child.key();
        least = if child_key < least_key { index } else { least };
        least_key = least_key.min(child_key);
    }
    Some(least)
}

/// Keys that stand together, in one line of the processor's cache.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Group([u128; ARITY]);

impl Group {
    const EMPTY: Self = Self([NEVER; ARITY]);

    #[inline]
    fn least(&self) -> u128 {
        let [a, b, c, d] = self.0;
        a.min(b).min(c.min(d))
    }
}

/// A tree of groups over the slots, in which each key of an inner group is the least of the group below it.
///
/// A drive whose deadline is due nearly always has a new one at once. So the slot that was taken out last is *vacated*: its
/// leaf is empty, and the nodes above it are put right when it is set again, or else with the next one that is taken out. Until
/// then they have the key that was taken out, which is earlier than all others, and nobody reads them but to put them right.
#[derive(Clone, Debug)]
struct WinnerTree {
    /// Group 0 is the root; key `k` of group `g` stands for group `ARITY * g + k + 1`. The leaves, a key for each slot with the
    /// slot in its low bits, are the groups from `first_leaf` on.
    groups: Vec<Group>,
    first_leaf: usize,
    /// The slot that is vacated, or [`NO_SLOT`].
    vacated: u32,
}

/// No slot has this number.
const NO_SLOT: u32 = u32::MAX;

impl WinnerTree {
    fn new(slots: usize) -> Self {
        assert!(slots <= 1 << SLOT_BITS, "a key has no room for the last of {slots} slots");
        let leaves = slots.div_ceil(ARITY).max(1);
        let mut first_leaf = 0;
        while first_leaf * (ARITY - 1) + 1 < leaves {
            first_leaf = first_leaf * ARITY + 1;
        }
        Self { groups: vec![Group::EMPTY; first_leaf + leaves], first_leaf, vacated: NO_SLOT }
    }

    #[inline]
    fn grow_to_hold(&mut self, slot: u32) {
        if self.place(slot).0 >= self.groups.len() {
            *self = self.grown(slot as usize + 1);
        }
    }

    #[cold]
    fn grown(&self, slots: usize) -> Self {
        let mut tree = Self::new(slots);
        for (slot, key) in (0..).zip(self.groups[self.first_leaf..].iter().flat_map(|group| group.0)) {
            if key != NEVER {
                tree.set(slot, key);
            }
        }
        tree
    }

    /// The group and the place in it of a slot's leaf.
    #[inline]
    const fn place(&self, slot: u32) -> (usize, usize) {
        (self.first_leaf + slot as usize / ARITY, slot as usize % ARITY)
    }

    #[inline]
    fn key(&self, slot: u32) -> u128 {
        let (group, at) = self.place(slot);
        self.groups[group].0[at]
    }

    /// The key of the earliest deadline, the vacated one left out.
    #[inline]
    fn first_key(&self) -> u128 {
        if self.vacated == NO_SLOT {
            return self.groups[0].least();
        }
        // Whatever is not vacated is below one of the keys beside the way up.
        let (mut group, mut at) = self.place(self.vacated);
        let mut least = NEVER;
        loop {
            let mut beside = self.groups[group];
            beside.0[at] = NEVER;
            least = least.min(beside.least());
            if group == 0 {
                return least;
            }
            (group, at) = above(group);
        }
    }

    /// The key of the earliest deadline.
    #[inline]
    fn first(&mut self) -> u128 {
        self.put_right();
        self.groups[0].least()
    }

    /// Puts the keys above a vacated leaf right.
    #[inline]
    fn put_right(&mut self) {
        if self.vacated != NO_SLOT {
            self.set(self.vacated, NEVER);
        }
    }

    /// Takes out the deadline of `slot`, which is the first.
    #[inline]
    fn vacate(&mut self, slot: u32) {
        debug_assert!(self.vacated == NO_SLOT, "two slots are vacated");
        let (group, at) = self.place(slot);
        self.groups[group].0[at] = NEVER;
        self.vacated = slot;
    }

    #[inline]
    fn set(&mut self, slot: u32, key: u128) {
        if slot == self.vacated {
            self.vacated = NO_SLOT;
        }
        let (mut group, mut at) = self.place(slot);
        self.groups[group].0[at] = key;
        while group > 0 {
            let winner = self.groups[group].least();
            (group, at) = above(group);
            if self.groups[group].0[at] == winner {
                return;
            }
            self.groups[group].0[at] = winner;
        }
    }
}

/// The group above one, and the place of its key there.
#[inline]
const fn above(group: usize) -> (usize, usize) {
    ((group - 1) / ARITY, (group - 1) % ARITY)
}

#[cfg(test)]
mod tests {
    use super::{Due, EventQueue, SEQUENCES};
    use proptest::prelude::*;
    use raidlab_units::Nanos;

    /// The oracle: a list searched from the front for the least `(time, sequence)`.
    #[derive(Default)]
    struct SlowQueue {
        pending: Vec<(u64, u64, Due<u32>)>,
        sequence: u64,
        now: u64,
    }

    impl SlowQueue {
        fn push(&mut self, at: u64, due: Due<u32>) {
            self.pending.push((at, self.sequence, due));
            self.sequence += 1;
        }

        fn set_deadline(&mut self, slot: u32, at: Option<u64>) {
            let at = at.map(|at| at.max(self.now));
            let old = self.pending.iter().position(|(_, _, due)| *due == Due::Deadline(slot));
            if old.map(|index| self.pending[index].0) == at {
                return;
            }
            if let Some(index) = old {
                self.pending.remove(index);
            }
            if let Some(at) = at {
                self.push(at, Due::Deadline(slot));
            }
        }

        fn pop(&mut self) -> Option<(Nanos, Due<u32>)> {
            let index = (0..self.pending.len()).min_by_key(|i| (self.pending[*i].0, self.pending[*i].1))?;
            let (at, _, due) = self.pending.remove(index);
            self.now = at;
            Some((Nanos(at), due))
        }
    }

    #[derive(Clone, Debug)]
    enum Step {
        Push { after: u64 },
        Deadline { slot: u32, after: Option<u64> },
        Pop,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            3 => (0_u64..20).prop_map(|after| Step::Push { after }),
            3 => (0_u32..11, prop::option::of(0_u64..20)).prop_map(|(slot, after)| Step::Deadline { slot, after }),
            4 => Just(Step::Pop),
        ]
    }

    proptest! {
        #[test]
        fn leaves_in_the_order_of_a_sorted_list(
            steps in prop::collection::vec(step(), 1..400), slots in 0_u32..12, numbers_left in 1_u64..400,
        ) {
            let mut queue = EventQueue::new(slots);
            queue.next_sequence = SEQUENCES - numbers_left;
            let mut slow = SlowQueue::default();
            for (number, step) in steps.into_iter().enumerate() {
                let now = queue.now();
                match step {
                    Step::Push { after } => {
                        queue.push(Nanos(now.0 + after), number as u32);
                        slow.push(now.0 + after, Due::Event(number as u32));
                    }
                    Step::Deadline { slot, after } => {
                        queue.set_deadline(slot, after.map(|after| Nanos(now.0 + after)));
                        slow.set_deadline(slot, after.map(|after| now.0 + after));
                    }
                    Step::Pop => prop_assert_eq!(queue.pop(), slow.pop()),
                }
                prop_assert_eq!(queue.is_empty(), slow.pending.is_empty());
                let next_at = slow.pending.iter().map(|(at, ..)| Nanos(*at)).min();
                prop_assert_eq!(queue.next_at(), next_at);
            }
            while let Some(expected) = slow.pop() {
                prop_assert_eq!(queue.pop(), Some(expected));
            }
            prop_assert_eq!(queue.pop(), None);
            prop_assert_eq!(queue.scheduled_count(), SEQUENCES - numbers_left + slow.sequence);
        }
    }

    #[test]
    fn equal_times_leave_first_in_first_out() {
        let mut queue = EventQueue::new(2);
        queue.push(Nanos(5), 0);
        queue.set_deadline(1, Some(Nanos(5)));
        queue.push(Nanos(5), 1);
        queue.set_deadline(0, Some(Nanos(5)));
        let order: Vec<_> = std::iter::from_fn(|| queue.pop()).map(|(_, due)| due).collect();
        assert_eq!(order, [Due::Event(0), Due::Deadline(1), Due::Event(1), Due::Deadline(0)]);
    }

    #[test]
    fn a_moved_deadline_leaves_no_trace() {
        let mut queue = EventQueue::<u32>::new(1);
        queue.set_deadline(0, Some(Nanos(5)));
        queue.set_deadline(0, Some(Nanos(3)));
        queue.set_deadline(0, Some(Nanos(9)));
        assert_eq!(queue.pop(), Some((Nanos(9), Due::Deadline(0))));
        assert_eq!(queue.pop(), None);
    }
}
