//! A host with volumes and files, and the results of a program on it.

use super::world::FileWorld;
use crate::array::{ArrayPort, SimError, SimulatedEnclosure};
use raidlab_controller::Counters;
use raidlab_hardware::{FilesystemModel, HostModel, PAGE_BYTES};
use raidlab_units::{ByteCount, NanoSpan};
use raidlab_workload::program::Program;
use raidlab_workload::{Rng, derived_seed};

/// A host and what is plugged into it.
#[derive(Clone, Debug)]
pub struct SimulatedHost {
    /// Processors, memory and kernel.
    pub host: HostModel,
    /// The enclosures; each has hardware of its own.
    pub enclosures: Vec<SimulatedEnclosure>,
    /// The volumes with files on them.
    pub volumes: Vec<HostVolume>,
    /// The files of the program, by number. Each has its place from the beginning.
    pub files: Vec<FilePlace>,
    /// What the page cache keeps as one: some pages, no longer than what the program reads or writes at once.
    pub unit: ByteCount,
    /// Whether files are read and written through it.
    pub access: FileAccess,
}

/// How programs open their files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileAccess {
    /// Through the page cache.
    Buffered,
    /// Past it (`O_DIRECT`), in whole units.
    Direct,
}

/// A volume with a filesystem.
#[derive(Clone, Debug)]
pub struct HostVolume {
    /// Which enclosure, and which volume of it.
    pub enclosure: usize,
    /// Which volume of the enclosure.
    pub volume: u16,
    /// What is on it.
    pub filesystem: FilesystemModel,
}

/// Where a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilePlace {
    /// Index of the volume.
    pub volume: usize,
    /// Room for it, which no other file takes.
    pub room: ByteCount,
    /// Its length when the program begins, none of it in memory; zero if the program makes it.
    pub bytes: ByteCount,
}

/// What came of a program; what it measured, it knows itself.
#[derive(Clone, Debug)]
pub struct FilesOutcome {
    /// When the last process finished.
    pub virtual_time: NanoSpan,
    /// File calls.
    pub calls: u64,
    /// Requests to volumes, reads and writes.
    pub requests: [u64; 2],
    /// Bytes read from volumes and written to them.
    pub bytes: [u64; 2],
    /// Processor time of the processes and of the kernel beside them.
    pub cpu: NanoSpan,
    /// What all controllers counted.
    pub counters: Counters,
}

/// Runs `program` on `host` until all its processes have finished.
///
/// # Errors
/// [`SimError`] if the host, its arrays or its files make no sense.
pub fn simulate_files<P: Program>(
    host: &SimulatedHost,
    program: &mut P,
    seed: u64,
) -> Result<FilesOutcome, SimError> {
    let mut random = Rng::new(derived_seed(seed, 1));
    let ports = host.enclosures.iter().map(|enclosure| ArrayPort::new(enclosure, &mut random));
    let ports = ports.collect::<Result<Vec<_>, _>>()?;
    let (bases, used) = lay_out(host, &ports)?;
    if host.unit.0 < PAGE_BYTES || !host.unit.0.is_multiple_of(PAGE_BYTES) {
        return Err(SimError::CacheUnit { unit: host.unit });
    }
    let mut world = FileWorld::new(host, program, ports, (&bases, &used));
    world.run(seed)?;
    Ok(world.outcome())
}

/// Where each file's data begins on its volume, one after the other, and what all of them take of each.
fn lay_out(host: &SimulatedHost, ports: &[ArrayPort<'_>]) -> Result<(Vec<u64>, Vec<u64>), SimError> {
    let mut used = vec![0u64; host.volumes.len()];
    let mut bases = Vec::with_capacity(host.files.len());
    for volume in &host.volumes {
        let enclosure = host.enclosures.get(volume.enclosure);
        if enclosure.is_none_or(|enclosure| usize::from(volume.volume) >= enclosure.volumes.len()) {
            return Err(SimError::NoSuchVolume { volume: volume.enclosure });
        }
    }
    for file in &host.files {
        let volume = host.volumes.get(file.volume).ok_or(SimError::NoSuchVolume { volume: file.volume })?;
        let room = file.room.max(file.bytes).0.next_multiple_of(host.unit.0);
        let usable = volume.filesystem.room_in(ports[volume.enclosure].volume_bytes(volume.volume));
        bases.push(used[file.volume]);
        used[file.volume] += room;
        if used[file.volume] > usable.0 {
            return Err(SimError::FilesTooLarge { files: ByteCount(used[file.volume]), volume: usable });
        }
    }
    Ok((bases, used))
}
