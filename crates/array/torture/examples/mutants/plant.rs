//! Planting: a copy of the crates of the array below `target`, in which every defect stands behind a switch.

use crate::copy::{bring_the_rest, files_below, needed_crates, write};
use crate::decisions;
use crate::table::{Hunk, Mutant, apply};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Command, ExitCode};

const SWITCH: &str = include_str!("switch.rs");

/// Added to the switch in the copy: what the sites ask.
const QUESTION: &str = "
/// True if defect `number` is at work on this thread.
#[inline]
pub fn is_at_work(number: u32) -> bool {
    ASKED.with(|asked| {
        let mut bits = asked.get();
        bits[number as usize / 64] |= 1 << (number % 64);
        asked.set(bits);
    });
    AT_WORK.with(Cell::get) == number
}
";

/// What the hunting program has in place of the switch there.
const REFERENCE: &str = "//! The switch of the planted crates.\npub(crate) use raidlab_units::mutant::{Asked, IS_PLANTED, set, take_asked, take_reached};\n";

/// Plants the defects and hunts them in the copy.
pub(crate) fn plant_and_run(
    mutants: &[Mutant],
    args: impl Iterator<Item = String>,
) -> Result<ExitCode, String> {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let args: Vec<String> = args.collect();
    let has_decisions = args.iter().any(|arg| arg == "--decisions");
    let copy = workspace.join(if has_decisions { "target/decisions" } else { "target/mutants" });
    let mut names = Vec::new();
    let mut hunks: BTreeMap<String, Vec<(&str, &Hunk)>> = BTreeMap::new();
    for mutant in mutants {
        for hunk in &mutant.hunks {
            hunks.entry(format!("array/{}", hunk.file)).or_default().push((mutant.name, hunk));
        }
    }
    let number = |name: &str| 1 + mutants.iter().position(|mutant| mutant.name == name).expect("one of them");
    let condition = |name: &str| format!("raidlab_units::mutant::is_at_work({})", number(name));
    let crates = workspace.join("crates");
    let planted = needed_crates(&workspace, "raidlab-torture")?;
    let needed =
        planted.iter().map(|name| files_below(&workspace.join(name))).collect::<Result<Vec<_>, _>>()?;
    let mut written = BTreeSet::from([copy.join("crates/base/units/src/mutant.rs")]);
    for path in needed.concat() {
        let below =
            path.strip_prefix(&crates).expect("it is below").to_str().ok_or("a file's name is no text")?;
        let bytes = std::fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let text = match below {
            "array/torture/examples/mutants/switch.rs" => REFERENCE.as_bytes().to_vec(),
            "base/units/src/lib.rs" => [bytes.as_slice(), b"pub mod mutant;\n"].concat(),
            _ => match hunks.remove(below) {
                Some(hunks) => apply(&String::from_utf8_lossy(&bytes), &hunks, condition)?.into_bytes(),
                None => bytes,
            },
        };
        let text = match below.strip_prefix("array/") {
            Some(file) if has_decisions && decisions::is_counted(file) => {
                decisions::count(&String::from_utf8_lossy(&text), file, &mut names).into_bytes()
            }
            _ => text,
        };
        let path = copy.join("crates").join(below);
        write(&path, &text)?;
        written.insert(path);
    }
    // What the sources have no more would be built all the same.
    for path in files_below(&copy.join("crates"))?.iter().filter(|path| !written.contains(*path)) {
        std::fs::remove_file(path).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    if let Some(file) = hunks.keys().next() {
        return Err(format!("there is no {file}, which a defect is to change"));
    }
    let switch = SWITCH
        .split("\n/// The decisions that were")
        .next()
        .unwrap_or_default()
        .replace("pub(crate)", "pub")
        .replace("bool = false", "bool = true")
        + QUESTION
        + &decisions::counters(names.len());
    write(&copy.join("crates/base/units/src/mutant.rs"), switch.as_bytes())?;
    write(&copy.join("decisions.txt"), names.join("\n").as_bytes())?;
    bring_the_rest(&workspace, &planted, &copy)?;
    run_planted(&copy, args)
}

/// Builds the copy and runs the hunting program there.
fn run_planted(copy: &Path, args: Vec<String>) -> Result<ExitCode, String> {
    let status = Command::new(env!("CARGO"))
        .args([
            "run",
            "--release",
            "--quiet",
            "--offline",
            "-p",
            "raidlab-torture",
            "--example",
            "mutants",
            "--",
        ])
        .args(args)
        .current_dir(copy)
        .env("CARGO_TARGET_DIR", copy.join("target"))
        // Built far more often than it pays to optimize it to the last.
        .envs([("CARGO_PROFILE_RELEASE_LTO", "off"), ("CARGO_PROFILE_RELEASE_DEBUG", "false")])
        .status();
    let status = status.map_err(|error| format!("cargo could not be started: {error}"))?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
