//! The array controller: a pure state machine between a host and the members of an array.
//!
//! ```
//! use raidlab_controller::{
//!     Action, ArrayConfig, CacheConfig, Controller, HostOp, HostRequest, HostTag, MemberCache, Resilience,
//! };
//! use raidlab_units::{BlockCount, BlockSize, ByteCount, Lba, Nanos};
//!
//! let mut controller = Controller::new(&ArrayConfig {
//!     level: "5".parse()?,
//!     members: 4,
//!     strip_size: ByteCount::from_kib(64),
//!     block_size: BlockSize::B512,
//!     member_size: ByteCount::from_mib(64),
//!     member_cache: MemberCache::Off,
//!     cache: CacheConfig { size: ByteCount(0), ..CacheConfig::default() },
//!     staging_size: ByteCount::from_mib(1),
//!     resilience: Resilience::default(),
//! })?;
//! let request = HostRequest { tag: HostTag(0), op: HostOp::Read, lba: Lba(0), blocks: BlockCount(1) };
//! controller.handle_host_request(Nanos(0), request);
//! // A read of one block asks one member.
//! assert!(matches!(controller.poll_action(), Some(Action::Member(_))));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
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
mod cache;
mod checksums;
mod config;
mod controller;
mod discard;
mod geometry;
mod host_front;
mod ids;
mod member_io;
mod memory_task;
mod metadata;
mod outbox;
mod own;
mod per_op;
mod request;
mod retries;
mod rules;
mod scan;
mod start;
mod stop;
mod stripe_engine;
mod stripe_locks;
mod table;
mod write_coalescing;
mod write_intent;
mod written;

pub use api::*;
pub use cache::{BatteryState, PeerState, RestoreError};
pub use config::{
    ArrayConfig, CacheConfig, CacheMemory, ConfigError, FlushOrder, IoPolicy, MemberCache, MemoryNeeds,
    ReadPolicy, Resilience, WritePolicy,
};
pub use controller::Controller;
pub use metadata::{DeviceState, Health};
pub use outbox::Counters;
pub use raidlab_format::MetadataPolicy;
pub use rules::{
    ArrayRules, BitmapPlace, CoalescingRule, ParityUpdate, ReadBalance, StripeCache, WriteLogPlace,
};
pub use scan::ScanRefused;
pub use start::{NewArray, StartError, create_metadata, new_areas, new_written_map};
