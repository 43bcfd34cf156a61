//! A published latency matrix compared with a model, as a page like a study's.
//!
//! ```text
//! cover: cells, errors ─ for the median and the 95th percentile:
//!   heat maps: published │ predicted │ error      curves over the rate of reads, at some rates of writing
//! ```
//! Published and predicted share one logarithmic scale; the error map has its strongest colour from a factor of two on.

use crate::chart::{Axis, Cell, Chart, Colour, Line, Mark, Marker, Point, Scale};
use crate::document::{Block, Document, Fact};
use crate::figures::three_digits;
use crate::terminal::{MatrixCell, MatrixErrors, matrix_cells};

/// Rates of writing that have a curve.
const CURVES: usize = 4;
/// Cells that make a curve at least.
const CURVE_POINTS: usize = 3;
/// An error that fills a cell of the map of errors, in percent.
const DARK_PCT: f64 = 100.0;
/// Size of a panel.
const MAP: (f64, f64) = (480.0, 360.0);

type Pick = fn(&MatrixCell) -> (Option<f64>, f64);

/// What a map shows of a cell.
#[derive(Clone, Copy)]
enum Shown {
    Published,
    Predicted,
    Error,
}

/// The page of the cells of `drive`; `source` is where they were published.
pub fn latency_matrix(
    drive: &str,
    source: &str,
    cells: &[MatrixCell],
    errors: &[MatrixErrors; 2],
) -> Document {
    let percentiles: [(&str, Pick); 2] =
        [("Median", |cell| cell.p50_us), ("95th percentile", |cell| cell.p95_us)];
    let figure = |(name, pick): (&str, Pick)| {
        let maps = [Shown::Published, Shown::Predicted, Shown::Error]
            .into_iter()
            .filter_map(|shown| map(name, cells, pick, shown));
        Block::figure(
            maps.chain(curves(name, cells, pick)).collect(),
            format!("{name} of reads beside a writer."),
            "A column for each rate of writing, a row for each rate of reads. Published and predicted on one logarithmic scale, the stronger the slower; errors are strongest from a factor of two on. Curves: dotted with markers published, solid predicted.",
        )
    };
    let mut results: Vec<Block> = percentiles.into_iter().filter_map(figure).collect();
    results.push(Block::folded_table(format!("All {} cells", cells.len()), matrix_cells(cells)));
    Document {
        kicker: "Published latencies, predicted",
        title: drive.to_owned(),
        question: source.to_owned(),
        facts: facts(cells, errors),
        body: vec![Block::section("results", "Reads beside a writer", results)],
    }
}

fn facts(cells: &[MatrixCell], errors: &[MatrixErrors; 2]) -> Vec<Fact> {
    let pct =
        |pct: Option<f64>| pct.map_or("none".to_owned(), |pct| format!("{}\u{202f}%", three_digits(pct)));
    let rows = [
        ("Cells", cells.len().to_string()),
        ("Median, half of the errors below", pct(errors[0].median_pct)),
        ("Median, nine of ten below", pct(errors[0].p90_pct)),
        ("95th percentile, half below", pct(errors[1].median_pct)),
        ("95th percentile, nine of ten below", pct(errors[1].p90_pct)),
    ];
    rows.map(|(name, value)| (name.to_owned(), value)).to_vec()
}

/// The values that `of` gives, in order and each once.
fn rates(cells: &[MatrixCell], of: fn(&MatrixCell) -> f64) -> Vec<f64> {
    let mut rates: Vec<f64> = cells.iter().map(of).collect();
    rates.sort_by(f64::total_cmp);
    rates.dedup();
    rates
}

fn place_of(rates: &[f64], rate: f64) -> f64 {
    rates.partition_point(|other| *other < rate) as f64
}

/// About six of the rates, as ticks in the middle of their cells.
fn ticks(rates: &[f64]) -> impl Iterator<Item = (f64, String)> {
    let every = rates.len().div_ceil(6).max(1);
    let named = rates.iter().enumerate().filter(move |(index, _)| index % every == 0);
    named.map(|(index, rate)| (index as f64 + 0.5, three_digits(*rate)))
}

fn map(name: &str, cells: &[MatrixCell], pick: Pick, shown: Shown) -> Option<Chart> {
    let published = cells.iter().filter_map(|cell| pick(cell).0);
    let (least, most) =
        published.fold((f64::INFINITY, 0.0_f64), |(least, most), us| (least.min(us), most.max(us)));
    if most == 0.0 {
        return None;
    }
    let (reads, writes) = (rates(cells, |cell| cell.read_iops), rates(cells, |cell| cell.write_mb_per_s));
    let share = |us: f64| ((us / least).ln() / (most / least).ln().max(f64::EPSILON)).clamp(0.03, 1.0);
    let drawn = |cell: &MatrixCell| {
        let (published, predicted) = pick(cell);
        let error = published.map(|published| (predicted / published - 1.0) * 100.0);
        let share = match shown {
            Shown::Published => share(published?),
            Shown::Predicted => share(predicted),
            Shown::Error => (error?.abs() / DARK_PCT).clamp(0.03, 1.0),
        };
        let (x, y) = (place_of(&writes, cell.write_mb_per_s), place_of(&reads, cell.read_iops));
        Some(Cell {
            x: (x, x + 1.0),
            y: (y, y + 1.0),
            share,
            text: String::new(),
            hover: hover(name, cell, pick),
        })
    };
    let (heading, what) = match shown {
        Shown::Published => ("published", "published"),
        Shown::Predicted => ("predicted", "predicted"),
        Shown::Error => ("error", "error of the prediction of"),
    };
    let axis = |title: &str, rates: &[f64]| Axis {
        scale: Scale::Linear,
        is_bare: true,
        range: Some((0.0, rates.len() as f64)),
        ..Axis::new(title).with_ticks(ticks(rates))
    };
    Some(Chart {
        heading: heading.to_owned(),
        label: format!("Heat map: {what} {} of reads, by rates of reading and writing.", name.to_lowercase()),
        x: axis("MB/s written", &writes),
        y: axis("reads/s", &reads),
        marks: vec![Mark::Cells(cells.iter().filter_map(drawn).collect())],
        size: Some(MAP),
        ..Chart::default()
    })
}

