//! Lists the files of `catalog/` for `src/catalog/builtin.rs`: an entry is in the program once its file is in the folder.
#![allow(clippy::disallowed_methods, reason = "the models open no files; this runs before they are built")]

use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let catalog = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../catalog").canonicalize()?;
    println!("cargo::rerun-if-changed={}", catalog.display());
    let mut files = Vec::new();
    for folder in sorted(&catalog)?.iter().filter(|path| path.is_dir()) {
        for file in sorted(folder)? {
            let name = Path::new("catalog").join(file.strip_prefix(&catalog).map_err(io::Error::other)?);
            let [name, file] = [name, file].map(|path| path.display().to_string());
            files.push(format!("({name:?}, include_str!({file:?})),\n"));
        }
    }
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or_else(|| io::Error::other("cargo runs this"))?);
    fs::write(out.join("catalog.rs"), format!("&[\n{}]\n", files.concat()))
}

fn sorted(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut paths: Vec<_> = folder.read_dir()?.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>()?;
    paths.sort();
    Ok(paths)
}
