//! House rules that a machine can check, over the whole tree.
//!
//! Verified: module heads, lengths of files and functions, banned words, white space, files that no module names,
//! purity of the manifests and heads of pure crates, reasons for dependencies. Not verified: whether names and comments
//! are good.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// A longer file must say "Length:" with its reason in its head.
const FILE_LINES_MAX: usize = 1000;
/// A longer function must say "Length:" with its reason in the comment above it.
const FUNCTION_LINES_MAX: usize = 70;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..").canonicalize().expect("the workspace is there")
}

fn files_below(folder: &Path, extension: &str, found: &mut Vec<PathBuf>) {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    for entry in entries {
        let path = entry.expect("the folder can be listed").path();
        if path.is_dir() {
            if !path.ends_with("target") {
                files_below(&path, extension, found);
            }
        } else if path.extension().is_some_and(|found| found == extension) {
            found.push(path);
        }
    }
    found.sort();
}

fn texts_below(folder: &str, extension: &str) -> Vec<(PathBuf, String)> {
    let mut paths = Vec::new();
    files_below(&root().join(folder), extension, &mut paths);
    let read = |path: PathBuf| {
        let text = std::fs::read_to_string(&path).expect("sources are text");
        (path, text)
    };
    paths.into_iter().map(read).collect()
}

fn sources() -> Vec<(PathBuf, String)> {
    let sources = texts_below("crates", "rs");
    assert!(sources.len() > 50, "only {} source files found: the tree has moved", sources.len());
    sources
}

fn check(complaints: &[String]) {
    assert!(complaints.is_empty(), "{} complaints:\n{}", complaints.len(), complaints.join("\n"));
}

#[test]
fn every_file_has_a_head_and_a_bearable_length() {
    let mut complaints = Vec::new();
    for (path, text) in sources() {
        let name = path.display();
        if !text.starts_with("//!") {
            complaints.push(format!("{name}: does not begin with a head (//!)"));
        }
        let head: String = text.lines().take_while(|line| line.starts_with("//!")).collect();
        let lines = text.lines().count();
        if lines > FILE_LINES_MAX && !head.contains("Length:") {
            complaints.push(format!("{name}: {lines} lines and no reason"));
        }
    }
    check(&complaints);
}

/// Functions by first line, its number and length, found by indentation, which `cargo fmt` makes reliable.
fn functions(text: &str) -> Vec<(String, usize, usize)> {
    const OPENINGS: [&str; 7] =
        ["fn ", "pub fn ", "pub(crate) fn ", "pub(super) fn ", "const fn ", "pub const fn ", "unsafe fn "];
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (start, line) in lines.iter().enumerate() {
        let code = line.trim_start();
        if !OPENINGS.iter().any(|opening| code.starts_with(opening)) || code.ends_with(';') {
            continue;
        }
        let closing = format!("{}}}", " ".repeat(line.len() - code.len()));
        if let Some(length) = lines[start..].iter().position(|line| **line == closing) {
            found.push((code.to_owned(), start, length + 1));
        }
    }
    found
}

#[test]
fn functions_are_short() {
    let mut complaints = Vec::new();
    for (path, text) in sources() {
        let lines: Vec<&str> = text.lines().collect();
        for (signature, start, length) in functions(&text) {
            let above = lines[start.saturating_sub(8)..start].join("\n");
            if length > FUNCTION_LINES_MAX && !above.contains("Length:") {
                complaints.push(format!("{}:{}: {length} lines: {signature}", path.display(), start + 1));
            }
        }
    }
    check(&complaints);
}

#[test]
fn no_banned_words_or_stray_white_space() {
    // Written in halves so that this file does not find itself.
    let banned = [
        concat!("TO", "DO"),
        concat!("FIX", "ME"),
        concat!("XX", "X"),
        concat!("HA", "CK"),
        concat!("unimplemented", "!"),
        concat!("todo", "!("),
        concat!("dbg", "!("),
        concat!("#[ig", "nore]"),
        concat!("for no", "w,"),
        concat!("/ro", "ot/"),
        concat!("/wo", "rk/"),
    ];
    let mut texts = sources();
    texts.extend(texts_below("docs", "md"));
    for folder in ["catalog", "workloads", "studies", "papers"] {
        texts.extend(texts_below(folder, "toml"));
    }
    let mut complaints = Vec::new();
    for (path, text) in texts {
        for (number, line) in text.lines().enumerate() {
            let place = format!("{}:{}", path.display(), number + 1);
            for word in banned.iter().filter(|word| line.contains(**word)) {
                complaints.push(format!("{place}: '{word}'"));
            }
            if line.ends_with(' ') || line.contains('\t') {
                complaints.push(format!("{place}: trailing blank or tab"));
            }
        }
    }
    check(&complaints);
}

