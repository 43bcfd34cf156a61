//! Reads one catalogue file: sections that know which keys were asked for, figures that must have a source.
//!
//! A reader asks a [`Section`] for each key it knows, then calls [`Section::finish`]: whatever is in the file
//! and was not asked for is an error, and the keys that were asked for are what its name is compared with.

use super::nearest::nearest;
use super::{CatalogError, FigureSource};
use crate::link::LinkStandard;
use crate::reliability::FigureRange;
use raidlab_units::{ByteCount, BytesPerSec, NanoSpan};
use std::cell::RefCell;
use std::collections::BTreeMap;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A parsed file.
pub(crate) struct Document<'a> {
    file: &'a str,
    text: &'a str,
    root: Spanned<DeTable<'a>>,
    figures: RefCell<Vec<FigureSource>>,
    links: &'a BTreeMap<String, LinkStandard>,
}

/// Parses the TOML of a file, which may refer to `links`.
pub(crate) fn parse<'a>(
    file: &'a str,
    text: &'a str,
    links: &'a BTreeMap<String, LinkStandard>,
) -> Result<Document<'a>, CatalogError> {
    let root = DeTable::parse(text).map_err(|error| CatalogError::Syntax {
        file: file.into(),
        line: line_of(text, error.span().map_or(0, |span| span.start)),
        message: error.message().into(),
    })?;
    Ok(Document { file, text, root, figures: RefCell::default(), links })
}

/// Whether the file describes a link. What else it is, or that it is broken, shows when it is parsed.
pub(crate) fn is_link(text: &str) -> bool {
    let kind = |root: Spanned<DeTable<'_>>| {
        root.get_ref().get("kind")?.get_ref().as_str().map(|kind| kind == "link")
    };
    DeTable::parse(text).ok().and_then(kind).unwrap_or(false)
}

/// The id that the file claims, if it is a file of the catalogue at all.
pub(crate) fn id_of(text: &str) -> Option<String> {
    let root = DeTable::parse(text).ok()?;
    root.get_ref().get("id")?.get_ref().as_str().map(str::to_owned)
}

impl<'a> Document<'a> {
    /// The file's top table.
    pub(crate) fn root(&self) -> &DeTable<'a> {
        self.root.get_ref()
    }
}

fn line_of(text: &str, byte: usize) -> usize {
    1 + text.bytes().take(byte).filter(|byte| *byte == b'\n').count()
}

/// One table of a file.
pub(crate) struct Section<'a> {
    document: &'a Document<'a>,
    /// Path with a trailing dot; empty for the file itself.
    prefix: String,
    table: &'a DeTable<'a>,
    line: usize,
    asked: Vec<&'static str>,
}

impl<'a> Section<'a> {
    /// The file as a section, its `schema` and `[sources]` checked.
    pub(crate) fn root(document: &'a Document<'a>) -> Result<Self, CatalogError> {
        let table = document.root.get_ref();
        let mut root = Self { document, prefix: String::new(), table, line: 1, asked: vec!["sources"] };
        match root.value("schema", "the number 1")?.get_ref() {
            DeValue::Integer(schema) if schema.as_str() == "1" => {}
            _ => return Err(root.bad_value("schema", "1, the only version there is")),
        }
        root.check_sources()?;
        Ok(root)
    }

    fn check_sources(&self) -> Result<(), CatalogError> {
        let Some(sources) = self.table.get("sources") else { return Ok(()) };
        let DeValue::Table(sources) = sources.get_ref() else {
            return Err(self.bad_value("sources", "a table of names and source texts"));
        };
        for (name, text) in sources {
            let source_text = text.get_ref().as_str().unwrap_or_default();
            if !is_source_text(source_text) {
                let key = format!("sources.{}", name.get_ref());
                return Err(self.bad_source(key, text.span().start, source_text));
            }
        }
        Ok(())
    }

    /// Text that is not a figure: a name, a kind.
    pub(crate) fn text(&mut self, key: &'static str) -> Result<String, CatalogError> {
        match self.value(key, "text")?.get_ref().as_str() {
            Some(text) if !text.is_empty() => Ok(text.to_owned()),
            _ => Err(self.bad_value(key, "text that is not empty")),
        }
    }

