//! The formats: which one a text is of, and a file for each family with its quirks.

mod counters;
mod iostat;
mod machines;
mod pcp;
mod pdh;
mod sar;

use crate::clock::{DateOrder, ToldOrder};
use crate::error::{HistoryError, HistoryProblem};
use crate::reading::Readings;

/// The formats that are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HistoryFormat {
    /// `sadf -j`.
    SadfJson,
    /// `sadf -d`.
    SadfDatabase,
    /// What `sadf FILE -- -d` prints.
    SadfLines,
    /// What `sar -d` prints.
    SarText,
    /// `iostat -o JSON`.
    IostatJson,
    /// What `iostat` prints.
    IostatText,
    /// `pmrep -o csv`.
    PcpCsv,
    /// `pmdumptext -m`.
    PcpText,
    /// The answer of Prometheus to a query over a range, of `node_exporter`'s counters.
    Prometheus,
    /// `pg_stat_io` of `PostgreSQL`, as CSV or as psql prints it.
    PgStatIo,
    /// `esxtop -b`.
    Esxtop,
    /// Windows' performance monitor.
    Perfmon,
}

/// What a file may not say of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// The order of dates with slashes, where no day beyond 12 shows it; none takes the month first and says so.
    pub dates: Option<DateOrder>,
    /// iostat ran with `-y`: its first report is one as the others.
    pub has_no_report_since_boot: bool,
}

/// What is wrong, and its line where that is known.
pub(crate) type Located = (Option<u64>, HistoryProblem);

impl HistoryFormat {
    /// All of them.
    pub const ALL: [Self; 12] = [
        Self::SadfJson,
        Self::SadfDatabase,
        Self::SadfLines,
        Self::SarText,
        Self::IostatJson,
        Self::IostatText,
        Self::PcpCsv,
        Self::PcpText,
        Self::Prometheus,
        Self::PgStatIo,
        Self::Esxtop,
        Self::Perfmon,
    ];

    /// What it is called.
    pub const fn name(self) -> &'static str {
        match self {
            Self::SadfJson => "sadf's JSON, of sar",
            Self::SadfDatabase => "sadf's table, of sar",
            Self::SadfLines => "sadf's lines, of sar",
            Self::SarText => "sar's text",
            Self::IostatJson => "iostat's JSON",
            Self::IostatText => "iostat's text",
            Self::PcpCsv => "CSV of PCP's pmrep",
            Self::PcpText => "text of PCP's pmdumptext",
            Self::Prometheus => "an answer of Prometheus",
            Self::PgStatIo => "PostgreSQL's pg_stat_io",
            Self::Esxtop => "CSV of esxtop",
            Self::Perfmon => "CSV of Windows' performance monitor",
        }
    }

    pub(crate) fn known() -> String {
        Self::ALL.map(Self::name).join(", ")
    }
}

/// The format of the text that begins with `text`; none where it does not tell.
pub fn detect(text: &str) -> Option<HistoryFormat> {
    let text = text.trim_start_matches('\u{feff}').trim_start();
    let first = text.lines().next().unwrap_or("");
    let has = |mark: &str| text.contains(mark);
    if first.contains("(PDH-CSV") || first.contains("(PDH-TSV") {
        let is_esxtop =
            ["\\Physical Disk", "\\Virtual Disk(", "\\Group Cpu("].iter().any(|mark| first.contains(mark));
        return Some(if is_esxtop { HistoryFormat::Esxtop } else { HistoryFormat::Perfmon });
    }
    if text.starts_with('{') {
        return if has("\"disk-device\"") || (has("\"sysstat\"") && has("\"file-date\"")) {
            Some(HistoryFormat::SadfJson)
        } else if has("\"disk_device\"") || has("\"sysstat\"") {
            Some(HistoryFormat::IostatJson)
        } else {
            // Without any series no name stands there.
            let is_answer = has("\"status\"") && (has("\"errorType\"") || has("\"resultType\""));
            (is_answer || has("\"resultType\"") && has("\"metric\"")).then_some(HistoryFormat::Prometheus)
        };
    }
    if first.starts_with("# hostname;interval;timestamp;") {
        return Some(HistoryFormat::SadfDatabase);
    }
    if sar::is_line(first) {
        return Some(HistoryFormat::SadfLines);
    }
    if counters::is_pg_head(text) {
        return Some(HistoryFormat::PgStatIo);
    }
    // pmrep -x writes what it was asked first.
    if text.lines().find(|line| !line.starts_with('#')).is_some_and(pcp::is_csv_head) {
        return Some(HistoryFormat::PcpCsv);
    }
    if text.lines().take(200).any(pcp::is_text_head) {
        return Some(HistoryFormat::PcpText);
    }
    if text.lines().any(sar::is_head) {
        return Some(HistoryFormat::SarText);
    }
    text.lines().take(200).any(iostat::is_text_head).then_some(HistoryFormat::IostatText)
}

