//! File names from pages: always in the studio's folder.
//!
//! A name is relative, has no `..`, and its target (through links, too) is in the folder. It has only characters that
//! mean the same to every verb: no colon (`nbd:` and `null:` are no files), no comma (lists), no control character. A
//! device of `/dev` is not in the folder, and so can't be named.
//!
//! Left out: a link that is created between the check and the use; whoever can write in the folder is trusted.

use crate::fault::Fault;
use std::io;
use std::path::{Component, Path, PathBuf};

/// Longest name of a file, in bytes.
const NAME_BYTES_MAX: usize = 255;

/// The folder.
#[derive(Debug)]
pub(crate) struct Folder {
    root: PathBuf,
}

impl Folder {
    pub(crate) fn new(path: &Path) -> io::Result<Self> {
        let root = path.canonicalize()?;
        if !root.is_dir() {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        Ok(Self { root })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.root
    }

    /// Checks that `name`, given as `field`, is that of a file in the folder, which need not be there.
    pub(crate) fn check(&self, field: &str, name: &str) -> Result<(), Fault> {
        let refused = |what: &str| Err(Fault::input(what, format!("{field}: '{name}'"), self.remedy()));
        if name.is_empty() || name.len() > NAME_BYTES_MAX {
            return refused("a name has 1 to 255 bytes");
        }
        let is_plain = |it: char| it.is_alphanumeric() || " ._-+@=/".contains(it);
        if !name.chars().all(is_plain) || name.starts_with('-') {
            return refused(
                "a name has letters, digits, spaces and . _ - + @ = / only, and begins with no -",
            );
        }
        if !Path::new(name).components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir))
        {
            return refused("the name leads out of the studio's folder");
        }
        let path = self.root.join(name);
        // What is not there yet has a folder that is.
        let real = path.canonicalize().or_else(|_| match path.symlink_metadata() {
            Ok(_) => Err(io::Error::other("a link to nothing")),
            Err(_) => path.parent().unwrap_or(&self.root).canonicalize(),
        });
        match real {
            Ok(real) if real.starts_with(&self.root) => Ok(()),
            Ok(_) => refused("the name leads out of the studio's folder"),
            Err(_) => refused("the folder of this file is not there"),
        }
    }

    fn remedy(&self) -> String {
        let folder = self.root.display();
        format!("name a file in {folder}, or start 'raidlab studio --folder' with another one")
    }

    /// Names and sizes of the regular files that lie directly in the folder, sorted; so many at most.
    pub(crate) fn files(&self, limit: usize) -> io::Result<Vec<(String, u64)>> {
        let mut files = Vec::new();
        for entry in std::fs::read_dir(&self.root)? {
            let entry = entry?;
            let Ok(facts) = entry.metadata() else { continue };
            let Ok(name) = entry.file_name().into_string() else { continue };
            if facts.is_file() && !name.starts_with('.') && self.check("file", &name).is_ok() {
                files.push((name, facts.len()));
            }
        }
        files.sort();
        files.truncate(limit);
        Ok(files)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn names_stay_in_the_folder() {
        let outside = tempfile::tempdir().unwrap();
        std::fs::write(outside.path().join("secret"), "x").unwrap();
        let inside = tempfile::tempdir().unwrap();
        std::fs::write(inside.path().join("a.img"), "x").unwrap();
        std::fs::create_dir(inside.path().join("sub")).unwrap();
        symlink(outside.path(), inside.path().join("out")).unwrap();
        symlink(outside.path().join("secret"), inside.path().join("leak")).unwrap();
        symlink("nothing", inside.path().join("dangling")).unwrap();
        symlink("a.img", inside.path().join("alias")).unwrap();
        let folder = Folder::new(inside.path()).unwrap();
        for good in ["a.img", "new.img", "sub/new.img", "./a.img", "alias", "größe 1.img", "a+b=c@d"] {
            folder.check("file", good).unwrap_or_else(|fault| panic!("{good}: {fault:?}"));
        }
        let absolute = inside.path().join("a.img").display().to_string();
        for bad in [
            "",
            "..",
            "../secret",
            "sub/../../secret",
            "out/secret",
            "out/new",
            "leak",
            "dangling",
            "/dev/null",
            &absolute,
            "nbd://host/x",
            "null:1GiB",
            "a,b",
            "-rf",
            "a\nb",
            "a\0b",
            "no/such/folder",
            "sub/../a.img",
            &"x".repeat(256),
        ] {
            assert!(folder.check("file", bad).is_err(), "{bad:?}");
        }
        let names: Vec<String> = folder.files(10).unwrap().into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["a.img"]);
        assert!(Folder::new(&inside.path().join("a.img")).is_err());
    }
}
