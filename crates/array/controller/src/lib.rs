//! The array controller: a pure state machine between a host and the members of an array.
//!
//! **Events in, actions out.** A world (virtual, real or emulated) calls `handle_*` with what happened and
//! when, then takes actions from [`Controller::poll_action`] until there are none:
//! ```text
//! host request ──► handle_host_request ─┐                ┌─► Member      read, write, flush or discard on a member
//! member done  ──► handle_member_completion ─ Controller ┼─► Memory      copy or combine bytes
//! memory done  ──► handle_memory_completion ┘  poll_action └─► Complete, Timer, Keep, Notice
//! timer due    ──► handle_timer
//! ```
//! The controller never sees a byte of data. It names places in memory ([`BufferRef`]): the host's buffer, its
//! cache and its staging memory; only the world knows where those live, and a world that carries lengths only
//! needs none. It reads no clock: every event brings `now`, which never goes backwards.
#![forbid(unsafe_code)]

mod api;
mod bad_blocks;
mod bitmap;
mod cache;
mod cached_write;
mod compare;
mod config;
mod controller;
mod delay;
mod destage;
mod discard;
mod fill;
mod gather;
mod geometry;
mod granule;
mod health;
mod host;
mod integrity;
mod intent;
mod io;
mod kept;
mod log;
mod lost_rows;
mod members;
mod outbox;
mod own;
mod plan;
mod protection;
mod replay;
mod request;
mod restore;
mod rules;
mod runs;
mod spares;
mod start;
mod state;
mod steps;
mod stop;
mod stripe_cache;
mod stripe_op;
mod sweep;
mod table;
mod tags;
mod units;
mod unsynced;
mod visit;

pub use api::*;
pub use config::{
    ArrayConfig, CacheConfig, CacheMemory, ConfigError, FlushOrder, IoPolicy, MemberCache, MemoryNeeds,
    ReadPolicy, Resilience, WritePolicy,
};
pub use controller::Controller;
pub use health::Health;
pub use kept::RestoreError;
pub use members::DeviceState;
pub use outbox::Counters;
pub use protection::{BatteryState, PeerState};
pub use raidlab_format::MetadataPolicy;
pub use rules::{ArrayRules, GatherRule, ParityUpdate, ReadBalance, StripeCache};
pub use start::{NewArray, StartError, create_metadata};
pub use sweep::SweepRefused;
