//! Models of drives, links, controllers and hosts, and the reader of the catalogue that describes them.
//!
//! ```
//! use raidlab_hardware::Catalog;
//!
//! let catalog = Catalog::builtin();
//! let drive = catalog.drive("exos-x24-24tb")?;
//! assert_eq!(drive.id, "exos-x24-24tb");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A drive model is a pure state machine in virtual time: [`Drive::handle_request`] takes a request,
//! [`Drive::poll_deadline`] says when it next has something to do, [`Drive::handle_deadline`] does it and
//! [`Drive::poll_completion`] returns completed requests. Nothing here knows what RAID is.
//!
//! ```text
//!  catalog/*.toml --Catalog--> DriveModel, ControllerModel, EnclosureModel     (figures, each with a source)
//!  DriveModel --Drive::new--> Drive                                           (a machine with a state)
//!  LinkStandard --Section::link--> LinkModel                                   (what entries refer to, times lanes)
//!  ControllerModel, LinkModel --> time spans that a world charges to a Server  (a resource, first come first served)
//! ```
//!
//! "Accuracy is mechanism": a model has the figures of a data sheet, and a few figures per controller that are fitted
//! to part of the published results; no figure belongs to one workload or one table.
#![forbid(unsafe_code)]

mod catalog;
mod controller;
mod drive;
mod enclosure;
mod faster;
mod filesystem;
mod hdd;
mod host;
mod link;
mod md;
mod media;
mod network;
mod own;
mod reliability;
mod server;
mod sheet;
mod ssd;

pub use catalog::{
    BadYears, Catalog, CatalogChange, CatalogEntry, CatalogError, CatalogFile, End, FigureSource, YearRange,
    nearest,
};
pub use controller::{
    CacheDefaults, CommandCost, ControllerModel, CutThrough, DriverCost, DualModel, FirstThread, HostOpKind,
    MemberPath, MemoryCost, MemoryWork, ParityWorker,
};
pub use drive::{
    Drive, DriveCompletion, DriveKind, DriveModel, DriveOp, DriveOptions, DriveRequest, DriveTimes,
    FormFactor, NoCondition, Sector, SectorCount,
};
pub use enclosure::EnclosureModel;
pub use faster::{ControllerPart, DrivePart, FasterPct};
pub use filesystem::{FilesystemModel, FsyncModel, JournalMode};
pub use hdd::{
    ActuatorsModel, AfterOp, AheadLimits, AheadReach, BufferModel, BusModel, DataSheet, EarlyDisconnect,
    Extent, FirmwareModel, HardDriveModel, Kept, MeasuredMechanics, MechanicsModel, MediaCacheModel,
    ModernParts, Overheads, PoolModel, ReadAhead, RestingWrites, SeekAnchors, ShingleModel, TrackTable,
    TrackTableError,
};
pub use host::{HostModel, KernelModel, PAGE_BYTES, RemoteModel, SocketsModel};
pub use link::{FabricModel, LinkModel, LinkStandard, Server};
pub use md::{
    BitmapLocation, ConsistencyPolicy, IoEngine, MdCosts, MdModel, MdSettingError, RmwLevel, md_setting_key,
};
pub use network::{NetworkFlow, NetworkLoad, NetworkModel, Transport};
pub use own::{OwnDrive, OwnDriveModel, OwnModel};
pub use reliability::{FigureRange, Reliability};
pub use server::{FileServerModel, NfsServerModel, ServedDefaults};
pub use sheet::{SheetConditions, SheetFigure, SheetMetric};
pub use ssd::{
    CapModel, CellModel, Collection, DriveCondition, DriveHistory, FlashBufferModel, FlashCounters,
    FlashModel, FrontModel, HeatModel, IdleModel, SlcModel, SolidStateModel, TranslationModel, UpkeepModel,
    WearModel, WhenFull,
};
