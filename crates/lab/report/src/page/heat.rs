//! Heat maps: the judged figure of every configuration at every load, and the latency distribution, load by load and
//! over time.
//!
//! A latency map has a column per load, or per stretch of the window, and a row per bin of the stored histogram; the
//! share of a column's requests is its ink. It is drawn for storage without an array and for the best array of each
//! side, since all of them would fill pages.

use crate::chart::{Axis, Cell, Chart, Mark, Scale};
use crate::figures::{Column, short_digits, three_digits};
use crate::matrix::{CellKey, Matrix};
use raidlab_workload::{LatencyBin, OfferedLoad};

/// Height of a row of configurations, and of what is around them.
const ROW: f64 = 26.0;
const AROUND: f64 = 70.0;

/// The judged figure of one profile, a map per side, where there are several configurations and loads.
pub(super) fn figures(matrix: &Matrix, profile: usize) -> Vec<Chart> {
    let workload = matrix.profiles[profile].workload;
    let column = Column::judging(matrix.profiles[profile].metric);
    let all_loads = matrix.loads_of(profile);
    let map = |side: usize| {
        let rows: Vec<usize> = (0..matrix.configurations.len())
            .filter(|configuration| matrix.line(profile, *configuration, side).len() > 1)
            .collect();
        if rows.len() < 2 {
            return None;
        }
        let at = |configuration: usize, load: OfferedLoad| {
            matrix.run(CellKey { profile, configuration, side, load }).map(|run| column.value(run))
        };
        let all = rows.iter().flat_map(|row| all_loads.iter().filter_map(move |load| at(*row, *load)));
        let highest = all.fold(0.0, f64::max);
        let mut cells = Vec::new();
        for (row, configuration) in rows.iter().enumerate() {
            for (place, load) in all_loads.iter().enumerate() {
                let Some(value) = at(*configuration, *load) else { continue };
                let text = short_digits(value);
                cells.push(Cell {
                    x: (place as f64, place as f64 + 1.0),
                    y: (-(row as f64) - 1.0, -(row as f64)),
                    share: if highest > 0.0 { value / highest } else { 0.0 },
                    hover: format!("{}\n{load}\n{text} {}", matrix.full_name(*configuration), column.unit()),
                    text,
                });
            }
        }
        let names = rows.iter().enumerate().map(|(row, it)| (-(row as f64) - 0.5, matrix.full_name(*it)));
        let y = Axis { scale: Scale::Linear, is_bare: true, ..Axis::new("").with_ticks(names) };
        Some(Chart {
            heading: matrix.sides[side].full_name(),
            label: format!("{workload}. Heat map: {} of every configuration at every load.", column.words()),
            x: loads(matrix, profile),
            y,
            marks: vec![Mark::Cells(cells)],
            size: Some((560.0, ROW * rows.len() as f64 + AROUND)),
            ..Chart::default()
        })
    };
    (0..matrix.sides.len()).filter_map(map).collect()
}

/// Maps of latencies, of storage without an array and the best array of each side, where there are several loads.
pub(super) fn maps(matrix: &Matrix, profile: usize) -> Vec<Chart> {
    let workload = matrix.profiles[profile].workload;
    let all_loads = matrix.loads_of(profile);
    let mut charts = Vec::new();
    for side in 0..matrix.sides.len() {
        for configuration in worth_showing(matrix, profile, side) {
            let runs = matrix.line(profile, configuration, side);
            let columns: Vec<MapColumn<'_>> = runs
                .iter()
                .filter(|run| !run.ops.total.lat_bins.is_empty())
                .map(|run| {
                    let at = all_loads.binary_search(&run.offered_load()).unwrap_or(0) as f64;
                    let name = run.offered_load().to_string();
                    MapColumn { x: (at, at + 1.0), name, bins: &run.ops.total.lat_bins }
                })
                .collect();
            if columns.len() > 1 {
                let heading = heading(matrix, configuration, side);
                charts.push(Chart {
                    label: format!("{workload}. Heat map: latencies of {heading}, a column per load."),
                    heading,
                    x: loads(matrix, profile),
                    y: Axis { is_bare: true, ..Axis::log("latency ms") },
                    marks: vec![Mark::Cells(cells(&columns))],
                    ..Chart::default()
                });
            }
        }
    }
    charts
}

