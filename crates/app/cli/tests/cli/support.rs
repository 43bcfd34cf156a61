//! The real binary, run in a scratch folder.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A folder on the disk that holds the build, because direct I/O is needed; it goes away with its value.
pub(crate) struct Bench {
    folder: tempfile::TempDir,
}

/// How a command ended.
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Bench {
    pub(crate) fn new() -> Self {
        let folder = tempfile::Builder::new().prefix("raidlab-cli").tempdir_in(env!("CARGO_TARGET_TMPDIR"));
        Self { folder: folder.expect("the build's own folder can be written") }
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Writes a file into the folder.
    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path().join(name);
        std::fs::write(&path, text).expect("the folder can be written");
        path
    }

    /// The command with `args`, ready to be started in the folder.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_raidlab"));
        command.args(args).current_dir(self.path()).env_remove("NO_COLOR").env_remove("RAIDLAB_LOG");
        command.env("STATE_DIRECTORY", self.path().join("state")).env_remove("JOURNAL_STREAM");
        command
    }

    /// Runs the command to its end.
    pub(crate) fn run(&self, args: &[&str]) -> Ended {
        Ended::of(self.command(args).output().expect("the binary was built"))
    }

    /// Runs the command, which must succeed.
    pub(crate) fn done(&self, args: &[&str]) -> Ended {
        self.run(args).well()
    }

    /// The text of a file in the folder.
    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// Names of what lies in the folder, sorted.
    pub(crate) fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.path()).expect("the folder is there");
        let mut names: Vec<String> = entries
            .map(|entry| entry.expect("it can be read").file_name().to_string_lossy().into())
            .collect();
        names.sort();
        names
    }
}

impl Ended {
    pub(crate) fn of(output: Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).expect("text"),
            stderr: String::from_utf8(output.stderr).expect("text"),
        }
    }

    /// Checks the exit code and that standard error holds each of `parts`.
    pub(crate) fn assert(&self, code: i32, parts: &[&str]) {
        assert_eq!(self.code, Some(code), "stdout:\n{}\nstderr:\n{}", self.stdout, self.stderr);
        holds(&self.stderr, parts);
    }

    /// Checks that it succeeded.
    pub(crate) fn well(self) -> Self {
        self.assert(0, &[]);
        self
    }

    /// Checks that standard output holds each of `parts`.
    pub(crate) fn says(&self, parts: &[&str]) {
        holds(&self.stdout, parts);
    }

    /// Standard output as JSON.
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}\n{}", self.stdout))
    }
}

/// Checks that `text` holds each of `parts`.
pub(crate) fn holds(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "'{part}' is not in\n{text}");
    }
}
