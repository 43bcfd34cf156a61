//! Planting: a copy of the crates under `target`, in which every defect stands behind a switch.
//!
//! The copy looks at overflow and asserts as tests do, since they find defects, too, and is optimized: a hunt makes several times as many
//! runs in its time.

use crate::copy::{bring_the_rest, files_below, needed_crates, write};
use crate::table::{Hunk, Mutant, apply};
use std::collections::BTreeMap;
use std::path::Path;
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
    let mut crates = needed_crates(&workspace, "raidlab-simkernel")?;
    // The tables of the torture world are read by the code for tables.
    crates.push("crates/array/torture".to_owned());
    for path in crates
        .iter()
        .map(|below| files_below(&workspace.join(below)))
        .collect::<Result<Vec<_>, _>>()?
        .concat()
    {
        let below =
            path.strip_prefix(&workspace).expect("it is below").to_str().ok_or("a file's name is no text")?;
        let bytes = std::fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let text = match below {
            "crates/array/simkernel/examples/simkernel-mutants/switch.rs" => REFERENCE.as_bytes().to_vec(),
            "crates/base/units/src/lib.rs" => [bytes.as_slice(), b"pub mod mutant;\n"].concat(),
            _ => match hunks.remove(below) {
                Some(hunks) => apply(&String::from_utf8_lossy(&bytes), &hunks, condition)?.into_bytes(),
                None => bytes,
            },
        };
        write(&copy.join(below), &text)?;
    }
    if let Some(file) = hunks.keys().next() {
        return Err(format!("there is no {file}, which a defect is to change"));
    }
    write(&copy.join("crates/base/units/src/mutant.rs"), SWITCH.as_bytes())?;
    bring_the_rest(&workspace, &crates, &copy)?;
    let mut cargo = Command::new(env!("CARGO"));
    cargo
        .args([
            "run",
            "--release",
            "--quiet",
            "--offline",
            "-p",
            "raidlab-simkernel",
            "--example",
            "simkernel-mutants",
            "--",
        ])
        .args(args)
        // Built far more often than it pays to optimize it to the last.
        .envs([("CARGO_PROFILE_RELEASE_LTO", "off"), ("CARGO_PROFILE_RELEASE_DEBUG", "false")])
        .envs(
            ["DEBUG_ASSERTIONS", "OVERFLOW_CHECKS"].map(|it| (format!("CARGO_PROFILE_RELEASE_{it}"), "true")),
        );
    if std::env::var_os("CARGO_TARGET_DIR").is_none() {
        cargo.env("CARGO_TARGET_DIR", copy.join("target"));
    }
    let status = cargo.current_dir(&copy).status().map_err(|error| format!("cargo: {error}"))?;
    Ok(status.success())
}
