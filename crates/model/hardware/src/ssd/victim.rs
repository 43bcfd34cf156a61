//! Which superblock garbage collection empties next.
//!
//! | policy | victim | source |
//! |---|---|---|
//! | greedy | the least valid | |
//! | `choices: d` | the least valid of `d` drawn at random | Van Houdt, SIGMETRICS 2013; Li, Lee and Lui, 2013 |
//! | cost-benefit | the one with the highest `(1 - u) / (1 + u) x age` | Rosenblum and Ousterhout, ACM TOCS 10(1), 1992 |

use super::random::Draw;

/// How a victim is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Collection {
    /// The least valid superblock.
    Greedy,
    /// The least valid of so many that are drawn at random.
    Choices(u32),
    /// The best ratio of room gained, times age, to work.
    CostBenefit,
}

/// The superblocks that are closed.
pub(super) trait Closed {
    /// Number of all superblocks.
    fn len(&self) -> usize;
    /// Units that are valid in one; none if it is not closed.
    fn valid(&self, index: usize) -> Option<u64>;
    /// The same as a share of what it holds.
    fn valid_share(&self, index: usize) -> f64;
    /// Superblocks that were closed since.
    fn age(&self, index: usize) -> u64;
}

impl Collection {
    /// The victim among those that are closed; none if there is none.
    pub(super) fn choose(self, closed: &impl Closed, draw: &mut Draw) -> Option<u16> {
        let victim = match self {
            Self::Greedy => (0..closed.len())
                .filter_map(|index| closed.valid(index).map(|valid| (valid, index)))
                .min()
                .map(|(_, index)| index),
            Self::Choices(_) if (0..closed.len()).all(|index| closed.valid(index).is_none()) => None,
            Self::Choices(count) => {
                (0..count.max(1)).map(|_| drawn(closed, draw)).min_by_key(|index| closed.valid(*index))
            }
            Self::CostBenefit => (0..closed.len())
                .filter(|index| closed.valid(*index).is_some())
                .max_by(|a, b| benefit(closed, *a).total_cmp(&benefit(closed, *b))),
        };
        victim.map(|index| index as u16)
    }
}

/// One of those that are closed.
fn drawn(closed: &impl Closed, draw: &mut Draw) -> usize {
    loop {
        let index = draw.below(closed.len() as u64) as usize;
        if closed.valid(index).is_some() {
            return index;
        }
    }
}

fn benefit(closed: &impl Closed, index: usize) -> f64 {
    let used = closed.valid_share(index);
    (1.0 - used) / (1.0 + used) * closed.age(index) as f64
}
