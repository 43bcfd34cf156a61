//! Tables as CSV, for spreadsheets and statistics programs.
//!
//! RFC 4180: fields with a comma, a quotation mark or a line break are quoted, quotation marks within are doubled.
//! Lines end with a line feed. A value that does not apply is an empty field.

use crate::table::{Table, Value};

/// Prints `table` with a header line.
pub fn table(table: &Table) -> String {
    let mut text = line(table.columns().iter().map(|(name, _)| name.clone()));
    for row in table.rows() {
        text += &line(row.iter().map(field));
    }
    text
}

fn field(value: &Value) -> String {
    match value {
        Value::None => String::new(),
        Value::Text(text) => text.clone(),
        Value::Count(count) => count.to_string(),
        Value::Real(number) => number.to_string(),
    }
}

fn line(fields: impl Iterator<Item = String>) -> String {
    fields.map(|field| quoted(&field)).collect::<Vec<_>>().join(",") + "\n"
}

fn quoted(field: &str) -> String {
    if field.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_owned()
    }
}
