//! Reads one catalogue file: sections that track their known keys, figures that must have a source.
//!
//! A reader asks a [`Section`] for each key it knows, then calls [`Section::finish`]: any other key in the file is an
//! error, and its name is compared with the known keys.
//!
//! A file with `like = "ID"` inherits everything that it does not say itself from the file of that entry, its base:
//! ```text
//! file      [flash] channels = 16
//! base      [flash] channels = 8, planes = 4
//! is read   [flash] channels = 16, planes = 4
//! ```

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
    /// With the base's text behind it.
    text: &'a str,
    /// Bytes of the file itself.
    own: usize,
    root: Spanned<DeTable<'a>>,
    figures: RefCell<Vec<FigureSource>>,
    links: &'a BTreeMap<String, LinkStandard>,
}

/// The text of a file and of its base.
#[derive(Debug)]
pub(crate) struct Layers {
    /// The file's, with the base's behind it.
    text: String,
    own: usize,
    /// The base's alone, behind as much blank space as the file has text, so that places in it are places in `text`.
    base: Option<String>,
}

impl Layers {
    /// Of a file that is like `base`.
    pub(crate) fn new(own: &str, base: Option<&str>) -> Self {
        let blank = |base| format!("{:1$}{base}", "\n", own.len() + 1);
        let text = base.map_or_else(|| own.to_owned(), |base| format!("{own}\n{base}"));
        Self { text, own: own.len(), base: base.map(blank) }
    }
}

/// Parses the TOML of a file, which may refer to `links`.
pub(crate) fn parse<'a>(
    file: &'a str,
    layers: &'a Layers,
    links: &'a BTreeMap<String, LinkStandard>,
) -> Result<Document<'a>, CatalogError> {
    let parsed = |text: &'a str| {
        DeTable::parse(text).map_err(|error| CatalogError::Syntax {
            file: file.into(),
            line: line_of(text, error.span().map_or(0, |span| span.start)),
            message: error.message().into(),
        })
    };
    let mut root = parsed(&layers.text[..layers.own])?;
    if let Some(base) = &layers.base {
        let base = parsed(base)?.into_inner();
        let sources = base.get("sources").and_then(|sources| sources.get_ref().as_table()).cloned();
        inherit(root.get_mut(), base, "", &sources.unwrap_or_default());
    }
    Ok(Document { file, text: &layers.text, own: layers.own, root, figures: RefCell::default(), links })
}

/// What belongs to one entry alone.
const NOT_INHERITED: [&str; 11] = [
    "capacity_sectors",
    "id",
    "like",
    "name",
    "price_usd",
    "reliability.field_drive_days",
    "reliability.field_failures",
    "reliability.rated_writes",
    "sheet",
    "sources",
    "year",
];

/// Gives `own` what only `base` has. Names of sources become their texts, as `own` may have other sources of these names.
fn inherit<'a>(own: &mut DeTable<'a>, base: DeTable<'a>, prefix: &str, sources: &DeTable<'a>) {
    for (key, mut value) in base {
        let path = format!("{prefix}{}", key.get_ref());
        if NOT_INHERITED.contains(&&*path) {
            continue;
        }
        match (own.get_mut(&key), value.get_mut()) {
            (Some(_), DeValue::Table(figure)) if figure.contains_key("value") => {}
            (Some(mine), DeValue::Table(_)) => {
                if let (DeValue::Table(mine), DeValue::Table(table)) = (mine.get_mut(), value.into_inner()) {
                    inherit(mine, table, &format!("{path}."), sources);
                }
            }
            (Some(_), _) => {}
            (None, found) => {
                name_sources(found, sources);
                own.insert(key, value);
            }
        }
    }
}

fn name_sources<'a>(value: &mut DeValue<'a>, sources: &DeTable<'a>) {
    let DeValue::Table(table) = value else { return };
    for (key, value) in table.iter_mut() {
        let named = value.get_ref().as_str().and_then(|name| sources.get(name));
        match named {
            Some(text) if key.get_ref() == "source" => *value = text.clone(),
            _ => name_sources(value.get_mut(), sources),
        }
    }
}

/// What decides where a file comes in the order of reading. That it is broken shows when it is parsed.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Head {
    /// Whether it describes a link, of which others are made.
    pub is_no_link: bool,
    /// Id of its base.
    pub like: Option<String>,
    /// Its id, if it is a file of the catalogue at all.
    pub id: Option<String>,
}

impl Head {
    pub(crate) fn of(text: &str) -> Self {
        let root = DeTable::parse(text).map(Spanned::into_inner).unwrap_or_default();
        let text = |key| root.get(key).and_then(|value| value.get_ref().as_str()).map(str::to_owned);
        Self {
            is_no_link: text("kind").is_none_or(|kind| kind != "link"),
            like: text("like"),
            id: text("id"),
        }
    }
}

impl<'a> Document<'a> {
    /// The file's top table.
    pub(crate) fn root(&self) -> &DeTable<'a> {
        self.root.get_ref()
    }

    /// Line in the file, or its first for a place in its base.
    fn line_of(&self, byte: usize) -> usize {
        if byte < self.own { line_of(self.text, byte) } else { 1 }
    }
}

fn line_of(text: &str, byte: usize) -> usize {
    1 + text.bytes().take(byte).filter(|byte| *byte == b'\n').count()
}

