//! The catalogue, and arrays of its parts.

use crate::errors::{refused, refused_argument, refused_array};
use crate::own::{OwnDriveArgs, OwnFault, add_drives};
use pyo3::prelude::*;
use raidlab::{
    ArrayFile, ArrayFileError, ByteCount, CatalogChange, CatalogFile, ControllerSettings, DriveHistory,
    IoPolicy, LevelVariant, MetadataPolicy, NanoSpan, Owner, ReadPolicy, WritePolicy, nearest,
};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use std::fmt::Display;
use std::str::FromStr;
use std::sync::Arc;

/// Drives, controllers, enclosures and hosts.
#[pyclass(frozen, module = "raidlab._raidlab")]
pub(crate) struct Catalog {
    pub(crate) parts: Arc<raidlab::Catalog>,
    /// The same without drives of the caller's own, and these.
    own: Option<(Arc<raidlab::Catalog>, Vec<OwnDriveArgs>)>,
}

impl Catalog {
    /// As a sweep takes it, which is told by `fault` what drives of the caller's own raise.
    pub(crate) fn of_sweep(&self, py: Python<'_>, fault: &Arc<OwnFault>) -> PyResult<Arc<raidlab::Catalog>> {
        let Some((without, drives)) = &self.own else { return Ok(Arc::clone(&self.parts)) };
        let mut catalog = raidlab::Catalog::clone(without);
        add_drives(py, &mut catalog, drives, fault)?;
        Ok(Arc::new(catalog))
    }
}

#[pymethods]
impl Catalog {
    /// The built-in hardware with the entries of `files`, which are names and texts, with `changes`: entry, key and value, and with
    /// `drives` that are written in Python.
    #[new]
    fn new(
        py: Python<'_>,
        files: Vec<(String, String)>,
        changes: Vec<(String, String, String)>,
        drives: Vec<OwnDriveArgs>,
    ) -> PyResult<Self> {
        let file = |(name, text): (String, String)| CatalogFile { name, text };
        let change = |(entry, key, value)| CatalogChange { entry, key, value, source: None };
        let files: Vec<_> = files.into_iter().map(file).collect();
        let changes: Vec<_> = changes.into_iter().map(change).collect();
        let read = py.detach(|| raidlab::Catalog::with(&files, &changes));
        let parts = read.map(Arc::new).map_err(refused)?;
        let own = (!drives.is_empty()).then(|| (Arc::clone(&parts), drives));
        let plain = Self { parts, own };
        let parts = plain.of_sweep(py, &Arc::default())?;
        Ok(Self { parts, ..plain })
    }

    /// All entries with their figures, as JSON.
    fn entries(&self) -> String {
        let entries: Vec<_> = self.parts.entries().collect();
        serde_json::to_string(&entries).expect("text and numbers always print")
    }
}

/// An array of catalogue parts.
#[pyclass(frozen, module = "raidlab._raidlab")]
pub(crate) struct Array {
    pub(crate) array: raidlab::Array,
    /// Described in Python, and by no file.
    pub(crate) in_python: bool,
}

impl Array {
    fn refused(&self, error: &ArrayFileError) -> PyErr {
        refused(if self.in_python {
            refused_array(error, &self.array.clone().into())
        } else {
            error.to_string()
        })
    }
}

#[pymethods]
impl Array {
    /// The array of `settings`, a JSON object whose keys are the arguments of Python.
    #[new]
    fn new(settings: &str) -> PyResult<Self> {
        let settings: Map<String, Value> = serde_json::from_str(settings).map_err(refused)?;
        file_of(&Arguments(settings)).map(|file| Self { array: file.into(), in_python: true })
    }

    /// The array that the TOML `text` describes; messages call it `name`.
    #[staticmethod]
    fn from_toml(name: &str, text: &str) -> PyResult<Self> {
        let file = ArrayFile::parse(name, text).map_err(refused)?;
        Ok(Self { array: file.into(), in_python: false })
    }

    /// It as files describe it, as JSON; sizes are in bytes.
    fn file(&self) -> String {
        let file: ArrayFile = self.array.clone().into();
        serde_json::to_string(&file).expect("text and numbers always print")
    }

    /// The array in a few words; an array that can't be is refused.
    fn label(&self, catalog: &Catalog) -> PyResult<String> {
        let resolved = self.array.resolve(&catalog.parts);
        resolved.map(|(_, array)| array.label()).map_err(|error| self.refused(&error))
    }

    /// What the host sees, in bytes.
    fn usable_bytes(&self, catalog: &Catalog) -> PyResult<u64> {
        self.array.usable(&catalog.parts).map(ByteCount::get).map_err(|error| self.refused(&error))
    }

    /// What could not be plugged together, a sentence each.
    fn misfits(&self, catalog: &Catalog) -> PyResult<Vec<String>> {
        self.array.misfits(&catalog.parts).map_err(|error| self.refused(&error))
    }
}

/// The arguments that were given.
struct Arguments(Map<String, Value>);

impl Arguments {
    fn given(&self, name: &str) -> Option<&Value> {
        self.0.get(name).filter(|value| !value.is_null())
    }

    /// The argument called `name`, as files have it.
    fn read<T: DeserializeOwned>(&self, name: &str) -> PyResult<Option<T>> {
        let read = |value: &Value| {
            serde_json::from_value(value.clone()).map_err(|error| {
                let error = in_words(&error.to_string());
                match culprit::<T>(value) {
                    Some((key, value)) => refused_argument(&format!("{name}['{key}']"), value, error),
                    None => refused_argument(name, value, error),
                }
            })
        };
        self.given(name).map(read).transpose()
    }

