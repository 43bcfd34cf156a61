//! Readers of a file server's files, on the server or over a network, and networks by themselves.
//!
//! | load | what is simulated |
//! |---|---|
//! | parallel readers | N streams in virtual time, locally or by NFS ([`raidlab_sim::simulate_streams`]) |
//! | disk-to-memory | one stream in virtual time gives the file's rate, the network's formula the rest |
//! | rootd | the same, with reading, sending and receiving alternating, block by block |
//! | memory-to-memory | the network's formula |
//!
//! A rate of N readers is N times the length of a file, divided by the mean time of the timed files.

use super::array_settings;
use crate::arrays::{ModelledArray, Models, array_facts};
use crate::simulated::SimulatedError;
use raidlab_hardware::{
    Catalog, CatalogError, FileServerModel, FilesystemModel, NetworkFlow, NetworkLoad, NetworkModel,
    Transport,
};
use raidlab_sim::{
    ControllerName, NfsSpec, PlacedFile, SimulatedEnclosure, StreamsOutcome, StreamsSpec, StreamsVolume,
    simulate_streams,
};
use raidlab_units::{ByteCount, BytesPerSec, NanoSpan};
use raidlab_workload::program::{FileId, Readers, ReadersConfig, StreamsFigures};
use raidlab_workload::{Counts, Measurement, Metric, OpStats, Rng, RunResult, World, derived_seed};
use serde::Serialize;
use std::time::Instant;

/// Readers of files on a server.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ServedLoad {
    /// The server, by its name in the catalogue.
    pub server: String,
    /// The filesystem on its volumes.
    pub filesystem: String,
    /// Its controllers, each with one array.
    pub controllers: u16,
    /// Chunk of a software stripe over all of them; without one each is a volume of its own.
    pub stripe: Option<ByteCount>,
    /// Readers at once.
    pub streams: u32,
    /// Length of each file.
    pub file: ByteCount,
    /// Length of a read.
    pub block: ByteCount,
    /// Files that each reader has: the timed one, and those that keep the load up.
    pub reads: u32,
    /// How the readers get at it.
    pub access: Access,
    /// Seed of all that is random.
    pub seed: u64,
}

/// How readers get at the files of a server.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "by")]
pub enum Access {
    /// On the server itself.
    Local,
    /// By NFS.
    Nfs {
        /// The network, by its name in the catalogue.
        network: String,
        /// Bytes of a call.
        transfer: ByteCount,
        /// Longest packet.
        mtu: ByteCount,
        /// Whether calls travel over TCP.
        tcp: bool,
    },
    /// A program on the server reads the file and sends it as fast as it can.
    Socket {
        /// What is sent, and over which network.
        sent: SentLoad,
    },
    /// A program on the server sends a block whenever the client asks for one.
    Rootd {
        /// The network; without one the client is on the server.
        network: Option<String>,
        /// Longest packet.
        mtu: ByteCount,
    },
}

/// A stream over a network.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SentLoad {
    /// The network, by its name in the catalogue.
    pub network: String,
    /// Length of an IP packet.
    pub packet: ByteCount,
    /// Bytes of a call.
    pub send: ByteCount,
}

impl ServedLoad {
    fn look_up<'a>(
        &self,
        catalog: &'a Catalog,
    ) -> Result<(&'a FileServerModel, &'a FilesystemModel), CatalogError> {
        Ok((catalog.server(&self.server)?, catalog.filesystem(&self.filesystem)?))
    }

    /// The network that it goes over, if it does.
    ///
    /// # Errors
    /// [`CatalogError::UnknownId`] if `catalog` lacks it.
    pub fn network<'a>(&self, catalog: &'a Catalog) -> Result<Option<&'a NetworkModel>, CatalogError> {
        match &self.access {
            Access::Local | Access::Rootd { network: None, .. } => Ok(None),
            Access::Nfs { network, .. } | Access::Rootd { network: Some(network), .. } => {
                catalog.network(network).map(Some)
            }
            Access::Socket { sent } => catalog.network(&sent.network).map(Some),
        }
    }
}

