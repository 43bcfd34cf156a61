//! Command lines of this program: what a job runs is what a page shows for copying.

use std::fmt::{self, Display};

/// The arguments of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CommandLine {
    arguments: Vec<String>,
}

impl CommandLine {
    /// The command with these verbs.
    pub(crate) fn new(verbs: &[&str]) -> Self {
        Self { arguments: verbs.iter().map(|&verb| verb.to_owned()).collect() }
    }

    /// The same with `name=value`, where there is a value. Name and value are one argument: whatever the value begins
    /// with, it is no option.
    pub(crate) fn option(mut self, name: &str, value: Option<impl Display>) -> Self {
        self.arguments.extend(value.map(|value| format!("{name}={value}")));
        self
    }

    /// The same with a flag, if it is set.
    pub(crate) fn flag(mut self, name: &str, is_set: bool) -> Self {
        self.arguments.extend(is_set.then(|| name.to_owned()));
        self
    }

    /// The same with values that are no options, whatever they begin with.
    pub(crate) fn values(mut self, values: &[String]) -> Self {
        let has_dash = values.iter().any(|value| value.starts_with('-'));
        self.arguments.extend(has_dash.then(|| "--".to_owned()));
        self.arguments.extend_from_slice(values);
        self
    }

    pub(crate) fn arguments(&self) -> &[String] {
        &self.arguments
    }
}

impl Display for CommandLine {
    /// As a shell reads it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("raidlab")?;
        self.arguments.iter().try_for_each(|argument| write!(f, " {}", quoted(argument)))
    }
}

/// An argument as a shell reads it.
pub fn quoted(argument: &str) -> String {
    let is_plain = |it: char| it.is_ascii_alphanumeric() || "._-+@=/,:%".contains(it);
    if !argument.is_empty() && argument.chars().all(is_plain) {
        return argument.to_owned();
    }
    format!("'{}'", argument.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_is_what_a_shell_takes_apart_again() {
        let command = CommandLine::new(&["soak"])
            .option("--size", Some("1 MiB"))
            .option("--time", None::<String>)
            .flag("--write", true)
            .flag("--rewrite", false)
            .values(&["it's".to_owned(), "$(x)".to_owned()]);
        assert_eq!(command.to_string(), r"raidlab soak '--size=1 MiB' --write 'it'\''s' '$(x)'");
        let dashed = CommandLine::new(&["soak"]).values(&["-x".to_owned()]);
        assert_eq!(dashed.arguments(), ["soak", "--", "-x"]);
    }
}
