//! A fit as a file: the new and old values, their quality on every row, and their origin.
//!
//! `raidlab fit` writes it, `--fitted FILE` of other verbs reads it: the values replace those of the built-in
//! catalogue, with their source. A figure that the catalogue no longer has is an error there.

use super::{Fit, FittedKey, FittedParameter, Residual};
use raidlab_hardware::CatalogChange;
use raidlab_workload::toml_file::{self, TomlFileError};
use raidlab_worlds::{TextFileError, read_text};
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;
use std::path::Path;

/// Version of the form of the file.
const SCHEMA: u32 = 1;

/// A stored fit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct StoredFit {
    /// Version of the form of the file.
    pub schema: u32,
    /// The paper.
    pub paper: String,
    /// Where the values come from, as the catalogue has it.
    pub source: String,
    /// Version of the program that fitted.
    pub version: String,
    /// Rounds that ended.
    pub rounds: u32,
    /// Whether the search was stopped before it was done.
    pub stopped: bool,
    /// What was minimised, at the start.
    pub objective_before: f64,
    /// The same at the end.
    pub objective_after: f64,
    /// Whether the residuals are those of the paper's own settings.
    pub checked: bool,
    /// Every searched figure, whether it was changed or not.
    pub figures: Vec<FittedKey>,
    /// The rows that depend on them.
    pub residuals: Vec<StoredResidual>,
}

/// A row and how far the prediction is off.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct StoredResidual {
    /// The row.
    pub id: String,
    /// Whether the search looked at it.
    pub fitted: bool,
    /// As published.
    pub published: f64,
    /// As predicted before.
    pub before: f64,
    /// As predicted after.
    pub after: f64,
    /// The latter's error.
    pub error_pct: f64,
}

/// Why a stored fit can't be used.
#[derive(Debug, thiserror::Error)]
pub enum StoredFitError {
    /// The file can't be read.
    #[error(transparent)]
    Read(#[from] TextFileError),
    /// It is not a fit.
    #[error(transparent)]
    Toml(#[from] TomlFileError),
}

impl StoredFit {
    /// Reads the fit at `path`.
    ///
    /// # Errors
    /// [`StoredFitError`] names the file, and the line where there is one.
    pub fn read(path: &Path) -> Result<Self, StoredFitError> {
        let text = read_text(path)?;
        Ok(toml_file::parse(&path.display().to_string(), &text, SCHEMA)?)
    }

    /// The changes of the catalogue that it asks for.
    pub fn changes(&self) -> Vec<CatalogChange> {
        self.figures.iter().filter_map(|figure| figure.change(&self.source)).collect()
    }
}

impl Fit {
    /// The fit as the contents of a file that [`StoredFit::read`] reads.
    pub fn as_file(&self) -> String {
        let mut text = format!(
            "# What 'raidlab fit {}' found, with every row that depends on it. 'raidlab reproduce --fitted FILE' uses it.\n\
             schema = {SCHEMA}\npaper = {}\nsource = {}\nversion = {}\nrounds = {}\nstopped = {}\n\
             objective-before = {:?}\nobjective-after = {:?}\nchecked = {}\n\nfigures = [\n",
            self.paper,
            quoted(&self.paper),
            quoted(&self.source()),
            quoted(env!("CARGO_PKG_VERSION")),
            self.rounds,
            self.stopped,
            digits(self.objective_before),
            digits(self.objective_after),
            self.checked,
        );
        text.extend(self.parameters.iter().map(figure_lines));
        text += "]\n\nresiduals = [\n";
        text.extend(self.residuals.iter().map(residual_line));
        text + "]\n"
    }
}

fn figure_lines(parameter: &FittedParameter) -> String {
    let FittedParameter { low, high, reason, .. } = parameter;
    let mut text = format!("  # {low} to {high}: {}\n", reason.replace('\n', " "));
    for key in &parameter.keys {
        let [entry, name, was, value] = [&key.entry, &key.key, &key.was, &key.value].map(|part| quoted(part));
        writeln!(text, "  {{ entry = {entry}, key = {name}, was = {was}, value = {value} }},")
            .expect("text takes it");
    }
    text
}

fn residual_line(row: &Residual) -> String {
    format!(
        "  {{ id = {}, fitted = {}, published = {:?}, before = {:?}, after = {:?}, error-pct = {:?} }},\n",
        quoted(&row.id),
        row.fitted,
        row.published,
        digits(row.before),
        digits(row.after),
        (row.error_pct * 10.0).round() / 10.0
    )
}

/// `value` with five digits that count.
fn digits(value: f64) -> f64 {
    format!("{value:.4e}").parse().unwrap_or(value)
}

fn quoted(text: &str) -> String {
    toml::Value::from(text).to_string()
}
