//! RAID layouts, capacity and fault arithmetic, and the parity kernels.
//!
//! ```
//! use raidlab_raid::{LayoutSpec, build_layout};
//! use raidlab_units::{BlockCount, Lba};
//!
//! let spec = LayoutSpec {
//!     level: "6".parse()?,
//!     members: 8,
//!     strip_blocks: BlockCount(128),
//!     member_blocks: BlockCount(1 << 20),
//! };
//! let layout = build_layout(&spec)?;
//! assert_eq!(layout.volume_blocks(), BlockCount(6 << 20));
//! let (stripe, strip, within) = layout.locate(Lba(1_000));
//! assert_eq!((stripe.0, strip, within), (1, 1, BlockCount(104)));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
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