/// Reads a struct whose fields bear the names of keys of a [`Section`], in their order: figures where a name stands alone, what
/// another reader of the section gives (`name: text`), or something else (`kernel = ...`).
macro_rules! from_keys {
    ($section:ident, $of:ident { $($field:ident $(: $reader:ident)? $(= $value:expr)?),+ $(,)? }) => {
        $of { $($field: from_keys!(@ $section $field $($reader)? $(= $value)?)),+ }
    };
    (@ $section:ident $field:ident) => {
        $section.figure(stringify!($field))?
    };
    (@ $section:ident $field:ident $reader:ident) => {
        $section.$reader(stringify!($field))?
    };
    (@ $section:ident $field:ident = $value:expr) => {
        $value
    };
}
pub(crate) use from_keys;

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
        let mut root =
            Self { document, prefix: String::new(), table, line: 1, asked: vec!["sources", "like"] };
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
        self.check_figure_keys(key, &["value", "low", "high", "source"])?;
        Ok(self.figure_with_conditions(key)?.map(|(value, _)| value))
    }

    /// A figure that need not be known, with the `low` and the `high` end of what it may be; the value where they are left out.
    pub(crate) fn optional_range(&mut self, key: &'static str) -> Result<Option<FigureRange>, CatalogError> {
        let Some(value) = self.optional_figure(key)? else { return Ok(None) };
        let end = |name| self.end_of::<f64>(key, name).map(|end| end.map_or(value, |(end, _)| end));
        Ok(Some(FigureRange { low: end("low")?, value, high: end("high")? }))
    }

    /// The `low` or `high` end of a figure, and how it is written.
    fn end_of<T: Quantity>(&self, key: &str, name: &str) -> Result<Option<(T, String)>, CatalogError> {
        let figure = self.table.get(key).and_then(|figure| figure.get_ref().as_table());
        let Some(end) = figure.and_then(|figure| figure.get(name)) else { return Ok(None) };
        let read = T::read(end.get_ref()).ok_or_else(|| self.bad_value(key, T::EXPECTED))?;
        Ok(Some((read, self.written(end))))
    }

    /// A value as the file has it, text without its quotes.
    fn written(&self, value: &Spanned<DeValue<'_>>) -> String {
        self.document.text[value.span()].trim_matches('"').to_owned()
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
            line: self.document.line_of(entry.span().start),
            key: self.path(key),
        };
        let DeValue::Table(figure) = entry.get_ref() else { return Err(no_source()) };
        let source = figure.get("source").ok_or_else(no_source)?;
        let source = self.resolve_source(key, source)?;
        let value = figure.get("value").ok_or_else(|| self.missing(key, "a value beside its source"))?;
        let quantity = T::read(value.get_ref()).ok_or_else(|| self.bad_value(key, T::EXPECTED))?;
        let (low, high) = (self.end_of::<T>(key, "low")?, self.end_of::<T>(key, "high")?);
        let is_above = low.as_ref().is_none_or(|(low, _)| *low <= quantity);
        if !is_above || high.as_ref().is_some_and(|(high, _)| *high < quantity) {
            return Err(self.bad_value(key, "a value from its low to its high end"));
        }
        let mut noted = FigureSource::new(self.path(key), self.written(value), source.clone());
        (noted.low, noted.high) = (low.map(|(_, low)| low), high.map(|(_, high)| high));
        self.document.figures.borrow_mut().push(noted);
        Ok(Some((quantity, source)))
    }

    /// What stands beside value and source of a figure.
    pub(crate) fn conditions(&mut self, key: &'static str) -> Result<Section<'a>, CatalogError> {
        let mut conditions = self.section(key)?;
        conditions.asked.extend(["value", "low", "high", "source"]);
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
        self.document.figures.borrow_mut().push(FigureSource::new(self.path(key), value, source));
    }

    /// A table within this one.
    pub(crate) fn section(&mut self, key: &'static str) -> Result<Section<'a>, CatalogError> {
        let value = self.value(key, "a table")?;
        let DeValue::Table(table) = value.get_ref() else { return Err(self.bad_value(key, "a table")) };
        let line = self.document.line_of(value.span().start);
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

    /// Refuses whatever was not asked for, and returns what was `read`.
    pub(crate) fn finish<T>(self, read: T) -> Result<T, CatalogError> {
        match self.table.keys().find(|key| !self.asked.contains(&&**key.get_ref())) {
            None => Ok(read),
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

    /// Refuses the value of `key`, which should be what is `expected`, where it `is_bad`.
    pub(crate) fn refuse_if(
        &self,
        is_bad: bool,
        key: &str,
        expected: &'static str,
    ) -> Result<(), CatalogError> {
        if is_bad { Err(self.bad_value(key, expected)) } else { Ok(()) }
    }

    /// An error about the value of `key`.
    pub(crate) fn bad_value(&self, key: &str, expected: &'static str) -> CatalogError {
        let byte = self.table.get(key).map(|value| value.span().start);
        let line = byte.map_or(self.line, |byte| self.document.line_of(byte));
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
            Some((name, self.document.line_of(other.span().start)))
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
            line: self.document.line_of(byte),
            key: path,
            nearest: nearest(key, known.iter().copied()),
        }
    }

    fn bad_source(&self, key: String, byte: usize, source_text: &str) -> CatalogError {
        CatalogError::BadSource {
            file: self.document.file.into(),
            line: self.document.line_of(byte),
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
pub(crate) trait Quantity: PartialOrd + Sized {
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