/// Maps of latencies over the window at the load shown, of the same, where the window has a few stretches.
pub(super) fn maps_over_time(matrix: &Matrix, profile: usize) -> Vec<Chart> {
    let workload = matrix.profiles[profile].workload;
    let mut charts = Vec::new();
    for side in 0..matrix.sides.len() {
        for configuration in worth_showing(matrix, profile, side) {
            let series = matrix.shown(profile, configuration, side).and_then(|run| run.series.as_ref());
            let Some(series) = series else { continue };
            let Some(map) = series.lat_map.as_ref().filter(|map| map.stretches.len() > 2) else { continue };
            let seconds = |stretch: usize| stretch as f64 * map.interval_ns as f64 / 1e9;
            let columns = map.stretches.iter().enumerate().map(|(index, bins)| MapColumn {
                x: (seconds(index), seconds(index + 1)),
                name: format!("{} to {} s", three_digits(seconds(index)), three_digits(seconds(index + 1))),
                bins,
            });
            let heading = heading(matrix, configuration, side);
            charts.push(Chart {
                label: format!("{workload}. Heat map: latencies of {heading} over the window."),
                heading,
                x: Axis { is_bare: true, ..Axis::new("seconds into the window") },
                y: Axis { is_bare: true, ..Axis::log("latency ms") },
                marks: vec![Mark::Cells(cells(&columns.collect::<Vec<_>>()))],
                ..Chart::default()
            });
        }
    }
    charts
}

fn heading(matrix: &Matrix, configuration: usize, side: usize) -> String {
    format!("{}, {}", matrix.full_name(configuration), matrix.sides[side].full_name())
}

/// Storage without an array, and the array with the best judged figure.
fn worth_showing(matrix: &Matrix, profile: usize, side: usize) -> Vec<usize> {
    let column = Column::judging(matrix.profiles[profile].metric);
    let value = |index: usize| matrix.shown(profile, index, side).map(|run| column.value(run));
    let all = 0..matrix.configurations.len();
    let (arrays, bare): (Vec<usize>, Vec<usize>) = all
        .filter(|index| value(*index).is_some())
        .partition(|index| matrix.configurations[*index].is_array());
    let best = arrays.into_iter().reduce(|best, other| if value(other) > value(best) { other } else { best });
    bare.into_iter().take(3).chain(best).collect()
}

/// A column of a map of latencies.
struct MapColumn<'a> {
    x: (f64, f64),
    name: String,
    bins: &'a [LatencyBin],
}

