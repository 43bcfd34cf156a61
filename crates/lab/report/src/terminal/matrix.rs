//! A published latency matrix compared with a model: heat maps, all cells, and errors.

use super::TerminalOptions;
use crate::document::{Block, Table, render};
use crate::figures::three_digits;
use std::collections::BTreeMap;

/// Steps of the scale of a heat map.
const STEPS: f64 = 9.0;

/// A cell of a matrix.
#[derive(Clone, Debug, PartialEq)]
pub struct MatrixCell {
    /// Names the cell.
    pub id: String,
    /// Reads a second, as asked.
    pub read_iops: f64,
    /// Writes, as asked.
    pub write_mb_per_s: f64,
    /// Median response of reads in microseconds: published, where it was, and predicted.
    pub p50_us: (Option<f64>, f64),
    /// Their 95th percentile.
    pub p95_us: (Option<f64>, f64),
}

/// Absolute errors of one percentile over a matrix, in percent.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MatrixErrors {
    /// Their median; none where nothing was published.
    pub median_pct: Option<f64>,
    /// Their 90th percentile.
    pub p90_pct: Option<f64>,
}

type Pick = fn(&MatrixCell) -> (Option<f64>, f64);

/// Prints all cells, heat maps of both percentiles, and the errors of the median and of the 95th percentile.
pub fn latency_matrix(
    drive: &str,
    cells: &[MatrixCell],
    errors: &[MatrixErrors; 2],
    options: TerminalOptions,
) -> String {
    let percentiles: [(&str, Pick); 2] =
        [("median", |cell| cell.p50_us), ("95th percentile", |cell| cell.p95_us)];
    let maps = percentiles.iter().filter_map(|(name, pick)| heat_maps(name, cells, *pick));
    let sums = percentiles.iter().zip(errors).map(|((name, _), errors)| {
        let [median, p90] =
            [errors.median_pct, errors.p90_pct].map(|pct| pct.map_or("-".into(), three_digits));
        format!("{name}: half of the errors are below {median} %, nine of ten below {p90} %")
    });
    let mut blocks = vec![
        Block::Heading(format!("{drive}: {} cells, reads beside a writer", cells.len())),
        Block::table(matrix_cells(cells)),
    ];
    blocks.extend(maps.map(Block::Verbatim));
    blocks.extend(sums.map(Block::paragraph));
    render(blocks, options)
}

/// All cells with their errors.
pub(crate) fn matrix_cells(cells: &[MatrixCell]) -> Table {
    let header = [
        "cell",
        "reads/s",
        "MB/s written",
        "p50 us",
        "predicted",
        "error %",
        "p95 us",
        "predicted",
        "error %",
    ];
    let row = |cell: &MatrixCell| {
        let mut row = vec![cell.id.clone(), format!("{}", cell.read_iops), three_digits(cell.write_mb_per_s)];
        for (published, predicted) in [cell.p50_us, cell.p95_us] {
            let error = published.map(|published| (predicted / published - 1.0) * 100.0);
            row.push(published.map_or("-".into(), three_digits));
            row.push(three_digits(predicted));
            row.push(error.map_or("-".into(), |error| format!("{error:+.0}")));
        }
        row
    };
    Table::plain("Cells", &header, 1).section(cells.iter().map(row))
}

/// Published and predicted side by side, a digit a cell on one logarithmic scale of what was published.
fn heat_maps(name: &str, cells: &[MatrixCell], pick: Pick) -> Option<String> {
    let published = cells.iter().filter_map(|cell| pick(cell).0);
    let (least, most) =
        published.fold((f64::INFINITY, 0.0), |(least, most): (f64, f64), us| (least.min(us), most.max(us)));
    if most == 0.0 {
        return None;
    }
    // Rates are above or at zero, where the order of bits is that of numbers.
    let order = |rate: f64| rate.to_bits();
    let by_rates: BTreeMap<(u64, u64), &MatrixCell> =
        cells.iter().map(|cell| ((order(cell.read_iops), order(cell.write_mb_per_s)), cell)).collect();
    let mut reads: Vec<f64> = cells.iter().map(|cell| cell.read_iops).collect();
    let mut writes: Vec<f64> = cells.iter().map(|cell| cell.write_mb_per_s).collect();
    for rates in [&mut reads, &mut writes] {
        rates.sort_by(f64::total_cmp);
        rates.dedup();
    }
    let digit = |us: f64| {
        let share = (us / least).ln() / (most / least).ln();
        let step = if share.is_nan() { 0.0 } else { (share * STEPS).round().clamp(0.0, STEPS) };
        char::from(b'0' + step as u8)
    };
    let mut text = format!(
        "{name}: 0 is {} us, 9 is {} us and more; to the right more is written, up to {} MB/s\n{:>9}  {:<width$}  predicted\n",
        three_digits(least),
        three_digits(most),
        three_digits(writes.last().copied().unwrap_or(0.0)),
        "reads/s",
        "published",
        width = writes.len().max(9)
    );
    for read_iops in reads {
        let line = |pick_one: &dyn Fn(&MatrixCell) -> Option<f64>| -> String {
            let cell = |write: &f64| by_rates.get(&(order(read_iops), order(*write)));
            writes
                .iter()
                .map(|write| cell(write).and_then(|cell| pick_one(cell)).map_or(' ', digit))
                .collect()
        };
        let (measured, predicted) = (line(&|cell| pick(cell).0), line(&|cell| Some(pick(cell).1)));
        let width = writes.len().max(9);
        text += format!("{read_iops:>9}  {measured:<width$}  {predicted}").trim_end();
        text.push('\n');
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_matrix_has_its_cells_maps_and_errors() {
        let cell = |id: &str, reads, writes, p50_us, p95_us| MatrixCell {
            id: id.into(),
            read_iops: reads,
            write_mb_per_s: writes,
            p50_us,
            p95_us,
        };
        let cells = [
            cell("r1.w0", 100.0, 0.0, (Some(100.0), 100.0), (Some(200.0), 100.0)),
            cell("r1.w1", 100.0, 8.0, (Some(1000.0), 100.0), (None, 300.0)),
            cell("r2.w0", 900.0, 0.0, (Some(200.0), 5000.0), (Some(200.0), 240.0)),
        ];
        let errors =
            [MatrixErrors { median_pct: Some(90.0), p90_pct: Some(2400.0) }, MatrixErrors::default()];
        let text = latency_matrix("d", &cells, &errors, TerminalOptions { width: 100, colour: false });
        for wanted in [
            "      100  09         00",
            "      900  3          9",
            "half of the errors are below 90",
            "+2400",
            "below - %",
        ] {
            assert!(text.contains(wanted), "{wanted}: {text}");
        }
    }
}
