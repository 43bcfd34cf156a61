//! `raidlab studio`: serves the web pages until it is stopped.

use crate::failure::{Exit, Failure};
use crate::interrupt::cancel_flag;
use crate::output::{Output, print, print_answer};
use crate::schema::Form;
use raidlab_control::ServeError;
use raidlab_studio::{Studio, StudioError, StudioOptions};
use serde::Serialize;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How often an end is looked for.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Arguments of `raidlab studio`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Loopback address of the pages; port 0 takes a free one
    #[arg(long, default_value = "127.0.0.1:9177", value_name = "ADDRESS:PORT")]
    listen: SocketAddr,
    /// Files that pages name lie in this folder, and commands run in it
    #[arg(long, default_value = ".", value_name = "DIR")]
    folder: PathBuf,
    /// Results file, as seen from the folder
    #[arg(long, value_name = "FILE.sqlite", default_value = "raidlab.sqlite")]
    db: PathBuf,
}

/// Runs the verb.
pub(crate) fn run(args: &Args, output: &Output) -> Result<Exit, Failure> {
    let program = std::env::current_exe().map_err(Failure::run)?;
    let options =
        StudioOptions { address: args.listen, folder: args.folder.clone(), db: args.db.clone(), program };
    let cancel = cancel_flag("stopping");
    let studio = Studio::start(options).map_err(failure)?;
    if output.is_json() {
        let address = studio.address().to_string();
        print_answer(&Place { address, token: studio.token(), url: studio.url() })?;
    } else {
        print(&format!("the studio is at {}\nCtrl-C ends it and what it started", studio.url()))?;
    }
    while !cancel.load(Ordering::Relaxed) {
        std::thread::sleep(LOOK_EVERY);
    }
    studio.stop();
    Ok(Exit::Done)
}

/// The form of its answer.
pub(crate) const FORM: Form = Form::whole::<Place<'_>>();

/// Where the studio is, as JSON.
#[derive(Serialize, schemars::JsonSchema)]
struct Place<'a> {
    address: String,
    token: &'a str,
    url: String,
}

fn failure(error: StudioError) -> Failure {
    match &error {
        StudioError::Serve(ServeError::NotLoopback { .. }) => Failure::input(error)
            .with_hint("take 127.0.0.1 or [::1]; ssh -L brings the pages to another machine"),
        StudioError::Serve(_) => Failure::run(error).with_hint("--listen 127.0.0.1:0 takes a free port"),
        StudioError::Folder { .. } => Failure::input(error),
        StudioError::Token(_) => Failure::run(error),
    }
}