/// The cells of a map, two bins in each: a chart has no room for more.
fn cells(columns: &[MapColumn<'_>]) -> Vec<Cell> {
    let merged: Vec<Vec<(f64, f64, f64)>> = columns.iter().map(|column| shares(column.bins)).collect();
    let most = merged.iter().flatten().map(|cell| cell.2).fold(0.0, f64::max);
    let mut cells = Vec::new();
    for (column, rows) in columns.iter().zip(&merged) {
        for (low, high, share) in rows {
            let (from, to, pct) = (three_digits(*low), three_digits(*high), three_digits(100.0 * share));
            cells.push(Cell {
                x: column.x,
                y: (*low, *high),
                share: share / most,
                text: String::new(),
                hover: format!("{}\n{from} to {to} ms\n{pct} % of the requests", column.name),
            });
        }
    }
    cells
}

/// From where to where in ms, and the share of all requests, for each quarter of a doubling that has any.
fn shares(bins: &[LatencyBin]) -> Vec<(f64, f64, f64)> {
    let all: u64 = bins.iter().map(|bin| bin.requests).sum();
    let mut rows: Vec<(f64, f64, f64)> = Vec::new();
    for bin in bins {
        let (low, high) = bounds_ms(bin.lat_ns);
        let share = bin.requests as f64 / all.max(1) as f64;
        match rows.last_mut() {
            Some(last) if last.0 == low => last.2 += share,
            _ => rows.push((low, high, share)),
        }
    }
    rows
}

/// The loads side by side, each as wide as any other.
fn loads(matrix: &Matrix, profile: usize) -> Axis {
    let all = matrix.loads_of(profile);
    let ticks = all.iter().enumerate().map(|(place, load)| (place as f64 + 0.5, load.value().to_string()));
    let range = Some((0.0, all.len() as f64));
    Axis { range, is_bare: true, ..Axis::new(matrix.load_name(profile)).with_ticks(ticks) }
}

/// From where to where the quarter of a doubling goes that the bin up to `lat_ns` is in.
fn bounds_ms(lat_ns: u64) -> (f64, f64) {
    let lat_ns = lat_ns.clamp(8, 1 << 40);
    let doubling = 1_u64 << lat_ns.ilog2();
    let step = doubling / 4;
    let low = doubling + (lat_ns - doubling) / step * step;
    (low as f64 / 1e6, (low + step) as f64 / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testdata::study_runs;
    use raidlab_workload::{LatencyMap, RunSeries};

    #[test]
    fn a_map_has_a_cell_for_each_configuration_and_load() {
        let runs = study_runs();
        let matrix = Matrix::of(&runs, None);
        let maps = figures(&matrix, 2);
        assert_eq!(maps.len(), matrix.sides.len());
        let Mark::Cells(cells) = &maps[0].marks[0] else { panic!("{maps:?}") };
        assert_eq!(cells.len(), 11 * matrix.loads.len());
        let most = cells.iter().map(|cell| cell.share).fold(0.0, f64::max);
        assert!((most - 1.0).abs() < 1e-9);
        let one_depth: Vec<_> = runs.iter().filter(|run| run.iodepth == 8).cloned().collect();
        assert!(figures(&Matrix::of(&one_depth, None), 0).is_empty());
    }

    #[test]
    fn every_latency_is_within_its_row_and_two_bins_share_one() {
        for lat_ns in [9, 1023, 1151, 1279, 2047, 2048, 5_000_000, 68_719_476_735, u64::MAX] {
            let (low, high) = bounds_ms(lat_ns);
            let ms = lat_ns.min(1 << 40) as f64 / 1e6;
            assert!(low <= ms && ms < high && high / low <= 1.25 + 1e-9, "{lat_ns}: {low} to {high}");
        }
        let bins =
            [(1151, 10), (1279, 20), (4095, 70)].map(|(lat_ns, requests)| LatencyBin { lat_ns, requests });
        let shares: Vec<f64> = shares(&bins).iter().map(|row| row.2).collect();
        assert_eq!(shares.len(), 2);
        assert!((shares[0] - 0.3).abs() < 1e-9 && (shares[1] - 0.7).abs() < 1e-9, "{shares:?}");
    }

    #[test]
    fn latencies_over_the_window_have_a_column_for_each_stretch() {
        let mut runs = study_runs();
        let bins = vec![LatencyBin { lat_ns: 2303, requests: 5 }, LatencyBin { lat_ns: 9000, requests: 5 }];
        for run in &mut runs {
            let lat_map = Some(LatencyMap { interval_ns: 2_000_000_000, stretches: vec![bins.clone(); 4] });
            run.series = Some(RunSeries { lat_map, ..RunSeries::default() });
        }
        let maps = maps_over_time(&Matrix::of(&runs, None), 2);
        let Mark::Cells(cells) = &maps[0].marks[0] else { panic!("{maps:?}") };
        assert_eq!((cells.len(), cells[7].x), (8, (6.0, 8.0)));
    }

    #[test]
    fn latencies_are_drawn_for_the_best_array_and_for_bare_storage() {
        let mut runs = study_runs();
        assert!(maps(&Matrix::of(&runs, None), 2).is_empty(), "no histogram was kept");
        for run in &mut runs {
            run.ops.total.lat_bins = vec![LatencyBin { lat_ns: 2303, requests: run.ops.total.requests }];
        }
        let matrix = Matrix::of(&runs, None);
        let maps = maps(&matrix, 2);
        let headings: Vec<&str> = maps.iter().map(|chart| chart.heading.as_str()).collect();
        assert!(headings[0].starts_with("no RAID, measured"), "{headings:?}");
        assert!(headings[1].starts_with("RAID 0, write-back, measured"), "{headings:?}");
        let Mark::Cells(cells) = &maps[0].marks[0] else { panic!("{headings:?}") };
        assert_eq!(cells.len(), matrix.loads.len());
        assert_eq!(cells[0].y, (0.002_048, 0.002_56), "a quarter of a doubling");
    }
}
