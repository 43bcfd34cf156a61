//! `raidlab import history`: what monitoring kept, as a file that plans read.

use super::kinds::other_than;
use crate::failure::{Exit, Failure};
use crate::output::{Output, print, print_named, remark};
use crate::whole_file::write_whole;
use raidlab_history::{
    DateOrder, DeviceHistory, History, HistoryFormat, HistoryProblem, Readings, Told, read,
};
use raidlab_report::terminal::table;
use raidlab_units::ByteCount;
use raidlab_worlds::{as_text, read_foreign_text};
use std::io::{BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// What a file of sar begins with, in either order of bytes.
const SAR_MAGICS: [&[u8]; 2] = [&[0x96, 0xd5], &[0xd5, 0x96]];
/// How long a server may take to answer.
const SERVER_TIME: Duration = Duration::from_secs(30);
/// What an answer or an unpacked file becomes at most.
const TEXT_BYTES_MAX: u64 = 1 << 30;
/// What Prometheus is asked for: the counters of `node_exporter`, and those that it had before version 0.16.
const QUERY: &str = "%7B__name__%3D~%22node_disk_((reads_completed%7Cwrites_completed%7Cread_bytes%7Cwritten_bytes%7C\
                     io_time_seconds%7Cio_time_weighted_seconds%7Cread_time_seconds%7Cwrite_time_seconds)_total%7C\
                     reads_completed%7Cwrites_completed%7Cbytes_read%7Cbytes_written%7Csectors_read%7Csectors_written%7C\
                     io_time_ms%7Cio_time_weighted%7Cread_time_ms%7Cwrite_time_ms)%22%7D";

/// Arguments of `raidlab import history`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// What a monitoring tool kept: sar (`sa15`, or what `sadf -j` prints), iostat, PCP, Prometheus, `pg_stat_io`, esxtop, Windows; or the
    /// address of a Prometheus server, `http://HOST:9090`, whose `node_exporter` is asked. Several are put together; - is standard input
    #[arg(required = true, value_name = "FILE|URL")]
    files: Vec<String>,
    /// Write the history here, for 'raidlab plan --from'; without it the figures are printed only
    #[arg(long, short, value_name = "FILE.toml")]
    output: Option<PathBuf>,
    /// Take these devices only, by their names in the history; may be repeated. Without it, partitions, volumes and arrays of devices that
    /// are there themselves are left out, since each of their requests is one to those, too
    #[arg(long, value_name = "NAME")]
    device: Vec<String>,
    /// What stands first in dates such as 05/06/24, in all formats; a day beyond 12 in the file tells
    #[arg(long, value_enum, value_name = "ORDER")]
    dates: Option<Dates>,
    /// iostat ran with -y: its first report is one as the others, and no mean since the start of the system
    #[arg(long)]
    no_since_boot: bool,
    /// How far back a server is asked
    #[arg(long, default_value_t = 30, value_name = "DAYS", value_parser = clap::value_parser!(u32).range(1..=3650))]
    days: u32,
}

/// What stands first in a date.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Dates {
    /// As in the United States, and with `LC_ALL=C`
    MonthFirst,
    /// As in most of the world
    DayFirst,
}

/// Runs the verb.
pub(super) fn run(args: &Args, output: &Output) -> Result<Exit, Failure> {
    let (mut sources, mut readings) = (Vec::new(), Readings::default());
    let dates = args.dates.map(|dates| match dates {
        Dates::MonthFirst => DateOrder::MonthFirst,
        Dates::DayFirst => DateOrder::DayFirst,
    });
    let told = Told { dates, has_no_report_since_boot: args.no_since_boot };
    for file in &args.files {
        let (format, found) = of_source(file, args.days, told)?;
        sources.push((file.clone(), format));
        readings.merge(found);
    }
    let mut history = History::of(&sources, &readings, &args.device);
    if !args.device.is_empty() {
        let names: Vec<String> = history.devices.iter().map(|device| device.device.clone()).collect();
        history.devices.retain(|device| args.device.contains(&device.device));
        if let Some(unknown) = args.device.iter().find(|name| !names.contains(name)) {
            let problem = anyhow::anyhow!("there is no device '{unknown}': there are {}", names.join(", "));
            return Err(Failure::input(problem));
        }
    }
    if let Some(path) = &args.output {
        write_whole(path, history.to_toml())?;
    }
    if output.is_json() {
        print_named("history", &history)?;
    } else {
        print(&in_words(&history, output))?;
    }
    history.notes.iter().for_each(|note| remark(format_args!("note: {note}")));
    if let Some(path) = &args.output {
        remark(format_args!("plan: raidlab plan --from {} --usable SIZE", path.display()));
    }
    Ok(Exit::Done)
}

fn of_source(name: &str, days: u32, told: Told) -> Result<(HistoryFormat, Readings), Failure> {
    let text = if let Some(address) = name.strip_prefix("http://") {
        of_server(name, address, days)?
    } else if name.starts_with("https://") {
        let problem = anyhow::anyhow!("{name}: servers are asked over plain HTTP only");
        let hint = "save what 'curl \"ADDRESS/api/v1/query_range?...\"' prints, and import that file; or ask it as http://HOST:9090";
        return Err(Failure::input(problem).with_hint(hint));
    } else if is_sar(Path::new(name)) {
        of_sar(name)?
    } else {
        read_foreign_text(Path::new(name)).map_err(Failure::input)?
    };
    read(name, &text, told).map_err(|error| match (&error.problem, other_than("history", &text)) {
        (HistoryProblem::UnknownFormat, Some(kind)) => {
            Failure::input(anyhow::anyhow!("{name} holds no history: {kind}"))
        }
        _ => Failure::input(error),
    })
}

