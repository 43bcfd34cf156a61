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
    text += "\n";
    let header = ["Path", "Name", "Device", "Role", "What it is"];
    text + &table(&header, header.len(), vec![report.devices.iter().map(row).collect()], options)
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
    let clean = if array.dirty { "not stopped cleanly" } else { "stopped cleanly" };
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
    let (place, role, mut what) = match &device.verdict {
        DeviceVerdict::Present { device, state, role } => (Some(*device), *role, state.clone()),
        DeviceVerdict::Stale { device, generation, reason } => {
            (Some(*device), None, format!("stale, generation {generation}: {reason}"))
        }
        DeviceVerdict::Foreign { array_uuid } => (None, None, format!("belongs to array {array_uuid}")),
        DeviceVerdict::Blank => (None, None, "blank".to_owned()),
        DeviceVerdict::Unusable { reason } => (None, None, format!("can't be used: {reason}")),
        DeviceVerdict::Undecided { array_uuid, device, generation } => {
            let array = array_uuid.as_ref().map(|uuid| format!("of {uuid}"));
            let array = array.unwrap_or_else(|| "without the label of an array".to_owned());
            let generation = generation.map_or(String::new(), |it| format!(", generation {it}"));
            (*device, None, format!("{array}{generation}"))
        }
    };
    if device.mended {
        what += " (its head is damaged; read from the copy at its end)";
    }
    if device.copy_damaged {
        what += " (its second copy of label and state, at its end, is damaged; a start repairs it)";
    }
    vec![
        device.path.display().to_string(),
        device.name.clone().unwrap_or("-".to_owned()),
        number(place),
        number(role),
        what,
    ]
}
