//! A publication's tables with the user's figures in them, as plain data for reports.
//!
//! Left out: which runs a figure comes from, which the caller knows from the publication's rows.

use serde::Serialize;

/// A table.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct ComparedTable {
    /// What it is called: `Table 4`.
    pub title: String,
    /// What is in its columns, with units.
    pub columns: Vec<String>,
    /// Its rows, those of one's own last.
    pub rows: Vec<ComparedRow>,
}

/// A row: an array or a claim.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct ComparedRow {
    /// In words.
    pub label: String,
    /// Whether it is one's own, not the publication's.
    pub is_own: bool,
    /// A figure for each column, where there is one.
    pub cells: Vec<Option<ComparedCell>>,
}

/// A figure.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct ComparedCell {
    /// In the unit of its column.
    pub value: f64,
    /// What is different about it; mostly nothing.
    pub remark: String,
}

impl ComparedCell {
    /// A figure as its column says.
    pub fn plain(value: f64) -> Self {
        Self { value, remark: String::new() }
    }
}