    /// A text that need not be there.
    pub(crate) fn optional_text(&mut self, key: &'static str) -> Result<Option<String>, CatalogError> {
        if self.table.contains_key(key) {
            return self.text(key).map(Some);
        }
        self.asked.push(key);
        Ok(None)
    }

    /// A setting that is on or off.
    pub(crate) fn flag(&mut self, key: &'static str) -> Result<bool, CatalogError> {
        let value = self.value(key, "true or false")?.get_ref().as_bool();
        value.ok_or_else(|| self.bad_value(key, "true or false"))
    }

    /// Whether a key is there, asked for or not.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.table.contains_key(key)
    }

    /// A setting that is off where it is not there.
    pub(crate) fn optional_flag(&mut self, key: &'static str) -> Result<bool, CatalogError> {
        if self.table.contains_key(key) {
            return self.flag(key);
        }
        self.asked.push(key);
        Ok(false)
    }

    /// A figure that must be there.
    pub(crate) fn figure<T: Quantity>(&mut self, key: &'static str) -> Result<T, CatalogError> {
        self.optional_figure(key)?.ok_or_else(|| self.missing(key, T::EXPECTED))
    }

    /// A figure that need not be known.
    pub(crate) fn optional_figure<T: Quantity>(
        &mut self,
        key: &'static str,
    ) -> Result<Option<T>, CatalogError> {
        self.check_figure_keys(key, &["value", "source"])?;
        Ok(self.figure_with_conditions(key)?.map(|(value, _)| value))
    }

    /// A figure that need not be known, with the `low` and the `high` end of what it may be; the value where they are left out.
    pub(crate) fn optional_range(&mut self, key: &'static str) -> Result<Option<FigureRange>, CatalogError> {
        self.check_figure_keys(key, &["value", "low", "high", "source"])?;
        let Some((value, _)) = self.figure_with_conditions::<f64>(key)? else { return Ok(None) };
        let figure = self.table.get(key).and_then(|figure| figure.get_ref().as_table());
        let end = |name| match figure.and_then(|figure| figure.get(name)) {
            None => Ok(value),
            Some(end) => f64::read(end.get_ref()).ok_or_else(|| self.bad_value(key, f64::EXPECTED)),
        };
        let (low, high) = (end("low")?, end("high")?);
        if low <= value && value <= high {
            return Ok(Some(FigureRange { low, value, high }));
        }
        Err(self.bad_value(key, "a value from its low to its high end"))
    }

    /// Refuses what does not belong into a figure's table.
    fn check_figure_keys(&self, key: &str, known: &[&'static str]) -> Result<(), CatalogError> {
        let Some(DeValue::Table(figure)) = self.table.get(key).map(Spanned::get_ref) else { return Ok(()) };
        match figure.iter().find(|(name, _)| !known.contains(&&**name.get_ref())) {
            None => Ok(()),
            Some((name, _)) => {
                let path = format!("{}.{}", self.path(key), name.get_ref());
                Err(self.unknown_key(path, name.span().start, name.get_ref(), known))
            }
        }
    }

    /// A figure that need not be known, with its source; more can stand beside it, which [`Section::conditions`] reads.
    pub(crate) fn figure_with_conditions<T: Quantity>(
        &mut self,
        key: &'static str,
    ) -> Result<Option<(T, String)>, CatalogError> {
        self.asked.push(key);
        let Some(entry) = self.table.get(key) else { return Ok(None) };
        let no_source = || CatalogError::NoSource {
            file: self.document.file.into(),
            line: line_of(self.document.text, entry.span().start),
            key: self.path(key),
        };
        let DeValue::Table(figure) = entry.get_ref() else { return Err(no_source()) };
        let source = figure.get("source").ok_or_else(no_source)?;
        let source = self.resolve_source(key, source)?;
        let value = figure.get("value").ok_or_else(|| self.missing(key, "a value beside its source"))?;
        let quantity = T::read(value.get_ref()).ok_or_else(|| self.bad_value(key, T::EXPECTED))?;
        let written = self.document.text[value.span()].trim_matches('"').to_owned();
        let noted = FigureSource { key: self.path(key), value: written, source: source.clone() };
        self.document.figures.borrow_mut().push(noted);
        Ok(Some((quantity, source)))
    }

    /// What stands beside value and source of a figure.
    pub(crate) fn conditions(&mut self, key: &'static str) -> Result<Section<'a>, CatalogError> {
        let mut conditions = self.section(key)?;
        conditions.asked.extend(["value", "source"]);
        Ok(conditions)
    }

    /// A number, size, time or rate that is somebody's choice and needs no source.
    pub(crate) fn setting<T: Quantity>(&mut self, key: &'static str) -> Result<T, CatalogError> {
        self.optional_setting(key)?.ok_or_else(|| self.missing(key, T::EXPECTED))
    }

    /// The same where it need not be there.
    pub(crate) fn optional_setting<T: Quantity>(
        &mut self,
        key: &'static str,
    ) -> Result<Option<T>, CatalogError> {
        self.asked.push(key);
        let Some(entry) = self.table.get(key) else { return Ok(None) };
        T::read(entry.get_ref()).map(Some).ok_or_else(|| self.bad_value(key, T::EXPECTED))
    }

    fn resolve_source(&self, key: &str, source: &Spanned<DeValue<'_>>) -> Result<String, CatalogError> {
        let text = source.get_ref().as_str().unwrap_or_default();
        let sources =
            self.document.root.get_ref().get("sources").and_then(|sources| sources.get_ref().as_table());
        match sources.and_then(|sources| sources.get(text)).and_then(|named| named.get_ref().as_str()) {
            Some(named) => Ok(named.to_owned()),
            None if is_source_text(text) => Ok(text.to_owned()),
            None => Err(self.bad_source(self.path(key), source.span().start, text)),
        }
    }

    /// The link of the catalogue that the table refers to, if it does.
    pub(crate) fn optional_link(&mut self) -> Result<Option<&'a LinkStandard>, CatalogError> {
        let Some(id) = self.optional_text("link")? else { return Ok(None) };
        super::find(self.document.links, "link", &id).map(Some)
    }

    /// Notes a figure that follows from another entry.
    pub(crate) fn note_figure(&self, key: &str, value: String, source: String) {
        let figure = FigureSource { key: self.path(key), value, source };
        self.document.figures.borrow_mut().push(figure);
    }

    /// A table within this one.
    pub(crate) fn section(&mut self, key: &'static str) -> Result<Section<'a>, CatalogError> {
        let value = self.value(key, "a table")?;
        let DeValue::Table(table) = value.get_ref() else { return Err(self.bad_value(key, "a table")) };
        let line = line_of(self.document.text, value.span().start);
        Ok(Section {
            document: self.document,
            prefix: format!("{}{key}.", self.prefix),
            table,
            line,
            asked: vec![],
        })
    }

    /// A table within this one that need not be there.
    pub(crate) fn optional_section(
        &mut self,
        key: &'static str,
    ) -> Result<Option<Section<'a>>, CatalogError> {
        if self.table.contains_key(key) {
            return self.section(key).map(Some);
        }
        self.asked.push(key);
        Ok(None)
    }

    /// Refuses whatever was not asked for.
    pub(crate) fn finish(self) -> Result<(), CatalogError> {
        match self.table.keys().find(|key| !self.asked.contains(&&**key.get_ref())) {
            None => Ok(()),
            Some(key) => {
                let path = self.path(key.get_ref());
                Err(self.unknown_key(path, key.span().start, key.get_ref(), &self.asked))
            }
        }
    }

    /// All figures read from the file so far, with their sources.
    pub(crate) fn figures(&self) -> Vec<FigureSource> {
        self.document.figures.borrow().clone()
    }

    /// An error about the value of `key`.
    pub(crate) fn bad_value(&self, key: &str, expected: &'static str) -> CatalogError {
        let byte = self.table.get(key).map(|value| value.span().start);
        let line = byte.map_or(self.line, |byte| line_of(self.document.text, byte));
        CatalogError::BadValue { file: self.document.file.into(), line, key: self.path(key), expected }
    }

    /// An error about figures that contradict each other.
    pub(crate) fn unsound(&self, problem: String) -> CatalogError {
        CatalogError::Unsound { file: self.document.file.into(), problem }
    }

    fn value(
        &mut self,
        key: &'static str,
        expected: &'static str,
    ) -> Result<&'a Spanned<DeValue<'a>>, CatalogError> {
        self.asked.push(key);
        self.table.get(key).ok_or_else(|| self.missing(key, expected))
    }

    fn missing(&self, key: &str, expected: &'static str) -> CatalogError {
        let not_asked = self.table.keys().filter(|other| !self.asked.contains(&&**other.get_ref()));
        let misspelt = nearest(key, not_asked.map(|other| &**other.get_ref())).and_then(|name| {
            let other = self.table.keys().find(|other| **other.get_ref() == name)?;
            Some((name, line_of(self.document.text, other.span().start)))
        });
        CatalogError::MissingKey {
            file: self.document.file.into(),
            line: self.line,
            key: self.path(key),
            expected,
            misspelt,
        }
    }

    fn unknown_key(&self, path: String, byte: usize, key: &str, known: &[&str]) -> CatalogError {
        CatalogError::UnknownKey {
            file: self.document.file.into(),
            line: line_of(self.document.text, byte),
            key: path,
            nearest: nearest(key, known.iter().copied()),
        }
    }

    fn bad_source(&self, key: String, byte: usize, source_text: &str) -> CatalogError {
        CatalogError::BadSource {
            file: self.document.file.into(),
            line: line_of(self.document.text, byte),
            key,
            source_text: source_text.into(),
        }
    }

    /// The key with its section.
    pub(crate) fn path(&self, key: &str) -> String {
        format!("{}{key}", self.prefix)
    }
}

