//! Reads the TOML files that users write: workloads, studies, arrays, the catalogue.
//!
//! Every such file starts with `schema = 1`. An unknown key is an error that names it, its line and the nearest known
//! key; so are a missing key, a wrong value and an unknown word. The caller reads the file; this module sees its name
//! (for messages) and its text.
//!
//! How it works: `serde` reports the unknown key or word and the known ones, and `toml` reports the place. A type read
//! here needs `#[serde(deny_unknown_fields)]` and a field `schema` (it may be ignored).

use serde::de::{DeserializeOwned, Error, IgnoredAny, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::marker::PhantomData;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Why a TOML file was not understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TomlFileError {
    /// A key that the file's kind does not have.
    #[error("{}: unknown key '{key}'{}", place(file, *line), suggestion(nearest.as_deref(), known))]
    UnknownKey {
        /// The file.
        file: String,
        /// Its line, from 1, where known.
        line: Option<usize>,
        /// The key.
        key: String,
        /// The known key that is spelt most like it.
        nearest: Option<String>,
        /// All keys known at that place.
        known: Vec<String>,
    },
    /// A word that is none of those due.
    #[error("{}: unknown value '{value}'{}", place(file, *line), suggestion(nearest.as_deref(), known))]
    UnknownValue {
        /// The file.
        file: String,
        /// Its line, from 1, where known.
        line: Option<usize>,
        /// The word.
        value: String,
        /// The known word that is spelt most like it.
        nearest: Option<String>,
        /// All words due at that place.
        known: Vec<String>,
    },
    /// A key that must be there is not.
    #[error("{}: the key '{key}' is missing here: add it", place(file, *line))]
    MissingKey {
        /// The file.
        file: String,
        /// The line, from 1, where the table starts that lacks it, where known.
        line: Option<usize>,
        /// The key.
        key: String,
    },
    /// The text is no TOML, or a value is of the wrong kind or out of range.
    #[error("{}: {}{message}", place(file, *line), key.as_ref().map(|key| format!("{key}: ")).unwrap_or_default())]
    Invalid {
        /// The file.
        file: String,
        /// Its line, from 1, where known.
        line: Option<usize>,
        /// The key on that line, where there is one.
        key: Option<String>,
        /// What is wrong.
        message: String,
    },
    /// Several keys that the file's kind does not have.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    UnknownKeys(Vec<TomlFileError>),
    /// The file is of a schema that this program does not read.
    #[error("{file}: schema = {found} is not known: this program reads schema = {supported}")]
    Schema {
        /// The file.
        file: String,
        /// What the file says.
        found: i64,
        /// What can be read.
        supported: u32,
    },
}

/// A list of two values and no more: a tuple takes what follows them without a word.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Pair<A, B>(pub(crate) A, pub(crate) B);

impl<'de, A: Deserialize<'de>, B: Deserialize<'de>> Deserialize<'de> for Pair<A, B> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OfTwo<A, B>(PhantomData<(A, B)>);

        impl<'de, A: Deserialize<'de>, B: Deserialize<'de>> Visitor<'de> for OfTwo<A, B> {
            type Value = Pair<A, B>;

            fn expecting(&self, text: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                text.write_str("a pair, as [\"1MiB\", 70]")
            }

            fn visit_seq<S: SeqAccess<'de>>(self, mut list: S) -> Result<Self::Value, S::Error> {
                let first = list.next_element()?.ok_or_else(|| Error::invalid_length(0, &self))?;
                let second = list.next_element()?.ok_or_else(|| Error::invalid_length(1, &self))?;
                match list.next_element::<IgnoredAny>()? {
                    None => Ok(Pair(first, second)),
                    Some(_) => Err(Error::invalid_length(3, &self)),
                }
            }
        }

        deserializer.deserialize_seq(OfTwo(PhantomData))
    }
}

/// Reads `text`, the content of the file called `file`, which a person wrote, of schema `supported`. Sizes in it have a unit.
///
/// # Errors
/// [`TomlFileError`] says what is wrong and where.
pub fn parse<T: DeserializeOwned>(file: &str, text: &str, supported: u32) -> Result<T, TomlFileError> {
    let parsed = parse_generated(file, text, supported)?;
    let root = DeTable::parse(text).map_err(|error| explain(file, text, &error))?;
    let mut sizes = Vec::new();
    sizes_without_unit(root.get_ref(), &mut sizes);
    match sizes.first() {
        None => Ok(parsed),
        Some((key, number, at)) => Err(TomlFileError::Invalid {
            file: file.to_owned(),
            line: Some(line_at(text, *at)),
            key: Some(key.clone()),
            message: format!("{number} has no unit: give a unit, as \"{number} B\" or \"64KiB\""),
        }),
    }
}