/// Runs `load` on controllers with one `array` each. The same input gives the same result, but for `cost.wall_ns`.
///
/// # Errors
/// [`SimulatedError`] if the array, the files or both together make no sense.
///
/// # Panics
/// If `catalog` lacks what the load names, which is to be looked up before.
pub fn run_served(
    models: &Models<'_>,
    array: &ModelledArray,
    load: &ServedLoad,
    catalog: &Catalog,
) -> Result<RunResult, SimulatedError> {
    let started = Instant::now();
    let facts = array_facts(&array.config, &array.controller_label(), &array.parts.drive)?;
    let (server, filesystem) = load.look_up(catalog).expect("rows were looked up");
    let network = load.network(catalog).expect("rows were looked up");
    let mut spec = spec_of(models, array, load, (server, filesystem));
    if let Access::Nfs { transfer, mtu, tcp, .. } = load.access {
        let transport = if tcp { Transport::Tcp } else { Transport::Udp };
        let (server, network) = (server.nfs.expect("checked"), network.expect("checked").clone());
        spec.nfs = Some(NfsSpec { server, network, transfer, mtu, transport });
    }
    let files = (0..load.streams).map(|stream| files_of(stream, load)).collect();
    let mut readers = Readers::new(ReadersConfig { block: load.block, files })?;
    let outcome = simulate_streams(&spec, &mut readers, load.seed)?;
    let streams = StreamsFigures::of(&readers, load.file, load.block, None);
    let (rate, mean) = (streams.aggregate(), streams.mean_time());
    let target = format!("{}, {} at file server {}", array.label(), load.filesystem, load.server);
    let mut result = RunResult::unmeasured(World::Simulated, target, workload_name(load), Metric::MbPerS);
    match &load.access {
        Access::Local | Access::Nfs { .. } => result.set_streams(streams),
        Access::Socket { sent } => {
            let sent = flow(network.expect("checked"), sent, Some(rate)).rate;
            result.set_measurement(&measurement(sent, mean));
        }
        Access::Rootd { mtu, .. } => {
            result.set_measurement(&measurement(rootd_rate(server, network, *mtu, rate), mean));
        }
    }
    (result.iodepth, result.seed, result.array) = (load.streams, load.seed, Some(facts));
    result.cost.wall_ns = started.elapsed().as_nanos() as u64;
    result.settings.extend(array_settings(&array.config));
    result.settings.extend(served_settings(load, &outcome, &readers));
    Ok(result)
}

/// The stream of `load` from memory to memory.
///
/// # Panics
/// If `catalog` lacks the network, which is to be looked up before.
pub fn run_network(load: &SentLoad, catalog: &Catalog) -> RunResult {
    let network = catalog.network(&load.network).expect("rows were looked up");
    let NetworkFlow { rate, sender, receiver, wire, interrupts_per_sec, packets_per_sec } =
        flow(network, load, None);
    let target = format!("{} with packets of {}", network.name, load.packet);
    let name = format!("memory to memory, {} a call", load.send);
    let mut result = RunResult::unmeasured(World::Simulated, target, name, Metric::MbPerS);
    result.set_measurement(&measurement(rate, NanoSpan::from_secs(1)));
    let settings = [
        ("sender's processor", percent(sender)),
        ("receiver's processor", percent(receiver)),
        ("wire", percent(wire)),
        ("interrupts per second", format!("{interrupts_per_sec:.0}")),
        ("packets per second", format!("{packets_per_sec:.0}")),
    ];
    result.settings.extend(settings.map(|(name, value)| (name.to_owned(), value)));
    result
}

fn flow(network: &NetworkModel, sent: &SentLoad, file: Option<BytesPerSec>) -> NetworkFlow {
    network.flow(&NetworkLoad { packet: sent.packet, send: sent.send, file })
}

/// A block is read, sent and received, and then the next one is asked for: the times of all three add up. On the server
/// itself sending and receiving are two copies.
fn rootd_rate(
    server: &FileServerModel,
    network: Option<&NetworkModel>,
    mtu: ByteCount,
    file: BytesPerSec,
) -> BytesPerSec {
    /// Length of a block, and of the way there and back. Source of the length: rootd's transfer buffer.
    const BLOCK: ByteCount = ByteCount::from_kib(64);
    const WAY: NanoSpan = NanoSpan::from_micros(100);
    let sending = match network {
        None => 2.0 / server.copy.0,
        Some(network) => {
            let load = NetworkLoad { packet: mtu, send: BLOCK, file: None };
            1.0 / network.flow(&load).rate.0 + WAY.as_secs_f64() / BLOCK.0 as f64
        }
    };
    BytesPerSec(1.0 / (1.0 / file.0 + sending))
}

fn workload_name(load: &ServedLoad) -> String {
    match &load.access {
        Access::Local | Access::Nfs { .. } => format!("parallel read of {}", load.block),
        Access::Socket { sent } => format!("disk to memory, {} a call", sent.send),
        Access::Rootd { .. } => "rootd".to_owned(),
    }
}

/// Files that each reader has where nobody says.
pub const USUAL_READS: u32 = 4;

fn files_of(stream: u32, load: &ServedLoad) -> Vec<FileId> {
    (0..load.reads).map(|turn| FileId(stream + turn * load.streams)).collect()
}

fn spec_of(
    models: &Models<'_>,
    array: &ModelledArray,
    load: &ServedLoad,
    (server, filesystem): (&FileServerModel, &FilesystemModel),
) -> StreamsSpec {
    let volume = models.volume(&array.config, ControllerName::A);
    let enclosure =
        SimulatedEnclosure { controller: models.controller_in_place(), second: None, volumes: vec![volume] };
    let part = |port| (port, 0);
    let (volumes, usable): (Vec<_>, _) = if let Some(chunk) = load.stripe {
        let parts = (0..load.controllers).map(part).collect();
        (vec![StreamsVolume { parts, chunk }], ByteCount(array.usable.0 * u64::from(load.controllers)))
    } else {
        let chunk = array.config.strip_size;
        let volumes = (0..load.controllers).map(|port| StreamsVolume { parts: vec![part(port)], chunk });
        (volumes.collect(), array.usable)
    };
    StreamsSpec {
        server: server.clone(),
        enclosures: vec![enclosure; usize::from(load.controllers)],
        files: place_files(load, (server, filesystem), (volumes.len() as u32, usable)),
        volumes,
        map_every: filesystem.map_every,
        nfs: None,
    }
}

