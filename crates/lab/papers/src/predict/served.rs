//! Rows of file servers and networks: the workload is `cdf-` and an action, the `system` column begins with the server.
//!
//! | system | meaning |
//! |---|---|
//! | `asa/3ware-7850` | a server with one or more such controllers (`volumes`), each with `drives` drives |
//! | `polywell/3ware-7850+md0` | a software stripe over two of them, which share `drives` |
//! | `asa/nfs-udp-8k-jumbo` | its files over NFS: transport, transfer size, and packets of 9000 bytes |
//! | `asa/nfs2-udp-8k`, `asa/nfs3-tcp-32k` | the same, with version 2 or 3: version 2 carries at most 8 KiB a call |
//! | `asa/gigabit/sk-9843/mtu-1500`, `gigabit/sk-9843/mtu-9000` | a network, with the server's files or without |
//! | `asa/rootd` | its files over rootd |
//!
//! Open settings come from the server's entry in the catalogue. Some figures are in the note only: the chunk of a
//! stripe, the length of packets, and whether rootd's client was on the network.

use super::setup::{modelled_array, problem, unknown};
use super::{PredictTask, Setup, SetupLoad};
use crate::published::{PublishedRow, RowProblem};
use raidlab_controller::WritePolicy;
use raidlab_hardware::{Catalog, CatalogError, FileServerModel};
use raidlab_units::ByteCount;
use raidlab_worlds::Models;
use raidlab_worlds::served::{Access, SentLoad, ServedLoad, USUAL_READS};

/// How a system names NFS, and the longest READ in KiB: of version 2 by its protocol (RFC 1094, `MAXDATA`), of version 3 no more
/// than it can say.
const NFS_VERSIONS: [(&str, u64); 3] = [("nfs2-", 8), ("nfs3-", 1024), ("nfs-", 1024)];

/// What workloads of file servers are called: this and what is done.
pub(crate) const SERVED: &str = "cdf-";

const READERS: &str = "cdf-parallel-read";
const FROM_DISK: &str = "cdf-disk-to-memory";
const FROM_MEMORY: &str = "cdf-memory-to-memory";
const ROOTD: &str = "cdf-rootd-read";
const ALL: [&str; 4] = [READERS, FROM_DISK, FROM_MEMORY, ROOTD];

/// Packets of a network whose system does not say.
const USUAL_MTU: u64 = 1500;
/// Packets where it says `jumbo`.
const JUMBO_MTU: u64 = 9000;
/// Files where a row does not say.
const USUAL_FILE: ByteCount = ByteCount::from_mib(512);
/// Chunk of a stripe whose note does not say: the tools' default of that time.
const USUAL_CHUNK_KIB: u64 = 64;

/// The simulation of a row of a file server or a network, or everything that is wrong with it.
pub(super) fn set_up_served(row: &PublishedRow, task: &PredictTask<'_>) -> Result<Setup, Vec<RowProblem>> {
    let one = |problem| vec![problem];
    if !ALL.contains(&row.workload.as_str()) {
        let why = format!("is none of {}", ALL.join(", "));
        let nearest = raidlab_workload::toml_file::nearest(&row.workload, ALL.iter().copied());
        return Err(one(problem(row, "workload", &row.workload, why, nearest.map(str::to_owned))));
    }
    if row.workload == FROM_MEMORY {
        let sent = sent_of(row, &row.system, task.catalog).map_err(one)?;
        return Ok(Setup { array: None, load: SetupLoad::Network(sent) });
    }
    let Some((server, rest)) = row.system.split_once('/') else {
        let why = "must be a file server and what it has, such as asa/3ware-7850";
        return Err(one(problem(row, "system", &row.system, why.into(), None)));
    };
    let known = task.catalog.server(server).map_err(|error| one(unknown(row, "system", error)))?;
    let access = access_of(row, rest, (server, known), task.catalog).map_err(one)?;
    let hardware = if access == Access::Local { rest } else { "" };
    set_up_on(row, task, known, access, hardware)
}

