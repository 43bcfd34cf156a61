//! `raidlab`: a laboratory for storage arrays.
//!
//! Glue only: arguments in, calls into the other crates, text out. One module per verb in [`verbs`]; results go to
//! standard output, progress and errors to standard error.
#![forbid(unsafe_code)]
// `output::remark` keeps names from steering the terminal, and does not panic where nobody can be told.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod cli;
mod failure;
mod hosts;
mod inputs;
mod interrupt;
mod journal;
mod log;
mod output;
mod patience;
mod progress;
mod schema;
mod spelling;
mod verbs;
mod whole_file;

use clap::FromArgMatches;
use cli::{Cli, Command};
use failure::{Exit, Failure};
use output::Output;
use raidlab_hosts::Hosts;
use std::process::ExitCode;

fn main() -> ExitCode {
    // Clap's own code for bad usage is 2, as documented; help and version end with 0.
    let (arguments, notes) = spelling::current(std::env::args_os());
    let parsed = cli::command().try_get_matches_from(&arguments);
    let matches = parsed.unwrap_or_else(|error| cli::refuse(error, &arguments));
    let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|error| cli::refuse(error, &arguments));
    log::start(cli.verbose, cli.command.serves());
    let output = Output::of_process(cli.json);
    if cli.overwrite {
        whole_file::allow_overwriting();
    }
    notes.iter().for_each(output::remark);
    let mut hosts = match hosts::join(&cli.command) {
        Ok(hosts) => hosts,
        Err(failure) => {
            output.error(&failure);
            log::end();
            return failure.exit().into();
        }
    };
    let exit = match dispatch(&cli, &output, &mut hosts) {
        Ok(exit) => exit,
        // Whoever read the results has had enough of them.
        Err(failure) if failure.is_broken_pipe() => Exit::Done,
        Err(failure) => hosts::fail(&failure.given_with(&cli::given(&matches)), &mut hosts, &output),
    };
    hosts::tell_shares(&hosts);
    hosts.part();
    log::end();
    exit.into()
}

fn dispatch(cli: &Cli, output: &Output, hosts: &mut Hosts) -> Result<Exit, Failure> {
    hosts::check_verb(&cli.command, hosts)?;
    match &cli.command {
        Command::Study(args) => verbs::study::run(args, output),
        Command::Measure(args) => verbs::measure::run(args, output, hosts),
        Command::Streams(args) => verbs::streams::run(args, output, hosts),
        Command::Bonnie(args) => verbs::bonnie::run(args, output, hosts),
        Command::Soak(args) => verbs::soak::run(args, output),
        Command::Net(args) => verbs::net::run(args, output, hosts),
        Command::Observe(args) => verbs::observe::run(args, output),
        Command::Simulate(args) => verbs::simulate::run(args, output, hosts),
        Command::Emulate(args) => verbs::emulate::run(args, output),
        Command::Reproduce(args) => verbs::reproduce::run(args, output, hosts),
        Command::Fit(args) => verbs::fit::run(args, output),
        Command::Plan(args) => verbs::plan::run(args, output, hosts),
        Command::Calibrate(args) => verbs::calibrate::run(args, output),
        Command::Risk(args) => verbs::risk::run(args, output),
        Command::Torture(args) => verbs::torture::run(args, output),
        Command::Array(args) => verbs::array::run(args, output),
        Command::Workloads(args) => verbs::workloads::run(args, output),
        Command::Import(args) => verbs::import::run(args, output),
        Command::Catalog(args) => verbs::catalog::run(args, output),
        Command::Model(args) => verbs::model::run(args, output),
        Command::Doctor(args) => verbs::doctor::run(args, output),
        Command::Why(args) => verbs::why::run(args, output),
        Command::Runs(args) => verbs::runs::list(args, output),
        Command::Show(args) => verbs::runs::show(args, output),
        Command::Compare(args) => verbs::compare::run(args, output),
        Command::Report(args) => verbs::report::run(args, output),
        Command::Tag(args) => verbs::tag::run(args, output),
        Command::Export(args) => verbs::export::run(args, output),
        Command::Reference(args) => verbs::reference::run(args),
        Command::Studio(args) => verbs::studio::run(args, output),
    }
}
