//! Old names of options: accepted for one more version, with a note.

use std::ffi::{OsStr, OsString};

/// What an option was called in version 0.1 before its release, and what it is called now.
const RENAMED: [(&str, &str); 6] = [
    ("--answer-limit", "--member-timeout"),
    ("--beside", "--compare-paper"),
    ("--kept-memory", "--nvram"),
    ("--sweep-iodepth", "--scan-iodepth"),
    ("--sweep-rate", "--scan-rate"),
    ("--tags", "--checksums"),
];

/// The command line in today's spelling, and a note for each option that had an old one. What stands behind `--` is no option.
pub(crate) fn current(arguments: impl Iterator<Item = OsString>) -> (Vec<OsString>, Vec<String>) {
    let (mut notes, mut has_ended) = (Vec::new(), false);
    let arguments = arguments.map(|argument| {
        has_ended |= argument == "--";
        let Some((old, new)) = renamed(&argument).filter(|_| !has_ended) else { return argument };
        notes.push(format!(
            "note: '{old}' is called '{new}' now; the next version does not know the old name"
        ));
        OsString::from(argument.to_string_lossy().replacen(old, new, 1))
    });
    (arguments.collect(), notes)
}

/// The names of an option that was renamed, `--old` or `--old=value`.
fn renamed(argument: &OsStr) -> Option<(&'static str, &'static str)> {
    let name = argument.to_str()?.split('=').next()?;
    RENAMED.into_iter().find(|(old, _)| *old == name)
}

#[cfg(test)]
mod tests {
    use super::{RENAMED, current};
    use crate::cli::command;

    #[test]
    fn old_names_are_taken_with_a_note_and_values_are_left_alone() {
        let typed = ["raidlab", "measure", "--beside=paper", "--tag", "--tags", "--", "--sweep-rate"];
        let (taken, notes) = current(typed.into_iter().map(Into::into));
        let expected =
            ["raidlab", "measure", "--compare-paper=paper", "--tag", "--checksums", "--", "--sweep-rate"];
        assert_eq!(taken, expected);
        assert_eq!(notes.len(), 2);
        assert!(notes[0].starts_with("note: '--beside' is called '--compare-paper' now"), "{}", notes[0]);
    }

    #[test]
    fn no_verb_has_an_old_name_and_each_new_one_is_of_some_verb() {
        let mut names = Vec::new();
        let mut commands = vec![command()];
        while let Some(command) = commands.pop() {
            names.extend(
                command.get_arguments().filter_map(|it| it.get_long().map(|name| format!("--{name}"))),
            );
            commands.extend(command.get_subcommands().cloned());
        }
        for (old, new) in RENAMED {
            assert!(!names.iter().any(|name| name == old), "{old} is in use");
            assert!(names.iter().any(|name| name == new), "{new} is no option");
        }
    }
}
