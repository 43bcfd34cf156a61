//! `raidlab tag`: names for runs of a results file, by which `compare`, `export` and `report` find them.

use super::keep::{DbArgs, selected, store_failure};
use crate::failure::{Exit, Failure};
use crate::output::{Output, print_answer, remark};
use crate::schema::Form;
use raidlab_store::RunSelector;
use serde::Serialize;

/// The form of its answer.
pub(crate) const FORM: Form = Form::whole::<Tagged<'_>>();

/// What was done, as JSON.
#[derive(Serialize, schemars::JsonSchema)]
struct Tagged<'a> {
    tag: &'a str,
    removed: bool,
    runs: &'a [i64],
}

/// Arguments of `raidlab tag`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The tag
    #[arg(value_parser = clap::builder::NonEmptyStringValueParser::new())]
    tag: String,
    /// Runs: a number 12, a range 3..7, study:2, tag:NAME
    #[arg(required = true, value_name = "RUNS")]
    runs: Vec<RunSelector>,
    /// Take the tag away instead
    #[arg(long)]
    remove: bool,
    #[command(flatten)]
    place: DbArgs,
}

/// Runs the verb.
pub(crate) fn run(args: &Args, output: &Output) -> Result<Exit, Failure> {
    let mut store = args.place.open()?;
    let runs = selected(&store, &args.runs)?;
    let changed = if args.remove { store.untag(&runs, &args.tag) } else { store.tag(&runs, &args.tag) };
    changed.map_err(store_failure)?;
    if output.is_json() {
        print_answer(&Tagged { tag: &args.tag, removed: args.remove, runs: &runs })?;
    } else {
        let done = if args.remove { "without" } else { "with" };
        remark(format_args!("{} runs {done} tag '{}'", runs.len(), args.tag));
    }
    Ok(Exit::Done)
}
