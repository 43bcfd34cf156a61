//! Every deliberate defect of `mutants/*.diff` still fits the code that it is to change.
//!
//! Verified: each hunk is found at exactly one place, no two change the same line, names are unlike. Not verified: that the
//! result compiles, and that the net finds it, which is what `make mutants` is for.
#![expect(clippy::disallowed_methods, reason = "sources are files")]

#[path = "../examples/mutants/copy.rs"]
#[expect(dead_code, reason = "only the choice of crates is tried")]
mod copy;
#[path = "../examples/mutants/table.rs"]
mod table;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use table::{Mutant, all, apply};

#[test]
fn every_defect_fits() {
    let mutants = all();
    let mut by_file: BTreeMap<&str, Vec<_>> = BTreeMap::new();
    for Mutant { name, what, hunks, .. } in &mutants {
        assert!(what.ends_with('.') && !hunks.is_empty(), "{name} says what it is, and changes something");
        for hunk in hunks {
            by_file.entry(hunk.file).or_default().push((*name, hunk));
        }
    }
    let array = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut complaints = Vec::new();
    for (file, hunks) in by_file {
        let text =
            std::fs::read_to_string(array.join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
        for hunk in &hunks {
            complaints.extend(apply(&text, &[*hunk], str::to_owned).err());
        }
        complaints.extend(apply(&text, &hunks, str::to_owned).err());
    }
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
    let names: BTreeSet<&str> = mutants.iter().map(|mutant| mutant.name).collect();
    assert_eq!(names.len(), mutants.len(), "no two defects have one name");
    assert!(mutants.iter().any(|mutant| mutant.stops), "some stop requests");
}

/// Defect of the hunt: no crate was found in the workspace once its entries began with a version, so nothing was planted.
#[test]
fn every_crate_with_a_defect_is_copied() {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let copied = copy::needed_crates(&workspace, "raidlab-torture").expect("manifests can be read");
    for Mutant { name, hunks, .. } in all() {
        for hunk in hunks {
            let (folder, _) = hunk.file.split_once('/').expect("a file is in a crate");
            assert!(copied.contains(&format!("crates/array/{folder}")), "{name}: {folder} of {copied:?}");
        }
    }
}

#[test]
fn a_stale_defect_is_told() {
    let mutants = all();
    let mutant = &mutants[0];
    let stale = apply("something else\n", &[(mutant.name, &mutant.hunks[0])], str::to_owned);
    let told = stale.expect_err("its lines are not there");
    assert!(told.contains(mutant.name) && told.contains("at 0 places"), "{told}");
}
