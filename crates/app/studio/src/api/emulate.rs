//! Modelled arrays, served at their own speed. Their description is a file in the folder, as the verb requires, so that
//! the shown command can be run again; it is written here once, and never over another file.

use super::arrays::array_name;
use super::input::{Order, text};
use super::live::is_named;
use super::start;
use crate::StudioState;
use crate::command::CommandLine;
use crate::fault::Fault;
use crate::job::JobKind;
use axum::extract::State;
use axum::response::Response;
use raidlab_hardware::Catalog;
use raidlab_worlds::ArrayFile;
use serde::Deserialize;
use std::io::Write;
use std::sync::Arc;

/// A modelled array to be served.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EmulateOrder {
    name: String,
    /// The description, as in a file of `raidlab simulate --array`.
    array: String,
    socket: String,
    backing: Option<String>,
    destroy_data: Option<String>,
}

pub(super) async fn emulate(
    State(studio): State<Arc<StudioState>>,
    Order { order, dry_run }: Order<EmulateOrder>,
) -> Result<Response, Fault> {
    array_name(&order.name)?;
    let file = format!("{}.toml", order.name);
    studio.folder.check("name", &file)?;
    studio.folder.check("socket", &order.socket)?;
    if let Some(backing) = &order.backing {
        studio.folder.check("backing", backing)?;
    }
    is_named("destroy_data", order.destroy_data.as_ref(), order.backing.as_deref().unwrap_or_default())?;
    text("socket", Some(&order.socket))?;
    is_possible(&order.array)?;
    if !dry_run {
        keep(&studio, &file, &order.array)?;
    }
    let command = CommandLine::new(&["emulate"])
        .values(&[file])
        .option("--socket", Some(order.socket))
        .option("--backing", order.backing)
        .option("--destroy-data", order.destroy_data);
    start(&studio, JobKind::Emulate, order.name, command, dry_run)
}

/// Checks the description as the verb will, so that no file is written for nothing.
fn is_possible(text: &str) -> Result<(), Fault> {
    let refused = |error: &dyn std::fmt::Display| {
        Fault::input(error.to_string(), "array", "mend the description; /api/catalogue lists the hardware")
    };
    let file = ArrayFile::parse("array", text).map_err(|error| refused(&error))?;
    let mut catalog = Catalog::builtin();
    file.condition_drives(&mut catalog).map_err(|error| refused(&error))?;
    let (_, array) = file.resolve(&catalog).map_err(|error| refused(&error))?;
    if array.volume_count() > 1 {
        return Err(refused(&"it has several volumes, and one can be emulated at a time"));
    }
    Ok(())
}

/// Writes the description, unless it is there already, word for word.
fn keep(studio: &StudioState, file: &str, text: &str) -> Result<(), Fault> {
    let path = studio.folder.path().join(file);
    if std::fs::read_to_string(&path).is_ok_and(|found| found == text) {
        return Ok(());
    }
    let made = std::fs::File::create_new(&path).and_then(|mut made| made.write_all(text.as_bytes()));
    made.map_err(|error| {
        let what = format!("{file} can't be written: {error}");
        Fault::conflict(what, "name", "take another name: no file is written over")
    })
}