fn is_source_text(text: &str) -> bool {
    ["data sheet:", "paper:", "fitted:", "estimated:"]
        .iter()
        .any(|kind| text.strip_prefix(kind).is_some_and(|rest| !rest.trim().is_empty()))
}

/// What a figure can be.
pub(crate) trait Quantity: Sized {
    /// For messages.
    const EXPECTED: &'static str;
    /// Reads it, if `value` is one.
    fn read(value: &DeValue<'_>) -> Option<Self>;
}

impl Quantity for u64 {
    const EXPECTED: &'static str = "a whole number, zero or above";
    fn read(value: &DeValue<'_>) -> Option<Self> {
        let number = value.as_integer()?;
        Self::from_str_radix(number.as_str(), number.radix()).ok()
    }
}

impl Quantity for u32 {
    const EXPECTED: &'static str = "a whole number, zero or above";
    fn read(value: &DeValue<'_>) -> Option<Self> {
        u64::read(value)?.try_into().ok()
    }
}

impl Quantity for u8 {
    const EXPECTED: &'static str = "a whole number from 0 to 255";
    fn read(value: &DeValue<'_>) -> Option<Self> {
        u64::read(value)?.try_into().ok()
    }
}

impl Quantity for f64 {
    const EXPECTED: &'static str = "a number, zero or above";
    fn read(value: &DeValue<'_>) -> Option<Self> {
        let number = match value {
            DeValue::Float(number) => number.as_str().parse().ok()?,
            _ => u64::read(value)? as Self,
        };
        (number.is_finite() && number >= 0.0).then_some(number)
    }
}

impl Quantity for ByteCount {
    const EXPECTED: &'static str = "a size such as \"16 MiB\"";
    fn read(value: &DeValue<'_>) -> Option<Self> {
        value.as_str()?.parse().ok()
    }
}

impl Quantity for NanoSpan {
    const EXPECTED: &'static str = "a time such as \"3.4 ms\"";
    fn read(value: &DeValue<'_>) -> Option<Self> {
        value.as_str()?.parse().ok()
    }
}

impl Quantity for BytesPerSec {
    const EXPECTED: &'static str = "a rate such as \"204 MB/s\", above zero";
    fn read(value: &DeValue<'_>) -> Option<Self> {
        let bytes: ByteCount = value.as_str()?.strip_suffix("/s")?.parse().ok()?;
        (bytes.0 > 0).then_some(Self(bytes.0 as f64))
    }
}
