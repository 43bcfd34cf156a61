//! The status of a served array: like `/proc/mdstat`, but in words and with what an operator needs to decide.

use raidlab_report::terminal::{TerminalOptions, heading, printable, table, wrapped};
use raidlab_report::{Cell, Text, three_digits};
use raidlab_runtime::{
    ArrayStatus, Condition, DeviceCondition, DeviceStatus, EventLevel, EventStatus, HistoryLine, ScanOutcome,
    ScanStatus, UndecidedStatus, ZeroedRanges,
};
use raidlab_units::{ByteCount, NanoSpan, counted};

/// Events that are shown, the latest.
const EVENTS_SHOWN: usize = 8;

/// Ranges that a check could not decide that are shown.
const UNDECIDED_SHOWN: usize = 8;

/// Prints how an array is: a few lines about the whole, a table of its devices, its latest events.
pub(super) fn array_status(status: &ArrayStatus, options: TerminalOptions) -> String {
    let mut text = heading(&format!("{}: {}", status.name, array_summary(status)), options) + "\n";
    text += &wrapped(&settings(status), options.width, 2);
    text += &wrapped(&cache(status), options.width, 2);
    if let Some(line) = status.zeroed_ranges.and_then(zeroed_ranges) {
        text += &wrapped(line, options.width, 2);
    }
    if status.lost_blocks > 0 {
        let is_hopeful = status.devices.iter().any(|device| device.unreadable_blocks > 0);
        let hope = if is_hopeful { ", or can be read again ('raidlab array recover' tries)" } else { "" };
        let lost = status.lost_blocks;
        let line = format!("{lost} blocks are lost: they are errors until they are written again{hope}");
        text += &wrapped(&line, options.width, 2);
    }
    if status.out_of_sync_stripes > 0 {
        let line =
            format!("the redundancy of {} stripes is not known to agree yet", status.out_of_sync_stripes);
        text += &wrapped(&line, options.width, 2);
    }
    if let Some(rate) = status.scan_bytes_per_sec_max {
        text += &wrapped(&scan_bound(rate), options.width, 2);
    }
    let rows = [
        ("", &status.scan),
        ("waits for it: ", &status.parked_scan),
        ("latest ", &status.last_scan),
        ("latest ", &status.last_recovery),
    ];
    for (when, scan) in rows {
        if let Some(scan) = scan {
            text += &wrapped(&format!("{when}{}", scan_line(scan)), options.width, 2);
        }
    }
    let undecided = [&status.scan, &status.last_scan].into_iter().flatten().map(|scan| scan.undecided_rows);
    for line in undecided_lines(&status.undecided, undecided.max().unwrap_or(0)) {
        text += &wrapped(&line, options.width, 2);
    }
    if status.wrong_rows > 0 {
        let line = format!(
            "wrong: {} rows, which the latest check left; 'raidlab array check {} --repair' writes them anew from the others",
            status.wrong_rows, status.name
        );
        text += &wrapped(&line, options.width, 2);
    }
    for device in status.devices.iter().filter(|device| device.has_lost_its_name) {
        text += &wrapped(&lost_name(device), options.width, 2);
    }
    text += "\n";
    text += &devices(status, options);
    if !status.events.is_empty() {
        text += "\n";
    }
    for event in &status.events[status.events.len().saturating_sub(EVENTS_SHOWN)..] {
        text += &event_line(event, options);
    }
    text
}

/// Prints the history of an array: these lines behind `skipped` earlier ones, and how many could not be read.
pub(super) fn event_lines(
    lines: &[HistoryLine],
    skipped: usize,
    damaged: u64,
    options: TerminalOptions,
) -> String {
    let mut text: String = lines.iter().map(|line| event_line(&line.event, options)).collect();
    if lines.is_empty() {
        let reason = match skipped {
            0 => "nothing happened".to_owned(),
            many => format!("{many} events are kept, and none was asked for"),
        };
        text += &wrapped(&reason, options.width, 0);
    }
    if damaged > 0 {
        text += &wrapped(&format!("{damaged} lines of the history are damaged"), options.width, 0);
    }
    text
}

/// When it was, how bad, and what.
fn event_line(event: &EventStatus, options: TerminalOptions) -> String {
    let level = match event.level {
        EventLevel::Info => String::new(),
        level => format!("{}: ", level.name()),
    };
    let path = event.path.as_ref().map_or(String::new(), |path| format!(" ({path})"));
    wrapped(&printable(&format!("{} {level}{}{path}", event.time, event.text)), options.width, 0)
}

