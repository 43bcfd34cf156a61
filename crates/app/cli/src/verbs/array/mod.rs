//! `raidlab array`: arrays that hold data. One module makes and examines devices, one serves, one talks to a served
//! array.

mod assemble;
mod block_device;
pub(super) mod create;
pub(super) mod events;
mod examined_text;
pub(super) mod operate;
pub(super) mod operator;
mod serve;
mod status_text;

pub(super) use operator::OperatorArgs;

use crate::failure::{Exit, Failure};
use crate::output::Output;

/// Arguments of `raidlab array`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    /// Make an array out of devices, or out of files that are made for it
    Create(create::Args),
    /// Say what devices are and whether they may be served; changes nothing
    Assemble(assemble::Args),
    /// Start an array from its devices and serve it over NBD until it is told to stop
    Serve(serve::Args),
    /// Say how arrays are that are being served
    Status(operate::StatusArgs),
    /// Say what happened to an array, and when, also to one that is not served
    Events(events::Args),
    /// Take a device out of an array, as if it had been pulled
    Fail(operate::FailArgs),
    /// Put a new device in the place of one that is missing; it is rebuilt at once
    Replace(operate::ReplaceArgs),
    /// Add a hot spare, which takes the place of the next member that fails
    AddSpare(operate::AddSpareArgs),
    /// Wait for a rebuild with its progress, or bound the rate of rebuilds
    Rebuild(operate::RebuildArgs),
    /// Compare redundancy with the data, and with --repair rewrite what disagrees
    #[command(alias = "scrub")]
    Check(operate::CheckArgs),
    /// Try blocks once more that can't be read, and say what came back and what did not
    Recover(operate::NameArgs),
    /// Read the TLS certificates of a served array anew, for clients that come from then on
    Reload(operate::NameArgs),
    /// Stop an array cleanly: all of its data is on its devices then
    Stop(operate::NameArgs),
}

impl Args {
    /// Whether an array is served.
    pub(crate) const fn serves(&self) -> bool {
        matches!(self.verb, Verb::Serve(_))
    }
}

/// Runs the verb.
pub(crate) fn run(args: &Args, output: &Output) -> Result<Exit, Failure> {
    match &args.verb {
        Verb::Create(args) => create::run(args, output),
        Verb::Assemble(args) => assemble::run(args, output),
        Verb::Serve(args) => serve::run(args, output),
        Verb::Status(args) => operate::status(args, output),
        Verb::Events(args) => events::run(args, output),
        Verb::Fail(args) => operate::fail(args, output),
        Verb::Replace(args) => operate::replace(args, output),
        Verb::AddSpare(args) => operate::add_spare(args, output),
        Verb::Rebuild(args) => operate::rebuild(args, output),
        Verb::Check(args) => operate::check(args, output),
        Verb::Recover(args) => operate::recover(args, output),
        Verb::Reload(args) => operate::reload(args, output),
        Verb::Stop(args) => operate::stop(args, output),
    }
}
