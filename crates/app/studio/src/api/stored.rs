//! Arrays in the folder: the files of each, and which of these are out of date.
//!
//! ```text
//! files ─► label of each ─► files by array ─► examined together ─► devices to serve, and those left out with the reason
//! ```
//! Left out: arrays over devices outside the folder, which pages can't name.

use super::{FILES_MAX, blocking, ok};
use crate::StudioState;
use crate::fault::Fault;
use axum::extract::State;
use axum::response::Response;
use raidlab_runtime::{DeviceVerdict, ExamineReport, StartOptions, examine};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

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
        let found: Vec<Value> = arrays.iter().map(|(uuid, paths)| array_json(uuid, paths)).collect();
        Ok(ok(&json!({ "schema": 1, "arrays": found })))
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

fn array_json(uuid: &str, paths: &[PathBuf]) -> Value {
    let report = look(paths);
    let file_name = |path: &Path| path.file_name().map(|name| name.to_string_lossy().into_owned());
    let (mut devices, mut left_out) = (Vec::new(), Vec::new());
    for device in &report.devices {
        match &device.verdict {
            DeviceVerdict::Present { .. } => devices.push(json!(file_name(&device.path))),
            DeviceVerdict::Stale { reason, .. } | DeviceVerdict::Unusable { reason } => {
                left_out.push(json!({ "file": file_name(&device.path), "reason": reason }));
            }
            _ => {}
        }
    }
    let name = report.devices.iter().find_map(|device| device.name.clone());
    json!({
        "array_uuid": uuid,
        "name": report.array.as_ref().map(|array| array.name.clone()).or(name),
        "level": report.array.as_ref().map(|array| array.level.clone()),
        "refused": report.refused,
        "devices": devices,
        "left_out": left_out,
    })
}
