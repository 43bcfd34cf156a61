//! `raidlab array events`: the events of an array, even of one that is not served.

use super::status_text::event_lines;
use crate::failure::{Exit, Failure};
use crate::output::{Output, print, print_answer, remark};
use crate::schema::Form;
use raidlab_control::{ControlClient, control_socket};
use raidlab_runtime::{
    Answer, Command, HistoryLine, HistoryPlace, HistoryRead, KeptHistory, find_histories, read_history,
    read_history_of,
};
use serde::Serialize;
use std::io;
use std::path::{Path, PathBuf};

/// Where the history of an array is kept.
#[derive(Debug, clap::Args)]
pub(super) struct HistoryArgs {
    /// Keep the history of events in this file; `none` keeps none [default: NAME.UUID.events in `$STATE_DIRECTORY`, /var/lib/raidlab or, of
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
    /// Name or UUID of the array, the path of its control socket, or the path of its history
    #[arg(value_name = "NAME")]
    name: String,
    /// Show only the latest
    #[arg(long, value_name = "N")]
    last: Option<usize>,
}

/// Runs the verb.
pub(crate) fn run(args: &Args, output: &Output) -> Result<Exit, Failure> {
    let (path, read) = history_of(&args.name)?;
    let HistoryRead { mut lines, damaged } = read.map_err(|error| unreadable(&path, error))?;
    let skipped = lines.len().saturating_sub(args.last.unwrap_or(usize::MAX));
    lines.drain(..skipped);
    if output.is_json() {
        print_answer(&HistoryAnswer { history: &path, damaged_lines: damaged, events: &lines })?;
    } else {
        print(&event_lines(&lines, skipped, damaged, output.unwrapped_if_piped()))?;
    }
    Ok(Exit::Done)
}

/// The form of its answer.
pub(crate) const FORM: Form = Form::whole::<HistoryAnswer<'_>>();

/// The events that are kept, as JSON.
#[derive(Serialize, schemars::JsonSchema)]
struct HistoryAnswer<'a> {
    history: &'a Path,
    damaged_lines: u64,
    events: &'a [HistoryLine],
}

fn unreadable(path: &Path, error: io::Error) -> Failure {
    let what = format!("no history can be read at {}", path.display());
    Failure::run(anyhow::Error::new(error).context(what))
        .with_hint("an array keeps one from when it is first served, unless 'serve --history none' was said")
}

/// The history of an array that is served, as it says, or else that of the latest of this name.
fn history_of(name: &str) -> Result<(PathBuf, io::Result<HistoryRead>), Failure> {
    let asked = ControlClient::connect(&control_socket(name)).and_then(|mut line| line.ask(&Command::Status));
    if let Ok(Answer::Status(status)) = asked {
        let path = status.history.as_ref().map(PathBuf::from).ok_or_else(|| {
            Failure::run(anyhow::anyhow!("{} is served without a history", status.name))
                .with_hint("'raidlab array status' shows its latest events")
        })?;
        let read = read_history_of(&path, &status.name, &status.array_uuid);
        return Ok((path, read));
    }
    if name.contains('/') {
        let path = PathBuf::from(name);
        let read = read_history(&path);
        return Ok((path, read));
    }
    let folder = default_folder().ok_or_else(|| {
        Failure::input(anyhow::anyhow!("name the file of the history: this user has no home"))
    })?;
    let mut found = find_histories(&folder, name).map_err(|error| unreadable(&folder, error))?;
    let Some(latest) = found.pop() else {
        let nowhere = folder.join(format!("{name}.*.events"));
        return Ok((nowhere, Err(io::ErrorKind::NotFound.into())));
    };
    for other in found {
        let KeptHistory { array_uuid, latest, .. } = other;
        remark(format_args!(
            "note: another array was called {name} until {latest}: 'raidlab array events {array_uuid}' shows its events"
        ));
    }
    let read = read_history_of(&latest.path, &latest.name, &latest.array_uuid);
    Ok((latest.path, read))
}