    /// Refuses numbers for those `keys` of the dictionary `name` that have a unit; zero needs none.
    fn check_units(&self, name: &str, keys: &[&str]) -> PyResult<()> {
        let given = self.given(name);
        let values = keys.iter().filter_map(|key| Some((*key, given?.get(*key)?)));
        let mut bare = values.filter(|(_, value)| value.is_number() && value.as_f64() != Some(0.0));
        bare.next().map_or(Ok(()), |(key, value)| {
            let example = if key == "flush-after" {
                "a time is text with a unit, such as '4s'"
            } else {
                "a size is text with a unit, such as '64KiB'"
            };
            Err(refused_argument(&format!("{name}['{key}']"), value, example))
        })
    }

    /// The argument called `name`, one of the words that are `known`.
    fn word<T: Copy>(&self, name: &str, known: &[(&str, T)]) -> PyResult<Option<T>> {
        let read = |value: &Value| {
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            known.iter().find(|(word, _)| *word == text).map(|(_, meant)| *meant).ok_or_else(|| {
                let words: Vec<&str> = known.iter().map(|(word, _)| *word).collect();
                let meant = nearest(&text, words.iter().copied());
                let meant = meant.map(|word| format!("; did you mean '{word}'?")).unwrap_or_default();
                refused_argument(name, value, format_args!("it is none of {}{meant}", words.join(", ")))
            })
        };
        self.given(name).map(read).transpose()
    }

    /// The same of one that must be there.
    fn needed<T: DeserializeOwned>(&self, name: &str) -> PyResult<T> {
        self.read(name)?.ok_or_else(|| refused(format!("{name} is not given, and an array has one")))
    }

    /// The argument called `name`, as the command line has it.
    fn parsed<T: FromStr<Err: Display>>(&self, name: &str) -> PyResult<Option<T>> {
        let parse = |value: &Value| {
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            text.parse().map_err(|error| refused_argument(name, value, error))
        };
        self.given(name).map(parse).transpose()
    }
}

/// The first key of a dictionary that is against its being read, and its value.
fn culprit<T: DeserializeOwned>(value: &Value) -> Option<(&String, &Value)> {
    let alone = |(key, value): &(&String, &Value)| {
        let object = Map::from_iter([((*key).clone(), (*value).clone())]);
        serde_json::from_value::<T>(Value::Object(object)).is_err()
    };
    value.as_object()?.iter().find(alone)
}

/// What is allowed instead of the type that was expected.
fn in_words(error: &str) -> String {
    const WORDS: [(&str, &str); 9] = [
        ("expected u16", "expected a whole number from 0 to 65535"),
        ("expected u8", "expected a whole number from 0 to 255"),
        ("expected u32", "expected a whole number from 0 to 4294967295"),
        ("expected a boolean", "expected True or False"),
        ("expected a string", "expected text"),
        ("expected struct CacheSettings", "expected a dictionary with keys of [cache]"),
        ("expected struct Resilience", "expected a dictionary with keys of [resilience]"),
        ("unknown field", "unknown key"),
        ("unknown variant", "unknown word"),
    ];
    WORDS.iter().fold(error.replace('`', "'"), |text, (from, to)| text.replace(from, to))
}

fn file_of(given: &Arguments) -> PyResult<ArrayFile> {
    let level: LevelVariant =
        given.parsed("level")?.ok_or_else(|| refused("level is not given, and an array has one"))?;
    let mut file = ArrayFile::new(
        level,
        given.needed("members")?,
        given.needed::<String>("drive")?,
        given.needed::<String>("controller")?,
    );
    file.enclosure = given.read("enclosure")?;
    file.write_policy = given.word("write_policy", &WritePolicy::ALL.map(|it| (it.name(), it)))?;
    file.strip_size = given.parsed("strip")?;
    file.disk_cache = given.read("disk_cache")?;
    file.region = given.parsed("region")?;
    file.condition = given.parsed::<DriveHistory>("condition")?;
    file.fill = given.read("fill").map_err(|error| match given.given("fill") {
        Some(fill) if fill.is_i64() => refused_argument("fill", fill, "it is a percentage from 1 to 100"),
        _ => error,
    })?;
    given.check_units("cache", &["size", "block-size", "read-ahead", "flush-after"])?;
    given.check_units("resilience", &["log-size"])?;
    file.cache = given.read("cache")?.unwrap_or_default();
    file.cache.size = given.parsed("cache_size")?.or(file.cache.size);
    file.cache.read_policy =
        given.word("read_policy", &ReadPolicy::ALL.map(|it| (it.name(), it)))?.or(file.cache.read_policy);
    file.cache.io_policy =
        given.word("io_policy", &IoPolicy::ALL.map(|it| (it.name(), it)))?.or(file.cache.io_policy);
    file.resilience = given.read("resilience")?.unwrap_or_default();
    file.resilience.metadata = given
        .word("metadata", &MetadataPolicy::ALL.map(|it| (it.name(), it)))?
        .unwrap_or(file.resilience.metadata);
    file.controllers = controllers(given)?;
    Ok(file)
}

/// What is said of controllers and volumes.
fn controllers(given: &Arguments) -> PyResult<Option<ControllerSettings>> {
    const NAMES: [&str; 5] = ["controllers", "volumes", "mirror", "fail", "fail_after"];
    if NAMES.iter().all(|name| given.given(name).is_none()) {
        return Ok(None);
    }
    let count = given.read("controllers")?.unwrap_or(1);
    Ok(Some(ControllerSettings {
        volumes: given.read("volumes")?,
        mirror: given.read("mirror")?,
        fail: given.word("fail", &[("A", Owner::A), ("B", Owner::B)])?,
        fail_after: given.parsed::<NanoSpan>("fail_after")?,
        ..ControllerSettings::of_count(count)
    }))
}
