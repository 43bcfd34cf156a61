//! What a file is that another verb was meant for: the cause of a refusal, and the verb that reads it.

use raidlab_report::import::{is_fio, is_iometer, is_latency_table, other_tool};
use raidlab_trace::{BinaryTrace, detect};

/// The kind of a file, and what to do with it.
pub(super) struct Kind {
    what: String,
    advice: &'static str,
    /// The name of the verb that reads it.
    verb: &'static str,
}

/// Bytes in which a file that is no text has one of zero.
const BINARY_BYTES: usize = 512;

/// Lines that tell the kind of a file.
const LINES: usize = 200;

/// The kind of the file that begins with `text`, if it is none of `verb`'s.
pub(super) fn other_than(verb: &str, text: &str) -> Option<String> {
    let kind = kind_of(text)?;
    (kind.verb != verb).then(|| format!("this is {}: {}", kind.what, kind.advice))
}

/// What programs print for people, or for others than raidlab, and how they write what is read here. No verb reads it.
fn printed(text: &str) -> Option<Kind> {
    let lines = || text.lines().take(LINES).map(str::trim);
    let has = |mark: &str| lines().any(|line| line.contains(mark));
    let begins = |mark: &str| lines().any(|line| line.starts_with(mark));
    let kind = |what: &str, advice| Some(Kind { what: what.into(), advice, verb: "" });
    if text.trim().is_empty() {
        return kind("an empty file", "whatever was to write it wrote nothing");
    }
    if has("(groupid=") && has("jobs=") && has("pid=") {
        return kind("fio's output for people", "run fio with --output-format=json+ --output=FILE");
    }
    if begins("Command Line:") && has("diskspd") || begins("Total IO") && has("AvgLat") {
        return kind("diskspd's output for people", "run diskspd with -Rxml");
    }
    if has("# TYPE node_") || has("# HELP node_") {
        let advice = "it is one look at counters: let Prometheus keep them, and read 'raidlab import history http://HOST:9090'";
        return kind("what node_exporter shows at /metrics", advice);
    }
    if lines().any(|line| line.contains("%user") && line.contains("CPU") && line.contains(':')) {
        return kind("sar's text of processors", "write that of disks, with 'sadf -j FILE -- -d -p'");
    }
    let is_of_pcp = |line: &str| {
        line.split_whitespace().any(|word| word.starts_with("disk.dev.") || word.starts_with("d.d."))
    };
    if lines().any(is_of_pcp) {
        let advice = "write it with 'pmrep -o csv disk.dev.read disk.dev.write disk.dev.read_bytes disk.dev.write_bytes'";
        return kind("text of PCP's pmrep", advice);
    }
    None
}

/// Files that are no text, by what they begin with; bytes that are no text are replacement characters.
const BINARIES: [(&str, &str, &str, &str); 6] = [
    ("PAR1", "a Parquet file", "a trace in it is read by measure and simulate with --trace", "measure"),
    ("SQLite format 3", "a results file", "'raidlab runs --db FILE' shows what is in it", "runs"),
    // Its second number tells the version.
    ("\u{fffd}\u{fffd}u!", "sar's binary", "read it with 'raidlab import history'", "history"),
    ("\u{fffd}\u{fffd}s!", "sar's binary", "read it with 'raidlab import history'", "history"),
    ("\u{fffd}7zXZ", "packed by xz", "unpack it first, or pack it with gzip or zstd", ""),
    ("BZh", "packed by bzip2", "unpack it first, or pack it with gzip or zstd", ""),
];

fn binary(text: &str) -> Option<Kind> {
    let kind = |what: &str, advice, verb| Some(Kind { what: what.into(), advice, verb });
    if let Some((_, what, advice, verb)) = BINARIES.iter().find(|(begin, ..)| text.starts_with(begin)) {
        return kind(what, advice, verb);
    }
    // No text has bytes of zero near its beginning.
    if text.bytes().take(BINARY_BYTES).all(|byte| byte != 0) {
        return None;
    }
    match BinaryTrace::detect(text.as_bytes()) {
        Some(_) => kind("blktrace's binary", "read it with 'raidlab import trace'", "trace"),
        None => {
            kind("a binary file of a kind that is not known", "a trace of oracleGeneral needs --format", "")
        }
    }
}

