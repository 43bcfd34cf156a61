//! Which defect is at work. In the planted copy this file is a module of `raidlab-units`, where all crates see it.
//!
//! Each thread has its own, so that several defects can be hunted at once, and a run be made without any. The sites ask only
//! where the answer matters, as far as that can be told there: a run that asks for none of a defect's sites is the same with it.

use std::cell::Cell;

/// True in the planted copy.
pub(crate) const IS_PLANTED: bool = false;

thread_local! {
    static AT_WORK: Cell<u32> = const { Cell::new(0) };
    static ASKED: Cell<Asked> = const { Cell::new([0; 4]) };
}

/// A bit for each defect that was asked for.
pub(crate) type Asked = [u64; 4];

/// Puts defect `number` to work on this thread, or none with 0.
pub(crate) fn set(number: u32) {
    AT_WORK.with(|at_work| at_work.set(number));
}

/// Which defects were asked for on this thread since the last time.
pub(crate) fn take_asked() -> Asked {
    ASKED.with(|asked| asked.replace([0; 4]))
}

/// The decisions that were reached on this thread since the last time: none but in a copy that counts them (`decisions.rs`).
pub(crate) const fn take_reached() -> Vec<usize> {
    Vec::new()
}
