//! `raidlab compare`: runs side by side, each argument a group of them; or a plan and runs that were measured.

pub(super) mod back;

use super::keep::DbArgs;
use crate::failure::{Exit, Failure};
use crate::inputs::CatalogArgs;
use crate::output::{Output, print, print_answer};
use crate::schema::Form;
use raidlab_advisor::{Contrast, RunGroup};
use raidlab_planning::{DriveCorrection, drive_corrections};
use raidlab_store::{RunSelector, StoredRun};
use serde::Serialize;
use std::num::NonZeroUsize;

/// Arguments of `raidlab compare`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// What is compared: a run 12, or runs that are repeats of each other, 3..7, study:2, tag:NAME; the others are compared
    /// with the first. plan:2 first, a kept plan or simulation, and measured runs: which of its assumptions was wrong
    #[arg(required = true, num_args = 2.., value_name = "RUNS")]
    groups: Vec<RunSelector>,
    #[command(flatten)]
    place: DbArgs,
    #[command(flatten)]
    catalog: CatalogArgs,
    /// Threads that a plan is simulated on again; all processors by default
    #[arg(long, value_name = "N")]
    threads: Option<NonZeroUsize>,
}

/// Runs the verb.
pub(crate) fn run(args: &Args, output: &Output) -> Result<Exit, Failure> {
    if let Some(RunSelector::Plan(number)) = args.groups.first() {
        return back::run(args, *number, output);
    }
    if let Some(plan) = args.groups.iter().find(|it| matches!(it, RunSelector::Plan(_))) {
        let problem = anyhow::anyhow!("{plan} stands behind the runs that it is compared with");
        return Err(Failure::input(problem).with_hint("name the plan first, and then the runs"));
    }
    let groups = args
        .groups
        .iter()
        .map(|selector| Ok((selector, args.place.runs(std::slice::from_ref(selector))?)))
        .collect::<Result<Vec<(&RunSelector, Vec<StoredRun>)>, Failure>>()?;
    let groups: Vec<RunGroup<'_>> = groups
        .iter()
        .map(|(selector, runs)| RunGroup {
            name: match (selector, &runs[..]) {
                (RunSelector::Run(id), _) => format!("run {id}"),
                (selector, [_]) => format!("{selector} (1 run)"),
                (selector, runs) => format!("{selector} ({} runs)", runs.len()),
            },
            runs: runs.iter().map(|run| &run.result).collect(),
        })
        .collect();
    let contrast = Contrast::of(&groups);
    let catalog = args.catalog.load()?;
    let corrections: Vec<DriveCorrection> =
        groups.iter().skip(1).flat_map(|group| drive_corrections(group, &groups[0], &catalog)).collect();
    if output.is_json() {
        print_answer(&Compared { comparison: &contrast, corrections: &corrections })?;
    } else {
        let mut text = raidlab_report::terminal::contrast(&contrast, output.terminal());
        for it in &corrections {
            let steps = it.corrected.steps.join("\n  ");
            text += "\n";
            text += &[it.what.as_str(), ", corrected for its drives:\n  ", &steps, "\n"].concat();
        }
        print(&text)?;
    }
    Ok(Exit::Done)
}

/// The form of its answer.
pub(crate) const FORM: Form = Form::whole::<Compared<'_>>();

/// A comparison, as JSON.
#[derive(Serialize, schemars::JsonSchema)]
struct Compared<'a> {
    comparison: &'a Contrast,
    corrections: &'a [DriveCorrection],
}
