//! Published latency matrices of one drive: reads at a rate beside a writer at a rate, one row a cell.

use super::cells::Cells;
use super::{PublishedError, read_records};
use raidlab_calibrate::{Arrivals, HostPacing, MatrixLoad};
use raidlab_units::ByteCount;
use raidlab_worlds::read_text;
use std::path::Path;

const COLUMNS: [&str; 11] = [
    "id",
    "read_iops",
    "write_mb_per_s",
    "read_block_bytes",
    "write_block_bytes",
    "write_queue_depth",
    "read_jobs",
    "read_queue_depth",
    "arrivals",
    "read_p50_us",
    "read_p95_us",
];

/// When reads are due, and who paces them: `fio` where nothing else is said, as published matrices are made with it.
const ARRIVALS: [(&str, (Arrivals, HostPacing)); 4] = [
    ("even", (Arrivals::Even, HostPacing::Fio)),
    ("poisson", (Arrivals::Poisson, HostPacing::Fio)),
    ("open-even", (Arrivals::Even, HostPacing::Open)),
    ("open-poisson", (Arrivals::Poisson, HostPacing::Open)),
];

/// A cell of a matrix. Empty cells are `None`.
#[derive(Clone, Debug, PartialEq)]
pub struct MatrixRow {
    /// Names the cell.
    pub id: String,
    /// What was asked of the drive.
    pub load: MatrixLoad,
    /// Median response of reads, in microseconds.
    pub read_p50_us: Option<f64>,
    /// Their 95th percentile, in microseconds.
    pub read_p95_us: Option<f64>,
}

/// Reads the matrix in the file at `path`.
///
/// # Errors
/// [`PublishedError`]: everything that is wrong with it.
pub fn read_matrix(path: &Path) -> Result<Vec<MatrixRow>, PublishedError> {
    parse(&path.display().to_string(), &read_text(path)?)
}

/// The first line of such a file.
pub fn matrix_header() -> String {
    COLUMNS.join(",") + "\n"
}

impl MatrixRow {
    /// The line of the file.
    pub fn line(&self) -> String {
        let load = &self.load;
        let arrivals = ARRIVALS
            .iter()
            .find(|(_, known)| *known == (load.arrivals, load.pacing))
            .map_or("", |(name, _)| name);
        let time = |time_us: Option<f64>| time_us.map_or(String::new(), |time_us| format!("{time_us:.2}"));
        format!(
            "{},{},{:.3},{},{},{},{},{},{arrivals},{},{}\n",
            self.id,
            load.read_iops,
            load.write_bytes_per_sec / 1e6,
            load.read_block.0,
            load.write_block.0,
            load.write_iodepth,
            load.readers,
            load.read_iodepth,
            time(self.read_p50_us),
            time(self.read_p95_us),
        )
    }
}

fn parse(file: &str, text: &str) -> Result<Vec<MatrixRow>, PublishedError> {
    read_records(file, text, &COLUMNS, &[], |header, record, line, problems| {
        Cells { header, record, line, problems }.matrix_row()
    })
}

impl Cells<'_> {
    fn matrix_row(&mut self) -> Option<MatrixRow> {
        let id = self.required("id").to_owned();
        self.required("arrivals");
        // All are read before any is missed, so that all problems are told at once.
        let (read_iops, write_mb_per_s) = (self.number("read_iops"), self.number::<f64>("write_mb_per_s"));
        let [read_block, write_block] =
            ["read_block_bytes", "write_block_bytes"].map(|column| self.number(column).map(ByteCount));
        let [write_iodepth, readers, read_iodepth] =
            ["write_queue_depth", "read_jobs", "read_queue_depth"].map(|column| self.number(column));
        let arrivals = self.one_of("arrivals", &ARRIVALS);
        let (arrivals, pacing) = arrivals.unzip();
        let [read_p50_us, read_p95_us] = ["read_p50_us", "read_p95_us"].map(|column| self.time_us(column));
        Some(MatrixRow {
            id,
            load: MatrixLoad {
                read_iops: read_iops?,
                write_bytes_per_sec: write_mb_per_s? * 1e6,
                read_block: read_block?,
                write_block: write_block?,
                write_iodepth: write_iodepth?,
                readers: readers?,
                read_iodepth: read_iodepth?,
                arrivals: arrivals?,
                pacing: pacing?,
            },
            read_p50_us,
            read_p95_us,
        })
    }

    fn time_us(&mut self, column: &'static str) -> Option<f64> {
        let time_us = self.optional_number::<f64>(column);
        let is_time = |time_us: &f64| time_us.is_finite() && *time_us > 0.0;
        if time_us.is_some_and(|time_us| !is_time(&time_us)) {
            self.problem(column, "is not a time above zero".into(), None);
        }
        time_us.filter(is_time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "id,read_iops,write_mb_per_s,read_block_bytes,write_block_bytes,write_queue_depth,read_jobs,read_queue_depth,arrivals,read_p50_us,read_p95_us\n";

    #[test]
    fn a_cell_is_read_and_a_percentile_can_be_missing() {
        let rows =
            parse("m.csv", &format!("{HEADER}r1.w2,500,1.5,512,131072,32,3,1000,poisson,1.576e+04,\n"));
        let [row] = &rows.expect("it is right")[..] else { panic!("one row") };
        assert_eq!((row.id.as_str(), row.read_p50_us, row.read_p95_us), ("r1.w2", Some(15_760.0), None));
        assert_eq!((row.load.write_bytes_per_sec, row.load.arrivals), (1.5e6, Arrivals::Poisson));
    }

    #[test]
    fn what_is_written_is_read_again() {
        let text = format!("{HEADER}r1.w2,500.5,1.500,512,131072,32,3,1000,poisson,15760.00,\n");
        let rows = parse("m.csv", &text).expect("it is right");
        assert_eq!(matrix_header() + &rows[0].line(), text);
    }

    #[test]
    fn all_that_is_wrong_is_told() {
        let text = format!("{HEADER},500,x,512,131072,32,3,1000,odd,-1,inf\nb,,1,1,1,1,1,1,,1,1\n");
        let told = parse("m.csv", &text).expect_err("it is wrong").to_string();
        for wanted in
            ["id", "write_mb_per_s", "even, poisson", "read_p50_us", "read_p95_us", "read_iops", "arrivals"]
        {
            assert!(told.contains(wanted), "{wanted}: {told}");
        }
        let header = HEADER.replace("arrivals,", "");
        assert!(parse("m.csv", &header).expect_err("a column lacks").to_string().contains("arrivals"));
    }
}
