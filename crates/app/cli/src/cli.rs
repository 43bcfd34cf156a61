//! The command line: one table for parsing and help.
//!
//! Verbs are listed in groups, each with an example; options are under headings, those of all verbs last, in 80
//! columns.

use crate::failure::Failure;
use crate::hosts::RankArgs;
use crate::output::{Output, remark};
use crate::verbs::{
    array, bonnie, calibrate, catalog, compare, doctor, emulate, export, fit, import, measure, model, net,
    observe, plan, reference, report, reproduce, risk, runs, simulate, soak, streams, studio, study, tag,
    torture, why, workloads,
};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{ArgAction, ArgMatches, CommandFactory, Parser, Subcommand};
use std::error::Error;
use std::ffi::OsString;
use std::fmt::Write;
use std::net::AddrParseError;
use std::num::{IntErrorKind, ParseFloatError, ParseIntError};

/// Columns that help takes at most.
const WIDTH: usize = 80;

/// What stands under the last heading of every verb.
const GENERAL: &str = "All verbs";

/// A laboratory for storage arrays: measure, simulate, run and reproduce on one controller
#[derive(Debug, Parser)]
#[command(
    name = "raidlab",
    version,
    after_help = EXIT_CODES,
    propagate_version = true,
    max_term_width = WIDTH,
    disable_help_flag = true,
    disable_version_flag = true
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,

    /// Print results and errors as JSON; field names carry the units
    #[arg(long, global = true, help_heading = GENERAL)]
    pub(crate) json: bool,

    /// Let results replace files that raidlab did not write
    #[arg(long, global = true, help_heading = GENERAL)]
    pub(crate) overwrite: bool,

    /// Log more to standard error (twice for debugging); `RAIDLAB_LOG` takes filters
    #[arg(short, long, global = true, action = ArgAction::Count, help_heading = GENERAL)]
    pub(crate) verbose: u8,

    /// Print help
    #[arg(short, long, global = true, action = ArgAction::Help, help_heading = GENERAL)]
    help: Option<bool>,

    /// Print the version
    #[arg(short = 'V', long, global = true, action = ArgAction::Version, help_heading = GENERAL)]
    version: Option<bool>,
}

/// Verbs that belong together, and what one of them is like.
struct VerbGroup {
    title: &'static str,
    example: &'static str,
    verbs: &'static [&'static str],
}

/// Every verb is in one of them.
const GROUPS: [VerbGroup; 5] = [
    VerbGroup {
        title: "Measure",
        example: "raidlab measure test.dat --size 1GiB -w database --iodepth 1..64",
        verbs: &["measure", "study", "streams", "bonnie", "soak", "net", "observe", "calibrate"],
    },
    VerbGroup {
        title: "Model",
        example: "raidlab plan --app storagebench-database --usable 20TB --iops 20000",
        verbs: &["plan", "simulate", "risk", "reproduce", "fit", "catalog", "model"],
    },
    VerbGroup {
        title: "Arrays",
        example: "raidlab array create a0 m0 m1 m2 m3 --level 5 --member-size 1GiB",
        verbs: &["array", "emulate", "torture"],
    },
    VerbGroup {
        title: "Results",
        example: "raidlab compare study:1 study:2",
        verbs: &["runs", "show", "compare", "report", "tag", "export"],
    },
    VerbGroup {
        title: "More",
        example: "raidlab doctor",
        verbs: &["doctor", "why", "workloads", "import", "studio", "reference"],
    },
];

/// The command line with its verbs in groups.
pub(crate) fn command() -> clap::Command {
    let command = Cli::command();
    let header = *command.get_styles().get_header();
    let verbs = grouped_verbs(&command);
    let template = format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{verbs}\n\
         'raidlab VERB --help' has the options of a verb.\n\n\
         {header}{GENERAL}:{header:#}\n{{options}}{{after-help}}"
    );
    command.help_template(template)
}

/// The options that were given, by their long names, with each part of their values; arguments without a name by that of their value.
pub(crate) fn given(matches: &ArgMatches) -> Vec<(String, String)> {
    let whole = command();
    let (mut command, mut matches, mut given) = (&whole, matches, Vec::new());
    loop {
        for arg in command.get_arguments() {
            let id = arg.get_id().as_str();
            let name = arg.get_long().map_or_else(|| format!("<{}>", shown(arg)), |long| format!("--{long}"));
            let is_given = matches.try_contains_id(id).unwrap_or_default()
                && matches.value_source(id) == Some(ValueSource::CommandLine);
            for value in matches.try_get_raw(id).ok().flatten().into_iter().flatten().filter(|_| is_given) {
                let value = value.to_string_lossy();
                given.push((name.clone(), value.clone().into_owned()));
                let parts = value.split([',', '=', ':']).filter(|part| !part.is_empty());
                given.extend(parts.map(|part| (name.clone(), part.to_owned())));
            }
        }
        let Some((verb, of_verb)) = matches.subcommand() else { return given };
        let Some(below) = command.find_subcommand(verb) else { return given };
        (command, matches) = (below, of_verb);
    }
}

