//! Planting: a copy of the crates under `target`, in which every defect stands behind a switch.
//!
//! The copy is built as for tests: overflow and asserts are looked at there, and they find defects, too.

use crate::table::{Hunk, Mutant, apply};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What the sites ask, and who hunts sets.
const SWITCH: &str = "//! Which defect is at work.
use core::sync::atomic::{AtomicU32, Ordering};
#[allow(missing_docs)]
pub const IS_PLANTED: bool = true;
static AT_WORK: AtomicU32 = AtomicU32::new(0);
/// Puts defect `number` to work.
pub fn set(number: u32) {
    AT_WORK.store(number, Ordering::SeqCst);
}
/// True if defect `number` is at work.
#[inline]
#[must_use]
pub fn is_at_work(number: u32) -> bool {
    AT_WORK.load(Ordering::Relaxed) == number
}
";

const REFERENCE: &str =
    "//! The switch of the planted crates.\npub(crate) use raidlab_units::mutant::{IS_PLANTED, set};\n";

/// Plants the defects and hunts them in the copy.
pub(crate) fn plant_and_run(mutants: &[Mutant], args: &[String]) -> Result<bool, String> {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let copy = workspace.join("target/mutants-simkernel");
    let mut hunks: BTreeMap<String, Vec<(&str, &Hunk)>> = BTreeMap::new();
    for mutant in mutants {
        for hunk in &mutant.hunks {
            hunks.entry(format!("crates/array/{}", hunk.file)).or_default().push((mutant.name, hunk));
        }
    }
    let number = |name: &str| 1 + mutants.iter().position(|mutant| mutant.name == name).expect("one of them");
    let condition = |name: &str| format!("raidlab_units::mutant::is_at_work({})", number(name));
    let crates = needed_crates(&workspace)?;
    let folders = crates.iter().map(String::as_str).chain(["catalog", "workloads", "validation"]);
    for below in folders.flat_map(|folder| files_below(&workspace, Path::new(folder))) {
        let bytes =
            std::fs::read(workspace.join(&below)).map_err(|error| format!("{}: {error}", below.display()))?;
        let name = below.to_str().ok_or("a file's name is no text")?;
        let text = match name {
            "crates/array/simkernel/examples/simkernel-mutants/switch.rs" => REFERENCE.as_bytes().to_vec(),
            "crates/base/units/src/lib.rs" => [bytes.as_slice(), b"pub mod mutant;\n"].concat(),
            _ => match hunks.remove(name) {
                Some(hunks) => apply(&String::from_utf8_lossy(&bytes), &hunks, condition)?.into_bytes(),
                None => bytes,
            },
        };
        write(&copy.join(below), &text)?;
    }
    write(&copy.join("crates/base/units/src/mutant.rs"), SWITCH.as_bytes())?;
    let manifest = manifest(&workspace)?.replace("crates/*/*", &crates.join("\", \""));
    write(&copy.join("Cargo.toml"), manifest.as_bytes())?;
    if !copy.join("Cargo.lock").exists() {
        let lock =
            std::fs::read(workspace.join("Cargo.lock")).map_err(|error| format!("Cargo.lock: {error}"))?;
        write(&copy.join("Cargo.lock"), &lock)?;
    }
    let mut cargo = Command::new(env!("CARGO"));
    cargo
        .args([
            "run",
            "--quiet",
            "--offline",
            "-p",
            "raidlab-simkernel",
            "--example",
            "simkernel-mutants",
            "--",
        ])
        .args(args);
    if std::env::var_os("CARGO_TARGET_DIR").is_none() {
        cargo.env("CARGO_TARGET_DIR", copy.join("target"));
    }
    let status = cargo.current_dir(&copy).status().map_err(|error| format!("cargo: {error}"))?;
    Ok(status.success())
}

/// Folders of the crates that are copied: this one, and those that it and they need.
fn needed_crates(workspace: &Path) -> Result<Vec<String>, String> {
    let all = manifest(workspace)?;
    let folder_of = |name: &str| {
        let rest = all.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(" = { path = \""))?;
        rest.split('"').next().map(str::to_owned)
    };
    let mut folders: Vec<String> = folder_of("raidlab-simkernel").into_iter().collect();
    let mut next = 0;
    while let Some(folder) = folders.get(next) {
        let wanted = manifest(&workspace.join(folder))?;
        let names = wanted.lines().filter_map(|line| line.strip_suffix(".workspace = true"));
        let found: Vec<String> = names.filter_map(folder_of).filter(|name| !folders.contains(name)).collect();
        folders.extend(found);
        next += 1;
    }
    // The tables of the torture world are read by the code for tables.
    folders.extend(folder_of("raidlab-torture").filter(|folder| !folders.contains(folder)));
    Ok(folders)
}

fn manifest(folder: &Path) -> Result<String, String> {
    let path = folder.join("Cargo.toml");
    std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))
}

/// Files below a folder of the workspace, as seen from there.
fn files_below(workspace: &Path, folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(workspace.join(folder)).into_iter().flatten().flatten() {
        let below = folder.join(entry.file_name());
        if entry.path().is_dir() {
            files.extend(files_below(workspace, &below));
        } else {
            files.push(below);
        }
    }
    files
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), String> {
    if std::fs::read(path).is_ok_and(|there| there == bytes) {
        return Ok(());
    }
    let folder = path.parent().expect("a file is in a folder");
    let written = std::fs::create_dir_all(folder).and_then(|()| std::fs::write(path, bytes));
    written.map_err(|error| format!("{}: {error}", path.display()))
}
