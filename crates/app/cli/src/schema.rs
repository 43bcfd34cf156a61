//! What answers look like: the JSON Schema of each verb's `--json`, made from the types that are printed.
//!
//! An answer is an object whose names have units. Its `schema` is the version of the form: fields are added under the same one; a field
//! that goes, or means something else, raises it.

use schemars::generate::{SchemaGenerator, SchemaSettings};
use schemars::{JsonSchema, Schema, json_schema};
use serde_json::Value;

/// The version of all forms.
pub(crate) const VERSION: u32 = 1;

/// The form of an answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Form {
    /// The name that the answer stands under; it is the whole otherwise.
    name: Option<&'static str>,
    of: fn(&mut SchemaGenerator) -> Schema,
}

impl Form {
    /// That of `print_answer`.
    pub(crate) const fn whole<T: JsonSchema>() -> Self {
        Self { name: None, of: SchemaGenerator::subschema_for::<T> }
    }

    /// That of `print_named`.
    pub(crate) const fn part<T: JsonSchema>(name: &'static str) -> Self {
        Self { name: Some(name), of: SchemaGenerator::subschema_for::<T> }
    }

    /// Names the type of the answer, in words of `type_of`.
    pub(crate) fn in_words(self, generator: &mut SchemaGenerator, type_of: fn(&Value) -> String) -> String {
        let of = type_of((self.of)(generator).as_value());
        self.name.map_or_else(|| of.clone(), |name| format!("`{name}`: {of}"))
    }

    fn schema(self, generator: &mut SchemaGenerator) -> Schema {
        let version = json_schema!({ "const": VERSION, "description": "The version of this form" });
        let of = (self.of)(generator);
        match self.name {
            Some(name) => json_schema!({
                "type": "object",
                "properties": { name: of, "schema": version },
                "required": [name, "schema"],
            }),
            None => json_schema!({
                "allOf": [of],
                "properties": { "schema": version },
                "required": ["schema"],
            }),
        }
    }
}

/// What gathers types that several answers have.
pub(crate) fn generator() -> SchemaGenerator {
    // Answers are written, never read: a field that has a value where none is given is there all the same.
    SchemaSettings::draft2020_12().for_serialize().into_generator()
}

/// The JSON Schema of what `verb` answers, one of `forms`.
pub(crate) fn document(verb: &str, forms: &[Form]) -> Schema {
    let mut generator = generator();
    let forms: Vec<_> = forms.iter().map(|form| form.schema(&mut generator)).collect();
    let mut whole = match <[Schema; 1]>::try_from(forms) {
        Ok([only]) => only,
        Err(forms) => json_schema!({ "anyOf": forms }),
    };
    whole.insert("$schema".into(), "https://json-schema.org/draft/2020-12/schema".into());
    whole.insert("title".into(), format!("raidlab {verb} --json").into());
    whole.insert("$defs".into(), generator.take_definitions(true).into());
    whole
}