#[test]
fn every_source_file_is_named_by_a_module() {
    let sources = sources();
    let module_name = |line: &str| {
        let (visibility, name) = line.trim().strip_suffix(';')?.rsplit_once("mod ")?;
        (visibility.is_empty() || visibility.starts_with("pub")).then(|| name.to_owned())
    };
    let named: BTreeSet<String> =
        sources.iter().flat_map(|(_, text)| text.lines()).filter_map(module_name).collect();
    let mut complaints = Vec::new();
    for (path, _) in &sources {
        let stem = path.file_stem().and_then(|stem| stem.to_str()).expect("names are text");
        let folder =
            path.parent().and_then(Path::file_name).and_then(|name| name.to_str()).expect("a folder");
        let root_file = ["lib", "main", "build"].contains(&stem);
        let own_crate = ["tests", "examples", "benches", "bin"].contains(&folder);
        let name = if stem == "mod" { folder } else { stem };
        if !root_file && !own_crate && !named.contains(name) {
            complaints.push(format!("{}: no module names it", path.display()));
        }
    }
    check(&complaints);
}

/// The folder, name and manifest of each crate of the workspace.
fn crates() -> Vec<(PathBuf, String, toml::Table)> {
    let mut paths = Vec::new();
    files_below(&root().join("crates"), "toml", &mut paths);
    paths.retain(|path| path.ends_with("Cargo.toml"));
    let read = |path: PathBuf| {
        let text = std::fs::read_to_string(&path).expect("a manifest");
        let manifest: toml::Table = text.parse().expect("manifests are TOML");
        let name = manifest["package"]["name"].as_str().expect("crates have names").to_owned();
        (path.parent().expect("it is in a folder").to_owned(), name, manifest)
    };
    paths.into_iter().map(read).collect()
}

fn is_pure(manifest: &toml::Table) -> bool {
    let raidlab = manifest["package"].get("metadata").and_then(|metadata| metadata.get("raidlab"));
    raidlab.and_then(|raidlab| raidlab.get("pure")).and_then(toml::Value::as_bool) == Some(true)
}

#[test]
fn pure_crates_are_pure() {
    let crates = crates();
    let impure =
        crates.iter().filter(|(_, _, manifest)| !is_pure(manifest)).map(|(_, name, _)| name.as_str());
    let system = ["rustix", "io-uring", "libc", "rusqlite", "tempfile", "ctrlc"];
    let forbidden: Vec<&str> = impure.chain(system).collect();
    let rules = std::fs::read_to_string(root().join("crates/pure.clippy.toml")).expect("the rules of purity");
    let mut complaints = Vec::new();
    let pure: Vec<_> = crates.iter().filter(|(_, _, manifest)| is_pure(manifest)).collect();
    assert!(pure.len() > 10, "only {} crates say that they are pure", pure.len());
    for (folder, _, manifest) in pure {
        let dependencies = manifest.get("dependencies").and_then(toml::Value::as_table);
        for name in dependencies.into_iter().flatten().map(|(name, _)| name.as_str()) {
            if forbidden.contains(&name) {
                complaints.push(format!("{}: depends on {name}", folder.display()));
            }
        }
        if std::fs::read_to_string(folder.join("clippy.toml")).ok().as_ref() != Some(&rules) {
            complaints
                .push(format!("{}: clippy.toml is not a link to the rules of purity", folder.display()));
        }
        let head = std::fs::read_to_string(folder.join("src/lib.rs")).expect("a crate head");
        let kernels = folder.ends_with("raid") && head.contains("#![deny(unsafe_code)]");
        if !kernels && !head.contains("#![forbid(unsafe_code)]") {
            complaints.push(format!("{}: does not forbid unsafe code", folder.display()));
        }
    }
    check(&complaints);
}

/// Names of the workspace's crates that a crate depends on, not counting its tests.
fn crates_used(manifest: &toml::Table) -> Vec<&str> {
    let dependencies = manifest.get("dependencies").and_then(toml::Value::as_table);
    let names = dependencies.into_iter().flatten().map(|(name, _)| name.as_str());
    names.filter(|name| name.starts_with("raidlab")).collect()
}

