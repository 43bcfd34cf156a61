//! Writing HTML reports.

use crate::failure::Failure;
use raidlab_report::StudyReport;
use std::path::Path;

/// Finds out before the runs whether their report can be written after them.
pub(crate) fn check_writable(path: &Path) -> Result<(), Failure> {
    let existed = path.exists();
    std::fs::OpenOptions::new()
        .append(true)
        .create(true)
        .open(path)
        .map_err(|error| cannot_write(path, error))?;
    if !existed {
        std::fs::remove_file(path).map_err(|error| cannot_write(path, error))?;
    }
    Ok(())
}

/// Writes `report` as HTML.
pub(crate) fn write_report(path: &Path, report: &StudyReport<'_>) -> Result<(), Failure> {
    write_page(path, &raidlab_report::html::study(report))
}

/// Writes a report that is a page already.
pub(crate) fn write_page(path: &Path, page: &str) -> Result<(), Failure> {
    write_text(path, page)?;
    eprintln!("report: {}", path.display());
    Ok(())
}

/// Writes what is text already.
pub(crate) fn write_text(path: &Path, text: &str) -> Result<(), Failure> {
    std::fs::write(path, text).map_err(|error| cannot_write(path, error))
}

fn cannot_write(path: &Path, error: std::io::Error) -> Failure {
    Failure::run(error)
        .context(format!("the report {} cannot be written", path.display()))
        .with_hint("name a file in a folder that exists, that you can write to, and that has room")
}
