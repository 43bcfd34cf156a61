//! Changes of single figures: the result if a drive or a controller had another value.
//!
//! A change is made in the text of the entry's file, in place of the value, and the file is read again: a changed entry
//! passes the same checks as a written one. A value is written as in the file, text without its quotes:
//! ```text
//! perc-h800  member_command.read  7 us        member_command.read = { value = "6.4 us", source = ... }
//! perc-h800  cache.flush_by_address  true     flush_by_address = false
//! ```
//! A figure that an entry inherits by `like` becomes its own:
//! ```text
//! kioxia-cd6-r-15360  flash.planes  2         [flash] planes = { value = 2, source = ... }
//! ```
//! The range of a changed figure is dropped: it belonged to the old value.
//!
//! A change with a source replaces the figure's source as well. The same change of text can be made to the user's own
//! file: everything else in it stays exactly as it was.

use super::nearest::nearest;
use super::reader::{Head, Layers, parse};
use super::{Builtin, Catalog, CatalogError, CatalogFile};
use core::ops::Range;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeMap;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Another value for one figure or flag of the catalogue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CatalogChange {
    /// Id of the drive or controller.
    pub entry: String,
    /// The key with its section, `member_command.read`.
    pub key: String,
    /// The value, as the file would have it, without quotes.
    pub value: String,
    /// Where it comes from; none leaves the figure the source that it has.
    pub source: Option<String>,
}

impl CatalogChange {
    /// `text`, the contents of `file`, with this change in it. The change's entry has no part in it. What the text is like is an
    /// entry that comes with the program.
    ///
    /// # Errors
    /// [`CatalogError`] if the text is not TOML or lacks the key.
    pub fn applied_to(&self, file: &str, text: &str) -> Result<String, CatalogError> {
        let base = Head::of(text).like.map(|id| Catalog::text_of(&id)).transpose()?;
        changed(file, text, base, self)
    }
}

impl Catalog {
    /// The catalogue that comes with the program, and the entries of `more`, all of them with `changes`.
    ///
    /// # Errors
    /// [`CatalogError::UnknownId`] or [`CatalogError::UnknownKey`] for a place that is not there; what else the catalogue's
    /// reader says of a file.
    pub fn with(more: &[CatalogFile], changes: &[CatalogChange]) -> Result<Self, CatalogError> {
        let built_in = Builtin::get();
        let own = more.iter().map(|file| (file.name.as_str(), &*file.text, Cow::Owned(Head::of(&file.text))));
        let known = built_in.files.iter().map(|(name, text, head)| (*name, *text, Cow::Borrowed(head)));
        let files: Vec<_> = known.chain(own).collect();
        let place = |id: &str| files.iter().position(|(.., head)| head.id.as_deref() == Some(id));
        let base = |at: usize| files[at].2.like.as_deref().and_then(place);
        let mut texts: Vec<Cow<'_, str>> = files.iter().map(|(_, text, _)| (*text).into()).collect();
        for change in changes {
            let ids = || files.iter().filter_map(|(.., head)| head.id.clone()).collect::<Vec<_>>();
            let at = place(&change.entry).ok_or_else(|| unknown_entry(&change.entry, &ids()))?;
            let like = base(at).map(|base| &*texts[base]);
            texts[at] = changed(files[at].0, &texts[at], like, change)?.into();
        }
        // What is like a changed entry is read again with it, and everything if a link is another one.
        let is_known = |at: usize| at < built_in.files.len();
        let is_changed = |at: usize| matches!(texts[at], Cow::Owned(_));
        let all = (0..files.len()).any(|at| is_known(at) && is_changed(at) && !files[at].2.is_no_link);
        let mut catalog = if all { Self::default() } else { built_in.catalog.clone() };
        let mut again = Vec::new();
        for (at, (name, _, head)) in files.iter().enumerate() {
            if all || !is_known(at) || is_changed(at) || base(at).is_some_and(is_changed) {
                if is_known(at) {
                    catalog.forget(head.id.as_deref().unwrap_or_default());
                }
                again.push((*name, &*texts[at], &**head));
            }
        }
        catalog.add_all(again)?;
        Ok(catalog)
    }

