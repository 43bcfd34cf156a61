//! How the program ends: exit codes, and errors as one readable block.

use raidlab_hosts::HostsError;
use std::io;
use std::process::ExitCode;

/// Ends that are no failure of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// All done.
    Done,
    /// A run failed.
    RunFailed,
    /// Bad usage or input.
    BadInput,
    /// Done, but a bound was missed.
    BoundMissed,
    /// An array is not optimal, and all its data is there.
    ArrayAtRisk,
    /// An array has lost data, or more members than it survives.
    ArrayDamaged,
    /// Interrupted; what was finished is kept.
    Interrupted,
}

impl Exit {
    /// The number that the process ends with.
    pub(crate) const fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::RunFailed => 1,
            Self::BadInput => 2,
            Self::BoundMissed => 3,
            Self::ArrayAtRisk => 4,
            Self::ArrayDamaged => 5,
            // As shells report a process that SIGINT ended.
            Self::Interrupted => 130,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

/// What went wrong, whose fault it is, and what to do about it.
#[derive(Debug)]
pub(crate) struct Failure {
    exit: Exit,
    error: anyhow::Error,
    hint: Option<String>,
    /// The option that brought what is refused.
    option: Option<String>,
    /// What else was found wrong before it ended.
    others: Vec<Failure>,
}

impl Failure {
    /// The input is at fault: arguments, or a file.
    pub(crate) fn input(error: impl Into<anyhow::Error>) -> Self {
        Self { exit: Exit::BadInput, error: error.into(), hint: None, option: None, others: Vec::new() }
    }

    /// The run is at fault: the machine, the storage, or the results file.
    pub(crate) fn run(error: impl Into<anyhow::Error>) -> Self {
        Self { exit: Exit::RunFailed, error: error.into(), hint: None, option: None, others: Vec::new() }
    }

    /// Adds what to do.
    pub(crate) fn with_hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// The same where there is something to do.
    pub(crate) fn with_any_hint(self, hint: Option<&str>) -> Self {
        hint.into_iter().fold(self, Self::with_hint)
    }

    /// Says which option brought it, where no value of it is quoted.
    pub(crate) fn with_option(self, option: &str) -> Self {
        Self { option: Some(option.to_owned()), ..self }
    }

    /// Adds another one that was found at the same time, so that both can be mended at once.
    pub(crate) fn and(mut self, other: Self) -> Self {
        self.others.push(other);
        self
    }

    /// Says with which of `given`, options with their values, a value came that is refused: the last one that is quoted, as what it
    /// does not go with stands before, or else the file that is named.
    pub(crate) fn given_with(mut self, given: &[(String, String)]) -> Self {
        let text = self.lines().into_iter().map(|(_, line)| line).collect::<Vec<_>>().join("\n");
        let is_told = given.iter().any(|(option, _)| text.contains(option));
        if self.exit == Exit::BadInput && !is_told && self.option.is_none() {
            let place = |value: &str| text.rfind(&format!("'{value}'"));
            let quoted = given.iter().filter_map(|(option, value)| Some((place(value)?, option)));
            let named = || given.iter().find(|(_, value)| is_file_named(&text, value));
            // Of options with one value it is the one that the text speaks of: "there is no drive '1'" is of --drives.
            let is_spoken_of = |option: &String| {
                let name = option.trim_start_matches('-').replace('-', " ");
                text.contains(name.trim_end_matches('s'))
            };
            let last = quoted.max_by_key(|(place, option)| (*place, is_spoken_of(option)));
            let option = last.map(|(_, option)| option).or_else(|| Some(&named()?.0));
            self.option = option.cloned();
        }
        self
    }

    /// Puts what was being done in front.
    pub(crate) fn context(self, doing: impl Into<String>) -> Self {
        Self { error: self.error.context(doing.into()), ..self }
    }

    pub(crate) fn exit(&self) -> Exit {
        self.exit
    }

    /// What several hosts said of it, if it is of that kind.
    pub(crate) fn told_by_hosts(&self) -> Option<&HostsError> {
        self.error.downcast_ref()
    }

    pub(crate) fn is_broken_pipe(&self) -> bool {
        self.error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
    }