/// The setup of a row on a known server, whose controller is `hardware` or else what the server is said to serve.
fn set_up_on(
    row: &PublishedRow,
    task: &PredictTask<'_>,
    server: &FileServerModel,
    access: Access,
    hardware: &str,
) -> Result<Setup, Vec<RowProblem>> {
    let one = |problem| vec![problem];
    let Some(row) = filled(row, server, hardware) else {
        let why = "must name a controller: nothing is known of what this server serves";
        return Err(one(problem(row, "system", &row.system, why.into(), None)));
    };
    let controller = row.system.strip_suffix("+md0");
    let is_striped = controller.is_some();
    let controller = controller.unwrap_or(&row.system).to_owned();
    let catalog = task.catalog;
    let controller = catalog.controller(&controller).map_err(|error| one(unknown(&row, "system", error)))?;
    let drive = catalog.drive(&row.drive).map_err(|error| one(unknown(&row, "drive", error)))?;
    let filesystem = row.filesystem.clone().expect("it was filled in");
    catalog.filesystem(&filesystem).map_err(|error| one(unknown(&row, "filesystem", error)))?;
    let controllers = if is_striped { 2 } else { row.volumes.max(1) };
    let models = Models { controller, enclosure: None, drive, beside: None };
    let of_each = if is_striped { part_of_stripe(&row) } else { row.clone() };
    let array = modelled_array(&of_each, &models, &task.options_of(&row)).map_err(one)?;
    let load = ServedLoad {
        server: server.id.clone(),
        filesystem,
        controllers: u16::try_from(controllers).unwrap_or(u16::MAX),
        stripe: is_striped.then(|| ByteCount::from_kib(chunk_kib(&row))),
        streams: if access == Access::Local || matches!(access, Access::Nfs { .. }) {
            row.streams.max(1)
        } else {
            1
        },
        file: row.file.unwrap_or(USUAL_FILE),
        block: row.block.filter(|_| row.workload == READERS).unwrap_or(ByteCount::from_mib(1)),
        reads: USUAL_READS,
        access,
        seed: task.options_of(&row).seed,
    };
    Ok(Setup { array: Some(array), load: SetupLoad::Served(load) })
}

/// The row with what it leaves open filled in from what the server is said to serve.
fn filled(row: &PublishedRow, server: &FileServerModel, hardware: &str) -> Option<PublishedRow> {
    let mut row = row.clone();
    if let Some(served) = &server.served {
        let or = |text: &mut String, usual: &str| {
            if text.is_empty() {
                usual.clone_into(text);
            }
        };
        or(&mut row.raid, &served.level);
        or(&mut row.drive, &served.drive);
        row.drives = if row.drives == 0 { served.drives } else { row.drives };
        row.system = if hardware.is_empty() { served.controller.clone() } else { hardware.to_owned() };
        row.filesystem = row.filesystem.or_else(|| Some(served.filesystem.clone()));
    } else if hardware.is_empty() {
        return None;
    } else {
        hardware.clone_into(&mut row.system);
        row.filesystem = row.filesystem.or_else(|| Some("ext2".to_owned()));
    }
    row.write_policy = row.write_policy.or(Some(WritePolicy::WriteThrough));
    Some(row)
}

/// The row of one of two arrays that a software stripe goes over: RAID 50 is a stripe over RAID 5.
fn part_of_stripe(row: &PublishedRow) -> PublishedRow {
    let raid = match row.raid.as_str() {
        "50" => "5",
        "60" => "6",
        "10" => "1",
        other => other,
    };
    PublishedRow { raid: raid.to_owned(), drives: row.drives / 2, ..row.clone() }
}

