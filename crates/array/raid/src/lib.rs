//! RAID layouts, capacity and fault arithmetic, and the parity kernels.
//!
//! A [`Layout`] says where each strip of a stripe is and nothing else: no time, no cache, no I/O. Each level has one
//! file; callers see only [`StripeShape`] and [`Layout`], and never ask for the level. [`code`] gives the coefficients
//! that compute parity and recover lost strips, and [`kernel`] applies coefficients to bytes; they share the field of
//! [`gf`].
//! ```text
//! LayoutSpec ── build_layout ──► dyn Layout ── shape ──► arithmetic: capacity, member I/Os per host I/O
//!                                    └── place, locate, identify ──► which member holds which block
//! what is missing ── code::Recovery ──► coefficients ── kernel::combine ──► bytes
//! ```
#![deny(unsafe_code)]

pub mod arithmetic;
pub mod code;
pub mod gf;
pub mod kernel;

mod layout;
mod level;
mod levels;
mod spec;

pub use layout::{FailuresSurvived, Layout, StripUnit, StripeShape, UnitPlace};
pub use level::{Level, LevelVariant, MirrorLayout, ParityRotation, ParseLevelError};
pub use spec::{LayoutError, LayoutSpec, build_layout, narrow_stripes};