/// How an array is, in a line: its condition, what it is, and how many members may still fail.
pub(super) fn array_summary(status: &ArrayStatus) -> String {
    let left = match (status.condition, status.failures_left) {
        (Condition::Failed, _) => "data is missing".to_owned(),
        (_, 0) => "no more members may fail".to_owned(),
        (_, 1) => "1 member may fail".to_owned(),
        (_, many) => format!("{many} members may fail"),
    };
    let size = ByteCount(status.volume_bytes);
    let condition = match (status.condition, status.lost_blocks) {
        (Condition::DataLost, blocks) => format!("DATA LOST ({blocks} blocks)"),
        (other, _) => condition(other).to_owned(),
    };
    format!("{condition}, RAID {} of {} members, {size}, {left}", status.level, status.members)
}

const fn condition(condition: Condition) -> &'static str {
    match condition {
        Condition::Starting => "starting",
        Condition::Optimal => "optimal",
        Condition::Resyncing => "resyncing",
        Condition::Undecided => "UNDECIDED",
        Condition::Mismatched => "MISMATCHED",
        Condition::DataLost => "DATA LOST",
        Condition::Degraded => "DEGRADED",
        Condition::Rebuilding => "rebuilding",
        Condition::Failed => "FAILED",
        Condition::Stopping => "stopping",
    }
}

fn settings(status: &ArrayStatus) -> String {
    let integrity = if status.integrity { "on" } else { "off" };
    format!(
        "strip {}, metadata {}, block integrity {integrity}, generation {}, {}",
        ByteCount(status.strip_bytes),
        status.metadata,
        status.generation,
        status.array_uuid
    )
}

/// What is to be known of block checksums that don't tell all zeros of a member from those that nobody has written.
const fn zeroed_ranges(ranges: ZeroedRanges) -> Option<&'static str> {
    match ranges {
        ZeroedRanges::Found => None,
        ZeroedRanges::FoundIfWrittenLately => Some(
            "a range of a member that becomes zeros is found only where something was written since this version serves the array: \
             read the whole volume and write it back once, and it is found everywhere",
        ),
        ZeroedRanges::RecordLost => Some(
            "the record of what was written is lost on all members: a range of a member that became zeros is found only where the \
             checksums of other blocks tell of a write; 'raidlab array check' looks everywhere, and records what was written anew",
        ),
        ZeroedRanges::Believed => Some(
            "a range of a member that becomes zeros is not found: the devices do not record what was written (metadata none, or a \
             log of an older version that leaves no room); an array that is made anew with another policy records it",
        ),
    }
}

fn cache(status: &ArrayStatus) -> String {
    let cache = &status.cache;
    let now = match (cache.writes_back, cache.write_policy.as_str()) {
        (true, _) | (false, "write-through") => "",
        (false, _) => " (writes through now)",
    };
    let kept = match &cache.nvram {
        Some(file) => format!("kept in {file}"),
        None => "volatile".to_owned(),
    };
    let (size, dirty) = (ByteCount(cache.size_bytes), ByteCount(cache.dirty_bytes));
    format!("{}{now}, cache {size}, {kept}, {dirty} dirty", cache.write_policy)
}

fn scan_bound(bytes_per_sec: u64) -> String {
    if bytes_per_sec == 0 {
        return "rebuilds, resyncs, checks and repairs rest: their rate is 0".to_owned();
    }
    format!(
        "rebuilds, resyncs, checks and repairs walk over {}/s of each member at most",
        ByteCount(bytes_per_sec)
    )
}