/// Checks that the values of the keys `times` in `text`, which a person wrote, have a unit; zero needs none. Of a list the first value of each
/// pair counts.
///
/// # Errors
/// [`TomlFileError::Invalid`] names the first that has none.
pub fn check_times(file: &str, text: &str, times: &[&str]) -> Result<(), TomlFileError> {
    let root = DeTable::parse(text).map_err(|error| explain(file, text, &error))?;
    let mut found = Vec::new();
    without_unit(root.get_ref(), &|key| times.contains(&key), &mut found);
    match found.first() {
        None => Ok(()),
        Some((key, number, at)) => Err(TomlFileError::Invalid {
            file: file.to_owned(),
            line: Some(line_at(text, *at)),
            key: Some(key.clone()),
            message: format!("{number} has no unit: give a unit, as \"{number}ms\" or \"{number}s\""),
        }),
    }
}

/// The line of what `message` complains about: in the element of the list `list` that it names in quotes, if it does, the first of its words
/// that is a key there, else the head of that table.
pub fn line_of_message(text: &str, list: &str, message: &str) -> Option<usize> {
    let root = DeTable::parse(text).ok()?;
    let named = |element: &&Spanned<DeValue<'_>>| {
        let DeValue::Table(table) = element.get_ref() else { return false };
        let name = table.get("name").map(Spanned::get_ref);
        matches!(name, Some(DeValue::String(name)) if message.contains(&format!("'{name}'")) || message.contains(&format!("/{name}'")))
    };
    let elements = match root.get_ref().get(list).map(Spanned::get_ref) {
        Some(DeValue::Array(elements)) => elements.iter().find(named),
        _ => None,
    };
    // What stands in quotes is a name, or a key that may be missing, so it counts last.
    let (plain, quoted): (Vec<_>, Vec<_>) =
        message.split('\'').enumerate().partition(|(index, _)| index % 2 == 0);
    let words: Vec<&str> = plain
        .into_iter()
        .chain(quoted)
        .flat_map(|(_, text)| text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')))
        .filter(|word| *word != "part")
        .collect();
    match elements.map(|element| (element.get_ref(), element.span().start)) {
        Some((DeValue::Table(table), at)) => Some(line_at(text, place_of_key(table, &words).unwrap_or(at))),
        _ => place_of_key(root.get_ref(), &words).map(|at| line_at(text, at)),
    }
}

/// Where the first of `words` stands that is a key of `table` or of a table in it.
fn place_of_key(table: &DeTable<'_>, words: &[&str]) -> Option<usize> {
    words.iter().find_map(|word| place_of_one(table, word))
}

fn place_of_one(table: &DeTable<'_>, word: &str) -> Option<usize> {
    let own = table.iter().find(|(key, _)| key.get_ref() == word).map(|(key, _)| key.span().start);
    let within = || {
        table.iter().find_map(|(_, value)| match value.get_ref() {
            DeValue::Table(table) => place_of_one(table, word),
            _ => None,
        })
    };
    own.or_else(within)
}

/// Finds numbers above zero whose keys `is_wanted`, each with its place in the text.
fn without_unit(
    table: &DeTable<'_>,
    is_wanted: &dyn Fn(&str) -> bool,
    found: &mut Vec<(String, String, usize)>,
) {
    for (key, value) in table {
        let key = key.get_ref();
        numbers_without_unit(key, (is_wanted(key), is_wanted), value, found);
    }
}

/// Finds numbers above zero that are sizes by their keys, each with its place in the text.
fn sizes_without_unit(table: &DeTable<'_>, found: &mut Vec<(String, String, usize)>) {
    const SIZES: [&str; 4] = ["size", "sizes", "region", "ahead"];
    let is_size = |key: &str| key.rsplit(['-', '_']).next().is_some_and(|word| SIZES.contains(&word));
    without_unit(table, &is_size, found);
}