fn hover(name: &str, cell: &MatrixCell, pick: Pick) -> String {
    let (published, predicted) = pick(cell);
    let mut text = format!(
        "{} reads/s beside {} MB/s\n{name} predicted {} us",
        three_digits(cell.read_iops),
        three_digits(cell.write_mb_per_s),
        three_digits(predicted)
    );
    if let Some(published) = published {
        let error = (predicted / published - 1.0) * 100.0;
        text += &["\npublished ", &three_digits(published), " us\n", &format!("{error:+.0} %")].concat();
    }
    text
}

fn curves(name: &str, cells: &[MatrixCell], pick: Pick) -> Option<Chart> {
    let of = |write: f64| cells.iter().filter(move |cell| cell.write_mb_per_s.total_cmp(&write).is_eq());
    let mut writes = rates(cells, |cell| cell.write_mb_per_s);
    writes.retain(|write| of(*write).count() >= CURVE_POINTS);
    let last = writes.len().checked_sub(1)?;
    let mut chosen: Vec<f64> = (0..CURVES).map(|curve| writes[last * curve / (CURVES - 1)]).collect();
    chosen.dedup();
    let mut marks = Vec::new();
    for (index, write) in chosen.into_iter().enumerate() {
        let row: Vec<&MatrixCell> = of(write).collect();
        let point = |cell: &MatrixCell, y: f64| Point {
            x: cell.read_iops,
            y,
            hover: hover(name, cell, pick),
            ..Point::default()
        };
        let published: Vec<Point> = row.iter().filter_map(|cell| Some(point(cell, pick(cell).0?))).collect();
        let predicted: Vec<Point> = row.iter().map(|cell| point(cell, pick(cell).1)).collect();
        let beside =
            if write > 0.0 { format!("beside {} MB/s", three_digits(write)) } else { "no writer".into() };
        let colour = Colour::Series(index);
        let line = Line { is_in_key: true, ..Line::new(&beside, colour, predicted) };
        marks.push(Mark::Line(line));
        let marker = Some(Marker::number(index));
        marks.push(Mark::Line(Line {
            dash: Some(2),
            width: 1.2,
            marker,
            ..Line::new(&beside, colour, published)
        }));
    }
    let label = format!(
        "Curves: {} of reads over their rate, at some rates of writing, published and predicted.",
        name.to_lowercase()
    );
    Some(Chart {
        heading: "over the rate of reads".to_owned(),
        label,
        x: Axis::new("reads/s"),
        y: Axis::log(&format!("{} us", name.to_lowercase())),
        marks,
        has_key: true,
        size: Some(MAP),
        ..Chart::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_maps_and_curves_of_both_percentiles() {
        let cell = |reads: f64, writes: f64| MatrixCell {
            id: format!("r{reads}.w{writes}"),
            read_iops: reads,
            write_mb_per_s: writes,
            p50_us: (Some(reads + writes), 1.5 * reads),
            p95_us: (None, 3.0 * reads),
        };
        let cells: Vec<MatrixCell> = [100.0, 200.0, 400.0]
            .into_iter()
            .flat_map(|reads| [0.0, 50.0].map(|writes| cell(reads, writes)))
            .collect();
        let errors = [MatrixErrors { median_pct: Some(41.0), p90_pct: Some(50.0) }, MatrixErrors::default()];
        let page = latency_matrix("a <drive>", "m.csv", &cells, &errors);
        // Nothing was published of the 95th percentile: it has curves, and no maps.
        assert_eq!(page.pictures().len(), 5);
        let html = page.to_html();
        for wanted in ["a &lt;drive&gt;", "41", "beside 50", "no writer", "none"] {
            assert!(html.contains(wanted), "{wanted}");
        }
        let Some(Mark::Cells(drawn)) =
            map("Median", &cells, |cell| cell.p50_us, Shown::Error).map(|chart| chart.marks[0].clone())
        else {
            panic!("a map")
        };
        assert!((drawn[0].share - 0.5).abs() < 1e-9, "150 for 100 is half of a factor of two");
        assert_eq!((drawn[5].x, drawn[5].y), ((1.0, 2.0), (2.0, 3.0)));
        assert!(latency_matrix("d", "m.csv", &[], &errors).to_html().contains("Cells"));
    }
}
