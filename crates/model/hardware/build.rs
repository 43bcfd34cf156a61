//! Lists the files of `catalog/` for `src/catalog/builtin.rs`: an entry is in the program once its file is in the folder.
#![allow(clippy::disallowed_methods, reason = "the models open no files; this runs before they are built")]

use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() -> io::Result<()> {
    // Asked for when it runs: a checkout that was moved keeps what was compiled.
    let folder = variable("CARGO_MANIFEST_DIR")?;
    let catalog = folder.join("catalog").canonicalize()?;
    println!("cargo::rerun-if-changed={}", catalog.display());
    let mut files = Vec::new();
    for folder in sorted(&catalog)?.iter().filter(|path| path.is_dir()) {
        for file in sorted(folder)? {
            let name = Path::new("catalog").join(file.strip_prefix(&catalog).map_err(io::Error::other)?);
            let [name, file] = [name, file].map(|path| path.display().to_string());
            files.push(format!("({name:?}, include_str!({file:?})),\n"));
        }
    }
    fs::write(variable("OUT_DIR")?.join("catalog.rs"), format!("&[\n{}]\n", files.concat()))
}

fn variable(name: &str) -> io::Result<PathBuf> {
    env::var_os(name).map(PathBuf::from).ok_or_else(|| io::Error::other("cargo runs this"))
}

fn sorted(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut paths: Vec<_> = folder.read_dir()?.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>()?;
    paths.sort();
    Ok(paths)
}
