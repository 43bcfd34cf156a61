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
//! behind. In the winner tree it overwrites the slot's leaf and updates one path of `log2(slots)` nodes.
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
    ((at as u128) << 64) | sequence as u128
}

impl<E: Copy> EventQueue<E> {
    /// Returns an empty queue at time zero with `slots` deadline slots.
    pub fn new(slots: u32) -> Self {
        Self {
            heap: Vec::with_capacity(64),
            deadlines: WinnerTree::new(slots as usize),
            next_sequence: 0,
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
        self.next_sequence
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
        if slot as usize >= self.deadlines.leaves() {
            self.deadlines = self.deadlines.grown(slot as usize + 1);
        }
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
            self.deadlines.set(slot, key(at, sequence));
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
        let Deadline { key, slot } = self.deadlines.first();
        let heap_key = self.heap.first().map_or(NEVER, Entry::key);
        if key < heap_key {
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
    const fn take_sequence(&mut self) -> u64 {
        let sequence = self.next_sequence;
        self.next_sequence += 1;
        sequence
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

/// The deadline of a slot.
#[derive(Clone, Copy, Debug)]
struct Deadline {
    key: u128,
    slot: u32,
}

/// A complete binary tree over the slots, in which each inner node is a copy of the earlier of its children.
///
/// A drive whose deadline is due nearly always has a new one at once. So the slot that was taken out last is *vacated*: its
/// leaf is empty, and the nodes above it are put right when it is set again, or else with the next one that is taken out. Until
/// then nobody reads them but to put them right.
#[derive(Clone, Debug)]
struct WinnerTree {
    /// Node `n` has children `2n` and `2n + 1`; node 1 is the root; the second half are the leaves, one for each slot and
    /// padded to a power of two.
    nodes: Vec<Deadline>,
    /// The slot that is vacated, or [`NO_SLOT`].
    vacated: u32,
}

/// No slot has this number.
const NO_SLOT: u32 = u32::MAX;

impl WinnerTree {
    fn new(slots: usize) -> Self {
        let leaves = slots.next_power_of_two().max(2);
        Self { nodes: vec![Deadline { key: NEVER, slot: NO_SLOT }; 2 * leaves], vacated: NO_SLOT }
    }

    fn grown(&self, slots: usize) -> Self {
        let mut tree = Self::new(slots);
        for leaf in &self.nodes[self.leaves()..] {
            if leaf.key != NEVER {
                tree.set(leaf.slot, leaf.key);
            }
        }
        tree
    }

    const fn leaves(&self) -> usize {
        self.nodes.len() / 2
    }

    #[inline]
    fn key(&self, slot: u32) -> u128 {
        self.nodes[self.leaves() + slot as usize].key
    }

    /// The key of the earliest deadline.
    #[inline]
    fn first_key(&self) -> u128 {
        if self.vacated == NO_SLOT {
            return self.nodes[1].key;
        }
        // Whatever is not vacated is below one of the nodes beside the way up.
        let leaf = self.leaves() + self.vacated as usize;
        let way = std::iter::successors(Some(leaf), |node| Some(node / 2)).take_while(|node| *node > 1);
        way.map(|node| self.nodes[node ^ 1].key).fold(NEVER, u128::min)
    }

    /// The earliest deadline.
    #[inline]
    fn first(&mut self) -> Deadline {
        if self.vacated != NO_SLOT {
            self.set(self.vacated, NEVER);
        }
        self.nodes[1]
    }

    /// Takes out the deadline of `slot`, which is the first.
    #[inline]
    fn vacate(&mut self, slot: u32) {
        debug_assert!(self.vacated == NO_SLOT, "two slots are vacated");
        let leaf = self.leaves() + slot as usize;
        self.nodes[leaf].key = NEVER;
        self.vacated = slot;
    }

    #[inline]
    fn set(&mut self, slot: u32, key: u128) {
        if slot == self.vacated {
            self.vacated = NO_SLOT;
        }
        let mut node = self.leaves() + slot as usize;
        let mut winner = Deadline { key, slot };
        self.nodes[node] = winner;
        while node > 1 {
            let beside = self.nodes[node ^ 1];
            winner = if beside.key < winner.key { beside } else { winner };
            node /= 2;
            self.nodes[node] = winner;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Due, EventQueue};
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
        fn leaves_in_the_order_of_a_sorted_list(steps in prop::collection::vec(step(), 1..400), slots in 0_u32..12) {
            let mut queue = EventQueue::new(slots);
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