    /// The catalogue that comes with the program, with `changes`.
    ///
    /// # Errors
    /// As [`Catalog::with`].
    pub fn builtin_with(changes: &[CatalogChange]) -> Result<Self, CatalogError> {
        Self::with(&[], changes)
    }

    /// The name of the file that `entry` is in, `catalog/drives/st3600057ss.toml`.
    ///
    /// # Errors
    /// [`CatalogError::UnknownId`] if it is in none.
    pub fn file_of(entry: &str) -> Result<&'static str, CatalogError> {
        builtin_file(entry).map(|(name, _)| name)
    }

    /// The text of that file.
    ///
    /// # Errors
    /// As [`Catalog::file_of`].
    pub fn text_of(entry: &str) -> Result<&'static str, CatalogError> {
        builtin_file(entry).map(|(_, text)| text)
    }
}

fn builtin_file(entry: &str) -> Result<(&'static str, &'static str), CatalogError> {
    let files = &Builtin::get().files;
    let found = files.iter().find(|(.., head)| head.id.as_deref() == Some(entry));
    let ids = || files.iter().filter_map(|(.., head)| head.id.clone()).collect::<Vec<_>>();
    found.map(|(name, text, _)| (*name, *text)).ok_or_else(|| unknown_entry(entry, &ids()))
}

fn unknown_entry(entry: &str, known: &[String]) -> CatalogError {
    let nearest = nearest(entry, known.iter().map(String::as_str));
    CatalogError::UnknownId { what: "entry", id: entry.to_owned(), nearest, known: known.to_vec() }
}

fn unknown_key(file: &str, key: &str, nearest: Option<String>) -> CatalogError {
    CatalogError::UnknownKey { file: file.to_owned(), line: 1, key: key.to_owned(), nearest }
}

/// `text` with the value of the change's key replaced, or with one of its own where only `base` has it.
pub(super) fn changed(
    file: &str,
    text: &str,
    base: Option<&str>,
    change: &CatalogChange,
) -> Result<String, CatalogError> {
    let links = BTreeMap::new();
    let layers = Layers::new(text, base);
    let document = parse(file, &layers, &links)?;
    let found = find(document.root(), &change.key);
    let Found { value, source, ends } = found.map_err(|nearest| unknown_key(file, &change.key, nearest))?;
    let quote = if value.get_ref().as_str().is_some() { "\"" } else { "" };
    let written = format!("{quote}{}{quote}", change.value);
    if value.span().start >= text.len() {
        let source = source.and_then(|source| source.get_ref().as_str());
        let source = change.source.as_deref().or(source).map(toml::Value::from);
        let figure = source.map(|source| format!("{{ value = {written}, source = {source} }}"));
        return Ok(with_line(text, &change.key, &figure.unwrap_or(written)));
    }
    let mut parts = vec![(value.span(), written)];
    if let (Some(place), Some(source)) = (source, &change.source) {
        parts.push((place.span(), toml::Value::from(source.as_str()).to_string()));
    }
    parts.extend(ends.into_iter().map(|span| (with_comma(text, span), String::new())));
    // From the end on, so that spans before stay where they are.
    parts.sort_by_key(|(span, _)| core::cmp::Reverse(span.start));
    let mut text = text.to_owned();
    for (span, part) in parts {
        text.replace_range(span, &part);
    }
    Ok(text)
}

/// `span` in a table of one line, and the comma that parts it from the rest.
fn with_comma(text: &str, span: Range<usize>) -> Range<usize> {
    let after = text[span.end..].trim_start();
    match after.strip_prefix(',') {
        Some(rest) => span.start..text.len() - rest.trim_start().len(),
        None => text[..span.start].rfind(',').unwrap_or(span.start)..span.end,
    }
}

