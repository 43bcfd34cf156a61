//! RAID layouts, capacity and fault arithmetic, and the parity kernels.
//!
//! A [`Layout`] says where each strip of a stripe lives and nothing else: no time, no cache, no I/O. One
//! level lives in one file; callers see only [`StripeShape`] and [`Layout`], and never ask which level it is.
#![deny(unsafe_code)]

mod layout;
mod level;

pub use level::{Level, LayoutError, LayoutSpec, build_layout};
pub use layout::{FailuresSurvived, Layout, StripUnit, StripeShape, UnitPlace};