/// The order of the dates in `text`, and what is to be said of it.
fn date_order(text: &str, told: Told) -> Result<(DateOrder, Option<String>), Located> {
    let guessed = "dates such as 05/06/24 may have the day or the month first, and no day in it shows which: the month is taken for first \
                   (--dates tells)";
    Ok(match (ToldOrder::of(text), told.dates) {
        (ToldOrder::Known(order), _) | (ToldOrder::Unknown { .. }, Some(order)) => (order, None),
        (ToldOrder::Unknown { has_dates }, None) => {
            (DateOrder::default(), has_dates.then(|| guessed.to_owned()))
        }
        (ToldOrder::Mixed, _) => return Err((None, HistoryProblem::MixedDates)),
    })
}

/// Reads the text of the file called `file`.
///
/// # Errors
/// [`HistoryError`] names the line, where there is one, and what is wrong.
pub fn read(file: &str, text: &str, told: Told) -> Result<(HistoryFormat, Readings), HistoryError> {
    let wrong = |(line, problem): Located| HistoryError { file: file.to_owned(), line, problem };
    let unknown = || sar::other_form(text).map_or(HistoryProblem::UnknownFormat, HistoryProblem::OtherForm);
    let format = detect(text).ok_or_else(|| wrong((None, unknown())))?;
    let text = text.trim_start_matches('\u{feff}');
    let (order, guessed) = match format {
        // Their dates have one form everywhere, and labels may look like others.
        HistoryFormat::SadfJson | HistoryFormat::Prometheus => (DateOrder::default(), None),
        // Windows writes the month first everywhere; a spreadsheet may have written the dates anew.
        HistoryFormat::Perfmon | HistoryFormat::Esxtop => (date_order(text, told).map_err(wrong)?.0, None),
        _ => date_order(text, told).map_err(wrong)?,
    };
    let mut readings = match format {
        HistoryFormat::SadfJson => sar::json(text),
        HistoryFormat::SadfDatabase => sar::database(text, order),
        HistoryFormat::SadfLines => sar::lines(text),
        HistoryFormat::SarText => sar::text(text, order),
        HistoryFormat::IostatJson => iostat::json(text, order, told),
        HistoryFormat::IostatText => iostat::text(text, order, told),
        HistoryFormat::PcpCsv => pcp::csv(text, order),
        HistoryFormat::PcpText => pcp::text(text, order),
        HistoryFormat::Prometheus => counters::prometheus(text),
        HistoryFormat::PgStatIo => counters::pg_stat_io(text, order),
        HistoryFormat::Esxtop => pdh::esxtop(text, order),
        HistoryFormat::Perfmon => pdh::perfmon(text, order),
    }
    .map_err(wrong)?;
    readings.infer_intervals();
    readings.notes.extend(guessed);
    if readings.by_device.is_empty() {
        return Err(wrong((None, HistoryProblem::Nothing(advice(format)))));
    }
    Ok((format, readings))
}

/// How a format is written so that it says something of devices.
const fn advice(format: HistoryFormat) -> &'static str {
    match format {
        HistoryFormat::SadfJson
        | HistoryFormat::SadfDatabase
        | HistoryFormat::SadfLines
        | HistoryFormat::SarText => "write it with 'sadf -j FILE -- -d -p'",
        HistoryFormat::IostatJson | HistoryFormat::IostatText => "write it with 'iostat -xt -o JSON 10'",
        HistoryFormat::PcpCsv => {
            "write it with 'pmrep -o csv disk.dev.read disk.dev.write disk.dev.read_bytes disk.dev.write_bytes'"
        }
        HistoryFormat::PcpText => {
            "write it with 'pmdumptext -m disk.dev.read disk.dev.write disk.dev.read_bytes disk.dev.write_bytes'"
        }
        HistoryFormat::Prometheus => "ask for the counters themselves: query={__name__=~\"node_disk_.*\"}",
        HistoryFormat::PgStatIo => {
            "write it with 'select now(), * from pg_stat_io', twice at least or with stats_reset"
        }
        HistoryFormat::Esxtop => "write it with 'esxtop -b -a'",
        HistoryFormat::Perfmon => "record the counters of 'PhysicalDisk'",
    }
}
