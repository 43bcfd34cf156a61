//! The simulated configuration, and its results.

use super::world::World;
use crate::array::{ArrayPort, SimError, SimulatedEnclosure};
use raidlab_hardware::{FileServerModel, NetworkModel, NfsServerModel, Transport};
use raidlab_units::{ByteCount, NanoSpan};
use raidlab_workload::program::Program;
use raidlab_workload::{Rng, derived_seed};

/// A file server and what is on its volumes.
#[derive(Clone, Debug)]
pub struct StreamsSpec {
    /// The host.
    pub server: FileServerModel,
    /// Its controllers, each with its volumes.
    pub enclosures: Vec<SimulatedEnclosure>,
    /// What files are on.
    pub volumes: Vec<StreamsVolume>,
    /// The files of the program, by number.
    pub files: Vec<PlacedFile>,
    /// A block of the filesystem's map is read before each so many bytes of a file, if it has such.
    pub map_every: Option<ByteCount>,
    /// How the readers get at it, if they are not on the server.
    pub nfs: Option<NfsSpec>,
}

/// A volume as its filesystem sees it: volumes of enclosures, striped if there are several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamsVolume {
    /// Enclosure and volume of each part.
    pub parts: Vec<(u16, u16)>,
    /// Length of a chunk of the stripe.
    pub chunk: ByteCount,
}

/// A file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlacedFile {
    /// Index of its volume.
    pub volume: u16,
    /// Its first byte there; it goes from the volume's start again if it would not fit.
    pub start: ByteCount,
    /// Its length.
    pub bytes: ByteCount,
    /// The first block of its map, if they stand together and apart from it; else each stands before its data.
    pub map: Option<ByteCount>,
}

/// Readers on a client, by NFS.
#[derive(Clone, Debug, PartialEq)]
pub struct NfsSpec {
    /// What server and client do.
    pub server: NfsServerModel,
    /// What is between them.
    pub network: NetworkModel,
    /// Bytes of a call.
    pub transfer: ByteCount,
    /// Longest packet.
    pub mtu: ByteCount,
    /// How calls travel.
    pub transport: Transport,
}

/// What came of it; what the readers measured, their program knows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StreamsOutcome {
    /// When the last of them finished.
    pub virtual_time: NanoSpan,
    /// Share of that time in which the bus was taken.
    pub bus: f64,
    /// Share of that time in which the server's processors were busy, on average.
    pub processors: f64,
    /// Share of that time in which the client's processors were busy with calls, on average, if there is a client.
    pub client: f64,
    /// Requests to volumes.
    pub requests: u64,
}

/// Runs `program`, which may only read, against `spec` in virtual time until all its processes have finished.
///
/// # Errors
/// [`SimError`] if an enclosure can't be, or a file does not fit on its volume.
pub fn simulate_streams<P: Program>(
    spec: &StreamsSpec,
    program: &mut P,
    seed: u64,
) -> Result<StreamsOutcome, SimError> {
    let mut random = Rng::new(derived_seed(seed, 1));
    let ports = spec.enclosures.iter().map(|enclosure| ArrayPort::new(enclosure, &mut random));
    let mut world = World::new(spec, ports.collect::<Result<Vec<_>, _>>()?, program)?;
    world.run(seed)?;
    Ok(world.outcome())
}