/// The crates by folder and by how many stand on each other: a crate is in the line above the highest that it depends on.
fn picture() -> String {
    const FOLDERS: [&str; 5] = ["base", "array", "model", "load", "lab"];
    let crates = crates();
    let mut heights: BTreeMap<&str, usize> = BTreeMap::new();
    while heights.len() < crates.len() {
        let before = heights.len();
        for (_, name, manifest) in &crates {
            let below: Option<Vec<usize>> =
                crates_used(manifest).into_iter().map(|used| heights.get(used).copied()).collect();
            if let Some(below) = below {
                heights.insert(name, below.into_iter().max().map_or(0, |highest| highest + 1));
            }
        }
        assert!(heights.len() > before, "crates depend on each other in a circle");
    }
    let top = heights.values().copied().max().expect("there are crates");
    let cell = |folder: &str, height: usize| {
        let here = crates.iter().filter(|(path, name, _)| {
            path.parent().is_some_and(|parent| parent.ends_with(folder)) && heights[name.as_str()] == height
        });
        let label = |(_, name, manifest): &(PathBuf, String, toml::Table)| {
            let short = name.strip_prefix("raidlab-").unwrap_or(name);
            format!("{short}{}", if is_pure(manifest) { "*" } else { "" })
        };
        here.map(label).collect::<Vec<_>>().join(" ")
    };
    let folders: Vec<&str> = FOLDERS.into_iter().chain(["app"]).collect();
    let rows: Vec<Vec<String>> = std::iter::once(folders.iter().map(|it| (*it).to_owned()).collect())
        .chain((0..=top).rev().map(|height| folders.iter().map(|folder| cell(folder, height)).collect()))
        .collect();
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().expect("there are rows");
    let line = |row: &Vec<String>| {
        let cells = row.iter().enumerate().map(|(at, cell)| format!("{cell:0$}", width(at) + 2));
        cells.collect::<String>().trim_end().to_owned()
    };
    rows.iter().map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn the_picture_and_the_table_of_crates_are_true() {
    let page = std::fs::read_to_string(root().join("docs/architecture.md")).expect("the page");
    let drawn =
        page.split("```text\n").nth(1).and_then(|rest| rest.split("\n```").next()).expect("a picture");
    let picture = picture();
    assert!(drawn == picture, "docs/architecture.md: the picture is to be\n{picture}");
    let named: BTreeSet<&str> = page
        .lines()
        .filter_map(|line| line.strip_prefix("| `raidlab"))
        .filter_map(|rest| rest.split('`').next())
        .map(|rest| rest.trim_start_matches('-'))
        .collect();
    let crates = crates();
    let there: BTreeSet<&str> =
        crates.iter().map(|(_, name, _)| name["raidlab".len()..].trim_start_matches('-')).collect();
    let unlike: Vec<String> = named
        .symmetric_difference(&there)
        .map(|name| format!("raidlab-{name}: in the table or in the tree only"))
        .collect();
    check(&unlike);
}

#[test]
fn every_dependency_has_its_reason() {
    let manifest = std::fs::read_to_string(root().join("Cargo.toml")).expect("the manifest");
    let reasons = std::fs::read_to_string(root().join("docs/dependencies.md")).expect("the list of reasons");
    let listed = manifest.split("[workspace.dependencies]").nth(1).expect("dependencies");
    let listed = listed.split("\n[").next().expect("a section");
    let names = listed.lines().filter_map(|line| line.split_once(" = ")).map(|(name, _)| name.trim());
    let missing: Vec<String> = names
        .filter(|name| !name.starts_with("raidlab") && !reasons.contains(&format!("`{name}`")))
        .map(|name| format!("docs/dependencies.md gives no reason for {name}"))
        .collect();
    check(&missing);
}

#[test]
fn every_page_is_in_the_book_and_the_changes_are_told() {
    let contents = std::fs::read_to_string(root().join("docs/SUMMARY.md")).expect("the book's contents");
    let name = |path: &Path| path.file_name().expect("a file").to_string_lossy().into_owned();
    let pages: Vec<String> = texts_below("docs", "md").iter().map(|(path, _)| name(path)).collect();
    let missing =
        pages.iter().filter(|page| *page != "SUMMARY.md" && !contents.contains(&format!("({page})")));
    let linked = contents.split('(').skip(1).filter_map(|rest| rest.split(')').next());
    let dangling = linked.filter(|page| !pages.iter().any(|it| it == page));
    let mut complaints: Vec<String> =
        missing.map(|page| format!("docs/SUMMARY.md does not name {page}")).collect();
    complaints.extend(dangling.map(|page| format!("docs/SUMMARY.md names {page}, which there is not")));
    let changes = std::fs::read_to_string(root().join("CHANGELOG.md")).expect("the list of changes");
    if !changes.contains("## Unreleased") && !changes.contains(env!("CARGO_PKG_VERSION")) {
        complaints.push("CHANGELOG.md does not tell of this version".into());
    }
    check(&complaints);
}
