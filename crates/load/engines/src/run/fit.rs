//! Whether workload, engine and target fit together, checked before anything is set up.

use super::LoadOptions;
use crate::can_do::cannot_do;
use crate::engine::EngineKind;
use crate::error::LoadError;
use crate::target::{Target, TargetKind};
use raidlab_device::{DsyncLoser, dsync_loser};
use raidlab_workload::{AccessSpec, DriverConfig, OpSet};

/// The workload must fit the target: its length, its blocks, and what may be done to it.
pub(super) fn check_fit(target: &Target, spec: &AccessSpec, config: &DriverConfig) -> Result<(), LoadError> {
    let path = || target.path().to_path_buf();
    if config.region > target.size() {
        return Err(LoadError::TooSmall { path: path(), size: target.size(), region: config.region });
    }
    let (target_bytes, driver_bytes) = (target.blocks_for(spec), config.block_bytes);
    if !driver_bytes.is_multiple_of(target_bytes) {
        return Err(LoadError::BlockSize { path: path(), target_bytes, driver_bytes });
    }
    if let Some(bytes_max) = target.request_bytes_max()
        && spec.request_bytes_max() > bytes_max
    {
        return Err(LoadError::TooLong { path: path(), bytes: spec.request_bytes_max(), bytes_max });
    }
    if spec.writes() && !target.may_write() {
        return Err(LoadError::ReadOnly { path: path(), workload: spec.name.clone() });
    }
    Ok(())
}

/// Exports are loaded by the NBD protocol only, files of file servers by theirs, and nothing else is by any.
pub(super) fn check_engine(target: &Target, options: &LoadOptions) -> Result<(), LoadError> {
    let is_remote = |engine: EngineKind| {
        matches!(engine, EngineKind::Nbd | EngineKind::Nfs | EngineKind::Xrootd | EngineKind::Files)
    };
    let suits = |engine: EngineKind| match engine_for(target) {
        only if is_remote(only) => engine == only,
        _ => !is_remote(engine),
    };
    match options.engine.filter(|engine| !suits(*engine)) {
        Some(engine) => Err(LoadError::EngineUnfit { path: target.path().into(), engine: engine.name() }),
        None => check_uring(target, options).and_then(|()| check_fua(target, options)),
    }
}

/// What is asked of `io_uring` must be asked of a load by it.
fn check_uring(target: &Target, options: &LoadOptions) -> Result<(), LoadError> {
    let engine = options.engine.unwrap_or_else(|| engine_for(target));
    let asked = [
        (options.uring.io_poll, "polling for ends (--poll)"),
        (options.uring.kernel_thread, "a thread of the kernel (--kernel-thread)"),
    ];
    match asked.into_iter().find(|(is_asked, _)| *is_asked && engine != EngineKind::Uring) {
        Some((_, what)) => {
            Err(LoadError::NotOfEngine { path: target.path().into(), engine: engine.name(), what })
        }
        None => Ok(()),
    }
}

fn check_fua(target: &Target, options: &LoadOptions) -> Result<(), LoadError> {
    if !options.fua {
        return Ok(());
    }
    let engine = options.engine.unwrap_or_else(|| engine_for(target));
    if !target.takes_fua() {
        return Err(LoadError::NoFua { path: target.path().into() });
    }
    let is_asynchronous = engine == EngineKind::Uring && target.is_direct();
    let why = match target.file().and_then(dsync_loser) {
        // The kernel ends asynchronous direct writes before it has them made durable.
        Some(DsyncLoser::Fuse) if is_asynchronous => {
            "FUSE, where a direct write with FUA by io_uring ends before it is durable: use --engine psync"
        }
        Some(DsyncLoser::Btrfs) if is_asynchronous => {
            "Btrfs, where Linux before 6.1 may end a direct write with FUA by io_uring before it is durable: use --engine psync"
        }
        // The kernel has no direct write made durable, and mounts that cache nothing have no other. A mapping is made durable
        // by `fsync`.
        Some(DsyncLoser::Netfs) if engine != EngineKind::Mapped => {
            "9p, SMB or AFS, where a write with FUA ends before it is durable: use a workload that flushes (flush_every)"
        }
        _ => return Ok(()),
    };
    Err(LoadError::FuaLost { path: target.path().into(), why })
}

/// What the workload asks for beyond reads and writes must be what target and engine can do, and what can be verified.
pub(super) fn check_ops(target: &Target, ops: OpSet, options: &LoadOptions) -> Result<(), LoadError> {
    let engine = options.engine.unwrap_or_else(|| engine_for(target));
    let missing = cannot_do(target, engine, ops);
    if !missing.is_empty() {
        return Err(LoadError::CannotDo { path: target.path().into(), engine: engine.name(), ops: missing });
    }
    let unverifiable = ops.without(OpSet::TRANSFERS).without(OpSet::FLUSHES);
    if options.verify && !unverifiable.is_empty() {
        return Err(LoadError::Unverifiable { path: target.path().into(), ops: unverifiable });
    }
    Ok(())
}

/// What suits a target of this kind.
pub(super) fn engine_for(target: &Target) -> EngineKind {
    match target.kind() {
        TargetKind::NoOp => EngineKind::Null,
        TargetKind::Nbd => EngineKind::Nbd,
        TargetKind::Nfs => EngineKind::Nfs,
        TargetKind::Xrootd => EngineKind::Xrootd,
        TargetKind::Samples => EngineKind::Files,
        TargetKind::File | TargetKind::BlockDevice => EngineKind::Uring,
    }
}
