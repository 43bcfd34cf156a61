//! `raidlab catalog`: the modelled hardware, and where each of its figures comes from.

use crate::failure::{Exit, Failure};
use crate::output::{Output, print, print_json};
use raidlab_hardware::{Catalog, CatalogError, FigureSource};
use raidlab_workload::toml_file::nearest;
use serde_json::{Value, json};

/// Arguments of `raidlab catalog`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Show this entry with the source of each figure
    id: Option<String>,
}

/// What an entry of any kind has.
struct Entry<'a> {
    kind: &'static str,
    id: &'a str,
    name: &'a str,
    sources: &'a [FigureSource],
}

/// Runs the verb.
pub(crate) fn run(args: &Args, output: &Output) -> Result<Exit, Failure> {
    let catalog = Catalog::builtin();
    let entries = entries(&catalog);
    match &args.id {
        Some(id) => show(find(&entries, id)?, output)?,
        None if output.is_json() => {
            let all: Vec<Value> = entries.iter().map(head_json).collect();
            print_json(&json!({ "schema": 1, "entries": all }))?;
        }
        None => {
            let line = |entry: &Entry<'_>| format!("{:<10}  {:<14}  {}\n", entry.kind, entry.id, entry.name);
            print(&entries.iter().map(line).collect::<String>())?;
        }
    }
    Ok(Exit::Done)
}

fn entries(catalog: &Catalog) -> Vec<Entry<'_>> {
    let drives = catalog.drives().map(|model| entry("drive", &model.id, &model.name, &model.sources));
    let controllers =
        catalog.controllers().map(|model| entry("controller", &model.id, &model.name, &model.sources));
    let enclosures =
        catalog.enclosures().map(|model| entry("enclosure", &model.id, &model.name, &model.sources));
    let hosts = catalog.hosts().map(|model| entry("host", &model.id, &model.name, &model.sources));
    let filesystems =
        catalog.filesystems().map(|model| entry("filesystem", &model.id, &model.name, &model.sources));
    drives.chain(controllers).chain(enclosures).chain(hosts).chain(filesystems).collect()
}

fn entry<'a>(kind: &'static str, id: &'a str, name: &'a str, sources: &'a [FigureSource]) -> Entry<'a> {
    Entry { kind, id, name, sources }
}

fn find<'a, 'b>(entries: &'b [Entry<'a>], id: &str) -> Result<&'b Entry<'a>, Failure> {
    let known = || entries.iter().map(|entry| entry.id);
    entries.iter().find(|entry| entry.id == id).ok_or_else(|| {
        Failure::input(CatalogError::UnknownId {
            what: "entry",
            id: id.to_owned(),
            nearest: nearest(id, known()).map(str::to_owned),
            known: known().map(str::to_owned).collect(),
        })
    })
}

fn show(entry: &Entry<'_>, output: &Output) -> Result<(), Failure> {
    if output.is_json() {
        let figures: Vec<Value> = entry
            .sources
            .iter()
            .map(|figure| json!({ "key": figure.key, "value": figure.value, "source": figure.source }))
            .collect();
        let mut value = head_json(entry);
        value["schema"] = json!(1);
        value["figures"] = json!(figures);
        return print_json(&value);
    }
    let head = format!("{}  {} ({})\n", entry.id, entry.name, entry.kind);
    let figure =
        |figure: &FigureSource| format!("  {} = {}\n      {}\n", figure.key, figure.value, figure.source);
    print(&(head + &entry.sources.iter().map(figure).collect::<String>()))
}

fn head_json(entry: &Entry<'_>) -> Value {
    json!({ "kind": entry.kind, "id": entry.id, "name": entry.name })
}
