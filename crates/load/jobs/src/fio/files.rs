//! The files of a fio job: what they are called, and several of them as equal parts of the job's places, side by side.
//!
//! ```text
//! nrfiles=3 size=9m   |= file 0 =|= file 1 =|= file 2 =|     a request to each in turn, each goes on from its own last
//! ```
//! fio divides the size among the files, and takes whole requests of each. Whose turn it is (`file_service_type`) is decided for each
//! request; in sequence, file after file is the same as one file of all.
//!
//! Refused is what the places can't say: files of several lengths, and what takes a turn or a position of its own.

use super::job::Reader;
use super::values::{number, refusal_of_skew, size};
use raidlab_units::ByteCount;
use raidlab_workload::{AccessLine, FileOrder, PlacedFiles, Places};

/// The files of a job.
#[derive(Clone, Debug)]
pub(super) struct JobFiles {
    pub(super) names: FileNames,
    turns: Turns,
}

/// How they are called.
#[derive(Clone, Debug)]
pub(super) enum FileNames {
    /// As the job says.
    Named(Vec<String>),
    /// As fio makes them up, so many for each clone; clones take the folders in turn.
    MadeUp { folders: Vec<String>, format: String, count: u32 },
}

/// How fio goes from file to file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turns {
    /// Through one to its end, and then the next.
    Through,
    Of(FileOrder, u32),
}

impl JobFiles {
    /// Reads them, below the directory where there is one.
    pub(super) fn of(reader: &mut Reader<'_>) -> Self {
        let folders = split(reader.text("directory").unwrap_or(""));
        let names = names(reader, folders.first().map(String::as_str));
        let names = if names.is_empty() {
            let own = reader.text("filename_format").filter(|format| !format.is_empty());
            let format = own.unwrap_or("$jobname.$jobnum.$filenum").to_owned();
            let count = reader.value("nrfiles", number).unwrap_or(1).max(1);
            if count > 1 && !format.contains("$filenum") {
                reader.wrong(
                    "filename_format",
                    "filename_format without $filenum has fio take one file several times: add it",
                );
            }
            FileNames::MadeUp { folders, format, count }
        } else {
            FileNames::Named(names)
        };
        let mut files = Self { names, turns: Turns::Through };
        files.turns = turns(reader, files.count());
        files
    }

    /// The only one, where the job names it: what the job runs on.
    pub(super) fn target(&self) -> Option<String> {
        match &self.names {
            FileNames::Named(names) if names.len() == 1 => names.first().cloned(),
            _ => None,
        }
    }

    /// How many each clone has.
    pub(super) fn count(&self) -> u32 {
        match &self.names {
            FileNames::Named(names) => names.len() as u32,
            FileNames::MadeUp { count, .. } => *count,
        }
    }

    /// Those that the job names, where they are several.
    pub(super) fn named(&self) -> &[String] {
        match &self.names {
            FileNames::Named(names) if names.len() > 1 => names,
            _ => &[],
        }
    }
}

/// A list by colons, of which those behind a backslash are none.
fn split(text: &str) -> Vec<String> {
    let text = text.replace("\\:", "\u{0}");
    text.split(':').filter(|name| !name.is_empty()).map(|name| name.replace('\u{0}', ":")).collect()
}

/// What the job names.
fn names(reader: &mut Reader<'_>, folder: Option<&str>) -> Vec<String> {
    let names = split(reader.text("filename").unwrap_or(""));
    let names: Vec<String> = match folder {
        Some(folder) => names.iter().map(|name| format!("{}/{name}", folder.trim_end_matches('/'))).collect(),
        None => names,
    };
    let engine = reader.text("ioengine").unwrap_or("");
    for (key, own) in [("uri", "nbd"), ("nfs_url", "nfs")] {
        if reader.find(key).is_some() && engine != own {
            reader.wrong(
                key,
                format!("{key} belongs to ioengine={own}, and this job has another: leave it out"),
            );
        }
    }
    let names = match (reader.text("uri"), reader.text("nfs_url")) {
        (Some(uri), _) => vec![uri.to_owned()],
        (None, Some(url)) => {
            let url = url.trim_end_matches('/');
            names.iter().map(|name| format!("{url}/{}", name.trim_start_matches('/'))).collect()
        }
        (None, None) => names,
    };
    let is_target = |name: &String| name.starts_with("/dev/") || reader.find("nfs_url").is_some();
    if names.len() > 1 && names.iter().any(is_target) {
        let count = names.len();
        reader.wrong(
            "filename",
            format!(
                "{count} targets in one job: fio takes them in turn in one loop, and here each target has a loop of its own: write a job \
                 for each, with its share of iodepth and size; they run at once"
            ),
        );
    }
    if (1..names.len()).any(|at| names[..at].contains(&names[at])) {
        reader.wrong(
            "filename",
            "filename names a file twice, whose turns have no counterpart here: name it once",
        );
    }
    names
}

