//! What `--json` holds, verb by verb: JSON Schema, and a page of Markdown made from it.

use super::reference::cell;
use super::{
    array, calibrate, catalog, compare, doctor, export, fit, import, loads, measure, model, observe, plan,
    reproduce, soak, studio, tag, torture, why, workloads,
};
use crate::failure::Failure;
use crate::schema::{Form, document, generator};
use raidlab::{CatalogEntry, Reproduced, RiskReport, WorkloadFacts};
use raidlab_history::History;
use raidlab_papers::TrainingReproduction;
use raidlab_planning::TiersOutcome;
use raidlab_report::json::{ProgramsAnswer, StudyAnswer};
use raidlab_runtime::{ArrayStatus, ExamineReport, LatenessFacts};
use raidlab_store::{RunLine, StoredRun, StoredStudy};
use raidlab_workload::RunResult;
use schemars::Schema;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;

/// What each verb answers under `--json`. Those that are not here answer nothing but errors.
const ANSWERS: &[(&str, &[Form])] = &[
    ("array add-spare", &[MESSAGE]),
    ("array assemble", &[Form::part::<ExamineReport>("examined")]),
    ("array check", &[array::operate::SCANNED, MESSAGE]),
    ("array create", &[array::create::FORM]),
    ("array events", &[array::events::FORM]),
    ("array fail", &[MESSAGE]),
    ("array rebuild", &[array::operate::SCANNED, MESSAGE]),
    ("array recover", &[array::operate::RECOVERED]),
    ("array reload", &[MESSAGE]),
    ("array replace", &[MESSAGE]),
    ("array serve", &[array::operator::FORM]),
    ("array status", &[Form::part::<Vec<ArrayStatus>>("arrays")]),
    ("array stop", &[MESSAGE]),
    ("bonnie", &[Form::whole::<ProgramsAnswer<'_>>()]),
    ("calibrate", &[calibrate::FORM]),
    ("catalog", &[Form::part::<Vec<CatalogEntry<'_>>>("entries"), Form::whole::<CatalogEntry<'_>>()]),
    ("catalog check", &[catalog::check::FORM]),
    ("compare", &[compare::FORM, compare::back::FORM]),
    ("doctor", &[doctor::FORM]),
    ("emulate", &[array::operator::FORM, Form::part::<LatenessFacts>("lateness")]),
    ("export csv", &[WRITTEN]),
    ("export fio", &[WRITTEN]),
    ("export fio-job", &[export::FIO_JOB]),
    ("export iolog", &[WRITTEN]),
    ("export iometer", &[WRITTEN]),
    ("export json", &[WRITTEN]),
    ("export parquet", &[WRITTEN]),
    ("fit", &[fit::FORM, fit::runs::FORM]),
    ("import fio", &[import::JOBS, import::check::FORM]),
    ("import history", &[Form::part::<History>("history")]),
    ("import icf", &[import::JOBS]),
    ("import runs", &[import::runs::FORM]),
    ("import trace", &[import::trace::FORM]),
    ("measure", &[RUN, RUNS, loads::FORM, measure::matrix::FORM]),
    ("model fit", &[model::fit::FORM]),
    ("model from-sheet", &[model::from_sheet::FORM]),
    ("model matrix", &[model::matrix::FORM]),
    ("model validate", &[model::FORM]),
    ("net", &[RUNS]),
    ("observe", &[observe::FORM]),
    ("plan", &[plan::FORM, Form::whole::<TiersOutcome>()]),
    ("report", &[WRITTEN]),
    ("reproduce", &[Form::whole::<Reproduced<'_>>(), Form::whole::<TrainingReproduction>(), reproduce::FORM]),
    ("risk", &[Form::whole::<RiskReport>()]),
    ("runs", &[Form::part::<Vec<RunLine>>("runs"), Form::part::<Vec<StoredStudy>>("studies")]),
    ("show", &[Form::whole::<StoredRun>(), Form::part::<Vec<StoredRun>>("runs")]),
    ("simulate", &[RUN, RUNS, loads::FORM]),
    ("soak", &[soak::FORM]),
    ("streams", &[Form::whole::<ProgramsAnswer<'_>>()]),
    ("studio", &[studio::FORM]),
    ("study", &[Form::whole::<StudyAnswer<'_>>()]),
    ("tag", &[tag::FORM]),
    ("torture", &[torture::FORM]),
    ("why", &[why::FORM]),
    ("workloads", &[Form::part::<Vec<WorkloadFacts<'_>>>("workloads"), workloads::SHOWN]),
];

/// One run is the answer, or a list of them is.
const RUN: Form = Form::whole::<RunResult>();
const RUNS: Form = Form::part::<Vec<RunResult>>("runs");

const WRITTEN: Form = Form::part::<Vec<PathBuf>>("written");
const MESSAGE: Form = Form::part::<String>("message");

/// The schema of what `verb` answers.
pub(super) fn schema_of(verb: &str) -> Result<Schema, Failure> {
    let found = ANSWERS.iter().find(|(name, _)| *name == verb);
    found.map(|(name, forms)| document(name, forms)).ok_or_else(|| {
        let nearest = raidlab::nearest(verb, ANSWERS.iter().map(|(name, _)| *name));
        let meant = nearest.map(|name| format!("; '{name}' is near")).unwrap_or_default();
        let failure = Failure::input(anyhow::anyhow!("no verb '{verb}' answers in JSON{meant}"));
        failure.with_hint("'raidlab reference answers' lists them")
    })
}

/// The schemas of all verbs, by their names.
pub(super) fn all() -> BTreeMap<&'static str, Schema> {
    ANSWERS.iter().map(|(name, forms)| (*name, document(name, forms))).collect()
}

/// All of them as one page: each verb with the types of its answers, then each type with its fields.
pub(super) fn page() -> String {
    let mut generator = generator();
    let mut page = String::from(
        "# Answers in JSON\n\nWhat `--json` prints, verb by verb; `raidlab reference answers` made this page from the types that are printed. \
         `raidlab reference schema plan` prints the same of one verb as JSON Schema (draft 2020-12), for programs that check or generate \
         code.\n\n- Every answer is an object. Its `schema` is the version of its form.\n- Fields are added under the same version. One that goes, or \
         means something else, raises it.\n- Names carry units: `_ns`, `_us` and `_ms`, `_bytes`, `_pct`, `_per_s`.\n- A field that may be left \
         out is marked *optional*. What is not known is `null`.\n- An error is an object on standard error: `failure` is a list of `kind` and \
         `text`.\n\n## Verbs\n\n| verb | answer |\n|---|---|\n",
    );
    for (verb, forms) in ANSWERS {
        let told: Vec<_> = forms.iter().map(|form| form.in_words(&mut generator, type_of)).collect();
        let _ = writeln!(page, "| `{verb}` | {} |", told.join(", or "));
    }
    page.push_str("\n## Types\n");
    for (name, schema) in generator.take_definitions(true) {
        push_type(&mut page, &name, &schema);
    }
    page
}

fn push_type(page: &mut String, name: &str, schema: &Value) {
    let _ = write!(page, "\n### {name}\n\n");
    if let Some(text) = description(schema) {
        let _ = write!(page, "{text}\n\n");
    }
    let fields = fields_of(schema);
    if fields.is_empty() {
        let _ = writeln!(page, "{}.", type_of(schema));
        return;
    }
    page.push_str("| field | type | |\n|---|---|---|\n");
    for (field, schema, is_required) in fields {
        let optional = if is_required { "" } else { "*optional* " };
        let text = description(schema).unwrap_or_default();
        let _ =
            writeln!(page, "| `{field}` | {} | {} |", type_of(schema), cell(&format!("{optional}{text}")));
    }
}

/// Fields, their schemas, and whether they are always there.
fn fields_of(schema: &Value) -> Vec<(&str, &Value, bool)> {
    let required = schema["required"].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut fields = Vec::new();
    for (name, schema) in schema["properties"].as_object().into_iter().flatten() {
        fields.push((name.as_str(), schema, required.iter().any(|it| it == name)));
    }
    fields
}

fn description(schema: &Value) -> Option<&str> {
    schema["description"].as_str()
}

/// A type as the page names it.
fn type_of(schema: &Value) -> String {
    if let Some(name) = schema["$ref"].as_str().and_then(|path| path.rsplit('/').next()) {
        return format!("[{name}](#{})", name.to_lowercase());
    }
    if let Some(value) = schema.get("const") {
        return format!("`{value}`");
    }
    let list = |of: &Value, each: fn(&Value) -> String| {
        of.as_array().map(|of| of.iter().map(each).collect::<Vec<_>>())
    };
    let choices = ["anyOf", "oneOf", "allOf"].into_iter().find_map(|key| list(&schema[key], type_of));
    if let Some(choices) = choices.or_else(|| list(&schema["enum"], |value| format!("`{value}`"))) {
        return choices.join(" or ");
    }
    if let Some(types) = schema["type"].as_array() {
        let of = |name: &Value| type_of(&with_type(schema, name));
        return types.iter().map(of).collect::<Vec<_>>().join(" or ");
    }
    match schema["type"].as_str() {
        Some("array") if schema.get("prefixItems").is_some() => {
            let parts = list(&schema["prefixItems"], type_of).unwrap_or_default();
            format!("[{}]", parts.join(", "))
        }
        Some("array") => format!("list of {}", type_of(&schema["items"])),
        Some("object") => {
            if let Some(of @ Value::Object(_)) = schema.get("additionalProperties") {
                return format!("{} by name", type_of(of));
            }
            let field = |(name, schema, _): (&str, &Value, bool)| format!("`{name}`: {}", type_of(schema));
            format!("{{{}}}", fields_of(schema).into_iter().map(field).collect::<Vec<_>>().join(", "))
        }
        Some(name) => name.to_owned(),
        None => "any".to_owned(),
    }
}

/// The same schema with one of its types.
fn with_type(schema: &Value, name: &Value) -> Value {
    let mut one = schema.clone();
    one["type"] = name.clone();
    one
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    /// What only writes files, or prints text that is made for another program.
    const WITHOUT: [&str; 6] = [
        "net serve",
        "reference answers",
        "reference completions",
        "reference man",
        "reference markdown",
        "reference schema",
    ];

    fn leaves(command: &clap::Command, name: &str, out: &mut Vec<String>) {
        let verbs: Vec<_> = command.get_subcommands().filter(|verb| verb.get_name() != "help").collect();
        if verbs.is_empty() || !command.is_subcommand_required_set() {
            out.push(name.to_owned());
        }
        for verb in verbs {
            leaves(verb, format!("{name} {}", verb.get_name()).trim_start(), out);
        }
    }

    #[test]
    fn each_verb_has_a_schema() {
        let mut names = Vec::new();
        leaves(&crate::cli::command(), "", &mut names);
        let is_told = |name: &&str| ANSWERS.iter().any(|(verb, _)| verb == name) || WITHOUT.contains(name);
        let untold: Vec<_> =
            names.iter().map(String::as_str).filter(|name| !name.is_empty() && !is_told(name)).collect();
        assert!(untold.is_empty(), "without a schema: {untold:?}");
        let gone: Vec<_> = ANSWERS
            .iter()
            .map(|(verb, _)| *verb)
            .filter(|verb| !names.iter().any(|name| name == verb))
            .collect();
        assert!(gone.is_empty(), "no verbs: {gone:?}");
    }

    #[test]
    fn the_page_of_answers_is_current() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/schema.md");
        let current = std::fs::read_to_string(path).expect("the page");
        assert!(page() == current, "renew it: make schema");
    }

    #[test]
    fn an_unknown_verb_is_refused_with_the_nearest() {
        let lines = schema_of("plam").expect_err("there is no such verb").lines();
        assert!(lines[0].1.contains("'plan'"), "{lines:?}");
    }
}