/// `text` with another key, below the header of its table, or in a table of its own at the end.
fn with_line(text: &str, key: &str, value: &str) -> String {
    let (table, name) = key.rsplit_once('.').unwrap_or(("", key));
    if table.is_empty() {
        return format!("{name} = {value}\n{text}");
    }
    let header = format!("[{table}]");
    let line = format!("{name} = {value}\n");
    let mut at = 0;
    for written in text.split_inclusive('\n') {
        at += written.len();
        if written.trim_end() == header {
            let end = if written.ends_with('\n') { "" } else { "\n" };
            return format!("{}{end}{line}{}", &text[..at], &text[at..]);
        }
    }
    format!("{text}\n{header}\n{line}")
}

/// A figure or flag in a file.
struct Found<'a, 'i> {
    value: &'a Spanned<DeValue<'i>>,
    /// Flags have none.
    source: Option<&'a Spanned<DeValue<'i>>>,
    /// Where its `low` and its `high` end stand.
    ends: Vec<Range<usize>>,
}

/// A figure or flag, or the known key most like one that is not there.
fn find<'a, 'i>(root: &'a DeTable<'i>, key: &str) -> Result<Found<'a, 'i>, Option<String>> {
    let mut table = root;
    let mut parts = key.split('.').peekable();
    while let Some(part) = parts.next() {
        let names = || nearest(part, table.keys().map(|name| &**name.get_ref()));
        let value = table.get(part).ok_or_else(names)?;
        let inner = value.get_ref().as_table();
        match (parts.peek(), inner) {
            (None, Some(figure)) => {
                let value = figure.get("value").ok_or(None)?;
                let is_end = |key: &str| matches!(key, "low" | "high");
                let ends = figure.iter().filter(|(key, _)| is_end(key.get_ref()));
                let ends = ends.map(|(key, value)| key.span().start..value.span().end).collect();
                return Ok(Found { value, source: figure.get("source"), ends });
            }
            (None, None) => return Ok(Found { value, source: None, ends: vec![] }),
            (Some(_), Some(inner)) => table = inner,
            (Some(_), None) => return Err(None),
        }
    }
    Err(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use raidlab_units::NanoSpan;

    fn change(entry: &str, key: &str, value: &str) -> CatalogChange {
        CatalogChange { entry: entry.into(), key: key.into(), value: value.into(), source: None }
    }

    #[test]
    fn a_change_changes_one_figure_and_nothing_else() {
        let plain = Catalog::builtin();
        let other = Catalog::builtin_with(&[
            change("perc-h800", "member_command.read", "7 us"),
            change("perc-h800", "cache.coalesce_writes", "true"),
            change("st3600057ss", "firmware.age_weight", "0.5"),
        ])
        .unwrap();
        let mut expected = plain.controller("perc-h800").unwrap().clone();
        let found = other.controller("perc-h800").unwrap().clone();
        expected.member_command.read = NanoSpan::from_micros(7);
        expected.cache.coalesce_writes = true;
        expected.sources.clone_from(&found.sources);
        assert_eq!(found, expected);
        assert_ne!(other.drive("st3600057ss").unwrap(), plain.drive("st3600057ss").unwrap());
        assert_eq!(other.drive("wd1600aajs").unwrap(), plain.drive("wd1600aajs").unwrap());
        assert_eq!(Catalog::builtin_with(&[]).unwrap().drives().count(), plain.drives().count());
    }

    #[test]
    fn a_source_goes_with_its_value_and_the_rest_of_the_file_stays() {
        let text = "a = 1 # one\n[b]\nc = { source = \"estimated: x\", value = \"7 us\" } # two\nd = true\n";
        let changed = |key: &str, value: &str| {
            let source = Some("fitted: \"to\" a row".to_owned());
            let change = CatalogChange { source, ..change("any", key, value) };
            change.applied_to("mine.toml", text).unwrap()
        };
        let figure = "c = { source = 'fitted: \"to\" a row', value = \"12.5 us\" } # two";
        assert_eq!(
            changed("b.c", "12.5 us"),
            text.replace("c = { source = \"estimated: x\", value = \"7 us\" } # two", figure)
        );
        assert_eq!(changed("b.d", "false"), text.replace("true", "false"));
        let whole = Catalog::builtin_with(&[CatalogChange {
            source: Some("fitted: to a row".into()),
            ..change("perc-h800", "member_command.read", "7 us")
        }]);
        let sources = whole.unwrap().controller("perc-h800").unwrap().sources.clone();
        let found = sources.iter().find(|figure| figure.key == "member_command.read").unwrap();
        assert_eq!((found.value.as_str(), found.source.as_str()), ("7 us", "fitted: to a row"));
        assert_eq!(Catalog::file_of("perc-h800").unwrap(), "catalog/controllers/perc-h800.toml");
    }

    #[test]
    fn the_range_of_a_changed_figure_goes() {
        let rows = [
            (
                "a = { value = 5, low = 4, high = 6, source = \"estimated: x\" }",
                "a = { value = 9, source = \"estimated: x\" }",
            ),
            (
                "a = { low = 4, value = 5, source = \"estimated: x\", high = 6 }",
                "a = { value = 9, source = \"estimated: x\" }",
            ),
        ];
        for (text, expected) in rows {
            assert_eq!(change("any", "a", "9").applied_to("mine.toml", text).unwrap(), expected);
        }
        let like = "like = \"generic-nvme\"\n";
        let own = change("any", "flash.planes", "2").applied_to("mine.toml", like).unwrap();
        assert!(own.contains("[flash]\nplanes = { value = 2, source"), "{own}");
    }

    #[test]
    fn a_figure_from_the_entry_that_it_is_like_becomes_its_own() {
        let text = "schema = 1\nid = \"mine\"\nname = \"Mine\"\nlike = \"st3600057ss\"\n\
            capacity_sectors = { value = 1172123568, source = \"estimated: as its like\" }\n[mechanics]";
        let mine = [CatalogFile { name: "mine.toml".into(), text: text.into() }];
        let changes = [
            change("mine", "mechanics.rpm", "10000"),
            change("mine", "firmware.age_weight", "0.5"),
            change("mine", "buffer.read_ahead", "false"),
            change("mine", "bus", "SATA"),
        ];
        let like = Catalog::with(&mine, &[]).unwrap();
        let all = Catalog::with(&mine, &changes).unwrap();
        let base = changes.map(|change| CatalogChange { entry: "st3600057ss".into(), ..change });
        let (found, plain) = (all.drive("mine").unwrap(), like.drive("st3600057ss").unwrap());
        assert_eq!(found.kind, Catalog::with(&mine, &base).unwrap().drive("mine").unwrap().kind);
        assert_eq!(
            (like.drive("mine").unwrap().kind.clone(), found.bus.as_deref()),
            (plain.kind.clone(), Some("SATA"))
        );
        assert_ne!(found.kind, plain.kind);
        let rpm = found.sources.iter().find(|figure| figure.key == "mechanics.rpm").unwrap();
        assert!(rpm.source.starts_with("data sheet: Seagate Cheetah"), "{}", rpm.source);
    }

    #[test]
    fn the_file_of_an_entry_has_its_name() {
        for (file, text) in crate::catalog::builtin::FILES {
            let id = Head::of(text).id.unwrap();
            assert!(file.ends_with(&format!("/{id}.toml")), "{file} has the id of another file");
        }
    }

    #[test]
    fn what_is_not_there_or_not_possible_is_named() {
        let error =
            |entry, key, value| Catalog::builtin_with(&[change(entry, key, value)]).unwrap_err().to_string();
        assert!(error("perc-h8000", "copy.rate", "1 GB/s").contains("did you mean 'perc-h800'?"));
        assert!(error("perc-h800", "copy.rat", "1 GB/s").contains("did you mean 'rate'?"));
        assert!(error("perc-h800", "copy", "1 GB/s").contains("unknown key 'copy'"));
        assert!(error("perc-h800", "copy.rate", "fast").contains("must be a rate"));
        assert!(error("perc-h800", "copy.rate", "\"").contains("not TOML"));
    }
}
