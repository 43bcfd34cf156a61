//! A study as one table, its recommendations, and caveats.

use super::grid::{Grid, GridCell, Group};
use super::{TerminalOptions, compared, heading, printable, wrapped};
use crate::StudyReport;
use crate::figures::{Column, capacity, survives, three_digits};
use crate::matrix::{Matrix, Profile, side_name};
use raidlab_advisor::noise;
use raidlab_workload::RunResult;

/// Prints a study: its question, the table, the recommendations with their reasons, and warnings.
///
/// The table has a section per profile and a row per configuration. It is as wide as it must be when even one side
/// alone does not fit `options.width`; sides that do not fit beside each other follow one another.
pub fn study(report: &StudyReport, options: TerminalOptions) -> String {
    let matrix = Matrix::of(report.runs, report.iodepth);
    let mut text = heading(report.title, options) + "\n" + &wrapped(report.question, options.width, 0) + "\n";
    if let Some(noise) = noise(report.runs) {
        text += &(wrapped(&noise.sentence(), options.width, 0) + "\n");
    }
    if matrix.profiles.is_empty() {
        text += "No run was finished.\n";
    } else {
        text += &tables(&matrix, options);
    }
    text += &recommendations(report, options);
    text += &compared(report.compared, options);
    let warnings = report.warnings.iter().cloned().chain(matrix.warnings());
    text += &list("Warnings", &warnings.collect::<Vec<_>>(), options);
    text += &list("Notes", &report.notes, options);
    text
}

/// How the table is laid out.
#[derive(Clone, Copy)]
struct Arrangement {
    gap: u16,
    sides_together: bool,
}

/// The table in the roomiest arrangement that fits, and what its signs mean.
fn tables(matrix: &Matrix, options: TerminalOptions) -> String {
    let arrangements = [(2, true), (1, true), (2, false), (1, false)]
        .map(|(gap, sides_together)| Arrangement { gap, sides_together });
    let mut candidates = arrangements.iter().map(|arrangement| grids(matrix, *arrangement));
    let fits = |grids: &Vec<Grid>| grids.iter().all(|grid| grid.width() <= usize::from(options.width));
    let narrowest = grids(matrix, arrangements[3]);
    let chosen = candidates.find(fits).unwrap_or(narrowest);
    let mut legend = format!(
        "Figures at {}, reads and writes together, to three digits. * marks the best array of a column. \
         Survives: failed members in the worst case, and in the best where that differs.",
        matrix.load
    );
    if !matrix.common_prefix().is_empty() {
        legend += &format!(" All profiles' names start with {}.", matrix.common_prefix());
    }
    let printed: Vec<String> = chosen.iter().map(|grid| grid.render(options)).collect();
    wrapped(&legend, options.width, 0) + "\n" + &printed.join("\n")
}

fn grids(matrix: &Matrix, arrangement: Arrangement) -> Vec<Grid> {
    let sides: Vec<usize> = (0..matrix.sides.len()).collect();
    let per_grid = if arrangement.sides_together { sides.len() } else { 1 };
    sides.chunks(per_grid).map(|sides| grid(matrix, sides, arrangement.gap)).collect()
}

/// The columns on the left of all sides.
const LEFT_HEADER: [&str; 4] = ["Profile", "Array", "Writes", "Survives"];

/// The table of `sides`.
fn grid(matrix: &Matrix, sides: &[usize], gap: u16) -> Grid {
    let per_side = 1 + Column::ALL.len();
    let mut header: Vec<String> = LEFT_HEADER.map(str::to_owned).to_vec();
    let mut groups = Vec::new();
    for side in sides {
        let start = header.len();
        header.push("usable".to_owned());
        header.extend(Column::ALL.map(|column| column.heading().to_owned()));
        groups.push(Group {
            columns: start..start + per_side,
            name: printable(&matrix.sides[*side].full_name()),
        });
    }
    let section = |(index, profile)| section(matrix, index, profile, sides);
    let sections = matrix.profiles.iter().enumerate().map(section).collect();
    Grid { groups, header, first_number: LEFT_HEADER.len(), sections, gap }
}

/// The rows of one profile: the configurations that have a run on one of the sides at any depth.
fn section(matrix: &Matrix, profile: usize, names: &Profile, sides: &[usize]) -> Vec<Vec<GridCell>> {
    let has_run = |index: &usize| sides.iter().any(|side| !matrix.line(profile, *index, *side).is_empty());
    let row = |index: usize| {
        let (name, policy) = matrix.name(index);
        let policy = match policy {
            Some(_) if matrix.only_reads(profile) => "any",
            Some(policy) => policy.strip_prefix("write-").unwrap_or(policy),
            None => "-",
        };
        let survives = matrix.any_facts(index).map_or("-".to_owned(), |facts| survives(facts, "-"));
        let workload = &names.workload[matrix.common_prefix().len()..];
        let left = [printable(workload), printable(&name), printable(policy), survives];
        let mut row: Vec<GridCell> = left.into_iter().map(GridCell::plain).collect();
        for side in sides {
            let usable =
                matrix.facts(index, *side).map_or("-".to_owned(), |facts| capacity(facts.usable_bytes));
            row.push(GridCell::plain(usable));
            let run = matrix.shown(profile, index, *side);
            row.extend(Column::ALL.map(|column| figure(matrix, profile, *side, column, run)));
        }
        row
    };
    (0..matrix.configurations.len()).filter(has_run).map(row).collect()
}

/// One figure, marked when it is the best array's. The space that others have for the mark keeps digits in line.
fn figure(matrix: &Matrix, profile: usize, side: usize, column: Column, run: Option<&RunResult>) -> GridCell {
    let Some(run) = run else { return GridCell::plain("- ") };
    let best = matrix.is_best(profile, side, column, run);
    let mark = if best { "*" } else { " " };
    let text = if column.is_known(run) { three_digits(column.value(run)) } else { "-".to_owned() };
    GridCell { text: text + mark, bold: best }
}

/// The recommendations with their reasons, profile by profile.
fn recommendations(report: &StudyReport, options: TerminalOptions) -> String {
    if report.verdicts.is_empty() {
        return String::new();
    }
    let mut text = format!("\n{}\n", heading("Recommendations", options));
    for profile in report.verdicts.chunk_by(|a, b| a.workload == b.workload) {
        text += &format!("\n  {}\n", heading(&profile[0].workload, options));
        for verdict in profile {
            let head = format!("{}: {}", side_name(verdict.world), verdict.answer());
            text +=
                &format!("    {}\n{}", heading(&head, options), wrapped(&verdict.reason, options.width, 6));
        }
    }
    text
}

/// A titled list, or nothing when it has no items.
fn list(title: &str, items: &[String], options: TerminalOptions) -> String {
    if items.is_empty() {
        return String::new();
    }
    let items: String = items.iter().map(|item| wrapped(&format!("- {item}"), options.width, 2)).collect();
    format!("\n{}\n{items}", heading(title, options))
}
