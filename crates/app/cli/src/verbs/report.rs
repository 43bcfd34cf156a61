//! `raidlab report`: a page of stored runs, the same as Markdown, and its charts as pictures; and how all verbs write
//! pages.

use super::compare_paper::ComparedPaper;
use super::keep::{DbArgs, store_failure};
use crate::failure::{Exit, Failure};
use crate::output::{Output, print_named, remark};
use crate::whole_file::{cannot_write, write_whole};
use raidlab_advisor::verdicts;
use raidlab_report::{Document, Palette, Picture, ProgramReport, Quantity, StudyReport, page, png};
use raidlab_store::{RunSelector, StoredRun, StoredStudy, StudyRunId};
use raidlab_study::describe;
use raidlab_workload::RunResult;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Pixels of a PNG for each unit of a chart: sharp at the width of a slide.
const PIXELS: f32 = 3.0;

/// Arguments of `raidlab report`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Runs: study:2, a number 12, a range 3..7, tag:NAME
    #[arg(required = true, value_name = "RUNS")]
    runs: Vec<RunSelector>,
    #[command(flatten)]
    place: DbArgs,
    /// Write the page here; it opens without a network [default: report.html, unless --markdown or --charts is given]
    #[arg(long, short, value_name = "FILE.html")]
    output: Option<PathBuf>,
    /// Write the page as Markdown here, and its charts as SVG beside it
    #[arg(long, value_name = "FILE.md")]
    markdown: Option<PathBuf>,
    /// Write every chart as SVG and PNG into this folder
    #[arg(long, value_name = "FOLDER")]
    charts: Option<PathBuf>,
    /// Charts in light colours on a dark ground
    #[arg(long)]
    dark: bool,
    /// Figure across in the chart of any figure against any other: iodepth, iops, mb-per-s, mean, p50, p99, p99.9, max,
    /// read-share, request-size, members, usable, rate, cpu, member-ios
    #[arg(long, value_name = "AXIS", requires = "y")]
    x: Option<Quantity>,
    /// Figure up in that chart
    #[arg(long, value_name = "AXIS", requires = "x")]
    y: Option<Quantity>,
    /// Compare with a paper: its tables with the runs in them, where the study run does not name one; with :TEXT the rows whose system or
    /// id has this text in it
    #[arg(long, value_name = "PAPER[:TEXT]")]
    compare_paper: Option<String>,
    /// Title, instead of that of the study run
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,
}

/// Runs the verb.
pub(crate) fn run(args: &Args, output: &Output) -> Result<Exit, Failure> {
    let store = args.place.open()?;
    let runs = args.place.runs(&args.runs)?;
    let mut studies: Vec<StoredStudy> = Vec::new();
    for run in &runs {
        if !studies.iter().any(|study| study.id == run.study) {
            studies.push(store.study(StudyRunId(run.study)).map_err(store_failure)?);
        }
    }
    let document = document(args, &studies, runs)?;
    let palette = if args.dark { Palette::Dark } else { Palette::Light };
    let mut written = Vec::new();
    let is_default = args.markdown.is_none() && args.charts.is_none();
    let default = is_default.then(|| PathBuf::from("report.html"));
    if let Some(path) = args.output.clone().or(default) {
        write_whole(&path, document.to_html())?;
        written.push(path);
    }
    if let Some(path) = &args.markdown {
        let folder = path.with_extension("charts");
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        write_whole(path, document.to_markdown(&name))?;
        written.push(path.clone());
        written.extend(write_pictures(&folder, &document.pictures(), palette, false)?);
    }
    if let Some(folder) = &args.charts {
        written.extend(write_pictures(folder, &document.pictures(), palette, true)?);
    }
    if output.is_json() {
        print_named("written", written)?;
    } else {
        for path in &written {
            remark(format_args!("report: {}", path.display()));
        }
    }
    Ok(Exit::Done)
}

