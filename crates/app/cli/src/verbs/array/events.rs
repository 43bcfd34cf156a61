//! `raidlab array events`: the events of an array, even of one that is not served.

use super::status_text::event_lines;
use crate::failure::{Exit, Failure};
use crate::output::{Output, print, print_json};
use raidlab_control::{ControlClient, control_socket};
use raidlab_runtime::{Answer, Command, HistoryPlace, HistoryRead, read_history};
use serde_json::json;
use std::path::{Path, PathBuf};

/// Where the history of an array is kept.
#[derive(Debug, clap::Args)]
pub(super) struct HistoryArgs {
    /// Keep the history of events in this file; `none` keeps none [default: NAME.events in `$STATE_DIRECTORY`, /var/lib/raidlab or, of
    /// a user, ~/.local/state/raidlab]
    #[arg(long, value_name = "FILE|none")]
    history: Option<PathBuf>,
}

impl HistoryArgs {
    /// The place, if there is one.
    pub(super) fn place(&self) -> Option<HistoryPlace> {
        match &self.history {
            None => default_folder().map(HistoryPlace::Folder),
            Some(none) if none == Path::new("none") => None,
            Some(file) => Some(HistoryPlace::File(file.clone())),
        }
    }
}

/// The folder of this user's histories; none where the user has no home.
fn default_folder() -> Option<PathBuf> {
    let folder = |variable| std::env::var_os(variable).filter(|it| !it.is_empty()).map(PathBuf::from);
    // systemd.exec(5): several are separated by colons.
    let given = std::env::var("STATE_DIRECTORY").ok();
    let given = given.as_deref().and_then(|all| all.split(':').next()).filter(|first| !first.is_empty());
    if let Some(given) = given {
        return Some(given.into());
    }
    if rustix::process::geteuid().is_root() {
        return Some("/var/lib/raidlab".into());
    }
    let state = folder("XDG_STATE_HOME").or_else(|| Some(folder("HOME")?.join(".local/state")));
    state.map(|state| state.join("raidlab"))
}

/// Arguments of `raidlab array events`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Name of the array, the path of its control socket, or the path of its history
    #[arg(value_name = "NAME")]
    name: String,
    /// Show only the latest
    #[arg(long, value_name = "N")]
    last: Option<usize>,
}

/// Runs the verb.
pub(crate) fn run(args: &Args, output: &Output) -> Result<Exit, Failure> {
    let path = history_of(&args.name)?;
    let HistoryRead { mut lines, damaged } = read_history(&path).map_err(|error| {
        let what = format!("no history can be read at {}", path.display());
        Failure::run(anyhow::Error::new(error).context(what)).with_hint(
            "an array keeps one from when it is first served, unless 'serve --history none' was said",
        )
    })?;
    let skipped = lines.len().saturating_sub(args.last.unwrap_or(usize::MAX));
    lines.drain(..skipped);
    if output.is_json() {
        print_json(&json!({ "schema": 1, "history": path, "damaged_lines": damaged, "events": lines }))?;
    } else {
        print(&event_lines(&lines, damaged, output.unwrapped_if_piped()))?;
    }
    Ok(Exit::Done)
}

/// The history of an array that is served, as it says, or else where one of this name has it.
fn history_of(name: &str) -> Result<PathBuf, Failure> {
    let asked = ControlClient::connect(&control_socket(name)).and_then(|mut line| line.ask(&Command::Status));
    match asked {
        Ok(Answer::Status(status)) => status.history.map(PathBuf::from).ok_or_else(|| {
            Failure::run(anyhow::anyhow!("{} is served without a history", status.name))
                .with_hint("'raidlab array status' shows its latest events")
        }),
        _ if name.contains('/') => Ok(name.into()),
        _ => default_folder().map(|folder| HistoryPlace::Folder(folder).file(name, name)).ok_or_else(|| {
            Failure::input(anyhow::anyhow!("name the file of the history: this user has no home"))
        }),
    }
}
