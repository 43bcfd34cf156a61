//! Modelled worlds in which a run can take place, by names of the catalogue, each behind one narrow interface. All return the
//! same [`raidlab_workload::RunResult`], with every effective setting. Real worlds are in `raidlab-measure`.
//!
//! ```
//! use std::path::Path;
//!
//! let workload = raidlab_worlds::find_workload("storagebench-database", Path::new(""))?;
//! assert_eq!(workload.name(), "storagebench-database");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | module | target |
//! |---|---|
//! | [`simulated`] | an array of modelled hardware |
//! | [`mod@files`] | a file at a modelled host with such an array |
//! | [`served`] | files of a modelled file server, networks |
//!
//! Beside them stand what real worlds share: the [`Load`] of a run, sweeps and searches over loads, and what a result says before
//! and after a run.
#![forbid(unsafe_code)]

mod array_file;
mod arrays;
mod cache;
mod controllers;
mod ends;
mod feeding;
pub mod files;
mod find_load;
mod foreign_text;
mod load;
mod read_off;
mod replay;
mod results;
mod rounds;
mod scaled;
pub mod served;
mod settle;
pub mod simulated;
pub mod sweep;
mod text_file;

pub use array_file::{ArrayFile, ArrayFileError, condition_of};
pub use arrays::{
    ModelledArray, ModelledSettings, Models, Parts, RegionTooLarge, UnknownParts, array_facts, array_label,
    drive_beside, member_cache,
};
pub use cache::{CacheSettings, SOFTWARE_CACHE, STAGING_SIZE};
pub use controllers::{
    ControllerSettings, ControllersError, MirrorLink, ModelledControllers, ModelledSecond, Owner,
};
pub use ends::{Ends, Estimates};
pub use feeding::{FedPoint, Feeding, FeedingOrder, accelerator, check_checkpoint, feed, feedings};
pub use find_load::{Certainty, FindMethod, FindOrder, FoundLoad, LoadUnit, Repeats, find_load};
pub use foreign_text::as_text;
pub use load::{
    Load, LoadPlan, OwnIodepths, RUN_TO_THE_END, WorkloadError, check_iodepths, find_workload, varied,
};
pub use read_off::{LoadPoint, ReadOff, at_limit, read_off};
pub use replay::default_iodepth;
pub use results::{array_settings, empty_result, load_settings, set_measurement};
pub use rounds::{ROUNDS_MAX, SteadyRounds, until_steady};
pub use scaled::{Assumption, ScaledModels};
pub use settle::{FILLS, fill_secs, settled_or_cancelled};
pub use text_file::{TextFileError, read_foreign_text, read_text};