/// The page of `runs`: that of programs on files where they are of such, else that of a study.
fn document(args: &Args, studies: &[StoredStudy], stored: Vec<StoredRun>) -> Result<Document, Failure> {
    let all = |of: fn(&StoredStudy) -> &str| {
        let texts: Vec<&str> = studies.iter().map(of).filter(|text| !text.is_empty()).collect();
        texts.join(" / ")
    };
    let title = args.title.clone().unwrap_or_else(|| all(|study| &study.title));
    let question = all(|study| &study.question);
    let paragraphs = |of: fn(&StoredStudy) -> &[String]| -> Vec<String> {
        studies.iter().flat_map(of).filter(|text| !text.is_empty()).cloned().collect()
    };
    let (method, mut notes) = (paragraphs(|study| &study.method), paragraphs(|study| &study.notes));
    let started = |run: &StoredRun| {
        let at = if run.started_at.is_empty() { "at an unknown time" } else { &run.started_at };
        format!("{at} (study run {})", run.study)
    };
    notes.extend(stored.first().map(|run| format!("The first of these runs started at {}.", started(run))));
    // Runs of other programs say nothing of their machine.
    let known = stored.iter().rev().find(|run| run.environment.cpus > 0);
    let setup = known.or(stored.last()).map_or_else(Vec::new, |run| describe::setup(&run.environment));
    let mut warnings: Vec<String> = studies.iter().filter_map(unfinished).collect();
    let runs: Vec<RunResult> = stored.into_iter().map(|run| run.result).collect();
    if runs.iter().all(|run| run.streams.is_some() || !run.phases.is_empty()) {
        notes.extend(warnings);
        return Ok(page::programs(&ProgramReport {
            title: &title,
            method,
            setup,
            runs: &runs,
            notes,
            published: &[],
        }));
    }
    warnings.extend(RunResult::doubts_of(&runs));
    let has_arrays = runs.iter().any(|run| run.array.is_some());
    let verdicts = if has_arrays { verdicts(&runs) } else { Vec::new() };
    let named = studies.iter().find_map(|study| paper_of(&study.configuration));
    let paper = args.compare_paper.clone().or(named).map(|name| ComparedPaper::find(&name)).transpose()?;
    let tables = paper.map_or_else(Vec::new, |paper| paper.tables(&runs));
    Ok(page::study(&StudyReport {
        title: &title,
        question: &question,
        method,
        setup,
        runs: &runs,
        verdicts: &verdicts,
        warnings,
        notes,
        compared: &tables,
        iodepth: None,
        axes: args.x.zip(args.y),
    }))
}

/// The paper that a study is compared with.
fn paper_of(configuration: &str) -> Option<String> {
    let configuration: Value = serde_json::from_str(configuration).ok()?;
    // Until version 0.2: its old name.
    let name = configuration["compare_paper"].as_str().or(configuration["beside"].as_str());
    name.map(str::to_owned)
}

/// Says so where a study run did not come to its end.
fn unfinished(study: &StoredStudy) -> Option<String> {
    let StoredStudy { id, state, finished_runs, planned_runs, .. } = study;
    (state != "complete").then(|| {
        format!("Study run {id} did not come to its end, or is still under way: {finished_runs} of {planned_runs} runs are finished.")
    })
}

/// Writes each chart into `folder`, as SVG and, if asked for, as PNG. Returns the files.
fn write_pictures(
    folder: &Path,
    pictures: &[Picture],
    palette: Palette,
    with_png: bool,
) -> Result<Vec<PathBuf>, Failure> {
    std::fs::create_dir_all(folder).map_err(|error| cannot_write(folder, error))?;
    let mut written = Vec::new();
    for picture in pictures {
        let svg = picture.svg(palette);
        let path = folder.join(format!("{}.svg", picture.name));
        write_whole(&path, &svg)?;
        written.push(path);
        if with_png {
            let path = folder.join(format!("{}.png", picture.name));
            let pixels = png::of_svg(&svg, PIXELS).map_err(Failure::run)?;
            write_whole(&path, pixels)?;
            written.push(path);
        }
    }
    Ok(written)
}
/// Writes `report` as HTML.
pub(crate) fn write_report(path: &Path, report: &StudyReport<'_>) -> Result<(), Failure> {
    write_page(path, &page::study(report))
}

/// Writes `document` as HTML.
pub(crate) fn write_page(path: &Path, document: &Document) -> Result<(), Failure> {
    write_whole(path, document.to_html())?;
    remark(format_args!("report: {}", path.display()));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::paper_of;

    #[test]
    fn the_paper_of_a_study_is_found_under_its_old_name_too() {
        for (configuration, found) in [
            (r#"{"compare_paper":"md1200-2011"}"#, Some("md1200-2011")),
            (r#"{"beside":"md1200-2011"}"#, Some("md1200-2011")),
            (r#"{"title":"none"}"#, None),
        ] {
            assert_eq!(paper_of(configuration).as_deref(), found, "{configuration}");
        }
    }
}
