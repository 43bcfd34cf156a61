//! Tables as CSV, for spreadsheets and statistics programs.
//!
//! RFC 4180, but lines end with a line feed. A value that does not apply is an empty field.

use crate::table::{Table, Value};

/// Prints `table` with a header line.
#[expect(clippy::missing_panics_doc, reason = "memory takes what is written, and fields are text")]
pub fn table(table: &Table) -> String {
    let memory = "memory takes what is written";
    let mut writer = ::csv::Writer::from_writer(Vec::new());
    writer.write_record(table.columns().iter().map(|(name, _)| name)).expect(memory);
    for row in table.rows() {
        writer.write_record(row.iter().map(field)).expect(memory);
    }
    String::from_utf8(writer.into_inner().expect(memory)).expect("fields are text")
}

fn field(value: &Value) -> String {
    match value {
        Value::None => String::new(),
        Value::Text(text) => text.clone(),
        Value::Count(count) => count.to_string(),
        Value::Real(number) => number.to_string(),
    }
}
