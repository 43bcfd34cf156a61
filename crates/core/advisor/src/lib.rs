//! Crate head.

mod comparison;

pub use comparison::{Comparison, ComparisonRow, ComparisonSummary};
