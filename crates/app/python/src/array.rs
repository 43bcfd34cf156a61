//! The catalogue, and arrays of its parts.

use crate::errors::{refused, refused_argument, refused_array, written};
use crate::own::{OwnDriveArgs, OwnFault, add_drives};
use pyo3::prelude::*;
use raidlab::{
    ArrayFile, ArrayFileError, ByteCount, CatalogChange, CatalogError, CatalogFile, ControllerSettings,
    DriveHistory, IoPolicy, LevelVariant, MetadataPolicy, NanoSpan, Owner, ReadPolicy, WritePolicy, nearest,
};
use raidlab_format::DEVICES_MAX;
use raidlab_raid::{LayoutError, LayoutSpec, build_layout};
use raidlab_units::BlockCount;
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
        let parts = read.map(Arc::new).map_err(|error| refused_change(&files, &changes, error))?;
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

/// What was said of a catalogue: of a change that can't be, with it in place of the file of its entry.
fn refused_change(files: &[CatalogFile], changes: &[CatalogChange], error: CatalogError) -> PyErr {
    if raidlab::Catalog::with(files, &[]).is_err() {
        return refused(error);
    }
    let alone = |change: &CatalogChange| {
        let error = raidlab::Catalog::with(files, std::slice::from_ref(change)).err()?.to_string();
        let CatalogChange { entry, key, value, .. } = change;
        let place = error.split_once(": ").filter(|(place, _)| place.contains(".toml:"));
        let problem = place.map_or(error.as_str(), |(_, problem)| problem);
        Some(refused_argument("set", format_args!("{{'{entry}:{key}': '{value}'}}"), problem))
    };
    changes.iter().find_map(alone).unwrap_or_else(|| refused(error))
}

/// An array of catalogue parts.
#[pyclass(frozen, module = "raidlab._raidlab")]
pub(crate) struct Array {
    pub(crate) array: raidlab::Array,
    /// The arguments, where it is described in Python and by no file.
    pub(crate) given: Option<Arc<Map<String, Value>>>,
}

impl Array {
    fn refused(&self, error: &ArrayFileError) -> PyErr {
        refused(self.given.as_ref().map_or_else(|| error.to_string(), |given| refused_array(error, given)))
    }
}

#[pymethods]
impl Array {
    /// The array of `settings`, a JSON object whose keys are the arguments of Python.
    #[new]
    fn new(settings: &str) -> PyResult<Self> {
        let settings: Map<String, Value> = serde_json::from_str(settings).map_err(refused)?;
        let given = Arguments(settings);
        let file = file_of(&given)?;
        Ok(Self { array: file.into(), given: Some(Arc::new(given.0)) })
    }

    /// The array that the TOML `text` describes; messages call it `name`.
    #[staticmethod]
    fn from_toml(name: &str, text: &str) -> PyResult<Self> {
        let file = ArrayFile::parse(name, text).map_err(refused)?;
        Ok(Self { array: file.into(), given: None })
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
                let (key, argument, value) = match culprit::<T>(value) {
                    Some((key, value)) => (key.as_str(), format!("{name}['{key}']"), value),
                    None => (name, name.to_owned(), value),
                };
                let error = self.bounds(key).unwrap_or_else(|| in_words(&error.to_string()));
                refused_argument(&argument, written(value), error)
            })
        };
        self.given(name).map(read).transpose()
    }

    /// What whole numbers are allowed for an argument, or a key of one.
    fn bounds(&self, key: &str) -> Option<String> {
        let (allowed, of) = match key {
            "members" => {
                let level: LevelVariant = self.parsed("level").ok()??;
                let (least, most) = members_allowed(level);
                (least.into()..=most.into(), format!(" with {}", level.level.title()))
            }
            "controllers" => (1..=2, String::new()),
            "volumes" => (1..=u16::MAX.into(), String::new()),
            "fill" => (1..=100, String::new()),
            "flush-start-pct" | "flush-stop-pct" => (0..=100, String::new()),
            "flush-iodepth" | "scan-iodepth" => (1..=u32::MAX, String::new()),
            "stream-lead" => (0..=u32::MAX, String::new()),
            "spares" => {
                let members = self.given("members").and_then(Value::as_u64).unwrap_or(1);
                let most = (DEVICES_MAX as u64).saturating_sub(members);
                (0..=most as u32, format!(" beside {members} members"))
            }
            _ => return None,
        };
        Some(format!("it is a whole number from {} to {}{of}", allowed.start(), allowed.end()))
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
            Err(refused_argument(&format!("{name}['{key}']"), written(value), example))
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
                refused_argument(
                    name,
                    written(value),
                    format_args!("it is none of {}{meant}", words.join(", ")),
                )
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
            text.parse().map_err(|error| refused_argument(name, written(value), error))
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

/// The fewest and the most members of an array of that level.
fn members_allowed(level: LevelVariant) -> (u16, u16) {
    let spans = level.spans.max(1);
    let problem = |members| {
        let one = BlockCount(1);
        build_layout(&LayoutSpec { level, members, strip_blocks: one, member_blocks: one }).err()
    };
    let least = match problem(spans) {
        Some(LayoutError::TooFewMembers { minimum, .. }) => minimum,
        Some(LayoutError::SpanMembers { minimum, .. }) => minimum.saturating_mul(spans),
        _ => spans,
    };
    let even = spans.saturating_mul(2);
    let most = match problem(u16::MAX / even * even) {
        Some(LayoutError::TooManyMembers { maximum, .. }) => maximum,
        Some(LayoutError::SpanMembers { maximum, .. }) => maximum.saturating_mul(spans),
        _ => u16::MAX,
    };
    (least, most)
}

/// What is allowed instead of the type that was expected.
fn in_words(error: &str) -> String {
    const WORDS: [(&str, &str); 6] = [
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
    file.fill = given.read("fill")?;
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
