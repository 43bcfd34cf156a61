//! A trace in a file as a workload: which of its devices goes to which target, and when and where.

use crate::{FileSource, ReadingAs, TraceFile, TraceFileError};
use raidlab_workload::{AccessSpec, Fit, Metric, Replay, Timing, Workload};
use std::path::PathBuf;
use std::sync::Arc;

/// What to replay, and how.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReplayOrder {
    /// The trace: a Parquet file.
    pub path: PathBuf,
    /// When requests start.
    pub timing: Timing,
    /// Where requests go that lie beyond their target.
    pub fit: Fit,
    /// Requests are widened to whole blocks of their target.
    pub whole_blocks: bool,
    /// Which device goes to which target, by name and by number from 0; empty for each device to the target of its number.
    pub map: Vec<(String, u32)>,
}

/// Why a trace is no workload.
#[derive(Debug, thiserror::Error)]
pub enum ReplayOrderError {
    /// It can't be read.
    #[error(transparent)]
    File(#[from] TraceFileError),
    /// There are more devices than targets.
    #[error("the trace has {devices} devices ({names}), and there are {targets} targets")]
    TooFewTargets {
        /// Devices with reads or writes.
        devices: usize,
        /// Their names.
        names: String,
        /// Targets.
        targets: u32,
    },
    /// A device is not in the trace.
    #[error("the trace has no device '{device}', only {names}")]
    NoSuchDevice {
        /// What was given.
        device: String,
        /// Those that there are.
        names: String,
    },
    /// There is no such target.
    #[error("there is no target {target} for device '{device}': they are numbered from 0 to {}", targets - 1)]
    NoSuchTarget {
        /// The device.
        device: String,
        /// What was given.
        target: u32,
        /// Targets.
        targets: u32,
    },
}

impl ReplayOrder {
    /// Makes it a workload for `targets` targets, of a trace that is read in this way.
    ///
    /// # Errors
    /// [`ReplayOrderError`]: the trace can't be read, or its devices do not go to the targets.
    pub fn workload(&self, targets: u32, reading: ReadingAs) -> Result<Workload, ReplayOrderError> {
        let file = TraceFile::open(&self.path)?;
        let meta = file.meta();
        let to = self.targets(&file, targets)?;
        let name =
            self.path.file_stem().map_or_else(|| "trace".into(), |name| name.to_string_lossy().into_owned());
        let format = meta.format.as_deref().map_or_else(String::new, |format| format!(", {format}"));
        let source = format!("{}{format}", meta.source);
        let replay = Replay {
            source: Arc::new(FileSource::new(file, reading)),
            timing: self.timing,
            fit: self.fit,
            whole_blocks: self.whole_blocks,
            targets: to,
        };
        Ok(Workload {
            title: format!("The trace {}", self.path.display()),
            source,
            metric: Metric::Iops,
            notes: String::new(),
            block_bytes_published: Vec::new(),
            spec: AccessSpec { name, trace: Some(replay), ..AccessSpec::default() },
        })
    }

    /// The target of each device.
    fn targets(&self, file: &TraceFile, targets: u32) -> Result<Vec<Option<u32>>, ReplayOrderError> {
        let devices = &file.meta().summary.devices;
        let names = || devices.iter().map(|device| device.name.as_str()).collect::<Vec<_>>().join(", ");
        let mut to = vec![None; devices.len()];
        for (device, target) in &self.map {
            let (device, target) = (device.clone(), *target);
            let found = devices.iter().position(|known| known.name == device);
            let Some(index) = found else {
                return Err(ReplayOrderError::NoSuchDevice { device, names: names() });
            };
            if target >= targets {
                return Err(ReplayOrderError::NoSuchTarget { device, target, targets });
            }
            to[index] = Some(target);
        }
        if !self.map.is_empty() {
            return Ok(to);
        }
        if devices.len() > targets as usize {
            return Err(ReplayOrderError::TooFewTargets { devices: devices.len(), names: names(), targets });
        }
        Ok((0..devices.len() as u32).map(Some).collect())
    }
}
