//! `raidlab doctor`: what this machine can and cannot do, and why.

use crate::failure::{Exit, Failure};
use crate::output::{Output, print, print_answer};
use crate::schema::Form;
use raidlab_machine::Environment;
use raidlab_machine::doctor::{Check, Verdict, examine};
use serde::Serialize;
use std::path::PathBuf;

/// Arguments of `raidlab doctor`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Folder where test files and members would be laid out
    #[arg(long, default_value = ".", value_name = "DIR")]
    folder: PathBuf,
}

/// Runs the verb. Something missing is an answer, not a failure.
pub(crate) fn run(args: &Args, output: &Output) -> Result<Exit, Failure> {
    let checks = examine(&args.folder);
    let environment = Environment::of_target(&args.folder);
    if output.is_json() {
        print_answer(&Examined { checks: &checks, environment: &environment })?;
    } else {
        print(&checks.iter().map(as_text).collect::<String>())?;
    }
    Ok(Exit::Done)
}

/// The form of its answer.
pub(crate) const FORM: Form = Form::whole::<Examined<'_>>();

/// What was found, as JSON.
#[derive(Serialize, schemars::JsonSchema)]
struct Examined<'a> {
    checks: &'a [Check],
    environment: &'a Environment,
}

fn as_text(check: &Check) -> String {
    let verdict = match check.verdict {
        Verdict::Ok => "ok",
        Verdict::Missing => "missing",
    };
    let found = format!("{verdict:<8} {}: {}\n", check.name, check.found);
    let advice = check.how.map_or(String::new(), |how| {
        format!("         why it matters: {}\n         how to get it: {how}\n", check.why)
    });
    found + &advice
}
