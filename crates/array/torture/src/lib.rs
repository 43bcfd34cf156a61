//! The torture world: the controller over devices with real bytes, under load and faults, with everything checked.
//!
//! The same controller that is timed against hardware models here moves real bytes, and every outstanding action
//! may finish in any order that the seed picks. So thousands of interleavings that a real array meets once a year
//! are met every second, and any of them can be seen again from its seed.
//! ```text
//!  TorturePlan (plan.rs): array, load, faults, drawn from one seed, read from a file (text.rs) or changed (mutate.rs)
//!      │
//!      ▼  requests, faults                                 ┌─ memories.rs   cache, staging, host buffers
//!  driver.rs ──► Controller ──► flights.rs, any order ──► ─┤
//!      │             ▲                     │               └─ members.rs    devices with a volatile cache
//!      │             └──── completions ────┘
//!      ▼
//!  checkers/  provenance, durability, redundancy, losses, protocol, liveness      trace.rs  digest of all events
//! ```
//! What each checker verifies, and what it does not, stands in its head. Left out: timing, which the other world is for.
//!
//! After `TigerBeetle`'s simulator (`src/vopr.zig`, `src/testing`): one seed for everything, faults no worse than what must
//! be survived, checkers apart from the system, and a digest that shows that a run is the same run.
#![forbid(unsafe_code)]

mod absence;
mod actions;
mod arrays;
mod checkers;
mod copies;
mod doubts;
mod driver;
mod failover;
mod faults;
mod flights;
mod host;
mod media;
mod members;
mod memories;
mod moments;
mod mutate;
mod operator;
mod plan;
mod plots;
mod power;
mod relics;
mod report;
mod rot;
mod sectors;
mod shrink;
mod silent_corruption;
mod stories;
mod stripes;
mod tags;
mod text;
mod told;
mod trace;
mod violation;
mod volume;
mod world;

pub use arrays::LevelNotTried;
pub use checkers::protocol::{Access, Place, Use};
pub use checkers::provenance::BlockFault;
pub use faults::{Fault, FaultEvent};
pub use plan::{TortureMode, TorturePlan, Workload};
pub use power::Refusal;
pub use report::TortureReport;
pub use shrink::{Shrunk, shrink};
pub use text::{FaultTextError, PlanError, PlanFileError, read_plans, write_plans};
pub use trace::TraceEvent;
pub use violation::{Failure, Violation};
pub use volume::WriteNumber;
pub use world::TortureWorld;
