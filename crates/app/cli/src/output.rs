//! The destination and format of output: width, colour, JSON or text.

use crate::failure::Failure;
use raidlab_report::terminal::{TerminalOptions, broken, printable_lines};
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;

/// Characters per line where nothing tells better.
const DEFAULT_WIDTH: u16 = 80;

/// How this process talks.
#[derive(Debug)]
pub(crate) struct Output {
    is_json: bool,
    options: TerminalOptions,
}

impl Output {
    /// As the process's arguments, environment and terminal ask for.
    pub(crate) fn of_process(is_json: bool) -> Self {
        let columns = std::env::var("COLUMNS").ok().and_then(|text| text.parse().ok());
        let width = columns.or_else(|| terminal_width(io::stdout())).unwrap_or(DEFAULT_WIDTH);
        Self { is_json, options: TerminalOptions { width, colour: wants_colour(&io::stdout()) } }
    }

    /// Whether results are wanted as JSON.
    pub(crate) fn is_json(&self) -> bool {
        self.is_json
    }

    /// How words are to be laid out.
    pub(crate) fn terminal(&self) -> TerminalOptions {
        self.options
    }

    /// The same, with each record in a line of its own, however long, where a program reads it.
    pub(crate) fn unwrapped_if_piped(&self) -> TerminalOptions {
        let width = if io::stdout().is_terminal() { self.options.width } else { u16::MAX };
        TerminalOptions { width, ..self.options }
    }

    /// Prints an error as one block on standard error, or as JSON where that is asked for.
    pub(crate) fn error(&self, failure: &Failure) {
        let lines = failure.lines();
        let text = if self.is_json {
            let chain: Vec<Value> =
                lines.iter().map(|(kind, text)| serde_json::json!({ "kind": kind, "text": text })).collect();
            format!("{:#}\n", serde_json::json!({ "schema": 1, "failure": chain }))
        } else {
            lines.iter().fold(String::new(), |block, (kind, text)| block + &paragraph(kind, text))
        };
        write_beside(&text);
    }
}

/// Writes a line about the work beside the results, on standard error. Names in it can't steer the terminal.
pub(crate) fn remark(text: impl Display) {
    write_beside(&(printable_lines(&text.to_string()) + "\n"));
}

/// Writes text that is laid out for the terminal on standard error.
pub(crate) fn write_beside(text: &str) {
    crate::log::say(text);
}

/// Prints a result, ending in a line feed.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    if !text.ends_with('\n') {
        out.write_all(b"\n")?;
    }
    Ok(out.flush()?)
}

/// Prints a result as JSON.
pub(crate) fn print_json(value: &Value) -> Result<(), Failure> {
    print(&format!("{value:#}"))
}

/// Prints an answer as JSON, with the version of its form. It is an object whose names have units.
pub(crate) fn print_answer(answer: &impl Serialize) -> Result<(), Failure> {
    let mut value = serde_json::to_value(answer).map_err(Failure::run)?;
    value["schema"] = crate::schema::VERSION.into();
    print_json(&value)
}

/// Prints one part of an answer under its name.
pub(crate) fn print_named(name: &'static str, part: impl Serialize) -> Result<(), Failure> {
    print_answer(&BTreeMap::from([(name, part)]))
}

/// `kind: text`, with further lines of the text set in below it, broken where a terminal would cut words.
fn paragraph(kind: &str, text: &str) -> String {
    let width = terminal_width(io::stderr()).unwrap_or(u16::MAX);
    let text = broken(&format!("{kind}: {}", printable_lines(text).replace('\n', "\n  ")), width);
    match (kind, wants_colour(&io::stderr())) {
        ("error", true) => text.replacen(kind, "\x1b[1;31merror\x1b[0m", 1),
        (_, true) => text.replacen(kind, &format!("\x1b[1m{kind}\x1b[0m"), 1),
        (_, false) => text,
    }
}

/// Whether `stream` is a terminal whose user does not refuse colour. Launchers of several processes give each a terminal that is
/// not the user's.
pub(crate) fn wants_colour(stream: &impl IsTerminal) -> bool {
    let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    stream.is_terminal() && !refused && !is_dumb && !raidlab_hosts::is_one_of_several()
}

/// Columns of the terminal behind `stream`, where there is one.
fn terminal_width(stream: impl AsFd) -> Option<u16> {
    let size = rustix::termios::tcgetwinsize(stream).ok()?;
    (size.ws_col > 0).then_some(size.ws_col)
}