fn scan_line(scan: &ScanStatus) -> String {
    let target = scan.target.map_or(String::new(), |device| format!(" of device {device}"));
    let share = 100.0 * scan.done_stripes as f64 / scan.total_stripes.max(1) as f64;
    let how = match scan.end {
        None => format!("{share:.1} %"),
        Some(ScanOutcome::Through) => "done".to_owned(),
        Some(ScanOutcome::Stopped) => format!("stopped at {share:.1} %"),
        Some(ScanOutcome::BrokenOff) => format!("broken off at {share:.1} %"),
    };
    let rate = scan.bytes_per_sec.map(|rate| format!(", {} MB/s of each member", three_digits(rate / 1e6)));
    let left = scan.left_ns.map(|left| format!(", {:.0} s left", NanoSpan(left).as_secs_f64()));
    let incomplete = (scan.incomplete_stripes > 0)
        .then(|| format!(", {} stripes not compared in full (a member is missing)", scan.incomplete_stripes));
    let found = if scan.scan == "recovery" {
        format!(", {} came back", counted(scan.recovered_rows, "block"))
    } else {
        let ScanStatus { mismatched_rows, rewritten_rows, unreadable_rows, .. } = scan;
        let undecided = undecided_words(scan);
        format!(
            ", {mismatched_rows} rows disagreed, {rewritten_rows} rewritten, {unreadable_rows} unreadable{undecided}"
        )
    };
    let start = format!("{}{target}: {how}", scan.scan);
    [Some(start), rate, left, incomplete, Some(found)].into_iter().flatten().collect()
}

/// In how many rows a check or repair could not tell what is wrong.
pub(super) fn undecided_words(scan: &ScanStatus) -> String {
    match scan.undecided_rows {
        0 => String::new(),
        many => format!(", {many} UNDECIDED: nothing says what is wrong there"),
    }
}

/// Where a check or repair could not tell what is wrong, and what to do about it.
pub(super) fn undecided_lines(listed: &[UndecidedStatus], rows: u64) -> Vec<String> {
    let place = |found: &UndecidedStatus| {
        let UndecidedStatus { offset_bytes, bytes, strips } = *found;
        let of_each =
            if strips > 1 { format!(", and below them in {strips} strips in all") } else { String::new() };
        format!("undecided: {bytes} bytes from byte {offset_bytes} of the volume{of_each}")
    };
    let mut lines: Vec<String> = listed.iter().take(UNDECIDED_SHOWN).map(place).collect();
    if listed.len() > UNDECIDED_SHOWN {
        lines.push(format!("undecided: {} ranges more; --json lists them", listed.len() - UNDECIDED_SHOWN));
    }
    if rows > 0 {
        lines.push(
            "write what is undecided again from a backup, or have parity made from the data, and copies of the first, with \
             'raidlab array check --repair --trust-data'"
                .to_owned(),
        );
    }
    lines
}

fn lost_name(DeviceStatus { device, path, .. }: &DeviceStatus) -> String {
    let path = path.as_deref().unwrap_or("its path");
    format!(
        "device {device}: the file that the array uses is no longer at {path}: it was removed or renamed. If it was removed, what it holds \
         is gone when the array is stopped: 'raidlab array fail' and 'replace' put another in its place"
    )
}

fn devices(status: &ArrayStatus, options: TerminalOptions) -> String {
    let header = ["Device", "State", "Path", "Role", "In sync %", "Errors", "Bad blocks"];
    table(&header, 3, vec![status.devices.iter().map(device_row).collect()], options)
}

fn device_row(device: &DeviceStatus) -> Vec<Cell> {
    let state = match device.state {
        DeviceCondition::InSync => "in sync",
        DeviceCondition::Rebuilding => "rebuilding",
        DeviceCondition::Spare => "spare",
        DeviceCondition::Empty => "empty",
        DeviceCondition::Missing => "MISSING",
        DeviceCondition::Lost => "LOST",
    };
    let in_sync = match (device.state, device.rebuilt_bytes) {
        (DeviceCondition::InSync, _) => "100".to_owned(),
        (DeviceCondition::Rebuilding, Some(bytes)) => {
            format!("{:.1}", 100.0 * bytes as f64 / device.data_bytes.max(1) as f64)
        }
        _ => "-".to_owned(),
    };
    let is_loud = state.chars().all(char::is_uppercase);
    vec![
        device.device.to_string().into(),
        if is_loud { Text::strong(state).into() } else { state.into() },
        device.path.as_deref().unwrap_or("-").into(),
        device.role.map_or("-".to_owned(), |role| role.to_string()).into(),
        in_sync.into(),
        device.errors.to_string().into(),
        bad_blocks(device).into(),
    ]
}

/// How many blocks are errors, and how many of them `array recover` may bring back.
fn bad_blocks(DeviceStatus { bad_blocks, unreadable_blocks, .. }: &DeviceStatus) -> String {
    if *unreadable_blocks == 0 {
        bad_blocks.to_string()
    } else {
        format!("{bad_blocks} ({unreadable_blocks} unreadable)")
    }
}