fn numbers_without_unit(
    key: &str,
    (is_wanted, of_keys): (bool, &dyn Fn(&str) -> bool),
    value: &Spanned<DeValue<'_>>,
    found: &mut Vec<(String, String, usize)>,
) {
    match value.get_ref() {
        DeValue::Integer(number) if is_wanted && number.as_str() != "0" => {
            found.push((key.to_owned(), number.as_str().to_owned(), value.span().start));
        }
        // Of a pair of a value and a figure the first has the unit.
        DeValue::Array(values)
            if matches!(
                values.first().map(Spanned::get_ref),
                Some(DeValue::Integer(_) | DeValue::String(_))
            ) && values.len() == 2 =>
        {
            numbers_without_unit(key, (is_wanted, of_keys), &values[0], found);
        }
        DeValue::Array(values) => {
            values.iter().for_each(|value| numbers_without_unit(key, (is_wanted, of_keys), value, found));
        }
        DeValue::Table(table) => without_unit(table, of_keys, found),
        _ => {}
    }
}

/// Reads `text` as [`parse`] does, but sizes may be bare numbers of bytes, as programs write them.
///
/// # Errors
/// [`TomlFileError`] says what is wrong and where.
pub fn parse_generated<T: DeserializeOwned>(
    file: &str,
    text: &str,
    supported: u32,
) -> Result<T, TomlFileError> {
    #[derive(serde::Deserialize)]
    struct Head {
        schema: i64,
    }
    let head: Head = toml::from_str(text).map_err(|error| explain(file, text, &error))?;
    if head.schema != i64::from(supported) {
        return Err(TomlFileError::Schema { file: file.into(), found: head.schema, supported });
    }
    toml::from_str(text).map_err(|error| with_other_keys::<T>(file, text, explain(file, text, &error)))
}

/// Unknown keys that are told at once.
const UNKNOWN_KEYS_MAX: usize = 10;

/// `first` with the other unknown keys of `text`: the line of each is left out, and the rest is read again.
fn with_other_keys<T: DeserializeOwned>(file: &str, text: &str, first: TomlFileError) -> TomlFileError {
    let (mut found, mut left) = (vec![first], text.to_owned());
    while let Some(without) = found.last().and_then(|error| without_key(&left, error)) {
        left = without;
        let Err(error) = toml::from_str::<T>(&left) else { break };
        match explain(file, &left, &error) {
            next @ TomlFileError::UnknownKey { .. } if found.len() < UNKNOWN_KEYS_MAX => found.push(next),
            _ => break,
        }
    }
    if found.len() == 1 {
        return found.remove(0);
    }
    found.sort_by_key(|error| match error {
        TomlFileError::UnknownKey { line, .. } => *line,
        _ => None,
    });
    TomlFileError::UnknownKeys(found)
}

/// `text` with an empty line in place of that which sets an unknown key; none where the line does not set it.
fn without_key(text: &str, error: &TomlFileError) -> Option<String> {
    let TomlFileError::UnknownKey { line: Some(unknown), key, .. } = error else { return None };
    key_on_line(text, *unknown).filter(|on_line| on_line == key)?;
    let kept = |(index, line)| if index + 1 == *unknown { "" } else { line };
    Some(text.lines().enumerate().map(kept).collect::<Vec<_>>().join("\n"))
}

/// Returns the one of `candidates` that is spelt most like `word`, the first of several; `None` without candidates.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // The reverse makes the first of equals win: `max_by` keeps the last.
    let candidates: Vec<&str> = candidates.into_iter().collect();
    candidates.into_iter().rev().max_by(|a, b| likeness(word, a).total_cmp(&likeness(word, b)))
}

/// How alike a word and a name are at least, from 0 to 1, where the one may stand for the other.
pub(crate) const LIKE_ENOUGH: f64 = 0.75;

/// Returns what [`nearest`] does if it is like enough to be meant: a letter that is swapped, missing or another one.
pub fn meant<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    nearest(word, candidates).filter(|name| likeness(word, name) >= LIKE_ENOUGH)
}

/// How alike two words are spelt, from 0 to 1 (Jaro-Winkler: letters in common, their order, the same beginning). What is more than
/// twice as long as a name is none of its misspellings, and the time to compare goes with the square of it.
pub(crate) fn likeness(word: &str, name: &str) -> f64 {
    if word.len() > 2 * name.len() { 0.0 } else { strsim::jaro_winkler(word, name) }
}