/// Files of settings that raidlab reads, by what a line of them begins with.
const SETTINGS: [(&str, &str, &str); 4] = [
    ("sources = ", "a history that was taken in", "plan with it: 'raidlab plan --from FILE --usable SIZE'"),
    ("metric = ", "a workload of raidlab", "run it with 'raidlab measure TARGET --workload FILE'"),
    ("level = ", "an array of raidlab", "simulate it with 'raidlab simulate --array FILE'"),
    ("schema = ", "a file of raidlab's settings", "'raidlab reference markdown' says which verbs read such"),
];

/// What raidlab wrote, or reads elsewhere.
fn of_raidlab(text: &str) -> Option<Kind> {
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let kind = |what: &str, advice, verb| Some(Kind { what: what.into(), advice, verb });
    let first = lines.next()?;
    if first.starts_with("{\"schema\":") && first.contains("\"studies\":") {
        return kind("what 'raidlab export json' wrote", "take it in with 'raidlab import runs'", "runs");
    }
    let plain = "run it without --json to read it, and take runs elsewhere with 'raidlab export json'";
    if first == "{" && text.lines().take(LINES).any(|line| line == "  \"alternatives\": [") {
        return kind("an answer of 'raidlab plan'", plain, "");
    }
    // Keys are in order, and answers of other verbs have theirs at the end.
    if first == "{" && text.lines().any(|line| line.starts_with("  \"schema\": ")) {
        return kind("an answer of raidlab", plain, "");
    }
    let begins = |mark: &str| text.lines().take(LINES).any(|line| line.starts_with(mark));
    let (_, what, advice) =
        SETTINGS.iter().find(|(mark, ..)| first.starts_with("schema = ") && begins(mark))?;
    kind(what, advice, "")
}

/// Whether `line` is one of `fio --write_lat_log`, `--write_bw_log` or `--write_iops_log`: `100, 5420, 0, 4096, 0`.
fn is_fio_log(line: &str) -> bool {
    let cells: Vec<&str> = line.split(", ").collect();
    let is_number = |cell: &&str| cell.trim_start_matches("0x").bytes().all(|byte| byte.is_ascii_hexdigit());
    (4..=7).contains(&cells.len())
        && cells.iter().all(|cell| !cell.is_empty() && is_number(cell))
        && matches!(cells[2], "0" | "1" | "2" | "3")
}

