//! A short hunt, plans that once failed, and the deliberate defects' fit.
//!
//! Verified: some dozens of seeds, every stored plan, and that each hunk of `mutants/*.diff` is found at one place. Not verified: that
//! the net finds the defects, which is what `make simkernel-mutants` is for.

#[path = "../../torture/examples/mutants/table.rs"]
#[allow(dead_code, reason = "the tables of the torture world are in there, too")]
mod table;

use raidlab_simkernel::{Plan, read_plan};
use std::collections::BTreeMap;
use std::path::Path;

/// Takes some seconds.
const SEEDS: u64 = 40;

#[test]
fn seeds_find_nothing() {
    for seed in 1..=SEEDS {
        // A run that aborts tells its seed no other way.
        eprintln!("seed {seed}");
        if let Err(failure) = Plan::draw(seed).run() {
            panic!("{failure}");
        }
    }
}

#[test]
fn stored_plans_find_nothing() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/plans");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).expect("there are some") {
        let path = entry.expect("it can be listed").path();
        let text = std::fs::read_to_string(&path).expect("a plan");
        let plan = read_plan(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        eprintln!("{}", path.display());
        if let Err(failure) = plan.run() {
            panic!("{}: {failure}", path.display());
        }
        count += 1;
    }
    assert!(count > 0, "some plans are stored");
}

#[test]
fn every_defect_fits() {
    let tables = [include_str!("../mutants/runtime.diff"), include_str!("../mutants/export.diff")];
    let mutants = table::parse(&tables);
    let mut by_file: BTreeMap<&str, Vec<_>> = BTreeMap::new();
    for mutant in &mutants {
        assert!(mutant.what.ends_with('.') && !mutant.hunks.is_empty(), "{} changes something", mutant.name);
        for hunk in &mutant.hunks {
            by_file.entry(hunk.file).or_default().push((mutant.name, hunk));
        }
    }
    let array = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut complaints = Vec::new();
    for (file, hunks) in by_file {
        let text =
            std::fs::read_to_string(array.join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
        for hunk in &hunks {
            complaints.extend(table::apply(&text, &[*hunk], str::to_owned).err());
        }
        complaints.extend(table::apply(&text, &hunks, str::to_owned).err());
    }
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}