    /// The error, what caused it, and what to do, a line each.
    pub(crate) fn lines(&self) -> Vec<(&'static str, String)> {
        let mut lines = vec![("error", self.error.to_string())];
        let mut said = self.error.to_string();
        for cause in self.error.chain().skip(1) {
            let text = cause.to_string();
            // Errors that print their cause themselves need not say it again.
            if !said.contains(&text) {
                lines.push(("because", text.clone()));
                said = text;
            }
        }
        lines.extend(self.option.iter().map(|option| ("option", option.clone())));
        lines.extend(self.hint.iter().map(|hint| ("hint", hint.clone())));
        lines.extend(self.others.iter().flat_map(Self::lines));
        lines
    }
}

/// Whether `text` speaks of the file `value`: a line begins with it, or it is a path and stands between the words.
fn is_file_named(text: &str, value: &str) -> bool {
    let is_path = value.contains(['.', '/']);
    let is_end = |rest: &str| rest.is_empty() || rest.starts_with([' ', ':', ',', '\n']);
    value.contains(char::is_alphabetic)
        && text.match_indices(value).any(|(at, _)| {
            let (before, behind) = (&text[..at], &text[at + value.len()..]);
            let is_start = before.is_empty() || before.ends_with('\n') || is_path && before.ends_with(' ');
            is_start && is_end(behind)
        })
}

/// Failures of writing results out.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::run(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Full;

    impl std::fmt::Display for Full {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("the disk is full")
        }
    }

    impl std::error::Error for Full {}

    #[test]
    fn causes_are_said_once() {
        let plain =
            Failure::run(anyhow::Error::new(Full).context("cannot write a.html")).with_hint("free some");
        assert_eq!(
            plain.lines(),
            [
                ("error", "cannot write a.html".to_owned()),
                ("because", "the disk is full".to_owned()),
                ("hint", "free some".to_owned())
            ]
        );
        let repeated = Failure::run(anyhow::Error::new(Full).context("cannot write: the disk is full"));
        assert_eq!(repeated.lines(), [("error", "cannot write: the disk is full".to_owned())]);
    }

    #[test]
    fn the_option_of_a_refused_value_is_named_once() {
        let given = [("--drive", "st360057ss"), ("--level", "5")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()));
        let refused = |text: &str| Failure::input(anyhow::anyhow!("{text}")).given_with(&given).lines();
        assert_eq!(refused("there is no drive 'st360057ss'")[1], ("option", "--drive".to_owned()));
        assert_eq!(refused("--drive 'st360057ss' is unknown").len(), 1);
        assert_eq!(refused("level '5' has no drive 'st360057ss'")[1], ("option", "--drive".to_owned()));
        assert_eq!(refused("there are 5 of them").len(), 1, "what is not quoted may be anything");
        let alike =
            [("--drives", "1"), ("--threads", "1")].map(|(name, value)| (name.to_owned(), value.to_owned()));
        let told = Failure::input(anyhow::anyhow!("there is no drive '1'")).given_with(&alike);
        assert_eq!(told.option.as_deref(), Some("--drives"));
        let given = [("<NAME>", "a0"), ("<MEMBER>", "m0"), ("--report", "r.html"), ("--run", "1.5s")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()));
        let option = |text: &str| Failure::input(anyhow::anyhow!("{text}")).given_with(&given).option;
        assert_eq!(option("'m0' belongs to 'a0': say --force 'm0'").as_deref(), Some("<MEMBER>"));
        assert_eq!(option("m0 is named twice").as_deref(), Some("<MEMBER>"));
        assert_eq!(option("the page r.html cannot be read").as_deref(), Some("--report"));
        assert_eq!(option("r.html:1: no value").as_deref(), Some("--report"));
        assert_eq!(option("or.html is there, m0 and mr.htmls too"), None);
        let named = Failure::input(anyhow::anyhow!("'5' of 2")).with_option("--members").given_with(&given);
        assert_eq!(named.lines()[1], ("option", "--members".to_owned()));
        let failed = Failure::run(anyhow::anyhow!("'5' broke")).given_with(&given);
        assert_eq!(failed.lines().len(), 1, "it is not the input's fault");
    }

    #[test]
    fn a_closed_pipe_is_known() {
        let closed = Failure::from(io::Error::from(io::ErrorKind::BrokenPipe));
        assert!(closed.is_broken_pipe());
        assert!(!Failure::run(Full).is_broken_pipe());
    }
}