/// Which of `count` files is next.
fn turns(reader: &mut Reader<'_>, count: u32) -> Turns {
    if count > 1 && reader.value("openfiles", number).is_some_and(|open| open > 0 && open < count) {
        let advice = "fewer than all files has fio finish these before it opens others, which has no counterpart here: leave it out";
        reader.wrong("openfiles", format!("openfiles: {advice}"));
    }
    let text = reader.text("file_service_type").unwrap_or("roundrobin");
    let (name, burst) = text.split_once(':').unwrap_or((text, "1"));
    let skew = burst.parse::<f64>().ok();
    if let Some(why) = skew.and_then(|figure| refusal_of_skew(name, figure)).filter(|_| text.contains(':')) {
        reader.wrong("file_service_type", format!("file_service_type = {text}: {why}"));
        return Turns::Through;
    }
    let burst = number(burst).ok().filter(|burst| *burst > 0);
    match (name, burst) {
        // The only one has every turn.
        ("roundrobin" | "random" | "zipf" | "pareto" | "normal" | "gauss", _) if count == 1 => {
            Turns::Of(FileOrder::InTurn, 1)
        }
        ("roundrobin", Some(burst)) => Turns::Of(FileOrder::InTurn, burst),
        ("random", Some(burst)) => Turns::Of(FileOrder::Random, burst),
        ("sequential", _) => Turns::Through,
        _ => {
            let advice = "write roundrobin, random or sequential, the first two with :N for so many requests to a file";
            reader.wrong(
                "file_service_type",
                format!("file_service_type = {text} has no counterpart here: {advice}"),
            );
            Turns::Through
        }
    }
}

/// Lays several files of a job with `lines` side by side: `places` become all of them.
pub(super) fn lay_side_by_side(
    reader: &mut Reader<'_>,
    files: &JobFiles,
    (lines, has_directions): (&[AccessLine], bool),
    places: &mut Places,
    base: u64,
) {
    let count = files.count();
    if count == 1 {
        return;
    }
    let mut refuse = |key: &str, what: &str| reader.wrong(key, format!("{count} files in one job: {what}"));
    if has_directions {
        refuse(
            "rw",
            "reads and writes in sequence share the turns and each go on from their own last place, which has no counterpart here: write \
             a job of reads and one of writes",
        );
    }
    let is_one_sequence = lines.len() == 1 && lines[0].random_pct == 0;
    if files.turns == Turns::Through && !is_one_sequence {
        refuse(
            "file_service_type",
            "one to its end and then the next has a counterpart here for requests of one size in sequence only: write roundrobin, or a \
             job for each",
        );
    }
    if lines.len() > 1 && lines.iter().any(|line| line.random_pct < 100) {
        let key = ["bssplit", "bsrange"].into_iter().find(|key| reader.find(key).is_some()).unwrap_or("bs");
        let what = "requests of several sizes in sequence end each at another time, after which it has no turn, and this has no counterpart \
                    here: write one size";
        reader.wrong(key, format!("{count} files in one job: {what}"));
    }
    let holes = "an offset into each leaves holes between them, which has no counterpart here: leave it out";
    let flushes = "a flush takes the turn of a file and is of that one alone, which has no counterpart here: write a job for each";
    for (key, what) in
        [("offset", holes), ("offset_increment", holes), ("fsync", flushes), ("fdatasync", flushes)]
    {
        if reader.text(key).is_some_and(|text| text != "0") {
            reader.wrong(key, format!("{count} files in one job: {what}"));
        }
    }
    if let Some(file) = file_length(reader, files, lines, base) {
        places.size = Some(ByteCount(file.saturating_mul(count.into())));
    }
    if let Turns::Of(order, burst) = files.turns {
        places.files = PlacedFiles { count, burst, order };
    }
}

/// Length of each file, in whole requests.
fn file_length(reader: &mut Reader<'_>, files: &JobFiles, lines: &[AccessLine], base: u64) -> Option<u64> {
    let count = files.count();
    let key = if matches!(files.names, FileNames::Named(_)) { "filename" } else { "nrfiles" };
    let bytes = |key| reader.text(key).and_then(|text| size(text, base).ok()).filter(|bytes| *bytes > 0);
    let ([all, each], has_size) = (["size", "filesize"].map(bytes), reader.find("size").is_some());
    let mut refuse = |key: &str, what: &str| reader.wrong(key, format!("{count} files in one job: {what}"));
    let file = match (all, each) {
        (Some(all), None) => all / u64::from(count),
        (None, Some(each)) if !has_size => each,
        _ => {
            let what = "their length is needed: give size in bytes, which fio divides among them, or filesize, and not both";
            refuse(key, what);
            return None;
        }
    };
    let lengths = || lines.iter().map(|line| u64::from(line.bytes));
    let (least, longest) = (lengths().min().unwrap_or(1).max(1), lengths().max().unwrap_or(1));
    if all.is_some_and(|all| all - file * u64::from(count) >= least) {
        let what = "fio makes some longer than others of this size, which has no counterpart here: make it a multiple of their number";
        refuse("size", what);
    }
    if file < longest {
        refuse(key, &format!("each is {file} bytes long, shorter than a request, and fio refuses it"));
    }
    Some(file / least * least).filter(|file| *file > 0)
}
