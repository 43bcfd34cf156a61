//! A copy of some crates of the workspace, with what they need of the rest.
//!
//! Files that come out as they are there already are left alone, so that only what changed is built again.

use std::path::{Path, PathBuf};

/// Folders of the crates that are copied: `own`, and those that it and they need.
pub(crate) fn needed_crates(workspace: &Path, own: &str) -> Result<Vec<String>, String> {
    let all = manifest(workspace)?;
    let folder_of = |name: &str| {
        let entry = all.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(" = { "))?;
        let (_, path) = entry.split_once("path = \"")?;
        path.split('"').next().map(str::to_owned)
    };
    let own = folder_of(own).ok_or_else(|| format!("Cargo.toml has no path of {own}"))?;
    let mut folders = vec![own];
    let mut next = 0;
    while let Some(folder) = folders.get(next) {
        let wanted = manifest(&workspace.join(folder))?;
        let names = wanted.lines().filter_map(|line| line.strip_suffix(".workspace = true"));
        let found: Vec<String> = names.filter_map(folder_of).filter(|name| !folders.contains(name)).collect();
        folders.extend(found);
        next += 1;
    }
    Ok(folders)
}

fn manifest(folder: &Path) -> Result<String, String> {
    let path = folder.join("Cargo.toml");
    std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))
}

/// What the planted crates need of the rest of the workspace.
pub(crate) fn bring_the_rest(workspace: &Path, planted: &[String], copy: &Path) -> Result<(), String> {
    let manifest = manifest(workspace)?;
    let members = planted.join("\", \"");
    write(&copy.join("Cargo.toml"), manifest.replace("crates/*/*", &members).as_bytes())?;
    // Cargo cuts it down to what these need.
    if !copy.join("Cargo.lock").exists() {
        let lock =
            std::fs::read(workspace.join("Cargo.lock")).map_err(|error| format!("Cargo.lock: {error}"))?;
        write(&copy.join("Cargo.lock"), &lock)?;
    }
    for folder in ["catalog", "workloads", "validation"] {
        for path in files_below(&workspace.join(folder))? {
            let below = path.strip_prefix(workspace).expect("it is below");
            let bytes = std::fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
            write(&copy.join(below), &bytes)?;
        }
    }
    Ok(())
}

pub(crate) fn files_below(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let mut files = Vec::new();
    let entries = std::fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    for entry in entries {
        let path = entry.map_err(|error| format!("{}: {error}", folder.display()))?.path();
        if path.is_dir() {
            files.extend(files_below(&path)?);
        } else {
            files.push(path);
        }
    }
    Ok(files)
}

pub(crate) fn write(path: &Path, bytes: &[u8]) -> Result<(), String> {
    if std::fs::read(path).is_ok_and(|there| there == bytes) {
        return Ok(());
    }
    let folder = path.parent().expect("a file is in a folder");
    let written = std::fs::create_dir_all(folder).and_then(|()| std::fs::write(path, bytes));
    written.map_err(|error| format!("{}: {error}", path.display()))
}
