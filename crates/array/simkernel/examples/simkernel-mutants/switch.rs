//! Which defect is at work. In the planted copy this file is a module of `raidlab-units`, where all crates see it.
//!
//! One for the whole process, since arrays begin threads; each defect is hunted by a child process.

/// True in the planted copy.
pub(crate) const IS_PLANTED: bool = false;

/// Puts defect `number` to work, or none with 0.
pub(crate) const fn set(_number: u32) {}
