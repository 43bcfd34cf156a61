//! The destination and format of output: width, colour, JSON or text.

use crate::failure::Failure;
use raidlab_report::terminal::{TerminalOptions, printable_lines};
use serde_json::Value;
use std::fmt::Display;
use std::io::{self, IsTerminal, Write};

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
        let width = columns.or_else(terminal_width).unwrap_or(DEFAULT_WIDTH);
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

/// `kind: text`, with further lines of the text set in below it.
fn paragraph(kind: &str, text: &str) -> String {
    let colour = wants_colour(&io::stderr());
    let head = match (kind, colour) {
        ("error", true) => "\x1b[1;31merror\x1b[0m".to_owned(),
        (_, true) => format!("\x1b[1m{kind}\x1b[0m"),
        (_, false) => kind.to_owned(),
    };
    format!("{head}: {}\n", printable_lines(text).replace('\n', "\n  "))
}

/// Whether `stream` is a terminal whose user does not refuse colour. Launchers of several processes give each a terminal that is
/// not the user's.
pub(crate) fn wants_colour(stream: &impl IsTerminal) -> bool {
    let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    stream.is_terminal() && !refused && !is_dumb && !raidlab_hosts::is_one_of_several()
}

/// Columns of the terminal on standard output, where there is one.
fn terminal_width() -> Option<u16> {
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
    (size.ws_col > 0).then_some(size.ws_col)
}
