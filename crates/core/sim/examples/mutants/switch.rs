//! Which defect is at work. In the planted copy this file is a module of `raidlab-units`, where all crates see it.
//!
//! Each thread has its own, so that several defects can be hunted at once, and a run be made without any.

use std::cell::Cell;

/// True in the planted copy.
pub(crate) const IS_PLANTED: bool = false;

thread_local! {
    static AT_WORK: Cell<u32> = const { Cell::new(0) };
}

/// Puts defect `number` to work on this thread, or none with 0.
pub(crate) fn set(number: u32) {
    AT_WORK.with(|at_work| at_work.set(number));
}