/// Whether the file is one of sar's own.
fn is_sar(path: &Path) -> bool {
    let mut first = [0; 2];
    let read = std::fs::File::open(path)
        .and_then(|file| as_text(BufReader::new(file)).and_then(|mut text| text.read_exact(&mut first)));
    read.is_ok() && SAR_MAGICS.iter().any(|magic| first == *magic)
}

/// What `sadf` makes of a file of sar: its form changes from version to version, and sadf reads that of its own.
fn of_sar(name: &str) -> Result<String, Failure> {
    let command = format!("sadf -j {name} -- -d -p");
    let hint = "install sysstat of the version that wrote it, or run that there and import what it prints";
    let ran = Command::new("sadf").args(["-j", name, "--", "-d", "-p"]).env("LC_ALL", "C").output();
    let ran =
        ran.map_err(|error| Failure::input(anyhow::anyhow!("'{command}' failed: {error}")).with_hint(hint))?;
    if !ran.status.success() {
        let said = String::from_utf8_lossy(&ran.stderr).trim().to_owned();
        return Err(Failure::input(anyhow::anyhow!("'{command}' failed: {said}")).with_hint(hint));
    }
    Ok(String::from_utf8_lossy(&ran.stdout).into_owned())
}

/// What a Prometheus server answers, over plain HTTP.
fn of_server(name: &str, address: &str, days: u32) -> Result<String, Failure> {
    let failed = |error: std::io::Error| {
        Failure::input(anyhow::Error::new(error).context(format!("{name} does not answer")))
    };
    let (host, base) = address.split_once('/').unwrap_or((address, ""));
    let base = base.trim_end_matches('/');
    let with_port = if host.contains(':') { host.to_owned() } else { format!("{host}:9090") };
    let end = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |it| it.as_secs());
    let span = u64::from(days) * 86_400;
    // A server answers with 11,000 points of a series at most.
    let step = (span / 10_000).max(15);
    let slash = if base.is_empty() { "" } else { "/" };
    let path =
        format!("/{base}{slash}api/v1/query_range?query={QUERY}&start={}&end={end}&step={step}", end - span);
    let mut stream = TcpStream::connect(&with_port).map_err(failed)?;
    stream.set_read_timeout(Some(SERVER_TIME)).map_err(failed)?;
    // Without chunks, which HTTP 1.0 does not know.
    let asked = format!("GET {path} HTTP/1.0\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    stream.write_all(asked.as_bytes()).map_err(failed)?;
    let mut answer = Vec::new();
    stream.take(TEXT_BYTES_MAX).read_to_end(&mut answer).map_err(failed)?;
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let status = head.lines().next().unwrap_or("");
    if status.split(' ').nth(1) != Some("200") {
        let said: String = body.chars().take(200).collect();
        return Err(Failure::input(anyhow::anyhow!("{name} answers '{status}': {said}")));
    }
    Ok(body.to_owned())
}

fn in_words(history: &History, output: &Output) -> String {
    let known =
        |figure: Option<f64>, digits: usize| figure.map_or("-".to_owned(), |it| format!("{it:.digits$}"));
    let bytes = |figure: Option<f64>| figure.map_or("-".to_owned(), |it| format!("{:.1}", it / 1024.0));
    let written = |it: &DeviceHistory| {
        it.written_bytes_per_day.map_or("-".to_owned(), |it| ByteCount(it as u64).decimal().to_string())
    };
    let load = |it: &DeviceHistory| {
        vec![
            format!("{} {}", it.host, it.device),
            known(it.iops.map(|it| it.mean), 0),
            known(it.iops.map(|it| it.p95), 0),
            known(it.iops.map(|it| it.max), 0),
            known(it.mb_per_s.map(|it| it.p95), 1),
            known(it.read_pct, 0),
            bytes(it.mean_read_bytes),
            bytes(it.mean_write_bytes),
        ]
    };
    let time = |it: &DeviceHistory| {
        vec![
            format!("{} {}", it.host, it.device),
            it.readings.to_string(),
            known(it.days, 1),
            known(it.busy_pct.map(|it| it.p95), 0),
            written(it),
            known(it.growth_pct_per_year, 0),
            match it.busiest_hour {
                Some(hour) => hour.to_string(),
                None if it.iops_by_hour.is_empty() => "-".to_owned(),
                None => "flat".to_owned(),
            },
        ]
    };
    let heads: [&[&str]; 2] = [
        &["Device", "IOPS", "p95", "Max", "MB/s p95", "Reads %", "Read KiB", "Write KiB"],
        &["Device", "Readings", "Days", "Busy % p95", "Written/day", "Growth %/y", "Peak hour"],
    ];
    let rows = |of: &dyn Fn(&DeviceHistory) -> Vec<String>| vec![history.devices.iter().map(of).collect()];
    let tables = [
        table(heads[0], 1, rows(&load), output.terminal()),
        table(heads[1], 1, rows(&time), output.terminal()),
    ];
    tables.join("\n")
}
