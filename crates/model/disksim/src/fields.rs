//! One block's keys: each is used, known to be irrelevant, or reported.

use crate::error::ImportError;
use crate::syntax::{Block, Param, Value};
use raidlab_units::NanoSpan;
use std::ops::RangeInclusive;

/// A key that is known and not used, and why.
pub(crate) type Unused = (&'static str, &'static str);

/// A block that is being read.
pub(crate) struct Fields<'a> {
    pub(crate) file: &'a str,
    pub(crate) block: &'a Block,
    used: Vec<&'static str>,
}

impl<'a> Fields<'a> {
    pub(crate) fn new(file: &'a str, block: &'a Block) -> Self {
        Self { file, block, used: Vec::new() }
    }

    /// The last setting of `key`, as in the original.
    pub(crate) fn find(&mut self, key: &'static str) -> Option<&'a Param> {
        self.used.push(key);
        self.block.params.iter().rev().find(|param| param.key == key)
    }

    fn need(&mut self, key: &'static str) -> Result<&'a Param, ImportError> {
        let (file, block) = (self.file, self.block);
        self.find(key).ok_or_else(|| ImportError::NoKey {
            file: file.into(),
            block: block.kind.clone(),
            line: block.line,
            key,
        })
    }

    pub(crate) fn bad(&self, param: &Param, wanted: &str) -> ImportError {
        ImportError::BadValue {
            file: self.file.into(),
            line: param.line,
            key: param.key.clone(),
            wanted: wanted.into(),
        }
    }

    pub(crate) fn unsupported(&self, param: &Param, what: String) -> ImportError {
        ImportError::Unsupported { file: self.file.into(), line: param.line, what }
    }

    /// The block is of a kind that is not known.
    pub(crate) fn unsupported_block(&self, what: String) -> ImportError {
        ImportError::Unsupported { file: self.file.into(), line: self.block.line, what }
    }

    fn number_of(&self, param: &Param) -> Result<f64, ImportError> {
        match param.value {
            Value::Number(number) => Ok(number),
            _ => Err(self.bad(param, "a number")),
        }
    }

    pub(crate) fn number(&mut self, key: &'static str) -> Result<f64, ImportError> {
        let param = self.need(key)?;
        self.number_of(param)
    }

    pub(crate) fn number_or(&mut self, key: &'static str, or: f64) -> Result<f64, ImportError> {
        self.find(key).map_or(Ok(or), |param| self.number_of(param))
    }

    /// A number in `range`, or `or` where there is none.
    pub(crate) fn number_in(
        &mut self,
        key: &'static str,
        or: f64,
        range: RangeInclusive<f64>,
    ) -> Result<f64, ImportError> {
        let Some(param) = self.find(key) else { return Ok(or) };
        let number = self.number_of(param)?;
        if range.contains(&number) {
            return Ok(number);
        }
        Err(self.bad(param, &format!("a number from {} to {}", range.start(), range.end())))
    }

    /// A whole number from `least` to `most`.
    pub(crate) fn count(&mut self, key: &'static str, least: u32, most: u32) -> Result<u32, ImportError> {
        let param = self.need(key)?;
        let number = self.number_of(param)?;
        let is_sound = number.fract() == 0.0 && number >= f64::from(least) && number <= f64::from(most);
        if is_sound {
            Ok(number as u32)
        } else {
            Err(self.bad(param, &format!("a whole number from {least} to {most}")))
        }
    }

    pub(crate) fn count_or(
        &mut self,
        key: &'static str,
        or: u32,
        least: u32,
        most: u32,
    ) -> Result<u32, ImportError> {
        if self.find(key).is_none() { Ok(or) } else { self.count(key, least, most) }
    }

    pub(crate) fn flag(&mut self, key: &'static str) -> Result<bool, ImportError> {
        Ok(self.count_or(key, 0, 0, 2)? != 0)
    }

    /// A time in milliseconds; none is zero.
    pub(crate) fn span(&mut self, key: &'static str) -> Result<NanoSpan, ImportError> {
        let Some(param) = self.find(key) else { return Ok(NanoSpan(0)) };
        let ms = self.number_of(param)?;
        if (0.0..=10_000.0).contains(&ms) {
            Ok(NanoSpan::from_millis_f64(ms))
        } else {
            Err(self.bad(param, "a time from 0 to 10000 ms"))
        }
    }

    pub(crate) fn word(&mut self, key: &'static str) -> Result<(&'a str, &'a Param), ImportError> {
        let param = self.need(key)?;
        match &param.value {
            Value::Word(word) => Ok((word, param)),
            _ => Err(self.bad(param, "a word")),
        }
    }

    pub(crate) fn list(&mut self, key: &'static str) -> Result<(&'a [Value], &'a Param), ImportError> {
        let param = self.need(key)?;
        match &param.value {
            Value::List(values) => Ok((values, param)),
            _ => Err(self.bad(param, "a list")),
        }
    }

    /// A list of numbers; none is empty.
    pub(crate) fn numbers(&mut self, key: &'static str) -> Result<Vec<f64>, ImportError> {
        if self.find(key).is_none() {
            return Ok(Vec::new());
        }
        let (values, param) = self.list(key)?;
        let number = |value: &Value| match value {
            Value::Number(number) => Ok(*number),
            _ => Err(self.bad(param, "a list of numbers")),
        };
        values.iter().map(number).collect()
    }

    pub(crate) fn block(&mut self, key: &'static str) -> Result<(&'a Block, &'a Param), ImportError> {
        let param = self.need(key)?;
        match &param.value {
            Value::Block(block) => Ok((block, param)),
            _ => Err(self.bad(param, "a block")),
        }
    }

    /// Complaints about keys that were not asked for and are not in `unused` either.
    pub(crate) fn finish(self, unused: &[Unused], warnings: &mut Vec<String>) {
        let known = || self.used.iter().chain(unused.iter().map(|(key, _)| key)).copied();
        for param in &self.block.params {
            if known().any(|key| key == param.key) {
                continue;
            }
            let distance = |key: &&str| strsim::damerau_levenshtein(key, &param.key);
            // So long a word is none of them, and takes a table of its letters times theirs.
            let like = known().filter(|key| param.key.len() <= key.len() + 4);
            let hint = like.min_by_key(distance).filter(|key| distance(key) <= 4);
            let hint = hint.map_or(String::new(), |key| format!("; '{key}' is known"));
            warnings.push(format!(
                "{}, line {}: '{}' in a {} block is unknown and has no effect{hint}",
                self.file, param.line, param.key, self.block.kind
            ));
        }
    }
}