fn kind_of(text: &str) -> Option<Kind> {
    let lines = || text.lines().take(LINES).map(str::trim);
    let has = |mark: &str| lines().any(|line| line.contains(mark));
    if let Some(kind) = binary(text) {
        return Some(kind);
    }
    if lines().filter(|line| !line.is_empty()).take(5).all(is_fio_log) && lines().any(|line| !line.is_empty())
    {
        let advice = "take in what fio itself sums up: --output-format=json+ and 'raidlab import runs'";
        return Some(Kind {
            what: "a log of fio (of latencies, bandwidth or IOPS)".into(),
            advice,
            verb: "",
        });
    }
    if let Some(kind) = of_raidlab(text) {
        return Some(kind);
    }
    if is_fio(text) || is_iometer(text) {
        let program = if is_fio(text) { "fio" } else { "Iometer" };
        let what = format!("what {program} measured");
        return Some(Kind { what, advice: "take it in with 'raidlab import runs'", verb: "runs" });
    }
    if let Some(what) = other_tool(text) {
        let what = format!("what {what} measured");
        return Some(Kind { what, advice: "take it in with 'raidlab import runs'", verb: "runs" });
    }
    if is_latency_table(text) {
        let what = "a table of latencies".into();
        return Some(Kind { what, advice: "take it in with 'raidlab import runs'", verb: "runs" });
    }
    if has("'ACCESS SPECIFICATIONS") {
        let what = "a configuration of Iometer".into();
        return Some(Kind { what, advice: "read it with 'raidlab import icf'", verb: "icf" });
    }
    if let Some(format) = raidlab_history::detect(text) {
        let advice = "read it with 'raidlab import history'";
        return Some(Kind { what: format.name().into(), advice, verb: "history" });
    }
    if let Some(kind) = printed(text) {
        return Some(kind);
    }
    let is_job =
        |line: &str| ["rw=", "readwrite=", "ioengine=", "filename="].iter().any(|key| line.starts_with(key));
    if lines().any(|line| line.starts_with('[') && line.ends_with(']')) && lines().any(is_job) {
        let what = "a job file of fio".into();
        return Some(Kind { what, advice: "read it with 'raidlab import fio'", verb: "fio" });
    }
    lines().find_map(detect)?;
    Some(Kind { what: "a block trace".into(), advice: "read it with 'raidlab import trace'", verb: "trace" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_verb_knows_the_files_of_the_others() {
        let files = [
            ("fio", "[a]\nrw=read\n"),
            ("icf", "Version 1.1.0\n'ACCESS SPECIFICATIONS\n"),
            ("runs", "{\"fio version\": \"fio-3.33\", \"jobs\": []}"),
            ("runs", "'Test Type,Test Description\n"),
            ("trace", "0,20941264,8192,W,0.551706\n"),
            ("history", "{\"sysstat\": {\"hosts\": [{\"statistics\": [{\"disk\": []}]}]}}"),
            ("history", "{\"sysstat\":{\"hosts\":[]}}"),
            ("runs", "{\"schema\":1,\"studies\":[],\"runs\":[]}"),
            ("history", "avg-cpu:  %user\nDevice  r/s\n"),
            ("runs", "<Results>\n<TimeSpan>\n"),
            ("runs", "SQLite format 3\0"),
            ("trace", "\u{7}tae\0\0"),
            ("history", "\u{fffd}\u{fffd}u!\0"),
        ];
        for verb in ["fio", "icf", "runs", "trace", "history"] {
            for (owner, text) in files {
                assert_eq!(other_than(verb, text).is_none(), verb == owner, "{verb}: {text}");
            }
        }
        assert_eq!(
            other_than("fio", files[4].1).as_deref(),
            Some("this is a block trace: read it with 'raidlab import trace'")
        );
        assert!(
            other_than("fio", files[5].1)
                .is_some_and(|it| it == "this is iostat's JSON: read it with 'raidlab import history'")
        );
        assert!(other_than("fio", "hello").is_none());
    }

    #[test]
    fn files_that_no_verb_reads_are_named_by_all() {
        for (text, told) in [
            ("", "this is an empty file: "),
            (
                "a: (groupid=0, jobs=1): err= 0: pid=728: Sun Nov 29 18:11:27 2026\n  read: IOPS=51.2k",
                "this is fio's output for people: run fio with --output-format=json+",
            ),
            (
                "\nCommand Line: diskspd.exe -b4K x\n",
                "this is diskspd's output for people: run diskspd with -Rxml",
            ),
            ("# HELP node_disk_io_now The\n", "this is what node_exporter shows at /metrics: "),
            (
                "Linux 6 (vm) \t11/29/26\n\n18:11:25  CPU  %user %nice\n18:11:26  all 1.0 0.0\n",
                "this is sar's text of processors: write that of disks, with 'sadf -j FILE -- -d -p'",
            ),
            ("100, 5420, 0, 4096, 0\n200, 5421, 1, 4096, 0\n", "this is a log of fio"),
            ("BZh91AY", "this is packed by bzip2: unpack it first"),
            ("\u{1}\0\0", "this is a binary file of a kind that is not known: "),
            (
                "schema = 1\nsources = [\"a\"]\n[[device]]\n",
                "this is a history that was taken in: plan with it",
            ),
            (
                "# raidlab measure TARGET\nschema = 1\nname = \"a\"\nmetric = \"iops\"\n\n[[line]]\n",
                "this is a workload of raidlab: run it with 'raidlab measure TARGET --workload FILE'",
            ),
            ("schema = 1\nlevel = \"5\"\n", "this is an array of raidlab: simulate it with"),
            ("schema = 1\ncurrency = \"EUR\"\n", "this is a file of raidlab's settings: "),
            ("{\n  \"alternatives\": [\n", "this is an answer of 'raidlab plan': run it without --json"),
            ("{\n  \"history\": {},\n  \"schema\": 1\n}\n", "this is an answer of raidlab: "),
            (
                "  d.d.read  d.d.read\n       vda       vdb\n",
                "this is text of PCP's pmrep: write it with 'pmrep -o csv",
            ),
        ] {
            for verb in ["fio", "icf", "runs", "trace", "history"] {
                let said = other_than(verb, text).unwrap_or_default();
                assert!(said.starts_with(told), "{verb}: {said}");
            }
        }
    }
}