/// Turns what `serde` and `toml` said into an error of ours.
fn explain(file: &str, text: &str, error: &toml::de::Error) -> TomlFileError {
    let file = file.to_owned();
    let message = error.message().trim().to_owned();
    let line = error.span().map(|span| line_at(text, span.start));
    if let Some((key, known)) = unknown_word(&message, "unknown field ") {
        let nearest = nearest(&key, known.iter().map(String::as_str)).map(str::to_owned);
        let line = line.filter(|&line| line_names(text, line, &key)).or_else(|| line_of_key(text, &key));
        return TomlFileError::UnknownKey { file, line, key, nearest, known };
    }
    if let Some((value, known)) = unknown_word(&message, "unknown variant ") {
        let nearest = nearest(&value, known.iter().map(String::as_str)).map(str::to_owned);
        return TomlFileError::UnknownValue { file, line, value, nearest, known };
    }
    if let Some(rest) = message.strip_prefix("missing field ") {
        return TomlFileError::MissingKey { file, line, key: rest.trim_matches('`').to_owned() };
    }
    let key = line.and_then(|line| key_on_line(text, line));
    TomlFileError::Invalid { file, line, key, message: in_words(message) }
}

/// What serde expects, by what a user writes and not by a type of Rust.
fn in_words(message: String) -> String {
    let words = |expected: &str| {
        Some(match expected {
            "u8" => "a whole number from 0 to 255",
            "u16" => "a whole number from 0 to 65535",
            "u32" | "u64" | "usize" => "a whole number from 0 on",
            "i8" | "i16" | "i32" | "i64" => "a whole number",
            "f32" | "f64" => "a number",
            "bool" | "a boolean" => "true or false",
            _ => return None,
        })
    };
    let parts = message.rsplit_once(", expected ");
    match parts.and_then(|(found, expected)| Some((found, words(expected)?))) {
        Some((found, words)) => format!("{found}, expected {words}"),
        None => message,
    }
}

/// Takes the word and the known ones out of serde's "unknown field `x`, expected one of `a`, `b`".
fn unknown_word(message: &str, prefix: &str) -> Option<(String, Vec<String>)> {
    let mut words = message.strip_prefix(prefix)?.split('`').skip(1).step_by(2).map(str::to_owned);
    Some((words.next()?, words.collect()))
}

/// The number, from 1, of the line that holds the byte `offset`.
fn line_at(text: &str, offset: usize) -> usize {
    text.bytes().take(offset).filter(|&byte| byte == b'\n').count() + 1
}

fn line_names(text: &str, line: usize, key: &str) -> bool {
    text.lines().nth(line - 1).is_some_and(|content| content.contains(key))
}

/// The first line that sets `key` or opens a table of that name, from 1.
fn line_of_key(text: &str, key: &str) -> Option<usize> {
    let opens = |content: &str| {
        let rest = content.trim_start().trim_start_matches(['[', '"', '\'']);
        rest.strip_prefix(key).is_some_and(|rest| rest.trim_start().starts_with(['=', ']', '.', '"', '\'']))
    };
    text.lines().position(opens).map(|index| index + 1)
}

/// The key that a line sets, when it sets one.
fn key_on_line(text: &str, line: usize) -> Option<String> {
    let (key, _) = text.lines().nth(line - 1)?.split_once('=')?;
    let key = key.trim().trim_matches(['"', '\'']);
    let plain = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
    (!key.is_empty() && key.chars().all(plain)).then(|| key.to_owned())
}

fn place(file: &str, line: Option<usize>) -> String {
    line.map_or_else(|| file.to_owned(), |line| format!("{file}:{line}"))
}

