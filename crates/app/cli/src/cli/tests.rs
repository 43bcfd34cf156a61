//! The command line's table is consistent, and contains all commands of the documents.
//!
//! Verified for each command in a fenced block of the README, of `docs/` and of `studies/`: it can be parsed.
//! `tests/docs/run.py` runs the commands.

use super::{Cli, GROUPS, WIDTH, command};
use crate::verbs::reference::markdown;
use clap::Parser;
use std::path::{Path, PathBuf};

/// A command as a document has it, and where.
struct Documented {
    place: String,
    words: Vec<String>,
}

#[test]
fn the_table_is_consistent() {
    command().debug_assert();
}

#[test]
fn every_verb_is_in_one_group_and_no_help_is_wider_than_a_terminal() {
    let mut command = command();
    let mut grouped: Vec<&str> = GROUPS.iter().flat_map(|group| group.verbs.iter().copied()).collect();
    let mut verbs: Vec<&str> = command.get_subcommands().map(clap::Command::get_name).collect();
    grouped.sort_unstable();
    verbs.sort_unstable();
    assert_eq!(grouped, verbs);
    for group in &GROUPS {
        let parsed = Cli::try_parse_from(words_of(group.example));
        assert!(parsed.is_ok(), "{}: {parsed:?}", group.example);
    }
    command.build();
    assert_narrow(command);
}

/// Checks the help of `command` and of all below it.
fn assert_narrow(mut command: clap::Command) {
    let name = command.get_name().to_owned();
    for text in [command.render_help().to_string(), command.render_long_help().to_string()] {
        let wide = text.lines().find(|line| line.chars().count() > WIDTH);
        assert_eq!(wide, None, "{name}");
        let last = text.find("All verbs:").unwrap_or_else(|| panic!("{name} has no general options"));
        let (options, general) = text.split_at(last);
        assert!(!options.contains("--json") && general.contains("--json"), "{name}");
    }
    command.get_subcommands().filter(|verb| verb.get_name() != "help").cloned().for_each(assert_narrow);
}

#[test]
fn the_reference_page_is_current() {
    let page = std::fs::read_to_string(root().join("docs/reference.md")).expect("the page");
    let current = markdown(command());
    assert!(page == current, "renew it: cargo run -p raidlab-cli -- reference markdown >docs/reference.md");
}

#[test]
fn every_documented_command_can_be_parsed() {
    let commands: Vec<Documented> = documents().iter().flat_map(|path| commands_of(path)).collect();
    assert!(commands.len() > 60, "the documents were found: {}", commands.len());
    let is_wrong = |Documented { place, words }: &Documented| {
        let error = Cli::try_parse_from(words).err().filter(clap::Error::use_stderr)?;
        Some(format!("{place}: {words:?}\n{error}"))
    };
    let wrong: Vec<String> = commands.iter().filter_map(is_wrong).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..")
}

fn documents() -> Vec<PathBuf> {
    let mut paths = vec![root().join("README.md")];
    for folder in ["docs", "studies"] {
        let entries = root().join(folder).read_dir().expect("the folder is there");
        paths.extend(entries.map(|entry| entry.expect("it can be read").path()));
    }
    // The reference has forms of commands, not commands.
    paths.retain(|path| {
        path.extension().is_some_and(|extension| extension == "md") && !path.ends_with("reference.md")
    });
    paths.sort();
    paths
}

/// The lines of fenced blocks that begin with the program's name, each with those that continue it.
fn commands_of(path: &Path) -> Vec<Documented> {
    let text = std::fs::read_to_string(path).expect("it can be read");
    let (mut commands, mut is_fenced) = (Vec::new(), false);
    let mut lines = text.lines().enumerate();
    while let Some((index, line)) = lines.next() {
        if line.starts_with("```") {
            is_fenced = !is_fenced;
            continue;
        }
        let line = line.trim_start_matches("$ ").trim_start_matches("sudo ");
        if !is_fenced || !line.starts_with("raidlab ") {
            continue;
        }
        let mut command = line.to_owned();
        while command.trim_end().ends_with('\\') {
            command.truncate(command.trim_end().len() - 1);
            command += lines.next().map(|(_, line)| line).unwrap_or_default();
        }
        commands.push(Documented {
            place: format!("{}:{}", path.display(), index + 1),
            words: words_of(&command),
        });
    }
    commands
}

/// The words that a shell would make of a command, as far as documents go: quotes, and an end at a comment, `&`, `|` or `>`.
fn words_of(command: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for character in command.chars() {
        match (quote, character) {
            (Some(open), _) if open == character => quote = None,
            (None, '\'' | '"') => {
                quote = Some(character);
                word.get_or_insert_default();
            }
            (None, ' ') => words.extend(word.take()),
            (None, '#' | '&' | '|' | '>') if word.is_none() => break,
            _ => word.get_or_insert_default().push(character),
        }
    }
    words.extend(word);
    words
}
