//! `raidlab catalog`: the modelled hardware, and the source of each figure. With `--catalog`, the user's own entries
//! are checked and shown like the built-in ones.

pub(super) mod check;

use crate::failure::{Exit, Failure};
use crate::inputs::CatalogArgs;
use crate::output::{Output, print, print_answer, print_named};
use anyhow::anyhow;
use raidlab::{CatalogEntry, CatalogError, FigureSource, YearRange, nearest};
use std::collections::BTreeSet;

/// Arguments of `raidlab catalog`.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    /// Show this entry with the source of each figure
    #[arg(conflicts_with_all = ["year", "kind"])]
    id: Option<String>,
    /// List what was sold from these years on: 2020.., 2008..2011, 2023; what stands for a class is in all of them
    #[arg(long, value_name = "YEARS")]
    year: Option<YearRange>,
    /// List these kinds: drive, nvme, sata-ssd, sas-ssd, hdd, controller, enclosure, link, network, host, filesystem, server
    #[arg(long, value_name = "KIND", value_delimiter = ',')]
    kind: Vec<String>,
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
        None => list(&args.wanted(&entries)?, output)?,
    }
    Ok(Exit::Done)
}

impl Args {
    fn wanted<'a>(&self, entries: &[CatalogEntry<'a>]) -> Result<Vec<CatalogEntry<'a>>, Failure> {
        let names = |entry: &CatalogEntry<'a>| [Some(entry.kind), entry.class].into_iter().flatten();
        let known: BTreeSet<&str> = entries.iter().flat_map(names).collect();
        if let Some(kind) = self.kind.iter().find(|kind| !known.contains(kind.as_str())) {
            let meant = nearest(kind, known.iter().copied());
            let meant = meant.map(|name| format!(", did you mean '{name}'?")).unwrap_or_default();
            let known: Vec<&str> = known.into_iter().collect();
            let failure = Failure::input(anyhow!("the catalogue has no kind '{kind}'{meant}"));
            return Err(failure.with_hint(format!("kinds are {}", known.join(", "))));
        }
        let is_wanted = |entry: &&CatalogEntry<'a>| {
            (self.kind.is_empty() || names(entry).any(|name| self.kind.iter().any(|kind| kind == name)))
                && self.year.is_none_or(|years| years.holds(entry.year))
        };
        Ok(entries.iter().filter(is_wanted).copied().collect())
    }
}

fn list(entries: &[CatalogEntry<'_>], output: &Output) -> Result<(), Failure> {
    if output.is_json() {
        return print_named("entries", entries);
    }
    let longest = entries.iter().map(|entry| entry.id.len()).max().unwrap_or(0);
    let line = |entry: &CatalogEntry<'_>| {
        let year = entry.year.map_or_else(String::new, |year| year.to_string());
        let kind = entry.class.unwrap_or(entry.kind);
        format!("{kind:<10}  {year:>4}  {:<longest$}  {}\n", entry.id, entry.name)
    };
    print(&entries.iter().map(line).collect::<String>())
}

fn find<'a, 'b>(entries: &'b [CatalogEntry<'a>], id: &str) -> Result<&'b CatalogEntry<'a>, Failure> {
    let known = || entries.iter().map(|entry| entry.id);
    entries.iter().find(|entry| entry.id == id).ok_or_else(|| {
        Failure::input(CatalogError::UnknownId {
            what: "entry",
            id: id.to_owned(),
            nearest: nearest(id, known()),
            known: known().map(str::to_owned).collect(),
        })
        .with_hint("'raidlab catalog' lists the hardware")
    })
}

fn show(entry: &CatalogEntry<'_>, output: &Output) -> Result<(), Failure> {
    if output.is_json() {
        return print_answer(entry);
    }
    let head = format!("{}  {} ({})\n", entry.id, entry.name, entry.kind);
    let figure = |figure: &FigureSource| {
        let ends = match (&figure.low, &figure.high) {
            (None, None) => String::new(),
            (low, high) => {
                let end = |end: &Option<String>| end.as_ref().unwrap_or(&figure.value).clone();
                format!(" ({} to {})", end(low), end(high))
            }
        };
        format!("  {} = {}{ends}\n      {}\n", figure.key, figure.value, figure.source)
    };
    print(&(head + &entry.sources.iter().map(figure).collect::<String>()))
}