fn suggestion(nearest: Option<&str>, known: &[String]) -> String {
    match nearest {
        Some(nearest) => format!(": the nearest known is '{nearest}' (known: {})", known.join(", ")),
        None => ": nothing is known here".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use raidlab_units::ByteCount;
    use serde::Deserialize;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only the reading is tested")]
    struct Example {
        schema: u32,
        name: String,
        policy: Policy,
        member_size: Option<ByteCount>,
        #[serde(default)]
        line: Vec<Line>,
    }

    #[test]
    fn all_unknown_keys_are_named_at_once() {
        let text = "schema = 1\nnmae = 'a'\nname = 'a'\npolicy = 'write-back'\n[[line]]\nsise = '4KiB'\nread_pct = 1\n\
                    size = '4KiB'\n";
        let error = parse::<Example>("f.toml", text, 1).unwrap_err().to_string();
        let lines: Vec<&str> = error.lines().collect();
        assert_eq!(lines.len(), 2, "{error}");
        assert!(lines[0].starts_with("f.toml:2: unknown key 'nmae': the nearest known is 'name'"), "{error}");
        assert!(lines[1].starts_with("f.toml:6: unknown key 'sise': the nearest known is 'size'"), "{error}");
        // So are those whose value goes on in the next line.
        let long = text.replace("nmae = 'a'", "nmae = [\n1]");
        let error = parse::<Example>("f.toml", &long, 1).unwrap_err().to_string();
        assert!(
            error.contains("f.toml:2: unknown key 'nmae'") && error.contains("f.toml:7: unknown key 'sise'"),
            "{error}"
        );
    }

    #[derive(Debug, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    enum Policy {
        WriteBack,
        WriteThrough,
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only the reading is tested")]
    struct Line {
        size: ByteCount,
        read_pct: u8,
    }

    #[test]
    fn every_mistake_names_its_place() {
        let good = "schema = 1\nname = 'x'\npolicy = 'write-back'\n";
        let table = [
            ("", "ok"),
            ("[[line]]\nsize = '8KiB'\nread_pct = 67\n", "ok"),
            (
                "nmae = 'y'\n",
                "f.toml:4: unknown key 'nmae': the nearest known is 'name' \
                 (known: schema, name, policy, member_size, line)",
            ),
            (
                "[[line]]\nsize = '8KiB'\nread_pct = 67\n\n[[line]]\nsise = '8KiB'\n",
                "f.toml:9: unknown key 'sise': the nearest known is 'size' (known: size, read_pct)",
            ),
            (
                "[[lines]]\nsize = '8KiB'\n",
                "f.toml:4: unknown key 'lines': the nearest known is 'line' \
                 (known: schema, name, policy, member_size, line)",
            ),
            ("[[line]]\nsize = '8KiB'\n", "f.toml:4: the key 'read_pct' is missing here: add it"),
            (
                "member_size = '8 Parsec'\n",
                "f.toml:4: member_size: 'Parsec' in '8 Parsec' is not a unit here: write a size such as 64KiB, 8GB or 512B",
            ),
            ("member_size = 0\n", "ok"),
            (
                "[[line]]\nsize = 8192\nread_pct = 67\n",
                "f.toml:5: size: 8192 has no unit: give a unit, as \"8192 B\" or \"64KiB\"",
            ),
            (
                "[[line]]\nsize = 8192\nread_pct = 256\n",
                "f.toml:6: read_pct: invalid value: integer `256`, expected a whole number from 0 to 255",
            ),
        ];
        for (more, expected) in table {
            let said = parse::<Example>("f.toml", &format!("{good}{more}"), 1)
                .map_or_else(|error| error.to_string(), |_| "ok".into());
            assert_eq!(said, expected, "{more:?}");
        }
    }

    #[test]
    fn words_schema_and_syntax_are_checked() {
        let table = [
            (
                "schema = 1\nname = 'x'\npolicy = 'writeback'\n",
                "f.toml:3: unknown value 'writeback': the nearest known is 'write-back' (known: write-back, write-through)",
            ),
            ("schema = 2\nanything = 1\n", "f.toml: schema = 2 is not known: this program reads schema = 1"),
            ("name = 'x'\n", "f.toml:1: the key 'schema' is missing here: add it"),
            (
                "schema = 1\nname = \n",
                "f.toml:2: name: string values must be quoted, expected literal string",
            ),
        ];
        for (text, expected) in table {
            let said = parse::<Example>("f.toml", text, 1).unwrap_err().to_string();
            assert_eq!(said, expected, "{text:?}");
        }
    }

    /// A word of a megabyte in a job file took hours, as each of its letters was compared with each other one.
    #[test]
    fn no_time_goes_into_what_is_far_too_long() {
        let word = "runtime".repeat(1_000_000);
        assert_eq!(meant(&word, ["runtime", "ramp_time"]), None);
        assert_eq!(meant("runtimeruntim", ["runtime"]), Some("runtime"), "twice as long at most");
    }

    #[test]
    fn the_nearest_word_is_the_first_that_is_most_alike() {
        let words = ["restore", "database", "streaming"];
        let table =
            [("databse", "database"), ("streeming", "streaming"), ("restroe", "restore"), ("", "restore")];
        for (word, expected) in table {
            assert_eq!(nearest(word, words), Some(expected));
        }
        assert_eq!(nearest("anything", []), None);
    }
}
