//! A study as one table, its recommendations, and caveats.

use super::{TerminalOptions, feeding, wrapped};
use crate::StudyReport;
use crate::document::{Block, Table, render};
use crate::matrix::Matrix;
use crate::page::{cards, summary};
use raidlab_advisor::noise;
use raidlab_worlds::feedings;

/// Prints a study: its question, the table, the recommendations with their reasons, and warnings.
///
/// The table has a section per profile and a row per configuration; every line names its profile. It is as wide as it must be when even
/// one side alone does not fit `options.width`; sides that do not fit beside each other follow one another.
pub fn study(report: &StudyReport, options: TerminalOptions) -> String {
    let matrix = Matrix::of(report.runs, report.iodepth);
    let mut blocks = vec![Block::Heading(report.title.to_owned()), Block::paragraph(report.question)];
    blocks.extend(noise(report.runs).map(|noise| apart(&noise.sentence(), options)));
    if matrix.profiles.is_empty() {
        blocks.push(apart("No run was finished.", options));
    } else {
        blocks.push(apart(&legend_of(&matrix), options));
        blocks.extend(tables(&matrix, options).into_iter().map(Block::table));
    }
    blocks.extend(feedings(report.runs).iter().map(|found| Block::Verbatim(feeding(found, options))));
    if !report.verdicts.is_empty() {
        blocks.extend([Block::Heading("Recommendations".into()), cards(report.verdicts)]);
    }
    for table in report.compared {
        blocks.extend([Block::Heading(table.title.clone()), Block::table(crate::compared::table(table))]);
    }
    blocks.extend(Block::warnings(report.warnings.iter().cloned().chain(matrix.warnings()).collect()));
    blocks.extend(Block::notes(&report.notes));
    render(blocks, options)
}

/// A paragraph between free lines.
fn apart(text: &str, options: TerminalOptions) -> Block {
    Block::Verbatim(wrapped(text, options.width, 0))
}

/// How a table is laid out.
#[derive(Clone, Copy)]
struct Arrangement {
    gap: u16,
    sides_together: bool,
}

/// What the signs of the table mean.
fn legend_of(matrix: &Matrix) -> String {
    let prefix = match matrix.common_prefix() {
        "" => String::new(),
        prefix => format!(" All profiles' names start with {prefix}."),
    };
    format!(
        "Figures at {}, reads and writes together, to three digits. * marks the best array of a column. \
         Survives: failed members in the worst case, and in the best where that differs.{prefix}",
        matrix.shown_loads()
    )
}

/// The table in the roomiest arrangement that fits.
fn tables(matrix: &Matrix, options: TerminalOptions) -> Vec<Table> {
    let arrangements = [(2, true), (1, true), (2, false), (1, false)]
        .map(|(gap, sides_together)| Arrangement { gap, sides_together });
    let mut candidates = arrangements.iter().map(|arrangement| arranged(matrix, *arrangement));
    let fits = |tables: &Vec<Table>| tables.iter().all(|table| table.width() <= usize::from(options.width));
    candidates.find(fits).unwrap_or_else(|| arranged(matrix, arrangements[3]))
}

fn arranged(matrix: &Matrix, arrangement: Arrangement) -> Vec<Table> {
    let sides: Vec<usize> = (0..matrix.sides.len()).collect();
    let per_table = if arrangement.sides_together { sides.len() } else { 1 };
    let table = |sides: &[usize]| {
        let table = summary(matrix, sides).with_section_column("Profile", matrix.common_prefix().len());
        Table { gap: arrangement.gap, ..table }
    };
    sides.chunks(per_table).map(table).collect()
}
