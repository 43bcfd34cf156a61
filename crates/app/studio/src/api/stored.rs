//! Arrays in the folder: the files of each, and which of these are out of date.
//!
//! ```text
//! files ─► label of each ─► files by array ─► examined together ─► devices to serve, and those left out with the reason
//! ```
//! Left out: arrays over devices outside the folder, which pages can't name.

use super::{FILES_MAX, SCHEMA, blocking, ok};
use crate::StudioState;
use crate::fault::Fault;
use axum::extract::State;
use axum::response::Response;
use raidlab_runtime::{DeviceVerdict, ExamineReport, StartOptions, examine};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

#[derive(Serialize)]
struct StoredList {
    schema: u32,
    arrays: Vec<StoredArray>,
}

/// An array that is not served.
#[derive(Serialize)]
struct StoredArray {
    array_uuid: String,
    name: Option<String>,
    level: Option<String>,
    /// Why it would not start.
    refused: Option<String>,
    /// Names of the files to serve.
    devices: Vec<Option<String>>,
    left_out: Vec<LeftOut>,
}

/// A file of an array that is not one of its devices any more.
#[derive(Serialize)]
struct LeftOut {
    file: Option<String>,
    reason: String,
}

pub(super) async fn list(State(studio): State<Arc<StudioState>>) -> Result<Response, Fault> {
    blocking(move || {
        let files = studio.folder.files(FILES_MAX).map_err(|error| {
            Fault::internal(error.to_string(), studio.folder.path().display().to_string())
        })?;
        let mut arrays: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
        for (name, _) in files {
            let path = studio.folder.path().join(name);
            if let Some(array) = array_of(&path) {
                arrays.entry(array).or_default().push(path);
            }
        }
        let arrays = arrays.into_iter().map(|(uuid, paths)| stored_array(uuid, &paths)).collect();
        Ok(ok(&StoredList { schema: SCHEMA, arrays }))
    })
    .await
}

/// The array that a file's label names.
fn array_of(path: &Path) -> Option<String> {
    let report = look(&[path.to_owned()]);
    match report.devices.into_iter().next()?.verdict {
        DeviceVerdict::Present { .. } | DeviceVerdict::Stale { .. } => {
            report.array.map(|array| array.array_uuid)
        }
        DeviceVerdict::Foreign { array_uuid } => Some(array_uuid),
        DeviceVerdict::Undecided { array_uuid, .. } => array_uuid,
        DeviceVerdict::Blank | DeviceVerdict::Unusable { .. } => None,
    }
}

fn look(paths: &[PathBuf]) -> ExamineReport {
    examine(paths, StartOptions::default())
}

fn stored_array(array_uuid: String, paths: &[PathBuf]) -> StoredArray {
    let report = look(paths);
    let file_name = |path: &Path| path.file_name().map(|name| name.to_string_lossy().into_owned());
    let name = report.devices.iter().find_map(|device| device.name.clone());
    let (mut devices, mut left_out) = (Vec::new(), Vec::new());
    for device in report.devices {
        let file = file_name(&device.path);
        match device.verdict {
            DeviceVerdict::Present { .. } => devices.push(file),
            DeviceVerdict::Stale { reason, .. } | DeviceVerdict::Unusable { reason } => {
                left_out.push(LeftOut { file, reason });
            }
            _ => {}
        }
    }
    let (own_name, level) = report.array.map(|array| (array.name, array.level)).unzip();
    StoredArray { array_uuid, name: own_name.or(name), level, refused: report.refused, devices, left_out }
}
