//! Text about examined devices, before anything is done with them.

use raidlab_report::terminal::{TerminalOptions, heading, table, wrapped};
use raidlab_runtime::{ArrayFound, DeviceReport, DeviceVerdict, ExamineReport};
use raidlab_units::ByteCount;

/// Prints what was found: the array, or why there is none that may be started, and a line for each device.
pub(super) fn examined(report: &ExamineReport, options: TerminalOptions) -> String {
    let mut text = match &report.array {
        Some(array) => found(array, options),
        None => heading("these devices are no array that may be started", options) + "\n",
    };
    if let Some(reason) = &report.refused {
        text += &wrapped(reason, options.width, 2);
    }
    if report.devices.is_empty() {
        return text;
    }
    text += "\n";
    let header = ["Path", "Name", "Device", "Role", "State"];
    text += &table(&header, header.len(), vec![report.devices.iter().map(row).collect()], options);
    let remarks: Vec<String> = report.devices.iter().filter_map(remark).collect();
    if !remarks.is_empty() {
        text += "\n";
    }
    text + &remarks.iter().map(|remark| wrapped(remark, options.width, 2)).collect::<String>()
}

fn found(array: &ArrayFound, options: TerminalOptions) -> String {
    let title = format!(
        "{}: RAID {} of {} members of {}, {}",
        array.name,
        array.level,
        array.members,
        ByteCount(array.member_bytes),
        array.array_uuid
    );
    let mut text = heading(&title, options) + "\n";
    let integrity = if array.integrity { "on" } else { "off" };
    let clean = if array.dirty { "not stopped cleanly" } else { "clean" };
    text += &wrapped(
        &format!(
            "{clean}, generation {}, strip {}, metadata {}, block integrity {integrity}",
            array.generation,
            ByteCount(array.strip_bytes),
            array.metadata
        ),
        options.width,
        2,
    );
    if let Some(doubt) = &array.doubt {
        let line = format!(
            "redundancy is in doubt: {doubt}; {} regions are to be resynced",
            array.out_of_sync_regions
        );
        text += &wrapped(&line, options.width, 2);
    }
    if array.records > 0 {
        text +=
            &wrapped(&format!("{} intent records are to be written again", array.records), options.width, 2);
    }
    for absent in &array.absent {
        let role = absent.role.map_or(String::new(), |role| format!(", role {role}"));
        let line = format!("device {} is not there ({}{role})", absent.device, absent.state);
        text += &wrapped(&line, options.width, 2);
    }
    text
}

fn row(device: &DeviceReport) -> Vec<String> {
    let number = |number: Option<u16>| number.map_or("-".to_owned(), |number| number.to_string());
    let (place, role, state) = match &device.verdict {
        DeviceVerdict::Present { device, state, role } => (Some(*device), *role, state.as_str()),
        DeviceVerdict::Stale { device, .. } => (Some(*device), None, "stale"),
        DeviceVerdict::Foreign { .. } => (None, None, "another array's"),
        DeviceVerdict::Blank => (None, None, "blank"),
        DeviceVerdict::Unusable { .. } => (None, None, "can't be used"),
        DeviceVerdict::Undecided { device, .. } => (*device, None, "-"),
    };
    vec![
        device.path.display().to_string(),
        device.name.clone().unwrap_or("-".to_owned()),
        number(place),
        number(role),
        state.to_owned(),
    ]
}

/// What is to be said of a device in a sentence.
fn remark(device: &DeviceReport) -> Option<String> {
    let what = match &device.verdict {
        DeviceVerdict::Present { .. } | DeviceVerdict::Blank => None,
        DeviceVerdict::Stale { generation, reason, .. } => {
            Some(format!("stale, generation {generation}: {reason}"))
        }
        DeviceVerdict::Foreign { array_uuid } => Some(format!("belongs to array {array_uuid}")),
        DeviceVerdict::Unusable { reason } => Some(format!("can't be used: {reason}")),
        DeviceVerdict::Undecided { array_uuid, generation, .. } => {
            let array = array_uuid.as_ref().map(|uuid| format!("of {uuid}"));
            let array = array.unwrap_or_else(|| "without the label of an array".to_owned());
            Some(array + &generation.map_or(String::new(), |it| format!(", generation {it}")))
        }
    };
    let head = device.mended.then_some("its head is damaged; read from the copy at its end");
    let copy = "its second copy of label and state, at its end, is damaged; a start repairs it";
    let damage = [head, device.copy_damaged.then_some(copy)].into_iter().flatten().map(str::to_owned);
    let all: Vec<String> = what.into_iter().chain(damage).collect();
    (!all.is_empty()).then(|| format!("{}: {}", device.path.display(), all.join("; ")))
}
