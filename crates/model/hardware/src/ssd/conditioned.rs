//! The translation layer of a drive that was filled and overwritten before.
//!
//! To condition a drive is to write it several times over, which takes longer than most simulations that follow, and it
//! is the same for all drives of one shape: all members of an array, and all arrays of a plan. So the last few results
//! are kept, and copied. That is memory of a pure function: whether a result was kept changes no figure.

use super::condition::{DriveCondition, DriveHistory};
use super::random::Draw;
use super::translation::{Shape, Translation};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

/// Layers that are kept, of some MB each.
const KEPT_MAX: usize = 12;

type Key = (Shape, DriveCondition, u64);

static KEPT: Mutex<VecDeque<(Key, Arc<Translation>)>> = Mutex::new(VecDeque::new());

/// A translation layer in `condition`.
pub(super) fn conditioned(shape: Shape, condition: DriveCondition, seed: u64) -> Translation {
    if condition.history == DriveHistory::Fresh {
        return Translation::new(shape, seed);
    }
    let key = (shape, condition, seed);
    if let Some(kept) = kept(&key) {
        return (*kept).clone();
    }
    // Not under the lock: others may want another one meanwhile.
    let made = written(key);
    let mut all = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    all.truncate(KEPT_MAX - 1);
    all.push_front((key, Arc::new(made.clone())));
    made
}

/// The layer of `key`, which is then the last one to be forgotten.
fn kept(key: &Key) -> Option<Arc<Translation>> {
    let mut all = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    let at = all.iter().position(|(other, _)| other == key)?;
    let found = all.remove(at)?;
    let layer = Arc::clone(&found.1);
    all.push_front(found);
    Some(layer)
}

fn written((shape, condition, seed): Key) -> Translation {
    let mut translation = Translation::new(shape, seed);
    let filled = condition.filled(translation.groups());
    let times = match condition.history {
        DriveHistory::Fresh => return translation,
        DriveHistory::Sequential => 0,
        DriveHistory::Random(times) => u64::from(times),
    };
    for group in 0..filled {
        translation.write_group(group as u32);
    }
    let mut draw = Draw::new(seed);
    for _ in 0..times * filled {
        translation.write_group(draw.below(filled) as u32);
    }
    translation.start_counting();
    translation
}

#[cfg(test)]
mod tests {
    use super::super::translation::Geometry;
    use super::super::victim::Collection;
    use super::*;

    #[test]
    fn a_layer_that_was_kept_goes_on_as_one_that_was_made() {
        let shape = |units| {
            let collection = Collection::Greedy;
            Geometry { units, spare: 0.1, superblock_units: 512, collection, separates_moved: false }.shape()
        };
        let condition = DriveCondition::default();
        let after = |mut layer: Translation| {
            let mut draw = Draw::new(9);
            (0..20_000).for_each(|_| layer.write(draw.below(50_000)));
            layer.written()
        };
        let made = after(written((shape(50_000), condition, 1)));
        // More of them than are kept, there and back.
        let order = (0..20).chain((0..20).rev()).chain([0, 0]);
        for other in order {
            let layer = conditioned(shape(50_000 + 512 * other), condition, 1);
            if other == 0 {
                assert_eq!(after(layer), made);
            }
        }
        let fresh = DriveCondition { history: DriveHistory::Fresh, ..condition };
        assert_eq!(conditioned(shape(50_000), fresh, 1).mapped_units(), 0);
        assert!(KEPT.lock().map_or(0, |all| all.len()) <= KEPT_MAX);
    }
}