/// The name of an argument's value, as the help shows it.
fn shown(arg: &clap::Arg) -> String {
    let name = arg.get_value_names().and_then(<[_]>::first);
    name.map_or_else(|| arg.get_id().as_str().to_uppercase(), ToString::to_string)
}

/// What is wrong with a command line that can't be parsed, if an option has a negative number, which looks like another option.
fn negative_value(arguments: &[OsString]) -> Option<Failure> {
    let pairs = arguments
        .iter()
        .zip(arguments.iter().skip(1))
        .map(|(option, value)| (option.to_str(), value.to_str()));
    let is_number = |value: &&str| {
        value.strip_prefix('-').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    let found = pairs.filter_map(|(option, value)| Some((option?, value?)));
    let (option, value) = found
        .take_while(|(option, _)| *option != "--")
        .find(|(option, value)| option.starts_with("--") && !option.contains('=') && is_number(value))?;
    Some(Failure::input(anyhow::anyhow!("'{value}' is negative: {option} takes no negative value")))
}

/// What is wrong with a value that Rust's own types refuse, whose words speak of digits and syntax.
fn no_number(error: &clap::Error) -> Option<Failure> {
    let source = error.source()?;
    let why = match source.downcast_ref::<ParseIntError>().map(ParseIntError::kind) {
        Some(IntErrorKind::PosOverflow | IntErrorKind::NegOverflow) => "is out of range",
        Some(IntErrorKind::Zero) => "has to be 1 or more",
        Some(_) => "is no whole number",
        None if source.is::<ParseFloatError>() => "is no number",
        None if source.is::<AddrParseError>() => "is no address with a port, such as 127.0.0.1:10809",
        None => return None,
    };
    let said = |kind| error.get(kind).map(ToString::to_string);
    let (option, value) = (said(ContextKind::InvalidArg)?, said(ContextKind::InvalidValue)?);
    Some(Failure::input(anyhow::anyhow!("invalid value '{value}' for '{option}': '{value}' {why}")))
}

/// Says what is wrong with a command line, or prints help, and ends. What may have been meant is a hint, as in all other errors.
pub(crate) fn refuse(mut error: clap::Error, arguments: &[OsString]) -> ! {
    let hint = meant(&mut error).map(|name| format!("did you mean '{name}'?"));
    let is_json = arguments.iter().take_while(|word| *word != "--").any(|word| word == "--json");
    let is_told = is_json && error.use_stderr();
    let help = "--help lists what can be given";
    let others = other_unknown_options(&error, arguments);
    let told = || {
        let wrong = [what_is_wrong(&error)].into_iter().chain(others.clone()).collect::<Vec<_>>().join("\n");
        Failure::input(anyhow::anyhow!(wrong)).with_hint(hint.as_deref().unwrap_or(help))
    };
    let refused = negative_value(arguments).or_else(|| no_number(&error));
    if let Some(failure) = refused.or_else(|| is_told.then(told)) {
        Output::of_process(is_json).error(&failure);
        std::process::exit(failure.exit().code().into());
    }
    let _ = error.print();
    if let Some(hint) = &hint {
        remark(format_args!("hint: {hint}"));
    }
    for other in &others {
        remark(format_args!("error: {other}"));
    }
    std::process::exit(error.exit_code())
}

/// What is said of each unknown option beside the one that `error` names: what is unknown is left out, and the rest is read again.
fn other_unknown_options(error: &clap::Error, arguments: &[OsString]) -> Vec<String> {
    let (mut left, mut found) = (arguments.to_vec(), Vec::new());
    let mut unknown = unknown_argument(error);
    while let Some(name) = unknown {
        let is_it = |word: &OsString| word.to_string_lossy().split('=').next() == Some(&name);
        let Some(at) = left.iter().position(is_it) else { break };
        left.remove(at);
        let Err(mut next) = command().try_get_matches_from(&left) else { break };
        unknown = unknown_argument(&next);
        // The value of an unknown option is unexpected too, and goes without saying.
        if let Some(option) = unknown.as_deref().filter(|name| name.starts_with('-')) {
            let near = meant(&mut next).map_or_else(String::new, |near| format!(", did you mean '{near}'?"));
            found.push(format!("unexpected argument '{option}' found{near}"));
        }
    }
    found
}

/// The argument that an error calls unknown.
fn unknown_argument(error: &clap::Error) -> Option<String> {
    match error.get(ContextKind::InvalidArg).filter(|_| error.kind() == ErrorKind::UnknownArgument) {
        Some(ContextValue::String(name)) => Some(name.split('=').next().unwrap_or_default().to_owned()),
        _ => None,
    }
}

/// What an error says, without the usage and the way to the help that stand below it.
fn what_is_wrong(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let first = text.split("\n\n").next().unwrap_or_default();
    first.strip_prefix("error: ").unwrap_or(first).trim_end().to_owned()
}

/// Takes the tips out of an error, and returns the name that is most like the one that is wrong.
fn meant(error: &mut clap::Error) -> Option<String> {
    use ContextKind::{Suggested, SuggestedArg, SuggestedSubcommand, SuggestedValue};
    // How to pass the option as a value, which is of no use here.
    error.remove(Suggested);
    let found = [SuggestedSubcommand, SuggestedArg, SuggestedValue].map(|kind| error.remove(kind));
    found.into_iter().flatten().find_map(|value| match value {
        ContextValue::String(name) => Some(name),
        ContextValue::Strings(names) => names.into_iter().next(),
        _ => None,
    })
}

/// The verbs, each with what it does.
fn grouped_verbs(command: &clap::Command) -> String {
    let (header, literal) = (*command.get_styles().get_header(), *command.get_styles().get_literal());
    let mut text = String::new();
    for VerbGroup { title, example, verbs } in &GROUPS {
        let _ = writeln!(text, "{header}{title}:{header:#} {example}");
        for name in *verbs {
            let verb = command.find_subcommand(name).expect("its test goes through all of them");
            let about = verb.get_about().map(ToString::to_string).unwrap_or_default();
            let _ = writeln!(text, "  {literal}{name:<9}{literal:#}  {about}");
        }
        text.push('\n');
    }
    text.trim_end().to_owned() + "\n"
}

const EXIT_CODES: &str = "\
Exit codes:
  0    done
  1    a run failed
  2    bad usage, or an input file that cannot be used
  3    done, but a bound was missed
  4    array status: not optimal, and all data is there
  5    array status: data is lost, or too many members are
  130  interrupted; finished runs are kept

Results go to standard output, progress and errors to standard error. NO_COLOR is honoured.
RAIDLAB_PROGRESS=json makes progress lines of JSON, for programs.";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a study: many runs, measured and simulated, and what they say
    Study(study::Args),
    /// Measure storage as it is: a file, a folder, a device, an export
    Measure(measure::Args),
    /// Read files in parallel streams that start at once
    Streams(streams::Args),
    /// Write, read and seek in a file by characters and blocks
    Bonnie(bonnie::Args),
    /// Read the same data again and again, and compare every bit
    Soak(soak::Args),
    /// Measure a network: TCP from memory or a file
    Net(net::Args),
    /// Watch what applications ask of devices, and make a workload like it
    Observe(observe::Args),
    /// Simulate an array of modelled hardware in virtual time
    Simulate(simulate::Args),
    /// Serve a modelled array over NBD at its own speed, with real bytes
    Emulate(emulate::Args),
    /// Predict published figures and compare
    Reproduce(reproduce::Args),
    /// Fit figures that no source gives to the rows of a paper
    Fit(fit::Args),
    /// Find the arrays that serve applications best, and say why
    Plan(plan::Args),
    /// Find a drive's parameters from timing alone
    Calibrate(calibrate::Args),
    /// Tell how likely an array, or a fleet of them, is to lose data
    Risk(risk::Args),
    /// Check the controller under load and faults, byte for byte
    Torture(torture::Args),
    /// Make, serve and look after arrays that hold data
    Array(array::Args),
    /// List the workloads, or show one
    Workloads(workloads::Args),
    /// Take in jobs of fio and Iometer, block traces, others' results
    Import(import::Args),
    /// List the modelled hardware, or show an entry with its sources
    Catalog(catalog::Args),
    /// Make drive models of data sheets; check models against real drives
    Model(model::Args),
    /// Say what this machine can and cannot do, and why it matters
    Doctor(doctor::Args),
    /// Name what makes a device slow, and what to do next
    Why(why::Args),
    /// List the runs in a results file
    Runs(runs::ListArgs),
    /// Show runs of a results file, all that is known of each
    Show(runs::ShowArgs),
    /// Put runs side by side, with differences and the spread of repeats
    Compare(compare::Args),
    /// Write a page of runs, with charts, tables and a conclusion
    Report(report::Args),
    /// Give runs a tag, or take it away
    Tag(tag::Args),
    /// Write runs as CSV, Parquet, JSON, or as fio and Iometer do; traces
    Export(export::Args),
    /// Make manual pages, shell completions, or a page of all verbs
    Reference(reference::Args),
    /// Serve web pages on this machine: papers, runs, plans, arrays
    Studio(studio::Args),
}

impl Command {
    /// Whether it serves until it is told to stop, and must not depend on who reads what it says.
    pub(crate) const fn serves(&self) -> bool {
        match self {
            Self::Array(args) => args.serves(),
            Self::Emulate(_) | Self::Studio(_) => true,
            _ => false,
        }
    }

    /// What its arguments say of the processes that mpirun starts; none for a verb that is for one process.
    pub(crate) fn ranks(&self) -> Option<&RankArgs> {
        match self {
            Self::Measure(args) => Some(&args.ranks),
            Self::Streams(args) => Some(&args.ranks),
            Self::Bonnie(args) => Some(&args.ranks),
            Self::Net(args) => Some(args.ranks()),
            Self::Simulate(args) => Some(&args.ranks),
            Self::Reproduce(args) => Some(&args.ranks),
            Self::Plan(args) => Some(&args.ranks),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