fn access_of(
    row: &PublishedRow,
    rest: &str,
    (server, model): (&str, &FileServerModel),
    catalog: &Catalog,
) -> Result<Access, RowProblem> {
    let network = model.served.as_ref().map(|served| served.network.clone());
    let no_network = || {
        let why = format!("is reached over a network, and nothing is known of that of '{server}'");
        problem(row, "system", &row.system, why, None)
    };
    if row.workload == FROM_DISK {
        return Ok(Access::Socket { sent: sent_of(row, rest, catalog)? });
    }
    if row.workload == ROOTD {
        let mtu = ByteCount(if rest.ends_with("-jumbo") { JUMBO_MTU } else { USUAL_MTU });
        if row.note == "local" {
            return Ok(Access::Rootd { network: None, mtu });
        }
        return Ok(Access::Rootd { network: Some(network.ok_or_else(no_network)?), mtu });
    }
    let Some((nfs, most)) =
        NFS_VERSIONS.iter().find_map(|(name, most)| Some((rest.strip_prefix(name)?, *most)))
    else {
        return Ok(Access::Local);
    };
    if model.nfs.is_none() {
        let why = format!("asks for NFS, and nothing is known of the NFS server of '{server}'");
        return Err(problem(row, "system", &row.system, why, None));
    }
    let mut words = nfs.split('-');
    let tcp = match words.next() {
        Some("tcp") => Some(true),
        Some("udp") => Some(false),
        _ => None,
    };
    let transfer =
        words.next().and_then(|size| size.strip_suffix('k')).and_then(|kib| kib.parse::<u64>().ok());
    let mtu = match (words.next(), words.next()) {
        (None, None) => Some(USUAL_MTU),
        (Some("jumbo"), None) => Some(JUMBO_MTU),
        _ => None,
    };
    let (Some(tcp), Some(kib @ 1..=1024), Some(mtu)) = (tcp, transfer, mtu) else {
        let why = "must name transport and transfer size as in nfs-udp-8k or nfs-tcp-32k-jumbo";
        return Err(problem(row, "system", &row.system, why.into(), None));
    };
    if kib > most {
        let why = format!("asks for calls of {kib} KiB, and this version of NFS carries {most} KiB at most");
        return Err(problem(row, "system", &row.system, why, None));
    }
    let network = network.ok_or_else(no_network)?;
    Ok(Access::Nfs { network, transfer: ByteCount::from_kib(kib), mtu: ByteCount(mtu), tcp })
}

/// What a row sends, whose system ends in `gigabit/network/mtu-n`.
fn sent_of(row: &PublishedRow, system: &str, catalog: &Catalog) -> Result<SentLoad, RowProblem> {
    let words: Vec<&str> = system.split('/').collect();
    let ["gigabit", network, mtu] = words.as_slice() else {
        let why = "must end in a network and its longest packet, as in gigabit/sk-9843/mtu-1500";
        return Err(problem(row, "system", &row.system, why.into(), None));
    };
    let known = catalog.network(network).map_err(|error: CatalogError| unknown(row, "system", error))?;
    let mtu: Option<u64> = mtu.strip_prefix("mtu-").and_then(|bytes| bytes.parse().ok());
    let Some(mtu) = mtu.filter(|mtu| (100..=65_535).contains(mtu)) else {
        let why = "must end in mtu- and a number from 100 to 65535";
        return Err(problem(row, "system", &row.system, why.into(), None));
    };
    let Some(send) = row.block.filter(|send| send.get() > 0) else {
        return Err(problem(row, "block_kib", "", "is empty but needed: the size of a call".into(), None));
    };
    // What the publication says of the packets themselves counts more than the longest that there could be.
    let packet = number_after(&row.note, "IP packet ").filter(|bytes| (100..=mtu).contains(bytes));
    Ok(SentLoad { network: known.id.clone(), packet: ByteCount(packet.unwrap_or(mtu)), send })
}

fn chunk_kib(row: &PublishedRow) -> u64 {
    let found = row.note.find(" KiB chunk").and_then(|end| {
        let digits =
            row.note[..end].rfind(|letter: char| !letter.is_ascii_digit()).map_or(0, |before| before + 1);
        row.note[digits..end].parse().ok()
    });
    found.filter(|kib| (4..=65_536).contains(kib)).unwrap_or(USUAL_CHUNK_KIB)
}

/// The number that follows `before` in `note`.
fn number_after(note: &str, before: &str) -> Option<u64> {
    let rest = &note[note.find(before)? + before.len()..];
    let digits = rest.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(rest.len());
    rest[..digits].parse().ok()
}

#[cfg(test)]
mod tests;