/// Files stand one spacing apart in the order of their numbers, give or take some MiB, on the volumes in turn; at the end of a
/// volume they begin again at its start. Where maps stand apart, they come first, and files behind them.
fn place_files(
    load: &ServedLoad,
    (server, filesystem): (&FileServerModel, &FilesystemModel),
    (volumes, usable): (u32, ByteCount),
) -> Vec<PlacedFile> {
    const BLOCK: u64 = 4096;
    const SPREAD_BLOCKS: u64 = 1024;
    let mut random = Rng::new(derived_seed(load.seed, 2));
    // Its map needs less room than a hundredth of a file.
    let taken = load.file.0 + load.file.0 / 100 + (SPREAD_BLOCKS + 2) * BLOCK;
    let map_area = filesystem.map_area_pct.map_or(0, |pct| usable.0 / 100 * u64::from(pct) / BLOCK * BLOCK);
    let room = usable.0.saturating_sub(map_area + taken).max(1);
    let maps = filesystem.map_every.map_or(0, |every| load.file.0.div_ceil(every.0));
    let place = |number: u32| {
        let start = map_area + u64::from(number) * server.file_spacing.0 % room / BLOCK * BLOCK;
        let map = filesystem.map_area_pct.map(|_| ByteCount(u64::from(number) * maps * BLOCK));
        PlacedFile {
            volume: (number % load.streams % volumes) as u16,
            start: ByteCount(start + random.below(SPREAD_BLOCKS) * BLOCK),
            bytes: load.file,
            map,
        }
    };
    (0..load.streams * load.reads).map(place).collect()
}

/// What stands for reads that came at `rate` for `window`.
fn measurement(rate: BytesPerSec, window: NanoSpan) -> Measurement {
    let bytes = ByteCount((rate.0 * window.as_secs_f64()).round() as u64);
    let read = OpStats { requests: 1, bytes, ..OpStats::default() };
    Measurement { window, ops: Counts { read, ..Counts::default() }, ..Measurement::default() }
}

fn served_settings(load: &ServedLoad, outcome: &StreamsOutcome, readers: &Readers) -> Vec<(String, String)> {
    let rates: Vec<f64> = readers.figures().flatten().map(|figures| figures.rate().mb_per_s()).collect();
    let slowest = rates.iter().copied().fold(f64::INFINITY, f64::min);
    let fastest = rates.iter().copied().fold(0.0, f64::max);
    let settings = [
        ("file server", load.server.clone()),
        ("filesystem", load.filesystem.clone()),
        ("file", load.file.to_string()),
        ("virtual time", outcome.virtual_time.to_string()),
        ("slowest reader", format!("{slowest:.2} MB/s")),
        ("fastest reader", format!("{fastest:.2} MB/s")),
        ("load fell short", readers.fell_short().to_string()),
        ("bus", percent(outcome.bus)),
        ("server's processors", percent(outcome.processors)),
        ("client's processors", percent(outcome.client)),
    ];
    settings.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_maps_stand_apart_they_come_first_and_all_data_behind_them() {
        let catalog = Catalog::builtin();
        let usable = ByteCount::from_gib(100);
        let tenth = usable.0 / 10;
        for (filesystem, is_apart) in [("ext2", false), ("jfs", false), ("reiserfs", true)] {
            let load = ServedLoad {
                server: "level3-fc".into(),
                filesystem: filesystem.into(),
                controllers: 1,
                stripe: None,
                streams: 40,
                file: ByteCount::from_mib(512),
                block: ByteCount::from_mib(1),
                reads: USUAL_READS,
                access: Access::Local,
                seed: 1,
            };
            let (server, filesystem) = load.look_up(&catalog).unwrap();
            let files = place_files(&load, (server, filesystem), (1, usable));
            assert_eq!(files.len(), 160);
            let first = files.iter().map(|file| file.start.0).min();
            assert_eq!(first >= Some(tenth - 4096), is_apart, "{}", filesystem.id);
            assert!(files.iter().all(|file| file.start.0 + file.bytes.0 <= usable.0), "{}", filesystem.id);
            // 128 blocks for each file of 512 MiB, one file's after the other's.
            let maps: Vec<_> = files.iter().filter_map(|file| file.map).collect();
            let expected = (0..160).map(|number| ByteCount(number * 128 * 4096));
            assert!(
                if is_apart { maps.into_iter().eq(expected) } else { maps.is_empty() },
                "{}",
                filesystem.id
            );
        }
    }
}
