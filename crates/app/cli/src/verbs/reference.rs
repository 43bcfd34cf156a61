//! `raidlab reference`: the text of `--help` as manual pages, as shell completions and as one page of the book.
//!
//! All three are made from the command line's own table, so they always agree with the program.
//!
//! Source: `man-pages(7)` for the format of the pages, by `clap_mangen`.

use crate::failure::{Exit, Failure};
use crate::output::print;
use crate::verbs::answers;
use clap::{Arg, Command};
use clap_complete::Shell;
use std::fmt::{Display, Write};
use std::path::{Path, PathBuf};

/// Arguments of `raidlab reference`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    form: Form,
}

#[derive(Debug, clap::Subcommand)]
enum Form {
    /// Write a manual page for each verb into a folder: raidlab.1, raidlab-measure.1, raidlab-array-create.1, ...
    Man {
        /// The folder; it is made if it is not there
        #[arg(value_name = "DIR")]
        folder: PathBuf,
    },
    /// Print the completions for a shell
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Print all verbs with their options as one page of Markdown
    Markdown,
    /// Print the JSON Schema of a verb's answer, or of all of them
    Schema {
        /// The verb, such as `plan` or `array status`
        verb: Vec<String>,
    },
    /// Print what all answers in JSON hold as one page of Markdown
    Answers,
}

/// Runs the verb.
pub(crate) fn run(args: &Args) -> Result<Exit, Failure> {
    let mut command = crate::cli::command();
    match &args.form {
        Form::Man { folder } => write_pages(command, folder)?,
        Form::Completions { shell } => {
            let mut text = Vec::new();
            clap_complete::generate(*shell, &mut command, "raidlab", &mut text);
            print(&String::from_utf8_lossy(&text))?;
        }
        Form::Markdown => print(&markdown(command))?,
        Form::Schema { verb } if verb.is_empty() => {
            print(&serde_json::to_string_pretty(&answers::all()).map_err(Failure::run)?)?;
        }
        Form::Schema { verb } => {
            let schema = answers::schema_of(&verb.join(" "))?;
            print(&serde_json::to_string_pretty(&schema).map_err(Failure::run)?)?;
        }
        Form::Answers => print(&answers::page())?,
    }
    Ok(Exit::Done)
}

fn write_pages(command: Command, folder: &Path) -> Result<(), Failure> {
    // A verb's help verb says nothing that its page does not.
    let command = command.disable_help_subcommand(true);
    let written = std::fs::create_dir_all(folder).and_then(|()| clap_mangen::generate_to(command, folder));
    written.map_err(|error| Failure::input(error).context(format!("no pages in {}", folder.display())))
}

/// All verbs on one page, each with its usage, its arguments and its options; the options that all take come once.
pub(crate) fn markdown(mut command: Command) -> String {
    command.build();
    let mut page = String::from(
        "# Reference\n\nEvery verb of the command line, as `--help` has it; `raidlab reference markdown` made this page.\n",
    );
    let is_told = |arg: &&Arg| !matches!(arg.get_id().as_str(), "help" | "version");
    let globals: Vec<&Arg> =
        command.get_arguments().filter(|arg| arg.is_global_set()).filter(is_told).collect();
    page += "\n## All verbs\n";
    if let Some(codes) = command.get_after_help() {
        let _ = write!(page, "\n```text\n{}\n```\n", codes.to_string().trim());
    }
    push_table(&mut page, &globals);
    for verb in command.get_subcommands() {
        push_verb(&mut page, verb, "raidlab");
    }
    page
}

fn push_verb(page: &mut String, verb: &Command, parent: &str) {
    if verb.is_hide_set() || verb.get_name() == "help" {
        return;
    }
    let name = format!("{parent} {}", verb.get_name());
    let about = verb.get_long_about().or(verb.get_about()).map(cell).unwrap_or_default();
    let usage = verb.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ");
    let _ = write!(page, "\n## {name}\n\n{about}.\n\n```text\n{usage}\n```\n");
    let own = |arg: &&Arg| !arg.is_global_set() && !arg.is_hide_set();
    push_table(page, &verb.get_arguments().filter(own).collect::<Vec<_>>());
    for part in verb.get_subcommands() {
        push_verb(page, part, &name);
    }
}

fn push_table(page: &mut String, args: &[&Arg]) {
    if args.is_empty() {
        return;
    }
    *page += "\n| argument | meaning |\n|---|---|\n";
    for arg in args {
        let meaning = arg.get_long_help().or(arg.get_help()).map(cell).unwrap_or_default();
        let _ = writeln!(page, "| `{}` | {meaning}{} |", invocation(arg).replace('|', "\\|"), facts(arg));
    }
}

/// `-w, --workload <WORKLOAD>`, or `<TARGET>...`.
fn invocation(arg: &Arg) -> String {
    let values = arg.get_value_names().unwrap_or_default();
    let values = values.iter().map(|name| format!("<{name}>")).collect::<Vec<_>>().join(" ");
    let takes = arg.get_num_args().is_none_or(|range| range.takes_values());
    let names =
        [arg.get_short().map(|short| format!("-{short}")), arg.get_long().map(|long| format!("--{long}"))];
    let names = names.into_iter().flatten().collect::<Vec<_>>().join(", ");
    let many = if arg.is_positional() && arg.get_num_args().is_some_and(|range| range.max_values() > 1) {
        "..."
    } else {
        ""
    };
    match (names.is_empty(), takes) {
        (true, _) => format!("{values}{many}"),
        (false, true) => format!("{names} {values}"),
        (false, false) => names,
    }
}

/// What there is to choose from, and what holds unless told otherwise.
fn facts(arg: &Arg) -> String {
    let mut facts = String::new();
    let takes = arg.get_num_args().is_none_or(|range| range.takes_values());
    let choices = arg.get_possible_values();
    if takes && !choices.is_empty() {
        let names: Vec<String> = choices.iter().map(|choice| format!("`{}`", choice.get_name())).collect();
        let _ = write!(facts, "; one of {}", names.join(", "));
    }
    let defaults: Vec<String> =
        arg.get_default_values().iter().map(|value| format!("`{}`", value.to_string_lossy())).collect();
    if takes && !defaults.is_empty() {
        let _ = write!(facts, " (default {})", defaults.join(", "));
    }
    facts
}

/// Help as one line of a table.
pub(super) fn cell(text: &impl Display) -> String {
    text.to_string().split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
}
