//! `raidlab catalog`: the modelled hardware, and where each of its figures comes from. With `--catalog`, somebody's own
//! entries are checked and shown like those that come with the program.

mod check;

use crate::failure::{Exit, Failure};
use crate::inputs::CatalogArgs;
use crate::output::{Output, print, print_json};
use raidlab_hardware::{CatalogEntry, CatalogError, FigureSource};
use raidlab_workload::toml_file::nearest;
use serde_json::json;

/// Arguments of `raidlab catalog`.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    /// Show this entry with the source of each figure
    id: Option<String>,
    #[command(flatten)]
    catalog: CatalogArgs,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Measure drives from outside, in virtual time, as their data sheets say, and tell how far they are off
    Check(check::Args),
}

/// Runs the verb.
pub(crate) fn run(args: &Args, output: &Output) -> Result<Exit, Failure> {
    if let Some(Command::Check(args)) = &args.command {
        return check::run(args, output);
    }
    let catalog = args.catalog.load()?;
    let entries: Vec<CatalogEntry<'_>> = catalog.entries().collect();
    match &args.id {
        Some(id) => show(find(&entries, id)?, output)?,
        None if output.is_json() => {
            print_json(&json!({ "schema": 1, "entries": entries }))?;
        }
        None => {
            let longest = entries.iter().map(|entry| entry.id.len()).max().unwrap_or(0);
            let line = |entry: &CatalogEntry<'_>| {
                format!("{:<10}  {:<longest$}  {}\n", entry.kind, entry.id, entry.name)
            };
            print(&entries.iter().map(line).collect::<String>())?;
        }
    }
    Ok(Exit::Done)
}

fn find<'a, 'b>(entries: &'b [CatalogEntry<'a>], id: &str) -> Result<&'b CatalogEntry<'a>, Failure> {
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

fn show(entry: &CatalogEntry<'_>, output: &Output) -> Result<(), Failure> {
    if output.is_json() {
        let mut value = json!(entry);
        value["schema"] = json!(1);
        return print_json(&value);
    }
    let head = format!("{}  {} ({})\n", entry.id, entry.name, entry.kind);
    let figure =
        |figure: &FigureSource| format!("  {} = {}\n      {}\n", figure.key, figure.value, figure.source);
    print(&(head + &entry.sources.iter().map(figure).collect::<String>()))
}
